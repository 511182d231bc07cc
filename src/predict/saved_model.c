/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a SavedModel:
 *
 *   1. the message is read, the graph with these tags chosen, and its assets pointed at the model's files;
 *   2. what signatures and the operations that init and restore need is inlined into one flat GraphDef (inline.c)
 *      and brought into Estoc's operations (simplify.c);
 *   3. of that the nodes of signatures are imported, with the operations that fill their tables and variables; never
 *      those that save or restore, which only TensorFlow runs;
 *   4. a session gets the variables from the files, then the rest of the init operation runs. */
#include "predict/saved_model.h"

#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "graph/import.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "predict/inline.h"
#include "predict/loading.h"
#include "predict/simplify.h"
#include "runtime/session.h"

struct est_saved_model {
    est_arena           *arena; /* has all that is not a handle */
    const char          *dir;
    est_graph           *graph;
    est_session         *session;
    est_saved_signature *signatures;       /* [n] */
    est_nodes           *inputs, *outputs; /* [n] */
    int                  n;
    est_nodes            init;
};

#define INIT_SIGNATURE  "__saved_model_init_op"
#define TRAIN_SIGNATURE "__saved_model_train_op"

/* --- the message -------------------------------------------------------------------------------------------------- */

static est_status read_message(est_loading *l, est_strings tags)
{
    static const char *const serve[] = { "serve" };
    const char              *path    = est_arena_printf(l->arena, "%s/saved_model.pb", l->dir);
    est_saved_model_def      model;
    char                    *bytes = NULL;
    size_t                   size  = 0;
    est_status               status;

    if (path == NULL) return est_no_memory();
    EST_TRY(est_file_read(path, &bytes, &size));
    status = est_saved_model_def_parse((est_str){ bytes, size }, l->arena, &model);
    est_free(bytes);
    if (status == EST_OK) {
        status = est_saved_model_def_find(&model, tags.n > 0 ? tags.data : serve, tags.n > 0 ? tags.n : 1, &l->meta);
    }
    return status == EST_OK ? EST_OK : est_fail_context(status, "%s", path);
}

/* The node that inits; NULL: none. */
static const char *init_node(const est_meta_graph_def *meta)
{
    static const char *const keys[]    = { "saved_model_main_op", "legacy_init_op" };
    const est_signature_def *signature = est_meta_graph_def_signature(meta, INIT_SIGNATURE);

    if (signature != NULL && signature->outputs.n > 0 && signature->outputs.items[0].name != NULL) {
        return signature->outputs.items[0].name;
    }
    for (int i = 0; i < 2; i++) {
        const est_collection_def *list = est_meta_graph_def_collection(meta, keys[i]);

        if (list != NULL && list->kind == EST_COLLECTION_NODES && list->n == 1) return list->nodes[0];
    }
    return NULL;
}

static const char *restore_node(const est_meta_graph_def *meta)
{
    return meta->saver != NULL && meta->saver->restore_op_name[0] != '\0' ? meta->saver->restore_op_name : NULL;
}

static est_status take_error(est_loading *l, est_loading_signature *s, est_status status)
{
    if (status == EST_RESOURCE_EXHAUSTED) return status;
    s->error = est_arena_alloc(l->arena, sizeof *s->error);
    if (s->error == NULL) return est_no_memory();
    (void)est_fail_context(status, "signature '%s'", s->def->key);
    est_error_take(status, s->error);
    return EST_OK;
}

