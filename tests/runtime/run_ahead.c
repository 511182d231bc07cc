/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that the host does not wait for, and inputs that lie on a device: two far devices, against the CPU. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/devices.h"
#include "estoc/estoc.h"
#include "runtime/session.h"
#include "support/far_device.h"
#include "support/nn_test.h"
#include "support/test.h"

#define CLASSES 3
#define ROWS    4

typedef struct small_model {
    est_graph   *graph;
    est_session *session;
    est_node     x, label, loss, train, step;
    est_step    *run;
} small_model;

#define FAR  NULL
#define HERE EST_SESSION(.devices = EST_STRINGS("/cpu:0"), .threads = 1)

/* Two layers, Adagrad, and a label that must be a class: an id that no class has fails on the device. */
static small_model make_model(const est_session_options *options)
{
    small_model m = { 0 };
    est_node    h;

    assert_ok(est_graph_create(7, &m.graph));
    m.x     = est_placeholder(m.graph, "x", EST_F32, EST_SHAPE(-1, 5));
    m.label = est_placeholder(m.graph, "label", EST_I32, EST_SHAPE(-1));
    h       = est_dense(m.x, 6, EST_DENSE(.activation = est_tanh));
    m.loss  = est_mean(est_sparse_softmax_xent(est_dense(h, CLASSES, NULL), m.label));
    m.train = est_minimize(est_adagrad(0.1, NULL), m.loss, NULL);
    m.step  = est_after(est_read_variable(est_global_step(m.graph)), m.train);
    assert_ok(est_graph_status(m.graph));
    assert_ok(est_session_create(m.graph, options, &m.session));
    assert_ok(est_session_init(m.session));
    assert_ok(
        est_session_prepare(m.session, EST_NODES(m.x, m.label), EST_NODES(m.loss, m.step), EST_NODES(m.train), &m.run));
    return m;
}

static void free_model(small_model *m)
{
    est_session_free(m->session);
    est_graph_free(m->graph);
}

typedef enum batch_kind { GOOD, BAD_LABEL, NAN_INPUT } batch_kind;

static void make_batch(int64_t rows, int seed, batch_kind kind, est_tensor *feeds[2])
{
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(rows, 5), &feeds[0]));
    assert_ok(est_tensor_create(EST_I32, EST_SHAPE(rows), &feeds[1]));
    for (int64_t i = 0; i < rows * 5; i++) {
        ((float *)est_tensor_mutable_data(feeds[0]))[i] = (float)((i * 7 + seed * 3) % 11) / 11 - 0.5f;
    }
    for (int64_t i = 0; i < rows; i++)
        ((int32_t *)est_tensor_mutable_data(feeds[1]))[i] = (int32_t)((i * 5 + seed) % CLASSES);
    if (kind == BAD_LABEL) ((int32_t *)est_tensor_mutable_data(feeds[1]))[1] = CLASSES + 4;
    if (kind == NAN_INPUT) ((float *)est_tensor_mutable_data(feeds[0]))[2] = NAN;
}

static est_status start(const small_model *m, int64_t rows, int seed, batch_kind kind)
{
    est_tensor *feeds[2];
    est_status  status;

    make_batch(rows, seed, kind, feeds);
    status = est_step_start(m->run, (const est_tensor *const *)feeds);
    est_tensor_free(feeds[0]);
    est_tensor_free(feeds[1]);
    return status;
}

static void assert_same_variables(const small_model *a, const small_model *b)
{
    assert_int_equal(est_session_variables(a->session), est_session_variables(b->session));
    for (int i = 0; i < est_session_variables(a->session); i++) {
        const char *name = est_session_variable(a->session, i);
        est_tensor *x, *y;

        assert_ok(est_session_read(a->session, name, &x));
        assert_ok(est_session_read(b->session, name, &y));
        assert_memory_equal(est_tensor_data(x), est_tensor_data(y), est_tensor_bytes(x));
        est_tensor_free(x);
        est_tensor_free(y);
    }
}

