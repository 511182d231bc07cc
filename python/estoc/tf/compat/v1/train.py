# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.train: optimizers, hooks, monitored sessions, savers, and the global step of the graph."""
from __future__ import annotations

import collections as _collections
import math as _math
from typing import Any as _Any
from typing import NamedTuple as _NamedTuple

import numpy as _np

from .... import cluster as _cluster
from .... import ops as _ops
from .... import optimizers as _optimizers
from ...._lib import Keep as _Keep
from ...._lib import ffi as _ffi
from ...._lib import here as _here
from ...._lib import lib as _lib
from ...._lib import off as _off
from ...._lib import text as _text
from ...._tensor import float32 as _float32
from ....graph import Graph as _Graph
from ....graph import Node as _Node
from ....graph import ReplicaDevices as _ReplicaDevices
from ....graph import Session as _Session
from ....graph import Variable as _BaseVariable
from ....graph import as_node as _as_node
from ....graph import default_graph as _default_graph
from ....summary import EventReader as _EventReader
from ...train import *  # noqa: F401,F403
from ..._absent import module_getattr as _module_getattr
from ..._eager import Tensor as _Tensor
from ..._eager import eager as _eager
from ..._eager import unwrap as _unwrap
from ..._checkpoint import Part as _Part
from ..._world import OtherWorld as _OtherWorld
from ..._variable import Variable as _Variable
from ..._variable import count_variables as _count_variables
from ..._trace import current_trace as _current_trace
from ..._variable import new_variables as _new_variables
from . import _graph
from ..._indexed_slices import IndexedSlices as _IndexedSlices
from ._monitored import (CheckpointSaverHook, CheckpointSaverListener, ChiefSessionCreator, Coordinator,  # noqa: F401
                         FeedFnHook,
                         FinalOpsHook, GlobalStepWaiterHook, LoggingTensorHook, MonitoredSession,
                         MonitoredTrainingSession, NanLossDuringTrainingError, NanTensorHook, ProfilerHook, Scaffold,
                         SecondOrStepTimer, SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues, SingularMonitoredSession,
                         StepCounterHook, StopAtStepHook, SummarySaverHook, WorkerSessionCreator)
from ....estimator import VocabInfo  # noqa: F401
from ._meta_graph import export_meta_graph, import_meta_graph  # noqa: F401
from ._saver import (NewCheckpointReader, Saver, checkpoint_exists, get_checkpoint_mtimes,  # noqa: F401
                     init_from_checkpoint, remove_checkpoint)

from .summary import Summary as _Summary


def _graph_of(graph: _Any) -> _Any:
    return graph if graph is not None else _default_graph() or _graph.get_default_graph()


_steps_at_once: list = []  # of a program that computes at once


def get_or_create_global_step(graph: _Any = None) -> _Any:
    """The variable that counts steps."""
    if graph is None and _graph.computes_at_once():
        if not _steps_at_once:
            _steps_at_once.append(_Variable(_np.int64(0), trainable=False, name="global_step"))
        return _steps_at_once[0]
    return _graph_of(graph).global_step


def create_global_step(graph: _Any = None) -> _Any:
    """The variable that counts steps, of a graph that has none yet."""
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    return get_or_create_global_step(graph)


def get_global_step(graph: _Any = None) -> _Any:
    """The variable that counts steps; None: a graph of the program has none yet."""
    if graph is None and _graph.computes_at_once():
        return _steps_at_once[0] if _steps_at_once else None
    graph = _graph_of(graph)
    if isinstance(graph, _graph.Graph) and all(v._name != "global_step" for v in graph.global_variables):
        return None
    return graph.global_step


_tf_cast, _tf_minimum, _tf_cos = (_eager(getattr(_ops, name), name) for name in ("cast", "minimum", "cos"))
_AVERAGED = "moving_average_variables"


