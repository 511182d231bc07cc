# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of saved_model_load.c: writes models of estimators, Keras and tf.Module with requests, and compares
what is answered with what TensorFlow's own loader answers."""
import logging
import os
import sys
import warnings

import interop
import numpy as np
import tensorflow as tf

logging.disable(logging.WARNING)
warnings.simplefilter("ignore")
tf.get_logger().setLevel("ERROR")
fc, v1, keras = tf.feature_column, tf.compat.v1, tf.keras
layers = keras.layers
expected = {}  # file of the answer -> name to array


# --- requests --------------------------------------------------------------------------------------------------------

def tensor_blobs(name, value):
    value = np.asarray(value)
    if value.dtype.kind in "OSU":
        data = b"".join(interop.blob(v if isinstance(v, bytes) else str(v).encode()) for v in value.reshape(-1))
        what = "string"
    else:
        data, what = value.tobytes(), value.dtype.name
    return [name.encode(), " ".join([what, *map(str, value.shape)]).encode(), data]


def ask(folder, case, path, requests):
    """Adds a model: requests are pairs of a signature and its feeds."""
    blobs = [path.encode()]
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.loader.load(session, ["serve"], path)
        for i, (signature, feeds) in enumerate(requests):
            definition = meta.signature_def[signature]
            outputs = {key: info.name for key, info in definition.outputs.items()}
            assert sorted(feeds) == sorted(definition.inputs), (sorted(feeds), sorted(definition.inputs))
            expected[f"{case}.{i}"] = session.run(
                outputs, {definition.inputs[key].name: value for key, value in feeds.items()})
            inner = b"".join(interop.blob(b) for key in sorted(feeds) for b in tensor_blobs(key, feeds[key]))
            blobs += [signature.encode(), inner]
    interop.write_blobs(f"{folder}/{case}.requests", blobs)


def check_one(folder, file, want):
    got = interop.read_tensors(f"{folder}/{file}.answer")
    assert sorted(got) == sorted(want), (file, sorted(got), sorted(want))
    for key, value in want.items():
        value = np.asarray(value)
        assert got[key].shape == value.shape, (file, key, got[key].shape, value.shape)
        if value.dtype.kind == "f":
            # sums in another order: relative to the largest of the tensor
            np.testing.assert_allclose(got[key], value, rtol=1e-6, atol=1e-6 * np.abs(value).max(initial=0),
                                       err_msg=f"{file} {key}")
        else:
            assert interop.same(got[key].astype(object), value.astype(object)), (file, key, got[key], value)


def check(folder):
    for file, want in expected.items():
        check_one(folder, file, want)


# --- Keras -----------------------------------------------------------------------------------------------------------

def randomize(model, rng):
    """Nothing keeps the value that it starts with, variances stay positive."""
    for v in model.variables:
        if isinstance(v, tf.Variable) and v.dtype.is_floating:
            v.assign(np.abs(rng.normal(size=v.shape)) + 0.1 if "variance" in v.name else rng.normal(size=v.shape))


