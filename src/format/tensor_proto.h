/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorProto and TensorShapeProto: tensors and shapes inside graphs, summaries and signatures.
 *
 * Numbers are written as tensor_content, strings as string_val. Read is everything TensorFlow writes: tensor_content,
 * the lists of values, and lists shorter than the tensor, whose last value fills the rest. Names of dimensions are not
 * kept.
 *
 * Threading: one thread at a time a writer or reader. */
#ifndef EST_FORMAT_TENSOR_PROTO_H
#define EST_FORMAT_TENSOR_PROTO_H

#include "format/wire.h"

/* The largest tensor that a message with fewer values than elements may ask for: a few bytes must not cost more. */
#define EST_TENSOR_PROTO_FILL_MAX ((size_t)1 << 30)

/* The name of a DataType, "DT_FLOAT" for 1 and "DT_FLOAT_REF" for 101; NULL when TensorFlow has none of that number. */
const char *est_dtype_proto_name(int32_t number);

/* The put functions append the fields of the message; to put it into another one, stand between est_wire_begin and
 * est_wire_end. The parse functions read such fields to the end of `r` or of the bytes. */

void est_shape_proto_put(est_wire_writer *w, const est_shape *shape);

/* More than EST_RANK_MAX axes are EST_UNIMPLEMENTED, a dimension below -1 is EST_DATA_LOSS. */
EST_MUST_CHECK est_status est_shape_proto_parse(est_wire_reader *r, est_shape *out);

/* The tensor must not be EST_RESOURCE (none is). */
void est_tensor_proto_put(est_wire_writer *w, const est_tensor *tensor);

/* A new tensor, freed by the caller. EST_UNIMPLEMENTED names a dtype that est_dtype does not have;
 * EST_RESOURCE_EXHAUSTED is a fill above EST_TENSOR_PROTO_FILL_MAX. */
EST_MUST_CHECK est_status est_tensor_proto_parse(est_str message, est_tensor **out);

/* What the tensor will be, without its elements. */
typedef struct est_tensor_proto_header {
    int32_t   dtype; /* TensorFlow's number; may be one that est_dtype does not have */
    est_shape shape;
    est_str   content; /* tensor_content; borrowed from the message */
} est_tensor_proto_header;

EST_MUST_CHECK est_status est_tensor_proto_parse_header(est_str message, est_tensor_proto_header *out);

#endif
