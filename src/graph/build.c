/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding an operation to a graph: check its inputs against the signature, deduce type attributes, fill defaults, infer
 * shapes, name it. Everything a user can get wrong ends here with the node, the shapes and the line that built it. */
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "graph/internal.h"
#include "graph/op.h"
#include "graph/signature.h"

/* The node under construction. */
typedef struct build {
    est_graph    *g;
    const est_op *op;
    est_nodes     in;
    est_signature sig;
    est_node_def *def;
    bool          known[EST_ATTR_MAX]; /* attribute has a value */
} build;

static est_status copy_attr(est_graph *g, est_attr *to, const est_attr *from, const char *name)
{
    char *copy = est_arena_strdup(g->arena, name);

    if (copy == NULL) return est_no_memory();
    *to      = *from;
    to->name = copy;
    if (from->kind == EST_ATTR_STRING) {
        to->s = est_arena_strdup(g->arena, from->s);
        if (to->s == NULL) return est_no_memory();
    } else if (from->kind == EST_ATTR_INTS || from->kind == EST_ATTR_TYPES) {
        int64_t *ints = est_arena_alloc(g->arena, sizeof *ints * (size_t)(from->ints.n + 1));
        if (ints == NULL) return est_no_memory();
        if (from->ints.n > 0) memcpy(ints, from->ints.data, sizeof *ints * (size_t)from->ints.n);
        to->ints.data = ints;
    } else if (from->kind == EST_ATTR_SHAPES) {
        est_shape *shapes = est_arena_alloc(g->arena, sizeof *shapes * (size_t)(from->shapes.n + 1));
        if (shapes == NULL) return est_no_memory();
        if (from->shapes.n > 0) memcpy(shapes, from->shapes.data, sizeof *shapes * (size_t)from->shapes.n);
        to->shapes.data = shapes;
    } else if (from->kind == EST_ATTR_TENSOR) {
        to->tensor = est_tensor_ref(from->tensor);
    }
    return EST_OK;
}

/* Fails for a text or a list that the user passed as NULL. */
static est_status check_attr(const est_attr *attr)
{
    bool list = attr->kind == EST_ATTR_INTS || attr->kind == EST_ATTR_TYPES;

    if (list && !EST_LIST_OK(attr->ints)) {
        return est_fail(EST_INVALID_ARGUMENT, "'%s': %d numbers given, but the pointer is NULL", attr->name,
                        attr->ints.n);
    }
    if ((attr->kind == EST_ATTR_STRING && attr->s == NULL) || (attr->kind == EST_ATTR_TENSOR && attr->tensor == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "'%s' is NULL", attr->name);
    }
    return EST_OK;
}

static est_status given_attrs(build *b, est_attrs attrs)
{
    for (int i = 0; i < attrs.n; i++) {
        int a = 0;
        while (a < b->sig.n_attr && strcmp(b->sig.attr[a].name, attrs.data[i].name) != 0) a++;
        if (a == b->sig.n_attr) {
            return est_fail(EST_INVALID_ARGUMENT, "op %s has no attribute '%s'", b->op->name, attrs.data[i].name);
        }
        if (b->sig.attr[a].kind != attrs.data[i].kind) {
            return est_fail(EST_INVALID_ARGUMENT, "attribute '%s' of op %s has the wrong kind", attrs.data[i].name,
                            b->op->name);
        }
        EST_TRY(check_attr(&attrs.data[i]));
        EST_TRY(copy_attr(b->g, &b->def->attr[a], &attrs.data[i], b->sig.attr[a].name));
        b->known[a] = true;
    }
    return EST_OK;
}

static est_status set_type(build *b, const est_arg *arg, est_dtype dtype, int input)
{
    est_attr *attr;

    if (arg->type_attr < 0) {
        if (dtype == arg->dtype) return EST_OK;
        return est_fail(EST_INVALID_ARGUMENT, "input %d ('%s') must be %s, got %s", input, arg->name,
                        est_dtype_name(arg->dtype), est_dtype_name(dtype));
    }
    attr = &b->def->attr[arg->type_attr];
    if (b->known[arg->type_attr]) {
        if (attr->type == dtype) return EST_OK;
        return est_fail(EST_INVALID_ARGUMENT,
                        "input %d ('%s') is %s where %s is needed: all inputs of type %s must agree", input, arg->name,
                        est_dtype_name(dtype), est_dtype_name(attr->type), b->sig.attr[arg->type_attr].name);
    }
    *attr                    = est_attr_type(b->sig.attr[arg->type_attr].name, dtype);
    b->known[arg->type_attr] = true;
    return EST_OK;
}

