/* SPDX-License-Identifier: Apache-2.0
 *
 * VariableDef: what a graph says about one of its variables, an entry of the collections "variables" and
 * "trainable_variables". */
#ifndef EST_FORMAT_VARIABLE_DEF_H
#define EST_FORMAT_VARIABLE_DEF_H

#include "format/def.h"

/* Texts are never NULL once parsed; NULL and "" are both left out when writing. */
typedef struct est_variable_def {
    const char *variable_name;      /* "w:0", the output of its VarHandleOp */
    const char *initial_value_name; /* "w/Initializer/zeros:0" */
    const char *initializer_name;   /* "w/Assign" */
    const char *snapshot_name;      /* "w/Read/ReadVariableOp:0" */
    bool        is_resource;
    bool        trainable;
    int32_t     synchronization, aggregation; /* TensorFlow's numbers; 0: automatic, none */

    /* Of a part of a partitioned variable; full_name is NULL or "" when it is whole. */
    const char *full_name;
    est_shape   full_shape, offset, shape; /* as many axes each */
} est_variable_def;

/* Appends the fields of the message. */
void est_variable_def_put(est_wire_writer *w, const est_variable_def *def);

/* Texts are copied into the arena. */
EST_MUST_CHECK est_status est_variable_def_parse(est_str message, est_arena *arena, est_variable_def *out);

#endif
