/* SPDX-License-Identifier: Apache-2.0
 *
 * The network thread; listening, connecting, cancelling. */
#include "net/net.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fault.h"
#include "base/log.h"
#include "net/inject.h"
#include "net/link.h"

#define SILENCE_SECS   10.0
#define TICK_NS_MIN    (EST_NS_PER_SEC / 200)
#define TICK_NS_MAX    (EST_NS_PER_SEC / 10)
#define STOP_NS        (60 * EST_NS_PER_SEC) /* for answers to slow peers, at the end */
#define RETRY_NS_MIN   (20 * EST_NS_PER_SEC / 1000)
#define RETRY_NS_MAX   (200 * EST_NS_PER_SEC / 1000)
#define LOOK_NS        (EST_NS_PER_SEC / 2)
#define REFUSAL_LOG_NS (60 * EST_NS_PER_SEC)
#define ADDRESSES_MAX  8
#define FLOOD_MIN      32 /* connections that were never admitted: a flood, which takes memory */
#define TRIM_NS        (10 * EST_NS_PER_SEC)

/* --- the network thread ------------------------------------------------------------------------------------------- */

void est_net_flag(est_net *net, est_link *link)
{
    if (link->flagged) return;
    link->flagged = true;
    est_link_ref(link);
    pthread_mutex_lock(&net->lock);
    link->next_flagged = net->flagged;
    net->flagged       = link;
    pthread_mutex_unlock(&net->lock);
    uv_async_send(&net->wake);
}

static void look_at_flagged(est_net *net)
{
    for (;;) {
        est_link *link;

        pthread_mutex_lock(&net->lock);
        link = net->flagged;
        if (link != NULL) net->flagged = link->next_flagged;
        pthread_mutex_unlock(&net->lock);
        if (link == NULL) return;
        pthread_mutex_lock(&link->lock);
        link->flagged = false;
        pthread_mutex_unlock(&link->lock);
        est_link_look(link);
        est_link_free(link);
    }
}

static void run_call(est_net *net)
{
    est_status (*call)(est_net *, void *);
    est_status status;

    pthread_mutex_lock(&net->lock);
    call = net->call;
    pthread_mutex_unlock(&net->lock);
    if (call == NULL) return;
    status = call(net, net->call_arg);
    pthread_mutex_lock(&net->lock);
    net->call        = NULL;
    net->call_done   = true;
    net->call_status = status;
    if (status != EST_OK) est_error_take(status, &net->call_error);
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
}

/* Runs call(net, arg) in the network thread and waits for it. */
static est_status call_thread(est_net *net, est_status (*call)(est_net *, void *), void *arg)
{
    est_status status;
    est_error  error;

    if (pthread_equal(pthread_self(), net->thread.id)) return call(net, arg);
    pthread_mutex_lock(&net->call_lock);
    pthread_mutex_lock(&net->lock);
    net->call      = call;
    net->call_arg  = arg;
    net->call_done = false;
    uv_async_send(&net->wake);
    while (!net->call_done) est_cond_wait_ns(&net->changed, &net->lock, EST_NS_PER_SEC);
    status = net->call_status;
    error  = net->call_error;
    pthread_mutex_unlock(&net->lock);
    pthread_mutex_unlock(&net->call_lock);
    return status == EST_OK ? EST_OK : est_error_raise(&error);
}

static est_status cancel_call(est_net *net, void *arg);

static void on_wake(uv_async_t *wake)
{
    est_net *net = wake->data;
    bool     cancel_due;

    run_call(net);
    pthread_mutex_lock(&net->lock);
    cancel_due      = net->cancel_due;
    net->cancel_due = false;
    pthread_mutex_unlock(&net->lock);
    if (cancel_due) (void)cancel_call(net, NULL);
    look_at_flagged(net);
}

/* In a thread of the loop's pool, since it takes milliseconds. */
static void trim(uv_work_t *work)
{
    (void)work;
    est_alloc_trim();
}

static void on_trimmed(uv_work_t *work, int cancelled)
{
    (void)cancelled; /* nobody waits */
    EST_CONTAINER_OF(work, est_net, trim)->trim_ns = est_machine_ns() + TRIM_NS;
}

