# SPDX-License-Identifier: Apache-2.0
"""Batches that a keras.utils.Sequence, a generator or a dataset gives fit, evaluate and predict: which of them a pass has."""
import itertools

import numpy as np
import pytest

import estoc.tf as tf


class Own(tf.keras.Sequential):
    def train_step(self, data):
        return super().train_step(data)


KINDS = [tf.keras.Sequential, Own]


def numbered(i):
    """A batch whose mean absolute error is its number."""
    return np.full((2, 1), i, np.float32), np.zeros((2, 1), np.float32)


def batches(n=None):
    return map(numbered, itertools.count() if n is None else range(n))


def identity(kind=tf.keras.Sequential):
    model = kind([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(1,))])
    model.compile(tf.keras.optimizers.SGD(0.0), "mae")
    return model


def losses(kind, x, **named):
    return identity(kind).fit(x, verbose=0, **named).history


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_goes_on(kind):
    assert losses(kind, batches(), steps_per_epoch=3, epochs=3)["loss"] == pytest.approx([1, 4, 7])
    history = losses(kind, batches(), steps_per_epoch=1, epochs=3, validation_data=batches(), validation_steps=2)
    assert history["val_loss"] == [0.5, 2.5, 4.5]


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_ends_the_fit(kind, caplog):
    with pytest.warns(UserWarning, match="generator.*one epoch.*steps_per_epoch"):
        assert losses(kind, batches(4), epochs=3)["loss"] == [1.5]
    assert losses(kind, batches(4), steps_per_epoch=3, epochs=3)["loss"] == [1, 3]
    assert losses(kind, batches(4), steps_per_epoch=2, epochs=3)["loss"] == [0.5, 2.5]
    told = caplog.text
    assert "after 1 of 3 steps of epoch 2" in told and "after 0 of 2 steps of epoch 3" in told


@pytest.mark.parametrize("kind", KINDS)
def test_a_dataset_goes_on_in_the_next_epoch(kind):
    rows = tf.data.Dataset.from_tensor_slices(np.stack([numbered(i)[0] for i in range(3)])).map(lambda x: (x, 0 * x))
    assert losses(kind, rows.repeat(), steps_per_epoch=2, epochs=4)["loss"] == [0.5, 1, 1.5, 0.5]
    assert losses(kind, rows, steps_per_epoch=2, epochs=4)["loss"] == [0.5, 2]


class Numbered(tf.keras.utils.Sequence):
    ends = 0

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return numbered(i)

    def on_epoch_end(self):
        self.ends += 1


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_a_whole_pass_begin_a_pass_in_each_epoch(kind, caplog):
    rows = tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32)[:, None]).map(lambda x: (x, 0 * x)).batch(2)
    for x, loss in [(Numbered(), 1), (rows, 2.5)]:
        assert losses(kind, x, steps_per_epoch=3, epochs=5)["loss"] == [loss] * 5
    assert not caplog.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_begins_a_pass_in_each_epoch(kind, caplog):
    x = Numbered()
    assert losses(kind, x, steps_per_epoch=2, epochs=3, shuffle=False)["loss"] == [0.5] * 3 and x.ends == 3
    assert not caplog.text
    assert losses(kind, x, steps_per_epoch=4, epochs=3, shuffle=False)["loss"] == [1]
    assert "after 3 of 4 steps of epoch 1" in caplog.text


def test_what_follows_no_labels_is_left_out():
    inputs = tf.keras.Input([1])
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, kernel_initializer="ones")(inputs))
    x, weights = np.float32([[1], [2]]), np.float32([3, 5])
    model.add_loss(tf.reduce_mean(model.output))
    model.compile("sgd")
    assert model.evaluate(iter([(x, None, weights)]), verbose=0) == model.evaluate(iter([(x, None)]), verbose=0) == 1.5
    assert (model.predict(iter([(x, None, weights)]), verbose=0) == x).all()
    with pytest.raises(ValueError, match="label"):
        identity().fit(iter([(x, None, weights)]), verbose=0)


def test_a_model_of_two_inputs_predicts_with_callbacks():
    inputs = [tf.keras.Input([1]), tf.keras.Input([1])]
    model, told = tf.keras.Model(inputs, tf.keras.layers.Add()(inputs)), []
    x = np.ones((40, 1), np.float32)

    class Watch(tf.keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            told.append(batch)

    pairs = tf.data.Dataset.from_tensor_slices(((x, x), x)).batch(32)
    for rows in ([x, x], (x, x), pairs, iter([((x, x), x)])):
        assert (model.predict(rows, callbacks=[Watch()], verbose=0) == 2 * x).all()
    assert told == [0, 1] * 3 + [0]


def test_a_generator_without_a_batch_is_named():
    for call in (lambda: identity().fit(iter([]), verbose=0), lambda: identity().predict(iter([]), verbose=0)):
        with pytest.raises(ValueError, match="the generator has no batch"):
            call()


def padded(labels):
    for length in (2, 4, 3):
        x = np.arange(2 * length, dtype=np.float32).reshape(2, length, 1)
        yield (x, x) if labels == "each" else (x, x.mean((1, 2))[:, None])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", ["each", "one"])
def test_batches_are_as_long_as_their_longest_row(kind, labels):
    layers = [tf.keras.layers.GlobalAveragePooling1D()] if labels == "one" else []
    model = kind([tf.keras.Input([None, 1]), *layers, tf.keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(tf.keras.optimizers.SGD(0.0), "mae")
    assert model.evaluate(padded(labels), verbose=0) == 0
    assert model.fit(padded(labels), verbose=0).history["loss"] == [0]
    assert [len(row) for row in model.predict((x[:, :2] for x, _ in padded(labels)), verbose=0)] == [
        2 if labels == "each" else 1] * 6


def test_labels_of_generators_are_measured_as_those_of_arrays():
    x, y = np.random.RandomState(0).randn(8, 3).astype(np.float32), np.arange(8)[:, None] % 4
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="softmax", input_shape=(3,))])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    assert model.evaluate(iter([(x, y)]), verbose=0) == pytest.approx(model.evaluate(x, y, verbose=0))
