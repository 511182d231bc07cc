/* SPDX-License-Identifier: Apache-2.0
 *
 * The accumulated pushes of several workers, against sums worked out here in double. */
#include "cluster/accumulator.h"
#include "base/fault.h"
#include "ops/ops.h"
#include "support/fault_loop.h"
#include "support/nn_test.h"

/* --- a segment that takes these inputs ---------------------------------------------------------------------------- */

#define IN_MAX 5

typedef struct fixture {
    est_graph       *graph;
    est_host        *host;
    est_accumulator *accumulator;
    int              segment;
    est_node         in[IN_MAX], update[2];
    int              n_in, n_updates;
} fixture;

static fixture begin(void)
{
    fixture f = { 0 };

    assert_ok(est_graph_create(1, &f.graph));
    assert_ok(est_host_create(1, &f.host));
    return f;
}

static est_node input(fixture *f, est_dtype dtype, est_shape shape)
{
    char name[16];

    snprintf(name, sizeof name, "in%d", f->n_in);
    f->in[f->n_in] = est_placeholder(f->graph, name, dtype, shape);
    return f->in[f->n_in++];
}

static void update(fixture *f, const char *op, est_nodes in, est_attrs attrs)
{
    f->update[f->n_updates++] = est_build(f->graph, est_op_find(op), in, attrs);
}

static void enter(fixture *f)
{
    est_wire_writer bytes   = { 0 };
    est_segment     segment = { .graph  = f->graph,
                                .writes = true,
                                .io     = {
                                        .feeds = f->in, .n_feeds = f->n_in, .targets = f->update, .n_targets = f->n_updates } };

    assert_ok(est_graph_status(f->graph));
    assert_ok(est_segment_encode(&segment, &bytes));
    assert_ok(est_host_enter(f->host, bytes.data, bytes.size, &f->segment));
    assert_int_equal(est_host_inputs(f->host, f->segment), f->n_in);
    assert_ok(est_accumulator_create(f->host, f->segment, &f->accumulator));
    est_wire_writer_clear(&bytes);
}

static void end(fixture *f)
{
    est_accumulator_free(f->accumulator);
    est_host_free(f->host);
    est_graph_free(f->graph);
}

static est_view view_of(est_dtype dtype, est_shape shape, void *data)
{
    return (est_view){ .dtype = dtype, .shape = shape, .data = data, .count = est_shape_count(&shape) };
}

#define F32(...) ((float[]){ __VA_ARGS__ })
#define I64(...) ((int64_t[]){ __VA_ARGS__ })
#define I32(...) ((int32_t[]){ __VA_ARGS__ })
#define ADD_OF(f, who, ...)                                                                                            \
    est_accumulator_add((f)->accumulator, who, (const est_view[]){ __VA_ARGS__ },                                      \
                        (int)(sizeof((const est_view[]){ __VA_ARGS__ }) / sizeof(est_view)))
#define ADD(f, ...) ADD_OF(f, 1, __VA_ARGS__)

static void expect(const est_tensor *got, est_dtype dtype, est_shape shape, const void *data)
{
    assert_int_equal(est_tensor_dtype(got), dtype);
    assert_true(est_shape_equal(est_tensor_shape(got), &shape));
    if (est_tensor_bytes(got) > 0) assert_memory_equal(est_tensor_data(got), data, est_tensor_bytes(got));
}

/* A variable with its learning rate and its dense gradient: in0, in1. */
static fixture dense(void)
{
    fixture  f     = begin();
    est_node w     = est_variable(f.graph, "w", EST_F32, EST_SHAPE(2, 2));
    est_node alpha = input(&f, EST_F32, EST_SHAPE_SCALAR), delta = input(&f, EST_F32, EST_SHAPE(2, 2));

    update(&f, "ResourceApplyGradientDescent", EST_NODES(w, alpha, delta), EST_ATTRS(est_attr_type("T", EST_F32)));
    enter(&f);
    return f;
}

