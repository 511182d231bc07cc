/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer of event files (estoc/summary.h), with what loops of the library write beside summaries. */
#ifndef EST_TRAIN_SUMMARY_WRITER_H
#define EST_TRAIN_SUMMARY_WRITER_H

#include "estoc/summary.h"
#include "format/event.h"

/* Other events. */
void est_summary_session_log(est_summary_writer *writer, est_session_status status, const char *checkpoint_path,
                             int64_t step);

/* Flushes when that is due: 5 seconds after the last time, with the first summary, and at the first call after a
 * session log, so that curves are not behind a checkpoint. Every event also does this. */
void est_summary_tick(est_summary_writer *writer);

#endif
