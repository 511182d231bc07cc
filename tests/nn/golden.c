/* SPDX-License-Identifier: Apache-2.0
 *
 * Our numbers against TensorFlow's: the files of tests/golden, written by scripts/make-golden.
 *
 * Tolerances are relative to max(1, |expected|) and say how far apart two correct float32 computations of the same
 * formula may end: a few units in the last place (6e-8) where the formula is one step, more where sums of some dozens
 * of products are added in another order, more again after ten training steps. */
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "graph/graph.h"
#include "graph/signature.h"
#include "ops/ops.h"
#include "support/nn_test.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

static double json_number(const est_json *v)
{
    if (json_is_string(v)) return strtod(json_string_value(v), NULL); /* "inf", "nan" */
    return json_number_value(v);
}

/* Element i of the list at `key`. */
static double at(const est_json *root, const char *key, size_t i)
{
    const est_json *list = json_object_get(root, key);

    assert_true(i < json_array_size(list));
    return json_number(json_array_get(list, i));
}

static const char *text_at(const est_json *root, const char *key)
{
    const char *s = NULL;

    assert_ok(est_json_string(root, &s, "%s", key));
    return s;
}

static est_dtype dtype_of(const char *name)
{
    est_dtype dtype = est_dtype_from_name(name, strlen(name));

    if (dtype == EST_DTYPE_NONE) fail_msg("no dtype is called %s", name);
    return dtype;
}

static void set_element(void *data, est_dtype dtype, int64_t i, const est_json *v)
{
    switch (dtype) {
    case EST_F32: ((float *)data)[i] = (float)json_number(v); break;
    case EST_F64: ((double *)data)[i] = json_number(v); break;
    case EST_I32: ((int32_t *)data)[i] = (int32_t)json_integer_value(v); break;
    case EST_I64: ((int64_t *)data)[i] = json_integer_value(v); break;
    case EST_BOOL: ((uint8_t *)data)[i] = json_integer_value(v) != 0; break;
    default: fail_msg("dtype %s", est_dtype_name(dtype));
    }
}

static est_tensor *json_tensor(const est_json *v)
{
    const est_json *dims = json_object_get(v, "shape"), *data = json_object_get(v, "data");
    est_shape       shape = { (int32_t)json_array_size(dims), { 0 } };
    est_dtype       dtype = dtype_of(text_at(v, "dtype"));
    est_tensor     *t     = NULL;

    for (int32_t i = 0; i < shape.rank; i++) shape.dim[i] = json_integer_value(json_array_get(dims, (size_t)i));
    assert_ok(est_tensor_create(dtype, shape, &t));
    assert_int_equal(est_tensor_count(t), json_array_size(data));
    for (int64_t i = 0; i < est_tensor_count(t); i++) {
        set_element(est_tensor_mutable_data(t), dtype, i, json_array_get(data, (size_t)i));
    }
    return t;
}

static est_node json_const(est_graph *g, const est_json *v)
{
    est_tensor *t    = json_tensor(v);
    est_node    node = est_const(g, t);

    est_tensor_free(t);
    return node;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static void near(const char *what, int64_t i, double got, double want, double tol)
{
    bool same = isfinite(want) ? fabs(got - want) <= tol * fmax(1, fabs(want)) : isnan(want) ? isnan(got) : got == want;

    if (!same) fail_msg("%s [%d] is %.9g, TensorFlow says %.9g", what, (int)i, got, want);
}

static void tensor_near(const char *what, const est_tensor *got, const est_json *want, double tol)
{
    est_tensor *w = json_tensor(want);
    char        a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_tensor_dtype(got) != est_tensor_dtype(w) || !est_shape_equal(est_tensor_shape(got), est_tensor_shape(w))) {
        fail_msg("%s is %s %s, TensorFlow says %s %s", what, est_dtype_name(est_tensor_dtype(got)),
                 est_shape_text(est_tensor_shape(got), a), est_dtype_name(est_tensor_dtype(w)),
                 est_shape_text(est_tensor_shape(w), b));
    }
    for (int64_t i = 0; i < est_tensor_count(w); i++) near(what, i, nn_element(got, i), nn_element(w, i), tol);
    est_tensor_free(w);
}

