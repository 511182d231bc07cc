/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads MetaGraphDefs; meta_graph_def.c lists the fields. */
#include <string.h>

#include "format/meta_graph_def.h"
#include "format/tensor_proto.h"

/* --- signatures --------------------------------------------------------------------------------------------------- */

static est_status parse_sparse(est_wire_reader *r, est_arena *arena, est_tensor_info *info)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: EST_TRY(est_def_read_text(arena, r, &field, &info->name)); break;
        case 2: EST_TRY(est_def_read_text(arena, r, &field, &info->indices)); break;
        case 3: EST_TRY(est_def_read_text(arena, r, &field, &info->sizes)); break;
        default: break;
        }
    }
    return est_wire_finish(r);
}

/* Of the members of the oneof the last one counts. */
static est_status parse_info_field(est_wire_reader *r, const est_wire_field *field, est_arena *arena,
                                   est_tensor_info *info)
{
    est_wire_reader inner;

    switch (field->number) {
    case EST_TENSOR_INFO_NAME:
        info->kind = EST_TENSOR_INFO_NAME;
        return est_def_read_text(arena, r, field, &info->name);
    case 2: info->dtype = est_wire_i32(r, field); return est_wire_finish(r);
    case 3:
        info->has_shape = true;
        est_wire_message(r, field, "TensorShapeProto", &inner);
        EST_TRY(est_wire_finish(r));
        return est_shape_proto_parse(&inner, &info->shape);
    case EST_TENSOR_INFO_SPARSE:
        info->kind = EST_TENSOR_INFO_SPARSE;
        info->name = info->indices = info->sizes = "";
        est_wire_message(r, field, "TensorInfo.CooSparse", &inner);
        EST_TRY(est_wire_finish(r));
        return parse_sparse(&inner, arena, info);
    case EST_TENSOR_INFO_COMPOSITE:
        info->kind = EST_TENSOR_INFO_COMPOSITE;
        return est_def_read_bytes(arena, r, field, &info->composite);
    default: return EST_OK;
    }
}

static est_status parse_info(est_wire_reader *r, est_arena *arena, est_tensor_info *out)
{
    const char     *key  = out->key;
    est_tensor_info info = { .key = key, .name = "", .indices = "", .sizes = "", .composite = { "", 0 } };
    est_wire_field  field;

    while (est_wire_next(r, &field)) EST_TRY(parse_info_field(r, &field, arena, &info));
    EST_TRY(est_wire_finish(r));
    *out = info;
    return EST_OK;
}

static est_status read_info(est_wire_reader *r, const est_wire_field *field, est_arena *arena, est_tensor_infos *infos)
{
    est_wire_reader  value;
    est_tensor_info *info;
    const char      *key;
    void            *item;
    est_status       status;

    EST_TRY(est_def_read_entry(arena, r, field, &key, &value));
    EST_TRY(est_def_map_put(arena, &infos->items, &infos->n, sizeof *info, key, &item));
    value.message = "TensorInfo";
    status        = parse_info(&value, arena, item);
    return status == EST_OK ? EST_OK : est_fail_context(status, "tensor '%s'", key);
}

static est_status read_default(est_wire_reader *r, const est_wire_field *field, est_arena *arena,
                               est_signature_def *signature)
{
    est_wire_reader value;
    const char     *key;
    void           *item;

    EST_TRY(est_def_read_entry(arena, r, field, &key, &value));
    EST_TRY(
        est_def_map_put(arena, &signature->defaults, &signature->n_defaults, sizeof *signature->defaults, key, &item));
    return est_def_copy_bytes(arena, (est_str){ (const char *)value.at, (size_t)(value.end - value.at) },
                              &((est_signature_default *)item)->tensor);
}

static est_status parse_signature(est_wire_reader *r, est_arena *arena, est_signature_def *signature)
{
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: EST_TRY(read_info(r, &field, arena, &signature->inputs)); break;
        case 2: EST_TRY(read_info(r, &field, arena, &signature->outputs)); break;
        case 3: EST_TRY(est_def_read_text(arena, r, &field, &signature->method_name)); break;
        case 4: EST_TRY(read_default(r, &field, arena, signature)); break;
        default: break;
        }
    }
    return est_wire_finish(r);
}

