/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV. A row is looked at 64 bytes at a time, as two bit masks: where the delimiters are, and where there is anything
 * that needs care (a quote, a line break). A row without the latter is cut at the delimiters and each field goes
 * straight into its column; any other row is read again field by field. Elements of string columns point into the rows
 * until all rows are done; then each column copies its bytes, into one block. */
#include "format/csv.h"

#include <inttypes.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/options.h"
#include "format/number.h"
#include "format/wire.h"
#include "tensor/tensor.h"

#define BLOCK     64 /* bytes that a mask covers */
#define TEXT_SHOW 40 /* bytes of a bad field that an error shows */
#define TEXT_MAX  (TEXT_SHOW + 8)

typedef struct column {
    char     *name;
    est_dtype dtype;
    bool      required;
    char     *default_text; /* NULL: none */
    union {
        float   f32;
        double  f64;
        int32_t i32;
        int64_t i64;
        est_str str; /* borrowed from default_text */
    } fill;          /* for an empty field */
} column;

struct est_csv_decoder {
    column *columns;
    size_t  n_columns;
    char    delimiter;
    bool    quotes, trim, header;
    char   *na; /* NULL: none */
    size_t  na_size;

    size_t *field_column; /* by field: the column that wants it; n_columns: none. NULL until there is a header */
    size_t  n_fields;
};

/* Where the fields of the rows at hand go. */
typedef struct target {
    const column *column; /* NULL: nowhere */
    void         *data;   /* of its tensor */
} target;

typedef struct call {
    const est_csv_decoder *d;
    target                *targets; /* by field */
    est_arena             *scratch; /* fields that had doubled quotes, until the columns own them; NULL until needed */
} call;

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* A text as errors show it: cut, and without bytes that would garble the line. */
static const char *show(est_str text, char buf[TEXT_MAX])
{
    size_t n = text.size < TEXT_SHOW ? text.size : TEXT_SHOW;

    for (size_t i = 0; i < n; i++)
        buf[i] = (unsigned char)text.data[i] < ' ' || text.data[i] == 127 ? '?' : text.data[i];
    memcpy(buf + n, text.size > n ? "..." : "", text.size > n ? 4 : 1);
    return buf;
}

static est_status fail_field(const call *c, size_t row, size_t field, est_str text, const char *why)
{
    char        buf[TEXT_MAX];
    const char *name = field < c->d->n_fields && c->targets[field].column != NULL ? c->targets[field].column->name
                                                                                  : NULL;

    if (name == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "row %zu, field %zu: \"%s\" %s", row, field + 1, show(text, buf), why);
    }
    return est_fail(EST_INVALID_ARGUMENT, "row %zu, column \"%s\": \"%s\" %s", row, name, show(text, buf), why);
}

static est_status fail_count(const call *c, size_t row, size_t n, est_str text)
{
    char buf[TEXT_MAX];

    return est_fail(EST_INVALID_ARGUMENT, "row %zu, %zu field%s where %zu are expected: \"%s\"", row, n,
                    n == 1 ? "" : "s", c->d->n_fields, show(text, buf));
}

