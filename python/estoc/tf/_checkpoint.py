# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint and CheckpointManager: the variables of a program's objects as files of TensorFlow.

An object is known by the names that lead to it: attributes, numbers of lists, keys of dicts, "layer-0" and
"layer_with_weights-0" of Keras models. `parts` has them for every kind of object; saving walks them, and restoring walks
them beside those of the checkpoint. What a checkpoint has for variables that do not exist yet waits until they are made.
"""
from __future__ import annotations

import os
import re
import time
import weakref
from typing import Any, Callable, Iterator

import numpy as np

from .. import checkpoint as _files
from .._lib import Keep, check, lib, text
from .._tensor import to_tensor
from ..graph import Variable as InGraph
from ..graph import default_graph
from . import _world
from ._variable import Variable

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_POSITION_SUFFIX = "/.ATTRIBUTES/ITERATOR_STATE"


class Part:
    """An object that only a checkpoint has: a list of variables, or a value without a variable."""

    def __init__(self, children: Any = (), value: np.ndarray | None = None, name: str = ""):
        self.children, self.value, self.name = list(children), value, name
        self.slots: list[tuple[Any, str, Any]] = []  # (variable, name, its slot)


def _is_module(value: Any) -> bool:
    return hasattr(value, "trainable_variables") and hasattr(value, "submodules")


def _is_iterator(value: Any) -> bool:
    return hasattr(value, "save_position")


def is_trackable(value: Any) -> bool:
    """Whether a checkpoint may hold something of it."""
    from .keras.optimizers import Optimizer
    if isinstance(value, (Variable, InGraph, Optimizer, Checkpoint, Part)) or _is_module(value) or _is_iterator(value):
        return True
    if hasattr(value, "_in_loop") or hasattr(value, "_note_made"):  # an optimizer of legacy, or of TensorFlow 1
        return True
    if isinstance(value, dict):
        return any(is_trackable(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(is_trackable(item) for item in value)
    return False


def parts(value: Any) -> list[tuple[str, Any]]:
    """What an object has, by name; several names may be of the same object."""
    from .keras._layer import Layer
    from .keras.optimizers import Optimizer
    if isinstance(value, Part):
        return value.children
    if isinstance(value, Checkpoint):
        return value._children()
    if isinstance(value, dict):
        return [(str(key), item) for key, item in value.items() if is_trackable(item)]
    if isinstance(value, (list, tuple)):
        return [(str(i), item) for i, item in enumerate(value) if is_trackable(item)]
    if hasattr(value, "_in_loop"):
        value = value._in_loop()
    if isinstance(value, Optimizer) or hasattr(value, "_note_made"):
        return value._checkpoint_parts().children
    if isinstance(value, Layer):
        return value._checkpoint_parts()
    if isinstance(value, (Variable, InGraph)) or _is_iterator(value):
        return []
    return [(key, item) for key, item in vars(value).items() if is_trackable(item)]


def _same(value: Any) -> Any:
    """What tells objects apart: lists and dicts of a program keep their identity, parts are made anew."""
    return value._in_loop() if hasattr(value, "_in_loop") else value


def _identity(value: Any) -> Any:
    """What an object is known by; a graph may give another object for the same variable."""
    return (id(value.graph), int(value._c.id)) if type(value) is InGraph else id(value)


class _Walk:
    """All objects below a root, breadth first, with the path of each."""

    def __init__(self, root: Any):
        self.objects: list[Any] = []
        self.paths: list[str] = []
        self.children: list[list[tuple[str, int]]] = []
        self.numbers: dict[Any, int] = {}
        self._add(root, "")
        at = 0
        while at < len(self.objects):
            for name, child in parts(self.objects[at]):
                child = _same(child)
                if _identity(child) not in self.numbers:
                    step = name.replace(".", "..").replace("/", ".S")
                    self._add(child, f"{self.paths[at]}/{step}" if self.paths[at] else step)
                self.children[at].append((name, self.numbers[_identity(child)]))
            at += 1

    def _add(self, value: Any, path: str) -> None:
        self.numbers[_identity(value)] = len(self.objects)
        self.objects.append(value)
        self.paths.append(path)
        self.children.append([])

    def slots(self, number: int) -> Iterator[tuple[int, str, int]]:
        """Slots in the form of legacy optimizers, and of those of TensorFlow 1."""
        from .keras.optimizers import Optimizer
        value = self.objects[number]
        if not (isinstance(value, Optimizer) or hasattr(value, "_note_made")):
            return
        for variable, name, slot in value._checkpoint_parts().slots:
            if _identity(variable) not in self.numbers:
                continue
            if _identity(slot) not in self.numbers:
                self._add(slot, f"{self.paths[self.numbers[_identity(variable)]]}/.OPTIMIZER_SLOT/{self.paths[number]}/{name}")
            yield self.numbers[_identity(variable)], name, self.numbers[_identity(slot)]


def session_of(session: Any = None) -> Any:
    """The session that has the values of a graph's variables: the one given, or the default one."""
    from .compat.v1._session import get_default_session
    session = session if session is not None else get_default_session()
    if session is None:
        raise ValueError("Variables of a graph have their values in a session: use `with session.as_default()`, or "
                         "give the session")
    return session


