/* SPDX-License-Identifier: Apache-2.0
 *
 * RaggedCross and SparseCross against hashes worked out by TensorFlow; tests/interop/feature_ops.c compares 100,000 of
 * them. */
#include "base/fingerprint.h"
#include "ragged.h"
#include "support/graph_test.h"

/* Integer inputs only: strings have tables below. */
static void cross_ref(est_ref *r)
{
    int     n    = r->n_in / 2;
    int64_t rows = r->in_shape[n].dim[0] - 1, at = 0;

    r->out[1][0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t ways = 1;

        for (int k = 0; k < n; k++) ways *= (int64_t)(r->in[n + k][row + 1] - r->in[n + k][row]);
        for (int64_t way = 0; way < ways; way++) {
            uint64_t taken[EST_CASE_IN_MAX];
            int64_t  left = way;

            for (int k = n - 1; k >= 0; k--) {
                int64_t length = (int64_t)(r->in[n + k][row + 1] - r->in[n + k][row]);

                taken[k] = (uint64_t)(int64_t)r->in[k][(int64_t)r->in[n + k][row] + left % length];
                left /= length;
            }
            r->out[0][at++] = (double)est_fingerprint_cross(taken, (size_t)n,
                                                            (uint64_t)est_node_int(r->node, "hash_key"),
                                                            (uint64_t)est_node_int(r->node, "num_buckets"));
        }
        r->out[1][row + 1] = (double)at;
    }
}

/* --- TensorFlow's numbers ----------------------------------------------------------------------------------------- */

static est_ragged_node strings(est_graph *graph, est_shape shape, const char *const *words, est_node splits)
{
    est_tensor *tensor = test_strings(shape, words);
    est_node    node   = est_const(graph, tensor);

    est_tensor_free(tensor);
    return (est_ragged_node){ node, splits };
}

/* One row with one value of each. */
static void check_cross(est_graph *graph, const est_ragged_node *inputs, int n, uint64_t key, int64_t want)
{
    est_ragged_node y   = est_ragged_cross((est_ragged_nodes){ inputs, n }, 1000, key);
    est_tensor     *out = test_run(y.values, EST_NO_FEEDS);

    CHECK(out != NULL && est_tensor_count(out) == 1 && *(const int64_t *)est_tensor_data(out) == want,
          "%lld instead of %lld", out != NULL ? (long long)*(const int64_t *)est_tensor_data(out) : -1LL,
          (long long)want);
    est_tensor_free(out);
    (void)graph;
}

static void test_table(void)
{
    est_graph            *graph  = test_graph();
    est_node              splits = est_const_i64(graph, EST_SHAPE(2), (const int64_t[]){ 0, 1 });
    const est_ragged_node red    = strings(graph, EST_SHAPE(1), (const char *const[]){ "red" }, splits);
    const est_ragged_node large  = strings(graph, EST_SHAPE(1), (const char *const[]){ "large" }, splits);
#define INT(x) ((est_ragged_node){ est_const_i64(graph, EST_SHAPE(1), (const int64_t[]){ x }), splits })
    const est_ragged_node three = INT(3), seven = INT(7), eleven = INT(11), zero = INT(0);
#undef INT

    check_cross(graph, (const est_ragged_node[]){ red, large }, 2, 0, 245);
    check_cross(graph, (const est_ragged_node[]){ large, red }, 2, 0, 666);
    check_cross(graph, (const est_ragged_node[]){ three, red }, 2, 0, 9);
    check_cross(graph, (const est_ragged_node[]){ red, three }, 2, 0, 945);
    check_cross(graph, (const est_ragged_node[]){ zero, zero }, 2, 0, 304);
    check_cross(graph, (const est_ragged_node[]){ three, seven, eleven }, 3, 0, 715);
    check_cross(graph, (const est_ragged_node[]){ red, large }, 2, 42, 536);
    check_cross(graph, (const est_ragged_node[]){ red, large }, 2, UINT64_C(0xDECAFCAFFE), 245);
    est_graph_free(graph);
}

