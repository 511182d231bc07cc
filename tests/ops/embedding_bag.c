/* SPDX-License-Identifier: Apache-2.0
 *
 * EstEmbeddingBag, EstRowsBag and their gradients; tests/interop/feature_ops.c compares them with TensorFlow's feature
 * columns. */
#include <math.h>

#include "estoc/optimizers.h"
#include "graph/graph.h"
#include "ragged.h"
#include "support/graph_test.h"

/* --- references --------------------------------------------------------------------------------------------------- */

/* The inputs of either op from the table on. */
typedef struct bag_ref {
    const double *table, *ids, *splits, *weights;
    int64_t       rows, cols, combiner;
    double        max_norm;
} bag_ref;

static bag_ref open_ref(const est_ref *r, int first)
{
    return (bag_ref){ r->in[first],
                      r->in[first + 1],
                      r->in[first + 2],
                      r->n_in > first + 3 ? r->in[first + 3] : NULL,
                      r->in_shape[first + 2].dim[0] - 1,
                      r->in_shape[first].dim[1],
                      est_node_int(r->node, "combiner"),
                      est_node_float(r->node, "max_norm") };
}

/* The weight of id i in its row over the row's divisor; 0 when it is dropped. */
static double factor_of(const bag_ref *b, int64_t row, int64_t i, bool *kept)
{
    double total = 0, w = 0;

    *kept = false;
    for (int64_t k = (int64_t)b->splits[row]; k < (int64_t)b->splits[row + 1]; k++) {
        double own = b->weights != NULL ? b->weights[k] : 1;

        if (b->ids[k] < 0 || (b->combiner != EST_COMBINE_SUM && !(own > 0))) continue;
        total += b->combiner == EST_COMBINE_SQRTN ? own * own : own;
        if (k == i) *kept = true, w = own;
    }
    return b->combiner == EST_COMBINE_SUM ? w : b->combiner == EST_COMBINE_MEAN ? w / total : w / sqrt(total);
}

static double shrink_of(const bag_ref *b, int64_t id, double *square)
{
    *square = 0;
    for (int64_t j = 0; j < b->cols; j++) *square += b->table[id * b->cols + j] * b->table[id * b->cols + j];
    return b->max_norm > 0 && sqrt(*square) > b->max_norm ? b->max_norm / sqrt(*square) : 1;
}

/* Rows of y are `step` apart. */
static void combine_ref(const bag_ref *b, double *y, int64_t step)
{
    double square;
    bool   kept;

    for (int64_t row = 0; row < b->rows; row++, y += step) {
        for (int64_t j = 0; j < b->cols; j++) y[j] = 0;
        for (int64_t i = (int64_t)b->splits[row]; i < (int64_t)b->splits[row + 1]; i++) {
            double  factor = factor_of(b, row, i, &kept);
            int64_t id     = (int64_t)b->ids[i];

            if (!kept) continue;
            for (int64_t j = 0; j < b->cols; j++) {
                y[j] += factor * shrink_of(b, id, &square) * b->table[id * b->cols + j];
            }
        }
    }
}

static void bag_forward(est_ref *r)
{
    bag_ref b = open_ref(r, 0);

    combine_ref(&b, r->out[0], b.cols);
}

static void concat_forward(est_ref *r)
{
    est_i64s combiners = est_node_ints(r->node, "combiners"), columns = est_node_ints(r->node, "columns");
    int64_t  step = r->out_shape[0].dim[1];

    for (int k = 0; k < combiners.n; k++) {
        const double *const *in = &r->in[3 * k];

        combine_ref(&(bag_ref){ in[0], in[1], in[2], NULL, r->in_shape[3 * k + 2].dim[0] - 1, r->in_shape[3 * k].dim[1],
                                combiners.data[k], 0 },
                    r->out[0] + columns.data[k], step);
    }
    for (int k = combiners.n, i = 3 * k; i < r->n_in; i++, k++) {
        int64_t cols = r->in_shape[i].dim[1];

        for (int64_t at = 0; at < r->in_shape[i].dim[0] * cols; at++) {
            r->out[0][at / cols * step + columns.data[k] + at % cols] = r->in[i][at];
        }
    }
}

