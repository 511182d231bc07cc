/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of an export before it is published. The files are read back as a server would: the message is parsed, the
 * graph behind the signatures imported into a new graph, its variables restored from the export's own checkpoint. Then
 * both models get the same rows and must give the same answers.
 *
 * The nodes that save and restore are TensorFlow's business and left out here. Numbers may differ a little: lowering
 * replaces some of our ops by several of TensorFlow's, which round in between. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "estimator/export.h"
#include "graph/import.h"
#include "graph/op.h"
#include "ops/ops.h"

#define RELATIVE 1e-5 /* of the number itself */
#define ABSOLUTE 1e-6 /* of the largest number of the tensor: what is left where large terms cancel */

typedef struct check {
    const est_export_model *e;
    est_arena              *arena;
    est_meta_graph_def     *meta; /* as it was read */
    est_graph              *graph;
    est_session            *session;
    est_tensor            **feeds; /* [n_inputs] of the receiver */
} check;

static est_status no_memory(void)
{
    return est_fail(EST_RESOURCE_EXHAUSTED, "no memory to check an export");
}

/* --- reading it back ------------------------------------------------------------------------------------------------- */

static est_status read_message(check *c, const char *dir)
{
    const char     *tag  = EST_SERVING_TAG;
    const char     *path = est_arena_printf(c->arena, "%s/saved_model.pb", dir);
    est_saved_model model;
    char           *bytes = NULL;
    size_t          size  = 0;
    est_status      status;

    if (path == NULL) return no_memory();
    EST_TRY(est_file_read(path, &bytes, &size));
    status = est_saved_model_parse((est_str){ bytes, size }, c->arena, &model);
    est_free(bytes);
    EST_TRY(status);
    return est_saved_model_find(&model, &tag, 1, &c->meta);
}

/* "name:1" as a name and a number. */
static est_status split_tensor_name(check *c, const char *tensor, const char **name, int *output)
{
    const char *colon = strrchr(tensor, ':');
    char       *copy  = est_arena_strdup(c->arena, tensor);

    if (copy == NULL) return no_memory();
    if (colon == NULL) return est_fail(EST_DATA_LOSS, "the tensor %s has no number of an output", tensor);
    copy[colon - tensor] = '\0';
    *name                = copy;
    *output              = (int)strtol(colon + 1, NULL, 10);
    return EST_OK;
}

/* Which nodes of the message signatures need. */
typedef struct reach {
    est_map  names; /* name -> 1 + position */
    bool    *needed;
    int32_t *stack;
    int      depth;
} reach;

static est_status reach_name(reach *r, const char *name, size_t size)
{
    uintptr_t at = (uintptr_t)est_map_get_bytes(&r->names, name, size);

    if (at == 0) return est_fail(EST_DATA_LOSS, "the exported graph has no node %.*s", (int)size, name);
    if (!r->needed[at - 1]) {
        r->needed[at - 1]    = true;
        r->stack[r->depth++] = (int32_t)(at - 1);
    }
    return EST_OK;
}

static est_status reach_input(reach *r, const char *input)
{
    const char *name  = input[0] == '^' ? input + 1 : input;
    const char *colon = strrchr(name, ':');

    return reach_name(r, name, colon != NULL ? (size_t)(colon - name) : strlen(name));
}

static est_status reach_signatures(check *c, reach *r)
{
    for (int s = 0; s < c->meta->n_signatures; s++) {
        const est_tensor_infos *lists[2] = { &c->meta->signatures[s].inputs, &c->meta->signatures[s].outputs };

        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < lists[k]->n; i++) EST_TRY(reach_input(r, lists[k]->items[i].name));
        }
    }
    return EST_OK;
}

static est_status reach_all(check *c, reach *r)
{
    const est_graph_def *def = &c->meta->graph;

    for (int i = 0; i < def->n_nodes; i++) {
        EST_TRY(est_map_put(&r->names, def->nodes[i]->name, (void *)(uintptr_t)(i + 1)));
    }
    EST_TRY(reach_signatures(c, r));
    while (r->depth > 0) {
        const est_graph_def_node *node = def->nodes[r->stack[--r->depth]];

        for (int i = 0; i < node->inputs.n; i++) EST_TRY(reach_input(r, node->inputs.items[i]));
    }
    return EST_OK;
}

