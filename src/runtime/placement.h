/* SPDX-License-Identifier: Apache-2.0
 *
 * Which task a variable lives at.
 *
 * Variables that one operation touches, as an optimizer touches a variable and its slots, live together. A set of them goes
 * where one of them is already; else to the task that a device string names; else where the remote puts so many bytes, the
 * largest sets first, so that tasks end up with about as much. Variables of the collection "local_variables", and those
 * pinned to this task, stay here. All of it depends on nothing but the graph and on what is where already: tasks that
 * build the same graph agree. */
#ifndef EST_RUNTIME_PLACEMENT_H
#define EST_RUNTIME_PLACEMENT_H

#include "runtime/remote.h"

/* For every node of the graph that is a variable's handle, the task it lives at, -1 for here; other nodes are not looked at.
 * task[]: one for each node; handles below `first` keep what is there. */
EST_MUST_CHECK est_status est_place_variables(const est_graph *graph, est_remote *remote, int32_t first, int32_t *task);

#endif
