/* SPDX-License-Identifier: Apache-2.0
 *
 * The transports tcp and tls: sockets that libuv watches and that we read and write ourselves.
 *
 * Any thread writes to the socket, under the link's lock; the network thread is woken only for what the kernel did not
 * take. Reading is done by the network thread alone: small frames through a buffer, many at once; the rest of a large
 * body straight into its message. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/fault.h"
#include "base/log.h"
#include "net/outbox.h"
#include "net/socket.h"
#include "net/tls.h"

#define STAGED_BYTES ((size_t)32 << 10)
#define TURN_BYTES   ((size_t)4 << 20)  /* read from one connection before other work */
#define READ_MAX     ((size_t)1 << 30)  /* by one call */
#define SMALL_BYTES  ((size_t)16 << 10) /* of a frame that may wait for others */
#define REST_MS      100
#define ACCEPT_MAX   64 /* connections accepted before other work */

struct est_carrier {
    est_net         *net;
    uv_loop_t       *loop;
    est_blocks      *blocks;
    est_tls_context *tls; /* NULL: tcp */
    uv_poll_t        listener;
    uv_timer_t       rest;      /* of the listener, when no connection can be accepted */
    int              listen_fd; /* -1: none */
};

typedef enum wire_stage { WIRE_CONNECTING, WIRE_SHAKING, WIRE_OPEN, WIRE_ENDED } wire_stage;

struct est_wire {
    uv_poll_t        poll;
    uv_idle_t        more; /* runs while decrypted bytes wait, which the socket does not signal */
    int              n_handles;
    est_carrier     *carrier;
    est_link        *link;
    pthread_mutex_t *lock; /* the link's; guards outbox, tls, broken, injection */
    int              fd;
    wire_stage       stage;
    int              events; /* that the socket is watched for */
    bool             held;

    est_outbox    outbox;
    bool          corked; /* small frames wait for others */
    est_tls      *tls;    /* NULL: tcp */
    int           broken; /* the error of a write; 0: none */
    est_injection injection;
    uint64_t      cut_after;
    uint64_t      taken_bytes; /* by the kernel */

    est_frame    frame;    /* of the message */
    est_message *message;  /* that is arriving; NULL: a header is next */
    size_t       body_got; /* of it */
    size_t       n_staged;
    uint8_t     *staged; /* STAGED_BYTES; NULL: nothing has come yet */
};

static void on_ready(uv_poll_t *poll, int status, int events);

/* --- sending: under the lock -------------------------------------------------------------------------------------- */

