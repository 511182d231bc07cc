/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as functions of stages. The bytes: 16 the segment, 17 (repeated, in the order of its feeds) the name of a
 * component, 18 (repeated, in the order of its fetches) the name of an output. */
#include "data/graph_function.h"

#include <string.h>

#include "base/thread.h"
#include "data/encode.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"
#include "runtime/segment.h"
#include "runtime/session.h"

enum { OWN_SEGMENT = EST_ENCODED_OWN, OWN_INPUT, OWN_OUTPUT };

struct est_graph_function {
    est_arena        *arena; /* names and lists */
    est_str           bytes; /* the segment */
    est_segment_graph segment;
    int              *component; /* [n feeds]: of the element, that is fed */
    int              *fed;       /* [n fetches]: the feed that it is; -1: it is computed */
    const char      **input;     /* [n feeds]: names of components */
    est_component    *outputs;   /* [n fetches] */
    uint64_t          seed;
    bool              random;

    pthread_mutex_t   lock; /* guards all below */
    bool              has_lock;
    est_session      *session; /* has the tables */
    est_graph_runner *idle;    /* given back */
};

struct est_graph_runner {
    est_graph_function *fn;
    est_plan           *plan;
    const est_tensor  **feeds; /* [n feeds] */
    est_graph_runner   *next;  /* of those that are idle */
};

/* --- a copy of the user's graph ----------------------------------------------------------------------------------- */

/* The nodes of a segment; the lists are one array. */
static est_status list_nodes(est_named_nodes inputs, est_named_nodes outputs, est_io *out)
{
    est_node *nodes = est_zalloc(sizeof *nodes * ((size_t)inputs.n + (size_t)outputs.n + 1));

    if (nodes == NULL) return est_no_memory();
    *out = (est_io){ .feeds = nodes, .fetches = nodes + inputs.n, .n_feeds = inputs.n, .n_fetches = outputs.n };
    for (int i = 0; i < inputs.n; i++) out->feeds[i] = inputs.data[i].node;
    for (int i = 0; i < outputs.n; i++) out->fetches[i] = outputs.data[i].node;
    return EST_OK;
}

static est_status check_nodes(est_named_nodes nodes, bool inputs, const est_graph *graph)
{
    for (int i = 0; i < nodes.n; i++) {
        const est_named_node *named = &nodes.data[i];
        const char           *what  = inputs ? "input" : "output";
        const est_node_def   *def   = named->node.graph == graph ? est_def(named->node) : NULL;

        if (named->name == NULL || named->name[0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "%s %d has no name", what, i);
        }
        if (def == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "%s %s is no node of the graph that output 0 is of", what,
                            named->name);
        }
        if (inputs && def->op != &est_op_placeholder) {
            return est_fail(EST_INVALID_ARGUMENT, "input %s is '%s', which is no placeholder", named->name, def->name);
        }
    }
    return EST_OK;
}

static est_status check_variables(const est_graph *graph)
{
    char text[EST_NODE_TEXT_MAX];

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        const est_node_def *def = est_graph_node(graph, id);

        if (def->op->source != EST_SOURCE_VARIABLE) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s is in the graph, and a dataset has no variables: make its value a constant, or a component "
                        "that is an input",
                        est_node_text(def, text));
    }
    return EST_OK;
}

/* The part of the graph that the outputs need, as bytes. */
static est_status copy_segment(const est_graph *graph, est_named_nodes inputs, est_named_nodes outputs,
                               est_wire_writer *out)
{
    est_segment segment = { 0 };
    est_io      io;
    est_status  status;

    EST_TRY(list_nodes(inputs, outputs, &io));
    status = est_segment_extract(graph, &io, &segment);
    if (status == EST_OK) status = check_variables(segment.graph);
    if (status == EST_OK) status = est_segment_encode(&segment, out);
    est_segment_clear(&segment);
    est_free(io.feeds);
    return status;
}

/* --- making a function of the bytes ------------------------------------------------------------------------------- */