static void assert_nothing_left(void)
{
    est_far_counts now = est_far_device_counts();

    assert_int_equal(now.opened, 0);
    assert_int_equal(now.blocks, 0);
}

TEST(gives_what_the_cpu_gives)
{
    small_model here = make_model(HERE), far = make_model(FAR);

    assert_non_null(est_step_plan(far.run)->ahead);
    assert_null(est_step_plan(here.run)->ahead);
    for (int s = 0; s < 40; s++) {
        int64_t rows = 4 + s / 10 % 3;

        assert_ok(start(&here, rows, s, GOOD));
        assert_ok(start(&far, rows, s, GOOD));
        assert_true(est_step_scalar(far.run, 1) == s + 1);          /* global_step is the host's: no wait for it */
        if (s % 7 == 0) assert_true(est_step_is_ahead(far.run, 0)); /* the loss is not */
        if (s % 7 != 6) continue;
        assert_true(est_step_scalar(here.run, 0) == est_step_scalar(far.run, 0));
        assert_false(est_step_is_ahead(far.run, 0));
    }
    assert_same_variables(&here, &far);
    assert_int_equal(est_session_run_count(here.session), est_session_run_count(far.session));
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

/* The outputs of a run stay on the device unless somebody looks. */
TEST(copies_nothing_that_nobody_asks_for)
{
    small_model    far = make_model(FAR);
    est_far_counts before;

    assert_ok(start(&far, ROWS, 0, GOOD));
    assert_ok(est_step_wait(far.run));
    before = est_far_device_counts();
    for (int s = 1; s < 12; s++) assert_ok(start(&far, ROWS, s, GOOD));
    assert_ok(est_step_wait(far.run));
    assert_int_equal(est_far_device_counts().fetched, before.fetched);
    assert_true(isfinite(est_step_scalar(far.run, 0)));
    assert_int_equal(est_far_device_counts().fetched - before.fetched, sizeof(float));
    free_model(&far);
}

static void run_good(const small_model *m, int first, int end)
{
    for (int s = first; s < end; s++) assert_ok(start(m, ROWS, s, GOOD));
}

/* The CPU's text of what fails. */
static void text_of_cpu(const small_model *here, char *text, size_t size)
{
    assert_int_equal(start(here, ROWS, 5, BAD_LABEL), EST_INVALID_ARGUMENT);
    snprintf(text, size, "%s", est_error_message());
}

/* A run fails, and up to three are started behind it before that is known: they never were. */
TEST(failure_is_reported_later)
{
    for (int behind = 0; behind < 4; behind++) {
        small_model here = make_model(HERE), far = make_model(FAR);
        char        text[1024];
        est_tensor *step;

        run_good(&here, 0, 5);
        run_good(&far, 0, 5);
        text_of_cpu(&here, text, sizeof text);
        assert_ok(start(&far, ROWS, 5, BAD_LABEL));
        run_good(&far, 6, 6 + behind);
        assert_int_equal(est_step_wait(far.run), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), text));
        assert_non_null(strstr(est_error_message(), "step 6: "));
        assert_ok(est_step_wait(far.run)); /* once */
        assert_true(isnan(est_step_scalar(far.run, 0)));
        assert_null(est_step_data(far.run, 0));
        assert_ok(est_session_read(far.session, "global_step", &step));
        assert_int_equal(*(const int64_t *)est_tensor_data(step), 5);
        est_tensor_free(step);
        assert_int_equal(est_session_run_count(far.session), est_session_run_count(here.session));
        run_good(&here, 10, 14);
        run_good(&far, 10, 14);
        assert_true(est_step_scalar(here.run, 0) == est_step_scalar(far.run, 0));
        assert_same_variables(&here, &far);
        free_model(&here);
        free_model(&far);
        assert_nothing_left();
    }
}

/* After four runs with shapes of their own such runs are launched as they come, with all that a recording has:
 * failures, and what is watched. Shapes that come again are recorded. */
