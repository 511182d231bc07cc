/* SPDX-License-Identifier: Apache-2.0
 *
 * GraphDef: a graph as TensorFlow writes it down. Names and values only; whether an op exists and what its attributes
 * mean is not looked at here.
 *
 * Building never fails visibly: the first failure is kept and est_graph_def_put reports it.
 *
 *     est_graph_def_init(&graph, arena);
 *     node = est_graph_def_add_node(&graph, "c", "MatMul");
 *     est_graph_def_add_input(node, "a");
 *     est_graph_def_add_input(node, "b:1");
 *     est_graph_def_set_type(node, "T", EST_F32);
 *     EST_TRY(est_graph_def_put(&w, &graph));
 *
 * Not kept of a message that is read: debug information of the graph, and fields of a later TensorFlow.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_GRAPH_DEF_H
#define EST_FORMAT_GRAPH_DEF_H

#include "format/def.h"

/* The version of exported graphs: new enough for every op, old enough for TensorFlow 1.15. */
#define EST_GRAPH_DEF_PRODUCER 134

typedef struct est_graph_def est_graph_def;

typedef struct est_graph_def_node {
    est_graph_def *graph;
    const char    *name;
    const char    *op;
    const char    *device; /* "": anywhere */
    est_def_names  inputs; /* "a", "a:1"; control inputs "^a" come last */
    est_def_attrs  attrs;
    est_str        debug_info; /* encoded; empty: none */
    est_str        full_type;  /* encoded FullTypeDef; empty: none */
} est_graph_def_node;

struct est_graph_def {
    est_arena           *arena; /* borrowed while the graph is in use; everything here is in it */
    est_graph_def_node **nodes;
    int                  n_nodes;
    int32_t              producer, min_consumer;
    int32_t             *bad_consumers;
    int                  n_bad_consumers;
    est_str              library; /* encoded FunctionDefLibrary; empty: none */
    est_status           status;  /* of building */
    est_graph_def_node   lost;    /* returned by add_node after building has failed */
};

/* An empty graph of version EST_GRAPH_DEF_PRODUCER in `arena`. There is nothing to clear but the arena. The struct must
 * stay where it is: its nodes point at it. */
void est_graph_def_init(est_graph_def *graph, est_arena *arena);

/* Moves a graph to another struct; `from` must not be used any more. */
void est_graph_def_move(const est_graph_def *from, est_graph_def *to);

/* --- building: everything given is copied ------------------------------------------------------------------------- */

/* Never NULL. The node does not move until the arena is freed. */
est_graph_def_node *est_graph_def_add_node(est_graph_def *graph, const char *name, const char *op);

void est_graph_def_add_input(est_graph_def_node *node, const char *input);
void est_graph_def_set_device(est_graph_def_node *node, const char *device);

void est_graph_def_set(est_graph_def_node *node, const char *attr, const est_def_value *value); /* of any kind */
void est_graph_def_set_i(est_graph_def_node *node, const char *attr, int64_t value);
void est_graph_def_set_f(est_graph_def_node *node, const char *attr, float value);
void est_graph_def_set_b(est_graph_def_node *node, const char *attr, bool value);
void est_graph_def_set_s(est_graph_def_node *node, const char *attr, const char *value);
void est_graph_def_set_type(est_graph_def_node *node, const char *attr, est_dtype value);
void est_graph_def_set_shape(est_graph_def_node *node, const char *attr, const est_shape *value);
void est_graph_def_set_tensor(est_graph_def_node *node, const char *attr, const est_tensor *value);

void est_graph_def_set_i_list(est_graph_def_node *node, const char *attr, const int64_t *values, int n);
void est_graph_def_set_f_list(est_graph_def_node *node, const char *attr, const float *values, int n);
void est_graph_def_set_s_list(est_graph_def_node *node, const char *attr, const est_str *values, int n);
void est_graph_def_set_type_list(est_graph_def_node *node, const char *attr, const est_dtype *values, int n);
void est_graph_def_set_shape_list(est_graph_def_node *node, const char *attr, const est_shape *values, int n);

/* --- looking at nodes --------------------------------------------------------------------------------------------- */

/* The node of that name, found by walking; NULL when there is none. */
est_graph_def_node *est_graph_def_find(const est_graph_def *graph, const char *name);

/* An attribute's value; EST_INVALID_ARGUMENT, naming node and attribute, when it is missing or of another kind.
 * Borrowed until the arena is freed. */
EST_MUST_CHECK est_status est_graph_def_get(const est_graph_def_node *node, const char *attr, est_def_kind kind,
                                            const est_def_value **out);

/* A tensor attribute as a new tensor, freed by the caller. */
EST_MUST_CHECK est_status est_graph_def_get_tensor(const est_graph_def_node *node, const char *attr, est_tensor **out);

/* --- bytes -------------------------------------------------------------------------------------------------------- */

/* Appends the fields of the message: the same graph gives the same bytes, attributes sorted by name. Fails when
 * building or writing has. */
EST_MUST_CHECK est_status est_graph_def_put(est_wire_writer *w, const est_graph_def *graph);

/* Reads a message to its end into `arena`. Errors name the node and the attribute. */
EST_MUST_CHECK est_status est_graph_def_parse(est_wire_reader *r, est_arena *arena, est_graph_def *out);
EST_MUST_CHECK est_status est_graph_def_parse_bytes(est_str message, est_arena *arena, est_graph_def *out);

/* --- functions ---------------------------------------------------------------------------------------------------- */

/* Walks the functions of a library. */
typedef struct est_function_cursor {
    est_wire_reader reader;
} est_function_cursor;

typedef struct est_function_view {
    est_str name;    /* borrowed from the library */
    est_str message; /* the encoded FunctionDef, likewise */
    int     n_nodes;
} est_function_view;

void est_function_cursor_init(est_function_cursor *cursor, est_str library);

/* The next function; *found is false at the end. */
EST_MUST_CHECK est_status est_function_cursor_next(est_function_cursor *cursor, bool *found, est_function_view *out);

/* Reads the nodes of a function as a graph. Their inputs have the form of functions, "node:output:index". */
EST_MUST_CHECK est_status est_function_parse_nodes(const est_function_view *function, est_arena *arena,
                                                   est_graph_def *out);

#endif
