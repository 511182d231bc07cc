/* SPDX-License-Identifier: Apache-2.0
 *
 * A flood: connections of a stranger that shows no certificate and says nothing, or takes forever to say something. For
 * tests of tasks that are meant to bear it. */
#ifndef EST_TESTS_FLOOD_TEST_H
#define EST_TESTS_FLOOD_TEST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread.h"

#define FLOOD_MAX 1200 /* connections at the same time */

typedef struct flood {
    int  port;        /* of 127.0.0.1 */
    int  n;           /* connections that are kept, at most FLOOD_MAX */
    int  n_addresses; /* that they come from: 127.0.0.1 and the next ones; 0: 1 */
    bool speaks;      /* each sends the begin of a handshake, and a byte of it now and then */

    atomic_int  n_made; /* connections so far */
    atomic_bool stopped;
    est_thread  thread;
    int         fds[FLOOD_MAX];
} flood;

/* Begins to connect, and connects again where the task closes. Returns when n connections were made. */
void flood_start(flood *f);
void flood_stop(flood *f);

#endif
