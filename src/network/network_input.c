/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a network: which component of a dataset is what, whether it fits, arrays as datasets, and how a loop
 * feeds them. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "base/strbuf.h"
#include "data/rebatch.h"
#include "estoc/input.h"
#include "graph/graph.h"
#include "network/network.h"

#define BATCH_DEFAULT 32

/* --- components --------------------------------------------------------------------------------------------------- */

/* name NULL: the default ones. */
static int find_label(const est_dataset *dataset, const char *name)
{
    int i;

    if (name != NULL) return est_dataset_find(dataset, name);
    i = est_dataset_find(dataset, "label");
    return i >= 0 ? i : est_dataset_find(dataset, "y");
}

int est_network_find_label(const est_network *network, int i, const est_dataset *dataset)
{
    return find_label(dataset, network->compiled->outputs[i].label);
}

int est_network_find_weight(const est_network *network, const est_dataset *dataset)
{
    const char *name = network->compiled != NULL ? network->compiled->weight : NULL;

    return est_dataset_find(dataset, name != NULL ? name : "sample_weight");
}

int est_network_form(const est_network *network, const est_dataset *dataset)
{
    return est_network_find_weight(network, dataset) >= 0 ? EST_FORM_SAMPLE_WEIGHT : 0;
}

/* Fails because a component is missing; `why` ends the sentence that begins with its name. */
static est_status fail_missing(const est_network *network, const est_dataset *dataset, const char *name,
                               const char *why)
{
    est_strbuf names = { 0 };
    est_status status;

    est_dataset_list(dataset, &names);
    status = est_fail(EST_INVALID_ARGUMENT, "%s: the dataset has no component %s, %s; it has: %s", network->name, name,
                      why, est_strbuf_text(&names));
    est_strbuf_clear(&names);
    return status;
}

static est_status need_batches(const est_network *network, const est_component *component)
{
    if (component->shape.rank != 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "%s: component %s of the dataset is one number; batches are needed: see est_dataset_batch",
                    network->name, component->name);
}

static est_status field_of(est_network *network, const est_component *component, est_network_field *out)
{
    EST_TRY(need_batches(network, component));
    *out = (est_network_field){ .name   = est_arena_strdup(network->arena, component->name),
                                .dtype  = component->dtype,
                                .shape  = component->shape,
                                .ragged = component->ragged };
    if (out->name == NULL) return est_no_memory();
    if (out->shape.rank > 0) out->shape.dim[0] = -1;
    return EST_OK;
}

/* Whether component i is a label; of a network that is not compiled, by the name of an output. */
static bool is_label(const est_network *network, const est_dataset *dataset, int i)
{
    const est_compiled *c = network->compiled;

    for (int k = 0; c != NULL && k < c->n_outputs; k++) {
        if (est_network_find_label(network, k, dataset) == i) return true;
    }
    if (network->n_outputs == 1) return c == NULL && find_label(dataset, NULL) == i;
    for (int k = 0; k < network->n_outputs; k++) {
        if (est_dataset_find(dataset, network->output_names[k]) == i) return true;
    }
    return false;
}

/* Everything that is neither label nor weight is an input. */
static est_status take_inputs(est_network *network, const est_dataset *dataset)
{
    int                weight = est_network_find_weight(network, dataset), max = est_dataset_components(dataset), n = 0;
    est_network_field *inputs = est_arena_alloc(network->arena, (size_t)(max + 1) * sizeof *inputs);

    if (inputs == NULL) return est_no_memory();
    for (int i = 0; i < max; i++) {
        if (i == weight || is_label(network, dataset, i)) continue;
        EST_TRY(field_of(network, est_dataset_component(dataset, i), &inputs[n++]));
    }
    if (n == 0) return est_fail(EST_INVALID_ARGUMENT, "%s: the dataset has no input", network->name);
    network->inputs   = inputs;
    network->n_inputs = n;
    return EST_OK;
}

static bool shapes_fit(const est_shape *have, const est_shape *want)
{
    if (have->rank < 0 || want->rank < 0) return true;
    for (int i = 1; i < have->rank && i < want->rank; i++) {
        if (have->dim[i] >= 0 && want->dim[i] >= 0 && have->dim[i] != want->dim[i]) return false;
    }
    return have->rank == want->rank;
}

static est_status check_field(const est_network *network, const est_component *component,
                              const est_network_field *field)
{
    char have[EST_SHAPE_TEXT_MAX], want[EST_SHAPE_TEXT_MAX];

    EST_TRY(need_batches(network, component));
    if (component->dtype == field->dtype && component->ragged == field->ragged &&
        shapes_fit(&component->shape, &field->shape))
        return EST_OK;
    return est_fail(
        EST_INVALID_ARGUMENT, "%s: component %s of the dataset is %s%s %s, and the network was built for %s%s %s%s",
        network->name, component->name, component->ragged ? "ragged " : "", est_dtype_name(component->dtype),
        est_shape_text(&component->shape, have), field->ragged ? "ragged " : "", est_dtype_name(field->dtype),
        est_shape_text(&field->shape, want),
        component->shape.rank == field->shape.rank - 1 ? "; if the dataset has single rows, see est_dataset_batch"
                                                       : "");
}

