/* SPDX-License-Identifier: Apache-2.0
 *
 * Dynamic embedding columns: they learn, they compute what an embedding over a vocabulary of the same keys computes,
 * bit for bit and with any number of threads, and a checkpoint has all of them. The rules for keys are tested in
 * tests/kernels/row_table.c. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "estoc/checkpoint.h"
#include "estoc/saver.h"
#include "format/bundle.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/feature_test.h"

#define WEIGHTS "input_layer/key_dynamic_embedding/embedding_weights"
#define BATCH   16
#define EACH    3 /* keys of an example, some of them -1 */

/* --- a model: the sum over an embedding is to be the label -------------------------------------------------------- */

typedef struct model {
    est_columns *columns;
    est_graph   *graph;
    est_session *session;
    est_node     keys, labels, prediction, loss, train;
} model;

static est_feature find_key(void *user, const char *name)
{
    (void)name;
    return (est_feature){ .values = ((model *)user)->keys };
}

/* What a model is made with. */
typedef struct recipe {
    const est_dynamic_options *dynamic;    /* NULL: an embedding over the vocabulary */
    est_tensor                *vocabulary; /* of an ordinary embedding */
    est_dtype                  dtype;      /* of the keys; 0: int64 */
    est_optimizer              optimizer;
    int                        threads;
    bool                       frozen;
} recipe;

static est_status try_open(const recipe *r, model *m)
{
    est_dtype         dtype = r->dtype != EST_DTYPE_NONE ? r->dtype : EST_I64;
    const est_column *column;
    est_node          layer, bias;

    *m = (model){ .columns = est_columns_create() };
    if (m->columns == NULL) return EST_RESOURCE_EXHAUSTED;
    EST_TRY(est_graph_create(5, &m->graph));
    column    = r->vocabulary == NULL
                    ? est_dynamic_embedding_column(m->columns, "key", dtype, 4, r->dynamic)
                    : est_embedding_column(est_vocabulary_list_column(m->columns, "key", r->vocabulary, NULL), 4, NULL);
    m->keys   = est_placeholder(m->graph, "keys", dtype, EST_SHAPE(-1, EACH));
    m->labels = est_placeholder(m->graph, "labels", EST_F32, EST_SHAPE(-1));
    layer = est_input_layer((est_features){ .graph = m->graph, .find = find_key, .user = m }, EST_COLUMN_LIST(column),
                            EST_INPUT_LAYER(.frozen = r->frozen));
    bias  = est_weight(m->graph, "bias", EST_SHAPE_SCALAR, EST_WEIGHT(.initializer = est_init_zeros()));
    EST_TRY(est_graph_status(m->graph));
    m->prediction = est_add(est_reduce_sum(layer, EST_I64S(1), false), est_read_variable(bias));
    m->loss       = est_mean(est_square(est_sub(m->prediction, m->labels)));
    if (r->optimizer.rule != NULL) m->train = est_minimize(r->optimizer, m->loss, NULL);
    EST_TRY(est_graph_status(m->graph));
    EST_TRY(est_session_create(m->graph, EST_SESSION(.threads = r->threads != 0 ? r->threads : 1), &m->session));
    return est_session_init(m->session);
}

static void close_model(model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
    est_columns_free(m->columns);
}

static model open_model(const recipe *r)
{
    model m;

    assert_ok(try_open(r, &m));
    return m;
}

/* Runs on rows of EACH keys; the loss. */
static est_status try_run(model *m, const est_tensor *keys, const float *labels, bool train, est_tensor **loss)
{
    est_tensor *wanted = NULL;
    est_status  status = est_tensor_f32(EST_SHAPE(est_tensor_shape(keys)->dim[0]), labels, &wanted);
    est_feed    feeds[2];

    EST_TRY(status);
    feeds[0] = (est_feed){ m->keys, (est_tensor *)(uintptr_t)keys };
    feeds[1] = (est_feed){ m->labels, wanted };
    status   = est_session_run(m->session, (est_feeds){ feeds, 2 }, EST_NODES(m->loss),
                             train ? EST_NODES(m->train) : EST_NO_NODES, loss);
    est_tensor_free(wanted);
    return status;
}

