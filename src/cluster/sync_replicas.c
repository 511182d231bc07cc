/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous steps: accumulating pushes at every task, counting and committing at the clock. */
#include "cluster/sync_replicas.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/log.h"

/* --- pushes ------------------------------------------------------------------------------------------------------- */

static void forget_pushes(est_segment_state *state)
{
    if (state->accumulator != NULL) est_accumulator_reset(state->accumulator);
    state->n_came = 0;
}

static void forget_all_pushes(est_server *s)
{
    for (int i = 0; i < est_host_segments(s->host); i++) forget_pushes(&s->segments[i]);
}

/* A worker that repeats its step, because a link broke or it was restarted, has pushed already. */
static bool has_come(const est_segment_state *state, uint64_t who)
{
    for (int i = 0; i < state->n_came; i++) {
        if (state->came[i] == who) return true;
    }
    return false;
}

static est_status reserve_push(est_segment_state *state)
{
    int       max = state->max_came == 0 ? 16 : 2 * state->max_came;
    uint64_t *more;

    if (state->n_came < state->max_came) return EST_OK;
    more = est_realloc(state->came, sizeof *more * (size_t)max);
    if (more == NULL) return est_no_memory();
    state->came     = more;
    state->max_came = max;
    return EST_OK;
}

static bool is_before(est_step_id a, est_step_id b)
{
    return a.timeline < b.timeline || (a.timeline == b.timeline && a.step < b.step);
}

static bool is_same(est_step_id a, est_step_id b)
{
    return a.timeline == b.timeline && a.step == b.step;
}

/* A worker that has pushed one segment and not the other; 0: none. */
static uint64_t find_only_here(const est_segment_state *here, const est_segment_state *there)
{
    for (int i = 0; i < here->n_came; i++) {
        if (!has_come(there, here->came[i])) return here->came[i];
    }
    return 0;
}

static est_status report_other_segments(est_server *s, const char *task, uint64_t who)
{
    char name[EST_NET_NAME_MAX] = "another worker";

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_clients; i++) {
        const char *client = s->clients[i]->who.task;

        if (est_fingerprint64(client, strlen(client)) == who) snprintf(name, sizeof name, "%s", client);
    }
    pthread_mutex_unlock(&s->lock);
    return est_fail(EST_FAILED_PRECONDITION,
                    "%s and %s push different updates for one step: "
                    "with sync_replicas all workers need the same graph and must run the same "
                    "updates in a step, including those of hooks",
                    task, name);
}

/* SY1. All workers push the segments of one variable in the same order. So when two segments that change it belong to
 * the same updates, each worker that has pushed the later one has pushed the earlier one. */
static est_status check_segments(est_server *s, const char *task, uint64_t who, int segment)
{
    for (int i = 0; i < est_host_segments(s->host); i++) {
        uint64_t other = find_only_here(&s->segments[i], &s->segments[segment]);

        if (other == 0 || has_come(&s->segments[i], who) || !est_host_share(s->host, i, segment)) continue;
        return report_other_segments(s, task, other);
    }
    return EST_OK;
}

/* Adopts the timeline that the chief announced for the clock, even an earlier one: the clock's time may be behind. */
static void take_timeline(est_server *s)
{
    uint64_t timeline;

    pthread_mutex_lock(&s->lock);
    timeline         = s->told_timeline;
    s->told_timeline = 0;
    pthread_mutex_unlock(&s->lock);
    if (timeline == 0 || timeline >= s->version.timeline) return;
    forget_all_pushes(s);
    s->version = (est_step_id){ timeline, 0 };
}

est_status est_sync_replicas_add(est_server *s, est_request *request, int segment, est_step_id step)
{
    const char        *task  = est_link_peer(est_request_link(request))->task;
    uint64_t           who   = est_fingerprint64(task, strlen(task));
    est_segment_state *state = &s->segments[segment];

    take_timeline(s);
    if (step.timeline < s->version.timeline) {
        return est_fail(EST_ABORTED,
                        "%s pushes for a step of an old timeline: "
                        "the job was rolled back, or the task with global_step was restarted",
                        task);
    }
    if (is_before(step, s->version)) {
        s->dropped++;
        return EST_OK;
    }
    if (!is_same(step, s->version)) { /* the first push, also after a restart or a rollback */
        forget_all_pushes(s);
        s->version = step;
    }
    if (state->accumulator == NULL) EST_TRY(est_accumulator_create(s->host, segment, &state->accumulator));
    if (has_come(state, who) || (state->has_run && is_same(state->ran, step))) return EST_OK;
    EST_TRY(check_segments(s, task, who, segment));
    EST_TRY(reserve_push(state));
    EST_TRY(est_unpack_tensors(est_request_message(request), &s->inputs));
    EST_TRY(est_accumulator_add(state->accumulator, who, s->inputs.views, s->inputs.n));
    state->came[state->n_came++] = who;
    return EST_OK;
}

static est_status apply_pushes(est_server *s, int segment)
{
    est_segment_state       *state = &s->segments[segment];
    const est_tensor *const *feeds;

    EST_TRY(est_accumulator_mean(state->accumulator, &feeds));
    EST_TRY(est_host_run(s->host, segment, 0, feeds));
    forget_pushes(state);
    state->has_run = true;
    state->ran     = s->version; /* SY2: another segment may fail, and the step be repeated */
    s->applied++;
    return EST_OK;
}

