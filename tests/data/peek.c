/* SPDX-License-Identifier: Apache-2.0
 *
 * peek: what the first row of an input's files tells, which chains are looked at, and what is left alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/stage.h"
#include "support/data_test.h"
#include "support/dir_test.h"
#include "support/test.h"

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    est_test_dir(dir);
    return chdir(dir);
}

static int remove_dir(void **state)
{
    (void)state;
    return chdir("/") != 0 || est_dir_remove(dir) != EST_OK;
}

static void put(const char *name, const char *text)
{
    assert_int_equal(est_file_replace(name, text, strlen(text)), EST_OK);
}

static const est_csv_column columns[] = { { .name = "a", .dtype = EST_F32, .required = true },
                                          { .name = "b", .dtype = EST_F32, .required = true } };

static int checks; /* calls of the function below */

static est_status count_check(void *user, const est_field *rows)
{
    (void)user;
    (void)rows;
    checks++;
    return EST_OK;
}

static est_dataset *lines(const char *pattern)
{
    return est_dataset_lines(est_dataset_files(pattern), EST_LINES(.skip = 1));
}

static est_dataset *decoded(est_dataset *rows, int64_t bad_rows_max)
{
    return est_dataset_decode_csv(rows, (est_csv_columns){ columns, 2 }, EST_CSV(.header = true), 64,
                                  EST_PARSE(.workers = 2, .bad_rows_max = bad_rows_max, .check = count_check));
}

/* What peek says of a dataset, which is taken: NULL is no error. */
static void peeks(est_dataset *dataset, const char *text)
{
    est_status status;

    assert_int_equal(est_dataset_finish(dataset, &dataset), EST_OK);
    status = est_dataset_peek(dataset);
    est_dataset_free(dataset);
    if (text == NULL && status != EST_OK) fail_msg("%s", est_error_message());
    if (text == NULL) return;
    assert_int_equal(status, EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), text));
}

TEST(first_row)
{
    put("good.csv", "a,b\n1,2\nx,y\n");
    put("wrong.csv", "a,b\n1,two\n");
    put("narrow.csv", "a,c\n1,2\n");
    put("empty.csv", "a,b\n");
    put("nothing.csv", "");
    checks = 0;
    peeks(decoded(lines("good.csv"), 0), NULL); /* the first row only */
    assert_int_equal(checks, 1);
    peeks(decoded(lines("wrong.csv"), 0), "wrong.csv:2: ");
    peeks(decoded(lines("wrong.csv"), 1), NULL); /* it may be left out */
    peeks(decoded(lines("narrow.csv"), 0), "narrow.csv: ");
    peeks(decoded(lines("narrow.csv"), EST_FOREVER), "narrow.csv: "); /* of the file, not of a row */
    peeks(decoded(lines("empty.csv"), 0), "empty.csv has no row");
    peeks(decoded(lines("nothing.csv"), 0), "nothing.csv has no row");
    peeks(lines("empty.csv"), "empty.csv has no row");
    peeks(decoded(lines("{empty,nothing}.csv"), 0), "none of 2 files has a row, as ");
    peeks(decoded(lines("{empty,good}.csv"), 0), NULL);
    peeks(decoded(lines("{empty,narrow}.csv"), 0), "narrow.csv: ");
}

static int calls; /* of functions that must not be called */

static est_status keep(void *user, const est_field *element, bool *out)
{
    (void)user;
    (void)element;
    calls++;
    *out = true;
    return EST_OK;
}

static est_status copy(void *user, const est_field *in, est_field *out)
{
    (void)user;
    calls++;
    out[0].values = est_tensor_ref(in[0].values);
    return EST_OK;
}

/* Stages that keep rows are looked through; those that could make something else of them end the view of a decoder. */
TEST(chains)
{
    put("good.csv", "a,b\n1,2\n");
    put("narrow.csv", "a,c\n1,2\n");
    put("empty.csv", "a,b\n");
    calls = 0;
    peeks(est_dataset_prefetch(decoded(est_dataset_repeat(est_dataset_shuffle(lines("narrow.csv"), 1000, 1), 3), 0), 2),
          "narrow.csv: ");
    peeks(decoded(est_dataset_concatenate(lines("empty.csv"), lines("narrow.csv")), 0), "narrow.csv: ");
    peeks(est_dataset_concatenate(decoded(lines("empty.csv"), 0), decoded(lines("good.csv"), 0)), NULL);
    peeks(decoded(est_dataset_cache(lines("empty.csv"), "cache"), 0), NULL);
    assert_false(est_file_exists("cache"));
    peeks(decoded(est_dataset_cache(lines("narrow.csv"), NULL), 0), "narrow.csv: ");
    peeks(decoded(est_dataset_skip(lines("narrow.csv"), 1), 0), NULL); /* another row would be the first */
    peeks(decoded(est_dataset_filter(lines("narrow.csv"), keep, NULL), 0), NULL);
    peeks(decoded(est_dataset_map(lines("narrow.csv"), copy, NULL), 0), NULL);
    peeks(est_dataset_map(lines("empty.csv"), copy, NULL), "empty.csv has no row");
    peeks(lines("good.csv"), NULL);
    peeks(est_dataset_range(0, 0, 1), NULL); /* no files */
    peeks(est_dataset_lines(est_dataset_repeat(est_dataset_files("empty.csv"), EST_FOREVER), NULL), NULL);
    assert_int_equal(calls, 0);
}

/* Reading a pipe would take rows away; opening it would wait for a writer. */
TEST(pipe)
{
    assert_int_equal(mkfifo("pipe.csv", 0600), 0);
    peeks(decoded(lines("pipe.csv"), 0), NULL);
}

int main(void)
{
    return est_test_run(make_dir, remove_dir);
}
