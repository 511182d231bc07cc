/* SPDX-License-Identifier: Apache-2.0
 *
 * SpaceToBatchND and BatchToSpaceND: an image as many small ones, each with every block-th pixel of it, and back.
 * TensorFlow writes a dilated convolution as a plain one between the two; these run loaded models.
 *
 *   cells[p * batch + n, s, :] = space[n, s * block + offset(p) - before, :]
 *
 * where p counts the positions in a block, row by row; outside of the space there are zeros. */
#include <inttypes.h>
#include <string.h>

#include "ops/array.h"
#include "tensor/shape.h"

enum { INPUT, BLOCK, EDGES }; /* inputs; edges: paddings, or crops */

/* The two sides of the axes that a block has. */
typedef struct blocks {
    int     n;
    int64_t batch; /* of the space */
    int64_t block[EST_RANK_MAX], before[EST_RANK_MAX], space[EST_RANK_MAX], cells[EST_RANK_MAX];
    size_t  bytes; /* of a pixel */
} blocks;

/* --- shapes ------------------------------------------------------------------------------------------------------- */

/* One axis: its size on the other side; -1 while something is not known. */
static est_status infer_axis(const est_infer *c, bool to_cells, int i, int64_t *out)
{
    const est_value *edges = est_infer_value(c, EDGES), *block = est_infer_value(c, BLOCK);
    int64_t          dim = est_infer_dim(&c->in[INPUT], i + 1), size, total;

    *out = -1;
    if (edges == NULL || block == NULL || dim < 0 || block->v[i] == EST_VALUE_UNKNOWN ||
        edges->v[2 * i] == EST_VALUE_UNKNOWN || edges->v[2 * i + 1] == EST_VALUE_UNKNOWN) {
        return EST_OK;
    }
    size = block->v[i];
    if (size < 1 || edges->v[2 * i] < 0 || edges->v[2 * i + 1] < 0 ||
        __builtin_add_overflow(edges->v[2 * i], edges->v[2 * i + 1], &total)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "axis %d has a block of %" PRId64 " and edges of %" PRId64 " and %" PRId64
                        ": a block is 1 or more, an edge 0 or more",
                        i + 1, size, edges->v[2 * i], edges->v[2 * i + 1]);
    }
    if (to_cells ? __builtin_add_overflow(dim, total, &dim) || dim % size != 0
                 : __builtin_mul_overflow(dim, size, &dim) || dim < total) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "axis %d of %" PRId64 " with edges of %" PRId64 " does not go with blocks of %" PRId64, i + 1,
                        est_infer_dim(&c->in[INPUT], i + 1), total, size);
    }
    *out = to_cells ? dim / size : dim - total;
    return EST_OK;
}

static est_status infer_batch(const est_infer *c, bool to_cells, int n, int64_t *out)
{
    const est_value *block = est_infer_value(c, BLOCK);
    int64_t          dim = est_infer_dim(&c->in[INPUT], 0), positions = 1;

    *out = -1;
    for (int i = 0; i < n; i++) {
        if (block == NULL || dim < 0 || block->v[i] == EST_VALUE_UNKNOWN) return EST_OK;
        if (block->v[i] < 1 || __builtin_mul_overflow(positions, block->v[i], &positions)) {
            return est_fail(EST_INVALID_ARGUMENT, "axis %d has a block of %" PRId64, i + 1, block->v[i]);
        }
    }
    if (to_cells ? __builtin_mul_overflow(dim, positions, out) : dim % positions != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "a batch of %" PRId64 " does not go with blocks of %" PRId64, dim,
                        positions);
    }
    if (!to_cells) *out = dim / positions;
    return EST_OK;
}

static est_status infer(est_infer *c, bool to_cells)
{
    int     rank = c->in[INPUT].rank;
    int64_t n;
    char    a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    EST_TRY(est_infer_rank(c, BLOCK, 1));
    EST_TRY(est_infer_rank(c, EDGES, 2));
    n = est_infer_dim(&c->in[BLOCK], 0);
    if (n < 0) n = est_infer_dim(&c->in[EDGES], 0);
    if (rank < 0 || n < 0) return EST_OK;
    if (n >= rank || (est_infer_dim(&c->in[EDGES], 0) >= 0 && est_infer_dim(&c->in[EDGES], 0) != n) ||
        (est_infer_dim(&c->in[EDGES], 1) >= 0 && est_infer_dim(&c->in[EDGES], 1) != 2)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "edges of shape %s for blocks of %" PRId64 " axes and an input of shape %s; expected one pair "
                        "an axis behind the first",
                        est_shape_text(&c->in[EDGES], a), n, est_shape_text(&c->in[INPUT], b));
    }
    c->out[0] = c->in[INPUT];
    for (int i = 0; i < n; i++) EST_TRY(infer_axis(c, to_cells, i, &c->out[0].dim[i + 1]));
    return infer_batch(c, to_cells, (int)n, &c->out[0].dim[0]);
}

