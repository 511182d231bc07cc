/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect`: detects the format of a file and prints its contents. The formats are in inspect_<format>.c. */
#include "inspect.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "command.h"
#include "format/event.h"
#include "predict/saved_model.h"

static const char *const kind_names[INSPECT_KINDS + 1] = { "tfrecord",  "checkpoint", "events", "graph",
                                                           "metagraph", "savedmodel", NULL };
static const char *const kind_texts[INSPECT_KINDS]     = { "a TFRecord file", "a checkpoint",   "an event file",
                                                           "a GraphDef",      "a MetaGraphDef", "a SavedModel" };

enum {
    OPTION_AS = TOOL_OPTION_OWN,
    OPTION_LIMIT,
    OPTION_SKIP,
    OPTION_COUNT,
    OPTION_FEATURE,
    OPTION_STATS,
    OPTION_VALUE,
    OPTION_VERIFY,
    OPTION_TAG,
    OPTION_OPS,
    OPTION_TEXT,
    OPTIONS_END
};

/* clang-format off */
static const tool_option options[] = {
    { "as",      OPTION_AS,      "FORMAT",  "do not guess: tfrecord, checkpoint, events, graph, metagraph\n"
                                            "or savedmodel", kind_names },
    { "limit",   OPTION_LIMIT,   "N",       "tfrecord, events: print at most N; with --value: N elements" },
    { "skip",    OPTION_SKIP,    "N",       "tfrecord: leave out the first N records" },
    { "count",   OPTION_COUNT,   NULL,      "tfrecord: print only how many records there are" },
    { "feature", OPTION_FEATURE, "A,B,...", "tfrecord: print only these features" },
    { "stats",   OPTION_STATS,   NULL,      "checkpoint: read the data; add min, max, mean, std of the\n"
                                            "finite values, and count zeros and non-finite ones" },
    { "value",   OPTION_VALUE,   "NAME",    "checkpoint: print the elements of one tensor" },
    { "verify",  OPTION_VERIFY,  NULL,      "checkpoint: read all data and check it against its checksums" },
    { "tag",     OPTION_TAG,     "PATTERN", "events: only summaries with such a tag (* and ? as in a shell)" },
    { "ops",     OPTION_OPS,     NULL,      "graphs: count the nodes of each op instead of listing them" },
    { "text",    OPTION_TEXT,    NULL,      "graphs: print the whole message in protobuf's text format" },
    TOOL_COMMON_OPTIONS
};

#define KIND(name) (1u << INSPECT_##name)
#define GRAPHS     (KIND(GRAPH) | KIND(METAGRAPH) | KIND(SAVEDMODEL))

/* The formats that an option is for. */
static const unsigned option_kinds[OPTIONS_END - TOOL_OPTION_OWN] = {
    [OPTION_AS      - TOOL_OPTION_OWN] = ~0u,
    [OPTION_LIMIT   - TOOL_OPTION_OWN] = KIND(TFRECORD) | KIND(EVENTS) | KIND(CHECKPOINT),
    [OPTION_SKIP    - TOOL_OPTION_OWN] = KIND(TFRECORD),
    [OPTION_COUNT   - TOOL_OPTION_OWN] = KIND(TFRECORD),
    [OPTION_FEATURE - TOOL_OPTION_OWN] = KIND(TFRECORD),
    [OPTION_STATS   - TOOL_OPTION_OWN] = KIND(CHECKPOINT),
    [OPTION_VALUE   - TOOL_OPTION_OWN] = KIND(CHECKPOINT),
    [OPTION_VERIFY  - TOOL_OPTION_OWN] = KIND(CHECKPOINT),
    [OPTION_TAG     - TOOL_OPTION_OWN] = KIND(EVENTS),
    [OPTION_OPS     - TOOL_OPTION_OWN] = GRAPHS,
    [OPTION_TEXT    - TOOL_OPTION_OWN] = GRAPHS,
};
/* clang-format on */

/* The first of the options given (a bit each) that is not for this format; NULL: all are. */
static const tool_option *misfit(unsigned given, int kind)
{
    for (const tool_option *option = options; option->name != NULL; option++) {
        int bit = option->id - TOOL_OPTION_OWN;

        if (bit >= 0 && (given >> bit & 1) != 0 && (option_kinds[bit] >> kind & 1) == 0) return option;
    }
    return NULL;
}

/* --- directories -------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

bool inspect_is_event_name(const char *name)
{
    return strstr(name, "tfevents") != NULL;
}

bool inspect_is_index_name(const char *name)
{
    return ends_with(name, ".index") && strlen(name) > strlen(".index");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a copy of `name` to a list of n that has room for it and for the NULL at its end. */
static est_status add_name(char ***names, size_t *n, const char *name)
{
    char **more = est_realloc(*names, (*n + 2) * sizeof *more);

    if (more != NULL) {
        *names       = more;
        more[*n + 1] = NULL;
        more[*n]     = est_strdup(name);
        if (more[*n] != NULL) {
            ++*n;
            return EST_OK;
        }
    }
    return est_no_memory();
}

/* Opening one would wait for another process. Not all file systems tell by d_type, and a link is what it leads to. */
static bool is_pipe(DIR *handle, const char *name)
{
    struct stat info;

    return fstatat(dirfd(handle), name, &info, 0) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

est_status inspect_names(const char *dir, bool (*wanted)(const char *name), char ***out)
{
    char         **names  = est_zalloc(sizeof *names);
    DIR           *handle = opendir(dir);
    struct dirent *item;
    size_t         n      = 0;
    est_status     status = EST_OK;

    if (handle == NULL) {
        status = est_fail(est_status_from_errno(errno), "cannot list %s: %s", dir, strerror(errno));
    } else if (names == NULL) {
        status = est_no_memory();
    }
    while (status == EST_OK && (item = readdir(handle)) != NULL) {
        if (wanted(item->d_name) && !is_pipe(handle, item->d_name)) status = add_name(&names, &n, item->d_name);
    }
    if (handle != NULL) closedir(handle);
    if (status != EST_OK) {
        inspect_names_free(names);
        return status;
    }
    qsort(names, n, sizeof *names, by_text);
    *out = names;
    return EST_OK;
}

void inspect_names_free(char **names)
{
    for (char **name = names; name != NULL && *name != NULL; name++) est_free(*name);
    est_free(names);
}

static bool has_name(const char *dir, bool (*wanted)(const char *name))
{
    char **names;
    bool   found;

    if (inspect_names(dir, wanted, &names) != EST_OK) return false;
    found = names[0] != NULL;
    inspect_names_free(names);
    return found;
}

/* --- what is it? -------------------------------------------------------------------------------------------------- */

static bool is_saved_model_name(const char *name)
{
    return strcmp(name, "saved_model.pb") == 0;
}

static bool is_checkpoint_name(const char *name)
{
    return strcmp(name, "checkpoint") == 0 || inspect_is_index_name(name);
}

/* What is in a directory: of several the first that the options given are for. */
static int kind_of_directory(const char *path, unsigned given)
{
    static const struct {
        inspect_kind kind;
        bool (*wanted)(const char *name);
    } parts[] = { { INSPECT_SAVEDMODEL, is_saved_model_name },
                  { INSPECT_CHECKPOINT, is_checkpoint_name },
                  { INSPECT_EVENTS, inspect_is_event_name } };
    int first = -1;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!has_name(path, parts[i].wanted)) continue;
        if (misfit(given, parts[i].kind) == NULL) return parts[i].kind;
        if (first < 0) first = parts[i].kind;
    }
    return first;
}

/* A directory that an exporter writes has a SavedModel in each <seconds since 1970>; the path of the newest, if any. */
static bool find_newest_export(const char *dir, est_strbuf *path)
{
    char *found;

    if (est_saved_model_find_dir(dir, &found) != EST_OK) return false;
    est_strbuf_append(path, found);
    est_free(found);
    return est_strbuf_status(path) == EST_OK;
}

static int kind_of_name(const char *name)
{
    const char *data = strstr(name, ".data-");

    if (is_saved_model_name(name)) return INSPECT_SAVEDMODEL;
    if (is_checkpoint_name(name) || (data != NULL && strstr(data, "-of-") != NULL)) return INSPECT_CHECKPOINT;
    if (inspect_is_event_name(name)) return INSPECT_EVENTS;
    if (ends_with(name, ".meta")) return INSPECT_METAGRAPH;
    if (ends_with(name, ".pb")) return INSPECT_GRAPH;
    if (strstr(name, ".tfrecord") != NULL) return INSPECT_TFRECORD;
    return -1;
}

/* A file whose first record is whole is a TFRecord file; one whose first record says so is an event file. */
static int kind_of_contents(const char *path)
{
    est_tfrecord_reader *reader;
    est_event            event;
    est_str              record;
    int                  kind = -1;

    if (est_tfrecord_open(path, NULL, &reader) != EST_OK) return -1;
    switch (est_tfrecord_next(reader, &record)) {
    case EST_OUT_OF_RANGE: kind = INSPECT_TFRECORD; break; /* no records */
    case EST_OK:
        kind = INSPECT_TFRECORD;
        if (est_event_parse(record, &event) == EST_OK && event.kind == EST_EVENT_FILE_VERSION) kind = INSPECT_EVENTS;
        break;
    default: break;
    }
    est_tfrecord_close(reader);
    return kind;
}

static bool is_checkpoint_prefix(const char *path)
{
    est_strbuf index = { 0 };
    bool       is;

    est_strbuf_printf(&index, "%s.index", path);
    is = !index.failed && est_file_exists(est_strbuf_text(&index));
    est_strbuf_clear(&index);
    return is;
}

/* Sets *kind, or reports why it is unknown. Of a directory of exports the newest counts: its path goes into `newest`
 * and o->path. */
static tool_exit find_kind(inspect_options *o, unsigned given, est_strbuf *newest, int *kind)
{
    const char *path = o->path, *slash = strrchr(path, '/');
    struct stat info;
    tool_exit   code;

    *kind = INSPECT_CHECKPOINT;
    if (stat(path, &info) != 0 && is_checkpoint_prefix(path)) return TOOL_OK;
    code = tool_check_file(&tool_inspect, path);
    if (code != TOOL_OK) return code;
    if (S_ISDIR(info.st_mode)) {
        *kind = kind_of_directory(path, given);
        if (*kind >= 0) return TOOL_OK;
        if (find_newest_export(path, newest)) {
            *kind   = INSPECT_SAVEDMODEL;
            o->path = est_strbuf_text(newest);
            tool_note(&tool_inspect, "note: this is the newest export, %s", o->path);
            return TOOL_OK;
        }
        tool_note(&tool_inspect, "%s: no SavedModel, checkpoint or event file is in this directory", path);
        return TOOL_FAILED;
    }
    *kind = kind_of_name(slash != NULL ? slash + 1 : path);
    if (*kind < 0 && S_ISREG(info.st_mode)) *kind = kind_of_contents(path); /* a pipe can be read only once */
    if (*kind >= 0) return TOOL_OK;
    if (strlen(path) > 6 && strcmp(path + strlen(path) - 6, ".pbtxt") == 0) {
        tool_note(&tool_inspect,
                  "%s is a graph as text, which any editor shows; a checkpoint's .meta holds it in bytes", path);
        return TOOL_FAILED;
    }
    tool_note(&tool_inspect, "cannot tell what %s is: neither its name nor its first bytes say; use --as", path);
    return TOOL_FAILED;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* Sets *given to the ids seen (a bit each) and *as to the kind asked for. */
static tool_exit read_options(int argc, char **argv, inspect_options *o, unsigned *given, int *as)
{
    const char *value;
    int         id;

    while ((id = tool_next_option(&tool_inspect, argc, argv, &value)) != TOOL_OPTION_END) {
        if (id >= TOOL_OPTION_OWN) *given |= 1u << (id - TOOL_OPTION_OWN);
        switch (id) {
        case OPTION_AS:
            *as = tool_option_choice(&tool_inspect, id, value);
            if (*as < 0) return TOOL_USAGE;
            break;
        case OPTION_LIMIT:
            if (!tool_count(&tool_inspect, "limit", value, &o->limit)) return TOOL_USAGE;
            break;
        case OPTION_SKIP:
            if (!tool_count(&tool_inspect, "skip", value, &o->skip)) return TOOL_USAGE;
            break;
        case OPTION_COUNT: o->count = true; break;
        case OPTION_FEATURE: o->feature = value; break;
        case OPTION_STATS: o->stats = true; break;
        case OPTION_VALUE: o->value = value; break;
        case OPTION_VERIFY: o->verify = true; break;
        case OPTION_TAG: o->tag = value; break;
        case OPTION_OPS: o->ops = true; break;
        case OPTION_TEXT: o->text = true; break;
        case TOOL_OPTION_JSON: o->json = true; break;
        default: return tool_other_option(&tool_inspect, id);
        }
    }
    if (optind == argc) return tool_usage(&tool_inspect, "a path is missing");
    if (optind + 1 < argc) return tool_usage(&tool_inspect, "one path at a time, not %d", argc - optind);
    o->path = argv[optind];
    return TOOL_OK;
}

/* Options that do not fit the format, or one another. */
static tool_exit check_options(const inspect_options *o, unsigned given, int kind)
{
    const tool_option *wrong = misfit(given, kind);

    if (wrong != NULL && kind == INSPECT_SAVEDMODEL && misfit(given, INSPECT_CHECKPOINT) == NULL) {
        return tool_usage(&tool_inspect, "--%s is for checkpoints; that of a SavedModel is DIR/variables/variables",
                          wrong->name);
    }
    if (wrong != NULL) {
        return tool_usage(&tool_inspect, "--%s is not for %s, which %s is", wrong->name, kind_texts[kind], o->path);
    }
    if (kind == INSPECT_CHECKPOINT && o->limit != INT64_MAX && o->value == NULL) {
        return tool_usage(&tool_inspect, "--limit of a checkpoint needs --value");
    }
    if (o->value != NULL && (o->stats || o->verify)) {
        return tool_usage(&tool_inspect, "--value excludes --stats and --verify");
    }
    if (o->ops && o->text) return tool_usage(&tool_inspect, "--ops and --text exclude each other");
    if (o->text && o->json) return tool_usage(&tool_inspect, "--text and --json exclude each other");
    return TOOL_OK;
}

static tool_exit inspect_run(int argc, char **argv)
{
    static est_status (*const inspectors[INSPECT_KINDS])(const inspect_options *) = {
        inspect_tfrecord, inspect_checkpoint, inspect_events, inspect_graph, inspect_meta_graph, inspect_saved_model,
    };
    inspect_options o      = { .limit = INT64_MAX };
    est_strbuf      newest = { 0 };
    unsigned        given  = 0;
    int             kind   = -1;
    tool_exit       code   = read_options(argc, argv, &o, &given, &kind);

    if (code == TOOL_OK && kind < 0) {
        code = find_kind(&o, given, &newest, &kind);
    } else if (code == TOOL_OK && !(kind == INSPECT_CHECKPOINT && is_checkpoint_prefix(o.path))) {
        code = tool_check_file(&tool_inspect, o.path);
    }
    if (code == TOOL_OK) code = check_options(&o, given, kind);
    if (code == TOOL_OK) {
        est_status status = inspectors[kind](&o);

        if (status != EST_OK) code = tool_failed(&tool_inspect, status);
    }
    est_strbuf_clear(&newest);
    return code;
}

const tool_command tool_inspect = {
    .name      = "inspect",
    .summary   = "show the contents of a file of TensorFlow or Estoc",
    .arguments = "[options] PATH",
    .description =
        "PATH is a TFRecord file, a checkpoint (its prefix, one of its files, or a model directory), an event file\n"
        "or a directory of event files, a GraphDef (.pb), a MetaGraphDef (.meta) or a SavedModel (its directory, a\n"
        "directory of exports, of which the newest is shown, or saved_model.pb). The kind is detected; a directory\n"
        "with both checkpoints and event files counts as a checkpoint, and --tag or --as events shows the events.\n"
        "\n"
        "The records of a TFRecord file are printed as one JSON line each: an Example as {\"name\": [values]}, a\n"
        "SequenceExample as {\"context\": ..., \"feature_lists\": ...}, anything else as its bytes. Bytes that are\n"
        "not UTF-8 text appear as {\"b64\": \"...\"}. The other formats are printed as tables, or as JSON with --json.\n"
        "\n"
        "A damaged file is printed up to the damage, which is reported with its place; the exit code is 1. An\n"
        "incomplete event at the end of an event file is not damage: it is still being written.\n",
    .options  = options,
    .examples = "  estoc inspect train-00000-of-00010.tfrecord --limit 3 --feature label,age\n"
                "  estoc inspect runs/digits                    which checkpoints there are; the latest one\n"
                "  estoc inspect runs/digits/model.ckpt-500 --stats\n"
                "  estoc inspect runs/digits/model.ckpt-500 --value dense/kernel --limit 10\n"
                "  estoc inspect runs/digits --tag 'loss*' --json\n"
                "  estoc inspect runs/digits/export/best\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = inspect_run,
};