/* --- operations one by one ---------------------------------------------------------------------------------------- */

#define OP_TOL 3e-6 /* sums of at most 36 products of numbers around 1 */

static est_attr json_attr(const est_signature *sig, const char *op, const char *name, const est_json *v,
                          int64_t ints[8])
{
    int a = 0;

    while (a < sig->n_attr && strcmp(sig->attr[a].name, name) != 0) a++;
    if (a == sig->n_attr) fail_msg("%s has no attribute %s", op, name);
    switch (sig->attr[a].kind) {
    case EST_ATTR_INT: return est_attr_int(name, json_integer_value(v));
    case EST_ATTR_FLOAT: return est_attr_float(name, json_number_value(v));
    case EST_ATTR_BOOL: return est_attr_bool(name, json_is_true(v));
    case EST_ATTR_TYPE: return est_attr_type(name, dtype_of(json_string_value(v)));
    case EST_ATTR_STRING: return est_attr_string(name, json_string_value(v));
    case EST_ATTR_INTS:
        for (size_t i = 0; i < json_array_size(v); i++) ints[i] = json_integer_value(json_array_get(v, i));
        return est_attr_ints(name, (est_i64s){ ints, (int)json_array_size(v) });
    default: fail_msg("%s: attribute %s", op, name); return (est_attr){ 0 };
    }
}

static est_node build_case(est_graph *g, const est_op *op, const est_json *c)
{
    const est_json *inputs = json_object_get(c, "in"), *v;
    est_signature   sig;
    est_node        in[8];
    est_attr        attrs[8];
    int64_t         ints[8][8];
    int             n = 0, n_attr = 0;
    const char     *key;

    assert_ok(est_signature_parse(op, &sig));
    for (size_t i = 0; i < json_array_size(inputs); i++) in[n++] = json_const(g, json_array_get(inputs, i));
    json_object_foreach(json_object_get(c, "attrs"), key, v)
    {
        attrs[n_attr] = json_attr(&sig, op->name, key, v, ints[n_attr]);
        n_attr++;
    }
    return est_build(g, op, (est_nodes){ in, n }, (est_attrs){ attrs, n_attr });
}

static void run_case(const est_json *c, size_t index)
{
    const char     *name = text_at(c, "op");
    const est_op   *op   = est_op_find(name);
    const est_json *want = json_object_get(c, "out");
    nn_test         t    = nn_begin(1);
    double          tol  = OP_TOL;

    if (op == NULL) fail_msg("there is no op %s", name);
    if (json_object_get(c, "tol") != NULL) tol = json_number(json_object_get(c, "tol"));
    est_node node = build_case(t.graph, op, c);
    nn_ready(&t);
    for (size_t o = 0; o < json_array_size(want); o++) {
        est_tensor *got = NULL;
        char        what[96];
        (void)snprintf(what, sizeof what, "%s (case %d) output %d", name, (int)index, (int)o);
        assert_ok(
            est_session_run(t.session, EST_NO_FEEDS, EST_NODES(est_output(node, (int)o)), (est_nodes){ 0 }, &got));
        tensor_near(what, got, json_array_get(want, o), tol);
        est_tensor_free(got);
    }
    nn_end(&t);
}

TEST(operations)
{
    est_json *root  = nn_golden("ops.json");
    est_json *cases = json_object_get(root, "cases");

    for (size_t i = 0; i < json_array_size(cases); i++) run_case(json_array_get(cases, i), i);
    est_json_free(root);
}

/* --- optimizers --------------------------------------------------------------------------------------------------- */

#define TRAIN_TOL 2e-5 /* ten steps, each of which divides by roots of what the last ones left */

