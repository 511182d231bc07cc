/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership: create, join, leave, end.
 *
 * A join sends this task's proposal to all others and waits until one of them, or this task itself, knows the decision.
 * The other half runs in the network thread (membership_requests.c). A decision counts once its group is complete; when
 * that fails because a member is lost, the next round begins. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "cluster/wait_table.h"
#include "collective/membership_internal.h"

#define CONNECT_SECS  7200.0
#define REJOIN_SECS   600.0
#define JOIN_SECS     60.0  /* limit for forming the group of a decision */
#define DEADLINE_SECS 600.0 /* of an operation */
#define END_SECS      30.0  /* limit for informing the others that the job is over */
#define SLICE_NS      (EST_NS_PER_SEC / 10)
#define OVER_NS       EST_NS_PER_SEC /* between two calls of est_membership_options.over */
#define TRY_SECS      0.1            /* to connect to one task before the next is tried; grows to */
#define TRY_SECS_MAX  2.0
#define REASONS_MAX   3                    /* reasons for missing tasks in a line of the log */
#define AGAIN_NS      (EST_NS_PER_SEC / 5) /* before the same task is tried again */

/* --- create and leave --------------------------------------------------------------------------------------------- */

static est_status make_terms(est_membership *m, const est_membership_options *o)
{
    est_terms  terms  = { .options = est_strdup(o->terms != NULL ? o->terms : "") };
    est_strbuf tasks  = { 0 };
    est_status status = EST_OK;

    for (int i = 0; i < o->n; i++) {
        terms.list = est_fingerprint_cat64(terms.list, est_fingerprint64(o->tasks[i].task, strlen(o->tasks[i].task)));
    }
    est_strbuf_printf(&tasks, "%d task%s, %s", o->n, o->n > 1 ? "s" : "", o->tasks[0].task);
    if (o->n > 1) est_strbuf_printf(&tasks, " to %s", o->tasks[o->n - 1].task);
    status = est_strbuf_take(&tasks, &terms.tasks);
    if (status == EST_OK && terms.options == NULL) status = est_no_memory();
    if (status != EST_OK) est_terms_clear(&terms);
    m->terms = terms;
    return status;
}

static est_status copy_tasks(est_membership *m, const est_membership_options *o)
{
    m->tasks      = est_zalloc(sizeof *m->tasks * (size_t)o->n);
    m->members    = est_zalloc(sizeof *m->members * (size_t)o->n);
    m->candidates = est_zalloc(sizeof *m->candidates * (size_t)o->n);
    for (int i = 0; i < o->n && m->tasks != NULL && m->members != NULL && m->candidates != NULL; i++) {
        m->tasks[i].task    = est_strdup(o->tasks[i].task);
        m->tasks[i].address = est_strdup(o->tasks[i].address);
        if (m->tasks[i].task == NULL || m->tasks[i].address == NULL) break;
        if (i + 1 == o->n) return EST_OK;
    }
    return est_no_memory();
}

static est_status check_options(const est_server *server, const est_membership_options *o)
{
    if (o->n < 1 || o->self < 0 || o->self >= o->n)
        return est_fail(EST_INVALID_ARGUMENT, "task %d of a membership of %d tasks", o->self, o->n);
    for (int i = 0; i < o->n; i++) {
        if (strlen(o->tasks[i].task) >= EST_NET_NAME_MAX)
            return est_fail(EST_INVALID_ARGUMENT, "the name of task %d is too long: %s", i, o->tasks[i].task);
    }
    if (strcmp(o->tasks[o->self].task, server->task) != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "task %d of the membership is %s, but the server is %s", o->self,
                        o->tasks[o->self].task, server->task);
    }
    return EST_OK;
}

static void free_membership(est_membership *m)
{
    est_mailbox_free(m->mailbox);
    est_membership_free_slots(m);
    for (int i = 0; i < m->options.n && m->members != NULL; i++) est_proposal_clear(&m->members[i].proposal);
    for (int i = 0; i < m->options.n && m->tasks != NULL; i++) {
        est_free((char *)(uintptr_t)m->tasks[i].task);
        est_free((char *)(uintptr_t)m->tasks[i].address);
    }
    est_terms_clear(&m->terms);
    est_decision_clear(&m->agreed);
    est_decision_clear(&m->decision);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
    est_free(m->tasks);
    est_free(m->members);
    est_free(m->candidates);
    est_free(m);
}

