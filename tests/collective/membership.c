/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that join, in one process: in every order, with different steps, again and again; those who go, come back,
 * come late or not at all; two under one name; the end of the job; and what the log and the status view say
 * meanwhile. */
#include "collective/membership.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/signals.h"
#include "base/thread.h"
#include "cluster/wait_table.h"
#include "collective/membership_internal.h"
#include "estoc/log.h"
#include "net/inject.h"
#include "support/fault_loop.h"
#include "support/log_test.h"
#include "support/membership_test.h"
#include "support/nn_test.h"

#define REJOIN_SECS 5.0 /* nobody who is there stands still for so long; passes at once where it should (hurry) */

/* The expected view. */
typedef struct expected {
    const int64_t *steps; /* [n], by number; NULL: -1 for all */
    int            n, source;
    int64_t        step;
    uint64_t       generation; /* 0: any */
    int            speaker;    /* whose payload counts: of the source of the first view */
} expected;

static void meet_and_check(crew_member *m)
{
    const expected *x = m->arg;
    char            payload[32];
    float           sum = 0;

    snprintf(payload, sizeof payload, "word of %d", m->number);
    crew_check(m, est_membership_join(m->membership, x->steps != NULL ? x->steps[m->number] : -1, payload, &m->view));
    if (m->error[0] != '\0') return;
    if (m->view.over || m->view.n != x->n || m->view.source != x->source || m->view.step != x->step)
        crew_fail(m, "%d ranks, source %d, step %d", m->view.n, m->view.source, (int)m->view.step);
    if (x->generation != 0 && m->view.generation != x->generation)
        crew_fail(m, "generation %d", (int)m->view.generation);
    if (m->view.tasks[m->view.rank] != m->number) crew_fail(m, "rank %d is another", m->view.rank);
    if (m->view.communicator->n != m->view.n || m->view.communicator->rank != m->view.rank)
        crew_fail(m, "its peers are others");
    snprintf(payload, sizeof payload, "word of %d", x->speaker);
    if (strcmp(est_membership_payload(m->membership), payload) != 0)
        crew_fail(m, "it is %s", est_membership_payload(m->membership));
    crew_check(m, crew_count(m, &sum));
    if (sum != (float)x->n) crew_fail(m, "the sum of %d ones is %g", x->n, (double)sum);
}

static void expect_view(crew *c, unsigned who, const expected *x)
{
    expected copy = *x;

    crew_run(c, who, meet_and_check, &copy);
}

static void count_until_aborted(crew_member *m)
{
    float      sum;
    est_status status = EST_OK;

    while (status == EST_OK) status = crew_count(m, &sum);
    crew_expect(m, status, EST_ABORTED, m->arg);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* The system's clock, and how far it was put ahead. Links go by the machine's own. */
static atomic_int_least64_t ahead_ns;

static int64_t hurried_now(void *user)
{
    (void)user;
    return est_machine_ns() + atomic_load(&ahead_ns);
}

static int64_t hurried_wall(void *user)
{
    struct timespec t;

    (void)user;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * EST_NS_PER_SEC + t.tv_nsec;
}

static void hurried_sleep(void *user, int64_t ns)
{
    (void)user;
    (void)nanosleep(&(struct timespec){ .tv_sec = ns / EST_NS_PER_SEC, .tv_nsec = ns % EST_NS_PER_SEC }, NULL);
}

static const est_clock hurried = { .now_ns = hurried_now, .wall_ns = hurried_wall, .sleep_ns = hurried_sleep };

/* Lets the time to return pass as soon as those who are there wait for nobody but the missing, so that none of them can
 * be too late however slow the machine is. */
typedef struct hurry {
    crew       *crew;
    unsigned    awaits[CREW_MAX]; /* bits of those whom each waits for; 0: it does not join */
    atomic_bool over;
    est_thread  thread;
} hurry;

static bool waits_for(const crew *c, int number, unsigned whom)
{
    char     text[64] = "";
    est_wait waits[EST_WAITS_MAX];
    int      n = est_waits_of(c->tasks[number], waits, EST_WAITS_MAX);

    for (int i = 0; i < c->n; i++) {
        size_t used = strlen(text);

        if ((whom >> i & 1) == 0) continue;
        snprintf(text + used, sizeof text - used, "%s%s (%s)", used > 0 ? ", " : "", c->tasks[i], c->addresses[i]);
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(waits[i].for_whom, text) == 0) return true;
    }
    return false;
}

static void *hurry_on(void *arg)
{
    hurry *h = arg;

    for (int i = 0; i < h->crew->n; i++) {
        while (h->awaits[i] != 0 && !waits_for(h->crew, i, h->awaits[i])) {
            if (atomic_load(&h->over)) return NULL;
            est_sleep_ns(EST_NS_PER_SEC / 1000);
        }
    }
    atomic_fetch_add(&ahead_ns, (int64_t)((REJOIN_SECS + 1) * (double)EST_NS_PER_SEC));
    return NULL;
}

