/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as .meta files: written and read back, they compute and train as before; scopes; collections; what is left out
 * and what is refused. Files that TensorFlow wrote are read by python/tests/test_meta_graph.py. */
#include <string.h>

#include "base/file.h"
#include "estoc/log.h"
#include "estoc/meta_graph.h"
#include "format/meta_graph_def.h"
#include "graph/graph.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

static char root[64];

static int begin(void **state)
{
    (void)state;
    est_test_dir(root);
    return 0;
}

static int end(void **state)
{
    (void)state;
    return est_dir_remove(root) != EST_OK;
}

static const char *at(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* product = x w, with a step that halves w. */
static void write_program(const char *path)
{
    nn_test     t    = nn_begin(1);
    est_node    w    = est_weight(t.graph, "w", EST_SHAPE(2, 1), EST_WEIGHT(.initializer = est_init_constant(3)));
    est_node    x    = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1, 2));
    est_node    half = est_mul(est_read_variable(w), est_scalar(t.graph, EST_F32, 0.5));
    const char *kept = "product:0";

    (void)est_named(est_matmul(x, est_read_variable(w)), "product");
    (void)est_named(est_assign(w, half), "halve");
    nn_ready(&t);
    assert_ok(est_meta_graph_write(
        t.graph,
        EST_META_GRAPH_WRITE(.saved = EST_NAMED_NODES({ "weights", w }), .keep_max = 3,
                             .collections = EST_META_COLLECTIONS({ .name = "kept", .nodes = { &kept, 1 } },
                                                                 { .name = "sizes", .ints = EST_I64S(2, 1) },
                                                                 { .name = "rates", .floats = EST_F32S(0.5F) })),
        path));
    nn_end(&t);
}

typedef struct imported {
    est_graph      *graph;
    est_meta_graph *meta;
    est_session    *session;
} imported;

static imported import_file(const char *name, const est_meta_graph_options *options)
{
    imported in = { 0 };

    assert_ok(est_graph_create(1, &in.graph));
    assert_ok(est_meta_graph_import(in.graph, at(name), options, &in.meta));
    assert_ok(est_session_create(in.graph, NULL, &in.session));
    return in;
}

static void forget(imported *in)
{
    est_session_free(in->session);
    est_meta_graph_free(in->meta);
    est_graph_free(in->graph);
}

static float run_product(const imported *in, const char *scope)
{
    const float x[] = { 1, 2 };
    char        feed[32], fetch[32];
    est_tensor *value = NULL, *out = NULL;
    float       found;

    snprintf(feed, sizeof feed, "%sx", scope);
    snprintf(fetch, sizeof fetch, "%sproduct", scope);
    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(1, 2), x, &value));
    assert_ok(est_session_run(in->session, EST_FEEDS({ est_graph_find(in->graph, feed), value }),
                              EST_NODES(est_graph_find(in->graph, fetch)), EST_NO_NODES, &out));
    found = *(const float *)est_tensor_data(out);
    est_tensor_free(out);
    est_tensor_free(value);
    return found;
}

TEST(written_and_read)
{
    imported in;

    write_program(at("a.meta"));
    in = import_file("a.meta", NULL);
    assert_int_equal(est_trainable_variables(in.graph).n, 1);
    assert_int_equal(est_global_variables(in.graph).n, 1);
    assert_int_equal(est_meta_graph_keep_max(in.meta), 3);
    assert_int_equal(est_meta_graph_saved(in.meta).n, 1);
    assert_string_equal(est_meta_graph_saved(in.meta).data[0].name, "weights");
    assert_string_equal(est_node_name(est_meta_graph_saved(in.meta).data[0].node), "w");
    assert_ok(est_session_init(in.session));
    assert_true(run_product(&in, "") == 9);
    assert_ok(
        est_session_run(in.session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(est_graph_find(in.graph, "halve")), NULL));
    assert_true(run_product(&in, "") == 4.5F);
    forget(&in);
}

