# SPDX-License-Identifier: Apache-2.0
"""Descriptions of clusters, resolvers and servers."""
import json
import os
import subprocess
import sys
import threading

import pytest

import estoc
import estoc.tf as tf
from estoc.cluster import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_cluster_spec_is_tensorflows():
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:1"], "ps": {1: "c:1"}})
    assert spec.jobs == ["worker", "ps"] and spec.num_tasks("worker") == 2 and spec.num_tasks("ps") == 1
    assert spec.as_dict() == {"worker": ["a:1", "b:1"], "ps": {1: "c:1"}}
    assert spec.job_tasks("ps") == [None, "c:1"] and spec.task_indices("ps") == [1]
    assert spec.task_address("worker", 1) == "b:1"
    assert str(spec) == "ClusterSpec({'ps': {1: 'c:1'}, 'worker': ['a:1', 'b:1']})"
    assert spec == tf.train.ClusterSpec(spec) and spec != tf.train.ClusterSpec({}) and not tf.train.ClusterSpec({})
    with pytest.raises(ValueError, match="No such job in cluster: 'chief'"):
        spec.num_tasks("chief")
    with pytest.raises(ValueError, match="No task with index 7 in job 'worker'"):
        spec.task_address("worker", 7)
    with pytest.raises(TypeError, match="list of addresses"):
        tf.train.ClusterSpec({"worker": "a:1"})
    with pytest.raises(TypeError, match="dictionary"):
        tf.train.ClusterSpec(["a:1"])


