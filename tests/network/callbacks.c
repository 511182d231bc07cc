/* SPDX-License-Identifier: Apache-2.0
 *
 * Callbacks: what each does with logs that the test makes up, files, weights, and a fit that is killed and resumed. */
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "estoc/events.h"
#include "estoc/feature_column.h"
#include "estoc/saver.h"
#include "network/network_test.h"

/* --- a fit with logs made up -------------------------------------------------------------------------------------- */

/* Adds "m" to the logs, one value after the other, and writes down the learning rate. */
typedef struct actor {
    est_hook      hook;
    const double *values;
    est_network  *network;
    double        kernels[16], rates[16];
    int           epochs;
} actor;

static est_status act(est_hook *hook, est_loop *loop)
{
    actor *own = EST_CONTAINER_OF(hook, actor, hook);

    own->kernels[own->epochs] = variable_at(own->network, "dense/kernel", 0);
    own->rates[own->epochs]   = est_network_learning_rate(own->network);
    est_loop_set_log(loop, "m", own->values[own->epochs++]);
    return EST_OK;
}

typedef struct stage {
    est_tensor  *x, *y;
    est_network *network;
    actor        actor;
} stage;

static void stage_open(stage *s, const double *values)
{
    memset(s, 0, sizeof *s);
    s->x       = noise(16, 2, 1);
    s->y       = noise(16, 1, 2);
    s->network = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse", .optimizer = "sgd", .learning_rate = 1));
    s->actor   = (actor){ .hook = EST_HOOK(.epoch_end = act), .values = values, .network = s->network };
}

static est_history *stage_fit(stage *s, int64_t epochs, est_hook *callback)
{
    est_history *history;

    assert_non_null(callback);
    s->actor.epochs = 0;
    assert_ok(est_network_fit(s->network,
                              EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", s->x }, { "y", s->y }), .epochs = epochs,
                                      .batch_size = 4, .callbacks = EST_HOOKS(&s->actor.hook, callback),
                                      .verbose = EST_VERBOSE_NONE),
                              &history));
    est_hook_free(callback);
    return history;
}

static void stage_close(stage *s)
{
    est_network_free(s->network);
    est_tensor_free(s->x);
    est_tensor_free(s->y);
}

/* --- early stopping ----------------------------------------------------------------------------------------------- */

static int epochs_until_stop(const double *values, const char *monitor,
                             const est_early_stopping_callback_options *options)
{
    stage        s;
    est_history *history;
    int          n;

    stage_open(&s, values);
    history = stage_fit(&s, 8, est_early_stopping_callback(monitor, options));
    n       = est_history_epochs(history);
    est_history_free(history);
    stage_close(&s);
    return n;
}

/* As Keras decides: patience counts epochs without a better value. */
TEST(early_stopping)
{
    static const double falls[] = { 8, 7, 6, 5, 4, 3, 2, 1 }, flat[] = { 5, 3, 4, 3, 3, 2, 1, 0 };

    log_keep(EST_LOG_WARN);
    assert_int_equal(epochs_until_stop(falls, "m", NULL), 8);
    assert_int_equal(epochs_until_stop(flat, "m", NULL), 3);
    assert_int_equal(epochs_until_stop(flat, "m", EST_EARLY_STOPPING_CALLBACK(.patience = 2)), 4);
    assert_int_equal(epochs_until_stop(flat, "m", EST_EARLY_STOPPING_CALLBACK(.patience = 4)), 8);
    assert_int_equal(epochs_until_stop(falls, "m", EST_EARLY_STOPPING_CALLBACK(.min_delta = 1)), 2);
    assert_int_equal(epochs_until_stop(falls, "m", EST_EARLY_STOPPING_CALLBACK(.mode = EST_MONITOR_MAX)), 2);
    assert_int_equal(
        epochs_until_stop(falls, "m", EST_EARLY_STOPPING_CALLBACK(.mode = EST_MONITOR_MAX, .start_from_epoch = 3)), 5);
    assert_int_equal(
        epochs_until_stop(falls, "m", EST_EARLY_STOPPING_CALLBACK(.has_baseline = true, .baseline = 4, .patience = 3)),
        8);
    assert_int_equal(log_count(EST_LOG_WARN, "*"), 0);
    assert_int_equal(epochs_until_stop(falls, "val_loss", NULL), 8);
    assert_int_equal(log_count(EST_LOG_WARN, "there is no val_loss in the logs of epoch"), 8);
    assert_int_equal(log_count(EST_LOG_WARN, "in the logs of epoch 8; there are: loss, m"), 1);
}

TEST(best_weights)
{
    static const double values[] = { 5, 3, 4, 4, 4, 4 };
    stage               s;

    stage_open(&s, values);
    est_history_free(stage_fit(
        &s, 6,
        est_early_stopping_callback("m", EST_EARLY_STOPPING_CALLBACK(.patience = 2, .restore_best_weights = true))));
    assert_int_equal(s.actor.epochs, 4);
    assert_true(s.actor.kernels[1] != s.actor.kernels[3]);
    assert_true(variable_at(s.network, "dense/kernel", 0) == s.actor.kernels[1]);
    stage_close(&s);
}

/* --- the learning rate -------------------------------------------------------------------------------------------- */

TEST(plateau)
{
    static const double values[] = { 5, 5, 5, 5, 5, 5, 4, 4 };
    stage               s;
    est_history        *history;

    stage_open(&s, values);
    history = stage_fit(
        &s, 8,
        est_reduce_on_plateau_callback("m", EST_REDUCE_ON_PLATEAU(.factor = 0.5, .patience = 2, .min_rate = 0.2)));
    /* reduced after epochs 2 and 4; epoch 6 is better; 0.25 stays above 0.2 until two more would have come */
    for (int i = 0; i < 8; i++) {
        double want = i < 3 ? 1 : i < 5 ? 0.5 : 0.25;

        assert_near(s.actor.rates[i], want, 0);
        assert_near(est_history_value(history, "lr", i), want, 0);
    }
    assert_string_equal(est_history_name(history, est_history_count(history) - 1), "lr");
    est_history_free(history);
    stage_close(&s);
}

