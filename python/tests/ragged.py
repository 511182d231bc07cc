# SPDX-License-Identifier: Apache-2.0
"""Ragged tensors: calls as in calls.py, where `r` is one of integers, `x` of floats, `w` of texts, `deep` of three axes
and `wide` of rows of pairs, and programs. golden_ragged.json has what TensorFlow 2.15 gave."""
import os
import sys
import tempfile

import numpy as np

import calls
from cases import plain

#: Whole expressions.
CALLS = [line for line in """
r
r.shape.as_list()
r.values
r.row_splits
r.row_lengths()
r.row_starts()
r.row_limits()
r.value_rowids()
r.nrows()
r.nrows(tf.int32)
r.bounding_shape()
r.bounding_shape(axis=1)
r.bounding_shape(out_type=tf.int32)
r.ragged_rank, deep.ragged_rank, wide.ragged_rank
r.dtype.name, w.dtype.name
deep.nested_row_splits
deep.nested_row_lengths()
deep.nested_value_rowids()
deep.flat_values
deep.row_lengths(axis=2)
deep.merge_dims(0, 1)
deep.merge_dims(1, 2)
deep.merge_dims(0, 2)
wide.merge_dims(1, 2)
deep.merge_dims(2, 1)
r.to_list()
r.to_tensor()
r.to_tensor(-1)
r.to_tensor(default_value=7, shape=[None, 2])
r.to_tensor(shape=[2, 6])
r.to_tensor(shape=[7, None])
deep.to_tensor()
deep.to_tensor(0, shape=[None, 2, 4])
wide.to_tensor()
w.to_tensor('')
tf.sparse.to_dense(r.to_sparse())
deep.to_sparse().indices
wide.to_sparse().dense_shape
r.numpy()
tf.ragged.constant([[1, 2], [3, 4]]).numpy()
repr(r), repr(w), repr(x), repr(deep), repr(wide), str(tf.ragged.constant([[], []]))
bool(r)
len(r)
hash(r)
[row.numpy().tolist() for row in r]
tf.is_tensor(r), isinstance(r, tf.RaggedTensor), isinstance(r, tf.Tensor)
r[0]
r[-2]
r[9]
r[0, 1]
r[2, -1]
r[1:3]
r[::-1]
r[:, :2]
r[:, -2:]
r[:, ::2]
r[:, ::-1]
r[..., 1:]
r[:, 1]
r[1:, tf.newaxis]
r[tf.newaxis]
r[tf.constant(2)]
deep[1]
deep[3, 0]
deep[:, 1:3]
deep[:, -1:]
deep[0, 0, 1]
deep[..., :1]
wide[0]
wide[:, :1]
wide[:, :, 0]
wide[..., 1]
r + 3
3 - r
r + r
r + tf.ragged.constant([[1, 2, 3, 4], [], [5, 6, 7], [8], []])
r * [[1], [2], [3], [4], [5]]
r + [10]
r + tf.ragged.constant([[1], [1], [1], [1], [1]])
tf.ragged.constant([[1], [2]]) + tf.constant([[1, 2, 3], [4, 5, 6]])
wide + tf.constant([[10, 20]])
wide * tf.constant([2, 3])
deep + r[:4, :1]
tf.constant([[[10]]]) + deep
wide + tf.ragged.constant([[[1, 2, 0]], [[1, 2, 0]], []], ragged_rank=1)
tf.constant([[1.0], [2.0], [3.0]]) / x
x / 2
r / 2
r // 2
r % 2
2 ** r
-r
abs(-r)
r > 2
r == 3
r != r
r == None
~(r > 2)
(r > 2) & (r < 5)
w + 'x'
tf.add(r, 3)
tf.maximum(r, 2)
tf.cast(r, tf.float32)
tf.sqrt(x)
tf.square(r)
tf.math.sigmoid(x)
tf.nn.relu(x - 3)
tf.zeros_like(r)
tf.ones_like(x)
tf.identity(r)
tf.clip_by_value(r, 2, 4)
tf.add_n([r, r, r])
tf.one_hot(r, 4)
tf.nn.softmax(x)
tf.math.is_nan(x)
tf.where(r > 2)
tf.where(r > 2, r, 0)
tf.where(r > 2, r, -r)
tf.reduce_sum(r)
tf.reduce_sum(r, axis=0)
tf.reduce_sum(r, axis=1)
tf.reduce_sum(r, axis=-1)
tf.reduce_sum(r, axis=1, keepdims=True)
tf.reduce_sum(r, axis=[0, 1])
tf.reduce_sum(deep, axis=0)
tf.reduce_sum(deep, axis=1)
tf.reduce_sum(deep, axis=2)
tf.reduce_sum(wide, axis=1)
tf.reduce_sum(wide, axis=2)
tf.reduce_mean(r, axis=1)
tf.reduce_mean(x, axis=1)
tf.reduce_mean(x)
tf.reduce_mean(x, axis=0)
tf.reduce_mean(wide, axis=1)
tf.reduce_max(r, axis=1)
tf.reduce_max(x, axis=0)
tf.reduce_max(deep, axis=2)
tf.reduce_min(r, axis=1)
tf.reduce_prod(r, axis=1)
tf.reduce_any(r > 3, axis=1)
tf.reduce_all(r > 3, axis=1)
tf.reduce_all(r > 3)
tf.math.reduce_std(x, axis=1)
tf.math.reduce_variance(x, axis=1)
tf.concat([r, [[5, 3]]], axis=0)
tf.concat([r, r], axis=1)
tf.concat([r, r], axis=-1)
tf.concat([r, r[1:]], axis=1)
tf.concat([deep, deep], axis=1)
tf.concat([deep, deep], axis=2)
tf.concat([tf.fill([5, 1], 0), r], axis=1)
tf.stack([r, r])
tf.stack([r, r], axis=1)
tf.stack([r, r], axis=2)
tf.expand_dims(r, 0)
tf.expand_dims(r, 1)
tf.expand_dims(r, 2)
tf.expand_dims(r, -1)
tf.squeeze(tf.expand_dims(r, 1), 1)
tf.tile(r, [1, 2])
tf.tile(r, [2, 1])
tf.tile(deep, [1, 2, 2])
tf.reverse(r, [1])
tf.reverse(r, [0])
tf.reverse(deep, [1, 2])
tf.gather(r, [2, 0])
tf.gather(r, [[2, 0]])
tf.gather(r, 0)
tf.gather(r, [7])
tf.gather(r, tf.ragged.constant([[1], [0, 2]]))
tf.gather([10, 20, 30], tf.ragged.constant([[1], [0, 2]]))
tf.gather(r, tf.ragged.constant([[1], [], [0, 2], [0], []]), batch_dims=1)
tf.gather_nd(r, [[0, 1], [2, 2]])
tf.gather_nd(r, [[0], [2]])
tf.nn.embedding_lookup(np.arange(20.0).reshape(10, 2), r)
tf.size(r)
tf.rank(deep)
tf.reshape(r, [-1])
tf.map_fn(tf.math.square, r)
tf.map_fn(tf.reduce_sum, r, fn_output_signature=tf.int32)
tf.map_fn(tf.range, [2, 0, 3], fn_output_signature=tf.RaggedTensorSpec([None], tf.int32))
tf.shape(r)
repr(tf.shape(r)), repr(tf.shape(deep)), repr(tf.shape(wide)), repr(tf.shape(r)[:1])
tf.shape(r)[0]
tf.shape(r)[1]
tf.reshape([[1, 2, 3, 4], [5, 6, 7, 8]], tf.shape(r))
tf.zeros(tf.shape(r))
tf.ones(tf.shape(deep), tf.int32)
tf.fill(tf.shape(r), 'x')
repr(tf.experimental.DynamicRaggedShape.from_lengths([4, (2, 1, 0, 8), 12]))
repr(tf.experimental.DynamicRaggedShape([tf.experimental.RowPartition.from_row_lengths([5, 3, 2])], [10, 8]))
tf.experimental.RowPartition.from_value_rowids([0, 0, 2]).row_splits()
tf.experimental.RowPartition.from_uniform_row_length(2, nrows=3).row_lengths()
tf.experimental.RowPartition.from_row_splits([0, 2, 2]).value_rowids()
tf.compat.v1.string_join([['a'], ['b']], '-')
tf.compat.v1.string_strip([' a '])
tf.ragged.constant([[1.5], []])
tf.ragged.constant([['a'], []])
tf.ragged.constant([1, 2])
tf.ragged.constant([[[1, 2], [3, 4]], []], ragged_rank=1)
tf.ragged.constant([[[1, 2], [3, 4]], []], inner_shape=(2,)).shape.as_list()
tf.ragged.constant([[1, 2], []], dtype=tf.float64)
tf.ragged.constant([[1, 2], []], row_splits_dtype=tf.int32).row_splits
tf.ragged.constant([['one', 'two'], [3, 4]])
tf.ragged.constant(['A', ['B', 'C']])
tf.ragged.constant([[[1, 2], [3]]], ragged_rank=1)
tf.ragged.range([2, 5, 3])
tf.ragged.range([2, 5, 3], [6, 5, 10], 2)
tf.ragged.range(3.0)
tf.ragged.stack([[1], [2, 3]])
tf.ragged.stack([r, r])
tf.ragged.stack([[1]])
tf.ragged.boolean_mask(r, r > 2)
tf.ragged.boolean_mask([[1, 2], [3, 4]], [[True, False], [True, True]])
tf.ragged.boolean_mask(r, [True, False, True, False, True])
tf.ragged.boolean_mask(deep, deep > 3)
tf.ragged.map_flat_values(tf.add, r, 1)
tf.ragged.map_flat_values(lambda a, b: a * b, r, r)
tf.ragged.row_splits_to_segment_ids([0, 3, 3, 5])
tf.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2])
tf.ragged.segment_ids_to_row_splits([0, 2], num_segments=5)
tf.ragged.stack_dynamic_partitions([1, 2, 3], [0, 1, 0], 3)
tf.ragged.cross([tf.ragged.constant([['a'], ['b', 'c']]), tf.ragged.constant([['d', 'e'], ['f']])])
tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 2, 2, 3])
tf.RaggedTensor.from_row_splits([1, 2], [0, 3])
tf.RaggedTensor.from_row_splits([1, 2], [1, 2])
tf.RaggedTensor.from_row_splits([1, 2], [])
tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 0, 1])
tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 2])
tf.RaggedTensor.from_value_rowids([1, 2, 3], [0, 2, 2])
tf.RaggedTensor.from_value_rowids([1, 2, 3], [0, 2, 2], nrows=5)
tf.RaggedTensor.from_value_rowids([1, 2, 3], [1, 0, 2])
tf.RaggedTensor.from_row_starts([1, 2, 3], [0, 2, 2])
tf.RaggedTensor.from_row_limits([1, 2, 3], [2, 2, 3])
tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2).shape.as_list()
tf.RaggedTensor.from_uniform_row_length([1, 2, 3], 2)
tf.RaggedTensor.from_nested_row_splits([1, 2, 3], [[0, 2], [0, 1, 3]])
tf.RaggedTensor.from_nested_row_lengths([1, 2, 3], [[2], [1, 2]])
tf.RaggedTensor.from_nested_value_rowids([1, 2, 3], [[0, 0], [0, 1, 1]])
tf.RaggedTensor.from_tensor([[1, 2], [3, 4]])
tf.RaggedTensor.from_tensor([[1, 0], [3, 4], [0, 5]], padding=0)
tf.RaggedTensor.from_tensor([[1, 0], [3, 4]], lengths=[1, 2])
tf.RaggedTensor.from_tensor([[[1, 0], [3, 4]], [[5, 6], [7, 8]]], ragged_rank=2)
tf.RaggedTensor.from_tensor([[[1, 0], [3, 4]], [[0, 0], [7, 8]]], lengths=([2, 1], [1, 2, 0]))
tf.RaggedTensor.from_sparse(tf.SparseTensor([[0, 0], [2, 0], [2, 1]], ['a', 'b', 'c'], [3, 3]))
tf.RaggedTensor.from_sparse(tf.SparseTensor([[0, 1]], ['a'], [3, 3]))
r.with_values(r.values * 2)
r.with_values([1, 2])
deep.with_flat_values(tf.range(10))
r.with_row_splits_dtype(tf.int32).row_splits
repr(tf.RaggedTensorSpec.from_value(r)), repr(tf.RaggedTensorSpec([None, None], tf.int32))
tf.RaggedTensorSpec([None, None], tf.int32).is_compatible_with(r)
len(tf.nest.flatten([r, r])), len(tf.nest.flatten([r, r], expand_composites=True))
tf.nest.map_structure(lambda v: v + 1, {'a': r, 'b': 2})
tf.convert_to_tensor(r)
tf.argmax(r, 1)
tf.transpose(r)
tf.strings.length(w)
tf.strings.upper(w)
tf.strings.substr(w, 0, 2)
tf.strings.join([w, 'x'])
tf.strings.join([w, w], separator='+')
tf.strings.reduce_join(w, axis=1)
tf.strings.reduce_join(w, axis=-1, separator='-')
tf.strings.to_hash_bucket_fast(w, 100)
tf.strings.regex_replace(w, 'a', 'o')
tf.strings.split(['a b', 'c'])
tf.strings.split([['a b', 'c']])
tf.strings.split(tf.ragged.constant([['a b', 'c'], ['d e']]))
tf.strings.bytes_split(['ab', ''])
tf.strings.unicode_split(['a\u00c4', 'b'], 'UTF-8')
tf.strings.unicode_decode(['ab', 'c'], 'UTF-8')
tf.keras.layers.StringLookup(vocabulary=['a', 'bc'])(w)
tf.keras.layers.Hashing(3)(w)
tf.keras.layers.Embedding(10, 2, embeddings_initializer='ones')(r)
tf.keras.layers.GlobalAveragePooling1D()(tf.keras.layers.Embedding(10, 2, embeddings_initializer='ones')(r[:1]))
tf.keras.layers.Dense(2, kernel_initializer='ones')(tf.cast(wide, tf.float32))
tf.keras.layers.Dense(2)(x)
""".strip().splitlines()]


