/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as functions of stages: results, any number of workers, tables, random numbers by the element, positions,
 * bytes, and graphs that cannot be one. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/encode.h"
#include "estoc/input.h"
#include "estoc/log.h"
#include "estoc/ops.h"
#include "support/data_test.h"
#include "support/source_test.h"
#include "support/test.h"

static void check(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_graph *new_graph(uint64_t seed)
{
    est_graph *graph = NULL;

    if (est_graph_create(seed, &graph) != EST_OK) fail_msg("%s", est_error_message());
    return graph;
}

static est_dataset *range(int64_t n)
{
    return est_dataset_range(0, n, 1);
}

/* --- mapping ------------------------------------------------------------------------------------------------------ */

/* "value" to its square, itself, and [value, 1]; more of the graph is not needed. The graph is freed: the stage has a
 * copy. */
static est_dataset *squares(est_dataset *numbers, const est_map_graph_options *options)
{
    est_graph   *graph = new_graph(1);
    est_node     x     = est_placeholder(graph, "x", EST_I64, EST_SHAPE_SCALAR);
    est_node     other = est_placeholder(graph, "other", EST_F32, EST_SHAPE_SCALAR);
    est_node     pair  = est_pack(EST_NODES(x, est_scalar(graph, EST_I64, 1)), 0);
    est_dataset *d;

    (void)est_exp(other);
    d = est_dataset_map_graph(numbers, EST_NAMED_NODES({ "value", x }),
                              EST_NAMED_NODES({ "square", est_mul(x, x) }, { "x", x }, { "pair", pair }), options);
    est_graph_free(graph);
    return d;
}

TEST(map)
{
    est_dataset *d = est_test_finish(squares(range(3), NULL));

    assert_int_equal(est_dataset_components(d), 3);
    assert_string_equal(est_dataset_component(d, 2)->name, "pair");
    assert_int_equal(est_dataset_component(d, 2)->shape.rank, 1);
    assert_int_equal(est_dataset_component(d, 2)->shape.dim[0], 2);
    est_dataset_free(d);
    for (int workers = 0; workers <= 4; workers++) {
        est_test_yields(squares(range(4), EST_MAP_GRAPH(.workers = workers)),
                        "0 | 0 | [0 1] ; 1 | 1 | [1 1] ; 4 | 2 | [2 1] ; 9 | 3 | [3 1]");
    }
    est_test_yields(squares(range(0), EST_MAP_GRAPH(.workers = EST_AUTO)), "");
}

/* Batches of another size, and components that no input names. */
TEST(shapes)
{
    est_graph   *graph = new_graph(1);
    est_node     x     = est_placeholder(graph, "x", EST_I64, EST_SHAPE(-1));
    est_dataset *d     = est_dataset_batch(est_dataset_enumerate(range(5), 7), 2, NULL);

    d = est_dataset_map_graph(d, EST_NAMED_NODES({ "index", x }), EST_NAMED_NODES({ "sum", est_sum(x) }), NULL);
    est_graph_free(graph);
    est_test_yields(d, "15 ; 19 ; 11");
}

/* Every pass of a repeat runs the plans of the first; several iterators at a time have their own. */
TEST(passes)
{
    est_dataset  *d = est_test_finish(est_dataset_repeat(squares(range(2), EST_MAP_GRAPH(.workers = 2)), 3));
    est_iterator *a = est_test_iterate(d), *b = est_test_iterate(d);
    char         *first = est_test_elements(a, d, 5), *second = est_test_elements(b, d, 5);

    assert_string_equal(first, second);
    assert_string_equal(first, "0 | 0 | [0 1] ; 1 | 1 | [1 1] ; 0 | 0 | [0 1] ; 1 | 1 | [1 1] ; 0 | 0 | [0 1]");
    est_free(first);
    est_free(second);
    est_iterator_free(a);
    est_iterator_free(b);
    est_dataset_free(d);
}

/* --- filtering ---------------------------------------------------------------------------------------------------- */

/* Numbers that are at least `low`. */
static est_dataset *from(est_dataset *numbers, const char *component, double low, const est_map_graph_options *options)
{
    est_graph   *graph = new_graph(1);
    est_node     x     = est_placeholder(graph, "x", EST_I64, EST_SHAPE_SCALAR);
    est_node     keep  = est_greater_equal(x, est_scalar(graph, EST_I64, low));
    est_dataset *d     = est_dataset_filter_graph(numbers, EST_NAMED_NODES({ component, x }), keep, options);

    est_graph_free(graph);
    return d;
}

/* Threads of this process whose names begin with this. */
static int count_threads(const char *begin)
{
    DIR           *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int            n = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char  path[300], name[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        file = fopen(path, "re");
        if (file == NULL) continue;
        if (fgets(name, sizeof name, file) != NULL) n += strncmp(name, begin, strlen(begin)) == 0;
        fclose(file);
    }
    closedir(tasks);
    return n;
}

/* Tools show which stage a thread works for. */
TEST(thread_names)
{
    est_dataset  *d    = est_test_finish(from(range(5), "value", 3, EST_MAP_GRAPH(.workers = 2)));
    est_iterator *it   = est_test_iterate(d);
    char         *text = est_test_elements(it, d, 1);

    assert_int_equal(count_threads("est-filter"), 2);
    assert_int_equal(count_threads("est-map"), 0);
    est_free(text);
    est_iterator_free(it);
    est_dataset_free(d);
}

TEST(filter)
{
    for (int workers = 0; workers <= 3; workers++) {
        est_test_yields(from(range(5), "value", 3, EST_MAP_GRAPH(.workers = workers)), "3 ; 4");
        est_test_yields(from(est_dataset_enumerate(range(4), 5), "index", 7, EST_MAP_GRAPH(.workers = workers)),
                        "7 | 2 ; 8 | 3");
        est_test_yields(from(range(40), "value", 40, EST_MAP_GRAPH(.workers = workers)), "");
    }
}

/* Components that are no input may be ragged. */
TEST(filter_ragged)
{
    est_dataset *d = est_dataset_decode_libsvm(est_dataset_lines(est_dataset_files(source_path("svm")), NULL), 1, NULL);
    est_graph   *graph = new_graph(1);
    est_node     label = est_placeholder(graph, "label", EST_F32, EST_SHAPE(-1));
    est_node     keep  = est_greater(est_sum(label), est_scalar(graph, EST_F32, 0));

    d = est_dataset_filter_graph(d, EST_NAMED_NODES({ "label", label }), keep, NULL);
    est_graph_free(graph);
    est_test_yields(d, "[1] | [2]/[0 1] | [0.5]/[0 1] ; [3] | [7 9]/[0 2] | [1 2]/[0 2]");
}

/* --- ragged components -------------------------------------------------------------------------------------------- */

/* Batches of two rows: how many values each has, the numbers whose value is above `least`, and the values as they are.
 */
static est_dataset *above(double least, int workers)
{
    est_dataset *d = est_dataset_decode_libsvm(est_dataset_lines(est_dataset_files(source_path("svm")), NULL), 2, NULL);
    est_graph   *graph    = new_graph(1);
    est_ragged_node index = { est_placeholder(graph, "index", EST_I64, EST_SHAPE(-1)),
                              est_placeholder(graph, "index_splits", EST_I64, EST_SHAPE(-1)) };
    est_ragged_node value = { est_placeholder(graph, "value", EST_F32, EST_SHAPE(-1)),
                              est_placeholder(graph, "value_splits", EST_I64, EST_SHAPE(-1)) };
    est_node        kept  = est_greater(value.values, est_scalar(graph, EST_F32, least));

    d = est_dataset_map_graph(
        d, (est_named_nodes){ 0 }, EST_NAMED_NODES({ "lengths", est_ragged_lengths(index) }),
        EST_MAP_GRAPH(.workers = workers, .ragged_inputs = EST_NAMED_RAGGEDS({ "index", index }, { "value", value }),
                      .ragged_outputs = EST_NAMED_RAGGEDS({ "kept", est_ragged_keep(index, kept) },
                                                          { "value", value })));
    est_graph_free(graph);
    return d;
}

static est_dataset *through_bytes(est_dataset *d)
{
    est_dataset    *dataset = est_test_finish(d), *out = NULL;
    est_wire_writer bytes = { 0 };

    check(est_dataset_encode(dataset, &bytes));
    check(est_dataset_decode((est_str){ (const char *)bytes.data, bytes.size }, &out));
    est_wire_writer_clear(&bytes);
    est_dataset_free(dataset);
    return out;
}

#define ABOVE                                                                                                          \
    "[1 1] | [3]/[0 0 1] | [0.5 1]/[0 1 2] ; "                                                                         \
    "[2] | [7 9]/[0 2] | [1 2]/[0 2]"

TEST(ragged)
{
    est_dataset *d = est_test_finish(above(0.7, 0));

    assert_false(est_dataset_component(d, 0)->ragged);
    assert_true(est_dataset_component(d, 1)->ragged);
    est_dataset_free(d);
    est_test_yields(above(0.7, 0), ABOVE);
    est_test_yields(above(0.7, 2), ABOVE);
    est_test_yields(through_bytes(above(0.7, 0)), ABOVE);
}

/* Examples that a graph parses: "n" is 5; nothing; 6 and 7. */
TEST(ragged_examples)
{
    static const est_feature_spec specs[]   = { { .name = "n", .dtype = EST_I64, .rows = EST_ROWS_RAGGED } };
    static const est_str          records[] = { { "\x0a\x0c\x0a\x0a\x0a\x01n\x12\x05\x1a\x03\x0a\x01\x05", 14 },
                                                { "", 0 },
                                                { "\x0a\x0d\x0a\x0b\x0a\x01n\x12\x06\x1a\x04\x0a\x02\x06\x07", 15 } };
    est_graph                    *graph     = new_graph(1);
    est_node                      x         = est_placeholder(graph, "x", EST_STRING, EST_SHAPE(-1));
    est_tensor                   *rows      = NULL;
    est_parsed                    parsed;
    est_dataset                  *d;

    check(est_tensor_create_from(EST_STRING, EST_SHAPE(3), records, &rows));
    d = est_dataset_batch(est_dataset_slices(EST_NAMED_TENSORS({ "record", rows })), 2, NULL);
    est_parse_examples(x, (est_feature_specs){ specs, 1 }, &parsed);
    d = est_dataset_map_graph(
        d, EST_NAMED_NODES({ "record", x }), (est_named_nodes){ 0 },
        EST_MAP_GRAPH(.ragged_outputs = EST_NAMED_RAGGEDS({ "n", { parsed.values, parsed.splits } })));
    est_graph_free(graph);
    est_tensor_free(rows);
    est_test_yields(d, "[5]/[0 1 1] ; [6 7]/[0 2]");
}

static void refused_ragged(est_named_raggeds inputs, est_named_raggeds outputs, const char *text)
{
    est_dataset *d = est_dataset_decode_libsvm(est_dataset_lines(est_dataset_files(source_path("svm")), NULL), 2, NULL);

    est_test_refused(est_dataset_map_graph(d, (est_named_nodes){ 0 }, (est_named_nodes){ 0 },
                                           EST_MAP_GRAPH(.ragged_inputs = inputs, .ragged_outputs = outputs)),
                     text);
}

TEST(ragged_refused)
{
    est_graph      *graph  = new_graph(1);
    est_node        values = est_placeholder(graph, "values", EST_I64, EST_SHAPE(-1));
    est_node        splits = est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1));
    est_node        label  = est_placeholder(graph, "label", EST_F32, EST_SHAPE(-1));
    est_node        zero   = est_scalar(graph, EST_I64, 0);
    est_ragged_node index = { values, splits }, wrong = { values, label }, scalar = { zero, splits };
    est_ragged_node swapped = { values, values };
    est_dataset    *d;

    refused_ragged(EST_NAMED_RAGGEDS({ "index", wrong }), EST_NAMED_RAGGEDS({ "y", wrong }),
                   "splits of index are float");
    refused_ragged(EST_NAMED_RAGGEDS({ "label", index }), EST_NAMED_RAGGEDS({ "y", index }), "label is no ragged");
    refused_ragged(EST_NAMED_RAGGEDS({ "index", index }), EST_NAMED_RAGGEDS({ "y", scalar }), "of y are a scalar");
    refused_ragged((est_named_raggeds){ NULL, 1 }, EST_NAMED_RAGGEDS({ "y", index }), "is NULL");
    est_test_refused(est_dataset_filter_graph(range(2), (est_named_nodes){ 0 }, est_equal(zero, zero),
                                              EST_MAP_GRAPH(.ragged_outputs = EST_NAMED_RAGGEDS({ "y", index }))),
                     "a filter has no ragged_outputs");
    d = est_dataset_decode_libsvm(est_dataset_lines(est_dataset_files(source_path("svm")), NULL), 2, NULL);
    d = est_dataset_map_graph(d, (est_named_nodes){ 0 }, (est_named_nodes){ 0 },
                              EST_MAP_GRAPH(.ragged_inputs  = EST_NAMED_RAGGEDS({ "index", index }),
                                            .ragged_outputs = EST_NAMED_RAGGEDS({ "y", swapped })));
    est_test_breaks(d, EST_INVALID_ARGUMENT, "output y: ");
    est_graph_free(graph);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* Words to ids, by a file and by a list with two buckets behind it. */
