# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.layers: functions whose variables are in the variable scope around them, which they share where it is
used again, and have its initializer and regularizer."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

from .... import layers as _layers
from .... import ops as _ops
from ...._lib import ffi as _ffi
from ...._lib import lib as _lib
from ....graph import Node as _Node
from ....graph import Variable as _BaseVariable
from ....graph import as_node as _as_node
from ... import nn as _nn
from ..._absent import module_getattr as _module_getattr
from . import _graph
from ._initializers import zeros_initializer as _zeros


def _refuse(**arguments: _Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise NotImplementedError(f"{name} does not exist yet in tf.compat.v1.layers")


def _channels_last(data_format: str) -> None:
    if data_format != "channels_last":
        raise NotImplementedError(f"data_format {data_format!r}: images are channels_last")


def _initializer(value: _Any) -> _Any:
    if isinstance(value, str):
        from ...keras import initializers
        return initializers.get(value)
    return value


def _regularizer(value: _Any) -> _Any:
    if isinstance(value, str):
        from ...keras import regularizers
        return regularizers.get(value)
    return value


def _input(x: _Any) -> _Node:
    graph = x.graph if isinstance(x, _Node) else _graph.get_default_graph()
    return _as_node(x.value() if isinstance(x, _BaseVariable) else x, graph)


def _weight(x: _Node, name: str, shape: _Any, initializer: _Any, regularizer: _Any, trainable: bool) -> _Node:
    return _graph.get_variable(name, shape, x.dtype, _initializer(initializer), _regularizer(regularizer), trainable).value()


def _width(x: _Node, rank: int | None, what: str) -> int:
    """The size of the last axis, which a layer must know."""
    if x.shape is None or rank is not None and len(x.shape) != rank or not len(x.shape) or x.shape[-1] is None:
        wanted = "rank 2 or more" if rank is None else f"rank {rank}"
        raise ValueError(f"{what}: the input has the shape {x.shape}; expected {wanted}, with a known last axis")
    return int(x.shape[-1])


def _end(x: _Node, units: int, use_bias: bool, initializer: _Any, regularizer: _Any, trainable: bool,
         activation: _Any) -> _Node:
    if use_bias:
        x = _nn.bias_add(x, _weight(x, "bias", [units], initializer, regularizer, trainable))
    if activation is None:
        return x
    return getattr(_ops, activation)(x) if isinstance(activation, str) else activation(x)


def dense(inputs: _Any, units: int, activation: _Any = None, use_bias: bool = True, kernel_initializer: _Any = None,
          bias_initializer: _Any = _zeros, kernel_regularizer: _Any = None, bias_regularizer: _Any = None,
          activity_regularizer: _Any = None, kernel_constraint: _Any = None, bias_constraint: _Any = None,
          trainable: bool = True, name: str | None = None, reuse: _Any = None) -> _Any:
    """activation(inputs kernel + bias) over the last axis."""
    _refuse(activity_regularizer=activity_regularizer, kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint)
    x, units = _input(inputs), int(units)
    width = _width(x, None, "dense")
    with _graph.variable_scope(name, "dense", reuse=reuse):
        kernel = _weight(x, "kernel", [width, units], kernel_initializer, kernel_regularizer, trainable)
        if len(x.shape) == 2:
            y = _ops.matmul(x, kernel)
        else:  # rows of the last axis, and back
            sizes = [-1 if size is None else size for size in x.shape[:-1]]
            outer = _ops.shape(x)[:-1] if sizes.count(-1) > 1 else sizes
            y = _ops.matmul(_ops.reshape(x, [-1, width]), kernel)
            y = _ops.reshape(y, _ops.concat([outer, [units]], 0) if isinstance(outer, _Node) else outer + [units])
        return _end(y, units, use_bias, bias_initializer, bias_regularizer, trainable, activation)


def conv2d(inputs: _Any, filters: int, kernel_size: _Any, strides: _Any = (1, 1), padding: str = "valid",
           data_format: str = "channels_last", dilation_rate: _Any = (1, 1), activation: _Any = None,
           use_bias: bool = True, kernel_initializer: _Any = None, bias_initializer: _Any = _zeros,
           kernel_regularizer: _Any = None, bias_regularizer: _Any = None, activity_regularizer: _Any = None,
           kernel_constraint: _Any = None, bias_constraint: _Any = None, trainable: bool = True,
           name: str | None = None, reuse: _Any = None) -> _Any:
    """Convolution of images [batch, height, width, channels]."""
    _refuse(activity_regularizer=activity_regularizer, kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint, dilation_rate=None if _layers._two(dilation_rate) == (1, 1) else dilation_rate)
    _channels_last(data_format)
    x, filters = _input(inputs), int(filters)
    shape = [*_layers._two(kernel_size), _width(x, 4, "conv2d"), filters]
    with _graph.variable_scope(name, "conv2d", reuse=reuse):
        kernel = _weight(x, "kernel", shape, kernel_initializer, kernel_regularizer, trainable)
        y = _nn.conv2d(x, kernel, list(_layers._two(strides)), padding.upper())
        return _end(y, filters, use_bias, bias_initializer, bias_regularizer, trainable, activation)


def conv1d(inputs: _Any, filters: int, kernel_size: _Any, strides: _Any = 1, padding: str = "valid",
           data_format: str = "channels_last", dilation_rate: _Any = 1, activation: _Any = None,
           use_bias: bool = True, kernel_initializer: _Any = None, bias_initializer: _Any = _zeros,
           kernel_regularizer: _Any = None, bias_regularizer: _Any = None, activity_regularizer: _Any = None,
           kernel_constraint: _Any = None, bias_constraint: _Any = None, trainable: bool = True,
           name: str | None = None, reuse: _Any = None) -> _Any:
    """Convolution of sequences [batch, steps, channels]."""
    _refuse(activity_regularizer=activity_regularizer, kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint, dilation_rate=None if dilation_rate in (1, (1,), [1]) else dilation_rate)
    _channels_last(data_format)
    x, filters = _input(inputs), int(filters)
    size, stride = (value if isinstance(value, int) else value[0] for value in (kernel_size, strides))
    width = _width(x, 3, "conv1d")
    with _graph.variable_scope(name, "conv1d", reuse=reuse):
        kernel = _weight(x, "kernel", [size, width, filters], kernel_initializer, kernel_regularizer, trainable)
        y = _nn.conv2d(_ops.expand_dims(x, 1), _ops.expand_dims(kernel, 0), [1, stride], padding.upper())
        return _end(_ops.squeeze(y, [1]), filters, use_bias, bias_initializer, bias_regularizer, trainable, activation)


def max_pooling2d(inputs: _Any, pool_size: _Any, strides: _Any, padding: str = "valid",
                  data_format: str = "channels_last", name: str | None = None) -> _Any:
    """The largest value of each window of images."""
    _channels_last(data_format)
    return _layers.max_pool2d(_input(inputs), pool_size, strides, padding, name)


def average_pooling2d(inputs: _Any, pool_size: _Any, strides: _Any, padding: str = "valid",
                      data_format: str = "channels_last", name: str | None = None) -> _Any:
    """The mean of each window of images."""
    _channels_last(data_format)
    return _layers.average_pool2d(_input(inputs), pool_size, strides, padding, name)


def flatten(inputs: _Any, name: str | None = None, data_format: str = "channels_last") -> _Any:
    """All axes but the first as one."""
    _channels_last(data_format)
    return _layers.flatten(_input(inputs))


def dropout(inputs: _Any, rate: _Any = 0.5, noise_shape: _Any = None, seed: int | None = None, training: _Any = False,
            name: str | None = None) -> _Any:
    """Zeroes elements with that probability while training, and scales the others up; `training` may be a tensor."""
    _refuse(noise_shape=noise_shape)
    x = _input(inputs)
    if isinstance(training, _Node):
        return _ops.where(training, _nn.dropout(x, rate, seed=seed), x)
    if isinstance(rate, _Node) or seed is not None:
        return _nn.dropout(x, rate, seed=seed) if training else x
    return _layers.dropout(x, rate, training)


def batch_normalization(inputs: _Any, axis: int = -1, momentum: float = 0.99, epsilon: float = 0.001,
                        center: bool = True, scale: bool = True, beta_initializer: _Any = None,
                        gamma_initializer: _Any = None, moving_mean_initializer: _Any = None,
                        moving_variance_initializer: _Any = None, beta_regularizer: _Any = None,
                        gamma_regularizer: _Any = None, beta_constraint: _Any = None, gamma_constraint: _Any = None,
                        training: _Any = False, trainable: bool = True, name: str | None = None, reuse: _Any = None,
                        renorm: bool = False, renorm_clipping: _Any = None, renorm_momentum: float = 0.99,
                        fused: bool | None = None, virtual_batch_size: int | None = None, adjustment: _Any = None
                        ) -> _Any:
    """Normalizes the last axis; tf.GraphKeys.UPDATE_OPS has the updates of its moving averages."""
    _refuse(beta_constraint=beta_constraint, gamma_constraint=gamma_constraint, renorm=renorm or None,
            renorm_clipping=renorm_clipping, virtual_batch_size=virtual_batch_size, adjustment=adjustment,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer, moving_mean_initializer=moving_mean_initializer,
            moving_variance_initializer=moving_variance_initializer)
    x = _input(inputs)
    axis = axis[0] if isinstance(axis, (list, tuple)) and len(axis) == 1 else axis
    if x.shape is None or axis not in (-1, len(x.shape) - 1):
        raise NotImplementedError(f"batch_normalization: axis {axis} of {x.shape}; it is the last one")
    store = _graph.current_store()
    if store is not None:
        from ...keras import layers
        with _graph.variable_scope(name, "batch_normalization", reuse=reuse) as scope:
            if any(item is not None for item in (beta_regularizer, gamma_regularizer, scope.regularizer)):
                raise NotImplementedError("batch_normalization: regularizers do not exist yet in a method that tracks its "
                                          "variables")
            layer = store.normal(scope.name, lambda: layers.BatchNormalization(-1, momentum, epsilon, center, scale,
                                                                               trainable=trainable))
            return layer(x, training=training)
    both = isinstance(training, _Node)
    ways = [True, False] if both else [bool(training)]
    made = _built_by_c(name, "batch_normalization", reuse, {"gamma": gamma_regularizer, "beta": beta_regularizer}, [
        lambda leaf, way=way: _layers.batch_normalization(x, way, momentum, epsilon, center, scale, trainable, leaf,
                                                          training if both else None)
        for way in ways])
    return made[0] if not both else _ops.where(training, *made)


def _built_by_c(name: str | None, default: str, reuse: _Any, regularizers: dict,
               builds: list[_Callable[[str], _Node]]) -> list[_Node]:
    """Calls of a layer of the library, whose variables are named and shared as those of get_variable."""
    graph = _graph.get_default_graph()
    state = _graph.state_of(graph)
    with _graph.variable_scope(name, default, reuse=reuse, auxiliary_name_scope=False) as scope:
        pass
    full = scope.name
    if full in state.layers and not scope.reuse:
        raise ValueError(f"Variables of {full} already exist, disallowed. Did you mean to set reuse=True or "
                         "reuse=tf.AUTO_REUSE in VarScope?")
    if full not in state.layers and scope.reuse is True:
        raise ValueError(f"Variables of {full} do not exist, or were not created with tf.get_variable(). Did you mean "
                         "to set reuse=tf.AUTO_REUSE in VarScope?")
    outer, _, leaf = full.rpartition("/")
    key = state.layers.setdefault(full, _ffi.new("char *"))
    before = _lib.est_global_variables(graph._c).n
    made = []
    for build in builds:
        with graph.scope(outer + "/" if outer else ""):
            _lib.est_share_begin(graph._c, key)
            try:
                made.append(build(leaf))
            finally:
                _lib.est_share_end(graph._c)
    graph.check()
    span = _lib.est_global_variables(graph._c)
    for i in range(before, span.n):
        variable = graph._variable(span.data[i])
        own = variable.name.partition(":")[0]
        state.by_name[own] = variable
        regularizer = regularizers.get(own.rpartition("/")[2]) or (
            scope.regularizer if own.rpartition("/")[2] in regularizers else None)
        if regularizer is not None:
            _graph.add_to_collection(_graph.GraphKeys.REGULARIZATION_LOSSES, regularizer(variable.value()))
    return made


_CLASSES = ("BatchNormalization", "Conv2D", "Dense", "Dropout", "Flatten", "Layer", "MaxPooling2D", "AveragePooling2D",
            "SeparableConv2D")


_made: dict = {}


def _class(name: str) -> type:
    """A layer of Keras. In a method that tracks its variables they are named by the variable scope of the first call."""
    from ...keras import _calling, layers
    base = getattr(layers, name)

    def __call__(self: _Any, *args: _Any, **named: _Any) -> _Any:
        if _graph.current_store() is None:
            return base.__call__(self, *args, **named)
        leaf = self.__dict__.get("_scope_name")
        default = self._made_with[1].get("name") or _calling.snake(name)
        with _graph.variable_scope(leaf, default, auxiliary_name_scope=False) as scope:
            result = base.__call__(self, *args, **named)
        self.__dict__["_scope_name"] = scope.name.rpartition("/")[2]
        if leaf is None:
            for variable in self._all_weights():
                variable._shown = f"{scope.name}/{variable._shown.rpartition('/')[2]}"
        return result

    return type(name, (base,), {"__call__": __call__, "__doc__": base.__doc__, "__module__": base.__module__})


def __getattr__(name: str) -> _Any:
    """The layers of TensorFlow 1 are those of Keras."""
    if name in _CLASSES:
        if name not in _made:
            _made[name] = _class(name)
        return _made[name]
    return _module_getattr(__name__)(name)
