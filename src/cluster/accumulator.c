/* SPDX-License-Identifier: Apache-2.0
 *
 * Accumulates gradients pushed by several workers (see accumulator.h). */
#include "cluster/accumulator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernels/distinct.h"
#include "tensor/shape.h"

typedef enum kind {
    LAST = 0, /* of the last worker */
    SUM,      /* all of the same shape */
    ROWS,     /* the values of a sparse gradient */
    INDICES,  /* and its indices */
    KEYS      /* all of them, worker by worker */
} kind;

/* The keys of one worker. */
typedef struct piece {
    uint64_t who;
    size_t   begin, size;
} piece;

/* One input of the segment. */
typedef struct slot {
    kind        kind;
    int         indices; /* ROWS: the input that has its indices */
    est_dtype   dtype;
    est_shape   shape; /* ROWS, INDICES: of all so far */
    char       *bytes; /* the sum, or the concatenated rows */
    size_t      size, capacity;
    piece      *pieces; /* KEYS: [count of the accumulator] */
    int         max_pieces;
    est_tensor *mean;
} slot;

struct est_accumulator {
    slot              *slots;
    int                n, count;
    bool               is_mean; /* sums were divided by count */
    const est_tensor **feeds;
};

/* --- what each input is ------------------------------------------------------------------------------------------- */

/* The input of the segment that feeds input `to` of a node; -1: none does. `to` 0, a variable, stands for none. */
static int feed_of(const est_host *host, int segment, const est_node_def *def, int to)
{
    for (int i = 0; i < est_host_inputs(host, segment) && to != 0; i++) {
        if (est_host_input(host, segment, i).id == def->in[to].node) return i;
    }
    return -1;
}

static void look_at_node(est_accumulator *c, const est_host *host, int segment, const est_node_def *def)
{
    int gradient, indices, keys;

    if (def->op->writes == 0) return;
    gradient = feed_of(host, segment, def, def->op->update->gradient);
    indices  = feed_of(host, segment, def, def->op->update->indices);
    keys     = feed_of(host, segment, def, def->op->update->keys);
    if (keys >= 0) c->slots[keys].kind = KEYS;
    if (gradient < 0) return;
    c->slots[gradient].kind = indices >= 0 ? ROWS : SUM;
    if (indices < 0) return;
    c->slots[gradient].indices = indices;
    c->slots[indices].kind     = INDICES;
}

est_status est_accumulator_create(const est_host *host, int segment, est_accumulator **out)
{
    const est_graph *graph = est_host_graph(host, segment);
    est_accumulator *c     = est_zalloc(sizeof *c);
    est_status       status;

    if (c == NULL) return est_no_memory();
    c->n     = est_host_inputs(host, segment);
    c->slots = est_zalloc(sizeof *c->slots * ((size_t)c->n + 1));
    c->feeds = est_zalloc(sizeof(est_tensor *) * ((size_t)c->n + 1));
    status   = c->slots != NULL && c->feeds != NULL ? EST_OK : est_no_memory();
    for (int32_t id = 0; id < est_graph_size(graph) && status == EST_OK; id++) {
        look_at_node(c, host, segment, est_graph_node(graph, id));
    }
    if (status != EST_OK) {
        est_accumulator_free(c);
        return status;
    }
    *out = c;
    return EST_OK;
}

void est_accumulator_free(est_accumulator *c)
{
    if (c == NULL) return;
    for (int i = 0; i < c->n && c->slots != NULL; i++) {
        est_free(c->slots[i].bytes);
        est_free(c->slots[i].pieces);
        est_tensor_free(c->slots[i].mean);
    }
    est_free(c->slots);
    est_free(c->feeds);
    est_free(c);
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

/* Whether the inputs of workers are concatenated. */
static bool is_list(const slot *s)
{
    return s->kind == ROWS || s->kind == INDICES || s->kind == KEYS;
}

/* The checks that do not depend on earlier inputs. */
static est_status check_alone(const est_accumulator *c, int i, const est_view *inputs)
{
    const slot     *s    = &c->slots[i];
    const est_view *view = &inputs[i];
    char            have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

    if (view->dtype == EST_STRING)
        return est_fail(EST_INVALID_ARGUMENT,
                        "input %d of an update is a string tensor; only numbers can be accumulated", i);
    if ((s->kind == INDICES || s->kind == KEYS) &&
        (view->shape.rank != 1 || (view->dtype != EST_I32 && view->dtype != EST_I64))) {
        return est_fail(EST_INVALID_ARGUMENT, "input %d of an update is %s %s instead of a list of integers", i,
                        est_dtype_name(view->dtype), est_shape_text(&view->shape, have));
    }
    if (s->kind != ROWS) return EST_OK;
    if (view->dtype != EST_F32 && view->dtype != EST_F64) {
        return est_fail(EST_UNIMPLEMENTED,
                        "input %d of an update has rows of %s; only rows of floating-point numbers can be summed", i,
                        est_dtype_name(view->dtype));
    }
    if (view->shape.rank > 0 && view->shape.dim[0] == inputs[s->indices].shape.dim[0]) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "input %d of an update has the shape %s but indices of shape %s; expected one row per index", i,
                    est_shape_text(&view->shape, have), est_shape_text(&inputs[s->indices].shape, want));
}

