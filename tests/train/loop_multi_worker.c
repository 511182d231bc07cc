/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of multi-worker training, in threads: one whose input has ended makes steps without a batch, and of its hooks
 * those are called that said they need none. Which of the library's do. */
#include "train/loop_test.h"

#include "nn/replicas_reduce.h"
#include "strategy/multi_worker.h"
#include "strategy/replicas_build.h"
#include "support/memory_communicator.h"

#define WORKERS 2

/* --- a worker ----------------------------------------------------------------------------------------------------- */

typedef struct counting_hook {
    est_hook hook;
    int      before, after;
} counting_hook;

typedef struct worker {
    est_graph        *graph;
    est_dataset      *input;
    est_node          x, y, weight, loss, train;
    est_communicator *communicator;
    est_loop_strategy strategy;
    est_tensor      **idle;
    int               n_idle;
    est_hook         *hooks[6];
    int               n_hooks;
    int64_t           runs, step;
    int               rejoins;
    int64_t           rejoin_step; /* that the others have made meanwhile; 0: none */
    est_status        status;
    est_error         error;
} worker;

static est_status count_before(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, counting_hook, hook)->before++;
    return EST_OK;
}

static est_status count_after(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, counting_hook, hook)->after++;
    return EST_OK;
}

static counting_hook counting(bool idle)
{
    return (counting_hook){ .hook = EST_HOOK(.before_run = count_before, .after_run = count_after, .idle = idle) };
}

static est_node join_losses(est_graph *graph, void *const *brought, int n)
{
    est_replica_reduction reduction = est_replica_reduction_begin(graph, EST_REDUCE_OP_MEAN,
                                                                  est_graph_replicas(graph)->weight);

    (void)n;
    return est_replica_reduce_value(&reduction, &((const worker *)brought[0])->loss);
}

static est_status build(int replica, void *user)
{
    worker  *w = user;
    est_node v;

    (void)replica;
    w->x     = est_placeholder(w->graph, "x", EST_F32, EST_SHAPE(-1));
    w->y     = est_placeholder(w->graph, "y", EST_F32, EST_SHAPE(-1));
    v        = est_weight(w->graph, "w", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    w->loss  = est_mean(est_squared_difference(est_mul(w->x, est_read_variable(v)), w->y));
    w->train = est_minimize(est_sgd(0.01), w->loss, NULL);
    w->loss  = est_replicas_merge(w->graph, join_losses, w);
    return est_graph_status(w->graph);
}

static est_status initialize(void *user, est_loop *loop, int64_t *step)
{
    (void)user;
    *step = 0;
    return est_session_init(est_loop_session(loop));
}

/* The others have made one step more, or as many as this one. */
static est_status rejoin(void *user, est_loop *loop, int64_t *step, bool *over)
{
    worker *w = user;

    (void)loop;
    (void)over;
    w->rejoins++;
    if (w->rejoin_step > 0) *step = w->rejoin_step;
    return EST_OK;
}

static void make_worker(worker *w, est_communicator *communicator, int rank, int rows)
{
    est_replicas r = {
        .n = 1, .first_global = rank, .total = WORKERS, .across_workers = true, .gradients = EST_REDUCE_OP_MEAN
    };

    *w = (worker){ .communicator = communicator };
    assert_ok(est_graph_create(1, &w->graph));
    w->weight = est_placeholder(w->graph, "rows", EST_F32, EST_SHAPE_SCALAR);
    r.weight  = &w->weight;
    (void)est_global_step(w->graph);
    assert_ok(est_replicas_build(w->graph, r, build, w));
    assert_ok(est_multi_worker_idle(w->graph, &w->strategy, &w->idle, &w->n_idle));
    w->strategy.rejoin = rejoin;
    w->strategy.user   = w;
    assert_ok(trainer_input(rows, 1, &w->input));
}

static void free_worker(worker *w)
{
    for (int i = 0; i < w->n_idle; i++) est_tensor_free(w->idle[i]);
    est_dataset_free(w->input);
    est_graph_free(w->graph);
}

static void run_worker(void *user, int rank)
{
    worker       *w       = (worker *)user + rank;
    est_loop_feed feeds[] = { { .node = w->weight, .rows = true },
                              { .node = w->x, .component = 0 },
                              { .node = w->y, .component = 1 } };
    est_node      step    = est_after(est_read_variable(est_global_step(w->graph)), w->train);
    est_loop     *loop    = NULL;

    w->status = est_loop_open(&(est_loop_spec){ .graph     = w->graph,
                                                .model_dir = est_test_root,
                                                .session  = *EST_SESSION(.threads = 1, .communicator = w->communicator),
                                                .input    = w->input,
                                                .feeds    = feeds,
                                                .n_feeds  = 3,
                                                .strategy = w->strategy,
                                                .loss     = w->loss,
                                                .global_step = step,
                                                .targets     = { &w->train, 1 },
                                                .hooks       = { w->hooks, w->n_hooks },
                                                .initialize  = initialize,
                                                .user        = w },
                              &loop);
    if (w->status == EST_OK) w->status = est_loop_run(loop);
    est_error_take(w->status, &w->error);
    w->runs = loop != NULL ? est_loop_runs(loop) : 0;
    w->step = loop != NULL ? est_loop_global_step(loop) : 0;
    est_loop_free(loop);
}

static void expect_steps(const worker *w, int64_t steps)
{
    for (int i = 0; i < WORKERS; i++) {
        if (w[i].status != EST_OK) fail_msg("worker %d: %s", i, w[i].error.message);
        assert_int_equal(w[i].step, steps);
    }
}

/* --- idle steps --------------------------------------------------------------------------------------------------- */

/* The first has one batch, the second five. */
TEST(idle, .setup_func = keep_log)
{
    memory_communicator *communicator = memory_communicator_create(WORKERS);
    worker               w[WORKERS];
    counting_hook        all = counting(true), batches = counting(false);
    est_saver           *saver = NULL;
    est_hook            *own[3];

    for (int i = 0; i < WORKERS; i++) make_worker(&w[i], memory_communicator_of(communicator, i), i, i == 0 ? 2 : 10);
    assert_ok(est_saver_create(est_test_root, NULL, &saver));
    own[0] = est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = 2, .saver = saver));
    own[1] = est_step_counter_hook(EST_EVERY(.steps = 1));
    own[2] = est_loss_log_hook(1);
    for (int i = 0; i < 3; i++) w[0].hooks[w[0].n_hooks++] = own[i];
    w[0].hooks[w[0].n_hooks++] = &all.hook;
    w[0].hooks[w[0].n_hooks++] = &batches.hook;
    memory_communicator_run(WORKERS, run_worker, w);
    expect_steps(w, 5);
    assert_int_equal(w[0].runs, 5);
    assert_true(all.before == 6 && all.after == 5); /* the last found that nobody has more */
    assert_true(batches.before == 1 && batches.after == 1);
    assert_true(log_has("Saving checkpoints for 4 into") && log_has("Saving checkpoints for 5 into"));
    assert_true(log_has("step = 4") && log_has("global_step/sec"));
    for (int i = 0; i < 3; i++) est_hook_free(own[i]);
    est_saver_free(saver);
    for (int i = 0; i < WORKERS; i++) free_worker(&w[i]);
    memory_communicator_free(communicator);
}

