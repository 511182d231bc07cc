/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport ucx: active messages of UCX, which picks shared memory, InfiniBand, RoCE or TCP by itself.
 *
 * A frame is one active message. Its first bytes (header, table and head) are the message's header when they are few; the
 * parts are sent from where they lie and land in the message's block. UCX promises no order between large and small messages,
 * so a wire hands its arrivals over by their sequence numbers, one at a time.
 *
 * Any thread calls UCX, under the carrier's lock, which comes after links' locks: a small frame leaves from the thread that
 * sends it. Callbacks of UCX run under that lock, within `progress`, and only note what happened; the network thread sees to
 * it afterwards, without the lock, before the loop goes to sleep (on_prepare). Whoever leaves UCX something to do wakes it.
 *
 * U1. A block of an owner is not read any more when `forget` or `end` returns: its requests are completed then. */
#include "net/transport.h"

#define ABOUT "UCX: shared memory, InfiniBand, RoCE or TCP, without any protection"

#if defined(EST_UCX) && EST_UCX

#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/socket.h"
#include "net/ucx_library.h"

#define FRAME_ID     1                    /* of our active messages */
#define FRONT_MAX    1024                 /* bytes before the parts that go as a message's header */
#define TAKE_NS      EST_NS_PER_SEC       /* for a peer to take what its sender wants back */
#define CLOSE_NS     (5 * EST_NS_PER_SEC) /* for UCX to give up what it has under way */
#define LARGE_BYTES  "256k"               /* from here on parts are fetched by who receives them */
#define PROGRESS_MAX 64                   /* calls before what came is seen to */
#define TURNS_MAX    16                   /* before the loop looks at other things */

typedef struct arrival    arrival;
typedef struct connection connection;
typedef struct sending    sending;

struct est_carrier {
    const est_ucx_library *ucx;
    est_net               *net;
    uv_loop_t             *loop;
    est_blocks            *blocks;
    ucp_context_h          context;
    ucp_listener_h         listener; /* NULL: none */
    uv_poll_t              poll;
    uv_prepare_t           prepare;
    uv_idle_t              busy; /* runs while the loop must not sleep */
    size_t                 front_max;

    pthread_mutex_t lock; /* guards what follows, all calls of UCX, and what wires say is the carrier's */
    ucp_worker_h    worker;
    est_wire       *wires; /* ended ones too, until UCX is done with them */
    est_wire       *ready; /* those that something happened to */
    connection     *first_connection, *last_connection;
};

struct est_wire {
    est_carrier *carrier;
    est_link    *link;
    bool         ended, held, opened; /* the network thread's */
    uint64_t     next_in;             /* sequence; the network thread's */
    arrival     *receiving;           /* large, under way; the network thread's */

    uint64_t      next_out; /* sequence; guarded by the link's lock, as is what follows */
    est_injection injection;
    uint64_t      cut_after;

    est_wire    *next, *previous, *next_ready; /* guarded by the carrier's lock, as is what follows */
    bool         is_ready;
    ucp_ep_h     ep;      /* NULL: closed */
    void        *closing; /* the request that closes it; NULL: none */
    ucs_status_t broken;
    bool         connecting, connected;
    sending     *sendings; /* under way */
    arrival     *first, *last;
    size_t       copied_bytes, heard_bytes;
    bool         drained; /* a sending is done */
};

/* A frame that UCX has not sent yet. The list of its pieces, its front and, without an owner, its parts lie behind it. */
struct sending {
    sending    *next, *previous;
    est_wire   *wire;
    const void *owner;
    size_t      copied_bytes;
};

/* A frame that came. Its front lies behind it, and so does its data when UCX does not keep that for us. */
struct arrival {
    arrival     *next;
    est_wire    *wire;
    est_frame    frame;
    size_t       front_bytes, size;
    const void  *data;
    void        *kept;  /* by UCX; NULL: nothing is */
    bool         large; /* kept by the peer: `kept` tells how to fetch it */
    est_message *message;
    bool         done;
    ucs_status_t status;
};