static double halve(int64_t epoch, double rate, void *user)
{
    assert_ptr_equal(user, "user");
    return epoch == 0 ? rate : rate / 2;
}

TEST(schedule)
{
    static const double values[3] = { 0 };
    stage               s;
    est_history        *history;

    stage_open(&s, values);
    history = stage_fit(&s, 3, est_learning_rate_callback(halve, "user"));
    for (int i = 0; i < 3; i++) assert_near(est_history_value(history, "lr", i), 1.0 / (1 << i), 0);
    assert_near(est_network_learning_rate(s.network), 0.25, 0);
    assert_ok(est_network_set_learning_rate(s.network, 0.125));
    assert_near(est_network_learning_rate(s.network), 0.125, 0);
    est_history_free(history);
    stage_close(&s);
}

/* An optimizer that is no Keras one has its rate in a variable, too. */
TEST(rate_of_a_value)
{
    est_tensor  *x = noise(4, 2, 1), *y = noise(4, 1, 2);
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer_value = est_sgd(0.5)));

    assert_true(isnan(est_network_learning_rate(network)));
    expect_error(est_network_set_learning_rate(network, 1), EST_FAILED_PRECONDITION, "it was not trained yet");
    assert_ok(est_network_train_on_batch(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }), NULL));
    assert_near(est_network_learning_rate(network), 0.5, 0);
    assert_ok(est_network_set_learning_rate(network, 0));
    {
        double before = variable_at(network, "dense/kernel", 0);

        assert_ok(est_network_train_on_batch(network, EST_NAMED_TENSORS({ "x", x }, { "y", y }), NULL));
        assert_true(variable_at(network, "dense/kernel", 0) == before);
    }
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

static double half(int64_t epoch, double rate, void *user)
{
    (void)epoch, (void)user;
    return rate / 2;
}

