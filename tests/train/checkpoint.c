/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading checkpoints as a user does: found by prefix, model directory and SavedModel; listed, read by key and by the
 * name of the variable, checked byte by byte. */
#include "base/json.h"
#include "format/bundle.h"
#include "format/bundle_index.h"
#include "support/fault_loop.h"
#include "train/saver_test.h"

static void expect_values(const est_checkpoint *checkpoint, const char *name, const est_json *value)
{
    est_tensor *got;
    est_json   *numbers;
    size_t      n;

    assert_ok(est_checkpoint_read(checkpoint, name, &got));
    assert_ok(est_json_array(value, &numbers, &n, "values"));
    assert_int_equal(n, est_tensor_count(got));
    for (size_t i = 0; i < n; i++) {
        const est_json *number = json_array_get(numbers, i);

        assert_true(nn_element(got, (int64_t)i) ==
                    (json_is_boolean(number) ? json_is_true(number) : json_number_value(number)));
    }
    est_tensor_free(got);
}

/* Every variable of a golden file is listed in order, and read by its key and by its name. */
static void expect_golden(const char *json, const char *path)
{
    est_json       *values = nn_golden(json), *value;
    est_checkpoint *checkpoint;
    const char     *key, *text;
    int             i = 0;

    assert_ok(est_checkpoint_open(path, &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), json_object_size(values));
    json_object_foreach(values, key, value)
    {
        const est_checkpoint_variable *variable = est_checkpoint_at(checkpoint, i++);

        assert_string_equal(variable->name, key);
        assert_ptr_equal(est_checkpoint_find(checkpoint, key), variable);
        assert_ok(est_json_string(value, &text, "dtype"));
        assert_string_equal(est_dtype_name(variable->dtype), text);
        assert_int_equal(variable->bytes, (size_t)est_shape_count(&variable->shape) * est_dtype_size(variable->dtype));
        expect_values(checkpoint, key, value);
        if (est_json_get(value, "variable") == NULL) {
            assert_null(variable->full_name);
            continue;
        }
        assert_ok(est_json_string(value, &text, "variable"));
        assert_string_equal(variable->full_name, text);
        if (strcmp(text, "twin") == 0) continue;
        assert_ptr_equal(est_checkpoint_find(checkpoint, text), variable);
        expect_values(checkpoint, text, value);
    }
    assert_ok(est_checkpoint_verify(checkpoint));
    est_json_free(values);
    est_checkpoint_close(checkpoint);
}

TEST(tensorflow)
{
    expect_golden("format/canned.json", GOLDEN "/canned/model.ckpt-2");
    expect_golden("format/canned.json", GOLDEN "/canned");
    expect_golden("format/canned.json", GOLDEN "/canned/"); /* as a shell completes it */
    expect_golden("format/object.json", GOLDEN "/object");
}

TEST(listing)
{
    est_checkpoint                *checkpoint;
    const est_checkpoint_variable *variable;
    est_shape                      shape = EST_SHAPE(5, 3);

    assert_ok(est_checkpoint_open(GOLDEN "/canned", &checkpoint));
    assert_string_equal(est_checkpoint_path(checkpoint), GOLDEN "/canned/model.ckpt-2");
    variable = est_checkpoint_find(checkpoint, "linear/linear_model/job/weights");
    assert_int_equal(variable->n_slices, 2);
    assert_int_equal(variable->bytes, 60);
    assert_true(est_shape_equal(&variable->shape, &shape));
    assert_int_equal(est_checkpoint_find(checkpoint, "global_step")->n_slices, 0);
    assert_null(est_checkpoint_find(checkpoint, "nobody"));
    assert_null(est_checkpoint_find(checkpoint, NULL));
    est_checkpoint_close(checkpoint);
    est_checkpoint_close(NULL);
}

TEST(errors)
{
    est_checkpoint *checkpoint;
    est_tensor     *got = NULL;

    expect_error(est_checkpoint_open(NULL, &checkpoint), EST_INVALID_ARGUMENT, "NULL");
    expect_error(est_checkpoint_open(at("none"), &checkpoint), EST_NOT_FOUND, "there is no");
    expect_error(est_checkpoint_open(est_test_root, &checkpoint), EST_NOT_FOUND, "no checkpoint in");
    expect_error(est_checkpoint_open(GOLDEN "/canned/model.ckpt-2.index", &checkpoint), EST_INVALID_ARGUMENT,
                 "without .index");
    assert_ok(est_checkpoint_open(GOLDEN "/object", &checkpoint));
    expect_error(est_checkpoint_read(checkpoint, "dense/kernal", &got), EST_NOT_FOUND, "it has \"dense/kernel\"");
    expect_error(est_checkpoint_read(checkpoint, "zzz", &got), EST_NOT_FOUND, "has no variable \"zzz\"");
    expect_error(est_checkpoint_read(checkpoint, NULL, &got), EST_INVALID_ARGUMENT, "NULL");
    expect_error(est_checkpoint_read(checkpoint, "twin", &got), EST_INVALID_ARGUMENT, "twins/0/");
    assert_null(est_checkpoint_find(checkpoint, "twin"));
    assert_null(got);
    est_checkpoint_close(checkpoint);
}

