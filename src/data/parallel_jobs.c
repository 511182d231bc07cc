/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs done ahead. How a job travels:
 *
 * Places are numbered from 0; place i is slot i modulo the number of slots. Ordered, a job's place is its number in the
 * order of pulling; unordered, it is its number in the order of finishing. The consumer takes place after place. An
 * error is a place of its own without a job to hand out, and the consumer never goes past it. The invariants:
 *
 *   DP1  pulled - returned never exceeds the window, nor the window the slots: no two jobs are in one slot.
 *   DP2  Only the thread that holds pull_lock pulls, so the number of a job is the order of pulling.
 *   DP3  Slots from head to ready_until are the consumer's, without the lock: their jobs are finished, and nobody
 *        writes to such a slot before the consumer has counted its job as returned.
 *   DP4  The consumer does not sleep unless a worker is running or was signalled, and a worker that goes to sleep wakes
 *       a consumer that has something to take. So the two never sleep at the same time with work to do.
 *
 * What pays on a machine where a wake-up costs up to fifty microseconds: the consumer takes the lock once for a run of
 * finished jobs, and gives jobs back half a window at a time; the other workers are woken only for work of HELP_NS or
 * more; a consumer that waits for short jobs is woken when half a window is there, or after DEFER_NS. A pull may block
 * after short ones and leave a consumer asleep that could go on, so it looks for itself after NAP_NS, then ever more
 * rarely. */
#include "data/parallel_jobs.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"

#define HELP_NS  10000     /* work of this length is worth another worker */
#define SHORT_NS 50000     /* jobs below this are short: not every one wakes a waiting consumer */
#define DEFER_NS 100000    /* a consumer that waited this long is woken for any job */
#define AHEAD_NS 400000    /* without a capacity: the window holds about so much work */
#define NAP_NS   200000    /* the first sleep of a waiting consumer; the next is twice as long, and so on */
#define NAP_MAX  100000000 /* up to this */

#define AHEAD_MIN 2 /* without a capacity: jobs a worker */
#define AHEAD_MAX 64

typedef struct slot {
    void      *job;
    est_status status; /* not EST_OK: est_parallel.error, if this is error_place */
    bool       ready;
} slot;

typedef struct worker {
    est_parallel *parallel;
    int           index;
    est_thread    thread;
} worker;

struct est_parallel {
    est_parallel_spec spec;
    int               n_workers; /* threads, 0: none */

    pthread_mutex_t pull_lock; /* held around pull; before `lock` */
    pthread_mutex_t lock;      /* guards all up to the consumer's part */
    pthread_cond_t  room;      /* workers wait on it for something to pull */
    pthread_cond_t  news;      /* the consumer waits on it for a finished job, or for a pause */

    slot   *slots; /* [n_slots] */
    int64_t n_slots;
    int64_t window;   /* jobs between pull and the consumer at most */
    int64_t pulled;   /* places of jobs pulled, the one with an error included */
    int64_t placed;   /* unordered: places of jobs finished */
    int64_t returned; /* jobs given back */

    void  **jobs; /* [n_slots]: the first n_jobs exist */
    int64_t n_jobs;
    void  **free_jobs; /* [n_slots]: the first n_free are free */
    int64_t n_free;

    est_error error;       /* of error_place: the first in order */
    int64_t   error_place; /* -1: none */

    int64_t work_ns; /* smoothed: of one call of work */
    int64_t job_ns;  /* of pull and work */

    int     n_running; /* workers that do not wait for room */
    int     n_active;  /* workers with a job that is being pulled or worked on */
    bool    closed;    /* nothing more is pulled: the end, or an error */
    bool    paused;
    bool    stop;
    bool    consumer_waits;
    int64_t wait_began; /* when it does */

    /* The consumer's. */
    int64_t head; /* the next place to hand out; others read it while the consumer waits */
    int64_t ready_until;
    void  **spent; /* [n_slots]: jobs given back, not yet counted as returned */
    int64_t n_spent;
    int64_t spent_max; /* then they are */
    int     n_started; /* threads */
    worker  workers[]; /* [n_workers] */
};

static slot *slot_of(est_parallel *p, int64_t place)
{
    return &p->slots[place % p->n_slots];
}

/* --- making one --------------------------------------------------------------------------------------------------- */

est_status est_parallel_check_workers(int workers)
{
    if (workers == EST_AUTO || (workers >= 0 && workers <= EST_PARALLEL_WORKERS_MAX)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%d workers; expected 0 to %d, or EST_AUTO", workers,
                    EST_PARALLEL_WORKERS_MAX);
}

