# SPDX-License-Identifier: Apache-2.0
"""Layers over time: convolutions and pools of [batch, steps, features], and recurrent layers, whose loop over the steps
is unrolled, so that their number must be known."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from .... import ops
from ...._lib import lib
from ....graph import NeedsSteps, Node, Shape, default_graph
from ....layers import _padding
from ... import _structure
from ..._array import reverse, zeros
from ..._variable import Variable
from .. import activations, initializers, regularizers
from .._layer import Layer, activation, channels_last, refuse


def _one(value: Any) -> int:
    return int(value[0]) if isinstance(value, (list, tuple)) else int(value)


def _function(given: Any) -> Any:
    """An activation over nodes, or None."""
    if given is None or given == "linear":
        return None
    activation(given)  # an unknown name is an error here
    return activations.get(given)


def _applied(function: Any, x: Node) -> Node:
    return x if function is None else function(x)


def _spread(kernel: Node, rate: int) -> Node:
    """A kernel [size, ...] with rate - 1 zeros between its places."""
    size, *rest = (int(part) for part in kernel.shape)
    if rate == 1 or size == 1:
        return kernel
    wide = ops.pad(ops.expand_dims(kernel, 1), [[0, 0], [0, rate - 1], *[[0, 0]] * len(rest)])
    return ops.reshape(wide, [size * rate, *rest])[:(size - 1) * rate + 1]


class Conv1D(Layer):
    """Convolution of sequences [batch, steps, channels]."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: Any = None, dilation_rate: Any = 1, groups: int = 1, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, **named: Any):
        channels_last(data_format)
        refuse(groups=groups)
        if padding not in ("valid", "same", "causal"):
            raise ValueError(f"padding is \"valid\", \"same\" or \"causal\", not {padding!r}")
        super().__init__(activity_regularizer=activity_regularizer, **named)
        self.filters, self.kernel_size, self.strides = int(filters), (_one(kernel_size),), (_one(strides),)
        self.dilation_rate = (_one(dilation_rate),)
        if self.dilation_rate != (1,) and self.strides != (1,):
            raise ValueError("`strides > 1` not supported in conjunction with `dilation_rate > 1`")
        self.padding, self.use_bias, self.activation = padding, use_bias, _function(activation)
        self.__dict__["_of_kernel"] = {"initializer": kernel_initializer,
                                       "regularizer": regularizers.get(kernel_regularizer), "constraint": kernel_constraint}
        self.__dict__["_of_bias"] = {"initializer": bias_initializer, "regularizer": regularizers.get(bias_regularizer),
                                     "constraint": bias_constraint}

    def build(self, input_shape: Any) -> None:
        size = self.kernel_size[0]
        self.kernel = self.add_weight("kernel", (size, int(input_shape[-1]), self.filters), **self._of_kernel)
        self.bias = self.add_weight("bias", (self.filters,), **self._of_bias) if self.use_bias else None

    def call(self, inputs: Any) -> Any:
        graph, (size,), (stride,), (rate,) = inputs.graph, self.kernel_size, self.strides, self.dilation_rate
        if self.padding == "causal":
            inputs = ops.pad(inputs, [[0, 0], [(size - 1) * rate, 0], [0, 0]])
        image = ops.expand_dims(inputs, 1)
        kernel = ops.expand_dims(_spread(self.kernel._as_node(graph), rate), 0)
        padding = _padding("same" if self.padding == "same" else "valid")
        result = ops.squeeze(graph.node(lib.est_conv2d(image._c, kernel._c, 1, stride, padding)), 1)
        if self.bias is not None:
            result = graph.node(lib.est_bias_add(result._c, self.bias._as_node(graph)._c))
        return _applied(self.activation, result)


class _Pool1D(Layer):
    _scoped = False
    _function = ""

    def __init__(self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: Any = None,
                 **named: Any):
        channels_last(data_format)
        super().__init__(**named)
        size = _one(pool_size)
        self.pool_size, self.strides, self.padding = size, size if strides is None else _one(strides), padding

    def call(self, inputs: Any) -> Any:
        image = ops.expand_dims(inputs, 1)
        pooled = getattr(lib, self._function)(image._c, 1, self.pool_size, 1, self.strides, _padding(self.padding))
        return ops.squeeze(inputs.graph.node(pooled), 1)


