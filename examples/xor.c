/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest whole program: a network that learns exclusive or. The README shows it. */
#include <estoc/estoc.h>
#include <stdio.h>

int main(void)
{
    est_graph   *g       = NULL;
    est_session *session = NULL;
    est_tensor  *x = NULL, *y = NULL, *loss = NULL;
    float        xs[] = { 0, 0, 0, 1, 1, 0, 1, 1 }, ys[] = { 0, 1, 1, 0 };
    est_status   status = est_graph_create(7, &g);

    if (status != EST_OK) return 1;
    est_node in     = est_placeholder(g, "in", EST_F32, EST_SHAPE(-1, 2)); /* -1: any batch size */
    est_node target = est_placeholder(g, "target", EST_F32, EST_SHAPE(-1, 1));
    est_node hidden = est_dense(in, 8, EST_DENSE(.activation = est_tanh));
    est_node logit  = est_dense(hidden, 1, NULL);
    est_node error  = est_mean(est_sigmoid_xent(logit, target));
    est_node train  = est_minimize(est_adam(0.05, NULL), error, NULL);

    status = est_session_create(g, NULL, &session);
    if (status == EST_OK) status = est_session_init(session);
    if (status == EST_OK) status = est_tensor_f32(EST_SHAPE(4, 2), xs, &x);
    if (status == EST_OK) status = est_tensor_f32(EST_SHAPE(4, 1), ys, &y);
    for (int step = 0; step < 500 && status == EST_OK; step++) {
        est_tensor_free(loss);
        loss   = NULL;
        status = est_session_run(
            session, EST_FEEDS({ in, x }, { target, y }), EST_NODES(error), EST_NODES(train), &loss);
    }
    if (status == EST_OK) printf("loss %g\n", (double)*(float *)est_tensor_data(loss));
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_tensor_free(loss);
    est_tensor_free(x);
    est_tensor_free(y);
    est_session_free(session);
    est_graph_free(g);
    return status == EST_OK ? 0 : 1;
}
