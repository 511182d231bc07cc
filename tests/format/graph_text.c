/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as text: the same text as Google's printer makes of TensorFlow's graph and meta graph; escapes and numbers;
 * damage. */
#include "support/def_test.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/graph_text.h"
#include "format/saved_model_def.h"
#include "support/locale_test.h"

static void expect_text(const est_strbuf *text, est_str want)
{
    const char *got  = est_strbuf_text(text);
    size_t      line = 1;

    for (size_t i = 0; i < want.size && i < text->size; i++) {
        if (got[i] != want.data[i]) fail_msg("line %zu differs: '%.40s', want '%.40s'", line, got + i, want.data + i);
        line += got[i] == '\n';
    }
    assert_int_equal(text->size, want.size);
}

TEST(graph)
{
    est_str    graph = def_read_file(DEF_GOLDEN "graph.pb"), want = def_read_file(DEF_GOLDEN "graph.pbtxt");
    est_strbuf text = { 0 };

    def_check(est_graph_def_text(graph, &text));
    expect_text(&text, want);
    est_strbuf_clear(&text);
    def_free_file(graph);
    def_free_file(want);
}

/* What we write of what we read is the same graph: it prints the same. */
TEST(graph_written)
{
    est_str         file = def_read_file(DEF_GOLDEN "graph.pb"), want = def_read_file(DEF_GOLDEN "graph.pbtxt");
    est_arena      *arena = est_arena_create();
    est_wire_writer w     = { 0 };
    est_strbuf      text  = { 0 };
    est_graph_def   graph;

    def_check(est_graph_def_parse_bytes(file, arena, &graph));
    def_check(est_graph_def_put(&w, &graph));
    def_check(est_graph_def_text(def_written(&w), &text));
    expect_text(&text, want);
    est_strbuf_clear(&text);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    def_free_file(file);
    def_free_file(want);
}

TEST(meta_graph)
{
    est_str file = def_read_file(DEF_GOLDEN "saved_model_v1.pb"), want = def_read_file(DEF_GOLDEN "meta_graph.pbtxt");
    est_arena          *arena = est_arena_create();
    est_wire_writer     w     = { 0 };
    est_strbuf          text  = { 0 };
    est_saved_model_def model;

    def_check(est_saved_model_def_parse(file, arena, &model));
    def_check(est_meta_graph_def_put(&w, model.meta_graphs[1]));
    def_check(est_meta_graph_def_text(def_written(&w), &text));
    expect_text(&text, want);
    est_strbuf_clear(&text);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
    def_free_file(file);
    def_free_file(want);
}

TEST(saved_model)
{
    est_str    file = def_read_file(DEF_GOLDEN "saved_model_v2.pb");
    est_strbuf text = { 0 };

    def_check(est_saved_model_text(file, &text));
    assert_non_null(
        strstr(est_strbuf_text(&text), "saved_model_schema_version: 1\nmeta_graphs {\n  meta_info_def {\n"));
    assert_non_null(strstr(est_strbuf_text(&text), "  # object_graph_def: "));
    assert_non_null(strstr(est_strbuf_text(&text), "    library {\n      function {\n        signature {\n"));
    est_strbuf_clear(&text);
    def_free_file(file);
}

/* A node whose attribute is this double in a TensorProto; its text. */
static void expect_double(double value, const char *want)
{
    est_wire_writer w    = { 0 };
    est_strbuf      text = { 0 };
    size_t          node = est_wire_begin(&w, 1), entry = est_wire_begin(&w, 5), attr, tensor;
    const char     *at;

    est_wire_put_string(&w, 1, "v");
    attr   = est_wire_begin(&w, 2);
    tensor = est_wire_begin(&w, 8);
    est_wire_put_f64(&w, 6, value);
    est_wire_end(&w, tensor);
    est_wire_end(&w, attr);
    est_wire_end(&w, entry);
    est_wire_end(&w, node);
    def_check(est_graph_def_text(def_written(&w), &text));
    at = strstr(est_strbuf_text(&text), "double_val: ");
    assert_non_null(at);
    assert_memory_equal(at + 12, want, strlen(want));
    assert_int_equal(at[12 + strlen(want)], '\n');
    est_strbuf_clear(&text);
    est_wire_writer_clear(&w);
}

