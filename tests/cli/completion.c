/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc completion`: the script for bash is run by bash as it would be while someone types; that for zsh is compared
 * with the help, and read by zsh where there is one. */
#include "cli/tool.h"

/* Has bash complete a line: `words` are the words of an array, the last one is being typed. */
static void expect_completions(const char *words, const char *want)
{
    char   command[1024], got[4096];
    FILE  *pipe;
    size_t n;

    snprintf(command, sizeof command,
             "cd %s && bash --norc -c 'source <(%s completion bash)\n"
             "COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _estoc; echo \"${COMPREPLY[*]}\"'",
             est_test_root, EST_TOOL, words);
    pipe = popen(command, "re");
    assert_non_null(pipe);
    n      = fread(got, 1, sizeof got - 1, pipe);
    got[n] = '\0';
    assert_int_equal(pclose(pipe), 0);
    if (n > 0) got[n - 1] = '\0'; /* the line break */
    tool_expect_text(got, want, words);
}

TEST(bash)
{
    assert_int_equal(mkdir(tool_path("runs"), 0700), 0);
    tool_write_text("rows.csv", "a\n");
    expect_completions("estoc in", "inspect");
    expect_completions("estoc co", "convert completion");
    expect_completions("estoc --v", "--version");
    expect_completions("estoc help d", "doctor");
    expect_completions("estoc inspect --v", "--value --verify");
    expect_completions("estoc inspect x --as check", "checkpoint");
    expect_completions("estoc inspect x --as \"\"", "tfrecord checkpoint events graph metagraph savedmodel");
    expect_completions("estoc convert --compression = g", "gzip");
    expect_completions("estoc convert --from = ", "csv libsvm");
    expect_completions("estoc convert --shards \"\"", "");
    expect_completions("estoc convert -o r", ""); /* the shell's own: files */
    expect_completions("estoc convert r", "");
    expect_completions("estoc tail r", "runs");
    expect_completions("estoc completion \"\"", "bash zsh");
    expect_completions("estoc doctor \"\"", "");
    expect_completions("estoc doctor --", "--json --help");
    expect_completions("estoc launch --transport t", "tls tcp");
    expect_completions("estoc launch --log-dir r", ""); /* the shell's own */
    expect_completions("estoc status --transport t", "tls tcp");
    expect_completions("estoc status --certs r", ""); /* the shell's own */
    expect_completions("estoc certificates r", "runs");
    expect_completions("estoc nonsense --", "");
}

/* Every option that a command's help lists is in the script for zsh with its help. */
TEST(zsh)
{
    tool_run all = TOOL(0, "help"), script = TOOL(0, "completion", "zsh");

    tool_expect_part(script.out, "#compdef estoc\n", "the script");
    for (const char *line = strstr(all.out, "Commands:\n") + 10; line[0] == ' '; line = strchr(line, '\n') + 1) {
        char     name[32], word[64];
        tool_run help;

        snprintf(name, sizeof name, "%.*s", (int)strcspn(line + 2, " "), line + 2);
        snprintf(word, sizeof word, "\n    %s)\n        _arguments \\\n", name);
        tool_expect_part(script.out, word, "the script");
        help = TOOL(0, "help", name);
        for (const char *at = strstr(help.out, "\nOptions:\n") + 9; at[1] == ' '; at = strchr(at + 1, '\n')) {
            const char *option = strstr(at, "--");

            if (option == NULL || option > at + 8) continue; /* a further line of help */
            snprintf(word, sizeof word, "%.*s", (int)strcspn(option, " "), option);
            tool_expect_part(script.out, word, "the script");
        }
        tool_run_free(&help);
    }
    tool_expect_part(script.out, "'(-o --output)'{-o,--output}'[the TFRecord file to write; required]:FILE:_files'",
                     "the script");
    tool_expect_part(script.out, "]:FORMAT:(csv libsvm)'", "the script");
    tool_expect_part(script.out, "]:C\\:T,...: '", "the script");
    tool_write_text("_estoc", script.out);
    tool_run_free(&script);
    tool_run_free(&all);
    if (system("command -v zsh >/dev/null") == 0) {
        char command[256];

        snprintf(command, sizeof command, "zsh -n %s", tool_path("_estoc"));
        assert_int_equal(system(command), 0);
    }
}

TEST(as_json)
{
    tool_run    plain = TOOL(0, "completion", "bash"), run = TOOL(0, "completion", "bash", "--json");
    est_json   *root = tool_json(run.out);
    const char *text;

    tool_check(est_json_string(root, &text, "script"));
    tool_expect_text(text, plain.out, "script");
    est_json_free(root);
    tool_run_free(&run);
    tool_run_free(&plain);
}

TEST(wrong_usage)
{
    TOOL_OUT(2, "", "it takes one shell, bash or zsh, and 0 are given", "completion");
    TOOL_OUT(2, "", "there is no completion for \"fish\"", "completion", "fish");
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
