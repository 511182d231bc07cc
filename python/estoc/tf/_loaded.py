# SPDX-License-Identifier: Apache-2.0
"""Objects that tf.saved_model.save of this package has written, as objects with variables and functions again.

functions.json, among the extra files of the SavedModel, says which variables the object had, by their attributes and by
their names in the files, and which signatures are traces of its functions. A loaded function is built into the graph of
whoever calls it: it has gradients, and changes the variables of the loaded object.
"""
from __future__ import annotations

import json
import os
from typing import Any

from .. import predictor
from .._lib import Keep, check, ffi, here, lib
from .._tensor import as_dtype
from ..checkpoint import load_checkpoint
from ..data import TensorSpec
from ..graph import Graph, Node, as_node, default_graph
from . import _structure
from ._absent import Named
from ._eager import Tensor, unwrap
from ._function import Function
from ._module import Module
from ._ragged import RaggedTensor
from ._trace import current_trace
from ._variable import Variable

FILE = os.path.join("assets.extra", "estoc", "functions.json")
SPLITS = "__row_splits"  # behind the name of an output whose rows they are
WRITES = "__writes__"  # the output of a trace that gives nothing and changes variables


def variables_of(root: Any) -> list[tuple[list, Variable]]:
    """The variables of an object with the attributes, keys and numbers that lead to them, each by the first way."""
    found: dict[int, tuple] = {}
    seen: set[int] = set()

    def walk(value: Any, path: list) -> None:
        if isinstance(value, Variable):
            if value._world is not None:
                found.setdefault(id(value), (path, value))
        elif isinstance(value, dict):
            for key in sorted(key for key in value if isinstance(key, str)):
                walk(value[key], [*path, {"key": key}])
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                walk(item, [*path, i])
        elif isinstance(value, Module) and id(value) not in seen or value is root:
            seen.add(id(value))
            for variable in getattr(value, "_own_weights", ()):  # of add_weight
                walk(variable, [*path, variable.name.rsplit("/", 1)[-1].split(":")[0]])
            for key, item in sorted(vars(value).items()):
                if not key.startswith("__"):
                    walk(item, [*path, key])

    walk(root, [])
    return list(found.values())


def constants_of(arguments: tuple, parameters: list) -> dict | None:
    """Of a trace the arguments that are numbers, texts or None, by their parameters; None: some can be in no file."""
    positional, named = arguments
    if len(positional) > len(parameters):
        return None
    found = {}
    for name, value in [*zip(parameters, positional), *named.items()]:
        leaves = _structure.flatten(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            found[name] = value
        elif not all(isinstance(leaf, TensorSpec) for leaf in leaves):
            return None
    return found


def parameters_of(function: Function) -> list | None:
    """The parameters of a function with their defaults as far as files can have them; None: it takes any number."""
    found = []
    for name, parameter in function._signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return None
        plain = parameter.default is None or isinstance(parameter.default, (bool, int, float, str))
        found.append({"name": name, "default": parameter.default} if plain else {"name": name})
    return found


def write(folder: str, variables: list, functions: dict, signatures: dict) -> None:
    """functions.json beside a SavedModel."""
    path = os.path.join(folder, FILE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"variables": variables, "functions": functions, "signatures": signatures}, file, indent=1)


