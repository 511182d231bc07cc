/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"
#include "support/graph_test.h"

static void dedup(est_ref *r)
{
    int64_t n = est_shape_count(&r->in_shape[1]), cols = 1, n_unique = 0;

    for (int i = 1; i < r->in_shape[0].rank; i++) cols *= r->in_shape[0].dim[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        while (at < n_unique && r->out[1][at] != r->in[1][i]) at++;
        if (at == n_unique) {
            n_unique++;
            r->out[1][at] = r->in[1][i];
            for (int64_t j = 0; j < cols; j++) r->out[0][at * cols + j] = 0;
        }
        for (int64_t j = 0; j < cols; j++) r->out[0][at * cols + j] += r->in[0][i * cols + j];
    }
}

/* What is distinct is not summed again, also when the values have gone through something since. */
static void test_twice(void)
{
    est_graph   *graph = test_graph();
    est_gradient g     = { est_placeholder(graph, "values", EST_F32, EST_SHAPE(-1, 3)),
                           est_placeholder(graph, "indices", EST_I64, EST_SHAPE(-1)) };
    est_gradient once = est_dedup(g), twice = est_dedup(once);

    CHECK(once.values.id != g.values.id && once.indices.id == once.values.id);
    CHECK(twice.values.id == once.values.id && twice.indices.id == once.indices.id);
    once.values = est_neg(once.values);
    CHECK(est_dedup(once).values.id == once.values.id);
    once.indices = est_identity(once.indices);
    CHECK(est_dedup(once).values.id != once.values.id);
    est_graph_free(graph);
}

#define DEDUP .op = "EstDedup", .tol = 1e-3, .ref = dedup
#define ROWS(type, last, ...)                                                                                          \
    {                                                                                                                  \
        .shape = EST_SHAPE(__VA_ARGS__), .dtype = type, .lo = -1, .hi = last                                           \
    }

int main(int argc, char **argv)
{
    apply_indices();
    const est_op_case cases[] = {
        { DEDUP, .in = { IN(7, 3), ROWS(EST_I64, 2, 7) } },
        { DEDUP, .in = { IN(512), ROWS(EST_I32, 90, 512) } },
        { DEDUP, .in = { IN(512, 16), ROWS(EST_I64, 90, 512) } },
        { DEDUP, .in = { IN(30, 2, 2), ROWS(EST_I64, 5, 30) } },
        { DEDUP, .in = { IN(1, 3), ROWS(EST_I64, 2, 1) } },
        { DEDUP, .in = { IN(0, 3), ROWS(EST_I64, 2, 0) } },
        { DEDUP, .in = { IN(6, 0), ROWS(EST_I64, 2, 6) } },
        { DEDUP, .in = { IN(N_MANY, 16), INDICES(EST_I64, N_MANY, many) } }, /* no duplicates */
        { DEDUP, .in = { IN(20001, 16), ROWS(EST_I64, 1500, 20001) } },      /* cut into lanes */
        { DEDUP, .in = { IN(20001), ROWS(EST_I32, 3, 20001) } },             /* long sums */
        { DEDUP, .in = { IN(6, 3), ROWS(EST_I64, 2, 5) }, .fails = EST_INVALID_ARGUMENT, .says = "[6,3]" },
    };

    test_twice();
    return est_op_check(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv) != 0 || graph_test_failures != 0;
}
