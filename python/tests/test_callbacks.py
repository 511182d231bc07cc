# SPDX-License-Identifier: Apache-2.0
"""Every place where C calls Python: what the function raises comes out of the outer call as it is, with its traceback,
nothing is left behind, and the next call works. Also what Ctrl-C does to each of the long calls."""
import faulthandler
import gc
import os
import re
import subprocess
import sys
import textwrap
import traceback

import numpy as np
import pytest

import estoc
import estoc.tf as tf
from estoc import _lib
from estoc._lib import Handle

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
X = np.random.RandomState(0).randn(16, 3).astype(np.float32)
Y = (X[:, :1] > 0).astype(np.float32)
SPEC = estoc.TensorSpec([], estoc.int64)
KINDS = {}


class Mistake(Exception):
    pass


class Raising:
    """A function that raises; `after` calls of which it gives the value first."""

    def __init__(self, exception, value=None, after=0):
        self.exception, self.value, self.left = exception, value, after

    def __call__(self, *arguments, **named):
        return mistake(self)


def mistake(raising):
    if raising.left > 0:
        raising.left -= 1
        return raising.value
    raise raising.exception("from the callback")


def kind(*callbacks):
    """A way to have C call `bad`, by these functions of trampolines.cdef. A generator's name ends with its cases."""

    def define(function):
        KINDS[function.__name__] = (callbacks, function)
        return function

    return define


def each(names, *callbacks):
    """The same for a function that is also given each of the names."""

    def define(function):
        for name in names.split():
            KINDS[f"{function.__name__}_{name}"] = (callbacks, lambda bad, folder, name=name: function(bad, folder, name))
        return function

    return define


def rows():
    return estoc.Dataset.from_tensor_slices(({"x": X}, Y[:, 0].astype(np.int64)))


def model_fn(features, labels, mode):
    logits = estoc.layers.dense(features["x"], 1, kernel_initializer="zeros")
    if mode == estoc.ModeKeys.PREDICT:
        return estoc.EstimatorSpec(mode, {"p": logits})
    loss = estoc.losses.sigmoid_cross_entropy(estoc.ops.expand_dims(labels, -1), logits)
    train_op = estoc.optimizers.SGD(0.1).minimize(loss) if mode == estoc.ModeKeys.TRAIN else None
    return estoc.EstimatorSpec(mode, {"p": logits}, loss, train_op)


def trained(folder):
    estimator = estoc.Estimator(model_fn, folder)
    estimator.train(lambda: rows().batch(8), steps=1)
    return estimator


# --- datasets ---------------------------------------------------------------------------------------------------------


@kind("py_on_generator_open")
def generator_opened(bad, folder):
    list(estoc.Dataset.from_generator(bad, SPEC))


@kind("py_on_generator_next", "py_on_generator_close")
def generator(bad, folder):
    def numbers():
        yield 1
        bad()

    list(estoc.Dataset.from_generator(numbers, SPEC).shuffle(4).batch(2).prefetch(2))


@kind("py_on_arrow_open")
def table(bad, folder):
    read = estoc.data.from_arrow(Raising(bad.exception, Table(), 1))
    for _ in range(3):  # the first call asks for columns
        list(read)


class Table:
    """Enough of a table for its columns to be known."""

    def __arrow_c_stream__(self, requested=None):
        import pyarrow
        return pyarrow.table({"x": [1, 2]}).__arrow_c_stream__(requested)


@kind("py_on_gradient")
def gradient_of_a_program(bad, folder):
    double = tf.custom_gradient(lambda x: (x * 2.0, bad))
    with tf.Graph().as_default():
        x = tf.constant(1.0)
        tf.gradients(double(x), x)


@kind("py_on_map")
def mapped(bad, folder):
    list(estoc.Dataset.range(3).map(bad, element_spec=SPEC))


@kind("py_on_map")
def mapped_by_threads(bad, folder):
    list(estoc.Dataset.range(3).map(bad, element_spec=SPEC, workers=2).prefetch(2))


@kind("py_on_filter")
def filtered(bad, folder):
    list(estoc.Dataset.range(3).filter(bad))


@kind()
def mapped_as_graph(bad, folder):
    list(estoc.Dataset.range(3).map_graph(bad))


