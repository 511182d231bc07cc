/* SPDX-License-Identifier: Apache-2.0
 *
 * Warm start: which variables, under which names, rows and columns by vocabulary, what is refused. The numbers are
 * worked out by hand; tests/interop/estimator.c has the same cases with TensorFlow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/estimator_test.h"
#include "support/fault_loop.h"

#define INITIAL 7 /* of every variable of the new model but the slots */

/* How large the variables of the model are: table [rows, 2], kernel [2, columns], bias [columns], fixed [2]. */
typedef struct sizes {
    int64_t rows, columns;
} sizes;

static est_node weight(est_model *model, const char *name, est_shape shape, bool frozen)
{
    return est_weight(est_model_graph(model), name, shape,
                      EST_WEIGHT(.initializer = est_init_constant(INITIAL), .frozen = frozen));
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const sizes *size   = params;
    est_node     x      = est_model_feature(model, "x"); /* [batch, 2] */
    est_node     table  = est_read_variable(weight(model, "table", EST_SHAPE(size->rows, 2), false));
    est_node     kernel = est_read_variable(weight(model, "kernel", EST_SHAPE(2, size->columns), false));
    est_node     bias   = est_read_variable(weight(model, "bias", EST_SHAPE(size->columns), false));
    est_node     fixed  = est_read_variable(weight(model, "fixed", EST_SHAPE(2), true));
    est_node     y      = est_add(est_matmul(est_mul(x, fixed), kernel), bias);
    est_node     loss   = est_add(est_mean(est_square(y)), est_mean(est_square(table)));

    est_model_loss(model, loss);
    est_model_metric(model, "mean", est_metric_mean(y, NULL)); /* its state is no variable to start */
    if (mode == EST_TRAIN) est_model_minimize(model, est_adagrad(0.1, NULL), loss);
    return est_model_status(model);
}

/* No batch: the checkpoint of step 0 has what the variables started with. */
static est_status no_rows(const est_input_context *context, void *user, est_dataset **out)
{
    est_dataset *d = NULL;

    EST_TRY(est_test_input(context, user, &d));
    return est_dataset_finish(est_dataset_take(d, 0), out);
}

/* --- the old run -------------------------------------------------------------------------------------------------- */

typedef struct stored {
    const char  *name;
    est_shape    shape;
    const float *values;
} stored;

/* The old model's table has 4 rows, its kernel 3 columns. */
static const stored old_model[] = {
    { "table", { .rank = 2, .dim = { 4, 2 } }, (const float[]){ 10, 11, 20, 21, 30, 31, 40, 41 } },
    { "kernel", { .rank = 2, .dim = { 2, 3 } }, (const float[]){ 1, 2, 3, 4, 5, 6 } },
    { "bias", { .rank = 1, .dim = { 3 } }, (const float[]){ 100, 200, 300 } },
    { "fixed", { .rank = 1, .dim = { 2 } }, (const float[]){ 8, 9 } },
    { "table/Adagrad", { .rank = 2, .dim = { 4, 2 } }, (const float[]){ 1, 1, 1, 1, 1, 1, 1, 1 } },
    { "kernel/Adagrad", { .rank = 2, .dim = { 2, 3 } }, (const float[]){ 2, 2, 2, 2, 2, 2 } },
    { "bias/Adagrad", { .rank = 1, .dim = { 3 } }, (const float[]){ 3, 3, 3 } },
    { "ancient/kernel", { .rank = 2, .dim = { 2, 3 } }, (const float[]){ -1, -2, -3, -4, -5, -6 } },
};

static char old_dir[64];

static int save_old(void **state)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_saver   *saver   = NULL;
    est_tensor  *value   = NULL;

    (void)state;
    est_test_dir(old_dir);
    assert_int_equal(est_graph_create(1, &graph), EST_OK);
    for (size_t i = 0; i < sizeof old_model / sizeof old_model[0]; i++) {
        est_variable(graph, old_model[i].name, EST_F32, old_model[i].shape);
    }
    est_variable(graph, "global_step", EST_I64, EST_SHAPE_SCALAR);
    assert_int_equal(est_session_create(graph, NULL, &session), EST_OK);
    for (size_t i = 0; i < sizeof old_model / sizeof old_model[0]; i++) {
        assert_int_equal(est_tensor_f32(old_model[i].shape, old_model[i].values, &value), EST_OK);
        assert_int_equal(est_session_write(session, old_model[i].name, value), EST_OK);
        est_tensor_free(value);
    }
    assert_int_equal(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 50 }, &value), EST_OK);
    assert_int_equal(est_session_write(session, "global_step", value), EST_OK);
    est_tensor_free(value);
    assert_int_equal(est_saver_create(old_dir, NULL, &saver), EST_OK);
    assert_int_equal(est_saver_save(saver, session, 50, NULL, NULL), EST_OK);
    est_saver_free(saver);
    est_session_free(session);
    est_graph_free(graph);
    return 0;
}

