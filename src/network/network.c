/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks: sequential, by a function, or by a class; their graph, inputs and variables. The first two are classes of
 * the library's own. */
#include "network/network.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

#include "base/argument.h"
#include "base/callback.h"
#include "base/options.h"
#include "estoc/ops.h"
#include "graph/graph.h"
#include "graph/reuse.h"
#include "nn/layer.h"
#include "train/hooks.h"

/* --- classes of the library --------------------------------------------------------------------------------------- */

typedef struct sequential {
    est_network_class class;
    est_network *network; /* that it belongs to */
    est_layer  **layers;  /* [n] */
    int          n;
} sequential;

static est_node sequential_call(est_network_class *class, est_graph *graph, est_features inputs, bool training)
{
    const sequential *own = EST_CONTAINER_OF(class, sequential, class);
    est_node          x;

    if (own->network->n_inputs != 1) {
        return est_graph_poison(graph, est_fail(EST_INVALID_ARGUMENT,
                                                "a sequential network takes one input, and this one has %d inputs: "
                                                "name one in EST_NETWORK(.inputs = ...), or use est_network_create",
                                                own->network->n_inputs));
    }
    x = est_network_input_node(inputs, own->network->inputs[0].name);
    for (int i = 0; i < own->n; i++) x = est_layer_call(own->layers[i], x, training);
    return x;
}

static void sequential_free(est_network_class *class)
{
    sequential *own = EST_CONTAINER_OF(class, sequential, class);

    for (int i = 0; i < own->n; i++) est_layer_free(own->layers[i]);
    est_free(own->layers);
    est_free(own);
}

est_layers est_network_layers(const est_network *network)
{
    const sequential *own;

    if (network->class->call != sequential_call) return (est_layers){ 0 };
    own = EST_CONTAINER_OF(network->class, sequential, class);
    return (est_layers){ own->layers, own->n };
}

typedef struct functional {
    est_network_class class;
    est_network_fn fn;
    void          *user;
} functional;

static est_node functional_call(est_network_class *class, est_graph *graph, est_features inputs, bool training)
{
    const functional *own = EST_CONTAINER_OF(class, functional, class);

    return own->fn(graph, inputs, training, own->user);
}

static void functional_free(est_network_class *class)
{
    est_free(EST_CONTAINER_OF(class, functional, class));
}

/* --- making one --------------------------------------------------------------------------------------------------- */

static void class_free(est_network_class *class)
{
    if (class != NULL && EST_MEMBER(class, free) != NULL) class->free(class);
}

static est_status copy_inputs(est_network *network, est_network_inputs inputs)
{
    EST_REQUIRE_LIST("EST_NETWORK: inputs", inputs);
    if (inputs.n == 0) return EST_OK;
    network->inputs = est_arena_alloc(network->arena, (size_t)inputs.n * sizeof *network->inputs);
    if (network->inputs == NULL) return est_no_memory();
    for (int i = 0; i < inputs.n; i++) {
        const est_network_input *input = &inputs.data[i];
        est_network_field       *field = &network->inputs[i];

        if (input->name == NULL || input->name[0] == '\0' || input->dtype == EST_DTYPE_NONE || input->shape.rank < 0 ||
            input->shape.rank >= EST_RANK_MAX) {
            return est_fail(EST_INVALID_ARGUMENT,
                            "input %d of the network: write a name, a dtype and a shape of at most %d axes, as in { "
                            "\"x\", EST_F32, EST_SHAPE(4) }",
                            i, EST_RANK_MAX - 1);
        }
        *field = (est_network_field){ .name  = est_arena_strdup(network->arena, input->name),
                                      .dtype = input->dtype,
                                      .shape = { .rank = input->shape.rank + 1 } };
        if (field->name == NULL) return est_no_memory();
        field->shape.dim[0] = -1;
        for (int k = 0; k < input->shape.rank; k++) field->shape.dim[k + 1] = input->shape.dim[k];
    }
    network->n_inputs = inputs.n;
    return EST_OK;
}