static bool is_type_list(const build *b, const est_arg *arg)
{
    return arg->type_attr >= 0 && b->sig.attr[arg->type_attr].kind == EST_ATTR_TYPES;
}

/* The inputs from `next` on are a list whose types are an attribute: n of them, of these types or of any. */
static est_status set_types(build *b, const est_arg *arg, int next, int n)
{
    const est_attr_def *d     = &b->sig.attr[arg->type_attr];
    est_attr           *attr  = &b->def->attr[arg->type_attr];
    int64_t            *types = est_arena_alloc(b->g->arena, sizeof *types * (size_t)(n + 1));

    if (types == NULL) return est_no_memory();
    for (int k = 0; k < n; k++) {
        types[k] = est_node_dtype(b->in.data[next + k]);
        if (b->known[arg->type_attr] && attr->ints.data[k] != types[k]) {
            return est_fail(EST_INVALID_ARGUMENT, "input %d ('%s') must be %s, got %s", next + k, arg->name,
                            est_dtype_name((est_dtype)attr->ints.data[k]), est_dtype_name((est_dtype)types[k]));
        }
    }
    if (!b->known[arg->type_attr]) *attr = est_attr_types(d->name, (est_i64s){ types, n });
    b->known[arg->type_attr] = true;
    return EST_OK;
}

/* The number of tensors of argument i, when `left` inputs remain for it and the `after` arguments that follow. */
static int list_length(const build *b, const est_arg *arg, int left, int after)
{
    if (is_type_list(b, arg)) {
        return b->known[arg->type_attr] ? b->def->attr[arg->type_attr].ints.n : left - after;
    }
    return b->known[arg->number_attr] ? (int)b->def->attr[arg->number_attr].i : left - after;
}

/* The dtype of a handle does not tell which kind of resource it names; its producer does. */
static est_status check_handle(const build *b, const est_arg *arg, int input)
{
    const est_op *maker = est_def(b->in.data[input])->op;
    bool          table = b->op->takes_table;

    if (arg->dtype != EST_RESOURCE || maker->source == (table ? EST_SOURCE_TABLE : EST_SOURCE_VARIABLE)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "input %d ('%s') must be the handle of a %s, got the output of %s", input,
                    arg->name, table ? "table" : "variable", maker->name);
}

static est_status check_inputs(build *b)
{
    int next = 0;

    for (int i = 0; i < b->sig.n_in; i++) {
        const est_arg *arg = &b->sig.in[i];
        int            n   = 1;

        if (is_type_list(b, arg)) {
            n = list_length(b, arg, b->in.n - next, b->sig.n_in - i - 1);
            if (n < 0 || n > b->in.n - next) return est_fail(EST_INVALID_ARGUMENT, "input '%s' is missing", arg->name);
            EST_TRY(set_types(b, arg, next, n));
            next += n;
            continue;
        }
        if (arg->number_attr >= 0) {
            n = list_length(b, arg, b->in.n - next, b->sig.n_in - i - 1);
            if (n < 0) n = 0;
            b->def->attr[arg->number_attr] = est_attr_int(b->sig.attr[arg->number_attr].name, n);
            b->known[arg->number_attr]     = true;
        }
        for (int k = 0; k < n; k++, next++) {
            if (next >= b->in.n) return est_fail(EST_INVALID_ARGUMENT, "input '%s' is missing", arg->name);
            EST_TRY(set_type(b, arg, est_node_dtype(b->in.data[next]), next));
            EST_TRY(check_handle(b, arg, next));
        }
    }
    if (next == b->in.n) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%d inputs given, %d expected", b->in.n, next);
}

