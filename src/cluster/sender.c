/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs send, and the links over which it is sent. A tensor that is lost with a link is sent again over another
 * one, to the same process. */
#include "cluster/sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/refcount.h"
#include "cluster/clients.h"
#include "cluster/rendezvous.h"
#include "tensor/tensor.h"

#define TRIES_MAX 3 /* for one tensor */

enum { OUTPUT = 1, TASK, INCARNATION, TRANSFER }; /* of EST_FIELD_SEND */

/* A tensor that a run sends. */
typedef struct item {
    char            task[EST_NET_NAME_MAX];
    uint64_t        incarnation; /* of that task */
    est_transfer_id id;
    est_tensor     *value;
    est_view        view; /* of it */
    est_packing     packing;
} item;

struct est_sends {
    est_refcount refs;
    int          n;
    item        *items;
};

/* A tensor on its way. */
typedef struct attempt {
    est_sender     *sender;
    est_sends      *sends; /* a reference */
    const item     *item;  /* of them */
    int             tries;
    struct attempt *next;
} attempt;

struct est_sender {
    est_server     *server;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t  changed;
    attempt        *first, **last; /* that need a link */
    est_link      **links;         /* one for a task */
    int             n_links, max_links;
    est_thread      thread; /* makes links */
    bool            has_thread, stopping;
};

/* --- what a run sends --------------------------------------------------------------------------------------------- */

void est_sends_put(est_wire_writer *head, const est_segment_send *send, const char *task, uint64_t incarnation)
{
    size_t mark = est_wire_begin(head, EST_FIELD_SEND);

    est_wire_put_i64(head, OUTPUT, send->output);
    est_wire_put_string(head, TASK, task);
    est_wire_put_u64(head, INCARNATION, incarnation);
    est_wire_put_i64(head, TRANSFER, send->edge);
    est_wire_end(head, mark);
}

/* Reads a SEND; *output is checked by the caller. */
static est_status read_send(est_wire_reader *r, item *out, uint64_t *output)
{
    est_wire_field field;

    *output = UINT64_MAX;
    while (est_wire_next(r, &field)) {
        if (field.number == OUTPUT) *output = est_wire_u64(r, &field);
        if (field.number == INCARNATION) out->incarnation = est_wire_u64(r, &field);
        if (field.number == TRANSFER) out->id.transfer = est_wire_u64(r, &field);
        if (field.number == TASK) {
            est_str name = est_wire_bytes(r, &field);

            snprintf(out->task, sizeof out->task, "%.*s", est_text_precision(name), name.data != NULL ? name.data : "");
        }
    }
    return est_wire_finish(r);
}

static est_status copy_output(const est_host *host, int segment, uint64_t output, item *out)
{
    const est_view *view;

    if (output >= (uint64_t)est_host_outputs(host, segment)) {
        return est_fail(EST_INVALID_ARGUMENT, "a run has to send an output that its segment does not have");
    }
    view = est_host_output(host, segment, (int)output);
    EST_TRY(est_tensor_create_from(view->dtype, view->shape, view->data, &out->value));
    out->view      = *view;
    out->view.data = est_tensor_view_data(out->value);
    est_wire_put_u64(&out->packing.head, EST_FIELD_DRIVER, out->id.driver);
    est_wire_put_u64(&out->packing.head, EST_FIELD_DRIVEN_STEP, out->id.step);
    est_wire_put_u64(&out->packing.head, EST_FIELD_TRANSFER, out->id.transfer);
    est_pack_view(&out->packing, &out->view);
    return out->packing.failed ? est_no_memory() : EST_OK;
}

static est_status fill_sends(est_sends *sends, const est_host *host, int segment, const est_message *message,
                             uint64_t driver)
{
    est_transfer_id id = { .driver = driver, .step = est_head_u64(message, EST_FIELD_DRIVEN_STEP, 0) };
    est_wire_reader r, inner;
    est_wire_field  field;

    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        item    *it = &sends->items[sends->n];
        uint64_t output;

        if (field.number != EST_FIELD_SEND) continue;
        sends->n++;
        it->id = id;
        est_wire_message(&r, &field, "Send", &inner);
        EST_TRY(read_send(&inner, it, &output));
        EST_TRY(copy_output(host, segment, output, it));
    }
    return est_wire_finish(&r);
}

