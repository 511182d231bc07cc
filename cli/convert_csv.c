/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc convert` of CSV files. When the type of a column is not given, all files are read twice: first to find out
 * (int64 if every value is one, else float if every value is a number, else bytes), then to convert. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "command.h"
#include "convert.h"
#include "format/csv.h"
#include "format/lines.h"
#include "format/number.h"
#include "output.h"

#define SHOWN_MAX   40                /* characters of a bad field in a message */
#define SCRATCH_MAX ((size_t)1 << 20) /* bytes of fields of earlier rows that are kept */
#define NAMES_SHOWN 8                 /* of the columns that there are, when one is not */

typedef enum column_type { TYPE_UNKNOWN, TYPE_I64, TYPE_F32, TYPE_BYTES } column_type;

static const char *const type_names[] = { "unknown", "int64", "float", "bytes" };

typedef struct column {
    char       *name;
    column_type type;
    size_t      field;            /* in a row of the file at hand */
    bool        not_i64, not_f32; /* a value was seen that is none; one beyond the range of int64 is left aside */
    bool        has_value;
    est_strbuf  beyond_i64; /* where the first value beyond that range is */
    int64_t     n_missing;
} column;

typedef struct csv {
    convert_job *job;
    est_lines   *lines;     /* of the file at hand */
    char         delimiter; /* in it */
    size_t       n_fields;  /* of its rows */
    est_str      row;       /* at hand */
    column      *columns;
    size_t       n_columns;
    est_str     *fields; /* of the row; room for so many */
    size_t       fields_room;
    est_arena   *scratch; /* fields that had doubled quotes */
    int64_t      n_na;    /* fields that were --na */
} csv;

typedef est_status (*visit_fn)(csv *c, const est_str *fields);

static bool same_text(est_str a, const char *b)
{
    return a.size == strlen(b) && (a.size == 0 || memcmp(a.data, b, a.size) == 0);
}

static bool is_na(const csv *c, est_str field)
{
    return c->job->na != NULL && same_text(field, c->job->na);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* Splits a row into c->fields, good until the next row. */
static est_status split(csv *c, est_str row, size_t *n)
{
    if (c->scratch != NULL && est_arena_bytes(c->scratch) > SCRATCH_MAX) {
        est_arena_free(c->scratch);
        c->scratch = NULL;
    }
    for (;;) {
        est_str *more;

        EST_TRY(est_csv_split(row, c->delimiter, true, c->job->trim, &c->scratch, c->fields, c->fields_room, n));
        if (*n <= c->fields_room) return EST_OK;
        more = est_realloc(c->fields, *n * sizeof *more);
        if (more == NULL) return est_no_memory();
        c->fields      = more;
        c->fields_room = *n;
    }
}

/* --- columns ------------------------------------------------------------------------------------------------------ */

static est_status add_column(csv *c, est_str name, column_type type)
{
    column *more = est_realloc(c->columns, (c->n_columns + 1) * sizeof *more);
    char   *copy = est_zalloc(name.size + 1);

    if (more != NULL) c->columns = more;
    if (more == NULL || copy == NULL) {
        est_free(copy);
        return est_no_memory();
    }
    if (name.size > 0) memcpy(copy, name.data, name.size);
    c->columns[c->n_columns] = (column){ .name = copy, .type = type, .field = c->n_columns };
    c->n_columns++;
    for (size_t i = 0; i + 1 < c->n_columns; i++) {
        if (strcmp(c->columns[i].name, copy) == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "two columns are called \"%s\"; an Example needs different names",
                            copy);
        }
    }
    return EST_OK;
}

/* Reads --columns: "age:int64,name:string,city". */
static est_status parse_columns(csv *c, const char *text)
{
    static const char *const words[] = { "int64", "float", "bytes", "string" };
    static const column_type types[] = { TYPE_I64, TYPE_F32, TYPE_BYTES, TYPE_BYTES };

    for (;;) {
        size_t      size  = strcspn(text, ",");
        const char *colon = memrchr(text, ':', size);
        column_type type  = TYPE_UNKNOWN;
        size_t      name  = colon != NULL ? (size_t)(colon - text) : size;

        if (colon != NULL) {
            char word[16];
            int  i;

            snprintf(word, sizeof word, "%.*s", (int)(size - name - 1), colon + 1);
            i = tool_choice(word, words, 4);
            if (i < 0) {
                return est_fail(EST_INVALID_ARGUMENT, "--columns: \"%.*s\": a type is int64, float, bytes or string%s",
                                (int)size, text, tool_suggestion(est_nearest(word, words, 4)));
            }
            type = types[i];
        }
        if (name == 0) return est_fail(EST_INVALID_ARGUMENT, "--columns: \"%.*s\": has no name", (int)size, text);
        EST_TRY(add_column(c, (est_str){ text, name }, type));
        if (text[size] == '\0') return EST_OK;
        text += size + 1;
    }
}

/* A name that is a number is more likely the value of a row. */
static void note_number(const csv *c, est_str name)
{
    est_strbuf shown = { 0 };

    tool_append_printable(&shown, name, SHOWN_MAX);
    tool_note(
        &tool_convert,
        "%s:1: a column is called \"%s\": if the first line is a row and not a header, give --no-header and --columns",
        est_lines_path(c->lines), est_strbuf_text(&shown));
    est_strbuf_clear(&shown);
}

/* All names of a header are columns. */
static est_status take_header(csv *c, const est_str *names, size_t n)
{
    bool  noted = false;
    float number;

    for (size_t i = 0; i < n; i++) {
        if (names[i].size == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "field %zu of the header has no name; select columns with --columns",
                            i + 1);
        }
        if (memchr(names[i].data, 0, names[i].size) != NULL || !tool_is_utf8(names[i])) {
            return est_fail(EST_INVALID_ARGUMENT, "the name of field %zu of the header is not UTF-8", i + 1);
        }
        EST_TRY(add_column(c, names[i], TYPE_UNKNOWN));
        if (noted || est_number_f32(names[i].data, names[i].size, &number) != EST_NUMBER_OK) continue;
        note_number(c, names[i]);
        noted = true;
    }
    return EST_OK;
}

/* Appends the names of a header, those first that look most like `wanted`. */
static void append_names(est_strbuf *out, const char *wanted, const est_str *names, size_t n)
{
    est_arena   *arena = est_arena_create();
    const char **list  = arena != NULL ? est_arena_alloc(arena, n * sizeof *list) : NULL;
    bool         ok    = list != NULL;

    for (size_t i = 0; i < n && ok; i++) {
        list[i] = est_arena_printf(arena, "%.*s", (int)names[i].size, names[i].data);
        ok      = list[i] != NULL;
    }
    if (ok) tool_nearest_first(wanted, list, n, NAMES_SHOWN);
    for (size_t i = 0; i < n && i < NAMES_SHOWN; i++) {
        est_strbuf_append(out, i > 0 ? ", \"" : "\"");
        if (ok) tool_append_printable(out, (est_str){ list[i], strlen(list[i]) }, SHOWN_MAX);
        est_strbuf_append(out, "\"");
    }
    if (n > NAMES_SHOWN) est_strbuf_printf(out, " and %zu more", n - NAMES_SHOWN);
    est_arena_free(arena);
}

static est_status no_column(const char *wanted, const est_str *names, size_t n)
{
    est_strbuf there = { 0 };
    est_status status;

    append_names(&there, wanted, names, n);
    status = est_fail(EST_INVALID_ARGUMENT, "the header has no column \"%s\", only %s%s", wanted,
                      est_strbuf_text(&there), n == 1 ? "; is the --delimiter right?" : "");
    est_strbuf_clear(&there);
    return status;
}

/* Finds the fields of the columns in a header. */
static est_status match_header(csv *c, const est_str *names, size_t n)
{
    for (size_t k = 0; k < c->n_columns; k++) {
        column *at    = &c->columns[k];
        size_t  found = 0;

        for (size_t i = 0; i < n; i++) {
            if (!same_text(names[i], at->name)) continue;
            at->field = i;
            found++;
        }
        if (found == 0) return no_column(at->name, names, n);
        if (found > 1) {
            return est_fail(EST_INVALID_ARGUMENT, "the header has more than one column \"%s\"", at->name);
        }
    }
    c->n_fields = n;
    return EST_OK;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static est_status read_header(csv *c)
{
    est_str    line;
    size_t     n;
    est_status status = est_lines_next(c->lines, &line);

    if (status == EST_OUT_OF_RANGE) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: is empty; a header is expected (or --no-header)",
                        est_lines_path(c->lines));
    }
    EST_TRY(status);
    status = split(c, line, &n);
    if (status == EST_OK && c->n_columns == 0) status = take_header(c, c->fields, n);
    if (status == EST_OK) status = match_header(c, c->fields, n);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s:1", est_lines_path(c->lines));
}

static est_status visit_row(csv *c, est_str line, visit_fn visit)
{
    size_t n;

    c->row = line;
    EST_TRY(split(c, line, &n));
    if (n != c->n_fields) return est_fail(EST_INVALID_ARGUMENT, "%zu fields, not %zu", n, c->n_fields);
    return visit(c, c->fields);
}

/* Visits every row of the file. With `count` rows are counted and bad ones reported; without they are passed over. */
static est_status visit_file(csv *c, visit_fn visit, bool count)
{
    est_status status;
    est_str    line;

    if (!c->job->no_header) EST_TRY(read_header(c));
    while ((status = est_lines_next(c->lines, &line)) == EST_OK) {
        if (line.size == 0 && c->n_fields > 1) continue; /* a blank line */
        if (count) convert_row(c->job);
        status = visit_row(c, line, visit);
        if (status != EST_OK && status != EST_INVALID_ARGUMENT) return status;
        if (status == EST_OK || !count) continue;
        status = est_fail_context(status, "%s:%" PRIu64, est_lines_path(c->lines), est_lines_number(c->lines, line));
        EST_TRY(convert_bad_row(c->job, status));
    }
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}

static est_status visit_files(csv *c, visit_fn visit, bool count)
{
    for (int i = 0; i < c->job->n_inputs; i++) {
        est_lines_read_options options = { .quoted = true, .delimiter = c->job->delimiter, .trim = c->job->trim };
        est_status             status;

        if (options.delimiter == 0) options.delimiter = tool_has_ending(c->job->inputs[i], ".tsv") ? '\t' : ',';
        c->delimiter = options.delimiter;
        EST_TRY(est_lines_open(c->job->inputs[i], &options, &c->lines));
        status = visit_file(c, visit, count);
        est_lines_close(c->lines);
        EST_TRY(status);
    }
    return EST_OK;
}

/* --- first pass: types -------------------------------------------------------------------------------------------- */

/* Whether a value is beyond the range of int64; if so, it is noted when it is the first. */
static bool is_beyond_i64(const csv *c, column *at, est_str field, est_number_result result)
{
    if (result != EST_NUMBER_RANGE) return false;
    if (at->beyond_i64.size > 0) return true;
    est_strbuf_printf(&at->beyond_i64, "%s:%" PRIu64 ": column \"%s\": ", est_lines_path(c->lines),
                      est_lines_number(c->lines, c->row), at->name);
    tool_append_printable(&at->beyond_i64, field, SHOWN_MAX);
    return true;
}

static est_status look_at_row(csv *c, const est_str *fields)
{
    for (size_t k = 0; k < c->n_columns; k++) {
        column *at    = &c->columns[k];
        est_str field = fields[at->field];
        int64_t i64;
        float   f32;

        if (field.size == 0 || is_na(c, field)) continue;
        at->has_value = true;
        if (!at->not_i64) {
            est_number_result result = est_number_i64(field.data, field.size, &i64);

            at->not_i64 = result != EST_NUMBER_OK && !is_beyond_i64(c, at, field, result);
        }
        if (at->not_i64 && !at->not_f32) at->not_f32 = est_number_f32(field.data, field.size, &f32) != EST_NUMBER_OK;
    }
    return EST_OK;
}

/* A pipe can be read only once. */
static est_status check_rereadable(const convert_job *job)
{
    struct stat info;

    for (int i = 0; i < job->n_inputs; i++) {
        if (stat(job->inputs[i], &info) == 0 && S_ISREG(info.st_mode)) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: is not a regular file, so types cannot be detected; give all of them with --columns",
                        job->inputs[i]);
    }
    return EST_OK;
}

static est_status find_types(csv *c)
{
    bool all_known = c->n_columns > 0;

    for (size_t k = 0; k < c->n_columns; k++) all_known &= c->columns[k].type != TYPE_UNKNOWN;
    if (all_known) return EST_OK;
    EST_TRY(check_rereadable(c->job));
    EST_TRY(visit_files(c, look_at_row, false));
    for (size_t k = 0; k < c->n_columns; k++) {
        column *at = &c->columns[k];

        if (at->type != TYPE_UNKNOWN) continue;
        if (at->not_i64 || at->beyond_i64.size == 0) {
            at->type = !at->has_value || at->not_f32 ? TYPE_BYTES : at->not_i64 ? TYPE_F32 : TYPE_I64;
            continue;
        }
        at->type = TYPE_F32;
        tool_note(&tool_convert,
                  "%s does not fit int64, so the column is float, which rounds; --columns %s:string keeps the text",
                  est_strbuf_text(&at->beyond_i64), at->name);
    }
    return EST_OK;
}

/* --- second pass: Examples ---------------------------------------------------------------------------------------- */

/* Puts a field into the Example. */
static est_status set_field(csv *c, const column *at, est_str field)
{
    est_number_result result = EST_NUMBER_OK;
    int64_t           i64;
    float             f32;
    est_strbuf        shown  = { 0 };
    est_status        status = EST_OK;

    if (at->type == TYPE_BYTES) {
        est_example_set_bytes(c->job->example, at->name, &field, 1);
    } else if (at->type == TYPE_I64) {
        result = est_number_i64(field.data, field.size, &i64);
        est_example_set_i64s(c->job->example, at->name, &i64, result == EST_NUMBER_OK);
    } else {
        result = est_number_f32(field.data, field.size, &f32);
        est_example_set_f32s(c->job->example, at->name, &f32, result == EST_NUMBER_OK);
    }
    if (result != EST_NUMBER_OK) {
        tool_append_printable(&shown, field, SHOWN_MAX);
        status = est_fail(EST_INVALID_ARGUMENT, "column \"%s\": \"%s\" is not %s", at->name, est_strbuf_text(&shown),
                          at->type == TYPE_F32 ? "a number" : "an int64");
        est_strbuf_clear(&shown);
    }
    return status;
}

static bool is_missing(const csv *c, const column *at, est_str field)
{
    return is_na(c, field) || (field.size == 0 && at->type != TYPE_BYTES);
}

static est_status convert_fields(csv *c, const est_str *fields)
{
    est_status status = EST_OK;

    for (size_t k = 0; k < c->n_columns && status == EST_OK; k++) {
        const column *at = &c->columns[k];

        if (!is_missing(c, at, fields[at->field])) status = set_field(c, at, fields[at->field]);
    }
    if (status != EST_OK) {
        est_example_reset(c->job->example);
        return status;
    }
    for (size_t k = 0; k < c->n_columns; k++) {
        est_str field = fields[c->columns[k].field];

        c->columns[k].n_missing += is_missing(c, &c->columns[k], field);
        c->n_na += is_na(c, field);
    }
    return convert_emit(c->job);
}

static void report(csv *c)
{
    est_strbuf *to = &c->job->report;

    for (size_t k = 0; k < c->n_columns; k++) {
        const column *at = &c->columns[k];

        if (c->job->json) {
            est_strbuf_append(to, k > 0 ? ", {\"name\": " : "{\"name\": ");
            tool_append_json_text(to, at->name);
            est_strbuf_printf(to, ", \"type\": \"%s\", \"missing\": %" PRId64 "}", type_names[at->type], at->n_missing);
        } else {
            tool_append_printable(to, (est_str){ at->name, strlen(at->name) }, 0);
            est_strbuf_printf(to, ": %s", type_names[at->type]);
            if (at->n_missing > 0) est_strbuf_printf(to, ", %" PRId64 " missing", at->n_missing);
            est_strbuf_append(to, "\n");
        }
    }
}

static void clear(csv *c)
{
    for (size_t k = 0; k < c->n_columns; k++) {
        est_free(c->columns[k].name);
        est_strbuf_clear(&c->columns[k].beyond_i64);
    }
    est_free(c->columns);
    est_free(c->fields);
    est_arena_free(c->scratch);
}

est_status convert_csv_check(convert_job *job)
{
    csv        c      = { .job = job };
    est_status status = job->columns != NULL ? parse_columns(&c, job->columns) : EST_OK;

    clear(&c);
    return status;
}

est_status convert_csv(convert_job *job)
{
    csv        c      = { .job = job };
    est_status status = EST_OK;

    if (job->columns != NULL) status = parse_columns(&c, job->columns);
    c.n_fields = c.n_columns;
    if (status == EST_OK) status = find_types(&c);
    if (status == EST_OK) status = visit_files(&c, convert_fields, true);
    if (status == EST_OK) report(&c);
    if (status == EST_OK && job->na != NULL && job->n_records > 0 && c.n_na == 0) {
        tool_note(&tool_convert, "--na \"%s\" matches no field%s", job->na,
                  job->trim ? "" : " (with --trim blanks around it do not matter)");
    }
    clear(&c);
    return status;
}