static est_status copy_outputs(est_network *network, est_strings names)
{
    EST_REQUIRE_LIST("EST_NETWORK: outputs", names);
    network->n_outputs    = names.n > 0 ? names.n : 1;
    network->outputs      = est_arena_alloc(network->arena, (size_t)network->n_outputs * sizeof *network->outputs);
    network->output_names = est_arena_alloc(network->arena, (size_t)network->n_outputs * sizeof(char *));
    if (network->outputs == NULL || network->output_names == NULL) return est_no_memory();
    for (int i = 0; i < names.n; i++) {
        if (names.data[i] == NULL || names.data[i][0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "output %d of the network has no name", i);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(names.data[k], names.data[i]) != 0) continue;
            return est_fail(EST_INVALID_ARGUMENT, "two outputs of the network are called %s", names.data[i]);
        }
        network->output_names[i] = est_arena_strdup(network->arena, names.data[i]);
        if (network->output_names[i] == NULL) return est_no_memory();
    }
    return EST_OK;
}

static est_status copy_placement(est_network *network, const est_network_options *o)
{
    est_strings  own   = est_strategy_devices(network->strategy);
    const char **names = est_arena_alloc(network->arena, ((size_t)o->devices.n + 1) * sizeof *names);

    EST_REQUIRE_LIST("EST_NETWORK: devices", o->devices);
    if (names == NULL) return est_no_memory();
    for (int i = 0; i < o->devices.n; i++) {
        if (o->devices.data[i] == NULL) return est_refuse_null("EST_NETWORK: device", i);
        names[i] = est_arena_strdup(network->arena, o->devices.data[i]);
        if (names[i] == NULL) return est_no_memory();
    }
    network->placement = *EST_SESSION(.devices              = own.n > 0 ? own : (est_strings){ names, o->devices.n },
                                      .no_soft_placement    = o->no_soft_placement,
                                      .log_device_placement = o->log_device_placement, .no_tf32 = o->no_tf32,
                                      .device_memory_limit = o->device_memory_limit, .threads = o->threads);
    return EST_OK;
}

/* The same on all workers of a job, who cannot tell each other before they have joined, and in a job that goes on. */
static uint64_t draw_seed(const est_network *network)
{
    uint64_t seed = 0;

    if (est_strategy_replicas(network->strategy).across_workers || est_network_is_coordinated(network)) return 1;
    while (seed == 0) {
        if (getrandom(&seed, sizeof seed, 0) != sizeof seed) seed = 0;
        seed &= INT64_MAX;
    }
    return seed;
}

static est_status fill(est_network *network, const est_network_options *o, const char *name)
{
    network->arena = est_arena_create();
    if (network->arena == NULL) return est_no_memory();
    network->name      = est_arena_strdup(network->arena, o->name != NULL ? o->name : name);
    network->model_dir = o->model_dir != NULL ? est_arena_strdup(network->arena, o->model_dir) : "";
    if (network->name == NULL || network->model_dir == NULL) return est_no_memory();
    network->named     = o->name != NULL;
    network->strategy  = o->strategy;
    network->threads   = o->threads;
    network->precision = o->precision;
    network->seed      = o->seed != 0 ? o->seed : draw_seed(network);
    EST_TRY(copy_placement(network, o));
    EST_TRY(copy_outputs(network, o->outputs));
    return copy_inputs(network, o->inputs);
}

/* Takes the class, also on failure. */
static est_status make(est_network_class *class, const est_network_options *o, const char *name, est_network **out)
{
    est_network *network = est_zalloc(sizeof *network);
    est_status   status;

    if (network == NULL) {
        class_free(class);
        return est_no_memory();
    }
    network->class = class;
    status         = fill(network, o, name);
    if (status != EST_OK) {
        est_network_free(network);
        return status;
    }
    *out = network;
    return EST_OK;
}