static float run(model *m, const int64_t *keys, const float *labels, int n, bool train)
{
    est_tensor *batch = NULL, *loss = NULL;
    float       value;

    assert_ok(est_tensor_i64(EST_SHAPE(n, EACH), keys, &batch));
    assert_ok(try_run(m, batch, labels, train, &loss));
    value = *(const float *)est_tensor_data(loss);
    est_tensor_free(batch);
    est_tensor_free(loss);
    return value;
}

/* The prediction for one example. */
static float predict(model *m, int64_t a, int64_t b, int64_t c)
{
    est_tensor *batch = NULL, *out = NULL;
    float       value;

    assert_ok(est_tensor_i64(EST_SHAPE(1, EACH), (const int64_t[]){ a, b, c }, &batch));
    assert_ok(est_session_run(m->session, EST_FEEDS({ m->keys, batch }), EST_NODES(m->prediction), EST_NO_NODES, &out));
    value = *(const float *)est_tensor_data(out);
    est_tensor_free(batch);
    est_tensor_free(out);
    return value;
}

/* Key i, spread over 64 bits. */
static int64_t key_of(int64_t i)
{
    return (int64_t)((uint64_t)(i + 1) * UINT64_C(0x1234567890abcdef));
}

/* Batch `step`: the first n_keys keys, one in eight missing, and labels. */
static void make_batch(int64_t step, int64_t n_keys, int64_t keys[BATCH * EACH], float labels[BATCH])
{
    est_random random = { .key = 17, .stream = (uint64_t)step };

    est_random_fill_int_i64(&random, 0, BATCH * EACH, -n_keys / 8, n_keys, keys);
    for (int i = 0; i < BATCH * EACH; i++) keys[i] = keys[i] < 0 ? -1 : key_of(keys[i]);
    est_random_fill_normal_f32(&random, 1000, BATCH, labels);
}

static float train_step(model *m, int64_t step, int64_t n_keys)
{
    int64_t keys[BATCH * EACH];
    float   labels[BATCH];

    make_batch(step, n_keys, keys, labels);
    return run(m, keys, labels, BATCH, true);
}

static est_tensor *read_variable(model *m, const char *name)
{
    est_tensor *value = NULL;

    assert_ok(est_session_read(m->session, name, &value));
    return value;
}

static int64_t rows_of(model *m)
{
    est_tensor *value = read_variable(m, WEIGHTS "/keys");
    int64_t     n     = est_tensor_count(value);

    est_tensor_free(value);
    return n;
}

/* --- learning ----------------------------------------------------------------------------------------------------- */

TEST(learns)
{
    const int64_t hot = INT64_C(-6148914691236517206), cold = INT64_MAX;
    const int64_t keys[4 * EACH] = { hot, -1, -1, cold, -1, -1, -1, hot, -1, -1, -1, cold };
    const float   labels[4]      = { 3, -2, 3, -2 };
    model         m              = open_model(&(recipe){ .optimizer = est_adagrad(0.3, NULL) });

    assert_true(run(&m, keys, labels, 4, true) > 5);
    for (int i = 0; i < 200; i++) (void)run(&m, keys, labels, 4, true);
    assert_near(predict(&m, hot, -1, -1), 3, 1e-3);
    assert_near(predict(&m, -1, -1, cold), -2, 1e-3);
    assert_near(predict(&m, hot, 12345, -1), 3, 1e-3);            /* one without a row is missing */
    assert_true(predict(&m, 1, 2, 3) == predict(&m, -1, -1, -1)); /* and looking has not given it one */
    assert_int_equal(rows_of(&m), 2);
    close_model(&m);
}

TEST(strings)
{
    recipe      r     = { .dtype = EST_STRING, .optimizer = est_adagrad(0.3, NULL) };
    model       m     = open_model(&r);
    est_tensor *batch = NULL, *loss = NULL, *keys;

    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(1, EACH), &batch));
    assert_ok(est_tensor_set_string(batch, 0, "anna", 4));
    assert_ok(est_tensor_set_string(batch, 1, "", 0)); /* none */
    assert_ok(est_tensor_set_string(batch, 2, "bert", 4));
    assert_ok(try_run(&m, batch, (const float[]){ 1 }, true, &loss));
    keys = read_variable(&m, WEIGHTS "/keys");
    assert_int_equal(est_tensor_count(keys), 2);
    assert_true(((const int64_t *)est_tensor_data(keys))[0] >= 0);
    est_tensor_free(batch);
    est_tensor_free(loss);
    est_tensor_free(keys);
    close_model(&m);
}

