/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool itself: help, version, wrong usage, output that cannot be written; manual pages that know every option. */
#include "cli/tool.h"
#include "estoc/version.h"

#define TOOL_COMMAND(name) #name,
static const char *const commands[] = {
#include "../cli/commands.def"
};

#define N_COMMANDS (sizeof commands / sizeof commands[0])

TEST(version)
{
    TOOL_OUT(0, "estoc " EST_VERSION_TEXT "\n", "", "--version");
    TOOL_OUT(0, "{\"version\": \"" EST_VERSION_TEXT "\"}\n", "", "--version", "--json");
    TOOL_OUT(0, "estoc " EST_VERSION_TEXT "\n", "", "version");
    TOOL_OUT(0, "{\"version\": \"" EST_VERSION_TEXT "\"}\n", "", "version", "--json");
    TOOL_OUT(2, "", "it takes no arguments, and 1 are given", "version", "x");
}

TEST(help)
{
    tool_run all = TOOL(0, "--help"), same;

    same = TOOL(0, "help");
    tool_expect_text(same.out, all.out, "help");
    tool_run_free(&same);
    tool_expect_part(all.out, "Usage: estoc <command>", "help");
    tool_expect_part(all.out, "Exit codes:\n  0  ", "help");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        tool_run one = TOOL(0, commands[i], "--help");

        same = TOOL(0, "help", commands[i]);
        tool_expect_text(same.out, one.out, "help");
        tool_run_free(&same);
        tool_expect_part(all.out, commands[i], "help");
        tool_expect_part(one.out, "Usage: estoc ", "help");
        tool_expect_part(one.out, "Examples:\n", "help");
        tool_expect_part(one.out, "Exit codes:\n", "help");
        tool_expect_text(one.err, "", "standard error");
        tool_run_free(&one);
    }
    tool_run_free(&all);
}

TEST(wrong_usage)
{
    tool_run nothing = tool_start((const char *const[]){ "estoc", NULL }, -1);

    assert_int_equal(nothing.code, 2);
    assert_int_equal(nothing.out_size, 0);
    tool_expect_part(nothing.err, "Usage: estoc", "standard error");
    tool_run_free(&nothing);
    TOOL_OUT(2, "", "estoc: unknown command \"inspekt\" (did you mean \"inspect\"?)\n", "inspekt");
    TOOL_OUT(2, "", "estoc: unknown command \"zebra\"\nTry \"estoc --help\".\n", "zebra");
    TOOL_OUT(2, "", "estoc: unknown command \"\\x1b[31m\xc3\xa4\"\n",
             "\033[31m\xc3\xa4"); /* no escape reaches the terminal */
    TOOL_OUT(2, "", "unknown command \"covnert\" (did you mean \"convert\"?)", "help", "covnert");
    TOOL_OUT(2, "", "unknown option \"--versoin\" (did you mean \"--version\"?)", "--versoin");
    TOOL_OUT(2, "",
             "estoc inspect: unknown option \"--lmit\" (did you mean \"--limit\"?)\nTry \"estoc inspect --help\".\n",
             "inspect", "--lmit", "3", "x");
    TOOL_OUT(2, "", "unknown option \"--zzz\"\n", "inspect", "--zzz");
    TOOL_OUT(2, "", "unknown option \"-z\"\n", "inspect", "-z");
    TOOL_OUT(2, "", "--json takes no value", "inspect", "--json=yes", "x");
    TOOL_OUT(2, "", "--limit needs a value: N", "inspect", "x", "--limit");
    TOOL_OUT(2, "", "--limit takes a number from 0 up, not \"-1\"", "inspect", "x", "--limit", "-1");
    TOOL_OUT(2, "", "not \"12x\"", "inspect", "x", "--limit", "12x");
}

/* A device that is full, and a standard output that is not open. */
TEST(output_that_fails)
{
    int      full = open("/dev/full", O_WRONLY | O_CLOEXEC), readable = open("/dev/null", O_RDONLY | O_CLOEXEC);
    tool_run run;

    assert_true(full >= 0 && readable >= 0);
    run = tool_start(TOOL_ARGV("--help"), full);
    assert_int_equal(run.code, 1);
    tool_expect_text(run.err, "estoc: cannot write to standard output: No space left on device\n", "standard error");
    tool_run_free(&run);
    run = tool_start(TOOL_ARGV("--version"), readable);
    assert_int_equal(run.code, 1);
    tool_expect_part(run.err, "cannot write to standard output", "standard error");
    tool_run_free(&run);
    close(full);
    close(readable);
}

/* Appends "-o,--output " for an option. */
static void add_option(est_strbuf *options, char short_form, const char *name, size_t size)
{
    if (short_form != '\0') est_strbuf_printf(options, "-%c,", short_form);
    est_strbuf_printf(options, "--%.*s ", (int)size, name);
}

/* The options that a command's help lists, in their order. */
static void options_of_help(const char *help, est_strbuf *out)
{
    for (const char *at = strstr(help, "\nOptions:\n") + 10; at[0] == ' '; at = strchr(at, '\n') + 1) {
        if (strncmp(at + 6, "--", 2) != 0) continue; /* a further line of one */
        add_option(out, at[2] == '-' ? at[3] : '\0', at + 8, strcspn(at + 8, " "));
    }
}

/* Those that a manual page describes: the lines after .TP, in which "-" is written "\-". */
static void options_of_page(const char *page, est_strbuf *out)
{
    const char *section = strstr(page, "\n.SH OPTIONS\n") + 1, *end = strstr(section, "\n.SH ");

    for (const char *at = section; (at = strstr(at, "\n.TP\n")) != NULL && at < end;) {
        char        line[128] = "", short_form = '\0';
        size_t      n = 0;
        const char *name;

        for (at += 5; *at != '\n' && n + 1 < sizeof line; at++) {
            if (*at != '\\') line[n++] = *at;
        }
        name = strstr(line, "--");
        if (name == NULL) fail_msg("this line names no option: %s", line);
        if (strncmp(line, ".BR -", 5) == 0) short_form = line[5];
        add_option(out, short_form, name + 2, strcspn(name + 2, " "));
    }
}

/* The page describes exactly the options of the table, in the same order, and every exit code. */
static void check_page(const char *command, const char *help)
{
    est_strbuf in_help = { 0 }, in_page = { 0 };
    char       path[256], word[64];
    char      *page;

    snprintf(path, sizeof path, EST_SOURCE_DIR "/docs/man/estoc-%s.1", command);
    page = tool_read_file(path, NULL);
    options_of_help(help, &in_help);
    options_of_page(page, &in_page);
    tool_expect_part(est_strbuf_text(&in_help), "--json -h,--help ", "the help");
    tool_expect_text(est_strbuf_text(&in_page), est_strbuf_text(&in_help), path);
    for (const char *code = "0123"; *code != '\0'; code++) {
        snprintf(word, sizeof word, ".TP\n.B %c\n", *code);
        if (strstr(page, word) == NULL) fail_msg("%s does not name the exit code %c", path, *code);
    }
    est_strbuf_clear(&in_help);
    est_strbuf_clear(&in_page);
    est_free(page);
}

TEST(manual_pages)
{
    char *page = tool_read_file(EST_SOURCE_DIR "/docs/man/estoc.1", NULL);

    for (size_t i = 0; i < N_COMMANDS; i++) {
        tool_run help = TOOL(0, "help", commands[i]);

        check_page(commands[i], help.out);
        tool_expect_part(page, commands[i], "docs/man/estoc.1");
        tool_run_free(&help);
    }
    est_free(page);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
