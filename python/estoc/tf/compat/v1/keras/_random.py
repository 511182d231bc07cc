# SPDX-License-Identifier: Apache-2.0
"""The same random numbers in a graph of TensorFlow 1 and in a program of TensorFlow 2."""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Iterator

from ....._lib import NULL, ffi, lib
from .... import _world
from .._graph import state_of

_MODES = ("constant", "num_random_ops")


class DeterministicRandomTestTool:
    """Within its scope random operations without a seed of their own draw by a number: "constant": all by the same one,
    so that equal shapes draw equal numbers; "num_random_ops": by 0, 1, 2 and so on, in the order in which operations and
    random initial values are made. Graphs, and all that is made at once, count together."""

    def __init__(self, seed: int = 42, mode: str = "constant"):
        if mode not in _MODES:
            raise ValueError(f"Mode arg must be 'constant' or 'num_random_ops'. Got: {mode}")
        self.mode = mode
        self._seed = _world.c_seed(seed)
        self._counter = ffi.new("est_seed_counter *", {"next": 1, "step": _MODES.index(mode)})
        self._first = 1  # what came from here on is not in `_used` yet
        self._used: set[int] = set()
        self._graphs: weakref.WeakSet = weakref.WeakSet()

    def _look(self, ahead: int = 0) -> None:
        """Notes the numbers that were used, none of which may come twice, nor so many that come next."""
        after = int(self._counter.next)
        came, self._first = range(self._first, after), after
        again = self._used.intersection(range(came.start, after + ahead))
        self._used.update(came)
        if again:
            raise ValueError(f"The operation seed {min(again) - 1} of this DeterministicRandomTestTool is used "
                             "twice: random numbers of a graph and of a program that computes at once would not match. An "
                             "operation_seed that was set runs into numbers that were used before.")
        return after

    @property
    def operation_seed(self) -> int:
        """The number of the next random operation."""
        return int(self._counter.next) - 1

    @operation_seed.setter
    def operation_seed(self, value: int) -> None:
        self._look()
        self._counter.next = self._first = int(value) + 1

    def number(self, graph: Any) -> Any:
        """The graph, whose random operations are numbered from now on."""
        self._look(ahead=1)
        lib.est_graph_set_seed(graph._c, self._seed)
        lib.est_graph_count_seeds(graph._c, self._counter)
        self._graphs.add(graph)
        state_of(graph).numbered = True
        return graph

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Variables that are made within are apart from those around it, as after clear_session."""
        before, seed = list(_world._default), _world._seed[0]
        _world._default.clear()
        _world.numbering.append(self)
        try:
            yield
            self._look()
        finally:
            _world.numbering.pop()
            _world._default[:] = before
            for graph in list(self._graphs):
                lib.est_graph_count_seeds(graph._c, NULL)
            if _world._seed[0] != seed:
                _world.set_seed(_world._seed[0])
