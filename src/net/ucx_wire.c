/* SPDX-License-Identifier: Apache-2.0
 *
 * Wires of the transport ucx. A frame is one active message. Its first bytes (header, table and head) are the message's
 * header when they are few; the parts are sent from where they lie and land in the message's block. UCX promises no
 * order between large and small messages, so a wire hands its arrivals over by their sequence numbers, one at a
 * time. */
#if defined(EST_UCX) && EST_UCX

#include "net/ucx_wire.h"

#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/thread.h"

#define TAKE_NS EST_NS_PER_SEC /* for a peer to fetch parts that the sender wants back */

/* --- under the carrier's lock ------------------------------------------------------------------------------------- */

void est_ucx_make_ready(est_wire *wire)
{
    if (wire->is_ready || wire->ended) return;
    wire->is_ready       = true;
    wire->next_ready     = wire->carrier->ready;
    wire->carrier->ready = wire;
}

void est_ucx_break(est_wire *wire, ucs_status_t why)
{
    if (wire->broken == UCS_OK) wire->broken = why;
    est_ucx_make_ready(wire);
}

static void remove_sending(sending *s)
{
    est_wire *wire = s->wire;

    if (s->next != NULL) s->next->previous = s->previous;
    if (s->previous != NULL) {
        s->previous->next = s->next;
    } else {
        wire->sendings = s->next;
    }
    wire->copied_bytes -= s->copied_bytes;
    wire->taken_bytes += s->copied_bytes;
    est_block_free(wire->carrier->blocks, s);
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
    sending  *s    = user;
    est_wire *wire = s->wire;

    wire->carrier->ucx->ucp_request_free(request);
    remove_sending(s);
    wire->drained = true;
    if (status != UCS_OK) est_ucx_break(wire, status);
    est_ucx_make_ready(wire);
}

void est_ucx_on_error(void *user, ucp_ep_h ep, ucs_status_t status)
{
    est_wire *wire = user;

    if (wire->ep == ep) est_ucx_break(wire, status);
}

static void on_received(void *request, ucs_status_t status, size_t size, void *user)
{
    arrival *a = user;

    (void)size;
    a->wire->carrier->ucx->ucp_request_free(request);
    a->status = status;
    a->done   = true;
    est_ucx_make_ready(a->wire);
}

static est_wire *find_wire(est_carrier *carrier, ucp_ep_h ep)
{
    for (est_wire *wire = carrier->wires; wire != NULL; wire = wire->next) {
        if (wire->ep == ep) return wire;
    }
    return NULL;
}

/* Notes an arrival; what UCX cannot keep is copied. */
ucs_status_t est_ucx_on_frame(void *user, const void *front, size_t front_bytes, void *data, size_t size,
                              const ucp_am_recv_param_t *param)
{
    est_carrier *carrier = user;
    est_wire *wire  = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ? find_wire(carrier, param->reply_ep) : NULL;
    bool      large = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    bool      kept  = large || (size > 0 && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0);
    arrival  *a;
    uint8_t  *room;

    if (wire == NULL) return UCS_OK; /* of one that we have closed */
    a = est_block_alloc(carrier->blocks, sizeof *a + front_bytes + (kept ? 0 : size));
    if (a == NULL) {
        est_ucx_break(wire, UCS_ERR_NO_MEMORY);
        return UCS_OK;
    }
    room = (uint8_t *)(a + 1);
    *a   = (arrival){ .wire        = wire,
                      .front_bytes = front_bytes,
                      .size        = size,
                      .data        = kept ? data : room + front_bytes,
                      .kept        = kept ? data : NULL,
                      .large       = large };
    if (front_bytes > 0) memcpy(room, front, front_bytes);
    if (!kept && size > 0) memcpy(room + front_bytes, data, size);
    /* One that cannot be read has the sequence 0, so that it is looked at next. */
    if (est_frame_decode(room, front_bytes, &a->frame) != EST_OK) a->frame = (est_frame){ 0 };
    if (wire->first == NULL) {
        wire->first = a;
    } else {
        wire->last->next = a;
    }
    wire->last = a;
    wire->heard_bytes += front_bytes + size;
    est_ucx_make_ready(wire);
    return kept ? UCS_INPROGRESS : UCS_OK;
}

