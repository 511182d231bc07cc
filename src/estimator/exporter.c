/* SPDX-License-Identifier: Apache-2.0
 *
 * Exporters: which evaluations are followed by an export, and which exports are kept. */
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
#include "estimator/receiver.h"
#include "train/eval_results.h"

#define KEEP_DEFAULT    5
#define PATTERN_DEFAULT "eval/*.tfevents.*"
#define VERSION_DIGITS  10 /* of the seconds since 1970 from 2001 to 2286 */

/* An exporter of the library. */
typedef struct made {
    est_exporter       exporter; /* what others see; stands first */
    est_arena         *arena;
    est_export_options saved_model; /* lists in the arena */
    est_tensor       **defaults;    /* [n_defaults]: default values of features, owned */
    int                n_defaults;
    int                keep;    /* 0: all */
    est_compare_fn     compare; /* NULL: by exporter.metric */
    void              *compare_user;
    bool               larger_is_better;
    const char        *pattern; /* "": none */

    char        *model_dir; /* whose event files were read; NULL: none yet */
    est_metrics *best;      /* NULL: none is known */

    char last_path[EST_CHECKPOINT_PATH_MAX]; /* of its last export; "": none yet */
} made;

/* --- making one ------------------------------------------------------------------------------------------------------ */

static est_status copy_text(made *x, const char *text, const char **out)
{
    *out = est_arena_strdup(x->arena, text != NULL ? text : "");
    return *out != NULL ? EST_OK : est_no_memory();
}

static est_status copy_specs(made *x, est_serving_input *input)
{
    est_feature_spec *specs = est_arena_alloc(x->arena, (size_t)input->n_parse * sizeof *specs);

    if (specs == NULL) return est_no_memory();
    for (int i = 0; i < input->n_parse; i++) {
        const est_tensor *value = input->parse[i].default_value;
        est_tensor       *copy  = NULL;

        specs[i] = input->parse[i];
        EST_TRY(copy_text(x, input->parse[i].name, &specs[i].name));
        if (value == NULL) continue;
        EST_TRY(
            est_tensor_create_from(est_tensor_dtype(value), *est_tensor_shape(value), est_tensor_data(value), &copy));
        x->defaults[x->n_defaults++] = copy;
        specs[i].default_value       = copy;
    }
    input->parse = specs;
    return EST_OK;
}

static est_status copy_raw(made *x, est_serving_input *input)
{
    est_component *raw = est_arena_alloc(x->arena, (size_t)input->n_raw * sizeof *raw);

    if (raw == NULL) return est_no_memory();
    for (int i = 0; i < input->n_raw; i++) {
        raw[i] = input->raw[i];
        EST_TRY(copy_text(x, input->raw[i].name, &raw[i].name));
    }
    input->raw = raw;
    return EST_OK;
}

static est_status copy_texts(made *x, const char *const *texts, int n, const char *const **out)
{
    const char **copies = est_arena_alloc(x->arena, (size_t)(n + 1) * sizeof *copies);

    if (copies == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) EST_TRY(copy_text(x, texts[i], &copies[i]));
    *out = copies;
    return EST_OK;
}

static est_status copy_alternatives(made *x, est_serving_input *input)
{
    est_receiver_alternative *copies = est_arena_alloc(x->arena, (size_t)input->n_alternatives * sizeof *copies);

    if (copies == NULL) return est_no_memory();
    for (int i = 0; i < input->n_alternatives; i++) {
        copies[i] = input->alternatives[i];
        EST_TRY(copy_text(x, input->alternatives[i].name, &copies[i].name));
        if (copies[i].features != NULL && copies[i].n_features > 0) {
            EST_TRY(copy_texts(x, copies[i].features, copies[i].n_features, &copies[i].features));
        }
    }
    input->alternatives = copies;
    return EST_OK;
}

/* Replaces what an input borrows by copies. */
static est_status copy_input(made *x, est_serving_input *input)
{
    if (input->parse != NULL && input->n_parse > 0) EST_TRY(copy_specs(x, input));
    if (input->raw != NULL && input->n_raw > 0) EST_TRY(copy_raw(x, input));
    if (input->alternatives != NULL && input->n_alternatives > 0) EST_TRY(copy_alternatives(x, input));
    return EST_OK;
}

