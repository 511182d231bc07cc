/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator of sessions (runtime/communicator.h) over the current group. A step whose group fails, or misses a
 * deadline, fails with EST_ABORTED, the rank and the reason, so that the caller joins again. */
#include <math.h>

#include "base/alloc.h"
#include "cluster/wait_table.h"
#include "collective/membership_internal.h"

/* The results of the last operation of a slot. */
struct est_comm_slot {
    est_indexed_rows *rows; /* [n_rows], of each table */
    int               n_rows;
    est_gathered      gathered;
};

struct est_comm_work {
    est_work            *work; /* of a sum or a gather */
    est_sum_work        *far;  /* in place of work: of a sum between devices */
    est_sparse_sum_work *rows;
    est_comm_slot       *slot;
};

static est_membership *membership_of(est_communicator *communicator)
{
    return EST_CONTAINER_OF(communicator, est_membership, communicator);
}

/* EST_ABORTED for everything that another view may cure. */
static est_status as_aborted(est_status status)
{
    if (status != EST_DEADLINE_EXCEEDED && status != EST_UNAVAILABLE) return status;
    return est_fail(EST_ABORTED, "%s", est_error_message());
}

static est_status find_slot(est_membership *m, int slot, est_comm_slot **out)
{
    if (slot >= m->n_slots) {
        est_comm_slot **more = est_realloc(m->slots, sizeof(est_comm_slot *) * ((size_t)slot + 1));

        if (more == NULL) return est_no_memory();
        m->slots = more;
        while (m->n_slots <= slot) m->slots[m->n_slots++] = NULL;
    }
    if (m->slots[slot] == NULL) m->slots[slot] = est_zalloc(sizeof **m->slots);
    *out = m->slots[slot];
    return *out != NULL ? EST_OK : est_no_memory();
}

/* A work that has not begun; slot -1: it needs none. */
static est_status make_work(est_membership *m, int slot, est_comm_work **out)
{
    est_comm_work *work;
    est_comm_slot *found  = NULL;
    est_status     status = EST_OK;

    if (m->group == NULL) return est_fail(EST_ABORTED, "there is no group: call est_membership_join");
    work = est_zalloc(sizeof *work);
    if (work == NULL) status = est_no_memory();
    if (status == EST_OK && slot >= 0) status = find_slot(m, slot, &found);
    if (status != EST_OK) { /* the others have begun it, or will */
        est_free(work);
        est_group_abort(m->group, est_error_message());
        return status;
    }
    work->slot = found;
    *out       = work;
    return EST_OK;
}

/* Passes the work to the caller if it has begun, else frees it. */
static est_status begun(est_status status, est_comm_work *work, est_comm_work **out)
{
    if (status == EST_OK) {
        *out = work;
    } else {
        est_free(work);
    }
    return as_aborted(status);
}

static est_status begin_sum(est_communicator *communicator, void *data, size_t count, est_dtype dtype,
                            est_comm_work **out)
{
    est_membership *m = membership_of(communicator);
    est_comm_work  *work;
    bool            far;
    est_status      status;

    EST_TRY(make_work(m, -1, &work));
    status = est_device_sum_agree(&m->device_sum, m->group, count, dtype, &far);
    if (status == EST_OK && far) {
        return begun(est_device_sum_begin(&m->device_sum, m->group, data, count, dtype, &work->far), work, out);
    }
    if (status != EST_OK) return begun(status, work, out);
    return begun(est_all_reduce(m->group, data, count, dtype, EST_REDUCE_OP_SUM, NULL, &work->work), work, out);
}

/* Waits, and shows the wait in the status view. */
static est_status wait_for(const est_membership *m, est_work *work, const char *why)
{
    est_waiting wait   = est_wait_begin(m->server->task, "all others", why,
                                        INFINITY); /* the work has its own deadline and log */
    est_status  status = est_work_wait(work);

    est_wait_end(&wait);
    return status;
}

/* Between devices, as wait_for. */
static est_status wait_far(est_membership *m, est_sum_work *work)
{
    est_waiting wait   = est_wait_begin(m->server->task, "all others", "all-reduce", INFINITY);
    est_status  status = est_device_sum_wait(&m->device_sum, m->group, work);

    est_wait_end(&wait);
    return status;
}

static est_status wait_sum(est_communicator *communicator, est_comm_work *work)
{
    est_membership *m      = membership_of(communicator);
    est_status      status = work->far != NULL ? wait_far(m, work->far) : wait_for(m, work->work, "all-reduce");

    est_free(work);
    return as_aborted(status);
}

static void clear_rows(est_comm_slot *slot)
{
    for (int i = 0; i < slot->n_rows; i++) est_indexed_rows_clear(&slot->rows[i]);
    est_free(slot->rows);
    slot->rows   = NULL;
    slot->n_rows = 0;
}

