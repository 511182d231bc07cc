/* SPDX-License-Identifier: Apache-2.0
 *
 * An ensemble: its life, and the thread that meets.
 *
 * To meet is to tell all others that one has come, and to wait until one of them, or this task itself, knows what came of it. The
 * rest happens in the network thread (ensemble_hear.c). An agreement is worth nothing until the group that it is about is
 * complete; when that fails, because one of those who agreed is gone, they meet again. */
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

#define CONNECT_SECS 7200.0
#define RETURN_SECS  600.0
#define JOIN_SECS    60.0 /* that those who agreed have to form their group */
#define END_SECS     30.0 /* that others have to hear that it is over, those, too, that are lost and come back */
#define SLICE_NS     (EST_NS_PER_SEC / 10)
#define OVER_NS      EST_NS_PER_SEC /* between two questions whether the job is over */
#define TRY_SECS     0.1            /* to connect to one before the next is tried; grows to */
#define TRY_SECS_MAX 2.0
#define REASONS_MAX  3                    /* why some do not come, in a line of the log */
#define AGAIN_NS     (EST_NS_PER_SEC / 5) /* before the same one is tried again */

/* --- life ----------------------------------------------------------------------------------------------------------------- */

/* What this task has to have the same as all others. */
static est_status make_terms(est_membership *e, const est_membership_options *o)
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
    e->terms = terms;
    return status;
}

static est_status copy_tasks(est_membership *e, const est_membership_options *o)
{
    e->tasks      = est_zalloc(sizeof *e->tasks * (size_t)o->n);
    e->members    = est_zalloc(sizeof *e->members * (size_t)o->n);
    e->candidates = est_zalloc(sizeof *e->candidates * (size_t)o->n);
    for (int i = 0; i < o->n && e->tasks != NULL && e->members != NULL && e->candidates != NULL; i++) {
        e->tasks[i].task    = est_strdup(o->tasks[i].task);
        e->tasks[i].address = est_strdup(o->tasks[i].address);
        if (e->tasks[i].task == NULL || e->tasks[i].address == NULL) break;
        if (i + 1 == o->n) return EST_OK;
    }
    return est_no_memory();
}

static est_status check_options(const est_server *server, const est_membership_options *o)
{
    if (o->n < 1 || o->self < 0 || o->self >= o->n)
        return est_fail(EST_INVALID_ARGUMENT, "task %d of an ensemble of %d", o->self, o->n);
    for (int i = 0; i < o->n; i++) {
        if (strlen(o->tasks[i].task) >= EST_NET_NAME_MAX)
            return est_fail(EST_INVALID_ARGUMENT, "the name of task %d is too long: %s", i, o->tasks[i].task);
    }
    if (strcmp(o->tasks[o->self].task, server->task) != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "task %d of the ensemble is %s, and the server is %s", o->self,
                        o->tasks[o->self].task, server->task);
    }
    return EST_OK;
}

static void free_membership(est_membership *e)
{
    est_mailbox_free(e->mailbox);
    est_group_communicator_clear(&e->communicator);
    for (int i = 0; i < e->options.n && e->members != NULL; i++) est_proposal_clear(&e->members[i].proposal);
    for (int i = 0; i < e->options.n && e->tasks != NULL; i++) {
        est_free((char *)(uintptr_t)e->tasks[i].task);
        est_free((char *)(uintptr_t)e->tasks[i].address);
    }
    est_terms_clear(&e->terms);
    est_decision_clear(&e->agreed);
    est_decision_clear(&e->heard);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    est_free(e->tasks);
    est_free(e->members);
    est_free(e->candidates);
    est_free(e);
}

