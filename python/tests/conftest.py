# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the Python package; `make test-python` runs them."""
import ctypes
import gc
import os
import signal

import numpy as np
import pytest

os.environ.pop("TF_CONFIG", None)
# A shell starts what runs in its background with SIGINT ignored; tests and their processes need Python's handler.
signal.signal(signal.SIGINT, signal.default_int_handler)

import estoc  # noqa: E402


def pytest_sessionfinish(session, exitstatus):
    """Under scripts/asan-python: what nothing refers to any more, while the interpreter and its objects are still there."""
    if "ESTOC_FIND_LEAKS" in os.environ:
        gc.collect()
        ctypes.CDLL(None).__lsan_do_recoverable_leak_check()


@pytest.fixture
def rows():
    """200 rows of two classes, which a small model learns quickly."""
    random = np.random.RandomState(7)
    x = random.randn(200, 3).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] > 0).astype(np.int64)


@pytest.fixture
def dataset(rows):
    x, y = rows
    return estoc.Dataset.from_tensor_slices(({"x": x}, y))


@pytest.fixture
def model_fn():
    """Logistic regression as a model_fn."""

    def build(features, labels, mode, params):
        logits = estoc.layers.dense(features["x"], 1, kernel_initializer="zeros")
        predictions = {"p": estoc.ops.sigmoid(logits), "class": estoc.ops.cast(logits > 0, estoc.int64)}
        if mode == estoc.ModeKeys.PREDICT:
            return estoc.EstimatorSpec(mode, predictions)
        labels = estoc.ops.expand_dims(labels, -1)
        loss = estoc.losses.sigmoid_cross_entropy(labels, logits)
        metrics = {"accuracy": estoc.metrics.accuracy(labels, predictions["class"])}
        train_op = None
        if mode == estoc.ModeKeys.TRAIN:
            train_op = estoc.optimizers.SGD((params or {}).get("rate", 0.5)).minimize(loss)
        return estoc.EstimatorSpec(mode, predictions, loss, train_op, eval_metric_ops=metrics)

    return build