def _of_session(variable: Any) -> np.ndarray:
    return np.asarray(session_of()._read(variable))


def _handle(value: Any) -> InGraph | None:
    """The variable of a graph that a value is, or that stands for it in the graph of a model_fn."""
    if not isinstance(value, Variable):
        return value if isinstance(value, InGraph) else None
    graph = default_graph()
    twin = None if graph is None else (getattr(graph, "twins", None) or {}).get(id(value))
    return (twin or value)._handle if twin is not None or value._world is None else None


def _value(value: Any, read: Callable) -> np.ndarray | None:
    handle = _handle(value)
    if handle is not None:
        return read(handle)
    if isinstance(value, Variable):
        return np.asarray(value.numpy())
    if _is_iterator(value):
        return value.save_position()
    return value.value if isinstance(value, Part) else None


def rewrite(root: Any, graph: Any, prefix: str) -> None:
    """Makes a checkpoint of a graph's variables by their names one of the objects below the root. What has no object
    (the position of the input, numbers of optimizers) stays beside them, since the training goes on from it."""
    reader, seen = _files.load_checkpoint(prefix), set()

    def read(variable: Any) -> np.ndarray:
        seen.add(text(lib.est_node_name(variable._c)))
        return reader.get_tensor(text(lib.est_node_name(variable._c)))

    with graph.as_default():
        write(root, prefix, False, read, lambda: {name: reader.get_tensor(name) for name in reader if name not in seen})


def write(root: Any, prefix: str, latest: bool, read: Callable = _of_session, rest: Callable = dict) -> None:
    """`read` gives the values of variables of graphs; `rest` then gives tensors beside the objects, by name."""
    walk, keep, tensors, objects = _Walk(root), Keep(), [], []
    slots = {i: list(walk.slots(i)) for i in range(len(walk.objects))}
    for i, value in enumerate(walk.objects):
        children = [{"name": keep.string(name), "object": child} for name, child in walk.children[i]]
        rows = [{"variable": a, "name": keep.string(name), "slot": b} for a, name, b in slots.get(i, ())]
        members = {"children": keep.new("est_saved_child[]", children) if children else None,
                   "n_children": len(children), "n_slots": len(rows),
                   "slots": keep.new("est_saved_slot[]", rows) if rows else None}
        array = _value(value, read)
        if array is not None:
            tensor = to_tensor(array)
            key = keep.string(walk.paths[i] + (_POSITION_SUFFIX if _is_iterator(value) else _SUFFIX))
            keep.append(tensor)
            tensors.append({"name": key, "tensor": tensor})
            members["key"] = key
            handle = _handle(value)
            name = getattr(value, "name", "Iterator").rsplit(":", 1)[0]
            members["full_name"] = keep.string(name if handle is None else text(lib.est_node_name(handle._c)))
        objects.append({key: member for key, member in members.items() if member is not None})
    for name, array in rest().items():
        tensor = to_tensor(array)
        keep.append(tensor)
        tensors.append({"name": keep.string(name), "tensor": tensor})
    check(lib.est_checkpoint_write(keep.string(prefix), keep.span("est_named_tensors", "est_named_tensor", tensors),
                                   keep.options("est_checkpoint_write_options", latest=latest,
                                                objects=keep.span("est_saved_objects", "est_saved_object", objects))))


