/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors and shapes as messages: what TensorFlow wrote (tests/golden/format/tensors.pb) is read; round trips of every
 * dtype; lists shorter and longer than the tensor; tiny messages that ask for much; damage. */
#include "support/def_test.h"

#include <stdio.h>

#include "format/graph_def.h"
#include "format/tensor_proto.h"

/* --- TensorFlow's tensors ----------------------------------------------------------------------------------------- */

static double number_at(const est_tensor *tensor, int64_t i)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: return (double)((const float *)data)[i];
    case EST_F64: return ((const double *)data)[i];
    case EST_I32: return ((const int32_t *)data)[i];
    case EST_U8:
    case EST_BOOL: return ((const uint8_t *)data)[i];
    case EST_I64: return (double)((const int64_t *)data)[i];
    default: fail_msg("%s is not a number", est_dtype_name(est_tensor_dtype(tensor))); return 0;
    }
}

static void expect_numbers(const est_graph_def *graph, const char *name, est_dtype dtype, est_shape shape,
                           const double *want)
{
    est_graph_def_node *node = est_graph_def_find(graph, name);
    est_tensor         *tensor;

    assert_non_null(node);
    def_check(est_graph_def_get_tensor(node, "value", &tensor));
    assert_int_equal(est_tensor_dtype(tensor), dtype);
    assert_true(est_shape_equal(est_tensor_shape(tensor), &shape));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) assert_true(number_at(tensor, i) == want[i]);
    est_tensor_free(tensor);
}

static void expect_strings(const est_graph_def *graph, const char *name, est_shape shape, const est_str *want)
{
    est_tensor    *tensor;
    const est_str *got;

    def_check(est_graph_def_get_tensor(est_graph_def_find(graph, name), "value", &tensor));
    assert_int_equal(est_tensor_dtype(tensor), EST_STRING);
    assert_true(est_shape_equal(est_tensor_shape(tensor), &shape));
    got = est_tensor_data(tensor);
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) def_expect_bytes(got[i], want[i]);
    est_tensor_free(tensor);
}

TEST(read_tensorflow)
{
    static const struct {
        const char *name;
        est_dtype   dtype;
    } types[] = {
        { "float32", EST_F32 }, { "float64", EST_F64 }, { "int32", EST_I32 }, { "uint8", EST_U8 }, { "int64", EST_I64 }
    };
    const double  numbers[] = { 0, 1, 2, 3, 4, 250 }, fives[] = { 5, 5, 5, 5 };
    const est_str strings[] = { { "a", 1 }, { "", 0 }, { "\0\xff", 2 } };
    const est_str again[]   = { { "again", 5 }, { "again", 5 }, { "again", 5 } };
    est_arena    *arena     = est_arena_create();
    est_str       file      = def_read_file(DEF_GOLDEN "tensors.pb");
    est_graph_def graph;
    est_tensor   *tensor;
    char          name[40];

    def_check(est_graph_def_parse_bytes(file, arena, &graph));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        snprintf(name, sizeof name, "%s_content", types[i].name);
        expect_numbers(&graph, name, types[i].dtype, EST_SHAPE(2, 3), numbers);
        snprintf(name, sizeof name, "%s_values", types[i].name);
        expect_numbers(&graph, name, types[i].dtype, EST_SHAPE(2, 3), numbers);
        snprintf(name, sizeof name, "%s_fill", types[i].name);
        expect_numbers(&graph, name, types[i].dtype, EST_SHAPE(4), fives);
    }
    expect_numbers(&graph, "bool_content", EST_BOOL, EST_SHAPE(3), (const double[]){ 1, 0, 1 });
    expect_numbers(&graph, "bool_values", EST_BOOL, EST_SHAPE(3), (const double[]){ 0, 1, 1 });
    expect_strings(&graph, "string_values", EST_SHAPE(3), strings);
    expect_strings(&graph, "string_fill", EST_SHAPE(3), again);
    expect_strings(&graph, "string_empty", EST_SHAPE(0), NULL);
    expect_numbers(&graph, "empty", EST_F32, EST_SHAPE(0, 3), NULL);
    expect_numbers(&graph, "negative", EST_I32, EST_SHAPE_SCALAR, (const double[]){ -7 });
    assert_int_equal(est_graph_def_get_tensor(est_graph_def_find(&graph, "half"), "value", &tensor), EST_UNIMPLEMENTED);
    def_expect_message("DT_HALF (19)");
    def_expect_message("'half'");
    est_arena_free(arena);
    def_free_file(file);
}

