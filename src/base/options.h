/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs: what a caller gave, checked and made whole. The rules are in estoc/options.h. Any thread. */
#ifndef EST_BASE_OPTIONS_H
#define EST_BASE_OPTIONS_H

#include <stddef.h>

#include "estoc/status.h"

/* Copies `given` (NULL: all zero) into `out`. `struct_size` is EST_STRUCT_SIZE of the struct that `out` is, and what its field
 * has then. On failure `out` is all zero but for that, and the error names the struct that was found and the one expected. */
EST_MUST_CHECK est_status est_options_take(size_t struct_size, const void *given, void *out);

#endif