static const char *why_not(est_dtype dtype, est_number_result result)
{
    if (result == EST_NUMBER_RANGE) return dtype == EST_I32 ? "does not fit int32" : "does not fit int64";
    return dtype == EST_I32 || dtype == EST_I64
               ? "is not an integer; words need a vocabulary (of a label: label.vocabulary in a job file)"
               : "is not a number; if the text means a missing value, set na_value (data.csv.na in a job file)";
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

static est_number_result parse_number(est_dtype dtype, est_str text, void *to)
{
    switch (dtype) {
    case EST_F32: return est_number_f32(text.data, text.size, to);
    case EST_F64: return est_number_f64(text.data, text.size, to);
    case EST_I32: return est_number_i32(text.data, text.size, to);
    default: return est_number_i64(text.data, text.size, to);
    }
}

static est_status put_fill(const call *c, size_t row, size_t field, est_str text)
{
    const target *t    = &c->targets[field];
    size_t        size = est_dtype_size(t->column->dtype);

    if (t->column->required) {
        return fail_field(c, row, field, text,
                          "is a missing value, but the column is required; give it a default or leave .required out");
    }
    memcpy((char *)t->data + row * size, &t->column->fill, size);
    return EST_OK;
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline est_str trimmed(est_str text)
{
    while (text.size > 0 && is_blank(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_blank(text.data[text.size - 1])) text.size--;
    return text;
}

/* Blanks alone are a float of 0, as in TensorFlow, and no integer. Whether it was that. */
static bool put_blank(const target *t, size_t row, est_str text)
{
    if (t->column->dtype != EST_F32 && t->column->dtype != EST_F64) return false;
    if (trimmed(text).size > 0) return false;
    if (t->column->dtype == EST_F32) ((float *)t->data)[row] = 0;
    if (t->column->dtype == EST_F64) ((double *)t->data)[row] = 0;
    return true;
}

/* Stores a field without its quotes and blanks in its column. */
static inline est_status put_field(const call *c, size_t row, size_t field, est_str text)
{
    const est_csv_decoder *d = c->d;
    const target          *t = &c->targets[field];
    est_number_result      result;

    if (t->column == NULL) return EST_OK;
    if (text.size == 0) return put_fill(c, row, field, text);
    if (text.size == d->na_size && memcmp(text.data, d->na, text.size) == 0) return put_fill(c, row, field, text);
    switch (t->column->dtype) {
    case EST_STRING: ((est_str *)t->data)[row] = text; return EST_OK;
    case EST_F32: result = est_number_f32(text.data, text.size, (float *)t->data + row); break;
    case EST_F64: result = est_number_f64(text.data, text.size, (double *)t->data + row); break;
    case EST_I32: result = est_number_i32(text.data, text.size, (int32_t *)t->data + row); break;
    default: result = est_number_i64(text.data, text.size, (int64_t *)t->data + row); break;
    }
    if (result == EST_NUMBER_OK || put_blank(t, row, text)) return EST_OK;
    return fail_field(c, row, field, text, why_not(t->column->dtype, result));
}

/* --- rows with care ----------------------------------------------------------------------------------------------- */

/* What is read field by field. */
typedef struct field_reader {
    char        delimiter;
    bool        quotes, trim;
    const char *at, *end;
    bool        more;    /* a further field follows */
    est_arena **scratch; /* as in call */
    const char *why;     /* what is wrong with the field read last; NULL: nothing */
} field_reader;

/* Starts at a row, without the line break that may be at its end. */
static void field_reader_start(field_reader *r, est_str row)
{
    if (row.size == 0) row.data = ""; /* and not NULL */
    if (row.size > 0 && row.data[row.size - 1] == '\n') {
        row.size--;
        if (row.size > 0 && row.data[row.size - 1] == '\r') row.size--;
    }
    r->at   = row.data;
    r->end  = row.data + row.size;
    r->more = true;
}

static field_reader field_reader_of(const est_csv_decoder *d, est_str row, est_arena **scratch)
{
    field_reader r = { .delimiter = d->delimiter, .quotes = d->quotes, .trim = d->trim, .scratch = scratch };

    field_reader_start(&r, row);
    return r;
}

/* Takes the doubling of quotes off. */
static est_status undouble(field_reader *r, est_str *text)
{
    size_t n = 0;
    char  *to;

    if (*r->scratch == NULL) *r->scratch = est_arena_create();
    to = *r->scratch != NULL ? est_arena_alloc(*r->scratch, text->size) : NULL;
    if (to == NULL) return est_no_memory();
    for (size_t i = 0; i < text->size; i++) {
        to[n++] = text->data[i];
        if (text->data[i] == '"') i++;
    }
    *text = (est_str){ to, n };
    return EST_OK;
}

/* The field that begins with a quote at `at`; leaves `at` after the closing one. */
static est_status read_quoted(field_reader *r, est_str *text)
{
    const char *first   = r->at + 1, *close;
    bool        doubled = false;

    for (close = first;; close += 2) {
        close = memchr(close, '"', (size_t)(r->end - close));
        if (close == NULL) {
            *text  = (est_str){ r->at, (size_t)(r->end - r->at) };
            r->why = "has no closing quote";
            return EST_OK;
        }
        if (close + 1 == r->end || close[1] != '"') break;
        doubled = true;
    }
    *text = (est_str){ first, (size_t)(close - first) };
    r->at = close + 1;
    return doubled ? undouble(r, text) : EST_OK;
}

static void read_unquoted(field_reader *r, est_str *text)
{
    const char *stop = memchr(r->at, r->delimiter, (size_t)(r->end - r->at));

    if (stop == NULL) stop = r->end;
    *text = (est_str){ r->at, (size_t)(stop - r->at) };
    if (r->trim) *text = trimmed(*text);
    if (r->quotes && memchr(text->data, '"', text->size) != NULL) {
        r->why = "has a quote inside; put the field in quotes and double it";
    } else if (memchr(text->data, '\n', text->size) != NULL || memchr(text->data, '\r', text->size) != NULL) {
        r->why = "has a line break outside quotes";
    }
    r->at = stop;
}

static void skip_blanks(field_reader *r)
{
    if (!r->trim) return;
    while (r->at < r->end && is_blank(*r->at) && *r->at != r->delimiter) r->at++;
}

/* The next field; `why` says when it is not written as it should be. Only to be called while there is more. */
static est_status next_field(field_reader *r, est_str *text)
{
    skip_blanks(r);
    if (r->quotes && r->at < r->end && *r->at == '"') {
        EST_TRY(read_quoted(r, text));
        skip_blanks(r);
        if (r->why == NULL && r->at < r->end && *r->at != r->delimiter) r->why = "is followed by more after its quote";
    } else {
        read_unquoted(r, text);
    }
    r->more = r->at < r->end && r->why == NULL;
    r->at += r->more; /* the delimiter */
    return EST_OK;
}

/* Any row; also words the errors. */
static est_status decode_carefully(call *c, size_t row, est_str text)
{
    field_reader r     = field_reader_of(c->d, text, &c->scratch);
    size_t       field = 0;
    est_str      value;

    for (; r.more; field++) {
        EST_TRY(next_field(&r, &value));
        if (r.why != NULL) return fail_field(c, row, field, value, r.why);
        if (field < c->d->n_fields) EST_TRY(put_field(c, row, field, value));
    }
    return field == c->d->n_fields ? EST_OK : fail_count(c, row, field, text);
}

/* --- rows in a hurry ---------------------------------------------------------------------------------------------- */

typedef struct marks {
    uint64_t delimiters;
    uint64_t others; /* quotes and line breaks */
} marks;

#ifdef __AVX2__

static inline uint64_t mask_of(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

static inline __m256i others_of(__m256i bytes, char quote)
{
    __m256i quotes = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(quote));
    __m256i breaks = _mm256_or_si256(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\n')),
                                     _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\r')));

    return _mm256_or_si256(quotes, breaks);
}

static inline marks marks_of(const char *block, char delimiter, char quote)
{
    __m256i low       = _mm256_loadu_si256((const __m256i *)(const void *)block);
    __m256i high      = _mm256_loadu_si256((const __m256i *)(const void *)(block + 32));
    __m256i separator = _mm256_set1_epi8(delimiter);

    return (marks){ mask_of(_mm256_cmpeq_epi8(low, separator), _mm256_cmpeq_epi8(high, separator)),
                    mask_of(others_of(low, quote), others_of(high, quote)) };
}

#else

#define ONES 0x0101010101010101u
#define LOW7 (0x7f * ONES)

/* A bit for each of eight bytes that equals `byte`. */
static inline uint64_t equal_bits(uint64_t word, char byte)
{
    uint64_t x = word ^ (ONES * (unsigned char)byte);

    x = ~(((x & LOW7) + LOW7) | x | LOW7);
    return ((x >> 7) * 0x0102040810204080u) >> 56;
}

static inline marks marks_of(const char *block, char delimiter, char quote)
{
    marks m = { 0, 0 };

    for (int i = 0; i < BLOCK / 8; i++) {
        uint64_t word = est_wire_load64((const uint8_t *)block + 8 * i);

        m.delimiters |= equal_bits(word, delimiter) << (8 * i);
        m.others |= (equal_bits(word, quote) | equal_bits(word, '\n') | equal_bits(word, '\r')) << (8 * i);
    }
    return m;
}

#endif

/* The marks of a row from `at` on. Near the end the last whole block is looked at instead, so that nothing beyond the
 * row is read; of a row shorter than a block, a copy. */
static inline marks marks_at(const est_csv_decoder *d, est_str row, size_t at)
{
    size_t left  = row.size - at;
    char   quote = d->quotes ? '"' : '\n';
    marks  m;

    if (left >= BLOCK) return marks_of(row.data + at, d->delimiter, quote);
    if (row.size >= BLOCK) {
        m = marks_of(row.data + row.size - BLOCK, d->delimiter, quote);
        m.delimiters >>= BLOCK - left;
        m.others >>= BLOCK - left;
    } else {
        char     copy[BLOCK];
        uint64_t within = ((uint64_t)1 << left) - 1;

        memcpy(copy, row.data, row.size);
        m = marks_of(copy, d->delimiter, quote);
        m.delimiters &= within;
        m.others &= within;
    }
    return m;
}

static inline est_status put_plain(const call *c, size_t row, size_t field, const char *from, const char *to)
{
    est_str text = { from, (size_t)(to - from) };

    return put_field(c, row, field, c->d->trim ? trimmed(text) : text);
}

static est_status decode_row(call *c, size_t row, est_str text)
{
    const char *from  = text.data;
    size_t      field = 0, last = c->d->n_fields - 1;

    for (size_t at = 0; at < text.size; at += BLOCK) {
        marks m = marks_at(c->d, text, at);

        if (m.others != 0) return decode_carefully(c, row, text);
        for (; m.delimiters != 0; m.delimiters &= m.delimiters - 1) {
            const char *stop = text.data + at + __builtin_ctzll(m.delimiters);

            if (field == last) return decode_carefully(c, row, text);
            EST_TRY(put_plain(c, row, field++, from, stop));
            from = stop + 1;
        }
    }
    if (field != last) return decode_carefully(c, row, text);
    return put_plain(c, row, field, from, text.data + text.size);
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

static est_status decode_rows(call *c, const est_str *rows, size_t n, size_t *bad_row)
{
    for (size_t i = 0; i < n; i++) {
        est_status status = decode_row(c, i, rows[i]);

        if (status == EST_OK) continue;
        if (status == EST_INVALID_ARGUMENT) *bad_row = i;
        return status;
    }
    return EST_OK;
}

static est_status make_tensors(const est_csv_decoder *d, size_t n, est_tensor **tensors)
{
    for (size_t i = 0; i < d->n_columns; i++) {
        EST_TRY(est_tensor_create(d->columns[i].dtype, EST_SHAPE((int64_t)n), &tensors[i]));
    }
    return EST_OK;
}

static est_status own_strings(const est_csv_decoder *d, est_tensor **tensors)
{
    for (size_t i = 0; i < d->n_columns; i++) {
        if (d->columns[i].dtype == EST_STRING) EST_TRY(est_tensor_own_strings(tensors[i]));
    }
    return EST_OK;
}

static est_status decode_into(const est_csv_decoder *d, const est_str *rows, size_t n, est_tensor **tensors,
                              size_t *bad_row)
{
    call       c = { .d = d };
    est_status status;

    EST_TRY(make_tensors(d, n, tensors));
    c.targets = est_zalloc(d->n_fields * sizeof *c.targets);
    if (c.targets == NULL) return est_no_memory();
    for (size_t i = 0; i < d->n_fields; i++) {
        size_t k = d->field_column[i];

        if (k < d->n_columns) c.targets[i] = (target){ &d->columns[k], est_tensor_mutable_data(tensors[k]) };
    }
    status = decode_rows(&c, rows, n, bad_row);
    if (status == EST_OK) status = own_strings(d, tensors);
    est_arena_free(c.scratch);
    est_free(c.targets);
    return status;
}

est_status est_csv_decode(const est_csv_decoder *decoder, const est_str *rows, size_t n, est_tensor **out,
                          size_t *bad_row)
{
    const est_csv_decoder *d = decoder;
    size_t                 ignored;
    est_tensor           **tensors;
    est_status             status;

    if (bad_row == NULL) bad_row = &ignored;
    *bad_row = n;
    if (d->field_column == NULL) {
        return est_fail(EST_FAILED_PRECONDITION, "rows of a CSV file before its header: give that first");
    }
    tensors = est_zalloc(d->n_columns * sizeof *tensors);
    if (tensors == NULL) return est_no_memory();
    status = decode_into(d, rows, n, tensors, bad_row);
    if (status == EST_OK) {
        memcpy(out, tensors, d->n_columns * sizeof *tensors);
    } else {
        for (size_t i = 0; i < d->n_columns; i++) est_tensor_free(tensors[i]);
    }
    est_free(tensors);
    return status;
}

/* --- the decoder -------------------------------------------------------------------------------------------------- */

static size_t find_column(const est_csv_decoder *d, est_str name)
{
    size_t i = 0;

    while (i < d->n_columns &&
           (strlen(d->columns[i].name) != name.size || memcmp(d->columns[i].name, name.data, name.size) != 0)) {
        i++;
    }
    return i;
}

static est_status fail_bind(const char *name, const char *why)
{
    return est_fail(EST_INVALID_ARGUMENT, "column \"%s\" %s", name, why);
}

/* The error for a column that no field matches: suggests the nearest name, or a wrong delimiter. */
static est_status fail_missing(const char *name, const est_str *names, size_t n)
{
    char   word[EST_WORD_MAX + 1], nearest[EST_WORD_MAX + 1] = "";
    size_t least = strlen(name) / 3 + 1;

    if (n == 1 &&
        (memchr(names[0].data, ';', names[0].size) != NULL || memchr(names[0].data, '\t', names[0].size) != NULL)) {
        return fail_bind(name, "is not among the names of the fields; there is only one field: is the delimiter right "
                               "(data.csv.delimiter in a job file)?");
    }
    for (size_t i = 0; i < n; i++) {
        size_t distance;

        if (names[i].size > EST_WORD_MAX) continue;
        memcpy(word, names[i].data, names[i].size);
        word[names[i].size] = '\0';
        distance            = est_edit_distance(name, word);
        if (distance > least || (distance == least && nearest[0] != '\0')) continue;
        least = distance;
        memcpy(nearest, word, sizeof nearest);
    }
    return est_fail(EST_INVALID_ARGUMENT, "column \"%s\" is not among the names of the fields%s%s%s", name,
                    nearest[0] != '\0' ? "; did you mean \"" : "", nearest, nearest[0] != '\0' ? "\"?" : "");
}

/* Finds the requested columns among the names of the fields. */
static est_status bind(est_csv_decoder *d, const est_str *names, size_t n)
{
    size_t    *field_column = est_alloc(n * sizeof *field_column);
    bool      *seen         = est_zalloc(d->n_columns * sizeof *seen);
    size_t     missing      = 0;
    est_status status       = EST_OK;

    if (field_column == NULL || seen == NULL) status = est_no_memory();
    for (size_t i = 0; i < n && status == EST_OK; i++) {
        size_t k = field_column[i] = find_column(d, names[i]);

        if (k == d->n_columns) continue;
        if (seen[k]) status = fail_bind(d->columns[k].name, "is there twice");
        seen[k] = true;
    }
    if (status == EST_OK) {
        while (missing < d->n_columns && seen[missing]) missing++;
        if (missing < d->n_columns) status = fail_missing(d->columns[missing].name, names, n);
    }
    est_free(seen);
    if (status != EST_OK) {
        est_free(field_column);
        return status;
    }
    est_free(d->field_column);
    d->field_column = field_column;
    d->n_fields     = n;
    return EST_OK;
}

/* The fields of a row, of which at most `max` into `fields`; `what` the row is, in errors. */
static est_status split(field_reader *r, const char *what, est_str *fields, size_t max, size_t *n)
{
    char buf[TEXT_MAX];

    for (*n = 0; r->more; ++*n) {
        est_str field;

        EST_TRY(next_field(r, &field));
        if (r->why != NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "%sfield %zu: \"%s\" %s", what, *n + 1, show(field, buf), r->why);
        }
        if (*n < max) fields[*n] = field;
    }
    return EST_OK;
}

est_status est_csv_split(est_str row, char delimiter, bool quotes, bool trim, est_arena **scratch, est_str *fields,
                         size_t max, size_t *n)
{
    field_reader r = { .delimiter = delimiter, .quotes = quotes, .trim = trim, .scratch = scratch };

    field_reader_start(&r, row);
    return split(&r, "", fields, max, n);
}

static est_status split_header(const est_csv_decoder *d, est_str header, est_arena **scratch, est_str *names,
                               size_t max, size_t *n)
{
    field_reader r = field_reader_of(d, header, scratch);

    return split(&r, "header, ", names, max, n);
}

est_status est_csv_decoder_header(est_csv_decoder *decoder, est_str header)
{
    est_csv_decoder *d       = decoder;
    est_arena       *scratch = NULL;
    est_str         *names   = NULL;
    size_t           n;
    est_status       status;

    if (!d->header)
        return est_fail(EST_FAILED_PRECONDITION, "a header is given, but the options say that the CSV "
                                                 "file has none; set .header");
    status = split_header(d, header, &scratch, NULL, 0, &n);
    if (status == EST_OK) {
        names = est_alloc(n * sizeof *names);
        if (names == NULL) status = est_no_memory();
    }
    if (status == EST_OK) status = split_header(d, header, &scratch, names, n, &n);
    if (status == EST_OK) status = bind(d, names, n);
    est_free(names);
    est_arena_free(scratch);
    return status;
}

static est_status check_options(const est_csv_options *options, est_csv_options *out)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_csv_options), options, out));
    if (out->delimiter == 0) out->delimiter = ',';
    if (strchr("\"\n\r", out->delimiter) != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "a quote or a line break cannot be the delimiter");
    }
    if (out->header && out->field_names.data != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "both field names and .header are set; leave one out");
    }
    return EST_OK;
}

