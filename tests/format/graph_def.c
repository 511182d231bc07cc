/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as messages (graph_def.c and def.c): the graph of TensorFlow read and written again; a graph built here, with
 * every kind of attribute, byte by byte and round trip; functions; errors that name node and attribute; damage. */
#include "support/def_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/graph_def.h"
#include "format/tensor_proto.h"

static est_status rewrite(est_str message, est_wire_writer *w)
{
    est_arena    *arena = est_arena_create();
    est_graph_def graph;
    est_status    status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = est_graph_def_parse_bytes(message, arena, &graph);
    if (status == EST_OK) status = est_graph_def_put(w, &graph);
    est_arena_free(arena);
    return status;
}

static const est_def_value *attr(const est_graph_def_node *node, const char *name, est_def_kind kind)
{
    const est_def_value *value;

    def_check(est_graph_def_get(node, name, kind, &value));
    return value;
}

static const est_def_value *list(const est_graph_def_node *node, const char *name, est_def_kind kind, int n)
{
    const est_def_value *value = attr(node, name, EST_DEF_LIST);

    assert_int_equal(value->n, n);
    for (int i = 0; i < n; i++) assert_int_equal(value->items[i].kind, kind);
    return value;
}

static void expect_inputs(const est_graph_def_node *node, int n, const char *const *want)
{
    assert_int_equal(node->inputs.n, n);
    for (int i = 0; i < n; i++) assert_string_equal(node->inputs.items[i], want[i]);
}

/* --- TensorFlow's graph ------------------------------------------------------------------------------------------- */

static void expect_functions(est_str library, est_arena *arena)
{
    est_function_cursor cursor;
    est_function_view   function, none;
    est_graph_def       nodes;
    bool                found;

    est_function_cursor_init(&cursor, library);
    def_check(est_function_cursor_next(&cursor, &found, &function));
    assert_true(found);
    assert_memory_equal(function.name.data, "__inference_", 12);
    assert_int_equal(function.n_nodes, 3);
    def_check(est_function_parse_nodes(&function, arena, &nodes));
    assert_int_equal(nodes.n_nodes, 3);
    assert_non_null(est_graph_def_find(&nodes, "mul/y"));
    expect_inputs(est_graph_def_find(&nodes, "mul"), 2, (const char *[]){ "v", "mul/y:output:0" });
    def_check(est_function_cursor_next(&cursor, &found, &none));
    assert_false(found);
}

static void expect_odd_attrs(const est_graph_def_node *call)
{
    const est_def_value *value;

    value = attr(call, "_bytes", EST_DEF_S);
    def_expect_bytes(value->s, (est_str){ "\0\xff\"\\'\n\t\r end \xc3\xbc", 15 });
    value = list(call, "_floats", EST_DEF_F, 15);
    assert_true(value->items[2].f == 0.1F && value->items[9].f == 3.4028235e38F);
    value = list(call, "_bools", EST_DEF_B, 2);
    assert_true(value->items[0].b && !value->items[1].b);
    list(call, "_empty", EST_DEF_NONE, 0);
    def_expect_bytes(attr(call, "_placeholder", EST_DEF_PLACEHOLDER)->s, def_str("T"));
    value = list(call, "_shapes", EST_DEF_SHAPE, 3);
    assert_int_equal(value->items[0].shape->rank, -1);
    assert_int_equal(value->items[1].shape->rank, 0);
    assert_true(est_shape_equal(value->items[2].shape, &EST_SHAPE(-1, 5)));
    list(call, "_tensors", EST_DEF_TENSOR, 2);
    value = list(call, "_funcs", EST_DEF_FUNC, 2);
    assert_string_equal(value->items[0].func->name, "f");
    assert_int_equal(est_def_attrs_find(&value->items[0].func->attrs, "N")->i, -3);
    assert_string_equal(est_def_attrs_find(&value->items[0].func->attrs, "g")->func->name, "inner");
    assert_string_equal(value->items[1].func->name, "h");
    assert_memory_equal(attr(call, "f", EST_DEF_FUNC)->func->name, "__inference_", 12);
    assert_int_equal(list(call, "Tout", EST_DEF_TYPE, 1)->items[0].type, EST_F32);
}

