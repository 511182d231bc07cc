# SPDX-License-Identifier: Apache-2.0
"""tf.keras.backend: what custom losses and metrics of Keras programs are written in."""
from __future__ import annotations

from typing import Any as _Any

import numpy as _np

from ... import ops as _ops
from .. import _array
from .. import nn as _nn
from .._absent import module_getattr as _module_getattr
from .._eager import Tensor as _Tensor
from .._eager import eager as _eager
from .._eager import unwrap as _unwrap
from .._variable import Variable as _Variable
from ._calling import clear_session, reset_uids  # noqa: F401
from ._calling import is_training as learning_phase  # noqa: F401


def epsilon() -> float:
    """The number that avoids divisions by zero."""
    return 1e-7


def floatx() -> str:
    """The dtype of floats."""
    return "float32"


def image_data_format() -> str:
    """The order of axes of images."""
    return "channels_last"


def get_value(x: _Any) -> _Any:
    """The value of a variable as an array."""
    return x.numpy()


def set_value(x: _Any, value: _Any) -> None:
    """Gives a variable a value."""
    x.assign(value)


def int_shape(x: _Any) -> tuple:
    """The shape as a tuple."""
    return tuple(x.shape)


def random_normal(shape: _Any, mean: float = 0.0, stddev: float = 1.0, dtype: _Any = None, seed: _Any = None) -> _Any:
    """Normal numbers."""
    from .. import random
    return random.normal(shape, mean, stddev, dtype or "float32", seed)


def random_uniform(shape: _Any, minval: float = 0.0, maxval: float = 1.0, dtype: _Any = None, seed: _Any = None) -> _Any:
    """Numbers between two others."""
    from .. import random
    return random.uniform(shape, minval, maxval, dtype or "float32", seed)


# --- functions of tensors: those of tf, some by other names and with other defaults --------------------------------------

for _name in ("abs", "argmax", "argmin", "cast", "cos", "equal", "exp", "gather", "greater", "greater_equal", "less",
              "less_equal", "log", "maximum", "minimum", "not_equal", "ones_like", "pow", "reshape", "round", "shape",
              "sigmoid", "sign", "sin", "softplus", "softsign", "square", "stop_gradient", "tanh", "tile", "transpose",
              "zeros_like"):
    globals()[_name] = _eager(getattr(_ops, _name), _name)
for _name, _of in {"sum": _ops.reduce_sum, "max": _ops.reduce_max, "min": _ops.reduce_min,
                   "prod": _ops.reduce_prod, "any": _ops.reduce_any, "all": _ops.reduce_all}.items():
    _call = _eager(_of, _name)
    globals()[_name] = (lambda call: lambda x, axis=None, keepdims=False: call(x, axis=axis, keepdims=keepdims))(_call)
    globals()[_name].__name__, globals()[_name].__doc__ = _name, _of.__doc__
_cast, _sqrt, _stack, _concat = (_eager(function) for function in (_ops.cast, _ops.sqrt, _ops.stack, _ops.concat))
_expand, _squeeze, _matmul, _softmax = (_eager(function) for function in (
    _ops.expand_dims, _ops.squeeze, _ops.matmul, _ops.softmax))
_log, _sum, _mean, _maximum = (_eager(function) for function in (
    _ops.log, _ops.reduce_sum, _ops.reduce_mean, _ops.maximum))
_argmax, _argmin = globals()["argmax"], globals()["argmin"]
zeros, ones, eye = _array.zeros, _array.ones, _array.eye
elu = _nn.elu


def argmax(x: _Any, axis: int = -1) -> _Any:
    """Where the largest value is."""
    return _argmax(x, axis)


def argmin(x: _Any, axis: int = -1) -> _Any:
    """Where the smallest value is."""
    return _argmin(x, axis)


def _number(x: _Any) -> _Any:
    """True and False as 1 and 0."""
    dtype = getattr(x, "dtype", None)
    is_bool = _np.asarray(x).dtype == bool if dtype is None else getattr(dtype, "name", dtype) == "bool"
    return _cast(x, floatx()) if is_bool else x


def mean(x: _Any, axis: _Any = None, keepdims: bool = False) -> _Any:
    """The mean over axes."""
    return _mean(_number(x), axis=axis, keepdims=keepdims)


def std(x: _Any, axis: _Any = None, keepdims: bool = False) -> _Any:
    """The standard deviation over axes."""
    return _array.reduce_std(_number(x), axis, keepdims)


def var(x: _Any, axis: _Any = None, keepdims: bool = False) -> _Any:
    """The variance over axes."""
    return _array.reduce_variance(_number(x), axis, keepdims)


def sqrt(x: _Any) -> _Any:
    """The root; of numbers below 0 it is 0."""
    return _sqrt(_maximum(x, 0.0))


def clip(x: _Any, min_value: _Any, max_value: _Any) -> _Any:
    """Values within bounds."""
    low, high = float("-inf") if min_value is None else min_value, float("inf") if max_value is None else max_value
    return _array.clip_by_value(x, low, high)


