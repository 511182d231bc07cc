/* SPDX-License-Identifier: Apache-2.0
 *
 * Canned estimators: what they leave behind, against TensorFlow's (tests/golden/canned.json, written by
 * scripts/make-golden-canned); that they learn; and what they refuse. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "estimator/estimator.h"
#include "format/meta_graph_def.h"
#include "format/saved_model_def.h"
#include "graph/graph.h"
#include "models/canned.h"
#include "predict/saved_model.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "support/estimator_test.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

/* --- one small problem, that of scripts/make-golden-canned -------------------------------------------------------- */

#define ROWS 8

typedef enum task { BINARY = 0, THREE, REAL } task;

typedef struct problem {
    task    labels;
    int64_t batch;
    int64_t passes;
} problem;

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    static const char *const kinds[ROWS]  = { "cat", "dog", "bird", "cat", "dog", "bird", "cat", "dog" };
    static const int64_t     binary[ROWS] = { 0, 0, 1, 0, 1, 1, 0, 1 }, three[ROWS] = { 0, 1, 2, 0, 1, 2, 0, 1 };
    static const float       ages[ROWS] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const problem           *p          = user;
    est_tensor              *age = NULL, *kind = NULL, *label = NULL;
    est_dataset             *d;

    (void)context;
    assert_ok(est_tensor_f32(EST_SHAPE(ROWS, 1), ages, &age));
    assert_ok(est_tensor_create(EST_STRING, EST_SHAPE(ROWS, 1), &kind));
    for (int i = 0; i < ROWS; i++) assert_ok(est_tensor_set_string(kind, i, kinds[i], strlen(kinds[i])));
    if (p->labels == REAL) {
        label = est_tensor_ref(age);
    } else {
        assert_ok(est_tensor_i64(EST_SHAPE(ROWS, 1), p->labels == BINARY ? binary : three, &label));
    }
    d = est_dataset_slices(EST_NAMED_TENSORS({ "age", age }, { "kind", kind }, { "label", label }));
    d = est_dataset_repeat(d, p->passes);
    d = est_dataset_batch(d, p->batch, NULL);
    est_tensor_free(age);
    est_tensor_free(kind);
    est_tensor_free(label);
    return est_dataset_finish(d, out);
}

static est_columns      *set;
static const est_column *wide[3], *deep[2], *all[4];

static int make_columns(void **state)
{
    static const char *const kinds[] = { "bird", "cat", "dog" };
    const est_column        *age, *kind;

    (void)state;
    set     = est_columns_create();
    age     = est_numeric_column(set, "age", NULL);
    kind    = est_vocabulary_strings_column(set, "kind", (est_strings){ kinds, 3 }, NULL);
    wide[0] = all[0] = est_bucketized_column(age, EST_F32S(3, 6));
    wide[1] = all[1] = kind;
    wide[2] = all[2] = age;
    deep[0]          = age;
    deep[1] = all[3] = est_embedding_column(kind, 2, NULL);
    assert_ok(est_columns_status(set));
    return 0;
}

static int free_columns(void **state)
{
    (void)state;
    est_columns_free(set);
    return 0;
}

#define WIDE                                                                                                           \
    {                                                                                                                  \
        wide, 3                                                                                                        \
    }
#define DEEP                                                                                                           \
    {                                                                                                                  \
        deep, 2                                                                                                        \
    }

/* --- against TensorFlow ------------------------------------------------------------------------------------------- */

typedef est_status (*make_fn)(const est_canned_options *options, est_estimator **out);

typedef struct canned_case {
    const char        *name; /* in the golden file */
    make_fn            make;
    task               labels;
    est_canned_options options;
} canned_case;

static const canned_case cases[] = {
    { "dnn_classifier",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4, 3 }, 2 } } },
    { "dnn_classifier_3",
      est_dnn_classifier,
      THREE,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 }, .n_classes = 3 } },
    { "dnn_classifier_batch_norm",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4, 3 }, 2 }, .batch_norm = true, .dropout = 0.25 } },
    { "dnn_classifier_norm",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4, 3 }, 2 }, .batch_norm = true } },
    { "dnn_classifier_adam",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 }, .optimizer = { .name = "Adam" } } },
    { "dnn_classifier_rms_prop",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 }, .optimizer = { .name = "RMSProp" } } },
    { "dnn_classifier_sgd",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 }, .optimizer = { .name = "SGD" } } },
    { "dnn_classifier_ftrl",
      est_dnn_classifier,
      BINARY,
      { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 }, .optimizer = { .name = "Ftrl" } } },
    { "dnn_regressor", est_dnn_regressor, REAL, { .columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 } } },
    { "linear_classifier", est_linear_classifier, BINARY, { .columns = WIDE } },
    { "linear_classifier_3", est_linear_classifier, THREE, { .columns = WIDE, .n_classes = 3 } },
    { "linear_regressor", est_linear_regressor, REAL, { .columns = WIDE } },
    { "dnn_linear_combined_classifier",
      est_dnn_linear_combined_classifier,
      BINARY,
      { .linear_columns = WIDE, .dnn_columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 } } },
    { "dnn_linear_combined_wide", est_dnn_linear_combined_classifier, BINARY, { .linear_columns = WIDE } },
    { "dnn_linear_combined_deep",
      est_dnn_linear_combined_classifier,
      BINARY,
      { .dnn_columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 } } },
    { "dnn_linear_combined_adam",
      est_dnn_linear_combined_classifier,
      BINARY,
      { .linear_columns   = WIDE,
        .dnn_columns      = DEEP,
        .hidden_units     = { (const int64_t[]){ 4 }, 1 },
        .dnn_optimizer    = { .name = "Adam" },
        .linear_optimizer = { .name = "Adam" } } },
    { "dnn_linear_combined_regressor",
      est_dnn_linear_combined_regressor,
      REAL,
      { .linear_columns = WIDE, .dnn_columns = DEEP, .hidden_units = { (const int64_t[]){ 4 }, 1 } } },
    { "baseline_classifier", est_baseline_classifier, THREE, { .n_classes = 3 } },
    { "baseline_regressor", est_baseline_regressor, REAL, { 0 } },
};

