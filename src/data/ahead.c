/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements made ahead. The saved state: 1 (repeated) for each job not handed out {1 the element, if there is one, 2
 * (repeated) a row left out, as an error, 3 rows that the input left out for it}, 2 the number of rows left out before,
 * 3 the error that waits behind the jobs, if there is one, 4 rows that the input left out behind them. */
#include "data/ahead.h"

#include "data/state.h"

enum { STATE_JOB = 1, STATE_BAD_ROWS, STATE_BELOW };
enum { JOB_ELEMENT = 1, JOB_BAD, JOB_BELOW };

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* The job's element lies behind the stage's part of it. */
static est_ahead_job *job_init(const est_ahead *it, void *job)
{
    est_ahead_job *own = job;

    own->out = (est_element *)(void *)((char *)job + it->spec.job_size);
    return own;
}

static est_status pull(void *user, void *job)
{
    est_ahead     *it     = user;
    est_ahead_job *own    = job_init(it, job);
    int64_t        before = it->below;
    est_status     status = it->spec.pull(it, own);

    own->n_below = it->below - before;
    return status;
}

static est_status work(void *user, int worker, void *job)
{
    est_ahead *it = user;

    return it->spec.work(it, worker, job);
}

static void clear(void *user, void *job)
{
    est_ahead     *it  = user;
    est_ahead_job *own = job_init(it, job);

    if (it->spec.clear != NULL) it->spec.clear(it, own);
    est_element_clear(own->out->field, it->base.dataset->n_components);
    own->out->origin = (est_origin){ 0 };
    est_free(own->bad);
    *own = (est_ahead_job){ 0 };
}

est_status est_ahead_open(est_ahead *it, const est_ahead_spec *spec)
{
    est_parallel_spec parallel = { .name      = spec->name,
                                   .user      = it,
                                   .workers   = spec->workers,
                                   .capacity  = spec->capacity,
                                   .unordered = spec->unordered,
                                   .pull      = pull,
                                   .work      = spec->work != NULL ? work : NULL,
                                   .clear     = clear };

    it->spec          = *spec;
    it->spec.job_size = (spec->job_size + 15) / 16 * 16;
    parallel.job_size = it->spec.job_size + sizeof(est_element) +
                        (size_t)it->base.dataset->n_components * sizeof(est_field);
    it->base.input_bad_rows = &it->below;
    EST_TRY(est_iter_open_input(&it->base, 0, it->base.turn));
    return est_parallel_create(&parallel, &it->parallel);
}

void est_ahead_close(est_iter *it)
{
    est_ahead *own = (est_ahead *)it;

    est_parallel_free(own->parallel);
    own->parallel = NULL;
}

/* --- rows left out ------------------------------------------------------------------------------------------------ */

static est_status bad_add(est_ahead_job *job, const est_error *error)
{
    est_error *bad = est_realloc(job->bad, ((size_t)job->n_bad + 1) * sizeof *bad);

    if (bad == NULL) return est_no_memory();
    job->bad               = bad;
    job->bad[job->n_bad++] = *error;
    return EST_OK;
}

est_status est_ahead_leave_out(const est_ahead *it, est_ahead_job *job, est_status status)
{
    est_error error;

    if (it->spec.bad_rows_max == 0 || (status != EST_INVALID_ARGUMENT && status != EST_DATA_LOSS)) return status;
    est_error_take(status, &error);
    return bad_add(job, &error);
}

/* Counts n rows that the input left out. */
static void below_count(est_ahead *it, int64_t n)
{
    it->told += n;
    *it->base.bad_rows += n;
}

static est_status bad_count(est_ahead *it, const est_ahead_job *job)
{
    for (int i = 0; i < job->n_bad; i++) {
        EST_TRY(est_iter_bad_row(&it->base, &it->bad_rows, it->spec.bad_rows_max, est_error_raise(&job->bad[i])));
    }
    return EST_OK;
}

est_status est_ahead_next(est_iter *it, est_element *out)
{
    est_ahead     *own = (est_ahead *)it;
    est_ahead_job *job;
    est_status     status;
    bool           filled;

    do {
        void *next;

        status = est_parallel_next(own->parallel, &next);
        if (status == EST_OUT_OF_RANGE) below_count(own, own->below - own->told);
        if (status != EST_OK) return status;
        job = next;
        below_count(own, job->n_below);
        status = bad_count(own, job);
        filled = status == EST_OK && job->filled;
        if (filled) est_element_move(out, job->out, it->dataset->n_components);
        est_parallel_done(own->parallel, job);
    } while (status == EST_OK && !filled);
    return status;
}