/* Room in the slot for the results of n tables, and the tables in the group's terms. */
static est_status make_tables(est_comm_slot *slot, const est_comm_rows *tables, int n, est_sparse_sum_table **out)
{
    clear_rows(slot);
    slot->rows = est_zalloc((size_t)n * sizeof *slot->rows + 1);
    *out       = est_alloc((size_t)n * sizeof **out + 1);
    if (slot->rows == NULL || *out == NULL) {
        est_free(*out);
        return est_no_memory();
    }
    slot->n_rows = n;
    for (int i = 0; i < n; i++) {
        const est_comm_rows *t = &tables[i];

        (*out)[i] = (est_sparse_sum_table){ .rows = { (int64_t *)(uintptr_t)t->indices, (void *)(uintptr_t)t->values,
                                                      t->n }, /* only read */
                                            .row_count = t->row_count,
                                            .dtype     = t->dtype,
                                            .factor    = t->factor,
                                            .distinct  = t->distinct };
    }
    return EST_OK;
}

static est_status begin_rows(est_communicator *communicator, int slot, const est_comm_rows *tables, int n,
                             est_comm_work **out)
{
    est_membership       *m    = membership_of(communicator);
    est_sparse_sum_table *mine = NULL;
    est_comm_work        *work;
    est_status            status;

    EST_TRY(make_work(m, slot, &work));
    status = make_tables(work->slot, tables, n, &mine);
    if (status != EST_OK) { /* the others have begun it, or will */
        est_free(work);
        est_group_abort(m->group, est_error_message());
        return status;
    }
    status = est_sparse_sum_begin(m->group, mine, n, NULL, &work->rows);
    est_free(mine);
    return begun(status, work, out);
}

static est_status wait_rows(est_communicator *communicator, est_comm_work *work, est_comm_rows *out)
{
    est_comm_slot *slot = work->slot;
    est_waiting    wait = est_wait_begin(membership_of(communicator)->server->task, "all others", "all-reduce of rows",
                                         INFINITY);
    est_status     status = est_sparse_sum_end(work->rows, EST_REDUCE_OP_SUM, slot->rows);

    est_wait_end(&wait);
    est_free(work);
    for (int i = 0; i < slot->n_rows && status == EST_OK; i++) {
        out[i].indices = slot->rows[i].indices;
        out[i].values  = slot->rows[i].values;
        out[i].n       = slot->rows[i].n;
    }
    return as_aborted(status);
}

static est_status begin_gather(est_communicator *communicator, int slot, const void *mine, size_t bytes,
                               est_comm_work **out)
{
    est_membership *m = membership_of(communicator);
    est_comm_work  *work;

    EST_TRY(make_work(m, slot, &work));
    est_gathered_clear(&work->slot->gathered);
    return begun(est_all_gather_uneven(m->group, mine, bytes, &work->slot->gathered, NULL, &work->work), work, out);
}

static est_status wait_gather(est_communicator *communicator, est_comm_work *work, const void **data,
                              const size_t **begins)
{
    const est_gathered *gathered = &work->slot->gathered;
    est_status          status   = wait_for(membership_of(communicator), work->work, "all-gather");

    est_free(work);
    if (status == EST_OK) {
        *data   = gathered->data;
        *begins = gathered->begins;
    }
    return as_aborted(status);
}

static void abort_group(est_communicator *communicator, const char *why)
{
    const est_membership *m = membership_of(communicator);

    if (m->group != NULL) est_group_abort(m->group, why);
}

const est_communicator_ops est_membership_communicator_ops = { .sum         = begin_sum,
                                                               .wait        = wait_sum,
                                                               .rows        = begin_rows,
                                                               .wait_rows   = wait_rows,
                                                               .gather      = begin_gather,
                                                               .wait_gather = wait_gather,
                                                               .abort       = abort_group };

void est_membership_free_slots(est_membership *m)
{
    for (int i = 0; i < m->n_slots; i++) {
        if (m->slots[i] == NULL) continue;
        clear_rows(m->slots[i]);
        est_gathered_clear(&m->slots[i]->gathered);
        est_free(m->slots[i]);
    }
    est_free(m->slots);
}

est_status est_membership_gather(est_membership *m, const void *mine, size_t bytes, est_gathered *all)
{
    est_work *work;

    if (m->group == NULL) return est_fail(EST_ABORTED, "there is no group: call est_membership_join");
    EST_TRY(as_aborted(est_all_gather_uneven(m->group, mine, bytes, all, NULL, &work)));
    return as_aborted(wait_for(m, work, "all-gather"));
}
