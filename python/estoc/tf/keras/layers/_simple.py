# SPDX-License-Identifier: Apache-2.0
"""Layers of one formula: activations with parameters, noise, norms, and products by Einstein's convention."""
from __future__ import annotations

import re
from typing import Any, Sequence

import numpy as np

from .... import ops
from ...._lib import c_seed, lib
from ...._tensor import as_dtype, float32, int32
from ....graph import Node
from ... import _structure
from ..._algebra import einsum
from .. import activations, constraints, initializers, regularizers
from .._layer import Layer


class Identity(Layer):
    """The input itself, without its mask."""

    _scoped = False

    def call(self, inputs: Any) -> Any:
        return _structure.map_structure(ops.identity, inputs)


class ActivityRegularization(Layer):
    """Adds l1 times the sum of absolute values and l2 times that of squares to the loss, for each example."""

    _supports_masking = True
    _scoped = False

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **named: Any):
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **named)
        self.__dict__.update(l1=l1, l2=l2)


# --- activations ------------------------------------------------------------------------------------------------------


class ReLU(Layer):
    """x from the threshold on, up to max_value, and negative_slope (x - threshold) below."""

    _supports_masking = True
    _scoped = False

    def __init__(self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0, **named: Any):
        super().__init__(**named)
        for name, value in (("max_value", max_value), ("negative_slope", negative_slope), ("threshold", threshold)):
            if (value is None and name != "max_value") or (value is not None and value < 0.0):
                raise ValueError(f"{name} of a ReLU layer cannot be a negative value or None. Received: {value}")
        self.__dict__.update(max_value=max_value, negative_slope=negative_slope, threshold=threshold)

    def call(self, inputs: Any) -> Any:
        kept = ops.relu(inputs) if not self.threshold else inputs * ops.cast(inputs > self.threshold, inputs.dtype)
        if self.max_value is not None:
            kept = ops.clip_by_value(kept, 0.0, float(self.max_value))
        if not self.negative_slope:
            return kept
        return kept - ops.relu(self.threshold - inputs) * float(self.negative_slope)


class ELU(Layer):
    """x, or alpha (e^x - 1) below 0."""

    _supports_masking = True
    _scoped = False

    def __init__(self, alpha: float = 1.0, **named: Any):
        super().__init__(**named)
        if alpha is None:
            raise ValueError("Alpha of an ELU layer cannot be None, expecting a float. Got alpha: None")
        self.__dict__["alpha"] = float(alpha)

    def call(self, inputs: Any) -> Any:
        return ops.relu(inputs) + ops.expm1(ops.minimum(inputs, 0.0)) * self.alpha


class ThresholdedReLU(Layer):
    """x above theta, else 0."""

    _supports_masking = True
    _scoped = False

    def __init__(self, theta: float = 1.0, **named: Any):
        super().__init__(**named)
        if theta is None or theta < 0:
            raise ValueError(f"Theta of a Thresholded ReLU layer cannot be None, expecting a float. Got theta: {theta}")
        self.__dict__["theta"] = float(theta)

    def call(self, inputs: Any) -> Any:
        return inputs * ops.cast(inputs > self.theta, inputs.dtype)


class PReLU(Layer):
    """x, or alpha x below 0, with an alpha for each place that is trained."""

    _supports_masking = True

    def __init__(self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
                 shared_axes: Any = None, **named: Any):
        super().__init__(**named)
        axes = [] if shared_axes is None else [shared_axes] if isinstance(shared_axes, int) else list(shared_axes)
        self.shared_axes = axes or None
        self.__dict__["_of_alpha"] = {"initializer": initializers.get(alpha_initializer),
                                      "regularizer": regularizers.get(alpha_regularizer),
                                      "constraint": constraints.get(alpha_constraint)}

    def build(self, input_shape: Any) -> None:
        shape = [1 if i in (self.shared_axes or ()) else size for i, size in enumerate(input_shape)][1:]
        self.alpha = self.add_weight("alpha", shape, **self._of_alpha)

    def call(self, inputs: Any) -> Any:
        return ops.relu(inputs) - ops.relu(-inputs) * self.alpha._as_node(inputs.graph)


# --- noise ------------------------------------------------------------------------------------------------------------


