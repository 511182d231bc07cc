/* SPDX-License-Identifier: Apache-2.0
 *
 * The far device. Its memory is mapped twice: where everybody is told that it is, no access is allowed; the thread of a
 * queue, and copies, use the second mapping, `near`. So an access of the host faults at once and for certain. Calls are
 * copied when they are launched, as a GPU does with the arguments of a kernel. */
#include "support/far_device.h"

#include <assert.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "device/devices.h"
#include "graph/variable.h"

#define MEMORY    ((size_t)8 << 30) /* address space; pages are taken when they are touched */
#define ALIGNMENT ((size_t)256)     /* as a GPU has it */
#define LANES     4                 /* of a fork; side lanes come behind */

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct block {
    size_t        offset, bytes;
    struct block *next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, down to the counts */
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static char           *far_base, *near_base;
static size_t          top; /* of what was ever allocated */
static block          *used, *unused;
static est_far_counts  counts;

static void die(const char *what)
{
    perror(what);
    abort();
}

static void map_memory(int flags)
{
    int file = memfd_create("far_device", MFD_CLOEXEC);

    if (file < 0 || ftruncate(file, (off_t)MEMORY) != 0) die("far device");
    far_base  = mmap(far_base, MEMORY, PROT_NONE, MAP_SHARED | MAP_NORESERVE | flags, file, 0);
    near_base = mmap(near_base, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | flags, file, 0);
    if (far_base == MAP_FAILED || near_base == MAP_FAILED) die("far device");
    close(file);
}

/* A process that was forked gets a copy of the memory: it would share it with its parent. */
static void after_fork(void)
{
    char *copy = malloc(top + 1);

    if (copy == NULL) die("far device");
    memcpy(copy, near_base, top);
    map_memory(MAP_FIXED);
    memcpy(near_base, copy, top);
    free(copy);
    pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_here(void)
{
    pthread_mutex_unlock(&lock);
}

static void make_memory(void)
{
    map_memory(0);
    pthread_atfork(before_fork, after_fork_here, after_fork);
}

static bool is_far(const void *p)
{
    return (const char *)p >= far_base && (const char *)p < far_base + MEMORY;
}

/* The address at which the device's own thread finds what is at `p`. */
static void *near(const void *p)
{
    if (p == NULL) return NULL;
    assert(is_far(p));
    return near_base + ((const char *)p - far_base);
}

static block *take_block(size_t bytes)
{
    block **at = &unused, *b;

    while (*at != NULL && (*at)->bytes != bytes) at = &(*at)->next;
    b = *at;
    if (b != NULL) {
        *at = b->next;
    } else if (top + bytes <= MEMORY && (b = malloc(sizeof *b)) != NULL) {
        *b = (block){ top, bytes, NULL };
        top += bytes;
    }
    return b;
}

static size_t taken, limit_bytes = SIZE_MAX; /* guarded by `lock` */

static void *far_allocate(size_t bytes, int fill)
{
    block *b = NULL;

    pthread_once(&once, make_memory);
    bytes = (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    pthread_mutex_lock(&lock);
    if (bytes <= limit_bytes && taken <= limit_bytes - bytes) b = take_block(bytes);
    if (b != NULL) {
        taken += bytes;
        b->next = used;
        used    = b;
        counts.blocks++;
    }
    pthread_mutex_unlock(&lock);
    if (b == NULL) return NULL;
    memset(near_base + b->offset, fill, bytes);
    return far_base + b->offset;
}

static void *far_alloc(const est_device *device, size_t bytes)
{
    (void)device;
    return far_allocate(bytes, 0xff); /* NaN */
}

static void *far_zalloc(const est_device *device, size_t bytes)
{
    (void)device;
    return far_allocate(bytes, 0);
}

static void drain_queues(void);

static void far_free(const est_device *device, void *p)
{
    block **at = &used, *b;

    (void)device;
    if (p == NULL) return;
    drain_queues();
    pthread_mutex_lock(&lock);
    while (*at != NULL && far_base + (*at)->offset != p) at = &(*at)->next;
    b = *at;
    assert(b != NULL);
    *at = b->next;
    taken -= b->bytes;
    b->next = unused;
    unused  = b;
    counts.blocks--;
    pthread_mutex_unlock(&lock);
}

static void *alloc_staging(const est_device *device, size_t bytes)
{
    (void)device;
    pthread_mutex_lock(&lock);
    counts.blocks++;
    pthread_mutex_unlock(&lock);
    return malloc(bytes + 1);
}

static void free_staging(const est_device *device, void *p)
{
    (void)device;
    if (p == NULL) return;
    pthread_mutex_lock(&lock);
    counts.blocks--;
    pthread_mutex_unlock(&lock);
    free(p);
}

static est_status copy_in(const est_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(near(to), from, bytes);
    return EST_OK;
}

static est_status copy_out(const est_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, near(from), bytes);
    return EST_OK;
}

static void set_limit(const est_device *device, size_t bytes)
{
    (void)device;
    pthread_mutex_lock(&lock);
    limit_bytes = bytes;
    pthread_mutex_unlock(&lock);
}

static void memory(const est_device *device, size_t *available, size_t *total)
{
    (void)device;
    *available = MEMORY - top;
    *total     = MEMORY;
}

/* --- work --------------------------------------------------------------------------------------------------------- */

/* Something enqueued: a kernel, a copy, a mark, or a recording. */
typedef struct work {
    enum { LAUNCH, COPY, FORK, JOIN, MEET, REPLAY, WATCH } kind;
    int               lane;
    const est_kernel *kernel; /* LAUNCH */
    est_call          call;
    est_view         *views; /* the call's own: inputs, then outputs */
    est_view        **in;
    void             *to; /* COPY, at near addresses */
    const void       *from;
    void             *own; /* freed with it: where the bytes of a send are */
    size_t            bytes;
    est_recording    *recording; /* REPLAY */
    bool              is_double; /* WATCH: what `from` is; call.node is the node */
    struct work      *next;
} work;

struct est_recording {
    est_queue *queue;
    work      *first, **last;
};

struct est_queue {
    pthread_t                  thread;
    pthread_mutex_t            lock; /* guards what follows */
    pthread_cond_t             changed;
    work                      *first, **last;
    uint64_t                   n_enqueued, n_done;
    bool                       closing;
    est_error                  error;     /* status EST_OK: nothing has failed */
    uint64_t                   failed_at; /* n_done then */
    const struct est_node_def *failed;
    est_queue                 *next;      /* that is open; guarded by queues_lock */
    est_recording             *recording; /* being made */
    bool                       single;    /* what is enqueued runs as it comes, until `end` */
    int                        lane;
    uint64_t                   random;
};

static void free_work(work *w)
{
    free(w->views);
    free(w->in);
    free(w->own);
    free(w);
}

/* Kernels see variables at near addresses, so they get copies of them. */
static est_status run_kernel(const work *w)
{
    est_call   call = w->call;
    est_var   *vars = calloc((size_t)call.n_in + 1, sizeof *vars);
    est_var  **real = calloc((size_t)call.n_in + 1, sizeof(est_var *));
    est_view  *in   = calloc((size_t)call.n_in + 1, sizeof *in);
    est_view **list = calloc((size_t)call.n_in + 1, sizeof(est_view *));
    est_status status;

    if (vars == NULL || real == NULL || in == NULL || list == NULL) die("far device");
    for (int i = 0; i < call.n_in; i++) {
        in[i]   = *w->in[i];
        list[i] = &in[i];
        if (in[i].dtype != EST_RESOURCE) continue;
        real[i]            = in[i].data;
        vars[i]            = *real[i];
        vars[i].value.data = near(vars[i].value.data);
        in[i].data         = &vars[i];
    }
    call.in = list;
    status  = w->kernel->run(&call);
    for (int i = 0; i < call.n_in; i++) {
        if (real[i] != NULL && real[i]->initialized != vars[i].initialized) real[i]->initialized = vars[i].initialized;
    }
    free(vars);
    free(real);
    free(in);
    free(list);
    return status;
}

static est_status look(const work *w)
{
    double value = w->is_double ? *(const double *)w->from : (double)*(const float *)w->from;

    return isnan(value) ? est_fail(EST_ABORTED, "the value is NaN") : EST_OK;
}

static void run_one(est_queue *q, const work *w)
{
    est_status status = EST_OK;

    if (w->kind == COPY && w->bytes > 0) memcpy(w->to, w->from, w->bytes);
    if (q->error.status != EST_OK) return; /* only this thread sets it, and it is cleared when all is done */
    if (w->kind == LAUNCH) {
        status = run_kernel(w);
        pthread_mutex_lock(&lock);
        counts.launched++;
        pthread_mutex_unlock(&lock);
    }
    if (w->kind == WATCH) status = look(w);
    if (status == EST_OK) return;
    pthread_mutex_lock(&q->lock);
    est_error_take(status, &q->error);
    q->failed    = w->call.node;
    q->failed_at = q->n_done;
    pthread_mutex_unlock(&q->lock);
}

static uint64_t draw(est_queue *q)
{
    q->random ^= q->random << 13;
    q->random ^= q->random >> 7;
    q->random ^= q->random << 17;
    return q->random;
}

/* The lanes of a fork one after the other, beginning with any of them. Returns what follows the join. */
static const work *run_lanes(est_queue *q, const work *fork)
{
    const work *end   = fork;
    int         begin = (int)(draw(q) % LANES);

    while (end->kind != JOIN) end = end->next;
    for (int l = 0; l < LANES; l++) {
        for (const work *w = fork->next; w != end; w = w->next) {
            if (w->lane == (begin + l) % LANES) run_one(q, w);
        }
    }
    return end->next;
}

/* What stands aside runs late: some of a lane whenever something else has run, the rest when the lane is met. */
typedef struct side {
    const work *first, *end; /* of what waits; works of other lanes are between */
} side;

static void run_side(est_queue *q, side *s, int lane, uint64_t n)
{
    for (; s->first != s->end && n > 0; s->first = s->first->next) {
        if (s->first->lane != LANES + lane) continue;
        run_one(q, s->first);
        n--;
    }
}

static void run_recording(est_queue *q, const est_recording *recording)
{
    const work *w                = recording->first;
    side        sides[EST_SIDES] = { { NULL, NULL } };

    while (w != NULL) {
        int l = w->kind == MEET ? w->lane - LANES : (int)(draw(q) % EST_SIDES);

        run_side(q, &sides[l], l, w->kind == MEET ? UINT64_MAX : draw(q) % 3);
        if (w->kind == FORK) {
            w = run_lanes(q, w);
            continue;
        }
        if (w->kind != MEET && w->lane >= LANES) {
            side *s = &sides[w->lane - LANES];

            if (s->first == s->end) s->first = w;
            s->end = w->next;
        } else if (w->kind != MEET) {
            run_one(q, w);
        }
        w = w->next;
    }
    for (int i = 0; i < EST_SIDES; i++) assert(sides[i].first == sides[i].end); /* all were met */
}

/* What is early on one run is late on another. */
static void delay(est_queue *q)
{
    uint64_t how = draw(q) % 16;

    if (how == 0) nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
    for (uint64_t i = 0; i < how; i++) sched_yield();
}

static void *serve(void *arg)
{
    est_queue *q = arg;

    pthread_mutex_lock(&q->lock);
    for (;;) {
        work *w = q->first;

        if (w == NULL && q->closing) break;
        if (w == NULL) {
            pthread_cond_wait(&q->changed, &q->lock);
            continue;
        }
        q->first = w->next;
        if (q->first == NULL) q->last = &q->first;
        pthread_mutex_unlock(&q->lock);
        delay(q);
        if (w->kind == REPLAY) {
            run_recording(q, w->recording);
        } else {
            run_one(q, w);
        }
        free_work(w);
        pthread_mutex_lock(&q->lock);
        q->n_done++;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static est_status enqueue(est_queue *q, const work *what)
{
    work *w = malloc(sizeof *w);

    if (w == NULL) die("far device");
    *w = *what;
    if (q->recording != NULL) {
        w->lane             = q->lane;
        *q->recording->last = w;
        q->recording->last  = &w->next;
        return EST_OK;
    }
    pthread_mutex_lock(&q->lock);
    *q->last = w;
    q->last  = &w->next;
    q->n_enqueued++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return EST_OK;
}

static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; taken before that of a queue */
static est_queue      *queues;                                  /* that are open */

static void drain(est_queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (q->n_done < q->n_enqueued) pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

/* As cudaFree does. */
static void drain_queues(void)
{
    pthread_mutex_lock(&queues_lock);
    for (est_queue *q = queues; q != NULL; q = q->next) drain(q);
    pthread_mutex_unlock(&queues_lock);
}

/* --- the contract ------------------------------------------------------------------------------------------------- */

static est_status open_queue(const est_device *device, est_queue **out)
{
    est_queue *q = calloc(1, sizeof *q);

    (void)device;
    if (q == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a queue");
    q->last   = &q->first;
    q->random = 88172645463325252u;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    if (pthread_create(&q->thread, NULL, serve, q) != 0) die("far device");
    pthread_mutex_lock(&lock);
    counts.opened++;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&queues_lock);
    q->next = queues;
    queues  = q;
    pthread_mutex_unlock(&queues_lock);
    *out = q;
    return EST_OK;
}

static void close_queue(est_queue *q)
{
    est_queue **at = &queues;

    if (q == NULL) return;
    pthread_mutex_lock(&queues_lock);
    while (*at != q) at = &(*at)->next;
    *at = q->next;
    pthread_mutex_unlock(&queues_lock);
    pthread_mutex_lock(&q->lock);
    q->closing = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_lock(&lock);
    counts.opened--;
    pthread_mutex_unlock(&lock);
    free(q);
}

static est_status launch(est_queue *q, const est_kernel *kernel, const est_call *call)
{
    size_t n = (size_t)call->n_in + (size_t)call->n_out + 1;
    work   w = { .kind = LAUNCH, .kernel = kernel, .call = *call };

    w.views = calloc(n, sizeof *w.views);
    w.in    = calloc(n, sizeof(est_view *));
    if (w.views == NULL || w.in == NULL) die("far device");
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        w.views[i] = i < call->n_in ? *call->in[i] : call->out[i - call->n_in];
        if (w.views[i].dtype != EST_RESOURCE) w.views[i].data = near(w.views[i].data);
        w.in[i] = &w.views[i];
    }
    w.call.in       = w.in;
    w.call.out      = w.views + call->n_in;
    w.call.scratch  = near(call->scratch);
    w.call.run_seed = near(call->run_seed);
    return enqueue(q, &w);
}

static est_status copy(est_queue *q, void *to, const void *from, size_t bytes)
{
    return enqueue(q, &(work){ .kind = COPY, .to = near(to), .from = near(from), .bytes = bytes });
}

static est_status send(est_queue *q, void *to, const void *from, size_t bytes)
{
    void *own = malloc(bytes + 1);

    if (own == NULL) die("far device");
    assert(q->recording == NULL && !is_far(from));
    memcpy(own, from, bytes);
    pthread_mutex_lock(&lock);
    counts.sent += (int64_t)bytes;
    pthread_mutex_unlock(&lock);
    return enqueue(q, &(work){ .kind = COPY, .to = near(to), .from = own, .own = own, .bytes = bytes });
}

static est_status fetch(est_queue *q, void *to, const void *from, size_t bytes)
{
    assert(q->recording == NULL && !is_far(to));
    pthread_mutex_lock(&lock);
    counts.fetched += (int64_t)bytes;
    pthread_mutex_unlock(&lock);
    return enqueue(q, &(work){ .kind = COPY, .to = to, .from = near(from), .bytes = bytes });
}

static est_status begin(est_queue *q, bool single)
{
    est_recording *r;

    assert(q->recording == NULL && !q->single);
    q->single = single;
    if (single) return EST_OK;
    r = calloc(1, sizeof *r);
    if (r == NULL) die("far device");
    r->queue     = q;
    r->last      = &r->first;
    q->recording = r;
    return EST_OK;
}

static est_status end(est_queue *q, est_recording **out)
{
    *out = q->recording;
    pthread_mutex_lock(&lock);
    counts.recorded += !q->single;
    counts.single += q->single;
    pthread_mutex_unlock(&lock);
    q->recording = NULL;
    q->single    = false;
    return EST_OK;
}

static est_status replay(est_queue *q, est_recording *recording)
{
    pthread_mutex_lock(&lock);
    counts.replayed++;
    pthread_mutex_unlock(&lock);
    return enqueue(q, &(work){ .kind = REPLAY, .recording = recording });
}

static est_status watch(est_queue *q, const void *value, bool is_double, const struct est_node_def *node)
{
    assert(q->recording != NULL || q->single);
    return enqueue(q, &(work){ .kind = WATCH, .from = near(value), .is_double = is_double, .call = { .node = node } });
}

static est_status fork_lanes(est_queue *q, int n_lanes)
{
    assert(q->recording != NULL && n_lanes > 1 && n_lanes <= LANES);
    return enqueue(q, &(work){ .kind = FORK });
}

static est_status choose_lane(est_queue *q, int lane)
{
    assert(lane >= 0 && lane < LANES);
    q->lane = lane;
    return EST_OK;
}

static est_status join_lanes(est_queue *q)
{
    q->lane = 0;
    return enqueue(q, &(work){ .kind = JOIN });
}

static est_status choose_side(est_queue *q, int lane)
{
    assert(q->recording != NULL && lane < EST_SIDES);
    q->lane = lane < 0 ? 0 : LANES + lane;
    return EST_OK;
}

static est_status meet_side(est_queue *q, int lane)
{
    est_status status;

    assert(q->lane == 0 && lane >= 0 && lane < EST_SIDES);
    q->lane = LANES + lane;
    status  = enqueue(q, &(work){ .kind = MEET });
    q->lane = 0;
    return status;
}

static est_status set_mark(est_queue *q, uint64_t *out)
{
    pthread_mutex_lock(&q->lock);
    *out = q->n_enqueued;
    pthread_mutex_unlock(&q->lock);
    return EST_OK;
}

/* What has failed behind the mark is reported by the wait for it. */
static est_status await_mark(est_queue *q, uint64_t mark, const struct est_node_def **failed)
{
    est_error error = { .status = EST_OK };

    *failed = NULL;
    pthread_mutex_lock(&q->lock);
    while (q->n_done < mark) pthread_cond_wait(&q->changed, &q->lock);
    if (q->error.status != EST_OK && q->failed_at < mark) {
        while (q->n_done < q->n_enqueued) pthread_cond_wait(&q->changed, &q->lock);
        error           = q->error;
        *failed         = q->failed;
        q->error.status = EST_OK;
    }
    pthread_mutex_unlock(&q->lock);
    return error.status != EST_OK ? est_error_raise(&error) : EST_OK;
}

static void drop(est_recording *recording)
{
    if (recording == NULL) return;
    drain(recording->queue);
    for (work *w = recording->first, *next; w != NULL; w = next) {
        next = w->next;
        free_work(w);
    }
    free(recording);
}

static const est_device_runs far_runs = {
    .open   = open_queue,
    .close  = close_queue,
    .launch = launch,
    .copy   = copy,
    .send   = send,
    .fetch  = fetch,
    .begin  = begin,
    .end    = end,
    .replay = replay,
    .drop   = drop,
    .watch  = watch,
    .fork   = fork_lanes,
    .lane   = choose_lane,
    .join   = join_lanes,
    .aside  = choose_side,
    .meet   = meet_side,
    .mark   = set_mark,
    .wait   = await_mark,
};

#define FAR_DEVICE(number_)                                                                                            \
    {                                                                                                                  \
        .kind = "GPU", .number = number_, .description = "the CPU, far away", .alignment = ALIGNMENT,                  \
        .alloc = far_alloc, .zalloc = far_zalloc, .free = far_free, .alloc_staging = alloc_staging,                    \
        .free_staging = free_staging, .copy_in = copy_in, .copy_out = copy_out, .memory = memory, .limit = set_limit,  \
        .runs = &far_runs,                                                                                             \
    }

static const est_device far_device_0 = FAR_DEVICE(0), far_device_1 = FAR_DEVICE(1);

const est_device *const est_far_devices[2] = { &far_device_0, &far_device_1 };

void est_far_device_use(void)
{
    if (est_far_device_is_used()) est_devices_use(est_far_devices, 2);
}

bool est_far_device_is_used(void)
{
    const char *device = getenv("ESTOC_TEST_DEVICE");

    return device != NULL && strcmp(device, "far") == 0;
}

est_far_counts est_far_device_counts(void)
{
    est_far_counts now;

    pthread_mutex_lock(&lock);
    now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}
