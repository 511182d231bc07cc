/* SPDX-License-Identifier: Apache-2.0
 *
 * arrow_stream: tables of a producer made by hand. Columns are described as static data; the producer copies every
 * buffer into memory of its exact size, and frees it when it is released, so that the sanitizers see every look beyond
 * a buffer and every use after the release. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/arrow.h"
#include "support/source_test.h"
#include "support/test.h"

/* --- the producer ------------------------------------------------------------------------------------------------- */

typedef struct buffer {
    const void *data;
    size_t      size;
} buffer;

#define BUFFER(type, ...)                                                                                              \
    {                                                                                                                  \
        (const type[]){ __VA_ARGS__ }, sizeof((const type[]){ __VA_ARGS__ })                                           \
    }
#define BYTES(text)                                                                                                    \
    {                                                                                                                  \
        text, sizeof text - 1                                                                                          \
    }
#define NONE                                                                                                           \
    {                                                                                                                  \
        NULL, 0                                                                                                        \
    }

typedef struct column {
    const char          *name, *format;
    int64_t              length, nulls, offset;
    int                  n_buffers;
    buffer               buffers[6];
    const struct column *child, *dictionary;
} column;

typedef struct chunk {
    int64_t       length, offset;
    const column *columns[4];
} chunk;

/* A table, and how its producer misbehaves. */
typedef struct table {
    const chunk *chunks; /* the first has the schema */
    int          n_chunks;
    int          opens_max; /* 0: any number */
    int          fails_at;  /* get_next of this number, from 1, fails */
    int          schema_error;
    void (*spoil_schema)(struct ArrowSchema *schema);
    void (*spoil_array)(struct ArrowArray *array);
    int opens;      /* so far */
    int live;       /* streams, schemas and arrays that are not released */
    int live_batch; /* record batches among them */
} table;

typedef struct private_data {
    table *table;
    int    next; /* of a stream */
} private_data;

static private_data *private_of(table *t)
{
    private_data *p = calloc(1, sizeof *p);

    assert_non_null(p);
    p->table = t;
    t->live++;
    return p;
}

static void forget(private_data *p)
{
    p->table->live--;
    free(p);
}

static void schema_release(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i]->release != NULL) schema->children[i]->release(schema->children[i]);
        free(schema->children[i]);
    }
    free(schema->children);
    if (schema->dictionary != NULL) {
        schema->dictionary->release(schema->dictionary);
        free(schema->dictionary);
    }
    forget(schema->private_data);
    schema->release = NULL;
}

static void make_schema(table *t, const column *c, struct ArrowSchema *out);

static struct ArrowSchema *new_schema(table *t, const column *c)
{
    struct ArrowSchema *schema = calloc(1, sizeof *schema);

    assert_non_null(schema);
    make_schema(t, c, schema);
    return schema;
}

static void make_schema(table *t, const column *c, struct ArrowSchema *out)
{
    *out = (struct ArrowSchema){
        .format = c->format, .name = c->name, .release = schema_release, .private_data = private_of(t)
    };
    if (c->child != NULL) {
        out->n_children  = 1;
        out->children    = calloc(1, sizeof(struct ArrowSchema *));
        out->children[0] = new_schema(t, c->child);
    }
    if (c->dictionary != NULL) out->dictionary = new_schema(t, c->dictionary);
}

static int n_columns(const chunk *c)
{
    int n = 0;

    while (n < 4 && c->columns[n] != NULL) n++;
    return n;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    table *t = ((private_data *)stream->private_data)->table;
    int    n = n_columns(&t->chunks[0]);

    if (t->schema_error != 0) return t->schema_error;
    make_schema(t, &(column){ .name = "", .format = "+s" }, out);
    out->n_children = n;
    out->children   = calloc((size_t)n + 1, sizeof(struct ArrowSchema *));
    for (int i = 0; i < n; i++) out->children[i] = new_schema(t, t->chunks[0].columns[i]);
    if (t->spoil_schema != NULL) t->spoil_schema(out);
    return 0;
}

/* Numbers of buffers and children for the release, whatever was done to those of the struct. */
typedef struct array_data {
    private_data       base;
    int64_t            n_buffers, n_children;
    struct ArrowArray *dictionary;
} array_data;

static void array_release(struct ArrowArray *array)
{
    array_data *own = array->private_data;

    for (int64_t i = 0; i < own->n_buffers; i++) free((void *)(uintptr_t)array->buffers[i]);
    free((void *)array->buffers);
    for (int64_t i = 0; i < own->n_children; i++) {
        array->children[i]->release(array->children[i]);
        free(array->children[i]);
    }
    free(array->children);
    if (own->dictionary != NULL) {
        own->dictionary->release(own->dictionary);
        free(own->dictionary);
    }
    own->base.table->live--;
    free(own);
    array->release = NULL;
}

static void batch_release(struct ArrowArray *array)
{
    ((array_data *)array->private_data)->base.table->live_batch--;
    array_release(array);
}

static void *copy_of(buffer b)
{
    void *copy = malloc(b.size > 0 ? b.size : 1);

    assert_non_null(copy);
    if (b.size > 0) memcpy(copy, b.data, b.size);
    return copy;
}

static struct ArrowArray *new_array(table *t, const column *c);

static void make_array(table *t, const column *c, struct ArrowArray *out)
{
    array_data *own = calloc(1, sizeof *own);

    assert_non_null(own);
    own->base.table = t;
    own->n_buffers  = c->n_buffers;
    own->n_children = c->child != NULL;
    t->live++;
    *out = (struct ArrowArray){ .length       = c->length,
                                .null_count   = c->nulls,
                                .offset       = c->offset,
                                .n_buffers    = c->n_buffers,
                                .n_children   = own->n_children,
                                .buffers      = calloc(6, sizeof(void *)),
                                .release      = array_release,
                                .private_data = own };
    for (int i = 0; i < c->n_buffers; i++) {
        if (c->buffers[i].data != NULL) out->buffers[i] = copy_of(c->buffers[i]);
    }
    if (c->child != NULL) {
        out->children    = calloc(1, sizeof(struct ArrowArray *));
        out->children[0] = new_array(t, c->child);
    }
    if (c->dictionary != NULL) out->dictionary = own->dictionary = new_array(t, c->dictionary);
}

