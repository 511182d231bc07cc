/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes an event file for TensorBoard, "events.out.tfevents.<seconds>.<host>", created with the first event. Scalars
 * have the v1 form that Estimators write.
 *
 * Failing to write a summary must not end a run: a failure is logged once as a warning, and the writer goes on without
 * its file. Calls that can fail still return a status.
 *
 * Threading: one thread at a time. */
#ifndef EST_TRAIN_SUMMARY_WRITER_H
#define EST_TRAIN_SUMMARY_WRITER_H

#include "estoc/tensor.h"
#include "format/event.h"

typedef struct est_summary_writer est_summary_writer;

/* A writer into `dir` (copied), which is created with the first event if it does not exist. `suffix` may be "". */
EST_MUST_CHECK est_status est_summary_writer_create(const char *dir, const char *suffix, est_summary_writer **out);
void                      est_summary_writer_free(est_summary_writer *writer); /* flushes; NULL is fine */

/* Collects values for one event: begin, any number of add calls, end writes the event. */
void est_summary_begin(est_summary_writer *writer, int64_t step);
void est_summary_add_scalar(est_summary_writer *writer, const char *tag, double value);
void est_summary_add_histogram(est_summary_writer *writer, const char *tag, est_dtype dtype, const void *data,
                               int64_t n);
void est_summary_add_text(est_summary_writer *writer, const char *tag, est_str text);

/* The first `max` of [n, height, width, channels] pictures as PNG, tags "<tag>/image" or "<tag>/image/<i>"; uint8 as
 * they are, floats scaled as TensorFlow does. */
void est_summary_add_images(est_summary_writer *writer, const char *tag, est_dtype dtype, const est_shape *shape,
                            const void *data, int max);
void est_summary_end(est_summary_writer *writer);

/* Other events. */
void est_summary_graph(est_summary_writer *writer, est_str graph_def);
void est_summary_session_log(est_summary_writer *writer, est_session_status status, const char *checkpoint_path,
                             int64_t step);
void est_summary_flush(est_summary_writer *writer);

/* Flushes when that is due: 5 seconds after the last time, with the first summary, and at the first call after a
 * session log, so that curves are not behind a checkpoint. Every event also does this. */
void est_summary_tick(est_summary_writer *writer);

/* The path of the file; "" before the first event. The first failure of the writer; EST_OK if none. */
const char *est_summary_writer_path(const est_summary_writer *writer);
est_status  est_summary_writer_status(const est_summary_writer *writer);

#endif
