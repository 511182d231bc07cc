/* SPDX-License-Identifier: Apache-2.0
 *
 * What lower() makes of one of our operations, to be found again in a graph: an exported model has TensorFlow's ops
 * where the trained one had ours. */
#ifndef EST_RUNTIME_PATTERN_H
#define EST_RUNTIME_PATTERN_H

#include "graph/op.h"

#define EST_PATTERN_INPUTS_MAX 8

typedef struct est_pattern {
    est_graph *graph; /* NULL: not made yet */
    int32_t    in[EST_PATTERN_INPUTS_MAX];
    int        n_in;
    est_edge   out;
} est_pattern;

/* Makes the pattern of an operation with one output whose inputs are different operations without inputs: those stand
 * for any. Its graph is not needed afterwards. */
EST_MUST_CHECK est_status est_pattern_create(est_node op, est_pattern *out);
void                      est_pattern_clear(est_pattern *pattern);

/* Whether output 0 of a node is computed as the pattern's is; then `in` is what the operation would have as inputs. */
bool est_pattern_match(const est_pattern *pattern, const est_graph *graph, int32_t node,
                       est_edge in[EST_PATTERN_INPUTS_MAX]);

#endif
