# SPDX-License-Identifier: Apache-2.0
"""Graphs as TensorFlow keeps them: .meta files beside checkpoints (MetaGraphDef) and graphs alone (GraphDef)."""
from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from typing import Any, Iterator, Mapping

import numpy as np

from ...._lib import Keep, check, ffi, lib, owned, text
from ....graph import Node
from ....graph import Variable as _Variable
from ..._absent import Named
from . import _graph
from ._graph import Graph, state_of

_logger = logging.getLogger("tensorflow")
_GRAPH_DEF = 2  # the field of a MetaGraphDef that is a GraphDef
_VARIABLES = ("model_variables", "moving_average_variables", "metric_variables")  # collections whose nodes are variables


# --- messages ---------------------------------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: numbers, and bytes of what has a length."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 2:
            size, at = _varint(data, at)
            value, at = data[at:at + size], at + size
        else:
            size = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def _length(size: int) -> bytes:
    found = bytearray()
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes([*found, size])


class NodeDef:
    """One operation of a GraphDef."""

    def __init__(self, data: bytes):
        self.name = self.op = self.device = ""
        self.input: list[str] = []  # noqa: A003 - its name in TensorFlow
        for field, value in _fields(data):
            if field == 3:
                self.input.append(value.decode())
            elif field in (1, 2, 4):
                setattr(self, {1: "name", 2: "op", 4: "device"}[field], value.decode())

    def __repr__(self) -> str:
        return f"NodeDef(name={self.name!r}, op={self.op!r}, input={self.input!r})"


class _Bytes(Named):
    """A message that is carried as it is."""

    def __init__(self, data: bytes = b""):
        self._data = bytes(data)

    def SerializeToString(self, deterministic: Any = None) -> bytes:  # noqa: N802 - its name in protobuf
        return self._data

    def ParseFromString(self, serialized: bytes) -> int:  # noqa: N802
        for _ in _fields(serialized):  # damage is found here, not when the graph is used
            pass
        self._data = bytes(serialized)
        return len(self._data)

    @classmethod
    def FromString(cls, s: bytes) -> Any:  # noqa: N802
        made = cls()
        made.ParseFromString(s)
        return made

    def ByteSize(self) -> int:  # noqa: N802
        return len(self._data)

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and other._data == self._data


class GraphDef(_Bytes):
    """A graph as bytes, with the names of its operations."""

    _where = "tf.compat.v1.GraphDef"

    @property
    def node(self) -> list[NodeDef]:
        return [NodeDef(value) for field, value in _fields(self._data) if field == 1]


class MetaGraphDef(_Bytes):
    """A graph as bytes, with its collections and its saver."""

    _where = "tf.compat.v1.MetaGraphDef"

    @property
    def graph_def(self) -> GraphDef:
        return GraphDef(b"".join(value for field, value in _fields(self._data) if field == _GRAPH_DEF))


# --- reading ----------------------------------------------------------------------------------------------------------


def _check_builds(name: str) -> None:
    if _graph.computes_at_once():
        raise RuntimeError(f"{name} is not supported when eager execution is enabled. No graph exists when eager "
                           "execution is enabled: use it within tf.Graph().as_default()")


