/* SPDX-License-Identifier: Apache-2.0
 *
 * Transports carry frames: the contract between links (net/link.h) and tcp, tls and ucx.
 *
 * A carrier is a transport at work in one process, a wire one connection. A transport fills one struct est_transport,
 * is listed in net/transports.c, and calls the functions below when data arrives. It delivers frames whole and in
 * order, each as one est_message, and does not interpret them.
 *
 * Threading: calls run in the network thread, whose loop the carrier was given, except where a comment says otherwise.
 * The functions that a transport calls may call back into it. `lock` is the link's own: it guards what a wire has
 * queued, and is never held while a transport calls up. */
#ifndef EST_NET_TRANSPORT_H
#define EST_NET_TRANSPORT_H

#include <pthread.h>
#include <sys/socket.h>
#include <uv.h>

#include "net/message.h"

typedef struct est_carrier est_carrier;
typedef struct est_wire    est_wire;

/* A frame to send. */
typedef struct est_outgoing {
    est_frame   frame;   /* measured; the transport sets the sequence when the frame's turn has come */
    est_payload payload; /* the head is copied */
    void *owner; /* not NULL: parts are borrowed until they are sent or forgotten; NULL: copied if they must wait */
} est_outgoing;

typedef struct est_socket_address {
    struct sockaddr_storage at;
    socklen_t               size;
} est_socket_address;

/* Faults that tests inject. */
typedef enum est_injection {
    EST_INJECT_NOTHING,
    EST_INJECT_SILENCE, /* outgoing bytes are lost, incoming ones not read */
    EST_INJECT_CUT      /* the connection breaks after n more bytes were sent */
} est_injection;

typedef struct est_transport {
    const char *name;
    const char *about; /* one line */

    /* Whether it can be used here. NULL: always. EST_UNIMPLEMENTED: no; the error says what to install. */
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

    /* Sends a frame, or queues what cannot be sent now. Any thread, lock held. EST_RESOURCE_EXHAUSTED: nothing was
     * sent. A broken wire is no error here: *wake is set, and the caller must call `flush`. */
    est_status (*send)(est_wire *wire, est_outgoing *out, bool *wake);

    /* The owner is about to free its memory: drops frames that were not begun, copies the rest of one that was. Any
     * thread, lock held. */
    void (*forget)(est_wire *wire, const void *owner, bool *wake);

    size_t (*queued_bytes)(const est_wire *wire);  /* copied ones. Any thread, lock held */
    uint64_t (*taken_bytes)(const est_wire *wire); /* in all; shows progress. Any thread, lock held */

    /* Handles work of other threads: the rest of the queue, a broken wire. */
    void (*flush)(est_wire *wire);
    void (*hold)(est_wire *wire, bool on); /* stops or resumes reading */
    bool (*finish)(est_wire *wire);        /* true when all is sent; then it signals the end to the peer */

    /* Closes and frees it; no callback and no read of an owner's memory follow. Lock held, if there is one yet. */
    void (*end)(est_wire *wire);

    void (*inject)(est_wire *wire, est_injection what, uint64_t n); /* NULL: cannot; lock held */
} est_transport;

extern const est_transport        est_transport_tcp, est_transport_tls, est_transport_ucx;
extern const est_transport *const est_transports[]; /* all; NULL ends them */

/* By name. EST_INVALID_ARGUMENT: unknown; the error lists the transports. */
EST_MUST_CHECK est_status est_transport_find(const char *name, const est_transport **out);

/* --- what a transport calls: in the network thread, without the lock ---------------------------------------------- */

/* A peer has connected. `scarce`: descriptors are running out, so it is accepted only in place of another. NULL: it
 * is refused, and closed. */
est_link *est_link_accept(est_net *net, est_wire *wire, const char *address, bool scarce, pthread_mutex_t **lock);

/* Frames may be sent; with tls the peer has shown its certificate. */
void est_link_opened(est_link *link);

/* A header has arrived: returns the memory for its body. On failure the wire has been ended. */
EST_MUST_CHECK est_status est_link_room(est_link *link, const est_frame *frame, est_message **out);

/* The whole frame has arrived; the message is taken. false: the wire has been ended. */
bool est_link_frame(est_link *link, const est_frame *frame, est_message *message);

/* Bytes have arrived. */
void est_link_heard(est_link *link, size_t bytes);

/* Some of the queue has been sent. */
void est_link_drained(est_link *link);

/* The connection is broken, and why. The wire has been ended when this returns. EST_UNAVAILABLE: a retry may help. */
void est_link_broken(est_link *link, est_status status, const char *why);

/* Logs a refused connection: once a minute per host, and for 32 hosts a minute, so that nobody can fill the log. */
void est_net_warn(est_net *net, const char *address, const char *why);

#endif
