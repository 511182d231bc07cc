/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitored sessions: a loop whose runs the program asks for one by one. Everything that happens around a run is the
 * loop's (train/loop.h); here are the standard hooks, the checkpoint directory and the runs that were asked for. */
#include "estoc/monitored.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/options.h"
#include "cluster/remote_tasks.h"
#include "estoc/layers.h"
#include "estoc/ops.h"
#include "train/hooks.h"
#include "train/lock.h"
#include "train/loop_recovery.h"
#include "train/saver.h"

#define SAVE_SECS     600.0
#define SUMMARY_STEPS 100
#define COUNTER_STEPS 100
#define OWN_HOOKS_MAX 3

/* A run that was asked for, and is known by its nodes. */
typedef struct asked_run {
    est_loop_ask      ask;
    struct asked_run *next;
    est_node          nodes[]; /* feeds, fetches, targets */
} asked_run;

struct est_monitored_session {
    est_monitored_options options; /* its lists and texts are in `arena` */
    est_session_options   session;
    est_arena            *arena;
    est_graph            *graph;
    bool                  is_chief, ended;
    est_remote           *remote; /* NULL: no other task has the variables, or a target's */
    est_dir_lock         *lock;   /* NULL: this process saves nothing */
    est_saver            *saver;  /* NULL likewise */
    est_summary_writer   *writer; /* NULL likewise */
    est_model_summary    *shown;  /* [options.summaries.n] */
    est_hook              edges;
    est_hook            **hooks; /* [n_hooks]: edges, own, those of the chief, the others */
    est_hook             *own[OWN_HOOKS_MAX];
    int                   n_hooks, n_own, given;
    est_loop             *loop;
    asked_run            *runs;
    est_tensor          **feeds; /* [n_feeds]: of the last run; one reference each */
    int                   n_feeds, feeds_capacity;
    bool                  unfinished; /* a signal ended the wait for the others */
};

/* --- options ------------------------------------------------------------------------------------------------------ */

static est_status check_number(const char *name, double value)
{
    if (value >= 0 || value == EST_OFF) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "%s is %g; write a number above 0, 0 for the default or "
                    "EST_OFF",
                    name, value);
}

static est_status check_options(const est_graph *graph, const est_monitored_options *o)
{
    bool writes = o->summaries.n > 0 && o->save_summaries_steps != EST_OFF; /* else a hook may, elsewhere */

    EST_TRY(check_number("save_checkpoint_secs", o->save_checkpoint_secs));
    EST_TRY(check_number("save_checkpoint_steps", (double)o->save_checkpoint_steps));
    EST_TRY(check_number("save_summaries_steps", (double)o->save_summaries_steps));
    EST_TRY(check_number("log_step_count_steps", (double)o->log_step_count_steps));
    if (o->save_checkpoint_secs > 0 && o->save_checkpoint_steps > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "save_checkpoint_secs (%g) and save_checkpoint_steps "
                        "(%" PRId64 ") cannot both be set; leave one out",
                        o->save_checkpoint_secs, o->save_checkpoint_steps);
    }
    if (o->checkpoint_dir == NULL && (o->save_checkpoint_secs > 0 || o->save_checkpoint_steps > 0 || writes)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s without a checkpoint_dir",
                        writes ? "summaries" : "save_checkpoint_secs or _steps");
    }
    if (o->loss.graph != NULL && o->loss.graph != graph) {
        return est_fail(EST_INVALID_ARGUMENT, "loss is a node of another graph");
    }
    EST_REQUIRE_LIST("summaries", o->summaries);
    EST_TRY(est_hooks_check("chief-only hook", o->chief_only_hooks));
    return est_hooks_check("hook", o->hooks);
}

