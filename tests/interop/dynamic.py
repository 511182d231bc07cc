# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of dynamic.c."""
import sys

import interop
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")

# The rows of dynamic_input in dynamic_test.c.
I = np.arange(200, dtype=np.uint64)
USERS = np.where(I % 8 == 3, np.uint64(2**64 - 1), I * 7 % 60 * np.uint64(0x9e3779b97f4a7c15)).astype(np.int64)
WORDS = np.array([b"" if i % 8 == 5 else b"word %d" % (i * 11 % 40) for i in range(200)], object)
NONE = {"user": -1, "word": b""}


def run_v1(path):
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.loader.load(session, ["serve"], path)
        definition = meta.signature_def["serving_default"]
        return session.run(definition.outputs["score"].name,
                           {definition.inputs["user"].name: USERS, definition.inputs["word"].name: WORDS})


def run_v2(path):
    loaded = tf.saved_model.load(path)
    return loaded.signatures["serving_default"](user=tf.constant(USERS), word=tf.constant(WORDS))["score"].numpy()


def embedded(reader, feature, values, keys):
    """The vector of every row by the checkpoint alone: that of its key, or zeros. And how many have one."""
    name = f"input_layer/{feature}_dynamic_embedding/embedding_weights"
    rows, stored = reader.get_tensor(name), reader.get_tensor(name + "/keys")
    assert rows.shape[0] == stored.shape[0] == reader.get_tensor(name + "/last_seen").shape[0]
    assert reader.get_tensor(name + "/Adam").shape == rows.shape
    assert len(set(stored)) == len(stored)
    at = {key: i for i, key in enumerate(stored)}
    out = np.zeros((len(values), rows.shape[1]), np.float32)
    found = 0
    for i, (value, key) in enumerate(zip(values, keys)):
        if value != NONE[feature] and key in at:
            out[i] = rows[at[key]]
            found += 1
    return out, found


def by_hand(folder):
    reader = tf.train.load_checkpoint(folder)
    hashed = tf.strings.to_hash_bucket_fast(tf.constant(WORDS), 2**63 - 1).numpy()
    users, n_users = embedded(reader, "user", USERS, USERS)
    words, n_words = embedded(reader, "word", WORDS, hashed)
    layer = np.concatenate([users, words], 1)
    score = layer @ reader.get_tensor("dense/kernel") + reader.get_tensor("dense/bias")
    return score[:, 0], n_users + n_words


def check(folder):
    want = interop.read_tensors(f"{folder}/export.expected")["score"]
    path = interop.read_blobs(f"{folder}/export.path")[0].decode()
    model = interop.read_blobs(f"{folder}/model.path")[0].decode()
    score, found = by_hand(model)
    with tf.Graph().as_default():
        v1.train.import_meta_graph(tf.train.latest_checkpoint(model) + ".meta")
    for got in score, run_v1(path), run_v2(path):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return found


def check_all(folder):
    assert check(folder) == 350  # every key of a row that has one


def check_some(folder):
    assert 20 < check(folder) < 300


def check_none(folder):
    assert check(folder) == 0


interop.serve(sys.modules[__name__])
