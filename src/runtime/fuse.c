/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusing: chains of operations that cross memory more often than they need become one.
 *
 *   MatMul, BiasAdd, [Relu]                    -> EstMatMulBias        one pass over the product less, or two
 *   MatMul, ReluGrad                           -> EstMatMulReluGrad    one pass less
 *   Fill, AssignVariableOp                     -> EstAssignFill        no pass but that over the variable, for 0 none
 *   Conv2D, BiasAdd, Relu, MaxPool 2x2 and the -> EstConvPool,         the activation before pooling is never stored,
 *   gradients of all four                         EstConvPoolGrad      nor its gradient
 *   what lower() makes of EstEmbeddingBag      -> EstEmbeddingBag      in exported models: some twenty operations
 *   EstEmbeddingBag and others, ConcatV2       -> EstEmbeddingBagConcat
 *   EstConcatGrad, EstEmbeddingBagGrad         -> EstEmbeddingBagSliceGrad    what is joined is never apart
 *
 * On devices that run by themselves, where each pass over memory is a launch:
 *
 *   EstMatMulReluGrad, BiasAddGrad             -> EstMatMulReluBiasGrad       one pass for the mask and the sums
 *   a loss, its mean and the gradient of that  -> EstSparseXentAndGrad, EstSigmoidXentAndGrad
 *   ResourceGather and others, ConcatV2        -> EstGatherConcat             rows are copied once; with columns of
 *                                                                             zeros where that makes them even
 *   ResourceGather and others, AddN            -> EstGatherSum                no row is stored apart
 *   AddV2 of two logits, EstSigmoidXentAndGrad -> EstSigmoidXentAndGrad       which adds them
 *   EstConcatGrad, EstDedup                    -> EstDedupSlice
 *   EstDedup or EstDedupSlice, an update       -> EstSortIds, an update that sums: sums of rows are never in memory
 *   EstRoundBfloat16, MatMul and the like      -> EstPackBfloat16, EstMatMulBfloat16 and the like: factors of two bytes
 *   EstSumToShape of a shape that is the same  -> nothing
 *
 * A chain is fused only if nobody else looks at what is between and nothing in it waits for something else. Whole
 * chains are matched and then replaced; a chain that does not fit stays as it is. */
#include "runtime/fuse.h"

#include <math.h>
#include <string.h>

#include "kernels/lazy_rows.h"

/* The op that makes input i of n, if it is `op`; NULL otherwise. */
static const est_node_def *made_by(const est_fuser *f, const est_node_def *n, int i, const est_op *op)
{
    const est_node_def *maker = est_fuse_node(f, n->in[i].node);

    return maker->op == op && n->in[i].output == 0 && maker->n_control == 0 ? maker : NULL;
}

/* The one user of n that is `op`; NULL when there is none or more than one. */
static const est_node_def *user_that_is(const est_fuser *f, const est_node_def *n, const est_op *op)
{
    const est_node_def *found = NULL;

    for (int32_t i = 0; i < f->uses.n[n->id]; i++) {
        int32_t id = f->uses.user[f->uses.first[n->id] + i];
        if (id < 0 || est_fuse_node(f, id)->op != op) continue;
        if (found != NULL && found->id != id) return NULL;
        found = est_fuse_node(f, id);
    }
    return found != NULL && found->n_control == 0 ? found : NULL;
}

/* --- matrix products ---------------------------------------------------------------------------------------------- */

static bool fuse_bias(est_fuser *f, const est_node_def *bias)
{
    const est_node_def *product = made_by(f, bias, 0, &est_op_matmul);
    const est_node_def *relu;

    if (product == NULL || !est_fuse_is_f32(bias) || est_fuse_users(f, product) != 1) return true;
    relu           = est_fuse_users(f, bias) == 1 ? user_that_is(f, bias, &est_op_relu) : NULL;
    est_node fresh = est_build(
        f->g, &est_op_matmul_bias,
        EST_NODES(est_fuse_edge(f, product->in[0]), est_fuse_edge(f, product->in[1]), est_fuse_edge(f, bias->in[1])),
        EST_ATTRS(est_fuse_copy_bool(product, "transpose_a"), est_fuse_copy_bool(product, "transpose_b"),
                  est_attr_bool("relu", relu != NULL)));
    return est_fuse_stand_in(f, fresh, 0, relu != NULL ? relu : bias);
}