static est_optimizer optimizer_of(const char *name)
{
    const struct {
        const char   *name;
        est_optimizer o;
    } all[] = {
        { "sgd", est_sgd(0.1) },
        { "momentum", est_momentum(0.1, NULL) },
        { "nesterov", est_momentum(0.1, EST_MOMENTUM(.nesterov = true)) },
        { "adagrad", est_adagrad(0.1, NULL) },
        { "adam", est_adam(0.05, NULL) },
        { "rms_prop", est_rms_prop(0.01, NULL) },
        { "rms_prop_momentum", est_rms_prop(0.01, EST_RMS_PROP(.momentum = 0.5)) },
        { "rms_prop_centered", est_rms_prop(0.01, EST_RMS_PROP(.momentum = 0.5, .centered = true)) },
        { "ftrl", est_ftrl(0.1, NULL) },
        { "ftrl_l1_l2", est_ftrl(0.1, EST_FTRL(.l1 = 0.05, .l2 = 0.02)) },
        { "ftrl_shrinkage", est_ftrl(0.1, EST_FTRL(.l1 = 0.02, .l2_shrinkage = 0.1)) },
        { "adadelta", est_adadelta(1, EST_ADADELTA(.rho = 0.9, .epsilon = 1e-4)) },
        { "keras_sgd_momentum", est_momentum(0.1, EST_MOMENTUM(.keras = true)) },
        { "keras_sgd_nesterov", est_momentum(0.1, EST_MOMENTUM(.keras = true, .nesterov = true)) },
        { "keras_adagrad", est_adagrad(0.1, EST_ADAGRAD(.keras = true)) },
        { "keras_adam", est_adam(0.05, EST_ADAM(.keras = true)) },
        { "keras_rms_prop", est_rms_prop(0.01, EST_RMS_PROP(.keras = true)) },
        { "keras_rms_prop_centered", est_rms_prop(0.01, EST_RMS_PROP(.keras = true, .centered = true)) },
        { "keras_rms_prop_momentum",
          est_rms_prop(0.01, EST_RMS_PROP(.keras = true, .centered = true, .momentum = 0.5)) },
        { "keras_ftrl", est_ftrl(0.1, EST_FTRL(.keras = true, .l1 = 0.02, .beta = 0.1)) },
        { "keras_adadelta", est_adadelta(1, EST_ADADELTA(.keras = true, .rho = 0.9, .epsilon = 1e-4)) },
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0) return all[i].o;
    }
    fail_msg("no optimizer %s", name);
    return all[0].o;
}

typedef struct model {
    nn_test   t;
    est_node  ids, x, y, loss, train;
    est_step *step;
} model;

static model begin_model(est_json *start, est_optimizer optimizer)
{
    model           m = { .t = nn_begin(1) };
    const char     *key;
    const est_json *v;
    est_node        h;
    est_graph      *g = m.t.graph;

    m.ids = est_placeholder(g, "ids", EST_I64, EST_SHAPE(-1));
    m.x   = est_placeholder(g, "x", EST_F32, EST_SHAPE(-1, 2));
    m.y   = est_placeholder(g, "y", EST_F32, EST_SHAPE(-1, 1));
    h     = est_resource_gather(est_weight(g, "table", EST_SHAPE(6, 3), NULL), m.ids);
    h     = est_matmul(est_concat(EST_NODES(h, m.x), 1), est_read_variable(est_weight(g, "w1", EST_SHAPE(5, 4), NULL)));
    h     = est_tanh(est_add(h, est_read_variable(est_weight(g, "b1", EST_SHAPE(4), NULL))));
    h     = est_matmul(h, est_read_variable(est_weight(g, "w2", EST_SHAPE(4, 1), NULL)));
    h     = est_add(h, est_read_variable(est_weight(g, "b2", EST_SHAPE(1), NULL)));
    m.loss  = est_mean(est_square(est_sub(h, m.y)));
    m.train = est_minimize(optimizer, m.loss, NULL);
    nn_ready(&m.t);
    json_object_foreach(start, key, v)
    {
        est_tensor *w = json_tensor(v);
        assert_ok(est_session_write(m.t.session, key, w));
        est_tensor_free(w);
    }
    assert_ok(
        est_session_prepare(m.t.session, EST_NODES(m.ids, m.x, m.y), EST_NODES(m.loss), EST_NODES(m.train), &m.step));
    return m;
}

