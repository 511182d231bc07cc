/* SPDX-License-Identifier: Apache-2.0
 *
 * Canned estimators: four models (dnn.c, linear.c, combined.c, baseline.c) times three ways to choose the head
 * (classifier, regressor, the caller's). This file checks and copies options, and chooses the default optimizers. */
#include "models/canned.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/argument.h"
#include "base/options.h"
#include "estimator/estimator.h"
#include "estoc/ops.h"
#include "feature/column.h"
#include "graph/graph.h"

/* --- classes ------------------------------------------------------------------------------------------------------ */

/* Arguments that not every class has. */
enum {
    COLUMNS    = 1 << 0,
    TWO_LISTS  = 1 << 1, /* dnn_columns, linear_columns and an optimizer for each */
    DEEP       = 1 << 2, /* hidden_units, activation, dropout, batch_norm */
    WIDE       = 1 << 3, /* sparse_combiner */
    OPTIMIZER  = 1 << 4,
    HEAD       = 1 << 5,
    CLASSES    = 1 << 6, /* n_classes, label_vocabulary */
    DIMENSION  = 1 << 7, /* label_dimension */
    LABELS     = 1 << 8, /* label..., weight_..., loss_reduction */
    WARM_START = 1 << 9
};

#define CLASSIFIER (CLASSES | LABELS)
#define REGRESSOR  (DIMENSION | LABELS)
#define DNN        (COLUMNS | DEEP | OPTIMIZER | WARM_START)
#define LINEAR     (COLUMNS | WIDE | OPTIMIZER | WARM_START)
#define COMBINED   (TWO_LISTS | DEEP | WIDE)
#define BASELINE   OPTIMIZER

typedef struct canned_class {
    const char  *name;
    est_model_fn model_fn;
    unsigned     takes;
} canned_class;

static bool given(est_canned_optimizer optimizer)
{
    return optimizer.name != NULL || optimizer.value.rule != NULL;
}

static est_status check_taken(const canned_class *class, const est_canned_options *o)
{
    const struct {
        bool        given;
        unsigned    bit;
        const char *name;
    } arguments[] = {
        { o->columns.n > 0, COLUMNS, "columns" },
        { o->dnn_columns.n > 0, TWO_LISTS, "dnn_columns" },
        { o->linear_columns.n > 0, TWO_LISTS, "linear_columns" },
        { given(o->dnn_optimizer), TWO_LISTS, "dnn_optimizer" },
        { given(o->linear_optimizer), TWO_LISTS, "linear_optimizer" },
        { o->hidden_units.n > 0, DEEP, "hidden_units" },
        { o->activation != NULL, DEEP, "activation" },
        { o->dropout != 0, DEEP, "dropout" },
        { o->batch_norm, DEEP, "batch_norm" },
        { o->sparse_combiner != 0, WIDE, "sparse_combiner" },
        { given(o->optimizer), OPTIMIZER, "optimizer" },
        { o->head != NULL, HEAD, "head" },
        { o->n_classes != 0, CLASSES, "n_classes" },
        { o->label_vocabulary.n > 0, CLASSES, "label_vocabulary" },
        { o->label_dimension != 0, DIMENSION, "label_dimension" },
        { o->label != NULL, LABELS, "label" },
        { o->label_dtype != EST_DTYPE_NONE, LABELS, "label_dtype" },
        { o->label_default != NULL, LABELS, "label_default" },
        { o->weight_column != NULL, LABELS, "weight_column" },
        { o->weight_numeric != NULL, LABELS, "weight_numeric" },
        { o->loss_reduction != EST_LOSS_DEFAULT, LABELS, "loss_reduction" },
        { o->warm_start != NULL, WARM_START, "warm_start" },
    };

    for (size_t i = 0; i < sizeof arguments / sizeof arguments[0]; i++) {
        if (arguments[i].given && !(class->takes & arguments[i].bit)) {
            return est_fail(EST_INVALID_ARGUMENT, "%s: it has no argument %s", class->name, arguments[i].name);
        }
    }
    return EST_OK;
}

static est_status check_deep(const canned_class *class, const est_canned_options *o)
{
    if (o->hidden_units.n < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: hidden_units is empty; name the size of every hidden layer",
                        class->name);
    }
    for (int i = 0; i < o->hidden_units.n; i++) {
        if (o->hidden_units.data[i] > 0) continue;
        return est_fail(EST_INVALID_ARGUMENT, "%s: hidden layer %d has %" PRId64 " units", class->name, i,
                        o->hidden_units.data[i]);
    }
    if (!(o->dropout >= 0 && o->dropout < 1)) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: dropout is %g, it must be at least 0 and less than 1", class->name,
                        o->dropout);
    }
    return EST_OK;
}

