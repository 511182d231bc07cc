/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of TFRecord files, and what concerns all formats: finding out what a file is, wrong usage, pipes. */
#include "cli/tool.h"

#include "estoc/example.h"
#include "estoc/tfrecord.h"

#define GOLDEN(name) EST_SOURCE_DIR "/tests/golden/format/" name

#define FIRST                                                                                                          \
    "{\"counts\": [], \"id\": [-3703703670369], \"price\": [0.0, -1.0, 1e+30], \"raw\": [\"\"], \"words\": []}\n"
#define SECOND                                                                                                         \
    "{\"counts\": [1], \"id\": [-2469135780246], \"maybe\": [1.0], \"price\": [0.5, -0.5, 1e+30], "                    \
    "\"raw\": [{\"b64\": \"AAECAwQFBgcICQoLDA0ODxAREhM=\"}], \"words\": [\"\"]}\n"

/* Writes records of bytes into a new file. */
static const char *write_records(const char *name, const est_str *records, size_t n)
{
    const char          *path = tool_path(name);
    est_tfrecord_writer *writer;

    tool_check(est_tfrecord_create(path, NULL, &writer));
    for (size_t i = 0; i < n; i++) tool_check(est_tfrecord_write(writer, records[i].data, records[i].size));
    tool_check(est_tfrecord_finish(writer));
    return path;
}

TEST(examples)
{
    static const char *const same[] = { GOLDEN("examples.tfrecord.gzip"), GOLDEN("examples.tfrecord.zlib") };
    tool_run                 all    = TOOL(0, "inspect", GOLDEN("examples.tfrecord"));

    assert_int_equal(tool_json_lines(all.out), 10);
    assert_memory_equal(all.out, FIRST SECOND, strlen(FIRST SECOND));
    for (size_t i = 0; i < 2; i++) TOOL_OUT(0, all.out, "", "inspect", same[i]);
    TOOL_OUT(0, all.out, "", "inspect", "--json", GOLDEN("examples.tfrecord"));
    tool_run_free(&all);
}

TEST(selection)
{
    TOOL_OUT(0, FIRST SECOND, "", "inspect", GOLDEN("examples.tfrecord"), "--limit", "2");
    TOOL_OUT(0, SECOND, "", "inspect", GOLDEN("examples.tfrecord"), "--limit", "1", "--skip", "1");
    TOOL_OUT(0, "", "", "inspect", GOLDEN("examples.tfrecord"), "--limit", "0");
    TOOL_OUT(0, "", "", "inspect", GOLDEN("examples.tfrecord"), "--skip", "10");
    TOOL_OUT(0, "10\n", "", "inspect", GOLDEN("examples.tfrecord"), "--count");
    TOOL_OUT(0, "{\"records\": 7}\n", "", "inspect", GOLDEN("examples.tfrecord"), "--count", "--skip=3", "--json");
    TOOL_OUT(0, "{\"id\": [-2469135780246], \"maybe\": [1.0]}\n", "", "inspect", GOLDEN("examples.tfrecord"),
             "--feature", "maybe,id,none", "--skip", "1", "--limit", "1");
    TOOL_OUT(0, "{}\n", "", "inspect", GOLDEN("examples.tfrecord"), "--feature", "i", "--limit", "1");
}

TEST(sequences)
{
    TOOL_OUT(
        0,
        "{\"context\": {\"id\": [0]}, \"feature_lists\": {\"none\": []}}\n"
        "{\"context\": {\"id\": [1]}, \"feature_lists\": {\"none\": [], \"pairs\": [[0.0, 0.0]], \"tags\": [[]]}}\n"
        "{\"context\": {\"id\": [2]}, \"feature_lists\": {\"none\": [], \"pairs\": [[0.0, 0.0], [1.0, -1.0]], "
        "\"tags\": [[], [\"t0\"]]}}\n",
        "", "inspect", GOLDEN("sequences.tfrecord"), "--limit", "3");
    TOOL_OUT(0, "{\"context\": {}, \"feature_lists\": {\"tags\": [[], [\"t0\"]]}}\n", "", "inspect",
             GOLDEN("sequences.tfrecord"), "--skip", "2", "--limit", "1", "--feature", "tags");
}

/* Pairs of an unusual form and the usual one are the same line; but what has unknown fields only is shown as bytes. */
TEST(unusual_forms)
{
    tool_run    run = TOOL(0, "inspect", GOLDEN("unusual.tfrecord"));
    const char *at  = run.out;
    int         n = 0, n_bytes = 0;

    assert_true(tool_json_lines(run.out) > 10);
    while (*at != '\0') {
        size_t first = strcspn(at, "\n") + 1, second = strcspn(at + first, "\n") + 1;

        if (strncmp(at + first, "{}\n", 3) == 0 && strncmp(at, "{\"bytes\": ", 10) == 0) {
            n_bytes++;
        } else {
            assert_int_equal(first, second);
            assert_memory_equal(at, at + first, first);
            n++;
        }
        at += first + second;
    }
    assert_true(n > 5 * n_bytes && n_bytes > 0);
    tool_run_free(&run);
}

