/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a step and what each costs at least, for benchmarks. */
#include "support/stages.h"

#include <math.h>
#include <string.h>

#include "kernels/variable_access.h"
#include "runtime/trace.h"

const char *const bench_stage_names[BENCH_N_STAGES] = { "hash", "lookup", "dense", "sparse", "other" };

#define LINE 64.0

typedef struct op_stage {
    const char *prefix; /* of the op's name */
    bench_stage stage;
} op_stage;

static const op_stage op_stages[] = {
    { "StringToHashBucket", BENCH_HASH },
    { "RaggedCross", BENCH_HASH },
    { "EstEmbeddingBagGrad", BENCH_SPARSE },
    { "EstEmbeddingBagSliceGrad", BENCH_SPARSE },
    { "EstEmbeddingBag", BENCH_LOOKUP },
    { "ResourceSparseApply", BENCH_SPARSE },
    { "ResourceApply", BENCH_DENSE },
    { "MatMul", BENCH_DENSE },
    { "EstMatMul", BENCH_DENSE },
    { "BiasAdd", BENCH_DENSE },
    { "Concat", BENCH_DENSE },
    { "EstConcat", BENCH_DENSE },
    { "Split", BENCH_DENSE },
    { "Slice", BENCH_DENSE },
    { "Relu", BENCH_DENSE },
};

static bench_stage stage_of(const char *op)
{
    for (size_t i = 0; i < sizeof op_stages / sizeof op_stages[0]; i++) {
        if (strncmp(op, op_stages[i].prefix, strlen(op_stages[i].prefix)) == 0) return op_stages[i].stage;
    }
    return BENCH_OTHER;
}

static double view_bytes(const est_view *v)
{
    double bytes = (double)v->count * (double)est_dtype_size(v->dtype);

    if (v->dtype == EST_STRING) {
        for (int64_t i = 0; i < v->count; i++) bytes += (double)((const est_str *)v->data)[i].size;
    }
    return bytes;
}

/* Rows of the table that is input `table` that a kernel looks up or updates: as many as it has ids, behind the
 * table. */
static double rows_bytes(const est_call *c, int table)
{
    const est_view *rows  = &est_call_variable(c, table)->value;
    double          lines = ceil((double)est_row_size(rows) * (double)est_dtype_size(rows->dtype) / LINE);

    for (int i = table + 1; i < c->n_in; i++) {
        if (c->in[i]->dtype == EST_I64 && c->in[i]->shape.rank == 1) return (double)c->in[i]->count * lines * LINE;
    }
    return 0;
}

static double item_bytes(const est_call *c)
{
    bool by_rows = strncmp(c->node->op->name, "ResourceSparse", 14) == 0 ||
                   strcmp(c->node->op->name, "EstEmbeddingBag") == 0 ||
                   strcmp(c->node->op->name, "EstEmbeddingBagConcat") == 0;
    bool   sliced = strcmp(c->node->op->name, "EstEmbeddingBagSliceGrad") == 0; /* looks at some columns of dy */
    double bytes  = sliced
                        ? view_bytes(c->in[0]) * ((double)est_row_size(&c->out[0]) / (double)est_row_size(c->in[0]) - 1)
                        : 0;

    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i]->dtype == EST_RESOURCE) {
            const est_view *table = &est_call_variable(c, i)->value;
            double          once  = by_rows ? rows_bytes(c, i) : c->node->op->writes >> i & 1u ? view_bytes(table) : 0;

            bytes += c->node->op->writes >> i & 1u ? 2 * once : once; /* read and written */
        } else if (c->in[i]->data != NULL) {
            bytes += view_bytes(c->in[i]);
        }
    }
    for (int i = 0; i < c->n_out; i++) {
        if (c->out[i].data != NULL) bytes += view_bytes(&c->out[i]);
    }
    return bytes;
}

/* [m, k] by [k, n] gives [m, n], whatever is transposed: the counts alone say what k is. */
static double item_flops(const est_call *c)
{
    double k2;

    if (strstr(c->node->op->name, "MatMul") == NULL || c->out[0].count == 0) return 0;
    k2 = (double)c->in[0]->count * (double)c->in[1]->count / (double)c->out[0].count;
    return 2 * (double)c->out[0].count * sqrt(k2);
}

void bench_stages_add(bench_stages *stages, const est_plan *plan, bench_machine machine)
{
    const est_trace *t     = plan->trace;
    const est_span  *spans = t->spans + (int64_t)(t->runs - 1) * t->n_steps, *whole = &t->whole[t->runs - 1];
    int              run = stages->runs++;

    memset(stages->kernels, 0, sizeof stages->kernels);
    memset(stages->floor_secs, 0, sizeof stages->floor_secs);
    for (int32_t i = 0; i < plan->n_steps; i++) {
        const est_call *c     = &plan->items[plan->steps[i]].call;
        bench_stage     stage = stage_of(c->node->op->name);

        stages->kernels[stage]++;
        stages->secs[stage][run] += 1e-9 * (double)(spans[i].end_ns - spans[i].start_ns);
        stages->floor_secs[stage] += fmax(item_bytes(c) / machine.bytes_per_sec, item_flops(c) / machine.flops);
    }
    stages->whole_secs[run] = 1e-9 * (double)(whole->end_ns - whole->start_ns);
}
