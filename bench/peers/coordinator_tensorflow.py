#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/coordinator.c does, by TensorFlow's ParameterServerStrategy and ClusterCoordinator: this process is the
coordinator; parameter servers and workers are processes of their own, one intra-op thread each.

Answers every line of standard input, "<function> <calls>", with a line of JSON: the number of calls, seconds, and the
processor time of this process and of all tasks meanwhile."""
import argparse
import json
import os
import sys
import time

import cluster_peer
import peer
import tensorflow_peer

BATCH, INPUTS, UNITS = 32, 16, 8  # of the dense step


def rows_of(tf):
    """The batches of peer.inputs: every worker rotates over them, from memory."""
    import numpy as np
    run = argparse.Namespace(model="wide_deep", flags={"onednn"}, batch=peer.BATCH["wide_deep"], width_mult=1)
    sets = [tensorflow_peer.named(run, part) for part in peer.inputs(run)]
    return tf.nest.map_structure(lambda *parts: np.stack(parts), *sets)


class WideDeep:
    """The model of tensorflow_peer.py with variables of its own."""

    def __init__(self, tf):
        self.tf, normal = tf, tf.random.truncated_normal
        glorot = tf.keras.initializers.GlorotUniform(seed=1)
        sizes = [peer.CATEGORICAL * peer.DIMENSION + peer.NUMERIC, *peer.WIDE_DEEP_HIDDEN, 1]
        self.tables = [tf.Variable(normal([peer.BUCKETS, peer.DIMENSION], stddev=peer.DIMENSION ** -0.5))
                       for _ in range(peer.CATEGORICAL)]
        self.layers = [(tf.Variable(glorot([m, n])), tf.Variable(tf.zeros([n]))) for m, n in zip(sizes, sizes[1:])]
        self.weights = [tf.Variable(tf.zeros([peer.BUCKETS, 1])) for _ in range(peer.CATEGORICAL)]
        self.linear = [tf.Variable(tf.zeros([peer.NUMERIC, 1])), tf.Variable(tf.zeros([1]))]
        legacy = tf.keras.optimizers.legacy
        self.adagrad = legacy.Adagrad(peer.LEARNING_RATE, peer.INITIAL_ACCUMULATOR)
        self.ftrl = legacy.Ftrl(peer.LEARNING_RATE)

    def loss(self, features, labels):
        tf = self.tf
        ids = [features[tensorflow_peer.column(i)] for i in range(peer.CATEGORICAL)]
        x = tf.concat([*(tf.nn.embedding_lookup(t, i) for t, i in zip(self.tables, ids)), features["numbers"]], 1)
        for i, (kernel, bias) in enumerate(self.layers):
            x = tf.nn.bias_add(tf.matmul(x, kernel), bias)
            x = tf.nn.relu(x) if i + 1 < len(self.layers) else x
        kernel, bias = self.linear
        x = tf.add_n([x, tf.nn.bias_add(tf.matmul(features["numbers"], kernel), bias),
                      *(tf.nn.embedding_lookup(w, i) for w, i in zip(self.weights, ids))])
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=tf.reshape(x, [-1])))

    def train(self, features, labels):
        deep = [*self.tables, *(v for layer in self.layers for v in layer)]
        wide = [*self.weights, *self.linear]
        with self.tf.GradientTape() as tape:
            loss = self.loss(features, labels)
        gradients = tape.gradient(loss, deep + wide)
        self.adagrad.apply_gradients(zip(gradients[:len(deep)], deep))
        self.ftrl.apply_gradients(zip(gradients[len(deep):], wide))


class Functions:
    """Functions by name, each with its arguments, made when it is first asked for."""

    def __init__(self, tf, strategy, coordinator):
        self.tf, self.strategy, self.coordinator, self.made = tf, strategy, coordinator, {}

    def get(self, name):
        if name not in self.made:
            self.made[name] = getattr(self, name)()
        return self.made[name]

    def iterator(self, make):
        """Every worker's own, over the dataset that make() returns."""
        def per_worker():
            return self.strategy.distribute_datasets_from_function(lambda _: make())
        return iter(self.coordinator.create_per_worker_dataset(self.tf.function(per_worker)))

    def empty(self):
        return self.tf.function(lambda: None), ()

    def result(self):
        return self.tf.function(lambda: self.tf.constant(1.0)), ()

    fetch = result

    def assign_add(self):
        with self.strategy.scope():
            counter = self.tf.Variable(0, dtype=self.tf.int64)

        def count():
            counter.assign_add(1, read_value=False)
        return self.tf.function(count), ()

    def dense(self):
        tf = self.tf
        with self.strategy.scope():
            kernel, bias = tf.Variable(tf.zeros([INPUTS, UNITS])), tf.Variable(tf.zeros([UNITS]))

        def step(iterator):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y))
            for variable, gradient in zip((kernel, bias), tape.gradient(loss, (kernel, bias))):
                variable.assign_sub(0.01 * gradient, read_value=False)

        def make():
            return tf.data.Dataset.from_tensors((tf.ones([BATCH, INPUTS]), tf.ones([BATCH, UNITS]))).repeat()
        return tf.function(step), (self.iterator(make),)

    def wide_deep(self):
        tf, rows = self.tf, rows_of(self.tf)
        with self.strategy.scope():
            model = WideDeep(tf)

        def make():
            return tf.data.Dataset.from_tensor_slices(rows).cache().repeat().prefetch(2)
        return tf.function(lambda iterator: self.strategy.run(model.train, args=next(iterator))), (self.iterator(make),)


def take_turn(functions, name, calls):
    coordinator, (function, arguments) = functions.coordinator, functions.get(name)
    start, own, used = time.perf_counter(), time.process_time(), cluster_peer.cpu_secs()
    if name == "fetch":
        for _ in range(calls):
            coordinator.schedule(function, arguments).fetch()
    else:
        values = [coordinator.schedule(function, arguments) for _ in range(calls)]
        coordinator.join()
        if name == "result":
            coordinator.fetch(values)
    return {"amount": calls, "secs": time.perf_counter() - start, "own_secs": time.process_time() - own,
            "cpu_secs": cluster_peer.cpu_secs() - used}


def main():
    if cluster_peer.is_task():
        cluster_peer.serve()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    cluster_peer.quiet()
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", GRPC_FAIL_FAST="use_caller")
    cluster = cluster_peer.make_cluster(options.ps, options.workers)
    for job, n in (("ps", options.ps), ("worker", options.workers)):
        for i in range(n):
            cluster_peer.start(cluster, job, i)
    tf = cluster_peer.import_tensorflow()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), task_type="chief",
                                                                    task_id=0, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    functions = Functions(tf, strategy, tf.distribute.coordinator.ClusterCoordinator(strategy))
    for line in sys.stdin:
        name, calls = line.split()
        print(json.dumps(take_turn(functions, name, int(calls))), flush=True)
    cluster_peer.end()
    os._exit(0)  # the tasks are gone: threads of the coordinator would wait for them


if __name__ == "__main__":
    main()
