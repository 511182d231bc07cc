#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/multi_worker.c does, by TensorFlow: tf.estimator with MultiWorkerMirroredStrategy, collectives by grpc, the models of tensorflow_peer.py,
one intra-op thread each, checkpoints, summaries and step logging off. One worker: without a strategy."""
import json
import os
import shutil
import tempfile

import cluster_peer
import multi_worker_peer
import tensorflow_peer


def make_watch(tf, turns, model_dir):
    class Watch(tf.compat.v1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            if turns.step():
                shutil.rmtree(model_dir, ignore_errors=True)
                multi_worker_peer.end()
    return Watch()


def main():
    options = multi_worker_peer.options(__doc__)
    run = multi_worker_peer.make_run(options, tensorflow_peer.best(options.model, 1))
    os.environ.update({k: v for k, v in tensorflow_peer.environment(1, run.flags).items() if k != "TF_CONFIG"})
    cluster, worker = multi_worker_peer.start(options)
    os.environ.pop("TF_CONFIG", None)
    if options.workers > 1:
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": worker}})
    tf = cluster_peer.import_tensorflow()
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if options.workers > 1 else None
    model_dir = tempfile.mkdtemp(prefix="multi_worker_tensorflow.")
    inter = -1 if "caller" in run.flags and options.workers == 1 else 1
    config = tf.estimator.RunConfig(
        model_dir=model_dir, tf_random_seed=1, train_distribute=strategy, save_checkpoints_steps=None, save_checkpoints_secs=None,
        save_summary_steps=None, log_step_count_steps=None,
        session_config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=inter))
    estimator = tf.estimator.Estimator(tensorflow_peer.model_fns(tf, run)[options.model], config=config)
    watch = make_watch(tf, multi_worker_peer.Turns(options, worker), model_dir)
    if options.workers > 1:
        tf.estimator.train_and_evaluate(
            estimator, tf.estimator.TrainSpec(lambda: tensorflow_peer.dataset(tf, run), max_steps=10**12, hooks=[watch]),
            tf.estimator.EvalSpec(lambda: tensorflow_peer.dataset(tf, run)))
    else:
        estimator.train(lambda: tensorflow_peer.dataset(tf, run), hooks=[watch])


if __name__ == "__main__":
    main()