static void free_layers(est_layers layers)
{
    for (int i = 0; i < layers.n && layers.data != NULL; i++) est_layer_free(layers.data[i]);
}

static est_status make_sequential(est_layers layers, const est_network_options *o, est_network **out)
{
    sequential *own;

    EST_REQUIRE_LIST("est_network_sequential: layers", layers);
    if (o->outputs.n > 1) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_network_sequential: outputs has %d names, and the last layer has one output; use "
                        "est_network_create",
                        o->outputs.n);
    }
    if (layers.n == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "est_network_sequential: there are no layers; give at least one");
    }
    for (int i = 0; i < layers.n; i++) {
        if (layers.data[i] == NULL) return est_refuse_null("est_network_sequential: layer", i);
    }
    EST_TRY(est_layers_check_names(layers));
    own = est_zalloc(sizeof *own);
    if (own != NULL) own->layers = est_alloc((size_t)layers.n * sizeof(est_layer *));
    if (own == NULL || own->layers == NULL) {
        est_free(own);
        return est_no_memory();
    }
    own->class = (est_network_class)EST_NETWORK_CLASS(.call = sequential_call, .free = sequential_free);
    for (own->n = 0; own->n < layers.n; own->n++) own->layers[own->n] = est_layer_share(layers.data[own->n]);
    EST_TRY(make(&own->class, o, "sequential", out));
    own->network = *out;
    return EST_OK;
}

est_status est_network_sequential(est_layers layers, const est_network_options *options, est_network **out)
{
    est_network_options o;
    est_status          status;

    if (out == NULL) {
        status = est_fail(EST_INVALID_ARGUMENT, "est_network_sequential: out is NULL");
    } else {
        status = est_options_take(EST_STRUCT_SIZE(est_network_options), options, &o);
    }
    if (status == EST_OK) status = make_sequential(layers, &o, out);
    free_layers(layers);
    return status;
}

est_status est_network_create(est_network_fn fn, const est_network_options *options, est_network **out)
{
    est_network_options o;
    functional         *own;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_network_options), options, &o));
    EST_REQUIRE(out);
    EST_REQUIRE(fn);
    own = est_zalloc(sizeof *own);
    if (own == NULL) return est_no_memory();
    own->class = (est_network_class)EST_NETWORK_CLASS(.call = functional_call, .free = functional_free);
    own->fn    = fn;
    own->user  = o.user;
    return make(&own->class, &o, "model", out);
}

/* Of the arguments beside the class. */
static est_status check_subclass(const est_network_options *options, est_network **out, est_network_options *o)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_network_options), options, o));
    if (out == NULL) return est_fail(EST_INVALID_ARGUMENT, "est_network_subclass: out is NULL");
    return EST_OK;
}

est_status est_network_subclass(est_network_class *own, const est_network_options *options, est_network **out)
{
    est_network_options o;
    est_status          status = check_subclass(options, out, &o);
    bool                sound;

    EST_REQUIRE(own);
    sound = (own->struct_size & 0xffff) >= sizeof *own; /* else it has no free to be called */
    if (status == EST_OK) status = est_struct_check(EST_STRUCT_SIZE(est_network_class), own);
    if (status == EST_OK && own->call == NULL) {
        status = est_fail(EST_INVALID_ARGUMENT, "est_network_subclass: call is NULL");
    }
    if (status == EST_OK) return make(own, &o, "model", out);
    if (sound) class_free(own);
    return status;
}