TEST(frozen_only_looks)
{
    model m = open_model(&(recipe){ .optimizer = est_sgd(0.1), .frozen = true });

    (void)train_step(&m, 0, 20);
    assert_int_equal(rows_of(&m), 0);
    close_model(&m);
}

/* --- the same as an embedding over a vocabulary ------------------------------------------------------------------- */

static void compare_with_vocabulary(est_optimizer optimizer, int threads)
{
    enum { KEYS = 40, STEPS = 25 };
    recipe      dynamic = { .optimizer = optimizer, .threads = threads };
    recipe      still = { .optimizer = est_sgd(EST_OFF) }, ordinary = { .optimizer = optimizer, .threads = threads };
    model       m = open_model(&still), o;
    est_tensor *rows;

    /* A rate of 0 admits all keys and leaves their rows as they were drawn. */
    for (int64_t step = 0; step < STEPS; step++) (void)train_step(&m, step, KEYS);
    ordinary.vocabulary = read_variable(&m, WEIGHTS "/keys");
    rows                = read_variable(&m, WEIGHTS);
    assert_true(est_tensor_count(ordinary.vocabulary) > KEYS / 2);
    close_model(&m);

    o = open_model(&ordinary);
    assert_ok(est_session_write(o.session, "input_layer/key_embedding/embedding_weights", rows));
    m = open_model(&dynamic);
    for (int64_t step = 0; step < STEPS; step++) {
        float a = train_step(&m, step, KEYS), b = train_step(&o, step, KEYS);

        if (memcmp(&a, &b, sizeof a) != 0) fail_msg("step %d: %.9g and %.9g", (int)step, (double)a, (double)b);
    }
    close_model(&m);
    close_model(&o);
    est_tensor_free(rows);
    est_tensor_free(ordinary.vocabulary);
}

TEST(same_as_a_vocabulary)
{
    const est_optimizer optimizers[] = {
        est_sgd(0.1),
        est_momentum(0.1, EST_MOMENTUM(.nesterov = true)),
        est_adagrad(0.2, NULL),
        est_adam(0.05, EST_ADAM(.lazy = true)),
        est_rms_prop(0.05, NULL),
        est_rms_prop(0.05, EST_RMS_PROP(.centered = true, .momentum = 0.5)),
        est_ftrl(0.2, EST_FTRL(.l1 = 0.001)),
        est_adadelta(1.0, NULL),
    };

    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) compare_with_vocabulary(optimizers[i], 1);
    compare_with_vocabulary(est_adagrad(0.2, NULL), 3);
}

static void refused(est_optimizer optimizer, const char *text)
{
    recipe r = { .optimizer = optimizer };
    model  m;

    assert_int_equal(try_open(&r, &m), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" lacks \"%s\"", est_error_message(), text);
    close_model(&m);
}

TEST(optimizers_that_touch_all_rows)
{
    refused(est_adam(0.1, NULL), "use est_adam with .lazy");
    refused(est_with_dense_gradients(est_sgd(0.1)), "leave est_with_dense_gradients out");
    refused(est_rms_prop(0.1, EST_RMS_PROP(.keras = true)), "use est_rms_prop with a momentum");
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

static const char *const saved_names[] = {
    WEIGHTS,
    WEIGHTS "/Adagrad",
    WEIGHTS "/keys",
    WEIGHTS "/last_seen",
    WEIGHTS "/older",
    WEIGHTS "/steps",
    WEIGHTS "/candidates/keys",
    WEIGHTS "/candidates/last_seen",
    WEIGHTS "/candidates/older",
    WEIGHTS "/candidates/sightings",
};

static void compare_models(model *a, model *b)
{
    for (size_t i = 0; i < sizeof saved_names / sizeof *saved_names; i++) {
        est_tensor *x = read_variable(a, saved_names[i]), *y = read_variable(b, saved_names[i]);

        assert_true(est_shape_equal(est_tensor_shape(x), est_tensor_shape(y)));
        if (est_tensor_bytes(x) > 0) assert_memory_equal(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x));
        est_tensor_free(x);
        est_tensor_free(y);
    }
}

