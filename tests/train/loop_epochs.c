/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs of a loop over a session that is lent: events, logs, the order of the input, and failures. */
#include <math.h>

#include "data/stage.h"
#include "support/fault_loop.h"
#include "train/loop_test.h"

static int measured;

static est_status measure(void *user, est_loop *loop)
{
    (void)user;
    measured++;
    est_loop_set_log(loop, "loss", est_loop_loss(loop));
    return EST_OK;
}

static est_status note_begin(est_hook *hook, est_loop *loop)
{
    (void)hook;
    note("begin %d/%d ", (int)est_loop_epoch(loop), (int)est_loop_epochs(loop));
    assert_true(isnan(est_loop_log(loop, "loss")));
    assert_int_equal(est_loop_logs(loop), 0);
    return EST_OK;
}

static est_status note_end(est_hook *hook, est_loop *loop)
{
    (void)hook;
    note("end %g ", est_loop_log(loop, "loss"));
    est_loop_set_log(loop, "lr", 0.5);
    return EST_OK;
}

static est_status see_log(est_hook *hook, est_loop *loop)
{
    (void)hook;
    note("saw %s %s %g ", est_loop_log_name(loop, 0), est_loop_log_name(loop, 1), est_loop_log(loop, "lr"));
    assert_int_equal(est_loop_logs(loop), 2);
    assert_null(est_loop_log_name(loop, 2));
    assert_null(est_loop_log_name(loop, -1));
    return EST_OK;
}

static est_status run_epoch(est_loop *loop, int epoch)
{
    est_status status;

    EST_TRY(est_loop_begin_epoch(loop, epoch, 2, epoch));
    do status = est_loop_step(loop);
    while (status == EST_OK);
    if (!est_loop_at_end(loop)) return status;
    return est_loop_end_epoch(loop);
}

static est_status run_epochs(trainer *t, est_session *session, est_hooks hooks)
{
    est_loop  *loop;
    est_status status;

    t->spec.lent    = session;
    t->spec.hooks   = hooks;
    t->spec.measure = measure;
    EST_TRY(est_loop_open(&t->spec, &loop));
    status = run_epoch(loop, 0);
    if (status == EST_OK) status = run_epoch(loop, 1);
    if (status == EST_OK) status = est_loop_end(loop);
    est_loop_free(loop);
    return status;
}

static void expect_step(est_session *session, int64_t want)
{
    est_tensor *step;

    assert_ok(est_session_read(session, "global_step", &step));
    assert_int_equal(*(const int64_t *)est_tensor_data(step), want);
    est_tensor_free(step);
}

/* Logs are measured when somebody reads them, not with every run; the session stays as the loop has left it. */
TEST(events, .setup_func = keep_log)
{
    trainer      t;
    est_session *session;
    est_hook     a = EST_HOOK(.epoch_begin = note_begin, .epoch_end = note_end), b = EST_HOOK(.epoch_end = see_log);

    make_trainer(&t, 4, 1);
    assert_ok(est_session_create(t.graph, EST_SESSION(.threads = 1), &session));
    measured = 0;
    assert_ok(run_epochs(&t, session, EST_HOOKS(&a, &b)));
    /* w is 0, 0.1, 0.575, 0.64625 before the steps, of x = 1, 2 and x = 3, 4; the loss (w - 2)^2 times 2.5 or 12.5 */
    expect_happened("init begin 0/2 end 45.125 saw loss lr 0.5 begin 1/2 end 22.908 saw loss lr 0.5 ");
    assert_int_equal(measured, 2);
    assert_string_equal(lines_of(true), "");
    expect_step(session, 4);
    assert_ok(run_epochs(&t, session, EST_HOOKS(&a)));
    expect_step(session, 8);
    est_session_free(session);
    trainer_free(&t);
}

/* What a loop without epochs says, and a loop that is none. */
TEST(none, .setup_func = keep_log)
{
    trainer   t;
    est_loop *loop;

    make_trainer(&t, 4, 1);
    assert_ok(est_loop_open(&t.spec, &loop));
    assert_int_equal(est_loop_epoch(loop), -1);
    assert_int_equal(est_loop_epochs(loop), -1);
    assert_true(isnan(est_loop_log(loop, "loss")));
    est_loop_free(loop);
    trainer_free(&t);
    assert_int_equal(est_loop_epoch(NULL), -1);
    assert_int_equal(est_loop_logs(NULL), 0);
    assert_null(est_loop_log_name(NULL, 0));
    est_loop_set_log(NULL, "loss", 1);
}

/* Pass number i of a shuffled input has an order of its own, and the same each time. */
TEST(order_of_passes)
{
    est_dataset  *d;
    est_iterator *it;
    est_field     field[1] = { { 0 } };
    int64_t       seen[3][8];

    assert_ok(est_dataset_finish(est_dataset_shuffle(est_dataset_range(0, 8, 1), 8, 7), &d));
    for (int i = 0; i < 3; i++) {
        assert_ok(est_iterator_open_turn(d, i < 2 ? (uint64_t)i : 1, &it));
        for (int k = 0; k < 8; k++) {
            assert_ok(est_iterator_next(it, field));
            seen[i][k] = *(const int64_t *)est_tensor_data(field->values);
            est_element_clear(field, 1);
        }
        est_iterator_free(it);
    }
    assert_memory_not_equal(seen[0], seen[1], sizeof seen[0]);
    assert_memory_equal(seen[1], seen[2], sizeof seen[1]);
    est_dataset_free(d);
}

static est_status body(void)
{
    est_hook     a = EST_HOOK(.epoch_begin = note_begin, .epoch_end = note_end);
    trainer      t;
    est_session *session = NULL;
    est_status   status  = trainer_try(&t, 4, 1);

    happened[0] = '\0';
    if (status == EST_OK) status = est_session_create(t.graph, EST_SESSION(.threads = 1), &session);
    if (status == EST_OK) status = run_epochs(&t, session, EST_HOOKS(&a));
    est_session_free(session);
    trainer_free(&t);
    return status;
}

TEST(memory, .setup_func = keep_log)
{
    FAULT_LOOP(f, FAULT_PLACES) {
        fault_arm(&f);
        fault_check_lenient(&f, body());
    }
    assert_ok(body());
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