TEST(collections_are_kept)
{
    imported             in;
    est_meta_collections all;

    write_program(at("b.meta"));
    in  = import_file("b.meta", EST_META_GRAPH(.scope = "in"));
    all = est_meta_graph_collections(in.meta);
    assert_int_equal(all.n, 3);
    assert_string_equal(all.data[0].name, "kept");
    assert_string_equal(all.data[0].nodes.data[0], "in/product:0");
    assert_true(all.data[1].floats.n == 1 && all.data[1].floats.data[0] == 0.5F);
    assert_true(all.data[2].ints.n == 2 && all.data[2].ints.data[0] == 2);
    forget(&in);
}

/* Two scopes have two variables. */
TEST(scopes)
{
    imported        in;
    est_meta_graph *other = NULL;

    write_program(at("c.meta"));
    in = import_file("c.meta", EST_META_GRAPH(.scope = "a"));
    assert_ok(est_meta_graph_import(in.graph, at("c.meta"), EST_META_GRAPH(.scope = "b"), &other));
    assert_ok(est_session_init(in.session));
    assert_ok(
        est_session_run(in.session, EST_NO_FEEDS, EST_NO_NODES, EST_NODES(est_graph_find(in.graph, "a/halve")), NULL));
    assert_true(run_product(&in, "a/") == 4.5F);
    assert_true(run_product(&in, "b/") == 9);
    est_meta_graph_free(other);
    forget(&in);
}

/* A MetaGraphDef that a test makes, node by node. */
typedef struct file_test {
    est_arena         *arena;
    est_meta_graph_def meta;
} file_test;

static void begin_file(file_test *f)
{
    f->arena = est_arena_create();
    assert_non_null(f->arena);
    est_meta_graph_def_init(&f->meta, f->arena);
}

static void end_file(file_test *f, const char *path)
{
    est_wire_writer w = { 0 };

    assert_ok(est_meta_graph_def_put(&w, &f->meta));
    assert_ok(est_file_replace(path, (const char *)w.data, w.size));
    est_wire_writer_clear(&w);
    est_arena_free(f->arena);
}

/* NULL: no such input. */
static est_graph_def_node *add(file_test *f, const char *name, const char *op, const char *first, const char *second)
{
    est_graph_def_node *node = est_graph_def_add_node(&f->meta.graph, name, op);

    if (first != NULL) est_graph_def_add_input(node, first);
    if (second != NULL) est_graph_def_add_input(node, second);
    return node;
}

static void add_variable(file_test *f, const char *name, const char *op)
{
    est_shape           two  = EST_SHAPE(2);
    est_graph_def_node *node = add(f, name, op, NULL, NULL);

    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_shape(node, "shape", &two);
}

static void add_ones(file_test *f, const char *name)
{
    est_tensor         *ones     = NULL;
    const float         values[] = { 1, 1 };
    est_graph_def_node *node     = add(f, name, "Const", NULL, NULL);

    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(2), values, &ones));
    est_graph_def_set_type(node, "dtype", EST_F32);
    est_graph_def_set_tensor(node, "value", ones);
    est_tensor_free(ones);
}

/* An empty scope is none: no name begins with "/". */
TEST(empty_scope)
{
    imported in;

    write_program(at("o.meta"));
    in = import_file("o.meta", EST_META_GRAPH(.scope = ""));
    assert_non_null(est_graph_find(in.graph, "product").graph);
    assert_string_equal(est_meta_graph_collections(in.meta).data[0].nodes.data[0], "product:0");
    forget(&in);
}

/* References of TensorFlow 1: a variable, its Assign, a read of it, an update whose result is read, and a read that
 * waits for the update; beside them an operation that Estoc does not have, and one that needs it. */
static void write_references(const char *path)
{
    file_test f;

    begin_file(&f);
    add(&f, "later", "Identity", "v", "^add");
    add_variable(&f, "v", "VariableV2");
    add_ones(&f, "one");
    est_graph_def_set_b(add(&f, "v/Assign", "Assign", "v", "one"), "use_locking", true);
    add(&f, "add", "AssignAdd", "v", "one");
    add(&f, "twice", "AddV2", "add", "add:0");
    add(&f, "odd", "Bessel", "v", NULL);
    add(&f, "odder", "Neg", "odd", NULL);
    add(&f, "oddest", "Neg", "odder", NULL);
    end_file(&f, path);
}

