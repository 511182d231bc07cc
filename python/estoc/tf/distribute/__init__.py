# SPDX-License-Identifier: Apache-2.0
"""tf.distribute: servers, resolvers, and strategies for RunConfig.train_distribute, Keras models and loops of your own."""
from __future__ import annotations

import contextlib as _contextlib
import enum as _enum
import functools as _functools
import logging as _logging
import weakref as _weakref
from typing import Any as _Any
from typing import Callable as _Callable
from typing import Iterator as _Iterator

import numpy as _np

from ... import config as _config
from ... import errors as _errors
from ..._lib import Handle as _Handle
from ..._lib import Keep as _Keep
from ..._lib import check as _check
from ..._lib import check_signals as _check_signals
from ..._lib import ffi as _ffi
from ..._lib import here as _here
from ..._lib import lib as _lib
from ..._lib import node_callback as _node_callback
from ..._lib import owned as _owned
from ..._lib import running as _running
from ..._lib import text as _text
from ..._tensor import borrowed_array as _borrowed_array
from ..._tensor import take_tensor as _take_tensor
from ..._tensor import to_array as _to_array
from ..._tensor import to_tensor as _to_tensor
from ...estimator import InputContext  # noqa: F401
from ...estimator import _Input
from ...graph import NeedsValue as _NeedsValue
from ...graph import Node as _Node
from ...graph import as_node as _as_node
from ...graph import default_graph as _default_graph
from .. import _structure, _trace, _world
from .. import _devices as _local_devices
from .. import config as _devices
from .._absent import Named as _Named
from .._absent import module_getattr as _module_getattr
from .._eager import Tensor as _Tensor
from .._eager import unwrap as _unwrap
from .._function import Function as _Function
from .._structure import PerReplica as _PerReplica
from ..train import Server  # noqa: F401

DistributedValues = _PerReplica
_logger = _logging.getLogger("tensorflow")


class ReduceOp(_enum.Enum):
    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def _c(cls, value: _Any) -> int:
        name = value.value if isinstance(value, cls) else str(value).upper()
        if name not in ("SUM", "MEAN"):
            raise ValueError(f"reduce_op is ReduceOp.SUM or ReduceOp.MEAN, not {value!r}")
        return _lib.EST_REDUCE_OP_SUM if name == "SUM" else _lib.EST_REDUCE_OP_MEAN


# --- replicas ---------------------------------------------------------------------------------------------------------


class ReplicaContext:
    """What code in a replica sees (tf.distribute.get_replica_context)."""

    def __init__(self, strategy: "Strategy", pointer: _Any):
        self.strategy = strategy
        self._c = _ffi.new("est_replica_context *", pointer[0])
        self.replica = int(pointer.replica)

    num_replicas_in_sync = property(lambda self: int(self._c.num_replicas_in_sync))
    replica_id_in_sync_group = property(lambda self: int(self._c.replica_id_in_sync_group))

    def all_reduce(self, reduce_op: _Any, value: _Any, options: _Any = None) -> _Any:
        """The sum or mean over all replicas, for each of them."""
        graph = _default_graph()

        def one(leaf: _Any) -> _Node:
            _here()
            node = _as_node(_unwrap(leaf), graph)
            return graph.node(_lib.est_replica_all_reduce(self._c, ReduceOp._c(reduce_op), node._c))

        return _structure.map_structure(one, value)

    def all_gather(self, value: _Any, axis: int, options: _Any = None) -> _Any:
        graph = _default_graph()
        return _structure.map_structure(lambda leaf: graph.node(_lib.est_replica_all_gather(
            self._c, _as_node(_unwrap(leaf), graph)._c, axis)), value)

    def merge_call(self, merge_fn: _Callable, args: tuple = (), kwargs: dict | None = None) -> _Any:
        """Calls merge_fn(strategy, *args) once, across replicas; every argument has a value of each replica."""
        run = self.strategy._runs[-1]
        run.merge_arguments[self.replica] = (tuple(args), dict(kwargs or {}))
        graph = _default_graph()
        handle = _Handle((run, merge_fn, _trace.current_trace()))
        run.keep.append(handle)
        nothing = graph.constant(_np.float32(0))
        graph.node(_lib.est_replica_merge_call(self._c, _lib.py_on_merge, nothing._c, handle.pointer))
        return run.merged

    def _write(self, variable: _Any, function: str, node: _Node) -> _Node:
        """A write of a variable in several replicas: by its aggregation."""
        how = getattr(variable.aggregation, "value", variable.aggregation)
        if how in (None, "NONE"):
            raise ValueError("You must specify an aggregation method to update a variable in Replica Context (a "
                             f"variable was assigned in a replica: {variable.name}). Give tf.Variable aggregation="
                             "tf.VariableAggregation.SUM, MEAN or ONLY_FIRST_REPLICA.")

        def merge(strategy: "Strategy", value: _PerReplica) -> _Any:
            if how == "ONLY_FIRST_REPLICA":
                reduced = value.values[0]
            else:
                reduced = strategy.reduce(how, value, axis=None)
            return _Node(node.graph, getattr(_lib, function)(variable._handle._c, reduced._c))

        return self.merge_call(merge, (node,))

    def __enter__(self) -> "ReplicaContext":
        return self

    def __exit__(self, *exception: _Any) -> None: ...


