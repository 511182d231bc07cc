# SPDX-License-Identifier: Apache-2.0
"""What programs written for TensorFlow 1.x and 2.x do around models: names, options, loops in functions."""
import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import estoc
import estoc.tf as tf
from estoc._lib import lib, text


def test_names_of_tensorflow_1_that_mean_nothing_else():
    import estoc.tf.compat.v2.feature_column as columns

    v1 = tf.compat.v1
    assert columns is tf.feature_column
    assert tf.train.AdagradOptimizer is v1.train.AdagradOptimizer
    assert tf.summary.FileWriter is v1.summary.FileWriter
    assert tf.losses.sparse_softmax_cross_entropy is v1.losses.sparse_softmax_cross_entropy
    assert tf.losses.MeanSquaredError is tf.keras.losses.MeanSquaredError
    assert tf.metrics.accuracy is v1.metrics.accuracy and tf.metrics.Mean is tf.keras.metrics.Mean
    assert tf.optimizers.Adam is tf.keras.optimizers.Adam
    assert issubclass(tf.layers.Dense, tf.keras.layers.Dense)
    assert tf.dtypes.int64 is tf.int64
    assert tf.to_float(3).dtype == tf.float32
    with pytest.raises(AttributeError, match="tf.train has no 'Adagrat'"):
        tf.train.Adagrat


def test_app_run_calls_main_and_exits():
    with pytest.raises(SystemExit) as exit:
        tf.app.run(lambda argv: len(argv), argv=["program", "rest"])
    assert exit.value.code == 2


@pytest.fixture
def flags(monkeypatch):
    module = tf.compat.v1.flags
    monkeypatch.setattr(module, "FLAGS", module.FlagValues())
    return module


def test_flags_of_a_program(flags, monkeypatch, capsys):
    flags.DEFINE_string("model_dir", "/tmp/x", "where")
    flags.DEFINE_integer("steps", 3, "how many")
    flags.DEFINE_bool("train", True, "whether")
    flags.DEFINE_boolean("fast", False, "whether")
    flags.DEFINE_float("rate", None, "how fast")
    flags.DEFINE_enum("kind", "wide", ["wide", "deep"], "which")
    flags.DEFINE_list("columns", "a,b", "of the table")
    flags.DEFINE_multi_integer("units", [1, 2], "of layers")
    argv = ["program", "--steps=5", "rest", "--notrain", "-rate", "0.5", "--fast", "--kind=deep", "--columns=c, d",
            "--units=4", "--units=5", "--unknown=3", "--", "--steps=7"]
    with pytest.raises(SystemExit):
        tf.app.run(lambda rest: print(rest), argv)
    assert capsys.readouterr().out == "['program', 'rest', '--unknown=3', '--steps=7']\n"
    assert flags.FLAGS.flag_values_dict() == {
        "model_dir": "/tmp/x", "steps": 5, "train": False, "fast": True, "rate": 0.5, "kind": "deep",
        "columns": ["c", "d"], "units": [4, 5]}
    flags.FLAGS.steps = 9
    assert flags.FLAGS.steps == 9 and flags.FLAGS["steps"].default == 3 and "steps" in flags.FLAGS
    for wrong, text in ((["--steps=x"], "--steps=x"), (["--kind=tall"], "should be one of <wide|deep>"),
                        (["--stepz=1"], "Did you mean: steps"), (["--rate"], "Missing value"), (["--train=2"], "boolean")):
        with pytest.raises(flags.Error, match=text):
            flags.FLAGS(["program"] + wrong)
    with pytest.raises(AttributeError, match="did you mean 'steps'"):
        flags.FLAGS.stepz
    with pytest.raises(flags.Error, match="defined twice"):
        flags.DEFINE_integer("steps", 1)
    with pytest.raises(SystemExit):
        tf.app.run(lambda rest: None, ["program", "--help"])
    assert "--[no]train: whether" in capsys.readouterr().out


