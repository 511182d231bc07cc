/* SPDX-License-Identifier: Apache-2.0
 *
 * files: which match, in which order, and what is noticed when they change. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/stage.h"
#include "support/source_test.h"
#include "support/test.h"

#define NOBODY 65534

static int setup(void **state)
{
    const char *names[] = { "b-1", "a-2", "a-10", "B-1", "c.txt", "\xc3\xa4-1" };

    if (source_setup(state) != 0) return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) source_write_text(names[i], names[i]);
    return mkdir(source_path("a-dir"), 0755);
}

/* Checks the names found; `want` is without the directory. */
static void finds(const char *pattern, const char *want)
{
    char        all[2048];
    size_t      size = 0;
    const char *at   = want;

    while (*at != '\0') {
        int  n = (int)strcspn(at, "|");
        char name[64];

        snprintf(name, sizeof name, "%.*s", n, at);
        size += (size_t)snprintf(all + size, sizeof all - size, "%s|", source_path(name));
        at += n + 1;
    }
    source_yields(est_dataset_files(source_path(pattern)), all);
}

TEST(patterns)
{
    finds("*-*", "B-1|a-10|a-2|b-1|\xc3\xa4-1|"); /* by bytes; the directory a-dir is left out */
    finds("a-?", "a-2|");
    finds("[ab]-1*", "a-10|b-1|");
    finds("{b,a}-*", "a-10|a-2|b-1|");
    finds("{a-2,a-*}", "a-10|a-2|"); /* once each */
    finds("c.txt", "c.txt|");
    finds("*/../c.txt", "a-dir/../c.txt|");
}

TEST(no_match)
{
    char here[512];

    source_fails(est_dataset_files(source_path("d-*")), "", EST_NOT_FOUND, source_path("d-*"));
    source_fails(est_dataset_files(source_path("a-d*")), "", EST_NOT_FOUND, "no file matches");
    source_fails(est_dataset_files("/usr"), "", EST_NOT_FOUND,
                 "/usr is a directory; write which of its files, as in /usr/*");
    source_fails(est_dataset_files("/no-such-directory/x"), "", EST_NOT_FOUND, "no file matches /no-such-directory/x");
    assert_non_null(getcwd(here, sizeof here));
    source_fails(est_dataset_files("no-such-*.file"), "", EST_NOT_FOUND, here);
    source_refused(est_dataset_files(""), "pattern");
    source_refused(est_dataset_files(NULL), "pattern");
}

static void check(est_dataset *dataset, est_status want)
{
    est_dataset *out = NULL;

    assert_int_equal(est_dataset_finish(dataset, &out), EST_OK);
    assert_int_equal(est_dataset_check(out), want);
    est_dataset_free(out);
}

/* What a pass would not find is known without a pass, however many stages are behind it. */
TEST(check)
{
    est_dataset *missing = est_dataset_files(source_path("d-*"));

    check(est_dataset_range(0, 3, 1), EST_OK);
    check(est_dataset_files(source_path("a-*")), EST_OK);
    check(est_dataset_files(source_path("a-d*")), EST_NOT_FOUND); /* a directory */
    check(est_dataset_prefetch(est_dataset_batch(est_dataset_lines(missing, NULL), 2, NULL), 1), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), source_path("d-*")));
    check(est_dataset_concatenate(est_dataset_files(source_path("a-*")), est_dataset_files(source_path("d-*"))),
          EST_NOT_FOUND);
    check(est_dataset_cache(est_dataset_files(source_path("d-*")), source_path("cached")), EST_NOT_FOUND);
    check(est_dataset_cache(est_dataset_files(source_path("d-*")), source_path("c.txt")), EST_OK); /* it is not asked */
}

static int be_oneself_again(void **state)
{
    (void)state;
    return seteuid(getuid()) | rmdir(source_path("closed"));
}

/* Root may read everything, so it looks with the eyes of nobody. */
TEST(directory_that_cannot_be_read, .teardown_func = be_oneself_again)
{
    assert_int_equal(mkdir(source_path("closed"), 0), 0);
    if (getuid() == 0) {
        assert_int_equal(chmod(source_path("."), 0755), 0);
        assert_int_equal(seteuid(NOBODY), 0);
    }
    source_fails(est_dataset_files(source_path("*/x*")), "", EST_PERMISSION_DENIED, "cannot list");
}

TEST(components)
{
    est_dataset *dataset = NULL;

    assert_int_equal(est_dataset_finish(est_dataset_files("x"), &dataset), EST_OK);
    assert_int_equal(est_dataset_components(dataset), 1);
    assert_string_equal(est_dataset_component(dataset, 0)->name, "path");
    assert_int_equal(est_dataset_component(dataset, 0)->dtype, EST_STRING);
    assert_int_equal(est_dataset_component(dataset, 0)->shape.rank, 0);
    est_dataset_free(dataset);
}

/* Saves after n elements, then changes what `change` says. */
static void restores(int n, const char *add, const char *take_away, const char *message)
{
    est_dataset  *dataset  = NULL;
    est_iterator *rows     = NULL;
    est_tensor   *position = NULL;
    est_status    status;

    assert_int_equal(est_dataset_finish(est_dataset_files(source_path("[abz]-*")), &dataset), EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    for (int i = 0; i < n; i++) {
        est_field path[1] = { 0 };

        assert_int_equal(est_iterator_next(rows, path), EST_OK);
        est_element_clear(path, 1);
    }
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    if (add != NULL) source_write_text(add, "");
    if (take_away != NULL) assert_int_equal(unlink(source_path(take_away)), 0);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    status = est_iterator_restore(rows, position);
    assert_int_equal(status, message != NULL ? EST_FAILED_PRECONDITION : EST_OK);
    if (message != NULL) assert_non_null(strstr(est_error_message(), message));
    if (add != NULL) assert_int_equal(unlink(source_path(add)), 0);
    if (take_away != NULL) source_write_text(take_away, take_away);
    est_iterator_free(rows);
    est_tensor_free(position);
    est_dataset_free(dataset);
}

TEST(files_that_come_and_go)
{
    restores(1, NULL, NULL, NULL);
    restores(1, "a-0", NULL, "files were added or removed");
    restores(1, NULL, "a-2", "files were added or removed");
    restores(1, "z-0", NULL, NULL); /* the one after the position is the same */
    restores(3, "z-0", NULL, "number 3 was \"\" and is");
    restores(3, NULL, "b-1", "3 files were read, and only 2 match");
    restores(0, NULL, "b-1", NULL);
}

/* The last file that was handed out may still be open: it must be the same, too. */
TEST(another_file)
{
    est_iterator *rows     = NULL;
    est_tensor   *position = NULL;
    est_field     path[1]  = { 0 };

    rows = source_open(est_dataset_files(source_path("a-2")));
    assert_int_equal(est_iterator_next(rows, path), EST_OK);
    est_element_clear(path, 1);
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    rows = source_open(est_dataset_files(source_path("b-1")));
    assert_int_equal(est_iterator_restore(rows, position), EST_FAILED_PRECONDITION);
    assert_non_null(strstr(est_error_message(), "number 0 was"));
    est_iterator_free(rows);
    est_tensor_free(position);
}

static est_dataset *make(void)
{
    return est_dataset_files(source_path("*-*"));
}

TEST(memory_out)
{
    source_memory_out(make);
}

int main(void)
{
    return est_test_run(setup, source_teardown);
}
