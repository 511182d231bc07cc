/* SPDX-License-Identifier: Apache-2.0
 *
 * StridedSlice: Python's x[begin:end:stride, ...] with None (a new axis), an integer (a dropped axis) and one ellipsis,
 * which TensorFlow encodes as bit masks over the entries. StridedSliceGrad puts dy back into zeros of x's shape.
 *
 * Entries and axes are two different counts: a new-axis entry has no axis, an ellipsis entry stands for several. The
 * entries are first spread over the axes of the input (spec), after which everything works per axis. */
#include <inttypes.h>
#include <string.h>

#include "cuda/launchers.h"
#include "kernels/strided.h"
#include "ops/array.h"
#include "ops/slice_bounds.h"
#include "tensor/shape.h"

#define ENTRIES_MAX EST_VALUE_MAX

typedef struct entries {
    int     n;
    int64_t begin[ENTRIES_MAX], end[ENTRIES_MAX], stride[ENTRIES_MAX]; /* EST_VALUE_UNKNOWN while building */
    int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
} entries;

/* The slice per axis of the input, and the shape that comes out. */
typedef struct spec {
    int       rank;
    int64_t   first[EST_RANK_MAX]; /* where the axis starts to be read */
    int64_t   stride[EST_RANK_MAX];
    int64_t   length[EST_RANK_MAX]; /* elements taken; -1: not known */
    est_shape out;
} spec;

static est_status no_such_index(int64_t index, int64_t axis, int64_t dim)
{
    return est_fail(EST_INVALID_ARGUMENT, "index %" PRId64 " is out of range for axis %" PRId64 " of size %" PRId64,
                    index, axis, dim);
}

/* x[begin]: the one element; the axis goes. */
static est_status pick_one(const entries *e, int i, int axis, int64_t dim, spec *s)
{
    int64_t at = e->begin[i];

    s->length[axis] = 1;
    s->stride[axis] = 1;
    if (e->stride[i] != EST_VALUE_UNKNOWN && e->stride[i] <= 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "entry %d picks one element and must have a positive stride, not %" PRId64, i, e->stride[i]);
    }
    if (dim < 0 || at == EST_VALUE_UNKNOWN) return EST_OK;
    if (at < -dim || at >= dim) return no_such_index(at, axis, dim);
    s->first[axis] = at < 0 ? at + dim : at;
    return EST_OK;
}

/* begin:end:stride of one axis. */
static est_status pick_range(const entries *e, int i, int axis, int64_t dim, spec *s)
{
    int64_t stride   = e->stride[i];
    bool    from_end = est_slice_has(e->begin_mask, i), to_end = est_slice_has(e->end_mask, i);

    s->length[axis] = -1;
    if (stride == EST_VALUE_UNKNOWN) return EST_OK;
    if (stride == 0) return est_fail(EST_INVALID_ARGUMENT, "the stride of entry %d is 0", i);
    s->stride[axis] = stride;
    if (dim < 0) return EST_OK; /* bounds are cut to the axis, so without its size nothing is sure */
    if (!from_end && e->begin[i] == EST_VALUE_UNKNOWN) return EST_OK;
    if (!to_end && e->end[i] == EST_VALUE_UNKNOWN) return EST_OK;
    s->first[axis]  = est_slice_first(e->begin[i], from_end, stride, dim);
    s->length[axis] = est_slice_length(s->first[axis], e->end[i], to_end, stride, dim);
    return EST_OK;
}

static void pick_all(int axis, int64_t dim, spec *s)
{
    s->first[axis]  = 0;
    s->stride[axis] = 1;
    s->length[axis] = dim;
}

static est_status push_out(est_shape *out, int64_t dim)
{
    if (out->rank == EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the slice would have more than %d axes", EST_RANK_MAX);
    }
    out->dim[out->rank++] = dim;
    return EST_OK;
}

