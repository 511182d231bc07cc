# SPDX-License-Identifier: Apache-2.0
"""What the TensorFlow side of bench/compare-cluster shares: a cluster of processes on loopback, each with tf.distribute.Server, one thread
for kernels, and the chief in this process."""
import json
import os
import signal
import socket
import subprocess
import sys


def addresses(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return found


def quiet():
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", GRPC_VERBOSITY="NONE", OMP_NUM_THREADS="1")


def import_tensorflow():
    quiet()
    import logging

    import tensorflow as tf
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    return tf


def one_thread(v1):
    return v1.ConfigProto(intra_op_parallelism_threads=1)


def make_cluster(ps, workers=0):
    found = addresses(ps + 1 + workers)
    cluster = {"ps": found[:ps], "chief": found[ps:ps + 1]}
    if workers:
        cluster["worker"] = found[ps + 1:]
    return cluster


def start(cluster, job, index, *arguments):
    """This program again as another task, which dies with us."""
    config = json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})
    libc_prctl = __import__("ctypes").CDLL(None).prctl
    return subprocess.Popen([sys.executable, os.path.abspath(sys.argv[0]), *arguments], env=dict(os.environ, TF_CONFIG=config),
                            stdin=subprocess.DEVNULL, preexec_fn=lambda: libc_prctl(1, signal.SIGKILL))


def is_task():
    return "TF_CONFIG" in os.environ


def serve():
    """A ps: serves until it is killed."""
    tf = import_tensorflow()
    config = json.loads(os.environ["TF_CONFIG"])
    server = tf.distribute.Server(config["cluster"], job_name=config["task"]["type"], task_index=config["task"]["index"],
                                  config=one_thread(tf.compat.v1))
    server.join()


def session_over(ps):
    """Starts the ps tasks; returns (tensorflow, session of a chief beside them, a function that ends them)."""
    quiet()
    cluster = make_cluster(ps)
    tasks = [start(cluster, "ps", i) for i in range(ps)]
    tf = import_tensorflow()
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    server = tf.distribute.Server(cluster, job_name="chief", task_index=0, config=one_thread(v1))

    def end():
        for task in tasks:
            task.kill()
            task.wait()
    return tf, v1.Session(server.target, config=one_thread(v1)), end
