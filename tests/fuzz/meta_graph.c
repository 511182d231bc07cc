/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the import of a MetaGraphDef: functions are inlined, references become handles, and what is there of the
 * operations is added to a graph, in a scope and without one. What is told of it is walked, and the graph is written
 * again: what is written must be read. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "estoc/estoc.h"

int         LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void); /* NOLINT(bugprone-reserved-identifier): its name is the sanitizer's */

/* A graph may ask for any amount of memory, and then it gets none, as on a machine that has not so much. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static char read_path[64], written_path[64];

static void require(est_status status)
{
    if (status == EST_OK) return;
    fprintf(stderr, "%s\n", est_error_message());
    abort();
}

static void remove_files(void)
{
    unlink(read_path);
    unlink(written_path);
}

static void begin(void)
{
    const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    est_log_set_level(EST_LOG_ERROR);
    snprintf(read_path, sizeof read_path, "%s/est-fuzz-%d.meta", dir, (int)getpid());
    snprintf(written_path, sizeof written_path, "%s/est-fuzz-%d-written.meta", dir, (int)getpid());
    atexit(remove_files);
}

/* Every text that is told of must be one. */
static size_t walk(const est_meta_graph *meta)
{
    est_meta_collections   collections = est_meta_graph_collections(meta);
    est_missing_operations missing     = est_meta_graph_missing(meta);
    size_t                 size        = 0;

    for (int i = 0; i < collections.n; i++) {
        const est_meta_collection *c = &collections.data[i];

        size += strlen(c->name);
        for (int k = 0; k < c->nodes.n; k++) size += strlen(c->nodes.data[k]);
        for (int k = 0; k < c->texts.n; k++) size += strlen(c->texts.data[k]);
        for (int k = 0; k < c->ints.n; k++) size += c->ints.data[k] != 0;
        for (int k = 0; k < c->floats.n; k++) size += c->floats.data[k] != 0;
    }
    for (int i = 0; i < missing.n; i++) {
        size += strlen(missing.data[i].name) + strlen(missing.data[i].op) + strlen(missing.data[i].error);
    }
    return size;
}

static void write_again(est_graph *graph, const est_meta_graph *meta)
{
    est_graph      *again = NULL;
    est_meta_graph *found = NULL;

    if (est_meta_graph_write(graph,
                             EST_META_GRAPH_WRITE(.saved       = est_meta_graph_saved(meta),
                                                  .keep_max    = est_meta_graph_keep_max(meta) < 0 ? 0 : 1,
                                                  .collections = est_meta_graph_collections(meta)),
                             written_path) != EST_OK) {
        return; /* not every operation can be written */
    }
    require(est_graph_create(1, &again));
    require(est_meta_graph_import(again, written_path, NULL, &found));
    est_meta_graph_free(found);
    est_graph_free(again);
}

static void import(const char *scope)
{
    est_graph      *graph = NULL;
    est_meta_graph *meta  = NULL;

    require(est_graph_create(1, &graph));
    if (est_meta_graph_import(graph, read_path, EST_META_GRAPH(.scope = scope), &meta) == EST_OK) {
        require(est_graph_status(graph));
        (void)walk(meta);
        if (scope == NULL) write_again(graph, meta);
    }
    est_meta_graph_free(meta);
    est_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (read_path[0] == '\0') begin();
    require(est_file_replace(read_path, data, size));
    import(NULL);
    import("in");
    return 0;
}
