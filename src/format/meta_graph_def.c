/* SPDX-License-Identifier: Apache-2.0
 *
 * Building, looking at and writing MetaGraphDefs. (meta_graph_parse.c reads them.)
 *
 *   MetaGraphDef   1 meta_info_def | 2 graph_def | 3 saver_def | 4 collection_def map | 5 signature_def map |
 *                  6 asset_file_def | 7 object_graph_def
 *   MetaInfoDef    1 meta_graph_version | 2 stripped_op_list | 3 any_info | 4 tags | 5 tensorflow_version |
 *                  6 tensorflow_git_version | 7 stripped_default_attrs | 8 function_aliases map
 *   SaverDef       1 filename_tensor_name | 2 save_tensor_name | 3 restore_op_name | 4 max_to_keep | 5 sharded |
 *                  6 keep_checkpoint_every_n_hours | 7 version
 *   CollectionDef  one of 1 node_list | 2 bytes_list | 3 int64_list | 4 float_list | 5 any_list, each { 1 value }
 *   SignatureDef   1 inputs map | 2 outputs map | 3 method_name | 4 defaults map
 *   TensorInfo     one of 1 name | 4 coo_sparse { 1 values, 2 indices, 3 dense shape } | 5 composite_tensor; 2 dtype |
 *                  3 tensor_shape
 *   AssetFileDef   1 tensor_info | 2 filename */
#include "format/meta_graph_def.h"

#include <string.h>

#include "format/tensor_proto.h"
#include "format/wire_defaults.h"

