/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the op harness: one case in one dtype (est_case_run), and the checks made of it. */
#ifndef EST_TESTS_OP_RUN_H
#define EST_TESTS_OP_RUN_H

#include <stdio.h>

#include "estoc/session.h"
#include "support/op_check.h"

typedef enum case_shapes { CASE_KNOWN_SHAPES, CASE_UNKNOWN_DIMS, CASE_UNKNOWN_RANK, CASE_SHAPES_N } case_shapes;

typedef struct est_case_run {
    const est_op_case *test;
    const est_op      *op;
    int                index; /* of the case in its table: the seed of its values */
    est_dtype          dtype; /* what dtype 0 stands for in this run */
    int                n_in;
    est_tensor        *in[EST_CASE_IN_MAX];
    int                n_checks, n_failures;
    char               label[192]; /* "Softmax case 3 (float64)" */
} est_case_run;

/* Results of a run: the op's outputs, then the new contents of its variables. */
typedef struct est_case_out {
    int         n;
    est_tensor *tensor[EST_CASE_OUT_MAX]; /* NULL for a resource */
} est_case_out;

void case_out_clear(est_case_out *out);

/* Counts a check; a false one is printed. Returns ok. */
bool case_check(est_case_run *run, bool ok, const char *fmt, ...) EST_PRINTF(3, 4);

/* The case as a graph: inputs in in[], the op's output 0 returned. The graph may end up poisoned. */
est_node case_build(const est_case_run *run, est_graph *graph, case_shapes shapes, est_node in[EST_CASE_IN_MAX]);

/* Writes the case's variables into the session. */
est_status case_write_variables(const est_case_run *run, est_session *session);

/* Runs `outputs`, or `target` when there are none, with the case's inputs in[], and takes what comes out and the
 * variables' new contents. */
est_status case_run_nodes(const est_case_run *run, est_session *session, est_nodes outputs, est_node target,
                          const est_node *in, est_case_out *out);

/* Element i as a double; the view or tensor must not be of strings. */
double case_element(const void *data, est_dtype dtype, int64_t i);
void   case_set_element(void *data, est_dtype dtype, int64_t i, double value);

/* Compares results with the case's reference (and its further check) or does nothing without one. */
void case_check_values(est_case_run *run, const est_node_def *node, const est_case_out *got, const char *how);

/* Whether two results are the same, bit for bit; prints the first element that is not. */
void case_check_same_bits(est_case_run *run, const est_case_out *a, const est_case_out *b, const char *how);

/* Whether two results have the same shapes and values within the case's tolerance. */
void case_check_close(est_case_run *run, const est_case_out *expected, const est_case_out *got, const char *how);

/* What the op lowers to gives the same and is made of TensorFlow's ops only. */
void case_check_lowered(est_case_run *run, case_shapes shapes, const est_case_out *expected);

/* The case written as a GraphDef and read again gives the same. */
void case_check_exported(est_case_run *run, const est_case_out *expected);

/* The op's kernels run by hand over guarded, poisoned memory; `node` is of a graph built from the case with known
 * shapes, `expected` what the session made. */
void case_check_kernels(est_case_run *run, const est_node_def *node, const est_node *in, const est_case_out *expected);

/* The same kernels, on a device, of a case that has to fail. */
void case_check_kernels_fail(est_case_run *run, const est_node_def *node, const est_node *in);

/* The first GPU of the plug-in that ESTOC_CUDA_PLUGIN names, whose kernels are then checked, and nothing else; NULL
 * without that variable. */
const est_device *case_device(void);

/* The op's gradient against central differences. */
void case_check_gradient(est_case_run *run);

/* Random numbers of the harness: a value in [0, 1) for any four keys. */
double case_uniform(uint64_t a, uint64_t b, uint64_t c);

#endif