/* Returns the memory of a flood to the system when it is over. Many tasks that connect at once and are admitted are
 * no flood. */
static void trim_after_flood(est_net *net, int64_t now_ns)
{
    if (net->n_strangers < FLOOD_MIN || net->unfinished.n >= FLOOD_MIN || now_ns < net->trim_ns) return;
    net->n_strangers = 0;
    net->trim_ns     = INT64_MAX;
    (void)uv_queue_work(&net->loop, &net->trim, trim, on_trimmed); /* fails without a function only */
}

static void on_tick(uv_timer_t *tick)
{
    est_net *net = tick->data;
    int64_t  now = est_machine_ns(), ticked = net->ticked_ns;

    net->ticked_ns = now;
    for (est_link *link = net->links, *next; link != NULL; link = next) {
        est_link_ref(link);
        /* When this process was suspended, data of the peers is still to be read. */
        if (now - ticked > net->silence_ns / 2) est_link_heard(link, 0);
        est_link_tick(link, now);
        next = link->next;
        est_link_free(link);
    }
    trim_after_flood(net, now);
}

static bool is_stopping(est_net *net)
{
    bool stopping;

    pthread_mutex_lock(&net->lock);
    stopping = net->stopping;
    pthread_mutex_unlock(&net->lock);
    return stopping;
}

/* Sends farewells, waits a little for answers to be sent, and closes everything. */
static void stop(est_net *net)
{
    int64_t by = est_machine_ns() + STOP_NS;
    char    why[EST_WHY_MAX];

    net->transport->unlisten(net->carrier);
    look_at_flagged(net); /* links that are being closed keep their own reason */
    snprintf(why, sizeof why, "%s closes its network", net->options.self.task);
    for (est_link *link = net->links, *next; link != NULL; link = next) {
        next = link->next;
        est_link_leave(link, EST_CANCELLED, why);
    }
    while (net->links != NULL && est_machine_ns() < by) uv_run(&net->loop, UV_RUN_ONCE);
    while (net->links != NULL) est_link_lose(net->links, EST_CANCELLED, why);
    uv_close((uv_handle_t *)&net->wake, NULL);
    uv_close((uv_handle_t *)&net->tick, NULL);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    look_at_flagged(net); /* gives the references back */
}

static void *net_main(void *arg)
{
    est_net *net = arg;

    while (!is_stopping(net)) uv_run(&net->loop, UV_RUN_ONCE);
    stop(net);
    return NULL;
}

/* Whether to log a refusal: the first of a host (`size` bytes of the address) in a minute, at most EST_REFUSALS_MAX
 * in all. Records it. */
static bool is_refusal_shown(est_net *net, const char *address, size_t size)
{
    int     oldest = 0;
    int64_t now    = est_machine_ns();

    for (int i = 0; i < EST_REFUSALS_MAX; i++) {
        bool recent = net->refusals[i].at_ns != 0 && now - net->refusals[i].at_ns < REFUSAL_LOG_NS;

        if (recent && strlen(net->refusals[i].host) == size && memcmp(net->refusals[i].host, address, size) == 0) {
            return false;
        }
        if (net->refusals[i].at_ns < net->refusals[oldest].at_ns) oldest = i;
    }
    if (net->refusals[oldest].at_ns != 0 && now - net->refusals[oldest].at_ns < REFUSAL_LOG_NS) return false;
    snprintf(net->refusals[oldest].host, sizeof net->refusals[oldest].host, "%.*s", (int)size, address);
    net->refusals[oldest].at_ns = now;
    return true;
}

void est_net_warn(est_net *net, const char *address, const char *why)
{
    const char *colon = strrchr(address, ':');
    size_t      size  = colon != NULL ? (size_t)(colon - address) : strlen(address);

    /* A connection during shutdown is no news. */
    if (is_stopping(net) || !is_refusal_shown(net, address, size)) {
        est_log_debug("refused a connection from %s: %s", address, why);
        return;
    }
    est_log_warn("refused a connection from %s: %s (more of them from there within a minute are not shown)", address,
                 why);
}

/* --- create and free ---------------------------------------------------------------------------------------------- */

