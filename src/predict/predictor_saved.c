/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictors of SavedModels: a signature's inputs and outputs over the session of the model. */
#include "base/argument.h"
#include "base/options.h"
#include "predict/predictor.h"
#include "predict/saved_model.h"

static est_named_node *name_nodes(est_arena *arena, const est_signature_tensor *tensors, est_nodes nodes)
{
    est_named_node *named = est_arena_alloc(arena, (size_t)(nodes.n + 1) * sizeof *named);

    for (int i = 0; named != NULL && i < nodes.n; i++) named[i] = (est_named_node){ tensors[i].name, nodes.data[i] };
    return named;
}

static est_status create(const est_saved_model *model, const est_saved_signature_nodes *found,
                         const est_predictor_options *options, est_arena *arena, est_predictor **out)
{
    const est_named_node *inputs  = name_nodes(arena, found->signature->inputs, found->inputs);
    const est_named_node *outputs = name_nodes(arena, found->signature->outputs, found->outputs);

    if (inputs == NULL || outputs == NULL) return est_no_memory();
    return est_predictor_over(est_saved_model_session(model), (est_named_nodes){ inputs, found->inputs.n },
                              (est_named_nodes){ outputs, found->outputs.n }, options, out);
}

est_status est_predictor_create(const est_saved_model *model, const char *signature,
                                const est_predictor_options *options, est_predictor **out)
{
    est_predictor_options     own;
    est_saved_signature_nodes found;
    est_arena                *arena;
    est_status                status;

    EST_REQUIRE(model);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_predictor_options), options, &own));
    EST_TRY(est_saved_model_find(model, signature, &found));
    arena = est_arena_create();
    if (arena == NULL) return est_no_memory();
    status = create(model, &found, options, arena, out);
    est_arena_free(arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "signature %s", found.signature->name);
}
