# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of network.c: Keras' fit of the same network from the same first values."""
import sys

import interop
import numpy as np
import tensorflow as tf


def part(tensors, prefix):
    return {name[len(prefix) + 1:]: value for name, value in tensors.items() if name.startswith(prefix + "/")}


def compare(what, ours, theirs, tolerance=1e-5):
    """Errors are relative to the largest number."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    error = np.max(np.abs(ours - theirs)) / max(np.max(np.abs(theirs)), 1e-30)
    if not error <= tolerance:
        raise AssertionError(f"{what}: {error}\n{ours}\n{theirs}")


def make_model(optimizer):
    model = tf.keras.Sequential([
        tf.keras.Input((6,)),
        tf.keras.layers.Dense(8, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(0.01)),
        tf.keras.layers.BatchNormalization(),
        tf.keras.layers.Dense(3, activation="softmax")])
    make = {"adam": tf.keras.optimizers.Adam, "sgd": tf.keras.optimizers.SGD}[optimizer]
    model.compile(loss="sparse_categorical_crossentropy", optimizer=make(0.02), metrics=["accuracy"],
                  weighted_metrics=["sparse_categorical_crossentropy"])
    return model


def check_one(folder, optimizer):
    ours = interop.read_tensors(folder + "/" + optimizer)
    x, y, w = ours["x"], ours["y"], ours["w"]
    model = make_model(optimizer)
    variables = [v for layer in model.layers for v in layer.weights]  # gamma, beta, mean, variance in our order
    for i, v in enumerate(variables):
        v.assign(part(ours, "before")[str(i)])
    history = model.fit(
        x, y, sample_weight=w, batch_size=7, epochs=8, shuffle=False, validation_split=0.2, verbose=0,
        callbacks=[tf.keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=0.02, cooldown=1),
                   tf.keras.callbacks.EarlyStopping("val_loss", patience=4, min_delta=0.01)]).history
    mine = part(ours, "history")
    assert set(mine) == set(history), (sorted(mine), sorted(history))
    for name, values in history.items():
        compare(f"{optimizer} {name}", mine[name], values)
    for i, v in enumerate(variables):
        compare(f"{optimizer} {v.name}", part(ours, "after")[str(i)], v.numpy())
    results = model.evaluate(x, y, sample_weight=w, batch_size=8, verbose=0, return_dict=True)
    for name, value in part(ours, "evaluate").items():
        compare(f"{optimizer} evaluate {name}", value, results[name])
    compare(f"{optimizer} predictions", ours["predicted"], model.predict(x, verbose=0))
    print(optimizer, len(history["loss"]), "epochs, learning rates", history["lr"])


def check_fit(folder):
    for optimizer in ("adam", "sgd"):
        check_one(folder, optimizer)


def make_two_heads():
    x = tf.keras.Input((6,))
    hidden = tf.keras.layers.Dense(8, activation="relu", kernel_regularizer=tf.keras.regularizers.L2(0.01))(x)
    price = tf.keras.layers.Dense(1, name="price")(hidden)
    kind = tf.keras.layers.Dense(3, activation="softmax", name="kind")(hidden)
    model = tf.keras.Model(x, [price, kind])
    model.compile(optimizer=tf.keras.optimizers.Adam(0.02), loss={"price": "mse", "kind": "sparse_categorical_crossentropy"},
                  loss_weights={"price": 1, "kind": 0.25}, metrics={"price": "mae", "kind": "accuracy"},
                  weighted_metrics={"price": "mse"})
    return model


def check_outputs(folder):
    ours = interop.read_tensors(folder + "/outputs")
    x, w = ours["x"], ours["sample_weight"]
    y = {"price": ours["price"], "kind": ours["kind"]}
    model = make_two_heads()
    variables = model.weights
    for i, v in enumerate(variables):
        v.assign(part(ours, "before")[str(i)])
    history = model.fit(x, y, sample_weight=w, batch_size=7, epochs=4, shuffle=False, validation_split=0.2, verbose=0).history
    mine = part(ours, "history")
    assert set(mine) == set(history), (sorted(mine), sorted(history))
    for name, values in history.items():
        compare(name, mine[name], values)
    for i, v in enumerate(variables):
        compare(v.name, part(ours, "after")[str(i)], v.numpy())
    results = model.evaluate(x, y, sample_weight=w, batch_size=8, verbose=0, return_dict=True)
    for name, value in part(ours, "evaluate").items():
        compare(f"evaluate {name}", value, results[name])
    for name, value in zip(("price", "kind"), model.predict(x, verbose=0)):
        compare(f"predictions {name}", ours["predicted/" + name], value)


interop.serve(sys.modules[__name__])
