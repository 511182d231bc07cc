/* SPDX-License-Identifier: Apache-2.0
 *
 * What net.c, link.c and ask.c share: the structs of a net and of its links.
 *
 * Only the network thread moves a link from one state to the next, and owns the list of links. Other threads leave what
 * they want done in the link, under its lock, and flag it. Locks: a link's before the net's; no callback is called with
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
    EST_LINK_CONNECTING, /* the transport is not done */
    EST_LINK_HELLO,      /* the peer has not said who it is */
    EST_LINK_OPEN,
    EST_LINK_CLOSING, /* what was answered is still sent */
    EST_LINK_LOST
} est_link_state;

struct est_ask {
    est_link      *link; /* a reference */
    uint64_t       id;
    int64_t        deadline_ns; /* INT64_MAX: none */
    double         deadline_secs;
    est_ask_done   done; /* NULL: somebody waits */
    void          *user;
    pthread_cond_t finished_cond;
    est_ask       *next; /* among those whose `done` is to be called */

    bool         finished;
    est_status   status;
    est_message *answer;
    char         what[64];
    char         error[EST_FAREWELL_MAX + EST_NET_NAME_MAX + 8];
};

/* Asks under way by number: an id is a slot and how often it was used, so that a late answer finds nothing. */
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
    bool                 accepted;                 /* the peer called us */
    char                 address[EST_ADDRESS_MAX]; /* of the peer */
    char                 wanted[EST_NET_NAME_MAX]; /* the task that it must be; "": any */
    int64_t              made_ns;
    pthread_cond_t       changed; /* the state has: for est_net_connect */

    /* The network thread's. */
    est_link            *next, *previous;
    est_unfinished_entry unfinished;
    bool                 listed, met, held;
    uv_work_t           *judging;  /* another thread finds out whether the peer is let in; NULL: none does */
    uint64_t             sequence; /* of the frame that comes next */
    int64_t              close_by_ns;
    bool                 half_closed;

    pthread_mutex_t lock; /* guards what follows and what the wire has queued; the network thread reads state and wire
                             without it, because only it writes them */
    est_link_state  state;
    est_wire       *wire;
    est_task_id     peer; /* fixed once open */
    bool            flagged, cancelled;
    bool            full; /* of answers that the peer does not fetch */
    bool            close_wanted;
    est_status      failure; /* once closing or lost: why */
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
    est_net_options      options; /* texts of it are not used after creation */
    const est_transport *transport;
    est_carrier         *carrier;
    est_blocks          *blocks;
    uv_loop_t            loop;
    uv_async_t           wake;
    uv_timer_t           tick;
    est_thread           thread;
    int64_t              silence_ns;

    /* The network thread's. */
    est_link      *links;
    est_unfinished unfinished;  /* links accepted whose peers were not let in yet */
    int            n_strangers; /* links that ended before that, since memory was last given back */
    uv_work_t      trim;        /* gives it back */
    int64_t        trim_ns;     /* not before then again; INT64_MAX: under way */
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
    pthread_cond_t  changed; /* a call is done, or cancelled, or nobody connects any more */
    est_link       *flagged;
    est_status (*call)(est_net *net, void *arg);
    void      *call_arg;
    bool       call_done;
    est_status call_status;
    est_error  call_error;
    int        n_connecting; /* threads in est_net_connect */
    int        port;
    bool       stopping, cancelled;
    bool       cancel_due; /* by a callback: links are not lost while one is looked at */
    char       cancel_why[EST_WHY_MAX];
};

/* --- net.c ----------------------------------------------------------------------------------------------------------- */

/* Makes the network thread look at the link soon. The link's lock is held. */
void est_net_flag(est_net *net, est_link *link);

/* --- link.c: in the network thread ----------------------------------------------------------------------------------- */

EST_MUST_CHECK est_status est_link_create(est_net *net, const char *address, const char *wanted, est_link **out);

/* Into the net's list, with a reference. */
void est_link_add(est_link *link);

/* Ends the wire, fails what waits, tells who wants to know. */
void est_link_lose(est_link *link, est_status status, const char *why);

/* Says farewell and closes once all is sent, or when the peer takes none of it for a second. Asks fail with `status`. */
void est_link_leave(est_link *link, est_status status, const char *why);

/* What other threads have left to do; what is due by now. */
void est_link_look(est_link *link);
void est_link_tick(est_link *link, int64_t now_ns);

/* Sends a frame; the lock is held. EST_OK also when the wire turns out to be broken. */
EST_MUST_CHECK est_status est_link_send(est_link *link, est_frame_kind kind, uint64_t id, uint16_t method,
                                        est_payload payload, void *owner);

/* Sends a failure or a farewell. The lock is held. */
void est_link_send_text(est_link *link, est_frame_kind kind, uint64_t id, est_status status, const char *text);

/* Who the peer is, for people: its task, or its address while that is not known. */
const char *est_link_name(const est_link *link);

/* Makes the wire do what tests asked for. */
void est_link_inject(est_link *link);

/* --- ask.c ----------------------------------------------------------------------------------------------------------- */

/* The lock is held for these; asks with a `done` go onto link->to_call. */
void est_asks_fail_all(est_link *link, est_status status, const char *why, bool waited_only);
void est_asks_expire(est_link *link, int64_t now_ns);

/* Calls what is on link->to_call. Network thread, without the lock. */
void est_asks_call(est_link *link);

/* An answer or a failure has come; a request has. The message is taken. Network thread, without the lock. */
void est_asks_answered(est_link *link, const est_frame *frame, est_message *message);
void est_asks_serve(est_link *link, const est_frame *frame, est_message *message);

#endif
