/* SPDX-License-Identifier: Apache-2.0
 *
 * What all datasets share: errors down the chain, components, elements as bytes, positions; and the two sources that
 * need nothing else, slices and range. */
#include <string.h>

#include "data/stage.h"
#include "support/data_test.h"
#include "support/fault_loop.h"
#include "support/test.h"

static est_tensor *i64s(est_shape shape, const int64_t *data)
{
    est_tensor *tensor = NULL;

    assert_int_equal(est_tensor_i64(shape, data, &tensor), EST_OK);
    return tensor;
}

static est_dataset *finish(est_dataset *dataset)
{
    est_dataset *out = NULL;

    assert_int_equal(est_dataset_finish(dataset, &out), EST_OK);
    return out;
}

static void fails_with(est_dataset *dataset, const char *text)
{
    est_dataset *out = NULL;

    assert_int_equal(est_dataset_finish(dataset, &out), EST_INVALID_ARGUMENT);
    assert_null(out);
    if (strstr(est_error_message(), text) == NULL) fail_msg("\"%s\" is not in \"%s\"", text, est_error_message());
}

/* Checks that the iterator yields exactly these numbers in component 0, then its end, twice. */
static void yields(est_iterator *rows, const int64_t *want, int n)
{
    est_field element[4] = { 0 };

    for (int i = 0; i < n; i++) {
        assert_int_equal(est_iterator_next(rows, element), EST_OK);
        assert_int_equal(*(const int64_t *)est_tensor_data(element[0].values), want[i]);
        est_element_clear(element, 4);
    }
    assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
    assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
}

static void range_yields(int64_t start, int64_t stop, int64_t step, const int64_t *want, int n)
{
    est_dataset  *dataset = finish(est_dataset_range(start, stop, step));
    est_iterator *rows    = NULL;

    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    est_dataset_free(dataset); /* the iterator keeps it */
    yields(rows, want, n);
    est_iterator_free(rows);
}

TEST(range)
{
    range_yields(0, 3, 1, (int64_t[]){ 0, 1, 2 }, 3);
    range_yields(2, 9, 3, (int64_t[]){ 2, 5, 8 }, 3);
    range_yields(2, 8, 3, (int64_t[]){ 2, 5 }, 2);
    range_yields(3, 0, -2, (int64_t[]){ 3, 1 }, 2);
    range_yields(3, 0, 1, NULL, 0);
    range_yields(5, 5, 1, NULL, 0);
    range_yields(INT64_MAX - 1, INT64_MAX, 4, (int64_t[]){ INT64_MAX - 1 }, 1);
    fails_with(est_dataset_range(0, 3, 0), "is not a range");
    fails_with(est_dataset_range(INT64_MIN, INT64_MAX, 1), "is not a range");
}

static void count(void *user)
{
    ++*(int *)user;
}

/* Until the last reference is dropped, that of an iterator too. */
TEST(kept_objects)
{
    est_dataset  *range = finish(est_dataset_range(0, 2, 1));
    est_iterator *rows  = NULL;
    int           n     = 0;

    assert_int_equal(est_dataset_keep(range, count, &n), EST_OK);
    assert_int_equal(est_dataset_keep(range, count, &n), EST_OK);
    range = finish(est_dataset_repeat(range, 2));
    assert_int_equal(est_iterator_create(range, &rows), EST_OK);
    est_dataset_free(range);
    yields(rows, (int64_t[]){ 0, 1, 0, 1 }, 4);
    assert_int_equal(n, 0);
    est_iterator_free(rows);
    assert_int_equal(n, 2);
}

TEST(a_failed_dataset_keeps_nothing)
{
    est_dataset *failed = est_dataset_range(0, 3, 0);
    int          n      = 0;

    assert_int_equal(est_dataset_keep(failed, count, &n), EST_INVALID_ARGUMENT);
    est_dataset_free(failed);
    assert_int_equal(n, 0);
}

