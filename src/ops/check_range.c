/* SPDX-License-Identifier: Apache-2.0
 *
 * EstCheckRange: y = x, or an error that says which element is the first that is not in [low, high].
 * EstCheckFound: y = ids, or an error with the first of the keys whose id is below 0: a lookup has not found it.
 * In TensorFlow's ops each is an Identity that waits for an Assert. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/parallel.h"
#include "ops/array.h"

#define BLOCKS_MAX 64 /* est_parallel_blocks() gives no more */

/* Scratch: the first bad element of each block, or INT64_MAX. */
static size_t check_range_scratch(const est_call *c)
{
    (void)c;
    return sizeof(int64_t) * BLOCKS_MAX;
}

static est_status check_range_prepare(est_call *c)
{
    c->param[0].f = est_node_float(c->node, "low");
    c->param[1].f = est_node_float(c->node, "high");
    return EST_OK;
}

#define CHECK_LOOP(T)                                                                                                  \
    static void check_##T(void *arg, int64_t begin, int64_t end, int64_t block)                                        \
    {                                                                                                                  \
        const est_call *c   = arg;                                                                                     \
        const T        *x   = c->in[0]->data;                                                                          \
        T              *y   = c->out[0].data;                                                                          \
        double          low = c->param[0].f, high = c->param[1].f;                                                     \
        int64_t         first = INT64_MAX;                                                                             \
        int             bad   = 0;                                                                                     \
                                                                                                                       \
        for (int64_t i = begin; i < end; i++) bad |= !((double)x[i] >= low) | !((double)x[i] <= high);                 \
        for (int64_t i = begin; bad && i < end && first == INT64_MAX; i++) {                                           \
            if (!((double)x[i] >= low && (double)x[i] <= high)) first = i;                                             \
        }                                                                                                              \
        if (y != x) memcpy(y + begin, x + begin, sizeof(T) * (size_t)(end - begin));                                   \
        ((int64_t *)c->scratch)[block] = first;                                                                        \
    }
CHECK_LOOP(float)
CHECK_LOOP(double)
CHECK_LOOP(int32_t)
CHECK_LOOP(int64_t)

/* What the elements should be; a bound that nothing of the dtype is beyond is none. */
static void put_bounds(est_dtype dtype, double low, double high, char *to, size_t size)
{
    double end = dtype == EST_I32 || dtype == EST_I64 ? 0x1p63 : INFINITY;

    if (low <= -end) {
        snprintf(to, size, "not at most %.17g", high);
    } else if (high >= end) {
        snprintf(to, size, "not at least %.17g", low);
    } else {
        snprintf(to, size, "not in [%.17g, %.17g]", low, high);
    }
}

/* value[0] is the element, of a float the bits of the double. */
static est_status check_range_fail(const est_call *c, int64_t at, const int64_t *value)
{
    est_dtype   dtype   = c->in[0]->dtype;
    const char *message = est_node_string(c->node, "message");
    char        bounds[80];
    double      number;

    put_bounds(dtype, c->param[0].f, c->param[1].f, bounds, sizeof bounds);
    memcpy(&number, value, sizeof number);
    if (dtype == EST_I32 || dtype == EST_I64) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: element %" PRId64 " is %" PRId64 ", %s", message, at, value[0],
                        bounds);
    }
    return est_fail(EST_INVALID_ARGUMENT, "%s: element %" PRId64 " is %g, %s", message, at, number, bounds);
}

static est_status fail_at(const est_call *c, int64_t at)
{
    const est_view *x = c->in[0];
    double          number;
    int64_t         value;

    if (x->dtype == EST_I32 || x->dtype == EST_I64) {
        value = est_view_int(x, at);
    } else {
        number = x->dtype == EST_F32 ? (double)((float *)x->data)[at] : ((double *)x->data)[at];
        memcpy(&value, &number, sizeof value);
    }
    return check_range_fail(c, at, &value);
}

static est_status check_range_cpu(est_call *c)
{
    est_dtype    dtype = c->in[0]->dtype;
    int64_t     *found = c->scratch, count = c->in[0]->count;
    est_range_fn check = dtype == EST_F32   ? check_float
                         : dtype == EST_F64 ? check_double
                         : dtype == EST_I32 ? check_int32_t
                                            : check_int64_t;

    if (count == 0) return EST_OK;
    for (int i = 0; i < BLOCKS_MAX; i++) found[i] = INT64_MAX;
    est_parallel_for(c->pool, count, 64, 0.5, check, c);
    for (int i = 0; i < BLOCKS_MAX; i++) {
        if (found[i] != INT64_MAX) return fail_at(c, found[i]);
    }
    return EST_OK;
}

