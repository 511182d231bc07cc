/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage whose elements are computed ahead: the common part of prefetch, map and the decoders. They provide pull and
 * work functions, as in data/parallel_jobs.h; this file has the other functions of a stage: delivery in order, skipped
 * rows, the saved position, pausing.
 *
 * Bad rows are kept with the job in which they were found, and counted when that job is delivered. So the skipped rows,
 * and the row at which the limit is reached, do not depend on the number of workers (unless unordered). */
#ifndef EST_DATA_AHEAD_H
#define EST_DATA_AHEAD_H

#include "data/parallel_jobs.h"
#include "data/stage.h"

typedef struct est_ahead est_ahead;

/* The first member of a stage's job. */
typedef struct est_ahead_job {
    est_element *out;    /* where the result goes: room for the dataset's components, holding nothing before */
    bool         filled; /* there is a result; set by the function that fills `out` */
    int          n_bad;
    est_error   *bad;     /* [n_bad] rows left out, in order */
    int64_t      n_below; /* rows that the input left out for it */
} est_ahead_job;

typedef struct est_ahead_spec {
    const char *name;    /* of the threads; these four as in est_parallel_spec */
    int         workers; /* 0: none */
    int64_t     capacity;
    bool        unordered;
    int64_t     bad_rows_max; /* 0: none; EST_FOREVER: any number */
    size_t      job_size;     /* of the stage's job */

    est_status (*pull)(est_ahead *it, est_ahead_job *job);
    est_status (*work)(est_ahead *it, int worker, est_ahead_job *job); /* NULL: pull does it all */
    void (*clear)(est_ahead *it, est_ahead_job *job); /* the stage's own part of the job; NULL: there is none */
} est_ahead_spec;

/* The first member of a stage's iterator. */
struct est_ahead {
    est_iter       base;
    est_ahead_spec spec;
    est_parallel  *parallel;
    int64_t        bad_rows; /* left out so far */
    int64_t        below;    /* counts what the input leaves out, when it is read */
    int64_t        told;     /* of those: already counted in base.bad_rows */
};

/* Opens input 0 with the iterator's turn and makes the rest ready; the spec is copied. */
EST_MUST_CHECK est_status est_ahead_open(est_ahead *it, const est_ahead_spec *spec);

/* For work: the thread's last error, `status`, is about a row. Keeps it with the job and returns EST_OK, so that work
 * can go on without the row; returns `status` when no rows may be skipped, or the status is not about a row. */
EST_MUST_CHECK est_status est_ahead_leave_out(const est_ahead *it, est_ahead_job *job, est_status status);

/* Of est_stage. A stage with more to close calls est_ahead_close first. */
est_status est_ahead_next(est_iter *it, est_element *out);
void       est_ahead_close(est_iter *it);
est_status est_ahead_save(est_iter *it, est_wire_writer *w);
est_status est_ahead_restore(est_iter *it, est_str state);
void       est_ahead_pause(est_iter *it);
void       est_ahead_resume(est_iter *it);

/* All of them, for a descriptor. */
#define EST_AHEAD_FUNCTIONS                                                                                            \
    .next = est_ahead_next, .save = est_ahead_save, .restore = est_ahead_restore, .pause = est_ahead_pause,            \
    .resume = est_ahead_resume

#endif
