/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporters (final, latest, best): they decide which evaluations lead to an export and which exports are kept. The best
 * exporter records the evaluation in each export, so that a restarted process knows the best one so far. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/callback.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "estimator/estimator.h"
#include "estimator/export.h"
#include "train/eval_results.h"

#define KEEP_DEFAULT    5
#define PATTERN_DEFAULT "eval/*.tfevents.*"
#define RECORD          "estoc_evaluation.txt" /* in assets.extra/ of an export of the best exporter: its evaluation */
#define VERSION_DIGITS  10                     /* digits of the seconds since 1970, from 2001 to 2286 */

/* An exporter of the library. */
typedef struct made {
    est_exporter       exporter; /* the public part; first member */
    est_arena         *arena;
    est_export_options saved_model; /* lists in the arena */
    est_tensor       **defaults;    /* [n_defaults]: default values of features, owned */
    int                n_defaults;
    int                keep;    /* 0: all */
    est_compare_fn     compare; /* NULL: by exporter.metric */
    void              *compare_user;
    bool               larger_is_better;
    const char        *pattern; /* "": none */

    char        *base; /* directory of the exports that `best` refers to; NULL: none yet */
    est_metrics *best; /* NULL: unknown */

    char last_path[EST_CHECKPOINT_PATH_MAX]; /* path of its last export; "": none yet */
} made;

/* --- making one --------------------------------------------------------------------------------------------------- */

static est_status copy_text(made *x, const char *text, const char **out)
{
    *out = est_arena_strdup(x->arena, text != NULL ? text : "");
    return *out != NULL ? EST_OK : est_no_memory();
}

static est_status copy_specs(made *x, est_serving_input *input)
{
    est_feature_spec *specs = est_arena_alloc(x->arena, (size_t)input->parse.n * sizeof *specs);

    if (specs == NULL) return est_no_memory();
    for (int i = 0; i < input->parse.n; i++) {
        const est_tensor *value = input->parse.data[i].default_value;
        est_tensor       *copy  = NULL;

        specs[i] = input->parse.data[i];
        EST_TRY(copy_text(x, input->parse.data[i].name, &specs[i].name));
        if (value == NULL) continue;
        EST_TRY(
            est_tensor_create_from(est_tensor_dtype(value), *est_tensor_shape(value), est_tensor_data(value), &copy));
        x->defaults[x->n_defaults++] = copy;
        specs[i].default_value       = copy;
    }
    input->parse.data = specs;
    return EST_OK;
}

static est_status copy_raw(made *x, est_serving_input *input)
{
    est_component *raw = est_arena_alloc(x->arena, (size_t)input->raw.n * sizeof *raw);

    if (raw == NULL) return est_no_memory();
    for (int i = 0; i < input->raw.n; i++) {
        raw[i] = input->raw.data[i];
        EST_TRY(copy_text(x, input->raw.data[i].name, &raw[i].name));
    }
    input->raw.data = raw;
    return EST_OK;
}

static est_status copy_texts(made *x, est_strings *texts)
{
    const char **copies = est_arena_alloc(x->arena, (size_t)(texts->n + 1) * sizeof *copies);

    if (copies == NULL) return est_no_memory();
    for (int i = 0; i < texts->n; i++) EST_TRY(copy_text(x, texts->data[i], &copies[i]));
    texts->data = copies;
    return EST_OK;
}

static est_status copy_assets(made *x, est_assets *assets)
{
    est_asset *copies = est_arena_alloc(x->arena, (size_t)(assets->n + 1) * sizeof *copies);

    if (copies == NULL) return est_no_memory();
    for (int i = 0; i < assets->n; i++) {
        EST_TRY(copy_text(x, assets->data[i].name, &copies[i].name));
        EST_TRY(copy_text(x, assets->data[i].path, &copies[i].path));
    }
    assets->data = copies;
    return EST_OK;
}

static est_status copy_alternatives(made *x, est_serving_input *input)
{
    est_receiver_alternative *copies = est_arena_alloc(x->arena, (size_t)input->alternatives.n * sizeof *copies);

    if (copies == NULL) return est_no_memory();
    for (int i = 0; i < input->alternatives.n; i++) {
        copies[i] = input->alternatives.data[i];
        EST_TRY(copy_text(x, input->alternatives.data[i].name, &copies[i].name));
        if (copies[i].features.data != NULL) EST_TRY(copy_texts(x, &copies[i].features));
    }
    input->alternatives.data = copies;
    return EST_OK;
}

