/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusing what is joined: parts of a matrix that would be made apart and then copied go straight to their columns, and
 * their gradients are read there (runtime/fuse.c lists the rules). */
#include "runtime/fuse.h"

#include "base/alloc.h"
#include "ops/gather_concat.h"

/* --- bags that are joined ----------------------------------------------------------------------------------------- */

static int64_t columns_of(const est_fuser *f, est_edge e)
{
    const est_shape *shape = &est_fuse_node(f, e.node)->shape[e.output];

    return shape->rank == 2 ? shape->dim[1] : -1;
}

/* Columns of the first n parts together, or -1. */
static int64_t columns_before(const est_fuser *f, const est_edge *parts, int32_t n)
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
static bool is_joined_only(const est_fuser *f, const est_node_def *concat, const est_node_def *part)
{
    for (int32_t i = 0; i < f->uses.n[part->id]; i++) {
        int32_t user = f->uses.user[f->uses.first[part->id] + i];
        if (user < 0 || (user != concat->id && est_fuse_node(f, user)->op != &est_op_concat_grad)) return false;
    }
    return true;
}

/* A bag without frills. */
static bool joins_in_place(const est_fuser *f, const est_node_def *concat, est_edge part)
{
    const est_node_def *bag = est_fuse_node(f, part.node);

    if (bag->op != &est_op_embedding_bag || bag->n_control > 0 || bag->n_in != 3 ||
        est_node_type(bag, "Tids") != EST_I64 || est_node_float(bag, "max_norm") > 0) {
        return false;
    }
    return is_joined_only(f, concat, bag);
}

/* Whether the node comes after a write to a variable. Lookups that are not ordered with that write see the old value
 * (P2), which they would not as a part of such a node. */
static bool follows_a_write(const est_fuser *f, const est_node_def *n, bool *seen, int32_t *stack)
{
    int32_t depth = 0;

    stack[depth++] = n->id;
    while (depth > 0) {
        n = est_fuse_node(f, stack[--depth]);
        for (int32_t i = 0; i < n->n_in + n->n_control; i++) {
            int32_t from = i < n->n_in ? n->in[i].node : n->control[i - n->n_in];
            if (est_fuse_node(f, from)->op->writes != 0) return true;
            if (!seen[from]) stack[depth++] = from;
            seen[from] = true;
        }
    }
    return false;
}

/* A lookup of rows by a vector of numbers. */
static bool is_joined_lookup(const est_fuser *f, const est_node_def *concat, est_edge part)
{
    const est_node_def *lookup = est_fuse_node(f, part.node);

    return lookup->op == &est_op_resource_gather && lookup->n_control == 0 && est_fuse_is_f32(lookup) &&
           est_fuse_node(f, lookup->in[0].node)->shape[0].rank == 2 &&
           est_fuse_node(f, lookup->in[1].node)->shape[lookup->in[1].output].rank == 1 &&
           is_joined_only(f, concat, lookup);
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

static void list_bag(const est_fuser *f, const est_node_def *bag, join *j)
{
    int each = j->lookups ? 2 : 3;

    for (int k = 0; k < each; k++) {
        const est_node_def *maker = est_fuse_node(f, bag->in[k].node);

        j->in[each * j->n_bags + k]    = est_fuse_edge(f, bag->in[k]);
        j->types[each * j->n_bags + k] = maker->dtype[bag->in[k].output];
    }
    j->combiners[j->n_bags++] = j->lookups ? 0 : est_node_int(bag, "combiner");
    j->bag                    = bag;
}

/* Bags first, then the others; where each begins in the whole. */
static void list_parts(const est_fuser *f, const est_node_def *concat, join *j)
{
    for (int bags = 1; bags >= 0; bags--) {
        int64_t column = 0;
        for (int32_t i = 0; i + 1 < concat->n_in; column += columns_of(f, concat->in[i++])) {
            bool is_bag = j->lookups ? is_joined_lookup(f, concat, concat->in[i])
                                     : joins_in_place(f, concat, concat->in[i]);
            if (is_bag != (bags != 0)) continue;
            j->columns[j->n_bags + j->n_parts] = column;
            if (is_bag) {
                list_bag(f, est_fuse_node(f, concat->in[i].node), j);
            } else {
                j->in[(j->lookups ? 2 : 3) * j->n_bags + j->n_parts++] = est_fuse_edge(f, concat->in[i]);
            }
        }
        j->width = column;
    }
}

/* Messages name the place of the lookup, or of what joins several; which of those it is they say by its variable. */
static void name_lookups(const est_fuser *f, est_node fresh, const est_node_def *place)
{
    est_node_def *def = est_fuse_node(f, fresh.id);

    def->stands_for = &est_op_resource_gather;
    def->name       = place->name;
    def->file       = place->file;
    def->line       = place->line;
}

static bool fuse_join(est_fuser *f, const est_node_def *concat, join *j)
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
    if (!est_fuse_stand_in(f, fresh, 0, concat)) return false;
    if (j->lookups) name_lookups(f, fresh, j->n_bags == 1 ? j->bag : concat);
    return true;
}