/* Requests under way fail soon. */
static void close_endpoint(est_wire *wire)
{
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };
    ucs_status_ptr_t          request;

    if (wire->ep == NULL) return;
    request  = wire->carrier->ucx->ucp_ep_close_nbx(wire->ep, &param);
    wire->ep = NULL;
    if (UCS_PTR_IS_PTR(request)) wire->closing = request;
}

static bool is_sending(const est_wire *wire, const void *owner)
{
    for (const sending *s = wire->sendings; s != NULL; s = s->next) {
        if (s->owner != NULL && (owner == NULL || s->owner == owner)) return true;
    }
    return false;
}

/* Waits until an owner's frames (NULL: those of all) have left, giving others the lock now and then. */
static bool wait_for_owner(est_wire *wire, const void *owner, int64_t until_ns)
{
    est_carrier *carrier = wire->carrier;

    while (is_sending(wire, owner)) {
        if (carrier->ucx->ucp_worker_progress(carrier->worker) > 0) continue;
        if (est_machine_ns() > until_ns) return false;
        pthread_mutex_unlock(&carrier->lock);
        sched_yield();
        pthread_mutex_lock(&carrier->lock);
    }
    return true;
}

/* Drops one that is not handed over. */
static void drop(arrival *a)
{
    est_carrier *carrier = a->wire->carrier;

    if (a->kept != NULL) carrier->ucx->ucp_am_data_release(carrier->worker, a->kept);
    est_message_free(a->message);
    est_block_free(carrier->blocks, a);
}

/* --- sending: under the link's lock ------------------------------------------------------------------------------- */

/* The pieces behind the front: the parts, and what fills up the room between them. */
static size_t list_pieces(const est_payload *payload, uint8_t *copy, ucp_dt_iov_t *iov)
{
    static const uint8_t zeros[64];
    size_t               n = 0;

    for (int i = 0; i < payload->n_parts; i++) {
        const est_part *part = &payload->parts[i];
        const void     *data = part->data, *fill = zeros;

        if (copy != NULL) {
            if (part->size > 0) memcpy(copy, part->data, part->size);
            data = copy;
            copy += part->size;
        }
        memcpy(&iov[n].buffer, &data, sizeof data); /* the list knows no const */
        iov[n++].length = part->size;
        if (i + 1 < payload->n_parts && (part->size & 63) != 0) {
            memcpy(&iov[n].buffer, &fill, sizeof fill);
            iov[n++].length = -part->size & 63;
        }
    }
    return n;
}

/* Hands a frame to UCX: its front is the message's header if it is short, or else one more piece. */
static void post(est_wire *wire, sending *s, ucp_dt_iov_t *iov, size_t n, uint8_t *front, size_t front_bytes)
{
    const est_ucx_library *ucx    = wire->carrier->ucx;
    size_t                 header = front_bytes <= wire->carrier->front_max ? front_bytes : EST_FRAME_BYTES;
    ucp_request_param_t    param  = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                      UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS,
                                      .flags     = UCP_AM_SEND_FLAG_REPLY,
                                      .cb.send   = on_sent,
                                      .user_data = s,
                                      .datatype  = ucp_dt_make_contig(1) };
    ucs_status_ptr_t       request;

    if (header < front_bytes) {
        iov[0] = (ucp_dt_iov_t){ .buffer = front + header, .length = front_bytes - header };
    } else {
        iov++;
        n--;
    }
    if (n > 1) param.datatype = ucp_dt_make_iov();
    request = ucx->ucp_am_send_nbx(wire->ep, EST_UCX_FRAME, front, header,
                                   n > 1    ? iov
                                   : n == 1 ? iov[0].buffer
                                            : NULL,
                                   n > 1    ? n
                                   : n == 1 ? iov[0].length
                                            : 0,
                                   &param);
    if (UCS_PTR_IS_PTR(request)) return;
    remove_sending(s);
    if (UCS_PTR_IS_ERR(request)) est_ucx_break(wire, UCS_PTR_STATUS(request));
}

