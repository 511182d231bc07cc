/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGINT and SIGTERM as a request to stop in good order: the first one is remembered, and loops look at it between two
 * runs; a second one, of either kind, ends the process as if nothing had caught it. As what runs may take its time, the
 * first one is answered at once with a line on standard error, where the log goes there as plain text.
 *
 * Any thread. */
#ifndef EST_BASE_SIGNALS_H
#define EST_BASE_SIGNALS_H

#include <stdbool.h>

#include "estoc/status.h"

/* Catches both signals until the matching release; calls nest, and what was set before is put back by the last. A signal
 * that the program ignores stays ignored. `status` is what the call returns: EST_CANCELLED tells its caller of the signal.
 * A signal of which nobody was told, because it came after the last look, is raised again by the last release: none is
 * lost. So release last, when nothing is left to be closed. An error that the caller may then never see is logged. */
void est_signals_catch(void);
void est_signals_release(est_status status);

/* Whether the last call that caught signals was stopped by one and has told its caller so with EST_CANCELLED. */
bool est_signals_told(void);

/* The signal that was caught since the outermost est_signals_catch; 0: none. Forgotten by its release, so that a loop of
 * later runs: look before. */
int         est_stop_signal(void);
const char *est_stop_signal_name(void); /* "SIGTERM"; "" */

/* EST_CANCELLED when a signal was caught: "SIGTERM: the <what> was stopped; ...". */
EST_MUST_CHECK est_status est_signals_check(const char *what);

/* Waits up to `secs`, less when a signal is caught; returns whether one was. */
bool est_signals_wait(double secs);

#endif
