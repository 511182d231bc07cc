/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of canned estimators: the classes, and the params of the four model_fns. The public half is
 * estoc/canned.h. */
#ifndef EST_MODELS_CANNED_H
#define EST_MODELS_CANNED_H

#include "base/alloc.h"
#include "estoc/canned.h"
#include "models/head.h"

/* The params of a canned estimator's model_fn. */
typedef struct est_canned {
    est_arena         *arena;
    est_canned_options o;             /* copied; `head`, names and defaults are filled in */
    est_head          *own_head;      /* created here; NULL: the head is the caller's */
    est_optimizer      dnn_optimizer; /* of the only part, or of the deep one */
    est_optimizer      linear_optimizer;
    est_model_fn       model_fn; /* of the class */
    const char        *file;     /* source file of the constructor call, which errors name; in the arena */
    int                line;
} est_canned;

/* The model_fns; params is an est_canned. */
est_status est_dnn_model_fn(est_model *model, est_mode mode, const void *params);
est_status est_linear_model_fn(est_model *model, est_mode mode, const void *params);
est_status est_combined_model_fn(est_model *model, est_mode mode, const void *params);
est_status est_baseline_model_fn(est_model *model, est_mode mode, const void *params);

/* est_dnn_logits and est_linear_logits in a scope that the caller has opened: "dnn", "linear". */
est_node est_dnn_part(est_model *model, est_mode mode, int64_t units, const est_canned_options *o);
est_node est_linear_part(est_model *model, int64_t units, const est_canned_options *o);

/* Summaries of the output of a layer of a part ("dnn", "linear"), or of the part itself for NULL: the fraction of zeros
 * and a histogram. */
void est_canned_summarize(est_model *model, const est_canned_options *o, const char *part, const char *layer,
                          est_node x);

/* Finishes a model of one part: its head trains with `optimizer`. v1's slots have slot_scope in their names. */
EST_MUST_CHECK est_status est_canned_finish(const est_canned *canned, est_model *model, est_mode mode, est_node logits,
                                            const char *slot_scope);

#endif
