/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc certificates`: the three files, who may read them, and what is refused. That tasks accept each other by them
 * is tested with the network. */
#include "cli/tool.h"

static void expect_file(const char *path, const char *begins, mode_t forbidden)
{
    char       *text = tool_read_file(path, NULL);
    struct stat info;

    tool_expect_part(text, begins, path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & forbidden, 0);
    est_free(text);
}

TEST(makes_three_files)
{
    char dir[256], out[1024];

    snprintf(dir, sizeof dir, "%s", tool_path("certs"));
    snprintf(out, sizeof out, "%s/ca.pem\n%s/cert.pem\n%s/key.pem\n", dir, dir, dir);
    TOOL_OUT(0, out, "", "certificates", "--job", "ads", "--days", "30", dir);
    expect_file(tool_path("certs/ca.pem"), "-----BEGIN CERTIFICATE-----\n", 0022);
    expect_file(tool_path("certs/cert.pem"), "-----BEGIN CERTIFICATE-----\n", 0022);
    expect_file(tool_path("certs/key.pem"), "PRIVATE KEY-----\n", 0077);
}

TEST(as_json)
{
    tool_run    run  = TOOL(0, "certificates", "--json", tool_path("certs-json"));
    est_json   *root = tool_json(run.out);
    const char *job, *file;
    int64_t     days;

    tool_check(est_json_string(root, &job, "job"));
    assert_string_equal(job, "estoc");
    tool_check(est_json_i64(root, &days, "days"));
    assert_int_equal(days, 365);
    tool_check(est_json_string(root, &file, "files[2]"));
    assert_string_equal(file, "key.pem");
    est_json_free(root);
    tool_run_free(&run);
}

/* What is there stays there: keys that tasks use are not replaced by mistake. */
TEST(directory_that_is_not_empty)
{
    tool_run first  = TOOL(0, "certificates", tool_path("once"));
    char    *before = tool_read_file(tool_path("once/key.pem"), NULL), *after;
    tool_run second = TOOL(1, "certificates", tool_path("once"));

    tool_expect_text(second.out, "", "standard output");
    tool_expect_part(second.err, "estoc certificates: ", "standard error");
    after = tool_read_file(tool_path("once/key.pem"), NULL);
    assert_string_equal(after, before);
    est_free(before);
    est_free(after);
    tool_run_free(&first);
    tool_run_free(&second);
}

TEST(wrong_usage)
{
    TOOL_OUT(2, "", "it takes one directory, and 0 are given", "certificates");
    TOOL_OUT(2, "", "it takes one directory, and 2 are given", "certificates", "a", "b");
    TOOL_OUT(2, "", "--days takes a number from 1 to 36500, not 0", "certificates", "--days", "0", "a");
    TOOL_OUT(2, "", "--days takes a number from 0 up, not \"x\"", "certificates", "--days", "x", "a");
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