/* true: a test injected the loss of this frame. */
static bool is_injected(est_wire *wire, uint64_t bytes)
{
    if (wire->injection == EST_INJECT_SILENCE) return true;
    if (wire->injection == EST_INJECT_CUT && bytes > wire->cut_after) {
        pthread_mutex_lock(&wire->carrier->lock);
        est_ucx_break(wire, UCS_ERR_CONNECTION_RESET);
        pthread_mutex_unlock(&wire->carrier->lock);
        return true;
    }
    wire->cut_after -= wire->injection == EST_INJECT_CUT ? bytes : 0;
    return false;
}

est_status est_ucx_send(est_wire *wire, est_outgoing *out, bool *wake)
{
    est_carrier *carrier     = wire->carrier;
    size_t       front_bytes = est_frame_front_bytes(&out->frame), list, copied = 0, n;
    bool         fault = EST_FAULT_POINT("net.send"), under_way;
    sending     *s;
    uint8_t     *front;

    if (is_injected(wire, EST_FRAME_BYTES + out->frame.body_size)) {
        *wake = true;
        return EST_OK;
    }
    list = (1 + 2 * (size_t)out->payload.n_parts) * sizeof(ucp_dt_iov_t);
    for (int i = 0; out->owner == NULL && i < out->payload.n_parts; i++) copied += out->payload.parts[i].size;
    s = copied <= SIZE_MAX / 4 ? est_block_alloc(carrier->blocks, sizeof *s + list + front_bytes + copied) : NULL;
    if (s == NULL) return est_no_memory();
    *s = (sending){ .wire = wire, .owner = out->owner, .copied_bytes = out->owner == NULL ? front_bytes + copied : 0 };
    front = (uint8_t *)(s + 1) + list;
    est_frame_write_front(&out->payload, &out->frame, front);
    out->frame.sequence = wire->next_out++;
    est_frame_encode(&out->frame, front);
    n = 1 + list_pieces(&out->payload, out->owner == NULL ? front + front_bytes : NULL, (ucp_dt_iov_t *)(s + 1) + 1);

    pthread_mutex_lock(&carrier->lock);
    s->next = wire->sendings;
    if (s->next != NULL) s->next->previous = s;
    wire->sendings = s;
    wire->copied_bytes += s->copied_bytes;
    if (fault) est_ucx_break(wire, UCS_ERR_CONNECTION_RESET);
    if (wire->ep == NULL || wire->broken != UCS_OK) {
        remove_sending(s);
    } else {
        post(wire, s, (ucp_dt_iov_t *)(s + 1), n, front, front_bytes);
    }
    under_way = wire->sendings != NULL || wire->broken != UCS_OK;
    pthread_mutex_unlock(&carrier->lock);
    *wake = under_way; /* UCX works only when it is called */
    return EST_OK;
}

/* UCX cannot switch to a copy; so this waits, and breaks the link to a peer that does not fetch the data. */
void est_ucx_forget(est_wire *wire, const void *owner, bool *wake)
{
    est_carrier *carrier = wire->carrier;

    pthread_mutex_lock(&carrier->lock);
    if (is_sending(wire, owner)) {
        *wake = true;
        if (!wait_for_owner(wire, owner, est_machine_ns() + TAKE_NS)) {
            est_ucx_break(wire, UCS_ERR_TIMED_OUT);
            close_endpoint(wire);
            (void)wait_for_owner(wire, owner, INT64_MAX); /* keeps U1: what is closed is given up */
        }
    }
    pthread_mutex_unlock(&carrier->lock);
}

uint64_t est_ucx_taken_bytes(const est_wire *wire)
{
    uint64_t bytes;

    pthread_mutex_lock(&wire->carrier->lock);
    bytes = wire->taken_bytes;
    pthread_mutex_unlock(&wire->carrier->lock);
    return bytes;
}

