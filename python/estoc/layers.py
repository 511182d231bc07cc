# SPDX-License-Identifier: Apache-2.0
"""Layers: functions that take a node, make their variables in its graph, named as in TensorFlow, and return a node."""
from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from . import ops
from ._lib import NULL, Keep, ffi, here, lib, off
from ._native import lib as _functions
from ._tensor import as_dtype, c_shape, float32
from .feature_column import c_columns
from .graph import Graph, Node, RaggedNode, Variable, as_node, default_graph
from .initializers import Regularizer, c_initializer, c_regularizer

ACTIVATIONS = ("relu", "relu6", "elu", "selu", "sigmoid", "tanh", "softplus", "softsign", "exp")


def c_activation(activation: Any) -> tuple[Any, Callable | None]:
    """The C function of an activation, or NULL and a Python function that is applied to the result."""
    if activation is None or activation == "linear":
        return NULL, None
    if isinstance(activation, str):
        if activation == "softmax":
            return NULL, ops.softmax
        if activation not in ACTIVATIONS:
            raise ValueError(f"there is no activation {activation!r}; there are {', '.join(ACTIVATIONS)}, softmax")
        return ffi.addressof(_functions, f"est_{activation}"), None
    name = getattr(activation, "__name__", "")
    if name in ACTIVATIONS and getattr(activation, "over_nodes", None) is not None:
        return ffi.addressof(_functions, f"est_{name}"), None
    if not callable(activation):
        raise TypeError(f"an activation is a name or a function, not {activation!r}")
    return NULL, activation


def _applied(node: Node, function: Callable | None) -> Node:
    return node if function is None else function(node)


def weight(graph: Graph, name: str, shape: Sequence[int], dtype: Any = float32, initializer: Any = None,
           regularizer: Regularizer | None = None, trainable: bool = True) -> Variable:
    """A variable named within the current scope, known to optimizers. The default initializer is Glorot uniform."""
    here()
    keep = Keep()
    c_node = lib.est_weight(graph._c, keep.string(name), c_shape(shape), keep.options(
        "est_weight_options", dtype=as_dtype(dtype).number, initializer=c_initializer(keep, initializer),
        regularizer=c_regularizer(keep, regularizer), frozen=not trainable))
    graph.check()
    return Variable(graph, c_node)


def dense(x: Node, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
          bias_initializer: Any = None, kernel_regularizer: Regularizer | None = None, trainable: bool = True,
          name: str | None = None) -> Node:
    """activation(x kernel + bias) over the last axis."""
    here()
    keep = Keep()
    c_function, function = c_activation(activation)
    return _applied(x.graph.node(lib.est_dense(x._c, units, keep.options(
        "est_dense_options", name=keep.string(name), activation=c_function, no_bias=not use_bias,
        kernel_initializer=c_initializer(keep, kernel_initializer),
        bias_initializer=c_initializer(keep, bias_initializer),
        kernel_regularizer=c_regularizer(keep, kernel_regularizer), frozen=not trainable))), function)