static bool fuse_relu_grad(est_fuser *f, const est_node_def *grad)
{
    const est_node_def *product = made_by(f, grad, 0, &est_op_matmul);

    if (product == NULL || !est_fuse_is_f32(grad) || est_fuse_users(f, product) != 1) return true;
    est_node fresh = est_build(
        f->g, &est_op_matmul_relu_grad,
        EST_NODES(est_fuse_edge(f, product->in[0]), est_fuse_edge(f, product->in[1]), est_fuse_edge(f, grad->in[1])),
        EST_ATTRS(est_fuse_copy_bool(product, "transpose_a"), est_fuse_copy_bool(product, "transpose_b")));
    return est_fuse_stand_in(f, fresh, 0, grad);
}

static bool fuse_relu_bias_grad(est_fuser *f, const est_node_def *sums)
{
    const est_node_def *product = made_by(f, sums, 0, &est_op_matmul_relu_grad);
    est_node            fresh;

    if (product == NULL) return true;
    fresh = est_build(
        f->g, &est_op_matmul_relu_bias_grad,
        EST_NODES(est_fuse_edge(f, product->in[0]), est_fuse_edge(f, product->in[1]), est_fuse_edge(f, product->in[2])),
        EST_ATTRS(est_fuse_copy_bool(product, "transpose_a"), est_fuse_copy_bool(product, "transpose_b")));
    return est_fuse_stand_in(f, fresh, 0, product) &&
           est_fuse_replace(f, (est_edge){ sums->id, 0 }, (est_edge){ fresh.id, 1 });
}

/* --- constants into variables ------------------------------------------------------------------------------------- */

/* Others may look at the Fill, too: it costs them nothing. */
static bool fuse_assign_fill(est_fuser *f, const est_node_def *assign)
{
    const est_node_def *fill = made_by(f, assign, 1, &est_op_fill);
    est_node            fresh;

    if (fill == NULL || !est_shape_equal(&fill->shape[0], &est_fuse_node(f, assign->in[0].node)->shape[0])) return true;
    fresh = est_build(f->g, &est_op_assign_fill,
                      EST_NODES(est_fuse_edge(f, assign->in[0]), est_fuse_edge(f, fill->in[1])), EST_NO_ATTRS);
    return est_fuse_stand_in(f, fresh, 0, assign);
}

/* --- first values that may wait ----------------------------------------------------------------------------------- */

/* What an initializer makes: a distribution, times a factor, plus a term. */
typedef struct drawn {
    const est_node_def *random; /* NULL: a constant, the term */
    double              factor, term;
} drawn;

static int distribution_of(const est_op *op)
{
    static const struct {
        const est_op *op;
        int           distribution;
    } known[] = {
        { &est_op_random_uniform, EST_ROW_UNIFORM },        { &est_op_random_uniform_part, EST_ROW_UNIFORM },
        { &est_op_random_standard_normal, EST_ROW_NORMAL }, { &est_op_random_standard_normal_part, EST_ROW_NORMAL },
        { &est_op_truncated_normal, EST_ROW_TRUNCATED },    { &est_op_truncated_normal_part, EST_ROW_TRUNCATED },
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].op == op) return known[i].distribution;
    }
    return EST_ROW_CONSTANT;
}

/* A constant number that is finite. */
static bool is_number(const est_fuser *f, est_edge e, double *out)
{
    const est_node_def *def = est_fuse_node(f, e.node);
    const est_tensor   *value;

    if (def->op->source != EST_SOURCE_CONST || def->shape[0].rank != 0) return false;
    value = est_node_attr(def, "value")->tensor;
    if (est_tensor_dtype(value) == EST_F32) {
        *out = (double)*(const float *)est_tensor_data(value);
    } else if (est_tensor_dtype(value) == EST_F64) {
        *out = *(const double *)est_tensor_data(value);
    } else {
        return false;
    }
    return isfinite(*out);
}

