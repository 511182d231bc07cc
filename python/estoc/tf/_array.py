# SPDX-License-Identifier: Apache-2.0
"""Functions of tf that estoc.ops does not have: arrays of a shape, ranges, norms, masks."""
from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Iterable, Iterator

import numpy as np

from .. import ops
from .._lib import ffi, here, lib
from .._tensor import array_like, as_array, as_dtype, float32, int32, int64
from ..errors import InvalidArgumentError
from ..graph import NeedsValue, Node, as_node, default_graph
from . import _structure
from ._eager import Tensor, eager, is_recorded, tapes, unwrap
from ._trace import current_trace, enter_scope
from ._variable import Variable


def _plain_shape(shape: Any) -> Any:
    """A shape as a tuple, or as a node where sizes are known only when it is run."""
    shape = unwrap(shape)
    if isinstance(shape, Node):
        return ops.reshape(shape, [-1]) if shape.shape == () else shape
    if isinstance(shape, np.ndarray):
        shape = shape.reshape(-1).tolist()
    elif not isinstance(shape, Iterable):
        shape = (shape,)
    sizes = list(shape)
    node = next((size for size in sizes if isinstance(size, Node)), None)
    if node is None:
        return tuple(int(size) for size in sizes)
    return ops.stack([ops.cast(as_node(size, node.graph, None if isinstance(size, Node) else int32), int32)
                      for size in sizes])


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    if hasattr(shape, "filled"):  # of a ragged tensor
        return shape.filled(value, dtype)
    shape = _plain_shape(shape)
    kind = as_dtype(dtype)
    if isinstance(shape, tuple) and ops.building_graph() is not None:  # tf.compat.v1
        return ops.building_graph().constant(np.full(shape, value, kind.as_numpy_dtype), kind)
    if isinstance(shape, tuple):
        return Tensor(np.full(shape, value, kind.as_numpy_dtype if kind.name != "string" else object), kind)
    here()
    return shape.graph.node(lib.est_fill(shape._c, shape.graph.constant(value, kind)._c))


def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of zeros, empty strings or False."""
    kind = as_dtype(dtype)
    return _filled(shape, b"" if kind.name == "string" else 0, kind)


def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Any:
    """A tensor of ones."""
    if as_dtype(dtype).name == "string":
        raise TypeError("no string is one: tf.fill makes a tensor full of a text")
    return _filled(shape, 1, dtype)


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of that shape, full of one value."""
    if isinstance(value, (Node, Variable)) and default_graph() is not None:
        graph, shape = default_graph(), _plain_shape(dims)
        shape = shape if isinstance(shape, Node) else graph.constant(np.asarray(shape, np.int32))
        return graph.node(lib.est_fill(shape._c, as_node(unwrap(value), graph)._c))
    if is_recorded(value):
        return broadcast_to(value, dims)
    value = as_array(unwrap(value))
    return _filled(dims, value[()], value.dtype)


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range") -> Any:
    """start, start + delta, ... before limit. With one argument that is the limit, and the start 0."""
    if limit is None:
        start, limit = 0, start
    values = [unwrap(value) for value in (start, limit, delta)]
    node = next((value for value in values if isinstance(value, Node)), None)
    if node is not None:
        here()
        parts = [as_node(value, node.graph, node.dtype) for value in values]
        return node.graph.node(lib.est_range(*(part._c for part in parts)))
    kinds = [as_array(value).dtype for value in values]
    floats = [item for item in kinds if item.kind == "f"]
    kind = as_dtype(dtype if dtype is not None else np.result_type(*(floats or kinds)))
    start, limit, delta = (np.asarray(value)[()] for value in values)
    if not kind.is_floating and floats:
        raise TypeError(f"Cannot convert {next(value for value in values if as_array(value).dtype.kind == 'f')!r} to a tensor "
                        f"of dtype {kind.name}")
    if delta == 0:
        raise InvalidArgumentError("Requires delta != 0: 0")
    if (limit - start) * np.sign(delta) < 0:
        signs = ("<=", ">") if delta > 0 else (">=", "<")
        raise InvalidArgumentError(f"Requires start {signs[0]} limit when delta {signs[1]} 0: {start}/{limit}")
    return Tensor(np.arange(start, limit, delta).astype(kind.as_numpy_dtype))