static ssize_t transmit_raw(est_wire *wire, struct iovec *iov, int n)
{
    struct msghdr message = { .msg_iov = iov, .msg_iovlen = (size_t)n };
    ssize_t       sent;

    if (EST_FAULT_POINT("net.send")) {
        wire->broken = ECONNRESET;
        return -1;
    }
    if (wire->injection == EST_INJECT_SILENCE) {
        for (sent = 0; n > 0; n--) sent += (ssize_t)iov[n - 1].iov_len;
        return sent;
    }
    if (wire->injection == EST_INJECT_CUT) {
        message.msg_iovlen = 1;
        if (iov[0].iov_len > wire->cut_after) iov[0].iov_len = (size_t)wire->cut_after;
        if (wire->cut_after == 0) {
            wire->broken = ECONNRESET;
            return -1;
        }
    }
    do {
        sent = sendmsg(wire->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (sent < 0) wire->broken = errno;
    if (sent > 0) wire->taken_bytes += (uint64_t)sent;
    if (sent > 0 && wire->injection == EST_INJECT_CUT) wire->cut_after -= (uint64_t)sent;
    return sent;
}

/* Sends the ciphertext; true: all of it. */
static bool send_encrypted(est_wire *wire)
{
    struct iovec iov;
    const void  *bytes;

    while ((iov.iov_len = est_tls_pending(wire->tls, &bytes)) > 0) {
        ssize_t sent;

        memcpy(&iov.iov_base, &bytes, sizeof bytes);
        sent = transmit_raw(wire, &iov, 1);
        if (sent <= 0) return false;
        est_tls_sent(wire->tls, (size_t)sent);
    }
    return true;
}

static ssize_t transmit(void *user, struct iovec *iov, int n)
{
    est_wire *wire = user;
    ssize_t   taken;

    if (wire->tls == NULL) return transmit_raw(wire, iov, n);
    if (!send_encrypted(wire)) return wire->broken != 0 ? -1 : 0;
    taken = est_tls_encrypt(wire->tls, iov, n);
    if (taken < 0) wire->broken = EPROTO;
    if (taken > 0) (void)send_encrypted(wire); /* the rest is sent first next time */
    return wire->broken != 0 ? -1 : taken;
}

static bool has_unsent(const est_wire *wire)
{
    const void *bytes;

    return wire->outbox.first != NULL || (wire->tls != NULL && est_tls_pending(wire->tls, &bytes) > 0);
}

static ssize_t transmit_nothing(void *user, struct iovec *iov, int n)
{
    (void)user, (void)iov, (void)n;
    return 0;
}

static est_status stream_send(est_wire *wire, est_outgoing *out, bool *wake)
{
    bool       was_waiting = has_unsent(wire), torn, sound;
    bool       wait        = out->payload.behind || (wire->corked && out->frame.body_size < SMALL_BYTES);
    est_status status;

    if (wire->broken != 0) return EST_OK;
    status = est_outbox_send(&wire->outbox, out, wait ? transmit_nothing : transmit, wire, &torn, &sound);
    if (torn) wire->broken = ENOMEM;
    *wake = wire->broken != 0 || (!was_waiting && has_unsent(wire) && !wire->corked);
    return status;
}

static void stream_forget(est_wire *wire, const void *owner, bool *wake)
{
    if (est_outbox_forget(&wire->outbox, owner)) return;
    est_outbox_clear(&wire->outbox); /* its parts may be freed now */
    wire->broken = ENOMEM;
    *wake        = true;
}

static size_t stream_queued_bytes(const est_wire *wire)
{
    return wire->outbox.copied_bytes;
}

static uint64_t stream_taken_bytes(const est_wire *wire)
{
    return wire->taken_bytes;
}

static void stream_inject(est_wire *wire, est_injection what, uint64_t n)
{
    wire->injection = what;
    wire->cut_after = n;
}

/* --- in the network thread ---------------------------------------------------------------------------------------- */

/* Watches the socket for the events that matter now. */
static void watch(est_wire *wire)
{
    int  events = wire->held || wire->stage == WIRE_CONNECTING ? 0 : UV_READABLE;
    bool unsent;

    if (wire->stage == WIRE_ENDED) return;
    pthread_mutex_lock(wire->lock);
    unsent = has_unsent(wire);
    pthread_mutex_unlock(wire->lock);
    if (unsent || wire->stage == WIRE_CONNECTING) events |= UV_WRITABLE;
    if (events == wire->events) return;
    wire->events = events;
    if (events == 0) {
        uv_poll_stop(&wire->poll);
    } else {
        uv_poll_start(&wire->poll, events, on_ready);
    }
}

static void break_errno(est_wire *wire, int error)
{
    est_link_broken(wire->link, error == ENOMEM ? EST_RESOURCE_EXHAUSTED : EST_UNAVAILABLE,
                    error == 0 ? "the connection was closed" : strerror(error));
}

static void break_tls(est_wire *wire)
{
    bool refused;
    char why[EST_TLS_WHY_MAX];

    pthread_mutex_lock(wire->lock);
    snprintf(why, sizeof why, "%s", est_tls_why(wire->tls, &refused));
    (void)send_encrypted(wire); /* the alert that tells the peer */
    pthread_mutex_unlock(wire->lock);
    est_link_broken(wire->link, refused ? EST_UNAUTHENTICATED : EST_UNAVAILABLE, why);
}

static void stream_flush(est_wire *wire)
{
    int broken;

    if (wire->stage != WIRE_OPEN) return;
    pthread_mutex_lock(wire->lock);
    if (wire->broken == 0 && wire->tls != NULL) (void)send_encrypted(wire);
    if (wire->broken == 0) (void)est_outbox_flush(&wire->outbox, transmit, wire);
    broken = wire->broken;
    pthread_mutex_unlock(wire->lock);
    if (broken != 0) {
        break_errno(wire, broken);
    } else {
        watch(wire);
        est_link_drained(wire->link);
    }
}

/* Reads up to `size` bytes: how many; 0: none now; -1: the wire has been ended. */
static ssize_t read_some(est_wire *wire, void *to, size_t size)
{
    est_tls_result result;
    ssize_t        n;
    size_t         got;

    if (EST_FAULT_POINT("net.receive")) {
        break_errno(wire, ECONNRESET);
        return -1;
    }
    if (size > READ_MAX) size = READ_MAX;
    if (wire->tls == NULL) {
        do {
            n = recv(wire->fd, to, size, MSG_DONTWAIT);
        } while (n < 0 && errno == EINTR);
        if (n > 0) return n;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        break_errno(wire, n == 0 ? 0 : errno);
        return -1;
    }
    pthread_mutex_lock(wire->lock);
    result = est_tls_read(wire->tls, to, size, &got);
    pthread_mutex_unlock(wire->lock);
    switch (result) {
    case EST_TLS_DONE: return (ssize_t)got;
    case EST_TLS_WAIT: return 0;
    case EST_TLS_CLOSED: break_errno(wire, 0); return -1;
    case EST_TLS_BROKEN: break;
    }
    break_tls(wire);
    return -1;
}

/* Reads a header, or refuses what is none, and gets memory for the body. */
static bool begin_frame(est_wire *wire, const uint8_t *header, size_t size)
{
    est_status status = est_frame_decode(header, size, &wire->frame);

    if (status != EST_OK) {
        est_error error;

        est_error_take(status, &error);
        est_link_broken(wire->link, status, error.message);
        return false;
    }
    wire->body_got = 0;
    return est_link_room(wire->link, &wire->frame, &wire->message) == EST_OK;
}

static bool end_frame(est_wire *wire)
{
    est_message *message = wire->message;

    wire->message = NULL;
    return est_link_frame(wire->link, &wire->frame, message);
}

/* Reads the staged frames; false: the wire has been ended. */
static bool unstage_frames(est_wire *wire)
{
    size_t at = 0;

    for (;;) {
        if (wire->message == NULL) {
            size_t left = wire->n_staged - at;

            if (wire->held) break; /* until on_more */

            /* Bytes that cannot start a frame are refused early: an alert of TLS is shorter than a header. */
            if (left < EST_FRAME_BYTES && est_frame_may_begin(wire->staged + at, left)) break;
            if (!begin_frame(wire, wire->staged + at, left)) return false;
            at += EST_FRAME_BYTES;
        }
        size_t rest = (size_t)wire->frame.body_size - wire->body_got, here = wire->n_staged - at;

        if (here > rest) here = rest;
        memcpy((char *)est_message_body(wire->message) + wire->body_got, wire->staged + at, here);
        at += here;
        wire->body_got += here;
        if (here < rest) break;
        if (!end_frame(wire)) return false;
    }
    wire->n_staged -= at;
    memmove(wire->staged, wire->staged + at, wire->n_staged);
    return true;
}

/* The same; small answers to what was staged go together. */
static bool unstage(est_wire *wire)
{
    bool unsent;

    pthread_mutex_lock(wire->lock);
    wire->corked = true;
    pthread_mutex_unlock(wire->lock);
    if (!unstage_frames(wire)) return false;
    pthread_mutex_lock(wire->lock);
    wire->corked = false;
    unsent       = wire->outbox.first != NULL;
    pthread_mutex_unlock(wire->lock);
    if (unsent) stream_flush(wire);
    return wire->stage == WIRE_OPEN;
}

static bool make_stage(est_wire *wire)
{
    wire->staged = est_alloc(STAGED_BYTES);
    if (wire->staged == NULL) break_errno(wire, ENOMEM);
    return wire->staged != NULL;
}

/* Reads once, into the message when much of it is missing. Bytes read, 0 or -1 as read_some. */
static ssize_t receive_some(est_wire *wire)
{
    size_t  rest = wire->message != NULL ? (size_t)wire->frame.body_size - wire->body_got : 0;
    ssize_t n;

    if (rest < STAGED_BYTES) {
        if (wire->staged == NULL && !make_stage(wire)) return -1;
        n = read_some(wire, wire->staged + wire->n_staged, STAGED_BYTES - wire->n_staged);
        if (n <= 0) return n;
        wire->n_staged += (size_t)n;
        est_link_heard(wire->link, (size_t)n);
        return unstage(wire) ? n : -1;
    }
    n = read_some(wire, (char *)est_message_body(wire->message) + wire->body_got, rest);
    if (n <= 0) return n;
    wire->body_got += (size_t)n;
    est_link_heard(wire->link, (size_t)n);
    if ((size_t)n == rest && !end_frame(wire)) return -1;
    return n;
}

static void on_more(uv_idle_t *idle);

static void receive(est_wire *wire)
{
    size_t  turn = 0;
    ssize_t n    = 0;

    while (turn < TURN_BYTES && !wire->held) {
        n = receive_some(wire);
        if (n < 0) return;
        if (n == 0) break;
        turn += (size_t)n;
    }
    if (wire->tls != NULL) {
        if (n > 0 && !wire->held && est_tls_has_more(wire->tls)) {
            uv_idle_start(&wire->more, on_more);
        } else {
            uv_idle_stop(&wire->more);
        }
    }
    watch(wire); /* reading may have made TLS want to write */
}

static void on_more(uv_idle_t *idle)
{
    est_wire *wire = EST_CONTAINER_OF(idle, est_wire, more);

    uv_idle_stop(idle);
    if (wire->stage != WIRE_OPEN) return;
    if (wire->n_staged > 0 && !unstage(wire)) return;
    receive(wire);
}

static void open_wire(est_wire *wire)
{
    pthread_mutex_lock(wire->lock);
    wire->stage = WIRE_OPEN;
    pthread_mutex_unlock(wire->lock);
    est_link_opened(wire->link);
}

/* true: the handshake is complete. */
static bool shake_hands(est_wire *wire)
{
    est_tls_result result;
    int            error;

    pthread_mutex_lock(wire->lock);
    result = est_tls_shake_hands(wire->tls);
    if (result != EST_TLS_BROKEN) (void)send_encrypted(wire);
    error = wire->broken;
    pthread_mutex_unlock(wire->lock);
    if (error != 0) {
        break_errno(wire, error);
        return false;
    }
    switch (result) {
    case EST_TLS_DONE: return true;
    case EST_TLS_WAIT: watch(wire); return false;
    case EST_TLS_CLOSED:
        est_link_broken(
            wire->link, EST_UNAVAILABLE,
            "the connection was closed during the TLS handshake (does one side use tls and the other tcp?)");
        return false;
    case EST_TLS_BROKEN: break;
    }
    break_tls(wire);
    return false;
}

static void on_connected(est_wire *wire)
{
    int       error = 0;
    socklen_t size  = sizeof error;

    if (getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) {
        break_errno(wire, error);
        return;
    }
    wire->stage = WIRE_SHAKING;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    est_wire *wire = EST_CONTAINER_OF(poll, est_wire, poll);

    if (status < 0) wire->events = 0; /* libuv has stopped watching; the error shows up when we read */
    if (wire->stage == WIRE_CONNECTING) on_connected(wire);
    if (wire->stage == WIRE_SHAKING && (wire->tls == NULL || shake_hands(wire))) open_wire(wire);
    if (wire->stage != WIRE_OPEN) return;
    if (events & UV_WRITABLE) stream_flush(wire);
    if (wire->stage == WIRE_OPEN) receive(wire);
}

static void stream_hold(est_wire *wire, bool on)
{
    wire->held = on;
    if (!on) uv_idle_start(&wire->more, on_more); /* what is staged, and what OpenSSL has already read */
    watch(wire);
}

static bool stream_finish(est_wire *wire)
{
    bool done;

    pthread_mutex_lock(wire->lock);
    done = wire->stage != WIRE_OPEN || wire->broken != 0 || !has_unsent(wire);
    pthread_mutex_unlock(wire->lock);
    if (done) shutdown(wire->fd, SHUT_WR);
    return done;
}

/* --- wires come and go -------------------------------------------------------------------------------------------- */

static void free_wire(est_wire *wire)
{
    est_outbox_clear(&wire->outbox);
    est_message_free(wire->message);
    est_tls_free(wire->tls);
    close(wire->fd);
    est_free(wire);
}

static void on_closed(uv_handle_t *handle)
{
    est_wire *wire = handle->data;

    if (--wire->n_handles == 0) est_free(wire);
}

static void stream_end(est_wire *wire)
{
    wire->stage = WIRE_ENDED;
    uv_poll_stop(&wire->poll);
    uv_close((uv_handle_t *)&wire->poll, on_closed);
    uv_close((uv_handle_t *)&wire->more, on_closed);
    est_outbox_clear(&wire->outbox);
    est_message_free(wire->message);
    wire->message = NULL;
    est_tls_free(wire->tls);
    wire->tls = NULL;
    est_free(wire->staged);
    wire->staged = NULL;
    close(wire->fd);
}

/* Takes the descriptor, also on failure. */
static est_status create_wire(est_carrier *carrier, int fd, bool server, est_wire **out)
{
    est_wire  *wire   = est_zalloc(sizeof *wire);
    est_status status = EST_OK;

    if (wire == NULL) {
        close(fd);
        return est_no_memory();
    }
    wire->carrier = carrier;
    wire->fd      = fd;
    wire->outbox  = (est_outbox){ .blocks = carrier->blocks };
    wire->stage   = server ? WIRE_SHAKING : WIRE_CONNECTING;
    if (carrier->tls != NULL) status = est_tls_create(carrier->tls, fd, server, &wire->tls);
    if (status == EST_OK && uv_poll_init(carrier->loop, &wire->poll, fd) != 0) {
        status = est_fail(EST_RESOURCE_EXHAUSTED, "cannot watch a socket");
    }
    if (status != EST_OK) {
        free_wire(wire);
        return status;
    }
    uv_idle_init(carrier->loop, &wire->more);
    wire->n_handles = 2;
    wire->poll.data = wire->more.data = wire;
    *out                              = wire;
    return EST_OK;
}

static est_status stream_connect(est_carrier *carrier, const est_socket_address *to, est_link *link,
                                 pthread_mutex_t *lock, est_wire **out)
{
    int fd;

    EST_TRY(est_socket_connect(to, &fd));
    EST_TRY(create_wire(carrier, fd, false, out));
    (*out)->link = link;
    (*out)->lock = lock;
    watch(*out);
    return EST_OK;
}

static void take_connection(est_carrier *carrier, int fd, const char *from)
{
    est_wire *wire;

    if (create_wire(carrier, fd, true, &wire) != EST_OK) {
        est_net_warn(carrier->net, from, est_error_message());
        return;
    }
    wire->link = est_link_accept(carrier->net, wire, from, est_descriptors_scarce(fd), &wire->lock);
    if (wire->link == NULL) {
        stream_end(wire);
        return;
    }
    if (carrier->tls == NULL) open_wire(wire);
    watch(wire);
}

static void on_rested(uv_timer_t *rest);

static void on_connection(uv_poll_t *poll, int status, int events)
{
    est_carrier *carrier = EST_CONTAINER_OF(poll, est_carrier, listener);
    char         from[EST_ADDRESS_MAX];
    int          fd;

    (void)status, (void)events;
    for (int i = 0; i < ACCEPT_MAX; i++) {
        fd = est_socket_accept(carrier->listen_fd, from);
        if (fd < 0) break;
        take_connection(carrier, fd, from);
    }
    if (fd >= 0) return; /* the rest is reported again */
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    /* The connection stays in the queue and would be reported again and again. */
    est_net_warn(carrier->net, "the listener:", strerror(errno));
    uv_poll_stop(poll);
    uv_timer_start(&carrier->rest, on_rested, REST_MS, 0);
}

static void on_rested(uv_timer_t *rest)
{
    est_carrier *carrier = EST_CONTAINER_OF(rest, est_carrier, rest);

    uv_poll_start(&carrier->listener, UV_READABLE, on_connection);
}

static void warn_of_tcp(const char *address)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool            warned;
    bool                   again;

    pthread_mutex_lock(&lock);
    again  = warned;
    warned = true;
    pthread_mutex_unlock(&lock);
    if (again) return;
    est_log_warn("tcp: connections are neither encrypted nor authenticated; "
                 "anyone who reaches %s can read and change the job: "
                 "choose tls, or use tcp on closed networks only",
                 address);
}

static est_status stream_listen(est_carrier *carrier, const char *address, int *port)
{
    EST_TRY(est_socket_listen(address, &carrier->listen_fd, port));
    if (uv_poll_init(carrier->loop, &carrier->listener, carrier->listen_fd) != 0) {
        close(carrier->listen_fd);
        carrier->listen_fd = -1;
        return est_fail(EST_RESOURCE_EXHAUSTED, "cannot watch a socket");
    }
    uv_timer_init(carrier->loop, &carrier->rest);
    uv_poll_start(&carrier->listener, UV_READABLE, on_connection);
    if (carrier->tls == NULL && !est_socket_is_local(carrier->listen_fd)) warn_of_tcp(address);
    return EST_OK;
}

static void stream_unlisten(est_carrier *carrier)
{
    if (carrier->listen_fd < 0) return;
    uv_poll_stop(&carrier->listener);
    uv_close((uv_handle_t *)&carrier->listener, NULL);
    uv_close((uv_handle_t *)&carrier->rest, NULL);
    close(carrier->listen_fd);
    carrier->listen_fd = -1;
}

static est_status open_carrier(est_net *net, uv_loop_t *loop, est_blocks *blocks, est_tls_context *tls,
                               est_carrier **out)
{
    est_carrier *carrier = est_zalloc(sizeof *carrier);

    if (carrier == NULL) return est_no_memory();
    *carrier = (est_carrier){ .net = net, .loop = loop, .blocks = blocks, .tls = tls, .listen_fd = -1 };
    *out     = carrier;
    return EST_OK;
}

static est_status tcp_open(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates,
                           est_carrier **out)
{
    (void)certificates;
    return open_carrier(net, loop, blocks, NULL, out);
}

static est_status tls_open(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates,
                           est_carrier **out)
{
    est_tls_context *tls;
    est_status       status;

    EST_TRY(est_tls_context_create(certificates, &tls));
    status = open_carrier(net, loop, blocks, tls, out);
    if (status != EST_OK) est_tls_context_free(tls);
    return status;
}

static void stream_close(est_carrier *carrier)
{
    est_tls_context_free(carrier->tls);
    est_free(carrier);
}

#define STREAM_FUNCTIONS                                                                                               \
    .close = stream_close, .listen = stream_listen, .unlisten = stream_unlisten, .connect = stream_connect,            \
    .send = stream_send, .forget = stream_forget, .queued_bytes = stream_queued_bytes,                                 \
    .taken_bytes = stream_taken_bytes, .flush = stream_flush, .hold = stream_hold, .finish = stream_finish,            \
    .end = stream_end, .inject = stream_inject

const est_transport est_transport_tcp = {
    .name  = "tcp",
    .about = "TCP without any protection",
    .open  = tcp_open,
    STREAM_FUNCTIONS,
};

const est_transport est_transport_tls = {
    .name  = "tls",
    .about = "TCP with TLS 1.3 and certificates on both sides",
    .open  = tls_open,
    STREAM_FUNCTIONS,
};
