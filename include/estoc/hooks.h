/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks: code that runs around the steps of a training, evaluation or prediction.
 *
 * A hook is a struct of optional functions, embedded in the author's own struct:
 *
 *     typedef struct plateau { est_hook hook; double best; } plateau;
 *
 *     plateau flat = { .hook = EST_HOOK(.after_run = plateau_after_run), .best = INFINITY };
 *
 *     static est_status plateau_after_run(est_hook *hook, est_loop *loop)
 *     {
 *         plateau *p = EST_CONTAINER_OF(hook, plateau, hook);
 *
 *         if (est_loop_loss(loop) < p->best) p->best = est_loop_loss(loop);
 *         else est_loop_request_stop(loop, "no progress");
 *         return EST_OK;
 *     }
 *
 * The order: begin of every hook, in order, while the graph may still grow; the session is made and variables get
 * their values; initialize of every hook; after_create_session; then for every run before_run, the run, after_run; at
 * last end. The checkpoint of step 0 is written in after_create_session: what initialize gives a variable is in it. A
 * loop that has to make a new session (after EST_ABORTED or EST_UNAVAILABLE) calls initialize and after_create_session
 * again and repeats the run; after eight new sessions without a new step it gives up. end is called when the input
 * ended or a stop was requested, not after an error. What a hook fails with ends the call with that code: also
 * EST_OUT_OF_RANGE, though inputs end with it (a prediction makes EST_INVALID_ARGUMENT of it, so that it is not taken
 * for the last row). A hook that has seen enough calls est_loop_request_stop.
 *
 * What a hook wants to see of the graph it names in begin (est_loop_fetch); it is computed only in runs for which the
 * hook says so in before_run (est_loop_want), so that a rare look costs nothing in between.
 *
 * est_network_fit trains in epochs (estoc/network.h). There epoch_begin is called before the first run of an epoch, and
 * epoch_end after the last one and the validation; what was measured by then, "loss", "accuracy", "val_loss", is read
 * with est_loop_log. Hooks made for these events are called callbacks (estoc/callbacks.h). Other loops do not call
 * them.
 *
 * A hook may use the session itself (est_loop_session): what it runs there does not move the random numbers that the
 * runs of the loop draw, so that a resumed training stays the same.
 *
 * Threading: hooks are called by the loop's thread, one at a time. */
#ifndef ESTOC_HOOKS_H
#define ESTOC_HOOKS_H

#include "estoc/dataset.h"
#include "estoc/saver.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct est_loop est_loop;
typedef struct est_hook est_hook;

struct est_hook {
    size_t struct_size; /* filled by EST_HOOK */
    est_status (*begin)(est_hook *hook, est_loop *loop);
    est_status (*after_create_session)(est_hook *hook, est_loop *loop);
    est_status (*before_run)(est_hook *hook, est_loop *loop);
    est_status (*after_run)(est_hook *hook, est_loop *loop);
    est_status (*end)(est_hook *hook, est_loop *loop);
    void (*free)(est_hook *hook); /* called by the owner of the hook; NULL: nothing to free */

    /* true: before_run and after_run are also called for steps that this worker of a synchronous training runs without
     * a batch, while other workers still have some, and after_run for a step that only others ran, which est_loop_runs
     * does not count. Fetches are not computed in these steps. */
    bool idle;

    /* Of est_network_fit: around the runs of an epoch. */
    est_status (*epoch_begin)(est_hook *hook, est_loop *loop);
    est_status (*epoch_end)(est_hook *hook, est_loop *loop);

    /* Variables have their initial values, or those of a checkpoint; before after_create_session of any hook. */
    est_status (*initialize)(est_hook *hook, est_loop *loop);
};

#define EST_HOOK(...)                                                                                                  \
    {                                                                                                                  \
        .struct_size = EST_STRUCT_SIZE(est_hook), __VA_ARGS__                                                          \
    }

/* A list of hooks as one argument: EST_HOOKS(&mine.hook, &other->hook). */
typedef struct est_hooks {
    est_hook *const *data;
    int              n;
} est_hooks;

#define EST_HOOKS(...) EST_SPAN(est_hooks, est_hook *const, __VA_ARGS__)

/* Frees a hook that the library made. NULL is fine. */
EST_API void est_hook_free(est_hook *hook);

/* --- what a hook sees of its loop --------------------------------------------------------------------------------- */

/* What the loop runs, on what, and for which directory ("": none); borrowed until the loop goes. A session may be
 * replaced by a new one. */
EST_API est_graph   *est_loop_graph(est_loop *loop);
EST_API est_session *est_loop_session(est_loop *loop); /* NULL in begin */
EST_API const char  *est_loop_model_dir(const est_loop *loop);

/* In begin: has this node computed in the runs for which it is wanted; returns its number. In before_run as well: a
 * node that was named before keeps its number, and a new one has the step prepared again. A NULL-graph node, or a call
 * at another time, fails the loop. */
EST_API int est_loop_fetch(est_loop *loop, est_node node);

/* In before_run: this run computes fetch number i. */
EST_API void est_loop_want(est_loop *loop, int i);

