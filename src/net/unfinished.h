/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections that were accepted and whose peers were not let in yet: strangers, until they are. Anyone can make them, so they are
 * few: when one more comes than there is room for, another has to go. It is the oldest of the source that has most of them, so
 * that a flood displaces its own connections, and a task that connects meanwhile gets in: from another address always, from the
 * same one unless its whole handshake takes longer than the flood needs to fill all the room.
 *
 * A source is an address, of IPv6 the network of 64 bits that it is of. Sources are told apart by a hash: two that have the
 * same one count as one source. The network thread's. */
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

/* For a process that may have so many descriptors. */
void est_unfinished_init(est_unfinished *all, int descriptors_max);

/* `address` is "1.2.3.4:5" or "[2001:db8::1]:5"; all others are one source. */
void est_unfinished_add(est_unfinished *all, est_unfinished_entry *entry, const char *address);
void est_unfinished_remove(est_unfinished *all, est_unfinished_entry *entry); /* one that is not listed: nothing */

/* The one that has to go; NULL: there is none. */
est_unfinished_entry *est_unfinished_victim(const est_unfinished *all);

#endif
