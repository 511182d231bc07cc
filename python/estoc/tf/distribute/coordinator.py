# SPDX-License-Identifier: Apache-2.0
"""tf.distribute.coordinator: one program hands out calls of functions to the workers of a cluster."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from ... import errors as _errors
from ..._lib import Keep as _Keep
from ..._lib import check as _check
from ..._lib import check_signals as _check_signals
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from ..._lib import owned as _owned
from ..._tensor import as_array as _as_array
from ..._tensor import take_tensor as _take_tensor
from ..._tensor import to_array as _to_array
from ..._tensor import to_tensor as _to_tensor
from ...data import Dataset as _Dataset
from ...graph import Node as _Node
from .. import _structure, _trace, _world
from .._absent import module_getattr as _module_getattr
from .._eager import Tensor as _Tensor
from .._eager import unwrap as _unwrap
from .._function import Function as _Function


class RemoteValue:
    """The result of a scheduled call."""

    def __init__(self, pointer: _Any, concrete: _Any, parents: tuple):
        self._c = _owned(pointer, "est_remote_value_free", parents=parents)
        self._concrete = concrete

    def fetch(self) -> _Any:
        """Waits for the result: numpy arrays and numbers in the structure that the function returned."""
        values = iter(self._arrays())
        return _structure.pack_as(self._concrete._outputs, [
            _plain(next(values)) if isinstance(leaf, _Node) else leaf.numpy() if isinstance(leaf, _Tensor) else leaf
            for leaf in self._concrete.leaves])

    def get(self) -> _Any:
        """Waits for the result, as tensors."""
        values = iter(self._arrays())
        return _structure.pack_as(self._concrete._outputs, [
            _Tensor(next(values)) if isinstance(leaf, _Node) else leaf for leaf in self._concrete.leaves])

    def _arrays(self) -> list:
        found = []
        out = _ffi.new("est_tensor **")
        for i in range(len(self._concrete._nodes)):
            _check_signals(_lib.est_remote_value_fetch(self._c, i, out))
            found.append(_to_array(_take_tensor(out[0]), copy=True))
        return found


def _plain(value: _np.ndarray) -> _Any:
    return value[()] if value.ndim == 0 else value


class PerWorkerDataset:
    """A dataset at every worker."""

    def __init__(self, coordinator: "ClusterCoordinator", dataset: _Dataset):
        out = _ffi.new("est_per_worker **")
        pointer, keep = dataset._finish(passes=True)
        native = _owned(pointer, "est_dataset_free", parents=(keep, dataset))
        _check(_lib.est_coordinator_dataset(coordinator._world.coordinator(), native, _ffi.NULL, out))
        self._c = _owned(out[0], "est_per_worker_free", parents=(coordinator._world,))
        self._names = dataset._names
        self.element_spec = dataset.element_spec

    def __iter__(self) -> "PerWorkerIterator":
        return PerWorkerIterator(self)


class PerWorkerIterator:
    """An iterator at every worker: a function that takes one reads the worker's own."""

    def __init__(self, dataset: PerWorkerDataset):
        out = _ffi.new("est_per_worker **")
        _check(_lib.est_per_worker_iterator(dataset._c, out))
        self._c = _owned(out[0], "est_per_worker_free", parents=(dataset,))
        self._names = dataset._names
        self.element_spec = dataset.element_spec

    def _next_values(self) -> list:
        raise _errors.InvalidArgumentError("an iterator of the workers is read by functions that the coordinator "
                                           "schedules")

    def __next__(self) -> _Any:
        trace = _trace.current_trace()
        if trace is None:
            self._next_values()
        return trace.pull(self, self.element_spec)

    get_next = __next__


