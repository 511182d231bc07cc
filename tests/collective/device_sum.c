/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums between the devices of workers: who agrees to make them there, what is summed by the host, and what a step fails
 * with whose rank is lost or whose library fails.
 *
 * The library is this file's own, between the threads of a crew; with ESTOC_TEST_NCCL it is the plug-in's NCCL on its
 * stand-ins (tests/support/cuda_on_cpu), for what all ranks come to. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collective/membership_internal.h"
#include "device/devices.h"
#include "support/log_test.h"
#include "support/membership_test.h"
#include "support/nn_test.h"

#define RANKS 3
#define LARGE 20000 /* elements: 80 KB of float32 */
#define SMALL 100

/* --- a library ---------------------------------------------------------------------------------------------------- */

typedef struct shared_group {
    char                 id[EST_SUM_ID_BYTES];
    int                  n, joined, left;
    bool                 aborted;
    double               sums[4][LARGE]; /* of the works under way, in turn */
    int                  n_in[4], n_out[4];
    struct shared_group *next;
} shared_group;

struct est_sum_group {
    shared_group *shared;
    int           rank, n_begun;
    bool          aborted;
};

struct est_sum_work {
    void     *data;
    size_t    count;
    est_dtype dtype;
    int       slot;
};

static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static shared_group     *groups;
static int               n_ids, n_open, n_works, n_sums, fails_rank = -1, refuses_rank = -1, full_rank = -1;
static bool              no_library;
static int               stops_rank = -1; /* no group is opened: this rank is stopped meanwhile */
static est_communicator *stops;

static est_status fake_make_id(const est_device *device, void *id)
{
    (void)device;
    if (no_library) return est_fail(EST_NOT_FOUND, "there is no library");
    if (id == NULL) return EST_OK;
    pthread_mutex_lock(&lock);
    memset(id, 0, EST_SUM_ID_BYTES);
    n_ids++;
    memcpy(id, &n_ids, sizeof n_ids);
    pthread_mutex_unlock(&lock);
    return EST_OK;
}

static est_status fake_open(const est_device *device, const void *id, int n, int rank, est_sum_group **out)
{
    est_sum_group *g;
    shared_group  *s;

    (void)device;
    if (rank == refuses_rank) return est_fail(EST_UNAVAILABLE, "two ranks use one device");
    g = est_zalloc(sizeof *g);
    pthread_mutex_lock(&lock);
    for (s = groups; s != NULL && memcmp(s->id, id, sizeof s->id) != 0; s = s->next) {}
    if (s == NULL) {
        s = est_zalloc(sizeof *s);
        memcpy(s->id, id, sizeof s->id);
        s->n    = n;
        s->next = groups;
        groups  = s;
    }
    s->joined++;
    n_open++;
    pthread_mutex_unlock(&lock);
    *g   = (est_sum_group){ .shared = s, .rank = rank };
    *out = g;
    return EST_OK;
}

static est_status fake_opened(est_sum_group *g, double secs, bool *done)
{
    if (g->rank == stops_rank) stops->ops->abort(stops, "a stop was asked for");
    pthread_mutex_lock(&lock);
    *done = stops_rank < 0 && g->shared->joined == g->shared->n;
    pthread_mutex_unlock(&lock);
    if (!*done) est_sleep_ns(est_secs_to_ns(secs) / 20);
    return EST_OK;
}

static void fake_close(est_sum_group *g)
{
    if (g == NULL) return;
    pthread_mutex_lock(&lock);
    n_open--;
    if (++g->shared->left == g->shared->joined) {
        shared_group **at = &groups;

        while (*at != g->shared) at = &(*at)->next;
        *at = g->shared->next;
        est_free(g->shared);
    }
    pthread_mutex_unlock(&lock);
    est_free(g);
}

static double element(const est_sum_work *w, size_t i)
{
    return w->dtype == EST_F32 ? (double)((float *)w->data)[i] : ((double *)w->data)[i];
}

static est_status fake_sum(est_sum_group *g, void *data, size_t count, est_dtype dtype, est_sum_work **out)
{
    est_sum_work *w;

    if (g->rank == full_rank) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory left on the device");
    w  = est_zalloc(sizeof *w);
    *w = (est_sum_work){ data, count, dtype, g->n_begun++ % 4 };
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) g->shared->sums[w->slot][i] += element(w, i);
    if (g->rank != fails_rank) g->shared->n_in[w->slot]++; /* else no rank gets the sum */
    n_sums++;
    n_works++;
    pthread_mutex_unlock(&lock);
    *out = w;
    return EST_OK;
}

