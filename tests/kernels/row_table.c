/* SPDX-License-Identifier: Apache-2.0
 *
 * Row tables: who is admitted, who leaves, whose row is given away, and that first values depend on the key alone. The
 * rules are checked against a plain list that is searched from end to end, the index against a million keys, and a
 * rollback against what was there before, bit by bit, also by a snapshot that is read meanwhile. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kernels/copy_on_write.h"
#include "ops/ops.h"
#include "runtime/store.h"
#include "support/fault_loop.h"
#include "support/test.h"

#define WIDTH 3

/* --- a table ------------------------------------------------------------------------------------------------------ */

typedef struct fixture {
    est_graph     *graph;
    est_store     *store;
    est_var       *weights, *slot;
    est_row_table *table;
} fixture;

static void ok(est_status status)
{
    if (status != EST_OK) fail_msg("%s: %s", est_status_name(status), est_error_message());
}

static est_status open_table(fixture *t, int64_t max_rows, int64_t admit_after, int64_t max_age)
{
    est_row_policy policy = { .draw        = { .distribution = EST_ROW_NORMAL, .a = 1, .b = 0.5, .seed = 7 },
                              .admit_after = admit_after,
                              .max_age     = max_age };
    est_node       weights, slot;

    *t = (fixture){ 0 };
    EST_TRY(est_graph_create(1, &t->graph));
    weights = est_row_variable(t->graph, "w", EST_SHAPE(max_rows, WIDTH), &policy);
    slot    = est_row_slot(weights, "w/Adagrad", 0.25);
    EST_TRY(est_graph_status(t->graph));
    EST_TRY(est_store_create(&t->store));
    EST_TRY(est_store_variable(t->store, est_graph_node(t->graph, weights.id), &t->weights));
    EST_TRY(est_store_variable(t->store, est_graph_node(t->graph, slot.id), &t->slot));
    t->table = est_row_table_of(t->weights);
    return EST_OK;
}

static void close_table(fixture *t)
{
    est_store_free(t->store);
    est_graph_free(t->graph);
}

static fixture table_of(int64_t max_rows, int64_t admit_after, int64_t max_age)
{
    fixture t;

    ok(open_table(&t, max_rows, admit_after, max_age));
    return t;
}

static void train(fixture *t, const int64_t *keys, int64_t n, int64_t *rows)
{
    ok(est_row_table_train(t->table, keys, n, rows));
    est_row_table_commit(t->table);
}

static int64_t train_one(fixture *t, int64_t key)
{
    int64_t row;

    train(t, &key, 1, &row);
    return row;
}

static int64_t find(const fixture *t, int64_t key)
{
    int64_t row;

    est_key_rows_find(&t->table->rows, &key, 1, &row);
    return row;
}

static float *weights_of(const fixture *t, int64_t row)
{
    return (float *)t->weights->value.data + row * WIDTH;
}

/* --- the rules, one by one ---------------------------------------------------------------------------------------- */

TEST(admitted_at_the_nth_sighting)
{
    fixture       t       = table_of(100, 3, 0);
    const int64_t keys[6] = { 5, -1, 5, 5, INT64_MIN, 5 };
    int64_t       rows[6];

    train(&t, keys, 6, rows);
    assert_int_equal(rows[0], -1);
    assert_int_equal(rows[1], -1);
    assert_int_equal(rows[2], -1);
    assert_int_equal(rows[3], 0); /* the third time */
    assert_int_equal(rows[4], -1);
    assert_int_equal(rows[5], 0);
    assert_int_equal(find(&t, -1), -1);
    assert_int_equal(train_one(&t, -1), -1);
    assert_int_equal(t.table->candidates.n, 2);
    assert_int_equal(train_one(&t, -1), 1); /* every integer is a key */
    assert_int_equal(t.table->candidates.n, 1);
    assert_int_equal(find(&t, 5), 0);
    close_table(&t);
}

