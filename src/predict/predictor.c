/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictors: plans over the variables of one session that threads run at the same time.
 *
 * Invariants, cited as PR1.. in the code:
 *   PR1  No plan of a predictor changes a variable, a table or a dynamic embedding, so plans need no lock to run.
 *        Not where one thread has the session (est_predictor_within): what hooks add to its runs may.
 *   PR2  Rows of variables that wait to be drawn (kernels/lazy_rows.h) are drawn before the predictor is made.
 *        Not where one thread has the session (est_predictor_within): its plans draw rows as they touch them.
 *   PR3  A prediction runs with a plan for its batch's range of sizes: sizes that alternate between ranges cost no
 *        layout, and kernels are those for the size. */
#include "predict/predictor.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/nearest.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "graph/graph.h"
#include "kernels/lazy_rows.h"
#include "predict/example_features.h"
#include "predict/rows.h"
#include "runtime/local_devices.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "tensor/shape.h"

#define N_RANGES 16 /* of batch sizes: 1, 4, 16, ... at most; the last has all larger ones */

/* How the number of rows of a batch shows in an input. */
typedef enum batch_axis {
    AXIS_NONE,  /* it does not: a size that the signature fixes, or values that "<name>/splits" delimit */
    AXIS_FIRST, /* its first dimension */
    AXIS_SPLITS /* its first dimension less one */
} batch_axis;

struct est_predictor {
    est_session   *session; /* borrowed */
    est_arena     *arena;
    est_component *inputs, *outputs;
    batch_axis    *axis; /* [io.n_feeds] */
    est_io         io;
    int            threads; /* of one call, as est_pool_create takes them */
    bool           within;  /* made by est_predictor_within: calls have the threads of the session */
    void (*release)(void *user);
    void *user;

    pthread_mutex_t lock; /* guards all below */
    bool            has_lock;
    est_prediction *idle; /* the first, and those of est_predictor_run */
    uint64_t        n_made;
};

struct est_prediction {
    est_predictor     *predictor;
    est_pool          *pool; /* NULL: the calling thread alone */
    bool               owns_pool;
    est_local_devices *devices; /* of the session, with queues of its own (PR1); NULL: those of the session, or none */
    est_plan          *plans[N_RANGES]; /* NULL: not made yet */
    est_plan          *ran;             /* the last run; NULL: none, or it failed */
    const est_tensor **feeds;           /* [n_feeds] */
    est_tensor       **copies;          /* [n_fetches]: of est_predictor_run, while it makes them */
    uint64_t           seed;            /* of random operations, different in every run and every prediction */
    est_prediction    *next;            /* of those that are idle */
};

/* --- names -------------------------------------------------------------------------------------------------------- */

static int find_component(const est_component *all, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) == 0) return i;
    }
    return -1;
}

/* "there is no input "agee"; did you mean "age"? The inputs are "age", "job"". */
static est_status fail_name(const char *what, const char *name, const est_component *all, int n)
{
    const char **names = est_alloc((size_t)(n + 1) * sizeof *names);
    est_strbuf   text  = { 0 };
    const char  *nearest;
    est_status   status;

    if (names == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        names[i] = all[i].name;
        est_strbuf_printf(&text, "%s\"%s\"", i > 0 ? ", " : "", all[i].name);
    }
    nearest = est_nearest(name, names, (size_t)n);
    status  = est_fail(EST_INVALID_ARGUMENT, "there is no %s \"%s\"%s%s%s %ss are %s", what, name,
                      nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "\"? The" : "; the", what, n > 0 ? est_strbuf_text(&text) : "none");
    est_strbuf_clear(&text);
    est_free(names);
    return status;
}

/* --- create and free ---------------------------------------------------------------------------------------------- */

