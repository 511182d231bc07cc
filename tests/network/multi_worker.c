/* SPDX-License-Identifier: Apache-2.0
 *
 * fit by two workers, each a process: the same variables and logs as one process with the whole batches, also when a
 * worker is killed and comes back, and when the whole job is. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "network/network_test.h"
#include "support/port_test.h"
#include "train/saver.h"

#define EPOCHS      3
#define INTERRUPTED 9 /* the status of a worker whose fit a signal has ended */

/* What is trained with. */
typedef struct input {
    int64_t rows, batch;
    int64_t steps; /* of an epoch; 0: those of the rows */
    bool    shuffle;
    bool    validation_shuffle;                /* by a seed that is drawn */
    int64_t validation_rows, validation_steps; /* rows 0: those of the training, as arrays */
    int     replicas;                          /* of each worker; 0: 1 */
    int64_t first_step;                        /* the global step before the fit, without a checkpoint */
} input;

static const input usual = { .rows = 20, .batch = 6 }; /* 4 steps: 6, 6, 6, 2 rows */

/* What a worker has at the end. */
typedef struct outcome {
    int     epochs;
    double  loss[EPOCHS], mae[EPOCHS], sides[EPOCHS], val[EPOCHS], val_mae[EPOCHS];
    float   kernel[3], bias;
    int64_t step;      /* the global one */
    int64_t validated; /* batches of a validation dataset that this process has read */
} outcome;

typedef struct job {
    char dir[96];
    int  ports[2], fds[2];
} job;

/* What a callback of a worker does, and when; 0: never. */
typedef struct deed {
    int64_t kill_at, stop_at;      /* after this step */
    int64_t end_at;                /* after this step, as by SIGTERM */
    int64_t stop_begun, stop_done; /* when so many epochs have begun, or ended */
    bool    reads;                 /* the logs, after every step */
} deed;

static const deed calm = { 0 };

typedef struct callback {
    est_hook    hook;
    const deed *deed;
} callback;

static const deed *deed_of(est_hook *hook)
{
    return EST_CONTAINER_OF(hook, callback, hook)->deed;
}

static est_status after_step(est_hook *hook, est_loop *loop)
{
    const deed *d    = deed_of(hook);
    int64_t     step = est_loop_global_step(loop);

    if (step == d->kill_at) (void)raise(SIGKILL);
    if (step == d->end_at) (void)raise(SIGTERM);
    if (step == d->stop_at) est_loop_request_stop(loop, "enough steps");
    if (d->reads) (void)est_loop_log(loop, "loss");
    return EST_OK;
}

static est_status epoch_begin(est_hook *hook, est_loop *loop)
{
    if (est_loop_epoch(loop) + 1 == deed_of(hook)->stop_begun) est_loop_request_stop(loop, "enough epochs");
    return EST_OK;
}

static est_status epoch_end(est_hook *hook, est_loop *loop)
{
    if (est_loop_epoch(loop) + 1 == deed_of(hook)->stop_done) est_loop_request_stop(loop, "enough epochs");
    return EST_OK;
}

static est_status count_batch(void *user, const est_field *in, est_field *out)
{
    ++*(int64_t *)user;
    for (int i = 0; i < 2; i++) out[i].values = est_tensor_ref(in[i].values);
    return EST_OK;
}

/* Batches of 4; each that is read is counted. */
static est_dataset *counted(est_tensor *x, est_tensor *y, bool shuffle, int64_t *count)
{
    est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));

    if (shuffle) d = est_dataset_shuffle(d, 8, 0);
    d = est_dataset_batch(d, 4, NULL);
    d = est_dataset_map(d, count_batch,
                        EST_MAP(.user = count, .components = EST_COMPONENTS({ "x", EST_F32, EST_SHAPE(-1, 3) },
                                                                            { "y", EST_F32, EST_SHAPE(-1, 1) })));
    assert_ok(est_dataset_finish(d, &d));
    return d;
}

