# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of feature_ops.c."""
import random
import struct
import sys

import interop
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
BUCKETS = 2 ** 63 - 1


# --- hashes ------------------------------------------------------------------------------------------------------------

def hash_values():
    rng = random.Random(1)
    strings = [rng.randbytes(i % 301) for i in range(100000)]
    integers = [rng.getrandbits(64) - 2 ** 63 if i % 2 else rng.randrange(-1000, 1000) for i in range(100000)]
    return strings, np.array(integers, np.int64)


def write_hashes(folder):
    strings, integers = hash_values()
    interop.write_blobs(folder + "/strings", strings)
    interop.write_blobs(folder + "/integers", [integers.tobytes()])


def check_hashes(folder):
    strings, integers = hash_values()
    printed = tf.strings.as_string(integers)
    interop.check_tensors(interop.read_tensors(folder + "/hashes.said"), {
        "0": tf.strings.to_hash_bucket_fast(strings, BUCKETS).numpy(),
        "1": tf.strings.to_hash_bucket_fast(strings, 1000).numpy(),
        "2": tf.strings.to_hash_bucket_fast(printed, BUCKETS).numpy(),
        "3": printed.numpy()})


# --- crosses -----------------------------------------------------------------------------------------------------------

def crosses():
    """Lists of (kind, values, splits), rows of 0 to 3 values: more than 100,000 pairs and as many triples."""
    rng = random.Random(2)
    for kinds in ("ss", "is", "si", "ii", "sss", "isi", "ssi", "iii"):
        columns = []
        for kind in kinds:
            splits = np.cumsum([0] + [rng.randrange(4) for _ in range(14000 if len(kinds) == 2 else 9500)])
            if kind == "i":
                values = [rng.getrandbits(64) - 2 ** 63 for _ in range(splits[-1])]
            else:
                values = [rng.randbytes(rng.randrange(70)) for _ in range(splits[-1])]
            columns.append((kind, values, splits.astype(np.int64)))
        yield columns


def write_crosses(folder):
    blobs = []
    for columns in crosses():
        parts = ["".join(kind for kind, _, _ in columns).encode()]
        for kind, values, splits in columns:
            parts.append(struct.pack(f"<{len(values)}q", *values) if kind == "i" else b"".join(map(interop.blob, values)))
            parts.append(splits.tobytes())
        blobs.append(b"".join(map(interop.blob, parts)))
    interop.write_blobs(folder + "/crosses", blobs)


def check_crosses(folder):
    said = interop.read_blobs(folder + "/crosses.said")
    count = {2: 0, 3: 0}
    for columns, ours in zip(crosses(), said, strict=True):
        inputs = [tf.RaggedTensor.from_row_splits(tf.constant(values, tf.int64 if kind == "i" else tf.string), splits)
                  for kind, values, splits in columns]
        theirs = tf.ragged.cross_hashed(inputs, BUCKETS)
        interop.check_tensors(interop.tensors_of(ours), {
            "0": theirs.values.numpy(), "1": theirs.row_splits.numpy(),
            "2": tf.ragged.cross_hashed(inputs, 1000, 42).values.numpy()})
        sparse = tf.sparse.cross_hashed([x.to_sparse() for x in inputs], BUCKETS)
        assert interop.same(sparse.values.numpy(), theirs.values.numpy())
        count[len(columns)] += len(theirs.values)
    assert min(count.values()) >= 100000, count


# --- a graph of all of them ----------------------------------------------------------------------------------------------

def close(name, ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if theirs.dtype == np.float32 and "floats" != name:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (name, ours, theirs)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=name)
    else:
        assert interop.same(ours, theirs), (name, ours, theirs)


def lookup(f, combiner, max_norm, weighted):
    """What TensorFlow's own lookup gives, and its gradient towards the table, dense."""
    table = tf.Variable(f["table"])
    ids = tf.RaggedTensor.from_row_splits(f["ids"], f["splits"]).to_sparse()
    weights = tf.RaggedTensor.from_row_splits(f["weights"], f["splits"]).to_sparse() if weighted else None
    with tf.GradientTape() as tape:
        y = tf.nn.safe_embedding_lookup_sparse(table, ids, weights, combiner, max_norm=max_norm or None)
        loss = tf.reduce_sum(tf.square(y))
    return y.numpy(), tf.convert_to_tensor(tape.gradient(loss, table)).numpy()


