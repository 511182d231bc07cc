/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of the exchange: packs are filled, begun, and awaited at the end.
 *
 * A pack is a copy: values times weights, then the weights, so that a mean needs one all-reduce, then a 1 if the worker
 * is not idle, and a 1 if it requests a stop. The results stay there: a reduced value is read from the pack, where it
 * begins at a multiple of ALIGNMENT. */
#include "runtime/exchange.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/parallel.h"
#include "tensor/shape.h"

#define ALIGNMENT 64
#define N_FLAGS   2 /* numbers behind the weights */

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* out = in * factor; 0 if the factor is 0, even for a NaN. */
typedef struct scaling {
    const void *in;
    void       *out;
    double      factor;
    est_dtype   dtype;
} scaling;

static void scale_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const scaling *s = arg;

    (void)block;
    if (s->factor == 0) {
        size_t size = est_dtype_size(s->dtype);

        memset((char *)s->out + (size_t)begin * size, 0, (size_t)(end - begin) * size);
    } else if (s->dtype == EST_F32) {
        const float *in  = s->in;
        float       *out = s->out, factor = (float)s->factor;

        for (int64_t i = begin; i < end; i++) out[i] = in[i] * factor;
    } else if (s->dtype == EST_F64) {
        const double *in  = s->in;
        double       *out = s->out;

        for (int64_t i = begin; i < end; i++) out[i] = in[i] * s->factor;
    } else {
        memcpy((int64_t *)s->out + begin, (const int64_t *)s->in + begin, (size_t)(end - begin) * sizeof(int64_t));
    }
}

/* out /= factor. */
static void divide_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const scaling *s = arg;

    (void)block;
    if (s->dtype == EST_F32) {
        float *out = s->out, by = (float)s->factor;

        for (int64_t i = begin; i < end; i++) out[i] /= by;
    } else {
        double *out = s->out;

        for (int64_t i = begin; i < end; i++) out[i] /= s->factor;
    }
}

static void scale(est_pool *pool, const void *in, void *out, int64_t count, est_dtype dtype, double factor)
{
    scaling s = { in, out, factor, dtype };

    if (count > 0) est_parallel_for(pool, count, 16, 0.5, scale_range, &s);
}

/* Divides in place by a total weight; 1: a sum, 0: a mean of nothing, both stay as they are. */
static void unscale(est_pool *pool, void *data, int64_t count, est_dtype dtype, double by)
{
    scaling s = { .out = data, .factor = by, .dtype = dtype };

    if (count > 0 && by != 0 && by != 1) est_parallel_for(pool, count, 16, 1.0, divide_range, &s);
}

/* The factor of a value before the sum. */
static double factor_of(bool mean, float weight)
{
    return mean ? (double)weight : weight != 0;
}

/* Grows the buffer to `bytes`; growing loses its content. */
static est_status reserve(void **buffer, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity) return EST_OK;
    est_free_aligned(*buffer);
    *buffer   = est_alloc_aligned(bytes);
    *capacity = *buffer != NULL ? bytes : 0;
    return *buffer != NULL ? EST_OK : est_no_memory();
}

/* A failure of an operation is seen by all workers. */
static est_status known_to_all(est_exchange *x, est_status status)
{
    if (status != EST_OK) x->known = true;
    return status;
}

/* --- packs -------------------------------------------------------------------------------------------------------- */

/* Elements of a value in a pack, including padding. */
static size_t padded(int64_t count, est_dtype dtype)
{
    size_t each = ALIGNMENT / est_dtype_size(dtype);

    return ((size_t)count + each - 1) / each * each;
}

static est_status pack_prepare(est_call *c)
{
    est_pack_exchange *p     = c->state;
    size_t             count = (size_t)p->n_weights + N_FLAGS;

    for (int i = 0; i < p->n_values; i++) count += padded(c->in[i]->count, p->dtype);
    return reserve(&p->buffer, &p->capacity, count * est_dtype_size(p->dtype));
}

static float weight_in(const est_call *c, const est_pack_exchange *p, int i)
{
    return *(const float *)c->in[p->n_values + i]->data;
}

static void put_number(const est_pack_exchange *p, size_t at, double value)
{
    if (p->dtype == EST_F32) ((float *)p->buffer)[at] = (float)value;
    if (p->dtype == EST_F64) ((double *)p->buffer)[at] = value;
    if (p->dtype == EST_I64) ((int64_t *)p->buffer)[at] = value != 0;
}

