# SPDX-License-Identifier: Apache-2.0
"""copy, deepcopy and pickle; the values are those of TensorFlow 2.15."""
import copy
import pickle

import numpy as np
import pytest

import estoc.tf as tf

K = tf.keras
X = (np.arange(80).reshape(20, 4) % 7).astype("f")
Y = X[:, :1]
WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda one: pickle.loads(pickle.dumps(one))}


def dense(units, name, **named):
    return K.layers.Dense(units, kernel_initializer="ones", name=name, **named)


def sequential(**named):
    return K.Sequential([dense(3, "a", **named), dense(1, "b")], name="seq")


def functional():
    x = K.Input((4,), name="i")
    return K.Model(x, dense(1, "b")(x), name="fun")


class Own(K.Model):
    def __init__(self, units=1):
        super().__init__(name="own")
        self.dense = dense(units, "d")

    def call(self, x):
        return self.dense(x)


MAKES = {"sequential": sequential, "with a shape": lambda: sequential(input_shape=(4,)), "functional": functional, "own": Own}
LOSSES = {"sequential": 1036.761, "with a shape": 1036.761, "functional": 83.723, "own": 83.723}


def fitted(make):
    model = make()
    model.compile(K.optimizers.Adam(0.01), "mse", metrics=["mae"])
    model.fit(X, Y, epochs=2, verbose=0, shuffle=False)
    return model


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", MAKES)
def test_a_model_that_was_fitted(make, way):
    model = fitted(MAKES[make])
    other = way(model)
    assert type(other) is type(model) and other.name == model.name and other.built
    model.set_weights([value * 0 for value in model.get_weights()])
    assert int(other.optimizer.iterations) == 2
    assert other.evaluate(X, Y, verbose=0)[0] == pytest.approx(LOSSES[make], abs=2e-3)
    other.fit(X, Y, verbose=0)
    assert [int(one.optimizer.iterations) for one in (model, other)] == [2, 3]
    assert not model.get_weights()[0].any()


@pytest.mark.parametrize("make", MAKES)
def test_a_model_without_variables(make):
    model = MAKES[make]()
    other = copy.deepcopy(model)
    assert other is not model and other.name == model.name and other(X).shape == (20, 1)
    assert not {id(layer) for layer in other.layers} & {id(layer) for layer in model.layers}


def test_a_model_with_a_loss_of_its_own():
    def loss(y, predicted):
        return tf.reduce_mean(tf.abs(y - predicted), axis=-1)

    model = functional()
    model.compile("sgd", loss)
    assert copy.deepcopy(model).evaluate(X, Y, verbose=0) == model.evaluate(X, Y, verbose=0)


def test_models_of_a_list():
    model = fitted(functional)
    one, two = copy.deepcopy([model, model])
    assert one is two is not model


def test_a_model_that_cannot_be_described():
    class Holder(K.Model):
        def __init__(self, value):
            super().__init__(name="holder")

        def call(self, x):
            return x

    model = Holder(object())
    model(X)
    with pytest.raises(NotImplementedError, match="holder cannot be copied or pickled: .*set_weights"):
        copy.deepcopy(model)


@pytest.mark.parametrize("way", [copy.deepcopy, WAYS["pickle"]], ids=["deepcopy", "pickle"])
def test_variables(way):
    with tf.name_scope("scope"):
        variable = tf.Variable([1.0, 2.0], trainable=False, name="v")
    one, two = way([variable, variable])
    variable.assign([3.0, 4.0])
    assert one is two and one.numpy().tolist() == [1, 2] and (one.name, one.trainable) == ("scope/v:0", False)
    assert copy.copy(variable) is variable


class Half(K.losses.Loss):
    def __init__(self, share):
        super().__init__(name="half")
        self.share = share

    def call(self, y, predicted):
        return tf.reduce_mean(tf.abs(y - predicted), axis=-1) * self.share


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", [K.losses.MeanSquaredError, lambda: K.losses.Huber(delta=2.0), lambda: Half(0.5)],
                         ids=["mse", "huber", "own"])
def test_losses(make, way):
    loss, y, predicted = make(), np.zeros((2, 2), "f"), np.full((2, 2), 3, "f")
    loss(y, predicted)
    other = way(loss)
    assert type(other) is type(loss) and other.name == loss.name and float(other(y, predicted)) == float(loss(y, predicted))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_schedules(way):
    rate = K.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    other = way(rate)
    assert other.get_config() == rate.get_config() and float(other(10)) == pytest.approx(0.05)


LAYERS = {
    "dense": (lambda: dense(2, "z"), [[6, 6]]),
    "normalization": (lambda: K.layers.BatchNormalization(name="z"), [[0, 0.9995, 1.999, 2.9985]]),
    "dropout": (lambda: K.layers.Dropout(0.5, name="z"), [[0, 1, 2, 3]]),
}


@pytest.mark.parametrize("called", [False, True], ids=["new", "called"])
@pytest.mark.parametrize("way", [copy.deepcopy, WAYS["pickle"]], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("make, first", LAYERS.values(), ids=LAYERS)
def test_layers(make, first, way, called):
    layer = make()
    layer.trainable = False
    if called:
        layer(X)
    other = way(layer)
    values = layer.get_weights()
    assert (type(other), other.name, other.trainable) == (type(layer), "z", False)
    assert [value.tolist() for value in other.get_weights()] == [value.tolist() for value in values]
    layer.set_weights([value * 0 for value in values])
    assert other(X[:1]).numpy() == pytest.approx(np.array(first), abs=1e-3)


@pytest.mark.parametrize("way", [copy.deepcopy, WAYS["pickle"]], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("make", [lambda: K.layers.LSTM(2), lambda: K.layers.Bidirectional(K.layers.GRU(2)),
                                  lambda: K.layers.TimeDistributed(K.layers.Dense(3)),
                                  lambda: K.layers.RNN([K.layers.LSTMCell(2), K.layers.GRUCell(2)])],
                         ids=["lstm", "bidirectional", "distributed", "cells"])
def test_layers_of_steps(make, way):
    layer, x = make(), X[:3, :, None]
    before = layer(x).numpy()
    other = way(layer)
    layer.set_weights([value * 0 for value in layer.get_weights()])
    assert other(x).numpy() == pytest.approx(before, abs=1e-6) and other.count_params() == layer.count_params()


@pytest.mark.parametrize("make", [K.metrics.AUC, K.metrics.Mean, lambda: K.metrics.Precision(name="p")], ids=["auc", "mean", "p"])
def test_metrics_without_a_state(make):
    metric = make()
    other = copy.deepcopy(metric)
    assert other.get_config() == metric.get_config() and other is not metric


def test_a_layer_of_a_lookup():
    layer = K.layers.StringLookup(name="z")
    layer.adapt(np.array(["a", "b", "a"]))
    assert copy.deepcopy(layer)(np.array(["b", "a", "c"])).numpy().tolist() == [2, 1, 0]


def test_what_cannot_be_copied_alone():
    class Mine(K.layers.Layer):
        pass

    metric = K.metrics.Mean(name="m")
    metric.update_state(1.0)
    for one in (Mine(name="mine"), metric):
        with pytest.raises(NotImplementedError, match=f"{one.name} cannot be copied or pickled by itself"):
            copy.deepcopy(one)
    layer = dense(1, "z")
    layer(X)
    assert copy.copy(layer).kernel is layer.kernel
    with pytest.raises(NotImplementedError, match="build it, or call it first"):
        pickle.dumps(sequential())