static est_status check_named(const char *what, est_named_nodes nodes, const est_graph *graph)
{
    EST_REQUIRE_LIST(what, nodes);
    for (int i = 0; i < nodes.n; i++) {
        const est_named_node *named = &nodes.data[i];

        if (named->name == NULL || named->name[0] == '\0') {
            return est_fail(EST_INVALID_ARGUMENT, "%s %d has no name", what, i);
        }
        if (named->node.graph != graph) {
            return est_fail(EST_INVALID_ARGUMENT, "%s \"%s\" is no node of the session's graph", what, named->name);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(nodes.data[k].name, named->name) == 0) {
                return est_fail(EST_INVALID_ARGUMENT, "two %ss are called \"%s\"", what, named->name);
            }
        }
    }
    return EST_OK;
}

static est_status copy_named(est_predictor *p, est_named_nodes nodes, est_component **components, est_node **list)
{
    *components = est_arena_alloc(p->arena, (size_t)(nodes.n + 1) * sizeof **components);
    *list       = est_arena_alloc(p->arena, (size_t)(nodes.n + 1) * sizeof **list);
    if (*components == NULL || *list == NULL) return est_no_memory();
    for (int i = 0; i < nodes.n; i++) {
        const char *name = est_arena_strdup(p->arena, nodes.data[i].name);

        if (name == NULL) return est_no_memory();
        (*components)[i] = (est_component){ .name  = name,
                                            .dtype = est_node_dtype(nodes.data[i].node),
                                            .shape = *est_node_shape(nodes.data[i].node) };
        (*list)[i]       = nodes.data[i].node;
    }
    return EST_OK;
}

/* An input with splits is ragged: the values of all rows one after the other. */
static est_status find_axes(est_predictor *p)
{
    p->axis = est_arena_alloc(p->arena, (size_t)(p->io.n_feeds + 1) * sizeof *p->axis);
    if (p->axis == NULL) return est_no_memory();
    for (int i = 0; i < p->io.n_feeds; i++) {
        const est_shape *shape = &p->inputs[i].shape;

        p->axis[i] = shape->rank < 0 || (shape->rank > 0 && shape->dim[0] < 0) ? AXIS_FIRST : AXIS_NONE;
    }
    for (int i = 0; i < p->io.n_feeds; i++) {
        for (int k = 0; k < p->io.n_feeds; k++) {
            if (!est_is_splits_of(p->inputs[k].name, p->inputs[i].name)) continue;
            p->inputs[i].ragged = true;
            p->axis[i]          = AXIS_NONE;
            if (p->axis[k] == AXIS_FIRST) p->axis[k] = AXIS_SPLITS;
        }
    }
    return EST_OK;
}

/* The fetches that options.outputs asks for. */
static est_status choose_outputs(est_named_nodes fetches, est_strings wanted, est_arena *arena, est_named_nodes *out)
{
    est_named_node *chosen = est_arena_alloc(arena, (size_t)(wanted.n + 1) * sizeof *chosen);
    est_component  *all    = est_arena_alloc(arena, (size_t)(fetches.n + 1) * sizeof *all);

    *out = fetches;
    if (chosen == NULL || all == NULL) return est_no_memory();
    for (int i = 0; i < fetches.n; i++) all[i].name = fetches.data[i].name;
    for (int i = 0; i < wanted.n; i++) {
        const char *name = wanted.data[i];
        int         found;

        if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "est_predictor_options: outputs[%d] is NULL", i);
        found = find_component(all, fetches.n, name);
        if (found < 0) return fail_name("output", name, all, fetches.n);
        chosen[i] = fetches.data[found];
    }
    if (wanted.n > 0) *out = (est_named_nodes){ chosen, wanted.n };
    return EST_OK;
}

