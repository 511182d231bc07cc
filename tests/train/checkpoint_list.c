/* SPDX-License-Identifier: Apache-2.0
 *
 * Searching a model directory while another process saves into it. */
#include "format/checkpoint.h"

#include "train/saver_test.h"

/* A reader that finds its checkpoint gone because a newer one was saved. */
typedef struct race {
    est_saver   *saver;
    const model *m;
    int          n_saves; /* how often it loses */
    int          n_attempts;
    int          step;
    char         last[256];
} race;

static est_status lose_race(void *user, const char *prefix, bool *unusable)
{
    race *r = user;

    r->n_attempts++;
    snprintf(r->last, sizeof r->last, "%s", prefix);
    if (r->n_saves-- <= 0) return EST_OK;
    assert_ok(save_step(r->saver, r->m, r->step++));
    *unusable = true;
    return est_fail(EST_NOT_FOUND, "gone");
}

TEST(newer_one_meanwhile)
{
    model m = make_model();
    race  r = { .m = &m, .n_saves = 3, .step = 1 };

    log_keep(EST_LOG_WARN);
    assert_ok(est_saver_create(at("race"), EST_SAVER(.keep_max = 1), &r.saver));
    assert_ok(save_step(r.saver, &m, 0));
    assert_ok(est_checkpoint_try_all(at("race"), NULL, lose_race, &r));
    assert_int_equal(r.n_attempts, 4);
    assert_string_equal(r.last, at("race/model.ckpt-3"));
    assert_int_equal(log_count(EST_LOG_WARN, ""), 0);

    r = (race){ .saver = r.saver, .m = &m, .n_saves = 1, .step = 3 }; /* the same step, replaced */
    assert_ok(est_checkpoint_try_all(at("race"), NULL, lose_race, &r));
    assert_int_equal(r.n_attempts, 2);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 0);

    r = (race){ .saver = r.saver, .m = &m, .n_saves = 1000, .step = 4 }; /* it ends */
    assert_int_equal(est_checkpoint_try_all(at("race"), NULL, lose_race, &r), EST_DATA_LOSS);
    assert_true(r.n_attempts < 20);
    est_saver_free(r.saver);
    log_release();
    end_model(&m);
}

/* The first one is damaged, the second is removed by a newer save just then: the newer one is found. */
static est_status lose_second(void *user, const char *prefix, bool *unusable)
{
    race *r = user;

    r->n_attempts++;
    snprintf(r->last, sizeof r->last, "%s", prefix);
    if (r->n_attempts == 2) assert_ok(save_step(r->saver, r->m, 3));
    if (r->n_attempts > 2) return EST_OK;
    *unusable = true;
    return est_fail(r->n_attempts == 1 ? EST_DATA_LOSS : EST_NOT_FOUND, "attempt %d", r->n_attempts);
}

TEST(newer_one_later)
{
    model m = make_model();
    race  r = { .m = &m };

    log_keep(EST_LOG_WARN);
    assert_ok(est_saver_create(at("later"), EST_SAVER(.keep_max = 2), &r.saver));
    assert_ok(save_step(r.saver, &m, 1));
    assert_ok(save_step(r.saver, &m, 2));
    assert_ok(est_checkpoint_try_all(at("later"), NULL, lose_second, &r));
    assert_int_equal(r.n_attempts, 3);
    assert_string_equal(r.last, at("later/model.ckpt-3"));
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    est_saver_free(r.saver);
    log_release();
    end_model(&m);
}

static est_status refuse(void *user, const char *prefix, bool *unusable)
{
    (void)prefix;
    ++*(int *)user;
    *unusable = false;
    return est_fail(EST_INVALID_ARGUMENT, "the model does not fit");
}

/* What is not the checkpoint's fault ends the search, as it is. */
TEST(other_errors)
{
    int n = 0;

    expect_error(est_checkpoint_try_all(GOLDEN "/canned", NULL, refuse, &n), EST_INVALID_ARGUMENT, "does not fit");
    assert_int_equal(n, 1);
}

TEST(order)
{
    static const char *const files[] = { "a-5.index",
                                         "a-20.index",
                                         "a-3.index",
                                         "b-7.index",
                                         "-4.index",
                                         "a-.index",
                                         "a-1x.index",
                                         "a-99999999999999999999.index",
                                         "a-4.index2",
                                         "a.index",
                                         "a-30.data-00000-of-00001" };
    est_checkpoint_list      list    = { 0 };

    assert_ok(est_dir_create(at("list")));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];

        snprintf(path, sizeof path, "list/%s", files[i]);
        put_bytes(at(path), "", 0);
    }
    put_bytes(at("list/checkpoint"), "model_checkpoint_path: 'a-5' all_model_checkpoint_paths: ['gone', 'a-5']", 72);
    assert_ok(est_checkpoint_list_make(&list, at("list"), "a"));
    assert_int_equal(list.n, 4);
    assert_string_equal(list.paths[0], at("list/a-5"));
    assert_string_equal(list.paths[1], at("list/gone"));
    assert_string_equal(list.paths[2], at("list/a-3"));
    assert_string_equal(list.paths[3], at("list/a-20")); /* after the latest: left behind */
    est_checkpoint_list_clear(&list);
    assert_ok(est_checkpoint_list_make(&list, at("list"), NULL));
    assert_int_equal(list.n, 5);
    assert_string_equal(list.paths[2], at("list/a-3"));
    assert_string_equal(list.paths[3], at("list/a-20"));
    assert_string_equal(list.paths[4], at("list/b-7"));
    est_checkpoint_list_clear(&list);
    put_bytes(at("list/checkpoint"), "model_checkpoint_path: 'a'", 26); /* no step: nothing is known to be later */
    assert_ok(est_checkpoint_list_make(&list, at("list"), "a"));
    assert_int_equal(list.n, 4);
    assert_string_equal(list.paths[1], at("list/a-20"));
    est_checkpoint_list_clear(&list);
    assert_ok(est_checkpoint_list_make(&list, at("no such directory"), NULL));
    assert_int_equal(list.n, 0);
    est_checkpoint_list_clear(&list);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
