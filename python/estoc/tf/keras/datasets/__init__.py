# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets, from files that are there: nothing is downloaded."""
from ..._absent import module_getattr as _module_getattr
from . import boston_housing, cifar10, cifar100, fashion_mnist, imdb, mnist, reuters  # noqa: F401

__getattr__ = _module_getattr(__name__)