TEST(shapes_that_come_once_are_not_recorded)
{
    small_model    here = make_model(HERE), far = make_model(FAR);
    char           text[1024];
    est_far_counts before, after;

    before = est_far_device_counts();
    for (int s = 0; s < 10; s++) {
        assert_ok(start(&here, ROWS + s, s, GOOD));
        assert_ok(start(&far, ROWS + s, s, GOOD));
    }
    assert_true(est_step_scalar(here.run, 0) == est_step_scalar(far.run, 0));
    after = est_far_device_counts();
    assert_int_equal(after.recorded - before.recorded, 4);
    assert_int_equal(after.single - before.single, 6);
    assert_int_equal(start(&here, 20, 5, BAD_LABEL), EST_INVALID_ARGUMENT);
    snprintf(text, sizeof text, "%s", est_error_message());
    assert_ok(start(&far, 20, 5, BAD_LABEL));
    assert_ok(start(&far, 21, 6, GOOD));
    assert_int_equal(est_step_wait(far.run), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), text));
    assert_non_null(strstr(est_error_message(), "step 11: "));
    for (int s = 0; s < 3; s++) {
        assert_ok(start(&here, ROWS + 9, s, GOOD));
        assert_ok(start(&far, ROWS + 9, s, GOOD));
    }
    assert_same_variables(&here, &far);
    assert_int_equal(est_far_device_counts().recorded - after.recorded, 1);
    assert_true(est_plan_watch(est_step_plan(far.run), 0));
    for (int s = 0; s < 6; s++) assert_ok(start(&far, 30 + s, s, GOOD));
    assert_ok(start(&far, 40, 0, NAN_INPUT));
    assert_ok(start(&far, 41, 0, GOOD));
    assert_int_equal(est_step_wait(far.run), EST_INVALID_ARGUMENT);
    assert_true(est_session_failure(far.session)->is_nan);
    assert_int_equal(est_session_run_count(far.session), est_session_run_count(here.session) + 7);
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

/* Whoever comes next hears of it: another start, a read, a run of something else, the end of the session. */
TEST(failure_is_reported_to_whom_comes_next)
{
    for (int who = 0; who < 5; who++) {
        small_model far = make_model(FAR);
        est_tensor *got;
        est_status  status = EST_OK;

        run_good(&far, 0, 2);
        assert_ok(start(&far, ROWS, 2, BAD_LABEL));
        if (who == 0) {
            for (int s = 0; s < 4 && status == EST_OK; s++) status = start(&far, ROWS, 3, GOOD);
        } else if (who == 1) {
            status = est_session_read(far.session, "global_step", &got);
        } else if (who == 2) {
            est_tensor *feeds[2];

            make_batch(ROWS, 1, GOOD, feeds);
            status = est_session_run(far.session, EST_FEEDS({ far.x, feeds[0] }, { far.label, feeds[1] }),
                                     EST_NODES(far.loss), EST_NO_NODES, &got);
            est_tensor_free(feeds[0]);
            est_tensor_free(feeds[1]);
        } else if (who == 3) {
            assert_true(isnan(est_step_scalar(far.run, 0))); /* a look cannot say it */
            status = est_step_wait(far.run);
        } else {
            status = EST_INVALID_ARGUMENT; /* nobody */
        }
        assert_int_equal(status, EST_INVALID_ARGUMENT);
        free_model(&far);
        assert_nothing_left();
    }
}

TEST(feeds_of_a_wrong_shape_fail_at_once)
{
    small_model far = make_model(FAR);
    est_tensor *feeds[2];

    run_good(&far, 0, 3);
    make_batch(ROWS, 1, GOOD, feeds);
    assert_int_equal(est_step_start(far.run, (const est_tensor *const[]){ feeds[0], feeds[0] }), EST_INVALID_ARGUMENT);
    assert_int_equal(est_step_start(far.run, NULL), EST_INVALID_ARGUMENT);
    run_good(&far, 3, 6);
    assert_int_equal(est_session_run_count(far.session), 7);
    est_tensor_free(feeds[0]);
    est_tensor_free(feeds[1]);
    free_model(&far);
}

