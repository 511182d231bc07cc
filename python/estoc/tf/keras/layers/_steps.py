# SPDX-License-Identifier: Apache-2.0
"""Convolutions of sequences [batch, steps, channels] as those of images with one row."""
from __future__ import annotations

from typing import Any

from .... import ops
from ...._lib import lib
from ....graph import Node
from ....layers import _padding
from ... import nn
from .. import activations
from .._layer import Layer, channels_last, refuse


def _one(value: Any) -> int:
    return int(value[0]) if isinstance(value, (list, tuple)) else int(value)


class _OfSteps(Layer):
    def __init__(self, kernel_size: Any, strides: Any, padding: str, data_format: Any, dilation_rate: Any, activation: Any,
                 use_bias: bool, of: dict, named: dict):
        channels_last(data_format)
        refuse(dilation_rate=_one(dilation_rate))
        super().__init__(**named)
        self.kernel_size, self.strides, self.padding = (_one(kernel_size),), (_one(strides),), padding.lower()
        self.use_bias, self.activation = use_bias, activations.get(activation)
        self.__dict__["_of"] = of

    def _weight(self, name: str, shape: tuple) -> Any:
        kind = name.split("_")[0]
        initializer, regularizer, constraint = self._of[kind]
        return self.add_weight(name, shape, initializer=initializer, regularizer=regularizer, constraint=constraint)

    def _row(self, kernel: Any, graph: Any) -> Any:
        return ops.expand_dims(kernel._as_node(graph), 0)

    def _end(self, image: Node) -> Node:
        found = ops.squeeze(image, 1)
        if self.use_bias:
            found = found.graph.node(lib.est_bias_add(found._c, self.bias._as_node(found.graph)._c))
        return self.activation(found)

    def _depthwise(self, inputs: Node, kernel: Any) -> Node:
        """Each channel with filters of its own, as an image with one row."""
        if self.padding == "causal":
            inputs = ops.pad(inputs, [[0, 0], [self.kernel_size[0] - 1, 0], [0, 0]])
        image, stride = ops.expand_dims(inputs, 1), self.strides[0]
        return inputs.graph.node(lib.est_depthwise_conv2d(
            image._c, self._row(kernel, inputs.graph)._c, stride, stride, _padding(
                "same" if self.padding == "same" else "valid")))


class DepthwiseConv1D(_OfSteps):
    """Each channel of sequences with filters of its own."""

    def __init__(self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
                 data_format: Any = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, bias_regularizer: Any = None, depthwise_constraint: Any = None,
                 bias_constraint: Any = None, **named: Any):
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, {
            "depthwise": (depthwise_initializer, depthwise_regularizer, depthwise_constraint),
            "bias": (bias_initializer, bias_regularizer, bias_constraint)}, named)
        self.depth_multiplier = int(depth_multiplier)

    def build(self, input_shape: Any) -> None:
        channels = int(input_shape[-1])
        self.depthwise_kernel = self._weight("depthwise_kernel", (*self.kernel_size, channels, self.depth_multiplier))
        self.bias = self._weight("bias", (channels * self.depth_multiplier,)) if self.use_bias else None

    def call(self, inputs: Any) -> Any:
        return self._end(self._depthwise(inputs, self.depthwise_kernel))


class SeparableConv1D(_OfSteps):
    """Each channel of sequences with filters of its own, then sums over all of them at each step."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", data_format: Any = None,
                 dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", pointwise_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
                 bias_regularizer: Any = None, depthwise_constraint: Any = None, pointwise_constraint: Any = None,
                 bias_constraint: Any = None, **named: Any):
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, {
            "depthwise": (depthwise_initializer, depthwise_regularizer, depthwise_constraint),
            "pointwise": (pointwise_initializer, pointwise_regularizer, pointwise_constraint),
            "bias": (bias_initializer, bias_regularizer, bias_constraint)}, named)
        self.filters, self.depth_multiplier = int(filters), int(depth_multiplier)

    def build(self, input_shape: Any) -> None:
        channels = int(input_shape[-1])
        self.depthwise_kernel = self._weight("depthwise_kernel", (*self.kernel_size, channels, self.depth_multiplier))
        self.pointwise_kernel = self._weight("pointwise_kernel", (1, channels * self.depth_multiplier, self.filters))
        self.bias = self._weight("bias", (self.filters,)) if self.use_bias else None

    def call(self, inputs: Any) -> Any:
        apart = self._depthwise(inputs, self.depthwise_kernel)
        return self._end(inputs.graph.node(lib.est_conv2d(
            apart._c, self._row(self.pointwise_kernel, inputs.graph)._c, 1, 1, _padding("valid"))))


class Conv1DTranspose(_OfSteps):
    """The transpose of a convolution: sequences that grow by the strides."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
                 data_format: Any = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **named: Any):
        refuse(output_padding=output_padding)
        super().__init__(kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, {
            "kernel": (kernel_initializer, kernel_regularizer, kernel_constraint),
            "bias": (bias_initializer, bias_regularizer, bias_constraint)}, named)
        self.filters = int(filters)

    def build(self, input_shape: Any) -> None:
        self.kernel = self._weight("kernel", (*self.kernel_size, self.filters, int(input_shape[-1])))
        self.bias = self._weight("bias", (self.filters,)) if self.use_bias else None

    def call(self, inputs: Any) -> Any:
        (size,), (stride,), sizes = self.kernel_size, self.strides, ops.shape(inputs)
        steps, edge = inputs.shape[1], max(size - stride, 0) if self.padding == "valid" else 0
        grown = (sizes[1] if steps is None else int(steps)) * stride + edge
        image = nn.conv2d_transpose.over_nodes(ops.expand_dims(inputs, 1), self._row(self.kernel, inputs.graph), [
            sizes[0], 1, grown, self.filters], (1, stride), self.padding.upper())
        return self._end(image if steps is None else ops.reshape(image, [-1, 1, grown, self.filters]))