static int remove_old(void **state)
{
    (void)state;
    est_test_dir_remove(old_dir);
    return 0;
}

/* A file of the old directory; good until the fourth call after this one. */
static const char *vocabulary(const char *name, const char *lines)
{
    static char paths[4][96];
    static int  turn;
    char       *path = paths[turn = (turn + 1) % 4];
    FILE       *file;

    snprintf(path, sizeof paths[0], "%s/%s", old_dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(lines, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static est_status start(const char *dir, sizes size, const est_warm_start *warm_start)
{
    est_estimator *e = NULL;
    est_status     status;

    status = est_estimator_create(model_fn,
                                  EST_ESTIMATOR(.config = EST_RUN_CONFIG(.model_dir = dir, .seed = 5, .quiet = true,
                                                                         .threads = 1, .cluster_json = "{}"),
                                                .params = &size, .params_size = sizeof size, .warm_start = warm_start),
                                  &e);
    if (status == EST_OK) status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = no_rows));
    if (strstr(est_error_message(), "no batch to train with") != NULL) status = EST_OK; /* the start is saved */
    est_estimator_free(e);
    return status;
}

static void assert_values(const char *dir, const char *name, int n, const float *want)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *value      = NULL;

    assert_int_equal(est_checkpoint_open(dir, &checkpoint), EST_OK);
    assert_int_equal(est_checkpoint_read(checkpoint, name, &value), EST_OK);
    assert_int_equal(est_tensor_count(value), n);
    for (int i = 0; i < n; i++) {
        float got = ((const float *)est_tensor_data(value))[i];

        if (got != want[i]) fail_msg("%s[%d] is %g, expected %g", name, i, got, want[i]);
    }
    est_tensor_free(value);
    est_checkpoint_close(checkpoint);
}

#define ASSERT_VALUES(dir, name, ...)                                                                                  \
    assert_values(dir, name, (int)(sizeof((float[]){ __VA_ARGS__ }) / sizeof(float)), (float[]){ __VA_ARGS__ })

static void started(char dir[64], sizes size, const est_warm_start *warm_start)
{
    est_test_dir(dir);
    if (start(dir, size, warm_start) != EST_OK) fail_msg("%s", est_error_message());
}

static const sizes same = { 4, 3 };

TEST(trainable)
{
    char            dir[64];
    est_checkpoint *checkpoint = NULL;
    est_tensor     *step       = NULL;

    started(dir, same, EST_WARM_START(.path = old_dir));
    ASSERT_VALUES(dir, "table", 10, 11, 20, 21, 30, 31, 40, 41);
    ASSERT_VALUES(dir, "kernel", 1, 2, 3, 4, 5, 6);
    ASSERT_VALUES(dir, "bias", 100, 200, 300);
    ASSERT_VALUES(dir, "fixed", INITIAL, INITIAL);
    ASSERT_VALUES(dir, "bias/Adagrad", 0.1f, 0.1f, 0.1f);
    assert_int_equal(est_checkpoint_open(dir, &checkpoint), EST_OK);
    assert_int_equal(est_checkpoint_read(checkpoint, "global_step", &step), EST_OK);
    assert_int_equal(*(const int64_t *)est_tensor_data(step), 0);
    est_tensor_free(step);
    est_checkpoint_close(checkpoint);

    /* A directory that has a checkpoint goes on from it. */
    assert_int_equal(start(dir, same, EST_WARM_START(.path = "nowhere")), EST_OK);
    ASSERT_VALUES(dir, "bias", 100, 200, 300);
    est_test_dir_remove(dir);
}

TEST(all)
{
    char dir[64];

    started(dir, same, EST_WARM_START(.path = old_dir, .all = true));
    ASSERT_VALUES(dir, "fixed", 8, 9);
    ASSERT_VALUES(dir, "bias/Adagrad", 3, 3, 3);
    ASSERT_VALUES(dir, "kernel/Adagrad", 2, 2, 2, 2, 2, 2);
    est_test_dir_remove(dir);
    started(dir, same, EST_WARM_START(.path = old_dir, .all = true, .variables = "kernel|fix"));
    ASSERT_VALUES(dir, "fixed", 8, 9);
    ASSERT_VALUES(dir, "kernel/Adagrad", 2, 2, 2, 2, 2, 2);
    ASSERT_VALUES(dir, "bias/Adagrad", 0.1f, 0.1f, 0.1f);
    ASSERT_VALUES(dir, "bias", INITIAL, INITIAL, INITIAL);
    est_test_dir_remove(dir);
}