/* Two chains over one dataset; each takes the reference it is given. */
TEST(shared)
{
    est_dataset  *range = finish(est_dataset_range(0, 4, 1));
    est_dataset  *first = finish(est_dataset_take(est_dataset_ref(range), 2));
    est_dataset  *rest  = finish(est_dataset_skip(est_dataset_ref(range), 3));
    est_iterator *rows  = NULL;

    est_dataset_free(range);
    assert_int_equal(est_iterator_create(first, &rows), EST_OK);
    yields(rows, (int64_t[]){ 0, 1 }, 2);
    est_iterator_free(rows);
    assert_int_equal(est_iterator_create(rest, &rows), EST_OK);
    yields(rows, (int64_t[]){ 3 }, 1);
    est_iterator_free(rows);
    est_dataset_free(first);
    est_dataset_free(rest);
    assert_null(est_dataset_ref(NULL));
}

TEST(slices)
{
    est_tensor   *a = i64s(EST_SHAPE(3), (int64_t[]){ 7, 8, 9 });
    est_tensor   *b = i64s(EST_SHAPE(3, 2), (int64_t[]){ 1, 2, 3, 4, 5, 6 });
    est_dataset  *dataset;
    est_iterator *rows       = NULL;
    est_field     element[2] = { 0 };

    dataset = finish(est_dataset_slices(EST_NAMED_TENSORS({ "a", a }, { "b", b })));
    est_tensor_free(a);
    est_tensor_free(b);
    assert_int_equal(est_dataset_components(dataset), 2);
    assert_string_equal(est_dataset_component(dataset, 1)->name, "b");
    assert_true(est_shape_equal(&est_dataset_component(dataset, 0)->shape, &EST_SHAPE_SCALAR));
    assert_true(est_shape_equal(&est_dataset_component(dataset, 1)->shape, &EST_SHAPE(2)));
    assert_int_equal(est_dataset_find(dataset, "b"), 1);
    assert_int_equal(est_dataset_find(dataset, "c"), -1);
    assert_null(est_dataset_component(dataset, 2));
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    est_dataset_free(dataset);
    for (int64_t i = 0; i < 3; i++) {
        assert_int_equal(est_iterator_next(rows, element), EST_OK);
        assert_int_equal(*(const int64_t *)est_tensor_data(element[0].values), 7 + i);
        assert_true(est_shape_equal(est_tensor_shape(element[1].values), &EST_SHAPE(2)));
        assert_memory_equal(est_tensor_data(element[1].values), ((int64_t[]){ 2 * i + 1, 2 * i + 2 }), 16);
        est_element_clear(element, 2);
    }
    assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
    assert_int_equal(est_iterator_get_stats(rows).elements, 3);
    est_iterator_free(rows);
}

/* One element of all tensors, scalars and empty ones as well. */
static est_dataset *make_tensors(void)
{
    est_tensor  *a = i64s(EST_SHAPE(3), (int64_t[]){ 7, 8, 9 }), *b = i64s(EST_SHAPE_SCALAR, (int64_t[]){ 5 });
    est_tensor  *c       = i64s(EST_SHAPE(0, 2), NULL);
    est_dataset *dataset = est_dataset_tensors(EST_NAMED_TENSORS({ "a", a }, { "b", b }, { "c", c }));

    est_tensor_free(a);
    est_tensor_free(b);
    est_tensor_free(c);
    return dataset;
}

TEST(tensors)
{
    est_dataset *dataset = finish(make_tensors());

    assert_true(est_shape_equal(&est_dataset_component(dataset, 0)->shape, &EST_SHAPE(3)));
    assert_true(est_shape_equal(&est_dataset_component(dataset, 1)->shape, &EST_SHAPE_SCALAR));
    est_dataset_free(dataset);
    est_test_yields(make_tensors(), "[7 8 9] | 5 | empty[0,2]");
    est_test_positions(make_tensors, 1);
    fails_with(est_dataset_tensors(EST_NAMED_TENSORS({ "a", NULL })), "tensor 0 is NULL");
    fails_with(est_dataset_tensors((est_named_tensors){ 0 }), "no tensors");
}

TEST(bad_slices)
{
    est_tensor *three  = i64s(EST_SHAPE(3), (int64_t[]){ 7, 8, 9 });
    est_tensor *two    = i64s(EST_SHAPE(2), (int64_t[]){ 7, 8 });
    est_tensor *scalar = i64s(EST_SHAPE_SCALAR, (int64_t[]){ 1 });

    fails_with(est_dataset_slices(EST_NAMED_TENSORS({ "a", three }, { "b", two })), "a has 3 rows, b has 2");
    fails_with(est_dataset_slices(EST_NAMED_TENSORS({ "a", scalar })), "no rows");
    fails_with(est_dataset_slices(EST_NAMED_TENSORS({ "a", three }, { "a", three })), "two components are called a");
    fails_with(est_dataset_slices(EST_NAMED_TENSORS({ "", three })), "no name");
    fails_with(est_dataset_slices(EST_NAMED_TENSORS({ "a", NULL })), "NULL");
    fails_with(NULL, "NULL");
    est_tensor_free(three);
    est_tensor_free(two);
    est_tensor_free(scalar);
}