static void take_sum(shared_group *s, const est_sum_work *w)
{
    for (size_t i = 0; i < w->count; i++) {
        if (w->dtype == EST_F32) {
            ((float *)w->data)[i] = (float)s->sums[w->slot][i];
        } else {
            ((double *)w->data)[i] = s->sums[w->slot][i];
        }
    }
    if (++s->n_out[w->slot] < s->n) return;
    memset(s->sums[w->slot], 0, sizeof s->sums[w->slot]);
    s->n_in[w->slot] = s->n_out[w->slot] = 0;
}

static est_status end_work(est_sum_work *w, est_status status)
{
    n_works--;
    est_free(w);
    return status;
}

static est_status fake_wait(est_sum_group *g, est_sum_work *work, double secs, bool *done)
{
    shared_group *s      = g->shared;
    est_status    status = EST_OK;

    pthread_mutex_lock(&lock);
    if (g->aborted) {
        status = end_work(work, est_fail(EST_ABORTED, "the sums were aborted"));
    } else if (g->rank == fails_rank) {
        status = end_work(work, est_fail(EST_UNAVAILABLE, "the link of the device is down"));
    } else if (s->n_in[work->slot] == s->n) {
        take_sum(s, work);
        *done  = true;
        status = end_work(work, EST_OK);
    }
    pthread_mutex_unlock(&lock);
    if (status == EST_OK && !*done) est_sleep_ns(est_secs_to_ns(secs) / 20);
    return status;
}

static void fake_abort(est_sum_group *g)
{
    pthread_mutex_lock(&lock);
    g->aborted = true;
    pthread_mutex_unlock(&lock);
}

static const est_device_sums fake_sums = { "FAKE",     fake_make_id, fake_open, fake_opened,
                                           fake_close, fake_sum,     fake_wait, fake_abort };
static est_device            fake;

/* --- crews -------------------------------------------------------------------------------------------------------- */

static bool has_nccl(void)
{
    return getenv("ESTOC_TEST_NCCL") != NULL;
}

static void begin(crew *c, int n, est_communication communication)
{
    const est_device *device = &fake;

    fake      = est_device_cpu;
    fake.sums = &fake_sums;
    if (has_nccl()) {
        device = est_device_find("GPU", 0);
        assert_non_null(device);
    }
    no_library = false;
    fails_rank = refuses_rank = full_rank = stops_rank = -1;
    n_sums = n_ids = 0;
    log_keep(EST_LOG_INFO);
    crew_make(c, n, &(est_membership_options){ .device_sums = true, .device = device, .communication = communication });
    crew_start_all(c);
}

static void end(crew *c)
{
    crew_free(c);
    log_release();
    assert_int_equal(n_open, 0);
    assert_int_equal(n_works, 0);
    assert_null(groups);
}

static void join_view(crew_member *m)
{
    crew_check(m, est_membership_join(m->membership, -1, "", &m->view));
}

/* Two large sums under way, one of doubles and a small one. */
static void sum_some(crew_member *m)
{
    est_communicator *p = m->view.communicator;
    float            *a = est_zalloc(sizeof *a * LARGE), few[SMALL];
    double           *b = est_zalloc(sizeof *b * LARGE);
    est_comm_work    *work[3];

    for (int i = 0; i < LARGE; i++) {
        a[i] = (float)(i + p->rank);
        b[i] = 0.5 * i;
    }
    for (int i = 0; i < SMALL; i++) few[i] = (float)p->rank;
    crew_check(m, p->ops->sum(p, a, LARGE, EST_F32, &work[0]));
    if (m->error[0] == '\0') crew_check(m, p->ops->sum(p, few, SMALL, EST_F32, &work[1]));
    if (m->error[0] == '\0') crew_check(m, p->ops->sum(p, b, LARGE, EST_F64, &work[2]));
    for (int i = 0; i < 3 && m->error[0] == '\0'; i++) crew_check(m, p->ops->wait(p, work[i]));
    for (int i = 0; i < LARGE && m->error[0] == '\0'; i++) {
        if (a[i] != (float)(p->n * i + p->n * (p->n - 1) / 2) || b[i] != 0.5 * p->n * i || few[i % SMALL] != 3) {
            crew_fail(m, "element %d is %g, %g, %g", i, (double)a[i], b[i], (double)few[i % SMALL]);
        }
    }
    est_free(a);
    est_free(b);
}