static est_status check_types(const est_attr_def *d, const est_attr *attr)
{
    int n = d->types == 0 ? 0 : attr->kind == EST_ATTR_TYPES ? attr->ints.n : 1;

    for (int i = 0; i < n; i++) {
        est_dtype dtype = attr->kind == EST_ATTR_TYPES ? (est_dtype)attr->ints.data[i] : attr->type;
        if ((d->types & 1u << dtype) != 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "type %s is not supported here", est_dtype_name(dtype));
    }
    return EST_OK;
}

static est_status default_attrs(build *b)
{
    for (int a = 0; a < b->sig.n_attr; a++) {
        const est_attr_def *d = &b->sig.attr[a];
        if (!b->known[a] && !d->optional) {
            return est_fail(EST_INVALID_ARGUMENT, "attribute '%s' is missing", d->name);
        }
        if (!b->known[a]) {
            EST_TRY(copy_attr(b->g, &b->def->attr[a], &d->fallback, d->name));
        } else if (b->def->attr[a].name == d->name) { /* deduced: its name must outlive the parsed signature */
            est_attr deduced = b->def->attr[a];
            EST_TRY(copy_attr(b->g, &b->def->attr[a], &deduced, d->name));
        }
        EST_TRY(check_types(d, &b->def->attr[a]));
    }
    return EST_OK;
}

/* The number of tensors of a result. */
static int result_length(const build *b, const est_arg *arg)
{
    if (is_type_list(b, arg)) return b->def->attr[arg->type_attr].ints.n;
    return arg->number_attr >= 0 ? (int)b->def->attr[arg->number_attr].i : 1;
}

static est_dtype result_type(const build *b, const est_arg *arg, int k)
{
    const est_attr *attr = arg->type_attr >= 0 ? &b->def->attr[arg->type_attr] : NULL;

    if (attr == NULL) return arg->dtype;
    return attr->kind == EST_ATTR_TYPES ? (est_dtype)attr->ints.data[k] : attr->type;
}

static int count_outputs(const build *b)
{
    int n = 0;

    for (int i = 0; i < b->sig.n_out; i++) n += result_length(b, &b->sig.out[i]);
    return n;
}

static est_status make_outputs(build *b)
{
    est_node_def *def  = b->def;
    int           next = 0;

    def->n_out = count_outputs(b);
    def->dtype = est_arena_alloc(b->g->arena, sizeof *def->dtype * (size_t)(def->n_out + 1));
    def->shape = est_arena_alloc(b->g->arena, sizeof *def->shape * (size_t)(def->n_out + 1));
    def->value = est_arena_alloc(b->g->arena, sizeof *def->value * (size_t)(def->n_out + 1));
    if (def->dtype == NULL || def->shape == NULL || def->value == NULL) return est_no_memory();
    for (int i = 0; i < b->sig.n_out; i++) {
        const est_arg *arg = &b->sig.out[i];
        int            n   = result_length(b, arg);
        for (int k = 0; k < n; k++, next++) {
            def->dtype[next]   = result_type(b, arg, k);
            def->shape[next]   = EST_SHAPE_UNKNOWN;
            def->value[next].n = -1;
        }
    }
    return EST_OK;
}

static est_status make_inputs(build *b)
{
    b->def->n_in = b->in.n;
    b->def->in   = est_arena_alloc(b->g->arena, sizeof *b->def->in * (size_t)(b->in.n + 1));
    if (b->def->in == NULL) return est_no_memory();
    for (int i = 0; i < b->in.n; i++) b->def->in[i] = (est_edge){ b->in.data[i].id, b->in.data[i].output };
    return EST_OK;
}

static est_status infer_shapes(build *b)
{
    size_t            n        = (size_t)b->in.n + 1;
    est_shape        *in       = est_alloc(sizeof *in * n);
    est_dtype        *in_dtype = est_alloc(sizeof *in_dtype * n);
    const est_value **in_value = est_alloc(sizeof *in_value * n);
    est_status        status   = EST_OK;

    if (in == NULL || in_dtype == NULL || in_value == NULL) {
        status = est_no_memory();
    } else {
        for (int i = 0; i < b->in.n; i++) {
            const est_node_def *from = est_def(b->in.data[i]);
            in[i]                    = from->shape[b->in.data[i].output];
            in_dtype[i]              = from->dtype[b->in.data[i].output];
            in_value[i] = from->value[b->in.data[i].output].n >= 0 ? &from->value[b->in.data[i].output] : NULL;
        }
        est_infer c = { .node      = b->def,
                        .n_in      = b->in.n,
                        .n_out     = b->def->n_out,
                        .in        = in,
                        .in_dtype  = in_dtype,
                        .in_value  = in_value,
                        .out       = b->def->shape,
                        .out_value = b->def->value,
                        .building  = true };
        status      = b->op->infer(&c);
    }
    est_free(in);
    est_free(in_dtype);
    est_free(in_value);
    return status;
}