/* A metric of one's own, whose states all additions change: labels by the half of [0, 1) that they are in, and what
 * predictions lack of them. */
static est_metric make_sides(const est_metric_spec *self, est_node labels, est_node predictions, est_node weights)
{
    est_graph *graph = labels.graph;
    est_node   half  = est_metric_state(graph, "half", EST_F32, EST_SHAPE(2));
    est_node   lack  = est_metric_state(graph, "lack", EST_F32, EST_SHAPE_SCALAR);
    est_node   rows  = est_metric_state(graph, "rows", EST_I64, EST_SHAPE_SCALAR);
    est_node   side, updates[4];

    (void)self;
    labels      = est_reshape(labels, EST_I64S(-1));
    predictions = est_reshape(predictions, EST_I64S(-1));
    if (weights.graph != NULL) {
        weights     = est_reshape(weights, EST_I64S(-1));
        labels      = est_mul(labels, weights);
        predictions = est_mul(predictions, weights);
    }
    side       = est_cast(est_greater(labels, est_scalar(graph, EST_F32, 0.5)), EST_I64);
    updates[0] = est_scatter_add(half, side, labels);
    updates[1] = est_assign_add(lack, est_sum(labels));
    updates[2] = est_assign_sub(lack, est_sum(predictions));
    updates[3] = est_assign_add(rows, est_scalar(graph, EST_I64, 1));
    return est_metric_custom(
        EST_NODES(half, lack, rows), (est_nodes){ updates, 4 },
        est_add(est_sum(est_mul(est_read_variable(half), est_const_f32(graph, EST_SHAPE(2), (const float[]){ 1, 3 }))),
                est_read_variable(lack)));
}

static void keep(est_network *network, const est_history *history, outcome *out)
{
    est_tensor *value;

    out->epochs = est_history_epochs(history);
    for (int i = 0; i < out->epochs; i++) {
        int64_t epoch = est_history_epoch(history, i);

        out->loss[epoch]    = est_history_value(history, "loss", i);
        out->mae[epoch]     = est_history_value(history, "mae", i);
        out->sides[epoch]   = est_history_value(history, "sides", i);
        out->val[epoch]     = est_history_value(history, "val_loss", i);
        out->val_mae[epoch] = est_history_value(history, "val_mae", i);
    }
    assert_ok(est_session_read(est_network_session(network), "dense/kernel", &value));
    memcpy(out->kernel, est_tensor_data(value), sizeof out->kernel);
    est_tensor_free(value);
    out->bias = (float)variable_at(network, "dense/bias", 0);
    assert_ok(est_session_read(est_network_session(network), "global_step", &value));
    out->step = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
}

static void set_step(est_network *network, est_named_tensors arrays, int64_t step)
{
    est_dataset *like = est_dataset_batch(est_dataset_slices(arrays), 1, NULL);
    est_tensor  *value;

    assert_ok(est_dataset_finish(like, &like));
    assert_ok(est_network_build(network, like));
    est_dataset_free(like);
    assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &step, &value));
    assert_ok(est_session_write(est_network_session(network), "global_step", value));
    est_tensor_free(value);
}

