/* SPDX-License-Identifier: Apache-2.0
 *
 * Inlining. All rewriting of names is local: what a node of a function is called in the result follows from the name of
 * the call, and an argument is the text of the caller's input. So the order of nodes does not matter, and recursion is
 * as deep as calls nest. */
#include "predict/inline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/def_edges.h"
#include "format/function_def.h"
#include "graph/signature.h"

typedef struct inliner {
    est_function_library library;
    est_op_lookup        lookup;
    est_arena           *arena;
    est_graph_def       *out;
    int                  depth;
    size_t               before; /* bytes of the arena */
} inliner;

/* The nodes that are being copied: those of the graph, or of a function for one call of it. */
typedef struct scope {
    const est_function_def *function; /* NULL: the graph itself */
    const char             *call;     /* what the call is called in the result */
    const est_def_attrs    *attrs;    /* given to the function */
    const char            **args;     /* [function->inputs.n]: in the result */
    const char            **controls; /* [n_controls]: control inputs of the call, in the result: "^name" */
    int                     n_controls;
    const char             *taken;  /* the tensor that says whether a branch of If runs; NULL: it does */
    est_map                 inputs; /* name of an argument -> 1 + position */
    est_map                 nodes;  /* name -> node */
} scope;

/* --- calls -------------------------------------------------------------------------------------------------------- */

/* The function that a node calls, with its attributes; NULL: the node is no call. */
static const char *called(const inliner *m, const est_graph_def_node *node, const est_def_attrs **attrs)
{
    const est_def_value *f;

    *attrs = &node->attrs;
    if (est_function_library_has(&m->library, node->op)) return node->op;
    if (strcmp(node->op, "StatefulPartitionedCall") != 0 && strcmp(node->op, "PartitionedCall") != 0) return NULL;
    f = est_def_attrs_find(&node->attrs, "f");
    if (f == NULL || f->kind != EST_DEF_FUNC) return "";
    *attrs = &f->func->attrs;
    return f->func->name;
}

/* If with a bool: both branches are inlined and the results of one are selected. */
static bool is_if(const est_graph_def_node *node)
{
    const est_def_value *type = est_def_attrs_find(&node->attrs, "Tcond");

    return (strcmp(node->op, "If") == 0 || strcmp(node->op, "StatelessIf") == 0) && node->inputs.n > 0 &&
           node->inputs.items[0][0] != '^' && type != NULL && type->kind == EST_DEF_TYPE && type->type == EST_BOOL;
}

