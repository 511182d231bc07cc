/* SPDX-License-Identifier: Apache-2.0
 *
 * Restoring: by name, renamed, in part; from TensorFlow's checkpoints; and from damaged ones, where the one before is
 * used and no session ever gets a wrong value or a part of one. */
#include <errno.h>

#include "base/json.h"
#include "format/bundle.h"
#include "ops/ops.h"
#include "support/fault_loop.h"
#include "train/saver_test.h"

static est_saver *two_saved(const char *dir, const model *m)
{
    est_saver *saver;

    assert_ok(est_saver_create(dir, NULL, &saver));
    assert_ok(save_step(saver, m, 1));
    assert_ok(save_step(saver, m, 2));
    return saver;
}

TEST(newest)
{
    model        m = make_model(), fresh = make_model();
    est_saver   *saver = two_saved(at("newest"), &m);
    est_restored done;

    set_tag(&m, 99);
    assert_ok(est_saver_restore(saver, m.session, NULL, &done));
    assert_int_equal(get_tag(&m), 2);
    assert_string_equal(done.path, at("newest/model.ckpt-2"));
    assert_int_equal(done.n_restored, 3);
    assert_int_equal(done.n_missing, 0);
    assert_int_equal(done.n_filtered, 0);
    assert_ok(est_saver_restore(saver, fresh.session, EST_RESTORE(.path = at("newest/model.ckpt-1")), NULL));
    assert_int_equal(get_tag(&fresh), 1);
    est_saver_free(saver);
    end_model(&m);
    end_model(&fresh);
}

TEST(nothing_there)
{
    model      m = make_model();
    est_saver *saver;

    assert_ok(est_saver_create(at("nothing"), NULL, &saver));
    expect_error(est_saver_restore(saver, m.session, NULL, NULL), EST_NOT_FOUND, at("nothing"));
    expect_error(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("nowhere")), NULL), EST_NOT_FOUND,
                 at("nowhere.index"));
    expect_error(est_saver_restore(NULL, m.session, NULL, NULL), EST_INVALID_ARGUMENT, "neither a saver nor a path");
    expect_error(est_saver_restore(saver, NULL, NULL, NULL), EST_INVALID_ARGUMENT, "session");
    expect_error(est_saver_restore(saver, m.session, &(est_restore_options){ .partial = true }, NULL),
                 EST_INVALID_ARGUMENT, "EST_RESTORE");
    assert_int_equal(get_tag(&m), -1);
    est_saver_free(saver);
    end_model(&m);
}

TEST(extras)
{
    model       m = make_model();
    est_saver  *saver;
    est_tensor *position, *text, *got[3] = { NULL };
    int64_t     numbers[2] = { 5, 6 };
    est_str     word       = { "epoch", 5 };

    assert_ok(est_saver_create(at("extras"), NULL, &saver));
    set_tag(&m, 1);
    assert_ok(est_tensor_i64(EST_SHAPE(2), numbers, &position));
    assert_ok(est_tensor_create_from(EST_STRING, EST_SHAPE_SCALAR, &word, &text));
    assert_ok(est_saver_save(saver, m.session, 1,
                             EST_SAVE(.extras = EST_EXTRAS({ "input/position", position }, { "input/unit", text })),
                             NULL));
    assert_ok(est_saver_restore(saver, m.session,
                                EST_RESTORE(.extras = EST_EXTRAS_OUT({ "input/unit", &got[0] }, { "absent", &got[1] },
                                                                     { "input/position", &got[2] })),
                                NULL));
    assert_memory_equal(((const est_str *)est_tensor_data(got[0]))->data, "epoch", 5);
    assert_null(got[1]);
    assert_memory_equal(est_tensor_data(got[2]), numbers, sizeof numbers);
    expect_error(est_saver_restore(saver, m.session, EST_RESTORE(.extras = EST_EXTRAS_OUT({ "x", NULL })), NULL),
                 EST_INVALID_ARGUMENT, "extra 0");
    for (int i = 0; i < 3; i++) est_tensor_free(got[i]);
    est_tensor_free(position);
    est_tensor_free(text);
    est_saver_free(saver);
    end_model(&m);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

/* A session with a variable of the old model, one renamed, one new. */
static model make_changed_model(est_shape bias)
{
    model m = { 0 };

    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "layer/kernel", EST_F32, EST_SHAPE(3, 2));
    est_variable(m.graph, "dense/bias", EST_F32, bias);
    est_variable(m.graph, "new", EST_F32, EST_SHAPE(1));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1), &m.session));
    return m;
}

