/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a fit, as Keras shows it: a bar that grows, "32/100 [=====>........] - ETA: 3s - loss: 0.1234", as
 * the status line of a terminal, and lines of the log for what is done. Drawn ten times a second at most. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "network/fit.h"
#include "train/hooks.h"

#define DRAW_NS (EST_NS_PER_SEC / 10)
#define BAR     30 /* characters */

typedef struct progress {
    est_hook       hook;
    const est_fit *fit;
    bool           bar, shown;
    int64_t        first;              /* runs of the loop before this epoch; less, if it was resumed */
    int64_t        begin_ns, drawn_ns; /* of the epoch; of the last drawing */
} progress;

static double secs_since(int64_t begin_ns)
{
    return (double)(est_now_ns() - begin_ns) / (double)EST_NS_PER_SEC;
}

/* "1:02:03", "2:03", "3s". */
static void put_secs(est_strbuf *out, double secs)
{
    int64_t s = secs < 1e9 ? (int64_t)secs : (int64_t)1e9;

    if (s > 3600) {
        est_strbuf_printf(out, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    } else if (s > 60) {
        est_strbuf_printf(out, "%d:%02d", (int)(s / 60), (int)(s % 60));
    } else {
        est_strbuf_printf(out, "%ds", (int)s);
    }
}

static void put_step_secs(est_strbuf *out, double secs)
{
    if (secs >= 1 || secs == 0) {
        est_strbuf_printf(out, "%.0fs/step", secs);
    } else if (secs >= 1e-3) {
        est_strbuf_printf(out, "%.0fms/step", secs * 1e3);
    } else {
        est_strbuf_printf(out, "%.0fus/step", secs * 1e6);
    }
}

/* " - 12s 1s/step" */
static void put_elapsed(est_strbuf *out, int64_t begin_ns, int64_t done)
{
    double secs = secs_since(begin_ns);

    est_strbuf_append(out, " - ");
    put_secs(out, secs);
    est_strbuf_append(out, " ");
    put_step_secs(out, done > 0 ? secs / (double)done : 0);
}

static void put_logs(est_strbuf *out, est_loop *loop)
{
    for (int i = 0; i < est_loop_logs(loop); i++) {
        const char *name  = est_loop_log_name(loop, i);
        double      value = est_loop_log(loop, name);

        if (isnan(value)) value = NAN; /* printf shows the sign that another one has */
        est_strbuf_printf(out, fabs(value) > 1e-3 || value == 0 ? " - %s: %.4f" : " - %s: %.4e", name, value);
    }
}

/* Of one width, so that what follows stays where it is. */
static void put_count(est_strbuf *out, int64_t done, int64_t of)
{
    char total[24] = "Unknown";

    if (of > 0) (void)snprintf(total, sizeof total, "%" PRId64, of);
    est_strbuf_printf(out, "%*" PRId64 "/%s", (int)strlen(total), done, total);
}

static void put_bar(est_strbuf *out, int64_t done, int64_t of)
{
    int filled = of > 0 ? (int)(BAR * done / of) : 0;

    put_count(out, done, of);
    if (of == 0) return;
    est_strbuf_append(out, " [");
    for (int i = 0; i < BAR; i++) {
        est_strbuf_append(out, i < filled - 1 || (i < filled && done >= of) ? "=" : i == filled - 1 ? ">" : ".");
    }
    est_strbuf_append(out, "]");
}

static est_status progress_epoch_begin(est_hook *hook, est_loop *loop)
{
    progress *own = EST_CONTAINER_OF(hook, progress, hook);

    own->first    = est_loop_runs(loop) - own->fit->done;
    own->begin_ns = own->drawn_ns = est_now_ns();
    est_log_info("Epoch %" PRId64 "/%" PRId64, est_loop_epoch(loop) + 1, est_loop_epochs(loop));
    return EST_OK;
}

static est_status progress_after_run(est_hook *hook, est_loop *loop)
{
    progress  *own  = EST_CONTAINER_OF(hook, progress, hook);
    est_strbuf line = { 0 };
    int64_t    done;

    if (!own->shown || est_now_ns() - own->drawn_ns < DRAW_NS) return EST_OK;
    own->drawn_ns = est_now_ns();
    done          = est_loop_runs(loop) - own->first;
    put_bar(&line, done, own->fit->known_steps);
    if (own->fit->known_steps > done) {
        est_strbuf_append(&line, " - ETA: ");
        put_secs(&line, secs_since(own->begin_ns) / (double)done * (double)(own->fit->known_steps - done));
    } else if (own->fit->known_steps == 0) {
        put_elapsed(&line, own->begin_ns, done);
    }
    put_logs(&line, loop);
    est_log_status(est_strbuf_text(&line)); /* truncated if out of memory */
    est_strbuf_clear(&line);
    return EST_OK;
}

static est_status progress_epoch_end(est_hook *hook, est_loop *loop)
{
    progress  *own  = EST_CONTAINER_OF(hook, progress, hook);
    est_strbuf line = { 0 };
    int64_t    done = est_loop_runs(loop) - own->first;
    double     secs = secs_since(own->begin_ns);

    if (own->shown) est_log_status(NULL);
    if (own->bar) {
        put_bar(&line, done, done);
        put_elapsed(&line, own->begin_ns, done);
        put_logs(&line, loop);
    } else {
        put_count(&line, done, done);
        est_strbuf_append(&line, " - ");
        put_secs(&line, secs);
        put_logs(&line, loop);
        est_strbuf_append(&line, " - ");
        put_step_secs(&line, done > 0 ? secs / (double)done : 0);
    }
    est_log_info("%s", est_strbuf_text(&line));
    est_strbuf_clear(&line);
    return EST_OK;
}

static void progress_free(est_hook *hook)
{
    progress *own = EST_CONTAINER_OF(hook, progress, hook);

    if (own->shown) est_log_status(NULL); /* the line remains if an epoch failed */
    est_free(own);
}

est_hook *est_fit_progress(est_fit *fit, est_verbose verbose)
{
    progress *own = est_hook_alloc(sizeof *own);

    if (own == NULL) return NULL;
    own->fit   = fit;
    own->shown = verbose != EST_VERBOSE_LINES && est_log_status_shown();
    own->bar   = verbose == EST_VERBOSE_BAR || own->shown;
    own->hook  = (est_hook)EST_HOOK(.epoch_begin = progress_epoch_begin, .after_run = progress_after_run,
                                    .epoch_end = progress_epoch_end, .free = progress_free);
    return &own->hook;
}
