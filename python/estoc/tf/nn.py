# SPDX-License-Identifier: Apache-2.0
"""tf.nn"""
from __future__ import annotations

from typing import Any as _Any
from typing import Sequence as _Sequence

from .. import ops as _ops
from .._lib import c_seed as _c_seed
from .._lib import ffi as _ffi
from .._lib import lib as _lib
from .._tensor import as_array as _as_array
from ..graph import Node as _Node
from ..graph import as_node as _as_node
from ..graph import default_graph as _default_graph
from ..layers import _padding
from ._absent import module_getattr as _module_getattr
from ._structure import Composite as _Composite
from ._eager import dispatch as _dispatch
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap

elu = _eager(_ops.elu)
l2_loss = _eager(_ops.l2_loss)
leaky_relu = _eager(_ops.leaky_relu)
log_softmax = _eager(_ops.log_softmax)
relu = _eager(_ops.relu)
relu6 = _eager(_ops.relu6)
selu = _eager(_ops.selu)
sigmoid = _eager(_ops.sigmoid)
softmax = _eager(_ops.softmax)
softplus = _eager(_ops.softplus)
softsign = _eager(_ops.softsign)
tanh = _eager(_ops.tanh)
top_k = _eager(_ops.top_k)


def _node(x: _Any) -> _Node:
    return x.value() if hasattr(x, "read_value") else x


@_eager
def silu(x: Tensor, beta: float = 1.0) -> _Any:  # noqa: F821
    """x sigmoid(beta x)"""
    x = _node(x)
    return _ops.multiply(x, _ops.sigmoid(_ops.multiply(x, beta)))


swish = silu


@_eager
def gelu(features: Tensor, approximate: bool = False) -> _Any:  # noqa: F821
    """x times the normal distribution function of x."""
    x = _node(features)
    if approximate:
        inner = (x + x * x * x * 0.044715) * 0.7978845608028654
        return x * 0.5 * (_ops.tanh(inner) + 1.0)
    return x * 0.5 * (_ops.erf(x * 0.7071067811865476) + 1.0)


@_eager
def _softmax_xent(logits: Tensor, labels: Tensor) -> _Any:  # noqa: F821
    return _pair(_lib.est_softmax_xent, labels, logits)


@_eager
def _sparse_softmax_xent(classes: Tensor, logits: Tensor) -> _Any:  # noqa: F821
    return _pair(_lib.est_sparse_softmax_xent, classes, logits)


@_eager
def _sigmoid_xent(labels: Tensor, logits: Tensor) -> _Any:  # noqa: F821
    return _pair(_lib.est_sigmoid_xent, labels, logits)


def _pair(function: _Any, labels: _Any, logits: _Any) -> _Node:
    graph = (labels if isinstance(labels, _Node) else logits).graph
    logits = _as_node(logits, graph)
    return graph.node(function(logits._c, _as_node(labels, graph)._c))


def softmax_cross_entropy_with_logits(labels: _Any, logits: _Any, axis: int = -1, name: str | None = None) -> _Any:
    """Of each row against a distribution."""
    if axis != -1:
        raise NotImplementedError("the classes are along the last axis")
    return _softmax_xent(logits, labels)


def sparse_softmax_cross_entropy_with_logits(labels: _Any, logits: _Any, name: str | None = None) -> _Any:
    """Of each row against a class number."""
    return _sparse_softmax_xent(labels, logits)


def sigmoid_cross_entropy_with_logits(labels: _Any = None, logits: _Any = None, name: str | None = None) -> _Any:
    """Of each element against a probability."""
    return _sigmoid_xent(labels, logits)


@_eager
def bias_add(value: Tensor, bias: Tensor) -> _Any:  # noqa: F821
    """value + bias along the last axis."""
    graph = (value if isinstance(value, _Node) else bias).graph
    return graph.node(_lib.est_bias_add(_as_node(value, graph)._c, _as_node(bias, graph)._c))


