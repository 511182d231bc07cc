# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of resnet50.c: one step of Keras' ResNet50 from the same first values.

The loss is equal within 1e-4. What a step adds to a variable is equal within TOLERANCE, as norms. A sum of n products is
off by about sqrt(n) 2^-24 of its size, 4e-6 for the 4608 of a 3x3 convolution of 512 channels; over 53 layers, forward and
back, such errors add up as squares do: sqrt(106) 4e-6 = 4e-5. Gradients of gammas are small differences of large sums, and
a few times worse: 1.6e-4 was the most that was seen.

Of a million inputs of relus about one is so close to zero that rounding decides whether its gradient counts, which changes
all variables below it by as much as 2 %. So a step may also be that of float64, where this input has its right sign.
"""
import sys

import interop
import numpy as np
import tensorflow as tf

TOLERANCE, RATE = 1e-3, 0.01


def keras_step(ours, dtype):
    """The loss, and the values after a step by name."""
    tf.keras.backend.set_floatx(dtype)
    model = tf.keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    variables = {v.name.split(":")[0]: v for v in model.variables}
    for name, v in variables.items():
        v.assign(ours["before/" + name].astype(dtype))
    with tf.GradientTape() as tape:
        out = model(ours["image"].astype(dtype), training=True)
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(ours["label"], out))
    for v, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        v.assign_sub(np.asarray(RATE, dtype) * gradient)
    return float(loss), {name: v.numpy() for name, v in variables.items()}


def differences(ours, after, names):
    """Of each variable, relative to what the step adds to it."""
    def added(name):
        return np.linalg.norm(after[name].astype(float) - ours["before/" + name])

    found = {}
    for name in names:
        # A normalization takes the bias of its convolution away again: its gradient is what rounding leaves of the sum that
        # beta has as its gradient.
        scale = added(name.replace("_conv/bias", "_bn/beta"))
        found[name] = np.linalg.norm(ours["after/" + name].astype(float) - after[name]) / scale
    return found


def check_step(folder):
    ours = interop.read_tensors(folder + "/step")
    loss, after = keras_step(ours, "float32")
    assert abs(ours["loss"] - loss) <= 1e-4 * loss, (ours["loss"], loss)
    assert set(after) == {name[len("after/"):] for name in ours if name.startswith("after/")}
    found = differences(ours, after, after)
    worst = max(found, key=found.get)
    print("loss", float(ours["loss"]), loss, "largest difference", found[worst], "of", worst)
    if found[worst] > TOLERANCE:
        moving = [name for name in found if "/moving_" in name]  # depend on no gradient; biased in float64
        _, exact = keras_step(ours, "float64")
        exact_found = differences(ours, exact, [name for name in found if name not in moving])
        exact_worst = max(exact_found, key=exact_found.get)
        assert all(found[name] <= TOLERANCE for name in moving), found
        assert exact_found[exact_worst] <= TOLERANCE, (worst, found[worst], exact_worst, exact_found[exact_worst])


interop.serve(sys.modules[__name__])
