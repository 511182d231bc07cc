/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts: StringLower, StringUpper (of ASCII), StringStrip, StringJoin, StringLength, Substr, StringToNumber.
 *
 * Parts of a text point into it. Bytes of new texts lie in memory that measure() makes, where it sees how many there
 * are, and stay until the next run: so the shape functions leave shapes open in a layout. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "format/number.h"
#include "kernels/parallel.h"
#include "ops/array.h"

/* --- memory of new texts ------------------------------------------------------------------------------------------ */

typedef struct text_memory {
    const char *separator; /* of StringJoin */
    size_t      size;
    char        bytes[];
} text_memory;

static void text_release(est_call *c)
{
    est_free(c->state);
    c->state = NULL;
}

static est_status reserve(est_call *c, size_t size)
{
    text_memory *memory = c->state;

    if (memory != NULL && memory->size >= size) return EST_OK;
    text_release(c);
    memory = est_alloc(sizeof *memory + size);
    if (memory == NULL) return est_no_memory();
    memory->size = size;
    c->state     = memory;
    return EST_OK;
}

static char *memory_of(const est_call *c)
{
    return ((text_memory *)c->state)->bytes;
}

/* The shape while a graph is built, and in a layout none, so that measure() is called. */
static est_status open_shape(est_infer *c, est_shape shape)
{
    c->out[0] = c->building ? shape : EST_SHAPE_UNKNOWN;
    return EST_OK;
}

static void set_shape(est_call *c, const est_shape *shape)
{
    c->out[0].shape = *shape;
    c->out[0].count = est_shape_count(shape);
}

/* --- case --------------------------------------------------------------------------------------------------------- */

static est_status case_infer(est_infer *c)
{
    if (est_node_string(c->node, "encoding")[0] != '\0') {
        return est_fail(EST_UNIMPLEMENTED, "only ASCII letters change their case; leave the encoding empty");
    }
    return open_shape(c, c->in[0]);
}

static est_status case_measure(est_call *c)
{
    const est_str *in   = c->in[0]->data;
    size_t         size = 0;

    for (int64_t i = 0; i < c->in[0]->count; i++) size += in[i].size;
    set_shape(c, &c->in[0]->shape);
    return reserve(c, size);
}

static void change_case(const est_call *c, char first, char last)
{
    const est_str *in  = c->in[0]->data;
    est_str       *out = c->out[0].data;
    char          *to  = memory_of(c);

    for (int64_t i = 0; i < c->in[0]->count; i++) {
        out[i] = (est_str){ to, in[i].size };
        for (size_t k = 0; k < in[i].size; k++) {
            char x = in[i].data[k];

            *to++ = x >= first && x <= last ? (char)(x ^ 0x20) : x;
        }
    }
}

static est_status lower_cpu(est_call *c)
{
    change_case(c, 'A', 'Z');
    return EST_OK;
}

static est_status upper_cpu(est_call *c)
{
    change_case(c, 'a', 'z');
    return EST_OK;
}

const est_op est_op_string_lower = {
    .name      = "StringLower",
    .signature = "input: string -> output: string; encoding: string = \"\"",
    .infer     = case_infer,
    .cpu       = EST_KERNELS({ .run = lower_cpu, .measure = case_measure, .release = text_release }),
};

const est_op est_op_string_upper = {
    .name      = "StringUpper",
    .signature = "input: string -> output: string; encoding: string = \"\"",
    .infer     = case_infer,
    .cpu       = EST_KERNELS({ .run = upper_cpu, .measure = case_measure, .release = text_release }),
};

est_node est_string_lower(est_node x)
{
    return est_build1(&est_op_string_lower, x, EST_NO_ATTRS);
}

est_node est_string_upper(est_node x)
{
    return est_build1(&est_op_string_upper, x, EST_NO_ATTRS);
}

/* --- strip -------------------------------------------------------------------------------------------------------- */

static bool is_space(char x)
{
    return x == ' ' || (x >= '\t' && x <= '\r');
}

static void strip_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const est_call *c   = arg;
    const est_str  *in  = c->in[0]->data;
    est_str        *out = c->out[0].data;

    (void)block;
    for (int64_t i = begin; i < end; i++) {
        size_t from = 0, to = in[i].size;

        while (from < to && is_space(in[i].data[from])) from++;
        while (to > from && is_space(in[i].data[to - 1])) to--;
        out[i] = (est_str){ from < to ? in[i].data + from : "", to - from };
    }
}

static est_status strip_cpu(est_call *c)
{
    est_parallel_for(c->pool, c->in[0]->count, 8, 10.0, strip_range, c);
    return EST_OK;
}