static est_status bind_input(est_graph_function *fn, const est_dataset *dataset, int i)
{
    est_node             node  = fn->segment.io.feeds[i];
    int                  found = est_dataset_find(dataset, fn->input[i]);
    const est_component *c     = est_dataset_component(dataset, found);
    char                 is[EST_SHAPE_TEXT_MAX], wanted[EST_SHAPE_TEXT_MAX];
    est_shape            both;

    if (c == NULL) return est_fail(EST_INVALID_ARGUMENT, "input %s: the dataset has no such component", fn->input[i]);
    if (c->ragged) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "input %s is a ragged component, and a graph takes dense tensors: map the elements before they "
                        "are batched, or batch them with EST_ROWS_PADDED",
                        c->name);
    }
    if (c->dtype != est_node_dtype(node) || est_infer_merge(&c->shape, est_node_shape(node), &both) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "input %s is %s %s, and the placeholder '%s' %s %s", c->name,
                        est_dtype_name(c->dtype), est_shape_text(&c->shape, is), est_node_name(node),
                        est_dtype_name(est_node_dtype(node)), est_shape_text(est_node_shape(node), wanted));
    }
    fn->component[i] = found;
    return EST_OK;
}

static void bind_output(est_graph_function *fn, int i)
{
    const est_io *io   = &fn->segment.io;
    est_node      node = io->fetches[i];

    fn->outputs[i].dtype = est_node_dtype(node);
    fn->outputs[i].shape = *est_node_shape(node);
    fn->fed[i]           = -1;
    for (int k = 0; k < io->n_feeds; k++) {
        if (io->feeds[k].id == node.id && io->feeds[k].output == node.output) fn->fed[i] = k;
    }
}

/* The rest of a function whose bytes and names are known; n: how many names there are. */
static est_status function_load(est_graph_function *fn, const est_dataset *dataset, int n_inputs, int n_outputs)
{
    const est_io *io = &fn->segment.io;

    EST_TRY(est_segment_read(fn->bytes, 1, &fn->segment));
    EST_TRY(check_variables(fn->segment.graph));
    if (io->n_feeds != n_inputs || io->n_fetches != n_outputs || n_outputs == 0) {
        return est_fail(EST_DATA_LOSS, "%d inputs and %d outputs of a graph with %d and %d", n_inputs, n_outputs,
                        io->n_feeds, io->n_fetches);
    }
    fn->component = est_arena_alloc(fn->arena, sizeof *fn->component * (size_t)n_inputs);
    fn->fed       = est_arena_alloc(fn->arena, sizeof *fn->fed * (size_t)n_outputs);
    if (fn->component == NULL || fn->fed == NULL) return est_no_memory();
    for (int i = 0; i < n_inputs; i++) EST_TRY(bind_input(fn, dataset, i));
    for (int i = 0; i < n_outputs; i++) bind_output(fn, i);
    for (int32_t id = 0; id < est_graph_size(fn->segment.graph); id++) {
        fn->random = fn->random || est_graph_node(fn->segment.graph, id)->op->random;
    }
    EST_TRY(est_lock_init(&fn->lock));
    fn->has_lock = true;
    return EST_OK;
}

/* A function without names yet. */
static est_graph_function *function_new(int n_inputs, int n_outputs)
{
    est_graph_function *fn = est_zalloc(sizeof *fn);

    if (fn == NULL) return NULL;
    fn->arena = est_arena_create();
    if (fn->arena != NULL) {
        fn->input   = est_arena_alloc(fn->arena, sizeof *fn->input * (size_t)n_inputs);
        fn->outputs = est_arena_alloc(fn->arena, sizeof *fn->outputs * (size_t)n_outputs);
    }
    if (fn->input != NULL && fn->outputs != NULL) return fn;
    est_graph_function_free(fn);
    return NULL;
}

void est_graph_function_free(est_graph_function *fn)
{
    if (fn == NULL) return;
    while (fn->idle != NULL) {
        est_graph_runner *runner = fn->idle;

        fn->idle = runner->next;
        est_plan_free(runner->plan);
        est_free(runner->feeds);
        est_free(runner);
    }
    est_session_free(fn->session);
    if (fn->has_lock) pthread_mutex_destroy(&fn->lock);
    est_segment_graph_clear(&fn->segment);
    est_arena_free(fn->arena);
    est_free(fn);
}