static est_dataset *ids(const est_map_graph_options *options)
{
    static const est_str words[] = { { "dog", 3 }, { "cat", 3 } };
    est_graph           *graph   = new_graph(1);
    est_node             word    = est_placeholder(graph, "word", EST_STRING, EST_SHAPE_SCALAR);
    est_tensor          *list    = NULL;
    est_node             file, listed;
    est_dataset         *d = est_dataset_lines(est_dataset_files(source_path("words.txt")), NULL);

    check(est_tensor_create_from(EST_STRING, EST_SHAPE(2), words, &list));
    file   = est_vocabulary_file(graph, source_path("vocabulary.txt"), EST_STRING, NULL);
    listed = est_vocabulary_list(graph, list, EST_TABLE(.num_oov_buckets = 2));
    d      = est_dataset_map_graph(d, EST_NAMED_NODES({ "line", word }),
                                   EST_NAMED_NODES({ "id", est_lookup(file, word) }, { "other", est_lookup(listed, word) },
                                                   { "back", est_lookup_entry(file, est_lookup(file, word), "none") }),
                                   options);
    est_tensor_free(list);
    est_graph_free(graph);
    return d;
}

#define IDS "0 | 1 | \"cat\" ; 1 | 0 | \"dog\" ; -1 | 2 | \"none\" ; 0 | 1 | \"cat\""

