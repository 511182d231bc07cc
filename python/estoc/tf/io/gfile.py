# SPDX-License-Identifier: Apache-2.0
"""tf.io.gfile on local files."""
from __future__ import annotations

import contextlib as _contextlib
import glob as _glob
import os as _os
import shutil as _shutil
from typing import Any as _Any
from typing import Callable as _Callable

from ...errors import AlreadyExistsError, FailedPreconditionError, NotFoundError, PermissionDeniedError, UnknownError
from .._absent import module_getattr as _module_getattr


def _path(path: _Any) -> str:
    path = path.numpy() if hasattr(path, "numpy") else path
    path = _os.fspath(path)
    path = path.decode() if isinstance(path, bytes) else path
    if path.startswith("file://"):
        return path[len("file://"):]
    if "://" in path:
        raise NotImplementedError(f"{path}: only local files exist")
    return path


def _as_errors(function: _Callable) -> _Callable:
    """TensorFlow's exceptions for those of the system."""
    import functools

    @functools.wraps(function)
    def call(*arguments: _Any, **named: _Any) -> _Any:
        try:
            return function(*arguments, **named)
        except OSError as error:
            kind = {FileNotFoundError: NotFoundError, FileExistsError: AlreadyExistsError,
                    PermissionError: PermissionDeniedError, IsADirectoryError: FailedPreconditionError,
                    NotADirectoryError: FailedPreconditionError}.get(type(error), UnknownError)
            raise kind(f"{error.filename}; {error.strerror}", None) from None

    return call


def exists(path: _Any) -> bool:
    """Whether there is a file or folder."""
    return _os.path.exists(_path(path))


def isdir(path: _Any) -> bool:
    """Whether there is a folder."""
    return _os.path.isdir(_path(path))


@_as_errors
def listdir(path: _Any) -> list[str]:
    """The names in a directory."""
    return _os.listdir(_path(path))


def glob(pattern: _Any) -> list[str]:
    """The files that match a pattern, or any of a list, sorted."""
    patterns = [pattern] if isinstance(pattern, (str, bytes, _os.PathLike)) else list(pattern)
    return sorted(name for item in patterns for name in _glob.glob(_path(item)))


@_as_errors
def mkdir(path: _Any) -> None:
    """Makes a folder in one that exists; one that is there already is no error."""
    with _contextlib.suppress(FileExistsError):
        _os.mkdir(_path(path))


@_as_errors
def makedirs(path: _Any) -> None:
    """Makes a folder, and those above it."""
    _os.makedirs(_path(path), exist_ok=True)


@_as_errors
def remove(path: _Any) -> None:
    """Removes a file."""
    _os.remove(_path(path))


@_as_errors
def rmtree(path: _Any) -> None:
    """Removes a folder with all that is in it."""
    _shutil.rmtree(_path(path))


@_as_errors
def copy(src: _Any, dst: _Any, overwrite: bool = False) -> None:
    """Copies a file."""
    if not overwrite and exists(dst):
        raise AlreadyExistsError(f"file already exists: {_path(dst)}", None)
    _shutil.copyfile(_path(src), _path(dst))


@_as_errors
def rename(src: _Any, dst: _Any, overwrite: bool = False) -> None:
    """Gives a file or folder another name."""
    if not overwrite and exists(dst):
        raise AlreadyExistsError(f"file already exists: {_path(dst)}", None)
    _os.replace(_path(src), _path(dst))


@_as_errors
def stat(path: _Any) -> _Any:
    """Its length, mtime_nsec and is_directory."""
    found = _os.stat(_path(path))
    kind = type("FileStatistics", (), {})
    made = kind()
    made.length, made.mtime_nsec, made.is_directory = found.st_size, found.st_mtime_ns, isdir(path)
    return made


def walk(top: _Any, topdown: bool = True, onerror: _Any = None) -> _Any:
    """Folders below one, each with the names of folders and files in it."""
    return _os.walk(_path(top), topdown, onerror)


def join(path: _Any, *paths: _Any) -> str:
    """Parts of a path as one."""
    return _os.path.join(_path(path), *map(_path, paths))


class GFile:
    """A local file: text unless the mode has "b"."""

    def __init__(self, name: _Any, mode: str = "r"):
        self.name, self.mode = name, mode
        self._file = _open(_path(name), mode)

    def read(self, n: int = -1) -> _Any:
        return self._file.read(n)

    def size(self) -> int:
        return _os.stat(_path(self.name)).st_size

    def __enter__(self) -> "GFile":
        return self

    def __exit__(self, *exception: _Any) -> None:
        self.close()

    def __iter__(self) -> _Any:
        return iter(self._file)

    def __getattr__(self, name: str) -> _Any:
        if name in ("readline", "readlines", "write", "flush", "close", "seek", "tell", "seekable"):
            return getattr(self._file, name)
        raise AttributeError(f"tf.io.gfile.GFile has no {name!r}")


@_as_errors
def _open(path: str, mode: str) -> _Any:
    return open(path, mode, encoding=None if "b" in mode else "utf-8", newline=None if "b" in mode else "")


__all__ = ["GFile", "copy", "exists", "glob", "isdir", "join", "listdir", "makedirs", "mkdir", "remove", "rename",
           "rmtree", "stat", "walk"]
__getattr__ = _module_getattr(__name__)