const est_op est_op_string_strip = {
    .name      = "StringStrip",
    .signature = "input: string -> output: string",
    .infer     = est_infer_same_as_input,
    .cpu       = EST_KERNELS({ .run = strip_cpu }),
};

est_node est_string_strip(est_node x)
{
    return est_build1(&est_op_string_strip, x, EST_NO_ATTRS);
}

/* --- join --------------------------------------------------------------------------------------------------------- */

/* Texts of one shape; scalars go with any. */
static est_status join_infer(est_infer *c)
{
    est_shape shape = EST_SHAPE_SCALAR;

    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].rank == 0) continue;
        if (shape.rank == 0) {
            shape = c->in[i];
        } else {
            EST_TRY(est_infer_merge(&shape, &c->in[i], &shape));
        }
    }
    return open_shape(c, shape);
}

static const est_str *part_of(const est_call *c, int part, int64_t i)
{
    return (const est_str *)c->in[part]->data + (c->in[part]->shape.rank == 0 ? 0 : i);
}

static est_status join_measure(est_call *c)
{
    const char *separator = est_node_string(c->node, "separator");
    size_t      between = strlen(separator), size = 0;
    est_shape   shape = EST_SHAPE_SCALAR;

    for (int k = 0; k < c->n_in; k++) {
        if (c->in[k]->shape.rank != 0) shape = c->in[k]->shape;
    }
    set_shape(c, &shape);
    for (int k = 0; k < c->n_in; k++) {
        for (int64_t i = 0; i < c->out[0].count; i++) size += part_of(c, k, i)->size + between;
    }
    c->param[0].i = (int64_t)between;
    EST_TRY(reserve(c, size));
    ((text_memory *)c->state)->separator = separator;
    return EST_OK;
}

static est_status join_cpu(est_call *c)
{
    const char *separator = ((text_memory *)c->state)->separator;
    size_t      between   = (size_t)c->param[0].i;
    est_str    *out       = c->out[0].data;
    char       *to        = memory_of(c);

    for (int64_t i = 0; i < c->out[0].count; i++) {
        char *begin = to;

        for (int k = 0; k < c->n_in; k++) {
            const est_str *part = part_of(c, k, i);

            if (k > 0) {
                memcpy(to, separator, between);
                to += between;
            }
            if (part->size > 0) memcpy(to, part->data, part->size);
            to += part->size;
        }
        out[i] = (est_str){ begin, (size_t)(to - begin) };
    }
    return EST_OK;
}

const est_op est_op_string_join = {
    .name      = "StringJoin",
    .signature = "inputs: N*string -> output: string; N: int; separator: string = \"\"",
    .infer     = join_infer,
    .cpu       = EST_KERNELS({ .run = join_cpu, .measure = join_measure, .release = text_release }),
};

est_node est_string_join(est_nodes parts, const char *separator)
{
    if (parts.n == 0 || !EST_LIST_OK(parts)) return EST_NO_NODE;
    return est_build(parts.data[0].graph, &est_op_string_join, parts,
                     EST_ATTRS(est_attr_string("separator", separator != NULL ? separator : "")));
}

/* --- length and parts --------------------------------------------------------------------------------------------- */

static est_status unit_check(const est_infer *c)
{
    const char *unit = est_node_string(c->node, "unit");

    if (strcmp(unit, "BYTE") == 0 || strcmp(unit, "UTF8_CHAR") == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "unit is \"%s\"; expected \"BYTE\" or \"UTF8_CHAR\"", unit);
}

static est_status unit_prepare(est_call *c)
{
    c->param[0].i = strcmp(est_node_string(c->node, "unit"), "UTF8_CHAR") == 0;
    return EST_OK;
}

static bool starts_character(char x)
{
    return ((unsigned char)x & 0xC0) != 0x80;
}

static int64_t count_characters(const est_str *text)
{
    int64_t n = 0;

    for (size_t k = 0; k < text->size; k++) n += starts_character(text->data[k]);
    return n;
}

static est_status length_infer(est_infer *c)
{
    EST_TRY(unit_check(c));
    return est_infer_same_as_input(c);
}

static est_status length_cpu(est_call *c)
{
    const est_str *in  = c->in[0]->data;
    int32_t       *out = c->out[0].data;

    for (int64_t i = 0; i < c->in[0]->count; i++) {
        out[i] = (int32_t)(c->param[0].i != 0 ? count_characters(&in[i]) : (int64_t)in[i].size);
    }
    return EST_OK;
}

