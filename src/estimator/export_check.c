/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of an export before it is published. The files are read back as a server would (predict/saved_model.h).
 * Then both models run on the same rows and must give the same outputs. Numbers may differ a little:
 * lowering replaces some ops by several of TensorFlow's, which round in between. Outputs that depend on random numbers
 * cannot be compared, because the two models draw different ones. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "estimator/export.h"
#include "graph/op.h"
#include "predict/saved_model.h"
#include "runtime/session.h"
#include "tensor/tensor.h"
#include "train/saver.h"

#define RELATIVE 1e-5 /* tolerance relative to the number itself */
#define ABSOLUTE 1e-6 /* tolerance relative to the largest number of the tensor, for sums in which large terms cancel */

typedef struct check {
    const est_export_model *e;
    est_arena              *arena;
    est_saved_model        *saved; /* as it was read */
    est_tensor           ***feeds; /* [group of the receiver][its inputs] */
} check;

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static est_status compare_variables(check *c)
{
    est_var  **vars = NULL;
    int        n    = 0;
    est_status status;

    EST_TRY(est_saved_variables(est_saved_model_session(c->saved), &vars, &n));
    status = EST_OK;
    for (int i = 0; i < n && status == EST_OK; i++) {
        const char *name = vars[i]->name;
        est_tensor *ours = NULL, *theirs = NULL;

        status = est_session_read(est_saved_model_session(c->saved), name, &theirs);

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

/* The node of an input or output of a signature. */
static est_status find_node(const char *signature, const est_signature_tensor *tensors, est_nodes nodes,
                            const char *name, est_node *out)
{
    for (int i = 0; i < nodes.n; i++) {
        if (strcmp(tensors[i].name, name) != 0) continue;
        *out = nodes.data[i];
        return EST_OK;
    }
    return est_fail(EST_DATA_LOSS, "signature %s has no %s", signature, name);
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
    est_saved_signature_nodes saved;
    est_tensor              **values = c->feeds[s->feeds - c->e->receiver.groups];
    int                       n      = s->feeds->n_inputs;
    est_feed                 *feeds  = est_arena_alloc(c->arena, (size_t)(n + 1) * sizeof *feeds);
    est_node                 *nodes  = est_arena_alloc(c->arena, (size_t)(s->n_outputs + 1) * sizeof *nodes);

    if (feeds == NULL || nodes == NULL) return est_no_memory();
    EST_TRY(est_saved_model_find(c->saved, s->key, &saved));
    for (int i = 0; i < n; i++) {
        feeds[i].value = values[i];
        EST_TRY(find_node(s->key, saved.signature->inputs, saved.inputs,
                          est_export_signature_input(s, &s->feeds->inputs[i]), &feeds[i].node));
    }
    for (int i = 0; i < s->n_outputs; i++) {
        EST_TRY(find_node(s->key, saved.signature->outputs, saved.outputs, s->outputs[i].name, &nodes[i]));
    }
    EST_TRY(est_saved_model_init(c->saved));
    return est_session_run(est_saved_model_session(c->saved), (est_feeds){ feeds, n },
                           (est_nodes){ nodes, s->n_outputs }, EST_NO_NODES, out);
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

/* Whether a signature changes variables, which a check must not do. */
static est_status is_changing(const est_export_signature *s, bool *out)
{
    const est_graph *graph  = s->outputs[0].node.graph;
    bool            *needed = est_zalloc((size_t)est_graph_size(graph));

    if (needed == NULL) return est_no_memory();
    *out = false;
    for (int i = 0; i < s->n_outputs; i++) needed[s->outputs[i].node.id] = true;
    for (int32_t id = est_graph_size(graph) - 1; id >= 0; id--) {
        const est_node_def *def = est_graph_node(graph, id);

        if (!needed[id]) continue;
        *out = *out || def->op->writes != 0;
        for (int32_t i = 0; i < def->n_in; i++) needed[def->in[i].node] = true;
        for (int32_t i = 0; i < def->n_control; i++) needed[def->control[i]] = true;
    }
    est_free(needed);
    return EST_OK;
}

static est_status check_signature(check *c, const est_export_signature *s)
{
    bool         changing;
    size_t       room   = (size_t)s->n_outputs + 1;
    est_tensor **ours   = est_arena_alloc(c->arena, room * sizeof(est_tensor *));
    est_tensor **theirs = est_arena_alloc(c->arena, room * sizeof(est_tensor *));
    est_status   status;

    if (ours == NULL || theirs == NULL) return est_no_memory();
    EST_TRY(is_changing(s, &changing));
    if (changing) {
        est_log_info("the check of the export did not run signature %s, which changes variables", s->key);
        return EST_OK;
    }
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

    for (int g = 1; g < receiver->n_groups && !c->e->own_feeds && status == EST_OK; g++) {
        status = run_model(c, &receiver->groups[0], receiver->groups[g].inputs, receiver->groups[g].n_inputs,
                           c->feeds[g]);
    }
    for (int k = 0; k < c->e->n_signatures && status == EST_OK; k++) {
        const est_export_signature *s   = &c->e->signatures[k];
        est_tensor                **out = est_arena_alloc(c->arena, (size_t)(s->n_outputs + 1) * sizeof(est_tensor *));
        bool                        changing;

        if (out == NULL) return est_no_memory();
        EST_TRY(is_changing(s, &changing));
        if (changing) continue;
        status = run_model(c, s->feeds, s->outputs, s->n_outputs, out);
        for (int i = 0; i < s->n_outputs; i++) est_tensor_free(out[i]);
    }
    return status;
}

/* Rows for the placeholders, or for those of each group. */
static est_status feed_rows(check *c, const est_sample_rows *rows, bool zeros, bool *made_up)
{
    const est_receiver *receiver = &c->e->receiver;

    for (int g = 0; g < (c->e->own_feeds ? receiver->n_groups : 1); g++) {
        est_receiver one = *receiver;

        one.groups   = &receiver->groups[g];
        one.n_groups = 1;
        EST_TRY(est_sample_rows_feed(rows, c->e->own_feeds ? &one : receiver, zeros, c->feeds[g], made_up));
    }
    return EST_OK;
}

/* Finds rows that the model accepts. It must accept recorded rows of its own input. Generated values may be out of
 * range for a lookup, so zeros are tried next. *found is false when the model accepts neither. */
static est_status choose_rows(check *c, const est_sample_rows *rows, bool *found)
{
    *found = false;
    for (int zeros = 0; zeros < 2 && !*found; zeros++) {
        bool       made_up = true;
        est_status status;

        drop_feeds(c);
        EST_TRY(feed_rows(c, rows, zeros != 0, &made_up));
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
    EST_TRY(est_saved_model_load(dir,
                                 EST_SAVED_MODEL(.tags    = EST_STRINGS(est_export_tag(c->e->model->mode)),
                                                 .threads = c->e->model->config->threads),
                                 &c->saved));
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
    est_saved_model_free(c.saved);
    est_arena_free(c.arena);
    return status == EST_OK ? EST_OK : est_fail_context(status, "the check of the export");
}
