/* SPDX-License-Identifier: Apache-2.0
 *
 * The op harness: gradients. The scalar is L = sum over outputs of sum(output * w) with fixed random w; what
 * est_gradients makes of it is compared with (L(x + h) - L(x - h)) / 2h in float64: element by element when the input
 * is small, else for some elements and along some random directions. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/op_run.h"
#include "tensor/shape.h"

#define STEP         1e-5
#define ELEMENTS_MAX 200 /* inputs up to this size are checked whole */
#define SAMPLES      12
#define DIRECTIONS   3

typedef struct grad_run {
    est_case_run *run;
    est_graph    *graph;
    est_session  *session;
    est_node      in[EST_CASE_IN_MAX];
    est_node      loss;
    est_tensor   *x[EST_CASE_IN_MAX]; /* the inputs, to be moved about */
    est_feed      feeds[EST_CASE_IN_MAX];
    int           n_feeds;
} grad_run;

static bool takes_part(const est_case_run *run, const est_node_def *node, int output)
{
    return node->dtype[output] == EST_F64 && (run->test->grad_outs == 0 || (run->test->grad_outs >> output & 1u) != 0);
}

/* sum(output i * w); w has the shape the output came out with. */
static est_node weighted_sum(grad_run *g, est_node output, const est_shape *shape, int i)
{
    est_tensor *w = NULL;
    est_node    node;

    if (est_tensor_create(EST_F64, *shape, &w) != EST_OK) return est_graph_poison(g->graph, EST_RESOURCE_EXHAUSTED);
    for (int64_t e = 0; e < est_tensor_count(w); e++) {
        ((double *)est_tensor_mutable_data(w))[e] = 0.25 + case_uniform(99, (uint64_t)i, (uint64_t)e);
    }
    node = est_sum(est_mul(output, est_const(g->graph, w)));
    est_tensor_free(w);
    return node;
}

/* Runs once with the inputs as they are to see the shapes of outputs that only a kernel can tell. */
static est_status output_shapes(grad_run *g, est_node node, est_shape *shapes)
{
    const est_node_def *def = est_def(node);

    for (int i = 0; i < def->n_out; i++) {
        est_tensor *value = NULL;

        shapes[i] = def->shape[i];
        if (!takes_part(g->run, def, i) || est_shape_is_known(&shapes[i])) continue;
        EST_TRY(est_session_run(g->session, (est_feeds){ g->feeds, g->n_feeds }, EST_NODES(est_output(node, i)),
                                (est_nodes){ 0 }, &value));
        shapes[i] = *est_tensor_shape(value);
        est_tensor_free(value);
    }
    return EST_OK;
}

static est_status session_create(grad_run *g)
{
    EST_TRY(est_graph_status(g->graph));
    EST_TRY(est_session_create(g->graph, EST_SESSION(.threads = 1, .seed = 7, .no_passes = true), &g->session));
    return case_write_variables(g->run, g->session);
}

static est_status build_loss(grad_run *g)
{
    est_shape           shapes[EST_CASE_OUT_MAX];
    est_node            node = case_build(g->run, g->graph, CASE_KNOWN_SHAPES, g->in);
    const est_node_def *def;
    est_node            total = EST_NO_NODE;

    EST_TRY(session_create(g));
    def = est_def(node);
    if (def->n_out > EST_CASE_OUT_MAX) return est_fail(EST_OUT_OF_RANGE, "too many outputs");
    for (int k = 0; k < g->run->n_in; k++) {
        if (g->run->test->in[k].variable || g->run->test->in[k].constant) continue;
        g->feeds[g->n_feeds++] = (est_feed){ g->in[k], g->x[k] };
    }
    EST_TRY(output_shapes(g, node, shapes));
    est_session_free(g->session); /* made for the shapes alone: the graph grows now */
    g->session = NULL;
    for (int i = 0; i < def->n_out; i++) {
        if (!takes_part(g->run, def, i)) continue;
        est_node part = weighted_sum(g, est_output(node, i), &shapes[i], i);
        total         = total.graph == NULL ? part : est_add(total, part);
    }
    if (total.graph == NULL) return est_fail(EST_NOT_FOUND, "no float output takes part");
    g->loss = total;
    return est_graph_status(g->graph);
}