class MaxPooling1D(_Pool1D):
    """The largest of every window of steps."""

    _function = "est_max_pool"


class AveragePooling1D(_Pool1D):
    """The mean of every window of steps."""

    _function = "est_avg_pool"


Convolution1D, MaxPool1D, AvgPool1D = Conv1D, MaxPooling1D, AveragePooling1D


# --- cells ------------------------------------------------------------------------------------------------------------


class _Cell(Layer):
    """One step: `units` outputs of an input and of the states after the step before."""

    _gates = 1

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
                 bias_constraint: Any = None, dropout: float = 0.0, recurrent_dropout: float = 0.0, **named: Any):
        super().__init__(**named)
        if int(units) <= 0:
            raise ValueError(f"Received an invalid value for argument `units`, expected a positive integer, got "
                             f"{units}.")
        self.units, self.use_bias = int(units), use_bias
        self.activation, self.recurrent_activation = _function(activation), _function(recurrent_activation)
        self.dropout, self.recurrent_dropout = float(dropout), float(recurrent_dropout)
        self.__dict__["_of"] = {
            "kernel": (kernel_initializer, kernel_regularizer, kernel_constraint),
            "recurrent_kernel": (recurrent_initializer, recurrent_regularizer, recurrent_constraint),
            "bias": (bias_initializer, bias_regularizer, bias_constraint)}

    state_size: Any = property(lambda self: self.units)
    output_size = property(lambda self: self.units)

    def _weight(self, name: str, shape: tuple, **more: Any) -> Any:
        initializer, regularizer, constraint = self._of[name]
        return self.add_weight(name, shape, **{"initializer": initializer, "regularizer": regularizers.get(regularizer),
                                               "constraint": constraint, **more})

    def _bias_shape(self) -> tuple:
        return (self._gates * self.units,)

    def build(self, input_shape: Any) -> None:
        width = self._gates * self.units
        self.kernel = self._weight("kernel", (int(input_shape[-1]), width))
        self.recurrent_kernel = self._weight("recurrent_kernel", (self.units, width))
        self.bias = self._weight("bias", self._bias_shape()) if self.use_bias else None

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        return _zeros_for(inputs, self.state_size, batch_size, dtype)

    def project(self, inputs: Any) -> Any:
        """What a step needs of its input, for one step or for all of them at once."""
        return _plus(ops.matmul(inputs, self.kernel._as_node(inputs.graph)), self.bias)

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        nested = isinstance(states, (list, tuple))
        states = list(states) if nested else [states]
        masks = self._masks(inputs, states[0], training)
        output, after = self.step(self.project(_times(inputs, masks[0])), states, masks[1])
        return output, after if nested else after[0]

    def _masks(self, inputs: Any, state: Any, training: Any) -> tuple:
        """The factors of dropout, the same for all steps: of inputs and of the state."""
        def mask(rate: float, like: Any) -> Any:
            if not training or not rate:
                return None
            return like.graph.node(lib.est_dropout(ops.ones_like(like)._c, rate, 0))

        return mask(self.dropout, inputs), mask(self.recurrent_dropout, state)

    def _recurrent(self, state: Any) -> Any:
        return ops.matmul(state, self.recurrent_kernel._as_node(state.graph))

    def step(self, projected: Any, states: list, mask: Any) -> tuple:
        """The output and the states after it."""
        raise NotImplementedError


def _times(x: Any, mask: Any) -> Any:
    return x if mask is None else x * mask


def _plus(x: Any, bias: Any) -> Any:
    return x if bias is None else x + bias._as_node(x.graph)