/* Leaves only what signatures need in the graph that was read. */
static est_status prune(check *c)
{
    est_graph_def *def  = &c->meta->graph;
    size_t         room = (size_t)def->n_nodes + 1;
    reach          r    = { .needed = est_arena_alloc(c->arena, room * sizeof *r.needed),
                            .stack  = est_arena_alloc(c->arena, room * sizeof *r.stack) };
    est_status     status;
    int            n = 0;

    if (r.needed == NULL || r.stack == NULL) return no_memory();
    status = reach_all(c, &r);
    est_map_clear(&r.names);
    EST_TRY(status);
    for (int i = 0; i < def->n_nodes; i++) {
        if (r.needed[i]) def->nodes[n++] = def->nodes[i];
    }
    def->n_nodes = n;
    return EST_OK;
}

static est_status load(check *c, const char *dir)
{
    EST_TRY(read_message(c, dir));
    EST_TRY(prune(c));
    EST_TRY(est_graph_create(0, &c->graph));
    EST_TRY(est_graph_import(&c->meta->graph, est_op_find, c->graph));
    EST_TRY(est_session_create(c->graph, EST_SESSION(.threads = c->e->model->config->threads), &c->session));
    if (est_session_variables(c->session) == 0) return EST_OK;
    return est_saver_restore(NULL, c->session, EST_RESTORE(.path = dir), NULL);
}

/* --- comparing ------------------------------------------------------------------------------------------------------- */

static est_status compare_variables(check *c)
{
    for (int i = 0; i < est_session_variables(c->session); i++) {
        const char *name = est_session_variable(c->session, i);
        est_tensor *ours = NULL, *theirs = NULL;
        est_status  status = est_session_read(c->session, name, &theirs);

        if (status == EST_OK) status = est_session_read(c->e->session, name, &ours);
        if (status == EST_OK && (!est_shape_equal(est_tensor_shape(ours), est_tensor_shape(theirs)) ||
                                 memcmp(est_tensor_data(ours), est_tensor_data(theirs), est_tensor_bytes(ours)) != 0)) {
            status = est_fail(EST_DATA_LOSS, "the variable %s that was written is not the one of the model", name);
        }
        est_tensor_free(ours);
        est_tensor_free(theirs);
        EST_TRY(status);
    }
    return EST_OK;
}

static double number_at(const est_tensor *tensor, int64_t i)
{
    const void *data = est_tensor_data(tensor);

    switch (est_tensor_dtype(tensor)) {
    case EST_F32: return (double)((const float *)data)[i];
    case EST_F64: return ((const double *)data)[i];
    case EST_I32: return (double)((const int32_t *)data)[i];
    case EST_I64: return (double)((const int64_t *)data)[i];
    default: return (double)((const uint8_t *)data)[i];
    }
}

static bool same_number(double a, double b, double largest)
{
    if (a == b || (isnan(a) && isnan(b))) return true;
    return fabs(a - b) <= RELATIVE * fabs(a) + ABSOLUTE * largest; /* false for infinities and NaN */
}

static est_status differ(const char *signature, const char *output, int64_t i, double ours, double theirs)
{
    return est_fail(EST_DATA_LOSS,
                    "signature %s, output %s, element %" PRId64 ": the exported model gives %.9g, the trained one %.9g",
                    signature, output, i, theirs, ours);
}

static est_status compare_numbers(const char *signature, const char *output, const est_tensor *ours,
                                  const est_tensor *theirs)
{
    bool   floats  = est_tensor_dtype(ours) == EST_F32 || est_tensor_dtype(ours) == EST_F64;
    double largest = 0;

    for (int64_t i = 0; floats && i < est_tensor_count(ours); i++) {
        double x = fabs(number_at(ours, i));

        if (isfinite(x) && x > largest) largest = x;
    }
    for (int64_t i = 0; i < est_tensor_count(ours); i++) {
        double a = number_at(ours, i), b = number_at(theirs, i);

        if (EST_FAULT_POINT("export.compare")) b += 1;
        if (floats ? !same_number(a, b, largest) : a != b) return differ(signature, output, i, a, b);
    }
    return EST_OK;
}

