/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of variables: at the start from the newest checkpoint, all of them; after the loss of a ps task those that
 * were lost with it. */
#include "coordinator/recovery.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cluster/remote_internal.h"
#include "graph/graph.h"
#include "train/saver.h"

#define EXTRA_EPOCH     "estoc/epoch"          /* int64 */
#define EXTRA_CALLS     "estoc/calls"          /* int64: numbers of calls up to this one are used */
#define EXTRA_POSITIONS "estoc/call_positions" /* int64 [iterators, workers] */

/* --- the session -------------------------------------------------------------------------------------------------- */

est_status est_coordinator_tell_origin(est_coordinator *c)
{
    const est_tasks *tasks   = est_tasks_of(c->remote);
    est_packing      packing = { 0 };
    est_status       status  = EST_OK;
    uint64_t         first;

    pthread_mutex_lock(&c->lock);
    first = c->queue.oldest;
    pthread_mutex_unlock(&c->lock);
    est_wire_put_u64(&packing.head, EST_FIELD_ORIGIN, c->origin);
    est_wire_put_u64(&packing.head, EST_FIELD_CALL_FIRST, first);
    for (int i = 0; i < c->remote->n_tasks && status == EST_OK; i++)
        status = est_remote_task_tell(&tasks->tasks[i], EST_METHOD_ORIGIN, &packing, EST_ASK_SECS);
    est_packing_clear(&packing);
    return status;
}

/* The time, unless a coordinator whose clock was ahead was here before. */
static est_status choose_origin(est_coordinator *c)
{
    const est_tasks *tasks   = est_tasks_of(c->remote);
    est_packing      nothing = { 0 };
    uint64_t         origin  = (uint64_t)est_wall_ns();

    for (int i = 0; i < c->remote->n_tasks; i++) {
        est_message *answer;
        uint64_t     known;

        EST_TRY(est_remote_task_ask(&tasks->tasks[i], EST_METHOD_ORIGIN, &nothing, EST_ASK_SECS, &answer));
        known = est_head_u64(answer, EST_FIELD_ORIGIN, 0);
        est_message_free(answer);
        if (known >= origin) origin = known + 1;
    }
    c->origin = origin;
    return EST_OK;
}

/* Keeps the session of before for the program. Under `lock`. */
static est_status replace_session(est_coordinator *c, est_session *session)
{
    est_session **grown = est_realloc(c->replaced, sizeof(est_session *) * ((size_t)c->n_replaced + 1));

    if (grown == NULL) return est_no_memory();
    c->replaced = grown;
    if (c->session != NULL) c->replaced[c->n_replaced++] = c->session;
    c->session = session;
    return EST_OK;
}

est_status est_coordinator_open_session(est_coordinator *c)
{
    est_session *session;
    est_status   status;

    EST_TRY(est_session_create(
        c->graph, EST_SESSION(.remote = c->remote, .threads = c->options.threads, .devices = EST_STRINGS("/cpu:0")),
        &session));
    pthread_mutex_lock(&c->lock);
    status = replace_session(c, session);
    pthread_mutex_unlock(&c->lock);
    if (status != EST_OK) {
        est_session_free(session);
        return status;
    }
    if (c->origin == 0) EST_TRY(choose_origin(c));
    return est_coordinator_tell_origin(c);
}

/* --- initial values of variables that have others ----------------------------------------------------------------- */

/* Whether the initializer of a variable reads another one that has to be initialized. */
static bool depends_on(const est_graph *graph, int32_t node, const bool *pending, int32_t self, bool *seen)
{
    const est_node_def *def = est_graph_node(graph, node);

    if (seen[node]) return false;
    seen[node] = true;
    if (node != self && pending[node]) return true;
    for (int32_t i = 0; i < def->n_in; i++) {
        if (depends_on(graph, def->in[i].node, pending, self, seen)) return true;
    }
    return false;
}

/* The initializers that can run now; takes their variables out of `pending`. */
static int take_ready(const est_graph *graph, bool *pending, bool *seen, est_node *targets)
{
    int32_t n_nodes = est_graph_size(graph);
    int     n       = 0;

    for (int32_t id = 0; id < n_nodes; id++) {
        est_node init = pending[id] ? est_graph_initializer(graph, id) : EST_NO_NODE;

        if (init.graph == NULL) continue;
        memset(seen, 0, (size_t)n_nodes);
        if (!depends_on(graph, init.id, pending, id, seen)) targets[n++] = init;
    }
    for (int i = 0; i < n; i++) pending[est_def(targets[i])->in[0].node] = false;
    return n;
}

