/* SPDX-License-Identifier: Apache-2.0
 *
 * State that the sessions of a job share at ps tasks: metrics that several programs add to and any of them reads or
 * resets, and where the parts of variables are. */
#include "estoc/estoc.h"
#include "support/dir_test.h"
#include "support/nn_test.h"
#include "support/servers_test.h"
#include "tensor/shape.h"

#define WORKERS 3

/* Each program builds the same graph. */
typedef struct program {
    est_graph   *graph;
    est_node     x;
    est_metric   mean, count;
    est_remote  *remote;
    est_session *session;
} program;

static program make_program(est_remote *remote)
{
    program  p = { .remote = remote };
    est_node count;

    assert_ok(est_graph_create(1, &p.graph));
    p.x     = est_placeholder(p.graph, "x", EST_F32, EST_SHAPE(-1));
    p.mean  = est_metric_mean(p.x, EST_METRIC(.shared = true));
    count   = est_metric_shared_state(p.graph, "count", EST_I64, EST_SHAPE_SCALAR);
    p.count = est_metric_custom(EST_NODES(count), EST_NODES(est_assign_add(count, est_scalar(p.graph, EST_I64, 1))),
                                est_read_variable(count));
    assert_ok(est_graph_status(p.graph));
    p.session = nn_session(p.graph, remote);
    return p;
}

static void end_program(program *p)
{
    est_session_free(p->session);
    est_remote_free(p->remote);
    est_graph_free(p->graph);
}

static void add(program *p, float a, float b)
{
    est_tensor *x;

    assert_ok(est_tensor_f32(EST_SHAPE(2), ((float[]){ a, b }), &x));
    assert_ok(est_session_run(p->session, EST_FEEDS({ p->x, x }), EST_NO_NODES,
                              EST_NODES(p->mean.update, p->count.update), NULL));
    est_tensor_free(x);
}

static void expect(program *p, double mean, double count)
{
    est_tensor *out[2];

    assert_ok(est_session_run(p->session, EST_NO_FEEDS, EST_NODES(p->mean.value, p->count.value), EST_NO_NODES, out));
    assert_near(nn_element(out[0], 0), mean, 1e-6);
    assert_near(nn_element(out[1], 0), count, 0);
    for (int i = 0; i < 2; i++) est_tensor_free(out[i]);
}

static void start_programs(servers *s, program out[WORKERS])
{
    for (int i = 0; i < WORKERS; i++) {
        out[i] = make_program(
            servers_remote(s, i, EST_REMOTE(.is_chief = i == 0, .connect_secs = 20, .answer_secs = 20)));
        if (i == 0) assert_ok(est_remote_declare_ready(out[0].remote));
    }
}

TEST(workers_add_to_one_metric)
{
    servers   s = servers_start(1, WORKERS, "tcp");
    program   p[WORKERS];
    est_nodes reset;

    start_programs(&s, p);
    add(&p[0], 1, 2);
    add(&p[1], 3, 4);
    add(&p[0], 5, 9);
    for (int i = 0; i < WORKERS; i++) expect(&p[i], 4, 3);
    reset = EST_NODES(p[2].mean.reset, p[2].count.reset);
    assert_ok(est_session_run(p[2].session, EST_NO_FEEDS, EST_NO_NODES, reset, NULL));
    expect(&p[0], 0, 0);
    add(&p[1], 7, 8);
    expect(&p[2], 7.5, 1);
    for (int i = 0; i < WORKERS; i++) end_program(&p[i]);
    servers_stop(&s);
}

TEST(checkpoints_have_the_state)
{
    char       dir[64];
    servers    s = servers_start(1, WORKERS, "tcp");
    program    p[WORKERS], alone;
    est_saver *saver;

    est_test_dir(dir);
    assert_ok(est_saver_create(dir, NULL, &saver));
    start_programs(&s, p);
    add(&p[0], 1, 2);
    add(&p[1], 3, 4);
    assert_ok(est_saver_save(saver, p[0].session, 1, NULL, NULL));
    add(&p[1], 100, 100);
    assert_ok(est_saver_restore(saver, p[0].session, NULL, NULL));
    expect(&p[2], 2.5, 2);
    alone = make_program(NULL); /* and a program without a cluster */
    assert_ok(est_saver_restore(saver, alone.session, NULL, NULL));
    expect(&alone, 2.5, 2);
    end_program(&alone);
    for (int i = 0; i < WORKERS; i++) end_program(&p[i]);
    servers_stop(&s);
    est_saver_free(saver);
    est_test_dir_remove(dir);
}