static est_dataset *make_ids(void)
{
    return ids(EST_MAP_GRAPH(.workers = 2));
}

TEST(tables)
{
    est_dataset *d, *decoded;

    for (int workers = 0; workers <= 2; workers++) est_test_yields(ids(EST_MAP_GRAPH(.workers = workers)), IDS);
    est_test_travels(make_ids, 5);
    d       = est_test_finish(make_ids());
    decoded = est_test_travel(d);
    est_dataset_free(d);
    est_test_yields(decoded, IDS);
}

/* The file is read when the first iterator is created, and not again. */
TEST(tables_once)
{
    est_dataset  *d    = est_test_finish(est_dataset_repeat(ids(NULL), 2));
    est_iterator *rows = NULL;
    char         *text;

    unlink(source_path("vocabulary.txt"));
    assert_int_equal(est_iterator_create(d, &rows), EST_NOT_FOUND);
    assert_non_null(strstr(est_error_message(), "vocabulary.txt"));
    source_write_text("vocabulary.txt", "cat\ndog\n");
    check(est_iterator_create(d, &rows));
    unlink(source_path("vocabulary.txt"));
    text = est_test_elements(rows, d, EST_FOREVER);
    assert_string_equal(text, IDS " ; " IDS);
    est_free(text);
    est_iterator_free(rows);
    est_dataset_free(d);
    source_write_text("vocabulary.txt", "cat\ndog\n");
}

