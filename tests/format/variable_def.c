/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables as messages: those in the collections of TensorFlow's model, a part of a partitioned one, damage. */
#include "support/def_test.h"

#include "format/saved_model_def.h"
#include "format/variable_def.h"

static est_status rewrite(est_str message, est_wire_writer *w)
{
    est_arena       *arena = est_arena_create();
    est_variable_def def;
    est_status       status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = est_variable_def_parse(message, arena, &def);
    if (status == EST_OK) {
        est_variable_def_put(w, &def);
        status = est_wire_writer_status(w);
    }
    est_arena_free(arena);
    return status;
}

TEST(read_tensorflow)
{
    est_str                   file  = def_read_file(DEF_GOLDEN "saved_model_v1.pb");
    est_arena                *arena = est_arena_create();
    est_wire_writer           w     = { 0 };
    const est_collection_def *variables;
    est_saved_model_def       model;
    est_variable_def          def;

    def_check(est_saved_model_def_parse(file, arena, &model));
    variables = est_meta_graph_def_collection(model.meta_graphs[0], "variables");
    assert_non_null(variables);
    assert_int_equal(variables->kind, EST_COLLECTION_BYTES);
    assert_int_equal(variables->n, 1);
    def_check(est_variable_def_parse(variables->bytes[0], arena, &def));
    assert_string_equal(def.variable_name, "w:0");
    assert_string_equal(def.initializer_name, "w/Assign");
    assert_string_equal(def.snapshot_name, "w/Read/ReadVariableOp:0");
    assert_string_equal(def.initial_value_name, "w/Initializer/zeros:0");
    assert_true(def.is_resource && def.trainable);
    assert_string_equal(def.full_name, "");
    est_variable_def_put(&w, &def);
    def_expect_bytes(def_written(&w), variables->bytes[0]);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    def_free_file(file);
}

static void put_part(est_wire_writer *w)
{
    const est_variable_def part = {
        .variable_name   = "p/part_1:0",
        .synchronization = 2,
        .aggregation     = 3,
        .full_name       = "p",
        .full_shape      = EST_SHAPE(10, 4),
        .offset          = EST_SHAPE(5, 0),
        .shape           = EST_SHAPE(5, 4),
    };

    est_variable_def_put(w, &part);
}

TEST(part)
{
    est_arena       *arena = est_arena_create();
    est_wire_writer  w     = { 0 };
    est_variable_def def;

    put_part(&w);
    def_check(est_wire_writer_status(&w));
    def_check(est_variable_def_parse(def_written(&w), arena, &def));
    assert_string_equal(def.full_name, "p");
    assert_string_equal(def.snapshot_name, "");
    assert_true(est_shape_equal(&def.full_shape, &EST_SHAPE(10, 4)));
    assert_true(est_shape_equal(&def.offset, &EST_SHAPE(5, 0)));
    assert_true(est_shape_equal(&def.shape, &EST_SHAPE(5, 4)));
    assert_int_equal(def.synchronization, 2);
    assert_int_equal(def.aggregation, 3);
    assert_false(def.is_resource || def.trainable);
    def_damage(rewrite, def_written(&w));
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

TEST(refused)
{
    est_arena       *arena = est_arena_create();
    est_variable_def def;

    assert_int_equal(est_variable_def_parse((est_str){ "\x22\x05\x12\x01\x05\x1a\x00", 7 }, arena, &def),
                     EST_DATA_LOSS); /* one axis, but no offset */
    assert_int_equal(est_variable_def_parse((est_str){ "\x22\x0b\x12\x09\1\1\1\1\1\1\1\1\1", 13 }, arena, &def),
                     EST_UNIMPLEMENTED); /* nine axes */
    est_arena_free(arena);
}

static est_status write_and_read(void)
{
    est_wire_writer w = { 0 }, again = { 0 };
    est_status      status;

    put_part(&w);
    status = est_wire_writer_status(&w);
    if (status == EST_OK) status = rewrite(def_written(&w), &again);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    return status;
}

TEST(memory_failures)
{
    def_fail_allocations(write_and_read);
}
