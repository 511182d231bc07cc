/* SPDX-License-Identifier: Apache-2.0 — Pack and Unpack. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

/* Element i of part p, in the stacked tensor. */
static int64_t stacked_at(const est_ref *r, const est_shape *stacked, const est_shape *part, int p, int64_t i)
{
    int64_t axis = est_node_int(r->node, "axis"), at[EST_RANK_MAX], whole[EST_RANK_MAX];

    if (axis < 0) axis += stacked->rank;
    coords_of(part, i, at);
    for (int k = 0; k < stacked->rank; k++) whole[k] = k < axis ? at[k] : k == axis ? p : at[k - 1];
    return offset_of(stacked, whole);
}

static void pack_ref(est_ref *r)
{
    for (int p = 0; p < r->n_in; p++) {
        for (int64_t i = 0; i < est_shape_count(&r->in_shape[p]); i++) {
            r->out[0][stacked_at(r, &r->out_shape[0], &r->in_shape[p], p, i)] = r->in[p][i];
        }
    }
}

static void unpack_ref(est_ref *r)
{
    for (int p = 0; p < r->n_out; p++) {
        for (int64_t i = 0; i < est_shape_count(&r->out_shape[p]); i++) {
            r->out[p][i] = r->in[0][stacked_at(r, &r->in_shape[0], &r->out_shape[p], p, i)];
        }
    }
}

#define AXIS(n)         EST_ATTRS(est_attr_int("axis", n))
#define UNPACK(n, axis) EST_ATTRS(est_attr_int("num", n), est_attr_int("axis", axis))
#define REFUSED         .fails = EST_INVALID_ARGUMENT

static void test_string_tensors(void)
{
    est_graph  *graph = test_graph();
    est_tensor *a     = test_strings(EST_SHAPE(2), (const char *const[]){ "a", "b" });
    est_tensor *b     = test_strings(EST_SHAPE(2), (const char *const[]){ "c", "d" });
    est_node    both  = est_pack(EST_NODES(est_const(graph, a), est_const(graph, b)), 1), parts[2];

    check_strings(both, EST_SHAPE(2, 2), (const char *const[]){ "a", "c", "b", "d" });
    est_unpack(both, 2, 0, parts);
    check_strings(parts[1], EST_SHAPE(2), (const char *const[]){ "b", "d" });
    est_tensor_free(a);
    est_tensor_free(b);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    const est_op_case cases[] = {
        { "Pack", { IN(3, 4), IN(3, 4) }, .n_in = 2, .ref = pack_ref },
        { "Pack", { IN(3, 4), IN(3, 4), IN(3, 4) }, .n_in = 3, .attrs = AXIS(1), .ref = pack_ref },
        { "Pack", { IN(3, 4), IN(3, 4) }, .n_in = 2, .attrs = AXIS(-1), .ref = pack_ref },
        { "Pack", { SCALAR_IN, SCALAR_IN, SCALAR_IN }, .n_in = 3, .ref = pack_ref },
        { "Pack", { IN(5) }, .n_in = 1, .attrs = AXIS(1), .ref = pack_ref },
        { "Pack", { IN(0, 2), IN(0, 2) }, .n_in = 2, .ref = pack_ref },
        { "Pack", { IN(500, 40), IN(500, 40), IN(500, 40) }, .n_in = 3, .attrs = AXIS(1), .ref = pack_ref },
        { "Pack", { SCALAR_IN, SCALAR_IN }, .n_in = 2, .dtype = EST_I32, .ref = pack_ref },
        { "Pack", { IN(3, 4), IN(4, 3) }, .n_in = 2, REFUSED, .says = "[4,3]" },
        { "Pack", { IN(3), IN(3) }, .n_in = 2, .attrs = AXIS(2), REFUSED, .says = "axis 2" },
        { "Unpack", { IN(3, 4) }, .attrs = UNPACK(3, 0), .ref = unpack_ref },
        { "Unpack", { IN(3, 4) }, .attrs = UNPACK(4, -1), .ref = unpack_ref },
        { "Unpack", { IN(2, 3, 4) }, .attrs = UNPACK(3, 1), .ref = unpack_ref },
        { "Unpack", { IN(5) }, .attrs = UNPACK(5, 0), .ref = unpack_ref },
        { "Unpack", { IN(600, 3, 30) }, .attrs = UNPACK(3, 1), .ref = unpack_ref },
        { "Unpack", { IN(3, 4) }, .attrs = UNPACK(2, 0), REFUSED, .says = "[3,4]" },
    };

    test_string_tensors();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