/* --- where variables are ------------------------------------------------------------------------------------------ */

static void expect_part(est_session *session, const char *name, int i, est_shape shape, int64_t first,
                        const char *device)
{
    est_variable_part part;
    est_tensor       *value;

    assert_ok(est_session_variable_part(session, name, i, &part));
    assert_true(est_shape_equal(&part.shape, &shape));
    assert_int_equal(part.first_row, first);
    assert_string_equal(part.device, device);
    assert_ok(est_session_read_part(session, name, i, &value));
    assert_true(est_shape_equal(est_tensor_shape(value), &shape));
    est_tensor_free(value);
}

/* A table of 9 rows in two shards, as tf.distribute has it with FixedShardsPartitioner(2). */
TEST(parts_of_a_table)
{
    servers         s   = servers_start(2, 1, "tcp");
    est_partitioner two = est_fixed_shards(2);
    est_remote     *remote;
    est_graph      *graph;
    est_session    *session;
    est_tensor     *table, *rows;

    remote = servers_remote(&s, 0,
                            EST_REMOTE(.is_chief = true, .connect_secs = 20, .partitioner = &two, .round_robin = true));
    assert_ok(est_graph_create(1, &graph));
    (void)est_weight(graph, "table", EST_SHAPE(9, 20), NULL);
    (void)est_weight(graph, "scale", EST_SHAPE_SCALAR, NULL);
    est_graph_device(graph, "/job:worker/task:0");
    (void)est_weight(graph, "here", EST_SHAPE(3), NULL);
    session = nn_session(graph, remote);
    assert_int_equal(est_session_variable_parts(session, "table"), 2);
    expect_part(session, "table", 0, EST_SHAPE(5, 20), 0, "/job:ps/replica:0/task:0/device:CPU:0");
    expect_part(session, "table", 1, EST_SHAPE(4, 20), 5, "/job:ps/replica:0/task:1/device:CPU:0");
    assert_int_equal(est_session_variable_parts(session, "scale"), 1);
    expect_part(session, "scale", 0, EST_SHAPE_SCALAR, 0, "/job:ps/replica:0/task:0/device:CPU:0");
    expect_part(session, "here", 0, EST_SHAPE(3), 0, "/job:localhost/replica:0/task:0/device:CPU:0");
    assert_ok(est_session_read(session, "table", &table));
    assert_ok(est_session_read_part(session, "table", 1, &rows));
    assert_memory_equal((const float *)est_tensor_data(table) + 5 * 20, est_tensor_data(rows), 4 * 20 * sizeof(float));
    est_tensor_free(table);
    est_tensor_free(rows);
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    servers_stop(&s);
}

static void expect_device(est_session *session, const char *name, const char *device)
{
    est_variable_part part;

    assert_ok(est_session_variable_part(session, name, 0, &part));
    assert_string_equal(part.device, device);
}

static est_metric make_two_states(est_graph *graph, est_node *hits, est_node *rows)
{
    *hits = est_metric_shared_state(graph, "hits", EST_I64, EST_SHAPE_SCALAR);
    *rows = est_metric_shared_state(graph, "rows", EST_I64, EST_SHAPE_SCALAR);
    return est_metric_custom(
        EST_NODES(*hits, *rows),
        EST_NODES(est_assign_add(*hits, est_scalar(graph, EST_I64, 1)),
                  est_assign_add(*rows, est_scalar(graph, EST_I64, 2))),
        est_div_no_nan(est_cast(est_read_variable(*hits), EST_F32), est_cast(est_read_variable(*rows), EST_F32)));
}