/* As Python prints them. */
TEST(doubles)
{
    expect_double(0.1, "0.1");
    expect_double(-2, "-2.0");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(0.1 + 0.2, "0.30000000000000004");
    expect_double(1e22, "1e+22");
    expect_double(1e15, "1000000000000000.0");
    expect_double(123456789012345680.0, "1.2345678901234568e+17");
    expect_double(1e-4, "0.0001");
    expect_double(1.5e-5, "1.5e-05");
    expect_double(5e-324, "5e-324");
    expect_double(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_double(-0.0, "-0.0");
}

/* Keys twice, keys out of order, a message deeper than any reader takes. */
TEST(unusual)
{
    est_wire_writer w = { 0 }, inner = { 0 };
    est_strbuf      text = { 0 };
    size_t          node = est_wire_begin(&w, 1);

    est_wire_put_bytes(&w, 5, "\x0a\x01k\x12\x02\x18\x05", 7);
    est_wire_put_bytes(&w, 5,
                       "\x0a\x01"
                       "c\x12\x02\x28\x00",
                       7);
    est_wire_put_bytes(&w, 5, "\x0a\x01k\x12\x02\x30\x63", 7); /* type: 99 */
    est_wire_put_i64(&w, 77, 5);                               /* unknown */
    est_wire_end(&w, node);
    def_check(est_graph_def_text(def_written(&w), &text));
    assert_string_equal(est_strbuf_text(&text),
                        "node {\n  attr {\n    key: \"c\"\n    value {\n      b: false\n    }\n  }\n"
                        "  attr {\n    key: \"k\"\n    value {\n      type: 99\n    }\n  }\n}\n");
    for (int i = 0; i < EST_GRAPH_TEXT_DEPTH_MAX; i++) { /* full types in full types */
        est_wire_writer_reset(&w);
        est_wire_put_bytes(&w, 2, inner.data, inner.size);
        est_wire_writer_reset(&inner);
        est_wire_put_raw(&inner, w.data, w.size);
    }
    est_wire_writer_reset(&w);
    node = est_wire_begin(&w, 1);
    est_wire_put_bytes(&w, 7, inner.data, inner.size);
    est_wire_end(&w, node);
    est_strbuf_reset(&text);
    assert_int_equal(est_graph_def_text(def_written(&w), &text), EST_DATA_LOSS);
    est_strbuf_clear(&text);
    est_wire_writer_clear(&w);
    est_wire_writer_clear(&inner);
}

/* The format has a point whatever the program's locale has. */
TEST(locale)
{
    est_strbuf      text = { 0 };
    est_wire_writer w    = { 0 };
    est_arena      *arena;
    est_graph_def   graph;

    locale_comma();
    arena = est_arena_create();
    est_graph_def_init(&graph, arena);
    est_graph_def_set_f(est_graph_def_add_node(&graph, "n", "Op"), "rate", 0.15625F);
    def_check(est_graph_def_put(&w, &graph));
    def_check(est_graph_def_text(def_written(&w), &text));
    locale_point();
    assert_non_null(strstr(est_strbuf_text(&text), "f: 0.15625\n"));
    est_strbuf_clear(&text);
    est_wire_writer_clear(&w);
    est_arena_free(arena);
}

/* Text is not read again: damage must do no harm, that is all. */
static est_status print(est_str message, est_wire_writer *w)
{
    est_strbuf text   = { 0 };
    est_status status = est_graph_def_text(message, &text);

    (void)w;
    est_strbuf_clear(&text);
    return status;
}

TEST(damage)
{
    est_str file = def_read_file(DEF_GOLDEN "tensors.pb");

    def_damage(print, file);
    def_free_file(file);
}

static est_status print_golden(void)
{
    est_strbuf text = { 0 };
    char      *bytes;
    size_t     size;
    est_status status = est_file_read(DEF_GOLDEN "graph.pb", &bytes, &size);

    if (status != EST_OK) return status;
    status = est_graph_def_text((est_str){ bytes, size }, &text);
    est_strbuf_clear(&text);
    est_free(bytes);
    return status;
}

TEST(memory_failures)
{
    def_fail_allocations(print_golden);
}