TEST(errors_go_down_the_chain)
{
    fails_with(est_dataset_take(est_dataset_skip(est_dataset_range(0, 3, 0), 1), 2), "dataset stage range");
    fails_with(est_dataset_zip(est_dataset_range(0, 3, 1), est_dataset_range(0, 3, 0)), "dataset stage range");
    fails_with(est_dataset_zip(est_dataset_range(0, 3, 0), est_dataset_range(0, 3, 1)), "dataset stage range");
    fails_with(est_dataset_take(NULL, 2), "dataset stage take: no dataset was given");
}

static est_dataset *endless(void)
{
    return est_dataset_repeat(est_dataset_range(0, 3, 1), EST_FOREVER);
}

static est_dataset *a_slice(void)
{
    est_tensor  *a       = i64s(EST_SHAPE(1), (int64_t[]){ 7 });
    est_dataset *dataset = est_dataset_slices(EST_NAMED_TENSORS({ "a", a }));

    est_tensor_free(a);
    return dataset;
}

static est_status keep_all(void *user, const est_field *element, bool *keep)
{
    (void)user;
    (void)element;
    *keep = true;
    return EST_OK;
}

static void expect_endless(est_dataset *dataset, bool want)
{
    dataset = finish(dataset);
    assert_int_equal(est_dataset_endless(dataset), want);
    est_dataset_free(dataset);
}

TEST(endless)
{
    expect_endless(est_dataset_range(0, 3, 1), false);
    expect_endless(est_dataset_repeat(est_dataset_range(0, 3, 1), 5), false);
    expect_endless(endless(), true);
    expect_endless(est_dataset_repeat(endless(), 2), true);
    expect_endless(est_dataset_repeat(endless(), 0), false);
    expect_endless(est_dataset_take(endless(), 1000), false);
    expect_endless(est_dataset_take(endless(), EST_FOREVER), true);
    expect_endless(est_dataset_skip(endless(), 2), true);
    expect_endless(est_dataset_prefetch(est_dataset_batch(est_dataset_filter(endless(), keep_all, NULL), 2, NULL), 1),
                   true);
    expect_endless(est_dataset_concatenate(est_dataset_range(0, 3, 1), endless()), true);
    expect_endless(est_dataset_zip(endless(), est_dataset_repeat(a_slice(), EST_FOREVER)), true);
    expect_endless(est_dataset_zip(endless(), a_slice()), false);
    expect_endless(est_dataset_zip(a_slice(), endless()), false);
}

TEST(position)
{
    const int64_t want[]     = { 4, 5, 6, 7 };
    est_dataset  *dataset    = finish(est_dataset_range(4, 8, 1));
    est_field     element[1] = { 0 };

    for (int k = 0; k <= 5; k++) { /* 5: after the end */
        est_iterator *first = NULL, *second = NULL;
        est_tensor   *position = NULL;

        assert_int_equal(est_iterator_create(dataset, &first), EST_OK);
        for (int i = 0; i < k; i++) {
            assert_int_equal(est_iterator_next(first, element), i < 4 ? EST_OK : EST_OUT_OF_RANGE);
            est_element_clear(element, 1);
        }
        assert_int_equal(est_iterator_save(first, &position), EST_OK);
        est_iterator_free(first);
        assert_int_equal(est_iterator_create(dataset, &second), EST_OK);
        assert_int_equal(est_iterator_restore(second, position), EST_OK);
        assert_int_equal(est_iterator_get_stats(second).elements, k < 4 ? k : 4);
        if (k < 4) {
            yields(second, want + k, 4 - k);
        } else {
            yields(second, NULL, 0);
        }
        est_tensor_free(position);
        est_iterator_free(second);
    }
    est_dataset_free(dataset);
}

