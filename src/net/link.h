/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by net.c, link.c and ask.c: the structs of a net and of its links.
 *
 * Only the network thread moves a link from one state to the next, and owns the list of links. Other threads leave
 * requests in the link, under its lock, and flag it. Locks: a link's before the net's; no callback is called with
 * either held. Once a link is lost it no longer uses its net, so that links and asks may outlive it. */
#ifndef EST_NET_LINK_H
#define EST_NET_LINK_H

#include "base/refcount.h"
#include "base/thread.h"
#include "net/socket.h"
#include "net/transport.h"
#include "net/unfinished.h"

#define EST_REFUSALS_MAX 32
#define EST_WHY_MAX      512

typedef enum est_link_state {
    EST_LINK_CONNECTING, /* by the transport */
    EST_LINK_HELLO,      /* the hello of the peer is missing */
    EST_LINK_OPEN,
    EST_LINK_CLOSING, /* answers are still being sent */
    EST_LINK_LOST
} est_link_state;

struct est_ask {
    est_link      *link; /* a reference */
    uint64_t       id;
    int64_t        deadline_ns; /* INT64_MAX: none */
    double         deadline_secs;
    est_ask_done   done; /* NULL: a thread waits */
    void          *user;
    pthread_cond_t finished_cond;
    est_ask       *next; /* in link->to_call */

    bool         finished;
    est_status   status;
    est_message *answer;
    char         what[64];
    char         error[EST_FAREWELL_MAX + EST_NET_NAME_MAX + 8];
};

/* Asks under way by number. An id is a slot and its number of uses, so that a late answer finds nothing. */
typedef struct est_ask_slot {
    est_ask *ask; /* NULL: free */
    uint32_t uses;
    uint32_t next_free;
} est_ask_slot;

struct est_request {
    est_link    *link; /* a reference */
    uint64_t     id;
    uint16_t     method;
    est_message *message;
};

struct est_link {
    est_refcount         refs;
    est_net             *net; /* until it is lost */
    const est_transport *transport;
    est_blocks          *blocks;                   /* a reference */
    bool                 accepted;                 /* the peer connected */
    char                 address[EST_ADDRESS_MAX]; /* of the peer */
    char                 wanted[EST_NET_NAME_MAX]; /* the task that it must be; "": any */
    int64_t              made_ns;
    pthread_cond_t       changed; /* the state; for est_net_connect */

    /* Owned by the network thread. */
    est_link            *next, *previous;
    est_unfinished_entry unfinished;
    bool                 listed, met, held;
    uv_work_t           *judging;  /* decides in another thread about admission; NULL: not under way */
    uint64_t             sequence; /* of the next frame */
    int64_t              close_by_ns;
    bool                 half_closed;

    /* Guards what follows and the queue of the wire; the network thread reads state and wire without it. */
    pthread_mutex_t lock;
    est_link_state  state;
    est_wire       *wire;
    est_task_id     peer; /* fixed once open */
    bool            flagged, cancelled;
    bool            full;  /* of answers that the peer does not read */
    bool            muted; /* the net is being aborted: no answer leaves */
    bool            close_wanted;
    est_status      failure; /* of a link that is closing or lost */
    char            why[EST_WHY_MAX];
    est_ask_slot   *slots;
    uint32_t        n_slots, free_slot; /* n_slots: none */
    est_ask        *to_call;            /* finished asks with a `done` */
    int64_t         heard_ns, sent_ns;
    uint64_t        taken_bytes; /* of the wire, at the last tick */

    est_link_counters counters;
    est_link         *next_flagged; /* guarded by the net's lock */
};

struct est_net {
    est_net_options      options; /* its texts are not used after creation */
    const est_transport *transport;
    est_carrier         *carrier;
    est_blocks          *blocks;
    uv_loop_t            loop;
    uv_async_t           wake;
    uv_timer_t           tick;
    est_thread           thread;
    int64_t              silence_ns;

    /* Owned by the network thread. */
    est_link      *links;
    est_unfinished unfinished;  /* accepted links whose peers wait for admission */
    int            n_strangers; /* accepted links that ended before admission, since the last trim */
    uv_work_t      trim;        /* returns free memory to the system */
    int64_t        trim_ns;     /* earliest time of the next trim; INT64_MAX: under way */
    int64_t        ticked_ns;
    struct {
        char    host[EST_ADDRESS_MAX];
        int64_t at_ns;
    } refusals[EST_REFUSALS_MAX];
    struct {
        char          task[EST_NET_NAME_MAX];
        est_injection what;
        uint64_t      n;
    } injected;

    pthread_mutex_t call_lock; /* one est_net_call at a time */

    pthread_mutex_t lock;    /* guards what follows */
    pthread_cond_t  changed; /* a call is done or cancelled, or the last est_net_connect has ended */
    est_link       *flagged;
    est_status (*call)(est_net *net, void *arg);
    void      *call_arg;
    bool       call_done;
    est_status call_status;
    est_error  call_error;
    int        n_connecting; /* threads in est_net_connect */
    int        port;
    bool       stopping, cancelled;
    bool       cancel_due; /* requested by a callback: links cannot be lost inside one */
    char       cancel_why[EST_WHY_MAX];
};

/* --- net.c -------------------------------------------------------------------------------------------------------- */

/* Makes the network thread look at the link soon. The link's lock is held. */
void est_net_flag(est_net *net, est_link *link);

/* --- link.c: in the network thread -------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_link_create(est_net *net, const char *address, const char *wanted, est_link **out);

/* Adds the link to the net's list, which gets a reference. */
void est_link_add(est_link *link);

/* Ends the wire, fails pending asks, calls `lost`. */
void est_link_lose(est_link *link, est_status status, const char *why);

/* Sends a farewell and closes when all is sent, or when the peer reads none of it for a second. Asks fail with
 * `status`. */
void est_link_leave(est_link *link, est_status status, const char *why);

/* Handles requests of other threads; handles timeouts. */
void est_link_look(est_link *link);
void est_link_tick(est_link *link, int64_t now_ns);

/* Sends a frame; the lock is held. EST_OK also when the wire turns out to be broken. */
EST_MUST_CHECK est_status est_link_send(est_link *link, est_frame_kind kind, uint64_t id, uint16_t method,
                                        est_payload payload, void *owner);

/* Sends a failure or a farewell. The lock is held. */
void est_link_send_text(est_link *link, est_frame_kind kind, uint64_t id, est_status status, const char *text);

/* The peer in texts: its task, or its address before its hello. */
const char *est_link_name(const est_link *link);

/* Applies the fault that a test injected. */
void est_link_inject(est_link *link);

/* --- ask.c -------------------------------------------------------------------------------------------------------- */

/* The lock is held for these; asks with a `done` go onto link->to_call. */
void est_asks_fail_all(est_link *link, est_status status, const char *why, bool waited_only);
void est_asks_expire(est_link *link, int64_t now_ns);

/* Calls `done` of the asks in link->to_call. Network thread, without the lock. */
void est_asks_call(est_link *link);

/* Handle an answer or a failure, and a request. The message is taken. Network thread, without the lock. */
void est_asks_answered(est_link *link, const est_frame *frame, est_message *message);
void est_asks_serve(est_link *link, const est_frame *frame, est_message *message);

#endif
