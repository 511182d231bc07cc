/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes job files. What follows a zero byte is a --set. A job that was read must print as a text that reads as the
 * same job; one that was refused must come with a complaint. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) abort();
}

/* Reads a text and prints the job; false when it is none. */
static bool read_and_print(const char *text, size_t size, const char *set, est_strbuf *out)
{
    est_arena *arena  = est_arena_create();
    job_errors errors = { 0 };
    job_node  *root   = NULL;
    job_spec   job;
    est_status status;

    require(arena != NULL);
    status = job_yaml_parse(arena, "job.yaml", true, (est_str){ text, size }, &errors, &root);
    if (status == EST_OK && set != NULL) status = job_set(arena, root, set, &errors);
    if (status == EST_OK) status = job_read(arena, root, &errors, &job);
    require((status == EST_OK) == (errors.n == 0));
    if (status == EST_OK) job_print(&job, out);
    est_strbuf_clear(&errors.text);
    est_arena_free(arena);
    return status == EST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char       *copy = malloc(size + 1);
    const char *zero;
    est_strbuf  first = { 0 }, second = { 0 };

    require(copy != NULL);
    if (size > 0) memcpy(copy, data, size);
    copy[size] = '\0';
    zero       = memchr(copy, 0, size);
    if (read_and_print(copy, zero != NULL ? (size_t)(zero - copy) : size, zero != NULL ? zero + 1 : NULL, &first)) {
        require(read_and_print(est_strbuf_text(&first), first.size, NULL, &second));
        require(strcmp(est_strbuf_text(&first), est_strbuf_text(&second)) == 0);
    }
    est_strbuf_clear(&first);
    est_strbuf_clear(&second);
    free(copy);
    return 0;
}
