/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: connecting, hello and admission, liveness, farewell. */
#include "net/link.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#define HELLO_NS         (10 * EST_NS_PER_SEC) /* for the hello of a peer */
#define LEAVE_NS         EST_NS_PER_SEC        /* for a peer to read some of the remaining answers */
#define HELLO_FRAME_MAX  1024
#define QUEUED_BYTES_MAX ((size_t)64 << 20) /* of unread answers, above which the peer's requests are not read */

est_status est_link_create(est_net *net, const char *address, const char *wanted, est_link **out)
{
    est_link  *link = est_zalloc(sizeof *link);
    est_status status;

    if (link == NULL) return est_no_memory();
    status = est_lock_init(&link->lock);
    if (status != EST_OK) goto free_link;
    status = est_cond_init(&link->changed);
    if (status != EST_OK) goto destroy_lock;

    est_refcount_init(&link->refs);
    link->net       = net;
    link->transport = net->transport;
    link->blocks    = est_blocks_ref(net->blocks);
    link->made_ns   = est_machine_ns();
    snprintf(link->address, sizeof link->address, "%s", address);
    snprintf(link->wanted, sizeof link->wanted, "%s", wanted);
    *out = link;
    return EST_OK;

destroy_lock:
    pthread_mutex_destroy(&link->lock);
free_link:
    est_free(link);
    return status;
}

est_link *est_link_ref(est_link *link)
{
    est_refcount_add(&link->refs);
    return link;
}

void est_link_free(est_link *link)
{
    if (link == NULL || !est_refcount_drop(&link->refs)) return;
    est_free(link->slots);
    est_blocks_free(link->blocks);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->lock);
    est_free(link);
}

void est_link_add(est_link *link)
{
    est_net *net = link->net;

    link->next = net->links;
    if (net->links != NULL) net->links->previous = link;
    net->links   = est_link_ref(link);
    link->listed = true;
    pthread_mutex_lock(&link->lock);
    pthread_mutex_lock(&net->lock);
    link->cancelled = net->cancelled;
    pthread_mutex_unlock(&net->lock);
    pthread_mutex_unlock(&link->lock);
}

static void remove_link(est_link *link)
{
    if (link->next != NULL) link->next->previous = link->previous;
    if (link->previous != NULL) {
        link->previous->next = link->next;
    } else {
        link->net->links = link->next;
    }
    link->listed = false;
}

const char *est_link_name(const est_link *link)
{
    return link->peer.task[0] != '\0' ? link->peer.task : link->wanted[0] != '\0' ? link->wanted : link->address;
}

/* --- sending: the lock is held ------------------------------------------------------------------------------------ */

est_status est_link_send(est_link *link, est_frame_kind kind, uint64_t id, uint16_t method, est_payload payload,
                         void *owner)
{
    est_outgoing out  = { .frame = { .kind = kind, .id = id, .method = method }, .payload = payload, .owner = owner };
    bool         wake = false;
    est_status   status;

    EST_TRY(est_frame_measure(&payload, &out.frame));
    status        = link->transport->send(link->wire, &out, &wake);
    link->sent_ns = est_machine_ns();
    if (status == EST_OK) link->counters.bytes_out += EST_FRAME_BYTES + out.frame.body_size;
    if (!link->full && link->transport->queued_bytes(link->wire) > QUEUED_BYTES_MAX) link->full = wake = true;
    if (wake) est_net_flag(link->net, link);
    return status;
}

void est_link_send_text(est_link *link, est_frame_kind kind, uint64_t id, est_status status, const char *text)
{
    uint8_t     head[EST_FAREWELL_MAX];
    est_payload payload = { .head = head, .head_size = est_farewell_encode(status, text, head) };

    /* Out of memory for the answer: closes the link, or the peer would wait in vain. */
    if (est_link_send(link, kind, id, 0, payload, NULL) != EST_OK && kind == EST_FRAME_FAILURE) {
        link->close_wanted = true;
        snprintf(link->why, sizeof link->why, "no memory to answer");
        est_net_flag(link->net, link);
    }
}

/* --- hello -------------------------------------------------------------------------------------------------------- */

