/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether early stopping can stop a run. Evaluations come after checkpoints; the checkpoint at the start is not
 * evaluated by a process that also trains, and the one at the end comes too late. Checkpoints by time cannot be
 * predicted: an interval as long as the defaults gets a warning, since many runs are shorter. */
#include "estimator/stop_check.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "train/eval_results.h"
#include "train/saver.h"

#define LONG_SECS 600 /* default of save_checkpoints_secs and throttle_secs */

/* The schedule of evaluations. */
typedef struct schedule {
    int64_t          start, end; /* global steps; end 0: unknown */
    int64_t          every;      /* steps between checkpoints; 0: by time */
    double           every_secs;
    double           throttle_secs;
    const char      *dir;     /* of the results that the rule reads */
    est_eval_results results; /* existing ones */
} schedule;

bool est_stop_reads_own(const est_estimator *estimator, const est_stop_rule *rule)
{
    size_t      size = strlen(estimator->model_dir);
    const char *rest;

    if (rule->eval_dir == NULL) return true;
    while (size > 0 && estimator->model_dir[size - 1] == '/') size--;
    if (strncmp(rule->eval_dir, estimator->model_dir, size) != 0) return false;
    rest = rule->eval_dir + size;
    if (rest[0] != '/') return false;
    rest += strspn(rest, "/");
    return strncmp(rest, "eval", 4) == 0 && (rest[4] == '\0' || rest[4] == '/' || rest[4] == '_');
}

bool est_any_stop_rule(est_hooks hooks)
{
    est_stop_rule rule;

    for (int i = 0; i < hooks.n; i++) {
        if (est_early_stopping_rule(hooks.data[i], &rule)) return true;
    }
    return false;
}

static void warn(const est_stop_rule *rule, const char *text)
{
    est_log_warn("early stopping by \"%s\" cannot stop this run: %s", rule->metric, text);
}

/* --- who evaluates ------------------------------------------------------------------------------------------------ */

static bool evaluates_in_memory(est_hooks hooks)
{
    for (int i = 0; i < hooks.n; i++) {
        if (est_is_in_memory_evaluator(hooks.data[i])) return true;
    }
    return false;
}

/* Whether two paths name one directory: they are equal apart from doubled and trailing slashes, or the same inode. */
static bool is_same_dir(const char *a, const char *b)
{
    struct stat infos[2];

    if (stat(a, &infos[0]) == 0 && stat(b, &infos[1]) == 0) {
        return infos[0].st_dev == infos[1].st_dev && infos[0].st_ino == infos[1].st_ino;
    }
    while (*a != '\0' && *a == *b) {
        size_t skip[2] = { *a == '/' ? strspn(a, "/") : 1, *b == '/' ? strspn(b, "/") : 1 };

        a += skip[0];
        b += skip[1];
    }
    return a[strspn(a, "/")] == '\0' && b[strspn(b, "/")] == '\0';
}

/* Whether no process evaluates before the end, or results go elsewhere; logs a warning then. */
static bool nobody_evaluates(const est_training *t, const schedule *s, const est_stop_rule *rule)
{
    const char *name = t->call.eval != NULL && t->call.eval->name != NULL ? t->call.eval->name : "";
    est_strbuf  text = { 0 }, own = { 0 };
    bool        nobody = true;

    est_strbuf_printf(&own, "%s/eval%s%s", t->estimator->model_dir, name[0] != '\0' ? "_" : "", name);
    if (t->call.eval == NULL) {
        est_strbuf_printf(
            &text,
            "est_train does not evaluate, and %s has no evaluation results yet; use est_train_and_evaluate "
            "or est_in_memory_evaluator_hook, or evaluate in another process",
            s->dir);
    } else if (!is_same_dir(est_strbuf_text(&own), s->dir)) {
        est_strbuf_printf(&text, "it reads results from %s, but evaluations write to %s; set eval_dir to the latter",
                          s->dir, est_strbuf_text(&own));
    } else if (!est_evaluates_itself(t->estimator->self.task) && est_evaluates_across_workers(t->estimator)) {
        est_strbuf_append(&text, "the workers evaluate only after training; start an evaluator task "
                                 "(estoc launch --evaluator)");
    } else {
        nobody = false;
    }
    if (nobody && s->results.n == 0) warn(rule, est_strbuf_text(&text));
    est_strbuf_clear(&text);
    est_strbuf_clear(&own);
    return nobody;
}

/* --- how often ---------------------------------------------------------------------------------------------------- */

/* The first result that counts, existing or future; INT64_MAX: none by steps. */
static int64_t first_result(const schedule *s, const est_stop_rule *rule)
{
    int64_t step = s->start + s->every;

    for (int i = 0; i < s->results.n; i++) {
        if (s->results.data[i].step >= rule->min_steps) return s->results.data[i].step;
    }
    if (step < rule->min_steps) step += (rule->min_steps - step + s->every - 1) / s->every * s->every;
    return step;
}