/* --- random numbers ----------------------------------------------------------------------------------------------- */

/* Adds a random number to each of 0 .. 5, in two passes. */
static est_dataset *noisy_by(uint64_t graph_seed, uint64_t seed, int workers)
{
    est_graph   *graph = new_graph(graph_seed);
    est_node     x     = est_placeholder(graph, "x", EST_I64, EST_SHAPE_SCALAR);
    est_node     low = est_scalar(graph, EST_I64, 0), high = est_scalar(graph, EST_I64, 1e9);
    est_node     none  = est_const_i64(graph, EST_SHAPE(0), NULL);
    est_node     noise = est_random_uniform_int(none, low, high, seed);
    est_dataset *d     = est_dataset_map_graph(range(6), EST_NAMED_NODES({ "value", x }),
                                               EST_NAMED_NODES({ "noise", est_add(x, noise) }),
                                               EST_MAP_GRAPH(.workers = workers));

    est_graph_free(graph);
    return est_dataset_repeat(d, 2);
}

static est_dataset *noisy(uint64_t graph_seed, int workers)
{
    return noisy_by(graph_seed, 0, workers);
}

static est_dataset *make_noisy(void)
{
    return noisy(7, 3);
}

static char *all_of(est_dataset *dataset)
{
    est_dataset  *finished = est_test_finish(dataset);
    est_iterator *rows     = est_test_iterate(finished);
    char         *text     = est_test_elements(rows, finished, EST_FOREVER);

    est_iterator_free(rows);
    est_dataset_free(finished);
    return text;
}