void est_meta_graph_def_init(est_meta_graph_def *meta, est_arena *arena)
{
    const est_str empty = { "", 0 };

    *meta = (est_meta_graph_def){ .arena = arena, .meta_graph_version = "", .tensorflow_version = "" };
    meta->tensorflow_git_version = "";
    meta->stripped_op_list = meta->any_info = meta->object_graph = empty;
    est_graph_def_init(&meta->graph, arena);
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* NULL counts as "". */
static est_status copy_text(est_arena *arena, const char *text, const char **out)
{
    return est_def_copy_text(arena, text != NULL ? (est_str){ text, strlen(text) } : (est_str){ "", 0 }, out);
}

est_status est_meta_graph_def_add_tag(est_meta_graph_def *meta, const char *tag)
{
    return est_def_names_add(meta->arena, &meta->tags, tag);
}

est_status est_meta_graph_def_set_saver(est_meta_graph_def *meta, const est_saver_def *saver)
{
    est_saver_def *copy = est_arena_alloc(meta->arena, sizeof *copy);

    if (copy == NULL) return est_no_memory();
    *copy = *saver;
    EST_TRY(copy_text(meta->arena, saver->filename_tensor_name, &copy->filename_tensor_name));
    EST_TRY(copy_text(meta->arena, saver->save_tensor_name, &copy->save_tensor_name));
    EST_TRY(copy_text(meta->arena, saver->restore_op_name, &copy->restore_op_name));
    meta->saver = copy;
    return EST_OK;
}

est_status est_meta_graph_def_add_asset(est_meta_graph_def *meta, const char *tensor, const char *filename)
{
    est_asset_file_def asset = { .tensor = { .key = "", .kind = EST_TENSOR_INFO_NAME } };

    EST_TRY(copy_text(meta->arena, tensor, &asset.tensor.name));
    EST_TRY(copy_text(meta->arena, filename, &asset.filename));
    EST_TRY(est_def_grow(meta->arena, &meta->assets, meta->n_assets, sizeof *meta->assets));
    meta->assets[meta->n_assets++] = asset;
    return EST_OK;
}

est_status est_meta_graph_def_add_signature(est_meta_graph_def *meta, const char *key, const char *method_name)
{
    const char *key_copy, *method_copy;
    void       *item;

    EST_TRY(copy_text(meta->arena, key, &key_copy));
    EST_TRY(copy_text(meta->arena, method_name, &method_copy));
    EST_TRY(est_def_map_put(meta->arena, &meta->signatures, &meta->n_signatures, sizeof *meta->signatures, key_copy,
                            &item));
    ((est_signature_def *)item)->method_name = method_copy;
    return EST_OK;
}

static est_status add_info(est_arena *arena, est_tensor_infos *infos, const char *key, const est_tensor_info *from)
{
    est_tensor_info info = *from;
    void           *item;

    EST_TRY(copy_text(arena, key, &info.key));
    EST_TRY(copy_text(arena, from->name, &info.name));
    EST_TRY(copy_text(arena, from->indices, &info.indices));
    EST_TRY(copy_text(arena, from->sizes, &info.sizes));
    EST_TRY(est_def_copy_bytes(arena, from->composite, &info.composite));
    EST_TRY(est_def_map_put(arena, &infos->items, &infos->n, sizeof *infos->items, info.key, &item));
    memcpy(item, &info, sizeof info);
    return EST_OK;
}

static est_status find_signature(const est_meta_graph_def *meta, const char *key, est_signature_def **out)
{
    *out = est_def_map_find(meta->signatures, meta->n_signatures, sizeof **out, key);
    return *out != NULL ? EST_OK : est_fail(EST_NOT_FOUND, "there is no signature '%s'; add it first", key);
}

est_status est_meta_graph_def_add_input(est_meta_graph_def *meta, const char *signature, const char *key,
                                        const est_tensor_info *info)
{
    est_signature_def *def;

    EST_TRY(find_signature(meta, signature, &def));
    return add_info(meta->arena, &def->inputs, key, info);
}

est_status est_meta_graph_def_add_output(est_meta_graph_def *meta, const char *signature, const char *key,
                                         const est_tensor_info *info)
{
    est_signature_def *def;

    EST_TRY(find_signature(meta, signature, &def));
    return add_info(meta->arena, &def->outputs, key, info);
}

/* The collection of that key, made if need be, with room for one more value. */
static est_status open_collection(est_meta_graph_def *meta, const char *key, est_collection_kind kind,
                                  size_t value_size, est_collection_def **out)
{
    static const char *const names[] = { "nothing", "nodes", "bytes", "ints", "floats", "messages" };
    est_collection_def *collection = est_def_map_find(meta->collections, meta->n_collections, sizeof *collection, key);
    const char         *copy;
    void               *item;

    if (collection == NULL) {
        EST_TRY(copy_text(meta->arena, key, &copy));
        EST_TRY(
            est_def_map_put(meta->arena, &meta->collections, &meta->n_collections, sizeof *collection, copy, &item));
        collection       = item;
        collection->kind = kind;
    }
    if (collection->kind != kind) {
        return est_fail(EST_INVALID_ARGUMENT, "the collection '%s' is of %s, a value of %s does not fit", key,
                        names[collection->kind], names[kind]);
    }
    *out = collection;
    return est_def_grow(meta->arena, &collection->nodes, collection->n, value_size);
}

est_status est_meta_graph_def_add_node(est_meta_graph_def *meta, const char *collection, const char *name)
{
    est_collection_def *def;

    EST_TRY(open_collection(meta, collection, EST_COLLECTION_NODES, sizeof name, &def));
    EST_TRY(copy_text(meta->arena, name, &def->nodes[def->n]));
    def->n++;
    return EST_OK;
}

est_status est_meta_graph_def_add_bytes(est_meta_graph_def *meta, const char *collection, est_str bytes)
{
    est_collection_def *def;

    EST_TRY(open_collection(meta, collection, EST_COLLECTION_BYTES, sizeof bytes, &def));
    EST_TRY(est_def_copy_bytes(meta->arena, bytes, &def->bytes[def->n]));
    def->n++;
    return EST_OK;
}

est_status est_meta_graph_def_add_int(est_meta_graph_def *meta, const char *collection, int64_t value)
{
    est_collection_def *def;

    EST_TRY(open_collection(meta, collection, EST_COLLECTION_INTS, sizeof value, &def));
    def->ints[def->n++] = value;
    return EST_OK;
}

est_status est_meta_graph_def_add_float(est_meta_graph_def *meta, const char *collection, float value)
{
    est_collection_def *def;

    EST_TRY(open_collection(meta, collection, EST_COLLECTION_FLOATS, sizeof value, &def));
    def->floats[def->n++] = value;
    return EST_OK;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

const est_signature_def *est_meta_graph_def_signature(const est_meta_graph_def *meta, const char *key)
{
    return est_def_map_find(meta->signatures, meta->n_signatures, sizeof *meta->signatures, key);
}

const est_collection_def *est_meta_graph_def_collection(const est_meta_graph_def *meta, const char *key)
{
    return est_def_map_find(meta->collections, meta->n_collections, sizeof *meta->collections, key);
}

const est_tensor_info *est_tensor_infos_find(const est_tensor_infos *infos, const char *key)
{
    return est_def_map_find(infos->items, infos->n, sizeof *infos->items, key);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_meta_info(est_wire_writer *w, const est_meta_graph_def *meta)
{
    est_def_put_text(w, 1, meta->meta_graph_version);
    est_wire_put_nonempty(w, 2, meta->stripped_op_list);
    est_wire_put_nonempty(w, 3, meta->any_info);
    est_def_names_put(w, 4, &meta->tags);
    est_def_put_text(w, 5, meta->tensorflow_version);
    est_def_put_text(w, 6, meta->tensorflow_git_version);
    est_wire_put_true(w, 7, meta->stripped_default_attrs);
    for (int i = 0; i < meta->n_function_aliases; i++) {
        size_t entry = est_wire_begin(w, 8);

        est_wire_put_string(w, 1, meta->function_aliases[i].key);
        est_wire_put_string(w, 2, meta->function_aliases[i].value);
        est_wire_end(w, entry);
    }
}

static void put_saver(est_wire_writer *w, const est_saver_def *saver)
{
    est_def_put_text(w, 1, saver->filename_tensor_name);
    est_def_put_text(w, 2, saver->save_tensor_name);
    est_def_put_text(w, 3, saver->restore_op_name);
    est_wire_put_i64_nonzero(w, 4, saver->max_to_keep);
    est_wire_put_true(w, 5, saver->sharded);
    if (saver->keep_checkpoint_every_n_hours != 0) est_wire_put_f32(w, 6, saver->keep_checkpoint_every_n_hours);
    est_wire_put_i64_nonzero(w, 7, saver->version);
}

static void put_collection(est_wire_writer *w, const est_collection_def *collection)
{
    size_t mark;

    if (collection->kind == EST_COLLECTION_NONE) return;
    if (collection->kind == EST_COLLECTION_ANY) {
        est_wire_put_bytes(w, EST_COLLECTION_ANY, collection->any.data, collection->any.size);
        return;
    }
    mark = est_wire_begin(w, (uint32_t)collection->kind);
    if (collection->kind == EST_COLLECTION_INTS && collection->n > 0) {
        est_wire_put_i64s(w, 1, collection->ints, (size_t)collection->n);
    } else if (collection->kind == EST_COLLECTION_FLOATS && collection->n > 0) {
        est_wire_put_f32s(w, 1, collection->floats, (size_t)collection->n);
    }
    for (int i = 0; i < collection->n; i++) {
        if (collection->kind == EST_COLLECTION_NODES) est_wire_put_string(w, 1, collection->nodes[i]);
        if (collection->kind == EST_COLLECTION_BYTES) {
            est_wire_put_bytes(w, 1, collection->bytes[i].data, collection->bytes[i].size);
        }
    }
    est_wire_end(w, mark);
}

static void put_info(est_wire_writer *w, uint32_t number, const est_tensor_info *info)
{
    size_t mark = est_wire_begin(w, number), inner;

    if (info->kind == EST_TENSOR_INFO_NAME) est_wire_put_string(w, 1, info->name); /* of a oneof: even when empty */
    est_wire_put_i64_nonzero(w, 2, info->dtype);
    if (info->has_shape) {
        inner = est_wire_begin(w, 3);
        est_shape_proto_put(w, &info->shape);
        est_wire_end(w, inner);
    }
    if (info->kind == EST_TENSOR_INFO_SPARSE) {
        inner = est_wire_begin(w, EST_TENSOR_INFO_SPARSE);
        est_def_put_text(w, 1, info->name);
        est_def_put_text(w, 2, info->indices);
        est_def_put_text(w, 3, info->sizes);
        est_wire_end(w, inner);
    } else if (info->kind == EST_TENSOR_INFO_COMPOSITE) {
        est_wire_put_bytes(w, EST_TENSOR_INFO_COMPOSITE, info->composite.data, info->composite.size);
    }
    est_wire_end(w, mark);
}

static void put_infos(est_wire_writer *w, uint32_t number, const est_tensor_infos *infos)
{
    for (int i = 0; i < infos->n; i++) {
        size_t entry = est_wire_begin(w, number);

        est_wire_put_string(w, 1, infos->items[i].key);
        put_info(w, 2, &infos->items[i]);
        est_wire_end(w, entry);
    }
}

static void put_signature(est_wire_writer *w, const est_signature_def *signature)
{
    put_infos(w, 1, &signature->inputs);
    put_infos(w, 2, &signature->outputs);
    est_def_put_text(w, 3, signature->method_name);
    for (int i = 0; i < signature->n_defaults; i++) {
        size_t entry = est_wire_begin(w, 4);

        est_wire_put_string(w, 1, signature->defaults[i].key);
        est_wire_put_bytes(w, 2, signature->defaults[i].tensor.data, signature->defaults[i].tensor.size);
        est_wire_end(w, entry);
    }
}

static void put_maps(est_wire_writer *w, const est_meta_graph_def *meta)
{
    size_t entry, value;

    for (int i = 0; i < meta->n_collections; i++) {
        entry = est_wire_begin(w, 4);
        est_wire_put_string(w, 1, meta->collections[i].key);
        value = est_wire_begin(w, 2);
        put_collection(w, &meta->collections[i]);
        est_wire_end(w, value);
        est_wire_end(w, entry);
    }
    for (int i = 0; i < meta->n_signatures; i++) {
        entry = est_wire_begin(w, 5);
        est_wire_put_string(w, 1, meta->signatures[i].key);
        value = est_wire_begin(w, 2);
        put_signature(w, &meta->signatures[i]);
        est_wire_end(w, value);
        est_wire_end(w, entry);
    }
}

est_status est_meta_graph_def_put(est_wire_writer *w, const est_meta_graph_def *meta)
{
    size_t mark = est_wire_begin(w, 1);

    put_meta_info(w, meta);
    est_wire_end(w, mark);
    mark = est_wire_begin(w, 2);
    EST_TRY(est_graph_def_put(w, &meta->graph));
    est_wire_end(w, mark);
    if (meta->saver != NULL) {
        mark = est_wire_begin(w, 3);
        put_saver(w, meta->saver);
        est_wire_end(w, mark);
    }
    put_maps(w, meta);
    for (int i = 0; i < meta->n_assets; i++) {
        mark = est_wire_begin(w, 6);
        put_info(w, 1, &meta->assets[i].tensor);
        est_def_put_text(w, 2, meta->assets[i].filename);
        est_wire_end(w, mark);
    }
    est_wire_put_nonempty(w, 7, meta->object_graph);
    return est_wire_writer_status(w);
}