/* crew_run of a join without `missing`, who do not take part. */
static void run_without(crew *c, unsigned missing, crew_fn fn, void *arg)
{
    hurry    h   = { .crew = c };
    unsigned who = ((1U << c->n) - 1) & ~missing;

    for (int i = 0; i < c->n; i++) h.awaits[i] = (who >> i & 1) != 0 ? missing : 0;
    assert_ok(est_thread_start(&h.thread, "hurry", hurry_on, &h));
    crew_run(c, who, fn, arg);
    atomic_store(&h.over, true);
    est_thread_join(&h.thread);
}

static int use_hurried_clock(void **state)
{
    (void)state;
    est_clock_set(&hurried);
    return 0;
}

static int use_system_clock(void **state)
{
    (void)state;
    est_clock_set(NULL);
    return 0;
}

/* --- joins -------------------------------------------------------------------------------------------------------- */

typedef struct order {
    const int *of; /* numbers in the order of their starts */
    expected   want;
    atomic_int started;
} order;

/* Starts when all before have, and wait. */
static void start_in_order(crew_member *m)
{
    order *o     = m->arg;
    int    place = 0;

    while (o->of[place] != m->number) place++;
    while (atomic_load(&o->started) < place) est_sleep_ns(EST_NS_PER_SEC / 1000);
    if (place > 0) crew_await_wait(&m->crew->members[o->of[place - 1]], "worker:");
    crew_start(m->crew, m->number);
    atomic_store(&o->started, place + 1);
    m->arg = &o->want;
    meet_and_check(m);
}

TEST(orders)
{
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

    for (int k = 0; k < 6; k++) {
        crew  c;
        order o = { .of = orders[k], .want = { .n = 3, .source = -1, .step = -1, .generation = 1 } };

        crew_make(&c, 3, NULL);
        crew_run(&c, CREW_ALL, start_in_order, &o);
        crew_free(&c);
    }
}

TEST(alone)
{
    crew c;

    crew_make(&c, 1, NULL);
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 1, .source = -1, .step = -1, .generation = 1 });
    expect_view(&c, CREW_ALL,
                &(expected){ .n = 1, .source = 0, .step = 4, .generation = 2, .steps = (int64_t[]){ 4 } });
    crew_free(&c);
}

TEST(source)
{
    crew c;

    crew_make(&c, 4, NULL);
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ (int64_t[]){ 5, -1, 9, 9 }, 4, 2, 9, 1, 2 });
    expect_view(&c, CREW_ALL, &(expected){ (int64_t[]){ 11, 11, 11, 11 }, 4, 0, 11, 2, 2 });
    expect_view(&c, CREW_ALL, &(expected){ (int64_t[]){ -1, -1, -1, 0 }, 4, 3, 0, 3, 2 });
    crew_free(&c);
}

/* --- those who go and come ---------------------------------------------------------------------------------------- */

/* One goes while the others train, and comes back without variables. */
TEST(restart)
{
    for (int victim = 0; victim < 3; victim++) {
        crew     c;
        int64_t  steps[3] = { 7, 7, 7 };
        unsigned others   = 7U & ~(1U << victim);

        crew_make(&c, 3, NULL);
        crew_start_all(&c);
        expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
        crew_stop(&c, victim);
        crew_run(&c, others, count_until_aborted, c.tasks[victim]);
        crew_start(&c, victim);
        steps[victim] = -1;
        expect_view(&c, CREW_ALL, &(expected){ steps, 3, victim == 0, 7, 2 });
        crew_free(&c);
    }
}

typedef struct return_of {
    int      victim;
    char     reason[64]; /* why the others end their group; "": any */
    expected want;
} return_of;

/* One comes; the others train until that ends their group, and join again. */
static void come_or_train(crew_member *m)
{
    return_of *r = m->arg;

    if (m->number != r->victim) {
        m->arg = r->reason;
        count_until_aborted(m);
    }
    m->arg = &r->want;
    meet_and_check(m);
}

/* One goes, the others go on, and end their group when it comes back: with older variables, which do not count. */
TEST(elastic, .setup_func = use_hurried_clock, .teardown_func = use_system_clock)
{
    for (int victim = 0; victim < 3; victim++) {
        crew      c;
        int64_t   steps[3] = { 7, 7, 7 };
        return_of r        = { victim, "", { steps, 3, victim == 0, 9, 0 } };
        int64_t   start;

        crew_make(&c, 3, &(est_membership_options){ .rejoin_secs = REJOIN_SECS, .elastic = true });
        crew_start_all(&c);
        expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
        crew_stop(&c, victim);
        start = est_machine_ns();
        run_without(&c, 1U << victim, meet_and_check, &(expected){ steps, 2, 0, 7, 0 });
        assert_true((double)(est_machine_ns() - start) < CREW_SOON_SECS * (double)EST_NS_PER_SEC);
        for (int i = 0; i < 3; i++) steps[i] = i == victim ? 7 : 9;
        crew_start(&c, victim);
        snprintf(r.reason, sizeof r.reason, "%s joins", c.tasks[victim]);
        crew_run(&c, CREW_ALL, come_or_train, &r);
        crew_free(&c);
    }
}