# --- restoring --------------------------------------------------------------------------------------------------------


class _Object:
    """An object of a checkpoint."""

    def __init__(self, pointer: Any):
        self.children = {text(pointer.children[i].name): int(pointer.children[i].object)
                         for i in range(pointer.n_children)}
        self.key = text(pointer.key)
        self.slots = [(int(pointer.slots[i].variable), text(pointer.slots[i].name), int(pointer.slots[i].slot))
                      for i in range(pointer.n_slots)]


def _reference(value: Any) -> Callable[[], Any]:
    """A restoration that waits keeps no model alive; lists and dicts know no weak references."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


class Restoration:
    """A checkpoint that is being given to the objects of a program, also to those that are made later."""

    def __init__(self, root: Any, path: str):
        self.path = path
        self._checkpoint = weakref.ref(root)
        self._children = [(name, _reference(child)) for name, child in parts(root) if child is not root]
        self._reader = _files.load_checkpoint(path)
        span = lib.est_checkpoint_saved_objects(self._reader._c)
        self.objects = [_Object(span.data[i]) for i in range(span.n)]
        self._given: dict[int, int] = {}  # number of an object -> id of the variable that has its value; 0: not its own
        self._kept: list = []  # those variables
        self._of_sessions: list[tuple[InGraph, np.ndarray]] = []  # variables of graphs, and what a session gives them
        self.checkpoints: weakref.WeakSet = weakref.WeakSet()  # that were met below the root, with itself
        self._busy = False

    def _root(self) -> Any:
        """The Checkpoint or, when the program has dropped it, those of its objects that are alive; None: none is."""
        root = self._checkpoint()
        if root is not None:
            return root
        alive = [(name, child()) for name, child in self._children]
        return Part([(name, child) for name, child in alive if child is not None]) if any(
            child is not None for _, child in alive) else None

    def match(self) -> None:
        """Gives variables that have not got one the value of the checkpoint. A world calls it when variables join."""
        root = self._root()
        if root is not None and not self._busy:
            self._busy = True
            try:
                self._walk(root)
            finally:
                self._busy = False
        if root is None or not self.unmatched():
            self.drop()

    def drop(self) -> None:
        """Lets nothing wait for it any more."""
        if self in _world.restorations:
            _world.restorations.remove(self)

    def yield_to(self, later: "Restoration") -> None:
        """Leaves what still waits to a later one of the same root, which has newer values for it."""
        keys = {item.key for item in later.objects}
        for number, item in enumerate(self.objects):
            if item.key in keys:
                self._given.setdefault(number, 0)
        if not self.unmatched():
            self.drop()

    def _walk(self, root: Any) -> None:
        seen, todo = set(), [(0, root)]
        while todo:
            number, value = todo.pop(0)
            value = _same(value)
            if (number, id(value)) in seen:
                continue
            seen.add((number, id(value)))
            if isinstance(value, Checkpoint):
                self.checkpoints.add(value)
            saved = self.objects[number]
            self._give(number, value)
            below = dict(parts(value))
            todo += [(child, below[name]) for name, child in saved.children.items() if name in below]
            todo += self._slots(saved, value)

    def _slots(self, saved: _Object, value: Any) -> list:
        """Slots of a legacy optimizer, by the variables that have been matched."""
        if not saved.slots or not hasattr(value, "_checkpoint_parts"):
            return []
        mine = {(id(variable), name): slot for variable, name, slot in value._checkpoint_parts().slots}
        found = []
        for variable, name, slot in saved.slots:
            key = (self._given.get(variable), name)
            if key in mine:
                found.append((slot, mine[key]))
        return found

    def _give(self, number: int, value: Any) -> None:
        key = self.objects[number].key
        if key is None or number in self._given or not (isinstance(value, (Variable, InGraph, Part)) or _is_iterator(value)):
            return
        if isinstance(value, Part) and value.value is None:
            return
        if _is_iterator(value):
            value.restore_position(self._reader.get_tensor(key))
        if isinstance(value, (Variable, InGraph)):
            array = self._reader.get_tensor(key)
            if isinstance(value, Variable) and value.is_state and array.size == np.prod(value.shape, dtype=int):
                array = array.reshape(tuple(value.shape))  # Keras has vectors of one number
            if tuple(array.shape) != tuple(value.shape):
                raise ValueError(f"Tensor's shape {tuple(array.shape)} is not compatible with supplied shape "
                                 f"{tuple(value.shape)}: {key} of {self.path} is for {value.name}")
            if isinstance(value, InGraph):
                self._of_sessions.append((value, array))
            else:
                value.assign(array)
        self._given[number] = id(value)
        self._kept.append(value)

    # --- what is missing ---

    def unmatched(self) -> list[str]:
        """Values of the checkpoint that nothing has taken."""
        return [item.key for i, item in enumerate(self.objects) if item.key is not None and i not in self._given]

    def waiting(self) -> list[str]:
        """Variables of the program that the checkpoint has no value for."""
        root = self._root()
        if root is None:
            return []
        given = set(self._given.values())
        return [value.name for value in _Walk(root).objects
                if isinstance(value, (Variable, InGraph)) and id(value) not in given]

    def write(self, session: Any, initialize: bool) -> None:
        """Gives variables of graphs what the checkpoint has for them, in a session, and others their initial values."""
        given, root = {id(variable) for variable, _ in self._of_sessions}, self._root()
        others = [value for value in ([] if root is None else _Walk(root).objects)
                  if isinstance(value, InGraph) and id(value) not in given]
        if not self._of_sessions and not (initialize and others):
            return
        session = session_of(session)
        if initialize and others:
            session.run([value.initializer for value in others])
        for variable, array in self._of_sessions:
            session._write(variable, array)


def restored(root: Any, path: str) -> "_Status | None":
    """Gives the objects below the root what the checkpoint has for them; None: it has no objects."""
    if lib.est_checkpoint_saved_objects(_files.load_checkpoint(path)._c).n == 0:
        return None
    restoration = Restoration(root, path)
    for other in list(_world.restorations):
        if other._checkpoint() is root:
            other.yield_to(restoration)
    _world.restorations.append(restoration)
    restoration.match()
    return _Status(restoration, root)


class _Status:
    """What restore returns."""

    def __init__(self, restoration: Restoration | None, root: Any = None):
        self._restoration, self._kept = restoration, root

    def _match(self) -> Restoration:
        if self._restoration is None:
            raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")
        self._restoration.match()
        return self._restoration

    def assert_consumed(self) -> "_Status":
        """Every value of the checkpoint has a variable, and every variable a value."""
        restoration = self._match()
        left = restoration.unmatched()
        if left:
            raise AssertionError(f"Unresolved object in checkpoint {restoration.path}: nothing in this program takes "
                                 f"{', '.join(left[:5])}{' and others' if len(left) > 5 else ''}")
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> "_Status":
        """Every variable that exists has a value of the checkpoint."""
        restoration = self._match()
        missing = restoration.waiting()
        if missing:
            raise AssertionError(f"Found {len(missing)} Python objects that were not bound to checkpointed values, "
                                 f"likely due to changes in the Python program. {restoration.path} has no values for "
                                 f"{', '.join(missing[:10])}")
        return self

    def assert_nontrivial_match(self) -> "_Status":
        """Something was restored."""
        restoration = self._match()
        if not restoration._given:
            raise AssertionError("Nothing except the root object matched a checkpointed value. Typically this means "
                                 "that the checkpoint does not match the Python program.")
        return self

    def expect_partial(self) -> "_Status":
        """Values that nothing takes are expected; there is no warning about them anyway."""
        return self

    def initialize_or_restore(self, session: Any = None) -> None:
        """Gives variables of a graph their values in a session, initial ones if the checkpoint has none; others have
        theirs already."""
        if self._restoration is not None:
            self._match().write(session, True)
        elif self._kept is not None:
            self._initialize(session)

    def _initialize(self, session: Any) -> None:
        """Nothing is restored: variables of a graph get their initial values."""
        variables = [value for value in _Walk(self._kept).objects if isinstance(value, InGraph)]
        if variables:
            session_of(session).run([variable.initializer for variable in variables])

    def run_restore_ops(self, session: Any = None) -> None:
        """Gives variables of a graph their values in a session; others have theirs already."""
        if self._restoration is not None:
            self._match().write(session, False)
        elif self._kept is not None:
            raise AssertionError("No checkpoint specified, so no restore ops are available (save_path=None to "
                                 "Saver.restore).")


class _ByName(_Status):
    """Of a checkpoint without objects: variables are found by their names."""

    def __init__(self, root: Any, path: str):
        super().__init__(None)
        reader = _files.load_checkpoint(path)
        self._variables = [value for value in _Walk(root).objects if isinstance(value, (Variable, InGraph)) and
                           value.name != "save_counter:0"]
        self._reader = reader
        names = {value.name.rsplit(":", 1)[0]: value for value in self._variables}
        self._missing = [name for name in names if not reader.has_tensor(name)]
        self._unused = sorted(set(reader.get_variable_to_shape_map()) - set(names))
        self._names = names
        for name, value in names.items():
            if name not in self._missing and isinstance(value, Variable):
                value.assign(reader.get_tensor(name))
        self._any = len(self._missing) < len(names)

    def run_restore_ops(self, session: Any = None) -> None:
        for name, value in self._names.items():
            if name not in self._missing and isinstance(value, InGraph):
                session_of(session)._write(value, self._reader.get_tensor(name))

    def initialize_or_restore(self, session: Any = None) -> None:
        others = [self._names[name] for name in self._missing if isinstance(self._names[name], InGraph)]
        if others:
            session_of(session).run([value.initializer for value in others])
        self.run_restore_ops(session)

    def assert_consumed(self) -> "_ByName":
        if self._unused:
            raise AssertionError(f"Some checkpointed values have no variable: {', '.join(self._unused[:10])}")
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> "_ByName":
        if self._missing:
            raise AssertionError(f"Some objects had attributes which were not restored: {', '.join(self._missing)}")
        return self

    def assert_nontrivial_match(self) -> "_ByName":
        if not self._any:
            raise AssertionError("Nothing in the checkpoint has the name of a variable.")
        return self


class Checkpoint:
    """tf.train.Checkpoint: objects with variables, saved and restored together."""

    def __init__(self, root: Any = None, **kwargs: Any):
        self.__dict__["_root"] = root
        self.__dict__["_names"] = []
        self.__dict__["_counter"] = None
        if root is not None and not is_trackable(root):
            raise ValueError(f"`Checkpoint` was expecting root to be a trackable object (an object derived from "
                             f"`Trackable`), got {root!r}.")
        for name in sorted(kwargs):
            setattr(self, name, kwargs[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if not is_trackable(value) and not isinstance(value, (list, tuple, dict)):
            raise ValueError(f"`Checkpoint` was expecting {name} to be a trackable object (an object derived from "
                             f"`Trackable`), got {value!r}. If you believe this object should be trackable (i.e. it is "
                             "part of the TensorFlow Python API and manages state), please open an issue.")
        if name not in self._names:
            self._names.append(name)
        self.__dict__[name] = value
        for restoration in list(_world.restorations):
            if self in restoration.checkpoints:  # what waits for this name
                restoration.match()

    def _children(self) -> list[tuple[str, Any]]:
        found = [] if self._root is None else list(parts(self._root))
        found += [(name, self.__dict__[name]) for name in self._names]
        if self._root is not None:
            found.append(("root", self))
        if self._counter is not None:
            found.append(("save_counter", self._counter))
        return found

    @property
    def save_counter(self) -> Any:
        """How often save was called; in a graph a variable of it."""
        if self._counter is None:
            self.__dict__["_counter"] = Variable(np.int64(0), trainable=False, name="save_counter")
        return self._counter

    def _count(self) -> int:
        """Adds 1 to the counter; in a graph that of the default session."""
        is_new = self._counter is None
        counter = self.save_counter
        if not isinstance(counter, InGraph):
            return int(counter.assign_add(1))
        session = session_of()
        count = 1 if is_new else int(session._read(counter)) + 1
        session._write(counter, count)
        return count

    def write(self, file_prefix: str | os.PathLike, options: Any = None) -> str:
        """Writes a checkpoint of exactly this prefix."""
        prefix = os.fspath(file_prefix)
        write(self, prefix, False)
        return prefix

    def save(self, file_prefix: str | os.PathLike, options: Any = None) -> str:
        """Writes the next checkpoint, "<prefix>-1" first, which its directory then names as the latest."""
        prefix = f"{os.fspath(file_prefix)}-{self._count()}"
        write(self, prefix, False)
        keep = Keep()
        check(lib.est_checkpoint_mark(keep.string(os.path.dirname(prefix) or "."),
                                      keep.strings([os.path.basename(prefix)]), keep.f64s([]), 0))
        return prefix

    def read(self, save_path: str | os.PathLike, options: Any = None) -> _Status:
        """Restores what `write` has written. Variables that are made later get their values then."""
        path = os.fspath(save_path)
        return restored(self, path) or _ByName(self, path)

    def restore(self, save_path: str | os.PathLike | None, options: Any = None) -> _Status:
        """Restores a checkpoint; None: nothing."""
        if save_path is None:
            return _Status(None)
        path = os.fspath(save_path)
        if os.path.isdir(path):
            path = _files.latest_checkpoint(path) or path
        if _files.load_checkpoint(path).has_tensor("save_counter" + _SUFFIX):
            self.save_counter  # noqa: B018 - is restored, too
        return self.read(path)

    def sync(self) -> None:
        """Checkpoints are complete when save returns."""


# --- several of them --------------------------------------------------------------------------------------------------


class CheckpointManager:
    """Saves checkpoints of one object in a directory, and removes old ones."""

    def __init__(self, checkpoint: Checkpoint, directory: str | os.PathLike, max_to_keep: int | None,
                 keep_checkpoint_every_n_hours: float | None = None, checkpoint_name: str = "ckpt",
                 step_counter: Any = None, checkpoint_interval: int | None = None, init_fn: Callable | None = None):
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        self._checkpoint, self._directory = checkpoint, os.fspath(directory)
        self._max, self._every = max_to_keep, keep_checkpoint_every_n_hours
        self._prefix = os.path.join(self._directory, checkpoint_name)
        self._step, self._interval, self._init = step_counter, checkpoint_interval, init_fn
        self._last_step: int | None = None
        self._kept: dict[str, float] = {}  # prefix -> when it was written
        self._preserved = time.time()
        self._read_state()

    def _read_state(self) -> None:
        """What an earlier program has left."""
        state = get_checkpoint_state(self._directory)
        if state is None:
            return
        paths, times = state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps
        for prefix, moment in zip(paths, times if len(times) == len(paths) else [time.time()] * len(paths)):
            if os.path.exists(prefix + ".index"):
                self._kept[prefix] = moment
        self._preserved = min(state.last_preserved_timestamp or self._preserved, self._preserved)

    directory = property(lambda self: self._directory)
    checkpoint = property(lambda self: self._checkpoint)
    checkpoint_interval = property(lambda self: self._interval)

    @property
    def checkpoints(self) -> list[str]:
        """Those that are kept, the oldest first."""
        return list(self._kept)

    @property
    def latest_checkpoint(self) -> str | None:
        return next(reversed(self._kept), None)

    def save(self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None) -> str | None:
        """Writes "<directory>/ckpt-<number>"; None: checkpoint_interval steps have not passed."""
        step = None if self._step is None else int(self._step)
        if self._interval is not None and check_interval and self._last_step is not None and (
                step < self._last_step + self._interval):
            return None
        count = self._checkpoint._count()
        number = count if checkpoint_number is None else int(checkpoint_number)
        prefix = f"{self._prefix}-{number}"
        write(self._checkpoint, prefix, False)
        self._kept.pop(prefix, None)
        self._kept[prefix] = time.time()
        self._last_step = step
        old = self._sweep()
        self._mark()
        for path in old:  # after the file that names them is gone
            _remove(path)
        return prefix

    def _sweep(self) -> list[str]:
        old = []
        while self._max is not None and len(self._kept) > self._max:
            prefix, moment = next(iter(self._kept.items()))
            del self._kept[prefix]
            if self._every is not None and moment - self._every * 3600 >= self._preserved:
                self._preserved = moment  # stays, and is no longer looked after
            else:
                old.append(prefix)
        return old

    def _mark(self) -> None:
        keep = Keep()
        names = [os.path.relpath(prefix, self._directory) for prefix in self._kept]
        check(lib.est_checkpoint_mark(keep.string(self._directory), keep.strings(names),
                                      keep.f64s(self._kept.values()), self._preserved))

    def restore_or_initialize(self) -> str | None:
        """The path of the checkpoint that was restored; None: there was none, and init_fn was called."""
        if self.latest_checkpoint is not None:
            self._checkpoint.restore(self.latest_checkpoint)
            if self._step is not None:
                self._last_step = int(self._step)
            return self.latest_checkpoint
        if self._init is not None:
            self._init()
        return None

    def sync(self) -> None:
        """Checkpoints are complete when save returns."""


def _remove(prefix: str) -> None:
    from .compat.v1._saver import remove_checkpoint
    remove_checkpoint(prefix)


def get_checkpoint_state(checkpoint_dir: str | os.PathLike, latest_filename: str | None = None) -> Any:
    """What the file `checkpoint` of a directory says; None: there is none."""
    path = os.path.join(os.fspath(checkpoint_dir), latest_filename or "checkpoint")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        lines = file.read()
    return CheckpointState(os.fspath(checkpoint_dir), lines)


class CheckpointState:
    """The latest checkpoint of a directory and the others that it keeps."""

    def __init__(self, directory: str, lines: str):
        def values(name: str) -> list[str]:
            return re.findall(rf'^{name}: "?(.*?)"?$', lines, re.M)

        def paths(name: str) -> list[str]:
            return [os.path.join(directory, path) for path in values(name)]

        self.model_checkpoint_path = (paths("model_checkpoint_path") or [""])[0]
        self.all_model_checkpoint_paths = paths("all_model_checkpoint_paths")
        self.all_model_checkpoint_timestamps = [float(n) for n in values("all_model_checkpoint_timestamps")]
        self.last_preserved_timestamp = float((values("last_preserved_timestamp") or ["0"])[0])
