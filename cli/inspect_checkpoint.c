/* SPDX-License-Identifier: Apache-2.0
 *
 * `estoc inspect` of checkpoints: the variables of one, their statistics, the elements of one variable; and the state
 * file of a model directory.
 *
 * Damage in the data of one variable does not keep the others from being shown with --stats: each is noted on standard
 * error, and the command fails at the end. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "command.h"
#include "format/checkpoint.h"
#include "format/checkpoint_state.h"
#include "inspect.h"
#include "output.h"
#include "train/saver.h"

#define CHUNK 1024 /* elements turned into doubles at a time */

typedef struct stats {
    double  min, max, mean, std; /* of the finite ones; NaN when there is none */
    int64_t n_finite, n_not_finite, n_zeros;
} stats;

typedef struct view {
    const inspect_options *options;
    const est_checkpoint  *checkpoint;
    tool_table             table;
    est_strbuf             line;
    int64_t                n_parameters, n_bytes;
    int64_t                position_bytes; /* of where inputs are, which is no variable of the model */
    int                    n_variables, n_damaged;
    bool                   has_full_names;
} view;

/* --- statistics --------------------------------------------------------------------------------------------------- */

static int load_chunk(const est_tensor *tensor, int64_t at, double chunk[CHUNK])
{
    int64_t     rest = est_tensor_count(tensor) - at;
    int         n    = rest < CHUNK ? (int)rest : CHUNK;
    const void *data = est_tensor_data(tensor);

    for (int i = 0; i < n; i++) {
        switch (est_tensor_dtype(tensor)) {
        case EST_F32: chunk[i] = ((const float *)data)[at + i]; break;
        case EST_F64: chunk[i] = ((const double *)data)[at + i]; break;
        case EST_I32: chunk[i] = ((const int32_t *)data)[at + i]; break;
        case EST_I64: chunk[i] = (double)((const int64_t *)data)[at + i]; break;
        default: chunk[i] = ((const uint8_t *)data)[at + i]; break; /* uint8, bool */
        }
    }
    return n;
}

static stats find_stats(const est_tensor *tensor)
{
    stats   s     = { .min = INFINITY, .max = -INFINITY };
    int64_t count = est_tensor_count(tensor);
    double  chunk[CHUNK], sum = 0, squares = 0;

    for (int64_t at = 0; at < count; at += CHUNK) {
        int n = load_chunk(tensor, at, chunk);

        for (int i = 0; i < n; i++) {
            s.n_zeros += chunk[i] == 0;
            if (!isfinite(chunk[i])) continue;
            s.n_finite++;
            sum += chunk[i];
            s.min = fmin(s.min, chunk[i]);
            s.max = fmax(s.max, chunk[i]);
        }
    }
    s.n_not_finite = count - s.n_finite;
    if (s.n_finite == 0) {
        s.min = s.max = s.mean = s.std = NAN;
        return s;
    }
    s.mean = sum / (double)s.n_finite;
    for (int64_t at = 0; at < count; at += CHUNK) {
        int n = load_chunk(tensor, at, chunk);

        for (int i = 0; i < n; i++) {
            if (isfinite(chunk[i])) squares += (chunk[i] - s.mean) * (chunk[i] - s.mean);
        }
    }
    s.std = sqrt(squares / (double)s.n_finite);
    return s;
}

/* --- the list of variables ---------------------------------------------------------------------------------------- */

static void append_json_slices(view *v, const est_checkpoint_variable *variable)
{
    const est_bundle_entry *entry = est_bundle_find(est_checkpoint_bundle(v->checkpoint), variable->name);
    char                    text[EST_BUNDLE_SLICE_TEXT_MAX];

    est_strbuf_append(&v->line, ", \"slices\": [");
    for (int i = 0; entry != NULL && i < entry->n_slices; i++) {
        est_strbuf_printf(&v->line, "%s\"%s\"", i > 0 ? ", " : "", est_bundle_slice_text(&entry->slices[i], text));
    }
    est_strbuf_append(&v->line, "]");
}

static void append_json_stats(est_strbuf *line, const stats *s)
{
    est_strbuf_append(line, ", \"min\": ");
    tool_append_json_f64(line, s->min);
    est_strbuf_append(line, ", \"max\": ");
    tool_append_json_f64(line, s->max);
    est_strbuf_append(line, ", \"mean\": ");
    tool_append_json_f64(line, s->mean);
    est_strbuf_append(line, ", \"std\": ");
    tool_append_json_f64(line, s->std);
    est_strbuf_printf(line, ", \"zeros\": %" PRId64 ", \"not_finite\": %" PRId64, s->n_zeros, s->n_not_finite);
}

