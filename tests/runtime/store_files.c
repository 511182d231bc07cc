/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of stores to and from files: shards of one tensor, copies that do not follow the variable, what is refused,
 * and that a failure is no mixture and no leak. */
#include "runtime/store_files.h"

#include "kernels/copy_on_write.h"
#include "ops/ops.h"
#include "support/fault_loop.h"
#include "train/saver_test.h"

#define ROWS 10

static est_store *make_store(void)
{
    est_store *store;

    assert_ok(est_store_create(&store));
    return store;
}

/* Rows [first, first + rows) of the table that counts up. */
static est_store_entry add_shard(est_store *store, const char *name, int64_t first, int64_t rows)
{
    est_var *var;

    assert_ok(est_store_get(store, name, EST_F32, EST_SHAPE(rows, 2), &var));
    for (int64_t i = 0; i < 2 * rows; i++) ((float *)var->value.data)[i] = (float)(2 * first + i);
    var->initialized = true;
    return (est_store_entry){
        .key = "table", .name = name, .dtype = EST_F32, .full = EST_SHAPE(ROWS, 2), .first = first, .rows = rows
    };
}

static void expect_counted(const est_store *store, const est_store_entry *entry)
{
    const est_var *var = est_store_find(store, entry->name);

    assert_true(var->initialized);
    assert_int_equal(var->value.shape.dim[0], entry->rows);
    for (int64_t i = 0; i < 2 * entry->rows; i++) {
        assert_true(((const float *)var->value.data)[i] == (float)(2 * entry->first + i));
    }
}

static void write_part(est_store *store, const est_store_entry *entries, int n, const char *prefix)
{
    est_snapshot *snapshot;

    assert_ok(est_store_snapshot(store, entries, n, &snapshot));
    assert_ok(est_snapshot_write(snapshot, prefix));
    est_snapshot_free(snapshot);
}

/* Written as 7 and 3 rows by two stores, read as a whole, as 4, 4 and 2 rows, and as none. */
TEST(shards)
{
    est_store            *one = make_store(), *two = make_store(), *other = make_store();
    const est_store_entry first = add_shard(one, "table/part_0", 0, 7), second = add_shard(two, "table/part_1", 7, 3);
    const est_store_entry others[] = {
        { .key = "table", .name = "x", .dtype = EST_F32, .full = EST_SHAPE(ROWS, 2), .first = 0, .rows = 4 },
        { .key = "table", .name = "y", .dtype = EST_F32, .full = EST_SHAPE(ROWS, 2), .first = 4, .rows = 4 },
        { .key = "table", .name = "z", .dtype = EST_F32, .full = EST_SHAPE(ROWS, 2), .first = 8, .rows = 2 },
    };
    const char *const parts[] = { at("shards.part0"), at("shards.part1") };
    est_bundle       *bundle;
    est_tensor       *whole;

    write_part(one, &first, 1, parts[0]);
    write_part(two, &second, 1, parts[1]);
    assert_ok(est_bundle_merge(parts, 2, at("shards")));
    assert_ok(est_bundle_open(at("shards"), &bundle));
    assert_int_equal(est_bundle_count(bundle), 1);
    assert_ok(est_bundle_read(bundle, "table", NULL, &whole));
    for (int64_t i = 0; i < 2 * ROWS; i++) assert_true(nn_element(whole, i) == (double)i);
    assert_ok(est_store_verify(bundle, others, 3));
    assert_ok(est_store_restore(other, bundle, others, 3));
    for (int i = 0; i < 3; i++) expect_counted(other, &others[i]);
    est_tensor_free(whole);
    est_bundle_close(bundle);
    est_store_free(one);
    est_store_free(two);
    est_store_free(other);
}

/* What is written is what there was, whoever writes or restores the variable meanwhile; one that was ended is not
 * written. */
