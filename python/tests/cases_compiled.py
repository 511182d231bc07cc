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


def _line(tf, outputs=1, activation=None):
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="tanh", input_shape=(4,)),
                                 tf.keras.layers.Dense(outputs, activation)])
    set_weights(model)
    return model


def _rows():
    random = np.random.RandomState(4)
    x = random.randn(20, 4).astype(np.float32)
    return x, (x[:, :1] > 0.2).astype(np.float32), np.abs(random.randn(20)).astype(np.float32)


@case
def reductions(tf):
    x, y, weights = _rows()
    keras, found = tf.keras.losses, {}
    for reduction in ("sum", "none", "sum_over_batch_size", "auto"):
        for name in ("MeanSquaredError", "Huber", "BinaryCrossentropy"):
            model = _line(tf, activation="sigmoid")
            model.compile(tf.keras.optimizers.SGD(0.1), getattr(keras, name)(reduction=reduction), metrics=["mse"])
            fit = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0, validation_data=(x[:9], y[:9]))
            found[f"{name} {reduction}"] = [fit.history, model.get_weights(), model.evaluate(x, y, verbose=0),
                                            model.train_on_batch(x, y, weights), model.test_on_batch(x, y)]
    model = _line(tf)
    model.compile("sgd", keras.MeanSquaredError(reduction="sum"))
    found["weighted"] = [model.fit(x, y, batch_size=8, shuffle=False, verbose=0, sample_weight=weights).history,
                         model.evaluate(x, y, verbose=0, sample_weight=weights)]
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, [tf.keras.layers.Dense(1)(inputs), tf.keras.layers.Dense(1)(inputs)])
    set_weights(model)
    model.compile("sgd", [keras.MeanSquaredError(reduction="sum"), "mse"], loss_weights=[0.5, 2.0])
    found["of two"] = model.fit(x, [y, -y], batch_size=8, shuffle=False, verbose=0).history["loss"]
    return found


@case
def weights_of_losses(tf):
    """Of a model whose steps are Python's."""
    x, y, _ = _rows()

    class Largest(tf.keras.metrics.Metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            pass

        def result(self):
            return tf.constant(2.0)

    found = {}
    for weights in (0.5, [0.25]):
        model = _line(tf)
        model.compile("sgd", "mse", metrics=[Largest()], loss_weights=weights)
        found[str(weights)] = [model.fit(x, y, batch_size=8, shuffle=False, verbose=0).history, model.get_weights()]
    return found


@case
def orders_of_metrics(tf):
    x, y, weights = _rows()
    keras, found = tf.keras.metrics, {}
    for name, metrics, weighted in (
            ("object first", lambda: [keras.AUC(name="auc"), "accuracy"], None),
            ("between", lambda: ["mse", keras.MeanAbsoluteError(name="a"), "mape", keras.MeanSquaredError(name="b"), "mae"], None),
            ("weighted", lambda: [keras.MeanAbsoluteError(name="a"), "mse"], lambda: ["mae"]),
            ("functions", lambda: [tf.keras.losses.mean_absolute_error, "mse"], None)):
        model = _line(tf, activation="sigmoid")
        model.compile("sgd", "binary_crossentropy", metrics=metrics(), weighted_metrics=weighted and weighted())
        history = model.fit(x, y, batch_size=8, shuffle=False, verbose=0, sample_weight=weights, validation_data=(x, y)).history
        found[name] = [list(history), list(history.values()), model.metrics_names, model.evaluate(x, y, verbose=0),
                       list(model.evaluate(x, y, verbose=0, return_dict=True)), model.train_on_batch(x, y),
                       list(model.test_on_batch(x, y, return_dict=True))]
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, [tf.keras.layers.Dense(1, name="p")(inputs), tf.keras.layers.Dense(1, name="q")(inputs)])
    set_weights(model)
    model.compile("sgd", "mse", metrics=[[keras.MeanAbsoluteError(name="a"), "mse"], ["mae", keras.MeanAbsoluteError(name="b"), "mse"]])
    found["of two"] = [model.evaluate(x, [y, -y], verbose=0), model.metrics_names]
    return found


@case
def areas_of_logits(tf):
    """Predictions beyond 0 and 1."""
    labels, logits = [0.0, 1.0, 1.0, 0.0, 1.0], [-0.5, 0.4, 1.7, 0.2, -0.1]
    found = {}
    for name, options in (("ROC", {}), ("PR", {"curve": "PR"}), ("few", {"num_thresholds": 5})):
        metric = tf.keras.metrics.AUC(**options)
        metric.update_state(labels, logits)
        metric.update_state(labels[2:], [9.0, -3.0, 0.5])
        found[name] = metric.result()
    x, y, _ = _rows()
    model = _line(tf)
    model.compile("sgd", tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["AUC"])
    found["fit"] = model.fit(x, y, batch_size=8, shuffle=False, verbose=0).history
    return found


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
