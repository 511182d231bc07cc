#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keras' fit on the models of bench/fit.c. Turns as bench/support/turns.h has them: each is one fit, of as many steps as take its time.

  fit_tensorflow.py cnn|mlp|wide_deep|line [--threads 2] [--turns N] [--seconds S]
"""
import argparse
import json
import os
import sys
import time

WARM_STEPS, SETS = 20, 8


IDS, NUMBERS, BUCKETS, ROWS = 26, 13, 100000, 512  # of wide_deep, as bench/support/models.c has them


def make_wide_deep(tf):
    layers = tf.keras.layers
    ids = [tf.keras.Input((), dtype=tf.int64, name=f"id_{i}") for i in range(IDS)]
    numeric = tf.keras.Input((NUMBERS,), name="numeric")
    wide = [layers.Embedding(BUCKETS, 1, embeddings_initializer="zeros")(i) for i in ids] + [layers.Dense(1)(numeric)]
    x = layers.Concatenate()([layers.Embedding(BUCKETS, 16)(i) for i in ids] + [numeric])
    for units in (256, 128, 64):
        x = layers.Dense(units, activation="relu")(x)
    model = tf.keras.Model([*ids, numeric], layers.Add()([layers.Dense(1)(x), *wide]))
    model.compile(loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), optimizer=tf.keras.optimizers.Adagrad(0.01))
    return model


def make_clicks(draw, number):
    ids = {f"id_{i}": (draw.random(ROWS) ** 3 * BUCKETS).astype("int64") for i in range(IDS)}
    return {**ids, "numeric": draw.standard_normal((ROWS, NUMBERS), "float32")}, [[float((i + number) % 2)] for i in range(ROWS)]


def make_model(tf, name):
    if name == "wide_deep":
        return make_wide_deep(tf)
    layers = tf.keras.layers
    crossentropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if name == "line":
        model, loss, optimizer = [layers.Dense(1, input_shape=(1,))], "mse", "sgd"
    elif name == "cnn":
        model = [layers.Conv2D(32, 3, activation="relu", input_shape=(28, 28, 1)), layers.MaxPooling2D(), layers.Flatten(),
                 layers.Dense(64, activation="relu"), layers.Dense(10)]
        loss, optimizer = crossentropy, tf.keras.optimizers.SGD(0.01)
    else:
        model = [layers.Dense(1024, activation="relu", input_shape=(784,)), layers.Dense(512, activation="relu"),
                 layers.Dense(256, activation="relu"), layers.Dense(10)]
        loss, optimizer = crossentropy, tf.keras.optimizers.Adagrad(0.01)
    model = tf.keras.Sequential(model)
    model.compile(loss=loss, optimizer=optimizer)
    return model


def make_input(tf, name):
    """Endless batches from memory; those of line are batched from single rows, as in bench/fit.c."""
    import numpy as np
    if name == "line":
        return tf.data.Dataset.from_tensors(([1.], [1.])).repeat().batch(10)
    draw = np.random.default_rng(1)
    if name == "wide_deep":
        sets = [make_clicks(draw, number) for number in range(SETS)]
        specs = ({**{f"id_{i}": tf.TensorSpec((ROWS,), tf.int64) for i in range(IDS)},
                  "numeric": tf.TensorSpec((ROWS, NUMBERS), tf.float32)}, tf.TensorSpec((ROWS, 1), tf.float32))
        return tf.data.Dataset.from_generator(lambda: iter(sets), output_signature=specs).cache().repeat().prefetch(2)
    shape = (64, 28, 28, 1) if name == "cnn" else (128, 784)
    sets = [(draw.standard_normal(shape, np.float32), draw.integers(0, 10, shape[0], np.int32)) for _ in range(SETS)]
    specs = (tf.TensorSpec(shape, tf.float32), tf.TensorSpec(shape[:1], tf.int32))
    return tf.data.Dataset.from_generator(lambda: iter(sets), output_signature=specs).cache().repeat().prefetch(2)


def take_turns(fit, options):
    """The first fits say how many steps a turn has."""
    fit(WARM_STEPS)
    steps, secs = WARM_STEPS, 0
    while secs < options.seconds / 4:
        steps *= 2
        start = time.perf_counter()
        fit(steps)
        secs = time.perf_counter() - start
    steps, taken = int(steps * options.seconds / secs) + 1, 0
    while taken < options.turns if options.turns else sys.stdin.readline() != "":
        start, used = time.perf_counter(), time.process_time()
        fit(steps)
        print(json.dumps({"amount": steps, "secs": time.perf_counter() - start, "cpu_secs": time.process_time() - used}), flush=True)
        taken += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=["cnn", "mlp", "wide_deep", "line"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    model, batches = make_model(tf, options.model), make_input(tf, options.model)
    take_turns(lambda steps: model.fit(batches, steps_per_epoch=steps, verbose=0), options)


if __name__ == "__main__":
    main()