est_status est_sends_pack(const est_host *host, int segment, const est_message *message, uint64_t driver,
                          est_sends **out)
{
    est_wire_reader r;
    est_wire_field  field;
    size_t          n = 0;
    est_sends      *sends;
    est_status      status;

    *out = NULL;
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) n += field.number == EST_FIELD_SEND;
    if (n == 0) return EST_OK;
    sends = est_zalloc(sizeof *sends);
    if (sends == NULL) return est_no_memory();
    est_refcount_init(&sends->refs);
    sends->items = est_zalloc(sizeof *sends->items * n);
    status       = sends->items != NULL ? fill_sends(sends, host, segment, message, driver) : est_no_memory();
    if (status != EST_OK) {
        est_sends_free(sends);
        return status;
    }
    *out = sends;
    return EST_OK;
}

est_sends *est_sends_ref(est_sends *sends)
{
    est_refcount_add(&sends->refs);
    return sends;
}

void est_sends_free(est_sends *sends)
{
    if (sends == NULL || !est_refcount_drop(&sends->refs)) return;
    for (int i = 0; i < sends->n; i++) {
        est_packing_clear(&sends->items[i].packing);
        est_tensor_free(sends->items[i].value);
    }
    est_free(sends->items);
    est_free(sends);
}

/* --- tensors on their way ----------------------------------------------------------------------------------------- */

static void free_attempt(attempt *a)
{
    est_sends_free(a->sends);
    est_free(a);
}

/* Says which tensor was not sent. EST_UNAVAILABLE would make the driver ask for the run again, which would not help. */
static est_status fail_send(const item *it, est_status status)
{
    return est_fail_context(status == EST_UNAVAILABLE || status == EST_DEADLINE_EXCEEDED ? EST_ABORTED : status,
                            "a tensor for %s was not sent", it->task);
}

/* A link to the process, referenced; NULL: none. */
static est_link *link_to_driver(est_server *server, uint64_t incarnation)
{
    est_link *found = NULL;

    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_clients && found == NULL; i++) {
        const est_client *client = server->clients[i];

        if (client->who.incarnation == incarnation && client->link != NULL) found = est_link_ref(client->link);
    }
    pthread_mutex_unlock(&server->lock);
    return found;
}

static void ignore_answer(void *user, est_status status, const char *error, est_message *answer)
{
    (void)user;
    (void)status;
    (void)error;
    (void)answer;
}

/* Tells the driver, whose run was answered, that its step cannot end. Takes the attempt over, and the last error. */
static void report(attempt *a, est_status status)
{
    est_link   *driver  = link_to_driver(a->sender->server, a->item->id.driver);
    est_packing packing = { 0 };
    est_payload payload;
    est_error   error;
    est_status  told;

    est_error_take(fail_send(a->item, status), &error);
    est_wire_put_u64(&packing.head, EST_FIELD_DRIVEN_STEP, a->item->id.step);
    est_wire_put_u64(&packing.head, EST_FIELD_FAILURE, (uint64_t)error.status);
    est_wire_put_string(&packing.head, EST_FIELD_BYTES, error.message);
    told = driver != NULL ? est_packing_payload(&packing, &payload) : est_fail(EST_UNAVAILABLE, "it is not connected");
    if (told == EST_OK)
        told = est_link_ask(driver, EST_METHOD_FAIL_STEP, est_method_text(EST_METHOD_FAIL_STEP), payload, EST_FOREVER,
                            ignore_answer, NULL, NULL);
    if (told != EST_OK) {
        est_log_warn("%s: %s; the driver of the step was not told: %s", a->sender->server->task, error.message,
                     est_error_message());
    }
    est_link_free(driver);
    est_packing_clear(&packing);
    free_attempt(a);
}