static struct ArrowArray *new_array(table *t, const column *c)
{
    struct ArrowArray *array = calloc(1, sizeof *array);

    assert_non_null(array);
    make_array(t, c, array);
    return array;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    private_data *own = stream->private_data;
    table        *t   = own->table;
    const chunk  *c;
    int           n;

    if (++own->next == t->fails_at) return EIO;
    memset(out, 0, sizeof *out);
    if (own->next > t->n_chunks) return 0;
    c = &t->chunks[own->next - 1];
    n = n_columns(c);
    make_array(t, &(column){ .length = c->length, .offset = c->offset, .n_buffers = 1 }, out);
    out->children   = calloc((size_t)n + 1, sizeof(struct ArrowArray *));
    out->n_children = ((array_data *)out->private_data)->n_children = n;
    for (int i = 0; i < n; i++) out->children[i] = new_array(t, c->columns[i]);
    out->release = batch_release;
    t->live_batch++;
    if (t->spoil_array != NULL) t->spoil_array(out);
    return 0;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "the disk is on fire";
}

static void stream_release(struct ArrowArrayStream *stream)
{
    forget(stream->private_data);
    stream->release = NULL;
}

static est_status open_table(void *user, struct ArrowArrayStream *out)
{
    table *t = user;

    t->opens++;
    if (t->opens_max > 0 && t->opens > t->opens_max) return est_fail(EST_UNAVAILABLE, "the table was read already");
    *out = (struct ArrowArrayStream){ .get_schema     = get_schema,
                                      .get_next       = get_next,
                                      .get_last_error = get_last_error,
                                      .release        = stream_release,
                                      .private_data   = private_of(t) };
    return EST_OK;
}

/* --- elements as text --------------------------------------------------------------------------------------------- */

static char   text[4096];
static size_t text_size;

static void put(const char *fmt, ...) EST_PRINTF(1, 2);
static void put(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    text_size += (size_t)vsnprintf(text + text_size, sizeof text - text_size, fmt, args);
    va_end(args);
    assert_true(text_size < sizeof text);
}

static void put_value(const est_tensor *tensor, int64_t i)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: put("%g", (double)((const float *)data)[i]); break;
    case EST_F64: put("%g", ((const double *)data)[i]); break;
    case EST_I32: put("%" PRId32, ((const int32_t *)data)[i]); break;
    case EST_I64: put("%" PRId64, ((const int64_t *)data)[i]); break;
    case EST_U8: put("%d", ((const uint8_t *)data)[i]); break;
    case EST_BOOL: put("%s", ((const uint8_t *)data)[i] != 0 ? "yes" : "no"); break;
    default: put("%.*s", (int)((const est_str *)data)[i].size, ((const est_str *)data)[i].data); break;
    }
}

static void put_values(const est_tensor *tensor, int64_t from, int64_t to)
{
    put("[");
    for (int64_t i = from; i < to; i++) {
        if (i > from) put(" ");
        put_value(tensor, i);
    }
    put("]");
}

/* "1" for a scalar, "[1 2]" for a tensor, "[1 2][3]" for rows. */
static void put_field(const est_field *field)
{
    const est_shape *shape  = est_tensor_shape(field->values);
    const int64_t   *splits = field->splits != NULL ? est_tensor_data(field->splits) : NULL;
    int64_t          inner  = 1;

    if (splits == NULL) {
        if (shape->rank == 0) {
            put_value(field->values, 0);
        } else {
            put_values(field->values, 0, est_tensor_count(field->values));
        }
        return;
    }
    for (int i = 1; i < shape->rank; i++) inner *= shape->dim[i];
    for (int64_t r = 0; r + 1 < est_tensor_count(field->splits); r++) {
        put_values(field->values, splits[r] * inner, splits[r + 1] * inner);
    }
}

/* All elements, and the end; or the error. The dataset is freed, and the producer must then have nothing out. */
static const char *all_of(est_dataset *dataset)
{
    est_iterator *rows;
    est_field     element[4];
    est_status    status;
    int           n;

    text_size = 0;
    text[0]   = '\0';
    status    = est_dataset_finish(dataset, &dataset);
    if (status != EST_OK) return est_error_message();
    n = est_dataset_components(dataset);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    while ((status = est_iterator_next(rows, element)) == EST_OK) {
        for (int i = 0; i < n; i++) {
            if (i > 0) put(" ");
            put_field(&element[i]);
        }
        put("|");
        est_element_clear(element, n);
    }
    if (status != EST_OUT_OF_RANGE) put("%s", est_error_message());
    est_iterator_free(rows);
    est_dataset_free(dataset);
    return text;
}

static void expect(table *t, const est_arrow_options *options, const char *want)
{
    assert_string_equal(all_of(est_dataset_arrow_stream(open_table, t, options)), want);
    assert_int_equal(t->live, 0);
    assert_int_equal(t->live_batch, 0);
}

/* The error has this in it. */
static void expect_error(table *t, const est_arrow_options *options, const char *want)
{
    const char *found = all_of(est_dataset_arrow_stream(open_table, t, options));

    if (strstr(found, want) == NULL) fail_msg("found \"%s\", expected \"%s\" in it", found, want);
    assert_int_equal(t->live, 0);
}

/* A table of one record batch of one column. */
static void expect_column(const column *c, int64_t rows, const est_arrow_options *options, const char *want)
{
    chunk one = { .length = rows, .columns = { c } };
    table t   = { .chunks = &one, .n_chunks = 1 };

    expect(&t, options, want);
}

/* --- types -------------------------------------------------------------------------------------------------------- */

