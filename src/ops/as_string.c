/* SPDX-License-Identifier: Apache-2.0
 *
 * AsString: numbers printed, integers in decimal, floats as "%f", booleans as "true" and "false".
 *
 * The bytes lie in memory that prepare() makes, a place of the longest text for each element, and stay until the next
 * run. Only the default format is here. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/parallel.h"
#include "ops/ops.h"

static est_status as_string_infer(est_infer *c)
{
    const est_node_def *node = c->node;

    if (est_node_int(node, "precision") != -1 || est_node_bool(node, "scientific") || est_node_bool(node, "shortest") ||
        est_node_int(node, "width") != -1 || est_node_string(node, "fill")[0] != '\0') {
        return est_fail(EST_UNIMPLEMENTED, "AsString prints in its default format only; leave precision, scientific, "
                                           "shortest, width and fill as they are");
    }
    return est_infer_same_as_input(c);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct text_memory {
    int64_t places;
    char    bytes[];
} text_memory;

/* Bytes of the longest text with its 0 byte: -2^31, -2^63, and 39 or 309 digits before ".000000". */
static int64_t place_bytes(est_dtype dtype)
{
    switch (dtype) {
    case EST_I32: return 12;
    case EST_I64: return 21;
    case EST_F32: return 48;
    case EST_F64: return 318;
    default: return 0;
    }
}

static void as_string_release(est_call *c)
{
    est_free(c->state);
    c->state = NULL;
}

static est_status as_string_prepare(est_call *c)
{
    const text_memory *old   = c->state;
    int64_t            count = c->in[0]->count, each = place_bytes(c->in[0]->dtype);
    text_memory       *memory;

    if (old != NULL && old->places >= count) return EST_OK;
    if (count > (INT64_MAX - (int64_t)sizeof *memory) / (each + 1)) {
        return est_no_memory();
    }
    memory = est_alloc(sizeof *memory + (size_t)(count * each));
    if (memory == NULL) return est_no_memory();
    as_string_release(c);
    memory->places = count;
    c->state       = memory;
    return EST_OK;
}

/* --- kernel ------------------------------------------------------------------------------------------------------- */

/* Digits from the end of `text`, which is `bytes` long; returns where they begin. */
static est_str print_int(int64_t x, char *text, int64_t bytes)
{
    uint64_t left = x < 0 ? -(uint64_t)x : (uint64_t)x;
    char    *at   = text + bytes;

    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (x < 0) *--at = '-';
    return (est_str){ at, (size_t)(text + bytes - at) };
}

static est_str print_float(double x, char *text, int64_t bytes)
{
    int size = snprintf(text, (size_t)bytes, "%f", x);

    return (est_str){ text, (size_t)size };
}

static void print_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c      = arg;
    const void     *in     = c->in[0]->data;
    est_dtype       dtype  = c->in[0]->dtype;
    int64_t         each   = place_bytes(dtype);
    text_memory    *memory = c->state;
    est_str        *out    = c->out[0].data;

    (void)block;
    for (int64_t i = begin; i < end; i++) {
        char *text = memory->bytes + i * each;

        switch (dtype) {
        case EST_I32: out[i] = print_int(((const int32_t *)in)[i], text, each); break;
        case EST_I64: out[i] = print_int(((const int64_t *)in)[i], text, each); break;
        case EST_F32: out[i] = print_float((double)((const float *)in)[i], text, each); break;
        case EST_F64: out[i] = print_float(((const double *)in)[i], text, each); break;
        default: out[i] = ((const uint8_t *)in)[i] != 0 ? (est_str){ "true", 4 } : (est_str){ "false", 5 }; break;
        }
    }
}

static est_status as_string_cpu(est_call *c)
{
    bool is_float = c->in[0]->dtype == EST_F32 || c->in[0]->dtype == EST_F64;

    est_parallel_for(c->pool, c->in[0]->count, 16, is_float ? 250.0 : 15.0, print_range, c);
    return EST_OK;
}

const est_op est_op_as_string = {
    .name      = "AsString",
    .signature = "input: T -> output: string; T: {float32, float64, int32, int64, bool}; precision: int = -1; "
                 "scientific: bool = false; shortest: bool = false; width: int = -1; fill: string = \"\"",
    .infer     = as_string_infer,
    .cpu       = EST_KERNELS({ .run = as_string_cpu, .prepare = as_string_prepare, .release = as_string_release }),
};

est_node est_as_string(est_node x)
{
    return est_build1(&est_op_as_string, x, EST_NO_ATTRS);
}
