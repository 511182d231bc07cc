# SPDX-License-Identifier: Apache-2.0
"""estoc.tf: programs as they are written for TensorFlow, and what does not exist yet."""
import importlib
import json
import logging
import os
import pkgutil
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import estoc
import estoc.tf as tf
from estoc.tf.estimator import DNNClassifier, ModeKeys
from estoc.tf.feature_column import embedding_column, numeric_column

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# --- what there is and what not ---------------------------------------------------------------------------------------


def public():
    """Every dotted name of estoc.tf."""
    found = {}
    for info in pkgutil.walk_packages(tf.__path__, "estoc.tf."):
        importlib.import_module(info.name)
    for name, module in sorted(sys.modules.items()):
        if (name == "estoc.tf" or name.startswith("estoc.tf.")) and "._" not in name:
            keys = getattr(module, "__all__", None) or [key for key in vars(module) if not key.startswith("_")]
            for key in keys:
                found["tf" + name[len("estoc.tf"):] + "." + key] = getattr(module, key)
    return found


def test_the_guide_lists_what_exists():
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        guide = file.read()
    names = {name.rsplit(".", 1)[1] for name, value in public().items()
             if not isinstance(value, type(os)) and name.rsplit(".", 1)[1] != "annotations"}
    missing = sorted(name for name in names if not re.search(rf"\b{re.escape(name)}\b", guide))
    assert not missing, missing


@pytest.mark.parametrize("name, hint", [
    ("tf.keras.layers.ConvLSTM2D", "Conv2D"),
    ("tf.keras.mixed_precision.LossScaleOptimizer", "mixed_bfloat16"), ("tf.keras.Sequentiall", "tf.keras.Sequential"),
    ("tf.keras.optimizers.Adafactor", "tf.keras.optimizers.Adam"), ("tf.reduce_maxx", "tf.reduce_max"),
    ("tf.estimator.DNNClasifier", "tf.estimator.DNNClassifier"), ("tf.estimator.SessionRunHooks", "SessionRunHook"),
    ("tf.data.Datasets", "tf.data.Dataset"),
    ("tf.compat.v1.layers.densee", "dense"), ("tf.io.gfile.exist", "tf.io.gfile.exists"), ("tf.train.Servers", "tf.train.Server"),
])
def test_what_does_not_exist_says_so(name, hint):
    value = tf
    with pytest.raises(AttributeError) as caught:
        for part in name.split(".")[1:]:
            value = getattr(value, part)
    assert "does not exist yet" in str(caught.value) and hint in str(caught.value)


def test_methods_that_do_not_exist_say_so(tmp_path):
    with pytest.raises(AttributeError, match="does not exist yet"):
        tf.data.Dataset.range(3).counted
    with pytest.raises(AttributeError, match="does not exist yet.*experimental_distribute_dataset"):
        tf.distribute.MirroredStrategy().distribute_dataset
    with pytest.raises(AttributeError, match="does not exist yet"):
        tf.keras.Sequential().to_yaml
    with pytest.raises(AttributeError, match="does not exist yet"):
        tf.constant(1).experimental_ref
    with pytest.raises(AttributeError, match="does not exist yet"):
        tf.estimator.BaselineClassifier(tmp_path).experimental_export_all_saved_models
    with pytest.raises(ImportError):
        from estoc.tf.estimator import DNNClasifier  # noqa: F401


@pytest.mark.parametrize("call", [
    lambda: tf.estimator.RunConfig(device_fn=object()),
    lambda: tf.compat.v1.layers.dense([[1.0]], 1, kernel_constraint=abs),
    lambda: tf.data.Dataset.range(3).ragged_batch(2, row_splits_dtype=tf.int32),
    lambda: tf.io.decode_csv("1,2", [[0], [0]], select_cols=[0]),
])
def test_arguments_that_do_not_exist_are_refused(call):
    with pytest.raises(NotImplementedError):
        call()


# --- tensors ----------------------------------------------------------------------------------------------------------