static est_status make_prediction(est_predictor *predictor, est_prediction **out)
{
    est_prediction *prediction;
    est_status      status = EST_OK;

    prediction = est_zalloc(sizeof *prediction);
    if (prediction == NULL) return est_no_memory();
    prediction->predictor = predictor;
    prediction->feeds     = est_zalloc((size_t)(predictor->io.n_feeds + 1) * sizeof *prediction->feeds);
    prediction->copies    = est_zalloc((size_t)(predictor->io.n_fetches + 1) * sizeof(est_tensor *));
    if (prediction->feeds == NULL || prediction->copies == NULL) status = est_no_memory();
    if (predictor->within) prediction->pool = est_session_pool(predictor->session);
    prediction->owns_pool = !predictor->within && predictor->threads != 1;
    if (status == EST_OK && prediction->owns_pool) status = est_pool_create(predictor->threads, &prediction->pool);
    if (status == EST_OK && !predictor->within) {
        status = est_session_devices_again(predictor->session, &prediction->devices);
    }
    if (status != EST_OK) {
        est_prediction_free(prediction);
        return status;
    }
    pthread_mutex_lock(&predictor->lock);
    prediction->seed = est_graph_seed(est_session_graph(predictor->session)) + (predictor->n_made++ << 32);
    pthread_mutex_unlock(&predictor->lock);
    *out = prediction;
    return EST_OK;
}

/* PR1, on the host and on other devices. */
static est_status check_plan(const est_plan *plan)
{
    char text[EST_NODE_TEXT_MAX];

    for (int i = 0; i < plan->n_parts; i++) {
        EST_TRY(check_plan(est_local_devices_plan(plan->part_bindings[i].segment)));
    }

    for (int32_t k = 0; k < plan->n_items; k++) {
        const est_call *call = &plan->items[k].call;

        if (call->node->op->writes == 0 || (call->node->op->if_trains && !call->trains)) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s changes a variable, and a predictor only reads them",
                        est_node_text(call->node, text));
    }
    return EST_OK;
}

static est_status make_plan(est_prediction *prediction, est_plan **out)
{
    est_predictor *p = prediction->predictor;
    est_plan      *plan;
    est_status     status;

    EST_TRY(est_session_plan(p->session, &p->io, prediction->pool, prediction->devices, &plan));
    status = p->within ? EST_OK : check_plan(plan);
    if (status != EST_OK) {
        est_plan_free(plan);
        return status;
    }
    *out = plan;
    return EST_OK;
}

/* The first plan binds what all plans share, and finds errors now rather than in the first call. */
static est_status bind_session(est_predictor *p)
{
    est_prediction *first;
    est_status      status;

    EST_TRY(make_prediction(p, &first));
    status = make_plan(first, &first->plans[0]);
    if (status != EST_OK) {
        est_prediction_free(first);
        return status;
    }
    for (int i = 0; i < first->plans[0]->n_vars && !p->within; i++) {
        est_lazy_draw_all(first->plans[0]->vars[i], est_session_pool(p->session)); /* PR2 */
    }
    p->idle = first;
    return EST_OK;
}

static est_status fill(est_predictor *p, est_named_nodes feeds, est_named_nodes fetches,
                       const est_predictor_options *options)
{
    const est_graph *graph = est_session_graph(p->session);

    EST_TRY(est_graph_status(graph));
    EST_TRY(check_named("input", feeds, graph));
    EST_TRY(check_named("output", fetches, graph));
    EST_REQUIRE_LIST("est_predictor_options: outputs", options->outputs);
    if (options->threads < 0 && options->threads != EST_AUTO) {
        return est_fail(EST_INVALID_ARGUMENT, "est_predictor_options: threads is %d; expected a number, 0 or EST_AUTO",
                        options->threads);
    }
    if (est_session_remote(p->session) != NULL && !p->within) {
        return est_fail(EST_INVALID_ARGUMENT, "a predictor needs the variables in this process, and the session has "
                                              "other tasks; restore a checkpoint into a session of its own");
    }
    p->threads = options->threads == EST_AUTO ? 0 : options->threads == 0 ? 1 : options->threads;
    p->arena   = est_arena_create();
    if (p->arena == NULL) return est_no_memory();
    EST_TRY(choose_outputs(fetches, options->outputs, p->arena, &fetches));
    if (fetches.n == 0) return est_fail(EST_INVALID_ARGUMENT, "a predictor needs at least one output");
    p->io = (est_io){ .n_feeds = feeds.n, .n_fetches = fetches.n };
    EST_TRY(copy_named(p, feeds, &p->inputs, &p->io.feeds));
    EST_TRY(copy_named(p, fetches, &p->outputs, &p->io.fetches));
    EST_TRY(find_axes(p));
    EST_TRY(est_lock_init(&p->lock));
    p->has_lock = true;
    return bind_session(p);
}

