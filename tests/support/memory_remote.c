/* SPDX-License-Identifier: Apache-2.0
 *
 * Remote tasks in memory. */
#include "support/memory_remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/nn_test.h"

#define TASKS_MAX  16
#define VALUES_MAX 256

typedef struct memory_remote {
    est_remote base;
    est_host  *hosts[TASKS_MAX];
    uint64_t   load[TASKS_MAX];
    char       names[TASKS_MAX][16];
    int        starts[TASKS_MAX];
    size_t     bytes;
} memory_remote;

struct est_remote_segment {
    memory_remote *remote;
    int            task, number, n_out;
    bool           started;
    uint64_t       seed;
    est_tensor    *in[VALUES_MAX], *out[VALUES_MAX];
    const void    *sent[VALUES_MAX]; /* where the inputs lay */
    int            n_in;
    est_view       views[VALUES_MAX];
};

static memory_remote *of(const est_remote *remote)
{
    return (memory_remote *)(uintptr_t)remote; /* its first member */
}

/* What the tasks have counts as their load. */
static est_status connect_tasks(est_remote *remote)
{
    for (int i = 0; i < remote->n_tasks; i++) {
        const est_store *store = est_host_store(of(remote)->hosts[i]);

        of(remote)->load[i] = 0;
        for (int k = 0; k < est_store_size(store); k++) {
            const est_view *value = &est_store_at(store, k)->value;
            of(remote)->load[i] += (uint64_t)value->count * est_dtype_size(value->dtype);
        }
    }
    return EST_OK;
}

static const char *name(const est_remote *remote, int task)
{
    return of(remote)->names[task];
}

static int find(const est_remote *remote, const char *job, int index)
{
    return strcmp(job, "ps") == 0 && index < remote->n_tasks ? index : -1;
}

static bool is_here(const est_remote *remote, const char *job, int index)
{
    (void)remote;
    return strcmp(job, "worker") == 0 && index == 0;
}

static int located(const est_remote *remote, const char *variable)
{
    for (int i = 0; i < remote->n_tasks; i++) {
        if (est_store_find(est_host_store(of(remote)->hosts[i]), variable) != NULL) return i;
    }
    return -1;
}

static int place(est_remote *remote, uint64_t bytes, const bool *taken)
{
    memory_remote *r    = of(remote);
    int            best = -1;

    for (int i = 0; i < remote->n_tasks; i++) {
        if (taken != NULL && taken[i]) continue;
        if (best < 0 || r->load[i] < r->load[best]) best = i;
    }
    assert_true(best >= 0);
    r->load[best] += bytes;
    return best;
}

static est_status enter(est_remote *remote, const est_segment *cut, est_remote_segment **out)
{
    est_wire_writer     bytes   = { 0 };
    est_remote_segment *segment = calloc(1, sizeof *segment);
    est_status          status;

    assert_non_null(segment);
    segment->remote = of(remote);
    segment->task   = cut->task;
    status          = est_segment_encode(cut, &bytes);
    if (status == EST_OK)
        status = est_host_enter(segment->remote->hosts[segment->task], bytes.data, bytes.size, &segment->number);
    est_wire_writer_clear(&bytes);
    if (status != EST_OK) {
        free(segment);
        return status;
    }
    segment->n_out = est_host_outputs(segment->remote->hosts[segment->task], segment->number);
    assert_int_equal(est_host_inputs(segment->remote->hosts[segment->task], segment->number), cut->io.n_feeds);
    *out = segment;
    return EST_OK;
}

static void drop(est_tensor **values, int n)
{
    for (int i = 0; i < n; i++) {
        est_tensor_free(values[i]);
        values[i] = NULL;
    }
}

static void leave(est_remote_segment *segment)
{
    drop(segment->in, segment->n_in);
    drop(segment->out, segment->n_out);
    free(segment);
}

