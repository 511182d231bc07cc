# SPDX-License-Identifier: Apache-2.0
"""tf.contrib of TensorFlow 1.x, as far as estimators used it."""
from .._absent import module_getattr as _module_getattr
from . import estimator  # noqa: F401

__getattr__ = _module_getattr(__name__)
