/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers: operations with variables. A layer is an object that can be called any number of times, in any number of
 * graphs; all calls in a graph use the same variables:
 *
 *     est_layer *branch = est_layer_dense(64, EST_DENSE(.activation = est_relu));
 *     est_node   a = est_layer_call(branch, left, training), b = est_layer_call(branch, right, training);
 *     est_layer_free(branch);
 *
 * Functions like est_dense make a layer, call it once and forget it.
 *
 * The first call in a graph opens a scope of the layer's name, made unique ("dense", "dense_1"), and names variables in
 * it as Keras does ("dense/kernel"). Variables are float32 unless the input is float64. Options may be NULL: all
 * defaults; in a struct made by the macro, 0 is the documented default. Calls do not fail visibly: see <estoc/graph.h>.
 *
 * Threading: one thread at a time per graph and per layer. References may be added and dropped by any thread. */
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
EST_API est_nodes est_losses(const est_graph *graph);           /* of regularizers, and of est_add_loss */

/* Adds a term to est_losses(), which networks and heads minimize beside their own loss (Layer.add_loss). */
EST_API void est_add_loss(est_node loss);

/* The sum of est_losses(), 0 when there are none. */
EST_API est_node est_regularization_loss(est_graph *graph);

/* The variable that counts training steps, int64 "global_step", created on first use. */
EST_API est_node est_global_step(est_graph *graph);

/* --- layers as objects -------------------------------------------------------------------------------------------- */

/* The functions est_layer_... below make one. NULL: a wrong argument or no memory, and the error is recorded. A name
 * has letters, digits and any of _ . / > -, and begins with a letter, a digit or a dot. Strings and lists are copied;
 * `user` of initializers and regularizers is borrowed until the layer is freed. */
typedef struct est_layer est_layer;

/* A list of layers as one argument: EST_LAYERS(est_layer_flatten(NULL), est_layer_dense(10, NULL)). */
typedef struct est_layers {
    est_layer *const *data;
    int               n;
} est_layers;

#define EST_LAYERS(...) EST_SPAN(est_layers, est_layer *const, __VA_ARGS__)

typedef struct est_call_options {
    size_t   struct_size; /* filled by EST_CALL */
    bool     training;    /* dropout draws, batch normalisation uses the batch */
    est_node mask;        /* attention: which values count, boolean [batch, n], or for each query [batch, m, n];
                           * EST_NO_NODE: all */
    est_node query_mask;  /* attention: which rows of the result are not zeros, boolean [batch, m]; EST_NO_NODE: all */
} est_call_options;

#define EST_CALL(...) (&(const est_call_options){ .struct_size = EST_STRUCT_SIZE(est_call_options), __VA_ARGS__ })

/* The layer applied to a node, and to several. A graph in which it is called shares it until the graph is freed. A
 * regularization loss counts once, however often a model calls the layer. */
EST_API est_node est_layer_call(est_layer *layer, est_node x, bool training);
EST_API est_node est_layer_call_with(est_layer *layer, est_nodes inputs, const est_call_options *options);

/* Another reference to the layer; and dropping one. NULL is fine. */
EST_API est_layer *est_layer_share(est_layer *layer);
EST_API void       est_layer_free(est_layer *layer);

/* Its name; "": none was given and it was not called yet, or the layer is NULL. Borrowed until the layer is freed. */
EST_API const char *est_layer_name(const est_layer *layer);

/* Whether its variables are trained in graphs in which it is called from now on. Batch normalisation that is not
 * trained normalises by the moving averages, as in Keras. */
EST_API void est_layer_set_trainable(est_layer *layer, bool trainable);

/* --- dense and convolution ---------------------------------------------------------------------------------------- */

/* est_relu, est_tanh, est_sigmoid, est_softmax_last and others of estoc/ops.h; est_activation_by_name("gelu", &f) finds
 * them by Keras' names. est_softmax takes an axis, and is none. */
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
EST_API EST_MUST_CHECK est_layer *est_layer_dense(int64_t units, const est_dense_options *options);
EST_API est_node                  est_dense(est_node x, int64_t units, const est_dense_options *options);

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
EST_API EST_MUST_CHECK est_layer *est_layer_conv2d(int64_t filters, int kernel_size, const est_conv2d_options *options);
EST_API est_node est_conv2d_layer(est_node x, int64_t filters, int kernel_size, const est_conv2d_options *options);

/* Each channel with `multiplier` filters of its own; the kernel is called depthwise_kernel. */
EST_API EST_MUST_CHECK est_layer *est_layer_depthwise_conv2d(int64_t multiplier, int kernel_size,
                                                             const est_conv2d_options *options);
EST_API est_node                  est_depthwise_conv2d_layer(est_node x, int64_t multiplier, int kernel_size,
                                                             const est_conv2d_options *options);