/* For as many parts as n has inputs. False, with the graph poisoned, when there is no memory. */
static bool make_room(const est_fuser *f, const est_node_def *n, join *j)
{
    size_t parts = (size_t)n->n_in, nodes = (size_t)est_graph_size(f->g);

    j->in    = est_alloc(sizeof *j->in * 3 * parts);
    j->types = est_alloc(sizeof *j->types * 5 * parts);
    j->seen  = est_zalloc(nodes);
    j->stack = est_alloc(sizeof *j->stack * (nodes + 1));
    if (j->in == NULL || j->types == NULL || j->seen == NULL || j->stack == NULL) {
        (void)est_graph_poison(f->g, est_no_memory());
        return false;
    }
    j->combiners = j->types + 3 * parts;
    j->columns   = j->types + 4 * parts;
    return true;
}

static void free_join(const join *j)
{
    est_free(j->in);
    est_free(j->types);
    est_free(j->seen);
    est_free(j->stack);
}

static bool fuse_concat(est_fuser *f, const est_node_def *concat, bool lookups)
{
    bool    done;
    int32_t axis = concat->n_in - 1;
    join    j    = { .lookups = lookups };

    if (!est_fuse_is_last_axis(f, concat->in[axis], concat) || columns_before(f, concat->in, axis) < 0) {
        return true;
    }
    done = make_room(f, concat, &j) && fuse_join(f, concat, &j);
    free_join(&j);
    return done;
}

bool est_fuse_concat_bags(est_fuser *f, const est_node_def *concat)
{
    return fuse_concat(f, concat, false);
}

bool est_fuse_concat_lookups(est_fuser *f, const est_node_def *concat)
{
    return !est_fuse_is_f32(concat) || fuse_concat(f, concat, true);
}

/* --- on devices that run by themselves: lookups that are added ---------------------------------------------------- */

/* Lookups first, then the others. */
static void list_terms(const est_fuser *f, const est_node_def *sum, join *j)
{
    for (int lookups = 1; lookups >= 0; lookups--) {
        for (int32_t i = 0; i < sum->n_in; i++) {
            if (is_joined_lookup(f, sum, sum->in[i]) != (lookups != 0)) continue;
            if (lookups != 0) {
                list_bag(f, est_fuse_node(f, sum->in[i].node), j);
            } else {
                j->in[2 * j->n_bags + j->n_parts++] = est_fuse_edge(f, sum->in[i]);
            }
        }
    }
}

static bool fuse_sum(est_fuser *f, const est_node_def *sum, join *j)
{
    est_node fresh;

    if (follows_a_write(f, sum, j->seen, j->stack)) return true;
    list_terms(f, sum, j);
    if (j->n_bags < 2) return true;
    fresh = est_build(f->g, &est_op_gather_sum, (est_nodes){ j->in, 2 * j->n_bags + j->n_parts },
                      EST_ATTRS(est_attr_types("Tlookups", (est_i64s){ j->types, 2 * j->n_bags }),
                                est_attr_int("N", j->n_parts), est_attr_type("T", EST_F32)));
    if (!est_fuse_stand_in(f, fresh, 0, sum)) return false;
    name_lookups(f, fresh, sum);
    return true;
}

bool est_fuse_sum_lookups(est_fuser *f, const est_node_def *sum)
{
    bool done;
    join j = { .lookups = true };

    if (!est_fuse_is_f32(sum) || sum->shape[0].rank != 2 || sum->n_in > EST_GATHER_SUM_MAX) return true;
    done = make_room(f, sum, &j) && fuse_sum(f, sum, &j);
    free_join(&j);
    return done;
}

