# SPDX-License-Identifier: Apache-2.0
"""tf.saved_model.save and load, Model.save and load_model; make interop has TensorFlow run what is written."""
import os
import subprocess
import time
import zipfile

import numpy as np
import pytest

import estoc
import estoc.tf as tf
from objects import data, set_weights
from test_checkpoint import TENSORFLOW, with_tensorflow

K = tf.keras


class Holder(tf.Module):
    """Functions over a variable and a layer."""

    def __init__(self):
        super().__init__()
        self.v = tf.Variable([[1.0], [2.0], [0.5], [-1.0]], name="v")
        self.dense = K.layers.Dense(2, name="out")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def __call__(self, x):
        return self.dense(tf.matmul(x, self.v))

    @tf.function
    def pair(self, b, a):
        return b - a, b * self.v[0, 0]

    @tf.function
    def named(self, a):
        return {"double": a * 2.0, "v": self.v + a}


def test_functions_and_signatures(tmp_path):
    holder, (x, _) = Holder(), data()
    want = holder(x).numpy()
    pair = holder.pair(tf.constant([3.0, 4.0]), tf.constant([1.0, 1.0]))
    holder.named(tf.constant(2.0))
    scale = holder.named.get_concrete_function(tf.TensorSpec([], tf.float32, name="by"))
    tf.saved_model.save(holder, tmp_path / "m", signatures={"serving_default": holder.__call__, "scale": scale})
    holder.v.assign(holder.v * 0.0)
    loaded = tf.saved_model.load(tmp_path / "m")
    assert tf.saved_model.contains_saved_model(tmp_path / "m") and sorted(loaded.signatures) == ["scale",
                                                                                                "serving_default"]
    np.testing.assert_allclose(loaded(x), want, rtol=1e-6)
    np.testing.assert_allclose(loaded.signatures["serving_default"](x=x)["output_0"], want, rtol=1e-6)
    again = loaded.pair(tf.constant([3.0, 4.0]), tf.constant([1.0, 1.0]))
    assert isinstance(again, tuple)
    for a, b in zip(again, pair):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(loaded.pair(tf.constant([3.0, 4.0]), a=tf.constant([1.0, 1.0]))[0], pair[0])
    named = loaded.named(tf.constant(2.0))
    assert float(named["double"]) == 4 and named["v"].numpy().ravel().tolist() == [3, 4, 2.5, 1]
    assert float(loaded.signatures["scale"](by=tf.constant(2.0))["double"]) == 4
    with pytest.raises(ValueError, match="matching concrete function"):
        loaded.pair(tf.constant([1, 2]), tf.constant([1, 2]))
    inside = tf.function(lambda a: loaded.signatures["serving_default"](x=a)["output_0"])(x)
    np.testing.assert_allclose(inside, want, rtol=1e-6)
    single = Holder()
    single(x)
    tf.saved_model.save(single, tmp_path / "single")  # the only function with an input_signature
    assert list(tf.saved_model.load(tmp_path / "single").signatures) == ["serving_default"]


def test_what_cannot_be_saved(tmp_path):
    class Counter(tf.Module):
        def __init__(self):
            super().__init__()
            self.n = tf.Variable(0.0)

        @tf.function
        def step(self, by):
            self.n.assign_add(by)
            return self.n.value()

    counter = Counter()
    with pytest.raises(NotImplementedError, match="no function to write"):
        tf.saved_model.save(counter, tmp_path / "c")
    counter.step(tf.constant(1.0))
    with pytest.raises(ValueError, match="input_signature"):
        tf.saved_model.save(counter, tmp_path / "c", signatures=counter.step)
    with pytest.raises(ValueError, match="Expected a TensorFlow function"):
        tf.saved_model.save(counter, tmp_path / "c", signatures=print)
    assert not os.path.exists(tmp_path / "c")


