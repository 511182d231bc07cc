/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets as bytes: every stage that can travel yields the same there, positions go to and fro, functions of the
 * program are refused with advice, and damaged bytes are an error. */
#include "data/encode.h"

#include <stdio.h>
#include <string.h>

#include "estoc/input.h"
#include "estoc/log.h"
#include "support/data_test.h"
#include "support/fault_loop.h"
#include "support/source_test.h"
#include "support/test.h"

#define TENSORS_MAX 3

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static void says(const char *text)
{
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

/* --- every stage -------------------------------------------------------------------------------------------------- */

/* Rows of three dtypes; `make` is est_dataset_slices or est_dataset_tensors. */
static est_dataset *of_tensors(est_dataset *(*make)(est_named_tensors tensors))
{
    static const est_str words[]              = { { "a", 1 }, { "", 0 }, { "zero\0byte", 9 }, { "d", 1 } };
    est_tensor          *tensors[TENSORS_MAX] = { NULL };
    est_dataset         *d;

    check(est_tensor_i64(EST_SHAPE(4), (const int64_t[]){ INT64_MIN, 2, 3, INT64_MAX }, &tensors[0]));
    check(est_tensor_create_from(EST_F32, EST_SHAPE(4, 2), (const float[]){ 1, 2, 3, 4, 5, 6, 7, 8 }, &tensors[1]));
    check(est_tensor_create_from(EST_STRING, EST_SHAPE(4), words, &tensors[2]));
    d = make(EST_NAMED_TENSORS({ "n", tensors[0] }, { "x", tensors[1] }, { "word", tensors[2] }));
    for (int i = 0; i < TENSORS_MAX; i++) est_tensor_free(tensors[i]);
    return d;
}

static est_dataset *make_slices(void)
{
    return of_tensors(est_dataset_slices);
}

static est_dataset *make_tensors(void)
{
    return est_dataset_repeat(of_tensors(est_dataset_tensors), 3);
}

static est_dataset *make_empty(void)
{
    est_tensor  *none = NULL;
    est_dataset *d;

    check(est_tensor_create(EST_STRING, EST_SHAPE(0, 3), &none));
    d = est_dataset_slices(EST_NAMED_TENSORS({ "none", none }));
    est_tensor_free(none);
    return d;
}

static est_dataset *make_counts(void)
{
    est_dataset *d = est_dataset_range(INT64_MAX, 1, -(INT64_C(1) << 59));

    d = est_dataset_concatenate(est_dataset_skip(d, 2), est_dataset_take(range(9), 3));
    return est_dataset_take(est_dataset_enumerate(est_dataset_repeat(est_dataset_shard(d, 3, 1), EST_FOREVER), -5), 12);
}

static est_dataset *make_shuffles(void)
{
    est_dataset *d = est_dataset_repeat(est_dataset_shuffle(range(6), 4, UINT64_MAX), 2);

    d = est_dataset_shuffle_once(d, 5, 3);
    return est_dataset_prefetch(est_dataset_shuffle(est_dataset_take(d, EST_FOREVER), 3, 0), 2);
}

static est_dataset *make_pairs(void)
{
    est_dataset *d = est_dataset_cache(est_dataset_zip(make_slices(), range(3)), NULL);

    return est_dataset_unbatch(est_dataset_batch(est_dataset_repeat(d, 2), 2, EST_BATCH(.drop_remainder = true)));
}

static est_dataset *make_cache_file(void)
{
    return est_dataset_repeat(est_dataset_cache(range(4), source_path("cache")), 2);
}

static est_dataset *ragged(void)
{
    est_dataset *d = est_dataset_parse_examples(
        est_dataset_tfrecords(est_dataset_files(source_path("examples")), NULL),
        EST_FEATURE_SPECS({ .name = "words", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED }), 3, NULL);

    return est_dataset_unbatch(d);
}

static est_dataset *make_ragged(void)
{
    return est_dataset_batch(ragged(), 2, EST_BATCH(.rows = EST_ROWS_RAGGED));
}

static est_dataset *make_padded(void)
{
    est_dataset *d = est_dataset_zip(est_dataset_repeat(ragged(), 2), est_dataset_batch(range(40), 3, NULL));

    return est_dataset_batch(
        d, 2,
        EST_BATCH(.rows = EST_ROWS_PADDED, .padded_shapes = EST_SHAPES(EST_SHAPE(-1), EST_SHAPE(5)), .pad_number = -1));
}

static est_dataset *make_examples(void)
{
    const float  nines[2] = { 9, 9.5f };
    est_tensor  *value    = NULL;
    est_dataset *d;

    check(est_tensor_create_from(EST_F32, EST_SHAPE(2), nines, &value));
    d = est_dataset_tfrecords(est_dataset_files(source_path("{examples,damaged}")),
                              EST_INTERLEAVE(.cycle = 2, .block = 2, .workers = 1, .bad_rows_max = 5));
    d = est_dataset_parse_examples(
        d,
        EST_FEATURE_SPECS({ .name = "x", .dtype = EST_F32, .shape = EST_SHAPE(2), .default_value = value },
                          { .name = "words", .dtype = EST_STRING, .rows = EST_ROWS_RAGGED },
                          { .name = "ids", .dtype = EST_I64, .rows = EST_ROWS_PADDED }),
        2, EST_PARSE(.workers = 2));
    est_tensor_free(value);
    return d;
}

static est_dataset *make_csv(void)
{
    est_dataset *d = est_dataset_lines(
        est_dataset_files(source_path("rows-*.csv")),
        EST_LINES(.skip = 1, .quoted = true, .delimiter = ';', .trim = true, .interleave = EST_INTERLEAVE(.cycle = 2)));

    return est_dataset_decode_csv(
        d, EST_CSV_COLUMNS({ "n", EST_I64, .default_text = "-7" }, { "word", EST_STRING, .required = true }),
        EST_CSV(.delimiter = ';', .trim = true, .header = true, .na_value = "?"), 2,
        EST_PARSE(.bad_rows_max = EST_FOREVER));
}

static est_dataset *make_csv_names(void)
{
    return est_dataset_csv(est_dataset_files(source_path("plain")), EST_CSV_COLUMNS({ "b", EST_F64 }),
                           EST_CSV(.no_quotes = true, .field_names = EST_STRINGS("a", "b")), 3,
                           EST_PARSE(.drop_remainder = true));
}

static est_dataset *make_libsvm(void)
{
    return est_dataset_decode_libsvm(est_dataset_lines(est_dataset_files(source_path("svm.gz")), NULL), 2, NULL);
}

static const struct {
    const char   *name;
    est_test_make make;
    int64_t       n;
} chains[] = {
    { "slices", make_slices, 5 },       { "tensors", make_tensors, 4 },
    { "empty", make_empty, 1 },         { "counts", make_counts, 13 },
    { "pairs", make_pairs, 6 },         { "cache_file", make_cache_file, 9 },
    { "ragged", make_ragged, 3 },       { "padded", make_padded, 4 },
    { "examples", make_examples, 4 },   { "csv", make_csv, 4 },
    { "csv_names", make_csv_names, 2 }, { "libsvm", make_libsvm, 3 },
    { "shuffles", make_shuffles, 13 },
};

static void chain_travels(void **state)
{
    const __typeof__(chains[0]) *chain = *state;

    est_test_travels(chain->make, chain->n);
}

/* --- for several workers ------------------------------------------------------------------------------------------ */

static est_dataset *make_files_shard(void)
{
    est_dataset *d = est_dataset_lines(est_dataset_shuffle(est_dataset_files(source_path("rows-*.csv")), 9, 0), NULL);

    return est_dataset_autoshard(est_dataset_batch(est_dataset_cache(d, source_path("shards")), 2, NULL), 2, 1,
                                 EST_AUTO_SHARD_FILE);
}

/* The global batch of rebatch is that before the shards were dealt; decoding must not find another. */
static est_dataset *make_distributed(void)
{
    const est_input_context context = { .n_pipelines = 2, .pipeline = 1, .num_replicas_in_sync = 4 };

    return est_dataset_distribute(est_dataset_batch(range(25), 6, NULL), &context, EST_AUTO_SHARD_DATA);
}

static est_dataset *make_distributed_files(void)
{
    const est_input_context context = { .n_pipelines = 2, .pipeline = 1, .num_replicas_in_sync = 6 };
    est_dataset            *d       = est_dataset_lines(est_dataset_files(source_path("rows-*.csv")), NULL);

    return est_dataset_distribute(est_dataset_batch(d, 5, NULL), &context, EST_AUTO_SHARD_AUTO);
}

TEST(shards)
{
    est_test_travels(make_files_shard, 3);
    est_test_travels(make_distributed, 9);
    est_test_travels(make_distributed_files, 9);
}

/* --- drawn seeds -------------------------------------------------------------------------------------------------- */

static char *elements(est_dataset *dataset)
{
    est_iterator *rows = est_test_iterate(dataset);
    char         *text = est_test_elements(rows, dataset, EST_FOREVER);

    est_iterator_free(rows);
    est_dataset_free(dataset);
    return text;
}

static char *elements_for(const est_wire_writer *bytes, uint64_t reader)
{
    est_dataset *dataset = NULL;

    check(est_dataset_decode_for((est_str){ (const char *)bytes->data, bytes->size }, reader, &dataset));
    return elements(dataset);
}

/* Readers of one number have one order, those of other numbers have others; a given seed is the same for all. */
TEST(readers)
{
    for (uint64_t seed = 0; seed < 2; seed++) {
        est_dataset    *dataset = est_test_finish(est_dataset_shuffle(range(100), 100, seed));
        est_wire_writer bytes   = { 0 };
        char           *all[4];

        check(est_dataset_encode(dataset, &bytes));
        for (uint64_t reader = 0; reader < 3; reader++) all[reader] = elements_for(&bytes, reader);
        all[3] = elements_for(&bytes, 2);
        assert_string_equal(all[3], all[2]);
        assert_int_equal(strcmp(all[1], all[0]) == 0, seed != 0);
        assert_int_equal(strcmp(all[2], all[1]) == 0, seed != 0);
        for (int i = 0; i < 4; i++) est_free(all[i]);
        all[0] = elements(dataset);
        all[1] = elements_for(&bytes, 0);
        assert_string_equal(all[1], all[0]);
        est_free(all[0]);
        est_free(all[1]);
        est_wire_writer_clear(&bytes);
    }
}

/* Decoded everywhere alike, it can be dealt; for readers of their own it cannot. */
TEST(drawn_shards)
{
    est_dataset    *dataset = est_test_finish(est_dataset_enumerate(est_dataset_shuffle(range(10), 10, 0), 0));
    est_dataset    *decoded = NULL;
    est_wire_writer bytes   = { 0 };
    est_str         str;

    check(est_dataset_encode(dataset, &bytes));
    est_dataset_free(dataset);
    str = (est_str){ (const char *)bytes.data, bytes.size };
    check(est_dataset_decode(str, &decoded));
    est_dataset_free(est_test_finish(est_dataset_autoshard(decoded, 2, 0, EST_AUTO_SHARD_DATA)));
    check(est_dataset_decode_for(str, 1, &decoded));
    est_test_refused(est_dataset_autoshard(decoded, 2, 0, EST_AUTO_SHARD_DATA), "give a shuffle a seed");
    est_wire_writer_clear(&bytes);
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

static est_status same(void *user, const est_field *in, est_field *out)
{
    (void)user;
    out[0].values = est_tensor_ref(in[0].values);
    return EST_OK;
}

static est_status all(void *user, const est_field *element, bool *keep)
{
    (void)user;
    (void)element;
    *keep = true;
    return EST_OK;
}

static est_status accept(void *user, const est_field *rows)
{
    (void)user;
    (void)rows;
    return EST_OK;
}

static est_status next_zero(void *state, est_field *element)
{
    (void)state;
    return est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ 0 }, &element[0].values);
}

