/* SPDX-License-Identifier: Apache-2.0
 *
 * Every head against TensorFlow's: tests/golden/heads.json, written by scripts/make-golden-heads. The logits are a
 * feature of the input, so that a model is nothing but a head; evaluations and predictions are those of an estimator.
 *
 * Tolerances are relative to max(1, |expected|): metrics are quotients of sums of eight float32 numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/signature.h"
#include "support/estimator_test.h"
#include "support/nn_test.h"

#define TOL 2e-6

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void set_element(est_tensor *t, int64_t i, const est_json *v)
{
    switch (est_tensor_dtype(t)) {
    case EST_F32: ((float *)est_tensor_mutable_data(t))[i] = (float)json_number_value(v); break;
    case EST_I32: ((int32_t *)est_tensor_mutable_data(t))[i] = (int32_t)json_integer_value(v); break;
    case EST_I64: ((int64_t *)est_tensor_mutable_data(t))[i] = json_integer_value(v); break;
    default: assert_ok(est_tensor_set_string(t, i, json_string_value(v), strlen(json_string_value(v)))); break;
    }
}

static est_tensor *list_tensor(const est_json *list, est_dtype dtype, est_shape shape)
{
    est_tensor *t = NULL;

    assert_ok(est_tensor_create(dtype, shape, &t));
    assert_int_equal(est_tensor_count(t), json_array_size(list));
    for (int64_t i = 0; i < est_tensor_count(t); i++) set_element(t, i, json_array_get(list, (size_t)i));
    return t;
}

static est_tensor *json_tensor(const est_json *v)
{
    const est_json *dims  = json_object_get(v, "shape");
    const char     *name  = json_string_value(json_object_get(v, "dtype"));
    est_shape       shape = { (int32_t)json_array_size(dims), { 0 } };

    for (int32_t i = 0; i < shape.rank; i++) shape.dim[i] = json_integer_value(json_array_get(dims, (size_t)i));
    return list_tensor(json_object_get(v, "data"), est_dtype_from_name(name, strlen(name)), shape);
}

/* --- input -------------------------------------------------------------------------------------------------------- */

#define ROWS         8
#define FIRST        5 /* rows of the first batch */
#define FEATURES_MAX 4

/* The features of a case: whole tensors, cut into two batches. */
typedef struct input {
    est_component components[FEATURES_MAX];
    est_tensor   *values[FEATURES_MAX];
    est_tensor   *splits[FEATURES_MAX]; /* of ragged ones */
    int           n;
    int           batch; /* the next one */
} input;

static void add_feature(input *in, const char *name, const est_json *v)
{
    const est_json *values = json_object_get(v, "values");
    est_component  *c      = &in->components[in->n];
    est_tensor     *t;

    if (values != NULL) {
        bool text = json_is_string(json_array_get(values, 0));

        t = list_tensor(values, text ? EST_STRING : EST_I64, EST_SHAPE((int64_t)json_array_size(values)));
        in->splits[in->n] = list_tensor(json_object_get(v, "splits"), EST_I64, EST_SHAPE(ROWS + 1));
    } else {
        t = json_tensor(v);
    }
    *c = (est_component){
        .name = name, .dtype = est_tensor_dtype(t), .shape = *est_tensor_shape(t), .ragged = values != NULL
    };
    c->shape.dim[0]     = -1;
    in->values[in->n++] = t;
}

static est_status cut_ragged(est_tensor *values, est_tensor *splits, int64_t first, int64_t n, est_field *out)
{
    const int64_t *at = est_tensor_data(splits);
    int64_t        moved[ROWS + 1];

    for (int64_t i = 0; i <= n; i++) moved[i] = at[first + i] - at[first];
    EST_TRY(est_tensor_rows(values, at[first], moved[n], &out->values));
    return est_tensor_i64(EST_SHAPE(n + 1), moved, &out->splits);
}

static est_status input_open(void *user, void **state)
{
    ((input *)user)->batch = 0;
    *state                 = user;
    return EST_OK;
}

static est_status input_next(void *state, est_field *element)
{
    input  *in    = state;
    int64_t first = in->batch == 0 ? 0 : FIRST, n = in->batch == 0 ? FIRST : ROWS - FIRST;

    if (in->batch++ == 2) return EST_OUT_OF_RANGE;
    for (int i = 0; i < in->n; i++) {
        if (in->splits[i] != NULL) {
            EST_TRY(cut_ragged(in->values[i], in->splits[i], first, n, &element[i]));
        } else {
            EST_TRY(est_tensor_rows(in->values[i], first, n, &element[i].values));
        }
    }
    return EST_OK;
}

