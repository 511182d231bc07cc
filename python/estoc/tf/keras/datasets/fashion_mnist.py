# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.fashion_mnist"""
from ..._absent import module_getattr as _module_getattr
from ._idx import load as _load


def load_data():
    """(train images, train labels), (test images, test labels) as uint8 arrays."""
    return _load("fashion-mnist")


__getattr__ = _module_getattr(__name__)
