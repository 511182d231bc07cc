/* SPDX-License-Identifier: Apache-2.0
 *
 * Random tensors: RandomUniform [0, 1), RandomStandardNormal, TruncatedNormal (within two deviations), RandomUniformInt
 * [minval, maxval).
 *
 * Numbers come from Philox, counted by element: see kernels/random_stream.h. Attribute seed is the graph's seed, seed2
 * the op's own.
 *
 * Each has a variant for the planner, "Est..Part", that draws elements of a larger tensor: those from `first` on. */
#include <inttypes.h>

#include "kernels/parallel.h"
#include "kernels/random_stream.h"
#include "ops/ops.h"

static est_status random_infer(est_infer *c)
{
    est_shape shape;

    if (est_infer_shape_from_value(c, 0, &shape)) c->out[0] = shape;
    return est_infer_rank(c, 0, 1);
}

static est_status random_int_infer(est_infer *c)
{
    EST_TRY(est_infer_rank(c, 1, 0));
    EST_TRY(est_infer_rank(c, 2, 0));
    return random_infer(c);
}

static est_status random_prepare(est_call *c)
{
    c->param[0].i = est_stream_key(c->node);
    return EST_OK;
}

static est_status part_prepare(est_call *c)
{
    c->param[1].i = est_node_int(c->node, "first");
    return random_prepare(c);
}

/* What a block of a fill needs. */
typedef struct fill {
    est_random stream;
    int64_t    first;
    void      *out;
    int64_t    low, high;
} fill;

#define FILL(name, T)                                                                                                  \
    static void name(void *arg, int64_t begin, int64_t end, int64_t block)                                             \
    {                                                                                                                  \
        const fill *f = arg;                                                                                           \
                                                                                                                       \
        (void)block;                                                                                                   \
        est_random_fill_##name(&f->stream, f->first + begin, end - begin, (T *)f->out + begin);                        \
    }
FILL(uniform_f32, float)
FILL(uniform_f64, double)
FILL(normal_f32, float)
FILL(normal_f64, double)
FILL(truncated_f32, float)
FILL(truncated_f64, double)

static void int_i32(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const fill *f = arg;

    (void)block;
    est_random_fill_int_i32(&f->stream, f->first + begin, end - begin, (int32_t)f->low, (int32_t)f->high,
                            (int32_t *)f->out + begin);
}

static void int_i64(void *arg, int64_t begin, int64_t end, int64_t block)
{
    const fill *f = arg;

    (void)block;
    est_random_fill_int_i64(&f->stream, f->first + begin, end - begin, f->low, f->high, (int64_t *)f->out + begin);
}

/* Blocks start at multiples of 64 elements, where no block of random words is cut unless `first` cuts it. */
static est_status random_run(est_call *c, fill *f, double ns, est_range_fn fn)
{
    f->stream = est_stream(c, c->param[0].i);
    f->first  = c->param[1].i;
    f->out    = c->out[0].data;
    est_parallel_for(c->pool, c->out[0].count, 64, ns, fn, f);
    return EST_OK;
}

static est_status uniform_cpu(est_call *c)
{
    return random_run(c, &(fill){ 0 }, 1.5, c->out[0].dtype == EST_F32 ? uniform_f32 : uniform_f64);
}

static est_status normal_cpu(est_call *c)
{
    return random_run(c, &(fill){ 0 }, 15, c->out[0].dtype == EST_F32 ? normal_f32 : normal_f64);
}

static est_status truncated_cpu(est_call *c)
{
    return random_run(c, &(fill){ 0 }, 40, c->out[0].dtype == EST_F32 ? truncated_f32 : truncated_f64);
}

static est_status random_int_cpu(est_call *c)
{
    bool wide = c->out[0].dtype == EST_I64;
    fill f    = { .low  = wide ? *(const int64_t *)c->in[1]->data : *(const int32_t *)c->in[1]->data,
                  .high = wide ? *(const int64_t *)c->in[2]->data : *(const int32_t *)c->in[2]->data };

    if (f.low >= f.high && c->out[0].count > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "random integers need minval below maxval, got [%" PRId64 ", %" PRId64 ")", f.low, f.high);
    }
    return random_run(c, &f, 3, wide ? int_i64 : int_i32);
}

#define FLOAT_SIGNATURE                                                                                                \
    "shape: T -> output: dtype; seed: int = 0; seed2: int = 0; dtype: {float32, float64}; T: {int32, int64}"
#define INT_SIGNATURE                                                                                                  \
    "shape: T, minval: Tout, maxval: Tout -> output: Tout; seed: int = 0; seed2: int = 0; Tout: {int32, int64}; "      \
    "T: {int32, int64}"
#define FIRST "; first: int"

