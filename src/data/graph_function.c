/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as functions of stages. The bytes: 16 the segment; for each of its feeds, in order, 17 the name of a
 * component, or 19 and 20 those of a ragged one, for its values and its splits; for each of its fetches, in order,
 * 18 the name of an output, or 21 and 22 those of a ragged one. */
#include "data/graph_function.h"

#include <string.h>

#include "base/thread.h"
#include "data/encode.h"
#include "kernels/lookup_table.h"
#include "ops/ops.h"
#include "runtime/segment.h"
#include "runtime/session.h"

enum {
    OWN_SEGMENT = EST_ENCODED_OWN,
    OWN_INPUT,
    OWN_OUTPUT,
    OWN_INPUT_VALUES,
    OWN_INPUT_SPLITS,
    OWN_OUTPUT_VALUES,
    OWN_OUTPUT_SPLITS
};

/* What of a component a node stands for. */
typedef enum graph_part { PART_DENSE, PART_VALUES, PART_SPLITS, N_PARTS } graph_part;

static const int INPUT_FIELD[N_PARTS]  = { OWN_INPUT, OWN_INPUT_VALUES, OWN_INPUT_SPLITS };
static const int OUTPUT_FIELD[N_PARTS] = { OWN_OUTPUT, OWN_OUTPUT_VALUES, OWN_OUTPUT_SPLITS };

/* A feed or a fetch. */
typedef struct graph_end {
    const char *name; /* of the component */
    graph_part  part;
    est_node    node;  /* of the user's graph; unused later */
    int         index; /* of a feed the component that is fed; of a fetch the feed that it is, -1: it is computed */
} graph_end;

typedef struct graph_ends {
    graph_end *data;
    int        n;
} graph_ends;

