# SPDX-License-Identifier: Apache-2.0
"""tf.keras.losses: those of the library, as functions and as objects."""
from __future__ import annotations

from typing import Any as _Any
from typing import Callable as _Callable

import numpy as _np

from ... import ops as _ops
from ..._lib import Handle as _Handle
from ..._lib import Keep as _Keep
from ..._lib import check as _check
from ..._lib import ffi as _ffi
from ..._lib import lib as _lib
from ..._lib import node_callback as _node_callback
from ..._lib import off as _off
from ...graph import Graph as _Graph
from ...graph import Node as _Node
from ...graph import as_node as _as_node
from ...graph import default_graph as _default_graph
from .._absent import module_getattr as _module_getattr
from ..nn import l2_normalize as _l2_normalize
from ._recorded import Recorded as _Recorded
from ._recorded import overridden as _overridden
from ._serial import by_module as _by_module
from ._serial import made_of as _made_of
from ._serial import recorded as _recorded_arguments
from ._serial import serialize as _serialized
from ._serial import snake as _snake
from .._eager import Tensor as _Tensor
from .._eager import compute as _compute
from .._eager import dispatch as _dispatch
from .._eager import eager as _eager
from .._eager import tapes as _tapes
from .._eager import unwrap as _unwrap
from .._variable import Variable as _Variable
from ..._tensor import as_array as _as_array
from ..._tensor import as_dtype as _as_dtype


class Reduction:
    """How losses of examples become one number."""

    AUTO, NONE, SUM, SUM_OVER_BATCH_SIZE = "auto", "none", "sum", "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple:
        return cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE


def _convert(positional: tuple, named: dict) -> tuple:
    def one(value: _Any) -> _Any:
        value = _unwrap(value)
        return value if value is None or isinstance(value, (str, bool)) or callable(value) else _as_array(value)

    return tuple(one(value) for value in positional), {key: one(value) for key, value in named.items()}


def _aligned(labels: _Any, predictions: _Any) -> tuple[_Node, _Node]:
    """Both as nodes; a last axis of size 1 that only one of them has is dropped, as Keras does."""
    graph = labels.graph if isinstance(labels, _Node) else predictions.graph
    predictions = _as_node(predictions, graph)
    labels = _as_node(labels, graph)
    a, b = labels.shape, predictions.shape
    if a is not None and b is not None:
        if len(a) == len(b) + 1 and a[-1] == 1:
            labels = _ops.squeeze(labels, -1)
        elif len(b) == len(a) + 1 and b[-1] == 1 and len(a) > 1:
            predictions = _ops.squeeze(predictions, -1)
    return labels, predictions


_cast, _expand_dims, _sum, _ones_like = (_eager(function) for function in (
    _ops.cast, _ops.expand_dims, _ops.reduce_sum, _ops.ones_like))


def _are_vectors(labels: _Node, predictions: _Node) -> bool:
    """Whether both are vectors, which Keras takes for one example."""
    return all(node.shape is not None and len(node.shape) == 1 for node in (labels, predictions))


_OF_PAIRS = {"mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error",
             "mean_squared_logarithmic_error", "hinge", "squared_hinge", "categorical_hinge", "kl_divergence", "log_cosh",
             "poisson", "huber", "binary_crossentropy", "binary_focal_crossentropy"}


class _Unaligned:
    """A loss that Keras computes of all pairs where labels and predictions have different ranks: as a function, and of
    labels or predictions that are no tensors."""

    def __init__(self, each: "_Each"):
        self.each = each

    def __call__(self, labels: _Any, predictions: _Any) -> _Node:
        graph = labels.graph if isinstance(labels, _Node) else predictions.graph
        labels, predictions = _as_node(labels, graph), _as_node(predictions, graph)
        a, b = labels.shape, predictions.shape
        if a and b and len(a) != len(b) and None not in (*a, *b):
            shape = graph.constant(_np.asarray(_np.broadcast_shapes(tuple(a), tuple(b)), _np.int64))
            labels, predictions = (graph.node(_lib.est_broadcast_to(one._c, shape._c)) for one in (labels, predictions))
        return self.each(labels, predictions)


