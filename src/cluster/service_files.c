/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a server's variables. A snapshot is taken between two runs without copying anything; its own thread
 * writes it while runs continue (kernels/copy_on_write.h). */
#include "cluster/service_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/checkpoint_entries.h"

/* The fields of a request. */
typedef struct files {
    est_arena       *arena;
    char            *prefix; /* "" when there is none */
    est_store_entry *entries;
    int              n;
} files;

/* The folder of the prefix must be the server's, by its real path. */
static est_status check_root(const char *root, const char *prefix)
{
    const char *slash  = strrchr(prefix, '/');
    char       *folder = slash != NULL ? est_strdup(prefix) : NULL, *here = NULL, *there = NULL;
    bool        same = false;

    if (folder != NULL) {
        folder[slash == prefix ? 1 : slash - prefix] = '\0';
        here                                         = realpath(root, NULL);
        there                                        = realpath(folder, NULL);
        same                                         = here != NULL && there != NULL && strcmp(here, there) == 0;
    }
    free(here);
    free(there);
    est_free(folder);
    if (same) return EST_OK;
    return est_fail(EST_PERMISSION_DENIED,
                    "%.200s is not in %s, where this task keeps checkpoints: "
                    "give all tasks the same model_dir, in a file system that all of them see",
                    prefix, root);
}

static est_status open_files(est_server *server, const est_request *request, files *out)
{
    const est_message *message = est_request_message(request);
    est_str            prefix  = est_head_bytes(message, EST_FIELD_PREFIX);
    const char        *root    = est_server_root(server);

    *out = (files){ .arena = est_arena_create() };
    if (out->arena == NULL) return est_no_memory();
    out->prefix = est_arena_printf(out->arena, "%.*s", est_text_precision(prefix),
                                   prefix.data != NULL ? prefix.data : "");
    if (out->prefix == NULL) return est_no_memory();
    if (root != NULL && out->prefix[0] != '\0') EST_TRY(check_root(root, out->prefix));
    return est_checkpoint_entries_unpack(message, out->arena, &out->entries, &out->n);
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

/* Frees the rest of the server if it was freed while this snapshot was written. */
static void end_writing(est_writing *w)
{
    est_server   *server = w->server;
    est_writing **at     = &server->writing;
    bool          last;

    pthread_mutex_lock(&server->lock);
    while (*at != w) at = &(*at)->next;
    *at  = w->next;
    last = server->freed && server->writing == NULL;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    if (last) est_server_free_rest(server);
    est_snapshot_free(w->snapshot);
    est_free(w->prefix);
    est_free(w);
}

static void log_pause(const est_writing *w)
{
    size_t  bytes;
    int64_t ns = est_snapshot_paused_ns(w->snapshot, &bytes);

    if (ns == 0) return;
    est_log_info("%s waited %.3f s until its part of a checkpoint was written: "
                 "updates touched more than the %.0f MB that are kept in memory",
                 w->server->task, (double)ns / (double)EST_NS_PER_SEC, (double)bytes / 1e6);
}

static void *write_snapshot(void *arg)
{
    est_writing *w = arg;
    est_status   status;

    (void)pthread_detach(pthread_self());                 /* the server waits until the list is empty */
    if (est_link_is_lost(est_request_link(w->request))) { /* the sender gave up, and removed the files */
        est_request_fail(w->request, EST_UNAVAILABLE, "the link was lost");
    } else {
        status = est_snapshot_write(w->snapshot, w->prefix);
        log_pause(w);
        est_service_finish(w->request, status, NULL);
    }
    end_writing(w);
    return NULL;
}

/* Takes the snapshot over. */
static est_status start_writing(est_server *server, est_request *request, est_snapshot *snapshot, const char *prefix)
{
    est_writing *w = est_zalloc(sizeof *w);
    est_thread   thread;
    est_status   status;

    if (w != NULL) {
        *w = (est_writing){ .server   = server,
                            .request  = request,
                            .link     = est_request_link(request),
                            .snapshot = snapshot,
                            .prefix   = est_strdup(prefix),
                            .since_ns = est_now_ns() };
    }
    if (w == NULL || w->prefix == NULL) {
        est_free(w);
        est_snapshot_free(snapshot);
        return est_no_memory();
    }
    snprintf(w->task, sizeof w->task, "%s", est_link_peer(est_request_link(request))->task);
    pthread_mutex_lock(&server->lock);
    w->next         = server->writing;
    server->writing = w;
    pthread_mutex_unlock(&server->lock);
    status = est_thread_start(&thread, "est-save", write_snapshot, w);
    if (status != EST_OK) end_writing(w);
    return status;
}

void est_service_save(est_server *server, est_request *request)
{
    est_snapshot *snapshot = NULL;
    files         f;
    est_status    status = open_files(server, request, &f);

    if (status == EST_OK) status = est_store_snapshot(est_host_store(server->host), f.entries, f.n, &snapshot);
    if (status == EST_OK) status = start_writing(server, request, snapshot, f.prefix);
    if (status != EST_OK) est_service_finish(request, status, NULL);
    est_arena_free(f.arena);
}

void est_service_end_saves(est_server *server, const est_link *link)
{
    for (est_writing *w = server->writing; w != NULL; w = w->next) {
        if (link != NULL && w->link != link) continue;
        est_snapshot_end(w->snapshot);
        w->ended = true;
    }
}

bool est_service_may_pause(const est_server *server)
{
    for (const est_writing *w = server->writing; w != NULL; w = w->next) {
        if (!w->ended) return true;
    }
    return false;
}

/* --- the others --------------------------------------------------------------------------------------------------- */

static est_status read_files(est_server *server, const files *f, bool verify_only)
{
    est_bundle *bundle;
    est_status  status;

    EST_TRY(est_bundle_open(f->prefix, &bundle));
    est_bundle_set_pool(bundle, est_host_pool(server->host));
    status = verify_only ? est_store_verify(bundle, f->entries, f->n)
                         : est_store_restore(est_host_store(server->host), bundle, f->entries, f->n);
    est_bundle_close(bundle);
    return status;
}

void est_service_files(est_server *server, est_request *request)
{
    int         method = est_request_method(request);
    est_packing out    = { 0 };
    files       f;
    est_status  status = open_files(server, request, &f);

    if (status == EST_OK && method == EST_METHOD_FIND_NAN) {
        est_wire_put_i64(&out.head, EST_FIELD_STEP, est_store_find_nan(est_host_store(server->host), f.entries, f.n));
    } else if (status == EST_OK) {
        status = read_files(server, &f, method == EST_METHOD_VERIFY);
    }
    est_service_finish(request, status, &out);
    est_arena_free(f.arena);
}
