/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes Arrow streams. The input says what a producer hands over: types, lengths, offsets, indices, views, numbers of
 * buffers and children, and which pointers are NULL. Since the interface does not tell the sizes of buffers, these are
 * what the lengths and the last offsets promise; everything else may be wrong. All values that come out are read, and
 * everything must be released in the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estoc/arrow.h"

#define ROWS_MAX    40
#define COLUMNS_MAX 3
#define BYTES_MAX   64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

/* The input, read from front to back; zeros after its end. */
typedef struct input {
    const uint8_t *at, *end;
    int            live; /* structs that are not released */
} input;

static uint8_t byte(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* True once in a while, never after the end. */
static bool rarely(input *in)
{
    return byte(in) > 247;
}

static void *allocate(size_t size)
{
    void *memory = calloc(1, size > 0 ? size : 1);

    require(memory != NULL);
    return memory;
}

/* --- schemas ------------------------------------------------------------------------------------------------------ */

/* What was promised, for the arrays of a pass: read from the same bytes every time. */
typedef struct shape {
    char          format[12];
    struct shape *item, *dictionary;
} shape;

static const char *const formats[] = {
    "c", "C",   "s",  "S",  "i",   "I",    "l",  "L",  "e",    "f",    "g",  "b", "u", "U",  "z",
    "Z", "w:3", "vu", "vz", "tdD", "tsn:", "+l", "+L", "+w:2", "+w:0", "+l", "u", "i", "+l", "d:9,2",
};

static shape *make_shape(input *in, int depth)
{
    shape  *own    = allocate(sizeof *own);
    uint8_t choice = byte(in);

    if (choice < 240) {
        (void)snprintf(own->format, sizeof own->format, "%s", formats[choice % (sizeof formats / sizeof formats[0])]);
    } else {
        for (int i = 0; i < choice % 8; i++) own->format[i] = (char)byte(in);
    }
    if (own->format[0] == '+' && depth < 10) own->item = make_shape(in, depth + 1);
    if (own->format[0] != '+' && byte(in) % 4 == 1 && depth < 10) own->dictionary = make_shape(in, depth + 1);
    return own;
}

static void free_shape(shape *own)
{
    if (own == NULL) return;
    free_shape(own->item);
    free_shape(own->dictionary);
    free(own);
}

static void schema_release(struct ArrowSchema *schema)
{
    schema->release = NULL; /* the root frees all */
}

/* The tree of a schema, which only its root frees. */
static void free_schema(struct ArrowSchema *schema)
{
    if (schema == NULL) return;
    for (int i = 0; i < COLUMNS_MAX && schema->children != NULL; i++) free_schema(schema->children[i]);
    free(schema->children);
    free_schema(schema->dictionary);
    free(schema);
}

static struct ArrowSchema *make_schema(input *in, const shape *own)
{
    struct ArrowSchema *schema = allocate(sizeof *schema);

    schema->format       = own->format;
    schema->name         = "x";
    schema->release      = schema_release;
    schema->private_data = in;
    schema->children     = allocate(COLUMNS_MAX * sizeof(struct ArrowSchema *));
    if (own->item != NULL) {
        schema->n_children  = 1;
        schema->children[0] = make_schema(in, own->item);
    }
    if (own->dictionary != NULL) schema->dictionary = make_schema(in, own->dictionary);
    return schema;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

typedef struct array_data {
    input             *in;
    void              *buffers[6];
    struct ArrowArray *children[COLUMNS_MAX];
    struct ArrowArray *dictionary;
} array_data;

static void free_array(struct ArrowArray *array)
{
    array_data *own;

    if (array == NULL) return;
    own = array->private_data;
    for (int i = 0; i < 6; i++) free(own->buffers[i]);
    for (int i = 0; i < COLUMNS_MAX; i++) free_array(own->children[i]);
    free_array(own->dictionary);
    free((void *)array->buffers);
    free((void *)array->children);
    free(own);
    free(array);
}

static size_t width_of(const char *format)
{
    switch (format[0]) {
    case 'c':
    case 'C': return 1;
    case 's':
    case 'S':
    case 'e': return 2;
    case 'w': return 3;
    case 'v': return 16;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 't': return strcmp(format, "tdD") == 0 ? 4 : 8;
    default: return 8;
    }
}

/* n + 1 offsets, most of them in order; the last one is the promised size, which is returned. */
static int64_t fill_offsets(input *in, void *offsets, bool large, int64_t n, int64_t last_max)
{
    int64_t at = 0;

    for (int64_t i = 0; i <= n; i++) {
        int64_t value = at += byte(in) % 4;

        if (rarely(in)) value = (int64_t)(int8_t)byte(in) * (rarely(in) ? 1 << 24 : 1);
        if (i == n && (value < 0 || value > last_max)) value = last_max;
        if (large) {
            memcpy((char *)offsets + i * 8, &value, 8);
        } else {
            memcpy((char *)offsets + i * 4, &(int32_t){ (int32_t)value }, 4);
        }
        at = value;
    }
    return at;
}

static void fill_views(input *in, char *views, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t view[4] = { byte(in) % 20, 0, byte(in) % 3, byte(in) % 70 };

        if (rarely(in)) view[byte(in) % 4] = (int32_t)(int8_t)byte(in) * (1 << 16);
        memcpy(views + i * 16, view, 16);
    }
}

static void fill_buffers(input *in, const shape *type, struct ArrowArray *array, array_data *own)
{
    int64_t end   = array->offset + array->length;
    bool    large = type->format[0] == 'U' || type->format[0] == 'Z' || strcmp(type->format, "+L") == 0;
    char    kind  = type->format[0];

    own->buffers[0]  = allocate((size_t)end / 8 + 1);
    array->n_buffers = 2;
    for (int64_t i = 0; i <= end / 8; i++) ((uint8_t *)own->buffers[0])[i] = (uint8_t)~byte(in);
    if (strncmp(type->format, "+w", 2) == 0) {
        array->n_buffers = 1;
    } else if (kind == '+' || strchr("uUzZ", kind) != NULL) {
        int64_t last;

        own->buffers[1] = allocate((size_t)(end + 1) * (large ? 8 : 4));
        last            = fill_offsets(in, own->buffers[1], large, end, BYTES_MAX);
        if (kind != '+') {
            own->buffers[2]  = allocate((size_t)last);
            array->n_buffers = 3;
        }
    } else if (kind == 'v') {
        int64_t sizes[2] = { BYTES_MAX, BYTES_MAX };

        own->buffers[1] = allocate((size_t)end * 16);
        own->buffers[2] = allocate(BYTES_MAX);
        own->buffers[3] = allocate(BYTES_MAX);
        own->buffers[4] = allocate(sizeof sizes);
        memcpy(own->buffers[4], sizes, sizeof sizes);
        fill_views(in, own->buffers[1], end);
        array->n_buffers = 5;
    } else {
        own->buffers[1] = allocate((size_t)end * width_of(type->format));
        for (size_t i = 0; i < (size_t)end * width_of(type->format); i++) ((uint8_t *)own->buffers[1])[i] = byte(in);
    }
}

/* Makes something wrong that a consumer can see. */
static void spoil(input *in, const shape *type, struct ArrowArray *array)
{
    switch (byte(in) % 8) {
    case 0: /* a shorter array of strings would promise other bytes */
        array->length = strchr("uUzZ", type->format[0]) != NULL ? -1 : (int8_t)byte(in) % (array->length + 1);
        break;
    case 1: array->offset = -1 - byte(in); break;
    case 2: array->null_count = (int8_t)byte(in); break;
    case 3: array->n_buffers = byte(in) % (array->n_buffers + 1); break;
    case 4: array->n_children = (int8_t)byte(in) % 2; break;
    case 5: array->buffers[byte(in) % 6] = NULL; break;
    case 6: array->dictionary = NULL; break;
    default: array->offset = INT64_MAX - byte(in); break;
    }
}

static struct ArrowArray *make_array(input *in, const shape *type, int64_t length)
{
    struct ArrowArray *array = allocate(sizeof *array);
    array_data        *own   = allocate(sizeof *own);

    own->in             = in;
    array->length       = length;
    array->offset       = byte(in) % 4;
    array->null_count   = byte(in) % 3 == 0 ? -1 : 0;
    array->private_data = own;
    array->buffers      = allocate(sizeof own->buffers);
    array->children     = allocate(sizeof own->children);
    fill_buffers(in, type, array, own);
    if (type->item != NULL) {
        int64_t items = strncmp(type->format, "+w", 2) == 0 ? (array->offset + length) * 2 : BYTES_MAX;

        own->children[0]  = make_array(in, type->item, items);
        array->n_children = 1;
    }
    if (type->dictionary != NULL) own->dictionary = make_array(in, type->dictionary, byte(in) % ROWS_MAX);
    memcpy((void *)array->buffers, own->buffers, sizeof own->buffers);
    memcpy((void *)array->children, own->children, sizeof own->children);
    array->dictionary = own->dictionary;
    if (rarely(in)) spoil(in, type, array);
    return array;
}

/* --- the stream --------------------------------------------------------------------------------------------------- */

typedef struct table {
    input *in;
    shape *columns[COLUMNS_MAX];
    int    n_columns;
    int    n_chunks; /* to come */
} table;

static void root_schema_release(struct ArrowSchema *schema)
{
    input *in = ((table *)schema->private_data)->in;

    for (int i = 0; i < COLUMNS_MAX; i++) free_schema(schema->children[i]);
    free(schema->children);
    in->live--;
    schema->release = NULL;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    static const char *const names[] = { "a", "b", "c" };
    table                   *t       = stream->private_data;

    *out = (struct ArrowSchema){ .format       = "+s",
                                 .release      = root_schema_release,
                                 .n_children   = t->n_columns,
                                 .children     = allocate(COLUMNS_MAX * sizeof(struct ArrowSchema *)),
                                 .private_data = t };
    for (int i = 0; i < t->n_columns; i++) {
        out->children[i]       = make_schema(t->in, t->columns[i]);
        out->children[i]->name = names[i];
    }
    t->in->live++;
    return 0;
}

static void root_array_release(struct ArrowArray *array)
{
    array_data *own = array->private_data;

    for (int i = 0; i < COLUMNS_MAX; i++) free_array(own->children[i]);
    free((void *)array->children);
    own->in->live--;
    free(own);
    array->release = NULL;
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    table      *t = stream->private_data;
    array_data *own;

    memset(out, 0, sizeof *out);
    if (t->n_chunks-- <= 0) return 0;
    own               = allocate(sizeof *own);
    own->in           = t->in;
    out->length       = byte(t->in) % ROWS_MAX;
    out->offset       = byte(t->in) % 3;
    out->n_children   = t->n_columns;
    out->children     = allocate(sizeof own->children);
    out->release      = root_array_release;
    out->private_data = own;
    for (int i = 0; i < t->n_columns; i++) {
        out->children[i] = own->children[i] = make_array(t->in, t->columns[i], out->offset + out->length);
        if (rarely(t->in)) out->children[i] = NULL;
    }
    if (rarely(t->in)) out->n_children--;
    if (rarely(t->in)) out->length = (int8_t)byte(t->in) % (out->length + 1);
    t->in->live++;
    return 0;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    ((table *)stream->private_data)->in->live--;
    stream->release = NULL;
}

static est_status open_table(void *user, struct ArrowArrayStream *out)
{
    table *t = user;

    *out = (struct ArrowArrayStream){
        .get_schema = get_schema, .get_next = get_next, .release = stream_release, .private_data = t
    };
    t->in->live++;
    return EST_OK;
}

/* --- the consumer ------------------------------------------------------------------------------------------------- */

static uint64_t sum_of(const est_tensor *tensor)
{
    uint64_t    sum  = 0;
    const char *data = est_tensor_data(tensor);

    if (est_tensor_dtype(tensor) != EST_STRING) {
        for (size_t i = 0; i < est_tensor_bytes(tensor); i++) sum += (uint8_t)data[i];
        return sum;
    }
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        const est_str *text = (const est_str *)est_tensor_data(tensor) + i;

        for (size_t k = 0; k < text->size; k++) sum += (uint8_t)text->data[k];
    }
    return sum;
}

