# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.cifar10"""
from __future__ import annotations

import os as _os

import numpy as _np

from ..._absent import module_getattr as _module_getattr
from . import _kept


def load_data():
    """(train images, train labels), (test images, test labels) as uint8 arrays; labels are [n, 1]."""
    folder = _kept.path_of("cifar-10-batches-py")
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    parts = [_kept.batch_of_images(_os.path.join(folder, name), "labels") for name in names]
    images, labels = ([part[i] for part in parts] for i in (0, 1))
    train = _np.concatenate(images[:5]), _np.uint8(_np.concatenate(labels[:5])).reshape(-1, 1)
    return train, (images[5], _np.uint8(labels[5]).reshape(-1, 1))


__getattr__ = _module_getattr(__name__)