static double number_at(const est_pack_exchange *p, size_t at)
{
    if (p->dtype == EST_F32) return (double)((const float *)p->buffer)[at];
    return p->dtype == EST_F64 ? ((const double *)p->buffer)[at] : (double)((const int64_t *)p->buffer)[at];
}

static est_status pack_begin(est_call *c)
{
    est_pack_exchange *p    = c->state;
    size_t             size = est_dtype_size(p->dtype), at = 0;

    EST_TRY(pack_prepare(c)); /* for shapes that are known only now */
    for (int i = 0; i < p->n_values; i++) {
        size_t count = (size_t)c->in[i]->count, next = at + padded(c->in[i]->count, p->dtype);

        scale(c->pool, c->in[i]->data, (char *)p->buffer + at * size, c->in[i]->count, p->dtype,
              factor_of(p->mean[i], weight_in(c, p, p->weight[i])));
        memset((char *)p->buffer + (at + count) * size, 0, (next - at - count) * size);
        at = next;
    }
    for (int i = 0; i < p->n_weights; i++) put_number(p, at++, (double)weight_in(c, p, i));
    put_number(p, at++, !p->in->communicator->idle);
    put_number(p, at++, p->in->communicator->stop);
    p->count = at;
    return known_to_all(p->in,
                        p->in->communicator->ops->sum(p->in->communicator, p->buffer, p->count, p->dtype, &p->work));
}

static est_status pack_wait(est_pack_exchange *p)
{
    est_comm_work *work = p->work;
    size_t         at   = p->count - (size_t)p->n_weights - N_FLAGS;

    p->work = NULL;
    EST_TRY(known_to_all(p->in, p->in->communicator->ops->wait(p->in->communicator, work)));
    for (int i = 0; i < p->n_weights; i++) p->totals[i] = number_at(p, at++);
    p->busy  = number_at(p, at++);
    p->stops = number_at(p, at);
    return EST_OK;
}

/* Whether any worker had an example. */
static bool has_weight(const est_exchange *x, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        for (int w = 0; w < x->packs[i].n_weights; w++) {
            if (x->packs[i].totals[w] != 0) return true;
        }
    }
    return false;
}

