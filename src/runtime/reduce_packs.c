/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass that reduces and gathers values of a step across workers.
 *
 *   EstReduce(value, weight) ...      ->  EstReduceBegin(values, weights), one a pack, and one EstReduceEnd for all
 *   EstReduceRows(indices, values, w) ->  EstRowsBegin of all in a pack of rows, and an EstRowsEnd for each
 *   EstGather(value)                  ->  EstGatherBegin(value), EstGatherEnd
 *
 * Packs are filled in the order in which the program makes the values, so the gradients of the last layer, which are
 * ready first, are sent first. A pack begins as soon as its last value is computed and the pack before it has begun, so
 * that all workers begin them in one order. The ends come last: a value that depends on a reduced one is reduced at the
 * next level, whose packs follow those of this one.
 *
 *   R1  The operations of a step, and their contents, depend on the program alone, not on what else a worker fetches or
 *       feeds: levels and weights are those of the program, before feeds cut it and before passes.
 *   R2  A node that writes a variable runs after all ends, unless an end waits for it. */
#include <string.h>

#include "base/alloc.h"
#include "ops/ops.h"
#include "runtime/exchange.h"
#include "runtime/plan.h"
#include "tensor/shape.h"

/* --- sites -------------------------------------------------------------------------------------------------------- */

typedef enum site_kind { SITE_VALUE, SITE_ROWS, SITE_GATHER } site_kind;

/* An operation to replace. */
typedef struct site {
    site_kind kind;
    int32_t   id;
    int       level;
    int64_t   made;
} site;

/* A pack that is being filled: its sites, and its weights, as edges of the step and of the program (R1). */
typedef struct filling {
    int      *sites; /* [n_sites]: numbers in builder.sites */
    int       n_sites, n_weights;
    est_edge *weights, *made;
    size_t    bytes;
    bool      open;
    est_dtype dtype;
} filling;

/* The same for rows; one at a time. */
typedef struct row_filling {
    int   *sites;
    int    n;
    size_t bytes;
} row_filling;

typedef struct builder {
    est_graph       *graph;
    const est_graph *program; /* that the graph was extracted from */
    est_rewriter     rewriter;
    est_arena       *arena;
    est_exchange    *x;
    int32_t          n;     /* nodes before the pass */
    int32_t          last;  /* the last place in the program */
    int32_t         *depth; /* per node of the program: how many levels it waits for */
    bool            *early; /* per node: an end waits for it */
    site            *sites;
    int              n_sites;
    filling         *fillings; /* as x->packs */
    row_filling      row_filling;
    est_node         begun; /* the previous begin; EST_NO_NODE: none */
    est_node        *ends;  /* [n_ends] */
    int              n_ends;
} builder;

static bool find_kind(const est_op *op, site_kind *out)
{
    if (op != &est_op_reduce_across && op != &est_op_reduce_rows_across && op != &est_op_gather_across) return false;
    *out = op == &est_op_reduce_across ? SITE_VALUE : op == &est_op_reduce_rows_across ? SITE_ROWS : SITE_GATHER;
    return true;
}

static const est_node_def *node_of(const builder *b, int32_t id)
{
    return est_graph_node(b->graph, id);
}

/* Per node of a program, whose ids are a topological order: how many levels it waits for. */
static void find_depths(const est_graph *program, int32_t *depth)
{
    for (int32_t id = 0; id < est_graph_size(program); id++) {
        const est_node_def *def = est_graph_node(program, id);

        depth[id] = 0;
        for (int32_t i = 0; i < def->n_in + def->n_control; i++) {
            int32_t   from = i < def->n_in ? def->in[i].node : def->control[i - def->n_in];
            site_kind kind;
            int32_t   after = depth[from] + find_kind(est_graph_node(program, from)->op, &kind);

            if (after > depth[id]) depth[id] = after;
        }
    }
}

static void find_sites(builder *b, const est_order *order)
{
    for (int32_t k = 0; k < order->n; k++) {
        const est_node_def *def = node_of(b, order->nodes[k]);
        site_kind           kind;

        if (def->order > b->last) b->last = def->order;
        if (find_kind(def->op, &kind)) {
            b->sites[b->n_sites++] = (site){ kind, def->id, b->depth[def->order], est_node_int(def, "made") };
        }
    }
}

