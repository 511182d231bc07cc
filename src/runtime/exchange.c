/* SPDX-License-Identifier: Apache-2.0
 *
 * The exchange of a step while it runs: packs are filled and begun, and waited for at the end.
 *
 * A pack is a copy, values times weights, and behind the values the weights themselves, so that a mean is one sum. */
#include "runtime/exchange.h"

#include <string.h>

#include "base/alloc.h"
#include "kernels/parallel.h"
#include "tensor/shape.h"

static est_status no_memory(void)
{
    return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to bring values of workers together");
}

/* --- copies ------------------------------------------------------------------------------------------------------------ */

/* out = in * factor, or 0 where the factor is, whatever `in` has. */
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

static void divide_range(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const scaling *s = arg;

    (void)block;
    if (s->dtype == EST_F32) {
        const float *in  = s->in;
        float       *out = s->out, by = (float)s->factor;

        for (int64_t i = begin; i < end; i++) out[i] = in[i] / by;
    } else {
        const double *in  = s->in;
        double       *out = s->out;

        for (int64_t i = begin; i < end; i++) out[i] = in[i] / s->factor;
    }
}

static void scale(est_pool *pool, const void *in, void *out, int64_t count, est_dtype dtype, double factor)
{
    scaling s = { in, out, factor, dtype };

    if (count > 0) est_parallel_for(pool, count, 16, 0.5, scale_range, &s);
}

/* By a total weight, or as it is: a sum, or the mean of nothing. */
static void unscale(est_pool *pool, const void *in, void *out, int64_t count, est_dtype dtype, double by)
{
    scaling s = { in, out, by, dtype };

    if (count == 0) return;
    if (by == 0 || by == 1) {
        memcpy(out, in, (size_t)count * est_dtype_size(dtype));
    } else {
        est_parallel_for(pool, count, 16, 1.0, divide_range, &s);
    }
}

/* What a value is multiplied by before it is summed up. */
static double factor_of(bool mean, float weight)
{
    return mean ? (double)weight : weight != 0;
}

static est_status reserve(void **buffer, size_t *capacity, size_t count, size_t size)
{
    void *more;

    if (count <= *capacity) return EST_OK;
    more = est_realloc(*buffer, count * size);
    if (more == NULL) return no_memory();
    *buffer   = more;
    *capacity = count;
    return EST_OK;
}

/* A failure of an operation is one of all workers. */
static est_status noted(est_exchange *x, est_status status)
{
    if (status != EST_OK) x->known = true;
    return status;
}

/* --- packs ------------------------------------------------------------------------------------------------------------- */

static size_t pack_elements(const est_call *c, const est_pack_exchange *p)
{
    size_t count = (size_t)p->n_weights;

    for (int i = 0; i < p->n_values; i++) count += (size_t)c->in[i]->count;
    return count;
}

static est_status pack_prepare(est_call *c)
{
    est_pack_exchange *p = c->state;

    return reserve(&p->buffer, &p->capacity, pack_elements(c, p), est_dtype_size(p->dtype));
}

static float weight_in(const est_call *c, const est_pack_exchange *p, int i)
{
    return *(const float *)c->in[p->n_values + i]->data;
}

static est_status pack_begin(est_call *c)
{
    est_pack_exchange *p    = c->state;
    size_t             size = est_dtype_size(p->dtype), at = 0;

    EST_TRY(pack_prepare(c)); /* shapes that are known only now */
    for (int i = 0; i < p->n_values; i++) {
        scale(c->pool, c->in[i]->data, (char *)p->buffer + at * size, c->in[i]->count, p->dtype,
              factor_of(p->mean[i], weight_in(c, p, p->weight[i])));
        at += (size_t)c->in[i]->count;
    }
    for (int i = 0; i < p->n_weights; i++, at++) {
        if (p->dtype == EST_F32) ((float *)p->buffer)[at] = weight_in(c, p, i);
        if (p->dtype == EST_F64) ((double *)p->buffer)[at] = (double)weight_in(c, p, i);
        if (p->dtype == EST_I64) ((int64_t *)p->buffer)[at] = weight_in(c, p, i) != 0;
    }
    p->count = at;
    return noted(p->in, p->in->peers->ops->sum(p->in->peers, p->buffer, p->count, p->dtype, &p->work));
}

