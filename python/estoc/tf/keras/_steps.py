# SPDX-License-Identifier: Apache-2.0
"""Steps that are written in Python, and the loops over them: a program overrides a step, or a model has what networks of
C do not know."""
from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ... import data as _data
from ...graph import NeedsSteps
from .. import _structure
from .._eager import unwrap
from .._function import Function
from .._tape import GradientTape
from . import callbacks as _callbacks
from . import optimizers as _optimizers
from ._attributes import assigns
from ._batches import known_steps, unpack
from ._network import columns, rows_of
from ._recorded import overridden


def call_params(epochs: int, steps: int | None, verbose: Any) -> dict:
    """What callbacks know of a call."""
    return {"verbose": 1 if verbose == "auto" else verbose, "epochs": epochs, "steps": steps}


def _nothing(*arguments: Any) -> None:
    """Around batches that no callback hears of."""


class Steps:
    """What a step of a model is, and the loops of Python."""

    # --- which steps are Python's ---

    def _is_traced(self, what: str) -> bool:
        """Whether Python's loop runs the steps: a step is overridden, or compile was given what networks of C do not
        know."""
        return self._has_own_step(what) or self.stateful

    def _has_own_step(self, what: str) -> bool:
        """Whether the program has written a part of a step."""
        for name in ("make_train_function", "make_test_function", "make_predict_function"):
            if overridden(type(self), name):
                raise NotImplementedError(f"{type(self).__name__} overrides {name}, which nothing calls here: override "
                                          "train_step, test_step or predict_step, or write the loop")
        if getattr(type(self), what) is not getattr(Steps, what) or overridden(type(self), "compute_loss", "compute_metrics"):
            return True
        if what == "train_step" and overridden(type(self._trainer), *_optimizers._METHODS):
            return True
        return self._is_compiled_for_python() or self._assigns()

    def _varies(self, x: Any, y: Any = None, sample_weight: Any = None) -> bool:
        """Whether the number of steps of a loop over time is known of each batch only: Python's loop traces a step for
        each number of them then."""
        if self._world_now().is_remote or self._world_now().is_shared or not self._loops():
            return False
        try:
            self._ready(rows_of(self, x, y, sample_weight), compiled=False)
        except NeedsSteps:
            return True
        return False

    def _loops(self) -> bool:
        """Whether a layer has a loop over time."""
        return any(layer._loops_over_time for layer in self._flat_layers())

    def _assigns(self) -> bool:
        """Whether a call assigns to variables."""
        return assigns([self] + self._flat_layers())

    def _predicts_in_python(self) -> bool:
        return overridden(type(self), "predict_step") is not None or self._assigns()

    def _is_compiled_for_python(self) -> bool:
        return self._compiled is not None and self._compiled.is_for_python()

    @property
    def stateful(self) -> bool:
        """Whether a layer keeps its states from batch to batch."""
        return any(layer.__dict__.get("stateful") for layer in self._flat_layers())

    def reset_states(self) -> None:
        """Sets the states of all stateful layers to zeros."""
        for layer in self._flat_layers():
            if layer.__dict__.get("stateful"):
                layer.reset_states()

    # --- the steps ---

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
        """The loss of a step, which the metric "loss" counts, too."""
        return self.compiled_loss(y, y_pred, sample_weight, self.losses)

    @property
    def compiled_loss(self) -> Any:
        given = self.__dict__.get("_given_loss")
        if given is not None:
            return given

        def call(y_true: Any, y_pred: Any, sample_weight: Any = None, regularization_losses: Any = None) -> Any:
            total = self._compiled.loss_of(self, y_true, y_pred, sample_weight)
            for term in regularization_losses or ():
                total = term if total is None else total + term
            if total is not None:
                self._compiled.count_loss(total, y_pred)
            return total

        return call

    @compiled_loss.setter
    def compiled_loss(self, value: Any) -> None:
        """Another loss for steps that are written in Python."""
        self.__dict__["_given_loss"] = value

    @property
    def compiled_metrics(self) -> Any:
        return self._compiled

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> dict:
        self._compiled.update_state(y, y_pred, sample_weight)
        return {metric.name: metric.result() for metric in self.metrics}

    def train_step(self, data: Any) -> dict:
        """One step; fit calls it only where a subclass overrides it."""
        x, y, sample_weight = unpack(data)
        with GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self._counted_loss(x, y, y_pred, sample_weight)
        trained = self._trained_variables()
        if trained:
            self._trainer.minimize(loss, trained, tape=tape)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def test_step(self, data: Any) -> dict:
        x, y, sample_weight = unpack(data)
        y_pred = self(x, training=False)
        self._counted_loss(x, y, y_pred, sample_weight)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _counted_loss(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        """compute_loss, and the metric "loss" counts what it returns if a subclass has written one that does not."""
        compiled = self._compiled
        compiled.counted = False
        loss = self.compute_loss(x, y, y_pred, sample_weight)
        if not compiled.counted:
            compiled.count_loss(loss, y_pred)
        return loss

    def predict_step(self, data: Any) -> Any:
        """One step of predict, which calls it only where a subclass overrides it."""
        return self(unpack(data)[0], training=False)

    # --- loops ---

    def _batches(self, x: Any, y: Any, batch_size: int | None, sample_weight: Any, shuffle: bool) -> Any:
        from ..data import Dataset
        if isinstance(x, _data.Dataset):
            return x
        x, sample_weight = (tuple(part) if isinstance(part, list) and part and hasattr(part[0], "shape") else part
                            for part in (x, sample_weight))  # those of several inputs or outputs
        y = (y[0] if len(y) == 1 else tuple(y)) if isinstance(y, list) and y and hasattr(y[0], "shape") else y
        parts = tuple(columns(part) for part in (x, y, sample_weight) if part is not None)
        rows = Dataset.from_tensor_slices(_structure.map_structure(np.asarray, parts if len(parts) > 1 else parts[0]))
        count = len(np.asarray(_structure.flatten(x)[0]))
        return (rows.shuffle(count) if shuffle else rows).batch(batch_size or 32)

    def _step(self, what: str) -> Function:
        if what not in self._steps:
            method = getattr(self, what)
            self._steps[what] = Function(lambda iterator: method(next(iterator)))
        return self._steps[what]

    def _pass(self, what: str, iterator: Any, steps: int | None, begin: Any = _nothing,
              end: Any = _nothing) -> tuple[dict, int]:
        """Runs a step on every batch, up to so many; begin(n) and end(n, logs) are called around each. Gives the last
        logs and how many steps were made."""
        logs: dict = {}
        n = 0
        from ...errors import OutOfRangeError
        while steps is None or n < steps:
            begin(n)
            try:
                logs = self._run_step(what, iterator)
            except (OutOfRangeError, StopIteration):
                break
            end(n, logs)
            n += 1
            if what == "train_step" and self.stop_training:
                break
        return {name: float(value) if np.ndim(value) == 0 else np.asarray(value)
                for name, value in (logs or {}).items()}, n

    def _run_step(self, what: str, iterator: Any) -> dict:
        if self._compiled is not None and self._compiled.run_eagerly:
            return getattr(self, what)(next(iterator))
        by_shape, world = f"{what}, by shape", self._world_now()
        if by_shape not in self._steps:
            try:
                concrete, leaves = self._step(what).concrete((iterator,), {}, world)
                return concrete.run(leaves)
            except NeedsSteps:
                self._steps[by_shape] = Function(getattr(self, what))
        concrete, leaves = self._steps[by_shape].concrete((self._given_batch(next(iterator)),), {}, world)
        return concrete.run(leaves)

    def _held_out(self, validation_data: Any, batch_size: int | None) -> Any:
        held, labels, weights = (validation_data, None, None) if isinstance(validation_data, _data.Dataset) else \
            unpack(tuple(validation_data))
        return self._batches(held, labels, batch_size, weights, False)

    def _fit_traced(self, batches: Any, epochs: int, callbacks: Any, held: Any, initial_epoch: int, steps: int | None,
                    validation_steps: int | None, validation_freq: int, verbose: Any) -> _callbacks.History:
        self._need_compiled()
        if _callbacks.BackupAndRestore._among(callbacks) is not None:
            raise NotImplementedError("BackupAndRestore runs in C's loop, and this model overrides train_step, or has a "
                                      "metric that is written in Python or a loss that is no mean; a ModelCheckpoint keeps its weights")
        params = call_params(epochs, steps or known_steps(batches), verbose)
        given = self._told(callbacks, params)
        around = _callbacks._around(given, ["on_train_batch_begin", "on_batch_begin"],
                                    ["on_train_batch_end", "on_batch_end"])
        progress = None if verbose == 0 else _callbacks._Progress(verbose, params["steps"])
        around = around if progress is None else progress.around(*around)
        history, logs = _callbacks.History(), {}
        history.set_params(params)
        history.set_model(self)
        for callback in given:
            callback.on_train_begin({})
        iterator, known = None, known_steps(batches)
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            for callback in given:
                callback.on_epoch_begin(epoch, {})
            if progress is not None:
                progress.start(epoch, epochs)
            if iterator is None or steps is None:
                iterator = iter(batches)
            found, done = self._pass("train_step", iterator, steps or known, *around)
            if steps is None and done == known:
                next(iterator, None)  # to the end, where on_epoch_end of a Sequence is called
            ended = steps is not None and done < steps and not self.stop_training
            if ended:
                logging.getLogger("tensorflow").warning(
                    "the input ended after %d of %d steps of epoch %d: training ends; repeat the dataset, or leave out "
                    "steps_per_epoch", done, steps, epoch + 1)
                if done == 0:
                    break
            logs = found
            if held is not None and (epoch + 1) % validation_freq == 0:
                logs.update({f"val_{name}": value for name, value in self._test(held, validation_steps, given).items()})
            for callback in given:
                callback.on_epoch_end(epoch, logs)
            history.epoch.append(epoch)
            for name, value in logs.items():
                history.history.setdefault(name, []).append(value)
            if progress is not None:
                progress.finish(done, logs)
            if self.stop_training or ended:
                break
        for callback in given:
            callback.on_train_end(logs)
        self.__dict__["history"] = history
        return history

    def _test(self, batches: Any, steps: int | None, callbacks: list) -> dict:
        """A pass of test_step with the callbacks around it."""
        self.reset_metrics()
        for callback in callbacks:
            callback.on_test_begin({})
        found, _ = self._pass("test_step", iter(batches), known_steps(batches) if steps is None else steps,
                              *_callbacks._around(callbacks, ["on_test_batch_begin"], ["on_test_batch_end"]))
        for callback in callbacks:
            callback.on_test_end(found)
        return found

    def _evaluate_traced(self, x: Any, y: Any, batch_size: Any, sample_weight: Any, steps: int | None,
                         callbacks: Any, verbose: Any, return_dict: bool) -> Any:
        counter = _callbacks._Counter()
        progress = None if verbose == 0 else _callbacks._Progress(verbose, steps)
        batches = self._batches(x, y, batch_size, sample_weight, False)
        told = self._told(callbacks, call_params(1, steps or known_steps(batches), verbose))
        found = self._test(batches, steps, told + [counter])
        if progress is not None:
            progress.finish(counter.batches, found)
        return found if return_dict else next(iter(found.values())) if len(found) == 1 else list(found.values())

    def reset_metrics(self) -> None:
        for metric in self.metrics:
            metric.reset_state()

    def _predict_told(self, x: Any, batches: Any, steps: int | None, callbacks: list, by_call: bool,
                      verbose: Any) -> Any:
        """predict, batch by batch, with calls of callbacks around each; by_call: as the program calls the model."""
        for callback in callbacks:
            callback.on_predict_begin({})
        begin, end = _callbacks._around(callbacks, ["on_predict_batch_begin"], ["on_predict_batch_end"])
        progress = None if verbose == 0 else _callbacks._Progress(verbose, steps or known_steps(batches))
        outputs, has_labels = [], isinstance(x, _data.Dataset)
        for n, batch in enumerate(batches):
            if steps is not None and n == steps:
                break
            begin(n)
            if self._predicts_in_python():
                outputs.append(self._step_on(batch))
                end(n, {"outputs": outputs[-1]})
                continue
            if has_labels and isinstance(batch, tuple) and not self._takes_tuple(batch) and 1 < len(batch) <= 3:
                batch = batch[0]
            outputs.append(self._called_on(batch) if by_call else self.predict_on_batch(batch))
            end(n, {"outputs": outputs[-1]})
        for callback in callbacks:
            callback.on_predict_end({})
        if progress is not None:
            progress.finish(len(outputs), {})
        parts = zip(*(_structure.flatten(output) for output in outputs))
        return _structure.pack_as(outputs[0], [np.concatenate(part) for part in parts])

    def _step_on(self, batch: Any) -> Any:
        """What predict_step gives, traced unless the model runs eagerly."""
        if self._compiled is not None and self._compiled.run_eagerly:
            found = self.predict_step(batch)
        else:
            step = self._steps.setdefault("predict_step", Function(lambda data: self.predict_step(data)))
            concrete, leaves = step.concrete((batch,), {}, self._world_now())
            found = concrete.run(leaves)
        return _structure.map_structure(lambda leaf: np.asarray(unwrap(leaf)), found)

    def _called_on(self, batch: Any) -> Any:
        return _structure.map_structure(lambda leaf: leaf.numpy(), self(batch, training=False))
