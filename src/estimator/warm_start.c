/* SPDX-License-Identifier: Apache-2.0
 *
 * Warm start: initializes variables from another run's checkpoint. Variables are matched by name or by a rename; rows
 * or columns of a vocabulary are matched by the entries of the old and the new vocabulary. */
#include <inttypes.h>
#include <regex.h>
#include <string.h>

#include "base/fingerprint.h"
#include "base/log.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "estimator/estimator.h"
#include "estoc/layers.h"
#include "estoc/saver.h"
#include "format/lines.h"
#include "kernels/row_table.h"
#include "ops/ops.h"
#include "runtime/session.h"

#define ALL_VARIABLES ".*"

/* --- vocabularies ------------------------------------------------------------------------------------------------- */

/* The entries of a vocabulary file with their numbers, 1 + line from 0 as a pointer's value. */
typedef struct vocabulary {
    est_map entries;
    int64_t n;
} vocabulary;

static est_status vocabulary_read(const char *path, int64_t size, vocabulary *out)
{
    est_lines *lines = NULL;
    est_str    line;
    est_status status = est_lines_open(path, NULL, &lines);

    if (status != EST_OK) return est_fail_context(status, "vocabulary");
    while ((size == 0 || out->n < size) && (status = est_lines_next(lines, &line)) == EST_OK) {
        out->n++;
        if (est_map_get_bytes(&out->entries, line.data, line.size) != NULL) continue; /* the first one counts */
        status = est_map_put_bytes(&out->entries, line.data, line.size, (void *)(uintptr_t)out->n);
        if (status != EST_OK) break;
    }
    est_lines_close(lines);
    if (status != EST_OK && status != EST_OUT_OF_RANGE) return status;
    if (size > 0 && out->n < size) {
        return est_fail(EST_INVALID_ARGUMENT, "%s has %" PRId64 " entries, %" PRId64 " were requested", path, out->n,
                        size);
    }
    return EST_OK;
}

/* A variable seen as blocks along an axis: n entries, each of `outer` runs of `inner` bytes. */
typedef struct blocks {
    char   *data;
    int64_t n, outer;
    size_t  inner;
} blocks;

static blocks blocks_of(void *data, const est_shape *shape, est_dtype dtype, int axis)
{
    blocks b = { .data = data, .n = shape->dim[axis], .outer = 1, .inner = est_dtype_size(dtype) };

    for (int i = 0; i < axis; i++) b.outer *= shape->dim[i];
    for (int i = axis + 1; i < shape->rank; i++) b.inner *= (size_t)shape->dim[i];
    return b;
}

/* Copies entry j of `from` to entry i of `to`; j below 0: zeros. */
static void copy_entry(const blocks *to, int64_t i, const blocks *from, int64_t j)
{
    for (int64_t o = 0; o < to->outer; o++) {
        char *at = to->data + (size_t)(o * to->n + i) * to->inner;

        if (j >= 0) memcpy(at, from->data + (size_t)(o * from->n + j) * from->inner, to->inner);
        if (j < 0) memset(at, 0, to->inner);
    }
}

static bool starts_at_zero(const est_vocab_info *info)
{
    return !info->initial && info->backup.make == NULL;
}

/* Moves the entries of `old` that the new vocabulary still has to their places in `value`. The others keep their
 * values, or become 0. */