def dropout(x: _Any, rate: float, noise_shape: _Any = None, seed: int | None = None, name: str | None = None) -> _Any:
    """Zeroes elements with that probability and scales the others up."""
    if noise_shape is not None:
        raise NotImplementedError("dropout: noise_shape does not exist yet")
    if isinstance(x, _Composite):  # a ragged tensor
        return x.with_flat_values(dropout(x.flat_values, rate, seed=seed))
    from . import random as _random
    if isinstance(_unwrap(rate), _Node):  # known when it is run
        x, rate = _identity(x), _ops.reshape(_unwrap(rate), [])
        kept = _random.uniform(_ops.shape(x), dtype=x.dtype, seed=seed) >= rate
        return _select(kept, x / (1.0 - rate), _zeros_like(x))
    if _default_graph() is not None or isinstance(x, _Node):
        rate = float(_unwrap(rate))
        return _random._draw(lambda node: _lib.est_dropout(node._c, rate, _c_seed(seed)), x, seed=seed)
    if not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    x = _identity(x)  # a tape sees what happens to the value, not how the mask was drawn
    kept = _random.uniform(x.shape, dtype=x.dtype, seed=seed) >= rate
    return _select(kept, x * (1 / (1 - rate)), _zeros_like(x))


_identity, _select, _zeros_like = _eager(_ops.identity), _eager(_ops.where), _eager(_ops.zeros_like)


@_eager
def conv2d(input: Tensor, filters: Tensor, strides: _Any, padding: str) -> _Any:  # noqa: A002,F821
    """Convolution of images [batch, height, width, channels]."""
    graph = (input if isinstance(input, _Node) else filters).graph
    down, across = _two(strides)
    return graph.node(_lib.est_conv2d(_as_node(input, graph)._c, _as_node(filters, graph)._c, down, across,
                                      _padding(padding)))


@_eager
def conv2d_transpose(input: Tensor, filters: Tensor, output_shape: _Any, strides: _Any,  # noqa: A002,F821
                     padding: str = "SAME", data_format: str = "NHWC") -> _Any:
    """The transpose of a convolution of images of that shape; filters are [height, width, out, in]."""
    if data_format != "NHWC":
        raise NotImplementedError(f"conv2d_transpose: data_format {data_format!r}; images are NHWC")
    graph = (input if isinstance(input, _Node) else filters).graph
    down, across = _two(strides)
    sizes = list(output_shape) if isinstance(output_shape, (list, tuple)) else [output_shape]
    parts = [_ops.reshape(_ops.cast(_as_node(_unwrap(size), graph), "int32"), [-1]) for size in sizes]
    return graph.node(_lib.est_conv2d_transpose(_as_node(input, graph)._c, _as_node(filters, graph)._c,
                                                _ops.concat(parts, 0)._c, down, across, _padding(padding)))


@_eager
def max_pool2d(input: Tensor, ksize: _Any, strides: _Any, padding: str) -> _Any:  # noqa: A002,F821
    """The largest of every window."""
    (h, w), (down, across) = _two(ksize), _two(strides)
    return input.graph.node(_lib.est_max_pool(input._c, h, w, down, across, _padding(padding)))


@_eager
def avg_pool2d(input: Tensor, ksize: _Any, strides: _Any, padding: str) -> _Any:  # noqa: A002,F821
    """The mean of every window."""
    (h, w), (down, across) = _two(ksize), _two(strides)
    return input.graph.node(_lib.est_avg_pool(input._c, h, w, down, across, _padding(padding)))


max_pool, avg_pool = max_pool2d, avg_pool2d


