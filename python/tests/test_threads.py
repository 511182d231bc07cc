# SPDX-License-Identifier: Apache-2.0
"""Models that several threads use: each case in a process of its own, which a deadlock would not let end."""
import subprocess
import sys

import pytest

_BEGIN = """
import threading
import numpy as np
import estoc.tf as tf
K = tf.keras
X, Y = np.ones((8, 2), np.float32), np.ones((8, 1), np.float32)
def made(**named):
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse", **named)
    return model
def apart(*functions):
    threads = [threading.Thread(target=function) for function in functions]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""

_CALLBACK = """
class Predicts(K.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None): apart(lambda: model.predict(X, verbose=0))
    on_test_end = on_predict_end = lambda self, logs=None: apart(lambda: model.predict(X, verbose=0))
class Own(K.metrics.Mean):
    def result(self): return super().result()
    def update_state(self, y, p, sample_weight=None): return super().update_state(p)
for metrics in [], [Own()]:
    model = made(metrics=metrics)
    model.fit(X, Y, verbose=0, callbacks=[Predicts()])
    model.evaluate(X, Y, verbose=0, callbacks=[Predicts()])
    model.predict(X, verbose=0, callbacks=[Predicts()])
"""

_EACH_OTHER = """
class Predicts(K.callbacks.Callback):
    def __init__(self, other):
        super().__init__()
        self.other = other
    def on_train_batch_end(self, batch, logs=None): self.other.predict(X, verbose=0)
a, b = made(), made()
apart(*(lambda one=one, other=other: one.fit(X, Y, epochs=10, batch_size=1, verbose=0, callbacks=[Predicts(other)])
        for one, other in ((a, b), (b, a))))
"""

_GENERATOR = """
model = made()
def rows(predicted):
    def generate():
        for i in range(4):
            yield predicted() * X, Y
    spec = tf.TensorSpec([8, 2]), tf.TensorSpec([8, 1])
    return tf.data.Dataset.from_generator(generate, output_signature=spec).prefetch(2)
model.fit(rows(lambda: model(X).numpy()), verbose=0)
try:
    model.fit(rows(lambda: model.predict(X, verbose=0)), verbose=0)
except RuntimeError as error:
    assert "in a thread of a dataset" in str(error), error
model.fit(X, Y, verbose=0)
"""

# What threads make at once, each for itself: numbers are those of one thread.
_AT_ONCE = """
import sys, tempfile
sys.setswitchinterval(1e-5)
failed = []
def fitted():
    model = K.Sequential([K.layers.Dense(1, kernel_initializer="zeros", input_shape=(2,))])
    model.compile(K.optimizers.SGD(0.25), "mse")
    assert model.fit(X, Y, epochs=2, batch_size=8, verbose=0).history["loss"] == [1.0, 0.25]
    assert K.models.clone_model(model).get_weights()[0].tolist() == [[0.0], [0.0]]
def functional():
    given = K.Input((2,))
    model = K.Model(given, K.layers.Dense(1, kernel_initializer="ones")(K.layers.concatenate([given[:, 1:], given])))
    assert model(X).numpy().tolist() == [[3.0]] * 8
def stepped():
    variable, optimizer = tf.Variable([1.0, 2.0]), K.optimizers.SGD(0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * variable)
    optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
    assert variable.numpy().tolist() == [0.0, 0.0]
def traced():
    variable = tf.Variable(1.0)
    @tf.function
    def add(x):
        variable.assign_add(x)
        return variable * 2.0
    with tf.GradientTape():  # which keeps what the function overwrites
        assert [float(add(tf.constant(2.0))) for _ in range(3)] == [6.0, 10.0, 14.0]
def saved():
    module = tf.Module()
    module.variable = tf.Variable(3.0)
    module.f = tf.function(lambda x: x * module.variable, input_signature=[tf.TensorSpec([None])])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder)
        assert tf.saved_model.load(folder).f(tf.constant([2.0])).numpy().tolist() == [6.0]
@tf.custom_gradient
def inner(x):
    return x * 1.0, lambda up: up
@tf.custom_gradient
def outer(x):
    return inner(x) * shared, lambda up, variables=None: (up * 5.0, [up * 7.0 for _ in variables])
shared = tf.Variable(3.0)
def customized():
    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            y = outer(x)
        return tape.gradient(y, shared)
    assert float(gradient(tf.constant(2.0))) == 7.0
KINDS = fitted, functional, stepped, traced, saved, customized, K.backend.clear_session
def work(first):
    try:
        for i in range(first, first + 8 * len(KINDS)):
            KINDS[i % len(KINDS)]()
    except BaseException:
        failed.append(1)
        raise
apart(*(lambda i=i: work(i) for i in range(6)))
assert not failed
"""


@pytest.mark.parametrize("program", (_CALLBACK, _EACH_OTHER, _GENERATOR, _AT_ONCE),
                         ids=("callback", "each_other", "generator", "at_once"))
def test_threads(program):
    done = subprocess.run([sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# Ctrl-C where the function begins that gives C the initial value, or the one that keeps its exceptions from C, leaves a
# world in which other variables can be made.
_INTERRUPTED = """
import sys, time
def interrupt(function):
    def trace(frame, event, arg):
        if frame.f_code.co_name == function and "estoc" in frame.f_code.co_filename:
            sys.settrace(None)
            raise KeyboardInterrupt
    sys.settrace(trace)
    try:
        tf.Variable([1.0, 2.0])
        raise AssertionError("a variable without a value")
    except KeyboardInterrupt:
        pass
    except tf.errors.OpError:  # C could not be told why: the interrupt comes once more
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                pass
            raise AssertionError("the interrupt is lost")
        except KeyboardInterrupt:
            pass
for function in "_initialize", "call":
    interrupt(function)
    assert tf.Variable(3.0).numpy() == 3.0
    assert made().fit(X, Y, verbose=0).history["loss"]
"""


def test_an_interrupted_variable_leaves_no_trace():
    done = subprocess.run([sys.executable, "-c", _BEGIN + _INTERRUPTED], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
