/* SPDX-License-Identifier: Apache-2.0
 *
 * Several heads on one model: this file combines them, src/models/head.c finishes them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "models/head.h"

static est_status check(est_heads list, est_f64s weights)
{
    est_head *const *heads = list.data;

    if (list.n < 1) return est_fail(EST_INVALID_ARGUMENT, "a multi-head needs at least one head");
    if (weights.n > 0 && weights.n != list.n) {
        return est_fail(EST_INVALID_ARGUMENT, "multi-head: %d weights for %d heads; give one a head, or none",
                        weights.n, list.n);
    }
    for (int i = 0; i < list.n; i++) {
        if (heads[i] == NULL) return est_fail(EST_INVALID_ARGUMENT, "multi-head: head %d of %d is NULL", i, list.n);
        if (weights.n > 0 && !isfinite(weights.data[i])) {
            return est_fail(EST_INVALID_ARGUMENT, "multi-head: the weight of head %d is %g, it must be a finite number",
                            i, weights.data[i]);
        }
        if (heads[i]->kind == NULL) return est_fail(EST_INVALID_ARGUMENT, "a multi-head cannot hold a multi-head");
        if (heads[i]->name == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "multi-head: head %d, a %s, needs a name", i, heads[i]->kind->title);
        }
        if (heads[i]->o.loss_reduction != heads[0]->o.loss_reduction) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "multi-head: %s and %s differ in loss_reduction; set the same for "
                            "all heads",
                            heads[0]->name, heads[i]->name);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(heads[i]->name, heads[k]->name) != 0) continue;
            return est_fail(EST_INVALID_ARGUMENT, "multi-head: two heads are called %s", heads[i]->name);
        }
    }
    return EST_OK;
}

/* "first_second". */
static est_status name(est_head *multi, est_heads heads)
{
    for (int i = 0; i < heads.n; i++) {
        multi->name = i == 0 ? est_arena_strdup(multi->arena, heads.data[i]->name)
                             : est_arena_printf(multi->arena, "%s_%s", multi->name, heads.data[i]->name);
        if (multi->name == NULL) return est_no_memory();
    }
    return EST_OK;
}

static est_status fill(est_head *multi, est_heads heads, est_f64s weights)
{
    int n = heads.n;

    multi->arena = est_arena_create();
    if (multi->arena == NULL) return est_no_memory();
    multi->heads   = est_arena_alloc(multi->arena, (size_t)n * sizeof *multi->heads);
    multi->weights = est_arena_alloc(multi->arena, (size_t)n * sizeof *multi->weights);
    if (multi->heads == NULL || multi->weights == NULL) {
        return est_no_memory();
    }
    EST_TRY(name(multi, heads));
    for (int i = 0; i < n; i++) {
        multi->heads[i]   = est_head_ref(heads.data[i]);
        multi->weights[i] = weights.n > 0 ? weights.data[i] : 1;
        multi->n += heads.data[i]->n;
    }
    multi->n_heads        = n;
    multi->training_scope = est_arena_printf(multi->arena, "training_%d", n);
    if (multi->training_scope == NULL) return est_no_memory();
    return EST_OK;
}

est_status est_multi_head(est_heads heads, est_f64s weights, est_head **out)
{
    est_head  *multi;
    est_status status;

    EST_REQUIRE_LIST("multi-head: heads", heads);
    EST_REQUIRE_LIST("multi-head: weights", weights);
    EST_REQUIRE(out);
    EST_TRY(check(heads, weights));
    multi = est_zalloc(sizeof *multi);
    if (multi == NULL) return est_no_memory();
    est_refcount_init(&multi->refs);
    status = fill(multi, heads, weights);
    if (status != EST_OK) {
        est_head_free(multi);
        return status;
    }
    *out = multi;
    return EST_OK;
}
