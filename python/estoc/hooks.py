# SPDX-License-Identifier: Apache-2.0
"""Hooks: code that runs around the steps of a training, evaluation or prediction.

    class Plateau(estoc.Hook):
        best = float("inf")

        def after_run(self, loop):
            if loop.loss < self.best:
                self.best = loop.loss
            else:
                loop.request_stop("no progress")
"""
from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from ._lib import NULL, Handle, Keep, callback, check, ffi, lib, made, text
from ._tensor import borrowed_array, copy_values, take_tensor, to_array
from .graph import RESOURCE, Graph, Node


class Loop:
    """What a hook sees of the loop it is called by; valid during the call."""

    def __init__(self, pointer: Any):
        self._c = pointer
        self._graph: Graph | None = None

    def _close(self) -> None:
        self._c = None
        if self._graph is not None:
            self._graph._close()

    @property
    def graph(self) -> Graph:
        if self._graph is None:
            self._graph = Graph(_borrowed=lib.est_loop_graph(self._c))
        return self._graph

    @property
    def model_dir(self) -> str:
        return text(lib.est_loop_model_dir(self._c))

    @property
    def loss(self) -> float:
        """Of the last run; NaN before the first."""
        return lib.est_loop_loss(self._c)

    @property
    def global_step(self) -> int:
        return lib.est_loop_global_step(self._c)

    @property
    def runs(self) -> int:
        return lib.est_loop_runs(self._c)

    def fetch(self, node: Node) -> int:
        """In begin: has the node computed in the runs for which it is wanted; its number for `want` and `value`."""
        return lib.est_loop_fetch(self._c, node._c)

    def want(self, number: int) -> None:
        """In before_run: this run computes the fetch."""
        lib.est_loop_want(self._c, number)

    def value(self, number: int) -> np.ndarray | None:
        """In after_run: a copy of the value; None: it was not wanted."""
        data = lib.est_loop_data(self._c, number)
        if data == NULL:
            return None
        return copy_values(lib.est_loop_dtype(self._c, number), lib.est_loop_shape(self._c, number), data)

    def read(self, variable: str) -> np.ndarray:
        """The value of a variable; not in begin."""
        session = lib.est_loop_session(self._c)
        if session == NULL:
            raise RuntimeError("there is no session in begin")
        out = ffi.new("est_tensor **")
        check(lib.est_session_read(session, variable.encode(), out))
        return to_array(take_tensor(out[0]))

    def request_stop(self, reason: str = "") -> None:
        """Ends the loop after this run; not an error."""
        lib.est_loop_request_stop(self._c, reason.encode())

    @property
    def should_stop(self) -> bool:
        return bool(lib.est_loop_should_stop(self._c))

    def summary(self, tag: str, value: float) -> None:
        """A scalar for TensorBoard, at this step."""
        lib.est_loop_summary(self._c, tag.encode(), value)


class Hook:
    """Override what is needed. An exception ends the run and comes out of train, evaluate or predict."""

    def begin(self, loop: Loop) -> None:
        """Before the session is made; the graph may still grow."""

    def initialize(self, loop: Loop) -> None:
        """After variables have their values, and before the checkpoint of step 0; again when a lost session is replaced."""

    def after_create_session(self, loop: Loop) -> None:
        """After initialize of all hooks; again when a lost session is replaced."""

    def before_run(self, loop: Loop) -> None:
        """Before a run."""

    def after_run(self, loop: Loop) -> None:
        """After a run."""

    def end(self, loop: Loop) -> None:
        """At the end; not after an error."""

    def _wants(self) -> int:
        wants = 0
        for bit, name in ((2, "before_run"), (3, "after_run"), (7, "initialize")):
            if getattr(type(self), name) is not getattr(Hook, name) or name in vars(self):
                wants |= 1 << bit
        return wants

    def _pointer(self, keep: Keep) -> Any:
        handle = Handle(self)
        hook = made(lib.py_hook_create(handle.pointer, self._wants()), "est_hook_free")
        keep.extend([handle, hook])
        return hook

    def _taken(self, keep: Keep) -> Any:
        """A hook that C frees; only the handle is kept."""
        handle = Handle(self)
        keep.append(handle)
        return lib.py_hook_create(handle.pointer, self._wants())


_CALLS = ("begin", "after_create_session", "before_run", "after_run", "end", "epoch_begin", "epoch_end",
          "initialize")


@callback("py_on_hook")
def _on_hook(user: Any, what: int, loop: Any) -> None:
    own = Loop(loop)
    try:
        getattr(Handle.get(user), _CALLS[what])(own)
    finally:
        own._close()


class NativeHook(Hook):
    """A hook of the library; it may be used for one loop after the other. An EstimatorSpec, whose hooks the library
    frees, is given a new one that `make` makes of the same arguments."""

    def __init__(self, make: Callable[[], Any], keep: Keep | None = None):
        self._make, self._keep = make, keep
        self._c = made(make(), "est_hook_free")

    def _pointer(self, keep: Keep) -> Any:
        keep.append(self)
        return self._c

    def _taken(self, keep: Keep) -> Any:
        keep.append(self)
        pointer = self._make()
        if pointer == NULL:
            made(pointer, "est_hook_free")
        return pointer


