/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations a graph is built from, one builder each. Names, meaning and shape rules are TensorFlow's.
 *
 * Elementwise operations broadcast as numpy does. Axes may be negative and then count from the end. A list of axes of
 * EST_ALL_AXES means every axis. None of these fail visibly: see <estoc/graph.h>. */
#ifndef ESTOC_OPS_H
#define ESTOC_OPS_H

#include "estoc/example.h"
#include "estoc/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EST_ALL_AXES ((est_i64s){ 0 })

/* --- sources and plumbing ----------------------------------------------------------------------------------------- */

/* A constant; the tensor is shared. */
EST_API est_node est_const(est_graph *graph, est_tensor *value);
/* A constant scalar of any numeric dtype, and small constant vectors. */
EST_API est_node est_scalar(est_graph *graph, est_dtype dtype, double value);
EST_API est_node est_const_f32(est_graph *graph, est_shape shape, const float *values);
EST_API est_node est_const_i64(est_graph *graph, est_shape shape, const int64_t *values);
EST_API est_node est_const_i32(est_graph *graph, est_shape shape, const int32_t *values);
/* An int32 vector constant from a list. */
EST_API est_node est_const_list(est_graph *graph, est_i64s values);
/* A value that every run must feed. */
EST_API est_node est_placeholder(est_graph *graph, const char *name, est_dtype dtype, est_shape shape);
/* y = x. */
EST_API est_node est_identity(est_node x);
/* y = x, but no gradient flows back. */
EST_API est_node est_stop_gradient(est_node x);
/* Runs all of `nodes` and has no output: one target for many updates. */
EST_API est_node est_group(est_graph *graph, est_nodes nodes);
/* x as another dtype; numbers to bool as x != 0. */
EST_API est_node est_cast(est_node x, est_dtype dtype);
/* x, or an error naming this node when an element is NaN or infinite. */
EST_API est_node est_check_numerics(est_node x, const char *message);
/* x, or an error with `message`, the first element that is not in [low, high] and its place. NaN is not. */
EST_API est_node est_check_range(est_node x, double low, double high, const char *message);

/* --- shapes and pieces -------------------------------------------------------------------------------------------- */

/* The same elements under another shape; one entry may be -1. */
EST_API est_node est_reshape(est_node x, est_i64s shape);
/* The same with a shape computed by the graph. */
EST_API est_node est_reshape_to(est_node x, est_node shape);
EST_API est_node est_expand_dims(est_node x, int axis);
/* Drops axes of size 1: the named ones, or all. */
EST_API est_node est_squeeze(est_node x, est_i64s axes);
/* The shape as an int32 vector; the number of elements as an int32 scalar. */
EST_API est_node est_shape_of(est_node x);
EST_API est_node est_size(est_node x);
EST_API est_node est_fill(est_node dims, est_node value);
EST_API est_node est_zeros_like(est_node x);
EST_API est_node est_ones_like(est_node x);
/* start, start + delta, ... below limit. */
EST_API est_node est_range(est_node start, est_node limit, est_node delta);
EST_API est_node est_concat(est_nodes parts, int axis);
/* n equal parts; out receives n nodes. */
EST_API void est_split(est_node x, int n, int axis, est_node *out);
/* size[i] -1 means to the end. */
EST_API est_node est_slice(est_node x, est_i64s begin, est_i64s size);
/* Python's x[begin:end:stride] with TensorFlow's masks (bit i for axis i); lists all of one length. */
typedef struct est_strided_slice_options {
    int64_t begin_mask;       /* bit i: begin[i] is ignored */
    int64_t end_mask;         /* bit i: end[i] is ignored */
    int64_t shrink_axis_mask; /* bit i: take begin[i] alone and drop the axis */
    int64_t new_axis_mask;    /* bit i: a new axis of size 1 here */
    int64_t ellipsis_mask;    /* bit i: as many full axes as are needed here */
} est_strided_slice_options;
EST_API est_node est_strided_slice(est_node x, est_i64s begin, est_i64s end, est_i64s strides,
                                   est_strided_slice_options options);