/* The tensor that `n`, made by `op` of a tensor and a number, is made of; `n` itself when it is not. */
static const est_node_def *without_number(const est_fuser *f, const est_node_def *n, const est_op *op, double *number)
{
    for (int i = 0; i < 2 && n->op == op && n->n_control == 0; i++) {
        if (is_number(f, n->in[i], number)) return est_fuse_node(f, n->in[1 - i].node);
    }
    return n;
}

static bool match_drawn(const est_fuser *f, const est_node_def *value, drawn *d)
{
    *d = (drawn){ .factor = 1, .term = -0.0 }; /* which change nothing, not even the sign of a zero */
    if (value->n_control > 0) return false;
    if (value->op == &est_op_fill) return is_number(f, value->in[1], &d->term);
    d->random = without_number(f, value, &est_op_add, &d->term);
    d->random = without_number(f, d->random, &est_op_mul, &d->factor);
    return d->random->n_control == 0 && distribution_of(d->random->op) != EST_ROW_CONSTANT;
}

/* Whether nothing but one node touches the variable of a handle: another handle may be of the same one. */
static bool is_touched_once(const est_fuser *f, const est_node_def *handle)
{
    const char *name = est_node_string(handle, "shared_name");

    for (int32_t id = 0; id < est_graph_size(f->g); id++) {
        const est_node_def *n = est_fuse_node(f, id);

        if (n->op == handle->op && id != handle->id && est_fuse_users(f, n) > 0 &&
            strcmp(est_node_string(n, "shared_name"), name) == 0) {
            return false;
        }
    }
    return est_fuse_users(f, handle) == 1;
}

static bool fuse_assign_draw(est_fuser *f, const est_node_def *assign)
{
    const est_node_def *handle = est_fuse_node(f, assign->in[0].node), *value = est_fuse_node(f, assign->in[1].node);
    est_dtype           dtype = est_node_type(assign, "dtype");
    drawn               d;
    est_node            fresh;

    if (!est_shape_equal(&value->shape[0], &handle->shape[0]) || !est_lazy_may_wait(dtype, &handle->shape[0]) ||
        !match_drawn(f, value, &d) || !is_touched_once(f, handle)) {
        return true;
    }
    fresh = est_build1(
        &est_op_assign_draw, est_fuse_edge(f, assign->in[0]),
        EST_ATTRS(
            est_attr_type("dtype", dtype), est_attr_float("factor", d.factor), est_attr_float("term", d.term),
            est_attr_int("distribution", d.random != NULL ? distribution_of(d.random->op) : 0),
            est_attr_int("seed", d.random != NULL ? est_node_int(d.random, "seed") : 0),
            est_attr_int("seed2", d.random != NULL ? est_node_int(d.random, "seed2") : 0),
            est_attr_int("first", d.random != NULL && d.random->op->planned ? est_node_int(d.random, "first") : 0)));
    return est_fuse_stand_in(f, fresh, 0, assign);
}

/* --- convolution with pooling ------------------------------------------------------------------------------------- */

/* The chain forward, and back when the step trains. */
typedef struct conv_chain {
    const est_node_def *conv, *bias, *relu, *pool;
    const est_node_def *pool_grad, *relu_grad, *dbias, *dfilter; /* all NULL or all set */
    bool                bfloat16;                                /* x, the filter and what comes back are rounded */
} conv_chain;

static bool ints_are(est_i64s have, int64_t a, int64_t b)
{
    return have.n == 4 && have.data[0] == 1 && have.data[1] == a && have.data[2] == b && have.data[3] == 1;
}

/* What the kernel can do: stride 1 without padding, then windows of 2x2 side by side; channels in whole vectors. */
static bool chain_suits(const conv_chain *c)
{
    const est_shape *filter = &c->conv->shape[0]; /* only its channels are needed here */

    return est_fuse_is_f32(c->conv) && strcmp(est_node_string(c->conv, "padding"), "VALID") == 0 &&
           strcmp(est_node_string(c->pool, "padding"), "VALID") == 0 &&
           ints_are(est_node_ints(c->conv, "strides"), 1, 1) && ints_are(est_node_ints(c->conv, "dilations"), 1, 1) &&
           ints_are(est_node_ints(c->pool, "strides"), 2, 2) && ints_are(est_node_ints(c->pool, "ksize"), 2, 2) &&
           filter->rank == 4 && filter->dim[3] > 0 && filter->dim[3] % 8 == 0;
}

