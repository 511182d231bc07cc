/* SPDX-License-Identifier: Apache-2.0
 *
 * Preprocessing as layers: string lookup, normalization, discretization, hashing, category encoding. Formulas, also
 * those of adapt, are Keras'. */
#include "estoc/preprocessing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "nn/adapt.h"
#include "nn/layer.h"

#define NUMBERS (1U << EST_F32 | 1U << EST_F64 | 1U << EST_I32 | 1U << EST_I64)

est_status est_layer_adapt(est_layer *layer, const est_dataset *dataset, const char *component)
{
    EST_REQUIRE(layer);
    EST_REQUIRE(dataset);
    EST_REQUIRE(component);
    if (layer->class->adapt == NULL) {
        return est_fail(EST_FAILED_PRECONDITION, "a %s layer takes nothing from data", layer->class->keras);
    }
    return layer->class->adapt(layer, dataset, component);
}

static double number(const est_tensor *tensor, int64_t i)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: return ((const float *)data)[i];
    case EST_F64: return ((const double *)data)[i];
    case EST_I32: return ((const int32_t *)data)[i];
    default: return (double)((const int64_t *)data)[i];
    }
}

/* A copy of a list; NULL for an empty one and when memory is out. */
static float *copy_floats(est_f32s list)
{
    float *copy = list.n > 0 ? est_alloc((size_t)list.n * sizeof *copy) : NULL;

    if (copy != NULL) memcpy(copy, list.data, (size_t)list.n * sizeof *copy);
    return copy;
}

/* --- string lookup ------------------------------------------------------------------------------------------------ */

typedef struct lookup {
    est_layer          layer;
    est_string_lookup *words;
} lookup;

static est_node lookup_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return est_string_lookup_apply(((const lookup *)self)->words, in.data[0]);
}

static est_status lookup_adapt(est_layer *self, const est_dataset *dataset, const char *component)
{
    return est_string_lookup_adapt(((lookup *)self)->words, dataset, component);
}

static bool lookup_is_tracked(const est_layer *self)
{
    return est_string_lookup_adapts(((const lookup *)self)->words);
}

static void lookup_clear(est_layer *self)
{
    est_string_lookup_free(((lookup *)self)->words);
}

static const est_layer_class lookup_class = {
    .keras      = "StringLookup",
    .scope      = "string_lookup",
    .size       = sizeof(lookup),
    .n_min      = 1,
    .n_max      = 1,
    .call       = lookup_call,
    .adapt      = lookup_adapt,
    .is_tracked = lookup_is_tracked,
    .clear      = lookup_clear,
};

est_layer *est_layer_string_lookup(const est_string_lookup_options *options, const char *name)
{
    lookup l = { .layer = { .class = &lookup_class } };

    return est_string_lookup_create(options, &l.words) == EST_OK ? est_layer_make(&l.layer, name) : NULL;
}

const est_string_lookup *est_layer_vocabulary(const est_layer *layer)
{
    return layer != NULL && layer->class == &lookup_class ? ((const lookup *)layer)->words : NULL;
}

/* --- normalization ------------------------------------------------------------------------------------------------ */

typedef struct normalization {
    est_layer layer;
    bool      over_all, invert;
    bool      fixed;           /* created with its numbers */
    int64_t   n;               /* of the last axis; 0: no numbers yet */
    float    *mean, *variance; /* [n] */
    int64_t   count;
} normalization;

static est_node values_make(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    (void)dtype;
    return est_const_f32(graph, shape, self->user);
}

static est_node count_make(const est_initializer *self, est_graph *graph, est_dtype dtype, est_shape shape)
{
    (void)dtype;
    return est_const_i64(graph, shape, self->user);
}

/* Mean or variance in a graph. */
static est_node statistic(const normalization *l, est_node x, const char *name, const float *values)
{
    est_shape       shape = l->over_all ? EST_SHAPE_SCALAR : EST_SHAPE(l->n);
    est_initializer first = { .make = values_make, .user = values };

    if (l->fixed) return est_const_f32(x.graph, EST_SHAPE(l->n), values);
    return est_read_variable(est_layer_weight(x, name, shape, first, (est_regularizer){ 0 }, true));
}