/* Signatures that a caller may ask for. Those with other than plain tensors cannot be run. */
static est_status list_signatures(est_loading *l)
{
    l->signatures = est_arena_alloc(l->arena, ((size_t)l->meta->n_signatures + 1) * sizeof *l->signatures);
    if (l->signatures == NULL) return est_no_memory();
    for (int i = 0; i < l->meta->n_signatures; i++) {
        const est_signature_def *def      = &l->meta->signatures[i];
        const est_tensor_infos  *lists[2] = { &def->inputs, &def->outputs };
        est_loading_signature   *s        = &l->signatures[l->n_signatures];

        if (strcmp(def->key, INIT_SIGNATURE) == 0 || strcmp(def->key, TRAIN_SIGNATURE) == 0) continue;
        s->def = def;
        l->n_signatures++;
        for (int k = 0; k < 2 * (lists[0]->n + lists[1]->n) && s->error == NULL; k++) {
            const est_tensor_infos *list = lists[k % 2];

            if (k / 2 >= list->n || list->items[k / 2].kind == EST_TENSOR_INFO_NAME) continue;
            EST_TRY(take_error(l, s,
                               est_fail(EST_UNIMPLEMENTED, "%s '%s' is a sparse or composite tensor",
                                        k % 2 == 0 ? "input" : "output", list->items[k / 2].key)));
        }
    }
    return EST_OK;
}

/* --- the flat graph ----------------------------------------------------------------------------------------------- */

static est_status add_roots(est_loading *l, est_def_names *roots, est_def_names *fed)
{
    if (init_node(l->meta) != NULL) EST_TRY(est_def_names_add(l->arena, roots, init_node(l->meta)));
    if (restore_node(l->meta) != NULL) EST_TRY(est_def_names_add(l->arena, roots, restore_node(l->meta)));
    for (int i = 0; i < l->n_signatures; i++) {
        const est_signature_def *def = l->signatures[i].def;

        if (l->signatures[i].error != NULL) continue;
        for (int k = 0; k < def->inputs.n; k++) {
            EST_TRY(est_def_names_add(l->arena, roots, def->inputs.items[k].name));
            EST_TRY(est_def_names_add(l->arena, fed, def->inputs.items[k].name));
        }
        for (int k = 0; k < def->outputs.n; k++) {
            EST_TRY(est_def_names_add(l->arena, roots, def->outputs.items[k].name));
        }
    }
    return EST_OK;
}

/* A tensor of the message in the flat graph: result k of a call "c:k" is "c>k" there. */
static est_status find_tensor(const est_loading *l, const char *tensor, est_def_edge *out)
{
    const char *colon = strrchr(tensor, ':');
    uintptr_t   at    = 0;

    if (colon != NULL && strcmp(colon, ":0") != 0) {
        const char *result = est_arena_printf(l->arena, "%.*s>%s", (int)(colon - tensor), tensor, colon + 1);

        if (result == NULL) return est_no_memory();
        at = (uintptr_t)est_map_get(&l->edges.names, result);
    }
    if (at == 0) return est_def_edges_parse(&l->edges, tensor, out);
    *out = (est_def_edge){ .node = (int32_t)(at - 1), .output = 0 };
    return EST_OK;
}

static est_status mark(est_loading *l, const char *root, bool **out)
{
    est_def_edge edge;

    *out = est_arena_alloc(l->arena, (size_t)l->flat.n_nodes + 1);
    if (*out == NULL) return est_no_memory();
    if (root == NULL) return EST_OK;
    EST_TRY(find_tensor(l, root, &edge));
    est_def_edges_reach(&l->edges, edge.node, *out, l->stack);
    return EST_OK;
}

static est_status resolve_edges(est_loading *l)
{
    est_def_edges_clear(&l->edges);
    EST_TRY(est_def_edges_init(&l->edges, &l->flat));
    l->stack = est_arena_alloc(l->arena, ((size_t)l->flat.n_nodes + 1) * sizeof *l->stack);
    if (l->stack == NULL) return est_no_memory();
    EST_TRY(mark(l, init_node(l->meta), &l->init));
    return mark(l, restore_node(l->meta), &l->restore);
}