/* One that is there and does not come is missing, too, and comes later. */
TEST(absent, .setup_func = use_hurried_clock, .teardown_func = use_system_clock)
{
    for (int victim = 0; victim < 3; victim++) {
        crew      c;
        int64_t   steps[3] = { 7, 7, 7 };
        return_of r        = { victim, "", { steps, 3, 0, 7, 3 } };

        crew_make(&c, 3, &(est_membership_options){ .rejoin_secs = REJOIN_SECS, .elastic = true });
        crew_start_all(&c);
        expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
        run_without(&c, 1U << victim, meet_and_check, &(expected){ steps, 2, 0, 7, 2 });
        snprintf(r.reason, sizeof r.reason, "%s joins", c.tasks[victim]);
        crew_run(&c, CREW_ALL, come_or_train, &r);
        crew_free(&c);
    }
}

/* Without leave to go on, or as the lesser half, the rest fails, all of them, and names who is missing. */
static void meet_and_fail(crew_member *m)
{
    est_status status = est_membership_join(m->membership, 7, "", &m->view);

    crew_expect(m, status, EST_DEADLINE_EXCEEDED, m->arg);
}

TEST(give_up, .setup_func = use_hurried_clock, .teardown_func = use_system_clock)
{
    crew c;
    char missing[96];

    for (int victim = 0; victim < 2; victim++) {
        crew_make(&c, 3, &(est_membership_options){ .rejoin_secs = REJOIN_SECS });
        crew_start_all(&c);
        expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
        crew_stop(&c, victim);
        snprintf(missing, sizeof missing, "%s (%s) did not rejoin within 5 s", c.tasks[victim], c.addresses[victim]);
        run_without(&c, 1U << victim, meet_and_fail, missing);
        crew_free(&c);
    }
    crew_make(&c, 4, &(est_membership_options){ .rejoin_secs = REJOIN_SECS, .elastic = true });
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 4, .source = -1, .step = -1 });
    crew_stop(&c, 0);
    crew_stop(&c, 3);
    run_without(&c, 9U, meet_and_fail, "are no quorum");
    crew_free(&c);
}

/* Cuts four into 0 and 1, and 2 and 3. A net can be deaf and dumb to one task, which does for both ends of a pair;
 * there are four pairs to be cut. */
static void split_network(crew *c)
{
    static const int cut[] = { 2, 3, 1, 0 };

    for (int i = 0; i < 4; i++)
        assert_ok(est_net_inject(est_server_net(c->members[i].server), c->tasks[cut[i]], EST_INJECT_SILENCE, 0));
}

/* The half with the lowest number goes on. */
static void be_parted(crew_member *m)
{
    static const int64_t steps[] = { 7, 7, 7, 7 };
    expected             want    = { steps, 2, 0, 7, 2 };

    count_until_aborted(m);
    if (m->number < 2) {
        m->arg = &want;
        meet_and_check(m);
    } else {
        m->arg = "are no quorum";
        meet_and_fail(m);
    }
}

TEST(partition, .setup_func = use_hurried_clock, .teardown_func = use_system_clock)
{
    crew  c;
    hurry h = { .crew = &c, .awaits = { 12U, 12U, 3U, 3U } };

    crew_make(&c, 4, &(est_membership_options){ .rejoin_secs = REJOIN_SECS, .elastic = true });
    c.silence_secs = 0.6;
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 4, .source = -1, .step = -1 });
    split_network(&c);
    assert_ok(est_thread_start(&h.thread, "hurry", hurry_on, &h));
    crew_run(&c, CREW_ALL, be_parted, "was lost");
    atomic_store(&h.over, true);
    est_thread_join(&h.thread);
    crew_free(&c);
}

/* Agrees with the first, and is gone before the group is made. */
static void agree_and_go(crew_member *m)
{
    est_proposal    own  = { .number  = m->number,
                             .terms   = { .tasks = "", .options = "" },
                             .step    = -1,
                             .address = m->crew->addresses[m->number],
                             .payload = "",
                             .purpose = "train",
                             .why     = "" };
    est_link       *link = NULL;
    est_ask        *ask;
    est_message    *message = NULL;
    est_decision    agreed  = { 0 };
    est_wire_writer out     = { 0 };
    const void     *head;
    size_t          size;

    for (int i = 0; i < m->crew->n; i++) {
        const char *task = m->crew->tasks[i];

        own.terms.list = est_fingerprint_cat64(own.terms.list, est_fingerprint64(task, strlen(task)));
    }
    est_proposal_write(&own, &out);
    crew_check(m,
               est_net_connect(est_server_net(m->server), m->crew->addresses[0], m->crew->tasks[0], CREW_SECS, &link));
    if (m->error[0] == '\0') {
        crew_check(m, est_link_ask(link, EST_MEMBERSHIP_PROPOSE, "membership",
                                   (est_payload){ out.data, out.size, NULL, 0 }, CREW_SECS, NULL, NULL, &ask));
    }
    if (m->error[0] == '\0') crew_check(m, est_ask_wait(ask, &message));
    if (m->error[0] == '\0') {
        head = est_message_head(message, &size);
        crew_check(m, est_decision_read(head, size, m->crew->n, &agreed));
        if (agreed.kind != EST_DECIDED_GROUP || agreed.members.n != m->crew->n) crew_fail(m, "nothing was agreed on");
    }
    est_message_free(message);
    est_decision_clear(&agreed);
    est_wire_writer_clear(&out);
    est_link_free(link);
    crew_stop(m->crew, m->number);
}