/* Drawn by the number of the element and of the pass, whatever the workers; another seed draws others. */
TEST(random)
{
    char *alone = all_of(noisy(7, 0)), *three = all_of(noisy(7, 3)), *other = all_of(noisy(8, 0));
    long  numbers[12];
    char *at = alone;

    assert_string_equal(alone, three);
    assert_string_not_equal(alone, other);
    for (int i = 0; i < 12; i++) {
        numbers[i] = strtol(at, &at, 10) - i % 6;
        at += strspn(at, " ;");
        for (int k = 0; k < i; k++) assert_int_not_equal(numbers[i], numbers[k]);
    }
    est_free(alone);
    est_free(three);
    est_free(other);
    est_test_positions(make_noisy, 12);
    est_test_travels(make_noisy, 12);
}

/* Without a seed of the graph one is drawn once a dataset; it travels, and a reader of a number has its own. */
TEST(random_drawn)
{
    est_dataset    *d     = est_test_finish(noisy(0, 0)), *decoded[2];
    est_wire_writer bytes = { 0 };
    char           *text[4];

    check(est_dataset_encode(d, &bytes));
    for (uint64_t reader = 0; reader < 2; reader++) {
        check(est_dataset_decode_for((est_str){ (const char *)bytes.data, bytes.size }, reader, &decoded[reader]));
        text[reader] = all_of(decoded[reader]);
    }
    est_wire_writer_clear(&bytes);
    text[2] = all_of(noisy(0, 0));
    text[3] = all_of(d);
    assert_string_equal(text[0], text[3]);
    assert_string_not_equal(text[1], text[3]);
    assert_string_not_equal(text[2], text[3]);
    for (int i = 0; i < 4; i++) est_free(text[i]);
}

/* Operations with a seed of their own draw the same in every process, also beside one without. */
TEST(random_with_own_seeds)
{
    char *text[3];
    float values[2][2];

    for (int i = 0; i < 2; i++) text[i] = all_of(noisy_by(0, 5, 2 * i));
    text[2] = all_of(noisy_by(0, 6, 0));
    assert_string_equal(text[0], text[1]);
    assert_string_not_equal(text[0], text[2]);
    for (int i = 0; i < 2; i++) {
        est_graph    *graph = new_graph(0);
        est_node      none  = est_const_i64(graph, EST_SHAPE(0), NULL);
        est_node      own = est_random_uniform(none, EST_F32, 5), drawn = est_random_uniform(none, EST_F32, 0);
        est_dataset  *both = est_test_finish(est_dataset_map_graph(
             range(6), (est_named_nodes){ 0 }, EST_NAMED_NODES({ "own", own }, { "drawn", drawn }), NULL));
        est_iterator *rows = est_test_iterate(both);
        est_field     e[2] = { { 0 } };

        check(est_iterator_next(rows, e));
        values[i][0] = *(const float *)est_tensor_data(e[0].values);
        values[i][1] = *(const float *)est_tensor_data(e[1].values);
        est_element_clear(e, 2);
        est_iterator_free(rows);
        est_dataset_free(both);
        est_graph_free(graph);
    }
    assert_true(values[0][0] == values[1][0] && values[0][1] != values[1][1]);
    for (int i = 0; i < 3; i++) est_free(text[i]);
}

