/* SPDX-License-Identifier: Apache-2.0
 *
 * StridedSlice and StridedSliceGrad. The reference spells the slice of each case out as an index list per axis, so that
 * it shares no arithmetic with the op: `pick` is the list of source positions, `-1` ends it. */
#include "graph/op.h"
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

/* Walks begin, begin + stride, ... as Python's range over a list would. */
static int positions(int64_t dim, double begin, double end, double stride, bool no_begin, bool no_end, int64_t *out)
{
    int     n    = 0;
    int64_t b    = no_begin ? (stride > 0 ? 0 : dim - 1) : (int64_t)(begin < 0 ? begin + (double)dim : begin);
    int64_t e    = no_end ? (stride > 0 ? dim : -1) : (int64_t)(end < 0 ? end + (double)dim : end);
    int64_t step = (int64_t)stride;

    for (int64_t i = -1000 * (step > 0) + 1000 * (step < 0); i != (step > 0 ? 1000 : -1000); i += step > 0 ? 1 : -1) {
        if (step > 0 ? i >= e : i <= e) break; /* every index in direction, kept if on the stride and in the list */
        bool    reached = step > 0 ? i >= b : i <= b;
        int64_t from    = step > 0 ? (b < 0 ? 0 : b) : (b >= dim ? dim - 1 : b);
        if (reached && i >= 0 && i < dim && (i - from) % step == 0) out[n++] = i;
    }
    return n;
}

typedef struct picks {
    int     n_axes;
    int     n[EST_RANK_MAX];
    int64_t at[EST_RANK_MAX][64];
} picks;

static void find_picks(est_ref *r, const est_shape *x, picks *p)
{
    const double *begin = r->in[1], *end = r->in[2], *stride = r->in[3];
    int           n = (int)r->in_shape[1].dim[0], used = 0, axis = 0;
    int64_t       mask[5];
    const char   *names[5] = { "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask" };

    for (int i = 0; i < 5; i++) mask[i] = est_node_int(r->node, names[i]);
    for (int i = 0; i < n; i++) used += (mask[2] >> i & 1) == 0 && (mask[3] >> i & 1) == 0;
    for (int i = 0; i <= n; i++) {
        bool last = i == n;
        if (last || (mask[2] >> i & 1) != 0) {
            for (int k = last ? x->rank - axis : x->rank - used; k > 0; k--, axis++) {
                p->n[axis] = (int)x->dim[axis];
                for (int j = 0; j < p->n[axis]; j++) p->at[axis][j] = j;
            }
        } else if ((mask[3] >> i & 1) != 0) {
            continue;
        } else if ((mask[4] >> i & 1) != 0) {
            p->n[axis]     = 1;
            p->at[axis][0] = (int64_t)(begin[i] < 0 ? begin[i] + (double)x->dim[axis] : begin[i]);
            axis++;
        } else {
            p->n[axis] = positions(x->dim[axis], begin[i], end[i], stride[i], (mask[0] >> i & 1) != 0,
                                   (mask[1] >> i & 1) != 0, p->at[axis]);
            axis++;
        }
    }
    p->n_axes = axis;
}

/* Calls back for every element of the slice: its number, and its place in x. */
static void each_pick(const picks *p, const est_shape *x, double *to, const double *from, bool back)
{
    est_shape dense = { .rank = p->n_axes };

    for (int k = 0; k < p->n_axes; k++) dense.dim[k] = p->n[k];
    for (int64_t i = 0; i < est_shape_count(&dense); i++) {
        int64_t at[EST_RANK_MAX];

        coords_of(&dense, i, at);
        for (int k = 0; k < p->n_axes; k++) at[k] = p->at[k][at[k]];
        if (back) {
            to[offset_of(x, at)] = from[i];
        } else {
            to[i] = from[offset_of(x, at)];
        }
    }
}

static void slice_ref(est_ref *r)
{
    picks p;

    find_picks(r, &r->in_shape[0], &p);
    each_pick(&p, &r->in_shape[0], r->out[0], r->in[0], false);
}

static void slice_grad_ref(est_ref *r)
{
    picks p;

    find_picks(r, &r->out_shape[0], &p);
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    each_pick(&p, &r->out_shape[0], r->out[0], r->in[4], true);
}

#define MASKS(b, e, l, n, s)                                                                                           \
    EST_ATTRS(est_attr_int("begin_mask", b), est_attr_int("end_mask", e), est_attr_int("ellipsis_mask", l),            \
              est_attr_int("new_axis_mask", n), est_attr_int("shrink_axis_mask", s))
#define REFUSED .fails = EST_INVALID_ARGUMENT

/* The slice of a shape vector is followed, which is how models compute shapes. */
static void test_values(void)
{
    est_graph *graph = test_graph();
    est_node   x     = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 7, 9));
    est_node   tail  = est_strided_slice(est_shape_of(x), EST_I64S(1), EST_I64S(0), EST_I64S(1),
                                         (est_strided_slice_options){ .end_mask = 1 });
    est_node   back  = est_strided_slice(est_shape_of(x), EST_I64S(0), EST_I64S(0), EST_I64S(-2),
                                         (est_strided_slice_options){ .begin_mask = 1, .end_mask = 1 });

    CHECK(est_def(tail)->value[0].n == 2 && est_def(tail)->value[0].v[0] == 7 && est_def(tail)->value[0].v[1] == 9);
    CHECK(est_node_dim(est_strided_slice(x, EST_I64S(0, 2), EST_I64S(INT64_MAX, INT64_MAX), EST_I64S(1, 1),
                                         (est_strided_slice_options){ 0 }),
                       1) == 5);
    CHECK(est_def(back)->value[0].n == 2 && est_def(back)->value[0].v[0] == 9 &&
          est_def(back)->value[0].v[1] == EST_VALUE_UNKNOWN);
    est_graph_free(graph);
}

