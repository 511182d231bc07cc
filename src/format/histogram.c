/* SPDX-License-Identifier: Apache-2.0
 *
 * Histograms as TensorFlow makes and writes them.
 *
 *   HistogramProto  1 min | 2 max | 3 num | 4 sum | 5 sum_squares | 6 bucket_limit | 7 bucket (packed doubles)
 *
 * Limits come from repeated multiplication, not from a power: only that gives the same doubles. Of a run of empty
 * buckets only the last limit is written. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "format/summary.h"

#define N_POSITIVE 775 /* limits above 0, DBL_MAX included */

static void make_limits(double limit[EST_HISTOGRAM_BUCKETS])
{
    double v = 1e-12;

    limit[N_POSITIVE] = 0;
    for (int i = 1; i <= N_POSITIVE; i++) {
        double up = i < N_POSITIVE ? v : DBL_MAX;

        limit[N_POSITIVE + i] = up;
        limit[N_POSITIVE - i] = -up;
        v *= 1.1;
    }
}

est_status est_histogram_create(est_histogram **out)
{
    est_histogram *histogram = est_alloc(sizeof *histogram);

    if (histogram == NULL) return est_no_memory();
    make_limits(histogram->limit);
    est_histogram_reset(histogram);
    *out = histogram;
    return EST_OK;
}

void est_histogram_free(est_histogram *histogram)
{
    est_free(histogram);
}

void est_histogram_reset(est_histogram *histogram)
{
    histogram->min          = DBL_MAX;
    histogram->max          = -DBL_MAX;
    histogram->num          = 0;
    histogram->sum          = 0;
    histogram->sum_squares  = 0;
    histogram->n_not_finite = 0;
    memset(histogram->bucket, 0, sizeof histogram->bucket);
}

