/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictors in a loop: what hooks want to see of a run are outputs of a predictor, what they feed are inputs of it. */
#include "predict/predictor.h"

typedef struct loop_predictor {
    est_predictor  *predictor;
    est_prediction *prediction;
} loop_predictor;

static void release(void *prepared)
{
    loop_predictor *p = prepared;

    est_prediction_free(p->prediction);
    est_predictor_free(p->predictor);
    est_free(p);
}

/* Inputs have the names of their nodes, for errors. Outputs are known by number; a node may be asked for twice. */
static est_status name_nodes(est_arena *arena, est_nodes nodes, bool by_number, est_named_nodes *out)
{
    est_named_node *named = est_arena_alloc(arena, (size_t)(nodes.n + 1) * sizeof *named);

    if (named == NULL) return est_no_memory();
    for (int i = 0; i < nodes.n; i++) {
        const char *name = by_number ? est_arena_printf(arena, "%d", i) : est_node_name(nodes.data[i]);

        if (name == NULL) return est_no_memory();
        named[i] = (est_named_node){ name, nodes.data[i] };
    }
    *out = (est_named_nodes){ named, nodes.n };
    return EST_OK;
}

static est_status create(est_session *session, est_nodes feeds, est_nodes fetches, est_arena *arena, loop_predictor *p)
{
    est_named_nodes inputs, outputs;

    EST_TRY(name_nodes(arena, feeds, false, &inputs));
    EST_TRY(name_nodes(arena, fetches, true, &outputs));
    EST_TRY(est_predictor_within(session, inputs, outputs, &p->predictor));
    return est_prediction_create(p->predictor, &p->prediction);
}

static est_status prepare(est_session *session, est_nodes feeds, est_nodes fetches, void **out)
{
    loop_predictor *p     = est_zalloc(sizeof *p);
    est_arena      *arena = est_arena_create();
    est_status      status;

    status = p != NULL && arena != NULL ? create(session, feeds, fetches, arena, p) : est_no_memory();
    est_arena_free(arena);
    if (status == EST_OK) {
        *out = p;
    } else if (p != NULL) {
        release(p);
    }
    return status;
}

static est_status run(void *prepared, const est_tensor *const *values, bool traced, est_plan **out)
{
    return est_prediction_run_values(((loop_predictor *)prepared)->prediction, values, traced, out);
}

const est_loop_engine est_predictor_engine = { .prepare = prepare, .run = run, .free = release };
