# SPDX-License-Identifier: Apache-2.0
"""tf.keras.optimizers of Keras 2.15; those that estimators take are under `legacy`."""
from __future__ import annotations

import copy as _copy
import functools as _functools
import logging as _logging
import re as _re
import weakref as _weakref
from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from .... import ops as _ops
from .... import optimizers as _own
from ...._lib import Keep as _Keep
from ...._lib import ffi as _ffi
from ...._lib import here as _here
from ...._lib import lib as _lib
from ....graph import Graph as _Graph
from ....graph import Node as _Node
from ....graph import as_node as _as_node
from ....graph import default_graph as _default_graph
from ..._absent import module_getattr as _module_getattr
from ..._eager import unwrap as _unwrap
from ..._function import Function as _Function
from ..._tape import GradientTape as _GradientTape
from ..._indexed_slices import IndexedSlices as _IndexedSlices
from ..._checkpoint import Part as _Part
from ..._trace import Trace as _Trace
from ..._variable import Variable as _Variable
from ..._trace import current_trace as _current_trace
from ..._world import current_world as _current_world
from ..._variable import new_variables as _new_variables
from ..._trace import replica_context as _replica_context
from .._calling import unique_name as _unique_name
from .._recorded import Recorded as _Recorded
from .._recorded import overridden as _overridden
from .._serial import by_module as _by_module
from .._serial import made_of as _made_of
from .._serial import recorded as _recorded_arguments
from .._serial import serialize as _serialized
from . import legacy, schedules  # noqa: F401


class _Bound:
    """The variables of an optimizer in a world, or in the graph of a model_fn. Slots are there when a function updates with it, or when a checkpoint
    is written or restored; a network has some of its own, which are kept equal to these."""

    def __init__(self, optimizer: "Optimizer", world: _Any, graph: _Any = None):
        rate, follows = optimizer._rate, isinstance(optimizer._rate, schedules.LearningRateSchedule)
        self.trained: list[_Variable] = []  # variables with slots, in the order of Keras
        self.slots: dict[tuple[int, str], _Variable] = {}  # (id of a variable, name of a slot) -> the slot
        self.unused: dict[tuple[int, str], _Variable] = {}  # slots that `variables` has shown, of no use to an update
        self.numbers: dict[str, _Variable] = {}  # "beta_1", "decay", ..., and the product of Nadam's momenta
        self.averages: dict[int, _Variable] = {}  # id of a variable -> its moving average, of use_ema
        self.current: _Variable | None = None  # the rate of the last step of a schedule, of a graph
        make = _functools.partial(_Variable._in, world, graph=graph)
        self.iterations = make(_np.int64(0), "iteration")
        self.rate = None if follows else make(_np.float32(rate), "learning_rate")
        if optimizer._legacy:
            self.iterations._shown = f"{optimizer.name}/iter:0"
        if graph is not None:
            self.current = make(_np.float32(0.0), "current_learning_rate") if follows else None
        elif self.rate is not None:
            world.apart.add(self.rate._bytes)


def _numbered(items: list) -> _Part:
    return _Part([(str(i), item) for i, item in enumerate(items)])


def _parts_of_sum(gradients: list) -> list:
    """Gradients that are equal in all replicas as those whose sum they are."""
    context = _replica_context()
    n = 1 if context is None else context.num_replicas_in_sync
    if n == 1:
        return gradients
    return [_IndexedSlices(gradient.values / n, gradient.indices, gradient.dense_shape)
            if isinstance(gradient, _IndexedSlices) else gradient / n for gradient in gradients]


_METHODS = ("apply_gradients", "minimize", "compute_gradients")  # that a step calls
_UNCALLED = ("update_step", "_resource_apply_dense", "_resource_apply_sparse", "aggregate_gradients", "_apply_gradients")