static est_node normalization_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const normalization *l = (const normalization *)self;
    est_node             x = in.data[0], mean, deviation;

    (void)call;
    if (l->n == 0) return est_nn_fail(x.graph, "normalization layer: it has no mean yet: call est_layer_adapt");
    if (l->n > 1 && est_node_dim(x, -1) != l->n) {
        return est_nn_fail(x.graph, "normalization layer: the last axis of '%s' is %lld, that of the mean %lld",
                           est_node_name(x), (long long)est_node_dim(x, -1), (long long)l->n);
    }
    if (est_node_dtype(x) != EST_F32) x = est_cast(x, EST_F32);
    mean      = statistic(l, x, "mean", l->mean);
    deviation = est_maximum(est_sqrt(statistic(l, x, "variance", l->variance)), est_scalar(x.graph, EST_F32, 1e-7));
    if (!l->fixed) {
        est_initializer count = { .make = count_make, .user = &l->count };

        (void)est_weight(x.graph, "count", EST_SHAPE_SCALAR,
                         EST_WEIGHT(.dtype = EST_I64, .initializer = count, .frozen = true));
    }
    return l->invert ? est_add(mean, est_mul(x, deviation)) : est_div(est_sub(x, mean), deviation);
}

/* Mean and variance so far. */
typedef struct moments {
    bool    over_all;
    int64_t n, count;
    double *mean, *variance;
} moments;

/* Adds the moments of n values, every `stride`th, to those of `count` values before. */
static void add_moments(double *mean, double *variance, int64_t count, const est_tensor *batch, int64_t first,
                        int64_t stride, int64_t n)
{
    double sum = 0, squares = 0, weight = (double)n / (double)(n + count), all;

    for (int64_t i = 0; i < n; i++) sum += number(batch, first + i * stride);
    sum /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = number(batch, first + i * stride) - sum;

        squares += d * d;
    }
    squares /= (double)n;
    all       = *mean * (1 - weight) + sum * weight;
    *variance = (*variance + (*mean - all) * (*mean - all)) * (1 - weight) +
                (squares + (sum - all) * (sum - all)) * weight;
    *mean = all;
}

static est_status add_batch(const est_tensor *batch, void *user)
{
    moments         *m     = user;
    const est_shape *shape = est_tensor_shape(batch);
    int64_t          count = est_tensor_count(batch), n;

    n = m->over_all || shape->rank == 0 ? 1 : shape->dim[shape->rank - 1];
    if (count == 0) return EST_OK;
    if (m->n == 0) {
        m->mean     = est_zalloc((size_t)n * sizeof *m->mean);
        m->variance = est_zalloc((size_t)n * sizeof *m->variance);
        if (m->mean == NULL || m->variance == NULL) return est_no_memory();
        m->n = n;
    }
    if (m->n != n) {
        return est_fail(EST_INVALID_ARGUMENT, "the last axis of an element is %lld, that of the first one %lld",
                        (long long)n, (long long)m->n);
    }
    for (int64_t i = 0; i < n; i++) add_moments(&m->mean[i], &m->variance[i], m->count, batch, i, n, count / n);
    m->count += count / n;
    return EST_OK;
}

/* Makes the moments those of the layer. */
static est_status take_moments(normalization *l, const moments *m)
{
    float *mean = est_alloc((size_t)m->n * sizeof *mean), *variance = est_alloc((size_t)m->n * sizeof *variance);

    if (mean == NULL || variance == NULL) {
        est_free(mean);
        est_free(variance);
        return est_no_memory();
    }
    for (int64_t i = 0; i < m->n; i++) {
        mean[i]     = (float)m->mean[i];
        variance[i] = (float)m->variance[i];
    }
    est_free(l->mean);
    est_free(l->variance);
    l->mean     = mean;
    l->variance = variance;
    l->n        = m->n;
    l->count    = m->count;
    return EST_OK;
}

/* A mean for each element of the last axis needs that axis; that of single numbers in a batch is the batch. */
static est_status need_last_axis(const normalization *l, const est_component *c)
{
    char text[EST_SHAPE_TEXT_MAX];

    if (l->over_all || c == NULL || c->shape.rank == 0) return EST_OK;
    if (c->shape.rank > 0 && c->shape.dim[c->shape.rank - 1] >= 0) return EST_OK;
    return est_fail(
        EST_INVALID_ARGUMENT,
        "the component \"%s\" has shape %s, whose last axis is not known, and each element of that axis has a "
        "mean: for one mean of all set over_all (axis=None in Keras)",
        c->name, est_shape_text(&c->shape, text));
}

