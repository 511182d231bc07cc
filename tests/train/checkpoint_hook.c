/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoint saver: when it saves, what listeners are told in which order, the log, extras, and a SIGTERM that
 * loses no step. */
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/signals.h"
#include "support/fault_loop.h"
#include "support/memory_remote.h"
#include "train/events_test.h"
#include "train/loop_test.h"

/* --- a listener that writes down its calls ------------------------------------------------------------------------ */

typedef struct listener {
    est_saving_listener listener;
    const char         *name;
    int                 stop_at, saves;
    est_status          before_failure;
} listener;

static est_status listener_begin(est_saving_listener *l)
{
    note("%s.begin ", EST_CONTAINER_OF(l, listener, listener)->name);
    return EST_OK;
}

static est_status listener_before(est_saving_listener *l, est_session *session, int64_t step)
{
    listener *own = EST_CONTAINER_OF(l, listener, listener);

    assert_non_null(session);
    note("%s.before(%d) ", own->name, (int)step);
    return own->before_failure != EST_OK ? est_fail(own->before_failure, "%s fails", own->name) : EST_OK;
}

static est_status listener_after(est_saving_listener *l, est_session *session, int64_t step, bool *stop)
{
    listener *own = EST_CONTAINER_OF(l, listener, listener);

    assert_non_null(session);
    note("%s.after(%d) ", own->name, (int)step);
    *stop = ++own->saves == own->stop_at;
    return EST_OK;
}

static est_status listener_end(est_saving_listener *l, est_session *session, int64_t step)
{
    assert_non_null(session);
    note("%s.end(%d) ", EST_CONTAINER_OF(l, listener, listener)->name, (int)step);
    return EST_OK;
}

static listener make_listener(const char *name)
{
    return (listener){ .name     = name,
                       .listener = EST_SAVING_LISTENER(.begin = listener_begin, .before_save = listener_before,
                                                       .after_save = listener_after, .end = listener_end) };
}

/* --- trainings ---------------------------------------------------------------------------------------------------- */

static est_saver *make_saver(const char *dir)
{
    est_saver *saver;

    assert_ok(est_saver_create(dir, EST_SAVER(.keep_max = EST_OFF), &saver));
    return saver;
}

static est_hook *make_hook(const est_checkpoint_saver_options *options)
{
    est_hook *hook = est_checkpoint_saver_hook(NULL, options);

    assert_non_null(hook);
    return hook;
}

/* The steps that have a checkpoint, up to 99. */
static const char *saved_steps(const char *dir)
{
    static char text[256];
    char        name[512];

    text[0] = '\0';
    for (int step = 0; step < 100; step++) {
        snprintf(name, sizeof name, "%s/model.ckpt-%d.index", dir, step);
        if (est_file_exists(name)) snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", step);
    }
    return text;
}

TEST(steps, .setup_func = keep_log)
{
    trainer   t;
    listener  a = make_listener("a"), b = make_listener("b");
    est_hook *hook;

    make_trainer(&t, 14, 1);
    t.saver = make_saver(at("steps"));
    hook    = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 3,
                                             .listeners = EST_SAVING_LISTENERS(&a.listener, &b.listener)));
    log_expect("Create CheckpointSaverHook.");
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_string_equal(saved_steps(at("steps")), "0 3 6 7 ");
    expect_happened("a.begin b.begin init a.before(0) b.before(0) a.after(0) b.after(0) "
                    "a.before(3) b.before(3) a.after(3) b.after(3) "
                    "a.before(6) b.before(6) a.after(6) b.after(6) "
                    "a.before(7) b.before(7) a.after(7) b.after(7) a.end(7) b.end(7) ");
    est_hook_free(hook);

    /* A restart saves again at once, and an end at a saved step does not. */
    hook = make_hook(
        EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 7, .listeners = EST_SAVING_LISTENERS(&a.listener)));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_string_equal(saved_steps(at("steps")), "0 3 6 7 14 ");
    expect_happened("a.begin init a.before(7) a.after(7) a.before(14) a.after(14) a.end(14) ");
    est_hook_free(hook);
    est_saver_free(t.saver);
    trainer_free(&t);
}

static est_manual_clock clock_at;

