/* SPDX-License-Identifier: Apache-2.0
 *
 * Summaries: what TensorBoard shows. A Summary message is a list of tagged values; the put functions append one value
 * to the message in `w`, the cursor walks them.
 *
 * Scalars, histograms and images come in two forms. The first (v1) is small and understood by every TensorBoard; the
 * second (v2) is a tensor with metadata, as tf.summary of TensorFlow 2 writes. One tag of one run must stay with one
 * form.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_SUMMARY_H
#define EST_FORMAT_SUMMARY_H

#include "format/wire.h"

/* --- histograms --------------------------------------------------------------------------------------------------- */

#define EST_HISTOGRAM_BUCKETS 1551

/* Counts of values in TensorFlow's buckets: limits grow by a tenth from 1e-12 to 1e20, mirrored for negative ones. */
typedef struct est_histogram {
    double  min, max; /* DBL_MAX and -DBL_MAX while there is no value */
    double  num, sum, sum_squares;
    int64_t n_not_finite;                  /* NaNs and infinities: left out of all the above */
    double  limit[EST_HISTOGRAM_BUCKETS];  /* bucket i holds limit[i - 1] <= value < limit[i] */
    double  bucket[EST_HISTOGRAM_BUCKETS]; /* counts */
} est_histogram;

EST_MUST_CHECK est_status est_histogram_create(est_histogram **out);
void                      est_histogram_free(est_histogram *histogram); /* NULL is fine */
void                      est_histogram_reset(est_histogram *histogram);

void est_histogram_add(est_histogram *histogram, double value);

/* Adds every element of a tensor of numbers. */
EST_MUST_CHECK est_status est_histogram_add_tensor(est_histogram *histogram, const est_tensor *tensor);

/* The rows of the v2 form: (left, right, count) of buckets of equal width from the least to the greatest finite value.
 * When all are the same, every row is that point and the last has the count. */
void est_histogram_rows(const double *values, size_t n, double (*row)[3], int n_rows);

/* --- writing values ----------------------------------------------------------------------------------------------- */

/* v1 */
void est_summary_put_scalar(est_wire_writer *w, const char *tag, float value);
void est_summary_put_histogram(est_wire_writer *w, const char *tag, const est_histogram *histogram);

/* An encoded picture (PNG, JPEG, GIF). `channels`: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA. */
void est_summary_put_image(est_wire_writer *w, const char *tag, int height, int width, int channels, est_str encoded);

/* v2 */
void est_summary_put_scalar_v2(est_wire_writer *w, const char *tag, float value);
void est_summary_put_image_v2(est_wire_writer *w, const char *tag, int height, int width, est_str encoded);

/* n_buckets of equal width from the least to the greatest of the values; TensorBoard's own default is 30. */
void est_summary_put_histogram_v2(est_wire_writer *w, const char *tag, const double *values, size_t n, int n_buckets);

/* Text, shown as Markdown; it exists in this form only. */
void est_summary_put_text(est_wire_writer *w, const char *tag, est_str text);

/* --- reading values ----------------------------------------------------------------------------------------------- */

typedef enum est_summary_kind {
    EST_SUMMARY_NONE,   /* only metadata, or something unknown */
    EST_SUMMARY_SCALAR, /* number */
    EST_SUMMARY_HISTOGRAM,
    EST_SUMMARY_IMAGE,
    EST_SUMMARY_AUDIO,
    EST_SUMMARY_TENSOR /* v2; a scalar of numbers also has number, a single string also has text */
} est_summary_kind;

typedef struct est_summary_value {
    est_summary_kind kind;
    est_str          tag;
    est_str          plugin; /* "scalars", "text", ...; v1 values have none */
    double           number; /* NaN when it is not one number */
    est_str          text;
    est_str          message; /* the bytes of the HistogramProto, Image, Audio or TensorProto */
} est_summary_value;

/* Walks the values of a Summary message; strings are borrowed from it. */
typedef struct est_summary_cursor {
    est_wire_reader reader;
} est_summary_cursor;

void est_summary_cursor_init(est_summary_cursor *cursor, est_str message);

/* The next value; *found is false at the end. */
EST_MUST_CHECK est_status est_summary_cursor_next(est_summary_cursor *cursor, bool *found, est_summary_value *value);

/* A HistogramProto: its totals and its buckets as parallel arrays, freed with est_free. */
typedef struct est_histogram_view {
    double  min, max, num, sum, sum_squares;
    double *limit, *bucket;
    size_t  n_limits, n_buckets; /* the same in a sound one */
} est_histogram_view;

EST_MUST_CHECK est_status est_histogram_parse(est_str message, est_histogram_view *out);
void                      est_histogram_view_clear(est_histogram_view *view);

/* A v1 Image. */
typedef struct est_image_view {
    int32_t height, width, channels;
    est_str encoded; /* borrowed from the message */
} est_image_view;

EST_MUST_CHECK est_status est_image_parse(est_str message, est_image_view *out);

#endif