class _Run:
    """One strategy.run in a trace: what its replicas return."""

    def __init__(self, strategy: "Strategy", function: _Callable, args: _Any, kwargs: _Any, trace: _Any, count: int):
        self.strategy, self.function, self.args, self.kwargs, self.trace = strategy, function, args, kwargs, trace
        self.results: list = [None] * count
        self.merge_arguments: list = [None] * count
        self.merged: _Any = None
        self.scopes = [*_trace.strategies(), strategy]  # also where strategy.run is called outside of its scope
        self.keep: list = []


@_node_callback("py_on_replica", lambda context, user: context.graph)
def _on_replica(context: _Any, user: _Any) -> _Any:
    run = _Handle.get(user)
    own = ReplicaContext(run.strategy, context)
    before = dict(_trace.local.__dict__)
    _trace.enter_thread(run.trace, run.scopes, own)
    try:
        with run.trace.graph.as_default():
            args, kwargs = _structure.map_structure(lambda leaf: leaf, (
                _select(run.args, own.replica), _select(run.kwargs, own.replica)))
            run.results[own.replica] = run.function(*args, **kwargs)
    finally:
        _trace.local.__dict__.clear()
        _trace.local.__dict__.update(before)
    return _ffi.new("est_node *")[0]


@_node_callback("py_on_merge", lambda strategy, values, user: values.data[0].graph)
def _on_merge(strategy: _Any, values: _Any, user: _Any) -> _Any:
    run, function, trace = _Handle.get(user)
    arguments = run.merge_arguments
    positional = [_combine([item[0][i] for item in arguments]) for i in range(len(arguments[0][0]))]
    named = {key: _combine([item[1][key] for item in arguments]) for key in arguments[0][1]}
    replica = _trace.replica_context()
    _trace.set_replica_context(None)
    try:
        run.merged = function(run.strategy, *positional, **named)
    finally:
        _trace.set_replica_context(replica)
    return values.data[0]