class _Each:
    """A loss of the library: one value an example, from nodes. It is a part of keys, so there is one of each kind."""

    _made: dict[_Any, "_Each"] = {}

    def __init__(self, struct: _Any, pairs: bool):
        self.struct = struct
        self.unaligned = _Unaligned(self) if pairs else self

    @classmethod
    def named(cls, name: str) -> "_Each":
        if name not in cls._made:
            struct = _ffi.new("est_loss *")
            _check(_lib.est_loss_by_name(name.encode(), struct))
            cls._made[name] = cls(struct, name in _OF_PAIRS)
        return cls._made[name]

    @classmethod
    def made(cls, function: str, *arguments: _Any) -> "_Each":
        key = (function,) + arguments
        if key not in cls._made:
            cls._made[key] = cls(_ffi.new("est_loss *", getattr(_lib, function)(*arguments)),
                                 function.replace("est_loss_value_", "") in _OF_PAIRS)
        return cls._made[key]

    def __call__(self, labels: _Any, predictions: _Any) -> _Node:
        labels, predictions = _aligned(labels, predictions)
        single = _are_vectors(labels, predictions)
        if single:
            labels, predictions = _ops.expand_dims(labels, 0), _ops.expand_dims(predictions, 0)
        node = _Node(predictions.graph, self.struct.each(self.struct, labels._c, predictions._c))
        predictions.graph.check()
        return _ops.squeeze(node, 0) if single else node


def _reduced(each: _Node, weights: _Any, reduction: str) -> _Node:
    graph, keep = each.graph, _Keep()
    number = {"none": _lib.EST_LOSS_NONE, "sum": _lib.EST_LOSS_SUM}.get(reduction, _lib.EST_LOSS_SUM_OVER_BATCH_SIZE)
    if weights is not None:
        weights = _as_node(weights, graph, each.dtype)
        if each.shape == () and weights.shape != ():
            raise ValueError(f"sample_weight has the shape {weights.shape}, but vectors are one example; give labels "
                             "and predictions a last axis")
    members = {} if weights is None else {"weights": weights._c}
    node = _Node(graph, _lib.est_loss_reduce(each._c, keep.options("est_loss_options", reduction=number, **members)))
    if reduction != "none" and node.shape is None:  # of values whose rank is not known
        node = _ops.reshape(node, [])
    graph.check()
    return node


class _OfLogits:
    """A loss of what layers have made with a softmax or a sigmoid, over what these were given: there the library finds
    the logits, as in a graph. It is a part of keys."""

    def __init__(self, loss: _Callable, activation: str):
        self.loss, self.activation = loss, activation

    def __eq__(self, other: _Any) -> bool:
        return isinstance(other, _OfLogits) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.loss, self.activation))

    def __call__(self, labels: _Any, logits: _Node, *weights: _Any) -> _Any:
        made = _ops.softmax(logits) if self.activation == "Softmax" else _ops.sigmoid(logits)
        return self.loss(labels, made, *weights)


def _computed(loss: _Callable, arguments: tuple) -> _Any:
    """A loss of tensors of any kind."""
    kept = getattr(arguments[1], "_keras_logits", None)
    if kept is None or any(isinstance(one, _Node) for one in arguments) or _default_graph() is not None:
        return _dispatch(loss, arguments, {}, _convert)
    (activation, logits), = kept.items()
    made = _OfLogits(loss, activation)
    result = _compute(made, *_convert((arguments[0], logits, *arguments[2:]), {}))
    for tape in _tapes():
        tape.record(made, (arguments[0], logits, *arguments[2:]), {}, True, result)
    return result


