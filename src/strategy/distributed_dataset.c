/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributed datasets: an iterator takes one batch for each replica of this process from the dataset of its worker.
 * Where there are fewer, the others get empty ones, which are made of the components' shapes: a worker may never have
 * seen a batch. */
#include "estoc/distributed_dataset.h"

#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/callback.h"
#include "data/rebatch.h"
#include "data/stage.h"
#include "nn/nn.h"
#include "runtime/communicator.h"
#include "strategy/strategy.h"

struct est_distributed_dataset {
    est_dataset *local;
    int          replicas; /* of this worker */
    int          n_values; /* of a replica: components, and splits of ragged ones */
    bool         alone;    /* one replica in all: no batch is ever missing */
};

/* --- datasets ----------------------------------------------------------------------------------------------------- */

/* Batches can be empty when all components have rows. */
static est_status check_rows(const est_dataset *dataset)
{
    for (int i = 0; i < dataset->n_components; i++) {
        const est_component *c = &dataset->components[i];

        if (c->shape.rank >= 1) continue;
        return est_fail(EST_INVALID_ARGUMENT, "component %s of a distributed dataset %s: %s", c->name,
                        c->shape.rank == 0 ? "is a scalar" : "has an unknown rank",
                        c->shape.rank == 0 ? "batch the dataset" : "declare its shape");
    }
    return EST_OK;
}

/* Takes the dataset. */
static est_status wrap(const est_strategy *strategy, est_dataset *local, est_distributed_dataset **out)
{
    est_replicas             r    = est_strategy_replicas(strategy);
    est_distributed_dataset *made = NULL;
    est_status               status;

    EST_TRY(est_dataset_finish(local, &local));
    status = r.total > 1 ? check_rows(local) : EST_OK;
    if (status == EST_OK) {
        made   = est_zalloc(sizeof *made);
        status = made != NULL ? EST_OK : est_no_memory();
    }
    if (status != EST_OK) {
        est_dataset_free(local);
        return status;
    }
    *made = (est_distributed_dataset){ .local = local, .replicas = r.n, .alone = r.total == 1 };
    for (int i = 0; i < local->n_components; i++) made->n_values += local->components[i].ragged ? 2 : 1;
    *out = made;
    return EST_OK;
}

/* Replicas of one process cut every batch for itself, so that one that is not full is shared by all of them, too. */
static est_dataset *divide(est_dataset *dataset, const est_input_context *context, est_auto_shard_policy policy)
{
    int replicas = context->num_replicas_in_sync;

    if (context->n_pipelines > 1 || replicas <= 1 || policy != EST_AUTO_SHARD_OFF) {
        return est_dataset_distribute(dataset, context, policy);
    }
    return est_dataset_prefetch(est_rebatch_evenly(dataset, replicas), replicas);
}

est_status est_strategy_distribute_dataset(const est_strategy *strategy, est_dataset *dataset,
                                           est_auto_shard_policy policy, est_distributed_dataset **out)
{
    est_input_context context = { 0 };

    EST_REQUIRE(dataset);
    if (out == NULL) {
        est_dataset_free(dataset);
        EST_REQUIRE(out);
    }
    est_strategy_input_context(strategy, &context);
    if (context.n_pipelines == 1 && policy == EST_AUTO_SHARD_AUTO)
        policy = EST_AUTO_SHARD_OFF; /* nobody to share with */
    return wrap(strategy, divide(dataset, &context, policy), out);
}

est_status est_strategy_datasets_from_function(const est_strategy *strategy, est_input_fn fn, void *user,
                                               est_distributed_dataset **out)
{
    est_input_context context = { .mode = EST_TRAIN, .job_seed = 1 };
    est_dataset      *dataset = NULL;
    est_status        status;

    EST_REQUIRE(out);
    EST_REQUIRE(fn);
    est_strategy_input_context(strategy, &context);
    context.seed = (uint64_t)context.pipeline + 1;
    status       = EST_CALLBACK(fn(&context, user, &dataset), "it");
    if (status == EST_OK && dataset == NULL)
        status = est_fail(EST_INVALID_ARGUMENT, "it returned EST_OK but no dataset; set *out");
    if (status == EST_OK) status = wrap(strategy, dataset, out);
    return status == EST_OK ? EST_OK : est_fail_context(status, "input_fn");
}

void est_distributed_dataset_free(est_distributed_dataset *dataset)
{
    if (dataset == NULL) return;
    est_dataset_free(dataset->local);
    est_free(dataset);
}