static est_status init_column(column *c, const est_csv_column *spec)
{
    est_number_result result;
    est_str           text;

    if (spec->name == NULL) return est_fail(EST_INVALID_ARGUMENT, "a column without a name");
    if (spec->dtype != EST_F32 && spec->dtype != EST_F64 && spec->dtype != EST_I32 && spec->dtype != EST_I64 &&
        spec->dtype != EST_STRING) {
        return est_fail(EST_INVALID_ARGUMENT, "column \"%s\": %s is not float32, float64, int32, int64 or string",
                        spec->name, est_dtype_name(spec->dtype));
    }
    c->name     = est_strdup(spec->name);
    c->dtype    = spec->dtype;
    c->required = spec->required;
    if (spec->default_text != NULL) c->default_text = est_strdup(spec->default_text);
    if (c->name == NULL || (spec->default_text != NULL && c->default_text == NULL)) {
        return est_no_memory();
    }
    text = c->default_text != NULL ? (est_str){ c->default_text, strlen(c->default_text) } : (est_str){ "", 0 };
    if (c->dtype == EST_STRING) {
        c->fill.str = text;
    } else if (text.size > 0) {
        result = parse_number(c->dtype, text, &c->fill);
        if (result == EST_NUMBER_OK) return EST_OK;
        return est_fail(EST_INVALID_ARGUMENT, "column \"%s\": the default \"%s\" %s", c->name, c->default_text,
                        why_not(c->dtype, result));
    }
    return EST_OK;
}

