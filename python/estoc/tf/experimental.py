# SPDX-License-Identifier: Apache-2.0
"""tf.experimental"""
from ._absent import module_getattr as _module_getattr
from ._ragged_shape import DynamicRaggedShape, RowPartition  # noqa: F401

__getattr__ = _module_getattr(__name__)
