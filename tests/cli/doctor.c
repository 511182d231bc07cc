/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc doctor` in good and in bad surroundings. */
#include "cli/tool.h"
#include "collective/collective.h"
#include "estoc/version.h"

static const char *const variables[] = { "ESTOC_NUM_THREADS", "ESTOC_LOG", "TF_CONFIG", "TMPDIR", "ESTOC_CUDA_PLUGIN" };

static int clear_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
    return 0;
}

TEST(all_is_fine, .setup_func = clear_environment)
{
    static const char *const lines[] = {
        "version            ok     " EST_VERSION_TEXT "\n",
        "\ncompiler           ok     ",
        "\ncpu                ",
        "\ncores              ",
        "\nESTOC_NUM_THREADS  ok     not set: ",
        "\nmemory             ok     ",
        "\nhuge pages         ",
        "\ncompression        ok     gzip and zlib",
        "\nTMPDIR             ",
        "\nESTOC_LOG          ok     not set: info\n",
        "\nTF_CONFIG          ok     not set: a single process\n",
        "\nstrategies         ok     default, one_device, mirrored, central_storage, parameter_server, multi_wor",
        "\ntransport tls      ok     TCP with TLS 1.3",
        "\ntransport tcp      ok     TCP without any protection",
        "\ntransport ucx      ",
        "\nGPU                ok     ",
        "\nself test          ok     a short training gave the expected loss\n",
    };
    tool_run run = TOOL(0, "doctor");

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        tool_expect_part(run.out, lines[i], "standard output");
    }
    assert_null(strstr(run.out, "BAD"));
    tool_expect_text(run.err, "", "standard error");
    tool_run_free(&run);
}

/* Checks what one line says with a variable set to this. */
static void expect_line(int code, const char *variable, const char *value, const char *line, const char *found)
{
    tool_run run;
    char     start[64];
    char    *at;

    assert_int_equal(setenv(variable, value, 1), 0);
    run = TOOL(code, "doctor");
    snprintf(start, sizeof start, "\n%-19s", line);
    at = strstr(run.out, start);
    if (at == NULL) {
        fail_msg("no line %s in:\n%s", line, run.out);
    } else {
        at[1 + strcspn(at + 1, "\n")] = '\0';
        tool_expect_part(at, found, line);
    }
    tool_run_free(&run);
    clear_environment(NULL);
}

TEST(environment, .setup_func = clear_environment)
{
    expect_line(0, "ESTOC_NUM_THREADS", "3", "ESTOC_NUM_THREADS", "ok     set: 3 threads");
    expect_line(1, "ESTOC_NUM_THREADS", "many", "ESTOC_NUM_THREADS",
                "BAD    ESTOC_NUM_THREADS is \"many\"; expected a number");
    expect_line(0, "ESTOC_LOG", "Debug", "ESTOC_LOG", "ok     Debug");
    expect_line(0, "ESTOC_LOG", "warn,JSON", "ESTOC_LOG", "ok     warn,JSON");
    expect_line(0, "ESTOC_LOG", "warn,yaml", "ESTOC_LOG", "note   \"warn,yaml\" is not a level");
    expect_line(0, "ESTOC_LOG", "loud", "ESTOC_LOG", "note   \"loud\" is not a level");
    expect_line(0, "TMPDIR", est_test_root, "TMPDIR", est_test_root);
    expect_line(0, "ESTOC_CUDA_PLUGIN", "/nonexistent", "GPU", "ok     no GPU: /nonexistent: cannot open");
    expect_line(1, "TMPDIR", "/nowhere/at/all", "TMPDIR",
                "BAD    /nowhere/at/all: cannot make a file there: No such file");
    assert_int_equal(tool_count_files("estoc-doctor"), 0);
}

/* Every rule of the table has its line, in the order in which they are tried, and the last fits everything. */
TEST(all_reduce, .setup_func = clear_environment)
{
    int                        n;
    const est_collective_rule *rules = est_collective_rules(&n);
    tool_run                   run   = TOOL(0, "doctor");
    const char                *at    = run.out;
    char                       name[32];

    tool_expect_part(run.out, "\nall-reduce 1       ok     one host, any ranks, any size: shared (through memory that",
                     "standard output");
    tool_expect_part(run.out, "any hosts, up to 2 ranks, up to 64 KB: direct (everything to", "standard output");
    tool_expect_part(run.out, "hosts with several ranks, any ranks, any size: hierarchical (within a host first",
                     "standard output");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "\nall-reduce %d ", i + 1);
        at = strstr(at, name);
        assert_non_null(at);
        at++;
        tool_expect_part(at, est_communication_name(rules[i].choice), name);
    }
    tool_expect_part(at, "any hosts, any ranks, any size: ring (chunks go round", "the last line");
    snprintf(name, sizeof name, "\nall-reduce %d ", n + 1);
    assert_null(strstr(run.out, name));
    tool_run_free(&run);
}

TEST(tf_config, .setup_func = clear_environment)
{
    expect_line(0, "TF_CONFIG",
                "{\"cluster\": {\"chief\": [\"a:1\"], \"worker\": [\"b:1\", \"c:1\"], \"ps\": [\"d:1\"]},"
                " \"task\": {\"type\": \"worker\", \"index\": 1}}",
                "TF_CONFIG", "ok     this is worker 1, in a cluster of 1 chief, 1 ps, 2 worker");
    expect_line(0, "TF_CONFIG", "", "TF_CONFIG", "ok     not set: a single process");
    expect_line(0, "TF_CONFIG", " \n", "TF_CONFIG", "ok     not set: a single process");
    expect_line(0, "TF_CONFIG", "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
                "TF_CONFIG", "this is chief 0, the chief, in a cluster of 1 chief");
    expect_line(0, "TF_CONFIG",
                "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}", "TF_CONFIG",
                "no chief: only multi_worker_mirrored allows that");
    expect_line(0, "TF_CONFIG",
                "{\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
                "TF_CONFIG",
                "note   this is worker 0, the chief, in a cluster of 2 worker; no ps tasks: training needs the "
                "strategy multi_worker_mirrored");
    expect_line(1, "TF_CONFIG", "{\"cluster\": ", "TF_CONFIG", "BAD    TF_CONFIG");
    expect_line(1, "TF_CONFIG", "{\"cluster\": {\"chief\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 7}}",
                "TF_CONFIG", "worker");
}

/* A misspelling is told once, although the description is tried with two sets of rules. */
TEST(misspelt_once, .setup_func = clear_environment)
{
    tool_run    run;
    const char *first;

    assert_int_equal(setenv("TF_CONFIG",
                            "{\"clutser\": {}, \"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": "
                            "\"worker\", \"index\": 0}}",
                            1),
                     0);
    run   = TOOL(0, "doctor");
    first = strstr(run.err, "clutser is not known");
    assert_non_null(first);
    assert_null(strstr(first + 1, "clutser is not known"));
    tool_run_free(&run);
    clear_environment(NULL);
}

TEST(as_json, .setup_func = clear_environment)
{
    tool_run    run;
    est_json   *root;
    const char *text;
    bool        ok;
    int         n_rules;

    (void)est_collective_rules(&n_rules);
    setenv("ESTOC_NUM_THREADS", "-1", 1);
    run = TOOL(1, "doctor", "--json");
    clear_environment(NULL);
    root = tool_json(run.out);
    tool_check(est_json_bool(root, &ok, "ok"));
    assert_false(ok);
    tool_check(est_json_string(root, &text, "checks[0].name"));
    assert_string_equal(text, "version");
    tool_check(est_json_string(root, &text, "checks[0].found"));
    assert_string_equal(text, EST_VERSION_TEXT);
    tool_check(est_json_string(root, &text, "checks[4].state"));
    assert_string_equal(text, "bad");
    assert_non_null(est_json_get(root, "checks[%d].name", 16 + n_rules));
    assert_null(est_json_get(root, "checks[%d]", 17 + n_rules));
    est_json_free(root);
    tool_run_free(&run);
    run  = TOOL(0, "doctor", "--json");
    root = tool_json(run.out);
    tool_check(est_json_bool(root, &ok, "ok"));
    assert_true(ok);
    est_json_free(root);
    tool_run_free(&run);
}

TEST(wrong_usage)
{
    TOOL_OUT(2, "", "it takes no arguments, and 1 are given", "doctor", "x");
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