static void test_string_tensors(void)
{
    static const char *const words[] = { "a", "b", "c", "d", "e" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(5), words);

    check_strings(est_strided_slice(est_const(graph, tensor), EST_I64S(-1), EST_I64S(0), EST_I64S(-2),
                                    (est_strided_slice_options){ .end_mask = 1 }),
                  EST_SHAPE(3), (const char *const[]){ "e", "c", "a" });
    est_tensor_free(tensor);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "StridedSlice", { IN(7), INTS(1), INTS(6), INTS(2) }, .ref = slice_ref },
        { "StridedSlice", { IN(7), INTS(-2), INTS(0), INTS(-2) }, .ref = slice_ref },
        { "StridedSlice", { IN(7), INTS(5), INTS(-100), INTS(-1) }, .ref = slice_ref },
        { "StridedSlice", { IN(7), INTS(-100), INTS(100), INTS(3) }, .ref = slice_ref },
        { "StridedSlice", { IN(7), INTS(4), INTS(2), INTS(1) }, .ref = slice_ref }, /* empty */
        { "StridedSlice", { IN(4, 5), INTS(1, 0), INTS(3, 5), INTS(1, 2) }, .ref = slice_ref },
        { "StridedSlice", { IN(4, 5), INTS(1), INTS(3), INTS(1) }, .ref = slice_ref }, /* fewer entries than axes */
        { "StridedSlice", { IN(4, 5), FED_INTS(0, -1), FED_INTS(4, -4), FED_INTS(2, -1) }, .ref = slice_ref },
        { "StridedSlice",
          { IN(4, 5), INTS(9, 9), INTS(9, 9), INTS(-1, 2) },
          .attrs = MASKS(3, 3, 0, 0, 0),
          .ref   = slice_ref },
        { "StridedSlice",
          { IN(4, 5), INTS(-2, 1), INTS(0, 4), INTS(1, 1) },
          .attrs = MASKS(0, 0, 0, 0, 1),
          .ref   = slice_ref },
        { "StridedSlice",
          { IN(4, 5), INTS(3, 2), INTS(0, 0), INTS(1, 1) },
          .attrs = MASKS(0, 0, 0, 0, 3),
          .ref   = slice_ref },
        { "StridedSlice",
          { IN(4, 5), INTS(1, 0, 2), INTS(3, 0, 3), INTS(1, 1, 1) },
          .attrs = MASKS(0, 0, 0, 2, 0),
          .ref   = slice_ref },
        { "StridedSlice",
          { IN(2, 3, 4, 5), INTS(1, 0, 2), INTS(2, 0, 5), INTS(1, 1, 2) },
          .attrs = MASKS(0, 0, 2, 0, 0),
          .ref   = slice_ref },
        { "StridedSlice",
          { IN(2, 3, 4), INTS(0, 0, 1), INTS(0, 0, 0), INTS(1, 1, 1) },
          .attrs = MASKS(0, 0, 1, 2, 4),
          .ref   = slice_ref },
        { "StridedSlice",
          { IN(0, 3), INTS(0, 1), INTS(0, 3), INTS(1, 1) },
          .attrs = MASKS(1, 1, 0, 0, 0),
          .ref   = slice_ref },
        { "StridedSlice", { IN(60, 50, 20), INTS(3, 1, 0), INTS(59, 49, 20), INTS(2, 3, 3) }, .ref = slice_ref },
        { "StridedSlice", { IN(9), INTS(1), INTS(8), INTS(3) }, .dtype = EST_I64, .ref = slice_ref },
        { "StridedSlice",
          { IN(4, 5), INTS(4), INTS(5), INTS(1) },
          .attrs = MASKS(0, 0, 0, 0, 1),
          REFUSED,
          .says = "index 4" },
        { "StridedSlice", { IN(4), INTS(0), INTS(2), INTS(0) }, REFUSED, .says = "stride" },
        { "StridedSlice", { IN(4), INTS(0, 0), INTS(1, 1), INTS(1, 1) }, REFUSED, .says = "2 axes" },
        { "StridedSliceGrad", { INTS(7), INTS(1), INTS(6), INTS(2), IN(3) }, .ref = slice_grad_ref },
        { "StridedSliceGrad", { INTS(4, 5), INTS(3, 4), INTS(-9, -9), INTS(-1, -2), IN(4, 3) }, .ref = slice_grad_ref },
        { "StridedSliceGrad",
          { INTS(4, 5), INTS(3, 2), INTS(0, 0), INTS(1, 1), SCALAR_IN },
          .attrs = MASKS(0, 0, 0, 0, 3),
          .ref   = slice_grad_ref },
        { "StridedSliceGrad", { FED_INTS(4, 5), INTS(1), INTS(3), INTS(1), IN(2, 5) }, .ref = slice_grad_ref },
        { "StridedSliceGrad", { INTS(4, 5), INTS(1), INTS(1), INTS(1), IN(0, 5) }, .ref = slice_grad_ref },
        { "StridedSliceGrad", { INTS(7), INTS(1), INTS(6), INTS(2), IN(4) }, REFUSED, .says = "[4]" },
    };

    test_values();
    test_string_tensors();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
