# SPDX-License-Identifier: Apache-2.0
"""tf.version: the version whose names and meanings these are."""
from ._absent import module_getattr as _module_getattr

VERSION = "2.15.1+estoc"

__getattr__ = _module_getattr(__name__)