/* A list of names, each with a blank behind it, to compare with another. */
typedef struct names {
    char text[8192];
} names;

static void add_name(names *n, const char *name)
{
    size_t size = strlen(n->text);

    assert_true(size + strlen(name) + 2 < sizeof n->text);
    (void)snprintf(n->text + size, sizeof n->text - size, "%s ", name);
}

static names json_names(const est_json *list)
{
    names n = { "" };

    for (size_t i = 0; i < json_array_size(list); i++) add_name(&n, json_string_value(json_array_get(list, i)));
    return n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static names sorted_names(const char **list, int n)
{
    names out = { "" };

    qsort(list, (size_t)n, sizeof *list, by_text);
    for (int i = 0; i < n; i++) add_name(&out, list[i]);
    return out;
}

static void same_names(const char *title, const char *what, const names *got, const names *want)
{
    if (strcmp(got->text, want->text) != 0) {
        fail_msg("%s: %s are\n%s\nTensorFlow's are\n%s", title, what, got->text, want->text);
    }
}

static void check_shape(const char *title, const est_checkpoint_variable *variable, const est_json *dims)
{
    bool same = variable->shape.rank == (int)json_array_size(dims);

    for (int i = 0; same && i < variable->shape.rank; i++) {
        same = variable->shape.dim[i] == json_integer_value(json_array_get(dims, (size_t)i));
    }
    if (!same) fail_msg("%s: %s has another shape than TensorFlow's", title, variable->name);
}

/* The variables of the latest checkpoint, but for what estoc keeps beside them. */
static void check_variables(const char *title, const char *dir, const est_json *golden)
{
    const est_json *list       = json_object_get(golden, "variables"), *number;
    est_checkpoint *checkpoint = NULL;
    names           got = { "" }, want = { "" };
    const char     *key;

    assert_ok(est_checkpoint_open(dir, &checkpoint));
    for (int i = 0; i < est_checkpoint_count(checkpoint); i++) {
        const char *name = est_checkpoint_at(checkpoint, i)->name;

        if (strncmp(name, "estoc/", 6) != 0) add_name(&got, name);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        add_name(&want, json_string_value(json_array_get(json_array_get(list, i), 0)));
    }
    same_names(title, "variables", &got, &want);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const est_json *item = json_array_get(list, i);

        check_shape(title, est_checkpoint_find(checkpoint, json_string_value(json_array_get(item, 0))),
                    json_array_get(item, 1));
    }
    json_object_foreach(json_object_get(golden, "numbers"), key, number)
    {
        est_tensor *t = NULL;

        assert_ok(est_checkpoint_read(checkpoint, key, &t));
        if (*(const float *)est_tensor_data(t) != (float)json_number_value(number)) {
            fail_msg("%s: %s is %g, TensorFlow's is %g", title, key, (double)*(const float *)est_tensor_data(t),
                     json_number_value(number));
        }
        est_tensor_free(t);
    }
    est_checkpoint_close(checkpoint);
}

static void check_summaries(const char *title, est_estimator *e, problem *p, const est_json *golden)
{
    est_dataset             *input = NULL;
    est_model               *model = NULL;
    const est_model_summary *summaries;
    const char              *tags[32];
    names                    got, want = json_names(json_object_get(golden, "summaries"));

    assert_ok(est_estimator_input(e, EST_TRAIN, input_fn, p, 1, 1, &input));
    assert_ok(est_estimator_model(e, EST_TRAIN, input, 1, &model));
    summaries = model->summaries.data;
    for (int i = 0; i < model->summaries.n; i++) tags[i] = summaries[i].tag;
    got = sorted_names(tags, model->summaries.n);
    same_names(title, "summaries", &got, &want);
    est_model_free(model);
    est_dataset_free(input);
}

static void check_metrics(const char *title, est_estimator *e, problem *p, const est_json *golden)
{
    est_metrics    *metrics = NULL;
    names           got = { "" }, want = json_names(json_object_get(golden, "metrics"));
    const est_json *loss = json_object_get(golden, "average_loss");

    assert_ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = p), &metrics));
    for (int i = 0; i < est_metrics_count(metrics); i++) add_name(&got, est_metrics_name(metrics, i));
    same_names(title, "metrics", &got, &want);
    if (loss != NULL && !(fabs(est_metrics_get(metrics, "average_loss") - json_number_value(loss)) <=
                          1e-5 * fmax(1, json_number_value(loss)))) { /* six steps of float32 */
        fail_msg("%s: average_loss is %.9g, TensorFlow's is %.9g", title, est_metrics_get(metrics, "average_loss"),
                 json_number_value(loss));
    }
    est_metrics_free(metrics);
}

static void check_predictions(const char *title, est_estimator *e, problem *p, const est_json *golden)
{
    est_predictions *predictions = NULL;
    const char      *keys[16];
    names            got, want = json_names(json_object_get(golden, "predictions"));

    assert_ok(est_predict(e, EST_PREDICT_OPTIONS(.input_fn = input_fn, .input_user = p), &predictions));
    assert_ok(est_predictions_next(predictions));
    for (int i = 0; i < est_predictions_count(predictions); i++) keys[i] = est_predictions_key(predictions, i);
    got = sorted_names(keys, est_predictions_count(predictions));
    same_names(title, "predictions", &got, &want);
    est_predictions_free(predictions);
}

static names signature_names(const est_signature_def *signature)
{
    const char *outputs[16];
    names       n = { "" }, list;

    for (int i = 0; i < signature->outputs.n; i++) outputs[i] = signature->outputs.items[i].key;
    list = sorted_names(outputs, signature->outputs.n);
    add_name(&n, strrchr(signature->method_name, '/') + 1);
    (void)snprintf(n.text + strlen(n.text), sizeof n.text - strlen(n.text), "%s", list.text);
    return n;
}