def indicator(f, weighted):
    column = tf.feature_column.categorical_column_with_identity("ids", 6)
    features = {"ids": tf.RaggedTensor.from_row_splits(f["ids"], f["splits"]).to_sparse()}
    if weighted:
        column = tf.feature_column.weighted_categorical_column(column, "weights")
        features["weights"] = tf.RaggedTensor.from_row_splits(f["weights"], f["splits"]).to_sparse()
    return tf.keras.layers.DenseFeatures([tf.feature_column.indicator_column(column)])(features).numpy()


def wanted(f):
    """What TensorFlow's Python makes of the same, by the names of the C side."""
    ids = tf.RaggedTensor.from_row_splits(f["ids"], f["splits"])
    boundaries = [-1.5, 0, 0.1, 10]
    text = tf.ragged.boolean_mask(f["words"], f["words"] != b"")
    numbers = tf.ragged.boolean_mask(f["k"], f["k"] != -1)
    cross = tf.ragged.cross_hashed([text, numbers, text], 1000)
    kept = tf.ragged.boolean_mask(ids, ids > 2)
    names = np.array([b"cat", b"dog", b'a "bird"'], object)
    picked = names[f["ids"] % 3]
    want = {"hash": tf.strings.to_hash_bucket_fast(f["words"], 1000), "int as string": tf.strings.as_string(f["k"]),
            "float as string": tf.strings.as_string(f["x"]), "bool as string": tf.strings.as_string(f["k"] > 0),
            "buckets": tf.raw_ops.Bucketize(input=f["x"], boundaries=boundaries),
            "buckets of int": tf.raw_ops.Bucketize(input=f["k"], boundaries=boundaries),
            "text": text.values, "text splits": text.row_splits, "numbers": numbers.values,
            "numbers splits": numbers.row_splits, "floats": f["x"][f["x"] != 0], "cross": cross.values,
            "cross splits": cross.row_splits, "picked": picked, "tiled": np.tile(names, (4, 1)),
            "broadcast": np.tile(names, (2, 1)), "joined": np.concatenate([picked, names]),
            "reshaped": np.concatenate([names, names]).reshape(3, 2), "dense": ids.to_tensor(-1),
            "dense weights": tf.RaggedTensor.from_row_splits(f["weights"], f["splits"]).to_tensor(0.5),
            "lengths": ids.row_lengths(), "kept": kept.values, "kept splits": kept.row_splits,
            "counts": indicator(f, False), "sums": indicator(f, True), "checked": f["ids"]}
    for combiner in "mean", "sum", "sqrtn":
        for norm in 0, 0.75:
            for weighted in 0, 1:
                name = f"{combiner} {norm:g} {weighted}"
                want["bag " + name], want["grad " + name] = lookup(f, combiner, norm, weighted)
    return want


def check_graph(folder):
    feeds = interop.read_tensors(folder + "/graph.feeds")
    values = interop.read_tensors(folder + "/graph.values")
    with open(folder + "/graph.pb", "rb") as file:
        graph = graph_pb2.GraphDef.FromString(file.read())
    want = wanted(feeds)
    assert sorted(want) == sorted(name.split("|")[0] for name in values), sorted(want)
    table = feeds.pop("table")
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(graph, name="")
        get = v1.get_default_graph().get_tensor_by_name
        session.run(tf.raw_ops.AssignVariableOp(resource=get("table:0"), value=table))
        fed = {name + ":0": value for name, value in feeds.items()}
        for name, ours in values.items():
            name, tensor = name.split("|")
            close(name, ours, session.run(tensor, fed))
            close(name, ours, want[name])
        checked = next(name.split("|")[1] for name in values if name.startswith("checked|"))
        try:
            session.run(checked, {**fed, "ids:0": feeds["ids"] + 1})
            raise AssertionError("an id that is too large went through")
        except tf.errors.InvalidArgumentError as error:
            assert "ids go up to 7" in str(error), error


interop.serve(sys.modules[__name__])
