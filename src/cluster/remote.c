/* SPDX-License-Identifier: Apache-2.0
 *
 * A session's side of the cluster: runtime/remote.h kept with the network.
 *
 * A run that is asked for and not answered because the link broke is asked for again over a new link with the same sequence
 * number, as long as the task is the same process: it answers from memory what it has done already (cluster/server.h). A task
 * that was started anew has lost its variables, which is the session's business: EST_UNAVAILABLE. */
#include "cluster/remote.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/options.h"
#include "base/signals.h"
#include "cluster/entries.h"
#include "cluster/status.h"
#include "cluster/waits.h"

#define CONNECT_SECS_DEFAULT 7200.0
#define ANSWER_SECS_DEFAULT  600.0
#define ASK_SECS             60.0 /* for what takes no time of its own */
#define SLICE_SECS           0.5  /* between two looks at signals while waiting */
#define FIRST_REPORT_SECS    10.0 /* a wait is reported after that or a quarter of its limit, and after each doubling */
#define FILES_SECS           3600.0 /* to write or read a task's part of a checkpoint */
#define LEAVE_SECS           2.0
#define BREAKS_MAX           5 /* of links in a row while one run is asked for */

typedef struct peer {
    char      *address;
    char       name[EST_NET_NAME_MAX];
    char      *who;  /* the task that talks to it, this one; borrowed from the server */
    est_link  *link; /* NULL: none yet */
    uint64_t   incarnation;
    uint64_t   sequence;  /* of the last run */
    est_map    variables; /* name -> whether it has a value; both in `names` */
    est_arena *names;
    uint64_t   load; /* bytes of its variables */
} peer;

typedef struct cluster_remote {
    est_remote         base;
    est_server        *server;
    est_remote_options options;
    peer              *peers; /* [base.n_tasks] */
    est_remote_call   *calls; /* all that were entered */
    est_partitioner    partitioner;
    int                placed;    /* the task after the last that was given a variable */
    bool               has_turn;  /* given with the answer to the last step */
    int64_t            tag;       /* of steps that are made together: the step under way; -1: not known */
    bool               pushed;    /* something of it was */
    bool               committed; /* it was made */
    bool (*over)(void *user);
    void *over_user;
} cluster_remote;

struct est_remote_call {
    cluster_remote  *remote;
    int              task, part, phase;
    bool             collected; /* it writes in training steps that are made together */
    est_ask         *ask;       /* under way; NULL: none */
    bool             started;
    uint64_t         sequence, incarnation;
    est_packing      in;
    est_message     *answer;
    est_unpacked     out;
    int              n_out;
    est_remote_call *next;
};

static cluster_remote *of(const est_remote *remote)
{
    cluster_remote *r;

    memcpy(&r, &remote, sizeof r); /* it is the first member, of something that is not const */
    return r;
}

/* --- waiting --------------------------------------------------------------------------------------------------------------- */

/* Somebody who waits, with the reason for it. */
typedef struct waiting {
    const cluster_remote *remote;
    const char           *for_whom, *why;
    int64_t               since_ns;
    double                limit_secs, report_secs;
    bool                  reported;
    int                   wait; /* for the status view */
} waiting;

static waiting begin_wait(const cluster_remote *r, const char *for_whom, const char *why, double limit_secs)
{
    double report_secs = limit_secs / 4 < FIRST_REPORT_SECS ? limit_secs / 4 : FIRST_REPORT_SECS;
    int    wait        = est_wait_begin(r->server->task, for_whom, why);

    return (waiting){ r, for_whom, why, est_now_ns(), limit_secs, report_secs, false, wait };
}

static double waited(const waiting *w)
{
    return (double)(est_now_ns() - w->since_ns) / (double)EST_NS_PER_SEC;
}

/* Whether to go on waiting; says so in the log now and then. `detail`: what was seen last, or "". */
static est_status keep_waiting(waiting *w, const char *detail)
{
    double secs = waited(w);

    if (est_stop_signal() != 0) {
        return est_fail(EST_CANCELLED, "%s while waiting for %s (%s)", est_stop_signal_name(), w->for_whom, w->why);
    }
    if (w->remote->over != NULL && w->remote->over(w->remote->over_user)) {
        return est_fail(EST_OUT_OF_RANGE, "the job has ended while waiting for %s", w->for_whom);
    }
    if (secs > w->limit_secs) {
        return est_fail(EST_DEADLINE_EXCEEDED, "waited %.0f s for %s (%s)%s%s", secs, w->for_whom, w->why,
                        detail[0] != '\0' ? ": " : "", detail);
    }
    if (secs >= w->report_secs) {
        est_log_info("%s waits for %s since %.0f s: %s%s%s", w->remote->server->task, w->for_whom, secs, w->why,
                     detail[0] != '\0' ? "; " : "", detail);
        w->report_secs *= 2;
        w->reported = true;
    }
    return EST_OK;
}

/* --- asking ------------------------------------------------------------------------------------------------------------------ */

static est_status ask_peer(const peer *p, est_method method, const est_packing *packing, double secs,
                           est_message **answer)
{
    est_payload payload;
    est_ask    *ask;
    est_status  status;
    int         wait;

    EST_TRY(est_packing_payload(packing, &payload));
    EST_TRY(est_link_ask(p->link, (uint16_t)method, est_method_text(method), payload, secs, NULL, NULL, &ask));
    wait   = est_wait_begin(p->who, p->name, est_method_text(method));
    status = est_ask_wait(ask, answer);
    est_wait_end(wait);
    return status;
}

