/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooks that log values of nodes, or the loss. They count iterations of the loop, not global steps. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/callback.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "train/hooks.h"

#define ELEMENTS_MAX 16 /* elements logged of one value */

/* --- values as text ----------------------------------------------------------------------------------------------- */

static void put_element(est_strbuf *line, est_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case EST_F32: est_strbuf_printf(line, "%g", (double)((const float *)data)[i]); break;
    case EST_F64: est_strbuf_printf(line, "%g", ((const double *)data)[i]); break;
    case EST_I32: est_strbuf_printf(line, "%" PRId32, ((const int32_t *)data)[i]); break;
    case EST_I64: est_strbuf_printf(line, "%" PRId64, ((const int64_t *)data)[i]); break;
    case EST_U8: est_strbuf_printf(line, "%d", ((const uint8_t *)data)[i]); break;
    case EST_BOOL: est_strbuf_append(line, ((const uint8_t *)data)[i] != 0 ? "true" : "false"); break;
    case EST_STRING:
        est_strbuf_append_json(line, ((const est_str *)data)[i].data, ((const est_str *)data)[i].size);
        break;
    default: est_strbuf_append(line, "?"); break;
    }
}

/* "3", "[1 2]", "[[1 2] [3 4]]". */
static void put_value(est_strbuf *line, const est_tensor *value)
{
    const est_shape *shape = est_tensor_shape(value);
    int64_t          n     = est_shape_count(shape);

    if (n <= 0) est_strbuf_append(line, "[]");
    for (int64_t i = 0; i < n; i++) {
        int64_t rows  = 1;
        int     opens = 0, closes = 0;

        for (int axis = shape->rank - 1; axis >= 0; axis--) {
            rows *= shape->dim[axis];
            opens += i % rows == 0;
            closes += (i + 1) % rows == 0;
        }
        if (i > 0) est_strbuf_append(line, " ");
        if (i == ELEMENTS_MAX) {
            est_strbuf_append(line, "...");
            break;
        }
        while (opens-- > 0) est_strbuf_append(line, "[");
        put_element(line, est_tensor_dtype(value), est_tensor_data(value), i);
        while (closes-- > 0) est_strbuf_append(line, "]");
    }
}

/* Logs the line, with the seconds since the one before. */
static est_status log_line(est_strbuf *line, est_timer *timer, int64_t iteration)
{
    double     secs;
    est_status status;

    if (est_timer_mark(timer, iteration, &secs, NULL)) est_strbuf_printf(line, " (%.3f sec)", secs);
    status = est_strbuf_status(line);
    if (status == EST_OK) est_log_info("%s", est_strbuf_text(line));
    est_strbuf_clear(line);
    return status;
}

/* --- values of nodes ---------------------------------------------------------------------------------------------- */

typedef struct logged_node {
    char    *name;
    char    *operation; /* in the graph, where no node is given */
    est_node given;     /* EST_NO_NODE: found by name */
    est_node node;
    int      fetch;
} logged_node;

typedef struct logging_hook {
    est_hook           hook;
    est_arena         *arena;  /* of the nodes */
    logged_node       *nodes;  /* [n] */
    est_named_tensor  *values; /* [n]: of the line at hand */
    int                n;
    bool               at_end, every;
    est_logging_format format;
    void              *user;
    est_timer          timer; /* counts iterations */
    int64_t            iterations;
    bool               due; /* this run logs */
} logging_hook;

static void drop_values(logging_hook *own)
{
    for (int i = 0; i < own->n; i++) {
        est_tensor_free(own->values[i].tensor);
        own->values[i].tensor = NULL;
    }
}

/* The line as the user's function writes it. */
static est_status log_formatted(logging_hook *own, int64_t iteration)
{
    char line[EST_LOG_LINE_MAX] = "";

    EST_TRY(EST_CALLBACK(own->format(own->user, (est_named_tensors){ own->values, own->n }, line, sizeof line),
                         "the format of a logging hook"));
    (void)est_timer_mark(&own->timer, iteration, NULL, NULL);
    line[sizeof line - 1] = '\0';
    if (line[0] != '\0') est_log_info("%s", line);
    return EST_OK;
}

