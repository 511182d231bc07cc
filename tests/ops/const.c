/* SPDX-License-Identifier: Apache-2.0
 *
 * Const has no inputs to make cases of: the builders are run instead. */
#include "graph/op.h"
#include "support/graph_test.h"

static void test_scalars(void)
{
    static const est_dtype dtypes[] = { EST_F32, EST_F64, EST_I32, EST_I64, EST_U8, EST_BOOL };
    est_graph             *graph    = test_graph();

    for (int i = 0; i < 6; i++) {
        est_node    node = est_scalar(graph, dtypes[i], 1);
        est_tensor *out  = test_run(node, EST_NO_FEEDS);
        const void *data = out != NULL ? est_tensor_data(out) : NULL;

        CHECK(strcmp(est_def(node)->op->name, "Const") == 0);
        CHECK(out != NULL && est_tensor_dtype(out) == dtypes[i] && est_tensor_shape(out)->rank == 0);
        if (out == NULL) continue;
        CHECK(dtypes[i] != EST_F32 || *(const float *)data == 1);
        CHECK(dtypes[i] != EST_F64 || *(const double *)data == 1);
        CHECK(dtypes[i] != EST_I32 || *(const int32_t *)data == 1);
        CHECK(dtypes[i] != EST_I64 || *(const int64_t *)data == 1);
        CHECK((dtypes[i] != EST_U8 && dtypes[i] != EST_BOOL) || *(const uint8_t *)data == 1);
        est_tensor_free(out);
    }
    (void)est_scalar(graph, EST_STRING, 1);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT);
    est_graph_free(graph);
}

/* Small integers are known while the graph is built, others are not. */
static void test_values(void)
{
    est_graph *graph = test_graph();
    est_node   list  = est_const_list(graph, EST_I64S(3, -1, 5));
    est_node   large = est_const_list(graph, EST_I64S(INT64_C(1) << 40));
    est_node   empty = est_const_list(graph, (est_i64s){ 0 });
    float      f[6]  = { 1, 2, 3, 4, 5, 6 };
    est_node   real  = est_const_f32(graph, EST_SHAPE(2, 3), f);

    CHECK(est_node_dtype(list) == EST_I32 && est_def(list)->value[0].n == 3 && est_def(list)->value[0].v[1] == -1);
    CHECK(est_node_dtype(large) == EST_I64 && est_def(large)->value[0].v[0] == INT64_C(1) << 40);
    CHECK(est_node_dim(empty, 0) == 0 && est_def(empty)->value[0].n == 0);
    CHECK(est_node_dim(real, 1) == 3 && est_def(real)->value[0].n == -1);
    CHECK(est_graph_status(graph) == EST_OK, "%s", est_error_message());
    est_graph_free(graph);
}

static void test_strings_and_sharing(void)
{
    static const char *const words[] = { "one", "", "three" };
    est_graph               *graph   = test_graph();
    est_tensor              *tensor  = test_strings(EST_SHAPE(3), words);
    est_node                 node    = est_const(graph, tensor);

    est_tensor_free(tensor); /* the graph keeps its own reference */
    check_strings(node, EST_SHAPE(3), words);
    (void)est_const(graph, NULL);
    CHECK(est_graph_status(graph) == EST_INVALID_ARGUMENT);
    est_graph_free(graph);
}

int main(void)
{
    test_scalars();
    test_values();
    test_strings_and_sharing();
    return graph_test_failures != 0;
}