static bool is_call(const inliner *m, const est_graph_def_node *node)
{
    const est_def_attrs *attrs;

    return called(m, node, &attrs) != NULL || is_if(node);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static const char *name_in(const inliner *m, const scope *s, const char *name)
{
    return s->function == NULL ? name : est_arena_printf(m->arena, "%s/%s", s->call, name);
}

/* Output k of a node of the scope. */
static est_status tensor_in(const inliner *m, const scope *s, const est_graph_def_node *node, int64_t k,
                            const char **out)
{
    const char *name = name_in(m, s, node->name);

    if (name != NULL && k > 0) {
        name = est_arena_printf(m->arena, is_call(m, node) ? "%s>%" PRId64 : "%s:%" PRId64, name, k);
    }
    *out = name;
    return name != NULL ? EST_OK : est_no_memory();
}

static const est_graph_def_node *node_of(const scope *s, const char *name, size_t size)
{
    return est_map_get_bytes(&s->nodes, name, size);
}

/* How many tensors result i of an op is, for the attributes of a node. */
static int64_t result_length(const est_signature *signature, int i, const est_graph_def_node *node)
{
    const est_arg       *arg = &signature->out[i];
    const est_def_value *value;

    if (arg->number_attr >= 0) {
        value = est_def_attrs_find(&node->attrs, signature->attr[arg->number_attr].name);
        return value != NULL && value->kind == EST_DEF_I ? value->i : 0;
    }
    if (arg->type_attr < 0 || signature->attr[arg->type_attr].kind != EST_ATTR_TYPES) return 1;
    value = est_def_attrs_find(&node->attrs, signature->attr[arg->type_attr].name);
    return value != NULL && value->kind == EST_DEF_LIST ? value->n : 0;
}

static bool is_named(const char *name, est_str text)
{
    return strlen(name) == text.size && memcmp(name, text.data, text.size) == 0;
}

static est_status no_result(const est_graph_def_node *node, est_str result)
{
    return est_fail(EST_INVALID_ARGUMENT, "node '%s' (%s) has no result '%.*s'", node->name, node->op, (int)result.size,
                    result.data);
}

/* The results of a function that is called as an op have its names; each is one tensor. */
static est_status function_output(inliner *m, const est_graph_def_node *node, est_str result, int64_t index,
                                  int64_t *out)
{
    const est_function_def *f;

    EST_TRY(est_function_library_get(&m->library, node->op, &f));
    for (*out = 0; *out < f->outputs.n; ++*out) {
        if (index == 0 && is_named(f->outputs.items[*out], result)) return EST_OK;
    }
    return no_result(node, result);
}

/* The number of the output that tensor `index` of result `result` of a node is. Of an op that is not known here the
 * result is taken for the only one: an op that is needed and not known is an error later. */
static est_status output_number(inliner *m, const est_graph_def_node *node, est_str result, int64_t index, int64_t *out)
{
    const est_op *op    = is_call(m, node) ? NULL : m->lookup(node->op);
    int64_t       first = 0;
    est_signature signature;

    *out = index;
    if (est_function_library_has(&m->library, node->op)) return function_output(m, node, result, index, out);
    if (op == NULL) return EST_OK;
    EST_TRY(est_signature_parse(op, &signature));
    if (signature.n_out == 1) return EST_OK;
    for (int i = 0; i < signature.n_out; i++) {
        if (is_named(signature.out[i].name, result)) {
            *out = first + index;
            return EST_OK;
        }
        first += result_length(&signature, i, node);
    }
    return no_result(node, result);
}

/* "argument", or "node:result:index" */
static est_status convert_tensor(inliner *m, const scope *s, const char *text, const char **out)
{
    const char               *colon = strchr(text, ':'), *second = colon != NULL ? strchr(colon + 1, ':') : NULL;
    uintptr_t                 arg = (uintptr_t)est_map_get(&s->inputs, text);
    const est_graph_def_node *node;
    int64_t                   index = 0;
    char                     *end   = NULL;

    if (arg != 0) {
        *out = s->args[arg - 1];
        return EST_OK;
    }
    node = node_of(s, text, colon != NULL ? (size_t)(colon - text) : strlen(text));
    if (node == NULL) return est_fail(EST_INVALID_ARGUMENT, "'%s' is no argument and no node", text);
    if (second == NULL) return tensor_in(m, s, node, 0, out);
    index = second[1] >= '0' && second[1] <= '9' ? strtoll(second + 1, &end, 10) : -1;
    if (index < 0 || index > INT32_MAX || *end != '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "'%s' does not end in the number of an output", text);
    }
    EST_TRY(output_number(m, node, (est_str){ colon + 1, (size_t)(second - colon - 1) }, index, &index));
    return tensor_in(m, s, node, index, out);
}

/* "^node" or, in odd graphs, "^argument", which the caller's input stands for. */
static est_status convert_control(const inliner *m, const scope *s, const char *name, const char **out)
{
    uintptr_t   arg  = (uintptr_t)est_map_get(&s->inputs, name);
    const char *from = NULL, *colon;

    if (arg != 0) {
        from  = s->args[arg - 1];
        colon = strrchr(from, ':');
        *out  = est_arena_printf(m->arena, "^%.*s", colon != NULL ? (int)(colon - from) : (int)strlen(from), from);
    } else {
        if (node_of(s, name, strlen(name)) == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "'^%s' is not in the function", name);
        }
        from = name_in(m, s, name);
        *out = from != NULL ? est_arena_printf(m->arena, "^%s", from) : NULL;
    }
    return *out != NULL ? EST_OK : est_no_memory();
}

/* An input of the graph itself: "node", "node:1" or "^node". */
static est_status convert_outer(const inliner *m, const scope *s, const char *text, const char **out)
{
    const char               *colon = strrchr(text, ':');
    const est_graph_def_node *node;

    *out = text;
    if (text[0] == '^' || colon == NULL) return EST_OK;
    node = node_of(s, text, (size_t)(colon - text));
    return node != NULL ? tensor_in(m, s, node, strtoll(colon + 1, NULL, 10), out) : EST_OK;
}

static est_status convert_input(inliner *m, const scope *s, const char *text, const char **out)
{
    if (s->function == NULL) return convert_outer(m, s, text, out);
    return text[0] == '^' ? convert_control(m, s, text + 1, out) : convert_tensor(m, s, text, out);
}

