# SPDX-License-Identifier: Apache-2.0
"""tf.keras.callbacks: those of the library, and a class for your own."""
from __future__ import annotations

import contextlib as _contextlib
import os as _os
import sys as _sys
import time as _time
import warnings as _warnings
from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from ..._lib import Handle as _Handle
from ..._lib import Keep as _Keep
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from ..._lib import made as _made
from ..._lib import off as _off
from ..._lib import text as _text
from ... import _lib as _binding
from .. import _structure
from .._absent import Named as _Named
from .._absent import module_getattr as _module_getattr

_OF_TESTS = ("on_test_begin", "on_test_batch_begin", "on_test_batch_end", "on_test_end")
_OF_PREDICTIONS = ("on_predict_begin", "on_predict_batch_begin", "on_predict_batch_end", "on_predict_end")
_AFTER_CREATE, _BEFORE_RUN, _AFTER_RUN, _END, _EPOCH_BEGIN, _EPOCH_END = 1, 2, 3, 4, 5, 6


def _logger() -> _Any:
    return _binding.logger


class Callback(_Named):
    """Code that runs around training. Subclasses override what they need; `self.model.stop_training = True` ends a
    fit after the epoch or batch."""

    _where = "tf.keras.callbacks.Callback"

    def __init__(self):
        self.model = None
        self.params: dict = {}
        self.validation_data = None

    def set_model(self, model: _Any) -> None:
        self.model = model

    def set_params(self, params: dict) -> None:
        self.params = params

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None: ...
    def on_batch_begin(self, batch: int, logs: dict | None = None) -> None: ...
    def on_batch_end(self, batch: int, logs: dict | None = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self.on_batch_begin(batch, logs=logs)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.on_batch_end(batch, logs=logs)

    def on_test_batch_begin(self, batch: int, logs: dict | None = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: dict | None = None) -> None: ...
    def on_train_begin(self, logs: dict | None = None) -> None: ...
    def on_train_end(self, logs: dict | None = None) -> None: ...
    def on_test_begin(self, logs: dict | None = None) -> None: ...
    def on_test_end(self, logs: dict | None = None) -> None: ...
    def on_predict_begin(self, logs: dict | None = None) -> None: ...
    def on_predict_end(self, logs: dict | None = None) -> None: ...
    def on_predict_batch_begin(self, batch: int, logs: dict | None = None) -> None: ...
    def on_predict_batch_end(self, batch: int, logs: dict | None = None) -> None: ...

    def _more(self) -> list:
        """Other callbacks that do a part of what this one does."""
        return []

    def _overrides(self, *names: str) -> bool:
        return any(getattr(type(self), name) is not getattr(Callback, name) for name in names)

    # --- as a hook ---

    def _hook(self, fit: _Any, keep: _Keep, test: bool = False) -> _Any:
        wants = 1 << _AFTER_CREATE | 1 << _END
        if test:
            if self._overrides("on_test_batch_begin"):
                wants |= 1 << _BEFORE_RUN
            if self._overrides("on_test_batch_end"):
                wants |= 1 << _AFTER_RUN
        else:
            wants |= 1 << _EPOCH_BEGIN | 1 << _EPOCH_END
            if self._overrides("on_train_batch_begin", "on_batch_begin"):
                wants |= 1 << _BEFORE_RUN
            if self._overrides("on_train_batch_end", "on_batch_end"):
                wants |= 1 << _AFTER_RUN
        handle = _Handle(_Events(self, fit, test))
        keep.append(handle)
        hook = _made(_lib.py_callback_create(handle.pointer, wants), "est_hook_free")
        keep.append(hook)
        return hook


def _warn_of_tests(callbacks: _Any) -> None:
    """The validation of a fit is an evaluation within C."""
    for callback in _structure.flatten(callbacks) if callbacks is not None else ():
        if isinstance(callback, Callback) and callback._overrides(*_OF_TESTS):
            _warnings.warn(f"a fit of several tasks does not call on_test_begin and the like of "
                           f"{type(callback).__name__} for its validation data; evaluate does")


class _FollowUp(Callback):
    """What a network does after an update beyond C."""

    def __init__(self, follow: _Callable):
        super().__init__()
        self._follow = follow

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._follow()


class _Unsynced:
    """A fit whose callbacks see to the values of the network themselves."""

    def heard(self) -> _Any:
        return _contextlib.nullcontext()

    def note(self, logs: dict) -> None: ...

    def measured(self) -> list: return []

    def before(self, loop: _Any) -> None: ...

    def after(self, loop: _Any) -> None: ...


class _Counter(Callback):
    """How many batches a loop of Python has run."""

    batches = 0

    def on_test_batch_begin(self, batch: int, logs: dict | None = None) -> None: ...

    def on_test_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.batches = batch + 1


def _around(callbacks: list, begins: list, ends: list) -> tuple[_Callable, _Callable]:
    """begin(n) and end(n, logs) of batches in Python's loops, for the callbacks that override these methods."""
    first = [callback for callback in callbacks if callback._overrides(*begins)]
    last = [callback for callback in callbacks if callback._overrides(*ends)]

    def begin(n: int) -> None:
        for callback in first:
            getattr(callback, begins[0])(n, {})

    def end(n: int, logs: dict) -> None:
        for callback in last:
            getattr(callback, ends[0])(n, {name: value if isinstance(value, (_np.ndarray, list, tuple, dict)) else
                                           float(value) if _np.ndim(value) == 0 else _np.asarray(value) for name, value in logs.items()})

    return begin, end


def _logs_of(loop: _Any, measured: list) -> dict:
    """What a loop of C has measured: names that are in the list in its order, and then others."""
    names = [_text(_lib.est_loop_log_name(loop._c, i)) for i in range(_lib.est_loop_logs(loop._c))]
    places = {name: i for i, name in enumerate(measured)}
    names.sort(key=lambda name: places.get(name, len(places)))
    return {name: float(_lib.est_loop_log(loop._c, name.encode())) for name in names}


class _Events:
    """A callback in the loop of C."""

    def __init__(self, callback: Callback, fit: _Any, test: bool):
        self.callback, self.fit, self.test = callback, fit, test
        self.begun, self.ended = 0, 0  # batches; a callback may hear of only one of the two

    def _logs(self, loop: _Any) -> dict:
        return _logs_of(loop, self.fit.measured())

    def _call(self, loop: _Any, method: str, *arguments: _Any) -> None:
        self.fit.before(loop)
        with self.fit.heard():
            getattr(self.callback, method)(*arguments)
        self.fit.after(loop)

    def _with_logs(self, loop: _Any, method: str, number: int) -> None:
        logs = self._logs(loop)
        before = dict(logs)
        self.fit.note(logs)
        self._call(loop, method, number, logs)
        for name, value in logs.items():
            if name not in before or before[name] != value:
                _lib.est_loop_set_log(loop._c, name.encode(), float(value))

    def begin(self, loop: _Any) -> None: ...

    def after_create_session(self, loop: _Any) -> None:
        self.begun = self.ended = 0
        self._call(loop, "on_test_begin" if self.test else "on_train_begin", {})

    def epoch_begin(self, loop: _Any) -> None:
        self.begun = self.ended = 0
        self._call(loop, "on_epoch_begin", int(_lib.est_loop_epoch(loop._c)), {})

    def before_run(self, loop: _Any) -> None:
        self._call(loop, "on_test_batch_begin" if self.test else "on_train_batch_begin", self.begun, {})
        self.begun += 1

    def after_run(self, loop: _Any) -> None:
        self._with_logs(loop, "on_test_batch_end" if self.test else "on_train_batch_end", self.ended)
        self.ended += 1

    def epoch_end(self, loop: _Any) -> None:
        self._with_logs(loop, "on_epoch_end", int(_lib.est_loop_epoch(loop._c)))

    def end(self, loop: _Any) -> None:
        self._call(loop, "on_test_end" if self.test else "on_train_end", self._logs(loop))


class _Progress:
    """The progress of a fit, evaluate or predict on stdout, as Keras prints it: a bar (verbose=1) or a line (2)."""

    WIDTH, EVERY_NS = 30, 100_000_000

    def __init__(self, verbose: _Any, steps: int | None, measured: _Callable[[], list] = list):
        self.measured = measured  # the names of what a loop of C measures
        self.bar = verbose != 2
        self.steps = steps  # None until an epoch has ended
        self.stream = _sys.stdout
        self.begun = self.drawn = _time.monotonic()
        self.first, self.runs, self.shown = 0, 0, 0
        # a terminal and a notebook can draw a line again
        self.draws = self.bar and (self.stream.isatty() or "ipykernel" in _sys.modules)

    def hook(self, keep: _Keep, test: bool = False) -> _Any:
        wants = 1 << _AFTER_RUN if self.draws else 0
        wants |= 1 << _END if test else 1 << _EPOCH_BEGIN | 1 << _EPOCH_END
        handle = _Handle(self)
        hook = _made(_lib.py_progress_create(handle.pointer, wants, self.EVERY_NS), "est_hook_free")
        keep.extend([handle, hook])
        return hook

    def _write(self, text: str, last: bool) -> None:
        start = "\r" if self.shown else ""
        self.stream.write(start + text + " " * max(self.shown - len(text), 0) + ("\n" if last else ""))
        self.stream.flush()
        self.shown = 0 if last else len(text)

    def _line(self, done: int, logs: dict, last: bool) -> str:
        secs, steps = _time.monotonic() - self.begun, done if last else self.steps
        parts = [f"{done:{len(str(steps))}}/{steps}" if steps is not None else f"{done:7}/Unknown"]
        if self.bar and steps:
            filled = self.WIDTH * done // steps
            drawn = "=" * filled if done >= steps else "=" * max(filled - 1, 0) + ">" * (filled > 0)
            parts[0] += f" [{drawn}{'.' * (self.WIDTH - filled)}]"
        if last:
            each = secs / max(done, 1)
            unit, scale = ("s", 1) if each >= 1 else ("ms", 1e3) if each >= 1e-3 else ("us", 1e6)
            pace = f"{each * scale:.0f}{unit}/step"
            parts.append(f"{secs:.0f}s {pace}" if self.bar else f"{secs:.0f}s")
        elif steps and done:
            parts.append(f"ETA: {secs / done * (steps - done):.0f}s")
        parts += [f"{name}: {value:.4f}" if (abs(value) if self.bar else value) > 1e-3 else f"{name}: {value:.4e}"
                  for name, value in ((name, _np.mean(value)) for name, value in logs.items())]
        if last and not self.bar:
            parts += [f"{secs:.0f}s/epoch" if secs >= 1 else f"{secs * 1e3:.0f}ms/epoch", pace]
        return " - ".join(parts)

    def epoch_begin(self, loop: _Any) -> None:
        self.first = loop.runs
        self.start(_lib.est_loop_epoch(loop._c), _lib.est_loop_epochs(loop._c))

    def start(self, epoch: int, epochs: int) -> None:
        """The first line of an epoch, of which there are several."""
        self.begun = self.drawn = _time.monotonic()
        if epochs > 1:
            self._write(f"Epoch {epoch + 1}/{epochs}", True)

    def around(self, begin: _Callable, end: _Callable) -> tuple[_Callable, _Callable]:
        """begin(n) and end(n, logs) of batches in a loop of Python, which draw the bar as well."""
        def draw(n: int, logs: dict) -> None:
            end(n, logs)
            if (_time.monotonic() - self.drawn) * 1e9 >= self.EVERY_NS:
                self.drawn = _time.monotonic()
                self._write(self._line(n + 1, logs, False), False)

        return begin, draw if self.draws else end

    def after_run(self, loop: _Any) -> None:
        self._write(self._line(loop.runs - self.first, _logs_of(loop, self.measured()), False), False)

    def epoch_end(self, loop: _Any) -> None:
        self.finish(loop.runs - self.first, _logs_of(loop, self.measured()))

    def begin(self, loop: _Any) -> None: ...

    def after_create_session(self, loop: _Any) -> None: ...

    def end(self, loop: _Any) -> None:
        self.runs = loop.runs

    def finish(self, done: int, logs: dict) -> None:
        """The line of an evaluate or predict, or of an epoch in a loop of Python."""
        self._write(self._line(done, logs, True), True)
        self.steps = done


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, on_epoch_begin: _Callable | None = None, on_epoch_end: _Callable | None = None,
                 on_batch_begin: _Callable | None = None, on_batch_end: _Callable | None = None,
                 on_train_begin: _Callable | None = None, on_train_end: _Callable | None = None, **named: _Callable):
        super().__init__()
        given = {"on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_batch_begin": on_batch_begin,
                 "on_batch_end": on_batch_end, "on_train_begin": on_train_begin, "on_train_end": on_train_end, **named}
        self._given = {name for name, function in given.items() if function is not None}
        for name in self._given:
            if not hasattr(Callback, name):
                raise TypeError(f"LambdaCallback: a callback has no {name!r}")
            setattr(self, name, given[name])

    def _overrides(self, *names: str) -> bool:
        return any(name in self._given for name in names)