/* Variables that have a value of an earlier coordinator, which the checkpoint (NULL: none) lacks. */
static void list_pending(const est_coordinator *c, const est_store *store, const est_checkpoint *checkpoint,
                         bool *pending)
{
    for (int32_t id = 0; id < est_graph_size(c->graph); id++) {
        const est_node_def *def  = est_graph_node(c->graph, id);
        const char         *name = def->op->source == EST_SOURCE_VARIABLE ? est_node_string(def, "shared_name") : NULL;
        const est_var      *var  = name != NULL ? est_store_find(store, name) : NULL;

        if (var == NULL || !var->initialized) continue;
        pending[id] = checkpoint == NULL || est_checkpoint_find(checkpoint, name) == NULL;
    }
}

/* Dynamic embeddings have no initializer: those that are pending lose their keys, and with them the rows of slots. */
static est_status clear_embeddings(const est_coordinator *c, bool *pending)
{
    for (int32_t id = 0; id < est_graph_size(c->graph); id++) {
        const est_node_def *def = est_graph_node(c->graph, id);

        if (!pending[id] || !def->op->has_rows) continue;
        pending[id] = false;
        if (est_node_string(def, "rows_of")[0] != '\0') continue;
        EST_TRY(est_session_clear_rows(c->session, est_node_string(def, "shared_name")));
    }
    return EST_OK;
}

static est_status initialize_again(const est_coordinator *c, const est_checkpoint *checkpoint)
{
    size_t     size    = (size_t)est_graph_size(c->graph) + 1;
    bool      *pending = est_zalloc(size), *seen = est_zalloc(size);
    est_node  *targets = est_alloc(sizeof *targets * size);
    est_store *store;
    est_status status = pending != NULL && seen != NULL && targets != NULL ? EST_OK : est_no_memory();
    int        n      = 1;

    if (status == EST_OK) status = est_session_store(c->session, &store);
    if (status == EST_OK) status = est_session_look(c->session);
    if (status == EST_OK) list_pending(c, store, checkpoint, pending);
    if (status == EST_OK) status = clear_embeddings(c, pending);
    while (status == EST_OK && n > 0) {
        n = take_ready(c->graph, pending, seen, targets);
        if (n > 0)
            status = est_session_run(c->session, EST_NO_FEEDS, (est_nodes){ 0 }, (est_nodes){ targets, n }, NULL);
    }
    est_free(pending);
    est_free(seen);
    est_free(targets);
    return status;
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

/* Checkpoints of est_saver_save, and TensorFlow's, have none: *out stays. */
static est_status read_number(const est_checkpoint *checkpoint, const char *name, int64_t *out)
{
    est_tensor *value;

    if (est_checkpoint_find(checkpoint, name) == NULL) return EST_OK;
    EST_TRY(est_checkpoint_read(checkpoint, name, &value));
    if (est_tensor_dtype(value) == EST_I64 && est_tensor_count(value) == 1)
        *out = *(const int64_t *)est_tensor_data(value);
    est_tensor_free(value);
    return EST_OK;
}

/* Calls are numbered on, so that random operations, which go by the number, do not repeat themselves. */
static est_status read_numbers(est_coordinator *c, const est_checkpoint *checkpoint)
{
    int64_t calls = 0;

    EST_TRY(read_number(checkpoint, EXTRA_EPOCH, &c->epoch));
    EST_TRY(read_number(checkpoint, EXTRA_CALLS, &calls));
    c->queue.given  = calls > 0 ? (uint64_t)calls : 0;
    c->queue.oldest = c->queue.given + 1;
    return EST_OK;
}

/* Another number of workers than at the save: those that both have keep their positions. */
static est_status take_positions(est_coordinator *c, const est_tensor *saved)
{
    const est_shape *shape = est_tensor_shape(saved);
    const int64_t   *data  = est_tensor_data(saved);
    int64_t          n = shape->rank == 2 ? shape->dim[0] : 0, workers = n > 0 ? shape->dim[1] : 0;

    if (est_tensor_dtype(saved) != EST_I64 || n == 0) return EST_OK;
    est_free(c->positions); /* of an attempt before this one */
    c->n_positions = 0;
    c->positions   = est_zalloc(sizeof *c->positions * (size_t)n * ((size_t)c->n_workers + 1));
    if (c->positions == NULL) return est_no_memory();
    c->n_positions = (int)n;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t w = 0; w < workers && w < c->n_workers; w++)
            c->positions[i * c->n_workers + w] = data[i * workers + w];
    }
    return EST_OK;
}

