# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's names for estoc: `import estoc.tf as tf`.

What is here means what it means in TensorFlow 2.15. What is not raises AttributeError and names the nearest thing that
is. docs/python.md has the list.
"""
from __future__ import annotations

import enum as _enum
import logging as _logging
from typing import Any as _Any

import numpy as _np

from .. import ops as _ops
from .._lib import set_logger as _set_logger
from .._tensor import DType, as_dtype, float32, float64, int32, int64, string, uint8  # noqa: F401
from .._tensor import array_like as _array_like
from .._tensor import as_array as _as_array
from .._tensor import bool_ as bool  # noqa: A001,F401
from ..data import TensorSpec  # noqa: F401
from ..graph import as_node as _as_node
from ..graph import default_graph as _default_graph
from . import _structure
from ._absent import module_getattr as _module_getattr
from ._algebra import cumsum, einsum, tensordot  # noqa: F401
from ._array import (argsort, boolean_mask, broadcast_to, clip_by_global_norm, clip_by_value, eye, fill,  # noqa: F401
                     gather_nd, linspace, meshgrid, name_scope, norm, numpy_function, ones, py_function, rank, reverse,
                     scatter_nd, sort, tensor_scatter_nd_add, tensor_scatter_nd_max, tensor_scatter_nd_min,
                     tensor_scatter_nd_sub, tensor_scatter_nd_update, unique, zeros)
from ._array import print_ as print  # noqa: A001,F401
from ._array import range_ as range  # noqa: A001,F401
from ._control import (TensorArray, case, cond, foldl, foldr, map_fn, scan, switch_case, vectorized_map,  # noqa: F401
                       while_loop)
from ._creators import variable_creator_scope  # noqa: F401
from ._custom_gradient import custom_gradient, grad_pass_through, recompute_grad  # noqa: F401
from ._eager import Tensor, TensorShape  # noqa: F401
from ._eager import eager as _eager
from ._eager import unwrap as _unwrap
from ._function import function  # noqa: F401
from ._indexed_slices import IndexedSlices
from ._indexed_slices import converted as _converted
from ._module import Module
from ._ragged import RaggedTensor, RaggedTensorSpec  # noqa: F401
from ._ragged_ops import gather_of as _gather_of
from ._ragged_shape import DynamicRaggedShape as _DynamicRaggedShape
from ._segments import (dynamic_partition, dynamic_stitch, histogram_fixed_width, repeat, reverse_sequence,  # noqa: F401
                        roll, searchsorted, sequence_mask, unique_with_counts)
from ._sparse import SparseTensor  # noqa: F401
from ._tape import GradientTape, UnconnectedGradients  # noqa: F401
from ._variable import Variable  # noqa: F401
from . import (compat, config, contrib, data, debugging, distribute, dtypes, errors, estimator,  # noqa: F401
               experimental, feature_column, image, initializers, io, keras, linalg, lookup, losses, math, metrics, nest,
               nn, optimizers, ragged, random, saved_model, sparse, strings, summary, test, train, types, version)

__version__ = version.VERSION
_set_logger("tensorflow")
compat.v1.logging._show()
DType.package = "tf"


def get_logger() -> _logging.Logger:
    """The logger that lines of the library go to."""
    return _logging.getLogger("tensorflow")


def constant(value: _Any, dtype: _Any = None, shape: _Any = None, name: str = "Const") -> Tensor:
    """A tensor with these values."""
    value = _unwrap(value)
    if _ops.building_graph() is not None:
        return compat.v1._graph.constant(value, dtype, shape, name)
    tensor = Tensor(value.copy() if isinstance(value, _np.ndarray) else value, dtype)
    if shape is None:
        return tensor
    if tensor._value.size == 1:
        return Tensor(_np.broadcast_to(tensor._value.reshape(()), tuple(shape)))
    return Tensor(tensor._value.reshape(tuple(shape)))


def convert_to_tensor(value: _Any, dtype: _Any = None, dtype_hint: _Any = None, name: str | None = None) -> _Any:
    """A tensor for a value; tensors stay."""
    if dtype is None and dtype_hint is not None and not isinstance(value, (_ops.Node, Variable, Tensor)):
        try:
            return constant(_array_like(_unwrap(value), as_dtype(dtype_hint).as_numpy_dtype))
        except (TypeError, ValueError):  # a hint that does not fit is none
            pass
    if isinstance(value, IndexedSlices):
        return _converted(value, dtype)
    if isinstance(value, RaggedTensor):
        raise ValueError("a ragged tensor is no tensor: to_tensor() makes a dense one of it")
    if isinstance(value, _ops.Node):
        return value.value() if isinstance(value, _ops.Variable) else value
    if isinstance(value, Variable):
        value = value.value()
    if isinstance(value, Tensor) and dtype in (None, value.dtype):
        return value
    if isinstance(value, (list, tuple)):
        like = next((item for item in _structure.flatten(value) if isinstance(item, (Tensor, Variable))), None)
        if like is not None and dtype in (None, like.dtype):
            return _packed(value, like.dtype)
    if isinstance(value, Tensor):
        raise ValueError(f"Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor with dtype "
                         f"{value.dtype.name}: {value!r}")
    return constant(value, dtype)


def _packed(value: _Any, dtype: _Any) -> _Any:
    """Lists of tensors and numbers as one tensor, of which tapes know the parts."""
    if isinstance(value, (list, tuple)):
        return stack([_packed(item, dtype) for item in value])
    return value if isinstance(value, (Tensor, Variable)) else Tensor(_array_like(value, dtype.as_numpy_dtype))


def is_tensor(x: _Any) -> _Any:
    """Whether it is a tensor of any kind or a variable."""
    return isinstance(x, (Tensor, Variable, SparseTensor, RaggedTensor, IndexedSlices))


def executing_eagerly() -> _Any:
    """Whether operations compute at once: not in a function that is traced, a model_fn or a map."""
    return _default_graph() is None


class VariableAggregation(_enum.Enum):
    """How the values that replicas write become one."""

    NONE, SUM, MEAN, ONLY_FIRST_REPLICA = "NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA"


class VariableSynchronization(_enum.Enum):
    """When the copies of a variable are made equal; copies of replicas in one process are one."""

    AUTO, NONE, ON_WRITE, ON_READ = "AUTO", "NONE", "ON_WRITE", "ON_READ"


for _name in ("abs", "add", "add_n", "argmax", "argmin", "cast", "clip_by_norm", "concat", "cos",
              "divide", "equal", "exp", "expand_dims", "floor", "gather", "greater", "greater_equal", "identity", "less",
              "less_equal", "logical_and", "logical_not", "logical_or", "matmul", "maximum", "minimum", "multiply",
              "negative", "not_equal", "ones_like", "pad", "pow", "reduce_all", "reduce_any", "reduce_max",
              "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum", "reshape", "round", "shape", "sigmoid",
              "sign", "sin", "size", "slice", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient",
              "subtract", "tanh", "tile", "transpose", "truediv", "unstack", "where", "zeros_like"):
    globals()[_name] = _eager(getattr(_ops, _name), _name)
_one_hot, _identity = _eager(_ops.one_hot, "one_hot"), identity  # noqa: F821
gather, _reshape, _concat = _gather_of(gather), reshape, concat  # noqa: F821


def concat(values: _Any, axis: _Any, name: str = "concat") -> _Any:
    """The tensors one after the other along an axis; what is no list of them, or a list of one, is as it was."""
    if isinstance(values, (list, tuple)) and len(values) != 1:
        return _concat(values, axis, name=name)
    return identity(values[0] if isinstance(values, (list, tuple)) else values)


def reshape(tensor: _Any, shape: _Any, name: str | None = None) -> _Any:
    """The same elements in another shape."""
    if isinstance(shape, float) or isinstance(shape, (list, tuple)) and any(isinstance(size, float) for size in shape):
        raise errors.InvalidArgumentError(f"reshape: the shape {shape} is of floats; it must be of int32 or int64")
    return shape.reshape(tensor) if isinstance(shape, _DynamicRaggedShape) else _reshape(tensor, shape, name=name)


def identity(input: _Any, name: str | None = None) -> _Any:  # noqa: A002
    """The same tensor; in a graph with a name an operation also for a value, which hooks find by it."""
    graph = _default_graph()
    if name is not None and graph is not None and not isinstance(input, (_ops.Node, Variable)):
        input = _as_node(_as_array(_unwrap(input)), graph)
    return _identity(input, name=name)


def one_hot(indices: _Any, depth: _Any, on_value: _Any = None, off_value: _Any = None, axis: int | None = None,
            dtype: _Any = None, name: str | None = None) -> _Any:
    """A 1 at each index, and 0 elsewhere. Indices that are floats lose their fractions, as in TensorFlow."""
    if not isinstance(indices, (_ops.Node, Variable, RaggedTensor)):
        indices = Tensor(_unwrap(indices))
    if indices.dtype.is_floating:
        indices = cast(indices, int64)
    kinds = [_as_array(_unwrap(value)).dtype for value in (on_value, off_value) if value is not None]
    if dtype is None and kinds:
        dtype = kinds[0]
    if any(kind != kinds[0] for kind in kinds):
        raise TypeError(f"dtype {kinds[0]} of on_value does not match dtype {kinds[1]} of off_value")
    named = {key: value for key, value in (("on_value", on_value), ("off_value", off_value), ("dtype", dtype))
             if value is not None}
    return _one_hot(indices, int(depth), axis=-1 if axis is None else axis, **named)


Module.register(keras.layers.Layer)
# those of TensorFlow 1.x have other defaults
zeros_initializer, ones_initializer = keras.initializers.Zeros, keras.initializers.Ones
random_normal_initializer = keras.initializers.RandomNormal
random_uniform_initializer, constant_initializer = keras.initializers.RandomUniform, keras.initializers.Constant
newaxis = None
compat.v1._take(globals())
compat.v2._take(globals())
__getattr__ = _module_getattr(__name__)
