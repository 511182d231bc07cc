/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that train together with inputs of very different lengths: whoever has nothing left takes part with nothing until all
 * are out, also as the chief, which still saves, counts and stops; and evaluation together, in which workers are killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/estimator_test.h"
#include "support/multi_worker_test.h"

/* Shards of 1, 0 and 100,000 examples, in batches of 128. */
static cluster make_shards(const char *steps, const char *die, const char *task, const char *at)
{
    cluster c = multi_worker_make(3, steps, "shards=100000");

    CLUSTER_SET(&c, "pause_us=0", die, task, at);
    return c;
}

#define SHARD_STEPS 782 /* 100,000 / 128, rounded up */

TEST(shards)
{
    cluster c = make_shards("steps=0", NULL, NULL, NULL);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    /* The chief has one batch, and saves, counts and logs all the same. */
    assert_int_equal(cluster_count_log(multi_worker_worker(&c, 0), "Saving checkpoints for 760 "), 1);
    assert_true(cluster_count_log(multi_worker_worker(&c, 0), "global_step/sec") > 3);
    assert_true(cluster_count_log(multi_worker_worker(&c, 0), "loss = ") > 3);
    multi_worker_end(&c, SHARD_STEPS);
}

/* Whoever has nothing to bring can be killed as anybody else. */
TEST(killed_without_input)
{
    static const char *const tasks[] = { "die_task=0", "die_task=1", "die_task=2" };
    cluster                  calm    = make_shards("steps=0", NULL, NULL, NULL);

    cluster_start_all(&calm);
    cluster_wait_all(&calm, 60);
    for (int i = 0; i < 3; i++) {
        /* Steps without a batch are none for the hook that kills. The chief does so when it is about to save one; the
         * second is killed in the step after the one that the third, which has the examples, holds. */
        cluster c = i == 1 ? make_shards("steps=0", "hold_task=2", "hold_step=401", NULL)
                           : make_shards("steps=0", i == 0 ? "die=4" : "die=2", tasks[i], "die_step=400");

        cluster_start_all(&c);
        if (i == 1) {
            cluster_wait_step(&c, 400, 30);
            multi_worker_kill(&c, multi_worker_worker(&c, 1));
            cluster_enough(&c);
        } else {
            cluster_wait(&c, multi_worker_worker(&c, i), 30);
        }
        cluster_start(&c, multi_worker_worker(&c, i));
        cluster_wait_all(&c, 60);
        multi_worker_assert_same(&calm, &c);
        multi_worker_end(&c, SHARD_STEPS);
    }
    multi_worker_end(&calm, SHARD_STEPS);
}

/* A chief without a batch stops at the last step. */
TEST(stops_without_input)
{
    cluster c = make_shards("steps=500", NULL, NULL, NULL);

    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, 500);
}

/* Inputs of 8, 16, 24 and 32 batches. */
TEST(passes)
{
    cluster calm = multi_worker_calm(4, "steps=0", "passes=1"), again = multi_worker_calm(4, "steps=0", "passes=1");

    multi_worker_assert_same(&calm, &again);
    multi_worker_end(&calm, 32);
    multi_worker_end(&again, 32);
}

/* --- an input whose position nobody keeps ------------------------------------------------------------------------------------ */

#define UNSAVED_STEPS 1001 /* one more than there are between two times that workers tell their positions */

static est_status next_batch(void *state, est_field *element)
{
    (void)state;
    EST_TRY(est_tensor_f32(EST_SHAPE(1, 2), (float[]){ 0.5F, -0.5F }, &element[0].values));
    return est_tensor_f32(EST_SHAPE(1, 1), (float[]){ 1.5F }, &element[1].values);
}

static est_status refuse_position(void *state, est_tensor **position)
{
    (void)state;
    (void)position;
    return est_fail(EST_INTERNAL, "the position of the input was asked for");
}

static est_status refuse_to_restore(void *state, const est_tensor *position)
{
    (void)state;
    (void)position;
    return est_fail(EST_INTERNAL, "the input was to be put at a position");
}