def test_tensors():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert x.dtype == tf.float32 and x.shape == (2, 2) and isinstance(x, tf.Tensor) and x.shape.as_list() == [2, 2]
    assert (x * 2 + 1).numpy().tolist() == [[3, 5], [7, 9]] and (1 - x)[1, 0].numpy() == -2
    assert tf.reduce_mean(input_tensor=x, axis=0).numpy().tolist() == [2, 3] and float(tf.reduce_sum(x)) == 10
    assert tf.cast(x > 2, tf.int64).numpy().tolist() == [[0, 0], [1, 1]]
    assert (tf.constant([1, 2]) / tf.constant(2)).dtype == tf.float64  # as in TensorFlow
    assert tf.constant(["a", "b"]).numpy().tolist() == [b"a", b"b"] and tf.constant(7, tf.int64).dtype == tf.int64
    assert [int(v) for v in tf.constant([1, 2, 3])] == [1, 2, 3] and len(tf.constant([1, 2])) == 2
    assert tf.concat([tf.zeros([1]), tf.ones([1])], 0).numpy().tolist() == [0, 1]
    assert tf.constant(0.5, shape=[2]).numpy().tolist() == [0.5, 0.5]
    assert tf.math.top_k(tf.constant([1.0, 3.0, 2.0]), 2)[1].numpy().tolist() == [1, 2]
    assert tf.strings.to_hash_bucket_fast(["a", "Bern", ""], 1000).numpy().tolist() == [939, 591, 263]
    assert repr(tf.constant(1.5)).startswith("<tf.Tensor: shape=(), dtype=float32, numpy=")
    value = x.numpy()
    value[0, 0] = 9
    assert x.numpy()[0, 0] == 1  # a copy
    with pytest.raises(TypeError):
        tf.constant([1, 2]) * 1.5
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.constant([1, 2]) + tf.constant([1, 2, 3])
    with pytest.raises(TypeError):
        hash(x)
    assert not (x == None) and x != None  # noqa: E711
    assert (x == 2).numpy().tolist() == [[False, True], [False, False]]


# --- data -------------------------------------------------------------------------------------------------------------


def test_map_is_traced_once():
    calls = []

    def square(x):
        calls.append(type(x).__name__)
        return x * x

    dataset = tf.data.Dataset.from_tensor_slices(np.array([1.0, 2.0, 3.0])).map(square, num_parallel_calls=tf.data.AUTOTUNE)
    assert [float(x.numpy()) for x in dataset] == [1, 4, 9] and calls == ["Node"]
    assert dataset.element_spec == tf.TensorSpec([], tf.float64)
    assert list(dataset.as_numpy_iterator()) == [1, 4, 9]
    assert isinstance(next(dataset.as_numpy_iterator()), np.float64)


def test_dataset_methods():
    ten = tf.data.Dataset.range(10)
    assert [t.numpy().tolist() for t in ten.batch(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [int(x) for x in ten.filter(lambda n: n % 3 == 0)] == [0, 3, 6, 9]
    assert [(int(a), int(b)) for a, b in tf.data.Dataset.zip((ten.take(2), ten.skip(8)))] == [(0, 8), (1, 9)]
    assert [(int(i), int(v)) for i, v in ten.take(2).enumerate(3)] == [(3, 0), (4, 1)]
    assert sorted(int(x) for x in ten.shuffle(10, seed=1).repeat(1).prefetch(tf.data.AUTOTUNE).cache()) == list(range(10))
    assert tf.data.Dataset.range(3, output_type=tf.float32).element_spec.dtype == tf.float32
    assert [int(x) for x in ten.apply(lambda d: d.shard(5, 1))] == [1, 6]
    iterator = iter(ten.take(1))
    assert iterator.get_next().numpy() == 0
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()
    generated = tf.data.Dataset.from_generator(lambda n: ((i, [i, i]) for i in range(n)), (tf.int64, tf.float32),
                                               ([], [2]), args=(3,))
    assert [(int(a), b.numpy().tolist()) for a, b in generated] == [(0, [0, 0]), (1, [1, 1]), (2, [2, 2])]
    array = np.zeros(4, np.float32)
    copied = tf.data.Dataset.from_tensor_slices(array)
    array[:] = 1
    assert [float(x) for x in copied] == [0, 0, 0, 0]  # TensorFlow copies


def test_csv_lines_and_records(tmp_path):
    with open(os.path.join(ROOT, "python", "tests", "golden.json"), encoding="utf-8") as file:
        golden = json.load(file)["data"]["csv"]
    path = tmp_path / "x.csv"
    path.write_text('1.5,,"a ""b"",c"\n2,3,d\n')
    defaults = [[0.0], [7], ["z"]]
    dataset = tf.data.TextLineDataset(str(path)).map(lambda line: dict(zip("abc", tf.io.decode_csv(line, defaults))))
    first, second = list(dataset)
    assert [str(first[key].numpy()) for key in "abc"] == golden
    assert first["b"].dtype == tf.int32 and second["b"].numpy() == 3
    required = tf.data.TextLineDataset([str(path)]).map(lambda line: tf.io.decode_csv(line, [tf.float32, tf.int32, tf.string])[1])
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(required)
    example = tf.train.Example(features=tf.train.Features(feature={
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[1, 2])),
        "n": tf.train.Feature(int64_list=tf.train.Int64List(value=[5])),
        "s": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"q"]))}))
    with tf.io.TFRecordWriter(str(tmp_path / "x.tfrecord"), tf.io.TFRecordOptions("GZIP")) as writer:
        writer.write(example.SerializeToString())
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64),
            "m": tf.io.FixedLenFeature([], tf.int64, 4)}
    records = tf.data.TFRecordDataset(str(tmp_path / "x.tfrecord"))
    parsed = next(iter(records.map(lambda record: tf.io.parse_single_example(record, spec))))
    assert parsed["x"].numpy().tolist() == [1, 2] and parsed["n"].numpy() == 5 and parsed["m"].numpy() == 4
    batch = next(iter(records.batch(1).map(lambda rows: tf.io.parse_example(rows, spec))))
    assert batch["x"].shape == (1, 2)
    assert tf.io.parse_single_example(example.SerializeToString(), spec)["n"].numpy() == 5
    assert tf.io.parse_example([example.SerializeToString()], {"s": tf.io.VarLenFeature(tf.string)})["s"].rows()[0][0] == b"q"