static float first_of(const imported *in, const char *name)
{
    est_tensor *out = NULL;
    float       found;

    assert_ok(
        est_session_run(in->session, EST_NO_FEEDS, EST_NODES(est_graph_find(in->graph, name)), EST_NO_NODES, &out));
    found = *(const float *)est_tensor_data(out);
    est_tensor_free(out);
    return found;
}

TEST(references_become_handles)
{
    imported in;

    write_references(at("d.meta"));
    in = import_file("d.meta", NULL);
    assert_int_equal(est_meta_graph_keep_max(in.meta), -1);
    assert_string_equal(est_node_op(est_graph_find(in.graph, "v")), "VarHandleOp");
    assert_true(first_of(&in, "v/Assign") == 1);
    assert_true(first_of(&in, "add") == 2);
    assert_true(first_of(&in, "twice") == 6);
    assert_true(first_of(&in, "later") == 4);
    assert_true(first_of(&in, "v/Read/ReadVariableOp") == 4);
    forget(&in);
}

/* An update of what an update gives comes after it, and runs it. What gives an update's result on after another one
 * gives what the variable has by then. */
TEST(updates_of_updates)
{
    file_test f;
    imported  in;

    begin_file(&f);
    add_variable(&f, "v", "VariableV2");
    add_ones(&f, "one");
    add(&f, "set", "Assign", "v", "one");
    add(&f, "more", "AssignAdd", "set", "one");
    add(&f, "most", "AssignAdd", "more:0", "one");
    add(&f, "given", "Identity", "set", "^most");
    add(&f, "known", "IsVariableInitialized", "set", NULL);
    end_file(&f, at("h.meta"));
    in = import_file("h.meta", NULL);
    assert_int_equal(est_meta_graph_missing(in.meta).n, 0);
    assert_true(first_of(&in, "most") == 3);
    assert_true(first_of(&in, "more") == 2);
    assert_true(first_of(&in, "given") == 3);
    forget(&in);
}

/* An update that waits for a read comes after it, whichever of them the message has first. It goes on to wait for it:
 * where the graph is written again, nothing else would say so. */
TEST(reads_before_updates)
{
    file_test f;
    imported  in;

    begin_file(&f);
    add_variable(&f, "v", "VariableV2");
    add_ones(&f, "one");
    add(&f, "set", "Assign", "v", "one");
    est_graph_def_add_input(add(&f, "more", "AssignAdd", "v", "one"), "^old");
    add(&f, "old", "Identity", "v", NULL);
    add(&f, "both", "AddV2", "more", "old");
    end_file(&f, at("k.meta"));
    in = import_file("k.meta", NULL);
    assert_true(first_of(&in, "set") == 1);
    assert_true(first_of(&in, "both") == 3);
    assert_int_equal(est_graph_node(in.graph, est_graph_find(in.graph, "more>update").id)->n_control, 1);
    forget(&in);
}

/* What a variable is called in a session is its whole name, also where that has a '>'. */
TEST(names_with_marks)
{
    file_test f;
    imported  in;

    begin_file(&f);
    add_ones(&f, "one");
    add_variable(&f, "v>a", "VariableV2");
    add_variable(&f, "v>b", "VariableV2");
    add(&f, "a", "Assign", "v>a", "one");
    add(&f, "b", "Assign", "v>b", "one");
    add(&f, "more", "AssignAdd", "v>a", "one");
    add(&f, "other", "Identity", "v>b", NULL);
    end_file(&f, at("l.meta"));
    in = import_file("l.meta", NULL);
    assert_true(first_of(&in, "a") == 1);
    assert_true(first_of(&in, "b") == 1);
    assert_true(first_of(&in, "more") == 2);
    assert_true(first_of(&in, "other") == 1);
    forget(&in);
}