def named(tf):
    return {"r": tf.ragged.constant([[3, 1, 4, 1], [], [5, 9, 2], [6], []]),
            "x": tf.ragged.constant([[0.5, 2.0], [], [3.0, 1.0, 4.5]]), "w": tf.ragged.constant([["a", "bc"], [], ["cab"]]),
            "deep": tf.ragged.constant([[[1, 2, 3], [4]], [[5], [], [6]], [[7]], [[8, 9], [10]]]),
            "wide": tf.ragged.constant([[[1, 2], [3, 4]], [[5, 6]], []], ragged_rank=1)}


PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def functions(tf):
    found = []

    @tf.function
    def double(value):
        return value * 2 + 1

    @tf.function
    def sums(value):
        return tf.reduce_sum(value, axis=1), tf.reduce_mean(value, axis=1), tf.reduce_max(value, axis=-1)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def padded(value):
        return value.to_tensor(), value.row_lengths(), value.nrows(), value.value_rowids(), value.to_tensor(-1)

    @tf.function
    def palindrome(value):
        return tf.concat([value, tf.reverse(value, [1])], 1)

    @tf.function
    def made(values, lengths):
        return tf.RaggedTensor.from_row_lengths(values, lengths) / 2

    for rows in ([[1, 2], [3], [4, 5, 6]], [[], [7]], [[1, 2, 3]]):
        value = tf.ragged.constant(rows, dtype=tf.int32)
        found += [double(value), sums(value), padded(value), palindrome(value)]
    found.append(double.get_concrete_function(tf.ragged.constant([[1, 5], [2]]))(tf.ragged.constant([[1, 2], [3]])))
    found.append(made([1.0, 2.0, 3.0], [2, 0, 1]))
    return found


