/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands share: options over getopt_long, messages, suggestions. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/strbuf.h"
#include "net/transport.h"

#define OPTIONS_MAX 40
#define TEXT_MAX    8192 /* of a message; longer ones are cut */

/* --- messages ----------------------------------------------------------------------------------------------------- */

static void say(const tool_command *command, const char *fmt, va_list args)
{
    est_strbuf shown = { 0 };
    char       text[TEXT_MAX];

    fflush(stdout);
    vsnprintf(text, sizeof text, fmt, args);
    est_strbuf_append_printable(&shown, text, strlen(text),
                                "\n\t"); /* arguments and names of files may hold anything */
    fprintf(stderr, "estoc%s%s: %s\n", command != NULL ? " " : "", command != NULL ? command->name : "",
            est_strbuf_text(&shown));
    est_strbuf_clear(&shown);
}

void tool_note(const tool_command *command, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
}

tool_exit tool_usage(const tool_command *command, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
    fprintf(stderr, "Try \"estoc %s%s--help\".\n", command != NULL ? command->name : "", command != NULL ? " " : "");
    return TOOL_USAGE;
}

tool_exit tool_failed(const tool_command *command, est_status status)
{
    if (status == EST_CANCELLED) return TOOL_OK; /* the reader has closed our output */
    tool_note(command, "%s", est_error_message());
    return TOOL_FAILED;
}

/* Not by opening it: to open and close a pipe would end its writer. */
tool_exit tool_check_input(const tool_command *command, const char *path)
{
    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0) return TOOL_OK;
    tool_note(command, "cannot read %s: %s", path, strerror(errno));
    return TOOL_NO_FILE;
}

/* A path that stands for a descriptor that our parent has opened. */
static bool is_descriptor(const char *path)
{
    static const char *const prefixes[] = { "/dev/stdin", "/dev/fd/", "/proc/self/fd/" };

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return false;
}

tool_exit tool_check_file(const tool_command *command, const char *path)
{
    tool_exit   code = tool_check_input(command, path);
    struct stat info;

    if (code != TOOL_OK || is_descriptor(path) || stat(path, &info) != 0) return code;
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return TOOL_OK;
    tool_note(command, "%s is %s; expected a file or a directory (a pipe is read as /dev/stdin)", path,
              S_ISFIFO(info.st_mode)   ? "a named pipe"
              : S_ISSOCK(info.st_mode) ? "a socket"
                                       : "a device");
    return TOOL_FAILED;
}

/* --- suggestions -------------------------------------------------------------------------------------------------- */

void tool_nearest_first(const char *word, const char **names, size_t n, size_t n_first)
{
    for (size_t i = 0; i < n && i < n_first; i++) {
        size_t      best = i, best_distance = SIZE_MAX;
        const char *name;

        for (size_t j = i; j < n; j++) {
            size_t d = est_edit_distance(word, names[j]);

            if (d >= best_distance) continue;
            best          = j;
            best_distance = d;
        }
        name = names[best];
        memmove(&names[i + 1], &names[i], (best - i) * sizeof *names); /* the others keep their order */
        names[i] = name;
    }
}

const char *tool_suggestion(const char *nearest)
{
    static char text[EST_WORD_MAX + 32];

    text[0] = '\0';
    if (nearest != NULL) snprintf(text, sizeof text, " (did you mean \"%s\"?)", nearest);
    return text;
}

int tool_choice(const char *word, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(word, names[i]) == 0) return i;
    }
    return -1;
}

/* --- options ------------------------------------------------------------------------------------------------------ */

/* The tables that getopt_long wants. */
static void make_tables(const tool_option *options, struct option *longs, char *shorts)
{
    *shorts++ = ':'; /* tell a missing value from an unknown option */
    for (int n = 0; options->name != NULL && n < OPTIONS_MAX; options++, n++) {
        int takes = options->value != NULL ? required_argument : no_argument;

        *longs++ = (struct option){ options->name, takes, NULL, options->id };
        if (options->id > UCHAR_MAX) continue;
        *shorts++ = (char)options->id;
        if (options->value != NULL) *shorts++ = ':';
    }
    *longs  = (struct option){ NULL };
    *shorts = '\0';
}

static const tool_option *find_option(const tool_command *command, int id)
{
    for (const tool_option *o = command->options; o->name != NULL; o++) {
        if (o->id == id) return o;
    }
    return NULL;
}

