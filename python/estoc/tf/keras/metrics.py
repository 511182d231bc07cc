# SPDX-License-Identifier: Apache-2.0
"""tf.keras.metrics: those of the library, as objects that functions update and programs read and reset."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from ... import ops as _ops
from ..._lib import Handle as _Handle
from ..._lib import Keep as _Keep
from ..._lib import fail as _fail
from ..._lib import check as _check
from ..._lib import ffi as _ffi
from ..._lib import here as _here
from ..._lib import lib as _lib
from ..._lib import off as _off
from ...graph import Graph as _Graph
from ...graph import Node as _Node
from ...graph import as_node as _as_node
from ...graph import default_graph as _default_graph
from ...metrics import of_pair as _of_pair
from .._absent import module_getattr as _module_getattr
from .._array import in_top_k as _in_top_k
from .._eager import Tensor as _Tensor
from .._eager import eager as _eager
from .._function import Function as _Function
from .._variable import Variable as _Variable
from .._trace import current_trace as _current_trace
from . import losses as _losses
from ._layer import Layer as _Layer
from ._serial import by_module as _by_module
from ._serial import made_of as _made_of
from ._serial import recorded as _recorded_arguments
from ._serial import serialize as _serialized
from ._calling import snake as _snake
from ._calling import unique_name as _unique_name


class _State:
    """What a metric of the library has built into a graph."""

    def __init__(self):
        self.value: _Any = None
        self.reset: _Any = None
        self.updates: dict[int, list] = {}  # by trace, its updates so far
        self.all: list = []  # updates of a graph without traces


class Metric(_Layer):
    """A metric. Subclasses override update_state, result and reset_state over variables of add_weight."""

    _where = "tf.keras.metrics.Metric"

    def get_config(self) -> dict:
        """What the metric was made with, as plain values."""
        config = {"name": self.name, "dtype": self.dtype}
        if type(self).__module__.startswith("estoc.") and type(self) is not Metric:
            made = _recorded_arguments(self, type(self))
            config.update((key, _serialized(value)) for key, value in made.items() if key not in config)
        if config.get("thresholds", True) is None and "num_thresholds" in config:  # one of them says it
            del config["thresholds"]
        return config

    def __init__(self, name: str | None = None, dtype: _Any = None, **named: _Any):
        super().__init__(name=name or _unique_name(_snake(type(self).__name__)), dtype=dtype, **named)
        self.__dict__["_updating"] = None
        self.__dict__["_reading"] = None

    def add_weight(self, name: str, shape: _Any = (), aggregation: _Any = None, synchronization: _Any = None,
                   initializer: _Any = "zeros", dtype: _Any = None) -> _Variable:
        graph = _default_graph()
        world = self._world_now()
        graph = graph if graph is not None else world.graph
        with graph.scope(self.name):
            variable = super().add_weight(name, shape, dtype, initializer, trainable=False)
        variable._metric = True
        return variable

    def __init_subclass__(cls, **named: _Any) -> None:
        super().__init_subclass__(**named)
        if "update_state" in cls.__dict__:
            inner = cls.__dict__["update_state"]

            def update_state(self: "Metric", *args: _Any, **more: _Any) -> _Any:
                if _default_graph() is not None:
                    return inner(self, *args, **more)
                if self.__dict__.get("_updating") is None:
                    self.__dict__["_updating"] = _Function(lambda *a, **m: inner(self, *a, **m))
                return self._updating.concrete(args, more, self._world_now())[0].run(
                    _flat(args, more))

            cls.update_state = update_state
        if "reset_states" not in cls.__dict__ and "reset_state" in cls.__dict__:
            cls.reset_states = cls.__dict__["reset_state"]

    def update_state(self, *args: _Any, **named: _Any) -> _Any:
        raise NotImplementedError("Must be implemented in subclasses.")

    def result(self) -> _Any:
        raise NotImplementedError("Must be implemented in subclasses.")

    def metric_in(self, graph: _Graph) -> _Any:
        raise NotImplementedError(f"{self.name} is written in Python; eval_metric_ops take the metrics of "
                                  "tf.keras.metrics, tf.compat.v1.metrics, and estoc.metrics.custom of states of your own")

    def reset_state(self) -> None:
        for variable in self._own_weights:
            variable.assign(_np.zeros(tuple(variable.shape), variable.dtype.as_numpy_dtype))

    def reset_states(self) -> None:
        self.reset_state()

    def __call__(self, *args: _Any, **named: _Any) -> _Any:
        """Updates the state and returns the result."""
        self.update_state(*args, **named)
        return self.result()


def _flat(args: tuple, named: dict) -> list:
    from .. import _structure
    return _structure.flatten((args, named))


def _as_vector(labels: _Any, predictions: _Any) -> _Any:
    """Predictions that are a column beside a vector of labels as a vector, too."""
    a, b = labels.shape, predictions.shape
    if a is not None and len(a) == 1 and b is not None and len(b) == 2 and b[1] == 1:
        return _ops.squeeze(predictions, -1)
    return predictions


def _as_one_example(labels: _Any, predictions: _Any) -> tuple:
    """Vectors, of which the predictions may be a column, as a batch of one example."""
    predictions = _as_vector(labels, predictions)
    if not _losses._are_vectors(labels, predictions):
        return labels, predictions
    return _ops.expand_dims(labels, 0), _ops.expand_dims(predictions, 0)


_COUNTS = ("true_positives", "true_negatives", "false_positives", "false_negatives")


def _state_span(graph: _Graph, shared: bool) -> _Any:
    return _lib.est_global_variables(graph._c) if shared else _lib.est_local_variables(graph._c)


class _Native(Metric):
    """A metric of the library: spec(keep) is an est_metric_spec."""

    _takes_labels = True
    _counts_examples = False  # a value for each example, which a vector is one of
    _measured: float | None = None  # by the network of a model, which has the states

    def __init__(self, spec: _Callable[[_Keep], _Any], name: str | None, dtype: _Any):
        super().__init__(name=name, dtype=dtype)
        d = self.__dict__
        d["_spec"], d["_key"], d["_states"] = spec, _Handle(None), {}
        d["_steps"] = {}
        d["_parts_of_state"] = []

    def _struct(self, keep: _Keep) -> _Any:
        struct = keep.new("est_metric_spec *", self._spec(keep))
        struct.name = keep.string(self.name)
        struct.shared = self._world_now().shares_metrics
        return struct

    def _state(self, graph: _Graph) -> _State:
        if graph not in self._states:
            self._states[graph] = _State()
        return self._states[graph]

    # --- in a graph ---

    def _update_in(self, labels: _Any, predictions: _Any, weights: _Any) -> None:
        _here()
        node = next(value for value in (predictions, labels, weights) if isinstance(value, _Node))
        graph, keep = node.graph, _Keep()
        predictions = _as_node(predictions, graph)
        labels = _as_node(labels, graph) if labels is not None else predictions
        if self._takes_labels:
            labels, predictions = _losses._aligned(labels, predictions)
            if self._counts_examples and not predictions.dtype.is_floating:
                predictions = _ops.cast(predictions, "float32")
            if self._counts_examples and weights is None:
                labels, predictions = _as_one_example(labels, predictions)
        weight = _ffi.new("est_node *")[0] if weights is None else _as_node(weights, graph)._c
        struct = self._struct(keep)
        graph.keep.append(keep)
        before = _state_span(graph, struct.shared).n
        _lib.est_share_begin(graph._c, self._key.pointer)
        metric = struct.make(struct, labels._c, predictions._c, weight)
        _lib.est_share_end(graph._c)
        graph.check()
        state, trace = self._state(graph), _current_trace()
        self._note_states(graph, struct.shared, before)
        update = _Node(graph, metric.update)
        if state.value is None:
            state.value, state.reset = _Node(graph, metric.value), _Node(graph, metric.reset)
        state.all.append(update)
        if trace is not None:
            state.updates.setdefault(id(trace), []).append(update)
            trace.late.append(lambda: state.updates.pop(id(trace), None))
            trace.targets.append(update)

    def metric_in(self, graph: _Graph) -> _Any:
        """What eval_metric_ops of a model_fn have: value, all updates and the reset."""
        state = self._states.get(graph)
        if state is None or state.value is None:
            raise ValueError(f"{self.name} in eval_metric_ops was not updated: call update_state in the model_fn")
        update = state.all[0] if len(state.all) == 1 else _ops.group(state.all)
        return _of_pair(state.value, update, [state.reset])

    def _note_states(self, graph: _Graph, shared: bool, before: int) -> None:
        """The variables that an update has made, by the names that Keras has for them in checkpoints."""
        span, world = _state_span(graph, shared), getattr(graph, "world", None)
        for i in range(before, span.n if world is not None else before):
            variable = _Variable._of(world, graph, _ffi.new("est_node *", span.data[i])[0], False)
            variable.is_state = True
            path = variable._name.rsplit("/", 2)[1:]
            name = path[0] if len(path) == 2 and path[1] == "count" and path[0] in _COUNTS else path[-1]
            self._parts_of_state.append(("accumulator" if name == _snake(type(self).__name__) else name, variable))

    def _checkpoint_parts(self) -> list:
        return [(name, variable) for name, variable in self._parts_of_state if variable._world is self._world_now()]

    def update_state(self, y_true: _Any, y_pred: _Any = None, sample_weight: _Any = None) -> None:
        if not self._takes_labels:
            y_true, y_pred, sample_weight = None, y_true, y_pred if sample_weight is None else sample_weight
        self._update_in(y_true, y_pred, sample_weight)

    def _at_once(self, labels: _Any, predictions: _Any, weights: _Any) -> None:
        self._update_in(labels, predictions, weights)

    def result(self) -> _Any:
        trace = _current_trace()
        if trace is None:
            return self._result_now() if self._measured is None else _Tensor(_np.float32(self._measured))
        if trace.world is not self._world_now():
            from .._world import OtherWorld
            raise OtherWorld(self._world_now())
        state = self._states.get(trace.graph)
        if state is None or state.value is None:
            return _as_node(_np.float32(0), trace.graph)
        keep, updates = _Keep(), state.updates.get(id(trace), [])
        node = _lib.est_read_after(state.value._c, keep.span("est_nodes", "est_node", [u._c for u in updates]))
        trace.graph.check()
        return _Node(trace.graph, node)

    def _result_now(self) -> _Any:
        world = self._world_now()
        state = self._states.get(world.graph)
        if state is None or state.value is None:
            return _Tensor(_np.float32(0))
        return _Tensor(world.run(self._step("value", [state.value], []), [])[0])

    def reset_state(self) -> None:
        world = self._world_now()
        self.__dict__.pop("_measured", None)
        state = self._states.get(world.graph)
        if state is None or state.reset is None:
            return
        trace = _current_trace()
        if trace is not None:
            trace.targets.append(state.reset)
            return
        world.run(self._step("reset", [], [state.reset]), [])

    def reset_states(self) -> None:
        self.reset_state()

    def _step(self, what: str, fetches: list, targets: list) -> _Any:
        world = self._world_now()
        session = world.ready()
        step = self._steps.get(what)
        if step is None or step._of_session is not session:
            step = self._steps[what] = world.prepare([], fetches, targets)
        return step


def _wrap_update(cls: type) -> type:
    """Metrics of the library update outside of functions by a step of their world."""
    inner = cls.update_state

    def update_state(self: _Any, y_true: _Any, y_pred: _Any = None, sample_weight: _Any = None) -> None:
        if _default_graph() is not None:
            graph = _default_graph()
            values = [_in(value, graph) for value in (y_true, y_pred, sample_weight)]
            if self._world_now().graph is not graph and _current_trace() is not None:
                from .._world import OtherWorld
                raise OtherWorld(self._world_now())
            return inner(self, *values)
        if self._measured is not None:
            raise NotImplementedError(f"{self.name} has what a model has measured, whose states go on in the model only: call "
                                      "reset_state before update_state")
        if self.__dict__.get("_updating") is None:
            self.__dict__["_updating"] = _Function(lambda *values: inner(self, *values))
        values = tuple(None if value is None else _Tensor(_plain(value)) for value in (y_true, y_pred, sample_weight))
        concrete, leaves = self._updating.concrete(values, {}, self._world_now())
        concrete.run(leaves)
        return None

    cls.update_state = update_state
    return cls


def _in(value: _Any, graph: _Graph) -> _Any:
    return None if value is None else value if isinstance(value, _Node) else _as_node(
        value._as_node(graph) if isinstance(value, _Variable) else value, graph)


def _plain(value: _Any) -> _Any:
    from .._eager import unwrap
    return unwrap(value)


_Native = _wrap_update(_Native)


def _by_name(name: str) -> _Callable:
    def make(keep: _Keep) -> _Any:
        out = keep.new("est_metric_spec *")
        _check(_lib.est_metric_by_name(keep.string(name), out))
        return out[0]

    return make


class Mean(_Native):
    """The mean of values, weighted."""

    _takes_labels = False

    def __init__(self, name: str = "mean", dtype: _Any = None):
        super().__init__(_by_name("mean"), name, dtype)


class Sum(_Native):
    """The sum of values, weighted."""

    _takes_labels = False

    def __init__(self, name: str = "sum", dtype: _Any = None):
        super().__init__(_by_name("sum"), name, dtype)


class Accuracy(_Native):
    """The part of predictions equal to labels."""

    def __init__(self, name: str = "accuracy", dtype: _Any = None):
        def make(keep: _Keep) -> _Any:
            struct = keep.new("est_metric_spec *")
            struct.make = _lib.py_on_metric
            handle = _Handle(_equal_classes)
            keep.append(handle)
            struct.user = handle.pointer
            return struct[0]

        super().__init__(make, name, dtype)


def _equal_classes(keep: _Keep, spec: _Any, labels: _Any, predictions: _Any, weights: _Any) -> _Any:
    if _lib.est_node_dtype(labels) != _lib.est_node_dtype(predictions):
        labels = _lib.est_cast(labels, _lib.est_node_dtype(predictions))
    return _lib.est_metric_accuracy(labels, predictions, keep.options(
        "est_metric_options", name=spec.name, weights=weights, shared=spec.shared))


@_ffi.def_extern(name="py_on_metric")
def _on_metric(self: _Any, labels: _Any, predictions: _Any, weights: _Any) -> _Any:
    try:
        return _Handle.get(self.user)(_Keep(), self, labels, predictions, weights)
    except BaseException as exception:
        bad = _lib.est_graph_poison(predictions.graph, _fail(exception))
        return _ffi.new("est_metric *", {"value": bad, "update": bad, "reset": bad})[0]


def _class(name: str, keras: str, doc: str, shown: str | None = None, of_examples: bool = True) -> type:
    def __init__(self, name: str = shown or keras, dtype: _Any = None) -> None:
        _Native.__init__(self, _by_name(keras), name, dtype)

    return type(name, (_Native,), {"__init__": __init__, "__doc__": doc, "__module__": __name__,
                                   "_counts_examples": of_examples})


CategoricalAccuracy = _class("CategoricalAccuracy", "categorical_accuracy", "Of distributions.")
SparseCategoricalAccuracy = _class("SparseCategoricalAccuracy", "sparse_categorical_accuracy", "Of class numbers.",
                                   of_examples=False)
MeanSquaredError = _class("MeanSquaredError", "mean_squared_error", "The mean of (p - l)^2.")
MeanAbsoluteError = _class("MeanAbsoluteError", "mean_absolute_error", "The mean of |p - l|.")
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", "mean_absolute_percentage_error", "In percent.")
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", "Of logarithms.")
RootMeanSquaredError = _class("RootMeanSquaredError", "root_mean_squared_error", "The root of the mean of (p - l)^2.",
                              of_examples=False)
Hinge = _class("Hinge", "hinge", "The mean of max(0, 1 - l p).")
SquaredHinge = _class("SquaredHinge", "squared_hinge", "The mean of its square.")
CategoricalHinge = _class("CategoricalHinge", "categorical_hinge", "Of classes.")
KLDivergence = _class("KLDivergence", "kl_divergence", "The mean of l log(l / p).",
                      "kullback_leibler_divergence")
LogCoshError = _class("LogCoshError", "log_cosh", "The mean of log(cosh(p - l)).", "logcosh")
Poisson = _class("Poisson", "poisson", "The mean of p - l log p.")


class _Counted(_Native):
    """A metric of counts: one of the library, and one over arrays where its parameters ask for it."""

    _arrays = ""

    def __new__(cls, thresholds: _Any = None, *args: _Any, **named: _Any) -> _Any:
        plain = thresholds is None or _np.ndim(thresholds) == 0 and cls in (Precision, Recall)
        if plain and not any(value is not None for value in (*args[:2], named.get("top_k"), named.get("class_id"))
                             if not isinstance(value, str)):
            return super().__new__(cls, thresholds, *args, **named)
        return getattr(_arrays(), cls._arrays)(thresholds, *args, **named)


def _arrays() -> _Any:
    from . import _array_metrics
    return _array_metrics


def _counted(name: str, keras: str) -> type:
    def __init__(self, thresholds: _Any = None, name: str | None = None, dtype: _Any = None) -> None:
        _Native.__init__(self, _by_name(keras), name, dtype)

    return type(name, (_Counted,), {"__init__": __init__, "__doc__": "Counted.", "__module__": __name__, "_arrays": keras})


TruePositives = _counted("TruePositives", "true_positives")
TrueNegatives = _counted("TrueNegatives", "true_negatives")
FalsePositives = _counted("FalsePositives", "false_positives")
FalseNegatives = _counted("FalseNegatives", "false_negatives")


class BinaryAccuracy(_Native):
    """The part of probabilities on the right side of the threshold."""

    def __init__(self, name: str = "binary_accuracy", dtype: _Any = None, threshold: float = 0.5):
        super().__init__(lambda keep: _lib.est_metric_value_binary_accuracy(_off(threshold)), name, dtype)


class Precision(_Counted):
    """tp / (tp + fp)"""

    _arrays = "precision"

    def __init__(self, thresholds: float | None = None, top_k: _Any = None, class_id: _Any = None,
                 name: str | None = None, dtype: _Any = None):
        assert top_k is None is class_id  # those are of another class
        super().__init__(lambda keep: _lib.est_metric_value_precision(_off(thresholds)), name, dtype)


class Recall(_Counted):
    """tp / (tp + fn)"""

    _arrays = "recall"

    def __init__(self, thresholds: float | None = None, top_k: _Any = None, class_id: _Any = None,
                 name: str | None = None, dtype: _Any = None):
        assert top_k is None is class_id  # those are of another class
        super().__init__(lambda keep: _lib.est_metric_value_recall(_off(thresholds)), name, dtype)


class AUC(_Native):
    """The area under the ROC or the precision-recall curve."""

    def __new__(cls, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
                name: str | None = None, dtype: _Any = None, thresholds: _Any = None, multi_label: bool = False,
                num_labels: int | None = None, label_weights: _Any = None, from_logits: bool = False) -> _Any:
        if curve not in ("ROC", "PR"):
            raise ValueError(f"Invalid AUC curve value: \"{curve}\".")
        if thresholds is None and num_thresholds <= 1:
            raise ValueError(f"Argument `num_thresholds` must be an integer > 1. Received: num_thresholds={num_thresholds}")
        more = {"thresholds": thresholds, "multi_label": multi_label, "num_labels": num_labels,
                "label_weights": label_weights, "from_logits": from_logits}
        told = {"num_thresholds": num_thresholds, "curve": curve, "summation_method": summation_method, "name": name,
                "dtype": dtype, **more}
        if summation_method == "interpolation" and not any(
                item is not None and item is not False for item in more.values()):
            return super().__new__(cls, **told)
        return _arrays().areas(**told)

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
                 name: str | None = None, dtype: _Any = None, thresholds: _Any = None, multi_label: bool = False,
                 num_labels: int | None = None, label_weights: _Any = None, from_logits: bool = False):
        assert summation_method == "interpolation" and not (multi_label or from_logits)  # those are of another class
        assert thresholds is num_labels is label_weights is None
        super().__init__(lambda keep: _lib.est_metric_value_auc(0 if curve == "ROC" else 1, num_thresholds), name, dtype)


class TopKCategoricalAccuracy(_Native):
    """Whether the class is among the k most likely."""

    def __init__(self, k: int = 5, name: str = "top_k_categorical_accuracy", dtype: _Any = None):
        super().__init__(lambda keep: _lib.est_metric_value_top_k_categorical_accuracy(_off(max(k, 0))), name, dtype)


class SparseTopKCategoricalAccuracy(_Native):
    """The same for class numbers."""

    def __init__(self, k: int = 5, name: str = "sparse_top_k_categorical_accuracy", dtype: _Any = None):
        super().__init__(lambda keep: _lib.est_metric_value_sparse_top_k_categorical_accuracy(_off(max(k, 0))), name, dtype)


class _OfLoss(_Native):
    """The mean of a loss."""

    _counts_examples = True

    def __init__(self, each: _Any, name: str, dtype: _Any):
        super().__init__(lambda keep: _lib.est_metric_value_of_loss(each.struct), name, dtype)


class BinaryCrossentropy(_OfLoss):
    """The mean crossentropy."""

    def __init__(self, name: str = "binary_crossentropy", dtype: _Any = None, from_logits: bool = False,
                 label_smoothing: float = 0):
        super().__init__(_losses._Each.made("est_loss_value_binary_crossentropy", bool(from_logits),
                                            float(label_smoothing)), name, dtype)


class CategoricalCrossentropy(_OfLoss):
    """The mean crossentropy against distributions."""

    def __init__(self, name: str = "categorical_crossentropy", dtype: _Any = None, from_logits: bool = False,
                 label_smoothing: float = 0, axis: int = -1):
        _losses._last(axis, name)
        super().__init__(_losses._Each.made("est_loss_value_categorical_crossentropy", bool(from_logits),
                                            float(label_smoothing)), name, dtype)


class SparseCategoricalCrossentropy(_OfLoss):
    """The mean crossentropy against class numbers."""

    def __init__(self, name: str = "sparse_categorical_crossentropy", dtype: _Any = None, from_logits: bool = False,
                 axis: int = -1):
        _losses._last(axis, name)
        super().__init__(_losses._Each.made("est_loss_value_sparse_categorical_crossentropy", bool(from_logits)), name,
                         dtype)


class MeanMetricWrapper(_Native):
    """The mean of a function of labels and predictions; a number for a whole batch counts once."""

    def __init__(self, fn: _Callable, name: str = "mean_metric_wrapper", dtype: _Any = None, **named: _Any):
        def each(labels: _Any, predictions: _Any) -> _Any:
            value = fn(*(_ops.cast(one, "float32") for one in (labels, predictions)), **named)
            return _ops.reshape(value, [1]) if isinstance(value, _Node) and value.shape == () else value

        loss = _losses.LossFunctionWrapper(each, name=name)
        super().__init__(lambda keep: _lib.est_metric_value_of_loss(loss._c_loss), name, dtype)
        self.__dict__["_loss"] = loss

    def _update_in(self, labels: _Any, predictions: _Any, weights: _Any) -> None:
        super()._update_in(labels, _as_vector(labels, predictions), weights)


class CosineSimilarity(MeanMetricWrapper):
    """1 when they point the same way. Along the last axis it is the library's."""

    def __init__(self, name: str = "cosine_similarity", dtype: _Any = None, axis: int = -1):
        if axis == -1:
            _Native.__init__(self, _by_name("cosine_similarity"), name, dtype)
        else:
            super().__init__(lambda labels, predictions: -_losses.cosine_similarity(labels, predictions, axis), name, dtype)
        self.__dict__["_counts_examples"] = axis == -1

    def _update_in(self, labels: _Any, predictions: _Any, weights: _Any) -> None:
        base = _Native if self._counts_examples else MeanMetricWrapper
        base._update_in(self, labels, predictions, weights)