class Optimizer(_Recorded):
    """How gradients update variables. The update is that of the library."""

    def __init__(self, make: _Callable[[_Any], _own.Optimizer], learning_rate: _Any, name: str,
                 clipnorm: float | None = None, clipvalue: float | None = None, global_clipnorm: float | None = None,
                 weight_decay: float | None = None, use_ema: bool = False, ema_momentum: float = 0.99,
                 ema_overwrite_frequency: _Any = None, jit_compile: bool = True, **named: _Any):
        method = _overridden(type(self), *_UNCALLED)
        if method is not None:
            raise NotImplementedError(f"{type(self).__name__} overrides {method}, which nothing calls here: the update is the "
                                      "library's; override apply_gradients to change gradients, or assign to the variables")
        if use_ema and not 0 <= ema_momentum <= 1:
            raise ValueError(f"`ema_momentum` must be in the range [0, 1]. Received: ema_momentum={ema_momentum}")
        if ema_overwrite_frequency and (not isinstance(ema_overwrite_frequency, int) or ema_overwrite_frequency < 1):
            raise ValueError("`ema_overwrite_frequency` must be an integer > 1 or None. Received: "
                             f"ema_overwrite_frequency={ema_overwrite_frequency}")
        self.use_ema, self.ema_momentum = bool(use_ema), float(ema_momentum)
        self.ema_overwrite_frequency = ema_overwrite_frequency if use_ema else None
        if named.pop("decay", None):
            raise ValueError("decay is deprecated in the new Keras optimizer; use a schedule of "
                             "tf.keras.optimizers.schedules")
        if named.pop("lr", None):
            _logging.getLogger("tensorflow").warning("%s: `lr` is not used; the name is `learning_rate`", name)
        if named:
            raise TypeError(f"{name} takes no argument {next(iter(named))!r}")
        if clipnorm is not None and global_clipnorm is not None:
            raise ValueError("At most one of `clipnorm` and `global_clipnorm` can be set. Received: "
                             f"clipnorm={clipnorm}, global_clipnorm={global_clipnorm}.")
        self._make = make
        self._rate = learning_rate
        self.name = name
        self.clipnorm, self.clipvalue, self.global_clipnorm = clipnorm, clipvalue, global_clipnorm
        self.weight_decay = weight_decay
        self._not_decayed: list[str] = []  # parts of names
        self._scope = _unique_name("optimizer")
        self._bound: _weakref.WeakKeyDictionary = _weakref.WeakKeyDictionary()
        self._graphs: _weakref.WeakKeyDictionary = _weakref.WeakKeyDictionary()
        self._applying: dict = {}
        self._compiled: _weakref.WeakSet = _weakref.WeakSet()  # networks that train with it
        self._legacy = False  # the names in checkpoints are those of legacy optimizers

    # --- variables ---

    def _in_world(self, world: _Any) -> _Bound:
        if world not in self._bound:
            self._bound[world] = _Bound(self, world)
        return self._bound[world]

    def _in_model(self, graph: _Graph) -> _Bound:
        """Its variables in the graph of a model_fn."""
        if graph not in self._graphs:
            self._graphs[graph] = _Bound(self, None, graph)
        return self._graphs[graph]

    def _first(self) -> _Bound:
        graph = _default_graph()
        if graph is not None and getattr(graph, "world", None) is None and not graph.is_sketch:
            return self._in_model(graph)
        for bound in self._bound.values():
            return bound
        return self._in_world(_current_world())

    @property
    def iterations(self) -> _Variable:
        return self._first().iterations

    @property
    def learning_rate(self) -> _Any:
        if isinstance(self._rate, schedules.LearningRateSchedule):
            return self._rate(self.iterations)
        return self._first().rate

    @learning_rate.setter
    def learning_rate(self, value: _Any) -> None:
        if isinstance(self._rate, schedules.LearningRateSchedule) or isinstance(value, schedules.LearningRateSchedule):
            if self._bound:
                raise TypeError("This optimizer was created with a `LearningRateSchedule` object as its "
                                "`learning_rate` constructor argument, hence its learning rate is not settable.")
            self._rate = value
            return
        self._rate = float(_unwrap(value))
        for bound in self._bound.values():
            bound.rate.assign(_np.float32(self._rate))

    lr = learning_rate

    @property
    def variables(self) -> list[_Variable]:
        """The counter of steps, moving averages and slots, in the order of Keras."""
        bound = self._noted()
        return [self._unused_slot(bound, *slot) if isinstance(slot, tuple) else slot
                for slot in self._ordered(bound, self._together())]

    # --- slots ---

    _rule = ""  # what the library calls it in names of slots
    _slots: tuple = ()  # (Keras' name of the list, name of the slot)
    _by_kind = False  # all slots of one kind come before those of the next
    _shown_kinds: dict = {}  # name of a slot -> Keras' name of it, where that is another one

    def _kinds(self) -> list:
        """The kinds of slots that an update makes."""
        return list(self._slots)

    def build(self, var_list: _Any) -> None:
        """Makes the slots of these variables."""
        variables = [variable for variable in var_list if variable._world is not None]
        if variables and not variables[0]._world.is_remote:
            self._note_networks(variables[0]._world)
            self._make_slots(variables[0]._world, variables)

    def _note_networks(self, world: _Any) -> None:
        """Slots for what networks have trained, in the order in which they did."""
        for network in list(self._compiled):
            if network._world is world and not world.is_remote:
                network.note_trained(self)

    def _make_slots(self, world: _Any, variables: list) -> _Bound:
        """Slots for variables that have none, with the values of networks that have trained."""
        bound = self._in_world(world)
        new = [variable for variable in variables if not any(variable is item for item in bound.trained)]
        if not new:
            return bound
        with _Trace(world):  # an update that nobody runs
            gradients = [world.graph.placeholder(None, variable.dtype, variable.shape) for variable in new]
            self._apply(gradients, tuple(new))
        return bound

    def _shown_slot(self, kind: str, variable: _Variable) -> str:
        if self._legacy:
            return f"{self.name}/{variable.name.split(':')[0]}/{kind}:0"
        return f"{self.name}/{self._shown_kinds.get(kind, kind)}/{variable._shown}"

    def _note_slots(self, bound: _Bound, world: _Any, variables: tuple) -> None:
        """Finds the slots that an update has made."""
        new = [variable for variable in variables if not any(variable is item for item in bound.trained)]
        if not new:
            return
        graph = bound.iterations.graph if world is None else world.graph
        made = {variable._name: variable for variable in _new_variables(graph, world, 0)}
        for variable in new:
            for _, kind in self._kinds():
                slot = made.get(f"{self._scope}/{self._rule}/{variable._name}/{kind}")
                if slot is not None:
                    slot._shown = self._shown_slot(kind, variable)
                    bound.slots[(id(variable), kind)] = slot
        for name in ("beta_1", "beta_2", "decay", "momentum", "rho", "momentum_cache"):
            number = made.get(f"{self._scope}/{self._rule}/{name}")
            if number is not None:
                number._shown = f"{self.name}/{name}:0"
                bound.numbers.setdefault(name, number)
        bound.trained += new
        if world is not None:  # the session has them after the trace
            _current_trace().late.append(_functools.partial(self._take_slots, new))

    def _take_slots(self, variables: list) -> None:
        """Gives new slots the values of networks that have trained."""
        for network in list(self._compiled):
            network.give_slots(self, variables)

    def _noted(self) -> _Bound:
        """With slots for what networks have trained."""
        bound = self._first()
        if bound.iterations._world is not None:
            self._note_networks(bound.iterations._world)
        return bound

    def _together(self) -> list[list]:
        """The kinds of slots in groups: those of one variable in a group stand together."""
        kinds = self._kinds()
        if self._by_kind or self._legacy and self._rule != "Ftrl":
            return [[kind] for kind in kinds]
        return [kinds[:len(self._slots)], kinds[len(self._slots):]]

    def _ordered(self, bound: _Bound, together: list[list]) -> list:
        """All that Keras has a variable for; a pair of a variable and a kind: a slot that the update does not need."""
        averages = [self._average_of(bound, variable) for variable in bound.trained] if self.use_ema else []
        numbers = [bound.numbers[name] for name in ("momentum_cache",) if self._legacy and name in bound.numbers]
        slots = [bound.slots.get((id(variable), kind), (variable, kind))
                 for part in together for variable in bound.trained for _, kind in part]
        if self._legacy:  # which has none that it does not need
            slots = [slot for slot in slots if isinstance(slot, _Variable)]
        return [bound.iterations] + numbers + averages + slots

    def _checkpoint_parts(self) -> _Part:
        """Variables by the names of Keras 2.15, or of its legacy optimizers."""
        bound = self._noted()
        if self._legacy:
            return self._legacy_parts(bound)
        together = self._together()
        order = [_Part(value=_np.zeros(tuple(slot[0].shape), slot[0].dtype.as_numpy_dtype),
                       name=f"{self.name}/{slot[1]}") if isinstance(slot, tuple) else slot
                 for slot in self._ordered(bound, together)]
        averages = order[1:1 + len(bound.trained)] if self.use_ema else []
        rest, lists = iter(order[1 + len(averages):]), {name: [] for name, _ in self._kinds()}
        for part in together:
            for _ in bound.trained:
                for name, _ in part:
                    lists[name].append(next(rest))
        found = [("_variables", _numbered(order)), ("_iterations", bound.iterations)]
        if bound.rate is not None:
            found.append(("_learning_rate", bound.rate))
        elif bound.current is not None:
            found.append(("_current_learning_rate", bound.current))
        else:
            rate = _np.float32(self._rate(bound.iterations))
            found.append(("_current_learning_rate", _Part(value=_np.asarray(rate), name="current_learning_rate")))
        if "momentum_cache" in bound.numbers:
            found.append(("_u_product", bound.numbers["momentum_cache"]))
        if averages:
            found.append(("_model_variables_moving_average", _numbered(averages)))
        return _Part(found + [(name, _numbered(slots)) for name, slots in lists.items() if bound.trained])

    def _legacy_parts(self, bound: _Bound) -> _Part:
        found = [("iter", bound.iterations)]
        if bound.rate is not None:
            found.append(("learning_rate", bound.rate))
        part = _Part(found + list(bound.numbers.items()))
        part.slots = [(variable, kind, bound.slots[(id(variable), kind)]) for variable in bound.trained
                      for _, kind in self._kinds() if (id(variable), kind) in bound.slots]
        return part

    # --- weight decay ---

    def exclude_from_weight_decay(self, var_list: _Any = None, var_names: _Any = None) -> None:
        """These variables, and those whose names have one of the words in them, do not decay."""
        if self._applying or self._compiled:
            raise ValueError("`exclude_from_weight_decay()` can only be configued before the optimizer is built.")
        for name in var_names or ():
            if _re.search(r"[][.*+?^$(){}|\\]", name):
                raise NotImplementedError(f"exclude_from_weight_decay: {name!r} is a pattern; words do exist")
        self._not_decayed = [variable._name for variable in var_list or ()] + list(var_names or ())

    def _decayed(self, made: _Any, keep: _Keep) -> _Any:
        if not self.weight_decay:
            return made
        return _lib.est_with_weight_decay(made, float(self.weight_decay), keep.strings(self._not_decayed))

    # --- updates ---

    def _c(self, keep: _Keep) -> _Any:
        """An est_optimizer for a network."""
        rate = self._rate
        if isinstance(rate, schedules.LearningRateSchedule):
            made = _lib.est_with_schedule(self._make(0.0)._c(keep), rate._schedule(keep))
        else:
            made = self._make(float(self._first().rate.numpy()) if self._bound else float(rate))._c(keep)
        return self._complete(made, keep)

    def compute_gradients(self, loss: _Any, var_list: _Any, tape: _Any = None) -> list:
        if tape is None:
            with _GradientTape() as tape:
                loss = loss()
        return list(zip(tape.gradient(loss, var_list), var_list))

    def minimize(self, loss: _Any, var_list: _Any, tape: _Any = None) -> _Any:
        return self.apply_gradients(self.compute_gradients(loss, var_list, tape))

    def apply_gradients(self, grads_and_vars: _Any, name: str | None = None,
                        skip_gradients_aggregation: bool = False, **named: _Any) -> _Any:
        """Updates the variables; in a replica the gradients of all replicas are summed first, unless the program has
        done that."""
        aggregate = named.pop("experimental_aggregate_gradients", None)
        if named:
            raise TypeError(f"apply_gradients() got an unexpected keyword argument {next(iter(named))!r}")
        if aggregate is not None:
            skip_gradients_aggregation = not aggregate
        given = list(grads_and_vars)
        if not given:  # of a model that is frozen
            return self.iterations
        pairs = [(gradient, variable) for gradient, variable in given if gradient is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        variables = tuple(variable for _, variable in pairs)
        if _default_graph() is not None:
            gradients = [gradient for gradient, _ in pairs]
            return self._apply(_parts_of_sum(gradients) if skip_gradients_aggregation else gradients, variables)
        key = (tuple(id(variable) for variable in variables),
               tuple(isinstance(gradient, _IndexedSlices) for gradient, _ in pairs))
        if key not in self._applying:
            sparse = key[1]

            def apply(*values: _Any) -> None:
                rest = iter(values)
                self._apply([_IndexedSlices(next(rest), next(rest)) if is_sparse else next(rest)
                             for is_sparse in sparse], variables)

            self._applying[key] = (_Function(apply), variables)
        values = [value for gradient, _ in pairs for value in (
            (gradient.values, gradient.indices) if isinstance(gradient, _IndexedSlices) else (gradient,))]
        from ..._eager import Tensor
        values = tuple(value if isinstance(value, Tensor) else Tensor(_unwrap(value)) for value in values)
        concrete, leaves = self._applying[key][0].concrete(values, {}, variables[0]._world)
        concrete.run(leaves)
        return self.iterations

    def _apply(self, gradients: list, variables: tuple) -> _Any:
        _here()
        trace = _current_trace()
        graph = _default_graph()
        if trace is not None and variables[0].graph is not graph:
            from ..._world import OtherWorld
            raise OtherWorld(variables[0]._world)
        keep = _Keep()
        if trace is None:
            return self._apply_v1(graph, gradients, variables, keep)
        bound = self._in_world(trace.world)
        count = _ffi.new("est_gradient[]", len(variables))
        for i, (gradient, variable) in enumerate(zip(gradients, variables)):
            if isinstance(gradient, _IndexedSlices):
                count[i].values = _as_node(_unwrap(gradient.values), graph, variable.dtype)._c
                count[i].indices = _as_node(_unwrap(gradient.indices), graph)._c
            else:
                count[i].values = _as_node(_unwrap(gradient), graph, variable.dtype)._c
        if bound.rate is not None:
            rate = bound.rate._as_node(graph)
        else:
            rate = _as_node(self._rate(bound.iterations), graph)
        handles = [variable._handle._c for variable in variables]
        operation = _Node(graph, _lib.est_apply_gradients(
            _lib.est_with_learning_node(self._complete(self._make(0.0)._c(keep), keep), rate._c),
            keep.span("est_nodes", "est_node", handles), count,
            keep.options("est_minimize_options", global_step=bound.iterations._handle._c, no_update_ops=True,
                         share_slots=True, slot_scope=keep.string(self._scope))))
        graph.check()
        names = [variable._name for variable in variables] + [bound.iterations._name]
        trace.add_write(names[:-1], operation)
        if self.use_ema or any(variable.constraint is not None for variable in variables):
            context = _replica_context()
            if context is None or context.num_replicas_in_sync == 1:
                self._follow_up(bound, variables)
            else:
                context.merge_call(lambda strategy: self._follow_up(bound, variables))
        trace.add_write(names[-1:], operation)
        if not trace.world.is_remote:
            self._note_slots(bound, trace.world, variables)
        return operation

    # --- after the update ---

    def _unused_slot(self, bound: _Bound, variable: _Variable, kind: str) -> _Variable:
        """One that Keras has and the update does not need: zeros."""
        slot = bound.unused.get((id(variable), kind))
        if slot is None:
            zeros = _np.zeros(tuple(variable.shape), variable.dtype.as_numpy_dtype)
            slot = bound.unused[(id(variable), kind)] = _Variable._in(variable._world, zeros, kind)
            slot._shown = self._shown_slot(kind, variable)
        return slot

    def _average_of(self, bound: _Bound, variable: _Variable) -> _Variable:
        """The moving average of a variable, which begins with the value of the variable."""
        made = bound.averages.get(id(variable))
        if made is None:
            made = bound.averages[id(variable)] = _Variable._in(variable._world, variable._array(), "average")
            made._shown = f"{self.name}/average/{variable._shown}"
        return made

    def _follow_up(self, bound: _Bound, variables: tuple) -> None:
        """Moving averages and constraints, as Keras has them after an update; the counter of steps still has the old
        value."""
        every, momentum = self.ema_overwrite_frequency, self.ema_momentum
        for variable in variables if self.use_ema else ():
            if variable._world.is_remote:
                raise NotImplementedError("use_ema with variables at parameter servers does not exist yet")
            average = self._average_of(bound, variable)
            average.assign(average.value() * momentum + variable.value() * (1 - momentum))
            if every:
                due = _ops.equal(_ops.floormod(bound.iterations.value() + 1, every), 0)
                variable.assign(_ops.where(due, average.value(), variable.value()))
        for variable in variables:
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable.value()))

    def finalize_variable_values(self, var_list: _Any) -> None:
        """Sets the variables to their moving averages, with use_ema; fit does it at its end."""
        for variable in var_list if self.use_ema else ():
            variable.assign(self._average_of(self._in_world(variable._world), variable).value())

    def _updates_all_rows(self) -> bool:
        """Whether a gradient of rows counts as a dense one, which optimizers before 2.11 do not have."""
        return False

    def _complete(self, made: _Any, keep: _Keep) -> _Any:
        """With what is not of the rule: decay, clipping, and what a gradient of rows means."""
        if not self._legacy and self._updates_all_rows():
            made = _lib.est_with_dense_gradients(made)
        by_norm = self.clipnorm or self.global_clipnorm
        value = 0.0 if by_norm else self.clipvalue or 0.0  # Keras asks for a norm first, and then for nothing else
        return _lib.est_with_clipping(self._decayed(made, keep), value, self.clipnorm or 0.0, self.global_clipnorm or 0.0)

    def _apply_v1(self, graph: _Graph, gradients: list, variables: tuple, keep: _Keep) -> _Any:
        """The operation of a step of a model_fn. It counts `iterations`, and not the global step, as in Keras."""
        if self.use_ema or any(variable.constraint is not None for variable in variables):
            raise NotImplementedError("use_ema and constraints of variables in a model_fn do not exist yet; "
                                      "tf.compat.v1.train.ExponentialMovingAverage has averages")
        from ...compat.v1.train import _gradient
        bound = self._in_model(graph)
        rate = _as_node(self._rate(bound.iterations) if bound.rate is None else bound.rate, graph)
        made = self._complete(self._make(0.0)._c(keep), keep)
        operation = graph.node(_lib.est_apply_gradients(
            _lib.est_with_learning_node(made, rate._c),
            keep.span("est_nodes", "est_node", [variable._c for variable in variables]),
            keep.new("est_gradient[]", [_gradient(keep, gradient) for gradient in gradients]),
            keep.options("est_minimize_options", global_step=bound.iterations._c, share_slots=True,
                         slot_scope=keep.string(self._scope))))
        graph.check()
        self._note_slots(bound, None, variables)
        return operation if bound.current is None else _ops.group([operation, bound.current._handle.assign(rate)])

    def get_config(self) -> dict:
        """What the optimizer was made with, as plain values, with the learning rate of now."""
        config = {"name": self.name, "weight_decay": self.weight_decay, "clipnorm": self.clipnorm,
                  "global_clipnorm": self.global_clipnorm, "clipvalue": self.clipvalue, "use_ema": self.use_ema,
                  "ema_momentum": self.ema_momentum, "ema_overwrite_frequency": self.ema_overwrite_frequency,
                  "jit_compile": False, "is_legacy_optimizer": False, "learning_rate": self._rate_as_plain()}
        if type(self).__module__.startswith("estoc."):
            config.update((key, value) for key, value in _recorded_arguments(self, type(self)).items() if key not in config)
        return config

    _said_besides = ("is_legacy_optimizer",)

    def _rate_as_plain(self) -> _Any:
        if isinstance(self._rate, schedules.LearningRateSchedule):
            return _serialized(self._rate)
        return float(_np.float32(self._rate if not self._bound else self._first().rate.numpy()))

    def __repr__(self) -> str:
        return f"<estoc.tf.keras.optimizers.{type(self).__name__}>"


