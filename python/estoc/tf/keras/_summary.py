# SPDX-License-Identifier: Apache-2.0
"""The table of a model's layers, as Keras prints it."""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from .. import _structure

_BREAKS = ("),", "},", "],", "',")  # where a field goes on in the next line
_OPERATORS = {"add": "__operators__.add", "subtract": "math.subtract", "multiply": "math.multiply",
              "truediv": "math.truediv", "getitem": "__operators__.getitem", "getitem_": "__operators__.getitem"}


def text_of(model: Any, line_length: int | None = None, positions: Any = None) -> list[str]:
    """The lines of the table."""
    rows = _rows(model)
    wide = any(len(row) > 3 for row in rows)
    ends = positions or ([0.3, 0.6, 0.7, 1.0] if wide else [0.45, 0.85, 1.0])
    length = line_length or (98 if wide else 65)
    if ends[-1] <= 1:
        ends = [int(length * end) for end in ends]
    heads = ["Layer (type)", "Output Shape", "Param #", "Connected to"][:len(ends)]
    lines = [f'Model: "{model.name}"', "_" * length, *_fields(heads, ends), "=" * length]
    for row in rows:
        lines += _fields(row, ends) + [" " * length]
    lines.append("=" * length)
    weights = list({id(weight): weight for weight in model.weights}.values())
    trained = {id(weight) for weight in model.trainable_weights}
    for what, some in (("Total", weights), ("Trainable", [weight for weight in weights if id(weight) in trained]),
                       ("Non-trainable", [weight for weight in weights if id(weight) not in trained])):
        lines.append(f"{what} params: {_count(some)} ({_size(some)})")
    return lines + ["_" * length]


def _fields(fields: list, ends: list) -> list[str]:
    """A row; what does not fit into a column goes on in the next line."""
    left, lines = [str(field) for field in fields], []
    while any(left):
        line = ""
        for i, end in enumerate(ends):
            space = 2 if i < len(ends) - 1 else 0
            room = end - (ends[i - 1] if i else 1) - space
            part = left[i][:room]
            cuts = [part.find(mark) + len(mark) for mark in _BREAKS if mark in part]
            part = part[:min(cuts)] if cuts else part
            left[i] = left[i][len(part):]
            line = ((line if i else " ") + part + " " * space)[:end].ljust(end)
        lines.append(line)
    return lines


def _count(weights: list) -> int:
    total = 0
    for weight in weights:
        n = 1
        for size in weight.shape:
            n *= int(size)
        total += n
    return total


def _size(weights: list) -> str:
    size = float(sum(_count([weight]) * np.dtype(weight.dtype.as_numpy_dtype).itemsize for weight in weights))
    for unit in ("Byte", "KB", "MB", "GB", "TB"):
        if size < 1024:
            break
        size /= 1024
    return f"{size:.2f} {unit}"


def _shape(tensors: Any) -> Any:
    found = _structure.map_structure(lambda item: tuple(item.shape), tensors)
    return list(found) if isinstance(tensors, tuple) else found


def _rows(model: Any) -> list[list]:
    from .models import Functional, Sequential
    if isinstance(model, Sequential):
        return [_row(layer, _output(model, layer)) for layer in model._layers]
    if isinstance(model, Functional):
        return _functional(model)
    return [_row(layer, "multiple") for layer in model._layers]


def _output(model: Any, layer: Any) -> Any:
    try:
        return _shape(layer.output)
    except AttributeError:  # never called in a functional way: a Sequential model without a known input
        return "multiple"


def _row(layer: Any, shape: Any) -> list:
    return [f"{layer.name} ({type(layer).__name__})", shape, layer.count_params()]


def _functional(model: Any) -> list[list]:
    names = _Names()
    calls: dict[int, list] = {}
    for item in model._items:
        if getattr(item, "layer", None) is not None:
            calls.setdefault(id(item.layer), []).append(item)
    rows, done = [], set()
    for item in model._items:
        if not hasattr(item, "function"):
            rows.append([f"{item.name} (InputLayer)", [tuple(item.shape)], 0, []])
            continue
        own = calls.get(id(item.layer), [item]) if item.layer is not None else [item]
        if id(own[0]) in done:
            continue
        done.add(id(own[0]))
        sources = [leaf for call in own for leaf in _structure.flatten((call.positional, call.named))
                   if hasattr(leaf, "_call")]
        made = own[0].made
        shape = _shape(made)
        if item.layer is None:
            kind = "SlicingOpLambda" if names.of(item).split(".")[-1].startswith("getitem") else "TFOpLambda"
            rows.append([f"{names.of(item)} ({kind})", shape, 0, [names.place(leaf, calls) for leaf in sources]])
        else:
            rows.append(_row(item.layer, shape) + [[names.place(leaf, calls) for leaf in sources]])
    is_chain = all(len(row[3]) <= 1 for row in rows) and len({name for row in rows for name in row[3]}) == len(
        [name for row in rows for name in row[3]]) and sum(not row[3] for row in rows) == 1
    return [row[:3] for row in rows] if is_chain else rows


class _Names:
    """Names of operations between layers, numbered as those of layers are."""

    def __init__(self) -> None:
        self._given: dict[int, str] = {}
        self._counts: dict[str, int] = {}

    def of(self, call: Any) -> str:
        if id(call) not in self._given:
            plain = re.sub(r"^__r?|__$", "", getattr(call.function, "__name__", "operation"))
            base = "tf." + _OPERATORS.get(plain, plain)
            number = self._counts[base] = self._counts.get(base, -1) + 1
            self._given[id(call)] = base if not number else f"{base}_{number}"
        return self._given[id(call)]

    def place(self, tensor: Any, calls: dict) -> str:
        """ "dense[0][0]": the layer, the number of its call, and that of the result."""
        call = tensor._call
        if call is None:
            return f"{tensor.name}[0][0]"
        if call.layer is None:
            return f"{self.of(call)}[0][{tensor._index}]"
        number = next(i for i, one in enumerate(calls[id(call.layer)]) if one is call)
        return f"{call.layer.name}[{number}][{tensor._index}]"
