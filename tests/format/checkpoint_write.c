/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints written from named tensors: read back, made the latest or not, replaced, refused, and whole whatever
 * fails. tests/interop/checkpoint.c has TensorFlow read one. */
#include <dirent.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "estoc/checkpoint.h"
#include "estoc/log.h"
#include "support/dir_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

static char        root[64];
static est_tensor *ones, *twos, *words;

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static int begin(void **state)
{
    const est_str strings[] = { { "one", 3 }, { "", 0 }, { "a\0b", 3 } };

    (void)state;
    est_test_dir(root);
    check(est_tensor_f32(EST_SHAPE(2, 2), (const float[]){ 1, 1, 1, 1 }, &ones));
    check(est_tensor_f32(EST_SHAPE(2, 2), (const float[]){ 2, 2, 2, 2 }, &twos));
    check(est_tensor_create_from(EST_STRING, EST_SHAPE(3), strings, &words));
    return 0;
}

static int end(void **state)
{
    (void)state;
    est_tensor_free(ones);
    est_tensor_free(twos);
    est_tensor_free(words);
    return est_dir_remove(root) != EST_OK;
}

/* A path under the test's directory; good for the next three calls. */
static const char *at(const char *name)
{
    static char paths[4][256];
    static int  turn;

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", root, name);
    return paths[turn];
}

static int count_files(const char *dir)
{
    DIR           *handle = opendir(dir);
    struct dirent *entry;
    int            n = 0;

    while (handle != NULL && (entry = readdir(handle)) != NULL) {
        assert_null(strstr(entry->d_name, ".tmp-"));
        n += entry->d_name[0] != '.';
    }
    if (handle != NULL) closedir(handle);
    return n;
}

/* The first element of the tensor `w` of a checkpoint that is whole. */
static double first_of(const char *path)
{
    est_checkpoint *checkpoint = NULL;
    est_tensor     *tensor     = NULL;
    double          value;

    check(est_checkpoint_open(path, &checkpoint));
    check(est_checkpoint_verify(checkpoint));
    check(est_checkpoint_read(checkpoint, "w", &tensor));
    value = (double)((const float *)est_tensor_data(tensor))[3];
    est_tensor_free(tensor);
    est_checkpoint_close(checkpoint);
    return value;
}

TEST(read_back)
{
    const int64_t   step       = 7;
    est_checkpoint *checkpoint = NULL;
    est_tensor     *number = NULL, *got = NULL;
    char            latest[EST_CHECKPOINT_PATH_MAX];

    check(est_tensor_i64(EST_SHAPE_SCALAR, &step, &number));
    check(est_checkpoint_write(
        at("made/for/it/x"), EST_NAMED_TENSORS({ "w", ones }, { "a/words", words }, { "global_step", number }), NULL));
    assert_int_equal(count_files(at("made/for/it")), 2); /* index and data */
    assert_int_equal(est_checkpoint_latest(at("made/for/it"), latest), EST_NOT_FOUND);
    check(est_checkpoint_open(at("made/for/it/x"), &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 3);
    assert_string_equal(est_checkpoint_at(checkpoint, 0)->name, "a/words");
    check(est_checkpoint_read(checkpoint, "a/words", &got));
    assert_int_equal(est_tensor_count(got), 3);
    assert_memory_equal(((const est_str *)est_tensor_data(got))[2].data, "a\0b", 3);
    est_tensor_free(got);
    check(est_checkpoint_read(checkpoint, "global_step", &got));
    assert_int_equal(*(const int64_t *)est_tensor_data(got), 7);
    est_tensor_free(got);
    est_tensor_free(number);
    est_checkpoint_close(checkpoint);
    assert_true(first_of(at("made/for/it/x")) == 1);
}

/* The state file names what it named before, and the new one once and last. */
TEST(latest)
{
    static const char want[] = "model_checkpoint_path: \"m-1\"\n"
                               "all_model_checkpoint_paths: \"m-2\"\n"
                               "all_model_checkpoint_paths: \"m-1\"\n";
    char             *text   = NULL;
    size_t            size;

    check(est_checkpoint_write(at("run/m-1"), EST_NAMED_TENSORS({ "w", ones }), EST_CHECKPOINT_WRITE(.latest = true)));
    assert_true(first_of(at("run")) == 1);
    check(est_checkpoint_write(at("run/m-2"), EST_NAMED_TENSORS({ "w", twos }), EST_CHECKPOINT_WRITE(.latest = true)));
    assert_true(first_of(at("run")) == 2);
    check(est_checkpoint_write(at("run/m-3"), EST_NAMED_TENSORS({ "w", ones }), NULL));
    assert_true(first_of(at("run")) == 2);
    check(est_checkpoint_write(at("run/m-1"), EST_NAMED_TENSORS({ "w", ones }), EST_CHECKPOINT_WRITE(.latest = true)));
    assert_true(first_of(at("run")) == 1);
    check(est_file_read(at("run/checkpoint"), &text, &size));
    assert_int_equal(size, sizeof want - 1);
    assert_memory_equal(text, want, size);
    est_free(text);
    check(est_file_replace(at("run/checkpoint"), "what?", 5)); /* damaged */
    check(est_checkpoint_write(at("run/m-2"), EST_NAMED_TENSORS({ "w", twos }), EST_CHECKPOINT_WRITE(.latest = true)));
    assert_true(first_of(at("run")) == 2);
}

/* The graph of the checkpoint before is not that of the new one. */
TEST(replaced)
{
    check(est_checkpoint_write(at("again/m"), EST_NAMED_TENSORS({ "w", ones }, { "more", ones }), NULL));
    check(est_file_replace(at("again/m.meta"), "graph", 5));
    check(est_checkpoint_write(at("again/m"), EST_NAMED_TENSORS({ "w", twos }), NULL));
    assert_true(first_of(at("again/m")) == 2);
    assert_int_equal(count_files(at("again")), 2);
}

/* Keras writes those of a model that was never called. */
TEST(objects_without_tensors)
{
    static const est_saved_child child  = { .name = "dense", .object = 1 };
    est_saved_object             both[] = { { .children = &child, .n_children = 1 }, { 0 } };
    est_checkpoint              *c;

    assert_int_equal(est_checkpoint_write(at("empty/x"), (est_named_tensors){ 0 },
                                          EST_CHECKPOINT_WRITE(.objects = { both, 2 }, .latest = true)),
                     EST_OK);
    assert_int_equal(est_checkpoint_open(at("empty/x"), &c), EST_OK);
    assert_int_equal(est_checkpoint_saved_objects(c).n, 2);
    est_checkpoint_close(c);
}

static void refused(const char *prefix, est_named_tensors tensors, const est_checkpoint_write_options *options,
                    const char *text)
{
    assert_int_not_equal(est_checkpoint_write(prefix, tensors, options), EST_OK);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\", expected \"%s\"", est_error_message(), text);
}

