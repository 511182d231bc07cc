/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ensemble hears from others: arrivals, answers, the end of the job, and the loss of a link. Everything here runs in the
 * network thread, but for telling others. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "strategy/ensemble_parts.h"

#define TRY_NS (EST_NS_PER_SEC / 10) /* before one who failed to listen is told again */

/* --- answering ------------------------------------------------------------------------------------------------------------ */

static void answer(est_request *request, const est_agreement *agreement)
{
    est_wire_writer out = { 0 };

    est_agreement_write(agreement, &out);
    if (est_wire_writer_status(&out) == EST_OK) {
        est_request_answer(request, (est_payload){ .head = out.data, .head_size = out.size });
    } else {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    est_wire_writer_clear(&out);
}

static void refuse(est_request *request, est_status status, const char *text)
{
    est_agreement not = { 0 };

    if (est_agreement_refuse(&not, status, "%s", text) == EST_OK) {
        answer(request, &not );
    } else {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, text);
    }
    est_agreement_clear(&not );
}

void est_seat_answer(est_seat *seat, const est_agreement *agreement)
{
    if (seat->request == NULL) return;
    answer(seat->request, agreement);
    seat->request = NULL;
    seat->heard   = agreement->kind == EST_AGREED_OVER;
    est_arrival_clear(&seat->arrival);
}

void est_seat_drop_request(est_seat *seat, const char *why)
{
    if (seat->request == NULL) return;
    est_request_fail(seat->request, EST_ABORTED, why);
    seat->request = NULL;
    est_arrival_clear(&seat->arrival);
}

/* --- links ---------------------------------------------------------------------------------------------------------------- */

bool est_seat_take_link(est_seat *seat, est_link *link)
{
    uint64_t incarnation = est_link_peer(link)->incarnation;

    if (seat->link == link) return true;
    if (seat->link != NULL && !est_link_is_lost(seat->link) && incarnation <= seat->incarnation) return false;
    if (seat->link != NULL) est_seat_close(seat, "another process has taken this task's place");
    if (incarnation != seat->incarnation) seat->ended = false;
    if (!seat->ended) seat->why[0] = '\0';
    seat->incarnation = incarnation;
    seat->link        = est_link_ref(link);
    seat->told        = false;
    seat->try_ns      = 0;
    return true;
}

/* One that can be reached, again and again, but says nothing is away all the while. */
static void drop_link(est_seat *seat)
{
    est_link_free(seat->link);
    seat->link = NULL;
    seat->told = false;
    if (seat->useful) seat->lost_ns = est_now_ns();
    seat->useful = false;
}

void est_seat_close(est_seat *seat, const char *why)
{
    if (seat->link == NULL) return;
    est_link_close(seat->link, why);
    drop_link(seat);
}

/* --- telling others --------------------------------------------------------------------------------------------------------- */

/* Something that a task was told. */
typedef struct telling {
    est_ensemble *ensemble;
    est_link     *link; /* only to be compared */
    int           number, method;
    uint64_t      meeting;
} telling;

/* The answer to our coming. One that is not of this meeting, or that leaves us out, is old. */
static void take_answer(est_ensemble *e, const telling *t, est_message *message)
{
    est_agreement a = { 0 };
    size_t        size;
    const void   *head   = est_message_head(message, &size);
    est_status    status = est_agreement_read(head, size, e->options.n, &a);

    if (status == EST_RESOURCE_EXHAUSTED) return; /* it is told again */
    if (status != EST_OK &&
        est_agreement_refuse(&a, status, "%s: %s", e->tasks[t->number].task, est_error_message()) != EST_OK) {
        return;
    }
    if (a.kind == EST_AGREED && (a.generation <= e->agreed.generation ||
                                 est_agreement_rank(&a, e->options.self, e->server->self.incarnation) < 0)) {
        est_agreement_clear(&a);
        return;
    }
    if (a.kind == EST_AGREED_OVER) e->over = true;
    if (e->state != EST_ENSEMBLE_MEETING || e->heard.kind != 0) {
        est_agreement_clear(&a);
    } else {
        e->heard = a;
    }
}

