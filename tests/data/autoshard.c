/* SPDX-License-Identifier: Apache-2.0
 *
 * est_dataset_autoshard and est_dataset_distribute: the parts of all workers are every row of the whole once, by files
 * and by elements, through stages of every kind; the replicas of a step see its global batch; what is refused;
 * positions and failed allocations. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "estoc/input.h"
#include "support/data_test.h"
#include "support/source_test.h"
#include "support/test.h"

#define N_FILES  5
#define ROWS_MAX 1024

static const int64_t n_rows[] = { 0, 1, 7, 100 };

/* Makes a dataset of rows 0 to n - 1, each as often as it likes. */
typedef est_dataset *(*make_rows)(int64_t n);

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct rows {
    int64_t at[ROWS_MAX];
    int     n;
} rows;

/* Adds the rows of one element: numbers, or lines that are numbers. */
static void rows_add(rows *to, const est_tensor *values)
{
    int64_t n = est_tensor_count(values);

    assert_in_range(to->n + n, 0, ROWS_MAX);
    for (int64_t i = 0; i < n; i++) {
        if (est_tensor_dtype(values) == EST_STRING) {
            est_str text = ((const est_str *)est_tensor_data(values))[i];
            char    number[24];

            snprintf(number, sizeof number, "%.*s", (int)text.size, text.data);
            to->at[to->n++] = strtoll(number, NULL, 10);
        } else {
            to->at[to->n++] = ((const int64_t *)est_tensor_data(values))[i];
        }
    }
}

/* Adds the rows of the next element; false at the end. */
static bool rows_next(rows *to, est_iterator *from, int n_fields)
{
    est_field  element[2] = { 0 };
    est_status status     = est_iterator_next(from, element);

    if (status == EST_OUT_OF_RANGE) return false;
    if (status != EST_OK) fail_msg("%s", est_error_message());
    rows_add(to, element[n_fields - 1].values); /* behind the index of an enumerate */
    est_element_clear(element, n_fields);
    return true;
}

/* Adds all rows of the dataset, which is taken. */
static void rows_read(rows *to, est_dataset *dataset)
{
    est_dataset  *finished = est_test_finish(dataset);
    est_iterator *from     = est_test_iterate(finished);

    while (rows_next(to, from, est_dataset_components(finished))) continue;
    est_iterator_free(from);
    est_dataset_free(finished);
}