static est_status send_hello(est_link *link)
{
    est_hello hello = { .self = link->net->options.self };
    uint8_t   head[EST_HELLO_BYTES];

    memcpy(hello.wanted, link->wanted, sizeof hello.wanted);
    est_hello_encode(&hello, head);
    return est_link_send(link, EST_FRAME_HELLO, 0, 0, (est_payload){ .head = head, .head_size = sizeof head }, NULL);
}

static void set_state(est_link *link, est_link_state state)
{
    pthread_mutex_lock(&link->lock);
    link->state = state;
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

/* Drops a connection to make room for another; false: none can be dropped. */
static bool drop_unfinished(est_net *net)
{
    est_unfinished_entry *entry = est_unfinished_victim(&net->unfinished);

    if (entry == NULL) return false;
    est_link_lose(EST_CONTAINER_OF(entry, est_link, unfinished), EST_RESOURCE_EXHAUSTED,
                  "too many connections wait for admission, and this was the oldest from its address");
    return true;
}

est_link *est_link_accept(est_net *net, est_wire *wire, const char *address, bool scarce, pthread_mutex_t **lock)
{
    est_link *link;

    if ((scarce || net->unfinished.n >= net->unfinished.n_max) && !drop_unfinished(net)) {
        est_net_warn(net, address, "out of file descriptors (raise the limit: ulimit -n)");
        return NULL;
    }
    if (est_link_create(net, address, "", &link) != EST_OK) {
        est_net_warn(net, address, est_error_message());
        return NULL;
    }
    link->accepted = true;
    link->wire     = wire;
    *lock          = &link->lock;
    est_link_add(link);
    est_link_free(link); /* the list has a reference */
    est_unfinished_add(&net->unfinished, &link->unfinished, address);
    return link;
}

void est_link_opened(est_link *link)
{
    est_status status = EST_OK;

    set_state(link, EST_LINK_HELLO);
    if (link->accepted) return; /* the accepting side answers */
    est_link_inject(link);
    pthread_mutex_lock(&link->lock);
    status = send_hello(link);
    pthread_mutex_unlock(&link->lock);
    if (status != EST_OK) est_link_lose(link, status, "no memory for a hello");
}

/* Tells the peer why it is refused, and closes. */
static void refuse(est_link *link, est_status status, const char *why)
{
    char text[EST_WHY_MAX];

    snprintf(text, sizeof text, "refused by %s: %s", link->net->options.self.task, why);
    pthread_mutex_lock(&link->lock);
    est_link_send_text(link, EST_FRAME_FAILURE, 0, status, text);
    pthread_mutex_unlock(&link->lock);
    est_link_leave(link, status, why);
}

/* What goes before the name of a job. */
static const char *job_word(const char *job)
{
    return job[0] != '\0' ? "job " : "no job (set ESTOC_JOB)";
}

static void let_in(est_link *link, const est_task_id *peer)
{
    est_net   *net    = link->net;
    est_status status = EST_OK;

    pthread_mutex_lock(&link->lock);
    link->peer = *peer;
    pthread_mutex_unlock(&link->lock);
    est_link_inject(link);
    pthread_mutex_lock(&link->lock);
    if (link->accepted) status = send_hello(link);
    if (status == EST_OK) {
        link->state    = EST_LINK_OPEN;
        link->heard_ns = est_machine_ns();
    }
    pthread_mutex_unlock(&link->lock);
    if (status != EST_OK) {
        est_link_lose(link, status, "no memory for a hello");
        return;
    }
    est_unfinished_remove(&net->unfinished, &link->unfinished);
    link->met = true;
    if (net->options.met != NULL) net->options.met(net->options.user, link);
    pthread_mutex_lock(&link->lock);
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);
}

/* A peer whose admission needs a look at the disk. */
typedef struct judgement {
    uv_work_t     work;
    est_net      *net;
    est_link     *link; /* a reference */
    est_task_id   peer;
    est_admission admission;
    char          why[EST_WHY_MAX];
} judgement;