/* Stacks equal shapes along a new axis, and back; unpack's out receives as many nodes as the axis is long. */
EST_API est_node est_pack(est_nodes parts, int axis);
EST_API void     est_unpack(est_node x, int n, int axis, est_node *out);
EST_API est_node est_tile(est_node x, est_i64s multiples);
EST_API est_node est_transpose(est_node x, est_i64s permutation);
EST_API est_node est_broadcast_to(est_node x, est_node shape);
/* dy summed over the axes along which x was broadcast, so that it has x's shape. */
EST_API est_node est_sum_to_shape(est_node dy, est_node x);
/* before/after: int list of 2 per axis: [[b0,a0],[b1,a1],...] flattened. */
EST_API est_node est_pad(est_node x, est_i64s paddings, double value);
/* Slices of params along axis, picked by indices; an index out of range is an error. */
EST_API est_node est_gather(est_node params, est_node indices, int axis);
/* out[id[i], ...] += x[i, ...]; negative ids are dropped. n: int32 scalar or a count known now. */
EST_API est_node est_unsorted_segment_sum(est_node x, est_node ids, est_node n_segments);
/* Distinct values of a vector in order of first occurrence; *index (may be NULL) maps every element to one of them. */
EST_API est_node est_unique(est_node x, est_node *index);
/* Coordinates of the true elements, int64 [n, rank]. */
EST_API est_node est_where(est_node condition);
/* condition ? a : b, elementwise, broadcasting. */
EST_API est_node est_select(est_node condition, est_node a, est_node b);
EST_API est_node est_one_hot(est_node indices, int64_t depth, double on, double off, int axis);
/* The k largest of the last axis, sorted; *indices (int32) may be NULL. */
EST_API est_node est_top_k(est_node x, int64_t k, est_node *indices);
/* Whether targets[i] is among the k largest of predictions[i, :]. */
EST_API est_node est_in_top_k(est_node predictions, est_node targets, int64_t k);

/* --- elementwise -------------------------------------------------------------------------------------------------- */

/* Of one tensor. */
EST_API est_node est_neg(est_node x);    /* -x */
EST_API est_node est_abs(est_node x);    /* |x| */
EST_API est_node est_sign(est_node x);   /* -1, 0 or 1 */
EST_API est_node est_square(est_node x); /* x^2 */
EST_API est_node est_sqrt(est_node x);
EST_API est_node est_rsqrt(est_node x);      /* 1 / sqrt(x) */
EST_API est_node est_reciprocal(est_node x); /* 1 / x */
EST_API est_node est_exp(est_node x);
EST_API est_node est_expm1(est_node x); /* exp(x) - 1 */
EST_API est_node est_log(est_node x);   /* natural */
EST_API est_node est_log1p(est_node x); /* log(1 + x) */
EST_API est_node est_sin(est_node x);
EST_API est_node est_cos(est_node x);
EST_API est_node est_tanh(est_node x);
EST_API est_node est_sigmoid(est_node x); /* 1 / (1 + exp(-x)) */
EST_API est_node est_erf(est_node x);
EST_API est_node est_floor(est_node x);
EST_API est_node est_ceil(est_node x);
EST_API est_node est_rint(est_node x);           /* to the nearest, ties to even */
EST_API est_node est_round_bfloat16(est_node x); /* float32 with the 8 significant bits of bfloat16; gradients pass */
EST_API est_node est_relu(est_node x);           /* max(x, 0) */
EST_API est_node est_relu6(est_node x);          /* min(max(x, 0), 6) */
EST_API est_node est_elu(est_node x);            /* x, or exp(x) - 1 below 0 */
EST_API est_node est_selu(est_node x);           /* scaled elu */
EST_API est_node est_softplus(est_node x);       /* log(1 + exp(x)) */
EST_API est_node est_softsign(est_node x);       /* x / (1 + |x|) */
EST_API est_node est_logical_not(est_node x);    /* of booleans */
EST_API est_node est_is_nan(est_node x);         /* boolean, as the next two */
EST_API est_node est_is_inf(est_node x);
EST_API est_node est_is_finite(est_node x);

