/* SPDX-License-Identifier: Apache-2.0
 *
 * A predictor of an estimator's model: the graph that an export would have, without the files. */
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "estimator/estimator.h"
#include "estimator/receiver.h"
#include "predict/predictor.h"

/* What the predictor owns. */
typedef struct served_model {
    est_model   *model;
    est_session *session;
} served_model;

static void release(void *user)
{
    served_model *served = user;

    est_session_free(served->session);
    est_model_free(served->model);
    est_free(served);
}

static est_status build(est_estimator *estimator, const est_serving_input *input, served_model *served,
                        est_receiver *receiver)
{
    EST_TRY(est_model_create(EST_PREDICT, &estimator->config, estimator->self.task, NULL, estimator->config.seed,
                             &served->model));
    EST_TRY(est_receiver_build(input, served->model, receiver));
    est_log_info("Calling model_fn.");
    EST_TRY(est_model_build(served->model, estimator->model_fn, estimator->params));
    est_log_info("Done calling model_fn.");
    return est_receiver_name(receiver, served->model);
}

static est_status restore(est_estimator *estimator, const char *checkpoint_path, served_model *served)
{
    est_session_options options = est_estimator_session(estimator);

    options.seed = 1;
    EST_TRY(est_session_create(served->model->graph, &options, &served->session));
    EST_TRY(est_estimator_restore(estimator, served->model, served->session, checkpoint_path, NULL));
    return est_session_init(served->session); /* local variables, which no checkpoint has */
}

est_status est_estimator_predictor(est_estimator *estimator, const est_serving_input *input,
                                   const char *checkpoint_path, const est_predictor_options *options,
                                   est_predictor **out)
{
    est_predictor_options own;
    est_receiver          receiver;
    est_predictor        *predictor;
    served_model         *served;
    est_status            status;

    EST_REQUIRE(estimator);
    EST_REQUIRE(input);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_predictor_options), options, &own));
    served = est_zalloc(sizeof *served);
    if (served == NULL) return est_no_memory();
    est_estimator_say_untrained(estimator, checkpoint_path, "predict");
    status = build(estimator, input, served, &receiver);
    if (status == EST_OK) status = restore(estimator, checkpoint_path, served);
    if (status == EST_OK) {
        status = est_predictor_over(
            served->session, (est_named_nodes){ receiver.groups[0].inputs, receiver.groups[0].n_inputs },
            (est_named_nodes){ served->model->predictions.data, served->model->predictions.n }, options, &predictor);
    }
    if (status != EST_OK) {
        release(served);
        return status;
    }
    est_predictor_own(predictor, release, served);
    *out = predictor;
    return EST_OK;
}