static int compare_rows(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void rows_equal(rows *is, rows *want)
{
    qsort(is->at, (size_t)is->n, sizeof is->at[0], compare_rows);
    qsort(want->at, (size_t)want->n, sizeof want->at[0], compare_rows);
    assert_int_equal(is->n, want->n);
    assert_memory_equal(is->at, want->at, (size_t)is->n * sizeof is->at[0]);
}

/* The parts of all workers are the whole. */
static void parts_are_whole(make_rows make, int64_t n, est_auto_shard_policy policy)
{
    static rows whole, parts;

    whole.n = 0;
    rows_read(&whole, make(n));
    for (int64_t workers = 1; workers <= 4; workers++) {
        parts.n = 0;
        for (int64_t w = 0; w < workers; w++) rows_read(&parts, est_dataset_autoshard(make(n), workers, w, policy));
        rows_equal(&parts, &whole);
    }
}

/* --- by elements -------------------------------------------------------------------------------------------------- */

static est_status same(void *user, const est_field *in, est_field *out)
{
    (void)user;
    out[0].values = est_tensor_ref(in[0].values);
    return EST_OK;
}

static est_status not_fives(void *user, const est_field *element, bool *keep)
{
    (void)user;
    *keep = *(const int64_t *)est_tensor_data(element[0].values) % 5 != 0;
    return EST_OK;
}

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

static est_dataset *shuffled(int64_t n)
{
    return est_dataset_prefetch(est_dataset_repeat(est_dataset_shuffle(range(n), 9, 7), 2), 2);
}

static est_dataset *shuffled_anyhow(int64_t n) /* its order is that of each worker */
{
    return est_dataset_shuffle(est_dataset_repeat(range(n), 2), 9, 0);
}

static est_dataset *mapped(int64_t n)
{
    return est_dataset_map(est_dataset_filter(shuffled(n), not_fives, NULL), same, EST_MAP(.workers = 2));
}

static est_dataset *batched(int64_t n)
{
    return est_dataset_prefetch(est_dataset_map(est_dataset_batch(mapped(n), 4, NULL), same, NULL), 2);
}

static est_dataset *batched_shuffled(int64_t n)
{
    return est_dataset_repeat(est_dataset_shuffle(est_dataset_batch(range(n), 3, NULL), 4, 0), 2);
}

static est_dataset *cached(int64_t n)
{
    return est_dataset_repeat(est_dataset_batch(est_dataset_cache(range(n), NULL), 4, NULL), 2);
}

static est_dataset *cached_behind(int64_t n)
{
    return est_dataset_repeat(est_dataset_cache(est_dataset_batch(range(n), 4, NULL), NULL), 2);
}

static est_dataset *taken(int64_t n)
{
    return est_dataset_take(est_dataset_skip(est_dataset_batch(range(n), 4, NULL), 1), 5);
}

static est_dataset *numbered(int64_t n)
{
    return est_dataset_enumerate(range(n), 3);
}

static est_dataset *joined(int64_t n)
{
    return est_dataset_concatenate(est_dataset_batch(range(n / 3), 4, NULL),
                                   est_dataset_batch(est_dataset_range(n / 3, n, 1), 3, NULL));
}

static est_dataset *unbatched(int64_t n)
{
    return est_dataset_unbatch(est_dataset_batch(range(n), 4, NULL));
}

/* Rows of five datasets in turn. */
static est_dataset *every_fifth(void *user, const est_field *element)
{
    int64_t first = *(const int64_t *)est_tensor_data(element[0].values);

    return est_dataset_range(first, *(const int64_t *)user, 5);
}

static est_dataset *interleaved(int64_t n)
{
    static int64_t             total;
    static const est_component value = { .name = "value", .dtype = EST_I64 };

    total = n; /* the same for all iterators of a test */
    return est_dataset_interleave(range(5), every_fifth,
                                  EST_INTERLEAVE(.cycle = 3, .user = &total, .components = { &value, 1 }));
}

static const make_rows elements[] = {
    range,         shuffled, shuffled_anyhow, mapped, batched,   batched_shuffled, cached,
    cached_behind, taken,    numbered,        joined, unbatched, interleaved,
};

TEST(elements)
{
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        for (size_t k = 0; k < sizeof n_rows / sizeof n_rows[0]; k++) {
            parts_are_whole(elements[i], n_rows[k], EST_AUTO_SHARD_DATA);
            parts_are_whole(elements[i], n_rows[k], EST_AUTO_SHARD_AUTO);
        }
    }
}

/* Rows are dealt, not batches: batch s of both workers is four rows in a row. */
TEST(elements_of_batches)
{
    est_dataset *d = est_dataset_batch(range(10), 2, NULL);

    est_test_yields(est_dataset_autoshard(d, 2, 0, EST_AUTO_SHARD_DATA), "[0 2] ; [4 6] ; [8]");
    d = est_dataset_map(est_dataset_batch(range(10), 2, NULL), same, NULL);
    est_test_yields(est_dataset_autoshard(d, 2, 1, EST_AUTO_SHARD_DATA), "[1 3] ; [5 7] ; [9]");
    d = est_dataset_batch(range(10), 2, EST_BATCH(.drop_remainder = true));
    est_test_yields(est_dataset_autoshard(d, 2, 1, EST_AUTO_SHARD_DATA), "[1 3] ; [5 7]");
    d = est_dataset_take(est_dataset_batch(range(10), 2, NULL), 3); /* that many of the whole: batches are dealt */
    est_test_yields(est_dataset_autoshard(d, 2, 0, EST_AUTO_SHARD_DATA), "[0 1] ; [4 5]");
    d = est_dataset_repeat(range(3), 2);
    est_test_yields(est_dataset_autoshard(d, 2, 0, EST_AUTO_SHARD_DATA), "0 ; 2 ; 0 ; 2");
}

