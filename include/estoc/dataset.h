/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets: pipelines that read rows and transform them for a model.
 *
 *     est_dataset *d = est_dataset_files("train-*.tfrecord");
 *
 *     d = est_dataset_tfrecords(d, EST_INTERLEAVE(.cycle = 4));
 *     d = est_dataset_shuffle(d, 10000, seed);
 *     d = est_dataset_repeat(d, EST_FOREVER);
 *     d = est_dataset_parse_examples(d, specs, 128, EST_PARSE(.workers = EST_AUTO));
 *     d = est_dataset_prefetch(d, 2);
 *     status = est_dataset_finish(d, &dataset);
 *
 *     status = est_iterator_create(dataset, &rows);
 *     while ((status = est_iterator_next(rows, element)) == EST_OK) ... est_element_clear(element, n);
 *     (EST_OUT_OF_RANGE, without a message, is the end)
 *
 * A dataset is a chain of stages; each takes the previous one. A failed stage passes its error down the chain, so only
 * est_dataset_finish needs a check. A stage returns a new chain: write `d = est_dataset_shuffle(d, ...)`; the compiler
 * warns about a dropped result. A dataset yields elements; an element has one value for each component, and the
 * components are known before the first element.
 *
 * Order: the same dataset gives the same elements in the same order every time, however many workers it has; seeds
 * determine the order of a shuffle. Only the option `unordered` breaks this.
 *
 * Position: est_iterator_save returns the position as a tensor, for a checkpoint; est_iterator_restore puts a new
 * iterator of the same dataset there, and it continues with the next element. A position includes buffered rows
 * (shuffle, prefetch), so a large shuffle of large rows makes a large position. A partly read file is identified by the
 * last 256 bytes before the position, of the uncompressed contents: reading continues in a file that was appended to,
 * copied, or repaired after the position; a rewritten file is EST_FAILED_PRECONDITION.
 *
 * Bad rows: a row that cannot be decoded, or whose function fails with EST_INVALID_ARGUMENT or EST_DATA_LOSS, is an
 * error. With `bad_rows_max`, a limit for all passes, such rows are skipped, logged and counted; one more is an error.
 *
 * Threading: a finished dataset is immutable, any thread; an iterator belongs to one thread at a time. Callbacks of a
 * stage with workers are called by several threads at once; all others by one at a time, not always the caller's. In an
 * interleave with workers this holds for each inner dataset: callbacks of two of them may run at the same time. A
 * callback that fails reports the reason with est_fail. */
#ifndef ESTOC_DATASET_H
#define ESTOC_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "estoc/csv.h"
#include "estoc/example.h"
#include "estoc/graph.h"
#include "estoc/ops.h"
#include "estoc/status.h"
#include "estoc/tensor.h"
#include "estoc/tfrecord.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_dataset  est_dataset;
typedef struct est_iterator est_iterator;

/* The static description of one component. */
typedef struct est_component {
    const char *name;
    est_dtype   dtype;
    est_shape   shape;  /* of the values; -1: differs between elements */
    bool        ragged; /* rows of unequal length: splits are set, and the first dimension of shape counts values */
    uint64_t    reserved[2]; /* zeros: room for members to come */
} est_component;

/* A list of them: EST_COMPONENTS({ .name = "age", .dtype = EST_F32 }, ...). */
typedef struct est_components {
    const est_component *data;
    int                  n;
} est_components;

#define EST_COMPONENTS(...) EST_SPAN(est_components, const est_component, __VA_ARGS__)

/* The value of one component in one element. Tensors are shared: take a reference to keep one. */
typedef struct est_field {
    est_tensor *values;
    est_tensor *splits; /* int64, as in est_ragged; NULL unless the component is ragged */
} est_field;

/* Completes a dataset: sets *out, or returns the first error of any stage and frees the chain. */
EST_API EST_MUST_CHECK est_status est_dataset_finish(est_dataset *dataset, est_dataset **out);

/* Shares a finished dataset: one more reference, which another chain of stages or est_dataset_free takes. Chains over
 * one dataset share its caches. NULL gives NULL. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_ref(const est_dataset *dataset);

/* Frees a dataset, finished or not, with the stages before it. Iterators keep what they need. NULL is fine. */
EST_API void est_dataset_free(est_dataset *dataset);