def linspace(start: Any, stop: Any, num: int, name: str | None = None, axis: int = 0) -> Tensor:
    """Numbers from start to stop with equal distances."""
    if is_recorded(start) or is_recorded(stop):
        if axis != 0:
            raise NotImplementedError("tf.linspace: with a gradient the axis is 0")
        first, last = _numbers(start), _numbers(stop)
        steps = np.linspace(0, 1, int(num), dtype=first.dtype.as_numpy_dtype)
        return first + (last - first) * steps.reshape([-1] + [1] * max(len(first.shape), len(last.shape)))
    start = as_array(unwrap(start))
    if start.dtype.kind != "f":
        start = start.astype(np.float64)
    if int(num) < 1:
        raise InvalidArgumentError(f"Requires num > 0: {int(num)}")
    return Tensor(np.linspace(start, array_like(unwrap(stop), start.dtype), int(num), axis=axis).astype(start.dtype))


def eye(num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32,
        name: str | None = None) -> Any:
    """Identity matrices."""
    sizes = [unwrap(size) for size in (num_rows, num_rows if num_columns is None else num_columns)]
    if any(isinstance(size, Node) for size in sizes):
        if batch_shape is not None:
            raise NotImplementedError("eye: batch_shape with a size that is known only when it is run")
        rows, columns = (range_(ops.cast(size, int32) if isinstance(size, Node) else size) for size in sizes)
        return eager(ops.cast)(eager(ops.equal)(eager(ops.expand_dims)(rows, 1), columns), dtype)
    num_rows, num_columns = (int(size) for size in sizes)
    matrix = np.eye(num_rows, num_columns, dtype=as_dtype(dtype).as_numpy_dtype)
    return Tensor(matrix if batch_shape is None else np.broadcast_to(matrix, tuple(batch_shape) + matrix.shape))


@eager
def broadcast_to(input: "Tensor", shape: Any) -> Node:  # noqa: A002
    """The tensor repeated to a shape."""
    graph = input.graph
    shape = _plain_shape(shape)
    shape = shape if isinstance(shape, Node) else graph.constant(np.asarray(shape, np.int32))
    return graph.node(lib.est_broadcast_to(ops._node(input)._c, shape._c))


@eager
def boolean_mask(tensor: "Tensor", mask: "Tensor", axis: int | None = None) -> Node:
    """The rows for which the mask is true; a mask of several axes takes as many of the tensor, from `axis` on."""
    graph = (tensor if isinstance(tensor, Node) else mask).graph
    mask, tensor = as_node(mask, graph), as_node(tensor, graph)
    axis = 0 if axis is None else axis % len(tensor.shape)
    masked = tensor.shape[axis:axis + len(mask.shape)]
    if len(mask.shape) == 0:
        raise ValueError("mask cannot be scalar.")
    if len(masked) != len(mask.shape) or any(
            None not in pair and pair[0] != pair[1] for pair in zip(masked, mask.shape)):
        raise ValueError(f"Shapes {tuple(masked)} and {tuple(mask.shape)} are incompatible")
    if len(mask.shape) > 1:
        head, tail = tensor.shape[:axis], tensor.shape[axis + len(mask.shape):]
        if None in head or None in tail:
            raise NotImplementedError("boolean_mask with a mask of several axes needs the shape of a row")
        tensor, mask = ops.reshape(tensor, (*head, -1, *tail)), ops.reshape(mask, (-1,))
    rows = ops.squeeze(graph.node(lib.est_where(mask._c)), 1)
    return graph.node(lib.est_gather(tensor._c, rows._c, axis))


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """t within the two, which are numbers or tensors."""
    if isinstance(clip_value_min, (int, float)) and isinstance(clip_value_max, (int, float)):
        return _clip_to_numbers(t, clip_value_min, clip_value_max)
    return _minimum(_maximum(t, clip_value_min), clip_value_max)


