# SPDX-License-Identifier: Apache-2.0
"""Functions that are being traced into the graph of a world, and what is current in a thread: its traces, strategies,
replica and name scopes."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator, Sequence

from .._lib import lib
from ..graph import Graph, NeedsValue, Node, default_graph
from . import _structure

local = threading.local()  # traces, strategies, replica, scopes and seen_scopes of a thread


class Trace:
    """A function that is being traced: what a run must feed, and what it must do beside computing results."""

    def __init__(self, world: Any):
        self.world = world
        self.graph = world.graph
        self.pulls: list[tuple[Any, list[Node]]] = []  # iterators and the placeholders of their next elements
        self.draws: dict[Any, Any] = {}  # generators that it draws from, and what is drawn
        self.targets: list[Node] = []
        self.written: dict[str, list[Node]] = {}  # by name of variable, writes of this trace
        self.late: list = []  # called after tracing
        self.rereads = False  # whether it reads what it has written
        self.effects: list[tuple] = []  # (nodes, function of their values): done by Python after every run

    def __enter__(self) -> "Trace":
        self._alone = self.world.alone()
        self._alone.__enter__()
        local.__dict__.setdefault("traces", []).append(self)
        self._default = self.graph.as_default()
        self._default.__enter__()
        return self

    def __exit__(self, kind: Any, exception: Any, traceback: Any) -> None:
        try:
            local.traces.pop()
            self._default.__exit__(kind, exception, traceback)
            if kind is not None:
                lib.est_graph_recover(self.graph._c)
            for function in self.late:
                function()
        finally:
            self._alone.__exit__(None, None, None)

    def add_write(self, names: Sequence[str], operation: Node) -> None:
        self.targets.append(operation)
        for name in names:
            self.written.setdefault(name, []).append(operation)

    def pull(self, iterator: Any, spec: Any) -> Any:
        """Placeholders for the next element of an iterator."""
        leaves = _structure.flatten(spec)
        if any(getattr(leaf, "ragged", False) for leaf in leaves):
            raise NeedsValue("an iterator over VarLenFeatures is read outside of functions that are traced")
        nodes = [self.graph.placeholder(None, leaf.dtype, leaf.shape) for leaf in leaves]
        self.pulls.append((iterator, nodes))
        return _structure.pack_as(spec, nodes)


def current_trace() -> Trace | None:
    """The trace that builds now; None also in the function of a map within it, which has a graph of its own."""
    stack = local.__dict__.get("traces")
    return stack[-1] if stack and default_graph() is stack[-1].graph else None


def enter_thread(trace: Trace, strategies: list, replica: Any) -> None:
    """Makes a thread that C has started a part of a trace."""
    local.traces = [trace]
    local.strategies = list(strategies)
    local.replica = replica


def replica_context() -> Any:
    return local.__dict__.get("replica")


def set_replica_context(context: Any) -> None:
    local.replica = context


def strategies() -> list:
    return local.__dict__.setdefault("strategies", [])


def updates_of(graph: Graph) -> int:
    return lib.est_update_ops(graph._c).n


def take_updates(graph: Graph, before: int) -> None:
    """What layers must do in every training step (moving averages) becomes a part of the trace."""
    trace = current_trace()
    if trace is None or trace.graph is not graph:
        return
    span = lib.est_update_ops(graph._c)
    for i in range(before, span.n):
        trace.targets.append(Node(graph, span.data[i]))


def name_scopes() -> list:
    """The names of tf.name_scope around what is made now, outside of graphs and in functions."""
    return local.__dict__.setdefault("scopes", [])


@contextlib.contextmanager
def enter_scope(name: str) -> Iterator[list]:
    """A name below those around, the whole path if it ends with "/", or none if it is empty. In a function that is
    traced the second one of a name is name_1."""
    scopes = name_scopes()
    before, seen = list(scopes), local.__dict__.get("seen_scopes")
    if not name or name.endswith("/"):
        scopes[:] = [name[:-1]] if name else []
    else:
        own, number = name, 0
        while seen is not None and tuple(before + [own]) in seen:
            number += 1
            own = f"{name}_{number}"
        scopes.append(own)
        if seen is not None:
            seen.add(tuple(scopes))
    try:
        yield scopes
    finally:
        scopes[:] = before


@contextlib.contextmanager
def scopes_of_function(traced: bool) -> Iterator[None]:
    """A function of the user begins without the scopes around its call."""
    before, seen = name_scopes(), local.__dict__.get("seen_scopes")
    local.scopes, local.seen_scopes = [], set() if traced else None
    try:
        yield
    finally:
        local.scopes, local.seen_scopes = before, seen


def current_strategy() -> Any:
    stack = local.__dict__.get("strategies")
    return stack[-1] if stack else None