/* Copies into the arena; false when memory is out. */
static bool keep_bytes(est_graph_function *fn, est_str bytes)
{
    char *copy = est_arena_alloc(fn->arena, bytes.size);

    if (copy == NULL) return false;
    if (bytes.size > 0) memcpy(copy, bytes.data, bytes.size);
    fn->bytes = (est_str){ copy, bytes.size };
    return true;
}

static bool keep_names(est_graph_function *fn, est_named_nodes inputs, est_named_nodes outputs)
{
    for (int i = 0; i < inputs.n; i++) {
        fn->input[i] = est_arena_strdup(fn->arena, inputs.data[i].name);
        if (fn->input[i] == NULL) return false;
    }
    for (int i = 0; i < outputs.n; i++) {
        fn->outputs[i].name = est_arena_strdup(fn->arena, outputs.data[i].name);
        if (fn->outputs[i].name == NULL) return false;
    }
    return true;
}

est_status est_graph_function_create(const est_dataset *dataset, est_named_nodes inputs, est_named_nodes outputs,
                                     est_graph_function **out)
{
    est_graph          *graph = outputs.n > 0 ? outputs.data[0].node.graph : NULL;
    est_wire_writer     bytes = { 0 };
    est_graph_function *fn;
    est_status          status;

    if (graph == NULL) return est_fail(EST_INVALID_ARGUMENT, "a graph needs at least one output, and it is no node");
    EST_TRY(est_graph_status(graph));
    EST_TRY(check_nodes(inputs, true, graph));
    EST_TRY(check_nodes(outputs, false, graph));
    fn     = function_new(inputs.n, outputs.n);
    status = fn != NULL ? copy_segment(graph, inputs, outputs, &bytes) : est_no_memory();
    if (status == EST_OK && !keep_bytes(fn, (est_str){ (const char *)bytes.data, bytes.size }))
        status = est_no_memory();
    if (status == EST_OK && !keep_names(fn, inputs, outputs)) status = est_no_memory();
    if (status == EST_OK) status = function_load(fn, dataset, inputs.n, outputs.n);
    est_wire_writer_clear(&bytes);
    if (status != EST_OK) {
        est_graph_function_free(fn);
        return status;
    }
    fn->seed = est_graph_seed(graph);
    *out     = fn;
    return EST_OK;
}

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

void est_graph_function_encode(const est_graph_function *fn, est_wire_writer *w)
{
    est_wire_put_bytes(w, OWN_SEGMENT, fn->bytes.data, fn->bytes.size);
    for (int i = 0; i < fn->segment.io.n_feeds; i++) est_wire_put_string(w, OWN_INPUT, fn->input[i]);
    for (int i = 0; i < fn->segment.io.n_fetches; i++) est_wire_put_string(w, OWN_OUTPUT, fn->outputs[i].name);
}

static est_status read_fields(est_graph_function *fn, const est_encoded *from)
{
    est_encoded     own      = *from; /* whose texts stay */
    int             n_inputs = 0, n_outputs = 0;
    est_wire_reader r;
    est_wire_field  field;

    own.arena = fn->arena;
    est_wire_reader_init(&r, from->stage->name, from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        est_str bytes;

        if (field.number < OWN_SEGMENT || field.number > OWN_OUTPUT) continue;
        bytes = est_wire_bytes(&r, &field);
        EST_TRY(est_wire_finish(&r));
        if (field.number == OWN_SEGMENT && !keep_bytes(fn, bytes)) return est_no_memory();
        if (field.number == OWN_INPUT) EST_TRY(est_encoded_text(&own, bytes, &fn->input[n_inputs++]));
        if (field.number == OWN_OUTPUT) EST_TRY(est_encoded_text(&own, bytes, &fn->outputs[n_outputs++].name));
    }
    return est_wire_finish(&r);
}