static est_device_sum sums_of(const est_membership_options *o)
{
    double secs = o->deadline_secs > 0 ? o->deadline_secs : o->deadline_secs < 0 ? 0 : DEADLINE_SECS;

    return (est_device_sum){ .device      = o->device != NULL && o->device->sums != NULL ? o->device : NULL,
                             .required    = o->communication == EST_COMMUNICATION_NCCL,
                             .open_ns     = est_secs_to_ns(secs > 0 ? fmin(JOIN_SECS, secs / 2) : JOIN_SECS),
                             .deadline_ns = est_secs_to_ns(secs) };
}

est_status est_membership_create(est_server *server, const est_membership_options *options, est_membership **out)
{
    est_membership *m;
    est_status      status;

    EST_TRY(check_options(server, options));
    m = est_zalloc(sizeof *m);
    if (m == NULL) return est_no_memory();
    m->server  = server;
    m->options = *options;
    if (m->options.purpose == NULL) m->options.purpose = "train";
    if (m->options.connect_secs == 0) m->options.connect_secs = CONNECT_SECS;
    if (m->options.rejoin_secs == 0) m->options.rejoin_secs = REJOIN_SECS;
    status = est_lock_init(&m->lock);
    if (status == EST_OK) status = est_cond_init(&m->changed);
    if (status == EST_OK) status = copy_tasks(m, options);
    if (status == EST_OK) status = make_terms(m, options);
    if (status == EST_OK) status = est_mailbox_create(&m->mailbox);
    if (status != EST_OK) {
        free_membership(m);
        return status;
    }
    m->options.tasks = m->tasks;
    m->device_sum    = sums_of(options);
    m->communicator  = (est_communicator){ .ops            = &est_membership_communicator_ops,
                                           .bytes_per_pack = options->bytes_per_pack };
    est_server_extend(server, &(est_extension){ est_membership_serve, est_membership_lost, m });
    *out = m;
    return EST_OK;
}

/* Closes all links and fails all requests. The lock is held. */
static void withdraw(est_membership *m, const char *why)
{
    m->state = EST_MEMBERSHIP_IDLE;
    m->round++;
    for (int i = 0; i < m->options.n; i++) {
        est_member_drop_request(&m->members[i], why);
        est_member_close(&m->members[i], why);
    }
}

static void leave_group(est_membership *m)
{
    est_device_sum_leave(&m->device_sum, m->group);
    est_group_free(m->group);
    m->group = NULL;
}

void est_membership_free(est_membership *m)
{
    if (m == NULL) return;
    leave_group(m);
    est_server_extend(m->server, NULL);
    pthread_mutex_lock(&m->lock);
    withdraw(m, m->leave_reason[0] != '\0' ? m->leave_reason : EST_GOODBYE);
    while (m->n_asks > 0) pthread_cond_wait(&m->changed, &m->lock); /* their links are closed, so they end */
    pthread_mutex_unlock(&m->lock);
    free_membership(m);
}

/* The others may still complete the step that this task has contributed to, so a task that was only stopped does not
 * abort. */
void est_membership_fail(est_membership *m, est_status status)
{
    snprintf(m->leave_reason, sizeof m->leave_reason, EST_ENDED "%s: %s", est_status_name(status), est_error_message());
    if (m->group != NULL && status != EST_CANCELLED) est_group_abort(m->group, m->leave_reason);
}

est_communicator *est_membership_communicator(est_membership *m)
{
    return &m->communicator;
}

