# SPDX-License-Identifier: Apache-2.0
"""The binding: the C functions, their failures as exceptions, and Python functions that C calls.

`lib` has the functions of include/estoc by their names; cffi gives up the GIL in each call and takes it in each
callback. Everything above this module uses `check`, `call`, `Handle`, `options` and `owned`.
"""
from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import gc
import itertools
import logging
import os
import re
import sys
import weakref
from collections import OrderedDict
from typing import Any, Callable, Iterable

from . import _native, errors

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
ffi = _native.ffi
NULL = ffi.NULL


def _know_structs() -> None:
    """cffi (2.0.0) looks at the members of a struct when one is first used, and threads that do so at the same time, or a
    collection that lets another thread run then, end the process."""
    typedefs, structs, _ = ffi.list_types()
    for name in [*typedefs, *(f"struct {name}" for name in structs)]:
        kind = ffi.typeof(name)
        if kind.kind == "struct":
            with contextlib.suppress(ffi.error, TypeError, ValueError):  # only declared
                ffi.sizeof(kind)
                kind.fields


_know_structs()

FORKED = ("this process was forked from one that uses estoc, whose threads do not exist here; start processes with "
          "multiprocessing's \"spawn\", or fork before the first use of estoc")


class _Library:
    """The functions and constants of the library. In a forked child it has none, and says why."""

    def __init__(self):
        self._forked = False

    def __getattr__(self, name: str) -> Any:
        if self._forked:
            raise RuntimeError(FORKED)
        value = getattr(_native.lib, name)
        self.__dict__[name] = value
        return value


lib = _Library()


def _after_fork() -> None:
    if not _used():
        return
    lib.__dict__.clear()
    lib._forked = True


def _used() -> bool:
    """Whether the library was used for more than what importing the package does."""
    return bool(_used_once)


_used_once: list[bool] = []
os.register_at_fork(after_in_child=_after_fork)

# --- objects ----------------------------------------------------------------------------------------------------------


def owned(pointer: Any, free: str, size: int = 0, parents: tuple = (), borrows: bool = False) -> Any:
    """The C object, freed with the last reference to the result, and before `parents`, which it needs. Not in a forked
    child, whose threads are gone. `borrows`: something that was lent mostly goes with it."""
    if not _used_once:
        _used_once.append(True)
    finalize = _finalizer(free, borrows) if not parents else functools.partial(_dying.add, free, next(_numbers), parents)
    return ffi.gc(pointer, finalize, size)


_numbers = itertools.count(1)


class _Dying:
    """Frees C objects. The garbage collector finalizes the Python objects of a cycle in any order, but the C objects of
    children must go before those of their parents: those that a collection finds are freed when it has ended."""

    def __init__(self):
        self.collecting = False
        self.found: list[tuple] = []  # (number, free, C object, parents)

    def add(self, free: str, number: int, parents: tuple, dead: Any) -> None:
        if self.collecting:
            self.found.append((number, free, dead, parents))
        elif not lib._forked:
            self.destroy(free, dead)

    def add_borrower(self, free: str, number: int, parents: tuple, dead: Any) -> None:
        self.add(free, number, parents, dead)
        if not self.collecting:
            forget_released()

    @staticmethod
    def destroy(free: str, dead: Any) -> None:
        getattr(_native.lib, free)(dead)

    def on_collection(self, phase: str, info: dict) -> None:
        """Children are younger than their parents; what has none (number 0) goes last."""
        self.collecting = phase == "start"
        if self.collecting or not self.found:
            return
        found, self.found = self.found, []
        for number, free, dead, parents in sorted(found, key=lambda entry: entry[0], reverse=True):
            if not lib._forked:
                self.destroy(free, dead)
        forget_released()


_dying = _Dying()
gc.callbacks.append(_dying.on_collection)


@functools.lru_cache(maxsize=None)
def _finalizer(free: str, borrows: bool) -> Callable:
    return functools.partial(_dying.add_borrower if borrows else _dying.add, free, 0, ())


