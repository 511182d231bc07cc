/* SPDX-License-Identifier: Apache-2.0
 *
 * The estoc tool: `estoc <command> [options] [arguments]`. This file has the table of commands and reads the
 * arguments before a command. Results go to standard output, everything else to standard error. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/nearest.h"
#include "command.h"
#include "output.h"

const tool_command *const tool_commands[] = {
#define TOOL_COMMAND(name) &tool_##name,
#include "commands.def"
#undef TOOL_COMMAND
    NULL
};

#define N_COMMANDS (sizeof tool_commands / sizeof tool_commands[0] - 1)

/* A file opened while standard output is closed would take its number, and results would end up in it. What is written
 * to the stand-in is an error, as writing to a closed file is. */
static void fill_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd) return;
    }
}

static tool_exit print_help(FILE *to)
{
    fputs("estoc: train models from job files; inspect and convert the files of Estimator training.\n"
          "\n"
          "Usage: estoc <command> [options] [arguments]\n"
          "       estoc help <command>\n"
          "       estoc --help | --version\n"
          "\n"
          "Commands:\n",
          to);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(to, "  %-12s %s\n", tool_commands[i]->name, tool_commands[i]->summary);
    }
    fputs("\n"
          "Every command takes --json, which makes it write its results as JSON, and --help. Results go to standard\n"
          "output, messages to standard error.\n"
          "\n" TOOL_EXIT_TEXT,
          to);
    return to == stdout ? TOOL_OK : TOOL_USAGE;
}

/* NULL when there is no such command, which has been reported then. */
static const tool_command *find_command(const char *name)
{
    const char *names[N_COMMANDS + 1];

    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(tool_commands[i]->name, name) == 0) return tool_commands[i];
        names[i] = tool_commands[i]->name;
    }
    names[N_COMMANDS] = "help";
    tool_usage(NULL, "unknown command \"%s\"%s", name, tool_suggestion(est_nearest(name, names, N_COMMANDS + 1)));
    return NULL;
}

static tool_exit run_help(int argc, char **argv)
{
    const tool_command *command;

    if (argc < 2 || strcmp(argv[1], "--help") == 0) return print_help(stdout);
    if (argc > 2) return tool_usage(NULL, "help takes one command, not %d", argc - 1);
    command = find_command(argv[1]);
    return command != NULL ? tool_help(command) : TOOL_USAGE;
}

static tool_exit main_run(int argc, char **argv)
{
    const tool_command *command;
    const char         *first = argc > 1 ? argv[1] : "";

    if (argc < 2) return print_help(stderr);
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) return print_help(stdout);
    if (strcmp(first, "--version") == 0) return tool_version.run(argc - 1, argv + 1);
    if (first[0] == '-') {
        static const char *const names[] = { "--help", "--version" };

        return tool_usage(NULL, "unknown option \"%s\"%s", first, tool_suggestion(est_nearest(first, names, 2)));
    }
    if (strcmp(first, "help") == 0) return run_help(argc - 1, argv + 1);
    command = find_command(first);
    return command != NULL ? command->run(argc - 1, argv + 1) : TOOL_USAGE;
}

int main(int argc, char **argv)
{
    tool_exit  code;
    est_status status;

    fill_standard_files();
    est_descriptors_raise();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is noticed when writing, and temporary files are removed then */
    code = main_run(argc, argv);
    if (code == TOOL_HELPED) code = TOOL_OK;
    status = tool_flush();
    if (code == TOOL_OK && status != EST_OK) code = tool_failed(NULL, status);
    return (int)code;
}