static int count_positions(const est_coordinator *c)
{
    return c->n_iterators > c->n_positions ? c->n_iterators : c->n_positions;
}

static est_status read_positions(est_coordinator *c, const est_checkpoint *checkpoint)
{
    est_tensor *saved;
    est_status  status;

    if (est_checkpoint_find(checkpoint, EXTRA_POSITIONS) == NULL) return EST_OK;
    EST_TRY(est_checkpoint_read(checkpoint, EXTRA_POSITIONS, &saved));
    status = take_positions(c, saved);
    est_tensor_free(saved);
    return status;
}

/* By the order in which iterators were made: a freed one is at its first element, one that this program has not made
 * yet is where the checkpoint before had it. Under `lock`. */
static void fill_positions(const est_coordinator *c, int64_t *out)
{
    size_t row = (size_t)c->n_workers;

    memset(out, 0, sizeof *out * row * (size_t)count_positions(c));
    for (int i = c->n_iterators; i < c->n_positions; i++)
        memcpy(out + (size_t)i * row, c->positions + (size_t)i * row, sizeof *out * row);
    for (est_call_object *o = c->objects; o != NULL; o = o->next) {
        const est_per_worker *p = EST_CONTAINER_OF(o, est_per_worker, object);

        if (o->kind == EST_OBJECT_ITERATOR) memcpy(out + (size_t)p->ordinal * row, p->consumed, sizeof *out * row);
    }
}