class ExponentialMovingAverage:
    """Averages of variables that follow them: apply() makes the operation of a step, average() has the average."""

    def __init__(self, decay: float, num_updates: _Any = None, zero_debias: bool = False,
                 name: str = "ExponentialMovingAverage"):
        if zero_debias:
            raise NotImplementedError("zero_debias does not exist yet")
        self._decay, self._steps, self.name = decay, num_updates, name
        self._averages: dict = {}

    def apply(self, var_list: _Any = None) -> _Any:
        """average -= (1 - decay) (average - variable); with num_updates the decay is at most (1 + n) / (10 + n). Variables
        of a program that computes at once are averaged now, or by each run of a function."""
        if var_list is not None and any(isinstance(variable, _Variable) for variable in var_list):
            return self._apply_at_once(list(var_list))
        variables = _graph.trainable_variables() if var_list is None else list(var_list)
        decay = self._decay
        if self._steps is not None:
            steps = self._steps.value() if isinstance(self._steps, _BaseVariable) else self._steps
            steps = _ops.cast(steps, _float32) if isinstance(steps, _Node) else float(steps)
            limit = (steps + 1.0) / (steps + 10.0)
            decay = _ops.minimum(limit, decay) if isinstance(limit, _Node) else min(limit, decay)
        updates = []
        for variable in variables:
            if not isinstance(variable, _BaseVariable):
                raise NotImplementedError("ExponentialMovingAverage: the average of a tensor; assign it to a variable")
            _graph.add_to_collection(_AVERAGED, variable)
            average = self._average_of(variable)
            difference = average.value() - variable.value()
            updates.append(_BaseVariable.assign_sub(average, difference * (1.0 - decay)))
        return _ops.group(updates)

    def _apply_at_once(self, variables: list) -> None:
        decay = self._decay
        if self._steps is not None:
            steps = _tf_cast(self._steps, "float32")
            decay = _tf_minimum((steps + 1.0) / (steps + 10.0), _np.float32(decay))
        for variable in variables:
            name = self.average_name(variable)
            if name not in self._averages:
                made = self._averages[name] = _Variable(variable.numpy() if _default_graph() is None else variable._array(),
                                                        trainable=False, name="average")
                made._shown = name + ":0"
            average = self._averages[name]
            average.assign_sub((average.value() - variable.value()) * (1.0 - decay))

    def _average_of(self, variable: _Any) -> _Any:
        name = self.average_name(variable)
        if name not in self._averages:
            self._averages[name] = _graph._make(
                variable.graph, name, variable.shape, variable.dtype, _initial_of(variable), False, None, None)
        return self._averages[name]

    def average(self, var: _Any) -> _Any:
        """The variable with the average; None before apply()."""
        return self._averages.get(self.average_name(var))

    def average_name(self, var: _Any) -> str:
        return f"{var.name.partition(':')[0]}/{self.name}"

    def variables_to_restore(self, moving_avg_variables: _Any = None) -> dict:
        """For a Saver that gives variables the averages in a checkpoint."""
        averaged = list(moving_avg_variables) if moving_avg_variables is not None else \
            _graph.trainable_variables() + _graph.get_collection(_AVERAGED)
        found = {self.average_name(variable): variable for variable in averaged}
        known = {variable.name for variable in averaged}
        for variable in _graph.global_variables():
            name = variable.name.partition(":")[0]
            if variable.name not in known and name not in found:
                found[name] = variable
        return found


def _initial_of(variable: _Any) -> _Any:
    """Begins with the initial value of the variable, which needs nothing that apply() is made after."""
    with variable.graph.after(None):
        node = variable.initialized_value() if isinstance(variable, _graph.Variable) else variable.value()
    return lambda shape, dtype=None: node


def summary_iterator(path: _Any) -> _Any:
    """The events of a file of summaries; each has step, wall_time and summary.value."""
    for entry in _EventReader(path):
        one = _Summary.Value(entry["tag"], entry["value"] if entry["kind"] == "scalar" else None, entry["kind"], entry["value"])
        yield _Event(entry["wall_time"], entry["step"], _Summary([one]))