def test_arguments_of_definitions_of_flags(flags):
    flags.DEFINE_integer("steps", 3, "how many", lower_bound=1, upper_bound=9, short_name="s")
    flags.DEFINE_multi_float("rates", None, lower_bound=0.0)
    flags.DEFINE_boolean("fast", False, short_name="f")
    flags.DEFINE_string("model_dir", None, required=True)
    assert flags.FLAGS(["program", "-s", "9", "-f", "--rates=0", "--rates=2", "--model_dir=x"]) == ["program"]
    assert flags.FLAGS.steps == flags.FLAGS.s == 9 and flags.FLAGS.fast and flags.FLAGS.rates == [0, 2]
    for wrong in (["--steps=0"], ["-s=10"], ["--rates=-1"]):
        with pytest.raises(flags.IllegalFlagValueError, match="is not in the range"):
            flags.FLAGS(["program"] + wrong)
    for name, value in (("steps", 10), ("rates", [1.0, -1.0])):
        with pytest.raises(flags.IllegalFlagValueError, match="is not in the range"):
            setattr(flags.FLAGS, name, value)
    with pytest.raises(flags.IllegalFlagValueError, match="is not in the range"):
        flags.DEFINE_float("share", 2.0, upper_bound=1.0)
    flags.FLAGS.model_dir = None
    with pytest.raises(flags.IllegalFlagValueError, match="--model_dir must have a value"):
        flags.FLAGS(["program"])
    assert flags.FLAGS.get_help().count("how many") == 1 and "-s,--steps: how many" in flags.FLAGS.get_help()
    with pytest.raises(flags.Error, match="defined twice"):
        flags.DEFINE_string("stop", None, short_name="s")
    with pytest.raises(ValueError, match="its default is None"):
        flags.DEFINE_string("name", "x", required=True)
    for define in (flags.DEFINE_string, flags.DEFINE_boolean, flags.DEFINE_list):
        with pytest.raises(TypeError, match="lower_bound.*short_name do"):
            define("other", None, lower_bound=1)
    assert "other" not in flags.FLAGS and "stop" not in flags.FLAGS


def test_the_first_flag_that_is_read_parses_the_arguments(flags, monkeypatch):
    flags.DEFINE_integer("steps", 3)
    flags.DEFINE_string("name", None)
    monkeypatch.setattr(sys, "argv", ["program", "--steps", "4"])
    assert flags.FLAGS.steps == 4
    flags.mark_flag_as_required("name")
    with pytest.raises(flags.IllegalFlagValueError, match="must have a value"):
        flags.FLAGS(["program"])


def test_gfile_of_tensorflow_1(tmp_path):
    tf.gfile.MakeDirs(str(tmp_path / "a"))
    assert tf.gfile.Exists(str(tmp_path / "a")) and tf.gfile.ListDirectory(str(tmp_path)) == ["a"]


def test_options_keep_elements_and_carry_the_policy():
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = tf.data.Dataset.range(4).with_options(options).batch(2)
    assert dataset._shard_policy() == tf.data.experimental.AutoShardPolicy.OFF
    assert [list(batch) for batch in dataset.as_numpy_iterator()] == [[0, 1], [2, 3]]
    assert tf.data.Dataset.range(4)._shard_policy() == tf.data.experimental.AutoShardPolicy.AUTO
    with pytest.raises(AttributeError):
        options.no_such_option = 1
    with pytest.raises(NotImplementedError, match="HINT"):
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.HINT


# --- functions that tracing cannot make a step of ---------------------------------------------------------------------


def test_a_function_that_branches_runs_as_python_with_one_warning(caplog):
    @tf.function
    def collatz(n):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    with caplog.at_level(logging.WARNING, "tensorflow"):
        results = [collatz(tf.constant(6)), collatz(tf.constant(7))]
    assert [int(result) for result in results] == [8, 16] and all(tf.is_tensor(result) for result in results)
    assert sum("collatz is run as Python" in record.message for record in caplog.records) == 1


def test_without_autograph_branches_raise():
    @tf.function(autograph=False)
    def sign(x):
        return 1 if x > 0 else -1

    with pytest.raises(TypeError, match="cannot branch"):
        sign(tf.constant(1.0))


