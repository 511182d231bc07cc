# SPDX-License-Identifier: Apache-2.0
"""tf.GradientTape: derivatives of what functions and operations have computed.

In a function that is traced a tape notes nothing down, since the graph has it all. Outside, it notes calls down, and
`gradient` goes back through them. Calls whose results follow from arguments and variables alone become one step, which
computes them once more together with the derivatives, and is kept for the next time. A call that draws numbers, that
reads what it has written itself, or that takes elements of an iterator goes back through the very trace that ran, in a
run that draws the same. So does a call of a tf.function, unless derivatives of its derivatives may be asked for. Where variables were written since, both see the values of that time, which the tape has kept.
"""
from __future__ import annotations

import contextlib
import logging
from typing import Any, Callable, Iterator

import numpy as np

from .._lib import Keep, ffi, here, lib
from .._tensor import as_array
from ..errors import FailedPreconditionError
from ..graph import Node, as_node, default_graph
from . import _structure
from ._eager import Tensor, tapes, unwrap
from ._function import ConcreteFunction, Function
from ._indexed_slices import IndexedSlices, dense
from ._trace import Trace
from ._variable import Variable
from ._world import OtherWorld, recorders, writes

_logger = logging.getLogger("tensorflow")


def build_gradients(targets: list, given: list | None, sources: list) -> list:
    """d(sum of targets) / d(source) in a graph, for nodes and variables; None where there is none. `given` are gradients
    towards the targets in place of ones."""
    here()
    graph, keep = targets[0].graph, Keep()
    handles = [source._handle._c if isinstance(source, Variable) else source._c for source in sources]
    out = ffi.new("est_gradient[]", max(len(handles), 1))
    lib.est_gradients_from(keep.span("est_nodes", "est_node", [target._c for target in targets]),
                           keep.span("est_nodes", "est_node", [ffi.new("est_node *")[0] if weight is None else weight._c
                                                               for weight in given or ()]),
                           keep.span("est_nodes", "est_node", handles), out)
    graph.check()
    found: list = []
    for i, source in enumerate(sources):
        if out[i].values.graph == ffi.NULL:
            found.append(None)
        elif out[i].indices.graph != ffi.NULL:
            found.append(IndexedSlices(Node(graph, out[i].values), Node(graph, out[i].indices), source.shape))
        else:
            found.append(Node(graph, out[i].values))
    return found


class UnconnectedGradients:
    """What a gradient is where nothing connects: None, or zeros."""

    NONE, ZERO = "none", "zero"


class Record:
    """A call that a tape has noted down."""

    __slots__ = ("function", "positional", "named", "over_values", "results", "time", "own")

    def __init__(self, function: Callable, positional: tuple, named: dict, over_values: bool, results: Any, time: int,
                 own: Any):
        self.function, self.positional, self.named = function, _kept(positional), _kept(named)
        self.over_values = over_values  # an operation: it reads the variables among its arguments, and no others
        self.results = _structure.flatten(results)
        self.time = time  # how often variables had been written
        self.own = own  # what goes back through the call by itself; None: it is computed once more

    def tensors(self) -> list[tuple[int, Tensor]]:
        """The results that are tensors, with their places."""
        return [(k, leaf) for k, leaf in enumerate(self.results) if isinstance(leaf, Tensor)]


def _kept(arguments: Any) -> Any:
    """Arguments with arrays of the program copied, which may change."""
    values = arguments.values() if isinstance(arguments, dict) else arguments
    if not any(isinstance(value, (np.ndarray, list, tuple, dict)) for value in values):
        return arguments
    return _structure.map_structure(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, arguments)


