# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of rebatch.c."""
import struct
import sys

import interop
import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute
from tensorflow.python.distribute import input_ops

POLICY = tf.data.experimental.AutoShardPolicy
FILES = 5


def cases():
    """Rows, global batch, workers, replicas of each, worker, policy, whether the rows are lines of files."""
    for n, batch, workers, replicas in ((14, 7, 2, 2), (10, 7, 2, 2), (16, 8, 2, 2), (13, 8, 2, 2), (7, 3, 2, 2),
                                        (1, 4, 3, 1), (0, 3, 4, 2), (10, 7, 1, 2), (23, 5, 1, 3), (20, 3, 4, 2),
                                        (31, 10, 3, 1), (29, 13, 4, 3), (9, 9, 2, 1), (2, 3, 4, 2)):
        for worker in range(workers):
            for policy in (POLICY.OFF, POLICY.AUTO, POLICY.DATA):
                yield n, batch, workers, replicas, worker, policy, False
    for workers, replicas in ((1, 2), (2, 1), (2, 2), (3, 2), (5, 1)):
        for worker in range(workers):
            for policy in (POLICY.OFF, POLICY.AUTO, POLICY.FILE, POLICY.DATA):
                yield 60, 8, workers, replicas, worker, policy, True


def source(folder, n, of_files):
    if not of_files:
        return tf.data.Dataset.range(n).map(tf.strings.as_string)
    paths = [f"{folder}/rows-{i}.txt" for i in range(FILES)]
    return tf.data.TextLineDataset(tf.data.Dataset.from_tensor_slices(paths))


def batches(folder, n, batch, workers, replicas, worker, policy, of_files):
    """As DistributedDataset makes them for one input pipeline."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = policy
    sizes = distribute.batch_sizes_for_worker(batch, workers, replicas, worker)
    dataset = source(folder, n, of_files).batch(batch).with_options(options).rebatch(sizes).prefetch(replicas)
    dataset = input_ops.auto_shard_dataset(dataset, workers, worker, workers * replicas)
    return [[int(row) for row in rows] for rows in dataset.as_numpy_iterator()]


def write_cases(folder):
    for i in range(FILES):
        with open(f"{folder}/rows-{i}.txt", "w", encoding="utf-8") as file:
            file.writelines(f"{row}\n" for row in range(60) if row * row % 7 % FILES == i)  # none in file 3
    interop.write_blobs(folder + "/cases", [struct.pack("<7q", *map(int, case)) for case in cases()])


def check_cases(folder):
    said = interop.read_blobs(folder + "/cases.said")
    for case, blob in zip(cases(), said, strict=True):
        ours = [[int(row) for row in rows.split()] for rows in interop.blobs_of(blob)]
        theirs = batches(folder, *case)
        # From no rows at all TensorFlow makes empty batches where sizes begin with 0; we have no batch to cut them from.
        if case[0] == 0:
            theirs = [rows for rows in theirs if rows]
        assert ours == theirs, f"{case}: ours {ours}, theirs {theirs}"


interop.serve(sys.modules[__name__])