static void check_range_grad(est_grad *g)
{
    g->din[0].values = g->dout[0];
}

static est_node text_const(est_graph *graph, const char *text)
{
    est_tensor *tensor = NULL;
    est_status  status = est_tensor_create(EST_STRING, EST_SHAPE_SCALAR, &tensor);
    est_node    node;

    if (status == EST_OK) status = est_tensor_set_string(tensor, 0, text, strlen(text));
    node = status == EST_OK ? est_const(graph, tensor) : est_graph_poison(graph, status);
    est_tensor_free(tensor);
    return node;
}

static void check_range_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node x       = est_cast(in[0], EST_F64);
    est_node low     = est_scalar(graph, EST_F64, est_node_float(node, "low"));
    est_node high    = est_scalar(graph, EST_F64, est_node_float(node, "high"));
    est_node good    = est_reduce_all(est_logical_and(est_greater_equal(x, low), est_less_equal(x, high)), EST_ALL_AXES,
                                      false);
    int64_t  types[] = { EST_STRING, est_node_dtype(in[0]) };
    est_node check   = est_build3(&est_op_assert, good, text_const(graph, est_node_string(node, "message")), in[0],
                                  EST_ATTRS(est_attr_types("T", (est_i64s){ types, 2 })));

    out[0] = est_after(est_identity(in[0]), check);
}

const est_op est_op_check_range = {
    .name      = "EstCheckRange",
    .signature = "x: T -> y: T; low: float; high: float; message: string; T: {float32, float64, int32, int64}",
    .infer     = est_infer_same_as_input,
    .grad      = check_range_grad,
    .cpu  = EST_KERNELS({ .run = check_range_cpu, .scratch = check_range_scratch, .prepare = check_range_prepare }),
    .cuda = EST_KERNELS(
        { .launch = EST_LAUNCH(check_range), .prepare = check_range_prepare, .fail = check_range_fail }),
    .lower       = check_range_lower,
    .elementwise = true,
    .inplace     = 1u << 0, /* not stateful: two equal checks are one */
};

est_node est_check_range(est_node x, double low, double high, const char *message)
{
    return est_build1(
        &est_op_check_range, x,
        EST_ATTRS(est_attr_float("low", low), est_attr_float("high", high), est_attr_string("message", message)));
}

/* --- what a lookup found ------------------------------------------------------------------------------------------ */

#define KEY_SHOWN 80 /* bytes of a key that an error shows */

static est_status check_found_cpu(est_call *c)
{
    const int64_t *ids   = c->in[0]->data;
    const est_str *keys  = c->in[1]->data;
    int64_t        count = c->in[0]->count;

    if (c->in[1]->count != count) {
        return est_fail(EST_INVALID_ARGUMENT, "%" PRId64 " ids of %" PRId64 " keys", count, c->in[1]->count);
    }
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] >= 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s: element %" PRId64 " is \"%.*s\", which is not in the vocabulary",
                        est_node_string(c->node, "message"), i,
                        (int)(keys[i].size < KEY_SHOWN ? keys[i].size : KEY_SHOWN), keys[i].data);
    }
    if (c->out[0].data != ids && count > 0) memcpy(c->out[0].data, ids, sizeof *ids * (size_t)count);
    return EST_OK;
}

static void check_found_lower(const est_node_def *node, est_graph *graph, const est_node *in, est_node *out)
{
    est_node good    = est_reduce_all(est_greater_equal(in[0], est_scalar(graph, EST_I64, 0)), EST_ALL_AXES, false);
    int64_t  types[] = { EST_STRING, EST_STRING };
    est_node check   = est_build3(&est_op_assert, good, text_const(graph, est_node_string(node, "message")), in[1],
                                  EST_ATTRS(est_attr_types("T", (est_i64s){ types, 2 })));

    out[0] = est_after(est_identity(in[0]), check);
}

const est_op est_op_check_found = {
    .name      = "EstCheckFound",
    .signature = "ids: int64, keys: string -> y: int64; message: string",
    .infer     = est_infer_same_as_input,
    .cpu       = EST_KERNELS({ .run = check_found_cpu }),
    .lower     = check_found_lower,
    .inplace   = 1u << 0,
};

est_node est_check_found(est_node ids, est_node keys, const char *message)
{
    return est_build2(&est_op_check_found, ids, keys, EST_ATTRS(est_attr_string("message", message)));
}