struct connection {
    connection        *next;
    ucp_conn_request_h request;
};

/* --- under the carrier's lock ---------------------------------------------------------------------------------------- */

static void make_ready(est_wire *wire)
{
    if (wire->is_ready || wire->ended) return;
    wire->is_ready       = true;
    wire->next_ready     = wire->carrier->ready;
    wire->carrier->ready = wire;
}

static void break_wire(est_wire *wire, ucs_status_t why)
{
    if (wire->broken == UCS_OK) wire->broken = why;
    make_ready(wire);
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
    est_block_free(wire->carrier->blocks, s);
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
    sending  *s    = user;
    est_wire *wire = s->wire;

    wire->carrier->ucx->ucp_request_free(request);
    remove_sending(s);
    wire->drained = true;
    if (status != UCS_OK) break_wire(wire, status);
    make_ready(wire);
}

static void on_connected(void *request, ucs_status_t status, void *user)
{
    est_wire *wire = user;

    wire->carrier->ucx->ucp_request_free(request);
    wire->connecting = false;
    wire->connected  = status == UCS_OK;
    if (status != UCS_OK) break_wire(wire, status);
    make_ready(wire);
}

static void on_error(void *user, ucp_ep_h ep, ucs_status_t status)
{
    est_wire *wire = user;

    if (wire->ep == ep) break_wire(wire, status);
}

static void on_received(void *request, ucs_status_t status, size_t size, void *user)
{
    arrival *a = user;

    (void)size;
    a->wire->carrier->ucx->ucp_request_free(request);
    a->status = status;
    a->done   = true;
    make_ready(a->wire);
}

static est_wire *find_wire(est_carrier *carrier, ucp_ep_h ep)
{
    for (est_wire *wire = carrier->wires; wire != NULL; wire = wire->next) {
        if (wire->ep == ep) return wire;
    }
    return NULL;
}

/* Notes an arrival; what UCX cannot keep is copied. */
static ucs_status_t on_frame(void *user, const void *front, size_t front_bytes, void *data, size_t size,
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
        break_wire(wire, UCS_ERR_NO_MEMORY);
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
    if (front_bytes < EST_FRAME_BYTES || est_frame_decode(room, &a->frame) != EST_OK) a->frame = (est_frame){ 0 };
    if (wire->first == NULL) {
        wire->first = a;
    } else {
        wire->last->next = a;
    }
    wire->last = a;
    wire->heard_bytes += front_bytes + size;
    make_ready(wire);
    return kept ? UCS_INPROGRESS : UCS_OK;
}

static void on_connection(ucp_conn_request_h request, void *user)
{
    est_carrier *carrier = user;
    connection  *c       = est_block_alloc(carrier->blocks, sizeof *c);

    if (c == NULL) {
        (void)carrier->ucx->ucp_listener_reject(carrier->listener, request);
        return;
    }
    *c = (connection){ .request = request };
    if (carrier->first_connection == NULL) {
        carrier->first_connection = c;
    } else {
        carrier->last_connection->next = c;
    }
    carrier->last_connection = c;
}

/* What is under way fails soon. */
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

/* --- sending: under the link's lock ---------------------------------------------------------------------------------- */

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
    request = ucx->ucp_am_send_nbx(wire->ep, FRAME_ID, front, header,
                                   n > 1    ? iov
                                   : n == 1 ? iov[0].buffer
                                            : NULL,
                                   n > 1    ? n
                                   : n == 1 ? iov[0].length
                                            : 0,
                                   &param);
    if (UCS_PTR_IS_PTR(request)) return;
    remove_sending(s);
    if (UCS_PTR_IS_ERR(request)) break_wire(wire, UCS_PTR_STATUS(request));
}

