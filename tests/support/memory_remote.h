/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in this process: runtime/remote.h kept with memory alone, for tests of how steps are cut. Segments travel as
 * bytes and tensors as copies, as they would between processes, and are run in est_host. */
#ifndef EST_TESTS_MEMORY_REMOTE_H
#define EST_TESTS_MEMORY_REMOTE_H

#include "runtime/host.h"

/* Tasks "ps:0" .. of which variables go to the one that has the fewest bytes. Fails the test when memory is out. */
est_remote *memory_remote_create(int n_tasks);
void        memory_remote_free(est_remote *remote);

/* The task dies, and one without variables takes its place. Sessions over the remote are good only for freeing then. */
void memory_remote_lose(est_remote *remote, int task);

/* What a test wants to know. */
est_host *memory_remote_host(est_remote *remote, int task);
int       memory_remote_starts(const est_remote *remote, int task); /* since the last call of memory_remote_reset */
size_t    memory_remote_bytes(const est_remote *remote);            /* sent and received, likewise */
void      memory_remote_reset(est_remote *remote);

#endif