static est_status remap(const est_vocab_info *info, est_tensor *old, est_tensor *value)
{
    const est_shape *new_shape = est_tensor_shape(value), *old_shape = est_tensor_shape(old);
    vocabulary       old_vocab = { 0 }, new_vocab = { 0 };
    est_status       status;
    blocks           to, from;
    uint32_t         at = 0;
    const char      *entry;
    void            *number;

    if (info->axis < 0 || info->axis >= new_shape->rank || old_shape->rank != new_shape->rank ||
        est_tensor_dtype(old) != est_tensor_dtype(value)) {
        return est_fail(EST_INVALID_ARGUMENT, "axis %d: it is not of the same kind as in the checkpoint", info->axis);
    }
    to     = blocks_of(est_tensor_mutable_data(value), new_shape, est_tensor_dtype(value), info->axis);
    from   = blocks_of(est_tensor_mutable_data(old), old_shape, est_tensor_dtype(old), info->axis);
    status = vocabulary_read(info->old_vocab, info->old_vocab_size, &old_vocab);
    if (status == EST_OK) status = vocabulary_read(info->new_vocab, info->new_vocab_size, &new_vocab);
    if (status == EST_OK && (new_vocab.n + info->num_oov_buckets != to.n || old_vocab.n > from.n ||
                             to.outer != from.outer || to.inner != from.inner)) {
        status = est_fail(EST_INVALID_ARGUMENT,
                          "it has %" PRId64 " entries along axis %d, the new vocabulary %" PRId64 " and %" PRId64
                          " out-of-vocabulary buckets; in the checkpoint %" PRId64 ", the old vocabulary %" PRId64,
                          to.n, info->axis, new_vocab.n, info->num_oov_buckets, from.n, old_vocab.n);
    }
    for (int64_t i = 0; status == EST_OK && starts_at_zero(info) && i < to.n; i++) copy_entry(&to, i, &from, -1);
    while (status == EST_OK && est_map_next(&new_vocab.entries, &at, &entry, &number)) {
        const est_map_entry *full = &new_vocab.entries.entries[at - 1];
        void                *was  = est_map_get_bytes(&old_vocab.entries, full->key, full->key_size);

        if (was != NULL) copy_entry(&to, (int64_t)(uintptr_t)number - 1, &from, (int64_t)(uintptr_t)was - 1);
    }
    est_map_clear(&old_vocab.entries);
    est_map_clear(&new_vocab.entries);
    return status;
}

/* --- which variables ---------------------------------------------------------------------------------------------- */

typedef struct selection {
    const est_warm_start *warm_start;
    regex_t               pattern;
    est_map               trainable; /* names; only these are warm-started unless `all` is set */
    est_map               selected;  /* names of the warm-started variables */
} selection;

static const est_vocab_info *vocab_of(const est_warm_start *warm_start, const char *variable)
{
    for (int i = 0; i < warm_start->vocabs.n; i++) {
        if (strcmp(warm_start->vocabs.data[i].variable, variable) == 0) return &warm_start->vocabs.data[i];
    }
    return NULL;
}

static bool is_selected(const selection *s, const char *variable)
{
    if (s->warm_start->only_vocabs) return vocab_of(s->warm_start, variable) != NULL;
    if (strcmp(variable, "global_step") == 0) return false; /* a new run counts its own steps */
    if (!s->warm_start->all && est_map_get(&s->trainable, variable) == NULL) return false;
    return regexec(&s->pattern, variable, 0, NULL, 0) == 0;
}

static est_status compile(const char *text, regex_t *out)
{
    est_strbuf anchored = { 0 };
    char       why[200];
    est_status status;
    int        error;

    est_strbuf_printf(&anchored, "^(%s)", text);
    status = est_strbuf_status(&anchored);
    if (status == EST_OK) {
        error = regcomp(out, est_strbuf_text(&anchored), REG_EXTENDED | REG_NOSUB);
        if (error != 0) {
            regerror(error, out, why, sizeof why);
            status = est_fail(EST_INVALID_ARGUMENT, "warm_start.variables \"%s\": %s", text, why);
        }
    }
    est_strbuf_clear(&anchored);
    return status;
}

static const char *stored_name(const selection *s, const char *variable)
{
    for (int i = 0; i < s->warm_start->renames.n; i++) {
        if (strcmp(s->warm_start->renames.data[i].variable, variable) == 0)
            return s->warm_start->renames.data[i].stored;
    }
    return variable;
}

static est_status write_whole(est_session *session, const char *variable, const est_tensor *old)
{
    est_status status = est_session_write(session, variable, old);

    if (status != EST_INVALID_ARGUMENT) return status;
    return est_fail(status,
                    "%s in the checkpoint; name it in .vocabs if it has the rows of a vocabulary that changed, or give "
                    ".variables a regex that leaves it out",
                    est_error_message());
}