/* The rest join again, at once, not after the time to join. */
static void agree_or_meet(crew_member *m)
{
    if (m->number == 2) {
        agree_and_go(m);
        crew_start(m->crew, m->number); /* another start takes its place */
    }
    meet_and_check(m);
}

TEST(gone_before_group)
{
    crew     c;
    expected want  = { .n = 3, .source = -1, .step = -1 };
    int64_t  start = est_now_ns();

    crew_make(&c, 3, NULL);
    crew_start(&c, 0);
    crew_start(&c, 1);
    crew_start(&c, 2);
    est_membership_free(c.members[2].membership); /* it speaks for itself */
    c.members[2].membership = NULL;
    crew_run(&c, CREW_ALL, agree_or_meet, &want);
    assert_true((double)(est_now_ns() - start) < CREW_SOON_SECS * (double)EST_NS_PER_SEC);
    crew_free(&c);
}

/* A clock that a test can put forward. */
typedef struct hasty_clock {
    est_clock            clock;
    atomic_int_least64_t ahead_ns;
} hasty_clock;

static int64_t hasty_now(void *user)
{
    return est_machine_ns() + atomic_load(&((hasty_clock *)user)->ahead_ns);
}

static void hasty_sleep(void *user, int64_t ns)
{
    struct timespec left = { .tv_sec = (time_t)(ns / EST_NS_PER_SEC), .tv_nsec = (long)(ns % EST_NS_PER_SEC) };

    (void)user;
    (void)nanosleep(&left, NULL);
}

static hasty_clock hasty = { .clock = { hasty_now, hasty_now, hasty_sleep, &hasty } };

/* Comes when the others have waited for longer than those who agreed may need to form a group. */
static void agree_late_or_meet(crew_member *m)
{
    if (m->number == 2) {
        for (int i = 0; i < 2; i++) crew_await_wait(&m->crew->members[i], "worker:2");
        atomic_fetch_add(&hasty.ahead_ns, 100 * EST_NS_PER_SEC);
    }
    agree_or_meet(m);
}

/* The first join may wait for long; a group that is not formed at once after that is tried again. */
TEST(late_before_group)
{
    crew     c;
    expected want = { .n = 3, .source = -1, .step = -1 };

    est_clock_set(&hasty.clock);
    crew_make(&c, 3, &(est_membership_options){ .connect_secs = 120, .rejoin_secs = 20 });
    for (int i = 0; i < 3; i++) crew_start(&c, i);
    est_membership_free(c.members[2].membership); /* it speaks for itself */
    c.members[2].membership = NULL;
    crew_run(&c, CREW_ALL, agree_late_or_meet, &want);
    crew_free(&c);
    est_clock_set(NULL);
}