struct est_graph_function {
    est_arena        *arena; /* names and lists */
    est_str           bytes; /* the segment */
    est_segment_graph segment;
    graph_ends        feeds, fetches; /* of a ragged component the splits follow the values */
    est_component    *outputs;        /* [n_outputs], at most one a fetch */
    int               n_outputs;
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
static est_status list_nodes(graph_ends feeds, graph_ends fetches, est_io *out)
{
    est_node *nodes = est_zalloc(sizeof *nodes * ((size_t)feeds.n + (size_t)fetches.n + 1));

    if (nodes == NULL) return est_no_memory();
    *out = (est_io){ .feeds = nodes, .fetches = nodes + feeds.n, .n_feeds = feeds.n, .n_fetches = fetches.n };
    for (int i = 0; i < feeds.n; i++) out->feeds[i] = feeds.data[i].node;
    for (int i = 0; i < fetches.n; i++) out->fetches[i] = fetches.data[i].node;
    return EST_OK;
}

static est_status check_ends(graph_ends ends, bool inputs, const est_graph *graph)
{
    for (int i = 0; i < ends.n; i++) {
        const graph_end    *end  = &ends.data[i];
        const char         *what = inputs ? "input" : "output";
        const est_node_def *def  = end->node.graph == graph ? est_def(end->node) : NULL;

        if (end->name == NULL || end->name[0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "%s %d has no name", what, i);
        }
        if (def == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "%s %s is no node of the graph that output 0 is of", what, end->name);
        }
        if (inputs && def->op != &est_op_placeholder) {
            return est_fail(EST_INVALID_ARGUMENT, "input %s is '%s', which is no placeholder", end->name, def->name);
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
static est_status copy_segment(const est_graph *graph, const est_graph_function *fn, est_wire_writer *out)
{
    est_segment segment = { 0 };
    est_io      io;
    est_status  status;

    EST_TRY(list_nodes(fn->feeds, fn->fetches, &io));
    status = est_segment_extract(graph, &io, &segment);
    if (status == EST_OK) status = check_variables(segment.graph);
    if (status == EST_OK) status = est_segment_encode(&segment, out);
    est_segment_clear(&segment);
    est_free(io.feeds);
    return status;
}

/* --- making a function of the bytes ------------------------------------------------------------------------------- */

/* Splits are int64 vectors. */
static est_status check_splits(const char *name, est_node node)
{
    const est_shape *shape = est_node_shape(node);
    char             text[EST_SHAPE_TEXT_MAX];

    if (est_node_dtype(node) == EST_I64 && (shape->rank < 0 || shape->rank == 1)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the splits of %s are %s %s; expected an int64 vector", name,
                    est_dtype_name(est_node_dtype(node)), est_shape_text(shape, text));
}

static est_status bind_input(est_graph_function *fn, const est_dataset *dataset, int i)
{
    est_node             node = fn->segment.io.feeds[i];
    graph_end           *feed = &fn->feeds.data[i];
    const est_component *c;
    char                 is[EST_SHAPE_TEXT_MAX], wanted[EST_SHAPE_TEXT_MAX];
    est_shape            both;

    feed->index = est_dataset_find(dataset, feed->name);
    c           = est_dataset_component(dataset, feed->index);
    if (c == NULL) return est_fail(EST_INVALID_ARGUMENT, "input %s: the dataset has no such component", feed->name);
    if (c->ragged && feed->part == PART_DENSE) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "input %s is a ragged component: give placeholders for its values and splits in ragged_inputs, "
                        "map the elements before they are batched, or batch them with EST_ROWS_PADDED",
                        c->name);
    }
    if (!c->ragged && feed->part != PART_DENSE) {
        return est_fail(EST_INVALID_ARGUMENT, "ragged input %s is no ragged component: give it in inputs", c->name);
    }
    if (feed->part == PART_SPLITS) return check_splits(c->name, node);
    if (c->dtype != est_node_dtype(node) || est_infer_merge(&c->shape, est_node_shape(node), &both) != EST_OK) {
        return est_fail(EST_INVALID_ARGUMENT, "input %s is %s %s, and the placeholder '%s' %s %s", c->name,
                        est_dtype_name(c->dtype), est_shape_text(&c->shape, is), est_node_name(node),
                        est_dtype_name(est_node_dtype(node)), est_shape_text(est_node_shape(node), wanted));
    }
    return EST_OK;
}

static est_status bind_output(est_graph_function *fn, int i)
{
    const est_io  *io    = &fn->segment.io;
    est_node       node  = io->fetches[i];
    graph_end     *fetch = &fn->fetches.data[i];
    est_component *c     = &fn->outputs[fn->n_outputs];

    fetch->index = -1;
    for (int k = 0; k < io->n_feeds; k++) {
        if (io->feeds[k].id == node.id && io->feeds[k].output == node.output) fetch->index = k;
    }
    if (fetch->part == PART_SPLITS) return check_splits(fetch->name, node);
    if (fetch->part == PART_VALUES && est_node_shape(node)->rank == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "the values of %s are a scalar; expected one value or more a row",
                        fetch->name);
    }
    *c = (est_component){ .name   = fetch->name,
                          .dtype  = est_node_dtype(node),
                          .shape  = *est_node_shape(node),
                          .ragged = fetch->part == PART_VALUES };
    if (c->ragged && c->shape.rank > 0) c->shape.dim[0] = -1;
    fn->n_outputs++;
    return EST_OK;
}

/* Whether splits come after the values of the same name, and only there. */
static bool in_pairs(graph_ends ends)
{
    for (int i = 0; i < ends.n; i++) {
        const graph_end *end = &ends.data[i];

        if (end->part == PART_SPLITS) return false;
        if (end->part == PART_DENSE) continue;
        i++;
        if (i == ends.n || ends.data[i].part != PART_SPLITS || strcmp(ends.data[i].name, end->name) != 0) return false;
    }
    return true;
}

/* The rest of a function whose bytes and ends are known. */
static est_status function_load(est_graph_function *fn, const est_dataset *dataset)
{
    const est_io *io = &fn->segment.io;

    EST_TRY(est_segment_read(fn->bytes, 1, &fn->segment));
    EST_TRY(check_variables(fn->segment.graph));
    if (io->n_feeds != fn->feeds.n || io->n_fetches != fn->fetches.n || fn->fetches.n == 0) {
        return est_fail(EST_DATA_LOSS, "%d inputs and %d outputs of a graph with %d and %d", fn->feeds.n, fn->fetches.n,
                        io->n_feeds, io->n_fetches);
    }
    if (!in_pairs(fn->feeds) || !in_pairs(fn->fetches)) {
        return est_fail(EST_DATA_LOSS, "values and splits of a graph are not in pairs");
    }
    for (int i = 0; i < fn->feeds.n; i++) EST_TRY(bind_input(fn, dataset, i));
    for (int i = 0; i < fn->fetches.n; i++) EST_TRY(bind_output(fn, i));
    for (int32_t id = 0; id < est_graph_size(fn->segment.graph); id++) {
        const est_node_def *def = est_graph_node(fn->segment.graph, id);

        fn->random = fn->random || (def->op->random && est_plan_seed_of(def) == 0);
    }
    EST_TRY(est_lock_init(&fn->lock));
    fn->has_lock = true;
    return EST_OK;
}