typedef struct est_separable_conv2d_options {
    size_t          struct_size;      /* filled by EST_SEPARABLE_CONV2D */
    const char     *name;             /* NULL: "separable_conv2d" */
    int             kernel_width;     /* 0: as the height */
    int             stride;           /* 0: 1 */
    int             stride_width;     /* 0: as over the height */
    est_padding     padding;          /* 0: EST_VALID */
    int64_t         depth_multiplier; /* filters of each channel; 0: 1 */
    est_activation  activation;       /* NULL: none */
    bool            no_bias;
    est_initializer depthwise_initializer, pointwise_initializer; /* make NULL: Glorot uniform */
    est_initializer bias_initializer;                             /* make NULL: zeros */
    est_regularizer depthwise_regularizer, pointwise_regularizer, bias_regularizer;
} est_separable_conv2d_options;

#define EST_SEPARABLE_CONV2D(...)                                                                                      \
    (&(const est_separable_conv2d_options){ .struct_size = EST_STRUCT_SIZE(est_separable_conv2d_options), __VA_ARGS__ })

/* Each channel with filters of its own (depthwise_kernel), then `filters` sums over all of them at each place
 * (pointwise_kernel). */
EST_API EST_MUST_CHECK est_layer *est_layer_separable_conv2d(int64_t filters, int kernel_size,
                                                             const est_separable_conv2d_options *options);

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
EST_API est_node                  est_max_pool2d(est_node x, int size, const est_pool2d_options *options);
EST_API est_node                  est_avg_pool2d(est_node x, int size, const est_pool2d_options *options);
EST_API EST_MUST_CHECK est_layer *est_layer_max_pool2d(int size, const est_pool2d_options *options);
EST_API EST_MUST_CHECK est_layer *est_layer_avg_pool2d(int size, const est_pool2d_options *options);

/* The largest and the mean of each channel of an image: [batch, channels]. name NULL: "global_max_pooling2d",
 * "global_average_pooling2d". */
EST_API EST_MUST_CHECK est_layer *est_layer_global_max_pool2d(const char *name);
EST_API EST_MUST_CHECK est_layer *est_layer_global_avg_pool2d(const char *name);

/* --- shapes, and several inputs ----------------------------------------------------------------------------------- */

/* [batch, ...] to [batch, everything else]. name NULL: "flatten". */
EST_API est_node                  est_flatten(est_node x);
EST_API EST_MUST_CHECK est_layer *est_layer_flatten(const char *name);

/* [batch, ...] to [batch, shape...]; one entry may be -1. name NULL: "reshape". */
EST_API EST_MUST_CHECK est_layer *est_layer_reshape(est_i64s shape, const char *name);

/* Of inputs of one shape but for the axis; of inputs that broadcast, where axes that one lacks are behind its first.
 * name NULL: "concatenate", "add", "multiply". */
EST_API EST_MUST_CHECK est_layer *est_layer_concatenate(int axis, const char *name);
EST_API EST_MUST_CHECK est_layer *est_layer_add(const char *name);
EST_API EST_MUST_CHECK est_layer *est_layer_multiply(const char *name);

typedef struct est_dot_options {
    size_t      struct_size; /* filled by EST_DOT */
    const char *name;        /* NULL: "dot" */
    int         second_axis; /* the axis of the second input; 0: as the first's */
    bool        normalize;   /* true: both are first divided by their l2 norms: cosines */
} est_dot_options;

#define EST_DOT(...) (&(const est_dot_options){ .struct_size = EST_STRUCT_SIZE(est_dot_options), __VA_ARGS__ })

/* Sums of products of two inputs along an axis, for each example: of [batch, n] twice [batch, 1]; of [batch, a, n] and
 * [batch, b, n] along axis 2 [batch, a, b]. Negative axes count from the end. */
EST_API EST_MUST_CHECK est_layer *est_layer_dot(int axis, const est_dot_options *options);

/* A function without variables. name NULL: "activation". */
EST_API EST_MUST_CHECK est_layer *est_layer_activation(est_activation activation, const char *name);

/* Builds a call of a layer of your own from any operations. The variables that it makes by est_weight and the layers
 * that it calls are the layer's: the function is called again for each call and gets the same ones. */
typedef est_node (*est_layer_fn)(est_nodes inputs, bool training, void *user);

typedef struct est_lambda_options {
    size_t      struct_size;       /* filled by EST_LAMBDA */
    const char *name;              /* NULL: "lambda" */
    void       *user;              /* borrowed until the layer is freed */
    void (*user_free)(void *user); /* called with `user` when the layer is freed; NULL: nothing is */
} est_lambda_options;

#define EST_LAMBDA(...) (&(const est_lambda_options){ .struct_size = EST_STRUCT_SIZE(est_lambda_options), __VA_ARGS__ })

/* A layer of that function. */
EST_API EST_MUST_CHECK est_layer *est_layer_lambda(est_layer_fn fn, const est_lambda_options *options);

/* --- normalisation and noise -------------------------------------------------------------------------------------- */