@kind()
def mapped_by_tf(bad, folder):
    list(tf.data.Dataset.range(3).map(bad))


@kind("py_on_interleave")
def interleaved(bad, folder):
    list(tf.data.Dataset.range(3).interleave(bad))


@kind("py_on_map")
def py_function(bad, folder):
    list(tf.data.Dataset.range(3).map(lambda x: tf.py_function(bad, [x], tf.int64)))


# --- estimators -------------------------------------------------------------------------------------------------------


@each("train evaluate predict", "py_on_input")
def input_fn(bad, folder, call):
    estimator = trained(folder)
    if call == "train":
        estimator.train(bad, steps=1)
    elif call == "evaluate":
        estimator.evaluate(bad)
    else:
        list(estimator.predict(bad))


@kind("py_on_model")
def model(bad, folder):
    estoc.Estimator(lambda features, labels, mode: bad(), folder).train(lambda: rows().batch(8), steps=1)


@each("begin initialize after_create_session before_run after_run end", "py_on_hook")
def hook(bad, folder, method):
    own = type("Bad", (estoc.Hook,), {method: bad})()
    estoc.Estimator(model_fn, folder).train(lambda: rows().batch(8), steps=2, hooks=[own])


@each("begin before_run after_run end", "py_on_hook")
def hook_of_evaluation(bad, folder, method):
    trained(folder).evaluate(lambda: rows().batch(8), hooks=[type("Bad", (estoc.Hook,), {method: bad})()])


@each("begin before_run after_run", "py_on_hook")
def hook_of_tf(bad, folder, method):
    own = type("Bad", (tf.compat.v1.train.SessionRunHook,), {method: bad})()
    tf.estimator.Estimator(model_fn_of_tf, str(folder)).train(lambda: rows().batch(8), steps=2, hooks=[own])


@kind("py_on_log_format")
def formatter(bad, folder):
    hook = estoc.hooks.logging_hook({"loss": "Mean"}, 1, formatter=bad)
    estoc.Estimator(model_fn_of_tf, folder).train(lambda: rows().batch(8), steps=2, hooks=[hook])


def model_fn_of_tf(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features["x"], 1)
    loss = tf.reduce_mean(tf.square(logits - tf.cast(tf.expand_dims(labels, -1), tf.float32)))
    step = tf.compat.v1.train.get_global_step()
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@each("begin before_save after_save end", "py_on_listener")
def listener(bad, folder, method):
    own = type("Bad", (estoc.SavingListener,), {method: bad})()
    estoc.Estimator(model_fn, folder).train(lambda: rows().batch(8), steps=2, saving_listeners=[own])


@kind("py_on_metrics")
def added_metrics(bad, folder):
    trained(folder).add_metrics(bad).evaluate(lambda: rows().batch(8))


@kind("py_on_export")
def exporter(bad, folder):
    own = type("Bad", (estoc.Exporter,), {"export": bad})("bad")
    estoc.train_and_evaluate(trained(folder), estoc.TrainSpec(lambda: rows().batch(8), 2),
                             estoc.EvalSpec(lambda: rows().batch(8), None, exporters=own))


@kind("py_on_compare")
def comparison_of_the_best(bad, folder):
    serving = estoc.ServingInput(raw={"x": estoc.TensorSpec([None, 3], estoc.float32)})
    best, estimator = estoc.BestExporter("best", serving, compare_fn=bad), estoc.Estimator(model_fn, folder)
    for steps in (1, 2):  # the first evaluation has nothing to compare with
        estoc.train_and_evaluate(estimator, estoc.TrainSpec(lambda: rows().batch(8).repeat(), steps),
                                 estoc.EvalSpec(lambda: rows().batch(8), None, exporters=best))


@kind()
def serving_input_receiver(bad, folder):
    column = tf.feature_column.numeric_column("x", 3)
    estimator = tf.estimator.LinearClassifier([column], str(folder))
    estimator.train(lambda: rows().batch(8), steps=1)
    estimator.export_saved_model(str(folder / "export"), bad)


