/* SPDX-License-Identifier: Apache-2.0
 *
 * TF_CONFIG: one JSON object with the cluster and this process's place in it.
 *
 *   cluster              {job: ["host:port", ...]}
 *   task                 {"type": job, "index": number, or a string with one}
 *   session_master       where the session of a task runs, instead of its own address; eval_session_master likewise
 *   model_dir, service, environment, rpc_layer
 *
 * A key that is not known is ignored, as TensorFlow does, but with a warning: it is usually misspelt. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/argument.h"
#include "base/log.h"
#include "base/nearest.h"
#include "cluster/cluster.h"

static const char *const top_keys[]  = { "cluster",   "task",    "session_master", "eval_session_master",
                                         "model_dir", "service", "environment",    "rpc_layer" };
static const char *const task_keys[] = { "type", "index" };
static const char *const job_names[] = { "chief", "worker", "ps", "evaluator", "master" };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- misspellings ------------------------------------------------------------------------------------------------- */

/* The known name that `name` probably means: at most one letter in three is wrong. NULL: none, or `name` is known. */
static const char *nearest(const char *name, const char *const *known, size_t n)
{
    const char *best       = NULL;
    size_t      best_wrong = EST_WORD_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t wrong = est_edit_distance(name, known[i]);

        if (wrong == 0) return NULL;
        if (wrong >= best_wrong || 3 * wrong > strlen(known[i])) continue;
        best       = known[i];
        best_wrong = wrong;
    }
    return best;
}

static bool is_known(const char *name, const char *const *known, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, known[i]) == 0) return true;
    }
    return false;
}

/* Warns of keys that are not known; `prefix` stands before their names. */
static void warn_of_keys(const char *what, json_t *object, const char *prefix, const char *const *known, size_t n)
{
    const char *key;
    json_t     *value;

    json_object_foreach(object, key, value)
    {
        const char *meant = nearest(key, known, n);

        if (is_known(key, known, n)) continue;
        if (meant != NULL) {
            est_log_warn("%s: %s%.80s is not known and not used; did you mean %s%s?", what, prefix, key, prefix, meant);
        } else {
            est_log_warn("%s: %s%.80s is not known and not used", what, prefix, key);
        }
    }
}

/* Any name of a job is allowed; one that is almost a known name gets a warning. */
static void warn_of_jobs(const char *what, const est_cluster *cluster)
{
    for (int i = 0; i < est_cluster_jobs(cluster); i++) {
        const char *job = est_cluster_job(cluster, i), *meant = nearest(job, job_names, COUNT(job_names));

        if (meant != NULL) {
            est_log_warn("%s: the job \"%s\" has no meaning of its own; did you mean \"%s\"?", what, job, meant);
        }
    }
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

/* A string that may be missing or null: *out stays NULL then. */
static est_status take_string(const char *what, const est_json *root, const char *field, const char **out)
{
    const est_json *value = est_json_get(root, "%s", field);

    if (value == NULL || json_is_null(value)) return EST_OK;
    if (!json_is_string(value)) return est_json_wrong(what, field, value, "write a string, or leave it out");
    *out = json_string_value(value);
    return EST_OK;
}

/* "12" or "-3"; -1 when it is anything else, or negative: both are no index. */
static int64_t index_of_text(const char *text)
{
    size_t size = strlen(text);

    if (size == 0 || size > 9 || strspn(text, "0123456789") != size) return -1;
    return strtol(text, NULL, 10);
}

/* The index; est_resolver_make checks its range against the cluster. */
static void take_index(const est_json *task, est_strbuf *text, est_task_given *given)
{
    const est_json *value = est_json_get(task, "index");

    if (value == NULL) return;
    est_json_text(value, EST_VALUE_TEXT_MAX, text);
    given->index_text = est_strbuf_text(text);
    given->index      = -1;
    if (json_is_integer(value)) given->index = json_integer_value(value);
    if (json_is_string(value)) given->index = index_of_text(json_string_value(value));
}

static est_status take_task(const char *what, const est_json *root, est_strbuf *text, est_task_given *given)
{
    est_json *task = est_json_get(root, "task"), *type;

    if (task == NULL) return EST_OK;
    if (!json_is_object(task)) {
        return est_json_wrong(what, "task", task, "write an object, as {\"type\": \"worker\", \"index\": 0}");
    }
    warn_of_keys(what, task, "task.", task_keys, COUNT(task_keys));
    type = est_json_get(task, "type");
    if (type != NULL && !json_is_string(type)) {
        return est_json_wrong(what, "task.type", type, "write the name of a job in quotes, as \"worker\"");
    }
    given->type = json_string_value(type);
    take_index(task, text, given);
    return EST_OK;
}

static est_status take_model_dir(const char *what, const est_json *root, est_task_given *given)
{
    EST_TRY(take_string(what, root, "model_dir", &given->model_dir));
    if (given->model_dir == NULL || given->model_dir[0] != '\0') return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "%s: model_dir is \"\"; write the path of a directory, or leave it out",
                    what);
}