_clip_to_numbers, _maximum, _minimum = eager(ops.clip_by_value), eager(ops.maximum), eager(ops.minimum)


@eager
def rank(input: "Tensor") -> Node:  # noqa: A002
    """The number of axes."""
    return input.graph.constant(np.int32(len(input.shape)))


@eager
def norm(tensor: "Tensor", ord: Any = "euclidean", axis: Any = None, keepdims: bool = False) -> Node:  # noqa: A002
    """The norm of vectors along an axis, or of all elements; of matrices along two axes only the euclidean one."""
    x = ops._node(tensor)
    if not isinstance(ord, str) and not np.isscalar(ord) or isinstance(ord, str) and ord not in ("euclidean", "fro"):
        raise ValueError(f"'ord' must be a supported norm, got {ord!r}")
    matrices = np.ndim(axis) == 1 and len(axis) == 2
    if matrices and ord not in ("euclidean", "fro") or not matrices and ord == "fro":
        raise NotImplementedError(f"norm: ord={ord!r} of {'matrices' if matrices else 'vectors'} does not exist yet")
    if ord in ("euclidean", "fro", 2):
        return ops.sqrt(ops.reduce_sum(ops.square(x), axis, keepdims))
    if ord == 1:
        return ops.reduce_sum(ops.abs(x), axis, keepdims)
    if ord == np.inf:
        return ops.reduce_max(ops.abs(x), axis, keepdims)
    if ord <= 0:
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")
    return ops.pow(ops.reduce_sum(ops.pow(ops.abs(x), float(ord)), axis, keepdims), 1.0 / ord)


@eager
def matvec(a: "Tensor", b: "Tensor", transpose_a: bool = False) -> Node:
    """A matrix times a vector."""
    graph = (a if isinstance(a, Node) else b).graph
    column = graph.node(lib.est_expand_dims(as_node(b, graph)._c, -1))
    return ops.squeeze(ops.matmul(as_node(a, graph), column, transpose_a), -1)


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


def confusion_matrix(labels: Any, predictions: Any, num_classes: Any = None, weights: Any = None, dtype: Any = int32,
                     name: str | None = None) -> Any:
    """How often each class (rows) was predicted as each class (columns)."""
    rows, columns = (eager(ops.cast)(_column_as_vector(item), "int64") for item in (labels, predictions))
    if num_classes is None:
        if isinstance(rows, Node) or isinstance(columns, Node):
            raise NotImplementedError("confusion_matrix in a function: give num_classes")
        num_classes = 1 + max((int(item._value.max()) for item in (rows, columns) if item._value.size), default=-1)
    pairs = eager(ops.stack)([rows, columns], 1)
    each = eager(ops.ones_like)(rows) if weights is None else weights
    n = int(num_classes)
    return scatter_nd(pairs, eager(ops.cast)(each, dtype), (n, n))


def _column_as_vector(value: Any) -> Any:
    value = value if isinstance(value, (Node, Tensor)) else Tensor(unwrap(value))
    return eager(ops.squeeze)(value, [-1]) if len(value.shape) == 2 and value.shape[1] == 1 else value


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
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"t_list is a list of tensors, not {type(t_list).__name__}")
    given = list(t_list)
    if all(item is None for item in given):
        return given, Tensor(np.float32(0))
    from ._indexed_slices import like, values_of
    clipped = iter(_clip_global(values_of([item for item in given if item is not None]), float(clip_norm)))
    total = next(clipped)
    return [None if item is None else like(next(clipped), item) for item in given], total


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
    from ._indexed_slices import values_of
    return _global_norm(values_of([item for item in t_list if item is not None]))


