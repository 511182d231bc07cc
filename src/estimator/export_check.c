/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of an export before it is published. The files are read back as a server would: the message is parsed, the
 * graph behind the signatures imported into a new graph, its variables restored from the export's own checkpoint. Then
 * both models run on the same rows and must give the same outputs.
 *
 * The check leaves out the nodes that save and restore, which only TensorFlow runs. Numbers may differ a little:
 * lowering replaces some ops by several of TensorFlow's, which round in between. Outputs that depend on random numbers
 * cannot be compared, because the two models draw different ones. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "estimator/export.h"
#include "format/variable_def.h"
#include "graph/import.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "runtime/store.h"
#include "tensor/tensor.h"
#include "train/saver.h"

#define RELATIVE 1e-5 /* tolerance relative to the number itself */
#define ABSOLUTE 1e-6 /* tolerance relative to the largest number of the tensor, for sums in which large terms cancel */

typedef struct check {
    const est_export_model *e;
    est_arena              *arena;
    est_meta_graph_def     *meta; /* as it was read */
    est_graph              *graph;
    est_session            *session;
    est_node                init;  /* of the imported graph; EST_NO_NODE: nothing */
    est_tensor           ***feeds; /* [group of the receiver][its inputs] */
} check;

/* --- reading it back ---------------------------------------------------------------------------------------------- */

static est_status read_message(check *c, const char *dir)
{
    const char     *tag  = est_export_tag(c->e->model->mode);
    const char     *path = est_arena_printf(c->arena, "%s/saved_model.pb", dir);
    est_saved_model model;
    char           *bytes = NULL;
    size_t          size  = 0;
    est_status      status;

    if (path == NULL) return est_no_memory();
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

    if (copy == NULL) return est_no_memory();
    if (colon == NULL)
        return est_fail(EST_DATA_LOSS, "the tensor name %s has no output number; expected \"name:0\"", tensor);
    copy[colon - tensor] = '\0';
    *name                = copy;
    *output              = (int)strtol(colon + 1, NULL, 10);
    return EST_OK;
}

/* Finds the nodes of the message that signatures need. */
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

static const char *main_op(const check *c)
{
    const est_collection_def *list = est_meta_graph_def_collection(c->meta, "saved_model_main_op");

    return list != NULL && list->kind == EST_COLLECTION_NODES && list->n == 1 ? list->nodes[0] : NULL;
}