/* --- by files ----------------------------------------------------------------------------------------------------- */

/* Rows 0 to n - 1 in N_FILES files of unequal length, as lines, records and CSV. */
static void write_files(int64_t n)
{
    for (int f = 0; f < N_FILES; f++) {
        est_strbuf lines = { 0 }, records = { 0 };
        char       name[32], *text;

        for (int64_t r = 0; r < n; r++) {
            if (r * r % 7 % N_FILES != f) continue; /* file 3 is empty */
            est_strbuf_printf(&lines, "%" PRId64 "\n", r);
            est_strbuf_printf(&records, "%" PRId64 "|", r);
        }
        snprintf(name, sizeof name, "rows-%d.txt", f);
        assert_int_equal(est_strbuf_take(&lines, &text), EST_OK);
        source_write_text(name, text);
        est_free(text);
        snprintf(name, sizeof name, "rows-%d.tfrecord", f);
        assert_int_equal(est_strbuf_take(&records, &text), EST_OK);
        source_write_records(name, text);
        est_free(text);
    }
}

static est_dataset *text_files(void)
{
    return est_dataset_files(source_path("rows-*.txt"));
}

static est_dataset *line_rows(int64_t n)
{
    (void)n;
    return est_dataset_lines(text_files(), NULL);
}

static est_dataset *csv_rows(int64_t n)
{
    (void)n;
    return est_dataset_csv(est_dataset_shuffle(text_files(), 3, 0), EST_CSV_COLUMNS({ "n", EST_I64 }), NULL, 4, NULL);
}

static est_dataset *record_rows(int64_t n)
{
    est_dataset *d = est_dataset_repeat(est_dataset_shuffle(est_dataset_files(source_path("rows-*.tfrecord")), 9, 0),
                                        2);

    (void)n;
    d = est_dataset_tfrecords(d, EST_INTERLEAVE(.cycle = 2, .workers = 1, .unordered = true));
    d = est_dataset_batch(est_dataset_shuffle(d, 50, 0), 4, NULL);
    return est_dataset_prefetch(est_dataset_repeat(est_dataset_cache(d, NULL), 2), 2);
}

static est_dataset *taken_files(int64_t n) /* of all files, then dealt */
{
    (void)n;
    return est_dataset_lines(est_dataset_take(est_dataset_shuffle(text_files(), 9, 5), 4), NULL);
}

static est_dataset *lines_of(void *user, const est_field *element)
{
    const est_str *bytes = est_tensor_data(element[0].values);
    char           path[256];

    (void)user;
    snprintf(path, sizeof path, "%.*s", (int)bytes->size, bytes->data);
    return est_dataset_lines(est_dataset_files(path), NULL);
}

static est_dataset *interleaved_files(int64_t n)
{
    static const est_component line = { .name = "line", .dtype = EST_STRING };

    (void)n;
    return est_dataset_interleave(est_dataset_shuffle(text_files(), 9, 0), lines_of,
                                  EST_INTERLEAVE(.cycle = 3, .components = { &line, 1 }));
}

static est_dataset *joined_files(int64_t n)
{
    return est_dataset_concatenate(line_rows(n), est_dataset_shuffle(line_rows(n), 5, 0));
}

static est_dataset *rebatched_files(int64_t n)
{
    return est_dataset_rebatch(est_dataset_batch(line_rows(n), 4, NULL), 1, 0, 3);
}