def keras_models(folder, rng):
    words = np.array(["a", "b", "c", "zz", ""])
    image = keras.Input((12, 12, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    x = layers.MaxPooling2D()(x)
    x = layers.BatchNormalization()(x)
    x = layers.DepthwiseConv2D(3)(x)
    x = layers.SeparableConv2D(4, 2, activation="elu")(x)
    pooled = [layers.GlobalAveragePooling2D()(x), layers.GlobalMaxPooling2D()(x),
              layers.Flatten()(layers.AveragePooling2D()(x))]
    yield "conv", keras.Model(image, layers.Dense(2, activation="softmax")(layers.Concatenate()(pooled))), {
        "image": rng.normal(size=(5, 12, 12, 3))}

    image = keras.Input((9, 9, 2), name="image")
    x = layers.Conv2D(4, 3, strides=2, use_bias=False)(layers.ZeroPadding2D()(image))
    x = layers.LeakyReLU()(layers.ReLU(6.0)(x))
    x = layers.LayerNormalization()(layers.Dense(6, activation="gelu")(layers.Flatten()(x)))
    yield "strides", keras.Model(image, [x, layers.Dense(1, activation="swish", name="score")(x)]), {
        "image": rng.normal(size=(3, 9, 9, 2))}

    image, sound = keras.Input((11, 12, 2), name="image"), keras.Input((20, 3), name="sound")
    x = layers.Conv2D(3, 3, dilation_rate=(2, 3), padding="same")(image)
    x = layers.Flatten()(layers.Conv2D(4, 2, dilation_rate=2)(x))
    y = layers.Conv1D(4, 3, dilation_rate=2, padding="causal")(sound)
    yield "dilated", keras.Model([image, sound], [layers.Dense(2)(x), layers.GlobalMaxPooling1D()(y)]), {
        "image": rng.normal(size=(3, 11, 12, 2)), "sound": rng.normal(size=(3, 20, 3))}

    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    shared = layers.Dense(4, activation="tanh")
    x = layers.Add()([shared(a), shared(b)])
    y = layers.Multiply()([x, shared(a)])
    x = layers.Dropout(0.5)(layers.BatchNormalization()(layers.Concatenate()([x, y, layers.Dot(1)([x, y])])))
    yield "functional", keras.Model([a, b], [layers.Dense(2, activation="selu", name="out")(x), layers.Reshape((2, 2))(y)]), {
        "a": rng.normal(size=(6, 4)), "b": rng.normal(size=(6, 4))}

    ids = keras.Input((5,), dtype="int64", name="ids")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(11, 4, mask_zero=True)(ids))
    y = layers.Dense(6, activation="tanh")(layers.Embedding(11, 4)(ids))  # a tensor of three axes
    yield "embedding", keras.Model(ids, [layers.Dense(1, activation="sigmoid", name="p")(x), layers.Softmax()(y)]), {
        "ids": rng.integers(0, 11, (7, 5))}

    text, number = keras.Input((3,), dtype="string", name="text"), keras.Input((1,), dtype="int64", name="number")
    adapted = layers.StringLookup(num_oov_indices=2, output_mode="multi_hot")
    adapted.adapt(np.array(["x", "a", "b", "a"]))
    with open(f"{folder}/letters.txt", "w", encoding="ascii") as file:
        file.write("b\nzz\na\n")
    x = [layers.Flatten()(layers.Embedding(5, 2)(layers.StringLookup(vocabulary=["a", "b", "c"])(text))), adapted(text),
         layers.Flatten()(layers.Embedding(4, 2)(layers.StringLookup(vocabulary=f"{folder}/letters.txt")(text))),
         layers.IntegerLookup(vocabulary=[5, 7, 9], output_mode="one_hot")(number),
         layers.CategoryEncoding(10, output_mode="multi_hot")(layers.Hashing(10)(text))]
    yield "lookup", keras.Model([text, number], layers.Dense(2)(layers.Concatenate()(x))), {
        "text": rng.choice(words, (4, 3)), "number": np.array([[5], [9], [3], [7]])}

    numbers = {"n": keras.Input((1,), name="n"), "w": keras.Input((2,), dtype="string", name="w")}
    listed = fc.categorical_column_with_vocabulary_list("w", ["a", "b"])
    x = layers.DenseFeatures([fc.numeric_column("n"), fc.embedding_column(listed, 3), fc.indicator_column(listed)])(numbers)
    yield "columns", keras.Model(numbers, layers.Dense(2)(x)), {"n": rng.normal(size=(4, 1)), "w": rng.choice(words, (4, 2))}

    x = keras.Input((5, 6), name="sequence")
    y = layers.MultiHeadAttention(2, 3, value_dim=4, output_shape=6)(x, x)
    y = layers.EinsumDense("...x,xy->...y", output_shape=3, bias_axes="y")(layers.Add()([x, y]))
    z = layers.EinsumDense("abc,cde->abde", output_shape=(None, 2, 4))(x)
    yield "einsum", keras.Model(x, [y, z, layers.Attention(score_mode="concat", use_scale=True)([y, y]),
                                    layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)]), {
        "sequence": rng.normal(size=(4, 5, 6))}

    text = keras.Input((3,), dtype="string", name="salted")
    yield "salted", keras.Model(text, layers.CategoryEncoding(10, output_mode="count")(
        layers.Hashing(10, salt=[133, 137])(text))), {"salted": rng.choice(words, (4, 3))}

    x = keras.Input((3,), name="x")
    normal = layers.Normalization()
    normal.adapt(np.arange(12.0).reshape(4, 3))
    y = [normal(x), layers.CategoryEncoding(4, output_mode="count")(layers.Discretization([0.0, 1.0, 2.0])(x))]
    yield "numbers", keras.Model(x, layers.Dense(1)(layers.Concatenate()(y))), {"x": 3 * rng.normal(size=(6, 3))}


