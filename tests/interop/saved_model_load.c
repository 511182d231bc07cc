/* SPDX-License-Identifier: Apache-2.0
 *
 * SavedModels of TensorFlow, loaded here: canned estimators with columns of all kinds, Keras models, functions of a
 * tf.Module, and variables of TensorFlow 1. Python writes models and requests, and compares the answers with those of
 * TensorFlow's loader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "predict/saved_model.h"
#include "support/interop.h"

#define INPUTS_MAX  8
#define OUTPUTS_MAX 16

static est_dtype dtype_named(est_str name)
{
    static const est_dtype dtypes[] = { EST_F32, EST_I64, EST_STRING };

    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        const char *text = est_dtype_name(dtypes[i]);

        if (strlen(text) == name.size && memcmp(text, name.data, name.size) == 0) return dtypes[i];
    }
    fail_msg("no tensors of %.*s", (int)name.size, name.data);
    return EST_DTYPE_NONE;
}

/* The tensor of two blobs: "dtype dim dim ...", and its bytes. */
static est_tensor *tensor_of(est_str what, est_str bytes)
{
    est_shape     shape  = { .rank = 0 };
    est_tensor   *tensor = NULL;
    interop_blobs strings;
    char          text[128];
    size_t        size;

    assert_true(what.size < sizeof text);
    memcpy(text, what.data, what.size);
    text[what.size] = '\0';
    size            = strcspn(text, " ");
    for (char *at = text + size; *at != '\0';) shape.dim[shape.rank++] = strtoll(at, &at, 10);
    if (dtype_named((est_str){ text, size }) != EST_STRING) {
        interop_check(est_tensor_create_from(dtype_named((est_str){ text, size }), shape, bytes.data, &tensor));
        return tensor;
    }
    interop_blobs_of(bytes, &strings);
    interop_check(est_tensor_create_from(EST_STRING, shape, strings.at, &tensor));
    interop_blobs_clear(&strings);
    return tensor;
}

static int find_input(const est_saved_signature *s, est_str name)
{
    for (int i = 0; i < s->n_inputs; i++) {
        if (strlen(s->inputs[i].name) == name.size && memcmp(s->inputs[i].name, name.data, name.size) == 0) return i;
    }
    fail_msg("no input %.*s", (int)name.size, name.data);
    return -1;
}

/* Feeds a request to a signature and writes what it gives. */
static void answer(const est_saved_model *model, const char *signature, est_str request, const char *file)
{
    est_saved_signature_nodes s;
    interop_blobs             parts;
    est_feed                  feeds[INPUTS_MAX];
    est_tensor               *values[INPUTS_MAX], *out[OUTPUTS_MAX] = { 0 };
    est_strbuf                text = { 0 };

    interop_check(est_saved_model_find(model, signature, &s));
    assert_true(s.inputs.n <= INPUTS_MAX && s.outputs.n <= OUTPUTS_MAX);
    interop_blobs_of(request, &parts);
    assert_int_equal(parts.n, 3 * s.inputs.n);
    for (int i = 0; i < s.inputs.n; i++) {
        values[i] = tensor_of(parts.at[3 * i + 1], parts.at[3 * i + 2]);
        feeds[i]  = (est_feed){ s.inputs.data[find_input(s.signature, parts.at[3 * i])], values[i] };
    }
    interop_check(est_session_run(est_saved_model_session(model), (est_feeds){ feeds, s.inputs.n }, s.outputs,
                                  EST_NO_NODES, out));
    for (int i = 0; i < s.outputs.n; i++) {
        interop_tensor(&text, s.signature->outputs[i].name, out[i]);
        est_tensor_free(out[i]);
    }
    for (int i = 0; i < s.inputs.n; i++) est_tensor_free(values[i]);
    interop_blobs_clear(&parts);
    interop_save(file, &text);
}

static void text_of(est_str blob, char *out, size_t size)
{
    assert_true(blob.size < size);
    memcpy(out, blob.data, blob.size);
    out[blob.size] = '\0';
}

static est_saved_model *load_case(const char *name, interop_blobs *requests)
{
    est_saved_model *model = NULL;
    char             file[128], path[512];

    snprintf(file, sizeof file, "%s.requests", name);
    interop_blobs_read(file, requests);
    text_of(requests->at[0], path, sizeof path);
    interop_check(est_saved_model_load(path, NULL, &model));
    return model;
}

TEST(answers_are_those_of_tensorflow)
{
    interop_blobs cases, requests;

    interop_ask("write");
    interop_blobs_read("cases", &cases);
    assert_true(cases.n >= 12);
    for (size_t i = 0; i < cases.n; i++) {
        char             name[64], signature[64], file[128];
        est_saved_model *model;

        text_of(cases.at[i], name, sizeof name);
        model = load_case(name, &requests);
        for (size_t k = 0; 2 * k + 2 < requests.n; k++) {
            text_of(requests.at[2 * k + 1], signature, sizeof signature);
            snprintf(file, sizeof file, "%s.%zu.answer", name, k);
            answer(model, signature, requests.at[2 * k + 2], file);
        }
        interop_blobs_clear(&requests);
        est_saved_model_free(model);
    }
    interop_blobs_clear(&cases);
    interop_ask("check");
}

/* A signature with an op that is not here does not keep others from running. */
TEST(a_missing_op_is_named)
{
    est_saved_signature_nodes s;
    interop_blobs             requests;
    est_saved_model          *model = load_case("module", &requests);

    assert_int_equal(est_saved_model_signatures(model), 2);
    assert_string_equal(est_saved_model_signature(model, 0)->name, "other");
    assert_int_equal(est_saved_model_find(model, "other", &s), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "signature 'other': node 'PartitionedCall/"));
    assert_non_null(strstr(est_error_message(), "is not supported"));
    interop_blobs_clear(&requests);
    est_saved_model_free(model);
}

int main(void)
{
    return INTEROP_MAIN("saved_model_load");
}