/* Spreads the entries over the axes of `in`, whose rank is known. */
static est_status make_spec(const entries *e, const est_shape *in, spec *s)
{
    int  axis = 0, used = 0; /* axes that entries other than the ellipsis speak for */
    bool ellipsis = false;

    memset(s, 0, sizeof *s);
    s->rank = in->rank;
    for (int i = 0; i < e->n; i++) {
        if (est_slice_has(e->ellipsis_mask, i) && ellipsis)
            return est_fail(EST_INVALID_ARGUMENT, "more than one ellipsis");
        ellipsis = ellipsis || est_slice_has(e->ellipsis_mask, i);
        used += !est_slice_has(e->ellipsis_mask, i) && !est_slice_has(e->new_axis_mask, i);
    }
    if (used > in->rank) {
        char text[EST_SHAPE_TEXT_MAX];

        return est_fail(EST_INVALID_ARGUMENT, "the slice speaks for %d axes of an input of shape %s", used,
                        est_shape_text(in, text));
    }
    for (int i = 0; i <= e->n; i++) {
        bool rest = i == e->n; /* axes after the last entry are taken whole, as if an ellipsis stood there */

        if (rest || est_slice_has(e->ellipsis_mask, i)) {
            int n = rest ? in->rank - axis : in->rank - used;
            for (int k = 0; k < n; k++, axis++) {
                pick_all(axis, in->dim[axis], s);
                EST_TRY(push_out(&s->out, s->length[axis]));
            }
        } else if (est_slice_has(e->new_axis_mask, i)) {
            EST_TRY(push_out(&s->out, 1));
        } else if (est_slice_has(e->shrink_axis_mask, i)) {
            EST_TRY(pick_one(e, i, axis, in->dim[axis], s));
            axis++;
        } else {
            EST_TRY(pick_range(e, i, axis, in->dim[axis], s));
            EST_TRY(push_out(&s->out, s->length[axis++]));
        }
    }
    return EST_OK;
}

static void read_masks(const est_node_def *node, entries *e)
{
    e->begin_mask       = est_node_int(node, "begin_mask");
    e->end_mask         = est_node_int(node, "end_mask");
    e->ellipsis_mask    = est_node_int(node, "ellipsis_mask");
    e->new_axis_mask    = est_node_int(node, "new_axis_mask");
    e->shrink_axis_mask = est_node_int(node, "shrink_axis_mask");
}

/* The three integer vectors that start at input `first`, as far as they are known. n is -1 when not even their length
 * is. */
static est_status infer_entries(const est_infer *c, int first, entries *e)
{
    int64_t *const to[] = { e->begin, e->end, e->stride };

    e->n = -1;
    for (int k = 0; k < 3; k++) {
        int64_t n;

        EST_TRY(est_infer_rank(c, first + k, 1));
        n = est_infer_dim(&c->in[first + k], 0);
        if (n > ENTRIES_MAX || (n >= 0 && e->n >= 0 && n != e->n)) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "begin, end and strides must have one length of at most %d, got %" PRId64, ENTRIES_MAX, n);
        }
        if (n >= 0) e->n = (int)n;
    }
    for (int k = 0; k < 3; k++) {
        const est_value *value = est_infer_value(c, first + k);

        for (int i = 0; i < e->n; i++) to[k][i] = value != NULL && i < value->n ? value->v[i] : EST_VALUE_UNKNOWN;
    }
    read_masks(c->node, e);
    return EST_OK;
}

/* Elements of a known vector, picked: how one dimension of a shape is followed through a graph. */
static void pick_values(est_infer *c, const spec *s)
{
    const est_value *value = est_infer_value(c, 0);

    if (value == NULL || s->rank != 1 || s->length[0] < 0 || s->out.rank > 1) return;
    c->out_value[0].n = (int32_t)s->length[0];
    for (int64_t i = 0; i < s->length[0]; i++) c->out_value[0].v[i] = value->v[s->first[0] + i * s->stride[0]];
}

static bool begins_known(const entries *e)
{
    for (int i = 0; i < e->n; i++) {
        if (e->begin[i] == EST_VALUE_UNKNOWN) return false;
    }
    return true;
}

static est_status strided_slice_infer(est_infer *c)
{
    entries e;
    spec    s;

    EST_TRY(infer_entries(c, 1, &e));
    if (e.n < 0 || c->in[0].rank < 0) return EST_OK;
    EST_TRY(make_spec(&e, &c->in[0], &s));
    c->out[0] = s.out;
    if (begins_known(&e)) pick_values(c, &s);
    return EST_OK;
}