static void fit(const input *in, const est_strategy *strategy, const char *dir, const deed *d, outcome *out)
{
    est_tensor       *x = noise(in->rows, 3, 1), *y = noise(in->rows, 1, 2);
    est_tensor       *u = noise(in->validation_rows, 3, 3), *v = noise(in->validation_rows, 1, 4);
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_dataset *validation  = in->validation_rows > 0 ? counted(u, v, in->validation_shuffle, &out->validated) : NULL;
    callback     acts = { .hook = EST_HOOK(.after_run = after_step, .epoch_begin = epoch_begin, .epoch_end = epoch_end),
                          .deed = d };
    est_network *network;
    est_history *history;
    est_status   status;

    network = make_line(EST_NETWORK(.strategy = strategy, .seed = 1, .model_dir = dir),
                        EST_COMPILE(.loss = "mse", .optimizer = "adam", .metrics = EST_STRINGS("mae"),
                                    .metric_values = EST_METRIC_SPECS({ .name = "sides", .make = make_sides })));
    if (in->first_step > 0) set_step(network, arrays, in->first_step);
    status = est_network_fit(network,
                             EST_FIT(.arrays = arrays, .batch_size = in->batch, .epochs = EPOCHS,
                                     .steps_per_epoch = in->steps, .no_shuffle = !in->shuffle, .validation = validation,
                                     .validation_arrays = validation == NULL ? arrays : (est_named_tensors){ 0 },
                                     .validation_steps = in->validation_steps, .callbacks = EST_HOOKS(&acts.hook),
                                     .verbose = EST_VERBOSE_NONE),
                             &history);
    if (d->end_at > 0 && status == EST_CANCELLED) _exit(INTERRUPTED);
    assert_ok(status);
    keep(network, history, out);
    est_history_free(history);
    est_network_free(network);
    est_dataset_free(validation);
    est_tensor_free(x);
    est_tensor_free(y);
    est_tensor_free(u);
    est_tensor_free(v);
}

static pid_t start_worker(const job *j, const input *in, int index, const deed *d)
{
    char          json[256], path[128];
    est_strategy *strategy;
    outcome       out = { 0 };
    pid_t         pid = fork();

    if (pid != 0) return pid;
    log_keep(EST_LOG_WARN);
    snprintf(json, sizeof json,
             "{\"cluster\": {\"worker\": [\"127.0.0.1:%d\", \"127.0.0.1:%d\"]}, \"task\": {\"type\": \"worker\", "
             "\"index\": %d}}",
             j->ports[0], j->ports[1], index);
    if (est_multi_worker_mirrored_strategy(EST_MULTI_WORKER_MIRRORED(.cluster_json = json, .replicas = in->replicas),
                                           &strategy) != EST_OK) {
        _exit(3);
    }
    fit(in, strategy, j->dir, d, &out);
    snprintf(path, sizeof path, "%s/worker%d", j->dir, index);
    if (est_file_replace(path, &out, sizeof out) != EST_OK) _exit(4);
    _exit(0);
}

static void await_killed(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void await_interrupted(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == INTERRUPTED);
}

static void await_ok(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("a worker ended with status %d", status);
}

static job make_job(const char *name)
{
    job j;

    snprintf(j.dir, sizeof j.dir, "%s/%s", est_test_root, name);
    for (int i = 0; i < 2; i++) j.ports[i] = port_take(&j.fds[i]);
    return j;
}

static void read_outcome(const job *j, int index, outcome *out)
{
    char   path[128];
    char  *bytes;
    size_t size;

    snprintf(path, sizeof path, "%s/worker%d", j->dir, index);
    assert_ok(est_file_read(path, &bytes, &size));
    assert_int_equal(size, sizeof *out);
    memcpy(out, bytes, sizeof *out);
    est_free(bytes);
}

static void expect_alike(const outcome *have, const outcome *want, int from_epoch)
{
    for (int i = from_epoch; i < EPOCHS; i++) {
        assert_near(have->loss[i], want->loss[i], 1e-5);
        assert_near(have->mae[i], want->mae[i], 1e-5);
        assert_near(have->sides[i], want->sides[i], 1e-4);
        assert_near(have->val[i], want->val[i], 1e-5);
        assert_near(have->val_mae[i], want->val_mae[i], 1e-5);
    }
    for (int i = 0; i < 3; i++) assert_near((double)have->kernel[i], (double)want->kernel[i], 1e-5);
    assert_near((double)have->bias, (double)want->bias, 1e-5);
}

static void give_back(const job *j)
{
    for (int i = 0; i < 2; i++) (void)close(j->fds[i]);
}