/* Keeps R1. Sites are few and nearly sorted. */
static void sort_sites(builder *b)
{
    for (int i = 1; i < b->n_sites; i++) {
        site moved = b->sites[i];
        int  at    = i;

        while (at > 0) {
            const site *before = &b->sites[at - 1];

            if (before->level < moved.level) break;
            if (before->level == moved.level && before->made < moved.made) break;
            if (before->level == moved.level && before->made == moved.made && before->id < moved.id) break;
            b->sites[at] = *before;
            at--;
        }
        b->sites[at] = moved;
    }
}

/* Marks the sites, and all nodes that they wait for. */
static void mark_early(builder *b, const est_order *order)
{
    for (int i = 0; i < b->n_sites; i++) b->early[b->sites[i].id] = true;
    for (int32_t k = order->n - 1; k >= 0; k--) {
        const est_node_def *def = node_of(b, order->nodes[k]);

        if (!b->early[def->id]) continue;
        for (int32_t i = 0; i < def->n_in; i++) b->early[def->in[i].node] = true;
        for (int32_t i = 0; i < def->n_control; i++) b->early[def->control[i]] = true;
    }
}

/* --- packs -------------------------------------------------------------------------------------------------------- */

static filling *open_filling(builder *b, int first, est_dtype dtype)
{
    filling *f;

    for (int i = first; i < b->x->n_packs; i++) {
        if (b->fillings[i].open && b->fillings[i].dtype == dtype) return &b->fillings[i];
    }
    f          = &b->fillings[b->x->n_packs++];
    *f         = (filling){ .open = true, .dtype = dtype };
    f->sites   = est_arena_alloc(b->arena, sizeof *f->sites * ((size_t)b->n_sites + 1));
    f->weights = est_arena_alloc(b->arena, sizeof *f->weights * ((size_t)b->n_sites + 1));
    f->made    = est_arena_alloc(b->arena, sizeof *f->made * ((size_t)b->n_sites + 1));
    return f->sites != NULL && f->weights != NULL && f->made != NULL ? f : NULL;
}

/* The weight is a site's last input. */
static int find_weight(const builder *b, const filling *f, const est_node_def *def)
{
    est_edge made = est_graph_node(b->program, def->order)->in[def->n_in - 1];

    for (int i = 0; i < f->n_weights; i++) {
        if (f->made[i].node == made.node && f->made[i].output == made.output) return i;
    }
    return -1;
}

static int add_weight(const builder *b, filling *f, const est_node_def *def)
{
    int at = find_weight(b, f, def);

    if (at >= 0) return at;
    f->weights[f->n_weights] = def->in[def->n_in - 1];
    f->made[f->n_weights]    = est_graph_node(b->program, def->order)->in[def->n_in - 1];
    return f->n_weights++;
}

/* By the shape in the program (R1). A shape with unknown dimensions counts as empty. */
static size_t bytes_of(const est_node_def *def)
{
    int64_t count = est_shape_count(&def->shape[0]);

    return count > 0 ? (size_t)count * est_dtype_size(def->dtype[0]) : 0;
}

/* The same for rows, by the inputs: the result does not have their number. */
static size_t bytes_of_rows(const builder *b, const est_node_def *def)
{
    const est_node_def *made  = est_graph_node(b->program, def->order);
    size_t              bytes = 0;

    for (int i = 0; i < 2; i++) {
        const est_node_def *from  = est_graph_node(b->program, made->in[i].node);
        int64_t             count = est_shape_count(&from->shape[made->in[i].output]);

        if (count > 0) bytes += (size_t)count * est_dtype_size(from->dtype[made->in[i].output]);
    }
    return bytes;
}

static est_node as_node(const builder *b, est_edge edge)
{
    return (est_node){ b->graph, edge.node, edge.output };
}

/* A begin runs as soon as it can, after the one before it. */
static est_status begin_next(builder *b, est_node begin)
{
    if (b->begun.graph != NULL) begin = est_after(begin, b->begun);
    EST_TRY(est_graph_status(b->graph));
    est_graph_node(b->graph, begin.id)->order = 0;
    b->begun                                  = begin;
    return EST_OK;
}

