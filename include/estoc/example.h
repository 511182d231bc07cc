/* SPDX-License-Identifier: Apache-2.0
 *
 * tf.train.Example and SequenceExample: named lists of bytes, float32 or int64, as they lie in TFRecord files.
 *
 * Writing: fill a builder, take its bytes, reset it for the next one.
 *
 *     est_example_set_i64s(ex, "clicks", &clicks, 1);
 *     est_example_set_f32s(ex, "price", prices, n_prices);
 *     est_example_set_bytes(ex, "city", &(est_str){ "Bern", 4 }, 1);
 *     status = est_example_serialize(ex, &bytes);     (then est_tfrecord_write(writer, bytes.data, bytes.size))
 *     est_example_reset(ex);
 *
 * Reading: create a parser for the features to read, then parse any number of serialized examples into one batch of
 * tensors.
 *
 *     static const est_feature_spec specs[] = {
 *         { .name = "price",  .dtype = EST_F32, .shape = { 1, { 3 } } },              three values, required
 *         { .name = "clicks", .dtype = EST_I64, .default_value = zero },              a scalar that may be missing
 *         { .name = "words",  .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },         any number
 *     };
 *     est_example_parser_create((est_feature_specs){ specs, 3 }, &parser);
 *     est_example_parse(parser, records, n, batch);   (batch[i] belongs to specs[i])
 *
 * Types are never converted: a float32 feature stored as int64 is an error, as in TensorFlow. When a name occurs twice
 * in an example, the last one counts.
 *
 * Threading: one thread at a time for each object; use one parser per thread. */
#ifndef ESTOC_EXAMPLE_H
#define ESTOC_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estoc/status.h"
#include "estoc/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- building ----------------------------------------------------------------------------------------------------- */

typedef struct est_example est_example;

/* A builder without features. */
EST_API EST_MUST_CHECK est_status est_example_create(est_example **out);

/* Sets the n values (copied) of a feature; setting it again replaces them. est_example_serialize reports failures. */
EST_API void est_example_set_bytes(est_example *example, const char *name, const est_str *values, size_t n);
EST_API void est_example_set_f32s(est_example *example, const char *name, const float *values, size_t n);
EST_API void est_example_set_i64s(est_example *example, const char *name, const int64_t *values, size_t n);

/* The bytes of the Example, borrowed until the builder is used again. Features are in the order of their names, so
 * equal examples have equal bytes. */
EST_API EST_MUST_CHECK est_status est_example_serialize(est_example *example, est_str *out);

/* Removes all features and clears a failure. */
EST_API void est_example_reset(est_example *example);

/* NULL is fine. */
EST_API void est_example_free(est_example *example);

/* A SequenceExample: a context, which is like an Example, and lists of steps by name. */
typedef struct est_sequence_example est_sequence_example;

/* A builder without features. */
EST_API EST_MUST_CHECK est_status est_sequence_example_create(est_sequence_example **out);

/* The context, filled by the est_example_set functions; borrowed until the sequence is freed. */
EST_API est_example *est_sequence_example_context(est_sequence_example *sequence);

/* Appends one step of n values to the list of that name. */
EST_API void est_sequence_example_add_bytes(est_sequence_example *sequence, const char *name, const est_str *values,
                                            size_t n);
EST_API void est_sequence_example_add_f32s(est_sequence_example *sequence, const char *name, const float *values,
                                           size_t n);
EST_API void est_sequence_example_add_i64s(est_sequence_example *sequence, const char *name, const int64_t *values,
                                           size_t n);

/* Adds an empty list of that name, unless it exists. */
EST_API void est_sequence_example_add_list(est_sequence_example *sequence, const char *name);

/* As the functions of the same name above, context included. */
EST_API EST_MUST_CHECK est_status est_sequence_example_serialize(est_sequence_example *sequence, est_str *out);
EST_API void                      est_sequence_example_reset(est_sequence_example *sequence);
EST_API void                      est_sequence_example_free(est_sequence_example *sequence);

/* --- parsing ------------------------------------------------------------------------------------------------------ */

