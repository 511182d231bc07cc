/* SPDX-License-Identifier: Apache-2.0
 *
 * RaggedCross: for every row of a batch, a hash of every way to take one value of each input's row, the last input
 * varying fastest:
 *
 *   h = hash_key, then h = FingerprintCat64(h, f) for each value taken, out = h mod num_buckets
 *
 * with f the Fingerprint64 of a string, or the integer itself. Of TensorFlow's op the hashed form on ragged inputs is
 * here: the attributes of sparse and dense ones, and input_order, an R for each ragged input, are there for exports.
 * SparseCross is the same of sparse tensors and of matrices, in that order; it runs loaded models.
 *
 * How many there are only the splits tell: measure() counts, run() fingerprints every value once and then combines;
 * what the earlier inputs gave is kept while the last one varies. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/fingerprint.h"
#include "kernels/parallel.h"
#include "kernels/ragged.h"
#include "ops/ops.h"

#define VALUES(i) (i)
#define SPLITS(i) (n + (i))

static est_status cross_infer(est_infer *c)
{
    const est_node_def *node = c->node;
    int                 n    = est_node_ints(node, "ragged_values_types").n;
    int64_t             rows = -1, buckets = est_node_int(node, "num_buckets");

    if (est_node_ints(node, "ragged_splits_types").n != n) {
        return est_fail(EST_INVALID_ARGUMENT, "%d lists of ragged values and %d of splits", n,
                        est_node_ints(node, "ragged_splits_types").n);
    }
    if (!est_node_bool(node, "hashed_output")) return est_fail(EST_UNIMPLEMENTED, "only hashed crosses are here");
    if (n < 1 || n > EST_CROSS_MAX) {
        return est_fail(EST_INVALID_ARGUMENT, "a cross is of 1 to %d inputs, got %d", EST_CROSS_MAX, n);
    }
    if (buckets < 0) return est_fail(EST_INVALID_ARGUMENT, "num_buckets is %" PRId64, buckets);
    for (int i = 0; i < n; i++) {
        int64_t own;

        EST_TRY(est_infer_ragged(c, VALUES(i), SPLITS(i), &own));
        if (own >= 0 && rows >= 0 && own != rows) {
            return est_fail(EST_INVALID_ARGUMENT, "input %d of a cross has %" PRId64 " rows, others have %" PRId64, i,
                            own, rows);
        }
        if (own >= 0) rows = own;
    }
    c->out[0] = EST_SHAPE(-1);
    c->out[1] = EST_SHAPE(rows < 0 ? -1 : rows + 1);
    return EST_OK;
}

static int n_inputs(const est_call *c)
{
    return c->n_in / 2;
}

static const int64_t *splits_of(const est_call *c, int i)
{
    return c->in[n_inputs(c) + i]->data;
}

/* How many ways there are in row r; false: more than can be counted. */
static bool row_ways(const est_call *c, int64_t r, int64_t *out)
{
    int64_t ways = 1;
    bool    fits = true;

    for (int i = 0; i < n_inputs(c); i++) {
        int64_t length = splits_of(c, i)[r + 1] - splits_of(c, i)[r];

        if (length == 0) {
            *out = 0;
            return true;
        }
        fits = fits && !__builtin_mul_overflow(ways, length, &ways);
    }
    *out = ways;
    return fits;
}

static est_status cross_measure(est_call *c)
{
    int     n    = n_inputs(c);
    int64_t rows = c->in[SPLITS(0)]->count - 1, total = 0, ways;

    for (int i = 0; i < n; i++) EST_TRY(est_splits_check(c->in[SPLITS(i)], c->in[VALUES(i)]->count));
    for (int64_t r = 0; r < rows; r++) {
        if (!row_ways(c, r, &ways) || __builtin_add_overflow(total, ways, &total)) {
            return est_fail(EST_RESOURCE_EXHAUSTED, "row %" PRId64 " of a cross has too many values", r);
        }
    }
    c->out[0].shape = EST_SHAPE(total);
    c->out[0].count = total;
    c->out[1].shape = EST_SHAPE(rows + 1);
    c->out[1].count = rows + 1;
    return EST_OK;
}