/* Calls release(user), in whatever thread, when the last reference to a finished dataset is dropped: then nothing calls
 * the functions of its stages any more. After a failure it is never called. */
EST_API EST_MUST_CHECK est_status est_dataset_keep(est_dataset *dataset, void (*release)(void *user), void *user);

/* The components of a finished dataset, borrowed until it is freed; find: -1 if no component has that name. */
EST_API int                  est_dataset_components(const est_dataset *dataset);
EST_API const est_component *est_dataset_component(const est_dataset *dataset, int i);
EST_API int                  est_dataset_find(const est_dataset *dataset, const char *name);

/* Whether the dataset is infinite: a stage repeats it forever, and no later stage limits it. */
EST_API bool est_dataset_endless(const est_dataset *dataset);

/* --- iterating ---------------------------------------------------------------------------------------------------- */

/* A new iterator before the first element. It shares the dataset. */
EST_API EST_MUST_CHECK est_status est_iterator_create(const est_dataset *dataset, est_iterator **out);

/* The next element into element[n components], which the caller clears. EST_OUT_OF_RANGE at the end. After any other
 * failure the iterator only repeats it. */
EST_API EST_MUST_CHECK est_status est_iterator_next(est_iterator *iterator, est_field *element);

/* Frees the tensors and zeroes the fields. */
EST_API void est_element_clear(est_field *element, int n);

/* The position as a uint8 vector. If a stage met an error while reading ahead, the call fails with that error even
 * before the iterator reaches it: a later position would preserve an error that may be fixed before the restart. */
EST_API EST_MUST_CHECK est_status est_iterator_save(est_iterator *iterator, est_tensor **out);

/* Puts a new iterator at a saved position. The dataset must have the same stages, and its files the bytes that were
 * read; the error says what differs. Positions of another version of the library may fail. After a failure the iterator
 * can only be freed. */
EST_API EST_MUST_CHECK est_status est_iterator_restore(est_iterator *iterator, const est_tensor *position);

typedef struct est_iterator_stats {
    int64_t  elements;    /* handed out */
    int64_t  bad_rows;    /* skipped, in all stages */
    double   wait_secs;   /* spent in est_iterator_next */
    uint64_t reserved[4]; /* zeros: room for members to come */
} est_iterator_stats;

/* Statistics of the iterator so far. */
EST_API est_iterator_stats est_iterator_get_stats(const est_iterator *iterator);

/* Stops the threads and frees the iterator. NULL is fine. */
EST_API void est_iterator_free(est_iterator *iterator);

/* --- sources ------------------------------------------------------------------------------------------------------ */

/* Row i of every tensor is element i: est_dataset_slices(EST_NAMED_TENSORS({ "image", images }, { "digit", digits })).
 * The tensors are shared and have the same number of rows. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_slices(est_named_tensors tensors);

/* One element: the tensors, of any shapes (TensorFlow's Dataset.from_tensors). They are shared. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_tensors(est_named_tensors tensors);

/* start, start + step, ... below stop (above it when step is negative), as the int64 component "value". */
EST_API EST_MUST_CHECK est_dataset *est_dataset_range(int64_t start, int64_t stop, int64_t step);

/* The files that match a shell pattern, in the order of their names, as the string component "path". The pattern is
 * matched when an iterator is created; no match is an error. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_files(const char *pattern);

/* A generator: callbacks that produce elements. `next` fills the zeroed `element` with references that the dataset
 * takes, and returns EST_OUT_OF_RANGE at the end; the values must fit the components. Without `save` and `restore` a
 * position is the number of elements, and restoring generates them all again. All but `next` may be NULL. */
typedef struct est_generator {
    size_t struct_size;                           /* filled by EST_GENERATOR */
    est_status (*open)(void *user, void **state); /* called for every pass; without it the state is `user` */
    est_status (*next)(void *state, est_field *element);
    void (*close)(void *state);
    est_status (*save)(void *state, est_tensor **position);
    est_status (*restore)(void *state, const est_tensor *position);
    void *user; /* borrowed until the last iterator is freed */
} est_generator;

#define EST_GENERATOR(...) (&(const est_generator){ .struct_size = EST_STRUCT_SIZE(est_generator), __VA_ARGS__ })

/* The elements of the generator; list and struct are copied. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_generator(est_components components, const est_generator *generator);

/* --- from paths to rows ------------------------------------------------------------------------------------------- */

