# SPDX-License-Identifier: Apache-2.0
"""Sessions of tf.compat.v1: estoc.Session with nested fetches, feeds by name, and iterators that feed themselves."""
from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from .... import graph as _base
from ...._lib import lib
from ....cluster import transport
from ....data import DatasetIterator
from ....errors import FailedPreconditionError, OutOfRangeError
from ....graph import Node, default_graph
from ....metrics import Metric
from ... import _devices
from ..._dataset import Source
from . import _graph
from ._graph import Variable, get_default_graph, initializes, state_of

# --- configuration ----------------------------------------------------------------------------------------------------


class _Message:
    """A protocol buffer as programs fill it: attributes that exist may be set."""

    _fields: Mapping[str, Any] = {}

    def __init__(self, **values: Any):
        for name, default in self._fields.items():
            self.__dict__[name] = default() if callable(default) else default
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields:
            raise ValueError(f"Protocol message {type(self).__name__} has no \"{name}\" field.")
        self.__dict__[name] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


class GPUOptions(_Message):
    """Which of the visible GPUs a session uses, and the part of their memory. It is always taken as it is needed, so that
    nothing depends on allow_growth."""

    _fields = {"allow_growth": False, "per_process_gpu_memory_fraction": 0.0, "visible_device_list": ""}


class GraphOptions(_Message):
    """Graphs are always optimised, so nothing depends on it."""

    _fields = {"enable_bfloat16_sendrecv": False, "build_cost_model": 0, "infer_shapes": False}


class ConfigProto(_Message):
    """How sessions run: intra_op_parallelism_threads is their number of threads; device_count["GPU"], gpu_options,
    allow_soft_placement and log_device_placement are about devices. Nothing depends on the other fields."""

    _fields = {"device_count": dict, "intra_op_parallelism_threads": 0, "inter_op_parallelism_threads": 0,
               "use_per_session_threads": False, "allow_soft_placement": False, "log_device_placement": False,
               "gpu_options": GPUOptions, "graph_options": GraphOptions, "operation_timeout_in_ms": 0,
               "device_filters": list, "isolate_session_state": False, "share_cluster_devices_in_session": False}


class RunOptions(_Message):
    """Refused by Session.run: estoc.hooks.profiler_hook traces runs."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)
    _fields = {"trace_level": 0, "timeout_in_ms": 0, "output_partition_graphs": False,
               "report_tensor_allocations_upon_oom": False}


def target_of(target: str | None) -> str | None:
    """A target of the library for one of a program, whose "grpc" is the default transport."""
    if not target or target == "local":
        return None
    if target.startswith("grpc://"):
        return f"{transport(os.environ.get('ESTOC_PROTOCOL')) or 'tls'}://{target[len('grpc://'):]}"
    return target


# --- fetches ----------------------------------------------------------------------------------------------------------


class Fetches:
    """A nested structure of what is fetched: the nodes, and how values become the same structure."""

    def __init__(self, graph: _base.Graph, fetches: Any, session: Any = None):
        self.graph = graph
        self._session = session
        self.nodes: list[Node] = []
        self._pack = self._leaf(fetches)

    def pack(self, values: list[Any]) -> Any:
        return self._pack(values)

    def _leaf(self, fetch: Any) -> Callable:
        if isinstance(fetch, Metric):
            fetch = tuple(fetch)
        if isinstance(fetch, Mapping):
            parts = {key: self._leaf(item) for key, item in fetch.items()}
            kind = type(fetch)
            return lambda values: kind((key, part(values)) for key, part in parts.items())
        if isinstance(fetch, (list, tuple)):
            items = [self._leaf(item) for item in fetch]
            kind = type(fetch)
            if hasattr(fetch, "_fields"):
                return lambda values: kind(*(item(values) for item in items))
            return lambda values: kind(item(values) for item in items)
        if isinstance(fetch, str):
            fetch = self._named(fetch)
        if isinstance(fetch, _graph.Uninitialized):
            return lambda values: fetch.names(self._session)
        if hasattr(fetch, "_fetch_parts"):  # a summary
            parts_of, combine = fetch._fetch_parts()
            inner = self._leaf(parts_of)
            return lambda values: combine(inner(values))
        if isinstance(fetch, _base.Variable):
            fetch = fetch._snapshot if isinstance(fetch, Variable) else fetch.value()
        if isinstance(fetch, Node):
            if fetch.graph._c != self.graph._c:
                raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. (Tensor {fetch.name} "
                                 "is not an element of this graph.)")
            at = len(self.nodes)
            self.nodes.append(fetch)
            if isinstance(fetch, _graph.Operation):
                return lambda values: None
            return lambda values: values[at]
        if hasattr(fetch, "_value"):  # a value needs no run
            value = fetch.numpy()
            return lambda values: value
        raise TypeError(f"Fetch argument {fetch!r} has invalid type {type(fetch).__name__}, must be a string or "
                        "Tensor. (Can not convert it into a Tensor or Operation.)")

    def _named(self, name: str) -> Any:
        try:
            return self.graph.as_graph_element(name)
        except KeyError as error:
            raise ValueError(f"Argument `fetch` = {name} cannot be interpreted as a Tensor. ({error})") from None


def plain(value: Any) -> Any:
    """Scalars as numpy scalars or bytes."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def feeds_of(graph: _base.Graph, feed_dict: Mapping[Any, Any] | None) -> dict[Node, Any]:
    feeds: dict[Node, Any] = {}
    for key, value in (feed_dict or {}).items():
        if isinstance(key, (tuple, list)):
            feeds.update(feeds_of(graph, dict(zip(key, value))))
            continue
        node = _fed_by_name(graph, key) if isinstance(key, str) else key
        if not isinstance(node, Node) or isinstance(node, _base.Variable):
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {key!r}")
        if isinstance(value, Node):
            raise TypeError("The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python "
                            "scalars, strings, lists, numpy ndarrays.")
        feeds[node] = value
    return feeds


