# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1.saved_model: the graph of a session written as a SavedModel."""
from __future__ import annotations

import os as _os
from typing import Any as _Any
from typing import Mapping as _Mapping

from ...._lib import Keep as _Keep
from ...._lib import check as _check
from ...._lib import lib as _lib
from ....graph import Node as _Node
from ....predictor import Predictor as _Predictor
from ....predictor import SavedModel as _SavedModel
from ..._absent import module_getattr as _module_getattr
from ...saved_model import SERVING, TRAINING, contains_saved_model  # noqa: F401
from ...saved_model import load as load_v2  # noqa: F401
from ... import saved_model as _of_2
from . import _graph


LEGACY_INIT_OP_KEY, MAIN_OP_KEY = "legacy_init_op", "saved_model_main_op"
globals().update((_name, getattr(_of_2, _name)) for _name in _of_2.__all__ if _name.isupper())


class tag_constants:  # noqa: N801 - a module in TensorFlow
    """Tags of graphs."""

    SERVING, TRAINING, EVAL, GPU, TPU = SERVING, TRAINING, "eval", "gpu", "tpu"


class signature_constants:  # noqa: N801 - a module in TensorFlow
    """Names of signatures, and of what they take and give."""

    DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
    PREDICT_METHOD_NAME, PREDICT_INPUTS, PREDICT_OUTPUTS = "tensorflow/serving/predict", "inputs", "outputs"
    CLASSIFY_METHOD_NAME, CLASSIFY_INPUTS = "tensorflow/serving/classify", "inputs"
    CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
    REGRESS_METHOD_NAME, REGRESS_INPUTS, REGRESS_OUTPUTS = "tensorflow/serving/regress", "inputs", "outputs"


class TensorInfo:
    """A tensor of a signature."""

    def __init__(self, node: _Node):
        self.node, self.name, self.dtype, self.tensor_shape = node, node.name, node.dtype, node.shape


class SignatureDef:
    """What a request gives and gets, by name."""

    def __init__(self, inputs: _Mapping[str, TensorInfo] | None = None,
                 outputs: _Mapping[str, TensorInfo] | None = None, method_name: str = ""):
        self.inputs, self.outputs, self.method_name = dict(inputs or {}), dict(outputs or {}), method_name


def build_tensor_info(tensor: _Any) -> TensorInfo:
    """A tensor for a signature."""
    return TensorInfo(tensor)


def build_signature_def(inputs: _Any = None, outputs: _Any = None, method_name: str | None = None) -> SignatureDef:
    """A signature over what build_tensor_info has made."""
    return SignatureDef(inputs or {}, outputs or {}, method_name or signature_constants.PREDICT_METHOD_NAME)


def predict_signature_def(inputs: _Mapping[str, _Node], outputs: _Mapping[str, _Node]) -> SignatureDef:
    """A signature over tensors."""
    return build_signature_def({name: TensorInfo(node) for name, node in inputs.items()},
                               {name: TensorInfo(node) for name, node in outputs.items()})


class signature_def_utils:  # noqa: N801 - a module in TensorFlow
    """tf.compat.v1.saved_model.signature_def_utils"""

    build_signature_def = staticmethod(build_signature_def)
    predict_signature_def = staticmethod(predict_signature_def)


class utils:  # noqa: N801 - a module in TensorFlow
    """tf.compat.v1.saved_model.utils"""

    build_tensor_info = staticmethod(build_tensor_info)


class Builder:
    """Writes the graph of a session for serving. The directory must not exist, or be empty."""

    def __init__(self, export_dir: _Any):
        self._dir = _os.fspath(export_dir)
        if _os.path.isdir(self._dir) and _os.listdir(self._dir):
            raise AssertionError(f"Export directory already exists, and isn't empty. Please choose a different export "
                                 f"directory, or delete all the contents of the specified directory: {self._dir}")
        self._written = False

    def add_meta_graph_and_variables(self, sess: _Any, tags: _Any, signature_def_map: _Any = None,
                                     assets_list: _Any = None, clear_devices: bool = False, init_op: _Any = None,
                                     train_op: _Any = None, strip_default_attrs: bool = False,
                                     saver: _Any = None) -> None:
        """Writes the graph with the values that its variables have in the session."""
        if list(tags) != [SERVING]:
            raise NotImplementedError(f"a graph is written for serving, with the tag {SERVING!r} alone, not with "
                                      f"{list(tags)}")
        if assets_list or init_op is not None or train_op is not None:
            raise NotImplementedError("assets_list, init_op and train_op do not exist yet")
        other = [key for key, signature in (signature_def_map or {}).items()
                 if signature.method_name != signature_constants.PREDICT_METHOD_NAME]
        if other:
            raise NotImplementedError(f"signature {other[0]!r} is not one for prediction; estimators write those that "
                                      "classify")
        if not signature_def_map:
            raise NotImplementedError("a graph without a signature cannot be called; give signature_def_map")
        keep = _Keep()

        def named(infos: dict[str, TensorInfo]) -> _Any:
            return keep.span("est_named_nodes", "est_named_node", [
                {"name": keep.string(name), "node": info.node._c} for name, info in infos.items()])

        signatures = [{"name": keep.string(name), "inputs": named(signature.inputs),
                       "outputs": named(signature.outputs)} for name, signature in signature_def_map.items()]
        _check(_lib.est_export_graph(sess._c, keep.span("est_graph_signatures", "est_graph_signature", signatures),
                                     self._dir.encode()))
        self._written = True

    def add_meta_graph(self, tags: _Any, **named: _Any) -> None:
        raise NotImplementedError("a second graph in a SavedModel does not exist yet; write it into another directory")

    def save(self, as_text: bool = False) -> bytes:
        """The path of the file that is written."""
        if as_text:
            raise NotImplementedError("as_text does not exist yet")
        if not self._written:
            raise AssertionError("Graph state including variables and assets has not been saved yet. Please invoke "
                                 "`add_meta_graph_and_variables()` first.")
        return _os.path.join(self._dir, "saved_model.pb").encode()