class ClusterCoordinator:
    """Schedules functions of a ParameterServerStrategy on its workers."""

    def __init__(self, strategy: _Any):
        from . import ParameterServerStrategy
        if not isinstance(strategy, ParameterServerStrategy):
            raise ValueError("Only `tf.distribute.ParameterServerStrategy` is supported to work with "
                             "`tf.distribute.experimental.coordinator.ClusterCoordinator` currently.")
        self.strategy = strategy
        self._world = strategy._world()
        self._functions: dict = {}
        self._world.schedules = True
        self._world.coordinator()

    def schedule(self, fn: _Callable, args: tuple = (), kwargs: dict | None = None) -> RemoteValue:
        """Puts a call into the queue: any worker makes it. An error of an earlier call is raised here or by join."""
        if not isinstance(fn, _Function):
            fn = self._functions.setdefault(fn, _Function(fn))
        with self.strategy.scope():
            concrete, leaves = fn.concrete(tuple(args), dict(kwargs or {}), self._world)
        if concrete._effects:
            raise NotImplementedError("tf.print and tf.summary do not exist in functions that workers run: return the "
                                      "tensor, and write it after fetch()")
        if concrete.world is not self._world:
            raise ValueError(f"{fn.__name__} uses no variables of the strategy of this coordinator")
        keep, out = _Keep(), _ffi.new("est_remote_value **")
        _world.before_write(self._world, lambda: None)
        _check_signals(_lib.est_coordinator_schedule(self._world.coordinator(), self._function(concrete),
                                                     self._arguments(concrete, leaves, keep), out))
        self._world.changed()
        return RemoteValue(out[0], concrete, (self._world,))

    def _function(self, concrete: _Any) -> _Any:
        """The trace as a function at the workers."""
        if concrete._step is None:
            keep, out = _Keep(), _ffi.new("est_function **")
            _check(_lib.est_coordinator_function(
                self._world.coordinator(), concrete.name.encode(), _world._span(keep, concrete.feeds),
                _world._span(keep, concrete._nodes), _world._span(keep, concrete._targets), out))
            concrete._step = _owned(out[0], "est_function_free", parents=(self._world,))
        return concrete._step

    def _arguments(self, concrete: _Any, leaves: list, keep: _Keep) -> _Any:
        arguments, feeds = [], iter(concrete.feeds)
        for i in concrete.places:
            node = next(feeds)
            tensor = _to_tensor(_as_array(_unwrap(leaves[i]), node.dtype))
            keep.append(tensor)
            arguments.append({"node": node._c, "value": tensor})
        seen: set = set()
        for iterator, nodes in concrete._pulls:
            iterator = leaves[iterator] if isinstance(iterator, int) else iterator
            if not isinstance(iterator, PerWorkerIterator):
                raise TypeError("a scheduled function reads iterators of create_per_worker_dataset; others are in this "
                                "process")
            if id(iterator) in seen:
                raise NotImplementedError("a scheduled function calls next() once for each iterator; batch twice as "
                                          "many")
            seen.add(id(iterator))
            for name, _ in zip(iterator._names, nodes):
                arguments.append({"node": next(feeds)._c, "from": iterator._c, "component": keep.string(name)})
        return keep.span("est_arguments", "est_argument", arguments)

    def join(self) -> None:
        """Waits until all scheduled calls have completed."""
        _check_signals(_lib.est_coordinator_join(self._world.coordinator()))
        self._world.changed()

    def done(self) -> bool:
        """Whether all scheduled calls have completed."""
        out = _ffi.new("_Bool *")
        _check_signals(_lib.est_coordinator_done(self._world.coordinator(), out))
        return bool(out[0])

    def fetch(self, val: _Any) -> _Any:
        """The values of a structure of RemoteValues."""
        return _structure.map_structure(lambda leaf: leaf.fetch() if isinstance(leaf, RemoteValue) else leaf, val)

    def create_per_worker_dataset(self, dataset_fn: _Any) -> PerWorkerDataset:
        """The dataset of a function (or a dataset) at every worker, in an order of its own where it is shuffled."""
        if isinstance(dataset_fn, _Function):
            dataset_fn = dataset_fn.python_function
        dataset = dataset_fn() if callable(dataset_fn) else dataset_fn
        if not isinstance(dataset, _Dataset):
            raise TypeError(f"dataset_fn returned {type(dataset).__name__}; it returns a tf.data.Dataset")
        return PerWorkerDataset(self, dataset)

    def create_per_worker_resource(self, resource_fn: _Any) -> _Any:
        raise NotImplementedError("create_per_worker_resource does not exist yet; datasets do")


__getattr__ = _module_getattr(__name__)