static const struct {
    column      column; /* of two values */
    est_dtype   dtype;
    const char *want;
} numbers[] = {
    { { "x", "c", 2, 0, 0, 2, { NONE, BUFFER(int8_t, -128, 127) } }, EST_I32, "-128|127|" },
    { { "x", "C", 2, 0, 0, 2, { NONE, BUFFER(uint8_t, 0, 255) } }, EST_U8, "0|255|" },
    { { "x", "s", 2, 0, 0, 2, { NONE, BUFFER(int16_t, -32768, 32767) } }, EST_I32, "-32768|32767|" },
    { { "x", "S", 2, 0, 0, 2, { NONE, BUFFER(uint16_t, 1, 65535) } }, EST_I32, "1|65535|" },
    { { "x", "i", 2, 0, 0, 2, { NONE, BUFFER(int32_t, INT32_MIN, 7) } }, EST_I32, "-2147483648|7|" },
    { { "x", "I", 2, 0, 0, 2, { NONE, BUFFER(uint32_t, 1, UINT32_MAX) } }, EST_I64, "1|4294967295|" },
    { { "x", "l", 2, 0, 0, 2, { NONE, BUFFER(int64_t, INT64_MIN, 9) } }, EST_I64, "-9223372036854775808|9|" },
    { { "x", "L", 2, 0, 0, 2, { NONE, BUFFER(uint64_t, 3, INT64_MAX) } }, EST_I64, "3|9223372036854775807|" },
    { { "x", "e", 2, 0, 0, 2, { NONE, BUFFER(uint16_t, 0x3e00, 0xc000) } }, EST_F32, "1.5|-2|" },
    { { "x", "e", 2, 0, 0, 2, { NONE, BUFFER(uint16_t, 0x0001, 0x7bff) } }, EST_F32, "5.96046e-08|65504|" },
    { { "x", "e", 2, 0, 0, 2, { NONE, BUFFER(uint16_t, 0xfc00, 0x7e00) } }, EST_F32, "-inf|nan|" },
    { { "x", "f", 2, 0, 0, 2, { NONE, BUFFER(float, 0.5F, -3) } }, EST_F32, "0.5|-3|" },
    { { "x", "g", 2, 0, 0, 2, { NONE, BUFFER(double, 1e300, -0.25) } }, EST_F64, "1e+300|-0.25|" },
    { { "x", "b", 2, 0, 3, 2, { NONE, BUFFER(uint8_t, 0x10) } }, EST_BOOL, "no|yes|" },
    { { "x", "tdD", 2, 0, 0, 2, { NONE, BUFFER(int32_t, 19000, -1) } }, EST_I32, "19000|-1|" },
    { { "x", "tdm", 2, 0, 0, 2, { NONE, BUFFER(int64_t, 86400000, 0) } }, EST_I64, "86400000|0|" },
    { { "x", "tts", 2, 0, 0, 2, { NONE, BUFFER(int32_t, 60, 61) } }, EST_I32, "60|61|" },
    { { "x", "ttu", 2, 0, 0, 2, { NONE, BUFFER(int64_t, 60, 61) } }, EST_I64, "60|61|" },
    { { "x", "tsu:", 2, 0, 0, 2, { NONE, BUFFER(int64_t, 5, 6) } }, EST_I64, "5|6|" },
    { { "x", "tsn:Europe/Paris", 2, 0, 0, 2, { NONE, BUFFER(int64_t, 5, 6) } }, EST_I64, "5|6|" },
    { { "x", "tDm", 2, 0, 0, 2, { NONE, BUFFER(int64_t, 5, 6) } }, EST_I64, "5|6|" },
};

TEST(numbers)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        chunk        one = { .length = 2, .columns = { &numbers[i].column } };
        table        t   = { .chunks = &one, .n_chunks = 1 };
        est_dataset *dataset;

        expect(&t, NULL, numbers[i].want);
        t = (table){ .chunks = &one, .n_chunks = 1 };
        assert_int_equal(est_dataset_finish(est_dataset_arrow_stream(open_table, &t, NULL), &dataset), EST_OK);
        assert_int_equal(est_dataset_component(dataset, 0)->dtype, numbers[i].dtype);
        est_dataset_free(dataset);
    }
}

static const column large_u64 = { "x", "L", 2, 0, 0, 2, { NONE, BUFFER(uint64_t, 1, UINT64_MAX) } };

TEST(uint64_beyond_int64)
{
    chunk one = { .length = 2, .columns = { &large_u64 } };
    table t   = { .chunks = &one, .n_chunks = 1 };

    expect_error(&t, NULL, "column \"x\", row 1: above 2^63 - 1");
}

/* Views: 12 bytes in place, or size, prefix, buffer and offset. */
#define LONG_VIEW(size, buffer, offset) size, 0, 0, 0, 'p', 'r', 'e', 'f', buffer, 0, 0, 0, offset, 0, 0, 0
#define SHORT_VIEW(size, a, b, c)       size, 0, 0, 0, a, b, c, 0, 0, 0, 0, 0, 0, 0, 0, 0

static const column words = { "u", "u", 3, 0, 0, 3, { NONE, BUFFER(int32_t, 0, 2, 2, 5), BYTES("abxyz") } };
static const column large = { "U", "U", 3, 0, 1, 3, { NONE, BUFFER(int64_t, 7, 7, 8, 8, 10), BYTES("0123456789") } };
static const column views = { "vu",
                              "vu",
                              3,
                              0,
                              0,
                              5,
                              { NONE,
                                BUFFER(char, SHORT_VIEW(2, 'h', 'i', 0), LONG_VIEW(13, 1, 2), SHORT_VIEW(0, 0, 0, 0)),
                                BYTES("?"), BYTES("__thirteen bytes"), BUFFER(int64_t, 1, 16) } };
static const column fixed = { "w:2", "w:2", 3, 0, 1, 2, { NONE, BYTES("..aabbcc") } };

TEST(strings)
{
    chunk one = { .length = 3, .columns = { &words, &large, &views, &fixed } };
    table t   = { .chunks = &one, .n_chunks = 1 };

    expect(&t, NULL, "ab 7 hi aa|  thirteen byte bb|xyz 89  cc|");
    expect(&t, EST_ARROW(.batch = 2), "[ab ] [7 ] [hi thirteen byte] [aa bb]|[xyz] [89] [] [cc]|");
}

