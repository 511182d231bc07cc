/* SPDX-License-Identifier: Apache-2.0
 *
 * Terms: the settings that all trainers of a job must share, as text, one line of name=value each, so that an error can
 * name the one that differs. Tasks send and compare them: workers of multi_worker_mirrored when they agree on their
 * membership (collective/membership_round.h), those with parameter servers when they start (cluster/service.c). */
#ifndef EST_CLUSTER_TERMS_H
#define EST_CLUSTER_TERMS_H

#include "estoc/status.h"
#include "estoc/tensor.h"

/* EST_FAILED_PRECONDITION: they differ; the error names the first such line. `whose`, `others`: the names of the
 * tasks. */
EST_MUST_CHECK est_status est_terms_same(est_str terms, const char *whose, est_str other, const char *others);

/* A text as bytes. */
est_str est_terms_text(const char *text);

#endif