def test_simple_resolver():
    spec = tf.train.ClusterSpec({"worker": ["a:1", "b:1"], "ps": ["c:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, task_type="worker", task_id=1, rpc_layer="grpc")
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer) == ("worker", 1, "grpc")
    assert resolver.cluster_spec() is spec and resolver.master() == "" and resolver.master("ps", 0) == "grpc://c:1"
    assert resolver.num_accelerators() == {} and resolver.environment == ""
    with pytest.raises(TypeError, match="must be a `tf.train.ClusterSpec`"):
        tf.distribute.cluster_resolver.SimpleClusterResolver({"worker": ["a:1"]})


def test_tf_config_resolver(monkeypatch):
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert resolver.task_type is None and not resolver.cluster_spec() and resolver.master() == ""
    monkeypatch.setenv("TF_CONFIG", json.dumps({
        "cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "task": {"type": "worker", "index": 0},
        "rpc_layer": "grpc"}))
    assert (resolver.task_type, resolver.task_id, resolver.rpc_layer) == ("worker", 0, "grpc")
    assert resolver.cluster_spec().as_dict() == {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    assert resolver.master() == "grpc://b:1" and resolver.master("ps", 0) == "grpc://c:1"
    resolver.task_type, resolver.task_id = "ps", 0
    assert (resolver.task_type, resolver.task_id) == ("ps", 0)
    monkeypatch.setenv("TF_CONFIG", "{")
    with pytest.raises(ValueError, match="TF_CONFIG"):
        estoc.TFConfigClusterResolver().cluster_spec()


def test_slurm_resolver(monkeypatch):
    for name, value in {"SLURM_STEP_NODELIST": "t02n[13,41,43,44]", "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
                        "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}.items():
        monkeypatch.setenv(name, value)
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver({"ps": 1, "worker": 3})
    assert resolver.get_task_info() == ("worker", 2)
    assert resolver.cluster_spec().as_dict() == {"ps": ["t02n13:8888"],
                                                 "worker": ["t02n41:8888", "t02n43:8888", "t02n44:8888"]}
    with pytest.raises(NotImplementedError):
        tf.distribute.cluster_resolver.SlurmClusterResolver(gpus_per_node=2)


def test_servers_of_one_process():
    spec = tf.train.ClusterSpec({job: [f"localhost:{free_port()}" for _ in range(n)]
                                 for job, n in {"worker": 2, "ps": 1}.items()})
    servers = [tf.distribute.Server(spec, job, index, protocol="grpc")
               for job in spec.jobs for index in range(spec.num_tasks(job))]
    assert [server.target.split("://")[1] for server in servers] == spec.job_tasks("worker") + spec.job_tasks("ps")
    servers[0].start()  # does nothing
    joined = []

    def join():
        with pytest.raises(estoc.errors.CancelledError, match="worker:0 was stopped"):
            servers[0].join()
        joined.append(True)

    thread = threading.Thread(target=join)
    thread.start()
    for server in servers:
        server.close()
    thread.join()
    assert joined
    assert tf.train.Server is tf.distribute.Server is tf.compat.v1.train.Server


def test_servers_that_cannot_be():
    spec = estoc.ClusterSpec({"worker": ["localhost:1", "localhost:2"], "ps": ["localhost:3"]})
    with pytest.raises(ValueError, match="job_name"):
        estoc.Server(spec)
    with pytest.raises(ValueError, match="task_index"):
        estoc.Server(spec, "worker")
    with pytest.raises(ValueError, match="No such job"):
        estoc.Server(spec, "chief")
    with pytest.raises(ValueError, match="verbs"):
        estoc.Server({"worker": [f"localhost:{free_port()}"]}, protocol="verbs")
    with pytest.raises(RuntimeError, match="not been started"):
        estoc.Server(spec, "ps", start=False).join()


def test_local_cluster():
    with estoc.LocalCluster(ps=1, workers=2) as cluster:
        spec = cluster.cluster_spec
        assert spec.num_tasks("worker") == 2 and cluster.resolver.task_type is None
        assert cluster.target("worker", 1).endswith(spec.task_address("worker", 1))
        cluster.lose("worker", 1)
        with pytest.raises(ValueError, match="lost"):
            cluster.target("worker", 1)
        with pytest.raises(estoc.errors.FailedPreconditionError):
            cluster.lose("worker", 1)
        cluster.restart("worker", 1)
        assert cluster.target("worker", 1)
    with pytest.raises(RuntimeError, match="closed"):
        cluster.cluster_spec


def test_a_program_ends_with_servers_running():
    program = ("import estoc\nfrom estoc.cluster import free_port\n"
               "servers = [estoc.Server({'ps': [f'localhost:{free_port()}']}) for _ in range(3)]\n"
               "cluster = estoc.LocalCluster(ps=1, workers=1)\nprint('DONE')\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "DONE\n" and done.stderr == ""


TASK_IN_C = """
#include <estoc/estoc.h>
#include <stdio.h>

static int runs;

static est_status count(est_hook *hook, est_loop *loop)
{
    (void)hook, (void)loop;
    runs++;
    return EST_OK;
}

static est_status input(const est_input_context *context, void *user, est_dataset **out)
{
    float       xs[] = { 0, 1, 2, 3 }, ys[] = { 1, 3, 5, 7 };
    est_tensor *x = NULL, *y = NULL;
    est_status  status = est_tensor_f32(EST_SHAPE(4, 1), xs, &x);

    (void)context, (void)user;
    if (status == EST_OK) status = est_tensor_f32(EST_SHAPE(4, 1), ys, &y);
    if (status == EST_OK) {
        est_dataset *d = est_dataset_slices(EST_NAMED_TENSORS({ "x", x }, { "label", y }));
        status = est_dataset_finish(est_dataset_batch(est_dataset_repeat(d, EST_FOREVER), 4, NULL), out);
    }
    est_tensor_free(x);
    est_tensor_free(y);
    return status;
}

int main(int argc, char **argv)
{
    est_columns   *columns   = est_columns_create();
    est_estimator *estimator = NULL;
    est_hook       hook      = EST_HOOK(.after_run = count);
    est_status     status    = est_linear_regressor(
        EST_CANNED(.columns   = EST_COLUMN_LIST(est_numeric_column(columns, "x", NULL)),
                   .optimizer = { .value = est_sgd(0.01) },
                   .config    = EST_RUN_CONFIG(.model_dir = argv[argc - 1], .seed = 1)), &estimator);

    if (status == EST_OK) {
        status = est_train_and_evaluate(
            estimator, EST_TRAIN_SPEC(.input_fn = input, .max_steps = 400, .hooks = EST_HOOKS(&hook)),
            EST_EVAL_SPEC(.input_fn = input, .steps = 1), NULL);
    }
    if (status != EST_OK) fprintf(stderr, "%s\\n", est_error_message());
    printf("%d\\n", runs);
    est_estimator_free(estimator);
    est_columns_free(columns);
    return est_exit_code(status);
}
"""
CHIEF = """
import sys, time
import numpy as np, estoc

class WaitForTheWorker(estoc.Hook):
    def after_run(self, loop):
        end = time.monotonic() + 60
        while loop.runs == 5 and loop.read("global_step") <= 5:
            assert time.monotonic() < end, "the worker makes no steps"

rows = estoc.Dataset.from_tensor_slices(({"x": np.float32([[0], [1], [2], [3]])}, np.float32([[1], [3], [5], [7]])))
estimator = estoc.LinearRegressor([estoc.feature_column.numeric_column("x")], sys.argv[1],
                                  optimizer=estoc.optimizers.SGD(0.01), config=estoc.RunConfig(seed=1))
metrics, _ = estoc.train_and_evaluate(
    estimator, estoc.TrainSpec(lambda: rows.repeat().batch(4), 400, hooks=[WaitForTheWorker()]),
    estoc.EvalSpec(lambda: rows.batch(4), None))
print(int(metrics["global_step"]), float(metrics["average_loss"]))
"""


def test_tasks_in_c_and_in_python_are_one_cluster(tmp_path):
    package = os.path.dirname(estoc.__file__)
    library = next(os.path.join(package, name) for name in os.listdir(package) if name.startswith("libestoc.so"))
    (tmp_path / "task.c").write_text(TASK_IN_C)
    subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-I", os.path.join(ROOT, "include"), tmp_path / "task.c",
                    library, "-Wl,--allow-shlib-undefined", "-Wl,-rpath," + package, "-o", tmp_path / "task"], check=True)
    jobs = {job: [f"localhost:{free_port()}"] for job in ("chief", "worker", "ps")}
    tasks = {}
    for job, command in (("ps", [tmp_path / "task"]), ("worker", [tmp_path / "task"]),
                         ("chief", [sys.executable, "-c", CHIEF])):
        config = json.dumps({"cluster": jobs, "task": {"type": job, "index": 0}})
        tasks[job] = subprocess.Popen([*command, tmp_path / "model"], text=True, stdout=subprocess.PIPE,
                                      env={**os.environ, "TF_CONFIG": config})
    try:
        said = {job: task.communicate(timeout=100)[0] for job, task in tasks.items()}
    finally:
        for task in tasks.values():
            task.kill()
    assert [task.returncode for task in tasks.values()] == [0, 0, 0]
    steps, loss = said["chief"].split()
    assert int(steps) == 400 and float(loss) < 0.5 and int(said["worker"]) > 0 and int(said["ps"]) == 0


def test_a_task_that_is_not_the_coordinator_is_told_to_end(monkeypatch):
    cluster = {"ps": ["localhost:1"], "worker": ["localhost:2"], "chief": ["localhost:3"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}}))
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"ps:0.*Server\(\.\.\.\)\.join\(\)"):
        tf.distribute.coordinator.ClusterCoordinator(strategy)._world.coordinator()


# As many programs of TensorFlow are written: what is behind join is the coordinator's part.
RUNS_ON = """
import estoc.tf as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("ps", "worker"):
    tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()
print("coordinates")
coordinator = tf.distribute.coordinator.ClusterCoordinator(tf.distribute.ParameterServerStrategy(resolver))
with coordinator.strategy.scope():
    total = tf.Variable(0.0)
for _ in range(10):
    coordinator.schedule(tf.function(lambda: total.assign_add(1.0)))
coordinator.join()
assert total.numpy() == 10.0
"""


def test_nothing_behind_join_runs():
    tasks = ("ps", "worker", "chief")
    cluster = {job: [f"localhost:{free_port()}"] for job in tasks}
    started = [subprocess.Popen([sys.executable, "-c", RUNS_ON], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {
                                    "type": job, "index": 0}})}) for job in tasks]
    try:
        said = [process.communicate(timeout=90)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0, 0], said
    assert ["coordinates" in text for text in said] == [False, False, True]