/* `s` is NULL when there are no statistics of this variable. */
static est_status json_variable(view *v, const est_checkpoint_variable *variable, const stats *s, bool first)
{
    est_strbuf *line = &v->line;

    est_strbuf_append(line, first ? "\n  {\"name\": " : ",\n  {\"name\": ");
    tool_append_json_text(line, variable->name);
    if (variable->full_name != NULL) {
        est_strbuf_append(line, ", \"full_name\": ");
        tool_append_json_text(line, variable->full_name);
    }
    est_strbuf_printf(line, ", \"dtype\": \"%s\", \"shape\": ", tool_dtype_name((int)variable->dtype));
    tool_append_json_shape(line, &variable->shape);
    est_strbuf_printf(line, ", \"bytes\": %" PRId64, variable->bytes);
    if (variable->n_slices > 0) append_json_slices(v, variable);
    if (s != NULL) append_json_stats(line, s);
    est_strbuf_append(line, "}");
    return tool_write(line);
}

static est_status table_variable(view *v, const est_checkpoint_variable *variable, const stats *s)
{
    tool_table *t = &v->table;
    char        shape[EST_SHAPE_TEXT_MAX];

    tool_table_text(t, (est_str){ variable->name, strlen(variable->name) }, 0);
    if (v->has_full_names) {
        const char *full = variable->full_name != NULL ? variable->full_name : "";

        tool_table_text(t, (est_str){ full, strlen(full) }, 0);
    }
    tool_table_cell(t, "%s", tool_dtype_name((int)variable->dtype));
    tool_table_cell(t, "%s", est_shape_text(&variable->shape, shape));
    tool_table_cell(t, "%" PRId64, variable->bytes);
    tool_table_cell(t, "%d", variable->n_slices);
    if (s != NULL) {
        tool_table_cell(t, "%.6g", s->min);
        tool_table_cell(t, "%.6g", s->max);
        tool_table_cell(t, "%.6g", s->mean);
        tool_table_cell(t, "%.6g", s->std);
        tool_table_cell(t, "%" PRId64, s->n_zeros);
        tool_table_cell(t, "%" PRId64, s->n_not_finite);
    }
    return tool_table_row(t);
}

/* Finds the statistics. *found is false when there are none: of strings, and of what cannot be read, which is noted.
 * Fails when memory is out. */
static est_status read_stats(view *v, const est_checkpoint_variable *variable, bool *found, stats *out)
{
    est_tensor *tensor;
    est_status  status = est_checkpoint_read(v->checkpoint, variable->name, &tensor);

    *found = false;
    if (status == EST_RESOURCE_EXHAUSTED) return status;
    if (status != EST_OK) {
        v->n_damaged += status != EST_UNIMPLEMENTED;
        tool_note(&tool_inspect, "%s%s", status == EST_UNIMPLEMENTED ? "note: " : "", est_error_message());
        return EST_OK;
    }
    *found = est_tensor_dtype(tensor) != EST_STRING;
    if (*found) *out = find_stats(tensor);
    est_tensor_free(tensor);
    return EST_OK;
}

/* Adds to the totals. Where inputs are is as large as what they have read ahead, and differs between equal
 * trainings. */
static void count_variable(view *v, const est_checkpoint_variable *variable)
{
    int64_t count = est_shape_count(&variable->shape);

    if (strcmp(variable->name, EST_EXTRA_INPUT) == 0 || strcmp(variable->name, EST_EXTRA_POSITIONS) == 0) {
        v->position_bytes += variable->bytes;
        return;
    }
    v->n_variables++;
    if (count > 0 && count < INT64_MAX - v->n_parameters) v->n_parameters += count;
    v->n_bytes += variable->bytes;
}

static est_status show_variable(view *v, const est_checkpoint_variable *variable, bool first)
{
    bool  has_stats = false;
    stats s;

    count_variable(v, variable);
    if (v->options->stats) EST_TRY(read_stats(v, variable, &has_stats, &s));
    if (v->options->json) return json_variable(v, variable, has_stats ? &s : NULL, first);
    return table_variable(v, variable, has_stats ? &s : NULL);
}

