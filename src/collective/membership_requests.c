/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership in the network thread: proposals of other tasks, answers to this task's own, the end of the job, and lost
 * links. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "collective/membership_internal.h"

#define TRY_NS (EST_NS_PER_SEC / 10) /* before a proposal that was not answered is sent again */

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void send_decision(est_request *request, const est_decision *decision)
{
    est_wire_writer out = { 0 };

    est_decision_write(decision, &out);
    if (est_wire_writer_status(&out) == EST_OK) {
        est_request_answer(request, (est_payload){ .head = out.data, .head_size = out.size });
    } else {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "out of memory for a membership decision");
    }
    est_wire_writer_clear(&out);
}

static void send_refusal(est_request *request, est_status status, const char *text)
{
    est_decision refusal = { 0 };

    if (est_decision_refuse(&refusal, status, "%s", text) == EST_OK) {
        send_decision(request, &refusal);
    } else {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, text);
    }
    est_decision_clear(&refusal);
}

void est_member_answer(est_member *member, const est_decision *decision)
{
    if (member->request == NULL) return;
    send_decision(member->request, decision);
    member->request    = NULL;
    member->knows_over = decision->kind == EST_DECIDED_OVER;
    est_proposal_clear(&member->proposal);
}

void est_member_drop_request(est_member *member, const char *why)
{
    if (member->request == NULL) return;
    est_request_fail(member->request, EST_ABORTED, why);
    member->request = NULL;
    est_proposal_clear(&member->proposal);
}

/* --- links -------------------------------------------------------------------------------------------------------- */

bool est_member_take_link(est_member *member, est_link *link)
{
    uint64_t incarnation = est_link_peer(link)->incarnation;

    if (member->link == link) return true;
    if (member->link != NULL && !est_link_is_lost(member->link) && incarnation <= member->incarnation) return false;
    if (member->link != NULL) est_member_close(member, "another process has taken this task's place");
    if (incarnation != member->incarnation) member->failed = false;
    if (!member->failed) member->why[0] = '\0';
    member->incarnation = incarnation;
    member->link        = est_link_ref(link);
    member->proposed    = false;
    member->try_ns      = 0;
    return true;
}

/* A task that can be reached but never proposes counts as lost since it was last active. */
static void drop_link(est_member *member)
{
    est_link_free(member->link);
    member->link     = NULL;
    member->proposed = false;
    if (member->active) member->lost_ns = est_now_ns();
    member->active = false;
}

void est_member_close(est_member *member, const char *why)
{
    if (member->link == NULL) return;
    est_link_close(member->link, why);
    drop_link(member);
}

/* --- requests to others ------------------------------------------------------------------------------------------- */

/* A request to another task. */
typedef struct sending {
    est_membership *membership;
    est_link       *link; /* only compared */
    int             number, method;
    uint64_t        round;
} sending;

/* The answer to this task's proposal. A decision of an earlier generation, or without this task, is stale. */
static void take_decision(est_membership *m, const sending *t, est_message *message)
{
    est_decision a = { 0 };
    size_t       size;
    const void  *head   = est_message_head(message, &size);
    est_status   status = est_decision_read(head, size, m->options.n, &a);

    if (status == EST_RESOURCE_EXHAUSTED) return; /* the proposal is sent again */
    if (status != EST_OK &&
        est_decision_refuse(&a, status, "%s: %s", m->tasks[t->number].task, est_error_message()) != EST_OK) {
        return;
    }
    if (a.kind == EST_DECIDED_GROUP && (a.generation <= m->agreed.generation ||
                                        est_decision_rank(&a, m->options.self, m->server->self.incarnation) < 0)) {
        est_decision_clear(&a);
        return;
    }
    if (a.kind == EST_DECIDED_OVER) m->over = true;
    if (m->state != EST_MEMBERSHIP_JOINING || m->decision.kind != 0) {
        est_decision_clear(&a);
    } else {
        m->decision = a;
    }
}