/* Opaque, as in TensorFlow: only the program reads it. */
static est_status take_service(const char *what, const est_json *root, est_strbuf *text, est_task_given *given)
{
    const est_json *service = est_json_get(root, "service");

    if (service == NULL || json_is_null(service)) return EST_OK;
    if (!json_is_object(service)) {
        return est_json_wrong(what, "service", service, "write an object, or leave it out");
    }
    est_json_text(service, 0, text);
    given->service = est_strbuf_text(text);
    return EST_OK;
}

/* All fields but the cluster. The texts own what `given` points at. */
static est_status take_fields(const char *what, json_t *root, est_strbuf *index, est_strbuf *service,
                              est_task_given *given)
{
    const char *layer = NULL;

    warn_of_keys(what, root, "", top_keys, COUNT(top_keys));
    EST_TRY(take_string(what, root, "session_master", &given->session_master));
    EST_TRY(take_string(what, root, "eval_session_master", &given->eval_session_master));
    EST_TRY(take_string(what, root, "environment", &given->environment));
    EST_TRY(take_string(what, root, "rpc_layer", &layer));
    EST_TRY(take_model_dir(what, root, given));
    EST_TRY(take_service(what, root, service, given));
    return take_task(what, root, index, given);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static est_status resolve_object(json_t *root, const char *what, const char *described, const est_task_rules *rules,
                                 est_resolver **out)
{
    est_task_given  given   = { .source = { what, "cluster." }, .prefix = "task.", .described = described };
    const est_json *value   = est_json_get(root, "cluster");
    est_cluster    *cluster = NULL;
    est_strbuf      index = { 0 }, service = { 0 };
    est_status      status;

    status = take_fields(what, root, &index, &service, &given);
    if (status == EST_OK) status = est_strbuf_status(&index);
    if (status == EST_OK) status = est_strbuf_status(&service);
    if (status == EST_OK && value != NULL) {
        status = est_cluster_from_json(given.source, value, &cluster);
    } else if (status == EST_OK) {
        status = est_cluster_create((est_jobs){ 0 }, &cluster);
    }
    if (status == EST_OK) {
        warn_of_jobs(what, cluster);
        status = est_resolver_make(cluster, &given, rules, out);
    }
    est_strbuf_clear(&index);
    est_strbuf_clear(&service);
    return status;
}

/* The line that the log has for it; "": none. */
static void describe(const char *what, const est_json *root, est_strbuf *out)
{
    if (json_object_size(root) == 0) return;
    est_strbuf_printf(out, "%s: ", what);
    est_json_text(root, 0, out);
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

static est_status resolve(const char *json, const char *what, bool quiet, const est_task_rules *rules,
                          est_resolver **out)
{
    const char *text = json != NULL ? json : getenv("TF_CONFIG");
    est_strbuf  line = { 0 };
    est_json   *root;
    est_status  status;

    if (text == NULL || (json == NULL && is_blank(text))) text = "{}"; /* an empty variable counts as unset */
    if (is_blank(text)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s is empty; write {} for a program on its own", what);
    }
    EST_TRY(est_json_parse(text, strlen(text), what, &root));
    if (json_is_object(root)) {
        est_json_warn_of_duplicates(text, strlen(text), what);
        describe(json != NULL ? what : "TF_CONFIG environment variable", root, &line);
        if (!quiet && line.size > 0) est_log_info("%s", est_strbuf_text(&line));
        status = est_strbuf_status(&line);
        if (status == EST_OK) status = resolve_object(root, what, est_strbuf_text(&line), rules, out);
    } else {
        status = est_json_wrong(what, "the whole", root, "write an object with \"cluster\" and \"task\"");
    }
    est_strbuf_clear(&line);
    est_json_free(root);
    return status;
}

est_status est_resolve_text(const char *json, const char *what, const est_task_rules *rules, est_resolver **out)
{
    return resolve(json, what, false, rules, out);
}

est_status est_resolve_quietly(const char *json, const est_task_rules *rules, est_resolver **out)
{
    return resolve(json != NULL && is_blank(json) ? "{}" : json, json != NULL ? "cluster_json" : "TF_CONFIG", true,
                   rules, out);
}

est_status est_resolve_tf_config(const char *json, const est_task_rules *rules, est_resolver **out)
{
    EST_REQUIRE(out);
    return est_resolve_text(json != NULL && is_blank(json) ? "{}" : json, "TF_CONFIG", rules, out);
}
