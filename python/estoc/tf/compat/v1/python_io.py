# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.python_io: TFRecord files."""
from __future__ import annotations

from typing import Any as _Any
from typing import Iterator as _Iterator

from .... import io as _io
from ..._absent import module_getattr as _module_getattr
from ...io import TFRecordOptions, TFRecordWriter  # noqa: F401


class TFRecordCompressionType:
    """How a TFRecord file is compressed."""

    NONE, ZLIB, GZIP = "", "ZLIB", "GZIP"


def tf_record_iterator(path: _Any, options: _Any = None) -> _Iterator[bytes]:
    """The records of a file."""
    return _io.read_tfrecords(path, getattr(options, "compression_type", options))


__getattr__ = _module_getattr(__name__)