const est_op est_op_random_uniform = {
    .name      = "RandomUniform",
    .signature = FLOAT_SIGNATURE,
    .infer     = random_infer,
    .cpu       = EST_KERNELS({ .run = uniform_cpu, .prepare = random_prepare }),
    .stateful  = true,
    .random    = true,
};

const est_op est_op_random_standard_normal = {
    .name      = "RandomStandardNormal",
    .signature = FLOAT_SIGNATURE,
    .infer     = random_infer,
    .cpu       = EST_KERNELS({ .run = normal_cpu, .prepare = random_prepare }),
    .stateful  = true,
    .random    = true,
};

const est_op est_op_truncated_normal = {
    .name      = "TruncatedNormal",
    .signature = FLOAT_SIGNATURE,
    .infer     = random_infer,
    .cpu       = EST_KERNELS({ .run = truncated_cpu, .prepare = random_prepare }),
    .stateful  = true,
    .random    = true,
};

const est_op est_op_random_uniform_int = {
    .name      = "RandomUniformInt",
    .signature = INT_SIGNATURE,
    .infer     = random_int_infer,
    .cpu       = EST_KERNELS({ .run = random_int_cpu, .prepare = random_prepare }),
    .stateful  = true,
    .random    = true,
};

const est_op est_op_random_uniform_part = {
    .name      = "EstRandomUniformPart",
    .signature = FLOAT_SIGNATURE FIRST,
    .infer     = random_infer,
    .cpu       = EST_KERNELS({ .run = uniform_cpu, .prepare = part_prepare }),
    .planned   = true,
    .stateful  = true,
    .random    = true,
};

const est_op est_op_random_standard_normal_part = {
    .name      = "EstRandomStandardNormalPart",
    .signature = FLOAT_SIGNATURE FIRST,
    .infer     = random_infer,
    .cpu       = EST_KERNELS({ .run = normal_cpu, .prepare = part_prepare }),
    .planned   = true,
    .stateful  = true,
    .random    = true,
};

const est_op est_op_truncated_normal_part = {
    .name      = "EstTruncatedNormalPart",
    .signature = FLOAT_SIGNATURE FIRST,
    .infer     = random_infer,
    .cpu       = EST_KERNELS({ .run = truncated_cpu, .prepare = part_prepare }),
    .planned   = true,
    .stateful  = true,
    .random    = true,
};

const est_op est_op_random_uniform_int_part = {
    .name      = "EstRandomUniformIntPart",
    .signature = INT_SIGNATURE FIRST,
    .infer     = random_int_infer,
    .cpu       = EST_KERNELS({ .run = random_int_cpu, .prepare = part_prepare }),
    .planned   = true,
    .stateful  = true,
    .random    = true,
};

/* Replicas that are given one seed draw different numbers: an odd constant spreads them over all seeds. */
#define REPLICA_STRIDE UINT64_C(0x9e3779b97f4a7c15)

uint64_t est_seed_or_next(est_graph *graph, uint64_t seed)
{
    if (graph == NULL) return seed;
    if (seed == 0) seed = est_graph_next_seed(graph);
    return seed ^ (uint64_t)est_global_replica(graph) * REPLICA_STRIDE;
}

int64_t est_seed_of_graph(const est_graph *graph, uint64_t seed)
{
    uint64_t of_graph = est_graph_seed(graph);

    return of_graph == 0 && seed != 0 ? EST_DEFAULT_GRAPH_SEED : (int64_t)of_graph;
}

static est_node build(const est_op *op, est_node shape, est_dtype dtype, uint64_t seed)
{
    if (shape.graph == NULL) return EST_NO_NODE;
    return est_build1(op, shape,
                      EST_ATTRS(est_attr_type("dtype", dtype),
                                est_attr_int("seed", est_seed_of_graph(shape.graph, seed)),
                                est_attr_int("seed2", (int64_t)est_seed_or_next(shape.graph, seed))));
}

est_node est_random_uniform(est_node shape, est_dtype dtype, uint64_t seed)
{
    return build(&est_op_random_uniform, shape, dtype, seed);
}

est_node est_random_normal(est_node shape, est_dtype dtype, uint64_t seed)
{
    return build(&est_op_random_standard_normal, shape, dtype, seed);
}

est_node est_truncated_normal(est_node shape, est_dtype dtype, uint64_t seed)
{
    return build(&est_op_truncated_normal, shape, dtype, seed);
}

est_node est_random_uniform_int(est_node shape, est_node low, est_node high, uint64_t seed)
{
    if (shape.graph == NULL) return EST_NO_NODE;
    return est_build3(&est_op_random_uniform_int, shape, low, high,
                      EST_ATTRS(est_attr_int("seed", est_seed_of_graph(shape.graph, seed)),
                                est_attr_int("seed2", (int64_t)est_seed_or_next(shape.graph, seed))));
}