static void check_signatures(const char *title, const char *path, est_json *golden)
{
    const char         *tag   = "serve", *key;
    est_arena          *arena = est_arena_create();
    est_saved_model_def saved;
    est_meta_graph_def *meta = NULL;
    char                file[EST_CHECKPOINT_PATH_MAX + 32], *bytes = NULL;
    size_t              size = 0;
    est_json           *value;

    (void)snprintf(file, sizeof file, "%s/saved_model.pb", path);
    assert_ok(est_file_read(file, &bytes, &size));
    assert_ok(est_saved_model_def_parse((est_str){ bytes, size }, arena, &saved));
    assert_ok(est_saved_model_def_find(&saved, &tag, 1, &meta));
    json_object_foreach(golden, key, value)
    {
        const est_signature_def *signature = est_meta_graph_def_signature(meta, key);
        names                    got, want = json_names(value);

        if (signature == NULL) fail_msg("%s: no signature %s", title, key);
        got = signature_names(signature);
        same_names(title, key, &got, &want);
    }
    for (int i = 0; i < meta->n_signatures; i++) {
        key = meta->signatures[i].key;
        if (strncmp(key, "__", 2) != 0 && json_object_get(golden, key) == NULL) {
            fail_msg("%s: TensorFlow has no signature %s", title, key);
        }
    }
    est_free(bytes);
    est_arena_free(arena);
}

/* Lookups of a loaded model are those that were trained, not the many operations that a file has for each. */
static void check_lookups(const char *title, const char *path)
{
    est_saved_model          *model = NULL;
    est_saved_signature_nodes s;
    est_step                 *step = NULL;

    assert_ok(est_saved_model_load(path, NULL, &model));
    assert_ok(est_saved_model_find(model, "predict", &s));
    assert_ok(est_session_prepare(est_saved_model_session(model), s.inputs, s.outputs, EST_NO_NODES, &step));
    for (int32_t k = 0; k < est_step_plan(step)->n_items; k++) {
        const est_node_def *node = est_step_plan(step)->items[k].call.node;

        if (strcmp(node->op->name, "ResourceGather") == 0) fail_msg("%s: %s is left", title, node->name);
    }
    est_saved_model_free(model);
}

static void check_export(const char *title, est_estimator *e, const char *dir, const est_json *golden)
{
    est_parse_spec   *spec = NULL;
    est_serving_input input;
    char              base[96], path[EST_CHECKPOINT_PATH_MAX];

    (void)snprintf(base, sizeof base, "%s/export", dir);
    assert_ok(est_parse_spec_create((est_column_list){ all, 4 }, &spec));
    input = (est_serving_input){ .parse = est_parse_spec_features(spec) };
    assert_ok(est_export_saved_model(e, base, EST_EXPORT(.input = input), path));
    check_signatures(title, path, json_object_get(golden, "signatures"));
    check_lookups(title, path);
    est_parse_spec_free(spec);
}

/* The hook that gives variables the values that TensorFlow's started with. */
typedef struct starter {
    est_hook  hook;
    est_json *values; /* by the name of the variable */
} starter;

static est_status set_values(est_hook *hook, est_loop *loop)
{
    const char *name;
    est_json   *list;

    json_object_foreach(EST_CONTAINER_OF(hook, starter, hook)->values, name, list)
    {
        est_tensor *shape = NULL, *value = NULL;
        float       numbers[64];

        for (size_t i = 0; i < json_array_size(list); i++) {
            numbers[i] = (float)json_number_value(json_array_get(list, i));
        }
        assert_ok(est_session_read(est_loop_session(loop), name, &shape));
        assert_int_equal(est_tensor_count(shape), json_array_size(list));
        assert_ok(est_tensor_f32(*est_tensor_shape(shape), numbers, &value));
        assert_ok(est_session_write(est_loop_session(loop), name, value));
        est_tensor_free(shape);
        est_tensor_free(value);
    }
    return EST_OK;
}

static void check_case(const canned_case *c, bool v1, const est_json *root)
{
    bool               baseline = strncmp(c->name, "baseline", 8) == 0;
    problem            p        = { .labels = c->labels, .batch = baseline ? 8 : 4, .passes = baseline ? 6 : 3 };
    est_estimator     *e        = NULL;
    est_canned_options options  = c->options;
    starter            start    = { .hook = EST_HOOK(.after_create_session = set_values) };
    const est_json    *golden;
    char               title[64], dir[64];

    (void)snprintf(title, sizeof title, "%s%s", c->name, v1 ? "_v1" : "");
    golden = json_object_get(root, title);
    if (golden == NULL) fail_msg("no case %s", title);
    est_test_dir(dir);
    options.struct_size = sizeof options;
    options.v1          = v1;
    options.config      = EST_RUN_CONFIG(.model_dir = dir, .no_signals = true, .quiet = true, .seed = 7);
    assert_ok(c->make(&options, &e));
    start.values = json_object_get(golden, "start");
    assert_ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &p, .hooks = EST_HOOKS(&start.hook))));
    check_variables(title, dir, golden);
    check_summaries(title, e, &p, golden);
    check_metrics(title, e, &p, golden);
    check_predictions(title, e, &p, golden);
    check_export(title, e, dir, golden);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(against_tensorflow)
{
    char     *text = NULL;
    size_t    size = 0;
    est_json *root = NULL;

    assert_ok(est_file_read(EST_SOURCE_DIR "/tests/golden/canned.json", &text, &size));
    assert_ok(est_json_parse(text, size, "canned.json", &root));
    est_free(text);
    assert_int_equal(json_object_size(root), 2 * sizeof cases / sizeof cases[0]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_case(&cases[i], false, root);
        check_case(&cases[i], true, root);
    }
    est_json_free(root);
}

