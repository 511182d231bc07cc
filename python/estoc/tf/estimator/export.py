# SPDX-License-Identifier: Apache-2.0
"""tf.estimator.export: the input of an exported model, as functions that make placeholders describe it."""
from __future__ import annotations

from typing import Any, Callable, Mapping

from ... import _nest
from ... import estimator as _estimator
from ..._lib import Handle, Keep, callback, check, ffi, lib
from ..._tensor import as_dtype, c_shape
from ...data import TensorSpec
from ...estimator import ClassificationOutput, PredictOutput, RegressionOutput, ServingInput  # noqa: F401
from ...graph import Graph, Node, as_node
from ...layers import RaggedNode
from .._absent import module_getattr as _module_getattr


class ServingInputReceiver:
    """The features of a model, made by any operations of the placeholders that requests feed."""

    def __init__(self, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None):
        if receiver_tensors_alternatives:
            raise NotImplementedError("receiver_tensors_alternatives do not exist yet")
        self.features = dict(features) if isinstance(features, Mapping) else {"feature": features}
        self.receiver_tensors = dict(receiver_tensors) if isinstance(receiver_tensors, Mapping) else {
            "input": receiver_tensors}
        for name, node in self.receiver_tensors.items():
            if not isinstance(node, Node):
                raise ValueError(f"receiver_tensor {name} must be a Tensor.")


class TensorServingInputReceiver(ServingInputReceiver):
    """The same for a model_fn whose features are one tensor."""

    def __init__(self, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None):
        super().__init__(features, receiver_tensors, receiver_tensors_alternatives)
        self.features = features


class _Building(Graph):
    """The graph of a serving input while its function builds it. Placeholders that the receiver names become those of
    requests; which of the function's they are is known after it was called once."""

    def __init__(self, serving: Any, keys: dict[int, str]):
        super().__init__(_borrowed=lib.est_serving_graph(serving))
        self._serving, self._keys, self._count = serving, keys, 0

    def placeholder(self, name: str | None, dtype: Any, shape: Any = None) -> Node:
        key = self._keys.get(self._count)
        self._count += 1
        if key is None:
            return super().placeholder(name, dtype, shape)
        return self.node(lib.est_serving_placeholder(self._serving, key.encode(), as_dtype(dtype).number,
                                                     c_shape(shape)))


class _Counting(Graph):
    """A graph that knows the order of its placeholders."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[Node] = []

    def placeholder(self, name: str | None, dtype: Any, shape: Any = None) -> Node:
        self.order.append(super().placeholder(name, dtype, shape))
        return self.order[-1]


class _Built(ServingInput):
    """A serving input by a function."""

    parse = raw = None

    def __init__(self, receiver_fn: Callable, receiver: ServingInputReceiver, order: list[Node]):
        at = {node._c.id: i for i, node in enumerate(order)}
        missing = [name for name, node in receiver.receiver_tensors.items() if node._c.id not in at]
        if missing:
            raise ValueError(f"receiver_tensor {missing[0]} is no placeholder")
        self.keys = {at[node._c.id]: name for name, node in receiver.receiver_tensors.items()}
        self.receiver_fn = receiver_fn
        self.structure = _nest.structure(receiver.features)

    def _c(self, keep: Keep) -> Any:
        handle = Handle(self)
        keep.append(handle)
        struct = keep.new("est_serving_input *")
        struct.build, struct.user = lib.py_on_serving, handle.pointer
        return struct[0]


@callback("py_on_serving")
def _on_serving(serving: Any, user: Any) -> None:
    own = Handle.get(user)
    graph = _Building(serving, own.keys)
    with graph.as_default():
        receiver = own.receiver_fn()
    features = receiver.features
    for name, node in zip(_nest.names(own.structure), _nest.flatten(features)):
        if isinstance(node, RaggedNode):
            lib.est_serving_ragged(serving, name.encode(), ffi.new("est_ragged_node *", (node.values._c,
                                                                                         node.splits._c))[0])
        else:
            lib.est_serving_feature(serving, name.encode(), as_node(node, graph)._c)
    graph._close()
    check(lib.est_serving_status(serving))


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
    graph = _Counting()
    with graph.as_default():
        receiver = receiver_fn()
    if isinstance(receiver, ServingInput):
        return receiver
    if not isinstance(receiver, ServingInputReceiver):
        raise TypeError(f"a serving_input_receiver_fn returns a ServingInputReceiver, not {type(receiver).__name__}")
    return _Built(receiver_fn, receiver, graph.order)


def _exporter(cls: type) -> type:
    def __init__(self: Any, name: str, serving_input_receiver_fn: Callable, assets_extra: Any = None,
                 as_text: bool = False, exports_to_keep: int | None = 5) -> None:
        cls.__init__(self, name, serving_input(serving_input_receiver_fn), exports_to_keep=exports_to_keep,
                     assets_extra=assets_extra, as_text=as_text)

    return type(cls.__name__, (cls,), {"__init__": __init__, "__doc__": cls.__doc__,
                                                        "__module__": __name__})


LatestExporter = _exporter(_estimator.LatestExporter)


class FinalExporter(_estimator.FinalExporter):
    """Exports only at the end."""

    def __init__(self, name: str, serving_input_receiver_fn: Callable, assets_extra: Any = None, as_text: bool = False):
        super().__init__(name, serving_input(serving_input_receiver_fn), exports_to_keep=None,
                         assets_extra=assets_extra, as_text=as_text)


class BestExporter(_estimator.BestExporter):
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
           "RegressionOutput", "ServingInputReceiver", "TensorServingInputReceiver",
           "build_parsing_serving_input_receiver_fn", "build_raw_serving_input_receiver_fn"]
__getattr__ = _module_getattr(__name__)