/* The first limit above the value; the last one for DBL_MAX itself. */
static int bucket_of(const est_histogram *histogram, double value)
{
    int low = 0, high = EST_HISTOGRAM_BUCKETS - 1;

    while (low < high) {
        int middle = (low + high) / 2;

        if (histogram->limit[middle] > value) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void est_histogram_add(est_histogram *histogram, double value)
{
    if (!isfinite(value)) {
        histogram->n_not_finite++;
        return;
    }
    histogram->bucket[bucket_of(histogram, value)]++;
    if (value < histogram->min) histogram->min = value;
    if (value > histogram->max) histogram->max = value;
    histogram->num++;
    histogram->sum += value;
    histogram->sum_squares += value * value;
}

est_status est_histogram_add_tensor(est_histogram *histogram, const est_tensor *tensor)
{
    const void *data = est_tensor_data(tensor);
    int64_t     n    = est_tensor_count(tensor);
    est_dtype   type = est_tensor_dtype(tensor);

    switch (type) {
    case EST_F32:
        for (int64_t i = 0; i < n; i++) est_histogram_add(histogram, (double)((const float *)data)[i]);
        return EST_OK;
    case EST_F64:
        for (int64_t i = 0; i < n; i++) est_histogram_add(histogram, ((const double *)data)[i]);
        return EST_OK;
    case EST_I32:
        for (int64_t i = 0; i < n; i++) est_histogram_add(histogram, (double)((const int32_t *)data)[i]);
        return EST_OK;
    case EST_I64:
        for (int64_t i = 0; i < n; i++) est_histogram_add(histogram, (double)((const int64_t *)data)[i]);
        return EST_OK;
    case EST_U8:
    case EST_BOOL:
        for (int64_t i = 0; i < n; i++) est_histogram_add(histogram, (double)((const uint8_t *)data)[i]);
        return EST_OK;
    default: return est_fail(EST_INVALID_ARGUMENT, "a %s tensor has no histogram", est_dtype_name(type));
    }
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_nonzero(est_wire_writer *w, uint32_t number, double value)
{
    if (value != 0 || signbit(value)) est_wire_put_f64(w, number, value);
}

/* The pairs to write; returns how many. */
static size_t squeeze(const est_histogram *h, double *limit, double *bucket)
{
    size_t n = 0;

    for (int i = 0; i < EST_HISTOGRAM_BUCKETS; i++) {
        bool last_of_empty = i + 1 == EST_HISTOGRAM_BUCKETS || h->bucket[i + 1] > 0;

        if (h->bucket[i] <= 0 && !last_of_empty) continue;
        limit[n]    = h->limit[i];
        bucket[n++] = h->bucket[i];
    }
    return n;
}

void est_summary_put_histogram(est_wire_writer *w, const char *tag, const est_histogram *histogram)
{
    double limit[EST_HISTOGRAM_BUCKETS], bucket[EST_HISTOGRAM_BUCKETS];
    size_t n     = squeeze(histogram, limit, bucket);
    size_t value = est_wire_begin(w, 1), histo;

    est_wire_put_string(w, 1, tag);
    histo = est_wire_begin(w, 5);
    put_nonzero(w, 1, histogram->min);
    put_nonzero(w, 2, histogram->max);
    put_nonzero(w, 3, histogram->num);
    put_nonzero(w, 4, histogram->sum);
    put_nonzero(w, 5, histogram->sum_squares);
    est_wire_put_f64s(w, 6, limit, n);
    est_wire_put_f64s(w, 7, bucket, n);
    est_wire_end(w, histo);
    est_wire_end(w, value);
}

/* --- rows of equal width ------------------------------------------------------------------------------------------ */

/* Least and greatest of the finite values; false when there is none. */
static bool range_of(const double *values, size_t n, double *min, double *max)
{
    *min = INFINITY;
    *max = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        if (values[i] < *min) *min = values[i];
        if (values[i] > *max) *max = values[i];
    }
    return *min <= *max;
}

void est_histogram_rows(const double *values, size_t n, double (*row)[3], int n_rows)
{
    double min, max, width;

    memset(row, 0, (size_t)n_rows * sizeof *row);
    if (n_rows == 0 || !range_of(values, n, &min, &max)) return;
    width = max / n_rows - min / n_rows; /* max - min may be too large for a double */
    for (int i = 0; i < n_rows; i++) {
        row[i][0] = min + width * i;
        row[i][1] = i + 1 < n_rows ? min + width * (i + 1) : max;
    }
    for (size_t i = 0; i < n; i++) {
        double at = width > 0 ? floor((values[i] - min) / width) : n_rows - 1;

        if (isfinite(values[i])) row[at < n_rows - 1 ? (int)at : n_rows - 1][2]++;
    }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static est_status append_doubles(est_wire_reader *r, const est_wire_field *field, double **values, size_t *n)
{
    size_t        more = field->type == EST_WIRE_BYTES ? field->bytes.size / 8 : 1;
    double       *larger;
    est_wire_list list;
    uint64_t      bits;

    larger = est_realloc(*values, (*n + more + 1) * sizeof *larger);
    if (larger == NULL) return est_no_memory();
    *values = larger;
    est_wire_list_init(r, field, EST_WIRE_FIXED64, &list);
    while (est_wire_list_next(&list, &bits)) larger[(*n)++] = est_wire_bits_f64(bits);
    return EST_OK;
}

static est_status parse_field(est_wire_reader *r, const est_wire_field *field, est_histogram_view *out)
{
    switch (field->number) {
    case 1: out->min = est_wire_f64(r, field); break;
    case 2: out->max = est_wire_f64(r, field); break;
    case 3: out->num = est_wire_f64(r, field); break;
    case 4: out->sum = est_wire_f64(r, field); break;
    case 5: out->sum_squares = est_wire_f64(r, field); break;
    case 6: return append_doubles(r, field, &out->limit, &out->n_limits);
    case 7: return append_doubles(r, field, &out->bucket, &out->n_buckets);
    default: break;
    }
    return EST_OK;
}

est_status est_histogram_parse(est_str message, est_histogram_view *out)
{
    est_histogram_view view   = { 0 };
    est_status         status = EST_OK;
    est_wire_reader    r;
    est_wire_field     field;

    est_wire_reader_init(&r, "HistogramProto", message.data, message.size);
    while (status == EST_OK && est_wire_next(&r, &field)) status = parse_field(&r, &field, &view);
    if (status == EST_OK) status = est_wire_finish(&r);
    if (status == EST_OK && view.n_limits != view.n_buckets) {
        status = est_fail(EST_DATA_LOSS, "a histogram has %zu limits for %zu buckets", view.n_limits, view.n_buckets);
    }
    if (status != EST_OK) {
        est_histogram_view_clear(&view);
        return status;
    }
    *out = view;
    return EST_OK;
}

void est_histogram_view_clear(est_histogram_view *view)
{
    est_free(view->limit);
    est_free(view->bucket);
    memset(view, 0, sizeof *view);
}
