/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines are pointers into the view that est_byte_source has of the file. A call looks for line breaks from the start of
 * the view and asks for more of the file when it runs out of them; the view may move then, and the lines found so far
 * with it. */
#include "format/lines.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "format/byte_source.h"

#define BUFFER_BYTES   ((size_t)1 << 20)  /* what 0 means for buffer_bytes */
#define LINE_BYTES_MAX ((size_t)64 << 20) /* what 0 means for line_bytes_max */
#define BOM            "\xef\xbb\xbf"
#define BOM_BYTES      3

struct est_lines {
    est_byte_source *source;
    size_t           line_max;
    size_t           buffer_bytes;
    bool             quoted;
    uint64_t         line; /* physical lines before the next one */

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
    if (lines == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to read %s", path);
    lines->quoted       = o.quoted;
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

/* --- finding lines ---------------------------------------------------------------------------------------------- */

static size_t count_bytes(const char *from, size_t n, char byte)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) count += from[i] == byte;
    return count;
}

/* Looks for the end of the record that begins here; false when it is not among the n bytes. *quote is the first double
 * quote from somewhere before on, so that lines without any are not searched one by one; NULL: not looked for yet. */
static bool find_record(const est_lines *lines, est_str view, const char **quote, found *out)
{
    const char *at = view.data, *end = view.data + view.size;
    uint64_t    breaks = 0;
    size_t      quotes = 0;

    for (;;) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));

        if (feed == NULL) return false;
        breaks++;
        if (lines->quoted) {
            if (*quote == NULL || *quote < at) *quote = memchr(at, '"', (size_t)(end - at));
            if (*quote == NULL) *quote = end;
            if (*quote < feed) quotes += count_bytes(*quote, (size_t)(feed - *quote), '"');
        }
        at = feed + 1;
        if (quotes % 2 != 0) continue;
        out->size   = (size_t)(feed - view.data);
        out->whole  = out->size + 1;
        out->breaks = breaks;
        if (out->size > 0 && feed[-1] == '\r') out->size--;
        return true;
    }
}

static est_status fail_long(const est_lines *lines, uint64_t breaks)
{
    return est_fail(EST_RESOURCE_EXHAUSTED, "%s: line %" PRIu64 " is longer than the limit of %zu bytes%s",
                    est_lines_path(lines), lines->line + breaks + 1, lines->line_max,
                    lines->quoted ? "; perhaps a double quote is not closed" : "");
}

/* What the file's end leaves: a last line without a line break. */
static est_status last_record(const est_lines *lines, const char *from, size_t n, uint64_t breaks, found *out)
{
    if (lines->quoted && count_bytes(from, n, '"') % 2 != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: the file ends inside double quotes, in the record that begins at line %" PRIu64,
                        est_lines_path(lines), lines->line + breaks + 1);
    }
    *out = (found){ .size = n, .whole = n, .breaks = 1 + (lines->quoted ? count_bytes(from, n, '\n') : 0) };
    return EST_OK;
}

static est_status skip_mark(est_lines *lines)
{
    est_str view;

    if (est_byte_source_tell(lines->source) != 0) return EST_OK;
    EST_TRY(est_byte_source_need(lines->source, BOM_BYTES, &view));
    if (view.size >= BOM_BYTES && memcmp(view.data, BOM, BOM_BYTES) == 0) {
        est_byte_source_skip(lines->source, BOM_BYTES);
    }
    return EST_OK;
}

/* Has more of the file in view, *more if there was more. The lines found so far move along, also when it fails. A failure
 * after some more has come is left for the next time: the line may be complete. */
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
    est_status  status = EST_OK;
    size_t      count = 0, used = 0; /* of the view */
    uint64_t    breaks = 0;
    bool        more   = true;
    const char *quote  = NULL;
    est_str     view;

    lines->first = NULL;
    EST_TRY(skip_mark(lines));
    EST_TRY(est_byte_source_need(lines->source, 1, &view));
    while (count < max) {
        found record;

        if (!find_record(lines, (est_str){ view.data + used, view.size - used }, &quote, &record)) {
            if (more) {
                if (view.size - used > lines->line_max) status = fail_long(lines, breaks);
                if (status != EST_OK || (count > 0 && view.size >= lines->buffer_bytes)) break;
                status = see_more(lines, &view, out, count, &more);
                quote  = NULL;
                if (status != EST_OK) break;
                continue;
            }
            if (view.size == used) break;
            status = last_record(lines, view.data + used, view.size - used, breaks, &record);
            if (status != EST_OK) break;
        }
        if (record.size > lines->line_max) {
            status = fail_long(lines, breaks);
            break;
        }
        out[count++] = (est_str){ view.data + used, record.size };
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

/* --- places ----------------------------------------------------------------------------------------------------- */

uint64_t est_lines_number(const est_lines *lines, est_str line)
{
    if (lines->first == NULL) return lines->line;
    return lines->first_line + count_bytes(lines->first, (size_t)(line.data - lines->first), '\n') + 1;
}

est_lines_position est_lines_tell(const est_lines *lines)
{
    return (est_lines_position){ .offset = est_byte_source_tell(lines->source), .line = lines->line };
}

est_status est_lines_seek(est_lines *lines, est_lines_position position)
{
    EST_TRY(est_byte_source_seek(lines->source, position.offset));
    lines->first = NULL;
    lines->line  = position.line;
    return EST_OK;
}

const char *est_lines_path(const est_lines *lines)
{
    return est_byte_source_path(lines->source);
}
