/* SPDX-License-Identifier: Apache-2.0
 *
 * examples/census.yaml trained by the tool, as a user would, on the files that a test has. */
#ifndef EST_TESTS_E2E_CENSUS_JOB_H
#define EST_TESTS_E2E_CENSUS_JOB_H

#include "e2e/program.h"

#define CENSUS_JOB EST_SOURCE_DIR "/examples/census.yaml"

typedef struct census_metrics {
    double accuracy, auc;
} census_metrics;

/* Trains on two files into a directory of the test; three settings may follow. */
static inline census_metrics census_train(const char *train, const char *test, const char *dir, const char *set_a,
                                          const char *set_b, const char *set_c)
{
    char           train_set[600], eval_set[600], dir_set[600];
    program        p;
    census_metrics m;

    snprintf(train_set, sizeof train_set, "data.train=%s", train);
    snprintf(eval_set, sizeof eval_set, "data.eval=%s", test);
    snprintf(dir_set, sizeof dir_set, "run.model_dir=%s", program_path(dir));
    p = PROGRAM(0, "../estoc", "train", CENSUS_JOB, "--quiet", "--json", "--set", train_set, "--set", eval_set, "--set",
                dir_set, "--set", set_a, "--set", set_b, "--set", set_c);
    m = (census_metrics){ program_number(p.out, "\"accuracy\": "), program_number(p.out, "\"auc\": ") };
    print_message("%s: accuracy %.4f, AUC %.4f, %.1f s\n", dir, m.accuracy, m.auc, p.secs);
    program_free(&p);
    return m;
}

/* The wide part alone is the job without the deep one. */
static inline census_metrics census_train_wide(const char *train, const char *test, const char *set)
{
    return census_train(train, test, "wide", "model.dnn_columns=null", "model.hidden_units=null", set);
}

#endif
