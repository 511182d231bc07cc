/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of event files: TensorFlow's of tests/golden/format, files written here, files cut and damaged. */
#include "cli/tool.h"

#include "format/event.h"
#include "format/summary.h"

#define GOLDEN EST_SOURCE_DIR "/tests/golden/format/tensorflow.events"
#define TIME   1700000000.25

#define HEAD "step  wall time                 tag              kind       value\n"

TEST(golden)
{
    TOOL_OUT(0,
             HEAD "   0  2023-11-14T22:13:20.250Z                   version    brain.Event:2\n"
                  "  10  2023-11-14T22:13:20.250Z  loss             scalar     0.5\n"
                  "  10  2023-11-14T22:13:20.250Z  weights          histogram  count=10 min=-3.5 max=1e+30 mean=1e+29\n"
                  "  11  2023-11-14T22:13:20.250Z  note             text       hello\n"
                  "  12  2023-11-14T22:13:20.250Z  picture/image/0  image      height=2 width=3 channels=1 bytes=68\n"
                  "  12  2023-11-14T22:13:20.250Z                   session    checkpoint model.ckpt-12\n"
                  "  20  2023-11-14T22:13:20.250Z  v2/loss          scalar     0.25\n"
                  "  20  2023-11-14T22:13:20.250Z  v2/note          text       hello again\n",
             "", "inspect", GOLDEN);
}

TEST(selection)
{
    TOOL_OUT(
        0,
        "{\"step\": 10, \"wall_time\": 1700000000.25, \"kind\": \"scalar\", \"tag\": \"loss\", \"value\": 0.5}\n"
        "{\"step\": 20, \"wall_time\": 1700000000.25, \"kind\": \"scalar\", \"tag\": \"v2/loss\", \"value\": 0.25}\n",
        "", "inspect", GOLDEN, "--tag", "*loss", "--json");
    TOOL_OUT(0, "{\"step\": 0, \"wall_time\": 1700000000.25, \"kind\": \"version\", \"value\": \"brain.Event:2\"}\n",
             "", "inspect", GOLDEN, "--limit", "1", "--json");
    TOOL_OUT(0, "step  wall time  tag  kind  value\n", "", "inspect", GOLDEN, "--tag", "nothing");
}

TEST(json_lines)
{
    tool_run run = TOOL(0, "inspect", GOLDEN, "--json");

    assert_int_equal(tool_json_lines(run.out), 8);
    tool_expect_part(
        run.out,
        "\"kind\": \"session\", \"value\": {\"status\": \"checkpoint\", \"checkpoint_path\": \"model.ckpt-12\"",
        "standard output");
    tool_run_free(&run);
}

/* Every kind that we write, in one file. */
static const char *write_events(const char *name)
{
    const double      values[] = { 1, 2, 3, 4 };
    const char       *path     = tool_path(name);
    est_event         event    = { .wall_time = TIME, .step = 3, .kind = EST_EVENT_SUMMARY };
    est_wire_writer   w        = { 0 };
    est_event_writer *writer;

    tool_check(est_event_writer_create(path, TIME, &writer));
    est_summary_put_histogram_v2(&w, "h", values, 4, 3);
    est_summary_put_image_v2(&w, "i", 5, 7, (est_str){ "png", 3 });
    est_summary_put_text(&w, "t",
                         (est_str){ "red \x1b[31m and more text than fits on one line of a table here, really", 69 });
    event.bytes = (est_str){ (const char *)w.data, w.size };
    tool_check(est_event_write(writer, &event));
    event.step  = -1;
    event.kind  = EST_EVENT_GRAPH;
    event.bytes = (est_str){ "\x0a\x03\x0a\x01x\x0a\x03\x0a\x01y", 10 };
    tool_check(est_event_write(writer, &event));
    tool_check(est_event_writer_close(writer));
    est_wire_writer_clear(&w);
    return path;
}