def c_hooks(keep: Keep, hooks: Sequence[Hook] | None) -> Any:
    """An est_hooks."""
    hooks = list(hooks or [])
    for hook in hooks:
        if not hasattr(hook, "_pointer"):
            raise TypeError(f"All hooks must be Hook instances, given: {hook}")
    return keep.span("est_hooks", "est_hook *", [hook._pointer(keep) for hook in hooks])


def logging_hook(nodes: Mapping[str, Node | str] | Sequence[str], every_n_iter: int | None = None,
                 every_n_secs: float | None = None, at_end: bool = False,
                 formatter: Callable[[dict[str, Any]], str] | None = None) -> Hook:
    """Logs nodes every so often: by name, or found by the names of their operations or variables. `formatter` makes a
    line of the values by name."""
    pairs = list(nodes.items() if isinstance(nodes, Mapping) else [(name, name) for name in nodes])
    if any(isinstance(node, str) for _, node in pairs):
        return _LoggingByName(pairs, (every_n_iter, every_n_secs, at_end, formatter))
    return _native_logging_hook(pairs, every_n_iter, every_n_secs, at_end, formatter)


class _LoggingByName(Hook):
    """The library's hook, which finds the operation of a name but not the value of a variable."""

    def __init__(self, pairs: list, options: tuple):
        self._pairs, self._options = pairs, options
        self._inner = _native_logging_hook(pairs, *options)  # refuses wrong options at once

    def begin(self, loop: Loop) -> None:
        self._inner = _native_logging_hook([(tag, _found(loop.graph, node)) for tag, node in self._pairs], *self._options)
        self._call("begin", loop)

    def before_run(self, loop: Loop) -> None:
        self._call("before_run", loop)

    def after_run(self, loop: Loop) -> None:
        self._call("after_run", loop)

    def end(self, loop: Loop) -> None:
        self._call("end", loop)

    def _call(self, event: str, loop: Loop) -> None:
        check(getattr(self._inner._c, event)(self._inner._c, loop._c))


def _found(graph: Graph, node: Node | str) -> Node | str:
    """The node that has the value of a variable of that name; else what was given."""
    found = lib.est_graph_find(graph._c, node.encode()) if isinstance(node, str) else None
    if found is None or found.graph == NULL or lib.est_node_dtype(found) != RESOURCE:
        return node
    return Node(graph, lib.est_read_variable(found))


def _native_logging_hook(pairs: list, every_n_iter: int | None, every_n_secs: float | None, at_end: bool,
                         formatter: Callable[[dict[str, Any]], str] | None) -> NativeHook:
    keep = Keep()
    named = [{"name": keep.string(name), **({"node": node._c} if isinstance(node, Node) else {})} for name, node in pairs]
    operations = keep.strings(["" if isinstance(node, Node) else node for _, node in pairs])
    options = keep.options("est_logging_options", every_n_iter=every_n_iter, every_n_secs=every_n_secs, at_end=at_end,
                           operations=operations)
    if formatter is not None:
        handle = Handle(formatter)
        keep.append(handle)
        options.format, options.user = lib.py_on_log_format, handle.pointer
    span = keep.span("est_named_nodes", "est_named_node", named)
    return NativeHook(lambda: lib.est_logging_hook(span, options), keep)


@callback("py_on_log_format")
def _on_log_format(user: Any, values: Any, line: Any, size: int) -> None:
    found = {text(values.data[i].name): borrowed_array(values.data[i].tensor).copy()[()] for i in range(values.n)}
    written = str(Handle.get(user)(found)).encode()[:int(size) - 1]
    ffi.memmove(line, written + b"\0", len(written) + 1)


def stop_at_step_hook(num_steps: int | None = None, last_step: int | None = None) -> Hook:
    """Stops after so many steps, or at a global step; exactly one is given."""
    return NativeHook(lambda: lib.est_stop_at_step_hook(num_steps or 0, last_step or 0))


def stop_at_secs_hook(seconds: float) -> Hook:
    """Stops when that many seconds have passed."""
    return NativeHook(lambda: lib.est_stop_at_secs_hook(seconds))


def nan_hook(fail_on_nan: bool = True) -> Hook:
    """A NaN loss ends the run with an error, or stops it with a warning."""
    return NativeHook(lambda: lib.est_nan_hook(fail_on_nan))


def _every(keep: Keep, kind: str, steps: int | None, secs: float | None, output_dir: Any) -> Any:
    return keep.options(kind, steps=steps, secs=secs, output_dir=keep.string(output_dir))


def step_counter_hook(every_n_steps: int | None = None, every_n_secs: float | None = None,
                      output_dir: str | os.PathLike | None = None) -> Hook:
    """Logs and writes "global_step/sec"."""
    keep = Keep()
    if every_n_steps is None and every_n_secs is None:
        every_n_steps = 100
    options = _every(keep, "est_every_options", every_n_steps, every_n_secs, output_dir)
    return NativeHook(lambda: lib.est_step_counter_hook(options), keep)