static void train_case(const est_json *root, const est_json *c)
{
    const char     *name    = text_at(c, "name"), *key;
    const est_json *batches = json_object_get(root, "batches"), *v;
    model           m       = begin_model(json_object_get(root, "start"), optimizer_of(name));
    char            what[160];

    (void)snprintf(what, sizeof what, "%s: loss", name);
    for (size_t i = 0; i < json_array_size(batches); i++) {
        const est_json *b        = json_array_get(batches, i);
        est_tensor     *feeds[3] = { json_tensor(json_object_get(b, "ids")), json_tensor(json_object_get(b, "x")),
                                     json_tensor(json_object_get(b, "y")) };
        assert_ok(est_step_run(m.step, (const est_tensor *const *)feeds));
        near(what, (int64_t)i, est_step_scalar(m.step, 0), at(c, "losses", i), TRAIN_TOL);
        for (int f = 0; f < 3; f++) est_tensor_free(feeds[f]);
    }
    json_object_foreach(json_object_get(c, "final"), key, v) /* weights, slots, counters: by TensorFlow's names */
    {
        double got[32];
        (void)snprintf(what, sizeof what, "%s: %s", name, key);
        assert_int_equal(nn_read(&m.t, key, got, 32), json_array_size(v));
        for (size_t i = 0; i < json_array_size(v); i++)
            near(what, (int64_t)i, got[i], json_number(json_array_get(v, i)), TRAIN_TOL);
    }
    nn_end(&m.t);
}

TEST(optimizers)
{
    est_json *root  = nn_golden("optimizers.json");
    est_json *cases = json_object_get(root, "cases");

    for (size_t i = 0; i < json_array_size(cases); i++) train_case(root, json_array_get(cases, i));
    est_json_free(root);
}

/* --- losses ------------------------------------------------------------------------------------------------------- */

typedef est_node (*loss_fn)(est_node labels, est_node predictions, const est_loss_options *options);

static loss_fn loss_of(const char *name)
{
    static const struct {
        const char *name;
        loss_fn     fn;
    } all[] = {
        { "softmax_xent", est_loss_softmax_xent },
        { "sparse_softmax_xent", est_loss_sparse_softmax_xent },
        { "sigmoid_xent", est_loss_sigmoid_xent },
        { "mse", est_loss_mse },
        { "mae", est_loss_mae },
        { "huber", est_loss_huber },
        { "hinge", est_loss_hinge },
        { "log", est_loss_log },
        { "cosine", est_loss_cosine },
        { "poisson", est_loss_poisson },
        { "log_poisson", est_loss_log_poisson },
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0) return all[i].fn;
    }
    fail_msg("no loss %s", name);
    return NULL;
}

static est_node loss_weights(est_graph *g, const est_json *weights, size_t i, bool per_row)
{
    est_node w;

    if (i == 0) return EST_NO_NODE; /* the first stands for none */
    w = json_const(g, json_array_get(weights, i));
    return per_row && est_node_shape(w)->rank == 2 ? est_squeeze(w, EST_I64S(1)) : w;
}