class _Built:
    """A signature that is built into graphs over the variables of a loaded object. `keys` are its inputs, in the order in
    which they are given."""

    def __init__(self, owner: "Restored", signature: predictor.Signature, keys: list, told: dict):
        self._owner, self.name = owner, signature.name
        self.specs = [signature.inputs[key] for key in keys]
        self._given = sorted(range(len(keys)), key=lambda i: keys[i])
        self.outputs = list(signature.outputs)
        self._own_gradients = told.get("own_gradients", False)
        self._used: list[Variable] = []
        self.function = Function(self.build)
        self.function._is_users = True
        self.__name__ = self.name

    trainable_variables = property(lambda self: [v for v in self._used if v.trainable])

    def build(self, *values: Any) -> Any:
        """The signature in the graph that is built."""
        from ._custom_gradient import _variables_in
        graph = default_graph()
        nodes = [as_node(unwrap(value), graph, spec.dtype) for value, spec in zip(values, self.specs)]
        keep, out, writes = Keep(), ffi.new("est_node[]", len(self.outputs)), ffi.new("est_nodes *")
        handles = {name: _handle(variable, graph)._c for name, variable in self._owner.variables.items()}
        first = lib.est_graph_operations(graph._c)
        trace = current_trace()
        before = [] if trace is None else [node for several in trace.written.values() for node in several]
        here()
        with graph.after(before):
            check(lib.est_saved_model_call(
                self._owner.model._c, keep.string(self.name), graph._c,
                keep.span("est_nodes", "est_node", [nodes[i]._c for i in self._given]),
                keep.span("est_named_nodes", "est_named_node", [
                    {"name": keep.string(name), "node": handle} for name, handle in handles.items()]), out, writes))
        made = [Node(graph, writes[0].data[i]) for i in range(writes[0].n)]
        exported = getattr(graph, "writes", None)
        if made and trace is None and exported is None:
            raise NotImplementedError(f"{self.name} changes variables; call it outside of graphs, or in a tf.function")
        variables = _variables_in(graph, first, list(self._owner.variables.values()))
        self._used += [v for v in variables if not any(v is item for item in self._used)]
        for node in made:
            written = lib.est_node_input(node._c, 0).id
            names = [self._owner.variables[name]._name for name, handle in handles.items() if handle.id == written]
            if trace is not None:
                trace.add_write(names, node)
                trace.rereads = True  # outputs come after it: tapes go back through this very run
            for name in names if trace is None else ():
                exported.setdefault(name, []).append(node)
        results = {name: Node(graph, out[i]) for i, name in enumerate(self.outputs)}
        return self._packed(self._without_gradients(results) if self._own_gradients else results)

    def _packed(self, results: dict) -> Any:
        return results

    def _without_gradients(self, results: dict) -> dict:
        """The gradients that the program has given are in none of the files: an error where they are asked for."""
        from ._custom_gradient import custom_gradient

        @custom_gradient
        def known(*values: Any) -> Any:
            def gradients(*given: Any, **more: Any) -> Any:
                raise NotImplementedError(f"{self.name} has gradients of its own (tf.custom_gradient), which are in no "
                                          "SavedModel of this package: use the function of the program")

            return values, gradients

        return dict(zip(results, known(*results.values())))


class Signature(_Built):
    """A signature of a loaded object, whose variables it reads and changes."""

    def __init__(self, owner: "Restored", signature: predictor.Signature, told: dict):
        self.keys = sorted(signature.inputs)
        super().__init__(owner, signature, self.keys, told)

    def __call__(self, named: dict) -> dict:
        return self.function(*_converted([named[key] for key in self.keys], self.specs))

    def concrete(self) -> Any:
        """Its trace, for a SavedModel that is written again."""
        return self.function.get_concrete_function(*(
            TensorSpec(spec.shape, spec.dtype, key) for key, spec in zip(self.keys, self.specs)))


class _Trace(_Built):
    """One trace of a loaded function: a signature whose inputs are in the order of their names."""

    def __init__(self, owner: "Restored", signature: predictor.Signature, told: dict):
        keys = sorted(signature.inputs, key=_place)
        super().__init__(owner, signature, keys, told)
        self.names = [key[key.index("_") + 1:] for key in keys]
        self.told = told
        self._constants, self._parameters = told.get("constants", {}), told.get("parameters")

    def concrete(self) -> Any:
        return self.function.get_concrete_function(*(
            TensorSpec(spec.shape, spec.dtype, name) for name, spec in zip(self.names, self.specs)))

    def _packed(self, results: dict) -> Any:
        return _packed(results)

    def values(self, arguments: tuple, named: dict) -> list | None:
        """The tensors among arguments, in the order of the trace; None: they are not those of this trace."""
        if self._parameters is not None:
            bound = self._bound(arguments, named)
            if bound is None:
                return None
            arguments, named = bound
        given = _structure.flatten(arguments)
        if len(given) > len(self.names) or not set(named) <= set(self.names):
            return None
        values = dict(zip(self.names, _converted(given, self.specs)))
        values.update({key: _converted([value], [self.specs[self.names.index(key)]])[0]
                       for key, value in named.items()})
        if values.keys() != set(self.names) or not all(
                _fits(values[name], spec) for name, spec in zip(self.names, self.specs)):
            return None
        return [values[name] for name in self.names]

    def _bound(self, arguments: tuple, named: dict) -> tuple | None:
        """The arguments but those that the trace has as values, by their parameters; None: others."""
        names = [parameter["name"] for parameter in self._parameters]
        if len(arguments) > len(names) or set(named) & set(names[:len(arguments)]):
            return None
        values = {parameter["name"]: parameter["default"] for parameter in self._parameters if "default" in parameter}
        values.update({**dict(zip(names, arguments)), **named})
        for name, constant in self._constants.items():
            if name not in values or type(values[name]) is not type(constant) or values.pop(name) != constant:
                return None
        known = [values.pop(name) for name in names if name in values]
        return known, values