static est_status init_locks(est_net *net)
{
    est_status status = est_lock_init(&net->lock);

    if (status != EST_OK) return status;
    status = est_lock_init(&net->call_lock);
    if (status != EST_OK) goto destroy_lock;
    status = est_cond_init(&net->changed);
    if (status != EST_OK) goto destroy_call_lock;
    return EST_OK;

destroy_call_lock:
    pthread_mutex_destroy(&net->call_lock);
destroy_lock:
    pthread_mutex_destroy(&net->lock);
    return status;
}

static void destroy_locks(est_net *net)
{
    pthread_cond_destroy(&net->changed);
    pthread_mutex_destroy(&net->call_lock);
    pthread_mutex_destroy(&net->lock);
}

/* A loop with its two handles, or nothing. */
static est_status init_loop(est_net *net)
{
    uint64_t tick_ms;
    int64_t  tick_ns = net->silence_ns / 12;
    int      error   = EST_FAULT_POINT("net.loop") ? UV_ENOMEM : uv_loop_init(&net->loop);

    if (error != 0) return est_fail(EST_RESOURCE_EXHAUSTED, "cannot start the network: %s", uv_strerror(error));
    error = EST_FAULT_POINT("net.async") ? UV_EMFILE : uv_async_init(&net->loop, &net->wake, on_wake);
    if (error != 0) {
        uv_loop_close(&net->loop);
        return est_fail(EST_RESOURCE_EXHAUSTED, "cannot start the network: %s", uv_strerror(error));
    }
    tick_ns        = tick_ns < TICK_NS_MIN ? TICK_NS_MIN : tick_ns > TICK_NS_MAX ? TICK_NS_MAX : tick_ns;
    tick_ms        = (uint64_t)(tick_ns / 1000000);
    net->ticked_ns = est_machine_ns();
    uv_timer_init(&net->loop, &net->tick);
    uv_timer_start(&net->tick, on_tick, tick_ms, tick_ms);
    net->wake.data = net->tick.data = net;
    return EST_OK;
}

static void close_loop(est_net *net)
{
    uv_close((uv_handle_t *)&net->wake, NULL);
    uv_close((uv_handle_t *)&net->tick, NULL);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    uv_loop_close(&net->loop);
}

/* A larger message could not be processed: only a bug or an attacker announces one. */
static size_t default_message_max(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) / 2 * (size_t)sysconf(_SC_PAGESIZE);
}

est_status est_net_create(const est_net_options *options, est_net **out)
{
    double     silence_secs = options->silence_secs > 0 ? options->silence_secs : SILENCE_SECS;
    est_net   *net          = est_zalloc(sizeof *net);
    est_status status;

    if (net == NULL) return est_no_memory();
    est_descriptors_raise();
    est_unfinished_init(&net->unfinished, est_descriptors_max());
    net->options    = *options;
    net->silence_ns = est_secs_to_ns(silence_secs);
    if (net->options.message_max == 0) net->options.message_max = default_message_max();
    status = est_transport_find(options->transport, &net->transport);
    if (status != EST_OK) goto free_net;
    status = init_locks(net);
    if (status != EST_OK) goto free_net;
    status = est_blocks_create(&net->blocks);
    if (status != EST_OK) goto destroy_locks;
    status = init_loop(net);
    if (status != EST_OK) goto free_blocks;
    status = net->transport->open(net, &net->loop, net->blocks, options->certificates, &net->carrier);
    if (status != EST_OK) goto close_loop;
    /* The thread compares itself with net->thread, which is set only after this call. */
    pthread_mutex_lock(&net->lock);
    status = est_thread_start(&net->thread, "est-net", net_main, net);
    pthread_mutex_unlock(&net->lock);
    if (status != EST_OK) goto close_carrier;
    *out = net;
    return EST_OK;

close_carrier:
    net->transport->close(net->carrier);
close_loop:
    close_loop(net);
free_blocks:
    est_blocks_free(net->blocks);
destroy_locks:
    destroy_locks(net);
free_net:
    est_free(net);
    return status;
}

