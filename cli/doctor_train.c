/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc doctor`: a short training whose result is known exactly. */
#include "doctor.h"

#include <math.h>

#include "estoc/graph.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "estoc/optimizers.h"
#include "estoc/session.h"

#define STEPS 10

/* Fits two weights to columns that are orthogonal and of length 1 over the batch: every step of rate 1/4 halves what is
 * missing, in numbers that floats have exactly. So the loss after n steps is exactly 5 / 4^n. */
static est_status train(est_graph *g, float *loss)
{
    const float  xs[] = { 1, 1, 1, -1, -1, 1, -1, -1 }, ys[] = { 1, 3, -3, -1 }; /* 2 x0 - x1 */
    est_session *session = NULL;
    est_tensor  *x = NULL, *y = NULL, *value = NULL;
    est_node     in     = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1, 2));
    est_node     target = est_placeholder(g, "target", EST_F32, EST_SHAPE(-1, 1));
    est_node     out    = est_dense(in, 1, EST_DENSE(.no_bias = true, .kernel_initializer = est_init_zeros()));
    est_node     error  = est_mean(est_squared_difference(out, target));
    est_node     step   = est_minimize(est_sgd(0.25), error, NULL);
    est_status   status = est_session_create(g, EST_SESSION(.devices = EST_STRINGS("/cpu:0")), &session);

    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_tensor_create_from(EST_F32, EST_SHAPE(4, 2), xs, &x);
    if (status == EST_OK) status = est_tensor_create_from(EST_F32, EST_SHAPE(4, 1), ys, &y);
    for (int i = 0; i <= STEPS && status == EST_OK; i++) {
        est_tensor_free(value);
        value  = NULL;
        status = est_session_run(session, EST_FEEDS({ in, x }, { target, y }), EST_NODES(error),
                                 i < STEPS ? EST_NODES(step) : EST_NO_NODES, &value);
    }
    if (status == EST_OK) *loss = *(const float *)est_tensor_data(value);
    est_tensor_free(value);
    est_tensor_free(x);
    est_tensor_free(y);
    est_session_free(session);
    return status;
}

est_status doctor_train(float *loss, float *expected)
{
    est_graph *graph;
    est_status status;

    EST_TRY(est_graph_create(1, &graph));
    status    = train(graph, loss);
    *expected = ldexpf(5, -2 * STEPS);
    est_graph_free(graph);
    return status;
}
