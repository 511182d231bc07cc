/* SPDX-License-Identifier: Apache-2.0
 *
 * All wanted features of one map message: each step is done for the names, then for every output. */
#include "format/feature_group.h"

#include "base/alloc.h"

est_status est_feature_group_init(est_feature_group *g, const est_feature_spec *specs, size_t n, bool is_lists)
{
    const char **names;
    est_status   status;

    *g = (est_feature_group){ 0 };
    if (specs == NULL && n > 0) return est_fail(EST_INVALID_ARGUMENT, "the specs of %zu features are NULL", n);
    g->outputs = est_zalloc((n + 1) * sizeof *g->outputs);
    names      = est_zalloc((n + 1) * sizeof *names);
    if (g->outputs == NULL || names == NULL) {
        est_free(names);
        return est_no_memory();
    }
    for (size_t i = 0; i < n; i++) names[i] = specs[i].name != NULL ? specs[i].name : "";
    status = est_feature_table_init(&g->table, names, n);
    est_free(names);
    EST_TRY(status);
    for (; g->n < n; g->n++) {
        status = est_feature_output_init(&g->outputs[g->n], &specs[g->n], is_lists);
        if (status == EST_OK) continue;
        est_feature_output_clear(&g->outputs[g->n]);
        return status;
    }
    return EST_OK;
}

void est_feature_group_clear(est_feature_group *g)
{
    for (size_t i = 0; i < g->n; i++) est_feature_output_clear(&g->outputs[i]);
    est_feature_table_clear(&g->table);
    est_free(g->outputs);
    est_free(g->scratch.data);
    *g = (est_feature_group){ 0 };
}

est_status est_feature_group_begin(est_feature_group *g, size_t n, bool kept)
{
    for (size_t i = 0; i < g->n; i++) EST_TRY(est_feature_output_begin(&g->outputs[i], n, kept));
    return EST_OK;
}

est_status est_feature_group_row(est_feature_group *g, size_t row, const void *outermost)
{
    for (size_t i = 0; i < g->n; i++) {
        const est_str *value = est_feature_table_value(&g->table, i);

        if (est_feature_output_one(&g->outputs[i], row, value)) continue;
        EST_TRY(est_feature_output_row(&g->outputs[i], row, value, outermost));
    }
    return EST_OK;
}

est_status est_feature_group_finish(est_feature_group *g, size_t n, est_feature_batch *batch)
{
    for (size_t i = 0; i < g->n; i++) {
        est_status status = est_feature_output_finish(&g->outputs[i], n, &g->scratch, &batch[i]);
        if (status != EST_OK) {
            est_feature_batch_clear(batch, i + 1);
            return status;
        }
    }
    return EST_OK;
}

void est_feature_group_abandon(est_feature_group *g)
{
    for (size_t i = 0; i < g->n; i++) est_feature_output_abandon(&g->outputs[i]);
}

void est_feature_batch_clear(est_feature_batch *batch, size_t n)
{
    for (size_t i = 0; batch != NULL && i < n; i++) {
        est_tensor_free(batch[i].values);
        est_tensor_free(batch[i].splits);
        est_tensor_free(batch[i].step_splits);
        est_tensor_free(batch[i].lengths);
        batch[i] = (est_feature_batch){ 0 };
    }
}
