/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs of a loop: their events, and the logs that hooks read and add to. Logs are measured when somebody reads them,
 * so that a step costs nothing for them. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "data/stage.h"
#include "train/loop_state.h"

static est_loop_log_item *find_log(const est_loop *loop, const char *name)
{
    for (int i = 0; i < loop->n_logs; i++) {
        if (strcmp(loop->logs[i].name, name) == 0) return &loop->logs[i];
    }
    return NULL;
}

static est_loop_log_item *add_log(est_loop *loop, const char *name)
{
    const char *copy;

    if (loop->n_logs == loop->logs_capacity) {
        int                capacity = loop->logs_capacity > 0 ? 2 * loop->logs_capacity : 8;
        est_loop_log_item *logs     = est_realloc(loop->logs, (size_t)capacity * sizeof *logs);

        if (logs == NULL) return NULL;
        loop->logs          = logs;
        loop->logs_capacity = capacity;
    }
    copy = est_arena_strdup(loop->arena, name);
    if (copy == NULL) return NULL;
    loop->logs[loop->n_logs] = (est_loop_log_item){ .name = copy };
    return &loop->logs[loop->n_logs++];
}

void est_loop_set_log(est_loop *loop, const char *name, double value)
{
    est_loop_log_item *item;

    if (loop == NULL || name == NULL) return;
    item = find_log(loop, name);
    if (item == NULL) item = add_log(loop, name);
    if (item == NULL) {
        est_loop_fail(loop, est_no_memory());
        return;
    }
    item->value = value;
    item->there = true;
}

void est_loop_outdate_logs(est_loop *loop)
{
    loop->unmeasured = true;
}

est_status est_loop_measure(est_loop *loop)
{
    if (!loop->unmeasured || loop->spec.measure == NULL) return EST_OK;
    loop->unmeasured = false;
    EST_TRY(loop->spec.measure(loop->spec.user, loop));
    return loop->failed != EST_OK ? est_error_raise(&loop->error) : EST_OK;
}

static void measure_for_reader(est_loop *loop)
{
    est_status status = est_loop_measure(loop);

    if (status != EST_OK) est_loop_fail(loop, status);
}

double est_loop_log(est_loop *loop, const char *name)
{
    const est_loop_log_item *item;

    if (loop == NULL || name == NULL) return NAN;
    measure_for_reader(loop);
    item = find_log(loop, name);
    return item != NULL && item->there ? item->value : NAN;
}

/* The i-th of those that are there; NULL: there are fewer. *n: how many there are. */
static const est_loop_log_item *log_at(const est_loop *loop, int at, int *n)
{
    const est_loop_log_item *found = NULL;

    *n = 0;
    for (int i = 0; i < loop->n_logs; i++) {
        if (!loop->logs[i].there) continue;
        if (*n == at) found = &loop->logs[i];
        ++*n;
    }
    return found;
}

int est_loop_logs(est_loop *loop)
{
    int n;

    if (loop == NULL) return 0;
    measure_for_reader(loop);
    (void)log_at(loop, -1, &n);
    return n;
}

const char *est_loop_log_name(est_loop *loop, int i)
{
    const est_loop_log_item *item;
    int                      n;

    if (loop == NULL) return NULL;
    item = log_at(loop, i, &n);
    return item != NULL ? item->name : NULL;
}

int64_t est_loop_epoch(const est_loop *loop)
{
    return loop != NULL ? loop->epoch : -1;
}

int64_t est_loop_epochs(const est_loop *loop)
{
    return loop != NULL ? loop->epochs : -1;
}

est_status est_loop_begin_epoch(est_loop *loop, int64_t epoch, int64_t epochs, int64_t pass)
{
    loop->epoch  = epoch;
    loop->epochs = epochs;
    for (int i = 0; i < loop->n_logs; i++) loop->logs[i].there = false;
    loop->unmeasured = false;
    if (pass >= 0) {
        loop->turn = est_turn_mix(0, (uint64_t)pass); /* that of the pass of a repeated dataset */
        EST_TRY(est_loop_reset_input(loop));
    }
    return est_loop_call_hooks(loop, offsetof(est_hook, epoch_begin), "epoch_begin", false);
}

void est_loop_lend(est_loop *loop, est_session *session)
{
    loop->session = session;
}

est_status est_loop_made(est_loop *loop, int64_t n, int64_t global_step)
{
    loop->global_step = global_step;
    loop->runs += n;
    loop->unmeasured = true;
    loop->loss       = est_loop_log(loop, "loss");
    if (loop->failed != EST_OK) return est_error_raise(&loop->error);
    return est_loop_call_hooks(loop, offsetof(est_hook, after_run), "after_run", false);
}

est_status est_loop_end_epoch(est_loop *loop)
{
    EST_TRY(est_loop_measure(loop));
    return est_loop_call_hooks(loop, offsetof(est_hook, epoch_end), "epoch_end", false);
}