TEST(saved_model)
{
    est_checkpoint *checkpoint;

    assert_ok(est_dir_create(at("model/variables")));
    copy_file(GOLDEN "/object/ckpt-2.index", at("model/variables/variables.index"));
    copy_file(GOLDEN "/object/ckpt-2.data-00000-of-00001", at("model/variables/variables.data-00000-of-00001"));
    expect_golden("format/object.json", at("model"));
    unlink(at("model/variables/variables.data-00000-of-00001"));
    expect_error(est_checkpoint_open(at("model"), &checkpoint), EST_NOT_FOUND, "variables.data-00000-of-00001");
}

/* A dtype that tensors do not know is listed and checked, only not read. */
TEST(unknown_dtype)
{
    est_checkpoint *checkpoint;
    est_tensor     *got = NULL;
    char           *bytes;
    size_t          size;

    copy_file(GOLDEN "/half.ckpt.index", at("half.index"));
    copy_file(GOLDEN "/half.ckpt.data-00000-of-00001", at("half.data-00000-of-00001"));
    assert_ok(est_checkpoint_open(at("half"), &checkpoint));
    assert_int_equal(est_checkpoint_find(checkpoint, "half")->dtype, 19);
    assert_int_equal(est_checkpoint_find(checkpoint, "half")->bytes, 4);
    assert_int_equal(est_checkpoint_read(checkpoint, "half", &got), EST_UNIMPLEMENTED);
    assert_ok(est_checkpoint_verify(checkpoint));
    assert_ok(est_file_read(at("half.data-00000-of-00001"), &bytes, &size));
    bytes[0] ^= 1;
    put_bytes(at("half.data-00000-of-00001"), bytes, size);
    expect_error(est_checkpoint_verify(checkpoint), EST_DATA_LOSS, "\"half\" at offset 0");
    est_free(bytes);
    est_checkpoint_close(checkpoint);
}

/* An index may say any sizes; their sum is at most the largest number. */
TEST(huge_sizes)
{
    est_bundle_index index = { 0 };
    est_bundle_entry piece = { .name = "a", .dtype = EST_F32, .shape = EST_SHAPE(1), .size = INT64_MAX };
    est_strbuf       key   = { 0 };
    est_checkpoint  *checkpoint;
    est_tensor      *got;

    for (int i = 0; i < 2; i++) {
        est_bundle_slice slice = EST_BUNDLE_SLICE(i, 1);
        est_bundle_entry full  = {
             .name = "a", .dtype = EST_F32, .shape = EST_SHAPE(2), .slices = &slice, .n_slices = 1
        };

        assert_ok(est_bundle_index_add_slices(&index, &full));
        est_strbuf_reset(&key);
        est_bundle_slice_key(&key, "a", &slice);
        assert_ok(est_bundle_index_add(&index, (est_str){ key.data, key.size }, &piece, NULL));
    }
    assert_ok(est_bundle_index_save(&index, 1, at("huge.index")));
    put_bytes(at("huge.data-00000-of-00001"), "", 0);
    assert_ok(est_checkpoint_open(at("huge"), &checkpoint));
    assert_true(est_checkpoint_at(checkpoint, 0)->bytes == INT64_MAX);
    assert_int_equal(est_checkpoint_read(checkpoint, "a", &got), EST_DATA_LOSS);
    est_checkpoint_close(checkpoint);
    est_strbuf_clear(&key);
    est_bundle_index_clear(&index);
}

