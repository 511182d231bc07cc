/* SPDX-License-Identifier: Apache-2.0
 *
 * The C side of the interop tests: starts Python, talks to it over two pipes, one line a request and one an answer. */
#include "support/interop.h"
#include "support/dir_test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/wire.h"

const char *interop_side;

static char  root[64];
static pid_t other = -1;
static FILE *to_other, *from_other;

/* The virtual environment of scripts/tensorflow-env; ESTOC_PYTHON names another interpreter with TensorFlow. */
static const char *python(void)
{
    const char *name = getenv("ESTOC_PYTHON");

    return name != NULL ? name : EST_SOURCE_DIR "/build/bench-venv/bin/python3";
}

/* In the child: becomes Python, or ends. */
static void become_python(int in, int out)
{
    char script[512];

    snprintf(script, sizeof script, "%s/tests/interop/%s.py", EST_SOURCE_DIR, interop_side);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0) _exit(127);
    setenv("PYTHONPATH", EST_SOURCE_DIR "/tests/support", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    unsetenv("LD_PRELOAD"); /* a sanitizer for us is not for Python */
    execl(python(), python(), script, root, (char *)NULL);
    fprintf(stderr, "interop: %s: %s; scripts/tensorflow-env makes it, ESTOC_PYTHON names another\n", python(),
            strerror(errno));
    _exit(127);
}

int interop_start(void **state)
{
    int in[2], out[2];

    (void)state;
    est_test_dir(root);
    if (pipe2(in, O_CLOEXEC) != 0 ||
        pipe2(out, O_CLOEXEC) != 0) { /* tasks of a cluster that a test starts must not keep Python waiting */
        return 1;
    }
    signal(SIGPIPE, SIG_IGN); /* when Python has gone, the missing answer says it */
    other = fork();
    if (other == 0) {
        close(in[1]);
        close(out[0]);
        become_python(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    to_other   = fdopen(in[1], "w");
    from_other = fdopen(out[0], "r");
    return other < 0 || to_other == NULL || from_other == NULL;
}

int interop_stop(void **state)
{
    (void)state;
    if (to_other != NULL) fclose(to_other); /* the end of its input ends it */
    if (other > 0) waitpid(other, NULL, 0);
    if (from_other != NULL) fclose(from_other);
    est_test_dir_remove(root);
    return 0;
}

void interop_ask(const char *request)
{
    char answer[64];

    fprintf(to_other, "%s\n", request);
    fflush(to_other);
    if (fgets(answer, sizeof answer, from_other) == NULL) {
        fail_msg("%s: the Python side has gone (%s, tests/interop/%s.py)", request, python(), interop_side);
    }
    if (strcmp(answer, "ok\n") != 0) fail_msg("%s: the Python side does not agree, see above", request);
}

void interop_check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

const char *interop_path(const char *name)
{
    static char paths[10][256];
    static int  turn;

    turn = (turn + 1) % 10;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", root, name);
    return paths[turn];
}

/* --- blobs -------------------------------------------------------------------------------------------------------- */

/* The next blob in [*at, end). */
static est_str next_blob(const char **at, const char *end)
{
    est_str blob;

    assert_true(end - *at >= 4);
    blob.size = est_wire_load32((const uint8_t *)*at);
    blob.data = *at + 4;
    assert_true((size_t)(end - blob.data) >= blob.size);
    *at = blob.data + blob.size;
    return blob;
}

void interop_blobs_of(est_str blob, interop_blobs *out)
{
    const char *at, *end = blob.data + blob.size;

    *out = (interop_blobs){ 0 };
    for (at = blob.data; at < end; out->n++) next_blob(&at, end);
    out->at = est_alloc((out->n + 1) * sizeof *out->at);
    assert_non_null(out->at);
    at = blob.data;
    for (size_t i = 0; i < out->n; i++) out->at[i] = next_blob(&at, end);
}

void interop_blobs_read(const char *name, interop_blobs *out)
{
    char  *bytes;
    size_t size;

    interop_check(est_file_read(interop_path(name), &bytes, &size));
    interop_blobs_of((est_str){ bytes, size }, out);
    out->bytes = bytes;
}

void interop_blobs_clear(interop_blobs *blobs)
{
    est_free(blobs->at);
    est_free(blobs->bytes);
    *blobs = (interop_blobs){ 0 };
}

void interop_blob(est_strbuf *out, const void *bytes, size_t size)
{
    uint8_t length[4];

    est_wire_store32(length, (uint32_t)size);
    est_strbuf_append_bytes(out, length, 4);
    if (size > 0) est_strbuf_append_bytes(out, bytes, size);
}

void interop_tensor(est_strbuf *out, const char *name, const est_tensor *tensor)
{
    const est_shape *shape   = est_tensor_shape(tensor);
    const est_str   *strings = est_tensor_data(tensor);
    est_strbuf       text    = { 0 };

    interop_blob(out, name, strlen(name));
    est_strbuf_append(&text, est_dtype_name(est_tensor_dtype(tensor)));
    for (int i = 0; i < shape->rank; i++) est_strbuf_printf(&text, " %" PRId64, shape->dim[i]);
    interop_blob(out, text.data, text.size);
    if (est_tensor_dtype(tensor) != EST_STRING) {
        interop_blob(out, est_tensor_data(tensor), est_tensor_bytes(tensor));
    } else {
        est_strbuf_reset(&text);
        for (int64_t i = 0; i < est_tensor_count(tensor); i++) interop_blob(&text, strings[i].data, strings[i].size);
        interop_blob(out, est_strbuf_text(&text), text.size);
    }
    est_strbuf_clear(&text);
}

void interop_save(const char *name, est_strbuf *blobs)
{
    interop_check(est_strbuf_status(blobs));
    interop_check(est_file_replace(interop_path(name), est_strbuf_text(blobs), blobs->size));
    est_strbuf_clear(blobs);
}