def test_gradients_of_your_own_are_in_no_file(tmp_path):
    class Clipped(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec(None)])
        def call(self, x):
            @tf.custom_gradient
            def clip(y):
                return y * 1.0, lambda dy: tf.clip_by_norm(dy, 0.5)

            return clip(x) * 2.0

    tf.saved_model.save(Clipped(), tmp_path / "c", options=tf.saved_model.SaveOptions(experimental_custom_gradients=True))
    loaded, v = tf.saved_model.load(tmp_path / "c"), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = loaded.call(v * v)
    assert y.numpy() == 18
    with pytest.raises(NotImplementedError, match="gradients of its own"):
        tape.gradient(y, v)


def test_signature_in_replicas(tmp_path):
    holder, (x, _) = Holder(), data()
    want = holder(x[:5]).numpy()
    tf.saved_model.save(holder, tmp_path / "m")
    for strategy in (tf.distribute.OneDeviceStrategy("/cpu:0"), tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])):
        function = tf.saved_model.load(tmp_path / "m").signatures["serving_default"]
        batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x[:5]).batch(2))
        got = [part.numpy() for batch in batches for part in strategy.experimental_local_results(
            strategy.run(function, args=(batch,))["output_0"])]
        np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-6)  # also a replica without rows


def two_heads():
    a, b = K.Input((4,), name="a"), K.Input((4,), name="b")
    shared = K.layers.Dense(3, kernel_regularizer=K.regularizers.L2(0.01), activation=tf.nn.tanh)
    inner = K.Sequential([K.layers.Dense(2, input_shape=(3,)), K.layers.BatchNormalization()], name="inner")
    hidden = inner(shared(a) + shared(b)) * 2.0
    return K.Model({"a": a, "b": b}, [K.layers.Dense(1, name="price")(hidden), tf.reduce_mean(hidden, axis=1)])


def test_load_model_goes_on_training(tmp_path):
    x, y = data()
    model = K.Sequential([K.layers.Dense(3, activation="tanh", kernel_initializer=K.initializers.HeNormal(seed=3)),
                          K.layers.BatchNormalization(), K.layers.Dense(1)])
    model.compile(K.optimizers.Adam(K.optimizers.schedules.ExponentialDecay(0.05, 10, 0.5)), K.losses.Huber(),
                  metrics=["mae", K.metrics.RootMeanSquaredError()])
    model.fit(x, y, epochs=2, verbose=0)
    model.save(tmp_path / "m")
    loaded = K.models.load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))
    first = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    second = loaded.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    assert first.history == second.history and int(loaded.optimizer.iterations) == int(model.optimizer.iterations) == 6
    with tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"]).scope():
        elsewhere = K.models.load_model(tmp_path / "m")
    assert elsewhere.fit(x, y, batch_size=8, verbose=0).history["loss"][0] > 0
    plain = K.models.load_model(tmp_path / "m", compile=False)
    with pytest.raises(RuntimeError, match="compile"):
        plain.fit(x, y, verbose=0)

    model, rows = two_heads(), {"a": x, "b": x[::-1]}
    model.compile("sgd", {"price": "mse"})
    model.fit(rows, {"price": y}, verbose=0)
    model.save(tmp_path / "two")
    loaded = K.models.load_model(tmp_path / "two")
    assert [layer.name for layer in loaded.layers] == [layer.name for layer in model.layers]
    for a, b in zip(model.predict(rows, verbose=0), loaded.predict(rows, verbose=0)):
        np.testing.assert_array_equal(a, b)
    assert loaded.fit(rows, {"price": y}, shuffle=False, verbose=0).history == model.fit(
        rows, {"price": y}, shuffle=False, verbose=0).history