/* Every id in order of first sight; d(s e) = s (g - e (e g) / |e|^2) where s < 1. */
static void slice_backward(est_ref *r, int64_t column)
{
    bag_ref b = open_ref(r, 1);
    int64_t n = 0;
    bool    kept;

    for (int64_t row = 0; row < b.rows; row++) {
        const double *dy = r->in[0] + row * r->in_shape[0].dim[1] + column;

        for (int64_t i = (int64_t)b.splits[row]; i < (int64_t)b.splits[row + 1]; i++) {
            double        factor = factor_of(&b, row, i, &kept), along = 0, square, shrink;
            int64_t       id = (int64_t)b.ids[i], at = 0;
            const double *e = b.table + id * b.cols;

            if (!kept) continue;
            while (at < n && r->out[1][at] != b.ids[i]) at++;
            if (at == n) {
                r->out[1][n++] = b.ids[i];
                for (int64_t j = 0; j < b.cols; j++) r->out[0][at * b.cols + j] = 0;
            }
            shrink = shrink_of(&b, id, &square);
            for (int64_t j = 0; j < b.cols && shrink < 1; j++) along += e[j] * dy[j] / square;
            for (int64_t j = 0; j < b.cols; j++) {
                r->out[0][at * b.cols + j] += factor * shrink * (dy[j] - e[j] * along);
            }
        }
    }
}

static void bag_backward(est_ref *r)
{
    slice_backward(r, 0);
}

static void bag_slice_backward(est_ref *r)
{
    slice_backward(r, est_node_int(r->node, "column"));
}

/* --- the builder and the optimizers ------------------------------------------------------------------------------- */

/* Trains a table with Adagrad by the bag and by what it lowers to in spirit: gather, segment sum. The gradient of the
 * bag is distinct already, so nothing sums it again. */
static void test_no_second_dedup(void)
{
    est_graph      *graph = test_graph();
    est_node        table = est_variable(graph, "table", EST_F32, EST_SHAPE(9, 2));
    est_ragged_node ids   = { est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1)),
                              est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1)) };
    est_node        y     = est_embedding_bag(table, ids, EST_NO_NODE, EST_COMBINE_MEAN, 0);
    est_gradient    g[2], again;

    est_gradients(est_sum(est_square(y)), (est_nodes){ &table, 1 }, g);
    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    CHECK(g[0].indices.graph != NULL && strcmp(est_def(g[0].indices)->op->name, "EstEmbeddingBagGrad") == 0);
    again = est_dedup(g[0]);
    CHECK(again.values.id == g[0].values.id && again.indices.id == g[0].indices.id);
    g[0].values = est_clip_by_value(g[0].values, -1, 1); /* the indices stay distinct */
    again       = est_dedup(g[0]);
    CHECK(again.values.id == g[0].values.id);

    /* Two bags of one table: their gradients together are not. */
    y = est_add(y, est_embedding_bag(table, ids, EST_NO_NODE, EST_COMBINE_SUM, 0));
    est_gradients(est_sum(y), (est_nodes){ &table, 1 }, g);
    again = est_dedup(g[0]);
    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    CHECK(again.values.id != g[0].values.id && strcmp(est_def(again.values)->op->name, "EstDedup") == 0);
    est_graph_free(graph);
}

