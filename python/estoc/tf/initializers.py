# SPDX-License-Identifier: Apache-2.0
"""tf.initializers: those of Keras."""
from ._absent import module_getattr as _module_getattr
from .keras import initializers as _own

globals().update({key: value for key, value in vars(_own).items() if not key.startswith("_")})

__getattr__ = _module_getattr(__name__)