static est_status check_options(const canned_class *class, const est_canned_options *o)
{
    EST_TRY(check_taken(class, o));
    if ((class->takes & COLUMNS) && o->columns.n < 1) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: columns is empty; give at least one feature column", class->name);
    }
    if ((class->takes & TWO_LISTS) && o->dnn_columns.n + o->linear_columns.n < 1) {
        return est_fail(EST_INVALID_ARGUMENT,
                        "%s: linear_columns and dnn_columns are both empty; give at least one "
                        "feature column",
                        class->name);
    }
    if ((class->takes & HEAD) && o->head == NULL) {
        return est_fail(EST_INVALID_ARGUMENT, "%s: head is NULL; give a head", class->name);
    }
    if ((class->takes & DEEP) && !((class->takes & TWO_LISTS) && o->dnn_columns.n == 0)) return check_deep(class, o);
    return EST_OK;
}

/* Checks columns in the constructor, so that errors do not wait until training. */
static est_status check_columns(const canned_class *class, const est_canned_options *o)
{
    if (class->takes & COLUMNS) {
        return class->takes & DEEP ? est_input_layer_check(o->columns) : est_linear_model_check(o->columns);
    }
    if (o->dnn_columns.n > 0) EST_TRY(est_input_layer_check(o->dnn_columns));
    return o->linear_columns.n > 0 ? est_linear_model_check(o->linear_columns) : EST_OK;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static void keep_columns(est_arena *arena, est_column_list *list, bool *failed)
{
    list->data = est_keep_bytes(arena, list->data, (size_t)list->n * sizeof *list->data, failed);
}

/* Copies the lists that model_fn reads. The head and the estimator have made copies of their own options. */
static est_status copy_lists(est_canned *canned)
{
    est_canned_options *o      = &canned->o;
    bool                failed = false;

    keep_columns(canned->arena, &o->columns, &failed);
    keep_columns(canned->arena, &o->dnn_columns, &failed);
    keep_columns(canned->arena, &o->linear_columns, &failed);
    o->hidden_units.data = est_keep_bytes(canned->arena, o->hidden_units.data,
                                          (size_t)o->hidden_units.n * sizeof *o->hidden_units.data, &failed);
    o->label = o->weight_column = o->model_dir = NULL;
    o->label_default                           = NULL;
    o->label_vocabulary                        = (est_strings){ 0 };
    o->config                                  = NULL;
    o->warm_start                              = NULL;
    return failed ? est_no_memory() : EST_OK;
}

/* --- heads and optimizers ----------------------------------------------------------------------------------------- */

static est_status make_head(unsigned takes, const est_canned_options *o, est_head **out)
{
    const est_head_options *head = EST_HEAD(.label = o->label, .label_dtype = o->label_dtype,
                                            .label_default = o->label_default, .weight_column = o->weight_column,
                                            .weight_numeric   = o->weight_numeric,
                                            .label_vocabulary = o->label_vocabulary,
                                            .loss_reduction = o->loss_reduction, .v1 = o->v1);

    if (takes & DIMENSION) return est_regression_head(o->label_dimension, head, out);
    if (o->n_classes == 0 || o->n_classes == 2) return est_binary_head(head, out);
    return est_multi_class_head(o->n_classes, head, out);
}

/* The given optimizer, or the named or default one with the model's learning rate; 0: the optimizer's default rate. */
static est_status resolve(est_canned_optimizer asked, const char *name, double rate, bool v1, est_optimizer *out)
{
    if (asked.value.rule != NULL) {
        *out = asked.value;
        return EST_OK;
    }
    return est_optimizer_by_name(asked.name != NULL ? asked.name : name, rate, !v1, out);
}

static est_status resolve_optimizers(const canned_class *class, est_canned *canned)
{
    const est_canned_options *o  = &canned->o;
    bool                      v1 = o->v1;

    if (class->takes & TWO_LISTS) {
        double linear = o->linear_columns.n > 0 ? fmin(0.005, 1 / sqrt(o->linear_columns.n)) : 0.005;

        EST_TRY(resolve(o->dnn_optimizer, "Adagrad", 0.001, v1, &canned->dnn_optimizer));
        return resolve(o->linear_optimizer, "Ftrl", linear, v1, &canned->linear_optimizer);
    }
    if (class->takes & DEEP) return resolve(o->optimizer, "Adagrad", v1 ? 0.05 : 0, v1, &canned->dnn_optimizer);
    if ((class->takes & WIDE) && o->optimizer.name != NULL && strcmp(o->optimizer.name, "None") == 0) {
        return est_optimizer_by_name("Ftrl", fmin(0.2, 1 / sqrt(o->columns.n)), !v1, &canned->dnn_optimizer);
    }
    return resolve(o->optimizer, "Ftrl", class->takes & WIDE ? 0.2 : 0.3, v1, &canned->dnn_optimizer);
}

/* --- making one --------------------------------------------------------------------------------------------------- */

static void canned_free(void *object)
{
    est_canned *canned = object;

    if (canned == NULL) return;
    est_head_free(canned->own_head);
    est_arena_free(canned->arena);
    est_free(canned);
}

static est_status fill(const canned_class *class, est_canned *canned)
{
    const char *file;

    EST_TRY(check_columns(class, &canned->o));
    est_graph_where(&file, &canned->line);
    canned->model_fn = class->model_fn;
    canned->arena    = est_arena_create();
    canned->file     = canned->arena != NULL ? est_arena_strdup(canned->arena, file) : NULL;
    if (canned->file == NULL) return est_no_memory();
    EST_TRY(resolve_optimizers(class, canned));
    if (!(class->takes & HEAD)) {
        EST_TRY(make_head(class->takes, &canned->o, &canned->own_head));
        canned->o.head = canned->own_head;
    }
    return copy_lists(canned);
}

/* Errors of a canned model name the line that created it, since no other line of the program builds its graph. The
 * previous location is restored afterwards, because `file` lives only as long as the estimator. */
static est_status canned_model_fn(est_model *model, est_mode mode, const void *params)
{
    const est_canned *canned = params;
    const char       *file;
    int               line;
    est_status        status;

    est_graph_where(&file, &line);
    est_here(canned->file, canned->line);
    status = canned->model_fn(model, mode, params);
    est_here(file, line);
    return status;
}

static est_status create(const canned_class *class, const est_canned_options *options, est_estimator **out)
{
    est_canned_options o;
    est_canned        *canned;
    est_estimator     *estimator = NULL;
    est_status         status;

    if (out == NULL) return est_fail(EST_INVALID_ARGUMENT, "%s: out is NULL", class->name);
    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_canned_options), options, &o));
    EST_TRY(check_options(class, &o));
    canned = est_zalloc(sizeof *canned);
    if (canned == NULL) return est_no_memory();
    canned->o = o;
    status    = fill(class, canned);
    if (status == EST_OK) {
        status = est_estimator_create(
            canned_model_fn, EST_ESTIMATOR(.model_dir = o.model_dir, .config = o.config, .warm_start = o.warm_start),
            &estimator);
    }
    if (status != EST_OK) {
        canned_free(canned);
        return est_fail_context(status, "%s", class->name);
    }
    est_estimator_own(estimator, canned, canned_free);
    *out = estimator;
    return EST_OK;
}

