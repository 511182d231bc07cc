# SPDX-License-Identifier: Apache-2.0
"""Operations on nodes, with TensorFlow's names, meaning and shape rules.

A function that is given no node but numbers and arrays computes at once, with the same kernels, and returns an array.
Python numbers take the dtype of the other operand.
"""
from __future__ import annotations

import builtins
import functools
import inspect
import operator
from typing import Any, Callable, NamedTuple, Sequence, Union

import numpy as np

from ._lib import Keep, ffi, here, lib
from ._tensor import as_dtype, float32, float64, int32, int64, string, to_tensor
from .graph import Graph, Node, Session, Variable, as_node, default_graph

#: What an operation takes: a node, a number or an array.
Tensor = Union[Node, np.ndarray, float, int, Sequence]
Tensors = Sequence[Tensor]


def building_graph() -> Graph | None:
    """The default graph if values become nodes of it (tf.compat.v1)."""
    graph = default_graph()
    return graph if graph is not None and graph.builds else None


def _first_node(values: Any) -> Node | None:
    for value in values:
        if isinstance(value, Node):
            return value
        if isinstance(value, (list, tuple)):
            node = _first_node(value)
            if node is not None:
                return node
    return None


@functools.lru_cache(maxsize=None)
def _signature(function: Callable) -> tuple[inspect.Signature, list[str]]:
    """The signature of a function over nodes, and which of its parameters are tensors."""
    signature = inspect.signature(function)
    return signature, [name for name, parameter in signature.parameters.items()
                       if str(parameter.annotation).startswith("Tensor")]


