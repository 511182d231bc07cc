/* SPDX-License-Identifier: Apache-2.0
 *
 * Which task a variable lives at, or which tasks its rows are spread over.
 *
 * Variables that one operation touches, as an optimizer touches a variable and its slots, live together, and so do the
 * pairs of the collection EST_COLOCATED, unless the two have different places already. A set of them goes where one of
 * them is already; else to the task that a device string names; else where the remote puts so many
 * bytes, the largest sets first, so that tasks end up with about as much. Variables of the collection
 * "local_variables", and those pinned to this task, stay here. All of it depends on nothing but the graph and on what
 * is where already: tasks that build the same graph agree.
 *
 * The remote's partitioner is asked for the first variable of a set that is to be placed by size. What it spreads has
 * all of its set spread alike, shard i of every variable at the same task; the shards of one variable are at different
 * tasks as far as there are enough. A set whose variables do not all have the same number of rows stays in one
 * piece. */
#ifndef EST_RUNTIME_PLACEMENT_H
#define EST_RUNTIME_PLACEMENT_H

#include "runtime/remote.h"

/* Makes the variables of the graph that live elsewhere known to the store. Those that it has already stay where they
 * are; those that live here are left to the caller. */
EST_MUST_CHECK est_status est_place_variables(const est_graph *graph, est_remote *remote, est_store *store);

#endif