const est_op est_op_string_length = {
    .name      = "StringLength",
    .signature = "input: string -> output: int32; unit: string = \"BYTE\"",
    .infer     = length_infer,
    .cpu       = EST_KERNELS({ .run = length_cpu, .prepare = unit_prepare }),
};

static const char *unit_name(bool characters)
{
    return characters ? "UTF8_CHAR" : "BYTE";
}

est_node est_string_length(est_node x, bool characters)
{
    return est_build1(&est_op_string_length, x, EST_ATTRS(est_attr_string("unit", unit_name(characters))));
}

enum { TEXT, POS, LEN }; /* inputs of Substr */

/* Places and lengths are scalars, or one of each for every text. */
static est_status substr_infer(est_infer *c)
{
    est_shape shape = c->in[TEXT];

    EST_TRY(unit_check(c));
    for (int i = POS; i <= LEN; i++) {
        if (c->in[i].rank != 0) EST_TRY(est_infer_merge(&shape, &c->in[i], &shape));
    }
    c->out[0] = c->in[TEXT];
    return EST_OK;
}

/* Where character `n` starts, from byte `at` on; the end when there are fewer. */
static size_t skip_characters(const est_str *text, size_t at, int64_t n)
{
    while (n > 0 && at < text->size) {
        at++;
        while (at < text->size && !starts_character(text->data[at])) at++;
        n--;
    }
    return at;
}

static est_status substr_cpu(est_call *c)
{
    const est_str *in         = c->in[TEXT]->data;
    est_str       *out        = c->out[0].data;
    bool           characters = c->param[0].i != 0;

    for (int64_t i = 0; i < c->in[TEXT]->count; i++) {
        int64_t at     = est_view_int(c->in[POS], c->in[POS]->shape.rank == 0 ? 0 : i);
        int64_t n      = est_view_int(c->in[LEN], c->in[LEN]->shape.rank == 0 ? 0 : i);
        int64_t length = characters ? count_characters(&in[i]) : (int64_t)in[i].size;
        size_t  from, to;

        if (at < -length || at > length) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "pos %" PRId64 " out of range for string of length %" PRId64 " at index %" PRId64, at,
                            length, i);
        }
        if (at < 0) at += length;
        if (n < 0) n = characters ? 0 : length - at; /* as in TensorFlow */
        if (n > length - at) n = length - at;
        from   = characters ? skip_characters(&in[i], 0, at) : (size_t)at;
        to     = characters ? skip_characters(&in[i], from, n) : (size_t)(at + n);
        out[i] = (est_str){ from < to ? in[i].data + from : "", to - from };
    }
    return EST_OK;
}

const est_op est_op_substr = {
    .name      = "Substr",
    .signature = "input: string, pos: T, len: T -> output: string; T: {int32, int64}; unit: string = \"BYTE\"",
    .infer     = substr_infer,
    .cpu       = EST_KERNELS({ .run = substr_cpu, .prepare = unit_prepare }),
};

est_node est_substr(est_node x, est_node at, est_node size, bool characters)
{
    return est_build3(&est_op_substr, x, at, size, EST_ATTRS(est_attr_string("unit", unit_name(characters))));
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static est_status to_number_cpu(est_call *c)
{
    const est_str *in  = c->in[0]->data;
    void          *out = c->out[0].data;

    for (int64_t i = 0; i < c->in[0]->count; i++) {
        const char       *text = in[i].size > 0 ? in[i].data : "";
        est_number_result result;

        switch (c->out[0].dtype) {
        case EST_F32: result = est_number_f32(text, in[i].size, (float *)out + i); break;
        case EST_F64: result = est_number_f64(text, in[i].size, (double *)out + i); break;
        case EST_I32: result = est_number_i32(text, in[i].size, (int32_t *)out + i); break;
        default: result = est_number_i64(text, in[i].size, (int64_t *)out + i); break;
        }
        if (result != EST_NUMBER_OK) {
            return est_fail(EST_INVALID_ARGUMENT, "StringToNumberOp could not correctly convert string: %.*s",
                            (int)in[i].size, text);
        }
    }
    return EST_OK;
}

const est_op est_op_string_to_number = {
    .name      = "StringToNumber",
    .signature = "string_tensor: string -> output: out_type; out_type: {float32, float64, int32, int64} = float32",
    .infer     = est_infer_same_as_input,
    .cpu       = EST_KERNELS({ .run = to_number_cpu }),
};

est_node est_string_to_number(est_node x, est_dtype dtype)
{
    return est_build1(&est_op_string_to_number, x, EST_ATTRS(est_attr_type("out_type", dtype)));
}
