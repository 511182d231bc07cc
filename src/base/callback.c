/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks the status that a user's callback returned (see callback.h). */
#include "base/callback.h"

#include <stdarg.h>
#include <stdio.h>

est_status est_callback_status(est_status status, const char *what, ...)
{
    char    name[256];
    va_list args;

    if (status == EST_OK || est_error_message()[0] != '\0') return status;
    va_start(args, what);
    vsnprintf(name, sizeof name, what, args);
    va_end(args);
    return est_fail(status, "%s returned %s and no message (est_fail gives one)", name, est_status_name(status));
}