static est_status close_filling(builder *b, filling *f)
{
    int                number = (int)(f - b->fillings);
    est_pack_exchange *p      = &b->x->packs[number];
    est_node          *in     = est_arena_alloc(b->arena, sizeof *in * ((size_t)(f->n_sites + f->n_weights) + 1));

    f->open   = false;
    *p        = (est_pack_exchange){ .in = b->x, .dtype = f->dtype, .n_values = f->n_sites, .n_weights = f->n_weights };
    p->weight = est_arena_alloc(b->arena, sizeof *p->weight * ((size_t)f->n_sites + 1));
    p->mean   = est_arena_alloc(b->arena, sizeof *p->mean * ((size_t)f->n_sites + 1));
    p->totals = est_arena_alloc(b->arena, sizeof *p->totals * ((size_t)f->n_weights + 1));
    if (in == NULL || p->weight == NULL || p->mean == NULL || p->totals == NULL) return est_no_memory();
    for (int i = 0; i < f->n_sites; i++) {
        const est_node_def *def = node_of(b, b->sites[f->sites[i]].id);

        in[i]        = as_node(b, def->in[0]);
        p->weight[i] = find_weight(b, f, def);
        p->mean[i]   = est_node_bool(def, "mean");
    }
    for (int i = 0; i < f->n_weights; i++) in[f->n_sites + i] = as_node(b, f->weights[i]);
    return begin_next(b, est_build(b->graph, &est_op_pack_begin, (est_nodes){ in, f->n_sites + f->n_weights },
                                   EST_ATTRS(est_attr_int("N", f->n_sites), est_attr_int("M", f->n_weights),
                                             est_attr_type("T", f->dtype), est_attr_int("at", number))));
}

static size_t pack_limit(const builder *b)
{
    return b->x->communicator->bytes_per_pack > 0 ? b->x->communicator->bytes_per_pack : EST_BYTES_PER_PACK;
}

static bool is_distinct(const builder *b, est_edge indices)
{
    return (node_of(b, indices.node)->op->distinct >> indices.output & 1u) != 0;
}

/* Rows of consecutive tables are sent as one: those of one table are often smaller than the overhead of a message. */
static est_status close_rows(builder *b)
{
    row_filling   *r = &b->row_filling;
    int            n = r->n, number = b->x->n_row_packs;
    est_rows_pack *p     = &b->x->row_packs[number];
    est_node      *in    = est_arena_alloc(b->arena, sizeof *in * 3 * (size_t)n + 1);
    int64_t       *types = est_arena_alloc(b->arena, sizeof *types * 2 * (size_t)n + 1);

    if (n == 0) return EST_OK;
    *p      = (est_rows_pack){ .in = b->x, .slot = number, .first = b->x->n_rows - n, .n = n };
    p->mine = est_arena_alloc(b->arena, sizeof *p->mine * (size_t)n);
    p->all  = est_arena_alloc(b->arena, sizeof *p->all * (size_t)n);
    if (in == NULL || types == NULL || p->mine == NULL || p->all == NULL) return est_no_memory();
    b->x->n_row_packs++;
    for (int i = 0; i < n; i++) {
        const est_node_def *def = node_of(b, b->sites[r->sites[i]].id);

        for (int k = 0; k < 3; k++) in[k * n + i] = as_node(b, def->in[k]);
        types[i]     = def->dtype[0];
        types[n + i] = def->dtype[1];
        p->mine[i]   = (est_comm_rows){ .distinct = is_distinct(b, def->in[0]) };
        p->all[i]    = (est_comm_rows){ .distinct = true };
    }
    r->n     = 0;
    r->bytes = 0;
    return begin_next(
        b, est_build(b->graph, &est_op_rows_begin, (est_nodes){ in, 3 * n },
                     EST_ATTRS(est_attr_int("N", n), est_attr_types("Tindices", (est_i64s){ types, n }),
                               est_attr_types("T", (est_i64s){ types + n, n }), est_attr_int("at", number))));
}

static est_status add_value(builder *b, int first_pack, int number)
{
    const est_node_def *def = node_of(b, b->sites[number].id);
    filling            *f   = open_filling(b, first_pack, def->dtype[0]);

    if (f == NULL) return est_no_memory();
    f->sites[f->n_sites++] = number;
    (void)add_weight(b, f, def);
    f->bytes += bytes_of(def);
    return f->bytes > pack_limit(b) ? close_filling(b, f) : EST_OK;
}