def _two(value: _Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    value = list(value)
    return (value[1], value[2]) if len(value) == 4 else (value[0], value[-1])


def embedding_lookup(params: _Any, ids: _Any, max_norm: float | None = None, name: str | None = None) -> _Any:
    """Rows of a table; the gradient of a variable has only these rows."""
    if max_norm is not None:
        raise NotImplementedError("embedding_lookup: max_norm does not exist yet")
    if isinstance(params, (list, tuple)):
        if len(params) != 1:
            raise NotImplementedError("embedding_lookup: a table in several parts does not exist yet")
        params = params[0]
    if isinstance(ids, _Composite):
        return ids.with_flat_values(embedding_lookup(params, ids.flat_values))
    from ._trace import current_trace
    from ._variable import Variable
    trace = current_trace()
    if isinstance(params, Variable) and trace is not None and params.graph is trace.graph and \
            params._name not in trace.written:
        return trace.graph.node(_lib.est_resource_gather(params._handle._c, _as_node(_unwrap(ids), trace.graph)._c))
    return _eager(_ops.gather)(params, ids)


@_eager
def _moments(x: Tensor, axes: _Any, keepdims: bool) -> _Any:  # noqa: F821
    x = _node(x)
    mean = _ops.reduce_mean(x, axes, True)
    variance = _ops.reduce_mean(_ops.squared_difference(x, _ops.stop_gradient(mean)), axes, keepdims)
    return (mean if keepdims else _ops.squeeze(mean, axes)), variance


def moments(x: _Any, axes: _Sequence[int], shift: _Any = None, keepdims: bool = False, name: str | None = None) -> _Any:
    """Mean and variance over axes."""
    return _moments(x, tuple(axes) if not isinstance(axes, int) else (axes,), keepdims)


@_eager
def l2_normalize(x: Tensor, axis: _Any = None, epsilon: float = 1e-12) -> _Any:  # noqa: F821
    """x divided by its l2 norm along the axis."""
    x = _node(x)
    total = _ops.reduce_sum(_ops.square(x), axis, True)
    return _ops.multiply(x, _ops.rsqrt(_ops.maximum(total, epsilon)))


# --- losses of replicas -----------------------------------------------------------------------------------------------


def compute_average_loss(per_example_loss: _Any, sample_weight: _Any = None, global_batch_size: _Any = None) -> _Any:
    """sum(loss weight) / global_batch_size; without one, the examples here times the replicas."""
    if isinstance(global_batch_size, _Node):
        raise NotImplementedError("global_batch_size is a number; divide tf.reduce_sum(loss) by a tensor yourself")
    size = 0 if global_batch_size is None else int(_unwrap(global_batch_size))
    if global_batch_size is not None and size < 1:
        raise ValueError(f"global_batch_size is at least 1, not {size}")
    if size == 0 and _default_graph() is None:
        from .distribute import get_strategy
        size = _as_array(_unwrap(per_example_loss)).shape[0] * get_strategy().num_replicas_in_sync

    def convert(positional: tuple, named: dict) -> tuple:
        return tuple(_as_array(_unwrap(value)) for value in positional), named

    arguments = (per_example_loss,) if sample_weight is None else (per_example_loss, sample_weight)
    return _dispatch(_average(size), arguments, {}, convert)


_averages: dict[int, _Any] = {}


def _average(size: int) -> _Any:
    if size not in _averages:
        def build(loss: _Any, weights: _Any = None) -> _Node:
            graph = loss.graph
            weight = _ffi.new("est_node *")[0] if weights is None else _as_node(weights, graph, loss.dtype)._c
            return graph.node(_lib.est_compute_average_loss(loss._c, weight, size))

        _averages[size] = build
    return _averages[size]


_reduce_sum = _eager(_ops.reduce_sum)


def scale_regularization_loss(regularization_loss: _Any) -> _Any:
    """The loss divided by the number of replicas."""
    from . import _structure
    from .distribute import get_strategy
    total = None
    for term in _structure.flatten(regularization_loss):
        term = _reduce_sum(term)
        total = term if total is None else total + term
    if total is None:
        return 0.0
    return total / float(get_strategy().num_replicas_in_sync)


__getattr__ = _module_getattr(__name__)
