/* SPDX-License-Identifier: Apache-2.0 — ConcatV2 and EstConcatGrad. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

/* Copies between the whole and its parts along the axis: from parts to whole, or back. */
static void walk_parts(est_ref *r, int n, int64_t axis, const est_shape *whole, const est_shape *parts,
                       void (*move)(est_ref *r, int part, int64_t part_at, int64_t whole_at))
{
    int64_t start = 0;

    if (axis < 0) axis += whole->rank;
    for (int p = 0; p < n; p++) {
        for (int64_t i = 0; i < est_shape_count(&parts[p]); i++) {
            int64_t at[EST_RANK_MAX];

            coords_of(&parts[p], i, at);
            at[axis] += start;
            move(r, p, i, offset_of(whole, at));
        }
        start += parts[p].dim[axis];
    }
}

static void join(est_ref *r, int part, int64_t part_at, int64_t whole_at)
{
    r->out[0][whole_at] = r->in[part][part_at];
}

static void concat_ref(est_ref *r)
{
    int n = r->n_in - 1;

    walk_parts(r, n, (int64_t)r->in[n][0], &r->out_shape[0], r->in_shape, join);
}

static void cut(est_ref *r, int part, int64_t part_at, int64_t whole_at)
{
    r->out[part][part_at] = r->in[0][whole_at];
}

static void concat_grad_ref(est_ref *r)
{
    walk_parts(r, r->n_out, (int64_t)r->in[1][0], &r->in_shape[0], r->out_shape, cut);
}

#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "ConcatV2", { IN(3, 4), IN(3, 2), INT(1) }, .n_in = 3, .ref = concat_ref },
    { "ConcatV2", { IN(3, 4), IN(1, 4), IN(2, 4), INT(0) }, .n_in = 4, .ref = concat_ref },
    { "ConcatV2", { IN(2, 3, 5), IN(2, 1, 5), INT(-2) }, .n_in = 3, .ref = concat_ref },
    { "ConcatV2", { IN(2, 3), IN(2, 0), FED_INT(-1) }, .n_in = 3, .ref = concat_ref },
    { "ConcatV2", { IN(5), INT(0) }, .n_in = 2, .ref = concat_ref },
    { "ConcatV2", { IN(0, 3), IN(0, 2), INT(1) }, .n_in = 3, .ref = concat_ref },
    /* parallel over rows, with widths that hit every way of copying: 4, 8, 12, 20, 52, 64, 400, 1200 bytes */
    { "ConcatV2",
      { IN(700, 1), IN(700, 2), IN(700, 3), IN(700, 5), IN(700, 13), IN(700, 16), IN(700, 100), IN(700, 300), INT(1) },
      .n_in = 9,
      .ref  = concat_ref },
    { "ConcatV2", { IN(2, 90000), IN(2, 50001), INT(1) }, .n_in = 3, .ref = concat_ref }, /* few long rows */
    { "ConcatV2", { IN(40, 3), IN(40, 7), INT(1) }, .n_in = 3, .dtype = EST_BOOL, .ref = concat_ref },
    { "ConcatV2", { IN(4), IN(3), INT(0) }, .n_in = 3, .dtype = EST_I64, .ref = concat_ref },
    { "ConcatV2", { IN(3, 4), IN(2, 4), INT(1) }, .n_in = 3, REFUSED, .says = "[2,4]" },
    { "ConcatV2", { IN(3, 4), IN(3), INT(0) }, .n_in = 3, REFUSED, .says = "rank 2" },
    { "ConcatV2", { IN(3, 4), IN(3, 4), INT(2) }, .n_in = 3, REFUSED, .says = "axis 2" },
    { "ConcatV2", { SCALAR_IN, SCALAR_IN, INT(0) }, .n_in = 3, REFUSED, .says = "scalar" },
    { "EstConcatGrad", { IN(3, 6), INT(1), IN(3, 4), IN(3, 2) }, .n_in = 4, .ref = concat_grad_ref },
    { "EstConcatGrad", { IN(6, 3), INT(-2), IN(1, 3), IN(5, 3) }, .n_in = 4, .ref = concat_grad_ref },
    { "EstConcatGrad",
      { IN(600, 140), INT(1), IN(600, 16), IN(600, 13), IN(600, 111) },
      .n_in = 5,
      .ref  = concat_grad_ref },
};

static void test_string_tensors(void)
{
    static const char *const words[] = { "a", "b", "c", "d" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(2, 2), words);
    est_node                 x       = est_const(graph, tensor);

    check_strings(est_concat(EST_NODES(x, x), 1), EST_SHAPE(2, 4),
                  (const char *const[]){ "a", "b", "a", "b", "c", "d", "c", "d" });
    est_tensor_free(tensor);
    est_graph_free(graph);
}

/* More parts than a bit mask of inputs has bits, an unknown batch, and every gradient where it belongs. */
static void test_many_parts(void)
{
    enum { N = 40 };
    est_graph   *graph = test_graph();
    est_node     x[N], whole;
    est_gradient dx[N];
    est_feed     feeds[N];
    float        weights[2 * N];

    for (int i = 0; i < N; i++) {
        x[i]          = est_placeholder(graph, NULL, EST_F32, EST_SHAPE(-1, 2));
        feeds[i]      = (est_feed){ .node = x[i] };
        est_tensor *t = NULL;
        CHECK(est_tensor_f32(EST_SHAPE(3, 2), (const float[]){ 1, 2, 3, 4, 5, 6 }, &t) == EST_OK);
        feeds[i].value = t;
    }
    for (int i = 0; i < 2 * N; i++) weights[i] = (float)i;
    whole = est_concat((est_nodes){ x, N }, -1);
    CHECK(est_node_dim(whole, 1) == 2 * N && est_node_dim(whole, 0) == -1);
    est_gradients(est_sum(est_mul(whole, est_const_f32(graph, EST_SHAPE(2 * N), weights))), (est_nodes){ x, N }, dx);
    for (int i = 0; i < N; i += 13) {
        est_tensor *out = test_run(dx[i].values, (est_feeds){ feeds, N });
        CHECK(out != NULL && est_tensor_count(out) == 6);
        for (int k = 0; out != NULL && k < 6; k++) {
            CHECK(((const float *)est_tensor_data(out))[k] == (float)(2 * i + k % 2));
        }
        est_tensor_free(out);
    }
    for (int i = 0; i < N; i++) est_tensor_free((est_tensor *)(uintptr_t)feeds[i].value);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_string_tensors();
    test_many_parts();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
