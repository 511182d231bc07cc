/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by ucx.c and ucx_wire.c: the structs of a carrier and of its wires.
 *
 * Any thread calls UCX, under the carrier's lock, which comes after links' locks: a small frame leaves from the thread
 * that sends it. Callbacks of UCX run under that lock, within ucp_worker_progress, and only record events; the network
 * thread handles them afterwards, without the lock, before the loop goes to sleep. A thread that leaves work to UCX
 * wakes it.
 *
 *   U1  Memory of an owner is not read any more when `forget` or `end` returns: its requests are completed then. */
#ifndef EST_NET_UCX_WIRE_H
#define EST_NET_UCX_WIRE_H

#include "net/transport.h"
#include "net/ucx_library.h"

#define EST_UCX_FRAME 1 /* the number of our active messages */

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
    est_wire       *ready; /* with events to handle */
    connection     *first_connection, *last_connection;
};

struct est_wire {
    est_carrier *carrier;
    est_link    *link;
    bool         ended;        /* only the network thread sets it, under the carrier's lock */
    bool         held, opened; /* the network thread's */
    uint64_t     next_in;      /* sequence; the network thread's */
    arrival     *receiving;    /* large, under way; the network thread's */

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
    uint64_t     taken_bytes; /* of what was copied */
    bool         drained;     /* a sending is done */
};

/* A frame that UCX has not sent yet. The list of its pieces, its front and, without an owner, its parts lie behind
 * it. */
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

/* --- under the carrier's lock ------------------------------------------------------------------------------------- */

/* Notes an event of the wire. */
void est_ucx_make_ready(est_wire *wire);
void est_ucx_break(est_wire *wire, ucs_status_t why);

/* UCX calls these. */
void         est_ucx_on_error(void *user, ucp_ep_h ep, ucs_status_t status);
ucs_status_t est_ucx_on_frame(void *user, const void *front, size_t front_bytes, void *data, size_t size,
                              const ucp_am_recv_param_t *param);

/* --- in the network thread ---------------------------------------------------------------------------------------- */

/* Handles the events of a wire. Frames that came before it broke are still delivered. */
void est_ucx_see_to(est_wire *wire);

/* Frees ended wires that UCX has done with. */
void est_ucx_reap(est_carrier *carrier);

/* --- as in est_transport ------------------------------------------------------------------------------------------ */

est_status est_ucx_send(est_wire *wire, est_outgoing *out, bool *wake);
void       est_ucx_forget(est_wire *wire, const void *owner, bool *wake);
size_t     est_ucx_queued_bytes(const est_wire *wire);
uint64_t   est_ucx_taken_bytes(const est_wire *wire);
void       est_ucx_flush(est_wire *wire);
void       est_ucx_hold(est_wire *wire, bool on);
bool       est_ucx_finish(est_wire *wire);
void       est_ucx_end(est_wire *wire);
void       est_ucx_inject(est_wire *wire, est_injection what, uint64_t n);

#endif