est_status est_membership_create(est_server *server, const est_membership_options *options, est_membership **out)
{
    est_membership *e;
    est_status      status;

    EST_TRY(check_options(server, options));
    e = est_zalloc(sizeof *e);
    if (e == NULL) return est_no_memory();
    e->server  = server;
    e->options = *options;
    if (e->options.purpose == NULL) e->options.purpose = "train";
    if (e->options.connect_secs == 0) e->options.connect_secs = CONNECT_SECS;
    if (e->options.rejoin_secs == 0) e->options.rejoin_secs = RETURN_SECS;
    status = est_lock_init(&e->lock);
    if (status == EST_OK) status = est_cond_init(&e->changed);
    if (status == EST_OK) status = copy_tasks(e, options);
    if (status == EST_OK) status = make_terms(e, options);
    if (status == EST_OK) status = est_mailbox_create(&e->mailbox);
    if (status != EST_OK) {
        free_membership(e);
        return status;
    }
    e->options.tasks = e->tasks;
    est_group_communicator_init(&e->communicator, server->task, options->bytes_per_pack);
    est_server_extend(server, &(est_extension){ est_membership_serve, est_membership_lost, e });
    *out = e;
    return EST_OK;
}

/* Nobody hears from this task any more, nor it from them. The lock is held. */
static void leave(est_membership *e, const char *why)
{
    e->state = EST_MEMBERSHIP_IDLE;
    e->view++;
    for (int i = 0; i < e->options.n; i++) {
        est_member_drop_request(&e->members[i], why);
        est_member_close(&e->members[i], why);
    }
}

static void leave_group(est_membership *e)
{
    e->communicator.group = NULL;
    est_group_free(e->group);
    e->group = NULL;
}

void est_membership_free(est_membership *e)
{
    if (e == NULL) return;
    leave_group(e);
    est_server_extend(e->server, NULL);
    pthread_mutex_lock(&e->lock);
    leave(e, e->farewell[0] != '\0' ? e->farewell : EST_GOODBYE);
    while (e->n_asks > 0) pthread_cond_wait(&e->changed, &e->lock); /* their links are closed */
    pthread_mutex_unlock(&e->lock);
    free_membership(e);
}

/* A step that was sent to the others may still be made by them: one that is only stopped leaves the group in good order. */
void est_membership_fail(est_membership *e, est_status status)
{
    snprintf(e->farewell, sizeof e->farewell, EST_ENDED "%s: %s", est_status_name(status), est_error_message());
    if (e->group != NULL && status != EST_CANCELLED) est_group_abort(e->group, e->farewell);
}

est_communicator *est_membership_communicator(est_membership *e)
{
    return &e->communicator.base;
}

const char *est_membership_payload(const est_membership *e)
{
    return e->agreed.payload != NULL ? e->agreed.payload : "";
}

/* --- waiting -------------------------------------------------------------------------------------------------------------- */

/* A meeting that is waited for. The lock is held in all of this, and given up where it says so. */
typedef struct waiting {
    int64_t     agreed_ns;         /* when it was first agreed on a group; 0: not yet */
    int64_t     since_ns, over_ns; /* over_ns: when it was last asked whether the job is over, */
    bool        over;              /* and it was */
    est_waiting log;               /* all of it, whoever is waited for */
    est_waiting wait;              /* for the status view */
    est_strbuf  names;             /* whom it waits for, */
    est_strbuf  why;               /* and what for: as the status view has it */
    double      try_secs;          /* to connect to one */
    int         next;              /* to be connected to */
} waiting;

static est_round this_round(est_membership *e)
{
    int64_t now = est_now_ns();

    for (int i = 0; i < e->options.n; i++) {
        const est_member *member = &e->members[i];
        bool              here   = i == e->options.self || member->request != NULL;

        e->candidates[i] = (est_candidate){ .proposal    = here ? &member->proposal : NULL,
                                            .incarnation = member->incarnation,
                                            .away_ns = now - (member->link != NULL ? e->since_ns : member->lost_ns) };
    }
    e->candidates[e->options.self].incarnation = e->server->self.incarnation;
    return (est_round){ .tasks        = e->tasks,
                        .of           = e->candidates,
                        .n            = e->options.n,
                        .self         = e->options.self,
                        .connect_secs = e->options.connect_secs,
                        .rejoin_secs  = e->options.rejoin_secs,
                        .elastic      = e->options.elastic };
}

