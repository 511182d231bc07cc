/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding of calls. */
#include "cluster/calls.h"

#include <inttypes.h>
#include <limits.h>

#include "base/alloc.h"

#define PIPELINES_MAX 1000000 /* and the most shards of a dataset */

enum { FEED = 1, ITERATOR, COMPONENT }; /* of an argument */

static void put_str(est_packing *out, uint32_t field, est_str text)
{
    est_wire_put_bytes(&out->head, field, text.data, text.size);
}

static est_status need(const est_message *message, const char *request, uint32_t field, const char *what)
{
    est_wire_reader r;
    est_wire_field  found;

    est_head_open(message, &r);
    while (est_wire_next(&r, &found)) {
        if (found.number == field) return EST_OK;
    }
    EST_TRY(est_wire_finish(&r));
    return est_fail(EST_INVALID_ARGUMENT, "the request %s has no %s", request, what);
}

static est_status in_range(const char *request, const char *what, uint64_t value, uint64_t low, uint64_t high)
{
    if (value >= low && value <= high) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "the request %s has %s %" PRIu64 ", expected %" PRIu64 " to %" PRIu64,
                    request, what, value, low, high);
}

/* --- SETUP -------------------------------------------------------------------------------------------------------- */

void est_setup_put(const est_setup *setup, const char *const *names, int n, est_packing *out)
{
    est_wire_put_u64(&out->head, EST_FIELD_ORIGIN, setup->origin);
    est_wire_put_u64(&out->head, EST_FIELD_SEED, setup->seed);
    est_wire_put_f64(&out->head, EST_FIELD_CONNECT_SECS, setup->connect_secs);
    est_wire_put_bool(&out->head, EST_FIELD_AT_LEAST_ONCE, setup->at_least_once);
    for (int i = 0; i < n; i++) est_wire_put_string(&out->head, EST_FIELD_NAME, names[i]);
}

est_status est_setup_read(const est_message *message, est_setup *out)
{
    est_wire_reader r;
    est_wire_field  field;

    *out = (est_setup){ 0 };
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_ORIGIN) out->origin = est_wire_u64(&r, &field);
        if (field.number == EST_FIELD_SEED) out->seed = est_wire_u64(&r, &field);
        if (field.number == EST_FIELD_CONNECT_SECS) out->connect_secs = est_wire_f64(&r, &field);
        if (field.number == EST_FIELD_AT_LEAST_ONCE) out->at_least_once = est_wire_bool(&r, &field);
    }
    EST_TRY(est_wire_finish(&r));
    if (out->origin == 0) return est_fail(EST_INVALID_ARGUMENT, "the request SETUP has no origin");
    if (out->connect_secs >= 0) return EST_OK; /* not if it is NaN; INFINITY: no limit */
    return est_fail(EST_INVALID_ARGUMENT, "the request SETUP has %g connect_secs; expected at least 0",
                    out->connect_secs);
}

/* --- FUNCTION ----------------------------------------------------------------------------------------------------- */

void est_function_request_put(const est_function_request *function, const char *const *locals, int n_locals,
                              est_packing *out)
{
    est_wire_put_u64(&out->head, EST_FIELD_FUNCTION, function->number);
    put_str(out, EST_FIELD_NAME, function->name);
    put_str(out, EST_FIELD_BYTES, function->bytes);
    for (int i = 0; i < n_locals; i++) est_wire_put_string(&out->head, EST_FIELD_LOCAL, locals[i]);
    if (function->has_resets) est_wire_put_i64(&out->head, EST_FIELD_RESETS, function->n_resets);
}

est_status est_function_request_read(const est_message *message, est_function_request *out)
{
    uint64_t n_resets = est_head_u64(message, EST_FIELD_RESETS, UINT64_MAX);

    EST_TRY(need(message, "FUNCTION", EST_FIELD_FUNCTION, "number"));
    if (n_resets != UINT64_MAX) EST_TRY(in_range("FUNCTION", "resets", n_resets, 0, INT_MAX));
    *out = (est_function_request){ .number     = est_head_u64(message, EST_FIELD_FUNCTION, 0),
                                   .name       = est_head_bytes(message, EST_FIELD_NAME),
                                   .bytes      = est_head_bytes(message, EST_FIELD_BYTES),
                                   .has_resets = n_resets != UINT64_MAX,
                                   .n_resets   = n_resets != UINT64_MAX ? (int)n_resets : 0 };
    if (out->bytes.data == NULL) return est_fail(EST_INVALID_ARGUMENT, "the request FUNCTION has no graph");
    return EST_OK;
}

