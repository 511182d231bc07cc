/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop: pulls a batch, runs the step, calls the hooks; what training, evaluation and prediction share.
 *
 * A loop is described once (est_loop_spec) and then opened: hooks begin, the session is made, variables get their
 * values by the spec's `initialize`, hooks are told. After that it is run to its end or step by step. EST_ABORTED and
 * EST_UNAVAILABLE, of the step or of a hook, mean that something outside failed which may come back: the session is
 * made and initialised again and the same batch is run again: at once, then after 1, 2, 4, ... up to 30 seconds. The
 * loop gives up after a hundred sessions that could not be made, or eight that were and brought not one step more. A
 * strategy whose workers have variables of their own keeps the session and rejoins instead (est_loop_strategy).
 *
 * Threading: one thread at a time. A stop may be requested by a signal handler (est_stop_signal in base/signals.h). */
#ifndef EST_TRAIN_LOOP_H
#define EST_TRAIN_LOOP_H

#include "estoc/dataset.h"
#include "estoc/hooks.h"
#include "estoc/saver.h"
#include "runtime/communicator.h"
#include "runtime/plan.h"

/* Where a fed node gets its value from: a component of the input. */
typedef struct est_loop_feed {
    est_node          node;
    int               component;
    bool              splits;  /* those of a ragged component, not its values */
    bool              rows;    /* none of it: the number of rows of the batch, float32 [] */
    int               replica; /* of which of the step's batches */
    const est_tensor *value; /* in place of all that: the same in every run; borrowed until the loop goes; NULL: none */
} est_loop_feed;

/* The rows of a component in a batch; 0: of nothing, or of a scalar. */
int64_t est_field_rows(const est_field *field);

/* What the strategy of a training gives its loop (strategy/strategy.h). Zeroed: this process trains by itself. */
typedef struct est_loop_strategy {
    /* Other tasks have the variables: they count steps that this loop does not see, and a session may come and go. */
    bool shared;

    /* Once for every session: other tasks may use its variables (est_loop_declare). NULL: none waits for that. */
    est_status (*declare)(void *user);

    /* Before each step: waits until this process may make it. *finished: all steps are made. NULL: it may at once. */
    est_status (*turn)(void *user, bool *finished);

    /* After EST_ABORTED or EST_UNAVAILABLE: agrees with the other workers on variables and step, and says which step
     * it is, also when something fails after that. The session stays. *over: the job has ended. NULL: the loop makes
     * a new session. */
    est_status (*rejoin)(void *user, est_loop *loop, int64_t *global_step, bool *over);

    /* A rejoin ends est_loop_step: the caller has epochs, and looks where it is (est_loop_rejoined). */
    bool pauses;

    /* What a worker feeds in place of its input after that has ended: it takes part in the steps of the others until
     * all inputs have. Borrowed until the loop goes. idle_feeds NULL: the loop ends with its input. */
    const est_node          *idle_feeds;  /* [n_idle] */
    const est_tensor *const *idle_values; /* [n_idle] */
    int                      n_idle;
    void                    *user; /* handed to all */
} est_loop_strategy;

/* What computes the runs of a loop in place of steps of its session: predictions have a predictor
 * (predict/predictor.h). */
typedef struct est_loop_engine {
    /* Prepares runs that compute `fetches` from `feeds`; the lists are borrowed during the call. */
    est_status (*prepare)(est_session *session, est_nodes feeds, est_nodes fetches, void **out);
    /* One of them, recorded if `traced`; *out: the plan that has its results, in the order of the fetches. */
    est_status (*run)(void *prepared, const est_tensor *const *values, bool traced, est_plan **out);
    void (*free)(void *prepared); /* before its session goes */
} est_loop_engine;

typedef enum est_summary_what {
    EST_MODEL_SCALAR = 0,
    EST_MODEL_HISTOGRAM,
    EST_MODEL_TEXT,
    EST_MODEL_IMAGE
} est_summary_what;

/* One summary of a model. */
typedef struct est_model_summary {
    est_summary_what what;
    const char      *tag;
    est_node         node;
    int              max_images;
} est_model_summary;

