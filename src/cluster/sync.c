/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronous steps. */
#include "cluster/sync.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fingerprint.h"
#include "base/log.h"

/* --- collecting -------------------------------------------------------------------------------------------------------- */

static void forget(est_part_state *state)
{
    if (state->collect != NULL) est_collect_reset(state->collect);
    state->n_came = 0;
}

static void forget_collected(est_server *s)
{
    for (int i = 0; i < est_host_parts(s->host); i++) forget(&s->parts[i]);
}

/* A worker that makes its step again, because a link broke or it was started anew, has pushed already. */
static bool has_come(const est_part_state *state, uint64_t who)
{
    for (int i = 0; i < state->n_came; i++) {
        if (state->came[i] == who) return true;
    }
    return false;
}

static est_status reserve_one(est_part_state *state)
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

static bool is_before(est_tag a, est_tag b)
{
    return a.era < b.era || (a.era == b.era && a.step < b.step);
}

static bool is_same(est_tag a, est_tag b)
{
    return a.era == b.era && a.step == b.step;
}

/* Whoever came to one part and not to the other; 0: nobody. */
static uint64_t find_only_here(const est_part_state *here, const est_part_state *there)
{
    for (int i = 0; i < here->n_came; i++) {
        if (!has_come(there, here->came[i])) return here->came[i];
    }
    return 0;
}

static est_status report_other_parts(est_server *s, const char *task, uint64_t who)
{
    char name[EST_NET_NAME_MAX] = "another worker";

    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n_clients; i++) {
        const char *client = s->clients[i]->who.task;

        if (est_fingerprint64(client, strlen(client)) == who) snprintf(name, sizeof name, "%s", client);
    }
    pthread_mutex_unlock(&s->lock);
    return est_fail(
        EST_FAILED_PRECONDITION,
        "what %s pushes does not go together with what %s has pushed: workers that make steps together need the same graph "
        "and must run the same updates with a step, those of hooks included",
        task, name);
}

/* SR1. Everybody changes a variable in the same order: so of two parts that change one and go together, the earlier has all who came
 * to the later. */
static est_status check_parts(est_server *s, const char *task, uint64_t who, int part)
{
    for (int i = 0; i < est_host_parts(s->host); i++) {
        uint64_t other = find_only_here(&s->parts[i], &s->parts[part]);

        if (other == 0 || has_come(&s->parts[i], who) || !est_host_share(s->host, i, part)) continue;
        return report_other_parts(s, task, other);
    }
    return EST_OK;
}

/* What the chief has said of the clock: its steps are those to be made, though its time may be behind. */
static void take_era(est_server *s)
{
    uint64_t era;

    pthread_mutex_lock(&s->lock);
    era         = s->told_era;
    s->told_era = 0;
    pthread_mutex_unlock(&s->lock);
    if (era == 0 || era >= s->version.era) return;
    forget_collected(s);
    s->version = (est_tag){ era, 0 };
}

est_status est_sync_add(est_server *s, est_request *request, int part, est_tag tag)
{
    const char     *task  = est_link_peer(est_request_link(request))->task;
    uint64_t        who   = est_fingerprint64(task, strlen(task));
    est_part_state *state = &s->parts[part];

    take_era(s);
    if (tag.era < s->version.era) {
        return est_fail(EST_ABORTED,
                        "%s pushes for a step from before the job went back, or the clock was started anew", task);
    }
    if (is_before(tag, s->version)) {
        s->dropped++;
        return EST_OK;
    }
    if (!is_same(tag, s->version)) { /* the first, or the first after this task was started anew or the job went back */
        forget_collected(s);
        s->version = tag;
    }
    if (state->collect == NULL) EST_TRY(est_collect_create(s->host, part, &state->collect));
    if (has_come(state, who) || (state->has_run && is_same(state->ran, tag))) return EST_OK;
    EST_TRY(check_parts(s, task, who, part));
    EST_TRY(reserve_one(state));
    EST_TRY(est_unpack_tensors(est_request_message(request), &s->inputs));
    EST_TRY(est_collect_add(state->collect, who, s->inputs.views, s->inputs.n));
    state->came[state->n_came++] = who;
    return EST_OK;
}

static est_status run_collected(est_server *s, int part)
{
    est_part_state          *state = &s->parts[part];
    const est_tensor *const *feeds;

    EST_TRY(est_collect_mean(state->collect, &feeds));
    EST_TRY(est_host_run(s->host, part, 0, feeds));
    forget(state);
    state->has_run = true;
    state->ran     = s->version; /* another part may fail, and the step be made again */
    s->applied++;
    return EST_OK;
}

/* Parts in the order of their phases: what counts a step comes after what it counts. */
est_status est_sync_commit(est_server *s, est_tag tag)
{
    int last = 0;

    if (!is_same(tag, s->version)) return EST_OK; /* done already, or nothing came */
    for (int i = 0; i < est_host_parts(s->host); i++) {
        if (s->parts[i].phase > last) last = s->parts[i].phase;
    }
    for (int phase = 0; phase <= last; phase++) {
        for (int i = 0; i < est_host_parts(s->host); i++) {
            const est_part_state *state = &s->parts[i];

            if (state->phase == phase && state->collect != NULL && est_collect_count(state->collect) > 0) {
                EST_TRY(run_collected(s, i));
            }
        }
    }
    s->version.step++;
    return EST_OK;
}