def _operation(function: Callable) -> Callable:
    """A function over nodes whose first parameters are tensors; without a node among them it computes at once."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        signature, tensors = _signature(function)
        bound = signature.bind(*arguments, **named)
        if _first_node(bound.arguments.values()) is not None:
            here()
            return function(*arguments, **named)
        first = bound.arguments.get(tensors[0])
        if first is None or str(signature.parameters[tensors[0]].annotation) == "Tensors" and len(first) == 0:
            raise TypeError(f"{function.__name__} needs a tensor")
        graph = building_graph()
        builds = graph is not None
        graph = graph if builds else Graph()
        for name in tensors:
            value = bound.arguments.get(name)
            if value is None:
                continue
            if str(signature.parameters[name].annotation) == "Tensors":
                bound.arguments[name] = [graph.constant(item) for item in value]
            elif not isinstance(value, (int, float)) or name == tensors[0] or isinstance(value, bool):
                bound.arguments[name] = graph.constant(value)
        here()
        result = function(*bound.args, **bound.kwargs)
        if builds:
            return result
        with Session(graph, threads=1, devices=["/cpu:0"]) as session:
            return session.run(result)

    call.over_nodes = function
    return call


def _axes(keep: Keep, axis: Any) -> Any:
    if axis is None:
        return keep.i64s([])
    return keep.i64s([axis] if np.ndim(axis) == 0 else axis)


def _nodes(keep: Keep, nodes: Sequence[Node]) -> Any:
    return keep.span("est_nodes", "est_node", [node._c for node in nodes])


def _node(x: Any) -> Node:
    """A node for one, for a variable, and for a list with nodes, which is stacked."""
    if isinstance(x, (list, tuple)):
        return stack.over_nodes(x)
    return x.value() if isinstance(x, Variable) else x


def _pair(a: Any, b: Any) -> tuple[Node, Node]:
    """Both as nodes of one graph; a number takes the dtype of the other."""
    if isinstance(a, Node):
        a = _node(a)
        return a, as_node(b, a.graph, a.dtype)
    b = _node(b)
    return as_node(a, b.graph, b.dtype), b


# --- elementwise ------------------------------------------------------------------------------------------------------


def _unary(name: str, meaning: str, c_name: str | None = None) -> Callable:
    def function(x: Tensor, name: str | None = None) -> Node:
        x = _node(x)
        return _named(x.graph.node(getattr(lib, "est_" + (c_name or function.__name__))(x._c)), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return _operation(function)


def _binary(name: str, meaning: str, c_name: str | None = None) -> Callable:
    def function(x: Tensor, y: Tensor, name: str | None = None) -> Node:
        x, y = _pair(x, y)
        return _named(x.graph.node(getattr(lib, "est_" + (c_name or function.__name__))(x._c, y._c)), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return _operation(function)


def _named(node: Node, name: str | None) -> Node:
    return node if name is None else node.named(name)


negative = _unary("negative", "-x", "neg")
abs = _unary("abs", "|x|")
sign = _unary("sign", "-1, 0 or 1")
square = _unary("square", "x^2")
sqrt = _unary("sqrt", "The square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x)")
reciprocal = _unary("reciprocal", "1 / x")
exp = _unary("exp", "e^x")
expm1 = _unary("expm1", "e^x - 1")
log = _unary("log", "The natural logarithm.")
log1p = _unary("log1p", "log(1 + x)")
sin = _unary("sin", "The sine.")
cos = _unary("cos", "The cosine.")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x))")
erf = _unary("erf", "The error function.")
floor = _unary("floor", "Rounded down.")
ceil = _unary("ceil", "Rounded up.")
round = _unary("round", "To the nearest, ties to even.", "rint")
relu = _unary("relu", "max(x, 0)")
relu6 = _unary("relu6", "min(max(x, 0), 6)")
elu = _unary("elu", "x, or exp(x) - 1 below 0.")
selu = _unary("selu", "A scaled elu.")
softplus = _unary("softplus", "log(1 + exp(x))")
softsign = _unary("softsign", "x / (1 + |x|)")
logical_not = _unary("logical_not", "Of booleans.")
is_nan = _unary("is_nan", "Whether an element is NaN.")
is_inf = _unary("is_inf", "Whether an element is infinite.")
is_finite = _unary("is_finite", "Whether an element is neither.")
identity = _unary("identity", "x")
stop_gradient = _unary("stop_gradient", "x, but no gradient flows back.")
l2_loss = _unary("l2_loss", "sum(x^2) / 2")
as_string = _unary("as_string", "Numbers as TensorFlow prints them.")
string_lower = _unary("string_lower", "Letters of ASCII as small ones.")
string_upper = _unary("string_upper", "Letters of ASCII as capitals.")
string_strip = _unary("string_strip", "Without white space at both ends.")

_sum = _binary("add", "x + y")
subtract = _binary("subtract", "x - y", "sub")
multiply = _binary("multiply", "x y", "mul")
floordiv = _binary("floordiv", "floor(x / y)", "floor_div")
floormod = _binary("floormod", "x - y floor(x / y)", "floor_mod")
maximum = _binary("maximum", "The larger of the two.")
minimum = _binary("minimum", "The smaller of the two.")
pow = _binary("pow", "x^y")
squared_difference = _binary("squared_difference", "(x - y)^2")
equal = _binary("equal", "x == y")
not_equal = _binary("not_equal", "x != y")
less = _binary("less", "x < y")
less_equal = _binary("less_equal", "x <= y")
greater = _binary("greater", "x > y")
greater_equal = _binary("greater_equal", "x >= y")
logical_and = _binary("logical_and", "Of booleans.")
logical_or = _binary("logical_or", "Of booleans.")


@_operation
def add(x: Tensor, y: Tensor, name: str | None = None) -> Node:
    """x + y; of texts one after the other, of one shape unless one is a scalar."""
    x, y = _pair(x, y)
    return _sum.over_nodes(x, y, name) if x.dtype is not string else _named(string_join.over_nodes([x, y]), name)


@_operation
def divide(x: Tensor, y: Tensor, name: str | None = None) -> Node:
    """x / y; integers become floats first, as in TensorFlow: float64, of uint8 float32."""
    return _quotient(lib.est_div, x, y, name)


truediv = divide


@_operation
def divide_no_nan(x: Tensor, y: Tensor, name: str | None = None) -> Node:
    """x / y, and 0 where y is 0."""
    return _quotient(lib.est_div_no_nan, x, y, name)


def _quotient(build: Callable, x: Any, y: Any, name: str | None) -> Node:
    x, y = _pair(x, y)
    if x.dtype.is_integer:
        if x.dtype != y.dtype:
            raise TypeError(f"x and y must have the same dtype, got {x.dtype.name} and {y.dtype.name}")
        kind = float32 if x.dtype.name == "uint8" else float64
        x, y = cast.over_nodes(x, kind), cast.over_nodes(y, kind)
    return _named(x.graph.node(build(x._c, y._c)), name)


@_operation
def cast(x: Tensor, dtype: Any, name: str | None = None) -> Node:
    """x as another dtype; numbers to bool as x != 0."""
    x = _node(x)
    return _named(x.graph.node(lib.est_cast(x._c, as_dtype(dtype).number)), name)


@_operation
def zeros_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Node:
    """Zeros of the shape of x, and of its dtype unless another is given."""
    return _filled_like(lib.est_zeros_like, x, dtype, name)


@_operation
def ones_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Node:
    """Ones of the shape of x, and of its dtype unless another is given."""
    return _filled_like(lib.est_ones_like, x, dtype, name)


def _filled_like(build: Callable, x: Any, dtype: Any, name: str | None) -> Node:
    x = _node(x)
    node = x.graph.node(build(x._c))
    return _named(node if dtype is None or as_dtype(dtype) == node.dtype else cast.over_nodes(node, dtype), name)


@_operation
def shape(x: Tensor, out_type: Any = int32, name: str | None = None) -> Node:
    """The shape as a vector, int32 unless said otherwise."""
    x = _node(x)
    node = x.graph.node(lib.est_shape_of(x._c))
    return _named(node if as_dtype(out_type) == int32 else cast.over_nodes(node, out_type), name)


@_operation
def size(x: Tensor, out_type: Any = int32, name: str | None = None) -> Node:
    """The number of elements, int32 unless said otherwise."""
    x = _node(x)
    node = x.graph.node(lib.est_size(x._c))
    return _named(node if as_dtype(out_type) == int32 else cast.over_nodes(node, out_type), name)


@_operation
def leaky_relu(x: Tensor, alpha: float = 0.2) -> Node:
    """x where it is positive, alpha x elsewhere."""
    x = _node(x)
    return x.graph.node(lib.est_leaky_relu(x._c, alpha))


@_operation
def clip_by_value(x: Tensor, clip_value_min: float, clip_value_max: float) -> Node:
    """x within the two numbers."""
    x = _node(x)
    return x.graph.node(lib.est_clip_by_value(x._c, clip_value_min, clip_value_max))


@_operation
def clip_by_norm(x: Tensor, clip_norm: float, axes: int | Sequence[int] | None = None) -> Node:
    """x scaled down so that its l2 norm, or each of those along axes, is at most that."""
    x = _node(x)
    if axes is None:
        return x.graph.node(lib.est_clip_by_norm(x._c, clip_norm))
    total = reduce_sum.over_nodes(square.over_nodes(x), axes, True)
    some = total > 0.0  # the square root of 0 has no derivative
    length = where.over_nodes(some, sqrt.over_nodes(where.over_nodes(some, total, ones_like.over_nodes(total))), total)
    return x * clip_norm / maximum.over_nodes(length, clip_norm)


@_operation
def check_numerics(x: Tensor, message: str) -> Node:
    """x, or an error with the message when an element is NaN or infinite."""
    x = _node(x)
    return x.graph.node(lib.est_check_numerics(x._c, message.encode()))


@_operation
def add_n(inputs: Tensors) -> Node:
    """The sum of tensors of one shape."""
    keep, graph = Keep(), _first_node(inputs).graph
    return graph.node(lib.est_add_n(_nodes(keep, [as_node(x, graph) for x in inputs])))


# --- shapes and pieces ------------------------------------------------------------------------------------------------


@_operation
def reshape(x: Tensor, shape: Sequence[int] | Node, name: str | None = None) -> Node:
    """The same elements under another shape; one entry may be -1."""
    x, keep = _node(x), Keep()
    if isinstance(shape, (int, np.integer)):
        shape = [shape]
    if isinstance(shape, Node):
        return _named(x.graph.node(lib.est_reshape_to(x._c, shape._c)), name)
    if any(isinstance(dim, Node) for dim in shape):
        dims = stack([as_node(dim, x.graph, int32) for dim in shape])
        return _named(x.graph.node(lib.est_reshape_to(x._c, dims._c)), name)
    return _named(x.graph.node(lib.est_reshape(x._c, keep.i64s(shape))), name)


@_operation
def expand_dims(x: Tensor, axis: int, name: str | None = None) -> Node:
    """A new axis of size 1."""
    x = _node(x)
    return _named(x.graph.node(lib.est_expand_dims(x._c, axis)), name)


@_operation
def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Node:
    """Drops axes of size 1: the named ones, or all."""
    x, keep = _node(x), Keep()
    return x.graph.node(lib.est_squeeze(x._c, _axes(keep, axis)))


@_operation
def concat(values: Tensors, axis: int) -> Node:
    """The tensors one after the other along an axis."""
    keep, graph = Keep(), _first_node(values).graph
    return graph.node(lib.est_concat(_nodes(keep, [as_node(x, graph) for x in values]), axis))


@_operation
def stack(values: Tensors, axis: int = 0) -> Node:
    """Tensors of one shape along a new axis."""
    keep, first = Keep(), _first_node(values)
    like = _node(first).dtype
    return first.graph.node(lib.est_pack(_nodes(keep, [as_node(x, first.graph, like) for x in values]), axis))


@_operation
def unstack(x: Tensor, num: int | None = None, axis: int = 0) -> tuple[Node, ...]:
    """The slices along an axis, which must be known."""
    x = _node(x)
    num = lib.est_node_dim(x._c, axis) if num is None else num
    if num < 0:
        raise ValueError(f"axis {axis} of {x.name} is not known; give num")
    out = ffi.new("est_node[]", max(num, 1))
    lib.est_unpack(x._c, num, axis, out)
    return tuple(x.graph.node(out[i]) for i in range(num))


@_operation
def split(x: Tensor, num_or_size_splits: int | Sequence[int], axis: int = 0) -> tuple[Node, ...]:
    """So many equal parts, or parts of those sizes, of which one may be -1: the rest."""
    x, num = _node(x), num_or_size_splits
    if not isinstance(num, (int, np.integer)):
        return _split_sizes(x, [int(part) for part in num], axis)
    if num < 1:
        raise ValueError(f"num is {num}; it must be at least 1")
    out = ffi.new("est_node[]", max(num, 1))
    lib.est_split(x._c, num, axis, out)
    return tuple(x.graph.node(out[i]) for i in range(num))


def _split_sizes(x: Node, sizes: list[int], axis: int) -> tuple[Node, ...]:
    if x.shape is None:
        raise ValueError(f"the rank of {x.name} is not known; parts of given sizes need it")
    if not -len(x.shape) <= axis < len(x.shape):
        raise ValueError(f"axis {axis} of a tensor of shape {tuple(x.shape)}")
    axis, keep = axis % len(x.shape), Keep()
    total, known = x.shape[axis], sum(size for size in sizes if size >= 0)
    if sizes.count(-1) == 1 and total is not None:
        sizes = [total - known if size == -1 else size for size in sizes]
        known = total
    if min(sizes, default=0) < 0 or total is not None and known != total:
        raise ValueError(f"parts of {sizes} for axis {axis} of a tensor of shape {tuple(x.shape)}")
    parts, at = [], 0
    for size in sizes:
        begin, end = [0] * len(x.shape), [-1] * len(x.shape)
        begin[axis], end[axis] = at, size
        parts.append(x.graph.node(lib.est_slice(x._c, keep.i64s(begin), keep.i64s(end))))
        at += size
    return tuple(parts)


@_operation
def slice(x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Node:
    """A block; size -1 means to the end."""
    x, keep = _node(x), Keep()
    return x.graph.node(lib.est_slice(x._c, keep.i64s(begin), keep.i64s(size)))


@_operation
def tile(x: Tensor, multiples: Sequence[int]) -> Node:
    """x repeated along its axes."""
    x, keep = _node(x), Keep()
    return x.graph.node(lib.est_tile(x._c, keep.i64s(multiples)))


@_operation
def transpose(x: Tensor, perm: Sequence[int] | None = None) -> Node:
    """Axes in another order; without one, reversed."""
    x, keep = _node(x), Keep()
    if perm is None:
        if x.shape is None:
            raise ValueError(f"the rank of {x.name} is not known; give perm")
        perm = range(len(x.shape) - 1, -1, -1)
    return x.graph.node(lib.est_transpose(x._c, keep.i64s(perm)))


@_operation
def pad(x: Tensor, paddings: Sequence[Sequence[int]], constant_values: float = 0) -> Node:
    """A number around x: [[before, after], ...], one pair for each axis."""
    x, keep = _node(x), Keep()
    return x.graph.node(lib.est_pad(x._c, keep.i64s([n for pair in paddings for n in pair]), constant_values))


@_operation
def gather(params: Tensor, indices: Tensor, axis: int = 0) -> Node:
    """Slices of params picked by indices."""
    graph = _first_node((params, indices)).graph
    return graph.node(lib.est_gather(as_node(params, graph)._c, as_node(indices, graph)._c, axis))


@_operation
def where(condition: Tensor, x: Tensor = None, y: Tensor = None) -> Node:
    """x where the condition holds, else y; without the two the coordinates of true elements, int64 [n, rank]."""
    if x is None and y is None:
        condition = _node(condition)
        return condition.graph.node(lib.est_where(condition._c))
    if isinstance(x, Node) or isinstance(y, Node):
        x, y = _pair(x, y)
        graph = x.graph
    else:
        graph = condition.graph
        x = as_node(x, graph)
        y = as_node(y, graph, x.dtype)
    return graph.node(lib.est_select(as_node(condition, graph)._c, x._c, y._c))


@_operation
def one_hot(indices: Tensor, depth: int, on_value: float = 1, off_value: float = 0, axis: int = -1,
            dtype: Any = float32) -> Node:
    """A 1 at each index."""
    indices = _node(indices)
    node = indices.graph.node(lib.est_one_hot(indices._c, depth, on_value, off_value, axis))
    return node if as_dtype(dtype) == node.dtype else cast.over_nodes(node, dtype)


class TopK(NamedTuple):
    """What top_k gives."""

    values: Node
    indices: Node


@_operation
def top_k(x: Tensor, k: int = 1) -> TopK:
    """The k largest of the last axis, sorted, and where they are (int32)."""
    x = _node(x)
    indices = ffi.new("est_node *")
    values = x.graph.node(lib.est_top_k(x._c, k, indices))
    return TopK(values, x.graph.node(indices[0]))


# --- reductions -------------------------------------------------------------------------------------------------------


def _reduction(name: str, meaning: str) -> Callable:
    def function(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False,
                 name: str | None = None) -> Node:
        x, keep = _node(x), Keep()
        if axis is not None and np.size(axis) == 0:  # no axis: the library takes that for all of them
            return _named(identity.over_nodes(x), name)
        return _named(x.graph.node(getattr(lib, "est_" + function.__name__)(x._c, _axes(keep, axis), keepdims)), name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning + " Over the named axes, or all; each element for itself with axis=[]."
    return _operation(function)


reduce_sum = _reduction("reduce_sum", "The sum.")
reduce_mean = _reduction("reduce_mean", "The mean.")
reduce_max = _reduction("reduce_max", "The largest.")
reduce_min = _reduction("reduce_min", "The smallest.")
reduce_prod = _reduction("reduce_prod", "The product.")
reduce_all = _reduction("reduce_all", "Whether all are true.")
reduce_any = _reduction("reduce_any", "Whether one is true.")


@_operation
def argmax(x: Tensor, axis: int = 0, output_type: Any = int64) -> Node:
    """Where along the axis the largest element is."""
    x = _node(x)
    node = x.graph.node(lib.est_argmax(x._c, axis))
    return node if as_dtype(output_type) == int64 else cast.over_nodes(node, output_type)


@_operation
def argmin(x: Tensor, axis: int = 0, output_type: Any = int64) -> Node:
    """Where along the axis the smallest element is."""
    x = _node(x)
    node = x.graph.node(lib.est_argmin(x._c, axis))
    return node if as_dtype(output_type) == int64 else cast.over_nodes(node, output_type)


# --- linear algebra ---------------------------------------------------------------------------------------------------


@_operation
def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Node:
    """The product of matrices; over leading axes if there are more than two."""
    a, b = _pair(a, b)
    plain = a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape) == 2
    function = lib.est_matmul_t if plain else lib.est_batch_matmul
    return a.graph.node(function(a._c, b._c, transpose_a, transpose_b))


@_operation
def softmax(logits: Tensor, axis: int = -1) -> Node:
    """exp(x) / sum(exp(x)) along the axis."""
    logits = _node(logits)
    return logits.graph.node(lib.est_softmax(logits._c, axis))


@_operation
def log_softmax(logits: Tensor, axis: int = -1) -> Node:
    """The logarithm of softmax."""
    logits = _node(logits)
    return logits.graph.node(lib.est_log_softmax(logits._c, axis))


@_operation
def string_to_hash_bucket(x: Tensor, num_buckets: int) -> Node:
    """Fingerprint64 of the bytes modulo num_buckets: TensorFlow's to_hash_bucket_fast."""
    x = _node(x)
    return x.graph.node(lib.est_string_to_hash_bucket(x._c, num_buckets))


