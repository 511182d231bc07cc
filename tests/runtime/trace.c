/* SPDX-License-Identifier: Apache-2.0
 *
 * Timelines: arrows from what makes a value to what reads it, and the memory that is taken meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "estoc/estoc.h"
#include "support/test.h"

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* The timeline of the step as text; to be freed. */
static char *timeline(est_step *step, const est_timeline_options *options)
{
    char   path[] = "/tmp/estoc-timeline-XXXXXX";
    int    file   = mkstemp(path);
    char  *text   = calloc(1, 1 << 20);
    size_t size   = 0;
    FILE  *f;

    assert_true(file >= 0 && text != NULL);
    close(file);
    ok(est_step_write_timeline(step, path, options));
    f = fopen(path, "r");
    assert_non_null(f);
    size = fread(text, 1, (1 << 20) - 1, f);
    (void)fclose(f);
    (void)remove(path);
    assert_true(size > 0 && size < (1 << 20) - 1);
    return text;
}

static int events(const char *text, const char *kind)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, kind)) != NULL; at++) n++;
    return n;
}

/* Whether a kernel ran on that thread at that microsecond. */
static bool kernel_at(const char *text, int thread, double when, const char **name)
{
    for (const char *at = text; (at = strstr(at, "{\"ph\":\"X\"")) != NULL; at++) {
        int    tid;
        double ts, dur;

        assert_int_equal(sscanf(at, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%lf,\"dur\":%lf,", &tid, &ts, &dur), 3);
        *name = strstr(at, "\"name\":");
        if (tid == thread && when >= ts - 1e-4 && when <= ts + dur - 9e-4) return true; /* its end is no longer in it */
    }
    return false;
}

/* Every arrow goes from one kernel to a later one; returns how many there are. */
static int check_arrows(const char *text)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, "{\"ph\":\"s\"")) != NULL; at++, n++) {
        int         from, to, id, same;
        double      made, read;
        const char *first, *second, *end = strstr(at, "{\"ph\":\"f\"");

        assert_non_null(end);
        assert_int_equal(sscanf(at, "{\"ph\":\"s\",\"pid\":1,\"tid\":%d,\"ts\":%lf,\"id\":%d", &from, &made, &id), 3);
        assert_int_equal(
            sscanf(end, "{\"ph\":\"f\",\"bp\":\"e\",\"pid\":1,\"tid\":%d,\"ts\":%lf,\"id\":%d", &to, &read, &same), 3);
        assert_int_equal(id, n + 1);
        assert_int_equal(same, id);
        assert_true(read >= made - 1e-4); /* 1e-3 is a nanosecond, and the last digit is rounded */
        assert_true(kernel_at(text, from, made, &first));
        assert_true(kernel_at(text, to, read, &second));
        assert_ptr_not_equal(first, second);
    }
    return n;
}

/* A counter for every kernel; what is taken at once fits into the slab, and fills it at the fullest moment. */
static void check_counters(const char *text, const est_step *step)
{
    size_t most = 0;

    for (const char *at = text; (at = strstr(at, "\"name\":\"memory\"")) != NULL; at++) {
        size_t results, scratch, variables;

        assert_int_equal(sscanf(at, "\"name\":\"memory\",\"args\":{\"results\":%zu,\"scratch\":%zu,\"variables\":%zu}",
                                &results, &scratch, &variables),
                         3);
        assert_true(variables > 0);
        if (results + scratch > most) most = results + scratch;
    }
    assert_true(most > est_step_slab_bytes(step) / 2 && most <= est_step_slab_bytes(step));
}

TEST(timeline)
{
    est_graph   *g    = NULL;
    est_session *s    = NULL;
    est_step    *step = NULL;
    est_tensor  *rows = NULL;
    est_node     x, y, loss, train;
    char        *text;
    int          kernels;

    ok(est_graph_create(3, &g));
    x     = est_placeholder(g, "x", EST_F32, EST_SHAPE(-1, 12));
    y     = est_dense(est_dense(x, 33, EST_DENSE(.activation = est_tanh)), 5, NULL);
    loss  = est_mean(est_square(est_softmax(y, -1)));
    train = est_minimize(est_adagrad(0.1, NULL), loss, NULL);
    ok(est_graph_status(g));
    ok(est_tensor_create(EST_F32, EST_SHAPE(8, 12), &rows));
    for (int i = 0; i < 8 * 12; i++) ((float *)est_tensor_mutable_data(rows))[i] = (float)(i % 7) / 7;
    ok(est_session_create(g, NULL, &s));
    ok(est_session_init(s));
    ok(est_session_prepare(s, EST_NODES(x), EST_NODES(loss), EST_NODES(train), &step));
    ok(est_step_trace(step, 1));
    ok(est_step_run(step, (const est_tensor *const[]){ rows }));
    text    = timeline(step, NULL);
    kernels = events(text, "{\"ph\":\"X\"");
    assert_true(check_arrows(text) >= kernels / 2); /* most read what another made */
    assert_int_equal(events(text, "{\"ph\":\"C\""), 0);
    free(text);
    text = timeline(step, EST_TIMELINE(.no_dataflow = true, .show_memory = true));
    assert_int_equal(events(text, "{\"ph\":\"X\""), kernels);
    assert_int_equal(check_arrows(text), 0);
    assert_int_equal(events(text, "{\"ph\":\"C\""), kernels);
    check_counters(text, step);
    free(text);
    est_tensor_free(rows);
    est_session_free(s);
    est_graph_free(g);
}
