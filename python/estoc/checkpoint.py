# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as files: what is in them, values of variables, and writing named arrays as one."""
from __future__ import annotations

import os
from typing import Any, Mapping

import numpy as np

from . import errors
from ._lib import NULL, Keep, check, ffi, lib, owned, text
from ._tensor import as_dtype, py_shape, take_tensor, to_array, to_tensor


class CheckpointReader:
    """An open checkpoint, of this library or of TensorFlow."""

    def __init__(self, path: str | os.PathLike):
        keep, out = Keep(), ffi.new("est_checkpoint **")
        check(lib.est_checkpoint_open(keep.string(path), out))
        self._c = owned(out[0], "est_checkpoint_close")

    @property
    def path(self) -> str:
        """Its prefix, as "runs/x/model.ckpt-500"."""
        return text(lib.est_checkpoint_path(self._c))

    def _all(self) -> list[Any]:
        return [lib.est_checkpoint_at(self._c, i) for i in range(lib.est_checkpoint_count(self._c))]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {text(variable.name): list(py_shape(variable.shape) or ()) for variable in self._all()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        return {text(variable.name): as_dtype(int(variable.dtype)) for variable in self._all()}

    def has_tensor(self, name: str) -> bool:
        return lib.est_checkpoint_find(self._c, name.encode()) != NULL

    def get_tensor(self, name: str) -> np.ndarray:
        """The value of a variable, by its key or its full name."""
        out = ffi.new("est_tensor **")
        check(lib.est_checkpoint_read(self._c, name.encode(), out))
        return to_array(take_tensor(out[0]))

    def verify(self) -> None:
        """Reads everything and checks every checksum."""
        check(lib.est_checkpoint_verify(self._c))

    def __iter__(self):
        return (text(variable.name) for variable in self._all())

    def __getitem__(self, name: str) -> np.ndarray:
        if not self.has_tensor(name):
            raise KeyError(name)
        return self.get_tensor(name)


def load_checkpoint(path: str | os.PathLike) -> CheckpointReader:
    """Opens a checkpoint by its prefix, or the latest of a model directory."""
    return CheckpointReader(path)


def load_variable(path: str | os.PathLike, name: str) -> np.ndarray:
    """The value of one variable."""
    return CheckpointReader(path).get_tensor(name)


def list_variables(path: str | os.PathLike) -> list[tuple[str, list[int]]]:
    """Names and shapes, in the order of names."""
    return sorted(CheckpointReader(path).get_variable_to_shape_map().items())


def latest_checkpoint(directory: str | os.PathLike) -> str | None:
    """The prefix of the latest checkpoint of a model directory; None: there is none."""
    keep, out = Keep(), ffi.new("char[]", lib.EST_CHECKPOINT_PATH_MAX)
    status = lib.est_checkpoint_latest(keep.string(directory), out)
    if status == errors.NOT_FOUND:
        lib.est_error_clear()
        return None
    check(status)
    return text(out)


def save_checkpoint(prefix: str | os.PathLike, variables: Mapping[str, Any], latest: bool = False) -> None:
    """Writes arrays by name as a checkpoint; with `latest` its directory names it as the latest one."""
    keep, named = Keep(), []
    for name, value in variables.items():
        tensor = to_tensor(value)
        keep.append(tensor)
        named.append({"name": keep.string(name), "tensor": tensor})
    check(lib.est_checkpoint_write(keep.string(prefix), keep.span("est_named_tensors", "est_named_tensor", named),
                                   keep.options("est_checkpoint_write_options", latest=latest)))