static est_status create(est_session *session, bool within, est_named_nodes feeds, est_named_nodes fetches,
                         const est_predictor_options *options, est_predictor **out)
{
    est_predictor *p = est_zalloc(sizeof *p);
    est_status     status;

    if (p == NULL) return est_no_memory();
    p->session = session;
    p->within  = within;
    status     = fill(p, feeds, fetches, options);
    if (status != EST_OK) {
        est_predictor_free(p);
        return status;
    }
    *out = p;
    return EST_OK;
}

est_status est_predictor_over(est_session *session, est_named_nodes feeds, est_named_nodes fetches,
                              const est_predictor_options *options, est_predictor **out)
{
    est_predictor_options own;

    EST_REQUIRE(session);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_predictor_options), options, &own));
    return create(session, false, feeds, fetches, &own, out);
}

est_status est_predictor_within(est_session *session, est_named_nodes feeds, est_named_nodes fetches,
                                est_predictor **out)
{
    return create(session, true, feeds, fetches, EST_PREDICTOR(), out);
}

void est_predictor_own(est_predictor *predictor, void (*release)(void *user), void *user)
{
    predictor->release = release;
    predictor->user    = user;
}

void est_predictor_free(est_predictor *predictor)
{
    if (predictor == NULL) return;
    while (predictor->idle != NULL) {
        est_prediction *prediction = predictor->idle;

        predictor->idle = prediction->next;
        est_prediction_free(prediction);
    }
    if (predictor->has_lock) pthread_mutex_destroy(&predictor->lock);
    est_arena_free(predictor->arena);
    if (predictor->release != NULL) predictor->release(predictor->user);
    est_free(predictor);
}

est_components est_predictor_inputs(const est_predictor *predictor)
{
    if (predictor == NULL) return (est_components){ 0 };
    return (est_components){ predictor->inputs, predictor->io.n_feeds };
}

est_components est_predictor_outputs(const est_predictor *predictor)
{
    if (predictor == NULL) return (est_components){ 0 };
    return (est_components){ predictor->outputs, predictor->io.n_fetches };
}

int est_predictor_output(const est_predictor *predictor, const char *name)
{
    if (predictor == NULL || name == NULL) return -1;
    return find_component(predictor->outputs, predictor->io.n_fetches, name);
}

est_status est_predictor_features(const est_predictor *predictor, est_arena *arena, est_feature_specs *out)
{
    *out = (est_feature_specs){ 0 };
    if (predictor->io.n_feeds != 1 || predictor->inputs[0].dtype != EST_STRING) return EST_OK;
    return est_example_features(est_session_graph(predictor->session), predictor->io.feeds[0], arena, out);
}

/* --- predictions -------------------------------------------------------------------------------------------------- */

/* One that nobody has, with the plans it has made, or a new one. */
est_status est_prediction_create(est_predictor *predictor, est_prediction **out)
{
    est_prediction *idle;

    EST_REQUIRE(predictor);
    EST_REQUIRE(out);
    pthread_mutex_lock(&predictor->lock);
    idle = predictor->idle;
    if (idle != NULL) predictor->idle = idle->next;
    pthread_mutex_unlock(&predictor->lock);
    if (idle == NULL) return make_prediction(predictor, out);
    idle->ran = NULL;
    *out      = idle;
    return EST_OK;
}