typedef struct est_loop_spec {
    est_graph          *graph; /* borrowed until the loop goes; hooks may add to it in begin */
    const char         *model_dir;
    est_session_options session; /* zeroed: all defaults */

    /* A session of the caller's in place of one that the loop makes: it stays when the loop goes, and a failed run is
     * not made again with a new one. Borrowed until the loop goes. NULL: the loop makes one */
    est_session *lent;

    const est_dataset   *input; /* NULL: no input, nothing is fed, and the loop only ends by a stop */
    const est_loop_feed *feeds; /* [n_feeds]; copied */
    int                  n_feeds;
    int n_replicas; /* batches of a step; 0: 1. Where the input has fewer left, replicas get the first, and rows 0 */
    est_loop_strategy      strategy;
    const est_loop_engine *engine; /* of a loop without loss, step and targets; NULL: steps of the session */

    est_node  loss;        /* EST_NO_NODE: there is none */
    est_node  rate;        /* the variable of the learning rate, for callbacks; EST_NO_NODE: there is none */
    est_node  global_step; /* a value computed in every run: the step as it is after the run; EST_NO_NODE: stays put */
    est_nodes fetches;     /* computed in every run, numbers 0 .. n - 1 for est_loop_data; copied */
    est_nodes targets;     /* run in every run; copied */
    struct est_summary_writer *summaries; /* what est_loop_summary writes to, with a START for every session; borrowed
                                             until the loop goes; NULL: nothing is written */
    const est_model_summary   *shown;     /* [n_shown]: what summary savers write; borrowed until the loop goes */
    int                        n_shown;
    est_hooks                  hooks; /* in the order they are called; borrowed until the loop goes; copied list */
    int                        given,
        n_given; /* the first of them that the caller of the library gave, and how many: errors use his numbers */

    /* true: on a device that runs by itself a run that no hook wants a value of is not waited for (est_step_start).
     * What hooks ask for waits: the loss, variables. A run that has failed is reported up to four later, with its
     * number, and the loop is where it was then. */
    bool runs_ahead;

    /* Gives the variables of est_loop_session their values, and the input its position (est_loop_input), and says the
     * global step. Called for every session. What has no value after it, the state of metrics, gets its initial one. */
    est_status (*initialize)(void *user, est_loop *loop, int64_t *global_step);

    /* Fills `extras` with up to n_max named tensors that checkpoint savers save beside the variables, whose references
     * pass to the saver, and returns how many in *n. NULL: none. */
    est_status (*extras)(void *user, est_loop *loop, est_extra *extras, int n_max, int *n);

    /* Of a loop with epochs: puts what was measured so far into its logs (est_loop_set_log). NULL: nothing is. */
    est_status (*measure)(void *user, est_loop *loop);
    void *user; /* handed to all */
} est_loop_spec;

/* Whether a NaN of the loss of the last run ends the loop by itself, as its NaN hook says: nobody need look at it. */
bool est_loop_is_watched(const est_loop *loop);

/* Everything up to the first run. On failure nothing is left. */
EST_MUST_CHECK est_status est_loop_open(const est_loop_spec *spec, est_loop **out);

/* A run that the program describes itself, in place of the input, fetches and targets of the spec. Borrowed until the
 * loop goes: a loop knows it by its address. */
typedef struct est_loop_ask {
    est_nodes feeds, fetches, targets;
    est_node  global_step; /* as in est_loop_spec */
} est_loop_ask;

/* One run with the next batch. EST_OUT_OF_RANGE, without a message: the input ended, or a stop was requested. Since a
 * hook or a file may fail with that code as well, est_loop_at_end says whether it was the end. */
EST_MUST_CHECK est_status est_loop_step(est_loop *loop);
bool                      est_loop_at_end(const est_loop *loop);

/* With est_loop_strategy.pauses: est_loop_step has returned EST_OK without a run. The global step may be another. */
bool est_loop_rejoined(const est_loop *loop);

/* Requests a stop that stands: the other workers have ended the job. */
void est_loop_job_over(est_loop *loop);

/* Takes back a stop that a hook has requested, for a caller that asks the other workers first. false: there is none, or
 * it stands, since a signal has come or the job is over. */
bool est_loop_withdraw_stop(est_loop *loop);

/* One run of this kind, with values[ask->feeds.n], which stay until the next one: a hook may compute more with them.
 * New tensors, out[ask->fetches.n], are the caller's. EST_OUT_OF_RANGE as above. */
EST_MUST_CHECK est_status est_loop_step_as(est_loop *loop, const est_loop_ask *ask, const est_tensor *const *values,
                                           est_tensor **out);

/* Runs until the end or a stop, then lets the hooks end. */
EST_MUST_CHECK est_status est_loop_run(est_loop *loop);