static est_status check_inputs(const est_network *network, const est_dataset *dataset)
{
    for (int i = 0; i < network->n_inputs; i++) {
        int at = est_dataset_find(dataset, network->inputs[i].name);

        if (at < 0) return fail_missing(network, dataset, network->inputs[i].name, "an input of the network");
        EST_TRY(check_field(network, est_dataset_component(dataset, at), &network->inputs[i]));
    }
    return EST_OK;
}

/* The first axis of all components counts the rows of a batch. */
static est_status check_rows(const est_network *network, const est_dataset *dataset)
{
    const est_component *first = NULL;
    char                 a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < est_dataset_components(dataset); i++) {
        const est_component *c = est_dataset_component(dataset, i);

        if (c->ragged || c->shape.rank < 1 || c->shape.dim[0] < 0) continue;
        if (first == NULL) first = c;
        if (c->shape.dim[0] == first->shape.dim[0]) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: components %s %s and %s %s of the dataset differ in their first axis, the rows of a "
                        "batch; if the dataset has single rows, see est_dataset_batch",
                        network->name, first->name, est_shape_text(&first->shape, a), c->name,
                        est_shape_text(&c->shape, b));
    }
    return EST_OK;
}

/* Takes a field from the first component that it gets, and checks later ones. */
static est_status take_or_check(est_network *network, const est_component *component, est_network_field *field)
{
    return field->name == NULL ? field_of(network, component, field) : check_field(network, component, field);
}

static est_status check_label(est_network *network, const est_dataset *dataset)
{
    est_compiled *c      = network->compiled;
    int           weight = est_network_find_weight(network, dataset);

    if (weight < 0 && c->weight != NULL) return fail_missing(network, dataset, c->weight, "the sample weight");
    if (weight >= 0) EST_TRY(take_or_check(network, est_dataset_component(dataset, weight), &c->weight_field));
    for (int i = 0; i < c->n_outputs; i++) {
        const char *name  = c->outputs[i].label;
        int         label = est_network_find_label(network, i, dataset);

        if (label < 0) {
            return fail_missing(network, dataset, name != NULL ? name : "label or y",
                                network->n_outputs > 1
                                    ? "the label of an output: name it in EST_COMPILE(.outputs = ...)"
                                    : "which is to be predicted: name it in EST_COMPILE(.label = ...)");
        }
        EST_TRY(take_or_check(network, est_dataset_component(dataset, label), &c->outputs[i].field));
    }
    return EST_OK;
}

est_status est_network_fit_to(est_network *network, const est_dataset *dataset, bool labelled)
{
    bool       taken = network->n_inputs == 0;
    est_status status;

    if (taken) {
        EST_TRY(check_rows(network, dataset));
        EST_TRY(take_inputs(network, dataset));
    }
    status = check_inputs(network, dataset);
    if (status == EST_OK && labelled) status = check_label(network, dataset);
    if (status == EST_OK) status = est_network_build_now(network);
    if (status == EST_OK) return EST_OK;
    if (taken) network->n_inputs = 0; /* the next dataset may be the right one */
    if (labelled) est_compiled_forget_fields(network->compiled);
    return status;
}

/* Whether the dataset has all that training takes. */
static bool can_train(const est_network *network, const est_dataset *dataset)
{
    const est_compiled *c = network->compiled;

    for (int i = 0; c != NULL && i < c->n_outputs; i++) {
        if (est_network_find_label(network, i, dataset) < 0) return false;
    }
    return c != NULL && (c->weight == NULL || est_network_find_weight(network, dataset) >= 0);
}