@contextlib.contextmanager
def name_scope(name: str) -> Iterator[str]:
    """Names of operations in a function start with the name."""
    graph = default_graph()
    if graph is None or current_trace() is not None:
        with enter_scope(name) as scopes, graph.scope(name) if graph is not None else contextlib.nullcontext():
            yield "/".join(scopes + [""])
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
    """Prints values to stderr, or to a stream or a file ("file://..."). A function that is traced prints after each of
    its runs."""
    def write(values: list) -> None:
        rest = iter(values)
        shown = _structure.map_structure(lambda leaf: next(rest) if isinstance(leaf, Node) else _Verbatim(leaf)
                                         if isinstance(leaf, np.ndarray) else unwrap(leaf), inputs)
        texts = [_shown(item, summarize, within=False) for item in shown]
        if len(texts) == 1 and texts[0].startswith('"') and not isinstance(shown[0], str):
            texts[0] = texts[0][1:-1]  # one string is printed without quotes
        line = sep.join(texts) + end
        if isinstance(output_stream, str):
            if not output_stream.startswith("file://"):
                raise ValueError(f"output_stream is a stream or \"file://...\", not {output_stream!r}")
            with open(output_stream[len("file://"):], "a", encoding="utf-8") as file:
                file.write(line)
            return
        (output_stream if hasattr(output_stream, "write") else sys.stderr).write(line)

    if name is not None and not isinstance(name, str):
        raise TypeError("name is a string")
    nodes = [leaf for leaf in _structure.flatten(inputs) if isinstance(leaf, Node)]
    trace = current_trace()
    if trace is not None:
        inputs = _structure.map_structure(lambda leaf: leaf._as_node(trace.graph) if isinstance(leaf, Variable) else leaf,
                                          inputs)
        trace.effects.append(([leaf for leaf in _structure.flatten(inputs) if isinstance(leaf, Node)], write))
    elif nodes:
        raise NotImplementedError("tf.print exists in a tf.function, and not in a model_fn, a network that is fitted or "
                                  "a function of Dataset.map: LoggingTensorHook and callbacks print there")
    else:
        write([])


class _Verbatim:
    """An argument of tf.print that is shown by its repr: an array that is no tensor."""

    def __init__(self, value: np.ndarray):
        self.value = value


def _number(value: Any) -> str:
    """An element of a tensor; a float in few digits where those read back as the same."""
    if isinstance(value, bytes):
        return '"' + value.decode("utf-8", "replace") + '"'
    if not isinstance(value, np.floating):
        return str(value if isinstance(value, np.complexfloating) else int(value))
    few, many = (15, 17) if value.dtype == np.float64 else (6, 9)
    short = f"{value:.{few}g}"
    return short if value != value or type(value)(short) == value else f"{value:.{many}g}"


def _rows(value: np.ndarray, ends: int, indent: int = 1) -> str:
    """A tensor without commas, the first and last elements of an axis."""
    if value.ndim == 0:
        return _number(value[()])
    gap = " " if value.ndim == 1 else "\n" * (value.ndim - 1) + " " * indent
    shown = value if len(value) <= 2 * ends else [*value[:ends], *value[len(value) - ends:]]
    items = [_rows(np.asarray(item, value.dtype), ends, indent + 1) for item in shown]
    if len(value) > 2 * ends:
        items.insert(ends, "...")
    return "[" + (gap if len(value) and not ends else "") + gap.join(items) + "]"


def _shown(value: Any, summarize: int, within: bool = True) -> str:
    """A value, which may be within a list or the like, as tf.print has it."""
    if isinstance(value, np.ndarray):
        return _rows(value, value.size if summarize is None or summarize < 0 else min(summarize, value.size))
    if isinstance(value, _Verbatim):
        return repr(value.value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(value[key], summarize)}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_shown(item, summarize) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return str(value) if isinstance(value, np.generic) or not within else repr(value)