static void pass_a_second(recorder *own, est_loop *loop)
{
    (void)own;
    (void)loop;
    est_manual_clock_advance(&clock_at, EST_NS_PER_SEC);
}

TEST(secs, .setup_func = keep_log)
{
    trainer   t;
    est_hook *hook;
    recorder  r = make_recorder("r");

    est_manual_clock_init(&clock_at, 0, INT64_C(1700000000) * EST_NS_PER_SEC);
    est_clock_set(&clock_at.clock);
    make_trainer(&t, 20, 1);
    t.saver     = make_saver(at("secs"));
    r.in_before = pass_a_second;
    hook        = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .secs = 4));
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &r.hook)));
    assert_string_equal(saved_steps(at("secs")), "0 4 8 10 ");
    est_hook_free(hook);
    est_saver_free(t.saver);
    est_clock_set(NULL);
    trainer_free(&t);
}

TEST(log_and_events, .setup_func = keep_log)
{
    trainer             t;
    est_hook           *hook;
    est_summary_writer *writer;
    char                path[PATH_MAX], want[4096];
    const char         *events;

    make_trainer(&t, 2, 1);
    t.saver = make_saver(at("log"));
    assert_ok(est_summary_writer_create(at("log"), "", &writer));
    hook             = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 10));
    t.spec.summaries = writer;
    log_clear();
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    snprintf(want, sizeof want,
             "Calling checkpoint listeners before saving checkpoint 0...\n"
             "Saving checkpoints for 0 into %s/model.ckpt.\n"
             "Calling checkpoint listeners after saving checkpoint 0...\n"
             "Calling checkpoint listeners before saving checkpoint 1...\n"
             "Saving checkpoints for 1 into %s/model.ckpt.\n"
             "Calling checkpoint listeners after saving checkpoint 1...\n",
             at("log"), at("log"));
    assert_string_equal(lines_of(false), want);
    assert_true(est_file_exists(at("log/model.ckpt-1.meta")));
    assert_true(est_file_exists(at("log/graph.pbtxt")));
    snprintf(path, sizeof path, "%s", est_summary_writer_path(writer));
    est_hook_free(hook);
    est_summary_writer_free(writer);
    events = events_of(path);
    assert_memory_equal(events, "0: session 1 ; 0: kind 4 ", strlen("0: session 1 ; 0: kind 4 ")); /* then the graph */
    snprintf(want, sizeof want, "; 0: session 3 %s/model.ckpt-0; 1: session 3 %s/model.ckpt-1", at("log"), at("log"));
    assert_true(strlen(events) > strlen(want));
    assert_string_equal(events + strlen(events) - strlen(want), want);
    est_saver_free(t.saver);
    trainer_free(&t);
}

/* A file that describes the graph is for people: where it cannot be written, which is logged, training goes on. */
TEST(no_graph_file, .setup_func = keep_log)
{
    trainer   t;
    char      latest[EST_CHECKPOINT_PATH_MAX];
    est_hook *hook;

    make_trainer(&t, 2, 1);
    t.saver = make_saver(at("blocked"));
    assert_ok(est_dir_create(at("blocked/graph.pbtxt"))); /* no file can take its name */
    hook = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 10));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    log_expect("blocked/graph.pbtxt could not be written (cannot rename a temporary file to");
    assert_ok(est_checkpoint_latest(at("blocked"), latest));
    assert_string_equal(latest, at("blocked/model.ckpt-1"));
    est_hook_free(hook);
    est_saver_free(t.saver);
    trainer_free(&t);
}