static est_status flatten(est_loading *l)
{
    est_def_names roots = { 0 }, fed = { 0 };
    int           n;

    EST_TRY(add_roots(l, &roots, &fed));
    est_graph_def_init(&l->flat, l->arena);
    EST_TRY(est_inline(&l->meta->graph, &roots, est_op_find_public, &l->flat));
    EST_TRY(est_simplify(&l->flat, &fed, est_op_find_public));
    EST_TRY(resolve_edges(l));
    EST_TRY(est_loading_open(l));
    n = l->flat.n_nodes;
    EST_TRY(est_loading_tables(l));
    return l->flat.n_nodes > n ? resolve_edges(l) : EST_OK;
}

/* --- what signatures need ----------------------------------------------------------------------------------------- */

/* Adds the operations that fill the tables and variables which are needed, and what they need. */
static void reach_fills(est_loading *l, bool *needed)
{
    bool more = true;

    while (more) {
        more = false;
        for (int32_t i = 0; i < l->flat.n_nodes; i++) {
            if (needed[i] || !est_loading_fills(l, i) || !needed[l->edges.in[i][0].node]) continue;
            est_def_edges_reach(&l->edges, i, needed, l->stack);
            more = true;
        }
    }
}

static est_status find_tensors(est_loading *l, const est_tensor_infos *infos, est_def_edge **out, bool *needed)
{
    *out = est_arena_alloc(l->arena, ((size_t)infos->n + 1) * sizeof **out);
    if (*out == NULL) return est_no_memory();
    for (int i = 0; i < infos->n; i++) {
        EST_TRY(find_tensor(l, infos->items[i].name, &(*out)[i]));
        est_def_edges_reach(&l->edges, (*out)[i].node, needed, l->stack);
    }
    return EST_OK;
}

static est_status check_ops(const est_loading *l, const bool *needed)
{
    for (int i = 0; i < l->flat.n_nodes; i++) {
        const est_graph_def_node *node = l->flat.nodes[i];

        if (!needed[i] || est_op_find_public(node->op) != NULL) continue;
        return est_fail(EST_UNIMPLEMENTED, "node '%s': op '%s' is not supported", node->name, node->op);
    }
    return EST_OK;
}

static est_status prepare_signature(est_loading *l, est_loading_signature *s)
{
    s->needed = est_arena_alloc(l->arena, (size_t)l->flat.n_nodes + 1);
    if (s->needed == NULL) return est_no_memory();
    EST_TRY(find_tensors(l, &s->def->inputs, &s->inputs, s->needed));
    EST_TRY(find_tensors(l, &s->def->outputs, &s->outputs, s->needed));
    reach_fills(l, s->needed);
    return check_ops(l, s->needed);
}