class _Reduced:
    """A loss of a batch over nodes. It is a part of keys: equal to others of the same."""

    def __init__(self, each: _Callable, reduction: str, by_mask: bool):
        self.each, self.reduction, self.by_mask = each, reduction, by_mask

    def __eq__(self, other: _Any) -> bool:
        return isinstance(other, _Reduced) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.each, self.reduction, self.by_mask))

    def __call__(self, labels: _Any, predictions: _Any, weights: _Any = None) -> _Node:
        mask = _mask_of(predictions) if self.by_mask else None
        if mask is None:
            return _reduced(self.each(labels, predictions), weights, self.reduction)
        return _reduced(self.each(labels, predictions), _times(mask, weights), self.reduction) * _share(
            mask, self.reduction)


def _mask_of(y_pred: _Any) -> _Any:
    """The mask that layers have given an output, as numbers; None: there is none."""
    if isinstance(y_pred, _Node):
        mask = y_pred.graph.masks.get((y_pred._c.id, y_pred._c.output))
        return None if mask is None else _ops.cast(mask, "float32")
    mask = getattr(y_pred, "_keras_mask", None)
    return None if mask is None else _cast(mask, "float32")


def _times(mask: _Any, weights: _Any) -> _Any:
    """The mask times the weights of examples or steps."""
    if weights is None:
        return mask
    weights = _cast(weights, "float32")
    return mask * (weights if len(weights.shape) == len(mask.shape) else _expand_dims(weights, -1))


def _share(mask: _Any, reduction: str) -> _Any:
    """Makes a mean over all values one over those that count."""
    return 1.0 if reduction in ("sum", "none") else _sum(_ones_like(mask)) / _sum(mask)


def _matched(y_true: _Any, y_pred: _Any, by_number: bool = False) -> _Any:
    """Labels for a loss or a metric of compile: as Keras does it, a vector beside a matrix becomes a column, and numbers
    get the dtype of the predictions. Losses and metrics of the library know classes `by_number`, too."""
    if not all(hasattr(item, "shape") and hasattr(item, "dtype") for item in (y_true, y_pred)):
        return y_true
    a, b = y_true.shape, y_pred.shape  # None: the rank is not known
    if a is not None and b is not None and len(a) == 1 and len(b) == 2 and (not by_number or b[1] == 1):
        y_true = _expand_dims(y_true, -1)
    have, want = _as_dtype(y_true.dtype), _as_dtype(y_pred.dtype)
    if have != want and (have.is_floating and want.is_floating or have.is_integer and want.is_integer):
        y_true = _cast(y_true, want)
    return y_true