TEST(snapshot_stands_still)
{
    est_store            *store = make_store();
    const est_store_entry entry = add_shard(store, "v", 0, ROWS);
    est_snapshot         *snapshot, *other;
    est_bundle           *bundle;
    est_tensor           *fives;
    size_t                buffer;

    assert_ok(est_store_snapshot(store, &entry, 1, &snapshot));
    assert_ok(est_var_write(est_store_find(store, "v"), (const float[2 * ROWS]){ 5 }));
    assert_ok(est_snapshot_write(snapshot, at("still")));
    est_snapshot_free(snapshot);
    assert_ok(est_bundle_open(at("still"), &bundle));
    assert_ok(est_store_snapshot(store, &entry, 1, &snapshot)); /* of what was written over it */
    assert_ok(est_store_restore(store, bundle, &entry, 1));
    expect_counted(store, &entry);
    assert_ok(est_snapshot_write(snapshot, at("fives")));
    est_snapshot_free(snapshot);
    est_bundle_close(bundle);
    assert_ok(est_bundle_open(at("fives"), &bundle));
    assert_ok(est_bundle_read(bundle, "table", NULL, &fives));
    assert_true(nn_element(fives, 0) == 5 && nn_element(fives, 1) == 0);
    est_tensor_free(fives);
    est_bundle_close(bundle);

    assert_ok(est_store_snapshot(store, &entry, 1, &snapshot));
    est_snapshot_end(snapshot);
    assert_int_equal(est_snapshot_write(snapshot, at("ended")), EST_ABORTED);
    assert_null(strstr(names_in(est_test_root), "ended"));
    assert_ok(est_store_snapshot(store, &entry, 1, &other));
    est_store_free(store);
    assert_int_equal(est_snapshot_write(other, at("ended")), EST_ABORTED);
    assert_int_equal(est_snapshot_paused_ns(other, &buffer), 0);
    est_snapshot_free(snapshot);
    est_snapshot_free(other);
}

TEST(snapshot_refused)
{
    est_store      *store = make_store();
    est_store_entry entries[2];
    est_snapshot   *snapshot;

    entries[0]     = add_shard(store, "v", 0, ROWS);
    entries[1]     = add_shard(store, "w", 0, ROWS);
    entries[1].key = "other";
    assert_int_equal(est_store_find_nan(store, entries, 2), -1);
    ((float *)est_store_find(store, "w")->value.data)[2 * ROWS - 1] = NAN;
    assert_int_equal(est_store_find_nan(store, entries, 2), 1);
    assert_ok(est_store_snapshot(store, entries, 2, &snapshot));
    expect_error(est_snapshot_write(snapshot, at("refused")), EST_INVALID_ARGUMENT, "'other' has a NaN");
    est_snapshot_free(snapshot);
    assert_null(strstr(names_in(est_test_root), "refused"));
    est_store_find(store, "w")->initialized = false;
    assert_int_equal(est_store_find_nan(store, entries, 2), -1); /* what has no value has no NaN */
    expect_error(est_store_snapshot(store, entries, 2, &snapshot), EST_FAILED_PRECONDITION, "'w' has no value");
    est_snapshot_free(NULL);
    est_store_free(store);
}

/* What the index tells is known before anything changes. */
TEST(misfits)
{
    est_store            *store = make_store();
    const est_store_entry good  = add_shard(store, "v", 0, ROWS);
    est_store_entry       bad[] = { good, good, good, good };
    est_bundle           *bundle;

    write_part(store, &good, 1, at("misfits"));
    assert_ok(est_bundle_open(at("misfits"), &bundle));
    ((float *)est_store_find(store, "v")->value.data)[0] = 77;
    bad[0].key                                           = "nothing";
    bad[1].full.dim[1]                                   = 3;
    bad[2].dtype                                         = EST_F64;
    bad[3].full.dim[0]                                   = ROWS + 1;
    for (int i = 0; i < 4; i++) {
        est_store_entry entries[] = { good, bad[i] };
        char            name[8];

        snprintf(name, sizeof name, "bad%d", i);
        entries[1].name = name;
        expect_error(est_store_restore(store, bundle, entries, 2), EST_DATA_LOSS, name);
        assert_true(((float *)est_store_find(store, "v")->value.data)[0] == 77);
        assert_true(est_store_find(store, "v")->initialized);
    }
    bad[1].name = "v"; /* of another shape in the store */
    assert_int_equal(est_store_restore(store, bundle, &bad[1], 1), EST_INVALID_ARGUMENT);
    est_bundle_close(bundle);
    est_store_free(store);
}

/* Who does not verify loses what there was, but has no mixture. */
TEST(damage)
{
    est_store      *store = make_store();
    est_store_entry entries[2];
    est_bundle     *bundle;

    entries[0]     = add_shard(store, "a", 0, ROWS);
    entries[1]     = add_shard(store, "b", 0, ROWS);
    entries[1].key = "other";
    write_part(store, entries, 2, at("damage"));
    flip_last_byte(at("damage.data-00000-of-00001"));
    assert_ok(est_bundle_open(at("damage"), &bundle));
    assert_ok(est_store_verify(bundle, entries, 1));
    assert_int_equal(est_store_verify(bundle, entries, 2), EST_DATA_LOSS);
    expect_counted(store, &entries[0]);
    assert_int_equal(est_store_restore(store, bundle, entries, 2), EST_DATA_LOSS);
    assert_false(est_store_find(store, "a")->initialized);
    assert_false(est_store_find(store, "b")->initialized);
    est_bundle_close(bundle);
    est_store_free(store);
}