def py_function(func: Any = None, inp: Any = None, Tout: Any = None, name: str | None = None) -> Any:  # noqa: N803
    """A Python function of tensors with values. A tf.function that calls it is run as Python, and the function of a
    Dataset.map for each element."""
    if func is None:
        return lambda function: functools.wraps(function)(
            lambda *arguments: py_function(function, list(arguments), Tout))
    leaves = list(inp if inp is not None else ())
    if current_trace() is not None or default_graph() is not None or any(isinstance(leaf, Node) for leaf in leaves):
        raise NeedsValue("a Python function (tf.py_function, tf.numpy_function) needs values")
    result = func(*map(_numbers, leaves))
    if Tout is None or isinstance(Tout, (list, tuple)) and not Tout:
        return None
    if isinstance(Tout, (list, tuple)):
        results = result if isinstance(result, (list, tuple)) else [result]  # an array is one result, not its rows
        if len(results) != len(Tout):
            raise InvalidArgumentError(f"the function gave {len(results)} results, and Tout has {len(Tout)} dtypes")
        return [_of_dtype(item, dtype) for item, dtype in zip(results, Tout)]
    return _of_dtype(result, Tout)


def _numbers(value: Any) -> Tensor:
    """A value as a tensor; those that tapes know stay what they are."""
    if isinstance(value, Variable):
        return value.value()
    return value if isinstance(value, Tensor) else Tensor(unwrap(value))


def _of_dtype(value: Any, dtype: Any) -> Tensor:
    value = _numbers(value)
    return value if value.dtype == as_dtype(dtype) else Tensor(as_array(value._value, dtype))


def numpy_function(func: Any = None, inp: Any = None, Tout: Any = None, stateful: bool = True,  # noqa: N803
                   name: str | None = None) -> Any:
    """The same for a function of arrays."""
    if func is None:
        return lambda function: functools.wraps(function)(
            lambda *arguments: numpy_function(function, list(arguments), Tout))
    return py_function(lambda *tensors: func(*(tensor.numpy() for tensor in tensors)), inp, Tout)


# --- pieces -----------------------------------------------------------------------------------------------------------