/* As on the CPU, where a loss is looked at when its step is made: that step counts, and no later one. */
TEST(watched_loss)
{
    for (int behind = 0; behind < 4; behind++) {
        small_model here = make_model(HERE), far = make_model(FAR);

        assert_false(est_plan_watch(est_step_plan(here.run), 0));
        assert_true(est_plan_watch(est_step_plan(far.run), 0));
        assert_false(est_plan_watch(est_step_plan(far.run), 1));
        run_good(&here, 0, 5);
        run_good(&far, 0, 5);
        assert_ok(start(&here, ROWS, 5, NAN_INPUT));
        assert_true(isnan(est_step_scalar(here.run, 0)));
        assert_ok(start(&far, ROWS, 5, NAN_INPUT));
        run_good(&far, 6, 6 + behind);
        assert_int_equal(est_step_wait(far.run), EST_INVALID_ARGUMENT);
        assert_true(est_session_failure(far.session)->is_nan);
        assert_int_equal(est_session_failure(far.session)->n_feeds, 2);
        assert_true(isnan(((const float *)est_tensor_data(est_session_failure(far.session)->feeds[0]))[2]));
        assert_int_equal(est_session_run_count(far.session), est_session_run_count(here.session));
        assert_same_variables(&here, &far);
        free_model(&here);
        free_model(&far);
        assert_nothing_left();
    }
}

/* --- inputs on a device ------------------------------------------------------------------------------------------- */

#define SETS 8

static void make_resident(int n, est_tensor *(*sets)[2], const char *device)
{
    for (int s = 0; s < n; s++) {
        est_tensor *here[2];

        make_batch(ROWS, s, GOOD, here);
        for (int i = 0; i < 2; i++) {
            char name[64];

            assert_ok(est_tensor_to_device(here[i], device, &sets[s][i]));
            assert_null(est_tensor_data(sets[s][i]));
            assert_string_equal(est_tensor_device_name(sets[s][i], name, sizeof name), device);
            est_tensor_free(here[i]);
        }
    }
}

static void free_sets(int n, est_tensor *(*sets)[2])
{
    for (int s = 0; s < n; s++) {
        est_tensor_free(sets[s][0]);
        est_tensor_free(sets[s][1]);
    }
}