class Loss(_Recorded):
    """A loss as an object. Subclasses override call(y_true, y_pred), which gives one value an example."""

    _copied_by_arguments = True

    def __init__(self, reduction: str = Reduction.AUTO, name: str | None = None):
        if reduction not in Reduction.all():
            raise ValueError(f"Invalid Reduction Key: {reduction}. Expected keys are \"{Reduction.all()}\"")
        self.reduction = reduction
        self.name = name

    _each: _Any = None

    def call(self, y_true: _Any, y_pred: _Any) -> _Any:
        if self._each is None:
            raise NotImplementedError("Must be implemented in subclasses.")
        return _computed(self._each.unaligned, (y_true, y_pred))

    def _of_library(self) -> _Any:
        """The loss of the library; None: `call` is written in Python."""
        return None if _overridden(type(self), "call") else self._each

    def _values(self) -> _Callable:
        """One value an example, from nodes."""
        if self._of_library() is not None:
            return self._each
        if "_own_each" not in self.__dict__:
            self._own_each = lambda labels, predictions: self.call(labels, predictions)
        return self._own_each

    def __call__(self, y_true: _Any, y_pred: _Any, sample_weight: _Any = None) -> _Any:
        mask = None if isinstance(y_pred, _Node) else _mask_of(y_pred)
        if mask is not None:
            sample_weight = _times(mask, sample_weight)
        arguments = (y_true, y_pred) if sample_weight is None else (y_true, y_pred, sample_weight)
        values = self._values()
        if isinstance(values, _Each) and not all(isinstance(one, (_Tensor, _Variable)) for one in (y_true, y_pred)):
            values = values.unaligned
        loss = _computed(_Reduced(values, self.reduction, mask is None), arguments)
        return loss if mask is None else loss * _share(mask, self.reduction)

    _said_besides = ("fn",)

    def get_config(self) -> dict:
        """What the loss was made with, as plain values."""
        config = {"reduction": self.reduction, "name": self.name}
        if type(self).__module__.startswith("estoc.") and type(self) is not Loss:
            made = _recorded_arguments(self, type(self))
            config.update((key, _serialized(value)) for key, value in made.items() if key not in config and key != "fn")
            own = made.get("fn")
            config["fn"] = _serialized(own) if own is not None else _snake(type(self).__name__)
        return config

    @property
    def _c_loss(self) -> _Any:
        """The est_loss for est_network_compile, kept by the object."""
        if self._of_library() is not None:
            return self._each.struct
        if "_struct" not in self.__dict__:
            self._handle = _Handle(self._values())
            self._label = _ffi.new("char[]", (self.name or type(self).__name__).encode())
            self._struct = _ffi.new("est_loss *")
            self._struct.name = self._label
            self._struct.each = _lib.py_on_loss
            self._struct.user = self._handle.pointer
        return self._struct


@_node_callback("py_on_loss", lambda self, labels, predictions: predictions.graph)
def _on_loss(self: _Any, labels: _Any, predictions: _Any) -> _Any:
    graph = _borrowed(predictions.graph)
    labels, outputs = _Node(graph, labels), _Node(graph, predictions)
    with graph.as_default():
        each = _as_node(_Handle.get(self.user)(_matched(labels, outputs), outputs), graph)
    if each.shape == ():  # a loss of the whole batch: the same for every example
        rows = _Node(graph, _lib.est_shape_of(predictions))[:1]
        each = _Node(graph, _lib.est_broadcast_to(each._c, rows._c))
    graph.check()
    return each._c


def _borrowed(pointer: _Any) -> _Graph:
    """The graph of a callback of the library, as Python knows it."""
    from ._network import graph_of
    return graph_of(pointer)


class LossFunctionWrapper(Loss):
    """A function of labels and predictions as a loss."""

    _said_besides = ()

    def __init__(self, fn: _Callable, reduction: str = Reduction.AUTO, name: str | None = None, **named: _Any):
        super().__init__(reduction, name or getattr(fn, "__name__", None))
        self.fn, self._named = fn, named

    def call(self, y_true: _Any, y_pred: _Any) -> _Any:
        return self.fn(y_true, y_pred, **self._named)


def _class(name: str, keras: str, doc: str) -> type:
    def __init__(self, reduction: str = Reduction.AUTO, name: str = keras) -> None:
        Loss.__init__(self, reduction, name)
        self._each = _Each.named(keras)

    return type(name, (Loss,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})


MeanSquaredError = _class("MeanSquaredError", "mean_squared_error", "(p - l)^2")
MeanAbsoluteError = _class("MeanAbsoluteError", "mean_absolute_error", "|p - l|")
MeanAbsolutePercentageError = _class("MeanAbsolutePercentageError", "mean_absolute_percentage_error", "In percent.")
MeanSquaredLogarithmicError = _class("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", "Of logarithms.")
Hinge = _class("Hinge", "hinge", "max(0, 1 - l p)")
SquaredHinge = _class("SquaredHinge", "squared_hinge", "max(0, 1 - l p)^2")
CategoricalHinge = _class("CategoricalHinge", "categorical_hinge", "max(0, neg - pos + 1)")
KLDivergence = _class("KLDivergence", "kl_divergence", "l log(l / p)")
LogCosh = _class("LogCosh", "log_cosh", "log(cosh(p - l))")
Poisson = _class("Poisson", "poisson", "p - l log p")


