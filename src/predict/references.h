/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of TensorFlow 1, which are references to their values, become handles. */
#ifndef EST_PREDICT_REFERENCES_H
#define EST_PREDICT_REFERENCES_H

#include "format/graph_def.h"

/* Changes a graph without calls in place, for one that goes on being built and trained:
 *
 *   - VariableV2 "w" becomes VarHandleOp "w"; what used its value uses a read of it, "w/Read/ReadVariableOp".
 *   - What changes a variable ("Assign", "ApplyAdam", ...) becomes the operation over handles, "<name>>update", and
 *     <name> a read behind it: it can be run, and gives the new value, as before. */
EST_MUST_CHECK est_status est_replace_references(est_graph_def *def);

#endif