est_status est_graph_append(est_graph *g, est_node_def *def)
{
    if (g->n_nodes == g->nodes_max) {
        int32_t        max  = g->nodes_max == 0 ? 64 : 2 * g->nodes_max;
        est_node_def **more = est_arena_alloc(g->arena, sizeof *more * (size_t)max);
        if (more == NULL) return est_no_memory();
        if (g->n_nodes > 0) memcpy(more, g->nodes, sizeof *more * (size_t)g->n_nodes);
        g->nodes     = more;
        g->nodes_max = max;
    }
    def->id = def->order   = g->n_nodes;
    g->nodes[g->n_nodes++] = def;
    return EST_OK;
}

static est_status build_node(build *b, est_attrs attrs)
{
    est_arena  *arena = b->g->arena;
    const char *file, *wanted;

    EST_TRY(est_signature_parse(b->op, &b->sig));
    b->def = est_arena_alloc(arena, sizeof *b->def);
    if (b->def == NULL) return est_no_memory();
    b->def->op     = b->op;
    b->def->n_attr = b->sig.n_attr;
    b->def->attr   = est_arena_alloc(arena, sizeof *b->def->attr * (size_t)(b->sig.n_attr + 1));
    est_graph_where(&file, &b->def->line);
    b->def->file   = est_arena_strdup(arena, file);
    b->def->device = b->g->device;
    wanted         = est_graph_scoped(b->g, b->op->name);
    if (b->def->attr == NULL || b->def->file == NULL || wanted == NULL) return est_no_memory();
    b->def->name = wanted; /* until it is made unique below: error texts need one */
    EST_TRY(given_attrs(b, attrs));
    EST_TRY(check_inputs(b));
    EST_TRY(default_attrs(b));
    EST_TRY(make_inputs(b));
    EST_TRY(make_outputs(b));
    EST_TRY(infer_shapes(b));
    b->def->name = est_graph_unique_name(b->g, wanted);
    if (b->def->name == NULL) return est_no_memory();
    return est_graph_append(b->g, b->def);
}

/* Tensors that attributes already share must not leak when the node fails to come into being. */
static void drop_tensors(est_node_def *def)
{
    for (int32_t i = 0; def != NULL && def->attr != NULL && i < def->n_attr; i++) {
        if (def->attr[i].kind == EST_ATTR_TENSOR) est_tensor_free(def->attr[i].tensor);
    }
}

static est_status input_shapes_text(const build *b, est_status status)
{
    char text[512] = "", shape[EST_SHAPE_TEXT_MAX], node[EST_NODE_TEXT_MAX];
    int  used      = 0;

    for (int i = 0; i < b->in.n && used < 400; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s '%s' %s", i > 0 ? ", " : "",
                         est_dtype_name(est_node_dtype(b->in.data[i])), est_node_name(b->in.data[i]),
                         est_shape_text(est_node_shape(b->in.data[i]), shape));
        if (used >= (int)sizeof text) break;
    }
    if (b->def == NULL || b->def->name == NULL) return status;
    return est_fail_context(status, "%s%s%s", est_node_text(b->def, node), b->in.n > 0 ? " of " : "", text);
}

/* There is no graph to hold the error: it stays the thread's error. */
static est_node no_graph(const est_op *op, int n)
{
    (void)est_graph_blame(est_fail(EST_INVALID_ARGUMENT, "%s: %s", op->name,
                                   n > 0 ? "its inputs are not nodes" : "there is no graph to build it in"));
    return EST_NO_NODE;
}