def _two(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


_PADDING = {"valid": 0, "same": 1}


def _padding(name: str) -> int:
    if str(name).lower() not in _PADDING:
        raise ValueError(f"padding is \"valid\" or \"same\", not {name!r}")
    return _PADDING[str(name).lower()]


def conv2d(x: Node, filters: int, kernel_size: int | Sequence[int], strides: int | Sequence[int] = 1,
           padding: str = "valid", activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
           bias_initializer: Any = None, kernel_regularizer: Regularizer | None = None, trainable: bool = True,
           name: str | None = None) -> Node:
    """Convolution of images [batch, height, width, channels]."""
    here()
    keep = Keep()
    c_function, function = c_activation(activation)
    (height, width), (down, across) = _two(kernel_size), _two(strides)
    return _applied(x.graph.node(lib.est_conv2d_layer(x._c, filters, height, keep.options(
        "est_conv2d_options", name=keep.string(name), kernel_width=width, stride=down, stride_width=across,
        padding=_padding(padding), activation=c_function, no_bias=not use_bias,
        kernel_initializer=c_initializer(keep, kernel_initializer),
        bias_initializer=c_initializer(keep, bias_initializer),
        kernel_regularizer=c_regularizer(keep, kernel_regularizer), frozen=not trainable))), function)


def _pool(function: Callable, x: Node, pool_size: Any, strides: Any, padding: str, name: str | None) -> Node:
    here()
    keep = Keep()
    (height, width), (down, across) = _two(pool_size), _two(strides if strides is not None else pool_size)
    return x.graph.node(function(x._c, height, keep.options(
        "est_pool2d_options", name=keep.string(name), width=width, stride=down, stride_width=across,
        padding=_padding(padding))))


def max_pool2d(x: Node, pool_size: int | Sequence[int] = 2, strides: int | Sequence[int] | None = None,
               padding: str = "valid", name: str | None = None) -> Node:
    """The largest of every window."""
    return _pool(lib.est_max_pool2d, x, pool_size, strides, padding, name)


def average_pool2d(x: Node, pool_size: int | Sequence[int] = 2, strides: int | Sequence[int] | None = None,
                   padding: str = "valid", name: str | None = None) -> Node:
    """The mean of every window."""
    return _pool(lib.est_avg_pool2d, x, pool_size, strides, padding, name)


def flatten(x: Node) -> Node:
    """[batch, ...] to [batch, everything else]."""
    here()
    return x.graph.node(lib.est_flatten(x._c))


def batch_normalization(x: Node, training: bool, momentum: float = 0.99, epsilon: float = 0.001, center: bool = True,
                        scale: bool = True, trainable: bool = True, name: str | None = None,
                        follows: Node | None = None) -> Node:
    """Normalizes the last axis; optimizers update its moving averages while training, where `follows`, a bool, is
    true."""
    here()
    keep = Keep()
    return x.graph.node(lib.est_batch_norm(x._c, training, keep.options(
        "est_batch_norm_options", name=keep.string(name), momentum=off(momentum), epsilon=off(epsilon),
        no_center=not center, no_scale=not scale, frozen=not trainable,
        **({} if follows is None else {"follows": follows._c}))))


def dropout(x: Node, rate: float, training: bool) -> Node:
    """Zeroes elements with that probability while training, and scales the others up."""
    here()
    return x.graph.node(lib.est_dropout_layer(x._c, rate, training))


def embedding(ids: Node, num_ids: int, width: int, initializer: Any = None, trainable: bool = True,
              name: str | None = None) -> Node:
    """Rows of a trained table [num_ids, width]."""
    here()
    keep = Keep()
    return ids.graph.node(lib.est_embedding(ids._c, num_ids, width, keep.options(
        "est_embedding_options", name=keep.string(name), initializer=c_initializer(keep, initializer),
        frozen=not trainable)))


# --- columns ----------------------------------------------------------------------------------------------------------


def _features(keep: Keep, features: Mapping[str, Any]) -> tuple[Graph, Any]:
    """The graph and an est_features: those of the model where they are its own, else what the mapping has."""
    model = getattr(features, "_model", None)
    if model is not None:
        return features._graph, lib.est_model_features(model)
    nodes = [item.values if isinstance(item, RaggedNode) else item for item in features.values()]
    graph = next((node.graph for node in nodes if isinstance(node, Node)), None) or default_graph()
    if graph is None:
        raise TypeError("features must be tensors of a graph, or be used within one")
    own = keep.new("py_features *")
    own.graph, own.names = graph._c, keep.strings(list(features))
    own.features = keep.new("est_feature[]", max(len(features), 1))
    for i, item in enumerate(features.values()):
        if isinstance(item, RaggedNode):
            own.features[i] = (item.values._c, item.splits._c)
        else:
            own.features[i].values = as_node(item, graph)._c
    return graph, lib.py_features_of(own)


def input_layer(features: Mapping[str, Node], columns: Sequence, trainable: bool = True,
                name: str | None = None) -> Node:
    """Dense columns side by side in the order of their names: float32 [batch, sum of widths]."""
    here()
    keep = Keep()
    graph, found = _features(keep, features)
    return graph.node(lib.est_input_layer(found, c_columns(keep, columns), keep.options(
        "est_input_layer_options", name=keep.string(name), frozen=not trainable)))


def linear_model(features: Mapping[str, Node], columns: Sequence, units: int = 1, trainable: bool = True,
                 name: str | None = None) -> Node:
    """The weighted sum of all columns plus a bias: float32 [batch, units]."""
    here()
    keep = Keep()
    graph, found = _features(keep, features)
    return graph.node(lib.est_linear_model(found, c_columns(keep, columns), keep.options(
        "est_linear_model_options", name=keep.string(name), units=units, frozen=not trainable)))