/* The pattern is matched from the start of the name, not to its end. */
TEST(pattern)
{
    char dir[64];

    started(dir, same, EST_WARM_START(.path = old_dir, .variables = "[bk].*"));
    ASSERT_VALUES(dir, "kernel", 1, 2, 3, 4, 5, 6);
    ASSERT_VALUES(dir, "bias", 100, 200, 300);
    ASSERT_VALUES(dir, "table", INITIAL, INITIAL, INITIAL, INITIAL, INITIAL, INITIAL, INITIAL, INITIAL);
    est_test_dir_remove(dir);
    started(dir, same, EST_WARM_START(.path = old_dir, .variables = "ker"));
    ASSERT_VALUES(dir, "kernel", 1, 2, 3, 4, 5, 6);
    ASSERT_VALUES(dir, "bias", INITIAL, INITIAL, INITIAL);
    est_test_dir_remove(dir);
    started(dir, same, EST_WARM_START(.path = old_dir, .variables = "ernel"));
    ASSERT_VALUES(dir, "kernel", INITIAL, INITIAL, INITIAL, INITIAL, INITIAL, INITIAL);
    est_test_dir_remove(dir);
}

TEST(renames)
{
    const est_rename renames[] = { { "kernel", "ancient/kernel" } };
    char             dir[64];

    started(dir, same, EST_WARM_START(.path = old_dir, .renames = { renames, 1 }));
    ASSERT_VALUES(dir, "kernel", -1, -2, -3, -4, -5, -6);
    ASSERT_VALUES(dir, "bias", 100, 200, 300);
    est_test_dir_remove(dir);
}

/* --- vocabularies ------------------------------------------------------------------------------------------------- */

static est_vocab_info rows(bool initial)
{
    return (est_vocab_info){ .variable        = "table",
                             .old_vocab       = vocabulary("old.txt", "a\nb\nc\nd\n"),
                             .new_vocab       = vocabulary("new.txt", "c\nx\na\n"),
                             .num_oov_buckets = 2,
                             .initial         = initial };
}

TEST(rows)
{
    char           dir[64];
    est_vocab_info vocabs[1] = { rows(false) };

    started(dir, (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 1 }));
    ASSERT_VALUES(dir, "table", 30, 31, 0, 0, 10, 11, 0, 0, 0, 0);
    ASSERT_VALUES(dir, "kernel", 1, 2, 3, 4, 5, 6);
    est_test_dir_remove(dir);

    vocabs[0] = rows(true);
    started(dir, (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir, .only_vocabs = true, .vocabs = { vocabs, 1 }));
    ASSERT_VALUES(dir, "table", 30, 31, 7, 7, 10, 11, 7, 7, 7, 7);
    ASSERT_VALUES(dir, "kernel", INITIAL, INITIAL, INITIAL, INITIAL, INITIAL, INITIAL);
    est_test_dir_remove(dir);

    /* Only the first entries of each: c and x of the new one, a and b of the old one. */
    vocabs[0]                = rows(false);
    vocabs[0].new_vocab_size = 2;
    vocabs[0].old_vocab_size = 3;
    started(dir, (sizes){ 4, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 1 }));
    ASSERT_VALUES(dir, "table", 30, 31, 0, 0, 0, 0, 0, 0);
    est_test_dir_remove(dir);
    vocabs[0].old_vocab_size = 2;
    started(dir, (sizes){ 4, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 1 }));
    ASSERT_VALUES(dir, "table", 0, 0, 0, 0, 0, 0, 0, 0);
    est_test_dir_remove(dir);
}

