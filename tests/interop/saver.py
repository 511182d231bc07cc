# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of saver.c."""
import os
import sys

import interop
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "adam": lambda: v1.train.AdamOptimizer(0.05),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.1),
    "rms_prop": lambda: v1.train.RMSPropOptimizer(0.01),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(0.5),
}


def dense(x, units, name):
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [x.shape[1], units])
        return x @ kernel + v1.get_variable("bias", [units])


def model_loss():
    """The same regression as saver.c's."""
    x = tf.constant([[0, 0.5], [-1, 1], [1, 0], [1, 2]], tf.float32)
    y = tf.constant([[0], [1], [1], [-2]], tf.float32)
    return tf.reduce_mean(tf.square(dense(tf.tanh(dense(x, 3, "hidden")), 1, "out") - y))


def restore_loss(directory, shards, ours):
    """Restores the latest of a directory, whose data files are numbered as of so many, and compares the loss."""
    with tf.Graph().as_default(), v1.Session() as session:
        loss = model_loss()
        v1.train.get_or_create_global_step()
        latest = tf.train.latest_checkpoint(directory)
        assert os.path.exists(f"{latest}.data-00000-of-0000{shards}"), latest
        v1.train.Saver().restore(session, latest)
        np.testing.assert_allclose(session.run(loss), float(ours), rtol=1e-5)


def restore_again(folder):
    """Restores steps that Estoc saved once, twice and three times."""
    for i, ours in enumerate(interop.read_blobs(f"{folder}/again.loss"), 1):
        restore_loss(f"{folder}/again{i}", 2 if i == 2 else 1, ours)


def restore_tasks(folder):
    """Restores what three tasks of Estoc and their worker saved together, once and twice."""
    for i, ours in enumerate(interop.read_blobs(f"{folder}/tasks.loss"), 1):
        restore_loss(f"{folder}/tasks{i}", 3 + i, ours)


def train(folder):
    """Restores what Estoc saved, with every variable; trains as long as Estoc did; saves."""
    for name, optimizer in OPTIMIZERS.items():
        with tf.Graph().as_default(), v1.Session() as session:
            loss = model_loss()
            step = v1.train.get_or_create_global_step()
            minimize = optimizer().minimize(loss, step)
            saver = v1.train.Saver()
            latest = tf.train.latest_checkpoint(f"{folder}/{name}")
            assert latest == f"{folder}/{name}/model.ckpt-3", latest
            saver.restore(session, latest)
            assert sorted(n for n, _ in tf.train.list_variables(latest)) == sorted(
                v.op.name for v in v1.global_variables()), name
            [ours] = interop.read_blobs(f"{folder}/{name}.loss")
            np.testing.assert_allclose(session.run(loss), float(ours), rtol=1e-5, err_msg=name)
            for _ in range(session.run(step)):
                session.run(minimize)
            saver.save(session, f"{folder}/{name}.theirs/model.ckpt", session.run(step))


interop.serve(sys.modules[__name__])