/* How several files (or datasets) are read at a time: `cycle` of them are open, `block` elements are taken from each in
 * turn; when one ends, the next is opened. */
typedef struct est_interleave_options {
    size_t struct_size; /* filled by EST_INTERLEAVE */
    int    cycle;       /* 0: 1, one after the other; at most 65536, with workers 1024 */
    int    block;       /* 0: 1 */
    int    workers;     /* 0: none; any other number: a thread reads ahead for each open one */
    /* with workers: take elements as they become ready; the order then differs between runs */
    bool           unordered;
    int64_t        bad_rows_max; /* est_dataset_tfrecords only: damaged records; 0: none; EST_FOREVER: any number */
    void          *user;         /* of est_dataset_interleave's function; borrowed until the last iterator goes */
    est_components components;   /* of est_dataset_interleave's datasets; copied */
} est_interleave_options;

#define EST_INTERLEAVE(...)                                                                                            \
    (&(const est_interleave_options){ .struct_size = EST_STRUCT_SIZE(est_interleave_options), __VA_ARGS__ })

/* Takes a dataset of paths and yields the records of the TFRecord files as the string component "record". Compression
 * is detected. `options` may be NULL, as everywhere below. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_tfrecords(est_dataset *paths, const est_interleave_options *options);

typedef struct est_lines_options {
    size_t                        struct_size; /* filled by EST_LINES */
    int                           skip;        /* lines skipped at the start of every file, such as a header; 0: none */
    bool                          quoted; /* for CSV: a line end in a field in double quotes does not end the line */
    const est_interleave_options *interleave;  /* NULL: one file after the other; copied */
    char                          delimiter;   /* with quoted: between fields; 0: ',' */
    bool                          trim;        /* with quoted: blanks before a quote do not matter */
    est_compression               compression; /* 0: found out */
} est_lines_options;

#define EST_LINES(...) (&(const est_lines_options){ .struct_size = EST_STRUCT_SIZE(est_lines_options), __VA_ARGS__ })

/* Takes a dataset of paths and yields the lines of text files, without their ends, as the string component "line". With
 * `quoted`, an opening quote without a closing one before the end of the file, or within 64 MiB, does not quote: the
 * line ends at its line end, and est_dataset_decode_csv reports one bad row. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_lines(est_dataset *paths, const est_lines_options *options);

/* Maps every element to a dataset and yields the elements of these, interleaved according to `options`; components is
 * required. Takes the datasets that `fn` returns. */
typedef est_dataset *(*est_interleave_fn)(void *user, const est_field *element);
EST_API EST_MUST_CHECK est_dataset *est_dataset_interleave(est_dataset *dataset, est_interleave_fn fn,
                                                           const est_interleave_options *options);

/* An IDX file (MNIST's format), compressed or not, as one tensor; for est_dataset_slices. */
EST_API EST_MUST_CHECK est_status est_idx_read(const char *path, est_tensor **out);

/* --- from rows to batches ----------------------------------------------------------------------------------------- */

/* Options of stages that decode batches of rows. */
typedef struct est_parse_options {
    size_t struct_size;    /* filled by EST_PARSE */
    int    workers;        /* batches decoded at a time; 0: by the caller; EST_AUTO: one per core */
    bool   drop_remainder; /* true: drop a last batch of fewer rows */
    bool   unordered;      /* with workers: batches in the order of completion, which differs between runs */
    /* rows skipped, in all passes together; their batch is smaller. 0: none; EST_FOREVER: any number */
    int64_t bad_rows_max;

    /* Checks decoded rows: it gets all components of a batch, and when it fails with EST_INVALID_ARGUMENT, those of
     * each row alone, so that the error names the row and a bad row can be skipped. Called from the workers. NULL: no
     * check. `check_user` is borrowed as long as the dataset. */
    est_status (*check)(void *user, const est_field *rows);
    void *check_user;
} est_parse_options;

#define EST_PARSE(...) (&(const est_parse_options){ .struct_size = EST_STRUCT_SIZE(est_parse_options), __VA_ARGS__ })