/* Two workers make what one process makes, and have the same, bit for bit. */
static void expect_as_one(const char *name, const input *in, int64_t validated)
{
    job     j     = make_job(name);
    outcome want  = { 0 }, a, b;
    pid_t   first = start_worker(&j, in, 0, &calm), second = start_worker(&j, in, 1, &calm);

    fit(in, NULL, NULL, &calm, &want);
    await_ok(first);
    await_ok(second);
    read_outcome(&j, 0, &a);
    read_outcome(&j, 1, &b);
    assert_int_equal(a.epochs, EPOCHS);
    assert_int_equal(b.epochs, EPOCHS);
    expect_alike(&a, &want, 0);
    if (validated > 0) {
        assert_int_equal(a.validated, validated);
        assert_in_range(want.validated - a.validated, 1, want.validated - 1);
    }
    a.validated = b.validated;
    if (in->validation_shuffle) {
        expect_alike(&b, &want, 0); /* but for the order of its sums */
    } else {
        assert_memory_equal(&a, &b, sizeof a);
    }
    give_back(&j);
}

TEST(undisturbed)
{
    expect_as_one("calm", &usual, 0);
}

/* Variables that have been trained before, of which there is no checkpoint. */
TEST(trained_before)
{
    expect_as_one("before", &(input){ .rows = 20, .batch = 20, .first_step = 6 }, 0);
}

/* Rows that do not divide by the batch, nor the batch by the workers, so that one worker has no row in some steps. The
 * passes stay together, whatever an epoch has of them. */
TEST(uneven)
{
    static const input some[] = { { .rows = 19, .batch = 6 },
                                  { .rows = 22, .batch = 7 },
                                  { .rows = 7, .batch = 2 },
                                  { .rows = 19, .batch = 6, .shuffle = true },
                                  { .rows = 22, .batch = 7, .steps = 3 },
                                  { .rows = 22, .batch = 7, .steps = 3, .shuffle = true } };

    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        char name[32];

        snprintf(name, sizeof name, "uneven%zu", i);
        expect_as_one(name, &some[i], 0);
    }
}

/* Several replicas in each worker, some of which have no row in some steps. */
TEST(replicas)
{
    expect_as_one("replicas", &(input){ .rows = 19, .batch = 6, .replicas = 2 }, 0);
}

/* Validation data is divided among the workers: of 21 rows the first gets 11, in 3 batches; of 3 batches 2; and of 1
 * row the other gets none. Rows in an order of each worker's own are not divided. */
TEST(validation)
{
    expect_as_one("rows", &(input){ .rows = 20, .batch = 6, .validation_rows = 21 }, 3 * EPOCHS);
    expect_as_one("steps", &(input){ .rows = 20, .batch = 6, .validation_rows = 21, .validation_steps = 3 }, 0);
    expect_as_one("one", &(input){ .rows = 20, .batch = 6, .validation_rows = 1 }, 0);
    expect_as_one("any", &(input){ .rows = 20, .batch = 6, .validation_rows = 21, .validation_shuffle = true }, 0);
}

/* A worker is killed after a step of epoch 1, and comes back: both have the logs of an undisturbed run, of all epochs
 * that end in them. */
static void expect_whole_epochs(const char *name, int lost, int64_t kill_at)
{
    job     j    = make_job(name);
    outcome want = { 0 }, a[2];
    pid_t   pid[2];

    for (int i = 0; i < 2; i++) pid[i] = start_worker(&j, &usual, i, i == lost ? &(deed){ .kill_at = kill_at } : &calm);
    fit(&usual, NULL, NULL, &calm, &want);
    await_killed(pid[lost]);
    pid[lost] = start_worker(&j, &usual, lost, &calm);
    for (int i = 0; i < 2; i++) await_ok(pid[i]);
    for (int i = 0; i < 2; i++) read_outcome(&j, i, &a[i]);
    assert_int_equal(a[!lost].epochs, EPOCHS);
    assert_in_range(a[lost].epochs, 1, 2);
    expect_alike(&a[!lost], &want, 0);
    expect_alike(&a[lost], &want, EPOCHS - a[lost].epochs);
    assert_memory_equal(a[0].kernel, a[1].kernel, sizeof a[0].kernel);
    give_back(&j);
}