/* The variable of an optimizer that was replaced is not the rate of one that follows a schedule. */
TEST(rate_of_a_schedule)
{
    est_tensor       *x = noise(4, 2, 1), *y = noise(4, 1, 2);
    est_named_tensors both     = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network  = make_line(NULL, EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
    est_hook         *callback = est_learning_rate_callback(half, NULL);
    est_schedule      decay    = est_exponential_decay(0.1, 10, 0.5, false);

    assert_ok(est_network_fit(
        network, EST_FIT(.arrays = both, .callbacks = EST_HOOKS(callback), .verbose = EST_VERBOSE_NONE), NULL));
    assert_near(est_network_learning_rate(network), 0.005, 1e-9);
    assert_ok(est_network_compile(network,
                                  EST_COMPILE(.loss = "mse", .optimizer_value = est_with_schedule(est_sgd(0), decay))));
    assert_ok(est_network_train_on_batch(network, both, NULL));
    assert_true(isnan(est_network_learning_rate(network)));
    expect_error(est_network_set_learning_rate(network, 1), EST_FAILED_PRECONDITION, "it follows a schedule");
    expect_error(est_network_fit(network,
                                 EST_FIT(.arrays = both, .callbacks = EST_HOOKS(callback), .verbose = EST_VERBOSE_NONE),
                                 NULL),
                 EST_FAILED_PRECONDITION, "the learning rate follows a schedule");
    est_hook_free(callback);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* An evaluation has no epochs, and leaves the file as it is. */
static void expect_csv_of_evaluation(const stage *s, const char *path)
{
    est_hook *csv = est_csv_callback(path, false);
    char     *before, *after;
    size_t    size, size_after;

    assert_ok(est_file_read(path, &before, &size));
    assert_ok(est_network_evaluate(s->network,
                                   EST_NETWORK_EVALUATE(.arrays    = EST_NAMED_TENSORS({ "x", s->x }, { "y", s->y }),
                                                        .callbacks = EST_HOOKS(csv), .verbose = EST_VERBOSE_NONE),
                                   NULL));
    assert_ok(est_file_read(path, &after, &size_after));
    assert_int_equal(size, size_after);
    assert_memory_equal(before, after, size);
    est_free(before);
    est_free(after);
    est_hook_free(csv);
}

TEST(csv)
{
    static const double values[] = { 0.5, 0.25 };
    char                path[128];
    stage               s;
    est_history        *history;

    snprintf(path, sizeof path, "%s/log.csv", est_test_root);
    stage_open(&s, values);
    history = stage_fit(&s, 2, est_csv_callback(path, false));
    {
        char  *text, *at;
        size_t size;

        assert_ok(est_file_read(path, &text, &size));
        assert_memory_equal(text, "epoch,loss,m\n0,", 15);
        assert_true(strtod(text + 15, &at) == est_history_value(history, "loss", 0));
        assert_memory_equal(at, ",0.5\n1,", 7);
        est_free(text);
    }
    est_history_free(history);
    assert_ok(est_file_replace(path, "epoch,loss,m\n", 13));
    history = stage_fit(&s, 1, est_csv_callback(path, true));
    {
        char  *text;
        size_t size;

        assert_ok(est_file_read(path, &text, &size));
        assert_memory_equal(text, "epoch,loss,m\n0,", 15);
        est_free(text);
    }
    expect_csv_of_evaluation(&s, path);
    est_history_free(history);
    stage_close(&s);
}

/* Whether the file has these lines, in which * stands for any number. */
static void expect_lines(const char *path, const char *want)
{
    char  *text, *at;
    size_t size;

    assert_ok(est_file_read(path, &text, &size));
    for (at = text; *want != '\0'; want++) {
        char *end = at;

        if (*want == '*') assert_true(isfinite(strtod(at, &end)) && end != at);
        if (*want == '*' ? false : *at != *want) fail_msg("%s", text);
        at = *want == '*' ? end : at + 1;
    }
    if (at != text + size) fail_msg("%s", text);
    est_free(text);
}

/* Columns of validations that come after the first epoch, or with a fit that adds to the file; a file that Python has
 * written. */
TEST(csv_columns)
{
    est_tensor       *x = noise(16, 2, 1), *y = noise(16, 1, 2);
    est_named_tensors arrays  = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network = make_line(NULL, EST_COMPILE(.loss = "mse", .metrics = EST_STRINGS("mae")));
    est_hook         *added   = est_csv_callback(test_path("added.csv"), true);

    assert_ok(est_network_fit(network,
                              EST_FIT(.arrays = arrays, .epochs = 2, .validation_split = 0.5, .validation_freq = 2,
                                      .callbacks = EST_HOOKS(added), .verbose = EST_VERBOSE_NONE),
                              NULL));
    expect_lines(test_path("added.csv"), "epoch,loss,mae,val_loss,val_mae\n0,*,*,NA,NA\n1,*,*,*,*\n");
    assert_ok(est_network_fit(
        network, EST_FIT(.arrays = arrays, .callbacks = EST_HOOKS(added), .verbose = EST_VERBOSE_NONE), NULL));
    expect_lines(test_path("added.csv"), "epoch,loss,mae,val_loss,val_mae\n0,*,*,NA,NA\n1,*,*,*,*\n0,*,*,NA,NA\n");
    assert_ok(est_file_replace(test_path("added.csv"), "epoch,mae,lr\r\n0,1,2\r\n", 22));
    assert_ok(est_network_fit(
        network, EST_FIT(.arrays = arrays, .callbacks = EST_HOOKS(added), .verbose = EST_VERBOSE_NONE), NULL));
    expect_lines(test_path("added.csv"), "epoch,mae,lr,loss\n0,1,2,NA\n0,*,NA,*\n");
    assert_ok(est_file_replace(test_path("added.csv"), "name,size\n", 10));
    expect_error(est_network_fit(network,
                                 EST_FIT(.arrays = arrays, .callbacks = EST_HOOKS(added), .verbose = EST_VERBOSE_NONE),
                                 NULL),
                 EST_INVALID_ARGUMENT, "its first column is 'name', not 'epoch'");
    est_hook_free(added);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

TEST(checkpoints)
{
    static const double values[] = { 3, 1, 2 }, none[] = { NAN };
    char                path[160], first[160], second[160];
    stage               s;
    est_checkpoint     *checkpoint;
    est_tensor         *kernel;

    snprintf(path, sizeof path, "%s/c/w.{epoch:02d}-{m:.2f}", est_test_root);
    snprintf(first, sizeof first, "%s/c/w.02-1.00", est_test_root);
    snprintf(second, sizeof second, "%s/c/w.03-2.00.index", est_test_root);
    stage_open(&s, values);
    est_history_free(
        stage_fit(&s, 3,
                  est_model_checkpoint_callback(
                      path, EST_MODEL_CHECKPOINT(.monitor = "m", .save_best_only = true, .save_weights_only = true))));
    assert_ok(est_checkpoint_open(first, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 2);
    assert_ok(est_checkpoint_read(checkpoint, "dense/kernel", &kernel));
    assert_true((double)*(const float *)est_tensor_data(kernel) == s.actor.kernels[1]);
    est_tensor_free(kernel);
    est_checkpoint_close(checkpoint);
    assert_false(est_file_exists(second));
    est_history_free(stage_fit(&s, 3, est_model_checkpoint_callback(path, NULL)));
    assert_true(est_file_exists(second));
    s.actor.values = none; /* a name for it, and no error: the fit goes on */
    est_history_free(stage_fit(&s, 1, est_model_checkpoint_callback(path, NULL)));
    snprintf(first, sizeof first, "%s/c/w.01-nan.index", est_test_root);
    assert_true(est_file_exists(first));
    {
        est_hook *wrong = est_model_checkpoint_callback("w{epoch:x}", NULL);

        expect_error(est_network_fit(s.network,
                                     EST_FIT(.arrays    = EST_NAMED_TENSORS({ "x", s.x }, { "y", s.y }),
                                             .callbacks = EST_HOOKS(wrong), .verbose = EST_VERBOSE_NONE),
                                     NULL),
                     EST_INVALID_ARGUMENT, "{epoch:x} in the path of a checkpoint");
        est_hook_free(wrong);
    }
    stage_close(&s);
}

/* A dynamic embedding of ids, and a layer. */
static est_node embedded(est_graph *graph, est_features inputs, bool training, void *user)
{
    (void)graph, (void)training;
    return est_dense(est_input_layer(inputs, EST_COLUMN_LIST(user), NULL), 1, NULL);
}

/* Checkpoints have the keys of dynamic embeddings, so that they can be restored; weights cannot be put back. */
TEST(dynamic_embeddings)
{
    est_columns      *columns = est_columns_create();
    const est_column *column  = est_dynamic_embedding_column(columns, "id", EST_I64, 2, NULL);
    est_hook         *saves[] = { est_model_checkpoint_callback(test_path("all"), NULL),
                                  est_model_checkpoint_callback(
                                      test_path("weights"),
                                      EST_MODEL_CHECKPOINT(.monitor = "loss", .save_weights_only = true)) };
    est_hook    *stops = est_early_stopping_callback("loss", EST_EARLY_STOPPING_CALLBACK(.restore_best_weights = true));
    est_tensor  *ids, *y = noise(6, 1, 2), *want, *have;
    est_network *network[3];
    est_saver   *saver;

    assert_ok(est_tensor_i64(EST_SHAPE(6, 1), (const int64_t[]){ 7, 1 << 20, 7, 5, -3, 5 }, &ids));
    assert_ok(est_saver_create(test_path("saver"), NULL, &saver));
    for (int i = 0; i < 3; i++) {
        assert_ok(est_network_create(embedded,
                                     EST_NETWORK(.seed = 1 + (uint64_t)i, .user = (void *)(uintptr_t)column,
                                                 .inputs = EST_INPUTS({ "id", EST_I64, EST_SHAPE(1) })),
                                     &network[i]));
        assert_ok(est_network_compile(network[i], EST_COMPILE(.loss = "mse", .optimizer = "adagrad")));
    }
    {
        est_fit_options fit = *EST_FIT(.arrays  = EST_NAMED_TENSORS({ "id", ids }, { "y", y }),
                                       .verbose = EST_VERBOSE_NONE);

        fit.callbacks = EST_HOOKS(stops);
        expect_error(est_network_fit(network[0], &fit, NULL), EST_UNIMPLEMENTED,
                     "is a dynamic embedding, which cannot");
        fit.callbacks = (est_hooks){ saves, 2 };
        assert_ok(est_network_fit(network[0], &fit, NULL));
        assert_ok(est_network_build(network[1], NULL));
        assert_ok(est_network_fit(network[2], EST_FIT(.arrays = fit.arrays, .verbose = EST_VERBOSE_NONE), NULL));
    }
    assert_ok(est_network_predict(network[0], EST_NETWORK_PREDICT(.arrays = EST_NAMED_TENSORS({ "id", ids })), &want));
    for (int i = 1; i < 3; i++) { /* the weights alone; everything */
        assert_ok(est_saver_restore(saver, est_network_session(network[i]),
                                    EST_RESTORE(.path = test_path(i == 1 ? "weights" : "all"), .partial = i == 1),
                                    NULL));
        assert_ok(
            est_network_predict(network[i], EST_NETWORK_PREDICT(.arrays = EST_NAMED_TENSORS({ "id", ids })), &have));
        assert_memory_equal(est_tensor_data(have), est_tensor_data(want), 6 * sizeof(float));
        est_tensor_free(have);
    }
    for (int i = 0; i < 3; i++) est_network_free(network[i]);
    for (int i = 0; i < 2; i++) est_hook_free(saves[i]);
    est_hook_free(stops);
    est_saver_free(saver);
    est_columns_free(columns);
    est_tensor_free(ids);
    est_tensor_free(y);
    est_tensor_free(want);
}

/* What the event files of a directory say: "<step> <tag> <value>", one after the other. */
static void read_board(const char *part, est_strbuf *out)
{
    char            path[160];
    est_events     *events;
    est_event_entry entry;
    est_status      status;

    snprintf(path, sizeof path, "%s/board/%s", est_test_root, part);
    assert_ok(est_events_open(path, &events));
    while ((status = est_events_next(events, &entry)) == EST_OK) {
        if (entry.kind != EST_ENTRY_SCALAR) continue;
        est_strbuf_printf(out, "%d %.*s %.6g\n", (int)entry.step, (int)entry.tag.size, entry.tag.data, entry.number);
    }
    assert_int_equal(status, EST_OUT_OF_RANGE);
    est_events_close(events);
}

static int lines_of(const est_strbuf *text)
{
    int n = 0;

    for (const char *at = est_strbuf_text(text); *at != '\0'; at++) n += *at == '\n';
    return n;
}

static void expect_line(const est_strbuf *lines, int step, const char *tag, double value)
{
    char line[160];

    snprintf(line, sizeof line, "%d %s %.6g\n", step, tag, (double)(float)value);
    if (strstr(est_strbuf_text(lines), line) == NULL) fail_msg("no %sin\n%s", line, est_strbuf_text(lines));
}

/* Four steps an epoch; the second and the fourth are validated. */
TEST(tensorboard)
{
    static const double values[] = { 3, 1, 4, 1.5 };
    char                path[160];
    est_strbuf          train = { 0 }, validation = { 0 };
    est_hook           *board;
    est_history        *h;
    stage               s;

    snprintf(path, sizeof path, "%s/board", est_test_root);
    board = est_tensorboard_callback(path);
    stage_open(&s, values);
    assert_ok(est_network_fit(s.network,
                              EST_FIT(.arrays            = EST_NAMED_TENSORS({ "x", s.x }, { "y", s.y }),
                                      .validation_arrays = EST_NAMED_TENSORS({ "x", s.x }, { "y", s.y }),
                                      .validation_freq = 2, .epochs = 4, .batch_size = 4,
                                      .callbacks = EST_HOOKS(&s.actor.hook, board), .verbose = EST_VERBOSE_NONE),
                              &h));
    est_hook_free(board);
    read_board("train", &train);
    read_board("validation", &validation);
    for (int i = 0; i < 4; i++) {
        expect_line(&train, i, "epoch_loss", est_history_value(h, "loss", i));
        expect_line(&train, i, "epoch_m", values[i]);
    }
    for (int i = 1; i < 4; i += 2) {
        expect_line(&validation, i, "epoch_loss", est_history_value(h, "val_loss", i));
        expect_line(&validation, 4 * (i + 1), "evaluation_loss_vs_iterations", est_history_value(h, "val_loss", i));
    }
    assert_int_equal(lines_of(&train), 8);
    assert_int_equal(lines_of(&validation), 4);
    est_strbuf_clear(&train);
    est_strbuf_clear(&validation);
    est_history_free(h);
    stage_close(&s);
}

/* What cannot be written is found before the first step, and not when an epoch is lost by it. */
TEST(unwritable)
{
    static const double values[] = { 3 };
    char                file[160], below[200];
    est_hook           *hooks[4];
    stage               s;

    snprintf(file, sizeof file, "%s/plain", est_test_root);
    snprintf(below, sizeof below, "%s/weights.{epoch}", file);
    assert_ok(est_file_replace(file, "x", 1));
    hooks[0] = est_csv_callback(below, false);
    hooks[1] = est_csv_callback(est_test_root, true);
    hooks[2] = est_model_checkpoint_callback(below, NULL);
    hooks[3] = est_backup_callback(file, NULL);
    stage_open(&s, values);
    for (int i = 0; i < 4; i++) {
        assert_non_null(hooks[i]);
        assert_true(
            est_network_fit(s.network,
                            EST_FIT(.arrays    = EST_NAMED_TENSORS({ "x", s.x }, { "y", s.y }),
                                    .callbacks = EST_HOOKS(&s.actor.hook, hooks[i]), .verbose = EST_VERBOSE_NONE),
                            NULL) != EST_OK);
        if (strstr(est_error_message(), i == 1 ? est_test_root : file) == NULL) fail_msg("%s", est_error_message());
        assert_int_equal(s.actor.epochs, 0);
        est_hook_free(hooks[i]);
    }
    stage_close(&s);
}

/* --- what callbacks may call -------------------------------------------------------------------------------------- */

typedef struct caller {
    est_network      *network;
    est_named_tensors batch;
    int               refused; /* how many calls were */
    bool              evaluates;
} caller;

static est_status call_all(est_loop *loop, void *user)
{
    caller      *own     = user;
    const char  *busy    = own->evaluates ? "a callback of est_network_evaluate calls "
                                          : "a callback of est_network_fit calls ";
    est_tensor  *out     = NULL;
    est_metrics *metrics = NULL;
    double       values[2];

    (void)loop;
    expect_error(est_network_compile(own->network, EST_COMPILE(.loss = "mae", .metrics = EST_STRINGS("mse", "mae"))),
                 EST_FAILED_PRECONDITION, busy);
    expect_error(est_network_fit(own->network, EST_FIT(.arrays = own->batch), NULL), EST_FAILED_PRECONDITION, busy);
    expect_error(est_network_train_on_batch(own->network, own->batch, NULL), EST_FAILED_PRECONDITION, busy);
    own->refused += 3;
    if (own->evaluates) {
        expect_error(est_network_evaluate(own->network, EST_NETWORK_EVALUATE(.arrays = own->batch), NULL),
                     EST_FAILED_PRECONDITION, busy);
        expect_error(est_network_test_on_batch(own->network, own->batch, NULL), EST_FAILED_PRECONDITION, busy);
        own->refused += 2;
    } else {
        assert_ok(est_network_evaluate(
            own->network, EST_NETWORK_EVALUATE(.arrays = own->batch, .verbose = EST_VERBOSE_NONE), &metrics));
        assert_ok(est_network_test_on_batch(own->network, own->batch, values));
    }
    assert_ok(est_network_predict(own->network, EST_NETWORK_PREDICT(.arrays = own->batch), &out));
    assert_ok(est_network_save_weights(own->network, test_path("weights")));
    assert_ok(est_network_load_weights(own->network, test_path("weights"), NULL));
    assert_ok(est_network_save(own->network, test_path("model")));
    est_metrics_free(metrics);
    est_tensor_free(out);
    return EST_OK;
}

/* Counts the batches of tests, and writes down the loss so far after each. */
typedef struct tester {
    est_hook hook;
    double   losses[8];
    int      begins, batches, ends;
} tester;

static est_status test_begins(est_hook *hook, est_loop *loop)
{
    (void)loop;
    EST_CONTAINER_OF(hook, tester, hook)->begins++;
    return EST_OK;
}

static est_status test_runs(est_hook *hook, est_loop *loop)
{
    tester *own = EST_CONTAINER_OF(hook, tester, hook);

    own->losses[own->batches++] = est_loop_log(loop, "loss");
    return EST_OK;
}

static est_status test_ends(est_hook *hook, est_loop *loop)
{
    tester *own = EST_CONTAINER_OF(hook, tester, hook);

    own->losses[7] = est_loop_log(loop, "loss");
    own->ends++;
    return EST_OK;
}

static tester make_tester(void)
{
    return (tester){ .hook = EST_HOOK(.after_create_session = test_begins, .after_run = test_runs, .end = test_ends) };
}

/* Those of an evaluation, and of each validation of a fit, see the metrics so far; the last are the results. */
TEST(callbacks_of_tests)
{
    est_tensor       *x = noise(16, 2, 1), *y = noise(16, 1, 2);
    est_named_tensors arrays  = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse"));
    tester            alone = make_tester(), within = make_tester();
    est_history      *history;
    est_metrics      *metrics;

    assert_ok(est_network_evaluate(network,
                                   EST_NETWORK_EVALUATE(.arrays = arrays, .batch_size = 8, .verbose = EST_VERBOSE_NONE,
                                                        .callbacks = EST_HOOKS(&alone.hook)),
                                   &metrics));
    assert_int_equal(alone.batches, 2);
    assert_true(alone.begins == 1 && alone.ends == 1);
    assert_true(isfinite(alone.losses[0]) && alone.losses[0] != alone.losses[1]);
    assert_true(alone.losses[1] == est_metrics_get(metrics, "loss") && alone.losses[7] == alone.losses[1]);
    assert_ok(est_network_fit(network,
                              EST_FIT(.arrays = arrays, .validation_arrays = arrays, .batch_size = 8, .epochs = 2,
                                      .validation_callbacks = EST_HOOKS(&within.hook), .verbose = EST_VERBOSE_NONE),
                              &history));
    assert_int_equal(within.batches, 4);
    assert_true(within.begins == 2 && within.ends == 2);
    assert_true(within.losses[1] == est_history_value(history, "val_loss", 0));
    assert_true(within.losses[3] == est_history_value(history, "val_loss", 1) && within.losses[7] == within.losses[3]);
    est_metrics_free(metrics);
    est_history_free(history);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* A callback may look at the network in every way, and change neither the training nor the measurement that it is
 * called by: both end as without it. */
TEST(calls)
{
    est_tensor       *x = noise(16, 2, 1), *y = noise(16, 1, 2);
    est_named_tensors batch = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_network      *network[2];
    est_history      *history[2];
    est_metrics      *metrics[2];

    for (int i = 0; i < 2; i++) {
        caller    own  = { .batch = batch };
        est_hook *hook = est_lambda_callback(
            EST_LAMBDA_CALLBACK(.batch_end = call_all, .epoch_end = call_all, .user = &own));
        est_hooks hooks = i == 0 ? (est_hooks){ 0 } : EST_HOOKS(hook);

        network[i] = own.network = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse"));
        assert_ok(est_network_fit(
            network[i],
            EST_FIT(.arrays = batch, .batch_size = 8, .epochs = 2, .callbacks = hooks, .verbose = EST_VERBOSE_NONE),
            &history[i]));
        own.evaluates = true;
        assert_ok(est_network_evaluate(
            network[i], EST_NETWORK_EVALUATE(.arrays = batch, .callbacks = hooks, .verbose = EST_VERBOSE_NONE),
            &metrics[i]));
        assert_int_equal(own.refused, i == 0 ? 0 : 6 * 3 + 5);
        est_hook_free(hook);
    }
    expect_same_variable(network[0], network[1], "dense/kernel");
    assert_true(est_metrics_get(metrics[0], "loss") == est_metrics_get(metrics[1], "loss"));
    for (int i = 0; i < 2; i++) {
        assert_true(est_history_value(history[0], "loss", i) == est_history_value(history[1], "loss", i));
    }
    for (int i = 0; i < 2; i++) {
        est_history_free(history[i]);
        est_metrics_free(metrics[i]);
        est_network_free(network[i]);
    }
    est_tensor_free(x);
    est_tensor_free(y);
}

/* --- others ------------------------------------------------------------------------------------------------------- */

TEST(terminate_on_nan)
{
    est_tensor  *x = floats(EST_SHAPE(4, 1), (const float[]){ 1, 1, NAN, 1 }), *y = noise(4, 1, 1);
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    est_hook    *stop    = est_terminate_on_nan_callback();
    est_history *history;
    est_tensor  *step;

    log_keep(EST_LOG_WARN);
    assert_ok(est_network_fit(network,
                              EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .epochs = 5, .batch_size = 1,
                                      .no_shuffle = true, .callbacks = EST_HOOKS(stop), .verbose = EST_VERBOSE_NONE),
                              &history));
    log_expect("step 3: the loss is*nan; training ends");
    assert_int_equal(est_history_epochs(history), 1);
    assert_ok(est_session_read(est_network_session(network), "global_step", &step));
    assert_int_equal(*(const int64_t *)est_tensor_data(step), 3);
    est_tensor_free(step);
    est_hook_free(stop);
    est_history_free(history);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
}

/* Makes the model diverge in the second epoch. */
static est_status diverge(est_hook *hook, est_loop *loop)
{
    est_tensor *nan;
    est_status  status;

    (void)hook;
    if (est_loop_epoch(loop) < 1) return EST_OK;
    EST_TRY(est_tensor_f32(EST_SHAPE(1, 1), (const float[]){ NAN }, &nan));
    status = est_session_write(est_loop_session(loop), "dense/kernel", nan);
    est_tensor_free(nan);
    return status;
}

/* The files of model checkpoint and backup have the variables of the last good epoch, also when the fit ends there. */
static void diverge_in_fit(int64_t epochs)
{
    est_tensor  *x = noise(4, 1, 2), *y = noise(4, 1, 1);
    est_network *network = make_line(NULL, EST_COMPILE(.loss = "mse"));
    est_hook     nan     = EST_HOOK(.after_run = diverge);
    est_hook    *saves, *each, *backup, *stop = est_terminate_on_nan_callback();
    char         dir[64], path[128], step_path[128], backups[128];

    est_test_dir(dir);
    snprintf(path, sizeof path, "%s/weights", dir);
    snprintf(step_path, sizeof step_path, "%s/steps", dir);
    snprintf(backups, sizeof backups, "%s/backup", dir);
    saves  = est_model_checkpoint_callback(path, NULL);
    each   = est_model_checkpoint_callback(step_path, EST_MODEL_CHECKPOINT(.save_freq = 1));
    backup = est_backup_callback(backups, NULL);
    log_keep(EST_LOG_WARN);
    assert_ok(
        est_network_fit(network,
                        EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .epochs = epochs, .batch_size = 4,
                                .callbacks = EST_HOOKS(&nan, stop, saves, each, backup), .verbose = EST_VERBOSE_NONE),
                        NULL));
    log_expect("model checkpoint: the variable 'dense/kernel' is NaN: the model diverged. Nothing is saved");
    for (int i = 0; i < 3; i++) {
        const char     *paths[] = { path, step_path, backups };
        est_checkpoint *written = NULL;
        est_tensor     *kernel  = NULL;

        assert_ok(est_checkpoint_open(paths[i], &written));
        assert_ok(est_checkpoint_read(written, "dense/kernel", &kernel));
        assert_true(isfinite(*(const float *)est_tensor_data(kernel)));
        est_tensor_free(kernel);
        est_checkpoint_close(written);
    }
    est_hook_free(saves);
    est_hook_free(each);
    est_hook_free(backup);
    est_hook_free(stop);
    est_network_free(network);
    est_tensor_free(x);
    est_tensor_free(y);
    est_test_dir_remove(dir);
}

TEST(nan_is_not_saved)
{
    diverge_in_fit(2);
    diverge_in_fit(4);
}

static char called[256];

#define NOTE(name)                                                                                                     \
    static est_status note_##name(est_loop *loop, void *user)                                                          \
    {                                                                                                                  \
        assert_non_null(loop);                                                                                         \
        assert_ptr_equal(user, called);                                                                                \
        strncat(called, #name " ", sizeof called - strlen(called) - 1);                                                \
        return EST_OK;                                                                                                 \
    }
NOTE(train_begin)
NOTE(train_end)
NOTE(epoch_begin)
NOTE(epoch_end)
NOTE(batch_begin)

/* The mean up to this batch: both batches have their losses in the history. */
static double after_batch[2];
static int    n_batches;

static est_status note_batch_end(est_loop *loop, void *user)
{
    (void)user;
    after_batch[n_batches++ % 2] = est_loop_log(loop, "loss");
    return EST_OK;
}

TEST(lambda)
{
    static const double values[] = { 3 };
    stage               s;
    est_history        *history;

    stage_open(&s, values);
    est_tensor_free(s.x);
    est_tensor_free(s.y);
    s.x     = noise(8, 2, 1);
    s.y     = noise(8, 1, 2);
    history = stage_fit(
        &s, 1,
        est_lambda_callback(EST_LAMBDA_CALLBACK(.train_begin = note_train_begin, .train_end = note_train_end,
                                                .epoch_begin = note_epoch_begin, .epoch_end = note_epoch_end,
                                                .batch_begin = note_batch_begin, .batch_end = note_batch_end,
                                                .user = called)));
    assert_string_equal(called, "train_begin epoch_begin batch_begin batch_begin epoch_end train_end ");
    assert_true(after_batch[1] == est_history_value(history, "loss", 0));
    assert_true(after_batch[0] != after_batch[1]);
    est_history_free(history);
    stage_close(&s);
}

TEST(refused)
{
    assert_null(est_early_stopping_callback("m", EST_EARLY_STOPPING_CALLBACK(.patience = -1)));
    assert_null(est_early_stopping_callback("m", EST_EARLY_STOPPING_CALLBACK(.min_delta = -1)));
    assert_null(est_reduce_on_plateau_callback("m", EST_REDUCE_ON_PLATEAU(.factor = 2)));
    assert_null(est_learning_rate_callback(NULL, NULL));
    assert_null(est_model_checkpoint_callback(NULL, NULL));
    assert_null(est_csv_callback("", false));
    assert_null(est_tensorboard_callback(NULL));
    assert_null(est_backup_callback(NULL, NULL));
    assert_null(est_backup_callback("p", EST_BACKUP(.save_freq = -1)));
}

static est_status make_all(void)
{
    est_hook  *hooks[] = { est_early_stopping_callback("m", NULL),
                           est_reduce_on_plateau_callback("m", NULL),
                           est_learning_rate_callback(halve, NULL),
                           est_model_checkpoint_callback("p", NULL),
                           est_csv_callback("p", false),
                           est_tensorboard_callback("p"),
                           est_terminate_on_nan_callback(),
                           est_lambda_callback(NULL),
                           est_backup_callback("p", NULL) };
    est_status status  = EST_OK;

    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++) {
        if (hooks[i] == NULL) status = EST_RESOURCE_EXHAUSTED;
        est_hook_free(hooks[i]);
    }
    return status;
}

TEST(memory)
{
    fault_allocations(make_all);
}

/* A fit with all of them; what was allocated is freed wherever it fails. */
static est_status fit_with_all(est_network *network, est_named_tensors arrays, const char *dir)
{
    char       csv[128], ckpt[128], backup[128];
    est_hook  *hooks[6];
    est_status status = EST_OK;
    const int  n      = 6;

    snprintf(csv, sizeof csv, "%s/m.csv", dir);
    snprintf(ckpt, sizeof ckpt, "%s/m-{epoch}", dir);
    snprintf(backup, sizeof backup, "%s/m-backup", dir);
    hooks[0] = est_early_stopping_callback("loss", EST_EARLY_STOPPING_CALLBACK(.restore_best_weights = true));
    hooks[1] = est_reduce_on_plateau_callback("loss", NULL);
    hooks[2] = est_csv_callback(csv, false);
    hooks[3] = est_model_checkpoint_callback(ckpt, NULL);
    hooks[4] = est_backup_callback(backup, NULL);
    hooks[5] = est_learning_rate_callback(halve, "user");
    for (int i = 0; i < n; i++) {
        if (hooks[i] == NULL) status = EST_RESOURCE_EXHAUSTED;
    }
    if (status == EST_OK) {
        status = est_network_fit(
            network, EST_FIT(.arrays = arrays, .epochs = 2, .callbacks = { hooks, n }, .verbose = EST_VERBOSE_LINES),
            NULL);
    }
    for (int i = 0; i < n; i++) est_hook_free(hooks[i]);
    return status;
}

TEST(memory_of_fit)
{
    est_tensor       *x = noise(4, 2, 1), *y = noise(4, 1, 2);
    est_named_tensors arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });

    log_keep(EST_LOG_ERROR);
    FAULT_LOOP(f, FAULT_PLACES, .depth = 6, .more_than = 100) {
        est_network *network = make_line(EST_NETWORK(.seed = 1), EST_COMPILE(.loss = "mse", .optimizer = "sgd"));
        char         dir[64];

        est_test_dir(dir);
        fault_arm(&f);
        fault_check_lenient(&f, fit_with_all(network, arrays, dir));
        est_network_free(network);
        est_test_dir_remove(dir);
    }
    est_tensor_free(x);
    est_tensor_free(y);
}

/* --- backup ------------------------------------------------------------------------------------------------------- */

typedef struct killer {
    est_hook hook;
    int64_t  epoch;
} killer;

static est_status kill_me(est_hook *hook, est_loop *loop)
{
    if (est_loop_epoch(loop) == EST_CONTAINER_OF(hook, killer, hook)->epoch) (void)raise(SIGKILL);
    return EST_OK;
}

static est_node with_dropout(est_graph *graph, est_features inputs, bool training, void *user)
{
    est_node x = est_dense(est_network_input_node(inputs, "x"), 8, EST_DENSE(.activation = est_relu));

    (void)graph, (void)user;
    return est_dense(est_dropout_layer(x, 0.5, training), 1, NULL);
}

static est_strategy *replicas; /* NULL: one */

/* Six epochs with dropout, a shuffled input and a validation; `kill_at`: in this epoch, -1: never. */
static est_network *fit_with_backup(const char *dir, int64_t kill_at, bool by_steps, int64_t save_freq,
                                    est_history **history)
{
    est_tensor     *x = noise(30, 4, 1), *y = noise(30, 1, 2);
    est_hook       *backup = est_backup_callback(dir, EST_BACKUP(.save_freq = save_freq));
    killer          k      = { .hook = EST_HOOK(.after_run = kill_me), .epoch = kill_at };
    est_dataset    *d      = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "y", y }));
    est_network    *network;
    est_fit_options o = *EST_FIT(.epochs = 6, .verbose = EST_VERBOSE_NONE);

    d = est_dataset_shuffle(d, 30, 9);
    if (by_steps) d = est_dataset_repeat(d, EST_FOREVER);
    assert_ok(est_dataset_finish(est_dataset_batch(d, 4, NULL), &d));
    assert_ok(est_network_create(with_dropout, EST_NETWORK(.seed = 5, .strategy = replicas), &network));
    assert_ok(
        est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam", .metrics = EST_STRINGS("mae"))));
    o.input             = d;
    o.validation_arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    o.callbacks         = EST_HOOKS(&k.hook, backup);
    o.steps_per_epoch   = by_steps ? 5 : 0;
    assert_ok(est_network_fit(network, &o, history));
    est_hook_free(backup);
    est_dataset_free(d);
    est_tensor_free(x);
    est_tensor_free(y);
    return network;
}