/* A directory and a name in place of a saver; the graph is left out. */
TEST(directory, .setup_func = keep_log)
{
    trainer   t;
    char      latest[EST_CHECKPOINT_PATH_MAX];
    est_hook *hook = est_checkpoint_saver_hook(
        at("named"), EST_CHECKPOINT_SAVER(.steps = 1, .basename = "best", .no_graph_def = true));

    assert_true(est_is_checkpoint_saver(hook));
    assert_false(est_is_checkpoint_saver(NULL));
    assert_false(est_file_exists(at("named"))); /* not before a loop begins */
    make_trainer(&t, 20, 1);
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_ok(est_checkpoint_latest(at("named"), latest));
    assert_string_equal(latest, at("named/best-10"));
    assert_true(est_file_exists(at("named/best-6.index"))); /* the latest 5 */
    assert_false(est_file_exists(at("named/best-5.index")));
    assert_false(est_file_exists(at("named/best-10.meta")));
    assert_false(est_file_exists(at("named/graph.pbtxt")));

    /* Another saver works there between two loops of this one. */
    t.saver = make_saver(at("named"));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_ok(est_checkpoint_latest(at("named"), latest));
    assert_string_equal(latest, at("named/best-20"));
    est_saver_free(t.saver);
    est_hook_free(hook);
    trainer_free(&t);
}

static void refused(est_hook *hook, const char *text)
{
    assert_null(hook);
    if (strstr(est_error_message(), text) == NULL) fail_msg("'%s' does not say '%s'", est_error_message(), text);
}

TEST(refused, .setup_func = keep_log)
{
    est_saver *saver = make_saver(at("refused"));
    listener   a     = make_listener("a");

    refused(est_checkpoint_saver_hook(at("refused"), NULL), "a period of 0 steps and of 0 seconds; set exactly one");
    refused(est_checkpoint_saver_hook(at("refused"), EST_CHECKPOINT_SAVER(.steps = 1, .secs = 1)), "exactly one");
    refused(est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = 1)), "no directory");
    refused(est_checkpoint_saver_hook(at("refused"), EST_CHECKPOINT_SAVER(.steps = 1, .saver = saver)), "a saver and");
    refused(est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = 1, .saver = saver, .basename = "x")),
            "a saver and");
    refused(est_checkpoint_saver_hook(NULL, EST_CHECKPOINT_SAVER(.steps = 1, .saver = saver,
                                                                 .listeners = EST_SAVING_LISTENERS(&a.listener, NULL))),
            "saving listener 1 is NULL");
    est_saver_free(saver);
}

static est_status set_w(est_hook *hook, est_loop *loop)
{
    est_tensor *value;
    est_status  status;

    (void)hook;
    note("initialize ");
    EST_TRY(est_tensor_create(EST_F32, EST_SHAPE_SCALAR, &value));
    ((float *)est_tensor_mutable_data(value))[0] = 7;
    status                                       = est_session_write(est_loop_session(loop), "w", value);
    est_tensor_free(value);
    return status;
}

/* What a hook does in initialize is in the checkpoint of step 0, though the hook comes last. */
TEST(initialized, .setup_func = keep_log)
{
    trainer   t;
    listener  a     = make_listener("a");
    est_hook  first = EST_HOOK(.initialize = set_w);
    est_hook *hook  = est_checkpoint_saver_hook(
         at("initialized"), EST_CHECKPOINT_SAVER(.steps = 10, .listeners = EST_SAVING_LISTENERS(&a.listener)));
    est_tensor     *value;
    est_checkpoint *checkpoint;

    make_trainer(&t, 2, 1);
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &first)));
    expect_happened("a.begin init initialize a.before(0) a.after(0) a.before(1) a.after(1) a.end(1) ");
    assert_ok(est_checkpoint_open(at("initialized/model.ckpt-0"), &checkpoint));
    assert_ok(est_checkpoint_read(checkpoint, "w", &value));
    assert_true(((const float *)est_tensor_data(value))[0] == 7);
    est_tensor_free(value);
    est_checkpoint_close(checkpoint);
    est_hook_free(hook);
    trainer_free(&t);
}

/* Lent listeners are told after the hook's own, none twice, until they are taken back. */
TEST(lent, .setup_func = keep_log)
{
    trainer   t;
    listener  a = make_listener("a"), b = make_listener("b");
    est_hook *hook = est_checkpoint_saver_hook(
        at("lent"), EST_CHECKPOINT_SAVER(.steps = 10, .listeners = EST_SAVING_LISTENERS(&a.listener)));

    make_trainer(&t, 2, 1);
    est_checkpoint_saver_lend(hook, EST_SAVING_LISTENERS(&a.listener, &b.listener));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    expect_happened("a.begin b.begin init a.before(0) b.before(0) a.after(0) b.after(0) "
                    "a.before(1) b.before(1) a.after(1) b.after(1) a.end(1) b.end(1) ");
    est_checkpoint_saver_lend(hook, (est_saving_listeners){ 0 });
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    expect_happened("a.begin init a.before(0) a.after(0) a.before(1) a.after(1) a.end(1) ");
    est_hook_free(hook);
    trainer_free(&t);
}

