/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameter_server strategy: ps tasks keep the variables; chief and workers push gradients, each by itself or
 * several together (sync_replicas).
 *
 * The chief gives variables their values and declares the job ready once a checkpoint has them; the others wait for
 * that. Variables outlive the tasks that train: a chief that was started again, or a ps task that was, restores only
 * those without a value. Before the last checkpoint the chief waits until no other task trains; after it, it ends the
 * job for all. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/signals.h"
#include "estoc/layers.h"
#include "graph/graph.h"
#include "strategy/run.h"
#include "tensor/shape.h"
#include "train/done_mark.h"

#define DELAY_EACH_SECS 5.0 /* between the starts of two workers */

typedef struct parameter_server {
    est_strategy                 strategy;
    est_parameter_server_options options; /* partitioner: NULL, or the copy below */
    est_partitioner              partitioner;
} parameter_server;

static const est_parameter_server_options *options_of(const est_strategy *strategy)
{
    return &((const parameter_server *)(const void *)strategy)->options; /* it begins with the strategy */
}

est_status est_strategy_remote(const est_strategy *strategy, est_server *server, const est_remote_options *options,
                               est_remote **out)
{
    const est_parameter_server_options *how;
    est_remote_options                  o;

    EST_REQUIRE(server);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_remote_options), options, &o));
    if (strategy != NULL && !strategy->ops->uses_ps) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_strategy_remote: the variables of the %s strategy are in the processes that train; use "
                        "est_parameter_server_strategy",
                        strategy->ops->name);
    }
    if (o.partitioner != NULL || o.round_robin || o.sync_replicas != 0 || o.max_staleness != 0 || o.consistent_saves) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "est_strategy_remote: partitioner, round_robin, sync_replicas, max_staleness and "
                        "consistent_saves are the strategy's; set them there");
    }
    how                = options_of(strategy != NULL ? strategy : est_default_parameter_server);
    o.partitioner      = how->partitioner;
    o.round_robin      = how->round_robin;
    o.sync_replicas    = how->sync_replicas;
    o.max_staleness    = how->max_staleness;
    o.consistent_saves = how->consistent_checkpoints;
    return est_remote_create(server, &o, out);
}

/* --- start -------------------------------------------------------------------------------------------------------- */

static bool is_over(void *user)
{
    return est_run_is_over(user);
}

/* A worker may come when all steps are made. A program that steps by itself makes its own est_remote. */
static est_status ps_start(est_run *run)
{
    const est_parameter_server_options *how = options_of(run->strategy);

    if (run->purpose != EST_RUN_TRAIN) return EST_OK;
    run->over = !run->self.is_chief && run->max_steps > 0 && est_done_mark_is_of(run->model_dir, run->max_steps, 0);
    if (run->over) return EST_OK;
    if (how->sync_replicas > run->self.size) {
        return est_fail(
            EST_INVALID_ARGUMENT,
            "parameter_server: sync_replicas is %d, but the cluster has %d tasks that train; set it to at most %d",
            how->sync_replicas, run->self.size, run->self.size);
    }
    EST_TRY(est_run_start_server(run));
    EST_TRY(est_strategy_remote(
        run->strategy, run->server,
        EST_REMOTE(.is_chief = run->self.is_chief, .connect_secs = run->connect_secs, .step_limit = run->max_steps),
        &run->remote));
    est_remote_set_over(run->remote, is_over, run);
    return EST_OK;
}

/* The terms of the program (cluster/terms.h): max_steps, the variables that are trained, and how. */
static est_status agree_on_terms(const est_run *run, const est_graph *graph)
{
    est_nodes  trained = est_trainable_variables(graph);
    est_strbuf terms   = { 0 };
    est_status status;

    est_run_add_max_steps(run, &terms);
    est_strbuf_append(&terms, est_graph_terms(graph));
    for (int i = 0; i < trained.n; i++) {
        const est_node_def *variable = est_def(trained.data[i]);
        char                text[EST_SHAPE_TEXT_MAX];

        est_strbuf_printf(&terms, "variable %s=%s %s\n", variable->name,
                          est_dtype_name(est_node_type(variable, "dtype")),
                          est_shape_text(&est_node_attr(variable, "shape")->shape, text));
    }
    status = est_strbuf_status(&terms);
    if (status == EST_OK) status = est_remote_set_terms(run->remote, est_strbuf_text(&terms));
    est_strbuf_clear(&terms);
    return status;
}

/* Workers begin one after the other, as TensorFlow's do: waits for a time that grows with the task's index, or until
 * the job ends. */
static est_status await_delay(const est_run *run)
{
    double  secs = DELAY_EACH_SECS * (run->self.task->index + 1);
    int64_t until;

    if (run->self.is_chief || run->delay_secs <= 0) return EST_OK;
    if (secs > run->delay_secs) secs = run->delay_secs;
    est_log_info("Waiting %g secs before starting training.", secs);
    until = est_now_ns() + est_secs_to_ns(secs);
    while (est_now_ns() < until && !est_run_is_over(run)) {
        double left = (double)(until - est_now_ns()) / (double)EST_NS_PER_SEC;

        if (est_signals_wait(left < 0.5 ? left : 0.5)) {
            return est_fail(EST_CANCELLED, "%s before training began", est_stop_signal_name());
        }
    }
    return EST_OK;
}