/* Copies the newest checkpoint without what older ones lack. */
static void copy_without_mark(const char *from, const char *to)
{
    est_bundle        *bundle = NULL;
    est_bundle_writer *writer = NULL;

    assert_ok(est_bundle_open(from, &bundle));
    assert_ok(est_bundle_writer_create(to, 0, &writer));
    for (int i = 0; i < est_bundle_count(bundle); i++) {
        const char *name = est_bundle_at(bundle, i)->name;
        est_tensor *value;

        if (strcmp(name, WEIGHTS "/key_dtype") == 0) continue;
        assert_ok(est_bundle_read(bundle, name, NULL, &value));
        assert_ok(est_bundle_add(writer, name, value));
        est_tensor_free(value);
    }
    assert_ok(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    est_bundle_close(bundle);
}

/* Keys of strings are others than those of integers: the rows there are would never be found. */
TEST(other_keys)
{
    recipe     r = { .optimizer = est_adagrad(0.2, NULL) };
    char       dir[64], path[EST_CHECKPOINT_PATH_MAX], old[EST_CHECKPOINT_PATH_MAX + 4];
    est_saver *saver = NULL;
    model      m     = open_model(&r), strings, same;

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    for (int64_t step = 0; step < 5; step++) (void)train_step(&m, step, 10);
    assert_ok(est_saver_save(saver, m.session, 5, NULL, path));
    snprintf(old, sizeof old, "%s-old", path);
    copy_without_mark(path, old);
    same    = open_model(&r);
    r.dtype = EST_STRING;
    strings = open_model(&r);
    assert_int_equal(est_saver_restore(saver, strings.session, NULL, NULL), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(),
                           "the keys of this dynamic embedding are strings, and were integers in the checkpoint"));
    assert_ok(est_saver_restore(NULL, strings.session, EST_RESTORE(.path = old), NULL)); /* nobody knows */
    assert_ok(est_saver_restore(NULL, same.session, EST_RESTORE(.path = old), NULL));
    compare_models(&m, &same);
    close_model(&strings);
    close_model(&same);
    close_model(&m);
    est_saver_free(saver);
    assert_ok(est_dir_remove(dir));
}

/* With fewer rows than before, but enough for those there are, all of them are restored; new keys then push out old
 * ones. */
TEST(fewer_rows_that_fit)
{
    recipe     r = { .dynamic = EST_DYNAMIC(.max_rows = 24), .optimizer = est_adagrad(0.2, NULL) };
    char       dir[64];
    est_saver *saver = NULL;
    model      m     = open_model(&r), fewer;
    int64_t    n;

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    for (int64_t step = 0; step < 20; step++) (void)train_step(&m, step, 10);
    n = rows_of(&m);
    assert_true(n > 4 && n < 24);
    assert_ok(est_saver_save(saver, m.session, 20, NULL, NULL));
    r.dynamic = EST_DYNAMIC(.max_rows = n);
    fewer     = open_model(&r);
    assert_ok(est_saver_restore(saver, fewer.session, NULL, NULL));
    compare_models(&m, &fewer);
    for (int64_t step = 20; step < 30; step++) (void)train_step(&fewer, step, 100);
    assert_int_equal(rows_of(&fewer), n);
    close_model(&fewer);
    est_saver_free(saver);
    close_model(&m);
    assert_ok(est_dir_remove(dir));
}

/* Training that was interrupted at step 20 goes on as if it had not been. Keys are admitted, age and push each other
 * out before and after. */
TEST(resumed_is_undisturbed)
{
    enum { KEYS = 100 };
    const est_dynamic_options *options = EST_DYNAMIC(.admit_after = 2, .max_rows = 24, .max_age = 6);
    recipe                     r       = { .dynamic = options, .optimizer = est_adagrad(0.2, NULL) };
    char                       dir[64];
    est_saver                 *saver = NULL;
    model                      m     = open_model(&r), resumed;

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    for (int64_t step = 0; step < 20; step++) (void)train_step(&m, step, KEYS);
    assert_int_equal(rows_of(&m), 24);
    assert_ok(est_saver_save(saver, m.session, 20, NULL, NULL));

    resumed = open_model(&r);
    for (int64_t step = 100; step < 110; step++) (void)train_step(&resumed, step, 10); /* is forgotten */
    assert_ok(est_saver_restore(saver, resumed.session, NULL, NULL));
    compare_models(&m, &resumed);
    for (int64_t step = 20; step < 60; step++) {
        float a = train_step(&m, step, KEYS), b = train_step(&resumed, step, KEYS);

        assert_memory_equal(&a, &b, sizeof a);
    }
    compare_models(&m, &resumed);
    close_model(&resumed);

    r.dynamic = EST_DYNAMIC(.max_rows = 23); /* has no room for what was saved */
    resumed   = open_model(&r);
    assert_int_equal(est_saver_restore(saver, resumed.session, NULL, NULL), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "24 keys have a row in the checkpoint, and max_rows is 23"));
    assert_int_equal(rows_of(&resumed), 0);
    close_model(&resumed);
    est_saver_free(saver);
    close_model(&m);
    assert_ok(est_dir_remove(dir));
}