static void loss_case(const est_json *root, const est_json *c)
{
    const est_json *weights = json_object_get(root, "weights"), *options = json_object_get(c, "options");
    const est_json *values  = json_object_get(c, "values");
    bool            per_row = json_integer_value(json_object_get(c, "per_row")) != 0;

    for (size_t i = 0; i < json_array_size(values); i++) {
        const est_json *want = json_array_get(values, i);
        nn_test         t    = nn_begin(1);
        double          got[64];
        char            what[96];
        est_node        loss = loss_of(text_at(c, "fn"))(
            json_const(t.graph, json_object_get(c, "labels")), json_const(t.graph, json_object_get(c, "predictions")),
            EST_LOSS(.weights = loss_weights(t.graph, weights, i / 5, per_row), .reduction = (est_reduction)(i % 5 + 1),
                            .label_smoothing = json_number(json_object_get(options, "label_smoothing")),
                            .delta           = json_number(json_object_get(options, "delta")),
                            .full            = json_object_get(options, "full") != NULL));

        nn_ready(&t);
        (void)snprintf(what, sizeof what, "%s weights %d reduction %d", text_at(c, "fn"), (int)i / 5, (int)i % 5);
        assert_int_equal(nn_fetch(&t, loss, got, 64), json_array_size(want));
        for (size_t k = 0; k < json_array_size(want); k++) {
            near(what, (int64_t)k, got[k], json_number(json_array_get(want, k)), 2e-6);
        }
        nn_end(&t);
    }
}

TEST(losses)
{
    est_json *root  = nn_golden("losses.json");
    est_json *cases = json_object_get(root, "cases");

    for (size_t i = 0; i < json_array_size(cases); i++) loss_case(root, json_array_get(cases, i));
    est_json_free(root);
}

/* --- schedules ---------------------------------------------------------------------------------------------------- */

static est_schedule schedule_of(const char *name)
{
    static const int64_t boundaries[] = { 10, 20, 55 };
    static const double  rates[]      = { 0.1, 0.05, 0.01, 0.002 };
    const struct {
        const char  *name;
        est_schedule s;
    } all[] = {
        { "exponential", est_exponential_decay(0.1, 10, 0.9, false) },
        { "exponential_staircase", est_exponential_decay(0.1, 10, 0.9, true) },
        { "natural_exp", est_natural_exp_decay(0.1, 10, 0.5, false) },
        { "natural_exp_staircase", est_natural_exp_decay(0.1, 10, 0.5, true) },
        { "inverse_time", est_inverse_time_decay(0.1, 10, 0.5, false) },
        { "inverse_time_staircase", est_inverse_time_decay(0.1, 10, 0.5, true) },
        { "polynomial", est_polynomial_decay(0.1, 30, 0.001, 2, false) },
        { "polynomial_cycle", est_polynomial_decay(0.1, 30, 0.001, 0.5, true) },
        { "piecewise", est_piecewise_constant((est_i64s){ boundaries, 3 }, (est_f64s){ rates, 4 }) },
        { "cosine", est_cosine_decay(0.1, 30, 0.1) },
        { "cosine_restarts", est_cosine_decay_restarts(0.1, 10, 2, 0.9, 0.05) },
        { "cosine_restarts_equal", est_cosine_decay_restarts(0.1, 10, 1, 0.8, 0) },
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].name, name) == 0) return all[i].s;
    }
    fail_msg("no schedule %s", name);
    return all[0].s;
}

/* Ours are computed in float64, TensorFlow's in float32: rates of 0.1 differ by a few 1e-8, times the slope. */
TEST(schedules)
{
    est_json *root = nn_golden("schedules.json"), *cases = json_object_get(root, "cases"),
             *steps = json_object_get(root, "steps");

    for (size_t i = 0; i < json_array_size(cases); i++) {
        const est_json *c    = json_array_get(cases, i);
        nn_test         t    = nn_begin(1);
        est_node        step = est_placeholder(t.graph, "step", EST_I64, EST_SHAPE_SCALAR);
        est_node        rate = est_learning_rate(schedule_of(text_at(c, "name")), step);
        nn_ready(&t);
        for (size_t k = 0; k < json_array_size(steps); k++) {
            int64_t     at_step = json_integer_value(json_array_get(steps, k));
            est_tensor *in = NULL, *out = NULL;
            assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &at_step, &in));
            assert_ok(est_session_run(t.session, EST_FEEDS({ step, in }), EST_NODES(rate), (est_nodes){ 0 }, &out));
            near(text_at(c, "name"), at_step, nn_element(out, 0), at(c, "values", k), 5e-7);
            est_tensor_free(in);
            est_tensor_free(out);
        }
        nn_end(&t);
    }
    est_json_free(root);
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

