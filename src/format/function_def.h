/* SPDX-License-Identifier: Apache-2.0
 *
 * FunctionDef: a part of a graph that nodes call by its name, and the library of a GraphDef in which they are found.
 *
 * Everything lives in the arena given to init (see format/def.h). A function is parsed when it is asked for.
 *
 * Threading: one thread at a time. */
#ifndef EST_FORMAT_FUNCTION_DEF_H
#define EST_FORMAT_FUNCTION_DEF_H

#include "base/map.h"
#include "format/graph_def.h"

typedef struct est_function_def {
    const char   *name;
    est_def_names inputs;   /* arguments */
    est_def_names outputs;  /* results */
    est_def_names returns;  /* [outputs.n] what they are: an argument, or "node:output:index" */
    est_def_names controls; /* nodes that run whenever the function is called */
    est_graph_def graph;    /* its nodes; their inputs have the form of `returns`, or are "^node" */
} est_function_def;

/* A zeroed struct is an empty library. */
typedef struct est_function_library {
    est_arena *arena;
    est_map    functions; /* name to a function that may not be parsed yet */
} est_function_library;

/* Lists the functions of an encoded FunctionDefLibrary, which is borrowed until the library is cleared; EST_DATA_LOSS
 * when two have one name. The library is to be cleared also after a failure. */
EST_MUST_CHECK est_status est_function_library_init(est_function_library *library, est_str message, est_arena *arena);
void                      est_function_library_clear(est_function_library *library);

bool est_function_library_has(const est_function_library *library, const char *name);

/* The function of that name; EST_NOT_FOUND when there is none. */
EST_MUST_CHECK est_status est_function_library_get(est_function_library *library, const char *name,
                                                   const est_function_def **out);

#endif