static const column cities = {
    "", "u", 3, 1, 0, 3, { BUFFER(uint8_t, 5), BUFFER(int32_t, 0, 3, 3, 6), BYTES("BerRom") }
};
static const column coded      = { "city", "c",    4, 1, 0, 2, { BUFFER(uint8_t, 13), BUFFER(int8_t, 2, 99, 0, 2) },
                                   NULL,   &cities };
static const column coded_null = { "city", "I", 2, 0, 0, 2, { NONE, BUFFER(uint32_t, 0, 1) }, NULL, &cities };
static const column prices     = { "", "f", 2, 0, 0, 2, { NONE, BUFFER(float, 0.5F, 2.5F) } };
static const column coded_f    = { "price", "l", 3, 0, 0, 2, { NONE, BUFFER(int64_t, 1, 0, 1) }, NULL, &prices };

TEST(dictionaries)
{
    expect_column(&coded, 4, EST_ARROW(.nulls = EST_ARROW_MISSING), "Rom||Ber|Rom|");
    expect_column(&coded, 4, EST_ARROW(.batch = 4, .defaults = EST_ARROW_DEFAULTS({ "city", "?" })),
                  "[Rom ? Ber Rom]|");
    expect_column(&coded_null, 2, EST_ARROW(.defaults = EST_ARROW_DEFAULTS({ "city", "none" })), "Ber|none|");
    expect_column(&coded_null, 2, NULL,
                  "column \"city\", row 1: null; give the column a default, or take nulls as missing values");
    expect_column(&coded_f, 3, NULL, "2.5|0.5|2.5|");
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static const column items = { "item", "i", 7, 0, 1, 2, { NONE, BUFFER(int32_t, 0, 1, 2, 3, 4, 5, 6, 7) } };
static const column lists = { "tags", "+l", 4, 0, 0, 2, { NONE, BUFFER(int32_t, 0, 2, 2, 3, 6) }, &items };
static const column longs = { "tags", "+L", 3, 0, 1, 2, { NONE, BUFFER(int64_t, 0, 1, 1, 3, 7) }, &items };
static const column holes = {
    "tags", "+l", 4, 1, 0, 2, { BUFFER(uint8_t, 0xd), BUFFER(int32_t, 0, 2, 4, 5, 7) }, &items
};
static const column halves  = { "item", "i", 4, 1, 0, 2, { BUFFER(uint8_t, 0xb), BUFFER(int32_t, 1, 2, 99, 4) } };
static const column partial = { "tags", "+l", 2, 0, 0, 2, { NONE, BUFFER(int32_t, 0, 1, 4) }, &halves };
static const column texts   = { "item", "u", 3, 0, 0, 3, { NONE, BUFFER(int32_t, 0, 1, 2, 4), BYTES("abcd") } };
static const column sayings = { "says", "+l", 2, 0, 0, 2, { NONE, BUFFER(int32_t, 0, 2, 3) }, &texts };

TEST(lists_are_ragged)
{
    est_arrow_options missing = *EST_ARROW(.nulls = EST_ARROW_MISSING);

    expect_column(&lists, 4, NULL, "[1 2]|[]|[3]|[4 5 6]|");
    expect_column(&lists, 4, EST_ARROW(.batch = 3), "[1 2][][3]|[4 5 6]|");
    expect_column(&longs, 3, EST_ARROW(.batch = 3), "[][2 3][4 5 6 7]|");
    expect_column(&sayings, 2, EST_ARROW(.batch = 2), "[a b][cd]|");
    expect_column(&holes, 4, &missing, "[1 2]|[]|[5]|[6 7]|");
    expect_column(&holes, 4, EST_ARROW(.batch = 4, .nulls = EST_ARROW_MISSING), "[1 2][][5][6 7]|");
    expect_column(&partial, 2, &missing, "[1]|[2 -1 4]|");
    expect_column(&partial, 2, EST_ARROW(.defaults = EST_ARROW_DEFAULTS({ "tags", "7" })), "[1]|[2 7 4]|");
}

TEST(nulls_of_lists_name_the_row)
{
    expect_column(&holes, 4, NULL,
                  "column \"tags\", row 1: null; give the column a default, or take nulls as missing values");
    expect_column(&partial, 2, NULL,
                  "column \"tags\", row 1: null; give the column a default, or take nulls as missing values");
}

static const column pixels = { "item", "f", 8, 0, 0, 2, { NONE, BUFFER(float, 0, 1, 2, 3, 4, 5, 6, 7) } };
static const column pairs  = { "item", "+w:2", 4, 0, 0, 1, { NONE }, &pixels };
static const column pair   = { "xy", "+w:2", 2, 0, 1, 1, { NONE }, &pixels };
static const column image  = { "image", "+w:2", 2, 0, 0, 1, { NONE }, &pairs };
static const column points = { "path", "+l", 2, 0, 0, 2, { NONE, BUFFER(int32_t, 0, 1, 4) }, &pairs };
static const column blurry = { "xy", "+w:2", 3, 1, 0, 1, { BUFFER(uint8_t, 5) }, &pixels };

TEST(fixed_size_lists_are_dimensions)
{
    chunk        one = { .length = 2, .columns = { &image, &points } };
    table        t   = { .chunks = &one, .n_chunks = 1 };
    est_dataset *dataset;

    expect_column(&pair, 2, NULL, "[2 3]|[4 5]|");
    expect_column(&blurry, 3, EST_ARROW(.nulls = EST_ARROW_MISSING), "[0 1]|[nan nan]|[4 5]|");
    expect(&t, EST_ARROW(.batch = 2), "[0 1 2 3 4 5 6 7] [0 1][2 3 4 5 6 7]|");
    t = (table){ .chunks = &one, .n_chunks = 1 };
    assert_int_equal(est_dataset_finish(est_dataset_arrow_stream(open_table, &t, NULL), &dataset), EST_OK);
    assert_true(est_shape_equal(&est_dataset_component(dataset, 0)->shape, &EST_SHAPE(2, 2)));
    assert_true(est_shape_equal(&est_dataset_component(dataset, 1)->shape, &EST_SHAPE(-1, 2)));
    assert_false(est_dataset_component(dataset, 1)->ragged);
    est_dataset_free(dataset);
}

/* --- nulls -------------------------------------------------------------------------------------------------------- */

static const column ages   = { "age", "f", 3, 1, 0, 2, { BUFFER(uint8_t, 5), BUFFER(float, 1, 2, 3) } };
static const column counts = { "n", "s", 3, -1, 0, 2, { BUFFER(uint8_t, 6), BUFFER(int16_t, 7, 8, 9) } };
static const column names  = {
     "name", "u", 3, 1, 0, 3, { BUFFER(uint8_t, 3), BUFFER(int32_t, 0, 1, 2, 3), BYTES("abc") }
};
static const column flags  = { "flag", "b", 3, 1, 0, 2, { BUFFER(uint8_t, 6), BUFFER(uint8_t, 2) } };
static const column small  = { "u8", "C", 3, 1, 0, 2, { BUFFER(uint8_t, 6), BUFFER(uint8_t, 1, 2, 3) } };
static const column unseen = {
    "vu", "vu", 2, 1, 0, 3, { BUFFER(uint8_t, 1), BUFFER(char, SHORT_VIEW(1, 'a', 0, 0), LONG_VIEW(99, 9, 9)), NONE }
};

TEST(nulls_are_errors_with_the_row)
{
    chunk one = { .length = 3, .columns = { &ages } };
    table t   = { .chunks = &one, .n_chunks = 1 };

    expect_error(&t, NULL, "column \"age\", row 1: null; give the column a default, or take nulls as missing values");
    expect_error(&t, EST_ARROW(.batch = 3), "column \"age\", row 1: null");
}

TEST(nulls_are_missing_values)
{
    chunk one = { .length = 3, .columns = { &ages, &counts, &names } };
    table t   = { .chunks = &one, .n_chunks = 1 };

    expect(&t, EST_ARROW(.nulls = EST_ARROW_MISSING), "1 -1 a|nan 8 b|3 9 |");
    expect(&t,
           EST_ARROW(.nulls = EST_ARROW_MISSING, .defaults = EST_ARROW_DEFAULTS({ "name", "nobody" }, { "n", "0" })),
           "1 0 a|nan 8 b|3 9 nobody|");
    expect_column(&unseen, 2, EST_ARROW(.nulls = EST_ARROW_MISSING), "a||");
}

TEST(types_without_a_missing_value)
{
    chunk one = { .length = 3, .columns = { &flags, &small } };
    table t   = { .chunks = &one, .n_chunks = 1 };

    expect_error(&t, EST_ARROW(.nulls = EST_ARROW_MISSING),
                 "column \"flag\", row 0: null, and the type has no value for missing ones");
    expect(&t, EST_ARROW(.defaults = EST_ARROW_DEFAULTS({ "flag", "true" }, { "u8", "255" })), "yes 255|yes 2|no 3|");
    expect_error(&t, EST_ARROW(.defaults = EST_ARROW_DEFAULTS({ "flag", "yes" })), "the default \"yes\" is no bool");
    expect_error(&t, EST_ARROW(.defaults = EST_ARROW_DEFAULTS({ "u8", "256" })), "the default \"256\" is no uint8");
    expect_error(&t, EST_ARROW(.defaults = EST_ARROW_DEFAULTS({ "age", "1" })), "\"age\" is no column of the dataset");
}

/* --- chunks ------------------------------------------------------------------------------------------------------- */

static const column part1 = { "x", "l", 5, 0, 0, 2, { NONE, BUFFER(int64_t, 0, 1, 2, 3, 4) } };
static const column part2 = { "x", "l", 0, 0, 0, 2, { NONE, NONE } };
static const column part3 = { "x", "l", 4, 0, 2, 2, { NONE, BUFFER(int64_t, -1, -1, -1, 5, 6, 7) } };
static const column tags1 = { "t", "+l", 5, 0, 0, 2, { NONE, BUFFER(int32_t, 0, 0, 1, 3, 3, 4) }, &items };
static const column tags2 = { "t", "+l", 0, 0, 0, 2, { NONE, NONE }, &items };
static const column tags3 = { "t", "+l", 4, 0, 0, 2, { NONE, BUFFER(int32_t, 0, 1, 2, 5, 5) }, &items };
static const column word1 = { "w", "u", 5, 0, 0, 3, { NONE, BUFFER(int32_t, 0, 1, 2, 3, 4, 5), BYTES("abcde") } };
static const column word2 = { "w", "u", 0, 0, 0, 3, { NONE, NONE, NONE } };
static const column word3 = { "w", "u", 4, 0, 0, 3, { NONE, BUFFER(int32_t, 0, 1, 2, 3, 4), BYTES("-fgh") } };

/* The offset of a record batch is one of each of its columns. */
static const chunk chunks[] = {
    { .length = 5, .columns = { &part1, &tags1, &word1 } },
    { .length = 0, .columns = { &part2, &tags2, &word2 } },
    { .length = 3, .offset = 1, .columns = { &part3, &tags3, &word3 } },
};

TEST(batches_span_chunks)
{
    table t = { .chunks = chunks, .n_chunks = 3 };

    expect(&t, NULL, "0 [] a|1 [1] b|2 [2 3] c|3 [] d|4 [4] e|5 [2] f|6 [3 4 5] g|7 [] h|");
    expect(&t, EST_ARROW(.batch = 3), "[0 1 2] [][1][2 3] [a b c]|[3 4 5] [][4][2] [d e f]|[6 7] [3 4 5][] [g h]|");
    expect(&t, EST_ARROW(.batch = 3, .drop_remainder = true), "[0 1 2] [][1][2 3] [a b c]|[3 4 5] [][4][2] [d e f]|");
    expect(&t, EST_ARROW(.batch = 100), "[0 1 2 3 4 5 6 7] [][1][2 3][][4][2][3 4 5][] [a b c d e f g h]|");
    expect(&t, EST_ARROW(.columns = EST_STRINGS("w", "x")), "a 0|b 1|c 2|d 3|e 4|f 5|g 6|h 7|");
}

static const column no_rows = { "x", "l", 0, 0, 0, 2, { NONE, NONE } };

TEST(no_rows)
{
    expect_column(&no_rows, 0, NULL, "");
    expect_column(&no_rows, 0, EST_ARROW(.batch = 2), "");
}

TEST(fixed_batch_shapes)
{
    table        t = { .chunks = chunks, .n_chunks = 3 };
    est_dataset *dataset;

    assert_int_equal(
        est_dataset_finish(est_dataset_arrow_stream(open_table, &t, EST_ARROW(.batch = 3, .drop_remainder = true)),
                           &dataset),
        EST_OK);
    assert_true(est_shape_equal(&est_dataset_component(dataset, 0)->shape, &EST_SHAPE(3)));
    assert_true(est_dataset_component(dataset, 1)->ragged);
    est_dataset_free(dataset);
}

TEST(numbers_are_not_copied)
{
    table         t = { .chunks = chunks, .n_chunks = 3 };
    est_iterator *rows;
    est_field     element[3];
    const char   *first;

    rows = source_open(est_dataset_arrow_stream(open_table, &t, EST_ARROW(.batch = 2)));
    assert_int_equal(est_iterator_next(rows, element), EST_OK);
    first = est_tensor_data(element[0].values);
    assert_int_equal(t.live_batch, 1);
    est_element_clear(&element[1], 2);
    est_element_clear(&element[0], 1);
    assert_int_equal(est_iterator_next(rows, element), EST_OK);
    assert_ptr_equal(est_tensor_data(element[0].values), first + 16); /* the next two of the same buffer */
    est_iterator_free(rows);
    assert_int_equal(t.live_batch, 1); /* the tensor holds it */
    assert_int_equal(((const int64_t *)est_tensor_data(element[0].values))[1], 3);
    est_element_clear(element, 3);
    assert_int_equal(t.live, 0);
}

/* --- passes ------------------------------------------------------------------------------------------------------- */

static table shared_table;

static est_dataset *shared_dataset(void)
{
    shared_table = (table){ .chunks = chunks, .n_chunks = 3 };
    return est_dataset_arrow_stream(open_table, &shared_table, EST_ARROW(.batch = 2, .columns = EST_STRINGS("w", "t")));
}

TEST(every_pass_opens_the_table)
{
    table t = { .chunks = chunks, .n_chunks = 3 };

    source_yields(est_dataset_arrow_stream(open_table, &t, NULL), "0|1|2|3|4|5|6|7|"); /* from every position, too */
    assert_int_equal(t.live, 0);
    t = (table){ .chunks = chunks, .n_chunks = 3 };
    source_yields(est_dataset_repeat(est_dataset_arrow_stream(open_table, &t, NULL), 2),
                  "0|1|2|3|4|5|6|7|0|1|2|3|4|5|6|7|");
    assert_int_equal(t.live, 0);
    t = (table){ .chunks = chunks, .n_chunks = 3 };
    source_yields(est_dataset_unbatch(est_dataset_arrow_stream(open_table, &t, EST_ARROW(.batch = 3))),
                  "0|1|2|3|4|5|6|7|");
    assert_int_equal(t.live, 0);
}

TEST(first_pass_reads_the_stream_of_the_schema)
{
    table t = { .chunks = chunks, .n_chunks = 3, .opens_max = 1 };

    expect(&t, EST_ARROW(.columns = EST_STRINGS("x")), "0|1|2|3|4|5|6|7|");
    assert_int_equal(t.opens, 1);
    t.opens = 0;
    source_fails(est_dataset_repeat(est_dataset_arrow_stream(open_table, &t, NULL), 2), "0|1|2|3|4|5|6|7|",
                 EST_UNAVAILABLE, "the table was read already");
    assert_int_equal(t.live, 0);
}

TEST(positions_beyond_a_shorter_table)
{
    table         t = { .chunks = chunks, .n_chunks = 3 };
    est_dataset  *dataset;
    est_iterator *rows;
    est_tensor   *position;

    assert_int_equal(est_dataset_finish(est_dataset_arrow_stream(open_table, &t, NULL), &dataset), EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    source_next(rows, "0|1|2|3|4|5|6|");
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    t.n_chunks = 2;
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_restore(rows, position), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "after 7 rows of an Arrow stream that now has 5"));
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(dataset);
    assert_int_equal(t.live, 0);
}