bool est_fuse_slice_grad(est_fuser *f, const est_node_def *grad)
{
    const est_node_def *cut = est_fuse_node(f, grad->in[0].node);
    est_node            in[5], fresh;
    int64_t             column;

    if (cut->op != &est_op_concat_grad || cut->n_control > 0 || grad->n_in > 5) return true;
    column = columns_before(f, cut->in + 2, grad->in[0].output);
    if (column < 0 || columns_before(f, cut->in, 1) < 0 || !est_fuse_is_last_axis(f, cut->in[1], cut)) return true;
    for (int32_t i = 0; i < grad->n_in; i++) in[i] = est_fuse_edge(f, i == 0 ? cut->in[0] : grad->in[i]);
    fresh = est_build(
        f->g, &est_op_embedding_bag_slice_grad, (est_nodes){ in, grad->n_in },
        EST_ATTRS(est_attr_int("column", column), est_attr_int("combiner", est_node_int(grad, "combiner")),
                  est_attr_float("max_norm", est_node_float(grad, "max_norm")),
                  est_attr_int("N", est_node_int(grad, "N")), est_attr_type("dtype", est_node_type(grad, "dtype"))));
    return est_fuse_stand_in(f, fresh, 0, grad) &&
           est_fuse_replace(f, (est_edge){ grad->id, 1 }, (est_edge){ fresh.id, 1 });
}

/* --- on devices that run by themselves: lookups that are joined --------------------------------------------------- */

bool est_fuse_dedup_slice(est_fuser *f, const est_node_def *dedup)
{
    const est_node_def *cut = est_fuse_node(f, dedup->in[0].node);
    int64_t             column, columns;
    est_node            fresh;

    if (cut->op != &est_op_concat_grad || cut->n_control > 0 || !est_fuse_is_f32(dedup)) return true;
    column  = columns_before(f, cut->in + 2, dedup->in[0].output);
    columns = columns_of(f, cut->in[2 + dedup->in[0].output]);
    if (column < 0 || columns < 0 || columns_of(f, cut->in[0]) < 0 || !est_fuse_is_last_axis(f, cut->in[1], cut))
        return true;
    fresh = est_build2(&est_op_dedup_slice, est_fuse_edge(f, cut->in[0]), est_fuse_edge(f, dedup->in[1]),
                       EST_ATTRS(est_attr_int("column", column), est_attr_int("columns", columns)));
    return est_fuse_stand_in(f, fresh, 0, dedup) &&
           est_fuse_replace(f, (est_edge){ dedup->id, 1 }, (est_edge){ fresh.id, 1 });
}

#define UNEVEN_MIN 64 /* columns: narrower products do not pay for another launch */

/* Products with a joined matrix whose width is uneven: those with rows of a multiple of 16 bytes are twice as fast, so
 * the matrix gets columns of zeros, and its kernel rows of zeros. In mixed precision both are rounded first, and rows
 * have two bytes a number. */
typedef struct uneven {
    const est_node_def *join, *forward, *dkernel, *dx; /* dkernel and dx may be NULL */
    bool                rounded;
    int64_t             width, padded;
} uneven;

static bool is_plain_product(const est_node_def *n, const est_op *op, bool trans_a, bool trans_b)
{
    return n->op == op && n->n_control == 0 && est_node_bool(n, "transpose_a") == trans_a &&
           est_node_bool(n, "transpose_b") == trans_b;
}

/* The gradient towards the matrix, if nothing but sums of its columns looks at it. */
static const est_node_def *find_dx(const est_fuser *f, est_edge kernel)
{
    const est_node_def *found = NULL, *owner = est_fuse_node(f, kernel.node);

    for (int32_t i = 0; i < est_fuse_users(f, owner); i++) {
        int32_t user = f->uses.user[f->uses.first[owner->id] + i];

        if (user < 0 || !is_plain_product(est_fuse_node(f, user), &est_op_matmul, false, true)) continue;
        if (found != NULL || !est_fuse_same_edge(est_fuse_node(f, user)->in[1], kernel)) return NULL;
        found = est_fuse_node(f, user);
    }
    for (int32_t i = 0; found != NULL && i < est_fuse_users(f, found); i++) {
        int32_t user = f->uses.user[f->uses.first[found->id] + i];
        bool    dead = user >= 0 && est_fuse_node(f, user)->op == &est_op_concat_grad &&
                    est_fuse_users(f, est_fuse_node(f, user)) == 0;

        if (!dead && (user < 0 || est_fuse_node(f, user)->op != &est_op_dedup_slice)) return NULL;
    }
    return found;
}

