# SPDX-License-Identifier: Apache-2.0
"""Classes of a program that override methods of the library's classes. Values are those of TensorFlow 2.15."""
import numpy as np
import pytest

import estoc.tf as tf

K = tf.keras
X = np.ones((8, 4), np.float32)


class Scaled(K.layers.Dense):
    def build(self, shape):
        super().build(shape)
        self.scale = self.add_weight("scale", (), initializer="ones")

    def call(self, inputs):
        return super().call(inputs) * self.scale + 0.0 * tf.reduce_sum(self.kernel)


class Still(K.layers.BatchNormalization):
    def call(self, inputs, training=None):
        return super().call(inputs, training=False)


class Doubled(K.layers.LSTM):
    def call(self, inputs, mask=None, training=None, initial_state=None):
        return super().call(inputs, mask=mask) * 2.0


def test_call_of_a_layer():
    inputs = K.Input((4,))
    model = K.Model(inputs, Scaled(2, name="mine", kernel_initializer="ones")(inputs))
    model.compile(K.optimizers.SGD(0.1), "mse")
    model.fit(X, np.ones((8, 2)), verbose=0)
    assert [variable.name for variable in model.weights] == ["mine/kernel:0", "mine/bias:0", "mine/scale:0"]
    np.testing.assert_allclose(model.get_weights()[0], np.full((4, 2), 0.7), rtol=1e-6)
    np.testing.assert_allclose(model.get_weights()[2], -1.4, rtol=1e-6)
    for found in (model(X[:1]), model.predict(X[:1], verbose=0)):
        np.testing.assert_allclose(found, [[-3.5, -3.5]], rtol=1e-6)
    layer = Scaled(2)
    layer(X)
    assert layer.count_params() == 11


def test_call_of_a_layer_that_trains_otherwise():
    model = K.Sequential([Still(input_shape=(4,)), K.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], verbose=0)
    assert (model.layers[0].moving_mean.numpy() == 0).all()


def test_call_of_a_layer_with_a_mask():
    model = K.Sequential([K.layers.Masking(), Doubled(2, kernel_initializer="ones", recurrent_initializer="ones")])
    np.testing.assert_allclose(model.predict(np.array([[[1.0], [0.0]]]), verbose=0), [[0.73921275, 0.73921275]], rtol=1e-6)
