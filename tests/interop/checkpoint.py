# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of checkpoint.c."""
import sys

import interop
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")


def load(prefix):
    """Every tensor of a checkpoint as TensorFlow reads it."""
    reader = tf.train.load_checkpoint(prefix)
    return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}


# --- theirs, read by us ----------------------------------------------------------------------------------------------

def part(value):
    return lambda shape, dtype, partition_info: tf.constant(
        value[tuple(slice(o, o + n) for o, n in zip(partition_info.var_offset, shape))])


def save(prefix, seed, n_parts, axis):
    """A checkpoint of the v1 Saver."""
    random = np.random.default_rng(seed)
    with tf.Graph().as_default(), v1.Session() as session:
        for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8):
            for i, shape in enumerate([(), (0, 3), (13, 7), (1, 2, 3, 4)]):
                value = (random.standard_normal(shape) * 100).astype(dtype)
                v1.get_variable(f"scope/{dtype.__name__}_{i}", initializer=tf.constant(value))
        v1.get_variable("flags", initializer=tf.constant(random.integers(0, 2, (9,)).astype(bool)))
        v1.get_variable("large", initializer=tf.constant(random.standard_normal((1000, 300)).astype(np.float32)))
        sizes = (0, 1, 127, 128, 20000, 3)
        words = np.array([bytes(random.integers(0, 256, n).astype(np.uint8)) for n in sizes], object)
        v1.get_variable("words", initializer=tf.constant(words.reshape(2, 3)), use_resource=False)
        emb = random.standard_normal((50, 12)).astype(np.float32)
        v1.get_variable("emb", shape=emb.shape, initializer=part(emb),
                        partitioner=v1.fixed_size_partitioner(n_parts, axis=axis))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, prefix, write_meta_graph=False, write_state=False)


def merge(prefix):
    """Two saves merged into a checkpoint of two data files, with the halves of one tensor in each."""
    parts = [f"{prefix}_part{i}" for i in range(2)]
    for i, name in enumerate(parts):
        half = tf.constant(np.arange(12).reshape(3, 4).astype(np.float32) + 100 * i)
        tf.raw_ops.SaveV2(prefix=name, tensor_names=["split", f"own{i}"],
                          shape_and_slices=[f"6 4 {3 * i},3:0,4", ""], tensors=[half, tf.constant([i, i, i])])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)


def write(folder):
    save(folder + "/rows", 1, 7, 0)
    save(folder + "/columns", 2, 5, 1)
    merge(folder + "/merged")


def check_read(folder):
    for name, n in (("rows", 24), ("columns", 24), ("merged", 3)):
        want = load(f"{folder}/{name}")
        assert len(want) == n, sorted(want)
        interop.check_tensors(interop.read_tensors(f"{folder}/{name}.tensors"), want)
    for name in "rows", "columns":
        emb = tf.train.load_variable(f"{folder}/{name}", "emb")
        interop.check_tensors(interop.read_tensors(f"{folder}/{name}.slices"), {
            "0,50:0,1": emb[:, :1], "7,20:2,5": emb[7:27, 2:7], "49,1:0,12": emb[49:], "-:3,8": emb[:, 3:11]})


# --- ours, read by them ----------------------------------------------------------------------------------------------

def check_restore(prefix, want):
    """The v1 Saver restores our partitioned tensor into a variable that is cut in another way."""
    with tf.Graph().as_default(), v1.Session() as session:
        emb = v1.get_variable("emb", shape=want.shape, partitioner=v1.fixed_size_partitioner(4, axis=0))
        v1.train.Saver().restore(session, prefix)
        assert interop.same(session.run(tf.convert_to_tensor(emb)), want)


def check_written(folder):
    for name in "single", "merged2":
        want = interop.read_tensors(f"{folder}/{name}.tensors")
        rows = sorted(n for n in want if n.startswith("emb/rows"))
        want["emb"] = np.concatenate([want.pop(n) for n in rows])
        interop.check_tensors(load(f"{folder}/{name}"), want)
        check_restore(f"{folder}/{name}", want["emb"])
    want = interop.read_tensors(folder + "/named.tensors")
    latest = tf.train.latest_checkpoint(folder + "/named")
    assert latest == folder + "/named/model.ckpt-3", latest
    interop.check_tensors(load(latest), want)
    with tf.Graph().as_default(), v1.Session() as session:
        weights = v1.get_variable("float32", shape=(5, 3))
        v1.train.Saver().restore(session, latest)
        assert interop.same(session.run(weights), want["float32"])
    state = tf.train.get_checkpoint_state(folder)
    assert list(state.all_model_checkpoint_paths) == [folder + "/single", folder + "/merged2"], state
    assert list(state.all_model_checkpoint_timestamps) == [1700000000.25, 1700000001], state
    assert tf.train.latest_checkpoint(folder) == folder + "/merged2"