static bool match_forward(const est_fuser *f, const est_node_def *pool, conv_chain *c)
{
    c->pool = pool;
    c->relu = made_by(f, pool, 0, &est_op_relu);
    c->bias = c->relu != NULL ? made_by(f, c->relu, 0, &est_op_bias_add) : NULL;
    c->conv = c->bias != NULL ? made_by(f, c->bias, 0, &est_op_conv2d) : NULL;
    if (c->conv == NULL || est_fuse_users(f, c->conv) != 1 || est_fuse_users(f, c->bias) != 1) return false;
    c->bfloat16 = made_by(f, c->conv, 0, &est_op_round_bfloat16) != NULL &&
                  made_by(f, c->conv, 1, &est_op_round_bfloat16) != NULL;
    return chain_suits(c);
}

/* The gradient of the filter, and what it multiplies: the gradient of the bias's sum, or that rounded. */
static bool match_filter_grad(const est_fuser *f, conv_chain *c)
{
    const est_node_def *dy = c->relu_grad;

    if (c->bfloat16) dy = user_that_is(f, dy, &est_op_round_bfloat16);
    c->dfilter = dy != NULL ? user_that_is(f, dy, &est_op_conv2d_backprop_filter) : NULL;
    return c->dfilter != NULL && est_fuse_users(f, dy) == (c->bfloat16 ? 1 : 2) && c->dfilter->in[2].node == dy->id &&
           est_fuse_same_edge(c->dfilter->in[0], c->conv->in[0]);
}

/* True also when the step has no way back; then nothing but the pool may look at the activation. */
static bool match_backward(const est_fuser *f, conv_chain *c)
{
    if (est_fuse_users(f, c->relu) == 1) return true;
    c->pool_grad = user_that_is(f, c->relu, &est_op_max_pool_grad);
    c->relu_grad = c->pool_grad != NULL ? user_that_is(f, c->pool_grad, &est_op_relu_grad) : NULL;
    if (c->relu_grad == NULL || est_fuse_users(f, c->relu) != 3 || est_fuse_users(f, c->pool_grad) != 1) return false;
    if (c->pool_grad->in[0].node != c->relu->id || c->pool_grad->in[1].node != c->pool->id) return false;
    if (c->relu_grad->in[0].node != c->pool_grad->id || c->relu_grad->in[1].node != c->relu->id) return false;
    c->dbias = user_that_is(f, c->relu_grad, &est_op_bias_add_grad);
    return c->dbias != NULL && est_fuse_users(f, c->relu_grad) == 2 && match_filter_grad(f, c);
}

/* Input i of the convolution, before it is rounded. */
static est_node conv_factor(const est_fuser *f, const conv_chain *c, int i)
{
    return est_fuse_edge(f, c->bfloat16 ? est_fuse_node(f, c->conv->in[i].node)->in[0] : c->conv->in[i]);
}

/* The shape of the filter, which has to be there, and not rounded for this. */
static est_node filter_sizes(const est_fuser *f, const conv_chain *c)
{
    const est_node_def *shape = made_by(f, c->dfilter, 1, &est_op_shape);
    est_node            fresh;

    if (!c->bfloat16 || shape == NULL || !est_fuse_same_edge(shape->in[0], c->conv->in[1])) {
        return est_fuse_edge(f, c->dfilter->in[1]);
    }
    fresh = est_build1(&est_op_shape, conv_factor(f, c, 1),
                       EST_ATTRS(est_attr_type("out_type", est_node_type(shape, "out_type"))));
    if (fresh.id >= 0) est_fuse_node(f, fresh.id)->order = shape->order;
    return fresh;
}