@pytest.mark.parametrize("form", ["dataset", "iterator", "distributed"])
def test_a_function_loops_over_a_dataset(form):
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    dataset = tf.data.Dataset.range(5).batch(2)
    given = {"dataset": dataset, "iterator": iter(dataset),
             "distributed": strategy.experimental_distribute_dataset(dataset)}[form]

    @tf.function
    def total(elements):
        sum_ = tf.constant(0, tf.int64)
        for element in elements:
            sum_ += tf.reduce_sum(strategy.run(lambda x: 2 * x, args=(element,)))
        return sum_

    assert int(total(given)) == 20


def test_get_next_as_optional():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(2).batch(2)))
    first, second = iterator.get_next_as_optional(), iterator.get_next_as_optional()
    assert bool(first.has_value()) and list(first.get_value().numpy()) == [0, 1]
    assert not bool(second.has_value())
    with pytest.raises(tf.errors.InvalidArgumentError, match="empty optional"):
        second.get_value()


# --- estimators -------------------------------------------------------------------------------------------------------


def test_numpy_input_fn(rows):
    x, y = rows
    inputs = tf.compat.v1.estimator.inputs
    elements = list(inputs.numpy_input_fn({"x": x}, y, batch_size=150, num_epochs=2, shuffle=False)())
    assert [len(labels) for _, labels in elements] == [150, 150, 100]
    np.testing.assert_array_equal(elements[0][0]["x"].numpy(), x[:150])
    with pytest.raises(ValueError, match="shuffle must be provided"):
        inputs.numpy_input_fn({"x": x}, y)
    with pytest.raises(ValueError, match="mismatched"):
        inputs.numpy_input_fn({"x": x}, y[:3], shuffle=False)


def test_pandas_input_fn(rows):
    pandas = pytest.importorskip("pandas")
    x, y = rows
    table, labels = pandas.DataFrame({"a": x[:, 0], "b": x[:, 1]}), pandas.Series(y)
    inputs = tf.compat.v1.estimator.inputs
    features, found = next(iter(inputs.pandas_input_fn(table, labels, batch_size=8, shuffle=False)()))
    np.testing.assert_array_equal(features["b"].numpy(), x[:8, 1])
    np.testing.assert_array_equal(found.numpy(), y[:8])
    with pytest.raises(ValueError, match="mismatched"):
        inputs.pandas_input_fn(table, labels[::-1], shuffle=False)


def test_session_config_sets_threads():
    config = tf.estimator.RunConfig(session_config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1))
    assert config.threads == 1
    other = config.replace(session_config=tf.compat.v1.ConfigProto(device_count={"GPU": 0}))
    assert other.threads == 0 and other.session_config.device_count == {"GPU": 0}


def test_summaries_and_logged_names_in_a_model_fn(tmp_path, rows):
    x, y = rows

    def model_fn(features, labels, mode):
        logits = tf.layers.Dense(2)(features["x"])
        loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, 1), name="acc_op")
        for variable in tf.trainable_variables():
            tf.summary.histogram(variable.op.name, variable)
        assert loss.op.name == loss.name
        tf.summary.scalar("accuracy_of_batch", tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32)))
        train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy})

    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), tf.estimator.RunConfig(save_summary_steps=1))
    estimator.train(tf.estimator.inputs.numpy_input_fn({"x": x}, y, 50, shuffle=False))
    path = next(str(path) for path in tmp_path.iterdir() if "tfevents" in path.name)
    tags = {entry["tag"] for entry in estoc.EventReader(path)}
    assert "accuracy_of_batch" in tags and any("kernel" in tag for tag in tags)


