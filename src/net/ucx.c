/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport ucx: active messages of UCX, which picks shared memory, InfiniBand, RoCE or TCP by itself. Here: its
 * worker, connections and the loop; what goes over a connection is in ucx_wire.c. */
#include "net/transport.h"

#define ABOUT "UCX: shared memory, InfiniBand, RoCE or TCP, without any protection"

#if defined(EST_UCX) && EST_UCX

#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/socket.h"
#include "net/ucx_wire.h"

#define FRONT_MAX    1024                 /* bytes before the parts that go as a message's header */
#define LARGE_BYTES  "256k"               /* from here on the receiver fetches parts */
#define CLOSE_NS     (5 * EST_NS_PER_SEC) /* for UCX to be done with what was closed */
#define PROGRESS_MAX 64                   /* calls before arrivals are handled */
#define TURNS_MAX    16                   /* before other work of the loop */

/* --- wires come --------------------------------------------------------------------------------------------------- */

static void reject(est_carrier *carrier, ucp_conn_request_h request)
{
    pthread_mutex_lock(&carrier->lock);
    (void)carrier->ucx->ucp_listener_reject(carrier->listener, request);
    pthread_mutex_unlock(&carrier->lock);
}

/* With an endpoint as `to` says; a request in it is given back on failure. */
static est_status create_wire(est_carrier *carrier, ucp_ep_params_t to, est_wire **out)
{
    est_wire    *wire = EST_FAULT_POINT("net.socket") ? NULL : est_zalloc(sizeof *wire);
    ucs_status_t status;

    if (wire == NULL) {
        if (to.field_mask & UCP_EP_PARAM_FIELD_CONN_REQUEST) reject(carrier, to.conn_request);
        return est_no_memory();
    }
    wire->carrier = carrier;
    to.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    to.err_mode    = UCP_ERR_HANDLING_MODE_PEER;
    to.err_handler = (ucp_err_handler_t){ .cb = est_ucx_on_error, .arg = wire };
    pthread_mutex_lock(&carrier->lock);
    status = carrier->ucx->ucp_ep_create(carrier->worker, &to, &wire->ep); /* gives a request back itself */
    if (status == UCS_OK) {
        wire->next = carrier->wires;
        if (wire->next != NULL) wire->next->previous = wire;
        carrier->wires = wire;
    }
    pthread_mutex_unlock(&carrier->lock);
    if (status != UCS_OK) {
        est_free(wire);
        return est_fail(EST_UNAVAILABLE, "%s", carrier->ucx->ucs_status_string(status));
    }
    *out = wire;
    return EST_OK;
}

static void on_connected(void *request, ucs_status_t status, void *user)
{
    est_wire *wire = user;

    wire->carrier->ucx->ucp_request_free(request);
    wire->connecting = false;
    wire->connected  = status == UCS_OK;
    if (status != UCS_OK) est_ucx_break(wire, status);
    est_ucx_make_ready(wire);
}

/* UCX tells only when connecting fails; what was flushed has a connection. */
static est_status ucx_connect(est_carrier *carrier, const est_socket_address *to, est_link *link, pthread_mutex_t *lock,
                              est_wire **out)
{
    const ucp_ep_params_t     at      = { .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                                          .flags      = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                                          .sockaddr   = { (const struct sockaddr *)&to->at, to->size } };
    const ucp_request_param_t flushed = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                          .cb.send      = on_connected };
    ucp_request_param_t       param   = flushed;
    ucs_status_ptr_t          request;
    est_wire                 *wire;

    (void)lock;
    EST_TRY(create_wire(carrier, at, &wire));
    wire->link      = link;
    param.user_data = wire;
    pthread_mutex_lock(&carrier->lock);
    request = carrier->ucx->ucp_ep_flush_nbx(wire->ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        wire->connecting = true;
    } else if (UCS_PTR_IS_ERR(request)) {
        est_ucx_break(wire, UCS_PTR_STATUS(request));
    } else {
        wire->connected = true;
        est_ucx_make_ready(wire);
    }
    pthread_mutex_unlock(&carrier->lock);
    *out = wire;
    return EST_OK;
}

static void on_connection(ucp_conn_request_h request, void *user)
{
    est_carrier *carrier = user;
    connection  *c       = est_block_alloc(carrier->blocks, sizeof *c);

    if (c == NULL) {
        (void)carrier->ucx->ucp_listener_reject(carrier->listener, request);
        return;
    }
    *c = (connection){ .request = request };
    if (carrier->first_connection == NULL) {
        carrier->first_connection = c;
    } else {
        carrier->last_connection->next = c;
    }
    carrier->last_connection = c;
}