/* Every byte of the data is checked: slices, strings and the object graph too. */
static void verify_finds_every_change(const char *from, const char *name)
{
    est_checkpoint *checkpoint;
    char            path[512], *bytes;
    size_t          size;

    snprintf(path, sizeof path, "%s.index", from);
    copy_file(path, at("verify.index"));
    snprintf(path, sizeof path, "%s.data-00000-of-00001", from);
    assert_ok(est_file_read(path, &bytes, &size));
    snprintf(path, sizeof path, "%s", at("verify.data-00000-of-00001"));
    put_bytes(path, bytes, size);
    assert_ok(est_checkpoint_open(at("verify"), &checkpoint));
    assert_ok(est_checkpoint_verify(checkpoint));
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        put_bytes(path, bytes, size);
        expect_error(est_checkpoint_verify(checkpoint), EST_DATA_LOSS, path);
        assert_non_null(strstr(est_error_message(), "at offset"));
        bytes[i] ^= 0x10;
    }
    bytes[0] ^= 1;
    put_bytes(path, bytes, size);
    expect_error(est_checkpoint_verify(checkpoint), EST_DATA_LOSS, name);
    put_bytes(path, bytes, size - 1);
    expect_error(est_checkpoint_verify(checkpoint), EST_DATA_LOSS, path);
    est_free(bytes);
    est_checkpoint_close(checkpoint);
}

TEST(verify)
{
    verify_finds_every_change(GOLDEN "/canned/model.ckpt-2", "\"dnn/hiddenlayer_0/bias\" at offset 0");
    verify_finds_every_change(GOLDEN "/tensorflow.ckpt", "\"b\" at offset 0");
    verify_finds_every_change(GOLDEN "/object/ckpt-2", "at offset 0");
}

/* --- directories -------------------------------------------------------------------------------------------------- */

TEST(latest)
{
    char out[EST_CHECKPOINT_PATH_MAX] = "untouched";

    assert_ok(est_dir_create(at("latest")));
    expect_error(est_checkpoint_latest(at("latest"), out), EST_NOT_FOUND, at("latest"));
    expect_error(est_checkpoint_latest(NULL, out), EST_INVALID_ARGUMENT, "NULL");
    copy_file(GOLDEN "/canned/checkpoint", at("latest/checkpoint"));
    copy_file(GOLDEN "/canned/model.ckpt-0.index", at("latest/model.ckpt-0.index"));
    expect_error(est_checkpoint_latest(at("latest"), out), EST_NOT_FOUND, "model.ckpt-2.index"); /* 0 is not taken */
    put_bytes(at("latest/checkpoint"), "?", 1);
    expect_error(est_checkpoint_latest(at("latest"), out), EST_DATA_LOSS, "latest/checkpoint");
    assert_string_equal(out, "untouched");
    assert_ok(est_checkpoint_latest(GOLDEN "/canned", out));
    assert_string_equal(out, GOLDEN "/canned/model.ckpt-2");
}

/* Opening a directory passes over what is plainly not whole. */
TEST(open_usable)
{
    static const char *const files[] = { "checkpoint", "model.ckpt-0.index", "model.ckpt-0.data-00000-of-00001",
                                         "model.ckpt-2.index", "model.ckpt-2.data-00000-of-00001" };
    est_checkpoint          *checkpoint;
    char                     from[256], to[64];

    log_keep(EST_LOG_WARN);
    assert_ok(est_dir_create(at("usable")));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, "%s/canned/%s", GOLDEN, files[i]);
        snprintf(to, sizeof to, "usable/%s", files[i]);
        copy_file(from, at(to));
    }
    assert_int_equal(truncate(at("usable/model.ckpt-2.data-00000-of-00001"), 600), 0);
    assert_ok(est_checkpoint_open(at("usable"), &checkpoint));
    assert_string_equal(est_checkpoint_path(checkpoint), at("usable/model.ckpt-0"));
    assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    assert_non_null(strstr(log_line(-1), "model.ckpt-2.data-00000-of-00001"));
    est_checkpoint_close(checkpoint);
    unlink(at("usable/model.ckpt-0.index"));
    expect_error(est_checkpoint_open(at("usable"), &checkpoint), EST_DATA_LOSS, "none is usable");
    log_release();
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static est_status open_and_read(void)
{
    est_checkpoint *checkpoint;
    est_tensor     *got    = NULL;
    est_status      status = est_checkpoint_open(GOLDEN "/object/ckpt-2", &checkpoint);

    if (status != EST_OK) return status;
    status = est_checkpoint_read(checkpoint, "dense/kernel", &got);
    if (status == EST_OK) status = est_checkpoint_verify(checkpoint);
    est_tensor_free(got);
    est_checkpoint_close(checkpoint);
    return status;
}

TEST(failures)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        fault_arm(&f);
        fault_check(&f, open_and_read());
    }
    FAULT_LOOP(f, FAULT_POINTS) {
        fault_arm(&f);
        fault_check(&f, open_and_read());
    }
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