static est_status read_signature(est_wire_reader *r, const est_wire_field *field, est_meta_graph_def *meta)
{
    est_signature_def *signature;
    est_wire_reader    value;
    const char        *key;
    void              *item;
    est_status         status;

    EST_TRY(est_def_read_entry(meta->arena, r, field, &key, &value));
    EST_TRY(est_def_map_put(meta->arena, &meta->signatures, &meta->n_signatures, sizeof *signature, key, &item));
    signature              = item;
    signature->method_name = "";
    value.message          = "SignatureDef";
    status                 = parse_signature(&value, meta->arena, signature);
    return status == EST_OK ? EST_OK : est_fail_context(status, "signature '%s'", key);
}

/* --- collections -------------------------------------------------------------------------------------------------- */

/* One occurrence of the values of a collection, whose kind is set. */
static est_status read_values(est_wire_reader *r, const est_wire_field *field, est_arena *arena,
                              est_collection_def *collection)
{
    est_wire_list list;
    uint64_t      bits;

    if (collection->kind == EST_COLLECTION_NODES) {
        EST_TRY(est_def_grow(arena, &collection->nodes, collection->n, sizeof *collection->nodes));
        return est_def_read_text(arena, r, field, &collection->nodes[collection->n++]);
    }
    if (collection->kind == EST_COLLECTION_BYTES) {
        EST_TRY(est_def_grow(arena, &collection->bytes, collection->n, sizeof *collection->bytes));
        return est_def_read_bytes(arena, r, field, &collection->bytes[collection->n++]);
    }
    if (collection->kind == EST_COLLECTION_INTS) {
        est_wire_list_init(r, field, EST_WIRE_VARINT, &list);
        while (est_wire_list_next(&list, &bits)) {
            EST_TRY(est_def_grow(arena, &collection->ints, collection->n, sizeof *collection->ints));
            collection->ints[collection->n++] = (int64_t)bits;
        }
        return est_wire_finish(r);
    }
    est_wire_list_init(r, field, EST_WIRE_FIXED32, &list);
    while (est_wire_list_next(&list, &bits)) {
        EST_TRY(est_def_grow(arena, &collection->floats, collection->n, sizeof *collection->floats));
        collection->floats[collection->n++] = est_wire_bits_f32(bits);
    }
    return est_wire_finish(r);
}

static est_status parse_collection(est_wire_reader *r, est_arena *arena, est_collection_def *collection)
{
    const char     *key = collection->key;
    est_wire_reader inner;
    est_wire_field  field, value;

    while (est_wire_next(r, &field)) {
        if (field.number < EST_COLLECTION_NODES || field.number > EST_COLLECTION_ANY) continue;
        *collection = (est_collection_def){ .key = key, .kind = (est_collection_kind)field.number };
        if (collection->kind == EST_COLLECTION_ANY) {
            EST_TRY(est_def_read_bytes(arena, r, &field, &collection->any));
            continue;
        }
        est_wire_message(r, &field, "CollectionDef list", &inner);
        EST_TRY(est_wire_finish(r));
        while (est_wire_next(&inner, &value)) {
            if (value.number == 1) EST_TRY(read_values(&inner, &value, arena, collection));
        }
        EST_TRY(est_wire_finish(&inner));
    }
    return est_wire_finish(r);
}

static est_status read_collection(est_wire_reader *r, const est_wire_field *field, est_meta_graph_def *meta)
{
    est_wire_reader value;
    const char     *key;
    void           *item;
    est_status      status;

    EST_TRY(est_def_read_entry(meta->arena, r, field, &key, &value));
    EST_TRY(
        est_def_map_put(meta->arena, &meta->collections, &meta->n_collections, sizeof *meta->collections, key, &item));
    value.message = "CollectionDef";
    status        = parse_collection(&value, meta->arena, item);
    return status == EST_OK ? EST_OK : est_fail_context(status, "collection '%s'", key);
}

/* --- the other parts ---------------------------------------------------------------------------------------------- */

static est_status read_alias(est_wire_reader *r, const est_wire_field *field, est_meta_graph_def *meta)
{
    est_wire_reader entry;
    est_wire_field  part;
    const char     *key = "", *value = "";
    void           *item;

    est_wire_message(r, field, "function alias", &entry);
    EST_TRY(est_wire_finish(r));
    while (est_wire_next(&entry, &part)) {
        if (part.number == 1) EST_TRY(est_def_read_text(meta->arena, &entry, &part, &key));
        if (part.number == 2) EST_TRY(est_def_read_text(meta->arena, &entry, &part, &value));
    }
    EST_TRY(est_wire_finish(&entry));
    EST_TRY(est_def_map_put(meta->arena, &meta->function_aliases, &meta->n_function_aliases,
                            sizeof *meta->function_aliases, key, &item));
    ((est_function_alias *)item)->value = value;
    return EST_OK;
}

