/* SPDX-License-Identifier: Apache-2.0
 *
 * Our Estimator and TensorFlow's on the same model_fn, batches and directories: runs that move from one to the other
 * and back have the losses of a run that stayed; each reads what the other left for TensorBoard, in graphs and in
 * checkpoints; evaluations and warm starts give the same numbers. estimator.py has the same model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "estoc/estoc.h"
#include "support/interop.h"

#define TRAIN_ROWS 20 /* five batches: 20 steps are four passes, so restarted input is resumed input */
#define EVAL_ROWS  37 /* the last batch is smaller */
#define BATCH      4
#define COLUMNS    3
#define PIECE      20 /* steps before the run moves */

/* --- the model ---------------------------------------------------------------------------------------------------- */

static const char *const optimizer_names[] = { "sgd", "adagrad", "adam" };
#define N_OPTIMIZERS 3

static est_optimizer optimizer(int which)
{
    return which == 0 ? est_sgd(0.3) : which == 1 ? est_adagrad(0.2, NULL) : est_adam(0.02, NULL);
}

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    int          n = context->mode == EST_TRAIN ? TRAIN_ROWS : EVAL_ROWS, first = context->mode == EST_TRAIN ? 0 : 100;
    float        xs[EVAL_ROWS * COLUMNS], ys[EVAL_ROWS];
    est_tensor  *x = NULL, *y = NULL;
    est_dataset *d;

    (void)user;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < COLUMNS; j++) xs[i * COLUMNS + j] = (float)(((i + first) * 37 + j * 11) % 64) / 32 - 1;
        ys[i] = ((i + first) * 29) % 7 > 3;
    }
    interop_check(est_tensor_f32(EST_SHAPE(n, COLUMNS), xs, &x));
    interop_check(est_tensor_f32(EST_SHAPE(n, 1), ys, &y));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
    est_tensor_free(x);
    est_tensor_free(y);
    if (context->mode == EST_TRAIN) d = est_dataset_repeat(d, EST_FOREVER);
    return est_dataset_finish(est_dataset_batch(d, BATCH, NULL), out);
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    est_node hidden      = est_dense(est_model_feature(model, "x"), 8, EST_DENSE(.activation = est_tanh));
    est_node logits      = est_dense(hidden, 1, NULL);
    est_node probability = est_sigmoid(logits);
    est_node label       = est_model_label(model, "y");
    est_node loss        = est_loss_sigmoid_xent(label, logits, NULL);

    est_model_predict(model, "probability", probability);
    est_model_loss(model, loss);
    est_model_metric(model, "accuracy", est_metric_accuracy(label, est_rint(probability), NULL));
    est_model_metric(model, "auc", est_metric_auc(label, probability, EST_METRIC(.summation = EST_SUM_TRAPEZOID)));
    est_model_metric(model, "mean", est_metric_mean(probability, NULL));
    est_model_metric(model, "rmse", est_metric_root_mean_squared_error(label, probability, NULL));
    est_model_scalar(model, "largest", est_reduce_max(probability, EST_I64S(0, 1), false));
    est_model_histogram(model, "hidden", hidden);
    if (mode == EST_TRAIN) est_model_minimize(model, optimizer(*(const int *)params), loss);
    return est_model_status(model);
}

static est_estimator *make(const char *dir, int which)
{
    est_estimator *e = NULL;

    interop_check(est_estimator_create(
        model_fn,
        EST_ESTIMATOR(.model_dir = interop_path(dir),
                      .config    = EST_RUN_CONFIG(.seed = 1, .save_checkpoints_steps = 7, .save_summary_steps = 5,
                                                  .log_step_count_steps = 10, .quiet = true, .cluster_json = "{}"),
                      .params = &which, .params_size = sizeof which),
        &e));
    return e;
}

/* A hook that keeps the losses of all runs, as float32. */
typedef struct losses {
    est_hook   hook;
    est_strbuf said;
} losses;

static est_status losses_after_run(est_hook *hook, est_loop *loop)
{
    float loss = (float)est_loop_loss(loop);

    est_strbuf_append_bytes(&EST_CONTAINER_OF(hook, losses, hook)->said, &loss, sizeof loss);
    return EST_OK;
}

