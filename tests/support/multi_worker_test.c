/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of multi-worker training. */
#include "support/multi_worker_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "support/estimator_test.h"

cluster multi_worker_make(int workers, const char *steps, const char *more)
{
    cluster c = cluster_make(0, workers, 0, 0);

    CLUSTER_SET(&c, steps, "mirrored=1", "timeout=60", "return=60", "silence=20", "save=40", "pause_us=2000", more);
    return c;
}

cluster_task *multi_worker_worker(cluster *c, int i)
{
    return cluster_find(c, "worker", i);
}

cluster multi_worker_calm(int workers, const char *steps, const char *more)
{
    cluster c = multi_worker_make(workers, steps, more);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    return c;
}

void multi_worker_kill(cluster *c, cluster_task *task)
{
    cluster_signal(task, SIGKILL);
    cluster_wait(c, task, 20);
    if (!WIFSIGNALED(task->status) || WTERMSIG(task->status) != SIGKILL) {
        fail_msg("%s:%d had ended, with status %#x", task->type, task->index, (unsigned)task->status);
    }
}

void multi_worker_assert_same(const cluster *a, const cluster *b)
{
    est_checkpoint *first = NULL, *second = NULL;

    assert_int_equal(est_checkpoint_open(a->model, &first), EST_OK);
    assert_int_equal(est_checkpoint_open(b->model, &second), EST_OK);
    assert_int_equal(est_checkpoint_count(first), est_checkpoint_count(second));
    for (int i = 0; i < est_checkpoint_count(first); i++) {
        const char *name = est_checkpoint_at(first, i)->name;
        est_tensor *x = NULL, *y = NULL;

        if (strcmp(name, "estoc/input_positions") == 0) continue;
        assert_int_equal(est_checkpoint_read(first, name, &x), EST_OK);
        assert_int_equal(est_checkpoint_read(second, name, &y), EST_OK);
        assert_int_equal(est_tensor_bytes(x), est_tensor_bytes(y));
        if (memcmp(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x)) != 0) fail_msg("%s differs", name);
        est_tensor_free(x);
        est_tensor_free(y);
    }
    est_checkpoint_close(first);
    est_checkpoint_close(second);
}

void multi_worker_end(cluster *c, long steps)
{
    assert_int_equal(cluster_saved_step(c), steps);
    cluster_check_clean(c);
    cluster_free(c);
}

void multi_worker_end_as_calm(cluster *c, int workers, const char *more)
{
    char    steps[32];
    cluster calm;
    long    last;

    cluster_enough(c);
    for (int i = 0; i < c->n; i++) {
        if (c->tasks[i].pid > 0) cluster_wait_code(c, &c->tasks[i], 0, 60);
    }
    last = cluster_saved_step(c);
    snprintf(steps, sizeof steps, "steps=%ld", last);
    calm = multi_worker_make(workers, steps, more);
    CLUSTER_SET(&calm, cluster_word(c, "pause_us="));
    cluster_start_all(&calm);
    cluster_wait_all(&calm, 60);
    multi_worker_assert_same(&calm, c);
    multi_worker_end(&calm, last);
    multi_worker_end(c, last);
}

est_status multi_worker_show(est_hook *hook, est_loop *loop)
{
    est_nodes all = est_trainable_variables(est_loop_graph(loop));

    (void)hook;
    for (int i = 0; i < all.n; i++) {
        est_tensor *value = NULL;
        double      sum   = 0;

        EST_TRY(est_session_read(est_loop_session(loop), est_node_name(all.data[i]), &value));
        for (int64_t k = 0; k < est_tensor_count(value); k++) {
            sum += (double)(k % 7 + 1) * (double)((const float *)est_tensor_data(value))[k];
        }
        fprintf(stderr, "variable %d at %lld: %.9g\n", i, (long long)est_loop_global_step(loop), sum);
        est_tensor_free(value);
    }
    return EST_OK;
}

/* What a worker says of a variable in the end. */
static void read_line(const cluster_task *task, long step, int variable, char *out, size_t size)
{
    char  start[48];
    FILE *log = fopen(task->log, "r");
    bool  found;

    snprintf(start, sizeof start, "variable %d at %ld: ", variable, step);
    assert_non_null(log);
    do {
        if (fgets(out, (int)size, log) == NULL) fail_msg("%s: no line \"%s\"", task->log, start);
        found = strncmp(out, start, strlen(start)) == 0;
    } while (!found);
    fclose(log);
}

void multi_worker_check_shown(cluster *c, const char *first, long step, int variables)
{
    for (int i = 0; i < variables; i++) {
        char a[128], b[128];

        read_line(cluster_find(c, first, 0), step, i, a, sizeof a);
        read_line(multi_worker_worker(c, 0), step, i, b, sizeof b);
        assert_string_equal(a, b);
    }
}
