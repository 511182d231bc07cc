/* SPDX-License-Identifier: Apache-2.0
 *
 * IDX files. The elements are read into the tensor's memory and put into this machine's order there. */
#include "format/idx.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "format/byte_source.h"
#include "tensor/shape.h"

#define INFLATE_RATIO_MAX 1032 /* deflate makes no more bytes out of one */
#define INFLATE_SLACK     1024 /* beside that, for the smallest files */

/* How elements lie in the file. */
typedef struct element_type {
    uint8_t   code;
    uint8_t   size;
    est_dtype dtype; /* of the tensor */
} element_type;

typedef struct header {
    element_type type;
    est_shape    shape;
    int64_t      count;
    uint64_t     bytes; /* of elements in the file */
} header;

static const element_type types[] = {
    { 0x08, 1, EST_U8 },  /* uint8 */
    { 0x09, 1, EST_I32 }, /* int8 */
    { 0x0b, 2, EST_I32 }, /* int16 */
    { 0x0c, 4, EST_I32 }, /* int32 */
    { 0x0d, 4, EST_F32 }, /* float32 */
    { 0x0e, 8, EST_F64 }, /* float64 */
};

static uint16_t load16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)load16(p) << 16 | load16(p + 2);
}

static uint64_t load64(const uint8_t *p)
{
    return (uint64_t)load32(p) << 32 | load32(p + 4);
}

static est_status find_type(const char *path, uint8_t code, element_type *out)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].code != code) continue;
        *out = types[i];
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "%s: unknown IDX type 0x%02x", path, code);
}

static est_status read_header(est_byte_source *source, header *h)
{
    const char *path = est_byte_source_path(source);
    uint8_t     bytes[4 * EST_RANK_MAX];
    size_t      got, rank;
    est_status  status = est_byte_source_read(source, bytes, 4, &got);

    if (status == EST_OUT_OF_RANGE || (status == EST_OK && (bytes[0] != 0 || bytes[1] != 0))) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: not an IDX file: it does not begin with two zero bytes, type and rank", path);
    }
    EST_TRY(status);
    EST_TRY(find_type(path, bytes[2], &h->type));
    rank = bytes[3];
    if (rank > EST_RANK_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: an IDX file of rank %zu, at most %d is possible", path, rank,
                        EST_RANK_MAX);
    }
    status = est_byte_source_read(source, bytes, 4 * rank, &got);
    if (status == EST_OUT_OF_RANGE) {
        return est_fail(EST_DATA_LOSS, "%s: cut short: %zu bytes of its %zu dimensions are there", path, got, rank);
    }
    EST_TRY(status);
    h->shape = (est_shape){ .rank = (int32_t)rank };
    for (size_t i = 0; i < rank; i++) h->shape.dim[i] = load32(bytes + 4 * i);
    status = est_shape_size(&h->shape, h->type.dtype, &h->count, NULL);
    if (status != EST_OK) return est_fail_context(status, "%s", path);
    h->bytes = (uint64_t)h->count * h->type.size; /* the tensor's elements are not smaller, and their size fits */
    return EST_OK;
}

/* Whether the file can hold what its header promises, before memory is asked for. */
static est_status check_size(const est_byte_source *source, const header *h)
{
    uint64_t begin = est_byte_source_tell(source), size = est_byte_source_file_bytes(source), most = size;
    bool     is_plain = est_byte_source_compression(source) == EST_COMPRESSION_NONE;
    char     text[EST_SHAPE_TEXT_MAX];

    if (!is_plain && size < UINT64_MAX / INFLATE_RATIO_MAX / 2) most = size * INFLATE_RATIO_MAX + INFLATE_SLACK;
    if (most >= begin && h->bytes <= most - begin && (!is_plain || h->bytes == most - begin || size == UINT64_MAX)) {
        return EST_OK;
    }
    return est_fail(EST_DATA_LOSS, "%s: shape %s needs %" PRIu64 " bytes, but the file has %" PRIu64 "%s",
                    est_byte_source_path(source), est_shape_text(&h->shape, text), begin + h->bytes, size,
                    is_plain ? "" : " (compressed)");
}

static est_status check_end(est_byte_source *source, const header *h, est_status status, size_t got)
{
    est_str view;

    if (status == EST_OUT_OF_RANGE) {
        return est_fail(EST_DATA_LOSS, "%s: cut short: %zu of %" PRIu64 " bytes of elements are there",
                        est_byte_source_path(source), got, h->bytes);
    }
    EST_TRY(status);
    EST_TRY(est_byte_source_need(source, 1, &view));
    if (view.size == 0) return EST_OK;
    return est_fail(EST_DATA_LOSS, "%s: more bytes follow the %" PRIu64 " of its elements",
                    est_byte_source_path(source), h->bytes);
}

/* From the file's order to this machine's. Small elements lie at the end of the larger ones' memory, so that going
 * forward overwrites only what was read. */
static void convert(const header *h, const uint8_t *from, uint8_t *to)
{
    for (int64_t i = 0; i < h->count && h->type.code != 0x08; i++) {
        uint64_t wide;
        uint32_t word;

        switch (h->type.code) {
        case 0x09: word = (uint32_t)(int8_t)from[i]; break;
        case 0x0b: word = (uint32_t)(int16_t)load16(from + 2 * i); break;
        case 0x0e:
            wide = load64(from + 8 * i);
            memcpy(to + 8 * i, &wide, 8);
            continue;
        default: word = load32(from + 4 * i);
        }
        memcpy(to + 4 * i, &word, 4);
    }
}

static est_status read_elements(est_byte_source *source, const header *h, est_tensor *tensor)
{
    uint8_t   *data = est_tensor_mutable_data(tensor);
    uint8_t   *from = data + (est_tensor_bytes(tensor) - h->bytes);
    size_t     got  = 0;
    est_status status;

    status = est_byte_source_read(source, from, (size_t)h->bytes, &got);
    EST_TRY(check_end(source, h, status, got));
    convert(h, from, data);
    return EST_OK;
}

static est_status read_file(est_byte_source *source, est_tensor **out)
{
    header      h;
    est_tensor *tensor;
    est_status  status;

    EST_TRY(read_header(source, &h));
    EST_TRY(check_size(source, &h));
    EST_TRY(est_tensor_create(h.type.dtype, h.shape, &tensor));
    status = read_elements(source, &h, tensor);
    if (status != EST_OK) {
        est_tensor_free(tensor);
        return status;
    }
    *out = tensor;
    return EST_OK;
}

/* A file of two zero bytes is never taken for a compressed one. */
est_status est_idx_read(const char *path, est_tensor **out)
{
    est_byte_source *source;
    est_status       status;

    EST_REQUIRE(path);
    EST_REQUIRE(out);
    EST_TRY(est_byte_source_open(path, NULL, &source));
    status = read_file(source, out);
    est_byte_source_close(source);
    return status;
}