# --- estimators -------------------------------------------------------------------------------------------------------


@pytest.fixture
def people():
    random = np.random.RandomState(3)
    age = random.randint(10, 70, 60).astype(np.float32)
    return {"age": age, "color": np.array(["red", "green", "blue"] * 20)}, (age > 40).astype(np.int64)


def columns():
    fc = tf.feature_column
    color = fc.categorical_column_with_vocabulary_list("color", ["red", "green", "blue"])
    return [numeric_column("age"), embedding_column(color, 2)], [fc.bucketized_column(numeric_column("age"), [20, 40]), color]


def test_train_and_evaluate_with_an_exporter(people, tmp_path):
    deep, wide = columns()

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(people).shuffle(60).repeat().batch(20)

    def serving_input_fn():
        placeholders = {"age": tf.compat.v1.placeholder(tf.float32, [None]),
                        "color": tf.compat.v1.placeholder(tf.string, [None])}
        return tf.estimator.export.ServingInputReceiver(
            {key: tf.expand_dims(node, -1) for key, node in placeholders.items()}, placeholders)

    def rmse(labels, predictions):
        return {"rmse": tf.compat.v1.metrics.root_mean_squared_error(tf.reshape(labels, [-1, 1]), predictions["logistic"])}

    model = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=str(tmp_path), linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[8],
        dnn_activation_fn=tf.nn.tanh, dnn_optimizer=tf.keras.optimizers.legacy.Adam(0.01),
        config=tf.estimator.RunConfig(save_checkpoints_steps=10, keep_checkpoint_max=2))
    model = tf.estimator.add_metrics(model, rmse)
    exporter = tf.estimator.LatestExporter("exporter", serving_input_fn, exports_to_keep=None)
    result, exports = tf.estimator.train_and_evaluate(
        model, tf.estimator.TrainSpec(input_fn, max_steps=20),
        tf.estimator.EvalSpec(lambda: tf.data.Dataset.from_tensor_slices(people).batch(30), steps=None, exporters=exporter))
    assert result["global_step"] == 20 and 0 < result["rmse"] < 1
    assert os.path.exists(os.path.join(exports[0].decode(), "saved_model.pb"))
    spec = tf.feature_column.make_parse_example_spec(deep)
    path = model.export_saved_model(str(tmp_path / "more"), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec))
    assert isinstance(path, bytes) and os.path.isdir(path)
    assert len(list(model.predict(lambda: tf.data.Dataset.from_tensor_slices(people[0]).batch(7)))) == 60