/* How the values of one feature over a batch of n examples become tensors. "Values" stands for one step where a list of
 * a SequenceExample is parsed: there a row is made of steps, and `shape` is that of a step. */
typedef enum est_feature_rows {
    /* exactly `shape`, or the default: values [n, shape...]. In a list: any number of such steps, values [n_steps,
     * shape...] and splits [n + 1] */
    EST_ROWS_FIXED = 0,
    /* any number of `shape`: values [n, longest, shape...], shorter rows filled up with the default, and lengths [n] */
    EST_ROWS_PADDED,
    EST_ROWS_RAGGED /* any number: values [n_values] and splits [n + 1]. In a list: splits count steps, and
                         * step_splits [n_steps + 1] say where the values of each step are */
} est_feature_rows;

typedef struct est_feature_spec {
    const char      *name;
    est_dtype        dtype; /* EST_F32, EST_I64 or EST_STRING */
    est_feature_rows rows;  /* 0: EST_ROWS_FIXED */
    est_shape        shape; /* all dimensions known; zeroed: a scalar; not used by EST_ROWS_RAGGED */

    /* EST_ROWS_FIXED: the value for an example without the feature, a scalar or of `shape`; NULL: such an example is an
     * error. EST_ROWS_PADDED: the scalar to pad with; NULL: 0 or "". Copied. */
    const est_tensor *default_value;

    bool     required; /* a missing padded or ragged feature or a missing list is an error, not a row without values */
    uint64_t reserved[2]; /* zeros: room for members to come */
} est_feature_spec;

/* A list of them: EST_FEATURE_SPECS({ .name = "price", .dtype = EST_F32 }, ...). */
typedef struct est_feature_specs {
    const est_feature_spec *data;
    int                     n;
} est_feature_specs;

#define EST_FEATURE_SPECS(...) EST_SPAN(est_feature_specs, const est_feature_spec, __VA_ARGS__)

/* One feature of a batch; see est_feature_rows for which tensors there are, the others are NULL. */
typedef struct est_feature_batch {
    est_tensor *values;
    est_tensor *splits;      /* int64, as in est_ragged */
    est_tensor *step_splits; /* int64 */
    est_tensor *lengths;     /* int64: values or steps of each row before filling up */
} est_feature_batch;

/* Frees the tensors and zeroes the structs. */
EST_API void est_feature_batch_clear(est_feature_batch *batch, size_t n);

typedef struct est_example_parser est_example_parser;

/* A parser for these features; the specs are copied. */
EST_API EST_MUST_CHECK est_status est_example_parser_create(est_feature_specs specs, est_example_parser **out);

/* Parses n serialized Examples into batch[specs.n], which the caller clears. Strings are copied, so the examples may be
 * freed. An error names the example (from 0) and the feature, and leaves `batch` all zero. */
EST_API EST_MUST_CHECK est_status est_example_parse(est_example_parser *parser, const est_str *examples, size_t n,
                                                    est_feature_batch *batch);

/* NULL is fine. */
EST_API void est_example_parser_free(est_example_parser *parser);

typedef struct est_sequence_parser est_sequence_parser;

/* A parser for these features of the context and these lists of steps. */
EST_API EST_MUST_CHECK est_status est_sequence_parser_create(est_feature_specs context, est_feature_specs lists,
                                                             est_sequence_parser **out);

/* Parses n serialized SequenceExamples; as est_example_parse. */
EST_API EST_MUST_CHECK est_status est_sequence_parse(est_sequence_parser *parser, const est_str *examples, size_t n,
                                                     est_feature_batch *context, est_feature_batch *lists);

/* NULL is fine. */
EST_API void est_sequence_parser_free(est_sequence_parser *parser);

/* --- whatever an Example has -------------------------------------------------------------------------------------- */

/* The features of one Example without specs, in the order of its bytes: names and new tensors with one axis, strings,
 * float32 or int64; NULL for a feature without values of any kind. For looking at a record; a parser is much faster.
 * Clear the list, also after a failure. */
EST_API EST_MUST_CHECK est_status est_example_read(est_str example, est_named_tensors *out);
EST_API void                      est_example_read_clear(est_named_tensors *read);

#ifdef __cplusplus
}
#endif
#endif