/* The second agrees, is gone before the group is made, and stays away. When the log has said that, the limit passes. */
static void agree_or_give_up(crew_member *m)
{
    int64_t until = est_machine_ns() + (int64_t)(CREW_SECS * (double)EST_NS_PER_SEC);

    if (m->number == 0) {
        crew_expect(m, est_membership_join(m->membership, -1, "", &m->view), EST_DEADLINE_EXCEEDED, m->arg);
        return;
    }
    agree_and_go(m);
    while (!log_has("worker:0 has waited * s for worker:1 (*; gives up after 8 s") && m->error[0] == '\0') {
        if (est_machine_ns() > until) crew_fail(m, "the log does not say that worker:0 waits");
        est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    atomic_fetch_add(&hasty.ahead_ns, 8 * EST_NS_PER_SEC);
}

/* A wait for one that was in the first view is logged after a quarter of its own limit, which may be shorter than what
 * passes before the first join is logged. */
TEST(logged_after_group)
{
    crew c;

    est_clock_set(&hasty.clock);
    crew_make(&c, 2, &(est_membership_options){ .connect_secs = 120, .rejoin_secs = 8 });
    crew_start_all(&c);
    est_membership_free(c.members[1].membership); /* it speaks for itself */
    c.members[1].membership = NULL;
    log_keep(EST_LOG_INFO);
    crew_run(&c, CREW_ALL, agree_or_give_up, "did not rejoin within 8 s");
    log_release();
    crew_free(&c);
    est_clock_set(NULL);
}

/* A host that answers, and is gone as soon as it has. */
typedef struct false_host {
    crew      *c;
    atomic_int answered;
} false_host;

static bool answer_and_go(void *user, est_request *request)
{
    false_host     *h         = user;
    int             both[]    = { 0, 1 };
    uint64_t        starts[]  = { h->c->members[0].server->self.incarnation, 0 };
    char           *listens[] = { h->c->addresses[0], h->c->addresses[1] };
    est_decision    agreed    = { .kind         = EST_DECIDED_GROUP,
                                  .generation   = 1,
                                  .members      = { both, 2 },
                                  .incarnations = starts,
                                  .addresses    = listens,
                                  .source       = -1,
                                  .step         = -1,
                                  .payload      = (char[]){ "word of 0" } };
    est_link       *link      = est_link_ref(est_request_link(request));
    est_wire_writer out       = { 0 };

    starts[1] = est_link_peer(link)->incarnation;
    est_decision_write(&agreed, &out);
    est_request_answer(request, (est_payload){ out.data, out.size, NULL, 0 });
    est_link_close(link, "it goes");
    est_wire_writer_clear(&out);
    est_link_free(link);
    atomic_store(&h->answered, 1);
    return true;
}

static void lose_nothing(void *user, est_link *link, const char *why)
{
    (void)user, (void)link, (void)why;
}

static void go_or_meet(crew_member *m)
{
    if (m->number == 0) {
        false_host h = { .c = m->crew };

        est_server_extend(m->server, &(est_extension){ answer_and_go, lose_nothing, &h });
        while (atomic_load(&h.answered) == 0) est_sleep_ns(EST_NS_PER_SEC / 1000);
        crew_stop(m->crew, 0);
        crew_start(m->crew, 0);
    }
    meet_and_check(m);
}

TEST(host_gone_before_group)
{
    crew     c;
    expected want  = { .n = 2, .source = -1, .step = -1 };
    int64_t  start = est_now_ns();

    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    est_membership_free(c.members[0].membership);
    c.members[0].membership = NULL;
    crew_run(&c, CREW_ALL, go_or_meet, &want);
    assert_true((double)(est_now_ns() - start) < CREW_SOON_SECS * (double)EST_NS_PER_SEC);
    crew_free(&c);
}

/* --- two under one name ------------------------------------------------------------------------------------------- */

typedef struct twins {
    int      number; /* of the task that there are two of */
    expected want;
} twins;

static void train_with_twin(crew_member *m)
{
    twins     *t       = m->arg;
    bool       is_twin = m == &m->crew->members[m->crew->n];
    est_status status;

    if (!is_twin) {
        m->arg = "";
        count_until_aborted(m);
    }
    if (!is_twin && m->number == t->number) {
        status = est_membership_join(m->membership, 7, "", &m->view);
        crew_expect(m, status, EST_FAILED_PRECONDITION, "another process has taken");
    } else {
        m->arg = &t->want;
        meet_and_check(m);
    }
}

/* The later start has the place, and the earlier one fails; others go on with the later. */
TEST(twin)
{
    for (int number = 0; number < 3; number++) {
        crew    c;
        int64_t steps[3] = { 7, 7, 7 };
        twins   t        = { number, { steps, 3, number == 0, 7, 0 } };

        steps[number] = -1;
        crew_make(&c, 3, NULL);
        crew_start_all(&c);
        expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
        crew_start_twin(&c, number);
        crew_run(&c, CREW_ALL, train_with_twin, &t);
        crew_free(&c);
    }
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* The chief ends the job; all workers learn it, whether they wait already or join later. */
static void end_or_join(crew_member *m)
{
    if (m->number == 0) {
        crew_await_wait(&m->crew->members[1], "worker:0");
        est_membership_end_job(m->membership);
        return;
    }
    crew_check(m, est_membership_join(m->membership, 7, "", &m->view));
    if (!m->view.over) crew_fail(m, "it is not over");
}

TEST(end)
{
    crew c;

    crew_make(&c, 3, NULL);
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
    crew_run(&c, 3U, end_or_join, NULL);
    crew_run(&c, 4U, end_or_join, NULL); /* was informed, and joins later */
    crew_free(&c);
}

/* One that was lost before it had heard comes back while the chief ends the job. */
static void end_or_come_back(crew_member *m)
{
    if (m->number == 0) {
        est_membership_end_job(m->membership);
        return;
    }
    crew_await_wait(&m->crew->members[0], "all others");
    crew_start(m->crew, m->number);
    crew_check(m, est_membership_join(m->membership, -1, "", &m->view));
    if (!m->view.over) crew_fail(m, "it is not over");
}

TEST(back_after_end)
{
    int64_t start = est_now_ns();
    crew    c;

    crew_make(&c, 3, NULL);
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
    crew_stop(&c, 1);
    crew_run(&c, 3U, end_or_come_back, NULL);
    assert_true((double)(est_now_ns() - start) < CREW_SECS * (double)EST_NS_PER_SEC);
    crew_free(&c);
}

/* One that has heard is started again, for the next job: the end of this one, which the chief still tells another, is
 * not its. */
static void end_or_begin_next(crew_member *m)
{
    atomic_int *tried = m->arg;
    est_status  status;

    if (m->number != 1) {
        while (m->number == 2 && atomic_load(tried) == 0) est_sleep_ns(EST_NS_PER_SEC / 1000);
        end_or_come_back(m);
        return;
    }
    crew_check(m, est_membership_join(m->membership, 7, "", &m->view));
    if (!m->view.over) crew_fail(m, "it is not over");
    crew_stop(m->crew, 1);
    crew_start(m->crew, 1);
    status = est_membership_join(m->membership, -1, "", &m->view);
    crew_expect(m, status, EST_DEADLINE_EXCEEDED, "did not join within 3 s");
    atomic_store(tried, 1);
}

TEST(next_after_end)
{
    atomic_int tried = 0;
    crew       c;

    crew_make(&c, 3, &(est_membership_options){ .connect_secs = 3 });
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
    crew_stop(&c, 2);
    crew_run(&c, CREW_ALL, end_or_begin_next, &tried);
    crew_free(&c);
}

static bool has_come(crew_member *m, int number)
{
    int64_t until = est_now_ns() + (int64_t)(CREW_SECS * (double)EST_NS_PER_SEC);
    bool    come  = false;

    while (!come && est_now_ns() < until) {
        pthread_mutex_lock(&m->membership->lock);
        come = m->membership->members[number].request != NULL;
        pthread_mutex_unlock(&m->membership->lock);
        if (!come) est_sleep_ns(EST_NS_PER_SEC / 1000);
    }
    return come;
}

/* The last has made its last step and joins; the others, who may still be in it, keep the group. */
static void end_after_last(crew_member *m)
{
    if (m->number < 2) {
        if (!has_come(m, 2)) crew_fail(m, "the last one has not come");
        crew_check(m, est_group_status(m->view.group));
    }
    end_or_join(m);
}

TEST(last_step)
{
    crew c;

    crew_make(&c, 3, NULL);
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
    crew_run(&c, CREW_ALL, end_after_last, NULL);
    crew_free(&c);
}

/* Whoever was left with a part of the variables has none, until it gets them in another way. */
TEST(mended)
{
    const int64_t steps[] = { 5, 9 };
    crew          c;

    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    for (int i = 0; i < 2; i++) c.members[i].membership->partial = true;
    expect_view(&c, CREW_ALL, &(expected){ .steps = steps, .n = 2, .source = -1, .step = -1 });
    est_membership_reset(c.members[0].membership);
    expect_view(&c, CREW_ALL, &(expected){ .steps = steps, .n = 2, .source = 0, .step = 5 });
    crew_free(&c);
}

/* One that was not of the job has come for the next one, and is not told that this has ended. */
static void come_early(crew_member *m)
{
    crew_expect(m, est_membership_join(m->membership, -1, "", &m->view), EST_DEADLINE_EXCEEDED,
                "did not join within 0.5 s");
}

TEST(next_job)
{
    crew c;

    crew_make(&c, 3, &(est_membership_options){ .connect_secs = 0.5 });
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &(expected){ .n = 3, .source = -1, .step = -1 });
    crew_run(&c, 3U, end_or_join, NULL);
    crew_stop(&c, 2);
    crew_start(&c, 2);
    crew_run(&c, 4U, come_early, NULL);
    crew_free(&c);
}

/* A task that is at another job already, or still, is waited for. */
TEST(purpose)
{
    crew c;

    crew_make(&c, 2, &(est_membership_options){ .connect_secs = 0.5, .purpose = "train" });
    crew_start(&c, 0);
    c.options.purpose = "evaluate";
    crew_start(&c, 1);
    crew_run(&c, CREW_ALL, come_early, NULL);
    crew_stop(&c, 0);
    crew_start(&c, 0);
    crew_stop(&c, 1);
    crew_start(&c, 1);
    expect_view(&c, CREW_ALL, &(expected){ .n = 2, .source = -1, .step = -1 });
    crew_free(&c);
}

/* The second of two has other terms, or another list, and comes first or last. */
typedef struct odd_one {
    bool        first;
    const char *terms;
    int         n; /* tasks of its list */
    const char *text;
    expected    want;
} odd_one;

#define RIGHT_TERMS "max_steps=100\nelastic=no\n"

/* A worker with wrong terms is refused, and joins with right ones; the other has waited all the while. */
static void meet_odd_one(crew_member *m)
{
    const odd_one *x     = m->arg;
    bool           wrong = m->number == 1;
    crew          *c     = m->crew;

    if (wrong != x->first) crew_await_wait(&c->members[1 - m->number], "worker:");
    if (wrong) {
        c->options.terms = x->terms;
        c->options.n     = x->n;
        crew_start(c, m->number);
        crew_expect(m, est_membership_join(m->membership, -1, "", &m->view), EST_FAILED_PRECONDITION, x->text);
        crew_stop(c, m->number);
        c->options.terms = RIGHT_TERMS;
        c->options.n     = 2;
        crew_start(c, m->number);
    }
    m->arg = (void *)(uintptr_t)&x->want;
    meet_and_check(m);
}

TEST(terms)
{
    static const char lists[] =
        "worker:0 belongs to a job of 2 tasks, worker:0 to worker:1, and worker:1 to one of 3 tasks";
    static const odd_one ones[] = {
        { false, "max_steps=50\nelastic=no\n", 2, "max_steps is 100 at worker:0 and 50 at worker:1: all workers need" },
        { true, "max_steps=100\nelastic=yes\n", 2, "elastic is no at worker:0 and yes at worker:1" },
        { false, RIGHT_TERMS, 3, lists },
        { true, RIGHT_TERMS, 3, lists },
    };

    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        crew    c;
        odd_one x = ones[i];

        x.want = (expected){ .n = 2, .source = -1, .step = -1 };
        crew_make(&c, 3, &(est_membership_options){ .terms = RIGHT_TERMS });
        c.options.n = 2;
        crew_start(&c, 0);
        crew_run(&c, 3U, meet_odd_one, &x);
        crew_free(&c);
    }
}