/* In the middle of the epoch, after its first step, and after its last. */
TEST(lost)
{
    expect_whole_epochs("lost", 1, 6);
    expect_whole_epochs("lost_first_step", 1, 5);
    expect_whole_epochs("lost_last_step", 1, 8);
    expect_whole_epochs("lost_chief", 0, 6);
}

/* Both workers are told to end in the middle of epoch 1, and start again: they have its logs whole. */
TEST(interrupted)
{
    static const deed ends = { .end_at = 6 };

    job     j    = make_job("interrupted");
    outcome want = { 0 }, a;
    pid_t   pid[2];
    int64_t saved;

    for (int i = 0; i < 2; i++) pid[i] = start_worker(&j, &usual, i, &ends);
    fit(&usual, NULL, NULL, &calm, &want);
    for (int i = 0; i < 2; i++) await_interrupted(pid[i]);
    assert_ok(est_saved_step(j.dir, &saved));
    assert_in_range(saved, 5, 7);
    for (int i = 0; i < 2; i++) pid[i] = start_worker(&j, &usual, i, &calm);
    for (int i = 0; i < 2; i++) await_ok(pid[i]);
    for (int i = 0; i < 2; i++) {
        read_outcome(&j, i, &a);
        assert_int_equal(a.epochs, 2);
        expect_alike(&a, &want, 1);
    }
    give_back(&j);
}

/* All workers are killed in epoch 1: the job goes on from the checkpoint that epoch 0 has ended with. */
TEST(all_lost)
{
    job     j = make_job("all_lost");
    int64_t saved;
    outcome want  = { 0 }, a, b;
    pid_t   first = start_worker(&j, &usual, 0, &(deed){ .kill_at = 6 }), second = start_worker(&j, &usual, 1, &calm);

    fit(&usual, NULL, NULL, &calm, &want);
    await_killed(first);
    assert_int_equal(kill(second, SIGKILL), 0); /* it waits for the first */
    await_killed(second);
    assert_ok(est_saved_step(j.dir, &saved));
    assert_int_equal(saved, 4);
    first  = start_worker(&j, &usual, 0, &calm);
    second = start_worker(&j, &usual, 1, &calm);
    await_ok(first);
    await_ok(second);
    read_outcome(&j, 0, &a);
    read_outcome(&j, 1, &b);
    expect_alike(&a, &want, 1);
    assert_memory_equal(a.kernel, b.kernel, sizeof a.kernel);
    give_back(&j);
}

/* One worker requests a stop; all end at the same step, with what one process has that stops there. */
static void expect_stop(const char *name, const deed *first, const deed *second, const deed *alone)
{
    static const input in = { .rows = 20, .batch = 6, .validation_rows = 21 };

    job     j    = make_job(name);
    outcome want = { 0 }, a, b;
    pid_t   one = start_worker(&j, &in, 0, first), two = start_worker(&j, &in, 1, second);

    fit(&in, NULL, NULL, alone, &want);
    await_ok(one);
    await_ok(two);
    read_outcome(&j, 0, &a);
    read_outcome(&j, 1, &b);
    assert_int_equal(a.step, want.step);
    assert_int_equal(b.step, want.step);
    assert_int_equal(a.epochs, want.epochs);
    assert_int_equal(b.epochs, want.epochs);
    expect_alike(&a, &want, 0);
    expect_alike(&b, &want, 0);
    assert_memory_equal(a.kernel, b.kernel, sizeof a.kernel);
    give_back(&j);
}

/* A request in the middle of an epoch travels with the next step, one at the end of an epoch with its logs, and one at
 * the beginning with its first step. */