static const char *to_layer(void *user, const char *variable)
{
    ++*(int *)user;
    return strcmp(variable, "dense/bias") == 0 ? "layer/bias" : NULL;
}

static bool not_new(void *user, const char *variable)
{
    (void)user;
    return strcmp(variable, "new") != 0;
}

TEST(names)
{
    model        m = make_model(), changed = make_changed_model(EST_SHAPE(2));
    est_saver   *saver   = two_saved(at("names"), &m);
    est_renames  renames = EST_RENAMES({ "dense/bias", "layer/bias" });
    est_restored done;
    int          calls = 0;

    expect_error(est_saver_restore(saver, changed.session, NULL, NULL), EST_FAILED_PRECONDITION,
                 "lacks 2 of 3 variables"); /* not EST_NOT_FOUND: the run must not start from step 0 */
    assert_non_null(strstr(est_error_message(), "\"dense/bias\" (it has \"layer/bias\"), \"new\". Give"));
    assert_int_equal(variable_tag(changed.session, "layer/kernel"), -1);

    assert_ok(est_saver_restore(saver, changed.session, EST_RESTORE(.partial = true), &done));
    assert_int_equal(done.n_restored, 1);
    assert_int_equal(done.n_missing, 2);
    assert_int_equal(variable_tag(changed.session, "layer/kernel"), 2);
    assert_int_equal(variable_tag(changed.session, "dense/bias"), -1); /* left to est_session_init */

    assert_ok(est_saver_restore(saver, changed.session, EST_RESTORE(.filter = not_new, .renames = renames), &done));
    assert_int_equal(done.n_restored, 2);
    assert_int_equal(done.n_filtered, 1);
    assert_int_equal(variable_tag(changed.session, "dense/bias"), 2);

    write_tag(changed.session, "dense/bias", EST_F32, EST_SHAPE(2), 77);
    write_tag(changed.session, "new", EST_F32, EST_SHAPE(1), 78);
    assert_ok(est_saver_restore(saver, changed.session,
                                EST_RESTORE(.partial = true, .rename = to_layer, .user = &calls), &done));
    assert_int_equal(variable_tag(changed.session, "dense/bias"), 2);
    assert_int_equal(variable_tag(changed.session, "new"), 78);
    assert_int_equal(calls, 3);

    renames = EST_RENAMES({ "dense/bias", "layer/bias" }, { "nobody", "layer/bias" });
    expect_error(est_saver_restore(saver, changed.session, EST_RESTORE(.partial = true, .renames = renames), NULL),
                 EST_INVALID_ARGUMENT, "\"nobody\"");
    renames = EST_RENAMES({ "dense/bias", NULL });
    expect_error(est_saver_restore(saver, changed.session, EST_RESTORE(.renames = renames), NULL), EST_INVALID_ARGUMENT,
                 "rename 0");
    est_saver_free(saver);
    end_model(&m);
    end_model(&changed);
}

/* A model that does not fit is an error about the model: the checkpoint before is not tried. */
TEST(misfit)
{
    model       m = make_model(), changed = make_changed_model(EST_SHAPE(1, 2));
    est_saver  *saver   = two_saved(at("misfit"), &m);
    est_renames renames = EST_RENAMES({ "dense/bias", "layer/bias" });

    log_keep(EST_LOG_WARN);
    write_tag(changed.session, "layer/kernel", EST_F32, EST_SHAPE(3, 2), 50);
    expect_error(est_saver_restore(saver, changed.session, EST_RESTORE(.partial = true, .renames = renames), NULL),
                 EST_INVALID_ARGUMENT, "variable 'dense/bias' is float32 [1,2], but \"layer/bias\" there is");
    assert_non_null(strstr(est_error_message(), "model.ckpt-2 does not fit: variable"));
    assert_non_null(strstr(est_error_message(), "\"layer/bias\" there is float32 [2]"));
    renames = EST_RENAMES({ "dense/bias", "global_step" });
    expect_error(est_saver_restore(saver, changed.session, EST_RESTORE(.partial = true, .renames = renames), NULL),
                 EST_INVALID_ARGUMENT, "is int64 []");
    assert_int_equal(variable_tag(changed.session, "layer/kernel"), 50);
    assert_int_equal(log_count(EST_LOG_WARN, ""), 0);
    log_release();
    est_saver_free(saver);
    end_model(&m);
    end_model(&changed);
}

