# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of names.c: the same losses, metrics, optimizers and activations in Keras."""
import sys

import interop
import numpy as np
import tensorflow as tf
from keras.src.engine import compile_utils

CLASSES = {"binary_crossentropy": tf.keras.losses.BinaryCrossentropy,
           "binary_focal_crossentropy": tf.keras.losses.BinaryFocalCrossentropy,
           "categorical_crossentropy": tf.keras.losses.CategoricalCrossentropy,
           "categorical_focal_crossentropy": tf.keras.losses.CategoricalFocalCrossentropy,
           "sparse_categorical_crossentropy": tf.keras.losses.SparseCategoricalCrossentropy}


def grouped(path):
    """Tensors called "<key>|<what>" as key to {what: array}."""
    out = {}
    for name, value in interop.read_tensors(path).items():
        key, what = name.rsplit("|", 1)
        out.setdefault(key, {})[what] = value
    return out


def compare(key, what, ours, theirs, tolerance=1e-6, floor=0.1, unit=0):
    """Errors are relative to the value, to that part of the largest, or to a number that the value was computed of."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape, (key, what, ours.shape, theirs.shape)
    error = np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), max(np.max(np.abs(theirs)) * floor, unit, 1e-30)))
    if not error <= tolerance:
        raise AssertionError(f"{key} {what}: {error}\n{ours}\n{theirs}")


def keras_loss(name, how, a, b):
    """The loss by its name where that is enough."""
    if name == "huber":
        return tf.keras.losses.Huber(a)
    if name not in CLASSES or (how != "logits" and a == 0 and b == 0):
        return name
    options = {"from_logits": how == "logits"}
    if "focal" in name:
        options["gamma"] = a or 2
        if name.startswith("binary"):
            options["apply_class_balancing"] = b != 0
        options["alpha"] = b or 0.25
    elif "sparse" not in name:
        options["label_smoothing"] = a
    return CLASSES[name](**options)


def check_losses(folder):
    cases = grouped(folder + "/losses")
    for key, case in cases.items():
        name, shape, how, a, b = key.split("|")
        loss = keras_loss(name, how, float(a), float(b))
        x, l = tf.constant(case["x"]), tf.constant(case["l"])
        make = {"softmax": tf.keras.activations.softmax, "sigmoid": tf.keras.activations.sigmoid}.get(how, tf.identity)
        container = compile_utils.LossesContainer(loss)
        with tf.GradientTape() as tape:
            tape.watch(x)
            mean = container(l, make(x), sample_weight=tf.constant(case["w"]))
        compare(key, "mean", case["mean"], mean, unit=np.max(np.abs(case["each"])))
        compare(key, "gradient", case["gradient"], tape.gradient(mean, x), 1e-5)
        fn = tf.keras.losses.get(loss)
        if isinstance(fn, tf.keras.losses.Loss):
            fn = type(fn).from_config({**fn.get_config(), "reduction": "none"})
        each = fn(tf.expand_dims(l, -1) if shape == "column" else l, make(x))
        compare(key, "each", case["each"], each, 5e-6)
    print(len(cases), "losses")


def check_metrics(folder):
    cases = grouped(folder + "/metrics")
    for key, case in cases.items():
        word, logged, _, weighted = key.split("|")
        tf.keras.backend.clear_session()  # or the second metric of a kind has another name
        container = compile_utils.MetricsContainer(metrics=None, weighted_metrics=[word])
        theirs = []
        for i in range(3):
            weights = tf.constant(case[f"w{i}"]) if weighted == "weighted" else None
            container.update_state(tf.constant(case[f"l{i}"]), tf.constant(case[f"x{i}"]), sample_weight=weights)
            theirs.append(container.metrics[0].result().numpy())
        assert container.metrics[0].name == logged, (key, container.metrics[0].name)
        compare(key, "values", case["values"], np.array(theirs, np.float32))
    print(len(cases), "metrics")


def check_optimizers(folder):
    cases = grouped(folder + "/optimizers")
    rows = tf.constant([4, 1, 4, 5])
    for key, case in cases.items():
        name, rate, kind = key.split("|")
        known = getattr(tf.keras.optimizers, name, None)  # Keras finds "AdamW" by its class only
        optimizer = known() if known is not None else tf.keras.optimizers.get(name)
        if float(rate) > 0:
            optimizer.learning_rate = float(rate)
        w, target, scale = tf.Variable(case["first"]), tf.constant(case["target"]), tf.constant(case["scale"])
        for _ in range(20):
            with tf.GradientTape() as tape:
                if kind == "sparse":
                    error = (tf.gather(w, rows) - tf.gather(target, rows)) ** 2 * tf.gather(scale, rows)
                else:
                    error = (w - target) ** 2 * scale
                loss = tf.reduce_sum(error)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        if name == "Ftrl" and kind == "sparse":
            # Keras sets rows that never had a gradient to 0, and so would an embedding lose them; here they stay.
            w = tf.gather(w, rows)
            case = {what: value[rows.numpy()] for what, value in case.items()}
        compare(key, "step", case["value"] - case["first"], w.numpy() - case["first"], 1e-4, unit=0.02)
        compare(key, "value", case["value"], w, 1e-5, 1)
    print(len(cases), "optimizers")


def check_activations(folder):
    cases = interop.read_tensors(folder + "/activations")
    x = tf.constant(cases.pop("x"))
    other = {"relu6": tf.nn.relu6, "leaky_relu": tf.nn.leaky_relu}
    for name, y in cases.items():
        compare(name, "value", y, other[name](x) if name in other else tf.keras.activations.get(name)(x), 2e-6)
    print(len(cases), "activations")


interop.serve(sys.modules[__name__])