/* A table that is no variable, and nodes that are none: errors, not more. */
static void test_refusals(void)
{
    est_graph      *graph = test_graph();
    est_node        dense = est_placeholder(graph, "dense", EST_F32, EST_SHAPE(9, 2));
    est_ragged_node ids   = { est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1)),
                              est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1)) };

    (void)est_embedding_bag(dense, ids, EST_NO_NODE, EST_COMBINE_MEAN, 0);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT, "%s", est_error_message());
    (void)est_embedding_bag(dense, ids, dense, EST_COMBINE_MEAN, 0); /* poisoned by now */
    est_graph_free(graph);

    graph = test_graph();
    (void)est_embedding_bag(est_variable(graph, "table", EST_F32, EST_SHAPE(9, 2)), (est_ragged_node){ 0 }, EST_NO_NODE,
                            EST_COMBINE_SUM, 0);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT, "%s", est_error_message());
    est_graph_free(graph);
    (void)est_embedding_bag(EST_NO_NODE, (est_ragged_node){ 0 }, EST_NO_NODE, EST_COMBINE_SUM, 0);
    (void)est_multi_hot((est_ragged_node){ 0 }, EST_NO_NODE, 4);
    (void)est_ragged_cross((est_ragged_nodes){ &(est_ragged_node){ EST_NO_NODE, EST_NO_NODE }, 1 }, 4, 0);
    (void)est_ragged_from_dense(EST_NO_NODE);
    (void)est_ragged_keep((est_ragged_node){ 0 }, EST_NO_NODE);
    (void)est_ragged_lengths((est_ragged_node){ 0 });
    (void)est_bucketize(EST_NO_NODE, (est_f32s){ 0 });
    (void)est_check_range(EST_NO_NODE, 0, 1, "");
}

/* Shapes of unknown batches, and a run over batches of other sizes that are as large as their ids tell. */
static void test_batches(void)
{
    est_graph      *graph   = test_graph();
    est_session    *session = NULL;
    est_node        table   = est_variable(graph, "table", EST_F32, EST_SHAPE(4, 2));
    est_ragged_node ids     = { est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1)),
                                est_placeholder(graph, "splits", EST_I64, EST_SHAPE(-1)) };
    est_node        y       = est_embedding_bag(table, ids, EST_NO_NODE, EST_COMBINE_MEAN, 0);

    est_variable_initializer(table, est_const_f32(graph, EST_SHAPE(4, 2), (const float[]){ 0, 1, 2, 3, 4, 5, 6, 7 }));
    CHECK(est_node_dim(y, 0) == -1 && est_node_dim(y, 1) == 2);
    CHECK(est_session_create(graph, EST_SESSION(.threads = 1), &session) == EST_OK);
    CHECK(est_session_init(session) == EST_OK, "%s", est_error_message());
    for (int batch = 1; batch < 4; batch++) {
        est_tensor *values = NULL, *splits = NULL, *out = NULL;

        CHECK(est_tensor_i64(EST_SHAPE(2 * batch), (const int64_t[]){ 0, 1, 2, 3, 3, -1 }, &values) == EST_OK);
        CHECK(est_tensor_i64(EST_SHAPE(batch + 1), (const int64_t[]){ 0, 2, 4, 6 }, &splits) == EST_OK);
        CHECK(est_session_run(session, EST_FEEDS({ ids.values, values }, { ids.splits, splits }), EST_NODES(y),
                              EST_NO_NODES, &out) == EST_OK,
              "%s", est_error_message());
        CHECK(out != NULL && memcmp(est_tensor_data(out), (const float[]){ 1, 2, 5, 6, 6, 7 }, 8 * (size_t)batch) == 0);
        est_tensor_free(values);
        est_tensor_free(splits);
        est_tensor_free(out);
    }
    est_session_free(session);
    est_graph_free(graph);
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

#define VAR(...)                                                                                                       \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .variable = true                                                              \
    }
#define ATTRS(how, norm, n)                                                                                            \
    EST_ATTRS(est_attr_int("combiner", how), est_attr_float("max_norm", norm), est_attr_int("N", n),                   \
              est_attr_type("dtype", EST_F32))
