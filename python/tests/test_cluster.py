# SPDX-License-Identifier: Apache-2.0
"""Descriptions of clusters, resolvers and servers."""
import json
import subprocess
import sys
import threading

import pytest

import estoc
import estoc.tf as tf
from estoc.cluster import free_port


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