TEST(another_schema_in_a_later_pass)
{
    chunk         one = { .length = 2, .columns = { &pair } };
    table         t   = { .chunks = chunks, .n_chunks = 3 };
    est_dataset  *dataset;
    est_iterator *rows;

    assert_int_equal(
        est_dataset_finish(est_dataset_arrow_stream(open_table, &t, EST_ARROW(.columns = EST_STRINGS("x"))), &dataset),
        EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK); /* with the stream of the schema */
    est_iterator_free(rows);
    t.chunks = &one;
    assert_int_equal(est_iterator_create(dataset, &rows), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "no column \"x\""));
    est_dataset_free(dataset);

    t = (table){ .chunks = chunks, .n_chunks = 3 };
    assert_int_equal(est_dataset_finish(est_dataset_arrow_stream(open_table, &t, NULL), &dataset), EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    est_iterator_free(rows);
    t.chunks = &one;
    assert_int_equal(est_iterator_create(dataset, &rows), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "now has 1 columns and had 3"));
    est_dataset_free(dataset);
    assert_int_equal(t.live, 0);
}

TEST(memory_out)
{
    source_memory_out(shared_dataset);
    assert_int_equal(shared_table.live, 0);
}

/* --- mistakes of the producer ------------------------------------------------------------------------------------- */

