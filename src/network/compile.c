/* SPDX-License-Identifier: Apache-2.0
 *
 * compile: names and values of the loss, the optimizer and the metrics. Nothing is built here: that needs the shapes of
 * labels, which the first dataset has. */
#include <math.h>
#include <string.h>

#include "base/argument.h"
#include "base/nearest.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "network/network.h"

void est_compiled_free(est_compiled *compiled)
{
    est_free(compiled);
}

est_status est_network_need_compiled(const est_network *network, const char *what)
{
    if (network->compiled != NULL) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION, "%s is not compiled; call est_network_compile before %s", network->name,
                    what);
}

est_status est_network_need_idle(const est_network *network, const char *what, bool in_fit)
{
    const char *busy = network->evaluating ? "est_network_evaluate" : "est_network_fit";

    if (!network->evaluating && (in_fit || !network->fitting)) return EST_OK;
    return est_fail(EST_FAILED_PRECONDITION, "%s: a callback of %s calls %s; do that when %s has returned",
                    network->name, busy, what, busy);
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static est_status copy_name(est_network *network, const char *given, const char **out)
{
    if (given == NULL) return EST_OK;
    *out = est_arena_strdup(network->arena, given);
    return *out != NULL ? EST_OK : est_no_memory();
}

/* What the options say of an output, in the words of an est_compile_output. */
static est_compile_output shared_by_all(const est_compile_options *o)
{
    return (est_compile_output){ .loss             = o->loss,
                                 .loss_value       = o->loss_value,
                                 .metrics          = o->metrics,
                                 .metric_values    = o->metric_values,
                                 .weighted_metrics = o->weighted_metrics,
                                 .label            = o->label };
}

static est_compile_output nth_output(const est_compile_options *o, int i)
{
    return o->outputs.n > 0 ? o->outputs.data[i] : shared_by_all(o);
}

static est_status check_outputs(const est_network *network, const est_compile_options *o)
{
    EST_REQUIRE_LIST("compile: outputs", o->outputs);
    if (o->outputs.n > 0 && (o->loss != NULL || o->loss_value.each != NULL || o->metrics.n > 0 ||
                             o->metric_values.n > 0 || o->weighted_metrics.n > 0 || o->label != NULL)) {
        return est_fail(EST_INVALID_ARGUMENT, "compile: outputs is set, and so is %s; write it for each of the outputs",
                        o->loss != NULL || o->loss_value.each != NULL ? "the loss"
                        : o->label != NULL                            ? "label"
                                                                      : "a metric");
    }
    if (network->n_outputs > 1 && o->label != NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "compile: label is set, and %s has %d outputs; set outputs, with a label for each",
                        network->name, network->n_outputs);
    }
    return EST_OK;
}

static void list_outputs(const est_network *network, est_strbuf *out)
{
    for (int i = 0; i < network->n_outputs; i++) {
        est_strbuf_printf(out, "%s%s", i > 0 ? ", " : "", network->output_names[i]);
    }
}

static est_status fail_unknown(const est_network *network, const char *name)
{
    const char *near = est_nearest(name, network->output_names, (size_t)network->n_outputs);
    est_strbuf  all  = { 0 };
    est_status  status;

    list_outputs(network, &all);
    status = est_fail(EST_INVALID_ARGUMENT, "compile: %s has no output %s%s%s%s; its outputs are: %s", network->name,
                      name, near != NULL ? "; did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "",
                      est_strbuf_text(&all));
    est_strbuf_clear(&all);
    return status;
}

static est_status find_output(const est_network *network, const est_compiled *c, const char *name, int *out)
{
    if (name == NULL) return est_fail(EST_INVALID_ARGUMENT, "compile: one of outputs has no name");
    if (network->output_names[0] == NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "compile: %s has one output without a name, and outputs has %s; name outputs in "
                        "EST_NETWORK(.outputs = ...), or set loss and metrics",
                        network->name, name);
    }
    for (*out = 0; *out < network->n_outputs; ++*out) {
        if (strcmp(network->output_names[*out], name) == 0) break;
    }
    if (*out == network->n_outputs) return fail_unknown(network, name);
    for (int i = 0; i < c->n_outputs; i++) {
        if (c->outputs[i].output == *out) return est_fail(EST_INVALID_ARGUMENT, "compile: outputs has %s twice", name);
    }
    return EST_OK;
}

/* The name of an output in errors; "": there is but one. */
static const char *shown_name(const est_network *network, int output)
{
    return network->n_outputs > 1 ? network->output_names[output] : "";
}

static est_status take_loss(est_network *network, const est_compile_output *o, est_compiled_output *out)
{
    const char *of = shown_name(network, out->output), *colon = of[0] != '\0' ? ": " : "";

    if (o->loss != NULL && o->loss_value.each != NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "compile: %s%sloss and loss_value are both set; leave one out", of,
                        colon);
    }
    if (o->loss == NULL && o->loss_value.each == NULL) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "compile: %s%sthere is no loss; set loss, as in EST_COMPILE(.loss = \"mse\")", of, colon);
    }
    out->loss = o->loss_value;
    if (o->loss != NULL) {
        est_status status = est_loss_by_name(o->loss, &out->loss);

        if (status != EST_OK) return est_fail_context(status, "compile: %s%sloss", of, colon);
    }
    out->loss.name = est_arena_strdup(network->arena, out->loss.name != NULL ? out->loss.name : "loss");
    return out->loss.name != NULL ? EST_OK : est_no_memory();
}

