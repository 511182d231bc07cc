# SPDX-License-Identifier: Apache-2.0
"""Cases as those of cases.py, of what TensorFlow's tutorials and Keras' guides do. Run with TensorFlow 2.15 it writes
golden_tutorials.json (scripts/make-golden-python)."""
import os
import sys
import tempfile

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def variables_before_build(tf):
    """Variables that `__init__` of a subclass makes come before those of the library, as they were made."""
    class Scaled(tf.keras.layers.Dense):
        def __init__(self, units, **named):
            super().__init__(units, **named)
            self.by = tf.Variable([1.0, 2.0, 3.0], name="by")
            self.seen = tf.Variable(0.0, trainable=False, name="seen")

        def build(self, shape):
            self.first = self.add_weight(name="first", shape=(4,))
            super().build(shape)
            self.last = self.add_weight(name="last", shape=(5,))

        def save_own_variables(self, store):
            super().save_own_variables(store)
            store["mine"] = self.by.numpy()

        def load_own_variables(self, store):
            self.by.assign(store["mine"])
            for i, variable in enumerate(self.weights):
                variable.assign(store[f"{i}"])

        def call(self, inputs):
            return super().call(inputs) * self.by

    model = tf.keras.Sequential([Scaled(3, input_shape=(6,))])
    layer, stored = model.layers[0], {}
    layer.save_own_variables(stored)
    layer.set_weights([np.full(value.shape, i, np.float32) for i, value in enumerate(layer.get_weights())])
    path = os.path.join(tempfile.mkdtemp(), "model.keras")
    model.save(path)
    again = tf.keras.models.load_model(path, {"Scaled": Scaled})
    return {"names": [variable.name.split("/")[-1] for variable in layer.weights],
            "shapes": {key: list(value.shape) for key, value in stored.items()}, "values": again.get_weights()}


@case
def normalization_of_bytes(tf):
    """Pixels and truth values, from arrays and datasets."""
    out = {}
    for dtype in ("uint8", "bool"):
        rows = np.arange(48, dtype=np.uint8).reshape(8, 6).astype(dtype)
        for name, data in (("array", rows), ("dataset", tf.data.Dataset.from_tensor_slices(rows).batch(3))):
            layer = tf.keras.layers.Normalization()
            layer.adapt(data)
            out[f"{dtype}_{name}"] = [layer.mean, layer.variance, layer(rows[:2])]
    return out


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
