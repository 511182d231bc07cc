/* SPDX-License-Identifier: Apache-2.0
 *
 * A way to a server that takes as long as a test likes: a port that passes connections on to another, one at a time. */
#ifndef EST_TESTS_RELAY_TEST_H
#define EST_TESTS_RELAY_TEST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/thread.h"

typedef struct relay {
    int port;                               /* where it listens, on 127.0.0.1 */
    int to_port;                            /* of 127.0.0.1 */
    bool (*holds)(void *user, double secs); /* whether nothing passes yet over a connection that is so old */
    void      *user;
    int        listener;
    atomic_int n_connections; /* so far */
    est_thread thread;
} relay;

/* to_port, holds and user are set. */
void relay_start(relay *r);
void relay_stop(relay *r); /* when both ends of all connections are closed */

#endif
