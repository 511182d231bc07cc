/* SPDX-License-Identifier: Apache-2.0
 *
 * An op's signature text (see est_op.signature) as a structure: which arguments, which results, which attributes. */
#ifndef EST_GRAPH_SIGNATURE_H
#define EST_GRAPH_SIGNATURE_H

#include "graph/op.h"

#define EST_ARG_MAX  12
#define EST_ATTR_MAX 14
#define EST_NAME_MAX 32

typedef struct est_arg {
    char      name[EST_NAME_MAX];
    est_dtype dtype;       /* fixed type, or EST_DTYPE_NONE: see type_attr */
    int       type_attr;   /* index of the attribute of kind type, or types for a list; -1: fixed */
    int       number_attr; /* index of the int attribute that counts a list; -1: one tensor */
} est_arg;

typedef struct est_attr_def {
    char          name[EST_NAME_MAX];
    est_attr_kind kind;
    uint32_t      types; /* of kind type or types: bit per allowed dtype; 0: any */
    bool          optional;
    est_attr      fallback;           /* its default */
    char          text[EST_NAME_MAX]; /* where a default string lives */
} est_attr_def;

typedef struct est_signature {
    int          n_in, n_out, n_attr;
    est_arg      in[EST_ARG_MAX];
    est_arg      out[EST_ARG_MAX];
    est_attr_def attr[EST_ATTR_MAX];
} est_signature;

/* Reads op->signature. An error is a bug in the op's file. */
EST_MUST_CHECK est_status est_signature_parse(const est_op *op, est_signature *out);

/* The dtype of that name, EST_DTYPE_NONE if there is none. */
est_dtype est_dtype_from_name(const char *name, size_t len);

#endif
