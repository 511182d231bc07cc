/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers in this process, a thread each: runtime/peers.h kept with memory alone, for tests of how values meet. Sums are made
 * in order of rank. What a worker begins must be what the others begin, or its wait fails. */
#ifndef EST_TESTS_MEMORY_PEERS_H
#define EST_TESTS_MEMORY_PEERS_H

#include "runtime/peers.h"

typedef struct memory_peers memory_peers;

memory_peers *memory_peers_create(int n);
void          memory_peers_free(memory_peers *peers);
est_peers    *memory_peers_of(memory_peers *peers, int rank);

/* From now on the wait for operation `number` (from 0 up, since the beginning) fails on all workers with EST_ABORTED. */
void memory_peers_break(memory_peers *peers, int number);
int  memory_peers_begun(const memory_peers *peers, int rank); /* operations so far */

/* Runs work(user, rank) in n threads and returns when all have. */
void memory_peers_run(int n, void (*work)(void *user, int rank), void *user);

#endif