class Imported:
    """What an imported file has beside its graph."""

    def __init__(self, graph: Graph, path: str, scope: str | None):
        keep, out = Keep(), ffi.new("est_meta_graph **")
        state_of(graph)
        status = lib.est_meta_graph_import(graph._c, path.encode(), keep.options(
            "est_meta_graph_options", scope=keep.string(scope) if scope else ffi.NULL), out)
        if status != 0:
            graph.check()
        check(status)
        self._c = owned(out[0], "est_meta_graph_free")
        self.graph, self.keep_max = graph, int(lib.est_meta_graph_keep_max(self._c))
        self._tell_missing()
        self._name_values()
        saved = lib.est_meta_graph_saved(self._c)
        self.saved = {text(saved.data[i].name): graph._variable(saved.data[i].node) for i in range(saved.n)}

    def _tell_missing(self) -> None:
        missing, ops = lib.est_meta_graph_missing(self._c), set()
        for i in range(missing.n):
            one = missing.data[i]
            state_of(self.graph).missing[text(one.name)] = text(one.error)
            if not one.saves:
                ops.add(text(one.op))
        if ops:
            _logger.warning("of the imported graph these operations, and those that need them, are left out: %s. What is "
                            "left out raises when it is asked for by its name.", ", ".join(sorted(ops)))

    def _name_values(self) -> None:
        """In TensorFlow 1 the tensor of a variable is its value."""
        graph = self.graph
        trained = {variable._c.id for variable in graph.trainable_variables}
        for variable in graph.global_variables + graph.local_variables:
            variable.trainable = variable._c.id in trained
            state_of(graph).loaded_tensors.setdefault(variable.name, variable._snapshot)

    def collect(self) -> None:
        """Puts what the file has in collections into those of the graph."""
        lists = lib.est_meta_graph_collections(self._c)
        for i in range(lists.n):
            one = lists.data[i]
            key = text(one.name)
            values: list[Any] = [self._element(key, text(one.nodes.data[k])) for k in range(one.nodes.n)]
            values += [ffi.string(one.texts.data[k]) for k in range(one.texts.n)]
            values += [int(one.ints.data[k]) for k in range(one.ints.n)]
            values += [float(one.floats.data[k]) for k in range(one.floats.n)]
            state_of(self.graph).collections.setdefault(key, []).extend(
                value for value in values if value is not None)

    def _element(self, key: str, name: str) -> Any:
        if key in _VARIABLES:
            return self.graph._variable(lib.est_graph_find(self.graph._c, name.partition(":")[0].encode()))
        if name.partition(":")[0] in state_of(self.graph).missing:
            return None  # the log has named it
        return self.graph.as_graph_element(name)


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".meta") as file:
        file.write(data)
        file.flush()
        yield file.name


def import_meta_graph(meta_graph_or_file: Any, clear_devices: bool = False, import_scope: str | None = None,
                      **kwargs: Any) -> Any:
    """Adds the graph of a .meta file, with its variables and collections, and returns the Saver of its checkpoints;
    None: it has no variables. Operations run on the devices of the session, whatever the file says."""
    from ._saver import Saver

    if kwargs:
        raise NotImplementedError(f"import_meta_graph: {', '.join(sorted(kwargs))} do not exist yet")
    _check_builds("Exporting/importing meta graphs")
    graph = _graph.get_default_graph()
    if isinstance(meta_graph_or_file, MetaGraphDef):
        with _as_file(meta_graph_or_file.SerializeToString()) as path:
            made = Imported(graph, path, import_scope)
    else:
        path = os.fspath(meta_graph_or_file)
        if not os.path.exists(path):
            raise OSError(f"File {path} does not exist.")
        made = Imported(graph, path, import_scope)
    made.collect()
    if made.saved:
        return Saver(made.saved, max_to_keep=made.keep_max)
    return Saver() if graph.global_variables else None


def import_graph_def(graph_def: Any, input_map: Any = None, return_elements: Any = None, name: str | None = None,
                     op_dict: Any = None, producer_op_list: Any = None) -> Any:
    """Adds the operations of a GraphDef in the scope `name` ("import"); "": under the names that they have there."""
    if input_map:
        raise NotImplementedError("import_graph_def: input_map does not exist yet; feed the tensors of the graph")
    _check_builds("import_graph_def")
    graph, data = _graph.get_default_graph(), graph_def.SerializeToString()
    scope = _graph._unique(graph, "import" if name is None else name) if name != "" else None
    with _as_file(bytes([_GRAPH_DEF << 3 | 2]) + _length(len(data)) + data) as path:
        Imported(graph, path, scope)
    if return_elements is None:
        return None
    prefix = f"{scope}/" if scope else ""
    return [graph.as_graph_element(prefix + element) for element in return_elements]


# --- writing ----------------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return "texts"
    if isinstance(value, (bool, int, np.integer)):
        return "ints"
    return "floats" if isinstance(value, (float, np.floating)) else "nodes"


