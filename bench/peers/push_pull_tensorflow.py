#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The questions of bench/push_pull.c put to TensorFlow: a variable of /job:ps, a process of its own, read into the chief's process or
assigned from there, over grpc and a v1 Session. What is pushed lies in a variable of the chief; what is pulled stays in the chief's
runtime: Python never sees it, which is TensorFlow's best case.

Standard input has lines "pull N" and "push N"; the answers are lines of JSON."""
import argparse
import json
import sys
import time

import cluster_peer

LAPS_MIN = 3
SIZES = [1024 << (2 * i) for i in range(10)]


def answer(run, seconds):
    run()  # makes the executors and the channel
    laps = []
    start = before = time.perf_counter()
    while len(laps) < LAPS_MIN or before - start < seconds:
        run()
        now = time.perf_counter()
        laps.append(now - before)
        before = now
    laps.sort()
    n = len(laps)
    print(json.dumps({"n": n, "secs": before - start, "p50_us": 1e6 * laps[n // 2], "p99_us": 1e6 * laps[n * 99 // 100]}), flush=True)


def main():
    if cluster_peer.is_task():
        cluster_peer.serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    tf, session = cluster_peer.session_over(1)
    v1, calls = tf.compat.v1, {}
    for size in SIZES:
        with tf.device("/job:ps/task:0"):
            there = v1.get_variable(f"there{size}", [size // 4], initializer=v1.zeros_initializer(), use_resource=True)
        with tf.device("/job:chief/task:0"):
            here = v1.get_variable(f"here{size}", [size // 4], initializer=v1.ones_initializer(), use_resource=True)
            pulled = tf.identity(there.read_value()).op
        calls["pull", size], calls["push", size] = pulled, there.assign(here.read_value(), read_value=False)
    session.run(v1.global_variables_initializer())
    run = {key: session.make_callable(call) for key, call in calls.items()}
    for line in sys.stdin:
        what, size = line.split()
        answer(run[what, int(size)], options.seconds)
    cluster_peer.end()


if __name__ == "__main__":
    main()
