# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets, from files that are there: nothing is downloaded."""
from ..._absent import module_getattr as _module_getattr
from . import fashion_mnist, mnist  # noqa: F401

__getattr__ = _module_getattr(__name__)