def _collections(graph: Graph, keep: Keep) -> list[dict]:
    """Those of the program, as far as a file can have them."""
    found = []
    for key, values in state_of(graph).collections.items():
        kinds = {_kind(value) for value in values}
        if len(kinds) != 1 or kinds == {"nodes"} and not all(type(value) in (_graph.Tensor, _graph.Operation)
                                                             for value in values):
            if values:
                _logger.warning("Error encountered when serializing %s. Type is unsupported, or the types of the items "
                                "don't match field type in CollectionDef.", key)
            continue
        kind = kinds.pop()
        one: dict[str, Any] = {"name": keep.string(key)}
        if kind == "nodes":
            one[kind] = keep.strings([value.name for value in values])
        elif kind == "texts":
            one[kind] = keep.strings([value.decode() if isinstance(value, bytes) else value for value in values])
        else:
            one[kind] = keep.i64s(values) if kind == "ints" else keep.f32s(values)
        found.append(one)
    return found


def write(graph: Graph, path: str, saved: Mapping[str, _Variable], keep_max: int) -> None:
    """Writes a graph as a .meta file, whose saver has these variables."""
    keep = Keep()
    check(lib.est_meta_graph_write(graph._c, keep.options(
        "est_meta_graph_write_options", keep_max=keep_max,
        saved=keep.span("est_named_nodes", "est_named_node", [
            {"name": keep.string(name), "node": variable._c} for name, variable in saved.items()]),
        collections=keep.span("est_meta_collections", "est_meta_collection", _collections(graph, keep))), path.encode()))


def export(graph: Graph, filename: Any, saved: Mapping[str, _Variable], keep_max: int) -> MetaGraphDef:
    """The graph as a message, which is written too if there is a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "meta")
        write(graph, path, saved, keep_max)
        with open(path, "rb") as file:
            made = MetaGraphDef(file.read())
    if filename:
        with open(os.fspath(filename), "wb") as file:
            file.write(made.SerializeToString())
    return made


def refuse(**options: Any) -> None:
    """Raises for an option of an export that is given."""
    given = sorted(name for name, value in options.items() if value)
    if given == ["as_text"]:
        raise NotImplementedError("export_meta_graph: as_text does not exist yet; import_meta_graph reads what is written "
                                  "without it")
    if given:
        raise NotImplementedError(f"export_meta_graph: {', '.join(given)} do not exist yet")


def export_meta_graph(filename: Any = None, meta_info_def: Any = None, graph_def: Any = None, saver_def: Any = None,
                      collection_list: Any = None, as_text: bool = False, graph: Any = None,
                      export_scope: Any = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
                      strip_default_attrs: bool = False, save_debug_info: bool = False, **kwargs: Any) -> MetaGraphDef:
    """A graph with its variables and collections, as a message and as a file. Saver.export_meta_graph adds the saver."""
    refuse(meta_info_def=meta_info_def, graph_def=graph_def, saver_def=saver_def, collection_list=collection_list,
           as_text=as_text, export_scope=export_scope, save_debug_info=save_debug_info, **kwargs)
    if graph is None:
        _check_builds("Exporting/importing meta graphs")
    return export(graph if graph is not None else _graph.get_default_graph(), filename, {}, 0)


def graph_def_of(concrete: Any) -> GraphDef:
    """The operations that a concrete function runs, of the graph that it is in."""
    found = as_graph_def(concrete.world.graph)._data
    nodes = {NodeDef(value).name: (NodeDef(value), value) for field, value in _fields(found) if field == 1}
    rest = [text(lib.est_node_name(node._c)) for node in [*concrete._fetches, *concrete._targets, *concrete.feeds]]
    needed: set[str] = set()
    while rest:
        name = rest.pop()
        if name not in needed:
            needed.add(name)
            rest += [source.lstrip("^").partition(":")[0] for source in nodes[name][0].input]
    return GraphDef(b"".join(bytes([1 << 3 | 2]) + _length(len(value)) + value for name, (_, value) in nodes.items()
                             if name in needed))


def as_graph_def(graph: Graph) -> GraphDef:
    """The operations of a graph, those of TensorFlow in place of the library's own."""
    return export(graph, None, {}, 0).graph_def