class History(Callback):
    """What a fit returns: the logs of its epochs by name."""

    def __init__(self):
        super().__init__()
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []


# --- callbacks of the library -----------------------------------------------------------------------------------------

_MODES = {"auto": 0, "min": 1, "max": 2}


class _Native(Callback):
    """A callback that C runs. Its methods do the same in loops of Python, of models that override train_step, and for
    subclasses of a program."""

    def __init__(self, make: _Callable[[_Keep], _Any]):
        super().__init__()
        self._make = make

    def _hook(self, fit: _Any, keep: _Keep, test: bool = False) -> _Any:
        if not type(self).__module__.startswith("estoc."):
            return super()._hook(fit, keep, test)
        hook = _made(self._make(keep), "est_hook_free")
        keep.append(hook)
        return hook


def _sign(mode: str, of_largest: bool) -> float:
    """What a value is multiplied by for less to be better."""
    if mode not in _MODES:
        raise ValueError(f"mode is \"auto\", \"min\" or \"max\", not {mode!r}")
    return -1.0 if mode == "max" or mode == "auto" and of_largest else 1.0


class _Rates(_Native):
    """One that changes the learning rate."""

    @property
    def _rate_now(self) -> float:
        return float(_np.asarray(self.model.optimizer.learning_rate))

    @_rate_now.setter
    def _rate_now(self, rate: float) -> None:
        self.model.optimizer.learning_rate = rate

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            logs["lr"] = self._rate_now


