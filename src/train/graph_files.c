/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a run as files: the training graph lowered to TensorFlow's ops, with the collections (variables, table
 * initializers, assets) that TensorFlow's tools read from a MetaGraphDef. */
#include "train/graph_files.h"

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "estoc/layers.h"
#include "format/graph_text.h"
#include "format/meta_graph_def.h"
#include "format/variable_def.h"
#include "graph/graph_export.h"
#include "graph/lower.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"

static est_status add_read(const est_graph *graph, est_graph_def *def, est_node handle)
{
    const char         *name = est_arena_printf(def->arena, EST_READ_NAME, est_node_name(handle));
    est_graph_def_node *node;

    if (name == NULL) return est_no_memory();
    if (est_graph_find(graph, name).graph != NULL) return EST_OK;
    node = est_graph_def_add_node(def, name, "ReadVariableOp");
    est_graph_def_add_input(node, est_node_name(handle));
    est_graph_def_set_type(node, "dtype", est_variable_dtype(handle));
    return EST_OK;
}

/* Lists a variable in a collection. TensorFlow cannot import a variable without an initializer. */
static est_status add_variable(est_meta_graph_def *meta, const char *collection, est_node handle, bool trainable)
{
    est_node         initializer = est_graph_initializer(handle.graph, handle.id);
    est_arena       *arena       = meta->graph.arena;
    est_wire_writer  w           = { 0 };
    est_variable_def def         = { .is_resource = true, .trainable = trainable };
    est_status       status;

    if (initializer.graph == NULL) return EST_OK;
    def.variable_name    = est_arena_printf(arena, "%s:0", est_node_name(handle));
    def.initializer_name = est_node_name(initializer);
    def.snapshot_name    = est_arena_printf(arena, EST_READ_NAME ":0", est_node_name(handle));
    if (def.variable_name == NULL || def.snapshot_name == NULL) return est_no_memory();
    est_variable_def_put(&w, &def);
    status = est_wire_writer_status(&w);
    if (status == EST_OK) {
        status = est_meta_graph_def_add_bytes(meta, collection, (est_str){ (const char *)w.data, w.size });
    }
    est_wire_writer_clear(&w);
    return status;
}

/* Lists the table initializers and their asset files. */
static est_status add_tables(const est_graph *graph, est_arena *arena, est_meta_graph_def *meta)
{
    est_nodes tables = est_graph_collection(graph, EST_TABLE_INITIALIZERS);
    est_nodes files  = est_graph_collection(graph, EST_ASSET_FILEPATHS);

    for (int i = 0; i < tables.n; i++) {
        EST_TRY(est_meta_graph_def_add_node(meta, EST_TABLE_INITIALIZERS, est_node_name(tables.data[i])));
    }
    for (int i = 0; i < files.n; i++) {
        const char *tensor = est_arena_printf(arena, "%s:0", est_node_name(files.data[i]));

        if (tensor == NULL) return est_no_memory();
        EST_TRY(est_meta_graph_def_add_node(meta, EST_ASSET_FILEPATHS, tensor));
    }
    return EST_OK;
}

static bool is_in(est_nodes nodes, est_node node)
{
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].id == node.id) return true;
    }
    return false;
}

static est_status add_collections(const est_graph *graph, est_meta_graph_def *meta)
{
    est_nodes trainable = est_trainable_variables(graph), all = est_global_variables(graph);
    est_nodes local = est_local_variables(graph), step = est_graph_collection(graph, "global_step");

    for (int i = 0; i < all.n; i++) {
        bool learned = is_in(trainable, all.data[i]);

        EST_TRY(add_variable(meta, "variables", all.data[i], learned));
        if (learned) EST_TRY(add_variable(meta, "trainable_variables", all.data[i], true));
    }
    for (int i = 0; i < local.n; i++) EST_TRY(add_variable(meta, "local_variables", local.data[i], false));
    for (int i = 0; i < step.n; i++) EST_TRY(add_variable(meta, "global_step", step.data[i], false));
    return add_tables(graph, meta->graph.arena, meta);
}

est_status est_graph_files_meta(const est_graph *graph, est_meta_graph_def *meta)
{
    est_nodes all = est_global_variables(graph), local = est_local_variables(graph);

    EST_TRY(est_graph_export(graph, &meta->graph));
    for (int i = 0; i < all.n; i++) EST_TRY(add_read(graph, &meta->graph, all.data[i]));
    for (int i = 0; i < local.n; i++) EST_TRY(add_read(graph, &meta->graph, local.data[i]));
    return add_collections(graph, meta);
}

static est_status make(const est_graph *graph, est_arena *arena, est_graph_files *out)
{
    est_meta_graph_def meta;

    est_meta_graph_def_init(&meta, arena);
    EST_TRY(est_graph_files_meta(graph, &meta));
    EST_TRY(est_graph_def_put(&out->graph_def, &meta.graph));
    EST_TRY(est_meta_graph_def_put(&out->meta, &meta));
    EST_TRY(est_wire_writer_status(&out->graph_def));
    return est_wire_writer_status(&out->meta);
}

est_status est_graph_files_make(const est_graph *graph, est_graph_files *out)
{
    est_arena *arena  = est_arena_create();
    est_graph *lower  = NULL;
    est_status status = EST_OK;

    if (arena == NULL) return est_no_memory();
    status = est_graph_lower(graph, NULL, 0, &lower);
    if (status == EST_UNIMPLEMENTED) {
        est_log_debug("graph.pbtxt and .meta contain ops that TensorFlow does not have: %s", est_error_message());
        status = EST_OK;
    }
    if (status == EST_OK) status = make(lower != NULL ? lower : graph, arena, out);
    if (status != EST_OK) est_graph_files_clear(out);
    est_graph_free(lower);
    est_arena_free(arena);
    return status;
}

est_status est_graph_files_write(const est_graph_files *files, const char *dir)
{
    est_strbuf text = { 0 }, path = { 0 };
    est_status status = est_graph_def_text((est_str){ (const char *)files->graph_def.data, files->graph_def.size },
                                           &text);

    est_strbuf_printf(&path, "%s/" EST_GRAPH_FILE, dir);
    if (status == EST_OK) status = est_strbuf_status(&text);
    if (status == EST_OK) status = est_strbuf_status(&path);
    if (status == EST_OK) status = est_file_replace(est_strbuf_text(&path), est_strbuf_text(&text), text.size);
    est_strbuf_clear(&text);
    est_strbuf_clear(&path);
    return status;
}

void est_graph_files_clear(est_graph_files *files)
{
    est_wire_writer_clear(&files->graph_def);
    est_wire_writer_clear(&files->meta);
}
