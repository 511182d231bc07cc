/* SPDX-License-Identifier: Apache-2.0
 *
 * predict: an iterator over the predictions for an input, by example or by batch. It opens its loop with the first call
 * of est_predictions_next. */
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "base/strbuf.h"
#include "estimator/estimator.h"
#include "train/hooks.h"

struct est_predictions {
    est_estimator      *estimator; /* borrowed */
    est_predict_options options;   /* keys and hooks copied below */
    char               *checkpoint_path;
    est_arena          *arena;

    est_dataset *input;
    est_model   *model;
    est_loop    *loop; /* NULL: not opened yet */
    const char **keys; /* [n]: predictions that the caller gets */
    int          n;
    /* [n]: index in `batch` of the splits that delimit the examples; -1: examples are rows of axis 0 */
    int         *splits;
    est_tensor **batch; /* [n_batch]: of the last run; splits follow the values */
    int          n_batch;
    est_tensor **rows; /* [n]: the current values */
    int64_t      row, n_rows;
    bool         ended;
    est_error    failed; /* the first failure; every later call returns it again */
};

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    est_predictions *p = user;

    *global_step = 0;
    return est_estimator_restore(p->estimator, p->model, est_loop_session(loop), p->checkpoint_path, NULL);
}

/* Releases the values of the last batch. */
static est_status fail_keys(const est_predictions *p)
{
    const est_named_node *all   = p->model->predictions.data;
    est_strbuf            asked = { 0 }, there = { 0 };
    est_status            status;

    for (int i = 0; i < p->options.keys.n; i++) {
        est_strbuf_printf(&asked, "%s\"%s\"", i > 0 ? ", " : "", p->options.keys.data[i]);
    }
    for (int i = 0; i < p->model->predictions.n; i++) {
        est_strbuf_printf(&there, "%s\"%s\"", i > 0 ? ", " : "", all[i].name);
    }
    status = est_fail(EST_INVALID_ARGUMENT,
                      "predict: keys are %s, but none of them is a prediction of the model; write some "
                      "of %s, or leave them out for all",
                      asked.size > 0 ? est_strbuf_text(&asked) : "an empty list", est_strbuf_text(&there));
    est_strbuf_clear(&asked);
    est_strbuf_clear(&there);
    return status;
}

static bool is_wanted(const est_predictions *p, const char *name, size_t size)
{
    if (p->options.keys.data == NULL) return true;
    for (int i = 0; i < p->options.keys.n; i++) {
        if (strlen(p->options.keys.data[i]) == size && memcmp(p->options.keys.data[i], name, size) == 0) return true;
    }
    return false;
}

/* Whether `splits` is the name of the splits of prediction `name`, which has `size` bytes. */
static bool is_splits_of(const char *splits, const char *name, size_t size)
{
    return strncmp(splits, name, size) == 0 && strcmp(splits + size, EST_SPLITS_SUFFIX) == 0;
}

/* Whether the ragged prediction that the splits belong to was requested. */
static bool is_of_wanted(const est_predictions *p, const char *splits)
{
    const est_named_node *all = p->model->predictions.data;

    for (int i = 0; i < p->model->predictions.n; i++) {
        size_t size = strlen(all[i].name);

        if (is_splits_of(splits, all[i].name, size)) return is_wanted(p, all[i].name, size);
    }
    return false;
}

/* Collects the nodes of the requested predictions. Splits follow their values: as keys for batches, else at the end. */
static est_status choose_keys(est_predictions *p, est_node *nodes)
{
    const est_named_node *all   = p->model->predictions.data;
    int                   n_all = p->model->predictions.n;

    for (int i = 0; i < n_all; i++) {
        bool comes_along = is_of_wanted(p, all[i].name);

        if (comes_along ? !p->options.batches : !is_wanted(p, all[i].name, strlen(all[i].name))) continue;
        nodes[p->n]       = all[i].node;
        p->keys[p->n]     = all[i].name;
        p->splits[p->n++] = -1;
    }
    p->n_batch = p->n;
    for (int i = 0; i < p->n && !p->options.batches; i++) {
        for (int j = 0; j < n_all; j++) {
            if (!is_splits_of(all[j].name, p->keys[i], strlen(p->keys[i]))) continue;
            nodes[p->n_batch] = all[j].node;
            p->splits[i]      = p->n_batch++;
        }
    }
    if (p->n > 0) return EST_OK;
    return fail_keys(p);
}