#define BAG(how, norm) .op = "EstEmbeddingBag", .ref = bag_forward, .n_in = 3, .attrs = ATTRS(how, norm, 0), .tol = 1e-5
#define WEIGHED(how, norm)                                                                                             \
    .op = "EstEmbeddingBag", .ref = bag_forward, .n_in = 4, .attrs = ATTRS(how, norm, 1), .tol = 1e-5
#define BACK(how, norm)                                                                                                \
    .op = "EstEmbeddingBagGrad", .ref = bag_backward, .n_in = 4, .attrs = ATTRS(how, norm, 0), .tol = 1e-5
#define WEIGHED_BACK(how, norm)                                                                                        \
    .op = "EstEmbeddingBagGrad", .ref = bag_backward, .n_in = 5, .attrs = ATTRS(how, norm, 1), .tol = 1e-5
#define SLICE(how, norm, n, first)                                                                                     \
    .op = "EstEmbeddingBagSliceGrad", .ref = bag_slice_backward, .n_in = 4 + (n), .tol = 1e-5,                         \
    .attrs = EST_ATTRS(est_attr_int("combiner", how), est_attr_float("max_norm", norm), est_attr_int("N", n),          \
                       est_attr_type("dtype", EST_F32), est_attr_int("column", first))
#define ROWS_BAG(how, norm, n)                                                                                         \
    .op = "EstRowsBag", .ref = bag_forward, .n_in = 3 + (n), .attrs = ATTRS(how, norm, n), .tol = 1e-5
#define ROWS_BACK(how, norm, n)                                                                                        \
    .op = "EstRowsBagGrad", .ref = bag_backward, .n_in = 4 + (n), .attrs = ATTRS(how, norm, n), .tol = 1e-5
#define BAG_TYPES EST_RESOURCE, EST_I64, EST_I64
#define JOIN(n)                                                                                                        \
    .op = "EstEmbeddingBagConcat", .ref = concat_forward, .n_in = 6 + (n), .tol = 1e-5,                                \
    .attrs = EST_ATTRS(est_attr_types("Tbags", EST_I64S(BAG_TYPES, BAG_TYPES)), est_attr_int("N", n),                  \
                       est_attr_type("dtype", EST_F32), est_attr_ints("combiners", EST_I64S(MEAN, SUM)),               \
                       est_attr_ints("columns", EST_I64S(2, 10, 0)))
#define MEAN           EST_COMBINE_MEAN
#define SUM            EST_COMBINE_SUM
#define SQRTN          EST_COMBINE_SQRTN
#define IDS(n, last)   SOME(EST_I64, n, -1, last)
#define IDS32(n, last) SOME(EST_I32, n, -1, last)
#define ROWS           SPLITS(0, 2, 2, 5, 6, 12)
#define WEIGHTS(n)                                                                                                     \
    {                                                                                                                  \
        .shape = EST_SHAPE(n), .lo = 1, .hi = 2                                                                        \
    }
#define SOME_WEIGHTS                                                                                                   \
    {                                                                                                                  \
        .shape = EST_SHAPE(12), .no_grad = true, .values = (const double[])                                            \
        {                                                                                                              \
            1, 0, -2, 0.5, 3, -1, 0, 2, 0.25, -0.5, 1, 1                                                               \
        }                                                                                                              \
    }
#define WRONG .fails = EST_INVALID_ARGUMENT, .says