/* Numbers at the edges, text that is none, what is no Example at all. */
TEST(values)
{
    const float   floats[] = { 0.1f,    -0.0f, 3e38f, 1e-45f, (float)(0.0 / 0.0), (float)(1 / 0.0), (float)(-1 / 0.0),
                               16777216 };
    const int64_t ints[]   = { INT64_MIN, INT64_MAX, 0 };
    const est_str bytes[]  = { { "a\"\\\n\x01", 5 }, { "\xc3\xa9", 2 }, { "\xff", 1 }, { "a\0b", 3 }, { "", 0 } };
    est_example  *example;
    est_str       records[5];

    tool_check(est_example_create(&example));
    est_example_set_f32s(example, "f", floats, 8);
    est_example_set_i64s(example, "i", ints, 3);
    est_example_set_bytes(example, "b", bytes, 5);
    tool_check(est_example_serialize(example, &records[0]));
    records[1] = (est_str){ "plain text", 10 };
    records[2] = (est_str){ "", 0 };
    records[3] = (est_str){ "\x48\x01", 2 };                     /* a message of another kind: field 9 */
    records[4] = (est_str){ "\x0a\x05\x0a\x03\x0a\x01\xff", 7 }; /* a feature whose name is not UTF-8 */
    write_records("values.tfrecord", records, 5);
    est_example_free(example);
    TOOL_OUT(0,
             "{\"b\": [\"a\\\"\\\\\\n\\u0001\", \"\xc3\xa9\", {\"b64\": \"/w==\"}, {\"b64\": \"YQBi\"}, \"\"], "
             "\"f\": [0.1, -0.0, 3e+38, 1.4013e-45, \"NaN\", \"Infinity\", \"-Infinity\", 16777216.0], "
             "\"i\": [-9223372036854775808, 9223372036854775807, 0]}\n"
             "{\"bytes\": 10, \"b64\": \"cGxhaW4gdGV4dA==\"}\n"
             "{}\n"
             "{\"bytes\": 2, \"b64\": \"SAE=\"}\n"
             "{\"bytes\": 7, \"b64\": \"CgUKAwoB/w==\"}\n",
             "", "inspect", tool_path("values.tfrecord"));
}

/* The good records come first, then the place of the damage. */
TEST(damage_after_good_ones)
{
    size_t      size;
    char       *bytes = tool_read_file(GOLDEN("examples.tfrecord"), &size);
    const char *path;
    tool_run    run;

    path = tool_write_file("cut.tfrecord", bytes, size - 1);
    run  = TOOL(1, "inspect", path);
    assert_int_equal(tool_json_lines(run.out), 9);
    tool_expect_part(run.err, "estoc inspect: ", "standard error");
    tool_expect_part(run.err, "cut.tfrecord: record 9 at byte ", "standard error");
    tool_run_free(&run);
    TOOL_OUT(1, "", "record 9 at byte ", "inspect", path, "--count"); /* no number that could be taken for the count */
    TOOL_OUT(0, "9\n", "", "inspect", path, "--count", "--limit", "9");
    bytes[3] ^= 1; /* the length of the first */
    path = tool_write_file("flipped.tfrecord", bytes, size);
    TOOL_OUT(1, "", "record 0 at byte 0: damaged", "inspect", path);
    est_free(bytes);
}

TEST(every_byte)
{
    const est_str records[] = { { "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x12\x04\x0a\x02\x00\x00", 15 }, { "second", 6 } };
    const char   *path      = write_records("flip.tfrecord", records, 2);

    assert_int_equal(tool_flip_bytes(path, TOOL_ARGV("inspect", tool_path("flip.tfrecord"))), 0);
}