class CosineSimilarity(Loss):
    """-1 when the vectors point the same way."""

    def __init__(self, axis: int = -1, reduction: str = Reduction.AUTO, name: str = "cosine_similarity"):
        super().__init__(reduction, name)
        self.axis = axis
        self._each = _Each.named("cosine_similarity") if axis == -1 else None

    def call(self, y_true: _Any, y_pred: _Any) -> _Any:
        return _cosine(y_true, y_pred, self.axis)


class Huber(Loss):
    """Square up to delta, linear beyond."""

    def __init__(self, delta: float = 1.0, reduction: str = Reduction.AUTO, name: str = "huber_loss"):
        super().__init__(reduction, name)
        self._each = _Each.made("est_loss_value_huber", float(_off(delta)))


def _last(axis: int, what: str) -> None:
    if axis != -1:
        raise NotImplementedError(f"{what}: the classes are along the last axis, not {axis}")


class BinaryCrossentropy(Loss):
    """Of probabilities, or of logits with from_logits."""

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 reduction: str = Reduction.AUTO, name: str = "binary_crossentropy"):
        _last(axis, name)
        super().__init__(reduction, name)
        self._each = _Each.made("est_loss_value_binary_crossentropy", bool(from_logits), float(label_smoothing))


class CategoricalCrossentropy(Loss):
    """Against distributions."""

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 reduction: str = Reduction.AUTO, name: str = "categorical_crossentropy"):
        _last(axis, name)
        super().__init__(reduction, name)
        self._each = _Each.made("est_loss_value_categorical_crossentropy", bool(from_logits), float(label_smoothing))


class SparseCategoricalCrossentropy(Loss):
    """Against class numbers."""

    def __init__(self, from_logits: bool = False, ignore_class: _Any = None, reduction: str = Reduction.AUTO,
                 name: str = "sparse_categorical_crossentropy"):
        if ignore_class is not None:
            raise NotImplementedError("ignore_class does not exist yet; give sample weights of 0")
        super().__init__(reduction, name)
        self._each = _Each.made("est_loss_value_sparse_categorical_crossentropy", bool(from_logits))


class BinaryFocalCrossentropy(Loss):
    """Crossentropy that counts hard examples more."""

    def __init__(self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0,
                 from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 reduction: str = Reduction.AUTO, name: str = "binary_focal_crossentropy"):
        if label_smoothing:
            raise NotImplementedError("BinaryFocalCrossentropy: label_smoothing does not exist yet")
        _last(axis, name)
        super().__init__(reduction, name)
        self._each = _Each.made("est_loss_value_binary_focal_crossentropy", bool(from_logits),
                                float(_off(gamma)), float(_off(alpha)) if apply_class_balancing else 0.0)


class CategoricalFocalCrossentropy(Loss):
    """The same for classes."""

    def __init__(self, alpha: float = 0.25, gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                 axis: int = -1, reduction: str = Reduction.AUTO, name: str = "categorical_focal_crossentropy"):
        if label_smoothing:
            raise NotImplementedError("CategoricalFocalCrossentropy: label_smoothing does not exist yet")
        _last(axis, name)
        super().__init__(reduction, name)
        self._each = _Each.made("est_loss_value_categorical_focal_crossentropy", bool(from_logits),
                                float(_off(gamma)), float(_off(alpha)))


# --- functions --------------------------------------------------------------------------------------------------------


def _function(keras: str) -> _Callable:
    def function(y_true: _Any, y_pred: _Any) -> _Any:
        return _computed(_Each.named(keras).unaligned, (y_true, y_pred))

    function.__name__ = function.__qualname__ = keras
    function.__doc__ = f"{keras} of each example."
    return function


