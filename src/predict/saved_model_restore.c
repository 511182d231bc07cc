/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables and tables of a SavedModel from its files. Which tensor of the files a variable is, the graph itself says:
 * its restore operation assigns results of RestoreV2 to handles, in TensorFlow 1 as in TensorFlow 2, whose keys are
 * paths through objects. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/checkpoint.h"
#include "predict/loading.h"
#include "runtime/session.h"
#include "runtime/store_files.h"
#include "tensor/tensor.h"

/* One RestoreV2: what its results are. */
typedef struct source {
    int32_t     node; /* -1: none yet */
    est_tensor *keys, *slices;
} source;

static bool is(const est_graph_def_node *node, const char *op)
{
    return strcmp(node->op, op) == 0;
}

bool est_loading_fills(const est_loading *l, int32_t node)
{
    const est_graph_def_node *def = l->flat.nodes[node];

    if (def->inputs.n < 2 || l->edges.in[node][0].output < 0) return false;
    if (is(def, "AssignVariableOp")) return l->init[node];
    return (l->init[node] || l->restore[node]) &&
           (is(def, "LookupTableImportV2") || is(def, "InitializeTableFromTextFileV2"));
}

est_status est_loading_open(est_loading *l)
{
    const char *prefix = est_arena_printf(l->arena, "%s/%s", l->dir, EST_SAVED_MODEL_PREFIX);
    char       *index  = NULL;
    bool        there;

    if (prefix == NULL) return est_no_memory();
    EST_TRY(est_bundle_index_path(prefix, &index));
    there = est_file_exists(index);
    est_free(index);
    return there ? est_bundle_open(prefix, &l->bundle) : EST_OK;
}

/* --- results of RestoreV2 ----------------------------------------------------------------------------------------- */

static void clear_source(source *s)
{
    est_tensor_free(s->keys);
    est_tensor_free(s->slices);
    *s = (source){ .node = -1 };
}

static est_status strings_of(const est_loading *l, int32_t restore, int input, est_tensor **out)
{
    const est_graph_def_node *node  = l->flat.nodes[restore], *list;
    est_tensor               *value = NULL;

    if (node->inputs.n < 3) return est_fail(EST_DATA_LOSS, "node '%s' (RestoreV2) lacks inputs", node->name);
    list = l->flat.nodes[l->edges.in[restore][input].node];
    if (!is(list, "Const")) {
        return est_fail(EST_UNIMPLEMENTED, "input %d of node '%s' (RestoreV2) is not a constant", input, node->name);
    }
    EST_TRY(est_graph_def_get_tensor(list, "value", &value));
    if (est_tensor_dtype(value) != EST_STRING) {
        est_tensor_free(value);
        return est_fail(EST_DATA_LOSS, "input %d of node '%s' (RestoreV2) is not of strings", input, node->name);
    }
    *out = value;
    return EST_OK;
}

