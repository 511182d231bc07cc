/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op of the table is named, in quotes, in a file of tests/ops: an op without a test fails here. */
#include <glob.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "support/graph_test.h"

/* All of a file as text, or NULL. Freed by the caller. */
static char *read_text(const char *path)
{
    FILE  *file = fopen(path, "rb");
    char  *text = NULL;
    size_t size = 0, got;

    if (file == NULL) return NULL;
    do {
        char *more = realloc(text, size + 65537);
        if (more == NULL) abort();
        text = more;
        got  = fread(text + size, 1, 65536, file);
        size += got;
    } while (got > 0);
    text[size] = '\0';
    fclose(file);
    return text;
}

int main(void)
{
    glob_t files = { 0 };
    char  *texts[512];
    size_t n = 0;

    CHECK(glob(EST_SOURCE_DIR "/tests/ops/*.c", 0, NULL, &files) == 0);
    for (size_t i = 0; i < files.gl_pathc && n < sizeof texts / sizeof texts[0]; i++) {
        char *text = read_text(files.gl_pathv[i]);
        if (text != NULL) texts[n++] = text;
    }
    for (const est_op *const *op = est_op_table(); *op != NULL; op++) {
        char   quoted[128];
        size_t at = 0;

        snprintf(quoted, sizeof quoted, "\"%s\"", (*op)->name);
        while (at < n && strstr(texts[at], quoted) == NULL) at++;
        CHECK(at < n, "op %s has no case in tests/ops", (*op)->name);
    }
    for (size_t i = 0; i < n; i++) free(texts[i]);
    globfree(&files);
    return graph_test_failures != 0;
}