void est_net_free(est_net *net)
{
    if (net == NULL) return;
    est_net_cancel(net, "the network is shutting down");
    pthread_mutex_lock(&net->lock);
    while (net->n_connecting > 0) est_cond_wait_ns(&net->changed, &net->lock, EST_NS_PER_SEC);
    net->stopping = true;
    pthread_mutex_unlock(&net->lock);
    uv_async_send(&net->wake);
    est_thread_join(&net->thread);
    net->transport->close(net->carrier);
    uv_loop_close(&net->loop);
    est_blocks_free(net->blocks);
    destroy_locks(net);
    est_free(net);
}

/* --- listening ---------------------------------------------------------------------------------------------------- */

static est_status listen_call(est_net *net, void *arg)
{
    int port;

    if (net->port != 0) {
        return est_fail(EST_FAILED_PRECONDITION, "the network already listens at port %d", net->port);
    }
    EST_TRY(net->transport->listen(net->carrier, arg, &port));
    pthread_mutex_lock(&net->lock);
    net->port = port;
    pthread_mutex_unlock(&net->lock);
    return EST_OK;
}

est_status est_net_listen(est_net *net, const char *address)
{
    char copy[512];

    snprintf(copy, sizeof copy, "%s", address);
    return call_thread(net, listen_call, copy);
}

