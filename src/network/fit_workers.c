/* SPDX-License-Identifier: Apache-2.0
 *
 * A fit that several workers make together: every worker runs the same program, and all make every step with their
 * parts of its batch. A run of the strategy (strategy/run.h) brings them together, and together again after one was
 * lost.
 *
 * Steps are counted by the global step, so that a worker that comes back, or a job that is started again from the
 * checkpoints of its model directory, is in the right epoch. The input goes on from epoch to epoch for the same reason:
 * it is repeated, and a worker finds its position by the step.
 *
 * The states of the metrics are those of all workers after every step (fit_states.c). Each worker validates with its
 * part of the data, and these states are summed at the end. When one is lost just then, the others validate with all of
 * it, each by itself: they have the same variables.
 *
 *   FW1  All workers of a group make the same exchanges in the same order. Between two steps they make those of a
 *        validation and of FW2, and only if the last step was made in this group (`in_group`): a worker that was taken
 *        to the end of an epoch by a rejoin cannot know whether the others are behind it.
 *   FW2  A stop that a callback requests in one worker ends the fit in all of them, at the same step. A request before
 *        the last step of an epoch travels with the exchange of the next step (est_communicator.stop), one at the end
 *        of an epoch with a sum of its own. Where that fails, or a worker that has agreed is taken back by the others,
 *        the request travels again with the next step. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/signals.h"
#include "estoc/input.h"
#include "estoc/saver.h"
#include "graph/graph.h"
#include "network/fit.h"
#include "nn/metric.h"
#include "runtime/session.h"
#include "strategy/run.h"
#include "train/done_mark.h"
#include "train/hooks.h"
#include "train/saver.h"

#define SAVE_SECS    600
#define EXTRA_STATES "estoc/epoch_states" /* uint8 [n]: of the metrics, packed (fit_states.c) */

struct est_fit_workers {
    est_run           run;
    est_fit          *fit;
    est_hook          edges; /* lets the strategy see steps and the end */
    est_saver        *saver;
    est_hook         *save;      /* of the chief; NULL: none */
    int64_t           base;      /* the global step at which the first epoch of this fit begins */
    est_done_mark     mark;      /* of an earlier fit, until this one has begun */
    bool              in_group;  /* the last step was made in the current group: FW1 */
    bool              stopping;  /* the workers have agreed to end here: FW2 */
    est_packed_states ended;     /* the states of metrics at the end of the last epoch: FS1 */
    est_dataset      *part;      /* of the validation data; NULL: none, or not made yet */
    bool              undivided; /* the validation data, which has another order on every worker */
};