static est_status take_session(est_monitored_session *s)
{
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_session_options), s->options.session, &s->session));
    if (s->session.communicator != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "workers with a communicator have variables of their own and rejoin by "
                                              "est_workers_join; use est_train, or a loop of your own");
    }
    s->session.struct_size = EST_STRUCT_SIZE(est_session_options);
    s->remote              = s->session.remote;
    s->is_chief            = s->remote == NULL || est_remote_is_chief(s->remote);
    if (s->session.target == NULL) return EST_OK;
    s->session.target = est_arena_strdup(s->arena, s->session.target);
    return s->session.target != NULL ? EST_OK : est_no_memory();
}

/* What a summary is by the shape that is known. */
static est_summary_what kind_of(est_node node)
{
    if (est_node_dtype(node) == EST_STRING) return EST_MODEL_TEXT;
    return est_shape_count(est_node_shape(node)) == 1 ? EST_MODEL_SCALAR : EST_MODEL_HISTOGRAM;
}

static est_status copy_summaries(est_monitored_session *s)
{
    est_named_nodes given = s->options.summaries;

    s->shown = est_arena_alloc(s->arena, (size_t)(given.n + 1) * sizeof *s->shown);
    if (s->shown == NULL) return est_no_memory();
    for (int i = 0; i < given.n; i++) {
        est_node    node = given.data[i].node;
        const char *tag  = given.data[i].name;

        if (tag == NULL || node.graph != s->graph) {
            return est_fail(EST_INVALID_ARGUMENT, "summary %d: expected a tag and a node of the session's graph", i);
        }
        s->shown[i] = (est_model_summary){ .what = kind_of(node),
                                           .tag  = est_arena_strdup(s->arena, tag),
                                           .node = node };
        if (s->shown[i].tag == NULL) return est_no_memory();
        EST_TRY(est_model_summary_check(s->shown[i].what, tag, est_node_dtype(node), est_node_shape(node)));
    }
    return EST_OK;
}

static est_status copy_options(est_monitored_session *s, const est_monitored_options *options)
{
    est_monitored_options *o = &s->options;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_monitored_options), options, o));
    s->arena = est_arena_create();
    if (s->arena == NULL) return est_no_memory();
    EST_TRY(check_options(s->graph, o));
    EST_TRY(take_session(s));
    if (o->checkpoint_dir != NULL) {
        o->checkpoint_dir = est_arena_strdup(s->arena, o->checkpoint_dir);
        if (o->checkpoint_dir == NULL) return est_no_memory();
    }
    if (o->save_checkpoint_secs == 0 && o->save_checkpoint_steps <= 0) o->save_checkpoint_secs = SAVE_SECS;
    if (o->save_summaries_steps == 0) o->save_summaries_steps = SUMMARY_STEPS;
    if (o->log_step_count_steps == 0) o->log_step_count_steps = COUNTER_STEPS;
    return copy_summaries(s);
}

/* --- hooks -------------------------------------------------------------------------------------------------------- */

static bool saves(const est_monitored_session *s)
{
    return s->is_chief && s->options.checkpoint_dir != NULL;
}

/* Whether the program gives a hook of this kind that is called here. */
static bool is_given(const est_monitored_session *s, bool (*is)(const est_hook *hook))
{
    for (int i = s->given; i < s->n_hooks; i++) {
        if (is(s->hooks[i])) return true;
    }
    return false;
}

/* Before the last checkpoint, which is therefore of the last step of all. */
static est_status settle(est_hook *hook, est_loop *loop)
{
    est_monitored_session *s = EST_CONTAINER_OF(hook, est_monitored_session, edges);

    if (s->remote == NULL || !s->is_chief) return EST_OK;
    return est_recovery_settle(loop, s->remote, est_remote_step_limit(s->remote), &s->unfinished);
}

/* The hook takes its place before those that were given. NULL: making it failed. */
static est_status add_own(est_monitored_session *s, est_hook *hook)
{
    if (hook == NULL) return est_fail_context(EST_RESOURCE_EXHAUSTED, "a standard hook");
    s->own[s->n_own++] = hook;
    memmove(&s->hooks[s->given + 1], &s->hooks[s->given], (size_t)(s->n_hooks - s->given) * sizeof *s->hooks);
    s->hooks[s->given++] = hook;
    s->n_hooks++;
    return EST_OK;
}