TEST(read_tensorflow)
{
    est_str              file  = def_read_file(DEF_GOLDEN "graph.pb");
    est_arena           *arena = est_arena_create();
    const est_def_value *value;
    est_graph_def        graph;
    est_graph_def_node  *node;
    est_tensor          *tensor;

    def_check(est_graph_def_parse_bytes(file, arena, &graph));
    assert_int_equal(graph.producer, 1645);
    assert_int_equal(graph.min_consumer, 12);
    node = est_graph_def_find(&graph, "x");
    assert_string_equal(node->op, "Placeholder");
    assert_true(est_shape_equal(attr(node, "shape", EST_DEF_SHAPE)->shape, &EST_SHAPE(-1, 3)));
    node = est_graph_def_find(&graph, "w");
    assert_string_equal(node->op, "VarHandleOp");
    def_expect_bytes(attr(node, "shared_name", EST_DEF_S)->s, def_str("w"));
    node = est_graph_def_find(&graph, "w/Initializer/initial_value");
    def_check(est_graph_def_get_tensor(node, "value", &tensor));
    assert_true(est_shape_equal(est_tensor_shape(tensor), &EST_SHAPE(3, 2)));
    assert_true(((const float *)est_tensor_data(tensor))[5] == 6.5F);
    est_tensor_free(tensor);
    assert_string_equal(est_graph_def_find(&graph, "Read/ReadVariableOp")->device, "/job:ps/task:1");
    node = est_graph_def_find(&graph, "y");
    expect_inputs(node, 2, (const char *[]){ "x", "Identity" });
    assert_int_equal(attr(node, "T", EST_DEF_TYPE)->type, EST_F32);
    assert_false(attr(node, "transpose_a", EST_DEF_B)->b);
    expect_inputs(est_graph_def_find(&graph, "done"), 2, (const char *[]){ "^w/Assign", "^y" });
    value = list(est_graph_def_find(&graph, "conv"), "strides", EST_DEF_I, 4);
    assert_true(value->items[0].i == 1 && value->items[1].i == 2);
    assert_true(attr(est_graph_def_find(&graph, "leaky"), "alpha", EST_DEF_F)->f == 0.1F);
    expect_odd_attrs(est_graph_def_find(&graph, "PartitionedCall"));
    expect_functions(graph.library, arena);
    est_arena_free(arena);
    def_free_file(file);
}

/* TensorFlow's order of map entries is another one, so only a second writing has the same bytes. */
TEST(write_tensorflow_again)
{
    est_str         file = def_read_file(DEF_GOLDEN "graph.pb");
    est_wire_writer once = { 0 }, twice = { 0 };

    def_check(rewrite(file, &once));
    assert_int_equal(once.size, file.size);
    def_check(rewrite(def_written(&once), &twice));
    def_expect_bytes(def_written(&twice), def_written(&once));
    est_wire_writer_clear(&once);
    est_wire_writer_clear(&twice);
    def_free_file(file);
    file = def_read_file(DEF_GOLDEN "tensors.pb"); /* one or two attributes a node: TensorFlow's bytes */
    def_check(rewrite(file, &once));
    def_expect_bytes(def_written(&once), file);
    est_wire_writer_clear(&once);
    def_free_file(file);
}

/* --- a graph of our own ------------------------------------------------------------------------------------------- */

