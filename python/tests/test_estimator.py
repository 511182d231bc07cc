# SPDX-License-Identifier: Apache-2.0
"""Graphs, estimators, hooks, exporters, strategies and checkpoints."""
import json
import os

import numpy as np
import pytest

import estoc
from estoc import feature_column as fc

SERVING = estoc.ServingInput(raw={"x": estoc.TensorSpec([None, 3], estoc.float32)})


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_variables_and_gradients():
    graph = estoc.Graph(seed=1)
    w = estoc.layers.weight(graph, "w", [2], initializer=lambda shape, dtype: np.array([1.0, 2.0], np.float32))
    x = graph.placeholder("x", estoc.float32, [2])
    y = estoc.ops.reduce_sum(w * w * x)
    gradient, = estoc.ops.gradients(y, [w])
    assert w.shape == (2,) and w.dtype == estoc.float32 and [v.name for v in graph.trainable_variables] == ["w"]
    with estoc.Session(graph) as session:
        session.init()
        assert session.variables == ["w"]
        assert session.run({"y": y, "g": gradient}, {x: [3, 4]})["g"].tolist() == [6, 16]
        session.run(w.assign_add([1, 1]))
        assert session.read(w).tolist() == [2, 3]
        session.write("w", np.array([5, 5], np.float32))
        assert session.run(w).tolist() == [5, 5]
    with pytest.raises(RuntimeError, match="closed"):
        session.run(y)