@kind("py_on_serving")
def serving_input_receiver_in_the_export(bad, folder):
    column = tf.feature_column.numeric_column("x", 3)
    estimator = tf.estimator.LinearClassifier([column], str(folder))
    estimator.train(lambda: rows().batch(8), steps=1)
    calls = []

    def receiver():
        calls.append(1)
        if len(calls) > 1:  # the first call tells what the placeholders are
            bad()
        x = tf.compat.v1.placeholder(tf.float32, [None, 3])
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    estimator.export_saved_model(str(folder / "export"), receiver)


@kind("py_on_normalize")
def normalizer(bad, folder):
    column = estoc.feature_column.numeric_column("x", 3, normalizer_fn=bad)
    estoc.LinearClassifier([column], folder).train(lambda: rows().batch(8), steps=1)


# --- graphs -----------------------------------------------------------------------------------------------------------


@kind("py_on_initialize")
def initializer(bad, folder):
    x = estoc.Graph().placeholder("x", estoc.float32, [None, 3])
    estoc.layers.dense(x, 2, kernel_initializer=bad)


@kind()
def activation(bad, folder):
    estoc.layers.dense(estoc.Graph().placeholder("x", estoc.float32, [None, 3]), 2, activation=bad)


@kind("py_on_device")
def device_function(bad, folder):
    graph = tf.Graph()
    with graph.as_default(), tf.device(bad):
        tf.compat.v1.get_variable("v", [2])


@kind()
def function_that_is_traced(bad, folder):
    tf.function(lambda x: bad())(tf.constant(1.0))


def two_replicas():
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


@kind("py_on_replica")
def replica(bad, folder):
    strategy = two_replicas()
    tf.function(lambda: strategy.run(bad))()


@kind("py_on_merge")
def merge_call(bad, folder):
    strategy = two_replicas()
    tf.function(lambda: strategy.run(lambda: tf.distribute.get_replica_context().merge_call(bad)))()


@kind()
def datasets_from_function(bad, folder):
    list(two_replicas().distribute_datasets_from_function(bad))


# --- Keras ------------------------------------------------------------------------------------------------------------


def network(**options):
    made = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,), **options)])
    made.compile("sgd", "mse")
    return made


def fit(made, **options):
    made.fit(X, Y, batch_size=8, epochs=2, verbose=0, validation_data=(X, Y), **options)


@each("on_train_begin on_epoch_begin on_train_batch_begin on_train_batch_end on_epoch_end on_train_end", "py_on_hook")
def callback(bad, folder, method):
    fit(network(), callbacks=[type("Bad", (tf.keras.callbacks.Callback,), {method: bad})()])


@each("on_test_begin on_test_batch_begin on_test_batch_end on_test_end", "py_on_hook")
def callback_of_evaluate(bad, folder, method):
    network().evaluate(X, Y, verbose=0, callbacks=[type("Bad", (tf.keras.callbacks.Callback,), {method: bad})()])


@kind("py_on_learning_rate")
def learning_rate(bad, folder):
    fit(network(), callbacks=[tf.keras.callbacks.LearningRateScheduler(bad)])


@kind("py_on_loss")
def loss(bad, folder):
    made = network()
    made.compile("sgd", bad)
    fit(made)


@kind()
def metric(bad, folder):
    made = network()
    made.compile("sgd", "mse", metrics=[bad])
    fit(made)