/* A function with room for these ends. */
static est_graph_function *function_new(int n_feeds, int n_fetches)
{
    est_graph_function *fn = est_zalloc(sizeof *fn);

    if (fn == NULL) return NULL;
    fn->arena = est_arena_create();
    if (fn->arena != NULL) {
        fn->feeds.data   = est_arena_alloc(fn->arena, sizeof *fn->feeds.data * (size_t)n_feeds);
        fn->fetches.data = est_arena_alloc(fn->arena, sizeof *fn->fetches.data * (size_t)n_fetches);
        fn->outputs      = est_arena_alloc(fn->arena, sizeof *fn->outputs * (size_t)n_fetches);
    }
    if (fn->feeds.data != NULL && fn->fetches.data != NULL && fn->outputs != NULL) return fn;
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

/* Copies the names that the ends have. */
static bool keep_names(est_graph_function *fn, graph_ends ends)
{
    for (int i = 0; i < ends.n; i++) {
        ends.data[i].name = est_arena_strdup(fn->arena, ends.data[i].name);
        if (ends.data[i].name == NULL) return false;
    }
    return true;
}

static void list_ends(est_named_nodes dense, est_named_raggeds ragged, graph_ends *out)
{
    for (int i = 0; i < dense.n; i++) {
        out->data[out->n++] = (graph_end){ .name = dense.data[i].name, .node = dense.data[i].node };
    }
    for (int i = 0; i < ragged.n; i++) {
        const est_named_ragged *r = &ragged.data[i];

        out->data[out->n++] = (graph_end){ .name = r->name, .part = PART_VALUES, .node = r->node.values };
        out->data[out->n++] = (graph_end){ .name = r->name, .part = PART_SPLITS, .node = r->node.splits };
    }
}

static est_status function_make(est_graph_function *fn, const est_dataset *dataset, const est_graph_io *of)
{
    est_wire_writer bytes = { 0 };
    est_graph      *graph;
    est_status      status;

    list_ends(of->inputs, of->ragged_inputs, &fn->feeds);
    list_ends(of->outputs, of->ragged_outputs, &fn->fetches);
    graph = fn->fetches.n > 0 ? fn->fetches.data[0].node.graph : NULL;
    if (graph == NULL) return est_fail(EST_INVALID_ARGUMENT, "a graph needs at least one output, and it is no node");
    EST_TRY(est_graph_status(graph));
    EST_TRY(check_ends(fn->feeds, true, graph));
    EST_TRY(check_ends(fn->fetches, false, graph));
    status = copy_segment(graph, fn, &bytes);
    if (status == EST_OK && !keep_bytes(fn, (est_str){ (const char *)bytes.data, bytes.size }))
        status = est_no_memory();
    est_wire_writer_clear(&bytes);
    EST_TRY(status);
    if (!keep_names(fn, fn->feeds) || !keep_names(fn, fn->fetches)) return est_no_memory();
    fn->seed = est_graph_seed(graph);
    return function_load(fn, dataset);
}

est_status est_graph_function_create(const est_dataset *dataset, const est_graph_io *of, est_graph_function **out)
{
    est_graph_function *fn     = function_new(of->inputs.n + 2 * of->ragged_inputs.n,
                                              of->outputs.n + 2 * of->ragged_outputs.n);
    est_status          status = fn != NULL ? function_make(fn, dataset, of) : est_no_memory();

    if (status != EST_OK) {
        est_graph_function_free(fn);
        return status;
    }
    *out = fn;
    return EST_OK;
}

/* --- as bytes ----------------------------------------------------------------------------------------------------- */

static void put_ends(graph_ends ends, const int *field, est_wire_writer *w)
{
    for (int i = 0; i < ends.n; i++) est_wire_put_string(w, (uint32_t)field[ends.data[i].part], ends.data[i].name);
}

void est_graph_function_encode(const est_graph_function *fn, est_wire_writer *w)
{
    est_wire_put_bytes(w, OWN_SEGMENT, fn->bytes.data, fn->bytes.size);
    put_ends(fn->feeds, INPUT_FIELD, w);
    put_ends(fn->fetches, OUTPUT_FIELD, w);
}

static int count_ends(const est_encoded *from, const int *field)
{
    int n = 0;

    for (int part = 0; part < N_PARTS; part++) n += est_encoded_count(from, field[part]);
    return n;
}

/* Appends the end that a field is, if it is one. */
static est_status read_end(const est_encoded *own, uint32_t number, est_str bytes, const int *field, graph_ends *out)
{
    for (int part = 0; part < N_PARTS; part++) {
        if (number != (uint32_t)field[part]) continue;
        out->data[out->n] = (graph_end){ .part = (graph_part)part };
        return est_encoded_text(own, bytes, &out->data[out->n++].name);
    }
    return EST_OK;
}

static est_status read_fields(est_graph_function *fn, const est_encoded *from)
{
    est_encoded     own = *from; /* whose texts stay */
    est_wire_reader r;
    est_wire_field  field;

    own.arena = fn->arena;
    est_wire_reader_init(&r, from->stage->name, from->parameters.data, from->parameters.size);
    while (est_wire_next(&r, &field)) {
        est_str bytes;

        if (field.number < OWN_SEGMENT || field.number > OWN_OUTPUT_SPLITS) continue;
        bytes = est_wire_bytes(&r, &field);
        EST_TRY(est_wire_finish(&r));
        if (field.number == OWN_SEGMENT && !keep_bytes(fn, bytes)) return est_no_memory();
        EST_TRY(read_end(&own, field.number, bytes, INPUT_FIELD, &fn->feeds));
        EST_TRY(read_end(&own, field.number, bytes, OUTPUT_FIELD, &fn->fetches));
    }
    return est_wire_finish(&r);
}

est_status est_graph_function_decode(const est_encoded *from, const est_dataset *dataset, est_graph_function **out)
{
    est_graph_function *fn     = function_new(count_ends(from, INPUT_FIELD), count_ends(from, OUTPUT_FIELD));
    est_status          status = fn != NULL ? read_fields(fn, from) : est_no_memory();

    if (status == EST_OK) status = function_load(fn, dataset);
    if (status != EST_OK) {
        est_graph_function_free(fn);
        return status;
    }
    *out = fn;
    return EST_OK;
}

est_components est_graph_function_outputs(const est_graph_function *fn)
{
    return (est_components){ fn->outputs, fn->n_outputs };
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

static est_status take_output(const est_graph_runner *runner, int i, est_tensor **out)
{
    int             fed  = runner->fn->fetches.data[i].index;
    const est_view *view = est_plan_fetch(runner->plan, i);

    if (fed < 0) return est_tensor_create_from(view->dtype, view->shape, view->data, out);
    *out = est_tensor_ref((est_tensor *)(uintptr_t)runner->feeds[fed]);
    return EST_OK;
}

/* Splits that were computed may be wrong ones. */
static est_status take_splits(const est_graph_runner *runner, int i, est_field *out)
{
    est_status status = take_output(runner, i, &out->splits);

    if (status == EST_OK) status = est_ragged_check(&(est_ragged){ out->values, out->splits });
    return status == EST_OK ? EST_OK : est_fail_context(status, "output %s", runner->fn->fetches.data[i].name);
}

est_status est_graph_runner_run(est_graph_runner *runner, uint64_t run_seed, const est_field *element, est_field *out)
{
    const est_graph_function *fn     = runner->fn;
    est_field                *at     = out;
    est_status                status = EST_OK;

    for (int i = 0; i < fn->feeds.n; i++) {
        const graph_end *feed  = &fn->feeds.data[i];
        const est_field *field = &element[feed->index];

        runner->feeds[i] = feed->part == PART_SPLITS ? field->splits : field->values;
    }
    EST_TRY(est_plan_run(runner->plan, runner->feeds, run_seed));
    for (int i = 0; i < fn->fetches.n && status == EST_OK; i++) {
        status = fn->fetches.data[i].part == PART_SPLITS ? take_splits(runner, i, at - 1)
                                                         : take_output(runner, i, &at++->values);
    }
    if (status != EST_OK) est_element_clear(out, fn->n_outputs);
    return status;
}
