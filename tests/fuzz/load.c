/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the loading of a SavedModel: the input is the message of a model beside files of variables that are whole.
 * Functions are inlined, the graph is simplified and imported, variables are restored, and each signature that can run
 * is asked once, about two rows of zeros. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "estoc/estoc.h"

int         LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name is the sanitizer's */

/* A graph may ask for any amount of memory, and then it gets none, as on a machine that has not so much. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

#define ROWS       2
#define INPUTS_MAX 8
#define TIMES_MAX  1000000 /* elements of an input: what is computed of more takes too long */

static char dir[64];

static void require(est_status status)
{
    if (status == EST_OK) return;
    fprintf(stderr, "%s\n", est_error_message());
    abort();
}

static void remove_files(void)
{
    static const char *const files[] = { "variables/variables.index", "variables/variables.data-00000-of-00001",
                                         "saved_model.pb" };
    char                     path[128];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/variables", dir);
    rmdir(path);
    rmdir(dir);
}

/* The variables that the seeds have: a small one, one that is mapped, and a table's. */
static void make_files(void)
{
    char        path[128];
    est_tensor *small, *large, *words, *ids;

    snprintf(dir, sizeof dir, "%s/est-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(dir) == NULL) abort();
    atexit(remove_files);
    snprintf(path, sizeof path, "%s/variables", dir);
    if (mkdir(path, 0700) != 0) abort();
    snprintf(path, sizeof path, "%s/variables/variables", dir);
    require(est_tensor_create(EST_F32, EST_SHAPE(3, 2), &small));
    require(est_tensor_create(EST_F32, EST_SHAPE(256, 64), &large));
    require(est_tensor_create(EST_STRING, EST_SHAPE(2), &words));
    require(est_tensor_set_string(words, 1, "a", 1));
    require(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 3, 4 }, &ids));
    memset(est_tensor_mutable_data(small), 0, est_tensor_bytes(small));
    memset(est_tensor_mutable_data(large), 0, est_tensor_bytes(large));
    require(est_checkpoint_write(
        path, EST_NAMED_TENSORS({ "ids", ids }, { "large", large }, { "w", small }, { "words", words }), NULL));
    est_tensor_free(small);
    est_tensor_free(large);
    est_tensor_free(words);
    est_tensor_free(ids);
}

/* Zeros for an input, its dimensions of any size those of the rows; false: it is too large. */
static bool make_input(const est_component *input, est_tensor **out)
{
    est_shape shape = input->shape;
    int64_t   count = 1;

    if (shape.rank < 0) shape = EST_SHAPE(ROWS);
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dim[i] < 0) shape.dim[i] = ROWS;
        if (__builtin_mul_overflow(count, shape.dim[i], &count) || count > TIMES_MAX) return false;
    }
    if (est_tensor_create(input->dtype, shape, out) != EST_OK) return false;
    if (input->dtype != EST_STRING) memset(est_tensor_mutable_data(*out), 0, est_tensor_bytes(*out));
    return true;
}

static void ask(est_predictor *predictor)
{
    est_components   inputs = est_predictor_inputs(predictor);
    est_prediction  *own    = NULL;
    est_tensor      *tensors[INPUTS_MAX];
    est_named_tensor named[INPUTS_MAX];
    int              n = 0;

    while (n < inputs.n && n < INPUTS_MAX && make_input(&inputs.data[n], &tensors[n])) {
        named[n] = (est_named_tensor){ inputs.data[n].name, tensors[n] };
        n++;
    }
    if (n == inputs.n) {
        require(est_prediction_create(predictor, &own));
        for (int i = 0; i < 2; i++) {
            if (est_prediction_run(own, (est_named_tensors){ named, n }) != EST_OK) break;
        }
        est_prediction_free(own);
    }
    while (n > 0) est_tensor_free(tensors[--n]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_saved_model *model     = NULL;
    est_predictor   *predictor = NULL;
    char             path[128];

    if (dir[0] == '\0') {
        est_log_set_level(EST_LOG_ERROR);
        make_files();
    }
    snprintf(path, sizeof path, "%s/saved_model.pb", dir);
    require(est_file_replace(path, data, size));
    if (est_saved_model_load(dir, EST_SAVED_MODEL(.threads = 1), &model) != EST_OK) return 0;
    for (int i = 0; i < est_saved_model_signatures(model); i++) {
        if (est_predictor_create(model, est_saved_model_signature(model, i)->name, NULL, &predictor) != EST_OK)
            continue;
        ask(predictor);
        est_predictor_free(predictor);
    }
    est_saved_model_free(model);
    return 0;
}