static void name_client(est_carrier *carrier, ucp_conn_request_h request, char from[EST_ADDRESS_MAX])
{
    ucp_conn_request_attr_t attr = { .field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR };
    char                    host[64], port[8];
    ucs_status_t            status;

    pthread_mutex_lock(&carrier->lock);
    status = carrier->ucx->ucp_conn_request_query(request, &attr);
    pthread_mutex_unlock(&carrier->lock);
    if (status != UCS_OK || getnameinfo((struct sockaddr *)&attr.client_address, sizeof attr.client_address, host,
                                        sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(host, sizeof host, "?");
        snprintf(port, sizeof port, "?");
    }
    snprintf(from, EST_ADDRESS_MAX, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

static void take_connection(est_carrier *carrier, ucp_conn_request_h request)
{
    const ucp_ep_params_t from = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };
    char                  address[EST_ADDRESS_MAX];
    pthread_mutex_t      *lock;
    est_wire             *wire;

    name_client(carrier, request, address);
    if (create_wire(carrier, from, &wire) != EST_OK) {
        est_net_warn(carrier->net, address, est_error_message());
        return;
    }
    wire->link = est_link_accept(carrier->net, wire, address, false, &lock);
    if (wire->link == NULL) {
        est_ucx_end(wire);
        return;
    }
    wire->opened = true;
    est_link_opened(wire->link);
}

static connection *next_connection(est_carrier *carrier)
{
    connection *c;

    pthread_mutex_lock(&carrier->lock);
    c = carrier->first_connection;
    if (c != NULL) carrier->first_connection = c->next;
    pthread_mutex_unlock(&carrier->lock);
    return c;
}

static est_wire *next_ready(est_carrier *carrier)
{
    est_wire *wire;

    pthread_mutex_lock(&carrier->lock);
    wire = carrier->ready;
    if (wire != NULL) {
        carrier->ready = wire->next_ready;
        wire->is_ready = false;
    }
    pthread_mutex_unlock(&carrier->lock);
    return wire;
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Handles all events; false: there were none. */
static bool see_to_all(est_carrier *carrier)
{
    connection *c;
    est_wire   *wire;
    bool        any = false;

    for (; (c = next_connection(carrier)) != NULL; any = true) {
        take_connection(carrier, c->request);
        est_block_free(carrier->blocks, c);
    }
    for (; (wire = next_ready(carrier)) != NULL; any = true) {
        if (!wire->ended) est_ucx_see_to(wire);
    }
    est_ucx_reap(carrier);
    return any;
}

/* Lets UCX make progress; true: it did. */
static bool progress(est_carrier *carrier)
{
    int n = 0;

    pthread_mutex_lock(&carrier->lock);
    while (n < PROGRESS_MAX && carrier->ucx->ucp_worker_progress(carrier->worker) > 0) n++;
    pthread_mutex_unlock(&carrier->lock);
    return n > 0;
}

static bool arm(est_carrier *carrier)
{
    ucs_status_t status;

    pthread_mutex_lock(&carrier->lock);
    status = carrier->ucx->ucp_worker_arm(carrier->worker);
    pthread_mutex_unlock(&carrier->lock);
    return status == UCS_OK;
}

static void on_busy(uv_idle_t *idle)
{
    (void)idle; /* on_prepare follows */
}

/* Before the loop sleeps: works until there is nothing to do and the descriptor says when there is. */
static void on_prepare(uv_prepare_t *prepare)
{
    est_carrier *carrier = EST_CONTAINER_OF(prepare, est_carrier, prepare);

    for (int turn = 0; turn < TURNS_MAX; turn++) {
        bool moved = progress(carrier), any = see_to_all(carrier);

        if (moved || any) continue;
        if (arm(carrier)) {
            uv_idle_stop(&carrier->busy);
            return;
        }
        sched_yield(); /* a queue in shared memory is full, and only the peer can empty it */
    }
    uv_idle_start(&carrier->busy, on_busy);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    (void)poll, (void)status, (void)events; /* on_prepare follows */
}

/* --- listening ---------------------------------------------------------------------------------------------------- */

/* UCX takes no IPv4 connections at an IPv6 socket, and has no two listeners at one port. So all interfaces are all of
 * IPv4, unless they were asked for as [::]. */
static void keep_to_ipv4(const char *address, struct sockaddr_storage *own, socklen_t *size)
{
    const struct sockaddr_in6 *six  = (const struct sockaddr_in6 *)own;
    struct sockaddr_in         four = { .sin_family = AF_INET, .sin_port = six->sin6_port };

    if (address[0] == '[' || own->ss_family != AF_INET6 || !IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr)) return;
    memcpy(own, &four, sizeof four);
    *size = sizeof four;
}

/* A plain socket tests whether the address can be listened at, for a better error. */
static est_status ucx_listen(est_carrier *carrier, const char *address, int *port)
{
    struct sockaddr_storage own;
    socklen_t               size   = sizeof own;
    ucp_listener_params_t   params = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                     UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                       .conn_handler = { on_connection, carrier } };
    ucs_status_t            status;
    int                     fd, failed;

    EST_TRY(est_socket_listen(address, &fd, port));
    failed = getsockname(fd, (struct sockaddr *)&own, &size);
    close(fd);
    if (failed == 0) keep_to_ipv4(address, &own, &size);
    params.sockaddr = (ucs_sock_addr_t){ (const struct sockaddr *)&own, size };
    pthread_mutex_lock(&carrier->lock);
    status = failed != 0 ? UCS_ERR_IO_ERROR
                         : carrier->ucx->ucp_listener_create(carrier->worker, &params, &carrier->listener);
    pthread_mutex_unlock(&carrier->lock);
    if (status != UCS_OK) {
        return est_fail(EST_UNAVAILABLE, "cannot listen at %s: %s", address, carrier->ucx->ucs_status_string(status));
    }
    return EST_OK;
}

static void ucx_unlisten(est_carrier *carrier)
{
    connection *c;

    if (carrier->listener == NULL) return;
    while ((c = next_connection(carrier)) != NULL) {
        reject(carrier, c->request);
        est_block_free(carrier->blocks, c);
    }
    pthread_mutex_lock(&carrier->lock);
    carrier->ucx->ucp_listener_destroy(carrier->listener);
    carrier->listener = NULL;
    pthread_mutex_unlock(&carrier->lock);
}

/* --- open and close ----------------------------------------------------------------------------------------------- */

static est_status fail_ucx(est_carrier *carrier, const char *what, ucs_status_t status)
{
    return est_fail(status == UCS_ERR_NO_MEMORY ? EST_RESOURCE_EXHAUSTED : EST_UNAVAILABLE, "cannot start ucx: %s: %s",
                    what, carrier->ucx->ucs_status_string(status));
}

static est_status open_context(est_carrier *carrier)
{
    const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                                  .features   = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP };
    ucp_config_t      *config;
    ucs_status_t       status;

    status = EST_FAULT_POINT("net.ucx.config") ? UCS_ERR_NO_MEMORY : carrier->ucx->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return fail_ucx(carrier, "its settings", status);
    status = carrier->ucx->ucp_config_modify(config, "RNDV_THRESH", LARGE_BYTES);
    if (status == UCS_OK) {
        status = carrier->ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &carrier->context);
    }
    carrier->ucx->ucp_config_release(config);
    return status == UCS_OK ? EST_OK : fail_ucx(carrier, "a context", status);
}