class _Named(_Native):
    def __init__(self, name: str):
        super().__init__(_by_name(name), name, None)


def get(identifier: _Any) -> _Any:
    """The metric of a name, the object itself, or the mean of a function."""
    identifier = _made_of(identifier)
    if isinstance(identifier, str):
        return _Named(identifier)
    if isinstance(identifier, type):
        return identifier()
    if isinstance(identifier, Metric) or not callable(identifier):
        return identifier
    return MeanMetricWrapper(identifier, getattr(identifier, "__name__", "metric"))


for _name in ("mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error",
              "mean_squared_logarithmic_error", "hinge", "squared_hinge", "categorical_hinge", "kl_divergence",
              "poisson", "binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy", "mse",
              "mae", "mape", "msle", "MSE", "MAE", "MAPE", "MSLE", "kld", "KLD"):
    globals()[_name] = getattr(_losses, _name)


@_eager
def binary_accuracy(y_true: Tensor, y_pred: Tensor, threshold: float = 0.5) -> _Any:  # noqa: F821
    """The part of each row that is on the right side of the threshold."""
    y_true, y_pred = _both(y_true, y_pred)
    right = _ops.equal(_ops.cast(y_true, y_pred.dtype), _ops.cast(y_pred > threshold, y_pred.dtype))
    return _ops.reduce_mean(_ops.cast(right, "float32"), -1)