typedef struct est_batch_norm_options {
    size_t          struct_size;                                          /* filled by EST_BATCH_NORM */
    const char     *name;                                                 /* NULL: "batch_normalization" */
    double          momentum;                                             /* 0: 0.99; EST_OFF: 0 */
    double          epsilon;                                              /* 0: 0.001; EST_OFF: 0 */
    bool            no_center;                                            /* true: no beta */
    bool            no_scale;                                             /* true: no gamma */
    est_initializer beta_initializer, gamma_initializer;                  /* make NULL: zeros, ones */
    est_initializer moving_mean_initializer, moving_variance_initializer; /* make NULL: zeros, ones */
    bool            frozen;
    /* a bool: the averages follow only where it is true; EST_NO_NODE: in every training step */
    est_node follows;
} est_batch_norm_options;

#define EST_BATCH_NORM(...)                                                                                            \
    (&(const est_batch_norm_options){ .struct_size = EST_STRUCT_SIZE(est_batch_norm_options), __VA_ARGS__ })

/* gamma (x - mean) / sqrt(variance + epsilon) + beta, for each element of the last axis. While training, mean and
 * variance are the batch's and the moving averages follow them (by est_update_ops()); otherwise they are the averages.
 * As in TensorFlow the averaged variance of images (rank 4) is the unbiased one, of other ranks the plain one. */
EST_API est_node                  est_batch_norm(est_node x, bool training, const est_batch_norm_options *options);
EST_API EST_MUST_CHECK est_layer *est_layer_batch_norm(const est_batch_norm_options *options);

typedef struct est_layer_norm_options {
    size_t          struct_size;                         /* filled by EST_LAYER_NORM */
    const char     *name;                                /* NULL: "layer_normalization" */
    double          epsilon;                             /* 0: 0.001; EST_OFF: 0 */
    bool            no_center;                           /* true: no beta */
    bool            no_scale;                            /* true: no gamma */
    est_initializer beta_initializer, gamma_initializer; /* make NULL: zeros, ones */
    est_regularizer beta_regularizer, gamma_regularizer;
} est_layer_norm_options;

#define EST_LAYER_NORM(...)                                                                                            \
    (&(const est_layer_norm_options){ .struct_size = EST_STRUCT_SIZE(est_layer_norm_options), __VA_ARGS__ })

/* gamma (x - mean) / sqrt(variance + epsilon) + beta, with the mean and variance of the last axis of each example. */
EST_API EST_MUST_CHECK est_layer *est_layer_layer_norm(const est_layer_norm_options *options);

/* est_dropout() while training, else x itself. name NULL: "dropout". */
EST_API est_node                  est_dropout_layer(est_node x, double rate, bool training);
EST_API EST_MUST_CHECK est_layer *est_layer_dropout(double rate, const char *name);

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
/* The layer takes ids, or the values and splits of ragged rows, or these and weights: three inputs, in place of splits
 * and weights in the options. */
EST_API EST_MUST_CHECK est_layer *est_layer_embedding(int64_t n_ids, int64_t width,
                                                      const est_embedding_options *options);

/* --- attention ---------------------------------------------------------------------------------------------------- */

typedef struct est_attention_options {
    size_t      struct_size; /* filled by EST_ATTENTION */
    const char *name;        /* NULL: "attention", "additive_attention" */
    bool        use_scale;   /* true: a trained number, "scale"; additive attention has one a feature anyway */
    bool        causal;      /* true: query i sees values 0 to i */
    double      dropout;     /* of weights, while training; 0: none */
    bool        concat;      /* est_layer_attention: Keras' score_mode "concat" in place of "dot" */
} est_attention_options;

#define EST_ATTENTION(...)                                                                                             \
    (&(const est_attention_options){ .struct_size = EST_STRUCT_SIZE(est_attention_options), __VA_ARGS__ })

/* Inputs: queries [batch, m, width], values [batch, n, ...] and keys [batch, n, width], which are the values unless
 * given. For each query the mean of the values, weighted by softmax over the scores of their keys: the dot product;
 * with .concat a trained number, "concat_score_weight", times the sum of tanh(scale (query + key)); of additive
 * attention the sum of scale tanh(query + key). EST_CALL(.mask) says which values count, so that sequences may be
 * padded. */
EST_API EST_MUST_CHECK est_layer *est_layer_attention(const est_attention_options *options);
EST_API EST_MUST_CHECK est_layer *est_layer_additive_attention(const est_attention_options *options);

typedef struct est_multi_head_options {
    size_t      struct_size; /* filled by EST_MULTI_HEAD */
    const char *name;        /* NULL: "multi_head_attention" */
    int64_t     value_dim;   /* size of the values of a head; 0: as the keys */
    int64_t     units;       /* size of the result; 0: as the queries */
    bool        no_bias;
    bool        causal;
    double      dropout;
} est_multi_head_options;

#define EST_MULTI_HEAD(...)                                                                                            \
    (&(const est_multi_head_options){ .struct_size = EST_STRUCT_SIZE(est_multi_head_options), __VA_ARGS__ })

/* Attention of several heads, each over projections of its own of queries, keys (to key_dim) and values; the results
 * together are projected once more. Variables query/kernel, query/bias, key/..., value/..., attention_output/... */
EST_API EST_MUST_CHECK est_layer *est_layer_multi_head_attention(int64_t heads, int64_t key_dim,
                                                                 const est_multi_head_options *options);

#ifdef __cplusplus
}
#endif
#endif