def _place(name: str) -> int:
    return int(name[3:name.index("_")])


def _handle(variable: Variable, graph: Graph) -> Any:
    """The handle of a variable, or of what stands for it."""
    if variable.graph is graph:
        return variable._handle
    variable._as_node(graph)  # what cannot be says so
    return variable.twin(graph)._handle


def _whole(results: dict) -> dict:
    """Outputs of which ragged ones are put together again."""
    found = {name: value for name, value in results.items() if SPLITS not in name}
    for name in sorted(name for name in results if SPLITS in name):
        key = name.split(SPLITS)[0]
        found[key] = RaggedTensor.from_row_splits(found[key], results[name])
    return found


def _packed(results: dict) -> Any:
    """One tensor, a tuple, or a dict, as the function gave it; None: nothing."""
    results = _whole(results)
    if list(results) == [WRITES]:
        return results[WRITES]
    if list(results) == ["output_0"]:
        return results["output_0"]
    if set(results) == {f"output_{i}" for i in range(len(results))}:
        return tuple(results[f"output_{i}"] for i in range(len(results)))
    return results


def _fits(value: Any, spec: Any) -> bool:
    shape = value.shape
    return as_dtype(value.dtype) == spec.dtype and (spec.shape is None or shape is None or len(spec.shape) == len(
        shape) and all(want is None or have is None or want == have for want, have in zip(spec.shape, shape)))


class RestoredFunction:
    """A function of a loaded object: the trace whose arguments these are runs."""

    def __init__(self, name: str, traces: list[_Trace]):
        self.__name__, self._traces = name, traces

    @property
    def concrete_functions(self) -> list:
        return [trace.function for trace in self._traces]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for trace in self._traces:
            values = trace.values(arguments, named)
            if values is not None:
                result = trace.function(*values)
                return None if trace.outputs == [WRITES] else result
        takes = [f"{trace.specs}{f' with {trace._constants}' if trace._constants else ''}" for trace in self._traces]
        raise ValueError(f"Could not find matching concrete function to call loaded from the SavedModel: {self.__name__} "
                         f"got {_structure.flatten((arguments, named))}, and takes {' or '.join(takes)}")


def _converted(values: list, specs: list) -> list:
    """Numbers and lists as tensors of the dtype that is asked for."""
    return [value if isinstance(value, (Tensor, Variable)) else Tensor(value) if hasattr(value, "dtype") else Tensor(
        value, spec.dtype) for value, spec in zip(values, specs)]


class Restored(Named):
    """What a SavedModel of this package has beside its signatures: variables by their attributes, and functions."""

    _where = "the loaded object"

    def __init__(self, model: predictor.SavedModel, told: dict):
        self.model = model
        self.variables: dict[str, Variable] = {}
        self.functions: dict[str, RestoredFunction] = {}
        self.attributes: dict[str, Any] = {}
        values = load_checkpoint(os.path.join(model.path, "variables", "variables")) if told["variables"] else None
        for one in told["variables"]:
            variable = Variable(values.get_tensor(one["node"]), trainable=one["trainable"], name=one["name"])
            variable._shown = one["name"] + ":0"
            self.variables[one["node"]] = variable
            if one["path"]:
                _set(self.attributes, one["path"], variable)
        for name, several in told["functions"].items():
            self.functions[name] = RestoredFunction(name, [
                _Trace(self, model.signatures[f"__function__/{name}/{i}"], trace) for i, trace in enumerate(several)])
        self._told = told.get("signatures", {})

    def signature(self, name: str) -> Signature:
        return Signature(self, self.model.signatures[name], self._told.get(name, {}))


class _Part(Module):
    """An object within the loaded one."""


def _set(attributes: dict, path: list, variable: Variable) -> None:
    """Puts a variable where its attributes, keys ({"key": ...}) and numbers lead."""
    place: Any = attributes
    for key, after in zip(path, [*path[1:], None]):
        made = variable if after is None else [] if isinstance(after, int) else {} if isinstance(
            after, dict) else _Part("part")
        if isinstance(place, list):
            place += [None] * (key + 1 - len(place))
            if place[key] is None:
                place[key] = made
            place = place[key]
        else:
            inside, name = (place, key["key"] if isinstance(key, dict) else key) if isinstance(place, dict) else (
                vars(place), key)
            place = inside.setdefault(name, made)


def read(model: predictor.SavedModel) -> Restored | None:
    """The object of a SavedModel; None: another program has written it."""
    path = os.path.join(model.path, FILE)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return Restored(model, json.load(file))


