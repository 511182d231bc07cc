/* SPDX-License-Identifier: Apache-2.0
 *
 * The object graph of TensorFlow 2 checkpoints: TensorFlow's own message, hand-made ones, cut and changed ones. */
#include <string.h>

#include "base/file.h"
#include "format/object_graph.h"
#include "format/wire.h"
#include "support/fault_loop.h"
#include "support/test.h"

static void put_tensor(est_wire_writer *w, const char *full_name, const char *key)
{
    size_t node = est_wire_begin(w, 1), tensor = est_wire_begin(w, 2);

    est_wire_put_string(w, 1, "VARIABLE_VALUE");
    if (full_name != NULL) est_wire_put_string(w, 2, full_name);
    if (key != NULL) est_wire_put_string(w, 3, key);
    est_wire_end(w, tensor);
    est_wire_end(w, node);
}

static est_status parse(est_object_graph *graph, const void *bytes, size_t size)
{
    memset(graph, 0, sizeof *graph);
    return est_object_graph_parse(graph, (est_str){ bytes, size });
}

static void read_golden(char **bytes, size_t *size)
{
    assert_int_equal(est_file_read(EST_SOURCE_DIR "/tests/golden/format/object_graph.bin", bytes, size), EST_OK);
}

TEST(tensorflow)
{
    const est_object_tensor *tensor;
    est_object_graph         graph;
    char                    *bytes;
    size_t                   size;

    read_golden(&bytes, &size);
    assert_int_equal(parse(&graph, bytes, size), EST_OK);
    est_free(bytes); /* names are copies */
    assert_true(graph.n_nodes > 20);
    tensor = est_map_get(&graph.by_name, "dense/kernel");
    assert_string_equal(tensor->checkpoint_key, "model/layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE");
    assert_int_equal(tensor->n_same_name, 1);
    tensor = est_map_get(&graph.by_key, "odd..name/.ATTRIBUTES/VARIABLE_VALUE");
    assert_string_equal(tensor->full_name, "odd");
    tensor = est_map_get(&graph.by_name, "twin");
    assert_string_equal(tensor->checkpoint_key, "twins/0/.ATTRIBUTES/VARIABLE_VALUE");
    assert_int_equal(tensor->n_same_name, 2);
    assert_string_equal(((est_object_tensor *)est_map_get(&graph.by_name, "Adam/dense_1/bias/v"))->checkpoint_key,
                        "model/layer_with_weights-1/bias/.OPTIMIZER_SLOT/optimizer/v/.ATTRIBUTES/VARIABLE_VALUE");
    est_object_graph_clear(&graph);
}

/* What is written is read again; a child outside of the graph is none. */
TEST(objects)
{
    est_object_graph graph = { 0 }, again;
    est_wire_writer  w     = { 0 };
    int32_t          root, a, b;

    assert_int_equal(est_object_graph_child(&graph, 0, "a"), -1);
    assert_int_equal(est_object_graph_add(&graph, &root), EST_OK);
    assert_int_equal(est_object_graph_add(&graph, &a), EST_OK);
    assert_int_equal(est_object_graph_add(&graph, &b), EST_OK);
    assert_int_equal(est_object_graph_link(&graph, root, "a", a), EST_OK);
    assert_int_equal(est_object_graph_link(&graph, root, "far", 7), EST_OK);
    assert_int_equal(est_object_graph_link(&graph, root, "before", -1), EST_OK);
    assert_int_equal(est_object_graph_link(&graph, a, "kernel", b), EST_OK);
    assert_int_equal(est_object_graph_link(&graph, b, "up", root), EST_OK);
    assert_int_equal(est_object_graph_value(&graph, b, "dense/kernel", "a/kernel/.ATTRIBUTES/VARIABLE_VALUE"), EST_OK);
    est_object_graph_put(&graph, &w);
    est_object_graph_clear(&graph);
    assert_int_equal(est_wire_writer_status(&w), EST_OK);
    assert_int_equal(parse(&again, w.data, w.size), EST_OK);
    assert_int_equal(again.n_nodes, 3);
    assert_int_equal(est_object_graph_child(&again, 0, "a"), a);
    assert_int_equal(est_object_graph_child(&again, a, "kernel"), b);
    assert_int_equal(est_object_graph_child(&again, b, "up"), 0);
    assert_int_equal(est_object_graph_child(&again, 0, "far"), -1);
    assert_int_equal(est_object_graph_child(&again, 0, "before"), -1);
    assert_int_equal(est_object_graph_child(&again, 0, "kernel"), -1);
    assert_int_equal(est_object_graph_child(&again, 3, "a"), -1);
    assert_null(again.nodes[a].checkpoint_key);
    assert_string_equal(again.nodes[b].checkpoint_key, "a/kernel/.ATTRIBUTES/VARIABLE_VALUE");
    assert_non_null(est_map_get(&again.by_name, "dense/kernel"));
    est_object_graph_clear(&again);
    est_wire_writer_clear(&w);
}