/* --- round trips -------------------------------------------------------------------------------------------------- */

static est_status rewrite(est_str message, est_wire_writer *w)
{
    est_tensor *tensor;

    EST_TRY(est_tensor_proto_parse(message, &tensor));
    est_tensor_proto_put(w, tensor);
    est_tensor_free(tensor);
    return est_wire_writer_status(w);
}

static void put_tensor(est_dtype dtype, est_shape shape, const void *data, est_wire_writer *w)
{
    est_tensor *tensor;

    def_check(est_tensor_create_from(dtype, shape, data, &tensor));
    est_tensor_proto_put(w, tensor);
    def_check(est_wire_writer_status(w));
    est_tensor_free(tensor);
}

static void expect_round_trip(est_dtype dtype, est_shape shape, const void *data)
{
    est_wire_writer w = { 0 };
    est_tensor     *tensor;

    put_tensor(dtype, shape, data, &w);
    def_check(est_tensor_proto_parse(def_written(&w), &tensor));
    assert_int_equal(est_tensor_dtype(tensor), dtype);
    assert_true(est_shape_equal(est_tensor_shape(tensor), &shape));
    if (dtype == EST_STRING) {
        for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
            def_expect_bytes(((const est_str *)est_tensor_data(tensor))[i], ((const est_str *)data)[i]);
        }
    } else if (est_tensor_count(tensor) > 0) {
        assert_memory_equal(est_tensor_data(tensor), data, est_tensor_bytes(tensor));
    }
    est_tensor_free(tensor);
    def_damage(rewrite, def_written(&w));
    est_wire_writer_clear(&w);
}

TEST(round_trips)
{
    const est_str strings[] = { { "x", 1 }, { "\0\n", 2 }, { "", 0 }, { "last", 4 } };

    expect_round_trip(EST_F32, EST_SHAPE(2, 2), (const float[]){ 1, -0.0F, 3e38F, 1e-40F });
    expect_round_trip(EST_F64, EST_SHAPE(1, 1, 2), (const double[]){ 1e300, -5 });
    expect_round_trip(EST_I32, EST_SHAPE_SCALAR, (const int32_t[]){ INT32_MIN });
    expect_round_trip(EST_U8, EST_SHAPE(3), (const uint8_t[]){ 0, 128, 255 });
    expect_round_trip(EST_I64, EST_SHAPE(2), (const int64_t[]){ INT64_MIN, INT64_MAX });
    expect_round_trip(EST_BOOL, EST_SHAPE(2), (const uint8_t[]){ 1, 0 });
    expect_round_trip(EST_STRING, EST_SHAPE(2, 2), strings);
    expect_round_trip(EST_F32, EST_SHAPE(3, 0), "");
    expect_round_trip(EST_F32, EST_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), (const float[]){ 7 });
}

static void expect_shape(est_shape shape, const char *bytes, size_t size)
{
    est_wire_writer w = { 0 };
    est_wire_reader r;
    est_shape       back;

    est_shape_proto_put(&w, &shape);
    def_expect_bytes(def_written(&w), (est_str){ bytes, size });
    est_wire_reader_init(&r, "TensorShapeProto", w.data, w.size);
    def_check(est_shape_proto_parse(&r, &back));
    assert_true(est_shape_equal(&back, &shape));
    est_wire_writer_clear(&w);
}

static est_status parse_shape(const char *bytes, size_t size, est_shape *out)
{
    est_wire_reader r;

    est_wire_reader_init(&r, "TensorShapeProto", bytes, size);
    return est_shape_proto_parse(&r, out);
}