/* --- learning ----------------------------------------------------------------------------------------------------- */

static double loss_after(est_estimator *e, problem *p, int64_t steps)
{
    est_metrics *metrics = NULL;
    problem      once    = { p->labels, ROWS, 1 };
    double       loss;

    assert_ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = p, .max_steps = steps)));
    assert_ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = &once), &metrics));
    assert_int_equal(est_metrics_global_step(metrics), steps);
    loss = est_metrics_get(metrics, "average_loss");
    est_metrics_free(metrics);
    return loss;
}

/* Trains an estimator far enough to be better than it was, and takes it over. */
static void expect_learning(const char *what, est_estimator *e, task labels, double below)
{
    problem p     = { .labels = labels, .batch = 4, .passes = EST_FOREVER };
    double  first = loss_after(e, &p, 1), last = loss_after(e, &p, 200);

    if (!(last < first && last < below)) fail_msg("%s: average_loss went from %g to %g", what, first, last);
    est_estimator_free(e);
}

/* Overwrites the lists that an estimator was made of: it has copies. */
#define MAKE(make, e, ...)                                                                                             \
    do {                                                                                                               \
        const est_column *deep_[] = { deep[0], deep[1] }, *wide_[] = { wide[0], wide[1], wide[2] };                    \
        int64_t           units_[]     = { 8 };                                                                        \
        est_column_list   deep_columns = { deep_, 2 }, wide_columns = { wide_, 3 };                                    \
        est_i64s          units = { units_, 1 };                                                                       \
                                                                                                                       \
        (void)deep_columns;                                                                                            \
        (void)wide_columns;                                                                                            \
        (void)units;                                                                                                   \
        assert_ok(make(EST_CANNED(.config = EST_RUN_CONFIG(.model_dir = dir, .no_signals = true, .quiet = true,        \
                                                           .seed = 3, .save_checkpoints_steps = 1000),                 \
                                  __VA_ARGS__),                                                                        \
                       &(e)));                                                                                         \
        memset(deep_, 0, sizeof deep_);                                                                                \
        memset(wide_, 0, sizeof wide_);                                                                                \
        memset(units_, 0, sizeof units_);                                                                              \
    } while (0)

TEST(learning)
{
    est_canned_optimizer adam = { .value = est_adam(0.05, EST_ADAM(.keras = true)) };
    est_estimator       *e    = NULL;
    est_head            *head = NULL;
    char                 base[64], dir[160];

    est_test_dir(base);
#define LEARN(make, labels, below, ...)                                                                                \
    do {                                                                                                               \
        (void)snprintf(dir, sizeof dir, "%s/%s_%d", base, #make, __LINE__);                                            \
        MAKE(make, e, __VA_ARGS__);                                                                                    \
        expect_learning(#make, e, labels, below);                                                                      \
    } while (0)
    LEARN(est_dnn_classifier, BINARY, 0.2, .columns = deep_columns, .hidden_units = units, .optimizer = adam);
    LEARN(est_dnn_regressor, REAL, 0.2, .columns = deep_columns, .hidden_units = units, .optimizer = adam);
    LEARN(est_linear_classifier, BINARY, 0.4, .columns = wide_columns);
    LEARN(est_linear_regressor, REAL, 0.5, .columns = wide_columns);
    LEARN(est_dnn_linear_combined_classifier, BINARY, 0.2, .dnn_columns = deep_columns, .linear_columns = wide_columns,
          .hidden_units = units, .dnn_optimizer = adam, .linear_optimizer = adam);
    LEARN(est_dnn_linear_combined_regressor, REAL, 0.2, .dnn_columns = deep_columns, .linear_columns = wide_columns,
          .hidden_units = units, .dnn_optimizer = adam, .linear_optimizer = adam);
    LEARN(est_baseline_classifier, THREE, 1.085, .n_classes = 3);
    LEARN(est_baseline_regressor, REAL, 6, .optimizer = adam); /* the variance of 1 to 8 is 5.25 */

    assert_ok(est_multi_class_head(3, NULL, &head));
    LEARN(est_dnn_estimator, THREE, 0.2, .columns = deep_columns, .hidden_units = units, .optimizer = adam,
          .head = head);
    LEARN(est_linear_estimator, THREE, 0.2, .columns = wide_columns, .head = head);
    LEARN(est_dnn_linear_combined_estimator, THREE, 0.2, .dnn_columns = deep_columns, .linear_columns = wide_columns,
          .hidden_units = units, .dnn_optimizer = adam, .linear_optimizer = adam, .head = head);
    LEARN(est_baseline_estimator, THREE, 1.085, .head = head);
    est_head_free(head);
    est_test_dir_remove(base);
}

/* Rows that come and go in both parts: no summary reads them as a whole. */
TEST(dynamic_columns)
{
    const est_column    *kind = est_dynamic_embedding_column(set, "kind", EST_STRING, 2, EST_DYNAMIC(.max_rows = 100));
    est_canned_optimizer fast = { .value = est_adagrad(0.3, NULL) };
    est_estimator       *e    = NULL;
    char                 base[64], dir[160];

    est_test_dir(base);
    (void)snprintf(dir, sizeof dir, "%s/linear", base);
    MAKE(est_linear_classifier, e, .columns = EST_COLUMN_LIST(kind, wide[2]));
    expect_learning("linear", e, BINARY, 0.5);
    (void)snprintf(dir, sizeof dir, "%s/combined", base);
    MAKE(est_dnn_linear_combined_classifier, e, .dnn_columns = EST_COLUMN_LIST(kind, deep[0]),
         .linear_columns = EST_COLUMN_LIST(kind), .hidden_units = units, .dnn_optimizer = fast,
         .linear_optimizer = fast);
    expect_learning("combined", e, BINARY, 0.2);
    est_test_dir_remove(base);
}

/* Labels and weights, 1 to 3, and nothing else. */
static est_status bare_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_tensor  *numbers = NULL;
    est_dataset *d;

    (void)context;
    (void)user;
    assert_ok(est_tensor_f32(EST_SHAPE(3, 1), (const float[]){ 1, 2, 3 }, &numbers));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "w", numbers }, { "label", numbers }));
    est_tensor_free(numbers);
    return est_dataset_finish(est_dataset_batch(d, 3, NULL), out);
}

