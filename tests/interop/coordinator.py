# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of coordinator.c: the same program with ParameterServerStrategy and ClusterCoordinator.

A process has one cluster for all its life: every run is a child, forked before TensorFlow's runtime has started."""
import multiprocessing
import os
import socket
import sys
import warnings

import interop
import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")
warnings.simplefilter("ignore")

ROWS, BATCH, EPOCH_CALLS, PS = 160, 32, 5, 2  # 5 calls are one pass over the rows
EPOCHS, MORE = 4, 6  # of a run, and of one that the other side goes on with
WORDS = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"]
LABELS = ["yes", "no"]

# Losses differ by a few units in the last place of float32 (6e-8 each), as sums are added up in another order, and
# RMSprop divides by roots of small sums; numbers of variables may be five times as far from each other. One wrong row, or
# one update too many, makes 1e-3 and more.
TOLERANCE = 1e-6


# --- data and model --------------------------------------------------------------------------------------------------

def examples():
    """Row i has three words, every ninth row one that the vocabulary lacks."""
    words = [[WORDS[i % 7], WORDS[(2 * i + 1) % 7], "thor" if i % 9 == 4 else WORDS[(i // 7 + 3) % 7]]
             for i in range(ROWS)]
    return {"features": words, "label": [["yes" if "avenger" in row else "no"] for row in words]}


def start_cluster():
    """The servers of all tasks in this process."""
    sockets = [socket.socket() for _ in range(PS + 1)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    spec = tf.train.ClusterSpec({"ps": addresses[:PS], "worker": addresses[PS:]})
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=2)
    servers = [tf.distribute.Server(spec, job_name=job, task_index=i, config=config)
               for job, n in (("worker", 1), ("ps", PS)) for i in range(n)]
    return servers, tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")


class Program:
    """Model, metric and coordinator."""

    def __init__(self):
        self.servers, resolver = start_cluster()
        sharded = tf.distribute.experimental.partitioners.FixedShardsPartitioner(num_shards=PS)
        self.strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=sharded)
        keras = tf.keras
        with self.strategy.scope():
            self.word_ids = keras.layers.StringLookup(vocabulary=WORDS, mask_token="")
            self.label_ids = keras.layers.StringLookup(vocabulary=LABELS, num_oov_indices=0, mask_token=None)
            words = keras.layers.Input(shape=(3,), dtype=tf.int64, name="features")
            table = keras.layers.Embedding(len(self.word_ids.get_vocabulary()), 20, name="embedding",
                                           embeddings_initializer=keras.initializers.RandomUniform(-0.5, 0.5, seed=3))
            output = keras.layers.Dense(1, activation="sigmoid", name="dense",
                                        kernel_initializer=keras.initializers.GlorotUniform(seed=4))
            self.model = keras.Model({"features": words}, output(tf.reduce_mean(table(words), axis=1)))
            self.optimizer = keras.optimizers.legacy.RMSprop(learning_rate=0.01)
            self.optimizer._create_all_weights(self.model.trainable_variables)  # the first checkpoint has them
            self.accuracy = keras.metrics.Accuracy()
        self.step = tf.function(lambda iterator: self.strategy.run(self.train, args=next(iterator)))
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)

    def dataset(self):
        def look_up(row):
            return {"features": self.word_ids(row["features"])}, self.label_ids(row["label"])
        return tf.data.Dataset.from_tensor_slices(examples()).map(look_up).batch(BATCH).repeat()

    def train(self, features, labels):
        with tf.GradientTape() as tape:
            predicted = self.model(features, training=True)
            each = tf.keras.losses.BinaryCrossentropy(reduction=tf.keras.losses.Reduction.NONE)(labels, predicted)
            loss = tf.nn.compute_average_loss(each)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.accuracy.update_state(labels, tf.cast(predicted > 0.5, tf.int64))
        return loss

    def run(self, epochs):
        """Losses of all calls and the accuracy of every epoch."""
        iterator = iter(self.coordinator.create_per_worker_dataset(
            tf.function(lambda: self.strategy.distribute_datasets_from_function(lambda _: self.dataset()))))
        losses, accuracies = [], []
        for _ in range(epochs):
            self.accuracy.reset_state()
            values = [self.coordinator.schedule(self.step, args=(iterator,)) for _ in range(EPOCH_CALLS)]
            self.coordinator.join()
            losses += self.coordinator.fetch(values)
            accuracies.append(float(self.accuracy.result()))
        return np.array(losses, np.float32), np.array(accuracies, np.float32)


    def checkpoint(self):
        return tf.train.Checkpoint(model=self.model, optimizer=self.optimizer, accuracy=self.accuracy)

    def parts(self):
        """Of every variable of the model: its name in a checkpoint of ours, its shards."""
        table, output = self.model.get_layer("embedding"), self.model.get_layer("dense")
        return (("embedding/embeddings", table.weights), ("dense/kernel", output.weights[:-1]),
                ("dense/bias", output.weights[-1:]))

    def restore_ours(self, folder, accuracy):
        """A checkpoint with names of variables, whole ones; their metric has that accuracy."""
        found, used = tf.train.load_checkpoint(folder), set()
        for name, variable in (("global_step", self.optimizer.iterations), ("accuracy/total", self.accuracy.total),
                               ("accuracy/count", self.accuracy.count)):
            variable.assign(found.get_tensor(name))
            used.add(name)
        assert self.accuracy.result() == accuracy, (self.accuracy.result(), accuracy)
        for name, shards in self.parts():
            slot = f"training/RMSprop/{name}/rms"
            used |= {name, slot}
            for stored, targets in (name, shards), (slot, [self.optimizer.get_slot(shard, "rms") for shard in shards]):
                rows = np.split(found.get_tensor(stored), np.cumsum([shard.shape[0] for shard in shards])[:-1])
                for target, value in zip(targets, rows):
                    target.assign(value)
        for hyper in "learning_rate", "rho", "momentum", "decay":
            used.add(f"training/RMSprop/{hyper}")
        left = {n for n in found.get_variable_to_shape_map() if not n.startswith("estoc/")} - used
        assert not left, left


def child(function, *arguments):
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments, daemon=True)
    process.start()
    process.join(120)
    process.kill()  # a no-op when it has ended
    assert process.exitcode == 0, (function.__name__, process.exitcode)


