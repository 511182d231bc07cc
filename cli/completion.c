/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc completion`: scripts that let a shell complete commands, options and their values. They are made from the
 * tables of options, so they cannot differ from what the tool takes. */
#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "base/strbuf.h"
#include "command.h"
#include "output.h"

static const char *const shells[] = { "bash", "zsh", NULL };

static const tool_option options[] = { TOOL_COMMON_OPTIONS };

static bool has_short_form(const tool_option *option)
{
    return option->id <= UCHAR_MAX;
}

/* Values that are paths are called so. A directory is also found by completing files. */
static bool takes_file(const tool_option *option)
{
    return option->value != NULL && (strcmp(option->value, "FILE") == 0 || strcmp(option->value, "DIR") == 0);
}

static void append_words(est_strbuf *out, const char *const *words)
{
    for (int i = 0; words[i] != NULL; i++) est_strbuf_printf(out, "%s%s", i > 0 ? " " : "", words[i]);
}

static void append_command_names(est_strbuf *out)
{
    for (int i = 0; tool_commands[i] != NULL; i++) est_strbuf_printf(out, "%s ", tool_commands[i]->name);
    est_strbuf_append(out, "help");
}

/* --- bash --------------------------------------------------------------------------------------------------------- */

/* A branch of the case over "<command> <option before the word>": what the value of the option may be. */
static void bash_value(est_strbuf *out, const tool_command *command, const tool_option *option)
{
    est_strbuf_printf(out, "    \"%s --%s\"", command->name, option->name);
    if (has_short_form(option)) est_strbuf_printf(out, " | \"%s -%c\"", command->name, option->id);
    if (takes_file(option)) {
        est_strbuf_append(out, ") return ;;\n"); /* leaves it to the default: files */
    } else if (tool_choices(option) != NULL) {
        est_strbuf_append(out, ") _estoc_words \"");
        append_words(out, tool_choices(option));
        est_strbuf_append(out, "\"; return ;;\n");
    } else {
        est_strbuf_append(out, ") _estoc_words \"\"; return ;;\n");
    }
}

/* A branch of the case over the command: its options, or its arguments. */
static void bash_command(est_strbuf *out, const tool_command *command)
{
    est_strbuf_printf(out, "    %s)\n        if [[ $word == -* ]]; then\n            _estoc_words \"", command->name);
    for (const tool_option *o = command->options; o->name != NULL; o++) {
        est_strbuf_printf(out, "%s--%s", o == command->options ? "" : " ", o->name);
    }
    est_strbuf_append(out, "\"\n");
    if (command->takes == TOOL_TAKES_DIRECTORIES) {
        est_strbuf_append(out, "        else\n"
                               "            compopt -o filenames 2>/dev/null\n"
                               "            mapfile -t COMPREPLY < <(compgen -d -- \"$word\")\n");
    } else if (command->takes != TOOL_TAKES_FILES) {
        est_strbuf_append(out, "        else\n            _estoc_words \"");
        if (command->takes == TOOL_TAKES_WORDS) append_words(out, command->words);
        est_strbuf_append(out, "\"\n");
    }
    est_strbuf_append(out, "        fi ;;\n");
}

static void bash_script(est_strbuf *out)
{
    est_strbuf_append(out, "# Completion of estoc for bash, made by `estoc completion bash`.\n"
                           "\n"
                           "# Offers those of the words that begin like the one being typed, and nothing else.\n"
                           "_estoc_words()\n"
                           "{\n"
                           "    compopt +o default 2>/dev/null\n"
                           "    mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$word\")\n"
                           "}\n"
                           "\n"
                           "_estoc()\n"
                           "{\n"
                           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                           "\n"
                           "    COMPREPLY=()\n"
                           "    if ((COMP_CWORD == 1)); then\n"
                           "        _estoc_words \"");
    append_command_names(out);
    est_strbuf_append(out, " --help --version\"\n"
                           "        return\n"
                           "    fi\n"
                           "    if [[ $word == = ]]; then\n"
                           "        word=\n"
                           "    elif [[ $before == = ]]; then\n"
                           "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
                           "    fi\n"
                           "    case \"${COMP_WORDS[1]} $before\" in\n");
    for (int i = 0; tool_commands[i] != NULL; i++) {
        for (const tool_option *o = tool_commands[i]->options; o->name != NULL; o++) {
            if (o->value != NULL) bash_value(out, tool_commands[i], o);
        }
    }
    est_strbuf_append(out, "    esac\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; tool_commands[i] != NULL; i++) bash_command(out, tool_commands[i]);
    est_strbuf_append(out, "    help) _estoc_words \"");
    append_command_names(out);
    est_strbuf_append(out, "\" ;;\n"
                           "    *) _estoc_words \"\" ;;\n"
                           "    esac\n"
                           "}\n"
                           "\n"
                           "complete -o default -F _estoc estoc\n");
}

/* --- zsh ---------------------------------------------------------------------------------------------------------- */

/* A text within single quotes and square brackets: other brackets for square ones, blanks for line breaks. */
static void zsh_text(est_strbuf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '\'': est_strbuf_append(out, "'\\''"); break;
        case '\n': est_strbuf_append(out, " "); break;
        case '[': est_strbuf_append(out, "("); break;
        case ']': est_strbuf_append(out, ")"); break;
        case '\\': est_strbuf_append(out, "\\\\"); break;
        default: est_strbuf_append_bytes(out, text, 1); break;
        }
    }
}

/* One argument of _arguments: '(-o --output)'{-o,--output}'[help]:FILE:_files' */
static void zsh_option(est_strbuf *out, const tool_option *option)
{
    est_strbuf_append(out, "            ");
    if (has_short_form(option)) {
        est_strbuf_printf(out, "'(-%c --%s)'{-%c,--%s}'[", option->id, option->name, option->id, option->name);
    } else {
        est_strbuf_printf(out, "'--%s[", option->name);
    }
    zsh_text(out, option->help);
    est_strbuf_append(out, "]");
    if (option->value != NULL) {
        est_strbuf_append(out, ":");
        for (const char *p = option->value; *p != '\0'; p++) est_strbuf_printf(out, *p == ':' ? "\\%c" : "%c", *p);
        est_strbuf_append(out, takes_file(option) ? ":_files" : tool_choices(option) != NULL ? ":(" : ": ");
        if (tool_choices(option) != NULL) {
            append_words(out, tool_choices(option));
            est_strbuf_append(out, ")");
        }
    }
    est_strbuf_append(out, "' \\\n");
}

static void zsh_command(est_strbuf *out, const tool_command *command)
{
    est_strbuf_printf(out, "    %s)\n        _arguments \\\n", command->name);
    for (const tool_option *o = command->options; o->name != NULL; o++) zsh_option(out, o);
    switch (command->takes) {
    case TOOL_TAKES_FILES: est_strbuf_append(out, "            '*:file:_files' ;;\n"); break;
    case TOOL_TAKES_DIRECTORIES: est_strbuf_append(out, "            '1:directory:_files -/' ;;\n"); break;
    case TOOL_TAKES_WORDS:
        est_strbuf_append(out, "            '1:word:(");
        append_words(out, command->words);
        est_strbuf_append(out, ")' ;;\n");
        break;
    case TOOL_TAKES_NOTHING: est_strbuf_append(out, "            && return 0 ;;\n"); break;
    }
}

static void zsh_script(est_strbuf *out)
{
    est_strbuf_append(out, "#compdef estoc\n"
                           "# Completion of estoc for zsh, made by `estoc completion zsh`.\n"
                           "\n"
                           "_estoc() {\n"
                           "    local -a commands\n"
                           "    commands=(\n");
    for (int i = 0; tool_commands[i] != NULL; i++) {
        est_strbuf_printf(out, "        '%s:", tool_commands[i]->name);
        zsh_text(out, tool_commands[i]->summary);
        est_strbuf_append(out, "'\n");
    }
    est_strbuf_append(out, "        'help:print the help of a command'\n"
                           "    )\n"
                           "    if ((CURRENT == 2)); then\n"
                           "        _describe command commands\n"
                           "        return\n"
                           "    fi\n"
                           "    shift words\n"
                           "    ((CURRENT--))\n"
                           "    case $words[1] in\n");
    for (int i = 0; tool_commands[i] != NULL; i++) zsh_command(out, tool_commands[i]);
    est_strbuf_append(out, "    help) _describe command commands ;;\n"
                           "    esac\n"
                           "}\n"
                           "\n"
                           "_estoc \"$@\"\n");
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static est_status print_script(int shell, bool json)
{
    est_strbuf script = { 0 }, object = { 0 };
    est_status status;

    if (shell == 0) {
        bash_script(&script);
    } else {
        zsh_script(&script);
    }
    if (json && !script.failed) {
        est_strbuf_printf(&object, "{\"shell\": \"%s\", \"script\": ", shells[shell]);
        est_strbuf_append_json(&object, script.data, script.size);
        est_strbuf_append(&object, "}\n");
    }
    status = est_strbuf_status(&script);
    if (status == EST_OK) status = tool_write(json ? &object : &script);
    est_strbuf_clear(&script);
    est_strbuf_clear(&object);
    return status;
}

static tool_exit completion_run(int argc, char **argv)
{
    bool       json;
    tool_exit  code = tool_read_common(&tool_completion, argc, argv, 1, "one shell, bash or zsh", &json);
    int        shell;
    est_status status;

    if (code != TOOL_OK) return code;
    shell = tool_choice(argv[optind], shells, 2);
    if (shell < 0) {
        return tool_usage(&tool_completion, "there is no completion for \"%s\", only for bash and zsh", argv[optind]);
    }
    status = print_script(shell, json);
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_completion, status);
}

const tool_command tool_completion = {
    .name      = "completion",
    .summary   = "print a script that completes estoc's commands and options in a shell",
    .arguments = "[options] bash|zsh",
    .description =
        "The script is for bash or zsh. An installed estoc has both where the shells look for them; this is for\n"
        "one that is not installed.\n",
    .options  = options,
    .examples = "  source <(estoc completion bash)\n"
                "  estoc completion zsh >~/.zfunc/_estoc         in a folder that fpath names\n",
    .takes    = TOOL_TAKES_WORDS,
    .words    = shells,
    .run      = completion_run,
};
