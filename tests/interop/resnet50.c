/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of the example's ResNet-50 against one of tf.keras.applications.ResNet50 from the same first values, and
 * the numbers of parameters that Keras has. */
#define main example_main
int example_main(int argc, char **argv);
#include "../../examples/resnet50.c"
#undef main

#include "support/interop.h"

#define BATCH 8

/* Makes the branches of residual blocks smaller than their shortcuts. As a network is built, 16 blocks enlarge what
 * sums round off so much that the losses of both sides are 2e-5 apart; like this it is 3e-6. With 0.3 no input of a
 * relu of the last two stages is within 5e-6 of zero (resnet50.py says why that matters). */
static void soften(est_network *model, est_nodes variables)
{
    for (int i = 0; i < variables.n; i++) {
        const char *variable = est_node_name(variables.data[i]);
        est_tensor *gamma;

        if (strstr(variable, "_3_bn/gamma") == NULL) continue;
        interop_check(est_tensor_create(EST_F32, *est_node_shape(variables.data[i]), &gamma));
        for (int64_t k = 0; k < est_tensor_count(gamma); k++) ((float *)est_tensor_mutable_data(gamma))[k] = 0.3f;
        interop_check(est_session_write(est_network_session(model), variable, gamma));
        est_tensor_free(gamma);
    }
}

/* The parameters by name, with a prefix. */
static void say_variables(est_strbuf *out, const char *prefix, est_network *model, est_nodes variables)
{
    for (int i = 0; i < variables.n; i++) {
        const char *variable = est_node_name(variables.data[i]);
        char        name[128];
        est_tensor *value;

        if (strcmp(variable, "global_step") == 0) continue;
        (void)snprintf(name, sizeof name, "%s/%s", prefix, variable);
        interop_check(est_session_read(est_network_session(model), variable, &value));
        interop_tensor(out, name, value);
        est_tensor_free(value);
    }
}

static void say_double(est_strbuf *out, const char *name, double value)
{
    est_tensor *t;

    interop_check(est_tensor_create_from(EST_F64, EST_SHAPE_SCALAR, &value, &t));
    interop_tensor(out, name, t);
    est_tensor_free(t);
}

TEST(one_step)
{
    settings     s     = { .size = 32, .classes = 10, .images = BATCH };
    est_network *model = NULL;
    est_tensor  *images, *labels;
    est_node     variables[512];
    est_nodes    all;
    est_strbuf   out = { 0 };
    double       loss;

    interop_check(make_images(&s, &images, &labels));
    interop_check(make_model(&s, &model));
    interop_check(est_network_build(model, NULL));
    all = est_global_variables(est_network_graph(model));
    assert_in_range(all.n, 1, 512);
    memcpy(variables, all.data, sizeof variables[0] * (size_t)all.n); /* compile and training add others */
    all.data = variables;
    soften(model, all);
    interop_tensor(&out, "image", images);
    interop_tensor(&out, "label", labels);
    say_variables(&out, "before", model, all);
    interop_check(est_network_compile(
        model, EST_COMPILE(.loss = "sparse_categorical_crossentropy", .optimizer = "sgd", .learning_rate = 0.01)));
    interop_check(
        est_network_train_on_batch(model, EST_NAMED_TENSORS({ "image", images }, { "label", labels }), &loss));
    say_double(&out, "loss", loss);
    say_variables(&out, "after", model, all);
    interop_save("step", &out);
    est_network_free(model);
    est_tensor_free(images);
    est_tensor_free(labels);
    interop_ask("check_step");
}

/* As Keras' count_params() of both. */
TEST(parameters)
{
    settings all[] = { { .size = 224, .classes = 1000 }, { .size = 32, .classes = 10 } };

    for (int i = 0; i < 2; i++) {
        est_network *model = NULL;

        interop_check(make_model(&all[i], &model));
        interop_check(est_network_build(model, NULL));
        assert_int_equal(count_params(model), i == 0 ? 25636712 : 23608202);
        est_network_free(model);
    }
}

int main(void)
{
    return INTEROP_MAIN("resnet50");
}