/* A stop at a step is for all, also for whoever has no batch. */
TEST(idle_stop, .setup_func = keep_log)
{
    memory_communicator *communicator = memory_communicator_create(WORKERS);
    worker               w[WORKERS];

    for (int i = 0; i < WORKERS; i++) {
        make_worker(&w[i], memory_communicator_of(communicator, i), i, i == 0 ? 2 : 10);
        w[i].hooks[w[i].n_hooks++] = est_stop_at_step_hook(0, 3);
    }
    memory_communicator_run(WORKERS, run_worker, w);
    expect_steps(w, 3);
    for (int i = 0; i < WORKERS; i++) {
        est_hook_free(w[i].hooks[0]);
        free_worker(&w[i]);
    }
    memory_communicator_free(communicator);
}

/* --- joining again ------------------------------------------------------------------------------------------------ */

/* A step that only others have made is the last one for this worker, too: nothing runs after it, and no loss is made
 * up. */
TEST(rejoin_at_last_step, .setup_func = keep_log)
{
    memory_communicator *communicator = memory_communicator_create(WORKERS);
    worker               w[WORKERS];
    est_hook            *nan = est_nan_hook(true), *log = est_loss_log_hook(1);

    memory_communicator_break(communicator, 0); /* of the first step of all */
    for (int i = 0; i < WORKERS; i++) {
        make_worker(&w[i], memory_communicator_of(communicator, i), i, 10);
        w[i].rejoin_step           = 1;
        w[i].hooks[w[i].n_hooks++] = est_stop_at_step_hook(0, 1);
    }
    w[0].hooks[w[0].n_hooks++] = nan;
    w[0].hooks[w[0].n_hooks++] = log;
    memory_communicator_run(WORKERS, run_worker, w);
    expect_steps(w, 1);
    for (int i = 0; i < WORKERS; i++) {
        assert_true(w[i].runs == 0 && w[i].rejoins == 1);
        est_hook_free(w[i].hooks[0]);
        free_worker(&w[i]);
    }
    assert_false(log_has("loss = "));
    est_hook_free(nan);
    est_hook_free(log);
    memory_communicator_free(communicator);
}

/* --- the library's ------------------------------------------------------------------------------------------------ */

static void expect_idle(est_hook *hook, bool idle)
{
    assert_non_null(hook);
    assert_int_equal(hook->idle, idle);
    est_hook_free(hook);
}

/* Those that save, count and stop; not those that look at what a batch has made. */
TEST(library, .setup_func = keep_log)
{
    expect_idle(est_checkpoint_saver_hook(est_test_root, EST_CHECKPOINT_SAVER(.steps = 1)), true);
    expect_idle(est_step_counter_hook(EST_EVERY(.steps = 1)), true);
    expect_idle(est_stop_at_step_hook(0, 1), true);
    expect_idle(est_stop_at_secs_hook(1), true);
    expect_idle(est_nan_hook(true), true);
    expect_idle(est_loss_log_hook(1), true);
    expect_idle(est_progress_hook(0, 1), true);
    expect_idle(est_summary_saver_hook(EST_EVERY(.steps = 1)), false);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