/* Steps per second, summaries, checkpoints: TensorFlow's order. */
static est_status add_own_hooks(est_monitored_session *s)
{
    const est_monitored_options *o         = &s->options;
    int64_t                      steps     = o->save_checkpoint_steps > 0 ? o->save_checkpoint_steps : 0;
    double                       secs      = o->save_checkpoint_secs > 0 ? o->save_checkpoint_secs : 0;
    bool                         own_saver = saves(s) && !is_given(s, est_is_checkpoint_saver);

    if (s->is_chief && o->log_step_count_steps > 0) {
        EST_TRY(add_own(s, est_step_counter_hook(EST_EVERY(.steps = o->log_step_count_steps))));
    }
    if (saves(s) && o->save_summaries_steps > 0 && o->summaries.n > 0) {
        EST_TRY(add_own(s, est_summary_saver_hook(EST_EVERY(.steps = o->save_summaries_steps))));
    }
    if (!own_saver || (steps == 0 && secs == 0)) return EST_OK;
    return add_own(
        s, est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = steps, .secs = secs, .saver = s->saver)));
}

static est_status collect_hooks(est_monitored_session *s)
{
    const est_monitored_options *o   = &s->options;
    int                          max = o->chief_only_hooks.n + o->hooks.n + OWN_HOOKS_MAX + 1;

    s->hooks = est_arena_alloc(s->arena, (size_t)max * sizeof *s->hooks);
    if (s->hooks == NULL) return est_no_memory();
    s->edges               = (est_hook)EST_HOOK(.end = settle);
    s->hooks[s->n_hooks++] = &s->edges;
    s->given               = s->n_hooks;
    for (int i = 0; i < o->chief_only_hooks.n && s->is_chief; i++) {
        s->hooks[s->n_hooks++] = o->chief_only_hooks.data[i];
    }
    for (int i = 0; i < o->hooks.n; i++) s->hooks[s->n_hooks++] = o->hooks.data[i];
    if (o->loss.graph == NULL && is_given(s, est_is_nan_hook)) {
        return est_fail(EST_INVALID_ARGUMENT, "est_nan_hook needs .loss");
    }
    return add_own_hooks(s);
}

/* --- variables ---------------------------------------------------------------------------------------------------- */

static est_status use_restored(est_session *session, const est_reached *had, const est_recovery_names *names,
                               const est_restored *restored, const est_tensor *runs)
{
    if (restored->path[0] == '\0') {
        est_log_info("All variables have values already: going on with them.");
        return EST_OK;
    }
    est_recovery_log(had, names, restored->path);
    if (runs != NULL && est_tensor_dtype(runs) == EST_I64 && est_tensor_count(runs) == 1) {
        est_session_set_run_count(session, *(const uint64_t *)est_tensor_data(runs));
    }
    return EST_OK;
}

/* The caller initializes what has no value after this. */
static est_status restore(void *user, est_loop *loop, const est_reached *had)
{
    est_monitored_session *s        = user;
    est_recovery_names     names    = { "checkpoint_dir", s->options.checkpoint_dir, "save_checkpoint_steps" };
    est_tensor            *runs     = NULL;
    est_restored           restored = { 0 };
    est_status             status;

    if (s->saver == NULL) {
        bool complete = had->missing_only && had->tasks[0] == '\0';

        return complete ? EST_OK : est_recovery_check_beginning(had, &names);
    }
    status = est_saver_restore(
        s->saver, est_loop_session(loop),
        EST_RESTORE(.extras = EST_EXTRAS_OUT({ EST_EXTRA_RUNS, &runs }), .missing_only = had->missing_only), &restored);
    if (status == EST_OK) {
        status = use_restored(est_loop_session(loop), had, &names, &restored, runs);
    } else if (status == EST_NOT_FOUND) {
        status = est_recovery_check_beginning(had, &names);
    }
    est_tensor_free(runs);
    return status;
}