static void expect_resumed(bool by_steps, int64_t save_freq)
{
    char         dir[128], never[128];
    est_network *whole, *parts;
    est_history *a, *b;

    snprintf(dir, sizeof dir, "%s/backup%d-%d", est_test_root, by_steps, (int)save_freq);
    snprintf(never, sizeof never, "%s/never%d-%d", est_test_root, by_steps, (int)save_freq);
    for (int64_t at = 2; at <= 4; at += 2) { /* killed twice */
        pid_t pid = fork();
        int   status;

        if (pid == 0) {
            (void)fit_with_backup(dir, at, by_steps, save_freq, &a);
            _exit(1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_true(est_dir_exists(dir));
    }
    parts = fit_with_backup(dir, -1, by_steps, save_freq, &a);
    whole = fit_with_backup(never, -1, by_steps, save_freq, &b);
    assert_false(est_dir_exists(dir));
    assert_int_equal(est_history_epochs(a), 6);
    assert_int_equal(est_history_count(a), 4);
    for (int k = 0; k < 4; k++) {
        assert_string_equal(est_history_name(a, k), est_history_name(b, k));
        for (int i = 0; i < 6; i++) {
            const char *name = est_history_name(a, k);

            assert_int_equal(est_history_epoch(a, i), i);
            if (est_history_value(a, name, i) != est_history_value(b, name, i)) {
                fail_msg("%s of epoch %d: %.9g and %.9g", name, i, est_history_value(a, name, i),
                         est_history_value(b, name, i));
            }
        }
    }
    expect_same_variable(whole, parts, "dense/kernel");
    expect_same_variable(whole, parts, "dense_1/kernel");
    est_history_free(a);
    est_history_free(b);
    est_network_free(whole);
    est_network_free(parts);
}

/* A fit that is killed and started again has the history of one that is not, bit for bit. */
TEST(killed)
{
    expect_resumed(false, 0);
}

TEST(killed_by_steps)
{
    expect_resumed(true, 0);
}

/* Also from the middle of an epoch: the position of the input and the metrics of its first steps are restored. */
TEST(killed_within_an_epoch)
{
    expect_resumed(false, 3);
    expect_resumed(true, 3);
}

/* And after the last step of an epoch, whose validation is still to be made: its metrics are those of its steps, and
 * the next epoch goes on with the input where that one ended. */
TEST(killed_after_an_epoch)
{
    expect_resumed(false, 8);
    expect_resumed(true, 5);
}

TEST(killed_with_replicas)
{
    assert_ok(est_mirrored_strategy(EST_MIRRORED(.replicas = 3), &replicas));
    expect_resumed(false, 7);
    expect_resumed(true, 2);
    est_strategy_free(replicas);
    replicas = NULL;
}

/* A backup that has served a fit has nothing to save in an evaluation. */
TEST(backup_after_its_fit)
{
    est_tensor       *x = noise(8, 2, 1), *y = noise(8, 1, 2);
    est_named_tensors arrays  = EST_NAMED_TENSORS({ "x", x }, { "y", y });
    est_hook         *backup  = est_backup_callback(test_path("served"), EST_BACKUP(.save_freq = 1));
    est_network      *network = make_line(NULL, EST_COMPILE(.loss = "mse"));

    assert_ok(est_network_fit(
        network, EST_FIT(.arrays = arrays, .callbacks = EST_HOOKS(backup), .verbose = EST_VERBOSE_NONE), NULL));
    assert_ok(est_network_evaluate(
        network, EST_NETWORK_EVALUATE(.arrays = arrays, .callbacks = EST_HOOKS(backup), .verbose = EST_VERBOSE_NONE),
        NULL));
    assert_false(est_dir_exists(test_path("served")));
    est_network_free(network);
    est_hook_free(backup);
    est_tensor_free(x);
    est_tensor_free(y);
}

static est_node named_line(est_graph *graph, est_features inputs, bool training, void *user)
{
    (void)graph, (void)training;
    return est_dense(est_network_input_node(inputs, "x"), 1, EST_DENSE(.name = user));
}

static est_status interrupt(est_hook *hook, est_loop *loop)
{
    if (est_loop_epoch(loop) != EST_CONTAINER_OF(hook, killer, hook)->epoch) return EST_OK;
    return est_fail(EST_INTERNAL, "interrupted");
}

static est_network *fit_line(char *name, const char *dir, int64_t stop_at)
{
    est_tensor  *x = noise(8, 2, 1), *y = noise(8, 1, 2);
    est_hook    *backup = est_backup_callback(dir, NULL);
    killer       k      = { .hook = EST_HOOK(.after_run = interrupt), .epoch = stop_at };
    est_network *network;
    est_status   status;

    assert_ok(est_network_create(named_line, EST_NETWORK(.seed = 3, .user = name), &network));
    assert_ok(est_network_compile(network, EST_COMPILE(.loss = "mse", .optimizer = "adam")));
    status = est_network_fit(network,
                             EST_FIT(.arrays = EST_NAMED_TENSORS({ "x", x }, { "y", y }), .epochs = 4, .batch_size = 4,
                                     .callbacks = EST_HOOKS(&k.hook, backup), .verbose = EST_VERBOSE_NONE),
                             NULL);
    assert_int_equal(status, stop_at < 0 ? EST_OK : EST_INTERNAL);
    est_hook_free(backup);
    est_tensor_free(x);
    est_tensor_free(y);
    return network;
}

/* A second network of the program, whose variables have other names, goes on by their order. */
TEST(other_names)
{
    char         dir[128], never[128];
    est_network *first, *second, *whole;
    est_tensor  *a, *b;

    snprintf(dir, sizeof dir, "%s/names", est_test_root);
    snprintf(never, sizeof never, "%s/never-names", est_test_root);
    first  = fit_line("one", dir, 2);
    second = fit_line("two", dir, -1);
    whole  = fit_line("one", never, -1);
    assert_ok(est_session_read(est_network_session(second), "two/kernel", &a));
    assert_ok(est_session_read(est_network_session(whole), "one/kernel", &b));
    assert_memory_equal(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(b));
    est_tensor_free(a);
    est_tensor_free(b);
    est_network_free(first);
    est_network_free(second);
    est_network_free(whole);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