def test_load_model_refuses(tmp_path):
    class Own(K.layers.Layer):
        def call(self, x):
            return x * 2.0

    model = K.Sequential([K.layers.Dense(1, input_shape=(2,)), Own()])
    model.save(tmp_path / "own")
    with pytest.raises(ValueError, match="Unknown object: 'Own'"):
        K.models.load_model(tmp_path / "own")
    K.models.load_model(tmp_path / "own", custom_objects={"Own": Own})
    model.save(tmp_path / "own.keras")
    with pytest.raises(ValueError, match="Unknown object: 'Own'"):
        K.models.load_model(tmp_path / "own.keras")
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(tf.saved_model.load(tmp_path / "own")(x), model.predict(x, verbose=0))
    model.export(tmp_path / "export")
    with pytest.raises(NotImplementedError, match="not written by Model.save"):
        K.models.load_model(tmp_path / "export")
    with pytest.raises(OSError):
        K.models.load_model(tmp_path / "none")


def test_files_of_keras_are_refused(tmp_path):
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n more")
    with zipfile.ZipFile(tmp_path / "b.keras", "w") as archive:
        archive.writestr("config.json", "{}")
    model = K.Sequential([K.layers.Dense(1, input_shape=(2,))])
    for name in ("a.h5", "b.keras"):
        for load in (K.models.load_model, model.load_weights):
            with pytest.raises(NotImplementedError, match="load_weights reads"):
                load(tmp_path / name)
    model.save(tmp_path / "c.keras")
    before = (tmp_path / "c.keras").read_bytes()
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "c.keras", overwrite=False)
    assert (tmp_path / "c.keras").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.h5", "b.keras", "c.keras"]


def test_texts_are_in_no_saved_model(tmp_path):
    texts = np.array(["a b", "b"])
    model = K.Sequential([K.layers.TextVectorization(vocabulary=["a", "b"], output_mode="multi_hot"),
                          K.layers.Dense(1)])
    want = model.predict(texts, verbose=0)
    for write in (model.save, model.export):
        with pytest.raises(NotImplementedError, match="splits texts by operations"):
            write(tmp_path / "folder")
    model.save(tmp_path / "m.keras")
    np.testing.assert_array_equal(K.models.load_model(tmp_path / "m.keras").predict(texts, verbose=0), want)
    after = K.Sequential(model.layers[1:])
    rows = model.layers[0](texts)
    after(rows)
    after.export(tmp_path / "after")
    np.testing.assert_array_equal(tf.saved_model.load(tmp_path / "after").serve(rows), want)
    inputs = K.Input([1], dtype="string")
    functional = K.Model(inputs, model(inputs))
    np.testing.assert_array_equal(functional.predict(texts[:, None], verbose=0), want)
    with pytest.raises(NotImplementedError, match="splits texts by operations"):
        functional.export(tmp_path / "functional")


SCRIPT = """
import sys
import numpy as np
import tensorflow as tf
folder, x = sys.argv[1], np.load(sys.argv[1] + "/x.npy")
loaded = tf.saved_model.load(folder + "/holder")
results = {"holder": loaded.signatures["serving_default"](x=tf.constant(x))["output_0"],
           "scale": loaded.signatures["scale"](by=tf.constant(3.0))["v"]}
heads = tf.saved_model.load(folder + "/two").signatures["serving_default"](a=tf.constant(x), b=tf.constant(x[::-1]))
results["price"] = heads["price"]
np.savez(folder + "/theirs.npz", **{name: value.numpy() for name, value in results.items()})

class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(x[:4])

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def __call__(self, x):
        return {"product": tf.matmul(x, self.w), "sum": tf.reduce_sum(x) + self.w[0, 0]}

module = Module()
tf.saved_model.save(module, folder + "/module", signatures={"serving_default": module.__call__})
np.save(folder + "/product.npy", module(x)["product"].numpy())
"""