static est_status initialize(void *user, est_loop *loop, int64_t *global_step)
{
    est_monitored_session *s = user;

    if (s->remote != NULL || s->session.target != NULL) {
        if (s->is_chief) EST_TRY(est_recovery_join(loop, s->remote, restore, s));
    } else {
        EST_TRY(restore(s, loop, &(est_reached){ .step = est_loop_global_step(loop), .all = true, .tasks = "" }));
        EST_TRY(est_session_init(est_loop_session(loop)));
    }
    return est_loop_read_step(loop, global_step);
}

static est_status extras(void *user, est_loop *loop, est_extra *out, int n_max, int *n)
{
    est_tensor *runs = NULL;

    (void)user;
    (void)n_max; /* one is far below it */
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ (int64_t)est_loop_run_count(loop) }, &runs));
    out[(*n)++] = (est_extra){ EST_EXTRA_RUNS, runs };
    return EST_OK;
}

/* --- begin -------------------------------------------------------------------------------------------------------- */

static est_status open_dir(est_monitored_session *s)
{
    const char *dir = s->options.checkpoint_dir;

    if (!saves(s)) return EST_OK;
    EST_TRY(est_saver_create(dir, NULL, &s->saver));
    EST_TRY(est_dir_lock_take(dir, &s->lock));
    return est_summary_writer_create(dir, "", &s->writer);
}

static est_status declare(void *user)
{
    est_monitored_session *s = user;

    return est_remote_declare_ready(s->remote);
}

/* Tasks take turns, so that all together make no step too many, and a stop of the chief reaches all. */
static est_status turn(void *user, bool *finished)
{
    est_monitored_session *s = user;

    return s->remote->ops->turn(s->remote, finished);
}

static est_status open_loop(est_monitored_session *s)
{
    est_loop_spec spec = { .graph       = s->graph,
                           .model_dir   = s->options.checkpoint_dir,
                           .session     = s->session,
                           .strategy    = { .shared  = s->remote != NULL || s->session.target != NULL,
                                            .declare = s->remote != NULL && s->is_chief ? declare : NULL,
                                            .turn    = s->remote != NULL ? turn : NULL,
                                            .user    = s },
                           .loss        = s->options.loss,
                           .global_step = est_read_variable(est_global_step(s->graph)),
                           .summaries   = s->writer,
                           .shown       = s->shown,
                           .n_shown     = s->options.summaries.n,
                           .hooks       = { s->hooks, s->n_hooks },
                           .given       = s->given,
                           .n_given     = s->n_hooks - s->given,
                           .initialize  = initialize,
                           .extras      = extras,
                           .user        = s };

    EST_TRY(est_graph_status(s->graph));
    EST_TRY(est_loop_open(&spec, &s->loop));
    return s->saver != NULL ? est_saver_mark_begin(s->saver) : EST_OK;
}

est_status est_monitored_session_create(est_graph *graph, const est_monitored_options *options,
                                        est_monitored_session **out)
{
    est_monitored_session *s;
    est_status             status;

    EST_REQUIRE(graph);
    EST_REQUIRE(out);
    EST_TRY(est_graph_status(graph));
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    s->graph = graph;
    status   = copy_options(s, options);
    if (status == EST_OK) status = open_dir(s);
    if (status == EST_OK) status = collect_hooks(s);
    if (status == EST_OK) status = open_loop(s);
    if (status != EST_OK) {
        est_error error;

        est_error_take(status, &error); /* what fails while it is freed is not the reason */
        est_monitored_session_free(s);
        return est_fail_context(est_error_raise(&error), "monitored session");
    }
    *out = s;
    return EST_OK;
}

