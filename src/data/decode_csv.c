/* SPDX-License-Identifier: Apache-2.0
 *
 * decode_csv: batches of CSV rows.
 *
 * Without a header one decoder serves all iterators and threads. With one, the first line of the file that a row is
 * from says where the columns are: there is a decoder for every header line that differs, found when a row is pulled.
 * Rows of files with different headers may be in one batch; they are then decoded apart and put together. */
#include <string.h>

#include "base/map.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "data/decode.h"
#include "data/encode.h"
#include "data/first_line.h"
#include "data/state.h"
#include "format/csv.h"
#include "tensor/tensor.h"

#define HEADER_BUFFER    ((size_t)64 << 10) /* bytes, to read a header with */
#define HEADER_SHOWN_MAX 300                /* bytes of a header line in an error */

typedef struct csv {
    est_decode       base;
    est_csv_columns  columns; /* these two with all they point to in the arena */
    est_csv_options  options;
    est_csv_decoder *decoder; /* without a header */
} csv;

/* With a header: the decoders of an iterator. */
typedef struct headers {
    est_map                by_path; /* to decoders, borrowed from by_line */
    est_map                by_line; /* to decoders */
    const char            *path;    /* of the last row; interned, so the pointer says which */
    const est_csv_decoder *decoder;
} headers;

/* --- headers ------------------------------------------------------------------------------------------------------ */

static est_status csv_open(est_decode_iter *it, int workers)
{
    const csv *own = (const csv *)it->base.base.dataset;

    (void)workers;
    if (!own->options.header) return EST_OK;
    it->own = est_zalloc(sizeof(headers));
    return it->own != NULL ? EST_OK : est_no_memory();
}

static void csv_close(est_decode_iter *it)
{
    headers    *h  = it->own;
    uint32_t    at = 0;
    const char *line;
    void       *decoder;

    if (h == NULL) return;
    while (est_map_next(&h->by_line, &at, &line, &decoder)) est_csv_decoder_free(decoder);
    est_map_clear(&h->by_line);
    est_map_clear(&h->by_path);
    est_free(h);
}

static est_status decoder_for_line(const csv *own, headers *h, est_str line, est_csv_decoder **out)
{
    est_csv_decoder *decoder = est_map_get_bytes(&h->by_line, line.data, line.size);
    est_status       status;

    *out = decoder;
    if (decoder != NULL) return EST_OK;
    EST_TRY(est_csv_decoder_create(own->columns.data, (size_t)own->columns.n, &own->options, &decoder));
    status = est_csv_decoder_header(decoder, line);
    if (status == EST_INVALID_ARGUMENT) {
        int size = (int)(line.size < HEADER_SHOWN_MAX ? line.size : HEADER_SHOWN_MAX);

        status = est_fail(status, "%s; its header is: %.*s", est_error_message(), size, line.data);
    }
    if (status == EST_OK) status = est_map_put_bytes(&h->by_line, line.data, line.size, decoder);
    if (status != EST_OK) est_csv_decoder_free(decoder);
    *out = decoder;
    return status;
}

static est_status decoder_for_file(const csv *own, headers *h, const char *path, est_csv_decoder **out)
{
    const est_lines_read_options read = { .buffer_bytes = HEADER_BUFFER,
                                          .quoted       = !own->options.no_quotes,
                                          .delimiter    = own->options.delimiter,
                                          .trim         = own->options.trim };
    est_strbuf                   line = { 0 };
    est_status                   status;

    EST_TRY(est_first_line_read(path, &read, &line));
    status = decoder_for_line(own, h, (est_str){ est_strbuf_text(&line), line.size }, out);
    est_strbuf_clear(&line);
    if (status != EST_OK) return est_fail_context(status, "%s", path);
    return est_map_put(&h->by_path, path, *out);
}

static est_status csv_look(est_decode_iter *it, est_decode_row *row)
{
    const csv       *own = (const csv *)it->base.base.dataset;
    headers         *h   = it->own;
    est_csv_decoder *decoder;

    row->note = own->decoder;
    if (h == NULL) return EST_OK;
    if (row->origin.path == NULL) {
        return est_fail(EST_FAILED_PRECONDITION, "the option header is set, and a row does not come from a file; read "
                                                 "rows with est_dataset_lines, or give field_names");
    }
    if (row->origin.path != h->path) {
        decoder = est_map_get(&h->by_path, row->origin.path);
        if (decoder == NULL) EST_TRY(decoder_for_file(own, h, row->origin.path, &decoder));
        h->path    = row->origin.path;
        h->decoder = decoder;
    }
    row->note = h->decoder;
    return EST_OK;
}

