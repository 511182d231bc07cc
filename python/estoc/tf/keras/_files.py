# SPDX-License-Identifier: Apache-2.0
"""Models and weights in one file, as names that end with .keras, .h5 or .hdf5 ask for: the files that a folder would
have, in a zip archive. Keras reads folders and checkpoints of this package, and not these files."""
from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
import zipfile
from typing import Any, Iterator

ENDINGS = (".keras", ".h5", ".hdf5")
_MARK = "estoc"  # the comment of an archive
_HDF5 = b"\x89HDF\r\n\x1a\n"


def is_file(path: Any, save_format: str | None = None) -> bool:
    """Whether one file is meant, and not a folder or the prefix of a checkpoint."""
    return os.fspath(path).endswith(ENDINGS) or save_format in ("h5", "keras")


def is_hdf5(path: Any, save_format: str | None = None) -> bool:
    """Whether Keras would write HDF5."""
    return os.fspath(path).endswith((".h5", ".hdf5")) or save_format == "h5"


@contextlib.contextmanager
def packing(path: Any) -> Iterator[str]:
    """A folder that becomes the file when the block ends; until then a file that was there stays."""
    path = os.fspath(path)
    above = os.path.dirname(os.path.abspath(path))
    os.makedirs(above, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=above) as beside:
        yield folder
        made = os.path.join(beside, "file")
        with zipfile.ZipFile(made, "w") as archive:
            archive.comment = _MARK.encode()
            for root, _, names in os.walk(folder):
                for name in names:
                    full = os.path.join(root, name)
                    archive.write(full, os.path.relpath(full, folder))
        os.replace(made, path)
    warnings.warn(f"{os.path.basename(path)} is an archive of this package, which TensorFlow does not read; it reads "
                  "checkpoints and SavedModels, which names without .keras and .h5 make", stacklevel=4)


@contextlib.contextmanager
def unpacked(path: Any) -> Iterator[str]:
    """The folder that a file was made of."""
    path = os.fspath(path)
    if not os.path.exists(path):
        raise OSError(f"No file or directory found at {path}")
    with open(path, "rb") as file:
        start = file.read(len(_HDF5))
    if start == _HDF5 or not zipfile.is_zipfile(path):
        raise NotImplementedError(f"{path} is not a file of this package: HDF5 files are not read. In TensorFlow "
                                  "save_weights(path without .h5) writes a checkpoint, which load_weights reads here")
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory() as folder:
        if archive.comment != _MARK.encode():
            raise NotImplementedError(f"{path} was written by Keras, which keeps weights as HDF5. In TensorFlow "
                                      "save_weights(path without .h5) writes a checkpoint, which load_weights reads "
                                      "here into a model of the same layers")
        archive.extractall(folder)
        yield folder