/* Trains to a step; the losses on the way go into "<dir>.<max_steps>". */
static void train(const char *dir, int which, int64_t max_steps)
{
    losses         l    = { .hook = EST_HOOK(.after_run = losses_after_run) };
    est_estimator *e    = make(dir, which);
    est_strbuf     said = { 0 };
    char           file[64];

    interop_check(
        est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .max_steps = max_steps, .hooks = EST_HOOKS(&l.hook))));
    est_estimator_free(e);
    interop_blob(&said, est_strbuf_text(&l.said), l.said.size);
    est_strbuf_clear(&l.said);
    snprintf(file, sizeof file, "%s.%d", dir, (int)max_steps);
    interop_save(file, &said);
}

static const char *run_of(const char *kind, int which)
{
    static char names[2][64];
    static int  turn;

    turn = !turn;
    snprintf(names[turn], sizeof names[turn], "%s_%s", kind, optimizer_names[which]);
    return names[turn];
}

/* --- runs that move ----------------------------------------------------------------------------------------------- */

TEST(moving_runs)
{
    interop_ask("train_first_piece");
    for (int i = 0; i < N_OPTIMIZERS; i++) {
        train(run_of("theirs", i), i, 2 * PIECE);
        train(run_of("ours", i), i, PIECE);
    }
    interop_ask("train_next_piece");
    for (int i = 0; i < N_OPTIMIZERS; i++) train(run_of("ours", i), i, 3 * PIECE);
    interop_ask("check_losses");
}

/* --- what a run leaves -------------------------------------------------------------------------------------------- */

static void say_metrics(const char *file, const est_metrics *metrics)
{
    est_strbuf said = { 0 };

    for (int i = 0; i < est_metrics_count(metrics); i++) {
        char value[40];

        snprintf(value, sizeof value, "%.17g", est_metrics_value(metrics, i));
        interop_blob(&said, est_metrics_name(metrics, i), strlen(est_metrics_name(metrics, i)));
        interop_blob(&said, value, strlen(value));
    }
    interop_save(file, &said);
}

/* A run of ours beside one of theirs from the same first values: the same summaries at the same steps, the same
 * metrics; the graph in all its files. */
TEST(summaries_and_metrics)
{
    est_estimator *e;
    est_metrics   *metrics = NULL;

    interop_ask("train_beside"); /* leaves "beside" with the checkpoint of its step 0 only */
    train("beside", 2, 3 * PIECE);
    e = make("beside", 2);
    interop_check(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn), &metrics));
    say_metrics("metrics", metrics);
    est_metrics_free(metrics);
    interop_check(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .steps = 3, .name = "few"), &metrics));
    say_metrics("metrics_few", metrics);
    est_metrics_free(metrics);
    est_estimator_free(e);
    interop_ask("check_summaries");
    interop_ask("check_graph");
    interop_ask("check_metrics");
}

/* The checkpoint through tf.estimator.Estimator: its path, its names, its values. */
TEST(variables)
{
    est_checkpoint *checkpoint = NULL;
    est_strbuf      said       = { 0 };

    train("values", 2, 5);
    interop_check(est_checkpoint_open(interop_path("values"), &checkpoint));
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const char *name  = est_checkpoint_at(checkpoint, i)->name;
        est_tensor *value = NULL;

        interop_check(est_checkpoint_read(checkpoint, name, &value));
        interop_tensor(&said, name, value);
        est_tensor_free(value);
    }
    est_checkpoint_close(checkpoint);
    interop_save("values.said", &said);
    interop_ask("check_variables");
}

/* --- warm start --------------------------------------------------------------------------------------------------- */

/* Cases are named in both files. Their backup_initializer is our backup, or `initial` where it gives the same. */
typedef struct warm_case {
    const char    *name;
    int64_t        rows, columns;
    est_warm_start start; /* path NULL: the folder of the checkpoint */
    est_vocab_info vocab; /* variable NULL: none; files are names in the scratch folder */
    est_rename     rename;
    double         backup; /* new entries start with this; 0: no backup initializer */
} warm_case;

