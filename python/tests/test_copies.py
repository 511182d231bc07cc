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