/* --- rows for keys ------------------------------------------------------------------------------------------------ */

#define KEYS 3

/* The entries of all variables of a store; the caller frees them. */
static est_store_entry *all_entries(const est_store *store, int *n)
{
    est_store_entry *entries = calloc((size_t)est_store_size(store) + 1, sizeof *entries);

    assert_non_null(entries);
    *n = est_store_size(store);
    for (int i = 0; i < *n; i++) {
        entries[i] = est_store_entry_of(store, est_store_at(store, i), est_store_at(store, i)->name);
    }
    return entries;
}

/* An embedding with a slot in which three keys have rows. */
static est_store *make_rows(est_graph **graph, int64_t max)
{
    const est_row_policy policy = { .draw = { .distribution = EST_ROW_NORMAL, .b = 1, .seed = 5 }, .admit_after = 1 };
    const int64_t        keys[] = { 40, -2, INT64_C(1) << 50 };
    est_store           *store  = make_store();
    est_node             weights, slot;
    est_var             *var, *accumulator;
    int64_t              rows[KEYS];

    assert_ok(est_graph_create(1, graph));
    weights = est_row_variable(*graph, "w", EST_SHAPE(max, 2), &policy);
    slot    = est_row_slot(weights, "w/Adagrad", 0.25);
    assert_ok(est_store_variable(store, est_graph_node(*graph, weights.id), &var));
    assert_ok(est_store_variable(store, est_graph_node(*graph, slot.id), &accumulator));
    assert_ok(est_row_table_train(est_row_table_of(var), keys, KEYS, rows));
    ((float *)accumulator->value.data)[3] = 9;
    return store;
}

static void expect_same_rows(const est_store *a, const est_store *b)
{
    assert_int_equal(est_store_size(a), est_store_size(b));
    for (int i = 0; i < est_store_size(a); i++) {
        const est_var *x = est_store_at(a, i), *y = est_store_find(b, x->name);
        est_view       p = est_var_stored(x), q = est_var_stored(y);

        assert_true(x->initialized && y->initialized && est_shape_equal(&p.shape, &q.shape));
        assert_memory_equal(p.data, q.data, (size_t)p.count * est_dtype_size(p.dtype));
    }
}

/* A store that has heard nothing of the embedding makes it as it was; new keys get the same first values. */
TEST(rows)
{
    est_graph       *graph;
    est_store       *store = make_rows(&graph, 8), *other = make_store();
    int              n;
    est_store_entry *entries = all_entries(store, &n);
    est_bundle      *bundle;
    int64_t          row, new_key = 123;

    write_part(store, entries, n, at("rows"));
    assert_ok(est_bundle_open(at("rows"), &bundle));
    assert_int_equal(est_bundle_find(bundle, "w")->shape.dim[0], KEYS); /* no row that no key has */
    assert_ok(est_store_restore(other, bundle, entries, n));
    expect_same_rows(store, other);
    assert_ok(est_row_table_train(est_row_table_of(est_store_find(store, "w")), &new_key, 1, &row));
    assert_ok(est_row_table_train(est_row_table_of(est_store_find(other, "w")), &new_key, 1, &row));
    assert_int_equal(row, KEYS);
    expect_same_rows(store, other);
    free(entries);
    est_bundle_close(bundle);
    est_store_free(store);
    est_store_free(other);
    est_graph_free(graph);
}

/* A step of training with one key that is there and new ones until rows are given away; every sixth step rows leave by
 * age. */
static void train_rows(const est_store *store, int64_t step)
{
    const int64_t keys[] = { 40 + step % 3, 1000 + 3 * step, 1001 + 3 * step, -2, 40 };
    int64_t       rows[5];

    assert_ok(est_row_table_train(est_row_table_of(est_store_find(store, "w")), keys, 5, rows));
    for (int i = 0; i < 5; i++) {
        if (rows[i] < 0) continue;
        est_cow_keep_rows(est_store_find(store, "w/Adagrad"), rows[i], 1);
        ((float *)est_store_find(store, "w/Adagrad")->value.data)[2 * rows[i]] += 1;
    }
}

/* Many keys with rows in many lines: in each step some that are there, in no order, one that is new, and some that
 * leave by age. */
static void train_many_rows(const est_store *store, int64_t step)
{
    int64_t keys[6], rows[6];

    for (int64_t i = 0; i < 6; i++) keys[i] = i == 0 ? 1000 + step : (97 * step + 61 * i) % 250;
    assert_ok(est_row_table_train(est_row_table_of(est_store_find(store, "w")), keys, 6, rows));
}

