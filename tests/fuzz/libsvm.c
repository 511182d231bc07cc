/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parser of LIBSVM lines. The first byte chooses the options, the rest is lines. What is parsed as one batch
 * must be ragged rows. */
#include <stdlib.h>
#include <string.h>

#include "format/libsvm.h"

#define LINES_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

static void check(const est_libsvm_batch *batch)
{
    const int64_t *indices = est_tensor_data(batch->indices);
    est_ragged     ragged  = { batch->indices, batch->splits };

    require(est_ragged_check(&ragged) == EST_OK);
    require(est_tensor_count(batch->indices) == est_tensor_count(batch->values));
    for (int64_t i = 0; i < est_tensor_count(batch->indices); i++) require(indices[i] >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_libsvm_options options;
    est_libsvm_batch   batch;
    est_str            lines[LINES_MAX];
    size_t             n = 0, bad;
    char              *text, *at;

    if (size < 1) return 0;
    options = (est_libsvm_options){ .one_based = (data[0] & 1) != 0,
                                    .keep_qid  = (data[0] & 2) != 0,
                                    .index_max = (data[0] & 4) != 0 ? 1000 : 0 };
    text    = malloc(size > 1 ? size - 1 : 1); /* ends where the lines do, so that a look beyond them is seen */
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    for (at = text; n < LINES_MAX; n++) {
        size_t left = size - 1 - (size_t)(at - text);
        char  *stop = left > 0 ? memchr(at, '\n', left) : NULL;

        lines[n] = (est_str){ at, stop != NULL ? (size_t)(stop - at) : left };
        if (stop == NULL) break;
        at = stop + 1;
    }
    if (n < LINES_MAX) n++;
    if (est_libsvm_parse(lines, n, &options, &batch, &bad) == EST_OK) {
        check(&batch);
        est_libsvm_batch_clear(&batch);
    } else {
        require(bad < n);
    }
    free(text);
    return 0;
}
