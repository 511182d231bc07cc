/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets, iterators and values of which every worker has its own. */
#include "base/argument.h"
#include "coordinator/functions.h"

#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "data/encode.h"
#include "data/stage.h"
#include "graph/op.h"
#include "tensor/shape.h"

/* --- life --------------------------------------------------------------------------------------------------------- */

void est_per_worker_clear(est_per_worker *p)
{
    est_coordinator *c = p->object.coordinator;

    for (int i = 0; i < p->n_components; i++) est_free(p->components[i]);
    for (int i = 0; c != NULL && p->values != NULL && i < c->n_workers; i++) est_tensor_free(p->values[i]);
    est_free(p->components);
    est_free(p->values);
    est_free(p->consumed);
    est_free(p->params);
    est_dataset_free(p->dataset);
    est_wire_writer_clear(&p->bytes);
    est_free(p);
    if (c != NULL) est_coordinator_unref(c);
}

static est_per_worker *make(est_object_kind kind, const char *name)
{
    est_per_worker *p = est_zalloc(sizeof *p);

    if (p == NULL) return NULL;
    p->object.kind = kind;
    p->object.name = est_strdup(name);
    if (p->object.name != NULL) return p;
    est_free(p);
    return NULL;
}

/* Adds the object to the coordinator, or frees it after a failure. */
static est_status finish(est_coordinator *c, est_per_worker *p, est_status status, est_per_worker **out)
{
    if (status == EST_OK) status = est_object_add(c, &p->object);
    if (status == EST_OK) {
        *out = p;
        return EST_OK;
    }
    est_free(p->object.name);
    est_per_worker_clear(p);
    return status;
}

void est_per_worker_free(est_per_worker *per_worker)
{
    if (per_worker != NULL) est_object_release(&per_worker->object);
}

const char *est_per_worker_component(est_per_worker *p, const char *component)
{
    char **grown;
    char  *copy;

    for (int i = 0; i < p->n_components; i++) {
        if (strcmp(p->components[i], component) == 0) return p->components[i];
    }
    grown = est_realloc(p->components, sizeof *grown * ((size_t)p->n_components + 1));
    if (grown == NULL) return NULL;
    p->components = grown;
    copy          = est_strdup(component);
    if (copy != NULL) p->components[p->n_components++] = copy;
    return copy;
}

/* --- datasets ----------------------------------------------------------------------------------------------------- */

est_status est_per_worker_dataset_make(est_coordinator *c, const est_dataset *dataset, const char *name, bool shard,
                                       est_per_worker **out)
{
    est_per_worker *p = make(EST_OBJECT_DATASET, name);
    est_status      status;

    if (p == NULL) return est_no_memory();
    p->shard   = shard;
    p->dataset = est_dataset_ref(dataset);
    status     = est_dataset_encode(dataset, &p->bytes);
    if (status == EST_OK) status = est_wire_writer_status(&p->bytes);
    if (status == EST_UNIMPLEMENTED) {
        status = est_fail_context(
            status, "a dataset that travels to workers (est_coordinator_dataset_by_name makes one there)");
    }
    return finish(c, p, status, out);
}

est_status est_coordinator_dataset(est_coordinator *coordinator, const est_dataset *dataset,
                                   const est_per_worker_options *options, est_per_worker **out)
{
    est_per_worker_options o;

    EST_REQUIRE(coordinator);
    EST_REQUIRE(dataset);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_per_worker_options), options, &o));
    if (o.params != NULL || o.params_size != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_coordinator_dataset: .params is for est_coordinator_dataset_by_name; leave it out");
    }
    return est_per_worker_dataset_make(coordinator, dataset, "dataset", o.shard, out);
}

est_status est_coordinator_dataset_by_name(est_coordinator *coordinator, const char *function,
                                           const est_per_worker_options *options, est_per_worker **out)
{
    est_per_worker_options o;
    est_per_worker        *p;
    est_status             status = EST_OK;

    EST_REQUIRE(coordinator);
    EST_REQUIRE(function);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_per_worker_options), options, &o));
    if (o.params == NULL && o.params_size > 0) {
        return est_fail(EST_INVALID_ARGUMENT, "est_coordinator_dataset_by_name: params_size is %zu, but params is NULL",
                        o.params_size);
    }
    p = make(EST_OBJECT_DATASET, function);
    if (p == NULL) return est_no_memory();
    p->shard = o.shard;
    if (o.params_size > 0) {
        p->params      = est_alloc(o.params_size);
        p->params_size = o.params_size;
        if (p->params == NULL) {
            status = est_no_memory();
        } else {
            memcpy(p->params, o.params, o.params_size);
        }
    }
    return finish(coordinator, p, status, out);
}

