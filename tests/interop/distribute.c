/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-worker training, ours and TensorFlow's, as two workers in processes of their own and as two replicas in one
 * process: from the same checkpoint with the same records both have the same losses at every step and the same
 * variables in the end, and each goes on from what the other left. distribute.py has the same models; a run is a model
 * with an optimizer and batches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/estoc.h"
#include "support/cluster_test.h"
#include "support/interop.h"

#define STEPS   50 /* five passes over the records: restarted input is resumed input */
#define MORE    60
#define BATCH   4
#define COLUMNS 3
#define IDS     2
#define N_IDS   12

/* --- the models --------------------------------------------------------------------------------------------------- */

typedef struct params {
    const char *folder; /* of the records */
    const char *run;
} params;

static bool run_is(const params *p, const char *name)
{
    return strcmp(p->run, name) == 0;
}

static est_optimizer optimizer(const params *p)
{
    if (run_is(p, "adagrad")) return est_adagrad(0.2, NULL);
    if (run_is(p, "adam")) return est_adam(0.02, NULL);
    return est_sgd(run_is(p, "sum") ? 0.04 : 0.3);
}

/* "uneven": the second worker has batches twice as large. */
static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    static const est_feature_spec specs[] = { { "x", EST_F32, .shape = { .rank = 1, .dim = { COLUMNS } } },
                                              { "ids", EST_I64, .shape = { .rank = 1, .dim = { IDS } } },
                                              { "y", EST_F32, .shape = { .rank = 1, .dim = { 1 } } } };
    const params                 *p       = context->params;
    int                           batch   = run_is(p, "uneven") ? BATCH / 2 * (1 + context->pipeline) : BATCH;
    est_dataset                  *d;
    char                          pattern[256];

    (void)user;
    snprintf(pattern, sizeof pattern, "%s/rows-*.tfrecord", p->folder);
    d = est_dataset_shard(est_dataset_files(pattern), context->n_pipelines, context->pipeline);
    d = est_dataset_repeat(est_dataset_tfrecords(d, NULL), EST_FOREVER);
    return est_dataset_finish(est_dataset_parse_examples(d, (est_feature_specs){ specs, 3 }, batch, NULL), out);
}

static est_status model_fn(est_model *model, est_mode mode, const void *user)
{
    const params *p        = user;
    est_node      embedded = est_flatten(est_embedding(est_model_feature(model, "ids"), N_IDS, 3, NULL));
    est_node      hidden   = est_concat(EST_NODES(est_model_feature(model, "x"), embedded), 1), loss;

    hidden = est_dense(hidden, 8, EST_DENSE(.activation = est_tanh));
    if (run_is(p, "norm")) hidden = est_batch_norm(hidden, mode == EST_TRAIN, EST_BATCH_NORM(.momentum = 0.9));
    loss = est_loss_sigmoid_xent(est_model_label(model, "y"), est_dense(hidden, 1, NULL),
                                 EST_LOSS(.reduction = run_is(p, "sum") ? EST_LOSS_SUM : EST_LOSS_DEFAULT));
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, optimizer(p), loss);
    return est_model_status(model);
}

/* A hook that keeps the losses of all steps. */
typedef struct losses {
    est_hook hook;
    float    at[MORE];
    int      n;
} losses;

static est_status losses_after_run(est_hook *hook, est_loop *loop)
{
    losses *l = EST_CONTAINER_OF(hook, losses, hook);

    if (l->n == MORE) return est_fail(EST_OUT_OF_RANGE, "more steps than there should be");
    l->at[l->n++] = (float)est_loop_loss(loop);
    return EST_OK;
}

/* The file of a run has its losses, float32. */
static est_status write_losses(const losses *l, const char *dir, int64_t max_steps, int rank)
{
    char  path[256];
    FILE *file;
    bool  good;

    snprintf(path, sizeof path, "%s.%d.%d", dir, (int)max_steps, rank);
    file = fopen(path, "wb");
    good = file != NULL && fwrite(l->at, sizeof l->at[0], (size_t)l->n, file) == (size_t)l->n;
    good = file != NULL && fclose(file) == 0 && good;
    return good ? EST_OK : est_fail(EST_UNAVAILABLE, "%s: cannot be written", path);
}