static est_status start(est_remote_segment *segment, uint64_t run_seed, est_view *const *in, int n_in)
{
    assert_false(segment->started);
    assert_true(n_in <= VALUES_MAX);
    segment->started = true;
    segment->seed    = run_seed;
    segment->n_in    = n_in;
    segment->remote->starts[segment->task]++;
    for (int i = 0; i < n_in; i++) {
        EST_TRY(est_tensor_create_from(in[i]->dtype, in[i]->shape, in[i]->data, &segment->in[i]));
        segment->sent[i] = in[i]->data;
        segment->remote->bytes += est_tensor_bytes(segment->in[i]);
    }
    return EST_OK;
}

/* A network may still be sending them: nobody else may have written there. */
static void check_untouched(const est_remote_segment *segment)
{
    for (int i = 0; i < segment->n_in; i++) {
        if (est_tensor_bytes(segment->in[i]) == 0 || est_tensor_dtype(segment->in[i]) == EST_STRING) continue;
        if (memcmp(est_tensor_data(segment->in[i]), segment->sent[i], est_tensor_bytes(segment->in[i])) != 0) {
            fail_msg("input %d of a segment was overwritten before its end", i);
        }
    }
}

/* Runs it only now: what is done between start and finish must not depend on when the other task gets to it. */
static est_status finish(est_remote_segment *segment, const est_view **out)
{
    est_host         *host = segment->remote->hosts[segment->task];
    const est_tensor *in[VALUES_MAX];
    est_status        status;

    assert_true(segment->started);
    segment->started = false;
    check_untouched(segment);
    for (int i = 0; i < segment->n_in; i++) in[i] = segment->in[i];
    status = est_host_run(host, segment->number, segment->seed, in);
    drop(segment->in, segment->n_in);
    EST_TRY(status);
    drop(segment->out, segment->n_out);
    for (int i = 0; i < segment->n_out; i++) {
        const est_view *view = est_host_output(host, segment->number, i);

        EST_TRY(est_tensor_create_from(view->dtype, view->shape, view->data, &segment->out[i]));
        segment->views[i] = (est_view){ est_tensor_mutable_data(segment->out[i]), view->dtype, view->shape,
                                        view->count };
        segment->remote->bytes += est_tensor_bytes(segment->out[i]);
    }
    *out = segment->n_out > 0 ? segment->views : NULL; /* as a message without tensors has it */
    return EST_OK;
}

static void abandon(est_remote *remote)
{
    (void)remote;
}

static est_status initialized(est_remote *remote, est_var *const *vars, int n, bool *flags)
{
    for (int i = 0; i < n; i++) {
        const est_var *var = est_store_find(est_host_store(of(remote)->hosts[vars[i]->task]), vars[i]->name);

        flags[i] = var != NULL && var->initialized;
    }
    return EST_OK;
}

static est_status read_variable(est_remote *remote, const est_var *var, est_tensor **out)
{
    const est_var *there = est_store_find(est_host_store(of(remote)->hosts[var->task]), var->name);

    if (there == NULL || !there->initialized) {
        return est_fail(EST_FAILED_PRECONDITION, "variable '%s' has no value yet", var->name);
    }
    return est_var_read(there, NULL, out);
}

static est_status write_variable(est_remote *remote, const est_var *var, const est_tensor *value)
{
    est_var *there;

    EST_TRY(est_store_get(est_host_store(of(remote)->hosts[var->task]), var->name, var->value.dtype, var->value.shape,
                          &there));
    return est_var_write(there, est_tensor_data(value));
}

/* The entries of one task; how many. */
static int entries_of(const est_remote_entry *entries, int n, int task, est_store_entry *out)
{
    int count = 0;

    assert_true(n <= VALUES_MAX);
    for (int i = 0; i < n; i++) {
        if (entries[i].task == task) out[count++] = entries[i].entry;
    }
    return count;
}

static est_status find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out)
{
    *out = -1;
    for (int i = 0; i < n && *out < 0; i++) {
        if (est_store_find_nan(est_host_store(of(remote)->hosts[entries[i].task]), &entries[i].entry, 1) == 0) *out = i;
    }
    return EST_OK;
}