class Handle:
    """A Python object that C knows by a number: `pointer` is the `user` of callbacks, valid as long as the Handle. The
    object may refer to its Handle: the garbage collector finds both."""

    __slots__ = ("number", "value", "pointer", "__weakref__")
    _objects: weakref.WeakValueDictionary[int, Handle] = weakref.WeakValueDictionary()
    _numbers = itertools.count(1)

    def __init__(self, value: Any):
        self.number = next(self._numbers)
        self.value = value
        self.pointer = ffi.cast("void *", self.number)
        self._objects[self.number] = self

    @classmethod
    def get(cls, pointer: Any) -> Any:
        return cls._objects[int(ffi.cast("uintptr_t", pointer))].value


class Use:
    """Marks what a call is in the middle of: a second one, of another thread or of a function that the first one calls,
    is an error, as is freeing it."""

    __slots__ = ("_busy",)

    def __init__(self):
        self._busy = False

    def check(self) -> None:
        if self._busy:
            raise RuntimeError("this object is in use, by another thread or by a function that it calls")

    def __enter__(self) -> None:
        self.check()
        self._busy = True

    def __exit__(self, *exception: Any) -> None:
        self._busy = False


# --- objects that C uses ----------------------------------------------------------------------------------------------

_lent: dict[int, Any] = {}
_lent_numbers = itertools.count(1)
_RELEASED_AT_ONCE = 256


def lend(value: Any) -> int:
    """Keeps an object until C calls py_release with the number, in whatever thread, and forget_released is called."""
    forget_released()
    number = next(_lent_numbers)
    _lent[number] = value
    return number


def take_back(number: int) -> None:
    """Of something that C did not take."""
    del _lent[number]


def forget_released() -> None:
    """Lets go of what C has released."""
    if not _lent or lib._forked:
        return
    ids = ffi.new(f"uintptr_t[{_RELEASED_AT_ONCE}]")
    while True:
        n = lib.py_released(ids, _RELEASED_AT_ONCE)
        for i in range(n):
            _lent.pop(ids[i], None)
        if n < _RELEASED_AT_ONCE:
            return


def lend_to_dataset(pointer: Any, value: Any) -> None:
    """Keeps an object as long as the dataset of C."""
    number = lend(value)
    status = lib.py_keep(pointer, number)
    if status != 0:
        take_back(number)
    check(status)


# --- failures ---------------------------------------------------------------------------------------------------------

_MARK = re.compile(r"<python exception (\d+)> ")
_raised: OrderedDict[int, BaseException] = OrderedDict()
_raised_numbers = itertools.count(1)
_RAISED_MAX = 64  # of callbacks whose failure the library dealt with itself, such as rows that are skipped


def text(pointer: Any) -> str | None:
    """A C string as str; None for NULL."""
    return None if pointer == NULL else ffi.string(pointer).decode("utf-8", "replace")


def failure(status: int) -> BaseException:
    """The exception for a status that this thread's last call returned: the one a callback raised, if that is why."""
    message = text(lib.est_error_message()) or text(lib.est_status_name(status))
    where = text(lib.est_error_where())
    lib.est_error_clear()
    mark = _MARK.search(message)
    if mark:
        exception = _raised.pop(int(mark[1]), None)
        if exception is not None:
            return exception
        message = _MARK.sub("", message)
    if "NaN loss during training" in message:  # of est_nan_hook, perhaps after the name of the task
        return errors.NanLossDuringTrainingError(message, where)
    return errors.exception_type_from_error_code(int(status))(message, where)


def check(status: int) -> None:
    """Raises unless the status is OK."""
    if status != 0:
        raise failure(status)


def check_signals(status: int) -> None:
    """check for calls that stop at SIGINT and SIGTERM by themselves."""
    if status == errors.CANCELLED and lib.est_exit_code(status) == 75:
        message = text(lib.est_error_message()) or ""
        if not _MARK.search(message):
            if "SIGTERM" in message:
                raise SystemExit(75)
            raise KeyboardInterrupt(message)
    check(status)


