/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop as hooks see it (est_loop_*): feeds, fetches, results, stop requests, and finding a non-finite input. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "base/signals.h"
#include "estoc/devices.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "train/loop_state.h"
#include "train/summary_writer.h"

est_graph *est_loop_graph(est_loop *loop)
{
    return loop != NULL ? loop->spec.graph : NULL;
}

est_session *est_loop_session(est_loop *loop)
{
    return loop != NULL ? loop->session : NULL;
}

const char *est_loop_model_dir(const est_loop *loop)
{
    return loop != NULL ? loop->model_dir : NULL;
}

est_node est_loop_rate(const est_loop *loop)
{
    return loop->spec.rate;
}

est_iterator *est_loop_input(est_loop *loop)
{
    return loop->input;
}

bool est_loop_input_ended(const est_loop *loop)
{
    return loop->input_ended;
}

void est_loop_end_input(est_loop *loop)
{
    loop->input_ended = true;
}

bool est_loop_at_end(const est_loop *loop)
{
    return loop->at_end;
}

int est_loop_replicas(const est_loop *loop)
{
    return loop->spec.n_replicas > 0 ? loop->spec.n_replicas : 1;
}

int est_loop_components(const est_loop *loop)
{
    return loop->spec.input != NULL ? est_dataset_components(loop->spec.input) : 0;
}

int64_t est_field_rows(const est_field *field)
{
    const est_shape *shape;

    if (field->values == NULL) return 0;
    if (field->splits != NULL)
        return est_tensor_count(field->splits) - 1; /* offsets of the rows, and the end of the last */
    shape = est_tensor_shape(field->values);
    return shape->rank > 0 ? shape->dim[0] : 0;
}

int64_t est_loop_batch_rows(const est_loop *loop)
{
    int64_t rows = 0;

    if (loop->spec.n_feeds == 0 || loop->values == NULL || loop->values[0] == NULL) return 0;
    for (int r = 0; r < est_loop_replicas(loop); r++) {
        rows += est_field_rows(&loop->batch[r * est_loop_components(loop) + loop->feeds[0].component]);
    }
    return rows;
}

static double float_at(const est_tensor *values, int64_t i)
{
    if (est_tensor_dtype(values) == EST_F32) return (double)((const float *)est_tensor_data(values))[i];
    return ((const double *)est_tensor_data(values))[i];
}

/* The row of a field that holds element i of its values. */
static int64_t row_of(const est_field *field, int64_t i)
{
    const est_shape *shape = est_tensor_shape(field->values);
    int64_t          outer = shape->rank > 0 ? i / (est_tensor_count(field->values) / shape->dim[0]) : 0;
    const int64_t   *splits;
    int64_t          row = 0;

    if (field->splits == NULL) return outer;
    splits = est_tensor_data(field->splits);
    while (splits[row + 1] <= outer) row++;
    return row;
}

/* The fed tensor of a component, or its splits: of the run that has failed on a device, or of the last one. */
static est_tensor *fed_tensor(const est_loop *loop, const est_loop_feed *of, bool splits)
{
    const est_flight_failure *failure = loop->session != NULL ? est_session_failure(loop->session) : NULL;
    const est_field          *field;

    if (failure == NULL || !failure->failed) {
        field = &loop->batch[of->replica * est_loop_components(loop) + of->component];
        return splits ? field->splits : field->values;
    }
    for (int k = 0; k < loop->spec.n_feeds && k < failure->n_feeds; k++) {
        const est_loop_feed *feed = &loop->feeds[k];

        if (feed->replica == of->replica && feed->component == of->component && feed->splits == splits && !feed->rows &&
            feed->value == NULL) {
            return failure->feeds[k];
        }
    }
    return NULL;
}

static bool is_not_finite(const est_field *field, const char *name, char text[EST_LOOP_TEXT_MAX])
{
    for (int64_t i = 0; i < est_tensor_count(field->values); i++) {
        double value = float_at(field->values, i);

        if (isfinite(value)) continue;
        snprintf(text, EST_LOOP_TEXT_MAX, "feature or label %s is %g in row %" PRId64 " of the batch", name, value,
                 row_of(field, i));
        return true;
    }
    return false;
}