static est_status pack_wait(est_pack_exchange *p)
{
    est_peer_work *work = p->work;
    size_t         at   = p->count - (size_t)p->n_weights;

    p->work = NULL;
    EST_TRY(noted(p->in, p->in->peers->ops->wait(p->in->peers, work)));
    for (int i = 0; i < p->n_weights; i++, at++) {
        p->totals[i] = p->dtype == EST_F32   ? (double)((const float *)p->buffer)[at]
                       : p->dtype == EST_F64 ? ((const double *)p->buffer)[at]
                                             : (double)((const int64_t *)p->buffer)[at];
    }
    return EST_OK;
}

/* Whether anybody had an example. */
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
    const est_level *l   = c->state;
    int              out = 0;

    for (int i = l->first; i < l->first + l->n; i++) EST_TRY(pack_wait(&l->in->packs[i]));
    l->in->peers->ended = !has_weight(l->in, l->first, l->n);
    if (l->in->peers->ended) return noted(l->in, est_fail(EST_OUT_OF_RANGE, "no worker has another example"));
    for (int i = l->first; i < l->first + l->n; i++) {
        const est_pack_exchange *p    = &l->in->packs[i];
        const char              *from = p->buffer;

        for (int v = 0; v < p->n_values; v++, out++) {
            est_view *to = &c->out[out];

            unscale(c->pool, from, to->data, to->count, p->dtype, p->mean[v] ? p->totals[p->weight[v]] : 1);
            from += (size_t)to->count * est_dtype_size(p->dtype);
        }
    }
    return EST_OK;
}

/* --- rows -------------------------------------------------------------------------------------------------------------- */

static est_status rows_begin(est_call *c)
{
    est_rows_exchange *r       = c->state;
    const est_view    *indices = c->in[0], *values = c->in[1];
    float              weight = *(const float *)c->in[2]->data;
    int64_t            n      = weight != 0 ? indices->count : 0;
    size_t             size   = est_dtype_size(values->dtype);
    size_t             each   = 1;
    int64_t           *ids;

    r->ended = false;
    for (int i = 1; i < values->shape.rank; i++) each *= (size_t)values->shape.dim[i];
    EST_TRY(reserve(&r->buffer, &r->capacity, (size_t)n * (sizeof *ids + each * size) + 1, 1)); /* never NULL */
    ids = r->buffer;
    for (int64_t i = 0; i < n; i++) {
        ids[i] = indices->dtype == EST_I64 ? ((const int64_t *)indices->data)[i] : ((const int32_t *)indices->data)[i];
    }
    scale(c->pool, values->data, ids + n, n * (int64_t)each, values->dtype, factor_of(r->mean, weight));
    return noted(r->in, r->in->peers->ops->rows(r->in->peers, r->slot, &(est_peer_rows){ ids, ids + n, n }, each,
                                                values->dtype, &r->work));
}

static est_status rows_wait(est_rows_exchange *r)
{
    est_peer_work *work = r->work;

    if (r->ended) return EST_OK;
    r->work = NULL;
    EST_TRY(noted(r->in, r->in->peers->ops->wait_rows(r->in->peers, work, &r->all)));
    r->ended = true;
    return EST_OK;
}

static est_status rows_measure(est_call *c)
{
    est_rows_exchange *r = c->state;

    EST_TRY(rows_wait(r));
    c->out[0].shape        = EST_SHAPE(r->all.n);
    c->out[0].count        = r->all.n;
    c->out[1].shape        = c->in[1]->shape;
    c->out[1].shape.dim[0] = r->all.n;
    c->out[1].count        = est_shape_count(&c->out[1].shape);
    return EST_OK;
}

static est_status rows_end(est_call *c)
{
    est_rows_exchange *r = c->state;

    EST_TRY(rows_wait(r));
    for (int64_t i = 0; i < r->all.n; i++) {
        if (c->out[0].dtype == EST_I64) {
            ((int64_t *)c->out[0].data)[i] = r->all.indices[i];
        } else {
            ((int32_t *)c->out[0].data)[i] = (int32_t)r->all.indices[i];
        }
    }
    unscale(c->pool, r->all.values, c->out[1].data, c->out[1].count, c->out[1].dtype,
            r->mean ? r->in->packs[r->weight.pack].totals[r->weight.at] : 1);
    return EST_OK;
}

/* --- gathering ----------------------------------------------------------------------------------------------------------- */

static est_status gather_begin(est_call *c)
{
    est_gathering  *g  = c->state;
    const est_view *in = c->in[0];

    g->ended = false;
    return noted(g->in, g->in->peers->ops->gather(g->in->peers, g->slot, in->data,
                                                  (size_t)in->count * est_dtype_size(in->dtype), &g->work));
}