void est_network_free(est_network *network)
{
    if (network == NULL) return;
    est_predictor_free(network->predictor);
    est_network_disconnect(network);
    est_session_free(network->session);
    est_graph_free(network->graph);
    while (network->compiled != NULL) {
        est_compiled *before = network->compiled->before;

        est_compiled_free(network->compiled);
        network->compiled = before;
    }
    class_free(network->class);
    est_arena_free(network->arena);
    est_free(network);
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static est_feature find_input(void *user, const char *name)
{
    const est_network_view *view = user;

    for (int i = 0; i < view->network->n_inputs; i++) {
        if (strcmp(view->network->inputs[i].name, name) != 0) continue;
        return (est_feature){ .values = view->batch->values[i], .splits = view->batch->splits[i] };
    }
    return (est_feature){ 0 };
}

static void list_inputs(void *user, char *text, size_t size)
{
    const est_network_view *view = user;
    size_t                  used = 0;

    text[0] = '\0';
    for (int i = 0; i < view->network->n_inputs && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", view->network->inputs[i].name);
    }
}

est_features est_network_features(est_network_view *view)
{
    return (est_features){ .graph = view->graph, .find = find_input, .user = view, .list = list_inputs };
}

est_node est_network_input_node(est_features inputs, const char *name)
{
    est_feature found;
    char        names[256] = "";

    if (inputs.graph == NULL || inputs.find == NULL) return EST_NO_NODE;
    if (name == NULL) {
        return est_graph_poison(inputs.graph, est_fail(EST_INVALID_ARGUMENT, "the name of an input is NULL"));
    }
    found = inputs.find(inputs.user, name);
    if (found.splits.graph != NULL) {
        return est_graph_poison(
            inputs.graph, est_fail(EST_INVALID_ARGUMENT, "the input %s is ragged; read it with inputs.find", name));
    }
    if (found.values.graph != NULL) return found.values;
    if (inputs.list != NULL) inputs.list(inputs.user, names, sizeof names);
    return est_graph_poison(inputs.graph,
                            est_fail(EST_INVALID_ARGUMENT, "there is no input %s; the inputs are: %s", name, names));
}

est_node est_network_placeholder(est_graph *graph, const est_network_field *field, bool splits)
{
    char name[256];

    (void)snprintf(name, sizeof name, "inputs/%s%s", field->name, splits ? "/splits" : "");
    return est_named(
        est_placeholder(graph, NULL, splits ? EST_I64 : field->dtype, splits ? EST_SHAPE(-1) : field->shape), name);
}

est_network_batch est_network_placeholders(est_network *network, est_graph *graph)
{
    est_arena        *arena = est_graph_arena(graph);
    size_t            bytes = (size_t)(network->n_inputs + 1) * sizeof(est_node);
    est_network_batch batch = { .values = est_arena_alloc(arena, bytes), .splits = est_arena_alloc(arena, bytes) };

    if (batch.values == NULL || batch.splits == NULL) {
        (void)est_graph_poison(graph, est_no_memory());
        return (est_network_batch){ 0 };
    }
    for (int i = 0; i < network->n_inputs; i++) {
        batch.values[i] = est_network_placeholder(graph, &network->inputs[i], false);
        if (network->inputs[i].ragged) batch.splits[i] = est_network_placeholder(graph, &network->inputs[i], true);
    }
    return batch;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* Before the first call of the class in any graph. */
static est_status build_class(est_network *network, est_features inputs)
{
    est_status status;

    if (network->class_built || EST_MEMBER(network->class, build) == NULL) return EST_OK;
    est_error_clear();
    status = network->class->build(network->class, inputs.graph, inputs);
    EST_TRY(est_callback_status(status, "%s: build", network->name));
    network->class_built = true;
    return EST_OK;
}

/* In tables of a network that it is a part of. */
static const char *class_name(const est_network *network)
{
    if (network->class->call == sequential_call) return "Sequential";
    return network->class->call == functional_call ? "Functional" : "Model";
}

/* Pairs: the first of one collection is of the first of the other. */
static const char *const masked_outputs = "masked_outputs", *const output_masks = "output_masks";

static void note_mask(est_node output, est_node mask)
{
    mask = est_cast(mask, EST_F32); /* a node of its own, also where outputs share the mask */
    if (mask.graph == NULL || est_graph_status(mask.graph) != EST_OK) return;
    est_graph_collect(mask.graph, masked_outputs, output);
    est_graph_collect(mask.graph, output_masks, est_identity(mask));
}

est_node est_masked(est_node output, est_node mask)
{
    est_node masked = est_identity(output);

    if (masked.graph != NULL && mask.graph != NULL) note_mask(masked, mask);
    return masked;
}

est_node est_network_mask(est_node output)
{
    est_nodes outputs = est_graph_collection(output.graph, masked_outputs);
    est_nodes masks   = est_graph_collection(output.graph, output_masks);

    for (int i = 0; i < outputs.n && i < masks.n; i++) {
        if (outputs.data[i].id == output.id && outputs.data[i].output == output.output) return masks.data[i];
    }
    return EST_NO_NODE;
}

/* Lists of several outputs, in the collection of their number: each begins with the node that stands for it. */
#define OUTPUTS "network_outputs_%d"

est_node est_outputs(est_nodes nodes)
{
    char     collection[64];
    est_node first = EST_NO_NODE;

    if (!EST_LIST_OK(nodes) || nodes.n == 0 || nodes.data[0].graph == NULL) return EST_NO_NODE;
    (void)snprintf(collection, sizeof collection, OUTPUTS, nodes.n);
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].graph != nodes.data[0].graph) {
            return est_graph_poison(nodes.data[0].graph,
                                    est_fail(EST_INVALID_ARGUMENT, "est_outputs: node %d %s", i,
                                             nodes.data[i].graph == NULL ? "does not exist" : "is of another graph"));
        }
    }
    for (int i = 0; i < nodes.n; i++) {
        est_node own = est_identity(nodes.data[i]), mask = est_network_mask(nodes.data[i]);

        if (mask.graph != NULL) note_mask(own, mask);
        est_graph_collect(own.graph, collection, own);
        if (i == 0) first = own;
    }
    return first;
}