const char *est_loop_not_finite(const est_loop *loop, char text[EST_LOOP_TEXT_MAX])
{
    bool found = false;

    text[0] = '\0';
    for (int k = 0; k < loop->spec.n_feeds && loop->values != NULL && !found; k++) {
        const est_loop_feed *feed   = &loop->feeds[k];
        const est_component *of     = est_dataset_component(loop->spec.input, feed->component);
        est_tensor          *values = fed_tensor(loop, feed, false), *splits = fed_tensor(loop, feed, true);
        est_field            here = { 0 };

        if (loop->values[k] == NULL || values == NULL || feed->rows || feed->value != NULL ||
            (of->dtype != EST_F32 && of->dtype != EST_F64))
            continue;
        if (est_tensor_to_host(values, &here.values) == EST_OK &&
            (splits == NULL || est_tensor_to_host(splits, &here.splits) == EST_OK)) {
            found = is_not_finite(&here, of->name, text);
        }
        est_tensor_free(here.values);
        est_tensor_free(here.splits);
    }
    return text;
}

void est_loop_give_back(const est_tensor **value)
{
    est_tensor *own;

    memcpy(&own, value, sizeof own);
    est_tensor_free(own);
    *value = NULL;
}

void est_loop_fail(est_loop *loop, est_status status)
{
    if (loop->failed != EST_OK) return;
    loop->failed = status;
    est_error_take(status, &loop->error);
}

int est_loop_add_node(est_loop *loop, est_node_list *list, est_node node, const char *purpose)
{
    est_status status = EST_OK;

    if (loop->phase != LOOP_BEGINS && !loop->asks) {
        status = est_fail(EST_FAILED_PRECONDITION, "a hook can request nodes to %s only in begin or before_run",
                          purpose);
    } else if (node.graph == NULL) {
        status = est_fail(EST_INVALID_ARGUMENT, "a hook requests to %s a node that does not exist", purpose);
    } else if (node.graph != loop->spec.graph) {
        status = est_fail(EST_INVALID_ARGUMENT, "a hook requests to %s '%s', which is a node of another graph", purpose,
                          est_node_name(node));
    } else if (list->n == list->capacity) {
        int       capacity = list->capacity > 0 ? 2 * list->capacity : 8;
        est_node *data     = est_realloc(list->data, (size_t)capacity * sizeof *data);

        if (data != NULL) {
            list->data     = data;
            list->capacity = capacity;
        } else {
            status = est_no_memory();
        }
    }
    if (status != EST_OK) {
        est_loop_fail(loop, status);
        return -1;
    }
    list->data[list->n] = node;
    return list->n++;
}

/* What a hook names in before_run makes the steps stale that were prepared before. */
static int add_late(est_loop *loop, int at)
{
    if (at < 0 || !loop->asks || est_loop_make_room(loop) == EST_OK) return at;
    est_loop_fail(loop, est_no_memory());
    return -1;
}

int est_loop_fetch(est_loop *loop, est_node node)
{
    if (loop == NULL) return -1;
    for (int i = 0; i < loop->fetches.n && loop->asks; i++) {
        if (memcmp(&loop->fetches.data[i], &node, sizeof node) == 0) return i;
    }
    return add_late(loop, est_loop_add_node(loop, &loop->fetches, node, "see"));
}

void est_loop_want(est_loop *loop, int i)
{
    if (loop == NULL) return;
    if (i >= 0 && i < loop->fetches.n && loop->wanted != NULL) loop->wanted[i] = true;
}

int est_loop_add_feed(est_loop *loop, est_node node)
{
    int at;

    if (loop == NULL) return -1;
    for (int i = 0; i < loop->fed.n; i++) {
        if (memcmp(&loop->fed.data[i], &node, sizeof node) != 0) continue;
        est_loop_fail(loop, est_fail(EST_ALREADY_EXISTS, "a hook requests to feed '%s', which %s already feeds",
                                     est_node_name(node), i < loop->spec.n_feeds ? "the input" : "another hook"));
        return -1;
    }
    at = add_late(loop, est_loop_add_node(loop, &loop->fed, node, "feed"));
    return at >= 0 ? at - loop->spec.n_feeds : -1;
}

void est_loop_set_feed(est_loop *loop, int i, est_tensor *value)
{
    int at;

    if (loop == NULL) return;
    at = i + loop->spec.n_feeds;
    if (i < 0 || at >= loop->n_values || value == NULL) {
        est_loop_fail(loop, est_fail(EST_INVALID_ARGUMENT, "a hook sets feed %d of %d to %s value", i,
                                     loop->fed.n - loop->spec.n_feeds, value == NULL ? "no" : "a"));
        return;
    }
    (void)est_tensor_ref(value);
    est_loop_give_back(&loop->values[at]);
    loop->values[at] = value;
}