TEST(many_missing)
{
    model      m = make_model(), other = { 0 };
    est_saver *saver = two_saved(at("many"), &m);

    assert_ok(est_graph_create(1, &other.graph));
    for (int i = 0; i < 15; i++) {
        char name[16];

        snprintf(name, sizeof name, "v%02d", i);
        est_variable(other.graph, name, EST_F32, EST_SHAPE(1));
    }
    assert_ok(est_session_create(other.graph, EST_SESSION(.threads = 1), &other.session));
    expect_error(est_saver_restore(saver, other.session, NULL, NULL), EST_FAILED_PRECONDITION,
                 "does not fit: it lacks 15 of 15 variables: \"v00\", \"v01\", \"v02\" and 12 more. Give .renames");
    est_saver_free(saver);
    end_model(&m);
    end_model(&other);
}

/* Slots of an optimizer are not named where there is something else to name. */
TEST(slots_are_not_named)
{
    static const char *const slots[] = { "", "/Adam", "/Adam_1" };
    model                    m = make_model(), other = { 0 };
    est_saver               *saver = two_saved(at("slots"), &m);

    assert_ok(est_graph_create(1, &other.graph));
    for (int i = 0; i < 12; i++) {
        char name[16];

        snprintf(name, sizeof name, "v%d%s", i / 3, slots[i % 3]);
        est_variable(other.graph, name, EST_F32, EST_SHAPE(1));
    }
    for (int i = 0; i < 3; i++) {
        char name[32];

        snprintf(name, sizeof name, "layer/bias%s", slots[i]);
        est_variable(other.graph, name, EST_F32, EST_SHAPE(1));
    }
    assert_ok(est_session_create(other.graph, EST_SESSION(.threads = 1), &other.session));
    expect_error(est_saver_restore(saver, other.session, NULL, NULL), EST_INVALID_ARGUMENT,
                 "does not fit: variable 'layer/bias' is float32 [1], but \"layer/bias\" there is float32 [2]; "
                 "it lacks 14 of 15 variables: \"v0\", \"v1\", \"v2\" and 11 more. Give");
    est_saver_free(saver);
    end_model(&m);
    end_model(&other);
}

/* A dynamic embedding without all of its keys is missing, and its rows are no misfit. */
TEST(keys_in_part)
{
    static const char *const names[] = { "w", "w/keys", "w/last_seen" };
    model                    m = { 0 }, other = { 0 };
    est_saver               *saver;
    est_tensor              *zero = NULL;

    assert_ok(est_graph_create(1, &m.graph));
    for (int i = 0; i < 3; i++)
        est_variable(m.graph, names[i], i == 0 ? EST_F32 : EST_I64, i == 0 ? EST_SHAPE(2, 3) : EST_SHAPE(2));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1), &m.session));
    for (int i = 0; i < 3; i++) {
        assert_ok(est_tensor_create(i == 0 ? EST_F32 : EST_I64, i == 0 ? EST_SHAPE(2, 3) : EST_SHAPE(2), &zero));
        assert_ok(est_session_write(m.session, names[i], zero));
        est_tensor_free(zero);
    }
    assert_ok(est_saver_create(at("keys"), NULL, &saver));
    assert_ok(est_saver_save(saver, m.session, 1, NULL, NULL));
    assert_ok(est_graph_create(1, &other.graph));
    (void)est_row_variable(other.graph, "w", EST_SHAPE(5, 3), &(const est_row_policy){ .admit_after = 1 });
    assert_ok(est_session_create(other.graph, EST_SESSION(.threads = 1), &other.session));
    expect_error(est_saver_restore(saver, other.session, NULL, NULL), EST_FAILED_PRECONDITION,
                 "does not fit: it lacks 9 of 9 variables: \"w\" and 8 more. Give .renames");
    est_saver_free(saver);
    end_model(&m);
    end_model(&other);
}

/* --- TensorFlow's ------------------------------------------------------------------------------------------------- */

static est_dtype golden_dtype(const est_json *value)
{
    const char *name;

    assert_ok(est_json_string(value, &name, "dtype"));
    if (strcmp(name, "int64") == 0) return EST_I64;
    return strcmp(name, "bool") == 0 ? EST_BOOL : EST_F32;
}