# --- texts ------------------------------------------------------------------------------------------------------------


@_operation
def string_join(values: Tensors, separator: str = "") -> Node:
    """The texts of several tensors, of one shape or scalars, one after the other."""
    keep, graph = Keep(), _first_node(values).graph
    return graph.node(lib.est_string_join(_nodes(keep, [as_node(x, graph, string) for x in values]), separator.encode()))


@_operation
def string_length(x: Tensor, characters: bool = False) -> Node:
    """How many bytes, or characters of UTF-8, texts have: int32."""
    x = _node(x)
    return x.graph.node(lib.est_string_length(x._c, characters))


@_operation
def substr(x: Tensor, start: Tensor, size: Tensor, characters: bool = False) -> Node:
    """Parts of texts, in bytes or characters; places below 0 count from the end."""
    graph = _first_node((x, start, size)).graph
    start = as_node(start, graph, None if isinstance(start, Node) else int32)
    size = as_node(size, graph, None if isinstance(size, Node) else start.dtype)
    return graph.node(lib.est_substr(as_node(x, graph)._c, start._c, size._c, characters))


@_operation
def string_to_number(x: Tensor, out_type: Any = float32) -> Node:
    """The numbers that texts are; another text is an error."""
    x = _node(x)
    return x.graph.node(lib.est_string_to_number(x._c, as_dtype(out_type).number))


