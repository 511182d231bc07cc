/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of all datasets: the chain of stages with its first error, the components, references. */
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/map.h"
#include "data/stage.h"

/* Returned by a constructor that is out of memory even for the error. Never freed. */
static est_error   no_memory_error = { EST_RESOURCE_EXHAUSTED, "dataset.c", "no memory for a stage of a dataset" };
static est_dataset no_memory       = { .error = &no_memory_error };

bool est_dataset_sound(const est_dataset *dataset)
{
    return dataset->stage != NULL;
}

/* Frees a dataset without references. The original owns the contents of a copy's struct. */
static void dataset_destroy(est_dataset *dataset)
{
    bool owns = dataset->stage != NULL && dataset->original == NULL;

    if (owns && dataset->stage->free != NULL) dataset->stage->free(dataset);
    for (int i = 0; i < EST_STAGE_INPUTS_MAX; i++) est_dataset_free(dataset->input[i]);
    est_dataset_free(dataset->original);
    for (const est_kept *k = dataset->kept; k != NULL; k = k->next) k->release(k->user);
    est_arena_free(dataset->arena);
    est_free(dataset);
}

void est_dataset_free(est_dataset *dataset)
{
    if (dataset == NULL || dataset == &no_memory) return;
    if (est_refcount_drop(&dataset->refs)) dataset_destroy(dataset);
}

est_dataset *est_dataset_ref(const est_dataset *dataset)
{
    est_dataset *shared = (est_dataset *)(uintptr_t)dataset; /* only the count changes */

    if (dataset == NULL || dataset == &no_memory) return shared;
    est_refcount_add(&shared->refs);
    return shared;
}

est_status est_dataset_keep(est_dataset *dataset, void (*release)(void *user), void *user)
{
    est_kept *k;

    EST_REQUIRE(dataset);
    EST_REQUIRE(release);
    if (!est_dataset_sound(dataset)) return est_error_raise(dataset->error);
    k = est_arena_alloc(dataset->arena, sizeof *k);
    if (k == NULL) return est_no_memory();
    *k            = (est_kept){ dataset->kept, release, user };
    dataset->kept = k;
    return EST_OK;
}

/* The first of the inputs that cannot be built upon. */
static est_dataset *failed_input(est_dataset *first, est_dataset *second)
{
    if (first != NULL && !est_dataset_sound(first)) return first;
    if (second != NULL && !est_dataset_sound(second)) return second;
    return NULL;
}

est_dataset *est_dataset_fail(est_dataset *dataset, est_status status)
{
    est_error *error = est_arena_alloc(dataset->arena, sizeof *error);

    if (error == NULL) {
        est_dataset_free(dataset);
        return &no_memory;
    }
    est_fail_context(status, "dataset stage %s", dataset->stage->name);
    est_error_take(status, error);
    if (dataset->stage->free != NULL) dataset->stage->free(dataset);
    dataset->stage = NULL;
    dataset->error = error;
    return dataset;
}

static bool is_last(const est_dataset *dataset)
{
    return dataset != NULL && dataset->stage->last;
}

void *est_dataset_new(const est_stage *stage, size_t size, est_dataset *first, est_dataset *second)
{
    est_dataset *failed = failed_input(first, second);
    est_dataset *dataset;

    if (failed != NULL) {
        if (failed != first) est_dataset_free(first);
        if (failed != second) est_dataset_free(second);
        return failed;
    }
    dataset = est_zalloc(size);
    if (dataset != NULL) dataset->arena = est_arena_create();
    if (dataset == NULL || dataset->arena == NULL) {
        est_free(dataset);
        est_dataset_free(first);
        est_dataset_free(second);
        return &no_memory;
    }
    est_refcount_init(&dataset->refs);
    dataset->stage    = stage;
    dataset->size     = size;
    dataset->input[0] = first;
    dataset->input[1] = second;
    dataset->endless  = (first != NULL && first->endless) || (second != NULL && second->endless);
    if ((stage->n_inputs > 0 && first == NULL) || (stage->n_inputs > 1 && second == NULL)) {
        return est_dataset_fail(dataset, est_fail(EST_INVALID_ARGUMENT, "no dataset was given"));
    }
    if (is_last(first) || is_last(second)) {
        return est_dataset_fail(dataset,
                                est_fail(EST_INVALID_ARGUMENT, "it comes after %s, which must be the last stage",
                                         (is_last(first) ? first : second)->stage->name));
    }
    return dataset;
}

