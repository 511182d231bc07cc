/* SPDX-License-Identifier: Apache-2.0
 *
 * A job of real processes whose tasks are killed: the chief coordinates epochs of calls and saves after each. The last
 * epoch begins when the test has made the file "go", so that all kills come before the end. While there is a file
 * "go.fails" the calls of epoch 1 fail. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "estoc/coordinator.h"
#include "estoc/estimator.h"
#include "support/cluster_test.h"
#include "support/nn_test.h"

#define EPOCHS  4
#define CALLS   300
#define SILENCE 1.5
#define SECS    60.0

/* --- tasks -------------------------------------------------------------------------------------------------------- */

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        if ((expr) != EST_OK) {                                                                                        \
            fprintf(stderr, "%s: %s\n", #expr, est_error_message());                                                   \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static int serve(const est_task *task)
{
    est_server *server;

    TRY(est_server_create(task->cluster, task->type, task->index, EST_SERVER(.threads = 1, .silence_secs = SILENCE),
                          &server));
    TRY(est_server_join(server));
    est_server_free(server);
    return 0;
}

typedef struct model {
    est_graph *graph;
    est_node   count, fails;
} model;

static model make_model(void)
{
    model    m = { 0 };
    est_node adds[4];

    if (est_graph_create(5, &m.graph) != EST_OK) abort();
    for (int i = 0; i < 4; i++) { /* two at each ps task */
        char     name[32];
        est_node v;

        snprintf(name, sizeof name, "/job:ps/task:%d", i / 2);
        est_graph_device(m.graph, name);
        snprintf(name, sizeof name, "v%d", i);
        v = est_variable(m.graph, name, EST_I64, EST_SHAPE_SCALAR);
        est_variable_initializer(v, est_scalar(m.graph, EST_I64, 0));
        est_graph_device(m.graph, NULL);
        adds[i] = est_assign_add(v, est_scalar(m.graph, EST_I64, 1));
        m.fails = est_check_numerics(est_log(est_neg(est_cast(est_read_variable(v), EST_F32))), "it fails");
    }
    m.count = est_group(m.graph, (est_nodes){ adds, 4 });
    return m;
}

static est_status print_counts(est_coordinator *c, const char *what, int64_t epoch)
{
    est_tensor *v;
    char        name[8];

    printf("%s %lld:", what, (long long)epoch);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "v%d", i);
        EST_TRY(est_session_read(est_coordinator_session(c), name, &v));
        printf(" %lld", (long long)*(const int64_t *)est_tensor_data(v));
        est_tensor_free(v);
    }
    printf("\n");
    (void)fflush(stdout);
    return EST_OK;
}

static est_status make_calls(est_coordinator *c, const est_function *step, int64_t epoch, const char *go)
{
    for (int i = 0; i < CALLS; i++) {
        EST_TRY(est_coordinator_schedule(c, step, EST_NO_ARGUMENTS, NULL));
        while (epoch == EPOCHS - 1 && i == CALLS / 2 && access(go, F_OK) != 0) est_sleep_ns(10000000);
    }
    return est_coordinator_join(c);
}

static est_status make_failing_call(est_coordinator *c, const model *m)
{
    est_function *bad;
    est_status    status;

    EST_TRY(est_coordinator_function(c, "bad", EST_NO_NODES, EST_NO_NODES, EST_NODES(m->fails), &bad));
    status = est_coordinator_schedule(c, bad, EST_NO_ARGUMENTS, NULL);
    est_function_free(bad);
    return status;
}

static bool is_to_fail(const char *go)
{
    char path[128];

    snprintf(path, sizeof path, "%s.fails", go);
    return access(path, F_OK) == 0;
}