/* Copies everything that a serving input borrows. */
static est_status copy_input(made *x, est_serving_input *input)
{
    if (input->parse.data != NULL && input->parse.n > 0) EST_TRY(copy_specs(x, input));
    if (input->raw.data != NULL && input->raw.n > 0) EST_TRY(copy_raw(x, input));
    if (input->alternatives.data != NULL && input->alternatives.n > 0) EST_TRY(copy_alternatives(x, input));
    return EST_OK;
}

/* Replaces what x->saved_model borrows by copies. */
static est_status copy_saved_model(made *x)
{
    est_export_options *o         = &x->saved_model;
    est_serving_input  *inputs[3] = { &o->input, &o->train_input, &o->eval_input };
    size_t              room      = 1;

    o->checkpoint_path = NULL;
    for (int i = 0; i < 3; i++) room += (size_t)(inputs[i]->parse.n > 0 ? inputs[i]->parse.n : 0);
    x->defaults = est_arena_alloc(x->arena, room * sizeof(est_tensor *));
    if (x->defaults == NULL) return est_no_memory();
    for (int i = 0; i < 3; i++) EST_TRY(copy_input(x, inputs[i]));
    return copy_assets(x, &o->assets_extra);
}

static est_status check_options(const char *name, const est_exporter_options *o, const est_export_options *saved_model)
{
    if (name == NULL || name[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "an exporter needs a name");
    if (strchr(name, '/') != NULL || strcmp(name, "..") == 0 || strcmp(name, ".") == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: the name is used for a directory and must not contain a /",
                        name);
    }
    if (o->exports_to_keep < 0 && o->exports_to_keep != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "exporter %s: exports_to_keep is %d; expected a number, 0 for %d, or EST_OFF for all", name,
                        o->exports_to_keep, KEEP_DEFAULT);
    }
    if (!EST_LIST_OK(saved_model->assets_extra)) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: assets_extra.n is %d, but assets_extra.data is NULL", name,
                        saved_model->assets_extra.n);
    }
    if (!est_receiver_given(&saved_model->input) && !est_receiver_given(&saved_model->train_input) &&
        !est_receiver_given(&saved_model->eval_input)) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: set saved_model.input to describe the features of requests",
                        name);
    }
    return EST_OK;
}

static est_status fill(made *x, const char *name, bool compares, const est_exporter_options *given)
{
    est_exporter_options o;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_exporter_options), given, &o));
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_export_options), o.saved_model, &x->saved_model));
    EST_TRY(check_options(name, &o, &x->saved_model));
    x->arena = est_arena_create();
    if (x->arena == NULL) return est_no_memory();
    x->keep             = o.exports_to_keep == 0 ? KEEP_DEFAULT : o.exports_to_keep == EST_OFF ? 0 : o.exports_to_keep;
    x->compare          = o.compare;
    x->compare_user     = o.compare_user;
    x->larger_is_better = o.larger_is_better;
    EST_TRY(copy_text(x, name, &x->exporter.name));
    if (compares && (o.metric != NULL || o.compare == NULL)) {
        EST_TRY(copy_text(x, o.metric != NULL ? o.metric : "loss", &x->exporter.metric));
    }
    EST_TRY(copy_text(x, o.event_file_pattern != NULL ? o.event_file_pattern : PATTERN_DEFAULT, &x->pattern));
    return copy_saved_model(x);
}

static est_status check_made(est_exporter *exporter, est_estimator *estimator)
{
    return est_export_check_model(estimator, &EST_CONTAINER_OF(exporter, made, exporter)->saved_model);
}

static void free_made(est_exporter *exporter)
{
    made *x = EST_CONTAINER_OF(exporter, made, exporter);

    for (int i = 0; i < x->n_defaults; i++) est_tensor_free(x->defaults[i]);
    est_metrics_free(x->best);
    est_free(x->base);
    est_arena_free(x->arena);
    est_free(x);
}

typedef est_status (*export_fn)(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                                const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                                char path[EST_CHECKPOINT_PATH_MAX]);

static est_exporter *create(export_fn export_model, const char *name, bool compares,
                            const est_exporter_options *options)
{
    made *x = est_zalloc(sizeof *x);

    if (x == NULL) {
        (void)est_no_memory();
        return NULL;
    }
    x->exporter = (est_exporter)EST_EXPORTER(.export_model = export_model, .free = free_made, .check = check_made);
    if (fill(x, name, compares, options) == EST_OK) return &x->exporter;
    free_made(&x->exporter);
    return NULL;
}

/* --- garbage collection ------------------------------------------------------------------------------------------- */

static int is_version(const struct dirent *entry)
{
    size_t n = strspn(entry->d_name, "0123456789");

    return n == VERSION_DIGITS && entry->d_name[n] == '\0';
}

