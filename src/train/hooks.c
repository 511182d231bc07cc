/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of the library's hooks: allocation, checks of lists and of schedules. */
#include "train/hooks.h"

#include "base/alloc.h"

void est_hook_free(est_hook *hook)
{
    if (hook != NULL && hook->free != NULL) hook->free(hook);
}

void *est_hook_alloc(size_t size)
{
    void *own = est_zalloc(size);

    if (own == NULL) (void)est_no_memory();
    return own;
}

void est_hook_free_struct(est_hook *hook)
{
    est_free(hook);
}

est_status est_refuse_null(const char *what, int i)
{
    est_error why;

    est_error_take(EST_INVALID_ARGUMENT, &why);
    return est_fail(EST_INVALID_ARGUMENT, "%s %d is NULL%s%s", what, i, why.message[0] != '\0' ? ": " : "",
                    why.message);
}

est_status est_hooks_check(const char *what, est_hooks hooks)
{
    for (int i = 0; i < hooks.n; i++) {
        if (hooks.data[i] == NULL) return est_refuse_null(what, i);
    }
    return EST_OK;
}

est_status est_every_take(const char *hook, int64_t steps, double secs, est_timer *out)
{
    if (steps < 0 || !(secs >= 0) || (steps > 0) == (secs > 0)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the %s has a period of %lld steps and of %g seconds; set exactly one of them above 0", hook,
                        (long long)steps, secs);
    }
    *out = (est_timer){ .every_steps = steps, .every_secs = secs };
    return EST_OK;
}