static est_status declare(void *user)
{
    est_run *run = user;

    return est_remote_declare_ready(run->remote);
}

static est_status ps_prepare(est_run *run, est_loop_spec *spec)
{
    if (run->self.is_chief) spec->strategy.declare = declare;
    EST_TRY(agree_on_terms(run, spec->graph));
    return await_delay(run);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static est_status ps_join(est_run *run, est_loop *loop)
{
    return run->self.is_chief ? est_recovery_join(loop, run->remote, run->owner->restore, run->user) : EST_OK;
}

/* Tasks take turns, so that all together make no step too many. */
static est_status ps_turn(est_run *run, bool *finished)
{
    return run->remote->ops->turn(run->remote, finished);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static est_status ps_settle(est_run *run, est_loop *loop)
{
    return run->self.is_chief ? est_recovery_settle(loop, run->remote, run->max_steps, &run->unfinished) : EST_OK;
}

static est_status ps_end(est_run *run)
{
    return run->self.is_chief && run->remote != NULL ? est_remote_end_job(run->remote) : EST_OK;
}

static est_status ps_serve(est_run *run)
{
    EST_TRY(est_run_start_server(run));
    est_server_set_over(run->server, is_over, run);
    EST_TRY(est_server_set_root(run->server, run->model_dir));
    return est_server_join(run->server);
}

/* --- the strategy ------------------------------------------------------------------------------------------------- */

static void ps_text(const est_strategy *strategy, est_strbuf *out)
{
    const est_parameter_server_options *o = options_of(strategy);

    est_strbuf_printf(out,
                      ", \"sync_replicas\": %d, \"max_staleness\": %" PRId64
                      ", \"consistent_checkpoints\": %s, \"round_robin\": %s, \"partitioner\": ",
                      o->sync_replicas, o->max_staleness, o->consistent_checkpoints ? "true" : "false",
                      o->round_robin ? "true" : "false");
    if (o->partitioner == NULL) {
        est_strbuf_append(out, "null");
    } else {
        est_strbuf_printf(out, "{\"bytes\": %" PRId64 ", \"n\": %d}", o->partitioner->bytes, o->partitioner->n);
    }
}

const est_strategy_ops est_parameter_server_ops = {
    .name    = "parameter_server",
    .about   = "ps tasks keep the variables, workers push gradients",
    .uses_ps = true,
    .text    = ps_text,
    .start   = ps_start,
    .prepare = ps_prepare,
    .join    = ps_join,
    .turn    = ps_turn,
    .settle  = ps_settle,
    .end     = ps_end,
    .serve   = ps_serve,
};

static const parameter_server by_default = { .strategy = {
                                                 .ops  = &est_parameter_server_ops,
                                                 .self = { .size = 1, .replicas = 1, .is_chief = true },
                                             } };

const est_strategy *const est_default_parameter_server = &by_default.strategy;

static est_status check_options(const est_parameter_server_options *o)
{
    if (o->sync_replicas < 0 || o->max_staleness < 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "parameter_server: %s is %" PRId64 "; write a number above 0, or 0 for none",
                        o->sync_replicas < 0 ? "sync_replicas" : "max_staleness",
                        o->sync_replicas < 0 ? (int64_t)o->sync_replicas : o->max_staleness);
    }
    if (o->sync_replicas > 0 && o->max_staleness > 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "parameter_server: synchronous steps are never stale; leave out max_staleness "
                        "or sync_replicas");
    }
    return EST_OK;
}

/* Its replicas are one in this process, whatever the cluster: tasks push gradients by themselves. A program on its own
 * has no cluster: that of its RunConfig counts. */
static est_status find_cluster(parameter_server *s, const est_parameter_server_options *o)
{
    const est_task *task;

    EST_TRY(est_strategy_set_cluster(&s->strategy, o->resolver, o->cluster_json));
    task = est_strategy_task(&s->strategy);
    if (est_cluster_jobs(task->cluster) > 0 || strcmp(task->type, "evaluator") == 0) return EST_OK;
    est_resolver_free(s->strategy.resolver);
    s->strategy.resolver = NULL;
    return EST_OK;
}

est_status est_parameter_server_strategy(const est_parameter_server_options *options, est_strategy **out)
{
    est_parameter_server_options o;
    parameter_server            *s;
    est_status                   status;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_parameter_server_options), options, &o));
    EST_TRY(check_options(&o));
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    est_strategy_init(&s->strategy, &est_parameter_server_ops, 1);
    s->options              = o;
    s->options.resolver     = NULL;
    s->options.cluster_json = NULL;
    if (o.partitioner != NULL) {
        s->partitioner         = *o.partitioner;
        s->options.partitioner = &s->partitioner;
    }
    status = find_cluster(s, &o);
    if (status != EST_OK) {
        est_strategy_free(&s->strategy);
        return status;
    }
    *out = &s->strategy;
    return EST_OK;
}
