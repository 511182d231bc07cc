#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a Python program waits for, with TensorFlow or with estoc.tf as tf. Takes a turn for every line it is sent, as bench/support/turns.h.

  python_side.py tensorflow|estoc.tf QUESTION [--threads 2] [--turns N] [--seconds S]
"""
import argparse
import importlib
import json
import os
import sys
import tempfile
import time

import fit_tensorflow

MODELS = ("line", "cnn", "mlp", "wide_deep")
BATCH = 256


def eager_op(tf):
    """One addition of two small matrices."""
    a, b = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[0.5, 0.5], [0.5, 0.5]])

    def run(n):
        for _ in range(n):
            a + b

    return run


def eager_tape(tf):
    """Loss and gradient of a linear model, operation by operation."""
    import numpy as np
    x, y = np.ones((32, 4), "float32"), np.ones((32, 1), "float32")
    w, x, y = tf.Variable(np.ones((4, 1), "float32")), tf.constant(x), tf.constant(y)

    def run(n):
        for _ in range(n):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
            tape.gradient(loss, w)

    return run


def function_step(tf):
    """A traced function that updates a variable and returns a number."""
    v, x = tf.Variable([1.0, 2.0]), tf.constant([0.5, 0.25])

    @tf.function
    def step(a):
        v.assign_add(a)
        return tf.reduce_sum(v * a)

    def run(n):
        for _ in range(n):
            step(x)

    return run


def train_step(tf):
    """A traced training step: a small network, its gradients and Adam."""
    import numpy as np
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(0.01)
    x, y = tf.constant(np.ones((32, 8), "float32")), tf.constant(np.ones((32, 1), "float32"))

    @tf.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(a, training=True) - b))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    def run(n):
        for _ in range(n):
            step(x, y)

    return run


def fit(name):
    def make(tf):
        model, batches = fit_tensorflow.make_model(tf, name), fit_tensorflow.make_input(tf, name)
        return lambda n: model.fit(batches, steps_per_epoch=n, verbose=0)

    return make


def batches_of(rows):
    """Takes batches from one pass, so that its start does not count."""
    iterator = iter(rows.batch(BATCH))

    def run(n):
        for _ in range(n):
            next(iterator)

    return run


def map_traced(tf):
    """Batches of elements that each went through a function of Dataset.map that is a graph."""
    return batches_of(tf.data.Dataset.range(10**12).map(lambda x: x * 2 + 1))


def map_called(tf):
    """The same through a function that is Python."""
    import numpy as np

    def double(v):
        return np.int64(v * 2 + 1)

    if tf.__name__ == "tensorflow":
        return batches_of(tf.data.Dataset.range(10**12).map(lambda x: tf.numpy_function(double, [x], tf.int64)))
    return batches_of(importlib.import_module("estoc").Dataset.range(10**12).map(double))


def estimator(table):
    """Steps of a linear classifier from columns in memory, in one call of train: a hook takes the turns."""

    def make(tf):
        import logging
        import numpy as np
        logging.getLogger("tensorflow").setLevel(logging.ERROR)
        random = np.random.RandomState(0)
        columns = {"age": random.rand(4096).astype("float32"), "word": np.array([f"w{i}" for i in random.randint(0, 50, 4096)])}
        labels = random.randint(0, 2, 4096)
        if table:
            import pandas as pd
            columns = dict(pd.DataFrame(columns))
        fc = tf.feature_column
        made = tf.estimator.LinearClassifier(
            [fc.numeric_column("age"), fc.categorical_column_with_hash_bucket("word", 100)], tempfile.mkdtemp(),
            config=tf.estimator.RunConfig(save_checkpoints_steps=10**9, save_summary_steps=10**9, log_step_count_steps=10**9))

        def input_fn():
            return tf.data.Dataset.from_tensor_slices((columns, labels)).shuffle(1000).repeat().batch(32)

        return lambda options: made.train(input_fn, hooks=[turns_in_a_hook(tf, options)])

    make.takes_turns = True
    return make


def turns_in_a_hook(tf, options):
    """take_turns of fit_tensorflow.py within a training loop."""

    class Turns(tf.estimator.SessionRunHook):
        def __init__(self):
            self.steps, self.size, self.taken = 0, None, 0

        def mark(self):
            self.first, self.start, self.used = self.steps, time.perf_counter(), time.process_time()

        def after_run(self, context, values):
            self.steps += 1
            if self.steps == fit_tensorflow.WARM_STEPS:
                self.mark()
            elif self.size is None:
                if self.steps > fit_tensorflow.WARM_STEPS and time.perf_counter() - self.start > options.seconds / 4:
                    self.size = int((self.steps - self.first) * options.seconds / (time.perf_counter() - self.start)) + 1
                    self.wait(context)
            elif self.steps == self.first + self.size:
                print(json.dumps({"amount": self.size, "secs": time.perf_counter() - self.start,
                                  "cpu_secs": time.process_time() - self.used}), flush=True)
                self.taken += 1
                self.wait(context)

        def wait(self, context):
            if self.taken >= options.turns if options.turns else sys.stdin.readline() == "":
                context.request_stop()
            self.mark()

    return Turns()


QUESTIONS = {
    "eager_op": eager_op, "eager_tape": eager_tape, "function_step": function_step, "train_step": train_step,
    **{f"fit_{name}": fit(name) for name in MODELS},
    f"map_traced_{BATCH}": map_traced, f"map_called_{BATCH}": map_called,
    "train_numpy": estimator(False), "train_pandas": estimator(True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", choices=["tensorflow", "estoc.tf"])
    parser.add_argument("question", choices=list(QUESTIONS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    tf = importlib.import_module(options.module)
    if options.module == "tensorflow":
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
        tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    make = QUESTIONS[options.question]
    if getattr(make, "takes_turns", False):
        make(tf)(options)
    else:
        fit_tensorflow.take_turns(make(tf), options)


if __name__ == "__main__":
    main()