size_t est_ucx_queued_bytes(const est_wire *wire)
{
    size_t bytes;

    pthread_mutex_lock(&wire->carrier->lock);
    bytes = wire->copied_bytes;
    pthread_mutex_unlock(&wire->carrier->lock);
    return bytes;
}

void est_ucx_inject(est_wire *wire, est_injection what, uint64_t n)
{
    wire->injection = what;
    wire->cut_after = n;
}

/* --- in the network thread ---------------------------------------------------------------------------------------- */

static void locked_make_ready(est_wire *wire)
{
    pthread_mutex_lock(&wire->carrier->lock);
    est_ucx_make_ready(wire);
    pthread_mutex_unlock(&wire->carrier->lock);
}

void est_ucx_flush(est_wire *wire)
{
    locked_make_ready(wire);
}

void est_ucx_hold(est_wire *wire, bool on)
{
    wire->held = on;
    locked_make_ready(wire);
}

/* The peer closes when it has read our farewell. */
bool est_ucx_finish(est_wire *wire)
{
    bool done;

    pthread_mutex_lock(&wire->carrier->lock);
    done = wire->sendings == NULL;
    pthread_mutex_unlock(&wire->carrier->lock);
    return done;
}

void est_ucx_end(est_wire *wire)
{
    est_carrier *carrier = wire->carrier;

    pthread_mutex_lock(&carrier->lock);
    wire->ended = true;
    close_endpoint(wire);
    (void)wait_for_owner(wire, NULL, INT64_MAX); /* keeps U1 */
    pthread_mutex_unlock(&carrier->lock);
}

static void hand_over(est_wire *wire, arrival *a)
{
    est_frame    frame   = a->frame;
    est_message *message = a->message;

    a->message = NULL;
    pthread_mutex_lock(&wire->carrier->lock);
    drop(a);
    pthread_mutex_unlock(&wire->carrier->lock);
    wire->next_in++;
    (void)est_link_frame(wire->link, &frame, message);
}

static void break_link(est_wire *wire, ucs_status_t why)
{
    est_link_broken(wire->link, why == UCS_ERR_NO_MEMORY ? EST_RESOURCE_EXHAUSTED : EST_UNAVAILABLE,
                    wire->carrier->ucx->ucs_status_string(why));
}

/* Starts to fetch the data that the peer kept. */
static void fetch(est_wire *wire, arrival *a, uint8_t *to)
{
    est_carrier        *carrier = wire->carrier;
    ucp_request_param_t param   = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                    .cb.recv_am   = on_received,
                                    .user_data    = a };
    ucs_status_ptr_t    request;

    wire->receiving = a;
    pthread_mutex_lock(&carrier->lock);
    request = carrier->ucx->ucp_am_recv_data_nbx(carrier->worker, a->kept, to, a->size, &param);
    a->kept = NULL; /* UCX has it back */
    if (!UCS_PTR_IS_PTR(request)) {
        a->done   = true;
        a->status = UCS_PTR_STATUS(request);
    }
    pthread_mutex_unlock(&carrier->lock);
}

/* Checks a received frame. */
static est_status check(const arrival *a)
{
    est_frame frame;

    EST_TRY(est_frame_decode((const uint8_t *)(a + 1), a->front_bytes, &frame));
    if (a->front_bytes - EST_FRAME_BYTES > frame.body_size ||
        frame.body_size - (a->front_bytes - EST_FRAME_BYTES) != a->size) {
        return est_fail(EST_DATA_LOSS, "a frame does not have the length that its header gives");
    }
    return EST_OK;
}