void est_prediction_free(est_prediction *prediction)
{
    if (prediction == NULL) return;
    for (int i = 0; i < N_RANGES; i++) est_plan_free(prediction->plans[i]);
    est_local_devices_free(prediction->devices);
    if (prediction->owns_pool) est_pool_free(prediction->pool);
    est_free(prediction->feeds);
    est_free(prediction->copies);
    est_free(prediction);
}

/* Puts every tensor in its place. Callers mostly give them in the order of the inputs. */
static est_status bind_inputs(est_prediction *prediction, est_named_tensors inputs)
{
    const est_predictor *p = prediction->predictor;

    EST_REQUIRE_LIST("inputs", inputs);
    for (int i = 0; i < p->io.n_feeds; i++) prediction->feeds[i] = NULL;
    for (int i = 0; i < inputs.n; i++) {
        const char *name  = inputs.data[i].name;
        int         place = i;

        if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "input %d has no name", i);
        if (i >= p->io.n_feeds || strcmp(p->inputs[i].name, name) != 0) {
            place = find_component(p->inputs, p->io.n_feeds, name);
        }
        if (place < 0) return fail_name("input", name, p->inputs, p->io.n_feeds);
        if (inputs.data[i].tensor == NULL) return est_fail(EST_INVALID_ARGUMENT, "input \"%s\" is NULL", name);
        if (prediction->feeds[place] != NULL)
            return est_fail(EST_INVALID_ARGUMENT, "input \"%s\" is given twice", name);
        prediction->feeds[place] = inputs.data[i].tensor;
    }
    return EST_OK;
}

static est_status check_input(const est_component *input, const est_tensor *tensor)
{
    char want[EST_SHAPE_TEXT_MAX], got[EST_SHAPE_TEXT_MAX];

    if (tensor == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "the input \"%s\" is missing: %s %s", input->name,
                        est_dtype_name(input->dtype), est_shape_text(&input->shape, want));
    }
    if (est_tensor_dtype(tensor) == input->dtype && est_shape_compatible(est_tensor_shape(tensor), &input->shape)) {
        return EST_OK;
    }
    return est_fail(EST_INVALID_ARGUMENT, "the input \"%s\" is %s %s; expected %s %s", input->name,
                    est_dtype_name(est_tensor_dtype(tensor)), est_shape_text(est_tensor_shape(tensor), got),
                    est_dtype_name(input->dtype), est_shape_text(&input->shape, want));
}

/* Checks the inputs; *rows: of the batch, 1 where no input shows it. */
static est_status measure(const est_prediction *prediction, int64_t *rows)
{
    const est_predictor *p = prediction->predictor;

    *rows = 1;
    for (int i = 0; i < p->io.n_feeds; i++) {
        const est_shape *shape;
        int64_t          n;

        EST_TRY(check_input(&p->inputs[i], prediction->feeds[i]));
        shape = est_tensor_shape(prediction->feeds[i]);
        if (p->axis[i] == AXIS_NONE || shape->rank == 0) continue;
        n = shape->dim[0] - (p->axis[i] == AXIS_SPLITS);
        if (n < 0 || (n == 0 && !p->within)) {
            return est_fail(EST_INVALID_ARGUMENT, "the input \"%s\" has no rows; give at least one", p->inputs[i].name);
        }
        if (n > *rows) *rows = n;
    }
    return EST_OK;
}

/* A run failed, perhaps since two inputs differ in their rows. Nothing is refused for that alone: a model may take
 * inputs whose first axis is no batch. */
static est_status blame_rows(const est_prediction *prediction, est_status status)
{
    const est_predictor *p     = prediction->predictor;
    int                  first = -1;

    for (int i = 0; i < p->io.n_feeds; i++) {
        const est_shape *shape = est_tensor_shape(prediction->feeds[i]), *other;

        if (p->axis[i] == AXIS_NONE || p->axis[i] == AXIS_SPLITS || shape->rank == 0) continue;
        if (first < 0) first = i;
        other = est_tensor_shape(prediction->feeds[first]);
        if (shape->dim[0] == other->dim[0]) continue;
        return est_fail_context(status, "the input \"%s\" has %" PRId64 " rows, and \"%s\" has %" PRId64,
                                p->inputs[first].name, other->dim[0], p->inputs[i].name, shape->dim[0]);
    }
    return status;
}

