/* SPDX-License-Identifier: Apache-2.0
 *
 * predict: the predictions for an input, by example or by batch (predict/rows.h). A predictor computes them, in a loop
 * that calls the hooks around each of its runs. It is opened with the first call of est_predictions_next. */
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "estimator/estimator.h"
#include "predict/predictor.h"
#include "predict/rows.h"
#include "train/hooks.h"

typedef struct estimator_predictions {
    est_predictions     rows;
    est_estimator      *estimator; /* borrowed */
    est_predict_options options;   /* hooks copied into the arena of the rows */
    char               *checkpoint_path;
    est_dataset        *input;
    est_model          *model;
    est_loop           *loop; /* NULL: not opened yet */
} estimator_predictions;

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    estimator_predictions *p = user;

    *global_step = 0;
    return est_estimator_restore(p->estimator, p->model, est_loop_session(loop), p->checkpoint_path, NULL);
}

/* The nodes of the requested predictions. */
static est_status choose(estimator_predictions *p, est_nodes *out)
{
    const est_named_node *all     = p->model->predictions.data;
    int                   n       = p->model->predictions.n, n_fetches;
    const char          **names   = est_arena_alloc(p->rows.arena, (size_t)(n + 1) * sizeof *names);
    int                  *fetches = est_arena_alloc(p->rows.arena, (size_t)(n + 1) * sizeof *fetches);
    est_node             *nodes   = est_arena_alloc(p->rows.arena, (size_t)(n + 1) * sizeof *nodes);

    if (names == NULL || fetches == NULL || nodes == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) names[i] = all[i].name;
    EST_TRY(est_predictions_choose(&p->rows, names, n, fetches, &n_fetches));
    for (int i = 0; i < n_fetches; i++) nodes[i] = all[fetches[i]].node;
    *out = (est_nodes){ nodes, n_fetches };
    return EST_OK;
}

static est_status open_loop(estimator_predictions *p)
{
    const est_model_hook *own = p->model->hooks.data;
    est_nodes             fetches;
    est_hook            **hooks;
    int                   n_hooks = 0;

    hooks = est_arena_alloc(p->rows.arena, (size_t)(p->options.hooks.n + p->model->hooks.n + 1) * sizeof *hooks);
    if (hooks == NULL) return est_no_memory();
    for (int i = 0; i < p->options.hooks.n; i++) hooks[n_hooks++] = p->options.hooks.data[i];
    for (int i = 0; i < p->model->hooks.n; i++) {
        if (own[i].kind == EST_HOOK_PREDICTION) hooks[n_hooks++] = own[i].hook;
    }
    EST_TRY(choose(p, &fetches));
    return est_loop_open(&(est_loop_spec){ .graph      = p->model->graph,
                                           .model_dir  = p->estimator->model_dir,
                                           .session    = est_estimator_session(p->estimator),
                                           .input      = p->input,
                                           .feeds      = p->model->feeds.data,
                                           .n_feeds    = p->model->feeds.n,
                                           .engine     = &est_predictor_engine,
                                           .fetches    = fetches,
                                           .hooks      = { hooks, n_hooks },
                                           .n_given    = p->options.hooks.n,
                                           .initialize = initialize,
                                           .user       = p },
                         &p->loop);
}

static est_status begin(estimator_predictions *p)
{
    est_estimator_say_untrained(p->estimator, p->checkpoint_path, "predict");
    EST_TRY(est_estimator_input(p->estimator, EST_PREDICT, p->options.input_fn, p->options.input_user,
                                p->estimator->config.seed, p->estimator->config.seed, &p->input));
    if (est_dataset_endless(p->input)) {
        est_log_warn(
            "the input of predict repeats for ever, so there is no last prediction; this is probably a mistake: "
            "leave out the repeat in mode EST_PREDICT");
    }
    EST_TRY(est_estimator_model(p->estimator, EST_PREDICT, p->input, p->estimator->config.seed, &p->model));
    return open_loop(p);
}

/* *ended also when a signal stops it; the error says so then. */
static est_status next_batch(estimator_predictions *p, bool *ended)
{
    est_status status;

    if (p->loop == NULL) EST_TRY(begin(p));
    status = est_loop_step(p->loop);
    *ended = est_loop_at_end(p->loop) && status == EST_OUT_OF_RANGE;
    if (!*ended) EST_TRY(status);
    if (!*ended && est_stop_signal() == 0) return EST_OK;
    EST_TRY(est_loop_end(p->loop));
    return est_signals_check("prediction");
}

/* next_batch with signals caught; between two batches the program handles them. */
static est_status compute(est_predictions *self, bool *ended)
{
    estimator_predictions *p = EST_CONTAINER_OF(self, estimator_predictions, rows);
    est_status             status;

    if (p->estimator->config.no_signals) return next_batch(p, ended);
    est_signals_catch();
    status = next_batch(p, ended);
    est_signals_release(status);
    return status;
}

static est_batch_value value(const est_predictions *self, int i)
{
    est_loop *loop = ((const estimator_predictions *)self)->loop;

    return (est_batch_value){ est_loop_dtype(loop, i), est_loop_shape(loop, i), est_loop_data(loop, i) };
}

static void destroy(est_predictions *self)
{
    estimator_predictions *p = EST_CONTAINER_OF(self, estimator_predictions, rows);

    est_loop_free(p->loop);
    est_model_free(p->model);
    est_dataset_free(p->input);
    est_free(p);
}

/* Copies the lists of the options, which are valid only during the call. */
static est_status copy_options(estimator_predictions *p, const est_predict_options *options)
{
    est_hook **hooks;

    EST_TRY(est_predictions_init(&p->rows, options->keys, options->batches));
    hooks = est_arena_alloc(p->rows.arena, (size_t)(options->hooks.n + 1) * sizeof *hooks);
    if (hooks == NULL) return est_no_memory();
    for (int i = 0; i < options->hooks.n; i++) hooks[i] = options->hooks.data[i];
    p->options       = *options;
    p->options.hooks = (est_hooks){ hooks, options->hooks.n };
    if (options->checkpoint_path == NULL) return EST_OK;
    p->checkpoint_path = est_arena_strdup(p->rows.arena, options->checkpoint_path);
    return p->checkpoint_path != NULL ? EST_OK : est_no_memory();
}

est_status est_predict(est_estimator *estimator, const est_predict_options *options, est_predictions **out)
{
    est_predict_options    own;
    estimator_predictions *p;
    est_status             status;

    EST_REQUIRE(estimator);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_predict_options), options, &own));
    options = &own;
    if (options->input_fn == NULL) return est_fail(EST_INVALID_ARGUMENT, "predict: input_fn is required");
    if (!EST_LIST_OK(options->keys)) {
        return est_fail(EST_INVALID_ARGUMENT, "est_predict_options: keys.n is %d and keys.data is %s", options->keys.n,
                        options->keys.data == NULL ? "NULL" : "not NULL");
    }
    for (int i = 0; i < options->keys.n; i++) {
        if (options->keys.data[i] == NULL)
            return est_fail(EST_INVALID_ARGUMENT, "est_predict_options: keys[%d] is NULL", i);
    }
    EST_TRY(est_hooks_check("predict: hook", options->hooks));
    p = est_zalloc(sizeof *p);
    if (p == NULL) return est_no_memory();
    p->rows      = (est_predictions){ .compute = compute, .value = value, .destroy = destroy };
    p->estimator = estimator;
    status       = copy_options(p, options);
    if (status != EST_OK) {
        est_predictions_free(&p->rows);
        return status;
    }
    *out = &p->rows;
    return EST_OK;
}
