/* SPDX-License-Identifier: Apache-2.0
 *
 * Inlining: a GraphDef whose nodes call functions becomes one without calls. */
#ifndef EST_PREDICT_INLINE_H
#define EST_PREDICT_INLINE_H

#include "format/graph_def.h"
#include "graph/import.h"

#define EST_CALL_DEPTH_MAX 64        /* of calls within calls; more is taken for a recursion */
#define EST_INLINED_MAX    (1 << 21) /* nodes of the result */
#define EST_INLINED_BYTES  (1 << 28) /* of memory for them: names are as long as calls are deep */

/* Adds to `out`, which is empty, those nodes of `graph` that `roots` (names of nodes) depend on, and in place of each
 * call (StatefulPartitionedCall, PartitionedCall, a node whose op is a function) the nodes of the function,
 * recursively. Those of a call "c" are called "c/<name in the function>"; result k of it is the Identity "c", for k > 0
 * "c>k", which runs after the nodes that the function always runs. Devices are left out. Attributes are shared with
 * `graph`, whose arena `out` must use.
 *
 * Of If both branches are inlined, and Select takes the results of one; asserts in them hold where it is not taken.
 *
 * EST_INVALID_ARGUMENT: a root or an input is not in the graph; a function that is not there, or is called with other
 * arguments than it has; recursion. */
EST_MUST_CHECK est_status est_inline(const est_graph_def *graph, const est_def_names *roots, est_op_lookup lookup,
                                     est_graph_def *out);

#endif