/* The classes of a layer: columns of its kernel, entries of its bias. */
TEST(columns)
{
    const char *old         = vocabulary("old.txt", "red\ngreen\nblue\n"),
               *new         = vocabulary("new.txt", "blue\npink\ngreen\nred\n");
    est_vocab_info vocabs[] = {
        { .variable = "kernel", .old_vocab = old, .new_vocab = new, .axis = 1 },
        { .variable = "bias", .old_vocab = old, .new_vocab = new, .initial = true },
    };
    const est_rename renames[] = { { "kernel", "ancient/kernel" } };
    char             dir[64];

    started(dir, (sizes){ 4, 4 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 2 }));
    ASSERT_VALUES(dir, "kernel", 3, 0, 2, 1, 6, 0, 5, 4);
    ASSERT_VALUES(dir, "bias", 300, 7, 200, 100);
    ASSERT_VALUES(dir, "table", 10, 11, 20, 21, 30, 31, 40, 41);
    est_test_dir_remove(dir);
    vocabs[0].num_oov_buckets = vocabs[1].num_oov_buckets = 1;
    vocabs[0].initial                                     = true;
    started(dir, (sizes){ 4, 5 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 2 }, .renames = { renames, 1 }));
    ASSERT_VALUES(dir, "kernel", -3, 7, -2, -1, 7, -6, 7, -5, -4, 7);
    ASSERT_VALUES(dir, "bias", 300, 7, 200, 100, 7);
    est_test_dir_remove(dir);
}

/* --- backup initializers ------------------------------------------------------------------------------------------ */

/* New entries and buckets start with neither 0 nor the variable's initial value. */
TEST(backup)
{
    est_vocab_info vocabs[2] = { rows(false) };
    char           dir[64];

    vocabs[0].backup = est_init_constant(0.5);
    vocabs[1]        = (est_vocab_info){ .variable  = "kernel",
                                         .old_vocab = vocabulary("old_colours.txt", "red\ngreen\nblue\n"),
                                         .new_vocab = vocabulary("new_colours.txt", "blue\npink\nred\n"),
                                         .axis      = 1,
                                         .backup    = est_init_constant(-2) };
    started(dir, (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 2 }));
    ASSERT_VALUES(dir, "table", 30, 31, 0.5, 0.5, 10, 11, 0.5, 0.5, 0.5, 0.5);
    ASSERT_VALUES(dir, "kernel", 3, -2, 1, 6, -2, 4);
    ASSERT_VALUES(dir, "bias", 100, 200, 300);
    est_test_dir_remove(dir);
}

/* The rows of new entries that a start with this backup gives. */
static void drawn(est_initializer backup, float out[6])
{
    est_vocab_info  vocab      = rows(false);
    est_checkpoint *checkpoint = NULL;
    est_tensor     *table      = NULL;
    const float    *value;
    char            dir[64];

    vocab.backup = backup;
    started(dir, (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { &vocab, 1 }));
    assert_int_equal(est_checkpoint_open(dir, &checkpoint), EST_OK);
    assert_int_equal(est_checkpoint_read(checkpoint, "table", &table), EST_OK);
    value = est_tensor_data(table);
    assert_true(value[0] == 30 && value[1] == 31 && value[4] == 10 && value[5] == 11);
    memcpy(out, value + 2, 2 * sizeof *out);
    memcpy(out + 2, value + 6, 4 * sizeof *out);
    est_tensor_free(table);
    est_checkpoint_close(checkpoint);
    est_test_dir_remove(dir);
}

