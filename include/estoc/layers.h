/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers: functions that take a node, create their variables in its graph, and return a node.
 *
 * A layer opens a scope of its name, made unique ("dense", "dense_1"), and names its variables in it as TensorFlow does
 * ("dense/kernel"). Variables are float32 unless the input is float64. Options may be NULL: all defaults; in a struct
 * made by the macro, 0 is the documented default. None of these fail visibly: see <estoc/graph.h>.
 *
 * Threading: one thread at a time per graph. */
#ifndef ESTOC_LAYERS_H
#define ESTOC_LAYERS_H

#include "estoc/initializers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- variables of a model ----------------------------------------------------------------------------------------- */

typedef struct est_weight_options {
    size_t          struct_size; /* filled by EST_WEIGHT */
    est_dtype       dtype;       /* 0: float32 */
    est_initializer initializer; /* make NULL: Glorot uniform for floats, zeros for others */
    est_regularizer regularizer; /* cost NULL: none; else its loss is added to est_losses() */
    bool            frozen;      /* true: not trained */
} est_weight_options;

#define EST_WEIGHT(...) (&(const est_weight_options){ .struct_size = EST_STRUCT_SIZE(est_weight_options), __VA_ARGS__ })

/* A variable named within the current scope, with its initializer, known to optimizers; returns its handle. */
EST_API est_node est_weight(est_graph *graph, const char *name, est_shape shape, const est_weight_options *options);

/* The collections of a graph. Spans are borrowed until the graph grows. */
EST_API est_nodes est_trainable_variables(const est_graph *graph);
EST_API est_nodes est_global_variables(const est_graph *graph); /* saved in checkpoints */
EST_API est_nodes est_local_variables(const est_graph *graph);  /* state of metrics, not in checkpoints */
EST_API est_nodes est_update_ops(const est_graph *graph);       /* run with every training step (batch norm) */
EST_API est_nodes est_losses(const est_graph *graph);           /* regularization losses */

/* The sum of est_losses(), 0 when there are none. */
EST_API est_node est_regularization_loss(est_graph *graph);

/* The variable that counts training steps, int64 "global_step", created on first use. */
EST_API est_node est_global_step(est_graph *graph);

/* --- dense and convolution ---------------------------------------------------------------------------------------- */

typedef est_node (*est_activation)(est_node x);

typedef struct est_dense_options {
    size_t          struct_size;        /* filled by EST_DENSE */
    const char     *name;               /* NULL: "dense" */
    est_activation  activation;         /* NULL: none */
    bool            no_bias;            /* true: no bias is added */
    est_initializer kernel_initializer; /* make NULL: Glorot uniform */
    est_initializer bias_initializer;   /* make NULL: zeros */
    est_regularizer kernel_regularizer;
    est_regularizer bias_regularizer;
    bool            frozen; /* true: not trained */
} est_dense_options;

#define EST_DENSE(...) (&(const est_dense_options){ .struct_size = EST_STRUCT_SIZE(est_dense_options), __VA_ARGS__ })

/* activation(x kernel + bias) over the last axis of x, which must be known; kernel [last, units]. */
EST_API est_node est_dense(est_node x, int64_t units, const est_dense_options *options);

typedef struct est_conv2d_options {
    size_t          struct_size;  /* filled by EST_CONV2D */
    const char     *name;         /* NULL: "conv2d", "depthwise_conv2d" */
    int             kernel_width; /* 0: as the height */
    int             stride;       /* 0: 1 */
    int             stride_width; /* 0: as over the height */
    est_padding     padding;      /* 0: EST_VALID */
    est_activation  activation;   /* NULL: none */
    bool            no_bias;
    est_initializer kernel_initializer; /* make NULL: Glorot uniform */
    est_initializer bias_initializer;   /* make NULL: zeros */
    est_regularizer kernel_regularizer;
    est_regularizer bias_regularizer;
    bool            frozen;
} est_conv2d_options;

#define EST_CONV2D(...) (&(const est_conv2d_options){ .struct_size = EST_STRUCT_SIZE(est_conv2d_options), __VA_ARGS__ })