static void sum_all(crew *c)
{
    crew_run(c, CREW_ALL, join_view, NULL);
    crew_run(c, CREW_ALL, sum_some, NULL);
}

/* Before anything else has looked for the library. */
TEST(group_finds_the_library)
{
    char              id[EST_SUM_ID_BYTES] = "";
    const est_device *device;
    est_sum_group    *group  = NULL;
    bool              opened = false;

    if (!has_nccl()) skip();
    device = est_device_find("GPU", 0);
    assert_non_null(device);
    assert_int_equal(device->sums->open(device, id, 1, 0, &group), EST_OK);
    assert_int_equal(device->sums->opened(group, 10, &opened), EST_OK);
    assert_true(opened);
    device->sums->close(group);
}

TEST(devices_sum)
{
    crew c;

    begin(&c, RANKS, EST_COMMUNICATION_AUTO);

    for (int i = 0; i < 2; i++) { /* the second time in another group */
        sum_all(&c);
        assert_true(has_nccl() || n_sums == (i + 1) * 2 * RANKS); /* the small one went by the host */
        assert_true(has_nccl() || n_ids == i + 1);
    }
    log_expect(has_nccl() ? "info Gradients of 3 workers are summed by NCCL"
                          : "info Gradients of 3 workers are summed by FAKE");
    end(&c);
}

TEST(no_library)
{
    if (has_nccl()) skip();
    for (int required = 0; required < 2; required++) {
        crew c;

        begin(&c, RANKS, required ? EST_COMMUNICATION_NCCL : EST_COMMUNICATION_AUTO);
        no_library = true;
        sum_all(&c);
        assert_int_equal(n_sums, 0);
        log_expect(required ? "warn The host sums gradients of workers, as rank 0 says: FAKE: there is no library"
                            : "info The host sums gradients of workers, as rank 0 says: FAKE: there is no library");
        end(&c);
    }
}

static void wait_shortly(crew_member *m)
{
    m->membership->device_sum.open_ns = EST_NS_PER_SEC / 10; /* which those pass that one keeps waiting */
}

/* What the others have opened is closed; the one is not asked again. */
TEST(one_cannot)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    crew_run(&c, CREW_ALL, wait_shortly, NULL);
    refuses_rank = 1;
    sum_all(&c);
    assert_int_equal(n_sums, 0);
    assert_int_equal(n_open, 0);
    log_expect("rank 1 says: FAKE: two ranks use one device");
    refuses_rank = -1;
    sum_all(&c);
    assert_int_equal(n_sums, 0);
    assert_int_equal(log_count(EST_LOG_INFO, "rank 1 says: FAKE has failed before"), RANKS);
    crew_stop(&c, 1);
    crew_start(&c, 1); /* another process: the others had only waited for the first */
    sum_all(&c);
    assert_true(n_sums > 0);
    end(&c);
}

/* A worker without a GPU among others: all use the host, and only the others say so. */
TEST(no_device)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    crew_stop(&c, 2);
    c.options.device = NULL;
    crew_start(&c, 2);
    sum_all(&c);
    assert_int_equal(n_sums, 0);
    assert_int_equal(log_count(EST_LOG_INFO, "as rank 2 says: it has no GPU"), 2);
    end(&c);
}

static void count_operations(crew_member *m)
{
    uint64_t begun = est_group_operations(m->view.group);

    if (begun != 3) crew_fail(m, "%d operations for 3 sums", (int)begun);
}

/* Workers that have said so when they joined exchange nothing for it. */
TEST(no_devices)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    for (int i = 0; i < RANKS; i++) crew_stop(&c, i);
    c.options.device = NULL;
    crew_start_all(&c);
    sum_all(&c);
    crew_run(&c, CREW_ALL, count_operations, NULL);
    assert_int_equal(log_count(EST_LOG_INFO, "The host sums gradients"), 0);
    end(&c);
}

