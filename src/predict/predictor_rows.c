/* SPDX-License-Identifier: Apache-2.0
 *
 * A predictor's predictions for the batches of a dataset. */
#include <string.h>

#include "base/argument.h"
#include "base/strbuf.h"
#include "predict/predictor.h"
#include "predict/rows.h"

typedef struct dataset_predictions {
    est_predictions    rows;
    est_predictor     *predictor; /* borrowed */
    const est_dataset *input;     /* borrowed */
    est_prediction    *prediction;
    est_iterator      *iterator;
    est_field         *element;  /* [components]: of the last batch, since an output may be an input */
    int               *field_of; /* [inputs]: the component, and ~component for its splits */
    est_named_tensor  *inputs;   /* [inputs] */
    int               *fetches;  /* [n_fetches]: outputs of the predictor; NULL: not begun */
} dataset_predictions;

/* The component that an input gets its tensors from; ~component: the splits of it. */
static est_status find_field(const est_dataset *input, const est_component *wanted, int *out)
{
    int n = est_dataset_components(input);

    for (int i = 0; i < n; i++) {
        const est_component *c = est_dataset_component(input, i);

        *out = i;
        if (strcmp(c->name, wanted->name) == 0) return EST_OK;
        *out = ~i;
        if (c->ragged && est_is_splits_of(wanted->name, c->name)) return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "the input \"%s\" is missing: the dataset has no component of this name",
                    wanted->name);
}

static est_status bind_components(dataset_predictions *p)
{
    est_components wanted = est_predictor_inputs(p->predictor);

    p->element  = est_arena_alloc(p->rows.arena, (size_t)(est_dataset_components(p->input) + 1) * sizeof *p->element);
    p->field_of = est_arena_alloc(p->rows.arena, (size_t)(wanted.n + 1) * sizeof *p->field_of);
    p->inputs   = est_arena_alloc(p->rows.arena, (size_t)(wanted.n + 1) * sizeof *p->inputs);
    if (p->element == NULL || p->field_of == NULL || p->inputs == NULL) return est_no_memory();
    for (int i = 0; i < wanted.n; i++) {
        EST_TRY(find_field(p->input, &wanted.data[i], &p->field_of[i]));
        p->inputs[i].name = wanted.data[i].name;
    }
    return EST_OK;
}

static est_status begin(dataset_predictions *p)
{
    est_components all   = est_predictor_outputs(p->predictor);
    const char   **names = est_arena_alloc(p->rows.arena, (size_t)(all.n + 1) * sizeof *names);
    int            n;

    if (p->prediction == NULL) EST_TRY(est_prediction_create(p->predictor, &p->prediction));
    if (p->iterator == NULL) EST_TRY(est_iterator_create(p->input, &p->iterator));
    p->fetches = est_arena_alloc(p->rows.arena, (size_t)(all.n + 1) * sizeof *p->fetches);
    if (names == NULL || p->fetches == NULL) return est_no_memory();
    for (int i = 0; i < all.n; i++) names[i] = all.data[i].name;
    return est_predictions_choose(&p->rows, names, all.n, p->fetches, &n);
}

static est_status compute(est_predictions *self, bool *ended)
{
    dataset_predictions *p = EST_CONTAINER_OF(self, dataset_predictions, rows);
    est_status           status;
    int                  n = est_predictor_inputs(p->predictor).n;

    if (p->fetches == NULL) EST_TRY(begin(p));
    est_element_clear(p->element, est_dataset_components(p->input));
    status = est_iterator_next(p->iterator, p->element);
    if (status == EST_OUT_OF_RANGE) {
        *ended = true;
        return EST_OK;
    }
    EST_TRY(status);
    for (int i = 0; i < n; i++) {
        bool             splits = p->field_of[i] < 0;
        const est_field *field  = &p->element[splits ? ~p->field_of[i] : p->field_of[i]];

        p->inputs[i].tensor = splits ? field->splits : field->values;
    }
    return est_prediction_run(p->prediction, (est_named_tensors){ p->inputs, n });
}

static est_batch_value value(const est_predictions *self, int i)
{
    const dataset_predictions *p      = (const dataset_predictions *)self;
    int                        output = p->fetches[i];

    return (est_batch_value){ est_predictor_outputs(p->predictor).data[output].dtype,
                              est_prediction_shape(p->prediction, output), est_prediction_data(p->prediction, output) };
}

static void destroy(est_predictions *self)
{
    dataset_predictions *p = EST_CONTAINER_OF(self, dataset_predictions, rows);

    if (p->element != NULL) est_element_clear(p->element, est_dataset_components(p->input));
    est_iterator_free(p->iterator);
    est_prediction_free(p->prediction);
    est_free(p);
}

est_status est_predictor_predict(est_predictor *predictor, const est_dataset *input, est_strings keys, bool batches,
                                 est_predictions **out)
{
    dataset_predictions *p;
    est_status           status;

    EST_REQUIRE(predictor);
    EST_REQUIRE(input);
    EST_REQUIRE(out);
    EST_REQUIRE_LIST("keys", keys);
    for (int i = 0; i < keys.n; i++) {
        if (keys.data[i] == NULL) return est_fail(EST_INVALID_ARGUMENT, "keys[%d] is NULL", i);
    }
    p = est_zalloc(sizeof *p);
    if (p == NULL) return est_no_memory();
    *p     = (dataset_predictions){ .rows      = { .compute = compute, .value = value, .destroy = destroy },
                                    .predictor = predictor,
                                    .input     = input };
    status = est_predictions_init(&p->rows, keys, batches);
    if (status == EST_OK) status = bind_components(p);
    if (status != EST_OK) {
        est_predictions_free(&p->rows);
        return status;
    }
    *out = &p->rows;
    return EST_OK;
}
