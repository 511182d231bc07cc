/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that train together with inputs of very different lengths: whoever has nothing left takes part with nothing until all
 * are out, also as the chief, which still saves, counts and stops; and evaluation together, in which workers are killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/estimator_test.h"
#include "support/together_test.h"

/* Shards of 1, 0 and 100,000 examples, in batches of 128. */
static cluster make_shards(const char *steps, const char *die, const char *task, const char *at)
{
    cluster c = together_make(3, steps, "shards=100000");

    c.args[TOGETHER_PAUSE]    = "pause_us=0";
    c.args[TOGETHER_ARGS]     = die;
    c.args[TOGETHER_ARGS + 1] = task;
    c.args[TOGETHER_ARGS + 2] = at;
    return c;
}

#define SHARD_STEPS 782 /* 100,000 / 128, rounded up */

static void test_shards(void **state)
{
    cluster c = make_shards("steps=0", NULL, NULL, NULL);

    (void)state;
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    /* The chief has one batch, and saves, counts and logs all the same. */
    assert_int_equal(cluster_count_log(together_worker(&c, 0), "Saving checkpoints for 760 "), 1);
    assert_true(cluster_count_log(together_worker(&c, 0), "global_step/sec") > 3);
    assert_true(cluster_count_log(together_worker(&c, 0), "loss = ") > 3);
    together_end(&c, SHARD_STEPS);
}

/* Whoever has nothing to bring can be killed as anybody else. */
static void test_killed_without_input(void **state)
{
    static const char *const tasks[] = { "die_task=0", "die_task=1", "die_task=2" };
    cluster                  calm    = make_shards("steps=0", NULL, NULL, NULL);

    (void)state;
    cluster_start_all(&calm);
    cluster_wait_all(&calm, 60);
    for (int i = 0; i < 3; i++) {
        /* Steps without a batch are none for the hook that kills; the chief does so when it is about to save one. */
        cluster c = make_shards("steps=0", i == 0 ? "die=4" : "die=2", tasks[i],
                                i == 1 ? "die_step=1000" : "die_step=400");

        if (i == 1) c.args[TOGETHER_PAUSE] = "pause_us=2000";
        cluster_start_all(&c);
        if (i == 1) {
            cluster_wait_step(&c, 400, 30);
            together_kill(&c, together_worker(&c, 1));
        } else {
            cluster_wait(&c, together_worker(&c, i), 30);
        }
        cluster_start(&c, together_worker(&c, i));
        cluster_wait_all(&c, 60);
        together_assert_same(&calm, &c);
        together_end(&c, SHARD_STEPS);
    }
    together_end(&calm, SHARD_STEPS);
}

/* A chief without a batch stops at the last step. */
static void test_stops_without_input(void **state)
{
    cluster c = make_shards("steps=500", NULL, NULL, NULL);

    (void)state;
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    together_end(&c, 500);
}

/* Inputs of 8, 16, 24 and 32 batches. */
static void test_passes(void **state)
{
    cluster calm = together_calm(4, "steps=0", "passes=1"), again = together_calm(4, "steps=0", "passes=1");

    (void)state;
    together_assert_same(&calm, &again);
    together_end(&calm, 32);
    together_end(&again, 32);
}

/* A worker has empty batches between those with a row while the other is out: such a step learns nothing, and is not the end. */
static void test_empty_batches(void **state)
{
    cluster calm = together_calm(2, "steps=0", "cut=4"), c = together_make(2, "steps=0", "cut=4");

    (void)state;
    c.args[TOGETHER_ARGS]     = "die=2";
    c.args[TOGETHER_ARGS + 1] = "die_task=1";
    c.args[TOGETHER_ARGS + 2] = "die_step=6";
    cluster_start_all(&c);
    cluster_wait(&c, together_worker(&c, 1), 30);
    cluster_start(&c, together_worker(&c, 1));
    cluster_wait_all(&c, 30);
    together_assert_same(&calm, &c);
    together_end(&c, 9); /* 4 rows, and an empty batch before, between and behind them */
    together_end(&calm, 9);
}

/* --- evaluation ------------------------------------------------------------------------------------------------------------ */

/* The metrics as the chief has published them. */
static void find_metrics(cluster *c, char *out, size_t size)
{
    static const char what[] = "Saving dict for global step";
    FILE             *file   = fopen(together_worker(c, 0)->log, "r");
    char              line[2048];

    out[0] = '\0';
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, what);

        if (at != NULL) snprintf(out, size, "%s", at);
    }
    (void)fclose(file);
    assert_true(out[0] != '\0');
}

/* In the middle of an evaluation; whoever comes back evaluates its part again, and every example counts once. */
static void test_killed_in_evaluation(void **state)
{
    static const char *const tasks[] = { "die_task=0", "die_task=1", "die_task=2" };
    cluster                  calm    = together_calm(3, "steps=60", "together=1");
    char                     want[2048], got[2048];

    (void)state;
    find_metrics(&calm, want, sizeof want);
    for (int i = 0; i < 3; i++) {
        cluster c = together_make(3, "steps=60", "together=1");

        c.args[TOGETHER_ARGS]     = "die=7";
        c.args[TOGETHER_ARGS + 1] = tasks[i];
        c.args[TOGETHER_ARGS + 2] = "die_step=4";
        cluster_start_all(&c);
        cluster_wait(&c, together_worker(&c, i), 30);
        cluster_start(&c, together_worker(&c, i));
        cluster_wait_all(&c, 60);
        find_metrics(&c, got, sizeof got);
        assert_string_equal(got, want);
        together_assert_same(&calm, &c);
        together_end(&c, 60);
    }
    together_end(&calm, 60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_killed_without_input),
        cmocka_unit_test(test_stops_without_input),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_empty_batches),
        cmocka_unit_test(test_killed_in_evaluation),
    };

    cluster_task_main(argc, argv, cluster_job_task);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