TEST(resident_inputs_are_not_copied)
{
    small_model    here = make_model(HERE), far = make_model(FAR);
    est_tensor    *sets[SETS][2];
    est_far_counts before, after;

    make_resident(SETS, sets, "/device:GPU:0");
    for (int s = 0; s < SETS; s++) assert_ok(est_step_start(far.run, (const est_tensor *const *)sets[s]));
    before = est_far_device_counts();
    for (int s = 0; s < 5 * SETS; s++) assert_ok(est_step_start(far.run, (const est_tensor *const *)sets[s % SETS]));
    after = est_far_device_counts();
    assert_int_equal(after.sent, before.sent);
    assert_int_equal(after.recorded, before.recorded);
    for (int s = 0; s < 6 * SETS; s++) assert_ok(start(&here, ROWS, s % SETS, GOOD));
    assert_true(est_step_scalar(here.run, 0) == est_step_scalar(far.run, 0));
    assert_same_variables(&here, &far);
    free_sets(SETS, sets);
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

/* More batches than recordings are kept for: copied within the device, and recorded once. */
TEST(many_resident_inputs)
{
    enum { MANY = 50 };

    small_model    here = make_model(HERE), far = make_model(FAR);
    est_tensor    *sets[MANY][2];
    est_far_counts before, after;

    make_resident(MANY, sets, "/device:GPU:0");
    for (int s = 0; s < MANY; s++) assert_ok(est_step_start(far.run, (const est_tensor *const *)sets[s]));
    before = est_far_device_counts();
    for (int s = 0; s < MANY; s++) assert_ok(est_step_start(far.run, (const est_tensor *const *)sets[s]));
    after = est_far_device_counts();
    assert_int_equal(after.sent, before.sent);
    assert_int_equal(after.recorded, before.recorded);
    free_sets(MANY, sets); /* while runs are under way */
    for (int s = 0; s < 2 * MANY; s++) assert_ok(start(&here, ROWS, s % MANY, GOOD));
    assert_same_variables(&here, &far);
    free_model(&here);
    free_model(&far);
    assert_nothing_left();
}

/* On another device, in the middle of a tensor, and for a session without devices. */
TEST(inputs_that_lie_elsewhere)
{
    small_model here = make_model(HERE), far = make_model(FAR), plain = make_model(HERE);
    est_tensor *sets[SETS][2], *part[2], *back;

    make_resident(SETS, sets, "/device:GPU:1");
    for (int s = 0; s < SETS; s++) {
        assert_ok(start(&here, ROWS, s, GOOD));
        assert_ok(est_step_start(far.run, (const est_tensor *const *)sets[s]));
        assert_ok(est_step_run(plain.run, (const est_tensor *const *)sets[s]));
    }
    assert_same_variables(&here, &far);
    assert_same_variables(&here, &plain);
    free_sets(SETS, sets);
    make_resident(1, sets, "/device:GPU:0");
    for (int i = 0; i < 2; i++) assert_ok(est_tensor_rows(sets[0][i], 1, 3, &part[i]));
    assert_ok(est_step_start(far.run, (const est_tensor *const *)part));
    for (int i = 0; i < 2; i++) {
        est_tensor *moved;

        assert_ok(est_tensor_to_host(part[i], &moved));
        est_tensor_free(part[i]);
        part[i] = moved;
    }
    assert_ok(est_step_start(here.run, (const est_tensor *const *)part));
    assert_same_variables(&here, &far);
    assert_ok(est_tensor_to_device(part[0], "/cpu:0", &back));
    assert_ptr_equal(back, part[0]);
    est_tensor_free(back);
    assert_int_equal(est_tensor_to_device(part[0], "/gpu:7", &back), EST_NOT_FOUND);
    assert_int_equal(est_tensor_to_device(part[0], "no device", &back), EST_INVALID_ARGUMENT);
    est_tensor_free(part[0]);
    est_tensor_free(part[1]);
    free_sets(1, sets);
    free_model(&here);
    free_model(&far);
    free_model(&plain);
    assert_nothing_left();
}

/* What the host looks at is copied to it, also when a device uses it too. */
TEST(host_looks_at_a_resident_input)
{
    est_graph   *g;
    est_session *s;
    est_node     x, text, twice;
    est_tensor  *feed, *far, *out[3];

    assert_ok(est_graph_create(1, &g));
    x     = est_placeholder(g, "x", EST_F32, EST_SHAPE(-1));
    text  = est_as_string(x);
    twice = est_add(x, x);
    assert_ok(est_session_create(g, NULL, &s));
    assert_ok(est_tensor_f32(EST_SHAPE(2), (const float[]){ 1, 2 }, &feed));
    assert_ok(est_tensor_to_device(feed, "/gpu:0", &far));
    for (int i = 0; i < 2; i++) {
        assert_ok(est_session_run(s, EST_FEEDS({ x, far }), EST_NODES(text, twice, x), EST_NO_NODES, out));
        assert_true(((const float *)est_tensor_data(out[1]))[1] == 4);
        assert_true(((const float *)est_tensor_data(out[2]))[1] == 2);
        for (int k = 0; k < 3; k++) est_tensor_free(out[k]);
    }
    est_tensor_free(feed);
    est_tensor_free(far);
    est_session_free(s);
    est_graph_free(g);
    assert_nothing_left();
}

int main(void)
{
    est_devices_use(est_far_devices, 2);
    return est_test_run(NULL, NULL);
}
