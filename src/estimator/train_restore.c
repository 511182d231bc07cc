/* SPDX-License-Identifier: Apache-2.0
 *
 * A training and its checkpoints: what a new session gets from the last one, and what is saved beside the variables. */
#include "base/log.h"
#include "estimator/training.h"
#include "estoc/layers.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "nn/optimizer.h"
#include "train/saver.h"

/* The constant that a number begins with; NULL: it is none. */
static const float *first_value(const est_graph *graph, const est_node_def *variable)
{
    const est_node_def *assign = est_def(est_graph_initializer(graph, variable->id));
    const est_node_def *value  = assign != NULL ? est_graph_node(graph, assign->in[1].node) : NULL;

    if (value == NULL || value->op->source != EST_SOURCE_CONST || value->dtype[0] != EST_F32) return NULL;
    return est_tensor_data(est_node_attr(value, "value")->tensor);
}

/* A Keras optimizer keeps its learning rate in a variable, as in TensorFlow: that of the checkpoint counts, whatever
 * the program says. */
static est_status compare_rates(const est_graph *graph, est_session *session, const char *path)
{
    est_nodes rates = est_graph_collection(graph, EST_LEARNING_RATES);

    for (int i = 0; i < rates.n; i++) {
        const est_node_def *variable = est_def(rates.data[i]);
        const float        *wanted;
        est_tensor         *saved = NULL;
        float               found;

        wanted = first_value(graph, variable);
        if (wanted == NULL) continue;
        EST_TRY(est_session_read(session, variable->name, &saved));
        found = *(const float *)est_tensor_data(saved);
        est_tensor_free(saved);
        if (found == *wanted) continue;
        est_log_warn(
            "learning rate %g is not used: %s has %g in %s; start a new model_dir with warm_start to change it",
            (double)*wanted, path, (double)found, variable->name);
    }
    return EST_OK;
}

static est_recovery_names names_of(const est_training *t)
{
    return (est_recovery_names){ "model_dir", t->estimator->model_dir, "save_checkpoints_steps" };
}

static est_status use_restored(est_training *t, est_loop *loop, const est_reached *had, const est_restored *restored,
                               const est_tensor *position, const est_tensor *runs)
{
    est_recovery_names names   = names_of(t);
    est_session       *session = est_loop_session(loop);

    if (restored->path[0] == '\0') {
        est_log_info("All variables have values already: going on with them.");
        return EST_OK;
    }
    est_recovery_log(had, &names, restored->path);
    if (restored->n_missing > 0)
        EST_TRY(est_session_init(session)); /* slots of variables that were not trained there */
    EST_TRY(compare_rates(t->model->graph, session, restored->path));
    if (runs != NULL && est_tensor_dtype(runs) == EST_I64 && est_tensor_count(runs) == 1) {
        est_session_set_run_count(session, *(const uint64_t *)est_tensor_data(runs));
    }
    return est_run_restore_input(&t->run, loop, position);
}

est_status est_training_restore(void *user, est_loop *loop, const est_reached *had)
{
    est_training      *t        = user;
    est_recovery_names names    = names_of(t);
    est_session       *session  = est_loop_session(loop);
    est_tensor        *position = NULL, *runs = NULL;
    est_restored       restored = { 0 };
    est_status         status;

    status = est_saver_restore(
        t->saver, session,
        EST_RESTORE(.extras = EST_EXTRAS_OUT({ est_run_input_extra(&t->run), &position }, { EST_EXTRA_RUNS, &runs }),
                    .missing_only = had->missing_only),
        &restored);
    status = est_estimator_blame_checkpoint(status);
    if (status == EST_OK) {
        status = use_restored(t, loop, had, &restored, position, runs);
    } else if (status == EST_NOT_FOUND) {
        status = est_recovery_check_beginning(had, &names);
        if (status == EST_OK) status = est_session_init(session);
        if (status == EST_OK && t->estimator->warm_start != NULL) {
            status = est_warm_start_apply(t->estimator->warm_start, t->model->graph, session);
        }
    }
    est_tensor_free(position);
    est_tensor_free(runs);
    return status;
}

/* What is saved beside the variables. */
static est_status add_extra(est_extra *extras, int *n, const char *name, est_tensor *value)
{
    extras[(*n)++] = (est_extra){ name, value };
    return EST_OK;
}

static est_status add_number(est_extra *extras, int *n, const char *name, int64_t value)
{
    est_tensor *tensor = NULL;

    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &value, &tensor));
    return add_extra(extras, n, name, tensor);
}

est_status est_training_extras(void *user, est_loop *loop, est_extra *extras, int n_max, int *n)
{
    est_training *t        = user;
    est_tensor   *position = NULL;

    (void)n_max; /* three are far below it */
    EST_TRY(add_number(extras, n, EST_EXTRA_RUNS, (int64_t)est_loop_run_count(loop)));
    EST_TRY(add_number(extras, n, EST_EXTRA_SEED, (int64_t)t->run.seed));
    if (est_loop_input(loop) == NULL || t->run.no_input_position) return EST_OK;
    EST_TRY(est_run_save_input(&t->run, loop, &position));
    return add_extra(extras, n, est_run_input_extra(&t->run), position);
}
