/* SPDX-License-Identifier: Apache-2.0
 *
 * Files exchanged with TensorFlow, both ways: checkpoints, their state file, event files. TensorFlow's side is
 * tensorflow_files.py beside this file. Skipped, loudly, where no Python with TensorFlow is found: that of
 * build/bench-venv (scripts/bench-env makes it), or python3. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/bundle.h"
#include "format/checkpoint_state.h"
#include "format/event.h"
#include "format/summary.h"

static char root[64];
static char python[512]; /* "": none has TensorFlow */

static int set_up(void **state)
{
    const char *const candidates[] = { EST_SOURCE_DIR "/build/bench-venv/bin/python3", "python3" };
    char              command[600];

    (void)state;
    snprintf(root, sizeof root, "/tmp/est-interop-XXXXXX");
    if (mkdtemp(root) == NULL) return 1;
    for (int i = 0; i < 2 && python[0] == '\0'; i++) {
        snprintf(command, sizeof command, "'%s' -c 'import tensorflow' >/dev/null 2>&1", candidates[i]);
        if (system(command) == 0) snprintf(python, sizeof python, "%s", candidates[i]);
    }
    if (python[0] == '\0') print_message("skipped: no Python with TensorFlow; scripts/bench-env makes one\n");
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void run_tensorflow(const char *mode)
{
    char command[1200];

    /* A sanitizer that is preloaded or configured for us is not for Python. */
    snprintf(command, sizeof command,
             "env -u LD_PRELOAD '%s' '%s/tests/interop/tensorflow_files.py' %s '%s' 2>'%s/log'", python, EST_SOURCE_DIR,
             mode, root, root);
    if (system(command) == 0) return;
    snprintf(command, sizeof command, "tail -n 30 '%s/log' >&2", root);
    if (system(command) != 0) print_error("no log\n");
    fail_msg("TensorFlow does not agree (%s)", mode);
}

static const char *at(const char *name)
{
    static char paths[4][256];
    static int  turn;

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", root, name);
    return paths[turn];
}

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

/* --- what is in a checkpoint: see the Python side ---------------------------------------------------------------- */

/* The bytes of a tensor as the list has them. */
static void encode(const est_tensor *tensor, est_strbuf *out)
{
    const est_str *strings = est_tensor_data(tensor);

    if (est_tensor_dtype(tensor) != EST_STRING) {
        est_strbuf_append_bytes(out, est_tensor_data(tensor), est_tensor_bytes(tensor));
        return;
    }
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        uint8_t size[4];

        est_wire_store32(size, (uint32_t)strings[i].size);
        est_strbuf_append_bytes(out, size, 4);
        est_strbuf_append_bytes(out, strings[i].data, strings[i].size);
    }
}

static void describe(const char *name, const est_tensor *tensor, est_strbuf *out)
{
    const est_shape *shape = est_tensor_shape(tensor);

    est_strbuf_printf(out, "%s %s", name, est_dtype_name(est_tensor_dtype(tensor)));
    for (int i = 0; i < shape->rank; i++) est_strbuf_printf(out, " %" PRId64, shape->dim[i]);
    est_strbuf_append(out, "\n");
}

/* Reads every tensor of our own checkpoint and says what it is. */
static void say(const char *prefix)
{
    est_bundle *bundle;
    est_strbuf  list = { 0 };
    char        path[300];

    check(est_bundle_open(prefix, &bundle));
    for (int i = 0; i < est_bundle_count(bundle); i++) {
        est_strbuf  raw = { 0 };
        est_tensor *tensor;

        check(est_bundle_read(bundle, est_bundle_at(bundle, i)->name, NULL, &tensor));
        describe(est_bundle_at(bundle, i)->name, tensor, &list);
        encode(tensor, &raw);
        snprintf(path, sizeof path, "%s.list.%d", prefix, i);
        check(est_file_replace(path, est_strbuf_text(&raw), raw.size));
        est_strbuf_clear(&raw);
        est_tensor_free(tensor);
    }
    snprintf(path, sizeof path, "%s.list", prefix);
    check(est_file_replace(path, est_strbuf_text(&list), list.size));
    est_strbuf_clear(&list);
    est_bundle_close(bundle);
}