static est_status packs_end(est_call *c)
{
    const est_level  *l            = c->state;
    est_communicator *communicator = l->in->communicator;
    int               out          = 0;

    for (int i = l->first; i < l->first + l->n; i++) EST_TRY(pack_wait(&l->in->packs[i]));
    communicator->ended   = l->in->packs[l->first].busy == 0;
    communicator->empty   = !communicator->ended && !has_weight(l->in, l->first, l->n);
    communicator->stopped = l->in->packs[l->first].stops > 0;
    if (communicator->ended) {
        communicator->idle = false; /* later steps, such as those that read metrics, are none of that input */
        return known_to_all(l->in, est_fail(EST_OUT_OF_RANGE, "no worker has another example"));
    }
    if (communicator->empty)
        return known_to_all(l->in, est_fail(EST_OUT_OF_RANGE, "no worker has an example for this step"));
    for (int i = l->first; i < l->first + l->n; i++) {
        const est_pack_exchange *p  = &l->in->packs[i];
        char                    *at = p->buffer;

        for (int v = 0; v < p->n_values; v++, out++) {
            est_view *value = &c->out[out];

            unscale(c->pool, at, value->count, p->dtype, p->mean[v] ? p->totals[p->weight[v]] : 1);
            value->data = at;
            at += padded(value->count, p->dtype) * est_dtype_size(p->dtype);
        }
    }
    return EST_OK;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static est_status reserve_indices(const est_call *c, est_rows_pack *p)
{
    size_t count = 0;

    for (int i = 0; i < p->n; i++) {
        if (c->in[i]->dtype == EST_I32) count += (size_t)c->in[i]->count;
    }
    return reserve((void **)&p->indices, &p->capacity, count * sizeof *p->indices);
}

/* Indices as int64: as they are, or widened into *to, which is advanced. */
static const int64_t *wide_indices(const est_view *indices, int64_t **to)
{
    int64_t *out = *to;

    if (indices->dtype == EST_I64) return indices->data;
    for (int64_t i = 0; i < indices->count; i++) out[i] = ((const int32_t *)indices->data)[i];
    *to += indices->count;
    return out;
}

/* Indices of all tables, then values, then weights. */
static est_status rows_begin(est_call *c)
{
    est_rows_pack *p = c->state;
    int64_t       *wide;

    p->ended = false;
    EST_TRY(reserve_indices(c, p));
    wide = p->indices;
    for (int i = 0; i < p->n; i++) {
        const est_view *values = c->in[p->n + i];
        float           weight = *(const float *)c->in[2 * p->n + i]->data;
        est_comm_rows  *mine   = &p->mine[i];

        mine->indices   = wide_indices(c->in[i], &wide);
        mine->values    = values->data;
        mine->n         = weight != 0 ? c->in[i]->count : 0;
        mine->factor    = factor_of(p->in->rows[p->first + i].mean, weight);
        mine->dtype     = values->dtype;
        mine->row_count = 1;
        for (int k = 1; k < values->shape.rank; k++) mine->row_count *= (size_t)values->shape.dim[k];
    }
    return known_to_all(p->in, p->in->communicator->ops->rows(p->in->communicator, p->slot, p->mine, p->n, &p->work));
}

static est_status rows_wait(est_rows_pack *p)
{
    est_comm_work *work = p->work;

    if (p->ended) return EST_OK;
    p->work = NULL;
    EST_TRY(known_to_all(p->in, p->in->communicator->ops->wait_rows(p->in->communicator, work, p->all)));
    p->ended = true;
    return EST_OK;
}

/* The rows of a table of all workers. */
static est_status rows_of_all(const est_rows_exchange *r, const est_comm_rows **out)
{
    est_rows_pack *p = &r->in->row_packs[r->pack];

    EST_TRY(rows_wait(p));
    *out = &p->all[r->at];
    return EST_OK;
}

static est_status rows_measure(est_call *c)
{
    const est_comm_rows *all;

    EST_TRY(rows_of_all(c->state, &all));
    c->out[0].shape        = EST_SHAPE(all->n);
    c->out[0].count        = all->n;
    c->out[1].shape        = c->in[1]->shape;
    c->out[1].shape.dim[0] = all->n;
    c->out[1].count        = est_shape_count(&c->out[1].shape);
    return EST_OK;
}

static est_status rows_end(est_call *c)
{
    const est_rows_exchange *r = c->state;
    const est_comm_rows     *all;

    EST_TRY(rows_of_all(r, &all));
    c->out[0].data = (void *)(uintptr_t)all->indices; /* both are writable */
    c->out[1].data = (void *)(uintptr_t)all->values;
    if (c->out[0].dtype == EST_I32) {
        for (int64_t i = 0; i < all->n; i++) {
            int32_t index = (int32_t)all->indices[i]; /* which is at or behind the result */

            memcpy((char *)c->out[0].data + (size_t)i * sizeof index, &index, sizeof index);
        }
    }
    unscale(c->pool, c->out[1].data, c->out[1].count, c->out[1].dtype,
            r->mean ? r->in->packs[r->weight.pack].totals[r->weight.at] : 1);
    return EST_OK;
}

/* --- gather ------------------------------------------------------------------------------------------------------- */

/* The head of a worker's rows. */
typedef struct rows_head {
    int64_t dtype, rank, dim[EST_RANK_MAX];
} rows_head;

static rows_head head_of(const est_view *in)
{
    rows_head head = { .dtype = in->dtype, .rank = in->shape.rank };

    for (int i = 0; i < in->shape.rank; i++) head.dim[i] = in->shape.dim[i];
    return head;
}

static est_status gather_begin(est_call *c)
{
    est_gathering  *g     = c->state;
    const est_view *in    = c->in[0];
    rows_head       head  = head_of(in);
    size_t          bytes = (size_t)in->count * est_dtype_size(in->dtype);

    g->ended = false;
    EST_TRY(reserve(&g->block, &g->capacity, sizeof head + bytes));
    memcpy(g->block, &head, sizeof head);
    if (bytes > 0) memcpy((uint8_t *)g->block + sizeof head, in->data, bytes);
    return known_to_all(
        g->in, g->in->communicator->ops->gather(g->in->communicator, g->slot, g->block, sizeof head + bytes, &g->work));
}

static est_status gather_wait(est_gathering *g)
{
    est_comm_work *work = g->work;

    if (g->ended) return EST_OK;
    g->work = NULL;
    EST_TRY(
        known_to_all(g->in, g->in->communicator->ops->wait_gather(g->in->communicator, work, &g->data, &g->begins)));
    g->ended = true;
    return EST_OK;
}

static est_status fail_rows(const rows_head *a, int rank_a, const rows_head *b, int rank_b)
{
    const rows_head *heads[] = { a, b };
    char             text[2][EST_SHAPE_TEXT_MAX];

    for (int k = 0; k < 2; k++) {
        est_shape shape = { .rank = heads[k]->rank >= 0 && heads[k]->rank <= EST_RANK_MAX ? (int)heads[k]->rank : 0 };

        for (int i = 0; i < shape.rank; i++) shape.dim[i] = i > 0 ? heads[k]->dim[i] : -1;
        est_shape_text(&shape, text[k]);
    }
    return est_fail(EST_INVALID_ARGUMENT,
                    "rows of %s %s of worker %d and of %s %s of worker %d cannot be gathered: all need the same",
                    est_dtype_name((est_dtype)a->dtype), text[0], rank_a, est_dtype_name((est_dtype)b->dtype), text[1],
                    rank_b);
}

/* Bytes of a row, of which `bytes` is a multiple; 0: invalid. */
static size_t row_bytes(const rows_head *head, size_t bytes)
{
    size_t row = est_dtype_size((est_dtype)head->dtype);

    for (int i = 1; i < head->rank; i++) {
        if (head->dim[i] <= 0 || row > bytes / (size_t)head->dim[i]) return 0;
        row *= (size_t)head->dim[i];
    }
    return row > 0 && bytes % row == 0 ? row : 0; /* 0: an unknown dtype */
}

/* Adds the rows of a worker to the shape of the result. `wanted`: the head of the first worker that has rows; a worker
 * without a batch does not know their width. */
static est_status add_rows(const est_gathering *g, int worker, rows_head *wanted, int *first, est_shape *shape)
{
    size_t    bytes = g->begins[worker + 1] - g->begins[worker], row;
    rows_head head;

    if (bytes < sizeof head) return est_fail(EST_DATA_LOSS, "worker %d sent no head before its gathered rows", worker);
    memcpy(&head, (const uint8_t *)g->data + g->begins[worker], sizeof head);
    bytes -= sizeof head;
    if (worker == 0) *wanted = head;
    if (head.rank != wanted->rank || head.dtype != wanted->dtype) return fail_rows(wanted, *first, &head, worker);
    if (bytes == 0) return EST_OK;
    row = head.rank == shape->rank ? row_bytes(&head, bytes) : 0;
    if (row == 0)
        return est_fail(EST_DATA_LOSS, "worker %d sent gathered rows of invalid size: %zu bytes", worker, bytes);
    if (shape->dim[0] == 0) {
        *wanted = head;
        *first  = worker;
    }
    for (int k = 1; k < shape->rank; k++) {
        if (head.dim[k] != wanted->dim[k]) return fail_rows(wanted, *first, &head, worker);
        shape->dim[k] = head.dim[k];
    }
    shape->dim[0] += (int64_t)(bytes / row);
    return EST_OK;
}

/* The shape of the result, and the first row of this worker. All workers compute the same. */
static est_status measure_rows(est_gathering *g, const est_view *in, est_shape *shape, int64_t *begin)
{
    int       first = 0;
    rows_head wanted;

    *shape        = in->shape;
    shape->dim[0] = 0;
    for (int i = 0; i < g->in->communicator->n; i++) {
        if (i == g->in->communicator->rank) *begin = shape->dim[0];
        EST_TRY(known_to_all(g->in, add_rows(g, i, &wanted, &first, shape)));
    }
    return EST_OK;
}

static est_status gather_measure(est_call *c)
{
    est_gathering *g = c->state;
    est_shape      shape;
    int64_t        begin;

    EST_TRY(gather_wait(g));
    EST_TRY(measure_rows(g, c->in[0], &shape, &begin));
    c->out[0].shape = shape;
    c->out[0].count = est_shape_count(&shape);
    return EST_OK;
}

static est_status gather_end(est_call *c)
{
    est_gathering *g   = c->state;
    uint8_t       *out = c->out[0].data;
    est_shape      shape;

    EST_TRY(gather_wait(g));
    EST_TRY(measure_rows(g, c->in[0], &shape, c->out[1].data));
    for (int i = 0; i < g->in->communicator->n; i++) {
        size_t bytes = g->begins[i + 1] - g->begins[i] - sizeof(rows_head);

        if (bytes > 0) memcpy(out, (const uint8_t *)g->data + g->begins[i] + sizeof(rows_head), bytes);
        out += bytes;
    }
    return EST_OK;
}

/* --- the operations ----------------------------------------------------------------------------------------------- */

static est_status ends_infer(est_infer *c)
{
    est_shapes shapes = est_node_shapes(c->node, "shapes");

    for (int i = 0; i < c->n_out; i++) c->out[i] = c->building ? shapes.data[i] : c->in[i];
    return EST_OK;
}

static est_status first_unknown_infer(est_infer *c)
{
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = c->in[i];
        if (c->out[i].rank > 0) c->out[i].dim[0] = -1;
    }
    return EST_OK;
}