static bool fuse_conv_pool(est_fuser *f, const est_node_def *pool)
{
    conv_chain c = { 0 };
    est_node   forward, back;

    if (!match_forward(f, pool, &c) || !match_backward(f, &c)) return true;
    forward = est_build(f->g, &est_op_conv_pool,
                        EST_NODES(conv_factor(f, &c, 0), conv_factor(f, &c, 1), est_fuse_edge(f, c.bias->in[1])),
                        EST_ATTRS(est_attr_bool("bfloat16", c.bfloat16)));
    if (!est_fuse_stand_in(f, forward, 0, c.pool)) return false;
    if (c.dfilter == NULL) return true;
    back = est_build(f->g, &est_op_conv_pool_grad,
                     EST_NODES(conv_factor(f, &c, 0), filter_sizes(f, &c), est_fuse_edge(f, c.pool_grad->in[2]),
                               (est_node){ f->g, forward.id, 1 }),
                     EST_ATTRS(est_attr_bool("bfloat16", c.bfloat16)));
    return est_fuse_stand_in(f, back, 0, c.dfilter) && est_fuse_stand_in(f, back, 1, c.dbias);
}

/* --- bags of exported models ------------------------------------------------------------------------------------ */

/* A bag of float32 rows by int64 ids. */
static est_status make_bag_pattern(int combiner, bool weighted, est_pattern *out)
{
    est_graph *g = NULL;
    est_node   table, ids, splits, weights = EST_NO_NODE;
    est_status status;

    EST_TRY(est_graph_create(0, &g));
    table  = est_build0(g, &est_op_var_handle,
                        EST_ATTRS(est_attr_type("dtype", EST_F32), est_attr_shape("shape", EST_SHAPE(-1, -1))));
    ids    = est_placeholder(g, "ids", EST_I64, EST_SHAPE(-1));
    splits = est_placeholder(g, "splits", EST_I64, EST_SHAPE(-1));
    if (weighted) weights = est_placeholder(g, "weights", EST_F32, EST_SHAPE(-1));
    status = est_pattern_create(
        est_embedding_bag(table, (est_ragged_node){ .values = ids, .splits = splits }, weights, combiner, 0), out);
    est_graph_free(g);
    return status;
}

/* Whether a node sums rows of a variable that were multiplied by their weights: what all such bags end with. */
static bool sums_rows(const est_fuser *f, const est_node_def *sum)
{
    const est_node_def *scaled = sum->op == &est_op_unsorted_segment_sum ? made_by(f, sum, 0, &est_op_mul) : NULL;

    return scaled != NULL && est_fuse_is_f32(sum) && made_by(f, scaled, 0, &est_op_resource_gather) != NULL;
}

static bool raise_bag(est_fuser *f, const est_node_def *end, int combiner, bool weighted)
{
    est_pattern *pattern = &f->bags[combiner][weighted];
    est_edge     in[EST_PATTERN_INPUTS_MAX];
    est_status   status = pattern->graph == NULL ? make_bag_pattern(combiner, weighted, pattern) : EST_OK;

    if (status != EST_OK) {
        (void)est_graph_poison(f->g, status);
        return false;
    }
    if (!est_pattern_match(pattern, f->g, end->id, in)) return true;
    return est_fuse_stand_in(
        f,
        est_embedding_bag(est_fuse_edge(f, in[0]),
                          (est_ragged_node){ .values = est_fuse_edge(f, in[1]), .splits = est_fuse_edge(f, in[2]) },
                          weighted ? est_fuse_edge(f, in[3]) : EST_NO_NODE, combiner, 0),
        0, end);
}

/* Not in a step that writes: a lookup that sees the old value (P2) might wait, as a part of the bag, for something that
 * comes after the write. */
static bool raise_sum(est_fuser *f, const est_node_def *sum)
{
    if (f->writes || !sums_rows(f, sum)) return true;
    return raise_bag(f, sum, EST_COMBINE_SUM, false) && raise_bag(f, sum, EST_COMBINE_SUM, true);
}

static bool raise_mean(est_fuser *f, const est_node_def *quotient)
{
    if (f->writes || !sums_rows(f, est_fuse_node(f, quotient->in[0].node))) return true;
    for (int weighted = 0; weighted < 2; weighted++) {
        if (!raise_bag(f, quotient, EST_COMBINE_MEAN, weighted != 0)) return false;
        if (!raise_bag(f, quotient, EST_COMBINE_SQRTN, weighted != 0)) return false;
    }
    return true;
}