static est_status input_fn(const est_input_context *context, void *user, est_dataset **out)
{
    input *in = user;

    (void)context;
    return est_dataset_finish(est_dataset_generator((est_components){ in->components, in->n },
                                                    EST_GENERATOR(.open = input_open, .next = input_next, .user = in)),
                              out);
}

static void input_clear(input *in)
{
    for (int i = 0; i < in->n; i++) {
        est_tensor_free(in->values[i]);
        est_tensor_free(in->splits[i]);
    }
}

/* --- heads -------------------------------------------------------------------------------------------------------- */

static int64_t integer_at(const est_json *c, const char *key)
{
    return json_integer_value(json_object_get(c, key));
}

static est_reduction reduction_of(const est_json *c)
{
    static const char *const names[] = { "", "sum_over_batch_size", "sum", "mean", "none", "sum_over_nonzero_weights" };
    const char              *name    = json_string_value(json_object_get(c, "reduction"));

    for (int i = 1; i < 6; i++) {
        if (strcmp(names[i], name) == 0) return (est_reduction)i;
    }
    fail_msg("reduction %s", name);
    return EST_LOSS_NONE;
}

static est_head *multi_head(const est_json *c)
{
    const est_json *given    = json_object_get(c, "head_weights");
    const char     *weight   = json_object_get(c, "weights") != NULL ? "w" : NULL;
    est_head       *heads[2] = { NULL }, *multi = NULL;
    double          weights[2];

    for (size_t i = 0; i < 2; i++) weights[i] = json_number_value(json_array_get(given, i));
    assert_ok(est_binary_head(EST_HEAD(.name = "clicked", .weight_column = weight), &heads[0]));
    assert_ok(est_regression_head(2, EST_HEAD(.name = "price", .weight_column = weight), &heads[1]));
    assert_ok(est_multi_head((est_heads){ heads, 2 }, (est_f64s){ weights, given != NULL ? 2 : 0 }, &multi));
    for (int i = 0; i < 2; i++) est_head_free(heads[i]); /* shared with it */
    return multi;
}

static est_head *make_head(const est_json *c)
{
    const char      *kind = json_string_value(json_object_get(c, "kind"));
    const est_json  *list;
    const char      *words[4];
    double           thresholds[4];
    int64_t          classes[4];
    est_head        *head = NULL;
    est_head_options o    = { .struct_size    = sizeof o,
                              .name           = json_string_value(json_object_get(c, "name")),
                              .label          = "label",
                              .weight_column  = json_object_get(c, "weights") != NULL ? "w" : NULL,
                              .thresholds     = { thresholds, 0 },
                              .metric_classes = { classes, 0 },
                              .loss_reduction = reduction_of(c),
                              .inverse_link   = json_object_get(c, "inverse_link") != NULL ? est_exp : NULL,
                              .no_full_loss   = integer_at(c, "no_full_loss") != 0,
                              .v1             = integer_at(c, "v1") != 0 };

    if (strcmp(kind, "multi") == 0) return multi_head(c);
    list = json_object_get(c, "vocabulary");
    for (size_t i = 0; i < json_array_size(list); i++) words[i] = json_string_value(json_array_get(list, i));
    o.label_vocabulary = (est_strings){ words, (int)json_array_size(list) };
    list               = json_object_get(c, "thresholds");
    for (size_t i = 0; i < json_array_size(list); i++) thresholds[i] = json_number_value(json_array_get(list, i));
    o.thresholds.n = (int)json_array_size(list);
    list           = json_object_get(c, "metric_classes");
    for (size_t i = 0; i < json_array_size(list); i++) classes[i] = json_integer_value(json_array_get(list, i));
    o.metric_classes.n = (int)json_array_size(list);

    if (strcmp(kind, "binary") == 0) {
        assert_ok(est_binary_head(&o, &head));
    } else if (strcmp(kind, "multi_class") == 0) {
        assert_ok(est_multi_class_head(integer_at(c, "n"), &o, &head));
    } else if (strcmp(kind, "multi_label") == 0) {
        assert_ok(est_multi_label_head(integer_at(c, "n"), &o, &head));
    } else if (strcmp(kind, "regression") == 0) {
        assert_ok(est_regression_head(integer_at(c, "n"), &o, &head));
    } else if (strcmp(kind, "poisson") == 0) {
        assert_ok(est_poisson_head(integer_at(c, "n"), &o, &head));
    } else {
        assert_string_equal(kind, "logistic");
        assert_ok(est_logistic_regression_head(&o, &head));
    }
    return head;
}

