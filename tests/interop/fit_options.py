# SPDX-License-Identifier: Apache-2.0
"""Keras' side of fit_options.c: the same fits of the same rows."""
import sys
import traceback

import interop
import numpy as np
import tensorflow as tf

BATCH = 7


def part(tensors, prefix):
    return {name[len(prefix) + 1:]: value for name, value in tensors.items() if name.startswith(prefix + "/")}


def compare(what, ours, theirs):
    """Errors are relative to the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    error = np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))
    assert error <= 1e-5, f"{what}: {error}\n{ours}\n{theirs}"


def batches(rows, validation, for_ever):
    names = ("vx", "vy") if validation else ("x", "y", "w")
    d = tf.data.Dataset.from_tensor_slices(tuple(rows[name] for name in names)).batch(6 if validation else BATCH)
    return d.repeat() if for_ever else d


def make_model():
    model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(4, activation="tanh"),
                                 tf.keras.layers.Dense(1)])
    model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.1), metrics=["mae"], weighted_metrics=["mse"])
    return model


def fits(rows):
    """The arguments of each fit, those of a second one or None, and the steps of the evaluation."""
    once, endless = batches(rows, False, False), batches(rows, False, True)
    held_out, held_out_endless = batches(rows, True, False), batches(rows, True, True)
    arrays = {"x": rows["x"], "y": rows["y"], "sample_weight": rows["w"], "shuffle": False}
    validation = (rows["vx"], rows["vy"], rows["vw"])
    return {
        "dataset": ({"x": once, "epochs": 5, "validation_data": held_out, "validation_freq": 2}, None, None),
        "endless": ({"x": endless, "epochs": 4, "steps_per_epoch": 5, "validation_data": held_out_endless,
                     "validation_steps": 2}, None, 3),
        "too_short": ({"x": once, "epochs": 4, "steps_per_epoch": 3}, None, None),
        "arrays": ({**arrays, "batch_size": BATCH, "epochs": 3, "validation_data": validation}, None, None),
        "arrays_steps": ({**arrays, "batch_size": BATCH, "epochs": 3, "steps_per_epoch": 5}, None, None),
        "arrays_too_short": ({**arrays, "batch_size": 20, "epochs": 2, "steps_per_epoch": 5}, None, None),
        "default_batch": ({**arrays, "epochs": 2, "validation_split": 0.3}, None, None),
        "two_fits": ({**arrays, "batch_size": BATCH, "epochs": 2}, {"x": once, "initial_epoch": 2, "epochs": 5}, 2)}


def check_one(ours, rows, first, again, steps):
    model = make_model()
    for i, v in enumerate(model.weights):
        v.assign(part(ours, "before")[str(i)])
    history = model.fit(verbose=0, **first)
    if again is not None:
        history = model.fit(verbose=0, **again)
    mine = part(ours, "history")
    compare("epochs", mine.pop("epoch"), np.array(history.epoch, float))
    assert set(mine) == set(history.history), (sorted(mine), sorted(history.history))
    for name, values in history.history.items():
        compare(name, mine[name][~np.isnan(mine[name])], values)
    for i, v in enumerate(model.weights):
        compare(v.name, part(ours, "after")[str(i)], v.numpy())
    d = batches(rows, False, steps is not None)
    results = model.evaluate(d, steps=steps, verbose=0, return_dict=True)
    assert set(results) == set(part(ours, "evaluate"))
    for name, value in results.items():
        compare(f"evaluate {name}", ours["evaluate/" + name], value)
    compare("predict", ours["predict/0"], model.predict(d, steps=steps, verbose=0))


def check_options(folder):
    rows, wrong = interop.read_tensors(folder + "/rows"), []
    for name, arguments in fits(rows).items():
        try:
            check_one(interop.read_tensors(f"{folder}/{name}"), rows, *arguments)
        except Exception:
            traceback.print_exc()
            wrong.append(name)
    assert not wrong, wrong


interop.serve(sys.modules[__name__])
