/* SPDX-License-Identifier: Apache-2.0
 *
 * A network as a SavedModel: the model is built once more, over a serving input of the network's inputs, and written as
 * an Estimator's exports are. */
#include <string.h>

#include "base/argument.h"
#include "estimator/estimator.h"
#include "estimator/export.h"
#include "network/network.h"
#include "train/saver.h"

static est_status list_inputs(const est_network *network, est_arena *arena, est_components *out)
{
    est_component *inputs = est_arena_alloc(arena, (size_t)network->n_inputs * sizeof *inputs);

    if (inputs == NULL) return est_no_memory();
    for (int i = 0; i < network->n_inputs; i++) {
        const est_network_field *field = &network->inputs[i];

        inputs[i] = (est_component){ .name   = field->name,
                                     .dtype  = field->dtype,
                                     .shape  = { .rank = field->shape.rank - 1 },
                                     .ragged = field->ragged };
        for (int k = 0; k < inputs[i].shape.rank; k++) inputs[i].shape.dim[k] = field->shape.dim[k + 1];
    }
    *out = (est_components){ inputs, network->n_inputs };
    return EST_OK;
}

est_status est_network_fail_nan(const char *variable)
{
    return est_fail(EST_FAILED_PRECONDITION,
                    "the variable '%s' is NaN: the model diverged; load weights of an earlier checkpoint first",
                    variable);
}

est_status est_network_check_name(const char *path)
{
    static const char *const others[] = { ".h5", ".hdf5", ".keras" };
    size_t                   size     = strlen(path);

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t n = strlen(others[i]);

        if (size < n || strcmp(path + size - n, others[i]) != 0) continue;
        return est_fail(
            EST_UNIMPLEMENTED,
            "%s: weights are written as checkpoints and models as SavedModels, which Keras reads, and not as "
            "%s files; leave the ending out",
            path, others[i]);
    }
    return EST_OK;
}

/* The model of the export, and a session with the values of the network. */
static est_status build(est_network *network, est_serving_input *input, est_export_model *e)
{
    const char *name;

    EST_TRY(list_inputs(network, e->model->arena, &input->raw));
    EST_TRY(est_receiver_build(input, e->model, &e->receiver));
    EST_TRY(est_model_build(e->model, est_network_model_fn, &network));
    EST_TRY(est_receiver_name(&e->receiver, e->model));
    EST_TRY(est_export_signatures(e));
    EST_TRY(est_export_tables(e));
    EST_TRY(est_session_create(e->model->graph,
                               EST_SESSION(.threads = network->threads, .seed = 1, .devices = EST_STRINGS("/cpu:0")),
                               &e->session));
    EST_TRY(est_estimator_copy_variables(network->session, e->session, false));
    EST_TRY(est_saved_nan(e->session, &name));
    if (name != NULL) return est_network_fail_nan(name);
    return est_session_init(e->session);
}

est_status est_network_save(est_network *network, const char *dir)
{
    const est_run_config config = { .struct_size = EST_STRUCT_SIZE(est_run_config) };
    est_serving_input    input  = { 0 };
    est_export_model     e      = { 0 };
    est_status           status;

    EST_REQUIRE(network);
    EST_REQUIRE(dir);
    EST_TRY(est_network_check_name(dir));
    EST_TRY(est_network_build_now(network));
    EST_TRY(est_network_connect(network));
    EST_TRY(est_model_create(EST_PREDICT, &config, NULL, NULL, network->seed, &e.model));
    est_graph_keep_float32(e.model->graph);
    status = build(network, &input, &e);
    if (status == EST_OK) status = est_export_one(&e, dir);
    est_session_free(e.session);
    est_model_free(e.model);
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s: save", network->name);
}