/* The same when the answer is of no interest. */
static est_status tell_peer(const peer *p, est_method method, const est_packing *packing, double secs)
{
    est_message *answer;

    EST_TRY(ask_peer(p, method, packing, secs, &answer));
    est_message_free(answer);
    return EST_OK;
}

/* An answer that may take long, because others come first. */
typedef struct slow_answer {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            done;
    est_status      status;
    char            error[512];
    est_message    *answer;
} slow_answer;

static void take_answer(void *user, est_status status, const char *error, est_message *answer)
{
    slow_answer *p = user;

    pthread_mutex_lock(&p->lock);
    p->done   = true;
    p->status = status;
    if (status == EST_OK) {
        p->answer = est_message_ref(answer);
    } else {
        snprintf(p->error, sizeof p->error, "%s", error);
    }
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* A task whose link breaks may have lost its variables. The chief must see to that before anybody can go on, and whoever has
 * begun a step finds out by itself; so nobody waits for the others meanwhile. */
static est_status check_links(const cluster_remote *r)
{
    for (int i = 0; i < r->base.n_tasks; i++) {
        const peer *p = &r->peers[i];

        if (p->link != NULL && est_link_is_lost(p->link)) return est_fail(EST_UNAVAILABLE, "%s is lost", p->name);
    }
    return EST_OK;
}

/* Ends a wait: the answer is not to come later. Who leaves is answered at once and keeps the link, for what a stopped task has
 * still to do; a link that does not do even that is closed. */
static void give_up(const peer *p, est_status status)
{
    est_packing nothing = { 0 };
    est_error   error;

    est_error_take(status, &error);
    if (tell_peer(p, EST_METHOD_LEAVE, &nothing, LEAVE_SECS) != EST_OK) est_link_close(p->link, "gave up waiting");
    (void)est_error_raise(&error);
}

static est_status wait_patiently(const cluster_remote *r, const peer *p, slow_answer *got, const char *why,
                                 double limit_secs)
{
    waiting    w      = begin_wait(r, p->name, why, limit_secs);
    est_status status = EST_OK;

    pthread_mutex_lock(&got->lock);
    while (!got->done) {
        est_cond_wait_ns(&got->changed, &got->lock, (int64_t)(SLICE_SECS * (double)EST_NS_PER_SEC));
        if (got->done || status != EST_OK) continue;
        status = keep_waiting(&w, "");
        if (status == EST_OK) status = check_links(r);
        if (status == EST_OK) continue;
        pthread_mutex_unlock(&got->lock);
        give_up(p, status);
        pthread_mutex_lock(&got->lock);
    }
    pthread_mutex_unlock(&got->lock);
    est_wait_end(w.wait);
    return status;
}

/* limit_secs INFINITY: as long as the task is alive. */
static est_status ask_patiently(const cluster_remote *r, const peer *p, est_method method, const est_packing *packing,
                                const char *why, double limit_secs, est_message **answer)
{
    slow_answer got = { 0 };
    est_payload payload;
    est_status  status;

    EST_TRY(est_packing_payload(packing, &payload));
    EST_TRY(est_lock_init(&got.lock));
    EST_TRY(est_cond_init(&got.changed));
    status = est_link_ask(p->link, (uint16_t)method, est_method_text(method), payload,
                          isfinite(limit_secs) ? limit_secs + LEAVE_SECS : EST_FOREVER, take_answer, &got, NULL);
    if (status == EST_OK) {
        status = wait_patiently(r, p, &got, why, limit_secs);
        if (status == EST_OK && got.status != EST_OK) status = est_fail(got.status, "%s", got.error);
    }
    if (status == EST_OK) {
        *answer = got.answer;
    } else {
        est_message_free(got.answer);
    }
    pthread_mutex_destroy(&got.lock);
    pthread_cond_destroy(&got.changed);
    return status;
}

/* --- links -------------------------------------------------------------------------------------------------------------------- */

static bool may_come_yet(est_status status)
{
    return status == EST_UNAVAILABLE || status == EST_DEADLINE_EXCEEDED;
}

static est_status connect_patiently(waiting *w, peer *p)
{
    est_status status;

    do {
        status = est_net_connect(est_server_net(w->remote->server), p->address, p->name, SLICE_SECS, &p->link);
        if (may_come_yet(status)) {
            char why[256];

            snprintf(why, sizeof why, "%s", est_error_message());
            EST_TRY(keep_waiting(w, why));
        }
    } while (may_come_yet(status));
    return status;
}

/* A link to the peer, within the limit. */
static est_status reach(const cluster_remote *r, peer *p, double limit_secs)
{
    waiting    w;
    est_status status;

    if (p->link != NULL && !est_link_is_lost(p->link)) return EST_OK;
    est_link_free(p->link);
    p->link = NULL;
    w       = begin_wait(r, p->name, "it is not there", limit_secs);
    status  = connect_patiently(&w, p);
    est_wait_end(w.wait);
    EST_TRY(status);
    if (w.reported) est_log_info("%s is there", p->name);
    return EST_OK;
}

static void forget_variables(peer *p)
{
    est_map_clear(&p->variables);
    est_arena_free(p->names);
    p->names = NULL;
    p->load  = 0;
}

static est_status take_variables(peer *p, const est_message *message)
{
    est_wire_reader r;
    est_wire_field  field;
    const char     *name = NULL;

    p->names = est_arena_create();
    if (p->names == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the variables of %s", p->name);
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_NAME) {
            est_str text = est_wire_bytes(&r, &field);

            name = est_arena_printf(p->names, "%.*s", (int)text.size, text.data);
            if (name == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the variables of %s", p->name);
        } else if (field.number == EST_FIELD_INITIALIZED && name != NULL) {
            bool *has_value = est_arena_alloc(p->names, sizeof *has_value);

            if (has_value == NULL) {
                return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the variables of %s", p->name);
            }
            *has_value = est_wire_bool(&r, &field);
            EST_TRY(est_map_put(&p->variables, name, has_value));
        } else if (field.number == EST_FIELD_SIZE) {
            p->load += est_wire_u64(&r, &field);
        }
    }
    return est_wire_finish(&r);
}

static est_status list_variables(peer *p)
{
    est_packing  nothing = { 0 };
    est_message *message;
    est_status   status;

    forget_variables(p);
    EST_TRY(ask_peer(p, EST_METHOD_VARIABLES, &nothing, ASK_SECS, &message));
    status = take_variables(p, message);
    est_message_free(message);
    return status;
}

static est_status await_ready(const cluster_remote *r, const peer *p)
{
    est_packing  nothing = { 0 };
    est_message *message;

    EST_TRY(ask_patiently(r, p, EST_METHOD_AWAIT_READY, &nothing, "the chief has not given its variables their values",
                          r->options.connect_secs, &message));
    est_message_free(message);
    return EST_OK;
}

static est_status connect_peer(cluster_remote *r, peer *p)
{
    EST_TRY(reach(r, p, r->options.connect_secs));
    if (p->incarnation != est_link_peer(p->link)->incarnation) p->sequence = 0;
    p->incarnation = est_link_peer(p->link)->incarnation;
    return EST_OK;
}

static est_status connect_all(est_remote *remote)
{
    cluster_remote *r = of(remote);

    r->has_turn = r->pushed = r->committed = false;
    r->tag                                 = -1;
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(connect_peer(r, &r->peers[i]));
    for (int i = 0; i < remote->n_tasks && !r->options.is_chief; i++) EST_TRY(await_ready(r, &r->peers[i]));
    for (int i = 0; i < remote->n_tasks; i++) EST_TRY(list_variables(&r->peers[i]));
    return EST_OK;
}

/* --- names and places ------------------------------------------------------------------------------------------------------------ */

static const char *name_of(const est_remote *remote, int task)
{
    return of(remote)->peers[task].name;
}

static int find_task(const est_remote *remote, const char *job, int index)
{
    char name[EST_NET_NAME_MAX];

    snprintf(name, sizeof name, "%.40s:%d", job, index);
    for (int i = 0; i < remote->n_tasks; i++) {
        if (strcmp(of(remote)->peers[i].name, name) == 0) return i;
    }
    return -1;
}

static bool is_here(const est_remote *remote, const char *job, int index)
{
    char name[EST_NET_NAME_MAX];

    snprintf(name, sizeof name, "%.40s:%d", job, index);
    return strcmp(of(remote)->server->task, name) == 0;
}

static int located(const est_remote *remote, const char *variable)
{
    for (int i = 0; i < remote->n_tasks; i++) {
        if (est_map_get(&of(remote)->peers[i].variables, variable) != NULL) return i;
    }
    return -1;
}

static int place(est_remote *remote, uint64_t bytes, const bool *taken)
{
    cluster_remote *r     = of(remote);
    peer           *peers = r->peers;
    int             best  = -1;

    for (int i = 0; i < remote->n_keepers; i++) {
        int at = r->options.round_robin ? (r->placed + i) % remote->n_keepers : i;

        if (taken != NULL && taken[at]) continue;
        if (best < 0 || (!r->options.round_robin && peers[at].load < peers[best].load)) best = at;
    }
    r->placed = best + 1;
    peers[best].load += bytes;
    return best;
}

/* --- segments ------------------------------------------------------------------------------------------------------------------- */

static est_status enter_at(est_remote_call *call, const est_segment *segment)
{
    const peer     *p       = &call->remote->peers[call->task];
    est_wire_writer bytes   = { 0 };
    est_packing     packing = { 0 };
    est_message    *answer  = NULL;
    est_status      status  = est_segment_encode(segment, &bytes);

    if (status == EST_OK) {
        est_wire_put_bytes(&packing.head, EST_FIELD_BYTES, bytes.data, bytes.size);
        est_wire_put_i64(&packing.head, EST_FIELD_PHASE, segment->phase);
        status = ask_peer(p, EST_METHOD_ENTER, &packing, call->remote->options.answer_secs, &answer);
    }
    if (status == EST_OK) {
        call->part = (int)est_head_u64(answer, EST_FIELD_PART, 0);
        if (est_head_u64(answer, EST_FIELD_OUTPUTS, 0) != (uint64_t)segment->io.n_fetches) {
            status = est_fail(EST_INTERNAL, "%s gives other results than it was asked for", p->name);
        }
    }
    est_message_free(answer);
    est_wire_writer_clear(&bytes);
    est_packing_clear(&packing);
    return status;
}

static est_status enter(est_remote *remote, const est_segment *segment, est_remote_call **out)
{
    est_remote_call *call = est_zalloc(sizeof *call);
    est_status       status;

    if (call == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a segment");
    call->remote      = of(remote);
    call->task        = segment->task;
    call->phase       = segment->phase;
    call->n_out       = segment->io.n_fetches;
    call->collected   = segment->writes && segment->trains && call->remote->options.sync_replicas > 0;
    call->incarnation = call->remote->peers[call->task].incarnation;
    status            = enter_at(call, segment);
    if (status != EST_OK) {
        est_free(call);
        return status;
    }
    call->next          = call->remote->calls;
    call->remote->calls = call;
    *out                = call;
    return EST_OK;
}

static void drop_ask(est_remote_call *call)
{
    est_message *answer;

    if (call->ask == NULL) return;
    if (est_ask_wait(call->ask, &answer) == EST_OK) est_message_free(answer);
    call->ask = NULL;
}

static void leave(est_remote_call *call)
{
    if (call == NULL) return;
    drop_ask(call);
    for (est_remote_call **at = &call->remote->calls; *at != NULL; at = &(*at)->next) {
        if (*at != call) continue;
        *at = call->next;
        break;
    }
    est_packing_clear(&call->in);
    est_message_free(call->answer);
    est_unpacked_clear(&call->out);
    est_free(call);
}

static est_status send(est_remote_call *call)
{
    const cluster_remote *r = call->remote;
    est_payload           payload;
    char                  what[64];

    snprintf(what, sizeof what, "phase %d of a step", call->phase);
    EST_TRY(est_packing_payload(&call->in, &payload));
    return est_link_ask(r->peers[call->task].link, EST_METHOD_RUN, what, payload, r->options.answer_secs, NULL, NULL,
                        &call->ask);
}

static void write_ledger(const est_remote_call *call, const peer *p)
{
    FILE *ledger = call->remote->server->ledger;

    if (ledger == NULL) return;
    fprintf(ledger, "asks %s %016" PRIx64 " %" PRIu64 " %d\n", p->name, p->incarnation, call->sequence, call->part);
    (void)fflush(ledger);
}

/* What is pushed after the step was made is of no step. */
static est_status tag_run(est_remote_call *call)
{
    cluster_remote *r = call->remote;

    if (r->tag < 0) return est_fail(EST_FAILED_PRECONDITION, "a step that is made together begins with a turn");
    if (r->committed) {
        return est_fail(EST_UNIMPLEMENTED, "an update depends on the result of another one, which steps that are made "
                                           "together do not have before they end");
    }
    r->pushed = true;
    est_wire_put_i64(&call->in.head, EST_FIELD_TAG, r->tag + 1);
    return EST_OK;
}

static est_status start(est_remote_call *call, uint64_t run_seed, est_view *const *in, int n_in)
{
    peer *p = &call->remote->peers[call->task];

    est_message_free(call->answer);
    call->answer   = NULL;
    call->sequence = ++p->sequence;
    call->started  = true;
    write_ledger(call, p);
    est_packing_reset(&call->in);
    est_wire_put_i64(&call->in.head, EST_FIELD_PART, call->part);
    est_wire_put_u64(&call->in.head, EST_FIELD_SEQUENCE, call->sequence);
    est_wire_put_u64(&call->in.head, EST_FIELD_SEED, run_seed);
    if (call->collected) EST_TRY(tag_run(call));
    for (int i = 0; i < n_in; i++) est_pack_view(&call->in, in[i]);
    if (send(call) != EST_OK) { /* finish finds out what became of the task, and asks again if it can */
        est_error_clear();
        call->ask = NULL;
    }
    return EST_OK;
}

/* Over a new link to the same process, which may have done it already. */
static est_status ask_again(est_remote_call *call)
{
    cluster_remote *r = call->remote;
    peer           *p = &r->peers[call->task];

    EST_TRY(reach(r, p, r->server->silence_secs));
    if (est_link_peer(p->link)->incarnation != call->incarnation) {
        return est_fail(EST_UNAVAILABLE, "%s was started anew and has lost its variables", p->name);
    }
    return send(call);
}

/* --- steps that are made together (cluster/sync.h) ------------------------------------------------------------------------------------ */

static est_status find_clock(cluster_remote *r, peer **out);

/* All other tasks first, at the same time; the clock, which lets everybody go, last. */
static est_status commit_step(cluster_remote *r, const peer *clock)
{
    est_packing packing = { 0 };
    est_ask   **asks    = est_zalloc(sizeof(est_ask *) * ((size_t)r->base.n_tasks + 1));
    est_payload payload;
    est_error   error;
    est_status  status;

    est_wire_put_i64(&packing.head, EST_FIELD_STEP, r->tag);
    status = asks != NULL ? est_packing_payload(&packing, &payload)
                          : est_fail(EST_RESOURCE_EXHAUSTED, "no memory to commit");
    for (int i = 0; i < r->base.n_tasks && status == EST_OK; i++) {
        if (&r->peers[i] == clock) continue;
        status = est_link_ask(r->peers[i].link, EST_METHOD_COMMIT, est_method_text(EST_METHOD_COMMIT), payload,
                              r->options.answer_secs, NULL, NULL, &asks[i]);
    }
    est_error_take(status, &error);
    for (int i = 0; asks != NULL && i < r->base.n_tasks; i++) {
        est_message *answer;
        est_status   own = asks[i] != NULL ? est_ask_wait(asks[i], &answer) : EST_OK;

        if (asks[i] != NULL && own == EST_OK) est_message_free(answer);
        if (own != EST_OK && status == EST_OK) est_error_take(status = own, &error);
    }
    if (status == EST_OK) {
        status = tell_peer(clock, EST_METHOD_COMMIT, &packing, r->options.answer_secs);
    } else {
        (void)est_error_raise(&error);
    }
    est_free(asks);
    est_packing_clear(&packing);
    return status;
}

/* Waits until the step was made, which may be up to this task. */
static est_status complete_step(cluster_remote *r)
{
    est_packing  packing = { 0 };
    est_message *answer;
    peer        *clock;
    bool         commit;
    int64_t      step;
    est_status   status;

    if (r->committed) return EST_OK;
    EST_TRY(find_clock(r, &clock));
    est_wire_put_i64(&packing.head, EST_FIELD_STEP, r->tag);
    est_wire_put_i64(&packing.head, EST_FIELD_TOGETHER, r->options.sync_replicas);
    status = ask_patiently(r, clock, EST_METHOD_FINISH_STEP, &packing, "other workers have not pushed yet",
                           r->options.connect_secs, &answer);
    est_packing_clear(&packing);
    EST_TRY(status);
    commit = est_head_u64(answer, EST_FIELD_COMMIT, 0) != 0;
    step   = (int64_t)est_head_u64(answer, EST_FIELD_STEP, 0);
    est_message_free(answer);
    if (commit) {
        EST_TRY(commit_step(r, clock));
        step = r->tag + 1;
    }
    r->committed = true;
    r->tag       = step;
    return EST_OK;
}

/* The results of the step, in place of the answer that said that the push has come. */
static est_status fetch_collected(est_remote_call *call)
{
    cluster_remote *r       = call->remote;
    est_packing     packing = { 0 };
    est_status      status;

    EST_TRY(complete_step(r));
    est_message_free(call->answer);
    call->answer = NULL;
    est_wire_put_i64(&packing.head, EST_FIELD_PART, call->part);
    status = ask_peer(&r->peers[call->task], EST_METHOD_COLLECTED, &packing, r->options.answer_secs, &call->answer);
    est_packing_clear(&packing);
    return status;
}

static est_status join_step(cluster_remote *r, bool *finished)
{
    est_packing  packing = { 0 };
    est_message *answer;
    peer        *clock;
    est_status   status;

    if (r->pushed) EST_TRY(complete_step(r)); /* nobody asked for a result of it */
    r->pushed = false;
    if (r->committed) { /* it is known where the job is */
        r->committed = false;
        *finished    = r->options.step_limit > 0 && r->tag >= r->options.step_limit;
        return EST_OK;
    }
    EST_TRY(find_clock(r, &clock));
    est_wire_put_i64(&packing.head, EST_FIELD_LIMIT, r->options.step_limit);
    est_wire_put_i64(&packing.head, EST_FIELD_TOGETHER, r->options.sync_replicas);
    status = ask_patiently(r, clock, EST_METHOD_TURN, &packing, "steps of others are under way",
                           r->options.connect_secs, &answer);
    est_packing_clear(&packing);
    EST_TRY(status);
    *finished = est_head_u64(answer, EST_FIELD_FINISHED, 0) != 0;
    r->tag    = (int64_t)est_head_u64(answer, EST_FIELD_STEP, 0);
    est_message_free(answer);
    return EST_OK;
}

static est_status await_answer(est_remote_call *call)
{
    est_server *server = call->remote->server;
    est_status  status;
    char        why[64];
    int         wait;

    snprintf(why, sizeof why, "phase %d of a step", call->phase);
    wait      = est_wait_begin(server->task, call->remote->peers[call->task].name, why);
    status    = est_ask_wait(call->ask, &call->answer);
    call->ask = NULL;
    est_wait_end(wait);
    pthread_mutex_lock(&server->lock);
    est_server_sample(server);
    pthread_mutex_unlock(&server->lock);
    return status;
}

static est_status finish(est_remote_call *call, const est_view **out)
{
    const peer *p = &call->remote->peers[call->task];
    est_status  status;

    if (!call->started) return est_fail(EST_INTERNAL, "a segment of %s was not started", p->name);
    call->started = false;
    status        = EST_UNAVAILABLE;
    if (call->ask != NULL) status = await_answer(call);
    for (int breaks = 0; status == EST_UNAVAILABLE && breaks < BREAKS_MAX; breaks++) {
        status = ask_again(call);
        if (status == EST_DEADLINE_EXCEEDED) return est_fail_context(EST_UNAVAILABLE, "%s is lost", p->name);
        EST_TRY(status);
        status = await_answer(call);
    }
    EST_TRY(status);
    if (call->collected && call->n_out > 0) EST_TRY(fetch_collected(call));
    EST_TRY(est_unpack_tensors(call->answer, &call->out));
    if (call->out.n != call->n_out) {
        return est_fail(EST_DATA_LOSS, "%s answered with %d tensors instead of %d", p->name, call->out.n, call->n_out);
    }
    if (est_head_u64(call->answer, EST_FIELD_TURN, 0) != 0) call->remote->has_turn = true;
    *out = call->out.views;
    return EST_OK;
}

static void abandon(est_remote *remote)
{
    of(remote)->has_turn = false; /* the next step asks anew, which gives back whatever turn there is */
    of(remote)->pushed = of(remote)->committed = false;
    for (est_remote_call *call = of(remote)->calls; call != NULL; call = call->next) {
        drop_ask(call);
        call->started = false;
    }
}

/* --- variables ------------------------------------------------------------------------------------------------------------------- */

static est_status initialized(est_remote *remote, est_var *const *vars, int n, bool *flags)
{
    cluster_remote *r = of(remote);

    for (int i = 0; i < remote->n_tasks; i++) {
        uint64_t load = r->peers[i].load; /* what was placed and is not there yet counts, too */

        EST_TRY(list_variables(&r->peers[i]));
        if (r->peers[i].load < load) r->peers[i].load = load;
    }
    for (int i = 0; i < n; i++) {
        const bool *has_value = est_map_get(&r->peers[vars[i]->task].variables, vars[i]->name);

        flags[i] = has_value != NULL && *has_value;
    }
    return EST_OK;
}

static est_status read_variable(est_remote *remote, const est_var *var, est_tensor **out)
{
    const peer  *p       = &of(remote)->peers[var->task];
    est_packing  packing = { 0 };
    est_unpacked got     = { 0 };
    est_message *answer  = NULL;
    est_status   status;

    est_wire_put_string(&packing.head, EST_FIELD_NAME, var->name);
    status = ask_peer(p, EST_METHOD_READ, &packing, of(remote)->options.answer_secs, &answer);
    if (status == EST_OK) status = est_unpack_tensors(answer, &got);
    if (status == EST_OK && got.n != 1) status = est_fail(EST_DATA_LOSS, "%s sent %d tensors for one", p->name, got.n);
    if (status == EST_OK)
        status = est_tensor_create_from(got.views[0].dtype, got.views[0].shape, got.views[0].data, out);
    est_unpacked_clear(&got);
    est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

static est_status write_variable(est_remote *remote, const est_var *var, const est_tensor *value)
{
    est_packing packing = { 0 };
    est_view    view    = { est_tensor_data(value), est_tensor_dtype(value), *est_tensor_shape(value),
                            est_tensor_count(value) };
    est_status  status;

    est_wire_put_string(&packing.head, EST_FIELD_NAME, var->name);
    est_pack_view(&packing, &view);
    status = tell_peer(&of(remote)->peers[var->task], EST_METHOD_WRITE, &packing, of(remote)->options.answer_secs);
    est_packing_clear(&packing);
    return status;
}

/* --- checkpoints ------------------------------------------------------------------------------------------------------------------- */

/* Asks every task that has entries about them at the same time; `out` (may be NULL) gets an answer a task, to be freed. */
static est_status ask_about_files(cluster_remote *r, est_method method, const char *prefix,
                                  const est_remote_entry *entries, int n, est_message **out)
{
    est_ask  **asks   = est_zalloc(sizeof(est_ask *) * ((size_t)r->base.n_tasks + 1));
    est_status status = asks != NULL ? EST_OK : est_fail(EST_RESOURCE_EXHAUSTED, "no memory for a checkpoint");
    est_error  error;

    for (int task = 0; task < r->base.n_tasks && status == EST_OK; task++) {
        est_packing packing = { 0 };
        est_payload payload;
        char       *path = NULL;
        int         mine = 0;

        if (method == EST_METHOD_SAVE) status = est_part_prefix(prefix, task, &path);
        if (status == EST_OK && prefix != NULL) {
            est_wire_put_string(&packing.head, EST_FIELD_PREFIX, path != NULL ? path : prefix);
        }
        for (int i = 0; i < n; i++) {
            if (entries[i].task != task) continue;
            est_entry_pack(&packing, &entries[i].entry);
            mine++;
        }
        if (status == EST_OK) status = est_packing_payload(&packing, &payload);
        if (status == EST_OK && mine > 0) {
            status = est_link_ask(r->peers[task].link, (uint16_t)method, est_method_text(method), payload, FILES_SECS,
                                  NULL, NULL, &asks[task]);
        }
        est_packing_clear(&packing);
        est_free(path);
    }
    est_error_take(status, &error);
    for (int task = 0; asks != NULL && task < r->base.n_tasks; task++) {
        est_message *answer;
        est_status   own;

        if (asks[task] == NULL) continue;
        own = est_ask_wait(asks[task], &answer);
        if (own == EST_OK && out != NULL && status == EST_OK) {
            out[task] = answer;
        } else if (own == EST_OK) {
            est_message_free(answer);
        } else if (status == EST_OK) {
            status = own;
            est_error_take(status, &error);
        }
    }
    est_free(asks);
    return status == EST_OK ? EST_OK : est_error_raise(&error);
}

static est_status save_files(est_remote *remote, const est_remote_files *files, bool *parts)
{
    bool       held = of(remote)->options.consistent_saves;
    est_status status;

    for (int i = 0; i < remote->n_tasks; i++) parts[i] = false;
    for (int i = 0; i < files->n; i++) parts[files->entries[i].task] = true;
    if (held) EST_TRY(est_remote_hold(remote));
    status = ask_about_files(of(remote), EST_METHOD_SAVE, files->prefix, files->entries, files->n, NULL);
    if (held) {
        est_error error;

        est_error_take(status, &error);
        if (est_remote_release(remote) != EST_OK) est_log_warn("steps stay held: %s", est_error_message());
        if (status != EST_OK) (void)est_error_raise(&error);
    }
    return status;
}

static est_status verify_files(est_remote *remote, const est_remote_files *files)
{
    return ask_about_files(of(remote), EST_METHOD_VERIFY, files->prefix, files->entries, files->n, NULL);
}

static est_status restore_files(est_remote *remote, const est_remote_files *files)
{
    return ask_about_files(of(remote), EST_METHOD_RESTORE, files->prefix, files->entries, files->n, NULL);
}

/* Number `at` among the entries of a task, counted among all. */
static int entry_of_task(const est_remote_entry *entries, int n, int task, int64_t at)
{
    for (int i = 0; i < n; i++) {
        if (entries[i].task == task && at-- == 0) return i;
    }
    return -1;
}

static est_status find_nan(est_remote *remote, const est_remote_entry *entries, int n, int *out)
{
    est_message **answers = est_zalloc(sizeof(est_message *) * ((size_t)remote->n_tasks + 1));
    est_status    status;

    *out = -1;
    if (answers == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to look for NaN");
    status = ask_about_files(of(remote), EST_METHOD_FIND_NAN, NULL, entries, n, answers);
    for (int task = 0; task < remote->n_tasks; task++) {
        int64_t at = answers[task] != NULL ? (int64_t)est_head_u64(answers[task], EST_FIELD_STEP, UINT64_MAX) : -1;

        if (at >= 0 && *out < 0) *out = entry_of_task(entries, n, task, at);
        est_message_free(answers[task]);
    }
    est_free(answers);
    return status;
}

/* --- training ---------------------------------------------------------------------------------------------------------------------- */

/* The task that counts the steps. */
static est_status find_clock(cluster_remote *r, peer **out)
{
    int task = located(&r->base, "global_step");

    for (int i = 0; i < r->base.n_tasks && task < 0; i++) EST_TRY(list_variables(&r->peers[i]));
    if (task < 0) task = located(&r->base, "global_step");
    if (task < 0)
        return est_fail(EST_FAILED_PRECONDITION, "no task has the variable global_step: nothing counts steps");
    *out = &r->peers[task];
    return EST_OK;
}

static est_status turn(est_remote *remote, bool *finished)
{
    cluster_remote *r       = of(remote);
    est_packing     packing = { 0 };
    est_message    *answer;
    peer           *p;
    est_status      status;

    *finished = false;
    if (r->options.sync_replicas > 0) return join_step(r, finished);
    if (r->has_turn) {
        r->has_turn = false;
        return EST_OK;
    }
    EST_TRY(find_clock(r, &p));
    est_wire_put_i64(&packing.head, EST_FIELD_LIMIT, r->options.step_limit);
    est_wire_put_i64(&packing.head, EST_FIELD_STALENESS, r->options.max_staleness);
    status = ask_patiently(r, p, EST_METHOD_TURN, &packing, "steps of others are under way", r->options.connect_secs,
                           &answer);
    est_packing_clear(&packing);
    EST_TRY(status);
    *finished = est_head_u64(answer, EST_FIELD_FINISHED, 0) != 0;
    est_message_free(answer);
    return EST_OK;
}

est_status est_remote_declare_ready(est_remote *remote)
{
    est_packing nothing = { 0 };

    for (int i = 0; i < remote->n_tasks; i++) {
        EST_TRY(tell_peer(&of(remote)->peers[i], EST_METHOD_DECLARE_READY, &nothing, ASK_SECS));
    }
    return EST_OK;
}

/* A turn that was given in advance would be waited for. */
est_status est_remote_hold(est_remote *remote)
{
    cluster_remote *r       = of(remote);
    est_packing     packing = { 0 };
    est_message    *answer;
    peer           *p;
    est_status      status;

    EST_TRY(find_clock(r, &p));
    if (r->has_turn) EST_TRY(tell_peer(p, EST_METHOD_LEAVE, &packing, ASK_SECS));
    r->has_turn = false;
    est_wire_put_bool(&packing.head, EST_FIELD_HELD, true);
    status = ask_patiently(r, p, EST_METHOD_HOLD, &packing, "steps are under way, and a checkpoint waits for them",
                           r->options.connect_secs, &answer);
    if (status == EST_OK) est_message_free(answer);
    est_packing_clear(&packing);
    return status;
}

est_status est_remote_release(est_remote *remote)
{
    est_packing packing = { 0 };
    peer       *p;
    est_status  status;

    EST_TRY(find_clock(of(remote), &p));
    est_wire_put_bool(&packing.head, EST_FIELD_HELD, false);
    status = tell_peer(p, EST_METHOD_HOLD, &packing, ASK_SECS);
    est_packing_clear(&packing);
    return status;
}

est_status est_remote_await_others(est_remote *remote)
{
    cluster_remote *r       = of(remote);
    est_packing     nothing = { 0 };
    est_message    *answer;
    peer           *p;

    EST_TRY(find_clock(r, &p));
    EST_TRY(ask_patiently(r, p, EST_METHOD_AWAIT_ALONE, &nothing, "other tasks still train", INFINITY, &answer));
    est_message_free(answer);
    return EST_OK;
}

void est_remote_end_job(est_remote *remote)
{
    cluster_remote *r       = of(remote);
    est_packing     nothing = { 0 };

    for (int i = 0; i < remote->n_tasks; i++) {
        est_status status = reach(r, &r->peers[i], r->server->silence_secs);

        if (status == EST_OK) status = tell_peer(&r->peers[i], EST_METHOD_DONE, &nothing, ASK_SECS);
        if (status == EST_OK) continue;
        est_log_warn("%s could not be told that the job is done: %s", r->peers[i].name, est_error_message());
    }
}

void est_remote_set_over(est_remote *remote, bool (*over)(void *user), void *user)
{
    of(remote)->over      = over;
    of(remote)->over_user = user;
}

/* --- life --------------------------------------------------------------------------------------------------------------------------- */

static const est_remote_ops cluster_ops = {
    .connect     = connect_all,
    .name        = name_of,
    .find        = find_task,
    .is_here     = is_here,
    .located     = located,
    .place       = place,
    .enter       = enter,
    .leave       = leave,
    .start       = start,
    .finish      = finish,
    .abandon     = abandon,
    .initialized = initialized,
    .read        = read_variable,
    .write       = write_variable,
    .find_nan    = find_nan,
    .save        = save_files,
    .verify      = verify_files,
    .restore     = restore_files,
    .turn        = turn,
};

/* The tasks of a job, but for this one. */
static est_status add_peers(cluster_remote *r, const char *type)
{
    for (int i = 0; i < est_cluster_tasks(r->server->cluster, type); i++) {
        const char *address = est_cluster_address(r->server->cluster, type, i);
        peer       *p       = &r->peers[r->base.n_tasks];

        if (address == NULL || is_here(&r->base, type, i)) continue;
        p->address = est_strdup(address);
        if (p->address == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the tasks of a cluster");
        snprintf(p->name, sizeof p->name, "%.40s:%d", type, i);
        p->who = r->server->task;
        r->base.n_tasks++;
    }
    return EST_OK;
}

/* Those that keep variables come first. */
static est_status list_peers(cluster_remote *r)
{
    const est_cluster *cluster = r->server->cluster;
    const char        *type    = r->options.type != NULL ? r->options.type : "ps";
    bool               all     = strcmp(type, "*") == 0;
    const char        *keepers = all ? "ps" : type;
    int                n       = 0;

    for (int i = 0; i < est_cluster_jobs(cluster); i++) n += est_cluster_tasks(cluster, est_cluster_job(cluster, i));
    r->peers = est_zalloc(sizeof *r->peers * ((size_t)n + 1));
    if (r->peers == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for %d tasks", n);
    EST_TRY(add_peers(r, keepers));
    r->base.n_keepers = r->base.n_tasks;
    for (int i = 0; all && i < est_cluster_jobs(cluster); i++) {
        if (strcmp(est_cluster_job(cluster, i), keepers) != 0) EST_TRY(add_peers(r, est_cluster_job(cluster, i)));
    }
    if (r->base.n_keepers == 0) r->base.n_keepers = r->base.n_tasks;
    if (r->base.n_tasks > 0) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the cluster has no %s task to keep variables", all ? "other" : type);
}

est_status est_remote_create(est_server *server, const est_remote_options *options, est_remote **out)
{
    cluster_remote *r = est_zalloc(sizeof *r);
    est_status      status;

    if (r == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for the tasks of a cluster");
    r->base.ops = &cluster_ops;
    r->server   = server;
    status      = server != NULL ? est_options_take("EST_REMOTE", options, &r->options, sizeof r->options)
                                 : est_fail(EST_INVALID_ARGUMENT, "the server is NULL: was it created?");
    if (status == EST_OK && r->options.connect_secs <= 0) r->options.connect_secs = CONNECT_SECS_DEFAULT;
    if (status == EST_OK && r->options.answer_secs <= 0) r->options.answer_secs = ANSWER_SECS_DEFAULT;
    if (status == EST_OK && r->options.partitioner != NULL) {
        r->partitioner      = *r->options.partitioner;
        r->base.partitioner = &r->partitioner;
    }
    r->base.in_turn = r->options.round_robin;
    if (status == EST_OK) status = list_peers(r);
    if (status != EST_OK) {
        est_remote_free(&r->base);
        return status;
    }
    *out = &r->base;
    return EST_OK;
}

/* So that a turn that was given in advance goes to others at once. */
static void say_goodbye(const peer *p)
{
    est_packing nothing = { 0 };

    if (tell_peer(p, EST_METHOD_LEAVE, &nothing, LEAVE_SECS) != EST_OK) est_error_clear();
    est_link_close(p->link, "it has left");
}

void est_remote_free(est_remote *remote)
{
    cluster_remote *r = of(remote);

    if (remote == NULL) return;
    for (int i = 0; i < r->base.n_tasks && r->peers != NULL; i++) {
        peer *p = &r->peers[i];

        if (p->link != NULL && !est_link_is_lost(p->link)) say_goodbye(p);
        est_link_free(p->link);
        forget_variables(p);
        est_free(p->address);
    }
    est_free(r->peers);
    est_free(r);
}