TEST(made_by_hand)
{
    est_wire_writer  w = { 0 };
    est_object_graph graph;

    assert_int_equal(parse(&graph, "", 0), EST_OK);
    assert_int_equal(graph.n_nodes, 0);
    est_object_graph_clear(&graph);

    put_tensor(&w, "a", "x");
    put_tensor(&w, NULL, "nameless");
    put_tensor(&w, "keyless", NULL);
    put_tensor(&w, "a", "x"); /* one variable that two objects hold is one */
    est_wire_put_u64(&w, 77, 5);
    assert_int_equal(est_wire_writer_status(&w), EST_OK);
    assert_int_equal(parse(&graph, w.data, w.size), EST_OK);
    assert_int_equal(graph.n_nodes, 4);
    assert_int_equal(graph.by_name.n, 1);
    assert_int_equal(((est_object_tensor *)est_map_get(&graph.by_name, "a"))->n_same_name, 1);
    est_object_graph_clear(&graph);
    est_wire_writer_clear(&w);
}

TEST(errors)
{
    static const uint8_t with_nul[] = { 0x0a, 0x09, 0x12, 0x07, 0x12, 0x02, 'a', 0, 0x1a, 0x01, 'k' };
    est_object_graph     graph;

    assert_int_equal(parse(&graph, with_nul, sizeof with_nul), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "NUL"));
    est_object_graph_clear(&graph);
    assert_int_equal(parse(&graph, "\x0a\x03\x10", 3), EST_DATA_LOSS);
    assert_non_null(strstr(est_error_message(), "TrackableObjectGraph"));
    est_object_graph_clear(&graph);
    assert_int_equal(parse(&graph, "\x0a\x02\x10\x01", 4), EST_DATA_LOSS); /* attributes that are a number */
    est_object_graph_clear(&graph);
}

/* An error or a graph, never a read past the end. */
TEST(every_cut_and_flip)
{
    est_object_graph graph;
    char            *bytes, *copy;
    size_t           size;

    read_golden(&bytes, &size);
    for (size_t n = 0; n < size; n++) {
        copy = est_alloc(n + 1);
        memcpy(copy, bytes, n);
        if (parse(&graph, copy, n) != EST_OK) assert_true(strlen(est_error_message()) > 0);
        est_object_graph_clear(&graph);
        est_free(copy);
    }
    for (size_t bit = 0; bit < 8 * size; bit += 3) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        if (parse(&graph, bytes, size) != EST_OK) assert_true(strlen(est_error_message()) > 0);
        est_object_graph_clear(&graph);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    est_free(bytes);
}

TEST(failures)
{
    est_object_graph graph;
    char            *bytes;
    size_t           size;
    read_golden(&bytes, &size);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = parse(&graph, bytes, size);
        fault_check(&f, status);
        est_object_graph_clear(&graph);
    }
    est_free(bytes);
}
