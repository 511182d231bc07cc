/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a component of all elements of a dataset, for layers that take what they need from data. */
#ifndef EST_NN_ADAPT_H
#define EST_NN_ADAPT_H

#include "estoc/preprocessing.h"

typedef est_status (*est_adapt_fn)(const est_tensor *values, void *user);

/* Calls fn with the values of the component in each element. An endless dataset, a component that it does not have and
 * one whose dtype is none of `dtypes`, a mask of bits 1 << dtype, are EST_INVALID_ARGUMENT; `what` says what the values
 * are. */
EST_MUST_CHECK est_status est_adapt_each(const est_dataset *dataset, const char *component, uint32_t dtypes,
                                         const char *what, est_adapt_fn fn, void *user);

/* Whether the words of a lookup come from adapt. */
bool est_string_lookup_adapts(const est_string_lookup *lookup);

#endif
