/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that are processes, and one that dies or stops: each of them, at each moment, started again or not. They add
 * up ones: after step k every element of their variable is k, whoever made the steps, or something was lost or done
 * twice. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "collective/membership.h"
#include "estoc/cluster.h"
#include "support/cluster_test.h"
#include "support/nn_test.h"

#define WORKERS  3
#define COUNT    300000 /* elements of the variable: more than a block */
#define END_SECS 30.0

enum { STAGE_COMING, STAGE_JOINING, STAGE_JOINED, STAGE_SHARING, STAGE_TRAINING, N_STAGES, STAGE_NONE };

/* --- a worker ----------------------------------------------------------------------------------------------------- */

typedef struct worker {
    int                 number;
    long                steps; /* 0: until there is a file `enough` */
    long                pause_us, victim, stage, elastic;
    double              rejoin_secs;
    char                died[160], ended[160], enough[160]; /* files: the victim was here; the job is over; it may be */
    bool                dies;                               /* it is the victim, for the first time */
    est_server         *server;
    est_membership     *membership;
    est_membership_view view;
    est_graph          *graph;
    est_session        *session;
    int64_t             step;
    bool                done; /* that was the last */
} worker;

/* Ends the process unless it is as it should be. */
static void must(est_status status, const char *what)
{
    if (status == EST_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, est_status_name(status), est_error_message());
    _exit(4);
}

static void touch(const char *path)
{
    FILE *file = fopen(path, "w");

    if (file != NULL) fclose(file);
}

static void maybe_die(const worker *w, int stage)
{
    if (!w->dies || w->stage != stage) return;
    touch(w->died);
    raise(SIGKILL);
}

static bool is_over(void *user)
{
    const worker *w = user;

    maybe_die(w, STAGE_JOINING);
    return est_file_exists(w->ended);
}

/* Dies when the values are on their way. */
static void *die_sharing(void *arg)
{
    const worker *w = arg;

    while (est_group_operations(w->view.group) < 2) {
        if (est_group_status(w->view.group) != EST_OK) return NULL; /* then in the next share */
        sched_yield();
    }
    maybe_die(w, STAGE_SHARING);
    return NULL;
}

static void open_worker(worker *w, const char *model)
{
    est_resolver   *resolver;
    const est_task *task;
    est_rank        ranks[WORKERS];
    char            names[WORKERS][16];

    snprintf(w->died, sizeof w->died, "%s.died", model);
    snprintf(w->ended, sizeof w->ended, "%s.ended", model);
    snprintf(w->enough, sizeof w->enough, "%s.enough", model);
    must(est_resolve_tf_config(NULL, EST_TASK_RULES(.no_chief_ok = true), &resolver), "TF_CONFIG");
    task      = est_resolver_task(resolver);
    w->number = task->index;
    w->dies   = w->number == w->victim && !est_file_exists(w->died);
    if (w->stage == STAGE_JOINING && w->number == (w->victim + 1) % WORKERS) { /* so that the victim has to wait */
        while (!est_file_exists(w->died)) est_sleep_ns(EST_NS_PER_SEC / 100);
    }
    for (int i = 0; i < WORKERS; i++) {
        snprintf(names[i], sizeof names[i], "worker:%d", i);
        ranks[i] = (est_rank){ names[i], est_cluster_address(task->cluster, "worker", i), 0 };
    }
    must(est_server_create(task->cluster, "worker", w->number, EST_SERVER(.silence_secs = 1.5, .threads = 1),
                           &w->server),
         "server");
    must(est_membership_create(w->server,
                               &(est_membership_options){ .tasks        = ranks,
                                                          .n            = WORKERS,
                                                          .self         = w->number,
                                                          .connect_secs = END_SECS,
                                                          .rejoin_secs  = w->rejoin_secs,
                                                          .elastic      = w->elastic != 0,
                                                          .over         = is_over,
                                                          .user         = w },
                               &w->membership),
         "membership");
    est_resolver_free(resolver);
    must(est_graph_create(1, &w->graph), "graph");
    (void)est_weight(w->graph, "x", EST_SHAPE(COUNT), EST_WEIGHT(.initializer = est_init_zeros()));
    must(est_graph_status(w->graph), "graph");
    must(est_session_create(w->graph, EST_SESSION(.threads = 1), &w->session), "session");
    w->step = -1;
}