/* A step that made the loss NaN has spoiled the variables: what was saved before stays the latest, also at the end. */
TEST(nan, .setup_func = keep_log)
{
    trainer   t;
    listener  a    = make_listener("a");
    est_hook *hook = est_checkpoint_saver_hook(
        at("nan"), EST_CHECKPOINT_SAVER(.steps = 1, .listeners = EST_SAVING_LISTENERS(&a.listener)));
    est_hook *nan = est_nan_hook(false);

    make_trainer(&t, 4, 1);
    t.spec.loss = est_div(est_scalar(t.graph, EST_F32, 0), est_scalar(t.graph, EST_F32, 0));
    assert_ok(run_hooks(&t, EST_HOOKS(hook, nan)));
    assert_string_equal(saved_steps(at("nan")), "0 ");
    expect_happened("a.begin init a.before(0) a.after(0) a.end(0) ");

    t.spec.loss = EST_NO_NODE; /* none is not NaN */
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_string_equal(saved_steps(at("nan")), "0 1 2 ");
    est_hook_free(nan);
    est_hook_free(hook);
    trainer_free(&t);
}

TEST(listener_stops, .setup_func = keep_log)
{
    trainer   t;
    listener  a = make_listener("a");
    est_hook *hook;

    make_trainer(&t, 4, EST_FOREVER);
    t.saver   = make_saver(at("stops"));
    a.stop_at = 2;
    hook      = make_hook(
             EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 3, .listeners = EST_SAVING_LISTENERS(&a.listener)));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_string_equal(saved_steps(at("stops")), "0 3 ");
    log_expect("A CheckpointSaverListener requested that training be stopped. listener: 0");
    expect_happened("a.begin init a.before(0) a.after(0) a.before(3) a.after(3) a.end(3) ");

    a.before_failure = EST_INTERNAL;
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_INTERNAL, "a fails");
    expect_happened("a.begin init a.before(3) ");
    est_hook_free(hook);
    est_saver_free(t.saver);
    trainer_free(&t);
}

/* --- extras ------------------------------------------------------------------------------------------------------- */

static int extras_failures;

static est_status add_position(void *user, est_loop *loop, est_extra *extras, int n_max, int *n)
{
    est_tensor *position;

    assert_non_null(((trainer *)user)->graph);
    assert_true(n_max >= 1);
    if (extras_failures > 0) return est_fail(EST_UNIMPLEMENTED, "no position");
    EST_TRY(est_iterator_save(est_loop_input(loop), &position));
    extras[0] = (est_extra){ "input/position", position };
    *n        = 1;
    return EST_OK;
}

TEST(extras, .setup_func = keep_log)
{
    trainer       t;
    est_tensor   *position = NULL;
    est_iterator *rows;
    est_field     batch[2] = { { 0 } };
    est_hook     *hook;
    est_session  *session;

    make_trainer(&t, 8, 1);
    t.spec.extras = add_position;
    hook          = est_checkpoint_saver_hook(at("extras"), EST_CHECKPOINT_SAVER(.steps = 1));
    assert_ok(run_hooks(&t, EST_HOOKS(hook)));
    assert_ok(est_session_create(t.graph, NULL, &session));
    assert_ok(est_saver_restore(
        NULL, session,
        EST_RESTORE(.path = at("extras/model.ckpt-2"), .extras = EST_EXTRAS_OUT({ "input/position", &position })),
        NULL));
    assert_ok(est_iterator_create(t.input, &rows));
    assert_ok(est_iterator_restore(rows, position));
    assert_ok(est_iterator_next(rows, batch));
    assert_true(nn_element(batch[0].values, 0) == 5); /* after the rows of two batches */
    est_element_clear(batch, 2);
    est_iterator_free(rows);
    est_tensor_free(position);
    est_session_free(session);
    extras_failures = 1;
    expect_error(run_hooks(&t, EST_HOOKS(hook)), EST_UNIMPLEMENTED, "no position");
    extras_failures = 0;
    est_hook_free(hook);
    trainer_free(&t);
}