/* Whom it waits for: those who have not come or, when all have, the host, which is about to say so. */
static void name_awaited(est_membership *e, est_strbuf *out)
{
    est_round a    = this_round(e);
    int       host = est_round_decider(&a);
    bool      none = true;

    for (int i = 0; i < e->options.n; i++) {
        if (!est_round_awaits(&a, i)) continue;
        est_strbuf_printf(out, "%s%s (%s)", none ? "" : ", ", e->tasks[i].task, e->tasks[i].address);
        none = false;
    }
    if (none && host != e->options.self) est_strbuf_printf(out, "%s (%s)", e->tasks[host].task, e->tasks[host].address);
}

/* What they wait for and, after it, why some are not there: the first of them, of those that ended only, or of all. */
static void tell_why(est_membership *e, bool ended_only, est_strbuf *out)
{
    est_round a = this_round(e);
    int       n = 0;

    est_strbuf_printf(out, "to %s together", e->options.purpose);
    for (int i = 0; i < e->options.n && n < REASONS_MAX; i++) {
        const est_member *member = &e->members[i];

        if (!est_round_awaits(&a, i) || member->why[0] == '\0' || (ended_only && !member->ended)) continue;
        est_strbuf_printf(out, "; %s: %s", e->tasks[i].task, member->why);
        n++;
    }
}

static double limit_of(const est_membership *e)
{
    double secs = e->agreed.generation == 0 ? e->options.connect_secs : e->options.rejoin_secs;

    return secs == EST_FOREVER ? INFINITY : secs;
}

/* Keeps the status view up to date. */
static void show(est_membership *e, waiting *w)
{
    est_strbuf names = { 0 }, why = { 0 };

    name_awaited(e, &names);
    tell_why(e, true, &why);
    if (w->wait.place < 0 || strcmp(est_strbuf_text(&names), est_strbuf_text(&w->names)) != 0 ||
        strcmp(est_strbuf_text(&why), est_strbuf_text(&w->why)) != 0) {
        est_wait_end(&w->wait);
        w->wait = est_wait_begin(e->server->task, est_strbuf_text(&names), est_strbuf_text(&why), limit_of(e));
        est_strbuf_clear(&w->names);
        est_strbuf_clear(&w->why);
        w->names = names;
        w->why   = why;
    } else {
        est_strbuf_clear(&names);
        est_strbuf_clear(&why);
    }
}

/* Tells the log whom it waits for, why, and for how long yet. */
static void report(est_membership *e, waiting *w)
{
    est_strbuf why = { 0 };

    if (!est_wait_is_due(&w->log)) return;
    tell_why(e, false, &why);
    w->log.for_whom   = est_strbuf_text(&w->names);
    w->log.why        = est_strbuf_text(&why);
    w->log.limit_secs = limit_of(e);
    w->log.then       = e->agreed.generation > 0 && e->options.elastic ? "goes on" : "gives up";
    est_wait_report(&w->log, "");
    est_strbuf_clear(&why);
}

/* Asks, without the lock, whether the job has ended without us. It has when that is so twice: who has just ended it and can reach us
 * is about to say so, and would wait for us if we had gone before. */
static void ask_over(est_membership *e, waiting *w)
{
    int64_t now = est_now_ns();
    bool    over;

    if (e->options.over == NULL || now - w->over_ns < OVER_NS) return;
    w->over_ns = now;
    pthread_mutex_unlock(&e->lock);
    over = e->options.over(e->options.user);
    pthread_mutex_lock(&e->lock);
    e->over = e->over || (over && w->over);
    w->over = over;
}

