# SPDX-License-Identifier: Apache-2.0
"""fit, evaluate and predict of models: a network of C runs them, or the loops of Python."""
from __future__ import annotations

import contextlib
import functools
import shutil
import threading
import warnings
from typing import Any, Callable, Sequence

import numpy as np

from ... import data as _data
from ..._lib import NULL, Keep, check, check_signals, ffi, lib, off, owned, text
from ..._tensor import take_tensor, to_array
from .. import _structure
from .._eager import unwrap
from . import callbacks as _callbacks
from . import metrics as _metrics
from . import optimizers as _optimizers
from ._batches import batches_of, is_generator, known_steps, split_rows, weights_of_classes
from ._calling import floats
from ._network import metrics_of, rows_of
from ._steps import call_params


def _in_order(names: list, first: list[str]) -> list:
    """Names of C in the order of a list of names; those that are not in it come last."""
    places = {name: i for i, name in enumerate(first)}
    return sorted(names, key=lambda name: places.get(text(name), len(first)))


def _measured(model: Any) -> list[str]:
    return [prefix + name for prefix in ("", "val_") for name in model.metrics_names]


class _Fit:
    """A fit under way, for callbacks: what they may change of the model is taken over after each of them."""

    def __init__(self, model: Any, trains: bool = True):
        self.model, self.trains = model, trains
        self.rate = float("nan")

    def note(self, logs: dict) -> None:
        """Before a callback is given what was measured."""
        self.model._note_logs(logs)

    def measured(self) -> list[str]:
        """The names of logs, in the order of Keras."""
        return _measured(self.model)

    def heard(self) -> Any:
        """Around the method of a callback."""
        return _without_use(self.model)

    def before(self, loop: Any) -> None:
        network, model = self.model._network, self.model
        if model._world_now().is_remote:
            return
        model._world_now().trained.add(network)
        self.rate = float(lib.est_network_learning_rate(network._c))
        model._take_rate(self.rate)

    def after(self, loop: Any) -> None:
        network, model = self.model._network, self.model
        if not model._world_now().is_remote:
            network.take()
            model._world_now().trained.add(network)
            model._give_rate(self.rate)
        if self.trains and model.stop_training:
            lib.est_loop_request_stop(loop._c, b"a callback has set stop_training")


class _Validation(_Fit):
    """The validation within a fit: a callback that wants to stop is heard after the epoch."""

    def before(self, loop: Any) -> None: ...

    def after(self, loop: Any) -> None:
        if not self.model._world_now().is_remote:
            self.model._network.take()
            self.model._world_now().trained.add(self.model._network)


def _steps_of(x: Any, rows: Any, batch_size: int | None, steps: int | None, kept: float = 0.0) -> int | None:
    """The steps of a pass over arrays or a dataset, of which only so many are made if a number is given."""
    return steps or (known_steps(x) if isinstance(x, _data.Dataset) else rows.steps(batch_size, kept))


def _need_steps(*given: int | None) -> None:
    """Numbers of steps, of which None is all there are."""
    for steps in given:
        if steps is not None and steps == 0:
            raise ValueError(f"Unexpected value for `steps_per_epoch`. Received value is {steps}. Please check the docstring for "
                             "`model.fit()` for supported values.")


def _only_hints(function: str, named: dict) -> None:
    """Arguments of the threads of Keras, which change nothing here."""
    for key in named.keys() - {"max_queue_size", "workers", "use_multiprocessing"}:
        raise TypeError(f"Model.{function}() got an unexpected keyword argument '{key}'")


def _by_one_thread(method: Callable) -> Callable:
    """A method of a model that waits while another thread uses the network. Functions of a dataset must not: that thread
    may wait for what they give."""
    @functools.wraps(method)
    def call(self: "Training", *args: Any, **named: Any) -> Any:
        use = self._use_lock()
        if not use.acquire(blocking=not isinstance(threading.current_thread(), threading._DummyThread)):
            raise RuntimeError(f"{self.name}.{method.__name__} in a thread of a dataset or of a function, while another thread "
                               "uses the model, which may wait for the result: predict before, or call the model, as in "
                               "model(x), which does not wait")
        try:
            return method(self, *args, **named)
        finally:
            if use._is_owned():  # a Ctrl-C may come while it is free
                use.release()

    return call


