/* SPDX-License-Identifier: Apache-2.0
 *
 * interleave: the order of TensorFlow's, by whatever many threads; errors in their place; positions. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "support/source_test.h"
#include "support/test.h"

static const est_component number = { .name = "number", .dtype = EST_I64 };

/* The datasets that are interleaved: number i counts from 10 i (or `step` times i) and has length[i] elements. */
typedef struct lengths {
    int64_t step;
    int     n;
    int64_t length[8];
} lengths;

static est_dataset *make_count(void *user, const est_field *element)
{
    const lengths *l    = user;
    int64_t        i    = *(const int64_t *)est_tensor_data(element[0].values);
    int64_t        step = l->step != 0 ? l->step : 10;

    if (i < 0 || i >= l->n) return est_dataset_range(0, 0, 1); /* of a damaged position */
    return est_dataset_range(step * i, step * i + l->length[i], 1);
}

static est_dataset *interleaved(const lengths *l, est_interleave_options options)
{
    options.struct_size = sizeof options;
    options.user        = (void *)(uintptr_t)l;
    options.components  = (est_components){ &number, 1 };
    return est_dataset_interleave(est_dataset_range(0, l->n, 1), make_count, &options);
}

/* What tf.data.Dataset.interleave of TensorFlow 2.15.1 yields. */
static const struct {
    lengths     l;
    int         cycle, block;
    const char *want;
} orders[] = {
    { { .n = 3, .length = { 3, 2, 4 } }, 2, 1, "0|10|1|11|2|20|21|22|23|" },
    { { .n = 3, .length = { 3, 2, 4 } }, 2, 2, "0|1|10|11|2|20|21|22|23|" },
    { { .n = 3, .length = { 3, 2, 4 } }, 3, 1, "0|10|20|1|11|21|2|22|23|" },
    { { .n = 3, .length = { 3, 2, 4 } }, 5, 1, "0|10|20|1|11|21|2|22|23|" },
    { { .n = 5, .length = { 1, 0, 3, 0, 2 } }, 2, 2, "0|20|21|22|40|41|" },
    { { .n = 5, .length = { 0, 0, 0, 5, 1 } }, 2, 1, "30|40|31|32|33|34|" },
    { { .n = 5, .length = { 4, 1, 1, 1, 4 } }, 3, 2, "0|1|10|20|2|3|30|40|41|42|43|" },
    { { .n = 2, .length = { 5, 5 } }, 2, 3, "0|1|2|10|11|12|3|4|13|14|" },
    { { .n = 6, .length = { 2, 3, 1, 4, 2, 3 } }, 3, 1, "0|10|20|1|11|12|30|40|31|41|50|32|51|33|52|" },
    { { .n = 6, .length = { 2, 3, 1, 4, 2, 3 } }, 3, 2, "0|1|10|11|20|12|30|31|40|41|50|51|32|33|52|" },
    { { .n = 4, .length = { 0, 0, 0, 0 } }, 2, 1, "" },
    { { .n = 3, .length = { 4, 0, 4 } }, 1, 3, "0|1|2|3|20|21|22|23|" },
    { { .n = 5, .length = { 4, 0, 0, 2, 1 } }, 2, 3, "0|1|2|3|30|31|40|" },
    { { .n = 3, .length = { 2, 2, 2 } }, 4, 2, "0|1|10|11|20|21|" },
    { { .n = 6, .length = { 3, 0, 0, 0, 3, 3 } }, 2, 2, "0|1|2|40|41|50|51|42|52|" },
    { { .n = 4, .length = { 1, 4, 0, 3 } }, 4, 2, "0|10|11|30|31|12|13|32|" },
};

TEST(order)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        for (int workers = 0; workers <= 1; workers++) {
            est_interleave_options o = { .cycle = orders[i].cycle, .block = orders[i].block, .workers = workers };

            source_yields(interleaved(&orders[i].l, o), orders[i].want);
        }
    }
    source_yields(interleaved(&orders[0].l, (est_interleave_options){ 0 }), "0|1|2|10|11|20|21|22|23|");
    source_yields(interleaved(&(lengths){ .n = 0 }, (est_interleave_options){ .workers = 1 }), "");
}

