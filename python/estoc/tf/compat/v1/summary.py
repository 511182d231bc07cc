# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.summary: what sessions compute for TensorBoard, and files for it. Session.run of a summary gives a
Summary with its values, which FileWriter.add_summary takes; TensorFlow gives the bytes of one."""
from __future__ import annotations

from typing import Any, NamedTuple

from .... import graph as _base
from ....summary import SummaryWriter as _Writer
from ..._absent import module_getattr
from . import _graph


class _Part(NamedTuple):
    kind: str
    tag: str
    node: Any
    most: int = 0


class Summary:
    """Values of summaries: value has (tag, simple_value, ...) for each."""

    class Value:
        """One value."""

        def __init__(self, tag: str = "", simple_value: Any = None, _kind: str = "scalar", _data: Any = None):
            self.tag, self.kind = tag, _kind
            self.data = simple_value if _data is None else _data
            self.simple_value = simple_value

    def __init__(self, value: Any = ()):
        self.value = list(value)


class SummaryOp:
    """A summary as something to fetch."""

    def __init__(self, parts: list[_Part]):
        self.parts = parts

    name = property(lambda self: self.parts[0].tag if len(self.parts) == 1 else "Merge/MergeSummary:0")

    def _fetch_parts(self) -> Any:
        def combine(values: list[Any]) -> Summary:
            return Summary([Summary.Value(part.tag, float(value) if part.kind == "scalar" else None, part.kind,
                                          (value, part.most) if part.kind == "image" else value)
                            for part, value in zip(self.parts, values)])

        return [part.node for part in self.parts], combine

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:  # noqa: A003
        return _graph._session(session).run(self, feed_dict)


def _add(kind: str, name: str, tensor: Any, collections: Any, most: int = 0) -> SummaryOp:
    graph = _graph.get_default_graph()
    names = _graph.state_of(graph).names
    tag = (names[-1] if names else "") + name
    node = tensor.value() if isinstance(tensor, _base.Variable) else _base.as_node(tensor, graph)
    made = SummaryOp([_Part(kind, _graph._unique(graph, "summary:" + tag)[len("summary:"):], node, most)])
    graph.__dict__.setdefault("summaries", []).extend(made.parts)  # what an Estimator writes
    for key in [_graph.GraphKeys.SUMMARIES] if collections is None else collections:
        _graph.add_to_collection(key, made)
    return made


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> SummaryOp:
    """One number."""
    return _add("scalar", f"{family}/{name}" if family else name, tensor, collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> SummaryOp:
    """How numbers are distributed."""
    return _add("histogram", f"{family}/{name}" if family else name, values, collections)


def text(name: str, tensor: Any, collections: Any = None) -> SummaryOp:
    """One string."""
    return _add("text", name, tensor, collections)


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None,
          family: str | None = None) -> SummaryOp:
    """The first pictures of [n, height, width, channels]."""
    return _add("image", f"{family}/{name}" if family else name, tensor, collections, max_outputs)


def merge(inputs: Any, collections: Any = None, name: str | None = None) -> SummaryOp:
    """One for several."""
    return SummaryOp([part for item in inputs for part in item.parts])


def merge_all(key: str = _graph.GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Any:
    """One for all of the graph; None: there is none."""
    made = [item for item in _graph.get_collection(key) if scope is None or item.name.startswith(scope)]
    return merge(made) if made else None


class FileWriter(_Writer):
    """Writes event files."""

    def __init__(self, logdir: Any, graph: Any = None, max_queue: int = 10, flush_secs: int = 120,
                 graph_def: Any = None, filename_suffix: str | None = None, session: Any = None):
        super().__init__(logdir, filename_suffix or "")
        graph = graph if graph is not None else getattr(session, "graph", None)
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)

    def get_logdir(self) -> str:
        return self._directory

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Writes what Session.run gave of a summary."""
        if not isinstance(summary, Summary):
            raise TypeError(f"add_summary takes a Summary, or what Session.run gives of one; not "
                            f"{type(summary).__name__}")
        self.write([(value.kind, value.tag, value.data) for value in summary.value], int(global_step or 0))

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Writes a graph, or a GraphDef."""
        if graph_def is None and not isinstance(graph, _graph.Graph):
            graph, graph_def = None, graph  # as TensorFlow once had it
        found = graph.as_graph_def() if graph_def is None else graph_def
        self.graph(found.SerializeToString(), int(global_step or 0))


__all__ = ["FileWriter", "Summary", "histogram", "image", "merge", "merge_all", "scalar", "text"]
__getattr__ = module_getattr(__name__)
