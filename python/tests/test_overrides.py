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


def compiled(kind=K.Model, optimizer=None, loss="mse", **named):
    inputs = K.Input((4,))
    model = kind(inputs, K.layers.Dense(1, kernel_initializer="ones")(inputs))
    model.compile(optimizer or K.optimizers.SGD(0.01), loss, **named)
    return model


def fitted(model):
    history = model.fit(X, X[:, :1], verbose=0).history
    return {name: values[0] for name, values in history.items()}


class TenTimes(K.Model):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None):
        return super().compute_loss(x, y, y_pred, sample_weight) * 10.0


def test_compute_loss():
    model = compiled(TenTimes)
    fitted(model)
    np.testing.assert_allclose(model.get_weights()[0], np.full((4, 1), 0.4), rtol=1e-5)
    model = compiled(TenTimes, metrics=["mae"])
    assert model.train_on_batch(X, X[:, :1]) == [9.0, 3.0]
    np.testing.assert_allclose(model.get_weights()[0], np.full((4, 1), 0.4), rtol=1e-5)


class Half(K.Model):
    def predict_step(self, data):
        return self(data, training=False) * 0.0 + 0.5


def test_predict_step():
    model = compiled(Half)
    assert model.predict(X, batch_size=3, verbose=0).tolist() == [[0.5]] * 8
    assert model.predict_on_batch(X[:1]).tolist() == [[0.5]]


class More(K.Model):
    def compute_metrics(self, x, y, y_pred, sample_weight):
        return {**super().compute_metrics(x, y, y_pred, sample_weight), "more": tf.constant(7.0)}


def test_compute_metrics():
    assert fitted(compiled(More)) == {"loss": 9.0, "more": 7.0}
    assert compiled(More).evaluate(X, X[:, :1], verbose=0, return_dict=True) == {"loss": 9.0, "more": 7.0}


class Hundredfold(K.losses.MeanSquaredError):
    def call(self, y_true, y_pred):
        return super().call(y_true, y_pred) * 100.0


def test_call_of_a_loss():
    assert fitted(compiled(loss=Hundredfold())) == {"loss": 900.0}
    assert float(Hundredfold()(X, X + 1.0)) == 100.0
    assert K.losses.MeanSquaredError().call(X, X + 1.0).numpy().tolist() == [1.0] * 8


class Percent(K.metrics.MeanSquaredError):
    def result(self):
        return super().result() * 100.0


class Counter(K.metrics.Metric):
    def __init__(self):
        super().__init__(name="counter")
        self.sum = self.add_weight("sum", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.sum.assign_add(tf.reduce_sum(y_true))

    def result(self):
        return self.sum


def test_result_of_a_metric():
    model = compiled()
    model.predict(X, verbose=0)  # the network is there
    model.compile(K.optimizers.SGD(0.0), "mse", metrics=[Percent(name="percent"), "mae", Counter()])
    assert fitted(model) == {"loss": 9.0, "percent": 900.0, "mae": 3.0, "counter": 8.0}
    assert model.evaluate(X, X[:, :1], verbose=0) == [9.0, 900.0, 3.0, 8.0]
    assert model.test_on_batch(X, X[:, :1]) == [9.0, 900.0, 3.0, 8.0]
    assert model.metrics_names == ["loss", "percent", "mae", "counter"]
    assert model.predict(X[:1], verbose=0).tolist() == [[4.0]]


class Nothing(K.optimizers.SGD):
    def apply_gradients(self, grads_and_vars, **named):
        return super().apply_gradients([(gradient * 0.0, variable) for gradient, variable in grads_and_vars], **named)


def test_apply_gradients():
    model = compiled(optimizer=Nothing(0.1))
    fitted(model)
    assert model.get_weights()[0].ravel().tolist() == [1.0] * 4


class Unheard(K.Model):
    def make_train_function(self, force=False):
        return super().make_train_function(force)


class Unused(K.optimizers.SGD):
    def update_step(self, gradient, variable):
        variable.assign_sub(gradient)


def test_what_nothing_calls_is_refused():
    with pytest.raises(NotImplementedError, match="Unheard overrides make_train_function.*override train_step"):
        fitted(compiled(Unheard))
    with pytest.raises(NotImplementedError, match="Unused overrides update_step.*override apply_gradients"):
        Unused()


class Moving(K.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(name="mean", shape=(shape[-1],), trainable=False, initializer="zeros")
        self.calls = self.add_weight(name="calls", shape=(), trainable=False, initializer="zeros")

    def call(self, x, training=False):
        self.calls.assign_add(1.0)
        if training:
            self.mean.assign(0.5 * self.mean + 0.5 * tf.reduce_mean(x, 0))
        return x - self.mean


@pytest.mark.parametrize("is_functional", (False, True))
def test_assign_in_call(is_functional):
    layer = Moving()
    model = K.Sequential(([K.Input((4,))] if is_functional else []) + [layer, K.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, X[:, :1], batch_size=4, epochs=2, verbose=0)
    np.testing.assert_allclose(layer.mean.numpy(), np.full(4, 1 - 0.5**4), rtol=1e-6)
    assert float(layer.calls) == 4
    model.train_on_batch(X, X[:, :1])
    np.testing.assert_allclose(layer.mean.numpy(), np.full(4, 1 - 0.5**5), rtol=1e-6)
    model.predict(X, batch_size=2, verbose=0)
    assert float(layer.calls) == 9
    model.evaluate(X, X[:, :1], verbose=0)
    model.predict_on_batch(X)
    assert float(layer.calls) == 11


def count(variable):
    variable.assign_add(1.0)


class Hidden(K.layers.Layer):
    def build(self, shape):
        self.calls = self.add_weight(name="calls", shape=(), trainable=False, initializer="zeros")
        self.calls.assign(0.0)

    def call(self, x):
        count(self.calls)
        return x


def test_assign_that_no_class_names(tmp_path):
    layer = Hidden()
    model = K.Sequential([K.Input((4,)), layer, K.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.summary(print_fn=lambda *lines: None)
    for use in (lambda: model.fit(X, X[:, :1], verbose=0), lambda: model.predict(X, verbose=0)):
        with pytest.raises(NotImplementedError, match="assigns to it in each call"):
            use()
    with pytest.raises(NotImplementedError, match="assigns to variables in its call"):
        model.save(str(tmp_path / "saved"))
    model.save_weights(str(tmp_path / "weights"))
    assert float(layer.calls) == 0


@pytest.mark.parametrize("of_model", (False, True))
def test_a_layer_that_is_frozen_after_a_call(of_model):
    norm = K.layers.BatchNormalization(momentum=0.5)
    model = K.Sequential([K.layers.Dense(4, input_shape=(4,)), norm, K.layers.Dense(1)])
    model(X, training=True)
    (model if of_model else norm).trainable = False
    before = norm.moving_variance.numpy()
    np.testing.assert_array_equal(model(X, training=True), model(X))
    np.testing.assert_array_equal(norm.moving_variance, before)
    (model if of_model else norm).trainable = True
    model(X, training=True)
    assert not np.array_equal(norm.moving_variance, before)


class Stepping(K.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
        return {"loss": loss}


def test_minimize_of_a_frozen_model():
    model = compiled(Stepping)
    model.trainable = False
    assert fitted(model) == {"loss": 9.0}
    optimizer = K.optimizers.Adam()
    optimizer.apply_gradients([])
    assert int(optimizer.iterations) == 0
    with pytest.raises(ValueError, match="No gradients"):
        optimizer.apply_gradients([(None, model.weights[0])])
