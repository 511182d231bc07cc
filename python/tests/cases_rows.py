# SPDX-License-Identifier: Apache-2.0
"""Gradients of tables of which only some rows were read, and what optimizers make of them. Run by TensorFlow they write
what test_rows.py compares with."""
import sys

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def _optimizers(tf):
    new, old = tf.keras.optimizers, tf.keras.optimizers.legacy
    return {
        "SGD": new.SGD(0.1), "momentum": new.SGD(0.1, momentum=0.9), "nesterov": new.SGD(0.1, momentum=0.9, nesterov=True),
        "RMSprop": new.RMSprop(0.1), "RMSprop_momentum": new.RMSprop(0.1, momentum=0.9),
        "RMSprop_centered": new.RMSprop(0.1, centered=True, momentum=0.9), "Ftrl": new.Ftrl(0.1, l1_regularization_strength=0.01),
        "Adam": new.Adam(0.1), "AdamW": new.AdamW(0.1), "Adagrad": new.Adagrad(0.1), "Adadelta": new.Adadelta(0.1),
        "Adamax": new.Adamax(0.1), "Lion": new.Lion(0.1), "global_clipnorm": new.SGD(0.1, global_clipnorm=5.0),
        "average": new.SGD(0.1, momentum=0.9, use_ema=True, ema_overwrite_frequency=2),
        "legacy_SGD": old.SGD(0.1), "legacy_momentum": old.SGD(0.1, momentum=0.9),
        "legacy_nesterov": old.SGD(0.1, momentum=0.9, nesterov=True), "legacy_RMSprop": old.RMSprop(0.1),
        "legacy_RMSprop_centered": old.RMSprop(0.1, centered=True, momentum=0.9), "legacy_Adam": old.Adam(0.1),
        "legacy_Ftrl": old.Ftrl(0.1, l1_regularization_strength=0.01), "legacy_Adagrad": old.Adagrad(0.1),
        "legacy_Adadelta": old.Adadelta(0.1), "legacy_Adamax": old.Adamax(0.1),
    }


def _model(tf):
    model = tf.keras.Sequential([tf.keras.layers.Embedding(5, 2, input_length=2), tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(1)])
    model.build((None, 2))
    model.set_weights([np.linspace(-1, 1, 10).reshape(5, 2).astype(np.float32),
                       np.array([[0.5], [-0.4], [0.3], [0.7]], np.float32), np.zeros(1, np.float32)])
    return model


_X = np.array([[1, 2], [1, 0], [3, 3], [0, 0], [2, 1], [2, 2]])
_Y = np.array([[1.0], [0.0], [2.0], [1.0], [0.0], [3.0]], np.float32)


def _loop(tf, optimizer, function):
    model = _model(tf)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    step = tf.function(step) if function else step
    for i in [0, 2, 4] * 2:
        step(tf.constant(_X[i:i + 2]), tf.constant(_Y[i:i + 2]))
    return model.get_weights()


@case
def embeddings_in_fit(tf):
    """A row that a batch has not moves where the optimizer has a momentum of all rows."""
    found = {}
    for name, optimizer in _optimizers(tf).items():
        model = _model(tf)
        model.compile(optimizer, "mse")
        model.fit(_X, _Y, batch_size=2, epochs=2, shuffle=False, verbose=0)
        found[name] = model.get_weights()
    model = _model(tf)
    model.compile("ftrl", "mse")
    model.fit(_X, _Y, batch_size=2, epochs=2, shuffle=False, verbose=0)
    return {**found, "ftrl": model.get_weights()}


@case
def embeddings_in_functions(tf):
    return {name: _loop(tf, optimizer, True) for name, optimizer in _optimizers(tf).items()}


@case
def embeddings_at_once(tf):
    return {name: _loop(tf, optimizer, False) for name, optimizer in _optimizers(tf).items()}


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