def _fed_by_name(graph: _base.Graph, name: str) -> Node:
    try:
        return graph.get_tensor_by_name(name)
    except (KeyError, ValueError) as error:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error.args[0]}") from None


# --- iterators --------------------------------------------------------------------------------------------------------


class IteratorState:
    """Where iterators of a graph are, in one session."""

    def __init__(self, graph: _base.Graph):
        self.graph = graph
        self._open: dict[Any, DatasetIterator] = {}
        self._plans: dict[Any, Any] = {}

    def feed(self, nodes: list[Node], feeds: dict[Node, Any], run: Callable) -> dict[Node, Any]:
        """The feeds with an element of every iterator that the nodes need. run(nodes, feeds) gives values of tensors
        that datasets are made of."""
        iterators = state_of(self.graph).iterators
        if not iterators:
            return feeds
        key = (tuple((node._c.id, node._c.output) for node in nodes), len(iterators),
               sum(len(iterator.resets) + len(iterator.elements) for iterator in iterators))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(nodes, iterators)
        resets, pulls = plan
        for iterator, dataset in resets:
            self._start(iterator, dataset, lambda nodes: run(nodes, feeds))
        feeds = dict(feeds)
        for iterator, element in pulls:
            if not any(node in feeds for node in element):
                feeds.update(zip(element, self._next(iterator._fed(feeds), run)))
        return feeds

    def _plan(self, nodes: list[Node], iterators: list) -> Any:
        resets = [(iterator, dataset) for iterator in iterators for operation, dataset in iterator.resets
                  if self.graph.needs(nodes, operation)]
        pulls = [(iterator, element) for iterator in iterators for element in iterator.elements
                 if any(self.graph.needs(nodes, node) for node in element)]
        return resets, pulls

    def _start(self, iterator: Any, dataset: Any, values_of: Callable) -> None:
        old = self._open.pop(iterator, None)
        if old is not None:
            old.close()
        Source.bound = {source: values_of(source.nodes) for source in Source.of(dataset)}
        try:
            self._open[iterator] = DatasetIterator(dataset)
        finally:
            Source.bound = {}

    def _next(self, iterator: Any, run: Callable) -> list[Any]:
        if iterator not in self._open:
            if iterator.dataset is None:
                raise FailedPreconditionError(
                    "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                    "initializer operation for this iterator before getting the next element.", None)
            self._start(iterator, iterator.dataset, lambda nodes: run(nodes, {}))
        try:
            return iterator.leaves(next(self._open[iterator]))
        except StopIteration:
            raise OutOfRangeError("End of sequence", None) from None

    def close(self) -> None:
        for iterator in self._open.values():
            iterator.close()
        self._open.clear()


# --- sessions ---------------------------------------------------------------------------------------------------------

_sessions = threading.local()


def get_default_session() -> Any:
    """The session whose block this is, or None."""
    stack = _sessions.__dict__.get("stack")
    return stack[-1] if stack else None


class BaseSession:
    """What Session and the sessions of monitored loops share: run, over `_run` of the kind."""

    graph: _base.Graph
    _iterators: IteratorState

    def run(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, options: Any = None,
            run_metadata: Any = None) -> Any:
        """The values of fetches: a tensor, an operation (None), a variable, a name, or lists, tuples and dicts of
        them."""
        if options is not None or run_metadata is not None:
            raise NotImplementedError("options and run_metadata do not exist; tf.estimator.ProfilerHook traces runs")
        made = Fetches(self.graph, fetches, self)
        feeds = self._iterators.feed(made.nodes, feeds_of(self.graph, feed_dict), self._compute)
        for signature in state_of(self.graph).loaded:
            signature.feed(made.nodes, feeds)
        values = self._run_and_print(made.nodes, feeds) if made.nodes else []
        return made.pack([plain(value) for value in values])

    def _run_and_print(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        """_run, with what tf.Print shows of tensors that the nodes need."""
        prints = [item for item in state_of(self.graph).prints if item.left and self.graph.needs(nodes, item.node)]
        if not prints:
            return self._run(nodes, feeds)
        values = self._run(nodes + [node for item in prints for node in item.data], feeds)
        shown = iter(values[len(nodes):])
        for item in prints:
            item.show([next(shown) for _ in item.data])
        return values[:len(nodes)]

    def make_callable(self, fetches: Any, feed_list: Any = None, accept_options: bool = False) -> Callable:
        """run as a function of the values of feed_list."""
        nodes = list(feed_list or [])
        return lambda *values: self.run(fetches, dict(zip(nodes, values)))

    def _run(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        raise NotImplementedError

    def _compute(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        """Values beside the runs of the program."""
        return self._run(nodes, feeds)

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Any]:
        """The session of eval() and run() of tensors and operations."""
        stack = _sessions.__dict__.setdefault("stack", [])
        stack.append(self)
        try:
            yield self
        finally:
            stack.remove(self)


class Session(BaseSession):
    """Runs a graph. With a target (Server.target) variables and operations are at the tasks of that cluster."""

    def __init__(self, target: str = "", graph: _base.Graph | None = None, config: Any = None):
        self.graph = graph if graph is not None else get_default_graph()
        threads = getattr(config, "intra_op_parallelism_threads", 0)
        self.sess_str = target or ""
        target = target_of(target)
        self._own = _base.Session(self.graph, threads=threads, target=target,
                                  **({} if target else _devices.options_of(config)))
        self._iterators = IteratorState(self.graph)
        self._stack: list[contextlib.ExitStack] = []

    graph_def = property(lambda self: self.graph.as_graph_def())

    def _run(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        if not (state_of(self.graph).numbered and all(map(initializes, nodes))):
            return self._own._run(nodes, feeds)
        count = lib.est_session_run_count(self._c)
        values = self._own._run(nodes, feeds)
        lib.est_session_set_run_count(self._c, count)  # the first run behind it draws what a program does that has none
        return values

    def _write(self, variable: _base.Variable, value: Any) -> None:
        self._own.write(variable._name,
                        np.asarray(value, variable.dtype.as_numpy_dtype))

    def _read(self, variable: _base.Variable) -> np.ndarray:
        return self._own.read(variable._name)

    @property
    def _c(self) -> Any:
        return self._own._session()

    def list_devices(self) -> list:
        return _refuse("list_devices")

    def close(self) -> None:
        """Frees it with its variables, and with its iterators."""
        self._iterators.close()
        self._own.close()

    def __enter__(self) -> "Session":
        stack = contextlib.ExitStack()
        stack.enter_context(self.graph.as_default())
        stack.enter_context(self.as_default())
        self._stack.append(stack)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.pop().close()
        self.close()


def _refuse(name: str) -> Any:
    raise NotImplementedError(f"tf.compat.v1.Session.{name} does not exist yet")


class InteractiveSession(Session):
    """A session that is the default one until it is closed."""

    def __init__(self, target: str = "", graph: _base.Graph | None = None, config: Any = None):
        super().__init__(target, graph, config)
        self._entered = contextlib.ExitStack()
        if default_graph() is not self.graph:  # reset_default_graph may replace the program's own
            self._entered.enter_context(self.graph.as_default())
        self._entered.enter_context(self.as_default())

    def close(self) -> None:
        self._entered.close()
        super().close()

    def __enter__(self) -> "InteractiveSession":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