/* A list of paths in memory. */
static est_dataset *listed_files(int64_t n)
{
    est_tensor  *paths;
    est_dataset *d;

    (void)n;
    assert_int_equal(est_tensor_create(EST_STRING, EST_SHAPE(N_FILES), &paths), EST_OK);
    for (int f = 0; f < N_FILES; f++) {
        char name[32];

        snprintf(name, sizeof name, "rows-%d.txt", f);
        assert_int_equal(est_tensor_set_string(paths, f, source_path(name), strlen(source_path(name))), EST_OK);
    }
    d = est_dataset_lines(est_dataset_slices(EST_NAMED_TENSORS({ "path", paths })), NULL);
    est_tensor_free(paths);
    return d;
}

static const make_rows files[] = { line_rows,         csv_rows,     record_rows,     taken_files,
                                   interleaved_files, joined_files, rebatched_files, listed_files };

TEST(files)
{
    for (size_t k = 0; k < sizeof n_rows / sizeof n_rows[0]; k++) {
        write_files(n_rows[k]);
        for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
            parts_are_whole(files[i], n_rows[k], EST_AUTO_SHARD_FILE);
            parts_are_whole(files[i], n_rows[k], EST_AUTO_SHARD_AUTO);
        }
        parts_are_whole(line_rows, n_rows[k], EST_AUTO_SHARD_DATA);
    }
}

/* Worker 1 of 2 opens files 1 and 3 and no other. */
TEST(files_of_worker)
{
    source_write_text("own-0.txt", "0\n");
    source_write_text("own-1.txt", "1\n1\n");
    source_write_text("own-2.txt", "2\n");
    source_write_text("own-3.txt", "3\n");
    source_yields(est_dataset_autoshard(est_dataset_lines(est_dataset_files(source_path("own-*.txt")), NULL), 2, 1,
                                        EST_AUTO_SHARD_AUTO),
                  "1|1|3|");
    source_yields(est_dataset_autoshard(est_dataset_lines(est_dataset_files(source_path("own-*.txt")), NULL), 2, 1,
                                        EST_AUTO_SHARD_DATA),
                  "1|2|");
    source_yields(est_dataset_autoshard(est_dataset_lines(est_dataset_files(source_path("own-*.txt")), NULL), 2, 1,
                                        EST_AUTO_SHARD_OFF),
                  "0|1|1|2|3|");
}

