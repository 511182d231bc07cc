/* SPDX-License-Identifier: Apache-2.0
 *
 * A coordinator over a cluster in this process. */
#include "support/coordinator_test.h"

#include "base/clock.h"
#include "coordinator/coordinator.h"

#define PS_MAX 4

static void make_graph(coordinated *t, int ps)
{
    est_node updates[2 * PS_MAX], sum;
    int      n = 0;

    assert_ok(est_graph_create(7, &t->graph));
    t->x       = est_placeholder(t->graph, "x", EST_F32, EST_SHAPE(-1));
    t->doubled = est_mul(t->x, est_scalar(t->graph, EST_F32, 2));
    sum        = est_cast(est_sum(t->x), EST_F64);
    for (int i = 0; i < ps; i++) {
        char name[32];

        snprintf(name, sizeof name, "/job:ps/task:%d", i);
        est_graph_device(t->graph, name);
        snprintf(name, sizeof name, "calls_%d", i);
        t->calls = est_variable(t->graph, name, EST_F64, EST_SHAPE_SCALAR);
        est_variable_initializer(t->calls, est_scalar(t->graph, EST_F64, 0));
        snprintf(name, sizeof name, "total_%d", i);
        t->total = est_variable(t->graph, name, EST_F64, EST_SHAPE_SCALAR);
        est_variable_initializer(t->total, est_scalar(t->graph, EST_F64, 0));
        est_graph_device(t->graph, NULL);
        updates[n++] = est_assign_add(t->calls, est_scalar(t->graph, EST_F64, 1));
        updates[n++] = est_assign_add(t->total, sum);
    }
    t->count = est_group(t->graph, (est_nodes){ updates, n });
    assert_ok(est_graph_status(t->graph));
}

coordinated coordinated_begin(int ps, int workers, est_worker_functions functions)
{
    coordinated t = { 0 };

    assert_true(ps <= PS_MAX);
    assert_ok(
        est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = ps, .workers = workers,
                                                   .server = EST_SERVER(.transport = "tcp", .functions = functions)),
                                 &t.cluster));
    assert_ok(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = est_local_cluster_resolver(t.cluster)),
                                            &t.strategy));
    make_graph(&t, ps);
    return t;
}

void coordinated_start(coordinated *t, const est_coordinator_options *options)
{
    assert_ok(est_coordinator_create(t->strategy, t->graph, options, &t->coordinator));
    assert_ok(est_coordinator_function(t->coordinator, "step", EST_NODES(t->x), EST_NODES(t->doubled),
                                       EST_NODES(t->count), &t->step));
}

coordinated coordinated_open(int ps, int workers)
{
    coordinated t = coordinated_begin(ps, workers, (est_worker_functions){ 0 });

    coordinated_start(&t, EST_COORDINATOR(.transport = "tcp", .threads = 1, .connect_secs = COORDINATOR_SECS));
    return t;
}

void coordinated_stop(coordinated *t)
{
    est_function_free(t->step);
    est_coordinator_free(t->coordinator);
    t->step        = NULL;
    t->coordinator = NULL;
}

void coordinated_kill(coordinated *t)
{
    pthread_mutex_lock(&t->coordinator->lock);
    t->coordinator->halted = true;
    pthread_mutex_unlock(&t->coordinator->lock);
    est_net_abort(est_server_net(t->coordinator->server), "the test kills it");
    coordinated_stop(t);
}

void coordinated_end(coordinated *t)
{
    coordinated_stop(t);
    est_strategy_free(t->strategy);
    est_graph_free(t->graph);
    est_local_cluster_free(t->cluster);
}

est_tensor *coordinated_tensor(double value)
{
    float       f = (float)value;
    est_tensor *x = NULL;

    assert_ok(est_tensor_create_from(EST_F32, EST_SHAPE(1), &f, &x));
    return x;
}

est_status coordinated_schedule(coordinated *t, double value, est_remote_value **out)
{
    est_tensor *x      = coordinated_tensor(value);
    est_status  status = est_coordinator_schedule(t->coordinator, t->step, EST_ARGUMENTS({ .node = t->x, .value = x }),
                                                  out);

    est_tensor_free(x);
    return status;
}

static double read_one(coordinated *t, const char *what, int ps)
{
    est_tensor *value = NULL;
    double      number;
    char        name[32];

    snprintf(name, sizeof name, "%s_%d", what, ps);
    assert_ok(est_session_read(est_coordinator_session(t->coordinator), name, &value));
    number = nn_element(value, 0);
    est_tensor_free(value);
    return number;
}

double coordinated_calls(coordinated *t, int ps)
{
    return read_one(t, "calls", ps);
}

double coordinated_total(coordinated *t, int ps)
{
    return read_one(t, "total", ps);
}

typedef enum watched { HERE, LOSSES, COMPLETED } watched;

static int64_t look(const coordinated *t, watched what)
{
    est_coordinator_stats now = est_coordinator_get_stats(t->coordinator);

    return what == HERE ? now.workers_here : what == LOSSES ? now.workers_lost : now.completed;
}

static void await(const coordinated *t, watched what, int64_t at_least)
{
    int64_t until = est_now_ns() + est_secs_to_ns(COORDINATOR_SECS);

    while (look(t, what) < at_least && est_now_ns() < until) est_sleep_ns(1000000);
    assert_true(look(t, what) >= at_least);
}

void coordinated_await_here(const coordinated *t, int here)
{
    await(t, HERE, here);
}

void coordinated_await_losses(const coordinated *t, int64_t losses)
{
    await(t, LOSSES, losses);
}

void coordinated_await_completed(const coordinated *t, int64_t completed)
{
    await(t, COMPLETED, completed);
}
