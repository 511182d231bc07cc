/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of the tool, and what they share: options, help, messages, exit codes.
 *
 * A command is one file that defines a tool_command, and one line in commands.def. It reads its options with
 * tool_next_option, writes results with output.h, reports everything else through tool_note and tool_failed, and
 * returns an exit code. Help texts are made from the table of options, so the two cannot differ.
 *
 * Threading: one thread at a time. */
#ifndef EST_CLI_COMMAND_H
#define EST_CLI_COMMAND_H

#include <stdbool.h>

#include "estoc/status.h"

typedef enum tool_exit {
    TOOL_HELPED  = -1, /* inside the tool: help has been printed, there is nothing more to do; becomes 0 */
    TOOL_OK      = 0,
    TOOL_FAILED  = 1, /* the input is damaged, or the operation failed */
    TOOL_USAGE   = 2, /* unknown command or option, missing or contradicting arguments */
    TOOL_NO_FILE = 3, /* a file named on the command line does not exist or cannot be read */

    TOOL_INTERRUPTED = 75 /* a signal ended a training in good order; started again, it resumes */
} tool_exit;

#define TOOL_EXIT_TEXT                                                                                                 \
    "Exit codes:\n"                                                                                                    \
    "  0  success; also when the reader of the output has closed it (| head)\n"                                        \
    "  1  the input is damaged, or the operation failed\n"                                                             \
    "  2  wrong usage\n"                                                                                               \
    "  3  a file named on the command line does not exist or cannot be read\n"                                         \
    "  75 interrupted; started again, it resumes\n"

typedef struct tool_option {
    const char *name;  /* long form, without the dashes */
    int         id;    /* what tool_next_option returns; a character is also the short form */
    const char *value; /* what it takes, as the help calls it; NULL: nothing */
    const char *help;  /* lines end in \n but for the last */

    const char *const *choices;             /* all that the value may be, ending in NULL; NULL: anything */
    const char *const *(*choices_of)(void); /* in place of `choices`, those of a table of the library */
} tool_option;

/* Ids that every command has, and those that are no characters. */
enum { TOOL_OPTION_END = -1, TOOL_OPTION_BAD = '?', TOOL_OPTION_HELP = 'h', TOOL_OPTION_JSON = 256, TOOL_OPTION_OWN };

/* The last lines of every table of options. */
#define TOOL_COMMON_OPTIONS                                                                                            \
    { "json", TOOL_OPTION_JSON, NULL, "write results as JSON" },                                                       \
        { "help", TOOL_OPTION_HELP, NULL, "print this text" },                                                         \
    {                                                                                                                  \
        NULL                                                                                                           \
    }

/* What the arguments of a command are, for completion. */
typedef enum tool_takes { TOOL_TAKES_NOTHING, TOOL_TAKES_FILES, TOOL_TAKES_DIRECTORIES, TOOL_TAKES_WORDS } tool_takes;

typedef struct tool_command {
    const char        *name;
    const char        *summary;     /* for the list of commands; begins with a verb, no full stop */
    const char        *arguments;   /* synopsis: what follows the name */
    const char        *description; /* paragraphs, each line ending in \n */
    const tool_option *options;     /* ends with a line without a name */
    const char        *examples;    /* each line ending in \n */
    tool_takes         takes;
    const char *const *words;                /* TOOL_TAKES_WORDS: those, ending in NULL */
    tool_exit (*run)(int argc, char **argv); /* argv[0] is the name */
} tool_command;

#define TOOL_COMMAND(name) extern const tool_command tool_##name;
#include "commands.def"
#undef TOOL_COMMAND

/* All of them in that order, ending in NULL. */
extern const tool_command *const tool_commands[];

/* The id of the next option, its value in *value. TOOL_OPTION_END when only arguments are left: they begin at
 * optind. TOOL_OPTION_BAD when the option is wrong, which has been reported then. */
int tool_next_option(const tool_command *command, int argc, char **argv, const char **value);

/* Reads options up to the arguments for a command that has none of its own: sets *json, and checks that there are
 * n_arguments, which `what` describes. TOOL_OK when the command may continue. */
tool_exit tool_read_common(const tool_command *command, int argc, char **argv, int n_arguments, const char *what,
                           bool *json);

/* What a command returns for the ids that it does not know itself, TOOL_OPTION_HELP and TOOL_OPTION_BAD. */
tool_exit tool_other_option(const tool_command *command, int id);

/* Reads the value of an option as a number that is not negative; false when it is none, which has been reported
 * then. */
bool tool_count(const tool_command *command, const char *option, const char *text, int64_t *out);

/* Prints the command's help. */
tool_exit tool_help(const tool_command *command);

/* Each writes one line to standard error, after what is on standard output so far. The first is for something worth
 * knowing; the second returns TOOL_USAGE; the third has the text of the last failure and returns the exit code that it
 * means. */
void      tool_note(const tool_command *command, const char *fmt, ...) EST_PRINTF(2, 3);
tool_exit tool_usage(const tool_command *command, const char *fmt, ...) EST_PRINTF(2, 3);
tool_exit tool_failed(const tool_command *command, est_status status);

/* TOOL_OK when `path` can be read (a directory: listed); otherwise says why not and returns TOOL_NO_FILE. */
tool_exit tool_check_input(const tool_command *command, const char *path);

/* The same, and that it is a regular file, a directory or a descriptor of ours (/dev/stdin): opening a named pipe
 * would wait for a writer, and a device may never end. TOOL_FAILED: it is none of these. */
tool_exit tool_check_file(const tool_command *command, const char *path);

/* Puts those of n names that look most like `word` first, n_first of them at most. */
void tool_nearest_first(const char *word, const char **names, size_t n, size_t n_first);

/* " (did you mean \"x\"?)" or "" for the answer of est_nearest; good until the next call. */
const char *tool_suggestion(const char *nearest);

/* The position of `word` among n names; -1 when it is none of them. */
int tool_choice(const char *word, const char *const *names, int n);

/* The names of all transports, ending in NULL: a tool_option.choices_of. */
const char *const *tool_transports(void);

/* The choices of an option; NULL: anything. */
const char *const *tool_choices(const tool_option *option);

/* The position of an option's value among its choices; -1 when it is none of them, which has been reported then. */
int tool_option_choice(const tool_command *command, int id, const char *value);

#endif