typedef struct columns {
    est_node binary, prob, class, guess, real, target, norm, weights;
} columns;

#define COLUMNS 8
static const char *const column_names[COLUMNS] = { "binary", "prob",   "class", "guess",
                                                   "real",   "target", "norm",  "weights" };

static est_metric auc(const columns *f, const est_node *w, est_curve curve, est_summation summation)
{
    return est_metric_auc(f->binary, f->prob,
                          EST_METRIC(.weights = *w, .num_thresholds = 20, .curve = curve, .summation = summation));
}

static est_metric metric_of(const char *name, const columns *f, est_node w)
{
    const est_metric_options *o = EST_METRIC(.weights = w), *old = EST_METRIC(.weights = w, .v1 = true);

    if (strcmp(name, "mean") == 0) return est_metric_mean(f->real, o);
    if (strcmp(name, "accuracy") == 0) return est_metric_accuracy(f->class, f->guess, o);
    if (strcmp(name, "precision") == 0) return est_metric_precision(f->binary, f->prob, o);
    if (strcmp(name, "recall") == 0) return est_metric_recall(f->binary, f->prob, o);
    if (strcmp(name, "mean_absolute_error") == 0) return est_metric_mean_absolute_error(f->target, f->real, o);
    if (strcmp(name, "mean_squared_error") == 0) return est_metric_mean_squared_error(f->target, f->real, o);
    if (strcmp(name, "root_mean_squared_error") == 0) return est_metric_root_mean_squared_error(f->target, f->real, o);
    if (strcmp(name, "mean_relative_error") == 0) return est_metric_mean_relative_error(f->target, f->real, f->norm, o);
    if (strcmp(name, "mean_per_class_accuracy") == 0)
        return est_metric_mean_per_class_accuracy(f->class, f->guess, 4, o);
    if (strcmp(name, "mean_iou") == 0) return est_metric_mean_iou(f->class, f->guess, 4, o);
    if (strcmp(name, "precision_at_threshold") == 0)
        return est_metric_precision_at_threshold(f->binary, f->prob, 0.4, old);
    if (strcmp(name, "recall_at_threshold") == 0) return est_metric_recall_at_threshold(f->binary, f->prob, 0.4, old);
    if (strcmp(name, "auc_roc_trapezoid") == 0) return auc(f, &w, EST_ROC, EST_SUM_TRAPEZOID);
    if (strcmp(name, "auc_roc_minoring") == 0) return auc(f, &w, EST_ROC, EST_SUM_MINORING);
    if (strcmp(name, "auc_roc_majoring") == 0) return auc(f, &w, EST_ROC, EST_SUM_MAJORING);
    if (strcmp(name, "auc_roc_interpolation") == 0) return auc(f, &w, EST_ROC, EST_SUM_INTERPOLATION);
    if (strcmp(name, "auc_pr_trapezoid") == 0) return auc(f, &w, EST_PR, EST_SUM_TRAPEZOID);
    if (strcmp(name, "auc_pr_minoring") == 0) return auc(f, &w, EST_PR, EST_SUM_MINORING);
    if (strcmp(name, "auc_pr_majoring") == 0) return auc(f, &w, EST_PR, EST_SUM_MAJORING);
    if (strcmp(name, "auc_pr_careful") == 0) return auc(f, &w, EST_PR, EST_SUM_CAREFUL_INTERPOLATION);
    if (strcmp(name, "auc_pr_interpolation") == 0) return auc(f, &w, EST_PR, EST_SUM_INTERPOLATION);
    fail_msg("no metric %s", name);
    return (est_metric){ 0 };
}

