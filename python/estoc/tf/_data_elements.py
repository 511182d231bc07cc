# SPDX-License-Identifier: Apache-2.0
"""The elements of datasets: what arrays, tensors and ragged tensors are to C, and what they look like."""
from __future__ import annotations

from typing import Any

import numpy as np

from .. import _nest
from .. import io as _io
from .._lib import lib
from .._tensor import as_array, as_dtype
from ..data import TensorSpec
from ..graph import Node, RaggedNode, Shape
from ._eager import Tensor, unwrap, wrap
from ._ragged import RaggedTensor, RaggedTensorSpec
from ._sparse import SparseTensor


def plain_values(value: Any) -> Any:
    """Tensors as arrays or nodes; ragged ones as what estoc has for them."""
    return _nest.map_structure(_value, value)


def _value(leaf: Any) -> Any:
    if isinstance(leaf, SparseTensor):
        raise NotImplementedError("a sparse tensor cannot be an element of a dataset: tf.sparse.to_dense makes a dense one of "
                                  "it, tf.RaggedTensor.from_sparse a ragged one")
    return RaggedNode.of(unwrap(leaf))


def unlisted(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, (bool, np.bool_)) else leaf


def unlisted_tuple(result: Any) -> Any:
    return tuple(result) if isinstance(result, list) else result


def array_spec(leaf: Any) -> TensorSpec:
    """What an array or a ragged one of an element looks like."""
    if isinstance(leaf, _io.RaggedArray):
        return TensorSpec((None, *leaf.values.shape[1:]), leaf.values.dtype, ragged=True)
    array = as_array(leaf)
    return TensorSpec(array.shape, array.dtype)


def ragged_of(leaf: Any, ragged: bool) -> Any:
    """A part of an element as a tensor."""
    if ragged and isinstance(leaf, (_io.RaggedArray, RaggedNode)):
        values = leaf.values if isinstance(leaf.values, Node) else Tensor(leaf.values)
        return RaggedTensor._of(values, leaf.splits)
    return wrap(leaf)


def ragged_spec(spec: TensorSpec) -> Any:
    """That of a ragged tensor, or of one row of it."""
    if spec.ragged:
        return RaggedTensorSpec((None, None, *spec.shape[1:]), spec.dtype, 1)
    return RaggedTensorSpec(spec.shape, spec.dtype, 0)


def ragged_row(value: RaggedTensor, number: Node) -> Any:
    """The row with a number that is known when it is run."""
    from .. import ops
    graph = number.graph
    splits = graph.constant(value._splits.astype(np.int64))
    start, end = ops.gather(splits, number), ops.gather(splits, number + 1)
    places = graph.node(lib.est_range(start._c, end._c, graph.constant(np.int64(1))._c))
    inner = value._inner
    if not isinstance(inner, RaggedTensor):
        return ops.gather(graph.constant(unwrap(inner)), places)
    ends = graph.constant(inner._splits.astype(np.int64))
    first = ops.gather(ends, start)
    one = graph.constant(np.int64(1))
    cut = graph.node(lib.est_range(start._c, (end + one)._c, one._c))
    below = graph.node(lib.est_range(first._c, ops.gather(ends, end)._c, one._c))
    return RaggedTensor._of(ops.gather(graph.constant(unwrap(inner._inner)), below), ops.gather(ends, cut) - first)


def merged(a: Any, b: Any) -> Any:
    """Two specs as one that both fit."""
    specs = [TensorSpec(None if len(x.shape) != len(y.shape) else tuple(m if m == n else None for m, n in
                                                                          zip(x.shape, y.shape)), x.dtype, ragged=x.ragged)
             for x, y in zip(_nest.flatten(a), _nest.flatten(b))]
    return _nest.pack(_nest.structure(a), specs)


def cast_to(node: Node, dtype: Any) -> Node:
    from .. import ops
    return ops.cast(node, dtype)


def signature_of(types: Any, shapes: Any) -> Any:
    if isinstance(types, dict):
        return {key: signature_of(types[key], None if shapes is None else shapes[key]) for key in types}
    if isinstance(types, tuple):
        return tuple(signature_of(item, None if shapes is None else shapes[i]) for i, item in enumerate(types))
    return TensorSpec(None if shapes is None else Shape(shapes), as_dtype(types))