est_node est_build(est_graph *graph, const est_op *op, est_nodes in, est_attrs attrs)
{
    build      b = { .g = graph, .op = op, .in = in };
    est_status status;

    if (!EST_LIST_OK(in)) b.in.n = in.n = 0; /* missing inputs are reported below */
    for (int i = 0; i < in.n && b.g == NULL; i++) b.g = in.data[i].graph;
    if (b.g == NULL) return no_graph(op, in.n);
    status = est_graph_ask_device(b.g, b.g->unplaced);
    if (status != EST_OK) return est_graph_poison(b.g, status);
    if (est_graph_poisoned(b.g)) return (est_node){ b.g, EST_POISON, 0 };
    for (int i = 0; i < in.n; i++) {
        const est_node_def *from = in.data[i].graph == b.g ? est_def(in.data[i]) : NULL;
        if (from == NULL || in.data[i].output < 0 || in.data[i].output >= from->n_out) {
            const char *file;
            int         line;
            est_graph_where(&file, &line);
            return est_graph_poison(
                b.g, est_fail(EST_INVALID_ARGUMENT, "%s (built at %s:%d): input %d is not a tensor of this graph%s",
                              op->name, file, line, i,
                              in.data[i].graph != NULL && in.data[i].graph != b.g ? " but of another one" : ""));
        }
    }
    status = build_node(&b, attrs);
    if (status != EST_OK) {
        drop_tensors(b.def);
        return est_graph_poison(b.g, input_shapes_text(&b, status));
    }
    if (b.g->device_fn != NULL) b.g->unplaced = b.def;
    for (int i = 0; i < b.g->after.n && op->source == EST_SOURCE_NONE; i++) {
        (void)est_after((est_node){ b.g, b.def->id, 0 }, b.g->after.data[i]);
    }
    return (est_node){ b.g, b.def->id, 0 };
}

void est_graph_after(est_graph *graph, est_nodes before)
{
    est_node *copy;

    if (graph == NULL) return;
    graph->after = EST_NO_NODES;
    if (before.n <= 0) return;
    if (before.data == NULL) {
        (void)est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT, "est_graph_after: before.data is NULL"));
        return;
    }
    for (int i = 0; i < before.n; i++) {
        if (before.data[i].graph == graph && est_def(before.data[i]) != NULL) continue;
        (void)est_graph_poison(
            graph,
            est_fail(EST_INVALID_ARGUMENT, "est_graph_after: item %d of %d is not a node of this graph", i, before.n));
        return;
    }
    copy = est_arena_alloc(graph->arena, (size_t)before.n * sizeof *copy);
    if (copy == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return;
    }
    memcpy(copy, before.data, (size_t)before.n * sizeof *copy);
    graph->after = (est_nodes){ copy, before.n };
}

est_nodes est_graph_no_after(est_graph *graph)
{
    est_nodes after = EST_NO_NODES;

    if (graph != NULL) {
        after        = graph->after;
        graph->after = EST_NO_NODES;
    }
    return after;
}

void est_graph_restore_after(est_graph *graph, est_nodes after)
{
    if (graph != NULL) graph->after = after;
}

est_node est_after(est_node node, est_node before)
{
    est_node_def *def;
    int32_t      *more;

    if (node.graph == NULL || est_graph_poisoned(node.graph)) return node;
    if (before.graph != node.graph || est_def(node) == NULL || est_def(before) == NULL || before.id >= node.id) {
        return est_graph_poison(node.graph, est_fail(EST_INVALID_ARGUMENT,
                                                     "est_after: '%s' must be created before '%s', in the same graph",
                                                     est_node_name(before), est_node_name(node)));
    }
    def = est_graph_node(node.graph, node.id);
    if ((def->n_control & (def->n_control - 1)) == 0) { /* room for twice as many at every power of two */
        more = est_arena_alloc(node.graph->arena, sizeof *more * 2 * (size_t)(def->n_control + 1));
        if (more == NULL) return est_graph_poison(node.graph, est_no_memory());
        if (def->n_control > 0) memcpy(more, def->control, sizeof *more * (size_t)def->n_control);
        def->control = more;
    }
    def->control[def->n_control++] = before.id;
    node.graph->version++;
    return node;
}