/* Whether to go on waiting; says so in the log now and then. May give up the lock. */
static est_status keep_waiting(est_membership *e, waiting *w)
{
    const est_membership_options *o    = &e->options;
    double                        secs = (double)(est_now_ns() - w->since_ns) / (double)EST_NS_PER_SEC;

    show(e, w);
    if (est_stop_signal() != 0)
        return est_fail(EST_CANCELLED, "%s while waiting for %s", est_stop_signal_name(), est_strbuf_text(&w->names));
    /* A host decides within one of the two; whoever waits for longer than for both has one that does not. */
    if (o->connect_secs != EST_FOREVER && o->rejoin_secs != EST_FOREVER &&
        secs > o->connect_secs + 2 * o->rejoin_secs) {
        return est_fail(EST_DEADLINE_EXCEEDED, "waited %.0f s for %s to %s together", secs, est_strbuf_text(&w->names),
                        o->purpose);
    }
    report(e, w);
    ask_over(e, w);
    return EST_OK;
}

static waiting begin_waiting(const est_membership *e)
{
    return (waiting){ .since_ns = est_now_ns(),
                      .over_ns  = est_now_ns(),
                      .log      = est_wait_make(e->server->task, "", "", limit_of(e)),
                      .wait     = { .place = -1 },
                      .try_secs = TRY_SECS };
}

static void end_waiting(waiting *w)
{
    est_wait_end(&w->wait);
    est_strbuf_clear(&w->names);
    est_strbuf_clear(&w->why);
}

/* --- reaching others -------------------------------------------------------------------------------------------------------- */

/* Tells all who can be reached that we have come, once each. */
static est_status tell_all(est_membership *e)
{
    for (int i = 0; i < e->options.n; i++) {
        est_member *member = &e->members[i];
        est_status  status;

        if (member->link == NULL || member->told || member->try_ns > est_now_ns()) continue;
        status = est_membership_tell(e, i, EST_MEMBERSHIP_PROPOSE);
        if (status == EST_RESOURCE_EXHAUSTED) return status;
        member->told   = status == EST_OK;
        member->try_ns = est_now_ns() + AGAIN_NS; /* or the link is lost, which we are about to hear */
    }
    return EST_OK;
}

/* The next to be connected to; -1: none for now. */
static int find_unlinked(const est_membership *e, int first)
{
    for (int k = 0; k < e->options.n; k++) {
        int i = (first + k) % e->options.n;

        if (i != e->options.self && e->members[i].link == NULL && e->members[i].try_ns <= est_now_ns()) return i;
    }
    return -1;
}

/* Keeps why one could not be reached, without what the reader knows: who it is, and how long one attempt takes. What it said itself
 * is worth more. */
static void note_unreached(est_membership *e, int number)
{
    static const char within[] = " s: ";
    est_member       *member   = &e->members[number];
    const char       *why      = est_error_message(), *reason;

    if (member->ended) return;
    reason = strstr(why, "not reached within ");
    if (reason != NULL) reason = strstr(reason, within);
    snprintf(member->why, sizeof member->why, "%s", reason != NULL ? reason + strlen(within) : why);
}

/* Tries to connect to one who is not linked, without the lock; *tried false: there is none. */
static est_status connect_next(est_membership *e, waiting *w, bool *tried)
{
    int        i    = find_unlinked(e, w->next);
    est_link  *link = NULL;
    est_status status;

    *tried = i >= 0;
    if (i < 0) return EST_OK;
    w->next = i + 1;
    pthread_mutex_unlock(&e->lock);
    status = est_net_connect(est_server_net(e->server), e->tasks[i].address, e->tasks[i].task, w->try_secs, &link);
    pthread_mutex_lock(&e->lock);
    if (status == EST_OK) {
        if (!est_member_take_link(&e->members[i], link)) est_link_close(link, EST_SPARE);
        est_link_free(link);
        return EST_OK;
    }
    if (status == EST_CANCELLED || status == EST_RESOURCE_EXHAUSTED) return status;
    note_unreached(e, i);
    e->members[i].try_ns = est_now_ns() + AGAIN_NS;
    w->try_secs          = w->try_secs * 1.5 < TRY_SECS_MAX ? w->try_secs * 1.5 : TRY_SECS_MAX;
    return EST_OK;
}

/* --- meeting ---------------------------------------------------------------------------------------------------------------- */

