/* SPDX-License-Identifier: Apache-2.0
 *
 * See collective/device_sum.h. */
#include "collective/device_sum.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#define BYTES_MIN  ((size_t)64 << 10) /* smaller sums are faster by the host */
#define SLICE_SECS 0.02               /* between two looks at the group of ranks */
#define LEFT_NS    EST_NS_PER_SEC     /* a rank that has left has made its sums: for what is on the way from it */

/* What a rank says before the library's group is opened, and after. */
typedef struct word {
    char id[EST_SUM_ID_BYTES]; /* of rank 0 */
    char why[192];             /* "": it can, or has */
    bool late;                 /* others did not open the group in time: what they say is why */
} word;

static est_status exchange(est_rank_group *group, const word *mine, word *all)
{
    est_work *work;

    EST_TRY(est_all_gather(group, mine, sizeof *mine, all, NULL, &work));
    return est_work_wait(work);
}

/* The first rank that cannot, if any by itself; -1: all can. */
static int find_refusal(const word *all, int n)
{
    int found = -1;

    for (int i = 0; i < n; i++) {
        if (all[i].why[0] != '\0' && (found < 0 || (all[found].late && !all[i].late))) found = i;
    }
    return found;
}

/* A rank without a device that did not ask for sums by one logs nothing. */
static void say_refusal(const est_device_sum *s, const word *all, int rank)
{
    if (s->device == NULL && !s->required) return;
    EST_LOG_AT(s->required ? EST_LOG_WARN : EST_LOG_INFO, "The host sums gradients of workers, as rank %d says: %s",
               rank, all[rank].why);
}

static void note(const est_device_sum *s, word *mine, est_status status)
{
    if (status == EST_OK) return;
    snprintf(mine->why, sizeof mine->why, "%s: %.160s", s->device->sums->name, est_error_message());
}

/* EST_OK while all ranks are there; *left: since when one has not been. */
static est_status look(est_rank_group *group, int64_t *left)
{
    EST_TRY(est_group_status(group));
    if (est_group_is_whole(group)) return EST_OK;
    *left = *left != 0 ? *left : est_now_ns();
    return est_now_ns() - *left >= LEFT_NS ? est_group_all_here(group) : EST_OK;
}

/* Opens the library's group, in slices; fails as the group of ranks does. What the library fails with goes to mine. */
static est_status open_group(est_device_sum *s, est_rank_group *group, const char *id, word *mine)
{
    const est_device_sums *sums  = s->device->sums;
    int64_t                begin = est_now_ns(), left = 0;
    bool                   done   = false;
    est_status             status = sums->open(s->device, id, est_group_ranks(group), est_group_rank(group), &s->group);

    while (status == EST_OK && !done && !mine->late) {
        status = sums->opened(s->group, SLICE_SECS, &done);
        if (status == EST_OK && !done) EST_TRY(look(group, &left));
        mine->late = status == EST_OK && !done && est_now_ns() - begin >= s->open_ns;
    }
    if (mine->late) {
        status = est_fail(EST_DEADLINE_EXCEEDED, "not all workers have joined its group in %.3g s",
                          (double)s->open_ns / EST_NS_PER_SEC);
    }
    note(s, mine, status);
    return est_group_status(group); /* if this fails, the library has not failed by itself */
}

