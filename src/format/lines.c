/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are pointers into the view that est_byte_source has of the file. A call looks for line breaks from the start of
 * the view and asks for more of the file when it runs out of them; the view may move then, and the lines found so far
 * with it.
 *
 * With quotes: a line without any is found like every other, and where the next quote is stays known from call to call.
 * Other lines are gone through field by field. When a quote is not closed, every line break that was passed on the way
 * is inside of it; a later quote that is still open at one of them would not be closed either, so none is looked
 * for. */
#include "format/lines.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

#define BUFFER_BYTES   ((size_t)1 << 20)  /* default of buffer_bytes */
#define LINE_BYTES_MAX ((size_t)64 << 20) /* default of line_bytes_max */
#define BOM            "\xef\xbb\xbf"
#define BOM_BYTES      3

struct est_lines {
    est_byte_source *source;
    size_t           line_max;
    size_t           buffer_bytes;
    bool             quoted, trim;
    char             delimiter;
    uint64_t         line;       /* physical lines before the next one */
    uint64_t         open_until; /* as est_lines_position.open */
    uint64_t         no_quotes;  /* from where the reader is up to this offset */

    const char *first; /* where the lines of the last call begin; NULL: there are none */
    uint64_t    first_line;
};

/* A record in view. */
typedef struct found {
    size_t   size;   /* without the line break */
    size_t   whole;  /* with it */
    uint64_t breaks; /* physical lines it takes */
} found;

est_status est_lines_open(const char *path, const est_lines_read_options *options, est_lines **out)
{
    est_lines_read_options o = options != NULL ? *options : (est_lines_read_options){ 0 };
    est_lines             *lines;
    est_status             status;

    lines = est_zalloc(sizeof *lines);
    if (lines == NULL) return est_no_memory();
    lines->quoted       = o.quoted;
    lines->trim         = o.trim;
    lines->delimiter    = o.delimiter != 0 ? o.delimiter : ',';
    lines->line_max     = o.line_bytes_max != 0 ? o.line_bytes_max : LINE_BYTES_MAX;
    lines->buffer_bytes = o.buffer_bytes != 0 ? o.buffer_bytes : BUFFER_BYTES;
    if (lines->line_max > SIZE_MAX / 4) lines->line_max = SIZE_MAX / 4;
    status = est_byte_source_open(
        path, &(est_byte_source_options){ .compression = o.compression, .buffer_bytes = lines->buffer_bytes },
        &lines->source);
    if (status != EST_OK) {
        est_free(lines);
        return status;
    }
    *out = lines;
    return EST_OK;
}

void est_lines_close(est_lines *lines)
{
    if (lines == NULL) return;
    est_byte_source_close(lines->source);
    est_free(lines);
}

/* --- finding lines ------------------------------------------------------------------------------------------------ */

static size_t count_bytes(const char *from, size_t n, char byte)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) count += from[i] == byte;
    return count;
}

/* State of the search for a record. */
typedef struct text {
    const char *at, *end;
    uint64_t    offset; /* of `at` */
} text;

static uint64_t offset_of(const text *t, const char *p)
{
    return t->offset + (uint64_t)(p - t->at);
}

/* Whether there is a quote before `stop`. */
static bool has_quote(est_lines *lines, const text *t, const char *stop)
{
    const char *from = t->at, *quote;

    if (lines->no_quotes >= offset_of(t, stop)) return false;
    if (lines->no_quotes > t->offset) from += lines->no_quotes - t->offset;
    quote            = memchr(from, '"', (size_t)(t->end - from));
    lines->no_quotes = offset_of(t, quote != NULL ? quote : t->end);
    return quote != NULL && quote < stop;
}

/* Where the quotes that were opened before `at` are closed: behind the closing one; NULL: not before the end. */
static const char *quotes_end(const char *at, const char *end)
{
    for (;; at += 2) {
        at = memchr(at, '"', (size_t)(end - at));
        if (at == NULL) return NULL;
        if (at + 1 == end || at[1] != '"') return at + 1;
    }
}

/* Goes through the fields of a record; its line break, or the end if that comes first. NULL: the end is in quotes. */
static const char *fields_end(const est_lines *lines, const char *at, const char *end)
{
    for (;; at++) {
        while (lines->trim && at < end && (*at == ' ' || *at == '\t') && *at != lines->delimiter) at++;
        if (at < end && *at == '"') {
            at = quotes_end(at + 1, end);
            if (at == NULL) return NULL;
        }
        while (at < end && *at != '\n' && *at != lines->delimiter) at++;
        if (at == end || *at == '\n') return at;
    }
}

/* Looks for the end of the record that begins here; false when it may come later. `whole`: nothing comes later. */
static bool find_record(est_lines *lines, const text *t, bool whole, found *out)
{
    const char *feed = memchr(t->at, '\n', (size_t)(t->end - t->at));
    const char *stop = feed != NULL ? feed : t->end;

    if (lines->quoted && has_quote(lines, t, stop)) {
        bool        known = feed != NULL && offset_of(t, feed) < lines->open_until; /* not to be closed if open there */
        const char *quoted = fields_end(lines, t->at, known ? feed : t->end);

        if (quoted == NULL && !known) {
            if (!whole) return false;
            lines->open_until = offset_of(t, t->end);
        }
        if (quoted != NULL) stop = quoted;
    }
    if (stop == t->end && !whole) return false;
    out->size   = (size_t)(stop - t->at);
    out->whole  = out->size + (stop < t->end);
    out->breaks = 1 + (stop != feed ? count_bytes(t->at, out->size, '\n') : 0);
    if (stop < t->end && out->size > 0 && stop[-1] == '\r') out->size--;
    return true;
}