/* Takes serialized Examples (component 0, a string) and yields batches of them, one component a spec: fixed ones
 * [batch, shape...], padded ones [batch, longest, shape...] with another component "<name>/lengths", ragged ones. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_parse_examples(est_dataset *records, est_feature_specs specs,
                                                               int64_t batch, const est_parse_options *options);

/* The same for CSV: takes lines and yields batches with one component [batch] a column. Empty lines are skipped if
 * there are several columns. With csv->header the columns are found by the names in the first line of the file the row
 * is from, which est_dataset_lines was told to skip; that file must be a regular one. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_decode_csv(est_dataset *lines, est_csv_columns columns,
                                                           const est_csv_options *csv, int64_t batch,
                                                           const est_parse_options *options);

/* The same for libsvm: "label" float32 [batch], and the ragged "index" int64 and "value" float32. Blank lines and
 * comments are skipped. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_decode_libsvm(est_dataset *lines, int64_t batch,
                                                              const est_parse_options *options);

/* Both steps: est_dataset_lines, then est_dataset_decode_csv. To shuffle rows, call the two and shuffle in between. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_csv(est_dataset *paths, est_csv_columns columns,
                                                    const est_csv_options *csv, int64_t batch,
                                                    const est_parse_options *options);

typedef struct est_batch_options {
    size_t struct_size;    /* filled by EST_BATCH */
    bool   drop_remainder; /* true: drop a last batch of fewer elements */
    /* 0: all elements have the same shape. EST_ROWS_PADDED: filled up to the largest of the batch in every dimension.
     * EST_ROWS_RAGGED: components whose first dimension is not known become ragged */
    est_feature_rows rows;
    est_shapes padded_shapes; /* one a component, with EST_ROWS_PADDED: fill up to this instead; -1: the largest */
    double     pad_number;    /* padding of numbers; strings are padded with "" */
} est_batch_options;

#define EST_BATCH(...) (&(const est_batch_options){ .struct_size = EST_STRUCT_SIZE(est_batch_options), __VA_ARGS__ })

/* n elements become one, with a new first dimension. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_batch(est_dataset *dataset, int64_t n,
                                                      const est_batch_options *options);

/* The rows of every element become elements. A row of a ragged component has an unknown first dimension. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_unbatch(est_dataset *dataset);

/* --- in between --------------------------------------------------------------------------------------------------- */

/* Computes one element from another: fills the zeroed `out` with references that the dataset takes. */
typedef est_status (*est_map_fn)(void *user, const est_field *in, est_field *out);

typedef struct est_map_options {
    size_t         struct_size;  /* filled by EST_MAP */
    void          *user;         /* borrowed until the last iterator is freed */
    est_components components;   /* of the results; zeroed: the same as before. Copied */
    int            workers;      /* elements computed at a time; 0: by the caller; EST_AUTO: one per core */
    bool           unordered;    /* with workers: in the order of completion, which differs between runs */
    int64_t        bad_rows_max; /* most elements skipped when fn fails (see above); 0: none; EST_FOREVER: any number */
} est_map_options;

#define EST_MAP(...) (&(const est_map_options){ .struct_size = EST_STRUCT_SIZE(est_map_options), __VA_ARGS__ })

/* fn applied to every element. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_map(est_dataset *dataset, est_map_fn fn,
                                                    const est_map_options *options);

/* Drops the elements for which fn sets *keep to false. */
typedef est_status (*est_filter_fn)(void *user, const est_field *element, bool *keep);
EST_API EST_MUST_CHECK est_dataset *est_dataset_filter(est_dataset *dataset, est_filter_fn fn, void *user);

/* Ragged nodes by name: EST_NAMED_RAGGEDS({ "words", words }). */
typedef struct est_named_ragged {
    const char     *name;
    est_ragged_node node;
} est_named_ragged;

typedef struct est_named_raggeds {
    const est_named_ragged *data;
    int                     n;
} est_named_raggeds;

#define EST_NAMED_RAGGEDS(...) EST_SPAN(est_named_raggeds, const est_named_ragged, __VA_ARGS__)

typedef struct est_map_graph_options {
    size_t  struct_size;  /* filled by EST_MAP_GRAPH */
    int     workers;      /* elements computed at a time, by a thread each; 0: by the caller; EST_AUTO: one per core */
    bool    unordered;    /* with workers: in the order of completion, which differs between runs */
    int64_t bad_rows_max; /* most elements skipped when an operation fails (see above); 0: none; EST_FOREVER: any */
    /* ragged components, besides `inputs` and `outputs`: placeholders for values and splits; results, which come after
     * the outputs. As in est_parsed of est_parse_examples */
    est_named_raggeds ragged_inputs, ragged_outputs;
} est_map_graph_options;

