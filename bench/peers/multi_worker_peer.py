# SPDX-License-Identifier: Apache-2.0
"""What the peers of bench/compare-multi-worker share: multi-worker training, each bound to a processor of its own, and turns that the first
of them takes (this process; it starts the others)."""
import argparse
import json
import os
import sys
import time

import cluster_peer
import peer

WARM_STEPS = 10


def options(about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cnn", choices=peer.MODELS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3, help="0: one for every line of standard input")
    parser.add_argument("--seconds", type=float, default=1)
    return parser.parse_args()


def make_run(options, mode):
    return argparse.Namespace(model=options.model, threads=1, mode=mode, flags=set(mode.split("+")), batch=peer.BATCH[options.model],
                              width_mult=1)


def start(options):
    """Starts the other workers; returns the cluster and which worker this process is."""
    if cluster_peer.is_task():
        config = json.loads(os.environ["TF_CONFIG"])
        cluster, worker = config["cluster"], config["task"]["index"]
    else:
        cluster, worker = {"worker": cluster_peer.addresses(options.workers)}, 0
        for i in range(1, options.workers):
            cluster_peer.start(cluster, "worker", i, *sys.argv[1:])
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[worker % len(cpus)]})  # for all threads to come
    return cluster, worker


class Turns:
    """Told of every step of this process. step() is true when all turns are taken; workers other than the first go on until they are
    killed."""

    def __init__(self, options, worker):
        self.options, self.worker, self.taken, self.steps = options, worker, 0, 0

    def step(self):
        if self.worker != 0:
            return False
        self.steps += 1
        now = time.perf_counter()
        if self.steps < WARM_STEPS:
            return False
        if self.steps > WARM_STEPS:
            if now - self.begun < self.options.seconds:
                return False
            amount = (self.steps - self.first) * self.options.workers * peer.BATCH[self.options.model]
            print(json.dumps({"amount": amount, "secs": now - self.begun, "cpu_secs": cluster_peer.cpu_secs() - self.used}), flush=True)
            self.taken += 1
        if self.taken == self.options.turns if self.options.turns else sys.stdin.readline() == "":
            return True
        self.first, self.used, self.begun = self.steps, cluster_peer.cpu_secs(), time.perf_counter()
        return False


def end():
    """Of the first worker: the others are waiting for its next step and have nobody to end with."""
    cluster_peer.end()
    sys.stdout.flush()
    os._exit(0)