_SPLITS = {"whitespace": 0, "character": 1, "byte": 2, None: 3}


@_operation
def words(x: Tensor, lower: bool = False, no_punctuation: bool = False, split: str | None = "whitespace",
          separator: str | bytes = "", splits_max: int = 0, ngrams: Sequence[int] = ()) -> tuple[Node, Node]:
    """The words of a vector of texts: all of them, and where the rows of the texts begin, int64 [texts + 1]."""
    x, keep = _node(x), Keep()
    rows = lib.est_words(x._c, keep.options(
        "est_words_options", lower=lower, no_punctuation=no_punctuation, split=_SPLITS[split],
        separator=keep.string(separator), splits_max=splits_max, ngrams=keep.i64s(ngrams)))
    return x.graph.node(rows.values), x.graph.node(rows.splits)


@_operation
def lookup(x: Tensor, keys: Any, default: int | None = -1, num_oov_buckets: int = 0) -> Node:
    """The place of each element in a vector of keys, strings or int64; what is not there has the default, or a place
    behind them by its hash: int64."""
    x, keep = _node(x), Keep()
    tensor = to_tensor(keys)
    keep.append(tensor)
    table = lib.est_vocabulary_list(x.graph._c, tensor, keep.options(
        "est_table_options", num_oov_buckets=num_oov_buckets, default_id=0 if default is None else default,
        has_default=default is not None and not num_oov_buckets))
    return x.graph.node(lib.est_lookup(table, x._c))


