/* SPDX-License-Identifier: Apache-2.0
 *
 * examples/census.yaml as a user would run it. When the environment variable ESTOC_CENSUS names a directory with
 * adult-train.csv and adult-test.csv, on those: what is published for wide and for wide & deep models must be reached.
 * Otherwise on rows of the same layout with a planted rule. Which of the two was run is printed. */
#include "e2e/program.h"

#include <math.h>

#include "base/strbuf.h"

#define JOB EST_SOURCE_DIR "/examples/census.yaml"

typedef struct metrics {
    double accuracy, auc;
} metrics;

/* Trains on the files of a directory; more settings may follow. */
static metrics train(const char *data, const char *dir, const char *set_a, const char *set_b, const char *set_c)
{
    char    train_set[512], eval_set[512], dir_set[512];
    program p;
    metrics m;

    snprintf(train_set, sizeof train_set, "data.train=%s/adult-train.csv", data);
    snprintf(eval_set, sizeof eval_set, "data.eval=%s/adult-test.csv", data);
    snprintf(dir_set, sizeof dir_set, "run.model_dir=%s", program_path(dir));
    p = PROGRAM(0, "../estoc", "train", JOB, "--quiet", "--json", "--set", train_set, "--set", eval_set, "--set",
                dir_set, "--set", set_a, "--set", set_b, "--set", set_c);
    m = (metrics){ program_number(p.out, "\"accuracy\": "), program_number(p.out, "\"auc\": ") };
    print_message("%s: accuracy %.4f, AUC %.4f, %.1f s\n", dir, m.accuracy, m.auc, p.secs);
    program_free(&p);
    return m;
}

/* The wide part alone is the job without the deep one. */
static metrics train_wide(const char *data, const char *set)
{
    return train(data, "wide", "model.dnn_columns=null", "model.hidden_units=null", set);
}

/* --- made up ---------------------------------------------------------------------------------------------------------- */

/* Rich are managers with a degree, which a cross of the wide part tells, and who has a capital gain, which only the deep part
 * sees. Returns how many of the rows are rich by that alone. */
static int write_rows(const char *path, uint32_t seed, int n, const char *end)
{
    static const char *const educations[]  = { "Bachelors",    "HS-grad",   "11th", "Masters",
                                               "Some-college", "Doctorate", "9th" };
    static const char *const statuses[]    = { "Married-civ-spouse", "Never-married", "Divorced" };
    static const char *const occupations[] = { "Exec-managerial", "Sales", "Craft-repair", "?" };
    est_strbuf               text          = { 0 };
    uint32_t                 x             = seed;
    int                      by_gain       = 0, fd;

    for (int i = 0; i < n; i++) {
        uint32_t draw[6];
        bool     degree, manager, gained;

        for (int k = 0; k < 6; k++) {
            x       = x * 1664525u + 1013904223u;
            draw[k] = x >> 16;
        }
        degree  = draw[1] % 7 == 0 || draw[1] % 7 == 3 || draw[1] % 7 == 5;
        manager = draw[3] % 4 == 0;
        gained  = draw[4] % 12 == 0;
        by_gain += gained && !(manager && degree);
        est_strbuf_printf(&text,
                          "%u, Private, 1, %s, %u, %s, %s, Husband, White, Male, %u, 0, %u, United-States, %s%s\n",
                          17 + draw[0] % 60, educations[draw[1] % 7], 1 + draw[5] % 16, statuses[draw[2] % 3],
                          occupations[draw[3] % 4], gained ? 15000 + draw[5] % 5000 : 0, 20 + draw[5] % 40,
                          (manager && degree) || gained ? ">50K" : "<=50K", end);
    }
    est_strbuf_append(&text, "\n"); /* as the real ones have it */
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(est_file_write_all(fd, path, text.data, text.size), EST_OK);
    close(fd);
    est_strbuf_clear(&text);
    return by_gain;
}

static void check_made_up(void)
{
    int     n = 4000, by_gain;
    metrics wide, deep;

    print_message("census: ESTOC_CENSUS is not set; run on rows with a planted rule\n");
    (void)write_rows(program_path("adult-train.csv"), 1, 3 * n, "");
    by_gain = write_rows(program_path("adult-test.csv"), 2, n, ".");
    wide    = train_wide(program_dir, "data.epochs=5");
    deep    = train(program_dir, "wide-and-deep", "data.epochs=5", "export=[final]", "data.shuffle=5000");
    assert_true(fabs(wide.accuracy - (1 - (double)by_gain / n)) < 1e-6); /* all but those; float32 of the metric */
    assert_true(deep.accuracy > 0.99);
    assert_int_equal(program_exports(program_path("wide-and-deep/export/final")), 1);
}

/* --- real ------------------------------------------------------------------------------------------------------------- */

static void check_real(const char *data)
{
    metrics wide, deep;

    print_message("census: run on %s\n", data);
    wide = train_wide(data, "run.seed=1");
    deep = train(data, "wide-and-deep", "run.seed=1", "run.seed=1", "run.seed=1");
    assert_true(wide.accuracy >= 0.836 && wide.auc >= 0.885);
    assert_true(deep.accuracy >= 0.854 && deep.auc >= 0.908);
}

static void test_census(void **state)
{
    const char *data = getenv("ESTOC_CENSUS");

    (void)state;
    if (data != NULL && data[0] != '\0') {
        check_real(data);
    } else {
        check_made_up();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_census, program_setup, program_teardown) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
