/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference models of the benchmarks: cnn, mlp and wide_deep (docs/performance.md says what they are). */
#ifndef EST_BENCH_MODELS_H
#define EST_BENCH_MODELS_H

#include "estoc/estoc.h"

#define BENCH_FEEDS_MAX 32

/* A model ready to be trained, and what a step of it must at least cost. */
typedef struct bench_model {
    const char *name;
    int64_t     batch;
    est_graph  *graph;
    est_node    feed[BENCH_FEEDS_MAX];
    int         n_feeds;
    est_node    loss, train;
    double      flops; /* of a step: forward, and back towards every variable */
    double      bytes; /* of a step: inputs read, variables and their slots read and written */
    /* A batch of random inputs, tensors of the caller's; another one for every set. */
    void (*fill)(struct bench_model *m, int set, est_tensor **feeds);
    bool uniform; /* ids of wide_deep: all alike often, instead of a long tail */
} bench_model;

/* Of the layers of models that are built from now on; at first float32. */
void bench_models_precision(est_precision of);

/* Adds the model of that name to a new graph, which the caller frees. batch 0: its own; width multiplies the hidden
 * layers. Exits when there is no such model. */
bench_model bench_model_build(const char *name, int64_t batch, double width);

/* The same in the graph of these inputs, which stand for the placeholders of bench_model_build, in their order. */
bench_model bench_model_join(const char *name, const est_node *feeds, int n_feeds);

/* The logits of wide_deep, from the inputs of that model: BENCH_IDS vectors of ids and the numbers. *n_wide, unless
 * NULL: how many of the graph's trainable variables there were once its linear part had been made, which is the
 * first. */
#define BENCH_IDS 26
est_node bench_wide_deep(const est_node *ids, est_node numeric, double width, int *n_wide);

/* The model for an estimator: its model_fn calls the first and its input_fn the second, which gives the same few
 * batches for ever. They live as long as the process, which has one such input. */
EST_MUST_CHECK est_status bench_model_estimate(est_model *model, const char *name);
EST_MUST_CHECK est_status bench_model_input(const char *name, est_dataset **out);

#endif