@program
def gradients(tf):
    table = tf.Variable(np.arange(12.0).reshape(6, 2))
    ids = tf.ragged.constant([[1, 2], [], [5, 1, 0]])

    def loss():
        rows = tf.nn.embedding_lookup(table, ids)
        first = tf.reduce_sum(rows ** 2, axis=1)
        return tf.reduce_sum(first) + tf.reduce_sum(tf.reduce_max(rows, axis=1)[0]) + tf.reduce_sum(rows.to_tensor() * 3.0)

    with tf.GradientTape() as tape:
        value = loss()
    now = tf.convert_to_tensor(tape.gradient(value, table))

    @tf.function
    def later():
        with tf.GradientTape() as inner:
            result = loss()
        return result, tf.convert_to_tensor(inner.gradient(result, table))

    return [value, now, later()]


@program
def datasets(tf):
    dataset = tf.data.Dataset
    rows = tf.ragged.constant([[3, 1, 4, 1], [], [5, 9, 2], [6], []])
    slices = dataset.from_tensor_slices({"rows": rows, "n": [1, 2, 3, 4, 5]})
    batches = slices.batch(2)
    of_rows = dataset.from_tensor_slices(rows)

    def some():
        for i in range(3):
            yield tf.ragged.constant([[i], [i, i]])

    def parts(value):
        return {key: value[key] for key in sorted(value)} if isinstance(value, dict) else value

    kinds = {
        "slices": slices, "batches": batches, "unbatched": batches.unbatch(), "again": batches.unbatch().batch(3),
        "times": of_rows.batch(3).map(lambda value: value * 2),
        "sums": of_rows.batch(2).map(lambda value: tf.reduce_sum(value, 1)),
        "cut": of_rows.batch(2).map(lambda value: value[:, :1]),
        "kept": of_rows.batch(2).filter(lambda value: tf.reduce_sum(value) > 10),
        "whole": dataset.from_tensors(rows), "deep": dataset.from_tensor_slices(tf.ragged.constant([[[1], [2, 3]], [[4]], []])),
        "ragged_batch": dataset.range(5).map(tf.range).ragged_batch(2),
        "dense_to_ragged": dataset.range(3).map(tf.range).apply(tf.data.experimental.dense_to_ragged_batch(2)),
        "generated": dataset.from_generator(some, output_signature=tf.RaggedTensorSpec([None, None], tf.int32)),
        "zipped": dataset.zip((of_rows, of_rows.skip(1))).batch(2), "numbered": of_rows.enumerate().batch(4),
        "made": dataset.from_tensor_slices([[1, 0], [3, 4]]).batch(2).map(
            lambda value: tf.RaggedTensor.from_tensor(value, padding=0)),
        "words": dataset.from_tensor_slices(["a b", "c"]).batch(2).map(tf.strings.split)}
    found = {name: [parts(element) for element in kind] for name, kind in kinds.items()}
    found["specs"] = [repr(of_rows.element_spec), repr(of_rows.batch(2).element_spec)]

    @tf.function
    def following(iterator):
        return tf.reduce_sum(next(iterator), 1)

    found["next"] = following(iter(of_rows.batch(2)))
    return found