static est_status copy_saved_model(made *x, const est_export_options *given)
{
    est_export_options *o         = &x->saved_model;
    est_serving_input  *inputs[3] = { &o->input, &o->train_input, &o->eval_input };
    size_t              room      = 1;

    *o                 = *given;
    o->struct_size     = EST_STRUCT_SIZE(est_export_options);
    o->checkpoint_path = NULL;
    for (int i = 0; i < 3; i++) room += (size_t)(inputs[i]->n_parse > 0 ? inputs[i]->n_parse : 0);
    x->defaults = est_arena_alloc(x->arena, room * sizeof(est_tensor *));
    if (x->defaults == NULL) return est_no_memory();
    for (int i = 0; i < 3; i++) EST_TRY(copy_input(x, inputs[i]));
    return copy_texts(x, given->assets_extra, 2 * given->n_assets_extra, &o->assets_extra);
}

static est_status check_options(const char *name, const est_exporter_options *o)
{
    if (name == NULL || name[0] == '\0') return est_fail(EST_INVALID_ARGUMENT, "an exporter needs a name");
    if (strchr(name, '/') != NULL || strcmp(name, "..") == 0 || strcmp(name, ".") == 0) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: its name is that of a directory and takes no /", name);
    }
    if (o->exports_to_keep < 0 && o->exports_to_keep != EST_OFF) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "exporter %s: exports_to_keep is %d; it takes a number, 0 for %d, or EST_OFF", name,
                        o->exports_to_keep, KEEP_DEFAULT);
    }
    if (o->saved_model.n_assets_extra < 0 ||
        (o->saved_model.n_assets_extra > 0 && o->saved_model.assets_extra == NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: n_assets_extra is %d and there are none", name,
                        o->saved_model.n_assets_extra);
    }
    if (!est_receiver_given(&o->saved_model.input) && !est_receiver_given(&o->saved_model.train_input) &&
        !est_receiver_given(&o->saved_model.eval_input)) {
        return est_fail(EST_INVALID_ARGUMENT, "exporter %s: saved_model.input must say what the model is fed", name);
    }
    return EST_OK;
}

static est_status fill(made *x, const char *name, bool compares, const est_exporter_options *given)
{
    est_exporter_options o;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_exporter_options), given, &o));
    EST_TRY(check_options(name, &o));
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
    return copy_saved_model(x, &o.saved_model);
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
    est_free(x->model_dir);
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
    x->exporter = (est_exporter){ .export_model = export_model, .free = free_made, .check = check_made };
    if (fill(x, name, compares, options) == EST_OK) return &x->exporter;
    free_made(&x->exporter);
    return NULL;
}

/* --- garbage collection ---------------------------------------------------------------------------------------------- */

static int is_version(const struct dirent *entry)
{
    size_t n = strspn(entry->d_name, "0123456789");

    return n == VERSION_DIGITS && entry->d_name[n] == '\0';
}

/* Removes all but the newest by name, and never `made_now`: after the clock was set back its number is not the largest. One
 * that cannot be removed is no reason to fail a training. */
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

/* --- best ------------------------------------------------------------------------------------------------------------ */

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

/* The best result of another step than `step`. Results from before the model had the metric do not count. */
static est_status best_of(const made *x, const est_eval_results *results, double step, est_metrics **out)
{
    est_metrics *best = NULL;

    for (int i = 0; i < results->n; i++) {
        est_metrics *candidate = NULL;
        bool         better    = false, counts;
        est_status   status;

        if ((double)results->data[i].step == step) continue;
        status = metrics_of(&results->data[i], &candidate);
        counts = status == EST_OK && (x->compare != NULL || has_metric(candidate, x->exporter.metric));
        better = counts && best == NULL;
        if (counts && best != NULL) status = is_better(x, best, candidate, &better);
        if (status != EST_OK) {
            est_metrics_free(candidate);
            est_metrics_free(best);
            return status;
        }
        est_metrics_free(better ? best : candidate);
        if (better) best = candidate;
    }
    *out = best;
    return EST_OK;
}

