# SPDX-License-Identifier: Apache-2.0
"""tf.math"""
from .. import ops as _ops
from ._absent import module_getattr as _module_getattr
from ._algebra import cumprod, cumsum  # noqa: F401
from ._array import confusion_matrix, in_top_k, reduce_std, reduce_variance, unsorted_segment_sum  # noqa: F401
from ._eager import eager as _eager
from ._segments import (bincount, segment_max, segment_mean, segment_min, segment_prod, segment_sum,  # noqa: F401
                        unsorted_segment_max, unsorted_segment_mean, unsorted_segment_min, unsorted_segment_prod,
                        unsorted_segment_sqrt_n)
from .nn import l2_normalize  # noqa: F401

for _name in ("abs", "add", "add_n", "argmax", "argmin", "ceil", "cos", "divide", "divide_no_nan", "equal", "erf",
              "exp", "expm1", "floor", "floordiv", "floormod", "greater", "greater_equal", "is_finite", "is_inf",
              "is_nan", "less", "less_equal", "log", "log1p", "logical_and", "logical_not", "logical_or",
              "log_softmax", "maximum", "minimum", "multiply", "negative", "not_equal", "pow", "reciprocal",
              "reduce_all", "reduce_any", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum",
              "round", "rsqrt", "sigmoid", "sign", "sin", "softmax", "softplus", "softsign", "sqrt", "square",
              "squared_difference", "subtract", "tanh", "top_k", "truediv"):
    globals()[_name] = _eager(getattr(_ops, _name), _name)

__getattr__ = _module_getattr(__name__)