static est_status init_columns(est_csv_decoder *d, const est_csv_column *columns, size_t n)
{
    d->columns = est_zalloc(n * sizeof *d->columns);
    if (d->columns == NULL) return est_no_memory();
    for (size_t i = 0; i < n; i++) {
        const char *name = columns[i].name;

        if (name != NULL && find_column(d, (est_str){ name, strlen(name) }) < i) {
            return fail_bind(name, "is given twice");
        }
        d->n_columns++; /* a column that fails is freed too */
        EST_TRY(init_column(&d->columns[i], &columns[i]));
    }
    return EST_OK;
}

/* Which field is which column, where no header tells. */
static est_status bind_names(est_csv_decoder *d, const est_csv_options *o)
{
    size_t     n     = o->field_names.data != NULL ? (size_t)o->field_names.n : d->n_columns;
    est_str   *names = est_alloc(n * sizeof *names);
    est_status status;

    if (names == NULL) return est_no_memory();
    for (size_t i = 0; i < n; i++) {
        names[i].data = o->field_names.data != NULL ? o->field_names.data[i] : d->columns[i].name;
        names[i].size = strlen(names[i].data);
    }
    status = bind(d, names, n);
    est_free(names);
    return status;
}

est_status est_csv_decoder_create(const est_csv_column *columns, size_t n_columns, const est_csv_options *options,
                                  est_csv_decoder **out)
{
    est_csv_options  o;
    est_csv_decoder *d;
    est_status       status;

    EST_TRY(check_options(options, &o));
    if (n_columns == 0) return est_fail(EST_INVALID_ARGUMENT, "a CSV decoder without columns");
    d = est_zalloc(sizeof *d);
    if (d == NULL) return est_no_memory();
    d->delimiter = o.delimiter;
    d->quotes    = !o.no_quotes;
    d->trim      = o.trim;
    d->header    = o.header;
    status       = init_columns(d, columns, n_columns);
    if (status == EST_OK && o.na_value != NULL && o.na_value[0] != 0) {
        d->na      = est_strdup(o.na_value);
        d->na_size = strlen(o.na_value);
        if (d->na == NULL) status = est_no_memory();
    }
    if (status == EST_OK && !o.header) status = bind_names(d, &o);
    if (status != EST_OK) {
        est_csv_decoder_free(d);
        return status;
    }
    *out = d;
    return EST_OK;
}