/* Says to itself what it tells the others. */
static est_status arrive(est_membership *e, int64_t step, const char *payload, const char *why)
{
    est_proposal own = { .number     = e->options.self,
                         .step       = e->partial ? -1 : step,
                         .generation = e->agreed.generation,
                         .address    = est_strdup(e->tasks[e->options.self].address),
                         .payload    = est_strdup(e->agreed.payload != NULL ? e->agreed.payload : payload),
                         .purpose    = est_strdup(e->options.purpose),
                         .why        = est_strdup(why) };

    own.members.data = est_alloc(sizeof *own.members.data * (size_t)e->options.n);
    if (est_terms_copy(&e->terms, &own.terms) != EST_OK || own.address == NULL || own.payload == NULL ||
        own.purpose == NULL || own.why == NULL || own.members.data == NULL) {
        est_proposal_clear(&own);
        return est_no_memory();
    }
    own.members.n = e->agreed.members.n;
    if (own.members.n > 0)
        memcpy(own.members.data, e->agreed.members.data, sizeof *own.members.data * (size_t)own.members.n);
    est_proposal_clear(&e->members[e->options.self].proposal);
    e->members[e->options.self].proposal = own;
    e->state                             = EST_MEMBERSHIP_JOINING;
    e->since_ns                          = est_now_ns();
    est_decision_clear(&e->heard);
    for (int i = 0; i < e->options.n; i++) {
        est_member *member = &e->members[i];

        member->told   = false;
        member->try_ns = 0;
        if (e->view == 0 && member->link == NULL) member->lost_ns = e->since_ns;
    }
    e->view++;
    return EST_OK;
}

/* Waits until it is known what came of the meeting. *decided: by this task. */
static est_status confer(est_membership *e, waiting *w, bool *decided)
{
    bool tried;

    *decided = false;
    while (e->heard.kind == 0) {
        est_round a = this_round(e);

        if (e->over) {
            e->heard.kind = EST_DECIDED_OVER;
            break;
        }
        EST_TRY(est_round_decide(&a, decided, &e->heard));
        if (*decided) break;
        EST_TRY(tell_all(e));
        EST_TRY(keep_waiting(e, w));
        if (e->heard.kind != 0 || e->over) continue;
        EST_TRY(connect_next(e, w, &tried));
        if (!tried) est_cond_wait_ns(&e->changed, &e->lock, SLICE_NS);
    }
    return EST_OK;
}

/* Tells one who knows that we have come, and is not of those who agreed, that we have gone. */
static est_status say_go(est_membership *e, int number, est_status before)
{
    est_status status = est_membership_tell(e, number, EST_MEMBERSHIP_EXCLUDE);

    e->members[number].told = false;
    return before == EST_OK && status == EST_RESOURCE_EXHAUSTED ? status : before; /* else its link is lost */
}

/* Takes what was heard over, and tells those who have come. */
static est_status conclude(est_membership *e, bool decided)
{
    est_decision heard  = e->heard;
    est_status   status = EST_OK;

    e->heard = (est_decision){ 0 };
    if (heard.kind == EST_DECIDED_GROUP) {
        est_decision_clear(&e->agreed);
        e->agreed = heard;
        e->state  = EST_MEMBERSHIP_FORMING;
        for (int i = 0; i < e->options.n; i++) {
            est_member *member = &e->members[i];

            bool is_member = est_decision_rank(&heard, i, member->incarnation) >= 0;

            member->useful = member->useful || is_member;
            if (!is_member && member->told) status = say_go(e, i, status);
            if (member->request == NULL) continue;
            if (is_member) {
                est_member_answer(member, &heard);
            } else {
                est_membership_make_room(e, i);
            }
        }
        return status;
    }
    for (int i = 0; i < e->options.n; i++) { /* what others refuse us is for us alone */
        if (decided || heard.kind == EST_DECIDED_OVER) est_member_answer(&e->members[i], &heard);
    }
    e->state = EST_MEMBERSHIP_IDLE;
    e->over  = e->over || heard.kind == EST_DECIDED_OVER;
    if (heard.kind == EST_DECIDED_REFUSAL) status = est_fail(heard.status, "%s", heard.text);
    est_decision_clear(&heard);
    return status;
}