static est_status save_part(est_remote *remote, const est_remote_files *files, int task, bool *wrote)
{
    est_store_entry entries[VALUES_MAX];
    int             n = entries_of(files->entries, files->n, task, entries);
    est_snapshot   *snapshot;
    char           *prefix;
    est_status      status;

    if (n == 0) return EST_OK;
    EST_TRY(est_store_snapshot(est_host_store(of(remote)->hosts[task]), entries, n, &snapshot));
    if (est_part_prefix(files->prefix, task, &prefix) != EST_OK) {
        est_snapshot_free(snapshot);
        return EST_RESOURCE_EXHAUSTED;
    }
    status = est_snapshot_write(snapshot, prefix);
    *wrote = status == EST_OK;
    est_snapshot_free(snapshot);
    est_free(prefix);
    return status;
}

static est_status save(est_remote *remote, const est_remote_files *files, bool *parts)
{
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(save_part(remote, files, i, &parts[i]));
    return EST_OK;
}

static est_status read_part(est_remote *remote, const est_remote_files *files, int task, bool verify)
{
    est_host       *host = of(remote)->hosts[task];
    est_store_entry entries[VALUES_MAX];
    int             n = entries_of(files->entries, files->n, task, entries);
    est_bundle     *bundle;
    est_status      status;

    if (n == 0) return EST_OK;
    EST_TRY(est_bundle_open(files->prefix, &bundle));
    est_bundle_set_pool(bundle, est_host_pool(host));
    status = verify ? est_store_verify(bundle, entries, n)
                    : est_store_restore(est_host_store(host), bundle, entries, n);
    est_bundle_close(bundle);
    return status;
}

static est_status verify(est_remote *remote, const est_remote_files *files)
{
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(read_part(remote, files, i, true));
    return EST_OK;
}

static est_status restore(est_remote *remote, const est_remote_files *files)
{
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(read_part(remote, files, i, false));
    return EST_OK;
}

static const est_remote_ops memory_ops = {
    .connect     = connect_tasks,
    .name        = name,
    .find        = find,
    .is_here     = is_here,
    .located     = located,
    .place       = place,
    .enter       = enter,
    .leave       = leave,
    .start       = start,
    .finish      = finish,
    .abandon     = abandon,
    .initialized = initialized,
    .read        = read_variable,
    .write       = write_variable,
    .find_nan    = find_nan,
    .save        = save,
    .verify      = verify,
    .restore     = restore,
};

est_remote *memory_remote_create(int n_tasks)
{
    memory_remote *r = calloc(1, sizeof *r);

    assert_non_null(r);
    assert_true(n_tasks <= TASKS_MAX);
    r->base = (est_remote){ .ops = &memory_ops, .n_tasks = n_tasks, .n_keepers = n_tasks };
    for (int i = 0; i < n_tasks; i++) {
        assert_ok(est_host_create(1, &r->hosts[i]));
        snprintf(r->names[i], sizeof r->names[i], "ps:%d", i);
    }
    return &r->base;
}

void memory_remote_free(est_remote *remote)
{
    for (int i = 0; i < remote->n_tasks; i++) est_host_free(of(remote)->hosts[i]);
    free(of(remote));
}

est_host *memory_remote_host(est_remote *remote, int task)
{
    return of(remote)->hosts[task];
}

void memory_remote_lose(est_remote *remote, int task)
{
    est_host_free(of(remote)->hosts[task]);
    assert_ok(est_host_create(1, &of(remote)->hosts[task]));
}

int memory_remote_starts(const est_remote *remote, int task)
{
    return of(remote)->starts[task];
}

size_t memory_remote_bytes(const est_remote *remote)
{
    return of(remote)->bytes;
}

void memory_remote_reset(est_remote *remote)
{
    memset(of(remote)->starts, 0, sizeof of(remote)->starts);
    of(remote)->bytes = 0;
}
