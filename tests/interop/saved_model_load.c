/* SPDX-License-Identifier: Apache-2.0
 *
 * SavedModels of TensorFlow, loaded here: canned estimators with columns of all kinds, Keras models, functions of a
 * tf.Module, and variables of TensorFlow 1. Python writes models and requests, and compares the answers with those of
 * TensorFlow's loader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "estoc/predictor.h"
#include "support/interop.h"

#define INPUTS_MAX  16
#define OUTPUTS_MAX 16

static est_dtype dtype_named(est_str name)
{
    static const est_dtype dtypes[] = { EST_F32, EST_F64, EST_I32, EST_U8, EST_I64, EST_BOOL, EST_STRING };

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

static void text_of(est_str blob, char *out, size_t size)
{
    assert_true(blob.size < size);
    memcpy(out, blob.data, blob.size);
    out[blob.size] = '\0';
}

/* Asks a signature, and writes what it gives. */
static void answer(const est_saved_model *model, const char *signature, est_str request, const char *file)
{
    est_predictor   *predictor;
    est_components   outputs;
    interop_blobs    parts;
    est_named_tensor inputs[INPUTS_MAX];
    est_tensor      *values[INPUTS_MAX], *out[OUTPUTS_MAX];
    char             names[INPUTS_MAX][64];
    int              n;
    est_strbuf       text = { 0 };

    interop_check(est_predictor_create(model, signature, NULL, &predictor));
    outputs = est_predictor_outputs(predictor);
    interop_blobs_of(request, &parts);
    n = (int)parts.n / 3;
    assert_true(n <= INPUTS_MAX && outputs.n <= OUTPUTS_MAX);
    for (int i = 0; i < n; i++) {
        text_of(parts.at[3 * i], names[i], sizeof names[i]);
        values[i] = tensor_of(parts.at[3 * i + 1], parts.at[3 * i + 2]);
        inputs[i] = (est_named_tensor){ names[i], values[i] };
    }
    interop_check(est_predictor_run(predictor, (est_named_tensors){ inputs, n }, out));
    for (int i = 0; i < outputs.n; i++) {
        interop_tensor(&text, outputs.data[i].name, out[i]);
        est_tensor_free(out[i]);
    }
    for (int i = 0; i < n; i++) est_tensor_free(values[i]);
    est_predictor_free(predictor);
    interop_blobs_clear(&parts);
    interop_save(file, &text);
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
    est_predictor   *none = NULL;
    interop_blobs    requests;
    est_saved_model *model = load_case("module", &requests);

    assert_int_equal(est_saved_model_signatures(model), 4);
    assert_string_equal(est_saved_model_signature(model, 0)->name, "other");
    assert_int_equal(est_predictor_create(model, "other", NULL, &none), EST_UNIMPLEMENTED);
    assert_non_null(strstr(est_error_message(), "signature 'other': node 'PartitionedCall/"));
    assert_non_null(strstr(est_error_message(), "is not supported"));
    interop_blobs_clear(&requests);
    est_saved_model_free(model);
}

int main(void)
{
    return INTEROP_MAIN("saved_model_load");
}