/* Scratch: what every string is taken as. */
static size_t cross_scratch(const est_call *c)
{
    size_t strings = 0;

    for (int i = 0; i < n_inputs(c); i++) {
        if (c->in[VALUES(i)]->dtype == EST_STRING) strings += (size_t)c->in[VALUES(i)]->count;
    }
    return strings * sizeof(uint64_t);
}

static est_status cross_prepare(est_call *c)
{
    int64_t buckets = est_node_int(c->node, "num_buckets");

    c->param[0].i = buckets > 0 ? buckets : INT64_MAX;
    c->param[1].i = est_node_int(c->node, "hash_key");
    return EST_OK;
}

typedef struct cross {
    est_call       *call;
    int             n;
    const uint64_t *value[EST_CROSS_MAX]; /* fingerprints or the integers themselves */
    const int64_t  *splits[EST_CROSS_MAX];
} cross;

static void fingerprint_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    cross *x  = arg;
    void  *to = x->call->scratch;

    (void)block;
    for (int i = 0; i < x->n; i++) { /* [begin, end) of all strings one after the other */
        const est_view *values = x->call->in[VALUES(i)];

        if (values->dtype != EST_STRING) continue;
        for (int64_t k = begin > 0 ? begin : 0; k < end && k < values->count; k++) {
            est_str s = ((const est_str *)values->data)[k];

            ((uint64_t *)to)[k] = est_fingerprint64(s.data, s.size);
        }
        to = (uint64_t *)to + values->count;
        begin -= values->count;
        end -= values->count;
    }
}

/* Goes through the ways of row r in order; `hash[i]` is that of the values taken of inputs before i. */
static void cross_row(const cross *x, int64_t r, int64_t *out, uint64_t buckets)
{
    uint64_t hash[EST_CROSS_MAX];
    int64_t  at[EST_CROSS_MAX];
    int      last = x->n - 1, i = 0;

    hash[0] = (uint64_t)x->call->param[1].i;
    at[0]   = x->splits[0][r];
    while (i >= 0) {
        if (i == last) {
            for (int64_t k = at[i]; k < x->splits[i][r + 1]; k++) {
                *out++ = (int64_t)(est_fingerprint_cat64(hash[i], x->value[i][k]) % buckets);
            }
            i--;
        } else if (at[i] < x->splits[i][r + 1]) {
            hash[i + 1] = est_fingerprint_cat64(hash[i], x->value[i][at[i]++]);
            at[i + 1]   = x->splits[i + 1][r];
            i++;
        } else {
            i--;
        }
    }
}

static void cross_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const cross   *x      = arg;
    int64_t       *out    = x->call->out[0].data;
    const int64_t *splits = x->call->out[1].data;

    (void)block;
    for (int64_t r = begin; r < end; r++) {
        if (splits[r + 1] > splits[r]) cross_row(x, r, out + splits[r], (uint64_t)x->call->param[0].i);
    }
}

static est_status cross_cpu(est_call *c)
{
    int       n    = n_inputs(c);
    int64_t   rows = c->out[1].count - 1, strings = 0, ways;
    int64_t  *splits = c->out[1].data;
    uint64_t *prints = c->scratch;
    cross     x      = { .call = c, .n = n };

    for (int i = 0; i < n; i++) {
        const est_view *values = c->in[VALUES(i)];

        x.splits[i] = c->in[SPLITS(i)]->data;
        x.value[i]  = values->data;
        if (values->dtype != EST_STRING || values->count == 0) continue; /* without strings there is no scratch */
        x.value[i] = prints + strings;
        strings += values->count;
    }
    splits[0] = 0;
    for (int64_t r = 0; r < rows; r++) {
        (void)row_ways(c, r, &ways); /* measure() has seen that it fits */
        splits[r + 1] = splits[r] + ways;
    }
    est_parallel_for(c->pool, strings, 8, 20.0, fingerprint_range, &x);
    est_parallel_for(c->pool, rows, 1, 10.0 + 8.0 * (double)c->out[0].count / (double)(rows > 0 ? rows : 1),
                     cross_range, &x);
    return EST_OK;
}

