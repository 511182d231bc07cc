# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.gfile: tf.io.gfile under the names of TensorFlow 1.x."""
from __future__ import annotations

from typing import Any as _Any

from ...io.gfile import GFile, GFile as FastGFile, GFile as Open  # noqa: F401
from ...io.gfile import copy as Copy, exists as Exists, glob as Glob, isdir as IsDirectory  # noqa: F401,N812
from ...io.gfile import listdir as ListDirectory, makedirs as MakeDirs, mkdir as MkDir  # noqa: F401,N812
from ...io.gfile import remove as Remove, rename as Rename, rmtree as DeleteRecursively, stat as Stat  # noqa: F401,N812
from ...io.gfile import walk as _walk
from ..._absent import module_getattr as _module_getattr


def Walk(top: _Any, in_order: bool = True) -> _Any:  # noqa: N802
    """The folders below one, each with its folders and files: from the top, or, not in order, from the innermost."""
    return _walk(top, in_order)


__getattr__ = _module_getattr(__name__)