static est_status show_totals(view *v)
{
    if (v->options->verify && v->n_damaged == 0) EST_TRY(est_checkpoint_verify(v->checkpoint));
    est_strbuf_printf(&v->line,
                      v->options->json ? "\n], \"totals\": {\"variables\": %d, \"parameters\": %" PRId64
                                         ", \"bytes\": %" PRId64
                                       : "total: %d variables, %" PRId64 " parameters, %" PRId64 " bytes",
                      v->n_variables, v->n_parameters, v->n_bytes);
    if (v->position_bytes > 0) {
        est_strbuf_printf(&v->line,
                          v->options->json ? ", \"input_position_bytes\": %" PRId64
                                           : " + input positions of %" PRId64 " bytes",
                          v->position_bytes);
    }
    if (v->options->json) {
        est_strbuf_printf(&v->line, "}%s}\n", v->options->verify ? ", \"verified\": true" : "");
    } else {
        est_strbuf_printf(&v->line, "%s\n", v->options->verify ? ", all checksums right" : "");
    }
    return tool_write(&v->line);
}

static void begin_table(view *v)
{
    static const char *const all[] = { "name", "variable", "dtype", "shape", "bytes", "slices",
                                       "min",  "max",      "mean",  "std",   "zeros", "not finite" };
    const char              *names[TOOL_COLUMNS_MAX];
    int                      n = 0;

    for (int i = 0; i < (v->options->stats ? 12 : 6); i++) {
        if (i != 1 || v->has_full_names) names[n++] = all[i];
    }
    v->table.right = v->has_full_names ? ~15u : ~7u; /* the numbers */
    tool_table_begin(&v->table, names, n);
}

static est_status show_variables(view *v)
{
    int n = est_checkpoint_count(v->checkpoint);

    for (int i = 0; i < n; i++) v->has_full_names |= est_checkpoint_at(v->checkpoint, i)->full_name != NULL;
    if (v->options->json) {
        est_strbuf_append(&v->line, "{\"prefix\": ");
        tool_append_json_text(&v->line, est_checkpoint_path(v->checkpoint));
        est_strbuf_append(&v->line, ", \"variables\": [");
    } else {
        begin_table(v);
    }
    for (int i = 0; i < n; i++) EST_TRY(show_variable(v, est_checkpoint_at(v->checkpoint, i), i == 0));
    if (!v->options->json) EST_TRY(tool_table_end(&v->table));
    if (v->n_damaged > 0) {
        return est_fail(EST_DATA_LOSS, "%s: %d of %d variables cannot be read", est_checkpoint_path(v->checkpoint),
                        v->n_damaged, n);
    }
    return show_totals(v);
}

/* --- one variable ------------------------------------------------------------------------------------------------- */

static est_status json_elements(view *v, const est_tensor *tensor, int64_t n)
{
    est_strbuf_append(&v->line, "{\"name\": ");
    tool_append_json_text(&v->line, v->options->value);
    est_strbuf_printf(&v->line, ", \"dtype\": \"%s\", \"shape\": ", est_dtype_name(est_tensor_dtype(tensor)));
    tool_append_json_shape(&v->line, est_tensor_shape(tensor));
    est_strbuf_append(&v->line, ", \"values\": [");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) est_strbuf_append(&v->line, ", ");
        tool_append_element(&v->line, tensor, i, true);
        if (i % CHUNK == CHUNK - 1) EST_TRY(tool_write(&v->line));
    }
    est_strbuf_append(&v->line, "]}\n");
    return tool_write(&v->line);
}

/* One line a row of the last axis, an empty line between matrices; comments begin with #, so that other programs can
 * read it. */
static est_status text_elements(view *v, const est_tensor *tensor, int64_t n)
{
    const est_shape *shape = est_tensor_shape(tensor);
    int64_t          row   = shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    int64_t          plane = shape->rank > 2 ? row * shape->dim[shape->rank - 2] : INT64_MAX;
    char             text[EST_SHAPE_TEXT_MAX];

    est_strbuf_append(&v->line, "# ");
    tool_append_printable(&v->line, (est_str){ v->options->value, strlen(v->options->value) }, 0);
    est_strbuf_printf(&v->line, " %s %s\n", est_dtype_name(est_tensor_dtype(tensor)), est_shape_text(shape, text));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) est_strbuf_append(&v->line, i % row != 0 ? " " : i % plane == 0 ? "\n\n" : "\n");
        tool_append_element(&v->line, tensor, i, false);
        if (i % CHUNK == CHUNK - 1) EST_TRY(tool_write(&v->line));
    }
    if (n > 0) est_strbuf_append(&v->line, "\n");
    if (n < est_tensor_count(tensor)) {
        est_strbuf_printf(&v->line, "# %" PRId64 " more\n", est_tensor_count(tensor) - n);
    }
    return tool_write(&v->line);
}