/* --- decoding ----------------------------------------------------------------------------------------------------- */

/* Rows of several decoders: what is needed to put their columns together. */
typedef struct mixed {
    const est_decode_rows *rows;
    int                    n_columns;
    bool                  *taken; /* [n] */
    size_t                *index; /* [n]: the rows of this decoder */
    est_str               *text;  /* [n]: their text */
    est_tensor           **parts; /* [n_parts]: columns of the decoders so far; strings are borrowed from them */
    size_t                 n_parts;
} mixed;

/* Copies the columns of n rows just decoded to their places in `out`. */
static void part_spread(const mixed *m, est_tensor *const *part, size_t n, est_field *out)
{
    for (int c = 0; c < m->n_columns; c++) {
        size_t      size = est_dtype_size(est_tensor_dtype(part[c]));
        const char *from = est_tensor_data(part[c]);
        char       *to   = est_tensor_mutable_data(out[c].values);

        for (size_t i = 0; i < n; i++) memcpy(to + m->index[i] * size, from + i * size, size);
    }
}

/* Decodes all rows that have the decoder of row `first`. */
static est_status part_decode(mixed *m, size_t first, est_field *out)
{
    const est_decode_rows *rows = m->rows;
    est_tensor           **parts;
    size_t                 n = 0;

    parts = est_realloc(m->parts, (m->n_parts + (size_t)m->n_columns) * sizeof(est_tensor *));
    if (parts == NULL) return est_no_memory();
    m->parts = parts;
    for (size_t i = first; i < rows->n; i++) {
        if (rows->row[i].note != rows->row[first].note) continue;
        m->taken[i]  = true;
        m->index[n]  = i;
        m->text[n++] = rows->text[i];
    }
    EST_TRY(est_csv_decode(rows->row[first].note, m->text, n, parts + m->n_parts, NULL));
    part_spread(m, parts + m->n_parts, n, out);
    m->n_parts += (size_t)m->n_columns;
    return EST_OK;
}

static est_status parts_decode(mixed *m, const est_csv_columns *columns, est_field *out)
{
    if (m->taken == NULL || m->index == NULL || m->text == NULL) {
        return est_no_memory();
    }
    for (int c = 0; c < columns->n; c++) {
        EST_TRY(est_tensor_create(columns->data[c].dtype, EST_SHAPE((int64_t)m->rows->n), &out[c].values));
    }
    for (size_t i = 0; i < m->rows->n; i++) {
        if (!m->taken[i]) EST_TRY(part_decode(m, i, out));
    }
    for (int c = 0; c < columns->n; c++) {
        if (columns->data[c].dtype == EST_STRING) EST_TRY(est_tensor_own_strings(out[c].values));
    }
    return EST_OK;
}

static est_status mixed_decode(const csv *own, const est_decode_rows *rows, est_field *out)
{
    mixed m = { .rows      = rows,
                .n_columns = own->columns.n,
                .taken     = est_zalloc(rows->n * sizeof(bool)),
                .index     = est_alloc(rows->n * sizeof(size_t)),
                .text      = est_alloc(rows->n * sizeof(est_str)) };

    est_status status = parts_decode(&m, &own->columns, out);

    if (status != EST_OK) est_element_clear(out, own->columns.n);
    for (size_t i = 0; i < m.n_parts; i++) est_tensor_free(m.parts[i]);
    est_free(m.parts);
    est_free(m.text);
    est_free(m.index);
    est_free(m.taken);
    return status;
}

static est_status csv_decode(est_decode_iter *it, int worker, const est_decode_rows *rows, est_field *out)
{
    const csv   *own = (const csv *)it->base.base.dataset;
    est_tensor **columns;
    est_status   status;

    (void)worker;
    for (size_t i = 1; i < rows->n; i++) {
        if (rows->row[i].note != rows->row[0].note) return mixed_decode(own, rows, out);
    }
    columns = est_alloc((size_t)own->columns.n * sizeof(est_tensor *));
    if (columns == NULL) return est_no_memory();
    status = est_csv_decode(rows->row[0].note, rows->text, rows->n, columns, NULL);
    for (int c = 0; c < own->columns.n && status == EST_OK; c++) out[c].values = columns[c];
    est_free(columns);
    return status;
}

/* --- the stage ---------------------------------------------------------------------------------------------------- */

static void csv_free(est_dataset *dataset)
{
    est_csv_decoder_free(((csv *)dataset)->decoder);
}

/* An empty line cannot be a row of several fields; files often end in one. */
static bool csv_is_blank(const est_decode *own, est_str row)
{
    return row.size == 0 && ((const csv *)own)->columns.n > 1;
}

