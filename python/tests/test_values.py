# SPDX-License-Identifier: Apache-2.0
"""Values compared with those of TensorFlow 2.15 (golden.json, written by scripts/make-golden-python)."""
import json
import os

import numpy as np
import pytest

import estoc
from estoc import feature_column as fc
from estoc import ops

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.json"), encoding="utf-8") as _file:
    GOLDEN = json.load(_file)


def close(got, want, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=tolerance, atol=tolerance)


@pytest.fixture
def inputs(rows):
    x, y = rows
    words = np.array([f"a{i % 7}" for i in range(200)])

    def make(labels=y, batch=50, repeat=False):
        dataset = estoc.Dataset.from_tensor_slices(({"x": x, "w": words}, labels))
        return (dataset.repeat() if repeat else dataset).batch(batch)

    return make


def trained(estimator, make, labels, steps):
    estimator.train(lambda: make(labels, 20, True), steps=steps)
    return estimator.evaluate(lambda: make(labels))


def same(metrics, want):
    assert metrics.keys() == want.keys()
    for name in want:
        close(metrics[name], want[name])


def test_linear_classifier(inputs, rows, tmp_path):
    linear = estoc.LinearClassifier([fc.numeric_column("x", 3), fc.categorical_column_with_hash_bucket("w", 10)], tmp_path)
    same(trained(linear, inputs, rows[1], 30), GOLDEN["linear_classifier"])
    close(linear.get_variable_value("linear/linear_model/w/weights").ravel(), GOLDEN["linear_classifier_w"])
    names = [name for name in linear.get_variable_names() if not name.startswith("estoc/")]
    assert sorted(names) == GOLDEN["linear_classifier_names"]
    first = next(linear.predict(inputs))
    assert first.keys() == GOLDEN["linear_classifier_first"].keys()
    for key, want in GOLDEN["linear_classifier_first"].items():
        if isinstance(want[0], str):
            assert [value.decode() for value in first[key]] == want
        else:
            close(first[key], want)


def test_linear_regressor(inputs, rows, tmp_path):
    x = rows[0]
    labels = (x[:, 0] * 2 - x[:, 2]).astype(np.float32)
    linear = estoc.LinearRegressor([fc.numeric_column("x", 3)], tmp_path,
                                   optimizer=estoc.optimizers.SGD(0.1, keras=True))
    same(trained(linear, inputs, labels, 10), GOLDEN["linear_regressor"])
    close(linear.get_variable_value("linear/linear_model/x/weights").ravel(), GOLDEN["linear_regressor_x"])


OPTIMIZERS = {
    "sgd": lambda: estoc.optimizers.SGD(0.5), "momentum": lambda: estoc.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: estoc.optimizers.Adam(0.05), "adagrad": lambda: estoc.optimizers.Adagrad(0.3),
    "rmsprop": lambda: estoc.optimizers.RMSProp(0.05), "ftrl": lambda: estoc.optimizers.Ftrl(0.3)}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_and_metrics(name, inputs, rows, tmp_path):
    def model_fn(features, labels, mode):
        logits = estoc.layers.dense(features["x"], 1, kernel_initializer=estoc.initializers.zeros())
        labels = ops.expand_dims(ops.cast(labels, estoc.float32), -1)
        loss = estoc.losses.sigmoid_cross_entropy(labels, logits)
        p = ops.sigmoid(logits)
        metrics = {"auc": estoc.metrics.auc(labels, p, summation_method="trapezoidal"),
                   "rmse": estoc.metrics.root_mean_squared_error(labels, p),
                   "precision": estoc.metrics.precision(labels, ops.cast(logits > 0, estoc.float32))}
        train_op = OPTIMIZERS[name]().minimize(loss) if mode == estoc.ModeKeys.TRAIN else None
        return estoc.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    same(trained(estoc.Estimator(model_fn, tmp_path), inputs, rows[1], 20), GOLDEN["optimizers"][name])


