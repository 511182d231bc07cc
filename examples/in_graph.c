/* SPDX-License-Identifier: Apache-2.0
 *
 * One program, a cluster of two workers and a parameter server: variables at the ps, computation at both workers, and a
 * client that knows only the address of worker 0, whose master drives the steps (in-graph replication). Above each part
 * the TensorFlow 1 calls that it stands for.
 *
 *     in_graph [W0 W1 P0]    addresses of the three tasks; default: localhost:2222 localhost:2223 localhost:2224
 *
 * The servers are child processes on this host, and use TLS with the certificates of the user. On several hosts start
 * one process for each task, with certificates of the job (docs/cluster.md, "Certificates"). */
#include <estoc/estoc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS 3
#define STEPS 3

/* server = tf.train.Server(cluster, job_name=job, task_index=index)
 * server.join() */
static void serve(const est_cluster *cluster, const char *job, int index, int ready)
{
    est_server *server = NULL;
    est_status  status = est_server_create(cluster, job, index, EST_SERVER(.threads = 1), &server);

    if (status == EST_OK && write(ready, "", 1) == 1)
        status = est_server_join(server); /* until the client's process ends it */
    if (status != EST_OK) fprintf(stderr, "%s:%d: %s\n", job, index, est_error_message());
    est_server_free(server);
    exit(status == EST_OK ? 0 : 1);
}

/* Waits until the server listens. 0: it does not, and its process has ended; the client would wait for it in vain. */
static pid_t start(const est_cluster *cluster, const char *job, int index)
{
    int   ready[2];
    char  byte;
    pid_t child;

    if (pipe(ready) != 0) return 0;
    child = fork();
    if (child == 0) {
        close(ready[0]);
        serve(cluster, job, index, ready[1]);
    }
    close(ready[1]);
    if (child > 0 && read(ready[0], &byte, 1) != 1) {
        (void)waitpid(child, NULL, 0);
        child = 0;
    }
    close(ready[0]);
    return child > 0 ? child : 0;
}

typedef struct model {
    est_node x, w, loss, train;
} model;

/* with tf.device("/job:ps/task:0"):
 *     w = tf.get_variable("w", initializer=[[1.0], [2.0]])
 *     b = tf.get_variable("b", initializer=[0.5])
 * x = tf.placeholder(tf.float32, [None, 2])
 * with tf.device("/job:worker/task:0"):
 *     left = tf.matmul(x, w)
 * with tf.device("/job:worker/task:1"):
 *     y = left + b
 * loss = tf.reduce_mean(tf.square(y - 1.0))
 * train = tf.train.GradientDescentOptimizer(0.01).minimize(loss) */
static model build(est_graph *graph)
{
    model    m;
    est_node b, left, y;

    est_graph_device(graph, "/job:ps/task:0");
    m.w = est_weight(graph, "w", EST_SHAPE(2, 1), NULL);
    b   = est_weight(graph, "b", EST_SHAPE(1), NULL);
    est_graph_device(graph, NULL);
    m.x = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 2));

    est_graph_device(graph, "/job:worker/task:0");
    left = est_matmul(m.x, est_read_variable(m.w));
    est_graph_device(graph, "/job:worker/task:1"); /* `left` travels from worker 0 to worker 1 */
    y = est_add(left, est_read_variable(b));
    est_graph_device(graph, NULL);
    m.loss  = est_mean(est_square(est_sub(y, est_scalar(graph, EST_F32, 1))));
    m.train = est_minimize(est_sgd(0.01), m.loss, NULL);
    return m;
}

static est_status set(est_session *session, const char *variable, est_shape shape, const float *values)
{
    est_tensor *tensor = NULL;
    est_status  status = est_tensor_f32(shape, values, &tensor);

    if (status == EST_OK) status = est_session_write(session, variable, tensor);
    est_tensor_free(tensor);
    return status;
}

