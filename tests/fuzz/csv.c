/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the CSV decoder. The first byte chooses the options and the second the number of columns; the rest is the
 * header up to a zero byte, and the row. Fields that are written again must be read again as the same. */
#include <stdlib.h>
#include <string.h>

#include "format/csv.h"

#define COLUMNS_MAX 12

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

/* A copy that ends where its bytes do, so that a look beyond them is seen. */
static est_str copy_of(const uint8_t *bytes, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);

    require(copy != NULL);
    if (size > 0) memcpy(copy, bytes, size);
    return (est_str){ copy, size };
}

static void free_copy(est_str copy)
{
    free((void *)(uintptr_t)copy.data);
}

static void free_tensors(est_tensor **tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) est_tensor_free(tensors[i]);
}

static est_str string_of(const est_tensor *tensor)
{
    return *(const est_str *)est_tensor_data(tensor);
}

static void write_again(const est_csv_decoder *d, est_tensor **tensors, size_t n, char delimiter)
{
    est_strbuf  row = { 0 };
    est_tensor *again[COLUMNS_MAX];

    for (size_t i = 0; i < n; i++) {
        if (i > 0) est_strbuf_append_bytes(&row, &delimiter, 1);
        est_csv_append_field(&row, string_of(tensors[i]), delimiter);
    }
    require(est_csv_decode(d, &(est_str){ est_strbuf_text(&row), row.size }, 1, again, NULL) == EST_OK);
    for (size_t i = 0; i < n; i++) {
        est_str a = string_of(tensors[i]), b = string_of(again[i]);

        require(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
    }
    free_tensors(again, n);
    est_strbuf_clear(&row);
}

static void decode(uint8_t flags, size_t n, est_str header, est_str row)
{
    static const est_dtype   dtypes[] = { EST_STRING, EST_F32, EST_I64, EST_F64, EST_I32 };
    static const char *const names[]  = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" };
    bool                     strings  = (flags & 1) != 0;
    est_csv_options          options  = { .struct_size = sizeof options,
                                          .delimiter   = (flags & 2) != 0 ? '\t' : 0,
                                          .no_quotes   = (flags & 4) != 0,
                                          .trim        = (flags & 8) != 0,
                                          .header      = (flags & 16) != 0,
                                          .na_value    = (flags & 32) != 0 ? "NA" : NULL };
    est_csv_column           columns[COLUMNS_MAX];
    est_csv_decoder         *d;
    est_tensor              *out[COLUMNS_MAX];

    for (size_t i = 0; i < n; i++) {
        columns[i] = (est_csv_column){ .name     = names[i],
                                       .dtype    = strings ? EST_STRING : dtypes[i % 5],
                                       .required = !strings && i == 7 };
    }
    require(est_csv_decoder_create(columns, n, &options, &d) == EST_OK);
    if (!options.header || est_csv_decoder_header(d, header) == EST_OK) {
        if (est_csv_decode(d, &row, 1, out, NULL) == EST_OK) {
            if (strings && !options.header && !options.no_quotes) {
                write_again(d, out, n, options.delimiter != 0 ? '\t' : ',');
            }
            free_tensors(out, n);
        }
    }
    est_csv_decoder_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero;
    est_str        header, row;

    if (size < 2) return 0;
    zero   = memchr(data + 2, 0, size - 2);
    header = copy_of(data + 2, zero != NULL ? (size_t)(zero - data - 2) : 0);
    row    = zero != NULL ? copy_of(zero + 1, (size_t)(data + size - zero - 1)) : copy_of(data + 2, size - 2);
    decode(data[0], 1 + data[1] % COLUMNS_MAX, header, row);
    free_copy(header);
    free_copy(row);
    return 0;
}
