/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions of the inputs of multi_worker_mirrored.
 *
 * Every worker takes as many batches a step as it has replicas, so the position of its input follows from the step.
 * Now and then all workers gather the positions of all, and checkpoints keep them: a worker that was started again
 * restores its last one, and skips the batches of the steps since then. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "strategy/multi_worker.h"

/* Packed: the step, the number of workers and, if there are positions, the offset of each, their size, and the
 * bytes. */
static size_t packed_size(const est_multi_worker *m)
{
    size_t n = (size_t)m->run->self.size;

    return m->positions.data == NULL ? 2 * sizeof(int64_t) : (n + 3) * sizeof(int64_t) + m->positions.begins[n];
}

static void pack(const est_multi_worker *m, char *out)
{
    size_t  n      = (size_t)m->run->self.size;
    int64_t number = m->at_step;

    memcpy(out, &number, sizeof number);
    number = (int64_t)n;
    memcpy(out + sizeof number, &number, sizeof number);
    if (m->positions.data == NULL) return;
    for (size_t i = 0; i <= n; i++) {
        number = (int64_t)m->positions.begins[i];
        memcpy(out + (i + 2) * sizeof number, &number, sizeof number);
    }
    memcpy(out + (n + 3) * sizeof number, m->positions.data, m->positions.begins[n]);
}

static est_status bad_positions(void)
{
    return est_fail(
        EST_DATA_LOSS,
        "the positions of the workers' inputs are damaged; delete this checkpoint to resume from the one before");
}

static int64_t number_at(const char *bytes, size_t i)
{
    int64_t value;

    memcpy(&value, bytes + i * sizeof value, sizeof value);
    return value;
}

static est_status check_offsets(const char *bytes, size_t size, size_t n)
{
    size_t head = (n + 3) * sizeof(int64_t);

    for (size_t i = 0; i <= n; i++) {
        int64_t begin = number_at(bytes, i + 2), before = i > 0 ? number_at(bytes, i + 1) : 0;

        if (begin < before || (uint64_t)begin > size - head) return bad_positions();
    }
    return number_at(bytes, n + 2) == (int64_t)(size - head) ? EST_OK : bad_positions();
}

/* Positions of another number of workers are of no use: each had other rows then, and starts over at the step of the
 * view. */
est_status est_positions_unpack(est_multi_worker *m, const char *bytes, size_t size)
{
    size_t       n = (size_t)m->run->self.size, head = (n + 3) * sizeof(int64_t);
    est_gathered made = { 0 };

    if (size < 2 * sizeof(int64_t)) return bad_positions();
    est_gathered_clear(&m->positions);
    m->at_step = number_at(bytes, 1) == (int64_t)n ? number_at(bytes, 0) : m->view.step;
    if (size == 2 * sizeof(int64_t) || number_at(bytes, 1) != (int64_t)n) return EST_OK;
    if (size < head) return bad_positions();
    EST_TRY(check_offsets(bytes, size, n));
    made.data   = est_alloc(size - head + 1);
    made.begins = est_alloc((n + 1) * sizeof *made.begins);
    if (made.data == NULL || made.begins == NULL) {
        est_free(made.data);
        est_free(made.begins);
        return est_no_memory();
    }
    memcpy(made.data, bytes + head, size - head);
    for (size_t i = 0; i <= n; i++) made.begins[i] = (size_t)number_at(bytes, i + 2);
    m->positions = made;
    return EST_OK;
}

est_status est_positions_save(const est_multi_worker *m, est_tensor **out)
{
    EST_TRY(est_tensor_create(EST_U8, EST_SHAPE((int64_t)packed_size(m)), out));
    pack(m, est_tensor_mutable_data(*out));
    return EST_OK;
}

est_status est_positions_restore(est_multi_worker *m, const est_tensor *positions)
{
    if (est_tensor_dtype(positions) != EST_U8) return bad_positions();
    return est_positions_unpack(m, est_tensor_data(positions), est_tensor_bytes(positions));
}