def test_receivers_that_compute(people, tmp_path):
    """Requests in other units, of other shapes, and as serialized Examples, give what the model gives."""
    v1, fc = tf.compat.v1, tf.feature_column
    receiver = tf.estimator.export.ServingInputReceiver
    words = fc.categorical_column_with_vocabulary_list("words", ["red", "blue"])
    columns = [fc.numeric_column("age"), fc.indicator_column(words)]
    rows = {"age": np.float32([[20], [50], [30]]), "words": np.array([["red"], ["blue"], ["green"]])}
    model = tf.estimator.DNNClassifier([4], columns, str(tmp_path / "model"))
    model.train(lambda: tf.data.Dataset.from_tensors((rows, np.int64([0, 1, 1]))).repeat(), steps=5)
    want = [row["probabilities"].tolist() for row in model.predict(lambda: tf.data.Dataset.from_tensors(rows))]

    def computed():
        months, word = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.string, [None])
        return receiver({"age": tf.expand_dims(months / 12.0, -1), "words": tf.expand_dims(word, -1)},
                        {"months": months, "word": word})

    def parsed():
        examples = v1.placeholder(tf.string, [None], name="input_example_tensor")
        spec = {"age": tf.io.FixedLenFeature([1], tf.float32), "words": tf.io.VarLenFeature(tf.string)}
        return receiver(tf.io.parse_example(examples, spec), {"examples": examples})

    path = model.export_saved_model(str(tmp_path / "computed"), computed)
    predict = tf.saved_model.load(path.decode()).signatures["predict"]
    got = predict(months=tf.constant(rows["age"][:, 0] * 12), word=tf.constant(rows["words"][:, 0]))
    np.testing.assert_allclose(got["probabilities"].numpy(), want, rtol=1e-6)
    path = model.export_saved_model(str(tmp_path / "parsed"), parsed)
    records = [tf.train.Example(features=tf.train.Features(feature={
        "age": tf.train.Feature(float_list=tf.train.FloatList(value=age)),
        "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word[0].encode()]))})).SerializeToString()
        for age, word in zip(rows["age"], rows["words"])]
    loaded = tf.saved_model.load(path.decode()).signatures
    np.testing.assert_allclose(loaded["predict"](examples=tf.constant(records))["probabilities"].numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(loaded["serving_default"](tf.constant(records))["scores"].numpy(), want, rtol=1e-6)
    with pytest.raises(ValueError, match="is no placeholder"):
        tf.estimator.FinalExporter("x", lambda: receiver({"age": tf.zeros([1])}, {"age": v1.placeholder(tf.float32) * 2}))


def test_a_model_whose_features_are_one_tensor(tmp_path):
    """In an export, too."""
    def model_fn(features, labels, mode):
        logits = tf.compat.v1.layers.dense(features, 1)
        predictions = {"y": logits}
        if mode == ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions)
        loss = tf.compat.v1.losses.mean_squared_error(labels, logits)
        step = tf.compat.v1.train.get_global_step()
        train_op = tf.compat.v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

    def receiver():
        words = tf.compat.v1.placeholder(tf.float32, [None, 2])
        return tf.estimator.export.TensorServingInputReceiver(words + 1.0, words)

    x = np.float32([[1, 2], [3, 4]])
    model = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
    model.train(lambda: tf.data.Dataset.from_tensors((x, np.float32([[1], [2]]))).repeat(), steps=3)
    want = [row["y"] for row in model.predict(lambda: tf.data.Dataset.from_tensors(x))]
    path = model.export_saved_model(str(tmp_path / "export"), receiver)
    got = tf.saved_model.load(path.decode()).signatures["serving_default"](input=tf.constant(x - 1))
    np.testing.assert_allclose(got["y"].numpy(), want, rtol=1e-6)


def test_a_model_fn_of_tensorflow_1(people, tmp_path):
    v1 = tf.compat.v1
    deep, _ = columns()

    def model_fn(features, labels, mode, params):
        net = v1.feature_column.input_layer(features, deep)
        for units in params["hidden"]:
            net = v1.layers.dense(net, units, activation=tf.nn.relu)
        logits = v1.layers.dense(net, 2, activation=None)
        classes = tf.argmax(logits, 1)
        predictions = {"class": classes, "p": tf.nn.softmax(logits)}
        if mode == ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)
        loss = v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        metrics = {"accuracy": v1.metrics.accuracy(labels=labels, predictions=classes)}
        if mode == ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
        train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = tf.estimator.Estimator(model_fn, str(tmp_path), params={"hidden": [10]})
    model.train(lambda: tf.data.Dataset.from_tensor_slices(people).repeat().batch(20), steps=30,
                hooks=[tf.estimator.StopAtStepHook(last_step=25)])
    result = model.evaluate(lambda: tf.data.Dataset.from_tensor_slices(people).batch(20))
    assert result["global_step"] == 25 and result["accuracy"] > 0.5
    assert tf.train.load_variable(str(tmp_path), "global_step") == 25
    assert model.config.tf_random_seed == 1


def test_minimize_without_the_global_step_does_not_count(people, tmp_path):
    def model_fn(features, labels, mode):
        loss = tf.compat.v1.losses.mean_squared_error(labels, tf.compat.v1.layers.dense(features, 1))
        step = tf.compat.v1.train.get_global_step()
        train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(train_op, step.assign_add(2)))

    x = np.ones([4, 1], np.float32)
    model = tf.estimator.Estimator(model_fn, str(tmp_path))
    model.train(lambda: tf.data.Dataset.from_tensor_slices((x, x)).batch(2), max_steps=4)
    assert tf.train.load_variable(str(tmp_path), "global_step") == 4


def test_errors_of_arguments_are_tensorflows():
    def input_fn():
        return tf.data.Dataset.range(3)

    with pytest.raises(ValueError, match="Must specify max_steps > 0, given: 0"):
        tf.estimator.TrainSpec(input_fn, max_steps=0)
    with pytest.raises(ValueError, match="Must specify steps > 0, given: 0"):
        tf.estimator.EvalSpec(input_fn, steps=0)
    with pytest.raises(ValueError, match="Can not provide both save_checkpoints_steps and save_checkpoints_secs."):
        tf.estimator.RunConfig(save_checkpoints_secs=1, save_checkpoints_steps=1)
    with pytest.raises(TypeError, match="must be callable"):
        tf.estimator.TrainSpec(3)
    with pytest.raises(ValueError):
        DNNClassifier(hidden_units=[3], feature_columns=["a"])


def test_strategies_as_options(people, tmp_path):
    config = tf.estimator.RunConfig(str(tmp_path), train_distribute=tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]))
    assert config.train_distribute.num_replicas_in_sync == 2
    model = tf.estimator.LinearClassifier(columns()[1], config=config)
    model.train(lambda: tf.data.Dataset.from_tensor_slices(people).repeat().batch(10), steps=3)
    assert model.get_variable_value("global_step") == 3