static est_dataset *inner(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return range(2);
}

/* The dataset, which is taken, cannot be encoded: the error names the stage and says this. */
static void cannot_travel(est_dataset *dataset, const char *stage, const char *advice)
{
    est_dataset    *finished = est_test_finish(est_dataset_batch(dataset, 2, NULL));
    est_wire_writer bytes    = { 0 };

    assert_int_equal(est_dataset_encode(finished, &bytes), EST_UNIMPLEMENTED);
    says(stage);
    says(advice);
    says("est_server_options.functions");
    est_wire_writer_clear(&bytes);
    est_dataset_free(finished);
}

TEST(functions)
{
    static const est_component number = { .name = "number", .dtype = EST_I64 };
    est_dataset               *d;

    cannot_travel(est_dataset_map(range(3), same, NULL), "stage map ", "est_dataset_map_graph takes a graph");
    cannot_travel(est_dataset_filter(range(3), all, NULL), "stage filter ", "est_dataset_filter_graph takes a graph");
    cannot_travel(est_dataset_generator((est_components){ &number, 1 }, EST_GENERATOR(.next = next_zero)),
                  "stage generator ", "another process: make the dataset there");
    cannot_travel(est_dataset_interleave(range(3), inner, EST_INTERLEAVE(.components = { &number, 1 })),
                  "stage interleave ", "another process: make the dataset there");
    d = est_dataset_csv(est_dataset_files(source_path("plain")), EST_CSV_COLUMNS({ "a", EST_I64 }, { "b", EST_F64 }),
                        NULL, 1, EST_PARSE(.check = accept));
    cannot_travel(d, "stage decode_csv has a .check", "est_dataset_filter_graph");
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static void refused_bytes(const char *bytes, size_t size, const char *text)
{
    est_dataset *out = NULL;

    assert_int_not_equal(est_dataset_decode((est_str){ bytes, size }, &out), EST_OK);
    assert_null(out);
    says("decoding a dataset");
    says(text);
}

#define REFUSED(bytes, text) refused_bytes((bytes), sizeof(bytes) - 1, (text))

TEST(refused)
{
    REFUSED("", "version 0");
    REFUSED("\x08\x02", "version 2");
    REFUSED("\x08\x01", "its stages make 0 datasets");
    REFUSED("\x08\x01\x12\x05\x0a\x03map", "a stage \"map\"");
    REFUSED("\x08\x01\x12\x05\x0a\x03zip", "stage zip lacks an input");
    REFUSED("\x08\x01\x12\x0b\x0a\x05range\x12\x02\x18\x01\x12\x0b\x0a\x05range\x12\x02\x18\x01", "make 2 datasets");
    REFUSED("\x08\x01\x12\x07\x0a\x05range", "is not a range");
    REFUSED("\x08\x01\x12\x0d\x0a\x05range\x12\x04\x0a\x02hi", "parameters of a dataset stage");
    REFUSED("\x08\x01\x12\x0e\x0a\x05"
            "files\x12\x05\x82\x01\x02"
            "a\0",
            "the parameters of stage files");
    assert_int_equal(est_dataset_decode((est_str){ "", 0 }, NULL), EST_INVALID_ARGUMENT);
    assert_int_equal(est_dataset_encode(NULL, NULL), EST_INVALID_ARGUMENT);
}

/* Chains longer than the limit are refused where they are written and where they are read. */
TEST(deep)
{
    est_dataset    *d = range(3), *out = NULL;
    est_wire_writer bytes = { 0 };

    for (int i = 0; i < 255; i++) d = est_dataset_skip(d, 0);
    d = est_test_finish(d);
    est_dataset_free(est_test_travel(d));
    check(est_dataset_encode(d, &bytes));
    d = est_test_finish(est_dataset_unbatch(est_dataset_batch(d, 1, NULL)));
    assert_int_equal(est_dataset_encode(d, &bytes), EST_INVALID_ARGUMENT);
    says("more than 256 stages");
    est_wire_writer_reset(&bytes);
    check(est_dataset_encode(d->input[0]->input[0], &bytes));
    est_wire_put_bytes(&bytes, 2, "\x0a\x07unbatch", 9);
    assert_int_equal(est_dataset_decode((est_str){ (const char *)bytes.data, bytes.size }, &out), EST_INVALID_ARGUMENT);
    says("more than 256 stages");
    est_wire_writer_clear(&bytes);
    est_dataset_free(d);
}

/* Every cut and every flipped bit is refused or gives some dataset, which can be encoded again. */
TEST(damaged)
{
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        est_dataset    *dataset = est_test_finish(chains[i].make());
        est_wire_writer bytes = { 0 }, again = { 0 };
        est_dataset    *out;

        check(est_dataset_encode(dataset, &bytes));
        for (size_t bit = 0; bit < 8 * bytes.size; bit++) {
            est_str cut = { (const char *)bytes.data, bit % 8 == 0 ? bit / 8 : bytes.size };

            bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (est_dataset_decode(cut, &out) == EST_OK) {
                check(est_dataset_encode(out, &again));
                est_wire_writer_reset(&again);
                est_dataset_free(out);
            }
            bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        est_wire_writer_clear(&bytes);
        est_wire_writer_clear(&again);
        est_dataset_free(dataset);
    }
}

TEST(allocations)
{
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        est_dataset *dataset = est_test_finish(chains[i].make());

        FAULT_LOOP(f, FAULT_ALLOCATIONS) {
            est_wire_writer bytes = { 0 };
            est_dataset    *out   = NULL;
            est_status      status;

            fault_arm(&f);
            status = est_dataset_encode(dataset, &bytes);
            if (status == EST_OK) status = est_dataset_decode((est_str){ (const char *)bytes.data, bytes.size }, &out);
            fault_check(&f, status);
            est_wire_writer_clear(&bytes);
            est_dataset_free(out);
        }
        est_dataset_free(dataset);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void write_examples(void)
{
    est_tfrecord_writer *writer  = NULL;
    est_example         *example = NULL;
    est_str              words[] = { { "a", 1 }, { "bc", 2 }, { "d", 1 } }, bytes;

    check(est_tfrecord_create(source_path("examples"), NULL, &writer));
    check(est_example_create(&example));
    for (int i = 0; i < 4; i++) {
        if (i != 2) est_example_set_f32s(example, "x", (const float[]){ (float)i, 0.5f }, 2);
        est_example_set_bytes(example, "words", words, (size_t)i);
        est_example_set_i64s(example, "ids", (const int64_t[]){ i, i, i }, (size_t)(3 - i));
        check(est_example_serialize(example, &bytes));
        check(est_tfrecord_write(writer, bytes.data, bytes.size));
        est_example_reset(example);
    }
    check(est_tfrecord_finish(writer));
    est_example_free(example);
}

static int setup(void **state)
{
    est_log_set_level(EST_LOG_ERROR); /* bad rows are warned about */
    if (source_setup(state) != 0) return 1;
    write_examples();
    source_write_text("damaged", "not a record of a TFRecord file");
    source_write_text("rows-0.csv", "word;n\n\"a;b\";1\nc; ?\nd;none\n");
    source_write_text("rows-1.csv", "n;word\n4;e\n5;\n6 ;f\n");
    source_write_text("plain", "1,2\n3,4.5\n5,6\n7,8\n");
    source_write_text("svm.gz", "1 1:2 3:4\n-1\n# none\n1 7:0.5\n");
    return 0;
}

int main(void)
{
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        est_test_row(chains[i].name, chain_travels, &chains[i]);
    }
    return est_test_run(setup, source_teardown);
}