bool est_fit_has_workers(const est_network *network)
{
    return est_strategy_replicas(network->strategy).across_workers;
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* Those of a checkpoint. One that this fit did not make may lack them. */
static est_status use_states(est_fit_workers *w, const est_tensor *states)
{
    bool fits = false;

    est_packed_states_clear(&w->ended);
    if (states != NULL && est_tensor_dtype(states) == EST_U8) {
        EST_TRY(est_fit_states_unpack(w->fit, est_tensor_data(states), est_tensor_bytes(states), &fits));
    }
    if (fits) return EST_OK;
    est_log_info("The checkpoint has no states of these metrics: the logs of its epoch begin behind it.");
    return est_network_function_reset(w->fit->network, w->fit->f);
}

static est_status use_restored(est_fit_workers *w, est_loop *loop, const est_tensor *position, const est_tensor *runs)
{
    uint64_t count;

    if (runs != NULL && est_tensor_dtype(runs) == EST_I64 && est_tensor_count(runs) == 1) {
        memcpy(&count, est_tensor_data(runs), sizeof count);
        est_session_set_run_count(est_loop_session(loop), count);
    }
    return est_run_restore_input(&w->run, loop, position);
}

/* Without a checkpoint the variables keep the values that they have. */
static est_status restore(void *user, est_loop *loop, const est_reached *had)
{
    est_fit_workers   *w        = user;
    est_recovery_names names    = { "model_dir", w->run.model_dir, "est_network_fit" };
    est_tensor        *position = NULL, *runs = NULL, *states = NULL;
    est_restored       restored = { 0 };
    est_status         status;

    status = est_saver_restore(
        w->saver, est_loop_session(loop),
        EST_RESTORE(.extras = EST_EXTRAS_OUT({ est_run_input_extra(&w->run), &position }, { EST_EXTRA_RUNS, &runs },
                                             { EXTRA_STATES, &states }),
                    .missing_only = had->missing_only),
        &restored);
    if (status == EST_OK) {
        est_recovery_log(had, &names, restored.path);
        status = use_restored(w, loop, position, runs);
        if (status == EST_OK) status = use_states(w, states);
    } else if (status == EST_NOT_FOUND) {
        status = had->step <= w->base ? EST_OK : est_recovery_check_beginning(had, &names);
    }
    est_tensor_free(position);
    est_tensor_free(runs);
    est_tensor_free(states);
    return status;
}

static est_status make_saver(est_fit_workers *w)
{
    est_saver_free(w->saver);
    w->saver = NULL;
    return est_saver_create(w->run.model_dir, NULL, &w->saver);
}

/* With a new saver, since others may have saved meanwhile. */
static est_status make_saver_hook(void *user, est_hook **out)
{
    est_fit_workers *w = user;

    EST_TRY(make_saver(w));
    *out = est_checkpoint_saver_hook(NULL,
                                     EST_CHECKPOINT_SAVER(.secs = SAVE_SECS, .saver = w->saver, .no_graph_def = true));
    return *out != NULL ? EST_OK : est_fail_context(EST_RESOURCE_EXHAUSTED, "a standard hook");
}

est_status est_fit_workers_save(est_fit *fit)
{
    est_fit_workers *w      = fit->workers;
    est_hook        *saving = w->save != NULL ? w->save : w->run.standby_saves;

    return saving != NULL && w->run.leads ? est_checkpoint_saver_save(saving, fit->loop) : EST_OK;
}

static est_status put_number(est_extra *extras, int *n, const char *name, uint64_t value)
{
    est_tensor *tensor = NULL;
    int64_t     number;

    memcpy(&number, &value, sizeof number);
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &number, &tensor));
    extras[(*n)++] = (est_extra){ name, tensor };
    return EST_OK;
}

static est_status put_states(const est_fit *fit, est_extra *extras, int *n)
{
    est_packed_states states;
    est_tensor       *value = NULL;
    est_status        status;

    EST_TRY(est_fit_states_pack(fit, &fit->workers->ended, &states));
    status = est_tensor_create_from(EST_U8, EST_SHAPE((int64_t)states.size), states.data, &value);
    est_packed_states_clear(&states);
    EST_TRY(status);
    extras[(*n)++] = (est_extra){ EXTRA_STATES, value };
    return EST_OK;
}