static est_status prepare_signatures(est_loading *l)
{
    for (int i = 0; i < l->n_signatures; i++) {
        est_loading_signature *s = &l->signatures[i];
        est_status             status;

        if (s->error != NULL) continue;
        status = prepare_signature(l, s);
        if (status != EST_OK) EST_TRY(take_error(l, s, status));
    }
    return EST_OK;
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static est_status import(est_loading *l, const bool *needed, est_graph *graph)
{
    est_graph_def part = l->flat;

    part.n_nodes = 0;
    part.nodes   = est_arena_alloc(l->arena, ((size_t)l->flat.n_nodes + 1) * sizeof *part.nodes);
    if (part.nodes == NULL) return est_no_memory();
    for (int i = 0; i < l->flat.n_nodes; i++) {
        if (needed[i]) part.nodes[part.n_nodes++] = l->flat.nodes[i];
    }
    return est_graph_import(&part, est_op_find_public, graph);
}

/* Whether the nodes of a signature can be imported alone. */
static est_status try_signature(est_loading *l, est_loading_signature *s)
{
    est_graph *graph;
    est_status status;

    EST_TRY(est_graph_create(0, &graph));
    status = import(l, s->needed, graph);
    est_graph_free(graph);
    return status == EST_OK ? EST_OK : take_error(l, s, status);
}

/* Fails when no signature can be run, with the error of the default one if there is one. */
static est_status fail_all(const est_loading *l)
{
    int told = 0;

    for (int i = 0; i < l->n_signatures; i++) {
        if (l->signatures[i].error == NULL) return EST_OK;
        if (strcmp(l->signatures[i].def->key, EST_SERVING_DEFAULT) == 0) told = i;
    }
    return l->n_signatures > 0 ? est_error_raise(l->signatures[told].error) : EST_OK;
}

static est_status import_usable(est_loading *l, est_graph **out)
{
    est_graph *graph;
    est_status status;

    EST_TRY(fail_all(l));
    memset(l->kept, 0, (size_t)l->flat.n_nodes);
    for (int i = 0; i < l->n_signatures; i++) {
        for (int k = 0; l->signatures[i].error == NULL && k < l->flat.n_nodes; k++) {
            l->kept[k] |= l->signatures[i].needed[k];
        }
    }
    EST_TRY(est_graph_create(0, &graph));
    status = import(l, l->kept, graph);
    if (status == EST_OK)
        *out = graph;
    else
        est_graph_free(graph);
    return status;
}

/* A node that cannot be imported (its attributes, its shapes) makes only its signatures unusable. */
static est_status import_graph(est_loading *l, est_graph **out)
{
    est_status status;

    l->kept = est_arena_alloc(l->arena, (size_t)l->flat.n_nodes + 1);
    if (l->kept == NULL) return est_no_memory();
    status = import_usable(l, out);
    if (status == EST_OK || status == EST_RESOURCE_EXHAUSTED) return status;
    for (int i = 0; i < l->n_signatures; i++) {
        if (l->signatures[i].error == NULL) EST_TRY(try_signature(l, &l->signatures[i]));
    }
    return import_usable(l, out);
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

static est_status find_nodes(const est_loading *l, const est_saved_model *m, const est_def_edge *edges, int n,
                             est_nodes *out)
{
    est_node *nodes = est_arena_alloc(m->arena, ((size_t)n + 1) * sizeof *nodes);

    if (nodes == NULL) return est_no_memory();
    for (int i = 0; i < n; i++) {
        const est_graph_def_node *node = l->flat.nodes[edges[i].node];

        nodes[i]        = est_graph_find(m->graph, node->name);
        nodes[i].output = edges[i].output;
        if (nodes[i].graph == NULL || edges[i].output < 0 || edges[i].output >= est_def(nodes[i])->n_out) {
            return est_fail(EST_INVALID_ARGUMENT, "node '%s' has no output %d", node->name, (int)edges[i].output);
        }
    }
    *out = (est_nodes){ nodes, n };
    return EST_OK;
}

/* Of a tensor whose nodes were not imported. */
static est_dtype dtype_of(const est_tensor_info *info)
{
    est_dtype dtype = (est_dtype)info->dtype;

    return est_dtype_size(dtype) > 0 ? dtype : EST_DTYPE_NONE;
}

static est_status copy_tensors(const est_saved_model *m, const est_tensor_infos *infos, const est_nodes *nodes,
                               const est_signature_tensor **out)
{
    est_signature_tensor *tensors = est_arena_alloc(m->arena, ((size_t)infos->n + 1) * sizeof *tensors);

    if (tensors == NULL) return est_no_memory();
    for (int i = 0; i < infos->n; i++) {
        const est_tensor_info *info = &infos->items[i];

        tensors[i].name  = est_arena_strdup(m->arena, info->key);
        tensors[i].dtype = nodes->n > 0 ? est_node_dtype(nodes->data[i]) : dtype_of(info);
        tensors[i].shape = info->has_shape ? info->shape : (est_shape){ .rank = -1 };
        if (tensors[i].name == NULL) return est_no_memory();
        if (info->kind != EST_TENSOR_INFO_NAME) continue;
        tensors[i].tensor = est_arena_strdup(m->arena, info->name);
        if (tensors[i].tensor == NULL) return est_no_memory();
    }
    *out = tensors;
    return EST_OK;
}

static est_status copy_signature(const est_loading *l, est_saved_model *m, int i)
{
    const est_loading_signature *from = &l->signatures[i];
    est_saved_signature         *to   = &m->signatures[i];

    if (from->error == NULL) {
        EST_TRY(find_nodes(l, m, from->inputs, from->def->inputs.n, &m->inputs[i]));
        EST_TRY(find_nodes(l, m, from->outputs, from->def->outputs.n, &m->outputs[i]));
    } else {
        to->error = est_arena_strdup(m->arena, from->error->message);
        if (to->error == NULL) return est_no_memory();
    }
    to->name      = est_arena_strdup(m->arena, from->def->key);
    to->method    = est_arena_strdup(m->arena, from->def->method_name);
    to->n_inputs  = from->def->inputs.n;
    to->n_outputs = from->def->outputs.n;
    if (to->name == NULL || to->method == NULL) return est_no_memory();
    EST_TRY(copy_tensors(m, &from->def->inputs, &m->inputs[i], &to->inputs));
    return copy_tensors(m, &from->def->outputs, &m->outputs[i], &to->outputs);
}

static est_status copy_signatures(const est_loading *l, est_saved_model *m)
{
    size_t room = (size_t)l->n_signatures + 1;

    m->signatures = est_arena_alloc(m->arena, room * sizeof *m->signatures);
    m->inputs     = est_arena_alloc(m->arena, room * sizeof *m->inputs);
    m->outputs    = est_arena_alloc(m->arena, room * sizeof *m->outputs);
    if (m->signatures == NULL || m->inputs == NULL || m->outputs == NULL) return est_no_memory();
    for (int i = 0; i < l->n_signatures; i++) {
        est_status status = copy_signature(l, m, i);

        if (status != EST_OK) return est_fail_context(status, "signature '%s'", l->signatures[i].def->key);
    }
    m->n = l->n_signatures;
    return EST_OK;
}

/* The operations of init that give variables values; tables are filled by the session. */
static est_status list_init(const est_loading *l, est_saved_model *m)
{
    est_node *nodes = est_arena_alloc(m->arena, ((size_t)l->flat.n_nodes + 1) * sizeof *nodes);

    if (nodes == NULL) return est_no_memory();
    for (int i = 0; i < l->flat.n_nodes; i++) {
        const est_graph_def_node *node = l->flat.nodes[i];

        if (!l->kept[i] || !est_loading_fills(l, i) || strcmp(node->op, "AssignVariableOp") != 0) continue;
        nodes[m->init.n++] = est_graph_find(m->graph, node->name);
    }
    m->init.data = nodes;
    return EST_OK;
}

est_status est_saved_model_init(const est_saved_model *model)
{
    if (model->init.n == 0) return EST_OK;
    return est_session_run(model->session, EST_NO_FEEDS, EST_NO_NODES, model->init, NULL);
}

static est_status check_values(const est_saved_model *m)
{
    est_store *store;

    EST_TRY(est_session_store(m->session, &store));
    for (int i = 0; i < est_store_size(store); i++) {
        const est_var *var = est_store_at(store, i);

        if (var->initialized) continue;
        return est_fail(EST_DATA_LOSS, "variable '%s' has no value: the model does not restore or initialize it",
                        var->name);
    }
    return EST_OK;
}

static est_status load(est_loading *l, est_saved_model *m, const est_saved_model_options *o)
{
    est_strings devices = o->devices.n > 0 ? o->devices : EST_STRINGS("/cpu:0"); /* which maps variables from files */

    EST_TRY(read_message(l, o->tags));
    EST_TRY(est_meta_graph_def_place_assets(l->meta, l->dir));
    EST_TRY(list_signatures(l));
    EST_TRY(flatten(l));
    EST_TRY(prepare_signatures(l));
    EST_TRY(import_graph(l, &m->graph));
    EST_TRY(copy_signatures(l, m));
    EST_TRY(list_init(l, m));
    EST_TRY(
        est_session_create(m->graph, EST_SESSION(.threads = o->threads, .seed = 1, .devices = devices), &m->session));
    EST_TRY(est_loading_restore(l, m->session));
    EST_TRY(est_saved_model_init(m));
    return check_values(m);
}

static est_status create(const char *dir, const est_saved_model_options *o, est_saved_model **out)
{
    est_saved_model *m = est_zalloc(sizeof *m);
    est_loading      l = { .arena = est_arena_create() };
    est_status       status;

    if (m != NULL) m->arena = est_arena_create();
    if (m != NULL && m->arena != NULL) m->dir = est_arena_strdup(m->arena, dir);
    status = m != NULL && m->dir != NULL && l.arena != NULL ? EST_OK : est_no_memory();
    if (status == EST_OK) {
        l.dir       = m->dir;
        l.no_verify = o->no_verify;
        status      = load(&l, m, o);
    }
    est_bundle_close(l.bundle);
    est_def_edges_clear(&l.edges);
    est_arena_free(l.arena);
    if (status == EST_OK)
        *out = m;
    else
        est_saved_model_free(m);
    return status;
}

est_status est_saved_model_load(const char *dir, const est_saved_model_options *options, est_saved_model **out)
{
    est_saved_model_options o;
    char                   *found = NULL;
    est_status              status;

    EST_REQUIRE(dir);
    EST_REQUIRE(out);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_saved_model_options), options, &o));
    EST_REQUIRE_LIST("tags", o.tags);
    EST_TRY(est_saved_model_find_dir(dir, &found));
    status = create(found, &o, out);
    if (status != EST_OK) status = est_fail_context(status, "loading %s", found);
    est_free(found);
    return status;
}