/* Of two, broadcast. */
EST_API est_node est_add(est_node a, est_node b);        /* a + b */
EST_API est_node est_sub(est_node a, est_node b);        /* a - b */
EST_API est_node est_mul(est_node a, est_node b);        /* a b */
EST_API est_node est_div(est_node a, est_node b);        /* a / b; integers: towards zero */
EST_API est_node est_div_no_nan(est_node a, est_node b); /* 0 where b is 0 */
EST_API est_node est_floor_div(est_node a, est_node b);  /* floor(a / b) */
EST_API est_node est_floor_mod(est_node a, est_node b);  /* a - b floor(a / b) */
EST_API est_node est_maximum(est_node a, est_node b);
EST_API est_node est_minimum(est_node a, est_node b);
EST_API est_node est_pow(est_node a, est_node b);                /* a^b */
EST_API est_node est_squared_difference(est_node a, est_node b); /* (a - b)^2 */
EST_API est_node est_equal(est_node a, est_node b);              /* boolean, as all below */
EST_API est_node est_not_equal(est_node a, est_node b);
EST_API est_node est_less(est_node a, est_node b);
EST_API est_node est_less_equal(est_node a, est_node b);
EST_API est_node est_greater(est_node a, est_node b);
EST_API est_node est_greater_equal(est_node a, est_node b);
EST_API est_node est_logical_and(est_node a, est_node b);
EST_API est_node est_logical_or(est_node a, est_node b);

/* x where it is positive, alpha x elsewhere. */
EST_API est_node est_leaky_relu(est_node x, double alpha);
/* x * factor and x + term with a number. */
EST_API est_node est_scale(est_node x, double factor);
EST_API est_node est_shift(est_node x, double term);
/* The sum of nodes of one shape. */
EST_API est_node est_add_n(est_nodes parts);
EST_API est_node est_clip_by_value(est_node x, double low, double high);
/* x scaled down so that its l2 norm is at most `norm`. */
EST_API est_node est_clip_by_norm(est_node x, double norm);
/* Every x scaled by the same factor so that the norm of all together is at most `norm`; in place in `xs`; returns the
 * norm before. Entries with indices are counted by their rows. */
EST_API est_node est_clip_by_global_norm(est_gradient *xs, int n, double norm);
EST_API est_node est_global_norm(const est_gradient *xs, int n);
/* sum(x * x) / 2. */
EST_API est_node est_l2_loss(est_node x);

/* --- reductions --------------------------------------------------------------------------------------------------- */

/* Over the named axes, which are dropped or, with keep_dims, kept as 1. Largest and smallest pass NaN on; the last two
 * are of booleans. */
EST_API est_node est_reduce_sum(est_node x, est_i64s axes, bool keep_dims);
EST_API est_node est_reduce_mean(est_node x, est_i64s axes, bool keep_dims);
EST_API est_node est_reduce_max(est_node x, est_i64s axes, bool keep_dims);
EST_API est_node est_reduce_min(est_node x, est_i64s axes, bool keep_dims);
EST_API est_node est_reduce_prod(est_node x, est_i64s axes, bool keep_dims);
EST_API est_node est_reduce_all(est_node x, est_i64s axes, bool keep_dims);
EST_API est_node est_reduce_any(est_node x, est_i64s axes, bool keep_dims);
/* Of all elements, as a scalar. */
EST_API est_node est_sum(est_node x);
EST_API est_node est_mean(est_node x);
/* Where along the axis the largest (smallest) element is, the first of equals; int64. */
EST_API est_node est_argmax(est_node x, int axis);
EST_API est_node est_argmin(est_node x, int axis);

/* --- linear algebra, convolution, normalisation ------------------------------------------------------------------- */

/* a [m,k] (or its transpose) times b [k,n] (or its transpose). */
EST_API est_node est_matmul(est_node a, est_node b);
EST_API est_node est_matmul_t(est_node a, est_node b, bool transpose_a, bool transpose_b);
/* The same over leading batch axes, which broadcast. */
EST_API est_node est_batch_matmul(est_node a, est_node b, bool transpose_a, bool transpose_b);
/* x + bias along the last axis. */
EST_API est_node est_bias_add(est_node x, est_node bias);

typedef enum est_padding { EST_VALID = 0, EST_SAME } est_padding;

/* NHWC images. filter [height, width, in, out]; depthwise [height, width, in, multiplier]. Strides over height and
 * width. */
EST_API est_node est_conv2d(est_node x, est_node filter, int stride_h, int stride_w, est_padding padding);
/* Its transpose: x [batch, rows, columns, out] as what a convolution of images of these sizes gave, which are an int32
 * [batch, height, width, in]; the result has them. */