static void drop_feeds(est_monitored_session *s)
{
    while (s->n_feeds > 0) est_tensor_free(s->feeds[--s->n_feeds]);
}

void est_monitored_session_free(est_monitored_session *session)
{
    if (session == NULL) return;
    est_loop_free(session->loop);
    for (int i = 0; i < session->n_own; i++) est_hook_free(session->own[i]);
    drop_feeds(session);
    est_free(session->feeds);
    est_summary_writer_free(session->writer);
    est_saver_free(session->saver);
    est_dir_lock_release(session->lock);
    est_arena_free(session->arena);
    est_free(session);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static est_status check_nodes(const est_monitored_session *s, const char *what, est_nodes nodes)
{
    for (int i = 0; i < nodes.n; i++) {
        if (nodes.data[i].graph == s->graph) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s %d is %s", what, i,
                        nodes.data[i].graph == NULL ? "no node" : "a node of another graph");
    }
    return EST_OK;
}

static est_status check_run(const est_monitored_session *s, est_feeds feeds, est_nodes fetches, est_nodes targets,
                            est_tensor *const *out)
{
    EST_REQUIRE_LIST("feeds", feeds);
    EST_REQUIRE_LIST("fetches", fetches);
    EST_REQUIRE_LIST("targets", targets);
    for (int i = 0; i < feeds.n; i++) {
        EST_TRY(check_nodes(s, "feed", (est_nodes){ &feeds.data[i].node, 1 }));
        if (feeds.data[i].value != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "'%s' is fed with NULL", est_node_name(feeds.data[i].node));
    }
    EST_TRY(check_nodes(s, "fetch", fetches));
    EST_TRY(check_nodes(s, "target", targets));
    if (out != NULL || fetches.n == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "there is no place to put the values fetched: %d", fetches.n);
}

static bool same_nodes(est_nodes a, est_nodes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, (size_t)a.n * sizeof *a.data) == 0);
}

static bool is_same(const est_loop_ask *ask, est_feeds feeds, est_nodes fetches, est_nodes targets)
{
    if (ask->feeds.n != feeds.n || !same_nodes(ask->fetches, fetches) || !same_nodes(ask->targets, targets)) {
        return false;
    }
    for (int i = 0; i < feeds.n; i++) {
        if (memcmp(&ask->feeds.data[i], &feeds.data[i].node, sizeof(est_node)) != 0) return false;
    }
    return true;
}

/* The global step behind all that the run computes. The node is made once: sessions come and go. */
static est_status make_step(est_monitored_session *s, est_loop_ask *ask)
{
    est_node step = est_read_variable(est_global_step(s->graph));

    for (int i = 0; i < ask->targets.n; i++) step = est_after(step, ask->targets.data[i]);
    for (int i = 0; i < ask->fetches.n; i++) step = est_after(step, ask->fetches.data[i]);
    ask->global_step = step;
    return est_graph_status(s->graph);
}

static est_status make_ask(est_monitored_session *s, est_feeds feeds, est_nodes fetches, est_nodes targets,
                           est_loop_ask **out)
{
    size_t     n   = (size_t)feeds.n + (size_t)fetches.n + (size_t)targets.n;
    asked_run *run = est_arena_alloc(s->arena, sizeof *run + n * sizeof(est_node));
    est_node  *nodes;

    if (run == NULL) return est_no_memory();
    nodes = run->nodes;
    for (int i = 0; i < feeds.n; i++) nodes[i] = feeds.data[i].node;
    if (fetches.n > 0) memcpy(nodes + feeds.n, fetches.data, (size_t)fetches.n * sizeof *nodes);
    if (targets.n > 0) memcpy(nodes + feeds.n + fetches.n, targets.data, (size_t)targets.n * sizeof *nodes);
    run->ask = (est_loop_ask){ .feeds   = { nodes, feeds.n },
                               .fetches = { nodes + feeds.n, fetches.n },
                               .targets = { nodes + feeds.n + fetches.n, targets.n } };
    EST_TRY(make_step(s, &run->ask));
    run->next = s->runs;
    s->runs   = run;
    *out      = &run->ask;
    return EST_OK;
}

