/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs of the caller's as SavedModels: several signatures without common inputs, scalars among them, read back and
 * run; what is refused. */
#include <string.h>

#include "base/file.h"
#include "estoc/exporter.h"
#include "estoc/log.h"
#include "estoc/predictor.h"
#include "estoc/saved_model.h"
#include "support/dir_test.h"
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

typedef struct program {
    nn_test  t;
    est_node w, x, scale, product, scaled;
} program;

/* product = x w and scaled = scale * w[0], over one variable. */
static program make(void)
{
    program p = { .t = nn_begin(1) };

    p.w       = est_weight(p.t.graph, "w", EST_SHAPE(2, 1), EST_WEIGHT(.initializer = est_init_constant(3)));
    p.x       = est_placeholder(p.t.graph, "x", EST_F32, EST_SHAPE(-1, 2));
    p.scale   = est_placeholder(p.t.graph, "scale", EST_F32, EST_SHAPE_SCALAR);
    p.product = est_matmul(p.x, est_read_variable(p.w));
    p.scaled  = est_mul(est_reduce_sum(est_read_variable(p.w), EST_I64S(0, 1), false), p.scale);
    nn_ready(&p.t);
    return p;
}

static const char *at(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static double run(const est_saved_model *model, const char *signature, const char *input, est_tensor *value)
{
    est_predictor *predictor = NULL;
    est_tensor    *out       = NULL;
    double         first;

    assert_ok(est_predictor_create(model, signature, NULL, &predictor));
    assert_ok(est_predictor_run(predictor, EST_NAMED_TENSORS({ input, value }), &out));
    first = (double)*(const float *)est_tensor_data(out);
    est_tensor_free(out);
    est_predictor_free(predictor);
    return first;
}

TEST(two_signatures)
{
    program          p     = make();
    est_saved_model *model = NULL;
    est_tensor      *x = NULL, *scale = NULL;

    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        assert_ok(est_export_graph(
            p.t.session,
            EST_GRAPH_SIGNATURES(
                { "serving_default", EST_NAMED_NODES({ "x", p.x }), EST_NAMED_NODES({ "y", p.product }) },
                { "scaled", EST_NAMED_NODES({ "by", p.scale }), EST_NAMED_NODES({ "y", p.scaled }) }),
            at("two")));
    }
    nn_end(&p.t);
    assert_ok(est_saved_model_load(at("two"), NULL, &model));
    assert_int_equal(est_saved_model_signatures(model), 2);
    assert_ok(est_tensor_f32(EST_SHAPE(1, 2), (const float[]){ 1, 2 }, &x));
    assert_ok(est_tensor_f32(EST_SHAPE_SCALAR, (const float[]){ 0.5f }, &scale));
    assert_near(run(model, "serving_default", "x", x), 9, 1e-6);
    assert_near(run(model, "scaled", "by", scale), 3, 1e-6);
    est_tensor_free(x);
    est_tensor_free(scale);
    est_saved_model_free(model);
}

/* Writes two signatures of one variable v = 2: "next" adds `by` and gives v, "times" gives v x. */
static void write_counter(const char *path)
{
    nn_test  t    = nn_begin(1);
    est_node v    = est_variable(t.graph, "v", EST_F32, EST_SHAPE_SCALAR);
    est_node by   = est_placeholder(t.graph, "by", EST_F32, EST_SHAPE_SCALAR);
    est_node x    = est_placeholder(t.graph, "x", EST_F32, EST_SHAPE(-1));
    est_node add  = est_assign_add(v, by);
    est_node next = est_after(est_identity(est_after(est_read_variable(v), add)), add);

    est_variable_initializer(v, est_scalar(t.graph, EST_F32, 2));
    est_node times = est_mul(x, est_read_variable(v));
    nn_ready(&t);
    assert_ok(est_export_graph(
        t.session,
        EST_GRAPH_SIGNATURES({ "next", EST_NAMED_NODES({ "by", by }), EST_NAMED_NODES({ "v", next }) },
                             { "times", EST_NAMED_NODES({ "x", x }), EST_NAMED_NODES({ "y", times }) }),
        path));
    nn_end(&t);
}

