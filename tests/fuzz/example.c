/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parsers of Example and SequenceExample, with features of every type and kind of rows. Parsing twice, and
 * twice in one batch, must give the same; splits must be right. */
#include <stdlib.h>
#include <string.h>

#include "estoc/example.h"

#define N(a) (sizeof(a) / sizeof(a)[0])

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const est_feature_spec ragged[] = {
    { .name = "a", .dtype = EST_I64, .rows = EST_ROWS_RAGGED },
    { .name = "s", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
    { .name = "x", .dtype = EST_F32, .rows = EST_ROWS_RAGGED },
    { .name = "p", .dtype = EST_I64, .rows = EST_ROWS_PADDED, .shape = { 1, { 2 } } },
    { .name = "", .dtype = EST_STRING, .rows = EST_ROWS_PADDED },
};
static const est_feature_spec fixed[] = {
    { .name = "a", .dtype = EST_I64, .shape = { 1, { 2 } } },
    { .name = "s", .dtype = EST_STRING },
    { .name = "x", .dtype = EST_F32, .shape = { 1, { 2 } } },
};

static void require(bool holds)
{
    if (!holds) abort();
}

/* Values, and the bytes of strings, are there to be read. */
static void touch(const est_tensor *tensor)
{
    volatile char sum = 0;

    if (tensor == NULL || est_tensor_dtype(tensor) != EST_STRING) return;
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        const est_str *s = (const est_str *)est_tensor_data(tensor) + i;

        for (size_t k = 0; k < s->size; k++) sum = (char)(sum + s->data[k]);
    }
}

/* The batch of one example twice: both rows are the same. */
static void check_batch(const est_feature_batch *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        touch(batch[i].values);
        if (batch[i].lengths != NULL) {
            const int64_t *lengths = est_tensor_data(batch[i].lengths);

            require(lengths[0] == lengths[1]);
        }
        if (batch[i].splits != NULL) {
            const int64_t *splits = est_tensor_data(batch[i].splits);

            require(splits[0] == 0 && splits[2] == 2 * splits[1]);
            if (batch[i].step_splits != NULL)
                require(est_tensor_count(batch[i].step_splits) == splits[2] + 1);
            else
                require(est_ragged_check(&(est_ragged){ batch[i].values, batch[i].splits }) == EST_OK);
        }
    }
}

static void parse_example(const est_feature_spec *specs, size_t n, const est_str *twice)
{
    est_example_parser *parser;
    est_feature_batch   batch[N(ragged)];

    require(est_example_parser_create((est_feature_specs){ specs, n }, &parser) == EST_OK);
    for (int pass = 0; pass < 2; pass++) {
        if (est_example_parse(parser, twice, 2, batch) != EST_OK) continue;
        check_batch(batch, n);
        est_feature_batch_clear(batch, n);
    }
    est_example_parser_free(parser);
}

static void parse_sequence(const est_feature_spec *lists, size_t n, const est_str *twice)
{
    est_sequence_parser *parser;
    est_feature_batch    context[N(ragged)], batch[N(ragged)];

    require(est_sequence_parser_create((est_feature_specs){ ragged, N(ragged) }, (est_feature_specs){ lists, n },
                                       &parser) == EST_OK);
    if (est_sequence_parse(parser, twice, 2, context, batch) == EST_OK) {
        check_batch(context, N(ragged));
        check_batch(batch, n);
        est_feature_batch_clear(context, N(ragged));
        est_feature_batch_clear(batch, n);
    }
    est_sequence_parser_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_str twice[2] = { { (const char *)data, size }, { (const char *)data, size } };

    parse_example(ragged, N(ragged), twice);
    parse_example(fixed, N(fixed), twice);
    parse_sequence(ragged, N(ragged), twice);
    parse_sequence(fixed, N(fixed), twice);
    return 0;
}