def _zeros_for(inputs: Any, size: Any, batch_size: Any = None, dtype: Any = None) -> Any:
    """States of zeros, with the batch of inputs [batch, ...], or of the given size."""
    if isinstance(size, (list, tuple)) and not isinstance(size, Shape):
        return [_zeros_for(inputs, one, batch_size, dtype) for one in size]
    sizes = [int(one) for one in size] if isinstance(size, Shape) else [int(size)]
    if inputs is None:
        if batch_size is None or dtype is None:
            raise ValueError(f"get_initial_state needs inputs, or batch_size and dtype: batch_size={batch_size!r}, "
                             f"dtype={dtype!r}")
        return zeros((batch_size, *sizes), dtype)
    while len(inputs.shape) > 2:
        inputs = inputs[:, 0]
    found = ops.tile(ops.zeros_like(inputs[:, :1]), [1, math.prod(sizes)])
    return found if len(sizes) == 1 else ops.reshape(found, [-1, *sizes])


class SimpleRNNCell(_Cell):
    """activation(x kernel + h recurrent_kernel + bias)"""

    def step(self, projected: Any, states: list, mask: Any) -> tuple:
        output = _applied(self.activation, projected + self._recurrent(_times(states[0], mask)))
        return output, [output]


class LSTMCell(_Cell):
    """A step of a long short-term memory; its states are the output and the carry."""

    _gates = 4

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 unit_forget_bias: bool = True, **named: Any):
        super().__init__(units, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer,
                         bias_initializer, **named)
        self.unit_forget_bias = unit_forget_bias

    state_size = property(lambda self: [self.units, self.units])

    def _weight(self, name: str, shape: tuple, **more: Any) -> Any:
        if name == "bias" and self.unit_forget_bias:
            more["initializer"] = initializers._ForgetBias(self.units, self._of["bias"][0])
        return super()._weight(name, shape, **more)

    def step(self, projected: Any, states: list, mask: Any) -> tuple:
        before, carry = states
        gates = projected + self._recurrent(_times(before, mask))
        take, forget, new, out = ops.split(gates, 4, -1)
        carry = _applied(self.recurrent_activation, forget) * carry + \
            _applied(self.recurrent_activation, take) * _applied(self.activation, new)
        output = _applied(self.recurrent_activation, out) * _applied(self.activation, carry)
        return output, [output, carry]


class GRUCell(_Cell):
    """A step of a gated recurrent unit."""

    _gates = 3

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros", reset_after: bool = True,
                 **named: Any):
        super().__init__(units, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer,
                         bias_initializer, **named)
        self.reset_after = reset_after

    def _bias_shape(self) -> tuple:
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def _bias_of(self, graph: Any, i: int) -> Any:
        bias = self.bias._as_node(graph)
        return bias[i] if self.reset_after else bias

    def project(self, inputs: Any) -> Any:
        found = ops.matmul(inputs, self.kernel._as_node(inputs.graph))
        return found + self._bias_of(inputs.graph, 0) if self.use_bias else found

    def step(self, projected: Any, states: list, mask: Any) -> tuple:
        graph, before = projected.graph, states[0]
        kept = _times(before, mask)
        x_update, x_reset, x_new = ops.split(projected, 3, -1)
        if self.reset_after:
            inner = self._recurrent(kept)
            inner = inner + self._bias_of(graph, 1) if self.use_bias else inner
            h_update, h_reset, h_new = ops.split(inner, 3, -1)
        else:
            kernel = self.recurrent_kernel._as_node(graph)
            h_update, h_reset = ops.split(ops.matmul(kept, kernel[:, :2 * self.units]), 2, -1)
        update = _applied(self.recurrent_activation, x_update + h_update)
        reset = _applied(self.recurrent_activation, x_reset + h_reset)
        if self.reset_after:
            h_new = reset * h_new
        else:
            h_new = ops.matmul(reset * kept, kernel[:, 2 * self.units:])
        output = update * before + (1.0 - update) * _applied(self.activation, x_new + h_new)
        return output, [output]


def _step_of(cell: Any, x: Any, states: Any, training: Any) -> tuple:
    """The output of a cell of any kind, and its states as a list."""
    output, after = cell(x, list(states), training=training)
    return output, list(after) if isinstance(after, (list, tuple)) else [after]