/* A table with rows that are pushed for indices: in0, in1, in2; and a second table with the same indices: in3. */
static fixture sparse(est_dtype dtype, est_dtype indices, bool twice)
{
    fixture  f   = begin();
    est_node lr  = input(&f, dtype, EST_SHAPE_SCALAR);
    est_node ids = input(&f, indices, EST_SHAPE(-1)), rows = input(&f, dtype, EST_SHAPE(-1, 2));

    update(&f, "ResourceSparseApplyAdagrad",
           EST_NODES(est_variable(f.graph, "table", dtype, EST_SHAPE(10, 2)),
                     est_variable(f.graph, "sums", dtype, EST_SHAPE(10, 2)), lr, rows, ids),
           EST_ATTRS(est_attr_type("T", dtype), est_attr_type("Tindices", indices)));
    if (twice) {
        update(&f, "ResourceScatterAdd",
               EST_NODES(est_variable(f.graph, "more", dtype, EST_SHAPE(10)), ids, input(&f, dtype, EST_SHAPE(-1))),
               EST_ATTRS(est_attr_type("dtype", dtype), est_attr_type("Tindices", indices)));
    }
    enter(&f);
    return f;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

TEST(dense)
{
    fixture                  f = dense();
    const est_tensor *const *mean;

    for (int round = 0; round < 2; round++) { /* memory is used again */
        assert_int_equal(est_accumulator_count(f.accumulator), 0);
        assert_ok(
            ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, F32(0.5F)), view_of(EST_F32, EST_SHAPE(2, 2), F32(1, 2, 3, 4))));
        assert_ok(ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, F32(0.25F)),
                      view_of(EST_F32, EST_SHAPE(2, 2), F32(3, -2, 1, 8))));
        assert_int_equal(est_accumulator_count(f.accumulator), 2);
        assert_ok(est_accumulator_mean(f.accumulator, &mean));
        for (int again = 0; again < 2; again++) {                   /* asked for twice it is the same */
            expect(mean[0], EST_F32, EST_SHAPE_SCALAR, F32(0.25F)); /* of whoever came last */
            expect(mean[1], EST_F32, EST_SHAPE(2, 2), F32(2, 0, 2, 6));
            assert_ok(ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, F32(9)),
                          view_of(EST_F32, EST_SHAPE(2, 2), F32(9, 9, 9, 9)))); /* too late */
            assert_int_equal(est_accumulator_count(f.accumulator), 2);
            assert_ok(est_accumulator_mean(f.accumulator, &mean));
        }
        est_accumulator_reset(f.accumulator);
    }
    end(&f);
}

/* An update of a name and with arguments that nothing else knows. */
static const est_op new_update = {
    .name      = "NewUpdate",
    .signature = "w: resource, rate: T, direction: T -> (); T: {float32, float64}",
    .stateful  = true,
    .writes    = 1u << 0,
    .update    = EST_UPDATE(.gradient = 2),
};

TEST(new_update)
{
    fixture                  f     = dense();
    const est_graph         *graph = est_host_graph(f.host, f.segment);
    const est_tensor *const *mean;

    for (int32_t id = 0; id < est_graph_size(graph); id++) {
        if (est_graph_node(graph, id)->op->writes != 0) est_graph_node(graph, id)->op = &new_update;
    }
    est_accumulator_free(f.accumulator);
    assert_ok(est_accumulator_create(f.host, f.segment, &f.accumulator));
    for (int i = 1; i <= 2; i++) {
        assert_ok(ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, F32(0.5F)),
                      view_of(EST_F32, EST_SHAPE(2, 2), F32((float)i, 2, 3, 4))));
    }
    assert_ok(est_accumulator_mean(f.accumulator, &mean));
    expect(mean[1], EST_F32, EST_SHAPE(2, 2), F32(1.5F, 2, 3, 4));
    end(&f);
}

/* The global step moves by what one adds, however many come. */
TEST(counts)
{
    fixture                  f = begin();
    const est_tensor *const *mean;

    update(&f, "AssignAddVariableOp",
           EST_NODES(est_variable(f.graph, "global_step", EST_I64, EST_SHAPE_SCALAR),
                     input(&f, EST_I64, EST_SHAPE_SCALAR)),
           EST_ATTRS(est_attr_type("dtype", EST_I64)));
    update(&f, "AssignAddVariableOp",
           EST_NODES(est_variable(f.graph, "total", EST_F64, EST_SHAPE_SCALAR), input(&f, EST_F64, EST_SHAPE_SCALAR)),
           EST_ATTRS(est_attr_type("dtype", EST_F64)));
    enter(&f);
    for (int i = 1; i <= 3; i++) {
        assert_ok(
            ADD(&f, view_of(EST_I64, EST_SHAPE_SCALAR, I64(1)), view_of(EST_F64, EST_SHAPE_SCALAR, ((double[]){ i }))));
    }
    assert_ok(est_accumulator_mean(f.accumulator, &mean));
    expect(mean[0], EST_I64, EST_SHAPE_SCALAR, I64(1));
    expect(mean[1], EST_F64, EST_SHAPE_SCALAR, ((double[]){ 2 }));
    end(&f);
}