static est_status open_loop(est_predictions *p)
{
    const est_model_hook *own = p->model->hooks.data;
    int                   n   = p->model->predictions.n;
    est_node             *nodes;
    est_hook            **hooks;
    int                   n_hooks = 0;

    nodes     = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *nodes);
    p->keys   = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->keys);
    p->batch  = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->batch);
    p->rows   = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->rows);
    p->splits = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->splits);
    hooks     = est_arena_alloc(p->arena, (size_t)(p->options.hooks.n + p->model->hooks.n + 1) * sizeof *hooks);
    if (nodes == NULL || p->keys == NULL || p->batch == NULL || p->rows == NULL || p->splits == NULL || hooks == NULL) {
        return est_no_memory();
    }
    for (int i = 0; i < p->options.hooks.n; i++) hooks[n_hooks++] = p->options.hooks.data[i];
    for (int i = 0; i < p->model->hooks.n; i++) {
        if (own[i].kind == EST_HOOK_PREDICTION) hooks[n_hooks++] = own[i].hook;
    }
    EST_TRY(choose_keys(p, nodes));
    return est_loop_open(&(est_loop_spec){ .graph      = p->model->graph,
                                           .model_dir  = p->estimator->model_dir,
                                           .session    = { .struct_size    = EST_STRUCT_SIZE(est_session_options),
                                                           .threads        = p->estimator->config.threads,
                                                           .check_numerics = p->estimator->config.check_numerics },
                                           .input      = p->input,
                                           .feeds      = p->model->feeds.data,
                                           .n_feeds    = p->model->feeds.n,
                                           .fetches    = { nodes, p->n_batch },
                                           .hooks      = { hooks, n_hooks },
                                           .n_given    = p->options.hooks.n,
                                           .initialize = initialize,
                                           .user       = p },
                         &p->loop);
}

static est_status begin(est_predictions *p)
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

static void clear(est_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++) {
        est_tensor_free(tensors[i]);
        tensors[i] = NULL;
    }
}

/* The number of examples of a prediction; -1: it has no axis of examples. */
static int64_t count_rows(const est_predictions *p, int i)
{
    const est_shape *shape  = est_loop_shape(p->loop, i);
    const est_shape *splits = p->splits[i] >= 0 ? est_loop_shape(p->loop, p->splits[i]) : NULL;

    if (shape->rank < 1 || (splits != NULL && splits->rank != 1)) return -1;
    return splits != NULL ? splits->dim[0] - 1 : shape->dim[0];
}

/* Copies the results of the run. To split them into examples, all must have the same number of rows. */
static est_status take_batch(est_predictions *p)
{
    clear(p->batch, p->n_batch);
    for (int i = 0; i < p->n_batch; i++) {
        EST_TRY(est_tensor_create_from(est_loop_dtype(p->loop, i), *est_loop_shape(p->loop, i),
                                       est_loop_data(p->loop, i), &p->batch[i]));
    }
    p->row    = 0;
    p->n_rows = 0;
    for (int i = 0; i < p->n && !p->options.batches; i++) {
        int64_t n = count_rows(p, i);
        char    text[EST_SHAPE_TEXT_MAX];

        if (n < 0 || (i > 0 && n != p->n_rows)) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "the prediction %s has shape %s, expected %" PRId64 " examples as %s has; set .batches",
                            p->keys[i], est_shape_text(est_loop_shape(p->loop, i), text), p->n_rows, p->keys[0]);
        }
        p->n_rows = n;
    }
    return EST_OK;
}

/* Example p->row of one prediction. */
static est_status take_row(est_predictions *p, int i)
{
    const int64_t  n = est_tensor_shape(p->batch[i])->dim[0];
    const int64_t *splits;

    if (p->splits[i] < 0) return est_tensor_row(p->batch[i], p->row, &p->rows[i]);
    splits = (const int64_t *)est_tensor_data(p->batch[p->splits[i]]) + p->row;
    if (splits[0] < 0 || splits[1] < splits[0] || splits[1] > n) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the prediction %s has %" PRId64 " values, and example %" PRId64 " those from %" PRId64
                        " to %" PRId64 "; splits rise",
                        p->keys[i], n, p->row, splits[0], splits[1]);
    }
    return est_tensor_rows(p->batch[i], splits[0], splits[1] - splits[0], &p->rows[i]);
}

/* EST_OUT_OF_RANGE tells the caller of the end, so a failure with that code gets another one. */
static est_status not_the_end(est_status status)
{
    est_error error;

    if (status != EST_OUT_OF_RANGE) return status;
    est_error_take(EST_INVALID_ARGUMENT, &error);
    return est_error_raise(&error);
}

