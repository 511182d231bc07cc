/* SPDX-License-Identifier: Apache-2.0
 *
 * This process as one of the workers of a training loop of its own: a run whose steps the program makes. */
#include "estoc/workers.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/options.h"
#include "base/signals.h"
#include "strategy/run.h"

struct est_workers {
    est_run run;
};

est_status est_workers_create(const est_strategy *strategy, const est_workers_options *options, est_workers **out)
{
    est_workers_options o;
    est_workers        *w;
    est_status          status;

    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_workers_options), options, &o));
    w = est_zalloc(sizeof *w);
    if (w == NULL) return est_no_memory();
    w->run = (est_run){ .strategy     = strategy != NULL ? strategy : &est_default_strategy,
                        .purpose      = EST_RUN_BY_HAND,
                        .transport    = o.transport,
                        .silence_secs = o.silence_secs,
                        .connect_secs = o.connect_secs };

    w->run.self = w->run.strategy->self;
    status      = est_run_open(&w->run);
    if (status == EST_OK) status = est_run_start(&w->run);
    if (status != EST_OK) {
        est_run_close(&w->run, status);
        est_free(w);
        return status;
    }
    *out = w;
    return EST_OK;
}

void est_workers_free(est_workers *workers)
{
    if (workers == NULL) return;
    est_run_close(&workers->run, EST_OK);
    est_free(workers);
}

int est_workers_count(const est_workers *workers)
{
    return workers != NULL ? workers->run.self.size : 0;
}

int est_workers_rank(const est_workers *workers)
{
    return workers != NULL ? workers->run.self.rank : -1;
}

est_communicator *est_workers_communicator(const est_workers *workers)
{
    return workers != NULL ? workers->run.communicator : NULL;
}

est_status est_workers_join(est_workers *workers, est_session *session, int64_t *step)
{
    est_status status;

    EST_REQUIRE(workers);
    EST_REQUIRE(session);
    EST_REQUIRE(step);
    if (*step < -1) {
        return est_fail(EST_INVALID_ARGUMENT, "est_workers_join: step %" PRId64 "; pass -1 for no variables, or more",
                        *step);
    }
    est_signals_catch();
    status = est_run_share(&workers->run, session, step);
    if (status == EST_OK && workers->run.over)
        status = est_fail(EST_OUT_OF_RANGE, "the job is over: another worker has ended it");
    est_signals_release(status);
    return status;
}

/* The first of the workers ends the job. The others take part in views until they hear of that, or become the first. */
est_status est_workers_end(est_workers *workers, est_session *session, int64_t step)
{
    est_run   *run;
    est_status status = EST_OK;

    EST_REQUIRE(workers);
    EST_REQUIRE(session);
    run = &workers->run;
    est_signals_catch();
    while (status == EST_OK && !run->over && !run->leads) status = est_run_share(run, session, &step);
    if (status == EST_OK) status = est_run_end(run);
    est_signals_release(status);
    return status;
}
