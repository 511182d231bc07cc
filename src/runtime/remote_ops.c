/* SPDX-License-Identifier: Apache-2.0
 *
 * EstStart sends the inputs of a segment to the task that runs it; EstFinish waits for its outputs. What is done
 * between them runs while the other task computes. Both take the inputs: they are sent from where they lie, and until
 * the outputs are there nobody else may get their memory. Only the planner makes them, so they are in no list of
 * ops. */
#include "runtime/store.h"
#include "tensor/shape.h"

#include "runtime/remote.h"

static est_status finish_infer(est_infer *c)
{
    est_shapes shapes = est_node_shapes(c->node, "shapes");

    for (int i = 0; i < c->n_out; i++) c->out[i] = shapes.data[i];
    return EST_OK;
}

static est_status start_run(est_call *c)
{
    est_remote_binding *b = c->state;

    b->finished = false;
    return b->ops->start(b->segment, *c->run_seed, c->in, c->n_in);
}

static est_status wait_for(est_call *c)
{
    est_remote_binding *b = c->state;

    if (b->finished) return EST_OK;
    EST_TRY(b->ahead != NULL && *b->ahead ? b->ops->expect(b->segment, &b->got) : b->ops->finish(b->segment, &b->got));
    b->finished = true;
    return EST_OK;
}

static est_status finish_measure(est_call *c)
{
    const est_remote_binding *b = c->state;

    EST_TRY(wait_for(c));
    for (int i = 0; i < c->n_out; i++) {
        c->out[i].shape = b->got[i].shape;
        c->out[i].count = b->got[i].count;
    }
    return EST_OK;
}

static est_status finish_run(est_call *c)
{
    const est_remote_binding *b = c->state;

    EST_TRY(wait_for(c));
    for (int i = 0; i < c->n_out; i++) {
        const est_view *got = &b->got[i];

        if (got->dtype != c->out[i].dtype || !est_shape_equal(&got->shape, &c->out[i].shape)) {
            char have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

            return est_fail(EST_INTERNAL, "result %d of a segment is %s %s instead of %s %s", i,
                            est_dtype_name(got->dtype), est_shape_text(&got->shape, have),
                            est_dtype_name(c->out[i].dtype), est_shape_text(&c->out[i].shape, want));
        }
        c->out[i].data = got->data;
    }
    return EST_OK;
}

const est_op est_op_start = {
    .name      = "EstStart",
    .signature = "inputs: T -> (); T: types; segment: int",
    .infer     = est_infer_none,
    .cpu       = EST_KERNELS({ .run = start_run }),
    .planned   = true,
    .stateful  = true,
    .heavy     = true, /* never beside others: it waits */
};

const est_op est_op_finish = {
    .name      = "EstFinish",
    .signature = "sent: Tsent -> outputs: T; Tsent: types; T: types; shapes: shapes; segment: int",
    .infer     = finish_infer,
    .cpu       = EST_KERNELS({ .run = finish_run, .measure = finish_measure }),
    .lends     = true, /* what has come is used where it lies */
    .planned   = true,
    .stateful  = true,
    .heavy     = true,
};