def made(pointer: Any, free: str) -> Any:
    """An object of a function that returns NULL for failure."""
    if pointer == NULL:
        raise failure(errors.INVALID_ARGUMENT)
    return owned(pointer, free)


def fail(exception: BaseException) -> int:
    """Keeps what a callback raised for the call that led to it, and returns the status to fail with."""
    about = exception.__dict__  # its class may have a __setattr__ that refuses
    number = about.get("_estoc_number")  # it comes out of an inner call: the text has that number
    if number is None:
        number = about["_estoc_number"] = next(_raised_numbers)
    _raised[number] = exception
    while len(_raised) > _RAISED_MAX:
        _raised.popitem(last=False)
    status = errors.UNKNOWN
    if isinstance(exception, errors.OpError) and exception.code != errors.OUT_OF_RANGE:
        status = exception.code
    elif isinstance(exception, KeyboardInterrupt):
        status = errors.CANCELLED
    frame = exception.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    file = frame.tb_frame.f_code.co_filename if frame is not None else "?"
    try:
        said = str(exception)
    except Exception:  # noqa: B902 - what it says is the program's
        said = "(its __str__ raised)"
    message = f"<python exception {number}> {type(exception).__name__}: {said}"
    return lib.py_fail(os.path.basename(file).encode(), frame.tb_lineno if frame is not None else 0, status,
                       message.encode("utf-8", "replace"))


def callback(name: str, end: type[BaseException] | tuple = ()) -> Callable:
    """Defines the Python function `name` of trampolines.cdef. What it raises becomes a status, and comes out of the
    outer call as it was; an exception of the class `end` is the end of a sequence."""

    def define(function: Callable) -> Callable:
        def call(*arguments: Any) -> int:
            try:
                function(*arguments)
                return errors.OK
            except end:
                return errors.OUT_OF_RANGE
            except BaseException as exception:  # noqa: B036 - also KeyboardInterrupt
                return fail(exception)

        ffi.def_extern(name=name, error=errors.INTERNAL)(call)
        return function

    return define


def node_callback(name: str, graph_of: Callable) -> Callable:
    """The same for functions that return a node: a failure poisons the graph."""

    def define(function: Callable) -> Callable:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as exception:
                return lib.est_graph_poison(graph_of(*arguments), fail(exception))

        ffi.def_extern(name=name)(call)
        return function

    return define


def _deliver_again(before: Callable) -> Callable:
    """A sys.unraisablehook. Python runs its handler of SIGINT wherever it is, also in functions of this module that the
    collector or C calls, whose exceptions nobody sees: Ctrl-C would be lost."""

    def hook(unraisable: Any) -> None:
        traceback = unraisable.exc_traceback
        if unraisable.exc_type is KeyboardInterrupt and traceback is not None and \
                traceback.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            _thread.start_new_thread(_thread.interrupt_main, ())  # after the hook, which would not let it out either
        else:
            before(unraisable)

    return hook


sys.unraisablehook = _deliver_again(sys.unraisablehook)


# --- arguments --------------------------------------------------------------------------------------------------------