/* In a thread of the loop's pool. */
static void judge(uv_work_t *work)
{
    judgement *j = EST_CONTAINER_OF(work, judgement, work);

    j->admission = j->net->options.admit(j->net->options.user, &j->peer, true, j->why, sizeof j->why);
}

static void on_judged(uv_work_t *work, int cancelled)
{
    judgement *j = EST_CONTAINER_OF(work, judgement, work);

    (void)cancelled; /* the link is lost then */
    j->link->judging = NULL;
    if (j->link->state == EST_LINK_HELLO && j->admission == EST_ADMITTED) {
        let_in(j->link, &j->peer);
    } else if (j->link->state == EST_LINK_HELLO) { /* it may not have waited */
        refuse(j->link, EST_FAILED_PRECONDITION, j->why);
    }
    est_link_free(j->link);
    est_free(j);
}

static void begin_to_judge(est_link *link, const est_task_id *peer)
{
    judgement *j = est_zalloc(sizeof *j);

    if (j == NULL) {
        est_link_lose(link, EST_RESOURCE_EXHAUSTED, "no memory for a hello");
        return;
    }
    *j            = (judgement){ .net = link->net, .link = est_link_ref(link), .peer = *peer };
    link->judging = &j->work; /* and it stays unfinished until it is admitted: anyone can claim a name */
    (void)uv_queue_work(&link->net->loop, &j->work, judge, on_judged); /* fails without a function only */
}

static void welcome(est_link *link, const est_hello *hello)
{
    est_net          *net  = link->net;
    const est_task_id self = net->options.self;
    char              why[EST_WHY_MAX];
    est_admission     admission = EST_ADMITTED;

    if (strcmp(hello->self.job, self.job) != 0) {
        snprintf(why, sizeof why, "%s belongs to %s%s, this task to %s%s", hello->self.task, job_word(hello->self.job),
                 hello->self.job, job_word(self.job), self.job);
        refuse(link, EST_PERMISSION_DENIED, why);
        return;
    }
    if (hello->wanted[0] != '\0' && strcmp(hello->wanted, self.task) != 0) {
        snprintf(why, sizeof why, "%s looks for %s, but this is %s", hello->self.task, hello->wanted, self.task);
        refuse(link, EST_FAILED_PRECONDITION, why);
        return;
    }
    if (link->wanted[0] != '\0' && strcmp(hello->self.task, link->wanted) != 0) {
        snprintf(why, sizeof why, "it is %s, not %s", hello->self.task, link->wanted);
        refuse(link, EST_FAILED_PRECONDITION, why);
        return;
    }
    if (link->accepted && net->options.admit != NULL)
        admission = net->options.admit(net->options.user, &hello->self, false, why, sizeof why);
    if (admission == EST_REFUSED) {
        refuse(link, EST_FAILED_PRECONDITION, why);
    } else if (admission == EST_UNDECIDED) {
        begin_to_judge(link, &hello->self);
    } else {
        let_in(link, &hello->self);
    }
}

static void on_hello_frame(est_link *link, const est_frame *frame, est_message *message)
{
    est_hello   hello;
    est_status  status, code;
    char        text[EST_FAREWELL_MAX];
    size_t      size;
    const void *head = est_message_head(message, &size);

    if (link->judging != NULL) {
        status = est_fail(EST_DATA_LOSS, "it sent data before it was admitted");
    } else if (frame->kind == EST_FRAME_HELLO) {
        status = est_hello_decode(head, size, &hello);
        if (status == EST_OK) {
            welcome(link, &hello);
            return;
        }
    } else if (frame->kind == EST_FRAME_FAILURE && !link->accepted) {
        status = est_farewell_decode(head, size, &code, text);
        if (status == EST_OK) {
            est_link_lose(link, code == EST_UNAVAILABLE ? EST_PERMISSION_DENIED : code, text);
            return;
        }
    } else {
        status = est_fail(EST_DATA_LOSS, "it sent data before its hello");
    }
    est_link_lose(link, status, est_error_message());
}

/* --- frames that come --------------------------------------------------------------------------------------------- */