/* The nodes of est_outputs that `returned` stands for. */
static est_status find_outputs(const est_network *network, est_node returned, est_node *out)
{
    char      collection[64];
    est_nodes all;

    (void)snprintf(collection, sizeof collection, OUTPUTS, network->n_outputs);
    all = est_graph_collection(returned.graph, collection);
    for (int i = 0; i + network->n_outputs <= all.n; i += network->n_outputs) {
        if (all.data[i].id != returned.id) continue;
        memcpy(out, all.data + i, (size_t)network->n_outputs * sizeof *out);
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "%s has %d outputs; return est_outputs of as many nodes", network->name,
                    network->n_outputs);
}

/* Variables of two layers of one name would be hard to tell apart: one has "_1" behind it, of whichever came second. */
static est_status check_layer_names(const est_network *network, const est_graph *graph)
{
    int                    n;
    const est_reuse_layer *layers = est_reuse_layers(graph, network, &n);

    for (int i = 0; i < n; i++) {
        const char *wanted = layers[i].wanted;

        for (int k = 0; k < i && wanted != NULL; k++) {
            if (strcmp(wanted, layers[k].wanted != NULL ? layers[k].wanted : layers[k].scope) != 0) continue;
            return est_fail(EST_ALREADY_EXISTS,
                            "the name %.*s is used 2 times in %s, by its layers %d (%s) and %d (%s); give each a name "
                            "of its own",
                            (int)strlen(wanted) - 1, wanted, network->name, k, layers[k].type, i, layers[i].type);
        }
    }
    return EST_OK;
}