/* A filter that drops by chance: each process has other elements, so that they cannot be dealt. */
TEST(random_filter)
{
    for (uint64_t seed = 0; seed < 2; seed++) {
        est_graph   *graph  = new_graph(seed);
        est_node     chance = est_random_uniform(est_const_i64(graph, EST_SHAPE(0), NULL), EST_F32, 0);
        est_node     keep   = est_less(chance, est_scalar(graph, EST_F32, 0.5));
        est_dataset *d      = est_dataset_filter_graph(range(200), (est_named_nodes){ 0 }, keep, NULL);

        est_graph_free(graph);
        d = est_dataset_autoshard(est_dataset_enumerate(d, 0), 2, 0, EST_AUTO_SHARD_DATA);
        if (seed == 0) {
            est_test_refused(d, "stage filter_graph has a different order");
        } else {
            char *text = all_of(d);

            assert_in_range(strlen(text), 200, 800); /* about 50 of the 200 */
            est_free(text);
        }
    }
}

/* --- positions and bytes ------------------------------------------------------------------------------------------ */

static est_dataset *make_chain(void)
{
    est_dataset *d = est_dataset_shuffle(from(range(30), "value", 4, EST_MAP_GRAPH(.workers = 2)), 5, 3);

    return est_dataset_batch(squares(d, EST_MAP_GRAPH(.workers = 2, .bad_rows_max = 3)), 4, NULL);
}

static est_dataset *make_alone(void)
{
    return squares(from(range(5), "value", 2, NULL), NULL);
}

static est_dataset *make_shard(void)
{
    est_dataset *d = est_dataset_batch(squares(range(20), NULL), 3, NULL);

    return est_dataset_autoshard(d, 2, 1, EST_AUTO_SHARD_DATA);
}

TEST(positions)
{
    est_test_positions(make_chain, 7);
    est_test_positions(make_alone, 4);
    est_test_travels(make_chain, 7);
    est_test_travels(make_alone, 4);
    est_test_travels(make_shard, 5);
}

static est_node number, positive, id; /* of a graph that outlives the datasets of the test below */

static est_dataset *make_of_nodes(void)
{
    est_named_nodes inputs = EST_NAMED_NODES({ "value", number });

    return est_dataset_map_graph(est_dataset_filter_graph(range(5), inputs, positive, NULL), inputs,
                                 EST_NAMED_NODES({ "id", id }, { "n", number }), NULL);
}

TEST(allocations)
{
    est_graph  *graph = new_graph(1);
    est_tensor *keys  = NULL;

    check(est_tensor_i64(EST_SHAPE(2), (const int64_t[]){ 3, 1 }, &keys));
    number   = est_placeholder(graph, "number", EST_I64, EST_SHAPE_SCALAR);
    positive = est_greater(number, est_neg(number));
    id       = est_lookup(est_vocabulary_list(graph, keys, NULL), number);
    est_test_yields(make_of_nodes(), "1 | 1 ; -1 | 2 ; 0 | 3 ; -1 | 4");
    est_test_allocations(make_of_nodes, 4);
    est_tensor_free(keys);
    est_graph_free(graph);
}