static est_status add_extras(void *user, est_loop *loop, est_extra *extras, int n_max, int *n)
{
    const est_fit *fit      = user;
    est_run       *run      = &fit->workers->run;
    est_tensor    *position = NULL;

    (void)n_max; /* four are far below it */
    EST_TRY(put_states(fit, extras, n));
    EST_TRY(put_number(extras, n, EST_EXTRA_RUNS, est_loop_run_count(loop)));
    EST_TRY(put_number(extras, n, EST_EXTRA_SEED, run->seed));
    EST_TRY(est_run_save_input(run, loop, &position));
    extras[(*n)++] = (est_extra){ est_run_input_extra(run), position };
    return EST_OK;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static est_status global_step(est_session *session, int64_t *out)
{
    est_tensor *step = NULL;

    EST_TRY(est_session_read(session, "global_step", &step));
    *out = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    return EST_OK;
}

/* The job has ended before this process came: its variables are those of the last checkpoint. */
static est_status take_result(est_fit *fit)
{
    est_fit_workers *w = fit->workers;
    est_status       status;

    fit->over = true;
    EST_TRY(make_saver(w));
    status = est_saver_restore(w->saver, fit->network->session, NULL, NULL);
    est_log_info("Nothing left to do: the other workers have made all steps of this fit.");
    return status == EST_NOT_FOUND ? EST_OK : status;
}

static est_status start(est_fit *fit)
{
    est_fit_workers *w   = fit->workers;
    est_run         *run = &w->run;
    int64_t          saved;

    EST_TRY(global_step(fit->network->session, &w->base));
    run->first_step = w->base;
    run->max_steps  = w->base + (fit->epochs - fit->epoch) * fit->steps;
    EST_TRY(est_run_check(run));
    EST_TRY(est_dir_create(run->model_dir));
    EST_TRY(est_run_open(run));
    EST_TRY(est_run_start(run));
    if (run->over) return take_result(fit);
    EST_TRY(est_done_mark_read(run->model_dir, &w->mark));
    EST_TRY(est_saved_step(run->model_dir, &saved));
    return (!run->joined || run->leads) && saved >= run->max_steps ? take_result(fit) : EST_OK;
}

/* --- states of metrics -------------------------------------------------------------------------------------------- */

static est_status pack_states(void *user, char **bytes, size_t *size)
{
    const est_fit_workers *w = user;
    est_packed_states      states;

    EST_TRY(est_fit_states_pack(w->fit, &w->ended, &states));
    *bytes = states.data;
    *size  = states.size;
    return EST_OK;
}

static est_status unpack_states(void *user, const char *bytes, size_t size)
{
    est_fit_workers *w = user;
    bool             fits;

    EST_TRY(est_fit_states_unpack(w->fit, bytes, size, &fits));
    est_packed_states_clear(&w->ended);
    if (fits) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION,
                    "the other workers have other metrics than this one; all workers need the same program");
}

static est_node state_of(const est_fit *fit, const est_network_function *f, int i)
{
    return est_local_variables(fit->network->graph).data[f->first_state + i];
}

static est_status check_states(const est_fit *fit)
{
    est_nodes summed = est_graph_collection(fit->network->graph, EST_SUMMED_STATES);

    for (int i = 0; i < fit->f->n_states; i++) {
        int k = 0;

        while (k < summed.n && summed.data[k].id != state_of(fit, fit->f, i).id) k++;
        if (k < summed.n) continue;
        return est_fail(EST_INVALID_ARGUMENT,
                        "several workers sum the states of metrics, and the state %s is not only added to; update it "
                        "by est_assign_add or est_scatter_add of est_metric_custom, or leave its metric out",
                        est_node_name(state_of(fit, fit->f, i)));
    }
    return EST_OK;
}

est_status est_fit_workers_open(est_fit *fit)
{
    static const est_run_owner owner = {
        .restore = restore, .make_saver = make_saver_hook, .pack = pack_states, .unpack = unpack_states
    };

    const est_network *network = fit->network;
    est_fit_workers   *w;

    if (network->model_dir[0] == '\0') {
        return est_fail(EST_INVALID_ARGUMENT,
                        "several workers train %s, and need checkpoints; set model_dir in "
                        "EST_NETWORK",
                        network->name);
    }
    EST_TRY(check_states(fit));
    w = est_zalloc(sizeof *w);
    if (w == NULL) return est_no_memory();
    fit->workers = w;
    w->fit       = fit;
    w->run       = (est_run){ .strategy  = network->strategy,
                              .purpose   = EST_RUN_TRAIN,
                              .self      = network->strategy->self,
                              .model_dir = network->model_dir,
                              .threads   = network->threads,
                              .seed      = network->seed,
                              .owner     = &owner,
                              .user      = w };
    return start(fit);
}

/* Before the first step: the fit has not ended. */
static est_status clear_mark(est_hook *hook, est_loop *loop)
{
    est_fit_workers *w = EST_CONTAINER_OF(hook, est_fit_workers, edges);

    (void)loop;
    if (!w->mark.there || !w->run.leads) return EST_OK;
    w->mark = (est_done_mark){ 0 };
    return est_done_mark_write(w->run.model_dir, &w->mark);
}

