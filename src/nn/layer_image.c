/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of images [batch, height, width, channels]: convolutions and pooling. */
#include "base/options.h"
#include "nn/layer.h"

static est_node bias_and_activation(est_node y, est_node x, int64_t channels, const est_conv2d_options *o)
{
    if (!o->no_bias) {
        y = est_bias_add(y, est_read_variable(est_layer_weight(x, "bias", EST_SHAPE(channels),
                                                               est_init_or(o->bias_initializer, est_init_zeros()),
                                                               o->bias_regularizer, o->frozen)));
    }
    return o->activation != NULL ? o->activation(y) : y;
}

/* --- convolution -------------------------------------------------------------------------------------------------- */

typedef struct conv {
    est_layer          layer;
    int64_t            filters;  /* depthwise and separable: of each channel */
    int64_t            n_points; /* separable: filters of the second step */
    int                size;
    est_conv2d_options o; /* sizes and strides filled in; separable: kernel_... are those of the first step */
    est_initializer    point_initializer;
    est_regularizer    point_regularizer;
} conv;

typedef est_node (*conv_fn)(est_node x, est_node filter, int stride_h, int stride_w, est_padding padding);

static est_node convolve(const conv *l, est_node x, const char *kernel, conv_fn fn)
{
    const est_conv2d_options *o = &l->o;
    est_node                  w;

    w = est_layer_weight(x, kernel, EST_SHAPE(l->size, o->kernel_width, est_node_dim(x, -1), l->filters),
                         est_init_or(o->kernel_initializer, est_init_glorot_uniform(0)), o->kernel_regularizer,
                         o->frozen);
    return fn(est_layer_factor(x), est_layer_factor(est_read_variable(w)), o->stride, o->stride_width, o->padding);
}

static est_node conv2d_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const conv *l = (const conv *)self;
    est_node    x = in.data[0];

    (void)call;
    if (!est_layer_check(x, self->class->scope, 4, 4)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    return bias_and_activation(convolve(l, x, "kernel", est_conv2d), x, l->filters, &l->o);
}

static est_node depthwise_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const conv *l = (const conv *)self;
    est_node    x = in.data[0];

    (void)call;
    if (!est_layer_check(x, self->class->scope, 4, 4)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    return bias_and_activation(convolve(l, x, "depthwise_kernel", est_depthwise_conv2d), x,
                               est_node_dim(x, -1) * l->filters, &l->o);
}

static est_node separable_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    const conv *l = (const conv *)self;
    est_node    x = in.data[0], y, w;

    (void)call;
    if (!est_layer_check(x, self->class->scope, 4, 4)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    y = convolve(l, x, "depthwise_kernel", est_depthwise_conv2d);
    w = est_layer_weight(x, "pointwise_kernel", EST_SHAPE(1, 1, est_node_dim(x, -1) * l->filters, l->n_points),
                         est_init_or(l->point_initializer, est_init_glorot_uniform(0)), l->point_regularizer, false);
    return bias_and_activation(est_conv2d(est_layer_factor(y), est_layer_factor(est_read_variable(w)), 1, 1, EST_VALID),
                               x, l->n_points, &l->o);
}

/* clang-format off */
static const est_layer_class
    conv2d_class    = { "Conv2D", "conv2d", sizeof(conv), 1, 1, .call = conv2d_call },
    depthwise_class = { "DepthwiseConv2D", "depthwise_conv2d", sizeof(conv), 1, 1, .call = depthwise_call },
    separable_class = { "SeparableConv2D", "separable_conv2d", sizeof(conv), 1, 1, .call = separable_call };
/* clang-format on */

/* Checks sizes and fills in their defaults. */
static est_status conv_sizes(conv *l)
{
    if (l->filters <= 0 || l->n_points <= 0 || l->size <= 0) {
        return est_fail(EST_INVALID_ARGUMENT, "%s layer: %lld filters of size %d", l->layer.class->scope,
                        (long long)(l->filters <= 0 ? l->filters : l->n_points), l->size);
    }
    if (l->o.kernel_width <= 0) l->o.kernel_width = l->size;
    if (l->o.stride <= 0) l->o.stride = 1;
    if (l->o.stride_width <= 0) l->o.stride_width = l->o.stride;
    return EST_OK;
}

static est_status conv_fill(conv *l, const est_layer_class *class, int64_t filters, int size,
                            const est_conv2d_options *options)
{
    *l = (conv){ .layer = { .class = class }, .filters = filters, .n_points = 1, .size = size };
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_conv2d_options), options, &l->o));
    return conv_sizes(l);
}

est_layer *est_layer_conv2d(int64_t filters, int kernel_size, const est_conv2d_options *options)
{
    conv l;

    return conv_fill(&l, &conv2d_class, filters, kernel_size, options) == EST_OK ? est_layer_make(&l.layer, l.o.name)
                                                                                 : NULL;
}

est_layer *est_layer_depthwise_conv2d(int64_t multiplier, int kernel_size, const est_conv2d_options *options)
{
    conv l;

    return conv_fill(&l, &depthwise_class, multiplier, kernel_size, options) == EST_OK
               ? est_layer_make(&l.layer, l.o.name)
               : NULL;
}

est_node est_conv2d_layer(est_node x, int64_t filters, int kernel_size, const est_conv2d_options *options)
{
    conv       l;
    est_status status = conv_fill(&l, &conv2d_class, filters, kernel_size, options);

    return est_layer_once(status, &l.layer, l.o.name, EST_NODES(x), NULL);
}