static est_status make_positions(est_coordinator *c, est_tensor **out)
{
    est_status status;

    pthread_mutex_lock(&c->lock);
    status = est_tensor_create(EST_I64, EST_SHAPE(count_positions(c), c->n_workers), out);
    if (status == EST_OK) fill_positions(c, est_tensor_mutable_data(*out));
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

static est_status make_number(int64_t value, est_tensor **out)
{
    return est_tensor_create_from(EST_I64, EST_SHAPE_SCALAR, &value, out);
}

static est_status choose_step(const est_coordinator *c, int64_t epoch, int64_t *out)
{
    est_store  *store;
    est_tensor *step;

    *out = epoch;
    EST_TRY(est_session_store(c->session, &store));
    if (est_store_find(store, "global_step") == NULL) return EST_OK;
    EST_TRY(est_session_read(c->session, "global_step", &step));
    if (est_tensor_dtype(step) == EST_I64 && est_tensor_count(step) == 1)
        *out = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    return EST_OK;
}

/* Nothing is under way, so all calls below the oldest one have completed. */
est_status est_coordinator_write_checkpoint(est_coordinator *c, int64_t epoch)
{
    est_tensor *numbers[2] = { NULL }, *positions = NULL;
    int64_t     step   = 0, calls;
    est_status  status = est_coordinator_tell_origin(c);

    if (status == EST_OK) status = choose_step(c, epoch, &step);
    pthread_mutex_lock(&c->lock);
    calls = (int64_t)c->queue.oldest - 1;
    pthread_mutex_unlock(&c->lock);
    if (status == EST_OK) status = make_number(epoch, &numbers[0]);
    if (status == EST_OK) status = make_number(calls, &numbers[1]);
    if (status == EST_OK) status = make_positions(c, &positions);
    if (status == EST_OK) {
        status = est_saver_save(c->saver, c->session, step,
                                EST_SAVE(.extras = EST_EXTRAS({ EXTRA_EPOCH, numbers[0] }, { EXTRA_CALLS, numbers[1] },
                                                              { EXTRA_POSITIONS, positions })),
                                NULL);
    }
    if (status == EST_OK) c->saved_step = step;
    est_tensor_free(numbers[0]);
    est_tensor_free(numbers[1]);
    est_tensor_free(positions);
    return status;
}

/* --- the start ---------------------------------------------------------------------------------------------------- */

static est_status restore_all(est_coordinator *c, const char *path)
{
    est_checkpoint *checkpoint;
    est_status      status;

    EST_TRY(est_checkpoint_open(path, &checkpoint));
    status = initialize_again(c, checkpoint);
    if (status == EST_OK) status = est_session_init(c->session);
    if (status == EST_OK) status = read_numbers(c, checkpoint);
    if (status == EST_OK) status = read_positions(c, checkpoint);
    est_checkpoint_close(checkpoint);
    return status;
}

/* All ps tasks have values: notes which processes these are. */
static est_status declare_ready(est_coordinator *c)
{
    const est_tasks *tasks = est_tasks_of(c->remote);

    if (c->ps_known == NULL) c->ps_known = est_alloc(sizeof *c->ps_known * ((size_t)c->remote->n_tasks + 1));
    if (c->ps_known == NULL) return est_no_memory();
    for (int i = 0; i < c->remote->n_tasks; i++) c->ps_known[i] = tasks->tasks[i].incarnation;
    return est_remote_declare_ready(c->remote);
}

est_status est_coordinator_start_variables(est_coordinator *c)
{
    est_restored restored = { 0 };
    est_status   status   = EST_NOT_FOUND;

    if (c->saver != NULL) status = est_saver_restore(c->saver, c->session, EST_RESTORE(.partial = true), &restored);
    if (status == EST_OK) {
        EST_TRY(restore_all(c, restored.path));
        EST_TRY(choose_step(c, c->epoch, &c->saved_step));
        est_log_info("%s: %d variables restored from %s, epoch %" PRId64, c->server->task, restored.n_restored,
                     restored.path, c->epoch);
    } else if (status == EST_NOT_FOUND) {
        est_error_clear();
        EST_TRY(initialize_again(c, NULL));
        EST_TRY(est_session_init(c->session));
        if (c->saver != NULL) EST_TRY(est_coordinator_write_checkpoint(c, 0));
    } else {
        return status;
    }
    return declare_ready(c);
}

/* --- lost ps tasks ------------------------------------------------------------------------------------------------ */

static est_status restore_lost(est_coordinator *c, const char *tasks)
{
    est_restored restored;

    if (c->saver == NULL) {
        return est_fail(EST_FAILED_PRECONDITION,
                        "%s lost the values of its variables, and there is no checkpoint: set model_dir in "
                        "EST_NETWORK, or give the coordinator a model_dir and call est_coordinator_save",
                        tasks);
    }
    EST_TRY(est_saver_restore(c->saver, c->session, EST_RESTORE(.partial = true, .missing_only = true), &restored));
    if (restored.path[0] != '\0') {
        est_log_warn("%s: %s lost its variables: %d of them returned to %s", c->server->task, tasks,
                     restored.n_restored, restored.path);
    }
    return EST_OK;
}

/* tasks: "ps:0, ps:2". */
static void count_losses(est_coordinator *c, const char *tasks)
{
    pthread_mutex_lock(&c->lock);
    c->ps_losses++;
    for (const char *at = tasks; (at = strchr(at, ',')) != NULL; at++) c->ps_losses++;
    pthread_mutex_unlock(&c->lock);
}

/* Whether a ps task is another process than the one that had values: a link may have been lost, and the graph may have
 * variables that were never initialized. */
static bool is_restarted(const est_coordinator *c)
{
    const est_tasks *tasks = est_tasks_of(c->remote);

    for (int i = 0; i < c->remote->n_tasks; i++) {
        if (c->ps_known[i] != tasks->tasks[i].incarnation) return true;
    }
    return false;
}

/* est_session_create waits for the tasks, and logs that. */
est_status est_coordinator_recover(est_coordinator *c)
{
    est_strbuf tasks = { 0 };
    est_status status;
    bool       all;

    est_log_debug("%s: calls wait until all ps tasks are there", c->server->task);
    EST_TRY(est_coordinator_open_session(c));
    status = est_tasks_without_values(c->session, &tasks, &all);
    if (status == EST_OK) status = est_strbuf_status(&tasks);
    if (status == EST_OK && tasks.size > 0 && is_restarted(c)) {
        status = restore_lost(c, est_strbuf_text(&tasks));
        if (status == EST_OK || c->saver == NULL) count_losses(c, est_strbuf_text(&tasks));
    }
    if (status == EST_OK) status = est_session_init(c->session);
    if (status == EST_OK) status = declare_ready(c);
    if (status == EST_OK) est_log_debug("%s: all ps tasks are there, calls go on", c->server->task);
    est_strbuf_clear(&tasks);
    return status;
}
