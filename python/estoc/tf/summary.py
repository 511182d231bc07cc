# SPDX-License-Identifier: Apache-2.0
"""tf.summary: values for TensorBoard, written at once by the default writer. Scalars, histograms and images have the
form of tf.compat.v1.summary, which TensorBoard shows alike."""
from __future__ import annotations

import contextlib as _contextlib
import threading as _threading
from typing import Any as _Any

import numpy as _np

from .. import ops as _ops
from ..graph import Node as _Node
from ..summary import SummaryWriter as _Writer
from ._absent import module_getattr as _module_getattr
from ._eager import unwrap as _unwrap
from ._function import shown as _shown
from ._variable import Variable as _Variable
from ._trace import current_trace as _current_trace
from ._trace import name_scopes as _name_scopes

_local = _threading.local()


def _writers() -> list:
    return _local.__dict__.setdefault("writers", [])


class SummaryWriter(_Writer):
    """A writer of event files; as_default makes it the one that tf.summary writes to."""

    @_contextlib.contextmanager
    def as_default(self, step: _Any = None) -> _Any:
        before = get_step()
        _writers().append(self)
        if step is not None:
            experimental_set_step(step)
        try:
            yield self
        finally:
            _writers().remove(self)
            experimental_set_step(before)
            self.flush()

    def set_as_default(self, step: _Any = None) -> None:
        _writers().append(self)
        if step is not None:
            experimental_set_step(step)

    def init(self) -> None:
        """The file is made with the first event."""


def create_file_writer(logdir: _Any, max_queue: _Any = None, flush_millis: _Any = None, filename_suffix: _Any = None,
                       name: str | None = None, experimental_trackable: bool = False) -> SummaryWriter:
    """A writer of an event file in a directory."""
    return SummaryWriter(logdir, filename_suffix if filename_suffix is not None else ".v2")


@_contextlib.contextmanager
def _no_writer() -> _Any:
    _writers().append(None)
    try:
        yield
    finally:
        _writers().remove(None)


def create_noop_writer() -> _Any:
    """A writer that writes nothing, for tasks that are not the chief."""
    class Noop:
        def as_default(self, step: _Any = None) -> _Any:
            return _no_writer()

        def flush(self) -> None:
            """Nothing is there."""

        close = init = flush

    return Noop()


def experimental_set_step(step: _Any) -> None:
    """Sets the step of summaries that are given none."""
    _local.step = step


def get_step() -> _Any:
    """The step of summaries that are given none."""
    return _local.__dict__.get("step")


class experimental:  # noqa: N801 - a module in TensorFlow
    """tf.summary.experimental"""

    set_step = staticmethod(experimental_set_step)
    get_step = staticmethod(get_step)


def _step(step: _Any) -> _Any:
    step = get_step() if step is None else step
    if step is None:
        raise ValueError("No step set. Please specify one either through the `step` argument or through "
                         "tf.summary.experimental.set_step()")
    return step


def _number(step: _Any) -> int:
    return int(_np.asarray(step.numpy() if hasattr(step, "numpy") else step))


@_contextlib.contextmanager
def record_if(condition: _Any) -> _Any:
    """In the block a writer takes summaries only where the condition holds: a boolean, a tensor or a function of no
    arguments that gives one."""
    before = _local.__dict__.get("condition", True)
    _local.condition = condition
    try:
        yield
    finally:
        _local.condition = before


def _condition() -> _Any:
    condition = _local.__dict__.get("condition", True)
    condition = condition() if callable(condition) else condition
    return _read(condition)


def should_record_summaries() -> _Any:
    """Whether a writer takes summaries."""
    if not _writers() or _writers()[-1] is None:
        return False
    condition = _condition()
    return condition if isinstance(condition, _Node) else bool(_unwrap(condition))


def graph(graph_data: _Any) -> bool:
    """Writes a graph of tf.compat.v1, or a GraphDef, for TensorBoard; whether it was written."""
    if _current_trace() is not None:
        raise ValueError("graph() cannot be invoked inside a graph context.")
    return _write_graph(graph_data.as_graph_def() if hasattr(graph_data, "as_graph_def") else graph_data, 0)


def _write_graph(graph_def: _Any, step: int) -> bool:
    wanted = should_record_summaries()
    if wanted:
        _writers()[-1].graph(graph_def.SerializeToString(), step)
    return bool(wanted)


def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: _Any = None) -> None:
    """From now on functions that run are noted down for trace_export."""
    if profiler:
        raise NotImplementedError("tf.summary.trace_on: profiler does not exist yet; tf.estimator.ProfilerHook writes "
                                  "timelines of steps")
    _shown[0] = {} if graph else None


def trace_off() -> None:
    """Forgets what was noted down."""
    _shown[0] = None


