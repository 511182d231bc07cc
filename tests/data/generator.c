/* SPDX-License-Identifier: Apache-2.0
 *
 * generator: one's own code as a source, with and without a position of its own. */
#include <stdlib.h>
#include <string.h>

#include "support/source_test.h"
#include "support/test.h"

/* Counts to a limit. */
typedef struct counter {
    int64_t value;
    int64_t limit;
    int     passes; /* opened and not closed */
    int     calls;  /* of next */
} counter;

typedef struct pass {
    counter *counter;
    int64_t  value;
} pass;

static est_status open_pass(void *user, void **state)
{
    pass *p = malloc(sizeof *p);

    if (p == NULL) return est_fail(EST_RESOURCE_EXHAUSTED, "no memory");
    *p = (pass){ .counter = user };
    p->counter->passes++;
    *state = p;
    return EST_OK;
}

static void close_pass(void *state)
{
    ((pass *)state)->counter->passes--;
    free(state);
}

static est_status next_of_pass(void *state, est_field *element)
{
    pass *p = state;

    p->counter->calls++;
    if (p->value == p->counter->limit) return EST_OUT_OF_RANGE;
    EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &p->value, &element[0].values));
    p->value++;
    return EST_OK;
}

static est_status save_pass(void *state, est_tensor **position)
{
    return est_tensor_i64(EST_SHAPE_SCALAR, &((pass *)state)->value, position);
}

static est_status restore_pass(void *state, const est_tensor *position)
{
    ((pass *)state)->value = *(const int64_t *)est_tensor_data(position);
    return EST_OK;
}

static const est_component number = { .name = "number", .dtype = EST_I64 };

static est_dataset *counting(counter *c, bool positions)
{
    est_generator calls = { .struct_size = EST_STRUCT_SIZE(est_generator),
                            .open        = open_pass,
                            .next        = next_of_pass,
                            .close       = close_pass,
                            .user        = c };

    if (positions) {
        calls.save    = save_pass;
        calls.restore = restore_pass;
    }
    return est_dataset_generator((est_components){ &number, 1 }, &calls);
}

TEST(elements)
{
    counter c = { .limit = 4 };

    source_yields(counting(&c, false), "0|1|2|3|");
    source_yields(counting(&c, true), "0|1|2|3|");
    assert_int_equal(c.passes, 0);
    c.limit = 0;
    source_yields(counting(&c, false), "");
}

/* Without positions of its own all elements are made again, with them none. */
TEST(restoring)
{
    for (int positions = 0; positions <= 1; positions++) {
        counter       c        = { .limit = 10 };
        est_dataset  *dataset  = NULL;
        est_iterator *rows     = NULL;
        est_tensor   *position = NULL;

        assert_int_equal(est_dataset_finish(counting(&c, positions != 0), &dataset), EST_OK);
        assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
        source_next(rows, "0|1|2|");
        assert_int_equal(est_iterator_save(rows, &position), EST_OK);
        est_iterator_free(rows);
        c.calls = 0;
        assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
        assert_int_equal(est_iterator_restore(rows, position), EST_OK);
        assert_int_equal(c.calls, positions ? 0 : 3);
        source_next(rows, "3|4|");
        est_iterator_free(rows);

        c.limit = 2;
        assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
        assert_int_equal(est_iterator_restore(rows, position), positions ? EST_OK : EST_FAILED_PRECONDITION);
        if (!positions) assert_non_null(strstr(est_error_message(), "after 3 elements of a generator that now ends"));
        est_iterator_free(rows);
        est_dataset_free(dataset);

        assert_int_equal(est_dataset_finish(counting(&c, positions == 0), &dataset), EST_OK);
        assert_int_equal(est_iterator_create(dataset, &rows), EST_OK);
        assert_int_equal(est_iterator_restore(rows, position), EST_INVALID_ARGUMENT);
        assert_non_null(strstr(est_error_message(), positions ? "with save" : "without save"));
        est_iterator_free(rows);
        est_dataset_free(dataset);
        est_tensor_free(position);
        assert_int_equal(c.passes, 0);
    }
}

static est_status next_of_user(void *state, est_field *element)
{
    int64_t *left = state;

    if (*left == 0) return EST_OUT_OF_RANGE;
    return est_tensor_i64(EST_SHAPE_SCALAR, &(int64_t){ (*left)-- }, &element[0].values);
}