const est_op est_op_ragged_cross = {
    .name      = "RaggedCross",
    .signature = "ragged_values: ragged_values_types, ragged_row_splits: ragged_splits_types -> "
                 "output_values: out_values_type, output_row_splits: out_row_splits_type; "
                 "num_buckets: int; hash_key: int; hashed_output: bool; input_order: string; "
                 "ragged_values_types: types{int64, string}; ragged_splits_types: types{int64}; "
                 "out_values_type: {int64}; out_row_splits_type: {int64}; Nsparse: int; "
                 "sparse_values_types: types; dense_types: types",
    .infer     = cross_infer,
    .cpu       = EST_KERNELS(
              { .run = cross_cpu, .scratch = cross_scratch, .prepare = cross_prepare, .measure = cross_measure }),
};

/* --- SparseCross -------------------------------------------------------------------------------------------------- */

/* Inputs: indices, values and sizes of n sparse tensors, then matrices. Made by measure() of what they hold. */
typedef struct sparse_state {
    int       n, n_sparse;
    int64_t   rows;
    uint64_t *values; /* of all inputs, one after the other */
    int64_t  *splits; /* [n][rows + 1] */
    size_t    values_max, splits_max;
} sparse_state;

static est_status sparse_infer(est_infer *c)
{
    const est_node_def *node = c->node;
    int                 n = est_node_ints(node, "sparse_types").n, all = n + est_node_ints(node, "dense_types").n;

    if (!est_node_bool(node, "hashed_output")) return est_fail(EST_UNIMPLEMENTED, "only hashed crosses are here");
    if (all < 1 || all > EST_CROSS_MAX || est_node_int(node, "N") != n) {
        return est_fail(EST_INVALID_ARGUMENT, "a cross is of 1 to %d inputs, got %d", EST_CROSS_MAX, all);
    }
    if (est_node_int(node, "num_buckets") < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "num_buckets is %" PRId64, est_node_int(node, "num_buckets"));
    }
    for (int i = 0; i < n; i++) {
        EST_TRY(est_infer_rank(c, i, 2));
        EST_TRY(est_infer_rank(c, n + i, 1));
        EST_TRY(est_infer_rank(c, 2 * n + i, 1));
    }
    for (int i = 3 * n; i < c->n_in; i++) EST_TRY(est_infer_rank(c, i, 2));
    c->out[0] = EST_SHAPE(-1, 2);
    c->out[1] = EST_SHAPE(-1);
    c->out[2] = EST_SHAPE(2);
    return EST_OK;
}

static void sparse_release(est_call *c)
{
    sparse_state *state = c->state;

    if (state == NULL) return;
    est_free(state->values);
    est_free(state->splits);
    est_free(state);
    c->state = NULL;
}

static est_status reserve(void *array, size_t *max, size_t n, size_t size)
{
    void **at = array, *grown;

    if (n <= *max && *at != NULL) return EST_OK;
    grown = est_realloc(*at, (n + n / 2 + 1) * size);
    if (grown == NULL) return est_no_memory();
    *at  = grown;
    *max = n + n / 2 + 1;
    return EST_OK;
}

/* The values of input i. */
static const est_view *values_in(const est_call *c, int i)
{
    int n = ((const sparse_state *)c->state)->n_sparse;

    return i < n ? c->in[n + i] : c->in[3 * n + i - n];
}