def test_operators():
    graph = estoc.Graph()
    x = graph.placeholder("x", estoc.float32, [3])
    n = graph.placeholder("n", estoc.int32, [2])
    nodes = {"a": 1 - x, "b": 2 / x, "c": x ** 2, "d": -x, "e": abs(x), "f": x > 1, "g": (x > 1) & ~(x > 2),
             "h": n // 2, "i": n % 3, "j": x[1:], "k": x[-1], "l": n / 2, "m": np.float32(2) * x, "o": x == 1, "p": x != 1}
    with estoc.Session(graph) as session:
        got = {k: v.tolist() for k, v in session.run(nodes, {x: [1, 2, -4], n: [5, -5]}).items()}
    assert got == {"a": [0, -1, 5], "b": [2, 1, -0.5], "c": [1, 4, 16], "d": [-1, -2, 4], "e": [1, 2, 4],
                   "f": [False, True, False], "g": [False, True, False], "h": [2, -3], "i": [2, 1], "j": [2, -4],
                   "k": -4, "l": [2.5, -2.5], "m": [2, 4, -8], "o": [True, False, False], "p": [False, True, True]}
    with pytest.raises(TypeError):
        n * 1.5
    with pytest.raises(ValueError, match="another graph"):
        x + estoc.Graph().constant([1.0, 2.0, 3.0])
    for wrong in (lambda: estoc.ops.group([]), lambda: estoc.ops.square(None), lambda: estoc.ops.concat([], 0),
                  lambda: bool(x), lambda: float(x), lambda: list(x), lambda: len(x)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("wrong", [
    lambda a, b: estoc.Session(a.graph).run(b, {b: [1.0]}), lambda a, b: estoc.Session(a.graph).run(a, {b: [1.0]}),
    lambda a, b: estoc.ops.gradients(a, [b]), lambda a, b: estoc.ops.group([a, b]), lambda a, b: a + b,
    lambda a, b: estoc.ops.split(a, 0), lambda a, b: estoc.Session(a.graph).run(a, {a: [1.0, 2.0]}),
    lambda a, b: estoc.Session(a.graph).run(a), lambda a, b: estoc.optimizers.SGD().minimize(a),
])
def test_wrong_nodes_are_value_errors(wrong):
    a, b = (estoc.Graph().placeholder("x", estoc.float32, [1]) for _ in range(2))
    with pytest.raises(ValueError):
        wrong(a, b)


# --- estimators -------------------------------------------------------------------------------------------------------


def test_train_evaluate_predict(dataset, model_fn, tmp_path):
    estimator = estoc.Estimator(model_fn, tmp_path, params={"rate": 1.0})
    assert estimator.train(lambda: dataset.repeat().batch(20), steps=30) is estimator
    metrics = estimator.evaluate(lambda: dataset.batch(50))
    assert metrics["global_step"] == 30 and metrics["accuracy"] > 0.9 and metrics["loss"] < 0.4
    assert isinstance(metrics["loss"], np.float32) and isinstance(metrics["global_step"], np.int64)
    rows = list(estimator.predict(lambda: dataset.batch(50)))
    assert len(rows) == 200 and set(rows[0]) == {"p", "class"} and rows[0]["p"].shape == (1,)
    batches = list(estimator.predict(lambda: dataset.batch(50), predict_keys="p", yield_single_examples=False))
    assert len(batches) == 4 and batches[0]["p"].shape == (50, 1)
    np.testing.assert_array_equal(batches[0]["p"][1], rows[1]["p"])
    estimator.train(lambda: dataset.repeat().batch(20), max_steps=30)  # nothing is left to do
    assert estimator.get_variable_value("global_step") == 30
    assert estimator.latest_checkpoint().endswith("model.ckpt-30")
    assert "dense/kernel" in estimator.get_variable_names()


def test_a_prediction_without_dimensions_is_a_scalar(tmp_path):
    def model_fn(features, mode):
        return estoc.EstimatorSpec(mode, {"n": features["n"], "half": estoc.ops.cast(features["n"], np.float32) / 2.0,
                                          "word": features["word"]})

    data = {"n": np.int64([3, 5]), "word": np.array([b"a", b"b"], object)}
    rows = list(estoc.Estimator(model_fn, tmp_path).predict(lambda: estoc.Dataset.from_tensor_slices(data).batch(2)))
    assert [{name: type(value) for name, value in row.items()} for row in rows] == [
        {"n": np.int64, "half": np.float32, "word": bytes}] * 2
    assert {row["word"]: row["n"] for row in rows} == {b"a": 3, b"b": 5}


def test_features_without_a_dict_and_one_prediction(rows, tmp_path):
    def model_fn(features, labels, mode):
        y = estoc.layers.dense(features, 1)
        if mode == estoc.ModeKeys.PREDICT:
            return estoc.EstimatorSpec(mode, y)
        loss = estoc.losses.mean_squared_error(labels, y)
        return estoc.EstimatorSpec(mode, y, loss, estoc.optimizers.SGD().minimize(loss))

    x, y = rows
    estimator = estoc.Estimator(model_fn, tmp_path)
    estimator.train(lambda: estoc.Dataset.from_tensor_slices((x, y.astype(np.float32))).batch(10))
    assert next(estimator.predict(lambda: estoc.Dataset.from_tensor_slices(x).batch(10))).shape == (1,)


def test_arguments_of_functions(dataset, model_fn, tmp_path):
    seen = {}

    def input_fn(mode, params, config, input_context):
        seen.update(mode=mode, params=params, dir=config, context=input_context)
        return dataset.batch(8)

    def with_config(features, labels, mode, params, config):
        seen["config"] = config
        return model_fn(features, labels, mode, params)

    estoc.Estimator(with_config, tmp_path, params={"rate": 0.25}).train(input_fn, steps=1)
    assert seen["mode"] == "train" and seen["params"] == {"rate": 0.25} and seen["context"].num_input_pipelines == 1
    assert seen["context"].get_per_replica_batch_size(8) == 8 and isinstance(seen["config"], estoc.RunConfig)


def test_input_fn_that_returns_arrays(rows, model_fn, tmp_path):
    x, y = rows
    estimator = estoc.Estimator(model_fn, tmp_path)
    estimator.train(lambda: ({"x": x}, y), steps=3)
    assert estimator.get_variable_value("global_step") == 3


@pytest.mark.parametrize("call, error", [
    (lambda e, f: e.train(f, steps=1, max_steps=1), "both"), (lambda e, f: e.train(f, steps=0), "steps > 0"),
    (lambda e, f: e.train(f, max_steps=-1), "max_steps > 0"), (lambda e, f: e.evaluate(f, steps=0), "steps > 0"),
    (lambda e, f: estoc.TrainSpec(f, 0), "max_steps > 0"), (lambda e, f: estoc.EvalSpec(f, 0), "steps > 0"),
    (lambda e, f: estoc.EvalSpec(f, throttle_secs=-1), "throttle_secs"),
    (lambda e, f: estoc.RunConfig(save_checkpoints_secs=1, save_checkpoints_steps=1), "both"),
    (lambda e, f: estoc.Estimator(3), "function"), (lambda e, f: estoc.DNNClassifier([3], ["x"]), "column"),
    (lambda e, f: estoc.Estimator(lambda features: 0, "a", estoc.RunConfig("b")), "model_dir"),
    (lambda e, f: estoc.EstimatorSpec("train", loss=None, train_op=None), "train_op"),
])
def test_wrong_arguments_are_value_errors(call, error, dataset, model_fn, tmp_path):
    with pytest.raises(ValueError, match=error):
        call(estoc.Estimator(model_fn, tmp_path), lambda: dataset.batch(8))


def test_a_model_fn_that_returns_something_else(dataset, tmp_path):
    with pytest.raises(ValueError, match="EstimatorSpec"):
        estoc.Estimator(lambda features, labels, mode: None, tmp_path).train(lambda: dataset.batch(8))
    with pytest.raises(ValueError, match="returned None"):
        estoc.Estimator(lambda features, labels, mode: None, tmp_path).train(lambda: None)
    with pytest.raises(ValueError, match="does not take labels"):
        estoc.Estimator(lambda features, mode: None, tmp_path).train(lambda: dataset.batch(8))


def test_layers_optimizers_schedules_and_clipping(tmp_path):
    images = np.random.RandomState(1).rand(8, 6, 6, 1).astype(np.float32)

    def model_fn(features, labels, mode):
        training = mode == estoc.ModeKeys.TRAIN
        x = estoc.layers.conv2d(features["image"], 4, 3, padding="same", activation="relu")
        x = estoc.layers.batch_normalization(estoc.layers.max_pool2d(x, 2), training)
        x = estoc.layers.flatten(estoc.layers.average_pool2d(x, 3))
        x = estoc.layers.dropout(x, 0.5, training) + estoc.layers.embedding(features["id"], 3, 4)
        logits = estoc.layers.dense(x, 2, kernel_regularizer=estoc.initializers.Regularizer(l2=0.01),
                                    bias_initializer=0.5, activation=lambda y: y * 2)
        assert logits.shape == (None, 2)
        loss = estoc.losses.sparse_softmax_cross_entropy(labels, logits) + estoc.losses.regularization_loss(logits.graph)
        rate = estoc.optimizers.exponential_decay(0.1, 10, 0.5)
        train_op = estoc.optimizers.Adam(rate).minimize(loss, clip_global_norm=1.0)
        return estoc.EstimatorSpec(mode, {"y": logits}, loss, train_op)

    dataset = estoc.Dataset.from_tensor_slices(({"image": images, "id": np.arange(8) % 3}, np.arange(8) % 2))
    estimator = estoc.Estimator(model_fn, tmp_path)
    estimator.train(lambda: dataset.repeat().batch(4), steps=3)
    shapes = dict(estoc.list_variables(tmp_path))
    assert shapes["conv2d/kernel"] == [3, 3, 1, 4] and shapes["embedding/embeddings"] == [3, 4]
    assert "batch_normalization/moving_mean" in shapes


def test_custom_metric(dataset, model_fn, tmp_path):
    def positives(labels, predictions, features, config):
        graph = labels.graph
        count = estoc.metrics.state(graph, "positives/count", np.float64)
        update = count.assign_add(estoc.ops.cast(estoc.ops.reduce_sum(labels), np.float64))
        assert set(features) == {"x"} and predictions["p"].shape[-1] == 1
        with pytest.raises(KeyError):
            predictions["q"]
        return {"positives": estoc.metrics.custom([count], [update], count.value())}

    plain = estoc.Estimator(model_fn, tmp_path)
    plain.train(lambda: dataset.batch(20))
    more = plain.add_metrics(positives)
    assert "positives" not in plain.evaluate(lambda: dataset.batch(50))
    assert more.evaluate(lambda: dataset.batch(50))["positives"] == 95


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_a_hook_sees_the_loop(dataset, model_fn, tmp_path):
    calls = []

    class Watch(estoc.Hook):
        def begin(self, loop):
            calls.append("begin")
            self.bias = loop.fetch(loop.graph.find("dense/bias/Read/ReadVariableOp") or loop.graph.trainable_variables[0].value())

        def after_create_session(self, loop):
            calls.append(("session", loop.read("dense/bias").shape, loop.model_dir))

        def before_run(self, loop):
            if loop.runs == 1:
                loop.want(self.bias)

        def after_run(self, loop):
            calls.append((loop.runs, loop.global_step, loop.loss > 0, loop.value(self.bias) is not None))
            if loop.runs == 3:
                loop.summary("mine", 1.0)
                loop.request_stop("enough")

        def end(self, loop):
            calls.append(("end", loop.should_stop))

    estoc.Estimator(model_fn, tmp_path).train(lambda: dataset.repeat().batch(8), steps=100, hooks=[Watch()])
    assert calls == ["begin", ("session", (1,), str(tmp_path)), (1, 1, True, False), (2, 2, True, True),
                     (3, 3, True, False), ("end", True)]


def test_hooks_of_the_library_and_of_specs(dataset, model_fn, tmp_path):
    seen = []

    class Count(estoc.Hook):
        def after_run(self, loop):
            seen.append(loop.runs)

    def with_hooks(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        spec.training_hooks = spec.evaluation_hooks = [Count()]
        return spec

    estimator = estoc.Estimator(with_hooks, tmp_path)
    estimator.train(lambda: dataset.repeat().batch(8), hooks=[
        estoc.hooks.stop_at_step_hook(last_step=5), estoc.hooks.nan_hook(), estoc.hooks.step_counter_hook(2),
        estoc.hooks.stop_at_secs_hook(60)])
    estimator.evaluate(lambda: dataset.batch(100))
    assert seen == [1, 2, 3, 4, 5, 1, 2]
    with pytest.raises(ValueError):
        estoc.hooks.stop_at_step_hook()
    with pytest.raises(TypeError):
        estimator.train(lambda: dataset.batch(8), hooks=[3])


def test_saving_listeners(dataset, model_fn, tmp_path):
    calls = []

    class Listener(estoc.SavingListener):
        def begin(self):
            calls.append("begin")

        def before_save(self, global_step):
            calls.append(("before", global_step))

        def after_save(self, global_step):
            calls.append(("after", global_step))
            return global_step == 4

        def end(self, global_step):
            calls.append(("end", global_step))

    config = estoc.RunConfig(save_checkpoints_steps=2)
    estoc.Estimator(model_fn, tmp_path, config).train(lambda: dataset.repeat().batch(8), steps=100,
                                                      saving_listeners=[Listener()])
    assert calls[0] == "begin" and ("after", 4) in calls and calls[-1] == ("end", 4) and ("after", 6) not in calls


# --- train_and_evaluate and exports -----------------------------------------------------------------------------------


def test_train_and_evaluate_with_exporters(dataset, model_fn, tmp_path):
    class Mine(estoc.Exporter):
        def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
            os.makedirs(export_path)
            with open(os.path.join(export_path, "result.json"), "w", encoding="utf-8") as file:
                json.dump({"step": int(eval_result["global_step"]), "final": is_the_final_export}, file)
            return export_path

    better = []
    exporters = [estoc.LatestExporter("latest", SERVING, exports_to_keep=None), estoc.FinalExporter("final", SERVING),
                 estoc.BestExporter("best", SERVING, compare_fn=lambda best, now: better.append(now) or True), Mine("mine")]
    metrics, exports = estoc.train_and_evaluate(
        estoc.Estimator(model_fn, tmp_path), estoc.TrainSpec(lambda: dataset.repeat().batch(20), 20),
        estoc.EvalSpec(lambda: dataset.batch(50), None, exporters=exporters, throttle_secs=0))
    assert metrics["global_step"] == 20 and len(exports) == 4
    for path in exports[:3]:
        assert os.path.exists(os.path.join(path, "saved_model.pb"))
    assert json.loads((tmp_path / "export" / "mine" / "result.json").read_text()) == {"step": 20, "final": True}


def test_export_and_parse_spec(dataset, tmp_path):
    columns = [fc.numeric_column("x", 3), fc.embedding_column(fc.categorical_column_with_hash_bucket("w", 5), 2)]
    spec = fc.make_parse_example_spec(columns)
    assert spec["x"].shape == (3,) and isinstance(spec["w"], estoc.io.VarLenFeature)
    rows = dataset.map(lambda f, y: ({**f, "w": b"q"}, y))
    model = estoc.DNNClassifier([4], columns, tmp_path)
    model.train(lambda: rows.batch(20), steps=2)
    path = model.export_saved_model(tmp_path / "export", estoc.ServingInput.parsing(spec), assets_extra=None)
    assert os.path.exists(os.path.join(path, "saved_model.pb"))


# --- columns and canned models ----------------------------------------------------------------------------------------


def all_columns(tmp_path):
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("red\ngreen\n")
    age = fc.numeric_column("age", normalizer_fn=lambda x: x / 100, default_value=1.0)
    buckets = fc.bucketized_column(fc.numeric_column("age"), [20, 40])
    listed = fc.categorical_column_with_vocabulary_list("color", ["red", "green"], num_oov_buckets=1)
    filed = fc.categorical_column_with_vocabulary_file("color", vocabulary)
    numbered = fc.categorical_column_with_identity("number", 4, default_value=0)
    crossed = fc.crossed_column([buckets, "color"], 10)
    wide = [buckets, listed, crossed, fc.weighted_categorical_column(numbered, "age")]
    deep = [age, fc.indicator_column(listed), fc.embedding_column(filed, 3, combiner="sqrtn", initializer="zeros")]
    deep += fc.shared_embeddings([numbered, fc.categorical_column_with_identity("other", 4)], 2)
    return wide, deep


@pytest.fixture
def people():
    random = np.random.RandomState(3)
    age = random.randint(10, 70, 60).astype(np.float32)
    features = {"age": age, "color": np.array(["red", "green", "blue"] * 20), "number": np.arange(60) % 4,
                "other": np.arange(60) % 3, "weight": np.ones(60, np.float32)}
    return features, (age > 40).astype(np.int64)


def test_columns_and_canned_models(people, tmp_path):
    wide, deep = all_columns(tmp_path)
    features, labels = people
    text = np.array(["no", "yes"])[labels]
    models = {
        "a": (estoc.DNNLinearCombinedClassifier(tmp_path / "a", wide, "Ftrl", deep, dnn_hidden_units=[8],
                                                dnn_dropout=0.1, batch_norm=True, weight_column="weight"), labels),
        "b": (estoc.DNNLinearCombinedRegressor(tmp_path / "b", wide, dnn_feature_columns=deep, dnn_hidden_units=[8]),
              labels.astype(np.float32)),
        "c": (estoc.DNNClassifier([4], deep, tmp_path / "c", label_vocabulary=["no", "yes"],
                                  optimizer=lambda: estoc.optimizers.Adam(0.01, keras=True), activation_fn="tanh"), text),
        "d": (estoc.DNNRegressor([4], deep, tmp_path / "d", loss_reduction="sum"), labels.astype(np.float32)),
        "e": (estoc.LinearClassifier(wide, tmp_path / "e", n_classes=3), labels),
        "f": (estoc.LinearRegressor(wide, tmp_path / "f"), labels.astype(np.float32)),
        "g": (estoc.BaselineClassifier(tmp_path / "g"), labels),
        "h": (estoc.BaselineRegressor(tmp_path / "h"), labels.astype(np.float32)),
    }
    for model, y in models.values():
        dataset = estoc.Dataset.from_tensor_slices((features, y))
        model.train(lambda: dataset.repeat().batch(20), steps=4)
        metrics = model.evaluate(lambda: dataset.batch(60))
        assert metrics["global_step"] == 4 and np.isfinite(metrics["loss"])
        assert len(list(model.predict(lambda: dataset.batch(60)))) == 60
    assert repr(wide[0]) == "<estoc.bucketized_column 'age_bucketized'>"


def test_input_layer_and_linear_model(people, tmp_path):
    wide, deep = all_columns(tmp_path)
    features, labels = people

    def model_fn(features, labels, mode):
        x = estoc.layers.input_layer(features, deep)
        logits = estoc.layers.dense(x, 1) + estoc.layers.linear_model(features, wide)
        loss = estoc.losses.sigmoid_cross_entropy(estoc.ops.expand_dims(labels, -1), logits)
        return estoc.EstimatorSpec(mode, {"y": logits}, loss, estoc.optimizers.Adagrad(0.1).minimize(loss))

    dataset = estoc.Dataset.from_tensor_slices((features, labels))
    estimator = estoc.Estimator(model_fn, tmp_path / "model")
    estimator.train(lambda: dataset.repeat().batch(20), steps=3)
    assert any(name.startswith("input_layer/") for name in estimator.get_variable_names())


def test_wrong_columns_are_errors_and_leave_their_sources_usable():
    age = fc.numeric_column("age")
    with pytest.raises(ValueError):
        fc.bucketized_column(age, [3, 2])
    assert fc.bucketized_column(age, [2, 3]).name == "age_bucketized"
    for wrong in (lambda: fc.categorical_column_with_hash_bucket("a", 0), lambda: fc.embedding_column("a", 3),
                  lambda: fc.categorical_column_with_vocabulary_list("a", ["x", "x"]), lambda: fc.crossed_column(["a"], 3)):
        with pytest.raises(ValueError):
            wrong()


def test_warm_start(dataset, tmp_path):
    columns = [fc.numeric_column("x", 3)]
    first = estoc.LinearClassifier(columns, tmp_path / "a")
    first.train(lambda: dataset.batch(20))
    second = estoc.LinearClassifier(columns, tmp_path / "b", warm_start_from=str(tmp_path / "a"),
                                    optimizer=estoc.optimizers.SGD(0.0, keras=True))
    second.train(lambda: dataset.batch(20), steps=1)
    name = "linear/linear_model/x/weights"
    np.testing.assert_array_equal(first.get_variable_value(name), second.get_variable_value(name))


# --- config, strategies, checkpoints ----------------------------------------------------------------------------------


def test_run_config():
    config = estoc.RunConfig("dir", save_checkpoints_secs=300, keep_checkpoint_max=3)
    assert config.save_checkpoints_secs == 300 and config.save_checkpoints_steps is None
    changed = config.replace(save_checkpoints_steps=5)
    assert changed.save_checkpoints_secs is None and config.save_checkpoints_secs == 300
    assert estoc.RunConfig().save_checkpoints_secs == 600 and estoc.RunConfig().is_chief
    with pytest.raises(ValueError):
        config.replace(nonsense=1)


def test_tf_config(monkeypatch):
    cluster = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "d:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    config = estoc.RunConfig()
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert config.cluster_spec == cluster and config.num_ps_replicas == 1 and config.num_worker_replicas == 3
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 7}}))
    with pytest.raises(ValueError, match="7"):
        estoc.RunConfig()


