/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as the function of a dataset stage: a copy of the part that its outputs need, as a segment
 * (runtime/segment.h), which is also how it travels. A function that was made of nodes is read back from these bytes,
 * so that the original and a decoded one run the same.
 *
 * Each thread runs a plan of its own (est_graph_runner); all plans look into the same tables, which are filled once.
 * Runners that are given back are used again by the next pass.
 *
 * Threading: runners are taken and given back by any thread; one runner belongs to one thread at a time. */
#ifndef EST_DATA_GRAPH_FUNCTION_H
#define EST_DATA_GRAPH_FUNCTION_H

#include "data/stage.h"

typedef struct est_graph_function est_graph_function;
typedef struct est_graph_runner   est_graph_runner;

/* The placeholders that components of an element are fed to, and the components of the result
 * (est_dataset_map_graph). */
typedef struct est_graph_io {
    est_named_nodes   inputs, outputs;
    est_named_raggeds ragged_inputs, ragged_outputs;
} est_graph_io;

/* A function of elements of `dataset`. */
EST_MUST_CHECK est_status est_graph_function_create(const est_dataset *dataset, const est_graph_io *of,
                                                    est_graph_function **out);
void                      est_graph_function_free(est_graph_function *fn); /* NULL is fine */

/* Its bytes, as fields of a stage's parameters from EST_ENCODED_OWN on, and back; `dataset` is as above. */
void                      est_graph_function_encode(const est_graph_function *fn, est_wire_writer *w);
EST_MUST_CHECK est_status est_graph_function_decode(const est_encoded *from, const est_dataset *dataset,
                                                    est_graph_function **out);

/* The outputs as components; borrowed. */
est_components est_graph_function_outputs(const est_graph_function *fn);

bool     est_graph_function_random(const est_graph_function *fn); /* whether it draws numbers by the graph's seed */
uint64_t est_graph_function_seed(const est_graph_function *fn);   /* of the graph that it was made of; 0: none */

/* A plan, with its tables filled. The function outlives it. */
EST_MUST_CHECK est_status est_graph_runner_take(est_graph_function *fn, est_graph_runner **out);
void                      est_graph_runner_give_back(est_graph_runner *runner); /* NULL is fine */

/* Computes the outputs from an element: new tensors in out[n outputs], which holds nothing before and after a failure.
 * Random operations draw by `run_seed`. */
EST_MUST_CHECK est_status est_graph_runner_run(est_graph_runner *runner, uint64_t run_seed, const est_field *element,
                                               est_field *out);

#endif