/* A value of the variable's dtype and shape by the backup initializer, computed in a separate graph, since the model's
 * graph already has sessions. An initializer without a seed uses the run's seed and the variable's name. */
static est_status draw_backup(est_initializer backup, est_node variable, est_tensor **out)
{
    const char  *name    = est_node_name(variable);
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_status   status  = est_graph_create(est_graph_seed(variable.graph), &graph);
    est_node     value;

    if (status != EST_OK) return status;
    if (backup.seed == 0) backup.seed = est_fingerprint64(name, strlen(name)) | 1;
    value  = est_initial_value(backup, graph, est_variable_dtype(variable), *est_node_shape(variable));
    status = est_graph_status(graph);
    if (status == EST_OK)
        status = est_session_create(graph, EST_SESSION(.seed = 1, .devices = EST_STRINGS("/cpu:0")), &session);
    if (status == EST_OK) status = est_session_run(session, EST_NO_FEEDS, EST_NODES(value), EST_NO_NODES, out);
    est_session_free(session);
    est_graph_free(graph);
    return status == EST_OK ? EST_OK : est_fail_context(status, "backup initializer");
}

static est_status start_variable(const selection *s, const est_checkpoint *from, est_session *session, est_node handle)
{
    const char           *variable = est_node_name(handle);
    const est_vocab_info *vocab    = vocab_of(s->warm_start, variable);
    est_tensor           *old = NULL, *value = NULL;
    est_status            status;

    status = est_checkpoint_read(from, stored_name(s, variable), &old);
    if (status == EST_OK && vocab == NULL) status = write_whole(session, variable, old);
    if (status == EST_OK && vocab != NULL) {
        status = vocab->backup.make != NULL ? draw_backup(vocab->backup, handle, &value)
                                            : est_session_read(session, variable, &value);
        if (status == EST_OK) status = remap(vocab, old, value);
        if (status == EST_OK) status = est_session_write(session, variable, value);
    }
    est_tensor_free(old);
    est_tensor_free(value);
    return status == EST_OK ? EST_OK : est_fail_context(status, "variable %s", variable);
}

/* Whether a variable is a dynamic embedding or holds its keys, but not the history of admission. */
static bool is_of_rows(void *user, const char *variable)
{
    static const char *const parts[] = { "", "/keys", "/last_seen", "/older", "/steps", EST_KEY_DTYPE_PART };

    const char *embedding = *(const char *const *)user;
    size_t      size      = strlen(embedding);

    if (strncmp(variable, embedding, size) != 0) return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(variable + size, parts[i]) == 0) return true;
    }
    return false;
}

/* A dynamic embedding starts with the keys of the checkpoint. */
static est_status start_rows(const selection *s, est_session *session, const char *variable)
{
    est_status status;

    if (vocab_of(s->warm_start, variable) != NULL || strcmp(stored_name(s, variable), variable) != 0) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "variable %s is a dynamic embedding, which cannot have a vocabulary or a rename", variable);
    }
    status = est_saver_restore(NULL, session,
                               EST_RESTORE(.path = s->warm_start->path, .filter = is_of_rows, .user = &variable), NULL);
    return status == EST_OK ? EST_OK : est_fail_context(status, "variable %s", variable);
}

/* A rename or a vocabulary for a variable that is not warm-started is a mistake. */
static est_status check_names(const selection *s)
{
    const est_warm_start *w = s->warm_start;

    for (int i = 0; i < w->renames.n + w->vocabs.n; i++) {
        const char *variable = i < w->renames.n ? w->renames.data[i].variable
                                                : w->vocabs.data[i - w->renames.n].variable;

        if (est_map_get(&s->selected, variable) != NULL) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s names the variable %s, which is not warm-started",
                        i < w->renames.n ? "renames" : "vocabs", variable);
    }
    return EST_OK;
}