#define CLASS(name, model_fn, takes)                                                                                   \
    est_status name(const est_canned_options *options, est_estimator **out)                                            \
    {                                                                                                                  \
        static const canned_class class = { #name, model_fn, takes };                                                  \
                                                                                                                       \
        return create(&class, options, out);                                                                           \
    }

/* clang-format off */
CLASS(est_dnn_classifier,                 est_dnn_model_fn,       DNN | CLASSIFIER)
CLASS(est_dnn_regressor,                  est_dnn_model_fn,       DNN | REGRESSOR)
CLASS(est_dnn_estimator,                  est_dnn_model_fn,       DNN | HEAD)
CLASS(est_linear_classifier,              est_linear_model_fn, LINEAR | CLASSIFIER)
CLASS(est_linear_regressor,               est_linear_model_fn, LINEAR | REGRESSOR)
CLASS(est_linear_estimator,               est_linear_model_fn, LINEAR | HEAD)
CLASS(est_dnn_linear_combined_classifier, est_combined_model_fn,  COMBINED | WARM_START | CLASSIFIER)
CLASS(est_dnn_linear_combined_regressor,  est_combined_model_fn,  COMBINED | WARM_START | REGRESSOR)
CLASS(est_dnn_linear_combined_estimator,  est_combined_model_fn,  COMBINED | HEAD)
CLASS(est_baseline_classifier,            est_baseline_model_fn,  BASELINE | CLASSIFIER)
CLASS(est_baseline_regressor,             est_baseline_model_fn,  BASELINE | REGRESSOR)
CLASS(est_baseline_estimator,             est_baseline_model_fn,  BASELINE | HEAD)
/* clang-format on */

/* --- for models --------------------------------------------------------------------------------------------------- */

void est_canned_summarize(est_model *model, const est_canned_options *o, const char *part, const char *layer,
                          est_node x)
{
    const char *again = o->v1 ? part : "", *slash = o->v1 ? "/" : ""; /* v1 repeats the part */
    const char *under = layer != NULL ? "/" : "", *name = layer != NULL ? layer : "";
    const char *zero = est_arena_printf(model->arena, "%s%s%s%s%s/fraction_of_zero_values", again, slash, part, under,
                                        name);
    const char *all  = est_arena_printf(model->arena, "%s%s%s%s%s/activation", again, slash, part, under, name);

    if (est_model_status(model) != EST_OK) return;
    if (zero == NULL || all == NULL) {
        (void)est_graph_poison(model->graph, est_no_memory());
        return;
    }
    est_model_scalar(model, zero, est_mean(est_cast(est_equal(x, est_zeros_like(x)), EST_F32)));
    est_model_histogram(model, all, x);
}

typedef struct training {
    const est_canned *canned;
    const char       *slot_scope;
} training;

static est_node train_op(est_node loss, void *user)
{
    const training *t = user;

    return est_minimize(t->canned->dnn_optimizer, loss, EST_MINIMIZE(.slot_scope = t->slot_scope));
}

est_status est_canned_finish(const est_canned *canned, est_model *model, est_mode mode, est_node logits,
                             const char *slot_scope)
{
    training t = { canned, canned->dnn_optimizer.keras ? canned->o.head->training_scope
                           : canned->o.v1              ? slot_scope
                                                       : NULL };

    return est_head_finish(canned->o.head, model, mode, logits, EST_HEAD_FINISH(.train_op_fn = train_op, .user = &t));
}

/* --- parsing ------------------------------------------------------------------------------------------------------ */

/* All columns of all lists; a column of two lists is parsed once. */
static est_status parse_columns(const est_canned_options *o, est_parse_spec **out)
{
    const est_column_list lists[] = { o->columns, o->dnn_columns, o->linear_columns };
    size_t                n       = (size_t)(o->columns.n + o->dnn_columns.n + o->linear_columns.n);
    const est_column    **all = est_alloc((n + 1) * sizeof(const est_column *)), **end = all;
    est_status            status;

    if (all == NULL) return est_no_memory();
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < lists[i].n; k++) *end++ = lists[i].data[k];
    }
    status = est_parse_spec_create((est_column_list){ all, (int)n }, out);
    est_free(all);
    return status;
}