def test_strategies_compute_the_same(rows, tmp_path):
    x, y = rows

    def model_fn(features, labels, mode):
        p = estoc.layers.dense(features["x"], 1, kernel_initializer="zeros")
        loss = estoc.losses.mean_squared_error(labels, p)
        return estoc.EstimatorSpec(mode, loss=loss, train_op=estoc.optimizers.SGD(0.1).minimize(loss))

    def kernel(strategy, batch, name):
        config = estoc.RunConfig(tmp_path / name, train_distribute=strategy)
        estimator = estoc.Estimator(model_fn, config=config)
        data = estoc.Dataset.from_tensor_slices(({"x": x}, y.astype(np.float32)))
        estimator.train(lambda: data.batch(batch), steps=5)
        return estimator.get_variable_value("dense/kernel")

    two = estoc.MirroredStrategy(replicas=2)
    assert two.num_replicas_in_sync == 2 and estoc.OneDeviceStrategy().num_replicas_in_sync == 1
    alone = kernel(None, 40, "alone")
    np.testing.assert_allclose(kernel(two, 20, "two"), alone, rtol=1e-5)
    np.testing.assert_allclose(kernel(estoc.CentralStorageStrategy(replicas=2), 20, "central"), alone, rtol=1e-5)
    assert estoc.MultiWorkerMirroredStrategy(cluster_json="{}").num_replicas_in_sync == 1
    estoc.ParameterServerStrategy(cluster_json="{}")