static est_status show_value(view *v)
{
    est_tensor *tensor;
    est_status  status;
    int64_t     n;

    EST_TRY(est_checkpoint_read(v->checkpoint, v->options->value, &tensor));
    n = est_tensor_count(tensor);
    if (n > v->options->limit) n = v->options->limit;
    status = v->options->json ? json_elements(v, tensor, n) : text_elements(v, tensor, n);
    est_tensor_free(tensor);
    return status;
}

est_status inspect_checkpoint_prefix(const inspect_options *options, const char *prefix)
{
    view            v = { .options = options };
    est_checkpoint *checkpoint;
    est_status      status;

    EST_TRY(est_checkpoint_open_prefix(prefix, &checkpoint));
    v.checkpoint = checkpoint;
    status       = options->value != NULL ? show_value(&v) : show_variables(&v);
    tool_table_clear(&v.table);
    est_strbuf_clear(&v.line);
    est_checkpoint_close(checkpoint);
    return status;
}

/* --- a model directory -------------------------------------------------------------------------------------------- */

/* A path of the state file as seen from here. */
static void append_resolved(est_strbuf *out, const char *dir, const char *path)
{
    if (path[0] != '/') est_strbuf_printf(out, "%s/", dir);
    est_strbuf_append(out, path);
}

/* What is known of checkpoint i of a state file. */
typedef struct kept {
    bool   exists; /* its index does */
    bool   has_time;
    double saved; /* seconds since 1970: what the state file says, else when the index was written */
} kept;

static kept look_up(const char *dir, const est_checkpoint_state *state, int i)
{
    est_strbuf  index = { 0 };
    struct stat about;
    kept        k = { 0 };

    append_resolved(&index, dir, state->paths[i]);
    est_strbuf_append(&index, ".index");
    k.exists   = !index.failed && stat(est_strbuf_text(&index), &about) == 0;
    k.has_time = i < state->n_timestamps || k.exists;
    if (i < state->n_timestamps) {
        k.saved = state->timestamps[i];
    } else if (k.exists) {
        k.saved = (double)about.st_mtim.tv_sec + 1e-9 * (double)about.st_mtim.tv_nsec;
    }
    est_strbuf_clear(&index);
    return k;
}

static est_status table_state(const char *dir, const est_checkpoint_state *state, est_strbuf *line)
{
    static const char *const names[] = { "checkpoint", "saved", "state" };
    tool_table               table   = { 0 };
    est_status               status  = EST_OK;

    tool_table_begin(&table, names, 3);
    for (int i = 0; i < state->n_paths && status == EST_OK; i++) {
        const char *path   = state->paths[i];
        kept        k      = look_up(dir, state, i);
        bool        latest = state->model_checkpoint_path != NULL && strcmp(path, state->model_checkpoint_path) == 0;

        tool_table_text(&table, (est_str){ path, strlen(path) }, 0);
        if (k.has_time) tool_append_time(line, k.saved);
        tool_table_cell(&table, "%s", est_strbuf_text(line));
        est_strbuf_reset(line);
        tool_table_cell(&table, "%s%s", latest ? "latest" : "kept", k.exists ? "" : ", missing");
        status = tool_table_row(&table);
    }
    if (status == EST_OK) status = tool_table_end(&table);
    tool_table_clear(&table);
    est_strbuf_append(line, "\n");
    return status == EST_OK ? tool_write(line) : status;
}

static est_status json_state(const char *dir, const est_checkpoint_state *state, est_strbuf *line)
{
    const char *latest = state->model_checkpoint_path;

    est_strbuf_append(line, "{\"latest\": ");
    tool_append_json_text(line, latest != NULL ? latest : "");
    est_strbuf_append(line, ", \"checkpoints\": [");
    for (int i = 0; i < state->n_paths; i++) {
        kept k = look_up(dir, state, i);

        est_strbuf_append(line, i > 0 ? ", {\"path\": " : "{\"path\": ");
        tool_append_json_text(line, state->paths[i]);
        if (k.has_time) {
            est_strbuf_append(line, ", \"saved\": ");
            tool_append_json_f64(line, k.saved);
        }
        est_strbuf_printf(line, ", \"exists\": %s}", k.exists ? "true" : "false");
    }
    est_strbuf_append(line, "], \"checkpoint\": ");
    return tool_write(line);
}