/* The plan for this many rows (PR3). */
static est_status find_plan(est_prediction *prediction, int64_t rows, est_plan **out)
{
    int range = 0;

    while (range < N_RANGES - 1 && (int64_t)1 << (2 * range) < rows) range++;
    if (prediction->plans[range] == NULL) EST_TRY(make_plan(prediction, &prediction->plans[range]));
    *out = prediction->plans[range];
    return EST_OK;
}

/* Computes the outputs from the feeds of the prediction. */
static est_status run_bound(est_prediction *prediction, bool traced)
{
    est_plan  *plan;
    int64_t    rows;
    est_status status;

    EST_TRY(measure(prediction, &rows));
    EST_TRY(find_plan(prediction, rows, &plan));
    if (traced) EST_TRY(est_trace_start(plan, 1));
    status = est_session_run_plan(prediction->predictor->session, plan, prediction->feeds, ++prediction->seed);
    if (status != EST_OK) return blame_rows(prediction, status);
    prediction->ran = plan;
    return EST_OK;
}

est_status est_prediction_run(est_prediction *prediction, est_named_tensors inputs)
{
    EST_REQUIRE(prediction);
    prediction->ran = NULL;
    EST_TRY(bind_inputs(prediction, inputs));
    return run_bound(prediction, false);
}

est_status est_prediction_run_values(est_prediction *prediction, const est_tensor *const *values, bool traced,
                                     est_plan **out)
{
    prediction->ran = NULL;
    for (int i = 0; i < prediction->predictor->io.n_feeds; i++) prediction->feeds[i] = values[i];
    EST_TRY(run_bound(prediction, traced));
    *out = prediction->ran;
    return EST_OK;
}

static const est_view *output_view(const est_prediction *prediction, int i)
{
    if (prediction == NULL || prediction->ran == NULL) return NULL;
    return i >= 0 && i < prediction->predictor->io.n_fetches ? est_plan_fetch(prediction->ran, i) : NULL;
}

const void *est_prediction_data(const est_prediction *prediction, int i)
{
    const est_view *view = output_view(prediction, i);

    return view != NULL ? view->data : NULL;
}

const est_shape *est_prediction_shape(const est_prediction *prediction, int i)
{
    const est_view *view = output_view(prediction, i);

    return view != NULL ? &view->shape : NULL;
}

/* --- calls from any thread ---------------------------------------------------------------------------------------- */

static void give_back(est_prediction *prediction)
{
    est_predictor *p = prediction->predictor;

    pthread_mutex_lock(&p->lock);
    prediction->next = p->idle;
    p->idle          = prediction;
    pthread_mutex_unlock(&p->lock);
}

/* All or none. */
static est_status copy_outputs(const est_prediction *prediction, est_tensor **outputs)
{
    int n = prediction->predictor->io.n_fetches;

    for (int i = 0; i < n; i++) {
        const est_view *view   = est_plan_fetch(prediction->ran, i);
        est_status      status = est_tensor_create_from(view->dtype, view->shape, view->data, &prediction->copies[i]);

        if (status == EST_OK) continue;
        while (i > 0) est_tensor_free(prediction->copies[--i]);
        return status;
    }
    memcpy(outputs, prediction->copies, (size_t)n * sizeof(est_tensor *));
    return EST_OK;
}

est_status est_predictor_run(est_predictor *predictor, est_named_tensors inputs, est_tensor **outputs)
{
    est_prediction *prediction;
    est_status      status;

    EST_REQUIRE(predictor);
    EST_REQUIRE(outputs);
    EST_TRY(est_prediction_create(predictor, &prediction));
    status = est_prediction_run(prediction, inputs);
    if (status == EST_OK) status = copy_outputs(prediction, outputs);
    give_back(prediction);
    return status;
}
