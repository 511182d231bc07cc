/* SPDX-License-Identifier: Apache-2.0
 *
 * Helpers of the library's hooks: allocation, checks of lists and of schedules. */
#include "train/hooks.h"

#include "base/alloc.h"
#include "base/argument.h"
#include "base/options.h"

void est_hook_free(est_hook *hook)
{
    if (hook != NULL && EST_MEMBER(hook, free) != NULL) hook->free(hook);
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
    if (why.message[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "%s %d is NULL", what, i);
    return est_fail(EST_INVALID_ARGUMENT, "%s %d is NULL: %s (the last error of this thread before this call)", what, i,
                    why.message);
}

est_status est_hook_check(const est_hook *hook)
{
    return est_struct_check(EST_STRUCT_SIZE(est_hook), hook);
}

est_status est_hooks_check(const char *what, est_hooks hooks)
{
    EST_REQUIRE_LIST(what, hooks);
    for (int i = 0; i < hooks.n; i++) {
        est_status status = hooks.data[i] != NULL ? est_hook_check(hooks.data[i]) : est_refuse_null(what, i);

        if (status != EST_OK) return hooks.data[i] != NULL ? est_fail_context(status, "%s %d", what, i) : status;
    }
    return EST_OK;
}

est_status est_listeners_check(const char *what, est_saving_listeners listeners)
{
    EST_REQUIRE_LIST(what, listeners);
    for (int i = 0; i < listeners.n; i++) {
        est_status status;

        if (listeners.data[i] == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s %d is NULL", what, i);
        status = est_struct_check(EST_STRUCT_SIZE(est_saving_listener), listeners.data[i]);
        if (status != EST_OK) return est_fail_context(status, "%s %d", what, i);
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