int est_net_port(const est_net *net)
{
    est_net *own;
    int      port;

    memcpy(&own, &net, sizeof own); /* the lock is needed to read the state */
    pthread_mutex_lock(&own->lock);
    port = own->port;
    pthread_mutex_unlock(&own->lock);
    return port;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

typedef struct attempt {
    est_link                 *link;
    const est_socket_address *to;
} attempt;

static bool is_cancelled(est_net *net, char why[EST_WHY_MAX])
{
    bool cancelled;

    pthread_mutex_lock(&net->lock);
    cancelled = net->cancelled;
    if (cancelled) memcpy(why, net->cancel_why, EST_WHY_MAX);
    pthread_mutex_unlock(&net->lock);
    return cancelled;
}

static est_status connect_call(est_net *net, void *arg)
{
    attempt   *a = arg;
    est_wire  *wire;
    est_status status;
    char       why[EST_WHY_MAX];

    if (is_cancelled(net, why)) return est_fail(EST_CANCELLED, "cancelled: %s", why); /* since the caller looked */
    status = net->transport->connect(net->carrier, a->to, a->link, &a->link->lock, &wire);
    if (status != EST_OK) return status;
    pthread_mutex_lock(&a->link->lock);
    a->link->wire = wire;
    pthread_mutex_unlock(&a->link->lock);
    est_link_add(a->link);
    return EST_OK;
}

static est_status give_up_call(est_net *net, void *arg)
{
    (void)net;
    est_link_lose(arg, EST_UNAVAILABLE, "it sent no hello in time");
    return EST_OK;
}

/* A call of est_net_connect. */
typedef struct effort {
    est_net     *net;
    const char  *address, *task;
    double       deadline_secs;
    int64_t      until_ns;
    est_net_look look; /* NULL: none */
    void        *user;
    int64_t      look_ns;          /* time of the next call */
    est_error    looked;           /* its failure, which ends the call */
    est_error    reason;           /* of the last attempt with a meaningful result */
    char         why[EST_WHY_MAX]; /* the result of the last attempt on all addresses */
} effort;

static void look_around(effort *e)
{
    est_status status;

    if (e->look == NULL || est_machine_ns() < e->look_ns) return;
    status = e->look(e->user, e->why);
    if (status != EST_OK) est_error_take(status, &e->looked);
    e->look_ns = est_machine_ns() + LOOK_NS;
}

/* From now on; less when `look` is due earlier. */
static int64_t wait_ns(const effort *e, int64_t until_ns)
{
    int64_t left = (e->look != NULL && e->look_ns < until_ns ? e->look_ns : until_ns) - est_machine_ns();

    return left > 0 ? left : 0;
}

/* Waits until the link is open or lost, or the deadline. */
static void await_link(effort *e, est_link *link, int64_t until_ns)
{
    pthread_mutex_lock(&link->lock);
    while (link->state < EST_LINK_OPEN && e->looked.status == EST_OK && est_machine_ns() < until_ns) {
        est_cond_wait_ns(&link->changed, &link->lock, wait_ns(e, until_ns));
        pthread_mutex_unlock(&link->lock);
        look_around(e);
        pthread_mutex_lock(&link->lock);
    }
    pthread_mutex_unlock(&link->lock);
}

/* One connection to one address: open, or failed. */
static est_status try_address(effort *e, const est_socket_address *to, int64_t until_ns, est_link **out)
{
    attempt    a = { .to = to };
    est_status status;
    bool       late, reached;

    EST_TRY(est_link_create(e->net, e->address, e->task, &a.link));
    status = call_thread(e->net, connect_call, &a);
    if (status != EST_OK) {
        est_link_free(a.link);
        return status;
    }
    await_link(e, a.link, until_ns);
    pthread_mutex_lock(&a.link->lock);
    reached = a.link->state != EST_LINK_CONNECTING;
    late    = a.link->state < EST_LINK_OPEN;
    pthread_mutex_unlock(&a.link->lock);
    if (late) EST_TRY(call_thread(e->net, give_up_call, a.link));

    pthread_mutex_lock(&a.link->lock);
    status = a.link->state == EST_LINK_OPEN ? EST_OK : est_fail(a.link->failure, "%s", a.link->why);
    pthread_mutex_unlock(&a.link->lock);
    if (status != EST_OK) {
        est_link_free(a.link);
        /* An attempt that was cut short by the deadline says less than earlier ones. */
        if (!reached && e->reason.status != EST_OK) return est_error_raise(&e->reason);
        if (reached) est_error_take(status, &e->reason);
        return reached ? est_error_raise(&e->reason) : status;
    }
    *out = a.link;
    return EST_OK;
}

/* Tries all addresses of the host in turn. Each gets a share of the time, so that a dead one does not use it all. */
static est_status try_host(effort *e, est_link **out)
{
    est_socket_address to[ADDRESSES_MAX];
    est_status         status;
    int                n;

    EST_TRY(est_socket_resolve(e->address, to, ADDRESSES_MAX, &n));
    status = est_fail(EST_UNAVAILABLE, "the host has no address");
    for (int i = 0; i < n && status == EST_UNAVAILABLE && e->looked.status == EST_OK; i++) {
        int64_t now = est_machine_ns();

        status = try_address(e, &to[i], now + (e->until_ns - now) / (n - i), out);
    }
    return status;
}

/* Between two attempts. */
static void rest(effort *e, int64_t pause_ns)
{
    int64_t  until = est_machine_ns() + pause_ns;
    est_net *net   = e->net;

    pthread_mutex_lock(&net->lock);
    while (!net->cancelled && e->looked.status == EST_OK && est_machine_ns() < until) {
        est_cond_wait_ns(&net->changed, &net->lock, wait_ns(e, until));
        pthread_mutex_unlock(&net->lock);
        look_around(e);
        pthread_mutex_lock(&net->lock);
    }
    pthread_mutex_unlock(&net->lock);
}

static est_status connect_until(effort *e, est_link **out)
{
    int64_t pause = RETRY_NS_MIN;
    char    why[EST_WHY_MAX];

    for (;;) {
        est_status status;

        if (is_cancelled(e->net, why)) return est_fail(EST_CANCELLED, "cancelled: %s", why);
        if (e->looked.status != EST_OK) return e->looked.status;
        status = try_host(e, out);
        if (is_cancelled(e->net, why) && status != EST_OK) return est_fail(EST_CANCELLED, "cancelled: %s", why);
        if (status != EST_UNAVAILABLE) return status;
        if (est_machine_ns() + pause >= e->until_ns)
            return est_fail_context(status, "not reached within %g s", e->deadline_secs);
        snprintf(e->why, sizeof e->why, "%s", est_error_message());
        rest(e, pause);
        pause = 2 * pause < RETRY_NS_MAX ? 2 * pause : RETRY_NS_MAX;
    }
}

static est_status make_link(effort *e, est_link **out)
{
    est_net   *net = e->net;
    est_status status;

    pthread_mutex_lock(&net->lock);
    net->n_connecting++;
    pthread_mutex_unlock(&net->lock);
    status = connect_until(e, out);
    if (status != EST_OK && e->looked.status != EST_OK) {
        status = est_error_raise(&e->looked);
    } else if (status != EST_OK) {
        status = est_fail_context(status, "connecting to %s%s%s", e->task, e->task[0] != '\0' ? " at " : "",
                                  e->address);
    }
    pthread_mutex_lock(&net->lock);
    net->n_connecting--;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
    return status;
}

est_status est_net_connect(est_net *net, const char *address, const char *task, double deadline_secs, est_link **out)
{
    effort e = { .net           = net,
                 .address       = address,
                 .task          = task != NULL ? task : "",
                 .deadline_secs = deadline_secs,
                 .until_ns      = est_machine_ns() + est_secs_to_ns(deadline_secs) };

    return make_link(&e, out);
}

est_status est_net_connect_while(est_net *net, const char *address, const char *task, est_net_look look, void *user,
                                 est_link **out)
{
    effort e = { .net      = net,
                 .address  = address,
                 .task     = task != NULL ? task : "",
                 .until_ns = INT64_MAX,
                 .look     = look,
                 .user     = user,
                 .look_ns  = est_machine_ns() + LOOK_NS };

    return make_link(&e, out);
}

est_link *est_net_find(const est_net *net, const est_task_id *peer)
{
    est_link *link = net->links;

    while (link != NULL && (link->state != EST_LINK_OPEN || link->peer.incarnation != peer->incarnation ||
                            strcmp(link->peer.task, peer->task) != 0 || est_link_is_lost(link))) {
        link = link->next;
    }
    return link;
}

/* --- cancelling --------------------------------------------------------------------------------------------------- */

static est_status cancel_call(est_net *net, void *arg)
{
    (void)arg;
    for (est_link *link = net->links, *next; link != NULL; link = next) {
        next = link->next;
        if (link->state <= EST_LINK_HELLO && !link->accepted) {
            est_link_lose(link, EST_CANCELLED, net->cancel_why);
            continue;
        }
        pthread_mutex_lock(&link->lock);
        link->cancelled = true;
        est_asks_fail_all(link, EST_CANCELLED, net->cancel_why, true);
        pthread_mutex_unlock(&link->lock);
    }
    return EST_OK;
}

void est_net_cancel(est_net *net, const char *why)
{
    bool here = pthread_equal(pthread_self(), net->thread.id) != 0, first;

    pthread_mutex_lock(&net->lock);
    first           = !net->cancelled;
    net->cancel_due = first && here;
    if (first) snprintf(net->cancel_why, sizeof net->cancel_why, "%s", why);
    net->cancelled = true;
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->lock);
    if (first && !here && call_thread(net, cancel_call, NULL) != EST_OK) est_log_debug("cancelling failed");
    if (first && here) uv_async_send(&net->wake);
}