# --- gradients --------------------------------------------------------------------------------------------------------


def gradients(y: Node, xs: Sequence[Node]) -> list[Node | None]:
    """d(sum of y) / d(x) for nodes and variables, all dense; None where y does not depend on one."""
    here()
    keep, xs = Keep(), list(xs)
    out = ffi.new("est_gradient[]", max(len(xs), 1))
    lib.est_gradients(y._c, _nodes(keep, xs), out)
    y.graph.check()
    return [None if out[i].values.graph == ffi.NULL else _dense(y.graph, out[i], x) for i, x in enumerate(xs)]


def _dense(graph: Any, gradient: Any, x: Node) -> Node:
    """A gradient of C as one node."""
    if gradient.indices.graph == ffi.NULL:
        return graph.node(gradient.values)
    rows = graph.constant(np.int32(x.shape[0])) if x.shape[0] is not None else shape.over_nodes(x)[0]
    return graph.node(lib.est_unsorted_segment_sum(gradient.values, gradient.indices, rows._c))


def group(nodes: Sequence[Node]) -> Node:
    """One operation that runs all of them."""
    here()
    keep, nodes = Keep(), list(nodes)
    if not nodes or not all(isinstance(node, Node) for node in nodes):
        raise TypeError("group takes nodes, at least one")
    graph = nodes[0].graph
    return graph.node(lib.est_group(graph._c, _nodes(keep, nodes)))