static est_status normalization_adapt(est_layer *self, const est_dataset *dataset, const char *component)
{
    normalization *l = (normalization *)self;
    moments        m = { .over_all = l->over_all };
    est_status     status;

    if (l->fixed) {
        return est_fail(EST_FAILED_PRECONDITION, "this Normalization was created with its mean and variance");
    }
    EST_TRY(need_last_axis(l, est_dataset_component(dataset, est_dataset_find(dataset, component))));
    status = est_adapt_each(dataset, component, NUMBERS, "it must have numbers", add_batch, &m);
    if (status == EST_OK && m.n == 0) status = est_fail(EST_INVALID_ARGUMENT, "the dataset has no number");
    if (status == EST_OK) status = take_moments(l, &m);
    est_free(m.mean);
    est_free(m.variance);
    return status;
}

static void normalization_clear(est_layer *self)
{
    est_free(((normalization *)self)->mean);
    est_free(((normalization *)self)->variance);
}

static const est_layer_class normalization_class = {
    .keras = "Normalization",
    .scope = "normalization",
    .size  = sizeof(normalization),
    .n_min = 1,
    .n_max = 1,
    .call  = normalization_call,
    .adapt = normalization_adapt,
    .clear = normalization_clear,
};

est_layer *est_layer_normalization(const est_normalization_options *options)
{
    est_normalization_options o;
    normalization             l = { .layer = { .class = &normalization_class } };

    if (est_options_take(EST_STRUCT_SIZE(est_normalization_options), options, &o) != EST_OK) return NULL;
    if (!EST_LIST_OK(o.mean) || !EST_LIST_OK(o.variance) || o.mean.n != o.variance.n) {
        (void)est_fail(EST_INVALID_ARGUMENT, "normalization layer: %d means and %d variances", o.mean.n, o.variance.n);
        return NULL;
    }
    l.over_all = o.over_all;
    l.invert   = o.invert;
    l.fixed    = o.mean.n > 0;
    l.n        = o.mean.n;
    l.mean     = copy_floats(o.mean);
    l.variance = copy_floats(o.variance);
    if (l.fixed && (l.mean == NULL || l.variance == NULL)) {
        (void)est_no_memory();
        normalization_clear(&l.layer);
        return NULL;
    }
    return est_layer_make(&l.layer, o.name);
}

/* --- discretization ----------------------------------------------------------------------------------------------- */

typedef struct discretization {
    est_layer layer;
    int64_t   num_bins;
    double    epsilon;
    bool      fixed;
    float    *boundaries;
    int       n;
} discretization;

static est_node discretization_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const discretization *l = (const discretization *)self;
    est_node              x = in.data[0];

    (void)call;
    if (l->boundaries == NULL) {
        return est_nn_fail(x.graph, "discretization layer: it has no boundaries yet: call est_layer_adapt");
    }
    return est_cast(est_bucketize(x, (est_f32s){ l->boundaries, l->n }), EST_I64);
}

/* Values with the number of elements that each stands for, ascending: quantiles are read from it. */
typedef struct point {
    float value, weight;
} point;

typedef struct summary {
    point  *points;
    int64_t n;
    double  epsilon;
} summary;

/* Points of equal value keep their order. */
static void merge_points(const point *a, int64_t n_a, const point *b, int64_t n_b, point *out)
{
    for (int64_t i = 0, j = 0; i + j < n_a + n_b;) {
        bool from_a = j == n_b || (i < n_a && a[i].value <= b[j].value);

        out[i + j] = from_a ? a[i] : b[j];
        *(from_a ? &i : &j) += 1;
    }
}

/* numpy.interp at x over n points, whose places ascend. */
static double interpolate(double x, const float *at, const double *values, int64_t n)
{
    int64_t low = 0, high = n;

    if (x < at[0]) return values[0];
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;

        *(at[middle] <= x ? &low : &high) = middle;
    }
    if (low == n - 1 || at[low] == x) return values[low];
    return (values[low + 1] - values[low]) / ((double)at[low + 1] - (double)at[low]) * (x - (double)at[low]) +
           values[low];
}