/* A thread that learns of the end by one link must not be able to tell another peer: a dead process could not. */
static est_status abort_call(est_net *net, void *why)
{
    net->transport->unlisten(net->carrier);
    for (est_link *link = net->links; link != NULL; link = link->next) {
        pthread_mutex_lock(&link->lock);
        link->muted = true;
        pthread_mutex_unlock(&link->lock);
    }
    while (net->links != NULL) est_link_lose(net->links, EST_UNAVAILABLE, why);
    est_net_cancel(net, why);
    while (net->links != NULL) est_link_lose(net->links, EST_CANCELLED, why);
    return EST_OK;
}

void est_net_abort(est_net *net, const char *why)
{
    void *text;

    memcpy(&text, &why, sizeof text);
    (void)call_thread(net, abort_call, text); /* it does not fail */
}

#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
typedef struct injection {
    const char   *task;
    est_injection what;
    uint64_t      n;
} injection;

static est_status inject_call(est_net *net, void *arg)
{
    const injection *i = arg;

    snprintf(net->injected.task, sizeof net->injected.task, "%s", i->task);
    net->injected.what = i->what;
    net->injected.n    = i->n;
    for (est_link *link = net->links; link != NULL; link = link->next) est_link_inject(link);
    return EST_OK;
}

est_status est_net_inject(est_net *net, const char *task, est_injection what, uint64_t n)
{
    return call_thread(net, inject_call, &(injection){ task, what, n });
}
#endif
