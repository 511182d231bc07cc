/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers in this process, a thread each: runtime/communicator.h kept with memory alone, for tests of reductions across
 * workers. Sums are made in order of rank. What a worker begins must be what the others begin, or its wait fails. */
#ifndef EST_TESTS_MEMORY_PEERS_H
#define EST_TESTS_MEMORY_PEERS_H

#include "runtime/communicator.h"

typedef struct memory_communicator memory_communicator;

memory_communicator *memory_communicator_create(int n);
void                 memory_communicator_free(memory_communicator *communicator);
est_communicator    *memory_communicator_of(memory_communicator *communicator, int rank);

/* From now on the wait for operation `number` (from 0 up, since the beginning) fails on all workers with
 * EST_ABORTED. */
void memory_communicator_break(memory_communicator *communicator, int number);
int  memory_communicator_begun(const memory_communicator *communicator, int rank); /* operations so far */

/* Runs work(user, rank) in n threads and returns when all have. */
void memory_communicator_run(int n, void (*work)(void *user, int rank), void *user);

#endif