TEST(baseline_without_features)
{
    est_estimator *e       = NULL;
    est_metrics   *metrics = NULL;
    char           dir[64];

    est_test_dir(dir);
    assert_ok(est_baseline_regressor(EST_CANNED(.model_dir = dir, .weight_column = "w"), &e));
    assert_ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = bare_input), &metrics));
    assert_near(est_metrics_get(metrics, "loss"), (1 + 8 + 27) / 3.0, 1e-6);
    assert_near(est_metrics_get(metrics, "average_loss"), 36 / 6.0, 1e-6);
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static est_node doubled(est_node values, const void *user)
{
    (void)user;
    return est_scale(values, 2);
}

/* A weight with a normalizer, in a model that has only a bias. */
TEST(weight_as_a_column)
{
    est_columns   *own     = est_columns_create();
    est_estimator *e       = NULL;
    est_metrics   *metrics = NULL;
    char           dir[64];

    est_test_dir(dir);
    assert_ok(est_baseline_regressor(EST_CANNED(.model_dir = dir, .weight_numeric = est_numeric_column(
                                                                      own, "w", EST_NUMERIC(.normalizer = doubled))),
                                     &e));
    assert_ok(est_evaluate(e, EST_EVALUATE_OPTIONS(.input_fn = bare_input), &metrics));
    assert_near(est_metrics_get(metrics, "loss"), 2 * (1 + 8 + 27) / 3.0, 1e-6);
    est_metrics_free(metrics);
    est_estimator_free(e);
    est_columns_free(own);
    est_test_dir_remove(dir);
}

static void assert_refused(est_status status, const char *text)
{
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    est_test_error_has(text);
}

#define MANY 36 /* so many columns that 1 / sqrt(n) is below 0.2 */

static est_status many_input(const est_input_context *context, void *user, est_dataset **out)
{
    est_named_tensor tensors[MANY + 1] = { 0 };
    est_tensor      *ones              = NULL;
    char             keys[MANY][8];
    est_dataset     *d;

    (void)context;
    (void)user;
    assert_ok(est_tensor_f32(EST_SHAPE(2, 1), (const float[]){ 1, 1 }, &ones));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "f%d", i);
        tensors[i] = (est_named_tensor){ keys[i], ones };
    }
    tensors[MANY] = (est_named_tensor){ "label", ones };
    d             = est_dataset_slices((est_named_tensors){ tensors, MANY + 1 });
    est_tensor_free(ones);
    return est_dataset_finish(est_dataset_batch(d, 2, NULL), out);
}

/* A linear regressor of all of them after a step from 0: Ftrl moves the bias by its rate times the sign of the
 * gradient. */
static double first_bias(const char *dir, int n, est_canned_optimizer optimizer, bool v1)
{
    est_columns      *own = est_columns_create();
    const est_column *columns[MANY];
    est_checkpoint   *checkpoint = NULL;
    est_estimator    *e          = NULL;
    est_tensor       *bias       = NULL;
    double            found;

    for (int i = 0; i < n; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "f%d", i);
        columns[i] = est_numeric_column(own, name, NULL);
    }
    assert_ok(est_linear_regressor(
        EST_CANNED(.model_dir = dir, .columns = { columns, n }, .optimizer = optimizer, .v1 = v1), &e));
    assert_ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = many_input, .steps = 1)));
    est_estimator_free(e);
    assert_ok(est_checkpoint_open(dir, &checkpoint));
    assert_ok(est_checkpoint_read(checkpoint, "linear/linear_model/bias_weights", &bias));
    found = *(const float *)est_tensor_data(bias);
    est_tensor_free(bias);
    est_checkpoint_close(checkpoint);
    est_columns_free(own);
    return found;
}

/* What optimizer=None is in TensorFlow: the rate depends on how many columns there are, up to that of the usual
 * "Ftrl". */
TEST(rate_by_columns)
{
    const est_canned_optimizer none = { .name = "None" }, usual = { .name = "Ftrl" };
    est_estimator             *e = NULL;
    char                       base[64], dir[128];

    est_test_dir(base);
    for (int v1 = 0; v1 < 2; v1++) {
        double few, many, named;

        (void)snprintf(dir, sizeof dir, "%s/few%d", base, v1);
        few = first_bias(dir, 4, none, v1 != 0);
        (void)snprintf(dir, sizeof dir, "%s/many%d", base, v1);
        many = first_bias(dir, MANY, none, v1 != 0);
        (void)snprintf(dir, sizeof dir, "%s/named%d", base, v1);
        named = first_bias(dir, MANY, usual, v1 != 0);
        assert_near(few, named, 1e-6);
        assert_near(many / named, (1 / 6.0) / 0.2, 1e-5);
    }
    assert_refused(
        est_dnn_classifier(EST_CANNED(.columns = { deep, 2 }, .hidden_units = EST_I64S(2), .optimizer = none), &e),
        "unknown optimizer 'None'");
    est_test_dir_remove(base);
}

static void expect_variable(est_estimator *e, const char *dir, const char *name)
{
    problem         p          = { .labels = REAL, .batch = 4, .passes = 1 };
    est_checkpoint *checkpoint = NULL;

    assert_ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &p, .steps = 1)));
    est_estimator_free(e);
    assert_ok(est_checkpoint_open(dir, &checkpoint));
    assert_non_null(est_checkpoint_find(checkpoint, name));
    est_checkpoint_close(checkpoint);
}