static void close_worker(worker *w)
{
    est_membership_free(w->membership);
    est_server_free(w->server);
    est_session_free(w->session);
    est_graph_free(w->graph);
}

/* Everybody has the variables of the source. EST_ABORTED: somebody is gone. */
static est_status get_variables(worker *w)
{
    int        source  = w->view.source;
    bool       watched = w->dies && w->stage == STAGE_SHARING;
    est_thread thread;
    est_status status;

    if (source < 0) {
        source = 0;
        if (w->view.rank == 0) must(est_session_init(w->session), "first values");
    }
    if (watched) must(est_thread_start(&thread, "death", die_sharing, w), "thread");
    status = est_membership_transfer(w->membership, w->session, source);
    if (watched) est_thread_join(&thread);
    if (status == EST_OK) w->step = w->view.source >= 0 ? w->view.step : 0;
    return status;
}

/* Whether the variable is what so many steps make it; adds `more`. */
static void check_and_add(worker *w, float more)
{
    est_tensor *x = NULL;
    float      *data;

    must(est_session_read(w->session, "x", &x), "x");
    data = est_tensor_mutable_data(x);
    for (int i = 0; i < COUNT; i++) {
        if (data[i] != (float)w->step) {
            fprintf(stderr, "x[%d] is %g at step %d\n", i, (double)data[i], (int)w->step);
            _exit(5);
        }
        data[i] += more;
    }
    if (more != 0) must(est_session_write(w->session, "x", x), "x");
    est_tensor_free(x);
}

static est_status make_step(worker *w)
{
    float     one[1000];
    est_work *work;

    for (int i = 0; i < 1000; i++) one[i] = 1;
    if (w->steps == 0 && est_file_exists(w->enough)) one[0] = 2; /* the sum tells all, in the same step */
    EST_TRY(est_all_reduce(w->view.group, one, 1000, EST_F32, EST_REDUCE_OP_MEAN, NULL, &work));
    if (w->step == 20) maybe_die(w, STAGE_TRAINING);
    EST_TRY(est_work_wait(work));
    check_and_add(w, one[999]);
    w->step++;
    w->done = w->step == w->steps || one[0] > 1;
    if (w->step == 10) fprintf(stderr, "at step 10\n");
    if (w->pause_us > 0) est_sleep_ns(w->pause_us * 1000);
    return EST_OK;
}

/* Between two joins. */
static est_status train(worker *w)
{
    EST_TRY(get_variables(w));
    check_and_add(w, 0);
    w->done = w->step == w->steps && w->steps > 0;
    while (!w->done) EST_TRY(make_step(w));
    return EST_OK;
}

static int run_task(int argc, char **argv)
{
    worker     w      = { .steps       = strtol(argv[1], NULL, 10),
                          .pause_us    = strtol(argv[2], NULL, 10),
                          .victim      = strtol(argv[3], NULL, 10),
                          .stage       = strtol(argv[4], NULL, 10),
                          .elastic     = strtol(argv[5], NULL, 10),
                          .rejoin_secs = strtod(argv[6], NULL) };
    est_status status = EST_OK;

    (void)argc;
    open_worker(&w, argv[0]);
    maybe_die(&w, STAGE_COMING);
    for (;;) {
        must(est_membership_join(w.membership, w.step, "", &w.view), "join");
        if (w.view.over) break;
        maybe_die(&w, STAGE_JOINED);
        status = train(&w);
        if (status == EST_OK && w.view.rank == 0) {
            touch(w.ended);
            est_membership_end_job(w.membership);
            break;
        }
        if (status != EST_OK && status != EST_ABORTED) must(status, "training");
    }
    fprintf(stderr, "ended at step %d\n", (int)w.step);
    close_worker(&w);
    return 0;
}

/* --- what happens to them ----------------------------------------------------------------------------------------- */

typedef struct job {
    const char *steps, *pause_us;
    int         victim, stage;
    const char *elastic, *rejoin_secs;
    char        words[2][8];
} job;