/* With checkpoints by steps everything is known. Returns whether it warned. */
static bool check_steps(const schedule *s, const est_stop_rule *rule)
{
    int64_t    last  = s->start + (s->end - s->start - 1) / s->every * s->every; /* evaluated before the end */
    int64_t    first = first_result(s, rule);
    est_strbuf text  = { 0 };
    bool       warned;

    if (last == s->start && s->results.n == 0) {
        est_strbuf_printf(&text,
                          "it ends at step %" PRId64 ", and checkpoints, which are evaluated, are saved every %" PRId64
                          " steps; set save_checkpoints_steps below %" PRId64,
                          s->end, s->every, s->end - s->start);
    } else if (rule->run_every_steps >= s->end - s->start) {
        est_strbuf_printf(&text,
                          "it checks results every %" PRId64 " steps, and %" PRId64
                          " are made; set run_every_steps below that",
                          rule->run_every_steps, s->end - s->start);
    } else if (first > last) {
        est_strbuf_printf(&text,
                          "its last evaluation before the end is of step %" PRId64
                          ", and results count from min_steps %" PRId64 "; set a smaller min_steps",
                          last, rule->min_steps);
    } else if (last - first < rule->patience) {
        est_strbuf_printf(&text,
                          "it waits %" PRId64
                          " steps for a better value, and evaluations before the end are of steps %" PRId64
                          " to %" PRId64 "; make that fewer steps, or max_steps or the number of checkpoints larger",
                          rule->patience, first, last);
    }
    warned = text.size > 0;
    if (warned) warn(rule, est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return warned;
}

/* By time it depends on the length of the run. The first checkpoint by steps is evaluated at once. */
static void check_secs(const schedule *s, const est_stop_rule *rule)
{
    bool        by_checkpoint = s->every == 0 && s->every_secs >= LONG_SECS;
    bool        by_throttle   = s->throttle_secs >= LONG_SECS && (s->every == 0 || rule->patience > 0);
    const char *key           = by_checkpoint ? "save_checkpoints_secs" : "throttle_secs";

    if (!by_checkpoint && !by_throttle) return;
    est_log_warn("early stopping by \"%s\" reads evaluations, which take place every %g s (%s): a shorter run is not "
                 "stopped; set %s%s%s",
                 rule->metric, by_checkpoint ? s->every_secs : s->throttle_secs, key,
                 by_checkpoint ? "save_checkpoints_steps" : "", by_checkpoint && by_throttle ? " and " : "",
                 by_throttle ? "a smaller throttle_secs" : "");
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* The schedule of checkpoints: that of a saver among the hooks, else that of the configuration. */
static void fill_saves(const est_training *t, schedule *s)
{
    const est_run_config *config = &t->estimator->config;

    s->every      = config->save_checkpoints_steps > 0 ? config->save_checkpoints_steps : 0;
    s->every_secs = config->save_checkpoints_secs > 0 ? config->save_checkpoints_secs : 0;
    for (int i = 0; i < t->options->hooks.n; i++) {
        const est_timer *timer;

        if (!est_is_checkpoint_saver(t->options->hooks.data[i])) continue;
        timer         = est_checkpoint_saver_timer(t->options->hooks.data[i]);
        s->every      = timer->every_steps;
        s->every_secs = timer->every_secs;
        return;
    }
}

static est_status check_rule(const est_training *t, schedule *s, const est_stop_rule *rule)
{
    est_strbuf dir = { 0 };
    est_status status;

    if (rule->eval_dir != NULL) {
        est_strbuf_append(&dir, rule->eval_dir);
    } else {
        est_strbuf_printf(&dir, "%s/eval", t->estimator->model_dir);
    }
    status = est_strbuf_status(&dir);
    s->dir = est_strbuf_text(&dir);
    if (status == EST_OK) status = est_eval_results_read(&s->results, s->dir);
    if (status == EST_OK && !nobody_evaluates(t, s, rule)) {
        if (s->end == 0 || s->every == 0 || !check_steps(s, rule)) check_secs(s, rule);
    }
    est_eval_results_clear(&s->results);
    est_strbuf_clear(&dir);
    return status;
}

est_status est_stop_check(const est_training *t)
{
    schedule s = { .end           = t->options->max_steps,
                   .throttle_secs = t->call.eval != NULL ? est_throttle_secs(t->call.eval) : 0 };

    if (evaluates_in_memory(t->options->hooks)) return EST_OK;
    EST_TRY(est_saved_step(t->estimator->model_dir, &s.start));
    if (s.start < 0) s.start = 0;
    fill_saves(t, &s);
    for (int i = 0; i < t->options->hooks.n; i++) {
        est_stop_rule rule;

        if (est_early_stopping_rule(t->options->hooks.data[i], &rule)) EST_TRY(check_rule(t, &s, &rule));
    }
    return EST_OK;
}
