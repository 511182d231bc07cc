# SPDX-License-Identifier: Apache-2.0
"""Functions of tf that estoc.ops does not have: arrays of a shape, ranges, norms, masks."""
from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

import numpy as np

from .. import ops
from .._lib import Keep, ffi, here, lib
from .._tensor import as_array, as_dtype, float32, int32
from ..graph import Node, as_node, default_graph
from . import _structure
from ._eager import Tensor, eager, unwrap
from ._world import Variable, current_trace, name_scopes


def _plain_shape(shape: Any) -> Any:
    shape = unwrap(shape)
    if isinstance(shape, Node):
        return shape
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    shape = shape.tolist() if isinstance(shape, np.ndarray) else list(shape)
    return shape if any(isinstance(dim, Node) for dim in shape) else tuple(int(dim) for dim in shape)


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    shape = _plain_shape(shape)
    kind = as_dtype(dtype)
    if isinstance(shape, tuple) and ops.building_graph() is not None:  # tf.compat.v1
        return ops.building_graph().constant(np.full(shape, value, kind.as_numpy_dtype), kind)
    if isinstance(shape, tuple):
        return Tensor(np.full(shape, value, kind.as_numpy_dtype if kind.name != "string" else object), kind)
    if isinstance(shape, list):
        shape = ops.stack(shape)
    here()
    return shape.graph.node(lib.est_fill(shape._c, shape.graph.constant(value, kind)._c))


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    kind = as_dtype(dtype)
    return _filled(shape, b"" if kind.name == "string" else 0, kind)


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    return _filled(shape, 1, dtype)


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of that shape, full of one value."""
    if isinstance(value, (Node, Variable)) and default_graph() is not None:
        graph, shape = default_graph(), _plain_shape(dims)
        shape = shape if isinstance(shape, Node) else graph.constant(np.asarray(shape, np.int32))
        return graph.node(lib.est_fill(shape._c, as_node(unwrap(value), graph)._c))
    value = as_array(unwrap(value))
    return _filled(dims, value[()], value.dtype)


def range_(*arguments: Any, delta: Any = 1, dtype: Any = None, name: str | None = None, **named: Any) -> Any:
    """start, start + delta, ... before limit."""
    given = list(arguments) + [named[key] for key in ("start", "limit") if key in named]
    start, limit, delta = (0, given[0], delta) if len(given) == 1 else (given + [delta])[:3]
    values = [unwrap(value) for value in (start, limit, delta)]
    node = next((value for value in values if isinstance(value, Node)), None)
    if node is not None:
        here()
        parts = [as_node(value, node.graph, node.dtype) for value in values]
        return node.graph.node(lib.est_range(*(part._c for part in parts)))
    kinds = [as_array(value).dtype for value in values]
    floats = [item for item in kinds if item.kind == "f"]
    kind = as_dtype(dtype if dtype is not None else np.result_type(*(floats or kinds)))
    return Tensor(np.arange(*(np.asarray(value)[()] for value in values)).astype(kind.as_numpy_dtype))


def linspace(start: Any, stop: Any, num: int, name: str | None = None, axis: int = 0) -> Tensor:
    start = as_array(unwrap(start))
    return Tensor(np.linspace(start, as_array(unwrap(stop)), int(num), axis=axis).astype(start.dtype))


def eye(num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = float32,
        name: str | None = None) -> Tensor:
    """Identity matrices."""
    matrix = np.eye(num_rows, num_columns, dtype=as_dtype(dtype).as_numpy_dtype)
    return Tensor(matrix if batch_shape is None else np.broadcast_to(matrix, tuple(batch_shape) + matrix.shape))


@eager
def broadcast_to(input: "Tensor", shape: Any) -> Node:  # noqa: A002
    """The tensor repeated to a shape."""
    graph = input.graph
    shape = shape if isinstance(shape, Node) else graph.constant(np.asarray(shape, np.int32))
    return graph.node(lib.est_broadcast_to(ops._node(input)._c, shape._c))


@eager
def boolean_mask(tensor: "Tensor", mask: "Tensor") -> Node:
    """The rows for which the mask is true."""
    graph = (tensor if isinstance(tensor, Node) else mask).graph
    mask = as_node(mask, graph)
    rows = graph.node(lib.est_squeeze(lib.est_where(mask._c), Keep().i64s([1])))
    return graph.node(lib.est_gather(as_node(tensor, graph)._c, rows._c, 0))


@eager
def rank(input: "Tensor") -> Node:  # noqa: A002
    """The number of axes."""
    return input.graph.constant(np.int32(len(input.shape)))


@eager
def norm(tensor: "Tensor", ord: Any = "euclidean", axis: Any = None, keepdims: bool = False) -> Node:  # noqa: A002
    """The l2 norm, or with ord=1 the sum of absolute values, over axes."""
    x = ops._node(tensor)
    if ord in ("euclidean", "fro", 2):
        return ops.sqrt(ops.reduce_sum(ops.square(x), axis, keepdims))
    if ord == 1:
        return ops.reduce_sum(ops.abs(x), axis, keepdims)
    if ord == np.inf:
        return ops.reduce_max(ops.abs(x), axis, keepdims)
    raise NotImplementedError(f"norm: ord is \"euclidean\", 1, 2 or inf, not {ord!r}")


@eager
def matvec(a: "Tensor", b: "Tensor") -> Node:
    """A matrix times a vector."""
    graph = (a if isinstance(a, Node) else b).graph
    column = graph.node(lib.est_expand_dims(as_node(b, graph)._c, -1))
    return ops.squeeze(ops.matmul(as_node(a, graph), column), -1)


@eager
def unique_with_index(x: "Tensor") -> tuple:
    x = ops._node(x)
    index = ffi.new("est_node *")
    values = x.graph.node(lib.est_unique(x._c, index))
    return values, x.graph.node(index[0])


def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> tuple:
    """The distinct elements of a vector, and which of them each element is."""
    values, index = unique_with_index(x)
    return values, index if index.dtype == as_dtype(out_idx) else eager(ops.cast)(index, out_idx)


@eager
def in_top_k(targets: "Tensor", predictions: "Tensor", k: int) -> Node:
    """Whether each target class is among the k largest predictions of its row."""
    graph = (targets if isinstance(targets, Node) else predictions).graph
    return graph.node(lib.est_in_top_k(as_node(predictions, graph)._c, as_node(targets, graph)._c, k))


@eager
def unsorted_segment_sum(data: "Tensor", segment_ids: "Tensor", num_segments: int) -> Node:
    """Sums of the rows with equal ids."""
    graph = (data if isinstance(data, Node) else segment_ids).graph
    count = graph.constant(np.int32(num_segments))
    return graph.node(lib.est_unsorted_segment_sum(as_node(data, graph)._c, as_node(segment_ids, graph)._c, count._c))


def clip_by_global_norm(t_list: Any, clip_norm: float, use_norm: Any = None, name: str | None = None) -> tuple:
    """Tensors scaled down together, and their norm before."""
    if use_norm is not None:
        raise NotImplementedError("clip_by_global_norm: use_norm does not exist yet")
    given = list(t_list)
    clipped = iter(_clip_global([item for item in given if item is not None], float(clip_norm)))
    total = next(clipped)
    return [None if item is None else next(clipped) for item in given], total


@eager
def _clip_global(tensors: "Tensors", limit: float) -> list:  # noqa: F821
    graph = next(item for item in tensors if isinstance(item, Node)).graph
    array = ffi.new("est_gradient[]", len(tensors))
    for i, item in enumerate(tensors):
        array[i].values = as_node(item, graph)._c
    total = graph.node(lib.est_clip_by_global_norm(array, len(tensors), limit))
    return [total] + [Node(graph, array[i].values) for i in range(len(tensors))]


@eager
def _global_norm(tensors: "Tensors") -> Node:  # noqa: F821
    graph = next(item for item in tensors if isinstance(item, Node)).graph
    array = ffi.new("est_gradient[]", len(tensors))
    for i, item in enumerate(tensors):
        array[i].values = as_node(item, graph)._c
    return graph.node(lib.est_global_norm(array, len(tensors)))


def global_norm(t_list: Any, name: str | None = None) -> Any:
    """The l2 norm of tensors together."""
    return _global_norm([item for item in t_list if item is not None])


@contextlib.contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Names of operations in a function start with the name."""
    graph = default_graph()
    if graph is None or current_trace() is not None:
        scopes = name_scopes()
        scopes.append(name)
        try:
            with graph.scope(name) if graph is not None else contextlib.nullcontext():
                yield "/".join(scopes) + "/"
        finally:
            scopes.pop()
        return
    if ops.building_graph() is not None:
        from .compat.v1._graph import name_scope as of_graphs
        with of_graphs(name) as full:
            yield full
        return
    with graph.scope(name):
        yield name + "/"


def print_(*inputs: Any, output_stream: Any = None, summarize: int = 3, sep: str = " ", end: str = "\n",
           name: str | None = None) -> None:
    """Prints values to stderr. In a function there are none while it is traced: that raises."""
    if any(isinstance(leaf, Node) for leaf in _structure.flatten(inputs)):
        raise NotImplementedError("tf.print within a tf.function does not exist yet: return the tensor and print it")
    stream = output_stream if hasattr(output_stream, "write") else sys.stderr
    stream.write(sep.join(str(unwrap(item)) for item in inputs) + end)