static est_status after_step(est_hook *hook, est_loop *loop)
{
    return est_run_after_step(&EST_CONTAINER_OF(hook, est_fit_workers, edges)->run, loop);
}

static est_status settle(est_hook *hook, est_loop *loop)
{
    return est_run_settle(&EST_CONTAINER_OF(hook, est_fit_workers, edges)->run, loop);
}

/* Those of the strategy come first, as in a training of an Estimator. */
static est_status collect_hooks(est_fit *fit)
{
    est_fit_workers *w     = fit->workers;
    est_hook       **hooks = est_alloc((size_t)(fit->n_hooks + 3) * sizeof(est_hook *));
    int              n     = 0;

    if (hooks == NULL) return est_no_memory();
    w->edges   = (est_hook)EST_HOOK(.before_run = clear_mark, .after_run = after_step, .end = settle, .idle = true);
    hooks[n++] = &w->edges;
    if (w->save != NULL) hooks[n++] = w->save;
    if (w->run.standby_saver != NULL) hooks[n++] = w->run.standby_saver;
    fit->given = n;
    for (int i = 0; i < fit->n_hooks; i++) hooks[n++] = fit->hooks[i];
    est_free(fit->hooks);
    fit->hooks   = hooks;
    fit->n_hooks = n;
    return EST_OK;
}

static est_status initialize(void *user, est_loop *loop, int64_t *step)
{
    const est_fit *fit = user;

    EST_TRY(est_run_join(&fit->workers->run, loop));
    return est_loop_read_step(loop, step);
}

est_status est_fit_workers_prepare(est_fit *fit, est_loop_spec *spec)
{
    est_fit_workers *w = fit->workers;

    EST_TRY(w->run.self.is_chief ? make_saver_hook(w, &w->save) : make_saver(w));
    EST_TRY(collect_hooks(fit));
    spec->initialize = initialize;
    spec->extras     = add_extras;
    EST_TRY(est_run_prepare(&w->run, spec));
    spec->strategy.pauses      = true;
    spec->session.communicator = w->run.communicator;
    est_session_set_communicator(fit->network->session, w->run.communicator);
    return EST_OK;
}

/* --- epochs ------------------------------------------------------------------------------------------------------- */

static int64_t made(const est_fit *fit)
{
    return est_loop_global_step(fit->loop) - fit->workers->base;
}

/* Rounded down: a checkpoint may be of a step before this fit. */
void est_fit_workers_seek(est_fit *fit)
{
    int64_t n = made(fit);

    fit->epoch = fit->options->initial_epoch + (n >= 0 ? n / fit->steps : -((fit->steps - 1 - n) / fit->steps));
}

/* How many steps of the epoch under way are made; below 0, or more than it has: it is another epoch now. */
static int64_t made_of_epoch(const est_fit *fit)
{
    return made(fit) - (fit->epoch - fit->options->initial_epoch) * fit->steps;
}

bool est_fit_workers_left_epoch(const est_fit *fit)
{
    return made_of_epoch(fit) < 0 || made_of_epoch(fit) > fit->steps;
}

/* --- sums of metrics ---------------------------------------------------------------------------------------------- */

static est_status sum(const est_fit *fit, void *data, int64_t n, est_dtype dtype)
{
    est_communicator *c = fit->workers->run.communicator;
    est_comm_work    *work;

    EST_TRY(c->ops->sum(c, data, (size_t)n, dtype, &work));
    return c->ops->wait(c, work);
}

static est_status sum_state(const est_fit *fit, est_node state, est_tensor **out)
{
    EST_TRY(est_session_read(fit->network->session, est_node_name(state), out));
    return sum(fit, est_tensor_mutable_data(*out), est_tensor_count(*out), est_tensor_dtype(*out));
}