class StackedRNNCells(Layer):
    """Cells as one: the output of each is the input of the next."""

    def __init__(self, cells: Sequence, **named: Any):
        super().__init__(**named)
        self.cells = list(cells)

    state_size = property(lambda self: [cell.state_size for cell in self.cells])
    output_size = property(lambda self: self.cells[-1].output_size)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        return [_zeros_for(inputs, cell.state_size, batch_size, dtype) for cell in self.cells]

    def call(self, inputs: Any, states: Any, training: Any = None) -> Any:
        after = []
        for cell, state in zip(self.cells, states):
            inputs, states = _step_of(cell, inputs, state if isinstance(state, (list, tuple)) else [state], training)
            after.append(states if isinstance(cell.state_size, (list, tuple)) else states[0])
        return inputs, after


# --- layers -----------------------------------------------------------------------------------------------------------


def _without_steps(name: str, inputs: Node) -> None:
    """Before a loop over an unknown number of steps is built: an error, where it will be run."""
    if not inputs.graph.only_shapes:
        raise NeedsSteps(f"{name}: the loop over time is unrolled, so the number of steps must be known: "
                         f"{inputs!r}. Give it in Input, or pad and batch with a fixed length")
    inputs.graph.has_guesses = True


def _like(node: Any, steps: int | None) -> Any:
    """A stand-in for a node of another number of steps."""
    shape = tuple(node.shape)
    return node.graph.placeholder(None, node.dtype, (shape[0], steps) + shape[2:])


class AbstractRNNCell(Layer):
    """What cells of a program may be made of: call(inputs, states) gives the output and the states after it."""

    def call(self, inputs: Any, states: Any) -> Any:
        raise NotImplementedError("a cell overrides call(inputs, states)")

    @property
    def state_size(self) -> Any:
        raise NotImplementedError("a cell overrides state_size")

    @property
    def output_size(self) -> Any:
        raise NotImplementedError("a cell overrides output_size")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        return _zeros_for(inputs, self.state_size, batch_size, dtype)


def _where(kept: Node, new: Node, before: Node) -> Node:
    """`new` in the rows that a mask [batch, 1] keeps, else `before`."""
    return ops.where(ops.reshape(kept, [-1] + [1] * (len(new.shape) - 1)), new, before)


