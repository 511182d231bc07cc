/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of functions that the user gave.
 *
 * Any thread. */
#ifndef EST_BASE_CALLBACK_H
#define EST_BASE_CALLBACK_H

#include "estoc/status.h"

/* The status of a call of the user's code, as in EST_CALLBACK(own->fn(own->user), "the function of a filter"). The
 * thread's error is forgotten before, so that a failure never has the text of an older one; a function that fails
 * without est_fail is named as the reason. */
#define EST_CALLBACK(call, ...) (est_error_clear(), est_callback_status((call), __VA_ARGS__))

/* `status`; when it is a failure that has no message, "<what> returned <status> and no message ..." becomes it. */
est_status est_callback_status(est_status status, const char *what, ...) EST_PRINTF(2, 3);

#endif
