/* SPDX-License-Identifier: Apache-2.0
 *
 * The features that a graph parses from Examples. One thread at a time. */
#ifndef EST_PREDICT_EXAMPLE_FEATURES_H
#define EST_PREDICT_EXAMPLE_FEATURES_H

#include "base/alloc.h"
#include "estoc/example.h"
#include "estoc/graph.h"

/* The features that nodes parse from `examples`, a vector of serialized Examples; sparse ones are ragged here. n 0: no
 * node parses it. In the arena, defaults borrowed until the graph is freed. */
EST_MUST_CHECK est_status est_example_features(const est_graph *graph, est_node examples, est_arena *arena,
                                               est_feature_specs *out);

#endif