/* The key and slice that an edge is read from; *found is false when it is no result of RestoreV2. */
static est_status find_source(const est_loading *l, est_def_edge edge, source *s, bool *found, const char **key,
                              const char **slice)
{
    const est_str *keys, *slices;

    *found = false;
    if (edge.output < 0 || !is(l->flat.nodes[edge.node], "RestoreV2")) return EST_OK;
    if (s->node != edge.node) {
        clear_source(s);
        EST_TRY(strings_of(l, edge.node, 1, &s->keys));
        EST_TRY(strings_of(l, edge.node, 2, &s->slices));
        s->node = edge.node;
    }
    if (edge.output >= est_tensor_count(s->keys) || edge.output >= est_tensor_count(s->slices)) {
        return est_fail(EST_DATA_LOSS, "node '%s' (RestoreV2) has no result %d", l->flat.nodes[edge.node]->name,
                        (int)edge.output);
    }
    keys   = est_tensor_data(s->keys);
    slices = est_tensor_data(s->slices);
    EST_TRY(est_def_copy_text(l->arena, keys[edge.output], key));
    EST_TRY(est_def_copy_text(l->arena, slices[edge.output], slice));
    *found = true;
    return EST_OK;
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* Gives input k of a node the tensor of the files that RestoreV2 would. */
static est_status make_constant(est_loading *l, int32_t node, int k, source *s)
{
    est_graph_def_node *constant;
    est_tensor         *value = NULL;
    const char         *key, *slice, *name;
    bool                found;

    EST_TRY(find_source(l, l->edges.in[node][k], s, &found, &key, &slice));
    if (!found) return EST_OK;
    if (l->bundle == NULL)
        return est_fail(EST_DATA_LOSS, "%s has no files of variables, which has \"%s\"", l->dir, key);
    name = est_arena_printf(l->arena, "%s>input_%d", l->flat.nodes[node]->name, k);
    if (name == NULL) return est_no_memory();
    EST_TRY(est_bundle_read(l->bundle, key, NULL, &value));
    constant = est_graph_def_add_node(&l->flat, name, "Const");
    est_graph_def_set_type(constant, "dtype", est_tensor_dtype(value));
    est_graph_def_set_tensor(constant, "value", value);
    est_tensor_free(value);
    l->flat.nodes[node]->inputs.items[k] = name;
    return l->flat.status;
}

est_status est_loading_tables(est_loading *l)
{
    source     s      = { .node = -1 };
    int        n      = l->flat.n_nodes;
    est_status status = EST_OK;

    for (int32_t i = 0; i < n && status == EST_OK; i++) {
        if (!l->restore[i] || !is(l->flat.nodes[i], "LookupTableImportV2")) continue;
        for (int k = 1; k < l->flat.nodes[i]->inputs.n && status == EST_OK; k++) status = make_constant(l, i, k, &s);
    }
    clear_source(&s);
    return status;
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

/* "10 4 0,5:0,4": the whole shape and, of each axis, the start and the length of the slice; "-" is all of it. */
static est_status parse_slice(const char *text, est_store_entry *entry)
{
    est_shape full = { .rank = 0 };
    int64_t   length[EST_RANK_MAX];
    char     *end;
    int       n = 0;

    if (text[0] == '\0') return EST_OK;
    for (; strchr(text, ' ') != NULL && full.rank < EST_RANK_MAX; text = end + 1) {
        full.dim[full.rank++] = strtoll(text, &end, 10);
        if (*end != ' ') return est_fail(EST_DATA_LOSS, "\"%s\" is no slice of a variable", text);
    }
    for (; n < full.rank && *text != '\0'; n++) {
        int64_t start = 0;

        length[n] = -1;
        if (*text == '-') {
            end = (char *)(uintptr_t)(text + 1);
        } else {
            start = strtoll(text, &end, 10);
            if (*end != ',') return est_fail(EST_DATA_LOSS, "\"%s\" is no slice of a variable", text);
            length[n] = strtoll(end + 1, &end, 10);
        }
        if (n == 0) entry->first = start;
        if (n > 0 && (start != 0 || (length[n] >= 0 && length[n] != full.dim[n]))) {
            return est_fail(EST_UNIMPLEMENTED, "variable '%s' is partitioned along axis %d: only the first can be",
                            entry->name, n);
        }
        text = *end == ':' ? end + 1 : end;
    }
    if (n != full.rank || *text != '\0' || n == 0) {
        return est_fail(EST_DATA_LOSS, "the slice of variable '%s' has not its rank", entry->name);
    }
    entry->full = full;
    entry->rows = length[0];
    return EST_OK;
}

static est_status make_entry(const est_loading *l, const est_graph_def_node *handle, const char *key, const char *slice,
                             est_store_entry *out)
{
    const est_def_value *dtype, *shape, *name;

    EST_TRY(est_graph_def_get(handle, "dtype", EST_DEF_TYPE, &dtype));
    EST_TRY(est_graph_def_get(handle, "shape", EST_DEF_SHAPE, &shape));
    EST_TRY(est_graph_def_get(handle, "shared_name", EST_DEF_S, &name));
    *out = (est_store_entry){ .key = key, .dtype = (est_dtype)dtype->type, .full = *shape->shape, .rows = -1 };
    EST_TRY(est_def_copy_text(l->arena, name->s, &out->name));
    return parse_slice(slice, out);
}

/* The entries of all variables that are kept; *n of them. */
static est_status list_entries(const est_loading *l, source *s, est_store_entry *entries, int *n)
{
    for (int32_t i = 0; i < l->flat.n_nodes; i++) {
        const est_graph_def_node *node = l->flat.nodes[i];
        const char               *key, *slice;
        int32_t                   handle;
        bool                      found;

        if (!l->restore[i] || !is(node, "AssignVariableOp") || node->inputs.n < 2) continue;
        handle = l->edges.in[i][0].node;
        if (!l->kept[handle] || !is(l->flat.nodes[handle], "VarHandleOp")) continue;
        EST_TRY(find_source(l, l->edges.in[i][1], s, &found, &key, &slice));
        if (!found) continue;
        EST_TRY(make_entry(l, l->flat.nodes[handle], key, slice, &entries[*n]));
        ++*n;
    }
    return EST_OK;
}

/* Marks variables that the files do not hold. */
static est_status collect_locals(const est_loading *l, est_session *session, const est_store_entry *entries, int n)
{
    est_graph *graph  = (est_graph *)(uintptr_t)est_session_graph(session);
    est_map    named  = { 0 };
    est_status status = EST_OK;

    for (int i = 0; i < n && status == EST_OK; i++) {
        status = est_map_put(&named, entries[i].name, (void *)(uintptr_t)&entries[i]);
    }
    for (int i = 0; i < l->flat.n_nodes && status == EST_OK; i++) {
        const est_graph_def_node *node = l->flat.nodes[i];
        const est_def_value      *name = est_def_attrs_find(&node->attrs, "shared_name");

        if (!l->kept[i] || !is(node, "VarHandleOp") || name == NULL) continue;
        if (est_map_get_bytes(&named, name->s.data, name->s.size) != NULL) continue;
        est_graph_collect(graph, "local_variables", est_graph_find(graph, node->name));
        status = est_graph_status(graph);
    }
    est_map_clear(&named);
    return status;
}

/* Maps what can be mapped; entries[*n] are those that have to be read. */
static est_status map_entries(const est_loading *l, est_store *store, est_store_entry *entries, int *n)
{
    int left = 0;

    for (int i = 0; i < *n; i++) {
        bool mapped;

        EST_TRY(est_store_map(store, l->bundle, &entries[i], !l->no_verify, &mapped));
        if (!mapped) entries[left++] = entries[i];
    }
    *n = left;
    return EST_OK;
}

static est_status restore(est_loading *l, est_session *session, source *s)
{
    est_store_entry *entries = est_arena_alloc(l->arena, ((size_t)l->flat.n_nodes + 1) * sizeof *entries);
    est_store       *store;
    int              n = 0;

    if (entries == NULL) return est_no_memory();
    EST_TRY(list_entries(l, s, entries, &n));
    EST_TRY(est_session_store(session, &store));
    EST_TRY(collect_locals(l, session, entries, n));
    if (n == 0) return EST_OK;
    if (l->bundle == NULL) {
        return est_fail(EST_DATA_LOSS, "%s has no files " EST_SAVED_MODEL_PREFIX ".*, and the graph has variables",
                        l->dir);
    }
    est_bundle_set_pool(l->bundle, est_session_pool(session));
    EST_TRY(map_entries(l, store, entries, &n));
    return est_store_restore(store, l->bundle, entries, n);
}

est_status est_loading_restore(est_loading *l, est_session *session)
{
    source     s      = { .node = -1 };
    est_status status = restore(l, session, &s);

    clear_source(&s);
    return status;
}