TEST(refused)
{
    est_named_tensors one = EST_NAMED_TENSORS({ "w", ones });

    refused("", one, NULL, "\"\" is not a valid checkpoint prefix; write one like runs/x/model.ckpt-0");
    refused(at("no/"), one, NULL, "is not a valid checkpoint prefix");
    refused(at("no/x"), (est_named_tensors){ 0 }, NULL, "needs at least one tensor or object");
    refused(at("no/x"), EST_NAMED_TENSORS({ "w", ones }, { NULL, ones }), NULL, "tensor 1 to write has no name");
    refused(at("no/x"), EST_NAMED_TENSORS({ "w", NULL }), NULL, "tensor 0 to write has no value");
    assert_int_equal(est_checkpoint_write(at("no/x"), EST_NAMED_TENSORS({ "w", ones }, { "w", twos }), NULL),
                     EST_ALREADY_EXISTS);
    refused(at("no/x"), one, &(est_checkpoint_write_options){ .latest = true }, "EST_CHECKPOINT_WRITE");
    assert_int_equal(count_files(at("no")), 0);
}

TEST(mark)
{
    char latest[EST_CHECKPOINT_PATH_MAX];

    check(est_checkpoint_write(at("mark/a-1"), EST_NAMED_TENSORS({ "w", ones }), NULL));
    check(est_checkpoint_write(at("mark/a-2"), EST_NAMED_TENSORS({ "w", twos }), NULL));
    check(est_checkpoint_mark(at("mark"), EST_STRINGS("a-2", "a-1"), EST_F64S(1.5, 2.5), 1.5));
    check(est_checkpoint_latest(at("mark"), latest));
    assert_string_equal(latest, at("mark/a-1"));
    assert_true(first_of(at("mark")) == 1);
    check(est_checkpoint_mark(at("mark"), EST_STRINGS("a-2"), (est_f64s){ 0 }, 0));
    assert_true(first_of(at("mark")) == 2);
    assert_int_equal(est_checkpoint_mark(at("mark"), (est_strings){ 0 }, (est_f64s){ 0 }, 0), EST_INVALID_ARGUMENT);
    assert_int_equal(est_checkpoint_mark(at("mark"), EST_STRINGS("a-2"), EST_F64S(1, 2), 0), EST_INVALID_ARGUMENT);
    assert_int_equal(est_checkpoint_mark(at("mark"), EST_STRINGS("a", ""), (est_f64s){ 0 }, 0), EST_INVALID_ARGUMENT);
}

