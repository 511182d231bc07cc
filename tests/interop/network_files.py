# SPDX-License-Identifier: Apache-2.0
"""Keras' side of network_files.c: the same models, whose weights and SavedModels are exchanged."""
import sys

import interop
import numpy as np
import tensorflow as tf

layers = tf.keras.layers


def make(kind):
    if kind == "dense":
        return tf.keras.Sequential([layers.Dense(6, activation="relu"), layers.BatchNormalization(),
                                    layers.Dropout(0.5), layers.LayerNormalization(), layers.Dense(2, name="head")],
                                   name=kind)
    if kind == "image":
        return tf.keras.Sequential([layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(),
                                    layers.DepthwiseConv2D(3), layers.SeparableConv2D(5, 3), layers.MaxPooling2D(2),
                                    layers.Flatten(), layers.Dense(3)], name=kind)
    if kind == "embedding":
        return tf.keras.Sequential([layers.Embedding(20, 4, input_length=3), layers.Flatten(), layers.Dense(2)], name=kind)
    if kind == "words":
        lookup = layers.StringLookup()
        lookup.adapt(np.array(["b", "a", "b"]))
        return tf.keras.Sequential([layers.Input((3,), dtype=tf.string), lookup, layers.Embedding(3, 2),
                                    layers.Dense(2), layers.Dense(2)], name=kind)
    if kind == "heads":
        x = tf.keras.Input((5, 6), name="x")
        return tf.keras.Model(x, layers.Dense(2)(layers.MultiHeadAttention(2, 3)(x, x)), name=kind)
    x = tf.keras.Input((4,), name="x")
    if kind == "nested":
        part = tf.keras.Sequential([layers.Dense(5, activation="tanh"), layers.Dropout(0.5), layers.BatchNormalization(),
                                    layers.Dense(3)], name="part")
        h = layers.Dense(3, activation="relu")(x)
        return tf.keras.Model(x, layers.Dense(2)(h + part(x)), name=kind)
    if kind == "shared":
        encoder = tf.keras.Sequential([layers.Dense(3, activation="tanh"), layers.BatchNormalization()], name="encoder")
        both = layers.Dense(3)
        parts = []
        for name in ("left", "right"):
            inner = tf.keras.Input((4,), name="x")
            parts.append(tf.keras.Model(inner, layers.Dense(2)(both(encoder(inner))), name=name))
        h = layers.Dense(3)(parts[0](x) + parts[1](x))
        return tf.keras.Model(x, layers.Dense(2)(both(h)), name=kind)
    h = layers.Dense(4, activation="relu")(x)
    return tf.keras.Model(x, layers.Dense(2)(h + layers.BatchNormalization()(h)), name=kind)


def pairs(path):
    """What the C side predicted: name to (x, y)."""
    tensors = interop.read_tensors(path)
    return {name[:-2]: (tensors[name], tensors[name[:-2] + "|y"]) for name in tensors if name.endswith("|x")}


def compare(what, got, want):
    """Within 1e-6 of the largest, relative."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (what, got.shape, want.shape)
    error = np.max(np.abs(got - want)) / np.max(np.abs(want))
    assert error <= 1e-6, f"{what}: {error}\n{got}\n{want}"


def summary_of(model):
    lines = []
    model.summary(print_fn=lines.append)
    return "".join(line + "\n" for line in lines)


def check_ours(folder):
    for kind, (x, y) in pairs(folder + "/predictions").items():
        tf.keras.backend.clear_session()
        model = make(kind)
        if kind == "words":
            model(x)
        else:
            model.build((None,) + x.shape[1:])
        found = model.load_weights(f"{folder}/ours_{kind}")
        if kind != "words":  # what adapt has seen is not in our files
            found.assert_consumed()
        compare(kind + " load_weights", model(x), y)
        again = make(kind)
        again(x)
        found = tf.train.Checkpoint(model=again).read(f"{folder}/ours_{kind}")
        if kind != "words":
            found.assert_consumed()
        compare(kind + " Checkpoint", again(x), y)
        late = make(kind)
        tf.train.Checkpoint(model=late).restore(f"{folder}/ours_{kind}")  # when its variables are made
        compare(kind + " before it is built", late(x), y)
        saved = tf.saved_model.load(f"{folder}/saved_{kind}")
        served = saved.signatures["serving_default"](x=tf.constant(x))
        assert list(served) == [make_name(kind)], served
        compare(kind + " SavedModel", list(served.values())[0], y)
        if kind not in ("function", "heads", "words", "nested", "shared"):  # which have rows or numbers of their own in Keras
            with open(f"{folder}/summary_{kind}") as file:
                assert file.read() == summary_of(model), summary_of(model)


def make_name(kind):
    return {"dense": "head", "image": "dense", "embedding": "dense", "words": "dense_1", "function": "dense_1",
            "heads": "dense", "nested": "dense_3", "shared": "dense_5"}[kind]


def write(folder):
    tf.keras.backend.clear_session()
    make("dense")(np.zeros((1, 4), np.float32))  # so that later names are not the first ones
    want = {}
    for kind, (x, _) in pairs(folder + "/predictions").items():
        model = make(kind)
        model(x)
        model.compile("adam", "mse", run_eagerly=True)
        model.fit(x, np.zeros(model(x).shape), epochs=2, verbose=0)
        model.save_weights(f"{folder}/weights_{kind}")
        tf.train.Checkpoint(optimizer=model.optimizer, net=model).write(f"{folder}/checkpoint_{kind}")
        want[kind] = model(x).numpy()
    write.want = want


def check_loaded(folder):
    for name, (_, y) in pairs(folder + "/loaded").items():
        compare(name, y, write.want[name.split("_", 1)[1]])


interop.serve(sys.modules[__name__])
