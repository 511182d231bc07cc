/* SPDX-License-Identifier: Apache-2.0
 *
 * examples/census.yaml on rows of the census's layout with a planted rule: runs everywhere, and what is learned is
 * known. */
#include "e2e/census_job.h"

#include <math.h>

#include "base/strbuf.h"

/* Rich are managers with a degree, which a cross of the wide part tells, and people with a capital gain, which only the
 * deep part sees. Returns how many of the rows are rich by that alone. */
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

TEST(made_up, .setup_func = program_setup, .teardown_func = program_teardown)
{
    char           train[256], test[256];
    int            n = 4000, by_gain;
    census_metrics wide, deep;

    snprintf(train, sizeof train, "%s", program_path("train.csv"));
    snprintf(test, sizeof test, "%s", program_path("test.csv"));
    (void)write_rows(train, 1, 3 * n, "");
    by_gain = write_rows(test, 2, n, ".");
    wide    = census_train_wide(train, test, "data.epochs=5");
    deep    = census_train(train, test, "wide-and-deep", "data.epochs=5", "export=[final]", "data.shuffle=5000");
    assert_true(fabs(wide.accuracy - (1 - (double)by_gain / n)) < 1e-6); /* all but those; float32 of the metric */
    assert_true(deep.accuracy > 0.99);
    assert_int_equal(program_exports(program_path("wide-and-deep/export/final")), 1);
}