# --- a canned Estimator ----------------------------------------------------------------------------------------------

def estimator(model_dir):
    """A wide and deep classifier with a partitioned input layer, as a job with parameter servers makes it."""
    column = tf.feature_column
    city = column.categorical_column_with_hash_bucket("city", 50)
    return v1.estimator.DNNLinearCombinedClassifier(
        model_dir=model_dir, n_classes=3, dnn_hidden_units=[16, 8],
        linear_feature_columns=[city, column.numeric_column("x", shape=(4,))],
        dnn_feature_columns=[column.numeric_column("x", shape=(4,)), column.embedding_column(city, 5)],
        input_layer_partitioner=v1.fixed_size_partitioner(3),
        config=tf.estimator.RunConfig(tf_random_seed=3, save_summary_steps=5))


def examples():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((256, 4)).astype(np.float32)
    city = np.array([b"c%d" % i for i in rng.integers(0, 40, 256)])
    data = tf.data.Dataset.from_tensor_slices(({"x": x, "city": city}, (x.sum(1) > 0).astype(np.int32)))
    return data.batch(32)


def train_estimator(folder):
    estimator(folder + "/estimator").train(examples, steps=8)


def check_estimator(folder):
    want = load(tf.train.latest_checkpoint(folder + "/estimator"))
    with open(folder + "/estimator/graph.pbtxt", encoding="utf-8") as graph:
        assert "/part_2" in graph.read()  # it was partitioned indeed
    interop.check_tensors(interop.read_tensors(folder + "/estimator.said"), want)
    interop.check_tensors(load(tf.train.latest_checkpoint(folder + "/estimator2")), want)
    theirs, ours = (estimator(f"{folder}/{name}") for name in ("estimator", "estimator2"))
    assert ours.latest_checkpoint() == folder + "/estimator2/model.ckpt-8", ours.latest_checkpoint()
    assert ours.evaluate(examples) == theirs.evaluate(examples)
    ours.train(examples, steps=2)
    assert ours.get_variable_value("global_step") == 10


# --- the objects of TensorFlow 2 -------------------------------------------------------------------------------------

def objects():
    model = tf.keras.Sequential([tf.keras.layers.Dense(7, activation="relu", input_shape=(4,)),
                                 tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    return model, tf.train.Checkpoint(model=model, optimizer=model.optimizer, step=tf.Variable(0, dtype=tf.int64))


def train_objects(folder):
    model, checkpoint = objects()
    x = np.random.default_rng(6).standard_normal((64, 4)).astype(np.float32)
    model.fit(x, x.sum(1), epochs=2, verbose=0)
    checkpoint.step.assign(11)
    tf.train.CheckpointManager(checkpoint, folder + "/objects", max_to_keep=3).save()


def check_objects(folder):
    want = load(tf.train.latest_checkpoint(folder + "/objects"))
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(want.pop("_CHECKPOINTABLE_OBJECT_GRAPH").item())
    for node in graph.nodes:
        for attribute in node.attributes:  # also under the variable's own name
            want[attribute.full_name] = want[attribute.checkpoint_key]
    assert "dense/kernel" in want and "Adam/m/dense_1/bias" in want, sorted(want)
    interop.check_tensors(interop.read_tensors(folder + "/objects.said"), want)
    x = np.ones((3, 4), np.float32)
    results = []
    for name in "objects", "objects2":
        model, checkpoint = objects()
        status = checkpoint.restore(tf.train.latest_checkpoint(f"{folder}/{name}"))
        model.optimizer.build(model.trainable_variables)
        status.assert_consumed()
        assert checkpoint.step.numpy() == 11
        results.append(model.predict(x, verbose=0))
    assert interop.same(*results)


interop.serve(sys.modules[__name__])