static est_status train(const params *p, const char *dir, int64_t max_steps, const est_strategy *strategy, int rank)
{
    losses         l = { .hook = EST_HOOK(.after_run = losses_after_run) };
    est_estimator *e = NULL;
    est_status     status;

    status = est_estimator_create(
        model_fn,
        EST_ESTIMATOR(.model_dir = dir,
                      .config    = EST_RUN_CONFIG(.seed = 1, .save_checkpoints_steps = STEPS, .quiet = true,
                                                  .save_summary_steps = EST_OFF, .log_step_count_steps = EST_OFF,
                                                  .max_worker_delay_secs = EST_OFF, .train_distribute = strategy,
                                                  .session_creation_timeout_secs = 60),
                      .params = p, .params_size = sizeof *p),
        &e);
    if (status == EST_OK) {
        status = est_train(
            e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .max_steps = max_steps, .hooks = EST_HOOKS(&l.hook)));
    }
    est_estimator_free(e);
    return status == EST_OK ? write_losses(&l, dir, max_steps, rank) : status;
}

/* --- two workers -------------------------------------------------------------------------------------------------- */

/* A worker: its directory, the folder of the records, the run, the last step. */
static int work(int argc, char **argv)
{
    est_strategy *strategy = NULL;
    est_status    status;

    if (argc != 4) return 1;
    status = est_multi_worker_mirrored_strategy(NULL, &strategy);
    if (status == EST_OK) {
        est_input_context context = { 0 };

        est_strategy_input_context(strategy, &context);
        status = train(&(params){ argv[1], argv[2] }, argv[0], strtoll(argv[3], NULL, 10), strategy, context.pipeline);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_strategy_free(strategy);
    return status == EST_OK ? 0 : 1;
}

/* Two workers train in the directory "<kind>_<run>". */
static void train_workers(const char *kind, const char *run, const char *max_steps)
{
    cluster c = cluster_make(0, 2, 0, 0);
    char    name[64];

    snprintf(name, sizeof name, "%s_%s", kind, run);
    snprintf(c.model, sizeof c.model, "%.79s", interop_path(name));
    c.args[0] = interop_path(".");
    c.args[1] = run;
    c.args[2] = max_steps;
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    cluster_free(&c);
}

/* Once for all tests: TensorFlow's training, and in "our_workers_<run>", "our_replicas_<run>" the checkpoints that it
 * began with. */
TEST(theirs)
{
    interop_ask("train_theirs");
}

TEST(workers)
{
    static const char *const runs[] = { "sgd", "adagrad", "adam", "norm", "sum" };

    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) train_workers("our_workers", runs[i], "50");
    interop_ask("check_workers");
}

/* By design: our mean is that of all examples, so that workers with batches of any size train as one process with all
 * of them would; TensorFlow's is that of the workers' means. */
TEST(uneven_workers)
{
    train_workers("our_workers", "uneven", "50");
    interop_ask("check_uneven_workers");
}

/* --- two replicas in a process ------------------------------------------------------------------------------------ */

static void train_replicas(const char *kind, const char *run, int64_t max_steps)
{
    est_strategy *strategy = NULL;
    char          name[64];

    snprintf(name, sizeof name, "%s_%s", kind, run);
    interop_check(est_mirrored_strategy(EST_MIRRORED(.replicas = 2), &strategy));
    interop_check(train(&(params){ interop_path("."), run }, interop_path(name), max_steps, strategy, 0));
    est_strategy_free(strategy);
}

TEST(replicas)
{
    static const char *const runs[] = { "adam", "norm", "sum" };

    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) train_replicas("our_replicas", runs[i], STEPS);
    interop_ask("check_replicas");
}

/* --- runs that move ----------------------------------------------------------------------------------------------- */

/* Each goes on from the last checkpoint of the other: with the slots of Adam, with moving averages. */
TEST(moved_runs)
{
    interop_ask("elastic");
    train_workers("their_workers", "adam", "60");
    train_replicas("their_replicas", "norm", MORE);
    interop_ask("check_moved_runs");
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, work);
    est_log_set_level(EST_LOG_ERROR);
    return INTEROP_MAIN("distribute");
}