static void on_answered(void *user, est_status status, const char *error, est_message *message)
{
    sending        *t      = user;
    est_membership *m      = t->membership;
    est_member     *member = &m->members[t->number];

    (void)error; /* it is sent again, over another link if need be */
    pthread_mutex_lock(&m->lock);
    m->n_asks--;
    if (t->method == EST_MEMBERSHIP_OVER && status == EST_OK) member->knows_over = true;
    if (t->method == EST_MEMBERSHIP_PROPOSE && t->round == m->round) {
        if (member->link == t->link) {
            member->proposed = false;
            member->try_ns   = est_now_ns() + TRY_NS;
        }
        if (status == EST_OK) take_decision(m, t, message);
    }
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    est_free(t);
}

est_status est_membership_send(est_membership *m, int number, int method)
{
    est_member     *member = &m->members[number];
    sending        *t      = est_alloc(sizeof *t);
    est_wire_writer out    = { 0 };
    est_status      status;

    if (t == NULL) return est_no_memory();
    *t = (sending){ m, member->link, number, method, m->round };
    if (method == EST_MEMBERSHIP_PROPOSE) est_proposal_write(&m->members[m->options.self].proposal, &out);
    status = est_wire_writer_status(&out);
    if (status == EST_OK) {
        status = est_link_ask(
            member->link, (uint16_t)method, method == EST_MEMBERSHIP_OVER ? "the end of the job" : "membership",
            (est_payload){ .head = out.data, .head_size = out.size }, EST_FOREVER, on_answered, t, NULL);
        if (status == EST_OK) m->n_asks++;
    }
    est_wire_writer_clear(&out);
    if (status != EST_OK) est_free(t);
    return status;
}

/* --- proposals ---------------------------------------------------------------------------------------------------- */

void est_membership_end_group(est_membership *m, int number)
{
    const est_member *member    = &m->members[number];
    int               decider   = m->agreed.members.data[0];
    bool              is_member = est_decision_rank(&m->agreed, number, member->incarnation) >= 0;
    char              why[320];

    /* A member that proposes again has left the complete group. The group's own links report that, to those that still
     * need the member: after the last step nobody does. Otherwise the decider ends the group, unless the task replaces
     * it. */
    if (is_member && m->state == EST_MEMBERSHIP_JOINED && member->proposal.why[0] == '\0') return;
    if (decider != m->options.self && (is_member ? m->state == EST_MEMBERSHIP_JOINED : number > decider)) return;
    if (is_member && member->proposal.why[0] != '\0') {
        snprintf(why, sizeof why, "%s", member->proposal.why);
    } else {
        snprintf(why, sizeof why, "%s joins: all workers join again", m->tasks[number].task);
    }
    est_log_info("%s: %s", m->server->task, why);
    est_mailbox_end(m->mailbox, m->agreed.generation, why);
}

/* Whether a process may act for the task: of two processes, the one that was started later. */
static bool is_latest(const est_member *member, const est_task_id *who)
{
    return member->link == NULL || est_link_is_lost(member->link) || who->incarnation >= member->incarnation;
}

/* Whether the sender of a proposal with the same list of tasks may be the task that it names. */
static est_status check_place(const est_membership *m, const est_proposal *a, const est_task_id *who)
{
    if (a->number == m->options.self || strcmp(m->tasks[a->number].task, who->task) != 0)
        return est_fail(EST_FAILED_PRECONDITION, "%s proposes as %s", who->task, m->tasks[a->number].task);
    if (!is_latest(&m->members[a->number], who))
        return est_fail(EST_FAILED_PRECONDITION, "another process has taken the place of %s", who->task);
    return EST_OK;
}

/* Whether this task fails, and not the sender, when their terms differ. Where the numbers are equal, the names
 * decide. */
static bool takes_precedence(const est_membership *m, const est_proposal *a, const est_task_id *who)
{
    if (m->agreed.generation > 0) return false;
    if (a->generation > 0 || a->number != m->options.self) return a->generation > 0 || a->number < m->options.self;
    return strcmp(who->task, m->server->task) < 0;
}

/* The sender's terms differ from this task's: exactly one of the two fails. */
static void resolve_conflict(est_membership *m, est_request *request, const est_proposal *a, const est_task_id *who)
{
    est_status status;

    if (!takes_precedence(m, a, who)) {
        status = est_terms_compare(&m->terms, m->server->task, &a->terms, who->task);
        est_log_warn("%s: refused %s: %s", m->server->task, who->task, est_error_message());
        send_refusal(request, status, est_error_message());
        return;
    }
    status = est_terms_compare(&a->terms, who->task, &m->terms, m->server->task);
    if (m->state == EST_MEMBERSHIP_JOINING && m->decision.kind == 0 &&
        est_decision_refuse(&m->decision, status, "%s", est_error_message()) != EST_OK) {
        est_log_debug("%s: %s", m->server->task, est_error_message()); /* then at the next proposal */
    }
    est_request_fail(request, EST_ABORTED,
                     "this task belongs to another job"); /* it retries: another process may take this place */
}