static est_status reach_signatures(check *c, reach *r)
{
    if (main_op(c) != NULL) EST_TRY(reach_input(r, main_op(c)));
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

/* Removes the nodes that no signature needs from the graph that was read. */
static est_status prune(check *c)
{
    est_graph_def *def  = &c->meta->graph;
    size_t         room = (size_t)def->n_nodes + 1;
    reach          r    = { .needed = est_arena_alloc(c->arena, room * sizeof *r.needed),
                            .stack  = est_arena_alloc(c->arena, room * sizeof *r.stack) };
    est_status     status;
    int            n = 0;

    if (r.needed == NULL || r.stack == NULL) return est_no_memory();
    status = reach_all(c, &r);
    est_map_clear(&r.names);
    EST_TRY(status);
    for (int i = 0; i < def->n_nodes; i++) {
        if (r.needed[i]) def->nodes[n++] = def->nodes[i];
    }
    def->n_nodes = n;
    return EST_OK;
}

/* Marks the variables of the imported graph that checkpoints do not hold. */
static est_status collect_locals(check *c)
{
    const est_collection_def *list = est_meta_graph_def_collection(c->meta, "local_variables");

    for (int i = 0; list != NULL && list->kind == EST_COLLECTION_BYTES && i < list->n; i++) {
        est_variable_def def;
        const char      *name;
        est_node         node;
        int              output;

        EST_TRY(est_variable_def_parse(list->bytes[i], c->arena, &def));
        EST_TRY(split_tensor_name(c, def.variable_name, &name, &output));
        node = est_graph_find(c->graph, name);
        if (node.graph != NULL) est_graph_collect(c->graph, "local_variables", node);
    }
    return est_graph_status(c->graph);
}

static est_status load(check *c, const char *dir)
{
    EST_TRY(read_message(c, dir));
    EST_TRY(est_meta_graph_def_place_assets(c->meta, dir));
    EST_TRY(prune(c));
    EST_TRY(est_graph_create(0, &c->graph));
    EST_TRY(est_graph_import(&c->meta->graph, est_op_find, c->graph));
    EST_TRY(collect_locals(c));
    c->init = main_op(c) != NULL ? est_graph_find(c->graph, main_op(c)) : EST_NO_NODE;
    EST_TRY(est_session_create(c->graph, EST_SESSION(.threads = c->e->model->config->threads, .seed = 1), &c->session));
    if (est_session_variables(c->session) == 0) return EST_OK;
    return est_saver_restore(NULL, c->session, EST_RESTORE(.path = dir), NULL);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static est_status compare_variables(check *c)
{
    est_var  **vars = NULL;
    int        n    = 0;
    est_status status;

    EST_TRY(est_saved_variables(c->session, &vars, &n));
    status = EST_OK;
    for (int i = 0; i < n && status == EST_OK; i++) {
        const char *name = vars[i]->name;
        est_tensor *ours = NULL, *theirs = NULL;

        status = est_session_read(c->session, name, &theirs);

        if (status == EST_OK) status = est_session_read(c->e->session, name, &ours);
        if (status == EST_OK && (!est_shape_equal(est_tensor_shape(ours), est_tensor_shape(theirs)) ||
                                 memcmp(est_tensor_data(ours), est_tensor_data(theirs), est_tensor_bytes(ours)) != 0)) {
            status = est_fail(EST_DATA_LOSS, "the variable %s of the export differs from the model's", name);
        }
        est_tensor_free(ours);
        est_tensor_free(theirs);
    }
    est_free(vars);
    return status;
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
    est_dtype   dtype = est_tensor_dtype(ours);
    const void *x = est_tensor_data(ours), *y = est_tensor_data(theirs);
    bool        floats  = dtype == EST_F32 || dtype == EST_F64;
    double      largest = 0;

    for (int64_t i = 0; floats && i < est_tensor_count(ours); i++) {
        double a = fabs(est_number_at(dtype, x, i));

        if (isfinite(a) && a > largest) largest = a;
    }
    for (int64_t i = 0; i < est_tensor_count(ours); i++) {
        double a = est_number_at(dtype, x, i), b = est_number_at(dtype, y, i);

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

/* --- running ------------------------------------------------------------------------------------------------------ */

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
    if (out->graph == NULL)
        return est_fail(EST_DATA_LOSS, "signature %s: the exported graph has no node %s", signature, name);
    out->output = output;
    return EST_OK;
}

static est_status start_metrics(est_session *session, est_node init)
{
    if (init.graph == NULL) return EST_OK;
    return est_session_run(session, EST_NO_FEEDS, EST_NO_NODES, (est_nodes){ &init, 1 }, NULL);
}

/* Runs n nodes of the model itself on the rows, with the feeds of a group. */
static est_status run_model(check *c, const est_feed_group *group, const est_named_node *wanted, int n,
                            est_tensor **out)
{
    est_tensor **values = c->feeds[group - c->e->receiver.groups];
    est_feed    *feeds  = est_arena_alloc(c->arena, (size_t)(group->n_inputs + 1) * sizeof *feeds);
    est_node    *nodes  = est_arena_alloc(c->arena, (size_t)(n + 1) * sizeof *nodes);

    if (feeds == NULL || nodes == NULL) return est_no_memory();
    for (int i = 0; i < group->n_inputs; i++) feeds[i] = (est_feed){ group->inputs[i].node, values[i] };
    for (int i = 0; i < n; i++) nodes[i] = wanted[i].node;
    EST_TRY(start_metrics(c->e->session, c->e->init));
    return est_session_run(c->e->session, (est_feeds){ feeds, group->n_inputs }, (est_nodes){ nodes, n }, EST_NO_NODES,
                           out);
}

static est_status run_theirs(check *c, const est_export_signature *s, est_tensor **out)
{
    const est_signature_def *def    = est_meta_graph_def_signature(c->meta, s->key);
    est_tensor             **values = c->feeds[s->feeds - c->e->receiver.groups];
    int                      n      = s->feeds->n_inputs;
    est_feed                *feeds  = est_arena_alloc(c->arena, (size_t)(n + 1) * sizeof *feeds);
    est_node                *nodes  = est_arena_alloc(c->arena, (size_t)(s->n_outputs + 1) * sizeof *nodes);

    if (feeds == NULL || nodes == NULL) return est_no_memory();
    if (def == NULL) return est_fail(EST_DATA_LOSS, "the export has no signature %s", s->key);
    for (int i = 0; i < n; i++) {
        feeds[i].value = values[i];
        EST_TRY(
            find_node(c, &def->inputs, s->key, est_export_signature_input(s, &s->feeds->inputs[i]), &feeds[i].node));
    }
    for (int i = 0; i < s->n_outputs; i++) EST_TRY(find_node(c, &def->outputs, s->key, s->outputs[i].name, &nodes[i]));
    EST_TRY(start_metrics(c->session, c->init));
    return est_session_run(c->session, (est_feeds){ feeds, n }, (est_nodes){ nodes, s->n_outputs }, EST_NO_NODES, out);
}

/* Whether an output depends on random numbers. Inputs have smaller ids, so one backward walk suffices. */
static est_status is_random(est_node node, bool *out)
{
    const est_graph *graph  = node.graph;
    bool            *needed = est_zalloc((size_t)est_graph_size(graph));

    if (needed == NULL) return est_no_memory();
    *out            = false;
    needed[node.id] = true;
    for (int32_t id = node.id; id >= 0; id--) {
        const est_node_def *def = est_graph_node(graph, id);

        if (!needed[id]) continue;
        *out = *out || def->op->random;
        for (int32_t i = 0; i < def->n_in; i++) needed[def->in[i].node] = true;
    }
    est_free(needed);
    return EST_OK;
}

static est_status compare_output(const est_export_signature *s, int i, const est_tensor *ours, const est_tensor *theirs)
{
    bool random;

    EST_TRY(is_random(s->outputs[i].node, &random));
    if (!random) return compare(s->key, s->outputs[i].name, ours, theirs);
    est_log_info("the check of the export did not compare output %s of signature %s, which depends on random numbers",
                 s->outputs[i].name, s->key);
    return EST_OK;
}

static est_status check_signature(check *c, const est_export_signature *s)
{
    size_t       room   = (size_t)s->n_outputs + 1;
    est_tensor **ours   = est_arena_alloc(c->arena, room * sizeof(est_tensor *));
    est_tensor **theirs = est_arena_alloc(c->arena, room * sizeof(est_tensor *));
    est_status   status;

    if (ours == NULL || theirs == NULL) return est_no_memory();
    status = run_model(c, s->feeds, s->outputs, s->n_outputs, ours);
    if (status == EST_OK) {
        status = run_theirs(c, s, theirs);
        if (status != EST_OK) status = est_fail_context(status, "the exported model, signature %s", s->key);
    }
    for (int i = 0; i < s->n_outputs && status == EST_OK; i++) {
        status = compare_output(s, i, ours[i], theirs[i]);
    }
    for (int i = 0; i < s->n_outputs; i++) {
        est_tensor_free(ours[i]);
        est_tensor_free(theirs[i]);
    }
    return status;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void drop_feeds(check *c)
{
    for (int g = 0; g < c->e->receiver.n_groups; g++) {
        for (int i = 0; c->feeds[g] != NULL && i < c->e->receiver.groups[g].n_inputs; i++) {
            est_tensor_free(c->feeds[g][i]);
            c->feeds[g][i] = NULL;
        }
    }
}

static est_status make_feeds(check *c)
{
    const est_receiver *receiver = &c->e->receiver;

    c->feeds = est_arena_alloc(c->arena, (size_t)receiver->n_groups * sizeof *c->feeds);
    for (int g = 0; c->feeds != NULL && g < receiver->n_groups; g++) {
        c->feeds[g] = est_arena_alloc(c->arena, (size_t)(receiver->groups[g].n_inputs + 1) * sizeof(est_tensor *));
        if (c->feeds[g] == NULL) return est_no_memory();
    }
    return c->feeds != NULL ? EST_OK : est_no_memory();
}

/* Runs the model itself on the rows, to get the feeds of alternatives. */
static est_status run_rows(check *c)
{
    const est_receiver *receiver = &c->e->receiver;
    est_status          status   = EST_OK;

    for (int g = 1; g < receiver->n_groups && status == EST_OK; g++) {
        status = run_model(c, &receiver->groups[0], receiver->groups[g].inputs, receiver->groups[g].n_inputs,
                           c->feeds[g]);
    }
    for (int k = 0; k < c->e->n_signatures && status == EST_OK; k++) {
        const est_export_signature *s   = &c->e->signatures[k];
        est_tensor                **out = est_arena_alloc(c->arena, (size_t)(s->n_outputs + 1) * sizeof(est_tensor *));

        if (out == NULL) return est_no_memory();
        status = run_model(c, s->feeds, s->outputs, s->n_outputs, out);
        for (int i = 0; i < s->n_outputs; i++) est_tensor_free(out[i]);
    }
    return status;
}

/* Finds rows that the model accepts. It must accept recorded rows of its own input. Generated values may be out of
 * range for a lookup, so zeros are tried next. *found is false when the model accepts neither. */
static est_status choose_rows(check *c, const est_sample_rows *rows, bool *found)
{
    *found = false;
    for (int zeros = 0; zeros < 2 && !*found; zeros++) {
        bool       made_up;
        est_status status;

        drop_feeds(c);
        EST_TRY(est_sample_rows_feed(rows, &c->e->receiver, zeros != 0, c->feeds[0], &made_up));
        status = run_rows(c);
        if (status == EST_RESOURCE_EXHAUSTED) return status;
        if (status != EST_OK && !made_up) return est_fail_context(status, "rows that the model accepted before");
        *found = status == EST_OK;
    }
    return EST_OK;
}

static est_status run_check(check *c, const est_sample_rows *rows, const char *dir)
{
    bool found;

    EST_TRY(make_feeds(c));
    EST_TRY(load(c, dir));
    EST_TRY(compare_variables(c));
    EST_TRY(choose_rows(c, rows, &found));
    if (!found) {
        est_log_warn("the export was checked without input: the model accepts no generated rows; evaluate it "
                     "before (%s)",
                     est_error_message());
        return EST_OK;
    }
    for (int k = 0; k < c->e->n_signatures; k++) EST_TRY(check_signature(c, &c->e->signatures[k]));
    return EST_OK;
}

est_status est_export_check(const est_export_model *e, const est_sample_rows *rows, const char *dir)
{
    check      c = { .e = e, .arena = est_arena_create() };
    est_status status;

    if (c.arena == NULL) return est_no_memory();
    status = run_check(&c, rows, dir);
    if (c.feeds != NULL) drop_feeds(&c);
    est_session_free(c.session);
    est_graph_free(c.graph);
    est_arena_free(c.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "the check of the export");
}