static void read_all(est_dataset *dataset)
{
    est_field     element[COLUMNS_MAX];
    est_iterator *rows;
    int           n   = est_dataset_components(dataset);
    uint64_t      sum = 0;

    if (est_iterator_create(dataset, &rows) != EST_OK) return;
    while (est_iterator_next(rows, element) == EST_OK) {
        for (int i = 0; i < n; i++) {
            sum += sum_of(element[i].values);
            if (element[i].splits == NULL) continue;
            require(est_ragged_check(&(est_ragged){ element[i].values, element[i].splits }) == EST_OK);
        }
        est_element_clear(element, n);
    }
    __asm__ volatile("" : : "r"(sum)); /* or a compiler would leave the reads out */
    est_iterator_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input        in      = { data, data + size, 0 };
    table        t       = { .in = &in };
    uint8_t      options = byte(&in);
    est_dataset *dataset;

    t.n_columns = 1 + byte(&in) % COLUMNS_MAX;
    t.n_chunks  = 1 + byte(&in) % 3;
    for (int i = 0; i < t.n_columns; i++) t.columns[i] = make_shape(&in, 0);
    if (est_dataset_finish(
            est_dataset_arrow_stream(open_table, &t,
                                     EST_ARROW(.batch = options % 8, .drop_remainder = (options & 8) != 0,
                                               .nulls = (options & 16) != 0 ? EST_ARROW_MISSING : 0)),
            &dataset) == EST_OK) {
        read_all(dataset);
        est_dataset_free(dataset);
    }
    require(in.live == 0);
    for (int i = 0; i < t.n_columns; i++) free_shape(t.columns[i]);
    return 0;
}