static est_status take_output(est_network *network, est_compiled *c, const est_compile_options *options)
{
    est_compile_output   o   = nth_output(options, c->n_outputs);
    est_compiled_output *out = &c->outputs[c->n_outputs];

    out->output = c->n_outputs;
    if (options->outputs.n > 0) EST_TRY(find_output(network, c, o.output, &out->output));
    if (!isfinite(o.loss_weight)) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "compile: %s: loss_weight is %g; write a number, 0 for 1 or EST_OFF for 0",
                        network->output_names[out->output], o.loss_weight);
    }
    out->weight = est_or(o.loss_weight, 1);
    EST_TRY(take_loss(network, &o, out));
    if (network->n_outputs > 1) out->label = network->output_names[out->output];
    EST_TRY(copy_name(network, o.label, &out->label));
    c->n_outputs++;
    return EST_OK;
}

static est_status take_outputs(est_network *network, est_compiled *c, const est_compile_options *o)
{
    int n = o->outputs.n > 0 ? o->outputs.n : network->n_outputs;

    EST_TRY(check_outputs(network, o));
    if (o->own_losses && o->outputs.n == 0 && o->loss == NULL && o->loss_value.each == NULL) {
        if (o->metrics.n == 0 && o->metric_values.n == 0 && o->weighted_metrics.n == 0) return EST_OK;
        return est_fail(EST_INVALID_ARGUMENT,
                        "compile: there are metrics, and no loss whose label they could be measured with; set loss");
    }
    c->outputs = est_arena_alloc(network->arena, (size_t)n * sizeof *c->outputs);
    if (c->outputs == NULL) return est_no_memory();
    while (c->n_outputs < n) EST_TRY(take_output(network, c, o));
    return EST_OK;
}

/* --- metrics ------------------------------------------------------------------------------------------------------ */

/* "loss" is at 0, and the names of metrics are distinct. Those of several outputs begin with the name of the output. */
static est_status add_metric(est_network *network, est_compiled *c, est_network_metric_item added)
{
    est_network_metric_item *item = &c->metrics[c->n_metrics];

    *item = added;
    if (network->n_outputs > 1 && added.output >= 0) {
        item->name = est_arena_printf(network->arena, "%s_%s", network->output_names[c->outputs[added.output].output],
                                      added.name);
    } else {
        item->name = est_arena_strdup(network->arena, added.name);
    }
    if (item->name == NULL) return est_no_memory();
    for (int i = 0; i < c->n_metrics; i++) {
        if (strcmp(c->metrics[i].name, item->name) != 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "compile: two metrics are called %s", item->name);
    }
    if (item->spec.make != NULL) item->spec.name = item->name;
    c->n_metrics++;
    return EST_OK;
}

static est_status add_named(est_network *network, est_compiled *c, int output, est_strings names, bool weighted)
{
    est_metric_spec spec;

    for (int i = 0; i < names.n; i++) {
        est_status status = est_metric_by_name(names.data[i], &spec);

        if (status != EST_OK)
            return est_fail_context(status, "compile: %s %d", weighted ? "weighted_metrics" : "metrics", i);
        EST_TRY(add_metric(
            network, c,
            (est_network_metric_item){ .name = spec.name, .spec = spec, .output = output, .weighted = weighted }));
    }
    return EST_OK;
}

static est_status take_metrics(est_network *network, est_compiled *c, int output, const est_compile_output *o)
{
    EST_TRY(add_named(network, c, output, o->metrics, false));
    for (int i = 0; i < o->metric_values.n; i++) {
        const est_metric_spec *spec = &o->metric_values.data[i];

        if (spec->name == NULL || spec->make == NULL) {
            return est_fail(EST_INVALID_ARGUMENT, "compile: metric_values %d has no %s", i,
                            spec->name == NULL ? "name" : "make");
        }
        EST_TRY(
            add_metric(network, c, (est_network_metric_item){ .name = spec->name, .spec = *spec, .output = output }));
    }
    return add_named(network, c, output, o->weighted_metrics, true);
}

