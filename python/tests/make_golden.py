# SPDX-License-Identifier: Apache-2.0
"""Writes the values that test_values.py expects; run by scripts/make-golden-python with TensorFlow 2.15."""
import json
import sys
import tempfile

import numpy as np
import programs
import tensorflow as tf

import cases
import operations

tf.get_logger().setLevel("ERROR")
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
v1, fc, out = tf.compat.v1, tf.feature_column, {}
random = np.random.RandomState(7)
x = random.randn(200, 3).astype(np.float32)
y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)
words = np.array([f"a{i % 7}" for i in range(200)])
target = (x[:, 0] * 2 - x[:, 2]).astype(np.float32)


def rows(labels, batch, repeat=False):
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x, "w": words}, labels))
    return (dataset.repeat() if repeat else dataset).batch(batch)


def numbers(metrics):
    return {name: float(value) for name, value in metrics.items()}


def trained(estimator, labels, steps):
    estimator.train(lambda: rows(labels, 20, True), steps=steps)
    return numbers(estimator.evaluate(lambda: rows(labels, 50)))


numeric, hashed = fc.numeric_column("x", 3), fc.categorical_column_with_hash_bucket("w", 10)
linear = tf.estimator.LinearClassifier([numeric, hashed], tempfile.mkdtemp())
out["linear_classifier"] = trained(linear, y, 30)
out["linear_classifier_w"] = linear.get_variable_value("linear/linear_model/w/weights").ravel().tolist()
out["linear_classifier_names"] = sorted(linear.get_variable_names())
first = next(linear.predict(lambda: rows(y, 50)))
out["linear_classifier_first"] = {key: value.tolist() if value.dtype != object else [s.decode() for s in value]
                                  for key, value in first.items()}
regressor = tf.estimator.LinearRegressor([numeric], tempfile.mkdtemp(), optimizer=tf.keras.optimizers.legacy.SGD(0.1))
out["linear_regressor"] = trained(regressor, target, 10)
out["linear_regressor_x"] = regressor.get_variable_value("linear/linear_model/x/weights").ravel().tolist()


def model_fn(optimizer):
    def build(features, labels, mode):
        logits = v1.layers.dense(features["x"], 1, kernel_initializer=v1.zeros_initializer())
        labels = tf.expand_dims(tf.cast(labels, tf.float32), -1)
        loss = v1.losses.sigmoid_cross_entropy(labels, logits)
        p = tf.sigmoid(logits)
        metrics = {"auc": v1.metrics.auc(labels, p), "rmse": v1.metrics.root_mean_squared_error(labels, p),
                   "precision": v1.metrics.precision(labels, tf.cast(logits > 0, tf.float32))}
        train_op = optimizer().minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    return build


OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.5), "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.05), "adagrad": lambda: v1.train.AdagradOptimizer(0.3),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.05), "ftrl": lambda: v1.train.FtrlOptimizer(0.3)}
out["optimizers"] = {name: trained(tf.estimator.Estimator(model_fn(make), tempfile.mkdtemp()), y, 20)
                     for name, make in OPTIMIZERS.items()}

a = np.array([[1.5, -2, 3], [0, 4, -1]], np.float32)
out["ops"] = {name: value.numpy().tolist() for name, value in {
    "softmax": tf.nn.softmax(a), "log_softmax": tf.nn.log_softmax(a), "elu": tf.nn.elu(a), "selu": tf.nn.selu(a),
    "softplus": tf.nn.softplus(a), "tanh": tf.tanh(a), "erf": tf.math.erf(a),
    "round": tf.round(np.array([0.5, 1.5, 2.5, -0.5], np.float32)),
    "floormod": tf.constant([-7, 7, -7]) % tf.constant([3, -3, -3]),
    "floordiv": tf.constant([-7, 7]) // tf.constant([2, -2]),
    "divide": tf.constant([1, 2]) / tf.constant([3, 3]),
    "top_k": tf.math.top_k(a, 2)[0], "top_k_indices": tf.math.top_k(a, 2)[1],
    "hash": tf.strings.to_hash_bucket_fast(["a", "Bern", ""], 1000),
    "slice": tf.constant(a)[..., ::-2], "matmul": tf.matmul(a, a, transpose_b=True),
    "reduce_max": tf.reduce_max(a, 1), "argmax": tf.argmax(a, 1), "transpose": tf.transpose(a),
    "one_hot": tf.one_hot([1, 0, 3], 3), "clip_by_norm": tf.clip_by_norm(a, 2.0),
    "pad": tf.pad(a, [[1, 0], [0, 1]]), "tile": tf.tile(a, [1, 2]), "where": tf.where(a > 0, a, -1.0)}.items()}
labels = np.array([[1], [0], [1]], np.float32)
p = np.array([[0.8], [0.3], [0.4]], np.float32)
out["losses"] = {name: float(value) for name, value in {
    "huber": v1.losses.huber_loss(labels, p), "log_loss": v1.losses.log_loss(labels, p),
    "mean_squared_error": v1.losses.mean_squared_error(labels, p),
    "absolute_difference": v1.losses.absolute_difference(labels, p),
    "binary_cross_entropy": tf.keras.losses.BinaryCrossentropy()(labels, p),
    "hinge": v1.losses.hinge_loss(labels, p),
    "sparse_softmax_cross_entropy": v1.losses.sparse_softmax_cross_entropy(np.array([2, 0]), a),
    "softmax_cross_entropy": v1.losses.softmax_cross_entropy(np.array([[0, 0, 1.0], [1, 0, 0]]), a,
                                                             label_smoothing=0.1)}.items()}
features = tf.train.Features(feature={
    "a": tf.train.Feature(float_list=tf.train.FloatList(value=[1.5])),
    "b": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x", b""])),
    "c": tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 5]))})
out["example"] = tf.train.Example(features=features).SerializeToString(deterministic=True).hex()
numbers_10 = tf.data.Dataset.range(10)
out["data"] = {
    "batch": [value.tolist() for value in numbers_10.batch(4).as_numpy_iterator()],
    "batch_drop": [value.tolist() for value in numbers_10.batch(4, drop_remainder=True).as_numpy_iterator()],
    "shard": [int(value) for value in numbers_10.shard(3, 1)],
    "concatenate": [int(value) for value in numbers_10.skip(7).concatenate(numbers_10.take(2))],
    "zip": [[int(a), int(b)] for a, b in tf.data.Dataset.zip((numbers_10.take(2), numbers_10.skip(3)))],
    "map": [int(value) for value in numbers_10.map(lambda n: n * n - 3).filter(lambda n: n % 2 == 0)],
    "take_all": len(list(numbers_10.take(-1))), "skip_all": len(list(numbers_10.skip(-1))),
    "csv": [str(value.numpy()) for value in tf.io.decode_csv('1.5,,"a ""b"",c"', [[0.0], [7], ["z"]])]}
out["v1"] = {program.__name__: programs.as_json(program(tf)) for program in programs.PROGRAMS}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    lines = [f"  {json.dumps(name)}: {json.dumps(cases.plain(function(tf)))}" for name, function in cases.CASES.items()]
    file.write(json.dumps(out, indent=1)[:-2] + ',\n "cases": {\n' + ",\n".join(lines) + "\n }\n}\n")
with open(sys.argv[2], "w", encoding="utf-8") as file:
    lines = [f" {json.dumps(name)}: {json.dumps(cases.plain(function(tf)))}" for name, function in operations.CASES.items()]
    file.write("{\n" + ",\n".join(lines) + "\n}\n")
