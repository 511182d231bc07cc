/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of TensorFlow that Estoc has no op for, written in others: what `lower` of an op does for exports, the other
 * way round. */
#ifndef EST_PREDICT_EXPAND_H
#define EST_PREDICT_EXPAND_H

#include "format/graph_def.h"

/* Replaces a node of a graph by others, if it is one of these; its name stays, others are called "<name>>part".
 *
 *   Bucketize                            UpperBound with the boundaries as a constant
 *   FusedBatchNormV3 of NCHW, training   its formula; Keras' layer normalization is one. Only y can be used */
EST_MUST_CHECK est_status est_expand_node(est_graph_def *def, est_graph_def_node *node);

#endif