/* Rows of two workers, some in both and some twice in one; every row is divided by the number of workers. */
TEST(sparse)
{
    for (int wide = 0; wide < 2; wide++) {
        est_dtype                type = wide ? EST_I64 : EST_I32;
        fixture                  f    = sparse(EST_F32, type, true);
        const est_tensor *const *mean;

        for (int round = 0; round < 2; round++) {
            assert_ok(ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, F32(0.1F)),
                          view_of(type, EST_SHAPE(4), wide ? (void *)I64(7, 1, 7, 3) : (void *)I32(7, 1, 7, 3)),
                          view_of(EST_F32, EST_SHAPE(4, 2), F32(1, 2, 3, 4, 5, 6, 7, 8)),
                          view_of(EST_F32, EST_SHAPE(4), F32(10, 20, 30, 40))));
            assert_ok(ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, F32(0.2F)),
                          view_of(type, EST_SHAPE(2), wide ? (void *)I64(0, 1) : (void *)I32(0, 1)),
                          view_of(EST_F32, EST_SHAPE(2, 2), F32(100, 200, 300, 400)),
                          view_of(EST_F32, EST_SHAPE(2), F32(50, 60))));
            assert_ok(est_accumulator_mean(f.accumulator, &mean));
            expect(mean[0], EST_F32, EST_SHAPE_SCALAR, F32(0.2F));
            expect(mean[1], type, EST_SHAPE(4), wide ? (void *)I64(7, 1, 3, 0) : (void *)I32(7, 1, 3, 0));
            expect(mean[2], EST_F32, EST_SHAPE(4, 2), F32(3, 4, 151.5F, 202, 3.5F, 4, 50, 100));
            expect(mean[3], EST_F32, EST_SHAPE(4), F32(20, 40, 20, 25)); /* the same indices, once more */
            est_accumulator_reset(f.accumulator);
        }
        end(&f);
    }
}

/* A worker that had no rows counts, and so does a step in which nobody had any. */
TEST(no_rows)
{
    fixture                  f = sparse(EST_F64, EST_I64, false);
    const est_tensor *const *mean;
    double                   lr = 0.1;

    for (int round = 0; round < 2; round++) {
        assert_ok(ADD(&f, view_of(EST_F64, EST_SHAPE_SCALAR, &lr), view_of(EST_I64, EST_SHAPE(0), NULL),
                      view_of(EST_F64, EST_SHAPE(0, 2), NULL)));
        if (round == 1) {
            assert_ok(ADD(&f, view_of(EST_F64, EST_SHAPE_SCALAR, &lr), view_of(EST_I64, EST_SHAPE(1), I64(5)),
                          view_of(EST_F64, EST_SHAPE(1, 2), ((double[]){ 4, 6 }))));
        }
        assert_ok(est_accumulator_mean(f.accumulator, &mean));
        expect(mean[1], EST_I64, EST_SHAPE(round), I64(5));
        expect(mean[2], EST_F64, EST_SHAPE(round, 2), ((double[]){ 2, 3 }));
        est_accumulator_reset(f.accumulator);
    }
    end(&f);
}