static est_status check_input(const est_accumulator *c, int i, const est_view *inputs)
{
    const slot     *s    = &c->slots[i];
    const est_view *view = &inputs[i];
    est_shape       rest;
    char            have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

    EST_TRY(check_alone(c, i, inputs));
    if (c->count == 0 || s->kind == LAST) return EST_OK;
    rest = s->shape;
    if (is_list(s)) rest.dim[0] = view->shape.dim[0];
    if (view->dtype == s->dtype && est_shape_equal(&rest, &view->shape)) return EST_OK;
    return est_fail(
        EST_INVALID_ARGUMENT,
        "input %d of an update is %s %s, but another worker pushed %s %s: all workers must run the same program", i,
        est_dtype_name(view->dtype), est_shape_text(&view->shape, have), est_dtype_name(s->dtype),
        est_shape_text(&s->shape, want));
}

static est_status reserve(slot *s, size_t size)
{
    char *more;

    if (size <= s->capacity) return EST_OK;
    more = est_realloc(s->bytes, size + size / 2);
    if (more == NULL) return est_no_memory();
    s->bytes    = more;
    s->capacity = size + size / 2;
    return EST_OK;
}

static est_status reserve_piece(slot *s, int count)
{
    int    max = s->max_pieces == 0 ? 16 : 2 * s->max_pieces;
    piece *more;

    if (s->kind != KEYS || count < s->max_pieces) return EST_OK;
    more = est_realloc(s->pieces, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    s->pieces     = more;
    s->max_pieces = max;
    return EST_OK;
}

static void add_numbers(slot *s, const est_view *view)
{
    if (view->dtype == EST_F32) {
        float       *sum = (float *)(void *)s->bytes;
        const float *x   = view->data;

        for (int64_t i = 0; i < view->count; i++) sum[i] += x[i];
    } else if (view->dtype == EST_F64) {
        double       *sum = (double *)(void *)s->bytes;
        const double *x   = view->data;

        for (int64_t i = 0; i < view->count; i++) sum[i] += x[i];
    } else {
        if (s->size > 0) memcpy(s->bytes, view->data, s->size); /* counts: all workers add the same */
    }
}

static void add_input(slot *s, const est_view *view, bool first)
{
    size_t size = (size_t)view->count * est_dtype_size(view->dtype);

    if (is_list(s) && !first) {
        if (size > 0) memcpy(s->bytes + s->size, view->data, size);
        s->size += size;
        s->shape.dim[0] += view->shape.dim[0];
    } else if (s->kind == SUM && !first) {
        add_numbers(s, view);
    } else {
        if (size > 0) memcpy(s->bytes, view->data, size);
        s->dtype = view->dtype;
        s->shape = view->shape;
        s->size  = size;
    }
}

est_status est_accumulator_add(est_accumulator *c, uint64_t who, const est_view *inputs, int n)
{
    if (n != c->n) return est_fail(EST_INVALID_ARGUMENT, "an update takes %d tensors, got %d", c->n, n);
    if (c->is_mean) return EST_OK;
    for (int i = 0; i < n; i++) {
        size_t size = (size_t)inputs[i].count * est_dtype_size(inputs[i].dtype);

        EST_TRY(check_input(c, i, inputs));
        EST_TRY(reserve(&c->slots[i], is_list(&c->slots[i]) && c->count > 0 ? c->slots[i].size + size : size));
        EST_TRY(reserve_piece(&c->slots[i], c->count));
    }
    for (int i = 0; i < n; i++) {
        slot  *s      = &c->slots[i];
        size_t before = c->count > 0 ? s->size : 0;

        add_input(s, &inputs[i], c->count == 0);
        if (s->kind == KEYS) s->pieces[c->count] = (piece){ who, before, s->size - before };
    }
    c->count++;
    return EST_OK;
}

int est_accumulator_count(const est_accumulator *c)
{
    return c->count;
}

void est_accumulator_reset(est_accumulator *c)
{
    c->count   = 0;
    c->is_mean = false;
}

/* --- the mean ----------------------------------------------------------------------------------------------------- */

static void divide(void *data, est_dtype dtype, int64_t n, int count)
{
    if (dtype == EST_F32) {
        for (int64_t i = 0; i < n; i++) ((float *)data)[i] /= (float)count;
    } else if (dtype == EST_F64) {
        for (int64_t i = 0; i < n; i++) ((double *)data)[i] /= (double)count;
    }
}

static void add_row(void *to, const void *from, est_dtype dtype, int64_t width)
{
    if (dtype == EST_F32) {
        for (int64_t j = 0; j < width; j++) ((float *)to)[j] += ((const float *)from)[j];
    } else {
        for (int64_t j = 0; j < width; j++) ((double *)to)[j] += ((const double *)from)[j];
    }
}

/* Adds row i to row place[i]. New places are numbered in order of appearance, so a sum never overwrites a later row. */
static void sum_rows(slot *values, const int32_t *place, int64_t n, int32_t found)
{
    size_t  row  = n > 0 ? values->size / (size_t)n : 0;
    int32_t next = 0;

    for (int64_t i = 0; i < n; i++) {
        char *to = values->bytes + (size_t)place[i] * row, *from = values->bytes + (size_t)i * row;

        if (place[i] != next) {
            add_row(to, from, values->dtype, (int64_t)(row / est_dtype_size(values->dtype)));
        } else {
            if (to != from) memmove(to, from, row);
            next++;
        }
    }
    values->shape.dim[0] = found;
    values->size         = (size_t)found * row;
}

/* Makes indices unique, as sparse updates need them, and sums the rows of equal indices in all inputs that have these
 * indices. */
static est_status sum_equal(est_accumulator *c, int at)
{
    slot    *indices = &c->slots[at];
    int64_t  n       = indices->shape.dim[0];
    size_t   index   = est_dtype_size(indices->dtype);
    int32_t *place, found;
    char    *unique;

    if (n == 0) return EST_OK;
    place  = n <= EST_DISTINCT_MAX ? est_alloc((size_t)n * sizeof *place + est_distinct_table_bytes(n)) : NULL;
    unique = est_alloc((size_t)n * index);
    if (place == NULL || unique == NULL) {
        est_free(place);
        est_free(unique);
        return est_no_memory();
    }
    found = est_distinct(indices->bytes, indices->dtype == EST_I64, n, unique, place, place + n);
    for (int i = 0; i < c->n; i++) {
        if (c->slots[i].kind == ROWS && c->slots[i].indices == at) sum_rows(&c->slots[i], place, n, found);
    }
    memcpy(indices->bytes, unique, (size_t)found * index);
    indices->shape.dim[0] = found;
    indices->size         = (size_t)found * index;
    est_free(place);
    est_free(unique);
    return EST_OK;
}

static int by_worker(const void *a, const void *b)
{
    const piece *x = a, *y = b;

    return (x->who > y->who) - (x->who < y->who);
}

static est_status order_keys(slot *s, int count)
{
    char  *ordered = est_alloc(s->size + 1);
    size_t at      = 0;

    if (ordered == NULL) return est_no_memory();
    qsort(s->pieces, (size_t)count, sizeof *s->pieces, by_worker);
    for (int i = 0; i < count; i++) {
        if (s->pieces[i].size > 0) memcpy(ordered + at, s->bytes + s->pieces[i].begin, s->pieces[i].size);
        s->pieces[i].begin = at;
        at += s->pieces[i].size;
    }
    est_free(s->bytes);
    s->bytes    = ordered;
    s->capacity = s->size + 1;
    return EST_OK;
}

/* Can be repeated after a failure: summing rows and ordering keys are idempotent, and the division comes last. */
static est_status take_mean(est_accumulator *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->slots[i].kind == INDICES) EST_TRY(sum_equal(c, i));
        if (c->slots[i].kind == KEYS) EST_TRY(order_keys(&c->slots[i], c->count));
    }
    for (int i = 0; i < c->n; i++) {
        slot *s = &c->slots[i];

        est_tensor_free(s->mean);
        s->mean = NULL;
        EST_TRY(est_tensor_wrap(s->dtype, s->shape, s->bytes, NULL, NULL, &s->mean));
        c->feeds[i] = s->mean;
    }
    for (int i = 0; i < c->n; i++) {
        slot *s = &c->slots[i];

        if (s->kind != SUM && s->kind != ROWS) continue;
        divide(s->bytes, s->dtype, (int64_t)(s->size / est_dtype_size(s->dtype)), c->count);
    }
    c->is_mean = true;
    return EST_OK;
}

est_status est_accumulator_mean(est_accumulator *c, const est_tensor *const **out)
{
    if (!c->is_mean) EST_TRY(take_mean(c));
    *out = c->feeds;
    return EST_OK;
}