/* Segments in the order of their phases: the step is counted after its updates. */
est_status est_sync_replicas_commit(est_server *s, est_step_id step)
{
    int last = 0;

    if (!is_same(step, s->version)) return EST_OK; /* applied already, or nothing was pushed */
    for (int i = 0; i < est_host_segments(s->host); i++) {
        if (s->segments[i].phase > last) last = s->segments[i].phase;
    }
    for (int phase = 0; phase <= last; phase++) {
        for (int i = 0; i < est_host_segments(s->host); i++) {
            const est_segment_state *state = &s->segments[i];

            if (state->phase == phase && state->accumulator != NULL && est_accumulator_count(state->accumulator) > 0) {
                EST_TRY(apply_pushes(s, i));
            }
        }
    }
    s->version.step++;
    return EST_OK;
}

bool est_sync_replicas_needs(const est_server *s, int segment)
{
    const est_segment_state *state = &s->segments[segment];

    if (state->accumulator != NULL && est_accumulator_count(state->accumulator) > 0) return true;
    return state->has_run && is_same(state->ran, s->version);
}

void est_sync_replicas_drop(est_server *s, est_step_id step)
{
    if (is_same(step, s->version)) forget_all_pushes(s);
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

/* The earlier request may have come over a link that broke unnoticed; it must not count as a second worker. */
static void drop_earlier_request(est_server *s, const char *task)
{
    for (int i = s->n_parked - 1; i >= 0; i--) {
        est_request *request = s->parked[i].request;

        if (s->parked[i].method != EST_METHOD_FINISH_STEP) continue;
        if (strcmp(est_link_peer(est_request_link(request))->task, task) != 0) continue;
        est_request_fail(request, EST_ABORTED, "replaced by a later request of the same task");
        s->parked[i] = s->parked[--s->n_parked];
    }
}

/* A worker that begins or finishes a step no longer commits another: that commit has failed. */
static void take_part(est_server *s, est_client *client)
{
    client->sync_replicas = client->joined = true;
    if (s->sync_replicas_ns == 0) s->sync_replicas_ns = est_now_ns();
    if (strcmp(s->committer, client->who.task) == 0) s->committer[0] = '\0';
    drop_earlier_request(s, client->who.task);
}

void est_sync_replicas_join(est_server *s, est_client *client)
{
    take_part(s, client);
    est_sync_replicas_wake(s);
}

est_status est_sync_replicas_finish_step(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_client        *client  = est_clients_get(s, est_request_link(request));

    if (client == NULL) return est_no_memory();
    take_part(s, client);
    EST_TRY(est_server_park(s, request, EST_METHOD_FINISH_STEP));
    s->parked[s->n_parked - 1].step   = (est_step_id){ est_head_u64(message, EST_FIELD_TIMELINE, 0),
                                                       (int64_t)est_head_u64(message, EST_FIELD_STEP, 0) };
    s->parked[s->n_parked - 1].wanted = (int)est_head_u64(message, EST_FIELD_SYNC_REPLICAS, 1);
    return EST_OK;
}

static void answer_step(est_server *s, int parked, bool commit)
{
    est_request *request = s->parked[parked].request;
    est_packing  packing = { 0 };

    s->parked[parked] = s->parked[--s->n_parked];
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, s->step);
    est_wire_put_u64(&packing.head, EST_FIELD_TIMELINE, s->timeline);
    est_wire_put_bool(&packing.head, EST_FIELD_COMMIT, commit);
    est_wire_put_bool(&packing.head, EST_FIELD_FINISHED, s->done || s->enough_made);
    est_service_finish(request, EST_OK, &packing);
}

/* SY3 */
void est_sync_replicas_fail_step(est_server *s, est_step_id step, est_status status, const char *why)
{
    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (s->parked[i].method != EST_METHOD_FINISH_STEP || !is_same(s->parked[i].step, step)) continue;
        est_request_fail(s->parked[i].request, status, why);
        s->parked[i] = s->parked[--s->n_parked];
    }
    if (is_same(s->committing, step)) s->committing = (est_step_id){ 0 }; /* nobody has to finish it */
}

/* How many workers must have pushed. */
static int workers_needed(est_server *s, int wanted)
{
    int  ever = 0, here = 0, need;
    bool late = s->sync_replicas_ns != 0 && est_now_ns() - s->sync_replicas_ns > est_secs_to_ns(EST_GATHER_SECS);

    for (int i = 0; i < s->n_clients; i++) {
        ever += s->clients[i]->joined;
        here += s->clients[i]->sync_replicas && s->clients[i]->link != NULL;
    }
    need = ever < wanted && !late ? wanted : here < wanted ? here : wanted;
    if (need != s->enough && s->enough != 0) {
        est_log_info("%s: a step is the mean of what %d workers push (%d configured, %d connected)", s->task, need,
                     wanted, here);
    }
    s->enough = need;
    return need;
}

void est_sync_replicas_wake(est_server *s)
{
    int came = 0, one = -1;

    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (s->parked[i].method == EST_METHOD_FINISH_STEP &&
            (is_before(s->parked[i].step, (est_step_id){ s->timeline, s->step }) || s->done))
            answer_step(s, i, false);
    }
    for (int i = 0; i < s->n_parked; i++) {
        if (s->parked[i].method != EST_METHOD_FINISH_STEP) continue;
        one = i;
        came++;
    }
    if (came == 0 || est_gate_is_held(s->gate) || s->committer[0] != '\0' ||
        came < workers_needed(s, s->parked[one].wanted))
        return;
    snprintf(s->committer, sizeof s->committer, "%s", est_link_peer(est_request_link(s->parked[one].request))->task);
    s->committing = (est_step_id){ s->timeline, s->step };
    answer_step(s, one, true);
}
