/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved models: those of TensorFlow, made by the builder of version 1 and by tf.saved_model.save, read and written
 * again byte by byte; tags; damage. */
#include "support/def_test.h"

#include "format/saved_model_def.h"

static est_status rewrite(est_str message, est_wire_writer *w)
{
    est_arena          *arena = est_arena_create();
    est_saved_model_def model;
    est_status          status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = est_saved_model_def_parse(message, arena, &model);
    if (status == EST_OK) status = est_saved_model_def_put(w, &model);
    est_arena_free(arena);
    return status;
}

static void expect_v1_signature(const est_meta_graph_def *meta)
{
    const est_signature_def *signature = est_meta_graph_def_signature(meta, "serving_default");
    const est_tensor_info   *info;

    assert_int_equal(meta->n_signatures, 2);
    assert_string_equal(signature->method_name, "tensorflow/serving/predict");
    info = est_tensor_infos_find(&signature->inputs, "x");
    assert_int_equal(info->kind, EST_TENSOR_INFO_NAME);
    assert_string_equal(info->name, "x:0");
    assert_int_equal(info->dtype, EST_F32);
    assert_true(info->has_shape && est_shape_equal(&info->shape, &EST_SHAPE(-1, 2)));
    info = est_tensor_infos_find(&signature->inputs, "ids");
    assert_int_equal(info->kind, EST_TENSOR_INFO_SPARSE);
    assert_string_equal(info->name, "ids/values:0");
    assert_string_equal(info->indices, "ids/indices:0");
    assert_int_equal(info->dtype, EST_I64);
    assert_string_equal(est_tensor_infos_find(&signature->outputs, "y")->name, "y:0");
}

TEST(version_1)
{
    est_str                   file  = def_read_file(DEF_GOLDEN "saved_model_v1.pb");
    est_arena                *arena = est_arena_create();
    est_wire_writer           w     = { 0 };
    const est_collection_def *collection;
    est_meta_graph_def       *meta;
    est_saved_model_def       model;

    def_check(est_saved_model_def_parse(file, arena, &model));
    assert_int_equal(model.schema_version, 1);
    assert_int_equal(model.n_meta_graphs, 2);
    def_check(est_saved_model_def_find(&model, (const char *[]){ "serve" }, 1, &meta));
    assert_ptr_equal(meta, model.meta_graphs[0]);
    def_check(est_saved_model_def_find(&model, (const char *[]){ "gpu", "serve" }, 2, &meta));
    assert_ptr_equal(meta, model.meta_graphs[1]);
    assert_int_equal(est_saved_model_def_find(&model, (const char *[]){ "train" }, 1, &meta), EST_NOT_FOUND);
    def_expect_message("{train}; it has {serve}, {serve, gpu}");
    meta = model.meta_graphs[0];
    assert_string_equal(meta->tensorflow_version, "2.15.1");
    assert_true(meta->stripped_default_attrs);
    assert_true(meta->stripped_op_list.size > 0);
    assert_string_equal(est_graph_def_find(&meta->graph, "y")->op, "MatMul");
    assert_string_equal(meta->saver->restore_op_name, "save/restore_all");
    assert_int_equal(meta->n_assets, 0); /* version 1 has them in a collection */
    collection = est_meta_graph_def_collection(meta, "an_int");
    assert_true(collection->kind == EST_COLLECTION_INTS && collection->ints[0] == 42);
    collection = est_meta_graph_def_collection(meta, "floats");
    assert_true(collection->kind == EST_COLLECTION_FLOATS && collection->floats[0] == 0.5F);
    collection = est_meta_graph_def_collection(meta, "saved_model_assets");
    assert_int_equal(collection->kind, EST_COLLECTION_ANY);
    collection = est_meta_graph_def_collection(meta, "table_initializer");
    assert_int_equal(collection->kind, EST_COLLECTION_NODES);
    expect_v1_signature(meta);
    assert_int_equal(meta->object_graph.size, 0);
    def_check(est_saved_model_def_put(&w, &model));
    def_expect_bytes(def_written(&w), file);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    def_free_file(file);
}

TEST(version_2)
{
    est_str             file  = def_read_file(DEF_GOLDEN "saved_model_v2.pb");
    est_arena          *arena = est_arena_create();
    est_wire_writer     w     = { 0 };
    est_saved_model_def model;
    est_meta_graph_def *meta;
    est_function_cursor cursor;
    est_function_view   function;
    est_graph_def       nodes;
    bool                found;
    int                 n = 0;

    def_check(est_saved_model_def_parse(file, arena, &model));
    def_check(est_saved_model_def_find(&model, (const char *[]){ "serve" }, 1, &meta));
    assert_true(meta->object_graph.size > 0);
    assert_non_null(est_tensor_infos_find(&est_meta_graph_def_signature(meta, "serving_default")->inputs, "x"));
    est_function_cursor_init(&cursor, meta->graph.library);
    for (;;) {
        def_check(est_function_cursor_next(&cursor, &found, &function));
        if (!found) break;
        def_check(est_function_parse_nodes(&function, arena, &nodes));
        assert_int_equal(nodes.n_nodes, function.n_nodes);
        assert_true(function.name.size > 0 && nodes.n_nodes > 0);
        n++;
    }
    assert_true(n >= 3); /* the call, its signature, saving, restoring */
    def_check(est_saved_model_def_put(&w, &model));
    def_expect_bytes(def_written(&w), file);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    def_free_file(file);
}

static est_status build_once(void)
{
    est_arena          *arena = est_arena_create();
    est_wire_writer     w = { 0 }, again = { 0 };
    est_saved_model_def model;
    est_meta_graph_def *meta;
    est_status          status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    est_saved_model_def_init(&model, arena);
    status = est_saved_model_def_add(&model, &meta);
    if (status == EST_OK) status = est_meta_graph_def_add_tag(meta, "serve");
    if (status == EST_OK) status = est_saved_model_def_put(&w, &model);
    if (status == EST_OK) status = rewrite(def_written(&w), &again);
    if (status == EST_OK) status = est_saved_model_def_find(&model, NULL, 0, &meta);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    est_arena_free(arena);
    return status == EST_NOT_FOUND ? EST_OK : status;
}

TEST(empty)
{
    est_arena          *arena = est_arena_create();
    est_saved_model_def model;
    est_meta_graph_def *meta;

    def_check(est_saved_model_def_parse((est_str){ "", 0 }, arena, &model));
    assert_int_equal(model.schema_version, 0);
    assert_int_equal(est_saved_model_def_find(&model, (const char *[]){ "serve" }, 1, &meta), EST_NOT_FOUND);
    def_expect_message("{serve}; it has none");
    est_arena_free(arena);
}

/* One bit of every byte: all of them would take long. */
TEST(damage)
{
    est_str file = def_read_file(DEF_GOLDEN "saved_model_v1.pb");

    for (size_t n = 0; n < file.size; n++) def_expect_stable(rewrite, (est_str){ file.data, n });
    for (size_t i = 0; i < file.size; i++) {
        char *copy = est_alloc(file.size);

        memcpy(copy, file.data, file.size);
        copy[i] = (char)(copy[i] ^ 1 << i % 8);
        def_expect_stable(rewrite, (est_str){ copy, file.size });
        est_free(copy);
    }
    def_free_file(file);
}

TEST(memory_failures)
{
    def_fail_allocations(build_once);
}