def write_keras(folder, rng):
    for k, (case, model, feeds) in enumerate(keras_models(folder, rng)):
        randomize(model, rng)
        path = f"{folder}/keras_{case}"
        feeds = {key: v.astype("f") if v.dtype.kind == "f" else v for key, v in feeds.items()}
        if k % 2 == 0:
            model.save(path)
        else:
            tf.saved_model.save(model, path)
        ask(folder, f"keras_{case}", path, [("serving_default", feeds),
                                            ("serving_default", {key: v[:1] for key, v in feeds.items()})])


# --- tf.Module -------------------------------------------------------------------------------------------------------

class Module(tf.Module):
    """Two variables of one name, a table from a file and one of constants, calls in calls, and an op that is not here."""

    def __init__(self, vocabulary):
        super().__init__()
        self.v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="v")
        self.w = tf.Variable([0.5, -2.0], name="v")
        lookup = tf.lookup
        self.file = lookup.StaticHashTable(lookup.TextFileInitializer(
            vocabulary, tf.string, lookup.TextFileIndex.WHOLE_LINE, tf.int64, lookup.TextFileIndex.LINE_NUMBER), -1)
        self.ids = lookup.StaticHashTable(lookup.KeyValueTensorInitializer(
            tf.constant([7, 8], tf.int64), tf.constant(["seven", "eight"])), "none")

    @tf.function
    def inner(self, x):
        tf.debugging.assert_less(x, 100.0)
        tf.print("x is", x, output_stream="file:///dev/null")
        return tf.matmul(x, self.v)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.string, "s")])
    def serve(self, x, s):
        y = self.inner(self.inner(x)) + self.w
        return {"y": y, "id": self.file.lookup(s), "x": x, "name": self.ids.lookup(self.file.lookup(s) + 7)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def parse(self, examples):
        parsed = tf.io.parse_example(examples, {
            "k": tf.io.FixedLenFeature([], tf.int64, default_value=4), "tags": tf.io.VarLenFeature(tf.string),
            "rows": tf.io.RaggedFeature(tf.int64), "steps": tf.io.FixedLenSequenceFeature([], tf.float32, True, -1.0)})
        return {"k": parsed["k"], "tags": tf.sparse.to_dense(parsed["tags"], "none"), "steps": parsed["steps"],
                "lengths": parsed["rows"].row_lengths()}

    @tf.function(input_signature=[tf.TensorSpec([2, 2], tf.float64, "d"), tf.TensorSpec([2, 1], tf.int32, "i"),
                                  tf.TensorSpec([3], tf.uint8, "u"), tf.TensorSpec([], tf.bool, "b")])
    def types(self, d, i, u, b):
        return {"d": tf.sqrt(tf.abs(d)), "i": i * 2, "u": tf.cast(u, tf.float32) / 2, "b": tf.logical_not(b),
                "word": tf.constant("word")}

    @tf.function(input_signature=[tf.TensorSpec([2, 2], tf.float32, "x")])
    def other(self, x):
        return {"y": tf.linalg.expm(x)}


def write_module(folder, rng):
    with open(f"{folder}/words.txt", "w", encoding="ascii") as file:
        file.write("a\nb\nc\n")
    module, path = Module(f"{folder}/words.txt"), f"{folder}/module"
    tf.saved_model.save(module, path, signatures={
        "serving_default": module.serve, "other": module.other, "parse": module.parse, "types": module.types})
    os.remove(f"{folder}/words.txt")  # the model has its own
    rows = np.array([tf.train.Example(features=tf.train.Features(feature=row)).SerializeToString() for row in (
        {}, {"k": feature(7), "tags": feature(["a", "bb"])}, {"steps": feature([0.5, 2.0]), "rows": feature([1, 2, 3])})], object)
    ask(folder, "module", path, [
        ("serving_default", {"x": rng.normal(size=(4, 2)).astype("f"), "s": np.array(list("abzc"))}),
        ("parse", {"examples": rows}), ("parse", {"examples": rows[:1]}),
        ("types", {"d": rng.normal(size=(2, 2)), "i": np.array([[3], [-4]], np.int32), "u": np.array([0, 7, 255], np.uint8),
                   "b": np.bool_(True)})])


def write_v1(folder, rng):
    """Variables as TensorFlow 1 had them, one of them partitioned, a default for an input."""
    path = f"{folder}/v1"
    with tf.Graph().as_default(), v1.Session() as session:
        v1.disable_resource_variables()
        x = v1.placeholder(tf.float32, [None, 3], "x")
        factor = v1.placeholder_with_default(tf.constant(2.0), [], "factor")
        w = v1.get_variable("w", [3, 4], partitioner=v1.fixed_size_partitioner(2),
                            initializer=v1.random_normal_initializer(seed=1))
        b = v1.get_variable("b", [4], initializer=v1.random_normal_initializer(seed=2))
        y = (tf.matmul(x, tf.convert_to_tensor(w)) + b) * factor
        session.run(v1.global_variables_initializer())
        signature = v1.saved_model.signature_def_utils.predict_signature_def({"x": x, "factor": factor}, {"y": y})
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
        v1.enable_resource_variables()
    ask(folder, "v1", path, [
        ("serving_default", {"x": rng.normal(size=(5, 3)).astype("f"), "factor": np.float32(3)})])


# --- estimators ------------------------------------------------------------------------------------------------------

def columns(folder):
    numbers, number = fc.numeric_column("numbers", shape=(2,)), fc.numeric_column("number", default_value=0.5)
    bucket = fc.bucketized_column(number, [-0.5, 0.0, 1.0])
    listed = fc.categorical_column_with_vocabulary_list("word", ["a", "b", "c"], num_oov_buckets=2)
    filed = fc.categorical_column_with_vocabulary_file("city", f"{folder}/cities.txt", default_value=0)
    hashed = fc.categorical_column_with_hash_bucket("tag", 10)
    cross = fc.crossed_column([bucket, "word", "tag"], 12)
    weighted = fc.weighted_categorical_column(hashed, "weight")
    left, right = (fc.categorical_column_with_identity(name, 5, default_value=0) for name in ("left", "right"))
    with tf.Graph().as_default():
        shared = fc.shared_embeddings([left, right], 3, "sum")
    linear = [numbers, bucket, listed, filed, cross, weighted]
    deep = [numbers, bucket, fc.indicator_column(listed), fc.indicator_column(weighted),
            fc.embedding_column(hashed, 4, "sqrtn"), fc.embedding_column(cross, 3, "sum"),
            fc.embedding_column(filed, 2, max_norm=0.5), fc.embedding_column(weighted, 2)] + shared
    return linear, deep


def feature(values):
    values = np.atleast_1d(values)
    if values.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if values.dtype.kind == "i":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[str(v).encode() for v in values]))