/* A worker that answers, and its descriptor. */
static est_status open_worker(est_carrier *carrier, int *fd)
{
    const ucp_worker_params_t    params = { .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                            .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    const ucp_am_handler_param_t frames = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                            .id  = EST_UCX_FRAME,
                                            .cb  = est_ucx_on_frame,
                                            .arg = carrier };
    ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER };
    ucs_status_t      status;

    status = EST_FAULT_POINT("net.ucx.worker")
                 ? UCS_ERR_NO_MEMORY
                 : carrier->ucx->ucp_worker_create(carrier->context, &params, &carrier->worker);
    if (status != UCS_OK) return fail_ucx(carrier, "a worker", status);
    status = carrier->ucx->ucp_worker_query(carrier->worker, &attr);
    if (status == UCS_OK && (attr.thread_mode == UCS_THREAD_MODE_SINGLE || attr.max_am_header < EST_FRAME_BYTES)) {
        status = UCS_ERR_UNSUPPORTED;
    }
    if (status == UCS_OK) status = carrier->ucx->ucp_worker_set_am_recv_handler(carrier->worker, &frames);
    if (status == UCS_OK) status = carrier->ucx->ucp_worker_get_efd(carrier->worker, fd);
    if (status != UCS_OK) {
        carrier->ucx->ucp_worker_destroy(carrier->worker);
        return fail_ucx(carrier, "a worker", status);
    }
    carrier->front_max = attr.max_am_header < FRONT_MAX ? attr.max_am_header : FRONT_MAX;
    return EST_OK;
}

