/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of checkpoints: TensorFlow's of tests/golden/format, small ones written here, model directories. */
#include "cli/tool.h"

#include "format/bundle.h"

#define GOLDEN(name) EST_SOURCE_DIR "/tests/golden/format/" name

/* A checkpoint of three variables. */
static const char *write_checkpoint(const char *name, float first)
{
    const float        weights[] = { first, 0, -1.5f, (float)(0.0 / 0.0), 4, (float)(1 / 0.0) };
    const int64_t      step      = 12;
    const est_str      words[]   = { { "one", 3 }, { "\xff", 1 } };
    const char        *prefix    = tool_path(name);
    est_bundle_writer *writer;
    est_tensor        *tensor;

    tool_check(est_bundle_writer_create(prefix, 0, &writer));
    tool_check(est_tensor_create_from(EST_F32, EST_SHAPE(1, 3, 2), weights, &tensor));
    tool_check(est_bundle_add(writer, "weights", tensor));
    est_tensor_free(tensor);
    tool_check(est_tensor_create_from(EST_I64, EST_SHAPE_SCALAR, &step, &tensor));
    tool_check(est_bundle_add(writer, "global_step", tensor));
    est_tensor_free(tensor);
    tool_check(est_tensor_create_from(EST_STRING, EST_SHAPE(2), words, &tensor));
    tool_check(est_bundle_add(writer, "words", tensor));
    est_tensor_free(tensor);
    tool_check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    return prefix;
}

#define TABLE                                                                                                          \
    "name         dtype    shape    bytes  slices\n"                                                                   \
    "global_step  int64    []           8       0\n"                                                                   \
    "weights      float32  [1,3,2]     24       0\n"                                                                   \
    "words        string   [2]         10       0\n"

TEST(table)
{
    const char *prefix = write_checkpoint("small", 0.5f);

    TOOL_OUT(0, TABLE "total: 3 variables, 9 parameters, 42 bytes\n", "", "inspect", prefix);
    TOOL_OUT(0, TABLE "total: 3 variables, 9 parameters, 42 bytes, all checksums right\n", "", "inspect", prefix,
             "--verify");
    TOOL_OUT(0, TABLE "total: 3 variables, 9 parameters, 42 bytes\n", "", "inspect", tool_path("small.index"));
    TOOL_OUT(0, TABLE "total: 3 variables, 9 parameters, 42 bytes\n", "", "inspect",
             tool_path("small.data-00000-of-00001"));
}

TEST(stats)
{
    const char *prefix = write_checkpoint("small", 0.5f);

    TOOL_OUT(0,
             "name         dtype    shape    bytes  slices   min  max  mean      std  zeros  not finite\n"
             "global_step  int64    []           8       0    12   12    12        0      0           0\n"
             "weights      float32  [1,3,2]     24       0  -1.5    4  0.75  2.01556      1           2\n"
             "words        string   [2]         10       0\n"
             "total: 3 variables, 9 parameters, 42 bytes\n",
             "", "inspect", prefix, "--stats");
}

TEST(value)
{
    const char *prefix = write_checkpoint("small", 0.5f);

    TOOL_OUT(0, "# weights float32 [1,3,2]\n0.5 0.0\n-1.5 nan\n4.0 inf\n", "", "inspect", prefix, "--value", "weights");
    TOOL_OUT(0, "# weights float32 [1,3,2]\n0.5 0.0\n-1.5\n# 3 more\n", "", "inspect", prefix, "--value", "weights",
             "--limit", "3");
    TOOL_OUT(0, "# global_step int64 []\n12\n", "", "inspect", prefix, "--value", "global_step");
    TOOL_OUT(0, "# words string [2]\n\"one\" {\"b64\": \"/w==\"}\n", "", "inspect", prefix, "--value", "words");
    TOOL_OUT(0,
             "{\"name\": \"weights\", \"dtype\": \"float32\", \"shape\": [1,3,2], \"values\": "
             "[0.5, 0.0, -1.5, \"NaN\", 4.0, \"Infinity\"]}\n",
             "", "inspect", prefix, "--value", "weights", "--json");
    TOOL_OUT(1, "", "has no variable \"wieghts\"; it has \"weights\"", "inspect", prefix, "--value", "wieghts");
    TOOL_OUT(2, "", "--value excludes --stats", "inspect", prefix, "--value", "words", "--stats");
}