TEST(looking_counts_nothing)
{
    fixture t = table_of(100, 2, 1);

    assert_int_equal(train_one(&t, 9), -1);
    for (int i = 0; i < 10; i++) assert_int_equal(find(&t, 9), -1);
    assert_int_equal(train_one(&t, 9), 0);
    assert_int_equal(*t.table->steps, 2);
    close_table(&t);
}

TEST(old_keys_leave)
{
    fixture t = table_of(100, 1, 2);
    float   last[WIDTH];

    for (int64_t key = 10; key < 14; key++) assert_int_equal(train_one(&t, key), key == 13 ? 2 : key - 10);
    /* In step 4 the key of step 1 had not been seen in steps 2 and 3. The last row, that of 12, took its place. */
    assert_int_equal(find(&t, 10), -1);
    assert_int_equal(find(&t, 12), 0);
    assert_int_equal(find(&t, 11), 1);
    memcpy(last, weights_of(&t, 2), sizeof last);
    assert_int_equal(train_one(&t, 12), 0); /* step 5: 11 leaves, the row of 13 moves with what is in it */
    assert_int_equal(find(&t, 11), -1);
    assert_int_equal(find(&t, 13), 1);
    assert_memory_equal(weights_of(&t, 1), last, sizeof last);
    assert_int_equal(t.table->rows.n, 2);
    close_table(&t);
}

TEST(full_table_gives_the_oldest_row_away)
{
    fixture       t       = table_of(3, 1, 0);
    const int64_t four[4] = { 20, 21, 22, 23 };
    int64_t       rows[4];

    for (int64_t key = 1; key < 4; key++) assert_int_equal(train_one(&t, key), key - 1);
    assert_int_equal(train_one(&t, 1), 0);
    weights_of(&t, 1)[0]                 = 99;
    ((float *)t.slot->value.data)[WIDTH] = 99;
    assert_int_equal(train_one(&t, 4), 1); /* 2 was not seen for longest */
    assert_int_equal(find(&t, 2), -1);
    assert_true(weights_of(&t, 1)[0] != 99); /* and nothing of it is left */
    assert_true(((float *)t.slot->value.data)[WIDTH] == 0.25f);
    train(&t, four, 4, rows);
    assert_int_equal(rows[3], -1); /* no row that this step has used */
    for (int i = 0; i < 3; i++) assert_int_equal(find(&t, four[i]), rows[i]);
    close_table(&t);
}

TEST(first_values_depend_on_the_key)
{
    fixture t = table_of(1000, 1, 0), u = table_of(10, 1, 0);

    for (int64_t key = 0; key < 900; key++) (void)train_one(&t, key * key - 1000);
    (void)train_one(&u, 3);
    (void)train_one(&u, 899 * 899 - 1000);
    assert_memory_equal(weights_of(&u, 1), weights_of(&t, 899), WIDTH * sizeof(float));
    assert_memory_not_equal(weights_of(&u, 0), weights_of(&u, 1), sizeof(float));
    assert_true(weights_of(&t, 5)[0] != weights_of(&t, 5)[1]);
    close_table(&t);
    close_table(&u);
}

/* --- all rules together, against a list --------------------------------------------------------------------------- */

#define LIST_MAX 64

typedef struct listed {
    int64_t key, seen, count;
} listed;

/* Oldest first. */
typedef struct list {
    listed at[LIST_MAX];
    int    n;
} list;

static int list_find(const list *l, int64_t key)
{
    for (int i = 0; i < l->n; i++) {
        if (l->at[i].key == key) return i;
    }
    return -1;
}

static listed list_take(list *l, int i)
{
    listed taken = l->at[i];

    memmove(l->at + i, l->at + i + 1, sizeof *l->at * (size_t)(--l->n - i));
    return taken;
}

static void list_age(list *l, int64_t step, int64_t max_age)
{
    while (l->n > 0 && step - l->at[0].seen > max_age) (void)list_take(l, 0);
}

