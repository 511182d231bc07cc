/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs: what a caller gave, made whole. The first field of each is struct_size, which a macro (EST_MAP, ...)
 * fills: so a struct of an older, shorter header is taken with its missing end as zero, and one that was made without the
 * macro, or by a newer header, is refused. Any thread. */
#ifndef EST_BASE_OPTIONS_H
#define EST_BASE_OPTIONS_H

#include <stddef.h>

#include "estoc/status.h"

/* Copies `given` (NULL: all zero) into `out`, which has `size` bytes; its struct_size is then `size`. On failure `out` is
 * all zero but for that. `macro` is named in the error. */
EST_MUST_CHECK est_status est_options_take(const char *macro, const void *given, void *out, size_t size);

#endif