static est_shape golden_shape(const est_json *value)
{
    est_shape shape = { 0 };
    size_t    n;

    assert_ok(est_json_array(value, &(est_json *){ NULL }, &n, "shape"));
    shape.rank = (int32_t)n;
    for (size_t i = 0; i < n; i++) assert_ok(est_json_i64(value, &shape.dim[i], "shape[%d]", (int)i));
    return shape;
}

/* Makes a session with the variables of a golden file, restores it from `path` and compares every value. */
static void restore_golden(const char *json, const char *path)
{
    est_json    *values = nn_golden(json), *value;
    model        m      = { 0 };
    est_restored done;
    const char  *key;
    int          n = 0;

    assert_ok(est_graph_create(1, &m.graph));
    json_object_foreach(values, key, value)
    {
        const char *name = key;

        if (est_json_get(value, "variable") != NULL) assert_ok(est_json_string(value, &name, "variable"));
        if (strcmp(name, "twin") == 0) continue; /* two variables of one name: see test_twins */
        est_variable(m.graph, name, golden_dtype(value), golden_shape(value));
        n++;
    }
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 2), &m.session));
    assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = path), &done));
    assert_int_equal(done.n_restored, n);
    json_object_foreach(values, key, value)
    {
        const char *name = key;
        est_tensor *got;
        est_json   *numbers;
        size_t      n_numbers;

        if (est_json_get(value, "variable") != NULL) assert_ok(est_json_string(value, &name, "variable"));
        if (strcmp(name, "twin") == 0) continue;
        assert_ok(est_session_read(m.session, name, &got));
        assert_ok(est_json_array(value, &numbers, &n_numbers, "values"));
        assert_int_equal(n_numbers, est_tensor_count(got));
        for (size_t i = 0; i < n_numbers; i++) {
            const est_json *number = json_array_get(numbers, i);
            double          want   = json_is_boolean(number) ? json_is_true(number) : json_number_value(number);

            assert_true(nn_element(got, (int64_t)i) == want); /* printed with all digits */
        }
        est_tensor_free(got);
    }
    est_json_free(values);
    end_model(&m);
}

/* The canned estimator's input layers are stored in slices and restored whole. */
TEST(canned_estimator)
{
    est_checkpoint *checkpoint;

    assert_ok(est_checkpoint_open(GOLDEN "/canned", &checkpoint));
    assert_int_equal(est_checkpoint_find(checkpoint, "linear/linear_model/job/weights")->n_slices, 2);
    est_checkpoint_close(checkpoint);
    restore_golden("format/canned.json", GOLDEN "/canned");
    restore_golden("format/canned.json", GOLDEN "/canned/model.ckpt-2");
}

/* A checkpoint with the slot of a partitioned variable: n parts of three rows in all, each under a name of its own. */
static void write_parts(const char *prefix, int n)
{
    static const float rows[] = { 1, 2, 3, 4, 5, 6 };
    est_shape          full   = EST_SHAPE(3, 2);
    est_bundle_writer *writer = NULL;

    assert_ok(est_bundle_writer_create(prefix, 0, &writer));
    for (int i = 0; i < n; i++) {
        est_bundle_slice slice = i == 0 ? EST_BUNDLE_SLICE(0, 2, 0, -1) : EST_BUNDLE_SLICE(2, 1, 0, -1);
        est_tensor      *part  = NULL;

        assert_ok(est_tensor_f32(i == 0 ? EST_SHAPE(2, 2) : EST_SHAPE(1, 2), rows + 4 * i, &part));
        assert_ok(est_bundle_add_slice(writer, i == 0 ? "v/part_0/Ftrl" : "v/part_1/Ftrl", &full, &slice, part));
        est_tensor_free(part);
    }
    assert_ok(est_bundle_finish(writer));
    est_bundle_writer_free(writer);
}

/* Slots of partitioned variables of tf.compat.v1 are put together, with and without a value to be replaced. */
TEST(slots_in_parts)
{
    est_tensor *got = NULL;
    model       m   = { 0 };

    write_parts(at("parts-two"), 2);
    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "v/part_0/Ftrl", EST_F32, EST_SHAPE(3, 2));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1), &m.session));
    for (int again = 0; again < 2; again++) {
        assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("parts-two")), NULL));
        assert_ok(est_session_read(m.session, "v/part_0/Ftrl", &got));
        for (int i = 0; i < 6; i++) assert_true(nn_element(got, i) == i + 1);
        est_tensor_free(got);
    }
    write_parts(at("parts-one"), 1);
    assert_int_not_equal(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("parts-one")), NULL), EST_OK);
    end_model(&m);
}