/* The best of the evaluations before `current`, whose result is in the event files, too; NULL: there are none. */
static est_status load_best(made *x, const char *model_dir, const est_metrics *current)
{
    est_eval_results results = { 0 };
    est_strbuf       pattern = { 0 };
    est_metrics     *best    = NULL;
    char            *dir     = est_strdup(model_dir);
    est_status       status;

    est_log_info("Loading best metric from event files.");
    est_strbuf_printf(&pattern, "%s/%s", model_dir, x->pattern);
    status = dir == NULL ? est_no_memory() : est_strbuf_status(&pattern);
    if (status == EST_OK) status = est_eval_results_glob(&results, est_strbuf_text(&pattern));
    if (status == EST_OK) status = best_of(x, &results, est_metrics_get(current, "global_step"), &best);
    est_eval_results_clear(&results);
    est_strbuf_clear(&pattern);
    if (status != EST_OK) {
        est_free(dir);
        return status;
    }
    est_free(x->model_dir);
    est_metrics_free(x->best);
    x->model_dir = dir;
    x->best      = best;
    return EST_OK;
}

/* Whether a directory has an export already. */
static bool has_export(const char *base)
{
    struct dirent **entries = NULL;
    int             n       = scandir(base, &entries, is_version, NULL);

    for (int i = 0; i < n; i++) free(entries[i]); /* the C library's, as is the list */
    free(entries);
    return n > 0;
}

/* Whether an evaluation is to be followed by an export. The first of a directory is, even when it is worse than one
 * that was evaluated before: there would be none otherwise. */
static est_status wants_best(made *x, const est_estimator *estimator, const char *base, const est_metrics *metrics,
                             bool *out)
{
    const char *model_dir = est_estimator_model_dir(estimator);

    if (x->pattern[0] != '\0' && (x->model_dir == NULL || strcmp(x->model_dir, model_dir) != 0)) {
        EST_TRY(load_best(x, model_dir, metrics));
    }
    *out = x->best == NULL || !has_export(base);
    return *out ? EST_OK : is_better(x, x->best, metrics, out);
}

/* --- exporting ------------------------------------------------------------------------------------------------------- */

static est_status export_now(made *x, est_estimator *estimator, const char *base, const char *checkpoint_path,
                             char path[EST_CHECKPOINT_PATH_MAX])
{
    est_export_options options = x->saved_model;

    options.checkpoint_path = checkpoint_path;
    EST_TRY(est_export_saved_model(estimator, base, &options, path));
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
    EST_TRY(export_now(x, estimator, base, checkpoint_path, path));
    return collect_garbage(x, base, path);
}

static est_status export_final(est_exporter *exporter, est_estimator *estimator, const char *base,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char path[EST_CHECKPOINT_PATH_MAX])
{
    (void)metrics;
    if (!is_the_final_export) return EST_OK;
    est_log_info("Performing the final export in the end of training.");
    return export_now(EST_CONTAINER_OF(exporter, made, exporter), estimator, base, checkpoint_path, path);
}

static est_status export_best(est_exporter *exporter, est_estimator *estimator, const char *base,
                              const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                              char path[EST_CHECKPOINT_PATH_MAX])
{
    made        *x      = EST_CONTAINER_OF(exporter, made, exporter);
    est_metrics *best   = NULL;
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
    status = export_now(x, estimator, base, checkpoint_path, path);
    if (status != EST_OK) {
        est_metrics_free(best);
        return status;
    }
    est_metrics_free(x->best);
    x->best = best;
    return collect_garbage(x, base, path);
}

/* --- what others call ------------------------------------------------------------------------------------------------ */

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
    if (exporter != NULL && exporter->free != NULL) exporter->free(exporter);
}

const char *est_exporter_name(const est_exporter *exporter)
{
    return exporter != NULL ? exporter->name : NULL;
}

const char *est_exporter_last_path(const est_exporter *exporter)
{
    if (exporter == NULL) return NULL;
    return exporter->free == free_made ? ((const made *)exporter)->last_path : "";
}

est_status est_exporter_export(est_exporter *exporter, est_estimator *estimator, const char *export_path,
                               const char *checkpoint_path, const est_metrics *metrics, bool is_the_final_export,
                               char path[EST_CHECKPOINT_PATH_MAX])
{
    char written[EST_CHECKPOINT_PATH_MAX] = "";

    EST_REQUIRE(exporter);
    EST_REQUIRE(estimator);
    EST_REQUIRE(export_path);
    EST_REQUIRE(exporter->export_model);
    EST_TRY(EST_CALLBACK(exporter->export_model(exporter, estimator, export_path, checkpoint_path, metrics,
                                                is_the_final_export, written),
                         "export_model"));
    if (path != NULL) snprintf(path, EST_CHECKPOINT_PATH_MAX, "%s", written);
    return EST_OK;
}