static bool list_see(list *rows, list *candidates, int64_t key, int64_t step, int max_rows, int64_t admit_after)
{
    int    i     = list_find(rows, key);
    listed entry = { .key = key };

    if (i >= 0) {
        entry = list_take(rows, i);
    } else {
        i = list_find(candidates, key);
        if (i >= 0) entry = list_take(candidates, i);
        entry.seen = step;
        if (++entry.count < admit_after) {
            candidates->at[candidates->n++] = entry;
            return false;
        }
        if (rows->n == max_rows && rows->at[0].seen == step) return false;
        if (rows->n == max_rows) (void)list_take(rows, 0);
    }
    entry.seen          = step;
    rows->at[rows->n++] = entry;
    return true;
}

/* The table has the keys of the list, in its order. */
static void compare(const est_key_rows *set, const list *l)
{
    int32_t row = set->oldest;

    assert_int_equal(set->n, l->n);
    for (int i = 0; i < l->n; i++, row = set->newer[row]) {
        int64_t found;

        assert_int_equal(set->keys[row], l->at[i].key);
        assert_int_equal(set->seen[row], l->at[i].seen);
        est_key_rows_find(set, &l->at[i].key, 1, &found);
        assert_int_equal(found, row);
    }
    assert_int_equal(row, -1);
}

TEST(against_a_list)
{
    enum { MAX_ROWS = 20, KEYS = 60, STEPS = 3000, BATCH = 40 };
    fixture    t    = table_of(MAX_ROWS, 3, 6);
    list       rows = { 0 }, candidates = { 0 };
    est_random random = { .key = 3 };

    for (int64_t step = 1; step <= STEPS; step++) {
        int64_t keys[BATCH], found[BATCH], n;

        est_random_fill_int_i64(&random, step * 64, 1, 0, BATCH, &n);
        est_random_fill_int_i64(&random, step * 64 + 2, n, 0, step % 3 == 0 ? KEYS : KEYS / 4, keys);
        list_age(&rows, step, 6);
        list_age(&candidates, step, 6);
        train(&t, keys, n, found);
        for (int64_t i = 0; i < n; i++) {
            bool there = list_see(&rows, &candidates, keys[i], step, MAX_ROWS, 3);

            assert_int_equal(found[i] >= 0, there);
            if (there && list_find(&rows, keys[i]) >= 0) assert_int_equal(find(&t, keys[i]), found[i]);
        }
        compare(&t.table->rows, &rows);
        compare(&t.table->candidates, &candidates);
    }
    close_table(&t);
}

/* --- steps that are not made -------------------------------------------------------------------------------------- */

/* All that a set is: its rows in all variables, and its list in both directions. */
static size_t copy_set(const est_key_rows *set, char *out)
{
    size_t at = 0;

    for (int i = 0; i < set->n_vars; i++) {
        est_view stored = est_var_stored(set->vars[i]);
        size_t   bytes  = (size_t)stored.count * est_dtype_size(stored.dtype);

        if (bytes > 0) memcpy(out + at, stored.data, bytes);
        at += bytes;
    }
    if (set->n > 0) memcpy(out + at, set->newer, (size_t)set->n * sizeof *set->newer);
    at += (size_t)set->n * sizeof *set->newer;
    memcpy(out + at, (const int32_t[]){ set->oldest, set->newest }, 2 * sizeof(int32_t));
    return at + 2 * sizeof(int32_t);
}

static size_t copy_table(const est_row_table *table, char *out)
{
    size_t bytes = copy_set(&table->rows, out);

    bytes += copy_set(&table->candidates, out + bytes);
    memcpy(out + bytes, table->steps, sizeof *table->steps);
    return bytes + sizeof *table->steps;
}

static void expect_index(const est_key_rows *set)
{
    for (int64_t i = 0; i < set->n; i++) {
        int64_t row;

        est_key_rows_find(set, &set->keys[i], 1, &row);
        assert_int_equal(row, i);
    }
}

/* Steps of all kinds are begun, one or two of them, and rolled back; then the last is made. Ages and evictions are in
 * all of them, and rows have been trained, so that first values in their place would be noticed. */
