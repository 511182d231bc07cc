# SPDX-License-Identifier: Apache-2.0
"""Models that share layers and variables with others; numbers are what TensorFlow 2.15.1 gives."""
import numpy as np
import pytest

import estoc.tf as tf

K = tf.keras
X = np.random.RandomState(0).rand(64, 4).astype(np.float32)


def dense(units):
    return K.layers.Dense(units, kernel_initializer=K.initializers.Constant(0.1))


def encoder_and_autoencoder():
    given = K.Input((4,))
    code = dense(2)(given)
    encoder, autoencoder = K.Model(given, code), K.Model(given, dense(4)(code))
    autoencoder.compile(K.optimizers.SGD(0.1), "mse")
    return encoder, autoencoder


def predicts_by_its_weights(model):
    predictions = model.predict(X, verbose=0)  # before the weights are asked for
    kernel, bias = model.get_weights()
    np.testing.assert_allclose(predictions, X @ kernel + bias, atol=1e-5)


@pytest.mark.parametrize("train", [
    lambda model: model.fit(X, X, epochs=2, verbose=0),
    lambda model: model.train_on_batch(X, X),
], ids=["fit", "train_on_batch"])
def test_a_model_has_what_another_learned_of_its_layers(train):
    encoder, autoencoder = encoder_and_autoencoder()
    encoder.compile("sgd", "mse")
    encoder.predict(X, verbose=0)
    before = encoder.evaluate(X, X[:, :2], verbose=0)
    train(autoencoder)
    predicts_by_its_weights(encoder)
    train(autoencoder)
    assert encoder.evaluate(X, X[:, :2], verbose=0) < before


def test_a_callback_uses_another_model_of_the_layers_that_are_trained():
    encoder, autoencoder = encoder_and_autoencoder()

    class Predicts(K.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            predicts_by_its_weights(encoder)

    history = autoencoder.fit(X, X, epochs=3, verbose=0, shuffle=False, callbacks=[Predicts()]).history["loss"]
    alone = encoder_and_autoencoder()[1].fit(X, X, epochs=3, verbose=0, shuffle=False).history["loss"]
    assert history == alone


def test_models_that_share_layers_train_in_turn():
    encoder, autoencoder = encoder_and_autoencoder()
    encoder.compile(K.optimizers.SGD(0.1), "mse")
    found = []
    for _ in range(3):
        autoencoder.train_on_batch(X, X)
        encoder.train_on_batch(X, X[:, :2])
        found.append(encoder.get_weights()[0][0, 0])
    np.testing.assert_allclose(found, [0.12842, 0.15213, 0.17211], atol=1e-5)
    np.testing.assert_allclose(autoencoder.predict(X, verbose=0), autoencoder(X), atol=1e-6)
