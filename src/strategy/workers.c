/* SPDX-License-Identifier: Apache-2.0
 *
 * This process as one of the workers of synchronous training. */
#include "estoc/workers.h"
#include "base/argument.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "estoc/server.h"
#include "strategy/workers.h"

/* --- ranks -------------------------------------------------------------------------------------------------------------- */

static const char *const jobs[] = { "chief", "master", "worker" };

int est_count_ranks(const est_cluster *cluster)
{
    int n = 0;

    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        for (int i = 0; i < est_cluster_tasks(cluster, jobs[k]); i++) {
            n += est_cluster_address(cluster, jobs[k], i) != NULL;
        }
    }
    return n;
}

int est_rank_of(const est_task *task)
{
    int n = 0;

    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        for (int i = 0; i < est_cluster_tasks(task->cluster, jobs[k]); i++) {
            if (est_cluster_address(task->cluster, jobs[k], i) == NULL) continue;
            if (strcmp(jobs[k], task->type) == 0 && i == task->index) return n;
            n++;
        }
    }
    return -1;
}

#define NAME_MAX_BYTES 32

/* Fills ranks, whose names are in `names`. */
static void list_ranks(const est_cluster *cluster, est_rank *ranks, char (*names)[NAME_MAX_BYTES])
{
    int n = 0;

    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        for (int i = 0; i < est_cluster_tasks(cluster, jobs[k]); i++) {
            const char *address = est_cluster_address(cluster, jobs[k], i);

            if (address == NULL) continue;
            snprintf(names[n], sizeof names[n], "%s:%d", jobs[k], i);
            ranks[n] = (est_rank){ .task = names[n], .address = address };
            n++;
        }
    }
}

static est_membership_options fill_options(const est_membership_options *given, const est_strategy *strategy)
{
    const est_multi_worker_mirrored_options *how = &strategy->workers;
    est_membership_options                   o   = *given;

    if (o.rejoin_secs == 0) o.rejoin_secs = how->rejoin_secs;
    if (o.deadline_secs == 0) o.deadline_secs = how->timeout_secs;
    o.elastic        = how->elastic;
    o.bytes_per_pack = (size_t)how->bytes_per_pack;
    o.communication  = how->communication;
    return o;
}

/* What all workers need the same for a step to fit together, before what the caller has to say. */
static est_status write_terms(const est_strategy *strategy, const char *more, char **out)
{
    const est_multi_worker_mirrored_options *how  = &strategy->workers;
    est_strbuf                               text = { 0 };

    est_strbuf_printf(&text, "communication=%s\n", est_communication_name(how->communication));
    est_strbuf_printf(&text, "bytes_per_pack=%" PRId64 "\n",
                      how->bytes_per_pack > 0 ? how->bytes_per_pack : (int64_t)EST_BYTES_PER_PACK);
    est_strbuf_printf(&text, "replicas=%d\n", strategy->replicas > 0 ? strategy->replicas : 1);
    est_strbuf_printf(&text, "elastic=%s\n%s", how->elastic ? "yes" : "no", more != NULL ? more : "");
    return est_strbuf_take(&text, out);
}

est_status est_membership_of_task(est_server *server, const est_task *task, const est_strategy *strategy,
                                  const est_membership_options *options, est_membership **out)
{
    est_membership_options o     = fill_options(options, strategy);
    int                    n     = est_count_ranks(task->cluster);
    est_rank              *ranks = est_zalloc(((size_t)n + 1) * sizeof *ranks);
    char(*names)[NAME_MAX_BYTES] = est_zalloc(((size_t)n + 1) * sizeof *names);
    char      *terms             = NULL;
    est_status status            = ranks != NULL && names != NULL ? EST_OK : est_no_memory();

    if (status == EST_OK) status = write_terms(strategy, options->terms, &terms);
    if (status == EST_OK) {
        list_ranks(task->cluster, ranks, names);
        o.terms = terms;
        o.tasks = ranks;
        o.n     = n;
        o.self  = est_rank_of(task);
        status  = est_membership_create(server, &o, out);
    }
    est_free(terms);
    est_free(ranks);
    est_free(names);
    return status;
}

/* --- workers ------------------------------------------------------------------------------------------------------------ */

struct est_workers {
    const est_strategy *strategy;
    est_server         *server;       /* NULL: one worker */
    est_membership     *membership;   /* likewise */
    est_communicator   *communicator; /* likewise; the same in every meeting */
    int                 rank;         /* in the last meeting */
};