/* Cuts and flipped bits of a graph in its bytes are refused or give some dataset. */
TEST(damaged)
{
    est_dataset    *dataset = est_test_finish(make_ids()), *out;
    est_wire_writer bytes   = { 0 };

    check(est_dataset_encode(dataset, &bytes));
    for (size_t bit = 0; bit < 8 * bytes.size; bit++) {
        est_str cut = { (const char *)bytes.data, bit % 8 == 0 ? bit / 8 : bytes.size };

        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (est_dataset_decode(cut, &out) == EST_OK) est_dataset_free(out);
        bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    est_wire_writer_clear(&bytes);
    est_dataset_free(dataset);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Numbers up to 2; others fail. */
static est_dataset *up_to_2(int64_t bad_rows_max)
{
    est_graph   *graph = new_graph(1);
    est_node     x     = est_placeholder(graph, "x", EST_I64, EST_SHAPE_SCALAR);
    est_dataset *d = est_dataset_map_graph(est_dataset_concatenate(range(5), range(2)), EST_NAMED_NODES({ "value", x }),
                                           EST_NAMED_NODES({ "x", est_check_range(x, 0, 2, "too large") }),
                                           EST_MAP_GRAPH(.workers = 2, .bad_rows_max = bad_rows_max));

    est_graph_free(graph);
    return d;
}

TEST(bad_rows)
{
    est_test_yields(up_to_2(2), "0 ; 1 ; 2 ; 0 ; 1");
    est_test_breaks(up_to_2(1), EST_INVALID_ARGUMENT, "more than 1 bad rows");
    est_test_breaks(up_to_2(0), EST_INVALID_ARGUMENT, "stage map_graph: ");
}

/* A map of "value" of `d`, which is taken, by this input and output; refused with this text. */
static void refused(est_dataset *d, est_named_nodes inputs, est_named_nodes outputs, const char *text)
{
    est_test_refused(est_dataset_map_graph(d, inputs, outputs, NULL), text);
}

TEST(refused)
{
    est_graph *graph = new_graph(1), *second = new_graph(1);
    est_node   x = est_placeholder(graph, "x", EST_I64, EST_SHAPE_SCALAR), y = est_neg(x);
    est_node   wide = est_placeholder(graph, "wide", EST_I64, EST_SHAPE(2));
    est_node   real = est_placeholder(graph, "real", EST_F32, EST_SHAPE_SCALAR);
    est_node   v    = est_variable(graph, "v", EST_I64, EST_SHAPE_SCALAR);
    est_node   far  = est_placeholder(second, "far", EST_I64, EST_SHAPE_SCALAR);

#define IN(node) EST_NAMED_NODES({ "value", node })
    refused(range(2), IN(x), (est_named_nodes){ 0 }, "at least one output");
    refused(range(2), IN(x), EST_NAMED_NODES({ "y", EST_NO_NODE }), "at least one output");
    refused(range(2), IN(x), EST_NAMED_NODES({ NULL, y }), "output 0 has no name");
    refused(range(2), IN(x), EST_NAMED_NODES({ "y", y }, { "y", x }), "two components are called y");
    refused(range(2), IN(y), EST_NAMED_NODES({ "y", y }), "which is no placeholder");
    refused(range(2), IN(far), EST_NAMED_NODES({ "y", y }), "input value is no node of the graph");
    refused(range(2), EST_NAMED_NODES({ "age", x }), EST_NAMED_NODES({ "y", y }), "input age: the dataset has no");
    refused(range(2), IN(wide), EST_NAMED_NODES({ "y", wide }), "input value is int64 [], and the placeholder 'wide'");
    refused(range(2), IN(real), EST_NAMED_NODES({ "y", real }), "and the placeholder 'real' float32 []");
    refused(range(2), IN(x), EST_NAMED_NODES({ "y", est_cast(real, EST_I64) }), "'real'");
    refused(range(2), IN(x), EST_NAMED_NODES({ "y", est_add(x, est_read_variable(v)) }),
            "and a dataset has no variables: make its value a constant");
    refused(range(2), (est_named_nodes){ NULL, 1 }, EST_NAMED_NODES({ "y", y }), "a list of inputs or outputs is NULL");
    est_test_refused(est_dataset_filter_graph(range(2), IN(x), y, NULL), "keep is int64 []; expected a boolean scalar");
    est_test_refused(est_dataset_filter_graph(range(2), IN(x), est_greater(wide, x), NULL), "'wide'");
    est_test_refused(est_dataset_map_graph(range(2), IN(x), EST_NAMED_NODES({ "y", y }), EST_MAP_GRAPH(.workers = -7)),
                     "workers");
    est_test_refused(
        est_dataset_map_graph(range(2), IN(x), EST_NAMED_NODES({ "y", y }), EST_MAP_GRAPH(.bad_rows_max = -7)),
        "bad_rows_max is -7");
    refused(est_dataset_batch(est_dataset_unbatch(est_dataset_decode_libsvm(
                                  est_dataset_lines(est_dataset_files(source_path("svm")), NULL), 2, NULL)),
                              2, EST_BATCH(.rows = EST_ROWS_RAGGED)),
            EST_NAMED_NODES({ "index", wide }), EST_NAMED_NODES({ "y", wide }), "input index is a ragged component");
    (void)est_add(x, real);
    refused(range(2), IN(x), EST_NAMED_NODES({ "y", y }), "Add");
    est_graph_free(graph);
    est_graph_free(second);
}

static int setup(void **state)
{
    est_log_set_level(EST_LOG_ERROR); /* bad rows are warned about */
    if (source_setup(state) != 0) return 1;
    source_write_text("vocabulary.txt", "cat\ndog\n");
    source_write_text("words.txt", "cat\ndog\nfish\ncat\n");
    source_write_text("svm", "1 2:0.5\n-1 3:1\n3 7:1 9:2\n");
    return 0;
}

int main(void)
{
    return est_test_run(setup, source_teardown);
}