static est_status build(est_arena *arena, const est_tensor *tensor, est_wire_writer *w)
{
    const est_str       strings[] = { { "loc:@w", 6 }, { "", 0 } };
    const est_shape     shapes[]  = { EST_SHAPE(-1, 2), EST_SHAPE_UNKNOWN };
    est_def_func        func      = { .name = "f" };
    est_graph_def       graph;
    est_graph_def_node *node;

    est_graph_def_init(&graph, arena);
    node = est_graph_def_add_node(&graph, "all", "Op");
    est_graph_def_add_input(node, "a:1");
    est_graph_def_add_input(node, "^b");
    est_graph_def_set_device(node, "/device:CPU:0");
    est_graph_def_set_type_list(node, "types", (const est_dtype[]){ EST_F32, EST_STRING }, 2); /* sorted when written */
    est_graph_def_set_i(node, "i", -1);
    est_graph_def_set_i(node, "zero", 1);
    est_graph_def_set_i(node, "zero", 0); /* set again */
    est_graph_def_set_f(node, "f", 0);
    est_graph_def_set_b(node, "b", false);
    est_graph_def_set_s(node, "s", "");
    est_graph_def_set_type(node, "T", EST_I64);
    est_graph_def_set_shape(node, "shape", &shapes[0]);
    est_graph_def_set_tensor(node, "tensor", tensor);
    est_graph_def_set_i_list(node, "is", (const int64_t[]){ 1, -1, 300 }, 3);
    est_graph_def_set_i_list(node, "none", NULL, 0);
    est_graph_def_set_f_list(node, "fs", (const float[]){ 0.5F, -1 }, 2);
    est_graph_def_set_s_list(node, "_class", strings, 2);
    est_graph_def_set_shape_list(node, "shapes", shapes, 2);
    est_graph_def_set(node, "func", &(est_def_value){ .kind = EST_DEF_FUNC, .func = &func });
    est_graph_def_add_node(&graph, "b", "NoOp");
    return est_graph_def_put(w, &graph);
}

static est_status build_once(void)
{
    est_arena      *arena = est_arena_create();
    est_wire_writer w = { 0 }, again = { 0 };
    est_tensor     *tensor = NULL;
    est_status      status;

    if (arena == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for an arena");
    status = est_tensor_f32(EST_SHAPE(1), (const float[]){ 2 }, &tensor);
    if (status == EST_OK) status = build(arena, tensor, &w);
    if (status == EST_OK) status = rewrite(def_written(&w), &again);
    est_tensor_free(tensor);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    est_arena_free(arena);
    return status;
}

TEST(build)
{
    est_arena          *arena = est_arena_create();
    est_wire_writer     w = { 0 }, again = { 0 };
    est_tensor         *tensor;
    est_graph_def       graph;
    est_graph_def_node *node;

    def_check(est_tensor_f32(EST_SHAPE(1), (const float[]){ 2 }, &tensor));
    def_check(build(arena, tensor, &w));
    est_tensor_free(tensor);
    def_check(est_graph_def_parse_bytes(def_written(&w), arena, &graph));
    assert_int_equal(graph.n_nodes, 2);
    assert_int_equal(graph.producer, EST_GRAPH_DEF_PRODUCER);
    node = graph.nodes[0];
    assert_string_equal(node->device, "/device:CPU:0");
    expect_inputs(node, 2, (const char *[]){ "a:1", "^b" });
    for (int i = 1; i < node->attrs.n; i++) {
        assert_true(strcmp(node->attrs.items[i - 1].name, node->attrs.items[i].name) < 0);
    }
    assert_int_equal(node->attrs.n, 15);
    assert_int_equal(attr(node, "i", EST_DEF_I)->i, -1);
    assert_int_equal(attr(node, "zero", EST_DEF_I)->i, 0); /* there although it is 0 */
    assert_true(attr(node, "f", EST_DEF_F)->f == 0);
    assert_false(attr(node, "b", EST_DEF_B)->b);
    assert_int_equal(attr(node, "s", EST_DEF_S)->s.size, 0);
    assert_int_equal(attr(node, "T", EST_DEF_TYPE)->type, EST_I64);
    assert_int_equal(list(node, "is", EST_DEF_I, 3)->items[2].i, 300);
    assert_true(list(node, "fs", EST_DEF_F, 2)->items[0].f == 0.5F);
    list(node, "none", EST_DEF_NONE, 0);
    def_expect_bytes(list(node, "_class", EST_DEF_S, 2)->items[0].s, def_str("loc:@w"));
    assert_int_equal(list(node, "types", EST_DEF_TYPE, 2)->items[1].type, EST_STRING);
    assert_int_equal(list(node, "shapes", EST_DEF_SHAPE, 2)->items[1].shape->rank, -1);
    assert_string_equal(attr(node, "func", EST_DEF_FUNC)->func->name, "f");
    def_check(est_graph_def_get_tensor(node, "tensor", &tensor));
    assert_true(*(const float *)est_tensor_data(tensor) == 2);
    est_tensor_free(tensor);
    def_check(est_graph_def_put(&again, &graph));
    def_expect_bytes(def_written(&again), def_written(&w));
    def_damage(rewrite, def_written(&w));
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&again);
    est_arena_free(arena);
}