def test_a_logging_hook_made_outside_finds_names(caplog, rows):
    """Tags and names of operations of a graph that is made later, as the tutorial about MNIST has them."""
    x, y = rows

    def model_fn(features, labels, mode):
        logits = tf.layers.dense(features["x"], 2)
        tf.nn.softmax(logits, name="softmax_tensor")
        tf.identity(0.1, "learning_rate")
        loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        layer = tf.layers.Dense(1, kernel_initializer="ones", name="one")
        loss += 0.0 * tf.reduce_sum(layer(features["x"]))
        own = tf.train.LoggingTensorHook({"own": loss, "p": "softmax_tensor:0", "kernel": layer.kernel}, every_n_iter=1)
        train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, global_step=tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[own])

    seen = []
    named = tf.train.LoggingTensorHook({"probabilities": "softmax_tensor", "rate": "learning_rate"}, every_n_iter=1)
    formatted = tf.train.LoggingTensorHook(["softmax_tensor:0"], every_n_iter=1, formatter=lambda values: seen.append(
        values) or f"rows {[value.shape for value in values.values()]}")
    estimator = tf.estimator.Estimator(model_fn)
    input_fn = tf.estimator.inputs.numpy_input_fn({"x": x}, y, 50, shuffle=False)
    with caplog.at_level(logging.INFO, "tensorflow"):
        estimator.train(input_fn, steps=1, hooks=[named, formatted])
    assert list(seen[0]) == ["softmax_tensor:0"] and "rows [(50, 2)]" in caplog.text
    assert "probabilities = [[" in caplog.text and "rate = 0.1" in caplog.text and "own = " in caplog.text and ", p = [[" in caplog.text
    assert "kernel = [[1] [1] [1]]" in caplog.text
    with pytest.raises(tf.errors.NotFoundError, match="logs node 'nothing'"):
        estimator.train(input_fn, steps=1, hooks=[tf.train.LoggingTensorHook({"loss": "nothing"}, every_n_iter=1)])
    broken = tf.train.LoggingTensorHook({"p": "softmax_tensor"}, every_n_iter=1, formatter=lambda values: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        estimator.train(input_fn, steps=1, hooks=[broken])


def test_a_function_writes_summaries_in_every_run(tmp_path):
    writer = tf.summary.create_file_writer(str(tmp_path))
    count = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(x):
        count.assign_add(1)
        with writer.as_default():
            tf.summary.scalar("x", x, step=count)
            tf.summary.histogram("h", [x, x + 1.0], step=count)
        return x

    values = [float(step(tf.constant(number))) for number in (1.5, 2.5)]
    writer.close()
    path = next(str(path) for path in tmp_path.iterdir() if "tfevents" in path.name)
    scalars = [(entry["step"], entry["value"]) for entry in estoc.EventReader(path) if entry["tag"] == "x"]
    assert scalars == [(1, values[0]), (2, values[1])]


def test_a_gradient_does_not_repeat_what_a_function_did(capfd):
    weight, count = tf.Variable(2.0), tf.Variable(0)

    @tf.function
    def loss():
        count.assign_add(1)
        tf.print("once")
        return weight * weight

    with tf.GradientTape() as tape:
        value = loss()
    assert float(tape.gradient(value, weight)) == 4.0 and int(count) == 1
    assert capfd.readouterr().err.count("once") == 1


def test_an_early_stopping_hook_of_a_function(tmp_path, rows):
    x, y = rows
    asked = []

    def should_stop():
        asked.append(1)
        return len(asked) == 3

    estimator = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x", 3)], str(tmp_path))
    hook = tf.estimator.experimental.make_early_stopping_hook(estimator, should_stop, None, 4)
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat().batch(5), hooks=[hook],
                    max_steps=100)
    assert estimator.get_variable_value("global_step") == 9 and len(asked) == 3
    with pytest.raises(ValueError, match="Only one"):
        tf.estimator.experimental.make_early_stopping_hook(estimator, should_stop, 1, 1)


def test_get_file_takes_local_files(tmp_path):
    source, cache = tmp_path / "a.csv", str(tmp_path / "cache")
    source.write_text("x\n1\n")
    path = tf.keras.utils.get_file("b.csv", source.as_uri(), cache_dir=cache)
    assert path == os.path.join(cache, "datasets", "b.csv") and open(path).read() == "x\n1\n"
    assert tf.keras.utils.get_file("b.csv", "https://example.org/b.csv", cache_dir=cache) == path
    with pytest.raises(NotImplementedError, match="put it at .*c.csv"):
        tf.keras.utils.get_file("c.csv", "https://example.org/c.csv", cache_dir=cache)
    with pytest.raises(ValueError, match="md5 hash"):
        tf.keras.utils.get_file("b.csv", source.as_uri(), md5_hash="0" * 32, cache_dir=cache)


