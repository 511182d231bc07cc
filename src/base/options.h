/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs with a struct_size: checks and copies the caller's options. The rules are in estoc/options.h. Any thread. */
#ifndef EST_BASE_OPTIONS_H
#define EST_BASE_OPTIONS_H

#include <stddef.h>

#include "estoc/status.h"

/* Copies `given` (NULL: all zero) into `out`. `struct_size` is EST_STRUCT_SIZE of the struct of `out`, and is stored in
 * its first field. On failure the rest of `out` is zero, and the error names both structs. */
EST_MUST_CHECK est_status est_options_take(size_t struct_size, const void *given, void *out);

/* EST_OK for a struct that users embed (est_hook): it is of this kind, and not of a newer header. */
EST_MUST_CHECK est_status est_struct_check(size_t struct_size, const void *given);

/* The value of an option whose 0 means `fallback` and whose EST_OFF means 0. */
static inline double est_or(double value, double fallback)
{
    return value == 0 ? fallback : value == EST_OFF ? 0 : value;
}

/* A member of such a struct; 0 where the struct is of an older header that did not have it. */
#define EST_MEMBER(object, member)                                                                                     \
    (((object)->struct_size & 0xffff) >= offsetof(__typeof__(*(object)), member) + sizeof((object)->member)            \
         ? (object)->member                                                                                            \
         : 0)

#endif