class GradientTape:
    """Derivatives of what is computed within its block."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        self._persistent = persistent
        self._accessed = watch_accessed_variables
        self._watched: list = []
        self._records: list[Record] = []
        self._seen: list = []  # variables of records that are gone
        self._before: dict[int, dict] = {}  # by number of the write, the values that it replaced: (world, name) -> array
        self._used = False
        self._again = persistent  # whether its own gradients are noted down: of one that is asked once nobody can ask
        self._traced = False
        self._open = False
        self._known: set[int] = set()  # of tensors that are watched, or results of what was recorded: their ids

    def __enter__(self) -> "GradientTape":
        self._traced = default_graph() is not None
        if not self._traced:
            tapes().append(self)
            recorders.add(self)
            self._open = True
        return self

    def __exit__(self, *exception: Any) -> None:
        self._open = False
        if not self._traced and self in tapes():
            tapes().remove(self)
            if not self._records:
                recorders.discard(self)

    def watch(self, tensor: Any) -> None:
        leaves = _structure.flatten(tensor)
        self._watched += leaves
        self._known.update(map(id, leaves))

    def watched_variables(self) -> tuple:
        """The variables that recorded calls were given, or that belong to the layers and modules called."""
        found = [item for item in self._watched + self._seen if isinstance(item, Variable)]
        for record in self._records if self._accessed else ():
            found += [leaf for leaf in _structure.flatten((record.positional, record.named))
                      if isinstance(leaf, Variable)]
            found += getattr(getattr(record.function, "__self__", None), "trainable_variables", ())
        return tuple({id(item): item for item in found if item.trainable}.values())

    def reset(self) -> None:
        self._records, self._watched, self._seen = [], [], []
        self._known.clear()
        self._before.clear()

    def record(self, function: Callable, positional: tuple, named: dict, over_values: bool, results: Any,
               own: Any = None, time: int | None = None) -> None:
        """Notes a call down; not an operation over what is neither watched nor follows from it."""
        if over_values and not any(self.knows(leaf) or isinstance(leaf, Variable) and self._is_watched(leaf)
                                   for leaf in _structure.flatten((positional, named))):
            return
        record = Record(function, positional, named, over_values, results, writes[0] if time is None else time, own)
        self._records.append(record)
        self._known.update(id(leaf) for _, leaf in record.tensors())

    def knows(self, value: Any) -> bool:
        """Whether the value is watched, or the result of a call that was recorded."""
        return id(value) in self._known

    def keep(self, time: int, values: dict | None) -> None:
        """The values that a write is about to replace; None for those that are not known. When nothing more is recorded
        the first of several writes counts."""
        if not self._open and values is not None:
            since = [kept for at, kept in self._before.items() if not self._records or at >= self._records[-1].time]
            if None in since:
                return
            values = {key: value for key, value in values.items() if not any(key in kept for kept in since)}
        if values is None or values:
            self._before[time] = values

    def _is_watched(self, source: Any) -> bool:
        if any(source is item for item in self._watched):
            return True
        return isinstance(source, Variable) and self._accessed and source.trainable

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 unconnected_gradients: str = UnconnectedGradients.NONE) -> Any:
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients (or "
                               "jacobians)")
        self._used = True
        leaves = _structure.flatten(sources)
        targets = _structure.flatten(target)
        given = None if output_gradients is None else _structure.flatten(
            [dense(item) for item in output_gradients] if isinstance(output_gradients, (list, tuple)) else
            dense(output_gradients))
        zero = str(getattr(unconnected_gradients, "value", unconnected_gradients)).lower() == "zero"
        if default_graph() is not None:
            found = self._in_graph(targets, leaves, given)
        else:
            found = self._at_once(targets, leaves, given)
        if zero:
            from .. import ops
            found = [Tensor(np.zeros(tuple(source.shape), source.dtype.as_numpy_dtype)) if gradient is None and
                     default_graph() is None else ops.zeros_like(unwrap(source)) if gradient is None else gradient
                     for gradient, source in zip(found, leaves)]
        if not self._persistent:
            self._forget()
        return _structure.pack_as(sources, found)

    def _forget(self) -> None:
        self._seen = list(self.watched_variables())
        self._records = []
        self._known = set(map(id, self._watched))
        self._before.clear()
        if self not in tapes():
            recorders.discard(self)

    def _in_graph(self, targets: list, sources: list, given: list | None) -> list:
        if any(type(source) is Tensor and self._is_watched(source) for source in sources):
            raise NotImplementedError("a gradient in a function towards a tensor from outside, which is a constant there: "
                                      "give it to the function as an argument")
        graph = default_graph()
        targets = [unwrap(target) for target in targets]
        for target in targets:
            if isinstance(target, Node) and not target.dtype.is_floating:
                return [_without_gradient(target.dtype)] * len(sources)
        ends = [(target, None if given is None or given[i] is None else _towards(target, given[i]))
                for i, target in enumerate(targets) if isinstance(target, Node)]
        if not ends:
            return [None] * len(sources)
        known = [source for source in sources if isinstance(source, Node) or self._is_watched(source)]
        wanted = [source for source in known if isinstance(source, (Node, Variable))]
        for source in wanted:
            if isinstance(source, Variable) and source.graph is not graph:
                raise OtherWorld(source._world)
        found = iter(build_gradients([target for target, _ in ends], [weight for _, weight in ends], wanted))
        return [next(found) if any(source is item for item in wanted) else None for source in sources]

    # --- outside of traces ---

    def _at_once(self, targets: list, sources: list, given: list | None) -> list:
        made = {id(leaf) for record in self._records for _, leaf in record.tensors()}
        asked = [source for source in sources if self._is_watched(source) or id(source) in made]
        parts = self._parts(alone=not self._others())
        if len(parts) == 1 and parts[0].own is None:
            found = iter(self._of_records(parts[0], targets, asked, given))
            return [next(found) if any(source is item for item in asked) else None for source in sources]
        return self._backwards(parts, made, targets, sources, asked, given)

    def _others(self) -> list["GradientTape"]:
        """Tapes that note down what is computed now, and may be asked for it."""
        return [tape for tape in tapes() if tape is not self or self._again]

    def _parts(self, alone: bool) -> list["_Part"]:
        """The records, those together that one step computes; where no other tape follows, calls of functions of the
        program go back by themselves."""
        parts: list[_Part] = []
        for record in self._records:
            if record.own is not None and (alone or record.own.must):
                parts.append(_Part(record, record.own))
            elif parts and parts[-1].own is None and not self._writes_between(parts[-1], record):
                parts[-1].records.append(record)
            else:
                parts.append(_Part(record))
        return parts or [_Part(None)]

    def _writes_between(self, part: "_Part", record: Record) -> bool:
        """Whether a call may have read what was written since the calls of a part."""
        since = [values for time, values in self._before.items() if part.time <= time < record.time]
        read = _read_by([record]) if since else set()
        return any(values is None or (values if read is None else read & values.keys()) for values in since)

    @contextlib.contextmanager
    def _as_of(self, part: "_Part") -> Iterator[bool]:
        """The variables that a part reads have the values that they had then; whether these are others."""
        old: dict = {}
        read = _read_by(part.records)
        for at in sorted(at for at in self._before if at >= part.time):
            if self._before[at] is None:
                raise FailedPreconditionError("a GradientTape has recorded calls of variables that other tasks or "
                                              "functions have written since; call gradient() before that")
            for key, value in self._before[at].items():
                if read is None or key in read:
                    old.setdefault(key, value)
        if not old:
            yield False
            return
        with contextlib.ExitStack() as stack:
            for world in {id(world): world for world, _ in old}.values():
                if world.is_remote or world.is_shared:
                    raise FailedPreconditionError(
                        "a GradientTape has recorded calls of variables that were written since, which several tasks "
                        "share; call gradient() before that, or make a tf.function of both")
                stack.enter_context(world._lock)
            now = {(world, name): world.read(name) for world, name in old}
            try:
                for (world, name), value in old.items():
                    world.put(name, value)
                yield True
            finally:
                for (world, name), value in now.items():
                    world.put(name, value)

    def _of_records(self, part: "_Part", targets: list, wanted: list, given: list | None) -> list:
        """The gradients towards `wanted` of what the calls of a part have computed."""
        made = {id(leaf): (number, k) for number, record in enumerate(part.records) if not _is_constant(record)
                for k, leaf in record.tensors()}
        leaves: list = []
        places: dict[int, int] = {}

        def reference(leaf: Any) -> Any:
            if id(leaf) in made:
                return ("r",) + made[id(leaf)]
            if isinstance(leaf, Variable):
                return ("v", id(leaf))
            if isinstance(leaf, (Tensor, np.ndarray)):
                if id(leaf) not in places:
                    places[id(leaf)] = len(leaves)
                    leaves.append(leaf)
                value = leaf._value if type(leaf) is Tensor else leaf
                return ("l", places[id(leaf)], value.dtype.num, value.ndim)
            try:
                hash(leaf)
            except TypeError:
                return ("s", repr(leaf))
            return ("s", leaf, type(leaf))

        for source in wanted:
            if type(source) is Tensor:
                reference(source)
        calls = [(record.function, _structure.key_of((record.positional, record.named), reference))
                 for record in part.records if not _is_constant(record)]
        key = (tuple(calls), tuple(reference(target) for target in targets),
               tuple(reference(source) for source in wanted),
               None if given is None else tuple(weight is not None for weight in given))
        weights = [as_array(unwrap(item)) for item in given or () if item is not None]
        step = _steps.get(key)
        if step is None:
            step = _steps[key] = _Step(part.records, targets, wanted, places, made, given)
            if len(_steps) > _STEPS_MAX:
                _steps.pop(next(iter(_steps)))
        others = self._others()
        with self._as_of(part) as changed:
            if changed and others:
                raise NotImplementedError(_NO_SECOND.format("variables that were written in between"))
            results = step([as_array(unwrap(leaf)) for leaf in leaves], weights)
        for tape in others:
            if not any(step.form):
                tape.record(step.replay, (leaves, [item for item in given or () if item is not None]), {}, False,
                            results)
        return results

    def _backwards(self, parts: list["_Part"], made_at_all: set, targets: list, sources: list, asked: list,
                   given: list | None) -> list:
        """From the last part to the first."""
        from .. import ops
        from ._eager import eager
        ones = eager(ops.ones_like)
        flow, final = _Flow(), _Flow()
        for i, target in enumerate(targets):
            if isinstance(target, (Tensor, Variable)):
                flow.add(target, ones(target) if given is None or given[i] is None else given[i])
        for part in reversed(parts):
            if part.own is not None:
                results = part.records[0].results
                if any(leaf in flow for leaf in results):
                    with self._as_of(part):
                        found = part.own.back([flow[leaf] for leaf in results], results, asked)
                    for leaf, gradient in found:
                        flow.add(leaf, gradient)
                continue
            made = {id(leaf): leaf for record in part.records for _, leaf in record.tensors()}
            before = {id(leaf): leaf for record in part.records
                      for leaf in _structure.flatten((record.positional, record.named))
                      if id(leaf) in made_at_all and id(leaf) not in made}
            before.update((id(source), source) for source in asked if id(source) not in made_at_all)
            inner = [source for source in asked if id(source) in made]
            ends = [leaf for leaf in made.values() if leaf in flow]
            if ends:
                wanted = [*before.values(), *inner]
                found = self._of_records(part, ends, wanted, [flow[leaf] for leaf in ends])
                for leaf, gradient in zip(wanted, found):
                    (final if id(leaf) in made else flow).add(leaf, gradient)
        return [None if not any(source is item for item in asked) else final.get(source) if source in final else
                flow.get(source) for source in sources]

    def jacobian(self, target: Any, sources: Any, unconnected_gradients: str = UnconnectedGradients.NONE,
                 parallel_iterations: int | None = None, experimental_use_pfor: bool = True) -> Any:
        """The derivative of every element of the target, one gradient for each: [target's shape, source's shape]."""
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used to compute one set of gradients (or "
                               "jacobians)")
        if default_graph() is not None:
            raise NotImplementedError("GradientTape.jacobian exists outside of functions; gradient() exists in both")
        value = as_array(unwrap(target))
        leaves, rows = _structure.flatten(sources), []
        persistent, self._persistent = self._persistent, True
        try:
            for i in range(value.size):
                weight = np.zeros(value.size, value.dtype)
                weight[i] = 1
                found = self.gradient(target, leaves, Tensor(weight.reshape(value.shape)), unconnected_gradients)
                rows.append([dense(item) if isinstance(item, IndexedSlices) else item for item in found])
        finally:
            self._persistent = persistent
        self._used = True
        if not persistent:
            self._forget()
        stacked = [None if column[0] is None else _stacked(list(column), value.shape + tuple(source.shape))
                   for source, column in zip(leaves, zip(*rows))]
        return _structure.pack_as(sources, stacked)

    def batch_jacobian(self, target: Any, source: Any, unconnected_gradients: str = UnconnectedGradients.NONE,
                       parallel_iterations: int | None = None, experimental_use_pfor: bool = True) -> Any:
        """The derivatives of the elements of each row of the target by the same row of the source."""
        value = as_array(unwrap(target))
        whole = self.jacobian(target, source, unconnected_gradients)
        if whole is None:
            return None
        rows = range(value.shape[0])
        return Tensor(np.stack([whole._value[(i,) + (slice(None),) * (value.ndim - 1) + (i,)] for i in rows]))

    @contextlib.contextmanager
    def stop_recording(self) -> Any:
        """Operations within are not recorded."""
        recording = not self._traced and self in tapes()
        if recording:
            tapes().remove(self)
        try:
            yield
        finally:
            if recording:
                tapes().append(self)


def _stacked(rows: list, shape: tuple) -> Any:
    """Tensors with values in one of another shape, which tapes know."""
    from .. import ops
    from ._eager import eager
    if not tapes():
        return Tensor(np.stack([row._value for row in rows]).reshape(shape))
    return eager(ops.reshape)(eager(ops.stack)(rows), shape)


# --- parts of what was recorded ---------------------------------------------------------------------------------------

_NO_SECOND = ("derivatives of derivatives through calls of {}, outside of a tf.function, do not exist here; make a "
              "tf.function of what is computed under the outer tape")


class _Part:
    """Calls that one step computes, or one with derivatives of its own."""

    def __init__(self, first: Record | None, own: Any = None):
        self.records = [] if first is None else [first]
        self.own = own
        self.time = writes[0] if first is None else first.time


class _Flow:
    """Gradients towards tensors and variables."""

    def __init__(self) -> None:
        self._found: dict[int, tuple] = {}  # by id, with the object, which keeps its id

    def __contains__(self, leaf: Any) -> bool:
        return id(leaf) in self._found

    def __getitem__(self, leaf: Any) -> Any:
        """As one tensor; None: there is none."""
        return dense(self.get(leaf))

    def get(self, leaf: Any) -> Any:
        return self._found[id(leaf)][1] if leaf in self else None

    def add(self, leaf: Any, gradient: Any) -> None:
        if gradient is not None:
            from .. import ops
            from ._eager import eager
            before = self[leaf]
            self._found[id(leaf)] = (leaf, gradient if before is None else eager(ops.add)(before, dense(gradient)))


def _without_gradient(dtype: Any) -> None:
    _logger.warning("The dtype of the target tensor must be floating (e.g. tf.float32) when calling "
                    "GradientTape.gradient, got tf.%s", dtype.name)


class TracedCall:
    """A run of a trace that draws numbers, reads what it has written, or takes elements of an iterator, or of a function
    of the program. Its derivatives are of the same operations, in a run that draws the same numbers."""

    def __init__(self, concrete: ConcreteFunction, leaves: list, values: list, must: bool):
        self._concrete, self._leaves, self._values = concrete, leaves, [value.copy() for value in values]
        self.must = must  # the function that is called once more would do something else
        self._run = lib.est_session_run_count(concrete.world.session())

    def back(self, given: list, results: list, asked: list) -> list:
        """(leaf, gradient) for arguments, and for the variables that are asked for."""
        if self.must and tapes():
            raise NotImplementedError(_NO_SECOND.format("dropout and other random numbers"))
        concrete, world = self._concrete, self._concrete.world
        given = [weight if weight is None or leaf.dtype.is_floating else _without_gradient(leaf.dtype)
                 for weight, leaf in zip(given, results)]
        if all(weight is None for weight in given):
            return []
        places = [i for i, place in enumerate(concrete.places) if isinstance(self._leaves[place], Tensor) and
                  concrete.feeds[i].dtype.is_floating]
        variables = [source for source in asked if isinstance(source, Variable) and source.graph is world.graph]
        have = tuple(weight is not None for weight in given)
        key = (have, tuple(places), tuple(id(variable) for variable in variables))
        step, form = concrete.derivatives.get(key) or (None, None)
        if step is None or step._of_session is not world.session():
            step, form = concrete.derivatives[key] = self._build(have, places, variables)
        weights = [as_array(weight, leaf.dtype) for weight, leaf in
                   ((unwrap(weight), leaf) for weight, leaf in zip(given, results) if weight is not None)]
        with world._lock:
            now = lib.est_session_run_count(world.session())
            lib.est_session_set_run_count(world.session(), self._run)
            try:
                found = iter(world.run(step, self._values + weights))
            finally:
                lib.est_session_set_run_count(world.session(), now)
        leaves = [self._leaves[concrete.places[i]] for i in places] + variables
        gradients = [None if kind is None else IndexedSlices(Tensor(next(found)), Tensor(next(found)), leaf.shape)
                     if kind == "rows" else Tensor(next(found), leaf.dtype) for kind, leaf in zip(form, leaves)]
        return list(zip(leaves, gradients))

    def _build(self, have: tuple, places: list, variables: list) -> tuple:
        """The step, and what it finds for each source: a tensor, rows or None."""
        concrete, world = self._concrete, self._concrete.world
        ends = [node for node, one in zip(concrete.leaves, have) if one]
        with Trace(world):
            weights = [world.graph.placeholder(None, node.dtype, node.shape) for node in ends]
            found = build_gradients(ends, weights, [concrete.feeds[i] for i in places] + variables)
        fetches = [node for item in found if item is not None
                   for node in ((item.values, item.indices) if isinstance(item, IndexedSlices) else (item,))]
        form = [None if item is None else "rows" if isinstance(item, IndexedSlices) else "dense" for item in found]
        return world.prepare(concrete.feeds + weights, fetches, []), form


# --- calls that are computed once more --------------------------------------------------------------------------------

_steps: dict[Any, "_Step"] = {}
_STEPS_MAX = 256


def forget_gradients() -> None:
    """What tapes have computed, and the models that they recorded."""
    _steps.clear()


def _is_constant(record: Record) -> bool:
    """Whether an operation was given no tensor: its results are values, also those that it has drawn."""
    return record.over_values and not any(isinstance(leaf, (Tensor, np.ndarray, Variable)) for leaf in
                                          _structure.flatten((record.positional, record.named)))


def _read_by(records: list[Record]) -> set | None:
    """The variables that calls have read; None: it is not known."""
    if not all(record.over_values for record in records):
        return None
    return {(leaf._world, leaf._bytes) for record in records
            for leaf in _structure.flatten((record.positional, record.named)) if isinstance(leaf, Variable)}


class _Made:
    """In the arguments of a call: result k of another one."""

    def __init__(self, number: int, k: int):
        self.number, self.k = number, k


class _Fed:
    """In the arguments of a call: a value."""

    def __init__(self, place: int):
        self.place = place


class _Step:
    """Calls as a function that computes derivatives. It has the objects whose identity is the key, and no values."""

    def __init__(self, records: list[Record], targets: list, wanted: list, places: dict, made: dict,
                 given: list | None):
        def described(leaf: Any) -> Any:
            if id(leaf) in made:
                return _Made(*made[id(leaf)])
            return _Fed(places[id(leaf)]) if id(leaf) in places else leaf

        self.form: list = []  # which of the results are rows
        calls = [(number, record.function, *_structure.map_structure(described, (record.positional, record.named)))
                 for number, record in enumerate(records) if not _is_constant(record)]
        ends, sources = [described(target) for target in targets], [described(source) for source in wanted]
        are_given = None if given is None else [weight is not None for weight in given]

        def replay(leaves: list, weights: list) -> Any:
            results: dict[int, list] = {}

            def find(leaf: Any) -> Any:
                if isinstance(leaf, _Made):
                    return results[leaf.number][leaf.k]
                return leaves[leaf.place] if isinstance(leaf, _Fed) else leaf

            for number, call, positional, named in calls:
                args, more = _structure.map_structure(find, (positional, named))
                results[number] = _structure.flatten(
                    call(*(unwrap(item) for item in args), **{key: unwrap(item) for key, item in more.items()}))
            rest = iter(weights)
            tape = GradientTape(persistent=True)
            tape.watch([find(source) for source in sources])
            found = tape.gradient([find(target) for target in ends], [find(source) for source in sources],
                                  None if are_given is None else [next(rest) if one else None for one in are_given])
            self.form = [isinstance(item, IndexedSlices) for item in found]
            return [(item.values, item.indices) if isinstance(item, IndexedSlices) else item for item in found]

        self.replay = replay
        self._function = Function(replay)
        self._function.pure = True  # the calls have done it
        self._shapes = [source.shape for source in wanted]

    def __call__(self, values: list, weights: list) -> list:
        found = self._function([Tensor(value) for value in values], [Tensor(value) for value in weights])
        return [IndexedSlices(item[0], item[1], shape) if sparse else item
                for item, sparse, shape in zip(found, self.form, self._shapes)]


def _towards(target: Node, given: Any) -> Node:
    """A gradient towards a target, which has its shape."""
    from .. import ops
    weight = as_node(unwrap(given), target.graph, target.dtype)
    same = weight.shape is not None and target.shape is not None and None not in weight.shape and \
        tuple(weight.shape) == tuple(target.shape)
    return weight if same else weight * ops.ones_like(target)