static est_status open_nothing(void *user, struct ArrowArrayStream *out)
{
    (void)user;
    (void)out;
    return EST_OK;
}

TEST(failures_of_the_stream)
{
    table t = { .chunks = chunks, .n_chunks = 3, .fails_at = 3 };

    expect_error(&t, EST_ARROW(.columns = EST_STRINGS("x")),
                 "0|1|2|3|4|get_next of an Arrow stream: the disk is on fire");
    t = (table){ .chunks = chunks, .n_chunks = 3, .schema_error = EINVAL };
    expect_error(&t, NULL, "get_schema of an Arrow stream: the disk is on fire");
    source_refused(est_dataset_arrow_stream(open_nothing, NULL, NULL), "returned EST_OK and no stream");
    source_refused(est_dataset_arrow_stream(NULL, NULL, NULL), "open is NULL");
    t = (table){ .chunks = chunks, .n_chunks = 3 };
    source_refused(est_dataset_arrow_stream(open_table, &t, EST_ARROW(.batch = -1)), "batches of -1 rows");
    expect_error(&t, EST_ARROW(.columns = EST_STRINGS("y")), "no column \"y\" among its 3");
    assert_int_equal(t.live, 0);
}

static const column decimals   = { "price", "d:10,2", 1, 0, 0, 2, { NONE, BYTES("0123456789abcdef") } };
static const column nothing    = { "x", "n", 1, 1, 0, 0, { NONE } };
static const column structs    = { "who", "+s", 1, 0, 0, 1, { NONE } };
static const column strange    = { "x", "%d%s", 1, 0, 0, 2, { NONE, NONE } };
static const column no_size    = { "x", "+w:", 1, 0, 0, 1, { NONE }, &items };
static const column negative   = { "x", "w:-4", 1, 0, 0, 2, { NONE, NONE } };
static const column nested     = { "x", "+l", 1, 0, 0, 2, { NONE, NONE }, &lists };
static const column no_item    = { "x", "+l", 1, 0, 0, 2, { NONE, NONE } };
static const column runs       = { "x", "+r", 1, 0, 0, 0, { NONE } };
static const column by_float   = { "x", "f", 1, 0, 0, 2, { NONE, BUFFER(float, 0) }, NULL, &prices };
static const column of_list    = { "x", "i", 1, 0, 0, 2, { NONE, BUFFER(int32_t, 0) }, NULL, &lists };
static const column with_child = { "x", "i", 1, 0, 0, 2, { NONE, BUFFER(int32_t, 0) }, &items };