static const est_decode_format csv_format = {
    .takes    = "lines of CSV",
    .row_name = { "row 0, " },
    .is_blank = csv_is_blank,
    .open     = csv_open,
    .close    = csv_close,
    .look     = csv_look,
    .decode   = csv_decode,
};

static est_status   csv_encode(const est_dataset *dataset, est_wire_writer *w);
static est_dataset *csv_from_bytes(const est_encoded *from);

const est_stage est_stage_decode_csv = {
    .name   = "decode_csv",
    .free   = csv_free,
    .encode = csv_encode,
    .decode = csv_from_bytes,
    EST_DECODE_FUNCTIONS,
};

/* A copy of a text that may be NULL; false when memory is out. */
static bool text_copy(est_arena *arena, const char *from, const char **to)
{
    *to = from != NULL ? est_arena_strdup(arena, from) : NULL;
    return from == NULL || *to != NULL;
}

static bool columns_copy(est_arena *arena, est_csv_columns from, est_csv_columns *to)
{
    est_csv_column *copy = est_arena_alloc(arena, (size_t)from.n * sizeof *copy);

    if (copy == NULL) return false;
    for (int i = 0; i < from.n; i++) {
        copy[i] = from.data[i];
        if (!text_copy(arena, from.data[i].name, &copy[i].name)) return false;
        if (!text_copy(arena, from.data[i].default_text, &copy[i].default_text)) return false;
    }
    *to = (est_csv_columns){ copy, from.n };
    return true;
}

/* Options that are whole, with their texts in the arena. */
static bool options_own(est_arena *arena, est_csv_options *to)
{
    const char **names;

    if (!text_copy(arena, to->na_value, &to->na_value)) return false;
    if (to->field_names.data == NULL) return true;
    names = est_arena_alloc(arena, (size_t)to->field_names.n * sizeof *names);
    if (names == NULL) return false;
    for (int i = 0; i < to->field_names.n; i++) {
        if (!text_copy(arena, to->field_names.data[i], &names[i])) return false;
    }
    to->field_names.data = names;
    return true;
}

static est_status csv_set(csv *own, est_csv_columns columns, const est_csv_options *options)
{
    est_arena *arena = own->base.base.arena;

    if (columns.n < 1 || columns.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "at least one column is needed");
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_csv_options), options, &own->options));
    EST_TRY(est_csv_decoder_create(columns.data, (size_t)columns.n, &own->options, &own->decoder));
    if (!columns_copy(arena, columns, &own->columns) || !options_own(arena, &own->options)) {
        return est_no_memory();
    }
    return EST_OK;
}

est_dataset *est_dataset_decode_csv(est_dataset *lines, est_csv_columns columns, const est_csv_options *options,
                                    int64_t batch, const est_parse_options *parse)
{
    csv           *own = est_decode_new(&est_stage_decode_csv, sizeof *own, &csv_format, lines);
    est_component *components;
    est_status     status;

    if (!est_dataset_sound(&own->base.base)) return &own->base.base;
    status = est_decode_set(&own->base, batch, parse);
    if (status == EST_OK) status = csv_set(own, columns, options);
    if (status != EST_OK) return est_dataset_fail(&own->base.base, status);
    components = est_arena_alloc(own->base.base.arena, (size_t)columns.n * sizeof *components);
    if (components == NULL) {
        status = est_no_memory();
        return est_dataset_fail(&own->base.base, status);
    }
    for (int i = 0; i < columns.n; i++) {
        components[i] = (est_component){ .name  = columns.data[i].name,
                                         .dtype = columns.data[i].dtype,
                                         .shape = EST_SHAPE(est_decode_dim(&own->base)) };
    }
    return est_dataset_with(&own->base.base, components, columns.n);
}

est_dataset *est_dataset_csv(est_dataset *paths, est_csv_columns columns, const est_csv_options *options, int64_t batch,
                             const est_parse_options *parse)
{
    est_csv_options known;
    est_dataset    *lines;

    if (est_options_take(EST_STRUCT_SIZE(est_csv_options), options, &known) != EST_OK) {
        return est_dataset_decode_csv(paths, columns, options, batch, parse); /* which fails with that */
    }
    lines = est_dataset_lines(paths, EST_LINES(.skip = known.header ? 1 : 0, .quoted = !known.no_quotes,
                                               .delimiter = known.delimiter, .trim = known.trim));
    return est_dataset_decode_csv(lines, columns, options, batch, parse);
}

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

