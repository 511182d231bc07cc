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
 *   a loss and the gradient of its mean        -> EstSparseXentAndGrad, EstSigmoidXentAndGrad
 *   ResourceGather and others, ConcatV2        -> EstGatherConcat             rows are copied once; with columns of
 *                                                                             zeros where that makes them even
 *   EstConcatGrad, EstDedup                    -> EstDedupSlice
 *   EstSumToShape of a shape that is the same  -> nothing
 *
 * A chain is fused only if nobody else looks at what is between and nothing in it waits for something else. Whole
 * chains are matched and then replaced; a chain that does not fit stays as it is. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/lazy_rows.h"
#include "ops/ops.h"
#include "runtime/pass.h"
#include "runtime/pattern.h"

typedef struct fuser {
    est_graph   *g;
    est_rewriter rewriter;
    est_uses     uses;                           /* when the rule began */
    est_pattern  bags[EST_COMBINE_SQRTN + 1][2]; /* by combiner, and whether there are weights */
    bool         writes;                         /* something in the graph changes a variable */
} fuser;

static est_node_def *node(const fuser *f, int32_t id)
{
    return est_graph_node(f->g, id);
}

static est_node edge_node(const fuser *f, est_edge e)
{
    return (est_node){ f->g, e.node, e.output };
}

/* The op that makes input i of n, if it is `op`; NULL otherwise. */
static const est_node_def *made_by(const fuser *f, const est_node_def *n, int i, const est_op *op)
{
    const est_node_def *maker = node(f, n->in[i].node);

    return maker->op == op && n->in[i].output == 0 && maker->n_control == 0 ? maker : NULL;
}

/* How often the results of n are looked at, fetches and control edges included. */
static int32_t users(const fuser *f, const est_node_def *n)
{
    return f->uses.n[n->id];
}

/* The one user of n that is `op`; NULL when there is none or more than one. */
static const est_node_def *user_that_is(const fuser *f, const est_node_def *n, const est_op *op)
{
    const est_node_def *found = NULL;

    for (int32_t i = 0; i < f->uses.n[n->id]; i++) {
        int32_t id = f->uses.user[f->uses.first[n->id] + i];
        if (id < 0 || node(f, id)->op != op) continue;
        if (found != NULL && found->id != id) return NULL;
        found = node(f, id);
    }
    return found != NULL && found->n_control == 0 ? found : NULL;
}

/* Uses an output of a freshly built node in place of one of another; false, with the graph poisoned, when it cannot. */
static bool replace(fuser *f, est_edge from, est_edge to)
{
    est_status status = est_rewriter_replace(&f->rewriter, from, to);

    if (status != EST_OK) (void)est_graph_poison(f->g, status);
    return status == EST_OK;
}

/* Puts a freshly built node where `old` stood. False when it could not be built. */
static bool stand_in(fuser *f, est_node fresh, int output, const est_node_def *old)
{
    if (fresh.id < 0) return false;
    node(f, fresh.id)->order = old->order;
    node(f, fresh.id)->name  = old->name;
    node(f, fresh.id)->file  = old->file;
    node(f, fresh.id)->line  = old->line;
    return replace(f, (est_edge){ old->id, 0 }, (est_edge){ fresh.id, output });
}

static est_attr copy_bool(const est_node_def *n, const char *name)
{
    return est_attr_bool(name, est_node_bool(n, name));
}

static bool is_f32(const est_node_def *n)
{
    return n->dtype[0] == EST_F32;
}

/* --- matrix products ---------------------------------------------------------------------------------------------- */

static bool fuse_bias(fuser *f, const est_node_def *bias)
{
    const est_node_def *product = made_by(f, bias, 0, &est_op_matmul);
    const est_node_def *relu;

    if (product == NULL || !is_f32(bias) || users(f, product) != 1) return true;
    relu           = users(f, bias) == 1 ? user_that_is(f, bias, &est_op_relu) : NULL;
    est_node fresh = est_build(
        f->g, &est_op_matmul_bias,
        EST_NODES(edge_node(f, product->in[0]), edge_node(f, product->in[1]), edge_node(f, bias->in[1])),
        EST_ATTRS(copy_bool(product, "transpose_a"), copy_bool(product, "transpose_b"),
                  est_attr_bool("relu", relu != NULL)));
    return stand_in(f, fresh, 0, relu != NULL ? relu : bias);
}

static bool fuse_relu_grad(fuser *f, const est_node_def *grad)
{
    const est_node_def *product = made_by(f, grad, 0, &est_op_matmul);

    if (product == NULL || !is_f32(grad) || users(f, product) != 1) return true;
    est_node fresh = est_build(
        f->g, &est_op_matmul_relu_grad,
        EST_NODES(edge_node(f, product->in[0]), edge_node(f, product->in[1]), edge_node(f, grad->in[1])),
        EST_ATTRS(copy_bool(product, "transpose_a"), copy_bool(product, "transpose_b")));
    return stand_in(f, fresh, 0, grad);
}