def test_a_sidecar_evaluates_the_checkpoints_of_a_fit(tmp_path, rows, capsys):
    x, y = rows
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.ModelCheckpoint(
        str(tmp_path / "ckpt-{epoch}"), save_weights_only=True)])
    weights, loss = model.get_weights(), model.evaluate(x, y, verbose=0)
    model.set_weights([np.zeros_like(weight) for weight in weights])
    tf.keras.utils.SidecarEvaluator(model, tf.data.Dataset.from_tensor_slices((x, y)).batch(8), str(tmp_path),
                                    max_evaluations=1).start()
    np.testing.assert_allclose(float(capsys.readouterr().out.split("loss=")[1]), loss, rtol=1e-5)


def test_tensorboard_writes_weights_and_batches(tmp_path, rows):
    x, y = rows
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), name="only")])
    model.compile("sgd", "mse")
    model.fit(x, y, batch_size=10, epochs=2, verbose=0, callbacks=[
        tf.keras.callbacks.TensorBoard(str(tmp_path), histogram_freq=1, update_freq=2)])
    tags = [entry["tag"] for path in (tmp_path / "train").iterdir() for entry in estoc.EventReader(str(path))]
    assert tags.count("only/kernel_0") == 2 and tags.count("epoch_loss") == 2
    assert tags.count("batch_loss") == 2 * -(-len(x) // 10) // 2


def test_shapes_of_random_numbers_are_known_when_they_are_run():
    @tf.function
    def noise(x):
        rows = tf.shape(x)[0]
        return tf.random.normal([rows, 3]), tf.keras.backend.random_normal(shape=(rows, tf.shape(x)[1]))

    for n in (2, 5):
        normal, of_keras = noise(tf.ones([n, 4]))
        assert normal.shape == (n, 3) and of_keras.shape == (n, 4) and float(tf.math.reduce_std(normal)) > 0


def test_functions_are_run_eagerly_on_demand():
    seen = []
    function = tf.function(lambda x: seen.append(x) or x + 1.0)
    assert tf.config.functions_run_eagerly() is False
    tf.config.run_functions_eagerly(True)
    try:
        assert float(function(tf.constant(1.0))) == 2.0 and float(seen[0]) == 1.0
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.mark.skipif(not text(lib.est_device_missing()), reason="there is a GPU")
def test_replicas_for_gpus_that_are_not_there(caplog):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        strategy = tf.distribute.MirroredStrategy(devices=["/gpu:0", "/gpu:1"])
    assert strategy.num_replicas_in_sync == 2 and "not visible" in caplog.text


def test_devices_of_this_machine():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    try:
        assert tf.distribute.MirroredStrategy().num_replicas_in_sync == 2
        names = [device.name for device in tf.config.list_logical_devices()]
        assert tf.distribute.MirroredStrategy(names).num_replicas_in_sync == 2
        assert tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"], tf.distribute.HierarchicalCopyAllReduce(
            num_packs=2)).num_replicas_in_sync == 2
    finally:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()])
    assert tf.config.list_physical_devices("GPU") == [] == tf.config.experimental.list_physical_devices("GPU")
    with pytest.raises(ValueError, match="cannot be hidden"):
        tf.config.set_visible_devices([], "CPU")