/* An iterator that was asked for an element, also for one that there was not, or was restored, is not new. */
TEST(restore_needs_a_new_iterator)
{
    est_dataset  *dataset    = finish(est_dataset_range(0, 0, 1));
    est_field     element[1] = { 0 };
    est_iterator *rows       = NULL;
    est_tensor   *position   = NULL;

    for (int used = 0; used <= 1; used++) {
        assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
        if (position == NULL) assert_int_equal(est_iterator_save(rows, &position), EST_OK);
        if (used) assert_int_equal(est_iterator_next(rows, element), EST_OUT_OF_RANGE);
        if (!used) assert_int_equal(est_iterator_restore(rows, position), EST_OK);
        assert_int_equal(est_iterator_restore(rows, position), EST_FAILED_PRECONDITION);
        assert_non_null(strstr(est_error_message(), "only a new iterator"));
        est_iterator_free(rows);
    }
    est_tensor_free(position);
    est_dataset_free(dataset);
}

TEST(position_of_another_dataset)
{
    est_tensor   *tensor = i64s(EST_SHAPE(3), (int64_t[]){ 7, 8, 9 });
    est_dataset  *range  = finish(est_dataset_range(4, 8, 1));
    est_dataset  *other  = finish(est_dataset_slices(EST_NAMED_TENSORS({ "a", tensor })));
    est_dataset  *less   = finish(est_dataset_range(4, 5, 1));
    est_iterator *from = NULL, *to = NULL;
    est_tensor   *position = NULL;
    est_field     element[1];

    assert_int_equal(est_iterator_create(range, &from), EST_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(est_iterator_next(from, element), EST_OK);
        est_element_clear(element, 1);
    }
    assert_int_equal(est_iterator_save(from, &position), EST_OK);

    assert_int_equal(est_iterator_create(other, &to), EST_OK);
    assert_int_equal(est_iterator_restore(to, position), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "a stage range where this one has slices"));
    assert_int_equal(est_iterator_next(to, element), EST_INVALID_ARGUMENT); /* only repeats it */
    est_iterator_free(to);

    assert_int_equal(est_iterator_create(less, &to), EST_OK);
    assert_int_equal(est_iterator_restore(to, position), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "element 3 of a range of 1"));
    est_iterator_free(to);

    assert_int_equal(est_iterator_restore(from, position), EST_FAILED_PRECONDITION);
    assert_int_equal(est_iterator_create(less, &to), EST_OK);
    assert_int_equal(est_iterator_restore(to, tensor), EST_INVALID_ARGUMENT);
    est_iterator_free(to);

    est_tensor_free(position);
    est_iterator_free(from);
    est_dataset_free(range);
    est_dataset_free(other);
    est_dataset_free(less);
    est_tensor_free(tensor);
}

/* Whatever the bytes of a position are, restoring and going on ends, without a crash. */
TEST(damaged_position)
{
    est_dataset  *dataset = finish(est_dataset_take(est_dataset_range(4, 8, 1), 3));
    est_iterator *rows    = NULL;
    est_tensor   *good    = NULL;
    est_field     element[1];

    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_next(rows, element), EST_OK);
    est_element_clear(element, 1);
    assert_int_equal(est_iterator_save(rows, &good), EST_OK);
    est_iterator_free(rows);
    for (int64_t i = 0; i < est_tensor_count(good) * 9; i++) {
        est_tensor *bad  = NULL;
        int64_t     at   = i / 9;
        int64_t     size = i % 9 == 8 ? at : est_tensor_count(good); /* a flipped bit, or cut here */
        int         n    = 0;

        assert_int_equal(est_tensor_create_from(EST_U8, EST_SHAPE(size), est_tensor_data(good), &bad), EST_OK);
        if (i % 9 < 8) ((uint8_t *)est_tensor_mutable_data(bad))[at] ^= (uint8_t)(1 << i % 9);
        assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
        if (est_iterator_restore(rows, bad) == EST_OK) {
            while (est_iterator_next(rows, element) == EST_OK) {
                est_element_clear(element, 1);
                assert_true(++n <= 4);
            }
        }
        est_iterator_free(rows);
        est_tensor_free(bad);
    }
    est_tensor_free(good);
    est_dataset_free(dataset);
}