@with_tensorflow
def test_tensorflow_runs_what_is_written(tmp_path):
    holder, (x, y) = Holder(), data()
    scale = holder.named.get_concrete_function(tf.TensorSpec([], tf.float32, name="by"))
    tf.saved_model.save(holder, tmp_path / "holder", signatures={"serving_default": holder.__call__, "scale": scale})
    model = two_heads()
    set_weights(model)
    model.save(tmp_path / "two")
    np.save(tmp_path / "x.npy", x)
    done = subprocess.run([TENSORFLOW, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = np.load(tmp_path / "theirs.npz")
    np.testing.assert_allclose(theirs["holder"], holder(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(theirs["scale"], holder.v.numpy() + 3, rtol=1e-6)
    np.testing.assert_allclose(theirs["price"], model.predict({"a": x, "b": x[::-1]}, verbose=0)[0], rtol=1e-5, atol=1e-6)
    loaded = tf.saved_model.load(tmp_path / "module")
    np.testing.assert_allclose(loaded.signatures["serving_default"](x=x)["product"], np.load(tmp_path / "product.npy"),
                               rtol=1e-5, atol=1e-5)


def test_options_of_this_process(tmp_path):
    class Doubled(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def __call__(self, x):
            return x * 2.0

    here = "/job:localhost"
    tf.saved_model.save(Doubled(), str(tmp_path), options=tf.saved_model.SaveOptions(experimental_io_device=here))
    loaded = tf.saved_model.load(str(tmp_path), options=tf.saved_model.LoadOptions(experimental_io_device=here))
    assert loaded(tf.constant([3.0])).numpy().tolist() == [6.0]
    with pytest.raises(NotImplementedError, match="/job:worker"):
        tf.saved_model.LoadOptions(experimental_io_device="/job:worker")


def proto(*fields):
    """A message of pairs of a number and a value: a whole number below 128, a text, or bytes."""
    parts = []
    for number, value in fields:
        value = value.encode() if isinstance(value, str) else value
        parts += [bytes([number << 3, value])] if isinstance(value, int) else [
            bytes([number << 3 | 2, len(value) & 127 | 128, len(value) >> 7]), value]
    return b"".join(parts)


def test_a_signature_of_another_dtype_is_listed(tmp_path):
    """One that takes float16, as models of TensorFlow may have beside others."""
    def node(name, op, dtype, *inputs):
        kind = (5, proto((1, "T" if inputs else "dtype"), (2, proto((6, dtype)))))
        return 1, proto((1, name), (2, op), *((3, name) for name in inputs), kind)

    def signature(key, output, dtype):
        tensor = proto((1, f"{output}:0"), (2, dtype))
        return 5, proto((1, key), (2, proto((2, proto((1, "y"), (2, tensor))), (3, "tensorflow/serving/predict"))))

    graph = proto(node("x", "Placeholder", 1), node("y", "Relu", 1, "x"), node("h", "Placeholder", 19))
    meta = proto((1, proto((4, "serve"))), (2, graph), signature("half", "h", 19), signature("single", "y", 1))
    (tmp_path / "saved_model.pb").write_bytes(proto((1, 1), (2, meta)))
    signatures = estoc.SavedModel(tmp_path).signatures
    assert "DT_HALF (19) is not supported" in signatures["half"].error and signatures["half"].outputs == {"y": None}
    assert signatures["single"].error is None and signatures["single"].outputs["y"].dtype == estoc.float32


class Powers(tf.Module):
    def __init__(self):
        super().__init__()
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1)

    @tf.function
    def power(self, x, k=2):
        return x ** k

    @tf.function
    def apply(self, x, function):
        return function(x)

    @tf.function
    def twice(self, x):
        return x * 2

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def look(self, words):
        return self.table.lookup(words)


def test_loaded_functions_have_numbers_and_tables(tmp_path):
    powers = Powers()
    powers.power(tf.constant(3.0), k=3), powers.power(tf.constant(3.0)), powers.power(tf.constant(3.0), 4)
    powers.twice(tf.constant(1.0))
    tf.saved_model.save(powers, tmp_path, signatures={"look": powers.look})
    loaded = tf.saved_model.load(tmp_path)
    x = tf.constant(3.0)
    assert [float(loaded.power(*given)) for given in ((x,), (x, 3), (x, 4))] == [9, 27, 81]
    assert float(loaded.power(x=tf.constant(2.0), k=4)) == 16 and float(loaded.twice(x)) == 6
    with pytest.raises(ValueError, match=r"power got .*, 5\], and takes .* with {'k': 2} or "):
        loaded.power(x, k=5)
    for look in (loaded.look, lambda words: loaded.signatures["look"](words)["output_0"]):
        assert look(tf.constant(["b", "z"])).numpy().tolist() == [2, -1]
        assert tf.function(look)(tf.constant(["a"])).numpy().tolist() == [1]


class Counted(tf.Module):
    def __init__(self):
        super().__init__()
        self.w, self.n = tf.Variable(2.0), tf.Variable(0, trainable=False)
        self.config, self.parts = {"a": tf.Variable(5.0), "b": {"c": tf.Variable(6.0)}}, [tf.Variable(1.0)]
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([7], tf.int64)), -1)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="x")])
    def scale(self, x):
        self.n.assign_add(1)
        return {"y": x * self.w + self.config["a"], "n": self.n.read_value()}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def look(self, words):
        return self.table.lookup(words)