class builder:  # noqa: N801 - a module in TensorFlow
    """tf.compat.v1.saved_model.builder"""

    SavedModelBuilder = Builder


def simple_save(session: _Any, export_dir: _Any, inputs: _Mapping[str, _Node], outputs: _Mapping[str, _Node],
                legacy_init_op: _Any = None) -> None:
    """Writes the graph of a session with one signature, "serving_default"."""
    made = Builder(export_dir)
    made.add_meta_graph_and_variables(session, [SERVING], {
        signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(inputs, outputs)},
        init_op=legacy_init_op)
    made.save()


class _Loaded:
    """A signature of a SavedModel in a graph: placeholders for its inputs and outputs, of which a run that needs an
    output computes these from those."""

    def __init__(self, graph: _Any, model: _SavedModel, signature: _Any):
        self._graph, self._model, self._name = graph, model, signature.name
        self._predictor: _Any = None
        self.inputs = {name: self._stand_in(signature, name, spec) for name, spec in signature.inputs.items()}
        self.outputs = {name: self._stand_in(signature, name, spec) for name, spec in signature.outputs.items()}

    def _stand_in(self, signature: _Any, name: str, spec: _Any) -> _Node:
        known, tensor = _graph.state_of(self._graph).loaded_tensors, signature.tensors[name]
        if tensor not in known:
            known[tensor] = self._graph.placeholder(tensor.partition(":")[0], spec.dtype, spec.shape)
        return known[tensor]

    def feed(self, nodes: list, feeds: dict) -> None:
        """Adds the outputs to the feeds of a run that needs some and has the inputs."""
        wanted = [node for node in self.outputs.values() if node not in feeds and
                  any(node is other or self._graph.needs([other], node) for other in nodes)]
        if not wanted or not all(node in feeds for node in self.inputs.values()):
            return
        if self._predictor is None:
            self._predictor = _Predictor(self._model, self._name)
        values = self._predictor({name: feeds[node] for name, node in self.inputs.items()})
        feeds.update((node, values[name]) for name, node in self.outputs.items())


class _MetaGraph:
    """What a loaded graph says of itself."""

    def __init__(self, signature_def: dict):
        self.signature_def = signature_def


class loader:  # noqa: N801 - a module in TensorFlow
    """tf.compat.v1.saved_model.loader"""

    @staticmethod
    def load(sess: _Any, tags: _Any, export_dir: _Any, import_scope: str | None = None) -> _Any:
        """Adds the inputs and outputs of a SavedModel's signatures to the graph of a session, for predictions; what is
        between them, and its variables, are not tensors of the graph."""
        if import_scope is not None:
            raise NotImplementedError("import_scope does not exist yet")
        model, found = _SavedModel(export_dir, [tags] if isinstance(tags, str) else list(tags)), {}
        for name, signature in model.signatures.items():
            if signature.error or not all(signature.tensors.values()):
                continue
            loaded = _Loaded(sess.graph, model, signature)
            _graph.state_of(sess.graph).loaded.append(loaded)
            made = build_signature_def({key: TensorInfo(node) for key, node in loaded.inputs.items()},
                                       {key: TensorInfo(node) for key, node in loaded.outputs.items()}, signature.method)
            for key, info in [*made.inputs.items(), *made.outputs.items()]:
                info.name = signature.tensors[key]
            found[name] = made
        return _MetaGraph(found)

    @staticmethod
    def maybe_saved_model_directory(export_dir: _Any) -> bool:
        return contains_saved_model(export_dir)


load = loader.load
__getattr__ = _module_getattr(__name__, {"main_op": "nothing: tables are filled"})