/* The bytes of a small graph, worked out by hand from the rules of protobuf. */
TEST(bytes)
{
    static const char want[] = "\x0a\x18"                         /* node, 24 bytes */
                               "\x0a\x01n\x12\x04NoOp"            /* name, op */
                               "\x1a\x02^m"                       /* input */
                               "*\x09\x0a\x03num\x12\x02\x18\x00" /* attr num: i 0 */
                               "\x22\x03\x08\x86\x01";            /* versions: producer 134 */
    est_arena          *arena = est_arena_create();
    est_wire_writer     w     = { 0 };
    est_graph_def       graph;
    est_graph_def_node *node;

    est_graph_def_init(&graph, arena);
    node = est_graph_def_add_node(&graph, "n", "NoOp");
    est_graph_def_add_input(node, "^m");
    est_graph_def_set_i(node, "num", 0);
    def_check(est_graph_def_put(&w, &graph));
    def_expect_bytes(def_written(&w), (est_str){ want, sizeof want - 1 });
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* A graph with one node, called "bad", and one attribute "a" with these bytes as its value. */
static void put_bad(est_wire_writer *w, const void *value, size_t size)
{
    size_t node, entry;

    est_wire_writer_reset(w);
    node = est_wire_begin(w, 1);
    est_wire_put_string(w, 1, "bad");
    est_wire_put_string(w, 2, "Op");
    entry = est_wire_begin(w, 5);
    est_wire_put_string(w, 1, "a");
    est_wire_put_bytes(w, 2, value, size);
    est_wire_end(w, entry);
    est_wire_end(w, node);
}

static void expect_refused(est_wire_writer *w, est_status status, const char *part)
{
    est_wire_writer out = { 0 };

    assert_int_equal(rewrite(def_written(w), &out), status);
    def_expect_message("node 0 'bad' (Op)");
    def_expect_message("attribute 'a'");
    def_expect_message(part);
    est_wire_writer_clear(&out);
}

TEST(errors)
{
    est_arena           *arena = est_arena_create();
    est_wire_writer      w = { 0 }, value = { 0 };
    est_graph_def        graph;
    const est_def_value *found;
    est_tensor          *tensor;

    put_bad(&w, "\x1d\x00\x00", 3); /* i with a wire type that is cut */
    expect_refused(&w, EST_DATA_LOSS, "AttrValue");
    put_bad(&w, "\x1a\x00", 2); /* i as bytes */
    expect_refused(&w, EST_DATA_LOSS, "AttrValue");
    put_bad(&w, "\x0a\x04\x1a\x01\x01\x12\x00", 7); /* a list of an int and a string; its length is cut too */
    expect_refused(&w, EST_DATA_LOSS, "ListValue");
    put_bad(&w, "\x0a\x05\x1a\x01\x01\x12\x00", 7);
    expect_refused(&w, EST_DATA_LOSS, "a list with a string after a int");
    for (int i = 0; i < 9; i++) est_wire_put_raw(&value, "\x12\x00", 2);
    put_bad(&w, "\x3a\x12\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00", 20);
    expect_refused(&w, EST_UNIMPLEMENTED, "more than 8 axes");
    put_bad(&w, "\x18\x05", 2);
    def_check(est_graph_def_parse_bytes(def_written(&w), arena, &graph));
    assert_int_equal(est_graph_def_get(graph.nodes[0], "a", EST_DEF_S, &found), EST_INVALID_ARGUMENT);
    def_expect_message("node 'bad' (Op): attribute 'a' has the kind int, expected string");
    assert_int_equal(est_graph_def_get_tensor(graph.nodes[0], "b", &tensor), EST_INVALID_ARGUMENT);
    def_expect_message("node 'bad' (Op) has no attribute 'b'");
    est_wire_writer_reset(&w);
    est_wire_put_bytes(&w, 1,
                       "\x0a\x03"
                       "a\0b",
                       5); /* a name with a 0 inside */
    assert_int_equal(est_graph_def_parse_bytes(def_written(&w), arena, &graph), EST_DATA_LOSS);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&value);
    est_arena_free(arena);
}