/* Removes all exports but the newest by name, and never `made_now`: after the clock was set back its number is not the
 * largest. A failure is logged and does not end the training. */
static est_status collect_garbage(const made *x, const char *base, const char *made_now)
{
    struct dirent **entries = NULL;
    int             n       = x->keep > 0 ? scandir(base, &entries, is_version, alphasort) : 0;
    est_status      status  = EST_OK;

    if (n < 0) return est_fail(est_status_from_errno(errno), "%s: cannot be listed: %s", base, strerror(errno));
    for (int i = 0; i < n; i++) {
        est_strbuf path = { 0 };

        est_strbuf_printf(&path, "%s/%s", base, entries[i]->d_name);
        free(entries[i]); /* the C library's */
        if (status == EST_OK) status = est_strbuf_status(&path);
        if (status == EST_OK && i < n - x->keep && strcmp(est_strbuf_text(&path), made_now) != 0 &&
            est_dir_exists(est_strbuf_text(&path)) && est_dir_remove(est_strbuf_text(&path)) != EST_OK) {
            est_log_warn("Can not delete %s recursively: %s", est_strbuf_text(&path), est_error_message());
        }
        est_strbuf_clear(&path);
    }
    free(entries);
    return status;
}

/* --- best --------------------------------------------------------------------------------------------------------- */

static bool has_metric(const est_metrics *metrics, const char *name)
{
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        if (strcmp(est_metrics_name(metrics, i), name) == 0) return true;
    }
    return false;
}

/* A number is better than NaN. */
static est_status is_better(const made *x, const est_metrics *best, const est_metrics *current, bool *out)
{
    const char *metric = x->exporter.metric;
    double      before, now;

    if (x->compare != NULL) {
        *out = x->compare(x->compare_user, best, current);
        return EST_OK;
    }
    if (!has_metric(current, metric)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the evaluation has no metric %s; name another, or give a compare function", metric);
    }
    before = est_metrics_get(best, metric);
    now    = est_metrics_get(current, metric);
    if (isnan(now)) est_log_warn("exporter %s: the metric %s is nan", est_exporter_name(&x->exporter), metric);
    *out = (isnan(before) && !isnan(now)) || (x->larger_is_better ? now > before : now < before);
    return EST_OK;
}

static est_status copy_metrics(const est_metrics *from, est_metrics **out)
{
    est_metrics *copy   = NULL;
    est_status   status = est_metrics_create(est_metrics_count(from), &copy);

    for (int i = 0; i < est_metrics_count(from) && status == EST_OK; i++) {
        status = est_metrics_set(copy, i, est_metrics_name(from, i), est_metrics_value(from, i));
    }
    if (status != EST_OK) {
        est_metrics_free(copy);
        return status;
    }
    *out = copy;
    return EST_OK;
}

static est_status metrics_of(const est_eval_result *result, est_metrics **out)
{
    est_metrics *metrics = NULL;
    bool         stepped = est_eval_result_find(result, "global_step") != NULL;
    est_status   status  = est_metrics_create(result->n + !stepped, &metrics);

    for (int i = 0; i < result->n && status == EST_OK; i++) {
        status = est_metrics_set(metrics, i, result->metrics[i].name, result->metrics[i].value);
    }
    if (status == EST_OK && !stepped) {
        status = est_metrics_set(metrics, result->n, "global_step", (double)result->step);
    }
    if (status != EST_OK) {
        est_metrics_free(metrics);
        return status;
    }
    est_metrics_sort(metrics);
    *out = metrics;
    return EST_OK;
}

/* Keeps the better one of *best (NULL: none yet) and `candidate`, which is taken. Ignores a result without the
 * metric. */
static est_status keep_better(const made *x, est_metrics *candidate, est_metrics **best)
{
    bool       better = x->compare != NULL || has_metric(candidate, x->exporter.metric);
    est_status status = EST_OK;

    if (better && *best != NULL) status = is_better(x, *best, candidate, &better);
    if (status == EST_OK && better) {
        est_metrics *worse = *best;

        *best     = candidate;
        candidate = worse;
    }
    est_metrics_free(candidate);
    return status;
}

/* The best result in the event files, leaving out that of `step`, which is being compared. */
static est_status best_evaluated(const made *x, const char *model_dir, double step, est_metrics **best)
{
    est_eval_results results = { 0 };
    est_status       status  = est_eval_results_glob(&results, model_dir, x->pattern);

    est_log_info("Loading best metric from event files.");
    for (int i = 0; i < results.n && status == EST_OK; i++) {
        est_metrics *candidate = NULL;

        if ((double)results.data[i].step == step) continue;
        status = metrics_of(&results.data[i], &candidate);
        if (status == EST_OK) status = keep_better(x, candidate, best);
    }
    est_eval_results_clear(&results);
    return status;
}