def save(path, losses, accuracies):
    np.savez(path, losses=losses, accuracies=accuracies)
    os._exit(0)  # threads of the coordinator outlive it


def train_from_start(folder):
    program = Program()
    program.checkpoint().write(folder + "/theirs-start")
    first = program.run(EPOCHS)
    program.checkpoint().write(folder + "/theirs-middle")
    more = program.run(MORE - EPOCHS)
    program.checkpoint().write(folder + "/theirs-end")
    save(folder + "/theirs.npz", *(np.concatenate(both) for both in zip(first, more)))


def train_from_ours(folder):
    program = Program()
    program.restore_ours(folder + "/ours", interop.read_tensors(folder + "/ours.tensors")["accuracies"][EPOCHS - 1])
    save(folder + "/theirs-after-ours.npz", *program.run(MORE - EPOCHS))


# --- requests --------------------------------------------------------------------------------------------------------

def train_theirs(folder):
    child(train_from_start, folder)


def same_run(ours, theirs, first_epoch=0):
    """Losses of the calls and accuracies of the epochs from first_epoch of theirs on."""
    losses, accuracies = theirs["losses"][first_epoch * EPOCH_CALLS:], theirs["accuracies"][first_epoch:]
    assert len(set(losses)) == len(losses), losses
    np.testing.assert_allclose(ours["losses"], losses, rtol=TOLERANCE)
    np.testing.assert_array_equal(ours["accuracies"], accuracies)


def check_ours(folder):
    same_run(interop.read_tensors(folder + "/ours.tensors"), np.load(folder + "/theirs.npz"))
    ours, theirs = tf.train.load_checkpoint(folder + "/ours-end"), tf.train.load_checkpoint(folder + "/theirs-end")
    for name, key in (("embedding/embeddings", "layer_with_weights-0/embeddings"),
                      ("dense/kernel", "layer_with_weights-1/kernel"), ("dense/bias", "layer_with_weights-1/bias")):
        np.testing.assert_allclose(ours.get_tensor(name), theirs.get_tensor(f"model/{key}/.ATTRIBUTES/VARIABLE_VALUE"),
                                   rtol=5 * TOLERANCE, atol=5 * TOLERANCE, err_msg=name)


def check_ours_from_theirs(folder):
    same_run(interop.read_tensors(folder + "/ours-after-theirs.tensors"), np.load(folder + "/theirs.npz"), EPOCHS)


def check_theirs_from_ours(folder):
    child(train_from_ours, folder)
    same_run(np.load(folder + "/theirs-after-ours.npz"), interop.read_tensors(folder + "/ours.tensors"), EPOCHS)


interop.serve(sys.modules[__name__])
