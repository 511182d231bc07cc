/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph of a run as files. */
#include "train/graph_files.h"

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "estoc/layers.h"
#include "format/graph_text.h"
#include "format/meta_graph_def.h"
#include "format/variable_def.h"
#include "graph/export.h"
#include "graph/lower.h"

static est_status add_variable(est_meta_graph_def *meta, const char *collection, est_node handle, bool trainable)
{
    est_wire_writer w    = { 0 };
    est_strbuf      name = { 0 };
    est_status      status;

    est_strbuf_printf(&name, "%s:0", est_node_name(handle));
    status = est_strbuf_status(&name);
    if (status == EST_OK) {
        est_variable_def_put(&w, &(est_variable_def){ .variable_name = est_strbuf_text(&name),
                                                      .is_resource   = true,
                                                      .trainable     = trainable });
        status = est_wire_writer_status(&w);
    }
    if (status == EST_OK) {
        status = est_meta_graph_def_add_bytes(meta, collection, (est_str){ (const char *)w.data, w.size });
    }
    est_wire_writer_clear(&w);
    est_strbuf_clear(&name);
    return status;
}

static est_status make(const est_graph *graph, est_arena *arena, est_graph_files *out)
{
    est_meta_graph_def meta;
    est_nodes          trainable = est_trainable_variables(graph);

    est_meta_graph_def_init(&meta, arena);
    EST_TRY(est_graph_export(graph, &meta.graph));
    EST_TRY(est_graph_def_put(&out->graph_def, &meta.graph));
    for (int i = 0; i < trainable.n; i++) {
        EST_TRY(add_variable(&meta, "trainable_variables", trainable.data[i], true));
    }
    EST_TRY(est_meta_graph_def_put(&out->meta, &meta));
    EST_TRY(est_wire_writer_status(&out->graph_def));
    return est_wire_writer_status(&out->meta);
}

est_status est_graph_files_make(const est_graph *graph, est_graph_files *out)
{
    est_arena *arena  = est_arena_create();
    est_graph *lower  = NULL;
    est_status status = EST_OK;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the description of a graph");
    status = est_graph_lower(graph, NULL, 0, &lower);
    if (status == EST_UNIMPLEMENTED) {
        est_log_debug("graph files hold ops of our own: %s", est_error_message());
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

    est_strbuf_printf(&path, "%s/graph.pbtxt", dir);
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
