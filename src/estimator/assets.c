/* SPDX-License-Identifier: Apache-2.0
 *
 * The lookup tables of an export and their vocabulary files. A file becomes assets/<its name> in the export, and the
 * constant with its path becomes an asset: a loader feeds the path of its own copy there and runs the table
 * initializers, so that the export is self-contained. */
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "estimator/export.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"

est_status est_export_tables(est_export_model *e)
{
    est_nodes all = est_graph_collection(e->model->graph, EST_TABLE_INITIALIZERS);
    est_node *run;
    int       n = 0;

    if (all.n == 0) return EST_OK;
    run = est_arena_alloc(e->model->arena, ((size_t)all.n + 1) * sizeof *run);
    if (run == NULL) return est_no_memory();
    if (e->init.graph != NULL) run[n++] = e->init;
    for (int i = 0; i < all.n; i++) run[n++] = all.data[i];
    e->init = est_named(est_group(e->model->graph, (est_nodes){ run, n }), "init_all_tables");
    return est_graph_status(e->model->graph);
}

/* --- which files they are ----------------------------------------------------------------------------------------- */

/* The path in the constant of an asset; in the arena of the meta graph. */
static est_status asset_path(const est_meta_graph_def *meta, const est_asset_file_def *asset, const char **out)
{
    est_graph_def_node *node;
    est_tensor         *value = NULL;
    const est_str      *text;
    est_status          status;

    EST_TRY(est_meta_graph_def_asset_node(meta, asset, &node));
    EST_TRY(est_graph_def_get_tensor(node, "value", &value));
    text   = est_tensor_data(value);
    status = est_def_copy_text(meta->arena, *text, out);
    est_tensor_free(value);
    return status;
}

/* The name that the export already has for the file; NULL: none. */
static est_status find_name(const est_saved_model_def *saved, const char *path, const char **out)
{
    *out = NULL;
    for (int m = 0; m < saved->n_meta_graphs; m++) {
        const est_meta_graph_def *meta = saved->meta_graphs[m];

        for (int i = 0; i < meta->n_assets && *out == NULL; i++) {
            const char *other;

            EST_TRY(asset_path(meta, &meta->assets[i], &other));
            if (strcmp(other, path) == 0) *out = meta->assets[i].filename;
        }
    }
    return EST_OK;
}

static bool name_taken(const est_saved_model_def *saved, const char *name)
{
    for (int m = 0; m < saved->n_meta_graphs; m++) {
        const est_meta_graph_def *meta = saved->meta_graphs[m];

        for (int i = 0; i < meta->n_assets; i++) {
            if (strcmp(meta->assets[i].filename, name) == 0) return true;
        }
    }
    return false;
}

/* A file has the same name in all graphs of the export; another file of that name gets the suffix _1, _2, ... */
static est_status choose_name(const est_saved_model_def *saved, const char *path, const char **out)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;

    EST_TRY(find_name(saved, path, out));
    if (*out != NULL) return EST_OK;
    *out = base;
    for (int i = 1; *out != NULL && name_taken(saved, *out); i++) {
        *out = est_arena_printf(saved->arena, "%s_%d", base, i);
    }
    return *out != NULL ? EST_OK : est_no_memory();
}

static est_status add_asset(const est_saved_model_def *saved, est_meta_graph_def *meta, est_node node)
{
    est_asset_file_def asset = { .tensor = { .name = est_arena_printf(meta->arena, "%s:0", est_node_name(node)) } };
    const char        *path;

    if (asset.tensor.name == NULL) return est_no_memory();
    EST_TRY(asset_path(meta, &asset, &path));
    EST_TRY(choose_name(saved, path, &asset.filename));
    EST_TRY(est_meta_graph_def_add_asset(meta, asset.tensor.name, asset.filename));
    return est_meta_graph_def_add_node(meta, EST_ASSET_FILEPATHS, asset.tensor.name);
}

est_status est_export_assets(const est_graph *graph, const est_saved_model_def *saved, est_meta_graph_def *meta)
{
    est_nodes tables = est_graph_collection(graph, EST_TABLE_INITIALIZERS);
    est_nodes files  = est_graph_collection(graph, EST_ASSET_FILEPATHS);

    for (int i = 0; i < tables.n; i++) {
        EST_TRY(est_meta_graph_def_add_node(meta, EST_TABLE_INITIALIZERS, est_node_name(tables.data[i])));
    }
    for (int i = 0; i < files.n; i++) EST_TRY(add_asset(saved, meta, files.data[i]));
    return EST_OK;
}

/* --- their copies ------------------------------------------------------------------------------------------------- */

static est_status copy_asset(const est_meta_graph_def *meta, const est_asset_file_def *asset, const char *dir)
{
    const char *from, *to = est_arena_printf(meta->arena, "%s/%s", dir, asset->filename);
    char       *bytes;
    size_t      size;
    est_status  status;

    if (to == NULL) return est_no_memory();
    if (est_file_exists(to)) return EST_OK; /* several tables may be filled from one file */
    EST_TRY(asset_path(meta, asset, &from));
    EST_TRY(est_file_read(from, &bytes, &size));
    if (EST_FAULT_POINT("export.asset")) size = 0;
    status = est_file_replace(to, bytes, size);
    est_free(bytes);
    return status;
}

est_status est_export_copy_assets(const est_saved_model_def *saved, const char *dir)
{
    const char *assets = est_arena_printf(saved->arena, "%s/assets", dir);

    if (assets == NULL) return est_no_memory();
    for (int m = 0; m < saved->n_meta_graphs; m++) {
        const est_meta_graph_def *meta = saved->meta_graphs[m];

        if (meta->n_assets > 0) EST_TRY(est_dir_create(assets));
        for (int i = 0; i < meta->n_assets; i++) EST_TRY(copy_asset(meta, &meta->assets[i], assets));
    }
    return EST_OK;
}