/* What every run starts from: variables hold x[], random ops draw the same again. */
static est_status reset(grad_run *g)
{
    est_session_set_run_count(g->session, 0);
    for (int k = 0; k < g->run->n_in; k++) {
        char name[16];

        if (!g->run->test->in[k].variable) continue;
        snprintf(name, sizeof name, "in%d", k);
        EST_TRY(est_session_write(g->session, name, g->x[k]));
    }
    return EST_OK;
}

static est_status loss_value(grad_run *g, double *value)
{
    est_tensor *out = NULL;

    EST_TRY(reset(g));
    EST_TRY(
        est_session_run(g->session, (est_feeds){ g->feeds, g->n_feeds }, EST_NODES(g->loss), (est_nodes){ 0 }, &out));
    *value = *(const double *)est_tensor_data(out);
    est_tensor_free(out);
    return EST_OK;
}

/* The gradient towards input k as a dense array of as many doubles; freed by the caller. */
static est_status gradient_values(grad_run *g, const est_gradient *grad, int k, double **out)
{
    int64_t n            = est_tensor_count(g->x[k]),
            rows         = est_tensor_shape(g->x[k])->rank > 0 ? est_tensor_shape(g->x[k])->dim[0] : 1;
    est_tensor *got[2]   = { NULL, NULL };
    est_node    fetch[2] = { grad->values, grad->indices };
    bool        sparse   = grad->indices.graph != NULL;
    double     *dense;
    est_status  status = EST_OK;

    EST_TRY(reset(g));
    EST_TRY(est_session_run(g->session, (est_feeds){ g->feeds, g->n_feeds }, (est_nodes){ fetch, sparse ? 2 : 1 },
                            (est_nodes){ 0 }, got));
    dense = calloc((size_t)(n > 0 ? n : 1), sizeof *dense);
    if (!sparse) {
        char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];
        if (!est_shape_equal(est_tensor_shape(got[0]), est_tensor_shape(g->x[k]))) {
            status = est_fail(EST_INTERNAL, "the gradient of input %d has shape %s, the input %s", k,
                              est_shape_text(est_tensor_shape(got[0]), a),
                              est_shape_text(est_tensor_shape(g->x[k]), b));
        } else if (n > 0) {
            memcpy(dense, est_tensor_data(got[0]), (size_t)n * sizeof *dense);
        }
    } else {
        int64_t width = rows > 0 ? n / rows : 0;
        for (int64_t i = 0; i < est_tensor_count(got[1]); i++) {
            int64_t row = (int64_t)case_element(est_tensor_data(got[1]), est_tensor_dtype(got[1]), i);
            for (int64_t j = 0; j < width && row >= 0 && row < rows; j++) {
                dense[row * width + j] += ((const double *)est_tensor_data(got[0]))[i * width + j];
            }
        }
    }
    est_tensor_free(got[0]);
    est_tensor_free(got[1]);
    *out = dense;
    return status;
}

/* (L(x + h d) - L(x - h d)) / 2h; direction NULL: along element `e` alone. */
static est_status slope(grad_run *g, int k, const double *direction, int64_t e, double *numeric, double *noise)
{
    double    *x  = est_tensor_mutable_data(g->x[k]), *saved;
    int64_t    n  = est_tensor_count(g->x[k]);
    double     up = 0, down = 0, h = STEP * (direction == NULL ? fmax(1, fabs(x[e])) : 1);
    est_status status;

    saved = malloc((size_t)n * sizeof *saved);
    memcpy(saved, x, (size_t)n * sizeof *saved);
    for (int64_t i = 0; i < n; i++) x[i] += direction != NULL ? h * direction[i] : (i == e ? h : 0);
    status = loss_value(g, &up);
    for (int64_t i = 0; i < n; i++) x[i] = saved[i] - (direction != NULL ? h * direction[i] : (i == e ? h : 0));
    if (status == EST_OK) status = loss_value(g, &down);
    memcpy(x, saved, (size_t)n * sizeof *saved);
    free(saved);
    *numeric = (up - down) / (2 * h);
    *noise   = 1e-14 * fmax(fabs(up), fabs(down)) / h; /* what rounding alone may do */
    return status;
}