static est_status start_all(selection *s, const est_graph *graph, const est_checkpoint *from, est_session *session)
{
    est_nodes variables = est_global_variables(graph); /* checkpoints do not hold the state of metrics */
    int       n         = 0;

    for (int i = 0; i < variables.n; i++) {
        const char *variable = est_node_name(variables.data[i]);

        if (is_selected(s, variable)) EST_TRY(est_map_put(&s->selected, variable, s));
    }
    EST_TRY(check_names(s));
    for (int i = 0; i < variables.n; i++) {
        const char *variable = est_node_name(variables.data[i]);

        if (est_map_get(&s->selected, variable) == NULL) continue;
        EST_TRY(est_has_rows(variables.data[i]) ? start_rows(s, session, variable)
                                                : start_variable(s, from, session, variables.data[i]));
        n++;
    }
    est_log_info("Warm-started %d variables.", n);
    return EST_OK;
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static void put_text(est_strbuf *out, const char *before, const char *text)
{
    est_strbuf_append(out, before);
    est_strbuf_append_json(out, text, strlen(text));
}

static void put_vocab(est_strbuf *out, const est_vocab_info *vocab)
{
    put_text(out, "", vocab->variable);
    put_text(out, ": {\"new_vocab\": ", vocab->new_vocab);
    put_text(out, ", \"old_vocab\": ", vocab->old_vocab);
    est_strbuf_printf(out,
                      ", \"new_vocab_size\": %" PRId64 ", \"old_vocab_size\": %" PRId64
                      ", \"num_oov_buckets\": %" PRId64 ", \"axis\": %d, \"initial\": %s, \"backup\": %s}",
                      vocab->new_vocab_size, vocab->old_vocab_size, vocab->num_oov_buckets, vocab->axis,
                      vocab->initial ? "true" : "false", vocab->backup.make != NULL ? "true" : "false");
}

/* All settings as one line of JSON. */
static void log_settings(const est_warm_start *w)
{
    est_strbuf text = { 0 };

    if (!est_log_on(EST_LOG_INFO)) return;
    put_text(&text, "{\"path\": ", w->path);
    put_text(&text, ", \"variables\": ", w->variables != NULL ? w->variables : ALL_VARIABLES);
    est_strbuf_printf(&text, ", \"all\": %s, \"only_vocabs\": %s, \"renames\": {", w->all ? "true" : "false",
                      w->only_vocabs ? "true" : "false");
    for (int i = 0; i < w->renames.n; i++) {
        put_text(&text, i > 0 ? ", " : "", w->renames.data[i].variable);
        put_text(&text, ": ", w->renames.data[i].stored);
    }
    est_strbuf_append(&text, "}, \"vocabs\": {");
    for (int i = 0; i < w->vocabs.n; i++) {
        est_strbuf_append(&text, i > 0 ? ", " : "");
        put_vocab(&text, &w->vocabs.data[i]);
    }
    est_log_info("Warm-starting with WarmStartSettings: %s}}", est_strbuf_text(&text));
    est_strbuf_clear(&text);
}

est_status est_warm_start_apply(const est_warm_start *warm_start, const est_graph *graph, est_session *session)
{
    selection       s         = { .warm_start = warm_start };
    est_nodes       trainable = est_trainable_variables(graph);
    est_checkpoint *from      = NULL;
    est_status      status = compile(warm_start->variables != NULL ? warm_start->variables : ALL_VARIABLES, &s.pattern);

    if (status != EST_OK) return status;
    for (int i = 0; i < trainable.n && status == EST_OK; i++) {
        status = est_map_put(&s.trainable, est_node_name(trainable.data[i]), &s);
    }
    log_settings(warm_start);
    est_log_info("Warm-starting from: %s", warm_start->path);
    if (status == EST_OK) status = est_checkpoint_open(warm_start->path, &from);
    if (status == EST_OK) status = start_all(&s, graph, from, session);
    est_checkpoint_close(from);
    est_map_clear(&s.trainable);
    est_map_clear(&s.selected);
    regfree(&s.pattern);
    return status == EST_OK ? EST_OK : est_fail_context(status, "warm start from %s", warm_start->path);
}