/* --- copying ------------------------------------------------------------------------------------------------------ */

/* The attributes of a node, those that stand for one of the function's replaced. */
static est_status copy_attrs(const inliner *m, const scope *s, const est_graph_def_node *node, est_def_attrs *out)
{
    bool own = false;

    *out = node->attrs;
    for (int i = 0; i < node->attrs.n; i++) {
        const est_def_attr  *attr = &node->attrs.items[i];
        const est_def_value *value;
        const char          *name;

        if (attr->value.kind != EST_DEF_PLACEHOLDER) continue;
        EST_TRY(est_def_copy_text(m->arena, attr->value.s, &name));
        value = s->attrs != NULL ? est_def_attrs_find(s->attrs, name) : NULL;
        if (value == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "attribute '%s' is '%s' of the function, which is not given",
                            attr->name, name);
        }
        if (!own) *out = (est_def_attrs){ 0 };
        for (int k = 0; !own && k < node->attrs.n; k++) {
            EST_TRY(est_def_attrs_set(m->arena, out, node->attrs.items[k].name, &node->attrs.items[k].value));
        }
        own = true;
        EST_TRY(est_def_attrs_set(m->arena, out, attr->name, value));
    }
    return EST_OK;
}

static est_status add_node(const inliner *m, const char *name, const char *op, est_graph_def_node **out)
{
    if (name == NULL) return est_no_memory();
    if (m->out->n_nodes >= EST_INLINED_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "the graph has more than %d nodes with those of functions",
                        EST_INLINED_MAX);
    }
    if (est_arena_bytes(m->arena) - m->before > EST_INLINED_BYTES) {
        return est_fail(EST_INVALID_ARGUMENT, "the nodes of functions take more than %d bytes", EST_INLINED_BYTES);
    }
    *out = est_graph_def_add_node(m->out, name, op);
    return m->out->status;
}

/* A node with up to three inputs (NULL: no more). */
static est_status add_op(const inliner *m, const char *name, const char *op, const char *const in[3])
{
    est_graph_def_node *node;

    EST_TRY(add_node(m, name, op, &node));
    for (int i = 0; i < 3 && in[i] != NULL; i++) est_graph_def_add_input(node, in[i]);
    return m->out->status;
}

/* An Assert in a branch holds where the branch does not run. Other effects cannot be in one: the node becomes an If,
 * which nothing imports. */
static est_status guard(const inliner *m, const scope *s, est_graph_def_node *node)
{
    const est_op *op = m->lookup(node->op);
    const char *not  = est_arena_printf(m->arena, "%s>not_taken", node->name);
    const char * or  = est_arena_printf(m->arena, "%s>or", node->name);

    if (not == NULL || or == NULL) return est_no_memory();
    if (op != NULL && op->writes != 0) node->op = "If";
    if (strcmp(node->op, "Assert") != 0 || node->inputs.n == 0) return EST_OK;
    EST_TRY(add_op(m, not, "LogicalNot", (const char *const[]){ s->taken, NULL, NULL }));
    EST_TRY(add_op(m, or, "LogicalOr", (const char *const[]){ not, node->inputs.items[0], NULL }));
    node->inputs.items[0] = or ;
    return EST_OK;
}

static est_status copy_node(inliner *m, const scope *s, const est_graph_def_node *node)
{
    const est_op       *op = m->lookup(node->op);
    est_graph_def_node *copy;

    EST_TRY(add_node(m, name_in(m, s, node->name), node->op, &copy));
    EST_TRY(copy_attrs(m, s, node, &copy->attrs));
    for (int i = 0; i < node->inputs.n; i++) {
        const char *input;

        EST_TRY(convert_input(m, s, node->inputs.items[i], &input));
        est_graph_def_add_input(copy, input);
    }
    /* what a call waits for, everything in it with an effect waits for */
    for (int i = 0; (op == NULL || op->stateful) && i < s->n_controls; i++) {
        est_graph_def_add_input(copy, s->controls[i]);
    }
    EST_TRY(m->out->status);
    return s->taken != NULL ? guard(m, s, copy) : EST_OK;
}

static est_status copy_scope(inliner *m, scope *s, const est_graph_def *graph, const bool *needed);