def flatten(x: _Any) -> _Any:
    """As a vector."""
    return _eager(_ops.reshape)(x, [-1])


def batch_flatten(x: _Any) -> _Any:
    """A matrix with a row for each example."""
    return _eager(_ops.reshape)(x, [-1, int(_np.prod(x.shape[1:]))])


def expand_dims(x: _Any, axis: int = -1) -> _Any:
    """With one more axis."""
    return _expand(x, axis)


def squeeze(x: _Any, axis: int) -> _Any:
    """Without an axis of length 1."""
    return _squeeze(x, [axis])


def concatenate(tensors: _Any, axis: int = -1) -> _Any:
    """Tensors one after the other."""
    return _concat(tensors, axis)


def stack(x: _Any, axis: int = 0) -> _Any:
    """Tensors along a new axis."""
    return _stack(x, axis)


def permute_dimensions(x: _Any, pattern: _Any) -> _Any:
    """With axes in another order."""
    return _eager(_ops.transpose)(x, list(pattern))


def one_hot(indices: _Any, num_classes: int) -> _Any:
    """Rows with a 1 at the place of the index."""
    return _eager(_ops.one_hot)(indices, int(num_classes))


def dot(x: _Any, y: _Any) -> _Any:
    """The product of matrices."""
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise NotImplementedError("backend.dot: of matrices; tf.matmul multiplies batches of them")
    return _matmul(x, y)


def softmax(x: _Any, axis: int = -1) -> _Any:
    """exp(x) over its sum."""
    return _softmax(x, axis)


def l2_normalize(x: _Any, axis: _Any = None) -> _Any:
    """Vectors of length 1."""
    return _nn.l2_normalize(x, axis)


def relu(x: _Any, alpha: float = 0.0, max_value: _Any = None, threshold: float = 0.0) -> _Any:
    """max(x, 0), with a slope below the threshold and a bound above."""
    if threshold:
        raise NotImplementedError("backend.relu: threshold does not exist yet")
    above = _nn.relu(x) if not alpha else _nn.leaky_relu(x, alpha)
    return above if max_value is None else _eager(_ops.minimum)(above, float(max_value))


def ndim(x: _Any) -> int:
    """The number of axes."""
    return len(x.shape)


def is_keras_tensor(x: _Any) -> bool:
    """Whether it stands for the input or output of a layer."""
    from ._symbolic import KerasTensor
    return isinstance(x, KerasTensor)


def cast_to_floatx(x: _Any) -> _Any:
    """As float32."""
    return _cast(x, "float32") if isinstance(x, (_Tensor, _ops.Node, _Variable)) else _np.asarray(x, "float32")


def constant(value: _Any, dtype: _Any = None, shape: _Any = None, name: str | None = None) -> _Any:
    """A tensor of given values."""
    from .. import constant as make
    return make(value, dtype or floatx(), shape)


def variable(value: _Any, dtype: _Any = None, name: str | None = None, constraint: _Any = None) -> _Any:
    """A variable with a value."""
    if constraint is not None:
        raise NotImplementedError("backend.variable: constraint does not exist yet")
    return _Variable(_np.asarray(_unwrap(value), dtype or "float32"), name=name)


def update(x: _Any, new_x: _Any) -> _Any:
    """Gives a variable a value, and gives it back."""
    return x.assign(new_x)


def update_add(x: _Any, increment: _Any) -> _Any:
    """Adds to a variable, and gives it back."""
    return x.assign_add(increment)


def update_sub(x: _Any, decrement: _Any) -> _Any:
    """Subtracts from a variable, and gives it back."""
    return x.assign_sub(decrement)


def eval(x: _Any) -> _Any:  # noqa: A001
    """The value of a tensor as an array."""
    return x.numpy()


def binary_crossentropy(target: _Any, output: _Any, from_logits: bool = False) -> _Any:
    """Of each element, unlike that of tf.keras.losses."""
    target = _cast(target, output.dtype)
    if from_logits:
        return _nn.sigmoid_cross_entropy_with_logits(labels=target, logits=output)
    output = _array.clip_by_value(output, epsilon(), 1 - epsilon())
    return -(target * _log(output + epsilon()) + (1 - target) * _log(1 - output + epsilon()))


def categorical_crossentropy(target: _Any, output: _Any, from_logits: bool = False, axis: int = -1) -> _Any:
    """The crossentropy of each row with a distribution."""
    target = _cast(target, output.dtype)
    if from_logits:
        if axis != -1:
            raise NotImplementedError("backend.categorical_crossentropy: classes are along the last axis")
        return _nn.softmax_cross_entropy_with_logits(labels=target, logits=output)
    output = output / _sum(output, axis=axis, keepdims=True)
    return -_sum(target * _log(_array.clip_by_value(output, epsilon(), 1 - epsilon())), axis=axis)


def sparse_categorical_crossentropy(target: _Any, output: _Any, from_logits: bool = False, axis: int = -1) -> _Any:
    """The crossentropy of each row with a class."""
    from . import losses
    return losses.sparse_categorical_crossentropy(target, output, from_logits, axis)


__getattr__ = _module_getattr(__name__)