const est_dataset *est_distributed_dataset_local(const est_distributed_dataset *dataset)
{
    return dataset != NULL ? dataset->local : NULL;
}

/* --- placeholders ------------------------------------------------------------------------------------------------- */

/* Placeholders have names that no layer uses, as those of Estimators. */
static est_node placeholder(est_graph *graph, const est_component *c, bool splits, bool any_rows)
{
    const char *name  = est_arena_printf(est_graph_arena(graph), "IteratorGetNext/%s%s", c->name,
                                        splits ? "/splits" : "");
    est_shape   shape = splits ? EST_SHAPE(-1) : c->shape;

    if (name == NULL) return est_graph_poison(graph, est_no_memory());
    if (any_rows) shape.dim[0] = -1;
    return est_named(est_placeholder(graph, NULL, splits ? EST_I64 : c->dtype, shape), name);
}

est_nodes est_distributed_placeholders(const est_distributed_dataset *dataset, est_graph *graph)
{
    est_node *list;
    int       n = 0;

    if (dataset == NULL || graph == NULL || est_graph_poisoned(graph)) return EST_NO_NODES;
    list = est_arena_alloc(est_graph_arena(graph), sizeof *list * (size_t)(dataset->replicas * dataset->n_values + 1));
    if (list == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return EST_NO_NODES;
    }
    for (int r = 0; r < dataset->replicas; r++) {
        for (int i = 0; i < dataset->local->n_components; i++) {
            const est_component *c = &dataset->local->components[i];

            list[n++] = placeholder(graph, c, false, !dataset->alone);
            if (c->ragged) list[n++] = placeholder(graph, c, true, false);
        }
    }
    return est_graph_poisoned(graph) ? EST_NO_NODES : (est_nodes){ list, n };
}

/* The graph of placeholders that are all of the dataset; NULL: they are not, and their graph is poisoned. */
static est_graph *graph_of(const est_distributed_dataset *dataset, est_nodes placeholders, const char *name)
{
    est_graph *graph = EST_LIST_OK(placeholders) && placeholders.n > 0 ? placeholders.data[0].graph : NULL;

    if (graph == NULL || est_graph_poisoned(graph)) return NULL;
    if (dataset == NULL || name == NULL) {
        (void)est_nn_fail(graph, "an input of a distributed dataset: %s is NULL", name == NULL ? "name" : "dataset");
        return NULL;
    }
    if (placeholders.n == dataset->replicas * dataset->n_values) return graph;
    (void)est_nn_fail(graph, "%d placeholders that are none of est_distributed_placeholders for this dataset",
                      placeholders.n);
    return NULL;
}

static est_ragged_node find(const est_distributed_dataset *dataset, est_nodes placeholders, int replica,
                            const char *name, bool ragged)
{
    est_ragged_node none  = { EST_NO_NODE, EST_NO_NODE };
    est_graph      *graph = graph_of(dataset, placeholders, name);
    int             at;

    if (graph == NULL) return none;
    if (replica < 0 || replica >= dataset->replicas) {
        (void)est_nn_fail(graph, "an input of replica %d, and there are %d here", replica, dataset->replicas);
        return none;
    }
    at = replica * dataset->n_values;
    for (int i = 0; i < dataset->local->n_components; i++) {
        const est_component *c = &dataset->local->components[i];

        if (strcmp(c->name, name) == 0 && c->ragged == ragged) {
            return (est_ragged_node){ placeholders.data[at], ragged ? placeholders.data[at + 1] : EST_NO_NODE };
        }
        at += c->ragged ? 2 : 1;
    }
    (void)est_nn_fail(graph, "the distributed dataset has no component \"%s\" that is %s", name,
                      ragged ? "ragged" : "dense");
    return none;
}

est_node est_distributed_input(const est_distributed_dataset *dataset, est_nodes placeholders, int replica,
                               const char *name)
{
    return find(dataset, placeholders, replica, name, false).values;
}

est_ragged_node est_distributed_ragged(const est_distributed_dataset *dataset, est_nodes placeholders, int replica,
                                       const char *name)
{
    return find(dataset, placeholders, replica, name, true);
}

/* --- iterators ---------------------------------------------------------------------------------------------------- */

struct est_distributed_iterator {
    est_iterator      *batches;
    est_dataset       *local; /* a reference */
    int                replicas;
    est_field         *fields; /* [replicas, components]: of the last step */
    est_field         *empty;  /* [components]: for replicas without a batch; not where there is one replica in all */
    const est_tensor **values; /* of the last step */
    est_communicator  *communicator; /* NULL: it ends with its own input */
};