est_status est_link_room(est_link *link, const est_frame *frame, est_message **out)
{
    size_t     limit  = link->net->options.message_max;
    est_status status = EST_OK;

    if (frame->sequence != link->sequence) {
        status = est_fail(EST_DATA_LOSS, "received frame %llu instead of %llu: one was lost or repeated",
                          (unsigned long long)frame->sequence, (unsigned long long)link->sequence);
    } else if (link->state == EST_LINK_HELLO &&
               (frame->body_size > HELLO_FRAME_MAX || frame->n_parts > 0 ||
                (frame->kind != EST_FRAME_HELLO && frame->kind != EST_FRAME_FAILURE))) {
        status = est_fail(EST_DATA_LOSS, "it sent data before its hello");
    } else if (frame->body_size > limit) {
        status = est_fail(EST_DATA_LOSS, "a message of %.1f MB was announced; %.1f MB are allowed",
                          (double)frame->body_size / 1e6, (double)limit / 1e6);
    }
    if (status == EST_OK) status = est_message_create(link->blocks, frame, out);
    if (status != EST_OK) est_link_lose(link, status, est_error_message());
    return status;
}

static void on_bye(est_link *link, est_message *message)
{
    est_status  code;
    char        text[EST_FAREWELL_MAX], why[EST_WHY_MAX];
    size_t      size;
    const void *head = est_message_head(message, &size);

    if (est_farewell_decode(head, size, &code, text) != EST_OK) text[0] = '\0';
    snprintf(why, sizeof why, "closed by %s: %.400s", est_link_name(link), text);
    est_link_lose(link, EST_UNAVAILABLE, why);
}

/* Stops reading while answers pile up. */
static void check_queue(est_link *link)
{
    bool was_full, full;

    if (link->state != EST_LINK_OPEN) return;
    pthread_mutex_lock(&link->lock);
    was_full = link->full;
    full     = link->transport->queued_bytes(link->wire) > (was_full ? QUEUED_BYTES_MAX / 2 : QUEUED_BYTES_MAX);
    if (link->held && !full) link->heard_ns = est_machine_ns(); /* the time while nothing was read is no silence */
    link->full = full;
    pthread_mutex_unlock(&link->lock);
    if (full != link->held) {
        link->held = full;
        link->transport->hold(link->wire, full);
    }
    if (was_full && !full && link->net->options.drained != NULL)
        link->net->options.drained(link->net->options.user, link);
}

void est_link_drained(est_link *link)
{
    check_queue(link);
}

bool est_link_frame(est_link *link, const est_frame *frame, est_message *message)
{
    est_wire  *wire   = link->wire;
    est_status status = est_message_finish(message, frame);

    link->sequence++;
    est_link_ref(link);
    if (status != EST_OK) {
        est_link_lose(link, status, est_error_message());
        est_message_free(message);
    } else if (link->state == EST_LINK_HELLO) {
        on_hello_frame(link, frame, message);
        est_message_free(message);
    } else if (frame->kind == EST_FRAME_BYE) {
        on_bye(link, message);
        est_message_free(message);
    } else if (link->state != EST_LINK_OPEN || frame->kind == EST_FRAME_BEAT) {
        est_message_free(message);
    } else if (frame->kind == EST_FRAME_REQUEST) {
        est_asks_serve(link, frame, message);
    } else if (frame->kind == EST_FRAME_ANSWER || frame->kind == EST_FRAME_FAILURE) {
        est_asks_answered(link, frame, message);
    } else {
        est_link_lose(link, EST_DATA_LOSS, "it sent a second hello");
        est_message_free(message);
    }
    check_queue(link);
    wire = link->wire == wire ? wire : NULL;
    est_link_free(link);
    return wire != NULL;
}