/* --- the evaluation of an export: lines "<value> <name>" ---------------------------------------------------------- */

static est_status write_record(const est_metrics *metrics, est_strbuf *out)
{
    for (int i = 0; i < est_metrics_count(metrics); i++) {
        est_strbuf_printf(out, "%.17g %s\n", est_metrics_value(metrics, i), est_metrics_name(metrics, i));
    }
    return est_strbuf_status(out);
}

/* Ends the lines of `text` with 0. */
static est_status parse_record(char *text, est_metrics **out)
{
    est_metrics *metrics = NULL;
    int          n       = 0;
    est_status   status;

    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) n++;
    status = est_metrics_create(n, &metrics);
    for (int i = 0; i < n && status == EST_OK; i++) {
        char  *end = strchr(text, '\n'), *name;
        double value;

        *end   = '\0';
        value  = strtod(text, &name);
        status = *name == ' ' ? est_metrics_set(metrics, i, name + 1, value)
                              : est_fail(EST_DATA_LOSS, "found \"%s\", expected a value and a name", text);
        text   = end + 1;
    }
    if (status != EST_OK) {
        est_metrics_free(metrics);
        return status;
    }
    *out = metrics;
    return EST_OK;
}

/* EST_NOT_FOUND: the export has no record: another exporter, or another program, made it. */
static est_status read_record(const char *base, const char *version, est_metrics **out)
{
    est_strbuf path = { 0 };
    char      *text = NULL;
    size_t     size;
    est_status status;

    est_strbuf_printf(&path, "%s/%s/" EST_EXPORT_EXTRA "/" RECORD, base, version);
    status = est_strbuf_status(&path);
    if (status == EST_OK) status = est_file_read(est_strbuf_text(&path), &text, &size);
    if (status == EST_OK) {
        status = parse_record(text, out);
        if (status == EST_DATA_LOSS) status = est_fail_context(status, "%s", est_strbuf_text(&path));
    }
    est_free(text);
    est_strbuf_clear(&path);
    return status;
}

/* The best evaluation that the exports of `base` record; n_exports also counts exports without a record. */
static est_status best_exported(const made *x, const char *base, est_metrics **best, int *n_exports)
{
    struct dirent **entries = NULL;
    int             n       = scandir(base, &entries, is_version, NULL);
    est_status      status  = EST_OK;

    for (int i = 0; i < n; i++) {
        est_metrics *candidate = NULL;

        if (status == EST_OK) status = read_record(base, entries[i]->d_name, &candidate);
        if (status == EST_OK) {
            status = keep_better(x, candidate, best);
        } else if (status == EST_DATA_LOSS || status == EST_NOT_FOUND) {
            if (status == EST_DATA_LOSS)
                est_log_warn("ignoring an export without a readable record: %s", est_error_message());
            status = EST_OK;
        }
        free(entries[i]); /* the C library's, as is the list */
    }
    free(entries);
    *n_exports = n > 0 ? n : 0;
    return status;
}

/* If some exports have no record, because another program made them, the best result in the event files is assumed to
 * be one of them. */
static est_status load_best(made *x, const char *model_dir, const char *base, const est_metrics *current)
{
    est_metrics *best      = NULL;
    char        *base_copy = est_strdup(base);
    int          n         = 0;
    est_status   status    = base_copy != NULL ? best_exported(x, base, &best, &n) : est_no_memory();

    if (status == EST_OK && best == NULL && n > 0) {
        status = best_evaluated(x, model_dir, est_metrics_get(current, "global_step"), &best);
    }
    if (status != EST_OK) {
        est_metrics_free(best);
        est_free(base_copy);
        return status;
    }
    est_free(x->base);
    est_metrics_free(x->best);
    x->base = base_copy;
    x->best = best;
    return EST_OK;
}

/* Whether a directory already has an export. */
static bool has_export(const char *base)
{
    struct dirent **entries = NULL;
    int             n       = scandir(base, &entries, is_version, NULL);

    for (int i = 0; i < n; i++) free(entries[i]); /* the C library's, as is the list */
    free(entries);
    return n > 0;
}

