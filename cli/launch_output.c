/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tasks of `estoc launch` write: line by line with the name of the task before it, so that lines of two
 * tasks do not mix; the bytes as they came into the log; and the last lines kept for the message on how a task
 * failed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "launch.h"
#include "output.h"

#define LINE_MAX_BYTES 65536 /* a longer one is printed in pieces */
#define LAST_MAX_BYTES 400   /* of a line that is kept */

est_status launch_output_open(launch_output *output, const char *dir, const char *name)
{
    est_strbuf path = { 0 };

    output->log = -1;
    if (dir == NULL) return EST_OK;
    est_strbuf_printf(&path, "%s/%s.log", dir, name);
    EST_TRY(est_strbuf_take(&path, &output->log_path));
    output->log = open(output->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (output->log >= 0) return EST_OK;
    return est_fail(est_status_from_errno(errno), "cannot write %s: %s", output->log_path, strerror(errno));
}

static void close_log(launch_output *output)
{
    if (output->log >= 0) close(output->log);
    output->log = -1;
}

static bool is_coloured(const launch_output *output, int fd)
{
    const char *no_color = getenv("NO_COLOR");

    return output->colour != 0 && isatty(fd) && (no_color == NULL || no_color[0] == '\0');
}

/* Takes over the line that has come: appends it to what is printed, and keeps it. */
static void end_line(launch_output *output, est_strbuf *line, bool coloured, est_strbuf *out)
{
    est_strbuf *last = &output->last[output->n_lines++ % LAUNCH_LAST_LINES];

    if (coloured) {
        est_strbuf_printf(out, "\033[%dm%s\033[0m", output->colour, output->prefix);
    } else {
        est_strbuf_append(out, output->prefix);
    }
    est_strbuf_append_bytes(out, est_strbuf_text(line), line->size);
    est_strbuf_append(out, "\n");
    est_strbuf_reset(last);
    est_strbuf_append_bytes(last, est_strbuf_text(line), line->size < LAST_MAX_BYTES ? line->size : LAST_MAX_BYTES);
    est_strbuf_reset(line);
}

static void print(est_strbuf *out, int fd)
{
    if (fd == STDERR_FILENO) {
        fflush(stdout);
        fwrite(est_strbuf_text(out), 1, out->size, stderr);
    } else if (tool_write(out) != EST_OK || tool_flush() != EST_OK) {
        return; /* the tasks continue; the end of the tool reports the error */
    }
}

static int place_of(const launch_output *output, int stream)
{
    return stream == 1 || output->to_stderr ? STDERR_FILENO : STDOUT_FILENO;
}

void launch_output_put(launch_output *output, int stream, const char *bytes, size_t size)
{
    est_strbuf *line     = &output->line[stream];
    est_strbuf  out      = { 0 };
    int         fd       = place_of(output, stream);
    bool        coloured = is_coloured(output, fd);

    if (output->log >= 0 && est_file_write_all(output->log, output->log_path, bytes, size) != EST_OK) {
        tool_note(&tool_launch, "%s; the log ends here", est_error_message());
        close_log(output);
    }
    while (size > 0) {
        const char *end   = memchr(bytes, '\n', size);
        size_t      room  = LINE_MAX_BYTES - line->size;
        size_t      until = end != NULL ? (size_t)(end - bytes) : size;
        bool        whole = end != NULL && until <= room;
        size_t      taken = until < room ? until : room;

        est_strbuf_append_bytes(line, bytes, taken);
        if (whole || line->size >= LINE_MAX_BYTES) end_line(output, line, coloured, &out);
        if (line->failed) est_strbuf_clear(line); /* without memory a line is lost, not the task */
        bytes += taken + whole;
        size -= taken + whole;
    }
    if (out.size > 0) print(&out, fd);
    est_strbuf_clear(&out);
}

void launch_output_end(launch_output *output)
{
    for (int stream = 0; stream < 2; stream++) {
        int        fd  = place_of(output, stream);
        est_strbuf out = { 0 };

        if (output->line[stream].size == 0) continue;
        end_line(output, &output->line[stream], is_coloured(output, fd), &out);
        print(&out, fd);
        est_strbuf_clear(&out);
    }
}

void launch_output_append_last(const launch_output *output, est_strbuf *out)
{
    int64_t first = output->n_lines > LAUNCH_LAST_LINES ? output->n_lines - LAUNCH_LAST_LINES : 0;

    for (int64_t i = first; i < output->n_lines; i++) {
        const est_strbuf *line = &output->last[i % LAUNCH_LAST_LINES];

        est_strbuf_append(out, "\n  ");
        tool_append_printable(out, (est_str){ est_strbuf_text(line), line->size }, 0);
    }
}

void launch_output_close(launch_output *output)
{
    close_log(output);
    est_free(output->log_path);
    for (int i = 0; i < 2; i++) est_strbuf_clear(&output->line[i]);
    for (int i = 0; i < LAUNCH_LAST_LINES; i++) est_strbuf_clear(&output->last[i]);
}