est_node est_depthwise_conv2d_layer(est_node x, int64_t multiplier, int kernel_size, const est_conv2d_options *options)
{
    conv       l;
    est_status status = conv_fill(&l, &depthwise_class, multiplier, kernel_size, options);

    return est_layer_once(status, &l.layer, l.o.name, EST_NODES(x), NULL);
}

est_layer *est_layer_separable_conv2d(int64_t filters, int kernel_size, const est_separable_conv2d_options *options)
{
    est_separable_conv2d_options o;
    conv                         l = { .layer = { .class = &separable_class }, .size = kernel_size };

    if (est_options_take(EST_STRUCT_SIZE(est_separable_conv2d_options), options, &o) != EST_OK) return NULL;
    l.filters           = o.depth_multiplier != 0 ? o.depth_multiplier : 1;
    l.n_points          = filters;
    l.point_initializer = o.pointwise_initializer;
    l.point_regularizer = o.pointwise_regularizer;
    l.o                 = (est_conv2d_options){ .kernel_width       = o.kernel_width,
                                                .stride             = o.stride,
                                                .stride_width       = o.stride_width,
                                                .padding            = o.padding,
                                                .activation         = o.activation,
                                                .no_bias            = o.no_bias,
                                                .kernel_initializer = o.depthwise_initializer,
                                                .kernel_regularizer = o.depthwise_regularizer,
                                                .bias_initializer   = o.bias_initializer,
                                                .bias_regularizer   = o.bias_regularizer };
    return conv_sizes(&l) == EST_OK ? est_layer_make(&l.layer, o.name) : NULL;
}

/* --- pooling ------------------------------------------------------------------------------------------------------ */

typedef struct pool {
    est_layer          layer;
    int                size;
    est_pool2d_options o; /* sizes and strides filled in */
} pool;

typedef est_node (*pool_fn)(est_node x, int size_h, int size_w, int stride_h, int stride_w, est_padding padding);

static est_node pool_windows(const est_layer *self, est_node x, pool_fn fn)
{
    const pool *l = (const pool *)self;

    return fn(x, l->size, l->o.width, l->o.stride, l->o.stride_width, l->o.padding);
}

static est_node max_pool_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return pool_windows(self, in.data[0], est_max_pool);
}

static est_node avg_pool_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return pool_windows(self, in.data[0], est_avg_pool);
}

typedef est_node (*reduce_fn)(est_node x, est_i64s axes, bool keep_dims);

static est_node pool_all(const est_layer *self, est_node x, reduce_fn reduce)
{
    if (!est_layer_check(x, self->class->scope, 4, 4)) return est_graph_poison(x.graph, EST_INVALID_ARGUMENT);
    return reduce(x, EST_I64S(1, 2), false);
}

static est_node global_max_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return pool_all(self, in.data[0], est_reduce_max);
}

static est_node global_avg_call(const est_layer *self, est_nodes in, const est_call_options *call)
{
    (void)call;
    return pool_all(self, in.data[0], est_reduce_mean);
}

/* clang-format off */
static const est_layer_class
    max_class        = { "MaxPooling2D", "max_pooling2d", sizeof(pool), 1, 1, .call = max_pool_call },
    avg_class        = { "AveragePooling2D", "average_pooling2d", sizeof(pool), 1, 1, .call = avg_pool_call },
    global_max_class = { "GlobalMaxPooling2D", "global_max_pooling2d", sizeof(est_layer), 1, 1,
                         .call = global_max_call },
    global_avg_class = { "GlobalAveragePooling2D", "global_average_pooling2d", sizeof(est_layer), 1, 1,
                         .call = global_avg_call };
/* clang-format on */

static est_status pool_fill(pool *l, const est_layer_class *class, int size, const est_pool2d_options *options)
{
    *l = (pool){ .layer = { .class = class }, .size = size };
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_pool2d_options), options, &l->o));
    if (size <= 0) return est_fail(EST_INVALID_ARGUMENT, "%s layer: windows of size %d", class->scope, size);
    if (l->o.width <= 0) l->o.width = size;
    if (l->o.stride_width <= 0) l->o.stride_width = l->o.stride > 0 ? l->o.stride : l->o.width;
    if (l->o.stride <= 0) l->o.stride = size;
    return EST_OK;
}

static est_layer *make_pool(const est_layer_class *class, int size, const est_pool2d_options *options)
{
    pool l;

    return pool_fill(&l, class, size, options) == EST_OK ? est_layer_make(&l.layer, l.o.name) : NULL;
}

static est_node pool_once(const est_layer_class *class, est_node x, int size, const est_pool2d_options *options)
{
    pool       l;
    est_status status = pool_fill(&l, class, size, options);

    return est_layer_once(status, &l.layer, l.o.name, EST_NODES(x), NULL);
}

est_layer *est_layer_max_pool2d(int size, const est_pool2d_options *options)
{
    return make_pool(&max_class, size, options);
}

est_layer *est_layer_avg_pool2d(int size, const est_pool2d_options *options)
{
    return make_pool(&avg_class, size, options);
}

est_node est_max_pool2d(est_node x, int size, const est_pool2d_options *options)
{
    return pool_once(&max_class, x, size, options);
}

est_node est_avg_pool2d(est_node x, int size, const est_pool2d_options *options)
{
    return pool_once(&avg_class, x, size, options);
}

est_layer *est_layer_global_max_pool2d(const char *name)
{
    return est_layer_make(&(est_layer){ .class = &global_max_class }, name);
}

est_layer *est_layer_global_avg_pool2d(const char *name)
{
    return est_layer_make(&(est_layer){ .class = &global_avg_class }, name);
}
