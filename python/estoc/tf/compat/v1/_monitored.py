# SPDX-License-Identifier: Apache-2.0
"""Hooks and monitored sessions of tf.compat.v1.train, on est_monitored_session. A SessionRunHook is also a hook of
Estimators."""
from __future__ import annotations

import contextlib
import threading
import time
import weakref
from typing import Any, Mapping, NamedTuple, Sequence

from .... import errors as _errors
from .... import graph as _base
from .... import hooks as _hooks
from .... import ops
from ...._lib import NULL, Keep, check, ffi, lib, off, owned, text
from ...._tensor import borrowed_array, take_tensor, to_array, to_tensor
from ....checkpoint import latest_checkpoint
from ....cluster import server_of
from ....graph import Node, run_nodes
from ... import _devices
from ..._checkpoint import Checkpoint
from . import _graph
from ._saver import Saver
from ._session import BaseSession, Fetches, IteratorState, feeds_of, plain, target_of

USE_DEFAULT = object()

NanLossDuringTrainingError = _errors.NanLossDuringTrainingError


class SessionRunArgs(NamedTuple):
    """What a hook adds to a run."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a hook has got of a run."""

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """The run that a hook is called for."""

    def __init__(self, original_args: Any, session: Any, loop: _hooks.Loop):
        self.original_args, self.session = original_args, session
        self._loop = loop

    @property
    def stop_requested(self) -> bool:
        return self._loop.should_stop

    def request_stop(self) -> None:
        """Ends the loop after this run."""
        self._loop.request_stop("a hook requested it")


class SessionRunHook:
    """Override what is needed. An exception ends the run and comes out of it as it is."""

    def begin(self) -> None:
        """Before the session is made; the graph may still grow."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """After variables have their values; again when a lost session is replaced."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Before a run; what it returns is computed with it."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """After a run."""

    def end(self, session: Any) -> None:
        """At the end; not after an error."""

    def _pointer(self, keep: Keep) -> Any:
        adapter = _Adapter(self, next((item for item in keep if isinstance(item, MonitoredSession)), None))
        keep.append(adapter)
        return adapter._pointer(keep)

    def _taken(self, keep: Keep) -> Any:
        adapter = _Adapter(self, None)
        keep.append(adapter)
        return adapter._taken(keep)