TEST(random_backup)
{
    float first[6], again[6], other[6];

    drawn(est_init_random_uniform(2, 3, 0), first);
    drawn(est_init_random_uniform(2, 3, 0), again);
    drawn(est_init_random_uniform(2, 3, 9), other);
    assert_memory_equal(first, again, sizeof first); /* by the run's seed */
    assert_memory_not_equal(first, other, sizeof first);
    for (int i = 0; i < 6; i++) {
        assert_true(first[i] >= 2 && first[i] < 3 && other[i] >= 2 && other[i] < 3);
        assert_true(i == 0 || first[i] != first[i - 1]);
    }
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static void refused(sizes size, const est_warm_start *warm_start, est_status want, const char *text)
{
    char       dir[64];
    est_status status;

    est_test_dir(dir);
    status = start(dir, size, warm_start);
    if (status != want) fail_msg("%s, expected \"%s\": %s", est_status_name(status), text, est_error_message());
    est_test_error_has(text);
    est_test_dir_remove(dir);
}

TEST(refused)
{
    const est_rename unknown[] = { { "kernal", "kernel" } }, gone[] = { { "kernel", "no/kernel" } },
                     half[] = { { "a", NULL } };
    char dir[64];

    refused(same, EST_WARM_START(.all = true), EST_INVALID_ARGUMENT, "warm_start.path");
    refused(same, EST_WARM_START(.path = old_dir, .only_vocabs = true, .variables = "k"), EST_INVALID_ARGUMENT,
            "warm_start: only_vocabs and variables are both set; leave one out");
    refused(same, EST_WARM_START(.path = old_dir, .only_vocabs = true, .all = true), EST_INVALID_ARGUMENT,
            "warm_start: only_vocabs and all are both set; leave one out");
    refused(same, &(est_warm_start){ .path = old_dir }, EST_INVALID_ARGUMENT, "EST_WARM_START");
    refused(same, EST_WARM_START(.path = "nowhere"), EST_NOT_FOUND, "warm start from nowhere");
    refused(same, EST_WARM_START(.path = old_dir, .variables = "a(b"), EST_INVALID_ARGUMENT, "\"a(b\"");
    refused(same, EST_WARM_START(.path = old_dir, .renames = { unknown, 1 }), EST_INVALID_ARGUMENT,
            "renames names the variable kernal, which is not warm-started");
    refused(same, EST_WARM_START(.path = old_dir, .variables = "bias", .renames = { gone, 1 }), EST_INVALID_ARGUMENT,
            "renames names the variable kernel");
    refused(same, EST_WARM_START(.path = old_dir, .renames = { gone, 1 }), EST_NOT_FOUND, "no/kernel");
    refused(same, EST_WARM_START(.path = old_dir, .renames = { half, 1 }), EST_INVALID_ARGUMENT,
            "renames[0] lacks a name");
    refused(
        (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir), EST_INVALID_ARGUMENT,
        "variable 'table' is float32 [5,2], the value is float32 [4,2] in the checkpoint; name it in .vocabs if it has "
        "the rows of a vocabulary that changed, or give .variables a regex that leaves it out");
    est_test_dir(dir);
    assert_int_equal(start(dir, same, EST_WARM_START(.path = old_dir, .variables = "xyz")), EST_OK); /* none */
    est_test_dir_remove(dir);
}

static void refused_vocab(sizes size, est_vocab_info vocab, est_status want, const char *text)
{
    refused(size, EST_WARM_START(.path = old_dir, .variables = "table", .vocabs = { &vocab, 1 }), want, text);
}

TEST(refused_vocabularies)
{
    est_vocab_info vocab;

    refused_vocab((sizes){ 6, 3 }, rows(false), EST_INVALID_ARGUMENT, "variable table: it has 6 entries along axis 0");
    vocab          = rows(false);
    vocab.variable = "tabel";
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT, "tabel");
    vocab.variable = "bias"; /* not among those that are warm-started */
    refused_vocab(same, vocab, EST_INVALID_ARGUMENT, "vocabs names the variable bias");
    vocab           = rows(false);
    vocab.new_vocab = "/nowhere/words.txt";
    refused_vocab((sizes){ 5, 3 }, vocab, EST_NOT_FOUND, "/nowhere/words.txt");
    vocab      = rows(false);
    vocab.axis = 2;
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT, "axis 2");
    vocab           = rows(false);
    vocab.old_vocab = vocabulary("long.txt", "a\nb\nc\nd\ne\n"); /* more than the old table has rows */
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT, "the old vocabulary 5");
    vocab                = rows(false);
    vocab.old_vocab_size = 9;
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT, "has 4 entries, 9 were requested");
    vocab.old_vocab_size = -1;
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT,
                  "old_vocab_size of variable table is -1; write a number above 0, or 0 for all entries");
    vocab        = rows(true);
    vocab.backup = est_init_zeros();
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT,
                  "initial and backup of variable table are both set; leave one out");
    vocab           = rows(false);
    vocab.old_vocab = NULL;
    refused_vocab((sizes){ 5, 3 }, vocab, EST_INVALID_ARGUMENT, "old_vocab are required");
}

/* Memory that is out at any point: an error, nothing leaks, and no checkpoint of half-started variables. */
TEST(no_memory)
{
    est_vocab_info vocabs[] = { rows(false) };

    vocabs[0].backup = est_init_constant(7);
    FAULT_LOOP(f, FAULT_PLACES, .depth = 6) {
        char       dir[64];
        est_status status;

        est_test_dir(dir);
        fault_arm(&f);
        status = start(dir, (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 1 }));
        if (!fault_end(&f)) assert_int_equal(status, EST_OK);
        assert_int_equal(start(dir, (sizes){ 5, 3 }, EST_WARM_START(.path = old_dir, .vocabs = { vocabs, 1 })), EST_OK);
        ASSERT_VALUES(dir, "table", 30, 31, 7, 7, 10, 11, 7, 7, 7, 7);
        ASSERT_VALUES(dir, "bias", 100, 200, 300);
        est_test_dir_remove(dir);
    }
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(save_old, remove_old);
}
