# SPDX-License-Identifier: Apache-2.0
"""Trains, predicts and reads datasets for as many iterations as it is told, and fails if memory or the number of live
objects grows. The suite runs a short form; `make growth` the long one.

growth.py [ITERATIONS]       5000 unless given
"""
import gc
import logging
import os
import sys
import tempfile
import time

import numpy as np

import estoc
import estoc.tf as tf
from estoc import _lib

RARE = 100  # whole calls, with sessions and checkpoints of their own, once in so many iterations
WARM = 0.2  # the part of the iterations after which nothing may grow
ALLOWED_BYTES = 4 * 2**20


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live():
    """What is alive: objects that C knows, what C borrows, exceptions that wait, and all of Python's."""
    gc.collect()
    _lib.forget_released()
    return {"handles": len(_lib.Handle._objects), "lent": len(_lib._lent), "exceptions": len(_lib._raised),
            "objects": len(gc.get_objects())}


class Program:
    def __init__(self, folder):
        random = np.random.RandomState(0)
        self.x = random.randn(64, 4).astype(np.float32)
        self.y = (self.x[:, :1] > 0).astype(np.float32)
        self.words = np.array(["a", "bb", "ccc", "dddd"] * 16)
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu", input_shape=(4,)),
                                          tf.keras.layers.Dense(1)])
        self.model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True))
        optimizer = tf.keras.optimizers.SGD(0.01)

        @tf.function
        def step(a, b):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(self.model(a, training=True) - b))
            variables = self.model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        self.step = step
        rows = tf.data.Dataset.from_tensor_slices((self.x, self.y)).repeat().shuffle(64)
        self.traced = iter(rows.map(lambda a, b: (a * 2.0, b)).batch(8))
        called = estoc.Dataset.from_tensor_slices({"x": self.x, "w": self.words}).repeat().map(
            lambda row: {"x": row["x"] + 1, "w": row["w"]})
        self.called = iter(called.batch(2))
        self.estimator = estoc.LinearClassifier([estoc.feature_column.numeric_column("x", 4)], folder)
        self.estimator.train(self.input, steps=1)
        serving = estoc.ServingInput(raw={"x": estoc.TensorSpec([None, 4], estoc.float32)})
        export = self.estimator.export_saved_model(os.path.join(folder, "export"), serving)
        self.predictor = estoc.Predictor(export, "predict")

    def input(self):
        return estoc.Dataset.from_tensor_slices(({"x": self.x}, self.y[:, 0].astype(np.int64))).repeat().batch(8)

    def often(self):
        a, b = next(self.traced)
        self.step(a, b)
        next(self.called)
        self.predictor({"x": self.x[:3]})
        float(tf.reduce_sum(a) + 1.0)

    def rarely(self):
        self.model.fit(self.x, self.y, batch_size=32, verbose=0, callbacks=[tf.keras.callbacks.EarlyStopping("loss")])
        self.model.evaluate(self.x, self.y, verbose=0)
        self.model.predict(self.x, verbose=0)
        list(estoc.Dataset.from_tensor_slices(self.x).map(lambda row: row + 1).batch(16).prefetch(2))
        list(estoc.Dataset.from_generator(lambda: iter(range(5)), estoc.TensorSpec([], estoc.int64)))
        self.estimator.train(self.input, steps=1, hooks=[estoc.Hook()])
        self.estimator.evaluate(lambda: self.input().take(1))
        next(self.estimator.predict(self.input))
        with tf.GradientTape() as tape:
            tape.watch(v := tf.constant(self.x))
            loss = tf.reduce_sum(tf.square(v))
        tape.gradient(loss, v)
        try:
            list(estoc.Dataset.range(2).filter(lambda x: 1 // 0))
        except ZeroDivisionError:
            pass


def main():
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    start, samples = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as folder:
        program = Program(folder)
        for i in range(iterations):
            if i % RARE == 0:
                program.rarely()
            program.often()
            if i + 1 in (int(iterations * WARM), iterations):
                samples[i + 1] = (live(), resident())
    (before, first), (after, last) = samples.values()
    print(f"growth: {iterations} iterations in {time.monotonic() - start:.0f} s, {first / 2**20:.1f} MB after "
          f"{WARM:.0%} of them, {last / 2**20:.1f} MB at the end; live {after}")
    grown = {name: (before[name], after[name]) for name in before if after[name] > before[name]}
    if grown.pop("objects", (0, 0))[1] > before["objects"] + 100:  # caches of Python itself
        sys.exit(f"growth: Python objects: {before['objects']}, then {after['objects']}")
    more = 0 if "ESTOC_FIND_LEAKS" in os.environ else last - first  # AddressSanitizer keeps what is freed for a while
    if grown or more > ALLOWED_BYTES:
        sys.exit(f"growth: {last - first} bytes more, {grown}")


if __name__ == "__main__":
    main()