/* Files of the dataset, which is taken, cannot be dealt, for this reason. */
static void no_files(est_dataset *dataset, const char *text)
{
    est_dataset *finished;

    assert_int_equal(est_dataset_finish(est_dataset_autoshard(dataset, 2, 0, EST_AUTO_SHARD_FILE), &finished),
                     EST_NOT_FOUND);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

/* A stage that counts behind the files: AUTO deals elements, and the parts are still the whole. */
static est_dataset *taken_rows(int64_t n)
{
    return est_dataset_take(line_rows(n), 6);
}

TEST(counting)
{
    write_files(7);
    parts_are_whole(taken_rows, 7, EST_AUTO_SHARD_AUTO);
    no_files(taken_rows(7), "stage autoshard: stage take counts elements");
    no_files(est_dataset_skip(line_rows(7), 1), "stage skip counts");
    no_files(est_dataset_shard(line_rows(7), 3, 0), "stage shard counts");
    no_files(est_dataset_enumerate(line_rows(7), 0), "stage enumerate counts");
    no_files(est_dataset_zip(line_rows(7), range(7)), "stage zip counts");
}

/* Each worker keeps its own part in a file of its own. */
TEST(cache_file)
{
    est_dataset *d[2];

    write_files(100);
    for (int turn = 0; turn < 2; turn++) { /* made, then read */
        static rows parts, whole;

        parts.n = whole.n = 0;
        for (int w = 0; w < 2; w++) {
            d[w] = est_dataset_cache(line_rows(100), source_path("rows.cache"));
            rows_read(&parts, est_dataset_autoshard(d[w], 2, w, EST_AUTO_SHARD_FILE));
        }
        rows_read(&whole, line_rows(100));
        rows_equal(&parts, &whole);
    }
    d[0] = est_test_finish(est_dataset_files(source_path("rows.cache-0000?-of-00002")));
    assert_int_equal(est_dataset_check(d[0]), EST_OK);
    est_dataset_free(d[0]);
    d[0] = est_test_finish(est_dataset_files(source_path("rows.cache")));
    assert_int_equal(est_dataset_check(d[0]), EST_NOT_FOUND);
    est_dataset_free(d[0]);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

/* A line that is in no file. */
static est_dataset *listed_only(void)
{
    const est_str text = { "3", 1 };
    est_tensor   *line;
    est_dataset  *d;

    assert_int_equal(est_tensor_create_from(EST_STRING, EST_SHAPE(1), &text, &line), EST_OK);
    d = est_dataset_slices(EST_NAMED_TENSORS({ "line", line }));
    est_tensor_free(line);
    return d;
}

TEST(refused)
{
    static const est_auto_shard_policy data = EST_AUTO_SHARD_DATA, file = EST_AUTO_SHARD_FILE;
    est_dataset                       *d;

    write_files(7);
    est_test_refused(est_dataset_autoshard(range(3), 0, 0, data), "stage autoshard: worker 0 of 0");
    est_test_refused(est_dataset_autoshard(range(3), 2, 2, EST_AUTO_SHARD_OFF), "worker 2 of 2");
    est_test_refused(est_dataset_autoshard(range(3), 2, -1, data), "worker -1 of 2");
    est_test_refused(est_dataset_autoshard(range(3), 2, 0, (est_auto_shard_policy)7),
                     "7 is not an est_auto_shard_policy");
    est_test_refused(est_dataset_autoshard(NULL, 2, 0, data), "no dataset was given");
    est_test_refused(est_dataset_autoshard(est_dataset_take(range(3), -1), 2, 0, data), "stage take: -1 elements");
    no_files(range(3), "its rows are those of stage range");
    no_files(est_dataset_concatenate(line_rows(7), listed_only()), "its rows are those of stage slices");

    /* Seven workers have five files: an error for the first as for the last, and no reason to deal elements instead. */
    for (int w = 0; w < 7; w++) {
        est_test_breaks(est_dataset_autoshard(line_rows(7), 7, w, w % 2 == 0 ? file : EST_AUTO_SHARD_AUTO),
                        EST_INVALID_ARGUMENT, "5 files for 7 workers");
        assert_non_null(strstr(est_error_message(), "EST_AUTO_SHARD_DATA"));
    }

    /* What is dealt has to be in the same order everywhere. */
    d = est_dataset_batch(est_dataset_take(est_dataset_shuffle(range(9), 4, 0), 5), 2, NULL);
    est_test_refused(est_dataset_autoshard(d, 2, 0, data), "stage shuffle has a different order on every worker");
    d = est_dataset_batch(est_dataset_shuffle(range(9), 4, 0), 2, NULL);
    est_dataset_free(est_test_finish(est_dataset_autoshard(d, 1, 0, data)));
    d = est_dataset_map(range(9), same, EST_MAP(.workers = 2, .unordered = true));
    est_test_refused(est_dataset_autoshard(d, 2, 0, data), "stage map has a different order");
    d = est_dataset_lines(text_files(), EST_LINES(.interleave = EST_INTERLEAVE(.workers = 2, .unordered = true)));
    est_test_refused(est_dataset_autoshard(d, 2, 0, data), "stage lines has a different order");
    d = est_dataset_csv(text_files(), EST_CSV_COLUMNS({ "n", EST_I64 }), NULL, 4,
                        EST_PARSE(.workers = 2, .unordered = true));
    est_test_refused(est_dataset_autoshard(est_dataset_take(d, 3), 2, 0, data),
                     "stage decode_csv has a different order");
    d = est_dataset_lines(est_dataset_take(est_dataset_shuffle(text_files(), 9, 0), 4), NULL);
    est_test_refused(est_dataset_autoshard(d, 2, 0, file), "stage shuffle has a different order");
    d = est_dataset_rebatch(est_dataset_batch(range(9), 4, NULL), 3, 0, 1);
    est_test_refused(est_dataset_autoshard(d, 2, 0, data), "2 workers, and est_dataset_rebatch has made 3 parts");
}

/* --- a worker's input --------------------------------------------------------------------------------------------- */

static est_input_context context_of(int workers, int worker, int replicas)
{
    return (
        est_input_context){ .n_pipelines = workers, .pipeline = worker, .num_replicas_in_sync = workers * replicas };
}

static est_dataset *global_batches(int64_t n)
{
    return est_dataset_batch(range(n), 7, NULL);
}

static est_dataset *global_shuffled(int64_t n)
{
    est_dataset *d = est_dataset_repeat(est_dataset_shuffle(range(n), 9, 7), 2);

    return est_dataset_prefetch(est_dataset_map(est_dataset_batch(d, 7, NULL), same, EST_MAP(.workers = 2)), 2);
}

static est_dataset *global_epochs(int64_t n) /* a small batch at the end of each */
{
    return est_dataset_repeat(est_dataset_cache(est_dataset_batch(range(n), 5, NULL), NULL), 2);
}

/* At each step the replicas of all workers have the batch of that step, whatever its size. */
static void steps_are_batches(make_rows make, int64_t n, int workers, int replicas)
{
    static rows   whole, parts;
    est_dataset  *all    = est_test_finish(make(n));
    est_iterator *of_all = est_test_iterate(all), *of[4];

    for (int w = 0; w < workers; w++) {
        est_input_context context = context_of(workers, w, replicas);
        est_dataset      *d       = est_test_finish(est_dataset_distribute(make(n), &context, EST_AUTO_SHARD_DATA));

        of[w] = est_test_iterate(d);
        est_dataset_free(d);
    }
    for (whole.n = 0; rows_next(&whole, of_all, 1); whole.n = 0) {
        parts.n = 0;
        for (int i = 0; i < workers * replicas; i++) assert_true(rows_next(&parts, of[i / replicas], 1));
        rows_equal(&parts, &whole);
    }
    for (int w = 0; w < workers; w++) {
        assert_false(rows_next(&parts, of[w], 1));
        est_iterator_free(of[w]);
    }
    est_iterator_free(of_all);
    est_dataset_free(all);
}

TEST(steps)
{
    static const make_rows makes[] = { global_batches, global_shuffled, global_epochs };

    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) {
        for (size_t k = 0; k < sizeof n_rows / sizeof n_rows[0]; k++) {
            for (int shape = 0; shape < 12; shape++) {
                steps_are_batches(makes[i], n_rows[k], 1 + shape / 3, 1 + shape % 3);
            }
        }
    }
}

/* As TensorFlow's workers have them: tests/interop/rebatch.c. */
TEST(distribute_by_elements)
{
    est_input_context first = context_of(2, 0, 2), second = context_of(2, 1, 2), one = context_of(2, 1, 0);

    est_test_yields(est_dataset_distribute(global_batches(10), &first, EST_AUTO_SHARD_AUTO),
                    "[0 1] ; [4 5] ; [7] ; [9]");
    est_test_yields(est_dataset_distribute(global_batches(10), &second, EST_AUTO_SHARD_DATA),
                    "[2 3] ; [6] ; [8] ; empty[0]");
    est_test_yields(est_dataset_distribute(global_batches(10), &second, EST_AUTO_SHARD_OFF),
                    "[0 1] ; [2] ; [3 4] ; [5 6] ; [7 8] ; [9]");
    est_test_yields(est_dataset_distribute(est_dataset_batch(range(10), 2, NULL), &one, EST_AUTO_SHARD_AUTO),
                    "[1 3] ; [5 7] ; [9]"); /* each on its own: whole batches */
    first.num_replicas_in_sync = 3;
    est_test_refused(est_dataset_distribute(global_batches(10), &first, EST_AUTO_SHARD_AUTO),
                     "stage distribute: 3 replicas in sync on 2 workers");
    est_test_refused(est_dataset_distribute(range(10), &second, EST_AUTO_SHARD_AUTO), "no batches to divide");
}

/* Adds the numbers of a dataset of batches of at most `most` to `seen`. */
static int count_numbers(est_dataset *dataset, int64_t most, int seen[], int n)
{
    est_dataset  *finished = est_test_finish(dataset);
    est_iterator *it;
    est_field     batch[1];
    int           found = 0;

    assert_int_equal(est_iterator_create(finished, &it), EST_OK);
    est_dataset_free(finished);
    while (est_iterator_next(it, batch) == EST_OK) {
        const int64_t *numbers = est_tensor_data(batch[0].values);
        int64_t        size    = est_tensor_count(batch[0].values);

        assert_true(size <= most);
        for (int64_t i = 0; i < size; i++) {
            assert_in_range(numbers[i], 0, n - 1);
            seen[numbers[i]]++;
            found++;
        }
        est_element_clear(batch, 1);
    }
    est_iterator_free(it);
    return found;
}

/* Every worker shuffles rows of its own, also with a map between the shuffle and the batches. */
TEST(shuffles_without_a_seed)
{
    for (int distributed = 0; distributed <= 1; distributed++) {
        int seen[24] = { 0 };

        for (int w = 0; w < 2; w++) {
            est_input_context context = context_of(2, w, 2);
            est_dataset      *d       = est_dataset_shuffle(range(24), 24, 0);

            d = est_dataset_prefetch(est_dataset_batch(est_dataset_map(d, same, NULL), 4, NULL), 1);
            if (distributed)
                d = est_dataset_distribute(d, &context, EST_AUTO_SHARD_AUTO);
            else
                d = est_dataset_autoshard(d, 2, w, EST_AUTO_SHARD_DATA);
            assert_int_equal(count_numbers(d, distributed ? 2 : 4, seen, 24), 12);
        }
        for (int i = 0; i < 24; i++) assert_int_equal(seen[i], 1);
    }
}

/* Adds the rows of one step of all workers; false when one of them has ended. */
static bool step_read(rows *to, est_iterator **of, int workers, int replicas)
{
    bool whole = true;

    for (int i = 0; i < workers * replicas; i++) whole = rows_next(to, of[i / replicas], 1) && whole;
    return whole;
}

/* By files every step has a global batch of rows, until a worker comes to its end, and the rows of all are those of the
 * files. */
TEST(distribute_by_files)
{
    static const int batch = 7, replicas = 2;

    write_files(100);
    for (int workers = 1; workers <= 4; workers++) {
        static rows   whole, parts;
        est_iterator *of[4];
        int           full = 0, before = 0;

        whole.n = parts.n = 0;
        rows_read(&whole, line_rows(100));
        for (int w = 0; w < workers; w++) {
            est_input_context context = context_of(workers, w, replicas);
            est_dataset      *d       = est_dataset_batch(est_dataset_shuffle(line_rows(100), 9, 0), batch, NULL);

            d     = est_test_finish(est_dataset_distribute(d, &context, EST_AUTO_SHARD_AUTO));
            of[w] = est_test_iterate(d);
            est_dataset_free(d);
        }
        for (; step_read(&parts, of, workers, replicas); full++) {
            assert_int_equal(before, full * batch); /* all steps before this one, which may have a worker's last rows */
            before = parts.n;
        }
        if (workers < 4) assert_true(full > 2); /* the fourth has no rows */
        while (parts.n < whole.n) {
            before = parts.n;
            step_read(&parts, of, workers, replicas);
            assert_true(parts.n > before);
        }
        rows_equal(&parts, &whole);
        for (int w = 0; w < workers; w++) est_iterator_free(of[w]);
    }
}

TEST(per_replica_batch_size)
{
    est_input_context context = context_of(2, 0, 3);
    int64_t           size    = -1;

    assert_int_equal(est_per_replica_batch_size(&context, 12, &size), EST_OK);
    assert_int_equal(size, 2);
    assert_int_equal(est_per_replica_batch_size(&context, 13, &size), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "a global batch of 13 cannot be divided among 6 replicas"));
    assert_int_equal(est_per_replica_batch_size(&context, 0, &size), EST_INVALID_ARGUMENT);
    context.num_replicas_in_sync = 0;
    assert_int_equal(est_per_replica_batch_size(&context, 12, &size), EST_INVALID_ARGUMENT);
    assert_int_equal(size, 2);
}

