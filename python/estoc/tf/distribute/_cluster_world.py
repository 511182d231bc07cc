# SPDX-License-Identifier: Apache-2.0
"""The world of a ParameterServerStrategy: its variables are at ps tasks, its session is the coordinator's."""
from __future__ import annotations

import atexit
import sys
import weakref
from typing import Any

import numpy as np

from ..._lib import Keep, check, check_signals, ffi, lib, owned, text
from ..._tensor import py_shape, take_tensor, to_array, to_tensor
from ...errors import FailedPreconditionError
from ...graph import Shape
from .. import _world

_worlds: weakref.WeakSet = weakref.WeakSet()


class ClusterWorld(_world.World):
    """Connects when a value is first needed."""

    is_remote = is_shared = True
    shares_metrics = True

    def __init__(self, strategy: Any):
        super().__init__(_world._seed[0])
        self._strategy = weakref.ref(strategy)
        self._c_strategy = strategy._c
        self._coordinator: Any = None
        self.schedules = False  # a ClusterCoordinator of the program has the cluster, and keeps it
        self.network: Any = None  # that has the cluster, in place of a coordinator
        self._moving: dict[bytes, np.ndarray] = {}  # values for the next who has it
        _worlds.add(self)

    def coordinator(self) -> Any:
        """The est_coordinator, which takes the cluster over from a network that was fitted."""
        if self._coordinator is None:
            self._leave_network()
            keep, out = Keep(), ffi.new("est_coordinator **")
            self.graph.check()
            try:
                check_signals(lib.est_coordinator_create(self._c_strategy, self.graph._c,
                                                         keep.options("est_coordinator_options"), out))
            except FailedPreconditionError as error:
                if "run est_server_join here" not in error.message:
                    raise
                raise FailedPreconditionError(error.message.replace(
                    "run est_server_join here", "this one serves by tf.distribute.Server(...).join(), and ends with it")) from None
            self._coordinator = owned(out[0], "est_coordinator_free", parents=(self.graph, self._c_strategy))
            values, self._moving = self._moving, {}
            for name, value in values.items():
                check(lib.est_session_write(self.session(), name, to_tensor(value)))
        return self._coordinator

    def session(self) -> Any:
        pointer = lib.est_coordinator_session(self.coordinator())
        if self._session is None or pointer != self._session:
            self._session, self._known = pointer, -1
        self._initialize()
        return self._session

    def ready(self) -> Any:
        return self.session()

    def use(self, network: Any) -> bool:
        """Gives a network the cluster, whose coordinator it becomes; False: a ClusterCoordinator keeps it."""
        if self.schedules:
            return False
        self._leave_network()
        if self._coordinator is not None:
            names = [lib.est_node_name(node) for node in self._variables()]
            self._moving.update({ffi.string(name): self.read(ffi.string(name)) for name in names})
            coordinator, self._coordinator, self._session = self._coordinator, None, None
            ffi.release(coordinator)
        self.network = weakref.ref(network)
        return True

    def _variables(self) -> list:
        span = lib.est_global_variables(self.graph._c)
        return [span.data[i] for i in range(span.n)]

    def _leave_network(self) -> None:
        """The network that has the cluster gives it back with the values of its variables."""
        network, self.network = self.network() if self.network is not None else None, None
        if network is not None:
            self._moving.update(network.leave())

    def give_moved(self, network: Any) -> None:
        """Gives a network that has got the cluster the values that its variables had before."""
        for variable, name in network._pairs() if self._moving else ():
            if variable._bytes in self._moving:
                check(lib.est_session_write(network.session(), name, to_tensor(self._moving.pop(variable._bytes))))

    def _place(self, name: bytes) -> tuple[Any, bytes]:
        """The session that has a variable, and its name there."""
        network = self.network() if self.network is not None and self._coordinator is None else None
        found = network.name_of(name) if network is not None else None
        return (self.session(), name) if found is None else (network.session(), found)

    def read(self, name: bytes) -> np.ndarray:
        session, name = self._place(name)
        out = ffi.new("est_tensor **")
        check(lib.est_session_read(session, name, out))
        return to_array(take_tensor(out[0]))

    def put(self, name: bytes, value: np.ndarray) -> None:
        session, name = self._place(name)
        check(lib.est_session_write(session, name, to_tensor(value)))
        self.changed()

    def parts(self, variable: Any) -> list:
        session = self.session()
        n = lib.est_session_variable_parts(session, variable._bytes)
        return [variable] if n <= 1 else [Part(self, variable, i) for i in range(n)]

    def close(self) -> None:
        """Ends the job: the servers of other tasks return from join. A program that has failed only leaves, so that it
        can be started again."""
        network = self.network() if self.network is not None else None
        if network is not None:
            network.close()
        if self._coordinator is not None:
            coordinator, self._coordinator = self._coordinator, None
            if getattr(sys, "last_value", None) is None:
                lib.est_coordinator_end(coordinator)
            self._session = None
            ffi.release(coordinator)


class Part:
    """A shard of a variable at a ps task."""

    def __init__(self, world: ClusterWorld, variable: Any, i: int):
        part = ffi.new("est_variable_part *")
        check(lib.est_session_variable_part(world.session(), variable._bytes, i, part))
        self._world, self._variable, self._i = world, variable, i
        self.shape = Shape(py_shape(part.shape))
        self.device = text(part.device)
        self.dtype = variable.dtype
        self.trainable = variable.trainable
        self.name = f"{variable._name}/part_{i}:0"

    def numpy(self) -> np.ndarray:
        out = ffi.new("est_tensor **")
        check(lib.est_session_read_part(self._world.session(), self._variable._bytes, self._i, out))
        return to_array(take_tensor(out[0]), copy=True)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype)

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={tuple(self.shape)} dtype={self.dtype.name}>"


@atexit.register
def _close_all() -> None:
    """Before servers of this process go, which are closed at the end of all."""
    for world in list(_worlds):
        world.close()