static est_status compare_strings(const char *signature, const char *output, const est_tensor *ours,
                                  const est_tensor *theirs)
{
    const est_str *a = est_tensor_data(ours), *b = est_tensor_data(theirs);

    for (int64_t i = 0; i < est_tensor_count(ours); i++) {
        if (a[i].size == b[i].size && (a[i].size == 0 || memcmp(a[i].data, b[i].data, a[i].size) == 0)) continue;
        return est_fail(EST_DATA_LOSS,
                        "signature %s, output %s, element %" PRId64
                        ": the exported model gives \"%.*s\", the trained one \"%.*s\"",
                        signature, output, i, (int)b[i].size, b[i].data, (int)a[i].size, a[i].data);
    }
    return EST_OK;
}

static est_status compare(const char *signature, const char *output, const est_tensor *ours, const est_tensor *theirs)
{
    char a[EST_SHAPE_TEXT_MAX], b[EST_SHAPE_TEXT_MAX];

    if (est_tensor_dtype(ours) != est_tensor_dtype(theirs) ||
        !est_shape_equal(est_tensor_shape(ours), est_tensor_shape(theirs))) {
        return est_fail(EST_DATA_LOSS, "signature %s, output %s: the exported model gives %s %s, the trained one %s %s",
                        signature, output, est_dtype_name(est_tensor_dtype(theirs)),
                        est_shape_text(est_tensor_shape(theirs), b), est_dtype_name(est_tensor_dtype(ours)),
                        est_shape_text(est_tensor_shape(ours), a));
    }
    return est_tensor_dtype(ours) == EST_STRING ? compare_strings(signature, output, ours, theirs)
                                                : compare_numbers(signature, output, ours, theirs);
}

/* --- running --------------------------------------------------------------------------------------------------------- */

/* The tensor of the imported graph that a signature names. */
static est_status find_node(check *c, const est_tensor_infos *infos, const char *signature, const char *key,
                            est_node *out)
{
    const est_tensor_info *info = est_tensor_infos_find(infos, key);
    const char            *name;
    int                    output;

    if (info == NULL) return est_fail(EST_DATA_LOSS, "signature %s has no %s", signature, key);
    EST_TRY(split_tensor_name(c, info->name, &name, &output));
    *out = est_graph_find(c->graph, name);
    if (out->graph == NULL) return est_fail(EST_DATA_LOSS, "signature %s: there is no node %s", signature, name);
    out->output = output;
    return EST_OK;
}

/* What the model itself gives for the rows. */
static est_status run_ours(check *c, const est_model_export *s, est_tensor **out)
{
    int       n     = c->e->receiver.n_inputs;
    est_feed *feeds = est_arena_alloc(c->arena, (size_t)(n + 1) * sizeof *feeds);
    est_node *nodes = est_arena_alloc(c->arena, (size_t)(s->n_outputs + 1) * sizeof *nodes);

    if (feeds == NULL || nodes == NULL) return no_memory();
    for (int i = 0; i < n; i++) feeds[i] = (est_feed){ c->e->receiver.inputs[i].node, c->feeds[i] };
    for (int i = 0; i < s->n_outputs; i++) nodes[i] = s->outputs[i].node;
    return est_session_run(c->e->session, (est_feeds){ feeds, n }, (est_nodes){ nodes, s->n_outputs }, EST_NO_NODES,
                           out);
}

static est_status run_theirs(check *c, const est_model_export *s, est_tensor **out)
{
    const est_signature_def *def   = est_meta_graph_def_signature(c->meta, s->key);
    int                      n     = c->e->receiver.n_inputs;
    est_feed                *feeds = est_arena_alloc(c->arena, (size_t)(n + 1) * sizeof *feeds);
    est_node                *nodes = est_arena_alloc(c->arena, (size_t)(s->n_outputs + 1) * sizeof *nodes);

    if (feeds == NULL || nodes == NULL) return no_memory();
    if (def == NULL) return est_fail(EST_DATA_LOSS, "there is no signature %s", s->key);
    for (int i = 0; i < n; i++) {
        feeds[i].value = c->feeds[i];
        EST_TRY(find_node(c, &def->inputs, s->key, est_signature_input(s, &c->e->receiver.inputs[i]), &feeds[i].node));
    }
    for (int i = 0; i < s->n_outputs; i++) EST_TRY(find_node(c, &def->outputs, s->key, s->outputs[i].name, &nodes[i]));
    return est_session_run(c->session, (est_feeds){ feeds, n }, (est_nodes){ nodes, s->n_outputs }, EST_NO_NODES, out);
}