/* Many workers with many rows against a table of sums. */
TEST(many)
{
    enum { WORKERS = 5, ROWS = 700, TABLE = 10 };
    fixture                  f = sparse(EST_F64, EST_I32, false);
    const est_tensor *const *mean;
    static int32_t           ids[ROWS];
    static double            rows[2 * ROWS];
    double                   want[2 * TABLE] = { 0 }, lr = 1;
    uint32_t                 x = 1;

    for (int w = 0; w < WORKERS; w++) {
        for (int i = 0; i < ROWS; i++) {
            x      = x * 1664525U + 1013904223U;
            ids[i] = (int32_t)(x >> 8) % TABLE;
            for (int j = 0; j < 2; j++) {
                rows[2 * i + j] = (double)(x >> 20) + j; /* whole numbers: sums are exact in any order */
                want[2 * ids[i] + j] += rows[2 * i + j];
            }
        }
        assert_ok(ADD(&f, view_of(EST_F64, EST_SHAPE_SCALAR, &lr), view_of(EST_I32, EST_SHAPE(ROWS), ids),
                      view_of(EST_F64, EST_SHAPE(ROWS, 2), rows)));
    }
    assert_ok(est_accumulator_mean(f.accumulator, &mean));
    assert_int_equal(est_tensor_shape(mean[1])->dim[0], TABLE);
    for (int i = 0; i < 2 * TABLE; i++) {
        int32_t id = ((const int32_t *)est_tensor_data(mean[1]))[i / 2];

        assert_true(((const double *)est_tensor_data(mean[2]))[i] == want[2 * id + i % 2] / WORKERS);
    }
    end(&f);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

TEST(mismatch)
{
    fixture                  f    = dense();
    est_view                 lr   = view_of(EST_F32, EST_SHAPE_SCALAR, F32(1));
    est_str                  text = { "x", 1 };
    const est_tensor *const *mean;

    assert_int_equal(ADD(&f, lr), EST_INVALID_ARGUMENT);
    assert_ok(ADD(&f, lr, view_of(EST_F32, EST_SHAPE(2, 2), F32(1, 2, 3, 4))));
    assert_int_equal(ADD(&f, lr, view_of(EST_F32, EST_SHAPE(4), F32(1, 2, 3, 4))), EST_INVALID_ARGUMENT);
    assert_non_null(strstr(est_error_message(), "float32 [4], but another worker pushed float32 [2,2]"));
    assert_int_equal(ADD(&f, lr, view_of(EST_F32, EST_SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6))), EST_INVALID_ARGUMENT);
    assert_int_equal(ADD(&f, lr, view_of(EST_F64, EST_SHAPE(2, 2), ((double[]){ 1, 2, 3, 4 }))), EST_INVALID_ARGUMENT);
    assert_int_equal(ADD(&f, lr, view_of(EST_STRING, EST_SHAPE_SCALAR, &text)), EST_INVALID_ARGUMENT);
    assert_int_equal(
        ADD(&f, view_of(EST_STRING, EST_SHAPE_SCALAR, &text), view_of(EST_F32, EST_SHAPE(2, 2), F32(1, 2, 3, 4))),
        EST_INVALID_ARGUMENT);
    assert_int_equal(est_accumulator_count(f.accumulator), 1);
    assert_ok(est_accumulator_mean(f.accumulator, &mean));
    expect(mean[1], EST_F32, EST_SHAPE(2, 2), F32(1, 2, 3, 4)); /* nothing of them was added */
    end(&f);
}

TEST(mismatch_of_rows)
{
    fixture  f  = sparse(EST_F32, EST_I64, false);
    est_view lr = view_of(EST_F32, EST_SHAPE_SCALAR, F32(1)), two = view_of(EST_I64, EST_SHAPE(2), I64(1, 2));
    est_view rows = view_of(EST_F32, EST_SHAPE(2, 2), F32(1, 2, 3, 4));

    for (int later = 0; later < 2; later++) { /* as the first, and as a later one */
        assert_int_equal(ADD(&f, lr, view_of(EST_I64, EST_SHAPE_SCALAR, I64(1)), rows), EST_INVALID_ARGUMENT);
        assert_int_equal(ADD(&f, lr, view_of(EST_I64, EST_SHAPE(1, 2), I64(1, 2)), rows), EST_INVALID_ARGUMENT);
        assert_int_equal(ADD(&f, lr, view_of(EST_I64, EST_SHAPE(1), I64(1)), rows), EST_INVALID_ARGUMENT);
        assert_int_equal(ADD(&f, lr, view_of(EST_F32, EST_SHAPE(2), F32(1, 2)), rows), EST_INVALID_ARGUMENT);
        assert_int_equal(ADD(&f, lr, two, view_of(EST_F32, EST_SHAPE_SCALAR, F32(1))), EST_INVALID_ARGUMENT);
        assert_int_equal(ADD(&f, lr, two, view_of(EST_I32, EST_SHAPE(2, 2), I32(1, 2, 3, 4))), EST_UNIMPLEMENTED);
        if (later == 0) assert_ok(ADD(&f, lr, two, rows));
    }
    assert_int_equal(ADD(&f, lr, two, view_of(EST_F32, EST_SHAPE(2, 1), F32(1, 2))), EST_INVALID_ARGUMENT);
    assert_int_equal(ADD(&f, lr, view_of(EST_I32, EST_SHAPE(2), I32(1, 2)), rows), EST_INVALID_ARGUMENT);
    assert_int_equal(est_accumulator_count(f.accumulator), 1);
    end(&f);
}