static cluster begin(job *j)
{
    cluster c = cluster_make(0, WORKERS, 0, 0);

    snprintf(j->words[0], sizeof j->words[0], "%d", j->victim);
    snprintf(j->words[1], sizeof j->words[1], "%d", j->stage);
    c.args[0] = j->steps;
    c.args[1] = j->pause_us;
    c.args[2] = j->words[0];
    c.args[3] = j->words[1];
    c.args[4] = j->elastic;
    c.args[5] = j->rejoin_secs;
    cluster_start_all(&c);
    return c;
}

static void await_death(cluster *c, cluster_task *task)
{
    cluster_wait(c, task, END_SECS);
    if (!WIFSIGNALED(task->status) || WTERMSIG(task->status) != SIGKILL) {
        cluster_dump(c);
        fail_msg("%s:%d ended with status %#x", task->type, task->index, (unsigned)task->status);
    }
}

TEST(killed_and_restarted)
{
    for (int k = 0; k < WORKERS * N_STAGES; k++) {
        job           j      = { "40", "0", k % WORKERS, k / WORKERS, "0", "30", { { 0 } } };
        cluster       c      = begin(&j);
        cluster_task *victim = cluster_find(&c, "worker", j.victim);

        await_death(&c, victim);
        cluster_start(&c, victim);
        cluster_wait_all(&c, END_SECS);
        for (int i = 0; i < WORKERS; i++) assert_true(cluster_count_log(&c.tasks[i], "ended at step") > 0);
        cluster_check_clean(&c);
        cluster_free(&c);
    }
}

TEST(killed_for_good)
{
    for (int victim = 0; victim < WORKERS; victim++) {
        job     j = { "40", "0", victim, STAGE_TRAINING, "1", "2", { { 0 } } };
        cluster c = begin(&j);

        await_death(&c, cluster_find(&c, "worker", victim));
        for (int i = 0; i < WORKERS; i++) {
            if (i == victim) continue;
            cluster_wait_code(&c, &c.tasks[i], 0, END_SECS);
            assert_int_equal(cluster_count_log(&c.tasks[i], "ended at step 40"), 1);
        }
        cluster_free(&c);
    }
}

TEST(killed_and_missed)
{
    job     j = { "40", "0", 1, STAGE_TRAINING, "0", "0.5", { { 0 } } };
    cluster c = begin(&j);
    char    text[96];

    await_death(&c, cluster_find(&c, "worker", 1));
    snprintf(text, sizeof text, "DEADLINE_EXCEEDED: worker:1 (%s) did not rejoin within 0.5 s", c.tasks[1].address);
    for (int i = 0; i < WORKERS; i += 2) {
        cluster_wait_code(&c, &c.tasks[i], 4, END_SECS);
        assert_true(cluster_count_log(&c.tasks[i], text) > 0); /* it may have heard it of the other, too */
    }
    cluster_free(&c);
}

/* One that is stopped is lost to the others, who go on; when it is continued it gets their variables and trains with
 * them. */
TEST(stopped_and_continued)
{
    for (int victim = 0; victim < 2; victim++) {
        job           j       = { "0", "1000", victim, STAGE_NONE, "1", "0.5", { { 0 } } };
        cluster       c       = begin(&j);
        cluster_task *stopped = cluster_find(&c, "worker", victim);
        char          enough[160];

        cluster_wait_log(&c, stopped, "at step 10", END_SECS);
        cluster_signal(stopped, SIGSTOP);
        cluster_wait_log(&c, &c.tasks[2], "rank 1 of 2", END_SECS);
        cluster_signal(stopped, SIGCONT);
        cluster_wait_log(&c, &c.tasks[2], "generation 3, rank 2 of 3", END_SECS);
        snprintf(enough, sizeof enough, "%s.enough", c.model);
        touch(enough);
        cluster_wait_all(&c, END_SECS);
        assert_int_equal(cluster_count_log(stopped, "ended at step"), 1);
        cluster_free(&c);
    }
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, run_task);
    return est_test_run_apart(NULL, NULL);
}
