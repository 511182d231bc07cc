/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc tail` on directories written here and on files of TensorFlow. */
#include "cli/tool.h"

#include <math.h>

#include "format/bundle.h"
#include "format/event.h"
#include "format/summary.h"
#include "train/lock.h"

#define GOLDEN(name) EST_SOURCE_DIR "/tests/golden/format/" name

#define TIME 1700000000.25 /* long ago: ages are days */

typedef struct scalar {
    int64_t     step;
    const char *tag;
    float       value;
} scalar;

/* A checkpoint of which nothing but the step matters. */
static void write_checkpoint(const char *name, int64_t step)
{
    est_bundle_writer *writer;
    est_tensor        *tensor;

    tool_check(est_bundle_writer_create(tool_path(name), 0, &writer));
    tool_check(est_tensor_create_from(EST_I64, EST_SHAPE_SCALAR, &step, &tensor));
    tool_check(est_bundle_add(writer, "global_step", tensor));
    est_tensor_free(tensor);
    tool_check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
}

static void write_events(const char *name, const scalar *scalars, int n)
{
    est_event_writer *writer;

    tool_check(est_event_writer_create(tool_path(name), TIME, &writer));
    for (int i = 0; i < n; i++) {
        est_event       event = { .wall_time = TIME + 1, .step = scalars[i].step, .kind = EST_EVENT_SUMMARY };
        est_wire_writer w     = { 0 };

        est_summary_put_scalar(&w, scalars[i].tag, scalars[i].value);
        est_summary_put_text(&w, "checkpoint_path", (est_str){ "x", 1 }); /* no scalar */
        event.bytes = (est_str){ (const char *)w.data, w.size };
        tool_check(est_event_write(writer, &event));
        est_wire_writer_clear(&w);
    }
    tool_check(est_event_writer_close(writer));
}

static void make_dir(const char *name)
{
    assert_int_equal(mkdir(tool_path(name), 0700), 0);
}

/* A run with everything. */
static int make_run(void **state)
{
    static const scalar old[]      = { { 3, "loss", 9 }, { 3, "old", 9 } };
    static const scalar training[] = { { 5, "loss", 2 }, { 7, "global_step/sec", 80.5f }, { 7, "loss", 0.25f } };
    static const scalar eval[]     = { { 7, "accuracy", 0.5f }, { 7, "loss", NAN } };
    static const scalar other[]    = { { 5, "loss", 0.75f } };

    if (est_test_root_make(state) != 0) return 1;
    make_dir("run");
    write_checkpoint("run/model.ckpt-5", 5);
    write_checkpoint("run/model.ckpt-7", 7);
    tool_write_text("run/checkpoint",
                    "model_checkpoint_path: \"model.ckpt-7\"\nall_model_checkpoint_paths: \"model.ckpt-3\"\n"
                    "all_model_checkpoint_paths: \"model.ckpt-5\"\nall_model_checkpoint_paths: \"model.ckpt-7\"\n"
                    "all_model_checkpoint_timestamps: 1700000000.0\nall_model_checkpoint_timestamps: 1700000001\n"
                    "all_model_checkpoint_timestamps: 1700000002.5\n");
    write_events("run/events.out.tfevents.1700000001.h", old, 2);
    write_events("run/events.out.tfevents.1700000002.h", training, 3);
    write_events("run/events.out.tfevents.1700000003.h", NULL, 0); /* just started again */
    make_dir("run/eval");
    write_events("run/eval/events.out.tfevents.1700000002.h", eval, 2);
    make_dir("run/eval_other");
    write_events("run/eval_other/events.out.tfevents.1700000002.h", other, 1);
    make_dir("run/evaluate_this"); /* not one of ours */
    make_dir("run/export");
    make_dir("run/export/best");
    make_dir("run/export/best/1700000001");
    make_dir("run/export/best/1700000002");
    make_dir("run/export/best/temp-1700000003"); /* not complete */
    make_dir("run/export/latest");
    tool_write_text("run/training_done", "7\n");
    return 0;
}

TEST(text)
{
    tool_run run = TOOL(0, "tail", tool_path("run"));

    tool_expect_part(run.out,
                     "\ntrainer     none\ndone        yes, at step 7\ncheckpoint  model.ckpt-7, step 7, saved ",
                     "standard output");
    tool_expect_part(run.out, " days ago\nkept        model.ckpt-3 (missing), model.ckpt-5, model.ckpt-7\n",
                     "standard output");
    tool_expect_part(run.out, "\nexports     export/best/1700000002 and 1 before it\n\nof", "standard output");
    tool_expect_part(run.out, "\ntraining    loss             0.25      7  ", "standard output");
    tool_expect_part(run.out, "\ntraining    global_step/sec  80.5      7  ", "standard output");
    tool_expect_part(run.out, "\neval        accuracy         0.5       7  ", "standard output");
    tool_expect_part(run.out, "\neval        loss             nan       7  ", "standard output");
    tool_expect_part(run.out, "\neval_other  loss             0.75      5  ", "standard output");
    assert_null(strstr(run.out, "old"));
    assert_null(strstr(run.out, "checkpoint_path"));
    tool_expect_text(run.err, "", "standard error");
    tool_run_free(&run);
}

TEST(as_json)
{
    tool_run    run  = TOOL(0, "tail", tool_path("run"), "--json");
    est_json   *root = tool_json(run.out), *training;
    const char *text;
    int64_t     number;
    double      value, age;

    assert_true(json_is_null(est_json_get(root, "trainer")));
    tool_check(est_json_i64(root, &number, "done.step"));
    assert_int_equal(number, 7);
    tool_check(est_json_i64(root, &number, "checkpoint.step"));
    assert_int_equal(number, 7);
    tool_check(est_json_f64(root, &value, "checkpoint.saved"));
    assert_true(value == 1700000002.5);
    tool_check(est_json_f64(root, &age, "checkpoint.age_secs"));
    assert_true(age > 0);
    assert_true(json_is_false(est_json_get(root, "kept[0].exists")));
    assert_true(json_is_true(est_json_get(root, "kept[2].exists")));
    tool_check(est_json_object(root, &training, "scalars.training"));
    assert_int_equal(json_object_size(training), 2);
    tool_check(est_json_f64(training, &value, "loss.value"));
    assert_true(value == 0.25);
    tool_check(est_json_i64(training, &number, "loss.step"));
    assert_int_equal(number, 7);
    tool_check(est_json_f64(training, &value, "loss.wall_time"));
    assert_true(value == TIME + 1);
    tool_check(est_json_string(root, &text, "scalars.eval.loss.value"));
    assert_string_equal(text, "NaN");
    tool_check(est_json_string(root, &text, "exports[0].newest"));
    assert_string_equal(text, "1700000002");
    tool_check(est_json_i64(root, &number, "exports[0].count"));
    assert_int_equal(number, 2);
    assert_null(est_json_get(root, "exports[1]"));
    est_json_free(root);
    tool_run_free(&run);
}

/* Who trains in the directory is told, and asking does not take the lock away. */
TEST(trainer)
{
    est_dir_lock *lock, *second;
    char          text[64];
    tool_run      run;

    tool_check(est_dir_lock_take(tool_path("run"), &lock));
    snprintf(text, sizeof text, ", process %ld\n", (long)getpid());
    run = TOOL(0, "tail", tool_path("run"));
    tool_expect_part(run.out, text, "standard output");
    tool_run_free(&run);
    assert_int_equal(est_dir_lock_take(tool_path("run"), &second), EST_FAILED_PRECONDITION);
    est_dir_lock_release(lock);
    run = TOOL(0, "tail", tool_path("run"));
    tool_expect_part(run.out, "\ntrainer     none\n", "standard output");
    tool_run_free(&run);
}

TEST(nothing)
{
    char          want[256];
    est_dir_lock *lock;
    tool_run      run;

    make_dir("empty");
    snprintf(want, sizeof want, "%s has no run: there is no trainer at work, no training_done", tool_path("empty"));
    TOOL_OUT(3, "", want, "tail", tool_path("empty"));
    TOOL_OUT(3, "", want, "tail", tool_path("empty"), "--json");
    tool_check(est_dir_lock_take(tool_path("empty"), &lock)); /* a run that has just begun */
    run = TOOL(0, "tail", tool_path("empty"));
    tool_expect_part(run.out, "\ncheckpoint  none\nkept        none\nexports     none\nscalars     none\n", "output");
    tool_run_free(&run);
    est_dir_lock_release(lock);
    TOOL_OUT(2, "", "it takes one model directory, and 0 are given", "tail");
    TOOL_OUT(2, "", "it takes one model directory, and 2 are given", "tail", "a", "b");
    TOOL_OUT(3, "", "cannot read ", "tail", tool_path("nowhere"));
    TOOL_OUT(3, "", "is not a directory", "tail", tool_path("run/checkpoint"));
}

static void copy_golden(const char *from, const char *to)
{
    size_t size;
    char  *bytes = tool_read_file(from, &size);

    tool_write_file(to, bytes, size);
    est_free(bytes);
}

/* What TensorFlow's Estimator and its event writers leave. */
TEST(tensorflow)
{
    tool_run run;

    make_dir("tf");
    copy_golden(GOLDEN("canned/checkpoint"), "tf/checkpoint");
    copy_golden(GOLDEN("canned/model.ckpt-2.index"), "tf/model.ckpt-2.index");
    copy_golden(GOLDEN("canned/model.ckpt-2.data-00000-of-00001"), "tf/model.ckpt-2.data-00000-of-00001");
    copy_golden(GOLDEN("tensorflow.events"), "tf/events.out.tfevents.1700000000.h");
    run = TOOL(0, "tail", tool_path("tf"));
    tool_expect_part(run.out, "\ncheckpoint  model.ckpt-2, step 2, saved ", "standard output");
    tool_expect_part(run.out, " ago\nkept        model.ckpt-0 (missing), model.ckpt-2\n", "standard output");
    tool_expect_part(run.out, "\ntraining  loss     0.5      10  ", "standard output");
    tool_expect_part(run.out, "\ntraining  v2/loss  0.25     20  ", "standard output");
    assert_null(strstr(run.out, "note"));
    tool_run_free(&run);
}

/* A file that is being written ends anywhere; one byte that changes is found and said, and the rest is still shown. */
TEST(unfinished_and_damaged)
{
    static const scalar two[] = { { 5, "loss", 2 }, { 7, "loss", 0.25f } };
    const char *const  *argv;
    const char         *path = tool_path("part/events.out.tfevents.1.h");
    char               *bytes, file[128];
    size_t              size;
    tool_run            run;

    make_dir("part");
    snprintf(file, sizeof file, "%s", path);
    write_events("part/events.out.tfevents.1.h", two, 2);
    bytes = tool_read_file(file, &size);
    for (size_t n = size - 20; n < size; n++) {
        tool_put(file, bytes, n);
        run = TOOL(0, "tail", tool_path("part"));
        tool_expect_part(run.out, "\ntraining  loss  2.0       5  ", "standard output");
        tool_expect_text(run.err, "", "standard error");
        tool_run_free(&run);
    }
    tool_put(file, bytes, size);
    argv = TOOL_ARGV("tail", tool_path("part"));
    assert_int_equal(tool_flip_bytes(file, argv), 0);
    bytes[size - 6] ^= 1;
    tool_put(file, bytes, size);
    est_free(bytes);
    write_checkpoint("part/model.ckpt-5", 5);
    run = TOOL(1, "tail", tool_path("part"));
    tool_expect_part(run.out, "\ntraining  loss  2.0       5  ", "standard output");
    tool_expect_part(run.out, "\ncheckpoint  model.ckpt-5, step 5, ", "standard output");
    tool_expect_part(run.err, "events.out.tfevents.1.h", "standard error");
    tool_run_free(&run);
}

/* The latest checkpoint is damaged: the one before it is shown, and a warning says why. */
TEST(damaged_checkpoint)
{
    tool_run run;

    make_dir("worn");
    write_checkpoint("worn/model.ckpt-5", 5);
    tool_write_text("worn/model.ckpt-7.index", "no table");
    tool_write_text("worn/checkpoint", "model_checkpoint_path: \"model.ckpt-7\"\n"
                                       "all_model_checkpoint_paths: \"model.ckpt-5\"\n"
                                       "all_model_checkpoint_paths: \"model.ckpt-7\"\n");
    run = TOOL(0, "tail", tool_path("worn"));
    tool_expect_part(run.out, "\ncheckpoint  model.ckpt-5, step 5, ", "standard output");
    tool_expect_part(run.err, "model.ckpt-7", "standard error");
    tool_run_free(&run);
    tool_write_text("worn/checkpoint", "model_checkpoint_path \"model.ckpt-7\n");
    run = TOOL(1, "tail", tool_path("worn"));
    tool_expect_part(run.out, "\ncheckpoint  model.ckpt-5, step 5, ", "standard output");
    tool_expect_part(run.out, "\nkept        none\n", "standard output");
    tool_run_free(&run);
}

int main(void)
{
    return est_test_run(make_run, est_test_root_remove);
}
