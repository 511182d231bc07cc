/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of numbers that are rounded to bfloat16, on devices that multiply such numbers themselves: what is rounded
 * is stored in two bytes, and read so by every product.
 *
 * The roundings and products of a layer hang together: a product reads both factors in one form, and a rounding has one
 * form for all its users. So all that is reached from a rounding is changed, or nothing. */
#include "cuda/launchers.h"
#include "runtime/fuse.h"

#define NODES_MAX 64 /* roundings, and products; what is larger stays as it is */

typedef struct layer {
    const est_node_def *rounded[NODES_MAX], *product[NODES_MAX];
    est_node            packed[NODES_MAX]; /* in place of each of `rounded` */
    int                 n_rounded, n_products;
} layer;

static int place_of(const est_node_def *const *list, int n, int32_t id)
{
    int i = 0;

    while (i < n && list[i]->id != id) i++;
    return i;
}

/* Whether the node is in the list, or there was room for it. */
static bool add(const est_node_def **list, int *n, const est_node_def *node)
{
    int i = place_of(list, *n, node->id);

    if (i == NODES_MAX) return false;
    if (i == *n) list[(*n)++] = node;
    return true;
}

/* Products of few columns or terms have kernels of their own. */
static bool is_wide(const est_shape *shape)
{
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] >= 0 && shape->dim[i] <= EST_NARROW) return false;
    }
    return shape->rank == 2;
}

static bool is_factor(const est_fuser *f, est_edge e)
{
    const est_node_def *n = est_fuse_node(f, e.node);

    return n->op == &est_op_round_bfloat16 && n->n_control == 0 && is_wide(&n->shape[0]);
}

static bool is_product(const est_fuser *f, const est_node_def *n)
{
    if (n->op != &est_op_matmul && n->op != &est_op_matmul_bias && n->op != &est_op_matmul_relu_grad &&
        n->op != &est_op_matmul_relu_bias_grad) {
        return false;
    }
    if (n->n_control > 0 || !is_factor(f, n->in[0]) || !is_factor(f, n->in[1])) return false;
    for (int32_t i = 2; i < n->n_in; i++) {
        if (est_fuse_node(f, n->in[i].node)->op == &est_op_round_bfloat16) return false;
    }
    return true;
}

/* All that hangs together with the first rounding; false: it cannot be changed. */
static bool find_layer(const est_fuser *f, layer *l)
{
    for (int r = 0; r < l->n_rounded; r++) {
        const est_node_def *n = l->rounded[r];

        for (int32_t i = 0; i < est_fuse_users(f, n); i++) {
            int32_t             id   = f->uses.user[f->uses.first[n->id] + i];
            const est_node_def *user = id >= 0 ? est_fuse_node(f, id) : NULL;

            if (user == NULL || !is_product(f, user) || !add(l->product, &l->n_products, user)) return false;
            for (int k = 0; k < 2; k++) {
                if (!add(l->rounded, &l->n_rounded, est_fuse_node(f, user->in[k].node))) return false;
            }
        }
    }
    return true;
}

static bool pack_factor(est_fuser *f, const est_node_def *rounded, est_node *out)
{
    *out = est_build1(&est_op_pack_bfloat16, est_fuse_edge(f, rounded->in[0]), EST_NO_ATTRS);
    if (out->id < 0) return false;
    est_fuse_node(f, out->id)->order = rounded->order;
    return true;
}

static bool replace_product(est_fuser *f, const layer *l, const est_node_def *product)
{
    const est_op *op   = product->op == &est_op_matmul ? &est_op_matmul_bfloat16 : product->op;
    est_node      in[] = { l->packed[place_of(l->rounded, l->n_rounded, product->in[0].node)],
                           l->packed[place_of(l->rounded, l->n_rounded, product->in[1].node)],
                      product->n_in > 2 ? est_fuse_edge(f, product->in[2]) : EST_NO_NODE };
    est_attr      attr[3];
    int32_t       n_attr = 0;
    est_node      fresh;

    attr[n_attr++] = est_fuse_copy_bool(product, "transpose_a");
    attr[n_attr++] = est_fuse_copy_bool(product, "transpose_b");
    if (op == &est_op_matmul_bias) attr[n_attr++] = est_fuse_copy_bool(product, "relu");
    fresh = est_build(f->g, op, (est_nodes){ in, product->n_in }, (est_attrs){ attr, n_attr });
    if (!est_fuse_stand_in(f, fresh, 0, product)) return false;
    return product->n_out < 2 || est_fuse_replace(f, (est_edge){ product->id, 1 }, (est_edge){ fresh.id, 1 });
}

bool est_fuse_bfloat16(est_fuser *f, const est_node_def *rounded)
{
    layer l = { .rounded = { rounded }, .n_rounded = 1 };

    if (!is_factor(f, (est_edge){ rounded->id, 0 }) || !find_layer(f, &l)) return true;
    for (int i = 0; i < l.n_rounded; i++) {
        if (!pack_factor(f, l.rounded[i], &l.packed[i])) return false;
    }
    for (int i = 0; i < l.n_products; i++) {
        if (!replace_product(f, &l, l.product[i])) return false;
    }
    for (int i = 0; i < l.n_rounded; i++) f->uses.n[l.rounded[i]->id] = 0; /* done with */
    return true;
}