for _name in ("mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error",
              "mean_squared_logarithmic_error", "hinge", "squared_hinge", "categorical_hinge", "kl_divergence",
              "log_cosh", "poisson"):
    globals()[_name] = _function(_name)
mse = MSE = globals()["mean_squared_error"]
mae = MAE = globals()["mean_absolute_error"]
mape = MAPE = globals()["mean_absolute_percentage_error"]
msle = MSLE = globals()["mean_squared_logarithmic_error"]
kld = KLD = globals()["kl_divergence"]


@_eager
def _cosine(y_true: "Tensor", y_pred: "Tensor", axis: int) -> _Node:  # noqa: F821
    graph = next(item for item in (y_true, y_pred) if isinstance(item, _Node)).graph
    predictions = _as_node(y_pred, graph)
    labels = _ops.cast(_as_node(y_true, graph), predictions.dtype)
    labels, predictions = (_l2_normalize.over_nodes(one, axis) for one in (labels, predictions))
    return _ops.negative(_ops.reduce_sum(labels * predictions, axis))


def cosine_similarity(y_true: _Any, y_pred: _Any, axis: int = -1) -> _Any:
    """-1 where two vectors along the axis point the same way, 1 where they point opposite ways."""
    return _computed(_Each.named("cosine_similarity"), (y_true, y_pred)) if axis == -1 else _cosine(y_true, y_pred, axis)


def binary_crossentropy(y_true: _Any, y_pred: _Any, from_logits: bool = False, label_smoothing: float = 0.0,
                        axis: int = -1) -> _Any:
    """The mean crossentropy of each row."""
    _last(axis, "binary_crossentropy")
    return _computed(_Each.made("est_loss_value_binary_crossentropy", bool(from_logits),
                                float(label_smoothing)).unaligned, (y_true, y_pred))


def categorical_crossentropy(y_true: _Any, y_pred: _Any, from_logits: bool = False, label_smoothing: float = 0.0,
                             axis: int = -1) -> _Any:
    """The crossentropy of each row with a distribution."""
    _last(axis, "categorical_crossentropy")
    return _computed(_Each.made("est_loss_value_categorical_crossentropy", bool(from_logits), float(label_smoothing)),
                     (y_true, y_pred))


def sparse_categorical_crossentropy(y_true: _Any, y_pred: _Any, from_logits: bool = False, axis: int = -1) -> _Any:
    """The crossentropy of each row with a class."""
    _last(axis, "sparse_categorical_crossentropy")
    return _computed(_Each.made("est_loss_value_sparse_categorical_crossentropy", bool(from_logits)), (y_true, y_pred))


def huber(y_true: _Any, y_pred: _Any, delta: float = 1.0) -> _Any:
    """Squares of small errors, absolute values of large ones: the mean of each row."""
    return _dispatch(_Each.made("est_loss_value_huber", float(_off(delta))).unaligned, (y_true, y_pred), {}, _convert)


class _ByName(Loss):
    def __init__(self, name: str):
        super().__init__(Reduction.AUTO, name)
        self._each = _Each.named(name)


def _as_loss(identifier: _Any) -> _Any:
    """A Loss for compile."""
    if isinstance(identifier, str):
        return _ByName(identifier)
    found = get(identifier)
    return found if found is None or isinstance(found, Loss) else LossFunctionWrapper(found)


def get(identifier: _Any) -> _Any:
    """The function of a name, or a function or an object itself."""
    identifier = _made_of(identifier)
    if identifier is None or isinstance(identifier, Loss):
        return identifier
    if isinstance(identifier, str):
        _Each.named(identifier)  # an unknown name is an error here
        return globals()[identifier] if callable(globals().get(identifier)) else _function(identifier)
    if isinstance(identifier, type):
        return identifier()
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret loss function identifier: {identifier}")


serialize, deserialize = _by_module("losses")
__getattr__ = _module_getattr(__name__)
