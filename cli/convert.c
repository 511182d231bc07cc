/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc convert`: text files to TFRecord files of Examples. The formats have their readers
 * in files of their own. */
#include "convert.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "command.h"
#include "output.h"

#define SHARD_BUFFER  ((size_t)64 << 10) /* of each file when there are several */
#define PROGRESS_ROWS 65536

enum { FROM_CSV, FROM_LIBSVM };

static const char *const format_names[] = { "csv", "libsvm", NULL };
static const char *const kind_names[]   = { "none", "gzip", "zlib", NULL };

enum {
    OPTION_FROM = TOOL_OPTION_OWN,
    OPTION_COLUMNS,
    OPTION_NO_HEADER,
    OPTION_DELIMITER,
    OPTION_TRIM,
    OPTION_NA,
    OPTION_COMPRESSION,
    OPTION_SHARDS,
    OPTION_SKIP_BAD
};

/* clang-format off */
static const tool_option options[] = {
    { "output",      'o',                "FILE",    "the TFRecord file to write; required" },
    { "from",        OPTION_FROM,        "FORMAT",  "csv or libsvm; default: what the names of the inputs say\n"
                                                    "(.csv, .tsv, .libsvm, .svm, .svmlight, each also with .gz)",
                                                    format_names },
    { "columns",     OPTION_COLUMNS,     "C:T,...", "csv: the columns to take, each with its type: int64, float,\n"
                                                    "bytes or string (the same); without a type it is found out" },
    { "no-header",   OPTION_NO_HEADER,   NULL,      "csv: the first line is a row; --columns names all fields" },
    { "delimiter",   OPTION_DELIMITER,   "CHAR",    "csv: between fields; default: a comma, a tab for .tsv" },
    { "trim",        OPTION_TRIM,        NULL,      "csv: blanks around fields are not part of them" },
    { "na",          OPTION_NA,          "VALUE",   "csv: a field with this text is left out of the Example" },
    { "compression", OPTION_COMPRESSION, "KIND",    "of the output: none (default), gzip or zlib", kind_names },
    { "shards",      OPTION_SHARDS,      "N",       TOOL_SHARDS_HELP },
    { "skip-bad",    OPTION_SKIP_BAD,    "N",       "go on without bad rows, as long as there are at most N;\n"
                                                    "default: 0" },
    TOOL_COMMON_OPTIONS
};
/* clang-format on */

/* --- what the readers call ---------------------------------------------------------------------------------------- */

void convert_row(convert_job *job)
{
    job->n_rows++;
    if (job->progress && job->n_rows % PROGRESS_ROWS == 0) fprintf(stderr, "\r%" PRId64 " rows", job->n_rows);
}

est_status convert_emit(convert_job *job)
{
    est_str bytes;

    EST_TRY(est_example_serialize(job->example, &bytes));
    EST_TRY(est_tfrecord_write(job->writers[job->n_records % job->files.n], bytes.data, bytes.size));
    est_example_reset(job->example);
    job->n_records++;
    return EST_OK;
}

est_status convert_bad_row(convert_job *job, est_status status)
{
    job->n_bad++;
    if (job->n_bad == 1) est_strbuf_append(&job->first_bad, est_error_message());
    if (job->n_bad <= job->skip_bad) return EST_OK;
    if (job->skip_bad == 0) return est_fail_context(status, "bad row (--skip-bad N skips up to N of them)");
    return est_fail_context(status, "more than %" PRId64 " bad rows, the last", job->skip_bad);
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static est_status open_outputs(convert_job *job)
{
    size_t buffer = job->files.n > 1 ? SHARD_BUFFER : 0;

    job->writers = est_zalloc((size_t)job->files.n * sizeof *job->writers);
    if (job->writers == NULL) {
        return est_no_memory();
    }
    for (int i = 0; i < job->files.n; i++) {
        EST_TRY(est_tfrecord_create(job->files.list[i].temp,
                                    EST_TFRECORD_WRITE(.compression = job->compression, .buffer_bytes = buffer),
                                    &job->writers[i]));
    }
    return EST_OK;
}

static est_status finish_outputs(convert_job *job)
{
    for (int i = 0; i < job->files.n; i++) {
        est_tfrecord_writer *writer = job->writers[i];

        job->writers[i] = NULL;
        EST_TRY(est_tfrecord_finish(writer));
    }
    return tool_files_commit(&job->files);
}

static void close_outputs(convert_job *job)
{
    for (int i = 0; job->writers != NULL && i < job->files.n; i++) est_tfrecord_abandon(job->writers[i]);
    est_free(job->writers);
    tool_files_close(&job->files);
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static est_status report_json(const convert_job *job, est_strbuf *line)
{
    est_strbuf_printf(line, "{\"records\": %" PRId64 ", \"bad_rows\": %" PRId64 ", \"columns\": [%s], \"files\": ",
                      job->n_records, job->n_bad, est_strbuf_text(&job->report));
    tool_files_append_json(&job->files, line);
    est_strbuf_append(line, "}\n");
    return tool_write(line);
}

static est_status report_text(const convert_job *job, est_strbuf *line)
{
    est_strbuf_append(line, est_strbuf_text(&job->report));
    est_strbuf_printf(line, "%" PRId64 " records in ", job->n_records);
    tool_files_append_text(&job->files, line);
    est_strbuf_append(line, "\n");
    return tool_write(line);
}

static est_status report(const convert_job *job)
{
    est_strbuf line = { 0 };
    est_status status;

    if (job->n_bad > 0) {
        tool_note(&tool_convert, "left out %" PRId64 " bad rows; the first: %s", job->n_bad,
                  est_strbuf_text(&job->first_bad));
    }
    status = job->json ? report_json(job, &line) : report_text(job, &line);
    est_strbuf_clear(&line);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static est_status convert(convert_job *job, int from)
{
    est_status status = est_example_create(&job->example);

    if (status == EST_OK) status = open_outputs(job);
    if (status == EST_OK) status = from == FROM_CSV ? convert_csv(job) : convert_libsvm(job);
    if (job->progress && job->n_rows >= PROGRESS_ROWS) fprintf(stderr, "\r%" PRId64 " rows\n", job->n_rows);
    if (status == EST_OK) status = finish_outputs(job);
    if (status == EST_OK) status = report(job);
    est_example_free(job->example);
    est_strbuf_clear(&job->first_bad);
    est_strbuf_clear(&job->report);
    return status;
}

/* The format by the extension of a name; -1: unknown. */
static int format_of(const char *path)
{
    static const char *const endings[] = { ".csv", ".tsv", ".libsvm", ".svm", ".svmlight" };
    static const int         formats[] = { FROM_CSV, FROM_CSV, FROM_LIBSVM, FROM_LIBSVM, FROM_LIBSVM };

    for (int i = 0; i < (int)(sizeof endings / sizeof endings[0]); i++) {
        if (tool_has_ending(path, endings[i])) return formats[i];
    }
    return -1;
}

/* The format by the extension of all names, without --from. */
static tool_exit find_format(const convert_job *job, int *from)
{
    for (int i = 0; i < job->n_inputs; i++) {
        int format = format_of(job->inputs[i]);

        if (format < 0) {
            return tool_usage(&tool_convert, "the format of %s is unknown; give --from csv or --from libsvm",
                              job->inputs[i]);
        }
        if (i > 0 && format != *from) {
            return tool_usage(&tool_convert, "the inputs are of different formats; convert them one at a time");
        }
        *from = format;
    }
    return TOOL_OK;
}

static tool_exit check_job(convert_job *job, int *from)
{
    est_status status;

    if (job->n_inputs == 0) return tool_usage(&tool_convert, "an input file is missing");
    if (job->out == NULL) return tool_usage(&tool_convert, "--output is missing");
    if (job->no_header && job->columns == NULL) {
        return tool_usage(&tool_convert, "--no-header needs --columns, which names the fields");
    }
    if (*from < 0 && find_format(job, from) != TOOL_OK) return TOOL_USAGE;
    if (*from == FROM_LIBSVM && (job->columns != NULL || job->na != NULL || job->delimiter != 0 || job->trim)) {
        return tool_usage(&tool_convert, "--columns, --no-header, --delimiter, --trim and --na are for csv");
    }
    if (convert_csv_check(job) != EST_OK) return tool_usage(&tool_convert, "%s", est_error_message());
    for (int i = 0; i < job->n_inputs; i++) {
        tool_exit code = tool_check_input(&tool_convert, job->inputs[i]);

        if (code != TOOL_OK) return code;
    }
    status = tool_files_name(&job->files, job->out, job->n_shards, job->inputs, job->n_inputs);
    if (status == EST_INVALID_ARGUMENT) return tool_usage(&tool_convert, "%s", est_error_message());
    return status == EST_OK ? TOOL_OK : tool_failed(&tool_convert, status);
}

static bool read_delimiter(const char *value, char *out)
{
    if (strcmp(value, "\\t") == 0) value = "\t";
    if (strlen(value) == 1 && strchr("\"\n\r", value[0]) == NULL) {
        *out = value[0];
        return true;
    }
    tool_usage(&tool_convert, "--delimiter takes one character other than a quote (\\t for a tab), not \"%s\"", value);
    return false;
}

/* False when the value is wrong, which has been reported then. */
static bool read_option(convert_job *job, int id, const char *value, int *from)
{
    static const est_compression kinds[] = { EST_COMPRESSION_NONE, EST_COMPRESSION_GZIP, EST_COMPRESSION_ZLIB };
    int                          i;

    switch (id) {
    case 'o': job->out = value; return true;
    case OPTION_FROM: *from = tool_option_choice(&tool_convert, id, value); return *from >= 0;
    case OPTION_COLUMNS: job->columns = value; return true;
    case OPTION_NO_HEADER: job->no_header = true; return true;
    case OPTION_DELIMITER: return read_delimiter(value, &job->delimiter);
    case OPTION_TRIM: job->trim = true; return true;
    case OPTION_NA: job->na = value; return true;
    case OPTION_COMPRESSION:
        i = tool_option_choice(&tool_convert, id, value);
        if (i < 0) return false;
        job->compression = kinds[i];
        return true;
    case OPTION_SHARDS: return tool_shards(&tool_convert, value, &job->n_shards);
    case OPTION_SKIP_BAD: return tool_count(&tool_convert, "skip-bad", value, &job->skip_bad);
    default: job->json = true; return true;
    }
}

static tool_exit convert_run(int argc, char **argv)
{
    convert_job job  = { .progress = isatty(STDERR_FILENO) };
    int         from = -1, id;
    const char *value;
    tool_exit   code;

    while ((id = tool_next_option(&tool_convert, argc, argv, &value)) != TOOL_OPTION_END) {
        if (id == TOOL_OPTION_HELP || id == TOOL_OPTION_BAD) return tool_other_option(&tool_convert, id);
        if (!read_option(&job, id, value, &from)) return TOOL_USAGE;
    }
    job.inputs   = argv + optind;
    job.n_inputs = argc - optind;
    code         = check_job(&job, &from);
    if (code == TOOL_OK) {
        est_status status;

        tool_files_catch_signals(&job.files, &tool_convert, job.progress);
        status = convert(&job, from);
        if (status != EST_OK) code = tool_failed(&tool_convert, status);
    }
    close_outputs(&job);
    return code;
}

const tool_command tool_convert = {
    .name      = "convert",
    .summary   = "make TFRecord files of Examples from CSV or LIBSVM files",
    .arguments = "[options] INPUT... -o FILE",
    .description =
        "A row of CSV becomes an Example with a feature of one value for each column. The first line of a file\n"
        "names its columns; columns are found by name, so their order may differ between files. Fields may be in\n"
        "double quotes, and then contain delimiters and line breaks; blanks around fields belong to them, but with\n"
        "--trim only those inside quotes do. A column without a given type is int64 if all its values are, else\n"
        "float if all are numbers, else bytes; to detect types, the files are read twice. Integers that do not fit\n"
        "int64 make a column float, which rounds them, with a warning. An empty field of a column of numbers is\n"
        "omitted from the Example, and so is a field equal to --na; an empty field of a bytes column is an empty\n"
        "string.\n"
        "\n"
        "A line of LIBSVM becomes an Example with the features label (float), index (int64 list, as in the file)\n"
        "and value (float list).\n"
        "\n"
        "Inputs may be compressed with gzip or zlib. The output gets its name when it is complete: after a failure\n"
        "or a signal there is no new file, and an old one is unchanged. Only a regular file is replaced, also\n"
        "through a symbolic link.\n",
    .options  = options,
    .examples = "  estoc convert census.csv -o census.tfrecord\n"
                "  estoc convert day*.csv.gz -o train.tfrecord --shards 10 --compression gzip\n"
                "  estoc convert census.csv -o c.tfrecord --columns age:int64,job:string,income:float --na '?'\n"
                "  estoc convert --no-header --columns x:float,y:float,label:int64 points.csv -o points.tfrecord\n"
                "  estoc convert a9a.libsvm -o a9a.tfrecord --skip-bad 10\n",
    .takes    = TOOL_TAKES_FILES,
    .run      = convert_run,
};