TEST(only_next)
{
    int64_t       left = 3;
    est_iterator *rows;

    rows = source_open(
        est_dataset_generator((est_components){ &number, 1 }, EST_GENERATOR(.next = next_of_user, .user = &left)));
    source_next(rows, "3|2|1|");
    source_end(rows);
    est_iterator_free(rows);
}

/* What the callbacks below do at their second call. */
typedef enum mistake { WRONG_DTYPE, WRONG_SHAPE, NOTHING, SPLITS, FAILS, FAILS_WITH_TENSOR, SILENT } mistake;

static est_status next_mistaken(void *state, est_field *element)
{
    mistake *m   = state;
    int64_t  one = 1;

    switch (*m) {
    case WRONG_DTYPE: return est_tensor_f32(EST_SHAPE_SCALAR, &(float){ 1 }, &element[0].values);
    case WRONG_SHAPE: return est_tensor_i64(EST_SHAPE(1), &one, &element[0].values);
    case NOTHING: return EST_OK;
    case SPLITS:
        EST_TRY(est_tensor_i64(EST_SHAPE(1), &one, &element[0].splits));
        return est_tensor_i64(EST_SHAPE_SCALAR, &one, &element[0].values);
    case FAILS_WITH_TENSOR: EST_TRY(est_tensor_i64(EST_SHAPE_SCALAR, &one, &element[0].values)); break;
    case SILENT: return EST_ABORTED;
    case FAILS: break;
    }
    return est_fail(EST_UNAVAILABLE, "the oven is cold");
}

TEST(mistakes)
{
    const struct {
        mistake     m;
        est_status  status;
        const char *message;
    } cases[] = {
        { WRONG_DTYPE, EST_INVALID_ARGUMENT, "element 0 of a generator: component number: a float32 tensor" },
        { WRONG_SHAPE, EST_INVALID_ARGUMENT, "of shape [1]" },
        { NOTHING, EST_INVALID_ARGUMENT, "no tensor was given" },
        { SPLITS, EST_INVALID_ARGUMENT, "splits, and it is not ragged" },
        { FAILS, EST_UNAVAILABLE, "element 0 of a generator: the oven is cold" },
        { FAILS_WITH_TENSOR, EST_UNAVAILABLE, "the oven is cold" },
        { SILENT, EST_ABORTED, "element 0 of a generator: next returned ABORTED" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mistake       m     = cases[i].m;
        est_generator calls = { .struct_size = EST_STRUCT_SIZE(est_generator), .next = next_mistaken, .user = &m };

        source_fails(est_dataset_generator((est_components){ &number, 1 }, &calls), "", cases[i].status,
                     cases[i].message);
    }
}

static est_status open_never(void *user, void **state)
{
    (void)user;
    (void)state;
    return est_fail(EST_UNAVAILABLE, "shut");
}

static void close_never(void *state)
{
    (void)state;
    fail_msg("closed what was not open");
}

TEST(refused)
{
    est_generator shut = {
        .struct_size = EST_STRUCT_SIZE(est_generator), .open = open_never, .next = next_of_user, .close = close_never
    };

    source_refused(est_dataset_generator((est_components){ &number, 1 }, NULL), "no function next");
    source_refused(est_dataset_generator((est_components){ &number, 1 }, EST_GENERATOR()), "no function next");
    source_refused(
        est_dataset_generator((est_components){ &number, 1 }, EST_GENERATOR(.next = next_of_user, .save = save_pass)),
        "save is of no use without restore");
    source_refused(est_dataset_generator((est_components){ &number, 0 }, EST_GENERATOR(.next = next_of_user)),
                   "at least one");
    source_fails(est_dataset_generator((est_components){ &number, 1 }, &shut), "", EST_UNAVAILABLE, "shut");
}

static counter      five = { .limit = 5 };
static est_dataset *count_again(void)
{
    return counting(&five, false);
}

static est_dataset *count_from(void)
{
    return counting(&five, true);
}

TEST(memory_out)
{
    source_memory_out(count_again);
    source_memory_out(count_from);
    assert_int_equal(five.passes, 0);
}
