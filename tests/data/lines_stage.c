/* SPDX-License-Identifier: Apache-2.0
 *
 * lines: several text files, compressed or not, by whatever many threads; headers, quotes, where a line is from. */
#include <string.h>
#include <unistd.h>

#include "data/stage.h"
#include "support/source_test.h"
#include "support/test.h"

static int setup(void **state)
{
    if (source_setup(state) != 0) return 1;
    source_write_text("t-0", "h\na1\na2\n");
    source_write_text("t-1", "");
    source_write_text("t-2.gz", "h\nc1\n\nc3"); /* no last line end, an empty line */
    source_write_text("t-3", "h\r\nd1\r\n");
    source_write_text("q-0", "h\nx,\"1\n2\"\ny\n");
    return 0;
}

static est_dataset *lines(const char *pattern, const est_lines_options *options)
{
    return est_dataset_lines(est_dataset_files(source_path(pattern)), options);
}

TEST(files)
{
    source_yields(lines("t-*", NULL), "h|a1|a2|h|c1||c3|h|d1|");
    source_yields(lines("t-*", EST_LINES(.skip = 1)), "a1|a2|c1||c3|d1|");
    source_yields(lines("t-*", EST_LINES(.skip = 3)), "c3|"); /* files may be shorter than that */
    for (int workers = 0; workers <= 1; workers++) {
        source_yields(lines("t-*", EST_LINES(.interleave = EST_INTERLEAVE(.workers = workers))),
                      "h|a1|a2|h|c1||c3|h|d1|");
        source_yields(lines("t-*", EST_LINES(.skip = 1, .interleave = EST_INTERLEAVE(.cycle = 3, .workers = workers))),
                      "a1|c1|a2|d1||c3|");
        source_yields(lines("t-1", EST_LINES(.interleave = EST_INTERLEAVE(.cycle = 3, .workers = workers))), "");
    }
}

TEST(quoted)
{
    source_yields(lines("q-0", NULL), "h|x,\"1|2\"|y|");
    source_yields(lines("q-0", EST_LINES(.quoted = true)), "h|x,\"1\n2\"|y|");
    source_write_text("q-1", "a\n\"b\nc\n");
    source_yields(lines("q-1", EST_LINES(.quoted = true)), "a|\"b|c|"); /* which is not closed */
    source_write_text("q-1", "a;\"b\nc\"\nd\t \"e\nf\"\n");
    source_yields(lines("q-1", EST_LINES(.quoted = true)), "a;\"b|c\"|d\t \"e|f\"|");
    source_yields(lines("q-1", EST_LINES(.quoted = true, .delimiter = ';')), "a;\"b\nc\"|d\t \"e|f\"|");
    source_yields(lines("q-1", EST_LINES(.quoted = true, .delimiter = '\t', .trim = true)), "a;\"b|c\"|d\t \"e\nf\"|");
    source_refused(lines("q-1", EST_LINES(.quoted = true, .delimiter = '"')), "cannot be the delimiter");
    assert_int_equal(unlink(source_path("q-1")), 0);
}

TEST(compression)
{
    source_write_text("x-0", "x y\n1 2\n");
    source_yields(lines("x-0", NULL), "x y|1 2|");
    source_yields(lines("x-0", EST_LINES(.compression = EST_COMPRESSION_NONE)), "x y|1 2|");
    source_fails(lines("x-0", EST_LINES(.compression = EST_COMPRESSION_ZLIB)), "", EST_DATA_LOSS, "cannot decompress");
    source_refused(lines("x-0", EST_LINES(.compression = 9)), "9 is not an est_compression");
    assert_int_equal(unlink(source_path("x-0")), 0);
}

TEST(component)
{
    est_dataset *dataset = NULL;

    assert_int_equal(est_dataset_finish(lines("t-*", NULL), &dataset), EST_OK);
    assert_int_equal(est_dataset_components(dataset), 1);
    assert_string_equal(est_dataset_component(dataset, 0)->name, "line");
    assert_int_equal(est_dataset_component(dataset, 0)->dtype, EST_STRING);
    assert_int_equal(est_dataset_component(dataset, 0)->shape.rank, 0);
    est_dataset_free(dataset);
}