#define EST_MAP_GRAPH(...)                                                                                             \
    (&(const est_map_graph_options){ .struct_size = EST_STRUCT_SIZE(est_map_graph_options), __VA_ARGS__ })

/* A graph applied to every element (TensorFlow's Dataset.map): `inputs` are placeholders by the names of the components
 * they are fed with, `outputs` the nodes that are the new components, and their names. Components that are no input are
 * dropped; a placeholder may be an output.
 *
 *     age  = est_placeholder(graph, "age", EST_STRING, EST_SHAPE_SCALAR);
 *     id   = est_lookup(est_vocabulary_file(graph, "ages.txt", EST_STRING, NULL), age);
 *     rows = est_dataset_map_graph(rows, EST_NAMED_NODES({ "age", age }), EST_NAMED_NODES({ "age_id", id }), NULL);
 *
 * The part of the graph that the outputs need is copied; the graph may then grow or be freed. Unlike a function, it can
 * be sent to another process with the dataset. Lookup tables are filled once a dataset, when its first iterator is
 * created; a vocabulary file is read by the process that iterates. Random operations draw by the seed of the graph (0:
 * one is drawn when the stage is made, for those without a seed of their own), the number of the pass and that of the
 * element, so that they differ between elements and do not depend on workers or on a restored position.
 *
 * A variable in the graph is an error, and so is a ragged component among `inputs`: .ragged_inputs has those. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_map_graph(est_dataset *dataset, est_named_nodes inputs,
                                                          est_named_nodes              outputs,
                                                          const est_map_graph_options *options);

/* Drops the elements for which `keep`, a boolean scalar, is false (TensorFlow's Dataset.filter). As
 * est_dataset_map_graph in everything else; all components are kept. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_filter_graph(est_dataset *dataset, est_named_nodes inputs,
                                                             est_node keep, const est_map_graph_options *options);

/* Yields a random one of `buffer` buffered elements and replaces it by the next. Every pass has another order, derived
 * from the seed and the number of the pass; 0: a seed is drawn once. The second gives all passes the same order. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_shuffle(est_dataset *dataset, int64_t buffer, uint64_t seed);
EST_API EST_MUST_CHECK est_dataset *est_dataset_shuffle_once(est_dataset *dataset, int64_t buffer, uint64_t seed);

/* Repeats the elements n times; EST_FOREVER: without end. A pass without elements ends it. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_repeat(est_dataset *dataset, int64_t n);

/* Every n_shards-th element, beginning with number `shard`. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_shard(est_dataset *dataset, int64_t n_shards, int64_t shard);

/* The first n elements (EST_FOREVER: all); all but the first n. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_take(est_dataset *dataset, int64_t n);
EST_API EST_MUST_CHECK est_dataset *est_dataset_skip(est_dataset *dataset, int64_t n);

/* The elements of `first`, then those of `second`, which must have the same components. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_concatenate(est_dataset *first, est_dataset *second);

/* Pairs of elements with the components of both, until one of the two ends. Component names must be distinct. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_zip(est_dataset *left, est_dataset *right);

/* Adds a first component "index", int64, counting from start. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_enumerate(est_dataset *dataset, int64_t start);

/* Caches the elements of the first complete pass, in memory (path NULL) or in a file; later passes and later runs read
 * the cache instead of the earlier stages. The file appears when a pass is complete; a file with other components is an
 * error. Restoring a position reads the elements before it again. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_cache(est_dataset *dataset, const char *path);

/* Computes up to n elements (at most 100000) ahead in a separate thread. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_prefetch(est_dataset *dataset, int64_t n);

/* The same for up to n elements (at most 1000) in the memory of a device, "/gpu:0", from which a session that computes
 * there takes them (estoc/devices.h); "/cpu:0": est_dataset_prefetch. Floats, bytes and truth values are copied;
 * strings, ragged rows and integers, which may be shapes, stay with the host. It must be the last stage. */
EST_API EST_MUST_CHECK est_dataset *est_dataset_prefetch_to_device(est_dataset *dataset, const char *device, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