class RNN(Layer):
    """A cell along the steps of [batch, steps, features]: the last output, or all of them. The steps are unrolled. Inputs
    that are a tuple reach the cell as one; a list is the input and the states that it begins with."""

    _loops_over_time = True
    _supports_masking = True

    def __init__(self, cell: Any, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, stateful: bool = False, unroll: bool = False, time_major: bool = False,
                 zero_output_for_mask: bool = False, **named: Any):
        refuse(time_major=time_major)
        super().__init__(**named)
        self.cell = StackedRNNCells(cell) if isinstance(cell, (list, tuple)) else cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.unroll, self.zero_output_for_mask = go_backwards, unroll, zero_output_for_mask
        self.__dict__.update(stateful=bool(stateful), _kept_states=None)

    def __call__(self, inputs: Any, initial_state: Any = None, **named: Any) -> Any:
        if isinstance(inputs, tuple) and isinstance(self.cell, _Cell):
            raise NotImplementedError(f"{self.name}: its cell takes one input, got {len(inputs)}: concatenate them. A list is the "
                                      "input and the states that it begins with")
        if isinstance(inputs, list) and initial_state is None:
            inputs, *initial_state = inputs
        if initial_state is not None and len(initial_state):
            named["initial_state"] = initial_state
        return super().__call__(inputs, **named)

    def build(self, input_shape: Any) -> None:
        if isinstance(self.cell, _Cell) and not self.cell.built:
            with self.cell._within(default_graph()):
                self.cell.build((input_shape[0],) + tuple(input_shape[2:]))
            self.cell.built = True

    def call(self, inputs: Any, initial_state: Any = None, mask: Any = None, training: Any = None) -> Any:
        leaves = _structure.flatten(inputs)
        steps = leaves[0].shape[1]
        if steps is None:
            _without_steps(self.name, leaves[0])
            result = self.call(_structure.map_structure(lambda leaf: _like(leaf, 1), inputs), initial_state,
                               None if mask is None else _like(mask, 1), training)
            first, *states = result if self.return_state else (result,)
            first = _structure.map_structure(lambda leaf: _like(leaf, None), first) if self.return_sequences else first
            return (first, *states) if self.return_state else first
        states = self._states(leaves[0], initial_state)
        factor = None
        if isinstance(self.cell, _Cell):
            first, factor = self.cell._masks(inputs[:, 0], states[0], training)
            if first is not None:
                inputs = inputs * ops.expand_dims(first, 1)
            leaves = [self.cell.project(inputs)]
            inputs = leaves[0]
        xs = [_structure.pack_as(inputs, list(parts)) for parts in zip(*(ops.unstack(leaf, steps, 1) for leaf in leaves))]
        kept = None if mask is None else ops.unstack(_structure.flatten(mask)[0], steps, 1)
        outputs: list = []
        for t in range(steps - 1, -1, -1) if self.go_backwards else range(steps):
            if isinstance(self.cell, _Cell):
                output, after = self.cell.step(xs[t], states, factor)
            else:
                output, after = _step_of(self.cell, xs[t], states, training)
            if kept is not None:
                repeats = outputs and not self.zero_output_for_mask
                last = iter(_structure.flatten(outputs[-1] if repeats else _structure.map_structure(ops.zeros_like, output)))
                output = _structure.map_structure(lambda new: _where(kept[t], new, next(last)), output)
                before = iter(_structure.flatten(states))
                after = _structure.map_structure(lambda new: _where(kept[t], new, next(before)), after)
            states = after
            outputs.append(output)
        if self.stateful:
            self._keep(states)
        if self.return_sequences:
            parts = zip(*(_structure.flatten(output) for output in outputs))
            result = _structure.pack_as(outputs[0], [ops.stack(list(part), 1) for part in parts])
        else:
            result = outputs[-1]
        return (result, *states) if self.return_state else result

    def _states(self, inputs: Any, given: Any) -> list:
        if given is not None:
            return list(given) if isinstance(given, (list, tuple)) else [given]
        is_sketch = inputs.graph.is_sketch or inputs.graph.only_shapes and inputs.shape[0] is None
        if self.stateful and not is_sketch and getattr(inputs.graph, "world", None) is not None:
            return self._kept(inputs)
        make = getattr(self.cell, "get_initial_state", None)
        found = _zeros_for(inputs, self.cell.state_size) if make is None or not isinstance(
            self.cell, (_Cell, StackedRNNCells, AbstractRNNCell)) else make(inputs=inputs)
        return found if isinstance(found, list) else [found]

    # --- states that stay ---

    def _kept(self, inputs: Node) -> list:
        """What the call before has left; zeros at first."""
        if self._kept_states is None:
            if inputs.shape[0] is None:
                raise ValueError("If a RNN is stateful, it needs to know its batch size. Specify the batch size of your input "
                                 "tensors: \n- If using a Sequential model, specify the batch size by passing a "
                                 "`batch_input_shape` argument to your first layer.\n- If using the functional API, specify "
                                 "the batch size by passing a `batch_shape` argument to your Input layer.")
            sizes = self.cell.state_size
            sizes = sizes if isinstance(sizes, list) else [sizes]
            batch = int(inputs.shape[0])

            def made(size: Any) -> Any:
                if isinstance(size, (list, tuple)) and not isinstance(size, Shape):
                    return [made(one) for one in size]
                shape = [int(one) for one in size] if isinstance(size, Shape) else [int(size)]
                return Variable(np.zeros((batch, *shape), np.float32), trainable=False, name=f"{self.name}_state")

            self.__dict__["_kept_states"] = [made(size) for size in sizes]
        return _structure.map_structure(lambda variable: variable._as_node(inputs.graph), self._kept_states)

    def _keep(self, states: list) -> None:
        for variable, value in zip(_structure.flatten(self._kept_states or []), _structure.flatten(states)):
            if variable.graph is value.graph:
                variable.assign(value)

    @property
    def states(self) -> list:
        """The variables that keep the states of a stateful layer; None for each before the first call."""
        if self._kept_states is not None:
            return list(self._kept_states)
        sizes = self.cell.state_size
        return [None] * (len(sizes) if isinstance(sizes, (list, tuple)) and not isinstance(sizes, Shape) else 1)

    def reset_states(self, states: Any = None) -> None:
        """Sets the states of a stateful layer, to zeros or to arrays."""
        if not self.stateful:
            raise AttributeError("Layer must be stateful.")
        variables = _structure.flatten(self._kept_states or [])
        values = [np.zeros(tuple(v.shape), np.float32) for v in variables] if states is None else _structure.flatten(states)
        if len(values) != len(variables):
            raise ValueError(f"Layer {self.name} expects {len(variables)} states, but it received {len(values)} state values.")
        for variable, value in zip(variables, values):
            if tuple(np.shape(value)) != tuple(variable.shape):
                raise ValueError(f"State for layer {self.name} is incompatible: expected shape={tuple(variable.shape)}, found "
                                 f"shape={tuple(np.shape(value))}")
            variable.assign(value)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        kept = mask if self.return_sequences else None
        return [kept] + [None] * len(_structure.flatten(self.cell.state_size)) if self.return_state else kept

    def get_config(self) -> dict:
        """What the layer was made with, as plain values; a layer of a cell has the cell's arguments as its own."""
        if type(self) is RNN or not isinstance(self.cell, _Cell):
            return super().get_config()
        from .._serial import argument, recorded
        config = {**Layer.get_config(self), "return_sequences": self.return_sequences, "return_state": self.return_state,
                  "go_backwards": self.go_backwards, "stateful": self.stateful, "unroll": self.unroll, "time_major": False}
        made = recorded(self.cell, _Cell)
        made.update(recorded(self.cell, type(self.cell)))
        config.update((key, argument(key, value)) for key, value in made.items()
                      if key not in ("name", "trainable", "dtype"))
        more = {} if isinstance(self.cell, SimpleRNNCell) else {"implementation": 2}
        config.pop("implementation", None)
        if isinstance(self.cell, SimpleRNNCell):
            del config["recurrent_activation"]
        return {**config, **more, "activity_regularizer": config.get("activity_regularizer")}

    units = property(lambda self: self.cell.units)