/* The n points at equal steps of the weight. `at`, `values` and `weights` have room for those of the summary. */
static void resample(const summary *s, double epsilon, point *out, int64_t n, float *at, double *values,
                     double *weights)
{
    float  total  = 0;
    double before = 0;

    for (int64_t i = 0; i < s->n; i++) {
        values[i]  = s->points[i].value;
        weights[i] = at[i] = total += s->points[i].weight;
    }
    for (int64_t i = 0; i < s->n; i++) at[i] /= total;
    for (int64_t i = 0; i < n; i++) {
        double x = epsilon + (double)i * epsilon, weight = interpolate(x, at, weights, s->n);

        out[i] = (point){ (float)interpolate(x, at, values, s->n), (float)(weight - before) };
        before = weight;
    }
}

/* Replaces the points by 1 / epsilon of them; nothing when there are no more. */
static est_status compress(summary *s, double epsilon)
{
    int64_t n = (int64_t)ceil(1 / epsilon);
    point  *points;
    float  *at;
    double *values;

    if ((double)s->n * epsilon < 1) return EST_OK;
    points = est_alloc((size_t)n * sizeof *points);
    at     = est_alloc((size_t)s->n * sizeof *at);
    values = est_alloc((size_t)s->n * 2 * sizeof *values);
    if (points == NULL || at == NULL || values == NULL) {
        est_free(points);
        est_free(at);
        est_free(values);
        return est_no_memory();
    }
    resample(s, epsilon, points, n, at, values, values + s->n);
    est_free(at);
    est_free(values);
    est_free(s->points);
    s->points = points;
    s->n      = n;
    return EST_OK;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Every step-th of the sorted values, from the first that has `step` before it. */
static int64_t summarize(float *values, int64_t n, double epsilon, point *out)
{
    int64_t start = (int64_t)((float)n / (float)(1 / epsilon)), step = start > 1 ? start : 1, n_out = 0;

    qsort(values, (size_t)n, sizeof *values, by_value);
    for (int64_t i = start; i < n; i += step) out[n_out++] = (point){ values[i], (float)step };
    return n_out;
}

static est_status add_values(const est_tensor *batch, void *user)
{
    summary *s      = user;
    int64_t  n      = est_tensor_count(batch), n_new;
    float   *values = est_alloc((size_t)(n + 1) * sizeof *values);
    point   *added = est_alloc((size_t)(n + 1) * sizeof *added), *all = NULL;

    if (values != NULL && added != NULL) {
        for (int64_t i = 0; i < n; i++) values[i] = (float)number(batch, i);
        n_new = summarize(values, n, s->epsilon, added);
        all   = est_alloc((size_t)(n_new + s->n + 1) * sizeof *all);
    }
    if (all != NULL) {
        merge_points(added, n_new, s->points, s->n, all);
        est_free(s->points);
        s->points = all;
        s->n += n_new;
    }
    est_free(values);
    est_free(added);
    return all != NULL ? compress(s, s->epsilon) : est_no_memory();
}

static est_status take_boundaries(discretization *l, summary *s)
{
    float *boundaries;

    EST_TRY(compress(s, 1 / (double)l->num_bins));
    boundaries = est_alloc((size_t)s->n * sizeof *boundaries);
    if (boundaries == NULL) return est_no_memory();
    for (int64_t i = 0; i < s->n; i++) boundaries[i] = s->points[i].value;
    est_free(l->boundaries);
    l->boundaries = boundaries;
    l->n          = (int)s->n - 1;
    return EST_OK;
}

static est_status discretization_adapt(est_layer *self, const est_dataset *dataset, const char *component)
{
    discretization *l = (discretization *)self;
    summary         s = { .epsilon = l->epsilon };
    est_status      status;

    if (l->fixed) return est_fail(EST_FAILED_PRECONDITION, "this Discretization was created with its boundaries");
    status = est_adapt_each(dataset, component, NUMBERS, "it must have numbers", add_values, &s);
    if (status == EST_OK && s.n == 0) status = est_fail(EST_INVALID_ARGUMENT, "the dataset has no number");
    if (status == EST_OK) status = take_boundaries(l, &s);
    est_free(s.points);
    return status;
}

static bool discretization_is_tracked(const est_layer *self)
{
    return !((const discretization *)self)->fixed;
}

static void discretization_clear(est_layer *self)
{
    est_free(((discretization *)self)->boundaries);
}

static const est_layer_class discretization_class = {
    .keras      = "Discretization",
    .scope      = "discretization",
    .size       = sizeof(discretization),
    .n_min      = 1,
    .n_max      = 1,
    .call       = discretization_call,
    .adapt      = discretization_adapt,
    .is_tracked = discretization_is_tracked,
    .clear      = discretization_clear,
};

static est_status check_bins(const est_discretization_options *o)
{
    if (!EST_LIST_OK(o->boundaries) || (o->boundaries.n > 0) == (o->num_bins > 0) || o->num_bins < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "discretization layer: %d boundaries and %lld bins; it takes boundaries, or a number of bins",
                        o->boundaries.n, (long long)o->num_bins);
    }
    if (!(o->epsilon >= 0 && o->epsilon < 1)) {
        return est_fail(EST_INVALID_ARGUMENT, "discretization layer: epsilon is %g; it is between 0 and 1", o->epsilon);
    }
    for (int i = 1; i < o->boundaries.n; i++) {
        if (o->boundaries.data[i] >= o->boundaries.data[i - 1]) continue;
        return est_fail(EST_INVALID_ARGUMENT, "discretization layer: boundary %d is %g, below the one before", i,
                        (double)o->boundaries.data[i]);
    }
    return EST_OK;
}