static const warm_case warm_cases[] = {
    { "trainable", 4, 3, { 0 }, { 0 }, { 0 } },
    { "saved_model", 4, 3, { .path = "old_saved" }, { 0 }, { 0 } },
    { "checkpoint", 4, 3, { .path = "old/model.ckpt-50" }, { 0 }, { 0 } },
    { "all", 4, 3, { .all = true }, { 0 }, { 0 } },
    { "pattern", 4, 3, { .variables = "k" }, { 0 }, { 0 } },
    { "all_pattern", 4, 3, { .variables = "kernel|fix", .all = true }, { 0 }, { 0 } },
    { "renamed", 4, 3, { 0 }, { 0 }, { "kernel", "ancient/kernel" } },
    { "rows", 5, 3, { 0 }, { "table", "words.new", "words.old", .num_oov_buckets = 2 }, { 0 } },
    { "rows_initial",
      5,
      3,
      { 0 },
      { "table", "words.new", "words.old", .num_oov_buckets = 2, .initial = true },
      { 0 } },
    { "rows_backup", 5, 3, { 0 }, { "table", "words.new", "words.old", .num_oov_buckets = 2 }, { 0 }, .backup = 0.25 },
    { "columns_backup", 4, 4, { 0 }, { "kernel", "colours.new", "colours.old", .axis = 1 }, { 0 }, .backup = -3 },
    { "rows_sizes", 4, 3, { 0 }, { "table", "words.new", "words.old", 2, 3, .num_oov_buckets = 2 }, { 0 } },
    { "rows_only", 3, 3, { .only_vocabs = true }, { "table", "words.new", "words.old" }, { 0 } },
    { "columns", 4, 4, { 0 }, { "kernel", "colours.new", "colours.old", .axis = 1 }, { 0 } },
    { "columns_renamed",
      4,
      5,
      { 0 },
      { "kernel", "colours.new", "colours.old", .axis = 1, .num_oov_buckets = 1, .initial = true },
      { "kernel", "ancient/kernel" } },
};
#define N_WARM_CASES (sizeof warm_cases / sizeof warm_cases[0])

static est_node weight(est_model *model, const char *name, est_shape shape, bool frozen)
{
    return est_read_variable(est_weight(est_model_graph(model), name, shape,
                                        EST_WEIGHT(.initializer = est_init_constant(7), .frozen = frozen)));
}

static est_status warm_model_fn(est_model *model, est_mode mode, const void *params)
{
    const warm_case *c    = params;
    est_node         loss = est_mean(weight(model, "table", EST_SHAPE(c->rows, 2), false));

    loss = est_add(loss, est_mean(weight(model, "kernel", EST_SHAPE(2, c->columns), false)));
    loss = est_add(loss, est_mean(weight(model, "fixed", EST_SHAPE(2), true)));
    loss = est_add(loss, est_mean(est_model_feature(model, "x")));
    est_model_loss(model, loss);
    if (mode == EST_TRAIN) est_model_minimize(model, est_adagrad(0.1, NULL), loss);
    return est_model_status(model);
}

static est_status no_rows(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(input_fn(context, user, &d));
    return est_dataset_finish(est_dataset_take(d, 0), out);
}

/* No step: the checkpoint has what the variables started with. */
static void warm_start(const warm_case *c)
{
    est_warm_start start = c->start;
    est_vocab_info vocab = c->vocab;
    est_estimator *e     = NULL;
    char           dir[64];

    start.struct_size = sizeof start;
    start.path        = interop_path(start.path != NULL ? start.path : "old");
    if (vocab.variable != NULL) {
        vocab.new_vocab = interop_path(vocab.new_vocab);
        vocab.old_vocab = interop_path(vocab.old_vocab);
        if (c->backup != 0) vocab.backup = est_init_constant(c->backup);
        start.vocabs = (est_vocab_infos){ &vocab, 1 };
    }
    if (c->rename.variable != NULL) start.renames = (est_renames){ &c->rename, 1 };
    snprintf(dir, sizeof dir, "warm_%s", c->name);
    interop_check(est_estimator_create(warm_model_fn,
                                       EST_ESTIMATOR(.model_dir = interop_path(dir),
                                                     .config    = EST_RUN_CONFIG(.quiet = true, .cluster_json = "{}"),
                                                     .params = c, .params_size = sizeof *c, .warm_start = &start),
                                       &e));
    assert_int_equal(est_train(e, EST_TRAIN_OPTIONS(.input_fn = no_rows)),
                     EST_INVALID_ARGUMENT); /* the start is saved */
    est_estimator_free(e);
}

TEST(warm_start)
{
    interop_ask("warm_start_theirs");
    for (size_t i = 0; i < N_WARM_CASES; i++) warm_start(&warm_cases[i]);
    interop_ask("check_warm_start");
}

/* --- defaults ----------------------------------------------------------------------------------------------------- */

/* What our headers promise for a field that is 0, against the signatures of the real classes. That the code keeps these
 * promises is shown by the test_default_... of tests/estimator. */
TEST(defaults)
{
    interop_ask("check_defaults");
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return INTEROP_MAIN("estimator");
}