/* --- on devices that run by themselves: losses -------------------------------------------------------------------- */

/* Whether n spreads the gradient of a sum or a mean of all losses of an op, which is a constant; then it cannot depend
 * on what it is fused with. */
static const est_node_def *spread_losses(const est_fuser *f, const est_node_def *n)
{
    const est_node_def *losses = est_fuse_node(f, n->in[1].node), *dy = est_fuse_node(f, n->in[0].node);

    return dy->op->source == EST_SOURCE_CONST && dy->shape[0].rank == 0 && n->in[1].output == 0 &&
                   losses->n_control == 0
               ? losses
               : NULL;
}

/* The sum or mean of all losses; NULL when nobody asks for it. */
static const est_node_def *total_of(const est_fuser *f, const est_node_def *loss, bool mean)
{
    for (int32_t i = 0; i < f->uses.n[loss->id]; i++) {
        int32_t             id = f->uses.user[f->uses.first[loss->id] + i];
        const est_node_def *n  = id >= 0 ? est_fuse_node(f, id) : NULL;

        if (n != NULL && n->op == (mean ? &est_op_reduce_mean : &est_op_reduce_sum) && n->shape[0].rank == 0 &&
            n->n_control == 0 && est_fuse_same_edge(n->in[0], (est_edge){ loss->id, 0 })) {
            return n;
        }
    }
    return NULL;
}

/* Puts a loss with its total and gradient where the loss, the total and the last step of the gradient stood. */
static bool replace_loss(est_fuser *f, const est_op *op, const est_node_def *loss, const est_node_def *spread,
                         const est_node_def *gradient)
{
    const est_node_def *total = total_of(f, loss, est_node_bool(spread, "mean"));
    est_node            fresh = est_build(
                   f->g, op,
                   EST_NODES(est_fuse_edge(f, loss->in[0]), est_fuse_edge(f, loss->in[1]), est_fuse_edge(f, spread->in[0])),
                   EST_ATTRS(est_fuse_copy_bool(spread, "mean")));

    if (fresh.id >= 0) est_fuse_node(f, fresh.id)->stands_for = loss->op;
    return est_fuse_stand_in(f, fresh, 0, loss) &&
           est_fuse_replace(f, (est_edge){ gradient->id, 0 }, (est_edge){ fresh.id, 1 }) &&
           (total == NULL || est_fuse_replace(f, (est_edge){ total->id, 0 }, (est_edge){ fresh.id, 2 }));
}

/* backprop * expand_dims(spread) */
static bool fuse_sparse_xent(est_fuser *f, const est_node_def *spread)
{
    const est_node_def *loss    = spread_losses(f, spread);
    const est_node_def *column  = user_that_is(f, spread, &est_op_expand_dims);
    const est_node_def *product = column != NULL ? user_that_is(f, column, &est_op_mul) : NULL;
    const est_edge      back    = { loss != NULL ? loss->id : -1, 1 };

    if (loss == NULL || loss->op != &est_op_sparse_softmax_xent || product == NULL) return true;
    if (!(est_fuse_same_edge(product->in[1], back) && product->in[0].node == column->id) &&
        !(est_fuse_same_edge(product->in[0], back) && product->in[1].node == column->id)) {
        return true;
    }
    return replace_loss(f, &est_op_sparse_xent_and_grad, loss, spread, product);
}

/* spread * (sigmoid(logits) - labels) */
static bool fuse_sigmoid_xent(est_fuser *f, const est_node_def *spread)
{
    const est_node_def *loss    = spread_losses(f, spread);
    const est_node_def *product = user_that_is(f, spread, &est_op_mul);
    const est_node_def *less, *sigmoid;

    if (loss == NULL || loss->op != &est_op_sigmoid_xent || product == NULL) return true;
    less    = made_by(f, product, product->in[0].node == spread->id ? 1 : 0, &est_op_sub);
    sigmoid = less != NULL ? made_by(f, less, 0, &est_op_sigmoid) : NULL;
    if (sigmoid == NULL || !est_fuse_same_edge(sigmoid->in[0], loss->in[0]) ||
        !est_fuse_same_edge(less->in[1], loss->in[1]))
        return true;
    return replace_loss(f, &est_op_sigmoid_xent_and_grad, loss, spread, product);
}

