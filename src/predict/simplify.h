/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewrites of a GraphDef from TensorFlow to operations that Estoc has, and to fewer of them. */
#ifndef EST_PREDICT_SIMPLIFY_H
#define EST_PREDICT_SIMPLIFY_H

#include "format/graph_def.h"
#include "graph/import.h"

/* Changes a graph without calls in place, for one that serves; `fed` has the tensors that will be fed.
 *
 *   - Inputs bypass Identity, IdentityN and the like, of handles too.
 *   - Of several handles of one variable or table the first is used.
 *   - Control inputs that nothing with an effect is behind are removed: in functions every read of a variable is one.
 *   - A PlaceholderWithDefault is a Placeholder when it is fed, else its default.
 *   - Variables of TensorFlow 1 (VariableV2, Assign) become handles that are read and assigned.
 *   - A variable that holds the path of an asset is replaced by the path.
 *   - Nodes that are others in Estoc are replaced (predict/expand.h).
 *   - Tables that can change (MutableHashTableV2) become tables: nothing here changes them. */
EST_MUST_CHECK est_status est_simplify(est_graph_def *def, const est_def_names *fed, est_op_lookup lookup);

/* The same for a graph that goes on being built, whose tensors may all be fed, fetched and differentiated: only inputs
 * that are handles bypass anything, every PlaceholderWithDefault is an Identity of its default, and no variable is
 * taken for a path. */
EST_MUST_CHECK est_status est_simplify_whole(est_graph_def *def, est_op_lookup lookup);

#endif
