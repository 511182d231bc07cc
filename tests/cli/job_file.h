/* SPDX-License-Identifier: Apache-2.0
 *
 * A job file for the tests of job files, and ways to change it. The tests work inside of the temporary directory, so
 * that names are short. */
#ifndef EST_TESTS_CLI_JOB_FILE_H
#define EST_TESTS_CLI_JOB_FILE_H

#include "cli/tool.h"

/* The line numbers in the tests are those of this text. */
static const char good[] = "model:\n"                                                                    /* 1 */
                           "  type: dnn_linear_combined_classifier\n"                                    /* 2 */
                           "  linear_columns: [ages, trade, ages_x_trade]\n"                             /* 3 */
                           "  dnn_columns: [hours, trade_vector]\n"                                      /* 4 */
                           "  hidden_units: [8, 4]\n"                                                    /* 5 */
                           "  dropout: 0.1\n"                                                            /* 6 */
                           "  dnn_optimizer: {name: Adagrad, learning_rate: 0.1}\n"                      /* 7 */
                           "  linear_optimizer: {name: Ftrl, learning_rate: 0.2}\n"                      /* 8 */
                           "features:\n"                                                                 /* 9 */
                           "  age: {type: numeric}\n"                                                    /* 10 */
                           "  hours: {type: numeric, default: 40, mean: 40, stddev: 10}\n"               /* 11 */
                           "  ages: {type: bucketized, source: age, boundaries: [20, 30, 40, 50]}\n"     /* 12 */
                           "  trade: {type: vocabulary, values: [cook, smith, baker], oov_buckets: 2}\n" /* 13 */
                           "  place: {type: hash, key: city, buckets: 50}\n"                             /* 14 */
                           "  ages_x_trade: {type: cross, sources: [ages, trade], buckets: 500}\n"       /* 15 */
                           "  trade_vector: {type: embedding, source: trade, dimension: 2}\n"            /* 16 */
                           "data:\n"                                                                     /* 17 */
                           "  train: train.csv\n"                                                        /* 18 */
                           "  eval: eval.csv\n"                                                          /* 19 */
                           "  label: {name: rich, vocabulary: [no, yes], strip: '.'}\n"                  /* 20 */
                           "  batch: 64\n"                                                               /* 21 */
                           "  shuffle: 500\n"                                                            /* 22 */
                           "  csv: {na: none}\n"                                                         /* 23 */
                           "run: {seed: 3, save_checkpoints_steps: 50}\n"                                /* 24 */
                           "train: {max_steps: 150}\n"                                                   /* 25 */
                           "eval: {throttle_secs: 0}\n"                                                  /* 26 */
                           "export: [{type: best, keep: 2}, final]\n";                                   /* 27 */

/* Writes a file and returns its name. */
static inline const char *put(const char *name, const char *text)
{
    tool_write_text(name, text);
    return name;
}

/* `good` with one text replaced by another, in the file job.yaml. */
static inline const char *changed(const char *find, const char *put)
{
    const char *at   = strstr(good, find);
    est_strbuf  text = { 0 };

    if (at == NULL) fail_msg("\"%s\" is not in the job", find);
    est_strbuf_append_bytes(&text, good, (size_t)(at - good));
    est_strbuf_append(&text, put);
    est_strbuf_append(&text, at + strlen(find));
    tool_write_text("job.yaml", est_strbuf_text(&text));
    est_strbuf_clear(&text);
    return "job.yaml";
}

static inline int enter_dir(void **state)
{
    return est_test_root_make(state) != 0 || chdir(est_test_root) != 0;
}

static inline int leave_dir(void **state)
{
    return chdir("/") != 0 || est_test_root_remove(state) != 0;
}

#endif