/* Two matrices are apart by an empty line. */
TEST(planes)
{
    const uint8_t      numbers[] = { 1, 2, 3, 4 };
    est_bundle_writer *writer;
    est_tensor        *tensor;

    tool_check(est_bundle_writer_create(tool_path("planes"), 0, &writer));
    tool_check(est_tensor_create_from(EST_U8, EST_SHAPE(2, 1, 2), numbers, &tensor));
    tool_check(est_bundle_add(writer, "x", tensor));
    est_tensor_free(tensor);
    tool_check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    TOOL_OUT(0, "# x uint8 [2,1,2]\n1 2\n\n3 4\n", "", "inspect", tool_path("planes"), "--value", "x");
}

/* Where inputs are is shown, and is no variable. */
TEST(positions)
{
    static const char *const names[]   = { "estoc/input_position", "estoc/input_positions", "w" };
    const uint8_t            bytes[5]  = { 0 };
    const char              *prefix    = tool_path("positions");
    const float              weight[2] = { 1, 2 };
    est_bundle_writer       *writer;
    tool_run                 run;
    est_json                *root;
    int64_t                  number;

    tool_check(est_bundle_writer_create(prefix, 0, &writer));
    for (int i = 0; i < 3; i++) {
        est_tensor *tensor;

        tool_check(est_tensor_create_from(i == 2 ? EST_F32 : EST_U8, EST_SHAPE(i == 2 ? 2 : 5),
                                          i == 2 ? (const void *)weight : bytes, &tensor));
        tool_check(est_bundle_add(writer, names[i], tensor));
        est_tensor_free(tensor);
    }
    tool_check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
    TOOL_OUT(0,
             "name                   dtype    shape  bytes  slices\n"
             "estoc/input_position   uint8    [5]        5       0\n"
             "estoc/input_positions  uint8    [5]        5       0\n"
             "w                      float32  [2]        8       0\n"
             "total: 1 variables, 2 parameters, 8 bytes + input positions of 10 bytes\n",
             "", "inspect", prefix);
    run  = TOOL(0, "inspect", prefix, "--json");
    root = tool_json(run.out);
    tool_check(est_json_i64(root, &number, "totals.variables"));
    assert_int_equal(number, 1);
    tool_check(est_json_i64(root, &number, "totals.bytes"));
    assert_int_equal(number, 8);
    tool_check(est_json_i64(root, &number, "totals.input_position_bytes"));
    assert_int_equal(number, 10);
    est_json_free(root);
    tool_run_free(&run);
}

TEST(golden)
{
    tool_run  run  = TOOL(0, "inspect", GOLDEN("tensorflow.ckpt"), "--json", "--stats", "--verify");
    est_json *root = tool_json(run.out);
    int64_t   number;
    double    mean;

    tool_check(est_json_i64(root, &number, "totals.variables"));
    assert_int_equal(number, 11);
    tool_check(est_json_i64(root, &number, "totals.parameters"));
    assert_int_equal(number, 134);
    assert_non_null(est_json_get(root, "variables[2].slices[2]")); /* emb */
    assert_null(est_json_get(root, "variables[2].slices[3]"));
    tool_check(est_json_f64(root, &mean, "variables[2].mean"));
    assert_true(mean == 19.5);
    assert_true(json_is_true(est_json_get(root, "verified")));
    est_json_free(root);
    tool_run_free(&run);
    run = TOOL(0, "inspect", GOLDEN("half.ckpt"), "--stats"); /* a dtype that tensors here do not have */
    tool_expect_part(run.out, "half   float16  [2]", "standard output");
    tool_expect_part(run.err, "note: ", "standard error");
    tool_run_free(&run);
}

TEST(directory)
{
    assert_int_equal(mkdir(tool_path("model"), 0700), 0);
    write_checkpoint("model/model.ckpt-12", 1);
    TOOL_OUT(0, TABLE "total: 3 variables, 9 parameters, 42 bytes\n", "", "inspect", tool_path("model"));
    write_checkpoint("model/model.ckpt-24", 1);
    TOOL_OUT(1, "", "has no file \"checkpoint\" that says which is the latest; name one, such as ", "inspect",
             tool_path("model"));
    tool_write_text("model/checkpoint",
                    "model_checkpoint_path: \"model.ckpt-24\"\nall_model_checkpoint_paths: \"model.ckpt-3\"\n"
                    "all_model_checkpoint_paths: \"model.ckpt-12\"\nall_model_checkpoint_paths: \"model.ckpt-24\"\n"
                    "all_model_checkpoint_timestamps: 1700000000.25\nall_model_checkpoint_timestamps: 1700000001\n"
                    "all_model_checkpoint_timestamps: 1700000002\n");
    TOOL_OUT(0,
             "checkpoint     saved                     state\n"
             "model.ckpt-3   2023-11-14T22:13:20.250Z  kept, missing\n"
             "model.ckpt-12  2023-11-14T22:13:21.000Z  kept\n"
             "model.ckpt-24  2023-11-14T22:13:22.000Z  latest\n"
             "\n" TABLE "total: 3 variables, 9 parameters, 42 bytes\n",
             "", "inspect", tool_path("model"));
    TOOL_OUT(0, "# global_step int64 []\n12\n", "", "inspect", tool_path("model/checkpoint"), "--value", "global_step");
}