TEST(rolled_back)
{
    enum { MAX_ROWS = 20, KEYS = 60, STEPS = 2000, BATCH = 40, BYTES = 1 << 16 };
    fixture    t = table_of(MAX_ROWS, 3, 6), once = table_of(MAX_ROWS, 3, 6);
    est_random random = { .key = 5 };
    char      *before = est_alloc(BYTES), *after = est_alloc(BYTES);
    int64_t    evicted = 0;

    for (int64_t step = 1; step <= STEPS; step++) {
        int64_t keys[BATCH], rows[BATCH], again[BATCH], n;
        size_t  bytes = copy_table(t.table, before);

        est_random_fill_int_i64(&random, step * 64, 1, 0, BATCH, &n);
        est_random_fill_int_i64(&random, step * 64 + 2, n, 0, step % 3 == 0 ? KEYS : KEYS / 4, keys);
        ok(est_row_table_train(t.table, keys, n, rows));
        if (step % 5 == 0) ok(est_row_table_train(t.table, keys, n / 2, rows));
        evicted += t.table->log.bytes > 0;
        est_row_table_rollback(t.table);
        assert_true(bytes < BYTES);
        assert_int_equal(copy_table(t.table, after), bytes);
        assert_memory_equal(before, after, bytes);
        expect_index(&t.table->rows);
        expect_index(&t.table->candidates);
        train(&t, keys, n, rows);
        train(&once, keys, n, again);
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(rows[i], again[i]);
            if (rows[i] < 0) continue;
            weights_of(&t, rows[i])[0]    = (float)step;
            weights_of(&once, rows[i])[0] = (float)step;
        }
    }
    assert_true(evicted > STEPS / 4);
    assert_int_equal(copy_table(t.table, before), copy_table(once.table, after));
    assert_memory_equal(before, after, copy_table(t.table, before));
    est_free(before);
    est_free(after);
    close_table(&t);
    close_table(&once);
}

/* --- beside the reader of a snapshot ------------------------------------------------------------------------------ */

enum { SNAPSHOT_VARS = 16, SNAPSHOT_BYTES = 1 << 12 };

typedef struct snapshot {
    est_cow *cow;
    est_var *vars[SNAPSHOT_VARS];
    size_t   bytes[SNAPSHOT_VARS];
    char     want[SNAPSHOT_VARS][SNAPSHOT_BYTES], got[SNAPSHOT_VARS][SNAPSHOT_BYTES];
    int      n;
} snapshot;

static void list_set(const est_key_rows *set, snapshot *s)
{
    for (int i = 0; i < set->n_vars; i++, s->n++) {
        est_view stored = est_var_stored(set->vars[i]);

        assert_true(s->n < SNAPSHOT_VARS);
        s->vars[s->n]  = set->vars[i];
        s->bytes[s->n] = (size_t)stored.count * est_dtype_size(stored.dtype);
        assert_true(s->bytes[s->n] <= SNAPSHOT_BYTES);
        memcpy(s->want[s->n], stored.data, s->bytes[s->n]);
    }
}

static void begin_snapshot(const est_row_table *table, snapshot *s)
{
    s->n = 0;
    list_set(&table->rows, s);
    list_set(&table->candidates, s);
    ok(est_cow_begin(s->vars, s->n, &s->cow));
}

static void *read_snapshot(void *arg)
{
    snapshot *s = arg;

    for (int i = 0; i < s->n; i++) ok(est_cow_read(s->cow, i, 0, s->bytes[i], s->got[i]));
    return NULL;
}

static void end_snapshot(snapshot *s)
{
    for (int i = 0; i < s->n; i++) assert_memory_equal(s->got[i], s->want[i], s->bytes[i]);
    est_cow_free(s->cow);
}

/* The keys of a step: by turns the key that was seen last, the candidate of the last row, none, for which old keys
 * leave, and many. The shortest steps change least, and a rollback that announces nothing is not hidden by the locks of
 * other changes. */