static void on_told(void *user, est_status status, const char *error, est_message *message)
{
    telling      *t    = user;
    est_ensemble *e    = t->ensemble;
    est_seat     *seat = &e->seats[t->number];

    (void)error; /* it is told again, over another link if need be */
    pthread_mutex_lock(&e->lock);
    e->n_asks--;
    if (t->method == EST_MEETING_OVER && status == EST_OK) seat->heard = true;
    if (t->method == EST_MEETING_COME && t->meeting == e->meeting) {
        if (seat->link == t->link) {
            seat->told   = false;
            seat->try_ns = est_now_ns() + TRY_NS;
        }
        if (status == EST_OK) take_answer(e, t, message);
    }
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    est_free(t);
}

est_status est_ensemble_tell(est_ensemble *e, int number, int method)
{
    est_seat       *seat = &e->seats[number];
    telling        *t    = est_alloc(sizeof *t);
    est_wire_writer out  = { 0 };
    est_status      status;

    if (t == NULL) return est_no_memory();
    *t = (telling){ e, seat->link, number, method, e->meeting };
    if (method == EST_MEETING_COME) est_arrival_write(&e->seats[e->options.self].arrival, &out);
    status = est_wire_writer_status(&out);
    if (status == EST_OK) {
        status = est_link_ask(seat->link, (uint16_t)method,
                              method == EST_MEETING_OVER ? "the end of the job" : "a meeting",
                              (est_payload){ .head = out.data, .head_size = out.size }, EST_FOREVER, on_told, t, NULL);
        if (status == EST_OK) e->n_asks++;
    }
    est_wire_writer_clear(&out);
    if (status != EST_OK) est_free(t);
    return status;
}

/* --- arrivals --------------------------------------------------------------------------------------------------------------- */

void est_ensemble_make_room(est_ensemble *e, int number)
{
    const est_seat *seat   = &e->seats[number];
    int             host   = e->agreed.members.data[0];
    bool            member = est_agreement_rank(&e->agreed, number, seat->incarnation) >= 0;
    char            why[320];

    /* One of the group that has left it is for the group's links to tell, once all have joined: whoever does not need it any
     * more, since that was the last step, has no reason to fail. Else the host sees to it, unless the one who came takes its
     * place. */
    if (member && e->state == EST_ENSEMBLE_JOINED && seat->arrival.why[0] == '\0') return;
    if (host != e->options.self && (member ? e->state == EST_ENSEMBLE_JOINED : number > host)) return;
    if (member && seat->arrival.why[0] != '\0') {
        snprintf(why, sizeof why, "%s", seat->arrival.why);
    } else {
        snprintf(why, sizeof why, "%s has come, and all meet again", e->tasks[number].task);
    }
    est_log_info("%s: %s", e->server->task, why);
    est_mailbox_end(e->mailbox, e->agreed.generation, why);
}

/* Whether somebody may speak for the task: of two processes the one that was started later. */
static bool is_latest(const est_seat *seat, const est_task_id *who)
{
    return seat->link == NULL || est_link_is_lost(seat->link) || who->incarnation >= seat->incarnation;
}

/* Whether one who comes, of the same list, may have the place that it wants. */
static est_status check_place(const est_ensemble *e, const est_arrival *a, const est_task_id *who)
{
    if (a->number == e->options.self || strcmp(e->tasks[a->number].task, who->task) != 0)
        return est_fail(EST_FAILED_PRECONDITION, "%s cannot be %s", who->task, e->tasks[a->number].task);
    if (!is_latest(&e->seats[a->number], who))
        return est_fail(EST_FAILED_PRECONDITION, "another process has taken the place of %s", who->task);
    return EST_OK;
}

/* Whether one who differs from this task stays, and this task goes. Names differ where numbers of two lists do not. */
static bool comes_first(const est_ensemble *e, const est_arrival *a, const est_task_id *who)
{
    if (e->agreed.generation > 0) return false;
    if (a->generation > 0 || a->number != e->options.self) return a->generation > 0 || a->number < e->options.self;
    return strcmp(who->task, e->server->task) < 0;
}

