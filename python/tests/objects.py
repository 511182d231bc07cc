# SPDX-License-Identifier: Apache-2.0
"""Models, optimizers and steps for checkpoints, the same under TensorFlow and under estoc.tf. Run with TensorFlow it is
the other side of test_checkpoint.py: `write` makes checkpoints and goes on training, `read` restores those that the
package has written and compares where training leads."""
import os
import sys

import numpy as np


def data():
    random = np.random.RandomState(3)
    x = random.randn(16, 4).astype(np.float32)
    return x, (x @ np.arange(1, 5, dtype=np.float32)[:, None] * 0.5 + 0.1).astype(np.float32)


def set_weights(model):
    random = np.random.RandomState(5)
    model.set_weights([(random.randn(*w.shape) * 0.3).astype(w.dtype) for w in model.get_weights()])


def sequential(tf):
    return tf.keras.Sequential([tf.keras.layers.Dense(3, activation="tanh", input_shape=(4,)), tf.keras.layers.Dense(1)])


def branches(tf):
    """Layers in another order than that of their calls: the first one called is nearest to the output."""
    x = tf.keras.Input((4,))
    near = tf.keras.layers.Dense(2, name="near")(x)
    far = tf.keras.layers.Dense(2, name="far")(tf.keras.layers.Dense(3, activation="tanh", name="farther")(x))
    shared = tf.keras.layers.Dense(2, name="shared")
    return tf.keras.Model(x, tf.keras.layers.Dense(1, name="last")(shared(far) + shared(near)))


def subclass(tf):
    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first = tf.keras.layers.Dense(3, activation="tanh")
            self.rest = [tf.keras.layers.LayerNormalization(), tf.keras.layers.Dense(1)]

        def call(self, x):
            return self.rest[1](self.rest[0](self.first(x)))

    model = Net()
    model(np.zeros((1, 4), np.float32))
    return model


def cases(tf):
    K = tf.keras.optimizers
    optimizers = {
        "sgd": K.SGD(0.05), "momentum": K.SGD(0.05, momentum=0.9), "adam": K.Adam(0.02), "adamw": K.AdamW(0.02, 0.1),
        "rmsprop": K.RMSprop(0.02), "rmsprop_all": K.RMSprop(0.02, momentum=0.5, centered=True),
        "adagrad": K.Adagrad(0.1), "adadelta": K.Adadelta(1.0), "adamax": K.Adamax(0.02), "lion": K.Lion(0.01),
        "ftrl": K.Ftrl(0.1), "schedule": K.Adam(K.schedules.ExponentialDecay(0.1, 2, 0.5)),
        "legacy": K.legacy.Adam(0.02), "legacy_momentum": K.legacy.SGD(0.05, momentum=0.9)}
    for name, optimizer in optimizers.items():
        yield name, sequential(tf), optimizer
    yield "branches", branches(tf), K.Adam(0.02)
    yield "subclass", subclass(tf), K.Adam(0.02)


def fit(model):
    x, y = data()
    model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)


def write(tf, folder):
    """Trains, saves, and trains on: what a program that restores the checkpoint must come to."""
    after = {}
    for name, model, optimizer in cases(tf):
        set_weights(model)
        model.compile(optimizer, "mse")
        fit(model)
        step = tf.Variable(7, dtype=tf.int64, name="step")
        tf.train.Checkpoint(model=model, step=step, list=[tf.Variable([1.5, 2.5])]).save(os.path.join(folder, name, "c"))
        fit(model)
        after[name] = [np.asarray(w) for w in model.get_weights()] + [np.asarray(model.optimizer.iterations.numpy())]
    np.savez(os.path.join(folder, "after.npz"), **{f"{name}-{i}": w for name, all_ in after.items()
                                                   for i, w in enumerate(all_)})


def read(tf, folder):
    """Restores, trains, and compares; returns what differs."""
    after = np.load(os.path.join(folder, "after.npz"))
    wrong = []
    for name, model, optimizer in cases(tf):
        model.compile(optimizer, "mse")
        step, pair = tf.Variable(0, dtype=tf.int64), tf.Variable([0.0, 0.0])
        checkpoint = tf.train.Checkpoint(model=model, step=step, list=[pair])
        path = tf.train.latest_checkpoint(os.path.join(folder, name))
        status = checkpoint.restore(path)
        fit(model)
        try:
            status.assert_consumed()
        except AssertionError as why:
            wrong.append(f"{name}: {str(why)[:300]}")
        got = [np.asarray(w) for w in model.get_weights()] + [np.asarray(model.optimizer.iterations.numpy())]
        for i, value in enumerate(got):
            if not np.allclose(value, after[f"{name}-{i}"], rtol=1e-5, atol=1e-5):
                wrong.append(f"{name}: weights {i} are {value!r}, in the program that wrote it {after[f'{name}-{i}']!r}")
        if int(step) != 7 or pair.numpy().tolist() != [1.5, 2.5] or int(checkpoint.save_counter) != 1:
            wrong.append(f"{name}: {step!r} {pair!r} {checkpoint.save_counter!r}")
    return wrong


if __name__ == "__main__":
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    tensorflow.get_logger().setLevel("ERROR")
    if sys.argv[1] == "write":
        write(tensorflow, sys.argv[2])
    else:
        differences = read(tensorflow, sys.argv[2])
        print("\n".join(differences))
        sys.exit(bool(differences))