static int64_t draw_keys(const est_row_table *table, int64_t step, int64_t keys[40])
{
    est_random random = { .key = 9 };

    switch (step / 3 % 4) {
    case 0: keys[0] = table->rows.n > 0 ? table->rows.keys[table->rows.newest] : 0; return 1;
    case 1: keys[0] = table->candidates.n > 0 ? table->candidates.keys[table->candidates.n - 1] : 0; return 1;
    case 2: return 0;
    default: est_random_fill_int_i64(&random, step * 64, 40, 0, step % 2 == 0 ? 60 : 15, keys); return 40;
    }
}

/* Two of three steps are rolled back while the snapshot of the commit before is read in another thread. */
TEST(rolled_back_beside_a_snapshot)
{
    enum { STEPS = 1200 };
    static snapshot s;
    fixture         t       = table_of(20, 2, 6);
    int64_t         evicted = 0, aged = 0;

    for (int64_t step = 0; step < STEPS; step++) {
        int64_t   keys[40], rows[40], n = draw_keys(t.table, step, keys);
        pthread_t reader;

        begin_snapshot(t.table, &s);
        ok(est_row_table_train(t.table, keys, n, rows));
        aged += n == 0 && t.table->log.bytes > 0;
        evicted += n > 1 && t.table->log.bytes > 0;
        assert_int_equal(pthread_create(&reader, NULL, read_snapshot, &s), 0);
        if (step % 3 != 2) {
            est_row_table_rollback(t.table);
        } else {
            for (int64_t i = 0; i < n; i++) {
                if (rows[i] < 0) continue;
                est_cow_keep_rows(t.weights, rows[i], 1);
                weights_of(&t, rows[i])[0] = (float)step;
            }
            est_row_table_commit(t.table);
        }
        pthread_join(reader, NULL);
        end_snapshot(&s);
    }
    assert_true(evicted > STEPS / 8);
    assert_true(aged > 0);
    close_table(&t);
}

/* --- many keys ---------------------------------------------------------------------------------------------------- */

TEST(a_million_keys)
{
    enum { N = 1000000, BATCH = 10000 };
    fixture    t      = table_of(N, 1, 0);
    est_random random = { .key = 11 };
    int64_t   *keys = est_alloc(N * sizeof *keys), *rows = est_alloc(N * sizeof *rows);

    est_random_fill_int_i64(&random, 0, N, INT64_MIN, INT64_MAX, keys); /* all different, but for an odd chance */
    for (int64_t i = 0; i < N; i += BATCH) train(&t, keys + i, BATCH, rows + i);
    for (int64_t i = 0; i < N; i++) assert_int_equal(rows[i], i);
    assert_int_equal(t.table->rows.n, N);
    for (int64_t i = 0; i < N; i += 2) est_key_rows_remove(&t.table->rows, (int32_t)find(&t, keys[i]));
    assert_int_equal(t.table->rows.n, N / 2);
    for (int64_t i = 0; i < N; i++) {
        int64_t row = find(&t, keys[i]);

        assert_int_equal(row >= 0, i % 2 == 1);
        if (row >= 0) assert_int_equal(t.table->rows.keys[row], keys[i]);
    }
    est_free(keys);
    est_free(rows);
    close_table(&t);
}

/* --- what was read may be anything -------------------------------------------------------------------------------- */

static void expect_damage(fixture *t, int64_t n)
{
    assert_int_equal(est_key_rows_restore(&t->table->rows, n), EST_DATA_LOSS);
    assert_int_equal(t->table->rows.n, 0);
    assert_int_equal(find(t, 1), -1);
}