static est_status parse_meta_info(est_wire_reader *r, est_meta_graph_def *meta)
{
    est_arena     *arena = meta->arena;
    est_wire_field field;

    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: EST_TRY(est_def_read_text(arena, r, &field, &meta->meta_graph_version)); break;
        case 2: EST_TRY(est_def_append_bytes(arena, est_wire_bytes(r, &field), &meta->stripped_op_list)); break;
        case 3: EST_TRY(est_def_append_bytes(arena, est_wire_bytes(r, &field), &meta->any_info)); break;
        case 4: EST_TRY(est_def_names_read(arena, r, &field, &meta->tags)); break;
        case 5: EST_TRY(est_def_read_text(arena, r, &field, &meta->tensorflow_version)); break;
        case 6: EST_TRY(est_def_read_text(arena, r, &field, &meta->tensorflow_git_version)); break;
        case 7: meta->stripped_default_attrs = est_wire_bool(r, &field); break;
        case 8: EST_TRY(read_alias(r, &field, meta)); break;
        default: break;
        }
    }
    return est_wire_finish(r);
}

static est_status parse_saver(est_wire_reader *r, est_meta_graph_def *meta)
{
    est_arena     *arena = meta->arena;
    est_saver_def *saver = est_arena_alloc(arena, sizeof *saver);
    est_wire_field field;

    if (saver == NULL) return est_no_memory();
    saver->filename_tensor_name = saver->save_tensor_name = saver->restore_op_name = "";
    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case 1: EST_TRY(est_def_read_text(arena, r, &field, &saver->filename_tensor_name)); break;
        case 2: EST_TRY(est_def_read_text(arena, r, &field, &saver->save_tensor_name)); break;
        case 3: EST_TRY(est_def_read_text(arena, r, &field, &saver->restore_op_name)); break;
        case 4: saver->max_to_keep = est_wire_i32(r, &field); break;
        case 5: saver->sharded = est_wire_bool(r, &field); break;
        case 6: saver->keep_checkpoint_every_n_hours = est_wire_f32(r, &field); break;
        case 7: saver->version = est_wire_i32(r, &field); break;
        default: break;
        }
    }
    EST_TRY(est_wire_finish(r));
    meta->saver = saver;
    return EST_OK;
}

static est_status parse_asset(est_wire_reader *r, est_meta_graph_def *meta)
{
    est_asset_file_def asset = { .filename = "" };
    est_wire_reader    inner;
    est_wire_field     field;

    est_wire_reader_init(&inner, "TensorInfo", "", 0);
    asset.tensor.key = "";
    EST_TRY(parse_info(&inner, meta->arena, &asset.tensor)); /* an empty one */
    while (est_wire_next(r, &field)) {
        if (field.number == 1) {
            est_wire_message(r, &field, "TensorInfo", &inner);
            EST_TRY(est_wire_finish(r));
            EST_TRY(parse_info(&inner, meta->arena, &asset.tensor));
        } else if (field.number == 2) {
            EST_TRY(est_def_read_text(meta->arena, r, &field, &asset.filename));
        }
    }
    EST_TRY(est_wire_finish(r));
    EST_TRY(est_def_grow(meta->arena, &meta->assets, meta->n_assets, sizeof asset));
    meta->assets[meta->n_assets++] = asset;
    return EST_OK;
}

static est_status parse_field(est_wire_reader *r, const est_wire_field *field, est_meta_graph_def *meta)
{
    static const char *const names[] = {
        [1] = "MetaInfoDef", [2] = "GraphDef", [3] = "SaverDef", [6] = "AssetFileDef"
    };
    est_wire_reader inner;

    switch (field->number) {
    case 4: return read_collection(r, field, meta);
    case 5: return read_signature(r, field, meta);
    case 7: return est_def_append_bytes(meta->arena, est_wire_bytes(r, field), &meta->object_graph);
    case 1:
    case 2:
    case 3:
    case 6: break;
    default: return EST_OK;
    }
    est_wire_message(r, field, names[field->number], &inner);
    EST_TRY(est_wire_finish(r));
    switch (field->number) {
    case 1: return parse_meta_info(&inner, meta);
    case 2: return est_graph_def_parse(&inner, meta->arena, &meta->graph);
    case 3: return parse_saver(&inner, meta);
    default: return parse_asset(&inner, meta);
    }
}