class Keep(list):
    """C memory that must live as long as something else; `string` and `span` put it there. What they return points into
    it: a Keep that has no name is gone before a function reads that."""

    def new(self, kind: str, init: Any = None) -> Any:
        value = ffi.new(kind, init) if init is not None else ffi.new(kind)
        self.append(value)
        return value

    def string(self, value: str | bytes | os.PathLike | None) -> Any:
        if value is None:
            return NULL
        if not isinstance(value, bytes):
            value = os.fspath(value)
            value = value if isinstance(value, bytes) else value.encode("utf-8")
        if b"\0" in value:  # C would take what comes before it
            raise ValueError(f"{value!r} has a null byte, which names and paths cannot have")
        return self.new("char[]", value)

    def span(self, kind: str, element: str, values: Iterable) -> Any:
        """A span by value, as est_i64s of int64_t."""
        values = list(values)
        return self.new(f"{kind} *", (self.new(f"{element}[]", values) if values else NULL, len(values)))[0]

    def i64s(self, values: Iterable[int]) -> Any:
        return self.span("est_i64s", "int64_t", [int(value) for value in values])

    def f32s(self, values: Iterable[float]) -> Any:
        return self.span("est_f32s", "float", [float(value) for value in values])

    def f64s(self, values: Iterable[float]) -> Any:
        return self.span("est_f64s", "double", [float(value) for value in values])

    def strings(self, values: Iterable[str | bytes]) -> Any:
        return self.span("est_strings", "char *", [self.string(value) for value in values])

    def options(self, kind: str, **members: Any) -> Any:
        """A pointer to a struct with a struct_size, made as its macro would."""
        struct = self.new(f"{kind} *")
        struct.struct_size = (getattr(lib, f"EST_STRUCT_{kind}") << 16) | ffi.sizeof(kind)
        for name, value in members.items():
            if value is not None:
                setattr(struct, name, value)
        return struct


def c_seed(seed: int | None) -> int:
    """A seed of the library, for which 0 is none; None is none here, and 0 is a seed as any other."""
    return 0 if seed is None else int(seed) % 2**64 or 0x5EED


def off(value: float | None, default: Any = 0) -> Any:
    """An option whose zero means its default: None is the default, 0 is EST_OFF."""
    if value is None:
        return default
    return lib.EST_OFF if value == 0 else value


# --- the line of the user's program -----------------------------------------------------------------------------------

_files: dict[str, Any] = {}


def here() -> None:
    """Tells the library which line of the program builds the next operation: the first one outside of the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    name = frame.f_code.co_filename
    file = _files.get(name)
    if file is None:
        file = _files[name] = ffi.new("char[]", name.encode("utf-8", "replace"))
    lib.est_here(file, frame.f_lineno)


# --- log --------------------------------------------------------------------------------------------------------------

#: Lines of the library go here; info and below are shown only where the program configures logging.
logger = logging.getLogger("estoc")
_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG, 5: logging.DEBUG}


@ffi.def_extern(name="py_on_log")
def _log(user: Any, level: int, wall_ns: int, line: Any) -> None:
    logger.log(_LEVELS.get(int(level), logging.INFO), "%s", _MARK.sub("", text(line)))


def set_logger(name: str) -> None:
    """Sends the lines of the library to the logger of that name."""
    global logger
    logger = logging.getLogger(name)


_native.lib.est_log_set_sink(_native.lib.py_on_log, NULL)
_native.lib.py_find_is_finalizing()

# --- the end ----------------------------------------------------------------------------------------------------------


class SharedSet(weakref.WeakSet):
    """A set of weak references that some threads may change while others go through it."""

    def __init__(self) -> None:
        super().__init__()
        self._changing = _thread.RLock()  # guards the set; nothing else is locked behind it

    def add(self, item: Any) -> None:
        with self._changing:
            super().add(item)

    def discard(self, item: Any) -> None:
        with self._changing:
            super().discard(item)

    def __iter__(self) -> Any:
        with self._changing:
            return iter(list(super().__iter__()))


#: Objects with threads that may call Python: closed before the interpreter goes.
running = SharedSet()


@atexit.register
def _close_all() -> None:
    """The interpreter's last collection tells nobody when it starts, so that the order of what it finds is unknown:
    from here on nothing is freed. What has to be closed in order is in `running`."""
    if not lib._forked:
        for item in list(running):
            with contextlib.suppress(RuntimeError):  # a thread that goes with the process is in the middle of a call
                item.close()
        gc.collect()
        _native.lib.est_log_set_sink(NULL, NULL)
    gc.callbacks.remove(_dying.on_collection)
    _dying.collecting = True