static void compare(grad_run *g, int k, const char *what, int64_t e, double got, double numeric, double noise,
                    int *shown)
{
    double tol = g->run->test->grad_tol > 0 ? g->run->test->grad_tol : 1e-5;
    bool   ok  = fabs(got - numeric) <= tol * fmax(1, fabs(numeric)) + noise;

    if (!ok && (*shown)++ >= 5) return;
    case_check(g->run, ok, "gradient towards input %d, %s %" PRId64 ": op says %.9g, differences say %.9g", k, what, e,
               got, numeric);
}

static est_status check_input(grad_run *g, int k, const double *got)
{
    int64_t n = est_tensor_count(g->x[k]), n_elements = n <= ELEMENTS_MAX ? n : SAMPLES;
    double  numeric, noise, *d;
    int     shown = 0;

    for (int64_t s = 0; s < n_elements; s++) {
        int64_t e = n <= ELEMENTS_MAX ? s : (int64_t)(case_uniform(5, (uint64_t)k, (uint64_t)s) * (double)n);
        EST_TRY(slope(g, k, NULL, e, &numeric, &noise));
        compare(g, k, "element", e, got[e], numeric, noise, &shown);
    }
    if (n <= ELEMENTS_MAX) return EST_OK;
    d = malloc((size_t)n * sizeof *d);
    for (int s = 0; s < DIRECTIONS; s++) {
        double     along  = 0;
        est_status status = EST_OK;
        for (int64_t i = 0; i < n; i++) {
            d[i] = (case_uniform(6 + (uint64_t)s, (uint64_t)k, (uint64_t)i) - 0.5) * 2;
            along += d[i] * got[i];
        }
        status = slope(g, k, d, 0, &numeric, &noise);
        if (status == EST_OK) compare(g, k, "direction", s, along, numeric, noise, &shown);
        if (status != EST_OK) {
            free(d);
            return status;
        }
    }
    free(d);
    return EST_OK;
}

static est_status check_all(grad_run *g)
{
    est_case_run *run = g->run;
    est_node      wrt[EST_CASE_IN_MAX];
    est_gradient  grad[EST_CASE_IN_MAX] = { 0 };
    int           input[EST_CASE_IN_MAX], n = 0, n_found = 0;

    EST_TRY(est_graph_create(42, &g->graph));
    EST_TRY(build_loss(g));
    for (int k = 0; k < run->n_in; k++) {
        if (est_tensor_dtype(run->in[k]) != EST_F64 || run->test->in[k].no_grad || run->test->in[k].constant) continue;
        input[n] = k;
        wrt[n++] = g->in[k];
    }
    if (n == 0) return EST_OK;
    est_gradients(g->loss, (est_nodes){ wrt, n }, grad);
    EST_TRY(session_create(g));
    for (int i = 0; i < n; i++) {
        double    *got = NULL;
        est_status status;

        if (grad[i].values.graph == NULL) continue; /* the op has no gradient towards this input */
        n_found++;
        status = gradient_values(g, &grad[i], input[i], &got);
        if (status == EST_OK) status = check_input(g, input[i], got);
        free(got);
        EST_TRY(status);
    }
    case_check(run, n_found > 0, "the op has a gradient but none came back towards any of its %d float inputs", n);
    return EST_OK;
}

void case_check_gradient(est_case_run *run)
{
    grad_run   g      = { .run = run };
    est_status status = EST_OK;

    if (run->op->grad == NULL || run->test->no_grad) return;
    for (int k = 0; k < run->n_in && status == EST_OK; k++) {
        if (est_tensor_dtype(run->in[k]) == EST_STRING) {
            g.x[k] = est_tensor_ref(run->in[k]);
            continue;
        }
        status = est_tensor_create_from(est_tensor_dtype(run->in[k]), *est_tensor_shape(run->in[k]),
                                        est_tensor_data(run->in[k]), &g.x[k]);
    }
    if (status == EST_OK) status = check_all(&g);
    case_check(run, status == EST_OK, "gradient: %s", est_error_message());
    est_session_free(g.session);
    est_graph_free(g.graph);
    for (int k = 0; k < run->n_in; k++) est_tensor_free(g.x[k]);
}
