# SPDX-License-Identifier: Apache-2.0
"""tf.keras.layers: the layers of the library, with Keras' arguments and defaults."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable
from typing import Sequence as _Sequence

import numpy as _np

from .... import ops as _ops
from ...._lib import Keep as _Keep
from ...._lib import c_seed as _c_seed
from ...._lib import check as _check
from ...._lib import ffi as _ffi
from ...._lib import lib as _lib
from ...._lib import off as _off
from ...._tensor import as_array as _as_array
from ...._tensor import float32 as _float32
from ...._tensor import int64 as _int64
from ....feature_column import Column as _Column
from ....feature_column import c_columns as _c_columns
from ....feature_column import c_combiner as _c_combiner
from ....feature_column import keys_of as _keys_of
from ....graph import Graph as _Graph
from ....graph import Node as _Node
from ....graph import Session as _Session
from ....graph import as_node as _as_node
from ....layers import _padding
from ..._absent import module_getattr as _module_getattr
from ... import nn as _nn
from ..._array import range_ as _range
from .. import activations as _activations
from .. import constraints as _constraints
from .. import initializers as _initializers
from .. import regularizers as _regularizers
from .._layer import InputLayer, Layer  # noqa: F401
from .._layer import activation as _activation
from .._layer import channels_last as _channels_last
from .._layer import refuse as _refuse
from .._layer import two as _two
from .._native import NativeLayer as _NativeLayer
from .._serial import by_module as _by_module
from .._symbolic import Input  # noqa: F401
from . import _masks


class _WithActivation(_NativeLayer):
    """A layer of the library with an activation at its end."""

    _keeps_logits = True

    def __init__(self, make: _Callable, activation: _Any, kernels: int, kernel_regularizer: _Any, bias_regularizer: _Any,
                 named: dict, kernel_constraint: _Any = None, bias_constraint: _Any = None):
        c_function, function = _activation(activation)
        super().__init__(lambda keep: make(keep, c_function), **named)
        self.__dict__["_after"] = function
        self.activation = activation
        for i, regularizer in ((0, kernel_regularizer), (kernels, bias_regularizer)):
            if regularizer is not None:
                self._regularized.append((i, _regularizers.get(regularizer)))
        for i, constraint in ((0, kernel_constraint), (kernels, bias_constraint)):
            if constraint is not None:
                self._constrained[i] = _constraints.get(constraint)


class Dense(_WithActivation):
    """activation(x kernel + bias) over the last axis."""

    _supports_masking = True

    def __init__(self, units: int, activation: _Any = None, use_bias: bool = True,
                 kernel_initializer: _Any = "glorot_uniform", bias_initializer: _Any = "zeros",
                 kernel_regularizer: _Any = None, bias_regularizer: _Any = None, activity_regularizer: _Any = None,
                 kernel_constraint: _Any = None, bias_constraint: _Any = None, **named: _Any):
        named["activity_regularizer"] = activity_regularizer
        self.__dict__.update(units=int(units), use_bias=use_bias)
        if int(units) <= 0:
            raise ValueError(f"Received an invalid value for `units`, expected a positive integer. Received: {units}")

        def make(keep: _Keep, c_function: _Any) -> _Any:
            return _lib.est_layer_dense(int(units), keep.options(
                "est_dense_options", name=keep.string(self.name), activation=c_function, no_bias=not use_bias,
                kernel_initializer=_initializers._c(keep, kernel_initializer),
                bias_initializer=_initializers._c(keep, bias_initializer),
                kernel_regularizer=_regularizers._c(keep, kernel_regularizer),
                bias_regularizer=_regularizers._c(keep, bias_regularizer)))

        super().__init__(make, activation, 1, kernel_regularizer, bias_regularizer, named, kernel_constraint,
                         bias_constraint)

    kernel = property(lambda self: self._all_weights()[0])
    bias = property(lambda self: self._all_weights()[1] if self.use_bias else None)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        if isinstance(args[0], _Node) and (args[0].dtype.is_integer or args[0].dtype.name == "bool"):
            args = (_ops.cast(args[0], _float32),)  # as Keras does, in this layer only
        return super()._call_in(graph, args, named, training)


def _more_than_one(max_tokens: int | None) -> None:
    if max_tokens is not None and max_tokens <= 1:
        raise ValueError(f"If set, `max_tokens` must be greater than 1. Received: max_tokens={max_tokens}")


def _sizes_of_windows(kernel_size: _Any, strides: _Any = 1, what: str = "kernel_size", **more: int) -> None:
    """0 is an error, and not the default that it is in C."""
    for name, given in {what: kernel_size, "strides": strides, **more}.items():
        if 0 in (given if isinstance(given, (tuple, list)) else (given,)):
            raise ValueError(f"The argument `{name}` cannot contains 0(s). Received: {given}")


class Conv2D(_WithActivation):
    """Convolution of images [batch, height, width, channels]."""

    def __init__(self, filters: int, kernel_size: _Any, strides: _Any = (1, 1), padding: str = "valid",
                 data_format: _Any = None, dilation_rate: _Any = (1, 1), groups: int = 1, activation: _Any = None,
                 use_bias: bool = True, kernel_initializer: _Any = "glorot_uniform", bias_initializer: _Any = "zeros",
                 kernel_regularizer: _Any = None, bias_regularizer: _Any = None, activity_regularizer: _Any = None,
                 kernel_constraint: _Any = None, bias_constraint: _Any = None, **named: _Any):
        _channels_last(data_format)
        _refuse(groups=groups)
        named["activity_regularizer"] = activity_regularizer
        _sizes_of_windows(kernel_size, strides, dilation_rate=dilation_rate)
        (height, width), (down, across), rate = _two(kernel_size), _two(strides), _two(dilation_rate)
        if rate != (1, 1) and (down, across) != (1, 1):
            raise ValueError("`strides > 1` not supported in conjunction with `dilation_rate > 1`")
        self.__dict__["_dilated"] = None if rate == (1, 1) else _Dilated(rate, (height, width), padding)

        def make(keep: _Keep, c_function: _Any) -> _Any:
            return _lib.est_layer_conv2d(int(filters), height, keep.options(
                "est_conv2d_options", name=keep.string(self.name), kernel_width=width, stride=down,
                stride_width=across, padding=_padding(padding if self._dilated is None else "valid"),
                activation=c_function, no_bias=not use_bias,
                kernel_initializer=_initializers._c(keep, kernel_initializer),
                bias_initializer=_initializers._c(keep, bias_initializer),
                kernel_regularizer=_regularizers._c(keep, kernel_regularizer),
                bias_regularizer=_regularizers._c(keep, bias_regularizer)))

        super().__init__(make, activation, 1, kernel_regularizer, bias_regularizer, named, kernel_constraint,
                         bias_constraint)

    kernel = property(lambda self: self._all_weights()[0])
    bias = property(lambda self: (self._all_weights() + [None])[1])

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        if self._dilated is None:
            return super()._call_in(graph, args, named, training)
        parts, size = self._dilated.apart(args[0])
        return self._dilated.together(super()._call_in(graph, (parts,), named, training), size)


class _Dilated:
    """A convolution whose kernel has gaps, as one without over the pixels of each remainder by the rate."""

    def __init__(self, rate: tuple[int, int], kernel: tuple[int, int], padding: str):
        self._rate, self._same = rate, padding.lower() == "same"
        self._reach = [(size - 1) * step for size, step in zip(kernel, rate)]

    def apart(self, x: _Any) -> tuple:
        """Every rate-th pixel as an image of its own, and the size of the result."""
        if None in tuple(x.shape[1:]):
            raise NotImplementedError("a convolution with a dilation_rate: the size of the images must be known")
        sizes = [int(part) for part in x.shape[1:3]]
        edges = [reach if self._same else 0 for reach in self._reach]
        result = [size + edge - reach for size, edge, reach in zip(sizes, edges, self._reach)]
        pads = [(edge // 2, edge - edge // 2 + -(size + edge) % step)
                for size, edge, step in zip(sizes, edges, self._rate)]
        (down, across), channels = self._rate, int(x.shape[3])
        x = _ops.pad(x, [(0, 0), *pads, (0, 0)])
        rows, columns = int(x.shape[1]) // down, int(x.shape[2]) // across
        x = _ops.transpose(_ops.reshape(x, [-1, rows, down, columns, across, channels]), [2, 4, 0, 1, 3, 5])
        return _ops.reshape(x, [-1, rows, columns, channels]), result

    def together(self, x: _Any, size: list) -> _Any:
        (down, across), (rows, columns, channels) = self._rate, (int(part) for part in x.shape[1:])
        x = _ops.transpose(_ops.reshape(x, [down, across, -1, rows, columns, channels]), [2, 3, 0, 4, 1, 5])
        return _ops.reshape(x, [-1, rows * down, columns * across, channels])[:, :size[0], :size[1]]


class Conv2DTranspose(Layer):
    """The transpose of a convolution: images that grow by the strides."""

    def __init__(self, filters: int, kernel_size: _Any, strides: _Any = (1, 1), padding: str = "valid",
                 output_padding: _Any = None, data_format: _Any = None, dilation_rate: _Any = (1, 1),
                 activation: _Any = None, use_bias: bool = True, kernel_initializer: _Any = "glorot_uniform",
                 bias_initializer: _Any = "zeros", kernel_regularizer: _Any = None, bias_regularizer: _Any = None,
                 kernel_constraint: _Any = None, bias_constraint: _Any = None, **named: _Any):
        _channels_last(data_format)
        _refuse(dilation_rate=dilation_rate)
        super().__init__(**named)
        self.filters, self.kernel_size, self.strides = int(filters), _two(kernel_size), _two(strides)
        self.padding, self.use_bias, self.activation = padding.lower(), use_bias, _activations.get(activation)
        self.output_padding = None if output_padding is None else _two(output_padding)
        self.__dict__["_of_kernel"] = {"initializer": kernel_initializer, "regularizer": kernel_regularizer,
                                       "constraint": kernel_constraint}
        self.__dict__["_of_bias"] = {"initializer": bias_initializer, "regularizer": bias_regularizer,
                                     "constraint": bias_constraint}

    def build(self, input_shape: _Any) -> None:
        self.kernel = self.add_weight("kernel", (*self.kernel_size, self.filters, int(input_shape[-1])), **self._of_kernel)
        self.bias = self.add_weight("bias", (self.filters,), **self._of_bias) if self.use_bias else None

    def _grown(self, size: _Any, i: int) -> _Any:
        kernel, stride = self.kernel_size[i], self.strides[i]
        if self.output_padding is None:
            return size * stride + (max(kernel - stride, 0) if self.padding == "valid" else 0)
        return (size - 1) * stride + kernel + self.output_padding[i] - (kernel // 2 * 2 if self.padding == "same" else 0)

    def call(self, inputs: _Any) -> _Any:
        sizes = [inputs.shape[i + 1] for i in range(2)]
        known, dynamic = all(size is not None for size in sizes), _ops.shape(inputs)
        grown = [self._grown(dynamic[i + 1] if size is None else size, i) for i, size in enumerate(sizes)]
        result = _nn.conv2d_transpose.over_nodes(inputs, self.kernel._as_node(inputs.graph), [
            dynamic[0], *grown, self.filters], self.strides, self.padding.upper())
        if known:
            result = _ops.reshape(result, [-1, *grown, self.filters])
        if self.bias is not None:
            result = inputs.graph.node(_lib.est_bias_add(result._c, self.bias._as_node(inputs.graph)._c))
        return self.activation(result)


Convolution2DTranspose = Conv2DTranspose


class DepthwiseConv2D(_WithActivation):
    """Each channel with filters of its own."""

    def __init__(self, kernel_size: _Any, strides: _Any = (1, 1), padding: str = "valid", depth_multiplier: int = 1,
                 data_format: _Any = None, dilation_rate: _Any = (1, 1), activation: _Any = None, use_bias: bool = True,
                 depthwise_initializer: _Any = "glorot_uniform", bias_initializer: _Any = "zeros",
                 depthwise_regularizer: _Any = None, bias_regularizer: _Any = None, **named: _Any):
        _channels_last(data_format)
        _refuse(dilation_rate=dilation_rate)
        _sizes_of_windows(kernel_size, strides, depth_multiplier=depth_multiplier)
        (height, width), (down, across) = _two(kernel_size), _two(strides)

        def make(keep: _Keep, c_function: _Any) -> _Any:
            return _lib.est_layer_depthwise_conv2d(int(depth_multiplier), height, keep.options(
                "est_conv2d_options", name=keep.string(self.name), kernel_width=width, stride=down,
                stride_width=across, padding=_padding(padding), activation=c_function, no_bias=not use_bias,
                kernel_initializer=_initializers._c(keep, depthwise_initializer),
                bias_initializer=_initializers._c(keep, bias_initializer),
                kernel_regularizer=_regularizers._c(keep, depthwise_regularizer),
                bias_regularizer=_regularizers._c(keep, bias_regularizer)))

        super().__init__(make, activation, 1, depthwise_regularizer, bias_regularizer, named)


class SeparableConv2D(_WithActivation):
    """Each channel with filters of its own, then sums over all of them at each place."""

    def __init__(self, filters: int, kernel_size: _Any, strides: _Any = (1, 1), padding: str = "valid",
                 data_format: _Any = None, dilation_rate: _Any = (1, 1), depth_multiplier: int = 1,
                 activation: _Any = None, use_bias: bool = True, depthwise_initializer: _Any = "glorot_uniform",
                 pointwise_initializer: _Any = "glorot_uniform", bias_initializer: _Any = "zeros", **named: _Any):
        _channels_last(data_format)
        _refuse(dilation_rate=dilation_rate)
        _sizes_of_windows(kernel_size, strides, depth_multiplier=depth_multiplier)
        (height, width), (down, across) = _two(kernel_size), _two(strides)

        def make(keep: _Keep, c_function: _Any) -> _Any:
            return _lib.est_layer_separable_conv2d(int(filters), height, keep.options(
                "est_separable_conv2d_options", name=keep.string(self.name), kernel_width=width, stride=down,
                stride_width=across, padding=_padding(padding), depth_multiplier=int(depth_multiplier),
                activation=c_function, no_bias=not use_bias,
                depthwise_initializer=_initializers._c(keep, depthwise_initializer),
                pointwise_initializer=_initializers._c(keep, pointwise_initializer),
                bias_initializer=_initializers._c(keep, bias_initializer)))

        super().__init__(make, activation, 2, None, None, named)


class _Pool2D(_NativeLayer):
    _function = ""

    def __init__(self, pool_size: _Any = (2, 2), strides: _Any = None, padding: str = "valid", data_format: _Any = None,
                 **named: _Any):
        _channels_last(data_format)
        _sizes_of_windows(pool_size, pool_size if strides is None else strides, "pool_size")
        (height, width), (down, across) = _two(pool_size), _two(strides if strides is not None else pool_size)
        super().__init__(lambda keep: getattr(_lib, self._function)(height, keep.options(
            "est_pool2d_options", name=keep.string(self.name), width=width, stride=down, stride_width=across,
            padding=_padding(padding))), **named)


class MaxPooling2D(_Pool2D):
    """The largest of every window."""

    _function = "est_layer_max_pool2d"


class AveragePooling2D(_Pool2D):
    """The mean of every window."""

    _function = "est_layer_avg_pool2d"


MaxPool2D, AvgPool2D = MaxPooling2D, AveragePooling2D
Convolution2D, SeparableConvolution2D = Conv2D, SeparableConv2D


class _Named(_NativeLayer):
    """A layer of the library that has a name and nothing else."""

    _function = ""

    def __init__(self, **named: _Any):
        _channels_last(named.pop("data_format", None))
        super().__init__(lambda keep: getattr(_lib, self._function)(keep.string(self.name)), **named)


class _GlobalPool(_Named):
    """[batch, rows, columns, channels] to [batch, channels], or to [batch, 1, 1, channels]."""

    def __init__(self, data_format: _Any = None, keepdims: bool = False, **named: _Any):
        super().__init__(data_format=data_format, **named)
        self.keepdims = bool(keepdims)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        found = super()._call_in(graph, args, named, training)
        return _ops.expand_dims(_ops.expand_dims(found, 1), 1) if self.keepdims else found


class GlobalMaxPooling2D(_GlobalPool):
    """The largest of each channel."""

    _function = "est_layer_global_max_pool2d"


class GlobalAveragePooling2D(_GlobalPool):
    """The mean of each channel."""

    _function = "est_layer_global_avg_pool2d"


GlobalMaxPool2D, GlobalAvgPool2D = GlobalMaxPooling2D, GlobalAveragePooling2D


class Flatten(_Named):
    """[batch, ...] to [batch, everything else]."""

    _function = "est_layer_flatten"

    def get_config(self) -> dict:
        return {**super().get_config(), "data_format": "channels_last"}


class Add(_masks.OfAll, _Named):
    """The sum of its inputs."""

    _function = "est_layer_add"


class Multiply(_masks.OfAll, _Named):
    """The product of its inputs."""

    _function = "est_layer_multiply"


class Reshape(_NativeLayer):
    """[batch, ...] to [batch, target_shape...]; one entry may be -1."""

    def __init__(self, target_shape: _Sequence[int], **named: _Any):
        super().__init__(lambda keep: _lib.est_layer_reshape(keep.i64s(target_shape), keep.string(self.name)), **named)


class Concatenate(_masks.OneAfterTheOther, _NativeLayer):
    """Its inputs one after the other along an axis."""

    def __init__(self, axis: int = -1, **named: _Any):
        self.__dict__["axis"] = axis
        super().__init__(lambda keep: _lib.est_layer_concatenate(axis, keep.string(self.name)), **named)


class Dot(_NativeLayer):
    """Sums of products of two inputs along an axis of each."""

    def __init__(self, axes: _Any, normalize: bool = False, **named: _Any):
        first, second = (axes, 0) if isinstance(axes, int) else axes
        super().__init__(lambda keep: _lib.est_layer_dot(first, keep.options(
            "est_dot_options", name=keep.string(self.name), second_axis=second, normalize=normalize)), **named)


class Activation(_NativeLayer):
    """An activation as a layer."""

    _supports_masking = True
    _keeps_logits = True

    def __init__(self, activation: _Any, **named: _Any):
        c_function, function = _activation(activation)
        if function is not None:
            super().__init__(lambda keep: _ffi.NULL, **named)
            self.__dict__["_call_in"] = lambda graph, args, more, training: function(args[0])
        else:
            super().__init__(lambda keep: _lib.est_layer_activation(c_function, keep.string(self.name)), **named)


class LeakyReLU(Layer):
    """x, or alpha x below 0."""

    _supports_masking = True

    _scoped = False

    def __init__(self, alpha: float = 0.3, **named: _Any):
        super().__init__(**named)
        self.__dict__["alpha"] = float(alpha)

    def call(self, inputs: _Any) -> _Any:
        return inputs.graph.node(_lib.est_leaky_relu(inputs._c, self.alpha))


class Rescaling(Layer):
    """x times scale, plus offset."""

    _scoped = False

    def __init__(self, scale: float, offset: float = 0.0, **named: _Any):
        super().__init__(**named)
        self.__dict__.update(scale=scale, offset=offset)

    def call(self, inputs: _Any) -> _Any:
        return _ops.cast(inputs, _float32) * self.scale + self.offset


class _Merge(_masks.OfAll, Layer):
    """A function of several inputs, element by element."""

    _scoped = False

    def call(self, inputs: _Any) -> _Any:
        inputs = list(inputs)
        if len(inputs) < 2:
            raise ValueError(f"A merge layer should be called on a list of at least 2 inputs. Received {len(inputs)}.")
        result = inputs[0]
        for item in inputs[1:]:
            result = self._two(result, item)
        return result

    @staticmethod
    def _two(a: _Any, b: _Any) -> _Any:
        raise NotImplementedError


class Subtract(_Merge):
    """The first input minus the second."""

    def call(self, inputs: _Any) -> _Any:
        if len(inputs) != 2:
            raise ValueError(f"A `Subtract` layer should be called on exactly 2 inputs. Received {len(inputs)}.")
        return inputs[0] - inputs[1]


class Maximum(_Merge):
    """The largest of its inputs."""

    _two = staticmethod(_ops.maximum)


class Minimum(_Merge):
    """The smallest of its inputs."""

    _two = staticmethod(_ops.minimum)


class Average(_Merge):
    """The mean of its inputs."""

    _two = staticmethod(_ops.add)

    def call(self, inputs: _Any) -> _Any:
        return super().call(inputs) / float(len(inputs))


class GlobalAveragePooling1D(Layer):
    """The mean over the steps of [batch, steps, features]."""

    _scoped = False

    def __init__(self, data_format: _Any = None, keepdims: bool = False, **named: _Any):
        _channels_last(data_format)
        super().__init__(**named)
        self.__dict__["keepdims"] = keepdims

    def call(self, inputs: _Any, mask: _Any = None) -> _Any:
        if mask is None:
            return _ops.reduce_mean(inputs, 1, self.keepdims)
        kept = _ops.expand_dims(_ops.cast(mask, inputs.dtype), -1)
        return _ops.reduce_sum(inputs * kept, 1, self.keepdims) / _ops.reduce_sum(kept, 1, self.keepdims)


class GlobalMaxPooling1D(GlobalAveragePooling1D):
    """The largest of each feature over the steps."""

    _supports_masking = False

    def call(self, inputs: _Any) -> _Any:
        return _ops.reduce_max(inputs, 1, self.keepdims)


GlobalAvgPool1D, GlobalMaxPool1D = GlobalAveragePooling1D, GlobalMaxPooling1D


class Softmax(Activation):
    """softmax over the last axis, of the values that a mask leaves in."""

    _parameters = ("inputs", "mask")

    def __init__(self, axis: _Any = -1, **named: _Any):
        super().__init__("softmax", **named)
        self.__dict__["axis"] = axis

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        mask = _boolean(named.get("mask"), graph)
        if mask is not None:
            node = _as_node(args[0], graph)
            args = (node + (1.0 - _ops.cast(mask, node.dtype)) * -1e9,)
        if isinstance(self.axis, (list, tuple)):
            high = _ops.exp(args[0] - _ops.reduce_max(args[0], list(self.axis), True))
            return high / _ops.reduce_sum(high, list(self.axis), True)
        if self.axis not in (-1, len(args[0].shape) - 1):
            return _ops.softmax(args[0], self.axis)
        return super()._call_in(graph, args, {}, training)


class Dropout(_NativeLayer):
    """Zeroes elements with that probability while training, and scales the others up."""

    _supports_masking = True
    _parameters = ("inputs", "training")

    def __init__(self, rate: float, noise_shape: _Any = None, seed: _Any = None, **named: _Any):
        super().__init__(lambda keep: _lib.est_layer_dropout(rate, keep.string(self.name)), **named)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        if self.noise_shape is None or not training or not self.rate:
            return super()._call_in(graph, args, named, training)
        x, sizes = args[0], _ops.shape(args[0])
        shape = _ops.stack([sizes[i] if size is None else graph.constant(_np.int32(size))
                            for i, size in enumerate(self.noise_shape)])
        drawn = graph.node(_lib.est_random_uniform(shape._c, _float32.number, _c_seed(self.seed)))
        return x * _ops.cast(drawn >= float(self.rate), x.dtype) * (1.0 / (1.0 - self.rate))


class BatchNormalization(_NativeLayer):
    """Normalizes the last axis by the batch while training, by moving averages otherwise."""

    _supports_masking = _looks_at_trainable = True
    _parameters = ("inputs", "training", "mask")

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 0.001, center: bool = True,
                 scale: bool = True, beta_initializer: _Any = "zeros", gamma_initializer: _Any = "ones",
                 moving_mean_initializer: _Any = "zeros", moving_variance_initializer: _Any = "ones", **named: _Any):
        if axis not in (-1, 3, [3], [-1]):
            raise NotImplementedError("BatchNormalization: axis is the last one")
        super().__init__(lambda keep: _lib.est_layer_batch_norm(keep.options(
            "est_batch_norm_options", name=keep.string(self.name), momentum=_off(momentum), epsilon=_off(epsilon),
            no_center=not center, no_scale=not scale, beta_initializer=_initializers._c(keep, beta_initializer),
            gamma_initializer=_initializers._c(keep, gamma_initializer),
            moving_mean_initializer=_initializers._c(keep, moving_mean_initializer),
            moving_variance_initializer=_initializers._c(keep, moving_variance_initializer))), **named)

    def _weight(self, name: str) -> _Any:
        return next((weight for weight in self._all_weights() if weight.name.rsplit("/", 1)[-1] == name + ":0"), None)

    gamma = property(lambda self: self._weight("gamma"))
    beta = property(lambda self: self._weight("beta"))
    moving_mean = property(lambda self: self._weight("moving_mean"))
    moving_variance = property(lambda self: self._weight("moving_variance"))


class LayerNormalization(_NativeLayer):
    """Normalizes the last axis of each example."""

    _supports_masking = True

    def __init__(self, axis: int = -1, epsilon: float = 0.001, center: bool = True, scale: bool = True,
                 beta_initializer: _Any = "zeros", gamma_initializer: _Any = "ones", **named: _Any):
        if axis not in (-1, [-1]):
            raise NotImplementedError("LayerNormalization: axis is the last one")
        super().__init__(lambda keep: _lib.est_layer_layer_norm(keep.options(
            "est_layer_norm_options", name=keep.string(self.name), epsilon=_off(epsilon), no_center=not center,
            no_scale=not scale, beta_initializer=_initializers._c(keep, beta_initializer),
            gamma_initializer=_initializers._c(keep, gamma_initializer))), **named)


class Embedding(_NativeLayer):
    """Rows of a trained table [input_dim, output_dim]."""

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: _Any = "uniform",
                 embeddings_regularizer: _Any = None, activity_regularizer: _Any = None,
                 embeddings_constraint: _Any = None, mask_zero: bool = False, input_length: int | None = None,
                 **named: _Any):
        named["activity_regularizer"] = activity_regularizer
        if not named.keys() & {"input_shape", "batch_input_shape", "input_dim"}:
            named["input_shape"] = (input_length,)
        super().__init__(lambda keep: _lib.est_layer_embedding(int(input_dim), int(output_dim), keep.options(
            "est_embedding_options", name=keep.string(self.name),
            initializer=_initializers._c(keep, embeddings_initializer),
            regularizer=_regularizers._c(keep, embeddings_regularizer))), **named)
        self.input_dim, self.output_dim, self.mask_zero = int(input_dim), int(output_dim), bool(mask_zero)
        if embeddings_regularizer is not None:
            self._regularized.append((0, _regularizers.get(embeddings_regularizer)))
        if embeddings_constraint is not None:
            self._constrained[0] = _constraints.get(embeddings_constraint)

    embeddings = property(lambda self: self._all_weights()[0])

    def compute_mask(self, inputs: _Any, mask: _Any = None) -> _Any:
        return _ops.not_equal(inputs, 0) if self.mask_zero else None

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        node = args[0]
        if isinstance(node, _Node) and not node.dtype.is_integer:  # Keras casts ids that are floats
            args = (_Node(graph, _lib.est_cast(node._c, _int64.number)),) + args[1:]
        return super()._call_in(graph, args, named, training)


class Lambda(Layer):
    """A function as a layer."""

    _scoped = False

    def __init__(self, function: _Callable, output_shape: _Any = None, mask: _Any = None, arguments: _Any = None,
                 **named: _Any):
        super().__init__(**named)
        _refuse(mask=mask)
        self.__dict__["function"] = function
        self.__dict__["arguments"] = dict(arguments or {})

    def call(self, inputs: _Any) -> _Any:
        return self.function(inputs, **self.arguments)


def _boolean(mask: _Any, graph: _Graph) -> _Any:
    """A mask as a node of booleans, or None."""
    node = None if mask is None else _as_node(mask, graph)
    return node if node is None or node.dtype.name == "bool" else _ops.not_equal(node, 0)


def _causal(query: _Node, value: _Node, mask: _Any) -> _Any:
    """The mask [batch, n] or [batch, m, n], or None, in which query i besides sees values 0 to i: [batch or 1, m, n]."""
    graph = query.graph
    rows, columns = (_range(_ops.shape(node)[1]) for node in (_as_node(query, graph), _as_node(value, graph)))
    seen = _ops.expand_dims(_ops.greater_equal(_ops.expand_dims(rows, 1), _ops.expand_dims(columns, 0)), 0)
    if mask is None:
        return seen
    return _ops.logical_and(_ops.expand_dims(mask, 1) if len(mask.shape) == 2 else mask, seen)


def _only_arguments(layer: Layer, named: dict, known: tuple) -> None:
    """Arguments of a call that would change what it gives, and do not exist, are refused."""
    for key, value in named.items():
        if key not in known and value is not None and value is not False:
            raise NotImplementedError(f"{type(layer).__name__}: {key} in a call does not exist yet")


class _Attention(_NativeLayer):
    _ignores_masks = False
    _parameters = ("inputs", "mask", "training", "return_attention_scores", "use_causal_mask")
    _function = ""

    def __init__(self, use_scale: bool = False, dropout: float = 0.0, **named: _Any):
        super().__init__(lambda keep: getattr(_lib, self._function)(keep.options(
            "est_attention_options", name=keep.string(self.name), use_scale=use_scale, dropout=dropout)), **named)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        """mask is a list: which rows of the result are not zeros, and which values count."""
        _only_arguments(self, named, ("inputs", "mask", "training", "use_causal_mask"))
        masks = named.get("mask")
        if masks is not None and (not isinstance(masks, (list, tuple)) or not 2 <= len(masks) <= len(args[0])):
            raise ValueError(f"{self.name} layer mask must be a list of 2 or 3, of the query, the value and the key")
        rows, mask = (_boolean(one, graph) for one in (list(masks or ()) + [None, None])[:2])
        if named.get("use_causal_mask"):
            mask = _causal(args[0][0], args[0][1], mask)
        return super()._call_in(graph, args, {"mask": mask, "query_mask": rows}, training)


class Attention(_Attention):
    """The mean of values, weighted by the dot products of queries and keys."""

    _function = "est_layer_attention"


class AdditiveAttention(_Attention):
    """The mean of values, weighted by sums of tanh(query + key)."""

    _function = "est_layer_additive_attention"

    def __init__(self, use_scale: bool = True, dropout: float = 0.0, **named: _Any):
        if not use_scale:
            raise NotImplementedError("AdditiveAttention has a scale that is trained")
        super().__init__(use_scale, dropout, **named)


class MultiHeadAttention(_NativeLayer):
    """Attention of several heads; called with (query, value, key)."""

    _ignores_masks = False
    _parameters = None
    _object_names = {"query": "_query_dense", "key": "_key_dense", "value": "_value_dense",
                     "attention_output": "_output_dense"}

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0,
                 use_bias: bool = True, output_shape: _Any = None, **named: _Any):
        super().__init__(lambda keep: _lib.est_layer_multi_head_attention(int(num_heads), int(key_dim), keep.options(
            "est_multi_head_options", name=keep.string(self.name), value_dim=int(value_dim or 0), no_bias=not use_bias,
            units=int(output_shape or 0), dropout=dropout)), **named)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        _only_arguments(self, named, ("query", "value", "key", "attention_mask", "training", "use_causal_mask"))
        if len(args) > 3:
            raise TypeError(f"{self.name}: give all but query, value and key by name")
        inputs = list(args) + [named[key] for key in ("query", "value", "key")[len(args):] if named.get(key) is not None]
        mask = _boolean(named.get("attention_mask"), graph)
        if mask is not None and len(mask.shape) == 2:  # [m, n], of all examples
            mask = _ops.expand_dims(mask, 0)
        if named.get("use_causal_mask"):
            mask = _causal(inputs[0], inputs[1], mask)
        return super()._call_in(graph, (inputs,), {"mask": mask}, training)


# --- feature columns --------------------------------------------------------------------------------------------------


class _Columns(_NativeLayer):
    """A layer over feature columns. It is called with a dict of features by key."""

    _parameters = None
    _inner = ""  # the scope of the variables within that of the layer
    _sequences = False  # whether each feature is followed by its row splits

    def __init__(self, feature_columns: _Any, linear_units: int, combiner: str | None, trainable: bool, named: dict):
        columns = [feature_columns] if isinstance(feature_columns, _Column) else list(feature_columns)
        if not columns:
            raise ValueError("feature_columns must not be empty.")

        def make(keep: _Keep) -> _Any:
            own = keep.new("py_columns *")
            own.columns = _c_columns(keep, columns)
            own.keys = keep.strings(self._keys)
            own.linear_units, own.combiner, own.sequences = linear_units, _c_combiner(combiner), self._sequences
            return _lib.py_columns_layer(own, keep.string(self.name))

        super().__init__(make, trainable=trainable, **named)
        self.__dict__["_keys"] = _keys_of(columns)
        self.__dict__["feature_columns"] = columns

    def __call__(self, *args: _Any, **named: _Any) -> _Any:
        from ..._eager import Tensor
        if args and isinstance(args[0], dict):
            args = ({key: Tensor(_as_array(value)) if isinstance(value, (list, tuple)) else value
                     for key, value in args[0].items()},) + args[1:]
        return super().__call__(*args, **named)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        features = args[0]
        if not isinstance(features, dict):
            raise ValueError(f"We expected a dictionary here. Instead we got: {features!r}")
        missing = [key for key in self._keys if key not in features]
        if missing:
            raise ValueError(f"Feature {missing[0]} is not in features dictionary. There are: {', '.join(features)}")
        first = graph not in self._in_graphs
        result = super()._call_in(graph, ([features[key] for key in self._keys],), {}, training)
        for variable in self._in_graphs[graph] if first else ():
            variable._shown = variable._shown.replace(f"{self.name}/{self._inner}/", f"{self.name}/")
        return result

    def build(self, input_shape: _Any) -> None:
        """Its variables do not depend on the shapes of features, but are made by the first call."""


class DenseFeatures(_Columns):
    """Dense columns side by side, in the order of their names: [batch, sum of widths]."""

    _inner = "input_layer"

    def __init__(self, feature_columns: _Any, trainable: bool = True, name: str | None = None, **named: _Any):
        super().__init__(feature_columns, 0, None, trainable, {"name": name, **named})


# --- preprocessing ----------------------------------------------------------------------------------------------------


class _Adapting(_NativeLayer):
    """A layer that takes what it needs from data."""

    _takes_numbers = False
    _numbers = ("float32", "float64", "int32", "int64")  # that the library takes as they are

    def adapt(self, data: _Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Takes what the layer needs from all elements of a dataset or of an array."""
        from ....data import Dataset
        if not isinstance(data, Dataset):
            from ..._eager import unwrap
            data = Dataset.from_tensor_slices(unwrap(data), copy=True).batch(batch_size or 1024)
        if steps is not None:
            data = data.take(steps)
        if self._takes_numbers and data._components()[0][1].dtype not in self._numbers:
            data = data.map_graph(lambda rows: _ops.cast(rows, self.dtype))
        shape = tuple(data._components()[0][1].shape or ())
        self.__dict__["_seen"], self.__dict__["_rank"] = shape if len(shape) > 1 else (None, 1), len(shape)
        pointer, keep = data._finish()
        dataset = _ffi.gc(pointer, _lib.est_dataset_free)
        _check(_lib.est_layer_adapt(self._layer(), dataset, data._names[0].encode()))
        del keep


