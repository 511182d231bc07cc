/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of several workers at the same variables: a ps task applies each whole. With gradients that do not depend on
 * the variables the result is that of one worker, whatever order they come in. */
#include "estoc/estoc.h"
#include "support/coordinator_test.h"
#include "support/far_device.h"

#define CALLS   200
#define ROWS    9
#define COLUMNS 4
#define N_ALL   (ROWS * COLUMNS + COLUMNS) /* elements of both variables */

static est_optimizer optimizer_of(int i)
{
    switch (i) {
    case 0: return est_sgd(0.1);
    case 1: return est_momentum(0.1, EST_MOMENTUM(.keras = true));
    case 2: return est_adagrad(0.1, NULL);
    case 3: return est_ftrl(0.1, NULL);
    case 4: return est_adadelta(0.1, NULL);
    case 5: return est_rms_prop(0.1, NULL);
    case 6: return est_rms_prop(0.1, EST_RMS_PROP(.keras = true));
    default: return est_rms_prop(0.1, EST_RMS_PROP(.keras = true, .centered = true));
    }
}

static est_strategy *make_strategy(const est_local_cluster *cluster)
{
    est_partitioner two      = est_fixed_shards(2);
    est_strategy   *strategy = NULL;

    assert_ok(est_parameter_server_strategy(
        EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(cluster), .partitioner = &two, .round_robin = true),
        &strategy));
    return strategy;
}

static void run_calls(est_coordinator *coordinator, est_node ids, est_node train)
{
    const int64_t rows[] = { 0, 1, 5, 5, 8, 2 };
    est_function *step   = NULL;
    est_tensor   *value  = NULL;

    assert_ok(est_tensor_i64(EST_SHAPE(6), rows, &value));
    assert_ok(est_coordinator_function(coordinator, "step", EST_NODES(ids), EST_NO_NODES, EST_NODES(train), &step));
    for (int i = 0; i < CALLS; i++) {
        assert_ok(est_coordinator_schedule(coordinator, step, EST_ARGUMENTS({ .node = ids, .value = value }), NULL));
    }
    assert_ok(est_coordinator_join(coordinator));
    est_function_free(step);
    est_tensor_free(value);
}

static void read_all(est_session *session, float *out)
{
    static const char *const names[] = { "embedding/embeddings", "bias" };

    for (int k = 0; k < 2; k++) {
        est_tensor *value = NULL;

        assert_ok(est_session_read(session, names[k], &value));
        memcpy(out, est_tensor_data(value), est_tensor_bytes(value));
        out += est_tensor_count(value);
        est_tensor_free(value);
    }
}

/* A table with a gradient for some rows and a variable with one for all. */
static void train_with(int workers, est_optimizer optimizer, float out[N_ALL])
{
    est_local_cluster *cluster     = NULL;
    est_strategy      *strategy    = NULL;
    est_graph         *graph       = NULL;
    est_coordinator   *coordinator = NULL;
    est_node           ids, bias, loss, train;

    assert_ok(est_local_cluster_create(
        EST_LOCAL_CLUSTER(.ps = 2, .workers = workers, .server = EST_SERVER(.transport = "tcp")), &cluster));
    strategy = make_strategy(cluster);
    assert_ok(est_graph_create(7, &graph));
    ids   = est_placeholder(graph, "ids", EST_I64, EST_SHAPE(-1));
    bias  = est_weight(graph, "bias", EST_SHAPE(COLUMNS), EST_WEIGHT(.initializer = est_init_zeros()));
    loss  = est_add(est_sum(est_embedding(ids, ROWS, COLUMNS, EST_EMBEDDING(.initializer = est_init_zeros()))),
                    est_sum(est_read_variable(bias)));
    train = est_minimize(optimizer, loss, NULL);
    assert_ok(est_graph_status(graph));
    assert_ok(est_coordinator_create(strategy, graph, EST_COORDINATOR(.transport = "tcp"), &coordinator));
    run_calls(coordinator, ids, train);
    read_all(est_coordinator_session(coordinator), out);
    est_coordinator_free(coordinator);
    est_graph_free(graph);
    est_strategy_free(strategy);
    est_local_cluster_free(cluster);
}

TEST(updates_are_whole)
{
    for (int i = 0; i < 8; i++) {
        float one[N_ALL], three[N_ALL];

        train_with(1, optimizer_of(i), one);
        train_with(3, optimizer_of(i), three);
        assert_true(one[0] != 0 && one[N_ALL - 1] != 0);
        assert_memory_equal(one, three, sizeof one);
    }
    assert_int_equal(est_far_device_counts().launched > 0, est_far_device_is_used()); /* functions compute there */
}
