#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/cluster.c does, by TensorFlow's tf.estimator.train_and_evaluate: a chief (this process), workers and parameter servers from
TF_CONFIG, the models of tensorflow_peer.py, one intra-op thread each, checkpoints, summaries and step logging off. Workers start
without the delay that TensorFlow gives them.

The chief's hook begins to measure when the other workers have made some steps and prints a line of JSON a turn: global steps,
seconds, and the processor time of all tasks meanwhile."""
import argparse
import json
import os
import shutil
import tempfile
import time

import cluster_peer
import peer
import tensorflow_peer

WARM_STEPS = 10  # of every worker, before anything is measured
BATCHES = {"cnn": 64, "mlp": 128, "wide_deep": 512}


def arguments(options):
    """Those of the other tasks."""
    return ["--model", options.model, "--workers", str(options.workers), "--model_dir", options.model_dir]


def make_watch(tf, options):
    v1 = tf.compat.v1

    class Watch(v1.train.SessionRunHook):
        """Counts steps of its own and of all."""

        def __init__(self):
            self.own, self.first, self.taken, self.begun = 0, None, 0, None

        def begin(self):
            self.global_step = v1.train.get_global_step()

        def after_create_session(self, session, coord):
            """A worker that comes before the variables have values looks again after 30 seconds: none comes before."""
            for i in range(options.workers - 1):
                cluster_peer.start(options.cluster, "worker", i, *arguments(options))

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self.global_step)

        def after_run(self, run_context, run_values):
            step, now = int(run_values.results), time.perf_counter()
            self.own += 1
            if self.first is None:
                self.first = step
            if self.begun is None:
                others = step - self.first - self.own
                if self.own >= WARM_STEPS and others >= WARM_STEPS * (options.workers - 1):
                    self.begun = step, now, cluster_peer.cpu_secs()
            elif now - self.begun[1] >= options.seconds:
                used = cluster_peer.cpu_secs()
                print(json.dumps({"amount": step - self.begun[0], "secs": now - self.begun[1], "cpu_secs": used - self.begun[2]}), flush=True)
                self.begun, self.taken = (step, now, used), self.taken + 1
                if self.taken == options.turns:
                    cluster_peer.end()
                    shutil.rmtree(options.model_dir, ignore_errors=True)
                    os._exit(0)  # the others are gone: there is nobody left to end with
    return Watch()


def train(options, is_chief):
    tf = cluster_peer.import_tensorflow()
    v1 = tf.compat.v1
    run = argparse.Namespace(model=options.model, flags={"onednn"}, batch=BATCHES[options.model], width_mult=1)
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    session = cluster_peer.one_thread(v1)
    session.device_filters.extend(["/job:ps", f"/job:{task['type']}/task:{task['index']}"])  # as RunConfig has it unless told otherwise
    config = tf.estimator.RunConfig(
        model_dir=options.model_dir, tf_random_seed=1, session_config=session, save_checkpoints_steps=None,
        save_checkpoints_secs=None, save_summary_steps=None, log_step_count_steps=None, experimental_max_worker_delay_secs=0)
    estimator = tf.estimator.Estimator(tensorflow_peer.model_fns(tf, run)[options.model], config=config)
    tf.estimator.train_and_evaluate(
        estimator, tf.estimator.TrainSpec(lambda: tensorflow_peer.dataset(tf, run), max_steps=10**12,
                                          hooks=[make_watch(tf, options)] if is_chief else []),
        tf.estimator.EvalSpec(lambda: tensorflow_peer.dataset(tf, run)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="cnn", choices=list(BATCHES))
    parser.add_argument("--workers", type=int, default=2, help="with the chief")
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--model_dir")
    options = parser.parse_args()
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    if cluster_peer.is_task():
        train(options, False)
        return
    options.model_dir = tempfile.mkdtemp(prefix="cluster_tensorflow.")
    cluster_peer.quiet()
    options.cluster = cluster_peer.make_cluster(options.ps, options.workers - 1)
    for i in range(options.ps):
        cluster_peer.start(options.cluster, "ps", i, *arguments(options))
    os.environ["TF_CONFIG"] = json.dumps({"cluster": options.cluster, "task": {"type": "chief", "index": 0}})
    train(options, True)


if __name__ == "__main__":
    main()
