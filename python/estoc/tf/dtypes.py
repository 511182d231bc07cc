# SPDX-License-Identifier: Apache-2.0
"""tf.dtypes"""
from .._tensor import DType, as_dtype, float32, float64, int32, int64, string, uint8  # noqa: F401
from .._tensor import bool_ as bool  # noqa: A001,F401
from .. import ops as _ops
from ._absent import module_getattr as _module_getattr
from ._eager import eager as _eager

cast = _eager(_ops.cast, "cast")

__getattr__ = _module_getattr(__name__)
