/* SPDX-License-Identifier: Apache-2.0 — SpaceToBatchND and BatchToSpaceND. */
#include "support/coords.h"
#include "support/op_check.h"

/* Walks over the cells: each is a pixel of the space, or in an edge. */
static void blocks_ref(est_ref *r, bool to_cells)
{
    const est_shape *cells = to_cells ? &r->out_shape[0] : &r->in_shape[0];
    const est_shape *space = to_cells ? &r->in_shape[0] : &r->out_shape[0];
    int              n     = (int)r->in_shape[1].dim[0];

    for (int64_t i = 0; i < est_shape_count(cells); i++) {
        int64_t at[EST_RANK_MAX], position;
        int     inside = 1;

        coords_of(cells, i, at);
        position = at[0] / space->dim[0];
        at[0] %= space->dim[0];
        for (int k = n; k > 0; k--) {
            int64_t block = (int64_t)r->in[1][k - 1];

            at[k] = at[k] * block + position % block - (int64_t)r->in[2][2 * (k - 1)];
            position /= block;
            inside &= at[k] >= 0 && at[k] < space->dim[k];
        }
        if (to_cells) r->out[0][i] = inside ? r->in[0][offset_of(space, at)] : 0;
        if (!to_cells && inside) r->out[0][offset_of(space, at)] = r->in[0][i];
    }
}

static void to_cells_ref(est_ref *r)
{
    blocks_ref(r, true);
}

static void to_space_ref(est_ref *r)
{
    blocks_ref(r, false);
}

#define I32S(dims, is_constant, ...)                                                                                   \
    {                                                                                                                  \
        .shape = EST_SHAPE dims, .dtype = EST_I32, .values = (const double[]){ __VA_ARGS__ }, .constant = is_constant  \
    }
#define REFUSED .fails = EST_INVALID_ARGUMENT, .says

static const est_op_case cases[] = {
    { "SpaceToBatchND",
      { IN(2, 4, 6, 3), I32S((2), true, 2, 3), I32S((2, 2), true, 0, 0, 0, 0) },
      .ref = to_cells_ref },
    { "SpaceToBatchND",
      { IN(2, 3, 5, 1), I32S((2), false, 2, 3), I32S((2, 2), false, 1, 0, 2, 2) },
      .ref = to_cells_ref },
    { "SpaceToBatchND", { IN(3, 7, 2), I32S((1), true, 4), I32S((1, 2), true, 5, 0) }, .ref = to_cells_ref },
    { "SpaceToBatchND",
      { IN(1, 4), I32S((1), true, 2), I32S((1, 2), true, 0, 0) },
      .dtype = EST_I64,
      .hi    = 9,
      .ref   = to_cells_ref },
    { "SpaceToBatchND", { IN(0, 4, 2), I32S((1), true, 2), I32S((1, 2), true, 0, 0) }, .ref = to_cells_ref },
    { "SpaceToBatchND", { IN(2, 0, 2), I32S((1), true, 2), I32S((1, 2), true, 1, 1) }, .ref = to_cells_ref },
    { "SpaceToBatchND", { IN(2, 4), I32S((1), true, 3), I32S((1, 2), true, 0, 1) }, REFUSED = "axis 1 of 4" },
    { "SpaceToBatchND", { IN(2, 4), I32S((1), true, 0), I32S((1, 2), true, 0, 0) }, REFUSED = "block of 0" },
    { "SpaceToBatchND", { IN(2, 4), I32S((1), true, 2), I32S((1, 2), true, -1, 1) }, REFUSED = "edges of -1" },
    { "SpaceToBatchND", { IN(2), I32S((1), true, 2), I32S((1, 2), true, 0, 0) }, REFUSED = "blocks of 1 axes" },
    { "SpaceToBatchND", { IN(2, 4), I32S((1), true, 2), I32S((2, 2), true, 0, 0, 0, 0) }, REFUSED = "shape [2,2]" },

    { "BatchToSpaceND",
      { IN(12, 2, 2, 3), I32S((2), true, 2, 3), I32S((2, 2), true, 0, 0, 0, 0) },
      .ref = to_space_ref },
    { "BatchToSpaceND",
      { IN(12, 2, 3, 1), I32S((2), false, 2, 3), I32S((2, 2), false, 1, 0, 2, 2) },
      .ref = to_space_ref },
    { "BatchToSpaceND", { IN(8, 3, 2), I32S((1), true, 4), I32S((1, 2), true, 5, 0) }, .ref = to_space_ref },
    { "BatchToSpaceND", { IN(0, 3, 2), I32S((1), true, 4), I32S((1, 2), true, 0, 0) }, .ref = to_space_ref },
    { "BatchToSpaceND", { IN(3, 3), I32S((1), true, 2), I32S((1, 2), true, 0, 0) }, REFUSED = "a batch of 3" },
    { "BatchToSpaceND", { IN(4, 3), I32S((1), true, 2), I32S((1, 2), true, 4, 3) }, REFUSED = "edges of 7" },
};

EST_OP_CHECK_MAIN(cases)
