# SPDX-License-Identifier: Apache-2.0
"""Data sets in MNIST's format."""
from __future__ import annotations

import os

import numpy as np

from ...._lib import Keep, check, ffi, lib
from ...._tensor import take_tensor, to_array

FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
         "t10k-labels-idx1-ubyte.gz")


def load(name: str) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The arrays of a data set, from where Keras keeps it or from Debian's package."""
    folders = [os.path.join(os.path.expanduser("~"), ".keras", "datasets", name), f"/usr/share/datasets/{name}"]
    for folder in folders:
        if all(os.path.exists(os.path.join(folder, file)) for file in FILES):
            arrays = [read(os.path.join(folder, file)) for file in FILES]
            return (arrays[0], arrays[1]), (arrays[2], arrays[3])
    raise FileNotFoundError(f"the files of {name} are in none of {', '.join(folders)}; nothing is downloaded, put "
                            f"{', '.join(FILES)} there (Debian: dataset-{name})")


def read(path: str) -> np.ndarray:
    """An IDX file as an array."""
    keep, out = Keep(), ffi.new("est_tensor **")
    check(lib.est_idx_read(keep.string(path), out))
    return to_array(take_tensor(out[0]), writable=True)
