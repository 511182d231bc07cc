# SPDX-License-Identifier: Apache-2.0
"""tf.saved_model: objects with functions written as SavedModels, and SavedModels by their signatures.

A SavedModel that `save` writes has a signature for each of `signatures`, and one for each trace of the functions that
are attributes of the object: "__function__/<attribute>/<number>" with the arguments "arg0_<name>", ..., by which `load` gives them back.
"""
from __future__ import annotations

import logging as _logging
import os as _os
from typing import Any as _Any

import numpy as _np

from .. import predictor as _predictor
from .._lib import Keep as _Keep
from .._lib import check as _check
from .._lib import ffi as _ffi
from .._lib import lib as _lib
from .._lib import owned as _owned
from .._tensor import as_array as _as_array
from .._tensor import to_tensor as _to_tensor
from ..data import TensorSpec as _TensorSpec
from ..graph import Graph as _Graph
from ..graph import Node as _Node
from . import _loaded, _structure
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import unwrap as _unwrap
from ._ragged import RaggedTensor as _RaggedTensor
from ._function import ConcreteFunction as _ConcreteFunction
from ._function import Function as _Traced
from ._module import Module as _Module

SERVING = "serve"
TRAINING = "train"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
GPU, TPU = "gpu", "tpu"  # tags
PREDICT_METHOD_NAME, PREDICT_INPUTS, PREDICT_OUTPUTS = "tensorflow/serving/predict", "inputs", "outputs"
CLASSIFY_METHOD_NAME, CLASSIFY_INPUTS = "tensorflow/serving/classify", "inputs"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
REGRESS_METHOD_NAME, REGRESS_INPUTS, REGRESS_OUTPUTS = "tensorflow/serving/regress", "inputs", "outputs"
ASSETS_DIRECTORY, ASSETS_KEY, DEBUG_DIRECTORY, VARIABLES_DIRECTORY = "assets", "saved_model_assets", "debug", "variables"
DEBUG_INFO_FILENAME_PB, SAVED_MODEL_FILENAME_PB = "saved_model_debug_info.pb", "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT, VARIABLES_FILENAME, SAVED_MODEL_SCHEMA_VERSION = "saved_model.pbtxt", "variables", 1
_FUNCTION = "__function__/"
_logger = _logging.getLogger("tensorflow")


# --- saving -----------------------------------------------------------------------------------------------------------


def _functions_of(obj: _Any) -> dict[str, _Traced]:
    """The functions among the attributes of an object and of its class."""
    found = {}
    for owner in reversed(type(obj).__mro__):
        found.update({name: getattr(obj, name) for name, value in vars(owner).items() if isinstance(value, _Traced)})
    found.update({name: value for name, value in vars(obj).items() if isinstance(value, _Traced)})
    return {name: function for name, function in found.items() if function._is_users}  # layers have some of their own


def _concretes_of(function: _Traced) -> list[_ConcreteFunction]:
    """Traces that take tensors, numbers and texts only."""
    if function.input_signature is not None:
        return [function.get_concrete_function()]
    made = list({id(item): item for item in function._cache.values()}.values())
    return [item for item in made if _told_of(item) is not None]


def _told_of(concrete: _ConcreteFunction) -> dict | None:
    """What a file has of the arguments of a trace; None: they can be in no file."""
    parameters = _loaded.parameters_of(concrete._function)
    if all(isinstance(leaf, _TensorSpec) for leaf in _structure.flatten(concrete.arguments)):
        return {} if parameters is None else {"parameters": parameters, "constants": {}}
    if parameters is None:
        return None
    constants = _loaded.constants_of(concrete.arguments, [parameter["name"] for parameter in parameters])
    return None if constants is None else {"parameters": parameters, "constants": constants}


def _as_concrete(name: str, function: _Any) -> _ConcreteFunction:
    if isinstance(function, _Traced):
        if function.input_signature is None:
            raise ValueError(f"Expected a TensorFlow function for which to generate a signature, but got "
                             f"{function.__name__} for {name!r}. Python functions may be decorated with an "
                             "`input_signature` argument to `tf.function`, or a concrete function be given: "
                             "fn.get_concrete_function(tf.TensorSpec(...)).")
        return function.get_concrete_function()
    if isinstance(function, _Function) and function._built is not None:
        return function._built.concrete()
    if not isinstance(function, _ConcreteFunction):
        raise ValueError(f"Expected a TensorFlow function for which to generate a signature, but got {function!r} for "
                         f"{name!r}; decorate it with tf.function.")
    return function