static est_status log_values(logging_hook *own, int64_t iteration)
{
    est_strbuf line = { 0 };

    if (own->format != NULL) return log_formatted(own, iteration);
    for (int i = 0; i < own->n; i++) {
        est_strbuf_printf(&line, "%s%s = ", i > 0 ? ", " : "", own->values[i].name);
        put_value(&line, own->values[i].tensor);
    }
    return log_line(&line, &own->timer, iteration);
}

static est_status logging_begin(est_hook *hook, est_loop *loop)
{
    logging_hook *own = EST_CONTAINER_OF(hook, logging_hook, hook);

    own->timer.marked = false;
    own->iterations   = 0;
    for (int i = 0; i < own->n; i++) {
        logged_node *node = &own->nodes[i];

        node->node = node->given.graph != NULL ? node->given : est_graph_find(est_loop_graph(loop), node->operation);
        if (node->node.graph == NULL) {
            return est_fail(EST_NOT_FOUND, "the logging hook logs node '%s', but the graph has no node of that name",
                            node->operation);
        }
        node->fetch = est_loop_fetch(loop, node->node);
    }
    return EST_OK;
}

static est_status logging_before_run(est_hook *hook, est_loop *loop)
{
    logging_hook *own = EST_CONTAINER_OF(hook, logging_hook, hook);

    own->due = own->every && est_timer_due(&own->timer, own->iterations);
    for (int i = 0; i < own->n && own->due; i++) est_loop_want(loop, own->nodes[i].fetch);
    return EST_OK;
}

static est_status logging_after_run(est_hook *hook, est_loop *loop)
{
    logging_hook *own       = EST_CONTAINER_OF(hook, logging_hook, hook);
    int64_t       iteration = own->iterations++;
    est_status    status    = EST_OK;

    if (!own->due) return EST_OK;
    for (int i = 0; i < own->n && status == EST_OK; i++) {
        int fetch = own->nodes[i].fetch;

        status = est_tensor_create_from(est_loop_dtype(loop, fetch), *est_loop_shape(loop, fetch),
                                        est_loop_data(loop, fetch), &own->values[i].tensor);
    }
    if (status == EST_OK) status = log_values(own, iteration);
    drop_values(own);
    return status;
}

static est_status logging_end(est_hook *hook, est_loop *loop)
{
    logging_hook *own    = EST_CONTAINER_OF(hook, logging_hook, hook);
    est_status    status = EST_OK;

    if (!own->at_end || est_loop_runs(loop) == 0) return EST_OK; /* no run took place, so there are no values */
    for (int i = 0; i < own->n && status == EST_OK; i++) {
        status = est_loop_compute(loop, (est_nodes){ &own->nodes[i].node, 1 }, &own->values[i].tensor);
    }
    if (status == EST_OK) status = log_values(own, own->iterations);
    drop_values(own);
    return status;
}

static void logging_free(est_hook *hook)
{
    logging_hook *own = EST_CONTAINER_OF(hook, logging_hook, hook);

    est_arena_free(own->arena);
    est_free(own);
}