class SGD(Optimizer):
    """w -= lr g; with momentum v = momentum v - lr g, w += v."""

    _rule, _slots, _shown_kinds = "SGD", (("momentums", "momentum"),), {"momentum": "m"}

    def __init__(self, learning_rate: _Any = 0.01, momentum: float = 0.0, nesterov: bool = False, name: str = "SGD",
                 **named: _Any):
        if not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be a float between [0, 1].")
        self.momentum = momentum
        super().__init__(lambda rate: _own.SGD(rate, momentum, nesterov, keras=True), learning_rate, name, **named)

    def _updates_all_rows(self) -> bool:
        return bool(self.momentum)


class Adam(Optimizer):
    """Adam."""

    _rule, _slots = "Adam", (("_momentums", "m"), ("_velocities", "v"))

    def _kinds(self) -> list:
        return super()._kinds() + [("_velocity_hats", "vhat")] * self.amsgrad

    def __init__(self, learning_rate: _Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 amsgrad: bool = False, name: str = "Adam", **named: _Any):
        self.amsgrad = bool(amsgrad)
        super().__init__(lambda rate: _own.Adam(rate, beta_1, beta_2, epsilon, keras=True, amsgrad=self.amsgrad),
                         learning_rate, name, **named)


class AdamW(Adam):
    """Adam with weights that decay."""

    def __init__(self, learning_rate: _Any = 0.001, weight_decay: float = 0.004, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-7, amsgrad: bool = False, name: str = "AdamW",
                 **named: _Any):
        if weight_decay is None:
            raise ValueError("Missing value of `weight_decay` which is required and must be a float value.")
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, name, weight_decay=weight_decay, **named)