static est_status find_ask(est_monitored_session *s, est_feeds feeds, est_nodes fetches, est_nodes targets,
                           est_loop_ask **out)
{
    for (asked_run *run = s->runs; run != NULL; run = run->next) {
        if (!is_same(&run->ask, feeds, fetches, targets)) continue;
        *out = &run->ask;
        return EST_OK;
    }
    return make_ask(s, feeds, fetches, targets, out);
}

/* Takes a reference of each: a run is made again after a loss, and hooks look at the last values. */
static est_status keep_feeds(est_monitored_session *s, est_feeds feeds)
{
    drop_feeds(s);
    if (feeds.n > s->feeds_capacity) {
        est_tensor **more = est_realloc(s->feeds, (size_t)feeds.n * sizeof(est_tensor *));

        if (more == NULL) return est_no_memory();
        s->feeds          = more;
        s->feeds_capacity = feeds.n;
    }
    for (int i = 0; i < feeds.n; i++) {
        memcpy(&s->feeds[i], &feeds.data[i].value, sizeof s->feeds[i]); /* shared, not changed */
        (void)est_tensor_ref(s->feeds[i]);
    }
    s->n_feeds = feeds.n;
    return EST_OK;
}

est_status est_monitored_session_run(est_monitored_session *session, est_feeds feeds, est_nodes fetches,
                                     est_nodes targets, est_tensor **out)
{
    est_loop_ask *ask;
    est_status    status;

    EST_REQUIRE(session);
    EST_TRY(check_run(session, feeds, fetches, targets, out));
    EST_TRY(find_ask(session, feeds, fetches, targets, &ask));
    EST_TRY(keep_feeds(session, feeds));
    status = est_loop_step_as(session->loop, ask, (const est_tensor *const *)session->feeds, out);
    if (status != EST_OUT_OF_RANGE || !est_loop_at_end(session->loop)) return status;
    return est_fail(EST_OUT_OF_RANGE, "the monitored session has stopped: %s",
                    session->ended ? "it was ended" : est_loop_stop_reason(session->loop));
}

bool est_monitored_session_should_stop(const est_monitored_session *session)
{
    return session != NULL && (session->ended || est_loop_should_stop(session->loop));
}

int64_t est_monitored_session_global_step(const est_monitored_session *session)
{
    return session != NULL ? est_loop_global_step(session->loop) : -1;
}

est_session *est_monitored_session_raw(est_monitored_session *session)
{
    return session != NULL ? est_loop_session(session->loop) : NULL;
}

/* --- end ---------------------------------------------------------------------------------------------------------- */

/* A task may be lost while hooks end: where the variables are then those of an earlier step, the program decides. */
static est_status end_loop(est_monitored_session *s)
{
    int64_t before;
    bool    resumed;

    do {
        before = est_loop_global_step(s->loop);
        EST_TRY(est_loop_end_or_resume(s->loop, &resumed));
        if (resumed && est_loop_global_step(s->loop) < before) {
            return est_fail(EST_ABORTED,
                            "a task was lost before its variables were saved: training is at step %" PRId64
                            " again, and was at %" PRId64 "; go on with est_monitored_session_run",
                            est_loop_global_step(s->loop), before);
        }
    } while (resumed);
    return EST_OK;
}

est_status est_monitored_session_end(est_monitored_session *session)
{
    EST_REQUIRE(session);
    if (session->ended) return EST_OK;
    EST_TRY(end_loop(session));
    session->ended = true;
    if (session->saver == NULL || session->unfinished || est_loop_signalled(session->loop)) return EST_OK;
    return est_saver_mark_end(session->saver, est_loop_global_step(session->loop));
}