def trace_export(name: str, step: _Any = None, profiler_outdir: _Any = None) -> None:
    """Writes the operations of the functions that have run since trace_on as a graph, and forgets them. Files have one
    graph here, without a name; TensorFlow writes it under `name` and the step."""
    from .compat.v1 import _meta_graph
    if _shown[0] is None:
        raise ValueError("Must enable trace before export through tf.summary.trace_on.")
    functions, _shown[0] = list(_shown[0].values()), None
    for function in functions:
        _write_graph(_meta_graph.graph_def_of(function), _number(_step(step)))


def _write(kind: str, name: str, data: _Any, step: _Any) -> _Any:
    wanted = should_record_summaries()
    if wanted is False:
        return False
    writer, step, trace = _writers()[-1], _step(step), _current_trace()
    name = "/".join(_name_scopes() + [name])
    if trace is None:
        writer.write([(kind, name, _FORMS[kind](data))], _number(step))
        return True
    # a function that is traced writes after each of its runs
    if isinstance(step, _Variable):
        step = step._as_node(trace.graph)
    nodes = [part for part in (data if isinstance(data, tuple) else (data,)) + (step, wanted) if isinstance(part, _Node)]

    def write(values: list) -> None:
        if isinstance(wanted, _Node) and not values[-1]:
            return
        rest = iter(values)
        parts = [next(rest) if isinstance(part, _Node) else part for part in
                 (data if isinstance(data, tuple) else (data,))]
        number = next(rest) if isinstance(step, _Node) else step
        writer.write([(kind, name, _FORMS[kind](tuple(parts) if isinstance(data, tuple) else parts[0]))],
                     _number(number))

    trace.effects.append((nodes, write))
    return True


def _array(data: _Any) -> _Any:
    return _np.asarray(data.numpy() if hasattr(data, "numpy") else _unwrap(data))


def _read(data: _Any) -> _Any:
    """A variable as a tensor of the function that is traced, if there is one."""
    trace = _current_trace()
    if isinstance(data, (list, tuple)) and any(isinstance(item, _Node) for item in data):
        return _ops.stack(list(data))
    return data._as_node(trace.graph) if isinstance(data, _Variable) and trace is not None else data


def _picture(data: tuple) -> tuple:
    array = _array(data[0])
    if array.dtype.kind == "f":
        array = (_np.clip(array, 0, 1) * 255 + 0.5).astype(_np.uint8)  # the v1 form would scale by the largest
    return array, data[1]


#: Values as the writer takes them, by kind.
_FORMS = {"scalar": _array, "histogram": _array, "image": _picture,
          "text": lambda data: data.numpy() if hasattr(data, "numpy") else data[()] if isinstance(data, _np.ndarray)
          else data}


def _in_graph(data: _Any) -> _Any:
    """The functions of TensorFlow 1.x for a tensor of a model_fn or of a session's graph; None: it has a value."""
    if not isinstance(data, _Node):
        return None
    if getattr(data.graph, "world", None) is not None:
        return None
    from .compat.v1 import summary
    return summary


def scalar(name: str, data: _Any, step: _Any = None, description: str | None = None) -> _Any:
    """One number. True: it was written, since there is a default writer."""
    if _in_graph(data):
        return _in_graph(data).scalar(name, data)
    if not isinstance(data, _Node) and _array(data).ndim != 0:
        raise ValueError(f"the scalar {name!r} has the shape {_array(data).shape}")
    return _write("scalar", name, _read(data), step)


def histogram(name: str, data: _Any, step: _Any = None, buckets: _Any = None, description: str | None = None) -> _Any:
    """How numbers are distributed, in the buckets of tf.compat.v1.summary."""
    if _in_graph(data):
        return _in_graph(data).histogram(name, data)
    if buckets is not None:
        raise NotImplementedError("buckets does not exist: the buckets are those of tf.compat.v1.summary.histogram")
    return _write("histogram", name, _read(data), step)


def text(name: str, data: _Any, step: _Any = None, description: str | None = None) -> bool:
    """One string."""
    return _write("text", name, _read(data), step)


def image(name: str, data: _Any, step: _Any = None, max_outputs: int = 3, description: str | None = None) -> bool:
    """The first pictures of [n, height, width, channels]: uint8, or floats from 0 to 1."""
    return _write("image", name, (_read(data), max_outputs), step)


def flush(writer: _Any = None, name: str | None = None) -> None:
    """Flushes a writer, or the default one."""
    writer = writer if writer is not None else (_writers()[-1] if _writers() else None)
    if writer is not None:
        writer.flush()


__all__ = ["SummaryWriter", "create_file_writer", "create_noop_writer", "experimental", "flush", "histogram", "image",
           "record_if", "scalar", "should_record_summaries", "text"]
__getattr__ = _module_getattr(__name__)
