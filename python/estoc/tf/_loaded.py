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
from ..errors import UnimplementedError
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
                walk(value[key], [*path, key])
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


def write(folder: str, variables: list, functions: dict) -> None:
    """functions.json beside a SavedModel."""
    path = os.path.join(folder, FILE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"variables": variables, "functions": functions}, file, indent=1)


class _Trace:
    """One trace of a loaded function: a signature whose inputs are in the order of their names."""

    def __init__(self, owner: "Restored", signature: predictor.Signature, told: dict):
        self._owner, self.name = owner, signature.name
        self.specs = [signature.inputs[key] for key in sorted(signature.inputs, key=_place)]
        self.names = [key[key.index("_") + 1:] for key in sorted(signature.inputs, key=_place)]
        self._given = sorted(range(len(self.specs)), key=lambda i: sorted(signature.inputs, key=_place)[i])
        self.outputs = list(signature.outputs)
        self._own_gradients = told["own_gradients"]
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
        first = lib.est_graph_operations(graph._c)
        trace = current_trace()
        before = [] if trace is None else [node for several in trace.written.values() for node in several]
        here()
        with graph.after(before):
            try:
                check(lib.est_saved_model_call(
                    self._owner.model._c, keep.string(self.name), graph._c,
                    keep.span("est_nodes", "est_node", [nodes[i]._c for i in self._given]),
                    keep.span("est_named_nodes", "est_named_node", [
                        {"name": keep.string(name), "node": _handle(variable, graph)._c}
                        for name, variable in self._owner.variables.items()]), out, writes))
            except UnimplementedError as error:
                if "is a table" not in error.message:
                    raise
                raise UnimplementedError(f"{error.message}: {self.name.split('/')[1]} looks up a table, which only a "
                                         "signature can after load; save it with signatures={...} and call "
                                         "loaded.signatures[...]") from None
        made = [Node(graph, writes[0].data[i]) for i in range(writes[0].n)]
        if made and trace is None:
            raise NotImplementedError(f"{self.name} changes variables; call it outside of graphs, or in a tf.function")
        variables = _variables_in(graph, first, list(self._owner.variables.values()))
        self._used += [v for v in variables if not any(v is item for item in self._used)]
        for node in made:
            handle = lib.est_node_input(node._c, 0).id
            names = [v._name for v in self._owner.variables.values() if v._handle._c.id == handle]
            trace.add_write(names, node)
        results = {name: Node(graph, out[i]) for i, name in enumerate(self.outputs)}
        return _packed(self._without_gradients(results) if self._own_gradients else results)

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
        given = _structure.flatten(arguments)
        for trace in self._traces:
            values = dict(zip(trace.names, _converted(given, trace.specs)))
            values.update({key: _converted([value], [trace.specs[trace.names.index(key)]])[0]
                           for key, value in named.items() if key in trace.names})
            known = len(given) <= len(trace.names) and set(named) <= set(trace.names)
            if known and values.keys() == set(trace.names) and all(
                    _fits(values[name], spec) for name, spec in zip(trace.names, trace.specs)):
                values = [values[name] for name in trace.names]
                result = trace.function(*values)
                return None if trace.outputs == [WRITES] else result
        raise ValueError(f"Could not find matching concrete function to call loaded from the SavedModel: {self.__name__} "
                         f"got {given}, and takes "
                         f"{' or '.join(str(trace.specs) for trace in self._traces)}")


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


class _Part:
    """An object within the loaded one."""


def _set(attributes: dict, path: list, variable: Variable) -> None:
    """Puts a variable where its attributes, keys and numbers lead."""
    place: Any = attributes
    for key, after in zip(path, [*path[1:], None]):
        made = variable if after is None else [] if isinstance(after, int) else _Part()
        if isinstance(place, list):
            place += [None] * (key + 1 - len(place))
            if place[key] is None:
                place[key] = made
            place = place[key]
        else:
            inside = place if isinstance(place, dict) else vars(place)
            place = inside.setdefault(key, made)


def read(model: predictor.SavedModel) -> Restored | None:
    """The object of a SavedModel; None: another program has written it."""
    path = os.path.join(model.path, FILE)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return Restored(model, json.load(file))