class _Event(_NamedTuple):
    wall_time: float
    step: int
    summary: _Any


def global_step(sess: _Any, global_step_tensor: _Any) -> int:
    """The number of steps made in a session."""
    return int(sess.run(global_step_tensor))


def replica_device_setter(ps_tasks: int = 0, ps_device: str = "/job:ps", worker_device: str = "/job:worker",
                          merge_devices: bool = True, cluster: _Any = None, ps_ops: _Any = None,
                          ps_strategy: _Any = None) -> _Any:
    """For tf.device: variables go to the ps tasks in turn, all else to the worker. None without ps tasks."""
    if ps_device != "/job:ps" or ps_ops is not None or ps_strategy is not None:
        raise NotImplementedError("variables go to /job:ps in turn; ps_device, ps_ops and ps_strategy do not exist yet")
    if cluster is not None:
        cluster = _cluster.ClusterSpec(cluster)
        ps_tasks = cluster.num_tasks("ps") if "ps" in cluster.jobs else 0
    if ps_tasks == 0:
        return None
    return _ReplicaDevices(ps_tasks, worker_device, cluster)


def _gradient(keep: _Keep, gradient: _Any) -> dict:
    if gradient is None:
        return {}
    if isinstance(gradient, _IndexedSlices):
        return {"values": gradient.values._c, "indices": gradient.indices._c}
    return {"values": gradient._c}


def _decayed(schedule: _Any, global_step: _Any) -> _Any:
    """The rate at the step; without one, as where a function makes the optimizer of a canned estimator, the schedule;
    outside of graphs a function that gives the rate at what the step then is."""
    graph = _default_graph()
    if global_step is None or hasattr(global_step, "graph"):
        return schedule if global_step is None else schedule.rate(global_step)
    if graph is not None:
        return schedule.rate(_ops.cast(_as_node(global_step, graph), "int64"))

    def rate() -> _Tensor:
        now = _Graph()
        node = schedule.rate(now.constant(_np.asarray(global_step).astype(_np.int64)))
        with _Session(now, threads=1, devices=["/cpu:0"]) as session:
            return _Tensor(session.run(node))

    return rate


def exponential_decay(learning_rate: float, global_step: _Any, decay_steps: int, decay_rate: float,
                      staircase: bool = False, name: str | None = None) -> _Any:
    """learning_rate * decay_rate^(step / decay_steps)"""
    return _decayed(_optimizers.exponential_decay(learning_rate, int(decay_steps), decay_rate, staircase), global_step)


def inverse_time_decay(learning_rate: float, global_step: _Any, decay_steps: int, decay_rate: float,
                       staircase: bool = False, name: str | None = None) -> _Any:
    """learning_rate / (1 + decay_rate step / decay_steps)"""
    return _decayed(_optimizers.inverse_time_decay(learning_rate, int(decay_steps), decay_rate, staircase), global_step)


def natural_exp_decay(learning_rate: float, global_step: _Any, decay_steps: int, decay_rate: float,
                      staircase: bool = False, name: str | None = None) -> _Any:
    """learning_rate * exp(-decay_rate step / decay_steps)"""
    return exponential_decay(learning_rate, global_step, decay_steps, _math.exp(-decay_rate), staircase)


def cosine_decay_restarts(learning_rate: float, global_step: _Any, first_decay_steps: int, t_mul: float = 2.0,
                          m_mul: float = 1.0, alpha: float = 0.0, name: str | None = None) -> _Any:
    """Halves of cosines, each t_mul times as long as the one before and from m_mul times its rate."""
    return _decayed(_optimizers.Schedule(lambda keep: _lib.est_cosine_decay_restarts(
        learning_rate, int(first_decay_steps), t_mul, _off(m_mul), alpha)), global_step)