/* The results of a call. */
static est_status add_results(inliner *m, const scope *s)
{
    const est_function_def *f = s->function;

    for (int k = 0; k < f->outputs.n || k == 0; k++) {
        const char         *name = k > 0 ? est_arena_printf(m->arena, "%s>%d", s->call, k) : s->call, *text;
        est_graph_def_node *node;

        EST_TRY(add_node(m, name, f->outputs.n > 0 ? "Identity" : "NoOp", &node));
        if (f->outputs.n > 0) {
            EST_TRY(convert_tensor(m, s, f->returns.items[k], &text));
            est_graph_def_add_input(node, text);
        }
        for (int i = 0; i < f->controls.n; i++) {
            EST_TRY(convert_control(m, s, f->controls.items[i], &text));
            est_graph_def_add_input(node, text);
        }
        for (int i = 0; i < s->n_controls; i++) est_graph_def_add_input(node, s->controls[i]);
    }
    return m->out->status;
}

/* Takes the inputs of a node, from `first` on, as those of a function that is called under the name s->call. */
static est_status fill_scope(inliner *m, const scope *outer, const est_graph_def_node *node, int first, scope *s)
{
    const est_function_def *f    = s->function;
    int                     n    = 0;
    size_t                  room = (size_t)node->inputs.n + 1;

    s->args     = est_arena_alloc(m->arena, room * sizeof *s->args);
    s->controls = est_arena_alloc(m->arena, room * sizeof *s->controls);
    if (s->call == NULL || s->args == NULL || s->controls == NULL) return est_no_memory();
    for (int i = first; i < node->inputs.n; i++) {
        const char *text;

        EST_TRY(convert_input(m, outer, node->inputs.items[i], &text));
        if (text[0] == '^')
            s->controls[s->n_controls++] = text;
        else
            s->args[n++] = text;
    }
    if (n != f->inputs.n) {
        return est_fail(EST_INVALID_ARGUMENT, "function '%s' takes %d arguments, the call gives %d", f->name,
                        f->inputs.n, n);
    }
    for (int i = 0; i < n; i++) EST_TRY(est_map_put(&s->inputs, f->inputs.items[i], (void *)(uintptr_t)(i + 1)));
    return EST_OK;
}

/* Copies function `name`, with `s` telling what the call is called and gives. */
static est_status copy_function(inliner *m, const scope *outer, const est_graph_def_node *node, const char *name,
                                int first, scope *s)
{
    est_status status;

    if (m->depth >= EST_CALL_DEPTH_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "function '%s' calls itself, or calls nest deeper than %d", name,
                        EST_CALL_DEPTH_MAX);
    }
    if (!est_function_library_has(&m->library, name)) {
        return est_fail(EST_INVALID_ARGUMENT, "the function '%s' is not in the graph", name);
    }
    EST_TRY(est_function_library_get(&m->library, name, &s->function));
    m->depth++;
    status = fill_scope(m, outer, node, first, s);
    if (status == EST_OK) status = copy_scope(m, s, &s->function->graph, NULL);
    if (status == EST_OK) status = add_results(m, s);
    est_map_clear(&s->inputs);
    est_map_clear(&s->nodes);
    m->depth--;
    return status;
}

static est_status copy_call(inliner *m, const scope *outer, const est_graph_def_node *node)
{
    scope       s    = { .call = name_in(m, outer, node->name), .taken = outer->taken };
    const char *name = called(m, node, &s.attrs);

    return copy_function(m, outer, node, name, 0, &s);
}

/* One branch of an If, taken when the tensor `when` is true. */
static est_status copy_branch(inliner *m, const scope *outer, const est_graph_def_node *node, const char *attr,
                              const char *when, int *n)
{
    const char          *call = name_in(m, outer, node->name);
    const est_def_value *f;
    scope s = { .call = call != NULL ? est_arena_printf(m->arena, "%s>%s", call, attr) : NULL, .taken = when };

    EST_TRY(est_graph_def_get(node, attr, EST_DEF_FUNC, &f));
    if (s.call == NULL) return est_no_memory();
    if (outer->taken != NULL) {
        s.taken = est_arena_printf(m->arena, "%s>taken", s.call);
        if (s.taken == NULL) return est_no_memory();
        EST_TRY(add_op(m, s.taken, "LogicalAnd", (const char *const[]){ outer->taken, when, NULL }));
    }
    s.attrs = &f->func->attrs;
    EST_TRY(copy_function(m, outer, node, f->func->name, 1, &s));
    *n = s.function->outputs.n;
    return EST_OK;
}