/* --- on devices that run by themselves: gradients of sums --------------------------------------------------------- */

#define SUMS_DEEP 4 /* sums of sums that are looked through */

static bool same_rows(const est_fuser *f, est_edge a, est_edge b, int deep);

static bool is_matrix(const est_fuser *f, est_edge e)
{
    return est_fuse_node(f, e.node)->shape[e.output].rank == 2;
}

/* What the size of the first axis of a value comes from, as far as that is easy to tell. */
static est_edge rows_of(const est_fuser *f, est_edge e, int deep)
{
    for (;;) {
        const est_node_def *n = est_fuse_node(f, e.node);

        if (n->op == &est_op_resource_gather || n->op == &est_op_gather_concat || n->op == &est_op_gather_sum) {
            e = n->in[1]; /* as many as indices; all lookups that are joined have as many */
        } else if (n->op == &est_op_add_n || n->op == &est_op_relu || n->op == &est_op_bias_add ||
                   n->op == &est_op_sigmoid_xent_and_grad ||
                   (n->op == &est_op_concat_v2 && est_fuse_is_last_axis(f, n->in[n->n_in - 1], n)) ||
                   ((n->op == &est_op_matmul || n->op == &est_op_matmul_bias) && !est_node_bool(n, "transpose_a")) ||
                   (n->op == &est_op_add && deep-- > 0 && is_matrix(f, n->in[0]) && is_matrix(f, n->in[1]) &&
                    same_rows(f, n->in[0], n->in[1], deep))) {
            e = n->in[0];
        } else {
            return e;
        }
    }
}

static bool same_rows(const est_fuser *f, est_edge a, est_edge b, int deep)
{
    return est_fuse_same_edge(rows_of(f, a, deep), rows_of(f, b, deep));
}

static bool same_columns(const est_fuser *f, est_edge a, est_edge b)
{
    int64_t columns = est_fuse_node(f, a.node)->shape[a.output].dim[1];

    return columns >= 0 && columns == est_fuse_node(f, b.node)->shape[b.output].dim[1];
}

/* What was not broadcast need not be summed: shapes are equal in all but their rows, which come from the same. */
static bool drop_sum_to_shape(est_fuser *f, const est_node_def *sum)
{
    const est_node_def *dy    = est_fuse_node(f, sum->in[0].node);
    const est_shape    *shape = &dy->shape[sum->in[0].output];

    if (shape->rank != 2 || shape->dim[1] < 0 || !est_shape_equal(shape, &sum->shape[0])) return true;
    return !same_rows(f, sum->in[0], sum->in[1], SUMS_DEEP) ||
           est_fuse_replace(f, (est_edge){ sum->id, 0 }, sum->in[0]);
}

/* --- on devices that run by themselves: logits of two models ------------------------------------------------------ */