def polynomial_decay(learning_rate: float, global_step: _Any, decay_steps: int, end_learning_rate: float = 0.0001,
                     power: float = 1.0, cycle: bool = False, name: str | None = None) -> _Any:
    """(learning_rate - end) (1 - step / decay_steps)^power + end"""
    return _decayed(_optimizers.polynomial_decay(learning_rate, int(decay_steps), end_learning_rate, power, cycle),
                    global_step)


def cosine_decay(learning_rate: float, global_step: _Any, decay_steps: int, alpha: float = 0.0,
                 name: str | None = None) -> _Any:
    """Half a cosine, from learning_rate to alpha * learning_rate."""
    return _decayed(_optimizers.cosine_decay(learning_rate, int(decay_steps), alpha), global_step)


def piecewise_constant(x: _Any, boundaries: _Any, values: _Any, name: str | None = None) -> _Any:
    """values[0] up to and with boundaries[0], and so on."""
    if len(boundaries) != len(values) - 1:
        raise ValueError(f"piecewise_constant: the length of boundaries should be 1 less than that of values: "
                         f"{len(boundaries)} boundaries, {len(values)} values")
    return _decayed(_optimizers.piecewise_constant(boundaries, values), x)


piecewise_constant_decay = piecewise_constant


def linear_cosine_decay(learning_rate: float, global_step: _Any, decay_steps: int, num_periods: float = 0.5,
                        alpha: float = 0.0, beta: float = 0.001, name: str | None = None) -> _Any:
    """learning_rate ((alpha + 1 - t) (1 + cos(2 pi num_periods t)) / 2 + beta), for t = min(step, decay_steps) /
    decay_steps."""
    if global_step is None:
        raise ValueError("global_step is required for linear_cosine_decay.")
    graph = _default_graph()

    def rate() -> _Any:
        step = _as_node(global_step, graph) if graph is not None else global_step
        t = _tf_minimum(_tf_cast(step, "float32"), _np.float32(decay_steps)) / float(decay_steps)
        return learning_rate * ((alpha + 1.0 - t) * 0.5 * (1.0 + _tf_cos(2 * _math.pi * num_periods * t)) + beta)

    return rate() if graph is not None else rate


def assert_global_step(global_step_tensor: _Any) -> None:
    """Raises TypeError unless it is an integer, and ValueError unless it is a single one."""
    shape = global_step_tensor.shape
    if not global_step_tensor.dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}')
    if shape is not None and len(shape) != 0:
        raise TypeError(f'Existing "global_step" is not scalar: {shape}')


def warm_start(ckpt_to_initialize_from: _Any, vars_to_warm_start: _Any = ".*", var_name_to_vocab_info: _Any = None,
               var_name_to_prev_var_name: _Any = None) -> None:
    """Variables of the graph begin with values of a checkpoint: trainable ones that a pattern matches, global ones that
    one of a list of patterns matches, or these variables."""
    if var_name_to_vocab_info:
        raise NotImplementedError("var_name_to_vocab_info: tf.estimator.WarmStartSettings takes it")
    earlier = dict(var_name_to_prev_var_name or {})
    if isinstance(vars_to_warm_start, str):
        variables = _graph.get_collection(_graph.GraphKeys.TRAINABLE_VARIABLES, vars_to_warm_start)
    else:
        variables = [variable for item in vars_to_warm_start or () for variable in (
            _graph.get_collection(_graph.GraphKeys.GLOBAL_VARIABLES, item) if isinstance(item, str) else [item])]
    names = [_node_name(variable) for variable in variables]
    unused = sorted(set(earlier) - set(names))
    if unused:
        raise ValueError(f"You provided the following variables in var_name_to_prev_var_name that were not used: {unused}")
    for name, variable in zip(names, variables):
        init_from_checkpoint(ckpt_to_initialize_from, {earlier.get(name, name): variable})


