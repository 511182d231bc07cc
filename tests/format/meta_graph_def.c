/* SPDX-License-Identifier: Apache-2.0
 *
 * Meta graphs: one built with every part, round trip and damage; errors that name the part. What TensorFlow wrote is
 * read in tests/format/saved_model_def.c. */
#include "support/def_test.h"

#include "format/meta_graph_def.h"

static est_status rewrite(est_str message, est_wire_writer *w)
{
    est_arena         *arena = est_arena_create();
    est_meta_graph_def meta;
    est_status         status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = est_meta_graph_def_parse_bytes(message, arena, &meta);
    if (status == EST_OK) status = est_meta_graph_def_put(w, &meta);
    est_arena_free(arena);
    return status;
}

static est_status add_signature(est_meta_graph_def *meta)
{
    const est_tensor_info x = {
        .kind = EST_TENSOR_INFO_NAME, .name = "x:0", .dtype = EST_F32, .has_shape = true, .shape = EST_SHAPE(-1, 3)
    };
    const est_tensor_info ids = { .kind    = EST_TENSOR_INFO_SPARSE,
                                  .name    = "ids/values:0",
                                  .indices = "ids/indices:0",
                                  .sizes   = "ids/shape:0",
                                  .dtype   = EST_I64 };
    const est_tensor_info any = { .kind = EST_TENSOR_INFO_COMPOSITE, .composite = { "\x12\x00", 2 } };

    EST_TRY(est_meta_graph_def_add_signature(meta, "serving_default", "tensorflow/serving/predict"));
    EST_TRY(est_meta_graph_def_add_signature(meta, "empty", ""));
    EST_TRY(est_meta_graph_def_add_input(meta, "serving_default", "x", &x));
    EST_TRY(est_meta_graph_def_add_input(meta, "serving_default", "ids", &ids));
    EST_TRY(est_meta_graph_def_add_input(meta, "serving_default", "any", &any));
    return est_meta_graph_def_add_output(meta, "serving_default", "y", &x);
}

static est_status build(est_arena *arena, est_wire_writer *w)
{
    const est_saver_def saver = { .filename_tensor_name          = "save/Const:0",
                                  .save_tensor_name              = "save/control_dependency:0",
                                  .restore_op_name               = "save/restore_all",
                                  .max_to_keep                   = 5,
                                  .sharded                       = true,
                                  .keep_checkpoint_every_n_hours = 10000,
                                  .version                       = 2 };
    est_meta_graph_def  meta;

    est_meta_graph_def_init(&meta, arena);
    meta.tensorflow_version     = "1.15.0";
    meta.stripped_default_attrs = true;
    est_graph_def_add_node(&meta.graph, "init", "NoOp");
    EST_TRY(est_meta_graph_def_add_tag(&meta, "serve"));
    EST_TRY(est_meta_graph_def_add_tag(&meta, "gpu"));
    EST_TRY(est_meta_graph_def_set_saver(&meta, &saver));
    EST_TRY(est_meta_graph_def_add_asset(&meta, "file:0", "words.txt"));
    EST_TRY(est_meta_graph_def_add_node(&meta, "saved_model_main_op", "init"));
    EST_TRY(est_meta_graph_def_add_bytes(&meta, "variables", (est_str){ "\0v", 2 }));
    EST_TRY(est_meta_graph_def_add_bytes(&meta, "variables", (est_str){ "", 0 }));
    for (int i = 0; i < 3; i++) EST_TRY(est_meta_graph_def_add_int(&meta, "ints", -i));
    EST_TRY(est_meta_graph_def_add_float(&meta, "floats", 0.5F));
    EST_TRY(add_signature(&meta));
    return est_meta_graph_def_put(w, &meta);
}