/* Rows of a sparse matrix, which are in order, as splits. */
static est_status split_rows(const est_view *indices, const est_view *sizes, int64_t count, int64_t rows,
                             int64_t *splits)
{
    const int64_t *at = indices->data;
    int64_t        k  = 0;

    if (indices->shape.dim[1] != 2 || sizes->count != 2 || indices->shape.dim[0] != count ||
        ((const int64_t *)sizes->data)[0] != rows) {
        return est_fail(EST_INVALID_ARGUMENT, "inputs of a cross are matrices of as many rows");
    }
    splits[0] = 0;
    for (int64_t r = 0; r < rows; r++) {
        while (k < count && at[2 * k] == r) k++;
        splits[r + 1] = k;
    }
    if (k == count) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "value %" PRId64 " of a cross is in row %" PRId64 ", which is out of order",
                    k, at[2 * k]);
}

static est_status read_inputs(const est_call *c, sparse_state *s)
{
    int       n      = s->n_sparse;
    uint64_t *values = s->values;

    for (int i = 0; i < s->n; i++) {
        const est_view *view   = values_in(c, i);
        int64_t        *splits = s->splits + i * (s->rows + 1);

        for (int64_t k = 0; k < view->count; k++) {
            const est_str *text = (const est_str *)view->data + k;

            values[k] = view->dtype == EST_STRING ? est_fingerprint64(text->data, text->size)
                                                  : ((const uint64_t *)view->data)[k];
        }
        values += view->count;
        if (i < n) {
            EST_TRY(split_rows(c->in[i], c->in[2 * n + i], view->count, s->rows, splits));
            continue;
        }
        if (view->shape.dim[0] != s->rows) return est_fail(EST_INVALID_ARGUMENT, "inputs of a cross differ in rows");
        for (int64_t r = 0; r <= s->rows; r++) splits[r] = r * view->shape.dim[1];
    }
    return EST_OK;
}

static cross sparse_cross(est_call *c)
{
    const sparse_state *s      = c->state;
    cross               x      = { .call = c, .n = s->n };
    const uint64_t     *values = s->values;

    for (int i = 0; i < s->n; i++) {
        x.value[i]  = values;
        x.splits[i] = s->splits + i * (s->rows + 1);
        values += values_in(c, i)->count;
    }
    return x;
}

/* As row_ways(), of splits. */
static bool cross_ways(const cross *x, int64_t r, int64_t *out)
{
    bool fits = true;

    *out = 1;
    for (int i = 0; i < x->n; i++) {
        int64_t length = x->splits[i][r + 1] - x->splits[i][r];

        if (length == 0) {
            *out = 0;
            return true;
        }
        fits = fits && !__builtin_mul_overflow(*out, length, out);
    }
    return fits;
}

static est_status sparse_measure(est_call *c)
{
    sparse_state *s      = c->state;
    size_t        values = 0;
    int64_t       total  = 0, ways;
    cross         x;

    if (s == NULL) c->state = s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    s->n_sparse = est_node_ints(c->node, "sparse_types").n;
    s->n        = c->n_in - 2 * s->n_sparse;
    s->rows     = 0;
    if (s->n_sparse == 0) {
        s->rows = c->in[0]->shape.dim[0];
    } else if (c->in[2 * s->n_sparse]->count > 0) {
        s->rows = ((const int64_t *)c->in[2 * s->n_sparse]->data)[0];
    }
    for (int i = 0; i < s->n; i++) values += (size_t)values_in(c, i)->count;
    if (s->rows < 0 || s->rows > INT32_MAX)
        return est_fail(EST_INVALID_ARGUMENT, "a cross of %" PRId64 " rows", s->rows);
    EST_TRY(reserve(&s->values, &s->values_max, values, sizeof *s->values));
    EST_TRY(reserve(&s->splits, &s->splits_max, (size_t)s->n * (size_t)(s->rows + 1), sizeof *s->splits));
    EST_TRY(read_inputs(c, s));
    x = sparse_cross(c);
    for (int64_t r = 0; r < s->rows; r++) {
        if (!cross_ways(&x, r, &ways) || __builtin_add_overflow(total, ways, &total)) {
            return est_fail(EST_RESOURCE_EXHAUSTED, "row %" PRId64 " of a cross has too many values", r);
        }
    }
    c->out[0].shape = EST_SHAPE(total, 2);
    c->out[0].count = 2 * total;
    c->out[1].shape = EST_SHAPE(total);
    c->out[1].count = total;
    return EST_OK;
}

