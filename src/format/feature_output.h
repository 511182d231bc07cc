/* SPDX-License-Identifier: Apache-2.0
 *
 * One wanted feature over a batch: takes the bytes of one example after the other and ends as tensors. Rows whose size
 * is known beforehand are decoded straight into their tensor; others collect in a buffer that is kept from batch to
 * batch. Strings point into the examples until the end, where their bytes are copied together. One thread at a time. */
#ifndef EST_FORMAT_FEATURE_OUTPUT_H
#define EST_FORMAT_FEATURE_OUTPUT_H

#include "format/feature_decode.h"

typedef struct est_feature_buffer {
    void  *data;
    size_t capacity; /* bytes */
} est_feature_buffer;

typedef struct est_feature_output {
    /* What every row looks at. */
    est_feature_kind kind;
    est_feature_rows rows;
    bool             is_list; /* of steps, in a SequenceExample */
    bool             is_one;  /* every row has exactly one value */
    bool             is_any;  /* a row has any number of single values */
    bool             required;
    size_t           count; /* elements of `shape` */
    size_t           size;  /* bytes of an element */
    char            *next;  /* the row of `fixed` to fill next */
    int64_t         *ends;  /* where the rows end among the values: the data of `splits` from 1 on */
    size_t           n_values, n_steps;

    char       *name;
    est_dtype   dtype;
    est_shape   shape;
    est_tensor *fill; /* the default: as many elements as `shape`, or one for padding; NULL: none */

    est_feature_buffer values;      /* [n_values] of the rows so far, unless they go to `fixed` */
    est_feature_buffer step_splits; /* int64 [n_steps + 1], in a ragged list */
    est_feature_buffer row_splits;  /* int64 [n + 1], in place of `splits` in a batch that is kept */

    est_tensor *fixed;  /* values of the batch, when every row is of `shape` */
    est_tensor *splits; /* of the batch, in values or steps; made of all rows but fixed ones */
} est_feature_output;

/* Checks and copies the spec. Clear the output also after a failure. */
EST_MUST_CHECK est_status est_feature_output_init(est_feature_output *o, const est_feature_spec *spec, bool is_list);
void                      est_feature_output_clear(est_feature_output *o);

/* Makes ready for a batch of n examples. `kept`: it does not end as tensors, but stays in the buffers until the next
 * one; allocates nothing when these are large enough. Not for lists. */
EST_MUST_CHECK est_status est_feature_output_begin(est_feature_output *o, size_t n, bool kept);

/* Takes the value that example `row` has for the feature, a Feature or a FeatureList message; NULL when it has none.
 * The example starts at `outermost` and stays until the batch has ended. */
EST_MUST_CHECK est_status est_feature_output_row(est_feature_output *o, size_t row, const est_str *value,
                                                 const void *outermost);

/* est_feature_output_row where it is easiest: one value in its usual form. False: not done, call the other. */
static inline bool est_feature_output_one(est_feature_output *o, size_t row, const est_str *value)
{
    if (value == NULL) return false;
    if (o->is_one) {
        if (!est_feature_decode_one(*value, o->kind, o->next)) return false;
        o->next += o->size;
        return true;
    }
    if (!o->is_any || (o->n_values + 1) * o->size > o->values.capacity) return false;
    if (!est_feature_decode_one(*value, o->kind, (char *)o->values.data + o->n_values * o->size)) return false;
    o->ends[row] = (int64_t)++o->n_values;
    return true;
}

/* Turns the n rows into tensors. `scratch` is for copying strings. */
EST_MUST_CHECK est_status est_feature_output_finish(est_feature_output *o, size_t n, est_feature_buffer *scratch,
                                                    est_feature_batch *out);

/* Of a batch of n examples that was kept: the shape of its values, where rows of any length begin among them, and the
 * values themselves, padded if they are to be. */
est_shape      est_feature_output_shape(const est_feature_output *o, size_t n);
const int64_t *est_feature_output_splits(const est_feature_output *o);
void           est_feature_output_copy(const est_feature_output *o, size_t n, void *to);

/* Lets the strings of kept batches point to a copy of their bytes in `bytes`. */
EST_MUST_CHECK est_status est_feature_outputs_own(est_feature_output *outputs, size_t n, est_feature_buffer *bytes);

/* Gives up the batch; fine at any time. */
void est_feature_output_abandon(est_feature_output *o);

#endif