/* The states of a metric are at one task, so that a lost task costs all of them or none. In turn it counts once. */
TEST(states_of_a_metric_are_colocated)
{
    static const char ps0[] = "/job:ps/replica:0/task:0/device:CPU:0";
    static const char ps1[] = "/job:ps/replica:0/task:1/device:CPU:0";

    for (int in_turn = 0; in_turn < 2; in_turn++) {
        servers      s = servers_start(2, 1, "tcp");
        est_remote  *remote;
        est_graph   *graph;
        est_session *session;
        est_node     hits, rows;

        remote = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20, .round_robin = in_turn != 0));
        assert_ok(est_graph_create(1, &graph));
        (void)est_weight(graph, "a", EST_SHAPE(64), NULL);
        (void)est_metric_mean(est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1)),
                              EST_METRIC(.name = "mean", .shared = true));
        (void)make_two_states(graph, &hits, &rows);
        (void)est_weight(graph, "b", EST_SHAPE(64), NULL);
        assert_ok(est_graph_status(graph));
        session = nn_session(graph, remote);
        expect_device(session, "a", ps0);
        expect_device(session, "b", ps1);
        expect_device(session, "mean/total", ps1);
        expect_device(session, "mean/count", ps1);
        expect_device(session, "hits", ps0);
        expect_device(session, "rows", ps0);
        est_session_free(session);
        est_remote_free(remote);
        est_graph_free(graph);
        servers_stop(&s);
    }
}

/* A device setter counts the metric once, and states that the program has pinned stay where they are pinned. */
TEST(pinned_states)
{
    servers      s = servers_start(2, 1, "tcp");
    est_remote  *remote;
    est_graph   *graph;
    est_session *session;
    est_node     states[2];

    remote = servers_remote(&s, 0, EST_REMOTE(.is_chief = true, .connect_secs = 20));
    assert_ok(est_graph_create(1, &graph));
    for (int i = 0; i < 2; i++) {
        est_graph_device(graph, i == 0 ? "/job:ps/task:0" : "/job:ps/task:1");
        states[i] = est_metric_shared_state(graph, i == 0 ? "s0" : "s1", EST_I64, EST_SHAPE_SCALAR);
    }
    est_graph_device(graph, NULL);
    (void)est_metric_custom(EST_NODES(states[0], states[1]),
                            EST_NODES(est_assign_add(states[0], est_scalar(graph, EST_I64, 1)),
                                      est_assign_add(states[1], est_scalar(graph, EST_I64, 2))),
                            est_add(est_read_variable(states[0]), est_read_variable(states[1])));
    est_replica_device_setter(graph, EST_DEVICE_SETTER(.ps_tasks = 2, .worker_device = "/job:worker/task:0"));
    (void)est_metric_mean(est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1)),
                          EST_METRIC(.name = "mean", .shared = true));
    (void)est_weight(graph, "b", EST_SHAPE(2), NULL);
    assert_ok(est_graph_status(graph));
    session = nn_session(graph, remote);
    expect_device(session, "s0", "/job:ps/replica:0/task:0/device:CPU:0");
    expect_device(session, "s1", "/job:ps/replica:0/task:1/device:CPU:0");
    expect_device(session, "mean/total", "/job:ps/replica:0/task:0/device:CPU:0");
    expect_device(session, "mean/count", "/job:ps/replica:0/task:0/device:CPU:0");
    expect_device(session, "b", "/job:ps/replica:0/task:1/device:CPU:0");
    est_session_free(session);
    est_remote_free(remote);
    est_graph_free(graph);
    servers_stop(&s);
}

TEST(parts_without_a_cluster)
{
    nn_test           t     = nn_begin(1);
    est_variable_part part  = { .first_row = -7 };
    est_tensor       *value = NULL;

    (void)est_weight(t.graph, "w", EST_SHAPE(2, 3), NULL);
    nn_ready(&t);
    assert_int_equal(est_session_variable_parts(t.session, "w"), 1);
    expect_part(t.session, "w", 0, EST_SHAPE(2, 3), 0, "/job:localhost/replica:0/task:0/device:CPU:0");
    assert_int_equal(est_session_variable_parts(t.session, "v"), 0);
    assert_int_equal(est_session_variable_part(t.session, "v", 0, &part), EST_NOT_FOUND);
    assert_int_equal(est_session_variable_part(t.session, "w", 1, &part), EST_OUT_OF_RANGE);
    assert_int_equal(est_session_read_part(t.session, "w", -1, &value), EST_OUT_OF_RANGE);
    assert_int_equal(part.first_row, -7);
    nn_end(&t);
}