def example(rng):
    tags = rng.choice(list("pqrst"), rng.integers(0, 4))
    row = {"numbers": rng.normal(size=2), "word": rng.choice(list("abcd"), rng.integers(0, 3)),
           "city": rng.choice(["rome", "oslo", "nowhere"], rng.integers(0, 3)), "tag": tags,
           "weight": rng.random(len(tags)), "left": rng.integers(0, 5, rng.integers(0, 3)),
           "right": rng.integers(0, 5, 2)}
    if rng.random() < 0.5:
        row["number"] = rng.normal(size=1)
    return tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in row.items() if len(v)}))


def write_estimators(folder, rng):
    with open(f"{folder}/cities.txt", "w", encoding="ascii") as file:
        file.write("rome\noslo\nlima\n")
    linear, deep = columns(folder)
    spec = fc.make_parse_example_spec(linear + deep)
    rows = np.array([example(rng).SerializeToString() for _ in range(9)], object)
    config = tf.estimator.RunConfig(save_summary_steps=None, log_step_count_steps=None, tf_random_seed=3)
    e = tf.estimator
    classes = np.array(list("xyzxyzxyz"))[:, None]
    cases = {
        "linear": (e.LinearClassifier(linear, n_classes=3, label_vocabulary=list("xyz"), config=config), classes),
        "dnn": (e.DNNClassifier([6, 4], deep, batch_norm=True, dropout=0.2, config=config), classes == "x"),
        "combined": (e.DNNLinearCombinedRegressor(linear_feature_columns=linear, dnn_feature_columns=deep,
                                                  dnn_hidden_units=[4], config=config), rng.normal(size=(9, 1))),
        "baseline": (e.BaselineRegressor(config=config), rng.normal(size=(9, 1)))}
    for case, (estimator, label) in cases.items():
        def inputs():
            if case == "baseline":  # makes no variables of a batch whose size is not known
                return tf.data.Dataset.from_tensors(({"numbers": np.zeros((9, 2), "f")}, label)).repeat()
            return tf.data.Dataset.from_tensors((rows, label)).map(
                lambda examples, y: (tf.io.parse_example(examples, spec), y)).repeat()
        estimator.train(inputs, steps=2)
        path = estimator.export_saved_model(f"{folder}/{case}", e.export.build_parsing_serving_input_receiver_fn(spec))
        one, key = "serving_default", "inputs"
        ask(folder, f"estimator_{case}", path.decode(),
            [(one, {key: rows}), ("predict", {"examples": rows[:4]}), ("predict", {"examples": rows[4:5]})])


