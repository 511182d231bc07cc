/* SPDX-License-Identifier: Apache-2.0
 *
 * Serving input: parsing receivers take serialized Examples, raw ones a tensor a feature, and those that a function
 * builds what it says. */
#include "estimator/receiver.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/argument.h"
#include "base/callback.h"
#include "estoc/ops.h"

bool est_receiver_given(const est_serving_input *input)
{
    return input->parse.data != NULL || input->raw.data != NULL || input->parse.n != 0 || input->raw.n != 0 ||
           input->build != NULL;
}

static est_status check_input(const est_serving_input *input)
{
    int kinds = (input->parse.data != NULL) + (input->raw.data != NULL) + (input->build != NULL);

    if (kinds != 1) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a serving input needs either features to parse or raw features, or a function that builds "
                        "it%s",
                        kinds > 1 ? ", not both" : "");
    }
    if (input->build != NULL && input->batch != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a serving input has a batch of %" PRId64 " and a function, whose placeholders have the batch "
                        "in their shapes; leave it out",
                        input->batch);
    }
    if (input->build != NULL) return EST_OK;
    if ((input->parse.data != NULL ? input->parse.n : input->raw.n) < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "a serving input needs at least one feature, got %d",
                        input->parse.data != NULL ? input->parse.n : input->raw.n);
    }
    if (input->batch < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the batch of a serving input is %" PRId64 "; expected a size, or 0 for any", input->batch);
    }
    for (int i = 0; input->raw.data != NULL && i < input->raw.n; i++) {
        const char *name = input->raw.data[i].name;

        if (name == NULL || name[0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "raw feature %d of a serving input has no name", i);
        }
        if (input->raw.data[i].shape.rank < 0 || input->raw.data[i].shape.rank >= EST_RANK_MAX) {
            return est_fail(EST_INVALID_ARGUMENT, "raw feature %s has rank %d; expected 0 to %d, without the batch",
                            name, (int)input->raw.data[i].shape.rank, EST_RANK_MAX - 1);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(input->raw.data[k].name, name) == 0) {
                return est_fail(EST_INVALID_ARGUMENT, "two raw features are called %s", name);
            }
        }
    }
    return EST_OK;
}

/* Sets one feature of the model under "name" or "name/part". */
static est_status receive(est_model *model, const char *name, const char *part, est_node node)
{
    const char *full = part == NULL ? name : est_arena_printf(model->arena, "%s/%s", name, part);

    if (full == NULL) return est_no_memory();
    return est_model_receive(model, full, node);
}

/* The list of features, in their order. There is room: as many as doublings of 1. */
static est_status list_feature(est_model *model, est_receiver *out, const char *name)
{
    if ((out->n_features & (out->n_features - 1)) == 0) {
        size_t       n    = (size_t)out->n_features;
        const char **more = est_arena_alloc(model->arena, (2 * n + 1) * sizeof *more);

        if (more == NULL) return est_no_memory();
        if (n > 0) memcpy(more, out->features, n * sizeof *more);
        out->features = more;
    }
    out->features[out->n_features++] = name;
    return EST_OK;
}

/* A placeholder that requests fill. */
static est_status add_input(est_model *model, est_feed_group *out, const char *key, est_dtype dtype, est_shape shape)
{
    est_node    node = est_placeholder(model->graph, NULL, dtype, shape);
    const char *name = est_arena_strdup(model->arena, key);

    if (name == NULL) return est_no_memory();
    out->inputs[out->n_inputs++] = (est_named_node){ name, node };
    return est_graph_status(model->graph);
}

static est_status build_parsing(const est_serving_input *input, est_model *model, est_receiver *receiver)
{
    est_feed_group *out    = &receiver->groups[0];
    est_parsed     *parsed = est_arena_alloc(model->arena, (size_t)input->parse.n * sizeof *parsed);

    if (parsed == NULL) return est_no_memory();
    EST_TRY(add_input(model, out, EST_RECEIVER_EXAMPLES, EST_STRING, EST_SHAPE(input->batch > 0 ? input->batch : -1)));
    est_scope_push(model->graph, "ParseExample");
    est_parse_examples(out->inputs[0].node, input->parse, parsed);
    est_scope_pop(model->graph);
    EST_TRY(est_graph_status(model->graph));
    for (int i = 0; i < input->parse.n; i++) {
        const char *name = input->parse.data[i].name;

        EST_TRY(list_feature(model, receiver, name));
        EST_TRY(receive(model, name, NULL, parsed[i].values));
        if (input->parse.data[i].rows == EST_ROWS_RAGGED) EST_TRY(receive(model, name, "splits", parsed[i].splits));
        if (input->parse.data[i].rows == EST_ROWS_PADDED) EST_TRY(receive(model, name, "lengths", parsed[i].lengths));
    }
    return EST_OK;
}