/* The weight of rows is summed in a pack of values: one that has it, or one that is still open. */
static est_status add_rows(builder *b, int first_pack, int number)
{
    const est_node_def *def = node_of(b, b->sites[number].id);
    filling            *f   = NULL;
    row_filling        *r   = &b->row_filling;

    for (int i = first_pack; i < b->x->n_packs && f == NULL; i++) {
        if (b->fillings[i].dtype == EST_I64) continue; /* its totals count workers, not examples */
        if (find_weight(b, &b->fillings[i], def) >= 0) f = &b->fillings[i];
    }
    if (f == NULL) f = open_filling(b, first_pack, EST_F32);
    if (f == NULL) return est_no_memory();
    b->x->rows[b->x->n_rows++] = (est_rows_exchange){ .in     = b->x,
                                                      .pack   = b->x->n_row_packs,
                                                      .at     = r->n,
                                                      .weight = { (int)(f - b->fillings), add_weight(b, f, def) },
                                                      .mean   = est_node_bool(def, "mean") };
    r->sites[r->n++]           = number;
    r->bytes += bytes_of_rows(b, def);
    return r->bytes > pack_limit(b) ? close_rows(b) : EST_OK;
}

static est_status add_gather(builder *b, const site *s)
{
    int number = b->x->n_gatherings++;

    b->x->gatherings[number] = (est_gathering){ .in = b->x, .slot = number };
    return begin_next(b, est_build1(&est_op_gather_begin, as_node(b, node_of(b, s->id)->in[0]),
                                    EST_ATTRS(est_attr_int("at", number))));
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

/* An end waits for all begins so far, and comes last. */
static est_status end_next(builder *b, est_node end)
{
    end = est_after(end, b->begun);
    EST_TRY(est_graph_status(b->graph));
    est_graph_node(b->graph, end.id)->order = b->last;
    b->ends[b->n_ends++]                    = end;
    return EST_OK;
}

static est_status end_packs(builder *b, int first)
{
    est_exchange *x = b->x;
    int           n = 0, number = x->n_levels++;
    est_node     *in     = est_arena_alloc(b->arena, sizeof *in * ((size_t)b->n_sites + 1));
    int64_t      *types  = est_arena_alloc(b->arena, sizeof *types * ((size_t)b->n_sites + 1));
    est_shape    *shapes = est_arena_alloc(b->arena, sizeof *shapes * ((size_t)b->n_sites + 1));
    est_node      end;

    x->levels[number] = (est_level){ x, first, x->n_packs - first };
    if (in == NULL || types == NULL || shapes == NULL) return est_no_memory();
    for (int i = first; i < x->n_packs; i++) {
        for (int k = 0; k < b->fillings[i].n_sites; k++, n++) {
            const est_node_def *def = node_of(b, b->sites[b->fillings[i].sites[k]].id);

            in[n]     = as_node(b, def->in[0]);
            types[n]  = def->dtype[0];
            shapes[n] = def->shape[0];
        }
    }
    end = est_build(b->graph, &est_op_packs_end, (est_nodes){ in, n },
                    EST_ATTRS(est_attr_types("T", (est_i64s){ types, n }),
                              est_attr_shapes("shapes", (est_shapes){ shapes, n }), est_attr_int("at", number)));
    EST_TRY(end_next(b, end));
    n = 0;
    for (int i = first; i < x->n_packs; i++) {
        for (int k = 0; k < b->fillings[i].n_sites; k++, n++) {
            est_edge from = { b->sites[b->fillings[i].sites[k]].id, 0 };

            EST_TRY(est_rewriter_replace(&b->rewriter, from, (est_edge){ end.id, n }));
        }
    }
    return EST_OK;
}

static est_status end_site(builder *b, const site *s, int number, est_node packs)
{
    const est_node_def *def = node_of(b, s->id);
    est_attrs           at  = EST_ATTRS(est_attr_int("at", number));
    est_node            end = s->kind == SITE_ROWS
                                  ? est_build2(&est_op_rows_end, as_node(b, def->in[0]), as_node(b, def->in[1]), at)
                                  : est_build1(&est_op_gather_end, as_node(b, def->in[0]), at);

    if (packs.graph != NULL) end = est_after(end, packs); /* which has the weights */
    EST_TRY(end_next(b, end));
    for (int i = 0; i < def->n_out; i++) {
        EST_TRY(est_rewriter_replace(&b->rewriter, (est_edge){ s->id, i }, (est_edge){ end.id, i }));
    }
    return EST_OK;
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

/* Replaces the sites [first, end) of one level. */
static est_status replace_level(builder *b, int first, int end)
{
    int      first_pack = b->x->n_packs, rows_at = b->x->n_rows, gathering_at = b->x->n_gatherings;
    est_node packs = EST_NO_NODE;

    for (int i = first; i < end; i++) {
        const site *s = &b->sites[i];

        if (s->kind == SITE_VALUE) EST_TRY(add_value(b, first_pack, i));
        if (s->kind == SITE_ROWS) EST_TRY(add_rows(b, first_pack, i));
        if (s->kind == SITE_GATHER) EST_TRY(add_gather(b, s));
    }
    EST_TRY(close_rows(b));
    for (int i = first_pack; i < b->x->n_packs; i++) {
        if (b->fillings[i].open) EST_TRY(close_filling(b, &b->fillings[i]));
    }
    if (b->x->n_packs > first_pack) {
        EST_TRY(end_packs(b, first_pack));
        packs = b->ends[b->n_ends - 1];
    }
    for (int i = first; i < end; i++) {
        const site *s = &b->sites[i];

        if (s->kind == SITE_VALUE) continue;
        EST_TRY(end_site(b, s, s->kind == SITE_ROWS ? rows_at++ : gathering_at++, packs));
    }
    return EST_OK;
}

/* Keeps R2. */
static est_status hold_writers(builder *b, const est_order *order)
{
    for (int32_t k = 0; k < order->n; k++) {
        est_node_def *def = est_graph_node(b->graph, order->nodes[k]);
        int32_t      *control;

        if (def->op->writes == 0 || b->early[def->id]) continue;
        control = est_arena_alloc(est_graph_arena(b->graph), sizeof *control * (size_t)(def->n_control + b->n_ends));
        if (control == NULL) return est_no_memory();
        if (def->n_control > 0) memcpy(control, def->control, sizeof *control * (size_t)def->n_control);
        for (int i = 0; i < b->n_ends; i++) control[def->n_control + i] = b->ends[i].id;
        def->control = control;
        def->n_control += b->n_ends;
    }
    return EST_OK;
}

static est_status make_exchange(builder *b)
{
    size_t n = (size_t)b->n_sites + 1;

    b->x = est_zalloc(sizeof *b->x);
    if (b->x == NULL) return est_no_memory();
    b->x->packs      = est_arena_alloc(b->arena, sizeof *b->x->packs * (n + 1)); /* one may have weights only */
    b->x->rows       = est_arena_alloc(b->arena, sizeof *b->x->rows * n);
    b->x->row_packs  = est_arena_alloc(b->arena, sizeof *b->x->row_packs * n);
    b->x->gatherings = est_arena_alloc(b->arena, sizeof *b->x->gatherings * n);
    b->x->levels     = est_arena_alloc(b->arena, sizeof *b->x->levels * n);
    b->fillings      = est_arena_alloc(b->arena, sizeof *b->fillings * (n + 1));
    b->ends          = est_arena_alloc(b->arena, sizeof *b->ends * 2 * n);

    b->row_filling.sites = est_arena_alloc(b->arena, sizeof *b->row_filling.sites * n);
    if (b->x->packs == NULL || b->x->rows == NULL || b->x->gatherings == NULL || b->x->levels == NULL ||
        b->fillings == NULL || b->ends == NULL || b->x->row_packs == NULL || b->row_filling.sites == NULL) {
        return est_no_memory();
    }
    return EST_OK;
}

static est_status replace_sites(builder *b, est_communicator *communicator, const est_order *order)
{
    EST_TRY(make_exchange(b));
    b->x->communicator = communicator;
    sort_sites(b);
    mark_early(b, order);
    for (int first = 0, end; first < b->n_sites; first = end) {
        for (end = first; end < b->n_sites && b->sites[end].level == b->sites[first].level;) end++;
        EST_TRY(replace_level(b, first, end));
    }
    return hold_writers(b, order);
}

/* Without other workers a value is its own sum. Levels do not matter: later sites see the replacements of earlier
 * ones. */
static est_status remove_sites(builder *b)
{
    for (int i = 0; i < b->n_sites; i++) {
        const est_node_def *def  = node_of(b, b->sites[i].id);
        est_node            zero = EST_NO_NODE;

        if (b->sites[i].kind == SITE_GATHER) {
            zero = est_scalar(b->graph, EST_I64, 0); /* this worker is the first */
            EST_TRY(est_graph_status(b->graph));
            est_graph_node(b->graph, zero.id)->order = 0;
        }
        for (int o = 0; o < def->n_out; o++) {
            est_edge to = o < def->n_in ? def->in[o] : (est_edge){ zero.id, 0 };

            EST_TRY(est_rewriter_replace(&b->rewriter, (est_edge){ def->id, o }, to));
        }
    }
    return EST_OK;
}

static est_status run_pass(builder *b, est_communicator *communicator)
{
    est_order  order;
    est_status status;

    b->depth = est_arena_alloc(b->arena, sizeof *b->depth * ((size_t)est_graph_size(b->program) + 1));
    b->early = est_arena_alloc(b->arena, sizeof *b->early * ((size_t)b->n + 1));
    b->sites = est_arena_alloc(b->arena, sizeof *b->sites * ((size_t)b->n + 1));
    if (b->depth == NULL || b->early == NULL || b->sites == NULL) return est_no_memory();
    status = est_order_make(b->graph, b->rewriter.io, b->arena, &order);
    if (communicator != NULL) find_depths(b->program, b->depth); /* else levels are not used */
    if (status == EST_OK) find_sites(b, &order);
    if (status == EST_OK && b->n_sites > 0) {
        if (communicator == NULL) {
            status = remove_sites(b);
        } else {
            status = replace_sites(b, communicator, &order);
        }
    }
    est_order_clear(&order);
    return status;
}

static bool has_sites(const est_graph *graph)
{
    site_kind kind;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        if (find_kind(est_graph_node(graph, id)->op, &kind)) return true;
    }
    return false;
}

est_status est_pass_reduce(est_graph *graph, const est_graph *program, est_io *io, est_communicator *communicator,
                           est_arena *arena, est_exchange **out)
{
    builder    b = { .graph    = graph,
                     .program  = program,
                     .arena    = arena,
                     .n        = est_graph_size(graph),
                     .rewriter = { .graph = graph, .io = io } };
    est_status status;

    *out = NULL;
    if (!has_sites(graph)) return EST_OK;
    status = run_pass(&b, communicator);
    est_rewriter_clear(&b.rewriter);
    if (status != EST_OK) {
        est_exchange_free(b.x);
        return status;
    }
    *out = b.x;
    return EST_OK;
}

/* --- targets behind feeds ----------------------------------------------------------------------------------------- */

/* A program, and a step of it. */
typedef struct fed_step {
    const est_graph *program;
    const est_io    *io;
    bool            *fed;   /* per node: one of its outputs is */
    bool            *ready; /* per node: it can be computed with the feeds */
    bool            *whole; /* per node: the step needs it if nothing is fed, */
    bool            *left;  /* and with the feeds */
    int32_t         *depth;
    bool             idle; /* all inputs of exchanges are fed */
} fed_step;

static bool is_fed(const fed_step *h, est_edge edge)
{
    if (!h->fed[edge.node]) return false;
    for (int i = 0; i < h->io->n_feeds; i++) {
        if (h->io->feeds[i].id == edge.node && h->io->feeds[i].output == edge.output) return true;
    }
    return false;
}

static est_edge edge_of(const est_node_def *def, int32_t i)
{
    return i < def->n_in ? def->in[i] : (est_edge){ def->control[i - def->n_in], 0 };
}

static void find_needed(const fed_step *h)
{
    for (int i = 0; i < h->io->n_fetches + h->io->n_targets; i++) {
        est_node node = i < h->io->n_fetches ? h->io->fetches[i] : h->io->targets[i - h->io->n_fetches];

        h->whole[node.id] = true;
        if (!is_fed(h, (est_edge){ node.id, node.output })) h->left[node.id] = true;
    }
    for (int32_t id = est_graph_size(h->program) - 1; id >= 0; id--) {
        const est_node_def *def = est_graph_node(h->program, id);

        for (int32_t i = 0; i < def->n_in + def->n_control && h->whole[id]; i++) {
            est_edge edge = edge_of(def, i);

            h->whole[edge.node] = true;
            if (h->left[id] && !is_fed(h, edge)) h->left[edge.node] = true;
        }
    }
}

static void find_ready(const fed_step *h)
{
    for (int32_t id = 0; id < est_graph_size(h->program); id++) {
        const est_node_def *def = est_graph_node(h->program, id);

        h->ready[id] = def->op != &est_op_placeholder;
        for (int32_t i = 0; i < def->n_in + def->n_control && h->ready[id]; i++) {
            est_edge edge = edge_of(def, i);

            h->ready[id] = h->ready[edge.node] || is_fed(h, edge);
        }
    }
}

/* Whether all inputs of exchanges are fed: the worker has no batch. */
static bool is_idle(const fed_step *h)
{
    site_kind kind;

    for (int32_t id = 0; id < est_graph_size(h->program); id++) {
        const est_node_def *def = est_graph_node(h->program, id);

        for (int32_t i = 0; i < def->n_in && find_kind(def->op, &kind); i++) {
            if (!is_fed(h, def->in[i]) && !find_kind(est_graph_node(h->program, def->in[i].node)->op, &kind))
                return false;
        }
    }
    return true;
}

/* Nodes that all workers run: sites, and updates that use reduced values. A worker without a batch also runs the
 * updates of its targets that need none. */
static bool is_common(const fed_step *h, int32_t id)
{
    const est_op *op = est_graph_node(h->program, id)->op;
    site_kind     kind;

    return find_kind(op, &kind) || (op->writes != 0 && (h->depth[id] > 0 || (h->idle && h->left[id])));
}

static est_node node_in(const est_graph *graph, int32_t id, int32_t output)
{
    return (est_node){ (est_graph *)(uintptr_t)graph, id, output };
}

static est_status add_targets(const fed_step *h, est_io *io, est_arena *arena)
{
    int32_t   n       = est_graph_size(h->program);
    est_node *targets = est_arena_alloc(arena, sizeof *targets * ((size_t)io->n_targets + (size_t)n));

    int n_kept = 0;

    if (targets == NULL) return est_no_memory();
    for (int i = 0; i < io->n_targets; i++) {
        if (!h->idle || h->ready[io->targets[i].id]) targets[n_kept++] = io->targets[i];
    }
    for (int32_t id = 0; id < n; id++) {
        if (h->whole[id] && (h->idle || !h->left[id]) && !h->fed[id] && h->ready[id] && is_common(h, id)) {
            targets[n_kept++] = node_in(h->program, id, 0);
        }
    }
    io->targets   = targets;
    io->n_targets = n_kept;
    return EST_OK;
}

static bool all_in(const est_graph *program, const est_node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        if (nodes[i].graph != program || nodes[i].id < 0 || nodes[i].id >= est_graph_size(program)) return false;
    }
    return true;
}