/* Lines are numbered as an editor does. */
static void numbered(const char *name, const est_lines_options *options, est_i64s want)
{
    est_dataset *dataset  = NULL;
    est_pass    *pass     = NULL;
    est_iter    *it       = NULL;
    int64_t      bad_rows = 0;
    est_element *element  = est_element_new(1);

    assert_int_equal(est_dataset_finish(lines(name, options), &dataset), EST_OK);
    assert_int_equal(est_pass_create(&pass), EST_OK);
    assert_int_equal(est_iter_open(dataset, pass, &bad_rows, 0, &it), EST_OK);
    for (int i = 0; i < want.n; i++) {
        assert_int_equal(est_iter_next(it, element), EST_OK);
        assert_string_equal(element->origin.path, source_path(name));
        assert_int_equal(element->origin.at, want.data[i]);
        assert_true(element->origin.line);
        est_element_clear(element->field, 1);
    }
    assert_int_equal(est_iter_next(it, element), EST_OUT_OF_RANGE);
    est_element_free(element, 1);
    est_iter_close(it);
    est_pass_free(pass);
    est_dataset_free(dataset);
}

TEST(origin)
{
    numbered("t-0", NULL, EST_I64S(1, 2, 3));
    numbered("t-2.gz", EST_LINES(.skip = 1), EST_I64S(2, 3, 4));
    numbered("q-0", EST_LINES(.quoted = true), EST_I64S(1, 2, 4));
    numbered("q-0", EST_LINES(.interleave = EST_INTERLEAVE(.workers = 1)), EST_I64S(1, 2, 3, 4));
}

TEST(missing_file)
{
    est_str      path   = { source_path("nowhere"), strlen(source_path("nowhere")) };
    est_tensor  *tensor = NULL;
    est_dataset *paths;

    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &path, &tensor), EST_OK);
    paths = est_dataset_slices(EST_NAMED_TENSORS({ "path", tensor }));
    est_tensor_free(tensor);
    source_fails(est_dataset_lines(paths, NULL), "", EST_NOT_FOUND, source_path("nowhere"));
}

TEST(refused)
{
    const est_lines_options unmade = { .skip = 1 };

    source_refused(lines("t-*", &unmade), "EST_LINES");
    source_refused(lines("t-*", EST_LINES(.skip = -1)), "stage lines: skip -1");
    source_refused(lines("t-*", EST_LINES(.interleave = EST_INTERLEAVE(.block = -2))), "block -2");
    source_refused(est_dataset_lines(est_dataset_range(0, 1, 1), NULL), "it needs paths of files");
    source_refused(est_dataset_lines(NULL, NULL), "no dataset was given");
    source_refused(est_dataset_lines(est_dataset_range(0, 1, 0), &unmade), "is not a range");
}

/* New data under an old name must not be read from the middle of a row; more data behind the old is more data. */
TEST(rewritten)
{
    static const char *const names[] = { "s", "s.gz" };
    static const struct {
        const char *contents, *after;
    } again[] = {
        { "one\ntwo\nthree\n", "three|" },
        { "one\ntwo\nthree\nfour\n", "three|four|" },
        { "one\nTWO\nthree\n", NULL },
        { "1\n2\n3\n4\n5\n6\n7\n8\n", NULL },
        { "one\n", NULL },         /* the position is beyond its end */
        { "one\ntwo\n", "" },      /* the position is its end by now */
        { "one\ntwo\n3\n", "3|" }, /* a row that was mended */
        { "", NULL },
    };

    for (int n = 0; n < 2; n++) {
        for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
            source_write_text(names[n], "one\ntwo\nthree\n");
            source_rewritten(lines(names[n], NULL), "one|two|", source_write_text, names[n], again[i].contents,
                             again[i].after);
        }
        assert_int_equal(unlink(source_path(names[n])), 0);
    }
}

/* Positions of version 1 did not know their files; there is nothing to compare. */
TEST(older_position)
{
    est_iterator *rows     = source_open(lines("t-0", NULL));
    est_tensor   *position = NULL;
    uint8_t      *bytes;

    source_next(rows, "h|");
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    bytes = est_tensor_mutable_data(position);
    assert_int_equal(bytes[1], 2); /* field 1, the version */
    bytes[1] = 1;
    rows     = source_open(lines("t-0", NULL));
    assert_int_equal(est_iterator_restore(rows, position), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "version 1 of the format"));
    est_iterator_free(rows);
    est_tensor_free(position);
}

static bool memory_workers;

static est_dataset *make_for_memory(void)
{
    return lines("t-*", EST_LINES(.skip = 1, .interleave = EST_INTERLEAVE(.cycle = 2, .workers = memory_workers)));
}

TEST(memory_out)
{
    source_memory_out(make_for_memory);
    memory_workers = true;
    source_memory_out(make_for_memory);
}

int main(void)
{
    return est_test_run(setup, source_teardown);
}