static void expect_collections(const est_meta_graph_def *meta)
{
    const est_collection_def *collection;

    assert_int_equal(meta->n_collections, 4);
    for (int i = 1; i < 4; i++) assert_true(strcmp(meta->collections[i - 1].key, meta->collections[i].key) < 0);
    collection = est_meta_graph_def_collection(meta, "saved_model_main_op");
    assert_int_equal(collection->kind, EST_COLLECTION_NODES);
    assert_int_equal(collection->n, 1);
    assert_string_equal(collection->nodes[0], "init");
    collection = est_meta_graph_def_collection(meta, "variables");
    assert_int_equal(collection->kind, EST_COLLECTION_BYTES);
    assert_int_equal(collection->n, 2);
    def_expect_bytes(collection->bytes[0], (est_str){ "\0v", 2 });
    def_expect_bytes(collection->bytes[1], def_str(""));
    collection = est_meta_graph_def_collection(meta, "ints");
    assert_int_equal(collection->kind, EST_COLLECTION_INTS);
    assert_int_equal(collection->n, 3);
    assert_int_equal(collection->ints[2], -2);
    collection = est_meta_graph_def_collection(meta, "floats");
    assert_int_equal(collection->kind, EST_COLLECTION_FLOATS);
    assert_true(collection->n == 1 && collection->floats[0] == 0.5F);
    assert_null(est_meta_graph_def_collection(meta, "none"));
}

static void expect_signature(const est_meta_graph_def *meta)
{
    const est_signature_def *signature = est_meta_graph_def_signature(meta, "serving_default");
    const est_tensor_info   *info;

    assert_int_equal(meta->n_signatures, 2);
    assert_non_null(est_meta_graph_def_signature(meta, "empty"));
    assert_string_equal(signature->method_name, "tensorflow/serving/predict");
    assert_int_equal(signature->inputs.n, 3);
    assert_int_equal(signature->outputs.n, 1);
    info = est_tensor_infos_find(&signature->inputs, "x");
    assert_string_equal(info->name, "x:0");
    assert_int_equal(info->dtype, EST_F32);
    assert_true(info->has_shape && est_shape_equal(&info->shape, &EST_SHAPE(-1, 3)));
    info = est_tensor_infos_find(&signature->inputs, "ids");
    assert_int_equal(info->kind, EST_TENSOR_INFO_SPARSE);
    assert_string_equal(info->name, "ids/values:0");
    assert_string_equal(info->indices, "ids/indices:0");
    assert_string_equal(info->sizes, "ids/shape:0");
    assert_false(info->has_shape);
    info = est_tensor_infos_find(&signature->inputs, "any");
    def_expect_bytes(info->composite, (est_str){ "\x12\x00", 2 });
    assert_null(est_tensor_infos_find(&signature->inputs, "y"));
}

TEST(round_trip)
{
    est_arena         *arena = est_arena_create();
    est_wire_writer    w = { 0 }, again = { 0 };
    est_meta_graph_def meta;

    def_check(build(arena, &w));
    def_check(est_meta_graph_def_parse_bytes(def_written(&w), arena, &meta));
    assert_string_equal(meta.tensorflow_version, "1.15.0");
    assert_true(meta.stripped_default_attrs);
    assert_int_equal(meta.tags.n, 2);
    assert_string_equal(meta.tags.items[1], "gpu");
    assert_int_equal(meta.graph.n_nodes, 1);
    assert_string_equal(meta.saver->restore_op_name, "save/restore_all");
    assert_string_equal(meta.saver->filename_tensor_name, "save/Const:0");
    assert_string_equal(meta.saver->save_tensor_name, "save/control_dependency:0");
    assert_true(meta.saver->max_to_keep == 5 && meta.saver->sharded && meta.saver->version == 2);
    assert_true(meta.saver->keep_checkpoint_every_n_hours == 10000);
    assert_int_equal(meta.n_assets, 1);
    assert_string_equal(meta.assets[0].tensor.name, "file:0");
    assert_string_equal(meta.assets[0].filename, "words.txt");
    expect_collections(&meta);
    expect_signature(&meta);
    def_check(est_meta_graph_def_put(&again, &meta));
    def_expect_bytes(def_written(&again), def_written(&w));
    def_damage(rewrite, def_written(&w));
    est_graph_def_set_i(est_graph_def_add_node(&meta.graph, "more", "Op"), "i", 1); /* a parsed one can be built on */
    est_wire_writer_reset(&again);
    def_check(est_meta_graph_def_put(&again, &meta));
    assert_true(again.size > w.size);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    est_arena_free(arena);
}