est_status est_network_build(est_network *network, const est_dataset *like)
{
    est_network_function *f;
    bool                  trains;

    EST_REQUIRE(network);
    if (like == NULL) return est_network_build_now(network);
    trains = can_train(network, like);
    EST_TRY(est_network_fit_to(network, like, trains));
    return trains ? est_network_function_get(network, true, est_network_form(network, like), &f) : EST_OK;
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

est_status est_network_feeds(const est_network *network, const est_network_function *f, const est_dataset *dataset,
                             const est_tensor *class_weight, est_loop_feed **out, int *n)
{
    int            weight = est_network_find_weight(network, dataset), n_outputs = network->compiled->n_outputs;
    size_t         max   = (size_t)f->n * (size_t)(2 * network->n_inputs + n_outputs + 3);
    est_loop_feed *feeds = est_zalloc(max * sizeof *feeds);

    if (feeds == NULL) return est_no_memory();
    *n = 0;
    for (int r = 0; r < f->n; r++) {
        const est_network_batch *batch = &f->batches[r];

        for (int i = 0; i < network->n_inputs; i++) {
            est_loop_feed feed = { .component = est_dataset_find(dataset, network->inputs[i].name), .replica = r };

            feed.node     = batch->values[i];
            feeds[(*n)++] = feed;
            if (!network->inputs[i].ragged) continue;
            feed.node     = batch->splits[i];
            feed.splits   = true;
            feeds[(*n)++] = feed;
        }
        for (int i = 0; i < n_outputs; i++) {
            feeds[(*n)++] = (est_loop_feed){ .node      = batch->labels[i],
                                             .component = est_network_find_label(network, i, dataset),
                                             .replica   = r };
        }
        if (batch->weight.graph != NULL) {
            feeds[(*n)++] = (est_loop_feed){ .node = batch->weight, .component = weight, .replica = r };
        }
        if (batch->class_weight.graph != NULL) {
            feeds[(*n)++] = (est_loop_feed){ .node = batch->class_weight, .value = class_weight, .replica = r };
        }
        if (batch->rows.graph != NULL) {
            feeds[(*n)++] = (est_loop_feed){ .node = batch->rows, .rows = true, .replica = r };
        }
    }
    *out = feeds;
    return EST_OK;
}

/* --- sources ------------------------------------------------------------------------------------------------------ */

static int64_t rows_of(est_named_tensors arrays)
{
    const est_shape *shape = est_tensor_shape(arrays.data[0].tensor);

    return shape->rank > 0 ? shape->dim[0] : 0;
}

static est_status check_source(const est_network_source *source)
{
    if (!EST_LIST_OK(source->arrays)) {
        return est_fail(EST_INVALID_ARGUMENT, "arrays.n is %d, and arrays.data is NULL", source->arrays.n);
    }
    if ((source->input != NULL) == (source->arrays.n > 0)) {
        return est_fail(EST_INVALID_ARGUMENT, "set input or arrays, %s",
                        source->input != NULL ? "not both" : "one of them");
    }
    if (source->batch_size < 0) {
        return est_fail(EST_INVALID_ARGUMENT, "batch_size is %" PRId64 "; write a number above 0, or 0 for 32",
                        source->batch_size);
    }
    if (source->input != NULL && source->batch_size > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "batch_size is %" PRId64 ", and the input is a dataset, which has batches: "
                        "give their size to est_dataset_batch, or to the stage that decodes rows",
                        source->batch_size);
    }
    for (int i = 0; i < source->arrays.n; i++) {
        if (source->arrays.data[i].tensor != NULL && source->arrays.data[i].name != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "array %d has no %s", i,
                        source->arrays.data[i].name == NULL ? "name" : "tensor");
    }
    return EST_OK;
}

/* The rows of the source's part: [first, end). */
static void part_of(const est_network_source *source, int64_t *first, int64_t *end)
{
    int64_t rows = rows_of(source->arrays);

    *first = source->skip > 0 ? (int64_t)((double)rows * source->skip) : 0;
    *end   = source->take > 0 ? (int64_t)((double)rows * source->take) : rows;
}

static int64_t batch_of(const est_network_source *source)
{
    return source->batch_size > 0 ? source->batch_size : BATCH_DEFAULT;
}

int64_t est_network_source_steps(const est_network_source *source)
{
    int64_t first, end;

    part_of(source, &first, &end);
    return (end - first + batch_of(source) - 1) / batch_of(source);
}

static est_dataset *from_arrays(const est_network_source *source)
{
    est_dataset *d = est_dataset_slices(source->arrays);
    int64_t      first, end;

    part_of(source, &first, &end);
    if (first > 0) d = est_dataset_skip(d, first);
    if (end < rows_of(source->arrays)) d = est_dataset_take(d, end - first);
    if (source->shuffle != 0 && end - first > 1) {
        d = est_dataset_shuffle(d, end - first, source->own_order ? 0 : source->shuffle);
    }
    d = est_dataset_batch(d, batch_of(source), NULL);
    return source->passes > 1 ? est_dataset_repeat(d, source->passes) : d;
}

/* Batches for the replicas of this process, one after the other; takes the dataset. Every batch is divided for itself:
 * the last one of a pass, which may be short, is not filled up with rows of the next. */
static est_dataset *divide(est_dataset *dataset, const est_input_context *context, est_auto_shard_policy policy)
{
    if (context->n_pipelines > 1) return est_dataset_distribute(dataset, context, policy);
    return est_rebatch_evenly(dataset, context->num_replicas_in_sync);
}

est_auto_shard_policy est_network_source_policy(const est_dataset *input)
{
    return input != NULL ? EST_AUTO_SHARD_AUTO : EST_AUTO_SHARD_DATA;
}

est_status est_network_source_open(const est_network *network, const est_network_source *source, est_dataset **out)
{
    est_input_context context = { .mode = EST_TRAIN };
    est_dataset      *dataset;

    EST_TRY(check_source(source));
    if (source->input != NULL) {
        dataset = est_dataset_ref(source->input);
    } else {
        EST_TRY(est_dataset_finish(from_arrays(source), &dataset));
    }
    est_strategy_input_context(network->strategy, &context);
    if (source->distribute && context.num_replicas_in_sync > 1) {
        EST_TRY(est_dataset_finish(divide(dataset, &context, est_network_source_policy(source->input)), &dataset));
    }
    *out = dataset;
    return EST_OK;
}
