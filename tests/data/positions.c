/* SPDX-License-Identifier: Apache-2.0
 *
 * Positions that were damaged: any flipped bit and any cut of the position of a chain with every kind of state is
 * refused or goes on with something, and never harms. */
#include <string.h>

#include "estoc/input.h"
#include "estoc/log.h"
#include "support/data_test.h"
#include "support/source_test.h"
#include "support/test.h"

static const est_component components[] = {
    { .name = "word", .dtype = EST_STRING, .shape = { 1, { -1 } } },
    { .name = "number", .dtype = EST_I64, .shape = { 1, { -1 } } },
};

static est_status make_row(int64_t row, int i, est_tensor **out)
{
    static const est_str words[] = { { "a", 1 }, { "bc", 2 }, { "", 0 } };

    if (i == 0) return est_tensor_create_from(EST_STRING, EST_SHAPE(row % 4), words, out);
    return est_tensor_i64(EST_SHAPE(row % 4), (const int64_t[]){ row, -row, 0 }, out);
}

static est_dataset *rows_of(int64_t n, const char *path)
{
    return est_test_rows(components, 2, n, make_row, path);
}

static est_dataset *make_ragged(void)
{
    return est_dataset_unbatch(
        est_dataset_unbatch(est_dataset_batch(rows_of(6, "rows.csv"), 4, EST_BATCH(.rows = EST_ROWS_RAGGED))));
}

static est_dataset *make_deep(void)
{
    est_dataset *d = est_dataset_concatenate(rows_of(3, "a.csv"), est_dataset_skip(rows_of(5, "b.csv"), 2));

    d = est_dataset_repeat(est_dataset_shuffle(est_dataset_unbatch(est_dataset_cache(d, NULL)), 2, 7), EST_FOREVER);
    d = est_dataset_zip(est_dataset_shard(d, 2, 1), est_dataset_repeat(est_dataset_range(0, 5, 1), EST_FOREVER));
    return est_dataset_take(est_dataset_shuffle(est_dataset_batch(est_dataset_enumerate(d, 0), 2, NULL), 2, 8), 14);
}

static est_status make_line(int64_t row, int i, est_tensor **out)
{
    (void)i;
    return est_tensor_string(row % 3 == 1 ? "x,y" : "1,y", 3, out);
}

static est_status keep(void *user, const est_field *in, est_field *out)
{
    (void)user;
    out[0].values = est_tensor_ref(in[0].values);
    out[1].values = est_tensor_ref(in[1].values);
    return EST_OK;
}

/* Batches made ahead, with rows left out, under a map and a prefetch. */
static est_dataset *make_ahead(void)
{
    static const est_component line = { .name = "line", .dtype = EST_STRING };
    est_dataset               *d    = est_test_rows(&line, 1, 8, make_line, "rows.csv");

    d = est_dataset_decode_csv(d, EST_CSV_COLUMNS({ "n", EST_I64 }, { "s", EST_STRING }), NULL, 2,
                               EST_PARSE(.workers = 2, .bad_rows_max = EST_FOREVER));
    return est_dataset_prefetch(est_dataset_map(d, keep, EST_MAP(.workers = 2)), 3);
}

static est_dataset *make_lines(void)
{
    return est_dataset_lines(est_dataset_files(source_path("t-*")),
                             EST_LINES(.quoted = true, .interleave = EST_INTERLEAVE(.cycle = 2, .workers = 1)));
}

static est_dataset *make_records(void)
{
    return est_dataset_tfrecords(
        est_dataset_files(source_path("r-*")),
        EST_INTERLEAVE(.cycle = 2, .workers = 1, .unordered = true, .bad_rows_max = EST_FOREVER));
}

/* Rows of a ragged batch, cut where the global batch is known and where it is not, and the parts of one of two
 * workers. */
static est_dataset *make_rebatch(void)
{
    est_dataset *d = est_dataset_batch(rows_of(7, NULL), 3, EST_BATCH(.rows = EST_ROWS_RAGGED));

    return est_dataset_rebatch(d, 2, 1, 2);
}

static est_dataset *make_parts(void)
{
    return est_dataset_autoshard(make_rebatch(), 2, 1, EST_AUTO_SHARD_DATA);
}

static est_status next_number(void *state, est_field *element)
{
    int64_t *at = state;

    ++*at;
    return est_tensor_i64(EST_SHAPE_SCALAR, at, &element[0].values);
}

static est_status save_number(void *state, est_tensor **position)
{
    return est_tensor_i64(EST_SHAPE_SCALAR, state, position);
}

static est_status restore_number(void *state, const est_tensor *position)
{
    if (est_tensor_dtype(position) != EST_I64 || est_tensor_count(position) != 1) {
        return est_fail(EST_DATA_LOSS, "that is not a number");
    }
    *(int64_t *)state = *(const int64_t *)est_tensor_data(position);
    return EST_OK;
}

static est_dataset *make_generator(void)
{
    static int64_t             at;
    static const est_component number = { .name = "number", .dtype = EST_I64 };

    return est_dataset_generator((est_components){ &number, 1 }, EST_GENERATOR(.next = next_number, .save = save_number,
                                                                               .restore = restore_number, .user = &at));
}

/* The position of the dataset after a few elements, the caller's. */
static est_tensor *position_of(est_dataset *dataset, int64_t after)
{
    est_iterator *rows = est_test_iterate(dataset);
    est_tensor   *position;

    est_free(est_test_elements(rows, dataset, after));
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    return position;
}

static void try_position(est_dataset *dataset, const void *bytes, int64_t n)
{
    est_iterator *rows       = est_test_iterate(dataset);
    est_field     element[4] = { 0 };
    est_tensor   *position;

    assert_int_equal(est_tensor_create_from(EST_U8, EST_SHAPE(n), bytes, &position), EST_OK);
    if (est_iterator_restore(rows, position) == EST_OK) {
        for (int k = 0; k < 3 && est_iterator_next(rows, element) == EST_OK; k++) est_element_clear(element, 4);
    }
    est_iterator_free(rows);
    est_tensor_free(position);
}

static void check_damage(est_test_make make, int64_t after)
{
    est_dataset *dataset  = est_test_finish(make());
    est_tensor  *position = position_of(dataset, after);
    uint8_t     *bytes    = est_tensor_mutable_data(position);
    int64_t      n        = est_tensor_count(position);

    for (int64_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            try_position(dataset, bytes, n);
            bytes[i] ^= (uint8_t)(1 << bit);
        }
        try_position(dataset, bytes, i);
    }
    est_tensor_free(position);
    est_dataset_free(dataset);
}

TEST(damage)
{
    check_damage(make_ragged, 2);
    check_damage(make_deep, 3);
    check_damage(make_ahead, 1);
    check_damage(make_lines, 2);
    check_damage(make_records, 2);
    check_damage(make_generator, 2);
    check_damage(make_rebatch, 2);
    check_damage(make_parts, 1);
}

static int setup(void **state)
{
    char  *bytes;
    size_t size;

    if (source_setup(state) != 0) return -1;
    source_write_text("t-0", "a\n\"b\nc\nd,\"e\nf\"\n");
    source_write_text("t-1", "g\nh\n");
    source_write_records("r-0", "a|b|c|");
    source_write_records("r-1", "d|e|f|");
    bytes = source_read("r-0", &size);
    bytes[size - 1] ^= 1;
    source_write("r-0", bytes, size);
    est_free(bytes);
    est_log_set_level(EST_LOG_ERROR); /* of bad rows there are many here */
    return 0;
}

int main(void)
{
    return est_test_run(setup, source_teardown);
}