/* Nothing is broadcast: shapes are equal in all but their rows, which come from the same. */
static bool fuse_logits(est_fuser *f, const est_node_def *loss)
{
    const est_node_def *sum = made_by(f, loss, 0, &est_op_add);
    est_node            fresh;

    if (sum == NULL || est_node_int(loss, "N") != 0 || est_fuse_users(f, sum) != 1 || !is_matrix(f, sum->in[0]) ||
        !is_matrix(f, sum->in[1]) || !same_columns(f, sum->in[0], sum->in[1]) ||
        !same_rows(f, sum->in[0], sum->in[1], SUMS_DEEP)) {
        return true;
    }
    fresh = est_build(f->g, &est_op_sigmoid_xent_and_grad,
                      EST_NODES(est_fuse_edge(f, sum->in[0]), est_fuse_edge(f, loss->in[1]),
                                est_fuse_edge(f, loss->in[2]), est_fuse_edge(f, sum->in[1])),
                      EST_ATTRS(est_fuse_copy_bool(loss, "mean"), est_attr_int("N", 1)));
    if (fresh.id >= 0) est_fuse_node(f, fresh.id)->stands_for = loss->stands_for;
    return est_fuse_stand_in(f, fresh, 0, loss) &&
           est_fuse_replace(f, (est_edge){ loss->id, 1 }, (est_edge){ fresh.id, 1 }) &&
           est_fuse_replace(f, (est_edge){ loss->id, 2 }, (est_edge){ fresh.id, 2 });
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static const struct rule {
    const est_op *at; /* the op a chain is recognised by */
    bool (*fuse)(est_fuser *f, const est_node_def *n);
    const est_op *makes; /* what the device must have kernels for */
    bool          apart; /* only on a device that runs by itself, where each pass over memory is a launch */
} rules[] = { { &est_op_max_pool, fuse_conv_pool, &est_op_conv_pool_grad },
              { &est_op_bias_add, fuse_bias, &est_op_matmul_bias },
              { &est_op_relu_grad, fuse_relu_grad, &est_op_matmul_relu_grad },
              { &est_op_bias_add_grad, fuse_relu_bias_grad, &est_op_matmul_relu_bias_grad, true },
              { &est_op_assign_variable, fuse_assign_draw, &est_op_assign_draw },
              { &est_op_assign_variable, fuse_assign_fill, &est_op_assign_fill },
              { &est_op_div_no_nan, raise_mean, &est_op_embedding_bag },
              { &est_op_unsorted_segment_sum, raise_sum, &est_op_embedding_bag },
              { &est_op_embedding_bag_grad, est_fuse_slice_grad, &est_op_embedding_bag_slice_grad },
              { &est_op_concat_v2, est_fuse_concat_bags, &est_op_embedding_bag_concat },
              { &est_op_reduce_grad, fuse_sparse_xent, &est_op_sparse_xent_and_grad, true },
              { &est_op_reduce_grad, fuse_sigmoid_xent, &est_op_sigmoid_xent_and_grad, true },
              { &est_op_sum_to_shape, drop_sum_to_shape, &est_op_sum_to_shape, true },
              { &est_op_dedup, est_fuse_dedup_slice, &est_op_dedup_slice, true },
              { &est_op_concat_v2, est_fuse_concat_lookups, &est_op_gather_concat, true },
              { &est_op_gather_concat, est_fuse_pad_uneven, &est_op_gather_concat, true },
              { &est_op_add_n, est_fuse_sum_lookups, &est_op_gather_sum, true },
              { &est_op_sigmoid_xent_and_grad, fuse_logits, &est_op_sigmoid_xent_and_grad, true },
              { &est_op_dedup, est_fuse_sums_in_update, &est_op_sort_ids, true },
              { &est_op_dedup_slice, est_fuse_sums_in_update, &est_op_sort_ids, true },
              { &est_op_round_bfloat16, est_fuse_bfloat16, &est_op_pack_bfloat16, true } };

static est_status apply_rule(est_fuser *f, const struct rule *rule)
{
    int32_t size = est_graph_size(f->g);
    bool    ok   = true;

    EST_TRY(est_uses_create(f->g, f->rewriter.io, &f->uses));
    for (int32_t id = 0; id < size && ok; id++) {
        const est_node_def *n = est_fuse_node(f, id);
        if (n->op == rule->at && f->uses.n[id] > 0 && n->n_control == 0) ok = rule->fuse(f, n);
    }
    est_uses_clear(&f->uses);
    return ok ? EST_OK : est_graph_status(f->g);
}

est_status est_pass_fuse(est_graph *graph, est_io *io, const est_device *device)
{
    est_fuser  f      = { .g = graph, .rewriter = { .graph = graph, .io = io } };
    est_status status = EST_OK;

    for (int32_t id = 0; id < est_graph_size(graph); id++)
        f.writes = f.writes || est_fuse_node(&f, id)->op->writes != 0;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0] && status == EST_OK; r++) {
        if (rules[r].apart && device->runs == NULL) continue;
        if (est_kernel_exists(est_op_kernels(rules[r].makes, device))) status = apply_rule(&f, &rules[r]);
    }
    est_rewriter_clear(&f.rewriter);
    est_free(f.sorted);
    for (int c = 0; c <= EST_COMBINE_SQRTN; c++) {
        for (int weighted = 0; weighted < 2; weighted++) est_pattern_clear(&f.bags[c][weighted]);
    }
    return status;
}
