/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameter_server strategy: ps tasks have the variables, workers push gradients, each by itself or so many together. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/options.h"
#include "strategy/strategy.h"

static est_status check(const est_parameter_server_options *o)
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

est_status est_parameter_server_strategy(const est_parameter_server_options *options, est_strategy **out)
{
    est_strategy *s;
    est_status    status;

    EST_REQUIRE(out);
    s = est_zalloc(sizeof *s);
    if (s == NULL) return est_no_memory();
    s->kind = EST_STRATEGY_PARAMETER_SERVER;
    status  = est_options_take(EST_STRUCT_SIZE(est_parameter_server_options), options, &s->ps);
    if (status == EST_OK) status = check(&s->ps);
    if (status != EST_OK) {
        est_free(s);
        return status;
    }
    if (s->ps.partitioner != NULL) {
        s->partitioner    = *s->ps.partitioner;
        s->ps.partitioner = &s->partitioner;
    }
    *out = s;
    return EST_OK;
}

void est_parameter_server_text(const est_strategy *strategy, est_strbuf *out)
{
    const est_parameter_server_options *o = &strategy->ps;

    est_strbuf_printf(out,
                      "{\"name\": \"%s\", \"sync_replicas\": %d, \"max_staleness\": %" PRId64
                      ", \"consistent_checkpoints\": %s, \"round_robin\": %s, \"partitioner\": ",
                      est_strategy_name(strategy), o->sync_replicas, o->max_staleness,
                      o->consistent_checkpoints ? "true" : "false", o->round_robin ? "true" : "false");
    if (o->partitioner == NULL) {
        est_strbuf_append(out, "null}");
    } else {
        est_strbuf_printf(out, "{\"bytes\": %" PRId64 ", \"n\": %d}}", o->partitioner->bytes, o->partitioner->n);
    }
}
