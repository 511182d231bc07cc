/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a process: requests to other tasks of the job, and theirs to this one.
 *
 * A process has one est_net: one thread, at most one listener, and a link to every peer that it talks to. A link is a
 * connection whose two ends have identified themselves (est_task_id) as tasks of one job. Either end may make requests
 * over it; every request is answered, or fails within its deadline with a text that names the peer and what was asked
 * of it. Peers that are silent for longer than `silence_secs` are lost, and so are those that close, break the protocol
 * or send what cannot be read; a lost link never comes back, est_net_connect makes a new one.
 *
 * A payload is a head of some bytes, which the layer above encodes, and parts: memory that is sent without a copy and
 * arrives as one block in which every part begins at a multiple of 64 bytes. Sizes are 64-bit throughout.
 *
 * The transport beneath (net/transport.h) is "tls", TCP with TLS 1.3 and certificates of the job's own authority on
 * both sides; "tcp", the same without any protection; or "ucx", shared memory and RDMA, which trusts its peers.
 *
 * Threading: any thread, except that callbacks run in the network thread and must not block: they may answer, start
 * requests and hand work to other threads, but not wait for a request. */
#ifndef EST_NET_NET_H
#define EST_NET_NET_H

#include <stdbool.h>

#include "estoc/status.h"

typedef struct est_net     est_net;
typedef struct est_link    est_link;    /* reference-counted */
typedef struct est_request est_request; /* made by a peer: to be answered once */
typedef struct est_ask     est_ask;     /* made by this process: to be waited for once */

#define EST_NET_NAME_MAX   64
#define EST_NET_PLACE_MAX  256
#define EST_NET_FOLDER_MAX 256

/* The identity of a process. The incarnation is drawn at every start, so that a restarted process is a different
 * one. */
typedef struct est_task_id {
    char     job[EST_NET_NAME_MAX];  /* peers of another job are refused; "" is a name like any */
    char     task[EST_NET_NAME_MAX]; /* "ps:0", "worker:3", "chief:0", "client" */
    uint64_t incarnation;
    char     place[EST_NET_PLACE_MAX];   /* for errors about two processes of one task: "pid 7 on a ..." */
    char     folder[EST_NET_FOLDER_MAX]; /* of its checkpoints; "": none, or too long */
} est_task_id;

typedef struct est_part {
    const void *data;
    size_t      size;
} est_part;

/* A message to be sent. */
typedef struct est_payload {
    const void     *head;
    size_t          head_size;
    const est_part *parts;
    int             n_parts;
    bool            behind; /* a hint: leave the sending to the network thread, since the caller is busy */
} est_payload;

/* A received message: one block of memory, with parts at multiples of 64 bytes. */
typedef struct est_message est_message;
const void                *est_message_head(const est_message *message, size_t *size);
int                        est_message_parts(const est_message *message);
void                      *est_message_part(const est_message *message, int i, size_t *size); /* may be written to */
est_message               *est_message_ref(est_message *message);
void                       est_message_free(est_message *message); /* gives a reference back; NULL is fine */

typedef enum est_admission { EST_REFUSED, EST_ADMITTED, EST_UNDECIDED } est_admission;

typedef struct est_net_options {
    const char *transport;    /* "tls", "tcp", "ucx" */
    const char *certificates; /* for tls: a folder with ca.pem, cert.pem and key.pem (net/certificates.h) */
    est_task_id self;
    double      silence_secs; /* 0: 10; a link on which nothing came for that long is lost; beats are sent at a third */
    size_t      message_max;  /* 0: half of the machine's memory; a peer that announces more is lost */

    /* A peer asks. `request` is answered now or later, from any thread. The message is borrowed until then
     * (est_message_ref keeps it longer). Called in the order in which requests of one link were made. */
    void (*serve)(void *user, est_request *request);

    /* Whether a peer of our job is admitted; a refused one is told `why` (`size` bytes). If the decision needs the
     * disk, EST_UNDECIDED causes a second call with `may_block` in a thread that may wait. NULL: all are admitted. */
    est_admission (*admit)(void *user, const est_task_id *peer, bool may_block, char *why, size_t size);

    /* Called once per link when it opens, made by either side, and when it is lost, with the reason. NULL: not
     * called. */
    void (*met)(void *user, est_link *link);
    void (*lost)(void *user, est_link *link, const char *why);

    /* A full link (est_link_is_full) has room again. NULL: not called. */
    void (*drained)(void *user, est_link *link);
    void *user;
} est_net_options;

/* Starts the network thread. */
EST_MUST_CHECK est_status est_net_create(const est_net_options *options, est_net **out);

/* Closes the listener and all links, fails pending asks with EST_CANCELLED, and ends the thread. Earlier answers are
 * still sent, for at most a minute, to peers that read some of them every second. Links, asks, requests and messages
 * may be freed later. NULL is fine. */
void est_net_free(est_net *net);