/* TensorFlow's name for what an optimizer keeps counts the heads before it. */
TEST(slots_of_a_multi_head)
{
    const est_canned_optimizer adagrad  = { .value = est_adagrad(0.1, NULL) };
    est_head                  *heads[2] = { NULL }, *multi = NULL;
    est_estimator             *e = NULL;
    char                       base[64], dir[128];

    est_test_dir(base);
    assert_ok(est_regression_head(1, EST_HEAD(.name = "a", .label = "label"), &heads[0]));
    assert_ok(est_regression_head(1, EST_HEAD(.name = "b", .label = "label"), &heads[1]));
    assert_ok(est_multi_head((est_heads){ heads, 2 }, (est_f64s){ 0 }, &multi));
    (void)snprintf(dir, sizeof dir, "%s/one", base);
    assert_ok(est_baseline_estimator(EST_CANNED(.model_dir = dir, .head = multi), &e));
    expect_variable(e, dir, "training_2/Ftrl/baseline/bias/linear");
    (void)snprintf(dir, sizeof dir, "%s/two", base);
    assert_ok(est_dnn_linear_combined_estimator(EST_CANNED(.model_dir = dir, .head = multi, .linear_columns = WIDE,
                                                           .dnn_columns = DEEP, .hidden_units = EST_I64S(2),
                                                           .dnn_optimizer = adagrad),
                                                &e));
    expect_variable(e, dir, "training_2/Ftrl/linear/linear_model/bias_weights/linear");
    (void)snprintf(dir, sizeof dir, "%s/old", base);
    assert_ok(est_baseline_estimator(EST_CANNED(.model_dir = dir, .head = multi, .optimizer = adagrad), &e));
    expect_variable(e, dir, "baseline/bias/Adagrad");
    est_head_free(multi);
    est_head_free(heads[0]);
    est_head_free(heads[1]);
    est_test_dir_remove(base);
}

/* Trains a deep classifier of one shared embedding to a step; its table afterwards. */
static void train_shared(const char *dir, bool frozen, int64_t max_steps, float table[6])
{
    est_checkpoint   *checkpoint = NULL;
    est_estimator    *e          = NULL;
    est_tensor       *stored     = NULL;
    problem           p          = { .labels = BINARY, .batch = 8, .passes = EST_FOREVER };
    const est_column *shared[1];

    est_shared_embedding_columns(EST_COLUMN_LIST(wide[1]), 2, EST_EMBEDDING_COLUMN(.frozen = frozen), shared);
    assert_ok(est_dnn_classifier(
        EST_CANNED(.columns = EST_COLUMN_LIST(shared[0], deep[0]), .hidden_units = EST_I64S(4),
                   .config = EST_RUN_CONFIG(.model_dir = dir, .no_signals = true, .quiet = true, .seed = 3)),
        &e));
    assert_ok(est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &p, .max_steps = max_steps)));
    est_estimator_free(e);
    assert_ok(est_checkpoint_open(dir, &checkpoint));
    assert_ok(est_checkpoint_read(checkpoint, "kind_shared_embedding", &stored));
    assert_true((est_checkpoint_find(checkpoint, "training/Adagrad/kind_shared_embedding/accumulator") != NULL) ==
                !frozen);
    memcpy(table, est_tensor_data(stored), 6 * sizeof *table);
    est_tensor_free(stored);
    est_checkpoint_close(checkpoint);
}

/* TensorFlow's estimators leave checkpoints without slots for the table of shared embeddings: we train it from
 * there. */
TEST(shared_embedding_without_slots)
{
    float first[6], still[6], trained[6];
    char  dir[64];

    est_test_dir(dir);
    train_shared(dir, true, 1, first);
    train_shared(dir, true, 2, still);
    assert_memory_equal(first, still, sizeof first);
    train_shared(dir, false, 4, trained);
    assert_memory_not_equal(first, trained, sizeof first);
    train_shared(dir, false, 6, still);
    assert_memory_not_equal(still, trained, sizeof first);
    est_test_dir_remove(dir);
}

/* --- parts of a model_fn ------------------------------------------------------------------------------------------ */

static est_status parts_fn(est_model *model, est_mode mode, const void *params)
{
    const est_head *const *head = params;
    est_node a = est_dnn_logits(model, mode, 3, EST_CANNED(.columns = { deep, 2 }, .hidden_units = EST_I64S(4)));
    est_node b = est_linear_logits(model, 3, EST_CANNED(.columns = { wide, 3 }));

    return est_head_finish(*head, model, mode, est_add(a, b), NULL);
}