class RMSprop(Optimizer):
    """Gradients divided by the root of a running mean of their squares."""

    _rule, _by_kind, _shown_kinds = "RMSprop", True, {"rms": "velocity", "mg": "average_gradient"}

    def _kinds(self) -> list:
        return [("_velocities", "rms")] + [("_momentums", "momentum")] * bool(self.momentum) + [
            ("_average_gradients", "mg")] * self.centered

    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
                 centered: bool = False, name: str = "RMSprop", **named: _Any):
        self.momentum, self.centered = momentum, bool(centered)
        super().__init__(lambda rate: _own.RMSProp(rate, rho, momentum, epsilon, centered, keras=True,
                                                   epsilon_inside=True), learning_rate, name, **named)

    def _updates_all_rows(self) -> bool:
        return bool(self.momentum)


class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of their squares."""

    _rule, _slots = "Adagrad", (("_accumulators", "accumulator"),)

    def __init__(self, learning_rate: _Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
                 name: str = "Adagrad", **named: _Any):
        super().__init__(lambda rate: _own.Adagrad(rate, initial_accumulator_value, epsilon, keras=True),
                         learning_rate, name, **named)


class Adadelta(Optimizer):
    """Steps in the size of former ones."""

    _rule, _slots = "Adadelta", (("_accumulated_grads", "accum_grad"), ("_accumulated_delta_vars", "accum_var"))
    _shown_kinds = {"accum_grad": "accumulated_grad", "accum_var": "accumulated_delta_var"}

    def __init__(self, learning_rate: _Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, name: str = "Adadelta",
                 **named: _Any):
        super().__init__(lambda rate: _own.Adadelta(rate, rho, epsilon, keras=True), learning_rate, name, **named)

    def _updates_all_rows(self) -> bool:
        return True


class Adamax(Optimizer):
    """Adam with the largest gradient in place of a mean square."""

    _rule, _slots, _shown_kinds = "Adamax", (("_m", "m"), ("_u", "v")), {"v": "u"}

    def __init__(self, learning_rate: _Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 name: str = "Adamax", **named: _Any):
        super().__init__(lambda rate: _own.Adamax(rate, beta_1, beta_2, epsilon), learning_rate, name, **named)


class Nadam(Optimizer):
    """Adam with Nesterov's momentum."""

    _rule, _slots = "Nadam", (("_momentums", "m"), ("_velocities", "v"))

    def __init__(self, learning_rate: _Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 name: str = "Nadam", **named: _Any):
        super().__init__(lambda rate: _own.Nadam(rate, beta_1, beta_2, epsilon), learning_rate, name, **named)