static est_status take_logging(logging_hook *own, const est_named_node *nodes, int n, const est_logging_options *given)
{
    est_logging_options options;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_logging_options), given, &options));
    own->every = options.every_n_iter != 0 || options.every_n_secs != 0;
    if (options.every_n_iter < 0 || !(options.every_n_secs >= 0) ||
        (options.every_n_iter > 0 && options.every_n_secs > 0) || (!own->every && !options.at_end)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a logging hook with every_n_iter %" PRId64 " and every_n_secs %g: set one of them above 0, or "
                        "only at_end",
                        options.every_n_iter, options.every_n_secs);
    }
    if (n < 1 || nodes == NULL) return est_fail(EST_INVALID_ARGUMENT, "a logging hook needs a node, got %d", n);
    if (!EST_LIST_OK(options.operations) || (options.operations.n != 0 && options.operations.n != n)) {
        return est_fail(EST_INVALID_ARGUMENT, "a logging hook has %d operations for %d nodes", options.operations.n, n);
    }
    own->at_end = options.at_end;
    own->format = options.format;
    own->user   = options.user;
    own->timer  = (est_timer){ .every_steps = options.every_n_iter, .every_secs = options.every_n_secs };
    own->arena  = est_arena_create();
    own->nodes  = own->arena != NULL ? est_arena_alloc(own->arena, (size_t)n * sizeof *own->nodes) : NULL;
    own->values = own->nodes != NULL ? est_arena_alloc(own->arena, (size_t)n * sizeof *own->values) : NULL;
    if (own->values == NULL) return est_no_memory();
    for (; own->n < n; own->n++) {
        const est_named_node *node = &nodes[own->n];
        const char           *name = node->name;

        if (name == NULL && node->node.graph != NULL) name = est_node_name(node->node);
        if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "node %d of a logging hook has no name", own->n);
        own->nodes[own->n] = (logged_node){ .name = est_arena_strdup(own->arena, name), .given = node->node };
        if (options.operations.n > 0 && node->node.graph == NULL) name = options.operations.data[own->n];
        if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "node %d of a logging hook has no operation", own->n);
        own->nodes[own->n].operation = est_arena_strdup(own->arena, name);
        if (own->nodes[own->n].name == NULL || own->nodes[own->n].operation == NULL) return est_no_memory();
        own->values[own->n] = (est_named_tensor){ .name = own->nodes[own->n].name };
    }
    return EST_OK;
}

est_hook *est_logging_hook(est_named_nodes nodes, const est_logging_options *options)
{
    logging_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    if (take_logging(own, nodes.data, nodes.n, options) != EST_OK) {
        logging_free(&own->hook);
        return NULL;
    }
    own->hook = (est_hook)EST_HOOK(.begin = logging_begin, .before_run = logging_before_run,
                                   .after_run = logging_after_run, .end = logging_end, .free = logging_free);
    return &own->hook;
}

/* --- the loss ----------------------------------------------------------------------------------------------------- */

typedef struct loss_log_hook {
    est_hook  hook;
    est_timer timer; /* counts iterations */
    int64_t   iterations;
    int64_t   runs; /* of the loop at the last line; global steps of other workers do not count */
    int64_t   step; /* before this run */
} loss_log_hook;

static est_status loss_log_begin(est_hook *hook, est_loop *loop)
{
    loss_log_hook *own = EST_CONTAINER_OF(hook, loss_log_hook, hook);

    (void)loop;
    own->timer.marked = false;
    own->iterations   = 0;
    own->runs         = 0;
    return EST_OK;
}

static est_status loss_log_before_run(est_hook *hook, est_loop *loop)
{
    EST_CONTAINER_OF(hook, loss_log_hook, hook)->step = est_loop_global_step(loop);
    return EST_OK;
}

static est_status loss_log_after_run(est_hook *hook, est_loop *loop)
{
    loss_log_hook *own       = EST_CONTAINER_OF(hook, loss_log_hook, hook);
    est_strbuf     line      = { 0 };
    int64_t        iteration = own->iterations;

    if (est_loop_runs(loop) == own->runs) return EST_OK;
    own->runs = est_loop_runs(loop);
    own->iterations++;
    if (!est_timer_due(&own->timer, iteration)) return EST_OK;
    est_strbuf_printf(&line, "loss = %g, step = %" PRId64, est_loop_loss(loop), own->step);
    return log_line(&line, &own->timer, iteration);
}

est_hook *est_loss_log_hook(int64_t every_n)
{
    loss_log_hook *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->timer.every_steps = every_n;
    own->hook              = (est_hook)EST_HOOK(.begin = loss_log_begin, .before_run = loss_log_before_run,
                                                .after_run = loss_log_after_run, .free = est_hook_free_struct, .idle = true);
    return &own->hook;
}