static void test_too_many(void)
{
    est_graph      *graph = test_graph();
    est_node        one   = est_const_i64(graph, EST_SHAPE(2), (const int64_t[]){ 0, 0 });
    est_ragged_node in[EST_CROSS_MAX + 1], y;

    for (int i = 0; i <= EST_CROSS_MAX; i++) {
        in[i] = (est_ragged_node){ est_const_i64(graph, EST_SHAPE(0), NULL), one };
    }
    y = est_ragged_cross((est_ragged_nodes){ in, EST_CROSS_MAX }, 10, 0);
    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    y = est_ragged_cross((est_ragged_nodes){ in, EST_CROSS_MAX + 1 }, 10, 0);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT && y.values.graph == graph);
    est_graph_free(graph);
}

/* --- SparseCross -------------------------------------------------------------------------------------------------- */

/* Two sparse inputs of integers and a matrix. */
static void sparse_ref(est_ref *r)
{
    int64_t rows = (int64_t)r->in[4][0], columns = r->in_shape[6].dim[1], at = 0, widest = 0;

    for (int64_t row = 0; row < rows; row++) {
        int64_t column = 0;

        for (int64_t a = 0; a < r->in_shape[0].dim[0]; a++) {
            for (int64_t b = 0; b < r->in_shape[1].dim[0]; b++) {
                if ((int64_t)r->in[0][2 * a] != row || (int64_t)r->in[1][2 * b] != row) continue;
                for (int64_t k = 0; k < columns; k++) {
                    uint64_t taken[3] = { (uint64_t)(int64_t)r->in[2][a], (uint64_t)(int64_t)r->in[3][b],
                                          (uint64_t)(int64_t)r->in[6][row * columns + k] };

                    r->out[0][2 * at]     = (double)row;
                    r->out[0][2 * at + 1] = (double)column++;
                    r->out[1][at++]       = (double)est_fingerprint_cross(taken, 3, 5, 1000000);
                }
            }
        }
        widest = column > widest ? column : widest;
    }
    r->out[2][0] = (double)rows;
    r->out[2][1] = (double)widest;
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

#define TYPES(n) ((est_i64s){ types, n })
#define ATTRS(n, buckets, key)                                                                                         \
    EST_ATTRS(est_attr_int("Nsparse", 0), est_attr_bool("hashed_output", true),                                        \
              est_attr_string("input_order", &"RRR"[3 - (n)]), est_attr_int("num_buckets", buckets),                   \
              est_attr_int("hash_key", key), est_attr_types("ragged_values_types", TYPES(n)),                          \
              est_attr_types("ragged_splits_types", TYPES(n)), est_attr_types("sparse_values_types", TYPES(0)),        \
              est_attr_types("dense_types", TYPES(0)), est_attr_type("out_values_type", EST_I64),                      \
              est_attr_type("out_row_splits_type", EST_I64))
#define CROSS  .op = "RaggedCross", .ref = cross_ref
#define IDS(n) SOME(EST_I64, n, -1e6, 1e6)
#define WRONG  .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    static const int64_t types[] = { EST_I64, EST_I64, EST_I64 };
    int64_t              n       = many_rows();
    est_attrs            one = ATTRS(1, 77, 5), two = ATTRS(2, 1000000, 5), three = ATTRS(3, 1000, 0xDECAFCAFFE);
    const est_op_case    cases[] = {
           { CROSS, .in = { IDS(4), IDS(5), SPLITS(0, 2, 2, 4), SPLITS(0, 3, 4, 5) }, .n_in = 4, .attrs = two },
           { CROSS, .in = { IDS(4), IDS(5), IDS(3), SPLITS(0, 2, 4), SPLITS(0, 3, 5), SPLITS(0, 2, 3) }, .n_in = 6,
             .attrs = three },
           { CROSS, .in = { IDS(4), SPLITS(0, 1, 4) }, .n_in = 2, .attrs = one },
           { CROSS, .in = { IDS(0), IDS(2), SPLITS(0, 0), SPLITS(0, 2) }, .n_in = 4, .attrs = two }, /* nothing */
           { CROSS, .in = { IDS(0), IDS(0), SPLITS(0), SPLITS(0) }, .n_in = 4, .attrs = two },       /* no rows */
           { CROSS, .in = { IDS(n), IDS(n), MANY_SPLITS, MANY_SPLITS }, .n_in = 4, .attrs = two },
           { CROSS, .in = { IDS(3), IDS(3), SPLITS(0, 3), SPLITS(0, 1, 3) }, .n_in = 4, .attrs = two, WRONG = "rows" },
           { CROSS, .in = { IDS(3), IDS(3), SPLITS(0, 3), SPLITS(0, 2) }, .n_in = 4, .attrs = two, WRONG = "end at 2" },
           { CROSS, .in = { IDS(3), IDS(3), SPLITS(0, 2, 1, 3), SPLITS(0, 1, 2, 3) }, .n_in = 4, .attrs = two,
             WRONG = "row 1 goes from 2 to 1" },
           { CROSS, .in = { IDS(3), SPLITS(0, 3) }, .n_in = 2, .attrs = ATTRS(1, -1, 5), WRONG = "num_buckets is -1" },
    };

#define SPARSE(n, ...)                                                                                                 \
    {                                                                                                                  \
        .shape = EST_SHAPE(n, 2), .dtype = EST_I64, .values = (const double[])                                         \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define SIZES(a, b)                                                                                                    \
    {                                                                                                                  \
        .shape = EST_SHAPE(2), .dtype = EST_I64, .values = (const double[])                                            \
        {                                                                                                              \
            a, b                                                                                                       \
        }                                                                                                              \
    }
#define MATRIX                                                                                                         \
    {                                                                                                                  \
        .shape = EST_SHAPE(3, 2), .dtype = EST_I64, .lo = -1e6, .hi = 1e6                                              \
    }
    est_attrs sparse = EST_ATTRS(est_attr_int("N", 2), est_attr_bool("hashed_output", true),
                                 est_attr_int("num_buckets", 1000000), est_attr_int("hash_key", 5),
                                 est_attr_types("sparse_types", TYPES(2)), est_attr_types("dense_types", TYPES(1)),
                                 est_attr_type("out_type", EST_I64), est_attr_type("internal_type", EST_I64));
#define SPARSE_CROSS .op = "SparseCross", .ref = sparse_ref, .n_in = 7, .attrs = sparse
    const est_op_case sparse_cases[] = {
        { SPARSE_CROSS, .in = { SPARSE(4, 0, 0, 0, 1, 1, 0, 2, 0), SPARSE(3, 0, 0, 2, 0, 2, 1), IDS(4), IDS(3),
                                SIZES(3, 2), SIZES(3, 2), MATRIX } },
        { SPARSE_CROSS,
          .in = { SPARSE(1, 1, 0), SPARSE(1, 2, 0), IDS(1), IDS(1), SIZES(3, 1), SIZES(3, 1), MATRIX } }, /* nothing */
        { SPARSE_CROSS,
          .in   = { SPARSE(2, 1, 0, 0, 0), SPARSE(1, 2, 0), IDS(2), IDS(1), SIZES(3, 1), SIZES(3, 1), MATRIX },
          WRONG = "out of order" },
        { SPARSE_CROSS, .in = { SPARSE(1, 1, 0), SPARSE(1, 2, 0), IDS(1), IDS(1), SIZES(2, 1), SIZES(3, 1), MATRIX },
          WRONG = "as many rows" },
        { SPARSE_CROSS, .in = { SPARSE(1, 3, 0), SPARSE(1, 2, 0), IDS(1), IDS(1), SIZES(3, 1), SIZES(3, 1), MATRIX },
          WRONG = "in row 3" },
    };

    test_table();
    test_too_many();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 ||
           est_op_check(sparse_cases, (int)(sizeof sparse_cases / sizeof sparse_cases[0]), argc, argv) != 0 ||
           graph_test_failures != 0;
}
