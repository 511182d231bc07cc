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


@pytest.mark.parametrize("program", (_CALLBACK, _EACH_OTHER, _GENERATOR), ids=("callback", "each_other", "generator"))
def test_no_deadlock(program):
    done = subprocess.run([sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