/* A state file without times, as training writes it: the time of the index is as good. */
TEST(directory_without_times)
{
    static const struct timespec times[2] = { { .tv_sec = 1700000009 }, { 1700000009, 500000000 } };

    est_json *root;
    tool_run  run;
    double    saved = 0;

    assert_int_equal(mkdir(tool_path("plain"), 0700), 0);
    write_checkpoint("plain/model.ckpt-12", 1);
    assert_int_equal(utimensat(AT_FDCWD, tool_path("plain/model.ckpt-12.index"), times, 0), 0);
    tool_write_text("plain/checkpoint", "model_checkpoint_path: \"model.ckpt-12\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-3\"\n"
                                        "all_model_checkpoint_paths: \"model.ckpt-12\"\n");
    TOOL_OUT(0,
             "checkpoint     saved                     state\n"
             "model.ckpt-3                             kept, missing\n"
             "model.ckpt-12  2023-11-14T22:13:29.500Z  latest\n"
             "\n" TABLE "total: 3 variables, 9 parameters, 42 bytes\n",
             "", "inspect", tool_path("plain"));
    run  = TOOL(0, "inspect", tool_path("plain"), "--json");
    root = tool_json(run.out);
    assert_null(est_json_get(root, "checkpoints[0].saved"));
    tool_check(est_json_f64(root, &saved, "checkpoints[1].saved"));
    assert_true(saved == 1700000009.5);
    est_json_free(root);
    tool_run_free(&run);
}

TEST(directory_as_json)
{
    tool_run    run  = TOOL(0, "inspect", tool_path("model"), "--json");
    est_json   *root = tool_json(run.out);
    const char *text;

    tool_check(est_json_string(root, &text, "latest"));
    assert_string_equal(text, "model.ckpt-24");
    assert_true(json_is_false(est_json_get(root, "checkpoints[0].exists")));
    assert_true(json_is_true(est_json_get(root, "checkpoints[2].exists")));
    tool_check(est_json_string(root, &text, "checkpoint.variables[1].name"));
    assert_string_equal(text, "weights");
    est_json_free(root);
    tool_run_free(&run);
}

/* Damage of one variable's data: the others are shown, and it is named. */
TEST(damage)
{
    char  *bytes;
    size_t size;

    write_checkpoint("bad", 1);
    bytes = tool_read_file(tool_path("bad.data-00000-of-00001"), &size);
    bytes[1] ^= 1;
    tool_write_file("bad.data-00000-of-00001", bytes, size);
    est_free(bytes);
    TOOL_OUT(0, TABLE "total: 3 variables, 9 parameters, 42 bytes\n", "", "inspect", tool_path("bad"));
    TOOL_OUT(1, TABLE, "\"weights\"", "inspect", tool_path("bad"), "--verify");
    TOOL_OUT(1,
             "name         dtype    shape    bytes  slices  min  max  mean  std  zeros  not finite\n"
             "global_step  int64    []           8       0   12   12    12    0      0           0\n"
             "weights      float32  [1,3,2]     24       0\n"
             "words        string   [2]         10       0\n",
             "1 of 3 variables cannot be read", "inspect", tool_path("bad"), "--stats");
    TOOL_OUT(1, "", "\"weights\"", "inspect", tool_path("bad"), "--value", "weights");
    assert_int_equal(unlink(tool_path("bad.data-00000-of-00001")), 0);
    TOOL_OUT(1, "", "bad.data-00000-of-00001", "inspect", tool_path("bad"), "--value", "weights");
}

/* No change of one byte goes unnoticed in the data; in the index only bytes that nothing depends on do. */
TEST(every_byte)
{
    const char *const *argv = TOOL_ARGV("inspect", tool_path("flip"), "--verify");

    write_checkpoint("flip", 1);
    assert_int_equal(tool_flip_bytes(tool_path("flip.data-00000-of-00001"), argv), 0);
    assert_int_equal(tool_flip_bytes(tool_path("flip.index"), argv), 0);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
