# SPDX-License-Identifier: Apache-2.0
"""What the TensorFlow side of bench/compare-cluster shares: a cluster of processes on loopback, each with tf.distribute.Server, one thread
for kernels, and the chief in this process."""
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

PR_SET_PDEATHSIG = 1
TASKS = []  # that this process started


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
    prctl = ctypes.CDLL(None).prctl
    TASKS.append(subprocess.Popen([sys.executable, os.path.abspath(sys.argv[0]), *arguments], env=dict(os.environ, TF_CONFIG=config),
                                  stdin=subprocess.DEVNULL, preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL)))


def end():
    for task in TASKS:
        task.kill()
        task.wait()


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
    """Starts the ps tasks; returns (tensorflow, session of a chief beside them)."""
    quiet()
    cluster = make_cluster(ps)
    for i in range(ps):
        start(cluster, "ps", i)
    tf = import_tensorflow()
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    server = tf.distribute.Server(cluster, job_name="chief", task_index=0, config=one_thread(v1))
    return tf, v1.Session(server.target, config=one_thread(v1))


def take_turns(turn, turns):
    """As bench_take_turns: so many turns, or with 0 one for every line of standard input."""
    taken = 0
    while taken < turns if turns else sys.stdin.readline() != "":
        print(json.dumps(turn()), flush=True)
        taken += 1


def cpu_secs():
    """Processor time of this process and of the tasks that it started."""
    ticks = 0
    for task in TASKS:
        with open(f"/proc/{task.pid}/stat", encoding="ascii") as stat:
            ticks += sum(int(n) for n in stat.read().rsplit(")", 1)[1].split()[11:13])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def repeat(step, seconds):
    """Calls step, which says how much it did, for so long; a turn."""
    amount, start, used = 0, time.perf_counter(), cpu_secs()
    while (secs := time.perf_counter() - start) < seconds:
        amount += step()
    return {"amount": amount, "secs": secs, "cpu_secs": cpu_secs() - used}


def socket_bytes():
    """What all TCP connections of this process have sent and received so far."""
    total = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(fd))) as s:
                info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
                total += sum(struct.unpack_from("QQ", info, 120))  # tcpi_bytes_acked, tcpi_bytes_received
        except (OSError, struct.error):
            continue  # no socket, or gone meanwhile
    return total