est_layer *est_layer_discretization(const est_discretization_options *options)
{
    est_discretization_options o;
    discretization             l = { .layer = { .class = &discretization_class } };

    if (est_options_take(EST_STRUCT_SIZE(est_discretization_options), options, &o) != EST_OK) return NULL;
    if (check_bins(&o) != EST_OK) return NULL;
    l.num_bins   = o.num_bins;
    l.epsilon    = o.epsilon > 0 ? o.epsilon : 0.01;
    l.fixed      = o.boundaries.n > 0;
    l.n          = o.boundaries.n;
    l.boundaries = copy_floats(o.boundaries);
    if (l.fixed && l.boundaries == NULL) {
        (void)est_no_memory();
        return NULL;
    }
    return est_layer_make(&l.layer, o.name);
}

est_f32s est_layer_boundaries(const est_layer *layer)
{
    const discretization *l = (const discretization *)layer;

    return layer != NULL && layer->class == &discretization_class ? (est_f32s){ l->boundaries, l->n } : (est_f32s){ 0 };
}

/* --- hashing ------------------------------------------------------------------------------------------------------ */

typedef struct hashing {
    est_layer layer;
    int64_t   num_bins;
    char     *mask; /* NULL: none */
    int64_t   salt[2];
    bool      has_salt;
} hashing;

static est_node hash_to_bins(const hashing *l, est_node x, int64_t n)
{
    if (!l->has_salt) return est_string_to_hash_bucket(x, n);
    return est_build1(&est_op_string_to_hash_bucket_strong, x,
                      EST_ATTRS(est_attr_int("num_buckets", n), est_attr_ints("key", (est_i64s){ l->salt, 2 })));
}

static est_node hashing_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const hashing *l     = (const hashing *)self;
    est_node       x     = in.data[0], bins, is_mask;
    est_dtype      dtype = est_node_dtype(x);
    est_tensor    *mask  = NULL;
    est_status     status;

    (void)call;
    if (dtype != EST_STRING && dtype != EST_I32 && dtype != EST_I64) {
        return est_nn_fail(x.graph, "hashing layer: '%s' is %s; it takes strings or integers", est_node_name(x),
                           est_dtype_name(dtype));
    }
    if (dtype != EST_STRING) x = est_as_string(x);
    if (l->mask == NULL || l->num_bins == 1) return hash_to_bins(l, x, l->num_bins);
    status = est_tensor_string(l->mask, strlen(l->mask), &mask);
    if (status != EST_OK) return est_graph_poison(x.graph, status);
    is_mask = est_equal(x, est_const(x.graph, mask));
    est_tensor_free(mask);
    bins = hash_to_bins(l, x, l->num_bins - 1);
    return est_select(is_mask, est_zeros_like(bins), est_add(bins, est_ones_like(bins)));
}