/* Each allocation fails once; what failed is done again and the numbers are the same. */
TEST(out_of_memory)
{
    fixture          f    = sparse(EST_F32, EST_I64, true);
    est_accumulator *made = NULL;

    FAULT_LOOP(l, FAULT_ALLOCATIONS) {
        fault_arm(&l);
        fault_check(&l, est_accumulator_create(f.host, f.segment, &made));
        assert_int_equal(made == NULL, l.fired);
    }
    est_accumulator_free(made);
    est_accumulator_free(NULL);
    FAULT_LOOP(l, FAULT_ALLOCATIONS) {
        const est_tensor *const *mean;
        est_status               status   = EST_OK;
        int                      failures = 0;

        est_accumulator_free(f.accumulator);
        assert_ok(est_accumulator_create(f.host, f.segment, &f.accumulator));
        fault_arm(&l);
        for (int step = 0; step < 3;) {
            float k = (float)step + 1;

            status = step < 2 ? ADD(&f, view_of(EST_F32, EST_SHAPE_SCALAR, &k),
                                    view_of(EST_I64, EST_SHAPE(2), step == 0 ? I64(4, 5) : I64(5, 4)),
                                    view_of(EST_F32, EST_SHAPE(2, 2), F32(k, 2 * k, 3 * k, 4 * k)),
                                    view_of(EST_F32, EST_SHAPE(2), F32(k, 10 * k)))
                              : est_accumulator_mean(f.accumulator, &mean);
            if (status == EST_OK) {
                step++;
                continue;
            }
            assert_int_equal(status, EST_RESOURCE_EXHAUSTED);
            failures++;
        }
        assert_int_equal(failures, fault_end(&l)); /* one failed, no second */
        expect(mean[1], EST_I64, EST_SHAPE(2), I64(4, 5));
        expect(mean[2], EST_F32, EST_SHAPE(2, 2), F32(3.5F, 5, 2.5F, 4));
        expect(mean[3], EST_F32, EST_SHAPE(2), F32(10.5F, 6));
    }
    end(&f);
}

/* A dynamic embedding: keys are put together worker by worker, however they came, and gradients by their keys. */
TEST(keys_in_the_order_of_workers)
{
    fixture                  f = begin();
    est_node                 w, keys, indices, grad;
    const est_tensor *const *feeds;

    w       = est_row_variable(f.graph, "w", EST_SHAPE(10, 1), &(const est_row_policy){ .admit_after = 1 });
    keys    = input(&f, EST_I64, EST_SHAPE(-1));
    indices = input(&f, EST_I64, EST_SHAPE(-1));
    grad    = input(&f, EST_F32, EST_SHAPE(-1, 1));
    update(&f, "EstAdmitRows", EST_NODES(w, keys, indices, grad), EST_NO_ATTRS);
    enter(&f);
    for (int round = 0; round < 2; round++) { /* each of the two workers is first once */
        for (int i = 0; i < 2; i++) {
            if (i == round) {
                assert_ok(ADD_OF(&f, 9, view_of(EST_I64, EST_SHAPE(3), I64(7, -2, 7)),
                                 view_of(EST_I64, EST_SHAPE(2), I64(7, -2)),
                                 view_of(EST_F32, EST_SHAPE(2, 1), F32(2, 4))));
            } else {
                assert_ok(ADD_OF(&f, 3, view_of(EST_I64, EST_SHAPE(1), I64(-2)),
                                 view_of(EST_I64, EST_SHAPE(1), I64(-2)), view_of(EST_F32, EST_SHAPE(1, 1), F32(6))));
            }
        }
        assert_ok(est_accumulator_mean(f.accumulator, &feeds));
        expect(feeds[0], EST_I64, EST_SHAPE(4), I64(-2, 7, -2, 7));
        assert_int_equal(est_tensor_count(feeds[1]), 2);
        for (int i = 0; i < 2; i++) {
            bool seven = ((const int64_t *)est_tensor_data(feeds[1]))[i] == 7;

            assert_true(((const float *)est_tensor_data(feeds[2]))[i] == (seven ? 1 : 5));
        }
        est_accumulator_reset(f.accumulator);
    }
    end(&f);
}
