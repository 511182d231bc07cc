/* SPDX-License-Identifier: Apache-2.0
 *
 * What carries frames: the contract between links (net/link.h) and tcp, tls and ucx.
 *
 * A carrier is a transport at work in one process, a wire one connection. A transport fills one struct est_transport, is
 * listed in net/transports.c, and calls the functions below when something comes in. It keeps frames whole and in order,
 * and hands each over as one est_message; it knows nothing of what they mean.
 *
 * Threading: calls run in the network thread, whose loop the carrier was given, except where a comment says otherwise. The
 * functions that a transport calls may call back into it. `lock` is the link's own: it guards what a wire has queued, and
 * is never held while a transport calls up. */
#ifndef EST_NET_TRANSPORT_H
#define EST_NET_TRANSPORT_H

#include <pthread.h>
#include <sys/socket.h>
#include <uv.h>

#include "net/message.h"

typedef struct est_carrier est_carrier;
typedef struct est_wire    est_wire;

/* A frame to be sent. */
typedef struct est_outgoing {
    est_frame   frame;   /* measured; the transport sets the sequence when the frame's turn has come */
    est_payload payload; /* the head is copied */
    void *owner; /* not NULL: parts are borrowed until they are sent or forgotten; NULL: copied if they must wait */
} est_outgoing;

typedef struct est_socket_address {
    struct sockaddr_storage at;
    socklen_t               size;
} est_socket_address;

/* What tests do to a wire. */
typedef enum est_injection {
    EST_INJECT_NOTHING,
    EST_INJECT_SILENCE, /* bytes are lost on their way out; what comes in is not read */
    EST_INJECT_CUT      /* the connection breaks after n more bytes were sent */
} est_injection;

typedef struct est_transport {
    const char *name;
    const char *about; /* one line */

    /* Whether it can be used here. NULL: always. EST_UNIMPLEMENTED: no, and what to install. */
    est_status (*check)(void);

    /* Any thread, before the loop runs and after it has ended; all wires are closed then. */
    est_status (*open)(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates, est_carrier **out);
    void (*close)(est_carrier *carrier);

    /* Each accepted connection is shown to est_link_accept. */
    est_status (*listen)(est_carrier *carrier, const char *address, int *port);
    void (*unlisten)(est_carrier *carrier);

    /* Begins to connect; est_link_opened or est_link_broken follows. */
    est_status (*connect)(est_carrier *carrier, const est_socket_address *to, est_link *link, pthread_mutex_t *lock,
                          est_wire **out);

    /* Sends a frame or queues what cannot be sent now. Any thread, lock held. EST_RESOURCE_EXHAUSTED: nothing was sent. A
     * wire that turns out to be broken is no error here: *wake is set, and `flush` is to be called. */
    est_status (*send)(est_wire *wire, est_outgoing *out, bool *wake);

    /* The owner's memory is about to go: drops what was not begun, copies what was. Any thread, lock held. */
    void (*forget)(est_wire *wire, const void *owner, bool *wake);

    size_t (*queued_bytes)(const est_wire *wire); /* copied ones. Any thread, lock held */
    uint64_t (*taken_bytes)(
        const est_wire *wire); /* all that were sent so far: whether it grows. Any thread, lock held */

    /* Sees to what other threads have left: the rest of the queue, a wire found broken. */
    void (*flush)(est_wire *wire);
    void (*hold)(est_wire *wire, bool on); /* stops reading, or goes on */
    bool (*finish)(est_wire *wire);        /* true once all is sent; tells the peer that no more comes */

    /* Closes and frees it; it calls nothing any more, and reads no owner's memory. Lock held, if there is one yet. */
    void (*end)(est_wire *wire);

    void (*inject)(est_wire *wire, est_injection what, uint64_t n); /* NULL: cannot; lock held */
} est_transport;

extern const est_transport        est_transport_tcp, est_transport_tls, est_transport_ucx;
extern const est_transport *const est_transports[]; /* all; NULL ends them */

/* By name. EST_INVALID_ARGUMENT: there is none, and which there are. */
EST_MUST_CHECK est_status est_transport_find(const char *name, const est_transport **out);

/* --- what a transport calls: in the network thread, without the lock ------------------------------------------------- */

/* A connection has been made to us. `scarce`: descriptors run out, so it is taken only in place of another. NULL: it is not
 * wanted, and is closed. */
est_link *est_link_accept(est_net *net, est_wire *wire, const char *address, bool scarce, pthread_mutex_t **lock);

/* Frames may be sent; with tls the peer has shown its certificate. */
void est_link_opened(est_link *link);

/* A header has arrived: where does the body go? On failure the wire has been ended. */
EST_MUST_CHECK est_status est_link_room(est_link *link, const est_frame *frame, est_message **out);

/* All of it has; the message is taken. false: the wire has been ended. */
bool est_link_frame(est_link *link, const est_frame *frame, est_message *message);

/* Bytes have arrived. */
void est_link_heard(est_link *link, size_t bytes);

/* What waited has been sent as far as it went. */
void est_link_drained(est_link *link);

/* The connection is broken, and why. The wire has been ended when this returns. EST_UNAVAILABLE: trying again may help. */
void est_link_broken(est_link *link, est_status status, const char *why);

/* Logs that a connection from an address was refused: once a minute for every host, and for 32 hosts a minute, so that nobody
 * can fill the log. */
void est_net_warn(est_net *net, const char *address, const char *why);

#endif