/* --- all formats -------------------------------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *name)
{
    size_t size;
    char  *bytes = tool_read_file(from, &size);

    tool_write_file(name, bytes, size);
    est_free(bytes);
}

TEST(finding_out)
{
    copy_file(GOLDEN("examples.tfrecord.gzip"), "anything");
    TOOL_OUT(0, FIRST, "", "inspect", tool_path("anything"), "--limit", "1");
    copy_file(GOLDEN("tensorflow.events"), "anything");
    TOOL_OUT(2, "", "--skip is not for an event file, which ", "inspect", tool_path("anything"), "--skip", "1");
    tool_write_text("anything", "");
    TOOL_OUT(0, "0\n", "", "inspect", tool_path("anything"), "--count");
    tool_write_text("anything", "hello, this is a letter\n");
    TOOL_OUT(1, "", "cannot tell what ", "inspect", tool_path("anything"));
    tool_write_text("graph.pbtxt", "node {\n}\n");
    TOOL_OUT(1, "", "is a graph as text", "inspect", tool_path("graph.pbtxt"));
    TOOL_OUT(1, "", "record 0 at byte 0", "inspect", tool_path("anything"), "--as", "tfrecord");
    assert_int_equal(mkdir(tool_path("empty"), 0700), 0);
    TOOL_OUT(1, "", "no SavedModel, checkpoint or event file is in this directory", "inspect", tool_path("empty"));
}

TEST(wrong_usage)
{
    TOOL_OUT(2, "", "a path is missing", "inspect", "--json");
    TOOL_OUT(2, "", "one path at a time", "inspect", "a", "b");
    TOOL_OUT(2, "", "not \"tfrecords\" (did you mean \"tfrecord\"?)", "inspect", "a", "--as", "tfrecords");
    TOOL_OUT(2, "", "--stats is not for a TFRecord file", "inspect", GOLDEN("examples.tfrecord"), "--stats");
    TOOL_OUT(2, "", "--tag is not for a checkpoint", "inspect", GOLDEN("tensorflow.ckpt"), "--tag", "a");
    TOOL_OUT(2, "", "--limit of a checkpoint needs --value", "inspect", GOLDEN("tensorflow.ckpt"), "--limit", "1");
    TOOL_OUT(3, "", "cannot read /nowhere/at/all: No such file or directory", "inspect", "/nowhere/at/all");
    TOOL_OUT(3, "", "No such file or directory", "inspect", "/nowhere/at/all", "--as", "checkpoint");
}

static int be_root_again(void **state)
{
    (void)state;
    tool_as_nobody = false;
    return 0;
}

TEST(unreadable, .teardown_func = be_root_again)
{
    tool_write_text("secret", "");
    assert_int_equal(chmod(tool_path("secret"), 0), 0);
    assert_int_equal(chmod(est_test_root, 0711), 0); /* the way to it is open */
    tool_as_nobody = true;
    TOOL_OUT(3, "", "secret: Permission denied", "inspect", tool_path("secret"));
}

/* A named pipe is not waited for; standard input is read, and a pipe among event files is passed over. */
TEST(pipes)
{
    int      in = open(GOLDEN("examples.tfrecord"), O_RDONLY | O_CLOEXEC), saved = dup(STDIN_FILENO);
    char     text[256];
    tool_run run, same = TOOL(0, "inspect", GOLDEN("examples.tfrecord"));

    assert_int_equal(mkfifo(tool_path("pipe.tfrecord"), 0600), 0);
    snprintf(text, sizeof text, "estoc inspect: %s is a named pipe; expected a file or a directory",
             tool_path("pipe.tfrecord"));
    TOOL_OUT(1, "", text, "inspect", tool_path("pipe.tfrecord"));
    TOOL_OUT(1, "", "is a named pipe", "inspect", "--as", "events", tool_path("pipe.tfrecord"));
    TOOL_OUT(1, "", "/dev/null is a device", "inspect", "/dev/null");
    TOOL_OUT(1, "", "is a named pipe", "train", tool_path("pipe.tfrecord"));
    assert_int_equal(mkdir(tool_path("piped"), 0700), 0);
    assert_int_equal(mkfifo(tool_path("piped/events.out.tfevents.1.a"), 0600), 0);
    assert_int_equal(symlink("events.out.tfevents.1.a", tool_path("piped/events.out.tfevents.2.a")), 0);
    TOOL_OUT(1, "", "no SavedModel, checkpoint or event file is in this directory", "inspect", tool_path("piped"));
    assert_true(in >= 0 && dup2(in, STDIN_FILENO) == STDIN_FILENO);
    run = TOOL(0, "inspect", "--as", "tfrecord", "/dev/stdin");
    assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
    tool_expect_text(run.out, same.out, "standard output");
    tool_run_free(&run);
    tool_run_free(&same);
    close(saved);
    close(in);
}

/* A reader that goes away ends the run quietly; a full device is an error. */
TEST(output)
{
    int      ends[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    tool_run run;

    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    run = tool_start(TOOL_ARGV("inspect", GOLDEN("examples.tfrecord")), ends[1]);
    assert_int_equal(run.code, 0);
    tool_expect_text(run.err, "", "standard error");
    tool_run_free(&run);
    close(ends[1]);
    run = tool_start(TOOL_ARGV("inspect", GOLDEN("examples.tfrecord")), full);
    assert_int_equal(run.code, 1);
    tool_expect_part(run.err, "cannot write to standard output: No space left on device", "standard error");
    tool_run_free(&run);
    close(full);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