class _Noise(Layer):
    """Changes its input while training."""

    _supports_masking = True
    _scoped = False

    def __init__(self, seed: int | None, named: dict):
        super().__init__(**named)
        self.__dict__["seed"] = seed

    def call(self, inputs: Any, training: Any = None) -> Any:
        return self._noisy(inputs) if training else inputs

    def _noisy(self, inputs: Node) -> Node:
        raise NotImplementedError

    def _drawn(self, function: Any, shape: Node) -> Node:
        return shape.graph.node(function(ops.cast(shape, int32)._c, float32.number, c_seed(self.seed)))

    def _kept(self, inputs: Node, rate: float, noise_shape: Sequence | None = None) -> Node:
        """1 with the probability 1 - rate, else 0; the same along axes whose size in noise_shape is 1."""
        shape = ops.shape(inputs)
        if noise_shape is not None:
            shape = ops.stack([shape[i] if size is None else shape.graph.constant(np.int32(size))
                               for i, size in enumerate(noise_shape)])
        return ops.cast(self._drawn(lib.est_random_uniform, shape) >= rate, inputs.dtype)


def _rate(rate: Any) -> float:
    if not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
        raise ValueError(f"Invalid value received for argument `rate`. Expected a float value between 0 and 1. Received: "
                         f"rate={rate}")
    return float(rate)


class GaussianNoise(_Noise):
    """x plus normal numbers."""

    def __init__(self, stddev: float, seed: int | None = None, **named: Any):
        super().__init__(seed, named)
        self.__dict__["stddev"] = float(stddev)

    def _noisy(self, inputs: Node) -> Node:
        return inputs + self._drawn(lib.est_random_normal, ops.shape(inputs)) * self.stddev


class GaussianDropout(_Noise):
    """x times normal numbers around 1."""

    def __init__(self, rate: float, seed: int | None = None, **named: Any):
        super().__init__(seed, named)
        self.__dict__["rate"] = _rate(rate)

    def _noisy(self, inputs: Node) -> Node:
        if not 0 < self.rate < 1:
            return inputs
        deviation = float(np.sqrt(self.rate / (1.0 - self.rate)))
        return inputs * (self._drawn(lib.est_random_normal, ops.shape(inputs)) * deviation + 1.0)


