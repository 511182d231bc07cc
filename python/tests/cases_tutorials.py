# SPDX-License-Identifier: Apache-2.0
"""Cases as those of cases.py, of what TensorFlow's tutorials and Keras' guides do. Run with TensorFlow 2.15 it writes
golden_tutorials.json (scripts/make-golden-python)."""
import contextlib
import io
import os
import re
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


def recurrent(tf, layer):
    """A model of rows of any length, whose initial values are known."""
    inputs = tf.keras.Input((None,), dtype="int64")
    vectors = tf.keras.layers.Embedding(20, 4, mask_zero=True, embeddings_initializer="ones")(inputs)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_initializer="ones")(layer(vectors)))


def ones(kind, units):
    return kind(units, kernel_initializer="ones", recurrent_initializer="ones")


def padded_rows(tf, size):
    """Batches that are as long as their longest row."""
    rows = [[1 + (i * j) % 19 for j in range(1 + i % 5)] for i in range(1, 13)]
    specs = tf.TensorSpec((None,), tf.int64), tf.TensorSpec((1,), tf.float32)
    made = tf.data.Dataset.from_generator(lambda: ((row, [len(row) / 5.0]) for row in rows), output_signature=specs)
    return made.padded_batch(size, padded_shapes=([None], [1]))


@case
def rows_of_any_length(tf):
    """Recurrent layers over batches of unequal length: the loop is as long as each batch."""
    layers, out = tf.keras.layers, {}
    kinds = {"gru": ones(layers.GRU, 3), "both": layers.Bidirectional(ones(layers.LSTM, 2))}
    for name, layer in kinds.items():
        model = recurrent(tf, layer)
        model.compile("sgd", "mse", metrics=["mae"])
        history = model.fit(padded_rows(tf, 3), epochs=2, verbose=0, validation_data=padded_rows(tf, 4)).history
        out[name] = [history, model.evaluate(padded_rows(tf, 5), verbose=0), model.predict(padded_rows(tf, 3), verbose=0)]
    model, optimizer, out["loop"] = recurrent(tf, ones(layers.GRU, 3)), tf.keras.optimizers.SGD(0.1), []

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    for x, y in padded_rows(tf, 3):
        out["loop"].append(step(x, y))
    return out