static est_status connect(est_workers *w, const est_workers_options *o)
{
    const est_task *task = est_resolver_task(w->strategy->resolver);

    EST_TRY(est_server_create(task->cluster, task->type, task->index,
                              EST_SERVER(.transport = o->transport, .silence_secs = o->silence_secs), &w->server));
    EST_TRY(est_membership_of_task(w->server, task, w->strategy,
                                   &(est_membership_options){ .connect_secs = o->connect_secs }, &w->membership));
    w->communicator = est_membership_communicator(w->membership);
    return EST_OK;
}

est_status est_workers_create(const est_strategy *strategy, const est_workers_options *options, est_workers **out)
{
    est_workers_options o;
    est_workers        *w;
    est_status          status = EST_OK;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_workers_options), options, &o));
    w = est_zalloc(sizeof *w);
    if (w == NULL) return est_no_memory();
    w->strategy = strategy;
    if (strategy != NULL && strategy->kind == EST_STRATEGY_MULTI_WORKER_MIRRORED && strategy->n_workers > 1) {
        status = connect(w, &o);
    }
    if (status != EST_OK) {
        est_workers_free(w);
        return status;
    }
    *out = w;
    return EST_OK;
}

void est_workers_free(est_workers *workers)
{
    if (workers == NULL) return;
    est_membership_free(workers->membership);
    est_server_free(workers->server);
    est_free(workers);
}

int est_workers_count(const est_workers *workers)
{
    if (workers == NULL) return 0;
    return workers->membership != NULL ? workers->strategy->n_workers : 1;
}

int est_workers_rank(const est_workers *workers)
{
    if (workers == NULL) return -1;
    return workers->membership != NULL ? workers->strategy->worker : 0;
}

est_communicator *est_workers_communicator(const est_workers *workers)
{
    return workers != NULL ? workers->communicator : NULL;
}

/* Meets until all have the same variables, or the job is over: one that is lost while they are given is met again. */
static est_status meet_and_share(est_workers *w, est_session *session, int64_t step, est_membership_view *met)
{
    est_status status = EST_ABORTED;

    for (int tries = 0; status == EST_ABORTED && tries < EST_RECOVERIES_MAX; tries++) {
        EST_TRY(est_membership_join(w->membership, step, "", met));
        if (met->over) return EST_OK;
        w->rank = met->rank;
        if (met->source < 0) {
            est_membership_reset(w->membership); /* whatever the session has the next time was given to it since */
            return est_fail(EST_FAILED_PRECONDITION, "no worker has variables: call est_session_init, and pass step 0");
        }
        status = est_membership_transfer(w->membership, session, met->source);
    }
    if (status != EST_ABORTED) return status;
    return est_fail_context(status, "still failing after meeting the other workers %d times", EST_RECOVERIES_MAX);
}

est_status est_workers_join(est_workers *workers, est_session *session, int64_t *step)
{
    est_membership_view met;

    EST_REQUIRE(workers);
    EST_REQUIRE(session);
    EST_REQUIRE(step);
    if (*step < -1) return est_fail(EST_INVALID_ARGUMENT, "est_workers_join: step %lld", (long long)*step);
    if (workers->membership == NULL) {
        if (*step < 0)
            return est_fail(EST_FAILED_PRECONDITION, "a worker alone has no variables: call est_session_init");
        return EST_OK;
    }
    EST_TRY(meet_and_share(workers, session, *step, &met));
    if (met.over) return est_fail(EST_OUT_OF_RANGE, "the job is over: another worker has ended it");
    EST_TRY(est_session_init(session)); /* what is this worker's own */
    *step = met.step;
    return EST_OK;
}

est_status est_workers_end(est_workers *workers, est_session *session, int64_t step)
{
    est_membership_view met = { 0 };

    EST_REQUIRE(workers);
    EST_REQUIRE(session);
    if (workers->membership == NULL) return EST_OK;
    if (workers->rank == 0) {
        est_membership_end_job(workers->membership);
        return EST_OK;
    }
    while (!met.over && (met.n == 0 || met.rank > 0)) EST_TRY(meet_and_share(workers, session, step, &met));
    if (!met.over) est_membership_end_job(workers->membership); /* those before it are gone */
    return EST_OK;
}
