# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.gfile: tf.io.gfile under the names of TensorFlow 1.x."""
from ...io.gfile import GFile, GFile as FastGFile, GFile as Open  # noqa: F401
from ...io.gfile import copy as Copy, exists as Exists, glob as Glob, isdir as IsDirectory  # noqa: F401,N812
from ...io.gfile import listdir as ListDirectory, makedirs as MakeDirs, mkdir as MkDir  # noqa: F401,N812
from ...io.gfile import remove as Remove, rename as Rename, rmtree as DeleteRecursively, stat as Stat  # noqa: F401,N812
from ...io.gfile import walk as Walk  # noqa: F401,N812
from ..._absent import module_getattr as _module_getattr

__getattr__ = _module_getattr(__name__)
