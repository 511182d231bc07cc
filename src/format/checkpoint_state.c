/* SPDX-License-Identifier: Apache-2.0
 *
 * The state file of checkpoints, and as much of protobuf's text format as reading it takes:
 *
 *   field    name [:] value [,|;]      a value is a string, a number or word, a list, or a message (no colon needed)
 *   string   "..." or '...', several in a row are one
 *   list     [ value, value ]
 *   message  { field* } or < field* >
 *   comment  # to the end of the line */
#include "format/checkpoint_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "format/number.h"

#define DEPTH_MAX 32 /* messages within messages, in fields that are skipped */

/* --- the struct --------------------------------------------------------------------------------------------------- */

static est_status keep(est_checkpoint_state *state, const char *text, const char **out)
{
    if (state->arena == NULL) state->arena = est_arena_create();
    *out = state->arena != NULL ? est_arena_strdup(state->arena, text) : NULL;
    return *out != NULL ? EST_OK : est_no_memory();
}

est_status est_checkpoint_state_set_latest(est_checkpoint_state *state, const char *path)
{
    return keep(state, path, &state->model_checkpoint_path);
}

est_status est_checkpoint_state_add_path(est_checkpoint_state *state, const char *path)
{
    const char **paths = est_realloc(state->paths, ((size_t)state->n_paths + 1) * sizeof *paths);

    if (paths == NULL) return est_no_memory();
    state->paths = paths;
    EST_TRY(keep(state, path, &paths[state->n_paths]));
    state->n_paths++;
    return EST_OK;
}

est_status est_checkpoint_state_add_timestamp(est_checkpoint_state *state, double timestamp)
{
    double *timestamps = est_realloc(state->timestamps, ((size_t)state->n_timestamps + 1) * sizeof *timestamps);

    if (timestamps == NULL) return est_no_memory();
    state->timestamps                        = timestamps;
    state->timestamps[state->n_timestamps++] = timestamp;
    return EST_OK;
}

void est_checkpoint_state_clear(est_checkpoint_state *state)
{
    est_arena_free(state->arena);
    est_free(state->paths);
    est_free(state->timestamps);
    memset(state, 0, sizeof *state);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Escapes as Python's protobuf does: bytes that are not printable ASCII in octal. */
static void print_string(est_strbuf *out, const char *field, const char *text)
{
    est_strbuf_printf(out, "%s: \"", field);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        switch (*p) {
        case '\t': est_strbuf_append(out, "\\t"); break;
        case '\n': est_strbuf_append(out, "\\n"); break;
        case '\r': est_strbuf_append(out, "\\r"); break;
        case '"': est_strbuf_append(out, "\\\""); break;
        case '\'': est_strbuf_append(out, "\\'"); break;
        case '\\': est_strbuf_append(out, "\\\\"); break;
        default:
            if (*p < 0x20 || *p > 0x7e) {
                est_strbuf_printf(out, "\\%03o", *p);
            } else {
                est_strbuf_append_bytes(out, p, 1);
            }
        }
    }
    est_strbuf_append(out, "\"\n");
}

static void print_number(est_strbuf *out, const char *field, double value)
{
    char text[EST_NUMBER_TEXT_MAX];

    est_strbuf_printf(out, "%s: %s\n", field, est_number_f64_text(value, text));
}

void est_checkpoint_state_print(const est_checkpoint_state *state, est_strbuf *out)
{
    if (state->model_checkpoint_path != NULL) {
        print_string(out, "model_checkpoint_path", state->model_checkpoint_path);
    }
    for (int i = 0; i < state->n_paths; i++) print_string(out, "all_model_checkpoint_paths", state->paths[i]);
    for (int i = 0; i < state->n_timestamps; i++) {
        print_number(out, "all_model_checkpoint_timestamps", state->timestamps[i]);
    }
    if (state->has_last_preserved) print_number(out, "last_preserved_timestamp", state->last_preserved_timestamp);
}

