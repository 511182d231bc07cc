# SPDX-License-Identifier: Apache-2.0
"""tf.estimator.export: the input of an exported model, as functions that make placeholders describe it."""
from __future__ import annotations

from typing import Any, Callable, Mapping

from ... import estimator as _estimator
from ...data import TensorSpec
from ...estimator import ClassificationOutput, PredictOutput, RegressionOutput, ServingInput  # noqa: F401
from ...graph import Graph, Node
from .._absent import module_getattr as _module_getattr


class ServingInputReceiver:
    """The features of a model and the placeholders that requests feed. A feature is a placeholder, or for canned models
    one with an axis added at its end by tf.expand_dims; other operations between the two do not exist yet."""

    def __init__(self, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None):
        if receiver_tensors_alternatives:
            raise NotImplementedError("receiver_tensors_alternatives do not exist yet")
        if not isinstance(features, Mapping) or not isinstance(receiver_tensors, Mapping):
            raise NotImplementedError("features and receiver_tensors are dicts; single tensors do not exist yet")
        self.features = dict(features)
        self.receiver_tensors = dict(receiver_tensors)


class _Expanded(ServingInput):
    """A raw serving input some of whose features get an axis at their end."""

    expanded: frozenset = frozenset()


def build_parsing_serving_input_receiver_fn(feature_spec: Mapping[str, Any],
                                            default_batch_size: int | None = None) -> Callable:
    """Serialized tf.train.Examples with these features."""
    if default_batch_size is not None:
        raise NotImplementedError("default_batch_size does not exist yet")
    return lambda: ServingInput.parsing(feature_spec)


def build_raw_serving_input_receiver_fn(features: Mapping[str, Any], default_batch_size: int | None = None) -> Callable:
    """An array for each feature; values are tensors or specs, whose first axis is the batch."""
    if default_batch_size is not None:
        raise NotImplementedError("default_batch_size does not exist yet")
    return lambda: ServingInput(raw={name: TensorSpec((None,) + tuple(value.shape[1:]), value.dtype)
                                     for name, value in features.items()})


def serving_input(receiver_fn: Any) -> ServingInput:
    """What a serving_input_receiver_fn describes."""
    if isinstance(receiver_fn, ServingInput):
        return receiver_fn
    graph = Graph()
    graph.expanded = {}
    with graph.as_default():
        receiver = receiver_fn()
    if isinstance(receiver, ServingInput):
        return receiver
    if not isinstance(receiver, ServingInputReceiver):
        raise TypeError(f"a serving_input_receiver_fn returns a ServingInputReceiver, not {type(receiver).__name__}")
    raw, expanded = {}, set()
    for name, node in receiver.features.items():
        placeholder = receiver.receiver_tensors.get(name)
        if not isinstance(node, Node) or not isinstance(placeholder, Node):
            raise NotImplementedError(f"feature {name!r} is not made of a placeholder of the same name")
        if node._c.id != placeholder._c.id:
            if graph.expanded.get(node._c.id) != placeholder._c.id or len(placeholder.shape) != 1:
                raise NotImplementedError(
                    f"feature {name!r} is computed from its placeholder by an operation; only tf.expand_dims(x, -1) of "
                    "a placeholder of shape [None] exists: put other operations into the model_fn")
            expanded.add(name)
        raw[name] = TensorSpec(placeholder.shape, placeholder.dtype)
    extra = set(receiver.receiver_tensors) - set(receiver.features)
    if extra:
        raise NotImplementedError(f"placeholders that are no features: {', '.join(sorted(extra))}")
    made = _Expanded(raw=raw)
    made.expanded = frozenset(expanded)
    return made


def check_features(estimator: Any, serving: ServingInput) -> None:
    """Columns read [batch] and [batch, 1] alike; a model_fn does not."""
    if getattr(serving, "expanded", None) and not getattr(estimator, "_is_canned", False):
        raise NotImplementedError("tf.expand_dims in a serving_input_receiver_fn exists for canned estimators; in "
                                  "others call it in the model_fn")


class ReceiverExporter(_estimator.Exporter):
    """An exporter that was given a serving_input_receiver_fn."""


def _exporter(cls: type) -> type:
    def __init__(self: Any, name: str, serving_input_receiver_fn: Callable, assets_extra: Any = None,
                 as_text: bool = False, exports_to_keep: int | None = 5) -> None:
        cls.__init__(self, name, serving_input(serving_input_receiver_fn), exports_to_keep=exports_to_keep,
                     assets_extra=assets_extra, as_text=as_text)

    return type(cls.__name__, (cls, ReceiverExporter), {"__init__": __init__, "__doc__": cls.__doc__,
                                                        "__module__": __name__})


LatestExporter = _exporter(_estimator.LatestExporter)


class FinalExporter(_estimator.FinalExporter, ReceiverExporter):
    """Exports only at the end."""

    def __init__(self, name: str, serving_input_receiver_fn: Callable, assets_extra: Any = None, as_text: bool = False):
        super().__init__(name, serving_input(serving_input_receiver_fn), exports_to_keep=None,
                         assets_extra=assets_extra, as_text=as_text)


class BestExporter(_estimator.BestExporter, ReceiverExporter):
    """Exports when the evaluation is the best so far; by the loss, or by compare_fn(best_eval_result,
    current_eval_result)."""

    def __init__(self, name: str = "best_exporter", serving_input_receiver_fn: Any = None,
                 event_file_pattern: str = "eval/*.tfevents.*", compare_fn: Callable | None = None,
                 assets_extra: Any = None, as_text: bool = False, exports_to_keep: int | None = 5):
        if serving_input_receiver_fn is None:
            raise ValueError("serving_input_receiver_fn is needed")

        def compare(best: Any, current: Any) -> bool:
            return compare_fn(best_eval_result=best, current_eval_result=current)

        super().__init__(name, serving_input(serving_input_receiver_fn), compare if compare_fn is not None else None,
                         exports_to_keep=exports_to_keep, event_file_pattern=event_file_pattern,
                         assets_extra=assets_extra, as_text=as_text)


__all__ = ["BestExporter", "ClassificationOutput", "FinalExporter", "LatestExporter", "PredictOutput",
           "RegressionOutput", "ServingInputReceiver", "build_parsing_serving_input_receiver_fn",
           "build_raw_serving_input_receiver_fn"]
__getattr__ = _module_getattr(__name__)