/* The one user of the matrix if that rounds it. */
static const est_node_def *find_rounding(const est_fuser *f, const est_node_def *whole)
{
    int32_t id = est_fuse_users(f, whole) == 1 ? f->uses.user[f->uses.first[whole->id]] : -1;

    return id >= 0 && est_fuse_node(f, id)->op == &est_op_round_bfloat16 ? est_fuse_node(f, id) : NULL;
}

static bool match_uneven(const est_fuser *f, const est_node_def *whole, uneven *u)
{
    const est_node_def *rounding = find_rounding(f, whole), *factor = rounding != NULL ? rounding : whole;
    int64_t             even = rounding != NULL ? 8 : 4;

    *u = (uneven){ .join = whole, .rounded = rounding != NULL, .width = est_node_int(whole, "width") };
    for (int32_t i = 0; i < est_fuse_users(f, factor); i++) {
        int32_t             id   = f->uses.user[f->uses.first[factor->id] + i];
        const est_node_def *user = id >= 0 ? est_fuse_node(f, id) : NULL;

        if (user == NULL || user->in[0].node != factor->id) return false;
        if (u->forward == NULL && is_plain_product(user, &est_op_matmul_bias, false, false)) {
            u->forward = user;
        } else if (u->dkernel == NULL && is_plain_product(user, &est_op_matmul, true, false)) {
            u->dkernel = user;
        } else {
            return false;
        }
    }
    u->padded = (u->width + even - 1) / even * even;
    if (u->forward == NULL || u->padded == u->width || u->width < UNEVEN_MIN) return false;
    u->dx = find_dx(f, u->forward->in[1]);
    return true;
}

static est_node round_if(const uneven *u, est_node x)
{
    return u->rounded && x.id >= 0 ? est_round_bfloat16(x) : x;
}

/* The kernel itself: rows of zeros need not be rounded. */
static est_node pad_kernel(const est_fuser *f, const uneven *u)
{
    est_edge            kernel = u->forward->in[1];
    const est_node_def *maker  = est_fuse_node(f, kernel.node);

    if (u->rounded && maker->op == &est_op_round_bfloat16) kernel = maker->in[0];
    return round_if(u,
                    est_build1(&est_op_pad_rows, est_fuse_edge(f, kernel), EST_ATTRS(est_attr_int("rows", u->padded))));
}

static est_node pad_join(const est_fuser *f, const uneven *u)
{
    est_node *in = est_alloc(sizeof *in * ((size_t)u->join->n_in + 1)), fresh;

    if (in == NULL) return est_graph_poison(f->g, est_no_memory());
    for (int32_t i = 0; i < u->join->n_in; i++) in[i] = est_fuse_edge(f, u->join->in[i]);
    fresh = est_build(f->g, &est_op_gather_concat, (est_nodes){ in, u->join->n_in },
                      EST_ATTRS(est_attr_types("Tlookups", est_node_ints(u->join, "Tlookups")),
                                est_attr_int("N", est_node_int(u->join, "N")), est_attr_type("T", EST_F32),
                                est_attr_ints("columns", est_node_ints(u->join, "columns")),
                                est_attr_int("width", u->padded)));
    est_free(in);
    return fresh;
}

bool est_fuse_pad_uneven(est_fuser *f, const est_node_def *whole)
{
    uneven   u;
    est_node x, kernel, fresh;

    if (!match_uneven(f, whole, &u)) return true;
    x      = pad_join(f, &u);
    kernel = pad_kernel(f, &u);
    if (x.id < 0 || kernel.id < 0) return false;
    name_lookups(f, x, whole);
    est_fuse_node(f, x.id)->order      = whole->order;
    est_fuse_node(f, kernel.id)->order = u.forward->order;
    x                                  = round_if(&u, x);
    if (x.id < 0) return false;
    fresh = est_build(f->g, &est_op_matmul_bias, EST_NODES(x, kernel, est_fuse_edge(f, u.forward->in[2])),
                      EST_ATTRS(est_fuse_copy_bool(u.forward, "relu")));
    if (!est_fuse_stand_in(f, fresh, 0, u.forward)) return false;
    if (u.dx != NULL) {
        fresh = est_build2(&est_op_matmul, est_fuse_edge(f, u.dx->in[0]), kernel,
                           EST_ATTRS(est_fuse_copy_bool(u.dx, "transpose_b")));
        if (!est_fuse_stand_in(f, fresh, 0, u.dx)) return false;
    }
    if (u.dkernel == NULL) return true;
    fresh = est_build2(&est_op_matmul, x, est_fuse_edge(f, u.dkernel->in[1]),
                       EST_ATTRS(est_fuse_copy_bool(u.dkernel, "transpose_a")));
    if (fresh.id < 0) return false;
    est_fuse_node(f, fresh.id)->order = u.dkernel->order;
    return est_fuse_stand_in(f, est_build1(&est_op_first_rows, fresh, EST_ATTRS(est_attr_int("rows", u.width))), 0,
                             u.dkernel);
}