static est_strided_slice_options masks_of(const est_node_def *node)
{
    entries e;

    read_masks(node, &e);
    return (est_strided_slice_options){ .begin_mask       = e.begin_mask,
                                        .end_mask         = e.end_mask,
                                        .ellipsis_mask    = e.ellipsis_mask,
                                        .new_axis_mask    = e.new_axis_mask,
                                        .shrink_axis_mask = e.shrink_axis_mask };
}

static void strided_slice_grad(est_grad *g)
{
    est_node shape = est_shape_as(g->in[0], est_node_dtype(g->in[1]));

    g->din[0].values = est_strided_slice_grad(shape, g->in[1], g->in[2], g->in[3], g->dout[0], masks_of(g->node));
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static est_status prepare_masks(est_call *c)
{
    entries e;

    read_masks(c->node, &e);
    c->param[0].i = e.begin_mask;
    c->param[1].i = e.end_mask;
    c->param[2].i = e.ellipsis_mask;
    c->param[3].i = e.new_axis_mask;
    c->param[4].i = e.shrink_axis_mask;
    return EST_OK;
}

/* The slice of a tensor of shape `x` as the call's integer inputs say. */
static est_status call_spec(const est_call *c, const est_shape *x, spec *s)
{
    entries e = { .n                = (int)c->in[1]->count,
                  .begin_mask       = c->param[0].i,
                  .end_mask         = c->param[1].i,
                  .ellipsis_mask    = c->param[2].i,
                  .new_axis_mask    = c->param[3].i,
                  .shrink_axis_mask = c->param[4].i };

    for (int i = 0; i < e.n; i++) {
        e.begin[i]  = est_view_int(c->in[1], i);
        e.end[i]    = est_view_int(c->in[2], i);
        e.stride[i] = est_view_int(c->in[3], i);
    }
    return make_spec(&e, x, s);
}

/* The copy between the sliced tensor (strided, on one side) and the slice (dense, on the other). Returns where in the
 * tensor it starts. */
static int64_t slice_layout(const spec *s, const est_shape *x, bool into_tensor, est_strided *layout)
{
    int64_t tensor[EST_RANK_MAX], dense[EST_RANK_MAX + 1], offset = 0;

    est_shape_strides(x, tensor);
    dense[s->rank] = 1;
    for (int i = s->rank - 1; i >= 0; i--) dense[i] = dense[i + 1] * s->length[i];
    *layout = (est_strided){ 0 };
    for (int i = 0; i < s->rank; i++) {
        int64_t step = tensor[i] * s->stride[i];

        offset += s->first[i] * tensor[i];
        est_strided_push(layout, s->length[i], into_tensor ? dense[i + 1] : step, into_tensor ? step : dense[i + 1]);
    }
    return offset;
}

static est_status strided_slice_cpu(est_call *c)
{
    const est_view *x       = c->in[0];
    size_t          element = est_dtype_size(x->dtype);
    est_strided     layout;
    spec            s;
    int64_t         offset;

    EST_TRY(call_spec(c, &x->shape, &s));
    offset = slice_layout(&s, &x->shape, false, &layout);
    if (c->out[0].count == 0) return EST_OK;
    est_strided_copy(c->pool, element, &layout, c->out[0].data, (const char *)x->data + offset * (int64_t)element);
    return EST_OK;
}

/* An entry picks element value[0] of axis `place`. */
static est_status strided_slice_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return no_such_index(value[0], place, c->in[0]->shape.dim[place]);
}

#define MASKS_AS_ATTRS(m)                                                                                              \
    EST_ATTRS(est_attr_int("begin_mask", (m).begin_mask), est_attr_int("end_mask", (m).end_mask),                      \
              est_attr_int("ellipsis_mask", (m).ellipsis_mask), est_attr_int("new_axis_mask", (m).new_axis_mask),      \
              est_attr_int("shrink_axis_mask", (m).shrink_axis_mask))

#define MASK_ATTRS                                                                                                     \
    "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; "                         \
    "shrink_axis_mask: int = 0"