static void say_bad_option(const tool_command *command, const char *word)
{
    const tool_option *option = optopt != 0 ? find_option(command, optopt) : NULL;
    const char        *names[OPTIONS_MAX], *nearest;
    char               typed[EST_WORD_MAX];
    size_t             n = 0;

    if (option != NULL) {
        tool_usage(command, "--%s takes no value", option->name);
        return;
    }
    if (optopt != 0) {
        tool_usage(command, "unknown option \"-%c\"", optopt);
        return;
    }
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (const tool_option *o = command->options; o->name != NULL && n < OPTIONS_MAX; o++) names[n++] = o->name;
    nearest = est_nearest(typed, names, n);
    if (nearest != NULL) snprintf(typed, sizeof typed, "--%s", nearest);
    tool_usage(command, "unknown option \"%.*s\"%s", (int)strcspn(word, "="), word,
               tool_suggestion(nearest != NULL ? typed : NULL));
}

int tool_next_option(const tool_command *command, int argc, char **argv, const char **value)
{
    struct option longs[OPTIONS_MAX + 1];
    char          shorts[2 * OPTIONS_MAX + 2];
    int           id;

    make_tables(command->options, longs, shorts);
    opterr = 0;
    id     = getopt_long(argc, argv, shorts, longs, NULL);
    *value = optarg;
    if (id == ':') {
        const tool_option *option = find_option(command, optopt);

        tool_usage(command, "--%s needs a value: %s", option->name, option->value);
        return TOOL_OPTION_BAD;
    }
    if (id == '?') say_bad_option(command, argv[optind - 1]);
    return id;
}

tool_exit tool_other_option(const tool_command *command, int id)
{
    if (id != TOOL_OPTION_HELP) return TOOL_USAGE;
    tool_help(command);
    return TOOL_HELPED;
}

bool tool_count(const tool_command *command, const char *option, const char *text, int64_t *out)
{
    char     *end;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < 0) {
        tool_usage(command, "--%s takes a number from 0 up, not \"%s\"", option, text);
        return false;
    }
    *out = value;
    return true;
}

const char *const *tool_transports(void)
{
    static const char *names[8];

    for (size_t i = 0; est_transports[i] != NULL && i + 1 < sizeof names / sizeof names[0]; i++) {
        names[i] = est_transports[i]->name;
    }
    return names;
}

const char *const *tool_choices(const tool_option *option)
{
    return option->choices_of != NULL ? option->choices_of() : option->choices;
}

int tool_option_choice(const tool_command *command, int id, const char *value)
{
    const tool_option *option  = find_option(command, id);
    const char *const *choices = tool_choices(option);
    char               list[256];
    size_t             size = 0;
    int                n    = 0, found;

    while (choices[n] != NULL) n++;
    found = tool_choice(value, choices, n);
    if (found >= 0) return found;
    for (int i = 0; i < n && size < sizeof list; i++) {
        size += (size_t)snprintf(list + size, sizeof list - size, "%s%s",
                                 i == 0      ? ""
                                 : i < n - 1 ? ", "
                                             : " or ",
                                 choices[i]);
    }
    tool_usage(command, "--%s takes %s, not \"%s\"%s", option->name, list, value,
               tool_suggestion(est_nearest(value, choices, (size_t)n)));
    return -1;
}

tool_exit tool_read_common(const tool_command *command, int argc, char **argv, int n_arguments, const char *what,
                           bool *json)
{
    const char *value;
    int         id;

    *json = false;
    while ((id = tool_next_option(command, argc, argv, &value)) != TOOL_OPTION_END) {
        if (id != TOOL_OPTION_JSON) return tool_other_option(command, id);
        *json = true;
    }
    if (argc - optind == n_arguments) return TOOL_OK;
    return tool_usage(command, "it takes %s, and %d are given", what, argc - optind);
}

/* --- help --------------------------------------------------------------------------------------------------------- */

static void print_option(const tool_option *option)
{
    char        left[64];
    const char *line = option->help;

    snprintf(left, sizeof left, "%s%c%s --%s%s%s", option->id <= UCHAR_MAX ? "-" : " ",
             option->id <= UCHAR_MAX ? option->id : ' ', option->id <= UCHAR_MAX ? "," : " ", option->name,
             option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
    printf("  %-26s", left);
    while (*line != '\0') {
        int size = (int)strcspn(line, "\n");

        printf("%s%.*s\n", line == option->help ? " " : "                             ", size, line);
        line += size + (line[size] == '\n');
    }
}

tool_exit tool_help(const tool_command *command)
{
    printf("estoc %s: %s.\n\nUsage: estoc %s %s\n\n%s\nOptions:\n", command->name, command->summary, command->name,
           command->arguments, command->description);
    for (const tool_option *o = command->options; o->name != NULL; o++) print_option(o);
    printf("\nExamples:\n%s\n%s", command->examples, TOOL_EXIT_TEXT);
    return TOOL_OK;
}
