/* SPDX-License-Identifier: Apache-2.0
 *
 * Between-graph replication with parameter servers: every worker builds the same graph, with its variables pinned to
 * the ps tasks, and trains by itself; the steps of all workers together end at a limit. One program for all roles, by
 * TF_CONFIG:
 *
 *     estoc launch --no-chief --ps 2 --workers 2 -- between_graph
 *     between_graph --local            the chief alone, and the ps tasks in the same process
 *
 * A directory behind that gets checkpoints: a ps task that is killed and started again is restored from them.
 *
 * Above each part, the lines of the TensorFlow 1 program that it stands for. */
#include <estoc/estoc.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH        32
#define STEP_LIMIT   400 /* of all workers together */
#define CONNECT_SECS 60  /* a worker that comes after the job has ended waits no longer */

typedef struct model {
    est_node x, y, loss, train;
} model;

/* with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:%d" % task_index)):
 *     global_step = tf.train.get_or_create_global_step()
 *     hidden = tf.layers.dense(x, 16, tf.nn.relu)
 *     loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1) - y))
 *     train_op = tf.train.AdagradOptimizer(0.2).minimize(loss, global_step=global_step) */
static model build(est_graph *graph, const est_task *task)
{
    char  worker[64];
    model m;

    snprintf(worker, sizeof worker, "/job:%s/task:%d", task->type, task->index);
    est_replica_device_setter(graph, EST_DEVICE_SETTER(.cluster = task->cluster, .worker_device = worker));
    (void)est_global_step(graph);
    m.x             = est_placeholder(graph, "x", EST_F32, EST_SHAPE(-1, 2));
    m.y             = est_placeholder(graph, "y", EST_F32, EST_SHAPE(-1, 1));
    est_node hidden = est_dense(m.x, 16, EST_DENSE(.activation = est_relu));
    est_node error  = est_sub(est_dense(hidden, 1, NULL), m.y);
    m.loss          = est_reduce_mean(est_square(error), EST_I64S(0, 1), false);
    m.train         = est_minimize(est_adagrad(0.2, NULL), m.loss, NULL);
    return m;
}

/* y = x0 - x1 / 2, for points that differ from worker to worker. */
static est_status make_batch(uint64_t *state, est_tensor *batch[2])
{
    float xs[BATCH][2], ys[BATCH];

    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < 2; k++) {
            *state   = *state * 6364136223846793005u + 1442695040888963407u;
            xs[i][k] = (float)(*state >> 40) / 8388608.0f - 1; /* in [-1, 1) */
        }
        ys[i] = xs[i][0] - xs[i][1] / 2;
    }
    EST_TRY(est_tensor_f32(EST_SHAPE(BATCH, 2), xs[0], &batch[0]));
    return est_tensor_f32(EST_SHAPE(BATCH, 1), ys, &batch[1]);
}

/* while not session.should_stop():
 *     session.run([train_op, loss], ...)
 *
 * The run after the last step of all says that there is none left. */
static est_status train(est_monitored_session *session, const model *m, const est_task *task)
{
    uint64_t   state = 1 + (uint64_t)task->index;
    int        steps = 0;
    float      loss  = 0;
    est_status status;

    do {
        est_tensor *batch[2] = { 0 }, *value = NULL;

        status = make_batch(&state, batch);
        if (status == EST_OK) {
            status = est_monitored_session_run(session, EST_FEEDS({ m->x, batch[0] }, { m->y, batch[1] }),
                EST_NODES(m->loss), EST_NODES(m->train), &value);
        }
        if (status == EST_OK) {
            loss = *(const float *)est_tensor_data(value);
            steps++;
        }
        est_tensor_free(value);
        for (int i = 0; i < 2; i++) est_tensor_free(batch[i]);
    } while (status == EST_OK);
    if (status != EST_OUT_OF_RANGE) return status;
    printf("%s %d: %d of %d steps, the last one was %" PRId64 ", loss %.4f\n", task->type, task->index, steps,
        STEP_LIMIT, est_monitored_session_global_step(session), loss);
    return est_monitored_session_end(session);
}

/* with tf.train.MonitoredTrainingSession(master=server.target, is_chief=(task_index == 0),
 *                                        checkpoint_dir=checkpoint_dir) as session: */
static est_status run_session(est_remote *remote, est_graph *graph, const est_task *task, const char *dir)
{
    model                  m       = build(graph, task);
    est_monitored_session *session = NULL;

    est_status status = est_monitored_session_create(graph,
        EST_MONITORED(.checkpoint_dir = dir, .loss = m.loss, .session = EST_SESSION(.threads = 1, .remote = remote)),
        &session);
    if (status == EST_OK) status = train(session, &m, task);
    est_monitored_session_free(session);
    if (status == EST_OK && task->is_chief)
        status = est_remote_end_job(remote); /* the ps tasks end after all workers */
    return status;
}

static est_status work(const est_strategy *strategy, est_server *server, const est_task *task, const char *dir)
{
    est_remote *remote = NULL;
    est_graph  *graph  = NULL;

    EST_TRY(est_strategy_remote(strategy, server,
        EST_REMOTE(.is_chief = task->is_chief, .connect_secs = CONNECT_SECS, .step_limit = STEP_LIMIT), &remote));
    est_status status = est_graph_create(7, &graph);
    if (status == EST_OK) status = run_session(remote, graph, task, dir);
    est_remote_free(remote);
    est_graph_free(graph);
    return status;
}

/* server = tf.train.Server(cluster, job_name=job_name, task_index=task_index)
 * if job_name == "ps":
 *     server.join() */
static est_status run_task(const est_resolver *resolver, const char *dir)
{
    est_strategy *strategy = NULL;
    est_server   *server   = NULL;

    EST_TRY(est_parameter_server_strategy(EST_PARAMETER_SERVER(.resolver = resolver), &strategy));
    const est_task *task = est_strategy_task(strategy);
    est_status status    = est_server_create(task->cluster, task->type, task->index, EST_SERVER(.threads = 1), &server);
    if (status == EST_OK) {
        status = strcmp(task->type, "ps") == 0 ? est_server_join(server) : work(strategy, server, task, dir);
    }
    est_server_free(server);
    est_strategy_free(strategy);
    return status;
}

int main(int argc, char **argv)
{
    est_local_cluster *local    = NULL;
    est_resolver      *resolver = NULL;
    bool               alone    = argc > 1 && strcmp(argv[1], "--local") == 0;
    const char        *dir      = argc > 1 + alone ? argv[1 + alone] : NULL;
    est_status         status;

    setvbuf(stdout, NULL, _IOLBF, 0); /* under estoc launch it is a pipe: show each line at once */
    if (alone) {
        status = est_local_cluster_create(EST_LOCAL_CLUSTER(.ps = 2, .chief = true), &local);
        if (status == EST_OK) status = run_task(est_local_cluster_resolver(local), dir);
    } else { /* the first worker is the chief */
        status = est_resolve_tf_config(NULL, EST_TASK_RULES(.no_chief_ok = true), &resolver);
        if (status == EST_OK && est_cluster_jobs(est_resolver_task(resolver)->cluster) == 0) {
            status = est_fail(EST_INVALID_ARGUMENT, "TF_CONFIG has no cluster; use estoc launch, or --local");
        }
        if (status == EST_OK) status = run_task(resolver, dir);
    }
    if (status != EST_OK) fprintf(stderr, "%s: %s\n", est_status_name(status), est_error_message());
    est_resolver_free(resolver);
    est_local_cluster_free(local);
    return est_exit_code(status);
}