static int train(est_coordinator *c, const model *m, const char *go)
{
    est_function *step;

    TRY(est_coordinator_function(c, "step", EST_NO_NODES, EST_NO_NODES, EST_NODES(m->count), &step));
    for (int64_t epoch = est_coordinator_epoch(c); epoch < EPOCHS; epoch++) {
        est_status status;

        TRY(print_counts(c, "begin", epoch));
        if (epoch == 1 && is_to_fail(go)) TRY(make_failing_call(c, m));
        status = make_calls(c, step, epoch, go);
        if (status == EST_CANCELLED) {
            printf("cancelled: %s\n", est_error_message());
            TRY(est_coordinator_save(c, epoch));
            est_function_free(step);
            return est_exit_code(status);
        }
        TRY(status);
        TRY(print_counts(c, "end", epoch));
        TRY(est_coordinator_save(c, epoch + 1));
    }
    est_function_free(step);
    TRY(est_coordinator_end(c));
    return 0;
}

static int coordinate(const char *dir, const char *go)
{
    model            m = make_model();
    est_strategy    *strategy;
    est_coordinator *c;
    int              code;

    TRY(est_parameter_server_strategy(NULL, &strategy));
    TRY(est_coordinator_create(strategy, m.graph,
                               EST_COORDINATOR(.model_dir = dir, .threads = 1, .silence_secs = SILENCE,
                                               .fail_after = 100, .connect_secs = SECS, .lonely_secs = SECS),
                               &c));
    code = train(c, &m, go);
    est_coordinator_free(c);
    est_strategy_free(strategy);
    est_graph_free(m.graph);
    return code;
}

static int run(int argc, char **argv)
{
    est_resolver   *resolver;
    const est_task *task;
    int             code;

    if (argc < 2) return 2;
    TRY(est_resolve_tf_config(NULL, NULL, &resolver));
    task = est_resolver_task(resolver);
    code = task->is_chief ? coordinate(argv[0], argv[1]) : serve(task);
    est_resolver_free(resolver);
    return code;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

typedef struct job {
    cluster c;
    char    go[96];
} job;

static void start(job *j, int ps)
{
    j->c = cluster_make(1, 2, ps, 0);
    snprintf(j->go, sizeof j->go, "%s/go", j->c.dir);
    CLUSTER_SET(&j->c, j->go);
    cluster_start_all(&j->c);
}

static void let_it_end(job *j)
{
    FILE *file = fopen(j->go, "we");

    assert_non_null(file);
    (void)fclose(file);
    cluster_wait_all(&j->c, SECS);
}

static cluster_task *task(job *j, const char *type, int index)
{
    return cluster_find(&j->c, type, index);
}

static void kill_and_start(job *j, const char *type, int index)
{
    cluster_signal(task(j, type, index), SIGKILL);
    cluster_wait(&j->c, task(j, type, index), SECS);
    cluster_start(&j->c, task(j, type, index));
}

/* All variables have counted each call once. */
static void assert_exact(job *j)
{
    char line[64];

    snprintf(line, sizeof line, "end %d: %d %d %d %d\n", EPOCHS - 1, EPOCHS * CALLS, EPOCHS * CALLS, EPOCHS * CALLS,
             EPOCHS * CALLS);
    if (cluster_count_log(task(j, "chief", 0), line) != 1) {
        cluster_dump(&j->c);
        fail_msg("not once in the log: %s", line);
    }
}

TEST(killed_and_stopped_workers)
{
    job j;

    start(&j, 2);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:0 is here", SECS);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:1 is here", SECS);
    kill_and_start(&j, "worker", 0);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:0 is lost", SECS);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:0 is back, as a new process", SECS);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "begin 3", SECS);
    cluster_signal(task(&j, "worker", 1), SIGSTOP); /* in the middle of the last epoch */
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:1 is lost", SECS);
    cluster_signal(task(&j, "worker", 1), SIGCONT);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:1 is back\n", SECS);
    let_it_end(&j);
    assert_exact(&j);
    cluster_check_ledgers(&j.c);
    cluster_free(&j.c);
}

/* The coordinator returns to its checkpoint, with all variables; workers and ps tasks are not started again. */
TEST(killed_coordinator)
{
    job j;

    start(&j, 2);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "end 0", SECS);
    kill_and_start(&j, "chief", 0);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "begin 3", SECS);
    kill_and_start(&j, "chief", 0);
    let_it_end(&j);
    assert_exact(&j);
    assert_int_equal(task(&j, "worker", 0)->starts + task(&j, "ps", 0)->starts, 2);
    cluster_free(&j.c);
}

