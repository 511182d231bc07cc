/* SPDX-License-Identifier: Apache-2.0
 *
 * The states of metrics in a fit by several workers. After every step they are the sums over all workers' examples of
 * the epoch (nn/metric_shared.c), so they are of a step as variables are: workers that meet take those of the worker
 * with the variables, and checkpoints hold them.
 *
 *   FS1  The states of the last step of an epoch go only with the first step of the next one: a worker may still have
 *        to make the last one when others have begun the next. Those who have begun keep a copy (`ended`), which is
 *        what they pack until that step is made.
 *
 * Packed: a fingerprint of names and shapes, and the values in order. */
#include <string.h>

#include "base/fingerprint.h"
#include "base/strbuf.h"
#include "estoc/saver.h"
#include "network/fit.h"
#include "ops/ops.h"
#include "runtime/session.h"
#include "tensor/shape.h"

static est_node state_at(const est_fit *fit, int i)
{
    return est_local_variables(fit->network->graph).data[fit->f->first_state + i];
}

static est_status fingerprint_of(const est_fit *fit, uint64_t *out)
{
    est_strbuf text = { 0 };
    est_status status;
    char       shape[EST_SHAPE_TEXT_MAX];

    for (int i = 0; i < fit->f->n_states; i++) {
        est_node state = state_at(fit, i);

        est_strbuf_printf(&text, "%s %s %s\n", est_node_name(state), est_dtype_name(est_variable_dtype(state)),
                          est_shape_text(est_node_shape(state), shape));
    }
    status = est_strbuf_status(&text);
    if (status == EST_OK) *out = est_fingerprint64(est_strbuf_text(&text), strlen(est_strbuf_text(&text)));
    est_strbuf_clear(&text);
    return status;
}

static est_status append(const est_tensor *value, est_packed_states *out)
{
    size_t bytes = est_tensor_bytes(value);
    char  *data  = est_realloc(out->data, out->size + bytes + 1);

    if (data == NULL) return est_no_memory();
    memcpy(data + out->size, est_tensor_data(value), bytes);
    out->data = data;
    out->size += bytes;
    return EST_OK;
}

static est_status pack(const est_fit *fit, est_packed_states *out)
{
    uint64_t   fingerprint;
    est_status status = EST_OK;

    EST_TRY(fingerprint_of(fit, &fingerprint));
    out->data = est_alloc(sizeof fingerprint);
    if (out->data == NULL) return est_no_memory();
    memcpy(out->data, &fingerprint, sizeof fingerprint);
    out->size = sizeof fingerprint;
    for (int i = 0; i < fit->f->n_states && status == EST_OK; i++) {
        est_tensor *value = NULL;

        status = est_session_read(fit->network->session, est_node_name(state_at(fit, i)), &value);
        if (status == EST_OK) status = append(value, out);
        est_tensor_free(value);
    }
    if (status != EST_OK) est_packed_states_clear(out);
    return status;
}

void est_packed_states_clear(est_packed_states *states)
{
    est_free(states->data);
    *states = (est_packed_states){ 0 };
}

est_status est_fit_states_pack(const est_fit *fit, const est_packed_states *ended, est_packed_states *out)
{
    *out = (est_packed_states){ 0 };
    if (ended == NULL || ended->data == NULL) return pack(fit, out);
    out->data = est_alloc(ended->size);
    if (out->data == NULL) return est_no_memory();
    memcpy(out->data, ended->data, ended->size);
    out->size = ended->size;
    return EST_OK;
}

est_status est_fit_states_unpack(const est_fit *fit, const char *bytes, size_t size, bool *fits)
{
    uint64_t    want, have = 0;
    size_t      at     = sizeof have;
    est_tensor *value  = NULL;
    est_status  status = EST_OK;

    EST_TRY(fingerprint_of(fit, &want));
    if (size >= sizeof have) memcpy(&have, bytes, sizeof have);
    *fits = have == want;
    for (int i = 0; *fits && i < fit->f->n_states && status == EST_OK; i++) {
        est_node state = state_at(fit, i);

        EST_TRY(est_tensor_create(est_variable_dtype(state), *est_node_shape(state), &value));
        *fits = size - at >= est_tensor_bytes(value);
        if (*fits) {
            memcpy(est_tensor_mutable_data(value), bytes + at, est_tensor_bytes(value));
            at += est_tensor_bytes(value);
            status = est_session_write(fit->network->session, est_node_name(state), value);
        }
        est_tensor_free(value);
    }
    return status;
}