_CELLS = {"SimpleRNNCell": "simple_rnn_cell", "LSTMCell": "lstm_cell", "GRUCell": "gru_cell"}


def _layer_of(cell_class: type, doc: str) -> type:
    """The layer that runs a cell; it takes the arguments of both."""
    own = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major", "zero_output_for_mask")
    of_layer = ("name", "trainable", "dtype", "input_shape", "batch_input_shape", "input_dim", "batch_size")

    def __init__(self: Any, units: int, *args: Any, implementation: int = 2, **named: Any) -> None:
        length = named.pop("input_length", None)
        if length is not None and "input_dim" in named:
            named["input_shape"] = (length, named.pop("input_dim"))
        mine = {key: named.pop(key) for key in own + of_layer if key in named}
        cell = cell_class(units, *args, dtype=mine.get("dtype"), name=_CELLS[cell_class.__name__], **named)
        RNN.__init__(self, cell, **mine)

    return type(cell_class.__name__[:-len("Cell")], (RNN,),
                {"__init__": __init__, "__doc__": doc, "__module__": __name__})


SimpleRNN = _layer_of(SimpleRNNCell, "activation(x kernel + h recurrent_kernel + bias), step by step.")
LSTM = _layer_of(LSTMCell, "A long short-term memory.")
GRU = _layer_of(GRUCell, "Gated recurrent units.")


