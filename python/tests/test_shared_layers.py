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


# --- what a model uses and does not have ------------------------------------------------------------------------------

TOTAL = X.sum(1, keepdims=True)


def ones(units):
    return K.Sequential([K.layers.Dense(units, input_shape=(4,), kernel_initializer="ones")])


def zeros(units):
    return K.Sequential([K.layers.Dense(units, input_shape=(4,), kernel_initializer="zeros")])


def losses_of(model, labels, **named):
    return model.fit(X, labels, batch_size=64, epochs=3, verbose=0, **named).history["loss"]


def test_fit_does_not_train_variables_of_the_loss():
    factor = tf.Variable(3.0)
    model = zeros(1)
    model.compile(K.optimizers.SGD(0.05), lambda a, b: factor * tf.reduce_mean((a - b) ** 2))
    np.testing.assert_allclose(losses_of(model, TOTAL), [12.678911, 2.136246, 0.502202], rtol=1e-4)
    assert float(factor) == 3.0


def test_fit_does_not_train_another_network_of_the_loss():
    other, model = ones(4), zeros(4)
    model.compile(K.optimizers.SGD(0.01), lambda a, b: tf.reduce_mean((other(a) - other(b)) ** 2))
    np.testing.assert_allclose(losses_of(model, X), [4.226304, 2.989999, 2.121296], rtol=1e-4)
    np.testing.assert_array_equal(other.get_weights()[0], np.ones((4, 4), np.float32))


def test_fit_does_not_train_another_network_of_the_call():
    teacher = ones(4)

    class Student(K.Model):
        def __init__(self):
            super().__init__()
            self.own = K.layers.Dense(4, kernel_initializer="zeros")
            self.teach = lambda x: teacher(x)

        def call(self, x):
            self.add_loss(tf.reduce_mean((self.teach(x) - self.own(x)) ** 2))
            return self.own(x)

    student = Student()
    student.compile(K.optimizers.SGD(0.01), "mse")
    np.testing.assert_allclose(losses_of(student, X), [4.552784, 4.422688, 4.297798], rtol=1e-4)


def test_a_loss_has_the_values_of_the_network_that_it_calls():
    other = K.Sequential([K.layers.Dense(4, input_shape=(4,))])
    model = zeros(4)
    model.compile("sgd", lambda a, b: tf.reduce_mean(tf.abs(other(a) - b)))
    assert model.evaluate(X, X, verbose=0) == pytest.approx(np.abs(other(X)).mean(), rel=1e-5)
    other.set_weights([np.ones((4, 4)), np.ones(4)])
    assert model.evaluate(X, X, verbose=0) == pytest.approx(np.abs(other(X)).mean(), rel=1e-5)


def test_a_normalization_that_is_not_the_models_is_not_trained():
    other, model = K.layers.BatchNormalization(), zeros(4)
    model.compile("sgd", lambda a, b: tf.reduce_mean((other(a, training=True) - b) ** 2))
    with pytest.raises(NotImplementedError, match="call it with training=False"):
        model.fit(X, X, verbose=0)


def test_a_callback_anneals_a_variable_of_the_loss():
    factor = tf.Variable(0.0, trainable=False)

    class Anneals(K.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            factor.assign(epoch + 1.0)

    model = zeros(1)
    model.compile(K.optimizers.SGD(0.0), lambda a, b: factor * tf.reduce_mean((a - b) ** 2))
    once = float((TOTAL ** 2).mean())
    np.testing.assert_allclose(losses_of(model, TOTAL, callbacks=[Anneals()]), [once, 2 * once, 3 * once], rtol=1e-5)


# --- trainable --------------------------------------------------------------------------------------------------------


class Own(K.layers.Layer):
    def build(self, input_shape):
        self.w = self.add_weight(name="w", shape=(4, 4), initializer="ones")

    def call(self, x):
        return x @ self.w


def moved_by_fit(model):
    before = [[weight.copy() for weight in layer.get_weights()] for layer in model.layers]
    model.fit(X, TOTAL, verbose=0)
    return [any((a != b).any() for a, b in zip(weights, layer.get_weights()))
            for weights, layer in zip(before, model.layers)]


@pytest.mark.parametrize("kind", [lambda: K.layers.Dense(4), Own, K.layers.BatchNormalization],
                         ids=["Dense", "of the program", "BatchNormalization"])
def test_compile_reads_trainable(kind):
    def made():
        return K.Sequential([K.Input((4,)), kind(), K.layers.Dense(1)])

    model = made()
    for was in (False, True, False):
        model.layers[0].trainable = was
        model.compile("sgd", "mse")
        assert moved_by_fit(model) == [was, True]
        model.layers[0].trainable = not was
        assert moved_by_fit(model) == [was, True]
    for was in (False, True):  # before the first fit
        model = made()
        model.layers[0].trainable = was
        model.compile("sgd", "mse")
        model.layers[0].trainable = not was
        assert moved_by_fit(model) == [was, True]
        model = made()
        model.trainable = was
        model.compile("sgd", "mse")
        model.trainable = not was
        assert moved_by_fit(model) == [was, was]


def test_adversaries():
    critic = K.Sequential([K.layers.Dense(3, activation="tanh", input_shape=(4,)), K.layers.Dense(1)])
    critic.compile("sgd", "mse")
    critic.trainable = False
    maker, given = K.Sequential([K.layers.Dense(4, input_shape=(2,))]), K.Input((2,))
    both = K.Model(given, critic(maker(given)))
    both.compile("sgd", "mse")
    for _ in range(2):
        before = critic.get_weights()[0].copy(), maker.get_weights()[0].copy()
        critic.train_on_batch(X, TOTAL)
        after = critic.get_weights()[0].copy()
        assert (after != before[0]).any() and (maker.get_weights()[0] == before[1]).all()
        both.train_on_batch(X[:, :2], TOTAL)
        assert (critic.get_weights()[0] == after).all() and (maker.get_weights()[0] != before[1]).any()


def test_layers_from_before_clear_session():
    first = K.layers.Dense(3, input_shape=(4,))
    K.backend.clear_session()
    model = K.Sequential([first])
    assert len(model.get_weights()) == 2 and model.predict(X, verbose=0).shape == (64, 3)
    base = K.Sequential([dense(2)])
    base.build((None, 4))
    unbuilt = dense(2)
    K.backend.clear_session()
    for layers in ([base, K.layers.Dense(1, name="last")], [K.layers.Dense(4, name="first"), unbuilt]):
        model = K.Sequential(layers)
        model.compile("sgd", "mse")
        model.fit(X, np.ones((64, layers[-1].units), np.float32), verbose=0)
        assert len(model.get_weights()) == len(model.trainable_weights) == 4
    assert (base.get_weights()[0] != np.float32(0.1)).all()