static est_status to_cells_infer(est_infer *c)
{
    return infer(c, true);
}

static est_status to_space_infer(est_infer *c)
{
    return infer(c, false);
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

static void find_blocks(const est_call *c, const est_shape *space, const est_shape *cells, blocks *out)
{
    out->n     = (int)c->in[BLOCK]->count;
    out->batch = space->dim[0];
    for (int i = 0; i < out->n; i++) {
        out->block[i]  = est_view_int(c->in[BLOCK], i);
        out->before[i] = est_view_int(c->in[EDGES], 2 * i);
        out->space[i]  = space->dim[i + 1];
        out->cells[i]  = cells->dim[i + 1];
    }
    out->bytes = (size_t)est_shape_product(space, out->n + 1, space->rank) * est_dtype_size(c->in[INPUT]->dtype);
}

/* The pixel of the space that cell `at` of image `image` is; -1: none, it is in an edge. */
static int64_t find_pixel(const blocks *b, int64_t image, const int64_t *at)
{
    int64_t position = image / b->batch, pixel = image % b->batch, offset[EST_RANK_MAX];

    for (int i = b->n - 1; i >= 0; i--) {
        offset[i] = position % b->block[i];
        position /= b->block[i];
    }
    for (int i = 0; i < b->n; i++) {
        int64_t k = at[i] * b->block[i] + offset[i] - b->before[i];

        if (k < 0 || k >= b->space[i]) return -1;
        pixel = pixel * b->space[i] + k;
    }
    return pixel;
}

/* Moves every pixel between the two sides, in the order of the cells. */
static void move(const blocks *b, char *space, char *cells, int64_t n_images, bool to_cells)
{
    for (int64_t image = 0; image < n_images; image++) {
        int64_t at[EST_RANK_MAX] = { 0 };
        int     axis;

        do {
            int64_t pixel = find_pixel(b, image, at);
            char   *there = space + (size_t)(pixel < 0 ? 0 : pixel) * b->bytes;

            if (pixel < 0 && to_cells) memset(cells, 0, b->bytes);
            if (pixel >= 0) memcpy(to_cells ? cells : there, to_cells ? there : cells, b->bytes);
            cells += b->bytes;
            for (axis = b->n - 1; axis >= 0 && ++at[axis] == b->cells[axis]; axis--) at[axis] = 0;
        } while (axis >= 0);
    }
}

static est_status to_cells_cpu(est_call *c)
{
    blocks b;

    if (c->out[0].count == 0) return EST_OK;
    find_blocks(c, &c->in[INPUT]->shape, &c->out[0].shape, &b);
    move(&b, c->in[INPUT]->data, c->out[0].data, c->out[0].shape.dim[0], true);
    return EST_OK;
}

static est_status to_space_cpu(est_call *c)
{
    blocks b;

    if (c->out[0].count == 0) return EST_OK;
    find_blocks(c, &c->out[0].shape, &c->in[INPUT]->shape, &b);
    move(&b, c->out[0].data, c->in[INPUT]->data, c->in[INPUT]->shape.dim[0], false);
    return EST_OK;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static void to_cells_grad(est_grad *g)
{
    g->din[INPUT].values = est_build3(&est_op_batch_to_space_nd, g->dout[0], g->in[BLOCK], g->in[EDGES], EST_NO_ATTRS);
}

static void to_space_grad(est_grad *g)
{
    g->din[INPUT].values = est_build3(&est_op_space_to_batch_nd, g->dout[0], g->in[BLOCK], g->in[EDGES], EST_NO_ATTRS);
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

#define TYPES "T: {float32, float64, int32, uint8, int64, bool}; Tblock_shape: {int32, int64} = int32; "

const est_op est_op_space_to_batch_nd = {
    .name      = "SpaceToBatchND",
    .signature = "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T; " TYPES
                 "Tpaddings: {int32, int64} = int32",
    .infer = to_cells_infer,
    .grad  = to_cells_grad,
    .cpu   = EST_KERNELS({ .run = to_cells_cpu }),
};

const est_op est_op_batch_to_space_nd = {
    .name      = "BatchToSpaceND",
    .signature = "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T; " TYPES
                 "Tcrops: {int32, int64} = int32",
    .infer = to_space_infer,
    .grad  = to_space_grad,
    .cpu   = EST_KERNELS({ .run = to_space_cpu }),
};