/* Lets the hooks end, after est_loop_step said EST_OUT_OF_RANGE or the caller has enough. */
EST_MUST_CHECK est_status est_loop_end(est_loop *loop);

/* The same; *resumed: a task with variables was lost before they were saved, the loop has a new session and may go on,
 * from an earlier step perhaps. */
EST_MUST_CHECK est_status est_loop_end_or_resume(est_loop *loop, bool *resumed);

void est_loop_free(est_loop *loop); /* NULL is fine */

/* --- epochs (loop_epochs.c) --------------------------------------------------------------------------------------- */

/* Begins epoch `epoch` of `epochs`: forgets the logs and tells the hooks. The input is read from its beginning, in the
 * order that pass number `pass` has when the dataset is repeated; -1: it goes on. */
EST_MUST_CHECK est_status est_loop_begin_epoch(est_loop *loop, int64_t epoch, int64_t epochs, int64_t pass);

/* Of a loop whose steps others make: they have made n more, up to this global step. Tells after_run of the hooks, once
 * for all of them; the loss is that of the logs. */
EST_MUST_CHECK est_status est_loop_made(est_loop *loop, int64_t n, int64_t global_step);

/* Such a loop with a lent session: that is this one now. */
void est_loop_lend(est_loop *loop, est_session *session);

/* Measures, if runs were made since or the logs are outdated; and tells the hooks. */
void                      est_loop_outdate_logs(est_loop *loop);
EST_MUST_CHECK est_status est_loop_measure(est_loop *loop);
EST_MUST_CHECK est_status est_loop_end_epoch(est_loop *loop);

est_node      est_loop_rate(const est_loop *loop); /* of the spec */
est_iterator *est_loop_input(est_loop *loop);      /* NULL: none */

/* In initialize: restarts the input and forgets the batch that was under way, for a run that goes back to a
 * checkpoint. The iterator is new, so it can be put at a saved position. */
EST_MUST_CHECK est_status est_loop_reset_input(est_loop *loop);

/* In initialize: declares the variables of the session to other tasks, since a checkpoint has them. Otherwise the loop
 * does that when all hooks were told of the session, which is when savers have written the first checkpoint. */
EST_MUST_CHECK est_status est_loop_declare(est_loop *loop);

/* In before_run: the input ends here, without this run; for a hook that acts as an input. */
void est_loop_end_input(est_loop *loop);

/* The global step as the session's variable has it, which other tasks may have moved on. */
EST_MUST_CHECK est_status est_loop_read_step(est_loop *loop, int64_t *out);

/* In end: other tasks have counted steps, and this is the global step now. */
void est_loop_set_global_step(est_loop *loop, int64_t step);

const char *est_loop_stop_reason(const est_loop *loop); /* "" while no stop was requested */
bool        est_loop_input_ended(const est_loop *loop);

/* Whether a signal made it stop, with steps left to make: not when it had come to its end before the signal was
 * seen. */
bool est_loop_signalled(const est_loop *loop);

struct est_summary_writer *est_loop_summaries(est_loop *loop); /* NULL: none */
const est_loop_spec       *est_loop_get_spec(const est_loop *loop);

/* What random operations of the next run are drawn from: the session's run count after `initialize` and one more for
 * every run of the loop. What hooks run in between does not move it. */
uint64_t est_loop_run_count(const est_loop *loop);

/* Computes nodes outside of a run, with the last batch fed if there was one; new tensors, owned by the caller. */
EST_MUST_CHECK est_status est_loop_compute(est_loop *loop, est_nodes nodes, est_tensor **out);

/* In before_run: this run is traced. In its after_run: the plan that ran, with the trace; writes the trace as a Chrome
 * timeline. */
void                      est_loop_trace(est_loop *loop);
est_plan                 *est_loop_plan(est_loop *loop); /* NULL: nothing has run yet */
EST_MUST_CHECK est_status est_loop_write_timeline(est_loop *loop, const char *path,
                                                  const est_timeline_options *options);

/* What of the last batch is fed and not finite, as "feature or label income is nan in row 10 of the batch"; "":
 * nothing. Returns text. */
#define EST_LOOP_TEXT_MAX 256
const char *est_loop_not_finite(const est_loop *loop, char text[EST_LOOP_TEXT_MAX]);

/* Rows of the last batch, by its first fed component; 0 before the first run. */
int64_t est_loop_batch_rows(const est_loop *loop);

#endif
