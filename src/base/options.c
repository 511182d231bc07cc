/* SPDX-License-Identifier: Apache-2.0
 *
 * Options structs. */
#include "base/options.h"

#include <string.h>

est_status est_options_take(const char *macro, const void *given, void *out, size_t size)
{
    size_t given_size;

    memset(out, 0, size);
    memcpy(out, &size, sizeof size);
    if (given == NULL) return EST_OK;
    memcpy(&given_size, given, sizeof given_size);
    if (given_size < sizeof given_size || given_size > size) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "options with struct_size %zu where at most %zu is known: make them with %s(...)", given_size,
                        size, macro);
    }
    memcpy(out, given, given_size);
    memcpy(out, &size, sizeof size);
    return EST_OK;
}