/* An est_initializer gives all elements of a variable one value, or random ones, so the lists of values above are
 * written. est_session_init leaves them: it initializes only variables that have no value yet.
 *
 * with tf.Session(server.target) as sess:
 *     sess.run(tf.global_variables_initializer())
 *     for _ in range(3):
 *         print(sess.run([loss, train], {x: [[1., 2.], [3., 4.]]})[0]) */
static est_status train(est_session *session, const model *m)
{
    est_tensor *x = NULL, *loss = NULL;
    est_status  status;

    EST_TRY(set(session, "w", EST_SHAPE(2, 1), (const float[]){ 1, 2 }));
    EST_TRY(set(session, "b", EST_SHAPE(1), (const float[]){ 0.5F }));
    EST_TRY(est_session_init(session)); /* all else */
    status = est_tensor_f32(EST_SHAPE(2, 2), (const float[]){ 1, 2, 3, 4 }, &x);
    for (int i = 0; i < STEPS && status == EST_OK; i++) {
        status = est_session_run(session, EST_FEEDS({ m->x, x }), EST_NODES(m->loss), EST_NODES(m->train), &loss);
        if (status == EST_OK) printf("loss %.4f\n", *(const float *)est_tensor_data(loss));
        est_tensor_free(loss);
        loss = NULL;
    }
    est_tensor_free(x);
    return status;
}

/* A client may end and come back: the variables are at the ps. */
static est_status look_again(est_graph *graph, const char *target)
{
    est_session *session = NULL;
    est_tensor  *w       = NULL;
    est_status   status  = est_session_create(graph, EST_SESSION(.target = target), &session);

    if (status == EST_OK) status = est_session_read(session, "w", &w);
    if (status == EST_OK) {
        const float *values = est_tensor_data(w);

        printf("w %.4f %.4f\n", values[0], values[1]);
    }
    est_tensor_free(w);
    est_session_free(session);
    return status;
}

static est_status drive(const char *target)
{
    est_graph   *graph   = NULL;
    est_session *session = NULL;
    est_status   status  = est_graph_create(1, &graph);
    model        m;

    if (status == EST_OK) {
        m      = build(graph);
        status = est_session_create(graph, EST_SESSION(.target = target), &session);
    }
    if (status == EST_OK) status = train(session, &m);
    est_session_free(session);
    if (status == EST_OK) status = look_again(graph, target);
    est_graph_free(graph);
    return status;
}

int main(int argc, char **argv)
{
    const char  *address[TASKS]  = { "localhost:2222", "localhost:2223", "localhost:2224" };
    const char  *job[TASKS]      = { "worker", "worker", "ps" };
    est_cluster *cluster         = NULL;
    pid_t        children[TASKS] = { 0 };
    char         target[300];
    est_status   status;

    setvbuf(stdout, NULL, _IOLBF, 0); /* show each line at once, also in a pipe */
    for (int i = 0; i < TASKS && argc == TASKS + 1; i++) address[i] = argv[i + 1];

    /* cluster = tf.train.ClusterSpec({"worker": [W0, W1], "ps": [P0]}) */
    status = est_cluster_create((est_jobs){ (const est_job[]){ { .name = "worker", .addresses = { address, 2 } },
                                                { .name = "ps", .addresses = { address + 2, 1 } } },
                                    2 },
        &cluster);
    if (status == EST_OK) {
        for (int i = 0; i < TASKS && status == EST_OK; i++) { /* before this process has threads */
            children[i] = start(cluster, job[i], i == 1);
            if (children[i] == 0) status = est_fail(EST_UNAVAILABLE, "the server at %s does not run", address[i]);
        }
        snprintf(target, sizeof target, "tls://%s", address[0]); /* server.target of worker 0 */
        if (status == EST_OK) status = drive(target);
        for (int i = 0; i < TASKS; i++) {
            if (children[i] > 0 && kill(children[i], SIGTERM) == 0) (void)waitpid(children[i], NULL, 0);
        }
    }
    if (status != EST_OK) fprintf(stderr, "in_graph: %s: %s\n", est_status_name(status), est_error_message());
    est_cluster_free(cluster);
    return status == EST_OK ? 0 : 1;
}