const char *est_membership_payload(const est_membership *m)
{
    return m->agreed.payload != NULL ? m->agreed.payload : "";
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* A join that waits. The lock is held throughout, and released where a comment says so. */
typedef struct waiting {
    int64_t     agreed_ns;         /* of the first decision on a group; 0: none yet */
    int64_t     since_ns, over_ns; /* over_ns: when options.over was last called, */
    bool        over;              /* and its result */
    est_waiting log;               /* of the round */
    est_waiting wait;              /* for the status view */
    est_strbuf  names;             /* of the awaited tasks, */
    est_strbuf  why;               /* and the reason, as in the status view */
    double      try_secs;          /* to connect to a task */
    int         next;              /* task to connect to */
} waiting;

static est_round this_round(est_membership *m)
{
    int64_t now = est_now_ns();

    for (int i = 0; i < m->options.n; i++) {
        const est_member *member = &m->members[i];
        bool              here   = i == m->options.self || member->request != NULL;

        m->candidates[i] = (est_candidate){ .proposal    = here ? &member->proposal : NULL,
                                            .incarnation = member->incarnation,
                                            .away_ns = now - (member->link != NULL ? m->since_ns : member->lost_ns) };
    }
    m->candidates[m->options.self].incarnation = m->server->self.incarnation;
    return (est_round){ .tasks        = m->tasks,
                        .candidates   = m->candidates,
                        .n            = m->options.n,
                        .self         = m->options.self,
                        .connect_secs = m->options.connect_secs,
                        .rejoin_secs  = m->options.rejoin_secs,
                        .elastic      = m->options.elastic };
}

/* The tasks that are waited for: the missing ones or, when all are present, the decider. */
static void name_awaited(est_membership *m, est_strbuf *out)
{
    est_round a       = this_round(m);
    int       decider = est_round_decider(&a);
    bool      none    = true;

    for (int i = 0; i < m->options.n; i++) {
        if (!est_round_awaits(&a, i)) continue;
        est_strbuf_printf(out, "%s%s (%s)", none ? "" : ", ", m->tasks[i].task, m->tasks[i].address);
        none = false;
    }
    if (none && decider != m->options.self)
        est_strbuf_printf(out, "%s (%s)", m->tasks[decider].task, m->tasks[decider].address);
}

/* What this task waits for, and why the first missing tasks are missing; failed_only: only of tasks that said why. */
static void describe_wait(est_membership *m, bool failed_only, est_strbuf *out)
{
    est_round a = this_round(m);
    int       n = 0;

    est_strbuf_printf(out, "to join (%s)", m->options.purpose);
    for (int i = 0; i < m->options.n && n < REASONS_MAX; i++) {
        const est_member *member = &m->members[i];

        if (!est_round_awaits(&a, i) || member->why[0] == '\0' || (failed_only && !member->failed)) continue;
        est_strbuf_printf(out, "; %s: %s", m->tasks[i].task, member->why);
        n++;
    }
}

static double limit_of(const est_membership *m)
{
    double secs = m->agreed.generation == 0 ? m->options.connect_secs : m->options.rejoin_secs;

    return secs == EST_FOREVER ? INFINITY : secs;
}

/* Keeps the status view up to date. */
static void show_wait(est_membership *m, waiting *w)
{
    est_strbuf names = { 0 }, why = { 0 };

    name_awaited(m, &names);
    describe_wait(m, true, &why);
    if (w->wait.place < 0 || strcmp(est_strbuf_text(&names), est_strbuf_text(&w->names)) != 0 ||
        strcmp(est_strbuf_text(&why), est_strbuf_text(&w->why)) != 0) {
        est_wait_end(&w->wait);
        w->wait = est_wait_begin(m->server->task, est_strbuf_text(&names), est_strbuf_text(&why), limit_of(m));
        est_strbuf_clear(&w->names);
        est_strbuf_clear(&w->why);
        w->names = names;
        w->why   = why;
    } else {
        est_strbuf_clear(&names);
        est_strbuf_clear(&why);
    }
}

/* Logs the awaited tasks, the reasons, and the time left. */
static void report_wait(est_membership *m, waiting *w)
{
    est_strbuf why = { 0 };

    if (!est_wait_is_due(&w->log)) return;
    describe_wait(m, false, &why);
    w->log.for_whom   = est_strbuf_text(&w->names);
    w->log.why        = est_strbuf_text(&why);
    w->log.limit_secs = limit_of(m);
    w->log.then       = m->agreed.generation > 0 && m->options.elastic ? "goes on" : "gives up";
    est_wait_report(&w->log, "");
    est_strbuf_clear(&why);
}

/* Calls options.over, without the lock. Only the second `true` counts: a chief that has just ended the job and can
 * reach this task is about to inform it, and would wait for a task that had left before. */
static void ask_over(est_membership *m, waiting *w)
{
    int64_t now = est_now_ns();
    bool    over;

    if (m->options.over == NULL || now - w->over_ns < OVER_NS) return;
    w->over_ns = now;
    pthread_mutex_unlock(&m->lock);
    over = m->options.over(m->options.user);
    pthread_mutex_lock(&m->lock);
    m->over = m->over || (over && w->over);
    w->over = over;
}

/* Whether to keep waiting; reports now and then. May release the lock. */
static est_status keep_waiting(est_membership *m, waiting *w)
{
    const est_membership_options *o    = &m->options;
    double                        secs = (double)(est_now_ns() - w->since_ns) / (double)EST_NS_PER_SEC;

    show_wait(m, w);
    if (est_stop_signal() != 0)
        return est_fail(EST_CANCELLED, "%s while waiting for %s", est_stop_signal_name(), est_strbuf_text(&w->names));
    /* A decider decides within one of the two limits. After more than both, it is stuck. */
    if (o->connect_secs != EST_FOREVER && o->rejoin_secs != EST_FOREVER &&
        secs > o->connect_secs + 2 * o->rejoin_secs) {
        return est_fail(EST_DEADLINE_EXCEEDED, "waited %.0f s for %s to join (%s)", secs, est_strbuf_text(&w->names),
                        o->purpose);
    }
    report_wait(m, w);
    ask_over(m, w);
    return EST_OK;
}

static waiting begin_waiting(const est_membership *m)
{
    return (waiting){ .since_ns = est_now_ns(),
                      .over_ns  = est_now_ns(),
                      .log      = est_wait_make(m->server->task, "", "", limit_of(m)),
                      .wait     = { .place = -1 },
                      .try_secs = TRY_SECS };
}

/* For the next round: after the first view there is another limit, and another time after which a wait is logged. */
static void renew_log(const est_membership *m, waiting *w)
{
    bool reported = w->log.reported;

    w->log          = est_wait_make(m->server->task, "", "", limit_of(m));
    w->log.reported = reported;
}

static void end_waiting(waiting *w)
{
    est_wait_end(&w->wait);
    est_strbuf_clear(&w->names);
    est_strbuf_clear(&w->why);
}

/* --- links -------------------------------------------------------------------------------------------------------- */

/* Sends the proposal to every linked task that has not got it. */
static est_status send_proposals(est_membership *m)
{
    for (int i = 0; i < m->options.n; i++) {
        est_member *member = &m->members[i];
        est_status  status;

        if (member->link == NULL || member->proposed || member->try_ns > est_now_ns()) continue;
        status = est_membership_send(m, i, EST_MEMBERSHIP_PROPOSE);
        if (status == EST_RESOURCE_EXHAUSTED) return status;
        member->proposed = status == EST_OK;
        member->try_ns   = est_now_ns() + AGAIN_NS; /* a failed send means a lost link, which is reported soon */
    }
    return EST_OK;
}

/* The next task to connect to; -1: none for now. */
static int find_unlinked(const est_membership *m, int first)
{
    for (int k = 0; k < m->options.n; k++) {
        int i = (first + k) % m->options.n;

        if (i != m->options.self && m->members[i].link == NULL && m->members[i].try_ns <= est_now_ns()) return i;
    }
    return -1;
}

/* Records why a task could not be reached, without its name and the time of an attempt, which the reader knows. A
 * reason that the task gave itself is kept. */
static void record_unreached(est_membership *m, int number)
{
    static const char within[] = " s: ";
    est_member       *member   = &m->members[number];
    const char       *why      = est_error_message(), *reason;

    if (member->failed) return;
    reason = strstr(why, "not reached within ");
    if (reason != NULL) reason = strstr(reason, within);
    snprintf(member->why, sizeof member->why, "%s", reason != NULL ? reason + strlen(within) : why);
}

/* Tries, without the lock, to connect to the next task without a link; *tried false: there is none. */
static est_status connect_next(est_membership *m, waiting *w, bool *tried)
{
    int        i    = find_unlinked(m, w->next);
    est_link  *link = NULL;
    est_status status;

    *tried = i >= 0;
    if (i < 0) return EST_OK;
    w->next = i + 1;
    pthread_mutex_unlock(&m->lock);
    status = est_net_connect(est_server_net(m->server), m->tasks[i].address, m->tasks[i].task, w->try_secs, &link);
    pthread_mutex_lock(&m->lock);
    if (status == EST_OK) {
        if (!est_member_take_link(&m->members[i], link)) est_link_close(link, EST_SPARE);
        est_link_free(link);
        return EST_OK;
    }
    if (status == EST_CANCELLED || status == EST_RESOURCE_EXHAUSTED) return status;
    record_unreached(m, i);
    m->members[i].try_ns = est_now_ns() + AGAIN_NS;
    w->try_secs          = w->try_secs * 1.5 < TRY_SECS_MAX ? w->try_secs * 1.5 : TRY_SECS_MAX;
    return EST_OK;
}

/* --- join --------------------------------------------------------------------------------------------------------- */

/* Begins a round: makes this task's proposal. */
static est_status propose(est_membership *m, int64_t step, const char *payload, const char *why)
{
    est_proposal own = { .number     = m->options.self,
                         .step       = m->partial ? -1 : step,
                         .generation = m->agreed.generation,
                         .sums       = m->device_sum.device != NULL,
                         .address    = est_strdup(m->tasks[m->options.self].address),
                         .payload    = est_strdup(m->agreed.payload != NULL ? m->agreed.payload : payload),
                         .purpose    = est_strdup(m->options.purpose),
                         .why        = est_strdup(why) };

    own.members.data = est_alloc(sizeof *own.members.data * (size_t)m->options.n);
    if (est_terms_copy(&m->terms, &own.terms) != EST_OK || own.address == NULL || own.payload == NULL ||
        own.purpose == NULL || own.why == NULL || own.members.data == NULL) {
        est_proposal_clear(&own);
        return est_no_memory();
    }
    own.members.n = m->agreed.members.n;
    if (own.members.n > 0)
        memcpy(own.members.data, m->agreed.members.data, sizeof *own.members.data * (size_t)own.members.n);
    est_proposal_clear(&m->members[m->options.self].proposal);
    m->members[m->options.self].proposal = own;
    m->state                             = EST_MEMBERSHIP_JOINING;
    m->since_ns                          = est_now_ns();
    est_decision_clear(&m->decision);
    for (int i = 0; i < m->options.n; i++) {
        est_member *member = &m->members[i];

        member->proposed = false;
        member->try_ns   = 0;
        if (m->round == 0 && member->link == NULL) member->lost_ns = m->since_ns;
    }
    m->round++;
    return EST_OK;
}

/* Waits for the decision of the round. *decided: this task has made it. */
static est_status await_decision(est_membership *m, waiting *w, bool *decided)
{
    bool tried;

    *decided = false;
    while (m->decision.kind == 0) {
        est_round a = this_round(m);

        if (m->over) {
            m->decision.kind = EST_DECIDED_OVER;
            break;
        }
        EST_TRY(est_round_decide(&a, decided, &m->decision));
        if (*decided) break;
        EST_TRY(send_proposals(m));
        EST_TRY(keep_waiting(m, w));
        if (m->decision.kind != 0 || m->over) continue;
        EST_TRY(connect_next(m, w, &tried));
        if (!tried) est_cond_wait_ns(&m->changed, &m->lock, SLICE_NS);
    }
    return EST_OK;
}

/* Tells a task that has this task's proposal, and is not in the view, not to count on it. */
static est_status send_exclude(est_membership *m, int number, est_status before)
{
    est_status status = est_membership_send(m, number, EST_MEMBERSHIP_EXCLUDE);

    m->members[number].proposed = false;
    return before == EST_OK && status == EST_RESOURCE_EXHAUSTED ? status : before; /* else its link is lost */
}

/* Applies the decision of the round, and relays it to the tasks that have proposed. */
static est_status apply_decision(est_membership *m, bool decided)
{
    est_decision decision = m->decision;
    est_status   status   = EST_OK;

    m->decision = (est_decision){ 0 };
    if (decision.kind == EST_DECIDED_GROUP) {
        est_decision_clear(&m->agreed);
        m->agreed = decision;
        m->state  = EST_MEMBERSHIP_FORMING;
        for (int i = 0; i < m->options.n; i++) {
            est_member *member = &m->members[i];

            bool is_member = est_decision_rank(&decision, i, member->incarnation) >= 0;

            member->active = member->active || is_member;
            if (!is_member && member->proposed) status = send_exclude(m, i, status);
            if (member->request == NULL) continue;
            if (is_member) {
                est_member_answer(member, &decision);
            } else {
                est_membership_end_group(m, i);
            }
        }
        return status;
    }
    for (int i = 0; i < m->options.n; i++) { /* a refusal by another task is for this task alone */
        if (decided || decision.kind == EST_DECIDED_OVER) est_member_answer(&m->members[i], &decision);
    }
    m->state = EST_MEMBERSHIP_IDLE;
    m->over  = m->over || decision.kind == EST_DECIDED_OVER;
    if (decision.kind == EST_DECIDED_REFUSAL) status = est_fail(decision.status, "%s", decision.text);
    est_decision_clear(&decision);
    return status;
}

/* Forms the group of the decision; without the lock. */
static est_status form_group(est_membership *m)
{
    const est_decision *a       = &m->agreed;
    est_rank           *ranks   = est_zalloc(sizeof *ranks * (size_t)a->members.n);
    est_group_options   options = { .ranks         = ranks,
                                    .n             = a->members.n,
                                    .rank          = est_decision_rank(a, m->options.self, m->server->self.incarnation),
                                    .generation    = a->generation,
                                    .join_secs     = JOIN_SECS,
                                    .deadline_secs = m->options.deadline_secs,
                                    .communication = m->options.communication != EST_COMMUNICATION_NCCL
                                                         ? m->options.communication
                                                         : EST_COMMUNICATION_AUTO };
    est_status          status;

    if (ranks == NULL) return est_no_memory();
    for (int i = 0; i < a->members.n; i++) {
        ranks[i] = (est_rank){ m->tasks[a->members.data[i]].task, a->addresses[i], a->incarnations[i] };
    }
    status = est_group_create(m->mailbox, est_server_net(m->server), &options, &m->group);
    est_free(ranks);
    return status;
}

/* Whether another round may succeed where this group could not be formed. Time before the first decision does not
 * count. */
static bool may_try_again(const est_membership *m, const waiting *w, est_status status)
{
    double secs = (double)(est_now_ns() - w->agreed_ns) / (double)EST_NS_PER_SEC;

    if (status != EST_ABORTED && status != EST_UNAVAILABLE && status != EST_DEADLINE_EXCEEDED &&
        status != EST_FAILED_PRECONDITION) {
        return false;
    }
    return m->options.rejoin_secs == EST_FOREVER || secs <= m->options.rejoin_secs + JOIN_SECS;
}

/* One round and its group. *again: the group could not be formed. */
static est_status join_once(est_membership *m, waiting *w, bool *again)
{
    bool       decided;
    est_status status = await_decision(m, w, &decided);

    *again = false;
    EST_TRY(status);
    EST_TRY(apply_decision(m, decided));
    if (m->state != EST_MEMBERSHIP_FORMING) return EST_OK; /* the job is over */
    if (w->agreed_ns == 0) w->agreed_ns = est_now_ns();
    pthread_mutex_unlock(&m->lock);
    est_wait_end(&w->wait);
    w->wait = est_wait_begin(m->server->task, "all others", "to form a group", JOIN_SECS);
    status  = form_group(m);
    est_wait_end(&w->wait);
    w->wait.place = -1;
    pthread_mutex_lock(&m->lock);
    if (status == EST_OK) {
        m->state           = EST_MEMBERSHIP_JOINED;
        m->device_sum.asks = m->options.device_sums && (m->device_sum.required || m->agreed.sums);
        return EST_OK;
    }
    m->state = EST_MEMBERSHIP_IDLE;
    *again   = may_try_again(m, w, status);
    if (!*again) return est_fail_context(status, "generation %" PRIu64 " of %s", m->agreed.generation, m->server->task);
    est_log_info("%s: generation %" PRIu64 " was not formed: %s", m->server->task, m->agreed.generation,
                 est_error_message());
    return EST_OK;
}

static void fill_view(est_membership *m, est_membership_view *out)
{
    const est_decision *a                             = &m->agreed;
    char                source[EST_NET_NAME_MAX + 48] = "no variables yet";

    *out                 = (est_membership_view){ .generation   = a->generation,
                                                  .n            = a->members.n,
                                                  .rank         = est_group_rank(m->group),
                                                  .tasks        = a->members.data,
                                                  .source       = a->source,
                                                  .step         = a->step,
                                                  .group        = m->group,
                                                  .communicator = &m->communicator };
    m->communicator.n    = out->n;
    m->communicator.rank = out->rank;
    if (a->source >= 0) {
        snprintf(source, sizeof source, "step %" PRId64 " of %s", a->step, m->tasks[a->members.data[a->source]].task);
    }
    if (strcmp(m->options.purpose, "train") == 0) {
        est_log_info("%s: generation %" PRIu64 ", rank %d of %d, %s", m->server->task, out->generation, out->rank,
                     out->n, source);
    } else { /* the step is not a training step */
        est_log_info("%s: %s: generation %" PRIu64 ", rank %d of %d", m->server->task, m->options.purpose,
                     out->generation, out->rank, out->n);
    }
}

est_status est_membership_join(est_membership *m, int64_t step, const char *payload, est_membership_view *out)
{
    waiting    w;
    est_error  error;
    bool       again, over;
    int64_t    pause = SLICE_NS / 4;
    est_status status;
    char       why[320] = ""; /* why the last group failed */

    if (m->group != NULL && est_group_status(m->group) != EST_OK) snprintf(why, sizeof why, "%s", est_error_message());
    leave_group(m);
    pthread_mutex_lock(&m->lock);
    w = begin_waiting(m);
    do {
        again  = false;
        status = propose(m, step, payload, why);
        if (status == EST_OK) status = join_once(m, &w, &again);
        if (again) {
            snprintf(why, sizeof why, "%s", est_error_message());
            est_cond_wait_ns(&m->changed, &m->lock, pause); /* an immediate failure may repeat */
            if (pause < EST_NS_PER_SEC) pause *= 2;
            renew_log(m, &w);
        }
    } while (again);
    if (status != EST_OK) {
        est_error_take(status, &error);
        snprintf(why, sizeof why, EST_ENDED "%s: %.280s", est_status_name(status), error.message);
        withdraw(m, why);
        status = est_error_raise(&error);
    }
    over = m->state != EST_MEMBERSHIP_JOINED;
    pthread_mutex_unlock(&m->lock);
    if (w.log.reported && status == EST_OK) est_log_info("%s: all workers are present", m->server->task);
    end_waiting(&w);
    if (status == EST_OK && over) {
        *out = (est_membership_view){ .over = true };
    } else if (status == EST_OK) {
        fill_view(m, out);
    }
    return status;
}

bool est_membership_partial(const est_membership *m)
{
    return m->partial;
}

void est_membership_reset(est_membership *m)
{
    m->partial = false;
}

/* --- the end of the job ------------------------------------------------------------------------------------------- */

/* The first task from `first` on that is linked or in the last view, and does not know that the job is over. -1:
 * none. */
static int find_uninformed(const est_membership *m, int first)
{
    for (int i = first; i < m->options.n; i++) {
        bool awaited = m->members[i].link != NULL;

        for (int k = 0; k < m->agreed.members.n; k++) awaited = awaited || m->agreed.members.data[k] == i;
        if (i != m->options.self && awaited && !m->members[i].knows_over) return i;
    }
    return -1;
}

static void report_uninformed(const est_membership *m, est_waiting *w)
{
    est_strbuf names = { 0 };

    for (int i = find_uninformed(m, 0); i >= 0; i = find_uninformed(m, i + 1)) {
        est_strbuf_printf(&names, "%s%s", names.size > 0 ? ", " : "", m->tasks[i].task);
    }
    est_wait_report(w, est_strbuf_text(&names));
    est_strbuf_clear(&names);
}

void est_membership_end_job(est_membership *m)
{
    int64_t     until = est_now_ns() + est_secs_to_ns(END_SECS);
    est_waiting wait  = est_wait_begin(m->server->task, "all others", "to tell them that the job has ended", END_SECS);

    wait.then = "leaves";

    pthread_mutex_lock(&m->lock);
    m->over = m->ended_here = true;
    for (int i = 0; i < m->options.n; i++) {
        est_member_answer(&m->members[i], &(est_decision){ .kind = EST_DECIDED_OVER });
        if (m->members[i].link != NULL && est_membership_send(m, i, EST_MEMBERSHIP_OVER) != EST_OK)
            continue; /* it is lost */
    }
    while (find_uninformed(m, 0) >= 0 && est_now_ns() < until && est_stop_signal() == 0) {
        if (est_wait_is_due(&wait)) report_uninformed(m, &wait);
        est_cond_wait_ns(&m->changed, &m->lock, SLICE_NS);
    }
    pthread_mutex_unlock(&m->lock);
    est_wait_end(&wait);
}