TEST(restored_or_refused)
{
    fixture       t   = table_of(10, 1, 0);
    est_key_rows *set = &t.table->rows;

    for (int64_t key = 1; key <= 4; key++) (void)train_one(&t, key);
    (void)train_one(&t, 2);
    ok(est_key_rows_restore(set, 4)); /* what is there makes the same set again */
    assert_int_equal(find(&t, 4), 3);
    assert_int_equal(set->oldest, 0);
    assert_int_equal(set->newest, 1);
    assert_int_equal(set->newer[0], 2);
    set->keys[3] = 1; /* twice */
    expect_damage(&t, 4);
    set->keys[3] = 4;
    ok(est_key_rows_restore(set, 4));
    set->older[2] = 3; /* a circle */
    expect_damage(&t, 4);
    set->older[2] = 7; /* a row that is not there */
    expect_damage(&t, 4);
    set->older[2] = -2;
    expect_damage(&t, 4);
    set->older[2] = -1; /* two first ones */
    expect_damage(&t, 4);
    set->older[2] = 0;
    set->seen[0]  = 100; /* out of order */
    expect_damage(&t, 4);
    ok(est_key_rows_restore(set, 0));
    assert_int_equal(set->oldest, -1);
    assert_int_equal(train_one(&t, 77), 0);
    close_table(&t);
}

/* Keys without when they were seen are all as new, but not in a snapshot of before. */
TEST(all_seen)
{
    static snapshot s;
    fixture         t = table_of(10, 1, 0);

    for (int64_t key = 1; key <= 4; key++) (void)train_one(&t, key);
    (void)train_one(&t, 2);
    begin_snapshot(t.table, &s);
    est_key_rows_see_all(&t.table->rows, 4, 50);
    ok(est_key_rows_restore(&t.table->rows, 4));
    (void)read_snapshot(&s);
    end_snapshot(&s);
    assert_int_equal(t.table->rows.newest, 3);
    for (int i = 0; i < 4; i++) assert_int_equal(t.table->rows.seen[i], 50);
    close_table(&t);
}

/* Another session gets the keys and rows that this one has, if it has room. */
TEST(copied)
{
    static snapshot s;
    fixture         t = table_of(10, 2, 0), u = table_of(5, 2, 0), small = table_of(2, 2, 0);

    for (int64_t key = 1; key <= 4; key++) {
        (void)train_one(&t, key);
        if (key != 2) (void)train_one(&t, key);
    }
    weights_of(&t, 1)[2] = 42;
    (void)train_one(&u, 8);
    (void)train_one(&u, 8); /* goes */
    begin_snapshot(u.table, &s);
    ok(est_store_copy_rows(u.store, t.store));
    (void)read_snapshot(&s);
    end_snapshot(&s); /* the key 8 was there when it began */
    assert_int_equal(u.table->rows.n, 3);
    assert_int_equal(u.table->candidates.n, 1);
    assert_int_equal(find(&u, 8), -1);
    assert_int_equal(find(&u, 3), 1);
    assert_true(weights_of(&u, 1)[2] == 42);
    assert_int_equal(train_one(&u, 2), 3); /* seen for the second time */
    assert_int_equal(est_store_copy_rows(small.store, t.store), EST_INVALID_ARGUMENT);
    assert_int_equal(small.table->rows.n, 0);
    close_table(&t);
    close_table(&u);
    close_table(&small);
}

/* --- no memory ---------------------------------------------------------------------------------------------------- */

static est_status use_table(void)
{
    fixture    t;
    int64_t    keys[100], rows[100];
    est_status status = open_table(&t, 1000, 2, 0);

    for (int64_t i = 0; i < 100; i++) keys[i] = i % 50;
    for (int step = 0; step < 3 && status == EST_OK; step++) {
        int64_t before = *t.table->steps;

        status = est_row_table_train(t.table, keys, 100, rows);
        est_row_table_commit(t.table);
        if (status != EST_OK) assert_int_equal(*t.table->steps, before);
    }
    close_table(&t);
    return status;
}

TEST(no_memory)
{
    FAULT_LOOP(f, FAULT_ALLOCATIONS, .more_than = 19) {
        est_status status;

        fault_arm(&f);
        status = use_table();
        fault_check(&f, status);
    }
}