# --- operators of nodes -----------------------------------------------------------------------------------------------


def _operator(function: Callable, reflected: bool = False) -> Callable:
    build = function.over_nodes

    def method(self: Node, other: Any) -> Any:
        if hasattr(other, "parts"):  # a ragged tensor of estoc.tf, whose own operator knows both
            return NotImplemented
        here()
        return build(other, self) if reflected else build(self, other)

    return method


for _name, _function in {"add": add, "sub": subtract, "mul": multiply, "truediv": divide, "floordiv": floordiv,
                         "mod": floormod, "pow": pow, "matmul": matmul}.items():
    setattr(Node, f"__{_name}__", _operator(_function))
    setattr(Node, f"__r{_name}__", _operator(_function, reflected=True))
for _name, _function in {"lt": less, "le": less_equal, "gt": greater, "ge": greater_equal}.items():
    setattr(Node, f"__{_name}__", _operator(_function))
for _name, _function in {"and": logical_and, "or": logical_or}.items():
    setattr(Node, f"__{_name}__", _operator(_function))


def _equality(function: Callable, other_is: bool) -> Callable:
    build = _operator(function)

    def method(self: Node, other: Any) -> Any:
        if other is None:
            return other_is
        if not may_broadcast(self, other):
            return _node(self).graph.constant(other_is)
        return build(self, other)

    return method


