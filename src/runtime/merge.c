/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging equal operations: two nodes with the same op, attributes and inputs, and no effect of their own, are one. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/pass.h"

static bool same_strings(const est_tensor *a, const est_tensor *b)
{
    const est_str *x = est_tensor_data(a), *y = est_tensor_data(b);

    for (int64_t i = 0; i < est_tensor_count(a); i++) {
        if (x[i].size != y[i].size || (x[i].size > 0 && memcmp(x[i].data, y[i].data, x[i].size) != 0)) return false;
    }
    return true;
}

static bool same_tensor(const est_tensor *a, const est_tensor *b)
{
    if (a == b) return true;
    if (est_tensor_dtype(a) != est_tensor_dtype(b) || !est_shape_equal(est_tensor_shape(a), est_tensor_shape(b)))
        return false;
    if (est_tensor_dtype(a) == EST_STRING) return same_strings(a, b);
    return memcmp(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a)) == 0;
}

static bool same_attr(const est_attr *a, const est_attr *b)
{
    switch (a->kind) {
    case EST_ATTR_INT: return a->i == b->i;
    case EST_ATTR_FLOAT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case EST_ATTR_BOOL: return a->b == b->b;
    case EST_ATTR_TYPE: return a->type == b->type;
    case EST_ATTR_SHAPE: return est_shape_equal(&a->shape, &b->shape);
    case EST_ATTR_STRING: return strcmp(a->s, b->s) == 0;
    case EST_ATTR_INTS:
    case EST_ATTR_TYPES:
        return a->ints.n == b->ints.n &&
               (a->ints.n == 0 || memcmp(a->ints.data, b->ints.data, sizeof(int64_t) * (size_t)a->ints.n) == 0);
    case EST_ATTR_SHAPES:
        for (int i = 0; i < a->shapes.n && i < b->shapes.n; i++) {
            if (!est_shape_equal(&a->shapes.data[i], &b->shapes.data[i])) return false;
        }
        return a->shapes.n == b->shapes.n;
    case EST_ATTR_TENSOR: return same_tensor(a->tensor, b->tensor);
    }
    return false;
}

bool est_same_operation(const est_node_def *a, const est_node_def *b)
{
    if (a->op != b->op || a->n_attr != b->n_attr) return false;
    for (int32_t i = 0; i < a->n_attr; i++) {
        if (!same_attr(&a->attr[i], &b->attr[i])) return false;
    }
    return true;
}

static bool same_node(const est_node_def *a, const est_node_def *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_control != b->n_control) return false;
    if (a->n_in > 0 && memcmp(a->in, b->in, sizeof *a->in * (size_t)a->n_in) != 0) return false;
    if (a->n_control > 0 && memcmp(a->control, b->control, sizeof *a->control * (size_t)a->n_control) != 0)
        return false;
    return strcmp(a->device, b->device) == 0 && est_same_operation(a, b);
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdu;
}

/* The size, and the first element or how long it is. */
static uint64_t hash_tensor(const est_tensor *tensor)
{
    int32_t first = 0;

    if (est_tensor_dtype(tensor) == EST_STRING) {
        if (est_tensor_count(tensor) > 0) first = (int32_t)((const est_str *)est_tensor_data(tensor))->size;
    } else if (est_tensor_bytes(tensor) >= sizeof first) {
        memcpy(&first, est_tensor_data(tensor), sizeof first);
    }
    return (uint64_t)(uint32_t)first ^ (uint64_t)est_tensor_bytes(tensor) << 32;
}

static uint64_t hash_node(const est_node_def *n)
{
    uint64_t h = (uint64_t)(uintptr_t)n->op;

    for (int32_t i = 0; i < n->n_in; i++) h = mix(h, (uint64_t)n->in[i].node << 8 | (uint64_t)n->in[i].output);
    for (int32_t i = 0; i < n->n_attr; i++) {
        if (n->attr[i].kind == EST_ATTR_INT) h = mix(h, (uint64_t)n->attr[i].i);
        if (n->attr[i].kind == EST_ATTR_TENSOR) h = mix(h, hash_tensor(n->attr[i].tensor));
    }
    return h;
}

/* A read of a variable is not a function of its inputs alone: two reads may stand on two sides of a write. */
static bool may_merge(const est_node_def *n, const est_graph *g)
{
    if (n->op->stateful || n->op->writes != 0) return false;
    for (int32_t i = 0; i < n->n_in; i++) {
        if (est_graph_node(g, n->in[i].node)->op->source == EST_SOURCE_VARIABLE && n->n_control > 0) return false;
    }
    return true;
}

static void redirect(est_node_def *n, const int32_t *becomes)
{
    for (int32_t i = 0; i < n->n_in; i++) n->in[i].node = becomes[n->in[i].node];
    for (int32_t i = 0; i < n->n_control; i++) n->control[i] = becomes[n->control[i]];
}

/* Updates and what they need. */
static void mark_core(const est_graph *graph, bool *core)
{
    for (int32_t id = est_graph_size(graph) - 1; id >= 0; id--) {
        const est_node_def *n = est_graph_node(graph, id);

        core[id] = core[id] || n->op->writes != 0;
        for (int32_t i = 0; core[id] && i < n->n_in; i++) core[n->in[i].node] = true;
        for (int32_t i = 0; core[id] && i < n->n_control; i++) core[n->control[i]] = true;
    }
}

est_status est_pass_merge(est_graph *graph, est_io *io, bool apart)
{
    int32_t  n       = est_graph_size(graph);
    int64_t  slots   = 64;
    int32_t *becomes = est_alloc(sizeof *becomes * (size_t)(n + 1));
    bool    *core    = est_zalloc((size_t)n + 1);
    int32_t *table;

    while (slots < 2 * (int64_t)n) slots *= 2;
    table = est_zalloc(sizeof *table * (size_t)slots); /* id + 1; 0: free */
    if (becomes == NULL || core == NULL || table == NULL) {
        est_free(becomes);
        est_free(core);
        est_free(table);
        return est_no_memory();
    }
    if (apart) mark_core(graph, core);
    for (int32_t id = 0; id < n; id++) {
        est_node_def *node = est_graph_node(graph, id);
        becomes[id]        = id;
        redirect(node, becomes);
        if (!may_merge(node, graph)) continue;
        for (int64_t at = (int64_t)(hash_node(node) & (uint64_t)(slots - 1));; at = (at + 1) & (slots - 1)) {
            bool same = table[at] != 0 && same_node(est_graph_node(graph, table[at] - 1), node);

            if (same && (core[table[at] - 1] || !core[id])) {
                becomes[id] = table[at] - 1;
                break;
            }
            if (table[at] == 0 || same) {
                table[at] = id + 1;
                break;
            }
        }
    }
    for (int i = 0; i < io->n_fetches; i++) io->fetches[i].id = becomes[io->fetches[i].id];
    for (int i = 0; i < io->n_targets; i++) io->targets[i].id = becomes[io->targets[i].id];
    est_free(becomes);
    est_free(core);
    est_free(table);
    return EST_OK;
}
