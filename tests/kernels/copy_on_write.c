/* SPDX-License-Identifier: Apache-2.0
 *
 * Copy-on-write snapshots: what is read is what there was, whoever changes it meanwhile; a full buffer makes changes
 * wait and no longer than they must; nobody waits for a snapshot that has ended. */
#include "kernels/copy_on_write.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/thread.h"
#include "runtime/store.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define WIDTH 5 /* rows of 20 bytes: they begin anywhere in a line */

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static size_t bytes_of(const est_var *var)
{
    return (size_t)var->value.count * est_dtype_size(var->value.dtype);
}

static est_store *new_store(void)
{
    est_store *store;

    ok(est_store_create(&store));
    return store;
}

/* A variable of numbers that differ. */
static est_var *add(est_store *store, const char *name, est_dtype dtype, est_shape shape)
{
    est_var *var;

    ok(est_store_get(store, name, dtype, shape, &var));
    for (size_t i = 0; i < bytes_of(var); i++) ((uint8_t *)var->value.data)[i] = (uint8_t)(i * 7 + i / 251);
    var->initialized = true;
    return var;
}

static uint8_t *copy_of(const est_var *var)
{
    uint8_t *copy = malloc(bytes_of(var) + 1);

    assert_non_null(copy);
    memcpy(copy, var->value.data, bytes_of(var));
    return copy;
}

static void read_chunk(est_cow *cow, int i, const est_var *var, size_t chunk, uint8_t *out)
{
    size_t first = chunk * EST_COW_CHUNK, left = bytes_of(var) - first;

    ok(est_cow_read(cow, i, first, left < EST_COW_CHUNK ? left : EST_COW_CHUNK, out + first));
}

static size_t chunks_of(const est_var *var)
{
    return (bytes_of(var) + EST_COW_CHUNK - 1) / EST_COW_CHUNK;
}

/* Reads variable i to its end and compares it. */
static void expect(est_cow *cow, int i, const est_var *var, const uint8_t *want)
{
    uint8_t *got = malloc(bytes_of(var) + 1);

    assert_non_null(got);
    for (size_t chunk = 0; chunk < chunks_of(var); chunk++) read_chunk(cow, i, var, chunk, got);
    assert_memory_equal(got, want, bytes_of(var));
    free(got);
}

static void add_to_row(est_var *var, int64_t row)
{
    for (int64_t i = row * WIDTH; i < (row + 1) * WIDTH; i++) ((int32_t *)var->value.data)[i]++;
}

/* --- one thread --------------------------------------------------------------------------------------------------- */

/* Rows at the edges of lines and chunks, some twice; changes before, at and behind the reader; and after the end. */
TEST(rows)
{
    static const int32_t rows[] = { 0, 3, 3276, 3277, 3276, 9999, 6554, 3 };
    est_store           *store  = new_store();
    est_var             *var    = add(store, "v", EST_I32, EST_SHAPE(10000, WIDTH));
    est_view             named  = { (void *)(uintptr_t)rows, EST_I32, EST_SHAPE(8), 8 };
    uint8_t             *want = copy_of(var), *got = copy_of(var);
    est_cow             *cow;

    ok(est_cow_begin(&var, 1, &cow));
    for (size_t chunk = 0; chunk < chunks_of(var); chunk++) {
        est_cow_keep_indices(var, &named);
        for (int i = 0; i < 8; i++) add_to_row(var, rows[i]);
        read_chunk(cow, 0, var, chunk, got);
    }
    assert_memory_equal(got, want, bytes_of(var));
    assert_int_equal(est_cow_paused_ns(cow), 0);
    est_cow_free(cow);
    est_cow_keep_rows(var, 5, 3);
    assert_null(var->cow);
    free(want);
    free(got);
    est_store_free(store);
}