TEST(element_bytes)
{
    const est_component components[] = { { .name = "a", .dtype = EST_I64, .shape = EST_SHAPE(-1), .ragged = true },
                                         { .name = "b", .dtype = EST_STRING } };
    est_dataset         dataset      = { .components = (est_component *)(uintptr_t)components, .n_components = 2 };
    est_element        *element = est_element_new(2), *back = est_element_new(2);
    est_pass           *pass = NULL;
    est_wire_writer     w    = { 0 };
    est_wire_reader     r;
    est_wire_field      field;

    assert_int_equal(est_pass_create(&pass), EST_OK);
    element->field[0] = (est_field){ i64s(EST_SHAPE(3), (int64_t[]){ 7, 8, 9 }),
                                     i64s(EST_SHAPE(2), (int64_t[]){ 0, 3 }) };
    assert_int_equal(est_tensor_string("hello", 5, &element->field[1].values), EST_OK);
    element->origin = (est_origin){ est_pass_intern(pass, "a.csv", 5), 12, true };
    assert_ptr_equal(element->origin.path, est_pass_intern(pass, "a.csvx", 5));
    est_element_put(&w, 3, element, 2);
    assert_int_equal(est_wire_writer_status(&w), EST_OK);
    est_wire_reader_init(&r, "test", w.data, w.size);
    assert_true(est_wire_next(&r, &field));
    assert_int_equal(est_element_parse(field.bytes, pass, &dataset, back), EST_OK);
    assert_ptr_equal(back->origin.path, element->origin.path);
    assert_int_equal(back->origin.at, 12);
    assert_true(back->origin.line);
    assert_memory_equal(est_tensor_data(back->field[0].values), ((int64_t[]){ 7, 8, 9 }), 24);
    assert_memory_equal(est_tensor_data(back->field[0].splits), ((int64_t[]){ 0, 3 }), 16);
    assert_memory_equal(((const est_str *)est_tensor_data(back->field[1].values))->data, "hello", 5);
    est_element_clear(back->field, 2);

    ((est_component *)(uintptr_t)dataset.components)[0].ragged = true; /* as declared */
    dataset.n_components                                       = 1;
    assert_int_equal(est_element_parse(field.bytes, pass, &dataset, back), EST_DATA_LOSS); /* two are stored */
    assert_null(back->field[0].values);
    est_element_free(element, 2);
    est_element_free(back, 2);
    est_wire_writer_clear(&w);
    est_pass_free(pass);
}

TEST(turns)
{
    assert_int_equal(est_turn_mix(0, 0), 0);
    for (uint64_t i = 0; i < 100; i++) {
        for (uint64_t j = 0; j < i; j++) assert_int_not_equal(est_turn_mix(0, i), est_turn_mix(0, j));
    }
    assert_int_not_equal(est_turn_mix(est_turn_mix(0, 1), 2), est_turn_mix(est_turn_mix(0, 2), 1));
}

/* Builds, goes half way, saves, restores and ends; every allocation fails in turn, and nothing leaks (ASan looks). */
static est_status whole_life(void)
{
    est_tensor   *tensor = NULL, *position = NULL;
    est_dataset  *dataset = NULL;
    est_iterator *rows = NULL, *again = NULL;
    est_field     element[1] = { 0 };
    est_status    status;

    status = est_tensor_i64(EST_SHAPE(3), (int64_t[]){ 7, 8, 9 }, &tensor);
    if (status != EST_OK) return status;
    status = est_dataset_finish(est_dataset_slices(EST_NAMED_TENSORS({ "a", tensor })), &dataset);
    est_tensor_free(tensor);
    if (status == EST_OK) status = est_iterator_create(dataset, &rows);
    if (status == EST_OK) status = est_iterator_next(rows, element);
    est_element_clear(element, 1);
    if (status == EST_OK) status = est_iterator_save(rows, &position);
    if (status == EST_OK) status = est_iterator_create(dataset, &again);
    if (status == EST_OK) status = est_iterator_restore(again, position);
    if (status == EST_OK) status = est_iterator_next(again, element);
    if (status == EST_OK) assert_int_equal(*(const int64_t *)est_tensor_data(element[0].values), 8);
    est_element_clear(element, 1);
    est_tensor_free(position);
    est_iterator_free(rows);
    est_iterator_free(again);
    est_dataset_free(dataset);
    return status;
}

TEST(memory_out)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_status status;

        fault_arm(&f);
        status = whole_life();
        fault_check(&f, status);
    }
}
