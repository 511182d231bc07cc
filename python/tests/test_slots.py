# SPDX-License-Identifier: Apache-2.0
"""Slots and counters of an optimizer are the same in fit, steps of functions, steps outside of them and checkpoints. The
numbers are those of TensorFlow 2.15."""
import gc

import numpy as np
import pytest

import estoc.tf as tf

K = tf.keras.optimizers
X, Y = np.ones([4, 2], np.float32), np.zeros([4, 1], np.float32)


def made():
    return tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))])


def weight(model):
    return float(model.get_weights()[0][0, 0])


def step(model, optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(X) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


def compiled(optimizer, loss="mse"):
    model = made()
    model.compile(optimizer, loss)
    model.fit(X, Y, verbose=0)
    return model


@pytest.mark.parametrize("make, expected", [
    (lambda: K.SGD(0.1, momentum=0.9), [0.6, 0.08, -0.236, -0.1788]),
    (lambda: K.SGD(0.1), [0.6, 0.44, 0.376, 0.3504]),
    (lambda: K.Adam(0.1), [0.9, 0.80075, 0.70297, 0.60762]),
    (lambda: K.legacy.Adam(0.1), [0.9, 0.80075, 0.70297, 0.60762]),
    (lambda: K.RMSprop(0.1), [0.68377, 0.53051, 0.44315, 0.39252]),
    (lambda: K.Adagrad(0.5), [0.50156, 0.37958, 0.34612, 0.33687])])
@pytest.mark.parametrize("looks", [False, True], ids=["unread", "read"])
@pytest.mark.parametrize("kind", ["eager", "function"])
def test_fit_and_steps_share_slots(make, expected, looks, kind):
    optimizer = make()
    model = made()
    model.compile(optimizer, "mse")

    def apply():
        step(model, optimizer)

    own = apply if kind == "eager" else tf.function(apply)
    for i, each in enumerate((lambda: model.fit(X, Y, verbose=0), own, lambda: model.fit(X, Y, verbose=0), own)):
        each()
        if looks or i == 3:
            assert np.isclose(weight(model), expected[i], atol=1e-5)
    assert int(optimizer.iterations) == 4


def test_another_compile_keeps_the_slots_of_its_optimizer():
    optimizer = K.SGD(0.1, momentum=0.9)
    model = compiled(optimizer)
    model.compile(optimizer, "mae")
    model.fit(X, Y, verbose=0)
    assert np.isclose(weight(model), 0.14, atol=1e-6)


def test_another_optimizer_begins_anew():
    first, second = K.SGD(0.1, momentum=0.9), K.Adam(0.1)
    model = compiled(first)
    model.compile(second, "mse")
    model.fit(X, Y, verbose=0)
    model.fit(X, Y, verbose=0)
    assert np.isclose(weight(model), 0.40374, atol=2e-5)
    assert (int(first.iterations), int(second.iterations)) == (1, 2)


def test_two_optimizers_of_one_kind_have_slots_of_their_own():
    first, second = K.SGD(0.1, momentum=0.9), K.SGD(0.1, momentum=0.9)
    model = compiled(first)
    model.compile(second, "mse")
    model.fit(X, Y, verbose=0)
    model.fit(X, Y, verbose=0)
    model.compile(first, "mae")
    model.fit(X, Y, verbose=0)
    assert np.isclose(weight(model), -0.028, atol=1e-6)
    assert (int(first.iterations), int(second.iterations)) == (2, 2)


def test_an_optimizer_after_reset_uids_begins_anew():
    """Also with numbers of its own: the momentum of the first one is 0."""
    found = []
    for optimizer in ("RMSprop", "Adam"):
        values = {"RMSprop": ({}, {"momentum": 0.9}), "Adam": ({"beta_1": 0.1}, {"beta_1": 0.9})}[optimizer]
        for options in values:
            tf.keras.backend.reset_uids()
            w = tf.Variable(1.0)
            made = getattr(tf.keras.optimizers, optimizer)(0.1, **options)
            for gradient in (1.0, 0.5, 0.25):
                made.apply_gradients([(tf.constant(gradient), w)])
            found.append(float(w))
    np.testing.assert_allclose(found, [0.46086678, -0.21258014, 0.78875846, 0.72251457], rtol=0, atol=2e-6)


def test_a_step_takes_the_slots_of_a_former_compile():
    first, second = K.SGD(0.1, momentum=0.9), K.SGD(0.1, momentum=0.9)
    model = compiled(first)
    model.compile(second, "mse")
    step(model, second)
    model.fit(X, Y, verbose=0)
    step(model, first)
    assert np.isclose(weight(model), -0.0672, atol=1e-6)


def test_schedules_count_the_steps_of_their_optimizer():
    def make():
        return K.SGD(K.schedules.PiecewiseConstantDecay([1, 2], [0.1, 0.2, 0.3]))

    first, second = make(), make()
    model = compiled(first)
    model.fit(X, Y, verbose=0)
    model.compile(second, "mse")
    model.fit(X, Y, verbose=0)
    model.fit(X, Y, verbose=0)
    assert np.isclose(weight(model), 0.3504, atol=1e-6)
    assert (int(first.iterations), int(second.iterations)) == (2, 2)


@pytest.mark.parametrize("make, expected", [
    (lambda: K.Adam(0.1, amsgrad=True),
     {"iteration:0": 1, "Adam/m/v:0": [0.1, 0.1], "Adam/v/v:0": [0.001, 0.001], "Adam/m/w:0": [0.1],
      "Adam/v/w:0": [0.001], "Adam/vhat/v:0": [0.001, 0.001], "Adam/vhat/w:0": [0.001]}),
    (lambda: K.RMSprop(0.1, momentum=0.5, centered=True),
     {"iteration:0": 1, "RMSprop/velocity/v:0": [0.1, 0.1], "RMSprop/velocity/w:0": [0.1],
      "RMSprop/momentum/v:0": [0.33333] * 2, "RMSprop/momentum/w:0": [0.33333],
      "RMSprop/average_gradient/v:0": [0.1, 0.1], "RMSprop/average_gradient/w:0": [0.1]}),
    (lambda: K.SGD(0.1, momentum=0.9, use_ema=True),
     {"iteration:0": 1, "SGD/average/v:0": [0.999, 1.999], "SGD/average/w:0": [0.999], "SGD/m/v:0": [-0.1, -0.1],
      "SGD/m/w:0": [-0.1]}),
    (lambda: K.legacy.Adam(0.1),
     {"Adam/iter:0": 1, "Adam/v/m:0": [0.1, 0.1], "Adam/w/m:0": [0.1], "Adam/v/v:0": [0.001, 0.001],
      "Adam/w/v:0": [0.001]})])
def test_variables_of_an_optimizer(make, expected):
    optimizer = make()
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable([1.0], name="w")
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]), v), (tf.constant([1.0]), w)])
    found = optimizer.variables
    found = found() if callable(found) else found
    assert [variable.name for variable in found] == list(expected)
    for variable in found:
        assert np.allclose(variable.numpy(), expected[variable.name], atol=1e-5), variable.name