/* In after_run: the value of a wanted fetch, borrowed until the next run; data NULL when it was not wanted. */
EST_API const void      *est_loop_data(const est_loop *loop, int i);
EST_API const est_shape *est_loop_shape(const est_loop *loop, int i);
EST_API est_dtype        est_loop_dtype(const est_loop *loop, int i);
EST_API double           est_loop_scalar(const est_loop *loop, int i); /* NaN unless it is one number */

/* In begin or before_run: this hook feeds a placeholder in all runs from then on; returns the number of the feed. What
 * the input or another hook feeds already fails the loop. In before_run: its value, shared, from this run on. */
EST_API int  est_loop_add_feed(est_loop *loop, est_node placeholder);
EST_API void est_loop_set_feed(est_loop *loop, int i, est_tensor *value);

/* The loss of the last run, NaN before the first; the global step after it; runs made by this loop. */
EST_API double  est_loop_loss(const est_loop *loop);
EST_API int64_t est_loop_global_step(const est_loop *loop);
EST_API int64_t est_loop_runs(const est_loop *loop);

/* Ends the loop after this round of after_run; not an error. The first reason is logged. In multi-worker training
 * (est_multi_worker_mirrored_strategy) the chief's stop ends the job for all; a worker that stops before the chief goes
 * on with it. */
EST_API void est_loop_request_stop(est_loop *loop, const char *reason);
EST_API bool est_loop_should_stop(const est_loop *loop);

/* A scalar for TensorBoard, at this step, in the loop's directory. Nothing when the loop writes no summaries. */
EST_API void est_loop_summary(est_loop *loop, const char *tag, double value);

/* --- epochs ------------------------------------------------------------------------------------------------------- */

/* The epoch under way, from 0, and the number of them; -1: the loop has none. */
EST_API int64_t est_loop_epoch(const est_loop *loop);
EST_API int64_t est_loop_epochs(const est_loop *loop);

/* What was measured in this epoch, by name: in after_run up to this run, in epoch_end over the whole epoch, there also
 * "val_..." of the validation. NaN: there is none of that name. Reading one after a run costs a small run of its own,
 * so do it now and then. By number: names in the order in which they came, borrowed until the loop goes. */
EST_API double      est_loop_log(est_loop *loop, const char *name);
EST_API int         est_loop_logs(est_loop *loop);
EST_API const char *est_loop_log_name(est_loop *loop, int i);

/* In epoch_begin, after_run and epoch_end: adds a value, or replaces it; later hooks and the history see it. */
EST_API void est_loop_set_log(est_loop *loop, const char *name, double value);

/* --- saving ------------------------------------------------------------------------------------------------------- */

/* Called around every save of a checkpoint; all optional. after_save may ask to stop. end is told the step of the last
 * checkpoint. */
typedef struct est_saving_listener est_saving_listener;
struct est_saving_listener {
    size_t struct_size; /* filled by EST_SAVING_LISTENER */
    est_status (*begin)(est_saving_listener *listener);
    est_status (*before_save)(est_saving_listener *listener, est_session *session, int64_t global_step);
    est_status (*after_save)(est_saving_listener *listener, est_session *session, int64_t global_step, bool *stop);
    est_status (*end)(est_saving_listener *listener, est_session *session, int64_t global_step);
};

#define EST_SAVING_LISTENER(...)                                                                                       \
    {                                                                                                                  \
        .struct_size = EST_STRUCT_SIZE(est_saving_listener), __VA_ARGS__                                               \
    }

typedef struct est_saving_listeners {
    est_saving_listener *const *data;
    int                         n;
} est_saving_listeners;

#define EST_SAVING_LISTENERS(...) EST_SPAN(est_saving_listeners, est_saving_listener *const, __VA_ARGS__)

/* --- standard hooks ----------------------------------------------------------------------------------------------- */

/* Each is made on the heap and freed with est_hook_free. When memory is out or an argument is wrong the result is NULL
 * and est_error_message says why; a call that is given a list with a NULL in it fails with the last error of the
 * thread, so that the list is a good enough place to check if no other call failed in between. "every" options: exactly
 * one is set. */

#define EST_LOG_LINE_MAX 4096

/* Writes what a logging hook is to log of these values, in the order of its nodes, as text that ends with 0 into
 * line[size]; snprintf does. The values are borrowed during the call. "" logs nothing. */
typedef est_status (*est_logging_format)(void *user, est_named_tensors values, char *line, size_t size);

typedef struct est_logging_options {
    size_t             struct_size; /* filled by EST_LOGGING */
    int64_t            every_n_iter;
    double             every_n_secs;
    bool               at_end; /* also the values at the end, computed with the last batch */
    est_logging_format format; /* NULL: "name = value, ... (0.123 sec)", the time since the line before */
    void              *user;   /* handed to format; borrowed until the hook is freed */
    /* by what name each node that is EST_NO_NODE is found; empty: by its own, which lines have in any case */
    est_strings operations;
} est_logging_options;
#define EST_LOGGING(...)                                                                                               \
    (&(const est_logging_options){ .struct_size = EST_STRUCT_SIZE(est_logging_options), __VA_ARGS__ })