/* Convolution of images [batch, height, width, channels] with `filters` filters of kernel_size. */
EST_API est_node est_conv2d_layer(est_node x, int64_t filters, int kernel_size, const est_conv2d_options *options);

/* Each channel with `multiplier` filters of its own; the kernel is called depthwise_kernel. */
EST_API est_node est_depthwise_conv2d_layer(est_node x, int64_t multiplier, int kernel_size,
                                            const est_conv2d_options *options);

typedef struct est_pool2d_options {
    size_t      struct_size;  /* filled by EST_POOL2D */
    const char *name;         /* NULL: "max_pooling2d", "average_pooling2d" */
    int         width;        /* 0: as the height */
    int         stride;       /* 0: as the window, so that windows do not overlap */
    int         stride_width; /* 0: as over the height */
    est_padding padding;      /* 0: EST_VALID */
} est_pool2d_options;

#define EST_POOL2D(...) (&(const est_pool2d_options){ .struct_size = EST_STRUCT_SIZE(est_pool2d_options), __VA_ARGS__ })

/* The largest and the mean of every window of that height. */
EST_API est_node est_max_pool2d(est_node x, int size, const est_pool2d_options *options);
EST_API est_node est_avg_pool2d(est_node x, int size, const est_pool2d_options *options);

/* [batch, ...] to [batch, everything else]. */
EST_API est_node est_flatten(est_node x);

/* --- normalisation and noise -------------------------------------------------------------------------------------- */

typedef struct est_batch_norm_options {
    size_t          struct_size;                                          /* filled by EST_BATCH_NORM */
    const char     *name;                                                 /* NULL: "batch_normalization" */
    double          momentum;                                             /* 0: 0.99; EST_OFF: 0 */
    double          epsilon;                                              /* 0: 0.001 */
    bool            no_center;                                            /* true: no beta */
    bool            no_scale;                                             /* true: no gamma */
    est_initializer beta_initializer, gamma_initializer;                  /* make NULL: zeros, ones */
    est_initializer moving_mean_initializer, moving_variance_initializer; /* make NULL: zeros, ones */
    bool            frozen;
} est_batch_norm_options;

#define EST_BATCH_NORM(...)                                                                                            \
    (&(const est_batch_norm_options){ .struct_size = EST_STRUCT_SIZE(est_batch_norm_options), __VA_ARGS__ })

/* gamma (x - mean) / sqrt(variance + epsilon) + beta, for each element of the last axis. While training, mean and
 * variance are the batch's and the moving averages follow them (by est_update_ops()); otherwise they are the averages.
 * As in TensorFlow the averaged variance of images (rank 4) is the unbiased one, of other ranks the plain one. */
EST_API est_node est_batch_norm(est_node x, bool training, const est_batch_norm_options *options);

/* est_dropout() while training, else x itself. */
EST_API est_node est_dropout_layer(est_node x, double rate, bool training);

/* --- embeddings --------------------------------------------------------------------------------------------------- */

typedef struct est_embedding_options {
    size_t          struct_size; /* filled by EST_EMBEDDING */
    const char     *name;        /* NULL: "embedding" */
    const char     *table_name;  /* NULL: "embeddings" */
    est_initializer initializer; /* make NULL: uniform in [-0.05, 0.05) */
    est_regularizer regularizer;
    est_node        splits;   /* EST_NO_NODE: one embedding per id; else ids are ragged rows with these splits */
    est_node        weights;  /* of the ids of ragged rows; EST_NO_NODE: 1 */
    est_combiner    combiner; /* of ragged rows */
    bool            frozen;
} est_embedding_options;

#define EST_EMBEDDING(...)                                                                                             \
    (&(const est_embedding_options){ .struct_size = EST_STRUCT_SIZE(est_embedding_options), __VA_ARGS__ })

/* Rows of a table [n_ids, width] picked by ids: [ids..., width], or [rows, width] of ragged rows, combined as
 * est_embedding_bag() does. */
EST_API est_node est_embedding(est_node ids, int64_t n_ids, int64_t width, const est_embedding_options *options);

#ifdef __cplusplus
}
#endif
#endif
