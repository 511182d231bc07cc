# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of vocabulary.c."""
import os
import shutil
import sys

import interop
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
WORDS = np.array([b"dog", b"cat", b"hen", b"", b"dog\r"], object)  # what word_input of vocabulary_test.c has
NUMBERS = np.array([20, 1, -7, 0, 10], np.int64)


# --- ours ------------------------------------------------------------------------------------------------------------

def run_v1(path):
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.loader.load(session, ["serve"], path)
        definition = meta.signature_def["serving_default"]
        return session.run({key: info.name for key, info in definition.outputs.items()},
                           {definition.inputs["word"].name: WORDS, definition.inputs["number"].name: NUMBERS})


def run_v2(path):
    loaded = tf.saved_model.load(path)
    answer = loaded.signatures["serving_default"](word=tf.constant(WORDS), number=tf.constant(NUMBERS))
    return {key: value.numpy() for key, value in answer.items()}


def check_export(folder):
    want = interop.read_tensors(f"{folder}/export.expected")
    path = interop.read_blobs(f"{folder}/export.path")[0].decode()
    moved = folder + "/moved"  # an export is read wherever it lies
    os.rename(path, moved)
    for run in run_v1, run_v2:
        got = run(moved)
        assert set(got) == set(want), (set(got), set(want))
        for key, value in want.items():
            if key == "score":
                np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6)
            else:
                assert interop.same(got[key], value), (run, key, got[key], value)
    assert want["ids"].tolist()[:2] == [1, 0] and want["more"].tolist() == [0, -1, 2, -1, -1], want
    layer = tf.keras.layers.StringLookup(vocabulary=["cat", "dog"], mask_token="", num_oov_indices=3)
    assert want["known"].tolist() == layer(tf.constant(WORDS)).numpy().tolist(), want["known"]


def check_meta(folder):
    path = interop.read_blobs(f"{folder}/meta.path")[0].decode()
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.train.import_meta_graph(path)
        assert len(v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)) == 2
        session.run(v1.tables_initializer())
        find = [op for op in graph.get_operations()
                if op.type == "LookupTableFindV2" and op.inputs[0].op.name == "vocabulary_1"]
        assert session.run(find[0].outputs[0], {find[0].inputs[1]: WORDS}).tolist() == [0, -1, 2, -1, -1]


# --- theirs ----------------------------------------------------------------------------------------------------------

def text_file(path, **options):
    return tf.lookup.TextFileInitializer(path, options.get("key", tf.string), options.get("key_index", -2),
                                         options.get("value", tf.int64), options.get("value_index", -1),
                                         vocab_size=options.get("size"))


def write_model(folder):
    """As Estimator exports: two files of one name, both assets, and a main op that fills the tables."""
    for name, text in (("first", "cat\ndog\n"), ("second", "dog\ncow\nhen\nmore\n")):
        os.makedirs(f"{folder}/{name}")
        with open(f"{folder}/{name}/words.txt", "w", encoding="utf-8") as file:
            file.write(text)
    with tf.Graph().as_default(), v1.Session() as session:
        word, number = v1.placeholder(tf.string, [None]), v1.placeholder(tf.int64, [None])
        first = tf.lookup.StaticVocabularyTable(text_file(f"{folder}/first/words.txt"), 3)
        second = tf.lookup.StaticHashTable(text_file(f"{folder}/second/words.txt", size=3), -1)
        values = tf.lookup.KeyValueTensorInitializer(tf.constant([10, 20], tf.int64), tf.constant([0, 1], tf.int64))
        numbers = tf.lookup.StaticVocabularyTable(values, 4, lookup_key_dtype=tf.int64)
        names = tf.lookup.StaticHashTable(text_file(f"{folder}/first/words.txt", key=tf.int64, key_index=-1,
                                                    value=tf.string, value_index=-2), "none")
        outputs = {"ids": first.lookup(word), "more": second.lookup(word), "numbers": numbers.lookup(number),
                   "names": names.lookup(number)}
        signature = v1.saved_model.predict_signature_def({"word": word, "number": number}, outputs)
        builder = v1.saved_model.Builder(folder + "/theirs")
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer())
        builder.save()
        session.run(v1.tables_initializer())
        np.savez(folder + "/theirs.npz", **session.run(outputs, {word: WORDS, number: NUMBERS}))
    shutil.rmtree(folder + "/first")
    shutil.rmtree(folder + "/second")


def check_model(folder):
    want = np.load(folder + "/theirs.npz", allow_pickle=True)
    got = interop.read_tensors(folder + "/theirs.found")
    assert set(got) == set(want.files), got
    for key in want.files:
        assert interop.same(got[key], want[key]), (key, got[key], want[key])


# --- files -----------------------------------------------------------------------------------------------------------

def look_up(path, key, size):
    with tf.Graph().as_default(), v1.Session() as session:
        keys = tf.constant([b"a", b"b", b"", b"a\r"] if key == "string" else [7, -3, 0, 8], key)
        table = tf.lookup.StaticHashTable(text_file(path, key=tf.as_dtype(key), size=size or None), -1)
        ids = table.lookup(keys)
        try:
            session.run(v1.tables_initializer())
        except tf.errors.OpError:
            return None
        return session.run(ids)


def check_files(folder):
    blobs = interop.read_blobs(folder + "/files")
    assert len(blobs) == 63, len(blobs)
    for options, text, ours in zip(blobs[0::3], blobs[1::3], blobs[2::3]):
        key, size = options.decode().split()
        with open(folder + "/theirs.txt", "wb") as file:
            file.write(text)
        theirs = look_up(folder + "/theirs.txt", key, int(size))
        if theirs is None:
            assert not ours, (options, text, np.frombuffer(ours, np.int64))
        else:
            assert ours and interop.same(np.frombuffer(ours, np.int64), theirs), (options, text, ours, theirs)


interop.serve(sys.modules[__name__])