/* A root with a module, whose two variables are one tensor each; the second is a slot for the first. */
static const est_saved_object objects[] = {
    { .children   = (const est_saved_child[]){ { "module", 1 }, { "again", 1 } },
      .n_children = 2,
      .slots      = (const est_saved_slot[]){ { 2, "m", 3 } },
      .n_slots    = 1 },
    { .children = (const est_saved_child[]){ { "v", 2 }, { "slot", 3 } }, .n_children = 2 },
    { .key = "module/v", .full_name = "Variable" },
    { .key = "module/slot" },
};

TEST(objects)
{
    est_named_tensors two = EST_NAMED_TENSORS({ "module/v", ones }, { "module/slot", twos });
    est_saved_objects read;
    est_checkpoint   *checkpoint;

    check(est_checkpoint_write(at("objects/c"), two, EST_CHECKPOINT_WRITE(.objects = { objects, 4 })));
    check(est_checkpoint_open(at("objects/c"), &checkpoint));
    assert_int_equal(est_checkpoint_count(checkpoint), 2); /* the message of the objects is none of the variables */
    read = est_checkpoint_saved_objects(checkpoint);
    assert_int_equal(read.n, 4);
    assert_int_equal(read.data[0].n_children, 2);
    assert_string_equal(read.data[0].children[1].name, "again");
    assert_int_equal(read.data[0].children[1].object, 1);
    assert_int_equal(read.data[0].n_slots, 1);
    assert_int_equal(read.data[0].slots[0].variable, 2);
    assert_int_equal(read.data[0].slots[0].slot, 3);
    assert_string_equal(read.data[0].slots[0].name, "m");
    assert_null(read.data[0].key);
    assert_string_equal(read.data[2].key, "module/v");
    assert_string_equal(read.data[2].full_name, "Variable");
    est_checkpoint_close(checkpoint);

    check(est_checkpoint_write(at("objects/plain"), two, NULL));
    check(est_checkpoint_open(at("objects/plain"), &checkpoint));
    assert_int_equal(est_checkpoint_saved_objects(checkpoint).n, 0);
    est_checkpoint_close(checkpoint);
    assert_int_equal(est_checkpoint_saved_objects(NULL).n, 0);

    refused(at("objects/no"), two, EST_CHECKPOINT_WRITE(.objects = { objects, 2 }),
            "slot 0 of object 0 is \"m\", object 3 for object 2; there are 2 objects");
    refused(at("objects/no"), EST_NAMED_TENSORS({ "module/v", ones }), EST_CHECKPOINT_WRITE(.objects = { objects, 4 }),
            "object 3 to write has the value \"module/slot\", which is none of 1 tensors");
    refused(at("objects/no"), two, EST_CHECKPOINT_WRITE(.objects = { NULL, 4 }), "objects");
}

/* One failure after the other, of files and of memory: the old checkpoint or the new one is there, whole, with no
 * temporary file beside it, and the state file names one that is. */
static void fail_each(fault_kind kind)
{
    est_checkpoint_write_options latest = *EST_CHECKPOINT_WRITE(.latest = true);

    FAULT_LOOP(f, kind) {
        est_status status;
        double     value;

        check(est_dir_remove(at("fault")));
        check(est_checkpoint_write(at("fault/m-1"), EST_NAMED_TENSORS({ "w", ones }), &latest));
        fault_arm(&f);
        status = est_checkpoint_write(at("fault/m-1"), EST_NAMED_TENSORS({ "w", twos }), &latest);
        (void)fault_end(&f);
        value = first_of(at("fault"));
        assert_true(value == 2 || (value == 1 && status != EST_OK));
        assert_in_range(count_files(at("fault")), 3,
                        4); /* the old data stays where the directory could not be synced */
    }
    FAULT_LOOP(f, kind) {
        est_status status;
        double     value;

        check(est_dir_remove(at("fault")));
        check(est_checkpoint_write(at("fault/m-1"), EST_NAMED_TENSORS({ "w", ones }), &latest));
        fault_arm(&f);
        status = est_checkpoint_write(
            at("fault/m-2"), EST_NAMED_TENSORS({ "w", twos }),
            EST_CHECKPOINT_WRITE(.latest = true, .objects = { &(est_saved_object){ .key = "w" }, 1 }));
        (void)fault_end(&f);
        value = first_of(at("fault"));
        assert_true(status != EST_OK || value == 2);
        assert_true(first_of(at("fault/m-1")) == 1);
        if (est_file_exists(at("fault/m-2.index"))) assert_true(first_of(at("fault/m-2")) == 2);
        if (!est_file_exists(at("fault/m-2.index"))) assert_int_equal(count_files(at("fault")), 3);
    }
}

TEST(failures)
{
    fail_each(FAULT_POINTS);
    fail_each(FAULT_ALLOCATIONS);
}

int main(void)
{
    est_log_set_level(EST_LOG_OFF);
    return est_test_run(begin, end);
}