/* Our handles do not keep the loop alive. */
static est_status open_handles(est_carrier *carrier, int fd)
{
    if (EST_FAULT_POINT("net.ucx.poll") || uv_poll_init(carrier->loop, &carrier->poll, fd) != 0) {
        return est_fail(EST_RESOURCE_EXHAUSTED, "cannot watch ucx");
    }
    uv_prepare_init(carrier->loop, &carrier->prepare);
    uv_idle_init(carrier->loop, &carrier->busy);
    uv_poll_start(&carrier->poll, UV_READABLE, on_event);
    uv_prepare_start(&carrier->prepare, on_prepare);
    uv_unref((uv_handle_t *)&carrier->poll);
    uv_unref((uv_handle_t *)&carrier->prepare);
    uv_unref((uv_handle_t *)&carrier->busy);
    return EST_OK;
}

static est_status ucx_open(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates,
                           est_carrier **out)
{
    est_carrier *carrier = est_zalloc(sizeof *carrier);
    est_status   status;
    int          fd;

    (void)certificates;
    if (carrier == NULL) return est_no_memory();
    carrier->net    = net;
    carrier->loop   = loop;
    carrier->blocks = blocks;
    status          = est_ucx_load(&carrier->ucx);
    if (status != EST_OK) goto free_carrier;
    status = est_lock_init(&carrier->lock);
    if (status != EST_OK) goto free_carrier;
    status = open_context(carrier);
    if (status != EST_OK) goto destroy_lock;
    status = open_worker(carrier, &fd);
    if (status != EST_OK) goto close_context;
    status = open_handles(carrier, fd);
    if (status != EST_OK) goto destroy_worker;
    est_log_warn("transport ucx: peers are TRUSTED with raw access to memory, nobody is authenticated and nothing is "
                 "encrypted; use it on closed networks only");
    *out = carrier;
    return EST_OK;

destroy_worker:
    carrier->ucx->ucp_worker_destroy(carrier->worker);
close_context:
    carrier->ucx->ucp_cleanup(carrier->context);
destroy_lock:
    pthread_mutex_destroy(&carrier->lock);
free_carrier:
    est_free(carrier);
    return status;
}

static void ucx_close(est_carrier *carrier)
{
    int64_t until = est_machine_ns() + CLOSE_NS;

    for (est_ucx_reap(carrier); carrier->wires != NULL && est_machine_ns() < until; est_ucx_reap(carrier)) {
        if (!progress(carrier)) sched_yield();
    }
    uv_close((uv_handle_t *)&carrier->poll, NULL);
    uv_close((uv_handle_t *)&carrier->prepare, NULL);
    uv_close((uv_handle_t *)&carrier->busy, NULL);
    uv_run(carrier->loop, UV_RUN_NOWAIT);
    carrier->ucx->ucp_worker_destroy(carrier->worker);
    carrier->ucx->ucp_cleanup(carrier->context);
    pthread_mutex_destroy(&carrier->lock);
    est_free(carrier);
}

static est_status ucx_check(void)
{
    const est_ucx_library *ucx;

    return est_ucx_load(&ucx);
}

const est_transport est_transport_ucx = {
    .name         = "ucx",
    .about        = ABOUT,
    .check        = ucx_check,
    .open         = ucx_open,
    .close        = ucx_close,
    .listen       = ucx_listen,
    .unlisten     = ucx_unlisten,
    .connect      = ucx_connect,
    .send         = est_ucx_send,
    .forget       = est_ucx_forget,
    .queued_bytes = est_ucx_queued_bytes,
    .taken_bytes  = est_ucx_taken_bytes,
    .flush        = est_ucx_flush,
    .hold         = est_ucx_hold,
    .finish       = est_ucx_finish,
    .end          = est_ucx_end,
    .inject       = est_ucx_inject,
};

#else

static est_status ucx_check(void)
{
    return est_fail(EST_UNIMPLEMENTED, "this build has no transport ucx: install libucx-dev and build again");
}

static est_status ucx_open(est_net *net, uv_loop_t *loop, est_blocks *blocks, const char *certificates,
                           est_carrier **out)
{
    (void)net, (void)loop, (void)blocks, (void)certificates, (void)out;
    return ucx_check();
}

const est_transport est_transport_ucx = { .name = "ucx", .about = ABOUT, .check = ucx_check, .open = ucx_open };

#endif
