# SPDX-License-Identifier: Apache-2.0
"""Estimators: a model function and a model directory, to train, evaluate, predict and export.

    def model_fn(features, labels, mode):
        logits = estoc.layers.dense(features["x"], 10)
        loss = estoc.losses.sparse_softmax_cross_entropy(labels, logits)
        return estoc.EstimatorSpec(mode, predictions={"digit": estoc.ops.argmax(logits, -1)}, loss=loss,
                                   train_op=estoc.optimizers.Adam().minimize(loss))

    digits = estoc.Estimator(model_fn, model_dir="runs/digits")
    digits.train(lambda: train_rows.shuffle(1000).repeat().batch(64), max_steps=1000)
    print(digits.evaluate(lambda: test_rows.batch(64)))

All state is in the model directory. Ctrl-C finishes the step, saves a checkpoint and raises KeyboardInterrupt.
"""
from __future__ import annotations

import contextlib
import copy as _copy
import dataclasses
import inspect
import os
from collections.abc import Mapping as _Mapping
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from . import _nest, errors
from ._lib import NULL, Handle, Keep, Use, callback, check, check_signals, ffi, forget_released, lend_to_dataset, lib, made
from ._lib import owned, running, text
from ._tensor import as_array, as_dtype, borrowed_array, c_shape, string
from .checkpoint import CheckpointReader, latest_checkpoint
from .config import RunConfig
from .data import Dataset, TensorSpec
from .feature_column import Column, c_columns, c_combiner
from .graph import Graph, Node, Variable, as_node
from .heads import Head, c_dimension
from .hooks import Hook, SavingListener, c_hooks, c_listeners
from .io import c_feature_specs
from .layers import RaggedNode, c_activation
from .losses import c_reduction
from .metrics import Metric, of_pair
from .optimizers import c_canned_optimizer


class ModeKeys:
    """What a model_fn is called for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


_MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)


class Features(dict):
    """The features of a batch by name, as model_fn gets them; estoc.layers.input_layer looks columns up in them."""

    _model: Any = None
    _graph: Any = None


@dataclasses.dataclass
class EstimatorSpec:
    """What a model_fn returns. Modes need: train a loss and a train_op, eval a loss, predict predictions."""

    mode: str
    predictions: Any = None
    loss: Node | None = None
    train_op: Node | None = None
    eval_metric_ops: Mapping[str, Metric] | None = None
    export_outputs: Mapping[str, Any] | None = None
    training_hooks: Sequence[Hook] | None = None
    training_chief_hooks: Sequence[Hook] | None = None
    evaluation_hooks: Sequence[Hook] | None = None
    prediction_hooks: Sequence[Hook] | None = None

    def __post_init__(self):
        if self.mode not in _MODES:
            raise ValueError(f"mode is one of {', '.join(_MODES)}, not {self.mode!r}")
        if self.mode == ModeKeys.TRAIN and self.train_op is None:
            raise ValueError("Missing train_op.")
        if self.mode != ModeKeys.PREDICT and self.loss is None:
            raise ValueError("Missing loss.")
        if self.mode == ModeKeys.PREDICT and self.predictions is None:
            raise ValueError("Missing predictions.")

    def check(self, config: RunConfig) -> None:
        """Raises where the config does not fit."""

    def rewriter(self, graph: Graph) -> Callable[[str], None] | None:
        """What gives the checkpoint of a prefix another form; None: it stays as the library has written it."""
        return None


@dataclasses.dataclass
class PredictOutput:
    """A signature of an export: these nodes by name."""

    outputs: Any


@dataclasses.dataclass
class ClassificationOutput:
    """A classify signature."""

    scores: Node | None = None
    classes: Node | None = None

    def __post_init__(self) -> None:
        if self.scores is None and self.classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        if self.scores is not None and not as_dtype(self.scores.dtype).is_floating:
            raise ValueError(f"Classification scores must be a float32 Tensor; got {self.scores}")
        if self.classes is not None and as_dtype(self.classes.dtype) != string:
            raise ValueError(f"Classification classes must be a string Tensor; got {self.classes}")


@dataclasses.dataclass
class RegressionOutput:
    """A regress signature."""

    value: Node

    def __post_init__(self) -> None:
        if not as_dtype(self.value.dtype).is_floating:
            raise ValueError(f"Regression output value must be a float32 Tensor; got {self.value}")


@dataclasses.dataclass
class InputContext:
    """What an input_fn with a parameter `input_context` gets: its part of the input."""

    num_input_pipelines: int = 1
    input_pipeline_id: int = 0
    num_replicas_in_sync: int = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        if global_batch_size % self.num_replicas_in_sync != 0:
            raise ValueError(f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                             f"{self.num_replicas_in_sync} ")
        return global_batch_size // self.num_replicas_in_sync


# --- callbacks --------------------------------------------------------------------------------------------------------


class _Model:
    """What the callbacks of one estimator share. It does not know the Estimator, which frees it."""

    def __init__(self, model_fn: Callable | None, params: Any, config: RunConfig, model_dir: str | None):
        self.model_fn = model_fn
        self.params = params
        self.config = config
        self.model_dir = model_dir
        self.form: Any = None  # of the elements of the last input
        self.ragged: set[str] = set()
        self.serving: Any = None  # of the features of a serving input
        self.single = False  # predictions are one node
        self.heads: frozenset = frozenset()  # whose predictions are called (head, key), as TensorFlow has it
        self.graphs: list[list[Graph]] = []  # that calls under way have built
        self.rewrite: Callable[[str], None] | None = None  # of the model that trains (EstimatorSpec.rewriter)
        self.variable_suffix = ""  # of graphs

    def prediction_key(self, key: str) -> Any:
        head, _, rest = key.partition("/")
        return (head, rest) if rest and head in self.heads else key

    def graph_of(self, model: Any) -> Graph:
        """The graph of a model that is being built."""
        graph = Graph(_borrowed=lib.est_model_graph(model))
        graph.variable_suffix = self.variable_suffix
        graph._kept_in(self.graphs[-1])
        return graph

    @contextlib.contextmanager
    def building(self, graphs: list[Graph] | None = None) -> Iterator[None]:
        """Around a call of C: the graphs that it builds go with it, unless they are to outlive it in `graphs`."""
        built: list[Graph] = [] if graphs is None else graphs
        before = (self.form, self.ragged)
        self.graphs.append(built)
        try:
            yield
        finally:
            self.graphs.pop()
            if self.graphs:  # a hook of another call has made this one
                self.form, self.ragged = before
            if graphs is None:
                _close(built)
            forget_released()

    def features(self, model: Any, graph: Graph, mode: str) -> tuple[Any, Any]:
        """The nodes of features and labels, packed as the input has them."""
        form, labels = self.form, None
        if isinstance(form, tuple):
            if len(form) != 2:
                raise ValueError(f"input_fn must return a dataset of features, or of pairs of features and labels; its "
                                 f"elements have {len(form)} parts")
            form, labels = form
        names = _nest.names(self.form)
        n = len(_nest.flatten(form))
        if mode == ModeKeys.PREDICT and self.serving is not None and not all(
                lib.est_model_has(model, name.encode()) for name in names[:n]):
            form = self.serving
            names = _nest.names(form)
            n = len(names)
            labels = None

        def node(name: str, label: bool) -> Any:
            if name in self.ragged:
                ragged = lib.est_model_ragged(model, name.encode())
                check(lib.est_model_status(model))
                return RaggedNode(Node(graph, ragged.values), Node(graph, ragged.splits))
            function = lib.est_model_label if label else lib.est_model_feature
            c_node = function(model, name.encode())
            check(lib.est_model_status(model))
            return Node(graph, c_node)

        packed = _nest.pack(form, [node(name, False) for name in names[:n]])
        if isinstance(packed, dict):
            packed = Features(packed)
            packed._model, packed._graph = model, graph
        if labels is None or mode == ModeKeys.PREDICT:
            return packed, None
        return packed, _nest.pack(labels, [node(name, True) for name in names[n:]])


class _Rewriting(SavingListener):
    """Gives checkpoints the form that the model asks for, before listeners of the program see them."""

    def __init__(self, estimator: "Estimator"):
        self._own, self._model_dir = estimator._own, estimator.model_dir

    def after_save(self, global_step: int) -> None:
        if self._own.rewrite is not None:
            self._own.rewrite(os.path.join(self._model_dir, f"model.ckpt-{global_step}"))


def _close(graphs: list[Graph]) -> None:
    for graph in list(graphs):
        graph._close()
    graphs.clear()


def _call_with(function: Callable, required: dict[str, Any], optional: dict[str, Any]) -> Any:
    """Calls a user's function with the arguments that it has parameters for."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
    arguments = {name: value for name, value in optional.items() if name in parameters or takes_all and name != "mode"}
    return function(*required.values(), **arguments)