static void *make_links(void *arg);

/* Leaves an attempt to the thread that makes links, which the first one starts. */
static est_status queue_attempt(attempt *a)
{
    est_sender *s      = a->sender;
    est_status  status = EST_OK;

    a->next = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->stopping) status = est_fail(EST_ABORTED, "the server is shutting down");
    if (status == EST_OK && !s->has_thread) {
        status        = est_thread_start(&s->thread, "est-sender", make_links, s);
        s->has_thread = status == EST_OK;
    }
    if (status == EST_OK) {
        *s->last = a;
        s->last  = &a->next;
        pthread_cond_signal(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void sent(void *user, est_status status, const char *error, est_message *answer)
{
    attempt *a = user;

    (void)answer;
    if (status == EST_OK) {
        free_attempt(a);
        return;
    }
    status = status == EST_UNAVAILABLE && a->tries < TRIES_MAX ? queue_attempt(a) : est_fail(status, "%s", error);
    if (status != EST_OK) report(a, status);
}

/* The open link to a task, referenced; NULL: none. */
static est_link *find_link(est_sender *s, const char *task)
{
    est_link *found = NULL;

    pthread_mutex_lock(&s->lock);
    for (int i = s->n_links - 1; i >= 0; i--) {
        if (est_link_is_lost(s->links[i])) {
            est_link_free(s->links[i]);
            s->links[i] = s->links[--s->n_links];
        } else if (strcmp(est_link_peer(s->links[i])->task, task) == 0) {
            found = est_link_ref(s->links[i]);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* Keeps RV3. `sent` takes the attempt over unless this fails. */
static est_status send_over(attempt *a, est_link *link)
{
    est_payload payload;

    if (est_link_peer(link)->incarnation != a->item->incarnation) {
        return est_fail(EST_ABORTED, "%s was restarted", a->item->task);
    }
    a->tries++;
    EST_TRY(est_packing_payload(&a->item->packing, &payload));
    return est_link_ask(link, EST_METHOD_SEND, est_method_text(EST_METHOD_SEND), payload, EST_FOREVER, sent, a, NULL);
}

/* Takes the attempt over unless it fails. */
static est_status start_attempt(attempt *a)
{
    est_sender *s = a->sender;
    est_link   *link;
    est_status  status;

    if (strcmp(a->item->task, s->server->task) == 0) {
        EST_TRY(est_rendezvous_put(s->server->rendezvous, a->item->id, &a->item->view, a->sends));
        free_attempt(a);
        return EST_OK;
    }
    link = find_link(s, a->item->task);
    if (link == NULL) return queue_attempt(a);
    status = send_over(a, link);
    est_link_free(link);
    return status;
}

est_status est_sender_send(est_sender *s, est_sends *sends)
{
    for (int i = 0; i < sends->n; i++) {
        attempt   *a = est_zalloc(sizeof *a);
        est_status status;

        if (a == NULL) return fail_send(&sends->items[i], est_no_memory());
        *a     = (attempt){ .sender = s, .sends = est_sends_ref(sends), .item = &sends->items[i] };
        status = start_attempt(a);
        if (status == EST_OK) continue;
        status = fail_send(&sends->items[i], status);
        free_attempt(a);
        return status;
    }
    return EST_OK;
}

/* --- links -------------------------------------------------------------------------------------------------------- */

typedef struct looking {
    est_sender *sender;
    int64_t     until_ns;
} looking;

static est_status look(void *user, const char *why)
{
    const looking *l = user;
    bool           stopping;

    pthread_mutex_lock(&l->sender->lock);
    stopping = l->sender->stopping;
    pthread_mutex_unlock(&l->sender->lock);
    if (stopping) return est_fail(EST_ABORTED, "the server is shutting down");
    if (est_machine_ns() < l->until_ns) return EST_OK;
    return est_fail(EST_ABORTED, "it cannot be reached%s%s", why[0] != '\0' ? ": " : "", why);
}

static est_status keep_link(est_sender *s, est_link *link)
{
    est_status status = EST_OK;

    pthread_mutex_lock(&s->lock);
    if (s->n_links == s->max_links) {
        int        max  = s->max_links == 0 ? 8 : 2 * s->max_links;
        est_link **more = est_realloc(s->links, sizeof(est_link *) * (size_t)max);

        if (more != NULL) {
            s->links     = more;
            s->max_links = max;
        } else {
            status = est_no_memory();
        }
    }
    if (status == EST_OK) s->links[s->n_links++] = est_link_ref(link);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static est_status make_link(est_sender *s, const char *task, est_link **out)
{
    const char *colon                 = strrchr(task, ':');
    char        job[EST_NET_NAME_MAX] = "";
    const char *address               = NULL;
    looking     l = { s, est_machine_ns() + (int64_t)(s->server->silence_secs * (double)EST_NS_PER_SEC) };
    est_status  status;

    if (colon != NULL) {
        memcpy(job, task, (size_t)(colon - task));
        address = est_cluster_address(s->server->cluster, job, (int)strtol(colon + 1, NULL, 10));
    }
    if (address == NULL) return est_fail(EST_INVALID_ARGUMENT, "the cluster has no task %s", task);
    EST_TRY(est_net_connect_while(est_server_net(s->server), address, task, look, &l, out));
    est_clients_note_transfers(s->server, *out);
    status = keep_link(s, *out);
    if (status != EST_OK) est_link_free(*out);
    return status;
}

/* Takes what else waits for a link to the same process off the queue. */
static attempt *take_same(est_sender *s, const item *it)
{
    attempt *same = NULL, **at;

    pthread_mutex_lock(&s->lock);
    for (at = &s->first; *at != NULL;) {
        attempt *a = *at;

        if (a->item->incarnation != it->incarnation || strcmp(a->item->task, it->task) != 0) {
            at = &a->next;
            continue;
        }
        *at     = a->next;
        a->next = same;
        same    = a;
    }
    s->last = at;
    pthread_mutex_unlock(&s->lock);
    return same;
}

/* Reports with the last error an attempt that got no link, and all others to that process: each would wait as long, and
 * delay tensors for other tasks. */
static void report_all(attempt *a, est_status status)
{
    attempt  *same = take_same(a->sender, a->item);
    est_error error;

    est_error_take(status, &error);
    a->next = same;
    while (a != NULL) {
        attempt *next = a->next;

        report(a, est_error_raise(&error));
        a = next;
    }
}

static void send_queued(attempt *a)
{
    est_link  *link   = find_link(a->sender, a->item->task);
    est_status status = link != NULL ? EST_OK : make_link(a->sender, a->item->task, &link);

    if (status != EST_OK) {
        report_all(a, status);
        return;
    }
    status = send_over(a, link);
    est_link_free(link);
    if (status != EST_OK) report(a, status);
}

static void *make_links(void *arg)
{
    est_sender *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping || s->first != NULL) {
        attempt *a = s->first;

        if (a == NULL) {
            pthread_cond_wait(&s->changed, &s->lock);
            continue;
        }
        s->first = a->next;
        if (s->first == NULL) s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        send_queued(a);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- life --------------------------------------------------------------------------------------------------------- */

est_status est_sender_create(est_server *server, est_sender **out)
{
    est_sender *s = est_zalloc(sizeof *s);
    est_status  status;

    if (s == NULL) return est_no_memory();
    s->server = server;
    s->last   = &s->first;
    status    = est_lock_init(&s->lock);
    if (status == EST_OK) status = est_cond_init(&s->changed);
    if (status != EST_OK) {
        est_free(s);
        return status;
    }
    *out = s;
    return EST_OK;
}

void est_sender_stop(est_sender *s)
{
    bool has_thread;

    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    has_thread  = s->has_thread; /* no other is started now */
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (has_thread) est_thread_join(&s->thread);
}

void est_sender_free(est_sender *s)
{
    if (s == NULL) return;
    for (int i = 0; i < s->n_links; i++) est_link_free(s->links[i]);
    est_free(s->links);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    est_free(s);
}