def write_raw(folder, rng):
    """A receiver of placeholders: columns make sparse tensors of dense texts and numbers."""
    tags, ids = fc.categorical_column_with_hash_bucket("tag", 10), fc.categorical_column_with_identity("id", 5)
    deep = [fc.numeric_column("number"), fc.embedding_column(tags, 3), fc.indicator_column(ids)]
    feeds = {"number": rng.normal(size=(6, 1)).astype("f"), "tag": rng.choice(list("pqr "), (6, 2)),
             "id": rng.integers(0, 5, (6, 1))}
    estimator = tf.estimator.DNNRegressor([4], deep, config=tf.estimator.RunConfig(
        save_summary_steps=None, log_step_count_steps=None, tf_random_seed=3))
    estimator.train(lambda: tf.data.Dataset.from_tensors((feeds, rng.normal(size=(6, 1)))), steps=1)

    def receiver():
        given = {key: v1.placeholder(tf.as_dtype(value.dtype) if value.dtype.kind != "U" else tf.string,
                                     [None, value.shape[1]], key) for key, value in feeds.items()}
        return tf.estimator.export.ServingInputReceiver(dict(given), given)

    path = estimator.export_saved_model(f"{folder}/raw", receiver)
    ask(folder, "estimator_raw", path.decode(), [("predict", feeds)])


def write(folder):
    rng = np.random.default_rng(7)
    write_keras(folder, rng)
    write_module(folder, rng)
    write_estimators(folder, rng)
    write_raw(folder, rng)
    write_v1(folder, rng)
    interop.write_blobs(f"{folder}/cases", sorted({file.rsplit(".", 1)[0].encode() for file in expected}))


if __name__ == "__main__":
    interop.serve(sys.modules[__name__])