@callback("py_on_model")
def _on_model(model: Any, mode: int, params: Any) -> None:
    own = Handle.get(params)
    graph = own.graph_of(model)
    name = _MODES[int(mode)]
    features, labels = own.features(model, graph, name)
    parameters = inspect.signature(own.model_fn).parameters
    arguments = {"features": features}
    if "labels" in parameters:
        arguments["labels"] = labels
    elif labels is not None:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    for key, value in (("mode", name), ("params", own.params), ("config", own.config)):
        if key in parameters:
            arguments[key] = value
    with graph.as_default():
        spec = own.model_fn(**arguments)
    if not isinstance(spec, EstimatorSpec):
        raise ValueError(f"model_fn should return an EstimatorSpec, not {type(spec).__name__}.")
    spec.check(own.config)
    _register(model, own, spec, graph)


def _register(model: Any, own: _Model, spec: EstimatorSpec, graph: Graph) -> None:
    keep = Keep()
    own.single = spec.predictions is not None and not isinstance(spec.predictions, Mapping)
    predictions = {"predictions": spec.predictions} if own.single else (spec.predictions or {})
    for key, node in predictions.items():
        if isinstance(node, RaggedNode):
            value = keep.new("est_ragged_node *", {"values": node.values._c, "splits": node.splits._c})[0]
            lib.est_model_predict_ragged(model, keep.string(key), value)
        else:
            lib.est_model_predict(model, keep.string(key), _value(node, graph)._c)
    if spec.mode != ModeKeys.PREDICT:
        lib.est_model_loss(model, _value(spec.loss, graph)._c)
        for part in getattr(graph, "summaries", ()):
            most = (part.most,) if part.kind == "image" else ()
            getattr(lib, "est_model_" + part.kind)(model, keep.string(part.tag), part.node._c, *most)
    if spec.mode == ModeKeys.TRAIN:
        lib.est_model_train_op(model, spec.train_op._c)
        own.rewrite = spec.rewriter(graph)
    if spec.mode == ModeKeys.EVAL:
        _register_metrics(model, graph, spec.eval_metric_ops or {})
    if spec.mode == ModeKeys.PREDICT:
        for key, output in (spec.export_outputs or {}).items():
            _register_output(model, key, output)
    for hooks, register in ((spec.training_hooks, lib.est_model_training_hook),
                            (spec.training_chief_hooks, lib.est_model_chief_hook),
                            (spec.evaluation_hooks, lib.est_model_evaluation_hook),
                            (spec.prediction_hooks, lib.est_model_prediction_hook)):
        for hook in hooks or ():
            register(model, hook._taken(graph.keep))
    check(lib.est_model_status(model))


def _value(node: Any, graph: Graph) -> Node:
    """What a model_fn returned as a node of its graph: a number, an array or a tensor is a constant."""
    if not isinstance(node, Node):
        node = as_node(as_array(node), graph)
    return node.value() if isinstance(node, Variable) else node


def _register_metrics(model: Any, graph: Graph, metrics: Mapping[str, Any]) -> None:
    for name, metric in metrics.items():
        if hasattr(metric, "metric_in"):  # an object of Keras that was updated in the graph
            metric = metric.metric_in(graph)
        elif isinstance(metric, tuple) and len(metric) == 2:
            metric = of_pair(*(_value(part, graph) for part in metric))
        if not isinstance(metric, Metric):
            raise TypeError(f"metric {name!r} is {type(metric).__name__}; make it with estoc.metrics, or with "
                            "estoc.metrics.custom from a state of your own")
        lib.est_model_metric(model, name.encode(), metric._c)