/* Logs these nodes at run 0, n, 2n ... of this loop. EST_NO_NODE is found by its name in the graph when the loop
 * begins. */
EST_API EST_MUST_CHECK est_hook *est_logging_hook(est_named_nodes nodes, const est_logging_options *options);

/* Stops at a global step: after num_steps more, or at last_step; exactly one is above 0. */
EST_API EST_MUST_CHECK est_hook *est_stop_at_step_hook(int64_t num_steps, int64_t last_step);

/* Stops when that many seconds have passed. */
EST_API EST_MUST_CHECK est_hook *est_stop_at_secs_hook(double seconds);

/* A NaN loss, or a variable that is NaN when it is to be saved, ends the run with an error, which names a feature or
 * label that is not finite; or, without fail_on_nan, stops it with a warning. A training makes one that fails, unless
 * it is given one. */
EST_API EST_MUST_CHECK est_hook *est_nan_hook(bool fail_on_nan);

typedef struct est_every_options {
    size_t      struct_size; /* filled by EST_EVERY */
    int64_t     steps;
    double      secs;
    const char *output_dir; /* NULL: the loop's model directory; copied */
} est_every_options;
#define EST_EVERY(...) (&(const est_every_options){ .struct_size = EST_STRUCT_SIZE(est_every_options), __VA_ARGS__ })
/* Logs and writes "global_step/sec" every so often; options NULL: every 100 steps. */
EST_API EST_MUST_CHECK est_hook *est_step_counter_hook(const est_every_options *options);
/* Writes the summaries of the model (est_model_scalar and others) in the first run and then every so often; into an
 * event file of its own when output_dir is given. A training makes one that follows save_summary_steps. */
EST_API EST_MUST_CHECK est_hook *est_summary_saver_hook(const est_every_options *options);

typedef struct est_profiler_options {
    size_t      struct_size; /* filled by EST_PROFILER */
    int64_t     steps;
    double      secs;
    const char *output_dir;  /* NULL: the loop's model directory; copied */
    bool        no_dataflow; /* true: no arrows from the operation that makes a value to those that read it */
    bool        show_memory; /* true: counters of the bytes that are taken while each operation runs */
} est_profiler_options;
#define EST_PROFILER(...)                                                                                              \
    (&(const est_profiler_options){ .struct_size = EST_STRUCT_SIZE(est_profiler_options), __VA_ARGS__ })
/* Writes a Chrome timeline, timeline-<step>.json, of a step every so often. */
EST_API EST_MUST_CHECK est_hook *est_profiler_hook(const est_profiler_options *options);

typedef struct est_checkpoint_saver_options {
    size_t               struct_size; /* filled by EST_CHECKPOINT_SAVER */
    int64_t              steps;
    double               secs;
    const char          *basename;     /* of checkpoints, before "-<step>"; NULL: "model.ckpt"; copied */
    est_saver           *saver;        /* in place of a directory and a basename; borrowed until the hook is freed */
    est_saving_listeners listeners;    /* called in this order; borrowed until the hook is freed, the list is copied */
    bool                 no_graph_def; /* true: no graph.pbtxt, and no .meta beside checkpoints */
} est_checkpoint_saver_options;
#define EST_CHECKPOINT_SAVER(...)                                                                                      \
    (&(const est_checkpoint_saver_options){ .struct_size = EST_STRUCT_SIZE(est_checkpoint_saver_options), __VA_ARGS__ })
/* Saves checkpoints into `dir` (copied): when the session has been made, every so often, and at the end; those of a
 * training hold what it takes to go on exactly. A loop whose loss or variables have become NaN saves nothing more, and
 * ends as its est_nan_hook has it. Without a saver of the caller's the latest 5 are kept. A training that is given one
 * makes none of its own, whatever save_checkpoints_steps and _secs say. It still starts from the latest
 * checkpoint of its model directory. */
EST_API EST_MUST_CHECK est_hook *est_checkpoint_saver_hook(const char                         *dir,
                                                           const est_checkpoint_saver_options *options);
/* Waits before the first run until the global step, as seen by others, has come this far. */
EST_API EST_MUST_CHECK est_hook *est_global_step_waiter_hook(int64_t wait_until_step);
/* Computes these nodes (copied list) once at the end, with the last batch fed. The values are then read with
 * est_final_value, borrowed until the hook is freed; NULL: there is none. */
EST_API EST_MUST_CHECK est_hook *est_final_ops_hook(est_nodes nodes);
EST_API const est_tensor        *est_final_value(const est_hook *final_ops, int i);

/* Feeds the nodes (copied list) before every run with what fn puts into values[n]: one new tensor each, which is taken;
 * EST_OUT_OF_RANGE from it ends the loop as the end of the input does. `user` is borrowed until the hook is freed. */
typedef est_status (*est_feed_fn)(void *user, est_tensor **values);
EST_API EST_MUST_CHECK est_hook *est_feed_fn_hook(est_nodes nodes, est_feed_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