def _signatures_of(obj: _Any, given: _Any) -> dict[str, _ConcreteFunction]:
    restored = getattr(obj, "_restored", None)
    if given is None and restored is not None:  # as in TensorFlow, those of a loaded object have to be given again
        return {}
    if given is None:
        single = [function for function in _functions_of(obj).values() if function.input_signature is not None and
                  any(isinstance(leaf, _Node) for leaf in _structure.flatten(
                      function.get_concrete_function().structured_outputs))]
        given = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: single[0]} if len(single) == 1 else {}
    elif not isinstance(given, dict):
        given = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: given}
    return {name: _as_concrete(name, function) for name, function in given.items()}


def _named_results(result: _Any) -> dict[str, _Node]:
    """Results by name: keys of a dict, or "output_0", ..."""
    if isinstance(result, _RaggedTensor) or isinstance(result, (list, tuple)) and any(
            isinstance(item, _RaggedTensor) for item in result):
        parts = result if isinstance(result, (list, tuple)) else [result]
        return {key: node for i, item in enumerate(parts) for key, node in _ragged_parts(f"output_{i}", item)}
    if isinstance(result, dict):
        if not all(isinstance(value, _Node) for value in result.values()):
            raise ValueError(f"Got a dictionary containing non-Tensor value {result!r}; a signature gives tensors by "
                             "name, or a sequence of them.")
        return dict(result)
    leaves = _structure.flatten(result)
    return {f"output_{i}": leaf for i, leaf in enumerate(leaves)}


def _ragged_parts(name: str, value: _Any) -> list:
    """An output by its tensors: of a ragged one the values and its splits, the innermost first."""
    if not isinstance(value, _RaggedTensor):
        return [(name, value)]
    return _ragged_parts(name, value.values) + [(f"{name}{_loaded.SPLITS}{value.ragged_rank}", value.row_splits)]