def _select(value: _Any, replica: int) -> _Any:
    """The part of a replica."""
    if isinstance(value, _PerReplica):
        return value.values[replica]
    if isinstance(value, dict):
        return {key: _select(item, replica) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "as_list"):
        items = [_select(item, replica) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _part_of(value: _Any, replica: int) -> _Any:
    """What a replica gets of an argument."""
    if isinstance(value, _PerReplica):
        return value.values[replica]
    if isinstance(value, dict):
        return {key: _part_of(item, replica) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_part_of(item, replica) for item in value)
    return value


def _combine(values: list) -> _Any:
    """One structure of PerReplica values for a structure of each replica."""
    first = values[0]
    if len(values) == 1:
        return first
    if isinstance(first, dict):
        return {key: _combine([value[key] for value in values]) for key in first}
    if isinstance(first, (list, tuple)) and not hasattr(first, "as_list"):
        items = [_combine(list(parts)) for parts in zip(*values)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if all(value is None for value in values):
        return None
    return _PerReplica(values)


# --- strategies -------------------------------------------------------------------------------------------------------


class Strategy(_Named):
    """What all strategies are."""

    _where = "tf.distribute.Strategy"
    _c: _Any = None
    _one: _Any = None  # the world of a strategy whose variables are elsewhere

    def _world(self) -> _world.World:
        if not self._is_elsewhere():
            return _world.default_world()
        if self._one is None:
            self._one = self._make_world()
        return self._one

    def _is_elsewhere(self) -> bool:
        return False

    def _make_world(self) -> _world.World:
        return _world.World()

    @property
    def num_replicas_in_sync(self) -> int:
        """The replicas of all workers."""
        return _lib.est_strategy_num_replicas_in_sync(self._c)

    @property
    def _runs(self) -> list:
        return self.__dict__.setdefault("_open_runs", [])

    def _replicas_here(self) -> int:
        context = _ffi.new("est_input_context *")
        _lib.est_strategy_input_context(self._c, context)
        return max(1, self.num_replicas_in_sync // max(1, int(context.n_pipelines)))

    @_contextlib.contextmanager
    def scope(self) -> _Iterator["Strategy"]:
        """Variables, models, optimizers and metrics that are made within belong to the strategy."""
        stack = _trace.strategies()
        if stack and stack[-1] is not self and _trace.current_trace() is None:
            raise RuntimeError("Must not nest tf.distribute.Strategy scopes.")
        stack.append(self)
        try:
            yield self
        finally:
            stack.pop()

    def run(self, fn: _Callable, args: tuple = (), kwargs: dict | None = None, options: _Any = None) -> _Any:
        """Calls fn in each replica, with its part of arguments that have one."""
        fn = fn.python_function if isinstance(fn, _Function) else fn
        if _default_graph() is None:
            return self._run_now(fn, tuple(args), dict(kwargs or {}))
        trace = _trace.current_trace()
        if trace is None:
            raise NotImplementedError("strategy.run in a model_fn: the estimator runs replicas itself")
        if self._is_elsewhere() and trace.world is not self._world():
            raise _world.OtherWorld(self._world())
        count = self._replicas_here()
        run = _Run(self, fn, tuple(args), dict(kwargs or {}), trace, count)
        handle = _Handle(run)
        self._runs.append(run)
        _here()
        try:
            self._build(trace, handle)
            trace.graph.check()
        finally:
            self._runs.pop()
        return _combine(run.results)

    def _build(self, trace: _Any, handle: _Any) -> None:
        _lib.est_strategy_run(self._c, trace.graph._c, _lib.py_on_replica, handle.pointer)

    def _run_now(self, fn: _Callable, args: tuple, kwargs: dict) -> _Any:
        if hasattr(fn, "_predictor"):  # a signature of a SavedModel is no graph to build replicas from
            return _combine([fn(*_part_of(args, i), **_part_of(kwargs, i)) for i in range(self._replicas_here())])
        functions = self.__dict__.setdefault("_functions", {})
        if fn not in functions:
            functions[fn] = _Function(lambda a, k: self.run(fn, a, k))
        with self.scope():
            return functions[fn](args, kwargs)

    def reduce(self, reduce_op: _Any, value: _Any, axis: int | None) -> _Any:
        """The sum or mean over replicas, and over an axis of each."""
        if _default_graph() is None:
            functions = self.__dict__.setdefault("_functions", {})
            key = ("reduce", str(reduce_op), axis)
            if key not in functions:
                functions[key] = _Function(lambda v: self.reduce(reduce_op, v, axis))
            with self.scope():
                return functions[key](_structure.map_structure(
                    lambda leaf: leaf if isinstance(leaf, _Tensor) else _Tensor(_unwrap(leaf)), value))
        graph = _default_graph()
        op = ReduceOp._c(reduce_op)

        def one(parts: list) -> _Node:
            _here()
            nodes = [_as_node(_unwrap(part), graph) for part in parts]
            return graph.node(self._reduce(op, nodes, _lib.EST_NO_AXIS if axis is None else axis))

        count = self._replicas_here()

        def walk(item: _Any) -> _Any:
            if isinstance(item, _PerReplica):
                return one(list(item.values))
            if isinstance(item, dict):
                return {key: walk(part) for key, part in item.items()}
            if isinstance(item, (list, tuple)):
                return type(item)(walk(part) for part in item)
            return one([item] * count)

        return walk(value)

    def _reduce(self, op: int, nodes: list, axis: int) -> _Any:
        values = _ffi.new("est_node[]", [node._c for node in nodes])
        struct = _ffi.new("est_per_replica *", {"data": values, "n": len(nodes)})
        return _lib.est_strategy_reduce(self._c, op, struct[0], axis)

    def gather(self, value: _Any, axis: int) -> _Any:
        """The values of all replicas, one after the other along an axis."""
        if _default_graph() is None:
            functions = self.__dict__.setdefault("_functions", {})
            if ("gather", axis) not in functions:
                functions[("gather", axis)] = _Function(lambda v: self.gather(v, axis))
            with self.scope():
                return functions[("gather", axis)](value)
        graph = _default_graph()
        parts = list(value.values) if isinstance(value, _PerReplica) else [value] * self._replicas_here()
        nodes = _ffi.new("est_node[]", [_as_node(_unwrap(part), graph)._c for part in parts])
        struct = _ffi.new("est_per_replica *", {"data": nodes, "n": len(parts)})
        return graph.node(_lib.est_strategy_gather(self._c, struct[0], axis))

    def experimental_local_results(self, value: _Any) -> tuple:
        return value.values if isinstance(value, _PerReplica) else (value,)

    def experimental_distribute_dataset(self, dataset: _Any, options: _Any = None) -> "DistributedDataset":
        """A dataset of global batches, of which every replica gets its part."""
        out = _ffi.new("est_distributed_dataset **")
        pointer, keep = dataset._finish(passes=True)
        policy = dataset._shard_policy() if hasattr(dataset, "_shard_policy") else _lib.EST_AUTO_SHARD_AUTO
        _check(_lib.est_strategy_distribute_dataset(self._c, pointer, int(policy), out))
        return DistributedDataset(self, out[0], dataset, (dataset, keep))

    def distribute_datasets_from_function(self, dataset_fn: _Callable, options: _Any = None) -> _Any:
        """The dataset of this worker, which dataset_fn(input_context) makes, in batches of a replica."""
        made: list = []

        def make(input_context: InputContext) -> _Any:
            made.append(dataset_fn(input_context))
            return made[-1]

        class Own:
            params = config = form = None
            ragged: set = set()

        given = _Input(make, Own)
        handle = _Handle(given)
        out = _ffi.new("est_distributed_dataset **")
        _check(_lib.est_strategy_datasets_from_function(self._c, _lib.py_on_input, handle.pointer, out))
        return DistributedDataset(self, out[0], made[0]._as_input(), (handle, given))

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_make_numpy_dataset(self, numpy_input: _Any) -> _Any:
        from ..data import Dataset
        return Dataset.from_tensor_slices(numpy_input)

    def experimental_distribute_values_from_function(self, value_fn: _Callable) -> _Any:
        class Context:
            def __init__(self, replica: int, total: int):
                self.replica_id_in_sync_group, self.num_replicas_in_sync = replica, total

        count = self._replicas_here()
        return _combine([value_fn(Context(i, self.num_replicas_in_sync)) for i in range(count)])


class DistributedDataset(_Named):
    """Batches for the replicas of a strategy."""

    _where = "tf.distribute.DistributedDataset"

    def __init__(self, strategy: Strategy, pointer: _Any, dataset: _Any, keep: tuple):
        self._c = _owned(pointer, "est_distributed_dataset_free", parents=(keep, strategy))
        self._strategy, self._dataset = strategy, dataset
        local = _lib.est_distributed_dataset_local(self._c)
        names = [_text(_lib.est_dataset_component(local, i).name) for i in range(_lib.est_dataset_components(local))]
        self._order = [names.index(name) for name in dataset._names]
        self._count = strategy._replicas_here()
        from ...data import TensorSpec
        from ..._tensor import as_dtype, py_shape
        specs = []
        for i in range(len(names)):
            component = _lib.est_dataset_component(local, i)
            if component.ragged:
                raise NotImplementedError("distributed datasets have no ragged parts in Python yet")
            specs.append(TensorSpec(py_shape(component.shape), as_dtype(int(component.dtype))))
        self._n = len(names)
        one = _nest_pack(dataset.structure, [specs[i] for i in self._order])
        self.element_spec = _combine([one] * self._count)

    def __iter__(self) -> "DistributedIterator":
        if _trace.current_trace() is not None:
            raise _NeedsValue("a function that is traced cannot iterate over a dataset; iterate outside and call the "
                              "function with each element, or pass it iter(dataset) and take next()")
        return DistributedIterator(self)


def _nest_pack(form: _Any, leaves: list) -> _Any:
    from ... import _nest
    return _nest.pack(form, leaves)


class DistributedIterator:
    """An element is one batch, which with several replicas has a PerReplica for each tensor."""

    def __init__(self, dataset: DistributedDataset):
        self._dataset = dataset
        self.element_spec = dataset.element_spec
        self._c: _Any = None
        self._ended = False
        self._values = _ffi.new("const est_tensor *const **")

    def _open(self, workers: _Any) -> None:
        """With workers the iterator goes on with empty batches until none of them has another: the step ends it."""
        out = _ffi.new("est_distributed_iterator **")
        _check(_lib.est_distributed_iterator_create(self._dataset._c, workers, out))
        self._c = _owned(out[0], "est_distributed_iterator_free", parents=(self._dataset,))
        if workers != _ffi.NULL:
            self._dataset._strategy._world().iterators.add(self)
        _running.add(self)

    def close(self) -> None:
        if self._c is not None:
            iterator, self._c = self._c, None
            _ffi.release(iterator)

    def __iter__(self) -> "DistributedIterator":
        if _trace.current_trace() is not None:
            raise _NeedsValue("a function that is traced cannot loop over an iterator; next() takes one element")
        return self

    def _next_values(self, together: bool = True) -> list:
        if self._ended:
            raise StopIteration
        if self._c is None:
            self._open(self._dataset._strategy._workers() if together else _ffi.NULL)
        status = _lib.est_distributed_iterator_next(self._c, self._values)
        if status == _errors.OUT_OF_RANGE:
            self._ended = True
            self.close()
            raise StopIteration
        _check(status)
        d, values = self._dataset, self._values[0]
        return [_borrowed_array(_ffi.cast("est_tensor *", values[replica * d._n + i]))
                for i in d._order for replica in range(d._count)]

    def __next__(self) -> _Any:
        trace = _trace.current_trace()
        if trace is not None:
            return trace.pull(self, self.element_spec)
        return _structure.pack_as(self.element_spec, [_Tensor(value) for value in self._next_values(False)])

    def save_position(self) -> _np.ndarray:
        """For a checkpoint; nothing at the end."""
        if self._ended:
            return _np.zeros(0, _np.uint8)
        if self._c is None:
            self._open(self._dataset._strategy._workers())
        out = _ffi.new("est_tensor **")
        _check(_lib.est_distributed_iterator_save(self._c, out))
        return _to_array(_take_tensor(out[0]), copy=True)

    def restore_position(self, position: _np.ndarray) -> None:
        """Goes to a saved position, wherever the iterator is."""
        self.close()
        self._ended = position.size == 0
        if not self._ended:
            self._open(self._dataset._strategy._workers())
            _check(_lib.est_distributed_iterator_restore(self._c, _to_tensor(position)))

    def get_next(self) -> _Any:
        try:
            return next(self)
        except StopIteration:
            raise _errors.OutOfRangeError("End of sequence") from None

    def get_next_as_optional(self) -> "_Optional":
        """The next element, or none at the end."""
        if _trace.current_trace() is not None:
            raise NotImplementedError("get_next_as_optional needs control flow in a tf.function; call it outside")
        try:
            return _Optional([next(self)])
        except StopIteration:
            return _Optional([])


class _Optional:
    """An element, or none (tf.experimental.Optional)."""

    def __init__(self, found: list):
        self._found = found

    def has_value(self) -> _Tensor:
        return _Tensor(_np.bool_(bool(self._found)))

    def get_value(self) -> _Any:
        if not self._found:
            raise _errors.InvalidArgumentError("Cannot get the value of an empty optional")
        return self._found[0]


class _Local(Strategy):
    def _workers(self) -> _Any:
        return _ffi.NULL


class CrossDeviceOps:
    """How gradients of replicas travel between devices. The replicas of a process share their memory, so that all
    ways are the same one."""

    def __init__(self, num_packs: int = 1):
        self.num_packs = num_packs


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """A way between GPUs."""


class NcclAllReduce(CrossDeviceOps):
    """A way between GPUs."""


class ReductionToOneDevice(CrossDeviceOps):
    """All to one device, which adds up."""

    def __init__(self, reduce_to_device: _Any = None, accumulation_fn: _Any = None):
        super().__init__()
        if accumulation_fn is not None:
            raise NotImplementedError("accumulation_fn does not exist yet: replicas are added up")


class CommunicationImplementation(_enum.Enum):
    """What carries collectives (tf.distribute.experimental.CommunicationImplementation). RING and NCCL are hints for
    GPUs; the library chooses the algorithm by sizes."""

    AUTO, RING, NCCL = "AUTO", "RING", "NCCL"


class CommunicationOptions:
    """Hints for collectives of several workers (tf.distribute.experimental.CommunicationOptions)."""

    def __init__(self, bytes_per_pack: int = 0, timeout_seconds: float | None = None,
                 implementation: CommunicationImplementation = CommunicationImplementation.AUTO):
        if bytes_per_pack < 0:
            raise ValueError(f"Argument `bytes_per_pack` must be >=0, Received {bytes_per_pack}.")
        if timeout_seconds is not None:
            raise NotImplementedError("timeout_seconds does not exist: a worker that is lost is noticed by its heartbeat")
        self.bytes_per_pack, self.timeout_seconds, self.implementation = bytes_per_pack, None, implementation


def _visible(devices: list[str]) -> list[str]:
    """Without any GPU the CPU stands for those that were named, with a warning as in TensorFlow."""
    gpus = [device for device in devices if "GPU" in device.upper()]
    missing = _text(_lib.est_device_missing())
    if not gpus or not missing:
        return devices
    _logger.warning("Some requested devices in `tf.distribute.Strategy` are not visible, and the CPU computes in their "
                    "place: %s (%s)", ",".join(gpus), missing)
    return [f"/cpu:{i}" for i in range(len(devices))]


class MirroredStrategy(_Local, _config.MirroredStrategy):
    """Replicas in this process."""

    def __init__(self, devices: _Any = None, cross_device_ops: _Any = None):
        if cross_device_ops is not None and not isinstance(cross_device_ops, CrossDeviceOps):
            raise ValueError(f"cross_device_ops is a tf.distribute.CrossDeviceOps, not {cross_device_ops!r}")
        if devices is not None:  # "cpu:0" is "/cpu:0"
            devices = _visible([device if device.startswith("/") else f"/{device}" for device in
                                ([devices] if isinstance(devices, str) else devices)])
        else:
            found = _devices.list_logical_devices("GPU") or _devices.list_logical_devices("CPU")
            devices = [device.name for device in found] if len(found) > 1 else None
        _config.MirroredStrategy.__init__(self, devices)


class OneDeviceStrategy(_Local, _config.OneDeviceStrategy):
    """Everything on one device."""

    def __init__(self, device: str = "/cpu:0"):
        _config.OneDeviceStrategy.__init__(self, _visible([device])[0])


class CentralStorageStrategy(_Local, _config.CentralStorageStrategy):
    """Replicas in this process, and variables in one place."""

    def __init__(self, compute_devices: _Any = None, parameter_device: _Any = None):
        _config.CentralStorageStrategy.__init__(self, compute_devices, parameter_device)


class MultiWorkerMirroredStrategy(Strategy, _config.MultiWorkerMirroredStrategy):
    """Replicas in every worker of TF_CONFIG. An input_fn shards its dataset itself, by its input_context."""

    def __init__(self, cluster_resolver: _Any = None, communication_options: _Any = None, communication: _Any = None):
        if isinstance(cluster_resolver, CommunicationImplementation):  # the first argument of TensorFlow 1.x
            cluster_resolver, communication = None, cluster_resolver
        if cluster_resolver is not None and not isinstance(cluster_resolver, _resolvers.TFConfigClusterResolver):
            raise NotImplementedError("the cluster is that of TF_CONFIG, which TFConfigClusterResolver reads")
        if communication_options is not None and not isinstance(communication_options, CommunicationOptions):
            raise ValueError("communication_options is a tf.distribute.experimental.CommunicationOptions, not "
                             f"{communication_options!r}")
        _config.MultiWorkerMirroredStrategy.__init__(self)

    @property
    def cluster_resolver(self) -> _Any:
        """The resolver of TF_CONFIG."""
        return _resolvers.TFConfigClusterResolver()

    def _is_elsewhere(self) -> bool:
        context = _ffi.new("est_input_context *")
        _lib.est_strategy_input_context(self._c, context)
        return int(context.n_pipelines) > 1

    def _make_world(self) -> _world.World:
        return _WorkersWorld(self)

    def _workers(self) -> _Any:
        return self._world().workers() if self._is_elsewhere() else _ffi.NULL


class _WorkersWorld(_world.World):
    """A world of which every worker has a copy. The workers meet when the first function runs, and make every step
    together from then on; a fit brings them together by itself. Before they meet all draw the same initial values."""

    is_shared = True

    def __init__(self, strategy: MultiWorkerMirroredStrategy):
        super().__init__(_world._seed[0] or 1)
        self._strategy = strategy
        self._joined: _Any = None
        self._step_number = 0
        self.iterators: _weakref.WeakSet = _weakref.WeakSet()  # that ask the other workers for more

    def workers(self) -> _Any:
        if self._joined is None:
            out = _ffi.new("est_workers **")
            _check(_lib.est_workers_create(self._strategy._c, _ffi.NULL, out))
            self._joined = _owned(out[0], "est_workers_free", parents=(self._strategy,))
            self._replace_session(self._create_joined)
            self._join(self._session)
            _running.add(self)
        return self._joined

    def _create_joined(self) -> _Any:
        keep, out = _Keep(), _ffi.new("est_session **")
        _check(_lib.est_session_create(self.graph._c, keep.options(
            "est_session_options", communicator=_lib.est_workers_communicator(self._joined),
            **_local_devices.members(keep, _local_devices.options())), out))
        return _owned(out[0], "est_session_free", parents=(self.graph, self._joined))

    def ready_to_run(self) -> _Any:
        self.workers()
        return self.ready()

    def _join(self, session: _Any) -> None:
        number = _ffi.new("int64_t *", self._step_number)
        _check_signals(_lib.est_workers_join(self._joined, session, number))
        self._step_number = int(number[0])

    def run(self, step: _Any, values: list) -> list:
        with self._lock:
            while True:
                try:
                    result = step.run(values)
                    self._step_number += 1
                    return result
                except _errors.AbortedError:
                    self._join(self._session)

    def leave(self) -> None:
        """Before a fit, which all workers call: it listens at this task's address itself."""
        if self._joined is None:
            return
        _lib.est_workers_end(self._joined, self._session, self._step_number)
        for iterator in list(self.iterators):
            iterator.close()
        self._replace_session(self._create_session)
        workers, self._joined, self._step_number = self._joined, None, 0
        _ffi.release(workers)

    def close(self) -> None:
        """At the end of the program: tells the others, so that nobody waits."""
        if self._joined is not None:
            _lib.est_workers_end(self._joined, self._session, self._step_number)


class ParameterServerStrategy(Strategy, _config.Strategy):
    """Variables at the ps tasks of a cluster; a coordinator hands out calls of functions to its workers."""

    _where = "tf.distribute.ParameterServerStrategy"

    def __init__(self, cluster_resolver: _Any = None, variable_partitioner: _Any = None):
        keep = _Keep()
        self._resolver = cluster_resolver
        members: dict = {"round_robin": True}
        if cluster_resolver is not None:
            resolver = cluster_resolver._resolver()
            keep.append(resolver)
            members["resolver"] = resolver
        if variable_partitioner is not None:
            members["partitioner"] = variable_partitioner._c(keep)
        _config.Strategy.__init__(self, "est_parameter_server_strategy",
                                  keep.options("est_parameter_server_options", **members))
        self._keep = keep

    cluster_resolver = property(lambda self: self._resolver)

    def _is_elsewhere(self) -> bool:
        return True

    def _make_world(self) -> _world.World:
        from ._cluster_world import ClusterWorld
        return ClusterWorld(self)

    def _replicas_here(self) -> int:
        return 1

    def _workers(self) -> _Any:
        raise RuntimeError("datasets of a ParameterServerStrategy are at the workers; use "
                           "ClusterCoordinator.create_per_worker_dataset")

    def distribute_datasets_from_function(self, dataset_fn: _Callable, options: _Any = None) -> _Any:
        """At a worker: its dataset."""
        return dataset_fn(InputContext(1, 0, 1))

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_dataset(self, dataset: _Any, options: _Any = None) -> _Any:
        return dataset


# --- the current one --------------------------------------------------------------------------------------------------


class _DefaultStrategy(_Local, _config.OneDeviceStrategy):
    """One replica, where no strategy is in scope."""


@_functools.lru_cache(maxsize=None)
def _default_strategy() -> Strategy:
    return _DefaultStrategy("/cpu:0")


def get_strategy() -> Strategy:
    """The strategy in scope, or one of one replica."""
    return _trace.current_strategy() or _default_strategy()


def has_strategy() -> bool:
    """Whether this is within a strategy's scope."""
    return _trace.current_strategy() is not None


def in_cross_replica_context() -> bool:
    """Whether this is within a scope and outside of replicas."""
    return _trace.replica_context() is None and has_strategy()


def get_replica_context() -> _Any:
    """In strategy.run the replica's; None in the scope of a strategy."""
    context = _trace.replica_context()
    if context is None and not has_strategy():
        return _OutsideContext()
    return context


class _OutsideContext:
    """Outside of all strategies there is one replica."""

    num_replicas_in_sync = 1
    replica_id_in_sync_group = 0
    strategy = property(lambda self: _default_strategy())

    def all_reduce(self, reduce_op: _Any, value: _Any, options: _Any = None) -> _Any:
        return value

    def merge_call(self, merge_fn: _Callable, args: tuple = (), kwargs: dict | None = None) -> _Any:
        return merge_fn(self.strategy, *args, **(kwargs or {}))


from . import cluster_resolver, coordinator, experimental  # noqa: E402,F401
from . import cluster_resolver as _resolvers  # noqa: E402

__getattr__ = _module_getattr(__name__)