@_eager
def categorical_accuracy(y_true: Tensor, y_pred: Tensor) -> _Any:  # noqa: F821
    """1 for each row whose largest prediction is at the class of its distribution."""
    y_true, y_pred = _both(y_true, y_pred)
    return _ops.cast(_ops.equal(_ops.argmax(y_true, -1), _ops.argmax(y_pred, -1)), "float32")


@_eager
def sparse_categorical_accuracy(y_true: Tensor, y_pred: Tensor) -> _Any:  # noqa: F821
    """1 for each row whose largest prediction is at its class number."""
    y_true, y_pred = _both(y_true, y_pred)
    if len(y_true.shape) == len(y_pred.shape):
        y_true = _ops.squeeze(y_true, -1)
    return _ops.cast(_ops.equal(_ops.cast(y_true, "int64"), _ops.argmax(y_pred, -1)), "float32")


@_eager
def top_k_categorical_accuracy(y_true: Tensor, y_pred: Tensor, k: int = 5) -> _Any:  # noqa: F821
    """1 for each row whose class is among the k largest predictions."""
    y_true, y_pred = _both(y_true, y_pred)
    return _ops.cast(_in_top_k.over_nodes(_ops.argmax(y_true, -1), y_pred, k), "float32")


@_eager
def sparse_top_k_categorical_accuracy(y_true: Tensor, y_pred: Tensor, k: int = 5) -> _Any:  # noqa: F821
    """1 for each row whose class number is among those of the k largest predictions."""
    y_true, y_pred = _both(y_true, y_pred)
    return _ops.cast(_in_top_k.over_nodes(_ops.cast(_ops.reshape(y_true, [-1]), "int64"), y_pred, k), "float32")


def _both(y_true: _Any, y_pred: _Any) -> tuple:
    graph = (y_pred if isinstance(y_pred, _Node) else y_true).graph
    return _as_node(y_true, graph), _ops.cast(_as_node(y_pred, graph), "float32")


from ._array_metrics import (BinaryIoU, F1Score, FBetaScore, IoU, MeanIoU, MeanRelativeError,  # noqa: E402,F401
                             MeanTensor, OneHotIoU, OneHotMeanIoU, PrecisionAtRecall, R2Score, RecallAtPrecision,
                             SensitivityAtSpecificity, SpecificityAtSensitivity)

serialize, deserialize = _by_module("metrics")
__getattr__ = _module_getattr(__name__)
