# SPDX-License-Identifier: Apache-2.0
"""Sequence columns, and datasets of numbers without end. Run by TensorFlow they write what test_sequences.py compares with."""
import os
import sys
import tempfile

import numpy as np

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def _sparse(tf, rows, dtype=None):
    """A sparse tensor of rows of unequal length."""
    places = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    values = [item for row in rows for item in row]
    return tf.SparseTensor(places, values if dtype is None else np.array(values, dtype),
                           [len(rows), max(len(row) for row in rows)])


def _examples(tf):
    def feature(values):
        if isinstance(values[0], str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[item.encode() for item in values]))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    rows = [{"word": ["a", "b", "zz"], "price": [1.0, 2.0, 3.0], "id": [2, 0, 1]}, {"word": ["c"], "price": [4.0], "id": [1]},
            {"word": ["b", "a"], "price": [5.0, 6.0], "id": [0, 0]}]
    return [tf.train.Example(features=tf.train.Features(feature={
        key: feature(values) for key, values in row.items()})).SerializeToString() for row in rows]


def _columns(tf):
    fc = tf.feature_column
    words = fc.sequence_categorical_column_with_vocabulary_list("word", ["a", "b", "c"], num_oov_buckets=1)
    ids = fc.sequence_categorical_column_with_identity("id", 3)
    return [fc.sequence_numeric_column("price", normalizer_fn=lambda x: x / 2.0), fc.indicator_column(words),
            fc.embedding_column(ids, 2, initializer=tf.constant_initializer([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))]


@case
def parsed_examples(tf):
    spec = tf.feature_column.make_parse_example_spec(_columns(tf))
    features = tf.io.parse_example(tf.constant(_examples(tf)), spec)
    layer = tf.keras.experimental.SequenceFeatures(_columns(tf))
    found, lengths = layer(features)
    kinds = {key: [type(value).__name__, value.dtype.name] for key, value in spec.items()}
    return [found, lengths, lengths.dtype.name, kinds, [(v.name, v.numpy()) for v in layer.trainable_variables]]


@case
def every_kind(tf):
    fc, folder = tf.feature_column, tempfile.mkdtemp()
    path = os.path.join(folder, "words.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write("a\nb\nc\n")
    words = _sparse(tf, [["a", "b", "q"], ["c"], []])
    ids = _sparse(tf, [[2, 0, 7], [1], []], np.int64)
    prices = _sparse(tf, [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0], []], np.float32)

    def layer(*columns, **features):
        return list(tf.keras.experimental.SequenceFeatures(list(columns))(features))

    return [
        layer(fc.indicator_column(fc.sequence_categorical_column_with_identity("i", 4, default_value=3)), i=ids),
        layer(fc.indicator_column(fc.sequence_categorical_column_with_hash_bucket("w", 5)), w=words),
        layer(fc.indicator_column(fc.sequence_categorical_column_with_hash_bucket("i", 5, tf.int64)), i=ids),
        layer(fc.indicator_column(fc.sequence_categorical_column_with_vocabulary_list("w", ["a", "c"])), w=words),
        layer(fc.indicator_column(fc.sequence_categorical_column_with_vocabulary_list(
            "w", ["a", "c"], default_value=1)), w=words),
        layer(fc.indicator_column(fc.sequence_categorical_column_with_vocabulary_file("w", path, 3, 2)), w=words),
        layer(fc.indicator_column(fc.sequence_categorical_column_with_vocabulary_file("w", path)), w=words),
        layer(fc.sequence_numeric_column("p"), p=prices),
        layer(fc.sequence_numeric_column("p", 2, default_value=-1.0), p=prices),
        layer(fc.sequence_numeric_column("p", (2,)), fc.embedding_column(
            fc.sequence_categorical_column_with_identity("i", 4), 2, initializer=tf.ones_initializer()),
            p=prices, i=_sparse(tf, [[2, 0], [1], []], np.int64)),
    ]


@case
def trained(tf):
    """A recurrent network over the columns, in a loop of the program."""
    features = tf.io.parse_example(tf.constant(_examples(tf)), tf.feature_column.make_parse_example_spec(_columns(tf)))
    layer, output = tf.keras.experimental.SequenceFeatures(_columns(tf)), tf.keras.layers.Dense(
        1, kernel_initializer="ones")
    optimizer = tf.keras.optimizers.Adam(0.1)
    losses = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            steps, lengths = layer(features)
            mask = tf.cast(tf.sequence_mask(lengths), tf.float32)
            logits = tf.reduce_sum(output(steps)[:, :, 0] * mask, 1) / tf.cast(lengths, tf.float32)
            loss = tf.reduce_mean(tf.square(logits - [1.0, 2.0, 3.0]))
        variables = layer.trainable_variables + output.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        losses.append(loss)
    return [losses, layer.get_weights()]


def _model_fn(tf):
    def model_fn(features, labels, mode):
        steps, lengths = tf.keras.experimental.SequenceFeatures(_columns(tf))(features)
        mask = tf.cast(tf.sequence_mask(lengths, 3), tf.float32)
        total = tf.reduce_sum(steps * tf.expand_dims(mask, -1), 1)
        logits = tf.compat.v1.layers.dense(total, 1, kernel_initializer=tf.compat.v1.ones_initializer())
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, {"logits": logits, "lengths": lengths})
        loss = tf.reduce_mean(tf.square(logits[:, 0] - labels))
        step = tf.compat.v1.train.GradientDescentOptimizer(0.01).minimize(
            loss, tf.compat.v1.train.get_global_step()) if mode == tf.estimator.ModeKeys.TRAIN else None
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    return model_fn


@case
def in_an_estimator(tf):
    spec, examples = tf.feature_column.make_parse_example_spec(_columns(tf)), _examples(tf)

    def rows():
        data = tf.data.Dataset.from_tensor_slices((examples, np.array([1.0, 2.0, 3.0], np.float32))).batch(3)
        return data.map(lambda serialized, label: (tf.io.parse_example(serialized, spec), label))

    estimator = tf.estimator.Estimator(_model_fn(tf), tempfile.mkdtemp())
    estimator.train(lambda: rows().repeat(), steps=3)
    table = [name for name in estimator.get_variable_names() if "embedding" in name]
    return [list(estimator.predict(rows)), estimator.evaluate(rows), [estimator.get_variable_value(name) for name in table]]


@case
def counters(tf):
    counter = tf.data.Dataset.counter
    return [list(counter().take(3)), list(counter(2, 3).take(3)), [n.dtype.name for n in counter(5, -2, tf.int32).take(1)],
            list(counter(5, -2, dtype=tf.int32).take(3)), counter().cardinality(),
            counter().element_spec.dtype.name, list(tf.data.Dataset.zip((counter(1), tf.data.Dataset.range(2))))]


if __name__ == "__main__":
    from cases import write_golden
    write_golden(CASES, sys.argv[1])
