/* SPDX-License-Identifier: Apache-2.0
 *
 * Strategies: the list of all, who a process is under one, and the answers that are the same for each. */
#include "strategy/strategy.h"

#include <string.h>

#include "base/alloc.h"
#include "cluster/cluster.h"
#include "estoc/input.h"

const est_strategy_ops *const est_strategies[] = {
    &est_default_ops,
    &est_one_device_ops,
    &est_mirrored_ops,
    &est_central_storage_ops,
    &est_parameter_server_ops,
    &est_multi_worker_ops,
    NULL,
};

/* --- identity ----------------------------------------------------------------------------------------------------- */

const char *est_rank_task(const est_cluster *cluster, int rank, int *index)
{
    static const char *const jobs[] = { "chief", "master", "worker" };

    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        for (int i = 0; i < est_cluster_tasks(cluster, jobs[k]); i++) {
            if (est_cluster_address(cluster, jobs[k], i) == NULL || rank-- > 0) continue;
            *index = i;
            return jobs[k];
        }
    }
    return NULL;
}

est_self est_self_of(const est_task *task, int replicas)
{
    est_self    self = { .task = task, .rank = -1, .replicas = replicas, .is_chief = task->is_chief };
    const char *job;
    int         index;

    for (; (job = est_rank_task(task->cluster, self.size, &index)) != NULL; self.size++) {
        if (task->type != NULL && strcmp(job, task->type) == 0 && index == task->index) self.rank = self.size;
    }
    if (self.size < 2) {
        self.size = 1;
        self.rank = 0;
    }
    return self;
}

void est_strategy_init(est_strategy *strategy, const est_strategy_ops *ops, int replicas)
{
    strategy->ops  = ops;
    strategy->self = (est_self){ .size = 1, .replicas = replicas, .is_chief = true };
}

est_status est_strategy_set_cluster(est_strategy *strategy, const est_resolver *resolver, const char *cluster_json)
{
    const char *name = strategy->ops->name;

    if (resolver != NULL && cluster_json != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: resolver and cluster_json are both set; leave one out", name);
    }
    if (resolver != NULL && !strategy->ops->uses_ps && est_resolver_task(resolver)->type == NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: the resolver is that of a client; give est_resolve_simple the type and index of this "
                        "task",
                        name);
    }
    if (resolver != NULL) return est_resolver_copy(resolver, &strategy->resolver);
    return est_resolve_quietly(cluster_json, EST_TASK_RULES(.no_chief_ok = strategy->ops->no_chief_ok),
                               &strategy->resolver);
}

void est_strategy_free(est_strategy *strategy)
{
    if (strategy == NULL) return;
    est_resolver_free(strategy->resolver);
    est_free(strategy);
}

/* --- what it is --------------------------------------------------------------------------------------------------- */

const est_strategy *est_strategy_for(const est_strategy *strategy, const est_task *task)
{
    if (strategy != NULL) return strategy;
    return est_cluster_tasks(task->cluster, "ps") > 0 ? est_default_parameter_server : &est_default_strategy;
}

const char *est_strategy_name(const est_strategy *strategy)
{
    return strategy != NULL ? strategy->ops->name : est_default_ops.name;
}

void est_strategy_text(const est_strategy *strategy, est_strbuf *out)
{
    est_strbuf_printf(out, "{\"name\": \"%s\"", strategy->ops->name);
    if (strategy->ops->text != NULL) {
        strategy->ops->text(strategy, out);
    } else {
        est_strbuf_printf(out, ", \"replicas\": %d", strategy->self.replicas);
    }
    est_strbuf_append(out, "}");
}

bool est_strategy_needs_no_chief(const est_strategy *strategy)
{
    return strategy != NULL && strategy->ops->no_chief_ok;
}

const est_resolver *est_strategy_resolver(const est_strategy *strategy)
{
    return strategy != NULL ? strategy->resolver : NULL;
}

const est_task *est_strategy_task(const est_strategy *strategy)
{
    return est_resolver_task(est_strategy_resolver(strategy));
}

est_status est_strategy_check(const est_strategy *strategy, bool trains, const est_task *task, const char *source)
{
    bool has_ps = est_cluster_tasks(task->cluster, "ps") > 0;

    if (strategy == NULL) return EST_OK;
    if (!trains && strategy->ops->uses_ps) {
        return est_fail(EST_UNIMPLEMENTED, "RunConfig: eval_distribute is %s, and evaluations need none; leave it out",
                        strategy->ops->name);
    }
    if (!trains || has_ps == strategy->ops->uses_ps || strcmp(task->type, "evaluator") == 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "RunConfig: train_distribute is %s, and %s has %s; %s, or leave it out",
                    strategy->ops->name, source, has_ps ? "ps tasks" : "no ps tasks",
                    has_ps ? "leave them out" : "add \"ps\": [\"host:port\", ...]");
}

bool est_strategy_shares_dir(const est_strategy *strategy, const est_task *task)
{
    return est_strategy_for(strategy, task)->ops->uses_ps; /* each ps task writes its part of a checkpoint */
}

bool est_strategy_evaluates_across(const est_strategy *strategy)
{
    return strategy != NULL && strategy->ops->evaluates_across;
}

int est_strategy_evaluators(const est_strategy *strategy)
{
    return est_strategy_evaluates_across(strategy) ? strategy->self.size : 1;
}

/* --- what it means for a graph and an input ----------------------------------------------------------------------- */

est_replicas est_strategy_replicas(const est_strategy *strategy)
{
    const est_self *self = strategy != NULL ? &strategy->self : &est_default_strategy.self;

    return (est_replicas){ .n              = self->replicas,
                           .current        = -1,
                           .first_global   = self->rank * self->replicas,
                           .total          = self->size * self->replicas,
                           .across_workers = self->size > 1,
                           .gradients      = EST_REDUCE_OP_SUM,
                           .merge_device   = est_strategy_merge_device(strategy),
                           .owner          = strategy };
}

int est_strategy_num_replicas_in_sync(const est_strategy *strategy)
{
    return est_strategy_replicas(strategy).total;
}

void est_strategy_input_context(const est_strategy *strategy, est_input_context *context)
{
    const est_self *self = strategy != NULL ? &strategy->self : &est_default_strategy.self;

    if (context == NULL) return;
    context->n_pipelines          = self->size;
    context->pipeline             = self->rank;
    context->num_replicas_in_sync = est_strategy_num_replicas_in_sync(strategy);
}
