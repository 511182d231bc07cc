/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator for tests, which sends its requests (cluster/calls.h) one by one, and the cluster that it drives, in
 * this process. */
#ifndef EST_TESTS_CALLS_TEST_H
#define EST_TESTS_CALLS_TEST_H

#include "base/thread.h"
#include "cluster/calls.h"
#include "estoc/estoc.h"
#include "support/nn_test.h"
#include "support/servers_test.h"

#define CALLS_SECS 20.0

/* Functions of calls_send_functions. */
enum { CALLS_ADD = 1, CALLS_DRAW, CALLS_EMPTY, CALLS_TWICE };

typedef struct calls_job {
    servers      s;
    est_server  *client;
    est_remote  *remote;
    est_session *session;
    est_graph   *graph;
    est_node     x, add, draw, doubled, nothing; /* add: adds x to the variables "w" and "v", each at a ps task */
    est_node     n, total; /* add_n: adds the sum of n, int64 [?], to the local variable "total" */
    est_node     add_n, reset;
    est_link    *link[2];   /* to the workers */
    est_thread   served[2]; /* in est_server_join of the workers */
} calls_job;

calls_job calls_start(servers s, const est_partitioner *partitioner);
void      calls_stop(calls_job *j);
void      calls_join(calls_job *j, int worker); /* its est_server_join begins */
void      calls_end(calls_job *j, int worker);  /* and ends with the job */
est_link *calls_meet(const calls_job *j, const char *type, int index);

/* Makes the coordinator's session again, initializes the variables and declares them ready. */
void calls_initialize(calls_job *j);

/* Sends a request and waits for the answer (out may be NULL). Clears the packing. */
est_status calls_ask(est_link *link, est_method method, est_packing *packing, est_message **out);

est_status calls_set_up(est_link *link, uint64_t origin);
est_status calls_send_function(const calls_job *j, est_link *link, est_function_request function, const char *local,
                               est_nodes feeds, est_nodes fetches, est_nodes targets);
void       calls_send_functions(const calls_job *j, est_link *link);

/* x NULL: no argument. */
void       calls_pack(uint64_t call, uint64_t first, uint64_t function, const float *x, est_packing *packing);
est_status calls_call(est_link *link, uint64_t call, uint64_t first, uint64_t function, const float *x,
                      est_message **answer);

/* The first element of a variable; of the first tensor of an answer, which it frees. */
double calls_read(const calls_job *j, const char *variable);
double calls_first(est_message *answer);

extern const float calls_ones[4];

#endif