/* One that no list but its own has is refused, and those who wait or train do not notice. */
static void be_refused(crew_member *m)
{
    crew_expect(m, est_membership_join(m->membership, 9, "", &m->view), EST_FAILED_PRECONDITION, m->arg);
}

static void count_one(crew_member *m)
{
    float sum = 0;

    crew_check(m, crew_count(m, &sum));
    if (sum != 2) crew_fail(m, "the sum of 2 ones is %g", (double)sum);
}

/* A job that runs goes on, whoever comes: also worker:0. */
TEST(wrong_newcomer)
{
    crew c;

    crew_make(&c, 3, &(est_membership_options){ .terms = "max_steps=100\n" });
    c.options.n = 2;
    crew_start(&c, 0);
    crew_start(&c, 1);
    expect_view(&c, 3U, &(expected){ .n = 2, .source = -1, .step = -1 });
    c.options.n = 3;
    crew_start(&c, 2);
    crew_run(&c, 4U, be_refused, "to a job of 2 tasks, worker:0 to worker:1, and worker:2 to one of 3 tasks");
    crew_run(&c, 3U, count_one, NULL);
    crew_stop(&c, 2);
    crew_stop(&c, 0);
    c.options.n     = 2;
    c.options.terms = "max_steps=50\n";
    crew_start(&c, 0);
    crew_run(&c, 1U, be_refused, "max_steps is 100 at worker:1 and 50 at worker:0");
    crew_stop(&c, 0);
    c.options.terms = "max_steps=100\n";
    crew_start(&c, 0);
    expect_view(&c, 3U,
                &(expected){ .steps = (const int64_t[]){ -1, 8 }, .n = 2, .source = 1, .step = 8, .generation = 2 });
    crew_free(&c);
}