A = np.array([[1.5, -2, 3], [0, 4, -1]], np.float32)
OPS = {
    "softmax": lambda: ops.softmax(A), "log_softmax": lambda: ops.log_softmax(A), "elu": lambda: ops.elu(A),
    "selu": lambda: ops.selu(A), "softplus": lambda: ops.softplus(A), "tanh": lambda: ops.tanh(A),
    "erf": lambda: ops.erf(A), "round": lambda: ops.round(np.array([0.5, 1.5, 2.5, -0.5], np.float32)),
    "floormod": lambda: ops.floormod([-7, 7, -7], [3, -3, -3]), "floordiv": lambda: ops.floordiv([-7, 7], [2, -2]),
    "divide": lambda: ops.divide([1, 2], [3, 3]), "top_k": lambda: ops.top_k(A, 2)[0],
    "top_k_indices": lambda: ops.top_k(A, 2)[1], "hash": lambda: ops.string_to_hash_bucket(["a", "Bern", ""], 1000),
    "slice": lambda: at_once(lambda x: x[..., ::-2]), "matmul": lambda: ops.matmul(A, A, transpose_b=True),
    "reduce_max": lambda: ops.reduce_max(A, 1), "argmax": lambda: ops.argmax(A, 1), "transpose": lambda: ops.transpose(A),
    "one_hot": lambda: ops.one_hot([1, 0, 3], 3), "clip_by_norm": lambda: ops.clip_by_norm(A, 2.0),
    "pad": lambda: ops.pad(A, [[1, 0], [0, 1]]), "tile": lambda: ops.tile(A, [1, 2]),
    "where": lambda: at_once(lambda x: ops.where(x > 0, x, -1.0))}


def at_once(function):
    graph = estoc.Graph()
    x = graph.placeholder("x", estoc.float32, A.shape)
    with estoc.Session(graph) as session:
        return session.run(function(x), {x: A})


def test_every_op_has_a_case():
    assert OPS.keys() == GOLDEN["ops"].keys()


@pytest.mark.parametrize("name", OPS)
def test_ops(name):
    close(OPS[name](), GOLDEN["ops"][name], 1e-6)


@pytest.mark.parametrize("name", GOLDEN["losses"])
def test_losses(name):
    labels, p = np.array([[1], [0], [1]], np.float32), np.array([[0.8], [0.3], [0.4]], np.float32)
    arguments = {}
    if name == "sparse_softmax_cross_entropy":
        labels, p = np.array([2, 0]), A
    elif name == "softmax_cross_entropy":
        labels, p, arguments = np.array([[0, 0, 1], [1, 0, 0]], np.float32), A, {"label_smoothing": 0.1}
    graph = estoc.Graph()
    loss = getattr(estoc.losses, name)(graph.constant(labels), graph.constant(p), **arguments)
    with estoc.Session(graph) as session:
        close(session.run(loss), GOLDEN["losses"][name], 1e-6)


def test_serialized_example():
    made = estoc.io.serialize_example({"a": 1.5, "b": [b"x", b""], "c": [-1, 5]})
    assert made.hex() == GOLDEN["example"]


def test_datasets():
    ten, want = estoc.Dataset.range(10), GOLDEN["data"]
    assert [value.tolist() for value in ten.batch(4)] == want["batch"]
    assert [value.tolist() for value in ten.batch(4, drop_remainder=True)] == want["batch_drop"]
    assert list(ten.shard(3, 1)) == want["shard"]
    assert list(ten.skip(7).concatenate(ten.take(2))) == want["concatenate"]
    assert [[int(a), int(b)] for a, b in estoc.Dataset.zip((ten.take(2), ten.skip(3)))] == want["zip"]
    assert list(ten.map(lambda n: n * n - 3).filter(lambda n: n % 2 == 0)) == want["map"]
    assert list(ten.map_graph(lambda n: n * n - 3).filter_graph(lambda n: n % 2 == 0)) == want["map"]
    assert len(list(ten.take(-1))) == want["take_all"] and len(list(ten.skip(-1))) == want["skip_all"]
