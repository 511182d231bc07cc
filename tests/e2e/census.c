/* SPDX-License-Identifier: Apache-2.0
 *
 * The census examples on the real Adult data set: what is published for wide and for wide & deep models must be
 * reached, by one process and by a cluster.
 * ESTOC_CENSUS names the directory; without it, a folder shared/data beside the checkout is looked at. The two files
 * may have either pair of names. Where there are none, CTest says that the test was skipped. */
#include "e2e/census_job.h"

#include <limits.h>

#define SKIPPED 77 /* as CTest was told */

static char train_file[512], test_file[512];

/* Finds a file under one of its names. */
static bool find_file(const char *dir, const char *name, const char *other, char path[512])
{
    snprintf(path, 512, "%s/%s", dir, name);
    if (access(path, R_OK) == 0) return true;
    snprintf(path, 512, "%s/%s", dir, other);
    return access(path, R_OK) == 0;
}

static bool find_files(const char *dir)
{
    return find_file(dir, "adult-train.csv", "adult.data", train_file) &&
           find_file(dir, "adult-test.csv", "adult.test", test_file);
}

/* --- the job file ------------------------------------------------------------------------------------------------- */

/* adult.test begins with a comment, which a job does not know; the copy is without. */
static void copy_rows(const char *from, const char *to)
{
    char  *text, *rows;
    size_t size;

    assert_int_equal(est_file_read(from, &text, &size), EST_OK);
    rows = text[0] == '|' ? strchr(text, '\n') + 1 : text;
    assert_int_equal(est_file_replace(to, rows, size - (size_t)(rows - text)), EST_OK);
    est_free(text);
}

TEST(job, .setup_func = program_setup, .teardown_func = program_teardown)
{
    char           rows[256];
    census_metrics wide, deep;

    snprintf(rows, sizeof rows, "%s", program_path("test.csv"));
    copy_rows(test_file, rows);
    wide = census_train_wide(train_file, rows, "run.seed=1");
    deep = census_train(train_file, rows, "wide-and-deep", "run.seed=1", "run.seed=1", "run.seed=1");
    assert_true(wide.accuracy >= 0.836 && wide.auc >= 0.885);
    assert_true(deep.accuracy >= 0.854 && deep.auc >= 0.908);
}

/* --- the program -------------------------------------------------------------------------------------------------- */

/* The files in the directory of the test, under these names. */
static void link_files(const char *train_name, const char *test_name)
{
    char train[PATH_MAX], test[PATH_MAX]; /* a link is not relative to where the test was started */

    assert_true(realpath(train_file, train) != NULL && realpath(test_file, test) != NULL);
    assert_int_equal(symlink(train, program_path(train_name)) | symlink(test, program_path(test_name)), 0);
}

static void check_program(const char *type, double accuracy, double auc)
{
    program p = PROGRAM(0, "census_wide_deep", "--model-dir", program_path(type), "--seed", "1", type, program_dir);

    print_message("census_wide_deep %s: %.*s\n", type, (int)strcspn(p.out, "\n"), p.out);
    if (program_number(p.out, "accuracy ") < accuracy || program_number(p.out, "auc ") < auc ||
        program_number(p.out, "exact auc ") < auc) {
        fail_msg("%s: not %g and %g:\n%s", type, accuracy, auc, p.out);
    }
    program_free(&p);
}

/* It reads the files under either pair of names. */
TEST(program, .setup_func = program_setup, .teardown_func = program_teardown)
{
    link_files("adult.data", "adult.test");
    check_program("wide", 0.836, 0.885);
    check_program("deep", 0.85, 0.90);
    assert_int_equal(rename(program_path("adult.data"), program_path("adult-train.csv")), 0);
    assert_int_equal(rename(program_path("adult.test"), program_path("adult-test.csv")), 0);
    check_program("wide_deep", 0.854, 0.908);
}

/* --- clusters ----------------------------------------------------------------------------------------------------- */

static void check_cluster(const char *what, const program *p, census_metrics found, census_metrics least)
{
    print_message("%s on a cluster: accuracy %.4f, AUC %.4f, %.1f s\n", what, found.accuracy, found.auc, p->secs);
    if (found.accuracy < least.accuracy || found.auc < least.auc) {
        fail_msg("%s: not %g and %g:\n%s", what, least.accuracy, least.auc, p->out);
    }
}

/* The same program and the same job file, started once for every task. Nothing bounds how old a gradient of the program
 * may be, so a busy machine decides how much the deep part learns: the result is held to what the wide part alone
 * reaches, which no model below it does. */
TEST(cluster_program, .setup_func = program_setup, .teardown_func = program_teardown)
{
    program p;

    link_files("adult-train.csv", "adult-test.csv");
    p = PROGRAM(0, PROGRAM_LAUNCH, EST_BUILD_DIR "/examples/census_wide_deep", "--model-dir", program_path("model"),
                "wide_deep", program_dir);
    check_cluster("census_wide_deep", &p,
                  (census_metrics){ program_number(p.out, "accuracy "), program_number(p.out, "auc ") },
                  (census_metrics){ 0.836, 0.885 });
    program_has(p.out, " after 10175 steps\n");
    assert_int_equal(program_exports(program_path("model/export/census")), 1);
    program_free(&p);
}

/* A bound on the age of gradients keeps asynchronous training close to one process, however tasks are scheduled. The
 * least values lie between what the wide part alone reaches (0.839, 0.886) and what one process does (0.857, 0.912). */
TEST(cluster_job, .setup_func = program_setup, .teardown_func = program_teardown)
{
    char    rows[256], train_set[600], eval_set[300], dir_set[300];
    program p;

    snprintf(rows, sizeof rows, "%s", program_path("test.csv"));
    copy_rows(test_file, rows);
    snprintf(train_set, sizeof train_set, "data.train=%s", train_file);
    snprintf(eval_set, sizeof eval_set, "data.eval=%s", rows);
    snprintf(dir_set, sizeof dir_set, "run.model_dir=%s", program_path("model"));
    /* Four trainers push gradients that are up to four steps old: half as many steps again make up for it. */
    p = PROGRAM(0, PROGRAM_LAUNCH, EST_BUILD_DIR "/estoc", "train", CENSUS_JOB, "--json", "--set", train_set, "--set",
                eval_set, "--set", dir_set, "--set", "train.max_steps=7632", "--set",
                "run.strategy={name: parameter_server, max_staleness: 4}", "--set", "run.seed=1");
    check_cluster("census.yaml", &p,
                  (census_metrics){ program_number(p.out, "\"accuracy\": "), program_number(p.out, "\"auc\": ") },
                  (census_metrics){ 0.845, 0.9 });
    program_has(p.out, "\"global_step\": 7632");
    program_free(&p);
}

int main(void)
{
    const char *given = getenv("ESTOC_CENSUS");
    const char *data  = given != NULL ? given : EST_SOURCE_DIR "/../shared/data";

    if (find_files(data)) {
        print_message("census: run on %s and %s\n", train_file, test_file);
        return est_test_run(NULL, NULL);
    }
    print_message("census: no adult-train.csv and adult-test.csv, nor adult.data and adult.test, in %s\n", data);
    if (given != NULL) return 1; /* whoever names a directory wants it tested */
    print_message("census: SKIPPED: the real data set was not tested; ESTOC_CENSUS names its directory\n");
    return SKIPPED;
}