/* Whether to export after an evaluation: if it is better than the best export, or no export exists. */
static est_status wants_best(made *x, const est_estimator *estimator, const char *base, const est_metrics *metrics,
                             bool *out)
{
    if (x->pattern[0] != '\0' && (x->base == NULL || strcmp(x->base, base) != 0)) {
        EST_TRY(load_best(x, est_estimator_model_dir(estimator), base, metrics));
    }
    *out = x->best == NULL || !has_export(base);
    return *out ? EST_OK : is_better(x, x->best, metrics, out);
}

/* --- exporting ---------------------------------------------------------------------------------------------------- */

/* record: the text of RECORD; NULL: no such file. */
static est_status export_now(made *x, est_estimator *estimator, const char *base, const char *checkpoint_path,
                             const char *record, char path[EST_CHECKPOINT_PATH_MAX])
{
    est_export_options options = x->saved_model;

    options.checkpoint_path = checkpoint_path;
    EST_TRY(est_export_with(estimator, base, &options, RECORD, record, path));
    snprintf(x->last_path, sizeof x->last_path, "%s", path);
    return EST_OK;
}

static est_status export_latest(est_exporter *exporter, est_estimator *estimator, const char *base,
                                const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                                char path[EST_CHECKPOINT_PATH_MAX])
{
    made *x = EST_CONTAINER_OF(exporter, made, exporter);

    (void)metrics;
    (void)is_the_final_export;
    EST_TRY(export_now(x, estimator, base, checkpoint_path, NULL, path));
    return collect_garbage(x, base, path);
}

static est_status export_final(est_exporter *exporter, est_estimator *estimator, const char *base,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char path[EST_CHECKPOINT_PATH_MAX])
{
    (void)metrics;
    if (!is_the_final_export) return EST_OK;
    est_log_info("Performing the final export in the end of training.");
    return export_now(EST_CONTAINER_OF(exporter, made, exporter), estimator, base, checkpoint_path, NULL, path);
}

static est_status export_best(est_exporter *exporter, est_estimator *estimator, const char *base,
                              const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                              char path[EST_CHECKPOINT_PATH_MAX])
{
    made        *x      = EST_CONTAINER_OF(exporter, made, exporter);
    est_metrics *best   = NULL;
    est_strbuf   record = { 0 };
    bool         wanted = false;
    est_status   status;

    (void)is_the_final_export;
    if (metrics == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: there are no metrics to compare", exporter->name);
    }
    EST_TRY(wants_best(x, estimator, base, metrics, &wanted));
    if (!wanted) return EST_OK;
    est_log_info("Performing best model export.");
    EST_TRY(copy_metrics(metrics, &best));
    status = write_record(metrics, &record);
    if (status == EST_OK) status = export_now(x, estimator, base, checkpoint_path, est_strbuf_text(&record), path);
    est_strbuf_clear(&record);
    if (status != EST_OK) {
        est_metrics_free(best);
        return status;
    }
    est_metrics_free(x->best);
    x->best = best;
    return collect_garbage(x, base, path);
}

/* --- what others call --------------------------------------------------------------------------------------------- */

est_exporter *est_latest_exporter(const char *name, const est_exporter_options *options)
{
    return create(export_latest, name, false, options);
}

est_exporter *est_final_exporter(const char *name, const est_exporter_options *options)
{
    return create(export_final, name, false, options);
}

est_exporter *est_best_exporter(const char *name, const est_exporter_options *options)
{
    return create(export_best, name != NULL ? name : "best_exporter", true, options);
}

void est_exporter_free(est_exporter *exporter)
{
    if (exporter != NULL && EST_MEMBER(exporter, free) != NULL) exporter->free(exporter);
}

const char *est_exporter_name(const est_exporter *exporter)
{
    return exporter != NULL ? exporter->name : NULL;
}

const char *est_exporter_last_path(const est_exporter *exporter)
{
    if (exporter == NULL) return NULL;
    return EST_MEMBER(exporter, free) == free_made ? ((const made *)exporter)->last_path : "";
}

est_status est_exporter_export(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char path[EST_CHECKPOINT_PATH_MAX])
{
    char written[EST_CHECKPOINT_PATH_MAX] = "";

    EST_REQUIRE(exporter);
    EST_REQUIRE(estimator);
    EST_REQUIRE(export_path);
    EST_TRY(est_struct_check(EST_STRUCT_SIZE(est_exporter), exporter));
    EST_REQUIRE(exporter->export_model);
    EST_TRY(EST_CALLBACK(exporter->export_model(exporter, estimator, export_path, checkpoint_path, metrics,
                                                is_the_final_export, written),
                         "export_model"));
    if (path != NULL) snprintf(path, EST_CHECKPOINT_PATH_MAX, "%s", written);
    return EST_OK;
}
