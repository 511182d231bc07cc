/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGINT and SIGTERM as requests for a clean stop: the first one is recorded, and loops check it between two runs; a
 * second one, of either kind, has its default effect. Because a run may take long, the first one is acknowledged at
 * once with a line on standard error, if the log goes there as plain text.
 *
 * Any thread. */
#ifndef EST_BASE_SIGNALS_H
#define EST_BASE_SIGNALS_H

#include <stdbool.h>

#include "estoc/status.h"

/* Catches both signals until the matching release; calls nest, and the last release restores the handlers of the
 * program. A signal that the program ignores stays ignored. `status` is what the call returns: EST_CANCELLED tells its
 * caller of the signal.
 *
 * A signal that ended no call, because it came after the last check, is not lost: if the program has its own handler,
 * the last release raises it again; otherwise it stays pending, with a line in the log, and stops the next call. So a
 * program whose last call succeeded ends with exit code 0, and one with more to do ends with the next call. It stays
 * pending without a time limit: the sender asked the process to end and got an acknowledgement, so a later call must
 * not run. Raised again, it would turn the success of the last call into a death by signal; forgotten, a job of several
 * calls would go on.
 *
 * Release last, when nothing is left to be closed. Before a signal is raised an error is logged, since the handler may
 * not return. */
void est_signals_catch(void);
void est_signals_release(est_status status);

/* The same for an object during whose life signals are caught. Each of its calls tells what it returns; the last call
 * that was told EST_CANCELLED counts. */
void est_signals_release_object(void);
void est_signals_tell(est_status status);

/* Whether a signal stopped the last call that caught signals, so that it returned EST_CANCELLED. */
bool est_signals_told(void);

/* The signal that was caught since the outermost est_signals_catch, or kept from the call before; 0: none. Forgotten by
 * its release, so that a loop of later runs: look before. */
int         est_stop_signal(void);
const char *est_stop_signal_name(void); /* "SIGTERM"; "" */

/* EST_CANCELLED when a signal was caught: "SIGTERM: the <what> was stopped; ...". */
EST_MUST_CHECK est_status est_signals_check(const char *what);

/* Waits up to `secs`, less when a signal is caught; returns whether one was. */
bool est_signals_wait(double secs);

#endif