/* Makes all arrays n long. Only before the first job is handed out. */
static est_status slots_resize(est_parallel *p, int64_t n)
{
    slot  *slots;
    void **lists[3] = { p->jobs, p->free_jobs, p->spent };

    if ((uint64_t)n > SIZE_MAX / sizeof *slots) goto no_memory;
    slots = est_realloc(p->slots, (size_t)n * sizeof *slots);
    if (slots == NULL) goto no_memory;
    p->slots = slots;
    for (int64_t i = p->n_slots; i < n; i++) p->slots[i] = (slot){ 0 };
    for (int i = 0; i < 3; i++) {
        void **list = est_realloc(lists[i], (size_t)n * sizeof *list);

        if (list == NULL) goto no_memory;
        *(i == 0 ? &p->jobs : i == 1 ? &p->free_jobs : &p->spent) = list;
    }
    p->n_slots = n;
    return EST_OK;

no_memory:
    return est_no_memory();
}

static est_status sync_init(est_parallel *p)
{
    est_status status = est_lock_init(&p->pull_lock);

    if (status != EST_OK) return status;
    status = est_lock_init(&p->lock);
    if (status != EST_OK) goto pull_lock;
    status = est_cond_init(&p->room);
    if (status != EST_OK) goto lock;
    status = est_cond_init(&p->news);
    if (status == EST_OK) return EST_OK;

    pthread_cond_destroy(&p->room);
lock:
    pthread_mutex_destroy(&p->lock);
pull_lock:
    pthread_mutex_destroy(&p->pull_lock);
    return status;
}

static void arrays_free(est_parallel *p)
{
    est_free(p->slots);
    est_free(p->jobs);
    est_free(p->free_jobs);
    est_free(p->spent);
}

est_status est_parallel_create(const est_parallel_spec *spec, est_parallel **out)
{
    int           n = spec->workers == EST_AUTO ? est_cores_allowed() : spec->workers;
    est_parallel *p;
    est_status    status;

    EST_TRY(est_parallel_check_workers(spec->workers));
    if (n > EST_PARALLEL_WORKERS_MAX) n = EST_PARALLEL_WORKERS_MAX;
    p = est_zalloc(sizeof *p + (size_t)n * sizeof p->workers[0]);
    if (p == NULL) return est_no_memory();
    p->spec        = *spec;
    p->n_workers   = n;
    p->error_place = -1;
    p->window      = spec->capacity > 0 ? spec->capacity : (int64_t)AHEAD_MIN * (n > 0 ? n : 1);
    p->spent_max   = 1;

    status = slots_resize(p, n > 0 && spec->capacity == 0 ? (int64_t)AHEAD_MAX * n : p->window);
    if (status == EST_OK) status = sync_init(p);
    if (status != EST_OK) {
        arrays_free(p);
        est_free(p);
        return status;
    }
    *out = p;
    return EST_OK;
}

void est_parallel_free(est_parallel *p)
{
    if (p == NULL) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_started; i++) est_thread_join(&p->workers[i].thread);

    for (int64_t i = 0; i < p->n_jobs; i++) {
        p->spec.clear(p->spec.user, p->jobs[i]);
        est_free(p->jobs[i]);
    }
    pthread_cond_destroy(&p->news);
    pthread_cond_destroy(&p->room);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->pull_lock);
    arrays_free(p);
    est_free(p);
}

int est_parallel_workers(const est_parallel *p)
{
    return p->n_workers > 0 ? p->n_workers : 1;
}

/* --- what a worker does, all with the lock held but for pull and work --------------------------------------------- */

static bool may_pull(const est_parallel *p)
{
    return !p->stop && !p->paused && !p->closed && p->pulled - p->returned < p->window;
}

/* A free job; NULL when out of memory. By DP1 there are never more jobs than slots. */
static void *job_take(est_parallel *p)
{
    void *job;

    if (p->n_free > 0) return p->free_jobs[--p->n_free];
    job = est_zalloc(p->spec.job_size);
    if (job != NULL) p->jobs[p->n_jobs++] = job;
    return job;
}

/* Counts a job as pulled and returns its number; an end or an error closes the whole. -1: the end, or a stop. */
static int64_t job_pulled(est_parallel *p, void *job, est_status status)
{
    if (status != EST_OK) p->closed = true;
    if (status == EST_OUT_OF_RANGE) {
        p->free_jobs[p->n_free++] = job;
        return -1;
    }
    return p->pulled++;
}

static void job_finished(est_parallel *p, int64_t number, void *job, est_status status)
{
    int64_t place = p->spec.unordered ? p->placed++ : number;

    *slot_of(p, place) = (slot){ .job = job, .status = status, .ready = true };
    if (status == EST_OK) return;
    p->closed = true;
    if (p->error_place < 0 || place < p->error_place) {
        est_error_take(status, &p->error);
        p->error_place = place;
    }
}