class _Export:
    """A graph in which functions are traced once more, with the variables that they read."""

    def __init__(self, root: _Any):
        self.root = root
        self.graph = _Graph()
        self.graph.twins, self.graph.twin_of = {}, {}
        self.graph.writes = {}
        self.told: dict[str, list] = {}  # function -> what functions.json has of its traces
        self.told_signatures: dict[str, dict] = {}
        self.keep = _Keep()
        self.signatures: list = []

    def add(self, name: str, concrete: _ConcreteFunction, told: dict) -> None:
        names = concrete.argument_names
        if name.startswith(_FUNCTION):  # which is first must be known when it is called again
            names = [f"arg{i}_{argument}" for i, argument in enumerate(names)]
        nodes: list[_Node] = []

        def placeholder(spec: _Any) -> _Any:
            if not isinstance(spec, _TensorSpec):
                return spec
            nodes.append(self.graph.placeholder(None, spec.dtype, spec.shape))
            return nodes[-1]

        self.graph.writes.clear()
        updates, own = _updates_of(self.graph), len(self.graph.keep)
        with self.graph.as_default():
            positional, named = _structure.map_structure(placeholder, concrete.arguments)
            try:
                result = concrete._function.python_function(*positional, **named)
            except Exception as why:
                _lib.est_graph_recover(self.graph._c)
                raise NotImplementedError(f"{concrete.name} cannot be written as a SavedModel: {why}") from why
            nodes_of = _structure.map_structure(lambda leaf: _as_node(leaf, self.graph), () if result is None else result)
            outputs = {key: _as_node(value, self.graph) for key, value in _named_results(nodes_of).items()}
        self.graph.check()
        writes = [node for several in self.graph.writes.values() for node in several]
        writes += [_Node(self.graph, _lib.est_update_ops(self.graph._c).data[i])
                   for i in range(updates, _updates_of(self.graph))]
        if not outputs and not writes:
            raise ValueError(f"{concrete.name} returns nothing; a signature has outputs")
        outputs = self._after(writes, outputs or {_loaded.WRITES: self.graph.constant(True)}) if writes else outputs
        told = {**told, "own_gradients": told.get("own_gradients", False) or any(
            _has_own_gradient(item) for item in self.graph.keep[own:])}
        if name.startswith(_FUNCTION):
            self.told.setdefault(name.split("/")[1], []).append(told)
        else:
            self.told_signatures[name] = told
        self.signatures.append({
            "name": self.keep.string(name), "inputs": self._named(dict(zip(names, nodes))),
            "outputs": self._named(outputs)})

    def _after(self, writes: list, outputs: dict) -> dict:
        """Outputs that are computed after what changes variables."""
        found = {}
        for key, node in outputs.items():
            found[key] = _Node(self.graph, _lib.est_identity(node._c))
            for write in writes:
                _lib.est_after(found[key]._c, write._c)
        self.graph.check()
        return found

    def tell(self, path: str) -> None:
        """Writes what load makes the object again from."""
        ways = {id(variable): way for way, variable in _loaded.variables_of(self.root)}
        _loaded.write(path, [
            {"node": twin._name, "name": variable.name.split(":")[0], "path": ways.get(id(variable), []),
             "trainable": bool(variable.trainable)} for twin, variable in self._pairs()], self.told,
            self.told_signatures)

    def _named(self, nodes: dict[str, _Node]) -> _Any:
        return self.keep.span("est_named_nodes", "est_named_node", [
            {"name": self.keep.string(name), "node": node._c} for name, node in nodes.items()])

    def write(self, path: str) -> None:
        out = _ffi.new("est_session **")
        _check(_lib.est_session_create(self.graph._c, self.keep.options(
            "est_session_options", threads=1, seed=1, devices=self.keep.strings(["/cpu:0"])), out))
        session = _owned(out[0], "est_session_free", parents=(self.graph,))
        _check(_lib.est_session_init(session))
        for twin, variable in self._pairs():
            _check(_lib.est_session_write(session, twin._bytes, _to_tensor(variable.numpy())))
        _check(_lib.est_export_graph(session, self.keep.span("est_graph_signatures", "est_graph_signature",
                                                             self.signatures), path.encode()))

    def _pairs(self) -> list:
        """Variables of the graph and those of the program that they stand for."""
        found = [(twin, self.graph.twin_of[id(twin)]) for twin in self.graph.twins.values()]
        for layer in _layers_with(self.graph):
            found += list(zip(layer._in_graphs[self.graph], layer._in_graphs.get(layer._world_now().graph, ())))
        return found


def _updates_of(graph: _Graph) -> int:
    return _lib.est_update_ops(graph._c).n


def _has_own_gradient(kept: _Any) -> bool:
    from ._custom_gradient import _InGraph
    return isinstance(getattr(kept, "value", None), _InGraph)


def _layers_with(graph: _Graph) -> list:
    """Layers that have variables in a graph."""
    from .keras._native import layers_in
    return layers_in(graph)


def _as_node(value: _Any, graph: _Graph) -> _Node:
    from ..graph import as_node
    from ._variable import Variable
    if isinstance(value, Variable):
        return value._as_node(graph)
    return as_node(_unwrap(value), graph)


def save(obj: _Any, export_dir: _Any, signatures: _Any = None, options: _Any = None) -> None:
    """Writes an object as a SavedModel: a Keras model for prediction, or the functions of a tf.Module. `signatures` is
    a tf.function with an input_signature, a concrete function, or a dict of them."""
    from .keras.models import Model
    path = _os.fspath(export_dir)
    if isinstance(obj, Model) and signatures is None and not _functions_of(obj):
        obj.save(path)
        return
    if not hasattr(obj, "__dict__"):
        raise ValueError(f"Expected an object of type `Trackable`, such as `tf.Module` or a subclass of the `Trackable` "
                         f"class, for export. Got {obj} with type {type(obj)}.")
    _write(obj, path, signatures)


