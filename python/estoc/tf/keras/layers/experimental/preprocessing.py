# SPDX-License-Identifier: Apache-2.0
"""tf.keras.layers.experimental.preprocessing"""
from ...._absent import module_getattr as _module_getattr
from .. import CategoryEncoding, Discretization, HashedCrossing, Hashing, Normalization, StringLookup  # noqa: F401

__getattr__ = _module_getattr(__name__)
