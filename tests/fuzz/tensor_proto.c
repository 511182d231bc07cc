/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes TensorProto: what is read must be written and read again as the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format/tensor_proto.h"

#define ELEMENTS_MAX (1 << 20) /* larger ones are allowed, but only slow the search down */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_small(est_str message)
{
    est_tensor_proto_header header;

    return est_tensor_proto_parse_header(message, &header) == EST_OK && est_shape_count(&header.shape) <= ELEMENTS_MAX;
}

static void expect_same(const est_tensor *a, const est_tensor *b)
{
    if (est_tensor_dtype(a) != est_tensor_dtype(b)) abort();
    if (!est_shape_equal(est_tensor_shape(a), est_tensor_shape(b))) abort();
    if (est_tensor_count(a) == 0) return;
    if (est_tensor_dtype(a) != EST_STRING) {
        if (memcmp(est_tensor_data(a), est_tensor_data(b), est_tensor_bytes(a)) != 0) abort();
        return;
    }
    for (int64_t i = 0; i < est_tensor_count(a); i++) {
        const est_str *x = (const est_str *)est_tensor_data(a) + i, *y = (const est_str *)est_tensor_data(b) + i;

        if (x->size != y->size || memcmp(x->data, y->data, x->size) != 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    est_str         message = { (const char *)data, size };
    est_wire_writer w       = { 0 };
    est_tensor     *tensor, *again;

    if (!is_small(message) || est_tensor_proto_parse(message, &tensor) != EST_OK) return 0;
    est_tensor_proto_put(&w, tensor);
    if (est_wire_writer_status(&w) != EST_OK) abort();
    if (est_tensor_proto_parse((est_str){ (const char *)w.data, w.size }, &again) != EST_OK) abort();
    expect_same(tensor, again);
    est_tensor_free(tensor);
    est_tensor_free(again);
    est_wire_writer_clear(&w);
    return 0;
}