int main(int argc, char **argv)
{
    int64_t           n       = many_rows();
    const est_op_case cases[] = {
        { BAG(MEAN, 0), .in = { VAR(7, 3), IDS(12, 6), ROWS } },
        { BAG(SUM, 0), .in = { VAR(7, 1), IDS(12, 6), ROWS } },
        { BAG(SQRTN, 0), .in = { VAR(7, 8), IDS32(12, 6), ROWS } },
        { BAG(MEAN, 0), .in = { VAR(7, 4), IDS32(12, 6), ROWS } },
        { BAG(MEAN, 0), .in = { VAR(7, 16), IDS(12, 6), ROWS } },
        { BAG(SQRTN, 0), .in = { VAR(7, 32), IDS(12, 6), ROWS } },
        { BAG(MEAN, 0.75), .in = { VAR(7, 3), IDS(12, 6), ROWS } },
        { BAG(SUM, 0.75), .in = { VAR(7, 8), IDS(12, 6), ROWS } },
        { WEIGHED(MEAN, 0), .in = { VAR(7, 3), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { WEIGHED(SUM, 0), .in = { VAR(7, 8), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { WEIGHED(SQRTN, 0), .in = { VAR(7, 1), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { WEIGHED(SQRTN, 0.5), .in = { VAR(7, 5), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { WEIGHED(MEAN, 0), .in = { VAR(7, 3), IDS(12, 6), ROWS, WEIGHTS(12) } },
        { WEIGHED(SUM, 0.75), .in = { VAR(7, 3), IDS(12, 6), ROWS, WEIGHTS(12) } },
        { WEIGHED(SQRTN, 0.75), .in = { VAR(7, 3), IDS32(12, 6), ROWS, WEIGHTS(12) } },
        { BAG(MEAN, 0), .in = { VAR(7, 3), IDS(0, 6), SPLITS(0, 0, 0) } },
        { BAG(MEAN, 0), .in = { VAR(7, 3), IDS(0, 6), SPLITS(0) } },
        { BAG(MEAN, 0), .in = { VAR(7, 3), LIST(EST_I64, -1, -5), SPLITS(0, 1, 2) } },
        { BAG(MEAN, 0), .in = { VAR(900, 8), IDS(n, 899), MANY_SPLITS } },
        { WEIGHED(SQRTN, 0), .in = { VAR(900, 1), IDS(n, 899), MANY_SPLITS, WEIGHTS(n) } },
        { BAG(MEAN, 0), .in = { VAR(7, 3), LIST(EST_I64, 0, 7, 9), SPLITS(0, 1, 3) },
          WRONG = "ids[1] = 7 is not in the table 'in0', which has 7 rows" },
        { BAG(MEAN, 0), .in = { VAR(7, 3), LIST(EST_I32, 0, 1, 9), SPLITS(0, 1, 3) }, WRONG = "ids[2] = 9" },
        { BAG(MEAN, 0), .in = { VAR(7, 3), IDS(3, 6), SPLITS(0, 2, 1, 3) }, WRONG = "row 1 goes from 2 to 1" },
        { BAG(MEAN, 0), .in = { VAR(7, 3), IDS(3, 6), SPLITS(0, 2) }, WRONG = "end at 2, with 3" },
        { BAG(MEAN, 0), .in = { VAR(7, 3), IDS(3, 6), SPLITS(0) }, WRONG = "end at 0, with 3" },
        { BAG(MEAN, 0), .in = { VAR(7), IDS(3, 6), SPLITS(0, 3) }, WRONG = "rank 2" },
        { BAG(7, 0), .in = { VAR(7, 3), IDS(3, 6), SPLITS(0, 3) }, WRONG = "no est_combiner" },
        { WEIGHED(MEAN, 0), .in = { VAR(7, 3), IDS(3, 6), SPLITS(0, 3), WEIGHTS(2) }, WRONG = "a weight each" },

        { BACK(MEAN, 0), .in = { IN(5, 3), VAR(7, 3), IDS(12, 6), ROWS } },
        { BACK(SUM, 0), .in = { IN(5, 1), VAR(7, 1), IDS(12, 6), ROWS } },
        { BACK(SQRTN, 0), .in = { IN(5, 8), VAR(7, 8), IDS32(12, 6), ROWS } },
        { BACK(SUM, 0), .in = { IN(5, 16), VAR(7, 16), IDS32(12, 6), ROWS } },
        { BACK(MEAN, 0.75), .in = { IN(5, 3), VAR(7, 3), IDS(12, 6), ROWS } },
        { WEIGHED_BACK(MEAN, 0), .in = { IN(5, 3), VAR(7, 3), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { WEIGHED_BACK(SUM, 0.5), .in = { IN(5, 4), VAR(7, 4), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { WEIGHED_BACK(SQRTN, 0), .in = { IN(5, 1), VAR(7, 1), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { BACK(MEAN, 0), .in = { IN(0, 3), VAR(7, 3), IDS(0, 6), SPLITS(0) } },
        { BACK(MEAN, 0), .in = { IN(2, 3), VAR(7, 3), IDS(0, 6), SPLITS(0, 0, 0) } },
        { BACK(MEAN, 0), .in = { IN(MANY_ROWS, 8), VAR(900, 8), IDS(n, 899), MANY_SPLITS } }, /* in lanes */
        { BACK(SUM, 0), .in = { IN(MANY_ROWS, 1), VAR(90000, 1), IDS(n, 89999), MANY_SPLITS } },
        { BACK(MEAN, 0), .in = { IN(5, 3), VAR(7, 3), LIST(EST_I64, 0, 8), SPLITS(0, 1, 1, 1, 1, 2) },
          WRONG = "ids[1] = 8" },
        { BACK(MEAN, 0), .in = { IN(0, 3), VAR(7, 3), IDS(3, 6), SPLITS(0) }, WRONG = "end at 0, with 3" },
        { BACK(MEAN, 0), .in = { IN(4, 3), VAR(7, 3), IDS(12, 6), ROWS }, WRONG = "dy is [4,3] instead of [5,3]" },

        { SLICE(MEAN, 0, 0, 2), .in = { IN(5, 9), VAR(7, 3), IDS(12, 6), ROWS } },
        { SLICE(SUM, 0, 0, 1), .in = { IN(5, 9), VAR(7, 8), IDS32(12, 6), ROWS } }, /* the last columns */
        { SLICE(MEAN, 0.75, 0, 0), .in = { IN(5, 9), VAR(7, 3), IDS(12, 6), ROWS } },
        { SLICE(SQRTN, 0, 1, 4), .in = { IN(5, 9), VAR(7, 1), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { SLICE(MEAN, 0, 0, 2), .in = { IN(0, 9), VAR(7, 3), IDS(0, 6), SPLITS(0) } },
        { SLICE(MEAN, 0, 0, 3), .in = { IN(MANY_ROWS, 19), VAR(900, 16), IDS(n, 899), MANY_SPLITS } },
        { SLICE(MEAN, 0, 0, 7), .in = { IN(5, 9), VAR(7, 3), IDS(12, 6), ROWS }, WRONG = "none for 3 from 7 on" },
        { SLICE(MEAN, 0, 0, 2), .in = { IN(4, 9), VAR(7, 3), IDS(12, 6), ROWS },
          WRONG = "dy is [4,9] instead of [5,9]" },

        { ROWS_BAG(MEAN, 0, 0), .in = { IN(7, 3), IDS(12, 6), ROWS } },
        { ROWS_BAG(SUM, 0, 0), .in = { IN(7, 1), IDS32(12, 6), ROWS } },
        { ROWS_BAG(SQRTN, 0, 0), .in = { IN(7, 16), IDS(12, 6), ROWS } },
        { ROWS_BAG(MEAN, 0.75, 0), .in = { IN(7, 3), IDS(12, 6), ROWS } },
        { ROWS_BAG(SUM, 0.75, 1), .in = { IN(7, 8), IDS32(12, 6), ROWS, SOME_WEIGHTS } },
        { ROWS_BAG(MEAN, 0, 1), .in = { IN(7, 3), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { ROWS_BAG(SQRTN, 0.5, 1), .in = { IN(7, 5), IDS(12, 6), ROWS, WEIGHTS(12) } },
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(7, 3), LIST(EST_I64, -1, -5), SPLITS(0, 1, 2) } },
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(0, 3), LIST(EST_I64, -1, -1), SPLITS(0, 1, 2) } }, /* no id: no rows came */
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(0, 3), IDS(0, 6), SPLITS(0, 0, 0) } },
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(7, 3), IDS(0, 6), SPLITS(0) } },
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(900, 8), IDS(n, 899), MANY_SPLITS } },
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(7, 3), LIST(EST_I64, 0, 7), SPLITS(0, 2) }, WRONG = "ids[1] = 7" },
        { ROWS_BAG(MEAN, 0, 0), .in = { IN(7), IDS(3, 6), SPLITS(0, 3) }, WRONG = "rank 2" },
        { ROWS_BAG(7, 0, 0), .in = { IN(7, 3), IDS(3, 6), SPLITS(0, 3) }, WRONG = "no est_combiner" },
        { ROWS_BAG(MEAN, 0, 1), .in = { IN(7, 3), IDS(3, 6), SPLITS(0, 3), WEIGHTS(2) }, WRONG = "a weight each" },

        { ROWS_BACK(MEAN, 0, 0), .in = { IN(5, 3), IN(7, 3), IDS(12, 6), ROWS } },
        { ROWS_BACK(SUM, 0, 0), .in = { IN(5, 1), IN(7, 1), IDS32(12, 6), ROWS } },
        { ROWS_BACK(SQRTN, 0.75, 0), .in = { IN(5, 8), IN(7, 8), IDS(12, 6), ROWS } },
        { ROWS_BACK(SUM, 0.5, 1), .in = { IN(5, 4), IN(7, 4), IDS32(12, 6), ROWS, SOME_WEIGHTS } },
        { ROWS_BACK(MEAN, 0, 1), .in = { IN(5, 3), IN(7, 3), IDS(12, 6), ROWS, SOME_WEIGHTS } },
        { ROWS_BACK(MEAN, 0, 0), .in = { IN(2, 3), IN(0, 3), IDS(0, 6), SPLITS(0, 0, 0) } },
        { ROWS_BACK(MEAN, 0, 0), .in = { IN(2, 3), IN(7, 3), LIST(EST_I64, -1, -5), SPLITS(0, 1, 2) } },
        { ROWS_BACK(MEAN, 0, 0), .in = { IN(MANY_ROWS, 8), IN(900, 8), IDS(n, 899), MANY_SPLITS } },
        { ROWS_BACK(MEAN, 0, 0), .in = { IN(1, 3), IN(7, 3), LIST(EST_I32, 0, 8), SPLITS(0, 2) },
          WRONG = "ids[1] = 8" },
        { ROWS_BACK(MEAN, 0, 0), .in = { IN(4, 3), IN(7, 3), IDS(12, 6), ROWS },
          WRONG = "dy is [4,3] instead of [5,3]" },

        { JOIN(1), .in = { VAR(7, 8), IDS(12, 6), ROWS, VAR(9, 3), IDS(4, 8), SPLITS(0, 1, 2, 2, 3, 4), IN(5, 2) } },
        { JOIN(1), .in = { VAR(7, 8), IDS(0, 6), SPLITS(0), VAR(9, 3), IDS(0, 8), SPLITS(0), IN(0, 2) } },
        { JOIN(1),
          .in = { VAR(900, 8), IDS(n, 899), MANY_SPLITS, VAR(90, 16), IDS(n, 89), MANY_SPLITS, IN(MANY_ROWS, 2) } },
        { JOIN(1),
          .in   = { VAR(7, 8), IDS(12, 6), ROWS, VAR(9, 3), LIST(EST_I64, 9), SPLITS(0, 1, 1, 1, 1, 1), IN(5, 2) },
          WRONG = "ids[0] = 9 is not in the table 'in3'" },
        { JOIN(1), .in = { VAR(7, 8), IDS(12, 6), ROWS, VAR(9, 3), IDS(4, 8), SPLITS(0, 4), IN(5, 2) },
          WRONG = "a part is [1,?], those before it [5,?]" },
    };

    test_no_second_dedup();
    test_refusals();
    test_batches();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
