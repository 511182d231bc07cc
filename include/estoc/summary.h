/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing event files for TensorBoard, in programs whose loop is their own; a training writes its summaries itself.
 *
 *     est_summary_writer_create("runs/digits", "", &writer);
 *     est_summary_begin(writer, step);
 *     est_summary_add_scalar(writer, "loss", loss);
 *     est_summary_end(writer);
 *     est_summary_writer_free(writer);
 *
 * The file is "events.out.tfevents.<seconds>.<host>" and a suffix, created with the first event. Scalars, histograms
 * and images have the first of the two forms that estoc/events.h tells of, texts the second.
 *
 * Failing to write a summary does not end a program: a failure is logged once as a warning, and the writer goes on
 * without its file. est_summary_writer_status tells.
 *
 * Threading: one thread at a time. */
#ifndef ESTOC_SUMMARY_H
#define ESTOC_SUMMARY_H

#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_summary_writer est_summary_writer;

/* A writer into `dir` (copied), which is created with the first event if it does not exist. `suffix`, of the file's
 * name, may be "". */
EST_API EST_MUST_CHECK est_status est_summary_writer_create(const char *dir, const char *suffix,
                                                            est_summary_writer **out);
EST_API void                      est_summary_writer_free(est_summary_writer *writer); /* flushes; NULL is fine */

/* Collects values for one event: begin, any number of add calls, end writes the event. */
EST_API void est_summary_begin(est_summary_writer *writer, int64_t step);
EST_API void est_summary_add_scalar(est_summary_writer *writer, const char *tag, double value);
EST_API void est_summary_add_histogram(est_summary_writer *writer, const char *tag, est_dtype dtype, const void *data,
                                       int64_t n);
EST_API void est_summary_add_text(est_summary_writer *writer, const char *tag, est_str text);

/* The first `max` of [n, height, width, channels] pictures as PNG, tags "<tag>/image" or "<tag>/image/<i>"; uint8 as
 * they are, floats scaled as TensorFlow does. */
EST_API void est_summary_add_images(est_summary_writer *writer, const char *tag, est_dtype dtype,
                                    const est_shape *shape, const void *data, int max);
EST_API void est_summary_end(est_summary_writer *writer);

/* Writes an event with a graph, an encoded GraphDef. */
EST_API void est_summary_graph(est_summary_writer *writer, int64_t step, est_str graph_def);

/* Writes what is buffered to the file; every few seconds an event does so too. */
EST_API void est_summary_flush(est_summary_writer *writer);

/* The path of the file; "" before the first event. The first failure of the writer; EST_OK if none. */
EST_API const char               *est_summary_writer_path(const est_summary_writer *writer);
EST_API EST_MUST_CHECK est_status est_summary_writer_status(const est_summary_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
