/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepted connections whose peers wait for admission. Anyone can make them, so their number is limited: when it is
 * exceeded, the oldest connection of the source that has most of them is dropped. So a flood displaces its own
 * connections, and a task that connects meanwhile is admitted: from another address always, from the same one unless
 * its handshake takes longer than the flood needs to fill all places.
 *
 * A source is an IPv4 address or an IPv6 network of 64 bits. Sources are compared by a hash: two with the same hash
 * count as one source. Owned by the network thread. */
#ifndef EST_NET_UNFINISHED_H
#define EST_NET_UNFINISHED_H

#include <stdbool.h>
#include <stdint.h>

#define EST_SOURCES 256

typedef struct est_unfinished_entry {
    struct est_unfinished_entry *older, *newer; /* of the same source */
    uint64_t                     number;        /* counted through all sources */
    int                          source;
    bool                         listed;
} est_unfinished_entry;

typedef struct est_unfinished {
    int      n, n_max;
    uint64_t n_added;
    struct {
        est_unfinished_entry *oldest, *newest;
        int                   n;
    } sources[EST_SOURCES];
} est_unfinished;

/* For a process with this limit of descriptors. */
void est_unfinished_init(est_unfinished *all, int descriptors_max);

/* `address` is "1.2.3.4:5" or "[2001:db8::1]:5"; all others are one source. */
void est_unfinished_add(est_unfinished *all, est_unfinished_entry *entry, const char *address);
void est_unfinished_remove(est_unfinished *all, est_unfinished_entry *entry); /* nothing, if it is not listed */

/* The connection to drop; NULL: none. */
est_unfinished_entry *est_unfinished_victim(const est_unfinished *all);

#endif