/* --- DATASET, ITERATOR -------------------------------------------------------------------------------------------- */

void est_dataset_request_put(const est_dataset_request *dataset, est_packing *out)
{
    est_wire_put_u64(&out->head, EST_FIELD_DATASET, dataset->number);
    if (dataset->bytes.data != NULL) put_str(out, EST_FIELD_BYTES, dataset->bytes);
    if (dataset->name.data != NULL) put_str(out, EST_FIELD_NAME, dataset->name);
    if (dataset->params.data != NULL) put_str(out, EST_FIELD_PARAMS, dataset->params);
    est_wire_put_i64(&out->head, EST_FIELD_PIPELINE, dataset->pipeline);
    est_wire_put_i64(&out->head, EST_FIELD_PIPELINES, dataset->n_pipelines > 0 ? dataset->n_pipelines : 1);
    est_wire_put_u64(&out->head, EST_FIELD_READER, dataset->reader);
}

est_status est_dataset_request_read(const est_message *message, est_dataset_request *out)
{
    uint64_t n = est_head_u64(message, EST_FIELD_PIPELINES, 1), i = est_head_u64(message, EST_FIELD_PIPELINE, 0);

    EST_TRY(need(message, "DATASET", EST_FIELD_DATASET, "number"));
    EST_TRY(in_range("DATASET", "pipelines", n, 1, PIPELINES_MAX));
    EST_TRY(in_range("DATASET", "pipeline", i, 0, n - 1));
    *out = (est_dataset_request){ .number      = est_head_u64(message, EST_FIELD_DATASET, 0),
                                  .bytes       = est_head_bytes(message, EST_FIELD_BYTES),
                                  .name        = est_head_bytes(message, EST_FIELD_NAME),
                                  .params      = est_head_bytes(message, EST_FIELD_PARAMS),
                                  .pipeline    = (int)i,
                                  .n_pipelines = (int)n,
                                  .reader      = est_head_u64(message, EST_FIELD_READER, 0) };
    if ((out->bytes.data == NULL) != (out->name.data == NULL)) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT,
                    "the request DATASET has %s; expected the bytes of a dataset or the name of a function",
                    out->bytes.data != NULL ? "both bytes and a name" : "neither bytes nor a name");
}

void est_iterator_request_put(const est_iterator_request *iterator, est_packing *out)
{
    est_wire_put_u64(&out->head, EST_FIELD_ITERATOR, iterator->number);
    est_wire_put_u64(&out->head, EST_FIELD_DATASET, iterator->dataset);
    est_wire_put_i64(&out->head, EST_FIELD_SKIP, iterator->skip);
}

est_status est_iterator_request_read(const est_message *message, est_iterator_request *out)
{
    uint64_t skip = est_head_u64(message, EST_FIELD_SKIP, 0);

    EST_TRY(need(message, "ITERATOR", EST_FIELD_ITERATOR, "number"));
    EST_TRY(need(message, "ITERATOR", EST_FIELD_DATASET, "dataset"));
    EST_TRY(in_range("ITERATOR", "skip", skip, 0, INT64_MAX));
    *out = (est_iterator_request){ est_head_u64(message, EST_FIELD_ITERATOR, 0),
                                   est_head_u64(message, EST_FIELD_DATASET, 0), (int64_t)skip };
    return EST_OK;
}

/* --- CALL, SHARD -------------------------------------------------------------------------------------------------- */

void est_call_request_put(const est_call_request *call, bool is_shard, est_packing *out)
{
    est_wire_put_u64(&out->head, EST_FIELD_CALL, call->call);
    est_wire_put_u64(&out->head, EST_FIELD_CALL_FIRST, call->first);
    est_wire_put_u64(&out->head, EST_FIELD_FUNCTION, call->function);
    if (!is_shard) return;
    est_wire_put_u64(&out->head, EST_FIELD_DATASET, call->dataset);
    est_wire_put_i64(&out->head, EST_FIELD_SHARDS, call->n_shards);
    est_wire_put_i64(&out->head, EST_FIELD_SHARD, call->shard);
}

static est_status check_shard(const est_message *message, est_call_request *out)
{
    uint64_t n = est_head_u64(message, EST_FIELD_SHARDS, 0), i = est_head_u64(message, EST_FIELD_SHARD, 0);

    EST_TRY(need(message, "SHARD", EST_FIELD_DATASET, "dataset"));
    EST_TRY(in_range("SHARD", "shards", n, 1, PIPELINES_MAX));
    EST_TRY(in_range("SHARD", "shard", i, 0, n - 1));
    out->n_shards = (int64_t)n;
    out->shard    = (int64_t)i;
    return EST_OK;
}