class Optimizer(_optimizers.Optimizer):
    """minimize counts a step only where it is given the global step, and leaves what tf.GraphKeys.UPDATE_OPS has to the
    program, as in TensorFlow."""

    _name = "Optimizer"
    _slots: tuple = ()  # names of what it keeps for a variable, in the order in which the library makes them

    def _checkpoint_parts(self) -> _Part:
        """What it keeps, for tf.train.Checkpoint: numbers by name, and slots by variable."""
        part = _Part(self.__dict__.setdefault("_numbers", {}).items())
        part.slots = self.__dict__.setdefault("_kept", [])
        return part

    def _note_made(self, made: _Any, variables: _Any) -> None:
        """Finds what an update has made for these variables: "dense/kernel/Adam", "beta1_power"."""
        self._checkpoint_parts()
        of_name, count = {_node_name(variable): variable for variable in variables}, _collections.Counter()
        for slot in made:
            parent, _, name = _node_name(slot).rpartition("/")
            if parent in of_name:
                self._kept.append((of_name[parent], self._slots[count[parent]], slot))
                count[parent] += 1
            elif name.startswith("beta"):
                self._numbers["_".join(name.split("_")[:2])] = slot

    def _noted(self, graph: _Any, build: _Any) -> _Any:
        """The operation of an update that `build` adds to a graph."""
        before = len(graph.global_variables)
        operation = build()
        if not graph.is_sketch:
            self._note_made(graph.global_variables[before:], graph.global_variables[:before])
        return operation

    def get_name(self) -> str:
        return self._name

    def minimize(self, loss: _Any, global_step: _Any = None, var_list: _Any = None,  # type: ignore[override]
                 gate_gradients: int = 1, aggregation_method: _Any = None, colocate_gradients_with_ops: bool = False,
                 name: str | None = None, grad_loss: _Any = None) -> _Any:
        if callable(loss) and not isinstance(loss, _Node):  # a program that computes at once
            pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
            return self.apply_gradients(pairs, global_step, name)
        if grad_loss is not None:
            loss = loss * grad_loss
        if loss.shape != ():
            loss = _ops.reduce_sum(loss)
        self._check(loss, var_list)
        return self._noted(loss.graph, lambda: _optimizers.Optimizer.minimize(
            self, loss, global_step, var_list, name=name or self._name, count_step=global_step is not None,
            run_update_ops=False))

    def _check(self, loss: _Any, var_list: _Any) -> list:
        if not isinstance(loss, _Node):
            raise RuntimeError("`loss` passed to Optimizer.compute_gradients should be a function when eager execution is "
                               "enabled.")
        variables = list(loss.graph.trainable_variables if var_list is None else var_list)
        if not variables:
            raise ValueError("No variables to optimize.")
        if not any(loss.graph.needs([loss], variable) for variable in variables):
            raise ValueError("No gradients provided for any variable, check your graph for ops that do not support "
                             f"gradients, between variables {[v.name for v in variables]} and loss {loss.name}.")
        return variables

    def compute_gradients(self, loss: _Any, var_list: _Any = None, gate_gradients: int = 1,
                          aggregation_method: _Any = None, colocate_gradients_with_ops: bool = False,
                          grad_loss: _Any = None) -> list:
        """(gradient, variable) for each variable; the gradient is None where the loss does not depend on it."""
        if callable(loss) and not isinstance(loss, _Node):
            from ..._tape import GradientTape
            with GradientTape() as tape:
                value = loss()
            watched = list(tape.watched_variables() if var_list is None else var_list)
            return list(zip(tape.gradient(value, watched, output_gradients=grad_loss), watched))
        if grad_loss is not None:
            loss = loss * grad_loss
        variables = self._check(loss, var_list)
        _here()
        keep, graph = _Keep(), loss.graph
        out = _ffi.new("est_gradient[]", max(len(variables), 1))
        nodes = keep.span("est_nodes", "est_node", [variable._c for variable in variables])
        _lib.est_compute_gradients(loss._c, nodes, out, _ffi.NULL)
        graph.check()
        return [(_from_c(graph, out[i]), variable) for i, variable in enumerate(variables)]

    def apply_gradients(self, grads_and_vars: _Any, global_step: _Any = None, name: str | None = None) -> _Any:
        """The operation that applies them; it also counts the global step, if it is given."""
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        if all(gradient is None for gradient, _ in pairs):
            raise ValueError(f"No gradients provided for any variable: {[v.name for _, v in pairs]}.")
        if _default_graph() is None and isinstance(pairs[0][1], _Variable):
            return self._apply_at_once([pair for pair in pairs if pair[0] is not None], global_step)
        _here()
        keep, graph = _Keep(), pairs[0][1].graph
        members: dict = {"name": keep.string(name or self._name), "no_global_step": global_step is None,
                         "no_update_ops": True}
        if global_step is not None:
            members["global_step"] = global_step._c
        return self._noted(graph, lambda: graph.node(_lib.est_apply_gradients(
            self._c(keep), keep.span("est_nodes", "est_node", [variable._c for _, variable in pairs]),
            keep.new("est_gradient[]", [_gradient(keep, gradient) for gradient, _ in pairs]),
            keep.options("est_minimize_options", **members))))

    def _apply_at_once(self, pairs: list, global_step: _Any) -> None:
        """The update of variables of a program that computes at once."""
        from ..._function import Function
        variables = tuple(variable for _, variable in pairs)
        parts = tuple(len(_values_of(gradient)) for gradient, _ in pairs)
        key = (parts, *map(id, variables))
        steps = self.__dict__.setdefault("_steps", {})
        if key not in steps:
            known = {id(variable) for _, together in steps.values() for variable in together}
            again = [variable.name for variable in variables if id(variable) in known]
            if again:
                raise NotImplementedError(f"{self._name}: {again[0]} was updated together with other variables before; give "
                                          "an optimizer the same variables, with gradients, in every step")
            place = _ffi.new("char *")
            steps[key] = (Function(lambda rate, *values: self._apply_in_trace(rate, values, parts, variables, place)),
                          variables)
        rate = self.learning_rate() if callable(self.learning_rate) else self.learning_rate
        values = [value for gradient, _ in pairs for value in _values_of(gradient)]
        values = [_Tensor(_unwrap(value)) for value in (_np.float32(_unwrap(rate)), *values)]
        concrete, leaves = steps[key][0].concrete(tuple(values), {}, variables[0]._world)
        concrete.run(leaves)
        if global_step is not None:
            global_step.assign_add(1)

    def _apply_in_trace(self, rate: _Node, values: tuple, parts: tuple, variables: tuple, place: _Any) -> None:
        """In a trace of the update; all of them share the slots of the first."""
        trace = _current_trace()
        if variables[0].graph is not trace.graph:
            raise _OtherWorld(variables[0]._world)
        keep, rest = _Keep(), iter(values)
        gradients = keep.new("est_gradient[]", [
            dict(zip(("values", "indices"), [next(rest)._c for _ in range(n)])) for n in parts])
        trace.graph.keep.append(place)
        before = _count_variables(trace.graph)
        _lib.est_share_begin(trace.graph._c, place)
        operation = _lib.est_apply_gradients(
            _lib.est_with_learning_node(self._make_c(0, keep), rate._c),
            keep.span("est_nodes", "est_node", [variable._c for variable in variables]), gradients,
            keep.options("est_minimize_options", name=keep.string(self._name), no_global_step=True, no_update_ops=True))
        _lib.est_share_end(trace.graph._c)
        operation = trace.graph.node(operation)
        self._note_made(_new_variables(trace.graph, trace.world, before), variables)
        trace.add_write([variable._name for variable in variables], operation)