class StringLookup(_Adapting):
    """Words to ids, in the order of the vocabulary; unknown words first, and before them the mask token if there is
    one. Other outputs than ids have no place for the mask token: it counts for nothing."""

    def __init__(self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: str | None = None,
                 oov_token: str = "[UNK]", vocabulary: _Any = None, idf_weights: _Any = None, encoding: str = "utf-8",
                 invert: bool = False, output_mode: str = "int", sparse: bool = False, pad_to_max_tokens: bool = False,
                 **named: _Any):
        _refuse(sparse=sparse, encoding=None if encoding.lower() in ("utf-8", "utf8") else encoding)
        output_mode = {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(output_mode, output_mode)  # older names
        if output_mode not in ("int", "tf_idf", *CategoryEncoding._MODES):
            raise ValueError(f"output_mode is \"int\", \"one_hot\", \"multi_hot\", \"count\" or \"tf_idf\", not {output_mode!r}")
        if invert and output_mode != "int":
            raise ValueError("`output_mode` must be `\"int\"` when `invert` is true. You passed: " + output_mode)
        _more_than_one(max_tokens)
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError("max_tokens must be set if pad_to_max_tokens is True")
        if idf_weights is not None and (output_mode != "tf_idf" or vocabulary is None):
            raise ValueError("`idf_weights` should only be set if `output_mode` is `\"tf_idf\"`, with a vocabulary")
        if output_mode == "tf_idf" and vocabulary is not None and idf_weights is None:
            raise ValueError("`idf_weights` must be set if output_mode is \"tf_idf\" and a vocabulary is given")
        words = None if vocabulary is None or isinstance(vocabulary, str) else [
            word.decode() if isinstance(word, bytes) else str(word) for word in _list(vocabulary)]

        def make(keep: _Keep) -> _Any:
            out = keep.options("est_string_lookup_options", vocabulary=keep.strings(words or []),
                               file=keep.string(vocabulary if isinstance(vocabulary, str) else None),
                               mask_token=keep.string(mask_token), num_oov_indices=_off(num_oov_indices),
                               max_tokens=max_tokens + self._drops_mask if max_tokens else 0)
            return _lib.est_layer_string_lookup(out, keep.string(self.name))

        super().__init__(make, **named)
        self.__dict__.update(num_oov_indices=num_oov_indices, output_mode=output_mode, mask_token=mask_token,
                             oov_token=oov_token, invert=invert, max_tokens=max_tokens,
                             pad_to_max_tokens=pad_to_max_tokens, _idf=None)
        if idf_weights is not None:
            from ..._eager import unwrap
            self._set_idf(_np.asarray(unwrap(idf_weights), _np.float32))

    #: Whether the mask token is the first of the results, and whether it is the first of ids but not of results.
    _has_mask = property(lambda self: self.mask_token is not None and self.output_mode == "int")
    _drops_mask = property(lambda self: self.mask_token is not None and self.output_mode != "int")

    def _set_idf(self, weights: _Any) -> None:
        """Weights of words; unknown ones have their mean."""
        own = len(self.get_vocabulary(False))
        if len(weights) == own:
            unknown = self.num_oov_indices + self._has_mask
            weights = _np.concatenate([_np.full(unknown, weights.mean() if own else 0, _np.float32), weights])
        self.__dict__["_idf"] = weights

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        if self.invert:
            return self._words_of(args[0], graph)
        ids = super()._call_in(graph, args, named, training)
        if self.output_mode == "int":
            return ids
        if "_encoding" not in self.__dict__:  # its size is known after adapt
            mode = "count" if self.output_mode == "tf_idf" else self.output_mode
            self.__dict__["_encoding"] = CategoryEncoding(self.vocabulary_size() + self._drops_mask, mode,
                                                            name=f"{self.name}_encoding")
        found = self.__dict__["_encoding"]._call_in(graph, (ids,), {}, training)
        if self._drops_mask:
            found = _Node.__getitem__(found, (Ellipsis, slice(1, None)))
        if self.output_mode == "tf_idf":
            if self._idf is None:
                raise RuntimeError(f"{self.name} has no weights: call adapt, or give idf_weights")
            found = found * graph.constant(_np.pad(self._idf, (0, self.vocabulary_size() - len(self._idf))))
        return found

    def _words_of(self, ids: _Any, graph: _Graph) -> _Any:
        """The words of ids; those that are none are unknown."""
        words = _as_array(_np.array([*self.get_vocabulary(), self.oov_token], dtype=self._word_type))
        ids = _ops.cast(_as_node(ids, graph), _int64)
        known = _ops.logical_and(ids >= 0, ids < len(words) - 1)
        return _ops.gather(graph.constant(words), _ops.where(known, ids, _np.int64(len(words) - 1)))

    _word_type: _Any = object

    def adapt(self, data: _Any, batch_size: int | None = None, steps: int | None = None) -> None:
        self.__dict__.pop("_encoding", None)
        super().adapt(data, batch_size, steps)
        if self.output_mode == "tf_idf":
            self._adapt_idf(data, steps)

    def _adapt_idf(self, data: _Any, steps: int | None) -> None:
        """log(1 + rows / (1 + rows that have the word))."""
        from ....data import Dataset
        from ..._eager import unwrap
        rows, documents = 0, _np.zeros(len(self.get_vocabulary()), _np.float64)
        places = {word.encode(): i for i, word in enumerate(StringLookup.get_vocabulary(self))}
        for i, batch in enumerate(data if isinstance(data, Dataset) else [data]):
            if steps is not None and i >= steps:
                break
            texts = _as_array(unwrap(batch))
            for row in texts.reshape(len(texts), -1) if texts.ndim else texts.reshape(1, 1):
                rows += 1
                for word in set(row.tolist()):
                    if word in places:
                        documents[places[word]] += 1
        first = self.num_oov_indices + self._has_mask
        self._set_idf(_np.log(1 + rows / (1 + documents[first:])).astype(_np.float32))

    def _made_as(self) -> tuple:
        """The arguments that make this layer again, with the words that adapt has found."""
        args, named = self._made_with
        if not self.__dict__.get("_seen"):
            return args, named
        words = type(self).get_vocabulary(self)
        named = {**named, "vocabulary": words[self._has_mask + self.num_oov_indices:]}
        return args, named if self._idf is None else {**named, "idf_weights": self._idf}

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        lookup = _lib.est_layer_vocabulary(self._layer())
        found = []
        for i in range(_lib.est_string_lookup_size(lookup)):
            word = _lib.est_string_lookup_word(lookup, i)
            found.append(bytes(_ffi.buffer(word.data, word.size)).decode() if word.size else "")
        found, unknown = found[self._drops_mask:], self._has_mask
        found[unknown:unknown + self.num_oov_indices] = [self.oov_token] * self.num_oov_indices
        return found if include_special_tokens else found[self.num_oov_indices + unknown:]

    def vocabulary_size(self) -> int:
        padded = self.pad_to_max_tokens and self.output_mode != "int"
        return self.max_tokens if padded else len(self.get_vocabulary())

    vocab_size = vocabulary_size


class IntegerLookup(StringLookup):
    """Integers to ids: a StringLookup of their decimal digits."""

    def __init__(self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: int | None = None,
                 oov_token: int = -1, vocabulary: _Any = None, vocabulary_dtype: str = "int64", idf_weights: _Any = None,
                 invert: bool = False, output_mode: str = "int", sparse: bool = False, pad_to_max_tokens: bool = False,
                 **named: _Any):
        max_tokens = named.pop("max_values", max_tokens)  # older names
        mask_token, oov_token = named.pop("mask_value", mask_token), named.pop("oov_value", oov_token)
        if isinstance(vocabulary, str):
            raise NotImplementedError("IntegerLookup: the vocabulary is a list of integers")
        words = None if vocabulary is None else [str(int(number)) for number in _list(vocabulary)]
        super().__init__(max_tokens, num_oov_indices, None if mask_token is None else str(int(mask_token)), "[UNK]",
                         words, idf_weights, "utf-8", invert, output_mode, sparse, pad_to_max_tokens, **named)
        self.__dict__["oov_token"] = int(oov_token)

    _word_type = _np.int64

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        if self.invert:
            return self._words_of(args[0], graph)
        ids = _Node(graph, _lib.est_as_string(_Node(graph, _lib.est_cast(args[0]._c, _int64.number))._c))
        return super()._call_in(graph, (ids,) + args[1:], named, training)

    def adapt(self, data: _Any, batch_size: int | None = None, steps: int | None = None) -> None:
        from ....data import Dataset
        from ..._eager import eager, unwrap
        from .... import ops
        if isinstance(data, Dataset):
            super().adapt(data.map_graph(lambda row: ops.as_string(ops.cast(row, _int64))), batch_size, steps)
            return
        texts = eager(ops.as_string)(_as_array(unwrap(data)).astype("int64"))
        super().adapt(texts, batch_size, steps)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list:
        return [int(word) for word in super().get_vocabulary(include_special_tokens)]


def _list(values: _Any) -> list:
    from ..._eager import unwrap
    values = unwrap(values)
    return values.tolist() if hasattr(values, "tolist") else list(values)


class Normalization(_Adapting):
    """(x - mean) / sqrt(variance), by adapt or as given; 0 and 1 until then."""

    _takes_numbers = True

    def __init__(self, axis: _Any = -1, mean: _Any = None, variance: _Any = None, invert: bool = False, **named: _Any):
        if axis not in (-1, None):
            raise NotImplementedError("Normalization: axis is -1 or None")

        def numbers(value: _Any) -> list[float]:
            return [] if value is None else [float(v) for v in (_list(value) if hasattr(value, "__len__") else [value])]

        super().__init__(lambda keep: _lib.est_layer_normalization(keep.options(
            "est_normalization_options", name=keep.string(self.name), mean=keep.f32s(numbers(mean)),
            variance=keep.f32s(numbers(variance)), over_all=axis is None, invert=invert)), **named)
        self.__dict__.update(axis=axis, _given=None if mean is None else (numbers(mean), numbers(variance)))

    def adapt(self, data: _Any, batch_size: int | None = None, steps: int | None = None) -> None:
        super().adapt(data, batch_size, steps)
        self.__dict__["_given"] = None
        if self._batch_input_shape is None:
            self.__dict__["_batch_input_shape"] = (None, *self.__dict__["_seen"][1:])
        if self.built:
            for variable, value in zip(self._all_weights(), self._first_values()):
                variable.assign(value)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        if self._given is not None or "_seen" in self.__dict__ or self.built:
            return super()._call_in(graph, args, named, training)
        self._begin_with_0_and_1(_as_node(args[0], graph).shape)
        result, world = super()._call_in(graph, args, named, training), getattr(graph, "world", None)
        if world is not None:
            count = self._in_graphs[graph][2]
            world.write(count._name.encode(), 0, count.dtype)  # of nothing, and not of two rows
        return result

    def _begin_with_0_and_1(self, shape: _Any) -> None:
        """The library takes its first values from rows: these have mean 0 and variance 1."""
        width = 1 if self.axis is None else shape[-1] if shape is not None and len(shape) else None
        if width is None:
            raise ValueError(f"All `axis` values to be kept must have known shape. Got axis: ({self.axis},), input shape: "
                             f"{None if shape is None else list(shape)}, with unknown axis at index: {self.axis}")
        super().adapt(_np.stack([_np.ones(width, _np.float32), -_np.ones(width, _np.float32)]))
        del self.__dict__["_seen"]
        self.__dict__["_rank"] = len(shape) if shape is not None else 2

    def _first_values(self) -> list:
        """Mean, variance and count as the library has found them."""
        trial, keep = _Graph(), _Keep()
        node = trial.placeholder(None, _float32, [None, self._seen[-1]])
        _lib.est_layer_call_with(self._layer(), keep.span("est_nodes", "est_node", [node._c]),
                                 keep.options("est_call_options"))
        trial.check()
        with _Session(trial) as session:
            session.init()
            return [session.read(variable) for variable in trial.global_variables]

    def _adapted(self) -> _Any:
        """Rows that give a layer of these arguments the same variables; None: nothing was adapted."""
        if self._given is not None or "_seen" not in self.__dict__:
            return None
        mean = _np.ravel(self.mean.numpy())
        return _np.stack([mean, mean]).astype(_np.float32).reshape(2, *[1] * (len(self._seen) - 2), -1)

    @property
    def mean(self) -> _Any:
        """Of every feature, from adapt or as given; it has the rank of the input."""
        return self._number(0)

    @property
    def variance(self) -> _Any:
        """Of every feature."""
        return self._number(1)

    def _number(self, i: int) -> _Any:
        from ..._eager import Tensor
        shape = self._batch_input_shape
        if self._given is not None:
            values = _np.float32(self._given[i])
        elif shape is None and not self.built:
            return None
        else:
            self._ensure_built()
            values = self._all_weights()[i].numpy()
        rank = self.__dict__.get("_rank") or (len(shape) if shape is not None else 2)
        return Tensor(values.reshape((1,) * (rank - 1) + (-1,)))


class Discretization(_Adapting):
    """Numbers to the number of the bin between boundaries."""

    def __init__(self, bin_boundaries: _Any = None, num_bins: int | None = None, epsilon: float = 0.01,
                 output_mode: str = "int", sparse: bool = False, **named: _Any):
        _refuse(sparse=sparse)
        if epsilon == 0:
            raise ValueError("Discretization: epsilon is 0; the error of its quantiles is above 0")
        super().__init__(lambda keep: _lib.est_layer_discretization(keep.options(
            "est_discretization_options", name=keep.string(self.name), boundaries=keep.f32s(bin_boundaries or []),
            num_bins=num_bins or 0, epsilon=epsilon)), **named)
        self.__dict__["_encode"] = _Encoded(self, output_mode)

    @property
    def bin_boundaries(self) -> list[float]:
        """The boundaries, as given or from adapt."""
        span = _lib.est_layer_boundaries(self._layer())
        return [span.data[i] for i in range(span.n)]

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        return self._encode(super()._call_in(graph, args, named, training), graph, len(self.bin_boundaries) + 1)


class _Encoded:
    """What a layer makes of its bins: the numbers, or vectors of them."""

    def __init__(self, layer: Layer, mode: str):
        if mode != "int" and mode not in CategoryEncoding._MODES:
            raise ValueError(f"output_mode is \"int\", \"one_hot\", \"multi_hot\" or \"count\", not {mode!r}")
        self._name, self._mode, self._made = layer.name, mode, {}

    def __call__(self, bins: _Any, graph: _Graph, depth: int) -> _Any:
        if self._mode == "int":
            return bins
        if depth not in self._made:
            self._made[depth] = CategoryEncoding(depth, self._mode, name=f"{self._name}_encoding")
        return self._made[depth]._call_in(graph, (bins,), {}, False)


class Hashing(_NativeLayer):
    """Strings or integers to num_bins ids by their hash."""

    def __init__(self, num_bins: int, mask_value: _Any = None, salt: _Any = None, output_mode: str = "int",
                 sparse: bool = False, **named: _Any):
        _refuse(sparse=sparse)
        key = [] if salt is None else [int(salt)] if isinstance(salt, (int, _np.integer)) else [int(part) for part in salt]
        super().__init__(lambda keep: _lib.est_layer_hashing(int(num_bins), keep.options(
            "est_hashing_options", name=keep.string(self.name), salt=keep.i64s(key),
            mask_value=keep.string(None if mask_value is None else str(mask_value)))), **named)
        self.__dict__.update(num_bins=int(num_bins), _encode=_Encoded(self, output_mode))

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        return self._encode(super()._call_in(graph, args, named, training), graph, self.num_bins)


class HashedCrossing(Layer):
    """Combinations of the values of several features to num_bins ids by their hash."""

    _scoped = False

    def __init__(self, num_bins: int, output_mode: str = "int", sparse: bool = False, **named: _Any):
        _refuse(sparse=sparse)
        if output_mode not in ("int", "one_hot"):
            raise ValueError(f"output_mode is \"int\" or \"one_hot\", not {output_mode!r}")
        super().__init__(**named)
        self.__dict__.update(num_bins=int(num_bins), output_mode=output_mode, _encode=_Encoded(self, output_mode))

    def call(self, inputs: _Any) -> _Any:
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError("`HashedCrossing` should be called on a list or tuple of inputs. Received: "
                             f"inputs={inputs}")
        first = next(item for item in inputs if isinstance(item, _Node))
        graph, shape = first.graph, first.shape
        if len(shape) > 2 or len(shape) == 2 and shape[1] != 1:
            raise ValueError("All `HashedCrossing` inputs should have shape `[]`, `[batch_size]` or `[batch_size, 1]`. "
                             f"Received: {shape}")
        columns = [_ops.reshape(_as_node(item, graph), [-1]) for item in inputs]
        if any(not (item.dtype.is_integer or item.dtype.name == "string") for item in columns):
            raise ValueError("All inputs should have an integer or string dtype. Received: "
                             f"{[item.dtype.name for item in columns]}")
        columns = [item if item.dtype.name == "string" else _ops.cast(item, _int64) for item in columns]
        splits = _range(_ops.cast(_ops.size(columns[0]), _int64) + 1)
        keep = _Keep()
        rows = keep.span("est_ragged_nodes", "est_ragged_node", [(item._c, splits._c) for item in columns])
        crossed = graph.node(_lib.est_ragged_cross(rows, self.num_bins, 0).values)
        crossed = _ops.reshape(crossed, [-1 if size is None else size for size in shape])
        return self._encode(crossed, graph, self.num_bins)


class RepeatVector(Layer):
    """[batch, n] to [batch, times, n]."""

    _scoped = False

    def __init__(self, n: int, **named: _Any):
        if not isinstance(n, (int, _np.integer)):
            raise TypeError(f"Expected an integer value for `n`, got {type(n)}.")
        super().__init__(**named)
        self.__dict__["n"] = int(n)

    def call(self, inputs: _Any) -> _Any:
        return _ops.tile(_ops.expand_dims(inputs, 1), [1, self.n, 1])


class CategoryEncoding(_NativeLayer):
    """Ids to vectors of ones, or of counts."""

    _parameters = ("inputs", "count_weights")

    _MODES = {"multi_hot": 0, "one_hot": 1, "count": 2}

    def __init__(self, num_tokens: int, output_mode: str = "multi_hot", sparse: bool = False, **named: _Any):
        _refuse(sparse=sparse)
        if output_mode not in self._MODES:
            raise ValueError(f"Unknown argument for output_mode: {output_mode}")
        super().__init__(lambda keep: _lib.est_layer_category_encoding(int(num_tokens), keep.options(
            "est_category_encoding_options", name=keep.string(self.name), mode=self._MODES[output_mode])), **named)
        self.__dict__.update(num_tokens=int(num_tokens), output_mode=output_mode)

    def _call_in(self, graph: _Graph, args: tuple, named: dict, training: bool) -> _Any:
        weights = named.get("count_weights")
        if args and isinstance(args[0], _Node) and args[0].shape is not None and len(args[0].shape) == 0:  # of a row
            args = (_ops.reshape(args[0], [1]),) + args[1:]
            named = named if weights is None else {**named, "count_weights": _ops.reshape(weights, [1])}
            return _ops.reshape(self._call_in(graph, args, named, training), [self.num_tokens])
        if weights is None:
            return super()._call_in(graph, args, named, training)
        if self.output_mode != "count":
            raise ValueError("`count_weights` is not used when `output_mode` is not `'count'`. Received "
                             f"`count_weights={weights}`.")
        each = _ops.one_hot(_ops.cast(args[0], _int64), self.num_tokens)
        return _ops.reduce_sum(each * _ops.expand_dims(_ops.cast(weights, _float32), -1), -2)


def concatenate(inputs: _Sequence, axis: int = -1, **named: _Any) -> _Any:
    """Inputs one after the other."""
    return Concatenate(axis, **named)(inputs)


def add(inputs: _Sequence, **named: _Any) -> _Any:
    """The sum of inputs."""
    return Add(**named)(inputs)


def dot(inputs: _Sequence, axes: _Any, normalize: bool = False, **named: _Any) -> _Any:
    """Sums of products of two inputs along an axis of each."""
    return Dot(axes, normalize, **named)(inputs)


def multiply(inputs: _Sequence, **named: _Any) -> _Any:
    """The product of inputs."""
    return Multiply(**named)(inputs)


def average(inputs: _Sequence, **named: _Any) -> _Any:
    """The mean of inputs."""
    return Average(**named)(inputs)


def subtract(inputs: _Sequence, **named: _Any) -> _Any:
    """The first of two inputs without the second."""
    return Subtract(**named)(inputs)


def maximum(inputs: _Sequence, **named: _Any) -> _Any:
    """The largest of inputs, element by element."""
    return Maximum(**named)(inputs)


def minimum(inputs: _Sequence, **named: _Any) -> _Any:
    """The smallest of inputs, element by element."""
    return Minimum(**named)(inputs)


from . import experimental  # noqa: E402,F401
from ._images import (CenterCrop, RandomBrightness, RandomContrast, RandomCrop, RandomFlip, RandomHeight,  # noqa: E402,F401
                      RandomRotation, RandomTranslation, RandomWidth, RandomZoom, Resizing)
from ._shapes import (Cropping1D, Cropping2D, Cropping3D, Permute, UpSampling1D, UpSampling2D, UpSampling3D,  # noqa: E402,F401
                      ZeroPadding1D, ZeroPadding2D, ZeroPadding3D)
from ._simple import (ELU, ActivityRegularization, AlphaDropout, EinsumDense, GaussianDropout, GaussianNoise,  # noqa: E402,F401
                      GroupNormalization, Identity, InputSpec, PReLU, ReLU, SpatialDropout1D, SpatialDropout2D, SpatialDropout3D,
                      ThresholdedReLU, UnitNormalization, Wrapper)
from ._steps import Conv1DTranspose, DepthwiseConv1D, SeparableConv1D  # noqa: E402,F401
from ._text import TextVectorization  # noqa: E402,F401
from ._time import (GRU, LSTM, RNN, AbstractRNNCell, AveragePooling1D, AvgPool1D, Bidirectional, Conv1D,  # noqa: E402,F401
                    Convolution1D, GRUCell, LSTMCell, Masking, MaxPool1D, MaxPooling1D, SimpleRNN, SimpleRNNCell, StackedRNNCells,
                    TimeDistributed)

Convolution1DTranspose, SeparableConvolution1D = Conv1DTranspose, SeparableConv1D
serialize, deserialize = _by_module("layers")
__getattr__ = _module_getattr(__name__)