class AlphaDropout(_Noise):
    """Dropout that keeps the mean and the variance of what SELU gives."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **named: Any):
        super().__init__(seed, named)
        self.__dict__.update(rate=_rate(rate), noise_shape=noise_shape)

    def _noisy(self, inputs: Node) -> Node:
        if not 0 < self.rate < 1:
            return inputs
        low = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946
        scale = ((1 - self.rate) * (1 + self.rate * low**2)) ** -0.5
        kept = self._kept(inputs, self.rate, self.noise_shape)
        return (inputs * kept + (1.0 - kept) * low) * float(scale) - float(scale * low * self.rate)


class _SpatialDropout(_Noise):
    """Zeroes whole features while training, and scales the others up."""

    _axes = 1

    def __init__(self, rate: float, data_format: Any = None, **named: Any):
        from .._layer import channels_last
        channels_last(data_format)
        super().__init__(named.pop("seed", None), named)
        self.__dict__["rate"] = _rate(rate)

    def _noisy(self, inputs: Node) -> Node:
        if not self.rate:
            return inputs
        return inputs * self._kept(inputs, self.rate, [None, *[1] * self._axes, None]) * (1.0 / (1.0 - self.rate))


class SpatialDropout1D(_SpatialDropout):
    """Zeroes features of sequences, in all steps, while training, and scales the others up."""

    def __init__(self, rate: float, **named: Any):
        super().__init__(rate, **named)


class SpatialDropout2D(_SpatialDropout):
    """Zeroes channels of images while training, and scales the others up."""

    _axes = 2


class SpatialDropout3D(_SpatialDropout):
    """Zeroes channels of volumes while training, and scales the others up."""

    _axes = 3


# --- norms ------------------------------------------------------------------------------------------------------------


class UnitNormalization(Layer):
    """x over its Euclidean norm along axes."""

    _supports_masking = True
    _scoped = False

    def __init__(self, axis: Any = -1, **named: Any):
        super().__init__(**named)
        self.__dict__["axis"] = list(axis) if isinstance(axis, (list, tuple)) else int(axis)

    def call(self, inputs: Any) -> Any:
        from ... import nn
        return nn.l2_normalize(inputs, self.axis)


class GroupNormalization(Layer):
    """Normalizes groups of channels of each example."""

    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
                 gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None, **named: Any):
        super().__init__(**named)
        if axis != -1:
            raise NotImplementedError("GroupNormalization: axis is the last one")
        self.groups, self.axis, self.epsilon, self.center, self.scale = int(groups), axis, epsilon, center, scale
        self.__dict__["_of_beta"] = {"initializer": beta_initializer, "regularizer": beta_regularizer,
                                     "constraint": beta_constraint}
        self.__dict__["_of_gamma"] = {"initializer": gamma_initializer, "regularizer": gamma_regularizer,
                                      "constraint": gamma_constraint}

    def build(self, input_shape: Any) -> None:
        channels = int(input_shape[-1])
        groups = channels if self.groups == -1 else self.groups
        if channels < groups or channels % groups:
            raise ValueError(f"Number of groups ({groups}) must be a divisor of the number of channels ({channels}).")
        self.groups = groups
        self.gamma = self.add_weight("gamma", (channels,), **self._of_gamma) if self.scale else None
        self.beta = self.add_weight("beta", (channels,), **self._of_beta) if self.center else None

    def call(self, inputs: Any) -> Any:
        shape, sizes = tuple(inputs.shape), ops.shape(inputs)
        outer = [sizes[i] if size is None else int(size) for i, size in enumerate(shape[:-1])]
        parted = ops.reshape(inputs, [*outer, self.groups, int(shape[-1]) // self.groups])
        axes = [*range(1, len(shape) - 1), len(shape)]
        mean = ops.reduce_mean(parted, axes, True)
        apart = parted - mean
        variance = ops.reduce_mean(ops.square(apart), axes, True)
        found = ops.reshape(apart * ops.rsqrt(variance + self.epsilon), [*outer, int(shape[-1])])
        if self.scale:
            found = found * self.gamma._as_node(inputs.graph)
        return found + self.beta._as_node(inputs.graph) if self.center else found


# --- products ---------------------------------------------------------------------------------------------------------


class EinsumDense(Layer):
    """activation(einsum(equation, x, kernel) + bias)."""

    def __init__(self, equation: str, output_shape: Any, activation: Any = None, bias_axes: str | None = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, **named: Any):
        super().__init__(activity_regularizer=activity_regularizer, **named)
        self.equation, self.bias_axes = re.sub(r"\s", "", equation), bias_axes
        self.partial_output_shape = [output_shape] if isinstance(output_shape, int) else list(output_shape)
        self.activation = activations.get(activation)
        self.__dict__["_of_kernel"] = {"initializer": kernel_initializer, "regularizer": kernel_regularizer,
                                       "constraint": kernel_constraint}
        self.__dict__["_of_bias"] = {"initializer": bias_initializer, "regularizer": bias_regularizer,
                                     "constraint": bias_constraint}

    def build(self, input_shape: Any) -> None:
        match = re.fullmatch(r"(\.\.\.)?([a-zA-Z]+)(\.\.\.)?,([a-zA-Z]+)->(\.\.\.)?([a-zA-Z]+)(\.\.\.)?", self.equation)
        if match is None:
            raise ValueError(f"Invalid einsum equation '{self.equation}'. Equations must be in the form [X],[Y]->[Z], "
                             "...[X],[Y]->...[Z], or [X]...,[Y]->[Z]....")
        before, left, after, kernel, _, result, _ = match.groups()
        given = tuple(input_shape)[len(input_shape) - len(left):] if before else tuple(input_shape)[:len(left)]
        if not before and not after and len(input_shape) != len(left):
            raise ValueError(f"the input of '{self.equation}' has {len(left)} axes, got the shape {tuple(input_shape)}")
        sizes = dict(zip(left, given))
        asked = ([None] if not before and len(self.partial_output_shape) < len(result) else []) + self.partial_output_shape
        for name, size in zip(result[len(result) - len(asked):], asked):
            if size is not None and sizes.get(name) not in (None, size):
                raise ValueError(f"Input shape and output shape do not match at shared dimension '{name}'. Input shape is "
                                 f"{sizes[name]}, and output shape is {size}.")
            sizes[name] = size if size is not None else sizes.get(name)
        if any(sizes.get(name) is None for name in kernel):
            raise ValueError(f"Weight dimension of '{self.equation}' must be specified by the input or the output shape")
        self.kernel = self.add_weight("kernel", [int(sizes[name]) for name in kernel], **self._of_kernel)
        self.bias = None
        if self.bias_axes is not None:
            first = min(result.index(name) for name in self.bias_axes)
            shape = [int(sizes[name]) if name in self.bias_axes else 1 for name in result[first:]]
            self.bias = self.add_weight("bias", shape + [1] * (len(input_shape) - len(left) if after else 0),
                                        **self._of_bias)

    def call(self, inputs: Any) -> Any:
        found = einsum(self.equation, inputs, self.kernel._as_node(inputs.graph))
        if self.bias is not None:
            found = found + self.bias._as_node(inputs.graph)
        return self.activation(found)


# --- what layers are made with ----------------------------------------------------------------------------------------


class Wrapper(Layer):
    """A layer around another one."""

    def __init__(self, layer: Layer, **named: Any):
        if not isinstance(layer, Layer):
            raise AssertionError(f"{type(self).__name__}: the layer is a tf.keras.layers.Layer, not {layer!r}")
        super().__init__(**named)
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
        super().build(input_shape)


class InputSpec:
    """What a layer expects of an input: a dtype, a rank, a shape, or sizes of some axes."""

    def __init__(self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
                 min_ndim: int | None = None, axes: dict | None = None, allow_last_axis_squeeze: bool = False,
                 name: str | None = None):
        self.dtype = None if dtype is None else as_dtype(dtype).name
        self.shape = None if shape is None else tuple(shape)
        self.ndim = ndim if shape is None else len(self.shape)
        self.max_ndim, self.min_ndim, self.name = max_ndim, min_ndim, name
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        rank = self.ndim if self.ndim is not None else max_ndim
        if rank is not None and any(axis >= rank for axis in self.axes):
            raise ValueError(f"Axis {max(self.axes)} is greater than the maximum allowed value: {rank - 1}")

    def __repr__(self) -> str:
        given = [("dtype", self.dtype), ("shape", self.shape), ("ndim", self.ndim), ("max_ndim", self.max_ndim),
                 ("min_ndim", self.min_ndim), ("axes", self.axes or None)]
        return f"InputSpec({', '.join(f'{key}={value}' for key, value in given if value is not None)})"

    def check(self, node: Any, layer: str) -> None:
        """Raises unless a tensor is what is expected."""
        shape = node.shape
        if shape is None:
            return
        sizes = list(shape)
        text = f"of layer \"{layer}\" is incompatible with the layer: expected"
        found = f"found shape={tuple(shape)}"
        if self.shape is not None and self.allow_last_axis_squeeze and sizes and sizes[-1] == 1 and self.shape[-1:] != (1,):
            sizes = sizes[:-1]
        if self.ndim is not None and len(sizes) != self.ndim and not self.allow_last_axis_squeeze:
            raise ValueError(f"Input 0 {text} ndim={self.ndim}, found ndim={len(sizes)}. Full shape received: {tuple(shape)}")
        if self.max_ndim is not None and len(sizes) > self.max_ndim:
            raise ValueError(f"Input 0 {text} max_ndim={self.max_ndim}, found ndim={len(sizes)}")
        if self.min_ndim is not None and len(sizes) < self.min_ndim:
            raise ValueError(f"Input 0 {text} min_ndim={self.min_ndim}, found ndim={len(sizes)}. Full shape received: "
                             f"{tuple(shape)}")
        if self.dtype is not None and node.dtype.name != self.dtype:
            raise ValueError(f"Input 0 {text} dtype={self.dtype}, found dtype={node.dtype.name}")
        for axis, size in self.axes.items():
            if size is not None and sizes[axis] not in (size, None):
                raise ValueError(f"Input 0 {text} axis {axis} of input shape to have value {size}, but received input with "
                                 f"shape {tuple(shape)}")
        if self.shape is not None and any(want is not None and have is not None and want != have
                                          for want, have in zip(self.shape, sizes)):
            raise ValueError(f"Input 0 {text} shape={self.shape}, {found}")