class Lion(Optimizer):
    """Steps of one size, by the sign of a momentum."""

    _rule, _slots = "Lion", (("momentums", "m"),)

    def __init__(self, learning_rate: _Any = 0.0001, beta_1: float = 0.9, beta_2: float = 0.99, name: str = "Lion",
                 **named: _Any):
        if not 0 < beta_1 <= 1:
            raise ValueError(f"`beta_1`={beta_1} must be between ]0, 1]. Otherwise, the optimizer degenerates to "
                             "SignSGD.")
        super().__init__(lambda rate: _own.Lion(rate, beta_1, beta_2), learning_rate, name, **named)


class Ftrl(Optimizer):
    """FTRL-proximal."""

    _rule, _slots = "Ftrl", (("_accumulators", "accumulator"), ("_linears", "linear"))

    def __init__(self, learning_rate: _Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, l2_shrinkage_regularization_strength: float = 0.0,
                 beta: float = 0.0, name: str = "Ftrl", **named: _Any):
        super().__init__(lambda rate: _own.Ftrl(
            rate, learning_rate_power, initial_accumulator_value, l1_regularization_strength,
            l2_regularization_strength, l2_shrinkage_regularization_strength, beta, keras=True), learning_rate, name,
            **named)

    def _updates_all_rows(self) -> bool:
        return True


