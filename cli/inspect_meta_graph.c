/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of MetaGraphDefs and SavedModels: tags, signatures, assets, collections, how variables are restored;
 * the nodes of a MetaGraphDef; the variables of a SavedModel. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/graph_text.h"
#include "format/saved_model_def.h"
#include "format/tensor_proto.h"
#include "inspect.h"
#include "output.h"

static void put_text(est_strbuf *out, const char *text)
{
    tool_append_printable(out, (est_str){ text, strlen(text) }, 0);
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

/* (-1, 4), as Python writes shapes. */
static void put_shape(est_strbuf *out, const est_tensor_info *info)
{
    if (!info->has_shape || info->shape.rank < 0) {
        est_strbuf_append(out, "unknown rank");
        return;
    }
    est_strbuf_append(out, "(");
    for (int i = 0; i < info->shape.rank; i++) {
        est_strbuf_printf(out, "%s%" PRId64, i > 0 ? ", " : "", info->shape.dim[i]);
    }
    est_strbuf_append(out, info->shape.rank == 1 ? ",)" : ")");
}

static void put_infos(est_strbuf *out, const char *what, const est_tensor_infos *infos)
{
    for (int i = 0; i < infos->n; i++) {
        const est_tensor_info *info = &infos->items[i];
        const char            *type = est_dtype_proto_name(info->dtype);

        est_strbuf_printf(out, "  %s['", what);
        put_text(out, info->key);
        est_strbuf_printf(out, "']\n    dtype: %s\n    shape: ", type != NULL ? type : "unknown");
        put_shape(out, info);
        if (info->kind == EST_TENSOR_INFO_COMPOSITE) {
            est_strbuf_append(out, "\n    made of several tensors\n");
            continue;
        }
        est_strbuf_append(out, info->kind == EST_TENSOR_INFO_SPARSE ? "\n    values: " : "\n    name: ");
        put_text(out, info->name != NULL ? info->name : "");
        if (info->kind == EST_TENSOR_INFO_SPARSE) {
            est_strbuf_append(out, "\n    indices: ");
            put_text(out, info->indices != NULL ? info->indices : "");
            est_strbuf_append(out, "\n    dense shape: ");
            put_text(out, info->sizes != NULL ? info->sizes : "");
        }
        est_strbuf_append(out, "\n");
    }
}

static void put_signatures(est_strbuf *out, const est_meta_graph_def *meta)
{
    for (int i = 0; i < meta->n_signatures; i++) {
        const est_signature_def *signature = &meta->signatures[i];

        est_strbuf_append(out, "signature_def['");
        put_text(out, signature->key);
        est_strbuf_append(out, "'], method ");
        put_text(out, signature->method_name);
        est_strbuf_append(out, "\n");
        put_infos(out, "inputs", &signature->inputs);
        put_infos(out, "outputs", &signature->outputs);
    }
}

static const char *collection_kind(const est_collection_def *collection)
{
    static const char *const names[] = { "nothing", "nodes", "bytes", "ints", "floats", "any" };

    return names[collection->kind];
}

static void put_rest(est_strbuf *out, const est_meta_graph_def *meta)
{
    for (int i = 0; i < meta->n_assets; i++) {
        est_strbuf_append(out, "asset ");
        put_text(out, meta->assets[i].filename);
        est_strbuf_append(out, " for ");
        put_text(out, meta->assets[i].tensor.name != NULL ? meta->assets[i].tensor.name : "");
        est_strbuf_append(out, "\n");
    }
    for (int i = 0; i < meta->n_collections; i++) {
        est_strbuf_append(out, "collection ");
        put_text(out, meta->collections[i].key);
        est_strbuf_printf(out, ": %d %s\n", meta->collections[i].n,
                          meta->collections[i].kind == EST_COLLECTION_BYTES ? "messages"
                                                                            : collection_kind(&meta->collections[i]));
    }
    if (meta->saver != NULL) {
        est_strbuf_append(out, "saver: file name ");
        put_text(out, meta->saver->filename_tensor_name);
        est_strbuf_append(out, ", save ");
        put_text(out, meta->saver->save_tensor_name);
        est_strbuf_append(out, ", restore ");
        put_text(out, meta->saver->restore_op_name);
        est_strbuf_printf(out, ", version %" PRId32 "\n", meta->saver->version);
    }
}

static void put_meta(est_strbuf *out, const est_meta_graph_def *meta)
{
    est_strbuf_append(out, "tags:");
    for (int i = 0; i < meta->tags.n; i++) {
        est_strbuf_append(out, " ");
        put_text(out, meta->tags.items[i]);
    }
    est_strbuf_append(out, "\n");
    if (meta->tensorflow_version != NULL && meta->tensorflow_version[0] != '\0') {
        est_strbuf_append(out, "written by: TensorFlow ");
        put_text(out, meta->tensorflow_version);
        est_strbuf_append(out, "\n");
    }
    put_signatures(out, meta);
    put_rest(out, meta);
}

/* --- as JSON ------------------------------------------------------------------------------------------------------ */

static void json_member(est_strbuf *out, const char *before, const char *text)
{
    est_strbuf_append(out, before);
    tool_append_json_text(out, text != NULL ? text : "");
}

static void json_infos(est_strbuf *out, const est_tensor_infos *infos)
{
    est_strbuf_append(out, "{");
    for (int i = 0; i < infos->n; i++) {
        const est_tensor_info *info = &infos->items[i];
        const est_shape        none = EST_SHAPE_UNKNOWN;

        json_member(out, i > 0 ? ", " : "", info->key);
        est_strbuf_printf(out, ": {\"dtype\": \"%s\", \"shape\": ", tool_dtype_name(info->dtype));
        tool_append_json_shape(out, info->has_shape ? &info->shape : &none);
        if (info->kind == EST_TENSOR_INFO_NAME) json_member(out, ", \"name\": ", info->name);
        if (info->kind == EST_TENSOR_INFO_SPARSE) {
            json_member(out, ", \"values\": ", info->name);
            json_member(out, ", \"indices\": ", info->indices);
            json_member(out, ", \"dense_shape\": ", info->sizes);
        }
        est_strbuf_append(out, "}");
    }
    est_strbuf_append(out, "}");
}

static void json_signatures(est_strbuf *out, const est_meta_graph_def *meta)
{
    est_strbuf_append(out, ", \"signatures\": {");
    for (int i = 0; i < meta->n_signatures; i++) {
        json_member(out, i > 0 ? ", " : "", meta->signatures[i].key);
        json_member(out, ": {\"method_name\": ", meta->signatures[i].method_name);
        est_strbuf_append(out, ", \"inputs\": ");
        json_infos(out, &meta->signatures[i].inputs);
        est_strbuf_append(out, ", \"outputs\": ");
        json_infos(out, &meta->signatures[i].outputs);
        est_strbuf_append(out, "}");
    }
    est_strbuf_append(out, "}");
}

static void json_rest(est_strbuf *out, const est_meta_graph_def *meta)
{
    est_strbuf_append(out, ", \"assets\": [");
    for (int i = 0; i < meta->n_assets; i++) {
        json_member(out, i > 0 ? ", {\"filename\": " : "{\"filename\": ", meta->assets[i].filename);
        json_member(out, ", \"tensor\": ", meta->assets[i].tensor.name);
        est_strbuf_append(out, "}");
    }
    est_strbuf_append(out, "], \"collections\": {");
    for (int i = 0; i < meta->n_collections; i++) {
        json_member(out, i > 0 ? ", " : "", meta->collections[i].key);
        est_strbuf_printf(out, ": {\"kind\": \"%s\", \"n\": %d}", collection_kind(&meta->collections[i]),
                          meta->collections[i].n);
    }
    est_strbuf_append(out, "}");
    if (meta->saver != NULL) {
        json_member(out, ", \"saver\": {\"filename_tensor_name\": ", meta->saver->filename_tensor_name);
        json_member(out, ", \"save_tensor_name\": ", meta->saver->save_tensor_name);
        json_member(out, ", \"restore_op_name\": ", meta->saver->restore_op_name);
        est_strbuf_printf(out, ", \"version\": %" PRId32 "}", meta->saver->version);
    }
}

/* Members of an object, without its braces. */
static void json_meta(est_strbuf *out, const est_meta_graph_def *meta)
{
    est_strbuf_append(out, "\"tags\": [");
    for (int i = 0; i < meta->tags.n; i++) json_member(out, i > 0 ? ", " : "", meta->tags.items[i]);
    json_member(out, "], \"tensorflow_version\": ", meta->tensorflow_version);
    json_signatures(out, meta);
    json_rest(out, meta);
}

/* --- MetaGraphDef ------------------------------------------------------------------------------------------------- */

static est_status write_text(est_status (*print)(est_str, est_strbuf *), est_str message)
{
    est_strbuf text   = { 0 };
    est_status status = print(message, &text);

    if (status == EST_OK) status = tool_write(&text);
    est_strbuf_clear(&text);
    return status;
}

static est_status show_meta_graph(const inspect_options *options, est_str message, est_arena *arena)
{
    est_strbuf         line = { 0 };
    est_meta_graph_def meta;
    est_status         status;

    if (options->text) return write_text(est_meta_graph_def_text, message);
    EST_TRY(est_meta_graph_def_parse_bytes(message, arena, &meta));
    if (options->json) {
        est_strbuf_append(&line, "{");
        json_meta(&line, &meta);
        est_strbuf_append(&line, ", ");
    } else {
        put_meta(&line, &meta);
    }
    status = tool_write(&line);
    if (status == EST_OK) status = inspect_show_nodes(options, &meta.graph);
    if (options->json) est_strbuf_append(&line, "}\n");
    if (status == EST_OK) status = tool_write(&line);
    est_strbuf_clear(&line);
    return status;
}

est_status inspect_meta_graph(const inspect_options *options)
{
    return inspect_message(options, options->path, show_meta_graph);
}

/* --- SavedModel --------------------------------------------------------------------------------------------------- */

/* One meta graph; its nodes are counted, and listed by op with --ops. */
static est_status show_member(const inspect_options *options, const est_meta_graph_def *meta, est_strbuf *line)
{
    options->json ? json_meta(line, meta) : put_meta(line, meta);
    if (options->json) est_strbuf_append(line, options->ops ? ", " : "");
    if (!options->ops) {
        est_strbuf_printf(line, options->json ? ", \"nodes\": %d" : "graph: %d nodes\n", meta->graph.n_nodes);
    }
    EST_TRY(tool_write(line));
    return options->ops ? inspect_show_nodes(options, &meta->graph) : EST_OK;
}

static est_status show_members(const inspect_options *options, const est_saved_model_def *model, est_strbuf *line)
{
    if (options->json) {
        est_strbuf_printf(line, "{\"schema_version\": %" PRId64 ", \"meta_graphs\": [", model->schema_version);
    }
    for (int i = 0; i < model->n_meta_graphs; i++) {
        if (options->json) est_strbuf_append(line, i > 0 ? ", {" : "{");
        if (!options->json && i > 0) est_strbuf_append(line, "\n");
        EST_TRY(show_member(options, model->meta_graphs[i], line));
        if (options->json) est_strbuf_append(line, "}");
    }
    if (options->json) est_strbuf_append(line, "]");
    return tool_write(line);
}

static est_status show_saved_model(const inspect_options *options, est_str message, est_arena *arena)
{
    est_strbuf          line = { 0 };
    est_saved_model_def model;
    est_status          status;

    if (options->text) return write_text(est_saved_model_text, message);
    EST_TRY(est_saved_model_def_parse(message, arena, &model));
    status = show_members(options, &model, &line);
    est_strbuf_clear(&line);
    return status;
}

/* The variables beside the message, if there are any. */
static est_status show_model_variables(const inspect_options *options, const char *dir)
{
    est_strbuf prefix = { 0 }, index = { 0 }, line = { 0 };
    bool       has;
    est_status status;

    est_strbuf_printf(&prefix, "%s/variables/variables", dir);
    est_strbuf_printf(&index, "%s.index", est_strbuf_text(&prefix));
    status = est_strbuf_status(&index);
    has    = status == EST_OK && est_file_exists(est_strbuf_text(&index));
    if (has) est_strbuf_append(&line, options->json ? ", \"variables\": " : "\n");
    if (status == EST_OK) status = tool_write(&line);
    if (status == EST_OK && has) status = inspect_checkpoint_prefix(options, est_strbuf_text(&prefix));
    if (options->json) est_strbuf_append(&line, "}\n");
    if (status == EST_OK) status = tool_write(&line);
    est_strbuf_clear(&prefix);
    est_strbuf_clear(&index);
    est_strbuf_clear(&line);
    return status;
}

est_status inspect_saved_model(const inspect_options *options)
{
    const char *slash = strrchr(options->path, '/');
    est_strbuf  dir = { 0 }, file = { 0 };
    est_status  status;

    if (est_dir_exists(options->path)) {
        est_strbuf_append(&dir, options->path);
        est_strbuf_printf(&file, "%s/saved_model.pb", options->path);
    } else {
        est_strbuf_append(&file, options->path);
        if (slash == NULL) {
            est_strbuf_append(&dir, ".");
        } else {
            est_strbuf_append_bytes(&dir, options->path, (size_t)(slash - options->path) + (slash == options->path));
        }
    }
    status = est_strbuf_status(&dir);
    if (status == EST_OK) status = est_strbuf_status(&file);
    if (status == EST_OK) status = inspect_message(options, est_strbuf_text(&file), show_saved_model);
    if (status == EST_OK && !options->text) status = show_model_variables(options, est_strbuf_text(&dir));
    est_strbuf_clear(&dir);
    est_strbuf_clear(&file);
    return status;
}