/* All or none: a total of all workers divided by the count of one is no mean. */
static est_status try_sum_states(const est_fit *fit, const est_network_function *f, est_tensor **sums)
{
    for (int i = 0; i < f->n_states; i++) EST_TRY(sum_state(fit, state_of(fit, f, i), &sums[i]));
    for (int i = 0; i < f->n_states; i++) {
        EST_TRY(est_session_write(fit->network->session, est_node_name(state_of(fit, f, i)), sums[i]));
    }
    return EST_OK;
}

static est_status sum_states(const est_fit *fit, const est_network_function *f)
{
    est_tensor **sums = est_zalloc((size_t)(f->n_states + 1) * sizeof(est_tensor *));
    est_status   status;

    if (sums == NULL) return est_no_memory();
    status = try_sum_states(fit, f, sums);
    for (int i = 0; i < f->n_states; i++) est_tensor_free(sums[i]);
    est_free(sums);
    return status;
}

static bool is_loss_of_worker(est_status status)
{
    return status == EST_ABORTED || status == EST_UNAVAILABLE || status == EST_DEADLINE_EXCEEDED;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void agree_to_stop(est_fit *fit)
{
    fit->workers->stopping = true;
    est_loop_request_stop(fit->loop, "a worker has requested a stop");
}

/* Passes a request of a callback on to the other workers, with the next step. */
static void pass_request(est_fit *fit)
{
    est_communicator *c = fit->workers->run.communicator;

    if (!est_loop_withdraw_stop(fit->loop)) return;
    if (!c->stop) est_log_info("All workers stop: %s", est_loop_stop_reason(fit->loop));
    c->stop = true;
}

/* Before the first step of an epoch, and again when it is repeated: keeps FS1. */
static est_status begin_states(est_fit *fit)
{
    est_fit_workers *w = fit->workers;

    if (w->ended.data != NULL) return EST_OK; /* a rejoin gives them back, and drops the copy */
    EST_TRY(est_fit_states_pack(fit, NULL, &w->ended));
    return est_network_function_reset(fit->network, fit->f);
}

static est_status make_steps(est_fit *fit)
{
    est_fit_workers *w = fit->workers;

    while (made_of_epoch(fit) >= 0 && made_of_epoch(fit) < fit->steps) {
        if (made_of_epoch(fit) == 0) EST_TRY(begin_states(fit));
        EST_TRY(est_loop_step(fit->loop));
        if (made_of_epoch(fit) > 0) est_packed_states_clear(&w->ended);
        w->in_group = !est_loop_rejoined(fit->loop);
        if (w->in_group && w->run.communicator->stopped) {
            agree_to_stop(fit);
            return EST_OK;
        }
        pass_request(fit);
    }
    return EST_OK;
}

est_status est_fit_workers_epoch(est_fit *fit, bool *ended)
{
    est_status status;

    pass_request(fit); /* of epoch_begin */
    status = make_steps(fit);
    *ended = est_loop_should_stop(fit->loop);
    if (status != EST_OK && !est_loop_at_end(fit->loop)) return status;
    est_loop_outdate_logs(fit->loop); /* the last step may have been made without this worker */
    return EST_OK;
}

est_status est_fit_workers_vote(est_fit *fit)
{
    est_fit_workers  *w = fit->workers;
    est_communicator *c = w->run.communicator;
    double            votes;
    est_status        status;

    if (w->stopping) return EST_OK;
    c->stop = est_loop_withdraw_stop(fit->loop) || c->stop;
    votes   = c->stop;
    status  = w->in_group ? sum(fit, &votes, 1, EST_F64) : EST_ABORTED;
    if (status == EST_OK && votes > 0) agree_to_stop(fit);
    return is_loss_of_worker(status) ? EST_OK : status; /* the next step tells */
}

/* --- validation --------------------------------------------------------------------------------------------------- */

/* A dataset that cannot be divided is so on all workers. */
static est_status open_part(est_fit *fit)
{
    est_fit_workers  *w       = fit->workers;
    int64_t           steps   = fit->options->validation_steps;
    est_input_context context = { .mode = EST_EVAL };
    est_dataset      *d;
    est_status        status;

    if (w->part != NULL || w->undivided) return EST_OK;
    est_strategy_input_context(fit->network->strategy, &context);
    d = est_dataset_ref(fit->validation);
    if (steps > 0) d = est_dataset_take(d, steps);
    d      = est_dataset_autoshard(d, context.n_pipelines, context.pipeline,
                                   est_network_source_policy(fit->options->validation));
    status = est_dataset_finish(d, &w->part);
    if (status != EST_INVALID_ARGUMENT) return status;
    est_log_info("Every worker validates with all of the data: %s", est_error_message());
    w->undivided = true;
    return EST_OK;
}

static est_status measure_all(est_fit *fit, double *values)
{
    return est_network_measure_input(fit->network, fit->validation, fit->options->validation_steps, (est_hooks){ 0 },
                                     values);
}

/* *whole: all workers have taken part. */
static est_status measure_part(est_fit *fit, double *values, bool *whole)
{
    est_network *network = fit->network;
    enum { BATCHES, WORKERS };
    double                counts[2] = { 0, 1 };
    est_network_function *f;
    int64_t               batches;

    EST_TRY(est_network_function_get(network, false, est_network_form(network, fit->validation), &f));
    EST_TRY(est_network_run_test(network, f, fit->workers->part, 0, (est_hooks){ 0 }, &batches));
    counts[BATCHES] = (double)batches;
    EST_TRY(sum_states(fit, f));
    EST_TRY(sum(fit, counts, 2, EST_F64));
    *whole = counts[WORKERS] >= fit->workers->run.self.size;
    if (*whole && counts[BATCHES] == 0) return est_fail(EST_INVALID_ARGUMENT, "the input has no batch");
    return est_network_function_read(network, f, values);
}

est_status est_fit_workers_validate(est_fit *fit, double *values)
{
    bool       whole = false;
    est_status status;

    EST_TRY(open_part(fit));
    if (fit->workers->undivided || !fit->workers->in_group) return measure_all(fit, values);
    status = measure_part(fit, values, &whole);
    if (status != EST_OK && !is_loss_of_worker(status)) return status;
    if (status == EST_OK && whole) return EST_OK;
    est_log_warn("epoch %" PRId64 ": a worker is missing, and this one validates with all of the data", fit->epoch + 1);
    return measure_all(fit, values);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* A worker that is lost while the others end may take them back to a step before the last, or to one of its own when
 * it has not heard of a stop. */
static void go_back(est_fit *fit)
{
    est_fit_workers *w = fit->workers;

    if (w->stopping) w->run.communicator->stop = true;
    w->stopping = w->in_group = false;
    est_fit_workers_seek(fit);
}

est_status est_fit_workers_end(est_fit *fit, bool *resumed)
{
    est_run      *run  = &fit->workers->run;
    est_done_mark mark = { .there = true };

    EST_TRY(est_loop_end_or_resume(fit->loop, resumed));
    if (*resumed) {
        go_back(fit);
        return EST_OK;
    }
    if (run->lost.status != EST_OK) return est_error_raise(&run->lost);
    if (est_stop_signal() != 0) return EST_OK; /* saved, and not at the end */
    if (run->leads) {
        mark.step = est_loop_global_step(fit->loop);
        EST_TRY(est_done_mark_write(run->model_dir, &mark));
    }
    return est_run_end(run);
}

void est_fit_workers_close(est_fit *fit, est_status why)
{
    est_fit_workers *w = fit->workers;

    est_session_set_communicator(fit->network->session, NULL);
    est_run_close(&w->run, why);
    est_run_release(&w->run);
    est_hook_free(w->save);
    est_saver_free(w->saver);
    est_packed_states_clear(&w->ended);
    est_dataset_free(w->part);
    est_free(w);
    fit->workers = NULL;
}