est_status est_checkpoint_state_write(const est_checkpoint_state *state, const char *path)
{
    est_strbuf text = { 0 };
    est_status status;

    est_checkpoint_state_print(state, &text);
    status = est_strbuf_status(&text);
    if (status == EST_OK) status = est_file_replace(path, est_strbuf_text(&text), text.size);
    est_strbuf_clear(&text);
    return status;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct text_reader {
    const char           *path;
    const char           *start, *at, *end;
    est_strbuf            name;  /* of the field at hand */
    est_strbuf            value; /* the last string, or the last number or word */
    est_checkpoint_state *state;
} text_reader;

static est_status syntax_error(const text_reader *r, const char *what)
{
    int line = 1;

    for (const char *p = r->start; p < r->at; p++) line += *p == '\n';
    return est_fail(EST_DATA_LOSS, "%s:%d: %s", r->path, line, what);
}

static void skip_space(text_reader *r)
{
    while (r->at < r->end) {
        if (*r->at == '#') {
            while (r->at < r->end && *r->at != '\n') r->at++;
        } else if (*r->at == ' ' || (*r->at >= '\t' && *r->at <= '\r')) {
            r->at++;
        } else {
            return;
        }
    }
}

/* Takes this character if it comes next. */
static bool take(text_reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static char peek(text_reader *r)
{
    skip_space(r);
    return r->at < r->end ? *r->at : '\0';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '+' || c == '-' || c == '/';
}

/* A name, number or word into `out`. A name may be that of an extension: [a.b]. */
static est_status take_word(text_reader *r, est_strbuf *out, const char *what)
{
    bool        bracket = out == &r->name && take(r, '[');
    const char *start;

    skip_space(r);
    start = r->at;
    while (r->at < r->end && is_word(*r->at)) r->at++;
    if (r->at == start) return syntax_error(r, what);
    est_strbuf_reset(out);
    est_strbuf_append_bytes(out, start, (size_t)(r->at - start));
    if (bracket && !take(r, ']')) return syntax_error(r, "no ] after the name of an extension");
    return est_strbuf_status(out);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

/* Digits of an escape, at most n_max; -1 when there are none. */
static int64_t take_digits(text_reader *r, int base, int n_max)
{
    int64_t value = -1;

    for (int i = 0; i < n_max && r->at < r->end && digit(*r->at) < base; i++) {
        value = (value < 0 ? 0 : value * base) + digit(*r->at++);
    }
    return value;
}

static void put_utf8(est_strbuf *out, int code)
{
    char bytes[4];
    int  n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    for (int i = n - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(n == 1 ? code : (0xf00 >> n & 0xff) | code);
    est_strbuf_append_bytes(out, bytes, (size_t)n);
}

/* What follows a backslash. */
static est_status take_escape(text_reader *r)
{
    static const char letters[] = "abfnrtv\\'\"?", meanings[] = "\a\b\f\n\r\t\v\\'\"?";
    const char       *letter;
    int64_t           value;
    char              c;

    if (r->at == r->end) return syntax_error(r, "the text ends within a string");
    c      = *r->at;
    letter = c != '\0' ? strchr(letters, c) : NULL;
    if (letter != NULL) {
        r->at++;
        est_strbuf_append_bytes(&r->value, &meanings[letter - letters], 1);
        return EST_OK;
    }
    if (c == 'u' || c == 'U') {
        r->at++;
        value = take_digits(r, 16, c == 'u' ? 4 : 8);
        if (value < 0 || value > 0x10ffff) return syntax_error(r, "bad \\u in a string");
        put_utf8(&r->value, (int)value);
        return EST_OK;
    }
    if (c == 'x' || c == 'X') r->at++;
    value = c == 'x' || c == 'X' ? take_digits(r, 16, 2) : take_digits(r, 8, 3);
    if (value < 0 || value > 0xff) return syntax_error(r, "unknown escape in a string");
    est_strbuf_append_bytes(&r->value, &(char){ (char)value }, 1);
    return EST_OK;
}

/* Strings in a row, into r->value. */
static est_status take_strings(text_reader *r)
{
    est_strbuf_reset(&r->value);
    while (peek(r) == '"' || peek(r) == '\'') {
        char quote = *r->at++;

        while (r->at < r->end && *r->at != quote) {
            char c = *r->at;

            if (c == '\n') return syntax_error(r, "the line ends within a string");
            r->at++;
            if (c == '\\') {
                EST_TRY(take_escape(r));
            } else {
                est_strbuf_append_bytes(&r->value, &c, 1);
            }
        }
        if (r->at == r->end) return syntax_error(r, "the text ends within a string");
        r->at++;
    }
    return est_strbuf_status(&r->value);
}

static est_status to_double(text_reader *r, double *out)
{
    const char *text = est_strbuf_text(&r->value);
    size_t      size = r->value.size;

    if (est_number_f64(text, size, out) == EST_NUMBER_OK) return EST_OK;
    if (size > 0 && text[size - 1] == 'f' && est_number_f64(text, size - 1, out) == EST_NUMBER_OK) return EST_OK;
    return syntax_error(r, "not a number");
}

/* Puts one value of the field r->name where it belongs. */
static est_status use_value(text_reader *r, bool is_string)
{
    est_checkpoint_state *state = r->state;
    const char           *name = est_strbuf_text(&r->name), *text = est_strbuf_text(&r->value);
    bool                  latest = strcmp(name, "model_checkpoint_path") == 0;
    bool                  path   = strcmp(name, "all_model_checkpoint_paths") == 0;
    bool                  time   = strcmp(name, "all_model_checkpoint_timestamps") == 0;
    double                number;

    if (latest || path) {
        if (!is_string) return syntax_error(r, "a path must be a string");
        if (strlen(text) != r->value.size) return syntax_error(r, "a path with a zero byte in it");
        return latest ? est_checkpoint_state_set_latest(state, text) : est_checkpoint_state_add_path(state, text);
    }
    if (!time && strcmp(name, "last_preserved_timestamp") != 0) return EST_OK;
    if (is_string) return syntax_error(r, "a timestamp must be a number");
    EST_TRY(to_double(r, &number));
    if (time) return est_checkpoint_state_add_timestamp(state, number);
    state->last_preserved_timestamp = number;
    state->has_last_preserved       = true;
    return EST_OK;
}

static est_status take_scalar(text_reader *r, bool *is_string)
{
    *is_string = peek(r) == '"' || peek(r) == '\'';
    return *is_string ? take_strings(r) : take_word(r, &r->value, "a value is missing");
}

static est_status skip_value(text_reader *r, int depth);

static est_status skip_message(text_reader *r, int depth)
{
    char close = *r->at++ == '{' ? '}' : '>';

    if (depth > DEPTH_MAX) return syntax_error(r, "messages within messages too deep");
    while (!take(r, close)) {
        EST_TRY(take_word(r, &r->name, "the name of a field is missing"));
        take(r, ':');
        EST_TRY(skip_value(r, depth + 1));
        if (!take(r, ',')) take(r, ';');
    }
    return EST_OK;
}

static est_status skip_value(text_reader *r, int depth)
{
    bool is_string;

    if (peek(r) == '{' || peek(r) == '<') return skip_message(r, depth);
    if (!take(r, '[')) return take_scalar(r, &is_string);
    if (depth > DEPTH_MAX) return syntax_error(r, "lists within lists too deep");
    if (take(r, ']')) return EST_OK;
    do {
        EST_TRY(skip_value(r, depth + 1));
    } while (take(r, ','));
    return take(r, ']') ? EST_OK : syntax_error(r, "no ] at the end of a list");
}

/* A value of one of our own fields, or a list of them. */
static est_status take_value(text_reader *r)
{
    bool is_string, list = take(r, '[');

    if (list && take(r, ']')) return EST_OK;
    do {
        if (peek(r) == '{' || peek(r) == '<' || peek(r) == '[') {
            EST_TRY(skip_value(r, 0));
        } else {
            EST_TRY(take_scalar(r, &is_string));
            EST_TRY(use_value(r, is_string));
        }
    } while (list && take(r, ','));
    return !list || take(r, ']') ? EST_OK : syntax_error(r, "no ] at the end of a list");
}

static est_status take_field(text_reader *r)
{
    bool colon;

    EST_TRY(take_word(r, &r->name, "the name of a field is missing"));
    colon = take(r, ':');
    if (!colon && peek(r) != '{' && peek(r) != '<') return syntax_error(r, "no : after the name of a field");
    EST_TRY(take_value(r));
    if (!take(r, ',')) take(r, ';');
    return EST_OK;
}

/* An empty or half-written file has no latest checkpoint; lists that do not match are not worth trusting. */
static est_status check_whole(const text_reader *r)
{
    const est_checkpoint_state *state = r->state;

    if (state->model_checkpoint_path == NULL) {
        return est_fail(EST_DATA_LOSS, "%s: has no model_checkpoint_path", r->path);
    }
    if (state->n_timestamps != 0 && state->n_timestamps != state->n_paths) {
        return est_fail(EST_DATA_LOSS, "%s: has %d timestamps for %d paths", r->path, state->n_timestamps,
                        state->n_paths);
    }
    return EST_OK;
}

est_status est_checkpoint_state_parse(est_checkpoint_state *state, const char *path, est_str text)
{
    text_reader r      = { .path = path, .start = text.data, .at = text.data, .end = text.data + text.size };
    est_status  status = EST_OK;

    r.state = state;
    skip_space(&r);
    while (status == EST_OK && r.at < r.end) {
        status = take_field(&r);
        skip_space(&r);
    }
    if (status == EST_OK) status = check_whole(&r);
    est_strbuf_clear(&r.name);
    est_strbuf_clear(&r.value);
    return status;
}

est_status est_checkpoint_state_read(est_checkpoint_state *state, const char *path)
{
    char      *bytes;
    size_t     size;
    est_status status;

    EST_TRY(est_file_read(path, &bytes, &size));
    status = est_checkpoint_state_parse(state, path, (est_str){ bytes, size });
    est_free(bytes);
    return status;
}
