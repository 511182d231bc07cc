/* SPDX-License-Identifier: Apache-2.0
 *
 * Values: results of calls. An answer is kept as it came and unpacked by the thread that fetches. */
#include "base/argument.h"
#include "coordinator/coordinator.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"

/* --- errors ------------------------------------------------------------------------------------------------------- */

est_call_error *est_call_error_make(est_status status, const char *text)
{
    size_t          size  = strlen(text) + 1;
    est_call_error *error = est_alloc(sizeof *error + size);

    if (error == NULL) return NULL;
    est_refcount_init(&error->references);
    error->status = status;
    memcpy(error->text, text, size);
    return error;
}

est_call_error *est_call_error_ref(est_call_error *error)
{
    if (error != NULL) est_refcount_add(&error->references);
    return error;
}

void est_call_error_free(est_call_error *error)
{
    if (error != NULL && est_refcount_drop(&error->references)) est_free(error);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

est_status est_remote_value_make(est_coordinator *c, int n_fetches, est_remote_value **out)
{
    est_remote_value *value = est_zalloc(sizeof *value);

    if (value == NULL) return est_no_memory();
    est_refcount_init(&value->references);
    est_coordinator_ref(c);
    value->coordinator = c;
    value->n_fetches   = n_fetches;
    *out               = value;
    return EST_OK;
}

void est_remote_value_free(est_remote_value *value)
{
    if (value == NULL || !est_refcount_drop(&value->references)) return;
    est_message_free(value->answer);
    est_call_error_free(value->error);
    est_coordinator_unref(value->coordinator);
    est_free(value);
}

est_value_state est_remote_value_status(const est_remote_value *value)
{
    est_value_state state;

    if (value == NULL) return EST_VALUE_CANCELLED;
    pthread_mutex_lock(&value->coordinator->lock);
    state = value->state;
    pthread_mutex_unlock(&value->coordinator->lock);
    return state;
}

static bool is_settled(const est_coordinator *c, const void *user)
{
    (void)c;
    return ((const est_remote_value *)user)->state != EST_VALUE_NOT_READY;
}

/* Fails with the error of the call, if it has one. */
static est_status await_value(est_remote_value *value)
{
    est_coordinator *c = value->coordinator;
    est_status       status;

    pthread_mutex_lock(&c->lock);
    value->n_waiting++;
    status = est_coordinator_await(c, is_settled, value, "the result of a call is fetched");
    if (status == EST_OK && value->state != EST_VALUE_READY) status = est_coordinator_raise(c, value->error);
    value->n_waiting--;
    pthread_mutex_unlock(&c->lock);
    return status;
}

static est_status unpack(const est_remote_value *value, int i, est_tensor **out)
{
    est_unpacked got    = { 0 };
    est_status   status = est_unpack_tensors(value->answer, &got);

    if (status == EST_OK && got.n != value->n_fetches) {
        status = est_fail(EST_DATA_LOSS, "call %" PRIu64 " was answered with %d tensors, expected %d", value->call,
                          got.n, value->n_fetches);
    }
    if (status == EST_OK)
        status = est_tensor_create_from(got.views[i].dtype, got.views[i].shape, got.views[i].data, out);
    est_unpacked_clear(&got);
    return status;
}

est_status est_remote_value_fetch(est_remote_value *value, int i, est_tensor **out)
{
    est_status status;

    EST_REQUIRE(value);
    EST_REQUIRE(out);
    if (i < 0 || i >= value->n_fetches) {
        return est_fail(EST_INVALID_ARGUMENT, "fetch %d of a call: its function has %d fetches", i, value->n_fetches);
    }
    status = await_value(value);
    if (status == EST_OK) return unpack(value, i, out);
    return est_remote_value_status(value) == EST_VALUE_CANCELLED && value->error != NULL
               ? est_fail_context(EST_CANCELLED, "the call was cancelled")
               : status;
}