static est_status gather_wait(est_gathering *g)
{
    est_peer_work *work = g->work;
    const size_t  *begins;

    if (g->ended) return EST_OK;
    g->work = NULL;
    EST_TRY(noted(g->in, g->in->peers->ops->wait_gather(g->in->peers, work, &g->data, &begins)));
    g->bytes = begins[g->in->peers->n];
    g->begin = begins[g->in->peers->rank];
    g->ended = true;
    return EST_OK;
}

static size_t bytes_per_row(const est_view *in)
{
    size_t row = est_dtype_size(in->dtype);

    for (int i = 1; i < in->shape.rank; i++) row *= (size_t)in->shape.dim[i];
    return row;
}

/* Rows of all workers are as wide as those here; a rest would be of one whose are not. */
static est_status gather_measure(est_call *c)
{
    est_gathering *g     = c->state;
    est_shape      shape = c->in[0]->shape;
    size_t         row   = bytes_per_row(c->in[0]);

    EST_TRY(gather_wait(g));
    shape.dim[0] = row > 0 ? (int64_t)(g->bytes / row) : 0;
    if (row > 0 && g->bytes % row != 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%zu bytes of all workers are no multiple of the %zu that a row has here",
                        g->bytes, row);
    }
    c->out[0].shape = shape;
    c->out[0].count = est_shape_count(&shape);
    return EST_OK;
}

static est_status gather_end(est_call *c)
{
    est_gathering *g   = c->state;
    size_t         row = bytes_per_row(c->in[0]);

    EST_TRY(gather_wait(g));
    if (g->bytes > 0) memcpy(c->out[0].data, g->data, g->bytes);
    *(int64_t *)c->out[1].data = row > 0 ? (int64_t)(g->begin / row) : 0;
    return EST_OK;
}

/* --- the operations --------------------------------------------------------------------------------------------------- */

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

/* The inputs of an end are those of its begins, whose memory nobody else may get before, and which say the shapes. */
const est_op est_op_pack_begin = {
    .name      = "EstReduceBegin",
    .signature = "values: N*T, weights: M*float32 -> (); N: int; M: int; T: type; at: int",
    .infer     = est_infer_none,
    .cpu       = EST_KERNELS({ .run = pack_begin, .prepare = pack_prepare }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true, /* never beside others, as all of these: it may wait */
};

const est_op est_op_packs_end = {
    .name      = "EstReduceEnd",
    .signature = "values: T -> reduced: T; T: types; shapes: shapes; at: int",
    .infer     = ends_infer,
    .cpu       = EST_KERNELS({ .run = packs_end }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
};

const est_op est_op_rows_begin = {
    .name      = "EstRowsBegin",
    .signature = "indices: Tindices, values: T, weight: float32 -> (); T: type; Tindices: type; at: int",
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

/* --- the exchange's life ------------------------------------------------------------------------------------------------ */

void *est_exchange_state(est_exchange *exchange, const est_node_def *node)
{
    const est_op *op = node->op;

    if (exchange == NULL) return NULL;
    if (op == &est_op_pack_begin) return &exchange->packs[est_node_int(node, "at")];
    if (op == &est_op_packs_end) return &exchange->levels[est_node_int(node, "at")];
    if (op == &est_op_rows_begin || op == &est_op_rows_end) return &exchange->rows[est_node_int(node, "at")];
    if (op == &est_op_gather_begin || op == &est_op_gather_end) return &exchange->gatherings[est_node_int(node, "at")];
    return NULL;
}

void est_exchange_abandon(est_exchange *exchange, const char *why)
{
    if (exchange == NULL) return;
    if (!exchange->known) exchange->peers->ops->abort(exchange->peers, why);
    for (int i = 0; i < exchange->n_packs; i++) {
        if (exchange->packs[i].work != NULL) (void)pack_wait(&exchange->packs[i]);
    }
    for (int i = 0; i < exchange->n_rows; i++) {
        if (exchange->rows[i].work != NULL) (void)rows_wait(&exchange->rows[i]);
    }
    for (int i = 0; i < exchange->n_gatherings; i++) {
        if (exchange->gatherings[i].work != NULL) (void)gather_wait(&exchange->gatherings[i]);
    }
    exchange->known = false;
}

void est_exchange_free(est_exchange *exchange)
{
    if (exchange == NULL) return;
    for (int i = 0; i < exchange->n_packs; i++) est_free(exchange->packs[i].buffer);
    for (int i = 0; i < exchange->n_rows; i++) est_free(exchange->rows[i].buffer);
    est_free(exchange);
}