TEST(errors)
{
    const est_tensor_info info  = { .kind = EST_TENSOR_INFO_NAME, .name = "x:0" };
    est_arena            *arena = est_arena_create();
    est_meta_graph_def    meta;

    est_meta_graph_def_init(&meta, arena);
    assert_int_equal(est_meta_graph_def_add_input(&meta, "s", "x", &info), EST_NOT_FOUND);
    def_expect_message("'s'");
    def_check(est_meta_graph_def_add_node(&meta, "c", "n"));
    assert_int_equal(est_meta_graph_def_add_int(&meta, "c", 1), EST_INVALID_ARGUMENT);
    def_expect_message("the collection 'c' is of nodes, a value of ints does not fit");
    assert_int_equal(est_meta_graph_def_parse_bytes((est_str){ "*\x07\x0a\x01s\x12\x02\x1a\x05", 9 }, arena, &meta),
                     EST_DATA_LOSS);
    def_expect_message("signature 's'");
    assert_int_equal(est_meta_graph_def_parse_bytes((est_str){ "*\x0c\x0a\x01s\x12\x07\x0a\x05\x0a\x01t\x12\x01", 14 },
                                                    arena, &meta),
                     EST_DATA_LOSS);
    assert_int_equal(est_meta_graph_def_parse_bytes((est_str){ "\x22\x07\x0a\x01"
                                                               "c\x12\x02\x0a\x05",
                                                               9 },
                                                    arena, &meta),
                     EST_DATA_LOSS);
    def_expect_message("collection 'c'");
    est_arena_free(arena);
}

/* --- assets ------------------------------------------------------------------------------------------------------- */

/* A graph with the constant "file" and a node "init" that is none. */
static est_status asset_graph(est_meta_graph_def *meta, est_arena *arena)
{
    est_tensor         *path = NULL;
    est_graph_def_node *node;

    est_meta_graph_def_init(meta, arena);
    est_graph_def_add_node(&meta->graph, "init", "NoOp");
    EST_TRY(est_tensor_string("/home/words.txt", 15, &path));
    node = est_graph_def_add_node(&meta->graph, "file", "Const");
    est_graph_def_set_type(node, "dtype", EST_STRING);
    est_graph_def_set_tensor(node, "value", path);
    est_tensor_free(path);
    return meta->graph.status;
}

/* The bytes of a meta graph with its asset in a collection, a message of this type. */
static est_status listed_asset(const char *type, est_wire_writer *w)
{
    est_arena         *arena   = est_arena_create();
    est_wire_writer    part[6] = { 0 }; /* each within the next */
    est_meta_graph_def meta;
    est_status status = arena != NULL ? asset_graph(&meta, arena) : est_fail(EST_RESOURCE_EXHAUSTED, "no arena");

    if (status == EST_OK) status = est_meta_graph_def_put(w, &meta);
    est_wire_put_string(&part[0], 1, "file:0");                  /* TensorInfo */
    est_wire_put_bytes(&part[1], 1, part[0].data, part[0].size); /* AssetFileDef */
    est_wire_put_string(&part[1], 2, "words.txt");
    est_wire_put_string(&part[2], 1, type); /* Any */
    est_wire_put_bytes(&part[2], 2, part[1].data, part[1].size);
    est_wire_put_bytes(&part[3], 1, part[2].data, part[2].size); /* AnyList */
    est_wire_put_bytes(&part[4], 5, part[3].data, part[3].size); /* CollectionDef */
    est_wire_put_string(&part[5], 1, "saved_model_assets");      /* an entry of the map of collections */
    est_wire_put_bytes(&part[5], 2, part[4].data, part[4].size);
    est_wire_put_bytes(w, 4, part[5].data, part[5].size);
    for (int i = 0; i < 6 && status == EST_OK; i++) status = est_wire_writer_status(&part[i]);
    if (status == EST_OK) status = est_wire_writer_status(w);
    for (int i = 0; i < 6; i++) est_wire_writer_clear(&part[i]);
    est_arena_free(arena);
    return status;
}