static bool fuse_relu_bias_grad(fuser *f, const est_node_def *sums)
{
    const est_node_def *product = made_by(f, sums, 0, &est_op_matmul_relu_grad);
    est_node            fresh;

    if (product == NULL) return true;
    fresh = est_build(
        f->g, &est_op_matmul_relu_bias_grad,
        EST_NODES(edge_node(f, product->in[0]), edge_node(f, product->in[1]), edge_node(f, product->in[2])),
        EST_ATTRS(copy_bool(product, "transpose_a"), copy_bool(product, "transpose_b")));
    return stand_in(f, fresh, 0, product) && replace(f, (est_edge){ sums->id, 0 }, (est_edge){ fresh.id, 1 });
}

/* --- constants into variables ------------------------------------------------------------------------------------- */

/* Others may look at the Fill, too: it costs them nothing. */
static bool fuse_assign_fill(fuser *f, const est_node_def *assign)
{
    const est_node_def *fill = made_by(f, assign, 1, &est_op_fill);
    est_node            fresh;

    if (fill == NULL || !est_shape_equal(&fill->shape[0], &node(f, assign->in[0].node)->shape[0])) return true;
    fresh = est_build(f->g, &est_op_assign_fill, EST_NODES(edge_node(f, assign->in[0]), edge_node(f, fill->in[1])),
                      EST_NO_ATTRS);
    return stand_in(f, fresh, 0, assign);
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
static bool is_number(const fuser *f, est_edge e, double *out)
{
    const est_node_def *def = node(f, e.node);
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
static const est_node_def *without_number(const fuser *f, const est_node_def *n, const est_op *op, double *number)
{
    for (int i = 0; i < 2 && n->op == op && n->n_control == 0; i++) {
        if (is_number(f, n->in[i], number)) return node(f, n->in[1 - i].node);
    }
    return n;
}

static bool match_drawn(const fuser *f, const est_node_def *value, drawn *d)
{
    *d = (drawn){ .factor = 1, .term = -0.0 }; /* which change nothing, not even the sign of a zero */
    if (value->n_control > 0) return false;
    if (value->op == &est_op_fill) return is_number(f, value->in[1], &d->term);
    d->random = without_number(f, value, &est_op_add, &d->term);
    d->random = without_number(f, d->random, &est_op_mul, &d->factor);
    return d->random->n_control == 0 && distribution_of(d->random->op) != EST_ROW_CONSTANT;
}

/* Whether nothing but one node touches the variable of a handle: another handle may be of the same one. */
static bool is_touched_once(const fuser *f, const est_node_def *handle)
{
    const char *name = est_node_string(handle, "shared_name");

    for (int32_t id = 0; id < est_graph_size(f->g); id++) {
        const est_node_def *n = node(f, id);

        if (n->op == handle->op && id != handle->id && users(f, n) > 0 &&
            strcmp(est_node_string(n, "shared_name"), name) == 0) {
            return false;
        }
    }
    return users(f, handle) == 1;
}

static bool fuse_assign_draw(fuser *f, const est_node_def *assign)
{
    const est_node_def *handle = node(f, assign->in[0].node), *value = node(f, assign->in[1].node);
    est_dtype           dtype = est_node_type(assign, "dtype");
    drawn               d;
    est_node            fresh;

    if (!est_shape_equal(&value->shape[0], &handle->shape[0]) || !est_lazy_may_wait(dtype, &handle->shape[0]) ||
        !match_drawn(f, value, &d) || !is_touched_once(f, handle)) {
        return true;
    }
    fresh = est_build1(
        &est_op_assign_draw, edge_node(f, assign->in[0]),
        EST_ATTRS(
            est_attr_type("dtype", dtype), est_attr_float("factor", d.factor), est_attr_float("term", d.term),
            est_attr_int("distribution", d.random != NULL ? distribution_of(d.random->op) : 0),
            est_attr_int("seed", d.random != NULL ? est_node_int(d.random, "seed") : 0),
            est_attr_int("seed2", d.random != NULL ? est_node_int(d.random, "seed2") : 0),
            est_attr_int("first", d.random != NULL && d.random->op->planned ? est_node_int(d.random, "first") : 0)));
    return stand_in(f, fresh, 0, assign);
}

/* --- convolution with pooling ------------------------------------------------------------------------------------- */

/* The chain forward, and back when the step trains. */
typedef struct conv_chain {
    const est_node_def *conv, *bias, *relu, *pool;
    const est_node_def *pool_grad, *relu_grad, *dbias, *dfilter; /* all NULL or all set */
} conv_chain;

static bool ints_are(est_i64s have, int64_t a, int64_t b)
{
    return have.n == 4 && have.data[0] == 1 && have.data[1] == a && have.data[2] == b && have.data[3] == 1;
}

/* What the kernel can do: stride 1 without padding, then windows of 2x2 side by side; channels in whole vectors. */
static bool chain_suits(const conv_chain *c)
{
    const est_shape *filter = &c->conv->shape[0]; /* only its channels are needed here */

    return is_f32(c->conv) && strcmp(est_node_string(c->conv, "padding"), "VALID") == 0 &&
           strcmp(est_node_string(c->pool, "padding"), "VALID") == 0 &&
           ints_are(est_node_ints(c->conv, "strides"), 1, 1) && ints_are(est_node_ints(c->conv, "dilations"), 1, 1) &&
           ints_are(est_node_ints(c->pool, "strides"), 2, 2) && ints_are(est_node_ints(c->pool, "ksize"), 2, 2) &&
           filter->rank == 4 && filter->dim[3] > 0 && filter->dim[3] % 8 == 0;
}

static bool match_forward(const fuser *f, const est_node_def *pool, conv_chain *c)
{
    c->pool = pool;
    c->relu = made_by(f, pool, 0, &est_op_relu);
    c->bias = c->relu != NULL ? made_by(f, c->relu, 0, &est_op_bias_add) : NULL;
    c->conv = c->bias != NULL ? made_by(f, c->bias, 0, &est_op_conv2d) : NULL;
    return c->conv != NULL && users(f, c->conv) == 1 && users(f, c->bias) == 1 && chain_suits(c);
}

/* True also when the step has no way back; then nothing but the pool may look at the activation. */
static bool match_backward(const fuser *f, conv_chain *c)
{
    if (users(f, c->relu) == 1) return true;
    c->pool_grad = user_that_is(f, c->relu, &est_op_max_pool_grad);
    c->relu_grad = c->pool_grad != NULL ? user_that_is(f, c->pool_grad, &est_op_relu_grad) : NULL;
    if (c->relu_grad == NULL || users(f, c->relu) != 3 || users(f, c->pool_grad) != 1) return false;
    if (c->pool_grad->in[0].node != c->relu->id || c->pool_grad->in[1].node != c->pool->id) return false;
    if (c->relu_grad->in[0].node != c->pool_grad->id || c->relu_grad->in[1].node != c->relu->id) return false;
    c->dbias   = user_that_is(f, c->relu_grad, &est_op_bias_add_grad);
    c->dfilter = user_that_is(f, c->relu_grad, &est_op_conv2d_backprop_filter);
    return c->dbias != NULL && c->dfilter != NULL && users(f, c->relu_grad) == 2 &&
           c->dfilter->in[2].node == c->relu_grad->id && c->dfilter->in[0].node == c->conv->in[0].node &&
           c->dfilter->in[0].output == c->conv->in[0].output;
}

static bool fuse_conv_pool(fuser *f, const est_node_def *pool)
{
    conv_chain c = { 0 };
    est_node   forward, back;

    if (!match_forward(f, pool, &c) || !match_backward(f, &c)) return true;
    forward = est_build(
        f->g, &est_op_conv_pool,
        EST_NODES(edge_node(f, c.conv->in[0]), edge_node(f, c.conv->in[1]), edge_node(f, c.bias->in[1])), EST_NO_ATTRS);
    if (!stand_in(f, forward, 0, c.pool)) return false;
    if (c.dfilter == NULL) return true;
    back = est_build(f->g, &est_op_conv_pool_grad,
                     EST_NODES(edge_node(f, c.conv->in[0]), edge_node(f, c.dfilter->in[1]),
                               edge_node(f, c.pool_grad->in[2]), (est_node){ f->g, forward.id, 1 }),
                     EST_NO_ATTRS);
    return stand_in(f, back, 0, c.dfilter) && stand_in(f, back, 1, c.dbias);
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
static bool sums_rows(const fuser *f, const est_node_def *sum)
{
    const est_node_def *scaled = sum->op == &est_op_unsorted_segment_sum ? made_by(f, sum, 0, &est_op_mul) : NULL;

    return scaled != NULL && is_f32(sum) && made_by(f, scaled, 0, &est_op_resource_gather) != NULL;
}

static bool raise_bag(fuser *f, const est_node_def *end, int combiner, bool weighted)
{
    est_pattern *pattern = &f->bags[combiner][weighted];
    est_edge     in[EST_PATTERN_INPUTS_MAX];
    est_status   status = pattern->graph == NULL ? make_bag_pattern(combiner, weighted, pattern) : EST_OK;

    if (status != EST_OK) {
        (void)est_graph_poison(f->g, status);
        return false;
    }
    if (!est_pattern_match(pattern, f->g, end->id, in)) return true;
    return stand_in(f,
                    est_embedding_bag(edge_node(f, in[0]),
                                      (est_ragged_node){ .values = edge_node(f, in[1]), .splits = edge_node(f, in[2]) },
                                      weighted ? edge_node(f, in[3]) : EST_NO_NODE, combiner, 0),
                    0, end);
}

/* Not in a step that writes: a lookup that sees the old value (P2) might wait, as a part of the bag, for something that
 * comes after the write. */
static bool raise_sum(fuser *f, const est_node_def *sum)
{
    if (f->writes || !sums_rows(f, sum)) return true;
    return raise_bag(f, sum, EST_COMBINE_SUM, false) && raise_bag(f, sum, EST_COMBINE_SUM, true);
}

static bool raise_mean(fuser *f, const est_node_def *quotient)
{
    if (f->writes || !sums_rows(f, node(f, quotient->in[0].node))) return true;
    for (int weighted = 0; weighted < 2; weighted++) {
        if (!raise_bag(f, quotient, EST_COMBINE_MEAN, weighted != 0)) return false;
        if (!raise_bag(f, quotient, EST_COMBINE_SQRTN, weighted != 0)) return false;
    }
    return true;
}

/* --- bags that are joined ----------------------------------------------------------------------------------------- */

/* Whether the edge is an axis that says 1 for matrices. */
static bool is_last_axis(const fuser *f, est_edge axis, const est_node_def *matrix)
{
    const est_value *value = &node(f, axis.node)->value[axis.output];

    return matrix->shape[0].rank == 2 && value->n == 1 && (value->v[0] == 1 || value->v[0] == -1);
}

static int64_t columns_of(const fuser *f, est_edge e)
{
    const est_shape *shape = &node(f, e.node)->shape[e.output];

    return shape->rank == 2 ? shape->dim[1] : -1;
}

/* Columns of the first n parts together, or -1. */
static int64_t columns_before(const fuser *f, const est_edge *parts, int32_t n)
{
    int64_t sum = 0;

    for (int32_t i = 0; i < n; i++) {
        int64_t columns = columns_of(f, parts[i]);
        if (columns < 0) return -1;
        sum += columns;
    }
    return sum;
}

/* Whether nobody looks at a part but the concatenation, and its gradient for the shape. */
static bool is_joined_only(const fuser *f, const est_node_def *concat, const est_node_def *part)
{
    for (int32_t i = 0; i < f->uses.n[part->id]; i++) {
        int32_t user = f->uses.user[f->uses.first[part->id] + i];
        if (user < 0 || (user != concat->id && node(f, user)->op != &est_op_concat_grad)) return false;
    }
    return true;
}

/* A bag without frills. */
static bool joins_in_place(const fuser *f, const est_node_def *concat, est_edge part)
{
    const est_node_def *bag = node(f, part.node);

    if (bag->op != &est_op_embedding_bag || bag->n_control > 0 || bag->n_in != 3 ||
        est_node_type(bag, "Tids") != EST_I64 || est_node_float(bag, "max_norm") > 0) {
        return false;
    }
    return is_joined_only(f, concat, bag);
}

/* Whether the node comes after a write to a variable. Lookups that are not ordered with that write see the old value
 * (P2), which they would not as a part of such a node. */
static bool follows_a_write(const fuser *f, const est_node_def *n, bool *seen, int32_t *stack)
{
    int32_t depth = 0;

    stack[depth++] = n->id;
    while (depth > 0) {
        n = node(f, stack[--depth]);
        for (int32_t i = 0; i < n->n_in + n->n_control; i++) {
            int32_t from = i < n->n_in ? n->in[i].node : n->control[i - n->n_in];
            if (node(f, from)->op->writes != 0) return true;
            if (!seen[from]) stack[depth++] = from;
            seen[from] = true;
        }
    }
    return false;
}

/* A lookup of rows by a vector of numbers. */
static bool is_joined_lookup(const fuser *f, const est_node_def *concat, est_edge part)
{
    const est_node_def *lookup = node(f, part.node);

    return lookup->op == &est_op_resource_gather && lookup->n_control == 0 && is_f32(lookup) &&
           node(f, lookup->in[0].node)->shape[0].rank == 2 &&
           node(f, lookup->in[1].node)->shape[lookup->in[1].output].rank == 1 && is_joined_only(f, concat, lookup);
}

/* Room to describe a join. */
typedef struct join {
    est_node *in;
    int64_t  *types, *combiners, *columns;
    bool     *seen; /* per node, as the next */
    int32_t  *stack;
    int       n_bags, n_parts;
    bool      lookups; /* the bags are lookups of rows, which have no splits */
    int64_t   width;

    const est_node_def *bag; /* the last one */
} join;

static void list_bag(const fuser *f, const est_node_def *bag, join *j)
{
    int each = j->lookups ? 2 : 3;

    for (int k = 0; k < each; k++) {
        const est_node_def *maker = node(f, bag->in[k].node);

        j->in[each * j->n_bags + k]    = edge_node(f, bag->in[k]);
        j->types[each * j->n_bags + k] = maker->dtype[bag->in[k].output];
    }
    j->combiners[j->n_bags++] = j->lookups ? 0 : est_node_int(bag, "combiner");
    j->bag                    = bag;
}

/* Bags first, then the others; where each begins in the whole. */
static void list_parts(const fuser *f, const est_node_def *concat, join *j)
{
    for (int bags = 1; bags >= 0; bags--) {
        int64_t column = 0;
        for (int32_t i = 0; i + 1 < concat->n_in; column += columns_of(f, concat->in[i++])) {
            bool is_bag = j->lookups ? is_joined_lookup(f, concat, concat->in[i])
                                     : joins_in_place(f, concat, concat->in[i]);
            if (is_bag != (bags != 0)) continue;
            j->columns[j->n_bags + j->n_parts] = column;
            if (is_bag) {
                list_bag(f, node(f, concat->in[i].node), j);
            } else {
                j->in[(j->lookups ? 2 : 3) * j->n_bags + j->n_parts++] = edge_node(f, concat->in[i]);
            }
        }
        j->width = column;
    }
}

/* Messages name the place of the lookup, or of what joins several; which of those it is they say by its variable. */
static void name_lookups(const fuser *f, est_node fresh, const est_node_def *place)
{
    est_node_def *def = node(f, fresh.id);

    def->stands_for = &est_op_resource_gather;
    def->name       = place->name;
    def->file       = place->file;
    def->line       = place->line;
}

static bool fuse_join(fuser *f, const est_node_def *concat, join *j)
{
    est_i64s columns, combiners, types;
    est_node fresh;

    if (follows_a_write(f, concat, j->seen, j->stack)) return true;
    list_parts(f, concat, j);
    if (j->n_bags == 0) return true;
    types     = (est_i64s){ j->types, (j->lookups ? 2 : 3) * j->n_bags };
    columns   = (est_i64s){ j->columns, j->n_bags + j->n_parts };
    combiners = (est_i64s){ j->combiners, j->n_bags };
    if (j->lookups) {
        fresh = est_build(f->g, &est_op_gather_concat, (est_nodes){ j->in, types.n + j->n_parts },
                          EST_ATTRS(est_attr_types("Tlookups", types), est_attr_int("N", j->n_parts),
                                    est_attr_type("T", EST_F32), est_attr_ints("columns", columns),
                                    est_attr_int("width", j->width)));
    } else {
        fresh = est_build(f->g, &est_op_embedding_bag_concat, (est_nodes){ j->in, types.n + j->n_parts },
                          EST_ATTRS(est_attr_types("Tbags", types), est_attr_int("N", j->n_parts),
                                    est_attr_type("dtype", concat->dtype[0]), est_attr_ints("combiners", combiners),
                                    est_attr_ints("columns", columns)));
    }
    if (!stand_in(f, fresh, 0, concat)) return false;
    if (j->lookups) name_lookups(f, fresh, j->n_bags == 1 ? j->bag : concat);
    return true;
}

static bool fuse_concat(fuser *f, const est_node_def *concat, bool lookups)
{
    size_t   n      = (size_t)concat->n_in;
    int32_t  axis   = concat->n_in - 1;
    bool     done   = false;
    int64_t *counts = NULL;
    join     j      = { .lookups = lookups };

    if (!is_last_axis(f, concat->in[axis], concat) || columns_before(f, concat->in, axis) < 0) {
        return true;
    }
    j.in    = est_alloc(sizeof *j.in * 3 * n);
    counts  = est_alloc(sizeof *counts * 5 * n);
    j.seen  = est_zalloc((size_t)est_graph_size(f->g));
    j.stack = est_alloc(sizeof *j.stack * ((size_t)est_graph_size(f->g) + 1));
    if (j.in == NULL || counts == NULL || j.seen == NULL || j.stack == NULL) {
        (void)est_graph_poison(f->g, est_no_memory());
    } else {
        j.types     = counts;
        j.combiners = counts + 3 * n;
        j.columns   = counts + 4 * n;
        done        = fuse_join(f, concat, &j);
    }
    est_free(j.in);
    est_free(counts);
    est_free(j.seen);
    est_free(j.stack);
    return done;
}

static bool fuse_concat_bags(fuser *f, const est_node_def *concat)
{
    return fuse_concat(f, concat, false);
}

static bool fuse_concat_lookups(fuser *f, const est_node_def *concat)
{
    return !is_f32(concat) || fuse_concat(f, concat, true);
}

static bool fuse_slice_grad(fuser *f, const est_node_def *grad)
{
    const est_node_def *cut = node(f, grad->in[0].node);
    est_node            in[5], fresh;
    int64_t             column;

    if (cut->op != &est_op_concat_grad || cut->n_control > 0 || grad->n_in > 5) return true;
    column = columns_before(f, cut->in + 2, grad->in[0].output);
    if (column < 0 || columns_before(f, cut->in, 1) < 0 || !is_last_axis(f, cut->in[1], cut)) return true;
    for (int32_t i = 0; i < grad->n_in; i++) in[i] = edge_node(f, i == 0 ? cut->in[0] : grad->in[i]);
    fresh = est_build(
        f->g, &est_op_embedding_bag_slice_grad, (est_nodes){ in, grad->n_in },
        EST_ATTRS(est_attr_int("column", column), est_attr_int("combiner", est_node_int(grad, "combiner")),
                  est_attr_float("max_norm", est_node_float(grad, "max_norm")),
                  est_attr_int("N", est_node_int(grad, "N")), est_attr_type("dtype", est_node_type(grad, "dtype"))));
    return stand_in(f, fresh, 0, grad) && replace(f, (est_edge){ grad->id, 1 }, (est_edge){ fresh.id, 1 });
}

/* --- on devices that run by themselves: losses -------------------------------------------------------------------- */

static bool same_edge(est_edge a, est_edge b)
{
    return a.node == b.node && a.output == b.output;
}

/* Whether n spreads the gradient of a sum or a mean of all losses of an op, which is a constant; then it cannot depend
 * on what it is fused with. */
static const est_node_def *spread_losses(const fuser *f, const est_node_def *n)
{
    const est_node_def *losses = node(f, n->in[1].node), *dy = node(f, n->in[0].node);

    return dy->op->source == EST_SOURCE_CONST && dy->shape[0].rank == 0 && n->in[1].output == 0 &&
                   losses->n_control == 0
               ? losses
               : NULL;
}

/* Puts a loss with its gradient where the loss and the last step of the gradient stood. */
static bool replace_loss(fuser *f, const est_op *op, const est_node_def *loss, const est_node_def *spread,
                         const est_node_def *gradient)
{
    est_node fresh = est_build(
        f->g, op, EST_NODES(edge_node(f, loss->in[0]), edge_node(f, loss->in[1]), edge_node(f, spread->in[0])),
        EST_ATTRS(copy_bool(spread, "mean")));

    if (fresh.id >= 0) node(f, fresh.id)->stands_for = loss->op;
    return stand_in(f, fresh, 0, loss) && replace(f, (est_edge){ gradient->id, 0 }, (est_edge){ fresh.id, 1 });
}

/* backprop * expand_dims(spread) */
static bool fuse_sparse_xent(fuser *f, const est_node_def *spread)
{
    const est_node_def *loss    = spread_losses(f, spread);
    const est_node_def *column  = user_that_is(f, spread, &est_op_expand_dims);
    const est_node_def *product = column != NULL ? user_that_is(f, column, &est_op_mul) : NULL;
    const est_edge      back    = { loss != NULL ? loss->id : -1, 1 };

    if (loss == NULL || loss->op != &est_op_sparse_softmax_xent || product == NULL) return true;
    if (!(same_edge(product->in[1], back) && product->in[0].node == column->id) &&
        !(same_edge(product->in[0], back) && product->in[1].node == column->id)) {
        return true;
    }
    return replace_loss(f, &est_op_sparse_xent_and_grad, loss, spread, product);
}

/* spread * (sigmoid(logits) - labels) */
static bool fuse_sigmoid_xent(fuser *f, const est_node_def *spread)
{
    const est_node_def *loss    = spread_losses(f, spread);
    const est_node_def *product = user_that_is(f, spread, &est_op_mul);
    const est_node_def *less, *sigmoid;

    if (loss == NULL || loss->op != &est_op_sigmoid_xent || product == NULL) return true;
    less    = made_by(f, product, product->in[0].node == spread->id ? 1 : 0, &est_op_sub);
    sigmoid = less != NULL ? made_by(f, less, 0, &est_op_sigmoid) : NULL;
    if (sigmoid == NULL || !same_edge(sigmoid->in[0], loss->in[0]) || !same_edge(less->in[1], loss->in[1])) return true;
    return replace_loss(f, &est_op_sigmoid_xent_and_grad, loss, spread, product);
}

/* --- on devices that run by themselves: gradients of sums --------------------------------------------------------- */

#define SUMS_DEEP 4 /* sums of sums that are looked through */

static bool same_rows(const fuser *f, est_edge a, est_edge b, int deep);

static bool is_matrix(const fuser *f, est_edge e)
{
    return node(f, e.node)->shape[e.output].rank == 2;
}

/* What the size of the first axis of a value comes from, as far as that is easy to tell. */
static est_edge rows_of(const fuser *f, est_edge e, int deep)
{
    for (;;) {
        const est_node_def *n = node(f, e.node);

        if (n->op == &est_op_resource_gather || n->op == &est_op_gather_concat) {
            e = n->in[1]; /* as many as indices; all lookups that are joined have as many */
        } else if (n->op == &est_op_add_n || n->op == &est_op_relu || n->op == &est_op_bias_add ||
                   n->op == &est_op_sigmoid_xent_and_grad ||
                   (n->op == &est_op_concat_v2 && is_last_axis(f, n->in[n->n_in - 1], n)) ||
                   ((n->op == &est_op_matmul || n->op == &est_op_matmul_bias) && !est_node_bool(n, "transpose_a")) ||
                   (n->op == &est_op_add && deep-- > 0 && is_matrix(f, n->in[0]) && is_matrix(f, n->in[1]) &&
                    same_rows(f, n->in[0], n->in[1], deep))) {
            e = n->in[0];
        } else {
            return e;
        }
    }
}

static bool same_rows(const fuser *f, est_edge a, est_edge b, int deep)
{
    return same_edge(rows_of(f, a, deep), rows_of(f, b, deep));
}

/* What was not broadcast need not be summed: shapes are equal in all but their rows, which come from the same. */
static bool drop_sum_to_shape(fuser *f, const est_node_def *sum)
{
    const est_node_def *dy    = node(f, sum->in[0].node);
    const est_shape    *shape = &dy->shape[sum->in[0].output];

    if (shape->rank != 2 || shape->dim[1] < 0 || !est_shape_equal(shape, &sum->shape[0])) return true;
    return !same_rows(f, sum->in[0], sum->in[1], SUMS_DEEP) || replace(f, (est_edge){ sum->id, 0 }, sum->in[0]);
}

/* --- on devices that run by themselves: lookups that are joined --------------------------------------------------- */

static bool fuse_dedup_slice(fuser *f, const est_node_def *dedup)
{
    const est_node_def *cut = node(f, dedup->in[0].node);
    int64_t             column, columns;
    est_node            fresh;

    if (cut->op != &est_op_concat_grad || cut->n_control > 0 || !is_f32(dedup)) return true;
    column  = columns_before(f, cut->in + 2, dedup->in[0].output);
    columns = columns_of(f, cut->in[2 + dedup->in[0].output]);
    if (column < 0 || columns < 0 || columns_of(f, cut->in[0]) < 0 || !is_last_axis(f, cut->in[1], cut)) return true;
    fresh = est_build2(&est_op_dedup_slice, edge_node(f, cut->in[0]), edge_node(f, dedup->in[1]),
                       EST_ATTRS(est_attr_int("column", column), est_attr_int("columns", columns)));
    return stand_in(f, fresh, 0, dedup) && replace(f, (est_edge){ dedup->id, 1 }, (est_edge){ fresh.id, 1 });
}

#define UNEVEN_MIN 64 /* columns: narrower products do not pay for another launch */

/* Products with a joined matrix whose width is no multiple of four: those with rows of a multiple of 16 bytes are twice
 * as fast, so the matrix gets columns of zeros, and its kernel rows of zeros. */
typedef struct uneven {
    const est_node_def *join, *forward, *dkernel, *dx; /* dkernel and dx may be NULL */
    int64_t             width, padded;
} uneven;

static bool is_plain_product(const est_node_def *n, const est_op *op, bool trans_a, bool trans_b)
{
    return n->op == op && n->n_control == 0 && est_node_bool(n, "transpose_a") == trans_a &&
           est_node_bool(n, "transpose_b") == trans_b;
}

/* The gradient towards the matrix, if nothing but sums of its columns looks at it. */
static const est_node_def *find_dx(const fuser *f, est_edge kernel)
{
    const est_node_def *found = NULL, *owner = node(f, kernel.node);

    for (int32_t i = 0; i < users(f, owner); i++) {
        int32_t user = f->uses.user[f->uses.first[owner->id] + i];

        if (user < 0 || !is_plain_product(node(f, user), &est_op_matmul, false, true)) continue;
        if (found != NULL || !same_edge(node(f, user)->in[1], kernel)) return NULL;
        found = node(f, user);
    }
    for (int32_t i = 0; found != NULL && i < users(f, found); i++) {
        int32_t user = f->uses.user[f->uses.first[found->id] + i];
        bool    dead = user >= 0 && node(f, user)->op == &est_op_concat_grad && users(f, node(f, user)) == 0;

        if (!dead && (user < 0 || node(f, user)->op != &est_op_dedup_slice)) return NULL;
    }
    return found;
}

static bool match_uneven(const fuser *f, const est_node_def *whole, uneven *u)
{
    *u = (uneven){ .join = whole, .width = est_node_int(whole, "width") };
    for (int32_t i = 0; i < users(f, whole); i++) {
        int32_t             id   = f->uses.user[f->uses.first[whole->id] + i];
        const est_node_def *user = id >= 0 ? node(f, id) : NULL;

        if (user == NULL || user->in[0].node != whole->id) return false;
        if (u->forward == NULL && is_plain_product(user, &est_op_matmul_bias, false, false)) {
            u->forward = user;
        } else if (u->dkernel == NULL && is_plain_product(user, &est_op_matmul, true, false)) {
            u->dkernel = user;
        } else {
            return false;
        }
    }
    u->padded = (u->width + 3) / 4 * 4;
    if (u->forward == NULL || u->padded == u->width || u->width < UNEVEN_MIN) return false;
    u->dx = find_dx(f, u->forward->in[1]);
    return true;
}

static est_node pad_join(const fuser *f, const uneven *u)
{
    est_node *in = est_alloc(sizeof *in * ((size_t)u->join->n_in + 1)), fresh;

    if (in == NULL) return est_graph_poison(f->g, est_no_memory());
    for (int32_t i = 0; i < u->join->n_in; i++) in[i] = edge_node(f, u->join->in[i]);
    fresh = est_build(f->g, &est_op_gather_concat, (est_nodes){ in, u->join->n_in },
                      EST_ATTRS(est_attr_types("Tlookups", est_node_ints(u->join, "Tlookups")),
                                est_attr_int("N", est_node_int(u->join, "N")), est_attr_type("T", EST_F32),
                                est_attr_ints("columns", est_node_ints(u->join, "columns")),
                                est_attr_int("width", u->padded)));
    est_free(in);
    return fresh;
}

static bool pad_uneven(fuser *f, const est_node_def *whole)
{
    uneven   u;
    est_node x, kernel, fresh;

    if (!match_uneven(f, whole, &u)) return true;
    x      = pad_join(f, &u);
    kernel = est_build1(&est_op_pad_rows, edge_node(f, u.forward->in[1]), EST_ATTRS(est_attr_int("rows", u.padded)));
    if (x.id < 0 || kernel.id < 0) return false;
    name_lookups(f, x, whole);
    node(f, x.id)->order      = whole->order;
    node(f, kernel.id)->order = u.forward->order;
    fresh = est_build(f->g, &est_op_matmul_bias, EST_NODES(x, kernel, edge_node(f, u.forward->in[2])),
                      EST_ATTRS(copy_bool(u.forward, "relu")));
    if (!stand_in(f, fresh, 0, u.forward)) return false;
    if (u.dx != NULL) {
        fresh = est_build2(&est_op_matmul, edge_node(f, u.dx->in[0]), kernel,
                           EST_ATTRS(copy_bool(u.dx, "transpose_b")));
        if (!stand_in(f, fresh, 0, u.dx)) return false;
    }
    if (u.dkernel == NULL) return true;
    fresh = est_build2(&est_op_matmul, x, edge_node(f, u.dkernel->in[1]),
                       EST_ATTRS(copy_bool(u.dkernel, "transpose_a")));
    if (fresh.id < 0) return false;
    node(f, fresh.id)->order = u.dkernel->order;
    return stand_in(f, est_build1(&est_op_first_rows, fresh, EST_ATTRS(est_attr_int("rows", u.width))), 0, u.dkernel);
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static const struct rule {
    const est_op *at; /* the op a chain is recognised by */
    bool (*fuse)(fuser *f, const est_node_def *n);
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
              { &est_op_embedding_bag_grad, fuse_slice_grad, &est_op_embedding_bag_slice_grad },
              { &est_op_concat_v2, fuse_concat_bags, &est_op_embedding_bag_concat },
              { &est_op_reduce_grad, fuse_sparse_xent, &est_op_sparse_xent_and_grad, true },
              { &est_op_reduce_grad, fuse_sigmoid_xent, &est_op_sigmoid_xent_and_grad, true },
              { &est_op_sum_to_shape, drop_sum_to_shape, &est_op_sum_to_shape, true },
              { &est_op_dedup, fuse_dedup_slice, &est_op_dedup_slice, true },
              { &est_op_concat_v2, fuse_concat_lookups, &est_op_gather_concat, true },
              { &est_op_gather_concat, pad_uneven, &est_op_gather_concat, true } };

static est_status apply_rule(fuser *f, const struct rule *rule)
{
    int32_t size = est_graph_size(f->g);
    bool    ok   = true;

    EST_TRY(est_uses_create(f->g, f->rewriter.io, &f->uses));
    for (int32_t id = 0; id < size && ok; id++) {
        const est_node_def *n = node(f, id);
        if (n->op == rule->at && f->uses.n[id] > 0 && n->n_control == 0) ok = rule->fuse(f, n);
    }
    est_uses_clear(&f->uses);
    return ok ? EST_OK : est_graph_status(f->g);
}

est_status est_pass_fuse(est_graph *graph, est_io *io, const est_device *device)
{
    fuser      f      = { .g = graph, .rewriter = { .graph = graph, .io = io } };
    est_status status = EST_OK;

    for (int32_t id = 0; id < est_graph_size(graph); id++) f.writes = f.writes || node(&f, id)->op->writes != 0;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0] && status == EST_OK; r++) {
        if (rules[r].apart && device->runs == NULL) continue;
        if (est_kernel_exists(est_op_kernels(rules[r].makes, device))) status = apply_rule(&f, &rules[r]);
    }
    est_rewriter_clear(&f.rewriter);
    for (int c = 0; c <= EST_COMBINE_SQRTN; c++) {
        for (int weighted = 0; weighted < 2; weighted++) est_pattern_clear(&f.bags[c][weighted]);
    }
    return status;
}