void est_loop_trace(est_loop *loop)
{
    loop->traced = true;
}

est_plan *est_loop_plan(est_loop *loop)
{
    return loop->ran >= 0 ? loop->variants[loop->ran].plan : NULL;
}

est_status est_loop_write_timeline(est_loop *loop, const char *path, const est_timeline_options *options)
{
    est_plan            *plan = est_loop_plan(loop);
    est_timeline_options own;

    if (plan == NULL) return est_fail(EST_FAILED_PRECONDITION, "%s: no step has run yet", path);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_timeline_options), options, &own));
    return est_trace_write_timeline(plan, path, &own);
}

/* Fetch i of the last run; NULL: it was not fetched. */
static const est_view *result(const est_loop *loop, int i)
{
    const est_loop_variant *ran = loop != NULL && loop->ran >= 0 ? &loop->variants[loop->ran] : NULL;

    return ran != NULL && i >= 0 && i < loop->fetches.n ? est_plan_fetch(ran->plan, ran->place[i]) : NULL;
}

const void *est_loop_data(const est_loop *loop, int i)
{
    const est_view *view = result(loop, i);

    return view != NULL ? view->data : NULL;
}

const est_shape *est_loop_shape(const est_loop *loop, int i)
{
    const est_view *view = result(loop, i);

    return view != NULL ? &view->shape : NULL;
}

est_dtype est_loop_dtype(const est_loop *loop, int i)
{
    if (loop == NULL) return EST_DTYPE_NONE;
    return i >= 0 && i < loop->fetches.n ? est_node_dtype(loop->fetches.data[i]) : EST_DTYPE_NONE;
}

double est_loop_scalar(const est_loop *loop, int i)
{
    const est_view *view = result(loop, i);

    return view != NULL && view->count == 1 && view->dtype != EST_STRING ? est_view_scalar(view) : NAN;
}

double est_loop_loss(const est_loop *loop)
{
    if (loop == NULL) return NAN;
    return loop->far_loss != NULL ? est_step_scalar(loop->far_loss, 0) : loop->loss;
}

bool est_loop_is_watched(const est_loop *loop)
{
    return loop->watched;
}

int64_t est_loop_global_step(const est_loop *loop)
{
    return loop != NULL ? loop->global_step : -1;
}

est_status est_loop_read_step(est_loop *loop, int64_t *out)
{
    est_tensor *step = NULL;

    EST_TRY(est_session_read(loop->session, "global_step", &step));
    *out = *(const int64_t *)est_tensor_data(step);
    est_tensor_free(step);
    return EST_OK;
}

void est_loop_set_global_step(est_loop *loop, int64_t step)
{
    loop->global_step = step;
}

int64_t est_loop_runs(const est_loop *loop)
{
    return loop != NULL ? loop->runs : 0;
}

void est_loop_request_stop(est_loop *loop, const char *reason)
{
    if (loop == NULL) return;
    if (loop->stop) return;
    loop->stop = true;
    snprintf(loop->stop_reason, sizeof loop->stop_reason, "%s", reason != NULL ? reason : "a hook requested a stop");
}

bool est_loop_should_stop(const est_loop *loop)
{
    return loop != NULL ? loop->stop || est_stop_signal() != 0 : false;
}

void est_loop_job_over(est_loop *loop)
{
    loop->over = true;
    est_loop_request_stop(loop, "the job is over");
}

bool est_loop_withdraw_stop(est_loop *loop)
{
    if (!loop->stop || loop->over || est_stop_signal() != 0) return false;
    loop->stop = false;
    return true;
}

bool est_loop_rejoined(const est_loop *loop)
{
    return loop->rejoined;
}

struct est_summary_writer *est_loop_summaries(est_loop *loop)
{
    return loop->spec.summaries;
}

const est_loop_spec *est_loop_get_spec(const est_loop *loop)
{
    return &loop->spec;
}

uint64_t est_loop_run_count(const est_loop *loop)
{
    return loop->run_count;
}

void est_loop_summary(est_loop *loop, const char *tag, double value)
{
    if (loop == NULL) return;
    if (loop->spec.summaries == NULL) return;
    est_summary_begin(loop->spec.summaries, loop->global_step);
    est_summary_add_scalar(loop->spec.summaries, tag, value);
    est_summary_end(loop->spec.summaries);
}

const char *est_loop_stop_reason(const est_loop *loop)
{
    return loop->stop_reason;
}

bool est_loop_signalled(const est_loop *loop)
{
    return loop->signalled;
}