class TimeDistributed(Layer):
    """A layer for each step of [batch, steps, ...]."""

    _loops_over_time = True
    _supports_masking = True

    def __init__(self, layer: Layer, **named: Any):
        super().__init__(**named)
        self.layer = layer

    def call(self, inputs: Any, training: Any = None) -> Any:
        steps, inner = inputs.shape[1], [int(size) for size in inputs.shape[2:]]
        if steps is None:
            _without_steps(self.name, inputs)
            return _like(self.call(_like(inputs, 1), training), None)
        result = self.layer(ops.reshape(inputs, [-1, *inner]), training=training)
        return ops.reshape(result, [-1, int(steps), *(int(size) for size in result.shape[1:])])


class Bidirectional(Layer):
    """A recurrent layer and another one that goes backwards, with their results merged."""

    _supports_masking = True

    def __init__(self, layer: Layer, merge_mode: str | None = "concat", weights: Any = None, backward_layer: Any = None,
                 **named: Any):
        if merge_mode not in ("sum", "mul", "ave", "concat", None):
            raise ValueError(f"Invalid merge mode. Received: {merge_mode}. Merge mode should be one of "
                             "{\"sum\", \"mul\", \"ave\", \"concat\", None}")
        refuse(weights=weights)
        if layer._batch_input_shape is not None and "batch_input_shape" not in named:
            named["batch_input_shape"] = layer._batch_input_shape
        super().__init__(**named)
        self.merge_mode, self.return_sequences = merge_mode, layer.return_sequences
        self.return_state = layer.return_state
        if backward_layer is None:
            self.forward_layer = _again(layer, f"forward_{layer.name}", layer.go_backwards)
            self.backward_layer = _again(layer, f"backward_{layer.name}", not layer.go_backwards)
        else:
            self.forward_layer, self.backward_layer = layer, backward_layer
        if self.return_sequences:  # what is left out in both directions must not be the last output of one
            self.forward_layer.zero_output_for_mask = self.backward_layer.zero_output_for_mask = True

    def call(self, inputs: Any, initial_state: Any = None, mask: Any = None, training: Any = None) -> Any:
        halves: list = [None, None]
        if initial_state is not None:
            half = len(initial_state) // 2
            halves = [list(initial_state[:half]), list(initial_state[half:])]
        results = [layer(inputs, initial_state=half, mask=mask, training=training)
                   for layer, half in zip((self.forward_layer, self.backward_layer), halves)]
        (y, *states), (z, *more) = (result if isinstance(result, tuple) else (result,) for result in results)
        if self.return_sequences:
            z = reverse.over_nodes(z, [1])
        merged = self._merged(y, z)
        return (*(merged if isinstance(merged, tuple) else (merged,)), *states, *more) if self.return_state else merged

    def get_config(self) -> dict:
        return {key: value for key, value in super().get_config().items()
                if value is not None or key not in ("backward_layer", "weights")}

    def _merged(self, y: Any, z: Any) -> Any:
        if self.merge_mode == "concat":
            return ops.concat([y, z], -1)
        if self.merge_mode is None:
            return y, z
        return y * z if self.merge_mode == "mul" else y + z if self.merge_mode == "sum" else (y + z) * 0.5

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if not self.return_sequences or self.return_state or self.merge_mode is None:
            return None
        return mask


def _again(layer: Layer, name: str, backwards: bool) -> Layer:
    """A layer that is made as another one."""
    args, named = layer._made_with
    if any(isinstance(leaf, Layer) for leaf in _structure.flatten((list(args), dict(named)))):
        raise NotImplementedError(f"Bidirectional: {layer.name} was given a cell, which both directions would share; "
                                  "give backward_layer")
    made = type(layer)(*args, **{**named, "name": name})
    made.go_backwards = backwards
    return made


class Masking(Layer):
    """Steps whose features all have the value are left out by layers that take masks."""

    _supports_masking = True
    _scoped = False

    def __init__(self, mask_value: float = 0.0, **named: Any):
        super().__init__(**named)
        self.mask_value = mask_value

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return ops.reduce_any(ops.not_equal(inputs, self.mask_value), -1)

    def call(self, inputs: Any) -> Any:
        kept = ops.reduce_any(ops.not_equal(inputs, self.mask_value), -1, True)
        return inputs * ops.cast(kept, inputs.dtype)