EST_API est_node est_conv2d_transpose(est_node x, est_node filter, est_node sizes, int stride_h, int stride_w,
                                      est_padding padding);
EST_API est_node est_depthwise_conv2d(est_node x, est_node filter, int stride_h, int stride_w, est_padding padding);
EST_API est_node est_max_pool(est_node x, int size_h, int size_w, int stride_h, int stride_w, est_padding padding);
EST_API est_node est_avg_pool(est_node x, int size_h, int size_w, int stride_h, int stride_w, est_padding padding);
/* Normalises over all but the last axis (NHWC). While training, batch statistics are used and returned in out[1]
 * (mean) and out[2] (variance, unbiased); otherwise mean and variance are used. out receives 3 nodes. */
EST_API void est_fused_batch_norm(est_node x, est_node scale, est_node offset, est_node mean, est_node variance,
                                  double epsilon, bool training, est_node out[3]);

/* exp(x) / sum(exp(x)) along the axis, and its logarithm. */
EST_API est_node est_softmax(est_node logits, int axis);
EST_API est_node est_log_softmax(est_node logits, int axis);
/* est_softmax along the last axis: an est_activation, EST_DENSE(.activation = est_softmax_last). */
EST_API est_node est_softmax_last(est_node logits);
/* Logits come first here; the losses of <estoc/losses.h> take labels first, as TensorFlow's do.
 * Cross entropy of each row against a distribution, against a class number (int32 or int64), and of each element
 * against a probability. */
EST_API est_node est_softmax_xent(est_node logits, est_node labels);
EST_API est_node est_sparse_softmax_xent(est_node logits, est_node labels);
EST_API est_node est_sigmoid_xent(est_node logits, est_node labels);

/* --- random ------------------------------------------------------------------------------------------------------- */

/* seed 0: one is drawn from the graph's. Another one counts together with the graph's, and alone where that is 0: it
 * then draws the same in every process. shape: an int32 or int64 vector node. */
EST_API est_node est_random_uniform(est_node shape, est_dtype dtype, uint64_t seed); /* [0, 1) */
EST_API est_node est_random_normal(est_node shape, est_dtype dtype, uint64_t seed);
EST_API est_node est_truncated_normal(est_node shape, est_dtype dtype, uint64_t seed); /* within two deviations */
EST_API est_node est_random_uniform_int(est_node shape, est_node low, est_node high, uint64_t seed); /* [low, high) */
/* Zeroes each element with probability `rate` and scales the others by 1 / (1 - rate). */
EST_API est_node est_dropout(est_node x, double rate, uint64_t seed);

/* --- lookup tables ------------------------------------------------------------------------------------------------ */

/* Options of a vocabulary; a zeroed struct is valid. */
typedef struct est_table_options {
    size_t      struct_size;     /* filled by EST_TABLE */
    const char *name;            /* NULL: "vocabulary"; a name that is taken gets _1 and so on */
    int64_t     size;            /* of a file: how many lines are used, of which it must have as many; 0: all */
    int64_t     num_oov_buckets; /* additional ids for unknown keys, which share them by hash */
    int64_t     default_id;      /* with has_default: the id of keys which are not there */
    bool        has_default;     /* false: -1, or num_oov_buckets; not both */
} est_table_options;
#define EST_TABLE(...) (&(const est_table_options){ .struct_size = EST_STRUCT_SIZE(est_table_options), __VA_ARGS__ })

/* A vocabulary: the table from keys, strings or int64, to their numbers from 0. A file has one key per line, which ends
 * with LF or CRLF; empty lines, duplicate lines and an empty file are errors. Each session reads it once, before the
 * first step that uses the table, and reports errors then. Exports include it as an asset. A list is a vector of
 * distinct keys, shared. A table whose device names a task of the session's remote is filled and used there. */
EST_API est_node est_vocabulary_file(est_graph *graph, const char *path, est_dtype key,
                                     const est_table_options *options);
EST_API est_node est_vocabulary_list(est_graph *graph, est_tensor *keys, const est_table_options *options);
/* How many keys a vocabulary file has: the rows that an embedding of its ids needs, plus num_oov_buckets. Empty lines
 * and a file without lines are errors, as above; a key that is there twice is counted twice, and an error later. */