def test_a_called_map_warns_and_raises_what_it_raised(caplog):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        doubled = tf.data.Dataset.range(3).map(lambda n: n * 2 if n > 0 else n)
    assert [int(n) for n in doubled] == [0, 2, 4] and "called for every element" in caplog.text
    assert [int(n) for n in tf.data.Dataset.range(4).filter(lambda n: True if n % 2 == 0 else False)] == [0, 2]
    broken = tf.data.Dataset.range(3).interleave(lambda n: tf.data.Dataset.range(1 // int(2 - n)))
    with pytest.raises(ZeroDivisionError):
        list(broken)
    with pytest.raises(TypeError, match="must return a Dataset"):
        tf.data.Dataset.range(3).flat_map(lambda n: n)


def test_an_example_is_filled_in():
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend([1.5])
    example.features.feature["n"].int64_list.value.append(3)
    example.features.feature["s"].bytes_list.value.append(b"word")
    assert example.SerializeToString() == estoc.io.serialize_example(
        {"x": np.float32([1.5]), "n": np.int64([3]), "s": np.array([b"word"])})
    example.features.feature["empty"]
    with pytest.raises(ValueError, match="without values"):
        example.SerializeToString()


# --- Keras ------------------------------------------------------------------------------------------------------------


def test_legacy_optimizers_train_keras_models(rows):
    x, y = rows
    losses = []
    for optimizer in (tf.keras.optimizers.legacy.Adagrad(0.1), tf.keras.optimizers.Adagrad(0.1)):
        model = tf.keras.Sequential([tf.keras.layers.InputLayer(input_shape=(3,)),
                                     tf.keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(optimizer, "mse")
        history = model.fit(x, y.astype(np.float32), epochs=3, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert losses[0][-1] < losses[0][0]


def test_the_resolver_of_workers_is_that_of_tf_config():
    config = {"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 0}}
    program = ("import estoc.tf as tf\n"
               "resolver = tf.distribute.MultiWorkerMirroredStrategy().cluster_resolver\n"
               "print(resolver.task_type, resolver.task_id, resolver.cluster_spec().as_dict())")
    found = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, TF_CONFIG=json.dumps(config)),
                           stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "worker 0 {'worker': ['localhost:1']}"


def test_a_backup_within_epochs_and_for_a_second_model(tmp_path):
    """A fit that was interrupted goes on where it was, in a model that the program makes again."""
    x = np.random.RandomState(0).randn(64, 3).astype(np.float32)

    def model(name=None):
        made = tf.keras.Sequential([tf.keras.layers.Dense(4, "relu", input_shape=(3,)), tf.keras.layers.Dense(1)])
        made.set_weights([np.full(w.shape, 0.1, np.float32) for w in made.get_weights()])
        made.compile("adam", "mse", metrics=["mae"])
        return made

    class Interrupt(tf.keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.batches = 0

        def on_train_batch_end(self, batch, logs=None):
            self.batches += 1
            if self.batches == 14:
                raise RuntimeError("interrupted")

    def fit(made, *callbacks):
        return made.fit(x, x[:, :1], epochs=4, batch_size=8, shuffle=False, callbacks=list(callbacks),
                        verbose=0).history

    for freq in ("epoch", 5):
        def backup():
            return tf.keras.callbacks.BackupAndRestore(tmp_path / f"backup-{freq}", save_freq=freq)

        whole = model()
        history = fit(whole)
        with pytest.raises(RuntimeError, match="interrupted"):
            fit(model(), backup(), Interrupt())
        again = model()
        assert fit(again, backup()) == history
        assert all((a == b).all() for a, b in zip(again.get_weights(), whole.get_weights()))
        assert not (tmp_path / f"backup-{freq}").exists()


def test_equality_of_tensors_and_variables():
    x, y = tf.Variable(0.0), tf.Variable(0.0)
    assert (x == y).numpy() and x is not y and not (x != y).numpy() and (x == 0.0).numpy()
    with pytest.raises(TypeError, match="use tensor.ref"):
        {tf.constant(2.0)}
    keys = {x.ref(), tf.constant(2.0).ref()}
    assert x.ref() in keys and y.ref() not in keys and x.ref().deref() is x
    tf.compat.v1.disable_tensor_equality()
    try:
        a = tf.constant(1.0)
        assert (x == y) is False and (a == a) is True and (a != tf.constant(1.0)) is True and len({a, x}) == 2
    finally:
        tf.compat.v1.enable_tensor_equality()
    assert tf.constant([1, 2]) is not None and (tf.constant([1, 2]) == [1, 3]).numpy().tolist() == [True, False]


def test_specs_and_datasets_show_dtypes_of_tensorflow():
    dataset = tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": ["x", "y"]})
    assert repr(dataset) == ("<Dataset element_spec={'a': TensorSpec(shape=(), dtype=tf.int32, name=None), "
                             "'b': TensorSpec(shape=(), dtype=tf.string, name=None)}>")


def test_records_written_by_a_dataset_and_read_as_features(tmp_path):
    def example(i):
        return tf.train.Example(features=tf.train.Features(feature={
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 0.5])),
            "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w\0"] * i)),
            "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[i]))})).SerializeToString()

    path = str(tmp_path / "examples")
    tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.from_tensor_slices([example(i) for i in range(3)]))
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "words": tf.io.VarLenFeature(tf.string),
            "y": tf.io.FixedLenFeature([], tf.int64)}
    batches = tf.data.experimental.make_batched_features_dataset(path, 2, spec, label_key="y", num_epochs=1,
                                                                 shuffle=False)
    found = [(features["x"].numpy().tolist(), [row.tolist() for row in features["words"].rows()], y.numpy().tolist())
             for features, y in batches]
    assert found == [([[0, 0.5], [1, 1.5]], [[], [b"w\0"]], [0, 1]), ([[2, 2.5]], [[b"w\0"] * 2], [2])]
    with pytest.raises(TypeError, match="must be of strings"):
        tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.range(3))
    names = tf.data.Dataset.from_tensor_slices([path, path])
    numbers = tf.data.Dataset.range(4).apply(tf.data.experimental.shuffle_and_repeat(4, 2, 1)).apply(
        tf.data.experimental.map_and_batch(lambda n: n * 2, 8))
    assert sorted(next(iter(numbers)).numpy().tolist()) == [0, 0, 2, 2, 4, 4, 6, 6]
    assert len(list(tf.data.TFRecordDataset(names))) == 6