def test_the_rest(tmp_path):
    assert tf.__version__.startswith("2.15") and tf.config.list_physical_devices("GPU") == []
    assert tf.config.list_physical_devices("CPU")[0].device_type == "CPU"
    assert tf.get_logger() is logging.getLogger("tensorflow") and tf.errors.NotFoundError is estoc.errors.NotFoundError
    assert isinstance(tf.keras.datasets.fashion_mnist.load_data.__module__, str)
    assert tf.contrib.estimator.add_metrics is tf.estimator.add_metrics and tf.metrics.auc is tf.compat.v1.metrics.auc


def test_a_cluster_of_processes(tmp_path):
    """Chief, worker and ps in three processes, told apart by TF_CONFIG alone."""
    import socket

    sockets = [socket.socket() for _ in range(3)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{item.getsockname()[1]}" for item in sockets]
    for item in sockets:
        item.close()
    program = textwrap.dedent("""
        import numpy as np
        import estoc.tf as tf
        x = np.ones([64, 1], np.float32)
        def input_fn():
            return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x)).repeat().batch(8)
        model = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x")], DIR,
                                             config=tf.estimator.RunConfig(protocol="tcp"))
        result = tf.estimator.train_and_evaluate(model, tf.estimator.TrainSpec(input_fn, max_steps=40),
                                                 tf.estimator.EvalSpec(input_fn, steps=2))
        assert result is None
        print("done")
    """).replace("DIR", repr(str(tmp_path)))
    cluster = {"chief": addresses[:1], "worker": addresses[1:2], "ps": addresses[2:]}
    children = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, env=dict(os.environ, TF_CONFIG=json.dumps(
                                     {"cluster": cluster, "task": {"type": task, "index": 0}})))
                for task in cluster]
    try:
        for child in children:
            output, _ = child.communicate(timeout=60)
            assert child.returncode == 0 and "done" in output, output
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait()
    assert tf.train.load_variable(str(tmp_path), "global_step") == 40


def test_a_feature_may_be_named_as_the_lengths_of_another():
    example = tf.train.Example(features=tf.train.Features(feature={
        "a/lengths": tf.train.Feature(int64_list=tf.train.Int64List(value=[7])),
        "a": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))})).SerializeToString()
    spec = {"a/lengths": tf.io.FixedLenFeature([], tf.int64), "a": tf.io.FixedLenSequenceFeature([], tf.int64, True)}
    for features in (spec, dict(reversed(spec.items()))):
        parsed = tf.io.parse_single_example(example, features)
        assert parsed["a/lengths"].numpy() == 7 and parsed["a"].numpy().tolist() == [1, 2]
    assert list(tf.io.parse_single_example(example, {"a": spec["a"]})) == ["a"]