static est_status broadcast(est_multi_worker *m, void *data, size_t bytes)
{
    est_work *work;

    EST_TRY(est_broadcast(m->view.group, data, bytes, m->view.source, NULL, &work));
    return est_multi_worker_await(work);
}

/* The bytes of the source, whose number the others do not know; `mine` is taken, and NULL for them. */
static est_status broadcast_bytes(est_multi_worker *m, char *mine, uint64_t bytes, char **out, size_t *size)
{
    est_status status = broadcast(m, &bytes, sizeof bytes);

    if (status == EST_OK && mine == NULL) {
        mine = est_alloc((size_t)bytes + 1);
        if (mine == NULL) return est_no_memory();
    }
    if (status == EST_OK) status = broadcast(m, mine, (size_t)bytes);
    if (status != EST_OK) {
        est_free(mine);
        return status;
    }
    *out  = mine;
    *size = (size_t)bytes;
    return EST_OK;
}

est_status est_positions_broadcast(est_multi_worker *m, char **out, size_t *size)
{
    char *mine = NULL;

    if (m->view.rank == m->view.source) {
        mine = est_alloc(packed_size(m) + 1);
        if (mine == NULL) return est_no_memory();
        pack(m, mine);
    }
    return broadcast_bytes(m, mine, packed_size(m), out, size);
}

est_status est_owned_broadcast(est_multi_worker *m, char **out, size_t *size)
{
    const est_run_owner *owner = m->run->owner;
    char                *mine  = NULL;

    *out  = NULL;
    *size = 0;
    if (owner == NULL || owner->pack == NULL || m->run->purpose != EST_RUN_TRAIN) return EST_OK;
    if (m->view.rank == m->view.source) EST_TRY(owner->pack(m->run->user, &mine, size));
    return broadcast_bytes(m, mine, *size, out, size);
}

est_status est_positions_gather(est_multi_worker *m, est_iterator *input, int64_t step)
{
    est_tensor  *mine = NULL;
    est_gathered all  = { 0 };
    est_status   status;

    EST_TRY(est_iterator_save(input, &mine));
    status = est_membership_gather(m->membership, est_tensor_data(mine), est_tensor_bytes(mine), &all);
    est_tensor_free(mine);
    EST_TRY(status);
    if (m->view.n == m->run->self.size) { /* else one is missing, and ranks of the view are not those of the job */
        est_gathered_clear(&m->positions);
        m->positions = all;
        m->at_step   = step;
    } else {
        est_gathered_clear(&all);
    }
    return EST_OK;
}

est_status est_positions_seek(const est_multi_worker *m, est_iterator *input, const est_dataset *dataset, int64_t step)
{
    const est_gathered *p       = &m->positions;
    int                 rank    = m->run->self.rank;
    int                 n       = est_dataset_components(dataset);
    int64_t             batches = (step - m->at_step) * m->run->self.replicas;
    est_field          *batch;
    est_status          status = EST_OK;

    if (p->data != NULL) {
        size_t      begin    = p->begins[rank];
        est_tensor *position = NULL;

        EST_TRY(est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)(p->begins[rank + 1] - begin)),
                                       (const char *)p->data + begin, &position));
        status = est_iterator_restore(input, position);
        est_tensor_free(position);
        EST_TRY(status);
    }
    batch = est_zalloc((size_t)(n + 1) * sizeof *batch);
    if (batch == NULL) return est_no_memory();
    if (batches > 0) est_log_info("Reading over %" PRId64 " batches that were trained with.", batches);
    for (int64_t i = 0; i < batches && status == EST_OK; i++) {
        status = est_iterator_next(input, batch);
        est_element_clear(batch, n);
    }
    est_free(batch);
    return status == EST_OUT_OF_RANGE ? EST_OK : status;
}