static bool is_over(void *user)
{
    atomic_int *asked = user;

    return atomic_fetch_add(asked, 1) > 0;
}

static void find_over(crew_member *m)
{
    crew_check(m, est_membership_join(m->membership, -1, "", &m->view));
    if (!m->view.over) crew_fail(m, "it is not over");
}

/* A task that joins alone finds out by itself, when it is told so twice: whoever has ended the job may be about to say
 * so. */
TEST(over)
{
    crew       c;
    atomic_int asked = 0;

    crew_make(&c, 2, &(est_membership_options){ .over = is_over, .user = &asked });
    crew_start(&c, 1);
    crew_run(&c, 2U, find_over, NULL);
    assert_int_equal(atomic_load(&asked), 3);
    crew_free(&c);
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

static void meet_nobody(crew_member *m)
{
    est_status status = est_membership_join(m->membership, -1, "", &m->view);

    crew_expect(m, status, EST_DEADLINE_EXCEEDED, m->arg);
}

/* The first join fails on all present workers, and says who did not; the log has said so before, after a quarter of the
 * time and twice that. */
TEST(deadline)
{
    crew c;
    char told[192], missing[96];

    crew_make(&c, 3, &(est_membership_options){ .connect_secs = 1 });
    crew_start(&c, 1);
    crew_start(&c, 2);
    snprintf(told, sizeof told,
             "worker:1 has waited * s for worker:0 (%s): to join (train); worker:0: Connection refused; gives up",
             c.addresses[0]);
    snprintf(missing, sizeof missing, "worker:0 (%s) did not join within 1 s", c.addresses[0]);
    log_keep(EST_LOG_INFO);
    crew_run(&c, 6U, meet_nobody, missing);
    log_release();
    assert_int_equal(log_count(EST_LOG_OFF, told), 2);
    crew_free(&c);
}

/* The reasons of the last line are those of the last attempts, and when it ends is said, too. */
TEST(unreached)
{
    crew c;
    char told[192];

    crew_make(&c, 2, &(est_membership_options){ .connect_secs = 0.5, .purpose = "evaluate" });
    crew_start(&c, 0);
    snprintf(told, sizeof told,
             "worker:0 has waited 0 s for worker:1 (%s): to join (evaluate); "
             "worker:1: Connection refused; gives up after 0.5 s",
             c.addresses[1]);
    log_keep(EST_LOG_INFO);
    crew_run(&c, 1U, meet_nobody, "did not join within 0.5 s");
    log_release();
    log_expect(told);
    crew_free(&c);
}

/* One who fails says why: to those who train with it, in the view of those who wait for it, and when all have come
 * again no more. */
static void fail_or_wait(crew_member *m)
{
    static const char why[] = "to join (train); worker:1: it ended: NOT_FOUND: no file matches x";
    int64_t           until = est_now_ns() + (int64_t)(CREW_SECS * (double)EST_NS_PER_SEC);
    float             sum;
    est_status        status = EST_OK;

    if (m->number == 0) {
        while (status == EST_OK) status = crew_count(m, &sum);
        crew_expect(m, status, EST_ABORTED, "rank 1 (worker:1) aborted: it ended: NOT_FOUND: no file matches x");
        meet_and_check(m);
        return;
    }
    est_membership_fail(m->membership, est_fail(EST_NOT_FOUND, "no file matches x"));
    crew_stop(m->crew, m->number);
    for (bool found = false; !found && m->error[0] == '\0'; est_sleep_ns(EST_NS_PER_SEC / 1000)) {
        est_wait waits[EST_WAITS_MAX];
        int      n = est_waits_of(m->crew->tasks[0], waits, EST_WAITS_MAX);

        for (int i = 0; i < n; i++) found = found || strcmp(waits[i].why, why) == 0;
        if (est_now_ns() > until) crew_fail(m, "the view does not say why");
    }
    crew_start(m->crew, m->number);
    meet_and_check(m);
}

TEST(farewell)
{
    crew     c;
    expected x = { .n = 2, .source = -1, .step = -1 };

    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    expect_view(&c, CREW_ALL, &x);
    crew_run(&c, CREW_ALL, fail_or_wait, &x);
    crew_free(&c);
}

static void meet_and_be_stopped(crew_member *m)
{
    if (m->number == 1) {
        crew_await_wait(&m->crew->members[0], "worker:1");
        if (kill(getpid(), SIGTERM) != 0) crew_fail(m, "no signal");
    } else {
        est_status status = est_membership_join(m->membership, -1, "", &m->view);

        crew_expect(m, status, EST_CANCELLED, "SIGTERM while waiting for worker:1 (127.0.0.1:");
    }
}

TEST(signal)
{
    crew c;

    crew_make(&c, 2, NULL);
    crew_start(&c, 0);
    est_signals_catch();
    crew_run(&c, CREW_ALL, meet_and_be_stopped, NULL);
    est_signals_release(EST_CANCELLED);
    crew_free(&c);
}

TEST(options)
{
    crew            c;
    est_membership *e = NULL;

    crew_make(&c, 2, NULL);
    crew_start(&c, 0);
    c.options.tasks = c.list;
    c.options.self  = 1;
    assert_int_equal(est_membership_create(c.members[0].server, &c.options, &e), EST_INVALID_ARGUMENT);
    c.options.self = 2;
    assert_int_equal(est_membership_create(c.members[0].server, &c.options, &e), EST_INVALID_ARGUMENT);
    crew_free(&c);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Joins, and makes sure that the others have joined: one may fail when the group is complete. */
static est_status meet_and_wait(crew_member *m)
{
    est_work *work;

    EST_TRY(est_membership_join(m->membership, 7, "", &m->view));
    EST_TRY(est_barrier(m->view.group, NULL, &work));
    return est_work_wait(work);
}

/* One who fails says why, and joins the next time; the others learn of it and join again. */
static void meet_at_last(crew_member *m)
{
    est_status status = EST_ABORTED;

    for (int tries = 0; tries < 6 && (status == EST_RESOURCE_EXHAUSTED || status == EST_ABORTED); tries++)
        status = meet_and_wait(m);
    crew_check(m, status);
}

/* Every allocation fails once while two join: they do, at the latest the next time. */
TEST(no_memory)
{
    crew c;

    crew_make(&c, 2, NULL);
    crew_start_all(&c);
    crew_run(&c, CREW_ALL, meet_at_last, NULL);
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 19) {
        fault_arm(&f);
        crew_run(&c, CREW_ALL, meet_at_last, NULL);
        fault_end(&f);
        assert_true(c.members[0].view.n == 2 && c.members[0].view.generation == c.members[1].view.generation);
    }
    crew_free(&c);
}

int main(void)
{
    return est_test_run_apart(NULL, NULL);
}