void est_link_heard(est_link *link, size_t bytes)
{
    pthread_mutex_lock(&link->lock);
    link->heard_ns = est_machine_ns();
    link->counters.bytes_in += bytes;
    pthread_mutex_unlock(&link->lock);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void est_link_broken(est_link *link, est_status status, const char *why)
{
    char text[EST_WHY_MAX];

    if (link->state == EST_LINK_HELLO && !link->accepted && status == EST_UNAVAILABLE) {
        snprintf(text, sizeof text, "%s before its hello (does one side use tls and the other tcp?)", why);
        why = text;
    }
    est_link_lose(link, status, why);
}

void est_link_lose(est_link *link, est_status status, const char *why)
{
    est_net  *net = link->net;
    est_wire *wire;
    char      text[EST_WHY_MAX];

    if (link->state == EST_LINK_LOST) return;
    if (link->accepted && !link->met) {
        est_unfinished_remove(&net->unfinished, &link->unfinished);
        net->n_strangers++;
        if (link->judging != NULL)
            (void)uv_cancel((uv_req_t *)link->judging); /* unless a thread decides on admission */
        /* A connection without a hello was probably a port check. */
        if (link->state < EST_LINK_CLOSING && (status != EST_UNAVAILABLE || link->counters.bytes_in > 0)) {
            est_net_warn(net, link->address, why);
        } else if (link->state == EST_LINK_CLOSING) {
            est_net_warn(net, link->address, link->why);
        }
    }
    pthread_mutex_lock(&link->lock);
    wire       = link->wire;
    link->wire = NULL;
    if (wire != NULL) link->transport->end(wire); /* before asks end and their parts are reused */
    if (link->state != EST_LINK_CLOSING) {
        link->failure = status;
        snprintf(link->why, sizeof link->why, "%s", why);
    }
    link->state = EST_LINK_LOST;
    snprintf(text, sizeof text, "%s", link->why);
    est_asks_fail_all(link, EST_UNAVAILABLE, link->why, false);
    pthread_cond_broadcast(&link->changed);
    pthread_mutex_unlock(&link->lock);

    est_asks_call(link);
    if (link->met && net->options.lost != NULL) net->options.lost(net->options.user, link, text);
    if (link->listed) {
        remove_link(link);
        est_link_free(link);
    }
}

void est_link_leave(est_link *link, est_status status, const char *why)
{
    if (link->state >= EST_LINK_CLOSING) return;
    if (link->state == EST_LINK_CONNECTING || (link->state == EST_LINK_HELLO && !link->accepted)) {
        est_link_lose(link, status, why);
        return;
    }
    pthread_mutex_lock(&link->lock);
    if (link->state == EST_LINK_OPEN) est_link_send_text(link, EST_FRAME_BYE, 0, EST_UNAVAILABLE, why);
    link->failure = status;
    snprintf(link->why, sizeof link->why, "%s", why);
    est_asks_fail_all(link, status, link->why, false);
    link->state       = EST_LINK_CLOSING;
    link->close_by_ns = est_machine_ns() + LEAVE_NS;
    pthread_mutex_unlock(&link->lock);
    est_asks_call(link);
    if (link->held) link->transport->hold(link->wire, false);
    link->held        = false;
    link->half_closed = link->transport->finish(link->wire);
}

void est_link_close(est_link *link, const char *why)
{
    pthread_mutex_lock(&link->lock);
    if (link->state < EST_LINK_CLOSING && !link->close_wanted) {
        link->close_wanted = true;
        snprintf(link->why, sizeof link->why, "%s", why);
        est_net_flag(link->net, link);
    }
    pthread_mutex_unlock(&link->lock);
}

/* --- in the network thread, now and then -------------------------------------------------------------------------- */

void est_link_look(est_link *link)
{
    char why[EST_WHY_MAX];
    bool close_wanted;

    if (link->state == EST_LINK_LOST) return;
    pthread_mutex_lock(&link->lock);
    close_wanted = link->close_wanted;
    memcpy(why, link->why, sizeof why);
    pthread_mutex_unlock(&link->lock);
    if (close_wanted) est_link_leave(link, EST_UNAVAILABLE, why);
    if (link->wire != NULL) link->transport->flush(link->wire);
    check_queue(link);
    if (link->state == EST_LINK_CLOSING && !link->half_closed) {
        link->half_closed = link->transport->finish(link->wire);
    }
}

/* Whether the peer has read anything since the last call. */
static bool takes_bytes(est_link *link)
{
    uint64_t before = link->taken_bytes;

    pthread_mutex_lock(&link->lock);
    if (link->wire != NULL) link->taken_bytes = link->transport->taken_bytes(link->wire);
    pthread_mutex_unlock(&link->lock);
    return link->taken_bytes != before;
}

void est_link_tick(est_link *link, int64_t now_ns)
{
    int64_t    silence_ns = link->net->silence_ns;
    char       why[128];
    uint64_t   taken;
    bool       silent, quiet;
    est_status beat = EST_OK;

    if (link->state <= EST_LINK_HELLO && now_ns - link->made_ns > HELLO_NS) {
        est_link_lose(link, EST_UNAVAILABLE, "it sent no hello within 10 s");
        return;
    }
    if (link->state == EST_LINK_CLOSING) {
        if (takes_bytes(link)) link->close_by_ns = now_ns + LEAVE_NS;
        if (now_ns > link->close_by_ns) {
            est_link_lose(link, EST_UNAVAILABLE, "");
        } else {
            est_link_look(link);
        }
        return;
    }
    if (link->state == EST_LINK_OPEN && link->held) link->transport->flush(link->wire);
    if (link->state != EST_LINK_OPEN) return;
    pthread_mutex_lock(&link->lock);
    /* Nothing is read from a held peer, so only its reading shows that it is alive. */
    taken = link->transport->taken_bytes(link->wire);
    if (link->held && taken != link->taken_bytes) link->heard_ns = now_ns;
    link->taken_bytes = taken;
    silent            = now_ns - link->heard_ns > silence_ns;
    quiet             = now_ns - link->sent_ns > silence_ns / 3;
    /* Out of memory for a heartbeat: the next tick tries again. */
    if (quiet && !silent) beat = est_link_send(link, EST_FRAME_BEAT, 0, 0, (est_payload){ 0 }, NULL);
    if (beat != EST_OK) link->sent_ns = now_ns - silence_ns / 2;
    est_asks_expire(link, now_ns);
    pthread_mutex_unlock(&link->lock);
    est_asks_call(link);
    if (!silent) return;
    snprintf(why, sizeof why,
             link->held ? "%s read nothing of what was sent to it for %g s" : "nothing came from %s for %g s",
             est_link_name(link), (double)silence_ns / 1e9);
    est_link_lose(link, EST_UNAVAILABLE, why);
}

/* --- what callers see --------------------------------------------------------------------------------------------- */

const est_task_id *est_link_peer(const est_link *link)
{
    return &link->peer;
}

static pthread_mutex_t *lock_of(const est_link *link)
{
    est_link *own;

    memcpy(&own, &link, sizeof own); /* the lock is needed to read the state */
    return &own->lock;
}

bool est_link_is_lost(const est_link *link)
{
    bool lost;

    pthread_mutex_lock(lock_of(link));
    lost = link->state >= EST_LINK_CLOSING || link->close_wanted;
    pthread_mutex_unlock(lock_of(link));
    return lost;
}

bool est_link_is_full(const est_link *link)
{
    bool full;

    pthread_mutex_lock(lock_of(link));
    full = link->state == EST_LINK_OPEN && link->full;
    pthread_mutex_unlock(lock_of(link));
    return full;
}

est_link_counters est_link_count(const est_link *link)
{
    est_link_counters counters;

    pthread_mutex_lock(lock_of(link));
    counters             = link->counters;
    counters.silent_secs = (double)(est_machine_ns() - link->heard_ns) / 1e9;
    pthread_mutex_unlock(lock_of(link));
    return counters;
}

void est_link_inject(est_link *link)
{
    est_net    *net  = link->net;
    const char *task = link->peer.task[0] != '\0' ? link->peer.task : link->wanted;

    if (net->injected.what == EST_INJECT_NOTHING || link->wire == NULL || strcmp(task, net->injected.task) != 0) return;
    pthread_mutex_lock(&link->lock);
    if (link->transport->inject != NULL) link->transport->inject(link->wire, net->injected.what, net->injected.n);
    pthread_mutex_unlock(&link->lock);
    link->transport->hold(link->wire, net->injected.what == EST_INJECT_SILENCE);
}