def meshgrid(*arguments: Any, indexing: str = "xy", name: str | None = None) -> list:
    """The coordinates of a grid, from those of its axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'")
    vectors = [eager(ops.reshape)(item, [-1]) for item in arguments]
    n, order = len(vectors), list(range(len(vectors)))
    if indexing == "xy" and n >= 2:
        order[0], order[1] = 1, 0
    sizes = [1] * n
    for i, vector in enumerate(vectors):
        sizes[order[i]] = vector.shape[0]
    if None in sizes:
        raise NotImplementedError("meshgrid: vectors of a known size")
    grids = []
    for i, vector in enumerate(vectors):
        shape = [1] * n
        shape[order[i]] = -1
        grids.append(broadcast_to(eager(ops.reshape)(vector, shape), sizes))
    return grids


@eager
def reduce_variance(input_tensor: "Tensor", axis: Any = None, keepdims: bool = False) -> Node:
    """The mean of the squared distances from the mean."""
    x = ops._node(input_tensor)
    return ops.reduce_mean(ops.square(x - ops.reduce_mean(x, axis, True)), axis, keepdims)


@eager
def reduce_std(input_tensor: "Tensor", axis: Any = None, keepdims: bool = False) -> Node:
    """The square root of the variance."""
    return ops.sqrt(reduce_variance.over_nodes(input_tensor, axis, keepdims))


@eager
def sort(values: "Tensor", axis: int = -1, direction: str = "ASCENDING") -> Node:
    """The elements along an axis in their order."""
    return _ordered(values, axis, direction)[0]


@eager
def argsort(values: "Tensor", axis: int = -1, direction: str = "ASCENDING", stable: bool = False) -> Node:
    """Where the elements along an axis come from when they are sorted; equal ones keep their order."""
    return _ordered(values, axis, direction)[1]


def _turned(x: Node) -> Node:
    """Numbers in the opposite order. The least integer has no negative one."""
    if x.dtype.is_floating:
        return ops.negative(x)
    return ops.subtract(x.graph.constant(np.asarray(-1, x.dtype.as_numpy_dtype)), x)


def _ordered(values: Any, axis: int, direction: str) -> tuple:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"direction is \"ASCENDING\" or \"DESCENDING\", not {direction!r}")
    x = ops._node(values)
    if x.shape is None or x.shape[axis] is None:
        raise NotImplementedError("sort: the size of the axis must be known")
    last, rank = len(x.shape) - 1, len(x.shape)
    axis = axis % rank
    swap = [last if i == axis else axis if i == last else i for i in range(rank)]
    x = x if axis == last else ops.transpose(x, swap)
    up = direction == "ASCENDING"
    found, index = ops.top_k(_turned(x) if up else x, x.shape[-1])
    found = _turned(found) if up else found
    return tuple(part if axis == last else ops.transpose(part, swap) for part in (found, index))


@eager
def reverse(tensor: "Tensor", axis: Any) -> Node:
    """The elements in the opposite order along axes."""
    x = ops._node(tensor)
    axes = [axis] if isinstance(axis, int) else list(axis)
    axes = [item % len(x.shape) for item in axes]
    return Node.__getitem__(x, tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(len(x.shape))))


@eager
def gather_nd(params: "Tensor", indices: "Tensor") -> Node:
    """The parts of params that the rows of indices point to."""
    graph = (params if isinstance(params, Node) else indices).graph
    x, index = as_node(params, graph), as_node(indices, graph)
    depth = index.shape[-1]
    sizes = x.shape[:depth]
    if depth is None or None in sizes[1:] or depth > 1 and None in x.shape[depth:]:
        raise NotImplementedError("gather_nd: the sizes of all axes but the first must be known")
    if depth == 1:
        return ops.gather(x, ops.squeeze(index, -1))
    return ops.gather(ops.reshape(x, [-1] + list(x.shape[depth:])), _flat_places(index, sizes))


def _flat_places(index: Node, sizes: Any) -> Node:
    """The rows of indices as places in a tensor of these first axes, one after the other; they must be within it."""
    place = index.graph.constant(np.asarray(0, index.dtype.as_numpy_dtype))
    for i, size in enumerate(sizes):
        part = Node.__getitem__(index, (Ellipsis, i))
        if size is not None:
            part = index.graph.node(lib.est_check_range(part._c, 0, float(size - 1), (
                f"axis {i} of indices into the shape {tuple(sizes)}").encode()))
        stride = int(np.prod(sizes[i + 1:], dtype=np.int64))
        place = place + part * index.graph.constant(np.asarray(stride, index.dtype.as_numpy_dtype))
    return place


@eager
def scatter_nd(indices: "Tensor", updates: "Tensor", shape: Any) -> Node:
    """A tensor of that shape with the updates at the places of indices, those at one place added up, and 0 elsewhere."""
    graph = (updates if isinstance(updates, Node) else indices).graph
    return _scatter(as_node(indices, graph), as_node(updates, graph), tuple(int(size) for size in shape))


def _scatter(index: Node, updates: Node, shape: tuple) -> Node:
    depth = index.shape[-1]
    sizes, rest = shape[:depth], shape[depth:]
    return _sum_at(_flat_places(index, sizes), ops.reshape(updates, [-1] + list(rest)), sizes, rest)


def _sum_at(places: Node, rows: Node, sizes: tuple, rest: tuple) -> Node:
    total = places.graph.constant(np.int32(np.prod(sizes, dtype=np.int64)))
    summed = places.graph.node(lib.est_unsorted_segment_sum(rows._c, ops.reshape(places, [-1])._c, total._c))
    return ops.reshape(summed, [*sizes, *rest])


def _known_shape(tensor: Node) -> tuple:
    if tensor.shape is None or None in tensor.shape:
        raise NotImplementedError("the shape of the tensor must be known")
    return tuple(tensor.shape)


@eager
def tensor_scatter_nd_add(tensor: "Tensor", indices: "Tensor", updates: "Tensor") -> Node:
    """The tensor with the updates added at the places of indices."""
    graph = next(item for item in (tensor, indices, updates) if isinstance(item, Node)).graph
    x = as_node(tensor, graph)
    return x + _scatter(as_node(indices, graph), as_node(updates, graph, x.dtype), _known_shape(x))


@eager
def tensor_scatter_nd_sub(tensor: "Tensor", indices: "Tensor", updates: "Tensor") -> Node:
    """The tensor with the updates subtracted at the places of indices."""
    graph = next(item for item in (tensor, indices, updates) if isinstance(item, Node)).graph
    x = as_node(tensor, graph)
    return x - _scatter(as_node(indices, graph), as_node(updates, graph, x.dtype), _known_shape(x))


@eager
def tensor_scatter_nd_update(tensor: "Tensor", indices: "Tensor", updates: "Tensor") -> Node:
    """The tensor with the updates in place of the elements at the places of indices, of one place the last one."""
    graph = next(item for item in (tensor, indices, updates) if isinstance(item, Node)).graph
    x, index = as_node(tensor, graph), as_node(indices, graph)
    shape, depth = _known_shape(x), index.shape[-1]
    sizes, rest = shape[:depth], shape[depth:]
    places = ops.cast(ops.reshape(_flat_places(index, sizes), [-1]), int64)
    rows = ops.reshape(as_node(updates, graph, x.dtype), [-1, *rest])
    counted = _sum_at(places, ops.ones_like(places), sizes, ())
    n = places.shape[0]
    if n is None:  # which is the last one takes to sort them
        counted = graph.node(lib.est_check_range(counted._c, 0, 1, (
            b"how many updates tensor_scatter_nd_update has for each place, where their number is not known")))
    elif n > 1:
        order, _ = ops.top_k(places * n + graph.constant(np.arange(n)), n)  # the last update of each place comes first
        places, number = ops.floordiv(order, n), ops.floormod(order, n)
        first = ops.concat([graph.constant([True]), ops.not_equal(places[1:], places[:-1])], 0)
        places, rows = ops.where(first, places, ops.zeros_like(places) - 1), ops.gather(rows, number)
    found = _sum_at(places, rows, sizes, rest)
    return ops.where(ops.reshape(counted, [*sizes] + [1] * len(rest)) > 0, found, x)


def _scatter_extreme(tensor: Any, indices: Any, updates: Any, larger: bool) -> Tensor:
    what = f"tf.tensor_scatter_nd_{'max' if larger else 'min'}"
    if any(isinstance(item, Node) for item in (tensor, indices, updates)):
        raise NeedsValue(f"{what} works on values")
    if tapes():
        raise NotImplementedError(f"{what} has no gradient here: compute it outside of the GradientTape")
    found = as_array(unwrap(tensor)).copy()
    places = as_array(unwrap(indices))
    at = tuple(np.moveaxis(places, -1, 0))
    if any(((part < 0) | (part >= size)).any() for part, size in zip(at, found.shape)):
        raise InvalidArgumentError(f"{what}: an index is out of bounds of {found.shape}")
    (np.maximum if larger else np.minimum).at(found, at, array_like(unwrap(updates), found.dtype))
    return Tensor(found)


def tensor_scatter_nd_max(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """The tensor, or the updates where they are larger, at the places of indices."""
    return _scatter_extreme(tensor, indices, updates, True)


def tensor_scatter_nd_min(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
    """The tensor, or the updates where they are smaller, at the places of indices."""
    return _scatter_extreme(tensor, indices, updates, False)