def _register_output(model: Any, key: str, output: Any) -> None:
    keep = Keep()
    if isinstance(output, PredictOutput):
        outputs = {"output": output.outputs} if isinstance(output.outputs, Node) else output.outputs
        lib.est_model_export_predict(model, keep.string(key), keep.span(
            "est_named_nodes", "est_named_node",
            [{"name": keep.string(name), "node": node._c} for name, node in outputs.items()]))
    elif isinstance(output, ClassificationOutput):
        none = keep.new("est_node *")[0]
        lib.est_model_export_classify(model, keep.string(key), output.scores._c if output.scores is not None else none,
                                      output.classes._c if output.classes is not None else none)
    elif isinstance(output, RegressionOutput):
        lib.est_model_export_regress(model, keep.string(key), output.value._c)
    else:
        raise TypeError(f"export output {key!r} is a PredictOutput, ClassificationOutput or RegressionOutput, not "
                        f"{type(output).__name__}")


class _Input:
    """An input_fn for one call of the library."""

    def __init__(self, input_fn: Callable, own: _Model):
        if not callable(input_fn):
            raise TypeError(f"input_fn is a function that returns a dataset, not {type(input_fn).__name__}")
        self.input_fn = input_fn
        self.own = own


@callback("py_on_input")
def _on_input(context: Any, user: Any, out: Any) -> None:
    given = Handle.get(user)
    own = given.own
    result = _call_with(given.input_fn, {}, {
        "mode": _MODES[int(context.mode)], "params": own.params, "config": own.config,
        "input_context": InputContext(int(context.n_pipelines), int(context.pipeline),
                                      max(1, int(context.num_replicas_in_sync)))})
    if result is None:
        raise ValueError("input_fn returned None; it returns a dataset, or features and labels")
    if not isinstance(result, Dataset):
        node = next((leaf for leaf in _nest.flatten(result) if isinstance(leaf, Node)), None)
        if node is not None:
            result = node.graph.dataset_of(result)
        else:
            result = Dataset.from_tensors(result, copy=True).repeat()  # the same batch at every step, as in TensorFlow
    dataset = result._as_input()
    own.form = dataset.structure
    own.ragged = {name for name, spec in dataset._components() if spec.ragged}
    pointer, keep = dataset._finish(passes=True)
    lend_to_dataset(pointer, [dataset, keep])
    out[0] = pointer


# --- specs ------------------------------------------------------------------------------------------------------------