def _node_name(variable: _Any) -> str:
    return _text(_lib.est_node_name(variable._c))


def _values_of(gradient: _Any) -> tuple:
    return (gradient,) if isinstance(gradient, (_Tensor, _Variable)) else (gradient.values, gradient.indices)


def _from_c(graph: _Any, gradient: _Any) -> _Any:
    if gradient.values.graph == _ffi.NULL:
        return None
    values = graph.node(gradient.values)
    return values if gradient.indices.graph == _ffi.NULL else _IndexedSlices(values, graph.node(gradient.indices))


class GradientDescentOptimizer(Optimizer, _optimizers.SGD):
    def __init__(self, learning_rate: _Any, use_locking: bool = False, name: str = "GradientDescent"):
        self._name = name
        _optimizers.SGD.__init__(self, learning_rate)


class MomentumOptimizer(Optimizer, _optimizers.SGD):
    _slots = ("momentum",)

    def __init__(self, learning_rate: _Any, momentum: float, use_locking: bool = False, name: str = "Momentum",
                 use_nesterov: bool = False):
        self._name = name
        _optimizers.SGD.__init__(self, learning_rate, momentum, use_nesterov, slot=True)


class AdamOptimizer(Optimizer, _optimizers.Adam):
    _slots = ("m", "v")

    def __init__(self, learning_rate: _Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 use_locking: bool = False, name: str = "Adam"):
        self._name = name
        _optimizers.Adam.__init__(self, learning_rate, beta1, beta2, epsilon)