@kind("py_on_network")
def call_of_a_layer(bad, folder):
    layer = type("Bad", (tf.keras.layers.Layer,), {"call": lambda self, x: bad()})()
    made = tf.keras.Sequential([layer, tf.keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    fit(made)


@kind()
def train_step(bad, folder):
    made = type("Bad", (tf.keras.Sequential,), {"train_step": lambda self, data: bad()})([tf.keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    fit(made)


@kind()
def schedule(bad, folder):
    own = type("Bad", (tf.keras.optimizers.schedules.LearningRateSchedule,), {"__call__": lambda self, step: bad()})()
    optimizer, v = tf.keras.optimizers.SGD(own), tf.Variable(1.0)
    tf.function(lambda: optimizer.apply_gradients([(tf.constant(1.0), v)]))()


@kind()
def initializer_of_keras(bad, folder):
    fit(network(kernel_initializer=bad))


# --- the test ---------------------------------------------------------------------------------------------------------


def run(function, exception, folder):
    """Which functions the exception's traceback names, and whether it is the one that was raised."""
    try:
        function(Raising(exception), folder)
    except exception as caught:
        assert str(caught) == "from the callback"
        return [frame.name for frame in traceback.extract_tb(caught.__traceback__)]
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("exception", [Mistake, KeyboardInterrupt])
@pytest.mark.parametrize("name", sorted(KINDS))
def test_what_is_raised_comes_out(name, exception, tmp_path):
    function = KINDS[name][1]
    _lib._raised.clear()
    faulthandler.dump_traceback_later(120, exit=True)  # a call that hangs
    try:
        counts = []
        for attempt in ("first", "second", "third"):
            folder = tmp_path / attempt
            folder.mkdir()
            assert "mistake" in run(function, exception, folder)
            gc.collect()
            counts.append(len(Handle._objects))
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert counts[2] <= counts[1], "objects that C knew are left"
    if name != "mapped_by_threads":  # where several elements may fail, and one exception comes out
        assert not any(isinstance(raised, exception) for raised in _lib._raised.values())
    assert sum(int(x) for x in estoc.Dataset.range(3)) == 3 and float(tf.constant(1.0) + 2.0) == 3.0


def test_every_function_that_C_calls_is_here():
    with open(os.path.join(ROOT, "python", "native", "trampolines.cdef"), encoding="utf-8") as file:
        known = set(re.findall(r"\b(py_on_\w+)\(", file.read()))
    tested = {name for callbacks, _ in KINDS.values() for name in callbacks}
    # logging deals with what its handlers raise; the others call functions of the package alone
    assert known - tested == {"py_on_log", "py_on_metric", "py_on_graph_freed"} and tested <= known


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

INTERRUPTED = {
    "fit": """
        class Send(tf.keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if batch == 2:
                    os.kill(os.getpid(), signal.SIGINT)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
        model.compile("sgd", "mse")
        rows = tf.data.Dataset.from_tensors((np.ones([4, 3], np.float32), np.ones([4, 1], np.float32))).repeat()
        model.fit(rows, steps_per_epoch=10**9, verbose=0, callbacks=[Send()])
    """,
    "predict": """
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
        def endless():
            for n in itertools.count():
                if n == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                yield np.ones([4, 3], np.float32)
        model.predict(tf.data.Dataset.from_generator(endless, output_signature=tf.TensorSpec([4, 3], tf.float32)))
    """,
    "a session": """
        v1 = tf.compat.v1
        with tf.Graph().as_default():
            more = v1.assign_add(v1.train.get_or_create_global_step(), 1)
            with v1.train.MonitoredTrainingSession() as session:
                for n in itertools.count():
                    session.run(more)
                    if n == 3:
                        os.kill(os.getpid(), signal.SIGINT)
    """,
    "coordinator.join": """
        with estoc.LocalCluster(ps=1, workers=1) as cluster:
            strategy = tf.distribute.ParameterServerStrategy(cluster.resolver)
            coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
            with strategy.scope():
                v = tf.Variable(np.ones((400, 400), np.float32))
            @tf.function
            def step():
                x = v
                for _ in range(20):
                    x = tf.matmul(x, v) * 0.001
                return tf.reduce_sum(x)
            coordinator.schedule(step).fetch()
            for _ in range(5000):  # minutes
                coordinator.schedule(step)
            def send():
                joining.wait()
                os.kill(os.getpid(), signal.SIGINT)
            joining = threading.Event()
            threading.Thread(target=send, daemon=True).start()
            joining.set()
            coordinator.join()
    """,
    "a worker that waits for another": """
        other = socket.create_server(("127.0.0.1", 0))
        with socket.create_server(("127.0.0.1", 0)) as own:
            addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in (own, other)]
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}})
        def send():
            other.accept()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=send, daemon=True).start()
        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            v = tf.Variable(1.0)
        tf.function(lambda: v.assign_add(1.0))()
    """,
}


@pytest.mark.parametrize("name", sorted(INTERRUPTED))
def test_ctrl_c(name):
    program = "\n".join([
        "import itertools, json, os, signal, socket, threading", "import numpy as np", "import estoc, estoc.tf as tf",
        "signal.signal(signal.SIGINT, signal.default_int_handler)", "try:",
        textwrap.indent(textwrap.dedent(INTERRUPTED[name]), "    "), "except KeyboardInterrupt:", "    print('stopped')"])
    done = subprocess.run([sys.executable, "-c", program], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120)
    assert done.stdout == "stopped\n" and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("is_python", [False, True], ids=["C", "train_step"])
def test_callbacks_know_the_epochs_and_steps(is_python):
    class Own(tf.keras.Sequential):
        def train_step(self, data):
            return super().train_step(data)

    class Notes(tf.keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.found = []

        def note(self, logs=None):
            self.found.append((self.params["epochs"], self.params["steps"], self.params["verbose"]))

        on_train_begin = on_test_begin = on_predict_begin = note

    x = np.zeros((64, 4), np.float32)
    rows = tf.data.Dataset.from_tensor_slices((x, x))
    model, notes = (Own if is_python else tf.keras.Sequential)([tf.keras.layers.Dense(4, input_shape=(4,))]), Notes()
    model.compile("sgd", "mse")
    for given, named, steps in (
            ((x, x), {}, 2), ((x, x), {"batch_size": 10, "validation_split": 0.25}, 5), ((rows.batch(16),), {}, 4),
            ((rows.batch(16).filter(lambda a, b: True),), {}, None), ((rows.repeat().batch(16),), {"steps_per_epoch": 3}, 3)):
        notes.found = []
        history = model.fit(*given, epochs=2, verbose=0, callbacks=[notes], **named)
        assert history.params == {"epochs": 2, "steps": steps, "verbose": 0} and set(notes.found) == {(2, steps, 0)}
    notes.found = []
    model.evaluate(rows.batch(16), steps=2, verbose=0, callbacks=[notes])
    model.predict(x, batch_size=10, verbose=0, callbacks=[notes])
    assert notes.found == [(1, 2, 0), (1, 7, 0)]


def test_a_csv_file_with_another_separator_and_appended(tmp_path):
    """As of TensorFlow 2.15.1, which has columns of the validation also where there is none."""
    model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(tf.keras.optimizers.SGD(0.0), "mse")
    x = np.ones((2, 1), np.float32)
    logger, path = tf.keras.callbacks.CSVLogger, str(tmp_path / "log")
    model.fit(x, x, epochs=2, verbose=0, callbacks=[logger(path, separator=";")])
    model.fit(x, x, verbose=0, callbacks=[logger(path, separator=";", append=True)])
    with open(path, encoding="utf-8") as file:
        assert file.read() == "epoch;loss;val_loss\n0;1.0;NA\n1;1.0;NA\n0;1.0;NA\n"
    model.fit(x, x, validation_data=(x, x), verbose=0, callbacks=[logger(path, "\t")])
    with open(path, encoding="utf-8") as file:
        assert file.read() == "epoch\tloss\tval_loss\n0\t1.0\t1.0\n"


def test_logs_are_in_the_order_of_metrics(capsys):
    """Of metrics that are names and objects, as TensorFlow gives them."""
    want, seen = ["loss", "z", "mse", "a"], []

    class Seen(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append(list(logs))

        def on_epoch_end(self, epoch, logs=None):
            seen.append(list(logs))

        def on_train_end(self, logs=None):
            seen.append(list(logs))

        def on_test_batch_end(self, batch, logs=None):
            seen.append(list(logs))

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=[tf.keras.metrics.MeanAbsoluteError(name="z"), "mse",
                                         tf.keras.metrics.MeanSquaredError(name="a")])
    x, y = np.ones((4, 2), "f"), np.ones((4, 1), "f")
    both = want + ["val_" + name for name in want]
    history = model.fit(x, y, verbose=2, callbacks=[Seen()], validation_data=(x, y))
    assert seen == [want, want, both, both] and list(history.history) == both
    model.evaluate(x, y, verbose=2, callbacks=[Seen()])
    assert seen[4:] == [want]
    shown = capsys.readouterr().out
    places = [shown.index(f" {name}: ") for name in both]
    assert places == sorted(places)