void est_csv_decoder_free(est_csv_decoder *decoder)
{
    if (decoder == NULL) return;
    for (size_t i = 0; i < decoder->n_columns; i++) {
        est_free(decoder->columns[i].name);
        est_free(decoder->columns[i].default_text);
    }
    est_free(decoder->columns);
    est_free(decoder->na);
    est_free(decoder->field_column);
    est_free(decoder);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

void est_csv_append_field(est_strbuf *buf, est_str field, char delimiter)
{
    const char *at = field.data, *end = field.data + field.size;
    bool        quote = false;

    for (const char *p = at; p < end; p++) quote = quote || *p == delimiter || *p == '"' || *p == '\n' || *p == '\r';
    if (field.size > 0 && (is_blank(*at) || is_blank(end[-1]))) quote = true; /* for readers that trim */
    if (!quote) {
        est_strbuf_append_bytes(buf, field.data, field.size);
        return;
    }
    est_strbuf_append_bytes(buf, "\"", 1);
    while (at < end) {
        const char *stop = memchr(at, '"', (size_t)(end - at));

        stop = stop != NULL ? stop + 1 : end;
        est_strbuf_append_bytes(buf, at, (size_t)(stop - at));
        if (stop[-1] == '"') est_strbuf_append_bytes(buf, "\"", 1);
        at = stop;
    }
    est_strbuf_append_bytes(buf, "\"", 1);
}