/* Each worker counts the bad rows that it reads: those of its files, or all of them. */
TEST(statistics)
{
    static const est_auto_shard_policy policies[] = { EST_AUTO_SHARD_FILE, EST_AUTO_SHARD_DATA };

    source_write_text("bad-0.txt", "0\nx\n2\n");
    source_write_text("bad-1.txt", "3\n4\n5\n6\nx\nx\n");
    for (int i = 0; i < 2; i++) {
        for (int w = 0; w < 2; w++) {
            est_input_context context = context_of(2, w, 1);
            est_dataset      *d       = est_dataset_files(source_path("bad-*.txt"));
            est_iterator     *of;
            rows              read = { .n = 0 };

            d  = est_dataset_csv(d, EST_CSV_COLUMNS({ "n", EST_I64 }), NULL, 4, EST_PARSE(.bad_rows_max = 3));
            d  = est_test_finish(est_dataset_distribute(d, &context, policies[i]));
            of = est_test_iterate(d);
            while (rows_next(&read, of, 1)) continue;
            assert_int_equal(est_iterator_get_stats(of).bad_rows, i == 1 ? 3 : w == 0 ? 1 : 2);
            assert_int_equal(est_iterator_get_stats(of).elements, i == 0 && w == 0 ? 1 : 2);
            est_iterator_free(of);
            est_dataset_free(d);
        }
    }
}