/* Begins two sums, if the group has not failed by then; what has begun is waited for. */
static void expect_abort(crew_member *m)
{
    est_communicator *p = m->view.communicator;
    float            *a[2];
    est_comm_work    *work[2];
    est_status        begun[2];

    for (int i = 0; i < 2; i++) {
        a[i]     = est_zalloc(sizeof *a[i] * LARGE);
        begun[i] = p->ops->sum(p, a[i], LARGE, EST_F32, &work[i]);
    }
    for (int i = 0; i < 2; i++) {
        crew_expect(m, begun[i] == EST_OK ? p->ops->wait(p, work[i]) : begun[i], EST_ABORTED, m->arg);
        est_free(a[i]);
    }
}

static void expect_stop(crew_member *m)
{
    if (m->number == stops_rank) stops = m->view.communicator;
    expect_abort(m);
}

/* Those that open the library's group notice that theirs has failed, and the group after it sums. */
TEST(stopped_while_opening)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    crew_run(&c, CREW_ALL, join_view, NULL);
    for (int i = 0; i < RANKS; i++) c.members[i].membership->device_sum.open_ns = INT64_MAX;
    stops_rank = 1;
    crew_run(&c, CREW_ALL, expect_stop, "a stop was asked for");
    stops_rank = -1;
    sum_all(&c);
    assert_true(n_sums > 0);
    end(&c);
}

/* A rank whose library fails waits for the others with the deadline of the group of ranks: they are done by then. */
TEST(open_time)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, 2, EST_COMMUNICATION_AUTO);
    for (int i = 0; i < 2; i++) {
        crew_stop(&c, 0);
        c.options.deadline_secs = i == 0 ? -1 : 10;
        crew_start(&c, 0);
        assert_int_equal(c.members[0].membership->device_sum.open_ns, (i == 0 ? 60 : 5) * EST_NS_PER_SEC);
    }
    end(&c);
}

/* Those that wait for a rank that has gone fail as by the host, and the group after it sums again. */
TEST(lost_rank)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    sum_all(&c);
    crew_stop(&c, 1);
    crew_run(&c, 5U, expect_abort, "(worker:1)");
    crew_start(&c, 1);
    sum_all(&c);
    end(&c);
}

/* Values of the step are given up on all ranks, and the host sums from then on. */
TEST(library_fails)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    sum_all(&c);
    fails_rank = 2;
    crew_run(&c, CREW_ALL, expect_abort, "the link of the device is down");
    fails_rank = -1;
    n_sums     = 0;
    sum_all(&c);
    assert_int_equal(n_sums, 0);
    log_expect("rank 2 says: FAKE has failed before");
    end(&c);
}

/* The same of one that cannot begin a sum: the rank joins again, and does not end. */
TEST(sum_cannot_begin)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, RANKS, EST_COMMUNICATION_AUTO);
    crew_run(&c, CREW_ALL, join_view, NULL);
    full_rank = 2;
    crew_run(&c, CREW_ALL, expect_abort, "no memory left on the device");
    full_rank = -1;
    n_sums    = 0;
    sum_all(&c);
    assert_int_equal(n_sums, 0);
    log_expect("rank 2 says: FAKE has failed before");
    end(&c);
}

static void agree(crew_member *m)
{
    est_communicator *p = m->view.communicator;
    float            *a = est_zalloc(sizeof *a * LARGE);
    est_comm_work    *work;

    crew_check(m, p->ops->sum(p, a, LARGE, EST_F32, &work));
    if (m->error[0] == '\0') crew_check(m, p->ops->wait(p, work));
    m->membership->device_sum.deadline_ns = EST_NS_PER_SEC / 5; /* of the next, which cannot end */
    est_free(a);
}

static void sum_alone(crew_member *m)
{
    est_communicator *p = m->view.communicator;
    float            *a = est_zalloc(sizeof *a * LARGE);
    est_comm_work    *work;

    if (m->number != 0) {
        crew_check(m, p->ops->sum(p, a, LARGE, EST_F32, &work));
        if (m->error[0] == '\0') crew_expect(m, p->ops->wait(p, work), EST_ABORTED, "a sum by FAKE was not done");
    }
    est_free(a);
}

TEST(deadline)
{
    crew c;

    if (has_nccl()) skip();
    begin(&c, 2, EST_COMMUNICATION_AUTO);
    crew_run(&c, CREW_ALL, join_view, NULL);
    crew_run(&c, CREW_ALL, agree, NULL);
    crew_run(&c, CREW_ALL, sum_alone, NULL);
    end(&c);
}
