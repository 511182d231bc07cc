# SPDX-License-Identifier: Apache-2.0
"""What layers and compile make of masks, losses and metrics. Run by TensorFlow they write what test_compiled.py
compares with."""
import sys

import numpy as np
from cases import set_weights

CASES = {}
IDS = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [1, 1, 1, 2]])


def case(function):
    CASES[function.__name__] = function
    return function


def _masked(tf, between):
    """What a recurrent layer and a loss see of the mask of an Embedding behind other layers."""
    keras = tf.keras.layers
    inputs = tf.keras.Input((4,))
    steps = between(keras.Embedding(5, 3, mask_zero=True)(inputs))
    model = tf.keras.Model(inputs, [keras.LSTM(2)(steps), keras.Dense(1)(steps)])
    set_weights(model)
    model.compile("sgd", "mse")
    last, every = model.predict(IDS, verbose=0)
    return [last, model.evaluate(IDS, [np.ones_like(last), np.ones_like(every)], verbose=0), model(IDS)[0]]


@case
def masks_between_layers(tf):
    keras = tf.keras.layers

    def convolved(steps):
        return keras.Conv1D(3, 2, padding="same")(steps)

    joined = {name: lambda steps, name=name: getattr(keras, name)()([steps, keras.Dense(3)(steps)])
              for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")}
    return {name: _masked(tf, between) for name, between in {
        **joined, "Conv1D": convolved, "Rescaling": keras.Rescaling(2.0), "Identity": keras.Identity(),
        "Conv1D in a model": tf.keras.Sequential([keras.Conv1D(3, 2, padding="same")]),
        "UnitNormalization": keras.UnitNormalization(),
        "one mask": lambda steps: keras.Add()([steps, convolved(steps)]),
        "values beside steps": lambda steps: keras.Concatenate()([convolved(steps), steps]),
        "steps behind steps": lambda steps: keras.Concatenate(axis=1)([steps, keras.Dense(3)(steps)]),
        "other masks": lambda steps: keras.Add()([steps, keras.Masking()(convolved(steps))]),
        "none": lambda steps: keras.Concatenate()([convolved(steps), convolved(steps)])}.items()}


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