/* Makes a message of the next arrival. */
static void take(est_wire *wire, arrival *a)
{
    est_status status = check(a);
    size_t     begun  = a->front_bytes - EST_FRAME_BYTES; /* of the body */
    uint8_t   *body;

    if (status != EST_OK) {
        est_error error;

        est_error_take(status, &error);
        est_link_broken(wire->link, status, error.message);
    } else {
        status = est_link_room(wire->link, &a->frame, &a->message);
    }
    if (status != EST_OK) {
        pthread_mutex_lock(&wire->carrier->lock);
        drop(a);
        pthread_mutex_unlock(&wire->carrier->lock);
        return;
    }
    body = est_message_body(a->message);
    memcpy(body, (const uint8_t *)(a + 1) + EST_FRAME_BYTES, begun);
    if (a->large) {
        fetch(wire, a, body + begun);
    } else {
        if (a->size > 0) memcpy(body + begun, a->data, a->size);
        hand_over(wire, a);
    }
}

/* The next arrival in order. */
static arrival *take_next(est_wire *wire)
{
    arrival *before = NULL, *a;

    pthread_mutex_lock(&wire->carrier->lock);
    for (a = wire->first; a != NULL && a->frame.sequence > wire->next_in; a = a->next) before = a;
    if (a != NULL) {
        if (before == NULL) {
            wire->first = a->next;
        } else {
            before->next = a->next;
        }
        if (wire->last == a) wire->last = before;
    }
    pthread_mutex_unlock(&wire->carrier->lock);
    return a;
}

/* Delivers all arrivals that are next in order; false: the wire has been ended. */
static bool deliver(est_wire *wire)
{
    while (!wire->ended && !wire->held) {
        arrival *a = wire->receiving;
        bool     done;

        if (a == NULL) {
            a = take_next(wire);
            if (a == NULL) break;
            take(wire, a);
            continue;
        }
        pthread_mutex_lock(&wire->carrier->lock);
        done = a->done;
        pthread_mutex_unlock(&wire->carrier->lock);
        if (!done) break;
        if (a->status != UCS_OK) {
            break_link(wire, a->status);
        } else {
            wire->receiving = NULL;
            hand_over(wire, a);
        }
    }
    return !wire->ended;
}

/* Handles the events of a wire. Frames that came before it broke are still delivered. */
void est_ucx_see_to(est_wire *wire)
{
    est_carrier *carrier = wire->carrier;
    bool         opened, drained;
    size_t       heard;
    ucs_status_t broken;

    if (wire->injection == EST_INJECT_SILENCE) return; /* only this thread sets it */
    pthread_mutex_lock(&carrier->lock);
    opened            = wire->connected && !wire->opened;
    drained           = wire->drained;
    wire->drained     = false;
    heard             = wire->heard_bytes; /* also while held: beats tell of a peer that fetches one large answer */
    wire->heard_bytes = 0;
    broken            = wire->broken;
    pthread_mutex_unlock(&carrier->lock);
    if (opened) {
        wire->opened = true;
        est_link_opened(wire->link);
        if (wire->ended) return;
    }
    if (heard > 0) est_link_heard(wire->link, heard);
    if (!deliver(wire)) return;
    if (broken != UCS_OK) {
        break_link(wire, broken);
    } else if (drained) {
        est_link_drained(wire->link);
    }
}

/* Frees ended wires that UCX has done with. */
void est_ucx_reap(est_carrier *carrier)
{
    pthread_mutex_lock(&carrier->lock);
    for (est_wire *wire = carrier->wires, *next; wire != NULL; wire = next) {
        next = wire->next;
        if (!wire->ended || wire->is_ready) continue;
        while (wire->first != NULL) {
            arrival *a = wire->first;

            wire->first = a->next;
            drop(a);
        }
        if (wire->receiving != NULL && wire->receiving->done) {
            drop(wire->receiving);
            wire->receiving = NULL;
        }
        if (wire->closing != NULL && carrier->ucx->ucp_request_check_status(wire->closing) != UCS_INPROGRESS) {
            carrier->ucx->ucp_request_free(wire->closing);
            wire->closing = NULL;
        }
        if (wire->receiving != NULL || wire->closing != NULL || wire->connecting || wire->sendings != NULL) continue;
        if (next != NULL) next->previous = wire->previous;
        if (wire->previous != NULL) {
            wire->previous->next = next;
        } else {
            carrier->wires = next;
        }
        est_free(wire);
    }
    pthread_mutex_unlock(&carrier->lock);
}

#endif
