# SPDX-License-Identifier: Apache-2.0
"""What is done before the graph of a function of Dataset.map: lines of CSV are decoded, rows of ragged features noted."""
from __future__ import annotations

from typing import Any

from .. import data as _data
from .._lib import Keep, lib
from ..graph import Graph, NeedsValue, Node


class MapTrace:
    """What a function that is traced by map does to the input before its graph."""

    current: "list[MapTrace]" = []

    def __init__(self, graph: Graph, inputs: list):
        self.graph = graph
        self.inputs = inputs
        self.csv: Any = None
        self.rows: set[tuple] = set()  # nodes that are the values of one row of a VarLenFeature


def note_row(node: Node) -> None:
    """The values of a VarLenFeature of one row: batch() makes ragged ones of them."""
    if MapTrace.current:
        MapTrace.current[-1].rows.add(key_of(node))


def key_of(node: Node) -> tuple:
    return int(node._c.id), int(node._c.output)


def decode_csv_in_map(records: Node, columns: list, delimiter: str, quotes: bool, na_value: str) -> list[Node]:
    """tf.io.decode_csv: the line is decoded by a stage before the graph, which gets the fields."""
    trace = MapTrace.current[-1] if MapTrace.current else None
    if trace is not None and records.shape != ():
        raise NeedsValue("tf.io.decode_csv of several lines is computed outside of graphs")
    if trace is None or len(trace.inputs) != 1 or trace.inputs[0][1] is not records or records.shape != ():
        raise NotImplementedError("tf.io.decode_csv takes the line that the function of Dataset.map is given, before "
                                  "any batch(); estoc.Dataset.from_csv decodes batches")
    if trace.csv is not None:
        raise NotImplementedError("tf.io.decode_csv can be called once in a function")
    names = [f"column_{i}" for i in range(len(columns))]
    nodes = [trace.graph.placeholder(name, dtype, []) for name, (dtype, _) in zip(names, columns)]
    trace.csv = (list(zip(names, columns)), delimiter, quotes, na_value)
    trace.inputs = list(zip(names, nodes))
    return nodes


def csv_stage(chain: Any, csv: Any, field_names: Any = (), ignore_errors: bool = False) -> Any:
    columns, delimiter, quotes, na_value = csv
    keep = Keep()
    rows = []
    for name, (dtype, default) in columns:
        text = None if default is None else default if isinstance(default, bytes) else str(default)
        rows.append({"name": keep.string(name), "dtype": dtype.number, "required": default is None,
                     "default_text": keep.string(text)})
    return lib.est_dataset_unbatch(lib.est_dataset_decode_csv(
        chain, keep.span("est_csv_columns", "est_csv_column", rows),
        keep.options("est_csv_options", delimiter=delimiter.encode(), no_quotes=not quotes,
                     na_value=keep.string(na_value or None), field_names=keep.strings(field_names)), 1,
        keep.options("est_parse_options", bad_rows_max=_data.FOREVER if ignore_errors else 0)))
