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