static void metric_case(const est_json *root, const est_json *c)
{
    const est_json *batches  = json_object_get(root, "batches");
    bool            weighted = json_integer_value(json_object_get(c, "weighted")) != 0;
    nn_test         t        = nn_begin(1);
    est_node        in[COLUMNS];

    for (int i = 0; i < COLUMNS; i++) {
        est_dtype dtype = i == 2 || i == 3 ? EST_I64 : EST_F32;
        in[i]           = est_placeholder(t.graph, column_names[i], dtype, EST_SHAPE(-1));
    }
    columns    f = { in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7] };
    est_metric m = metric_of(text_at(c, "name"), &f, weighted ? f.weights : EST_NO_NODE);
    nn_ready(&t);
    for (size_t b = 0; b < json_array_size(batches); b++) {
        est_feed feeds[COLUMNS];
        for (int i = 0; i < COLUMNS; i++) {
            feeds[i] = (est_feed){ in[i], json_tensor(json_object_get(json_array_get(batches, b), column_names[i])) };
        }
        assert_ok(
            est_session_run(t.session, (est_feeds){ feeds, COLUMNS }, (est_nodes){ 0 }, EST_NODES(m.update), NULL));
        near(text_at(c, "name"), (int64_t)b, nn_scalar(&t, m.value), at(c, "values", b), 2e-6);
        for (int i = 0; i < COLUMNS; i++) est_tensor_free((est_tensor *)(uintptr_t)feeds[i].value);
    }
    nn_end(&t);
}

TEST(metrics)
{
    est_json *root  = nn_golden("metrics.json");
    est_json *cases = json_object_get(root, "cases");

    for (size_t i = 0; i < json_array_size(cases); i++) metric_case(root, json_array_get(cases, i));
    est_json_free(root);
}

/* --- batch normalisation ------------------------------------------------------------------------------------------ */

static void put(nn_test *t, const char *name, const est_json *value)
{
    est_tensor *w = json_tensor(value);

    assert_ok(est_session_write(t->session, name, w));
    est_tensor_free(w);
}

static void norm_case(const est_json *c)
{
    const est_json          *xs    = json_object_get(c, "x");
    est_tensor              *in    = json_tensor(json_array_get(xs, 0)), *out[2], *averages[2];
    est_shape                shape = *est_tensor_shape(in);
    est_node                 x, y;
    est_gradient             dx;
    nn_test                  t         = nn_begin(1);
    static const char *const moving[2] = { "moving_mean", "moving_variance" };

    shape.dim[0] = -1;
    x            = est_placeholder(t.graph, "x", EST_F32, shape);
    y            = est_batch_norm(x, true, EST_BATCH_NORM(.momentum = 0.8, .epsilon = 0.01));
    est_gradients(est_sum(est_mul(est_mul(y, y), y)), (est_nodes){ &x, 1 }, &dx);
    nn_ready(&t);
    put(&t, "batch_normalization/gamma", json_object_get(c, "gamma"));
    put(&t, "batch_normalization/beta", json_object_get(c, "beta"));
    for (size_t i = 0; i < json_array_size(xs); i++) {
        est_tensor *xi = json_tensor(json_array_get(xs, i));
        assert_ok(
            est_session_run(t.session, EST_FEEDS({ x, xi }), EST_NODES(y, dx.values), est_update_ops(t.graph), out));
        tensor_near("batch norm", out[0], json_array_get(json_object_get(c, "y"), i), 4e-6);
        tensor_near("batch norm dx", out[1], json_array_get(json_object_get(c, "dx"), i), 5e-5); /* cancels */
        for (int k = 0; k < 2; k++) est_tensor_free(out[k]);
        est_tensor_free(xi);
    }
    for (int k = 0; k < 2; k++) {
        char name[64];
        (void)snprintf(name, sizeof name, "batch_normalization/%s", moving[k]);
        assert_ok(est_session_read(t.session, name, &averages[k]));
        for (size_t i = 0; i < 3; i++)
            near(name, (int64_t)i, nn_element(averages[k], (int64_t)i), at(c, moving[k], i), 2e-6);
    }
    nn_end(&t);

    t = nn_begin(1);
    x = est_placeholder(t.graph, "x", EST_F32, shape);
    y = est_batch_norm(x, false, EST_BATCH_NORM(.momentum = 0.8, .epsilon = 0.01));
    nn_ready(&t);
    put(&t, "batch_normalization/gamma", json_object_get(c, "gamma"));
    put(&t, "batch_normalization/beta", json_object_get(c, "beta"));
    assert_ok(est_session_write(t.session, "batch_normalization/moving_mean", averages[0]));
    assert_ok(est_session_write(t.session, "batch_normalization/moving_variance", averages[1]));
    assert_ok(est_session_run(t.session, EST_FEEDS({ x, in }), EST_NODES(y), (est_nodes){ 0 }, out));
    tensor_near("batch norm inference", out[0], json_object_get(c, "inference"), 4e-6);
    est_tensor_free(out[0]);
    for (int k = 0; k < 2; k++) est_tensor_free(averages[k]);
    est_tensor_free(in);
    nn_end(&t);
}