def _write(obj: _Any, path: str, signatures: _Any) -> dict[int, str]:
    """Writes the functions and signatures of an object; gives the names in the files of its variables, by their id."""
    export = _Export(obj)
    for name, concrete in _signatures_of(obj, signatures).items():
        export.add(name, concrete, {})
    for name, function in _functions_of(obj).items():
        concretes = _concretes_of(function)
        if any(concrete not in concretes for concrete in function._cache.values()):
            _logger.warning("saved_model.save: traces of %s with arguments that are neither tensors nor numbers or texts "
                            "are not in %s, and its function there cannot be called with such; give them as tensors, or "
                            "save a function of the others with an input_signature for each value", name, path)
        for i, concrete in enumerate(concretes):
            export.add(f"{_FUNCTION}{name}/{i}", concrete, _told_of(concrete) or {})
    for name, restored in getattr(getattr(obj, "_restored", None), "functions", {}).items():  # of a loaded object
        for i, trace in enumerate(restored._traces):
            export.add(f"{_FUNCTION}{name}/{i}", trace.concrete(), trace.told)
    if not export.signatures:
        raise NotImplementedError("there is no function to write: call a tf.function of the object once, give it an "
                                  "input_signature, or name signatures; variables alone are a tf.train.Checkpoint")
    for _, variable in _loaded.variables_of(obj):  # also those that no function reads
        if not any(variable is known for _, known in export._pairs()):
            variable.twin(export.graph)
    export.write(path)
    export.tell(path)
    return {id(variable): twin._name for twin, variable in export._pairs()}


# --- loading ----------------------------------------------------------------------------------------------------------


def _specs(specs: dict) -> dict[str, _TensorSpec]:
    return {name: _TensorSpec(spec.shape, spec.dtype, name) for name, spec in specs.items()}


class _Function:
    """A signature as a function of tensors by their names."""

    def __init__(self, model: _predictor.SavedModel, signature: _predictor.Signature, restored: _Any = None):
        self._built = None if restored is None else restored.signature(signature.name)
        self._predictor = _predictor.Predictor(model, signature.name) if restored is None else None
        self.inputs, self.outputs = _specs(signature.inputs), _specs(signature.outputs)
        self.name = signature.name
        self.structured_input_signature = ((), self.inputs)
        self.structured_outputs = self.outputs

    def __call__(self, *arguments: _Any, **named: _Any) -> dict[str, _Tensor]:
        if arguments:
            if len(arguments) != 1 or len(self.inputs) != 1 or named:
                raise TypeError(f"{self.name}() takes its inputs by name: {', '.join(self.inputs)}")
            named = {next(iter(self.inputs)): arguments[0]}
        missing = sorted(set(self.inputs) - set(named))
        unknown = sorted(set(named) - set(self.inputs))
        if missing or unknown:
            raise TypeError(f"{self.name}() takes {', '.join(self.inputs)}; missing: "
                            f"{', '.join(missing) or 'none'}, unknown: {', '.join(unknown) or 'none'}")
        if self._built is not None:  # over the variables of the loaded object, which it may change
            return self._built(named)
        if any(isinstance(value, _Node) for value in named.values()):
            raise NotImplementedError(f"{self.name} of a SavedModel runs by itself and is no part of a tf.function: call "
                                      "it, or strategy.run it, outside of one")
        inputs = {name: _as_array(_unwrap(value)) for name, value in named.items()}
        values = self._no_rows(inputs) or self._predictor(inputs)
        return {name: _Tensor(value) for name, value in values.items()}

    def _no_rows(self, inputs: dict) -> dict:
        """What an empty batch gives, as a replica may get one; {}: there are rows, or shapes are not known."""
        shapes = {name: tuple(spec.shape or ()) for name, spec in self.outputs.items()}
        if not any(array.ndim > 0 and array.shape[0] == 0 for array in inputs.values()) or not all(
                shape and shape[0] is None and None not in shape[1:] for shape in shapes.values()):
            return {}
        return {name: _np.empty((0,) + shapes[name][1:], spec.dtype.as_numpy_dtype)
                for name, spec in self.outputs.items()}

    def __repr__(self) -> str:
        return f"<signature {self.name}({', '.join(self.inputs)})>"