def may_broadcast(x: Any, y: Any) -> bool:
    """Whether operands with known shapes broadcast; others are left to the operation."""
    shapes = [_known_shape(x), _known_shape(y)]
    return None in shapes or all(1 in sizes or len(set(sizes)) == 1 for sizes in zip(*(shape[::-1] for shape in shapes)))


def _known_shape(x: Any) -> tuple | None:
    if isinstance(x, (list, tuple)):
        try:
            return np.shape(x)
        except (TypeError, ValueError):  # rows of unequal length, or nodes
            return None
    shape = getattr(x, "shape", None)
    return None if shape is None or any(size is None for size in shape) else tuple(int(size) for size in shape)


Node.__eq__ = _equality(equal, False)
Node.__ne__ = _equality(not_equal, True)
Node.__neg__ = lambda self: negative(self)
Node.__abs__ = lambda self: abs(self)
Node.__invert__ = lambda self: logical_not(self)


def _getitem(self: Node, index: Any) -> Node:
    x, keep = _node(self), Keep()
    begin, end, strides = [], [], []
    options = ffi.new("est_strided_slice_options *")
    index = tuple(index) if isinstance(index, list) else index
    for i, part in enumerate(index if isinstance(index, tuple) else (index,)):
        bit, b, e, s = 1 << i, 0, 0, 1
        if part is Ellipsis:
            options.ellipsis_mask |= bit
        elif part is None:
            options.new_axis_mask |= bit
        elif isinstance(part, builtins.slice):
            b, e, s = part.start, part.stop, 1 if part.step is None else part.step
            if any(isinstance(v, Node) for v in (b, e, s)):
                raise NotImplementedError("bounds of a slice must be numbers; use estoc.ops.gather")
            if b is None:
                options.begin_mask |= bit
            if e is None:
                options.end_mask |= bit
            b, e = b or 0, e or 0
        elif hasattr(part, "__index__") and not isinstance(part, bool):
            part = operator.index(part)
            options.shrink_axis_mask |= bit
            b, e = part, part + 1
        else:
            raise TypeError(f"a tensor is indexed with numbers, slices, None and ...; not {type(part).__name__}")
        begin.append(b)
        end.append(e)
        strides.append(s)
    here()
    return x.graph.node(lib.est_strided_slice(x._c, keep.i64s(begin), keep.i64s(end), keep.i64s(strides), options[0]))


Node.__getitem__ = _getitem
# A variable compares by identity with None only; everything else reads it.
for _name in ("eq", "ne", "getitem", "lt", "le", "gt", "ge"):
    setattr(Variable, f"__{_name}__", getattr(Node, f"__{_name}__"))
Node.__hash__ = Variable.__hash__ = object.__hash__