def _use(loaded):
    """What TensorFlow gives too: signatures and functions share the variables of the object."""
    before = int(loaded.n)
    signature = loaded.signatures["scale"]
    assert float(signature(x=tf.constant(1.0))["y"]) == float(loaded.w) + 5
    loaded.w.assign(10.0)
    assert float(signature(tf.constant(1.0))["y"]) == 15 and float(loaded.scale(tf.constant(1.0))["y"]) == 15
    with tf.GradientTape() as tape:
        y = signature(x=tf.constant(3.0))["y"]
    assert float(tape.gradient(y, loaded.w)) == 3

    @tf.function
    def both(x):
        return signature(x=x)["y"] + tf.cast(loaded.look(tf.constant(["a"]))[0], tf.float32)

    assert float(both(tf.constant(2.0))) == 32  # the table is filled beside the step, which counts once
    assert int(loaded.n) == before + 5 and int(signature(tf.constant(0.0))["n"]) == before + 6
    assert sorted(signature.structured_outputs) == ["n", "y"] and signature.structured_outputs["y"].dtype == tf.float32
    assert (float(loaded.config["a"]), float(loaded.config["b"]["c"]), float(loaded.parts[0])) == (5, 6, 1)


def test_signatures_change_the_loaded_object_which_can_be_saved_again(tmp_path):
    counted = Counted()
    tf.saved_model.save(counted, tmp_path / "a", signatures={"scale": counted.scale})
    loaded = tf.saved_model.load(tmp_path / "a")
    assert len(loaded.trainable_variables) == 4 and len(loaded.variables) == 5
    _use(loaded)
    tf.saved_model.save(loaded, tmp_path / "b", signatures={"scale": loaded.signatures["scale"]})
    again = tf.saved_model.load(tmp_path / "b")
    assert float(again.w) == 10 and int(again.n) == 6
    _use(again)
    tf.saved_model.save(again, tmp_path / "c")
    assert list(tf.saved_model.load(tmp_path / "c").signatures) == []  # TensorFlow has to be told of them again, too


def test_traces_of_objects_are_left_out_with_a_warning(tmp_path, caplog):
    powers = Powers()
    powers.apply(tf.constant(3.0), tf.square), powers.twice(tf.constant(1.0))
    tf.saved_model.save(powers, tmp_path)
    assert any("traces of apply with arguments that are neither tensors nor" in line for line in caplog.messages)


def test_a_name_is_free_whatever_else_is_written_beside_it(tmp_path):
    for second in range(int(time.time()) - 1, int(time.time()) + 60):  # what exports of Estimators are called
        (tmp_path / str(second)).mkdir()
    module = tf.Module()
    module.f = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([])])
    tf.saved_model.save(module, str(tmp_path / "saved"))
    assert float(tf.saved_model.load(str(tmp_path / "saved")).f(tf.constant(1.0))) == 2.0