/* The state file, then the latest checkpoint. With --value only the tensor. */
static est_status show_state(const inspect_options *options, const char *dir, const est_checkpoint_state *state)
{
    est_strbuf prefix = { 0 }, line = { 0 };
    bool       whole  = options->value == NULL;
    est_status status = EST_OK;

    if (state->model_checkpoint_path == NULL) {
        return est_fail(EST_DATA_LOSS, "%s/checkpoint: does not say which checkpoint is the latest", dir);
    }
    append_resolved(&prefix, dir, state->model_checkpoint_path);
    if (whole) status = options->json ? json_state(dir, state, &line) : table_state(dir, state, &line);
    if (status == EST_OK) status = est_strbuf_status(&prefix);
    if (status == EST_OK) status = inspect_checkpoint_prefix(options, est_strbuf_text(&prefix));
    if (status == EST_OK && whole && options->json) {
        est_strbuf_append(&line, "}\n");
        status = tool_write(&line);
    }
    est_strbuf_clear(&prefix);
    est_strbuf_clear(&line);
    return status;
}

/* A directory without a state file: good when it has one checkpoint. */
static est_status show_only_checkpoint(const inspect_options *options, const char *dir)
{
    est_strbuf prefix = { 0 };
    char     **names;
    est_status status;

    EST_TRY(inspect_names(dir, inspect_is_index_name, &names));
    if (names[0] == NULL) {
        status = est_fail(EST_NOT_FOUND, "%s: no checkpoint is in this directory", dir);
    } else if (names[1] != NULL) {
        status = est_fail(EST_FAILED_PRECONDITION,
                          "%s: has no file \"checkpoint\" that says which is the latest; name one, such as %s/%s", dir,
                          dir, names[0]);
    } else {
        est_strbuf_printf(&prefix, "%s/%.*s", dir, (int)(strlen(names[0]) - strlen(".index")), names[0]);
        status = est_strbuf_status(&prefix);
        if (status == EST_OK) status = inspect_checkpoint_prefix(options, est_strbuf_text(&prefix));
        est_strbuf_clear(&prefix);
    }
    inspect_names_free(names);
    return status;
}

static est_status show_directory(const inspect_options *options, const char *dir)
{
    est_checkpoint_state state = { 0 };
    est_strbuf           path  = { 0 };
    est_status           status;

    est_strbuf_printf(&path, "%s/checkpoint", dir);
    status = est_strbuf_status(&path);
    if (status == EST_OK && !est_file_exists(est_strbuf_text(&path))) {
        status = show_only_checkpoint(options, dir);
    } else if (status == EST_OK) {
        status = est_checkpoint_state_read(&state, est_strbuf_text(&path));
        if (status == EST_OK) status = show_state(options, dir, &state);
    }
    est_checkpoint_state_clear(&state);
    est_strbuf_clear(&path);
    return status;
}

/* Characters of `path` that are the prefix, or the directory when it names a state file. */
static size_t stem_size(const char *path, bool *is_state)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *data = NULL;

    *is_state = strcmp(name, "checkpoint") == 0;
    if (*is_state) return slash != NULL ? (size_t)(slash - path) + (slash == path) : 0;
    if (inspect_is_index_name(name)) return strlen(path) - strlen(".index");
    for (const char *at = name; (at = strstr(at, ".data-")) != NULL; at++) data = at;
    return data != NULL && strstr(data, "-of-") != NULL ? (size_t)(data - path) : strlen(path);
}

est_status inspect_checkpoint(const inspect_options *options)
{
    est_strbuf stem = { 0 };
    bool       is_state;
    size_t     size;
    est_status status;

    if (est_dir_exists(options->path)) return show_directory(options, options->path);
    size = stem_size(options->path, &is_state);
    est_strbuf_append_bytes(&stem, options->path, size);
    if (is_state && size == 0) est_strbuf_append(&stem, ".");
    status = est_strbuf_status(&stem);
    if (status == EST_OK) {
        status = (is_state ? show_directory : inspect_checkpoint_prefix)(options, est_strbuf_text(&stem));
    }
    est_strbuf_clear(&stem);
    return status;
}