est_dataset *est_dataset_copy(const est_dataset *dataset, est_dataset *first, est_dataset *second, const char *suffix)
{
    est_dataset *copy;

    if (dataset->stage->copy != NULL) return dataset->stage->copy(dataset, first, suffix);
    copy = est_dataset_new(dataset->stage, dataset->size, first, second);
    if (!est_dataset_sound(copy)) return copy;
    memcpy((char *)copy + sizeof *copy, (const char *)dataset + sizeof *dataset, dataset->size - sizeof *dataset);
    copy->original     = est_dataset_ref(dataset);
    copy->components   = dataset->components;
    copy->n_components = dataset->n_components;
    copy->endless      = dataset->endless;
    copy->varies       = dataset->varies;
    return copy;
}

est_status est_dataset_finish(est_dataset *dataset, est_dataset **out)
{
    est_status status;

    EST_REQUIRE(out);
    if (dataset == NULL) return est_fail(EST_INVALID_ARGUMENT, "a dataset is needed, NULL was given");
    if (est_dataset_sound(dataset)) {
        *out = dataset;
        return EST_OK;
    }
    status = est_error_raise(dataset->error);
    est_dataset_free(dataset);
    return status;
}

/* --- components --------------------------------------------------------------------------------------------------- */

/* Each has a name of its own. */
static est_status check_names(est_component *components, int n)
{
    est_map    seen   = { 0 };
    est_status status = EST_OK;

    for (int i = 0; n > 1 && i < n && status == EST_OK; i++) {
        status = est_map_get(&seen, components[i].name) == NULL
                     ? est_map_put(&seen, components[i].name, &components[i])
                     : est_fail(EST_INVALID_ARGUMENT, "two components are called %s", components[i].name);
    }
    est_map_clear(&seen);
    return status;
}

static est_status copy_components(est_dataset *dataset, const est_component *components, int n)
{
    est_component *copy = est_arena_alloc(dataset->arena, (size_t)n * sizeof *copy);

    if (n < 1) return est_fail(EST_INVALID_ARGUMENT, "an element needs at least one component");
    if (copy == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        if (components[i].name == NULL || components[i].name[0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "component %d has no name", i);
        }
        if (components[i].dtype == EST_RESOURCE || est_dtype_size(components[i].dtype) == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "component %s has no dtype; set .dtype", components[i].name);
        }
        copy[i]      = components[i];
        copy[i].name = est_arena_strdup(dataset->arena, components[i].name);
        if (copy[i].name == NULL) return est_no_memory();
    }
    EST_TRY(check_names(copy, n));
    dataset->components   = copy;
    dataset->n_components = n;
    return EST_OK;
}

est_dataset *est_dataset_with(est_dataset *dataset, const est_component *components, int n)
{
    est_status status = copy_components(dataset, components, n);

    return status == EST_OK ? dataset : est_dataset_fail(dataset, status);
}

est_dataset *est_dataset_like(est_dataset *dataset, const est_dataset *other)
{
    return est_dataset_with(dataset, other->components, other->n_components);
}

est_status est_dataset_need_strings(const est_dataset *dataset, const char *what)
{
    const est_component *first = &dataset->components[0];
    char                 text[EST_SHAPE_TEXT_MAX];

    if (first->dtype == EST_STRING && first->shape.rank == 0 && !first->ragged) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "it needs %s, one string per element, but component %s is %s %s", what,
                    first->name, est_dtype_name(first->dtype), est_shape_text(&first->shape, text));
}

est_status est_dataset_check(const est_dataset *dataset)
{
    if (dataset->stage->check != NULL) return dataset->stage->check(dataset);
    for (int i = 0; i < dataset->stage->n_inputs; i++) EST_TRY(est_dataset_check(dataset->input[i]));
    return EST_OK;
}

bool est_dataset_endless(const est_dataset *dataset)
{
    return dataset != NULL ? dataset->endless : false;
}

int est_dataset_components(const est_dataset *dataset)
{
    return dataset != NULL ? dataset->n_components : 0;
}

const est_component *est_dataset_component(const est_dataset *dataset, int i)
{
    return dataset != NULL && i >= 0 && i < dataset->n_components ? &dataset->components[i] : NULL;
}

int est_dataset_find(const est_dataset *dataset, const char *name)
{
    for (int i = 0; name != NULL && i < est_dataset_components(dataset); i++) {
        if (strcmp(dataset->components[i].name, name) == 0) return i;
    }
    return -1;
}

void est_dataset_list(const est_dataset *dataset, est_strbuf *out)
{
    for (int i = 0; i < est_dataset_components(dataset); i++) {
        est_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", dataset->components[i].name);
    }
}
