# SPDX-License-Identifier: Apache-2.0
"""tf.contrib.estimator"""
from .._absent import module_getattr as _module_getattr
from ..estimator import add_metrics  # noqa: F401

__getattr__ = _module_getattr(__name__)