/* Both branches run; Select, which does not broadcast, takes the results of one. */
static est_status copy_if(inliner *m, const scope *outer, const est_graph_def_node *node)
{
    const char *call = name_in(m, outer, node->name), *when, *otherwise;
    int         n, n_else;

    EST_TRY(convert_input(m, outer, node->inputs.items[0], &when));
    otherwise = call != NULL ? est_arena_printf(m->arena, "%s>not", call) : NULL;
    if (otherwise == NULL) return est_no_memory();
    EST_TRY(add_op(m, otherwise, "LogicalNot", (const char *const[]){ when, NULL, NULL }));
    EST_TRY(copy_branch(m, outer, node, "then_branch", when, &n));
    EST_TRY(copy_branch(m, outer, node, "else_branch", otherwise, &n_else));
    if (n != n_else) return est_fail(EST_INVALID_ARGUMENT, "the branches have %d and %d results", n, n_else);
    for (int k = 0; k < n || k == 0; k++) {
        const char *number = k > 0 ? est_arena_printf(m->arena, ">%d", k) : "";
        const char *a      = number != NULL ? est_arena_printf(m->arena, "%s>then_branch%s", call, number) : NULL;
        const char *b      = number != NULL ? est_arena_printf(m->arena, "%s>else_branch%s", call, number) : NULL;
        const char *name   = number != NULL ? est_arena_printf(m->arena, "%s%s", call, number) : NULL;

        if (a == NULL || b == NULL || name == NULL) return est_no_memory();
        if (n > 0) {
            EST_TRY(add_op(m, name, "Select", (const char *const[]){ when, a, b }));
            continue;
        }
        a = est_arena_printf(m->arena, "^%s", a);
        b = est_arena_printf(m->arena, "^%s", b);
        if (a == NULL || b == NULL) return est_no_memory();
        EST_TRY(add_op(m, name, "NoOp", (const char *const[]){ a, b, NULL }));
    }
    return EST_OK;
}

/* Copies the nodes of a scope, or those of them that are needed. */
static est_status copy_scope(inliner *m, scope *s, const est_graph_def *graph, const bool *needed)
{
    for (int i = 0; i < graph->n_nodes; i++) EST_TRY(est_map_put(&s->nodes, graph->nodes[i]->name, graph->nodes[i]));
    for (int i = 0; i < graph->n_nodes; i++) {
        const est_graph_def_node *node = graph->nodes[i];
        est_status                status;

        if (needed != NULL && !needed[i]) continue;
        status = is_if(node) ? copy_if(m, s, node) : is_call(m, node) ? copy_call(m, s, node) : copy_node(m, s, node);
        if (status == EST_OK) continue;
        /* one line a call would bury the error of a recursion */
        if (m->depth > 2) return status;
        return est_fail_context(status, "node '%s' (%s)", node->name, node->op);
    }
    return EST_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static est_status find_needed(const est_graph_def *graph, const est_def_edges *edges, const est_def_names *roots,
                              bool *needed)
{
    int32_t     *stack = est_arena_alloc(graph->arena, ((size_t)graph->n_nodes + 1) * sizeof *stack);
    est_def_edge root;

    if (stack == NULL) return est_no_memory();
    for (int i = 0; i < roots->n; i++) {
        EST_TRY(est_def_edges_parse(edges, roots->items[i], &root));
        est_def_edges_reach(edges, root.node, needed, stack);
    }
    return EST_OK;
}

est_status est_inline(const est_graph_def *graph, const est_def_names *roots, est_op_lookup lookup, est_graph_def *out)
{
    inliner       m      = { .lookup = lookup, .arena = graph->arena, .out = out };
    est_def_edges edges  = { 0 };
    scope         s      = { 0 };
    bool         *needed = est_arena_alloc(graph->arena, (size_t)graph->n_nodes + 1);
    est_status    status = needed != NULL ? est_def_edges_init(&edges, graph) : est_no_memory();

    if (status == EST_OK) status = find_needed(graph, &edges, roots, needed);
    if (status == EST_OK) status = est_function_library_init(&m.library, graph->library, graph->arena);
    m.before = est_arena_bytes(graph->arena);
    if (status == EST_OK) status = copy_scope(&m, &s, graph, needed);
    est_map_clear(&s.nodes);
    est_function_library_clear(&m.library);
    est_def_edges_clear(&edges);
    return status;
}