static void expect_path(const est_meta_graph_def *meta, const char *want)
{
    est_tensor    *value = NULL;
    const est_str *text;

    def_check(est_graph_def_get_tensor(est_graph_def_find(&meta->graph, "file"), "value", &value));
    text = est_tensor_data(value);
    assert_int_equal(text->size, strlen(want));
    assert_memory_equal(text->data, want, text->size);
    est_tensor_free(value);
}

/* As rewrite(), with assets placed in between. */
static est_status place(est_str message, est_wire_writer *w)
{
    est_arena         *arena = est_arena_create();
    est_meta_graph_def meta;
    est_status         status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = est_meta_graph_def_parse_bytes(message, arena, &meta);
    if (status == EST_OK) status = est_meta_graph_def_place_assets(&meta, "/m");
    if (status == EST_OK) status = est_meta_graph_def_put(w, &meta);
    est_arena_free(arena);
    return status;
}

TEST(assets_are_placed)
{
    est_arena         *arena = est_arena_create();
    est_wire_writer    w     = { 0 };
    est_meta_graph_def meta;

    def_check(asset_graph(&meta, arena));
    def_check(est_meta_graph_def_place_assets(&meta, "/m"));
    expect_path(&meta, "/home/words.txt"); /* it is no asset */
    def_check(est_meta_graph_def_add_asset(&meta, "file:0", "words.txt_1"));
    def_check(est_meta_graph_def_place_assets(&meta, "/m"));
    expect_path(&meta, "/m/assets/words.txt_1");

    def_check(listed_asset("type.googleapis.com/tensorflow.AssetFileDef", &w));
    def_check(est_meta_graph_def_parse_bytes(def_written(&w), arena, &meta));
    def_check(est_meta_graph_def_place_assets(&meta, "/m"));
    expect_path(&meta, "/m/assets/words.txt");
    assert_int_equal(meta.n_assets, 1);
    def_check(est_meta_graph_def_place_assets(&meta, "/other")); /* again */
    expect_path(&meta, "/other/assets/words.txt");
    def_damage(place, def_written(&w));
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

TEST(assets_without_a_constant)
{
    static const char *const wrong[] = { "init:0", "fil:0", "files:0", "" };
    est_arena               *arena   = est_arena_create();
    est_wire_writer          w       = { 0 };
    est_meta_graph_def       meta;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        def_check(asset_graph(&meta, arena));
        def_check(est_meta_graph_def_add_asset(&meta, wrong[i], "words.txt"));
        assert_int_equal(est_meta_graph_def_place_assets(&meta, "/m"), EST_INVALID_ARGUMENT);
        def_expect_message("the asset words.txt belongs to");
    }
    def_check(listed_asset("type.googleapis.com/tensorflow.Other", &w));
    def_check(est_meta_graph_def_parse_bytes(def_written(&w), arena, &meta));
    assert_int_equal(est_meta_graph_def_place_assets(&meta, "/m"), EST_INVALID_ARGUMENT);
    def_expect_message("tensorflow.Other");
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

static est_status place_once(void)
{
    est_wire_writer w = { 0 }, again = { 0 };
    est_status      status = listed_asset("type.googleapis.com/tensorflow.AssetFileDef", &w);

    if (status == EST_OK) status = place(def_written(&w), &again);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    return status;
}

static est_status build_once(void)
{
    est_arena      *arena = est_arena_create();
    est_wire_writer w = { 0 }, again = { 0 };
    est_status      status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = build(arena, &w);
    if (status == EST_OK) status = rewrite(def_written(&w), &again);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    est_arena_free(arena);
    return status;
}

TEST(memory_failures)
{
    def_fail_allocations(build_once);
    def_fail_allocations(place_once);
}