TEST(batch_norm)
{
    est_json *root  = nn_golden("batch_norm.json");
    est_json *cases = json_object_get(root, "cases");

    for (size_t i = 0; i < json_array_size(cases); i++) norm_case(json_array_get(cases, i));
    est_json_free(root);
}

/* --- random streams ----------------------------------------------------------------------------------------------- */

/* The streams are TensorFlow's. Our graph operations use them differently on purpose: TensorFlow's count what they have
 * drawn, ours count runs, so that a run can be repeated from its number alone. */
static void random_case(const est_json *c)
{
    const est_json *values = json_object_get(c, "values");
    const char     *kind   = text_at(c, "kind");
    int64_t         n      = (int64_t)json_array_size(values);
    est_random      r      = { (uint64_t)json_integer_value(json_object_get(c, "seed")),
                               (uint64_t)json_integer_value(json_object_get(c, "seed2")), 0 };
    bool            f32 = strstr(kind, "f32") != NULL, whole = strncmp(kind, "int", 3) == 0;
    float           f[64];
    double          d[64];
    int32_t         i32[64];
    int64_t         i64[64];

    assert_true(n <= 64);
    if (strcmp(kind, "uniform_f32") == 0) est_random_fill_uniform_f32(&r, 0, n, f);
    if (strcmp(kind, "uniform_f64") == 0) est_random_fill_uniform_f64(&r, 0, n, d);
    if (strcmp(kind, "normal_f32") == 0) est_random_fill_normal_f32(&r, 0, n, f);
    if (strcmp(kind, "normal_f64") == 0) est_random_fill_normal_f64(&r, 0, n, d);
    if (strcmp(kind, "truncated_f32") == 0) est_random_fill_truncated_f32(&r, 0, n, f);
    if (strcmp(kind, "truncated_f64") == 0) est_random_fill_truncated_f64(&r, 0, n, d);
    if (strcmp(kind, "int_i32") == 0) est_random_fill_int_i32(&r, 0, n, -5, 1000, i32);
    if (strcmp(kind, "int_i64") == 0) est_random_fill_int_i64(&r, 0, n, -5, 1000000000000, i64);
    for (int64_t i = 0; i < n; i++) {
        const est_json *want  = json_array_get(values, (size_t)i);
        bool            exact = whole || strncmp(kind, "uniform", 7) == 0;
        double          got   = whole ? (kind[5] == '3' ? i32[i] : (double)i64[i]) : f32 ? (double)f[i] : d[i];
        near(kind, i, got, f32 ? (double)(float)json_number(want) : json_number(want), exact ? 0 : f32 ? 1e-6 : 1e-14);
    }
}

TEST(random_streams)
{
    est_json *root  = nn_golden("random.json");
    est_json *cases = json_object_get(root, "cases");

    for (size_t i = 0; i < json_array_size(cases); i++) random_case(json_array_get(cases, i));
    est_json_free(root);
}
