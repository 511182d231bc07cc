/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports of models with vocabularies: the files go along, under names of their own, and nothing else is needed to
 * serve the model. Whether TensorFlow agrees is asked by tests/interop/vocabulary.c. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "format/saved_model_def.h"
#include "support/export_test.h"
#include "support/fault_loop.h"
#include "support/vocabulary_test.h"

#define WORD_EXPORT EST_EXPORT(.input = { .raw = { word_raw, WORD_FEATURES } })

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void expect_file(const char *dir, const char *name, const char *want)
{
    char   path[EST_CHECKPOINT_PATH_MAX + 64], *bytes;
    size_t size;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    ok(est_file_read(path, &bytes, &size));
    assert_int_equal(size, strlen(want));
    assert_memory_equal(bytes, want, size);
    est_free(bytes);
}

static void expect_nodes(const est_meta_graph_def *meta, const char *collection, int n, const char *first)
{
    const est_collection_def *list = est_meta_graph_def_collection(meta, collection);

    assert_non_null(list);
    assert_int_equal(list->kind, EST_COLLECTION_NODES);
    assert_int_equal(list->n, n);
    assert_string_equal(list->nodes[0], first);
}

TEST(files_of_one_name_get_names_of_their_own)
{
    char           dir[64], base[128], path[EST_CHECKPOINT_PATH_MAX], inner[EST_CHECKPOINT_PATH_MAX + 32], list[1024];
    const char    *tag   = "serve";
    est_arena     *arena = est_arena_create();
    est_estimator *e;
    word_params    params;
    est_saved_model_def model;
    est_meta_graph_def *meta;
    char               *bytes;
    size_t              size;

    assert_non_null(arena);
    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = word_trained(dir, &params);
    ok(est_export_saved_model(e, base, WORD_EXPORT, path));
    assert_string_equal(shop_list(path, list), "assets saved_model.pb variables ");
    snprintf(inner, sizeof inner, "%s/assets", path);
    assert_string_equal(shop_list(inner, list), "words.txt words.txt_1 ");
    expect_file(inner, "words.txt", "cat\ndog\n");
    expect_file(inner, "words.txt_1", "dog\r\ncow\nhen\nmore\n");

    snprintf(inner, sizeof inner, "%s/saved_model.pb", path);
    ok(est_file_read(inner, &bytes, &size));
    ok(est_saved_model_def_parse((est_str){ bytes, size }, arena, &model));
    est_free(bytes);
    ok(est_saved_model_def_find(&model, &tag, 1, &meta));
    assert_int_equal(meta->n_assets, 2);
    assert_string_equal(meta->assets[0].filename, "words.txt");
    assert_string_equal(meta->assets[0].tensor.name, "vocabulary/filename:0");
    assert_string_equal(meta->assets[1].filename, "words.txt_1");
    expect_nodes(meta, "asset_filepaths", 2, "vocabulary/filename:0");
    expect_nodes(meta, "table_initializer", 5, "vocabulary/init"); /* two files, two lists, the entries of a file */
    expect_nodes(meta, "saved_model_main_op", 1, "init_all_tables");
    est_arena_free(arena);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

static int64_t bucket(const char *text, int64_t size, uint64_t n)
{
    return size + (int64_t)(est_fingerprint64(text, strlen(text)) % n);
}

static void expect_i64(const est_tensor *got, const int64_t *want)
{
    assert_int_equal(est_tensor_dtype(got), EST_I64);
    assert_int_equal(est_tensor_count(got), 5);
    assert_memory_equal(est_tensor_data(got), want, 5 * sizeof *want);
}

/* Moved to another place, with the files it was made from gone. */
TEST(an_export_needs_nothing_else)
{
    const char *const names[5] = { "none", "dog", "none", "cat", "none" };
    char              dir[64], base[128], path[EST_CHECKPOINT_PATH_MAX], moved[128];
    est_estimator    *e;
    est_tensor       *out[WORD_OUTPUTS];
    word_params       params;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    snprintf(moved, sizeof moved, "%s/moved", dir);
    e = word_trained(dir, &params);
    ok(est_export_saved_model(e, base, WORD_EXPORT, path));
    assert_int_equal(rename(path, moved), 0);
    ok(est_file_remove(params.first));
    ok(est_file_remove(params.second));
    word_serve(moved, word_outputs, WORD_OUTPUTS, out);
    expect_i64(out[0], (const int64_t[]){ 1, 0, bucket("hen", 2, 3), bucket("", 2, 3), bucket("dog\r", 2, 3) });
    expect_i64(out[1], (const int64_t[]){ 0, -1, 2, -1, -1 });
    expect_i64(out[2], (const int64_t[]){ 1, bucket("1", 2, 4), bucket("-7", 2, 4), bucket("0", 2, 4), 0 });
    for (int i = 0; i < 5; i++) {
        const est_str *name = (const est_str *)est_tensor_data(out[3]) + i;

        assert_int_equal(name->size, strlen(names[i]));
        assert_memory_equal(name->data, names[i], name->size);
    }
    expect_i64(out[4], (const int64_t[]){ 5, 4, bucket("hen", 1, 3), 0, bucket("dog\r", 1, 3) });
    for (int i = 0; i < WORD_OUTPUTS; i++) est_tensor_free(out[i]);
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

/* A copy that came out short is seen: what is checked is the copy. */
TEST(the_check_looks_at_the_copies)
{
    char           dir[64], base[128], list[1024];
    est_estimator *e;
    word_params    params;
    bool           found = false;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = word_trained(dir, &params);
    for (int64_t n = 1; !found; n++) {
        est_status status;

        est_fault_arm(n);
        status = est_export_saved_model(e, base, WORD_EXPORT, NULL);
        assert_true(est_fault_fired());
        found = strcmp(est_fault_name(), "export.asset") == 0;
        est_fault_arm(0);
        if (!found) {
            est_test_dir_remove(base); /* of a fault that did no harm, as in reading the newest checkpoint */
            continue;
        }
        assert_int_equal(status, EST_INVALID_ARGUMENT);
        est_test_error_has("/assets/words.txt is empty");
        assert_string_equal(shop_list(base, list), "");
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(a_vocabulary_that_is_gone_fails_the_export)
{
    char           dir[64], base[128], list[1024];
    est_estimator *e;
    word_params    params;

    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = word_trained(dir, &params);
    ok(est_file_remove(params.second));
    assert_int_equal(est_export_saved_model(e, base, WORD_EXPORT, NULL), EST_NOT_FOUND);
    est_test_error_has(params.second);
    assert_string_equal(shop_list(base, list), "");
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

TEST(allocations_may_fail)
{
    char           dir[64], base[128], path[EST_CHECKPOINT_PATH_MAX], list[1024];
    est_estimator *e;
    word_params    params;
    est_test_dir(dir);
    snprintf(base, sizeof base, "%s/out", dir);
    e = word_trained(dir, &params);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = est_export_saved_model(e, base, WORD_EXPORT, path);
        if (!fault_end(&f)) ok(status);
        if (status == EST_OK) ok(est_dir_remove(path)); /* also of a failure that did no harm */
        if (strcmp(shop_list(base, list), "") != 0) fail_msg("allocation %d left %s", (int)f.n, list);
    }
    est_estimator_free(e);
    est_test_dir_remove(dir);
}

int main(void)
{
    est_log_set_level(EST_LOG_ERROR);
    return est_test_run(NULL, NULL);
}
