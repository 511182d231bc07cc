# SPDX-License-Identifier: Apache-2.0
"""tf.linalg"""
from .. import ops as _ops
from ._absent import module_getattr as _module_getattr
from ._algebra import (band_part, cholesky, cross, det, diag, diag_part, eigh, eigvalsh, einsum, inv,  # noqa: F401
                       logdet, lstsq, matrix_transpose, pinv, qr, set_diag, solve, svd, tensordot, trace,
                       triangular_solve)
from ._array import eye, global_norm, matvec, norm  # noqa: F401
from ._eager import eager as _eager
from .nn import l2_normalize  # noqa: F401

matmul = _eager(_ops.matmul, "matmul")

__getattr__ = _module_getattr(__name__)
