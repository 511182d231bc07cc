# SPDX-License-Identifier: Apache-2.0
"""Event files for TensorBoard.

    with estoc.SummaryWriter("runs/x") as writer:
        writer.scalar("loss", 0.3, step=10)
"""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from ._lib import Keep, check, ffi, lib, owned, running, text
from ._tensor import as_array, as_dtype, c_shape


class SummaryWriter:
    """Writes an event file in a directory. A failure to write is logged, and does not end the program."""

    def __init__(self, directory: str | os.PathLike, suffix: str = ""):
        keep, out = Keep(), ffi.new("est_summary_writer **")
        self._directory = os.fspath(directory)
        check(lib.est_summary_writer_create(keep.string(directory), keep.string(suffix), out))
        self._c = owned(out[0], "est_summary_writer_free")
        running.add(self)

    def _writer(self) -> Any:
        if self._c is None:
            raise RuntimeError("the summary writer is closed")
        return self._c

    def write(self, values: list[tuple], step: int) -> None:
        """One event of (kind, tag, value): "scalar", "histogram", "text" or "image" with (array, max)."""
        writer = self._writer()
        lib.est_summary_begin(writer, int(step))
        for kind, tag, value in values:
            getattr(self, "_" + kind)(writer, tag.encode(), value)
        lib.est_summary_end(writer)

    def graph(self, graph_def: bytes, step: int = 0) -> None:
        """An encoded GraphDef, which TensorBoard shows."""
        keep = Keep()
        lib.est_summary_graph(self._writer(), int(step),
                              keep.new("est_str *", (keep.new("char[]", graph_def), len(graph_def)))[0])

    @staticmethod
    def _scalar(writer: Any, tag: bytes, value: Any) -> None:
        array = np.asarray(value)
        if array.size != 1:
            raise ValueError(f"the scalar {tag.decode()!r} has the shape {array.shape}; a histogram shows more numbers")
        lib.est_summary_add_scalar(writer, tag, float(array.reshape(())))

    @staticmethod
    def _histogram(writer: Any, tag: bytes, value: Any) -> None:
        array = as_array(value)
        lib.est_summary_add_histogram(writer, tag, as_dtype(array.dtype).number, ffi.cast("void *", array.ctypes.data),
                                      array.size)

    @staticmethod
    def _text(writer: Any, tag: bytes, value: Any) -> None:
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        value = value.encode() if isinstance(value, str) else value
        if not isinstance(value, bytes):
            raise TypeError(f"the text {tag.decode()!r} is {type(value).__name__}; one string is written")
        keep = Keep()
        lib.est_summary_add_text(writer, tag, keep.new("est_str *", (keep.new("char[]", value), len(value)))[0])

    @staticmethod
    def _image(writer: Any, tag: bytes, value: Any) -> None:
        array, most = value
        array = as_array(array)
        if array.ndim != 4 or not 1 <= array.shape[3] <= 4:
            raise ValueError(f"the images {tag.decode()!r} have the shape {array.shape}; they are [n, height, "
                             "width, 1 to 4 channels]")
        keep = Keep()
        shape = keep.new("est_shape *", c_shape(array.shape))
        lib.est_summary_add_images(writer, tag, as_dtype(array.dtype).number, shape,
                                   ffi.cast("void *", array.ctypes.data), most)

    def scalar(self, tag: str, value: Any, step: int) -> None:
        """One number."""
        self.write([("scalar", tag, value)], step)

    def histogram(self, tag: str, values: Any, step: int) -> None:
        """How numbers are distributed."""
        self.write([("histogram", tag, values)], step)

    def text(self, tag: str, value: str, step: int) -> None:
        """A text."""
        self.write([("text", tag, value)], step)

    def image(self, tag: str, values: Any, step: int, max_outputs: int = 3) -> None:
        """The first pictures of [n, height, width, channels]."""
        self.write([("image", tag, (values, max_outputs))], step)

    @property
    def path(self) -> str:
        """Of its file; "" before the first event."""
        return text(lib.est_summary_writer_path(self._writer()))

    def flush(self) -> None:
        """Writes what is buffered to the file, and raises if that ever failed."""
        lib.est_summary_flush(self._writer())
        check(lib.est_summary_writer_status(self._c))

    def close(self) -> None:
        """Flushes and closes the file."""
        if self._c is not None:
            ffi.release(self._c)
            self._c = None
            running.discard(self)

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


class EventReader:
    """The entries of event files, of this library or of TensorFlow: dicts with step, tag, kind, wall_time and value."""

    _KINDS = {1: "scalar", 2: "text", 3: "histogram", 4: "image", 5: "tensor"}

    def __init__(self, path: str | os.PathLike):
        keep, out = Keep(), ffi.new("est_events **")
        check(lib.est_events_open(keep.string(path), out))
        self._c = owned(out[0], "est_events_close")

    def __iter__(self) -> "EventReader":
        return self

    def __next__(self) -> dict[str, Any]:
        from . import errors
        from ._tensor import take_tensor, to_array

        entry = ffi.new("est_event_entry *")
        while True:
            status = lib.est_events_next(self._c, entry)
            if status == errors.OUT_OF_RANGE:
                raise StopIteration
            check(status)
            kind = self._KINDS.get(int(entry.kind))
            if kind is None:
                continue
            if kind == "scalar":
                value: Any = entry.number
            elif kind == "text":
                value = bytes(ffi.buffer(entry.text.data, entry.text.size)).decode("utf-8", "replace")
            else:
                out = ffi.new("est_tensor **")
                check(lib.est_entry_tensor(entry, out))
                value = to_array(take_tensor(out[0]))
            return {"step": int(entry.step), "kind": kind, "wall_time": entry.wall_time, "value": value,
                    "tag": bytes(ffi.buffer(entry.tag.data, entry.tag.size)).decode("utf-8", "replace")}
