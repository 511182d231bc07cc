/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls: requests of a coordinator to workers and ps tasks, and their encoding.
 *
 *   origin  the incarnation of the coordinator, which rises with every start: the time, or one more than the highest
 *           that a ps task knows, whatever the clock says. A task remembers the highest; requests of a lower one fail
 *           with EST_ABORTED.
 *   call    the number of a call: unique within an origin, from 1 up, the same for every attempt
 *   first   the lowest call that has not completed: all calls below it are over
 *
 * To a worker. Its calling thread executes requests in the order of arrival. The state belongs to the link of the last
 * SETUP, which resets all that was there; it is freed when that link is lost. Numbers of functions, datasets and
 * iterators are the coordinator's.
 *
 * SETUP     ORIGIN, SEED, CONNECT_SECS, AT_LEAST_ONCE, NAME* (functions it wants)    -> NAME* (functions it has)
 * FUNCTION  FUNCTION, NAME, BYTES (est_segment_encode), LOCAL*, RESETS               -> -
 * DATASET   DATASET, BYTES (est_dataset_encode) | NAME, PARAMS; PIPELINE, PIPELINES, READER
 *                                                                                    -> COMPONENT, DTYPE of each
 * ITERATOR  ITERATOR, DATASET, SKIP                                                  -> -
 * CALL      CALL, CALL_FIRST, FUNCTION, ARGUMENT*, tensors                           -> tensors | FAILED, ERROR
 * SHARD     CALL, CALL_FIRST, FUNCTION, DATASET, SHARDS, SHARD, ARGUMENT*            -> tensors (the states)
 * RELEASE   FUNCTION* | DATASET* | ITERATOR*                                         -> -
 *
 * To a ps task (cluster/service_segments.h):
 *
 * ORIGIN    ORIGIN, CALL_FIRST: runs of calls of lower origins, and of lower calls of this one, are refused from now
 *           on, and their records freed. Without ORIGIN it only asks                  -> ORIGIN (the highest; 0: none)
 * RUN       gains ORIGIN, CALL, CALL_FIRST; with AT_LEAST_ONCE just ORIGIN
 *
 * Failures. EST_UNAVAILABLE from the link: the worker is lost. An answer with EST_UNAVAILABLE or EST_ABORTED: a ps task
 * was lost or restarted, the worker makes a new session for its next call. EST_CANCELLED: the worker is being stopped.
 * Any other: an error of the program, with which the call has used no element of its iterators. FAILED: the function's
 * error, whatever its status is; the call has used an element of each of its iterators. */
#ifndef EST_CLUSTER_CALLS_H
#define EST_CLUSTER_CALLS_H

#include "cluster/protocol.h"

/* Fields of these requests, beyond those of cluster/protocol.h. */
enum {
    EST_FIELD_ORIGIN = 40,
    EST_FIELD_CALL,
    EST_FIELD_CALL_FIRST,
    EST_FIELD_FUNCTION,
    EST_FIELD_DATASET,
    EST_FIELD_ITERATOR,
    EST_FIELD_ARGUMENT, /* nested: one feed of the function */
    EST_FIELD_LOCAL,    /* a variable of the function that every worker has its own of */
    EST_FIELD_RESETS,   /* how many of the targets reset the states; present: the function is for SHARD */
    EST_FIELD_PARAMS,   /* est_input_context.params of a named function */
    EST_FIELD_PIPELINE,
    EST_FIELD_PIPELINES,
    EST_FIELD_SKIP, /* elements to read over: calls that completed have used them */
    EST_FIELD_SHARD,
    EST_FIELD_SHARDS,
    EST_FIELD_CONNECT_SECS,
    EST_FIELD_AT_LEAST_ONCE,
    EST_FIELD_COMPONENT,
    EST_FIELD_DTYPE,
    EST_FIELD_READER,
    EST_FIELD_FAILED, /* the status of a function that failed */
    EST_FIELD_ERROR,
};

/* SETUP. */
typedef struct est_setup {
    uint64_t origin;
    uint64_t seed;         /* of random operations without one; the same for all workers */
    double   connect_secs; /* how long the worker waits for ps tasks and their variables; 0: 7200 */
    bool     at_least_once;
} est_setup;
void                      est_setup_put(const est_setup *setup, const char *const *names, int n, est_packing *out);
EST_MUST_CHECK est_status est_setup_read(const est_message *message, est_setup *out);

/* FUNCTION. With has_resets the first n_resets targets reset the states, the others update them with the feeds, and the
 * fetches are the states. */
typedef struct est_function_request {
    uint64_t number;
    est_str  name;  /* for errors and the status */
    est_str  bytes; /* a segment; its `writes` is not used */
    bool     has_resets;
    int      n_resets;
} est_function_request;
void est_function_request_put(const est_function_request *function, const char *const *locals, int n_locals,
                              est_packing *out);
EST_MUST_CHECK est_status est_function_request_read(const est_message *message, est_function_request *out);

/* DATASET. A worker that has a part of the dataset is pipeline i of n. Without parts, each worker reads all of it, in
 * its own order where the order was drawn: the reader is the worker's index then. All workers that evaluate shards need
 * the same order: reader 0. A worker that comes back gets the numbers that it had. */
typedef struct est_dataset_request {
    uint64_t number;
    est_str  bytes;  /* data NULL: the function `name` makes it */
    est_str  name;   /* one of est_server_options.functions */
    est_str  params; /* data NULL: none */
    int      pipeline, n_pipelines;
    uint64_t reader; /* est_dataset_decode_for */
} est_dataset_request;
void                      est_dataset_request_put(const est_dataset_request *dataset, est_packing *out);
EST_MUST_CHECK est_status est_dataset_request_read(const est_message *message, est_dataset_request *out);

/* ITERATOR. */
typedef struct est_iterator_request {
    uint64_t number, dataset;
    int64_t  skip;
} est_iterator_request;
void                      est_iterator_request_put(const est_iterator_request *iterator, est_packing *out);
EST_MUST_CHECK est_status est_iterator_request_read(const est_message *message, est_iterator_request *out);

/* CALL, and SHARD with the last three. Arguments and tensors (est_pack_view) are put after it. */
typedef struct est_call_request {
    uint64_t call, first, function;
    uint64_t dataset;
    int64_t  n_shards, shard;
} est_call_request;
void                      est_call_request_put(const est_call_request *call, bool is_shard, est_packing *out);
EST_MUST_CHECK est_status est_call_request_read(const est_message *message, bool is_shard, est_call_request *out);

/* The answer of a call whose function failed. Reading any answer of a call returns the function's error, or EST_OK. */
void                      est_call_failure_put(est_status status, const char *error, est_packing *out);
EST_MUST_CHECK est_status est_call_failure_read(const est_message *answer);

/* The value of a feed: a component of the iterator's next element, which is one for all arguments of the call; of the
 * shard's elements (SHARD: from_iterator false, component given); or, with no component, the next tensor of the
 * message. */
typedef struct est_call_argument {
    int      feed; /* of the function, from 0 */
    bool     from_iterator;
    uint64_t iterator;
    est_str  component; /* data NULL: a tensor */
} est_call_argument;
void est_call_argument_put(const est_call_argument *argument, est_packing *out);

/* The arguments of a request, pointing into it. A zeroed struct is empty; its memory is reused. */
typedef struct est_call_arguments {
    est_call_argument *data;
    int                n, max;
} est_call_arguments;
EST_MUST_CHECK est_status est_call_arguments_read(const est_message *message, est_call_arguments *out);
void                      est_call_arguments_clear(est_call_arguments *arguments);

#endif