/* Makes the group that was agreed on; without the lock. */
static est_status form(est_membership *e)
{
    const est_decision *a       = &e->agreed;
    est_rank           *ranks   = est_zalloc(sizeof *ranks * (size_t)a->members.n);
    est_group_options   options = { .ranks         = ranks,
                                    .n             = a->members.n,
                                    .rank          = est_decision_rank(a, e->options.self, e->server->self.incarnation),
                                    .generation    = a->generation,
                                    .join_secs     = JOIN_SECS,
                                    .deadline_secs = e->options.deadline_secs,
                                    .communication = e->options.communication };
    est_status          status;

    if (ranks == NULL) return est_no_memory();
    for (int i = 0; i < a->members.n; i++) {
        ranks[i] = (est_rank){ e->tasks[a->members.data[i]].task, a->addresses[i], a->incarnations[i] };
    }
    status = est_group_create(e->mailbox, est_server_net(e->server), &options, &e->group);
    est_free(ranks);
    return status;
}

/* Whether those who could not form a group may do better the next time. How long they waited for each other before does not count. */
static bool may_try_again(const est_membership *e, const waiting *w, est_status status)
{
    double secs = (double)(est_now_ns() - w->agreed_ns) / (double)EST_NS_PER_SEC;

    if (status != EST_ABORTED && status != EST_UNAVAILABLE && status != EST_DEADLINE_EXCEEDED &&
        status != EST_FAILED_PRECONDITION) {
        return false;
    }
    return e->options.rejoin_secs == EST_FOREVER || secs <= e->options.rejoin_secs + JOIN_SECS;
}

/* One meeting and its group. *again: it was agreed on one that did not come about. */
static est_status meet_once(est_membership *e, waiting *w, bool *again)
{
    bool       decided;
    est_status status = confer(e, w, &decided);

    *again = false;
    EST_TRY(status);
    EST_TRY(conclude(e, decided));
    if (e->state != EST_MEMBERSHIP_FORMING) return EST_OK; /* it is over */
    if (w->agreed_ns == 0) w->agreed_ns = est_now_ns();
    pthread_mutex_unlock(&e->lock);
    est_wait_end(&w->wait);
    w->wait = est_wait_begin(e->server->task, "all others", "to form a group", JOIN_SECS);
    status  = form(e);
    est_wait_end(&w->wait);
    w->wait.place = -1;
    pthread_mutex_lock(&e->lock);
    if (status == EST_OK) {
        e->state = EST_MEMBERSHIP_JOINED;
        return EST_OK;
    }
    e->state = EST_MEMBERSHIP_IDLE;
    *again   = may_try_again(e, w, status);
    if (!*again) return est_fail_context(status, "generation %" PRIu64 " of %s", e->agreed.generation, e->server->task);
    est_log_info("%s: generation %" PRIu64 " did not come about: %s", e->server->task, e->agreed.generation,
                 est_error_message());
    return EST_OK;
}

static void fill(est_membership *e, est_membership_view *out)
{
    const est_decision *a                             = &e->agreed;
    char                source[EST_NET_NAME_MAX + 48] = "no variables yet";

    *out                      = (est_membership_view){ .generation   = a->generation,
                                                       .n            = a->members.n,
                                                       .rank         = est_group_rank(e->group),
                                                       .tasks        = a->members.data,
                                                       .source       = a->source,
                                                       .step         = a->step,
                                                       .group        = e->group,
                                                       .communicator = &e->communicator.base };
    e->communicator.group     = e->group;
    e->communicator.base.n    = out->n;
    e->communicator.base.rank = out->rank;
    if (a->source >= 0) {
        snprintf(source, sizeof source, "step %" PRId64 " of %s", a->step, e->tasks[a->members.data[a->source]].task);
    }
    if (strcmp(e->options.purpose, "train") == 0) {
        est_log_info("%s: generation %" PRIu64 ", rank %d of %d, %s", e->server->task, out->generation, out->rank,
                     out->n, source);
    } else { /* whose step is not one of the training */
        est_log_info("%s: to %s together: generation %" PRIu64 ", rank %d of %d", e->server->task, e->options.purpose,
                     out->generation, out->rank, out->n);
    }
}