def test_a_feature_as_a_message():
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 300]))
    assert feature.SerializeToString() == b"\x1a\x05\n\x03\x01\xac\x02"
    assert tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x" * 200])).SerializeToString() == (
        b"\n\xcb\x01\n\xc8\x01" + b"x" * 200)
    assert tf.train.Feature().SerializeToString() == b""


def test_numeric_columns_are_of_numbers():
    with pytest.raises(ValueError, match="dtype must be convertible to float"):
        tf.feature_column.numeric_column("x", dtype=tf.string)


def test_columns_of_a_table_are_matrices_for_models():
    pandas = pytest.importorskip("pandas")

    class Stacked(tf.keras.Model):
        def call(self, x):
            return tf.stack([x[key] for key in sorted(x)], -1)

    table = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert Stacked().predict(dict(table), verbose=0).shape == (2, 1, 2)  # as in TensorFlow
    assert Stacked().predict({key: table[key].to_numpy() for key in table}, verbose=0).shape == (2, 2)


@pytest.mark.parametrize("value, text", [
    (lambda: tf.constant(0.1), "0.1"), (lambda: tf.constant(1e-7), "1e-07"), (lambda: tf.constant(1 / 3), "0.333333343"),
    (lambda: tf.constant(123456789.0), "123456792"), (lambda: tf.constant(1 / 3, tf.float64), "0.33333333333333331"),
    (lambda: tf.constant([0.1, 1 / 3, np.inf, np.nan]), "[0.1 0.333333343 inf nan]"),
    (lambda: tf.constant([[1, -2], [30, 4]]), "[[1 -2]\n [30 4]]"), (lambda: tf.range(10), "[0 1 2 ... 7 8 9]"),
    (lambda: tf.constant([[[1], [2]], [[3], [4]]]), "[[[1]\n  [2]]\n\n [[3]\n  [4]]]"),
    (lambda: tf.constant([True, False]), "[1 0]"), (lambda: tf.zeros([2, 0]), "[\n ...]"),
    (lambda: tf.constant([["a", "é"]]), '[["a" "é"]]'), (lambda: tf.constant("word"), "word"),
    (lambda: [tf.constant("x"), "y", np.array([1.5, 2.0])], "[\"x\", 'y', array([1.5, 2. ])]"),
    (lambda: {"b": tf.constant(2.5), "a": (1,)}, "{'a': (1,), 'b': 2.5}"), (lambda: 1.5, "1.5")])