/* One walk: a coordinator makes many thousands of calls per second. */
est_status est_call_request_read(const est_message *message, bool is_shard, est_call_request *out)
{
    est_wire_reader r;
    est_wire_field  field;
    bool            has_function = false;

    *out = (est_call_request){ 0 };
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == EST_FIELD_CALL) out->call = est_wire_u64(&r, &field);
        if (field.number == EST_FIELD_CALL_FIRST) out->first = est_wire_u64(&r, &field);
        if (field.number == EST_FIELD_DATASET) out->dataset = est_wire_u64(&r, &field);
        if (field.number == EST_FIELD_FUNCTION) {
            out->function = est_wire_u64(&r, &field);
            has_function  = true;
        }
    }
    EST_TRY(est_wire_finish(&r));
    if (out->call == 0 || !has_function || out->first > out->call) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "a call needs a number, a function, and a first call that is not above it: call %" PRIu64
                        ", first %" PRIu64 "%s",
                        out->call, out->first, has_function ? "" : ", no function");
    }
    return is_shard ? check_shard(message, out) : EST_OK;
}

void est_call_failure_put(est_status status, const char *error, est_packing *out)
{
    est_wire_put_u64(&out->head, EST_FIELD_FAILED, (uint64_t)status);
    est_wire_put_string(&out->head, EST_FIELD_ERROR, error);
}

est_status est_call_failure_read(const est_message *answer)
{
    uint64_t status = est_head_u64(answer, EST_FIELD_FAILED, EST_OK);
    est_str  error;

    if (status == EST_OK) return EST_OK;
    error = est_head_bytes(answer, EST_FIELD_ERROR);
    return est_fail(status <= EST_UNAUTHENTICATED ? (est_status)status : EST_INTERNAL, "%.*s",
                    est_text_precision(error), error.size > 0 ? error.data : "");
}

void est_call_argument_put(const est_call_argument *argument, est_packing *out)
{
    size_t mark = est_wire_begin(&out->head, EST_FIELD_ARGUMENT);

    est_wire_put_i64(&out->head, FEED, argument->feed);
    if (argument->from_iterator) est_wire_put_u64(&out->head, ITERATOR, argument->iterator);
    if (argument->component.data != NULL) put_str(out, COMPONENT, argument->component);
    est_wire_end(&out->head, mark);
}

static est_status read_argument(est_wire_reader *outer, const est_wire_field *argument, est_call_argument *out)
{
    est_wire_reader r;
    est_wire_field  field;
    uint64_t        feed = UINT64_MAX;

    *out = (est_call_argument){ 0 };
    est_wire_message(outer, argument, "argument", &r);
    while (est_wire_next(&r, &field)) {
        if (field.number == FEED) feed = est_wire_u64(&r, &field);
        if (field.number == COMPONENT) out->component = est_wire_bytes(&r, &field);
        if (field.number == ITERATOR) {
            out->iterator      = est_wire_u64(&r, &field);
            out->from_iterator = true;
        }
    }
    EST_TRY(est_wire_finish(&r));
    if (feed > INT_MAX) return est_fail(EST_INVALID_ARGUMENT, "an argument of a call names no feed");
    out->feed = (int)feed;
    if (!out->from_iterator || out->component.data != NULL) return EST_OK;
    return est_fail(EST_INVALID_ARGUMENT, "an argument of a call comes from an iterator, but names no component");
}

est_status est_call_arguments_read(const est_message *message, est_call_arguments *out)
{
    est_wire_reader r;
    est_wire_field  field;

    out->n = 0;
    est_head_open(message, &r);
    while (est_wire_next(&r, &field)) {
        if (field.number != EST_FIELD_ARGUMENT) continue;
        if (out->n == out->max) {
            int                max  = out->max == 0 ? 8 : 2 * out->max;
            est_call_argument *more = est_realloc(out->data, sizeof *more * (size_t)max);

            if (more == NULL) return est_no_memory();
            out->data = more;
            out->max  = max;
        }
        EST_TRY(read_argument(&r, &field, &out->data[out->n]));
        out->n++;
    }
    return est_wire_finish(&r);
}

void est_call_arguments_clear(est_call_arguments *arguments)
{
    est_free(arguments->data);
    *arguments = (est_call_arguments){ 0 };
}