/* --- positions and failures --------------------------------------------------------------------------------------- */

static est_dataset *make_data(void)
{
    est_input_context context = context_of(2, 1, 2);

    return est_dataset_distribute(global_shuffled(19), &context, EST_AUTO_SHARD_DATA);
}

static est_dataset *make_file(void)
{
    est_input_context context = context_of(3, 1, 2);
    est_dataset      *d       = est_dataset_lines(est_dataset_shuffle(text_files(), 9, 3), NULL);

    d = est_dataset_repeat(est_dataset_shuffle(d, 5, 4), 2);
    return est_dataset_distribute(est_dataset_batch(d, 7, NULL), &context, EST_AUTO_SHARD_FILE);
}

static est_dataset *make_rows_dealt(void)
{
    return est_dataset_autoshard(cached_behind(19), 3, 1, EST_AUTO_SHARD_DATA);
}

/* Rebuilt twice: parts of the files, and of their rows. */
static est_dataset *make_twice(void)
{
    est_dataset *d = est_dataset_csv(est_dataset_prefetch(text_files(), 2), EST_CSV_COLUMNS({ "n", EST_I64 }), NULL, 2,
                                     EST_PARSE(.workers = 2));

    d = est_dataset_autoshard(d, 2, 0, EST_AUTO_SHARD_FILE);
    return est_dataset_autoshard(est_dataset_prefetch(d, 2), 2, 1, EST_AUTO_SHARD_DATA);
}

static const est_test_make makes[] = { make_data, make_file, make_rows_dealt, make_twice };

TEST(positions)
{
    write_files(40);
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_positions(makes[i], 12);
}

TEST(allocations)
{
    write_files(12);
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) est_test_allocations(makes[i], 4);
}

int main(void)
{
    return est_test_run(source_setup, source_teardown);
}