def profiler_hook(save_steps: int | None = None, save_secs: float | None = None,
                  output_dir: str | os.PathLike | None = None) -> Hook:
    """Writes a Chrome timeline of a step every so often."""
    keep = Keep()
    options = _every(keep, "est_profiler_options", save_steps, save_secs, output_dir)
    return NativeHook(lambda: lib.est_profiler_hook(options), keep)


# --- early stopping ---------------------------------------------------------------------------------------------------


def _early(function: str, metric: str, limit: Any, eval_dir: Any, min_steps: int, run_every_secs: float | None,
           run_every_steps: int | None) -> Hook:
    keep = Keep()
    name = keep.string(metric)
    options = keep.options(
        "est_early_stopping_options", eval_dir=keep.string(eval_dir), min_steps=min_steps,
        run_every_secs=run_every_secs if run_every_steps is None else None, run_every_steps=run_every_steps)
    return NativeHook(lambda: getattr(lib, function)(name, limit, options), keep)


def stop_if_higher_hook(metric: str, threshold: float, eval_dir: str | None = None, min_steps: int = 0,
                        run_every_secs: float | None = 60, run_every_steps: int | None = None) -> Hook:
    """Stops when an evaluation has a metric above the threshold."""
    return _early("est_stop_if_higher_hook", metric, threshold, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_lower_hook(metric: str, threshold: float, eval_dir: str | None = None, min_steps: int = 0,
                       run_every_secs: float | None = 60, run_every_steps: int | None = None) -> Hook:
    """Stops when an evaluation has a metric below the threshold."""
    return _early("est_stop_if_lower_hook", metric, threshold, eval_dir, min_steps, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(metric: str, max_steps_without_increase: int, eval_dir: str | None = None,
                             min_steps: int = 0, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> Hook:
    """Stops when the best evaluation is that many steps old."""
    return _early("est_stop_if_no_increase_hook", metric, max_steps_without_increase, eval_dir, min_steps,
                  run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(metric: str, max_steps_without_decrease: int, eval_dir: str | None = None,
                             min_steps: int = 0, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> Hook:
    """Stops when the best evaluation is that many steps old."""
    return _early("est_stop_if_no_decrease_hook", metric, max_steps_without_decrease, eval_dir, min_steps,
                  run_every_secs, run_every_steps)


# --- hooks of an estimator ---------------------------------------------------------------------------------------------


def in_memory_evaluator_hook(estimator: Any, input_fn: Callable, steps: int | None = None,
                             hooks: Sequence[Hook] | None = None, name: str | None = None,
                             every_n_iter: int = 100) -> Hook:
    """Evaluates the variables in memory, without a checkpoint: before the first step, every so many, and at the end."""
    if every_n_iter is None or every_n_iter <= 0:
        raise ValueError(f"invalid every_n_iter={every_n_iter}.")
    keep = Keep([estimator])
    options = keep.options("est_in_memory_options", steps=steps, name=keep.string(name), every_n_iter=every_n_iter,
                           hooks=c_hooks(keep, hooks), **estimator._input(input_fn, keep))
    return NativeHook(lambda: lib.est_in_memory_evaluator_hook(estimator._c, options), keep)


def stop_at_checkpoint_step_hook(estimator: Any, last_step: int, wait_secs: float = 30) -> Hook:
    """Stops at a global step; workers that are not the chief wait for the checkpoint of that step."""
    return NativeHook(lambda: lib.est_stop_at_checkpoint_step_hook(estimator._c, last_step, wait_secs),
                      Keep([estimator]))


# --- saving -----------------------------------------------------------------------------------------------------------


class SavingListener:
    """Called around every save of a checkpoint. after_save may return True to stop the training."""

    def begin(self) -> None:
        """Before the first save."""

    def before_save(self, global_step: int) -> None:
        """Before a save."""

    def after_save(self, global_step: int) -> bool | None:
        """After a save."""

    def end(self, global_step: int) -> None:
        """At the end, with the step of the last checkpoint."""


@callback("py_on_listener")
def _on_listener(user: Any, what: int, session: Any, global_step: int, stop: Any) -> None:
    listener = Handle.get(user)
    if what == 0:
        listener.begin()
    elif what == 1:
        listener.before_save(global_step)
    elif what == 2:
        stop[0] = bool(listener.after_save(global_step))
    else:
        listener.end(global_step)


def c_listeners(keep: Keep, listeners: Sequence[SavingListener] | None) -> Any:
    """An est_saving_listeners."""
    pointers = []
    for listener in listeners or []:
        if not isinstance(listener, SavingListener):
            raise TypeError(f"saving_listeners are SavingListener instances, given: {listener}")
        handle = Handle(listener)
        pointer = made(lib.py_listener_create(handle.pointer), "py_listener_free")
        keep.extend([handle, pointer])
        pointers.append(pointer)
    return keep.span("est_saving_listeners", "est_saving_listener *", pointers)