static est_status gathered_infer(est_infer *c)
{
    c->out[0] = c->in[0];
    if (c->out[0].rank > 0) c->out[0].dim[0] = -1;
    c->out[1] = EST_SHAPE_SCALAR;
    return EST_OK;
}

/* The inputs of an end are those of its begins: they keep their memory until then, and have the shapes. */
const est_op est_op_pack_begin = {
    .name      = "EstReduceBegin",
    .signature = "values: N*T, weights: M*float32 -> (); N: int; M: int; T: type; at: int",
    .infer     = est_infer_none,
    .cpu       = EST_KERNELS({ .run = pack_begin, .prepare = pack_prepare }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true, /* may wait, so it never shares a wave; like all of these */
};

const est_op est_op_packs_end = {
    .name      = "EstReduceEnd",
    .signature = "values: T -> reduced: T; T: types; shapes: shapes; at: int",
    .infer     = ends_infer,
    .cpu       = EST_KERNELS({ .run = packs_end }),
    .lends     = true,
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
};

const est_op est_op_rows_begin = {
    .name      = "EstRowsBegin",
    .signature = "indices: Tindices, values: T, weights: N*float32 -> (); N: int; T: types; Tindices: types; at: int",
    .infer     = est_infer_none,
    .cpu       = EST_KERNELS({ .run = rows_begin }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
};

const est_op est_op_rows_end = {
    .name      = "EstRowsEnd",
    .signature = "indices: Tindices, values: T -> all_indices: Tindices, all_values: T; T: type; Tindices: type; "
                 "at: int",
    .infer     = first_unknown_infer,
    .cpu       = EST_KERNELS({ .run = rows_end, .measure = rows_measure }),
    .lends     = true,
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
    .distinct  = 1u << 0,
};

const est_op est_op_gather_begin = {
    .name      = "EstGatherBegin",
    .signature = "value: T -> (); T: type; at: int",
    .infer     = est_infer_none,
    .cpu       = EST_KERNELS({ .run = gather_begin }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
};

const est_op est_op_gather_end = {
    .name      = "EstGatherEnd",
    .signature = "value: T -> gathered: T, begin: int64; T: type; at: int",
    .infer     = gathered_infer,
    .cpu       = EST_KERNELS({ .run = gather_end, .measure = gather_measure }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
};

/* --- abandon and free --------------------------------------------------------------------------------------------- */

void *est_exchange_state(est_exchange *exchange, const est_node_def *node)
{
    const est_op *op = node->op;

    if (exchange == NULL) return NULL;
    if (op == &est_op_pack_begin) return &exchange->packs[est_node_int(node, "at")];
    if (op == &est_op_packs_end) return &exchange->levels[est_node_int(node, "at")];
    if (op == &est_op_rows_begin) return &exchange->row_packs[est_node_int(node, "at")];
    if (op == &est_op_rows_end) return &exchange->rows[est_node_int(node, "at")];
    if (op == &est_op_gather_begin || op == &est_op_gather_end) return &exchange->gatherings[est_node_int(node, "at")];
    return NULL;
}

void est_exchange_abandon(est_exchange *exchange, const char *why)
{
    if (exchange == NULL) return;
    if (!exchange->known) exchange->communicator->ops->abort(exchange->communicator, why);
    for (int i = 0; i < exchange->n_packs; i++) {
        if (exchange->packs[i].work != NULL) (void)pack_wait(&exchange->packs[i]);
    }
    for (int i = 0; i < exchange->n_row_packs; i++) {
        if (exchange->row_packs[i].work != NULL) (void)rows_wait(&exchange->row_packs[i]);
    }
    for (int i = 0; i < exchange->n_gatherings; i++) {
        if (exchange->gatherings[i].work != NULL) (void)gather_wait(&exchange->gatherings[i]);
    }
    exchange->known = false;
}

void est_exchange_free(est_exchange *exchange)
{
    if (exchange == NULL) return;
    for (int i = 0; i < exchange->n_packs; i++) est_free_aligned(exchange->packs[i].buffer);
    for (int i = 0; i < exchange->n_row_packs; i++) est_free_aligned(exchange->row_packs[i].indices);
    for (int i = 0; i < exchange->n_gatherings; i++) est_free_aligned(exchange->gatherings[i].block);
    est_free(exchange);
}