class EarlyStopping(_Native):
    """Stops when a value no longer gets better."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0,
                 mode: str = "auto", baseline: float | None = None, restore_best_weights: bool = False,
                 start_from_epoch: int = 0):
        super().__init__(lambda keep: _lib.est_early_stopping_callback(keep.string(monitor), keep.options(
            "est_early_stopping_callback_options", patience=patience, min_delta=abs(min_delta), mode=_MODES[mode],
            has_baseline=baseline is not None, baseline=baseline or 0.0, restore_best_weights=restore_best_weights,
            start_from_epoch=start_from_epoch)))
        self.monitor, self.patience, self.min_delta, self.baseline = monitor, patience, abs(min_delta), baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch
        self._sign = _sign(mode, monitor.endswith(("acc", "accuracy", "auc")))

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.wait, self.stopped_epoch, self.best_epoch, self.best_weights = 0, 0, 0, None
        self.best = self._sign * float("inf")

    def get_monitor_value(self, logs: dict) -> _Any:
        if self.monitor not in logs:
            _logger().warning("Early stopping conditioned on metric `%s` which is not available. Available metrics are: "
                              "%s", self.monitor, ",".join(logs))
        return logs.get(self.monitor)

    def _is_better(self, value: float, than: float) -> bool:
        return self._sign * value + self.min_delta < self._sign * than

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        value = self.get_monitor_value(logs or {})
        if value is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
        self.wait += 1
        if self._is_better(value, self.best):
            self.best, self.best_epoch = value, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self._is_better(value, self.baseline):
                self.wait = 0
        elif self.wait >= self.patience and epoch > 0:
            self.stopped_epoch, self.model.stop_training = epoch, True
            if self.restore_best_weights:
                self.model.set_weights(self.best_weights)


class ModelCheckpoint(Callback):
    """Saves the model after epochs, or after so many batches: its weights as a checkpoint that load_weights takes, or
    all of it as a SavedModel; or as one file, if its name ends with .keras or .h5."""

    def __init__(self, filepath: _Any, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
                 save_weights_only: bool = False, mode: str = "auto", save_freq: _Any = "epoch", options: _Any = None,
                 initial_value_threshold: float | None = None, period: int = 1):
        super().__init__()
        if options is not None:
            raise NotImplementedError("ModelCheckpoint: options do not exist yet")
        self.period = int(period)
        self.filepath = _os.fspath(filepath)
        self.monitor, self.save_best_only, self.save_weights_only = monitor, save_best_only, save_weights_only
        self.save_freq, self._batches, self._epoch = save_freq, 0, 0
        self._sign = _sign(mode, monitor.endswith(("acc", "accuracy", "auc")))
        self.best, self.verbose = initial_value_threshold, verbose

    def _overrides(self, *names: str) -> bool:
        return "on_train_batch_end" in names and self.save_freq != "epoch"

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._batches += 1
        if self._batches % max(int(self.save_freq), 1) == 0:
            self._save(self._epoch, logs or {})

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.save_freq == "epoch" and (epoch + 1) % self.period == 0:
            self._save(epoch, logs or {})

    def _save(self, epoch: int, logs: dict) -> None:
        if self.save_best_only:
            value = logs.get(self.monitor)
            if value is None:
                _logger().warning("Can save best model only with %s available, skipping.", self.monitor)
                return
            if self.best is not None and not self._sign * value < self._sign * self.best:
                if self.verbose:
                    print(f"\nEpoch {epoch + 1}: {self.monitor} did not improve from {self.best:.5f}")
                return
            before, self.best = self.best, value
        path = self.filepath.format(epoch=epoch + 1, **logs)
        if self.verbose and self.save_best_only:
            old = self._sign * float("inf") if before is None else before
            print(f"\nEpoch {epoch + 1}: {self.monitor} improved from {old:.5f} to {value:.5f}, saving model to {path}")
        elif self.verbose:
            print(f"\nEpoch {epoch + 1}: saving model to {path}")
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)


class ReduceLROnPlateau(_Rates):
    """Reduces the learning rate when a value no longer gets better."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
                 mode: str = "auto", min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0):
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0. Got {factor}")
        super().__init__(lambda keep: _lib.est_reduce_on_plateau_callback(keep.string(monitor), keep.options(
            "est_reduce_on_plateau_options", factor=_off(factor), patience=_off(patience), mode=_MODES[mode],
            min_delta=_off(min_delta), cooldown=cooldown, min_rate=min_lr)))
        self.monitor, self.factor, self.patience, self.min_delta = monitor, factor, patience, min_delta
        self.cooldown, self.min_lr, self._sign = cooldown, min_lr, _sign(mode, "acc" in monitor)

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.wait, self.cooldown_counter, self.best = 0, 0, self._sign * float("inf")

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        logs = {} if logs is None else logs
        super().on_epoch_end(epoch, logs)
        value = logs.get(self.monitor)
        if value is None:
            _logger().warning("Learning rate reduction is conditioned on metric `%s` which is not available. Available "
                              "metrics are: %s", self.monitor, ",".join(logs))
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.wait = 0
        if self._sign * value < self._sign * self.best - self.min_delta:
            self.best, self.wait = value, 0
        elif self.cooldown_counter <= 0:
            self.wait += 1
            if self.wait >= self.patience and self._rate_now > _np.float32(self.min_lr):
                self._rate_now = max(self._rate_now * self.factor, self.min_lr)
                self.cooldown_counter, self.wait = self.cooldown, 0