/* One comes that is not of this job, or this task is not of its: only one of the two fails. */
static void part(est_ensemble *e, est_request *request, const est_arrival *a, const est_task_id *who)
{
    est_status status;

    if (!comes_first(e, a, who)) {
        status = est_terms_compare(&e->terms, e->server->task, &a->terms, who->task);
        est_log_warn("%s: %s was refused: %s", e->server->task, who->task, est_error_message());
        refuse(request, status, est_error_message());
        return;
    }
    status = est_terms_compare(&a->terms, who->task, &e->terms, e->server->task);
    if (e->state == EST_ENSEMBLE_MEETING && e->heard.kind == 0 &&
        est_agreement_refuse(&e->heard, status, "%s", est_error_message()) != EST_OK) {
        est_log_debug("%s: %s", e->server->task, est_error_message()); /* the next time, then */
    }
    est_request_fail(request, EST_ABORTED, "this task is of another job"); /* it tries again: another may come here */
}

/* Seats one who has come; the arrival is taken. */
static void seat_arrival(est_ensemble *e, est_request *request, est_arrival *arrival)
{
    est_link          *link     = est_request_link(request);
    const est_task_id *who      = est_link_peer(link);
    est_seat          *seat     = &e->seats[arrival->number];
    bool               of_group = e->state == EST_ENSEMBLE_FORMING || e->state == EST_ENSEMBLE_JOINED;
    int                number   = arrival->number;

    if (seat->request != NULL && seat->incarnation != who->incarnation) {
        refuse(seat->request, EST_FAILED_PRECONDITION, "another process has taken this task's place");
        seat->request = NULL;
        est_arrival_clear(&seat->arrival);
    }
    est_seat_drop_request(seat, "it has come again");
    (void)est_seat_take_link(seat, link); /* false: one of the same process that is as good */
    seat->useful  = true;
    seat->ended   = false;
    seat->why[0]  = '\0';
    seat->request = request;
    seat->arrival = *arrival;
    *arrival      = (est_arrival){ 0 };
    if (!of_group) return;
    if (seat->arrival.generation < e->agreed.generation &&
        est_agreement_rank(&e->agreed, number, who->incarnation) >= 0) {
        est_seat_answer(seat, &e->agreed); /* it has not heard of it yet */
    } else {
        est_ensemble_make_room(e, number);
    }
}

/* Whether one who comes after the end was of this job: it was at the last meeting, or takes the place of one that was lost before it
 * had heard. Of others only the task that has ended the job knows who has. */
static bool was_of_job(const est_ensemble *e, int number, uint64_t incarnation)
{
    return est_agreement_rank(&e->agreed, number, incarnation) >= 0 || (e->ended && !e->seats[number].heard);
}

/* One who comes for what all others have left behind was lost meanwhile. When this has ended, too, it may be for the next time, which
 * this task may be about to begin: then it tries again, as in all other cases. */
static void answer_other(const est_ensemble *e, est_request *request, const char *purpose)
{
    if (e->options.after != NULL && strcmp(purpose, e->options.after) == 0 && !e->over) {
        answer(request, &(est_agreement){ .kind = EST_AGREED_OVER });
    } else {
        est_request_fail(request, EST_ABORTED, "this task meets for another purpose");
    }
}

static void on_come(est_ensemble *e, est_request *request)
{
    est_arrival        arrival = { 0 };
    size_t             size;
    const void        *head   = est_message_head(est_request_message(request), &size);
    const est_task_id *who    = est_link_peer(est_request_link(request));
    est_status         status = est_arrival_read(head, size, e->options.n, e->terms.list, &arrival);
    bool               listed = arrival.terms.list == e->terms.list;

    if (status == EST_OK && listed) status = check_place(e, &arrival, who);
    if (status == EST_RESOURCE_EXHAUSTED) { /* it tries again */
        est_request_fail(request, status, est_error_message());
    } else if (status != EST_OK) {
        refuse(request, status, est_error_message());
    } else if (strcmp(arrival.purpose, e->options.purpose) != 0) {
        answer_other(e, request, arrival.purpose);
    } else if (e->over && listed && was_of_job(e, arrival.number, who->incarnation)) {
        answer(request, &(est_agreement){ .kind = EST_AGREED_OVER });
        e->seats[arrival.number].heard = true;
    } else if (e->over) { /* it has come for the next job, which this task may be about to begin, too; it tries again */
        est_request_fail(request, EST_ABORTED, "the job has ended");
    } else if (est_terms_compare(&e->terms, e->server->task, &arrival.terms, who->task) != EST_OK) {
        part(e, request, &arrival, who);
    } else {
        seat_arrival(e, request, &arrival);
    }
    est_arrival_clear(&arrival);
    pthread_cond_broadcast(&e->changed);
}

