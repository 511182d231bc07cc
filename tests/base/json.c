/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON: error places, paths, types. */
#include <string.h>

#include "base/json.h"
#include "support/test.h"

static const char config[] = "{\n"
                             "  \"cluster\": { \"chief\": [\"h0:1\"], \"worker\": [\"h1:2\", \"h2:3\"] },\n"
                             "  \"task\": { \"type\": \"worker\", \"index\": 1 },\n"
                             "  \"rate\": 0.5, \"big\": 9007199254740993, \"flag\": true, \"none\": null,\n"
                             "  \"grid\": [[1, 2], [3, 4]], \"\": 7\n"
                             "}";

static est_json *parsed(const char *text)
{
    est_json *root = NULL;

    assert_int_equal(est_json_parse(text, strlen(text), "test", &root), EST_OK);
    return root;
}

TEST(typed_getters)
{
    est_json   *root = parsed(config), *value;
    const char *text;
    int64_t     i64;
    double      f64;
    bool        flag;
    size_t      n;

    assert_int_equal(est_json_i64(root, &i64, "task.index"), EST_OK);
    assert_int_equal(i64, 1);
    assert_int_equal(est_json_i64(root, &i64, "big"), EST_OK);
    assert_int_equal(i64, 9007199254740993); /* more than a double holds */
    assert_int_equal(est_json_f64(root, &f64, "rate"), EST_OK);
    assert_true(f64 == 0.5);
    assert_int_equal(est_json_f64(root, &f64, "task.index"), EST_OK); /* an integer is a number */
    assert_true(f64 == 1.0);
    assert_int_equal(est_json_bool(root, &flag, "flag"), EST_OK);
    assert_true(flag);
    assert_int_equal(est_json_string(root, &text, "cluster.worker[%d]", 1), EST_OK);
    assert_string_equal(text, "h2:3");
    assert_int_equal(est_json_array(root, &value, &n, "cluster.%s", "worker"), EST_OK);
    assert_int_equal(n, 2);
    assert_int_equal(est_json_array(root, &value, NULL, "grid[1]"), EST_OK);
    assert_int_equal(est_json_i64(value, &i64, "[0]"), EST_OK);
    assert_int_equal(i64, 3);
    assert_int_equal(est_json_i64(root, &i64, "grid[1][1]"), EST_OK);
    assert_int_equal(i64, 4);
    assert_int_equal(est_json_object(root, &value, "%s", ""), EST_OK);
    assert_ptr_equal(value, root);
    assert_int_equal(est_json_object(root, &value, "task"), EST_OK);
    assert_non_null(est_json_get(root, "none"));
    assert_null(est_json_get(root, "cluster.ps"));
    est_json_free(root);
    est_json_free(NULL);
}

static void expect_missing(const est_json *root, const char *path)
{
    int64_t i64 = 42;

    assert_int_equal(est_json_i64(root, &i64, "%s", path), EST_NOT_FOUND);
    assert_int_equal(i64, 42);
    assert_null(est_json_get(root, "%s", path));
}

TEST(missing)
{
    est_json *root = parsed(config);
    char      path[1000];

    expect_missing(root, "nothing");
    assert_string_equal(est_error_message(), "nothing is missing; expected an integer");
    expect_missing(root, "task.nothing");
    expect_missing(root, "cluster.worker[2]");
    expect_missing(root, "cluster.worker[-1]");
    expect_missing(root, "cluster.worker[]");
    expect_missing(root, "cluster.worker[0");
    expect_missing(root, "cluster.worker[x]");
    expect_missing(root, "task[0]");
    expect_missing(root, "rate.x");
    expect_missing(root, "none.x");
    memset(path, 'k', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    expect_missing(root, path);
    est_json_free(root);
}

TEST(wrong_types)
{
    est_json   *root = parsed(config), *value;
    const char *text;
    int64_t     i64;
    double      f64;
    bool        flag;

    assert_int_equal(est_json_i64(root, &i64, "rate"), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "rate is a real number; expected an integer");
    assert_int_equal(est_json_string(root, &text, "task.%s", "index"), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "task.index is an integer; expected a string");
    assert_int_equal(est_json_f64(root, &f64, "none"), EST_INVALID_ARGUMENT);
    assert_int_equal(est_json_bool(root, &flag, "task.type"), EST_INVALID_ARGUMENT);
    assert_int_equal(est_json_object(root, &value, "cluster.worker"), EST_INVALID_ARGUMENT);
    assert_int_equal(est_json_array(root, &value, NULL, "cluster"), EST_INVALID_ARGUMENT);
    assert_int_equal(est_json_i64(root, &i64, "flag"), EST_INVALID_ARGUMENT);
    assert_int_equal(est_json_i64(root, &i64, "%s", ""), EST_INVALID_ARGUMENT);
    assert_string_equal(est_error_message(), "the value is an object; expected an integer");
    est_json_free(root);
}

TEST(parse_errors_say_where)
{
    static const char *const wrong[] = { "", "{", "{\"a\": 1,}", "[1 2]", "nul", "{\"a\": 1} x", "\"\xff\"" };
    est_json                *root    = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(est_json_parse(wrong[i], strlen(wrong[i]), "TF_CONFIG", &root), EST_INVALID_ARGUMENT);
        assert_memory_equal(est_error_message(), "TF_CONFIG is not JSON: line ", 28);
        assert_null(root);
    }
    assert_int_equal(est_json_parse("{\n \"a\": oops\n}", 14, "TF_CONFIG", &root), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "line 2, column "));
}

TEST(any_value_is_json)
{
    est_json *root = parsed("5");
    int64_t   i64;

    assert_int_equal(est_json_i64(root, &i64, "%s", ""), EST_OK);
    assert_int_equal(i64, 5);
    est_json_free(root);
    assert_int_equal(est_json_parse("[1]garbage", 3, "a part", &root), EST_OK); /* the size counts, not a 0 */
    est_json_free(root);
}