/* More than is read ahead at a time: threads change nothing. */
TEST(long)
{
    const lengths l    = { .step = 1000, .n = 5, .length = { 70, 33, 0, 64, 100 } };
    est_strbuf    want = { 0 };
    est_iterator *rows;
    est_field     element[1] = { 0 };

    rows = source_open(interleaved(&l, (est_interleave_options){ .cycle = 3, .block = 5 }));
    while (est_iterator_next(rows, element) == EST_OK) {
        est_strbuf_printf(&want, "%d|", (int)*(const int64_t *)est_tensor_data(element[0].values));
        est_element_clear(element, 1);
    }
    assert_int_equal(est_iterator_get_stats(rows).elements, 267);
    est_iterator_free(rows);
    source_yields(interleaved(&l, (est_interleave_options){ .cycle = 3, .block = 5, .workers = EST_AUTO }),
                  est_strbuf_text(&want));
    est_strbuf_clear(&want);
}

TEST(unordered)
{
    const lengths l = { .step = 100, .n = 4, .length = { 3, 0, 2, 4 } };

    for (int workers = 0; workers <= 1; workers++) {
        for (int cycle = 1; cycle <= 5; cycle++) {
            est_interleave_options o = { .cycle = cycle, .workers = workers, .unordered = true };

            source_yields_sorted(interleaved(&l, o), "0|1|2|200|201|300|301|302|303|");
        }
    }
    source_yields_sorted(interleaved(&(lengths){ .n = 0 }, (est_interleave_options){ .workers = 1, .unordered = true }),
                         "");
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

/* Counts in seen[] what the iterator yields, at most n elements. */
static void mark(est_iterator *rows, int n, int *seen)
{
    est_field  element[1] = { 0 };
    est_status status     = EST_OK;

    for (int i = 0; i < n; i++) {
        status = est_iterator_next(rows, element);
        if (status != EST_OK) break;
        seen[*(const int64_t *)est_tensor_data(element[0].values)]++;
        est_element_clear(element, 1);
    }
    if (status != EST_OK) assert_int_equal(status, EST_OUT_OF_RANGE);
}

static est_tensor *position_after(est_dataset *dataset, int n, int *seen)
{
    est_iterator *rows     = source_open(dataset);
    est_tensor   *position = NULL;

    mark(rows, n, seen);
    assert_int_equal(est_iterator_save(rows, &position), EST_OK);
    est_iterator_free(rows);
    return position;
}

/* Restored, saved at once or after `n` more elements, and restored again. */
static void resume(est_dataset *dataset, const est_tensor *position, int n, int *seen)
{
    est_iterator *rows;
    est_tensor   *second = NULL;

    assert_int_equal(est_dataset_finish(dataset, &dataset), EST_OK);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_restore(rows, position), EST_OK);
    mark(rows, n, seen);
    assert_int_equal(est_iterator_save(rows, &second), EST_OK);
    est_iterator_free(rows);
    assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
    assert_int_equal(est_iterator_restore(rows, second), EST_OK);
    mark(rows, INT32_MAX, seen);
    est_iterator_free(rows);
    est_tensor_free(second);
    est_dataset_free(dataset);
}

/* Whatever reads before and after, each element comes once. */
TEST(positions_among_kinds)
{
    const lengths                l       = { .step = 100, .n = 4, .length = { 70, 0, 3, 35 } };
    const est_interleave_options kinds[] = {
        { .cycle = 3, .block = 2 },
        { .cycle = 3, .block = 2, .workers = 1 },
        { .cycle = 3, .block = 2, .workers = 1, .unordered = true },
    };

    for (int before = 0; before < 3; before++) {
        for (int after = 0; after < 3; after++) {
            for (int n = 0; n <= 110; n += 11) {
                int         seen[400] = { 0 };
                est_tensor *position  = position_after(interleaved(&l, kinds[before]), n, seen);

                resume(interleaved(&l, kinds[after]), position, n % 3, seen);
                est_tensor_free(position);
                for (int i = 0; i < 400; i++) assert_int_equal(seen[i], i % 100 < l.length[i / 100]);
            }
        }
    }
}

TEST(position_of_another_cycle)
{
    const lengths *l         = &orders[0].l;
    int            seen[400] = { 0 };
    est_tensor    *position  = position_after(interleaved(l, (est_interleave_options){ .cycle = 2 }), 3, seen);
    est_iterator  *rows      = source_open(interleaved(l, (est_interleave_options){ .cycle = 3 }));

    assert_int_equal(est_iterator_restore(rows, position), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "saved with a cycle of 2, this dataset has 3"));
    est_iterator_free(rows);
    est_tensor_free(position);
}