class AdagradOptimizer(Optimizer, _optimizers.Adagrad):
    _slots = ("accumulator",)

    def __init__(self, learning_rate: _Any, initial_accumulator_value: float = 0.1, use_locking: bool = False,
                 name: str = "Adagrad"):
        if initial_accumulator_value <= 0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        self._name = name
        _optimizers.Adagrad.__init__(self, learning_rate, initial_accumulator_value)


class RMSPropOptimizer(Optimizer, _optimizers.RMSProp):
    def __init__(self, learning_rate: _Any, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-10,
                 use_locking: bool = False, centered: bool = False, name: str = "RMSProp"):
        self._name = name
        self._slots = ("rms", "mg", "momentum") if centered else ("rms", "momentum")
        _optimizers.RMSProp.__init__(self, learning_rate, decay, momentum, epsilon, centered)


class FtrlOptimizer(Optimizer, _optimizers.Ftrl):
    _slots = ("accum", "linear")

    def __init__(self, learning_rate: _Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
                 l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0,
                 use_locking: bool = False, name: str = "Ftrl"):
        self._name = name
        _optimizers.Ftrl.__init__(self, learning_rate, learning_rate_power, initial_accumulator_value,
                                  l1_regularization_strength, l2_regularization_strength)


class AdadeltaOptimizer(Optimizer, _optimizers.Adadelta):
    _slots = ("accum", "accum_update")

    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.95, epsilon: float = 1e-8,
                 use_locking: bool = False, name: str = "Adadelta"):
        self._name = name
        _optimizers.Adadelta.__init__(self, learning_rate, rho, epsilon)


__getattr__ = _module_getattr(__name__, {
    **dict.fromkeys(("Supervisor", "SessionManager", "basic_train_loop"), "MonitoredTrainingSession"),
    **dict.fromkeys(("QueueRunner", "add_queue_runner", "start_queue_runners", "queue_runner", "batch", "batch_join",
                     "shuffle_batch", "shuffle_batch_join", "maybe_batch", "maybe_shuffle_batch", "input_producer",
                     "string_input_producer", "slice_input_producer", "range_input_producer", "limit_epochs"),
                    "tf.data.Dataset, whose batch, shuffle and repeat need no queues"),
    "SyncReplicasOptimizer": "tf.distribute.MultiWorkerMirroredStrategy, or estimators under ParameterServerStrategy"})
