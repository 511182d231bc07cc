# SPDX-License-Identifier: Apache-2.0
"""Gradients of rows: cases_rows.py compared with what TensorFlow 2.15 gave."""
import pytest

import estoc.tf as tf

from cases import check, golden
from cases_rows import CASES

GOLDEN = golden("rows")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)


def test_a_var_len_feature_of_one_example_is_sparse():
    features = tf.train.Features(feature={"s": tf.train.Feature(int64_list=tf.train.Int64List(value=[3, 4]))})
    example = tf.train.Example(features=features).SerializeToString()
    parsed = tf.io.parse_single_example(example, {"s": tf.io.VarLenFeature(tf.int64), "t": tf.io.VarLenFeature(tf.string)})
    assert all(isinstance(value, tf.SparseTensor) for value in parsed.values())
    assert parsed["s"].indices.numpy().tolist() == [[0], [1]] and parsed["s"].values.numpy().tolist() == [3, 4]
    assert parsed["s"].dense_shape.numpy().tolist() == [2] and tf.sparse.to_dense(parsed["s"]).numpy().tolist() == [3, 4]
    empty = parsed["t"]
    assert empty.shape == (0,) and empty.indices.shape == (0, 1) and empty.dtype == tf.string
    assert tf.sparse.to_dense(empty).shape == (0,)
