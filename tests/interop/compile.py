# SPDX-License-Identifier: Apache-2.0
"""Keras' side of compile.c: the same networks, compiled by the same names."""
import glob
import os
import sys
import traceback

import interop
import numpy as np
import tensorflow as tf

BATCH, EPOCHS = 8, 4


def part(tensors, prefix):
    return {name[len(prefix) + 1:]: value for name, value in tensors.items() if name.startswith(prefix + "/")}


def compare(what, ours, theirs, largest):
    error = np.max(np.abs(np.asarray(ours) - np.asarray(theirs))) / largest
    assert error <= 1e-5, f"{what}: {error}\n{ours}\n{theirs}"


# Losses that Keras does not find by name as metrics.
FUNCTIONS = {"huber", "log_cosh", "binary_focal_crossentropy", "categorical_focal_crossentropy"}


def find_metrics(words):
    return [tf.keras.losses.get(word) if word in FUNCTIONS else word for word in words]


def check_case(folder, name):
    tf.keras.backend.clear_session()
    told = interop.read_tensors(f"{folder}/{name}")
    loss, activation, *metrics = told["words"].item().decode().split()
    model = tf.keras.Sequential([tf.keras.Input(told["x"].shape[1:]), tf.keras.layers.Dense(6, activation="tanh"),
                                 tf.keras.layers.Dense(7, activation=activation)])
    half = len(metrics) // 2
    model.compile(loss=loss, optimizer=tf.keras.optimizers.Adam(0.02), metrics=find_metrics(metrics[:half]),
                  weighted_metrics=find_metrics(metrics[half:]))
    for i, v in enumerate(model.weights):
        v.assign(part(told, "before")[str(i)])
    history = model.fit(told["x"], told["y"], sample_weight=told["sample_weight"], batch_size=BATCH, epochs=EPOCHS,
                        shuffle=False, verbose=0).history
    mine = part(told, "history")
    assert list(mine) == list(history), (list(mine), list(history))
    for column, values in history.items():
        compare(column, mine[column], values, np.max(np.abs(values)))
    largest = max(np.abs(v.numpy()).max() for v in model.weights)
    for i, v in enumerate(model.weights):
        compare(v.name, part(told, "after")[str(i)], v.numpy(), largest)


def check_fit(folder):
    wrong, names = [], sorted(os.path.basename(path) for path in glob.glob(folder + "/*"))
    for name in names:
        try:
            check_case(folder, name)
        except Exception:
            traceback.print_exc()
            wrong.append(name)
    assert not wrong, wrong
    print(len(names), "losses")


interop.serve(sys.modules[__name__])
