/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the decoding of datasets. One that is decoded is encoded again, and these bytes must give the same bytes: so
 * nothing that a stage keeps is lost. It is not read, because its stages may name any file. */
#include <stdlib.h>
#include <string.h>

#include "data/encode.h"
#include "estoc/log.h"

int         LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name is the sanitizer's */

/* A graph may ask for any amount of memory, and then it gets none, as on a machine that has not so much. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

static void require(bool holds)
{
    if (!holds) abort();
}

static est_str bytes_of(const est_wire_writer *w)
{
    return (est_str){ (const char *)w->data, w->size };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_wire_writer first = { 0 }, second = { 0 };
    est_dataset    *dataset, *again;

    est_log_set_level(EST_LOG_ERROR);
    if (est_dataset_decode((est_str){ (const char *)data, size }, &dataset) != EST_OK) return 0;
    require(est_dataset_encode(dataset, &first) == EST_OK);
    require(est_dataset_decode(bytes_of(&first), &again) == EST_OK);
    require(est_dataset_encode(again, &second) == EST_OK);
    require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    est_wire_writer_clear(&first);
    est_wire_writer_clear(&second);
    est_dataset_free(dataset);
    est_dataset_free(again);
    return 0;
}