@contextlib.contextmanager
def _without_use(model: "Training") -> Any:
    """While code of the program runs in a callback: other threads may use the model, which it may wait for."""
    use = model._use_lock()
    if not use._is_owned():
        yield
        return
    state = use._release_save()
    try:
        yield
    finally:
        use._acquire_restore(state)


class Training:
    """The calls of a model that train, evaluate and predict."""

    @_by_one_thread
    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1,
            verbose: Any = "auto", callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None,
            shuffle: bool = True, class_weight: dict | None = None, sample_weight: Any = None, initial_epoch: int = 0,
            steps_per_epoch: int | None = None, validation_steps: int | None = None,
            validation_batch_size: int | None = None, validation_freq: int = 1, max_queue_size: int = 10,
            workers: int = 1, use_multiprocessing: bool = False) -> _callbacks.History:
        """Trains; the loop is C's unless train_step is overridden."""
        self.__dict__["stop_training"] = False
        steps_per_epoch, validation_steps = (None if steps is None else int(steps)
                                             for steps in (steps_per_epoch, validation_steps))
        _need_steps(steps_per_epoch, validation_steps)
        if is_generator(x) and steps_per_epoch is None and epochs > initial_epoch + 1:
            warnings.warn(f"fit: a generator has one pass, so that one epoch of {epochs - initial_epoch} is made; set "
                          "steps_per_epoch, or give a keras.utils.Sequence or a dataset")
            epochs = initial_epoch + 1
        x, validation_data = batches_of(self, x, shuffle, steps_per_epoch), batches_of(self, validation_data)
        steps = steps_per_epoch
        if steps is not None and steps == getattr(x, "_count", None) and not self._world_now().is_shared:
            steps = None  # each epoch is a pass, as in Keras
        if getattr(x, "_shard_policy", int)() < 0:
            warnings.warn("fit shards its dataset over the workers of a MultiWorkerMirroredStrategy also with "
                          "AutoShardPolicy.OFF, which holds for strategy.experimental_distribute_dataset")
        if self._is_traced("train_step") or self._varies(x, y, sample_weight):
            if class_weight is not None:
                sample_weight = weights_of_classes(class_weight, y, sample_weight)
            if validation_data is None and validation_split:
                (x, y, sample_weight), validation_data = split_rows((x, y, sample_weight), validation_split)
            held = None if validation_data is None else self._held_out(validation_data, validation_batch_size or batch_size)
            with _without_use(self):  # the network has no part in it
                return self._fit_traced(self._batches(x, y, batch_size, sample_weight, shuffle), epochs, callbacks, held,
                                        initial_epoch, steps, validation_steps, validation_freq, verbose)
        if self._compiled is not None and self._compiled.run_eagerly:
            warnings.warn("run_eagerly holds for a train_step that is overridden; the others run in C")
        keep = Keep()
        self._need_compiled()
        rows = rows_of(self, x, y, sample_weight)
        backup = _callbacks.BackupAndRestore._among(callbacks)
        directory = self._go_on_from(backup)
        network = self._ready(rows, model_dir=directory)
        if self._world_now().is_remote and not network.has_cluster:
            raise RuntimeError("a ClusterCoordinator has this cluster, whose steps it schedules: fit a model before one is "
                               "made. evaluate and predict work, in this process")
        self._bring_optimizer(rows)
        members = rows.options(keep)
        if validation_data is not None:
            members.update(self._validation(validation_data).options(keep, "validation", "validation_arrays"))
        if class_weight is not None:
            if sorted(class_weight) != list(range(len(class_weight))):
                raise ValueError("Expected `class_weight` to be a dict with keys from 0 to one less than the number of "
                                 f"classes, found {class_weight}")
            members["class_weight"] = keep.f64s([class_weight[i] for i in range(len(class_weight))])
        fit, history = _Fit(self), _callbacks.History()
        if members.keys() & {"validation", "validation_arrays"} or validation_split:
            if self._world_now().is_shared:
                _callbacks._warn_of_tests(callbacks)
            else:
                testers = [one for one in _structure.flatten(callbacks or []) if isinstance(one, _callbacks.Callback)
                           and one._overrides(*_callbacks._OF_TESTS)]
                members["validation_callbacks"] = keep.span("est_hooks", "est_hook *", [
                    one._hook(_Validation(self), keep, True) for one in testers])
        progress = [] if verbose == 0 else [_callbacks._Progress(
            verbose, steps_per_epoch or rows.steps(batch_size, validation_split), fit.measured).hook(keep)]
        follow, keep_averages = network.follow_up() or (None, None)
        first = [] if follow is None else [_callbacks._FollowUp(follow)._hook(_callbacks._Unsynced(), keep)]
        params = call_params(epochs, _steps_of(x, rows, batch_size, steps_per_epoch, validation_split), verbose)
        history.set_params(params)
        hooks = self._hooks(callbacks, fit, keep, params, more=progress, first=first)
        if not isinstance(self._trainer._rate, _optimizers.schedules.LearningRateSchedule):
            self._give_rate(float(lib.est_network_learning_rate(network._c)))
        out = ffi.new("est_history **")
        world = self._world_now()
        world.leave()
        world.trained.add(network)
        status = lib.est_network_fit(network._c, keep.options(
            "est_fit_options", batch_size=batch_size or 0, epochs=off(max(epochs, 0)), initial_epoch=initial_epoch,
            steps_per_epoch=steps or 0, validation_split=validation_split,
            validation_steps=validation_steps or 0, validation_batch_size=validation_batch_size or 0,
            validation_freq=validation_freq, no_shuffle=not shuffle,
            callbacks=hooks, verbose=lib.EST_VERBOSE_NONE, **members), out)
        if out[0] != NULL:
            pointer = owned(out[0], "est_history_free")
            n = lib.est_history_epochs(pointer)
            history.epoch = [int(lib.est_history_epoch(pointer, i)) for i in range(n)]
            measured = _measured(self)
            names = [lib.est_history_name(pointer, k) for k in range(lib.est_history_count(pointer))]
            for name in _in_order(names, measured):
                freq = validation_freq if text(name).startswith("val_") else 1
                # a NaN that was measured stays; that of a log of a callback says that there was none
                history.history[text(name)] = [value for epoch, value in zip(
                    history.epoch, (float(lib.est_history_value(pointer, name, i)) for i in range(n)))
                    if (epoch + 1) % freq == 0 and (value == value or text(name) in measured)]
        for callback in callbacks or ():
            if getattr(callback, "_raised", None) is not None:
                raised, callback._raised = callback._raised, None
                raise raised
        check_signals(status)
        self._take_rate(float(lib.est_network_learning_rate(network._c)))
        world.trained.add(network)
        if follow is not None:
            keep_averages()
            self._trainer.finalize_variable_values(self._trained_variables())
        history.set_model(self)
        self.__dict__["history"] = history
        self._note_history(history, validation_freq)
        if directory is not None and backup.delete_checkpoint:
            self._forget_backup(directory)
        return history

    def _forget_backup(self, directory: str) -> None:
        """Of a fit that has come to its end; a later one of workers saves elsewhere."""
        shutil.rmtree(directory, ignore_errors=True)  # another worker may have done it
        if not self._world_now().is_remote:
            self._drop_network()

    def _validation(self, given: Any) -> Any:
        if isinstance(given, _data.Dataset):
            return rows_of(self, given)
        return rows_of(self, *given)

    def _told(self, callbacks: Any, params: dict) -> list:
        """The callbacks of a call, which know of it."""
        given = _structure.flatten(callbacks) if callbacks is not None else []
        for callback in given:
            if not isinstance(callback, _callbacks.Callback):
                raise TypeError(f"a callback is a tf.keras.callbacks.Callback, not {callback!r}")
        told = [part for callback in given for part in [callback] + callback._more()]
        for callback in told:
            callback.set_params(params)
            callback.set_model(self)
        return told

    def _hooks(self, callbacks: Any, fit: Any, keep: Keep, params: dict, test: bool = False,
               more: Sequence = (), first: Sequence = ()) -> Any:
        hooks = list(first)
        for callback in self._told(callbacks, params):
            if isinstance(callback, _callbacks.History):
                continue
            if test and isinstance(callback, _callbacks._Native):
                continue
            if isinstance(callback, _callbacks.BackupAndRestore) and self._world_now().is_shared:
                continue
            hooks.append(callback._hook(fit, keep, test))
        return keep.span("est_hooks", "est_hook *", hooks + list(more))

    # --- evaluation and prediction ---

    @_by_one_thread
    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = "auto",
                 sample_weight: Any = None, steps: int | None = None, callbacks: Any = None,
                 return_dict: bool = False, **named: Any) -> Any:
        """The loss, or a list of the loss and the metrics."""
        _only_hints("evaluate", named)
        _need_steps(steps)
        x = batches_of(self, x)
        if self._is_traced("test_step") or self._varies(x, y, sample_weight):
            with _without_use(self):
                return self._evaluate_traced(x, y, batch_size, sample_weight, steps, callbacks, verbose, return_dict)
        keep = Keep()
        rows = rows_of(self, x, y, sample_weight)
        network = self._ready(rows)
        out = ffi.new("est_metrics **")
        progress = None if verbose == 0 else _callbacks._Progress(verbose, steps or rows.steps(batch_size),
                                                                           lambda: _measured(self))
        more = [] if progress is None else [progress.hook(keep, test=True)]
        params = call_params(1, _steps_of(x, rows, batch_size, steps), verbose)
        check_signals(lib.est_network_evaluate(network._c, keep.options(
            "est_network_evaluate_options", batch_size=batch_size or 0, steps=steps or 0, verbose=lib.EST_VERBOSE_NONE,
            callbacks=self._hooks(callbacks, _Fit(self, False), keep, params, test=True, more=more), **rows.options(keep)), out))
        found = metrics_of(owned(out[0], "est_metrics_free"))
        if progress is not None:
            progress.finish(progress.runs or steps or rows.steps(batch_size) or 0, found)
        found = {name: found[name] for name in self.metrics_names if name in found}
        self._note_measured(found)
        if return_dict:
            return found
        values = list(found.values())
        return values[0] if len(values) == 1 else values

    @_by_one_thread
    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", steps: int | None = None,
                callbacks: Any = None, **named: Any) -> np.ndarray:
        """The outputs for all rows."""
        _only_hints("predict", named)
        _need_steps(steps)
        x = batches_of(self, x)
        params = call_params(1, None, verbose)
        told = [one for one in self._told(callbacks, params) if one._overrides(*_callbacks._OF_PREDICTIONS)]
        self._has_own_step("test_step")  # what nothing calls is refused
        by_call = self.stateful or self._varies(x)
        if told or by_call or self._predicts_in_python():
            batches = self._batches(x, None, batch_size, None, False)
            params["steps"] = steps or known_steps(batches)
            with _without_use(self):  # but for each batch
                return self._predict_told(x, batches, steps, told, by_call, verbose)
        keep = Keep()
        rows = rows_of(self, x)
        network = self._ready(rows, compiled=False)
        n = len(network.outputs)
        out = ffi.new("est_tensor *[]", n)
        function = lib.est_network_predict if n == 1 else lib.est_network_predict_outputs
        progress = None if verbose == 0 else _callbacks._Progress(verbose, None)
        check_signals(function(network._c, keep.options(
            "est_network_predict_options", batch_size=batch_size or 0, steps=steps or 0, **rows.options(keep)), out))
        done = steps or rows.steps(batch_size)
        if progress is not None and done is not None:
            progress.finish(done, {})
        return self._pack_outputs([to_array(take_tensor(out[i]), copy=True) for i in range(n)])

    @_by_one_thread
    def predict_on_batch(self, x: Any) -> Any:
        if self._predicts_in_python():
            return self._step_on(_structure.map_structure(lambda leaf: floats(unwrap(leaf)), x))
        if self.stateful:
            return self._called_on(x)
        keep, out = Keep(), ffi.new("est_tensor **")
        rows = rows_of(self, x)
        network = self._ready(rows, compiled=False)
        if len(network.outputs) > 1:
            return self.predict(x, batch_size=max(len(rows.arrays[0][1]), 1), verbose=0)
        check(lib.est_network_predict_on_batch(network._c, rows.named(keep), out))
        return self._pack_outputs([to_array(take_tensor(out[0]), copy=True)])

    def _note_history(self, history: Any, validation_freq: int) -> None:
        """After a fit the metrics have what its last epoch has measured."""
        if history.epoch:
            held_out = (history.epoch[-1] + 1) % validation_freq == 0
            self._note_logs({name: values[-1] for name, values in history.history.items()
                             if values and (held_out or not name.startswith("val_"))})

    def _note_logs(self, logs: dict) -> None:
        """The metrics have what was measured last: that of the validation, where logs have it."""
        names = self.metrics_names
        prefix = "val_" if f"val_{names[0]}" in logs else ""
        self._note_measured({name: logs[prefix + name] for name in names if prefix + name in logs})

    def _note_measured(self, values: dict[str, float]) -> None:
        """The metrics of compile give what the network has measured."""
        metrics = self._compiled.metric_objects()
        several = len(self._network.outputs) > 1
        for metric, name in zip(metrics, [metric.name for metric in metrics] if several else self.metrics_names):
            if name in values:
                metric.__dict__["_measured"] = values[name]

    def _need_states(self) -> None:
        """Before metrics go on, in a step of Python."""
        if len(self._outputs_of_network()) > 1 or self._metric_names():
            raise NotImplementedError("reset_metrics=False: models of several outputs, and values of add_metric, are measured "
                                      "batch by batch; update metrics of your own")
        if any(metric._measured is not None for metric in self.metrics if isinstance(metric, _metrics._Native)):
            raise NotImplementedError("reset_metrics=False goes on from batches with reset_metrics=False: call reset_metrics() "
                                      "before the first of them")

    def _on_batch(self, function: str, x: Any, y: Any, sample_weight: Any, return_dict: bool, reset: bool) -> Any:
        step = "train_step" if function == "est_network_train_on_batch" else "test_step"
        if self._has_own_step(step) or not reset:
            self._need_compiled()
            if reset:
                self.reset_metrics()
            else:
                self._need_states()
            rows = len(np.asarray(_structure.flatten(x)[0]))
            found, _ = self._pass(step, iter(self._batches(x, y, rows, sample_weight, False)), 1)
            return found if return_dict else next(iter(found.values())) if len(found) == 1 else list(found.values())
        keep = Keep()
        rows = rows_of(self, x, y, sample_weight)
        network = self._ready(rows)
        if function == "est_network_train_on_batch":
            self._bring_optimizer(rows)
        n = lib.est_network_metrics(network._c)
        values = ffi.new("double[]", n)
        check(getattr(lib, function)(network._c, rows.named(keep), values))
        found = dict(zip(self.metrics_names, self._compiled.ordered(list(values))))
        if step == "train_step":
            self._world_now().trained.add(network)
            for follow in network.follow_up() or ():
                follow()
        self._note_measured(found)
        return found if return_dict else next(iter(found.values())) if n == 1 else list(found.values())

    @_by_one_thread
    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None,
                       reset_metrics: bool = True, return_dict: bool = False) -> Any:
        if class_weight is not None:
            sample_weight = weights_of_classes(class_weight, y, sample_weight)
        return self._on_batch("est_network_train_on_batch", x, y, sample_weight, return_dict, reset_metrics)

    @_by_one_thread
    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, reset_metrics: bool = True,
                      return_dict: bool = False) -> Any:
        return self._on_batch("est_network_test_on_batch", x, y, sample_weight, return_dict, reset_metrics)
