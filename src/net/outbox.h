/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits to be sent over one connection: frames in order, gathered as many at once as fit. A frame that goes out at
 * once costs no memory; one that must wait is kept with its parts where they lie (asks) or as a copy of what is left
 * (answers). One thread at a time. */
#ifndef EST_NET_OUTBOX_H
#define EST_NET_OUTBOX_H

#include <sys/uio.h>

#include "net/transport.h"

typedef struct est_sending est_sending;

/* A zeroed struct with `blocks` set is an empty one. */
typedef struct est_outbox {
    est_blocks  *blocks; /* borrowed */
    est_sending *first, *last;
    size_t       copied_bytes; /* that wait in copies */
    uint64_t     sequence;     /* of the next frame */
} est_outbox;

/* Sends as much of iov as the kernel takes: the number of bytes, 0: none now, -1: the connection is broken. */
typedef ssize_t (*est_outbox_transmit)(void *user, struct iovec *iov, int n);

/* Sends a frame after those that wait, or keeps it. EST_RESOURCE_EXHAUSTED: no memory to keep it; *torn: some of it
 * was sent, so that the connection is useless. *sound false: transmit found the connection broken. */
EST_MUST_CHECK est_status est_outbox_send(est_outbox *box, est_outgoing *out, est_outbox_transmit transmit, void *user,
                                          bool *torn, bool *sound);

/* Sends as much as the kernel takes; false: transmit found the connection broken. */
bool est_outbox_flush(est_outbox *box, est_outbox_transmit transmit, void *user);

/* Drops the owner's frames that were not begun, and copies the rest of one that was. false: out of memory. */
bool est_outbox_forget(est_outbox *box, const void *owner);

void est_outbox_clear(est_outbox *box);

#endif