@case
def texts_of_any_length(tf):
    """Words within and before a recurrent model."""
    layers = tf.keras.layers
    words = layers.TextVectorization(max_tokens=10)
    words.adapt(["a b c", "b c", "d e a"])
    texts = tf.data.Dataset.from_tensor_slices((["a b c", "b", "a b c d", "e"], [1.0, 0.0, 1.0, 0.0])).batch(2)
    inner = recurrent(tf, ones(layers.GRU, 3))
    inner.compile("sgd", "mse")
    ids = texts.map(lambda text, label: (words(text), label))
    out = {"ids": [inner.fit(ids, verbose=0).history, inner.evaluate(ids, verbose=0)]}
    inputs = tf.keras.Input((1,), dtype="string")
    whole = tf.keras.Model(inputs, inner(words(inputs)))
    rows = np.array([["a b"], ["c d e a"]])
    out["whole"] = [whole(tf.constant(rows)), whole.predict(rows, verbose=0)]
    first = tf.keras.Sequential([words, layers.Embedding(12, 3, mask_zero=True, embeddings_initializer="ones"),
                                 layers.Bidirectional(ones(layers.LSTM, 2)), layers.Dense(1, kernel_initializer="ones")])
    first.compile("sgd", tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
    history = first.fit(texts, validation_data=texts, verbose=0).history
    out["first"] = [history, first.evaluate(texts, verbose=0), first.predict(np.array(["a b e", "b"]), verbose=0)]
    return out


@case
def drawn_classes(tf):
    """tf.random.categorical: classes by their probabilities, of which -inf is none."""
    logits = np.log(np.array([[1.0, 2.0, 5.0], [0.0, 3.0, 0.0]], np.float32), where=[[True] * 3, [False, True, False]],
                    out=np.full((2, 3), -np.inf, np.float32))
    drawn = tf.random.categorical(logits, 20000, seed=3)
    counts = np.bincount(drawn[0].numpy(), minlength=3) / 20000
    near = np.abs(counts - [0.125, 0.25, 0.625]) < 0.02  # five standard deviations and more
    traced = tf.function(lambda x: tf.random.categorical(x, 4, tf.int32))(tf.constant(logits))
    out = {"shape": drawn.shape.as_list(), "dtype": drawn.dtype.name, "near": near, "only": tf.unique(drawn[1])[0],
           "traced": [traced.shape.as_list(), traced.dtype.name, traced[1]],
           "v1": tf.compat.v1.multinomial(tf.constant(logits), 3)[1]}
    try:
        tf.random.categorical(logits[0], 1)
    except tf.errors.InvalidArgumentError as error:
        out["rank"] = type(error).__name__
    return out


@case
def states_of_any_length(tf):
    """A stateful layer whose batches have any number of steps: trained with one size of batch, used with another."""
    def made(rows):
        return tf.keras.Sequential([
            tf.keras.layers.Embedding(7, 3, batch_input_shape=[rows, None], embeddings_initializer="ones"),
            tf.keras.layers.GRU(4, return_sequences=True, stateful=True, kernel_initializer="ones",
                                recurrent_initializer="ones"),
            tf.keras.layers.Dense(2, kernel_initializer="ones")])

    x, folder = np.arange(40).reshape(8, 5) % 7, tempfile.mkdtemp()
    model = made(4)
    model.compile(tf.keras.optimizers.SGD(1.0), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    rows = tf.data.Dataset.from_tensor_slices((x, x % 2)).batch(4, drop_remainder=True)
    history = model.fit(rows, epochs=3, verbose=0, callbacks=[tf.keras.callbacks.ModelCheckpoint(
        os.path.join(folder, "ckpt_{epoch}"), save_weights_only=True)]).history
    other, lines = made(1), []
    other.load_weights(tf.train.latest_checkpoint(folder))
    other.build(tf.TensorShape([1, None]))
    other.summary(print_fn=lambda line: lines.append(line))
    given = [other(tf.constant([list(range(n))])) for n in (3, 1, 1)]
    other.reset_states()
    return {"history": history, "given": given, "again": other(tf.constant([[0]])), "parameters": other.count_params()}


@case
def files_of_layers_over_time(tf):
    """Keys of weights, and another model of the same layers that takes them, whose layers have other names."""
    layers, out = tf.keras.layers, {}
    kinds = {"gru": lambda: layers.GRU(2), "both": lambda: layers.Bidirectional(layers.LSTM(2)),
             "cells": lambda: layers.RNN([layers.GRUCell(2), layers.LSTMCell(3)]),
             "dense": lambda: layers.TimeDistributed(layers.Dense(3)), "conv": lambda: layers.Conv1D(2, 2)}
    for name, kind in kinds.items():
        path = os.path.join(tempfile.mkdtemp(), "weights")
        first, second = (tf.keras.Sequential([tf.keras.Input((6, 3)), layers.Dense(2), kind(), layers.Dense(2)])
                         for _ in range(2))
        first.save_weights(path)
        second.load_weights(path).assert_consumed()
        out[name] = [[key for key, _ in tf.train.list_variables(path) if key.endswith("VARIABLE_VALUE")],
                     [bool((a == b).all()) for a, b in zip(first.get_weights(), second.get_weights())]]
    return out


@case
def columns_of_values(tf):
    """tf.compat.v1.feature_column.input_layer outside of graphs, as the tutorials on boosted trees show columns."""
    columns, rows = tf.compat.v1.feature_column, {"class": np.array(["Third", "First"]), "age": np.array([22.0, 38.0])}
    words = columns.categorical_column_with_vocabulary_list("class", ["First", "Second", "Third"])
    table = columns.embedding_column(words, 2, initializer=tf.keras.initializers.Ones())
    kinds = [columns.indicator_column(words), columns.numeric_column("age", dtype=tf.float32), table]
    return [columns.input_layer(rows, [kinds[0]]), columns.input_layer(rows, kinds)]


class Doubled:
    """train_step of a program."""

    def train_step(self, data):
        return super().train_step(data)


@case
def printed_progress(tf):
    """The lines of loops that C and Python run, without the times."""
    x, out, layers = np.ones((20, 2), np.float32), {}, tf.keras.layers
    kinds = {"c": tf.keras.Sequential, "python": type("Own", (Doubled, tf.keras.Sequential), {})}
    for name, kind in kinds.items():
        model = kind([layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])
        model.compile(tf.keras.optimizers.SGD(0.0), "mse", metrics=[tf.keras.metrics.MeanRelativeError(
            normalizer=[[1e5]], name="small"), "accuracy"])
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            for verbose in (1, 2):
                model.fit(x, x[:, :1], batch_size=2, verbose=verbose, validation_data=(x, 2 * x[:, :1]))
                model.fit(x, x[:, :1], batch_size=2, epochs=2, verbose=verbose)
                model.evaluate(x, x[:, :1], verbose=verbose)
                model.predict(x, verbose=verbose)
        lines = [re.sub(r"\d+(us|ms|s)\b", "T", line).rstrip() for line in re.split("[\b\r\n]+", text.getvalue())]
        out[name] = [line for line in lines if re.match("Epoch|(10/10|1/1) ", line) and "ETA" not in line]
    return out


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