est_status est_graph_function_decode(const est_encoded *from, const est_dataset *dataset, est_graph_function **out)
{
    int                 n_inputs  = est_encoded_count(from, OWN_INPUT);
    int                 n_outputs = est_encoded_count(from, OWN_OUTPUT);
    est_graph_function *fn        = function_new(n_inputs, n_outputs);
    est_status          status    = fn != NULL ? read_fields(fn, from) : est_no_memory();

    if (status == EST_OK) status = function_load(fn, dataset, n_inputs, n_outputs);
    if (status != EST_OK) {
        est_graph_function_free(fn);
        return status;
    }
    *out = fn;
    return EST_OK;
}

est_components est_graph_function_outputs(const est_graph_function *fn)
{
    return (est_components){ fn->outputs, fn->segment.io.n_fetches };
}

bool est_graph_function_random(const est_graph_function *fn)
{
    return fn->random;
}

uint64_t est_graph_function_seed(const est_graph_function *fn)
{
    return fn->seed;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* With the lock held. */
static est_status runner_plan(est_graph_function *fn, est_graph_runner *runner)
{
    est_io io = fn->segment.io;

    /* Its seed is never used: runs have theirs. One thread: each runner is one. */
    if (fn->session == NULL) {
        EST_TRY(est_session_create(
            fn->segment.graph, EST_SESSION(.threads = 1, .seed = 1, .devices = EST_STRINGS("/cpu:0")), &fn->session));
    }
    io.n_targets = 0;
    return est_session_plan(fn->session, &io, est_session_pool(fn->session), NULL, &runner->plan);
}

static est_status runner_create(est_graph_function *fn, est_graph_runner **out)
{
    est_graph_runner *runner = est_zalloc(sizeof *runner);
    est_status        status;

    if (runner == NULL) return est_no_memory();
    runner->fn    = fn;
    runner->feeds = est_zalloc(sizeof *runner->feeds * (size_t)(fn->segment.io.n_feeds + 1));
    status        = runner->feeds != NULL ? runner_plan(fn, runner) : est_no_memory();
    if (status == EST_OK) {
        *out = runner;
        return EST_OK;
    }
    est_plan_free(runner->plan);
    est_free(runner->feeds);
    est_free(runner);
    return status;
}

est_status est_graph_runner_take(est_graph_function *fn, est_graph_runner **out)
{
    est_status status = EST_OK;

    pthread_mutex_lock(&fn->lock);
    if (fn->idle != NULL) {
        *out     = fn->idle;
        fn->idle = fn->idle->next;
    } else {
        status = runner_create(fn, out);
    }
    pthread_mutex_unlock(&fn->lock);
    return status;
}

void est_graph_runner_give_back(est_graph_runner *runner)
{
    est_graph_function *fn;

    if (runner == NULL) return;
    fn = runner->fn;
    pthread_mutex_lock(&fn->lock);
    runner->next = fn->idle;
    fn->idle     = runner;
    pthread_mutex_unlock(&fn->lock);
}

static est_status take_output(const est_graph_runner *runner, int i, est_field *out)
{
    int             fed  = runner->fn->fed[i];
    const est_view *view = est_plan_fetch(runner->plan, i);

    if (fed < 0) return est_tensor_create_from(view->dtype, view->shape, view->data, &out->values);
    out->values = est_tensor_ref((est_tensor *)(uintptr_t)runner->feeds[fed]);
    return EST_OK;
}

est_status est_graph_runner_run(est_graph_runner *runner, uint64_t run_seed, const est_field *element, est_field *out)
{
    const est_io *io = &runner->fn->segment.io;

    for (int i = 0; i < io->n_feeds; i++) runner->feeds[i] = element[runner->fn->component[i]].values;
    EST_TRY(est_plan_run(runner->plan, runner->feeds, run_seed));
    for (int i = 0; i < io->n_fetches; i++) {
        est_status status = take_output(runner, i, &out[i]);

        if (status == EST_OK) continue;
        est_element_clear(out, i);
        return status;
    }
    return EST_OK;
}
