/* SPDX-License-Identifier: Apache-2.0
 *
 * Terms: what all tasks that train together must have the same, as text, a line of name=value each, so that a difference can be named.
 * Tasks send them to each other and compare: workers in step when they meet (collective/membership_round.h) and share variables, those with
 * parameter servers when they begin (cluster/service.c). */
#ifndef EST_CLUSTER_TERMS_H
#define EST_CLUSTER_TERMS_H

#include "estoc/status.h"
#include "estoc/tensor.h"

/* EST_FAILED_PRECONDITION: they differ; names the first line that does. `whose`, `others`: the names of their tasks. */
EST_MUST_CHECK est_status est_terms_same(est_str terms, const char *whose, est_str other, const char *others);

/* A text as bytes. */
est_str est_terms_text(const char *text);

#endif