/* true: tests want this frame to go nowhere. */
static bool is_injected(est_wire *wire, uint64_t bytes)
{
    if (wire->injection == EST_INJECT_SILENCE) return true;
    if (wire->injection == EST_INJECT_CUT && bytes > wire->cut_after) {
        pthread_mutex_lock(&wire->carrier->lock);
        break_wire(wire, UCS_ERR_CONNECTION_RESET);
        pthread_mutex_unlock(&wire->carrier->lock);
        return true;
    }
    wire->cut_after -= wire->injection == EST_INJECT_CUT ? bytes : 0;
    return false;
}

static est_status ucx_send(est_wire *wire, est_outgoing *out, bool *wake)
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
    if (s == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to send a message");
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
    if (fault) break_wire(wire, UCS_ERR_CONNECTION_RESET);
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

/* UCX cannot be told to read from elsewhere; so this waits, and breaks with a peer that does not take what it was sent. */
static void ucx_forget(est_wire *wire, const void *owner, bool *wake)
{
    est_carrier *carrier = wire->carrier;
    int64_t      now;

    pthread_mutex_lock(&carrier->lock);
    if (is_sending(wire, owner)) {
        *wake = true;
        now   = est_machine_ns();
        if (!wait_for_owner(wire, owner, now + TAKE_NS)) {
            break_wire(wire, UCS_ERR_TIMED_OUT);
            close_endpoint(wire);
            if (!wait_for_owner(wire, owner, now + TAKE_NS + CLOSE_NS)) est_log_error("ucx does not give memory back");
        }
    }
    pthread_mutex_unlock(&carrier->lock);
}

static size_t ucx_queued_bytes(const est_wire *wire)
{
    size_t bytes;

    pthread_mutex_lock(&wire->carrier->lock);
    bytes = wire->copied_bytes;
    pthread_mutex_unlock(&wire->carrier->lock);
    return bytes;
}

static void ucx_inject(est_wire *wire, est_injection what, uint64_t n)
{
    wire->injection = what;
    wire->cut_after = n;
}

/* --- in the network thread ------------------------------------------------------------------------------------------- */

static void locked_make_ready(est_wire *wire)
{
    pthread_mutex_lock(&wire->carrier->lock);
    make_ready(wire);
    pthread_mutex_unlock(&wire->carrier->lock);
}

static void ucx_flush(est_wire *wire)
{
    locked_make_ready(wire);
}

static void ucx_hold(est_wire *wire, bool on)
{
    wire->held = on;
    locked_make_ready(wire);
}

/* The peer closes when it has read our farewell. */
static bool ucx_finish(est_wire *wire)
{
    bool done;

    pthread_mutex_lock(&wire->carrier->lock);
    done = wire->sendings == NULL;
    pthread_mutex_unlock(&wire->carrier->lock);
    return done;
}

static void ucx_end(est_wire *wire)
{
    est_carrier *carrier = wire->carrier;

    wire->ended = true;
    pthread_mutex_lock(&carrier->lock);
    close_endpoint(wire);
    if (!wait_for_owner(wire, NULL, est_machine_ns() + CLOSE_NS)) est_log_error("ucx does not give memory back");
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

/* Begins to fetch what the peer has kept. */
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

/* What is wrong with a frame that came; EST_OK: nothing. */
static est_status check(const arrival *a)
{
    est_frame frame;

    if (a->front_bytes < EST_FRAME_BYTES) return est_fail(EST_DATA_LOSS, "a message came that is no frame");
    EST_TRY(est_frame_decode((const uint8_t *)(a + 1), &frame));
    if (a->front_bytes - EST_FRAME_BYTES > frame.body_size ||
        frame.body_size - (a->front_bytes - EST_FRAME_BYTES) != a->size) {
        return est_fail(EST_DATA_LOSS, "a frame came that is not as long as it says");
    }
    return EST_OK;
}

/* Makes a message of the arrival that is next. */
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

/* The arrival whose turn it is. */
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

/* Hands over all whose turn has come; false: the wire has been ended. */
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

/* Sees to what happened to a wire. What came before it broke is still handed over. */
static void see_to(est_wire *wire)
{
    est_carrier *carrier = wire->carrier;
    bool         opened, drained;
    size_t       heard;
    ucs_status_t broken;

    if (wire->injection == EST_INJECT_SILENCE) return; /* only this thread sets it */
    pthread_mutex_lock(&carrier->lock);
    opened        = wire->connected && !wire->opened;
    drained       = wire->drained;
    wire->drained = false;
    heard         = wire->held ? 0 : wire->heard_bytes;
    wire->heard_bytes -= heard;
    broken = wire->broken;
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
static void reap(est_carrier *carrier)
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

/* --- wires come ------------------------------------------------------------------------------------------------------ */

static void reject(est_carrier *carrier, ucp_conn_request_h request)
{
    pthread_mutex_lock(&carrier->lock);
    (void)carrier->ucx->ucp_listener_reject(carrier->listener, request);
    pthread_mutex_unlock(&carrier->lock);
}

/* With an endpoint as `to` says; a request in it is given back on failure. */
static est_status create_wire(est_carrier *carrier, ucp_ep_params_t to, est_wire **out)
{
    est_wire    *wire = EST_FAULT_POINT("net.socket") ? NULL : est_zalloc(sizeof *wire);
    ucs_status_t status;

    if (wire == NULL) {
        if (to.field_mask & UCP_EP_PARAM_FIELD_CONN_REQUEST) reject(carrier, to.conn_request);
        return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a connection");
    }
    wire->carrier = carrier;
    to.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    to.err_mode    = UCP_ERR_HANDLING_MODE_PEER;
    to.err_handler = (ucp_err_handler_t){ .cb = on_error, .arg = wire };
    pthread_mutex_lock(&carrier->lock);
    status = carrier->ucx->ucp_ep_create(carrier->worker, &to, &wire->ep); /* gives a request back itself */
    if (status == UCS_OK) {
        wire->next = carrier->wires;
        if (wire->next != NULL) wire->next->previous = wire;
        carrier->wires = wire;
    }
    pthread_mutex_unlock(&carrier->lock);
    if (status != UCS_OK) {
        est_free(wire);
        return est_fail(EST_UNAVAILABLE, "%s", carrier->ucx->ucs_status_string(status));
    }
    *out = wire;
    return EST_OK;
}

/* UCX tells only when connecting fails; what was flushed has a connection. */
static est_status ucx_connect(est_carrier *carrier, const est_socket_address *to, est_link *link, pthread_mutex_t *lock,
                              est_wire **out)
{
    const ucp_ep_params_t     at      = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                                          .flags      = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                                          .sockaddr   = { (const struct sockaddr *)&to->at, to->size } };
    const ucp_request_param_t flushed = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                          .cb.send      = on_connected };
    ucp_request_param_t       param   = flushed;
    ucs_status_ptr_t          request;
    est_wire                 *wire;

    (void)lock;
    EST_TRY(create_wire(carrier, at, &wire));
    wire->link      = link;
    param.user_data = wire;
    pthread_mutex_lock(&carrier->lock);
    request = carrier->ucx->ucp_ep_flush_nbx(wire->ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        wire->connecting = true;
    } else if (UCS_PTR_IS_ERR(request)) {
        break_wire(wire, UCS_PTR_STATUS(request));
    } else {
        wire->connected = true;
        make_ready(wire);
    }
    pthread_mutex_unlock(&carrier->lock);
    *out = wire;
    return EST_OK;
}

static void name_client(est_carrier *carrier, ucp_conn_request_h request, char from[EST_ADDRESS_MAX])
{
    ucp_conn_request_attr_t attr = { .field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR };
    char                    host[64], port[8];
    ucs_status_t            status;

    pthread_mutex_lock(&carrier->lock);
    status = carrier->ucx->ucp_conn_request_query(request, &attr);
    pthread_mutex_unlock(&carrier->lock);
    if (status != UCS_OK || getnameinfo((struct sockaddr *)&attr.client_address, sizeof attr.client_address, host,
                                        sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(host, sizeof host, "?");
        snprintf(port, sizeof port, "?");
    }
    snprintf(from, EST_ADDRESS_MAX, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

static void take_connection(est_carrier *carrier, ucp_conn_request_h request)
{
    const ucp_ep_params_t from = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };
    char                  address[EST_ADDRESS_MAX];
    pthread_mutex_t      *lock;
    est_wire             *wire;

    name_client(carrier, request, address);
    if (create_wire(carrier, from, &wire) != EST_OK) {
        est_net_warn(carrier->net, address, est_error_message());
        return;
    }
    wire->link = est_link_accept(carrier->net, wire, address, &lock);
    if (wire->link == NULL) {
        ucx_end(wire);
        return;
    }
    wire->opened = true;
    est_link_opened(wire->link);
}

static connection *next_connection(est_carrier *carrier)
{
    connection *c;

    pthread_mutex_lock(&carrier->lock);
    c = carrier->first_connection;
    if (c != NULL) carrier->first_connection = c->next;
    pthread_mutex_unlock(&carrier->lock);
    return c;
}

static est_wire *next_ready(est_carrier *carrier)
{
    est_wire *wire;

    pthread_mutex_lock(&carrier->lock);
    wire = carrier->ready;
    if (wire != NULL) {
        carrier->ready = wire->next_ready;
        wire->is_ready = false;
    }
    pthread_mutex_unlock(&carrier->lock);
    return wire;
}

/* --- the loop -------------------------------------------------------------------------------------------------------- */

/* Sees to all that happened; false: nothing did. */
static bool see_to_all(est_carrier *carrier)
{
    connection *c;
    est_wire   *wire;
    bool        any = false;

    for (; (c = next_connection(carrier)) != NULL; any = true) {
        take_connection(carrier, c->request);
        est_block_free(carrier->blocks, c);
    }
    for (; (wire = next_ready(carrier)) != NULL; any = true) {
        if (!wire->ended) see_to(wire);
    }
    reap(carrier);
    return any;
}

/* Lets UCX work: true when something moved. */
static bool progress(est_carrier *carrier)
{
    int n = 0;

    pthread_mutex_lock(&carrier->lock);
    while (n < PROGRESS_MAX && carrier->ucx->ucp_worker_progress(carrier->worker) > 0) n++;
    pthread_mutex_unlock(&carrier->lock);
    return n > 0;
}

static bool arm(est_carrier *carrier)
{
    ucs_status_t status;

    pthread_mutex_lock(&carrier->lock);
    status = carrier->ucx->ucp_worker_arm(carrier->worker);
    pthread_mutex_unlock(&carrier->lock);
    return status == UCS_OK;
}

static void on_busy(uv_idle_t *idle)
{
    (void)idle; /* on_prepare follows */
}

/* Before the loop sleeps: works until there is nothing to do and the descriptor says when there is. */
static void on_prepare(uv_prepare_t *prepare)
{
    est_carrier *carrier = EST_CONTAINER_OF(prepare, est_carrier, prepare);

    for (int turn = 0; turn < TURNS_MAX; turn++) {
        bool moved = progress(carrier), any = see_to_all(carrier);

        if (moved || any) continue;
        if (arm(carrier)) {
            uv_idle_stop(&carrier->busy);
            return;
        }
        sched_yield(); /* a queue in shared memory is full, and only the peer can empty it */
    }
    uv_idle_start(&carrier->busy, on_busy);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events; /* on_prepare follows */
}

/* --- listening ------------------------------------------------------------------------------------------------------- */

/* A socket of ours finds out whether the address may be listened at, and says why not. */
static est_status ucx_listen(est_carrier *carrier, const char *address, int *port)
{
    struct sockaddr_storage own;
    socklen_t               size   = sizeof own;
    ucp_listener_params_t   params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                     UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                       .conn_handler = { on_connection, carrier } };
    ucs_status_t            status;
    int                     fd, failed;

    EST_TRY(est_socket_listen(address, &fd, port));
    failed = getsockname(fd, (struct sockaddr *)&own, &size);
    close(fd);
    params.sockaddr = (ucs_sock_addr_t){ (const struct sockaddr *)&own, size };
    pthread_mutex_lock(&carrier->lock);
    status = failed != 0 ? UCS_ERR_IO_ERROR
                         : carrier->ucx->ucp_listener_create(carrier->worker, &params, &carrier->listener);
    pthread_mutex_unlock(&carrier->lock);
    if (status != UCS_OK) {
        return est_fail(EST_UNAVAILABLE, "cannot listen at %s: %s", address, carrier->ucx->ucs_status_string(status));
    }
    return EST_OK;
}

static void ucx_unlisten(est_carrier *carrier)
{
    connection *c;

    if (carrier->listener == NULL) return;
    while ((c = next_connection(carrier)) != NULL) {
        reject(carrier, c->request);
        est_block_free(carrier->blocks, c);
    }
    pthread_mutex_lock(&carrier->lock);
    carrier->ucx->ucp_listener_destroy(carrier->listener);
    carrier->listener = NULL;
    pthread_mutex_unlock(&carrier->lock);
}

/* --- open and close -------------------------------------------------------------------------------------------------- */

static est_status fail_ucx(est_carrier *carrier, const char *what, ucs_status_t status)
{
    return est_fail(status == UCS_ERR_NO_MEMORY ? EST_RESOURCE_EXHAUSTED : EST_UNAVAILABLE, "cannot start ucx: %s: %s",
                    what, carrier->ucx->ucs_status_string(status));
}

static est_status open_context(est_carrier *carrier)
{
    const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                                  .features   = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP };
    ucp_config_t      *config;
    ucs_status_t       status;

    status = EST_FAULT_POINT("net.ucx.config") ? UCS_ERR_NO_MEMORY : carrier->ucx->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return fail_ucx(carrier, "its settings", status);
    status = carrier->ucx->ucp_config_modify(config, "RNDV_THRESH", LARGE_BYTES);
    if (status == UCS_OK) {
        status = carrier->ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &carrier->context);
    }
    carrier->ucx->ucp_config_release(config);
    return status == UCS_OK ? EST_OK : fail_ucx(carrier, "a context", status);
}