TEST(object_checkpoint)
{
    restore_golden("format/object.json", GOLDEN "/object");
}

TEST(twins)
{
    model       m       = { 0 };
    est_renames renames = EST_RENAMES({ "twin", "twins/1/.ATTRIBUTES/VARIABLE_VALUE" });

    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "twin", EST_F32, EST_SHAPE(1));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 1), &m.session));
    expect_error(est_saver_restore(NULL, m.session, EST_RESTORE(.path = GOLDEN "/object"), NULL), EST_INVALID_ARGUMENT,
                 "2 variables are called \"twin\"");
    assert_ok(est_saver_restore(NULL, m.session, EST_RESTORE(.path = GOLDEN "/object", .renames = renames), NULL));
    assert_int_equal(variable_tag(m.session, "twin"), 3);
    end_model(&m);
}

/* A SavedModel keeps a checkpoint under variables/variables. */
TEST(saved_model)
{
    assert_ok(est_dir_create(at("exported/variables")));
    copy_file(GOLDEN "/canned/model.ckpt-2.index", at("exported/variables/variables.index"));
    copy_file(GOLDEN "/canned/model.ckpt-2.data-00000-of-00001",
              at("exported/variables/variables.data-00000-of-00001"));
    restore_golden("format/canned.json", at("exported"));
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

/* The tag after restoring a session that had `before` (-1: no values); the warnings say how often a checkpoint was
 * given up. */
static est_status restore_over(est_saver *saver, int before, int *tag)
{
    model      m = make_model();
    est_status status;
    est_error  error;

    if (before >= 0) set_tag(&m, before);
    log_keep(EST_LOG_WARN);
    status = est_saver_restore(saver, m.session, NULL, NULL);
    est_error_take(status, &error);
    *tag = get_tag(&m);
    end_model(&m);
    return status == EST_OK ? EST_OK : est_error_raise(&error);
}

/* Restores with the newest damaged somehow. It may be read rightly all the same (one bit of an index only spells the
 * same number longer); else the one before is used, with one warning that names the file. */
static int expect_newest_or_before(est_saver *saver, int before, const char *file)
{
    int tag;

    assert_ok(restore_over(saver, before, &tag));
    if (tag == 1) {
        assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
        assert_non_null(strstr(log_line(-1), file));
    } else {
        assert_int_equal(tag, 2);
        assert_int_equal(log_count(EST_LOG_WARN, ""), 0);
    }
    return tag;
}

static void damage_file(est_saver *saver, const char *path)
{
    char  *bytes;
    size_t size;
    int    n_right = 0;

    assert_ok(est_file_read(path, &bytes, &size));
    for (size_t n = 0; n < size; n++) {
        put_bytes(path, bytes, n);
        assert_int_equal(expect_newest_or_before(saver, (int)(n % 2) * 51 - 1, path), 1);
    }
    for (size_t i = 0; i < 2 * size; i++) {
        bytes[i / 2] = (char)(bytes[i / 2] ^ (i % 2 == 0 ? 1 : 0x80));
        put_bytes(path, bytes, size);
        n_right += expect_newest_or_before(saver, (int)(i % 3) * 25 - 1, path) == 2;
        bytes[i / 2] = (char)(bytes[i / 2] ^ (i % 2 == 0 ? 1 : 0x80));
    }
    assert_true(n_right <= 1);
    unlink(path);
    assert_int_equal(expect_newest_or_before(saver, -1, path), 1);
    put_bytes(path, bytes, size);
    assert_int_equal(expect_newest_or_before(saver, -1, path), 2);
    est_free(bytes);
}

/* Cut at every byte, every byte changed, missing: over sessions with and without values. */
TEST(every_damage)
{
    model      m     = make_model();
    est_saver *saver = two_saved(at("damage"), &m);

    damage_file(saver, at("damage/model.ckpt-2.data-00000-of-00001"));
    damage_file(saver, at("damage/model.ckpt-2.index"));
    log_release();
    est_saver_free(saver);
    end_model(&m);
}

/* The warning of a damaged data file says where and in which variable. */
TEST(warning_text)
{
    model      m     = make_model();
    est_saver *saver = two_saved(at("warning"), &m);
    char      *bytes;
    size_t     size;
    int        tag;

    assert_ok(est_file_read(at("warning/model.ckpt-2.data-00000-of-00001"), &bytes, &size));
    bytes[20] ^= 4; /* after global_step (8 bytes) and layer/bias (8 bytes) */
    put_bytes(at("warning/model.ckpt-2.data-00000-of-00001"), bytes, size);
    est_free(bytes);
    assert_ok(restore_over(saver, 5, &tag));
    assert_int_equal(tag, 1);
    assert_non_null(strstr(log_line(-1), "warning/model.ckpt-2.data-00000-of-00001: \"layer/kernel\" at offset 16"));
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* Nothing usable: each is listed with its reason, and the session is as it was. */
TEST(all_damaged)
{
    model      m     = make_model();
    est_saver *saver = two_saved(at("all"), &m);
    int        tag;

    flip_last_byte(at("all/model.ckpt-1.data-00000-of-00001"));
    flip_last_byte(at("all/model.ckpt-2.data-00000-of-00001"));
    for (int before = -1; before <= 40; before += 41) {
        expect_error(restore_over(saver, before, &tag), EST_DATA_LOSS, "none is usable");
        assert_non_null(strstr(est_error_message(), "model.ckpt-1.data"));
        assert_non_null(strstr(est_error_message(), "model.ckpt-2.data"));
        assert_int_equal(tag, before);
        assert_int_equal(log_count(EST_LOG_WARN, ""), 2);
    }
    /* The one that was asked for is not replaced by another. */
    assert_ok(save_step(saver, &m, 3));
    expect_error(est_saver_restore(saver, m.session, EST_RESTORE(.path = at("all/model.ckpt-2")), NULL), EST_DATA_LOSS,
                 "layer/kernel");
    assert_int_equal(get_tag(&m), 3);
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* A new variable is all zeros, and its first value, if that is zero, is not written again: unless a restore that failed
 * has left something in it. */
TEST(zeros_after_damage)
{
    model      m[2];
    est_saver *saver;

    for (int i = 0; i < 2; i++) {
        est_node v;

        assert_ok(est_graph_create(1, &m[i].graph));
        v = est_variable(m[i].graph, "v", EST_F32, EST_SHAPE(200, 300));
        est_variable_initializer(v, est_fill(est_const_i32(m[i].graph, EST_SHAPE(2), (const int32_t[]){ 200, 300 }),
                                             est_scalar(m[i].graph, EST_F32, 0)));
        assert_ok(est_session_create(m[i].graph, EST_SESSION(.threads = 1), &m[i].session));
    }
    write_tag(m[0].session, "v", EST_F32, EST_SHAPE(200, 300), 7);
    assert_ok(est_saver_create(at("zeros"), NULL, &saver));
    assert_ok(est_saver_save(saver, m[0].session, 1, NULL, NULL));
    flip_last_byte(at("zeros/model.ckpt-1.data-00000-of-00001"));
    log_keep(EST_LOG_WARN);
    expect_error(est_saver_restore(saver, m[1].session, NULL, NULL), EST_DATA_LOSS, "\"v\"");
    assert_int_equal(variable_tag(m[1].session, "v"), -1);
    assert_ok(est_session_init(m[1].session));
    assert_int_equal(variable_tag(m[1].session, "v"), 0);
    log_release();
    est_saver_free(saver);
    end_model(&m[0]);
    end_model(&m[1]);
}

/* A damaged extra spoils its checkpoint too: all is from one. */
TEST(damaged_extra)
{
    model       m = make_model();
    est_saver  *saver;
    est_tensor *extra, *got = NULL;
    est_extras  extras;

    log_keep(EST_LOG_WARN);
    assert_ok(est_saver_create(at("extra"), NULL, &saver));
    for (int64_t i = 1; i <= 2; i++) {
        assert_ok(est_tensor_i64(EST_SHAPE_SCALAR, &i, &extra));
        extras = EST_EXTRAS({ "z", extra });
        set_tag(&m, (int)i);
        assert_ok(est_saver_save(saver, m.session, i, EST_SAVE(.extras = extras), NULL));
        est_tensor_free(extra);
    }
    flip_last_byte(at("extra/model.ckpt-2.data-00000-of-00001"));
    assert_ok(est_saver_restore(saver, m.session, EST_RESTORE(.extras = EST_EXTRAS_OUT({ "z", &got })), NULL));
    assert_true(nn_element(got, 0) == 1);
    assert_int_equal(get_tag(&m), 1);
    est_tensor_free(got);
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* Without a state file, or with a damaged one, the highest step of the saver's name counts. */
TEST(no_state_file)
{
    model      m     = make_model();
    est_saver *saver = two_saved(at("stateless"), &m), *other;
    int        tag;

    assert_ok(save_step(saver, &m, 10)); /* not by the letters: after 2 */
    assert_ok(est_saver_create(at("stateless"), EST_SAVER(.name = "other"), &other));
    assert_ok(save_step(other, &m, 50));
    put_bytes(at("stateless/model.ckpt-99.index.tmp-1-1"), "x", 1);
    put_bytes(at("stateless/model.ckpt-x.index"), "x", 1);
    for (int i = 0; i < 2; i++) {
        if (i == 0) unlink(at("stateless/checkpoint"));
        if (i == 1) put_bytes(at("stateless/checkpoint"), "model_checkpoint_path: \"mod", 27);
        assert_ok(restore_over(saver, -1, &tag));
        assert_int_equal(tag, 10);
        assert_int_equal(log_count(EST_LOG_WARN, ""), i);
        assert_int_equal(restored_tag(at("stateless")), 50); /* any name */
    }
    assert_non_null(strstr(log_line(-1), "stateless/checkpoint:1"));
    est_saver_free(saver);
    est_saver_free(other);
    end_model(&m);
    log_release();
}

/* A file that cannot be read now is no damage: an older checkpoint would lose steps that are all there. */
TEST(passing_errors)
{
    static const char *const files[] = { "checkpoint", "model.ckpt-2.index", "model.ckpt-2.data-00000-of-00001" };
    model                    m       = make_model();
    est_saver               *saver   = two_saved(at("passing"), &m);
    est_checkpoint          *checkpoint;
    int                      tag;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[256], aside[256];

        snprintf(path, sizeof path, "%s/%s", at("passing"), files[i]);
        snprintf(aside, sizeof aside, "%s", at("aside"));
        assert_int_equal(rename(path, aside), 0);
        assert_int_equal(symlink(path, path), 0); /* a loop: opening fails, also for root */
        expect_error(restore_over(saver, -1, &tag), EST_INVALID_ARGUMENT, strerror(ELOOP));
        assert_int_equal(tag, -1);
        assert_int_equal(log_count(EST_LOG_WARN, ""), 0);
        expect_error(restore_over(saver, 40, &tag), EST_INVALID_ARGUMENT, files[i]);
        assert_int_equal(tag, 40);
        expect_error(est_checkpoint_open(at("passing"), &checkpoint), EST_INVALID_ARGUMENT, strerror(ELOOP));
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rename(aside, path), 0);
    }
    assert_int_equal(symlink(at("loop"), at("loop")), 0);
    expect_error(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("loop")), NULL), EST_INVALID_ARGUMENT,
                 strerror(ELOOP));
    assert_int_equal(restored_tag(at("passing")), 2);
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* One that was asked for and lacks its data is damaged; EST_NOT_FOUND would start training from step 0. */
TEST(no_data)
{
    model      m     = make_model();
    est_saver *saver = two_saved(at("dataless"), &m);

    unlink(at("dataless/model.ckpt-2.data-00000-of-00001"));
    expect_error(est_saver_restore(saver, m.session, EST_RESTORE(.path = at("dataless/model.ckpt-2")), NULL),
                 EST_DATA_LOSS, "model.ckpt-2.data-00000-of-00001");
    est_saver_free(saver);
    end_model(&m);
}

/* A state file says that there was a checkpoint, even when nothing can be read out of it. */
TEST(only_a_state_file)
{
    model m = make_model();

    assert_ok(est_dir_create(at("only")));
    put_bytes(at("only/model.ckpt.index"), "x", 1); /* no step: only the state file could name it */
    for (int i = 0; i < 2; i++) {
        put_bytes(at("only/checkpoint"), "mod", i == 0 ? 0 : 3);
        log_keep(EST_LOG_WARN);
        expect_error(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("only")), NULL), EST_DATA_LOSS,
                     "only/checkpoint is damaged");
        assert_int_equal(log_count(EST_LOG_WARN, ""), 1);
    }
    unlink(at("only/checkpoint"));
    expect_error(est_saver_restore(NULL, m.session, EST_RESTORE(.path = at("only")), NULL), EST_NOT_FOUND, at("only"));
    end_model(&m);
    log_release();
}