/* A position with any byte changed may be refused or lead elsewhere, no more. */
TEST(damaged_position)
{
    const lengths *l         = &orders[8].l;
    int            seen[400] = { 0 };

    for (int workers = 0; workers <= 1; workers++) {
        est_interleave_options o        = { .cycle = 3, .workers = workers };
        est_tensor            *position = position_after(interleaved(l, o), 4, seen);
        uint8_t               *bytes    = est_tensor_mutable_data(position);

        for (int64_t i = 0; i < est_tensor_count(position); i++) {
            est_iterator *rows       = source_open(interleaved(l, o));
            est_field     element[1] = { 0 };

            bytes[i] ^= 0x15;
            if (est_iterator_restore(rows, position) == EST_OK) {
                for (int n = 0; n < 100 && est_iterator_next(rows, element) == EST_OK; n++) {
                    est_element_clear(element, 1);
                }
                est_element_clear(element, 1);
            }
            bytes[i] ^= 0x15;
            est_iterator_free(rows);
        }
        est_tensor_free(position);
    }
}

/* --- what datasets are made --------------------------------------------------------------------------------------- */

static est_dataset *make_shuffled(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return est_dataset_shuffle(est_dataset_range(0, 50, 1), 50, 7);
}

/* Every dataset is in a pass of its own, so that the same shuffle has another order in each. */
TEST(turns)
{
    est_iterator *rows;
    int64_t       order[2][50];
    est_field     element[1] = { 0 };

    rows = source_open(est_dataset_interleave(est_dataset_range(0, 2, 1), make_shuffled,
                                              EST_INTERLEAVE(.components = { &number, 1 })));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(est_iterator_next(rows, element), EST_OK);
        order[i / 50][i % 50] = *(const int64_t *)est_tensor_data(element[0].values);
        est_element_clear(element, 1);
    }
    source_end(rows);
    assert_memory_not_equal(order[0], order[1], sizeof order[0]);
    est_iterator_free(rows);
}

static est_dataset *make_nothing(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return NULL;
}

static est_dataset *make_failed(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return est_dataset_range(0, 1, 0);
}

static est_dataset *make_strings(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return est_dataset_files("/");
}

static est_dataset *make_pairs(void *user, const est_field *element)
{
    (void)user;
    (void)element;
    return est_dataset_enumerate(est_dataset_range(0, 1, 1), 0);
}

TEST(bad_datasets)
{
    for (int kind = 0; kind <= 2; kind++) {
        est_interleave_options o = *EST_INTERLEAVE(.components = { &number, 1 });

        o.workers   = kind > 0;
        o.unordered = kind > 1;
        source_fails(est_dataset_interleave(est_dataset_range(0, 2, 1), make_nothing, &o), "", EST_INVALID_ARGUMENT,
                     "NULL was given");
        source_fails(est_dataset_interleave(est_dataset_range(0, 2, 1), make_failed, &o), "", EST_INVALID_ARGUMENT,
                     "is not a range");
        source_fails(est_dataset_interleave(est_dataset_range(0, 2, 1), make_strings, &o), "", EST_INVALID_ARGUMENT,
                     "component number is string [], int64 [] was declared");
        source_fails(est_dataset_interleave(est_dataset_range(0, 2, 1), make_pairs, &o), "", EST_INVALID_ARGUMENT,
                     "it has 2 components, 1 were declared");
    }
}

static est_status next_until_bad(void *state, est_field *element)
{
    int64_t *value = state;

    if (*value == 40) return est_fail(EST_UNAVAILABLE, "forty is too many");
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, value, &element[0].values));
    ++*value;
    return EST_OK;
}

static est_dataset *make_until_bad(void *user, const est_field *element)
{
    (void)element;
    return est_dataset_generator((est_components){ &number, 1 }, EST_GENERATOR(.next = next_until_bad, .user = user));
}