/* Elements of a byte, no elements, a scalar, a last line that is not whole. */
TEST(shapes)
{
    est_store *store  = new_store();
    est_var   *vars[] = { add(store, "a", EST_U8, EST_SHAPE(70001)), add(store, "b", EST_F32, EST_SHAPE(0, 3)),
                          add(store, "c", EST_I64, EST_SHAPE_SCALAR), add(store, "d", EST_F64, EST_SHAPE(3, 1)) };
    uint8_t   *want[4];
    est_cow   *cow;

    for (int i = 0; i < 4; i++) want[i] = copy_of(vars[i]);
    ok(est_cow_begin(vars, 4, &cow));
    est_cow_keep_rows(vars[0], 70000, 1);
    est_cow_keep_rows(vars[1], 0, 0);
    for (int i = 1; i < 4; i++) est_cow_keep_all(vars[i]);
    ((uint8_t *)vars[0]->value.data)[70000]++;
    for (int i = 1; i < 4; i++) memset(vars[i]->value.data, 77, bytes_of(vars[i]));
    for (int i = 0; i < 4; i++) expect(cow, i, vars[i], want[i]);
    for (int i = 0; i < 4; i++) free(want[i]);
    est_cow_free(cow);
    est_store_free(store);
}

/* Two snapshots of two moments; the first ends while the other goes on. */
TEST(two)
{
    est_store *store = new_store();
    est_var   *var   = add(store, "v", EST_I32, EST_SHAPE(10000, WIDTH));
    uint8_t   *first = copy_of(var), *second;
    est_cow   *one, *two;

    ok(est_cow_begin(&var, 1, &one));
    est_cow_keep_rows(var, 4000, 1);
    add_to_row(var, 4000);
    second = copy_of(var);
    ok(est_cow_begin(&var, 1, &two));
    est_cow_keep_rows(var, 4000, 2);
    add_to_row(var, 4000);
    add_to_row(var, 4001);
    expect(one, 0, var, first);
    est_cow_free(one);
    est_cow_keep_all(var);
    memset(var->value.data, 1, bytes_of(var));
    expect(two, 0, var, second);
    est_cow_free(two);
    free(first);
    free(second);
    est_store_free(store);
}

/* A store that goes ends the snapshots of its variables; an ended one cannot be read, and keeps nothing. */
TEST(ended)
{
    est_store *store  = new_store();
    est_var   *vars[] = { add(store, "v", EST_I32, EST_SHAPE(100, WIDTH)), add(store, "w", EST_I32, EST_SHAPE(100)) };
    est_cow   *one, *two;
    uint8_t    byte, all[100 * WIDTH * sizeof(int32_t)];

    ok(est_cow_begin(vars, 2, &one));
    ok(est_cow_begin(vars, 2, &two));
    est_cow_end(one);
    est_cow_end(one);
    est_cow_keep_all(vars[0]);
    assert_int_equal(est_cow_read(one, 0, 0, 1, &byte), EST_ABORTED);
    ok(est_cow_read(two, 0, 0, sizeof all, all));
    est_cow_free(one);
    est_store_free(store);
    assert_int_equal(est_cow_read(two, 0, 0, 1, &byte), EST_ABORTED);
    est_cow_free(two);
    est_cow_free(NULL);
}

TEST(no_memory)
{
    est_store *store = new_store();
    est_var   *var   = add(store, "v", EST_I32, EST_SHAPE(100, WIDTH));
    est_cow   *cow   = NULL;

    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        fault_arm(&f);
        fault_check(&f, est_cow_begin(&var, 1, &cow));
        assert_int_equal(var->cow == NULL, f.fired);
    }
    est_cow_free(cow);
    est_store_free(store);
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

#define TABLE_ROWS 200000
#define SEED       3

/* Whoever changes rows of a table and its slot until it is told to stop. */
typedef struct updater {
    pthread_t       thread;
    pthread_mutex_t lock; /* guards stop */
    bool            stop;
    est_var        *table, *slot;
    int64_t         n;
} updater;

static bool is_stopped(updater *u)
{
    bool stop;

    pthread_mutex_lock(&u->lock);
    stop = u->stop;
    pthread_mutex_unlock(&u->lock);
    return stop;
}