/* Stores an accepted proposal, which is taken. */
static void store_proposal(est_membership *m, est_request *request, est_proposal *proposal)
{
    est_link          *link     = est_request_link(request);
    const est_task_id *who      = est_link_peer(link);
    est_member        *member   = &m->members[proposal->number];
    bool               of_group = m->state == EST_MEMBERSHIP_FORMING || m->state == EST_MEMBERSHIP_JOINED;
    int                number   = proposal->number;

    if (member->request != NULL && member->incarnation != who->incarnation) {
        send_refusal(member->request, EST_FAILED_PRECONDITION, "another process has taken this task's place");
        member->request = NULL;
        est_proposal_clear(&member->proposal);
    }
    est_member_drop_request(member, "it has proposed again");
    (void)est_member_take_link(member, link); /* false: there is a link to the same process */
    member->active   = true;
    member->failed   = false;
    member->why[0]   = '\0';
    member->request  = request;
    member->proposal = *proposal;
    *proposal        = (est_proposal){ 0 };
    if (!of_group) return;
    if (member->proposal.generation < m->agreed.generation &&
        est_decision_rank(&m->agreed, number, who->incarnation) >= 0) {
        est_member_answer(member, &m->agreed); /* it does not know the decision yet */
    } else {
        est_membership_end_group(m, number);
    }
}

/* Whether a task that proposes after the end belonged to this job: it was in the last view, or replaces a process that
 * was lost before it was informed, which only the task that has ended the job can know. */
static bool belonged_to_job(const est_membership *m, int number, uint64_t incarnation)
{
    return est_decision_rank(&m->agreed, number, incarnation) >= 0 || (m->ended_here && !m->members[number].knows_over);
}

/* A task that joins for the previous purpose was lost before that ended. Once this job has ended as well, the proposal
 * may be for the next one with that purpose, which this task may be about to begin: then, as in all other cases, the
 * sender retries. */
static void answer_other_purpose(const est_membership *m, est_request *request, const char *purpose)
{
    if (m->options.after != NULL && strcmp(purpose, m->options.after) == 0 && !m->over) {
        send_decision(request, &(est_decision){ .kind = EST_DECIDED_OVER });
    } else {
        est_request_fail(request, EST_ABORTED, "this task joins for another purpose");
    }
}

static void on_propose(est_membership *m, est_request *request)
{
    est_proposal       proposal = { 0 };
    size_t             size;
    const void        *head   = est_message_head(est_request_message(request), &size);
    const est_task_id *who    = est_link_peer(est_request_link(request));
    est_status         status = est_proposal_read(head, size, m->options.n, m->terms.list, &proposal);
    bool               listed = proposal.terms.list == m->terms.list;

    if (status == EST_OK && listed) status = check_place(m, &proposal, who);
    if (status == EST_RESOURCE_EXHAUSTED) { /* it retries */
        est_request_fail(request, status, est_error_message());
    } else if (status != EST_OK) {
        send_refusal(request, status, est_error_message());
    } else if (strcmp(proposal.purpose, m->options.purpose) != 0) {
        answer_other_purpose(m, request, proposal.purpose);
    } else if (m->over && listed && belonged_to_job(m, proposal.number, who->incarnation)) {
        send_decision(request, &(est_decision){ .kind = EST_DECIDED_OVER });
        m->members[proposal.number].knows_over = true;
    } else if (m->over) { /* a proposal for the next job, which this task may be about to begin; the sender retries */
        est_request_fail(request, EST_ABORTED, "the job has ended");
    } else if (est_terms_compare(&m->terms, m->server->task, &proposal.terms, who->task) != EST_OK) {
        resolve_conflict(m, request, &proposal, who);
    } else {
        store_proposal(m, request, &proposal);
    }
    est_proposal_clear(&proposal);
    pthread_cond_broadcast(&m->changed);
}