est_status est_membership_join(est_membership *e, int64_t step, const char *payload, est_membership_view *out)
{
    waiting    w;
    est_error  error;
    bool       again, over;
    int64_t    pause = SLICE_NS / 4;
    est_status status;
    char       why[320] = ""; /* there is no group any more */

    if (e->group != NULL && est_group_status(e->group) != EST_OK) snprintf(why, sizeof why, "%s", est_error_message());
    leave_group(e);
    pthread_mutex_lock(&e->lock);
    w = begin_waiting(e);
    do {
        again  = false;
        status = arrive(e, step, payload, why);
        if (status == EST_OK) status = meet_once(e, &w, &again);
        if (again) {
            snprintf(why, sizeof why, "%s", est_error_message());
            est_cond_wait_ns(&e->changed, &e->lock, pause); /* what failed at once may do so again */
            if (pause < EST_NS_PER_SEC) pause *= 2;
        }
    } while (again);
    if (status != EST_OK) {
        est_error_take(status, &error);
        snprintf(why, sizeof why, EST_ENDED "%s: %.280s", est_status_name(status), error.message);
        leave(e, why);
        status = est_error_raise(&error);
    }
    over = e->state != EST_MEMBERSHIP_JOINED;
    pthread_mutex_unlock(&e->lock);
    if (w.log.reported && status == EST_OK) est_log_info("%s waits no more", e->server->task);
    end_waiting(&w);
    if (status == EST_OK && over) {
        *out = (est_membership_view){ .over = true };
    } else if (status == EST_OK) {
        fill(e, out);
    }
    return status;
}

bool est_membership_partial(const est_membership *e)
{
    return e->partial;
}

void est_membership_reset(est_membership *e)
{
    e->partial = false;
}

/* --- the end of the job ------------------------------------------------------------------------------------------------------- */

/* The first one, from `first` on, that has still to hear that it is over: it is here, or was at the last meeting. -1: none. */
static int find_deaf(const est_membership *e, int first)
{
    for (int i = first; i < e->options.n; i++) {
        bool awaited = e->members[i].link != NULL;

        for (int k = 0; k < e->agreed.members.n; k++) awaited = awaited || e->agreed.members.data[k] == i;
        if (i != e->options.self && awaited && !e->members[i].heard) return i;
    }
    return -1;
}

static void report_deaf(const est_membership *e, est_waiting *w)
{
    est_strbuf names = { 0 };

    for (int i = find_deaf(e, 0); i >= 0; i = find_deaf(e, i + 1)) {
        est_strbuf_printf(&names, "%s%s", names.size > 0 ? ", " : "", e->tasks[i].task);
    }
    est_wait_report(w, est_strbuf_text(&names));
    est_strbuf_clear(&names);
}

void est_membership_end_job(est_membership *e)
{
    int64_t     until = est_now_ns() + est_secs_to_ns(END_SECS);
    est_waiting wait  = est_wait_begin(e->server->task, "all others", "to tell them that the job has ended", END_SECS);

    wait.then = "leaves";

    pthread_mutex_lock(&e->lock);
    e->over = e->ended = true;
    for (int i = 0; i < e->options.n; i++) {
        est_member_answer(&e->members[i], &(est_decision){ .kind = EST_DECIDED_OVER });
        if (e->members[i].link != NULL && est_membership_tell(e, i, EST_MEMBERSHIP_OVER) != EST_OK)
            continue; /* it is gone */
    }
    while (find_deaf(e, 0) >= 0 && est_now_ns() < until && est_stop_signal() == 0) {
        if (est_wait_is_due(&wait)) report_deaf(e, &wait);
        est_cond_wait_ns(&e->changed, &e->lock, SLICE_NS);
    }
    pthread_mutex_unlock(&e->lock);
    est_wait_end(&wait);
}