class TrainSpec:
    """How train_and_evaluate trains."""

    def __init__(self, input_fn: Callable, max_steps: int | None = None, hooks: Sequence[Hook] | None = None,
                 saving_listeners: Sequence[SavingListener] | None = None):
        _check_input(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        self.input_fn = input_fn
        self.max_steps = max_steps
        self.hooks = tuple(hooks or ())
        self.saving_listeners = tuple(saving_listeners or ())


class EvalSpec:
    """How train_and_evaluate evaluates; steps None: until the input ends."""

    def __init__(self, input_fn: Callable, steps: int | None = 100, name: str | None = None,
                 hooks: Sequence[Hook] | None = None, exporters: Any = None, start_delay_secs: float = 120,
                 throttle_secs: float = 600):
        _check_input(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        if start_delay_secs < 0:
            raise ValueError(f"Must specify start_delay_secs >= 0, given: {start_delay_secs}")
        if throttle_secs < 0:
            raise ValueError(f"Must specify throttle_secs >= 0, given: {throttle_secs}")
        if exporters is None:
            exporters = ()
        elif isinstance(exporters, Exporter):
            exporters = (exporters,)
        for exporter in exporters:
            if not isinstance(exporter, Exporter):
                raise TypeError(f"`exporters` must be an Exporter, an iterable of Exporter, or None, found {exporter}.")
        self.input_fn = input_fn
        self.steps = steps
        self.name = name
        self.hooks = tuple(hooks or ())
        self.exporters = tuple(exporters)
        self.start_delay_secs = start_delay_secs
        self.throttle_secs = throttle_secs


def _check_input(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn}")


@dataclasses.dataclass
class VocabInfo:
    """A variable whose rows belong to the entries of a vocabulary that has changed."""

    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    axis: int = 0


@dataclasses.dataclass
class WarmStartSettings:
    """Initial values from a checkpoint, a model directory or a SavedModel. vars_to_warm_start is a regular expression
    of trainable variables; a list of them: of all variables, with slots; None: only those with a vocabulary."""

    ckpt_to_initialize_from: str
    vars_to_warm_start: str | Sequence[Any] | None = ".*"
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None

    def _c(self, keep: Keep) -> Any:
        wanted = self.vars_to_warm_start
        several = wanted is not None and not isinstance(wanted, str)
        if several:
            names = [item if isinstance(item, str) else item.name.partition(":")[0] for item in wanted]
            if not names:
                raise ValueError("vars_to_warm_start is an empty list; None warm-starts only variables with a vocabulary")
            wanted = "|".join(f"({name})" for name in names)
        vocabs = [{"variable": keep.string(name), "new_vocab": keep.string(info.new_vocab),
                   "old_vocab": keep.string(info.old_vocab), "new_vocab_size": max(info.new_vocab_size, 0),
                   "old_vocab_size": max(info.old_vocab_size, 0), "num_oov_buckets": info.num_oov_buckets,
                   "axis": info.axis} for name, info in (self.var_name_to_vocab_info or {}).items()]
        renames = [{"variable": keep.string(name), "stored": keep.string(old)}
                   for name, old in (self.var_name_to_prev_var_name or {}).items()]
        return keep.options("est_warm_start", path=keep.string(self.ckpt_to_initialize_from),
                            variables=keep.string(wanted), all=several, only_vocabs=wanted is None,
                            renames=keep.span("est_renames", "est_rename", renames),
                            vocabs=keep.span("est_vocab_infos", "est_vocab_info", vocabs))


def _c_warm_start(keep: Keep, value: Any) -> Any:
    if value is None:
        return NULL
    if isinstance(value, (str, os.PathLike)):
        value = WarmStartSettings(os.fspath(value))
    return value._c(keep)


class Predictions:
    """The predictions of an estimator, one after the other; `close` ends them early."""

    def __init__(self, pointer: Any, own: _Model):
        self._c = pointer
        self._own = own
        self._graphs: list[Graph] = []
        self._use = Use()
        running.add(self)

    def __iter__(self) -> "Predictions":
        return self

    def __next__(self) -> Any:
        if self._c is None:
            raise StopIteration
        with self._own.building(self._graphs):
            with self._use:
                status = lib.est_predictions_next(self._c)
            if status == errors.OUT_OF_RANGE:
                self.close()
                raise StopIteration
            check_signals(status)
        row = {}
        for i in range(lib.est_predictions_count(self._c)):
            key = lib.est_predictions_key(self._c, i)
            value = lib.est_predictions_get(self._c, key)
            row[self._own.prediction_key(text(key))] = borrowed_array(ffi.cast("est_tensor *", value)).copy()[()]
        return next(iter(row.values())) if self._own.single else row

    def close(self) -> None:
        if self._c is not None:
            self._use.check()
            predictions, self._c = self._c, None
            _close(self._graphs)
            ffi.release(predictions)


# --- the estimator ----------------------------------------------------------------------------------------------------


def _check_arguments(model_fn: Callable, params: Any) -> None:
    """Raises for parameters of a model_fn that nothing is given for."""
    known = ("features", "labels", "mode", "params", "config", "self")
    names = [name for name, parameter in inspect.signature(model_fn).parameters.items()
             if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]
    if "features" not in names:
        raise ValueError("model_fn must have a parameter `features`")
    if params is not None and "params" not in names:
        raise ValueError(f"model_fn ({model_fn}) does not include params argument, but params ({params}) is passed to "
                         "Estimator.")
    other = [name for name in names if name not in known]
    if other:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {other}")


class Estimator:
    """A model_fn and a model directory. model_fn(features, labels, mode, params, config) may leave out the last three;
    it returns an EstimatorSpec."""

    _variable_suffix = ""

    def __init__(self, model_fn: Callable, model_dir: str | os.PathLike | None = None, config: RunConfig | None = None,
                 params: Any = None, warm_start_from: Any = None):
        if not callable(model_fn):
            raise ValueError(f"model_fn must be a function, not {type(model_fn).__name__}")
        _check_arguments(model_fn, params)

        def create(own: _Model, handle: Handle, keep: Keep, out: Any) -> int:
            return lib.est_estimator_create(lib.py_on_model, keep.options(
                "est_estimator_options", model_dir=keep.string(own.model_dir), config=own.config._c(keep),
                params=handle.pointer, warm_start=_c_warm_start(keep, warm_start_from)), out)

        self._setup(model_fn, model_dir, config, params, create)

    def _setup(self, model_fn: Callable | None, model_dir: Any, config: RunConfig | None, params: Any,
               create: Callable) -> None:
        if config is not None and not isinstance(config, RunConfig):
            raise ValueError(f"config must be an instance of RunConfig, received {config}.")
        config = config if config is not None else self._default_config()
        model_dir = None if model_dir is None else os.fspath(model_dir)
        if model_dir is not None and config.model_dir is not None and model_dir != config.model_dir:
            raise ValueError("`model_dir` are set both in constructor and `RunConfig`, but with different values. In "
                             f"constructor: '{model_dir}', in `RunConfig`: '{config.model_dir}' ")
        self._create = create
        self._make(_Model(model_fn, params, config, model_dir))

    def _default_config(self) -> RunConfig:
        return RunConfig()

    def _make(self, own: _Model) -> None:
        keep, out = Keep(), ffi.new("est_estimator **")
        handle = Handle(own)
        check(self._create(own, handle, keep, out))
        self._own = own
        own.variable_suffix = self._variable_suffix
        self._c = owned(out[0], "est_estimator_free", parents=(handle, keep))

    @property
    def model_dir(self) -> str:
        return text(lib.est_estimator_model_dir(self._c))

    @property
    def config(self) -> RunConfig:
        return self._own.config.replace(model_dir=self.model_dir)

    @property
    def params(self) -> Any:
        return _copy.deepcopy(self._own.params)

    def __repr__(self) -> str:
        return f"<estoc.{type(self).__name__} model_dir={self.model_dir!r}>"

    def _input(self, input_fn: Callable, keep: Keep) -> dict[str, Any]:
        handle = Handle(_Input(input_fn, self._own))
        keep.append(handle)
        return {"input_fn": lib.py_on_input, "input_user": handle.pointer}

    def _listeners(self, keep: Keep, listeners: Sequence[SavingListener] | None) -> Any:
        own = [] if self._own.model_fn is None else [_Rewriting(self)]
        return c_listeners(keep, own + list(listeners or ()))

    # --- running ---

    def train(self, input_fn: Callable, hooks: Sequence[Hook] | None = None, steps: int | None = None,
              max_steps: int | None = None, saving_listeners: Sequence[SavingListener] | None = None) -> "Estimator":
        """Trains from the latest checkpoint until a limit or the end of the input."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        keep = Keep()
        options = keep.options("est_train_options", steps=steps, max_steps=max_steps, hooks=c_hooks(keep, hooks),
                               saving_listeners=self._listeners(keep, saving_listeners),
                               **self._input(input_fn, keep))
        with self._own.building():
            check_signals(lib.est_train(self._c, options))
        return self

    def evaluate(self, input_fn: Callable, steps: int | None = None, hooks: Sequence[Hook] | None = None,
                 checkpoint_path: str | None = None, name: str | None = None) -> dict[str, Any]:
        """The metrics of the latest checkpoint, or that one, over the input."""
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        keep, out = Keep(), ffi.new("est_metrics **")
        options = keep.options("est_evaluate_options", steps=steps, hooks=c_hooks(keep, hooks),
                               checkpoint_path=keep.string(checkpoint_path), name=keep.string(name),
                               **self._input(input_fn, keep))
        with self._own.building():
            check_signals(lib.est_evaluate(self._c, options, out))
        return _metrics(owned(out[0], "est_metrics_free"))

    def predict(self, input_fn: Callable, predict_keys: Sequence[str] | str | None = None,
                hooks: Sequence[Hook] | None = None, checkpoint_path: str | None = None,
                yield_single_examples: bool = True) -> Iterator[Any]:
        """Predictions one after the other: dicts of arrays and numpy's scalars, or these where model_fn has one. Nothing is computed
        before the first one is asked for."""
        keep, out = Keep(), ffi.new("est_predictions **")
        if isinstance(predict_keys, str):
            predict_keys = [predict_keys]
        keys = ["/".join(key) if isinstance(key, tuple) else key for key in predict_keys or []]
        options = keep.options("est_predict_options", keys=keep.strings(keys),
                               batches=not yield_single_examples, hooks=c_hooks(keep, hooks),
                               checkpoint_path=keep.string(checkpoint_path), **self._input(input_fn, keep))
        check_signals(lib.est_predict(self._c, options, out))
        return Predictions(owned(out[0], "est_predictions_free", parents=(self, keep)), self._own)

    def export_saved_model(self, export_dir_base: str | os.PathLike, serving_input: "ServingInput",
                           assets_extra: Mapping[str, str] | None = None, as_text: bool = False,
                           checkpoint_path: str | None = None) -> str:
        """Exports for TensorFlow Serving into a new directory below export_dir_base; its path."""
        keep, path = Keep(), ffi.new("char[]", lib.EST_CHECKPOINT_PATH_MAX)
        self._own.serving = serving_input.structure
        self._own.form = self._own.form if self._own.form is not None else serving_input.structure
        options = serving_input._options(keep, assets_extra, as_text, checkpoint_path)
        with self._own.building():
            check_signals(lib.est_export_saved_model(self._c, keep.string(export_dir_base), options, path))
        return text(path)

    # --- variables ---

    def eval_dir(self, name: str | None = None) -> str:
        """Where evaluations of that name write their summaries."""
        return os.path.join(self.model_dir, "eval" if not name else f"eval_{name}")

    def latest_checkpoint(self) -> str | None:
        """The prefix of the latest checkpoint; None: there is none."""
        return latest_checkpoint(self.model_dir)

    def get_variable_names(self) -> list[str]:
        """The names of all variables of the latest checkpoint."""
        return list(CheckpointReader(self.model_dir))

    def get_variable_value(self, name: str) -> np.ndarray:
        """The value of a variable in the latest checkpoint."""
        return CheckpointReader(self.model_dir).get_tensor(name)

    def add_metrics(self, metric_fn: Callable) -> "Estimator":
        """A new estimator with the metrics of metric_fn(labels, predictions, features, config), which may leave out
        some of its parameters and returns a dict of metrics, added to evaluations."""
        new = _copy.copy(self)
        own = _copy.copy(self._own)
        own.graphs = []
        functions = getattr(self, "_metric_fns", ()) + (metric_fn,)
        new._make(own)
        new._metric_fns = functions
        handles = []
        for function in functions:
            handle = Handle(_Metrics(function, own))
            handles.append(handle)
            check(lib.est_estimator_add_metrics(new._c, lib.py_on_metrics, handle.pointer))
        new._metric_handles = handles
        return new


@dataclasses.dataclass
class _Metrics:
    function: Callable
    own: _Model


class _Predictions(_Mapping):
    """The predictions of a model by key, as far as it has them."""

    KEYS = ("logits", "logistic", "probabilities", "class_ids", "classes", "all_class_ids", "all_classes",
            "predictions")

    def __init__(self, model: Any, graph: Graph):
        self._model, self._graph = model, graph

    def __getitem__(self, key: str) -> Node:
        node = lib.est_model_prediction(self._model, key.encode())
        if node.graph == NULL:
            raise KeyError(key)
        return Node(self._graph, node)

    def __iter__(self):
        return (key for key in self.KEYS
                if lib.est_model_prediction(self._model, key.encode()).graph != NULL)

    def __len__(self) -> int:
        return len(list(iter(self)))


@callback("py_on_metrics")
def _on_metrics(model: Any, user: Any) -> None:
    given = Handle.get(user)
    graph = given.own.graph_of(model)
    features, labels = given.own.features(model, graph, ModeKeys.EVAL)
    with graph.as_default():
        predictions: Any = _Predictions(model, graph)
        if given.own.single:
            predictions = predictions["predictions"]
        metrics = _call_with(given.function, {}, {"labels": labels, "predictions": predictions,
                                                  "features": features, "config": given.own.config})
    _register_metrics(model, graph, metrics)
    check(lib.est_model_status(model))


def _metrics(metrics: Any) -> dict[str, Any]:
    """The results of an evaluation: numpy float32, and the global step as int64."""
    result: dict[str, Any] = {}
    for i in range(lib.est_metrics_count(metrics)):
        name, value = text(lib.est_metrics_name(metrics, i)), lib.est_metrics_value(metrics, i)
        result[name] = np.int64(value) if name == "global_step" else np.float32(value)
    return result


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec,
                       eval_spec: EvalSpec) -> tuple[dict[str, Any] | None, list[str | None]]:
    """Trains, and evaluates and exports after checkpoints, in the role that TF_CONFIG gives this process. The last
    evaluation (None: there was none here) and what each exporter exported after it."""
    for value, kind in ((estimator, Estimator), (train_spec, TrainSpec), (eval_spec, EvalSpec)):
        if not isinstance(value, kind):
            raise TypeError(f"a {kind.__name__} is needed, given {type(value).__name__}")
    keep, out = Keep(), ffi.new("est_metrics **")
    train = keep.options("est_train_spec", max_steps=train_spec.max_steps, hooks=c_hooks(keep, train_spec.hooks),
                         saving_listeners=estimator._listeners(keep, train_spec.saving_listeners),
                         **estimator._input(train_spec.input_fn, keep))
    calls: list[_Exporting] = []
    pointers = []
    for exporter in eval_spec.exporters:
        call = _Exporting(exporter, estimator)
        calls.append(call)
        pointers.append(exporter._pointer(keep, call))
    evaluate = keep.options("est_eval_spec", steps=eval_spec.steps, name=keep.string(eval_spec.name),
                            hooks=c_hooks(keep, eval_spec.hooks),
                            exporters=keep.span("est_exporters", "est_exporter *", pointers),
                            start_delay_secs=lib.EST_OFF if eval_spec.start_delay_secs == 0
                            else eval_spec.start_delay_secs,
                            throttle_secs=lib.EST_OFF if eval_spec.throttle_secs == 0 else eval_spec.throttle_secs,
                            **estimator._input(eval_spec.input_fn, keep))
    with estimator._own.building():
        status = lib.est_train_and_evaluate(estimator._c, train, evaluate, out)
        failed = None if status == 0 else _failure_of(status)
    for call in calls:
        if call.raised is not None:
            raise call.raised
    if failed is not None:
        raise failed
    if out[0] == NULL:
        return None, []
    metrics = owned(out[0], "est_metrics_free")
    return _metrics(metrics), [text(lib.est_metrics_export_path(metrics, i)) for i in range(len(pointers))]


def _failure_of(status: int) -> BaseException:
    """What check_signals raises."""
    try:
        check_signals(status)
    except BaseException as exception:
        return exception
    raise AssertionError("a status that is no failure")


# --- exports ----------------------------------------------------------------------------------------------------------


class ServingInput:
    """The input of an exported model. Parsing: serialized tf.train.Examples with these features; raw: an array for each
    feature, whose shapes (TensorSpec, with the batch first) are given."""

    def __init__(self, parse: Mapping[str, Any] | None = None, raw: Mapping[str, TensorSpec] | None = None):
        if (parse is None) == (raw is None):
            raise ValueError("a serving input is either parse or raw")
        self.parse, self.raw = parse, raw
        self.structure = {name: _nest.LEAF for name in (parse if parse is not None else raw)}

    @classmethod
    def parsing(cls, feature_spec: Mapping[str, Any]) -> "ServingInput":
        return cls(parse=dict(feature_spec))

    def _c(self, keep: Keep) -> Any:
        struct = keep.new("est_serving_input *")
        if self.parse is not None:
            struct.parse = c_feature_specs(keep, self.parse)
            return struct[0]
        components = []
        for name, spec in self.raw.items():
            if spec.shape is None or len(spec.shape) == 0:
                raise ValueError(f"feature {name!r} of a serving input needs a shape whose first axis is the batch")
            components.append({"name": keep.string(name), "dtype": as_dtype(spec.dtype).number,
                               "shape": c_shape(spec.shape[1:])})
        struct.raw = keep.span("est_components", "est_component", components)
        return struct[0]

    def _options(self, keep: Keep, assets_extra: Mapping[str, str] | None, as_text: bool,
                 checkpoint_path: str | None = None) -> Any:
        assets = [{"name": keep.string(name), "path": keep.string(path)} for name, path in (assets_extra or {}).items()]
        return keep.options("est_export_options", input=self._c(keep), checkpoint_path=keep.string(checkpoint_path),
                            as_text=as_text, assets_extra=keep.span("est_assets", "est_asset", assets))


class _Exporting:
    """An exporter in one call of train_and_evaluate."""

    def __init__(self, exporter: "Exporter", estimator: Estimator):
        self.exporter = exporter
        self.estimator = estimator
        self.raised: BaseException | None = None


class Exporter:
    """Decides after an evaluation whether to export. Override `export`."""

    def __init__(self, name: str):
        if not name:
            raise ValueError("\"name\" of an exporter must not be empty.")
        self.name = name

    def export(self, estimator: Estimator, export_path: str, checkpoint_path: str, eval_result: dict[str, Any],
               is_the_final_export: bool) -> str | None:
        """Exports into a new directory below export_path; its path, or None."""
        raise NotImplementedError

    def _pointer(self, keep: Keep, call: _Exporting) -> Any:
        handle = Handle(call)
        exporter = made(lib.py_exporter_create(handle.pointer, keep.string(self.name)), "est_exporter_free")
        keep.extend([handle, exporter])
        return exporter


@callback("py_on_export")
def _on_export(user: Any, estimator: Any, export_path: Any, checkpoint_path: Any, metrics: Any, final: bool,
               path: Any) -> None:
    call = Handle.get(user)
    result = call.exporter.export(call.estimator, text(export_path), text(checkpoint_path), _metrics(metrics),
                                  bool(final))
    if result is not None:
        encoded = os.fsencode(result) + b"\0"
        if len(encoded) > lib.EST_CHECKPOINT_PATH_MAX:
            raise ValueError(f"the path of an export has {len(encoded)} bytes; the most is "
                             f"{lib.EST_CHECKPOINT_PATH_MAX}")
        ffi.memmove(path, encoded, len(encoded))


@ffi.def_extern(name="py_on_compare", error=False)
def _on_compare(user: Any, best: Any, current: Any) -> bool:
    call = Handle.get(user)
    try:
        return bool(call.exporter.compare_fn(_metrics(best), _metrics(current)))
    except BaseException as exception:  # raised by train_and_evaluate when it returns
        call.raised = call.raised or exception
        return False


class _SavedModelExporter(Exporter):
    _function = ""

    def __init__(self, name: str, serving_input: ServingInput, exports_to_keep: int | None = 5,
                 assets_extra: Mapping[str, str] | None = None, as_text: bool = False):
        super().__init__(name)
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be a positive number. Got "
                             f"{exports_to_keep}")
        if not isinstance(serving_input, ServingInput):
            raise TypeError(f"serving_input is a ServingInput, not {type(serving_input).__name__}")
        self.serving_input = serving_input
        self.exports_to_keep = exports_to_keep
        self.assets_extra = assets_extra
        self.as_text = as_text

    def _members(self, keep: Keep, handle: Handle) -> dict[str, Any]:
        return {}

    def _pointer(self, keep: Keep, call: _Exporting) -> Any:
        handle = Handle(call)
        call.estimator._own.serving = self.serving_input.structure
        options = keep.options("est_exporter_options",
                               saved_model=self.serving_input._options(keep, self.assets_extra, self.as_text),
                               exports_to_keep=lib.EST_OFF if self.exports_to_keep is None else self.exports_to_keep,
                               **self._members(keep, handle))
        exporter = made(getattr(lib, self._function)(keep.string(self.name), options), "est_exporter_free")
        keep.extend([handle, exporter])
        return exporter


class LatestExporter(_SavedModelExporter):
    """Exports after every evaluation."""

    _function = "est_latest_exporter"


class FinalExporter(_SavedModelExporter):
    """Exports only at the end."""

    _function = "est_final_exporter"


class BestExporter(_SavedModelExporter):
    """Exports when the evaluation is better than those of all existing exports: by compare_fn(best, current), two dicts
    of metrics, or by a metric whose smaller value is better."""

    _function = "est_best_exporter"

    def __init__(self, name: str, serving_input: ServingInput, compare_fn: Callable | None = None,
                 metric: str = "loss", larger_is_better: bool = False, exports_to_keep: int | None = 5,
                 event_file_pattern: str | None = None, assets_extra: Mapping[str, str] | None = None,
                 as_text: bool = False):
        super().__init__(name, serving_input, exports_to_keep, assets_extra, as_text)
        self.compare_fn = compare_fn
        self.metric = metric
        self.larger_is_better = larger_is_better
        self.event_file_pattern = event_file_pattern

    def _members(self, keep: Keep, handle: Handle) -> dict[str, Any]:
        members: dict[str, Any] = {"event_file_pattern": keep.string(self.event_file_pattern)}
        if self.compare_fn is not None:
            members.update(compare=lib.py_on_compare, compare_user=handle.pointer)
        else:
            members.update(metric=keep.string(self.metric), larger_is_better=self.larger_is_better)
        return members


# --- canned estimators ------------------------------------------------------------------------------------------------


class _Canned(Estimator):
    _function = ""
    _v1 = False  # as in tf.compat.v1.estimator: losses are sums, optimizers and their variables those of TensorFlow 1

    def _canned(self, model_dir: Any, config: RunConfig | None, warm_start_from: Any,
                members: Callable[[Keep], dict[str, Any]]) -> None:
        def create(own: _Model, handle: Handle, keep: Keep, out: Any) -> int:
            options = keep.options("est_canned_options", model_dir=keep.string(own.model_dir),
                                   config=own.config._c(keep), warm_start=_c_warm_start(keep, warm_start_from),
                                   v1=self._v1, **members(keep))
            return getattr(lib, self._function)(options, out)

        self._setup(None, model_dir, config, None, create)


def _activation(activation: Any) -> Any:
    c_function, function = c_activation(activation)
    if function is not None:
        raise NotImplementedError("the activation of a canned model is a name such as \"relu\", or that function of "
                                  "estoc.ops; use an Estimator with a model_fn of your own for others")
    return c_function


def _weight(keep: Keep, weight_column: Any) -> dict[str, Any]:
    if isinstance(weight_column, Column):
        keep.append(weight_column)
        return {"weight_numeric": weight_column._c}
    return {"weight_column": keep.string(weight_column)}


def _vocabulary(keep: Keep, label_vocabulary: Sequence[str] | None) -> dict[str, Any]:
    return {"label_vocabulary": keep.strings(label_vocabulary)} if label_vocabulary else {}


def _deep(keep: Keep, hidden_units: Sequence[int], activation_fn: Any, dropout: float | None,
          batch_norm: bool) -> dict[str, Any]:
    return {"hidden_units": keep.i64s(hidden_units), "activation": _activation(activation_fn),
            "dropout": dropout or 0, "batch_norm": batch_norm}


class DNNClassifier(_Canned):
    """A deep classifier over feature columns."""

    _function = "est_dnn_classifier"

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Column], model_dir: Any = None,
                 n_classes: int = 2, weight_column: Any = None, label_vocabulary: Sequence[str] | None = None,
                 optimizer: Any = "Adagrad", activation_fn: Any = "relu", dropout: float | None = None,
                 config: RunConfig | None = None, warm_start_from: Any = None, loss_reduction: str | None = None,
                 batch_norm: bool = False):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "columns": c_columns(keep, feature_columns), "n_classes": n_classes,
            "optimizer": c_canned_optimizer(keep, optimizer), "loss_reduction": c_reduction(loss_reduction),
            **_deep(keep, hidden_units, activation_fn, dropout, batch_norm), **_weight(keep, weight_column),
            **_vocabulary(keep, label_vocabulary)})


class DNNRegressor(_Canned):
    """A deep regressor over feature columns."""

    _function = "est_dnn_regressor"

    def __init__(self, hidden_units: Sequence[int], feature_columns: Sequence[Column], model_dir: Any = None,
                 label_dimension: int = 1, weight_column: Any = None, optimizer: Any = "Adagrad",
                 activation_fn: Any = "relu", dropout: float | None = None, config: RunConfig | None = None,
                 warm_start_from: Any = None, loss_reduction: str | None = None, batch_norm: bool = False):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "columns": c_columns(keep, feature_columns), "label_dimension": c_dimension(label_dimension),
            "optimizer": c_canned_optimizer(keep, optimizer), "loss_reduction": c_reduction(loss_reduction),
            **_deep(keep, hidden_units, activation_fn, dropout, batch_norm), **_weight(keep, weight_column)})


class LinearClassifier(_Canned):
    """A linear classifier over feature columns."""

    _function = "est_linear_classifier"

    def __init__(self, feature_columns: Sequence[Column], model_dir: Any = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence[str] | None = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None, warm_start_from: Any = None, loss_reduction: str | None = None,
                 sparse_combiner: str = "sum"):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "columns": c_columns(keep, feature_columns), "n_classes": n_classes,
            "optimizer": c_canned_optimizer(keep, optimizer), "loss_reduction": c_reduction(loss_reduction),
            "sparse_combiner": c_combiner(sparse_combiner), **_weight(keep, weight_column),
            **_vocabulary(keep, label_vocabulary)})


class LinearRegressor(_Canned):
    """A linear regressor over feature columns."""

    _function = "est_linear_regressor"

    def __init__(self, feature_columns: Sequence[Column], model_dir: Any = None, label_dimension: int = 1,
                 weight_column: Any = None, optimizer: Any = "Ftrl", config: RunConfig | None = None,
                 warm_start_from: Any = None, loss_reduction: str | None = None, sparse_combiner: str = "sum"):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "columns": c_columns(keep, feature_columns), "label_dimension": c_dimension(label_dimension),
            "optimizer": c_canned_optimizer(keep, optimizer), "loss_reduction": c_reduction(loss_reduction),
            "sparse_combiner": c_combiner(sparse_combiner), **_weight(keep, weight_column)})


def _combined(keep: Keep, linear_columns: Any, linear_optimizer: Any, dnn_columns: Any, dnn_optimizer: Any,
              sparse_combiner: str, loss_reduction: str | None) -> dict[str, Any]:
    if not linear_columns and not dnn_columns:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    return {"linear_columns": c_columns(keep, linear_columns), "dnn_columns": c_columns(keep, dnn_columns),
            "linear_optimizer": c_canned_optimizer(keep, linear_optimizer),
            "dnn_optimizer": c_canned_optimizer(keep, dnn_optimizer), "sparse_combiner": c_combiner(sparse_combiner),
            "loss_reduction": c_reduction(loss_reduction)}


class DNNLinearCombinedClassifier(_Canned):
    """A wide and deep classifier."""

    _function = "est_dnn_linear_combined_classifier"

    def __init__(self, model_dir: Any = None, linear_feature_columns: Sequence[Column] | None = None,
                 linear_optimizer: Any = "Ftrl", dnn_feature_columns: Sequence[Column] | None = None,
                 dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Any = "relu", dnn_dropout: float | None = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence[str] | None = None,
                 config: RunConfig | None = None, warm_start_from: Any = None, loss_reduction: str | None = None,
                 batch_norm: bool = False, linear_sparse_combiner: str = "sum"):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "n_classes": n_classes,
            **_combined(keep, linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer,
                        linear_sparse_combiner, loss_reduction),
            **_deep(keep, dnn_hidden_units or [], dnn_activation_fn, dnn_dropout, batch_norm),
            **_weight(keep, weight_column), **_vocabulary(keep, label_vocabulary)})


class DNNLinearCombinedRegressor(_Canned):
    """A wide and deep regressor."""

    _function = "est_dnn_linear_combined_regressor"

    def __init__(self, model_dir: Any = None, linear_feature_columns: Sequence[Column] | None = None,
                 linear_optimizer: Any = "Ftrl", dnn_feature_columns: Sequence[Column] | None = None,
                 dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Any = "relu", dnn_dropout: float | None = None, label_dimension: int = 1,
                 weight_column: Any = None, config: RunConfig | None = None, warm_start_from: Any = None,
                 loss_reduction: str | None = None, batch_norm: bool = False, linear_sparse_combiner: str = "sum"):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "label_dimension": c_dimension(label_dimension),
            **_combined(keep, linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer,
                        linear_sparse_combiner, loss_reduction),
            **_deep(keep, dnn_hidden_units or [], dnn_activation_fn, dnn_dropout, batch_norm),
            **_weight(keep, weight_column)})


def _head(keep: Keep, head: Any) -> dict[str, Any]:
    if not isinstance(head, Head):
        raise ValueError(f"head is one of estoc.heads, not {head!r}")
    keep.append(head)
    return {"head": head._c}


class DNNEstimator(_Canned):
    """A deep model over feature columns with a head."""

    _function = "est_dnn_estimator"

    def __init__(self, head: Head, hidden_units: Sequence[int], feature_columns: Sequence[Column],
                 model_dir: Any = None, optimizer: Any = "Adagrad", activation_fn: Any = "relu",
                 dropout: float | None = None, config: RunConfig | None = None, warm_start_from: Any = None,
                 batch_norm: bool = False):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "columns": c_columns(keep, feature_columns), "optimizer": c_canned_optimizer(keep, optimizer),
            **_deep(keep, hidden_units, activation_fn, dropout, batch_norm), **_head(keep, head)})


class LinearEstimator(_Canned):
    """A linear model over feature columns with a head."""

    _function = "est_linear_estimator"

    def __init__(self, head: Head, feature_columns: Sequence[Column], model_dir: Any = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None, sparse_combiner: str = "sum", warm_start_from: Any = None):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            "columns": c_columns(keep, feature_columns), "optimizer": c_canned_optimizer(keep, optimizer),
            "sparse_combiner": c_combiner(sparse_combiner), **_head(keep, head)})


class DNNLinearCombinedEstimator(_Canned):
    """A wide and deep model with a head."""

    _function = "est_dnn_linear_combined_estimator"

    def __init__(self, head: Head, model_dir: Any = None, linear_feature_columns: Sequence[Column] | None = None,
                 linear_optimizer: Any = "Ftrl", dnn_feature_columns: Sequence[Column] | None = None,
                 dnn_optimizer: Any = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Any = "relu", dnn_dropout: float | None = None, config: RunConfig | None = None,
                 batch_norm: bool = False, linear_sparse_combiner: str = "sum", warm_start_from: Any = None):
        self._canned(model_dir, config, warm_start_from, lambda keep: {
            **_combined(keep, linear_feature_columns, linear_optimizer, dnn_feature_columns, dnn_optimizer,
                        linear_sparse_combiner, None),
            **_deep(keep, dnn_hidden_units or [], dnn_activation_fn, dnn_dropout, batch_norm), **_head(keep, head)})


class BaselineEstimator(_Canned):
    """Only a bias, with a head."""

    _function = "est_baseline_estimator"

    def __init__(self, head: Head, model_dir: Any = None, optimizer: Any = "Ftrl", config: RunConfig | None = None):
        self._canned(model_dir, config, None, lambda keep: {
            "optimizer": c_canned_optimizer(keep, optimizer), **_head(keep, head)})


class BaselineClassifier(_Canned):
    """Only a bias: the mean of the labels."""

    _function = "est_baseline_classifier"

    def __init__(self, model_dir: Any = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence[str] | None = None, optimizer: Any = "Ftrl",
                 config: RunConfig | None = None, loss_reduction: str | None = None):
        self._canned(model_dir, config, None, lambda keep: {
            "n_classes": n_classes, "optimizer": c_canned_optimizer(keep, optimizer),
            "loss_reduction": c_reduction(loss_reduction), **_weight(keep, weight_column),
            **_vocabulary(keep, label_vocabulary)})


class BaselineRegressor(_Canned):
    """Only a bias: the mean of the labels."""

    _function = "est_baseline_regressor"

    def __init__(self, model_dir: Any = None, label_dimension: int = 1, weight_column: Any = None,
                 optimizer: Any = "Ftrl", config: RunConfig | None = None, loss_reduction: str | None = None):
        self._canned(model_dir, config, None, lambda keep: {
            "label_dimension": c_dimension(label_dimension), "optimizer": c_canned_optimizer(keep, optimizer),
            "loss_reduction": c_reduction(loss_reduction), **_weight(keep, weight_column)})