def test_what_is_printed(value, text, tmp_path):
    """As TensorFlow 2.15 prints it."""
    path = tmp_path / "printed"
    tf.print(value(), output_stream=f"file://{path}")
    assert path.read_text(encoding="utf-8") == text + "\n"


def test_a_range_is_saved_and_loaded(tmp_path):
    numbers = tf.data.Dataset.range(4)
    for i, (dataset, found) in enumerate([(numbers, [0, 1, 2, 3]), (numbers.batch(2), [[0, 1], [2, 3]]),
                                          (numbers.take(1).concatenate(numbers.take(2)), [0, 0, 1])]):
        dataset.save(tmp_path / str(i))
        assert [value.numpy().tolist() for value in tf.data.Dataset.load(tmp_path / str(i))] == found
    ragged = numbers.map(lambda n: tf.fill([n], n)).ragged_batch(2)
    ragged.save(tmp_path / "ragged")
    assert [rows.to_list() for rows in tf.data.Dataset.load(tmp_path / "ragged")] == [[[], [1]], [[2, 2], [3, 3, 3]]]


def test_tags_of_summaries_begin_with_their_scopes(tmp_path):
    @tf.function
    def traced(x):
        for _ in range(2):
            with tf.name_scope("inner"):
                tf.summary.scalar("t", x, step=1)
        tf.summary.scalar("u", x, step=1)
        return x

    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        tf.summary.scalar("plain", 1.0, step=1)
        for _ in range(2):
            with tf.name_scope("train"):
                tf.summary.scalar("loss", 1.0, step=1)
                with tf.name_scope("deep") as deep:
                    tf.summary.scalar("loss", 1.0, step=1)
        with tf.name_scope("test"), tf.name_scope(deep):
            tf.summary.scalar("again", 1.0, step=1)
        with tf.name_scope("test"), tf.name_scope(""):
            tf.summary.scalar("none", 1.0, step=1)
        with tf.name_scope("loop"):
            traced(tf.constant(1.0))
        traced(tf.constant(1.0))
    writer.close()
    tags = [value.tag for event in tf.compat.v1.train.summary_iterator(str(next(tmp_path.iterdir())))
            for value in event.summary.value]
    of_function = ["inner/t", "inner_1/t", "u"]
    assert tags == ["plain", *["train/loss", "train/deep/loss"] * 2, "train/deep/again", "none", *of_function * 2]


@pytest.mark.parametrize("before, shown", [("", "{0}:tensorflow:{1}"), ("logging.basicConfig(format='root %(message)s')", "root {1}")])
def test_levels_of_the_logger_show_lines(before, shown):
    program = f"""
import logging
{before}
import estoc.tf as tf
logger = tf.get_logger()
logger.warning("first"); logger.info("hidden")
logging.getLogger("tensorflow").setLevel("INFO"); logger.info("second")
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.WARN); logger.info("hidden")
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO); logger.info("third")
"""
    lines = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr.splitlines()
    assert lines == [shown.format(*line) for line in (("WARNING", "first"), ("INFO", "second"), ("INFO", "third"))]


def test_lists_are_looked_up_in_a_table_that_changes():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a"], [1])
    assert table.lookup(["a", "q"]).numpy().tolist() == [1, -1] and table[["a"]].numpy().tolist() == [1]
    numbers = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
    numbers.insert([1], [2.0])
    assert numbers.lookup([1, 2]).numpy().tolist() == [2, 0]
    with pytest.raises(AttributeError, match="lite.*tf.saved_model.save"):
        tf.lite
    with pytest.raises(AttributeError, match="no complex numbers"):
        tf.complex