TEST(parts)
{
    static const char *const want[] = { "dnn/input_from_feature_columns/input_layer/kind_embedding/embedding_weights",
                                        "dnn/hiddenlayer_0/kernel",
                                        "dnn/hiddenlayer_0/bias",
                                        "dnn/logits/kernel",
                                        "dnn/logits/bias",
                                        "linear/linear_model/age/weights",
                                        "linear/linear_model/age_bucketized/weights",
                                        "linear/linear_model/kind/weights",
                                        "linear/linear_model/bias_weights" };
    problem                  p      = { .labels = THREE, .batch = 4, .passes = 1 };
    est_head                *head   = NULL;
    est_dataset             *input  = NULL;
    est_model               *model  = NULL;
    est_nodes                variables;

    assert_ok(est_multi_class_head(3, NULL, &head));
    assert_ok(input_fn(&(est_input_context){ 0 }, &p, &input));
    assert_ok(est_model_create(EST_EVAL, NULL, NULL, input, 1, &model));
    assert_ok(est_model_build(model, parts_fn, &head));
    variables = est_trainable_variables(model->graph);
    assert_int_equal(variables.n, 9);
    for (int i = 0; i < 9; i++) assert_string_equal(est_node_name(variables.data[i]), want[i]);
    est_model_free(model);
    est_dataset_free(input);
    est_head_free(head);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

TEST(arguments)
{
    est_column_list    columns = { deep, 2 };
    est_i64s           units   = EST_I64S(4, 2);
    est_estimator     *e       = NULL;
    est_head          *head    = NULL;
    est_canned_options plain   = { .columns = columns };
    est_warm_start     warm    = { .struct_size = sizeof warm, .path = "x" };

    assert_ok(est_binary_head(NULL, &head));
#define REFUSED(make, text, ...) assert_refused(make(EST_CANNED(__VA_ARGS__), &e), text)
    REFUSED(est_linear_classifier, "est_linear_classifier: it has no argument hidden_units", .hidden_units = units);
    REFUSED(est_linear_regressor, "no argument dropout", .dropout = 0.5);
    REFUSED(est_linear_regressor, "no argument batch_norm", .batch_norm = true);
    REFUSED(est_linear_regressor, "no argument activation", .activation = est_tanh);
    REFUSED(est_dnn_classifier, "no argument sparse_combiner", .sparse_combiner = EST_COMBINE_MEAN);
    REFUSED(est_dnn_classifier, "no argument dnn_columns", .dnn_columns = columns);
    REFUSED(est_dnn_classifier, "no argument linear_columns", .linear_columns = columns);
    REFUSED(est_dnn_classifier, "no argument linear_optimizer", .linear_optimizer = { .name = "Adam" });
    REFUSED(est_dnn_linear_combined_classifier, "no argument optimizer", .optimizer = { .name = "Adam" });
    REFUSED(est_dnn_linear_combined_classifier, "no argument columns", .columns = columns);
    REFUSED(est_dnn_regressor, "no argument n_classes", .n_classes = 3);
    REFUSED(est_dnn_classifier, "no argument label_dimension", .label_dimension = 2);
    REFUSED(est_dnn_classifier, "no argument head", .head = head);
    REFUSED(est_dnn_estimator, "no argument weight_column", .weight_column = "w", .head = head);
    REFUSED(est_dnn_estimator, "no argument loss_reduction", .loss_reduction = EST_LOSS_SUM, .head = head);
    REFUSED(est_baseline_classifier, "no argument columns", .columns = columns);
    REFUSED(est_baseline_classifier, "no argument warm_start", .warm_start = &warm);

    REFUSED(est_dnn_classifier, "est_dnn_classifier: columns is empty", .hidden_units = units);
    REFUSED(est_dnn_classifier, "hidden_units is empty", .columns = columns);
    REFUSED(est_dnn_classifier, "hidden layer 1 has 0 units", .columns = columns, .hidden_units = EST_I64S(4, 0));
    REFUSED(est_dnn_classifier, "dropout is 1", .columns = columns, .hidden_units = units, .dropout = 1);
    REFUSED(est_dnn_linear_combined_regressor, "linear_columns and dnn_columns are both empty", .hidden_units = units);
    REFUSED(est_dnn_linear_combined_regressor, "hidden_units is empty", .dnn_columns = columns);
    REFUSED(est_linear_estimator, "est_linear_estimator: head is NULL", .columns = columns);
    REFUSED(est_linear_classifier, "est_linear_classifier: a multi-class head needs more than 2 classes, got 1",
            .columns = columns, .n_classes = 1);
    REFUSED(est_linear_classifier, "unknown optimizer 'Adamix'; did you mean 'adamax'?", .columns = columns,
            .optimizer = { .name = "Adamix" });
    assert_refused(est_linear_classifier(&plain, &e), "EST_CANNED");
    assert_null(e);
    est_head_free(head);
}

/* The error of a call is about a line of this file. */
static void assert_blamed(est_status status, int line, const char *text)
{
    char where[64];

    (void)snprintf(where, sizeof where, "canned.c:%d: ", line);
    assert_refused(status, where);
    est_test_error_has(text);
}

/* Columns that cannot be, or do not suit the model, are refused by the constructor; the line is that of the mistake. */
TEST(bad_columns)
{
    est_i64s          units = EST_I64S(4);
    est_columns      *sets[3];
    est_estimator    *e = NULL;
    const est_column *made;
    est_status        status;
    char              where[64];
    int               line;

    for (int i = 0; i < 3; i++) sets[i] = est_columns_create();
    made   = est_hash_bucket_column(sets[0], "kind", 10, NULL);
    status = est_dnn_classifier(EST_CANNED(.columns = EST_COLUMN_LIST(made), .hidden_units = units), &e);
    line   = __LINE__ - 1;
    assert_blamed(status, line, "est_dnn_classifier: ");
    assert_blamed(status, line, "\"kind\" is a hash bucket column, which is not dense");
    status = est_linear_regressor(EST_CANNED(.columns = EST_COLUMN_LIST(made, NULL)), &e);
    line   = __LINE__ - 1;
    assert_blamed(status, line, "a linear model: column 1 of 2 is NULL");
    status = est_dnn_linear_combined_regressor(EST_CANNED(.dnn_columns = { &made, 1 }, .hidden_units = units), &e);
    line   = __LINE__ - 1;
    assert_blamed(status, line, "which is not dense");
    assert_refused(est_linear_classifier(EST_CANNED(.columns = { NULL, 3 }), &e),
                   "3 columns given, but the pointer is NULL");

    made = est_bucketized_column(est_numeric_column(sets[1], "age", NULL), EST_F32S(3, 2));
    line = __LINE__ - 1;
    assert_blamed(est_linear_classifier(EST_CANNED(.columns = EST_COLUMN_LIST(made)), &e), line, "boundaries");
    made   = est_vocabulary_file_column(sets[2], "kind", "/no/such/vocabulary", NULL);
    line   = __LINE__ - 1;
    made   = est_indicator_column(made);
    status = est_dnn_regressor(EST_CANNED(.columns = EST_COLUMN_LIST(made), .hidden_units = units), &e);
    assert_int_equal(status, EST_NOT_FOUND);
    (void)snprintf(where, sizeof where, "canned.c:%d: ", line);
    est_test_error_has(where);
    est_test_error_has("/no/such/vocabulary");
    assert_null(e);
    for (int i = 0; i < 3; i++) est_columns_free(sets[i]);
}

/* What only training can find is the fault of the line that made the estimator, and not of what the thread built
 * last. */
TEST(line_of_a_model)
{
    problem           p     = { BINARY, 4, 1 };
    est_columns      *own   = est_columns_create();
    const est_column *size  = est_numeric_column(own, "size", NULL);
    est_estimator    *e     = NULL;
    est_graph        *graph = NULL;
    const char       *file  = NULL;
    char              dir[64];
    est_status        status;
    int               line, noted = -1;

    est_test_dir(dir);
    assert_ok(est_linear_classifier(EST_CANNED(.columns = EST_COLUMN_LIST(size), .model_dir = dir), &e));
    line = __LINE__ - 1;
    assert_ok(est_graph_create(1, &graph));
    (void)est_scalar(graph, EST_F32, 1);
    est_graph_free(graph);
    status = est_train(e, EST_TRAIN_OPTIONS(.input_fn = input_fn, .input_user = &p));
    assert_blamed(
        status, line,
        "column \"size\" reads the feature \"size\", but there is no such feature; there are: age, kind, label");
    est_graph_where(&file, &noted);
    assert_string_equal(file, ""); /* the noted line is the estimator's own string: it must not outlive it */
    assert_int_equal(noted, 0);
    est_estimator_free(e);
    est_columns_free(own);
    est_test_dir_remove(dir);
}

/* --- parse specs -------------------------------------------------------------------------------------------------- */

TEST(parse_specs)
{
    static const est_column *const none = NULL;
    est_parse_spec                *spec = NULL;
    est_feature_specs              features;

    assert_ok(est_classifier_parse_spec(
        EST_CANNED(.dnn_columns = { deep, 2 }, .linear_columns = { wide, 3 }, .weight_column = "w", .label = "bought"),
        &spec)); /* both lists read "age" and "kind" */
    features = est_parse_spec_features(spec);
    assert_int_equal(features.n, 4);
    assert_string_equal(features.data[0].name, "age");
    assert_string_equal(features.data[1].name, "kind");
    assert_string_equal(features.data[2].name, "bought");
    assert_int_equal(features.data[2].dtype, EST_I64);
    assert_string_equal(features.data[3].name, "w");
    est_parse_spec_free(spec);
    spec = NULL;

    assert_ok(est_regressor_parse_spec(EST_CANNED(.columns = { wide, 3 }, .label_dimension = 3), &spec));
    features = est_parse_spec_features(spec);
    assert_string_equal(features.data[features.n - 1].name, "label");
    assert_int_equal(features.data[features.n - 1].dtype, EST_F32);
    assert_int_equal(features.data[features.n - 1].shape.dim[0], 3);
    est_parse_spec_free(spec);
    spec = NULL;

    assert_ok(est_classifier_parse_spec(EST_CANNED(.label = "y"), &spec)); /* a baseline has no columns */
    features = est_parse_spec_features(spec);
    assert_int_equal(features.n, 1);
    assert_string_equal(features.data[0].name, "y");
    est_parse_spec_free(spec);
    spec = NULL;

    assert_refused(est_classifier_parse_spec(EST_CANNED(.columns = { wide, 3 }, .label = "age"), &spec), "age");
    assert_refused(
        est_classifier_parse_spec(EST_CANNED(.dnn_columns = { deep, 2 }, .linear_columns = { &none, 1 }), &spec),
        "column 2 of 3 is NULL");
    assert_refused(est_regressor_parse_spec(EST_CANNED(.columns = { wide, 3 }, .n_classes = 3), &spec),
                   "no argument n_classes");
    assert_null(spec);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Makes an estimator and its graphs. */
static est_status build(make_fn make, const est_canned_options *options, const est_dataset *input)
{
    est_estimator *e      = NULL;
    est_status     status = make(options, &e);

    for (int mode = EST_TRAIN; mode <= EST_PREDICT && status == EST_OK; mode++) {
        est_model *model = NULL;

        status = est_estimator_model(e, (est_mode)mode, input, 1, &model);
        est_model_free(model);
    }
    est_estimator_free(e);
    return status;
}

static void expect_no_leak(make_fn make, const est_canned_options *options)
{
    problem      p     = { .labels = BINARY, .batch = 4, .passes = 1 };
    est_dataset *input = NULL;

    assert_ok(input_fn(&(est_input_context){ 0 }, &p, &input));
    FAULT_LOOP(f, FAULT_PLACES, .depth = 3) {
        est_status status;

        fault_arm(&f);
        status = build(make, options, input);
        fault_check_lenient(&f, status);
    }
    est_dataset_free(input);
}

TEST(memory_runs_out)
{
    est_head *heads[2] = { NULL }, *multi = NULL;

    expect_no_leak(est_dnn_linear_combined_classifier,
                   EST_CANNED(.model_dir = "/nonexistent", .dnn_columns = { deep, 2 }, .linear_columns = { wide, 3 },
                              .hidden_units = EST_I64S(4), .batch_norm = true));
    assert_ok(est_binary_head(EST_HEAD(.name = "a", .label = "label"), &heads[0]));
    assert_ok(est_poisson_head(1, EST_HEAD(.name = "b", .label = "label"), &heads[1]));
    assert_ok(est_multi_head((est_heads){ heads, 2 }, (est_f64s){ 0 }, &multi));
    expect_no_leak(est_baseline_estimator, EST_CANNED(.model_dir = "/nonexistent", .head = multi, .v1 = true));
    est_head_free(heads[0]);
    est_head_free(heads[1]);
    est_head_free(multi);
}

int main(void)
{
    return est_test_run(make_columns, free_columns);
}