EST_API EST_MUST_CHECK est_status est_vocabulary_count(const char *path, int64_t *out);
/* The ids of keys of any shape, int64. Among strings int64 keys are looked up as printed in decimal. With
 * num_oov_buckets a key that is not there gets the size of the vocabulary + Fingerprint64 of it, an integer printed in
 * decimal, modulo num_oov_buckets. */
EST_API est_node est_lookup(est_node table, est_node keys);
/* The reverse lookup for a vocabulary of strings: the strings of int64 ids; `unknown` (NULL: "UNK") for invalid ids.
 * Every call creates its own table. */
EST_API est_node est_lookup_entry(est_node table, est_node ids, const char *unknown);

/* --- variables ---------------------------------------------------------------------------------------------------- */

/* The handle of a variable. The shape must be fully known. A name that is taken gets _1 and so on; to share a
 * variable pass its handle. */
EST_API est_node est_variable(est_graph *graph, const char *name, est_dtype dtype, est_shape shape);
/* Sets the initial value of a variable, which est_session_init() assigns. */
EST_API void est_variable_initializer(est_node variable, est_node value);
/* The operation that assigns it, which can be run again; EST_NO_NODE: none was set. */
EST_API est_node est_variable_initializer_op(est_node variable);
EST_API est_node est_read_variable(est_node variable);
/* The value computed from variables as they are after the operations of `before`, which all were made before this call:
 * for the value of a metric in the run of its update. What reads no variable is not computed again. */
EST_API est_node est_read_after(est_node value, est_nodes before);
/* These return the update, to be run as a target. */
EST_API est_node est_assign(est_node variable, est_node value);
EST_API est_node est_assign_add(est_node variable, est_node value);
EST_API est_node est_assign_sub(est_node variable, est_node value);
/* Rows of a variable; its gradient is sparse. */
EST_API est_node est_resource_gather(est_node variable, est_node indices);
EST_API est_node est_scatter_add(est_node variable, est_node indices, est_node updates);
EST_API est_node est_scatter_sub(est_node variable, est_node indices, est_node updates);
EST_API est_node est_scatter_update(est_node variable, est_node indices, est_node updates);
/* Sums rows with equal indices: the meaning stays, every index is left once. */
EST_API est_gradient est_dedup(est_gradient slices);

/* --- categories and ragged rows ----------------------------------------------------------------------------------- */

/* Fingerprint64 of the bytes, modulo n_buckets; int64. */
EST_API est_node est_string_to_hash_bucket(est_node strings, int64_t n_buckets);
/* Numbers as TensorFlow prints them: integers in decimal, floats as "%f", booleans as "true" and "false". */
EST_API est_node est_as_string(est_node x);
/* Texts. The case is that of ASCII letters; white space goes at both ends; texts one after the other, of one shape or
 * scalars (separator NULL: nothing between them); bytes, or characters of UTF-8, int32; a part of each text, from `at`
 * (below 0: from the end) on, where both are integers or one of each for every text; a number, of which blanks may be
 * around: any other text is EST_INVALID_ARGUMENT when the step runs. */
EST_API est_node est_string_lower(est_node x);
EST_API est_node est_string_upper(est_node x);
EST_API est_node est_string_strip(est_node x);
EST_API est_node est_string_join(est_nodes parts, const char *separator);
EST_API est_node est_string_length(est_node x, bool characters);
EST_API est_node est_substr(est_node x, est_node at, est_node size, bool characters);
EST_API est_node est_string_to_number(est_node x, est_dtype dtype);
/* How many of the boundaries are not greater than each element, int32; all of them for NaN. Boundaries must not
 * descend. Integers are compared as float32. */
EST_API est_node est_bucketize(est_node x, est_f32s boundaries);

/* A list of values for each row of a batch: row r has values[splits[r] .. splits[r + 1]). splits: int64 [batch + 1]. */
typedef struct est_ragged_node {
    est_node values, splits;
} est_ragged_node;

typedef struct est_ragged_nodes {
    const est_ragged_node *data;
    int                    n;
} est_ragged_nodes;

#define EST_RAGGED_NODES(...) EST_SPAN(est_ragged_nodes, const est_ragged_node, __VA_ARGS__)

