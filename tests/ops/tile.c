/* SPDX-License-Identifier: Apache-2.0 — Tile and EstTileGrad. */
#include "support/coords.h"
#include "support/graph_test.h"
#include "support/op_check.h"

static int64_t source_of(const est_shape *tiled, const est_shape *one, int64_t i)
{
    int64_t at[EST_RANK_MAX];

    coords_of(tiled, i, at);
    for (int k = 0; k < one->rank; k++) at[k] %= one->dim[k];
    return offset_of(one, at);
}

static void tile_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) {
        r->out[0][i] = r->in[0][source_of(&r->out_shape[0], &r->in_shape[0], i)];
    }
}

static void tile_grad_ref(est_ref *r)
{
    for (int64_t i = 0; i < est_shape_count(&r->out_shape[0]); i++) r->out[0][i] = 0;
    for (int64_t i = 0; i < est_shape_count(&r->in_shape[0]); i++) {
        r->out[0][source_of(&r->in_shape[0], &r->out_shape[0], i)] += r->in[0][i];
    }
}

#define REFUSED .fails = EST_INVALID_ARGUMENT

static const est_op_case cases[] = {
    { "Tile", { IN(2, 3), INTS(2, 2) }, .ref = tile_ref },
    { "Tile", { IN(2, 3), FED_INTS(1, 4) }, .ref = tile_ref },
    { "Tile", { IN(5), INTS(3) }, .ref = tile_ref },
    { "Tile", { IN(2, 3, 1, 2, 1), INTS(2, 1, 3, 2, 2) }, .ref = tile_ref }, /* more axes than a reshape could pair */
    { "Tile", { IN(2, 3), INTS(2, 0) }, .ref = tile_ref },
    { "Tile", { IN(0, 3), INTS(2, 2) }, .ref = tile_ref },
    { "Tile", { SCALAR_IN, { .shape = EST_SHAPE(0), .dtype = EST_I32, .constant = true } }, .ref = tile_ref },
    { "Tile", { IN(100, 30), INTS(4, 9) }, .ref = tile_ref },
    { "Tile", { IN(3, 1), INTS(1, 200) }, .dtype = EST_I64, .ref = tile_ref },
    { "Tile", { IN(2, 3), INTS(2) }, REFUSED, .says = "multiples of shape [1]" },
    { "Tile", { IN(2, 3), INTS(2, -1) }, REFUSED, .says = "-1" },
    { "EstTileGrad", { IN(4, 6), INTS(2, 2) }, .tol = 1e-6, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(4, 6), INTS(1, 3) }, .tol = 1e-6, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(6, 5, 4), INTS(3, 1, 2) }, .tol = 1e-6, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(4, 6), INTS(1, 1) }, .tol = 1e-6, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(2, 0), INTS(2, 2) }, .tol = 1e-6, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(300, 70), INTS(3, 7) }, .tol = 1e-5, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(6), INTS(2) }, .dtype = EST_I32, .lo = -9, .hi = 9, .ref = tile_grad_ref },
    { "EstTileGrad", { IN(5), INTS(2) }, REFUSED, .says = "5" },
};

static void test_string_tensors(void)
{
    est_graph  *graph = test_graph();
    est_tensor *a     = test_strings(EST_SHAPE(2), (const char *const[]){ "a", "b" });

    check_strings(est_tile(est_const(graph, a), EST_I64S(2)), EST_SHAPE(4),
                  (const char *const[]){ "a", "b", "a", "b" });
    est_tensor_free(a);
    est_graph_free(graph);
}

int main(int argc, char **argv)
{
    test_string_tensors();
    return est_op_check(cases, sizeof cases / sizeof cases[0], argc, argv) != 0 || graph_test_failures != 0;
}