/* Functions in functions: as deep as allowed, and one deeper. */
TEST(depth)
{
    est_wire_writer inner = { 0 }, outer = { 0 }, w = { 0 }, out = { 0 };

    for (int depth = 1; depth <= EST_DEF_DEPTH_MAX + 1; depth++) {
        size_t func, entry;

        est_wire_writer_reset(&outer);
        func  = est_wire_begin(&outer, EST_DEF_FUNC);
        entry = est_wire_begin(&outer, 2);
        est_wire_put_string(&outer, 1, "g");
        est_wire_put_bytes(&outer, 2, inner.data, inner.size);
        est_wire_end(&outer, entry);
        est_wire_end(&outer, func);
        put_bad(&w, outer.data, outer.size);
        if (depth <= EST_DEF_DEPTH_MAX) {
            def_check(rewrite(def_written(&w), &out));
        } else {
            expect_refused(&w, EST_DATA_LOSS, "more than 32 deep");
        }
        est_wire_writer_reset(&inner);
        est_wire_put_raw(&inner, outer.data, outer.size);
    }
    est_wire_writer_clear(&inner);
    est_wire_writer_clear(&outer);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&out);
}

/* Legal forms that no writer makes: the value before the key, a key twice, unpacked lists, members of a oneof twice. */
TEST(unusual)
{
    est_arena      *arena = est_arena_create();
    est_wire_writer w     = { 0 };
    est_graph_def   graph;
    size_t          node;

    node = est_wire_begin(&w, 1);
    est_wire_put_bytes(&w, 5, "\x12\x02\x18\x05\x0a\x01k", 7);
    est_wire_put_bytes(&w, 5, "\x0a\x01k\x12\x02\x18\x06", 7);
    est_wire_put_bytes(&w, 5, "\x0a\x01l\x12\x06\x0a\x04\x18\x01\x18\x02", 11);
    est_wire_put_bytes(&w, 5, "\x0a\x01o\x12\x04\x18\x01\x28\x01", 9);
    est_wire_put_bytes(&w, 5, "\x0a\x01v", 3);        /* no value */
    est_wire_put_bytes(&w, 5, "\x12\x02\x18\x07", 4); /* no key */
    est_wire_put_bytes(&w, 1, "late", 4);
    est_wire_end(&w, node);
    est_wire_put_i64(&w, 3, 9); /* the version of old graphs */
    def_check(est_graph_def_parse_bytes(def_written(&w), arena, &graph));
    assert_string_equal(graph.nodes[0]->name, "late");
    assert_int_equal(attr(graph.nodes[0], "k", EST_DEF_I)->i, 6);
    assert_int_equal(list(graph.nodes[0], "l", EST_DEF_I, 2)->items[1].i, 2);
    assert_true(attr(graph.nodes[0], "o", EST_DEF_B)->b);
    attr(graph.nodes[0], "v", EST_DEF_NONE);
    assert_int_equal(attr(graph.nodes[0], "", EST_DEF_I)->i, 7);
    assert_int_equal(graph.producer, 9);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

TEST(damage)
{
    est_str file = def_read_file(DEF_GOLDEN "graph.pb");

    def_damage(rewrite, file);
    def_free_file(file);
}

/* A library in very many pieces costs a few times its size, not the square of it. */
TEST(many_pieces)
{
    const int       n     = 20000;
    est_arena      *arena = est_arena_create();
    est_wire_writer w     = { 0 };
    est_graph_def   graph;

    for (int i = 0; i < n; i++) est_wire_put_bytes(&w, 2, "\x0a\x00", 2); /* an empty function */
    for (int i = 0; i < n; i++) est_wire_put_bytes(&w, 2, "", 0);
    def_check(est_graph_def_parse_bytes(def_written(&w), arena, &graph));
    assert_int_equal(graph.library.size, 2 * n);
    for (int i = 0; i < n; i++) assert_memory_equal(graph.library.data + 2 * i, "\x0a\x00", 2);
    assert_true(est_arena_bytes(arena) < 8 * w.size);
    est_arena_free(arena);
    est_wire_writer_clear(&w);
}

TEST(memory_failures)
{
    def_fail_allocations(build_once);
}