/* The loss of all, then those of several outputs, then the metrics of each. */
static est_status take_all_metrics(est_network *network, est_compiled *c, const est_compile_options *options)
{
    size_t n = 1;

    for (int i = 0; i < c->n_outputs; i++) {
        est_compile_output o = nth_output(options, i);

        EST_REQUIRE_LIST("compile: metrics", o.metrics);
        EST_REQUIRE_LIST("compile: metric_values", o.metric_values);
        EST_REQUIRE_LIST("compile: weighted_metrics", o.weighted_metrics);
        n += 1 + (size_t)o.metrics.n + (size_t)o.metric_values.n + (size_t)o.weighted_metrics.n;
    }
    c->metrics = est_arena_alloc(network->arena, n * sizeof *c->metrics);
    if (c->metrics == NULL) return est_no_memory();
    EST_TRY(add_metric(network, c, (est_network_metric_item){ .name = "loss", .output = -1 }));
    for (int i = 0; i < c->n_outputs && network->n_outputs > 1; i++) {
        EST_TRY(add_metric(network, c, (est_network_metric_item){ .name = "loss", .output = i }));
    }
    for (int i = 0; i < c->n_outputs; i++) {
        est_compile_output o = nth_output(options, i);

        EST_TRY(take_metrics(network, c, i, &o));
    }
    return EST_OK;
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static est_status take_optimizer(est_compiled *c, const est_compile_options *o)
{
    est_status status;

    if (!(o->learning_rate >= 0) || o->learning_rate == INFINITY) {
        return est_fail(EST_INVALID_ARGUMENT, "compile: learning_rate is %g; write a number above 0, or 0",
                        o->learning_rate);
    }
    if (o->optimizer_value.rule != NULL) {
        if (o->optimizer != NULL || o->learning_rate != 0) {
            return est_fail(EST_INVALID_ARGUMENT, "compile: optimizer_value and %s are both set; leave one out",
                            o->optimizer != NULL ? "optimizer" : "learning_rate");
        }
        c->optimizer = o->optimizer_value;
        return EST_OK;
    }
    status = est_optimizer_by_name(o->optimizer != NULL ? o->optimizer : "rmsprop", o->learning_rate, true,
                                   &c->optimizer);
    return status == EST_OK ? EST_OK : est_fail_context(status, "compile: optimizer");
}

static est_status take(est_network *network, est_compiled *c, const est_compile_options *o)
{
    EST_TRY(take_outputs(network, c, o));
    EST_TRY(take_optimizer(c, o));
    EST_TRY(take_all_metrics(network, c, o));
    c->weights_by_output = o->weights_by_output;
    return copy_name(network, o->sample_weight, &c->weight);
}

/* The steps of functions that are replaced would stay until the session goes. */
static void drop_steps(est_network_function *f)
{
    est_step_free(f->read);
    est_step_free(f->reset);
    est_step_free(f->one);
    f->read = f->reset = f->one = NULL;
}

est_status est_network_compile(est_network *network, const est_compile_options *options)
{
    est_compile_options o;
    est_compiled       *c;
    est_status          status;

    EST_REQUIRE(network);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_compile_options), options, &o));
    EST_TRY(est_network_need_idle(network, "est_network_compile", false));
    c = est_zalloc(sizeof *c);
    if (c == NULL) return est_no_memory();
    status = take(network, c, &o);
    if (status != EST_OK) {
        est_compiled_free(c);
        return status;
    }
    c->before = network->compiled;
    for (int i = 0; i < EST_FORMS && c->before != NULL; i++) {
        drop_steps(&c->before->functions[false][i]);
        drop_steps(&c->before->functions[true][i]);
    }
    network->compiled = c;
    return EST_OK;
}

int est_network_metrics(const est_network *network)
{
    return network != NULL && network->compiled != NULL ? network->compiled->n_metrics : 0;
}

const char *est_network_metric(const est_network *network, int i)
{
    return i >= 0 && i < est_network_metrics(network) ? network->compiled->metrics[i].name : NULL;
}

/* --- the learning rate -------------------------------------------------------------------------------------------- */

double est_network_learning_rate(est_network *network)
{
    est_tensor *value = NULL;
    double      rate  = NAN;

    if (network == NULL || network->compiled == NULL || network->compiled->rate.graph == NULL) return NAN;
    if (est_network_connect(network) == EST_OK &&
        est_session_read(network->session, est_node_name(network->compiled->rate), &value) == EST_OK) {
        rate = (double)*(const float *)est_tensor_data(value);
    }
    est_tensor_free(value);
    return rate;
}

est_status est_network_set_learning_rate(est_network *network, double rate)
{
    est_tensor *value = NULL;
    est_status  status;

    EST_REQUIRE(network);
    if (!(rate >= 0) || rate == INFINITY) {
        return est_fail(EST_INVALID_ARGUMENT, "the learning rate is %g; write a number that is 0 or more", rate);
    }
    EST_TRY(est_network_need_compiled(network, "est_network_set_learning_rate"));
    if (network->compiled->rate.graph == NULL) {
        return est_fail(EST_FAILED_PRECONDITION, "%s has no variable for the learning rate: %s", network->name,
                        network->compiled->optimizer.schedule.rate != NULL
                            ? "it follows a schedule"
                            : "it was not trained yet; set learning_rate in EST_COMPILE");
    }
    EST_TRY(est_network_connect(network));
    EST_TRY(est_tensor_f32(EST_SHAPE_SCALAR, &(float){ (float)rate }, &value));
    status = est_session_write(network->session, est_node_name(network->compiled->rate), value);
    est_tensor_free(value);
    return status;
}