/* One round to learn the id, and one to learn that all have opened the group. */
static est_status agree(est_device_sum *s, est_rank_group *group, word *all)
{
    const est_device_sums *sums = s->device != NULL ? s->device->sums : NULL;
    word                   mine = { 0 };
    int                    n    = est_group_ranks(group), refuses;

    if (sums == NULL) {
        snprintf(mine.why, sizeof mine.why, "it has no GPU");
    } else if (s->broken) {
        snprintf(mine.why, sizeof mine.why, "%s has failed before", sums->name);
    } else { /* an id has a thread and a socket, so the others only look for the library */
        note(s, &mine, sums->make_id(s->device, est_group_rank(group) == 0 ? mine.id : NULL));
    }
    EST_TRY(exchange(group, &mine, all));
    refuses = find_refusal(all, n);
    if (refuses < 0) {
        EST_TRY(open_group(s, group, all[0].id, &mine));
        EST_TRY(exchange(group, &mine, all));
        refuses   = find_refusal(all, n);
        s->broken = mine.why[0] != '\0' && mine.late == all[refuses].late;
    }
    if (refuses < 0) {
        est_log_info("Gradients of %d workers are summed by %s", n, sums->name);
        return EST_OK;
    }
    say_refusal(s, all, refuses);
    if (s->group != NULL) { /* not all have it: a leave would wait for them */
        sums->abort(s->group);
        sums->close(s->group);
    }
    s->group = NULL;
    return EST_OK;
}

est_status est_device_sum_agree(est_device_sum *s, est_rank_group *group, size_t count, est_dtype dtype, bool *out)
{
    size_t     n = (size_t)est_group_ranks(group);
    word      *all;
    est_status status;

    *out = false;
    if (!s->asks || n < 2 || (dtype != EST_F32 && dtype != EST_F64)) return EST_OK;
    if (!s->agreed) {
        all    = est_alloc(sizeof *all * n);
        status = all != NULL ? agree(s, group, all) : est_no_memory();
        est_free(all);
        if (status != EST_OK) { /* the others may have opened theirs, or wait */
            est_group_abort(group, est_error_message());
            return status;
        }
        s->agreed = true;
    }
    *out = s->group != NULL && count * est_dtype_size(dtype) >= BYTES_MIN;
    return EST_OK;
}

/* Another view cures what the library fails with: this rank does not use it there. */
static est_status library_failed(est_device_sum *s, est_rank_group *group, est_status why)
{
    est_error error;

    est_error_take(why, &error);
    EST_TRY(est_group_status(group)); /* then the library has not failed by itself */
    s->broken = true;
    est_group_abort(group, error.message);
    return est_fail(EST_ABORTED, "%s", error.message);
}

est_status est_device_sum_begin(est_device_sum *s, est_rank_group *group, void *data, size_t count, est_dtype dtype,
                                est_sum_work **out)
{
    est_status status = s->device->sums->sum(s->group, data, count, dtype, out);

    return status == EST_OK ? EST_OK : library_failed(s, group, status);
}

/* The work has failed or is to: what was under way ends soon, and so does the work. */
static void give_up(est_device_sum *s, est_sum_work *work)
{
    bool done = false;

    s->device->sums->abort(s->group);
    while (!done && s->device->sums->wait(s->group, work, SLICE_SECS, &done) == EST_OK) {}
}

est_status est_device_sum_wait(est_device_sum *s, est_rank_group *group, est_sum_work *work)
{
    const est_device_sums *sums  = s->device->sums;
    int64_t                begin = est_now_ns(), left = 0;
    bool                   done   = false;
    est_status             status = EST_OK;
    est_error              error;

    while (status == EST_OK && !done) {
        status = sums->wait(s->group, work, SLICE_SECS, &done);
        if (status != EST_OK) return library_failed(s, group, status);
        if (done) return EST_OK;
        status = look(group, &left);
        if (status == EST_OK && s->deadline_ns > 0 && est_now_ns() - begin >= s->deadline_ns) {
            status = est_fail(EST_DEADLINE_EXCEEDED, "a sum by %s was not done after %.0f s", sums->name,
                              (double)s->deadline_ns / EST_NS_PER_SEC);
        }
    }
    est_error_take(status, &error);
    give_up(s, work);
    est_group_abort(group, error.message);
    return est_error_raise(&error);
}

void est_device_sum_leave(est_device_sum *s, est_rank_group *group)
{
    if (s->group != NULL) {
        if (group == NULL || !est_group_is_whole(group))
            s->device->sums->abort(s->group); /* a leave waits for all ranks */
        s->device->sums->close(s->group);
    }
    s->group  = NULL;
    s->agreed = false;
}