/* Training went back from 500 to 100 and on to 150, which is damaged: 100 is what it came from. */
TEST(left_behind)
{
    model      m = make_model();
    est_saver *saver;

    assert_ok(est_saver_create(at("behind"), EST_SAVER(.keep_max = EST_OFF), &saver));
    assert_ok(save_step(saver, &m, 100));
    assert_ok(save_step(saver, &m, 500));
    assert_ok(save_step(saver, &m, 150));
    put_bytes(at("behind/model.ckpt-150.index"), "x", 1);
    log_keep(EST_LOG_WARN);
    assert_int_equal(restored_tag(at("behind")), 100);
    unlink(at("behind/model.ckpt-100.index"));
    assert_int_equal(restored_tag(at("behind")), 500); /* better than nothing */
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* The state file's order wins over the steps: training may have gone back. */
TEST(state_file_order)
{
    model      m     = make_model();
    est_saver *saver = two_saved(at("order"), &m);
    int        tag;

    assert_ok(save_step(saver, &m, 1));
    assert_ok(restore_over(saver, -1, &tag));
    assert_int_equal(tag, 1);
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Every allocation and every system call fails once: the session is as before, or restored whole. Neither is a reason
 * to take an older checkpoint. */
TEST(every_failure)
{
    model       m     = make_model();
    est_saver  *saver = two_saved(at("failures"), &m);
    est_tensor *got   = NULL;

    log_keep(EST_LOG_WARN);
    for (int before = -1; before <= 40; before += 41) {
        FAULT_LOOPS(f) {
            model      session = make_model();
            est_status status;
            int        tag;

            if (before >= 0) set_tag(&session, before);
            fault_arm(&f);
            status = est_saver_restore(saver, session.session,
                                       EST_RESTORE(.extras = EST_EXTRAS_OUT({ "global_step", &got })), NULL);
            fault_check_lenient(&f, status);
            tag = get_tag(&session);
            if (status == EST_OK) {
                assert_int_equal(tag, 2);
                assert_true(nn_element(got, 0) == tag);
                est_tensor_free(got);
                got = NULL;
            } else {
                assert_null(got);
                assert_true(tag == before || tag == -1); /* -1: while they were being written */
            }
            end_model(&session);
        }
    }
    est_saver_free(saver);
    end_model(&m);
    log_release();
}

/* Large enough for several threads to share the reading. */
TEST(large)
{
    const int64_t n = 5000001;
    model         m = { 0 };
    est_tensor   *value, *got;
    est_saver    *saver;

    assert_ok(est_graph_create(1, &m.graph));
    est_variable(m.graph, "large", EST_F32, EST_SHAPE(n));
    assert_ok(est_session_create(m.graph, EST_SESSION(.threads = 3), &m.session));
    assert_ok(est_tensor_create(EST_F32, EST_SHAPE(n), &value));
    for (int64_t i = 0; i < n; i++) ((float *)est_tensor_mutable_data(value))[i] = (float)i;
    assert_ok(est_session_write(m.session, "large", value));
    assert_ok(est_saver_create(at("large"), NULL, &saver));
    assert_ok(est_saver_save(saver, m.session, 1, NULL, NULL));
    write_tag(m.session, "large", EST_F32, EST_SHAPE(n), 1);
    est_fault_arm(0);
    assert_ok(est_saver_restore(saver, m.session, NULL, NULL));
    assert_ok(est_session_read(m.session, "large", &got));
    assert_memory_equal(est_tensor_data(got), est_tensor_data(value), est_tensor_bytes(value));
    est_tensor_free(got);
#if defined(EST_FAULT_POINTS) && EST_FAULT_POINTS
    est_fault_arm(est_fault_hits() - 1); /* a read among the last of the five blocks, in whatever thread */
    log_keep(EST_LOG_WARN);
    expect_error(est_saver_restore(saver, m.session, NULL, NULL), EST_UNKNOWN, strerror(EIO));
    assert_string_equal(est_fault_name(), "bundle.read");
    est_fault_arm(0);
    assert_ok(est_saver_restore(saver, m.session, NULL, NULL));
#endif

    flip_last_byte(at("large/model.ckpt-1.data-00000-of-00001"));
    write_tag(m.session, "large", EST_F32, EST_SHAPE(n), 1);
    log_keep(EST_LOG_WARN);
    expect_error(est_saver_restore(saver, m.session, NULL, NULL), EST_DATA_LOSS, "\"large\" at offset 0");
    assert_int_equal(variable_tag(m.session, "large"), 1);
    log_release();
    est_tensor_free(value);
    est_saver_free(saver);
    end_model(&m);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
