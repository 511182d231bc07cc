# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.mnist"""
import os as _os

from ..._absent import module_getattr as _module_getattr
from . import _kept
from ._idx import load as _load


def load_data(path: str = "mnist.npz"):
    """(train images, train labels), (test images, test labels) as uint8 arrays: of Keras' file, or MNIST's own ones."""
    if not _os.path.exists(_os.path.join(_kept._FOLDER, path)):
        return _load("mnist")
    with _kept.arrays(path) as file:
        return (file["x_train"], file["y_train"]), (file["x_test"], file["y_test"])


__getattr__ = _module_getattr(__name__)