_CLASSES = {kind.__name__.lower(): kind for kind in (SGD, Adam, AdamW, RMSprop, Adagrad, Adadelta, Adamax, Nadam,
                                                        Lion, Ftrl)}


def _of_legacy(given: _own.Optimizer) -> Optimizer:
    """An optimizer of `legacy` for models and loops of Keras: the same formula and numbers."""
    def make(rate: _Any) -> _own.Optimizer:
        one = _copy.copy(given)
        one._loop, one.learning_rate = None, rate
        return one

    rate = given._plain_rate()
    if not isinstance(rate, (int, float, schedules.LearningRateSchedule)):
        raise NotImplementedError(f"the learning rate of a Keras model is a number or a schedule of "
                                  f"tf.keras.optimizers.schedules, not {rate!r}")
    if sum(value is not None for value in getattr(given, "_clipping", {}).values()) > 1:
        raise NotImplementedError("a legacy optimizer with two of clipnorm, clipvalue and global_clipnorm: give one")
    kind = _CLASSES.get(type(given).__name__.lower(), Optimizer)
    optimizer = object.__new__(kind)
    optimizer.momentum, optimizer.centered = getattr(given, "_momentum", 0.0), getattr(given, "_centered", False)
    optimizer.amsgrad = getattr(given, "_amsgrad", False)
    Optimizer.__init__(optimizer, make, rate, type(given).__name__, **getattr(given, "_clipping", {}))
    optimizer._legacy = True
    optimizer._made_of = given
    return optimizer


def _of_loops(optimizer: _Any) -> Optimizer:
    """What trains in place of an optimizer of `legacy`; others train themselves."""
    return optimizer._in_loop() if hasattr(optimizer, "_in_loop") else optimizer


def get(identifier: _Any) -> _Any:
    """The optimizer of a name, or the object itself."""
    identifier = _made_of(identifier)
    if isinstance(identifier, Optimizer):
        return identifier
    if isinstance(identifier, _own.Optimizer):
        return identifier if hasattr(identifier, "_in_loop") else _of_legacy(identifier)
    if isinstance(identifier, str):
        if identifier.lower() not in _CLASSES:
            raise ValueError(f"Unknown optimizer: '{identifier}'; there are {', '.join(sorted(_CLASSES))}")
        return _CLASSES[identifier.lower()]()
    raise ValueError(f"Could not interpret optimizer identifier: {identifier}")


serialize, deserialize = _by_module("optimizers")
__getattr__ = _module_getattr(__name__, {
    "Adafactor": "tf.keras.optimizers.Adam and the others of this module",
    "experimental": "tf.keras.optimizers, which are those of Keras 2.15"})