/* Keys come and go while a snapshot is written: it has the keys and rows of its moment, which are a set. */
static void compare_rows(est_store *store, int64_t steps, void (*train)(const est_store *store, int64_t step))
{
    for (int64_t step = 0; step < steps; step++) {
        int              n;
        est_store_entry *entries = all_entries(store, &n);
        est_store       *then = make_store(), *late = make_store();
        est_snapshot    *snapshot;
        est_bundle      *bundle;

        write_part(store, entries, n, at("then"));
        assert_ok(est_store_snapshot(store, entries, n, &snapshot));
        train(store, step);
        assert_ok(est_snapshot_write(snapshot, at("late")));
        est_snapshot_free(snapshot);
        assert_ok(est_bundle_open(at("then"), &bundle));
        assert_ok(est_store_restore(then, bundle, entries, n));
        est_bundle_close(bundle);
        assert_ok(est_bundle_open(at("late"), &bundle));
        assert_ok(est_store_restore(late, bundle, entries, n));
        est_bundle_close(bundle);
        expect_same_rows(then, late);
        est_store_free(then);
        est_store_free(late);
        free(entries);
    }
}

TEST(rows_while_keys_change)
{
    est_graph *graph, *many_graph;
    est_store *store = make_rows(&graph, 8), *many = make_rows(&many_graph, 300);

    est_row_table_of(est_store_find(store, "w"))->max_age     = 6;
    est_row_table_of(est_store_find(store, "w"))->admit_after = 2;
    compare_rows(store, 40, train_rows);
    est_row_table_of(est_store_find(many, "w"))->max_age = 60;
    for (int64_t step = 0; step < 100; step++) train_many_rows(many, step);
    compare_rows(many, 40, train_many_rows);
    est_store_free(store);
    est_store_free(many);
    est_graph_free(graph);
    est_graph_free(many_graph);
}

/* A table that a failed restore has made does not count as one with values; one that was there has no keys then. */
TEST(rows_damaged)
{
    est_graph       *graph;
    est_store       *store = make_rows(&graph, 8), *other = make_store();
    int              n;
    est_store_entry *entries = all_entries(store, &n);
    est_bundle      *bundle;

    write_part(store, entries, n, at("spoiled"));
    flip_last_byte(at("spoiled.data-00000-of-00001"));
    assert_ok(est_bundle_open(at("spoiled"), &bundle));
    assert_int_equal(est_store_restore(other, bundle, entries, n), EST_DATA_LOSS);
    assert_int_equal(est_store_size(other), n);
    for (int i = 0; i < n; i++) assert_false(est_store_at(other, i)->initialized);
    assert_int_equal(est_store_restore(store, bundle, entries, n), EST_DATA_LOSS);
    assert_int_equal(est_store_find(store, "w")->rows->n, 0);
    est_bundle_close(bundle);

    flip_last_byte(at("spoiled.data-00000-of-00001"));
    assert_ok(est_bundle_open(at("spoiled"), &bundle));
    assert_ok(est_store_restore(store, bundle, entries, n));
    assert_ok(est_store_restore(other, bundle, entries, n));
    expect_same_rows(store, other);
    free(entries);
    est_bundle_close(bundle);
    est_store_free(store);
    est_store_free(other);
    est_graph_free(graph);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static est_status there_and_back(est_store *from, est_store *to, const est_store_entry *entries, int n)
{
    est_snapshot *snapshot;
    est_bundle   *bundle;
    est_status    status;

    EST_TRY(est_store_snapshot(from, entries, n, &snapshot));
    status = est_snapshot_write(snapshot, at("failing"));
    est_snapshot_free(snapshot);
    EST_TRY(status);
    EST_TRY(est_bundle_open(at("failing"), &bundle));
    status = est_store_restore(to, bundle, entries, n);
    est_bundle_close(bundle);
    return status;
}

/* Every allocation fails once; nothing leaks. */
TEST(no_memory)
{
    est_graph       *graph;
    est_store       *store = make_rows(&graph, 8);
    int              n;
    est_store_entry *entries = all_entries(store, &n);
    FAULT_LOOP(f, FAULT_ALLOCATIONS) {
        est_store *other = make_store();
        est_status status;

        fault_arm(&f);
        status = there_and_back(store, other, entries, n);
        fault_check_lenient(&f, status);
        est_store_free(other);
        assert_true(f.n < 2000);
    }
    free(entries);
    est_store_free(store);
    est_graph_free(graph);
}

int main(void)
{
    return est_test_run(est_test_root_make, est_test_root_remove);
}