static est_status build_raw(const est_serving_input *input, est_model *model, est_receiver *receiver)
{
    est_feed_group *out = &receiver->groups[0];

    for (int i = 0; i < input->raw.n; i++) {
        const est_component *raw   = &input->raw.data[i];
        est_shape            shape = raw->shape;

        shape.rank   = raw->shape.rank + 1;
        shape.dim[0] = !raw->ragged && input->batch > 0 ? input->batch : -1;
        for (int d = 0; d < raw->shape.rank; d++) shape.dim[d + 1] = raw->shape.dim[d];
        EST_TRY(add_input(model, out, raw->name, raw->dtype, shape));
        EST_TRY(list_feature(model, receiver, raw->name));
        EST_TRY(receive(model, raw->name, NULL, out->inputs[out->n_inputs - 1].node));
        if (raw->ragged) {
            const char *splits = est_arena_printf(model->arena, "%s/splits", raw->name);

            if (splits == NULL) return est_no_memory();
            EST_TRY(add_input(model, out, splits, EST_I64, EST_SHAPE(input->batch > 0 ? input->batch + 1 : -1)));
            EST_TRY(receive(model, raw->name, "splits", out->inputs[out->n_inputs - 1].node));
        }
    }
    return EST_OK;
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static void serving_fail(est_serving *serving, est_status status)
{
    if (serving->failed.status == EST_OK) est_error_take(status, &serving->failed);
}

est_graph *est_serving_graph(est_serving *serving)
{
    return serving != NULL ? serving->model->graph : NULL;
}

est_status est_serving_status(const est_serving *serving)
{
    EST_REQUIRE(serving);
    if (serving->failed.status != EST_OK) return est_error_raise(&serving->failed);
    return est_graph_status(serving->model->graph);
}

static est_status reserve_input(est_serving *serving)
{
    est_feed_group *group = &serving->receiver->groups[0];
    int             room  = 2 * serving->n_room + 8;
    est_named_node *more;

    if (group->n_inputs < serving->n_room) return EST_OK;
    more = est_arena_alloc(serving->model->arena, (size_t)room * sizeof *more);
    if (more == NULL) return est_no_memory();
    if (group->n_inputs > 0) memcpy(more, group->inputs, (size_t)group->n_inputs * sizeof *more);
    group->inputs   = more;
    serving->n_room = room;
    return EST_OK;
}

static est_status add_placeholder(est_serving *serving, const char *key, est_dtype dtype, est_shape shape)
{
    est_feed_group *group = &serving->receiver->groups[0];

    if (key == NULL || key[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "a placeholder has no name");
    for (int i = 0; i < group->n_inputs; i++) {
        if (strcmp(group->inputs[i].name, key) == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "two placeholders are called %s", key);
        }
    }
    EST_TRY(reserve_input(serving));
    return add_input(serving->model, group, key, dtype, shape);
}

est_node est_serving_placeholder(est_serving *serving, const char *key, est_dtype dtype, est_shape shape)
{
    est_status status;

    if (serving == NULL) return EST_NO_NODE;
    status = add_placeholder(serving, key, dtype, shape);
    if (status == EST_OK) return serving->receiver->groups[0].inputs[serving->receiver->groups[0].n_inputs - 1].node;
    serving_fail(serving, status);
    return EST_NO_NODE;
}

static est_status add_value(est_serving *serving, const char *name, est_node value)
{
    est_model *model = serving->model;

    if (name == NULL || name[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "a feature has no name");
    if (est_map_get(&model->receiver, name) != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "two features are called %s", name);
    }
    EST_TRY(est_graph_status(model->graph));
    if (value.graph != model->graph) {
        return est_fail(EST_INVALID_ARGUMENT, "the feature %s is no node of the graph of the serving input", name);
    }
    name = est_arena_strdup(model->arena, name);
    if (name == NULL) return est_no_memory();
    EST_TRY(list_feature(model, serving->receiver, name));
    return receive(model, name, NULL, value);
}

void est_serving_feature(est_serving *serving, const char *name, est_node value)
{
    est_status status;

    if (serving == NULL) return;
    status = add_value(serving, name, value);
    if (status != EST_OK) serving_fail(serving, status);
}

void est_serving_ragged(est_serving *serving, const char *name, est_ragged_node value)
{
    est_status status;

    if (serving == NULL) return;
    status = add_value(serving, name, value.values);
    if (status == EST_OK && value.splits.graph != serving->model->graph) {
        status = est_fail(EST_INVALID_ARGUMENT, "the splits of the feature %s are no node of the graph", name);
    }
    if (status == EST_OK) status = receive(serving->model, name, "splits", value.splits);
    if (status != EST_OK) serving_fail(serving, status);
}

static est_status build_by_function(const est_serving_input *input, est_model *model, est_receiver *out)
{
    est_serving serving = { .model = model, .receiver = out };

    est_error_clear();
    EST_TRY(est_callback_status(input->build(&serving, input->user), "its function"));
    EST_TRY(est_serving_status(&serving));
    if (out->groups[0].n_inputs == 0) return est_fail(EST_INVALID_ARGUMENT, "its function made no placeholder");
    if (out->n_features == 0) return est_fail(EST_INVALID_ARGUMENT, "its function gave the model no feature");
    return EST_OK;
}

/* --- alternatives ------------------------------------------------------------------------------------------------- */

/* The tensors of one feature: "name", and "name/splits" and "name/lengths" if it has them. */
static est_status add_feature(est_model *model, const char *feature, est_feed_group *out)
{
    static const char *const parts[] = { "", "/splits", "/lengths" };

    for (int i = 0; i < 3; i++) {
        const char     *key  = est_arena_printf(model->arena, "%s%s", feature != NULL ? feature : "", parts[i]);
        const est_node *node = key != NULL ? est_map_get(&model->receiver, key) : NULL;

        if (key == NULL) return est_no_memory();
        if (node != NULL) out->inputs[out->n_inputs++] = (est_named_node){ key, *node };
        if (node == NULL && i == 0) {
            return est_fail(EST_INVALID_ARGUMENT, "alternative %s: there is no feature \"%s\"", out->name, key);
        }
    }
    return EST_OK;
}

static est_status build_alternative(const est_receiver *receiver, const est_receiver_alternative *alternative,
                                    est_model *model, est_feed_group *out)
{
    bool all = alternative->features.data == NULL;
    int  n   = all ? receiver->n_features : alternative->features.n;

    if (alternative->name == NULL || alternative->name[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT, "an alternative needs a name");
    }
    if (n < 1)
        return est_fail(EST_INVALID_ARGUMENT, "alternative %s has %d features; give at least one", alternative->name,
                        n);
    out->name   = est_arena_strdup(model->arena, alternative->name);
    out->inputs = est_arena_alloc(model->arena, 3 * (size_t)n * sizeof *out->inputs);
    if (out->name == NULL || out->inputs == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        EST_TRY(add_feature(model, all ? receiver->features[i] : alternative->features.data[i], out));
    }
    return EST_OK;
}

static est_status build_alternatives(const est_serving_input *input, est_model *model, est_receiver *out)
{
    if (!EST_LIST_OK(input->alternatives)) {
        return est_fail(EST_INVALID_ARGUMENT, "alternatives.n is %d and alternatives.data %s", input->alternatives.n,
                        input->alternatives.data != NULL ? "is set" : "NULL");
    }
    for (int i = 0; i < input->alternatives.n; i++) {
        est_feed_group *group = &out->groups[out->n_groups++];

        EST_TRY(build_alternative(out, &input->alternatives.data[i], model, group));
        for (int k = 1; k <= i; k++) {
            if (strcmp(out->groups[k].name, group->name) == 0) {
                return est_fail(EST_INVALID_ARGUMENT, "two alternatives are called %s", group->name);
            }
        }
    }
    return EST_OK;
}

static est_status build_groups(const est_serving_input *input, est_model *model, est_receiver *out)
{
    size_t room = 2 + (size_t)(input->alternatives.n > 0 ? input->alternatives.n : 0);
    size_t n    = input->raw.data != NULL ? 2 * (size_t)input->raw.n : 1;

    out->groups = est_arena_alloc(model->arena, room * sizeof *out->groups);
    if (out->groups == NULL) return est_no_memory();
    out->n_groups         = 1;
    out->groups[0].name   = "";
    out->groups[0].inputs = est_arena_alloc(model->arena, (n + 1) * sizeof *out->groups[0].inputs);
    if (out->groups[0].inputs == NULL) return est_no_memory();
    EST_TRY(input->build != NULL        ? build_by_function(input, model, out)
            : input->parse.data != NULL ? build_parsing(input, model, out)
                                        : build_raw(input, model, out));
    return build_alternatives(input, model, out);
}

est_status est_receiver_build(const est_serving_input *input, est_model *model, est_receiver *out)
{
    est_status status;

    *out   = (est_receiver){ .input = input };
    status = check_input(input);
    if (status == EST_OK) status = build_groups(input, model, out);
    return status == EST_OK ? EST_OK : est_fail_context(status, "serving input");
}

/* --- names -------------------------------------------------------------------------------------------------------- */

/* A node name from a key: characters that TensorFlow does not allow become "_". */
static const char *node_name(est_arena *arena, const char *key)
{
    char *name = est_arena_printf(arena, "%s%s", isalnum((unsigned char)key[0]) || key[0] == '.' ? "" : "input_", key);

    for (char *p = name; p != NULL && *p != '\0'; p++) {
        if (!isalnum((unsigned char)*p) && strchr("_./-", *p) == NULL) *p = '_';
    }
    return name;
}

est_status est_receiver_name(const est_receiver *receiver, est_model *model)
{
    const est_feed_group *own = &receiver->groups[0];

    for (int i = 0; i < own->n_inputs; i++) {
        const char *name = receiver->input->parse.data != NULL ? "input_example_tensor"
                                                               : node_name(model->arena, own->inputs[i].name);

        if (name == NULL) return est_no_memory();
        (void)est_named(own->inputs[i].node, name);
    }
    return est_graph_status(model->graph);
}