TEST(what_is_left_out)
{
    imported               in;
    est_missing_operations missing;

    write_references(at("e.meta"));
    in      = import_file("e.meta", NULL);
    missing = est_meta_graph_missing(in.meta);
    assert_int_equal(missing.n, 3);
    assert_string_equal(missing.data[0].name, "odd");
    assert_string_equal(missing.data[0].op, "Bessel");
    assert_false(missing.data[0].saves);
    assert_string_equal(missing.data[1].name, "odder");
    assert_non_null(strstr(missing.data[1].error, "op 'Bessel' is not supported"));
    assert_string_equal(missing.data[2].name, "oddest");
    assert_non_null(strstr(missing.data[2].error, "it needs node 'odd' (Bessel)"));
    assert_null(strstr(missing.data[2].error, "'odder'"));
    assert_null(est_graph_find(in.graph, "odder").graph);
    assert_ok(est_graph_status(in.graph));
    forget(&in);
}

/* A saver reads a variable that no collection has. */
TEST(saved_without_collections)
{
    file_test f;
    imported  in;
    est_node  w;

    begin_file(&f);
    add_variable(&f, "w", "VarHandleOp");
    end_file(&f, at("i.meta"));
    in = import_file("i.meta", NULL);
    w  = est_graph_find(in.graph, "w");
    assert_ok(
        est_meta_graph_write(in.graph, EST_META_GRAPH_WRITE(.saved = EST_NAMED_NODES({ "key", w })), at("j.meta")));
    forget(&in);
    in = import_file("j.meta", NULL);
    assert_int_equal(est_meta_graph_saved(in.meta).n, 1);
    assert_string_equal(est_meta_graph_saved(in.meta).data[0].name, "key");
    forget(&in);
}

static void fails(est_status got, est_status expected, const char *text)
{
    assert_int_equal(got, expected);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\", expected \"%s\"", est_error_message(), text);
}

TEST(refused_to_write)
{
    nn_test  t = nn_begin(1);
    est_node x = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(2));

    fails(est_meta_graph_write(t.graph, EST_META_GRAPH_WRITE(.saved = EST_NAMED_NODES({ "x", x })), at("f.meta")),
          EST_INVALID_ARGUMENT, "'x' to save is no variable of the graph");
    fails(est_meta_graph_write(t.graph, EST_META_GRAPH_WRITE(.collections = EST_META_COLLECTIONS({ .name = NULL })),
                               at("f.meta")),
          EST_INVALID_ARGUMENT, "collection 0 has no name");
    nn_end(&t);
}

static void fails_to_import(const char *name, est_status expected, const char *text)
{
    est_graph      *graph = NULL;
    est_meta_graph *meta  = NULL;

    assert_ok(est_graph_create(1, &graph));
    (void)est_placeholder(graph, "x", EST_F32, EST_SHAPE(2));
    fails(est_meta_graph_import(graph, at(name), NULL, &meta), expected, text);
    assert_null(meta);
    assert_int_equal(est_graph_status(graph), expected);
    est_graph_free(graph);
}

TEST(refused_to_read)
{
    write_program(at("g.meta"));
    fails_to_import("g.meta", EST_INVALID_ARGUMENT, "the graph already has a node called 'x'");
    fails_to_import("none.meta", EST_NOT_FOUND, "none.meta");
    assert_ok(est_file_replace(at("bad.meta"), "\x12\x7f", 2));
    fails_to_import("bad.meta", EST_DATA_LOSS, "bad.meta");
}

/* Reads and writes both: what is left out, references, and a saver. */
TEST(every_failed_allocation_is_an_error)
{
    static const char *const files[] = { "m.meta", "n.meta" };

    write_program(at(files[0]));
    write_references(at(files[1]));
    for (int i = 0; i < 2; i++) {
        FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 20) {
            est_graph      *graph = NULL;
            est_meta_graph *meta  = NULL;
            est_status      status;

            assert_ok(est_graph_create(1, &graph));
            fault_arm(&f);
            status = est_meta_graph_import(graph, at(files[i]), EST_META_GRAPH(.scope = "in"), &meta);
            fault_check(&f, status);
            est_meta_graph_free(meta);
            est_graph_free(graph);
        }
    }
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(begin, end);
}
