# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of distribute.c: the same models for tf.estimator.Estimator under tf.distribute.

Everything of TensorFlow's that starts its runtime is done in children, which are forked before there is one: a process has one
cluster and one set of devices for all its life.
"""
import glob
import json
import multiprocessing.connection
import os
import shutil
import socket
import sys
import warnings

import interop
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
estimator = tf.estimator
tf.get_logger().setLevel("ERROR")
v1.logging.set_verbosity(v1.logging.ERROR)
warnings.simplefilter("ignore")  # all that is used here is deprecated

STEPS, MORE = 50, 60  # of a run, and of one that the other side goes on with
FILES, FILE_ROWS, BATCH, COLUMNS, IDS, N_IDS = 4, 20, 4, 3, 2, 12
WORKER_RUNS = ("sgd", "adagrad", "adam", "norm", "sum")
REPLICA_RUNS = ("adam", "norm", "sum")


def tolerance(run):
    """How far two losses may be from each other, relative to the loss; numbers of variables five times as far.

    A step differs by a few units in the last place of float32 (6e-8 each), as sums are added up in another order, and training
    carries that on without making much of it; normalising by the deviation of four rows multiplies it. One wrong row would make
    1e-3 and more."""
    return 1e-5 if run == "norm" else 2e-6


# --- data and model --------------------------------------------------------------------------------------------------

def write_records(folder):
    for f in range(FILES):
        with tf.io.TFRecordWriter(f"{folder}/rows-{f}.tfrecord") as writer:
            for i in range(f * FILE_ROWS, (f + 1) * FILE_ROWS):
                x = [((i * 37 + j * 11) % 64) / 32 - 1 for j in range(COLUMNS)]
                ids = [i * i % 5, 5 + (i + f) % 4 + f]  # twice in a batch, in batches of one worker only, and never
                feature = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                           "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
                           "y": tf.train.Feature(float_list=tf.train.FloatList(value=[i * 29 % 7 > 3]))}
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())


def parse(records):
    features = tf.io.parse_example(records, {"x": tf.io.FixedLenFeature([COLUMNS], tf.float32),
                                             "ids": tf.io.FixedLenFeature([IDS], tf.int64),
                                             "y": tf.io.FixedLenFeature([1], tf.float32)})
    return features, features.pop("y")


def rows(folder, n, i, batch):
    """The rows of pipeline i of n."""
    files = tf.data.Dataset.from_tensor_slices([f"{folder}/rows-{f}.tfrecord" for f in range(FILES)]).shard(n, i)
    return files.flat_map(tf.data.TFRecordDataset).repeat().batch(batch).map(parse)


def input_of(folder, run):
    def input_fn(input_context):
        n, i = input_context.num_input_pipelines, input_context.input_pipeline_id
        return rows(folder, n, i, BATCH // 2 * (1 + i) if run == "uneven" else BATCH)
    return input_fn


def optimizer(run):
    if run == "adagrad":
        return v1.train.AdagradOptimizer(0.2)
    if run == "adam":
        return v1.train.AdamOptimizer(0.02)
    return v1.train.GradientDescentOptimizer(0.04 if run == "sum" else 0.3)


def initial(seed):
    return v1.random_uniform_initializer(-0.7, 0.7, seed)  # the seed of a run does not reach workers


def model_fn(features, labels, mode, params):
    run = params["run"]
    table = v1.get_variable("embedding/embeddings", [N_IDS, 3], initializer=initial(1))
    embedded = tf.reshape(tf.nn.embedding_lookup(table, features["ids"]), [-1, 3 * IDS])
    hidden = v1.layers.dense(tf.concat([features["x"], embedded], 1), 8, tf.tanh, kernel_initializer=initial(2))
    if run == "norm":
        hidden = v1.layers.batch_normalization(hidden, momentum=0.9, training=True)
    reduction = v1.losses.Reduction.SUM if run == "sum" else v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
    logits = v1.layers.dense(hidden, 1, kernel_initializer=initial(3))
    loss = v1.losses.sigmoid_cross_entropy(labels, logits, reduction=reduction)
    train_op = tf.group(optimizer(run).minimize(loss, v1.train.get_global_step()),
                        *v1.get_collection(v1.GraphKeys.UPDATE_OPS))
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Losses(params["path"], loss)])


class Losses(v1.train.SessionRunHook):
    """Writes the losses of a run: as they are reported, those of all replicas together, or one replica's own."""

    def __init__(self, path, own=None):
        self.path, self.own, self.keep = path, own, []

    def begin(self):
        self.loss = self.own if self.own is not None else v1.get_collection(v1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.keep.append(run_values.results)

    def end(self, session):
        np.array(self.keep, np.float32).tofile(self.path + (".own" if self.own is not None else ""))


def losses(path, max_steps=STEPS, worker=0, own=""):
    return np.fromfile(f"{path}.{max_steps}.{worker}{own}", np.float32)


# --- processes -------------------------------------------------------------------------------------------------------

def train(path, run, strategy, input_fn, max_steps=STEPS, worker=0, cpus=1):
    """In a child. Losses go to "<path>.<max_steps>.<worker>", as ours do."""
    config = estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=STEPS, train_distribute=strategy,
                                 session_config=v1.ConfigProto(device_count={"CPU": cpus}))
    file = f"{path}.{max_steps}.{worker}"
    runner = estimator.Estimator(model_fn, path, config, {"run": run, "path": file})
    if "TF_CONFIG" in os.environ:  # workers of a cluster cannot call train; they do not evaluate
        estimator.train_and_evaluate(runner, estimator.TrainSpec(input_fn, max_steps, [Losses(file)]),
                                     estimator.EvalSpec(input_fn))
    else:
        runner.train(input_fn, [Losses(file)], max_steps=max_steps)


