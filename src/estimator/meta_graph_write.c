/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph of the program as a MetaGraphDef: lowered to TensorFlow's ops, with a saver and the program's collections. */
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/options.h"
#include "estimator/save_nodes.h"
#include "estoc/meta_graph.h"
#include "graph/graph.h"
#include "graph/lower.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "train/graph_files.h"

static est_status add_collection(est_meta_graph_def *meta, const est_meta_collection *c)
{
    for (int i = 0; i < c->nodes.n; i++) EST_TRY(est_meta_graph_def_add_node(meta, c->name, c->nodes.data[i]));
    for (int i = 0; i < c->texts.n; i++) {
        est_str text = { c->texts.data[i], strlen(c->texts.data[i]) };

        EST_TRY(est_meta_graph_def_add_bytes(meta, c->name, text));
    }
    for (int i = 0; i < c->ints.n; i++) EST_TRY(est_meta_graph_def_add_int(meta, c->name, c->ints.data[i]));
    for (int i = 0; i < c->floats.n; i++) EST_TRY(est_meta_graph_def_add_float(meta, c->name, c->floats.data[i]));
    return EST_OK;
}

/* The read of a variable that the saver saves: variables of collections have it. */
static est_status need_read(est_node_builder *b, const est_saved_node *v)
{
    est_graph_def_node *read;

    if (est_map_get(&b->names, v->read) != NULL) return EST_OK;
    read = est_graph_def_add_node(b->def, v->read, "ReadVariableOp");
    est_graph_def_add_input(read, v->node);
    est_graph_def_set_type(read, "dtype", v->dtype);
    EST_TRY(b->def->status);
    return est_map_put(&b->names, v->read, b);
}

static est_status add_saver(est_meta_graph_def *meta, const est_meta_graph_write_options *o)
{
    est_node_builder nodes = { .arena = meta->arena, .def = &meta->graph };
    est_saved_node  *saved = est_arena_alloc(meta->arena, ((size_t)o->saved.n + 1) * sizeof *saved);
    est_status       status;

    if (saved == NULL) return est_no_memory();
    for (int i = 0; i < o->saved.n; i++) {
        est_node handle = o->saved.data[i].node;

        saved[i] = (est_saved_node){ .key   = o->saved.data[i].name,
                                     .node  = est_node_name(handle),
                                     .read  = est_arena_printf(meta->arena, EST_READ_NAME, est_node_name(handle)),
                                     .dtype = est_variable_dtype(handle) };
        if (saved[i].read == NULL) return est_no_memory();
    }
    status = est_node_builder_init(&nodes);
    for (int i = 0; i < o->saved.n && status == EST_OK; i++) status = need_read(&nodes, &saved[i]);
    if (status == EST_OK) status = est_add_saver(&nodes, meta, saved, o->saved.n, o->keep_max);
    est_map_clear(&nodes.names);
    return status;
}

static est_status put(const est_meta_graph_def *meta, const char *path)
{
    est_wire_writer w      = { 0 };
    est_status      status = est_meta_graph_def_put(&w, meta);

    if (status == EST_OK) status = est_wire_writer_status(&w);
    if (status == EST_OK) status = est_file_replace(path, (const char *)w.data, w.size);
    est_wire_writer_clear(&w);
    return status;
}

static est_status write_meta(const est_graph *lowered, const est_meta_graph_write_options *o, est_arena *arena,
                             const char *path)
{
    est_meta_graph_def meta;

    est_meta_graph_def_init(&meta, arena);
    meta.stripped_default_attrs = true;
    EST_TRY(est_graph_files_meta(lowered, &meta));
    EST_TRY(add_saver(&meta, o));
    for (int i = 0; i < o->collections.n; i++) EST_TRY(add_collection(&meta, &o->collections.data[i]));
    return put(&meta, path);
}

static est_status check_saved(const est_graph *graph, est_named_nodes saved)
{
    for (int i = 0; i < saved.n; i++) {
        est_node handle = saved.data[i].node;

        if (saved.data[i].name == NULL) return est_fail(EST_INVALID_ARGUMENT, "variable %d to save has no name", i);
        if (handle.graph != graph || est_variable_dtype(handle) == EST_DTYPE_NONE) {
            return est_fail(EST_INVALID_ARGUMENT, "'%s' to save is no variable of the graph", saved.data[i].name);
        }
    }
    return EST_OK;
}

static est_status check_collections(est_meta_collections collections)
{
    for (int i = 0; i < collections.n; i++) {
        const est_meta_collection *c = &collections.data[i];

        if (c->name == NULL) return est_fail(EST_INVALID_ARGUMENT, "collection %d has no name", i);
        EST_REQUIRE_LIST("nodes of a collection", c->nodes);
        EST_REQUIRE_LIST("texts of a collection", c->texts);
        EST_REQUIRE_LIST("ints of a collection", c->ints);
        EST_REQUIRE_LIST("floats of a collection", c->floats);
    }
    return EST_OK;
}

est_status est_meta_graph_write(const est_graph *graph, const est_meta_graph_write_options *options, const char *path)
{
    est_meta_graph_write_options o;
    est_graph                   *lowered = NULL;
    est_arena                   *arena;
    est_status                   status;

    EST_REQUIRE(graph);
    EST_REQUIRE(path);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_meta_graph_write_options), options, &o));
    EST_REQUIRE_LIST("saved", o.saved);
    EST_REQUIRE_LIST("collections", o.collections);
    EST_TRY(est_graph_status(graph));
    EST_TRY(check_saved(graph, o.saved));
    EST_TRY(check_collections(o.collections));
    arena = est_arena_create();
    if (arena == NULL) return est_no_memory();
    status = est_graph_lower(graph, NULL, 0, &lowered);
    if (status == EST_OK) status = write_meta(lowered, &o, arena, path);
    est_graph_free(lowered);
    est_arena_free(arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s", path);
}