/* Compares every tensor of TensorFlow's checkpoint with what TensorFlow says. */
static void compare(const char *prefix, int n_wanted)
{
    est_bundle *bundle;
    est_strbuf  list = { 0 };
    char        path[300], *bytes;
    size_t      size;

    check(est_bundle_open(prefix, &bundle));
    assert_int_equal(est_bundle_count(bundle), n_wanted);
    for (int i = 0; i < n_wanted; i++) {
        est_strbuf  raw = { 0 };
        est_tensor *tensor;

        check(est_bundle_read(bundle, est_bundle_at(bundle, i)->name, NULL, &tensor));
        describe(est_bundle_at(bundle, i)->name, tensor, &list);
        encode(tensor, &raw);
        snprintf(path, sizeof path, "%s.list.%d", prefix, i);
        check(est_file_read(path, &bytes, &size));
        assert_int_equal(raw.size, size);
        assert_memory_equal(est_strbuf_text(&raw), bytes, size);
        est_free(bytes);
        est_strbuf_clear(&raw);
        est_tensor_free(tensor);
    }
    snprintf(path, sizeof path, "%s.list", prefix);
    check(est_file_read(path, &bytes, &size));
    assert_string_equal(est_strbuf_text(&list), bytes);
    est_free(bytes);
    est_strbuf_clear(&list);
    est_bundle_close(bundle);
}

static void test_read(void **state)
{
    est_checkpoint_state latest = { 0 };
    est_bundle          *bundle;
    est_tensor          *v;

    (void)state;
    if (python[0] == '\0') skip();
    run_tensorflow("write");
    compare(at("rows"), 29);
    compare(at("columns"), 29);
    compare(at("merged"), 3);
    check(est_checkpoint_state_read(&latest, at("checkpoint")));
    assert_string_equal(latest.model_checkpoint_path, "object-1");
    assert_int_equal(latest.n_timestamps, 1);
    est_checkpoint_state_clear(&latest);

    /* Checkpoints of TensorFlow 2's tf.train.Checkpoint are the same container. */
    check(est_bundle_open(at("object-1"), &bundle));
    check(est_bundle_read(bundle, "v/.ATTRIBUTES/VARIABLE_VALUE", NULL, &v));
    assert_true(((float *)est_tensor_data(v))[1] == 2.5F);
    est_tensor_free(v);
    est_bundle_close(bundle);
}

/* --- ours ------------------------------------------------------------------------------------------------------- */

static est_tensor *random_tensor(est_dtype dtype, est_shape shape)
{
    est_tensor *tensor;

    check(est_tensor_create(dtype, shape, &tensor));
    for (int64_t i = 0; i < est_tensor_count(tensor); i++) {
        long  value = random() % 2001 - 1000;
        char  text[300];
        void *data = est_tensor_data(tensor);

        memset(text, (int)(value & 0xff), sizeof text);
        switch (dtype) {
        case EST_F32: ((float *)data)[i] = (float)value / 7; break;
        case EST_F64: ((double *)data)[i] = (double)value / 7; break;
        case EST_I32: ((int32_t *)data)[i] = (int32_t)value; break;
        case EST_I64: ((int64_t *)data)[i] = (int64_t)value * ((int64_t)1 << 40); break;
        case EST_BOOL: ((uint8_t *)data)[i] = value & 1; break;
        case EST_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
        default: check(est_tensor_set_string(tensor, i, text, (size_t)labs(value) % sizeof text)); break;
        }
    }
    return tensor;
}

static void add(est_bundle_writer *writer, const char *name, est_dtype dtype, est_shape shape)
{
    est_tensor *tensor = random_tensor(dtype, shape);

    check(est_bundle_add(writer, name, tensor));
    est_tensor_free(tensor);
}

static void add_rows(est_bundle_writer *writer, int64_t first, int64_t n)
{
    est_shape        full   = EST_SHAPE(100, 16);
    est_bundle_slice slice  = EST_BUNDLE_SLICE(first, n, 0, 16);
    est_tensor      *tensor = random_tensor(EST_F32, EST_SHAPE(n, 16));

    check(est_bundle_add_slice(writer, "emb", &full, &slice, tensor));
    est_tensor_free(tensor);
}

