/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures of an export. A predict signature takes whatever the receiver takes; classify and regress are asked with
 * Examples, so they need a receiver with exactly one string input and are left out with any other. */
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "estimator/export.h"

static const char *const method_titles[] = { "Predict", "Classify", "Regress" };

const char *est_signature_input(const est_model_export *signature, const est_named_node *input)
{
    return signature->method == EST_EXPORT_PREDICT ? input->name : "inputs";
}

/* --- what the model says --------------------------------------------------------------------------------------------- */

static const est_model_export *find(const est_model_export *items, int n, const char *key)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(items[i].key, key) == 0) return &items[i];
    }
    return NULL;
}

static est_status check_type(const est_model_export *output, int i, est_dtype want)
{
    est_dtype have = est_node_dtype(output->outputs[i].node);

    if (have == want) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "export output %s: %s is %s, it must be %s", output->key,
                    output->outputs[i].name, est_dtype_name(have), est_dtype_name(want));
}

static est_status check_output(const est_model_export *output, const est_graph *graph)
{
    for (int i = 0; i < output->n_outputs; i++) {
        if (output->outputs[i].node.graph != graph) {
            return est_fail(EST_INVALID_ARGUMENT, "export output %s: %s is a node that does not exist", output->key,
                            output->outputs[i].name);
        }
        if (output->method != EST_EXPORT_PREDICT) {
            EST_TRY(check_type(output, i, strcmp(output->outputs[i].name, "classes") == 0 ? EST_STRING : EST_F32));
        }
    }
    return EST_OK;
}

/* The outputs of the model with the rules about their default. */
static est_status collect(const est_export_model *e, est_model_export *out, int *n)
{
    const est_model        *model = e->model;
    const est_model_export *given = model->exports.data;

    *n = 0;
    if (model->exports.n == 0) {
        out[(*n)++] = (est_model_export){ .method    = EST_EXPORT_PREDICT,
                                          .key       = EST_SERVING_DEFAULT,
                                          .outputs   = model->predictions.data,
                                          .n_outputs = model->predictions.n };
    }
    for (int i = 0; i < model->exports.n; i++) {
        EST_TRY(check_output(&given[i], model->graph));
        if (find(out, *n, given[i].key) != NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "two export outputs are called %s", given[i].key);
        }
        out[(*n)++] = given[i];
    }
    if (find(out, *n, EST_SERVING_DEFAULT) != NULL) return EST_OK;
    if (*n > 1) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "the model has %d export outputs and none is called " EST_SERVING_DEFAULT
                        "; give one of them that name",
                        *n);
    }
    out[1]     = out[0];
    out[1].key = EST_SERVING_DEFAULT;
    *n         = 2;
    return EST_OK;
}

/* --- what can be served ---------------------------------------------------------------------------------------------- */

/* Why not; NULL: it can. */
static const char *reason_against(const est_export_model *e, const est_model_export *output)
{
    const est_receiver *r = &e->receiver;

    if (output->method == EST_EXPORT_PREDICT) return NULL;
    if (r->n_inputs == 1 && est_node_dtype(r->inputs[0].node) == EST_STRING) return NULL;
    return output->method == EST_EXPORT_CLASSIFY ? "Classification input must be a single string Tensor"
                                                 : "Regression input must be a single string Tensor";
}

static void log_report(const est_export_model *e, const est_model_export *all, int n)
{
    bool excluded = false;

    for (int method = EST_EXPORT_REGRESS; method >= EST_EXPORT_PREDICT; method--) {
        est_strbuf keys = { 0 };

        for (int i = 0; i < e->n_signatures; i++) {
            if (e->signatures[i].method != (est_export_method)method) continue;
            est_strbuf_printf(&keys, "%s%s", keys.size > 0 ? ", " : "", e->signatures[i].key);
        }
        est_log_info("Signatures INCLUDED in export for %s: %s", method_titles[method],
                     keys.size > 0 ? est_strbuf_text(&keys) : "None");
        est_strbuf_clear(&keys);
    }
    for (int i = 0; i < n; i++) {
        const char *reason = reason_against(e, &all[i]);

        if (reason == NULL) continue;
        if (!excluded) {
            est_log_info("Signatures EXCLUDED from export because they cannot be served via TensorFlow Serving APIs:");
        }
        excluded = true;
        est_log_info("'%s' : %s; got %d inputs, the first %s", all[i].key, reason, e->receiver.n_inputs,
                     est_dtype_name(est_node_dtype(e->receiver.inputs[0].node)));
    }
    if (e->n_signatures == 0) {
        est_log_warn("Export includes no signatures!");
    } else if (find(e->signatures, e->n_signatures, EST_SERVING_DEFAULT) == NULL) {
        est_log_warn("Export includes no default signature!");
    }
}

est_status est_export_signatures(est_export_model *e)
{
    size_t            room = (size_t)e->model->exports.n + 2;
    est_model_export *all  = est_arena_alloc(e->model->arena, room * sizeof *all);
    int               n    = 0;

    e->n_signatures = 0;
    e->signatures   = est_arena_alloc(e->model->arena, room * sizeof *all);
    if (all == NULL || e->signatures == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory for signatures");
    EST_TRY(collect(e, all, &n));
    for (int i = 0; i < n; i++) {
        if (reason_against(e, &all[i]) == NULL) e->signatures[e->n_signatures++] = all[i];
    }
    log_report(e, all, n);
    return EST_OK;
}
