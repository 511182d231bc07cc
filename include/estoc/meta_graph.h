/* SPDX-License-Identifier: Apache-2.0
 *
 * MetaGraphDefs, the .meta files that TensorFlow 1 writes beside checkpoints: a graph, its variables, collections of
 * the program, and which variable of the graph is which of the checkpoint.
 *
 *     est_meta_graph *meta;
 *
 *     EST_TRY(est_meta_graph_import(graph, "model.ckpt-100.meta", NULL, &meta));
 *     est_node logits = est_graph_find(graph, "logits");
 *
 * A graph of references (VariableV2, Assign) becomes one of handles, under the same names. */
#ifndef ESTOC_META_GRAPH_H
#define ESTOC_META_GRAPH_H

#include "estoc/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values that a program has kept by a name, all of one kind; the other spans are empty. */
typedef struct est_meta_collection {
    const char *name;
    est_strings nodes; /* names of operations, or of tensors ("x:0") */
    est_strings texts;
    est_i64s    ints;
    est_f32s    floats;
    uint64_t    reserved[4]; /* zeros: room for members to come */
} est_meta_collection;

typedef struct est_meta_collections {
    const est_meta_collection *data;
    int                        n;
} est_meta_collections;

#define EST_META_COLLECTIONS(...) EST_SPAN(est_meta_collections, const est_meta_collection, __VA_ARGS__)

/* An operation of the file that was not added. */
typedef struct est_missing_operation {
    const char *name, *op, *error;
    bool        saves;       /* it saves or restores: est_meta_graph_saved and a saver stand for it */
    uint64_t    reserved[4]; /* zeros: room for members to come */
} est_missing_operation;

typedef struct est_missing_operations {
    const est_missing_operation *data;
    int                          n;
} est_missing_operations;

typedef struct est_meta_graph est_meta_graph;

typedef struct est_meta_graph_options {
    size_t      struct_size; /* filled by EST_META_GRAPH */
    const char *scope;       /* all names begin with it and "/"; NULL or empty: they are those of the file */
} est_meta_graph_options;

#define EST_META_GRAPH(...)                                                                                            \
    (&(const est_meta_graph_options){ .struct_size = EST_STRUCT_SIZE(est_meta_graph_options), __VA_ARGS__ })

/* Adds the graph of a file to `graph`, with its variables (est_global_variables, ...) and what initializes them.
 *
 * Operations that Estoc does not have, and those that need them, are left out: est_meta_graph_missing lists them.
 * Devices are left out, and functions are inlined. Errors poison the graph. EST_INVALID_ARGUMENT: the graph has a node
 * of one of the names already. EST_DATA_LOSS: the file is damaged. */
EST_API EST_MUST_CHECK est_status est_meta_graph_import(est_graph *graph, const char *path,
                                                        const est_meta_graph_options *options, est_meta_graph **out);

/* NULL is fine. The graph keeps what was added. */
EST_API void est_meta_graph_free(est_meta_graph *meta);

/* Collections of names and numbers, as they are in the file; those of variables are the graph's. Borrowed until the
 * meta graph is freed, as is what the next two give. */
EST_API est_meta_collections est_meta_graph_collections(const est_meta_graph *meta);

/* The operations that were left out. */
EST_API est_missing_operations est_meta_graph_missing(const est_meta_graph *meta);

/* The variables that the file's saver restores, by their names in checkpoints. */
EST_API est_named_nodes est_meta_graph_saved(const est_meta_graph *meta);

/* How many checkpoints the file's saver keeps (0: all); -1: it has no saver. */
EST_API int est_meta_graph_keep_max(const est_meta_graph *meta);

typedef struct est_meta_graph_write_options {
    size_t               struct_size; /* filled by EST_META_GRAPH_WRITE */
    est_named_nodes      saved;       /* variables that its saver has, by their names in checkpoints; empty: no saver */
    int                  keep_max;    /* checkpoints that the saver keeps; 0: all */
    est_meta_collections collections; /* beside those of variables and tables */
} est_meta_graph_write_options;

#define EST_META_GRAPH_WRITE(...)                                                                                      \
    (&(const est_meta_graph_write_options){ .struct_size = EST_STRUCT_SIZE(est_meta_graph_write_options), __VA_ARGS__ })

/* Writes a graph for TensorFlow 1 or 2 (tf.compat.v1.train.import_meta_graph): operations keep their names, and those
 * that TensorFlow does not have are replaced. EST_UNIMPLEMENTED names an operation that cannot be. */
EST_API EST_MUST_CHECK est_status est_meta_graph_write(const est_graph                    *graph,
                                                       const est_meta_graph_write_options *options, const char *path);

#ifdef __cplusplus
}
#endif
#endif
