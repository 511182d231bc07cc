/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs with a struct_size. */
#include "base/options.h"

#include <string.h>

#define KIND(struct_size) ((struct_size) >> 16)
#define SIZE(struct_size) ((struct_size)&0xffff)

static const struct {
    const char *type, *macro;
} kinds[] = { { "a struct without a kind", NULL },
#define EST_OPTIONS_NAMES(type, macro) { #type, #macro },
              EST_OPTIONS_LIST(EST_OPTIONS_NAMES)
#undef EST_OPTIONS_NAMES
};

static est_status refuse(size_t wanted, size_t given)
{
    const size_t n     = sizeof kinds / sizeof kinds[0];
    const char  *found = KIND(given) < n ? kinds[KIND(given)].type : "an unknown struct";

    if (given == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: struct_size is 0; make it with %s(...)", kinds[KIND(wanted)].type,
                        kinds[KIND(wanted)].macro);
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "%s of %zu bytes found, %s of at most %zu bytes expected; make it with %s(...)", found, SIZE(given),
                    kinds[KIND(wanted)].type, SIZE(wanted), kinds[KIND(wanted)].macro);
}

est_status est_struct_check(size_t struct_size, const void *given)
{
    size_t has;

    memcpy(&has, given, sizeof has);
    if (KIND(has) != EST_STRUCT_NONE && KIND(has) != KIND(struct_size)) return refuse(struct_size, has);
    if (SIZE(has) < sizeof has || SIZE(has) > SIZE(struct_size)) return refuse(struct_size, has);
    return EST_OK;
}

est_status est_options_take(size_t struct_size, const void *given, void *out)
{
    memset(out, 0, SIZE(struct_size));
    memcpy(out, &struct_size, sizeof struct_size);
    if (given == NULL) return EST_OK;
    EST_TRY(est_struct_check(struct_size, given));
    memcpy(&struct_size, given, sizeof struct_size);
    memcpy((char *)out + sizeof struct_size, (const char *)given + sizeof struct_size,
           SIZE(struct_size) - sizeof struct_size);
    return EST_OK;
}