TEST(types_that_are_refused)
{
    static const struct {
        const column *column;
        const char   *want;
    } cases[] = {
        { &decimals, "column \"price\": its type is decimal; cast it to float64" },
        { &nothing, "column \"x\": its type is null" },
        { &structs, "column \"who\": its type is struct" },
        { &strange, "column \"x\": its type has the format \"%d%s\", which Arrow does not have" },
        { &no_size, "column \"x\": its type has the fixed size \"\"" },
        { &negative, "column \"x\": its type has the fixed size \"-4\"" },
        { &nested, "column \"x\": its type is a list within a list" },
        { &no_item, "column \"x\": its type \"+l\" has 0 children, expected 1" },
        { &runs, "column \"x\": its type is run-end encoded" },
        { &by_float, "column \"x\": the indices of its dictionary are \"f\", expected integers" },
        { &of_list, "column \"x\": its type" },
        { &with_child, "column \"x\": its type \"i\" has 1 children, expected 0" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        chunk one = { .length = 1, .columns = { cases[i].column } };
        table t   = { .chunks = &one, .n_chunks = 1 };

        expect_error(&t, NULL, cases[i].want);
    }
}

static void no_format(struct ArrowSchema *schema)
{
    schema->children[0]->format = NULL;
}

static void no_struct(struct ArrowSchema *schema)
{
    schema->format = "i";
}

static void no_child(struct ArrowSchema *schema)
{
    schema->children[0]->release(schema->children[0]); /* a released schema is none */
}

static void negative_columns(struct ArrowSchema *schema)
{
    schema_release(schema);
    *schema = (struct ArrowSchema){ 0 };
}

TEST(schemas_that_are_refused)
{
    static const struct {
        void (*spoil)(struct ArrowSchema *schema);
        const char *want;
    } cases[] = {
        { no_format, "column \"x\": its schema has no format" },
        { no_struct, "the schema of an Arrow stream is \"i\", expected a struct" },
        { no_child, "column \"\": its schema is missing" },
        { negative_columns, "expected a struct of columns" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        table t = { .chunks = chunks, .n_chunks = 3, .spoil_schema = cases[i].spoil };

        expect_error(&t, NULL, cases[i].want);
    }
}

/* What is wrong with the first child of a record batch, or the batch itself. */
static void short_child(struct ArrowArray *a)
{
    a->children[0]->length = 1;
}

static void negative_length(struct ArrowArray *a)
{
    a->length = -1;
}

static void huge_offset(struct ArrowArray *a)
{
    a->offset = INT64_MAX;
}

static void null_rows(struct ArrowArray *a)
{
    a->null_count = 1;
}

/* The producer has not counted them. */
static void null_row_by_its_bit(struct ArrowArray *a)
{
    a->null_count = -1;
    a->buffers[0] = copy_of((buffer)BUFFER(uint8_t, 0x0f));
}

static void huge_strings(struct ArrowArray *a)
{
    a->children[0]->offset = INT64_MAX / 32;
}

static void few_children(struct ArrowArray *a)
{
    a->n_children = 0;
}

static void few_buffers(struct ArrowArray *a)
{
    a->children[0]->n_buffers = 1;
}

static void no_values(struct ArrowArray *a)
{
    free((void *)(uintptr_t)a->children[0]->buffers[1]);
    a->children[0]->buffers[1] = NULL;
}

static void many_nulls(struct ArrowArray *a)
{
    a->children[0]->null_count = 77;
}

static void nulls_without_bits(struct ArrowArray *a)
{
    a->children[0]->null_count = 1;
}

static void huge_child_offset(struct ArrowArray *a)
{
    a->children[0]->offset = INT64_MAX - 1;
}

static void set_offset(struct ArrowArray *a, int i, int32_t value)
{
    memcpy((char *)(uintptr_t)a->children[0]->buffers[1] + i * 4, &value, 4);
}

static void backward_offsets(struct ArrowArray *a)
{
    set_offset(a, 1, 3);
    set_offset(a, 2, 2);
}

static void offset_beyond(struct ArrowArray *a)
{
    set_offset(a, 2, 1 << 30);
}

static void last_offset_negative(struct ArrowArray *a)
{
    set_offset(a, 3, -5);
}

static void last_offset_beyond(struct ArrowArray *a)
{
    set_offset(a, 4, 100);
}

static void first_offset_negative(struct ArrowArray *a)
{
    set_offset(a, 0, -1);
}

static void no_dictionary(struct ArrowArray *a)
{
    a->children[0]->dictionary = NULL;
}

static void index_beyond(struct ArrowArray *a)
{
    ((int8_t *)(uintptr_t)a->children[0]->buffers[1])[0] = 3;
}

static void index_negative(struct ArrowArray *a)
{
    ((int8_t *)(uintptr_t)a->children[0]->buffers[1])[0] = -1;
}

static void dictionary_offsets(struct ArrowArray *a)
{
    int32_t far = 77;

    memcpy((char *)(uintptr_t)a->children[0]->dictionary->buffers[1] + 4, &far, 4);
}

static void set_view(struct ArrowArray *a, int i, int at, int32_t value)
{
    memcpy((char *)(uintptr_t)a->children[0]->buffers[1] + i * 16 + at, &value, 4);
}

static void view_buffer_beyond(struct ArrowArray *a)
{
    set_view(a, 1, 8, 2);
}

static void view_beyond(struct ArrowArray *a)
{
    set_view(a, 1, 12, 4);
}

static void view_negative(struct ArrowArray *a)
{
    set_view(a, 0, 0, -1);
}

static void view_without_sizes(struct ArrowArray *a)
{
    free((void *)(uintptr_t)a->children[0]->buffers[4]);
    a->children[0]->buffers[4] = NULL;
}

static void few_items(struct ArrowArray *a)
{
    a->children[0]->children[0]->length = 2;
}

static void no_items(struct ArrowArray *a)
{
    a->children[0]->n_children = 0;
}

static const column wide = { "w", "w:1000000", 1, 0, 0, 2, { NONE, BYTES("a") } };

TEST(arrays_that_are_refused)
{
    static const struct {
        const column *column;
        int64_t       rows;
        void (*spoil)(struct ArrowArray *array);
        const char *want;
    } cases[] = {
        { &part1, 5, short_child, "column \"x\": its array has length 1, expected at least 5" },
        { &part1, 5, negative_length, "an Arrow record batch has length -1" },
        { &part1, 5, huge_offset, "an Arrow record batch has length 5 and offset 9223372036854775807" },
        { &part1, 5, null_rows, "an Arrow record batch has 1 rows that are null" },
        { &part1, 5, null_row_by_its_bit, "an Arrow record batch has rows that are null" },
        { &wide, 1, huge_strings, "column \"w\": its array has 1 strings of 1000000 bytes" },
        { &part1, 5, few_children, "column \"x\" is number 0 of an Arrow record batch of 0" },
        { &part1, 5, few_buffers, "column \"x\": its array has 1 buffers, expected 2" },
        { &part1, 5, no_values, "column \"x\": its array has length 5 and no buffer of values" },
        { &part1, 5, many_nulls, "column \"x\": its array has 77 nulls among 5 values" },
        { &part1, 5, nulls_without_bits, "column \"x\": its array has 1 nulls and no validity buffer" },
        { &part1, 5, huge_child_offset, "column \"x\": its array has length 5 and offset 9223372036854775806" },
        { &words, 3, backward_offsets, "column \"u\", row 1: its offsets are not in order" },
        { &words, 3, offset_beyond, "column \"u\", row 1: its offsets are not in order" },
        { &words, 3, first_offset_negative, "column \"u\", row 0: its offsets are not in order" },
        { &words, 3, last_offset_negative, "column \"u\": its last offset is -5" },
        { &words, 3, no_values, "column \"u\": its array has length 3 and no buffer of offsets" },
        { &lists, 4, backward_offsets, "column \"tags\", row 1: the offsets of its list are not in order" },
        { &lists, 4, last_offset_beyond, "column \"tags\", row 3: the offsets of its list are not in order" },
        { &lists, 4, first_offset_negative, "column \"tags\", row 0: the offsets of its list are not in order" },
        { &lists, 4, few_items, "column \"tags\", row 2: the offsets of its list are not in order" },
        { &lists, 4, no_items, "column \"tags\": its array has 0 children, expected 1" },
        { &pair, 2, few_items, "column \"xy\": the items of its lists: its array has length 2, expected at least 6" },
        { &coded, 4, no_dictionary, "column \"city\": its array does not have a dictionary" },
        { &coded, 4, index_beyond, "column \"city\", row 0: its index is not in the dictionary" },
        { &coded, 4, index_negative, "column \"city\", row 0: its index is not in the dictionary" },
        { &coded, 4, dictionary_offsets, "column \"city\": entry 0 of its dictionary: its offsets are not in order" },
        { &views, 3, view_buffer_beyond, "column \"vu\", row 1: its string view is outside of its buffers" },
        { &views, 3, view_beyond, "column \"vu\", row 1: its string view is outside of its buffers" },
        { &views, 3, view_negative, "column \"vu\", row 0: its string view is outside of its buffers" },
        { &views, 3, view_without_sizes, "column \"vu\": its array has 2 buffers of bytes and none of their sizes" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        chunk one = { .length = cases[i].rows, .columns = { cases[i].column } };
        table t   = { .chunks = &one, .n_chunks = 1, .spoil_array = cases[i].spoil };

        expect_error(&t, EST_ARROW(.batch = 100), cases[i].want);
    }
}