static est_status fail_long(const est_lines *lines, uint64_t breaks)
{
    return est_fail(EST_RESOURCE_EXHAUSTED, "%s: line %" PRIu64 " is longer than the limit of %zu bytes",
                    est_lines_path(lines), lines->line + breaks + 1, lines->line_max);
}

static est_status skip_mark(est_lines *lines)
{
    est_str view;

    if (est_byte_source_tell(lines->source) != 0) return EST_OK;
    EST_TRY(est_byte_source_need(lines->source, 1, &view));
    if (view.size == 0 || view.data[0] != BOM[0]) return EST_OK; /* the first line may be shorter than the mark */
    EST_TRY(est_byte_source_need(lines->source, BOM_BYTES, &view));
    if (view.size >= BOM_BYTES && memcmp(view.data, BOM, BOM_BYTES) == 0) {
        est_byte_source_skip(lines->source, BOM_BYTES);
    }
    return EST_OK;
}

/* Has more of the file in view, *more if there was more. The lines found so far move along, also when it fails. A
 * failure after some more has come is left for the next time: the line may be complete. */
static est_status see_more(est_lines *lines, est_str *view, est_str *out, size_t n, bool *more)
{
    size_t     had  = view->size;
    size_t     want = had < lines->buffer_bytes ? had + 1 : 2 * had;
    uintptr_t  old  = (uintptr_t)view->data;
    est_status status;

    for (size_t i = 0; i < n; i++) out[i].data = (const char *)((uintptr_t)out[i].data - old);
    status = est_byte_source_need(lines->source, want, view);
    if (status != EST_OK && est_byte_source_need(lines->source, 0, view) != EST_OK) return status;
    for (size_t i = 0; i < n; i++) out[i].data = view->data + (uintptr_t)out[i].data;
    *more = view->size > had;
    return *more ? EST_OK : status;
}

est_status est_lines_next_many(est_lines *lines, est_str *out, size_t max, size_t *n)
{
    est_status status = EST_OK;
    size_t     count = 0, used = 0;          /* of the view */
    size_t     limit  = lines->line_max + 2; /* of a record with its line break; what is longer fails */
    uint64_t   breaks = 0;
    bool       more   = true;
    est_str    view;

    lines->first = NULL;
    EST_TRY(skip_mark(lines));
    EST_TRY(est_byte_source_need(lines->source, 1, &view));
    while (count < max) {
        const char *at   = view.data + used;
        size_t      rest = view.size - used;
        text        t    = { at, at + (rest < limit ? rest : limit), est_byte_source_tell(lines->source) + used };
        found       record;

        if (rest == 0 && !more) break;
        if (!find_record(lines, &t, !more || rest >= limit, &record)) {
            if (count > 0 && view.size >= lines->buffer_bytes) break;
            status = see_more(lines, &view, out, count, &more);
            if (status != EST_OK) break;
            continue;
        }
        if (record.size > lines->line_max) {
            status = fail_long(lines, breaks);
            break;
        }
        out[count++] = (est_str){ at, record.size };
        used += record.whole;
        breaks += record.breaks;
    }
    if (count == 0) return status != EST_OK ? status : EST_OUT_OF_RANGE;
    lines->first      = view.data;
    lines->first_line = lines->line;
    lines->line += breaks;
    est_byte_source_skip(lines->source, used);
    *n = count;
    return EST_OK;
}

est_status est_lines_next(est_lines *lines, est_str *line)
{
    size_t n;

    return est_lines_next_many(lines, line, 1, &n);
}

bool est_lines_is_ready(est_lines *lines)
{
    est_str view;
    found   record;

    if (est_byte_source_need(lines->source, 0, &view) != EST_OK) return true; /* the next call reports the error */
    for (;;) {
        text   t   = { view.data, view.data + view.size, est_byte_source_tell(lines->source) };
        size_t had = view.size;

        if (had >= lines->buffer_bytes || find_record(lines, &t, false, &record)) return true;
        if (!est_byte_source_is_ready(lines->source)) return false;
        if (est_byte_source_need(lines->source, had + 1, &view) != EST_OK || view.size == had) return true;
    }
}

/* --- places ------------------------------------------------------------------------------------------------------- */

uint64_t est_lines_number(const est_lines *lines, est_str line)
{
    if (lines->first == NULL) return lines->line;
    return lines->first_line + count_bytes(lines->first, (size_t)(line.data - lines->first), '\n') + 1;
}

est_lines_position est_lines_tell(const est_lines *lines)
{
    return (est_lines_position){ .offset = est_byte_source_tell(lines->source),
                                 .line   = lines->line,
                                 .open   = lines->open_until };
}

est_status est_lines_seek(est_lines *lines, est_lines_position position)
{
    EST_TRY(est_byte_source_seek(lines->source, position.offset));
    lines->first      = NULL;
    lines->line       = position.line;
    lines->open_until = position.open;
    lines->no_quotes  = 0;
    return EST_OK;
}

est_byte_source *est_lines_source(est_lines *lines)
{
    return lines->source;
}

const char *est_lines_path(const est_lines *lines)
{
    return est_byte_source_path(lines->source);
}