class LearningRateScheduler(_Rates):
    """Sets the learning rate at the beginning of every epoch."""

    def __init__(self, schedule: _Callable, verbose: int = 0):
        def make(keep: _Keep) -> _Any:
            handle = _Handle(self)
            keep.append(handle)
            return _lib.est_learning_rate_callback(_lib.py_on_learning_rate, handle.pointer)

        super().__init__(make)
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._rate_now = self._rate(epoch, self._rate_now)


    def _rate(self, epoch: int, rate: float) -> float:
        try:
            new = float(self.schedule(epoch, rate))
        except TypeError:
            new = float(self.schedule(epoch))
        if self.verbose:
            print(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {new}.")
        return new


@_ffi.def_extern(name="py_on_learning_rate", error=float("nan"))
def _on_learning_rate(epoch: int, rate: float, user: _Any) -> float:
    try:
        return _Handle.get(user)._rate(int(epoch), float(rate))
    except BaseException as exception:
        _Handle.get(user)._raised = exception  # fit raises it
        return float("nan")


class CSVLogger(Callback):
    """Writes the logs of every epoch as a line of a file; without a validation its columns have NA."""

    def __init__(self, filename: _Any, separator: str = ",", append: bool = False):
        super().__init__()
        self.filename, self.append, self.sep = _os.fspath(filename), append, separator

    def on_train_begin(self, logs: dict | None = None) -> None:
        has_head = self.append and _os.path.exists(self.filename) and _os.path.getsize(self.filename) > 0
        self._file = open(self.filename, "a" if self.append else "w", encoding="utf-8")
        self._keys: list | None = None
        self._has_head = has_head

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self._keys is None:
            self._keys = sorted(logs or {})
            if not any(key.startswith("val_") for key in self._keys):
                self._keys += ["val_" + key for key in self._keys]
            if not self._has_head:
                print("epoch", *self._keys, sep=self.sep, file=self._file)
        print(epoch, *((logs or {}).get(key, "NA") for key in self._keys), sep=self.sep, file=self._file, flush=True)

    def on_train_end(self, logs: dict | None = None) -> None:
        self._file.close()


class TensorBoard(_Native):
    """Writes the logs of every epoch for TensorBoard."""

    def __init__(self, log_dir: _Any = "logs", histogram_freq: int = 0, write_graph: bool = True,
                 write_images: bool = False, write_steps_per_second: bool = False, update_freq: _Any = "epoch",
                 profile_batch: _Any = 0, embeddings_freq: int = 0, embeddings_metadata: _Any = None):
        if write_images or embeddings_freq or write_steps_per_second:
            raise NotImplementedError("TensorBoard: logs of epochs and batches, and histograms of weights, are written, "
                                      "and nothing else yet")
        if profile_batch:
            _warnings.warn("TensorBoard: profile_batch: no profile is written; tf.compat.v1.train.ProfilerHook writes "
                           "timelines of an Estimator")
        super().__init__(lambda keep: _lib.est_tensorboard_callback(keep.string(log_dir)))
        self.log_dir, self.histogram_freq = _os.fspath(log_dir), int(histogram_freq)
        self.update_freq = 0 if update_freq == "epoch" else 1 if update_freq == "batch" else int(update_freq)
        self._writers: dict = {}

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        from ...summary import SummaryWriter
        for name, value in (logs or {}).items():
            of_test = name.startswith("val_")
            folder = "validation" if of_test else "train"
            if folder not in self._writers:
                self._writers[folder] = SummaryWriter(_os.path.join(self.log_dir, folder), ".v2")
            self._writers[folder].write([("scalar", f"epoch_{name[4:] if of_test else name}", _np.float32(value))], epoch)
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: dict | None = None) -> None:
        while self._writers:
            self._writers.popitem()[1].close()

    def _more(self) -> list:
        return [_Weights(self)] if self.histogram_freq or self.update_freq else []