/* A worker that answers, and its descriptor. */
static est_status open_worker(est_carrier *carrier, int *fd)
{
    const ucp_worker_params_t    params = { .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                            .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    const ucp_am_handler_param_t frames = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                            .id  = FRAME_ID,
                                            .cb  = on_frame,
                                            .arg = carrier };
    ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER };
    ucs_status_t      status;

    status = EST_FAULT_POINT("net.ucx.worker")
                 ? UCS_ERR_NO_MEMORY
                 : carrier->ucx->ucp_worker_create(carrier->context, &params, &carrier->worker);
    if (status != UCS_OK) return fail_ucx(carrier, "a worker", status);
    status = carrier->ucx->ucp_worker_query(carrier->worker, &attr);
    if (status == UCS_OK && (attr.thread_mode == UCS_THREAD_MODE_SINGLE || attr.max_am_header < EST_FRAME_BYTES)) {
        status = UCS_ERR_UNSUPPORTED;
    }
    if (status == UCS_OK) status = carrier->ucx->ucp_worker_set_am_recv_handler(carrier->worker, &frames);
    if (status == UCS_OK) status = carrier->ucx->ucp_worker_get_efd(carrier->worker, fd);
    if (status != UCS_OK) {
        carrier->ucx->ucp_worker_destroy(carrier->worker);
        return fail_ucx(carrier, "a worker", status);
    }
    carrier->front_max = attr.max_am_header < FRONT_MAX ? attr.max_am_header : FRONT_MAX;
    return EST_OK;
}

