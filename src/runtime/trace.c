/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording and showing where the time and the memory of a step went. */
#include "runtime/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"

est_status est_trace_start(est_plan *plan, int runs)
{
    est_trace *t = est_zalloc(sizeof *t);

    if (t != NULL) {
        t->spans = est_zalloc(sizeof *t->spans * ((size_t)runs * (size_t)plan->n_items + 1));
        t->whole = est_zalloc(sizeof *t->whole * ((size_t)runs + 1));
    }
    if (t == NULL || t->spans == NULL || t->whole == NULL) {
        est_trace_free(t);
        return est_no_memory();
    }
    t->runs_max = runs;
    t->n_steps  = plan->n_items; /* rows are as wide as the plan could ever need */
    est_trace_free(plan->trace);
    plan->trace = t;
    return EST_OK;
}

void est_trace_free(est_trace *trace)
{
    if (trace == NULL) return;
    est_free(trace->spans);
    est_free(trace->whole);
    est_free(trace);
}

/* Microseconds with a point, whatever the locale. */
static void append_us(est_strbuf *b, int64_t ns)
{
    est_strbuf_printf(b, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

static void append_event(est_strbuf *b, const est_item *item, const est_span *span, int64_t origin)
{
    char shape[EST_SHAPE_TEXT_MAX];

    est_strbuf_printf(b, ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":", span->thread);
    append_us(b, span->start_ns - origin);
    est_strbuf_append(b, ",\"dur\":");
    append_us(b, span->end_ns - span->start_ns);
    est_strbuf_append(b, ",\"name\":");
    est_strbuf_append_json(b, item->call.node->op->name, strlen(item->call.node->op->name));
    est_strbuf_printf(b, ",\"args\":{\"node\":");
    est_strbuf_append_json(b, item->call.node->name, strlen(item->call.node->name));
    if (item->call.n_out > 0) {
        est_strbuf_printf(b, ",\"shape\":\"%s\"", est_shape_text(&item->call.out[0].shape, shape));
    }
    est_strbuf_printf(b, "}}");
}

/* The step that made the bytes of a view, past operations that only look at them in another way; -1: a feed, a constant
 * or a variable. */
static int32_t step_behind(const est_plan *plan, const est_view *view)
{
    const est_slot *slot = &plan->slots[est_view_index(plan, view)];

    return plan->step_of[plan->slots[slot->root].maker];
}

static void append_arrow_end(est_strbuf *b, const char *which, int id, int thread, int64_t ns)
{
    est_strbuf_printf(b, ",\n{%s,\"pid\":1,\"tid\":%d,\"ts\":", which, thread);
    append_us(b, ns);
    est_strbuf_printf(b, ",\"id\":%d,\"cat\":\"dataflow\",\"name\":\"dataflow\"}", id);
}

/* Arrows to a step from those whose results it reads. A viewer binds an end of an arrow to the kernel that runs at that
 * moment on that thread, so the first is the last nanosecond of the one that makes. */
static void append_arrows(est_strbuf *b, const est_plan *plan, const est_span *spans, int32_t step, int64_t origin,
                          int *id)
{
    const est_call *call = &plan->items[plan->steps[step]].call;

    for (int i = 0; i < call->n_in; i++) {
        int32_t         maker = step_behind(plan, call->in[i]);
        const est_span *from, *to = &spans[step];

        if (maker < 0 || maker == step) continue;
        from = &spans[maker];
        append_arrow_end(b, "\"ph\":\"s\"", *id, from->thread,
                         (from->end_ns > from->start_ns ? from->end_ns - 1 : from->start_ns) - origin);
        append_arrow_end(b, "\"ph\":\"f\",\"bp\":\"e\"", (*id)++, to->thread, to->start_ns - origin);
    }
}

static size_t variable_bytes(const est_plan *plan)
{
    size_t bytes = 0;

    for (int i = 0; i < plan->n_vars; i++) {
        bytes += (size_t)plan->vars[i]->value.count * est_dtype_size(plan->vars[i]->value.dtype);
    }
    return bytes;
}

/* What is taken, by the plan, while a step runs: results that somebody still needs, and its own scratch. */
static void append_memory(est_strbuf *b, const est_plan *plan, const est_span *spans, int32_t step, int64_t origin)
{
    int32_t item    = plan->steps[step];
    size_t  results = 0;

    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const est_buffer *buffer = &plan->buffers[i];

        if (buffer->first <= item && item <= buffer->last) results += buffer->bytes;
    }
    est_strbuf_append(b, ",\n{\"ph\":\"C\",\"pid\":1,\"ts\":");
    append_us(b, spans[step].start_ns - origin);
    est_strbuf_printf(b, ",\"name\":\"memory\",\"args\":{\"results\":%zu,\"scratch\":%zu,\"variables\":%zu}}", results,
                      plan->items[item].scratch_bytes, variable_bytes(plan));
}

est_status est_trace_write_timeline(const est_plan *plan, const char *path, const est_timeline_options *options)
{
    const est_trace *t  = plan->trace;
    est_strbuf       b  = { 0 };
    int              id = 1;
    est_status       status;

    if (t == NULL || t->runs == 0) {
        return est_fail(EST_FAILED_PRECONDITION, "%s: nothing was traced: call est_step_trace() and run first", path);
    }
    est_strbuf_printf(&b, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                          "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"estoc\"}}");
    for (int r = 0; r < t->runs; r++) {
        const est_span *spans  = &t->spans[(int64_t)r * t->n_steps];
        int64_t         origin = t->whole[0].start_ns;

        for (int32_t i = 0; i < plan->n_steps; i++) {
            append_event(&b, &plan->items[plan->steps[i]], &spans[i], origin);
            if (!options->no_dataflow) append_arrows(&b, plan, spans, i, origin, &id);
            if (options->show_memory) append_memory(&b, plan, spans, i, origin);
        }
    }
    est_strbuf_printf(&b, "\n]}\n");
    status = est_strbuf_status(&b);
    if (status == EST_OK) status = est_file_replace(path, b.data, b.size);
    est_strbuf_clear(&b);
    return status;
}

/* One line of the report: all nodes of one op. */
typedef struct op_total {
    const est_op *op;
    int64_t       ns;
    int           nodes;
} op_total;

static int longest_first(const void *a, const void *b)
{
    const op_total *x = a, *y = b;

    return (x->ns < y->ns) - (x->ns > y->ns);
}

static int total_by_op(const est_plan *plan, op_total *totals)
{
    const est_trace *t = plan->trace;
    int              n = 0;

    for (int32_t i = 0; i < plan->n_steps; i++) {
        const est_op *op = plan->items[plan->steps[i]].call.node->op;
        int           k  = 0;
        while (k < n && totals[k].op != op) k++;
        if (k == n) totals[n++] = (op_total){ .op = op };
        totals[k].nodes++;
        for (int r = 0; r < t->runs; r++) {
            const est_span *span = &t->spans[(int64_t)r * t->n_steps + i];
            totals[k].ns += span->end_ns - span->start_ns;
        }
    }
    return n;
}

static void report_memory(const est_plan *plan, FILE *out)
{
    size_t sum = 0;

    for (int32_t b = 0; b < plan->n_buffers; b++) sum += plan->buffers[b].bytes;
    (void)fprintf(
        out,
        "memory: slab %.2f MB (%.2f MB of results take turns in it, the rest is scratch); variables %.2f MB; laid out "
        "%d time%s\n",
        (double)plan->slab_bytes / 1e6, (double)sum / 1e6, (double)variable_bytes(plan) / 1e6, plan->n_layouts,
        plan->n_layouts == 1 ? "" : "s");
}

void est_trace_report(const est_plan *plan, FILE *out)
{
    const est_trace *t      = plan->trace;
    op_total        *totals = est_zalloc(sizeof *totals * (size_t)(plan->n_steps + 1));
    int64_t          whole = 0, inside = 0;
    int              n;

    if (t == NULL || t->runs == 0 || totals == NULL) {
        (void)fprintf(out, "nothing was traced\n");
        est_free(totals);
        return;
    }
    n = total_by_op(plan, totals);
    qsort(totals, (size_t)n, sizeof *totals, longest_first);
    for (int r = 0; r < t->runs; r++) whole += t->whole[r].end_ns - t->whole[r].start_ns;
    (void)fprintf(out, "%-36s %6s %12s %7s\n", "op", "nodes", "us a run", "share");
    for (int i = 0; i < n; i++) {
        inside += totals[i].ns;
        (void)fprintf(out, "%-36s %6d %12.2f %6.1f%%\n", totals[i].op->name, totals[i].nodes,
                      (double)totals[i].ns / 1e3 / t->runs, 100.0 * (double)totals[i].ns / (double)whole);
    }
    (void)fprintf(out, "%-36s %6s %12.2f %6.1f%%\n", "the runtime, between kernels", "",
                  (double)(whole - inside) / 1e3 / t->runs, 100.0 * (double)(whole - inside) / (double)whole);
    (void)fprintf(out, "%-36s %6d %12.2f %6.1f%%\n", "a run", plan->n_steps, (double)whole / 1e3 / t->runs, 100.0);
    report_memory(plan, out);
    est_free(totals);
}