static est_status next_batch(est_predictions *p)
{
    est_status status;

    if (p->loop == NULL) EST_TRY(not_the_end(begin(p)));
    status = est_loop_step(p->loop);
    if (!est_loop_at_end(p->loop)) status = not_the_end(status);
    if (status == EST_OK) status = take_batch(p);
    if (status == EST_OUT_OF_RANGE || (status == EST_OK && est_stop_signal() != 0)) {
        p->ended = true;
        EST_TRY(not_the_end(est_loop_end(p->loop)));
        EST_TRY(est_signals_check("prediction"));
    }
    return status;
}

/* next_batch with signals caught; between two batches the program handles them. */
static est_status compute_batch(est_predictions *p)
{
    est_status status;

    if (p->estimator->config.no_signals) return next_batch(p);
    est_signals_catch();
    status = next_batch(p);
    est_signals_release(status == EST_OUT_OF_RANGE ? EST_OK : status); /* the end is not an error */
    return status;
}

static est_status next(est_predictions *p)
{
    if (p->rows != NULL) clear(p->rows, p->n);
    if (p->options.batches) {
        EST_TRY(compute_batch(p));
        for (int i = 0; i < p->n; i++) p->rows[i] = est_tensor_ref(p->batch[i]);
        return EST_OK;
    }
    while (p->row == p->n_rows) EST_TRY(compute_batch(p)); /* a batch may have no rows */
    for (int i = 0; i < p->n; i++) EST_TRY(take_row(p, i));
    p->row++;
    return EST_OK;
}

est_status est_predictions_next(est_predictions *p)
{
    est_status status;

    EST_REQUIRE(p);
    if (p->failed.status != EST_OK) return est_error_raise(&p->failed);
    if (p->ended) return EST_OUT_OF_RANGE;
    status = next(p);
    if (status != EST_OK && status != EST_OUT_OF_RANGE) est_error_take(status, &p->failed);
    return status;
}

const est_tensor *est_predictions_get(const est_predictions *p, const char *key)
{
    for (int i = 0; key != NULL && i < est_predictions_count(p); i++) {
        if (strcmp(p->keys[i], key) == 0) return p->rows[i];
    }
    return NULL;
}

int est_predictions_count(const est_predictions *p)
{
    return p != NULL ? p->n : 0;
}

const char *est_predictions_key(const est_predictions *p, int i)
{
    return p != NULL && i >= 0 && i < p->n ? p->keys[i] : NULL;
}

void est_predictions_free(est_predictions *p)
{
    if (p == NULL) return;
    if (p->rows != NULL) clear(p->rows, p->n);
    if (p->batch != NULL) clear(p->batch, p->n_batch);
    est_loop_free(p->loop);
    est_model_free(p->model);
    est_dataset_free(p->input);
    est_arena_free(p->arena);
    est_free(p);
}

/* Copies the lists of the options, which are valid only during the call. */
static est_status copy_options(est_predictions *p, const est_predict_options *options)
{
    const char **keys;
    est_hook   **hooks;

    p->arena = est_arena_create();
    if (p->arena == NULL) return est_no_memory();
    keys  = est_arena_alloc(p->arena, (size_t)(options->keys.n + 1) * sizeof *keys);
    hooks = est_arena_alloc(p->arena, (size_t)(options->hooks.n + 1) * sizeof *hooks);
    if (keys == NULL || hooks == NULL) return est_no_memory();
    for (int i = 0; i < options->keys.n; i++) {
        keys[i] = est_arena_strdup(p->arena, options->keys.data[i]);
        if (keys[i] == NULL) return est_no_memory();
    }
    for (int i = 0; i < options->hooks.n; i++) hooks[i] = options->hooks.data[i];
    p->options = *options;
    if (options->keys.data != NULL) p->options.keys.data = keys;
    p->options.hooks = (est_hooks){ hooks, options->hooks.n };
    if (options->checkpoint_path == NULL) return EST_OK;
    p->checkpoint_path = est_arena_strdup(p->arena, options->checkpoint_path);
    return p->checkpoint_path != NULL ? EST_OK : est_no_memory();
}

est_status est_predict(est_estimator *estimator, const est_predict_options *options, est_predictions **out)
{
    est_predict_options own;
    est_predictions    *p;
    est_status          status;

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
    p->estimator = estimator;
    status       = copy_options(p, options);
    if (status != EST_OK) {
        est_predictions_free(p);
        return status;
    }
    *out = p;
    return EST_OK;
}
