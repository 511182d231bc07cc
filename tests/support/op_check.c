/* SPDX-License-Identifier: Apache-2.0
 *
 * The op harness, see op_check.h: makes the values of each case, runs it through a session with known and unknown
 * shapes and with one and three threads, and compares. Kernels run by hand and gradients are in the files beside. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "support/far_device.h"
#include "support/op_run.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#define SHOWN_MAX 5 /* wrong elements printed for one output */

double case_uniform(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 1) * 0xBF58476D1CE4E5B9u ^ (c + 1) * 0x94D049BB133111EBu;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-53;
}

bool case_check(est_case_run *run, bool ok, const char *fmt, ...)
{
    va_list args;

    run->n_checks++;
    if (ok) return true;
    run->n_failures++;
    printf("FAIL %s: ", run->label);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
    return false;
}

void case_out_clear(est_case_out *out)
{
    for (int i = 0; i < out->n; i++) est_tensor_free(out->tensor[i]);
    *out = (est_case_out){ 0 };
}

double case_element(const void *data, est_dtype dtype, int64_t i)
{
    switch (dtype) {
    case EST_F32: return ((const float *)data)[i];
    case EST_F64: return ((const double *)data)[i];
    case EST_I32: return ((const int32_t *)data)[i];
    case EST_I64: return (double)((const int64_t *)data)[i];
    case EST_U8:
    case EST_BOOL: return ((const uint8_t *)data)[i];
    default: return NAN;
    }
}

void case_set_element(void *data, est_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case EST_F32: ((float *)data)[i] = (float)value; break;
    case EST_F64: ((double *)data)[i] = value; break;
    case EST_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    case EST_I64: ((int64_t *)data)[i] = (int64_t)value; break;
    case EST_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    case EST_BOOL: ((uint8_t *)data)[i] = value != 0; break;
    default: break;
    }
}