void est_saved_model_free(est_saved_model *model)
{
    if (model == NULL) return;
    est_session_free(model->session);
    est_graph_free(model->graph);
    est_arena_free(model->arena);
    est_free(model);
}

/* --- looking at it ------------------------------------------------------------------------------------------------ */

const char *est_saved_model_dir(const est_saved_model *model)
{
    return model != NULL ? model->dir : NULL;
}

int est_saved_model_signatures(const est_saved_model *model)
{
    return model != NULL ? model->n : 0;
}

const est_saved_signature *est_saved_model_signature(const est_saved_model *model, int i)
{
    return model != NULL && i >= 0 && i < model->n ? &model->signatures[i] : NULL;
}

est_graph *est_saved_model_graph(const est_saved_model *model)
{
    return model->graph;
}

est_session *est_saved_model_session(const est_saved_model *model)
{
    return model->session;
}

static est_status fail_unknown(const est_saved_model *model, const char *name)
{
    est_strbuf text = { 0 };
    est_status status;

    for (int i = 0; i < model->n; i++) est_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", model->signatures[i].name);
    status = est_strbuf_status(&text);
    if (status == EST_OK) {
        status = est_fail(EST_NOT_FOUND, "the model has no signature '%s'; it has %s", name,
                          model->n > 0 ? est_strbuf_text(&text) : "none");
    }
    est_strbuf_clear(&text);
    return status;
}

est_status est_saved_model_find(const est_saved_model *model, const char *name, est_saved_signature_nodes *out)
{
    if (name == NULL) name = EST_SERVING_DEFAULT;
    for (int i = 0; i < model->n; i++) {
        const est_saved_signature *s = &model->signatures[i];

        if (strcmp(s->name, name) != 0) continue;
        if (s->error != NULL) return est_fail(EST_UNIMPLEMENTED, "%s", s->error);
        *out = (est_saved_signature_nodes){ .signature = s, .inputs = model->inputs[i], .outputs = model->outputs[i] };
        return EST_OK;
    }
    return fail_unknown(model, name);
}