/* A batch without rows. Further dimensions that are not known are 0 as well. */
static est_status make_empty(est_distributed_iterator *it)
{
    for (int i = 0; i < it->local->n_components; i++) {
        const est_component *c     = &it->local->components[i];
        est_shape            shape = c->shape;

        shape.dim[0] = 0;
        for (int k = 1; k < shape.rank; k++) shape.dim[k] = shape.dim[k] < 0 ? 0 : shape.dim[k];
        EST_TRY(est_tensor_create(c->dtype, shape, &it->empty[i].values));
        if (c->ragged) EST_TRY(est_tensor_i64(EST_SHAPE(1), &(int64_t){ 0 }, &it->empty[i].splits));
    }
    return EST_OK;
}

est_status est_distributed_iterator_create(const est_distributed_dataset *dataset, est_workers *workers,
                                           est_distributed_iterator **out)
{
    est_distributed_iterator *it;
    size_t                    n;
    est_status                status = EST_OK;

    EST_REQUIRE(dataset);
    EST_REQUIRE(out);
    it = est_zalloc(sizeof *it);
    if (it == NULL) return est_no_memory();
    n                = (size_t)dataset->local->n_components;
    it->local        = est_dataset_ref(dataset->local);
    it->replicas     = dataset->replicas;
    it->communicator = est_workers_communicator(workers);
    it->fields       = est_zalloc((n * (size_t)dataset->replicas + 1) * sizeof *it->fields);
    it->empty        = est_zalloc((n + 1) * sizeof *it->empty);
    it->values       = est_zalloc((size_t)(dataset->n_values * dataset->replicas + 1) * sizeof *it->values);
    if (it->fields == NULL || it->empty == NULL || it->values == NULL) status = est_no_memory();
    if (status == EST_OK && !dataset->alone) status = make_empty(it);
    if (status == EST_OK) status = est_iterator_create(dataset->local, &it->batches);
    if (status != EST_OK) {
        est_distributed_iterator_free(it);
        return status;
    }
    *out = it;
    return EST_OK;
}

/* Lists the values of a step of which the first n replicas have batches. */
static void list_values(est_distributed_iterator *it, int n)
{
    const est_tensor **to = it->values;

    for (int r = 0; r < it->replicas; r++) {
        const est_field *batch = r < n ? &it->fields[r * it->local->n_components] : it->empty;

        for (int i = 0; i < it->local->n_components; i++) {
            *to++ = batch[i].values;
            if (it->local->components[i].ragged) *to++ = batch[i].splits;
        }
    }
}

est_status est_distributed_iterator_next(est_distributed_iterator *iterator, const est_tensor *const **values)
{
    est_status status = EST_OK;
    int        n      = 0, n_components;

    EST_REQUIRE(iterator);
    EST_REQUIRE(values);
    n_components = iterator->local->n_components;
    est_element_clear(iterator->fields, iterator->replicas * n_components);
    while (n < iterator->replicas && status == EST_OK) {
        status = est_iterator_next(iterator->batches, &iterator->fields[n * n_components]);
        if (status == EST_OK) n++;
    }
    if (status != EST_OK && status != EST_OUT_OF_RANGE) return status;
    if (n == 0 && iterator->communicator == NULL) return EST_OUT_OF_RANGE;
    if (iterator->communicator != NULL) iterator->communicator->idle = n == 0;
    list_values(iterator, n);
    *values = iterator->values;
    return EST_OK;
}

est_status est_distributed_iterator_save(est_distributed_iterator *iterator, est_tensor **out)
{
    EST_REQUIRE(iterator);
    return est_iterator_save(iterator->batches, out);
}

est_status est_distributed_iterator_restore(est_distributed_iterator *iterator, const est_tensor *position)
{
    EST_REQUIRE(iterator);
    return est_iterator_restore(iterator->batches, position);
}

void est_distributed_iterator_free(est_distributed_iterator *iterator)
{
    if (iterator == NULL) return;
    if (iterator->communicator != NULL) iterator->communicator->idle = false;
    if (iterator->fields != NULL)
        est_element_clear(iterator->fields, iterator->replicas * iterator->local->n_components);
    if (iterator->empty != NULL) est_element_clear(iterator->empty, iterator->local->n_components);
    est_free(iterator->fields);
    est_free(iterator->empty);
    est_free(iterator->values);
    est_iterator_free(iterator->batches);
    est_dataset_free(iterator->local);
    est_free(iterator);
}