enum { DELIMITER = EST_DECODE_NUMBERS, NO_QUOTES, TRIM, HEADER, N_NUMBERS };
enum { OWN_COLUMN = EST_ENCODED_OWN, OWN_NA_VALUE, OWN_FIELD_NAME };
enum { COLUMN_NAME = 1, COLUMN_DTYPE, COLUMN_REQUIRED, COLUMN_DEFAULT };

static void put_column(est_wire_writer *w, const est_csv_column *column)
{
    size_t mark = est_wire_begin(w, OWN_COLUMN);

    est_wire_put_string(w, COLUMN_NAME, column->name);
    est_wire_put_i64(w, COLUMN_DTYPE, column->dtype);
    est_wire_put_bool(w, COLUMN_REQUIRED, column->required);
    if (column->default_text != NULL) est_wire_put_string(w, COLUMN_DEFAULT, column->default_text);
    est_wire_end(w, mark);
}

static est_status csv_encode(const est_dataset *dataset, est_wire_writer *w)
{
    const csv             *own = (const csv *)dataset;
    const est_csv_options *o   = &own->options;
    int64_t                number[N_NUMBERS];

    EST_TRY(est_decode_encode(&own->base, number));
    number[DELIMITER] = o->delimiter;
    number[NO_QUOTES] = o->no_quotes;
    number[TRIM]      = o->trim;
    number[HEADER]    = o->header;
    est_state_put(w, number, N_NUMBERS);
    for (int i = 0; i < own->columns.n; i++) put_column(w, &own->columns.data[i]);
    if (o->na_value != NULL) est_wire_put_string(w, OWN_NA_VALUE, o->na_value);
    for (int i = 0; i < o->field_names.n; i++) est_wire_put_string(w, OWN_FIELD_NAME, o->field_names.data[i]);
    return EST_OK;
}

static est_status read_column(const est_encoded *from, est_wire_reader *r, est_csv_column *out)
{
    est_wire_field field;

    *out = (est_csv_column){ .name = "" };
    while (est_wire_next(r, &field)) {
        switch (field.number) {
        case COLUMN_NAME: EST_TRY(est_encoded_text(from, est_wire_bytes(r, &field), &out->name)); break;
        case COLUMN_DTYPE: out->dtype = (est_dtype)est_wire_i32(r, &field); break;
        case COLUMN_REQUIRED: out->required = est_wire_bool(r, &field); break;
        case COLUMN_DEFAULT: EST_TRY(est_encoded_text(from, est_wire_bytes(r, &field), &out->default_text)); break;
        default: break;
        }
    }
    return est_wire_finish(r);
}

/* Columns and names, in the arena of `from`. */
static est_status read_own(const est_encoded *from, est_csv_columns *columns, est_strings *names)
{
    int             n_columns = est_encoded_count(from, OWN_COLUMN), n_names = est_encoded_count(from, OWN_FIELD_NAME);
    est_csv_column *column = est_arena_alloc(from->arena, (size_t)n_columns * sizeof *column);
    const char    **name   = est_arena_alloc(from->arena, (size_t)n_names * sizeof *name);
    est_wire_reader r, inner;
    est_wire_field  field;

    if (column == NULL || name == NULL) return est_no_memory();
    *columns = (est_csv_columns){ column, n_columns };
    *names   = (est_strings){ n_names > 0 ? name : NULL, n_names };
    est_wire_reader_init(&r, "decode_csv", from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        if (field.number == OWN_COLUMN) {
            est_wire_message(&r, &field, "column of CSV", &inner);
            EST_TRY(est_wire_finish(&r));
            EST_TRY(read_column(from, &inner, column++));
        }
        if (field.number == OWN_FIELD_NAME) EST_TRY(est_encoded_text(from, est_wire_bytes(&r, &field), name++));
    }
    return est_wire_finish(&r);
}

static est_dataset *csv_from_bytes(const est_encoded *from)
{
    est_parse_options parse   = est_decode_options(from);
    est_csv_options   options = { .struct_size = EST_STRUCT_SIZE(est_csv_options),
                                  .delimiter   = (char)from->number[DELIMITER],
                                  .no_quotes   = from->number[NO_QUOTES] != 0,
                                  .trim        = from->number[TRIM] != 0,
                                  .header      = from->number[HEADER] != 0 };
    est_csv_columns   columns;
    est_status        status = read_own(from, &columns, &options.field_names);

    if (status == EST_OK) status = est_encoded_text_field(from, OWN_NA_VALUE, &options.na_value);
    if (status != EST_OK) return est_encoded_fail(from, status);
    return est_dataset_decode_csv(from->input[0], columns, &options, from->number[0], &parse);
}