static est_node call(est_network *network, est_features inputs, bool training)
{
    est_status status = build_class(network, inputs);
    char       wanted[256];
    est_node   output;
    int        own;

    if (status != EST_OK) return est_graph_poison(inputs.graph, status);
    (void)snprintf(wanted, sizeof wanted, "%s%s/", est_graph_scope(inputs.graph), network->name);
    own = est_reuse_layer_begin(inputs.graph, network, class_name(network), network->name,
                                network->named ? wanted : NULL);
    (void)est_reuse_begin(inputs.graph, network);
    output = network->class->call(network->class, inputs.graph, inputs, training);
    est_reuse_end(inputs.graph);
    est_reuse_layer_end(inputs.graph, own, output);
    if (output.graph != inputs.graph) {
        return est_graph_poison(inputs.graph,
                                est_fail(EST_INVALID_ARGUMENT, "%s returned a node %s", network->name,
                                         output.graph == NULL ? "that does not exist" : "of another graph"));
    }
    status = est_graph_status(inputs.graph) == EST_OK ? check_layer_names(network, inputs.graph) : EST_OK;
    return status == EST_OK ? output : est_graph_poison(inputs.graph, status);
}

void est_network_call(est_network *network, est_features inputs, bool training, est_node *out)
{
    est_node   returned = call(network, inputs, training);
    est_status status   = EST_OK;

    for (int i = 0; i < network->n_outputs; i++) out[i] = returned;
    if (network->n_outputs > 1 && est_graph_status(inputs.graph) == EST_OK) {
        status = find_outputs(network, returned, out);
    }
    if (status != EST_OK) (void)est_graph_poison(inputs.graph, status);
}

static est_status build(est_network *network)
{
    est_network_view view;

    EST_TRY(est_graph_create(network->seed, &network->graph));
    (void)est_graph_precision(network->graph, network->precision);
    est_strategy_pin(network->strategy, network->graph, 0);
    network->batch = est_network_placeholders(network, network->graph);
    view           = (est_network_view){ network, network->graph, &network->batch };
    if (network->batch.values != NULL) {
        est_network_call(network, est_network_features(&view), false, network->outputs);
    }
    (void)est_global_step(network->graph);
    EST_TRY(est_graph_status(network->graph));
    if (est_network_is_coordinated(network)) return EST_OK;
    EST_TRY(est_session_create(network->graph, &network->placement, &network->session));
    return est_session_init(network->session);
}

est_status est_network_build_now(est_network *network)
{
    est_error  error;
    est_status status;

    if (network->graph != NULL) return EST_OK;
    if (network->n_inputs == 0) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s does not know its inputs; name them in EST_NETWORK(.inputs = ...), or build it with a "
                        "dataset",
                        network->name);
    }
    status = build(network);
    if (status == EST_OK) return EST_OK;
    est_error_take(status, &error);
    est_session_free(network->session);
    est_graph_free(network->graph);
    network->session = NULL;
    network->graph   = NULL;
    for (int i = 0; i < network->n_outputs; i++) network->outputs[i] = EST_NO_NODE;
    (void)est_error_raise(&error);
    return est_fail_context(status, "%s", network->name);
}

est_node est_network_apply(est_network *network, est_features features, bool training)
{
    if (network == NULL || features.graph == NULL || features.find == NULL) return EST_NO_NODE;
    return call(network, features, training);
}

/* --- what it is --------------------------------------------------------------------------------------------------- */

const char *est_network_name(const est_network *network)
{
    return network != NULL ? network->name : NULL;
}

est_graph *est_network_graph(est_network *network)
{
    return network != NULL ? network->graph : NULL;
}

est_session *est_network_session(est_network *network)
{
    if (network == NULL || network->graph == NULL || est_network_connect(network) != EST_OK) return NULL;
    return network->session;
}

est_node est_network_output(const est_network *network)
{
    return est_network_output_at(network, 0);
}

int est_network_outputs(const est_network *network)
{
    return network != NULL ? network->n_outputs : 0;
}

est_node est_network_output_at(const est_network *network, int i)
{
    return i >= 0 && i < est_network_outputs(network) ? network->outputs[i] : EST_NO_NODE;
}

const char *est_network_output_name(const est_network *network, int i)
{
    return i >= 0 && i < est_network_outputs(network) ? network->output_names[i] : NULL;
}