/* The number of the task that sent a request; -1: a process that is no member, or not the latest of its task. */
static int find_sender(const est_membership *m, const est_request *request)
{
    const est_task_id *who = est_link_peer(est_request_link(request));

    for (int i = 0; i < m->options.n; i++) {
        if (strcmp(m->tasks[i].task, who->task) == 0 && is_latest(&m->members[i], who)) return i;
    }
    return -1;
}

/* A task that has proposed is in a view without this one: a group that counts on it is not formed. */
static void on_exclude(est_membership *m, est_request *request)
{
    int                 number = find_sender(m, request);
    const est_decision *agreed = m->state == EST_MEMBERSHIP_JOINING ? &m->decision : &m->agreed;
    char                why[EST_NET_NAME_MAX + 64];

    if (number >= 0) {
        est_member *member = &m->members[number];

        est_member_drop_request(member, "it has joined a view without this task");
        if ((m->state == EST_MEMBERSHIP_JOINING || m->state == EST_MEMBERSHIP_FORMING) &&
            est_decision_rank(agreed, number, member->incarnation) >= 0) {
            snprintf(why, sizeof why, "%s has joined another view", m->tasks[number].task);
            est_mailbox_end(m->mailbox, agreed->generation, why);
        }
    }
    est_request_answer(request, (est_payload){ 0 });
    pthread_cond_broadcast(&m->changed);
}

/* The chief, or any member, says that the job is over. */
static void on_over(est_membership *m, est_request *request)
{
    if (find_sender(m, request) < 0) {
        est_request_fail(request, EST_FAILED_PRECONDITION, "the sender is not a member of this job");
        return;
    }
    m->over = true;
    est_request_answer(request, (est_payload){ 0 });
    pthread_cond_broadcast(&m->changed);
}

bool est_membership_serve(void *user, est_request *request)
{
    est_membership *m      = user;
    int             method = est_request_method(request);

    if (method < EST_MEMBERSHIP_PROPOSE || method > EST_MEMBERSHIP_OVER) return est_mailbox_serve(m->mailbox, request);
    pthread_mutex_lock(&m->lock);
    if (method == EST_MEMBERSHIP_PROPOSE) {
        on_propose(m, request);
    } else if (method == EST_MEMBERSHIP_EXCLUDE) {
        on_exclude(m, request);
    } else {
        on_over(m, request);
    }
    pthread_mutex_unlock(&m->lock);
    return true;
}

/* --- lost links --------------------------------------------------------------------------------------------------- */

/* Records why a task was lost. A reason that the task gave, over any link to the same process, overrides one of the
 * network. A text that begins with the reason is one that this task gave itself. */
static void record_loss(est_member *member, const char *task, const est_link *link, bool last, const char *why)
{
    const est_task_id *who  = est_link_peer(link);
    const char        *said = strstr(why, EST_ENDED);

    if (strcmp(who->task, task) != 0 || who->incarnation != member->incarnation || said == why) return;
    if (said == NULL && (member->failed || !last)) return;
    member->failed = said != NULL;
    snprintf(member->why, sizeof member->why, "%s", said != NULL ? said : why);
}

static void lose_member(est_membership *m, int number, const est_link *link, const char *why)
{
    est_member         *member = &m->members[number];
    const est_decision *agreed = m->state == EST_MEMBERSHIP_JOINING ? &m->decision : &m->agreed;
    char                text[EST_NET_NAME_MAX + 320];

    if (member->request != NULL && est_request_link(member->request) == link) est_member_drop_request(member, why);
    record_loss(member, m->tasks[number].task, link, member->link == link, why);
    if (member->link != link) return;
    drop_link(member);
    /* A complete group has links of its own. One that is being formed is ended. */
    if (m->state == EST_MEMBERSHIP_IDLE || m->state == EST_MEMBERSHIP_JOINED) return;
    if (est_decision_rank(agreed, number, member->incarnation) < 0) return;
    snprintf(text, sizeof text, "%s was lost before all had joined: %.280s", m->tasks[number].task, why);
    est_mailbox_end(m->mailbox, agreed->generation, text);
}

void est_membership_lost(void *user, est_link *link, const char *why)
{
    est_membership *m = user;

    est_mailbox_lost(m->mailbox, link, why);
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < m->options.n; i++) lose_member(m, i, link, why);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}