/* The loop may end without ours: nothing there waits for them. */
static est_status open_handles(est_carrier *carrier, int fd)
{
    if (EST_FAULT_POINT("net.ucx.poll") || uv_poll_init(carrier->loop, &carrier->poll, fd) != 0) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "cannot watch ucx");
    }
    uv_prepare_init(carrier->loop, &carrier->prepare);
    uv_idle_init(carrier->loop, &carrier->busy);
    uv_poll_start(&carrier->poll, UV_READABLE, on_event);
    uv_prepare_start(&carrier->prepare, on_prepare);
    uv_unref((uv_handle_t *)&carrier->poll);
    uv_unref((uv_handle_t *)&carrier->prepare);
    uv_unref((uv_handle_t *)&carrier->busy);
    return EST_OK;
}

static est_status ucx_open(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates,
                           est_carrier **out)
{
    est_carrier *carrier = est_zalloc(sizeof *carrier);
    est_status   status;
    int          fd;

    (void)certificates;
    if (carrier == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the network");
    carrier->net    = net;
    carrier->loop   = loop;
    carrier->blocks = blocks;
    status          = est_ucx_load(&carrier->ucx);
    if (status != EST_OK) goto free_carrier;
    status = est_lock_init(&carrier->lock);
    if (status != EST_OK) goto free_carrier;
    status = open_context(carrier);
    if (status != EST_OK) goto destroy_lock;
    status = open_worker(carrier, &fd);
    if (status != EST_OK) goto close_context;
    status = open_handles(carrier, fd);
    if (status != EST_OK) goto destroy_worker;
    est_log_warn("transport ucx: peers are TRUSTED with raw access to memory, nobody is authenticated and nothing is "
                 "encrypted; use it on closed networks only");
    *out = carrier;
    return EST_OK;

destroy_worker:
    carrier->ucx->ucp_worker_destroy(carrier->worker);
close_context:
    carrier->ucx->ucp_cleanup(carrier->context);
destroy_lock:
    pthread_mutex_destroy(&carrier->lock);
free_carrier:
    est_free(carrier);
    return status;
}

static void ucx_close(est_carrier *carrier)
{
    int64_t until = est_machine_ns() + CLOSE_NS;

    for (reap(carrier); carrier->wires != NULL && est_machine_ns() < until; reap(carrier)) {
        if (!progress(carrier)) sched_yield();
    }
    uv_close((uv_handle_t *)&carrier->poll, NULL);
    uv_close((uv_handle_t *)&carrier->prepare, NULL);
    uv_close((uv_handle_t *)&carrier->busy, NULL);
    uv_run(carrier->loop, UV_RUN_NOWAIT);
    carrier->ucx->ucp_worker_destroy(carrier->worker);
    carrier->ucx->ucp_cleanup(carrier->context);
    pthread_mutex_destroy(&carrier->lock);
    est_free(carrier);
}

static est_status ucx_check(void)
{
    const est_ucx_library *ucx;

    return est_ucx_load(&ucx);
}

const est_transport est_transport_ucx = {
    .name         = "ucx",
    .about        = ABOUT,
    .check        = ucx_check,
    .open         = ucx_open,
    .close        = ucx_close,
    .listen       = ucx_listen,
    .unlisten     = ucx_unlisten,
    .connect      = ucx_connect,
    .send         = ucx_send,
    .forget       = ucx_forget,
    .queued_bytes = ucx_queued_bytes,
    .flush        = ucx_flush,
    .hold         = ucx_hold,
    .finish       = ucx_finish,
    .end          = ucx_end,
    .inject       = ucx_inject,
};

#else

static est_status ucx_check(void)
{
    return est_fail(EST_UNIMPLEMENTED, "this build has no transport ucx: install libucx-dev and build again");
}

static est_status ucx_open(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates,
                           est_carrier **out)
{
    (void)net, (void)loop, (void)blocks, (void)certificates, (void)out;
    return ucx_check();
}

const est_transport est_transport_ucx = { .name = "ucx", .about = ABOUT, .check = ucx_check, .open = ucx_open };

#endif
