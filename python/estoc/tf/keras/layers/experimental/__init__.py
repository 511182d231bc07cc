# SPDX-License-Identifier: Apache-2.0
"""tf.keras.layers.experimental: the old place of the preprocessing layers."""
from ...._absent import module_getattr as _module_getattr
from . import preprocessing  # noqa: F401

__getattr__ = _module_getattr(__name__)