def test_variables_of_an_optimizer_after_fit():
    optimizer = K.Adam(0.1)
    compiled(optimizer)
    count, *slots = (variable.numpy() for variable in optimizer.variables)
    assert count == 1
    assert [np.round(slot.ravel(), 4).tolist() for slot in slots] == [
        [np.float32(value)] * n for value, n in ((0.4, 2), (0.016, 2), (0.4, 1), (0.016, 1))]


def test_a_checkpoint_has_the_slots_of_fit(tmp_path):
    optimizer = K.SGD(0.1, momentum=0.9)
    model = compiled(optimizer)
    path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(str(tmp_path / "c"))
    other, another = made(), K.SGD(0.1, momentum=0.9)
    other.compile(another, "mse")
    tf.train.Checkpoint(model=other, optimizer=another).restore(path)
    for one, o in ((model, optimizer), (other, another)):
        step(one, o)
        one.fit(X, Y, verbose=0)
        assert np.isclose(weight(one), -0.236, atol=1e-6)
        assert int(o.iterations) == 3


def test_variables_outlive_their_model():
    variables = compiled(K.SGD(0.1)).trainable_variables
    gc.collect()
    assert np.allclose(variables[0].numpy(), 0.6)


def test_a_fit_of_frozen_layers():
    """It computes losses, moves averages, and counts no step."""
    optimizer = K.SGD(0.1, momentum=0.9)
    model = compiled(optimizer)
    for trainable in (False, True):
        model.layers[0].trainable = trainable
        model.compile(optimizer, "mse")
        assert np.isclose(model.fit(X, Y, verbose=0).history["loss"][0], 0.64)
    assert np.isclose(weight(model), 0.08) and int(optimizer.iterations) == 2
    frozen = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,), trainable=False)])
    frozen.compile("sgd", "mse", metrics=["mae"])
    history = frozen.fit(X, Y, epochs=2, batch_size=2, validation_data=(X, Y), verbose=0).history
    assert history == {"loss": [4, 4], "mae": [2, 2], "val_loss": [4, 4], "val_mae": [2, 2]}
    assert frozen.train_on_batch(X, Y) == [4, 2] and int(frozen.optimizer.iterations) == 0
    norm = tf.keras.Sequential([tf.keras.layers.BatchNormalization(center=False, scale=False, input_shape=(2,))])
    norm.compile("sgd", "mse")
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    norm.fit(rows, np.zeros([6, 2]), epochs=2, batch_size=2, shuffle=False, verbose=0)
    assert np.allclose(norm.get_weights()[0], [0.29417, 0.35269], atol=1e-5)