class _LoopSession(BaseSession):
    """The session of a loop, as its hooks see it."""

    def __init__(self, graph: _base.Graph, loop: _hooks.Loop):
        self.graph, self._loop = graph, loop
        self._iterators = IteratorState(graph)

    def _run(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        if self._loop._c is None:
            raise RuntimeError("the session of a loop is usable only while it calls the hook")
        return run_nodes(lib.est_session_run, self._c, nodes, feeds)

    @property
    def _c(self) -> Any:
        return lib.est_loop_session(self._loop._c)

    def _write(self, variable: _base.Variable, value: Any) -> None:
        name = text(lib.est_node_name(variable._c)).encode()
        check(lib.est_session_write(self._c, name, to_tensor(value, variable.dtype, copy=False)))

    def _read(self, variable: _base.Variable) -> Any:
        out = ffi.new("est_tensor **")
        check(lib.est_session_read(self._c, text(lib.est_node_name(variable._c)).encode(), out))
        return to_array(take_tensor(out[0]))

    def should_stop(self) -> bool:
        return self._loop.should_stop


class _Adapter(_hooks.Hook):
    """A SessionRunHook as a hook of the library."""

    def __init__(self, hook: Any, monitored: "MonitoredSession | None"):
        self._hook = hook
        self._monitored = None if monitored is None else weakref.ref(monitored)
        self._graph: _base.Graph | None = None if monitored is None else monitored.graph
        self._own = monitored is None
        self._feeds: dict[Any, int] = {}
        self._made: dict[int, Node] = {}
        self._asked: tuple[Fetches, list[int]] | None = None

    def __del__(self):
        if self._own and self._graph is not None:
            self._graph._close()

    @contextlib.contextmanager
    def _called(self, loop: _hooks.Loop) -> Any:
        if self._graph is None:
            self._graph = _graph.Graph(_borrowed=lib.est_loop_graph(loop._c))
        with self._graph.as_default():
            yield _LoopSession(self._graph, loop)

    def begin(self, loop: _hooks.Loop) -> None:
        if self._own and self._graph is not None:  # every evaluation of a training has a graph of its own
            self._graph._close()
            self._graph = None
        self._feeds, self._made = {}, {}
        with self._called(loop):
            self._hook.begin()

    def _wants(self) -> int:
        return super()._wants() & ~(0 if hasattr(self._hook, "initialize") else 1 << 7)

    def initialize(self, loop: _hooks.Loop) -> None:
        with self._called(loop) as session:
            self._hook.initialize(session, loop.model_dir)

    def after_create_session(self, loop: _hooks.Loop) -> None:
        with self._called(loop) as session:
            self._hook.after_create_session(session, Coordinator())

    def _context(self, loop: _hooks.Loop, session: Any) -> SessionRunContext:
        monitored = self._monitored() if self._monitored is not None else None
        given = None if monitored is None else monitored._asked
        return SessionRunContext(given, session, loop)

    def before_run(self, loop: _hooks.Loop) -> None:
        with self._called(loop) as session:
            args = self._hook.before_run(self._context(loop, session))
            self._asked = None
            if args is None:
                return
            if getattr(args, "options", None) is not None:
                raise NotImplementedError("RunOptions do not exist; tf.estimator.ProfilerHook traces runs")
            fetches = Fetches(self._graph, [] if args.fetches is None else args.fetches)
            numbers = [loop.fetch(self._with_value(node)) for node in fetches.nodes]
            for number in numbers:
                loop.want(number)
            self._asked = (fetches, numbers)
            for node, value in feeds_of(self._graph, args.feed_dict).items():
                key = (node._c.id, node._c.output)
                if key not in self._feeds:
                    self._feeds[key] = lib.est_loop_add_feed(loop._c, node._c)
                lib.est_loop_set_feed(loop._c, self._feeds[key], to_tensor(value, node.dtype))

    def _with_value(self, node: Node) -> Node:
        """What to fetch so that an operation without a value runs."""
        if lib.est_node_dtype(node._c) not in (0, _base.RESOURCE):
            return node
        if node._c.id not in self._made:
            with self._graph.after([node]):
                self._made[node._c.id] = ops.identity(self._graph.constant(0))
        return self._made[node._c.id]

    def after_run(self, loop: _hooks.Loop) -> None:
        with self._called(loop) as session:
            results = None
            if self._asked is not None:
                fetches, numbers = self._asked
                results = fetches.pack([plain(loop.value(number)) for number in numbers])
            self._hook.after_run(self._context(loop, session), SessionRunValues(results))

    def end(self, loop: _hooks.Loop) -> None:
        with self._called(loop) as session:
            self._hook.end(session)


class Coordinator:
    """Whether threads of the program should stop."""

    def __init__(self, clean_stop_exception_types: Any = None):
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._clean = tuple(clean_stop_exception_types or (_errors.OutOfRangeError,))

    def should_stop(self) -> bool:
        return self._stop.is_set()

    def request_stop(self, ex: Any = None) -> None:
        """Asks all to stop; an exception comes out of join."""
        ex = ex[1] if isinstance(ex, tuple) else ex
        if ex is not None and self._error is None and not isinstance(ex, self._clean):
            self._error = ex
        self._stop.set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        return self._stop.wait(timeout)

    def clear_stop(self) -> None:
        self._stop.clear()
        self._error = None

    @contextlib.contextmanager
    def stop_on_exception(self) -> Any:
        """An exception within requests the stop."""
        try:
            yield
        except Exception as exception:
            self.request_stop(exception)

    def join(self, threads: Any = None, stop_grace_period_secs: float = 120,
             ignore_live_threads: bool = False) -> None:
        """Waits for the threads, once a stop was asked for no longer than the period of grace, and raises what was given
        to request_stop."""
        alive = list(threads or [])
        while alive and not self._stop.is_set():
            alive[0].join(0.1)  # another one may ask for the stop
            alive = [thread for thread in alive if thread.is_alive()]
        self._stop.set()
        end = time.monotonic() + stop_grace_period_secs
        for thread in alive:
            thread.join(max(end - time.monotonic(), 0))
        if self._error is not None:
            raise self._error
        left = [thread.name for thread in alive if thread.is_alive()]
        if left and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {' '.join(left)}")


# --- hooks of the library ---------------------------------------------------------------------------------------------


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise NotImplementedError(f"{name} does not exist yet")


def StopAtStepHook(num_steps: int | None = None, last_step: int | None = None) -> Any:  # noqa: N802
    """Stops after so many steps, or at a global step."""
    if (num_steps is None) == (last_step is None):
        raise ValueError("One of num_steps or last_step must be specified." if num_steps is None else
                         "Only one of num_steps or last_step can be specified.")
    return _hooks.stop_at_step_hook(num_steps, last_step)


def NanTensorHook(loss_tensor: Any = None, fail_on_nan_loss: bool = True) -> Any:  # noqa: N802
    """A NaN loss ends the run with an error, or stops it."""
    hook = _hooks.nan_hook(fail_on_nan_loss)
    hook.loss_tensor = loss_tensor
    return hook


def LoggingTensorHook(tensors: Any, every_n_iter: int | None = None, every_n_secs: float | None = None,  # noqa: N802
                      at_end: bool = False, formatter: Any = None) -> Any:
    """Logs tensors, or those of these names, every so often. `formatter` makes a line of the values by tag."""
    if not isinstance(tensors, Mapping):
        tensors = {item if isinstance(item, str) else item.name: item for item in tensors}
    nodes = {}
    for tag, item in tensors.items():
        if isinstance(item, str):  # found when the loop begins
            item, _, output = item.partition(":")
            if output not in ("", "0"):
                raise NotImplementedError(f"{item}:{output} has a name, and is not the first output; give the tensor")
        if hasattr(item, "_as_node"):  # a variable of a layer of Keras
            item = item._as_node(item.graph)
        nodes[tag] = item.value() if isinstance(item, _base.Variable) else item
    return _hooks.logging_hook(nodes, every_n_iter, every_n_secs, at_end, formatter)


class SecondOrStepTimer:
    """When something that happens every so many seconds, or steps, is due."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None):
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        """As if it had never triggered."""
        self._step: int | None = None
        self._time: float | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        if self._step is None:
            return True
        if step == self._step:
            return False
        return (self._secs is not None and time.time() >= self._time + self._secs
                or self._steps is not None and step >= self._step + self._steps)

    def update_last_triggered_step(self, step: int) -> tuple:
        """Seconds and steps since the last one, both None at the first."""
        now = time.time()
        elapsed = (None, None) if self._step is None else (now - self._time, step - self._step)
        self._step, self._time = step, now
        return elapsed

    def last_triggered_step(self) -> int | None:
        return self._step


def StepCounterHook(every_n_steps: int | None = 100, every_n_secs: float | None = None,  # noqa: N802
                    output_dir: Any = None, summary_writer: Any = None) -> Any:
    """Logs and writes the steps per second."""
    _refuse(summary_writer=summary_writer)
    return _hooks.step_counter_hook(None if every_n_secs is not None else every_n_steps, every_n_secs, output_dir)


def ProfilerHook(save_steps: int | None = None, save_secs: float | None = None, output_dir: Any = "",  # noqa: N802
                 show_dataflow: bool = True, show_memory: bool = False) -> Any:
    """Writes a Chrome timeline every so often."""
    return _hooks.profiler_hook(save_steps, save_secs, output_dir or None)


class CheckpointSaverListener:
    """Called around every save of a checkpoint, with the global step; after_save may return True to stop. `session` is
    None: read variables with tf.train.load_checkpoint."""

    def begin(self) -> None:
        """Before the first save."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Before a save."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """After a save."""

    def end(self, session: Any, global_step_value: int) -> None:
        """At the end, with the step of the last checkpoint."""


class _Listener(_hooks.SavingListener):
    def __init__(self, listener: CheckpointSaverListener):
        self._listener = listener

    def begin(self) -> None:
        self._listener.begin()

    def before_save(self, global_step: int) -> None:
        self._listener.before_save(None, global_step)

    def after_save(self, global_step: int) -> Any:
        return self._listener.after_save(None, global_step)

    def end(self, global_step: int) -> None:
        self._listener.end(None, global_step)


def CheckpointSaverHook(checkpoint_dir: Any, save_secs: float | None = None,  # noqa: N802
                        save_steps: int | None = None,
                        saver: Any = None, checkpoint_basename: str = "model.ckpt", scaffold: Any = None,
                        listeners: Sequence[Any] | None = None, save_graph_def: bool = True) -> Any:
    """Saves checkpoints at the beginning, every so often and at the end."""
    _refuse(saver=saver, scaffold=scaffold)
    if (save_secs is None) == (save_steps is None):
        raise ValueError("Exactly one of save_secs and save_steps should be provided.")
    keep = Keep()
    wrapped = [item if isinstance(item, _hooks.SavingListener) else _Listener(item) for item in listeners or []]
    options = keep.options("est_checkpoint_saver_options", steps=save_steps, secs=save_secs,
                           basename=keep.string(checkpoint_basename), no_graph_def=not save_graph_def,
                           listeners=_hooks.c_listeners(keep, wrapped))
    directory = keep.string(checkpoint_dir)
    return _hooks.NativeHook(lambda: lib.est_checkpoint_saver_hook(directory, options), keep)


def SummarySaverHook(save_steps: int | None = None, save_secs: float | None = None,  # noqa: N802
                     output_dir: Any = None,
                     summary_writer: Any = None, scaffold: Any = None, summary_op: Any = None) -> Any:
    """Writes the summaries of summary_op every so often; None: all of the graph."""
    _refuse(summary_writer=summary_writer, scaffold=scaffold)
    if (save_secs is None) == (save_steps is None):
        raise ValueError("Exactly one of save_secs and save_steps should be provided.")
    keep = Keep()
    options = _hooks._every(keep, "est_every_options", save_steps, save_secs, output_dir)
    hook = _hooks.NativeHook(lambda: lib.est_summary_saver_hook(options), keep)
    hook.summary_op = summary_op
    return hook


def GlobalStepWaiterHook(wait_until_step: int) -> Any:  # noqa: N802
    """Waits before the first run until the global step has come this far."""
    return _hooks.NativeHook(lambda: lib.est_global_step_waiter_hook(wait_until_step))


class FinalOpsHook(_hooks.NativeHook):
    """Computes tensors once at the end; final_ops_values has them."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None):
        _refuse(final_ops_feed_dict=final_ops_feed_dict)
        self._fetches = Fetches(_graph.get_default_graph(), final_ops)
        keep = Keep()
        nodes = keep.span("est_nodes", "est_node", [node._c for node in self._fetches.nodes])
        super().__init__(lambda: lib.est_final_ops_hook(nodes), keep)

    def _taken(self, keep: Keep) -> Any:
        raise NotImplementedError("a FinalOpsHook in an EstimatorSpec would be gone when its values are read; give it "
                                  "to train or evaluate")

    @property
    def final_ops_values(self) -> Any:
        values = [lib.est_final_value(self._c, i) for i in range(len(self._fetches.nodes))]
        if any(value == NULL for value in values):
            return None
        return self._fetches.pack([plain(borrowed_array(ffi.cast("est_tensor *", value)).copy()) for value in values])


class FeedFnHook(SessionRunHook):
    """Feeds every run with what a function returns."""

    def __init__(self, feed_fn: Any):
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


# --- monitored sessions -----------------------------------------------------------------------------------------------


class Scaffold:
    """What is done with a session that is new: init_op and init_fn(scaffold, session), after the initializers of all
    variables; then, and in a session that was restored, local_init_op."""

    def __init__(self, init_op: Any = None, init_feed_dict: Any = None, init_fn: Any = None, ready_op: Any = None,
                 ready_for_local_init_op: Any = None, local_init_op: Any = None, summary_op: Any = None,
                 saver: Any = None, copy_from_scaffold: Any = None, local_init_feed_dict: Any = None):
        _refuse(init_feed_dict=init_feed_dict, ready_op=ready_op, ready_for_local_init_op=ready_for_local_init_op,
                local_init_feed_dict=local_init_feed_dict)
        if saver is not None and not isinstance(saver, (Saver, Checkpoint)):
            raise TypeError(f"the saver of a scaffold is a tf.compat.v1.train.Saver or a tf.train.Checkpoint, not "
                            f"{type(saver).__name__}")
        if isinstance(saver, Saver) and saver._given is not None:
            raise NotImplementedError("a saver of some variables: checkpoints of a training have all of them; init_fn "
                                      "may restore some with saver.restore(session, path)")
        base = copy_from_scaffold
        self.init_op = init_op if init_op is not None or base is None else base.init_op
        self.init_fn = init_fn if init_fn is not None or base is None else base.init_fn
        self.local_init_op = local_init_op if local_init_op is not None or base is None else base.local_init_op
        self.summary_op = summary_op if summary_op is not None or base is None else base.summary_op
        self.saver = saver if saver is not None or base is None else base.saver

    def finalize(self) -> "Scaffold":
        return self

    def _hooks(self, trains: bool) -> list[SessionRunHook]:
        """The hooks that do what it asks for; without training only local_init_op. Initializers of all variables and
        tables run without it."""
        if self.summary_op is not None:
            raise NotImplementedError("scaffold: summary_op does not exist yet; all summaries of the graph are merged")
        if self.init_op is not None and _graph.initializes(self.init_op):
            self.init_op = None
        if self.local_init_op is not None and _graph.initializes(self.local_init_op):
            self.local_init_op = None
        wanted = self.local_init_op if not trains else next(
            (item for item in (self.init_op, self.init_fn, self.local_init_op) if item is not None), None)
        return [] if wanted is None else [_Initialize(self, trains)]


class _Initialize(SessionRunHook):
    def __init__(self, scaffold: Scaffold, trains: bool):
        self._scaffold, self._trains = scaffold, trains

    def initialize(self, session: Any, model_dir: str) -> None:
        scaffold = self._scaffold
        if self._trains and (not model_dir or latest_checkpoint(model_dir) is None):
            if scaffold.init_op is not None:
                session.run(scaffold.init_op)
            if scaffold.init_fn is not None:
                scaffold.init_fn(scaffold, session)
        if scaffold.local_init_op is not None:
            session.run(scaffold.local_init_op)


class ChiefSessionCreator:
    """How the chief makes its session."""

    is_chief = True

    def __init__(self, scaffold: Any = None, master: str = "", config: Any = None, checkpoint_dir: Any = None,
                 checkpoint_filename_with_path: Any = None):
        _refuse(checkpoint_filename_with_path=checkpoint_filename_with_path)
        self.scaffold, self.master, self.config, self.checkpoint_dir = scaffold, master, config, checkpoint_dir
        self.max_wait_secs = 7200.0


class WorkerSessionCreator(ChiefSessionCreator):
    """How a worker does, which waits for the chief."""

    is_chief = False

    def __init__(self, scaffold: Any = None, master: str = "", config: Any = None, max_wait_secs: float = 1800):
        super().__init__(scaffold, master, config)
        self.max_wait_secs = max_wait_secs


class _StepContext:
    """What a step_fn is given."""

    def __init__(self, monitored: "MonitoredSession"):
        self._monitored = monitored
        self.session = _RawSession(monitored)

    def run_with_hooks(self, *args: Any, **named: Any) -> Any:
        return self._monitored.run(*args, **named)

    def request_stop(self) -> None:
        raise StopIteration


class _RawSession(BaseSession):
    """The session of a monitored one, without hooks and recovery."""

    def __init__(self, monitored: "MonitoredSession"):
        self.graph, self._monitored = monitored.graph, monitored
        self._iterators = monitored._iterators

    def _run(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        return run_nodes(lib.est_session_run, lib.est_monitored_session_raw(self._monitored._session()), nodes, feeds)


def _parts(summary_op: Any) -> list:
    """What a summary operation, or a list of them, writes."""
    listed = summary_op if isinstance(summary_op, (list, tuple)) else [summary_op]
    return [part for summary in listed for part in summary.parts]


class MonitoredSession(BaseSession):
    """A session that restores or initializes variables, calls hooks around runs and recovers from lost tasks."""

    def __init__(self, session_creator: Any = None, hooks: Any = None, stop_grace_period_secs: float = 120,
                 _chief_only: Any = None, _options: Any = None):
        creator = session_creator if session_creator is not None else ChiefSessionCreator()
        self.graph = _graph.get_default_graph()
        self._iterators = IteratorState(self.graph)
        self._asked: SessionRunArgs | None = None
        self._ended = False
        self._c: Any = None
        self._extra: list[Node] = []
        self._entered: list[contextlib.ExitStack] = []
        keep = Keep([self])
        hooks = list(hooks or [])
        if creator.scaffold is not None:
            if isinstance(creator.scaffold.saver, Checkpoint):
                raise NotImplementedError("checkpoints of a monitored session have variables by their names; a "
                                          "tf.train.Checkpoint is the saver of an EstimatorSpec's scaffold")
            if creator.scaffold.saver is not None and creator.scaffold.saver._max != 5:
                raise NotImplementedError("a monitored session keeps the latest 5 checkpoints; another max_to_keep of the "
                                          "saver of a scaffold does not exist yet")
            hooks[:0] = creator.scaffold._hooks(True)
        members = dict(_options or {"save_checkpoint_secs": lib.EST_OFF, "save_summaries_steps": lib.EST_OFF,
                                    "log_step_count_steps": lib.EST_OFF})
        self._add_nodes(keep, members, hooks + list(_chief_only or []))
        options = keep.options(
            "est_monitored_options", checkpoint_dir=keep.string(creator.checkpoint_dir),
            hooks=_hooks.c_hooks(keep, hooks), chief_only_hooks=_hooks.c_hooks(keep, _chief_only),
            session=self._session_options(keep, creator), **members)
        out = ffi.new("est_monitored_session **")
        self.graph.check()
        keep.pop(0)  # a cycle would keep the session for ever
        self._keep = keep
        check(lib.est_monitored_session_create(self.graph._c, options, out))
        self._c = owned(out[0], "est_monitored_session_free", parents=(keep, self.graph))

    def _add_nodes(self, keep: Keep, members: dict, hooks: list) -> None:
        """The loss of a NanTensorHook, and the summaries of the graph."""
        for hook in hooks:
            loss = getattr(hook, "loss_tensor", None)
            if loss is not None:
                members["loss"] = loss._c
                self._extra.append(loss)
        given = [hook.summary_op for hook in hooks if hasattr(hook, "summary_op")]
        parts = []
        if members["save_summaries_steps"] != lib.EST_OFF or None in given:
            parts = _parts(_graph.get_collection(_graph.GraphKeys.SUMMARIES))
        elif given:
            parts = _parts(given[0])
        if any(op is not None and {id(part) for part in _parts(op)} != {id(part) for part in parts} for op in given):
            raise NotImplementedError("SummarySaverHook: all that saves summaries of a session saves the same ones; give "
                                      "it the summary_op of merge_all(), or save_summaries_steps=0 and one hook")
        self._extra += [part.node for part in parts]
        named = [{"name": keep.string(part.tag), "node": part.node._c} for part in parts]
        members["summaries"] = keep.span("est_named_nodes", "est_named_node", named)

    def _session_options(self, keep: Keep, creator: Any) -> Any:
        members: dict[str, Any] = {"threads": getattr(creator.config, "intra_op_parallelism_threads", 0)}
        server = server_of(target_of(creator.master))
        if server is not None and "ps" in server.cluster_spec.jobs:
            out = ffi.new("est_remote **")
            check(lib.est_remote_create(server._c, keep.options("est_remote_options", is_chief=creator.is_chief,
                                                                connect_secs=creator.max_wait_secs), out))
            self._remote = owned(out[0], "est_remote_free", parents=(server,))
            keep.append(self._remote)
            members["remote"] = self._remote
        elif not creator.is_chief:
            raise NotImplementedError("a session of a worker that is not the chief needs its server in this process "
                                      "(master=server.target), and ps tasks in its cluster")
        else:
            members.update(target=keep.string(target_of(creator.master)), connect_secs=creator.max_wait_secs)
            if not target_of(creator.master):
                members.update(_devices.members(keep, _devices.options_of(creator.config)))
        return keep.options("est_session_options", **members)

    def _session(self) -> Any:
        if self._c is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._c

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Session.run with the hooks around it."""
        self._asked = SessionRunArgs(fetches, feed_dict)
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        return super().run(fetches, feed_dict, options, run_metadata)

    def _run(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        feeds = self._iterators.feed(self._extra, feeds, self._compute) if self._extra else feeds
        return run_nodes(lib.est_monitored_session_run, self._session(), nodes, feeds)

    def _compute(self, nodes: list[Node], feeds: dict[Node, Any]) -> list[Any]:
        return _RawSession(self)._run(nodes, feeds)

    def run_step_fn(self, step_fn: Any) -> Any:
        """Calls step_fn with a context: its session has no hooks, run_with_hooks has."""
        try:
            return step_fn(_StepContext(self))
        except StopIteration:
            self._ended = True
            return None

    def should_stop(self) -> bool:
        return self._c is None or self._ended or bool(lib.est_monitored_session_should_stop(self._c))

    def close(self) -> None:
        """Lets the hooks end, and saves the last checkpoint."""
        if self._c is None:
            return
        try:
            check(lib.est_monitored_session_end(self._c))
        finally:
            self._free()

    def _free(self) -> None:
        self._iterators.close()
        if self._c is not None:
            ffi.release(self._c)
            self._c = None
        remote = getattr(self, "_remote", None)
        if remote is not None:
            ffi.release(remote)
            self._remote = None

    def __enter__(self) -> "MonitoredSession":
        stack = contextlib.ExitStack()
        stack.enter_context(self.graph.as_default())
        stack.enter_context(self.as_default())
        self._entered.append(stack)
        return self

    def __exit__(self, kind: Any, exception: Any, trace: Any) -> bool:
        self._entered.pop().close()
        ends = kind is not None and issubclass(kind, (_errors.OutOfRangeError, StopIteration))
        if kind is None or ends:
            self.close()
        else:
            self._free()
        return ends


class SingularMonitoredSession(MonitoredSession):
    """A monitored session of one process."""

    def __init__(self, hooks: Any = None, scaffold: Any = None, master: str = "", config: Any = None,
                 checkpoint_dir: Any = None, stop_grace_period_secs: float = 120,
                 checkpoint_filename_with_path: Any = None):
        super().__init__(ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path),
                         hooks)

    def raw_session(self) -> Any:
        return _RawSession(self)


def MonitoredTrainingSession(master: str = "", is_chief: bool = True, checkpoint_dir: Any = None,  # noqa: N802
                             scaffold: Any = None, hooks: Any = None, chief_only_hooks: Any = None,
                             save_checkpoint_secs: Any = USE_DEFAULT, save_summaries_steps: Any = USE_DEFAULT,
                             save_summaries_secs: Any = USE_DEFAULT, config: Any = None,
                             stop_grace_period_secs: float = 120, log_step_count_steps: Any = 100,
                             max_wait_secs: float = 7200, save_checkpoint_steps: Any = USE_DEFAULT,
                             summary_dir: Any = None, save_graph_def: bool = True) -> MonitoredSession:
    """A monitored session that, as the chief, also saves checkpoints, writes summaries and logs steps per second."""
    if save_summaries_secs not in (USE_DEFAULT, None) or summary_dir not in (None, checkpoint_dir):
        raise NotImplementedError("save_summaries_secs and another summary_dir do not exist yet; SummarySaverHook "
                                  "has both")
    if save_checkpoint_secs is USE_DEFAULT and save_checkpoint_steps is USE_DEFAULT:
        save_checkpoint_secs, save_checkpoint_steps = 600, None
    secs = None if save_checkpoint_secs is USE_DEFAULT else save_checkpoint_secs
    steps = None if save_checkpoint_steps is USE_DEFAULT else save_checkpoint_steps
    summaries = 100 if save_summaries_steps is USE_DEFAULT else save_summaries_steps
    if checkpoint_dir is None:
        secs = steps = summaries = None
    options = {"save_checkpoint_secs": lib.EST_OFF if secs is None else secs,
               "save_checkpoint_steps": 0 if steps is None else steps,
               "save_summaries_steps": lib.EST_OFF if summaries is None else off(summaries),
               "log_step_count_steps": lib.EST_OFF if log_step_count_steps is None else off(log_step_count_steps)}
    if is_chief:
        creator: Any = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    else:
        creator = WorkerSessionCreator(scaffold, master, config)
        creator.checkpoint_dir = checkpoint_dir
    creator.max_wait_secs = max_wait_secs
    return MonitoredSession(creator, hooks, stop_grace_period_secs, _chief_only=chief_only_hooks if is_chief else None,
                            _options=options)
