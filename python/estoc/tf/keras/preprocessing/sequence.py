# SPDX-License-Identifier: Apache-2.0
"""tf.keras.preprocessing.sequence"""
from ..._absent import module_getattr as _module_getattr
from .._arrays import pad_sequences  # noqa: F401

__getattr__ = _module_getattr(__name__)