static est_status parse_spec(const char *name, unsigned takes, const est_canned_options *options, est_parse_spec **out)
{
    const canned_class class = { name, NULL, takes | COLUMNS | TWO_LISTS | DEEP | WIDE | OPTIMIZER | WARM_START };
    est_canned_options o;
    est_parse_spec    *spec = NULL;
    est_head          *head = NULL;
    est_status         status;

    EST_TRY(est_options_take(EST_STRUCT_SIZE(est_canned_options), options, &o));
    EST_TRY(check_taken(&class, &o));
    EST_TRY(parse_columns(&o, &spec));
    status = make_head(takes, &o, &head);
    if (status == EST_OK) status = est_head_parse_spec(head, spec);
    est_head_free(head);
    if (status != EST_OK) {
        est_parse_spec_free(spec);
        return est_fail_context(status, "%s", name);
    }
    *out = spec;
    return EST_OK;
}

est_status est_classifier_parse_spec(const est_canned_options *options, est_parse_spec **out)
{
    EST_REQUIRE(out);
    return parse_spec("est_classifier_parse_spec", CLASSIFIER, options, out);
}

est_status est_regressor_parse_spec(const est_canned_options *options, est_parse_spec **out)
{
    EST_REQUIRE(out);
    return parse_spec("est_regressor_parse_spec", REGRESSOR, options, out);
}