static est_status model_fn(est_model *model, est_mode mode, const void *params)
{
    const est_head *const *head = params;

    return est_head_finish(*head, model, mode, est_model_feature(model, "logits"), NULL);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static void near(const char *title, const char *what, double got, double want)
{
    if (!(fabs(got - want) <= TOL * fmax(1, fabs(want)))) {
        fail_msg("%s: %s is %.9g, TensorFlow says %.9g", title, what, got, want);
    }
}

static void check_metrics(const char *title, est_estimator *estimator, input *in, const est_json *c)
{
    est_json    *want    = json_object_get(c, "metrics");
    est_metrics *metrics = NULL;
    const char  *key;
    est_json    *value;

    assert_ok(est_evaluate(estimator, EST_EVALUATE_OPTIONS(.input_fn = input_fn, .input_user = in), &metrics));
    near(title, "loss", est_metrics_get(metrics, "loss"), json_number_value(json_object_get(c, "loss")));
    json_object_foreach(want, key, value)
    {
        near(title, key, est_metrics_get(metrics, key), json_number_value(value));
    }
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        const char *name = est_metrics_name(metrics, i);

        if (strcmp(name, "loss") == 0 || strcmp(name, "global_step") == 0) continue;
        if (json_object_get(want, name) == NULL) fail_msg("%s: TensorFlow has no metric %s", title, name);
    }
    est_metrics_free(metrics);
}

/* One row of a prediction against row `row` of TensorFlow's. */
static void check_row(const char *title, const char *key, const est_tensor *got, const est_tensor *want, int64_t row)
{
    int64_t n = est_tensor_count(want) / ROWS;

    if (est_tensor_dtype(got) != est_tensor_dtype(want) || est_tensor_count(got) != n) {
        fail_msg("%s: prediction %s is %s of %d, TensorFlow says %s of %d", title, key,
                 est_dtype_name(est_tensor_dtype(got)), (int)est_tensor_count(got),
                 est_dtype_name(est_tensor_dtype(want)), (int)n);
    }
    for (int64_t i = 0; i < n; i++) {
        if (est_tensor_dtype(want) == EST_STRING) {
            est_str a = ((const est_str *)est_tensor_data(got))[i],
                    b = ((const est_str *)est_tensor_data(want))[row * n + i];

            assert_int_equal(a.size, b.size);
            assert_memory_equal(a.data, b.data, a.size);
        } else {
            near(title, key, nn_element(got, i), nn_element(want, row * n + i));
        }
    }
}

static void check_predictions(const char *title, est_estimator *estimator, input *in, est_json *want)
{
    est_predictions *predictions = NULL;
    const char      *key;
    est_json        *value;

    assert_ok(est_predict(estimator, EST_PREDICT_OPTIONS(.input_fn = input_fn, .input_user = in), &predictions));
    for (int64_t row = 0; row < ROWS; row++) {
        assert_ok(est_predictions_next(predictions));
        assert_int_equal(est_predictions_count(predictions), json_object_size(want));
        json_object_foreach(want, key, value)
        {
            est_tensor *t = json_tensor(value);

            if (est_predictions_get(predictions, key) == NULL) fail_msg("%s: no prediction %s", title, key);
            check_row(title, key, est_predictions_get(predictions, key), t, row);
            est_tensor_free(t);
        }
    }
    assert_int_equal(est_predictions_next(predictions), EST_OUT_OF_RANGE);
    est_predictions_free(predictions);
}

static void check_case(const char *dir, size_t i, const est_json *c)
{
    input           in        = { 0 };
    est_head       *head      = make_head(c);
    est_estimator  *estimator = NULL;
    const est_json *weights   = json_object_get(c, "weights");
    const char     *key;
    est_json       *value;
    char            title[128];

    (void)snprintf(title, sizeof title, "case %d, %s%s, %s%s", (int)i, json_string_value(json_object_get(c, "kind")),
                   integer_at(c, "v1") != 0 ? " v1" : "", json_string_value(json_object_get(c, "reduction")),
                   weights != NULL ? ", weighted" : "");
    add_feature(&in, "logits", json_object_get(c, "logits"));
    if (weights != NULL) add_feature(&in, "w", weights);
    json_object_foreach(json_object_get(c, "labels"), key, value)
    {
        add_feature(&in, key, value);
    }
    estimator = est_test_make(model_fn,
                              EST_ESTIMATOR(.model_dir = dir, .params = &head, .params_size = sizeof(est_head *)));
    check_metrics(title, estimator, &in, c);
    value = json_object_get(c, "predictions");
    if (value != NULL) check_predictions(title, estimator, &in, value);
    est_estimator_free(estimator);
    est_head_free(head);
    input_clear(&in);
}

TEST(heads)
{
    est_json *root = nn_golden("heads.json"), *cases = json_object_get(root, "cases");
    char      dir[64];

    assert_true(json_array_size(cases) > 100);
    est_test_dir(dir);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(dir, i, json_array_get(cases, i));
    est_test_dir_remove(dir);
    est_json_free(root);
}