/* Listens at "host:port", "[IPv6]:port" or ":port"; port 0 takes a free one. Once. An IP address selects its
 * interface, localhost the loopback; any other name, by which others find this host, means all interfaces.
 * EST_UNAVAILABLE: the port is in use; the error says what to do. */
EST_MUST_CHECK est_status est_net_listen(est_net *net, const char *address);
int                       est_net_port(const est_net *net); /* 0: does not listen */

/* Makes a new link to the process at an address, which must be `task` of our job (NULL: any task). Tries again while
 * nobody listens there, and fails with EST_UNAVAILABLE after `deadline_secs`, which the addresses of a host share;
 * the error names the address and the last reason. A peer that refuses us or is another task fails at once. Blocks;
 * est_net_cancel ends it. */
EST_MUST_CHECK est_status est_net_connect(est_net *net, const char *address, const char *task, double deadline_secs,
                                          est_link **out);

/* The same for a caller that decides itself when to give up. `look` is called twice a second, without a lock, with
 * the result of the last attempt ("": none has ended yet); its failure ends the call and is returned. Attempts are
 * not cut short by `look`, so that a peer that is slow with its hello gets through. */
typedef est_status (*est_net_look)(void *user, const char *why);
EST_MUST_CHECK est_status est_net_connect_while(est_net *net, const char *address, const char *task, est_net_look look,
                                                void *user, est_link **out);

/* The newest open link to a process; borrowed. NULL: none. Only from callbacks. */
est_link *est_net_find(const est_net *net, const est_task_id *peer);

/* Makes all present and later calls of est_net_connect and est_ask_wait fail with EST_CANCELLED; from any thread. */
void est_net_cancel(est_net *net, const char *why);

/* Closes the listener and all links at once, without a farewell, as when the process is killed, and cancels the net.
 * From any thread, without a lock that callbacks take. */
void est_net_abort(est_net *net, const char *why);

/* --- links -------------------------------------------------------------------------------------------------------- */

const est_task_id *est_link_peer(const est_link *link);
bool               est_link_is_lost(const est_link *link);

/* Whether so many answers wait for the peer to read them that its requests are no longer read. A thread that
 * executes requests should leave those of this link until it is drained. */
bool est_link_is_full(const est_link *link);

est_link *est_link_ref(est_link *link);
void      est_link_free(est_link *link); /* drops a reference; the connection stays until it is closed */

/* Closes the connection; `lost` is called on both sides. Requests under way fail with EST_UNAVAILABLE. */
void est_link_close(est_link *link, const char *why);

/* Traffic of the link, for the status view. */
typedef struct est_link_counters {
    uint64_t bytes_in, bytes_out, requests_in, requests_out;
    double   silent_secs; /* since the last byte arrived */
} est_link_counters;
est_link_counters est_link_count(const est_link *link);

/* --- requests that we make ---------------------------------------------------------------------------------------- */

/* Sends a request. The head is copied; parts are borrowed until the ask is done (est_ask_wait, or `done` was called).
 * `method` is a number of the layer above, `what` a short text for errors ("pull of step 7"), copied. `done`, when not
 * NULL, is called in the network thread instead of a wait: with the answer, which it may keep by reference, or the
 * failure; *out is NULL then, and `out` may be. `deadline_secs` may be EST_FOREVER: as long as the link lasts. A wait
 * sees its deadline to the millisecond, `done` to a tenth of a second. */
typedef void (*est_ask_done)(void *user, est_status status, const char *error, est_message *answer);
EST_MUST_CHECK est_status est_link_ask(est_link *link, uint16_t method, const char *what, est_payload payload,
                                       double deadline_secs, est_ask_done done, void *user, est_ask **out);

/* Waits for the answer: once, and it frees the ask. A failure that the peer answered comes back with its code and text,
 * with the peer's name in front; EST_UNAVAILABLE: the link was lost; EST_DEADLINE_EXCEEDED: "ps:0 did not answer <what>
 * within 30 s". `answer` is owned by the caller then. */
EST_MUST_CHECK est_status est_ask_wait(est_ask *ask, est_message **answer);

/* Waits at most `secs` until est_ask_wait would return at once; returns whether it would. */
bool est_ask_await(est_ask *ask, double secs);

double est_ask_limit_secs(const est_ask *ask); /* its deadline_secs; INFINITY: none */

/* Gives up on a pending answer: est_ask_wait, which must still be called, returns EST_CANCELLED at once. The peer
 * may execute the request all the same. */
void est_ask_give_up(est_ask *ask, const char *why);

/* --- requests that are made of us --------------------------------------------------------------------------------- */

uint16_t     est_request_method(const est_request *request);
est_link    *est_request_link(const est_request *request);    /* borrowed */
est_message *est_request_message(const est_request *request); /* borrowed */

/* Answers, once, and frees the request. The payload is not used after the return: bytes that the kernel does not
 * take at once are copied. A lost link is no error: nobody waits any more. */
void est_request_answer(est_request *request, est_payload payload);
void est_request_fail(est_request *request, est_status status, const char *message);

#endif
