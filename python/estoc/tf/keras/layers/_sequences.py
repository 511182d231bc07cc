# SPDX-License-Identifier: Apache-2.0
"""tf.keras.experimental.SequenceFeatures: sequence columns as one tensor with an axis of steps."""
from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Node, RaggedNode
from ....io import RaggedArray
from ..._eager import Tensor, unwrap
from ..._ragged import RaggedTensor
from ..._sparse import SparseTensor
from . import _Columns



def _parts(key: str, value: Any) -> tuple:
    """The values and the row splits of a feature."""
    if isinstance(value, SparseTensor):
        value = _ragged_of(key, value)
    if isinstance(value, RaggedTensor):
        value = value._ragged_node()
    if isinstance(value, RaggedArray):
        return Tensor(value.values), Tensor(np.asarray(value.splits, np.int64))
    if isinstance(value, RaggedNode):
        return value.values, value.splits
    raise ValueError(f"SequenceFeatures: the feature {key!r} is dense, which does not say how long its sequences are; give "
                     "a tf.SparseTensor, a ragged tensor, or what a VarLenFeature is parsed to")


def _ragged_of(key: str, sparse: SparseTensor) -> RaggedArray:
    """Rows of a sparse matrix, whose values stand at the beginning of their rows."""
    places, shape = unwrap(sparse.indices), unwrap(sparse.dense_shape)
    if places.shape[1] != 2:
        raise NotImplementedError(f"SequenceFeatures: the feature {key!r} is a sparse tensor of {places.shape[1]} axes; "
                                  "those of 2 do exist, [row, step]")
    counts = np.bincount(places[:, 0], minlength=int(shape[0])).astype(np.int64)
    splits = np.concatenate([[0], np.cumsum(counts)])
    if not np.array_equal(places[:, 1], np.arange(len(places)) - splits[places[:, 0]]):
        raise NotImplementedError(f"SequenceFeatures: the feature {key!r} has rows with gaps between their values, or rows "
                                  "out of order; put the values of a row at its first steps")
    return RaggedArray(unwrap(sparse.values), splits)


class SequenceFeatures(_Columns):
    """Sequence columns side by side, in the order of their names: [batch, longest, sum of widths], and the length of each
    row."""

    _inner, _sequences = "sequence_input_layer", True

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **named: Any):
        super().__init__(feature_columns, 0, None, trainable, {"name": name, **named})
        first = min(self.feature_columns, key=lambda column: column.name)
        self.__dict__["_first"] = (self._keys_of(first)[0], int(np.prod(getattr(first, "shape", ()), dtype=np.int64)))
        self.__dict__["_keys"] = [part for key in self._keys for part in (key, _splits_of(key))]

    @staticmethod
    def _keys_of(column: Any) -> list:
        from ....feature_column import keys_of
        return keys_of([column])

    def __call__(self, features: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(features, dict):
            raise ValueError(f"We expected a dictionary here. Instead we got: {features!r}")
        given = {}
        for key in self._keys[::2]:
            if key not in features:
                raise ValueError(f"Feature {key} is not in features dictionary. There are: {', '.join(features)}")
            given[key], given[_splits_of(key)] = _parts(key, features[key])
        result = super().__call__(given, *args, **named)
        return result, self._lengths(given)

    def _lengths(self, given: dict) -> Any:
        """How many steps each row has, in the first column; the layer has found the others to be the same."""
        key, width = self._first
        splits = given[_splits_of(key)]
        if isinstance(splits, Node):
            counts = splits[1:] - splits[:-1]
            return counts // width if width > 1 else counts
        counts = np.diff(splits._value)
        return Tensor(counts // width if width > 1 else counts)


def _splits_of(key: str) -> str:
    return f"{key}/row_splits"