/* --- on devices that run by themselves: updates by sums of rows --------------------------------------------------- */

/* The update by rows that alone looks at both results of a node; NULL: none, or it cannot sum rows itself. */
static const est_node_def *find_update(const est_fuser *f, const est_node_def *sums)
{
    const est_node_def *update = NULL;

    for (int32_t i = 0; i < est_fuse_users(f, sums); i++) {
        int32_t id = f->uses.user[f->uses.first[sums->id] + i];

        if (id < 0 || (update != NULL && id != update->id)) return NULL;
        update = est_fuse_node(f, id);
    }
    if (update == NULL || update->op->sums == NULL || update->n_control > 0) return NULL;
    if (!est_fuse_same_edge(update->in[update->op->update->gradient], (est_edge){ sums->id, 0 }) ||
        !est_fuse_same_edge(update->in[update->op->update->indices], (est_edge){ sums->id, 1 })) {
        return NULL;
    }
    return est_fuse_node(f, update->in[0].node)->shape[0].rank == 2 ? update : NULL;
}

/* Made once for each list of ids. */
static est_node sorted_ids(est_fuser *f, est_edge ids)
{
    int32_t  size = est_graph_size(f->g);
    est_node fresh;

    if (f->sorted == NULL) {
        f->sorted   = est_zalloc(sizeof *f->sorted * (size_t)size);
        f->n_sorted = size;
        if (f->sorted == NULL) return est_graph_poison(f->g, est_no_memory());
    }
    if (ids.output == 0 && ids.node < f->n_sorted && f->sorted[ids.node] != 0) {
        return (est_node){ f->g, f->sorted[ids.node], 0 };
    }
    fresh = est_build1(&est_op_sort_ids, est_fuse_edge(f, ids), EST_NO_ATTRS);
    if (fresh.id < 0) return fresh;
    est_fuse_node(f, fresh.id)->order = est_fuse_node(f, ids.node)->order;
    if (ids.output == 0 && ids.node < f->n_sorted) f->sorted[ids.node] = fresh.id;
    return fresh;
}

static est_node build_update(est_fuser *f, const est_node_def *sums, const est_node_def *update, est_node sorted)
{
    bool      slice  = sums->op == &est_op_dedup_slice;
    est_attr  column = est_attr_int("column", slice ? est_node_int(sums, "column") : 0);
    est_node *in     = est_alloc(sizeof *in * ((size_t)update->n_in + 1)), fresh;
    est_attr *attrs  = est_alloc(sizeof *attrs * ((size_t)update->n_attr + 1));

    if (in == NULL || attrs == NULL) {
        fresh = est_graph_poison(f->g, est_no_memory());
    } else {
        for (int32_t i = 0; i < update->n_in; i++) in[i] = est_fuse_edge(f, update->in[i]);
        in[update->op->update->gradient] = est_fuse_edge(f, sums->in[0]);
        in[update->op->update->indices]  = est_fuse_edge(f, sums->in[1]);
        in[update->n_in]                 = sorted;
        for (int32_t i = 0; i < update->n_attr; i++) attrs[i] = update->attr[i];
        attrs[update->n_attr] = column;
        fresh                 = est_build(f->g, update->op->sums, (est_nodes){ in, update->n_in + 1 },
                                          (est_attrs){ attrs, update->n_attr + 1 });
    }
    est_free(in);
    est_free(attrs);
    return fresh;
}

bool est_fuse_sums_in_update(est_fuser *f, const est_node_def *sums)
{
    const est_node_def *update = find_update(f, sums), *values = est_fuse_node(f, sums->in[0].node);
    est_node            sorted;

    if (update == NULL || values->shape[sums->in[0].output].rank != 2) return true;
    sorted = sorted_ids(f, sums->in[1]);
    if (sorted.id < 0) return false;
    return est_fuse_stand_in(f, build_update(f, sums, update, sorted), 0, update);
}