est_status est_per_worker_iterator(est_per_worker *dataset, est_per_worker **out)
{
    est_coordinator *c;
    est_per_worker  *p;
    est_status       status;

    EST_REQUIRE(dataset);
    EST_REQUIRE(out);
    if (dataset->object.kind != EST_OBJECT_DATASET)
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_per_worker_iterator: a dataset of est_coordinator_dataset is needed");
    c = dataset->object.coordinator;
    p = make(EST_OBJECT_ITERATOR, dataset->object.name);
    if (p == NULL) return est_no_memory();
    p->object.dataset = &dataset->object;
    p->dataset        = dataset->dataset != NULL ? est_dataset_ref(dataset->dataset) : NULL;
    p->consumed       = est_zalloc(sizeof *p->consumed * ((size_t)c->n_workers + 1));
    status            = p->consumed != NULL ? EST_OK : est_no_memory();
    p->ordinal        = c->n_iterators;
    if (status == EST_OK && p->ordinal < c->n_positions)
        memcpy(p->consumed, c->positions + (size_t)p->ordinal * (size_t)c->n_workers,
               sizeof *p->consumed * (size_t)c->n_workers);
    return finish(c, p, status, out);
}

/* --- components --------------------------------------------------------------------------------------------------- */

/* What an argument names: the values of a component, or "name:splits" of a ragged one. false: there is none. */
static bool find_component(const est_dataset *dataset, const char *name, est_dtype *dtype, est_shape *shape)
{
    for (int i = 0; i < est_dataset_components(dataset); i++) {
        const est_component *known = est_dataset_component(dataset, i);
        size_t               size  = strlen(known->name);

        *dtype = known->dtype;
        *shape = known->shape;
        if (strcmp(name, known->name) == 0) return true;
        *dtype = EST_I64;
        *shape = EST_SHAPE(-1);
        if (known->ragged && strncmp(name, known->name, size) == 0 && strcmp(name + size, ":splits") == 0) return true;
    }
    return false;
}

static est_status fail_missing(const est_dataset *dataset, const char *component, const char *function, est_node feed)
{
    est_strbuf names = { 0 };
    est_status status;

    for (int i = 0; i < est_dataset_components(dataset); i++)
        est_strbuf_printf(&names, "%s'%s'", i > 0 ? ", " : "", est_dataset_component(dataset, i)->name);
    status = est_fail(EST_NOT_FOUND, "'%s': '%s' is from component '%s', but the dataset has %s", function,
                      est_node_name(feed), component, est_strbuf_text(&names));
    est_strbuf_clear(&names);
    return status;
}

est_status est_component_check(const est_dataset *dataset, const char *component, const char *function, est_node feed)
{
    const est_shape *wanted = est_node_shape(feed);
    est_dtype        dtype;
    est_shape        shape, merged;
    char             a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (!find_component(dataset, component, &dtype, &shape)) return fail_missing(dataset, component, function, feed);
    if (dtype == est_node_dtype(feed) && est_infer_merge(wanted, &shape, &merged) == EST_OK) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "'%s': '%s' takes %s %s, but component '%s' of the dataset is %s %s",
                    function, est_node_name(feed), est_dtype_name(est_node_dtype(feed)), est_shape_text(wanted, a),
                    component, est_dtype_name(dtype), est_shape_text(&shape, b));
}

/* --- values ------------------------------------------------------------------------------------------------------- */

est_status est_coordinator_value(est_coordinator *coordinator, est_tensors values, est_per_worker **out)
{
    est_coordinator *c = coordinator;
    est_per_worker  *p;
    est_status       status;

    EST_REQUIRE(coordinator);
    EST_REQUIRE(out);
    EST_REQUIRE_LIST("est_coordinator_value: values", values);
    if (values.n != c->n_workers) {
        return est_fail(EST_INVALID_ARGUMENT, "est_coordinator_value: %d tensors for %d workers", values.n,
                        c->n_workers);
    }
    for (int i = 0; i < values.n; i++) {
        if (values.data[i] == NULL)
            return est_fail(EST_INVALID_ARGUMENT, "est_coordinator_value: tensor %d is NULL", i);
    }
    p = make(EST_OBJECT_VALUE, "value");
    if (p == NULL) return est_no_memory();
    p->values = est_zalloc(sizeof *p->values * (size_t)c->n_workers);
    status    = p->values != NULL ? finish(c, p, EST_OK, out) : finish(c, p, est_no_memory(), out);
    for (int i = 0; i < c->n_workers && status == EST_OK; i++) p->values[i] = est_tensor_ref(values.data[i]);
    return status;
}