def work(folder, kind, run, max_steps, addresses, worker):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": worker}})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    train(f"{folder}/{kind}_{run}", run, strategy, input_of(folder, run), max_steps, worker)


def replicate(folder, kind, runs, max_steps):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    for run in runs:
        strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
        train(f"{folder}/{kind}_{run}", run, strategy, input_of(folder, run), max_steps, cpus=2)


def train_whole(folder):
    """One process with the batches of both uneven workers."""
    def join(*parts):
        features, labels = zip(*parts)
        return {k: tf.concat([f[k] for f in features], 0) for k in features[0]}, tf.concat(labels, 0)

    def input_fn():
        return tf.data.Dataset.zip(tuple(rows(folder, 2, i, BATCH // 2 * (1 + i)) for i in range(2))).map(join)
    train(folder + "/whole_uneven", "uneven", None, input_fn)


def together(calls):
    """Calls each in a process of its own; all of them are ended when one fails or none ends in time."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=function, args=arguments, daemon=True) for function, *arguments in calls]
    for process in processes:
        process.start()
    running, good = list(processes), True
    while running and good:
        ended = multiprocessing.connection.wait([p.sentinel for p in running], 120)
        good = bool(ended) and not any(p.exitcode for p in running)
        running = [p for p in running if p.sentinel not in ended]
    for process in running:
        process.kill()
    assert good, [(p.name, p.exitcode) for p in processes]


def free_addresses(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return addresses


def workers(folder, kind, runs, max_steps=STEPS):
    """The calls of two workers for each run."""
    addresses = free_addresses(2 * len(runs))
    return [(work, folder, kind, run, max_steps, addresses[2 * i:2 * i + 2], worker)
            for i, run in enumerate(runs) for worker in range(2)]


def copy_checkpoint(source, target, step):
    os.makedirs(target)
    for file in glob.glob(f"{source}/model.ckpt-{step}.*"):
        shutil.copy(file, target)
    with open(f"{target}/checkpoint", "w") as file:
        file.write(f'model_checkpoint_path: "model.ckpt-{step}"\nall_model_checkpoint_paths: "model.ckpt-{step}"\n')


# --- requests --------------------------------------------------------------------------------------------------------

def train_theirs(folder):
    """All runs, and for us and for the whole batch the checkpoints that they began with."""
    write_records(folder)
    together(workers(folder, "their_workers", WORKER_RUNS + ("uneven",)) +
             [(replicate, folder, "their_replicas", REPLICA_RUNS, STEPS)])
    for run in WORKER_RUNS + ("uneven",):
        copy_checkpoint(f"{folder}/their_workers_{run}", f"{folder}/our_workers_{run}", 0)
    for run in REPLICA_RUNS:
        copy_checkpoint(f"{folder}/their_replicas_{run}", f"{folder}/our_replicas_{run}", 0)
    copy_checkpoint(folder + "/their_workers_uneven", folder + "/whole_uneven", 0)


def same_losses(ours, theirs, run, name, n=STEPS):
    assert ours.shape == theirs.shape == (n,), (name, ours.shape, theirs.shape)
    assert len(set(theirs)) == n, (name, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance(run), err_msg=name)


def same_variables(ours, theirs, run):
    a, b = (tf.train.load_checkpoint(p) for p in (ours, theirs))
    names = sorted(b.get_variable_to_shape_map())
    assert names == sorted(n for n in a.get_variable_to_shape_map() if not n.startswith("estoc/")), names
    for name in names:
        np.testing.assert_allclose(a.get_tensor(name), b.get_tensor(name), rtol=5 * tolerance(run),
                                   atol=5 * tolerance(run), err_msg=f"{ours} {name}")


def check_workers(folder):
    for run in WORKER_RUNS:
        ours, theirs = (f"{folder}/{whose}_workers_{run}" for whose in ("our", "their"))
        for worker in range(2):
            same_losses(losses(ours, worker=worker), losses(theirs, worker=worker), run, f"{run}, worker {worker}")
        same_variables(ours, theirs, run)


def check_uneven_workers(folder):
    """Workers with 2 and 4 rows: ours train as one process with all 6, theirs with the mean of two means."""
    together([(train_whole, folder)])
    ours, theirs, whole = (f"{folder}/{name}_uneven" for name in ("our_workers", "their_workers", "whole"))
    same_losses(losses(ours), losses(whole), "uneven", "uneven")
    same_variables(ours, whole, "uneven")
    a, b = (losses(theirs, worker=w, own=".own") for w in range(2))
    same_losses((a + b) / 2, losses(theirs), "uneven", "mean of workers")
    same_losses((2 * a[:1] + 4 * b[:1]) / 6, losses(ours)[:1], "uneven", "mean of rows", 1)  # of the same variables
    assert np.max(np.abs(losses(ours) / losses(theirs) - 1)) > 0.01


def check_replicas(folder):
    for run in REPLICA_RUNS:
        ours, theirs = (f"{folder}/{whose}_replicas_{run}" for whose in ("our", "their"))
        same_losses(losses(ours), losses(theirs), run, run + ", replicas")
        same_variables(ours, theirs, run)


def elastic(folder):
    together(workers(folder, "our_workers", ("adam",), MORE) + [(replicate, folder, "our_replicas", ("norm",), MORE)])


def check_moved_runs(folder):
    for kind, run in ("workers", "adam"), ("replicas", "norm"):
        ours, theirs = (f"{folder}/{whose}_{kind}_{run}" for whose in ("their", "our"))  # it was begun by the other
        same_losses(losses(ours, MORE), losses(theirs, MORE), run, f"moved {run}, {kind}", MORE - STEPS)
        same_variables(ours, theirs, run)


interop.serve(sys.modules[__name__])