class _Signatures(dict):
    """Signatures by name; one that needs an operation that does not exist says so when it is asked for."""

    def __init__(self, model: _predictor.SavedModel, restored: _Any):
        self._model, self._restored = model, restored
        super().__init__({name: None for name in model.signatures if not name.startswith(_FUNCTION)})

    def __getitem__(self, name: str) -> _Function:
        if name not in self:
            raise KeyError(name)
        found = super().__getitem__(name)
        if found is None:
            found = _Function(self._model, self._model.signatures[name], self._restored)
            super().__setitem__(name, found)
        return found

    def get(self, name: str, default: _Any = None) -> _Any:
        return self[name] if name in self else default

    def items(self) -> _Any:
        return [(name, self[name]) for name in self]

    def values(self) -> _Any:
        return [self[name] for name in self]


class Loaded(_Module):
    """What tf.saved_model.load gives: signatures, and the variables and functions of an object that `save` has written.
    Of a SavedModel of another program the variables are not there."""

    def __init__(self, model: _predictor.SavedModel):
        super().__init__("loaded")
        self._model = model
        self._restored = restored = _loaded.read(model)
        self.signatures = _Signatures(model, restored)
        if restored is not None:
            vars(self).update(restored.attributes)
            vars(self).update({name if name != "__call__" else "_call": function
                               for name, function in restored.functions.items()})

    @property
    def variables(self) -> list:
        """All variables of the object."""
        if self._restored is None:
            raise NotImplementedError("the variables of a SavedModel that another program has written are in its "
                                      "predictions only; tf.train.load_checkpoint reads their values")
        return list(self._restored.variables.values())

    @property
    def trainable_variables(self) -> list:
        return [variable for variable in self.variables if variable.trainable]

    def __call__(self, *arguments: _Any, **named: _Any) -> _Any:
        """The function __call__ of the object, or the signature "serving_default" by the order of its inputs."""
        if "_call" in self.__dict__:
            return self._call(*arguments, **named)
        function = self.signatures.get(DEFAULT_SERVING_SIGNATURE_DEF_KEY)
        if function is None:
            raise TypeError(f"the object has no function __call__ and no signature "
                            f"{DEFAULT_SERVING_SIGNATURE_DEF_KEY}; there are: {', '.join(self.signatures)}")
        if named.pop("training", None):
            raise NotImplementedError("a SavedModel that is loaded predicts; training=True does not exist")
        leaves = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], dict) else dict(
            zip(function.inputs, _structure.flatten(arguments)))
        results = function(**{name: _as_array(_unwrap(value), function.inputs[name].dtype)
                              for name, value in {**leaves, **named}.items()})
        return next(iter(results.values())) if len(results) == 1 else results

    def serve(self, *arguments: _Any, **named: _Any) -> _Any:
        """What Model.export has written, under Keras' name."""
        return self(*arguments, **named)


def _local(device: str | None) -> None:
    if device is not None and "localhost" not in device:
        raise NotImplementedError(f"files are read and written by this process, not by {device}")


class SaveOptions:
    """Options of save. Files are written by this process, which "/job:localhost" names. Gradients of tf.custom_gradient
    are in no file; a loaded function says so when it is asked for them."""

    def __init__(self, experimental_io_device: str | None = None, experimental_custom_gradients: bool = True):
        _local(experimental_io_device)
        self.experimental_io_device = experimental_io_device
        self.experimental_custom_gradients = experimental_custom_gradients


class LoadOptions:
    """Options of load. Files are read by this process, which "/job:localhost" names."""

    def __init__(self, experimental_io_device: str | None = None):
        _local(experimental_io_device)
        self.experimental_io_device = experimental_io_device


def load(export_dir: _Any, tags: _Any = None, options: LoadOptions | None = None) -> Loaded:
    """Loads a SavedModel."""
    tags = [tags] if isinstance(tags, str) else list(tags or [])
    return Loaded(_predictor.SavedModel(export_dir, tags))


def contains_saved_model(export_dir: _Any) -> bool:
    """Whether the directory is a SavedModel."""
    return any(_os.path.exists(_os.path.join(_os.fspath(export_dir), name))
               for name in ("saved_model.pb", "saved_model.pbtxt"))


__all__ = ["LoadOptions", "SaveOptions", "contains_saved_model", "load", "save"] + [
    _name for _name in list(globals()) if _name.isupper() and not _name.startswith("_")]
__getattr__ = _module_getattr(__name__)
