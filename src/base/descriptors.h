/* SPDX-License-Identifier: Apache-2.0
 *
 * File descriptors: how many of them this process may have, and whether they run out. Any thread. */
#ifndef EST_BASE_DESCRIPTORS_H
#define EST_BASE_DESCRIPTORS_H

#include <stdbool.h>

/* Raises the soft limit of the process (RLIMIT_NOFILE) to the hard one, at most to 16384. Only the first call does: a
 * program that lowers the limit later keeps its own. Programs that are started inherit it. */
void est_descriptors_raise(void);

/* The soft limit in force. */
int est_descriptors_max(void);

/* Whether descriptors run out, to judge by one that was just made: the kernel gives out the lowest that is free. An
 * eighth of the limit, 16 to 256, is kept for files; connections of strangers must not take them. */
bool est_descriptors_scarce(int fd);

#endif