static int64_t stored_rows(const est_checkpoint *checkpoint, const char *name)
{
    const est_checkpoint_variable *found = est_checkpoint_find(checkpoint, name);

    if (found == NULL) fail_msg("the checkpoint lacks %s", name);
    return found->shape.rank > 0 ? found->shape.dim[0] : -1;
}

/* Checkpoints have the rows there are and not those there can be; without any as well. A session that looks needs no
 * slots. */
TEST(checkpoint_has_rows_of_keys)
{
    recipe          r = { .optimizer = est_adagrad(0.2, NULL) };
    char            dir[64], path[EST_CHECKPOINT_PATH_MAX];
    est_saver      *saver  = NULL;
    est_checkpoint *stored = NULL;
    model           m      = open_model(&r), looks;

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    for (int64_t step = 0; step < 2; step++) {
        int64_t n = rows_of(&m);

        assert_int_equal(n > 0, step > 0);
        assert_ok(est_saver_save(saver, m.session, step, NULL, path));
        assert_ok(est_checkpoint_open(path, &stored));
        assert_int_equal(stored_rows(stored, WEIGHTS), n);
        assert_int_equal(stored_rows(stored, WEIGHTS "/Adagrad"), n);
        assert_int_equal(stored_rows(stored, WEIGHTS "/keys"), n);
        assert_int_equal(stored_rows(stored, WEIGHTS "/candidates/keys"), 0);
        est_checkpoint_close(stored);
        (void)train_step(&m, step, 30);
    }
    for (int64_t step = 2; step < 10; step++) (void)train_step(&m, step, 30);
    assert_ok(est_saver_save(saver, m.session, 10, NULL, NULL));
    r.optimizer.rule = NULL;
    looks            = open_model(&r);
    assert_ok(est_saver_restore(saver, looks.session, NULL, NULL));
    for (int64_t i = 0; i < 30; i++) {
        assert_true(predict(&m, key_of(i), -1, -1) == predict(&looks, key_of(i), -1, -1));
    }
    close_model(&looks);

    /* A slot that the checkpoint lacks starts with its initial values, for the rows that were restored. */
    r.optimizer = est_ftrl(0.1, NULL);
    looks       = open_model(&r);
    assert_int_equal(est_saver_restore(saver, looks.session, NULL, NULL), EST_FAILED_PRECONDITION);
    assert_ok(est_saver_restore(saver, looks.session, EST_RESTORE(.partial = true), NULL));
    {
        est_tensor *slot = read_variable(&looks, WEIGHTS "/Ftrl");

        assert_int_equal(est_tensor_shape(slot)->dim[0], rows_of(&m));
        for (int64_t i = 0; i < est_tensor_count(slot); i++) {
            assert_true(((const float *)est_tensor_data(slot))[i] == 0.1f);
        }
        est_tensor_free(slot);
    }
    close_model(&looks);
    est_saver_free(saver);
    close_model(&m);
    assert_ok(est_dir_remove(dir));
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static int64_t resident_bytes(void)
{
    FILE *file  = fopen("/proc/self/statm", "r");
    long  pages = 0, resident = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

/* 10^4 keys of 10^8: 3 KB a key would be 30 MB; all rows, 4 GB. */
TEST(memory_is_that_of_the_keys)
{
    recipe  r = { .dynamic = EST_DYNAMIC(.max_rows = 100000000), .optimizer = est_adagrad(0.1, NULL) };
    model   m;
    int64_t before = resident_bytes();

    m = open_model(&r);
    for (int64_t step = 0; rows_of(&m) < 10000; step++) (void)train_step(&m, step, 1000000);
    print_message("%.1f MB for %d keys\n", (double)(resident_bytes() - before) / 1e6, (int)rows_of(&m));
    assert_true(resident_bytes() - before < 40000000);
    close_model(&m);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

static est_node odd_make(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    (void)self;
    (void)shape;
    return est_scalar(graph, dtype, 1);
}

static void bad(est_dtype dtype, int64_t dimension, const est_dynamic_options *options, const char *text)
{
    feature_test t = feature_begin();

    (void)est_dynamic_embedding_column(t.columns, "k", dtype, dimension, options);
    feature_bad_column(&t, text);
    feature_end(&t);
}

TEST(refused)
{
    feature_test t = feature_begin();

    bad(EST_F32, 2, NULL, "keys of type float32, expected int64 or string");
    bad(EST_I64, 0, NULL, "0 dimensions");
    bad(EST_I64, 2, EST_DYNAMIC(.admit_after = -1), "admit_after -1");
    bad(EST_I64, 2, EST_DYNAMIC(.max_rows = -1), "max_rows -1");
    bad(EST_I64, 2, EST_DYNAMIC(.max_rows = INT64_C(1) << 40), "at most 2147483647");
    bad(EST_I64, 2, EST_DYNAMIC(.max_age = -2), "max_age -2");
    bad(EST_I64, 2, &(const est_dynamic_options){ .max_age = 1 }, "EST_DYNAMIC");
    feature_strings(&t, "k", EST_SHAPE(1), (const char *const[]){ "a" });
    (void)est_input_layer(feature_features(&t),
                          EST_COLUMN_LIST(est_dynamic_embedding_column(t.columns, "k", EST_I64, 2, NULL)), NULL);
    feature_bad_graph(&t, "is of int64, but the feature \"k\" is of string");
    feature_end(&t);

    t = feature_begin();
    feature_i64(&t, "k", EST_SHAPE(1), (const int64_t[]){ 1 });
    (void)est_input_layer(feature_features(&t),
                          EST_COLUMN_LIST(est_dynamic_embedding_column(
                              t.columns, "k", EST_I64, 2, EST_DYNAMIC(.initializer = { .make = odd_make }))),
                          NULL);
    feature_bad_graph(&t, "est_init_");
    feature_end(&t);
}

/* Rows may start with every initializer of the library. */
TEST(initializers)
{
    const struct {
        est_initializer initializer;
        double          low, high;
    } cases[] = {
        { est_init_constant(0.5), 0.5, 0.5 },
        { est_init_random_uniform(2, 3, 0), 2, 3 },
        { est_init_random_normal(10, 0.1, 0), 9, 11 },
        { est_init_truncated_normal(1, 0.5, 9), 0, 2 },
        { est_init_glorot_uniform(0), -1.1, 1.1 }, /* sqrt(6 / (1 + 4)) */
        { { .make = NULL }, -1, 1 },               /* two deviations of 1 / sqrt(4) */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        recipe       r = { .dynamic = EST_DYNAMIC(.initializer = cases[i].initializer), .optimizer = est_sgd(EST_OFF) };
        model        m = open_model(&r);
        est_tensor  *rows;
        const float *x;
        double       least = INFINITY, most = -INFINITY;

        for (int64_t step = 0; step < 10; step++) (void)train_step(&m, step, 50);
        rows = read_variable(&m, WEIGHTS);
        x    = est_tensor_data(rows);
        for (int64_t k = 0; k < est_tensor_count(rows); k++) {
            least = fmin(least, (double)x[k]);
            most  = fmax(most, (double)x[k]);
        }
        assert_true(least >= cases[i].low && most <= cases[i].high);
        assert_true(most - least >= 0.5 * (cases[i].high - cases[i].low) * (i == 2 ? 0.3 : 1));
        est_tensor_free(rows);
        close_model(&m);
    }
}

static est_status use_all(void)
{
    recipe      r    = { .dynamic = EST_DYNAMIC(.max_rows = 100), .optimizer = est_adagrad(0.2, NULL) };
    est_tensor *keys = NULL, *loss = NULL;
    model       m;
    est_status  status = try_open(&r, &m);

    if (status == EST_OK) status = est_tensor_i64(EST_SHAPE(1, EACH), (const int64_t[]){ 7, 8, 9 }, &keys);
    if (status == EST_OK) status = try_run(&m, keys, (const float[]){ 1 }, true, &loss);
    est_tensor_free(keys);
    est_tensor_free(loss);
    close_model(&m);
    return status;
}

TEST(no_memory)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = use_all();
        fault_check(&f, status);
    }
}
