/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of predictions: which predictions are wanted, copies of their batches, and views of one example. */
#include "predict/rows.h"

#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/strbuf.h"

bool est_is_splits_of(const char *splits, const char *name)
{
    size_t size = strlen(name);

    return strncmp(splits, name, size) == 0 && strcmp(splits + size, EST_SPLITS_SUFFIX) == 0;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static void append_names(est_strbuf *out, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) est_strbuf_printf(out, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
}

static est_status fail_keys(const est_predictions *p, const char *const *names, int n)
{
    est_strbuf asked = { 0 }, there = { 0 };
    est_status status;

    append_names(&asked, p->wanted.data, p->wanted.n);
    append_names(&there, names, n);
    status = est_fail(EST_INVALID_ARGUMENT,
                      "predict: keys are %s, but none of them is a prediction of the model; write some "
                      "of %s, or leave them out for all",
                      asked.size > 0 ? est_strbuf_text(&asked) : "an empty list", est_strbuf_text(&there));
    est_strbuf_clear(&asked);
    est_strbuf_clear(&there);
    return status;
}

static bool is_wanted(const est_predictions *p, const char *name)
{
    if (p->wanted.data == NULL) return true;
    for (int i = 0; i < p->wanted.n; i++) {
        if (strcmp(p->wanted.data[i], name) == 0) return true;
    }
    return false;
}

/* Whether the name is that of splits whose ragged prediction is wanted. */
static bool is_of_wanted(const est_predictions *p, const char *splits, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (est_is_splits_of(splits, names[i])) return is_wanted(p, names[i]);
    }
    return false;
}

/* Splits follow their values: as keys for batches, else at the end. */
est_status est_predictions_choose(est_predictions *p, const char *const *names, int n, int *fetches, int *n_fetches)
{
    p->keys   = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->keys);
    p->batch  = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->batch);
    p->rows   = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->rows);
    p->splits = est_arena_alloc(p->arena, (size_t)(n + 1) * sizeof *p->splits);
    if (p->keys == NULL || p->batch == NULL || p->rows == NULL || p->splits == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        bool comes_along = is_of_wanted(p, names[i], names, n);

        if (comes_along ? !p->batches : !is_wanted(p, names[i])) continue;
        fetches[p->n]     = i;
        p->keys[p->n]     = names[i];
        p->splits[p->n++] = -1;
    }
    p->n_batch = p->n;
    for (int i = 0; i < p->n && !p->batches; i++) {
        for (int j = 0; j < n; j++) {
            if (!est_is_splits_of(names[j], p->keys[i])) continue;
            fetches[p->n_batch] = j;
            p->splits[i]        = p->n_batch++;
        }
    }
    *n_fetches = p->n_batch;
    return p->n > 0 ? EST_OK : fail_keys(p, names, n);
}

/* --- batches and rows --------------------------------------------------------------------------------------------- */

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
    const est_shape *shape  = p->value(p, i).shape;
    const est_shape *splits = p->splits[i] >= 0 ? p->value(p, p->splits[i]).shape : NULL;

    if (shape->rank < 1 || (splits != NULL && splits->rank != 1)) return -1;
    if (splits != NULL && p->value(p, p->splits[i]).dtype != EST_I64) return -1; /* they are read as such */
    return splits != NULL ? splits->dim[0] - 1 : shape->dim[0];
}

/* Copies the results of the run. To split them into examples, all must have the same number of rows. */
static est_status take_batch(est_predictions *p)
{
    clear(p->batch, p->n_batch);
    for (int i = 0; i < p->n_batch; i++) {
        est_batch_value value = p->value(p, i);

        EST_TRY(est_tensor_create_from(value.dtype, *value.shape, value.data, &p->batch[i]));
    }
    p->row    = 0;
    p->n_rows = 0;
    for (int i = 0; i < p->n && !p->batches; i++) {
        int64_t n = count_rows(p, i);
        char    text[EST_SHAPE_TEXT_MAX];

        if (n < 0) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "the prediction %s of shape %s has no axis of examples: choose other keys, or take "
                            "whole batches",
                            p->keys[i], est_shape_text(p->value(p, i).shape, text));
        }
        if (i > 0 && n != p->n_rows) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "the prediction %s has %" PRId64 " examples, and %s has %" PRId64
                            ": choose other keys, or take whole batches",
                            p->keys[i], n, p->keys[0], p->n_rows);
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
    EST_TRY(not_the_end(p->compute(p, &p->ended)));
    return p->ended ? EST_OUT_OF_RANGE : not_the_end(take_batch(p));
}

static est_status next(est_predictions *p)
{
    if (p->rows != NULL) clear(p->rows, p->n);
    if (p->batches) {
        EST_TRY(next_batch(p));
        for (int i = 0; i < p->n; i++) p->rows[i] = est_tensor_ref(p->batch[i]);
        return EST_OK;
    }
    while (p->row == p->n_rows) EST_TRY(next_batch(p)); /* a batch may have no rows */
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

/* --- create and free ---------------------------------------------------------------------------------------------- */

est_status est_predictions_init(est_predictions *p, est_strings wanted, bool batches)
{
    const char **keys;

    p->arena = est_arena_create();
    if (p->arena == NULL) return est_no_memory();
    keys = est_arena_alloc(p->arena, (size_t)(wanted.n + 1) * sizeof *keys);
    if (keys == NULL) return est_no_memory();
    for (int i = 0; i < wanted.n; i++) {
        keys[i] = est_arena_strdup(p->arena, wanted.data[i]);
        if (keys[i] == NULL) return est_no_memory();
    }
    p->wanted  = (est_strings){ wanted.data != NULL ? keys : NULL, wanted.n };
    p->batches = batches;
    return EST_OK;
}

void est_predictions_free(est_predictions *p)
{
    est_arena *arena;

    if (p == NULL) return;
    if (p->rows != NULL) clear(p->rows, p->n);
    if (p->batch != NULL) clear(p->batch, p->n_batch);
    arena = p->arena;
    p->destroy(p);
    est_arena_free(arena);
}