/* The number of the task that a request is from, if it is from the process that has its place; -1. */
static int find_sender(const est_ensemble *e, const est_request *request)
{
    const est_task_id *who = est_link_peer(est_request_link(request));

    for (int i = 0; i < e->options.n; i++) {
        if (strcmp(e->tasks[i].task, who->task) == 0 && is_latest(&e->seats[i], who)) return i;
    }
    return -1;
}

/* One who has come goes with others. What counted on it is not made. */
static void on_go(est_ensemble *e, est_request *request)
{
    int                  number = find_sender(e, request);
    const est_agreement *agreed = e->state == EST_ENSEMBLE_MEETING ? &e->heard : &e->agreed;
    char                 why[EST_NET_NAME_MAX + 64];

    if (number >= 0) {
        est_seat *seat = &e->seats[number];

        est_seat_drop_request(seat, "it has gone");
        if ((e->state == EST_ENSEMBLE_MEETING || e->state == EST_ENSEMBLE_FORMING) &&
            est_agreement_rank(agreed, number, seat->incarnation) >= 0) {
            snprintf(why, sizeof why, "%s has gone with others", e->tasks[number].task);
            est_mailbox_end(e->mailbox, agreed->generation, why);
        }
    }
    est_request_answer(request, (est_payload){ 0 });
    pthread_cond_broadcast(&e->changed);
}

/* The chief says that it is over; any task that has its place may. */
static void on_over(est_ensemble *e, est_request *request)
{
    if (find_sender(e, request) < 0) {
        est_request_fail(request, EST_FAILED_PRECONDITION, "it is not one of those who train");
        return;
    }
    e->over = true;
    est_request_answer(request, (est_payload){ 0 });
    pthread_cond_broadcast(&e->changed);
}

bool est_ensemble_serve(void *user, est_request *request)
{
    est_ensemble *e      = user;
    int           method = est_request_method(request);

    if (method < EST_MEETING_COME || method > EST_MEETING_OVER) return est_mailbox_serve(e->mailbox, request);
    pthread_mutex_lock(&e->lock);
    if (method == EST_MEETING_COME) {
        on_come(e, request);
    } else if (method == EST_MEETING_GO) {
        on_go(e, request);
    } else {
        on_over(e, request);
    }
    pthread_mutex_unlock(&e->lock);
    return true;
}

/* --- losses ----------------------------------------------------------------------------------------------------------------- */

/* Keeps why a task was lost. What it said itself, over any link to this process of it, is worth more than what the net knows. Without
 * somebody who said so before it, it is what this task said. */
static void note_loss(est_seat *seat, const char *task, const est_link *link, bool last, const char *why)
{
    const est_task_id *who  = est_link_peer(link);
    const char        *said = strstr(why, EST_ENDED);

    if (strcmp(who->task, task) != 0 || who->incarnation != seat->incarnation || said == why) return;
    if (said == NULL && (seat->ended || !last)) return;
    seat->ended = said != NULL;
    snprintf(seat->why, sizeof seat->why, "%s", said != NULL ? said : why);
}

static void lose(est_ensemble *e, int number, const est_link *link, const char *why)
{
    est_seat            *seat   = &e->seats[number];
    const est_agreement *agreed = e->state == EST_ENSEMBLE_MEETING ? &e->heard : &e->agreed;
    char                 text[EST_NET_NAME_MAX + 320];

    if (seat->request != NULL && est_request_link(seat->request) == link) est_seat_drop_request(seat, why);
    note_loss(seat, e->tasks[number].task, link, seat->link == link, why);
    if (seat->link != link) return;
    drop_link(seat);
    /* A group that is complete has links of its own to tell. One that is just about to be made is not made then. */
    if (e->state == EST_ENSEMBLE_IDLE || e->state == EST_ENSEMBLE_JOINED) return;
    if (est_agreement_rank(agreed, number, seat->incarnation) < 0) return;
    snprintf(text, sizeof text, "%s was lost before all had joined: %.280s", e->tasks[number].task, why);
    est_mailbox_end(e->mailbox, agreed->generation, text);
}

void est_ensemble_lost(void *user, est_link *link, const char *why)
{
    est_ensemble *e = user;

    est_mailbox_lost(e->mailbox, link, why);
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < e->options.n; i++) lose(e, i, link, why);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}