@program
def examples(tf):
    def example(colors, lengths):
        train = tf.train
        feature = {"colors": train.Feature(bytes_list=train.BytesList(value=colors)),
                   "lengths": train.Feature(int64_list=train.Int64List(value=lengths))}
        return train.Example(features=train.Features(feature=feature)).SerializeToString()

    rows = [example([b"red", b"blue"], [7]), example([b"orange"], []), example([], [1, 3]), example([b"green"], [3, 5, 2])]
    features = {"colors": tf.io.RaggedFeature(tf.string), "lengths": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)}
    parsed = tf.io.parse_example(rows, features)
    batches = tf.data.Dataset.from_tensor_slices(rows).batch(3).map(lambda batch: tf.io.parse_example(batch, features))
    one = tf.io.parse_single_example(rows[0], features)
    slices = tf.data.Dataset.from_tensor_slices(parsed)
    ranges = slices.map(lambda row: tf.ragged.range(row["lengths"]))
    return [parsed, [value.row_splits.dtype.name for _, value in sorted(parsed.items())], list(batches), one, list(slices),
            list(slices.batch(2)), list(ranges)]


@program
def saved(tf):
    class Scaled(tf.Module):
        def __init__(self):
            super().__init__()
            self.factor = tf.Variable(100.0)

        @tf.function
        def grow(self, rows):
            return rows * self.factor

    module, folder = Scaled(), os.path.join(tempfile.mkdtemp(), "model")
    module.grow.get_concrete_function(tf.RaggedTensorSpec([None, None], tf.float32))
    tf.saved_model.save(module, folder)
    loaded = tf.saved_model.load(folder)
    return loaded.grow(tf.ragged.constant([[1.0, 4.0, 3.0], [2.0]]))


def results(tf):
    found = calls.results(tf, CALLS, **named(tf))
    return {**found, **{name: plain(function(tf)) for name, function in PROGRAMS.items()}}


if __name__ == "__main__":
    calls.write(results, sys.argv[1])