static void smooth(int64_t *average, int64_t sample)
{
    *average = *average == 0 ? sample : *average + (sample - *average) / 8;
}

static void note_times(est_parallel *p, int64_t pull_ns, int64_t work_ns)
{
    smooth(&p->work_ns, work_ns);
    smooth(&p->job_ns, pull_ns + work_ns);
    if (p->spec.capacity == 0) {
        int64_t window = AHEAD_NS / (p->job_ns + 1);
        int64_t least  = (int64_t)AHEAD_MIN * p->n_workers;
        int64_t most   = (int64_t)AHEAD_MAX * p->n_workers;

        p->window = window < least ? least : window > most ? most : window;
    }
}

/* Wakes the consumer if it waits and can go on; for short jobs not at once, unless `now` is 0. */
static void tell_consumer(est_parallel *p, int64_t now)
{
    if (p->paused && p->n_active == 0) {
        pthread_cond_signal(&p->news);
        return;
    }
    if (!p->consumer_waits) return;
    if (!(p->closed && p->head == p->pulled) && !slot_of(p, p->head)->ready) return;
    if (now != 0 && !p->closed && p->job_ns < SHORT_NS && now - p->wait_began < DEFER_NS &&
        2 * (p->pulled - p->head) < p->window) {
        return;
    }
    p->consumer_waits = false;
    pthread_cond_signal(&p->news);
}

static bool help_pays(const est_parallel *p)
{
    return p->work_ns >= HELP_NS;
}

/* Waits until this worker has something to pull; false when it is to end. */
static bool worker_wait(est_parallel *p)
{
    while (!p->stop && !(may_pull(p) && (p->n_running == 1 || help_pays(p)))) {
        p->n_running--;
        tell_consumer(p, 0);
        pthread_cond_wait(&p->room, &p->lock);
        p->n_running++;
    }
    return !p->stop;
}

/* Pulls the next job. False when there was nothing to pull, or the pulled job needs no work. */
static bool worker_pull(est_parallel *p, void **job, int64_t *number, int64_t *ns)
{
    est_status status;
    int64_t    start;

    pthread_mutex_unlock(&p->lock);
    pthread_mutex_lock(&p->pull_lock);
    pthread_mutex_lock(&p->lock);
    if (!may_pull(p)) {
        pthread_mutex_unlock(&p->pull_lock);
        return false;
    }
    *job = job_take(p);
    if (*job == NULL) {
        *number = job_pulled(p, NULL, EST_RESOURCE_EXHAUSTED);
        status  = est_no_memory();
        job_finished(p, *number, NULL, status);
        pthread_mutex_unlock(&p->pull_lock);
        return false;
    }
    p->n_active++;
    pthread_mutex_unlock(&p->lock);

    start  = est_machine_ns();
    status = p->spec.pull(p->spec.user, *job);
    *ns    = est_machine_ns() - start;

    pthread_mutex_lock(&p->lock);
    *number = job_pulled(p, *job, status);
    if (status == EST_OK && p->n_running < p->n_started && help_pays(p) && may_pull(p)) pthread_cond_signal(&p->room);
    pthread_mutex_unlock(&p->pull_lock);
    if (status == EST_OK && !p->stop) return true;
    if (*number >= 0) job_finished(p, *number, *job, status);
    p->n_active--;
    return false;
}

