# SPDX-License-Identifier: Apache-2.0
"""tf.estimator"""
from __future__ import annotations

import inspect as _inspect
from typing import Any as _Any
from typing import Callable as _Callable

from ... import estimator as _estimator
from ... import feature_column as _columns
from ... import ops as _ops
from ..._tensor import as_dtype as _as_dtype
from ..._tensor import float32 as _float32
from ..._tensor import int64 as _int64
from ...config import RunConfig as _RunConfig
from ...config import _DEFAULT
from ...estimator import EvalSpec, Exporter, ModeKeys, TrainSpec, VocabInfo  # noqa: F401
from ...estimator import WarmStartSettings  # noqa: F401
from ...heads import (BinaryClassHead, Head, LogisticRegressionHead, MultiClassHead, MultiHead,  # noqa: F401
                      MultiLabelHead, PoissonRegressionHead, RegressionHead)
from ...io import FixedLenFeature as _FixedLenFeature
from ...layers import ACTIVATIONS as _ACTIVATIONS
from .. import _checkpoint
from .._absent import error as _error
from .._absent import module_getattr as _module_getattr
from .._devices import options_of as _options_of
from .._world import seeded as _seeded
from ..compat.v1._monitored import (CheckpointSaverHook, CheckpointSaverListener, FeedFnHook,  # noqa: F401
                                    FinalOpsHook,
                                    GlobalStepWaiterHook, LoggingTensorHook, NanLossDuringTrainingError, NanTensorHook,
                                    ProfilerHook, SecondOrStepTimer, SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues,
                                    StepCounterHook, StopAtStepHook, SummarySaverHook)
from ..compat.v1._monitored import _Listener
from . import experimental, export, inputs  # noqa: F401