/* --- the saved position ------------------------------------------------------------------------------------------- */

void est_ahead_pause(est_iter *it)
{
    est_parallel_pause(((est_ahead *)it)->parallel);
}

void est_ahead_resume(est_iter *it)
{
    est_parallel_resume(((est_ahead *)it)->parallel);
}

typedef struct saving {
    est_ahead       *it;
    est_wire_writer *w;
    int64_t          below; /* rows that are in no job */
} saving;

/* The end needs no saving: the input is saved as ended. An error is not saved but returned: its cause may be fixed
 * before the position is restored, and the row must then be read again. */
static est_status save_job(void *arg, void *to, est_status status)
{
    saving              *s   = arg;
    const est_ahead_job *job = to;
    size_t               mark;

    if (job == NULL) return status == EST_OUT_OF_RANGE ? EST_OK : status;
    mark = est_wire_begin(s->w, STATE_JOB);
    for (int i = 0; i < job->n_bad; i++) est_state_put_error(s->w, JOB_BAD, &job->bad[i]);
    est_wire_put_i64(s->w, JOB_BELOW, job->n_below);
    s->below -= job->n_below;
    if (job->filled) est_element_put(s->w, JOB_ELEMENT, job->out, s->it->base.dataset->n_components);
    est_wire_end(s->w, mark);
    return EST_OK;
}

est_status est_ahead_save(est_iter *it, est_wire_writer *w)
{
    est_ahead *own = (est_ahead *)it;

    saving s = { .it = own, .w = w, .below = own->below - own->told };

    est_wire_put_i64(w, STATE_BAD_ROWS, own->bad_rows);
    EST_TRY(est_parallel_each(own->parallel, save_job, &s));
    est_wire_put_i64(w, STATE_BELOW, s.below);
    return EST_OK;
}

static est_status restore_bad(est_str bytes, est_ahead_job *job)
{
    est_error error;

    EST_TRY(est_state_parse_error(bytes, &error));
    if (error.status != EST_INVALID_ARGUMENT && error.status != EST_DATA_LOSS) {
        return est_fail(EST_DATA_LOSS, "saved position: a skipped row has the invalid status %d", (int)error.status);
    }
    return bad_add(job, &error);
}

static est_status restore_job(est_ahead *it, est_wire_reader *r)
{
    est_wire_field field;
    est_ahead_job *job;
    void          *made;

    EST_TRY(est_parallel_add_finished(it->parallel, &made));
    job = job_init(it, made);
    while (est_wire_next(r, &field)) {
        if (field.number == JOB_BELOW) {
            job->n_below = est_state_bad_rows(r, &field);
        } else if (field.number == JOB_BAD) {
            est_str bytes = est_wire_bytes(r, &field);

            EST_TRY(est_wire_finish(r));
            EST_TRY(restore_bad(bytes, job));
        } else if (field.number == JOB_ELEMENT) {
            est_str bytes = est_wire_bytes(r, &field);

            EST_TRY(est_wire_finish(r));
            if (job->filled) return est_wire_fail(r, field.start, "a second element");
            EST_TRY(est_element_parse(bytes, it->base.pass, it->base.dataset, job->out));
            job->filled = true;
        }
    }
    it->below += job->n_below;
    return est_wire_finish(r);
}

est_status est_ahead_restore(est_iter *it, est_str state)
{
    est_ahead      *own = (est_ahead *)it;
    est_wire_reader r, inner;
    est_wire_field  field;

    est_wire_reader_init(&r, it->stage->name, state.data, state.size);
    while (est_wire_next(&r, &field)) {
        switch (field.number) {
        case STATE_BAD_ROWS: own->bad_rows = est_state_bad_rows(&r, &field); break;
        case STATE_BELOW: own->below += est_state_bad_rows(&r, &field); break;
        case STATE_JOB:
            est_wire_message(&r, &field, "job", &inner);
            EST_TRY(restore_job(own, &inner));
            break;
        default: break;
        }
    }
    return est_wire_finish(&r);
}
