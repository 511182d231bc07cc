/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs: checks and copies the caller's options. The rules are in estoc/options.h. Any thread. */
#ifndef EST_BASE_OPTIONS_H
#define EST_BASE_OPTIONS_H

#include <stddef.h>

#include "estoc/status.h"

/* Copies `given` (NULL: all zero) into `out`. `struct_size` is EST_STRUCT_SIZE of the struct of `out`, and is stored in
 * its first field. On failure the rest of `out` is zero, and the error names both structs. */
EST_MUST_CHECK est_status est_options_take(size_t struct_size, const void *given, void *out);

#endif