static est_status make_unsaved(const est_input_context *context, void *user, est_dataset **out)
{
    const est_component components[] = { { "x", EST_F32, EST_SHAPE(1, 2), false },
                                         { "y", EST_F32, EST_SHAPE(1, 1), false } };

    (void)context;
    (void)user;
    return est_dataset_finish(
        est_dataset_generator((est_components){ components, 2 },
                              EST_GENERATOR(.next = next_batch, .save = refuse_position, .restore = refuse_to_restore)),
        out);
}

/* A worker whose input fails when its position is asked for. */
static int unsaved_task(const char *model_dir)
{
    est_estimator *estimator = NULL;
    est_strategy  *strategy  = NULL;
    est_status     status    = est_multi_worker_mirrored_strategy(NULL, &strategy);

    if (status == EST_OK) {
        status = est_estimator_create(
            est_test_model,
            EST_ESTIMATOR(.model_dir = model_dir,
                          .config = EST_RUN_CONFIG(.no_input_position = true, .train_distribute = strategy, .seed = 11,
                                                   .save_checkpoints_steps = 400)),
            &estimator);
    }
    if (status == EST_OK) {
        status = est_train(estimator, EST_TRAIN_OPTIONS(.input_fn = make_unsaved, .max_steps = UNSAVED_STEPS));
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_estimator_free(estimator);
    est_strategy_free(strategy);
    return status == EST_OK ? 0 : 1;
}

/* Nor do workers tell each other a position that no run will start at. */
TEST(position_not_kept)
{
    cluster c = cluster_make(0, 2, 0, 0);

    CLUSTER_SET(&c, "unsaved");
    cluster_start_all(&c);
    cluster_wait_all(&c, 60);
    multi_worker_end(&c, UNSAVED_STEPS);
}

/* A worker has empty batches between those with a row while the other is out: such a step learns nothing, and is not the end. */
TEST(empty_batches)
{
    cluster calm = multi_worker_calm(2, "steps=0", "cut=4"), c = multi_worker_make(2, "steps=0", "cut=4");

    CLUSTER_SET(&c, "die=2", "die_task=1", "die_step=6");
    cluster_start_all(&c);
    cluster_wait(&c, multi_worker_worker(&c, 1), 30);
    cluster_start(&c, multi_worker_worker(&c, 1));
    cluster_wait_all(&c, 30);
    multi_worker_assert_same(&calm, &c);
    multi_worker_end(&c, 9); /* 4 rows, and an empty batch before, between and behind them */
    multi_worker_end(&calm, 9);
}

/* --- evaluation ------------------------------------------------------------------------------------------------------------ */

/* The metrics as the chief has published them. */
static void find_metrics(cluster *c, char *out, size_t size)
{
    static const char what[] = "Saving dict for global step";
    FILE             *file   = fopen(multi_worker_worker(c, 0)->log, "r");
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
TEST(killed_in_evaluation)
{
    static const char *const tasks[] = { "die_task=0", "die_task=1", "die_task=2" };
    cluster                  calm    = multi_worker_calm(3, "steps=60", "multi_worker=1");
    char                     want[2048], got[2048];

    find_metrics(&calm, want, sizeof want);
    for (int i = 0; i < 3; i++) {
        cluster c = multi_worker_make(3, "steps=60", "multi_worker=1");

        CLUSTER_SET(&c, "die=7", tasks[i], "die_step=4");
        cluster_start_all(&c);
        cluster_wait(&c, multi_worker_worker(&c, i), 30);
        cluster_start(&c, multi_worker_worker(&c, i));
        cluster_wait_all(&c, 60);
        find_metrics(&c, got, sizeof got);
        assert_string_equal(got, want);
        multi_worker_assert_same(&calm, &c);
        multi_worker_end(&c, 60);
    }
    multi_worker_end(&calm, 60);
}

static int task(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "unsaved") == 0 ? unsaved_task(argv[0]) : cluster_job_task(argc, argv);
}

int main(int argc, char **argv)
{
    cluster_task_main(argc, argv, task);
    return est_test_run(NULL, NULL);
}