est_status est_reduce_add_targets(const est_graph *program, est_io *io, est_arena *arena)
{
    size_t   n = (size_t)est_graph_size(program) + 1;
    bool    *marks;
    fed_step h = { .program = program, .io = io };

    if (io->n_feeds == 0 || !has_sites(program)) return EST_OK;
    if (!all_in(program, io->feeds, io->n_feeds) || !all_in(program, io->fetches, io->n_fetches) ||
        !all_in(program, io->targets, io->n_targets)) {
        return EST_OK; /* est_pass_extract reports the error */
    }
    marks   = est_arena_alloc(arena, 4 * n * sizeof *marks);
    h.depth = est_arena_alloc(arena, sizeof *h.depth * n);
    if (marks == NULL || h.depth == NULL) return est_no_memory();
    h.fed   = marks;
    h.ready = marks + n;
    h.whole = marks + 2 * n;
    h.left  = marks + 3 * n;
    for (int i = 0; i < io->n_feeds; i++) h.fed[io->feeds[i].id] = true;
    find_depths(program, h.depth);
    find_ready(&h);
    find_needed(&h);
    h.idle = is_idle(&h);
    return add_targets(&h, io, arena);
}

/* The result of another site is no input: it is available in any case. */
static int add_input(const est_graph *graph, est_node *out, int max, int n, est_edge edge)
{
    site_kind kind;

    if (find_kind(est_graph_node(graph, edge.node)->op, &kind)) return n;
    for (int i = 0; i < n && i < max; i++) {
        if (out[i].id == edge.node && out[i].output == edge.output) return n;
    }
    if (n < max) out[n] = node_in(graph, edge.node, edge.output);
    return n + 1;
}

int est_reduce_inputs(const est_graph *graph, est_node *out, int max)
{
    int       n = 0;
    site_kind kind;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (!find_kind(def->op, &kind)) continue;
        for (int32_t i = 0; i < def->n_in; i++) n = add_input(graph, out, max, n, def->in[i]);
    }
    return n;
}