class _Weights(Callback):
    """What TensorBoard writes beside the logs of epochs: histograms of weights, and the logs of batches."""

    def __init__(self, of: TensorBoard):
        super().__init__()
        self._of, self._writer, self._steps = of, None, 0

    def _overrides(self, *names: str) -> bool:
        return "on_train_batch_end" in names and self._of.update_freq > 0

    def on_train_begin(self, logs: dict | None = None) -> None:
        from ...summary import SummaryWriter
        self._writer = SummaryWriter(_os.path.join(self._of.log_dir, "train"), ".v2")

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._steps += 1
        if self._steps % self._of.update_freq == 0:
            self._writer.write([("scalar", f"batch_{name}", _np.float32(value)) for name, value in (logs or {}).items()],
                               self._steps)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        freq = self._of.histogram_freq
        if freq and epoch % freq == 0:
            for layer in self.model.layers:
                for weight in layer.weights:
                    self._writer.write([("histogram", weight.name.replace(":", "_"), _np.asarray(weight.numpy()))],
                                       epoch)
        self._writer.flush()

    def on_train_end(self, logs: dict | None = None) -> None:
        self._writer.close()


class TerminateOnNaN(_Native):
    """Stops when the loss of a batch is NaN or infinite."""

    def __init__(self):
        super().__init__(lambda keep: _lib.est_terminate_on_nan_callback())

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if not _np.isfinite((logs or {}).get("loss", 0.0)):
            _logger().warning("Batch %d: Invalid loss, terminating training", batch)
            self.model.stop_training = True


class BackupAndRestore(_Native):
    """Saves what a fit needs to go on after it was killed, after epochs or after so many batches. Where several tasks
    train, they go on from the checkpoints of the network, which are in this directory."""

    def __init__(self, backup_dir: _Any, save_freq: str | int = "epoch", delete_checkpoint: bool = True,
                 save_before_preemption: bool = False):
        if save_before_preemption:
            raise NotImplementedError("BackupAndRestore: save_before_preemption does not exist; give a save_freq")
        if not save_freq:
            raise ValueError("Either `save_freq` or `save_before_preemption` must be set.")
        steps = 0 if save_freq == "epoch" else int(save_freq)
        self.backup_dir, self.delete_checkpoint = _os.fspath(backup_dir), delete_checkpoint
        super().__init__(lambda keep: _lib.est_backup_callback(keep.string(self.backup_dir), keep.options(
            "est_backup_options", keep=not delete_checkpoint, save_freq=steps)))

    @staticmethod
    def _among(callbacks: _Any) -> "BackupAndRestore | None":
        given = _structure.flatten(callbacks) if callbacks is not None else []
        return next((callback for callback in given if isinstance(callback, BackupAndRestore)), None)


__getattr__ = _module_getattr(__name__)