/* x [batch, n] or [batch] without the elements that stand for nothing: "", -1 of integers, 0 of floats. */
EST_API est_ragged_node est_ragged_from_dense(est_node x);
/* [batch, longest row], filled up with a number; how many values each row has, int64 [batch]. */
EST_API est_node est_ragged_to_dense(est_ragged_node x, double default_number);
EST_API est_node est_ragged_lengths(est_ragged_node x);

/* What the words of a text are. */
typedef enum est_word_split {
    EST_SPLIT_SPACE = 0,  /* what is between white space; or between separators, where words may be empty */
    EST_SPLIT_CHARACTERS, /* characters of UTF-8 */
    EST_SPLIT_BYTES,
    EST_SPLIT_NOT /* the whole text */
} est_word_split;

typedef struct est_words_options {
    size_t         struct_size;    /* filled by EST_WORDS */
    bool           lower;          /* first: letters of ASCII become small */
    bool           no_punctuation; /* first: that of ASCII goes */
    est_word_split split;
    const char    *separator;  /* with EST_SPLIT_SPACE; NULL or "": white space */
    int64_t        splits_max; /* with EST_SPLIT_SPACE: the rest is the last word; 0: no bound */
    est_i64s       ngrams;     /* for each number n all rows of n words with blanks between them; empty: the words */
} est_words_options;

#define EST_WORDS(...) (&(const est_words_options){ .struct_size = EST_STRUCT_SIZE(est_words_options), __VA_ARGS__ })

/* The words of texts [batch], a row for each. */
EST_API est_ragged_node est_words(est_node x, const est_words_options *options);
/* Which row each value of a ragged tensor is in: int64 [n] from splits int64 [rows + 1]. */
EST_API est_node est_row_ids(est_node splits, est_node values);
/* Drops the values whose `keep`, a boolean each, is false. */
EST_API est_ragged_node est_ragged_keep(est_ragged_node x, est_node keep);
/* A hash, modulo n_buckets, for every way to take one value of each input's row; the last input varies fastest. Values
 * are strings or int64; up to EST_CROSS_MAX inputs. hash_key 0 stands for TensorFlow's own, 0xDECAFCAFFE. */
#define EST_CROSS_MAX 32
EST_API est_ragged_node est_ragged_cross(est_ragged_nodes inputs, int64_t n_buckets, uint64_t hash_key);
/* How often each id occurs in a row, or the sum of its weights (float32, one a value; EST_NO_NODE: 1): float32
 * [batch, depth]. As in TensorFlow's indicator_column, ids that are not in [0, depth) are not counted. */
EST_API est_node est_multi_hot(est_ragged_node ids, est_node weights, int64_t depth);

/* How the embeddings of one row become one: Σ w e, divided by Σ w, by 1, or by sqrt(Σ w²). The default is the mean, and
 * the sum in linear models. */
typedef enum est_combiner {
    EST_COMBINE_DEFAULT = 0,
    EST_COMBINE_MEAN,
    EST_COMBINE_SUM,
    EST_COMBINE_SQRTN
} est_combiner;

/* Rows of a table (a variable [rows, width]) picked by ids and combined: [batch, width]. weights: one a value, or
 * EST_NO_NODE for 1. Ids below 0 are dropped; so are ids of a weight that is not above 0,
 * but for EST_COMBINE_SUM. A row without ids is zeros, an id that is not in the table an error. With max_norm above 0
 * the rows of the table are first scaled down to that l2 norm. The gradient is sparse, every id once. */
EST_API est_node est_embedding_bag(est_node table, est_ragged_node ids, est_node weights, est_combiner combiner,
                                   double max_norm);

/* --- serialized examples ------------------------------------------------------------------------------------------ */

/* One feature of a batch of n examples: fixed ones [n, shape...]; padded ones [n, longest, shape...] and lengths [n];
 * ragged ones values and splits [n + 1]. Unused members are EST_NO_NODE. */
typedef struct est_parsed {
    est_node values, splits, lengths;
} est_parsed;

/* Parses serialized tf.train.Examples, a string vector, as est_example_parse does; out[i] belongs to specs[i]. In
 * TensorFlow a padded or ragged feature cannot be required, so `required` of those is not looked at. */
EST_API void est_parse_examples(est_node examples, est_feature_specs specs, est_parsed *out);

#ifdef __cplusplus
}
#endif
#endif
