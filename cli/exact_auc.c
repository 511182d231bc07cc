/* SPDX-License-Identifier: Apache-2.0
 *
 * The exact area under the ROC curve of an evaluation. */
#include "exact_auc.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define ROWS_MAX ((size_t)1 << 26) /* that are kept; 768 MB */

enum { SCORE, LABEL, WEIGHT };

bool exact_auc_applies(const job_model *model)
{
    return model->head.node != NULL ? model->head.type->value == JOB_BINARY : model->options.n_classes == 2;
}

/* An est_metric_fn, for it sees the model; it adds no metric. */
static est_status find_nodes(est_model *model, void *user)
{
    exact_auc *auc = user;

    auc->score  = est_model_prediction(model, "logistic");
    auc->label  = est_model_label(model, auc->job->data.label.name);
    auc->weight = auc->job->data.weight != NULL ? est_model_feature(model, auc->job->data.weight) : EST_NO_NODE;
    return est_model_status(model);
}

static est_status begin(est_hook *hook, est_loop *loop)
{
    exact_auc *auc = EST_CONTAINER_OF(hook, exact_auc, hook);

    auc->n              = 0;
    auc->fetches[SCORE] = est_loop_fetch(loop, auc->score);
    auc->fetches[LABEL] = est_loop_fetch(loop, auc->label);
    if (auc->job->data.weight != NULL) auc->fetches[WEIGHT] = est_loop_fetch(loop, auc->weight);
    return EST_OK;
}

static est_status before_run(est_hook *hook, est_loop *loop)
{
    const exact_auc *auc = EST_CONTAINER_OF(hook, exact_auc, hook);

    est_loop_want(loop, auc->fetches[SCORE]);
    est_loop_want(loop, auc->fetches[LABEL]);
    if (auc->job->data.weight != NULL) est_loop_want(loop, auc->fetches[WEIGHT]);
    return EST_OK;
}

static est_status make_room(exact_auc *auc, size_t more)
{
    size_t      room = auc->n_room;
    est_scored *rows;

    while (room < auc->n + more) room = room > 0 ? 2 * room : 4096;
    if (room == auc->n_room) return EST_OK;
    rows = est_realloc(auc->rows, room * sizeof *rows);
    if (rows == NULL) return est_no_memory();
    auc->rows   = rows;
    auc->n_room = room;
    return EST_OK;
}

/* Whether label i is of the second class; words are known to be in the vocabulary; stripped ends do not count. */
static bool is_positive(const exact_auc *auc, est_loop *loop, size_t i)
{
    const void *labels = est_loop_data(loop, auc->fetches[LABEL]);
    est_str     word;

    if (est_loop_dtype(loop, auc->fetches[LABEL]) != EST_STRING) return ((const int64_t *)labels)[i] != 0;
    word = ((const est_str *)labels)[i];
    return word.size == strlen(auc->job->data.label.vocabulary.data[1]) &&
           memcmp(word.data, auc->job->data.label.vocabulary.data[1], word.size) == 0;
}

static est_status after_run(est_hook *hook, est_loop *loop)
{
    exact_auc   *auc     = EST_CONTAINER_OF(hook, exact_auc, hook);
    const float *scores  = est_loop_data(loop, auc->fetches[SCORE]); /* [batch, 1] */
    const float *weights = auc->job->data.weight != NULL ? est_loop_data(loop, auc->fetches[WEIGHT]) : NULL;
    size_t       n       = (size_t)est_loop_shape(loop, auc->fetches[SCORE])->dim[0];

    if (auc->n > ROWS_MAX) return EST_OK;
    EST_TRY(make_room(auc, n));
    for (size_t i = 0; i < n; i++) {
        auc->rows[auc->n++] = (est_scored){ .score    = scores[i],
                                            .weight   = weights != NULL ? weights[i] : 1,
                                            .positive = is_positive(auc, loop, i) };
    }
    return EST_OK;
}

est_status exact_auc_init(exact_auc *auc, const job_spec *job, est_estimator *estimator)
{
    *auc = (exact_auc){ .hook = EST_HOOK(.begin = begin, .before_run = before_run, .after_run = after_run),
                        .job  = job };
    return est_estimator_add_metrics(estimator, find_nodes, auc);
}

double exact_auc_value(exact_auc *auc)
{
    return auc->n <= ROWS_MAX ? est_exact_auc(auc->rows, auc->n) : (double)NAN;
}

void exact_auc_clear(exact_auc *auc)
{
    est_free(auc->rows);
    *auc = (exact_auc){ 0 };
}