TEST(stopped)
{
    expect_stop("stop_second", &calm, &(deed){ .stop_at = 6 }, &(deed){ .stop_at = 7 });
    expect_stop("stop_first", &(deed){ .stop_at = 6 }, &calm, &(deed){ .stop_at = 7 });
    expect_stop("stop_both", &(deed){ .stop_at = 6 }, &(deed){ .stop_at = 5 }, &(deed){ .stop_at = 6 });
    expect_stop("stop_last_step", &calm, &(deed){ .stop_at = 8 }, &(deed){ .stop_at = 8 });
    expect_stop("stop_epoch_end", &calm, &(deed){ .stop_done = 2 }, &(deed){ .stop_done = 2 });
    expect_stop("stop_epoch_begin", &calm, &(deed){ .stop_begun = 2 }, &(deed){ .stop_at = 5 });
}

/* A worker is lost right after step 7, which both have agreed to be the last, and comes back. The other one may have
 * heard of that or not; all end at the same step, at most one behind it. */
static void expect_stop_and_loss(const char *name, int lost, int64_t last)
{
    static const deed stops = { .stop_at = 6 }, dies = { .stop_at = 6, .kill_at = 7 };

    job     j = make_job(name);
    outcome a, b;
    pid_t   pid[2];

    for (int i = 0; i < 2; i++) pid[i] = start_worker(&j, &usual, i, i == lost ? &dies : &stops);
    await_killed(pid[lost]);
    pid[lost] = start_worker(&j, &usual, lost, &calm);
    for (int i = 0; i < 2; i++) await_ok(pid[i]);
    read_outcome(&j, 0, &a);
    read_outcome(&j, 1, &b);
    assert_in_range(a.step, 7, last);
    assert_int_equal(b.step, a.step);
    assert_memory_equal(a.kernel, b.kernel, sizeof a.kernel);
    give_back(&j);
}

TEST(stopped_and_lost)
{
    expect_stop_and_loss("stop_lost_second", 1, 7);
    expect_stop_and_loss("stop_lost_first", 0, 8);
}

/* Logs of an epoch are those of all workers, also when a callback has read them before the epoch has ended. */
TEST(read_early)
{
    expect_stop("read_early", &(deed){ .reads = true }, &calm, &calm);
}

/* What several workers need. */
TEST(refused)
{
    est_tensor   *x = noise(4, 3, 1), *y = noise(4, 1, 2);
    est_dataset  *d      = batches(EST_NAMED_TENSORS({ "x", x }, { "y", y }), 2);
    est_hook     *backup = est_backup_callback("nowhere", NULL);
    est_hook      seen   = EST_HOOK(.after_run = NULL);
    est_strategy *strategy;
    est_network  *network;

    assert_ok(est_multi_worker_mirrored_strategy(
        EST_MULTI_WORKER_MIRRORED(.cluster_json = "{\"cluster\": {\"worker\": [\"127.0.0.1:1\", \"127.0.0.1:2\"]}, "
                                                  "\"task\": {\"type\": \"worker\", \"index\": 0}}"),
        &strategy));
    network = make_line(EST_NETWORK(.strategy = strategy), EST_COMPILE(.loss = "mse"));
    expect_error(est_network_fit(network, EST_FIT(.input = d), NULL), EST_INVALID_ARGUMENT, "set steps_per_epoch");
    expect_error(est_network_fit(network, EST_FIT(.input = d, .steps_per_epoch = 2), NULL), EST_INVALID_ARGUMENT,
                 "set model_dir in EST_NETWORK");
    expect_error(
        est_network_fit(network, EST_FIT(.input = d, .steps_per_epoch = 2, .callbacks = EST_HOOKS(backup)), NULL),
        EST_INVALID_ARGUMENT, "leave out est_backup_callback");
    expect_error(est_network_fit(network,
                                 EST_FIT(.input = d, .steps_per_epoch = 2, .validation = d,
                                         .validation_callbacks = EST_HOOKS(&seen)),
                                 NULL),
                 EST_INVALID_ARGUMENT, "leave out validation_callbacks");
    est_hook_free(backup);
    est_network_free(network);
    est_strategy_free(strategy);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
}

int main(void)
{
    (void)setenv("ESTOC_PROTOCOL", "tcp", 1);
    return est_test_run(est_test_root_make, est_test_root_remove);
}