/* An error comes after what was before it, also when it was met earlier. */
TEST(error_in_its_place)
{
    for (int workers = 0; workers <= 1; workers++) {
        int64_t    value = 0;
        est_strbuf want  = { 0 };

        for (int i = 0; i < 40; i++) est_strbuf_printf(&want, "%d|", i);
        source_fails(
            est_dataset_interleave(est_dataset_range(0, 1, 1), make_until_bad,
                                   EST_INTERLEAVE(.user = &value, .workers = workers, .components = { &number, 1 })),
            est_strbuf_text(&want), EST_UNAVAILABLE, "forty is too many");
        est_strbuf_clear(&want);
    }
}

/* Two callbacks inside at once. */
typedef struct rendezvous {
    pthread_mutex_t lock;
    pthread_cond_t  cond;
    int             n; /* inside so far */
} rendezvous;

static est_status next_with_another(void *state, est_field *element)
{
    rendezvous *m     = state;
    int64_t     limit = est_machine_ns() + 20 * EST_NS_PER_SEC;
    int64_t     value = 1;

    pthread_mutex_lock(&m->lock);
    if (m->n >= 2) value = 0;
    m->n++;
    pthread_cond_broadcast(&m->cond);
    while (m->n < 2 && est_machine_ns() < limit) est_cond_wait_ns(&m->cond, &m->lock, EST_NS_PER_SEC);
    if (m->n < 2) value = -1;
    pthread_mutex_unlock(&m->lock);
    if (value < 0) return est_fail(EST_DEADLINE_EXCEEDED, "nobody else came");
    return value == 0 ? EST_OUT_OF_RANGE : est_tensor_i64(EST_SHAPE_SCALAR, &value, &element[0].values);
}

static est_dataset *make_rendezvous(void *user, const est_field *element)
{
    (void)element;
    return est_dataset_generator((est_components){ &number, 1 },
                                 EST_GENERATOR(.next = next_with_another, .user = user));
}

TEST(threads_read_at_once)
{
    rendezvous m;

    m.n = 0;
    assert_int_equal(est_lock_init(&m.lock), EST_OK);
    assert_int_equal(est_cond_init(&m.cond), EST_OK);
    source_yields_sorted(est_dataset_interleave(est_dataset_range(0, 2, 1), make_rendezvous,
                                                EST_INTERLEAVE(.user = &m, .cycle = 2, .workers = 1, .unordered = true,
                                                               .components = { &number, 1 })),
                         "1|1|");
    pthread_cond_destroy(&m.cond);
    pthread_mutex_destroy(&m.lock);
}

TEST(refused)
{
    const est_interleave_options unmade = { .cycle = 1 };
    const lengths               *l      = &orders[0].l;

    source_refused(interleaved(l, (est_interleave_options){ .cycle = -1 }), "stage interleave: cycle -1");
    source_refused(interleaved(l, (est_interleave_options){ .cycle = 65537 }), "cycle 65537: it is at most 65536");
    for (int unordered = 0; unordered <= 1; unordered++) {
        source_refused(interleaved(l, (est_interleave_options){ .cycle = 1025, .workers = 1, .unordered = unordered }),
                       "it can be at most 1024");
    }
    source_refused(interleaved(l, (est_interleave_options){ .block = -1 }), "block -1");
    source_refused(interleaved(l, (est_interleave_options){ .workers = -5 }), "workers -5");
    source_refused(interleaved(l, (est_interleave_options){ .bad_rows_max = -1 }), "bad_rows_max -1");
    source_refused(est_dataset_interleave(est_dataset_range(0, 1, 1), make_count, &unmade), "EST_INTERLEAVE");
    source_refused(est_dataset_interleave(est_dataset_range(0, 1, 1), make_count, NULL), "set .components");
    source_refused(est_dataset_interleave(est_dataset_range(0, 1, 1), NULL, NULL), "no function");
    source_refused(est_dataset_interleave(NULL, make_count, NULL), "no dataset was given");
    source_refused(est_dataset_interleave(est_dataset_range(0, 1, 0), make_count, NULL), "is not a range");
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static est_interleave_options memory_options;

static est_dataset *make_for_memory(void)
{
    return interleaved(&orders[8].l, memory_options);
}

TEST(memory_out)
{
    for (int kind = 0; kind <= 2; kind++) {
        memory_options = (est_interleave_options){ .cycle = 3, .workers = kind > 0, .unordered = kind > 1 };
        source_memory_out(make_for_memory);
    }
}
