# SPDX-License-Identifier: Apache-2.0
"""tf.compat"""
from .._absent import module_getattr as _module_getattr
from . import v1, v2  # noqa: F401

__getattr__ = _module_getattr(__name__)