static est_status check_signature(check *c, const est_model_export *s)
{
    size_t       room   = (size_t)s->n_outputs + 1;
    est_tensor **ours   = est_arena_alloc(c->arena, room * sizeof(est_tensor *));
    est_tensor **theirs = est_arena_alloc(c->arena, room * sizeof(est_tensor *));
    est_status   status;

    if (ours == NULL || theirs == NULL) return no_memory();
    status = run_ours(c, s, ours);
    if (status == EST_OK) {
        status = run_theirs(c, s, theirs);
        if (status != EST_OK) status = est_fail_context(status, "the exported model, signature %s", s->key);
    }
    for (int i = 0; i < s->n_outputs && status == EST_OK; i++) {
        status = compare(s->key, s->outputs[i].name, ours[i], theirs[i]);
    }
    for (int i = 0; i < s->n_outputs; i++) {
        est_tensor_free(ours[i]);
        est_tensor_free(theirs[i]);
    }
    return status;
}

static void drop_feeds(check *c)
{
    for (int i = 0; i < c->e->receiver.n_inputs; i++) {
        est_tensor_free(c->feeds[i]);
        c->feeds[i] = NULL;
    }
}

/* Whether the model itself takes the rows: made up ones may be out of range of what it looks up. */
static est_status try_rows(check *c, bool *taken)
{
    *taken = true;
    for (int s = 0; s < c->e->n_signatures && *taken; s++) {
        const est_model_export *signature = &c->e->signatures[s];
        est_tensor **out = est_arena_alloc(c->arena, (size_t)(signature->n_outputs + 1) * sizeof(est_tensor *));
        est_status   status;

        if (out == NULL) return no_memory();
        status = run_ours(c, signature, out);
        for (int i = 0; i < signature->n_outputs; i++) est_tensor_free(out[i]);
        if (status == EST_RESOURCE_EXHAUSTED) return status;
        *taken = status == EST_OK;
    }
    return EST_OK;
}

/* Rows the model takes: recorded or made up ones, else zeros. */
static est_status choose_rows(check *c, const est_rows *rows, bool *found)
{
    *found = false;
    for (int zeros = 0; zeros < 2 && !*found; zeros++) {
        drop_feeds(c);
        EST_TRY(est_rows_feed(rows, &c->e->receiver, zeros != 0, c->feeds));
        EST_TRY(try_rows(c, found));
    }
    return EST_OK;
}

static est_status run_check(check *c, const est_rows *rows, const char *dir)
{
    bool found;

    c->feeds = est_arena_alloc(c->arena, (size_t)(c->e->receiver.n_inputs + 1) * sizeof(est_tensor *));
    if (c->feeds == NULL) return no_memory();
    EST_TRY(load(c, dir));
    EST_TRY(compare_variables(c));
    EST_TRY(choose_rows(c, rows, &found));
    if (!found) {
        est_log_warn("the export was checked without input: the model takes no rows that could be made up, evaluate it "
                     "before (%s)",
                     est_error_message());
        return EST_OK;
    }
    for (int s = 0; s < c->e->n_signatures; s++) EST_TRY(check_signature(c, &c->e->signatures[s]));
    return EST_OK;
}

est_status est_export_check(const est_export_model *e, const est_rows *rows, const char *dir)
{
    check      c = { .e = e, .arena = est_arena_create() };
    est_status status;

    if (c.arena == NULL) return no_memory();
    status = run_check(&c, rows, dir);
    if (c.feeds != NULL) drop_feeds(&c);
    est_session_free(c.session);
    est_graph_free(c.graph);
    est_arena_free(c.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "the check of the export");
}