static void write_single(const char *prefix)
{
    const est_dtype    dtypes[7] = { EST_F32, EST_F64, EST_I32, EST_I64, EST_BOOL, EST_U8, EST_STRING };
    est_bundle_writer *writer;

    check(est_bundle_writer_create(prefix, 64, &writer));
    for (int i = 0; i < 7; i++) {
        const est_shape shapes[4] = { EST_SHAPE_SCALAR, EST_SHAPE(0, 3), EST_SHAPE(13, 7), EST_SHAPE(1, 2, 3, 4) };
        char            name[64];

        for (int s = 0; s < 4; s++) {
            snprintf(name, sizeof name, "scope/%s_%d", est_dtype_name(dtypes[i]), s);
            add(writer, name, dtypes[i], shapes[s]);
        }
    }
    add(writer, "large", EST_F32, EST_SHAPE(1000, 300));
    for (int i = 0; i < 1500; i++) { /* many restarts in the index */
        char name[64];

        snprintf(name, sizeof name, "many/layer_%d/kernel", i);
        add(writer, name, EST_F32, EST_SHAPE(1));
    }
    add_rows(writer, 0, 34);
    add_rows(writer, 34, 33);
    add_rows(writer, 67, 33);
    check(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
}

static void write_merged(const char *prefix)
{
    char              parts[2][300];
    const char *const list[2] = { parts[0], parts[1] };

    for (int i = 0; i < 2; i++) {
        est_bundle_writer *writer;

        snprintf(parts[i], sizeof parts[i], "%s_part-%05d-of-00002", prefix, i);
        check(est_bundle_writer_create(parts[i], 0, &writer));
        add_rows(writer, 50 * i, 50);
        add(writer, i == 0 ? "global_step" : "w", i == 0 ? EST_I64 : EST_F32, i == 0 ? EST_SHAPE_SCALAR : EST_SHAPE(3));
        check(est_bundle_finish(writer));
        est_bundle_writer_free(writer);
    }
    check(est_bundle_merge(list, 2, prefix));
}

static void write_state(void)
{
    est_checkpoint_state state = { 0 };

    check(est_checkpoint_state_set_latest(&state, "merged"));
    check(est_checkpoint_state_add_path(&state, "single"));
    check(est_checkpoint_state_add_path(&state, "merged"));
    check(est_checkpoint_state_add_timestamp(&state, 1700000000.25));
    check(est_checkpoint_state_add_timestamp(&state, 1700000001));
    check(est_checkpoint_state_write(&state, at("checkpoint")));
    est_checkpoint_state_clear(&state);
}

static void write_event(est_event_writer *writer, int64_t step, est_event_kind kind, est_wire_writer *w)
{
    est_event event = { .wall_time = 1700000000.5, .step = step, .kind = kind };

    check(est_wire_writer_status(w));
    event.bytes = (est_str){ (const char *)w->data, w->size };
    check(est_event_write(writer, &event));
    est_wire_writer_reset(w);
}

static void write_events(void)
{
    static const unsigned char png[] = {
        0x89, 'P',  'N',  'G', 13,  10,  26,  10, 0,    0,   0,   13,  'I',  'H',  'D',  'R',  0,
        0,    0,    1,    0,   0,   0,   1,   8,  0,    0,   0,   0,   0x3a, 0x7e, 0x9b, 0x55, 0,
        0,    0,    10,   'I', 'D', 'A', 'T', 8,  0xd7, 'c', '`', 0,   0,    0,    2,    0,    1,
        0xe2, 0x21, 0xbc, '3', 0,   0,   0,   0,  'I',  'E', 'N', 'D', 0xae, 'B',  '`',  0x82,
    };
    est_event_writer *writer;
    est_wire_writer   w   = { 0 };
    est_session_log   log = { .status = EST_SESSION_START };
    est_histogram    *h;
    double            values[1000];
    char             *path;
    size_t            mark;

    for (int i = 0; i < 1000; i++) values[i] = i * 0.37 - 100;
    check(est_dir_create(at("events")));
    check(est_event_file_path(at("events"), 1700000000, "host", "", &path));
    check(est_event_writer_create(path, 1700000000.25, &writer));
    est_free(path);
    est_session_log_put(&w, &log);
    write_event(writer, 1, EST_EVENT_SESSION_LOG, &w);
    mark = est_wire_begin(&w, 1); /* a GraphDef of one node */
    est_wire_put_string(&w, 1, "n");
    est_wire_put_string(&w, 2, "NoOp");
    est_wire_end(&w, mark);
    write_event(writer, 0, EST_EVENT_GRAPH, &w);
    check(est_histogram_create(&h));
    for (int i = 0; i < 1000; i++) est_histogram_add(h, values[i]);
    est_summary_put_histogram(&w, "weights", h);
    est_histogram_free(h);
    write_event(writer, 10, EST_EVENT_SUMMARY, &w);
    est_summary_put_scalar(&w, "loss", 0.5F);
    est_summary_put_scalar_v2(&w, "v2/loss", 0.5F);
    est_summary_put_histogram_v2(&w, "v2/weights", values, 1000, 30);
    est_summary_put_text(&w, "note", (est_str){ "hello", 5 });
    est_summary_put_image(&w, "picture", 1, 1, 1, (est_str){ (const char *)png, sizeof png });
    write_event(writer, 10, EST_EVENT_SUMMARY, &w);
    est_summary_put_scalar(&w, "loss", 0.25F);
    write_event(writer, 20, EST_EVENT_SUMMARY, &w);
    check(est_event_writer_close(writer));
    est_wire_writer_clear(&w);
}

static void test_write(void **state)
{
    (void)state;
    if (python[0] == '\0') skip();
    write_single(at("single"));
    say(at("single"));
    write_merged(at("merged"));
    say(at("merged"));
    write_state();
    write_events();
    run_tensorflow("check");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_read), cmocka_unit_test(test_write) };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