TEST(signatures_are_called_over_variables_of_another_graph)
{
    est_saved_model *model = NULL;
    nn_test          t     = nn_begin(1);
    est_node         mine  = est_variable(t.graph, "mine", EST_F32, EST_SHAPE_SCALAR), next, y;
    est_node         x     = nn_const(t.graph, EST_SHAPE(2), NN_VALUES(1, 10));
    est_nodes        writes;
    est_gradient     g;
    double           got[2];

    write_counter(at("counter"));
    assert_ok(est_saved_model_load(at("counter"), NULL, &model));
    est_variable_initializer(mine, est_scalar(t.graph, EST_F32, 5));
    assert_ok(est_saved_model_call(model, "times", t.graph, EST_NODES(x), EST_NAMED_NODES({ "v", mine }), &y, &writes));
    assert_int_equal(writes.n, 0);
    assert_ok(est_saved_model_call(model, "next", t.graph, EST_NODES(est_scalar(t.graph, EST_F32, 3)),
                                   EST_NAMED_NODES({ "v", mine }), &next, &writes));
    assert_int_equal(writes.n, 1);
    est_gradients(est_sum(y), EST_NODES(mine), &g); /* as of any other operations */
    nn_ready(&t);
    assert_int_equal(nn_fetch(&t, y, got, 2), 2);
    assert_near(got[1], 50, 1e-6);
    assert_int_equal(nn_fetch(&t, g.values, got, 2), 1);
    assert_near(got[0], 11, 1e-6);
    assert_int_equal(nn_fetch(&t, next, got, 2), 1); /* none of it needs what "times" needs */
    assert_near(got[0], 8, 1e-6);
    assert_int_equal(nn_fetch(&t, next, got, 2), 1);
    assert_near(got[0], 11, 1e-6);
    nn_end(&t);

    t = nn_begin(1);
    assert_int_equal(est_saved_model_call(model, "times", t.graph,
                                          EST_NODES(nn_const(t.graph, EST_SHAPE(1), NN_VALUES(1))),
                                          (est_named_nodes){ 0 }, &y, NULL),
                     EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "no variable was given for 'v'"));
    nn_end(&t);
    t = nn_begin(1);
    assert_int_equal(est_saved_model_call(model, "times", t.graph, (est_nodes){ 0 }, (est_named_nodes){ 0 }, &y, NULL),
                     EST_INVALID_ARGUMENT);
    nn_end(&t);
    est_saved_model_free(model);
}

/* Two signatures of numbers drawn at random: one operation has a seed of its own, the other has none. */
static void write_draws(const char *path)
{
    nn_test  t     = nn_begin(0);
    est_node one   = est_placeholder(t.graph, "one", EST_F32, EST_SHAPE(4));
    est_node two   = est_placeholder(t.graph, "two", EST_F32, EST_SHAPE(4));
    est_node shape = est_const_i64(t.graph, EST_SHAPE(1), (const int64_t[]){ 4 });
    est_node drawn = est_dropout(est_add(one, est_random_uniform(shape, EST_F32, 0)), 0.5, 0);
    est_node fixed = est_add(two, est_random_uniform(shape, EST_F32, 7));

    nn_ready(&t);
    assert_ok(est_export_graph(
        t.session,
        EST_GRAPH_SIGNATURES({ "drawn", EST_NAMED_NODES({ "x", one }), EST_NAMED_NODES({ "y", drawn }) },
                             { "fixed", EST_NAMED_NODES({ "x", two }), EST_NAMED_NODES({ "y", fixed }) }),
        path));
    nn_end(&t);
}

/* Whether two calls of a signature in one graph give the same numbers. */
static bool calls_draw_alike(const est_saved_model *model, const char *signature)
{
    nn_test  t = nn_begin(1);
    est_node x = nn_const(t.graph, EST_SHAPE(4), NN_VALUES(0, 0, 0, 0)), y[2];
    double   apart;

    for (int i = 0; i < 2; i++) {
        assert_ok(est_saved_model_call(model, signature, t.graph, EST_NODES(x), (est_named_nodes){ 0 }, &y[i], NULL));
    }
    nn_ready(&t);
    apart = nn_scalar(&t, est_sum(est_abs(est_sub(y[0], y[1]))));
    nn_end(&t);
    return apart == 0;
}

TEST(calls_draw_numbers_of_their_own)
{
    est_saved_model *model = NULL;

    write_draws(at("draws"));
    assert_ok(est_saved_model_load(at("draws"), NULL, &model));
    assert_false(calls_draw_alike(model, "drawn"));
    assert_true(calls_draw_alike(model, "fixed")); /* as in TensorFlow */
    est_saved_model_free(model);
}

static void refused(est_session *session, est_graph_signatures signatures, const char *text)
{
    assert_int_equal(est_export_graph(session, signatures, at("no")), EST_INVALID_ARGUMENT);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\", expected \"%s\"", est_error_message(), text);
    assert_false(est_file_exists(at("no")));
}

TEST(refusals)
{
    program         p = make(), other = make();
    est_named_nodes in = EST_NAMED_NODES({ "x", p.x }), out = EST_NAMED_NODES({ "y", p.product });

    refused(p.t.session, (est_graph_signatures){ 0 }, "no signatures");
    refused(p.t.session, EST_GRAPH_SIGNATURES({ NULL, in, out }), "signature 0 has no name");
    refused(p.t.session, EST_GRAPH_SIGNATURES({ "a", in, out }, { "a", in, out }), "two signatures are called a");
    refused(p.t.session, EST_GRAPH_SIGNATURES({ "a", in, out }, { "b", in }), "signature b has no output");
    refused(p.t.session, EST_GRAPH_SIGNATURES({ "a", EST_NAMED_NODES({ "by", p.scale }), out }),
            "signature a does not feed all that it needs: it leaves out x");
    refused(p.t.session, EST_GRAPH_SIGNATURES({ "a", EST_NAMED_NODES({ "x", other.x }), out }),
            "input x is a node of another graph");
    refused(other.t.session, EST_GRAPH_SIGNATURES({ "a", in, out }), "no output in the graph of the session");
    refused(p.t.session, EST_GRAPH_SIGNATURES({ "a", in, EST_NAMED_NODES({ "y", p.product }, { "y", p.product }) }),
            "two outputs called y");
    nn_end(&p.t);
    nn_end(&other.t);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(begin, end);
}
