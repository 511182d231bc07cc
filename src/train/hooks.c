/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hooks of the library share. */
#include "train/hooks.h"

#include "base/alloc.h"
#include "base/options.h"

void est_hook_free(est_hook *hook)
{
    if (hook != NULL && hook->free != NULL) hook->free(hook);
}

void *est_hook_alloc(size_t size)
{
    void *own = est_zalloc(size);

    if (own == NULL) (void)est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a hook");
    return own;
}

est_status est_every_take(const char *hook, const est_every_options *given, int64_t default_steps,
                          est_every_options *out)
{
    est_every_options options;

    EST_TRY(est_options_take("EST_EVERY", given, &options, sizeof options));
    if (options.steps < 0 || !(options.secs >= 0) || (options.steps > 0 && options.secs > 0)) {
        return est_fail(EST_INVALID_ARGUMENT, "the %s is to run every %lld steps and every %g seconds; set one of them",
                        hook, (long long)options.steps, options.secs);
    }
    if (options.steps == 0 && options.secs == 0) options.steps = default_steps;
    *out = options;
    return EST_OK;
}