static est_status sparse_cpu(est_call *c)
{
    const sparse_state *s       = c->state;
    cross               x       = sparse_cross(c);
    int64_t            *indices = c->out[0].data, *out = c->out[1].data, *sizes = c->out[2].data, ways;

    sizes[0] = s->rows;
    sizes[1] = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        (void)cross_ways(&x, r, &ways); /* measure() has seen that it fits */
        if (ways == 0) continue;
        cross_row(&x, r, out, (uint64_t)c->param[0].i);
        out += ways;
        for (int64_t k = 0; k < ways; k++) {
            *indices++ = r;
            *indices++ = k;
        }
        if (ways > sizes[1]) sizes[1] = ways;
    }
    return EST_OK;
}

const est_op est_op_sparse_cross = {
    .name      = "SparseCross",
    .signature = "indices: N*int64, values: sparse_types, shapes: N*int64, dense_inputs: dense_types -> "
                 "output_indices: int64, output_values: out_type, output_shape: int64; "
                 "N: int; hashed_output: bool; num_buckets: int; hash_key: int; sparse_types: types{int64, string}; "
                 "dense_types: types{int64, string}; out_type: {int64}; internal_type: {int64, string}",
    .infer     = sparse_infer,
    .cpu       = EST_KERNELS(
              { .run = sparse_cpu, .prepare = cross_prepare, .measure = sparse_measure, .release = sparse_release }),
};

est_ragged_node est_ragged_cross(est_ragged_nodes inputs, int64_t n_buckets, uint64_t hash_key)
{
    int        n = inputs.n;
    est_node   in[2 * EST_CROSS_MAX], values;
    int64_t    types[EST_CROSS_MAX], splits[EST_CROSS_MAX];
    char       order[EST_CROSS_MAX + 1] = { 0 };
    est_graph *graph                    = n > 0 && inputs.data != NULL ? inputs.data[0].values.graph : NULL;

    if (graph == NULL) return (est_ragged_node){ 0 };
    if (est_graph_poisoned(graph)) return inputs.data[0];
    if (n > EST_CROSS_MAX) {
        values = est_graph_poison(
            graph, est_fail(EST_INVALID_ARGUMENT, "a cross is of 1 to %d inputs, got %d", EST_CROSS_MAX, n));
        return (est_ragged_node){ values, values };
    }
    for (int i = 0; i < n; i++) {
        in[VALUES(i)] = inputs.data[i].values;
        in[SPLITS(i)] = inputs.data[i].splits;
        types[i]      = est_def(inputs.data[i].values) != NULL ? est_node_dtype(inputs.data[i].values) : EST_I64;
        splits[i]     = EST_I64;
        order[i]      = 'R';
    }
    values = est_build(graph, &est_op_ragged_cross, (est_nodes){ in, 2 * n },
                       EST_ATTRS(est_attr_int("Nsparse", 0), est_attr_bool("hashed_output", true),
                                 est_attr_string("input_order", order), est_attr_int("num_buckets", n_buckets),
                                 est_attr_int("hash_key", (int64_t)(hash_key != 0 ? hash_key : EST_CROSS_HASH_KEY)),
                                 est_attr_types("ragged_values_types", (est_i64s){ types, n }),
                                 est_attr_types("ragged_splits_types", (est_i64s){ splits, n }),
                                 est_attr_types("sparse_values_types", (est_i64s){ 0 }),
                                 est_attr_types("dense_types", (est_i64s){ 0 }),
                                 est_attr_type("out_values_type", EST_I64),
                                 est_attr_type("out_row_splits_type", EST_I64)));
    return (est_ragged_node){ values, est_output(values, 1) };
}