static void *update(void *arg)
{
    updater   *u      = arg;
    est_random random = { .key = SEED };
    int64_t    rows[64];
    float      drawn[64];
    est_view   named = { rows, EST_I64, EST_SHAPE(64), 64 };

    for (; !is_stopped(u); u->n++) {
        est_random_fill_uniform_f32(&random, 64 * u->n, 64, drawn);
        for (int i = 0; i < 64; i++) rows[i] = (int64_t)((double)drawn[i] * (TABLE_ROWS - 1));
        est_cow_keep_indices(u->table, &named);
        est_cow_keep_indices(u->slot, &named);
        for (int i = 0; i < 64; i++) {
            add_to_row(u->table, rows[i]);
            add_to_row(u->slot, rows[i]);
        }
    }
    return NULL;
}

/* Snapshots one after the other while rows change: each is one moment, in which the table and its slot agree. The
 * thread that changes is stopped to begin one, as the thread that the variables belong to would. */
TEST(while_rows_change)
{
    est_store *store   = new_store();
    est_var   *vars[2] = { add(store, "table", EST_I32, EST_SHAPE(TABLE_ROWS, WIDTH)),
                           add(store, "slot", EST_I32, EST_SHAPE(TABLE_ROWS, WIDTH)) };
    updater    u       = { .lock = PTHREAD_MUTEX_INITIALIZER, .table = vars[0], .slot = vars[1] };

    for (int i = 0; i < 5; i++) {
        uint8_t *want = copy_of(vars[0]);
        est_cow *cow;

        ok(est_cow_begin(vars, 2, &cow));
        u.stop = false;
        assert_int_equal(pthread_create(&u.thread, NULL, update, &u), 0);
        expect(cow, 0, vars[0], want);
        expect(cow, 1, vars[1], want);
        pthread_mutex_lock(&u.lock);
        u.stop = true;
        pthread_mutex_unlock(&u.lock);
        pthread_join(u.thread, NULL);
        est_cow_free(cow);
        free(want);
    }
    assert_memory_equal(vars[0]->value.data, vars[1]->value.data, bytes_of(vars[0]));
    est_store_free(store);
}

static void *fill_with_77(void *arg)
{
    est_var *var = arg;

    est_cow_keep_all(var);
    memset(var->value.data, 77, bytes_of(var));
    return NULL;
}

#define BIG_BYTES (3 * EST_COW_BUFFER)

/* All of a variable that is larger than the buffer changes: the change waits for the reader, the buffer stays what it
 * is, and the snapshot is what there was. */
TEST(full)
{
    est_store *store = new_store();
    est_var   *var   = add(store, "big", EST_U8, EST_SHAPE((int64_t)BIG_BYTES));
    uint8_t   *want  = copy_of(var);
    est_cow   *cow;
    pthread_t  changer;
    int64_t    until = est_machine_ns() + 60 * INT64_C(1000000000);

    ok(est_cow_begin(&var, 1, &cow));
    assert_in_range(est_cow_buffer_bytes(cow), EST_COW_BUFFER - 100, EST_COW_BUFFER);
    assert_int_equal(pthread_create(&changer, NULL, fill_with_77, var), 0);
    expect(cow, 0, var, want);
    pthread_join(changer, NULL);
    assert_memory_equal((uint8_t *)var->value.data + BIG_BYTES - 4, "MMMM", 4); /* 77 */
    est_cow_free(cow);

    /* Nobody reads: whoever waits is let go by the end. */
    ok(est_cow_begin(&var, 1, &cow));
    assert_int_equal(pthread_create(&changer, NULL, fill_with_77, var), 0);
    while (est_cow_paused_ns(cow) == 0 && est_machine_ns() < until) (void)sched_yield();
    est_cow_end(cow);
    pthread_join(changer, NULL);
    assert_true(est_cow_paused_ns(cow) > 0);
    est_cow_free(cow);
    free(want);
    est_store_free(store);
}