est_status est_meta_graph_def_parse(est_wire_reader *r, est_arena *arena, est_meta_graph_def *out)
{
    est_meta_graph_def meta;
    est_wire_field     field;

    est_meta_graph_def_init(&meta, arena);
    while (est_wire_next(r, &field)) EST_TRY(parse_field(r, &field, &meta));
    EST_TRY(est_wire_finish(r));
    *out = meta;
    est_graph_def_move(&meta.graph, &out->graph);
    return EST_OK;
}

est_status est_meta_graph_def_parse_bytes(est_str message, est_arena *arena, est_meta_graph_def *out)
{
    est_wire_reader r;

    est_wire_reader_init(&r, "MetaGraphDef", message.data, message.size);
    return est_meta_graph_def_parse(&r, arena, out);
}

/* --- assets ------------------------------------------------------------------------------------------------------- */

/* An Any: 1 type_url | 2 value */
static est_status parse_any_asset(est_wire_reader *r, est_meta_graph_def *meta)
{
    const char     *type  = "";
    est_str         value = { "", 0 };
    est_wire_reader inner;
    est_wire_field  field;

    while (est_wire_next(r, &field)) {
        if (field.number == 1) EST_TRY(est_def_read_text(meta->arena, r, &field, &type));
        if (field.number == 2) value = est_wire_bytes(r, &field);
    }
    EST_TRY(est_wire_finish(r));
    if (strcmp(type, "type.googleapis.com/tensorflow.AssetFileDef") != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "an asset is a message of type %s", type);
    }
    est_wire_reader_init(&inner, "AssetFileDef", value.data, value.size);
    return parse_asset(&inner, meta);
}

static est_status take_listed_assets(est_meta_graph_def *meta)
{
    const est_collection_def *list = est_meta_graph_def_collection(meta, "saved_model_assets");
    est_wire_reader           r, inner;
    est_wire_field            field;

    if (meta->n_assets > 0 || list == NULL || list->kind != EST_COLLECTION_ANY) return EST_OK;
    est_wire_reader_init(&r, "AnyList", list->any.data, list->any.size);
    while (est_wire_next(&r, &field)) {
        if (field.number != 1) continue;
        est_wire_message(&r, &field, "Any", &inner);
        EST_TRY(est_wire_finish(&r));
        EST_TRY(parse_any_asset(&inner, meta));
    }
    return est_wire_finish(&r);
}

est_status est_meta_graph_def_asset_node(const est_meta_graph_def *meta, const est_asset_file_def *asset,
                                         est_graph_def_node **out)
{
    const char *tensor = asset->tensor.name != NULL ? asset->tensor.name : "", *colon = strrchr(tensor, ':');
    size_t      size = colon != NULL ? (size_t)(colon - tensor) : strlen(tensor);

    for (int i = 0; i < meta->graph.n_nodes; i++) {
        est_graph_def_node *node = meta->graph.nodes[i];

        if (strlen(node->name) != size || memcmp(node->name, tensor, size) != 0) continue;
        if (strcmp(node->op, "Const") != 0 && strcmp(node->op, "Placeholder") != 0) break;
        *out = node;
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "the asset %s belongs to '%s', which is no constant or placeholder of the graph", asset->filename,
                    tensor);
}

static est_status place_asset(est_meta_graph_def *meta, const est_asset_file_def *asset, const char *dir)
{
    const char         *path  = est_arena_printf(meta->arena, "%s/assets/%s", dir, asset->filename);
    est_tensor         *value = NULL;
    est_graph_def_node *node;

    if (path == NULL) return est_no_memory();
    EST_TRY(est_meta_graph_def_asset_node(meta, asset, &node));
    EST_TRY(est_tensor_string(path, strlen(path), &value));
    node->op    = "Const"; /* TensorFlow 2 feeds a placeholder */
    node->attrs = (est_def_attrs){ 0 };
    est_graph_def_set_type(node, "dtype", EST_STRING);
    est_graph_def_set_tensor(node, "value", value);
    est_tensor_free(value);
    return meta->graph.status;
}

est_status est_meta_graph_def_place_assets(est_meta_graph_def *meta, const char *dir)
{
    EST_TRY(take_listed_assets(meta));
    for (int i = 0; i < meta->n_assets; i++) EST_TRY(place_asset(meta, &meta->assets[i], dir));
    return EST_OK;
}