/* --- going back --------------------------------------------------------------------------------------------------- */

static void note_step(recorder *own, est_loop *loop)
{
    (void)own;
    note("%d ", (int)est_loop_global_step(loop));
}

/* A new session goes back to the last checkpoint: steps since then are made again. */
TEST(recovery, .setup_func = keep_log)
{
    trainer   t;
    est_hook *hook;
    recorder  r = make_recorder("");

    make_trainer(&t, 2, 8);
    t.saver           = make_saver(at("recovery"));
    hook              = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 3));
    r.hook.begin      = NULL;
    r.hook.end        = NULL;
    r.hook.before_run = NULL;
    r.in_after        = note_step;
    r.failure         = EST_ABORTED;
    r.fail_after      = 5;
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &r.hook)));
    expect_happened(
        "init .session .after 1 .after 2 .after 3 .after 4 .after 5 init .session .after 4 .after 5 .after 6 "
        ".after 7 ");
    assert_string_equal(saved_steps(at("recovery")), "0 3 6 7 ");
    est_hook_free(hook);
    est_saver_free(t.saver);
    trainer_free(&t);
}

/* --- event files -------------------------------------------------------------------------------------------------- */

typedef struct reader {
    est_saving_listener base;
    est_summary_writer *writer;
    char at_save[512], at_next_run[512]; /* the events in the file when step 2 was saved; in the next run */
} reader;

static reader events_seen;

static est_status read_at_save(est_saving_listener *base, est_session *session, int64_t step, bool *stop)
{
    reader *own = EST_CONTAINER_OF(base, reader, base);

    (void)session;
    (void)stop;
    if (step == 2) snprintf(own->at_save, sizeof own->at_save, "%s", events_of(est_summary_writer_path(own->writer)));
    return EST_OK;
}

static void read_in_next_run(recorder *own, est_loop *loop)
{
    (void)own;
    if (est_loop_global_step(loop) != 2) return;
    snprintf(events_seen.at_next_run, sizeof events_seen.at_next_run, "%s",
             events_of(est_summary_writer_path(events_seen.writer)));
}

static void write_step(recorder *own, est_loop *loop)
{
    est_loop_summary(loop, own->name, (double)est_loop_global_step(loop));
}

/* What a killed process leaves: the summaries up to a checkpoint are in the file when it is there, and those of its own
 * step before the next. */
TEST(summaries_are_not_behind, .setup_func = keep_log)
{
    trainer          t;
    recorder         early = make_recorder("early"), late = make_recorder("late");
    est_manual_clock clock;
    est_hook        *hook;

    est_manual_clock_init(&clock, 0, EST_NS_PER_SEC); /* no flush comes by time */
    est_clock_set(&clock.clock);
    make_trainer(&t, 2, 4);
    events_seen = (reader){ .base = EST_SAVING_LISTENER(.after_save = read_at_save) };
    assert_ok(est_summary_writer_create(at("curves"), "", &events_seen.writer));
    t.spec.summaries = events_seen.writer;
    early.in_after = late.in_after = write_step;
    late.in_before                 = read_in_next_run;

    hook = est_checkpoint_saver_hook(
        at("curves"), EST_CHECKPOINT_SAVER(.steps = 2, .listeners = EST_SAVING_LISTENERS(&events_seen.base)));
    assert_non_null(hook);
    assert_ok(run_hooks(&t, EST_HOOKS(&early.hook, hook, &late.hook)));
    assert_non_null(strstr(events_seen.at_save, "; 1: early=1; 1: late=1; 2: early=2"));
    assert_non_null(strstr(events_seen.at_next_run, "; 2: late=2"));
    est_hook_free(hook);
    est_summary_writer_free(events_seen.writer);
    est_clock_set(NULL);
    trainer_free(&t);
}

/* --- SIGTERM ------------------------------------------------------------------------------------------------------ */

static int started;

static void say_started(recorder *own, est_loop *loop)
{
    (void)loop;
    if (own->calls == 5 && write(started, "x", 1) != 1) _exit(9);
}