/* The variables of a killed ps task return to the checkpoint; in the middle of an epoch those of the other do not. */
TEST(killed_ps)
{
    job  j;
    char line[64];

    start(&j, 2);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "begin 3", SECS);
    kill_and_start(&j, "ps", 1);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "the link to ps:1 is lost", SECS);
    let_it_end(&j);
    snprintf(line, sizeof line, "end %d: %d %d ", EPOCHS - 1, EPOCHS * CALLS, EPOCHS * CALLS);
    assert_int_equal(cluster_count_log(task(&j, "chief", 0), line), 1);
    assert_int_equal(cluster_count_log(task(&j, "chief", 0), "ps:1 lost its variables: 2 of them returned to"), 1);
    cluster_free(&j.c);
}

/* A coordinator whose program fails leaves the job as it is; the other tasks say what they wait for. The next one
 * completes it, and ends it: est_server_join succeeds in all tasks. */
TEST(failed_coordinator)
{
    job   j = { .c = cluster_make(1, 2, 2, 0) };
    char  path[128];
    FILE *file;

    snprintf(j.go, sizeof j.go, "%s/go", j.c.dir);
    snprintf(path, sizeof path, "%s.fails", j.go);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fclose(file);
    CLUSTER_SET(&j.c, j.go);
    cluster_start_all(&j.c);
    cluster_wait_code(&j.c, task(&j, "chief", 0), 1, SECS);
    assert_true(cluster_count_log(task(&j, "chief", 0), "it fails") > 0);
    cluster_wait_log(&j.c, task(&j, "ps", 0), "for the coordinator: it has left", SECS);
    cluster_wait_log(&j.c, task(&j, "worker", 1), "for the coordinator: it has left", SECS);
    assert_int_equal(unlink(path), 0);
    cluster_start(&j.c, task(&j, "chief", 0));
    let_it_end(&j);
    assert_exact(&j);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(task(&j, "ps", i)->starts, 1);
        assert_int_equal(task(&j, "worker", i)->starts, 1);
    }
    cluster_free(&j.c);
}

/* A worker that is asked to end does so, and the other makes its calls. */
TEST(terminated_worker)
{
    job j;

    start(&j, 2);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "begin 3", SECS);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:0 is here", SECS);
    cluster_signal(task(&j, "worker", 0), SIGTERM);
    cluster_wait(&j.c, task(&j, "worker", 0), SECS);
    cluster_wait_log(&j.c, task(&j, "chief", 0), "worker:0 is lost", SECS);
    cluster_start(&j.c, task(&j, "worker", 0));
    let_it_end(&j);
    assert_exact(&j);
    cluster_free(&j.c);
}

/* SIGTERM ends the wait of a coordinator. It saves and leaves; ps tasks wait for the next one, which goes on. */
TEST(terminated_coordinator)
{
    job j = { .c = cluster_make(1, 2, 2, 0) };

    snprintf(j.go, sizeof j.go, "%s/go", j.c.dir);
    CLUSTER_SET(&j.c, j.go);
    for (int i = 0; i < 2; i++) cluster_start(&j.c, task(&j, "ps", i));
    cluster_start(&j.c, task(&j, "chief", 0));
    cluster_wait_log(&j.c, task(&j, "chief", 0), "begin 0", SECS); /* and waits for workers */
    cluster_signal(task(&j, "chief", 0), SIGTERM);
    cluster_wait_code(&j.c, task(&j, "chief", 0), 75, SECS);
    assert_int_equal(cluster_count_log(task(&j, "chief", 0), "cancelled: SIGTERM"), 1);
    cluster_start(&j.c, task(&j, "chief", 0));
    for (int i = 0; i < 2; i++) cluster_start(&j.c, task(&j, "worker", i));
    let_it_end(&j);
    assert_exact(&j);
    assert_int_equal(task(&j, "ps", 0)->starts + task(&j, "ps", 1)->starts, 2);
    cluster_free(&j.c);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run);
    return est_test_run_apart(NULL, NULL);
}