static bool is_float(est_dtype dtype)
{
    return dtype == EST_F32 || dtype == EST_F64;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

/* How many inputs the signature has; -1 when one is a list. */
static int signature_inputs(const est_op *op)
{
    const char *end = strstr(op->signature, "->");
    int         n   = 1;

    if (end == NULL || memchr(op->signature, ':', (size_t)(end - op->signature)) == NULL) return 0;
    for (const char *p = op->signature; p < end; p++) {
        if (*p == '*') return -1;
        n += *p == ',';
    }
    return n;
}

static double random_value(const est_case_run *run, const est_case_in *in, est_dtype dtype, int input, int64_t i)
{
    double lo = in->lo, hi = in->hi, u = case_uniform((uint64_t)run->index, (uint64_t)input, (uint64_t)i);

    if (lo == 0 && hi == 0) {
        lo = run->test->lo;
        hi = run->test->hi;
    }
    if (lo == 0 && hi == 0) {
        lo = is_float(dtype) ? -1 : 0;
        hi = 1;
    }
    if (dtype == EST_BOOL) return u < 0.5;
    if (!is_float(dtype)) return fmin(lo + floor(u * (hi - lo + 1)), hi);
    return lo + u * (hi - lo);
}

static est_status make_input(est_case_run *run, int k)
{
    const est_case_in *in    = &run->test->in[k];
    est_dtype          dtype = in->dtype != EST_DTYPE_NONE ? in->dtype : run->dtype;
    int64_t            count = est_shape_count(&in->shape);

    EST_TRY(est_tensor_create(dtype, in->shape, &run->in[k]));
    for (int64_t i = 0; i < count; i++) {
        if (dtype == EST_STRING) {
            const char *text = in->strings != NULL ? in->strings[i] : "";
            EST_TRY(est_tensor_set_string(run->in[k], i, text, strlen(text)));
        } else {
            double value = in->values != NULL ? in->values[i] : random_value(run, in, dtype, k, i);
            case_set_element(est_tensor_mutable_data(run->in[k]), dtype, i, value);
        }
    }
    return EST_OK;
}

/* Attributes of the case; type attributes that say float32 follow the run's dtype. */
static est_attrs case_attrs(const est_case_run *run, est_attr copy[16])
{
    est_attrs attrs = run->test->attrs;

    if (run->dtype != EST_F64 || run->test->dtype == EST_F64 || attrs.n > 16) return attrs;
    for (int i = 0; i < attrs.n; i++) {
        copy[i] = attrs.data[i];
        if (copy[i].kind == EST_ATTR_TYPE && copy[i].type == EST_F32) copy[i].type = EST_F64;
    }
    return (est_attrs){ copy, attrs.n };
}

est_node case_build(const est_case_run *run, est_graph *graph, case_shapes shapes, est_node in[EST_CASE_IN_MAX])
{
    est_attr copy[16];

    for (int k = 0; k < run->n_in; k++) {
        const est_case_in *spec  = &run->test->in[k];
        est_shape          shape = spec->shape;
        est_dtype          dtype = est_tensor_dtype(run->in[k]);
        char               name[16];

        for (int i = 0; i < shape.rank && shapes == CASE_UNKNOWN_DIMS; i++) shape.dim[i] = -1;
        if (shapes == CASE_UNKNOWN_RANK) shape = EST_SHAPE_UNKNOWN;
        snprintf(name, sizeof name, "in%d", k);
        if (spec->variable) {
            in[k] = est_variable(graph, name, dtype, spec->shape);
        } else if (spec->constant) {
            in[k] = est_const(graph, run->in[k]);
        } else {
            in[k] = est_placeholder(graph, name, dtype, shape);
        }
    }
    return est_build(graph, run->op, (est_nodes){ in, run->n_in }, case_attrs(run, copy));
}

est_status case_write_variables(const est_case_run *run, est_session *session)
{
    for (int k = 0; k < run->n_in; k++) {
        char name[16];

        if (!run->test->in[k].variable) continue;
        snprintf(name, sizeof name, "in%d", k);
        EST_TRY(est_session_write(session, name, run->in[k]));
    }
    return EST_OK;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

est_status case_run_nodes(const est_case_run *run, est_session *session, est_nodes outputs, est_node target,
                          const est_node *in, est_case_out *out)
{
    est_feed    feeds[EST_CASE_IN_MAX];
    est_node    fetches[EST_CASE_OUT_MAX];
    est_tensor *got[EST_CASE_OUT_MAX];
    int         n_feeds = 0, n_fetches = 0;

    for (int k = 0; k < run->n_in; k++) {
        if (run->test->in[k].variable || run->test->in[k].constant) continue;
        feeds[n_feeds++] = (est_feed){ in[k], run->in[k] };
    }
    for (int i = 0; i < outputs.n; i++) {
        if (est_node_dtype(outputs.data[i]) != EST_RESOURCE) fetches[n_fetches++] = outputs.data[i];
    }
    EST_TRY(case_write_variables(run, session));
    EST_TRY(est_session_run(session, (est_feeds){ feeds, n_feeds }, (est_nodes){ fetches, n_fetches },
                            n_fetches == 0 ? EST_NODES(target) : (est_nodes){ 0 }, got));
    *out = (est_case_out){ 0 };
    for (int i = 0, f = 0; i < outputs.n; i++) {
        out->tensor[out->n++] = est_node_dtype(outputs.data[i]) != EST_RESOURCE ? got[f++] : NULL;
    }
    for (int k = 0; k < run->n_in && run->op->writes != 0; k++) {
        char name[16];

        if (!run->test->in[k].variable || out->n == EST_CASE_OUT_MAX) continue;
        snprintf(name, sizeof name, "in%d", k);
        EST_TRY(est_session_read(session, name, &out->tensor[out->n]));
        out->n++;
    }
    return EST_OK;
}

/* The same of all outputs of the case's op. */
static est_status run_once(const est_case_run *run, est_session *session, est_node node, const est_node *in,
                           est_case_out *out)
{
    est_node outputs[EST_CASE_OUT_MAX];
    int      n = est_def(node)->n_out;

    if (n > EST_CASE_OUT_MAX) return est_fail(EST_OUT_OF_RANGE, "the harness takes %d outputs", EST_CASE_OUT_MAX);
    for (int i = 0; i < n; i++) outputs[i] = est_output(node, i);
    return case_run_nodes(run, session, (est_nodes){ outputs, n }, node, in, out);
}

void case_check_same_bits(est_case_run *run, const est_case_out *a, const est_case_out *b, const char *how)
{
    for (int i = 0; i < a->n; i++) {
        const est_tensor *x = a->tensor[i], *y = b->tensor[i];
        char              xs[EST_SHAPE_TEXT_MAX], ys[EST_SHAPE_TEXT_MAX];

        if (x == NULL || est_tensor_dtype(x) == EST_STRING) continue;
        if (!case_check(run, est_shape_equal(est_tensor_shape(x), est_tensor_shape(y)), "output %d has shape %s, %s %s",
                        i, est_shape_text(est_tensor_shape(x), xs), how, est_shape_text(est_tensor_shape(y), ys))) {
            continue;
        }
        size_t  size = est_dtype_size(est_tensor_dtype(x));
        int64_t n = est_tensor_count(x), e = 0;
        while (e < n && memcmp((const char *)est_tensor_data(x) + (size_t)e * size,
                               (const char *)est_tensor_data(y) + (size_t)e * size, size) == 0) {
            e++;
        }
        case_check(run, e == n, "output %d element %" PRId64 " of %" PRId64 " is %.17g, %s %.17g", i, e, n,
                   e < n ? case_element(est_tensor_data(x), est_tensor_dtype(x), e) : 0, how,
                   e < n ? case_element(est_tensor_data(y), est_tensor_dtype(y), e) : 0);
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static double tolerance(const est_case_run *run, est_dtype dtype)
{
    double looser = case_device() != NULL ? 4 : 1; /* sums in another order, other functions of math.h */

    if (!is_float(dtype)) return 0;
    return looser * (dtype == EST_F32 ? run->test->tol : fmax(run->test->tol * 1e-6, 1e-12));
}

static void compare_output(est_case_run *run, int output, const est_tensor *got, const double *expected,
                           const char *how)
{
    double      tol = tolerance(run, est_tensor_dtype(got)), worst = 0;
    int64_t     n = est_tensor_count(got), wrong = 0;
    char        text[EST_SHAPE_TEXT_MAX];
    const char *shape = est_shape_text(est_tensor_shape(got), text);

    for (int64_t i = 0; i < n; i++) {
        double g = case_element(est_tensor_data(got), est_tensor_dtype(got), i), e = expected[i];
        double error = fabs(g - e) / fmax(1, fabs(e));

        if (g == e || (isnan(g) && isnan(e)) || error <= tol) continue;
        if (wrong++ < SHOWN_MAX) {
            printf("  %s %s: output %d%s element %" PRId64 ": expected %.9g, got %.9g (error %.3g, allowed %.3g)\n",
                   run->label, how, output, shape, i, e, g, error, tol);
        }
        worst = isnan(error) ? INFINITY : fmax(worst, error);
    }
    case_check(run, wrong == 0, "%s: output %d: %" PRId64 " of %" PRId64 " elements differ, worst by %.3g", how, output,
               wrong, n, worst);
}

/* The contents of a tensor as doubles; NULL for strings and nothing. */
static double *as_doubles(const est_tensor *tensor)
{
    if (tensor == NULL || est_tensor_dtype(tensor) == EST_STRING) return NULL;
    int64_t n      = est_tensor_count(tensor);
    double *values = malloc((size_t)(n > 0 ? n : 1) * sizeof *values);
    for (int64_t i = 0; i < n && values != NULL; i++) {
        values[i] = case_element(est_tensor_data(tensor), est_tensor_dtype(tensor), i);
    }
    return values;
}

void case_check_close(est_case_run *run, const est_case_out *expected, const est_case_out *got, const char *how)
{
    for (int i = 0; i < expected->n; i++) {
        double *values = as_doubles(expected->tensor[i]);
        char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

        if (values == NULL) continue;
        const est_shape *x = est_tensor_shape(expected->tensor[i]), *y = est_tensor_shape(got->tensor[i]);
        if (case_check(run, est_shape_equal(x, y), "%s: output %d has shape %s, not %s", how, i, est_shape_text(y, a),
                       est_shape_text(x, b))) {
            compare_output(run, i, got->tensor[i], values, how);
        }
        free(values);
    }
}

static est_view tensor_view(const est_tensor *tensor)
{
    if (tensor == NULL) return (est_view){ 0 };
    return (est_view){ .data  = est_tensor_view_data(tensor),
                       .dtype = est_tensor_dtype(tensor),
                       .shape = *est_tensor_shape(tensor),
                       .count = est_tensor_count(tensor) };
}

void case_check_values(est_case_run *run, const est_node_def *node, const est_case_out *got, const char *how)
{
    est_ref   ref = { .test = run->test, .node = node, .n_in = run->n_in, .n_out = got->n };
    est_view  in[EST_CASE_IN_MAX], out[EST_CASE_OUT_MAX];
    est_view *in_view[EST_CASE_IN_MAX];

    if (run->test->ref == NULL && run->test->also == NULL) return;
    for (int k = 0; k < run->n_in; k++) {
        ref.in[k]       = as_doubles(run->in[k]);
        ref.in_shape[k] = run->test->in[k].shape;
        in[k]           = tensor_view(run->in[k]);
        in_view[k]      = &in[k];
    }
    for (int i = 0; i < got->n; i++) {
        ref.out[i] = as_doubles(got->tensor[i]);
        out[i]     = tensor_view(got->tensor[i]);
        if (got->tensor[i] != NULL) ref.out_shape[i] = *est_tensor_shape(got->tensor[i]);
    }
    if (run->test->also != NULL) {
        case_check(run, run->test->also(&ref, in_view, out) == 0, "%s: the case's own check failed", how);
    }
    if (run->test->ref != NULL) {
        for (int i = 0; i < got->n; i++) { /* an element the reference leaves out must not pass by chance */
            int64_t n = ref.out[i] != NULL ? est_tensor_count(got->tensor[i]) : 0;
            for (int64_t e = 0; e < n; e++) ref.out[i][e] = -98765.4321;
        }
        run->test->ref(&ref);
        for (int i = 0; i < got->n; i++) {
            if (ref.out[i] != NULL) compare_output(run, i, got->tensor[i], ref.out[i], how);
        }
    }
    for (int k = 0; k < run->n_in; k++) free((double *)(uintptr_t)ref.in[k]);
    for (int i = 0; i < got->n; i++) free(ref.out[i]);
}

/* What infer said when the node was built must fit what came out. */
static void check_shapes(est_case_run *run, const est_node_def *node, const est_case_out *got, case_shapes shapes)
{
    static const char *const how[] = { "known shapes", "unknown dimensions", "unknown ranks" };

    for (int i = 0; i < node->n_out; i++) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

        if (got->tensor[i] == NULL) continue;
        case_check(run, est_shape_compatible(&node->shape[i], est_tensor_shape(got->tensor[i])),
                   "%s: output %d was to have shape %s and has %s", how[shapes], i, est_shape_text(&node->shape[i], a),
                   est_shape_text(est_tensor_shape(got->tensor[i]), b));
    }
}

/* --- a case ------------------------------------------------------------------------------------------------------- */

typedef struct case_graph {
    est_graph *graph;
    est_node   node;
    est_node   in[EST_CASE_IN_MAX];
} case_graph;

static est_status graph_of_case(const est_case_run *run, case_shapes shapes, case_graph *g)
{
    EST_TRY(est_graph_create(42, &g->graph));
    g->node = case_build(run, g->graph, shapes, g->in);
    return est_graph_status(g->graph);
}

/* A new session with that many threads, and one or two runs in it. */
static est_status run_in_session(const est_case_run *run, const case_graph *g, int threads, est_case_out *first,
                                 est_case_out *second)
{
    est_session *session = NULL;
    est_status   status;

    EST_TRY(est_session_create(g->graph, EST_SESSION(.threads = threads, .seed = 7, .no_passes = true), &session));
    status = run_once(run, session, g->node, g->in, first);
    if (status == EST_OK && second != NULL) {
        est_session_set_run_count(session, 0); /* random ops draw the same again */
        status = run_once(run, session, g->node, g->in, second);
    }
    est_session_free(session);
    return status;
}

static void check_known(est_case_run *run, est_case_out *expected)
{
    case_graph   g   = { 0 };
    est_case_out one = { 0 }, again = { 0 }, three = { 0 };
    est_status   status = graph_of_case(run, CASE_KNOWN_SHAPES, &g);

    if (case_check(run, status == EST_OK, "does not build: %s", est_error_message())) {
        status = run_in_session(run, &g, 1, &one, NULL);
        if (case_check(run, status == EST_OK, "does not run: %s", est_error_message())) {
            check_shapes(run, est_def(g.node), &one, CASE_KNOWN_SHAPES);
            case_check_values(run, est_def(g.node), &one, "session");
            status = run_in_session(run, &g, 3, &three, &again);
            if (case_check(run, status == EST_OK, "does not run with 3 threads: %s", est_error_message())) {
                case_check_same_bits(run, &one, &three, "with 3 threads");
                case_check_same_bits(run, &three, &again, "in a second run");
            }
            case_check_kernels(run, est_def(g.node), g.in, &one);
            *expected = one;
            one       = (est_case_out){ 0 };
        }
    }
    case_out_clear(&one);
    case_out_clear(&again);
    case_out_clear(&three);
    est_graph_free(g.graph);
}

static void check_unknown(est_case_run *run, case_shapes shapes, const est_case_out *expected)
{
    case_graph   g      = { 0 };
    est_case_out out    = { 0 };
    const char  *what   = shapes == CASE_UNKNOWN_DIMS ? "unknown dimensions" : "unknown ranks";
    est_status   status = graph_of_case(run, shapes, &g);

    if (case_check(run, status == EST_OK, "does not build with %s: %s", what, est_error_message())) {
        status = run_in_session(run, &g, 1, &out, NULL);
        if (case_check(run, status == EST_OK, "does not run with %s: %s", what, est_error_message())) {
            check_shapes(run, est_def(g.node), &out, shapes);
            case_check_same_bits(run, expected, &out, what);
        }
    }
    case_out_clear(&out);
    est_graph_free(g.graph);
}

/* A case that has to fail: when built or when run, with the status and the words it names. */
static void check_fails(est_case_run *run, case_shapes shapes)
{
    case_graph   g      = { 0 };
    est_case_out out    = { 0 };
    est_status   status = graph_of_case(run, shapes, &g);
    const char  *says   = run->test->says != NULL ? run->test->says : "";

    if (status == EST_OK) status = run_in_session(run, &g, 1, &out, NULL);
    if (case_check(run, status == run->test->fails, "ends with %s, not %s: %s", est_status_name(status),
                   est_status_name(run->test->fails), status != EST_OK ? est_error_message() : "") &&
        status != EST_OK) {
        case_check(run, strstr(est_error_message(), says) != NULL, "the error does not say \"%s\": %s", says,
                   est_error_message());
    }
    case_out_clear(&out);
    est_graph_free(g.graph);
}

/* Whether the case is small enough for kernels that one thread runs (tests/support/cuda_on_cpu), or for a tool that
 * makes a GPU slow: ESTOC_TEST_LARGEST is how many elements the inputs may have. */
static bool device_is_fast_enough(const est_case_run *run)
{
    const char *largest = getenv("ESTOC_TEST_LARGEST");
    int64_t     count = 0, most = largest != NULL ? strtoll(largest, NULL, 10) : INT64_MAX;

    if (strstr(case_device()->description, "CUDA on the CPU") != NULL) most = 20000;
    for (int k = 0; k < run->n_in; k++) count += est_tensor_count(run->in[k]);
    return count <= most;
}

/* The kernels of a device, against the same reference. */
static void check_on_device(est_case_run *run)
{
    case_graph   g        = { 0 };
    est_case_out expected = { 0 };
    est_status   status   = graph_of_case(run, CASE_KNOWN_SHAPES, &g);

    if (status == EST_OK && run->test->fails != EST_OK) {
        case_check_kernels_fail(run, est_def(g.node), g.in);
    } else if (status == EST_OK) {
        status = run_in_session(run, &g, 1, &expected, NULL);
        if (case_check(run, status == EST_OK, "does not run: %s", est_error_message())) {
            case_check_kernels(run, est_def(g.node), g.in, &expected);
        }
    }
    case_out_clear(&expected);
    est_graph_free(g.graph);
}

/* Whether files can hold the op: it is one of TensorFlow's, or becomes such. */
static bool is_exported(const est_op *op)
{
    return !op->planned && (op->lower != NULL || strncmp(op->name, "Est", 3) != 0);
}

static void run_in_dtype(est_case_run *run)
{
    est_case_out expected = { 0 };
    est_status   status   = EST_OK;

    snprintf(run->label, sizeof run->label, "%s case %d (%s)", run->op->name, run->index, est_dtype_name(run->dtype));
    for (int k = 0; k < run->n_in && status == EST_OK; k++) status = make_input(run, k);
    if (!case_check(run, status == EST_OK, "inputs: %s", est_error_message())) goto free_inputs;

    if (case_device() != NULL) {
        if (device_is_fast_enough(run)) check_on_device(run);
    } else if (run->test->fails != EST_OK) {
        check_fails(run, CASE_KNOWN_SHAPES);
        check_fails(run, CASE_UNKNOWN_DIMS);
    } else {
        int before = run->n_failures;
        check_known(run, &expected);
        if (run->n_failures == before) {
            check_unknown(run, CASE_UNKNOWN_DIMS, &expected);
            check_unknown(run, CASE_UNKNOWN_RANK, &expected);
            for (int shapes = 0; shapes < CASE_SHAPES_N && run->op->lower != NULL; shapes++) {
                case_check_lowered(run, (case_shapes)shapes, &expected);
            }
            if (is_exported(run->op)) case_check_exported(run, &expected);
        }
        if (run->dtype == EST_F64 && run->n_failures == before) case_check_gradient(run);
    }
    case_out_clear(&expected);
free_inputs:
    for (int k = 0; k < run->n_in; k++) {
        est_tensor_free(run->in[k]);
        run->in[k] = NULL;
    }
}

/* Whether a float32 case can be run in float64 too: the op takes it, and something in the case would change. */
static bool has_float64(const est_case_run *run)
{
    bool changes = false;

    for (int k = 0; k < run->n_in; k++) changes |= run->test->in[k].dtype == EST_DTYPE_NONE;
    for (int i = 0; i < run->test->attrs.n; i++) {
        const est_attr *a = &run->test->attrs.data[i];
        changes |= a->kind == EST_ATTR_TYPE && a->type == EST_F32;
    }
    return changes && (strstr(run->op->signature, "float64") != NULL || strstr(run->op->signature, ": type") != NULL);
}

static void run_case(const est_op_case *test, int index, int *n_checks, int *n_failures)
{
    est_case_run run = { .test = test, .index = index, .op = est_op_find(test->op) };

    run.dtype = test->dtype != EST_DTYPE_NONE ? test->dtype : EST_F32;
    snprintf(run.label, sizeof run.label, "%s case %d", test->op, index);
    if (case_check(&run, run.op != NULL, "there is no such op in ops.def")) {
        run.n_in = test->n_in > 0 ? test->n_in : signature_inputs(run.op);
        if (case_check(&run, run.n_in >= 0 && run.n_in <= EST_CASE_IN_MAX,
                       "a case of an op with a list says how many inputs it has (n_in, at most %d)", EST_CASE_IN_MAX)) {
            run_in_dtype(&run);
            if (run.dtype == EST_F32 && run.n_failures == 0 && has_float64(&run)) {
                run.dtype = EST_F64;
                run_in_dtype(&run);
            }
        }
    }
    *n_checks += run.n_checks;
    *n_failures += run.n_failures;
}

int est_op_check(const est_op_case *cases, int n, int argc, char **argv)
{
    const char *only  = argc > 1 ? argv[1] : "";
    int         n_run = 0, n_checks = 0, n_failures = 0, n_failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    est_far_device_use();
    for (int i = 0; i < n; i++) {
        int before = n_failures;

        if (strstr(cases[i].op, only) == NULL) continue;
        run_case(&cases[i], i, &n_checks, &n_failures);
        n_run++;
        n_failed += n_failures != before;
    }
    printf("%d cases, %d checks: %d cases with %d failed checks\n", n_run, n_checks, n_failed, n_failures);
    return n_failures == 0 && (n_run > 0 || argc > 1) ? 0 : 1;
}
