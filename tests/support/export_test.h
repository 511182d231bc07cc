/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of exports share: a small classifier over features of every kind, parsed from Examples, and an
 * estimator that was trained a few steps. */
#ifndef EST_TESTS_EXPORT_TEST_H
#define EST_TESTS_EXPORT_TEST_H

#include "estoc/exporter.h"
#include "support/estimator_test.h"

/* "x" float [3], required; "kind" int64; "ids" ragged int64 below 5; "steps" padded floats. */
#define SHOP_FEATURES 4
extern const est_feature_spec shop_specs[SHOP_FEATURES];

/* The same and the label "y", for graphs to train and to evaluate with. */
extern const est_feature_spec shop_labelled[SHOP_FEATURES + 1];

/* The same as raw features; `shop_raw` has no padded one, which raw receivers do not have. */
extern const est_component shop_raw[3];

/* What the model_fn is to do otherwise than usual. */
typedef struct shop_params {
    bool plain;      /* only "x" is looked at */
    bool no_steps;   /* "steps" is not */
    bool no_export;  /* no export outputs are named: all predictions are the default */
    bool one;        /* only one, called "scores" */
    bool twice;      /* two, none of them the default */
    bool from_1;     /* "kind" must not be 0 */
    bool second_set; /* another variable, which no checkpoint has */
    bool doubled;    /* prediction looks "kind" up at twice its value, which is out of range for what training sees */
    bool noise;      /* a prediction "noise" of random numbers */
    bool own_metric; /* a metric "own" with states of its own */
    bool shared;     /* training counts in a shared metric "seen" */
    bool steady;     /* training is deterministic everywhere: no dropout, and not Adam, which amplifies rounding */
} shop_params;

/* Classes "a", "b" and "c" out of the features. Predictions logits, probabilities, class_id and name, in training the
 * step before it is made; export outputs serving_default (classify), regression (regress) and predict; metric
 * accuracy. */
est_status shop_model(est_model *model, est_mode mode, const void *params);

/* Eight Examples in batches of 4, for ever in training. */
est_status shop_input(const est_input_context *context, void *user, est_dataset **out);

/* An Example that shop_input has, serialized; borrowed until the next call. */
est_str shop_example(int64_t i);

/* A new estimator in `dir`, and the same trained three steps. */
est_estimator *shop_estimator(const char *dir, const shop_params *params);
est_estimator *shop_trained(const char *dir, const shop_params *params);

#define SHOP_PARSING                                                                                                   \
    {                                                                                                                  \
        .parse = { shop_specs, SHOP_FEATURES }                                                                         \
    }

#define SHOP_LABELLED                                                                                                  \
    {                                                                                                                  \
        .parse = { shop_labelled, SHOP_FEATURES + 1 }                                                                  \
    }

/* Names of the entries of a directory, sorted, with a space behind each; into `out`, which is returned. */
const char *shop_list(const char *dir, char out[1024]);

#endif