TEST(shapes)
{
    const char named[] = "\x12\x05\x08\x03\x12\x01n\x12\x00"; /* { size: 3 name: "n" } {} */
    est_shape  shape;
    char       nine[2 * 9];

    expect_shape(EST_SHAPE_SCALAR, "", 0);
    expect_shape(EST_SHAPE_UNKNOWN, "\x18\x01", 2);
    expect_shape(EST_SHAPE(-1, 0, 300),
                 "\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x00\x12\x03\x08\xac\x02", 20);
    def_check(parse_shape(named, sizeof named - 1, &shape));
    assert_true(est_shape_equal(&shape, &EST_SHAPE(3, 0)));
    for (int i = 0; i < 9; i++) memcpy(nine + 2 * i, "\x12", 2);
    def_check(parse_shape(nine, 16, &shape));
    assert_int_equal(parse_shape(nine, 18, &shape), EST_UNIMPLEMENTED);
    assert_int_equal(parse_shape("\x12\x0b\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, &shape), EST_DATA_LOSS);
}

/* --- lists of values ---------------------------------------------------------------------------------------------- */

/* A message of a dtype and a shape, to which the caller adds. */
static void begin(est_wire_writer *w, est_dtype dtype, est_shape shape)
{
    size_t mark;

    est_wire_writer_reset(w);
    est_wire_put_i64(w, 1, dtype);
    mark = est_wire_begin(w, 2);
    est_shape_proto_put(w, &shape);
    est_wire_end(w, mark);
}

static void expect_f32(const est_wire_writer *w, const float *want, int64_t n)
{
    est_tensor *tensor;

    def_check(est_tensor_proto_parse(def_written(w), &tensor));
    assert_int_equal(est_tensor_count(tensor), n);
    assert_memory_equal(est_tensor_data(tensor), want, (size_t)n * sizeof *want);
    est_tensor_free(tensor);
}

TEST(lists)
{
    est_wire_writer w = { 0 };
    est_tensor     *tensor;

    begin(&w, EST_F32, EST_SHAPE(3)); /* packed, unpacked and a list of nothing, one after the other */
    est_wire_put_f32s(&w, 5, (const float[]){ 1, 2 }, 2);
    est_wire_put_f32s(&w, 5, NULL, 0);
    est_wire_put_f32(&w, 5, 3);
    expect_f32(&w, (const float[]){ 1, 2, 3 }, 3);
    est_wire_put_f32(&w, 5, 4); /* one too many */
    expect_f32(&w, (const float[]){ 1, 2, 3 }, 3);
    begin(&w, EST_F32, EST_SHAPE(2)); /* no value at all */
    expect_f32(&w, (const float[]){ 0, 0 }, 2);
    begin(&w, EST_F32, EST_SHAPE(2)); /* a list of another type does not count */
    est_wire_put_f64(&w, 6, 9);
    expect_f32(&w, (const float[]){ 0, 0 }, 2);
    est_wire_put_bytes(&w, 4, (const float[]){ 5, 6 }, 8); /* tensor_content before lists */
    est_wire_put_f32(&w, 5, 1);
    expect_f32(&w, (const float[]){ 5, 6 }, 2);
    begin(&w, EST_BOOL, EST_SHAPE(2)); /* true is 1, whatever it was */
    est_wire_put_bytes(&w, 4, "\x00\x80", 2);
    def_check(est_tensor_proto_parse(def_written(&w), &tensor));
    assert_memory_equal(est_tensor_data(tensor), "\x00\x01", 2);
    est_tensor_free(tensor);
    begin(&w, EST_STRING, EST_SHAPE(3)); /* strings as content: lengths, then bytes */
    est_wire_put_bytes(&w, 4,
                       "\x02\x00\x01"
                       "abc",
                       6);
    def_check(est_tensor_proto_parse(def_written(&w), &tensor));
    def_expect_bytes(((const est_str *)est_tensor_data(tensor))[0], def_str("ab"));
    def_expect_bytes(((const est_str *)est_tensor_data(tensor))[1], def_str(""));
    def_expect_bytes(((const est_str *)est_tensor_data(tensor))[2], def_str("c"));
    est_tensor_free(tensor);
    def_damage(rewrite, def_written(&w));
    est_wire_writer_clear(&w);
}

/* --- refused ------------------------------------------------------------------------------------------------------ */

static void expect_refused(const est_wire_writer *w, est_status status, const char *part)
{
    est_tensor *tensor = NULL;

    assert_int_equal(est_tensor_proto_parse(def_written(w), &tensor), status);
    assert_null(tensor);
    def_expect_message(part);
}

TEST(refused)
{
    est_wire_writer w = { 0 };

    begin(&w, EST_F32, EST_SHAPE(3));
    est_wire_put_bytes(&w, 4, "12345678", 8);
    expect_refused(&w, EST_DATA_LOSS, "8 bytes, but a float32 tensor of shape [3] has 12");
    begin(&w, EST_STRING, EST_SHAPE(2));
    est_wire_put_bytes(&w, 4,
                       "\x01\x02"
                       "ab",
                       4);
    expect_refused(&w, EST_DATA_LOSS, "longer strings");
    begin(&w, EST_STRING, EST_SHAPE(2));
    est_wire_put_bytes(&w, 4,
                       "\x01\x00"
                       "ab",
                       4);
    expect_refused(&w, EST_DATA_LOSS, "shorter strings");
    begin(&w, EST_STRING, EST_SHAPE(INT64_MAX / 32));
    est_wire_put_bytes(&w, 4, "\x01", 1);
    expect_refused(&w, EST_DATA_LOSS, "more lengths");
    begin(&w, EST_F32, EST_SHAPE(-1));
    expect_refused(&w, EST_INVALID_ARGUMENT, "known shape");
    begin(&w, EST_RESOURCE, EST_SHAPE_SCALAR);
    expect_refused(&w, EST_UNIMPLEMENTED, "DT_RESOURCE (20)");
    begin(&w, (est_dtype)101, EST_SHAPE_SCALAR);
    expect_refused(&w, EST_UNIMPLEMENTED, "DT_FLOAT_REF (101)");
    begin(&w, (est_dtype)77, EST_SHAPE_SCALAR);
    expect_refused(&w, EST_UNIMPLEMENTED, "unknown (77)");
    est_wire_writer_reset(&w);
    expect_refused(&w, EST_UNIMPLEMENTED, "DT_INVALID (0)");
    est_wire_writer_clear(&w);
}

/* A few bytes ask for more than the limit: refused before memory is taken. */
TEST(limits)
{
    const int64_t   limit = (int64_t)(EST_TENSOR_PROTO_FILL_MAX / sizeof(float));
    est_wire_writer w     = { 0 };
    char            text[1024];

    begin(&w, EST_F32, EST_SHAPE(limit + 1));
    est_wire_put_f32(&w, 5, 1);
    expect_refused(&w, EST_RESOURCE_EXHAUSTED, "1073741824 bytes");
    begin(&w, EST_I64, EST_SHAPE(1 << 20, 1 << 20));
    expect_refused(&w, EST_RESOURCE_EXHAUSTED, "[1048576,1048576]");
    begin(&w, EST_I64, EST_SHAPE(INT64_MAX, 2));
    expect_refused(&w, EST_INVALID_ARGUMENT, "too large");
    begin(&w, EST_STRING, EST_SHAPE(2 << 20)); /* the pointers fit, 2 GiB of bytes do not */
    memset(text, 'x', sizeof text);
    est_wire_put_bytes(&w, 8, text, sizeof text);
    expect_refused(&w, EST_RESOURCE_EXHAUSTED, "repeats one of 1024 bytes");
    est_wire_writer_clear(&w);
}

static est_status write_and_read(void)
{
    const est_str   strings[] = { { "some", 4 }, { "text", 4 } };
    est_wire_writer w         = { 0 };
    est_tensor     *tensor;
    est_status      status = est_tensor_create_from(EST_STRING, EST_SHAPE(2), strings, &tensor);

    if (status != EST_OK) return status;
    est_tensor_proto_put(&w, tensor);
    est_tensor_free(tensor);
    status = est_wire_writer_status(&w);
    if (status == EST_OK) status = est_tensor_proto_parse(def_written(&w), &tensor);
    if (status == EST_OK) est_tensor_free(tensor);
    est_wire_writer_clear(&w);
    return status;
}

TEST(memory_failures)
{
    def_fail_allocations(write_and_read);
}

TEST(names)
{
    assert_string_equal(est_dtype_proto_name(EST_F32), "DT_FLOAT");
    assert_string_equal(est_dtype_proto_name(EST_BOOL), "DT_BOOL");
    assert_string_equal(est_dtype_proto_name(30), "DT_UINT4");
    assert_string_equal(est_dtype_proto_name(130), "DT_UINT4_REF");
    assert_null(est_dtype_proto_name(-1));
    assert_null(est_dtype_proto_name(26));
    assert_null(est_dtype_proto_name(31));
    assert_null(est_dtype_proto_name(100));
    assert_null(est_dtype_proto_name(131));
}