void est_sync_drop(est_server *s, est_tag tag)
{
    if (is_same(tag, s->version)) forget_collected(s);
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

/* Over a link that broke, perhaps, which is not known here yet: counted as well it would be two workers. */
static void stop_waiting(est_server *s, const char *task)
{
    for (int i = s->n_parked - 1; i >= 0; i--) {
        est_request *request = s->parked[i].request;

        if (s->parked[i].method != EST_METHOD_FINISH_STEP) continue;
        if (strcmp(est_link_peer(est_request_link(request))->task, task) != 0) continue;
        est_request_fail(request, EST_ABORTED, "asked again");
        s->parked[i] = s->parked[--s->n_parked];
    }
}

/* One that begins or finishes a step does not commit another: whatever it was to do has failed. */
static void take_part(est_server *s, est_client *client)
{
    client->sync_replicas = client->joined = true;
    if (s->sync_replicas_ns == 0) s->sync_replicas_ns = est_now_ns();
    if (strcmp(s->committer, client->who.task) == 0) s->committer[0] = '\0';
    stop_waiting(s, client->who.task);
}

void est_sync_join(est_server *s, est_client *client)
{
    take_part(s, client);
    est_sync_wake(s);
}

est_status est_sync_finish_step(est_server *s, est_request *request)
{
    const est_message *message = est_request_message(request);
    est_client        *client  = est_server_client(s, est_request_link(request));

    if (client == NULL) return est_no_memory();
    take_part(s, client);
    EST_TRY(est_server_park(s, request, EST_METHOD_FINISH_STEP));
    s->parked[s->n_parked - 1].tag    = (est_tag){ est_head_u64(message, EST_FIELD_ERA, 0),
                                                   (int64_t)est_head_u64(message, EST_FIELD_STEP, 0) };
    s->parked[s->n_parked - 1].wanted = (int)est_head_u64(message, EST_FIELD_SYNC_REPLICAS, 1);
    return EST_OK;
}

static void answer_step(est_server *s, int parked, bool commit)
{
    est_request *request = s->parked[parked].request;
    est_packing  packing = { 0 };
    est_payload  payload;

    s->parked[parked] = s->parked[--s->n_parked];
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, s->step);
    est_wire_put_u64(&packing.head, EST_FIELD_ERA, s->era);
    est_wire_put_bool(&packing.head, EST_FIELD_COMMIT, commit);
    est_wire_put_bool(&packing.head, EST_FIELD_FINISHED, s->done || s->enough_made);
    if (est_packing_payload(&packing, &payload) == EST_OK) {
        est_request_answer(request, payload);
    } else {
        est_request_fail(request, EST_RESOURCE_EXHAUSTED, "no memory for an answer");
    }
    est_packing_clear(&packing);
}

/* SR3 */
void est_sync_fail_step(est_server *s, est_tag tag, est_status status, const char *why)
{
    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (s->parked[i].method != EST_METHOD_FINISH_STEP || !is_same(s->parked[i].tag, tag)) continue;
        est_request_fail(s->parked[i].request, status, why);
        s->parked[i] = s->parked[--s->n_parked];
    }
    if (is_same(s->committing, tag)) s->committing = (est_tag){ 0 }; /* nobody is to finish it */
}

/* How many must have pushed. */
static int enough(est_server *s, int wanted)
{
    int  ever = 0, here = 0, need;
    bool late = s->sync_replicas_ns != 0 && est_now_ns() - s->sync_replicas_ns > est_secs_to_ns(EST_GATHER_SECS);

    for (int i = 0; i < s->n_clients; i++) {
        ever += s->clients[i]->joined;
        here += s->clients[i]->sync_replicas && s->clients[i]->link != NULL;
    }
    need = ever < wanted && !late ? wanted : here < wanted ? here : wanted;
    if (need != s->enough && s->enough != 0) {
        est_log_info("%s: steps are made of what %d workers push (of %d asked for; %d are here)", s->task, need, wanted,
                     here);
    }
    s->enough = need;
    return need;
}

void est_sync_wake(est_server *s)
{
    int came = 0, one = -1;

    for (int i = s->n_parked - 1; i >= 0; i--) {
        if (s->parked[i].method == EST_METHOD_FINISH_STEP &&
            (is_before(s->parked[i].tag, (est_tag){ s->era, s->step }) || s->done))
            answer_step(s, i, false);
    }
    for (int i = 0; i < s->n_parked; i++) {
        if (s->parked[i].method != EST_METHOD_FINISH_STEP) continue;
        one = i;
        came++;
    }
    if (came == 0 || est_gate_is_held(s->gate) || s->committer[0] != '\0' || came < enough(s, s->parked[one].wanted))
        return;
    snprintf(s->committer, sizeof s->committer, "%s", est_link_peer(est_request_link(s->parked[one].request))->task);
    s->committing = (est_tag){ s->era, s->step };
    answer_step(s, one, true);
}