def test_checkpoints(tmp_path):
    estoc.save_checkpoint(tmp_path / "model.ckpt-7", {"a/b": np.arange(6.0).reshape(2, 3), "s": np.array(["x", "yz"])},
                          latest=True)
    reader = estoc.load_checkpoint(tmp_path)
    assert reader.path == estoc.latest_checkpoint(tmp_path) == str(tmp_path / "model.ckpt-7")
    assert reader.get_variable_to_shape_map() == {"a/b": [2, 3], "s": [2]}
    assert reader.get_variable_to_dtype_map()["a/b"] == np.float64 and reader.has_tensor("s") and not reader.has_tensor("t")
    assert reader["a/b"].tolist() == [[0, 1, 2], [3, 4, 5]] and reader["s"].tolist() == [b"x", b"yz"]
    reader.verify()
    assert estoc.latest_checkpoint(tmp_path / "none") is None
    with pytest.raises(KeyError):
        reader["t"]
    with pytest.raises(estoc.errors.NotFoundError):
        reader.get_tensor("t")
    np.testing.assert_array_equal(estoc.load_variable(tmp_path, "a/b"), reader["a/b"])


def test_nodes_of_a_model_are_refused_after_its_call(dataset, model_fn, tmp_path):
    kept = {}

    def keeping(features, labels, mode, params):
        kept["x"] = features["x"]
        return model_fn(features, labels, mode, params)

    class Keeping(estoc.Hook):
        def begin(self, loop):
            kept["loop"], kept["node"] = loop, loop.graph.trainable_variables[0].value()

    estimator = estoc.Estimator(keeping, tmp_path)
    estimator.train(lambda: dataset.batch(8), steps=1, hooks=[Keeping()])
    with pytest.raises(RuntimeError, match="during the call"):
        kept["x"] + 1
    with pytest.raises(RuntimeError, match="during the call"):
        estoc.ops.square(kept["node"])
    with pytest.raises(TypeError):
        kept["loop"].global_step
    predictions = estimator.predict(lambda: dataset.batch(8))
    next(predictions)
    with pytest.raises(RuntimeError, match="during the call"):
        estimator.evaluate(lambda: dataset.batch(8))
        kept["x"] + 1
    assert len(list(predictions)) == 199


def test_input_fn_is_called_once_for_each_evaluation(dataset, model_fn, tmp_path):
    """The input that is checked before the training is that of the first evaluation, also if a hook reads another."""
    calls = []

    class Predicts(estoc.Hook):
        def after_run(self, loop):
            if loop.runs == 2:
                next(estimator.predict(lambda: dataset.map(lambda x, y: {"x": x["x"], "z": y}).batch(8)))

    def rows(mode):
        calls.append(mode)
        return dataset.batch(8).repeat() if mode == estoc.ModeKeys.TRAIN else dataset.batch(20)

    estimator = estoc.Estimator(model_fn, tmp_path, config=estoc.RunConfig(save_checkpoints_steps=2))
    metrics, _ = estoc.train_and_evaluate(estimator, estoc.TrainSpec(rows, 6, hooks=[Predicts()]),
                                          estoc.EvalSpec(rows, None, throttle_secs=0))
    assert int(metrics["global_step"]) == 6
    assert calls == [estoc.ModeKeys.TRAIN] + [estoc.ModeKeys.EVAL] * 3
