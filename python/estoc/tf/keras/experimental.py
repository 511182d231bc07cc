# SPDX-License-Identifier: Apache-2.0
"""tf.keras.experimental: linear models, wide and deep ones, and layers over sequence columns."""
from __future__ import annotations

from typing import Any as _Any

from .._absent import module_getattr as _module_getattr
from .._tape import GradientTape as _GradientTape
from . import optimizers as _optimizers
from ._batches import unpack as _unpack
from .layers import Activation as _Activation
from .layers import Dense as _Dense
from .layers._sequences import SequenceFeatures  # noqa: F401
from .models import Model as _Model


class LinearModel(_Model):
    """activation(x kernel + bias); of several inputs, by name or in a list, the sum of their products."""

    def __init__(self, units: int = 1, activation: _Any = None, use_bias: bool = True,
                 kernel_initializer: _Any = "zeros", bias_initializer: _Any = "zeros", kernel_regularizer: _Any = None,
                 bias_regularizer: _Any = None, **named: _Any):
        super().__init__(**named)
        self.units, self.use_bias = int(units), use_bias
        d = self.__dict__
        d["_of"] = {"kernel_initializer": kernel_initializer, "kernel_regularizer": kernel_regularizer}
        d["_bias_of"] = {"initializer": bias_initializer, "regularizer": bias_regularizer}
        self.activation = _Activation(activation, name=f"{self.name}_activation") if activation is not None else None
        self.dense_layers: _Any = None
        self.bias: _Any = None

    def call(self, inputs: _Any, training: _Any = None) -> _Any:
        keys = sorted(inputs) if isinstance(inputs, dict) else None
        parts = [inputs[key] for key in keys] if keys else list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if self.dense_layers is None:
            names = keys or [f"{self.name}_dense" if len(parts) == 1 else f"{self.name}_dense_{i}"
                             for i in range(len(parts))]
            self.dense_layers = [_Dense(self.units, use_bias=False, name=str(name), **self._of) for name in names]
            if self.use_bias:
                self.bias = self.add_weight("bias", (self.units,), **self._bias_of)
        total = None
        for layer, part in zip(self.dense_layers, parts):
            total = layer(part) if total is None else total + layer(part)
        if self.use_bias:
            total = total + self.bias
        return total if self.activation is None else self.activation(total)


class WideDeepModel(_Model):
    """The sum of a linear and a deep model, each with an optimizer of its own: compile(optimizer=[linear, deep])."""

    def __init__(self, linear_model: _Any, dnn_model: _Any, activation: _Any = None, **named: _Any):
        super().__init__(**named)
        self.linear_model, self.dnn_model = linear_model, dnn_model
        self.activation = _Activation(activation, name=f"{self.name}_activation") if activation is not None else None

    def compile(self, optimizer: _Any = "rmsprop", *arguments: _Any, **named: _Any) -> None:
        pair = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer, optimizer]
        if len(pair) != 2:
            raise ValueError(f"optimizer is one, or a pair for the linear and the deep model; got {len(pair)}")
        made = [_optimizers.get(item) for item in pair]
        super().compile(made[1], *arguments, **named)
        self.__dict__["_pair"] = made

    def call(self, inputs: _Any, training: _Any = None) -> _Any:
        linear, deep = inputs if isinstance(inputs, (list, tuple)) and len(inputs) == 2 else (inputs, inputs)
        total = self.linear_model(linear) + self.dnn_model(deep, training=training)
        return total if self.activation is None else self.activation(total)

    def train_step(self, data: _Any) -> dict:
        x, y, sample_weight = _unpack(data)
        with _GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight)
        parts = self.linear_model.trainable_variables, self.dnn_model.trainable_variables
        gradients = tape.gradient(loss, parts)
        for optimizer, found, variables in zip(self._pair, gradients, parts):
            optimizer.apply_gradients(zip(found, variables))
        self._compiled.mean.update_state(loss)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def test_step(self, data: _Any) -> dict:
        return super().test_step(data)


__getattr__ = _module_getattr(__name__)