static void *worker_main(void *arg)
{
    worker       *self = arg;
    est_parallel *p    = self->parallel;

    pthread_mutex_lock(&p->lock);
    while (worker_wait(p)) {
        est_status status = EST_OK;
        int64_t    start, now, number, pull_ns;
        void      *job;

        if (!worker_pull(p, &job, &number, &pull_ns)) continue;
        start = now = est_machine_ns();
        if (p->spec.work != NULL) {
            pthread_mutex_unlock(&p->lock);
            status = p->spec.work(p->spec.user, self->index, job);
            now    = est_machine_ns();
            pthread_mutex_lock(&p->lock);
        }
        job_finished(p, number, job, status);
        note_times(p, pull_ns, now - start);
        p->n_active--;
        tell_consumer(p, now);
    }
    p->n_running--;
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static est_status threads_start(est_parallel *p)
{
    char name[32];

    snprintf(name, sizeof name, "est-%s", p->spec.name);
    while (p->n_started < p->n_workers) {
        worker    *w = &p->workers[p->n_started];
        est_status status;

        *w = (worker){ .parallel = p, .index = p->n_started };
        pthread_mutex_lock(&p->lock);
        status = est_thread_start(&w->thread, name, worker_main, w);
        if (status == EST_OK) {
            p->n_running++;
            p->n_started++;
        }
        pthread_mutex_unlock(&p->lock);
        if (status != EST_OK) return status;
    }
    return EST_OK;
}

/* --- what the consumer does --------------------------------------------------------------------------------------- */

/* Counts jobs that were given back as returned, and wakes a worker when half of the window is free, or with `all` for
 * any room. The lock is held. */
static void spent_return(est_parallel *p, bool all)
{
    int64_t room;

    for (int64_t i = 0; i < p->n_spent; i++) p->free_jobs[p->n_free++] = p->spent[i];
    p->returned += p->n_spent;
    p->n_spent   = 0;
    p->spent_max = (p->window + 1) / 2;
    room         = p->window - (p->pulled - p->returned);
    if (p->n_running == 0 && may_pull(p) && (all || 2 * room >= p->window)) pthread_cond_signal(&p->room);
}

/* Waits until there is a place to take. */
static est_status places_await(est_parallel *p)
{
    est_status status = EST_OK;
    int64_t    nap    = NAP_NS;

    if (p->n_started < p->n_workers) EST_TRY(threads_start(p));
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->ready_until < p->pulled && slot_of(p, p->ready_until)->ready) p->ready_until++;
        if (p->head < p->ready_until) break;
        if (p->closed && p->head == p->pulled) {
            status = EST_OUT_OF_RANGE;
            break;
        }
        if (nap > NAP_NS && p->n_running < p->n_started && may_pull(p)) {
            if (p->work_ns < HELP_NS) p->work_ns = HELP_NS; /* so far: the job in work is longer than those before */
            pthread_cond_signal(&p->room);
        }
        spent_return(p, true);
        p->consumer_waits = true;
        p->wait_began     = est_machine_ns();
        est_cond_wait_ns(&p->news, &p->lock, nap);
        p->consumer_waits = false;
        if (nap < NAP_MAX) nap *= 2;
    }
    if (p->head < p->ready_until) spent_return(p, false);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* Without workers: does the next job here. */
static est_status place_make(est_parallel *p)
{
    est_status status;
    int64_t    number;
    void      *job;

    if (p->closed) return EST_OUT_OF_RANGE;
    spent_return(p, true);
    job    = job_take(p);
    status = job == NULL ? est_no_memory() : p->spec.pull(p->spec.user, job);
    number = job_pulled(p, job, status);
    if (number < 0) return EST_OUT_OF_RANGE;
    if (status == EST_OK && p->spec.work != NULL) status = p->spec.work(p->spec.user, 0, job);
    job_finished(p, number, job, status);
    p->ready_until++;
    return EST_OK;
}

est_status est_parallel_next(est_parallel *p, void **job)
{
    slot *s;

    if (p->head == p->ready_until) EST_TRY(p->n_workers > 0 ? places_await(p) : place_make(p));
    s = slot_of(p, p->head);
    if (s->status != EST_OK) return est_error_raise(&p->error); /* no later error replaces it: it is the first */
    *job     = s->job;
    s->ready = false;
    p->head++;
    return EST_OK;
}

void est_parallel_done(est_parallel *p, void *job)
{
    p->spec.clear(p->spec.user, job);
    p->spent[p->n_spent++] = job;
    if (p->n_spent < p->spent_max || p->n_started == 0) return;
    pthread_mutex_lock(&p->lock);
    spent_return(p, false);
    pthread_mutex_unlock(&p->lock);
}

/* --- saving and restoring ----------------------------------------------------------------------------------------- */

void est_parallel_pause(est_parallel *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = true;
    while (p->n_active > 0) pthread_cond_wait(&p->news, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void est_parallel_resume(est_parallel *p)
{
    pthread_mutex_lock(&p->lock);
    p->paused = false;
    spent_return(p, true);
    pthread_mutex_unlock(&p->lock);
}

est_status est_parallel_each(est_parallel *p, est_parallel_visit fn, void *arg)
{
    for (int64_t place = p->head; place < p->pulled; place++) {
        slot *s = slot_of(p, place);

        if (s->status != EST_OK) return fn(arg, NULL, est_error_raise(&p->error));
        EST_TRY(fn(arg, s->job, EST_OK));
    }
    return p->closed ? fn(arg, NULL, EST_OUT_OF_RANGE) : EST_OK;
}

est_status est_parallel_add_finished(est_parallel *p, void **job)
{
    void *made;

    if (p->pulled == p->n_slots) EST_TRY(slots_resize(p, 2 * p->n_slots));
    made = job_take(p);
    if (made == NULL) return est_no_memory();
    job_finished(p, p->pulled++, made, EST_OK);
    p->ready_until = p->pulled;
    *job           = made;
    return EST_OK;
}
