# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.cifar100"""
from __future__ import annotations

import os as _os

import numpy as _np

from ..._absent import module_getattr as _module_getattr
from . import _kept


def load_data(label_mode: str = "fine"):
    """(train images, train labels), (test images, test labels) as uint8 arrays; labels are [n, 1]."""
    if label_mode not in ("fine", "coarse"):
        raise ValueError(f"`label_mode` must be one of `\"fine\"`, `\"coarse\"`. Received: label_mode={label_mode}.")
    folder = _kept.path_of("cifar-100-python")
    train, test = (_kept.batch_of_images(_os.path.join(folder, part), f"{label_mode}_labels") for part in
                   ("train", "test"))
    return tuple((images, _np.array(labels).reshape(-1, 1)) for images, labels in (train, test))


__getattr__ = _module_getattr(__name__)
