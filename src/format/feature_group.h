/* SPDX-License-Identifier: Apache-2.0
 *
 * All wanted features of one map message: their names and their outputs. The parsers of Example (one group) and of
 * SequenceExample (context and lists) are loops over it. One thread at a time. */
#ifndef EST_FORMAT_FEATURE_GROUP_H
#define EST_FORMAT_FEATURE_GROUP_H

#include "format/feature_output.h"
#include "format/feature_table.h"

typedef struct est_feature_group {
    est_feature_table   table;
    est_feature_output *outputs; /* [n] */
    size_t              n;
    est_feature_buffer  scratch;
} est_feature_group;

/* Clear the group also after a failure. */
EST_MUST_CHECK est_status est_feature_group_init(est_feature_group *g, const est_feature_spec *specs, size_t n,
                                                 bool is_lists);
void                      est_feature_group_clear(est_feature_group *g);

/* Makes ready for a batch of n examples, which is kept (format/feature_output.h) or becomes tensors. */
EST_MUST_CHECK est_status est_feature_group_begin(est_feature_group *g, size_t n, bool kept);

/* Takes what the table found in example `row`, which starts at `outermost`. */
EST_MUST_CHECK est_status est_feature_group_row(est_feature_group *g, size_t row, const void *outermost);

/* Turns n rows into batch[g->n], zeroed before; on failure all of it is cleared. */
EST_MUST_CHECK est_status est_feature_group_finish(est_feature_group *g, size_t n, est_feature_batch *batch);
void                      est_feature_group_abandon(est_feature_group *g);

/* Parses a batch that stays in the parser until its next one, without allocating once that has seen batches as large;
 * *out: one output for each spec. */
EST_MUST_CHECK est_status est_example_parse_kept(est_example_parser *parser, const est_str *examples, size_t n,
                                                 const est_feature_output **out);

#endif