/* What a child says when it has ended in good order: its step, read from its last checkpoint by the parent. */
static int train_until_told(const char *dir)
{
    trainer    t;
    recorder   r = make_recorder("r");
    est_hook  *hook;
    est_loop  *loop;
    est_status status;

    make_trainer(&t, 4, EST_FOREVER);
    r.in_after = say_started;
    t.saver    = make_saver(dir);
    hook       = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .secs = 1e6));
    est_signals_catch();
    t.spec.hooks = EST_HOOKS(hook, &r.hook);
    status       = est_loop_open(&t.spec, &loop);
    if (status == EST_OK) status = est_loop_run(loop);
    if (status != EST_OK || strcmp(est_loop_stop_reason(loop), "SIGTERM") != 0) return 1;
    if (est_loop_global_step(loop) < 5 || est_loop_runs(loop) != est_loop_global_step(loop)) return 2;
    est_signals_release(EST_CANCELLED);
    est_loop_free(loop);
    est_hook_free(hook);
    est_saver_free(t.saver);
    trainer_free(&t);
    return 0;
}

TEST(sigterm, .setup_func = keep_log)
{
    int             ready[2], status;
    char            byte, latest[EST_CHECKPOINT_PATH_MAX];
    pid_t           child;
    est_checkpoint *checkpoint;
    est_tensor     *step;

    assert_int_equal(pipe(ready), 0);
    started = ready[1];
    child   = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(train_until_told(at("sigterm")));
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_ok(est_checkpoint_latest(at("sigterm"), latest));
    assert_ok(est_checkpoint_open(latest, &checkpoint));
    assert_ok(est_checkpoint_read(checkpoint, "global_step", &step));
    assert_true(nn_element(step, 0) >= 5);
    assert_int_equal(nn_element(step, 0), strtol(strrchr(latest, '-') + 1, NULL, 10));
    est_tensor_free(step);
    est_checkpoint_close(checkpoint);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_status save_some(void)
{
    trainer    t;
    listener   a      = make_listener("a");
    est_hook  *hook   = NULL;
    est_status status = trainer_try(&t, 2, 1);

    t.spec.extras = add_position;
    if (status == EST_OK) {
        hook = est_checkpoint_saver_hook(
            at("memory"),
            EST_CHECKPOINT_SAVER(.steps = 1, .basename = "m", .listeners = EST_SAVING_LISTENERS(&a.listener)));
        status = hook != NULL ? run_hooks(&t, EST_HOOKS(hook)) : EST_RESOURCE_EXHAUSTED;
    }
    est_hook_free(hook);
    trainer_free(&t);
    happened[0] = '\0';
    return status;
}

/* Other trainers: they make steps after our last one. */
static est_status make_steps_of_others(est_hook *hook, est_loop *loop)
{
    est_tensor *step   = NULL;
    est_status  status = EST_OK;

    (void)hook;
    if (est_loop_runs(loop) < 6) return EST_OK;
    assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 8 }, &step));
    status = est_session_write(est_loop_session(loop), "global_step", step);
    est_tensor_free(step);
    return status;
}

/* The last checkpoint has the steps that others made, and is called after them. */
TEST(others, .setup_func = keep_log)
{
    est_hook    others = EST_HOOK(.after_run = make_steps_of_others);
    est_remote *remote = memory_remote_create(2);
    trainer     t;
    est_hook   *hook;

    make_trainer(&t, 12, 1);
    t.saver               = make_saver(at("others"));
    t.spec.session.remote = remote;
    t.spec.strategy       = (est_loop_strategy){ .shared = true };
    hook                  = make_hook(EST_CHECKPOINT_SAVER(.saver = t.saver, .steps = 3));
    assert_ok(run_hooks(&t, EST_HOOKS(hook, &others)));
    assert_string_equal(saved_steps(at("others")), "0 3 6 8 ");
    est_hook_free(hook);
    est_saver_free(t.saver);
    trainer_free(&t);
    memory_remote_free(remote);
}

TEST(memory, .setup_func = keep_log)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = save_some();
        fault_check_lenient(&f, status);
    }
    assert_ok(save_some());
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