def _refuse(**arguments: _Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise NotImplementedError(f"{name} does not exist yet in estoc.tf")


class RunConfig(_RunConfig):
    """tf.estimator.RunConfig"""

    def __init__(self, model_dir: _Any = None, tf_random_seed: int | None = 1, save_summary_steps: int | None = 100,
                 save_checkpoints_steps: int | None = _DEFAULT, save_checkpoints_secs: float | None = _DEFAULT,
                 session_config: _Any = None, keep_checkpoint_max: int | None = 5,
                 keep_checkpoint_every_n_hours: float = 10000, log_step_count_steps: int | None = 100,
                 train_distribute: _Any = None, device_fn: _Any = None, protocol: str | None = None,
                 eval_distribute: _Any = None, experimental_distribute: _Any = None,
                 experimental_max_worker_delay_secs: _Any = None, session_creation_timeout_secs: float = 7200,
                 checkpoint_save_graph_def: bool = True):
        _refuse(device_fn=device_fn, experimental_distribute=experimental_distribute,
                experimental_max_worker_delay_secs=experimental_max_worker_delay_secs)
        super().__init__(model_dir, tf_random_seed, save_summary_steps, save_checkpoints_steps, save_checkpoints_secs,
                         keep_checkpoint_max, keep_checkpoint_every_n_hours, log_step_count_steps, train_distribute,
                         eval_distribute, session_creation_timeout_secs, protocol,
                         no_graph_def=not checkpoint_save_graph_def)
        self._set_session_config(session_config)

    tf_random_seed = property(lambda self: self.seed)
    session_config = property(lambda self: self._session_config)

    def _set_session_config(self, session_config: _Any) -> None:
        """Its number of threads, and which devices compute; other fields have no use here."""
        self._session_config = session_config
        self.threads = int(getattr(session_config, "intra_op_parallelism_threads", 0) or 0)

    def _placement(self) -> dict:
        return _options_of(self._session_config)

    def replace(self, **changes: _Any) -> "RunConfig":
        if "tf_random_seed" in changes:
            changes["seed"] = changes.pop("tf_random_seed")
        if "session_config" not in changes:
            return super().replace(**changes)
        session_config = changes.pop("session_config")
        new = super().replace(**changes)
        new._set_session_config(session_config)
        return new


def _reduction(value: _Any) -> str | None:
    """Keras' names of reductions, which strings are, as estoc's."""
    return None if value in (None, "auto") else value


class _Estimator(_estimator.Estimator):
    """What TensorFlow's estimators have beside those of estoc."""

    _variable_suffix = ":0"

    def _default_config(self) -> RunConfig:
        return RunConfig()

    def _input(self, input_fn: _Callable, keep: _Any) -> dict:
        """The seed of the config is that of the input as well: a `shuffle` without one is the same in every run."""
        seed = self.config.seed
        if seed is None or not callable(input_fn):
            return super()._input(input_fn, keep)

        def of_seed(*given: _Any, **named: _Any) -> _Any:
            with _seeded(seed):
                return input_fn(*given, **named)

        of_seed.__wrapped__ = input_fn  # type: ignore[attr-defined]  # whose parameters are asked for
        return super()._input(of_seed, keep)

    def _listeners(self, keep: _Any, listeners: _Any) -> _Any:
        return super()._listeners(keep, [_Listener(item) if isinstance(item, CheckpointSaverListener) else item
                                         for item in listeners or ()])

    def export_saved_model(self, export_dir_base: _Any, serving_input_receiver_fn: _Callable,
                           assets_extra: _Any = None, as_text: bool = False, checkpoint_path: str | None = None,
                           experimental_mode: str = ModeKeys.PREDICT) -> bytes:
        if experimental_mode != ModeKeys.PREDICT:
            raise NotImplementedError("exports to train or to evaluate do not exist yet in Python")
        serving = export.serving_input(serving_input_receiver_fn)
        return super().export_saved_model(export_dir_base, serving, assets_extra, as_text, checkpoint_path).encode()

    def export_savedmodel(self, export_dir_base: _Any, serving_input_receiver_fn: _Callable, assets_extra: _Any = None,
                          as_text: bool = False, checkpoint_path: str | None = None,
                          strip_default_attrs: bool = False) -> bytes:
        """TensorFlow 1.x's name of export_saved_model."""
        return self.export_saved_model(export_dir_base, serving_input_receiver_fn, assets_extra, as_text,
                                       checkpoint_path)

    def __getattr__(self, name: str) -> _Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _error(f"tf.estimator.{type(self).__name__}", name)


class EstimatorSpec(_estimator.EstimatorSpec):
    """tf.estimator.EstimatorSpec"""

    def __init__(self, mode: str, predictions: _Any = None, loss: _Any = None, train_op: _Any = None,
                 eval_metric_ops: _Any = None, export_outputs: _Any = None, training_chief_hooks: _Any = None,
                 training_hooks: _Any = None, scaffold: _Any = None, evaluation_hooks: _Any = None,
                 prediction_hooks: _Any = None):
        self.scaffold = scaffold
        if scaffold is not None:
            training_hooks = scaffold._hooks(True) + list(training_hooks or ())
            evaluation_hooks = scaffold._hooks(False) + list(evaluation_hooks or ())
            prediction_hooks = scaffold._hooks(False) + list(prediction_hooks or ())
        if loss is not None and getattr(loss, "shape", ()) not in ((), None):
            loss = _ops.reshape(loss, [])  # one of a single element, as TensorFlow takes it
        super().__init__(mode, predictions, loss, train_op, eval_metric_ops, export_outputs, training_hooks,
                         training_chief_hooks, evaluation_hooks, prediction_hooks)

    def check(self, config: _RunConfig) -> None:
        """Raises where the scaffold wants another number of checkpoints than the config."""
        saver = None if self.scaffold is None else self.scaffold.saver
        if isinstance(saver, _checkpoint.Checkpoint):
            if config.cluster_spec and self.mode == ModeKeys.TRAIN:
                raise NotImplementedError("a tf.train.Checkpoint as the saver of a scaffold in a cluster; there "
                                          "checkpoints have variables by their names")
            return
        if saver is not None and self.mode == ModeKeys.TRAIN and saver._max != (config.keep_checkpoint_max or 0):
            raise NotImplementedError(f"the saver of the scaffold keeps {saver._max} checkpoints: say so in "
                                      f"RunConfig(keep_checkpoint_max={saver._max})")

    def rewriter(self, graph: _Any) -> _Any:
        """Writes checkpoints of the objects of a tf.train.Checkpoint, if that is the saver of the scaffold."""
        saver = None if self.scaffold is None else self.scaffold.saver
        if not isinstance(saver, _checkpoint.Checkpoint):
            return None
        return lambda prefix: _checkpoint.rewrite(saver, graph, prefix)


class Estimator(_Estimator):
    """tf.estimator.Estimator"""

    __doc__ = _estimator.Estimator.__doc__


def _canned(cls: type) -> type:
    def __init__(self: _Any, *arguments: _Any, **named: _Any) -> None:
        if "loss_reduction" in named:
            named["loss_reduction"] = _reduction(named["loss_reduction"])
        for key in list(named):
            if key.endswith("activation_fn") and callable(named[key]):
                name = getattr(named[key], "__name__", "")
                named[key] = name if name in _ACTIVATIONS else named[key]
        cls.__init__(self, *arguments, **named)
        for head in [*arguments[:1], named.get("head")]:
            if isinstance(head, MultiHead):
                self._own.heads = frozenset(str(part.name) for part in head.heads)

    __init__.__signature__ = _inspect.signature(cls.__init__)
    return type(cls.__name__, (_Estimator, cls), {"__init__": __init__, "__doc__": cls.__doc__, "__module__": __name__})


BaselineEstimator = _canned(_estimator.BaselineEstimator)
DNNEstimator = _canned(_estimator.DNNEstimator)
DNNLinearCombinedEstimator = _canned(_estimator.DNNLinearCombinedEstimator)
LinearEstimator = _canned(_estimator.LinearEstimator)
BaselineClassifier = _canned(_estimator.BaselineClassifier)
BaselineRegressor = _canned(_estimator.BaselineRegressor)
DNNClassifier = _canned(_estimator.DNNClassifier)
DNNLinearCombinedClassifier = _canned(_estimator.DNNLinearCombinedClassifier)
DNNLinearCombinedRegressor = _canned(_estimator.DNNLinearCombinedRegressor)
DNNRegressor = _canned(_estimator.DNNRegressor)
LinearClassifier = _canned(_estimator.LinearClassifier)
LinearRegressor = _canned(_estimator.LinearRegressor)


def add_metrics(estimator: _estimator.Estimator, metric_fn: _Callable) -> _estimator.Estimator:
    """A new estimator with more metrics."""
    return estimator.add_metrics(metric_fn)


def train_and_evaluate(estimator: _Any, train_spec: TrainSpec, eval_spec: EvalSpec) -> _Any:
    """The last evaluation, and what exporters exported after it; None on a cluster, as in TensorFlow."""
    metrics, exports = _estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    if estimator.config.cluster_spec or estimator.config.task_type == "evaluator":
        return None
    return metrics, [path.encode() if path is not None else None for path in exports]


def classifier_parse_example_spec(feature_columns: _Any, label_key: str, label_dtype: _Any = _int64,
                                  label_default: _Any = None, weight_column: _Any = None) -> dict:
    """The features of Examples that a classifier reads, with its label."""
    return _with_label(feature_columns, label_key, 1, label_dtype, label_default, weight_column)


def regressor_parse_example_spec(feature_columns: _Any, label_key: str, label_dtype: _Any = _float32,
                                 label_default: _Any = None, label_dimension: int = 1,
                                 weight_column: _Any = None) -> dict:
    """The features of Examples that a regressor reads, with its labels."""
    return _with_label(feature_columns, label_key, label_dimension, label_dtype, label_default, weight_column)


def _with_label(columns: _Any, label: str, n: int, dtype: _Any, default: _Any, weights: _Any) -> dict:
    columns = list(columns)
    if weights is not None:
        columns.append(_columns.numeric_column(weights) if isinstance(weights, str) else weights)
    spec = _columns.make_parse_example_spec(columns)
    if label in spec:
        raise ValueError(f"label should not be used as feature. label_key: {label}, features: {sorted(spec)}")
    return {**spec, label: _FixedLenFeature((n,), _as_dtype(dtype), default)}


LatestExporter = export.LatestExporter
FinalExporter = export.FinalExporter
BestExporter = export.BestExporter


__getattr__ = _module_getattr(__name__)