TEST(second_forms)
{
    const char *path = write_events("events.out.tfevents.1.here");

    TOOL_OUT(0,
             "step  wall time                 tag  kind       value\n"
             "   0  2023-11-14T22:13:20.250Z       version    brain.Event:2\n"
             "   3  2023-11-14T22:13:20.250Z  h    histogram  count=4 min=1 max=4 mean_of_buckets=2.75\n"
             "   3  2023-11-14T22:13:20.250Z  i    image      width=7 height=5 images=1 bytes=3\n"
             "   3  2023-11-14T22:13:20.250Z  t    text       red \\x1b[31m and more "
             "text than fits on one line of a tab...\n"
             "  -1  2023-11-14T22:13:20.250Z       graph      nodes=2\n",
             "", "inspect", path);
    TOOL_OUT(0,
             "{\"step\": 3, \"wall_time\": 1700000000.25, \"kind\": \"histogram\", \"tag\": \"h\", \"value\": "
             "{\"count\": 4, \"min\": 1, \"max\": 4, \"mean_of_buckets\": 2.75}}\n",
             "", "inspect", path, "--tag", "h", "--json");
}

TEST(directory)
{
    tool_run run;

    assert_int_equal(mkdir(tool_path("run"), 0700), 0);
    write_events("run/events.out.tfevents.2.here");
    write_events("run/events.out.tfevents.1.here");
    TOOL_OUT(0,
             "# events.out.tfevents.1.here\nstep  wall time                 tag  kind       value\n"
             "   3  2023-11-14T22:13:20.250Z  h    histogram  count=4 min=1 max=4 mean_of_buckets=2.75\n"
             "\n# events.out.tfevents.2.here\nstep  wall time                 tag  kind       value\n"
             "   3  2023-11-14T22:13:20.250Z  h    histogram  count=4 min=1 max=4 mean_of_buckets=2.75\n",
             "", "inspect", tool_path("run"), "--tag", "h");
    run = TOOL(0, "inspect", tool_path("run"), "--json");
    assert_int_equal(tool_json_lines(run.out), 10);
    assert_int_equal(strncmp(run.out, "{\"file\": \"events.out.tfevents.1.here\", ", 38), 0);
    tool_run_free(&run);
}

/* In a model directory --tag can only mean the events; without it, and with an option for neither, the checkpoint
 * counts. */
TEST(model_directory)
{
    assert_int_equal(mkdir(tool_path("model"), 0700), 0);
    write_events("model/events.out.tfevents.1.here");
    tool_write_text("model/checkpoint", "model_checkpoint_path: \"model.ckpt-3\"\n");
    TOOL_OUT(0,
             "# events.out.tfevents.1.here\nstep  wall time                 tag  kind       value\n"
             "   3  2023-11-14T22:13:20.250Z  h    histogram  count=4 min=1 max=4 mean_of_buckets=2.75\n",
             "", "inspect", tool_path("model"), "--tag", "h");
    TOOL_OUT(1, "checkpoint  saved  state\n\n", "model.ckpt-3", "inspect", tool_path("model"));
    TOOL_OUT(2, "", "--ops is not for a checkpoint", "inspect", tool_path("model"), "--ops");
}

/* Cut anywhere after its first event, the file is one that is still being written. */
TEST(cut)
{
    size_t size;
    char  *bytes = tool_read_file(write_events("events.out.tfevents.1.here"), &size);
    size_t last  = size - 12 - 32 - 4 + 1; /* the first byte of the last event is there */

    for (size_t n = last; n < size; n++) {
        tool_run run;

        tool_write_file("cut.tfevents", bytes, n);
        run = TOOL(0, "inspect", tool_path("cut.tfevents"), "--json");
        assert_true(tool_json_lines(run.out) >= 1);
        tool_expect_part(run.err, "note: ", "standard error");
        tool_expect_part(run.err, "ends within event ", "standard error");
        tool_run_free(&run);
    }
    est_free(bytes);
}

TEST(damage)
{
    size_t   size;
    char    *bytes = tool_read_file(write_events("events.out.tfevents.1.here"), &size);
    tool_run run;

    bytes[size - 6] ^= 1; /* in the last event */
    tool_write_file("bad.tfevents", bytes, size);
    run = TOOL(1, "inspect", tool_path("bad.tfevents"));
    tool_expect_part(run.out, "  t    text  ", "standard output"); /* of the event before it */
    assert_null(strstr(run.out, "graph"));
    tool_expect_part(run.err, "bad.tfevents: record 2 at byte ", "standard error");
    tool_run_free(&run);
    est_free(bytes);
}

TEST(every_byte)
{
    const char *path = write_events("flip.tfevents");

    assert_int_equal(tool_flip_bytes(path, TOOL_ARGV("inspect", tool_path("flip.tfevents"))), 0);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