static void hashing_clear(est_layer *self)
{
    est_free(((hashing *)self)->mask);
}

static const est_layer_class hashing_class = {
    .keras = "Hashing",
    .scope = "hashing",
    .size  = sizeof(hashing),
    .n_min = 1,
    .n_max = 1,
    .call  = hashing_call,
    .clear = hashing_clear,
};

est_layer *est_layer_hashing(int64_t num_bins, const est_hashing_options *options)
{
    est_hashing_options o;
    hashing             l = { .layer = { .class = &hashing_class }, .num_bins = num_bins };

    if (est_options_take(EST_STRUCT_SIZE(est_hashing_options), options, &o) != EST_OK) return NULL;
    if (num_bins <= 0) {
        (void)est_fail(EST_INVALID_ARGUMENT, "hashing layer: %lld bins", (long long)num_bins);
        return NULL;
    }
    if (!EST_LIST_OK(o.salt) || o.salt.n > 2) {
        (void)est_fail(EST_INVALID_ARGUMENT, "hashing layer: a salt of %d numbers; expected 1 or 2", o.salt.n);
        return NULL;
    }
    l.has_salt = o.salt.n > 0;
    for (int i = 0; i < 2 && l.has_salt; i++) l.salt[i] = o.salt.data[i < o.salt.n ? i : 0];
    l.mask = o.mask_value != NULL ? est_strdup(o.mask_value) : NULL;
    if (o.mask_value != NULL && l.mask == NULL) {
        (void)est_no_memory();
        return NULL;
    }
    return est_layer_make(&l.layer, o.name);
}

/* --- category encoding -------------------------------------------------------------------------------------------- */

typedef struct category {
    est_layer         layer;
    int64_t           num_tokens;
    est_category_mode mode;
} category;

static est_node category_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const category *l = (const category *)self;
    est_node        x = in.data[0], hot;

    (void)call;
    if ((est_node_dtype(x) != EST_I32 && est_node_dtype(x) != EST_I64) || est_node_shape(x)->rank < 1) {
        return est_nn_fail(x.graph, "category_encoding layer: '%s' is %s; it takes int32 or int64 of rank 1 or more",
                           est_node_name(x), est_dtype_name(est_node_dtype(x)));
    }
    if (in.n > 1 && in.data[1].graph != NULL && l->mode != EST_COUNTS) {
        return est_nn_fail(x.graph, "category_encoding layer: weights are for EST_COUNTS");
    }
    x = est_check_range(x, 0, (double)l->num_tokens - 1, "CategoryEncoding");
    if (l->mode == EST_ONE_HOT && est_node_dim(x, -1) == 1 && est_node_shape(x)->rank > 1) {
        x = est_squeeze(x, EST_I64S(-1));
    }
    hot = est_one_hot(x, l->num_tokens, 1, 0, -1);
    if (l->mode == EST_ONE_HOT) return hot;
    if (l->mode == EST_MULTI_HOT) return est_reduce_max(hot, EST_I64S(-2), false);
    if (in.n > 1 && in.data[1].graph != NULL) {
        hot = est_mul(hot, est_expand_dims(est_cast(in.data[1], EST_F32), -1));
    }
    return est_reduce_sum(hot, EST_I64S(-2), false);
}

static const est_layer_class category_class = { "CategoryEncoding",   "category_encoding", sizeof(category), 1, 2,
                                                .call = category_call };

est_layer *est_layer_category_encoding(int64_t num_tokens, const est_category_encoding_options *options)
{
    est_category_encoding_options o;
    category                      l = { .layer = { .class = &category_class }, .num_tokens = num_tokens };

    if (est_options_take(EST_STRUCT_SIZE(est_category_encoding_options), options, &o) != EST_OK) return NULL;
    if (num_tokens <= 0 || o.mode < EST_MULTI_HOT || o.mode > EST_COUNTS) {
        (void)est_fail(EST_INVALID_ARGUMENT, "category_encoding layer: %lld tokens, mode %d", (long long)num_tokens,
                       (int)o.mode);
        return NULL;
    }
    l.mode = o.mode;
    return est_layer_make(&l.layer, o.name);
}