const est_op est_op_strided_slice = {
    .name      = "StridedSlice",
    .signature = "input: T, begin: Index, end: Index, strides: Index -> output: T; "
                 "T: type; Index: {int32, int64}; " MASK_ATTRS,
    .infer     = strided_slice_infer,
    .grad      = strided_slice_grad,
    .cpu       = EST_KERNELS({ .run = strided_slice_cpu, .prepare = prepare_masks }),
    .cuda = EST_KERNELS({ .launch = EST_LAUNCH(strided_slice), .prepare = prepare_masks, .fail = strided_slice_fail }),
};

/* --- StridedSliceGrad --------------------------------------------------------------------------------------------- */

/* Input 0 is the shape of the result; inputs 1 to 3 are the slice, input 4 is dy. */
static est_status slice_back_infer(est_infer *c)
{
    entries   e;
    spec      s;
    est_shape shape = EST_SHAPE_UNKNOWN, merged;

    EST_TRY(infer_entries(c, 1, &e));
    EST_TRY(est_infer_rank(c, 0, 1));
    if (!est_infer_shape_from_value(c, 0, &shape)) return EST_OK;
    c->out[0] = shape;
    if (e.n < 0 || shape.rank < 0) return EST_OK;
    EST_TRY(make_spec(&e, &shape, &s));
    return est_infer_merge(&s.out, &c->in[4], &merged); /* dy must look like the slice */
}

static void slice_back_grad(est_grad *g)
{
    const est_strided_slice_options m = masks_of(g->node);

    g->din[4].values = est_build(g->dout[0].graph, &est_op_strided_slice,
                                 EST_NODES(g->dout[0], g->in[1], g->in[2], g->in[3]), MASKS_AS_ATTRS(m));
}

static est_status slice_back_cpu(est_call *c)
{
    static const uint64_t zero[2] = { 0, 0 };
    const est_view       *dy      = c->in[4];
    est_view             *dx      = &c->out[0];
    size_t                element = est_dtype_size(dy->dtype);
    est_strided           layout;
    spec                  s;
    int64_t               offset;

    EST_TRY(call_spec(c, &dx->shape, &s));
    offset = slice_layout(&s, &dx->shape, true, &layout);
    if (dy->count < dx->count) est_strided_fill(c->pool, element, dx->data, zero, dx->count);
    if (dy->count > 0) {
        est_strided_copy(c->pool, element, &layout, (char *)dx->data + offset * (int64_t)element, dy->data);
    }
    return EST_OK;
}

static est_status slice_back_fail(const est_call *c, int64_t place, const int64_t value[2])
{
    return no_such_index(value[0], place, c->out[0].shape.dim[place]);
}

const est_op est_op_strided_slice_grad = {
    .name      = "StridedSliceGrad",
    .signature = "shape: Index, begin: Index, end: Index, strides: Index, dy: T -> output: T; "
                 "T: type; Index: {int32, int64}; " MASK_ATTRS,
    .infer     = slice_back_infer,
    .grad      = slice_back_grad,
    .cpu       = EST_KERNELS({ .run = slice_back_cpu, .prepare = prepare_masks }),
    .cuda      = EST_KERNELS(
             { .launch = EST_LAUNCH(strided_slice_grad), .prepare = prepare_masks, .fail = slice_back_fail }),
};

/* --- builders ----------------------------------------------------------------------------------------------------- */

est_node est_strided_slice_grad(est_node shape, est_node begin, est_node end, est_node strides, est_node dy,
                                est_strided_slice_options m)
{
    return est_build(dy.graph, &est_op_strided_slice_grad, EST_NODES(shape, begin, end, strides, dy),
                     MASKS_AS_ATTRS(m));
}

est_node est_strided_slice(est_node x, est_i64s begin, est_i64s end, est_i64s strides, est_strided_slice_options m)
{
    return est_build(x.graph, &est_op_strided_slice,
                     EST_NODES(x, est_const_ints(x.graph, EST_I32, begin), est_const_ints(x.graph, EST_I32, end),
                               est_const_ints(x.graph, EST_I32, strides)),
                     MASKS_AS_ATTRS(m));
}
