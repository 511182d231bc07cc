# SPDX-License-Identifier: Apache-2.0
"""Groups and padded batches of elements, and datasets in files: what tf.data computes in Python here."""
from __future__ import annotations

import json
import os
from typing import Any, Callable, Iterator

import numpy as np

from .. import _nest
from .. import data as _data
from .._tensor import as_array, string
from ..data import TensorSpec
from ..errors import DataLossError, InvalidArgumentError, NotFoundError
from ..graph import Shape
from ._eager import unwrap, wrap

# --- batches ----------------------------------------------------------------------------------------------------------


def _for_leaves(form: Any, given: Any, what: str) -> list:
    """What was given for each part of an element: one for all, or the structure of elements."""
    if isinstance(form, dict):
        if not isinstance(given, dict) or given.keys() != form.keys():
            raise ValueError(f"{what}: a dict with the keys {', '.join(map(str, form))}, not {given!r}")
        return [leaf for key in sorted(form) for leaf in _for_leaves(form[key], given[key], what)]
    if isinstance(form, tuple):
        if not isinstance(given, (tuple, list)) or len(given) != len(form):
            raise ValueError(f"{what}: a tuple of {len(form)}, not {given!r}")
        return [leaf for part, item in zip(form, given) for leaf in _for_leaves(part, item, what)]
    return [given]


def _padding(form: Any, specs: list, shapes: Any, values: Any) -> list:
    """(shape, value) of each part; None in a shape: as long as the longest of the batch."""
    wanted = [spec.shape for spec in specs] if shapes is None else [
        Shape(unwrap(item)) for item in _for_leaves(form, shapes, "padded_shapes")]
    single = values is None or not isinstance(values, (dict, tuple, list))
    given = [values] * len(specs) if single else _for_leaves(form, values, "padding_values")
    found = []
    for spec, shape, value in zip(specs, wanted, given):
        if spec.ragged or shape is None or spec.shape is None:
            raise TypeError("padded_batch of ragged tensors, or of parts whose number of axes is not known, does not exist")
        sizes = [None if size in (None, -1) else int(size) for size in shape]
        if len(sizes) != len(spec.shape):
            raise ValueError(f"The padded shape {tuple(sizes)} is not compatible with the shape {tuple(spec.shape)} of the "
                             "corresponding input component.")
        empty = b"" if spec.dtype == string else 0
        array = as_array(empty if value is None else unwrap(value), spec.dtype if value is None or not hasattr(
            value, "dtype") else None)
        if array.dtype != np.dtype(spec.dtype.as_numpy_dtype) or array.shape != ():
            raise TypeError(f"a padding value of {array.dtype} and shape {array.shape} for a part of {spec.dtype.name}")
        found.append((sizes, array))
    return found


def _padded(rows: list, sizes: list, value: np.ndarray) -> np.ndarray:
    rows = [np.asarray(row, value.dtype) for row in rows]
    longest = [max(row.shape[axis] for row in rows) if size is None else size for axis, size in enumerate(sizes)]
    found = np.full((len(rows), *longest), value[()], value.dtype)
    for i, row in enumerate(rows):
        if any(have > want for have, want in zip(row.shape, longest)):
            raise DataLossError(f"Attempted to pad to a smaller size than the input element: {row.shape} to {longest}")
        found[(i, *(slice(size) for size in row.shape), ...)] = row  # ... takes the item of a text out of its array
    return found


def padded_batch(dataset: Any, of_rows: Callable, size: int, shapes: Any, values: Any, drop_remainder: bool) -> Any:
    """Batches whose parts are filled up to shapes with values of their own."""
    specs = [spec for spec in _nest.flatten(_data.Dataset.element_spec.fget(dataset))]
    padding = _padding(dataset.structure, specs, shapes, values)
    made = [TensorSpec((size if drop_remainder else None, *sizes), spec.dtype) for spec, (sizes, _) in zip(specs, padding)]

    def batches() -> Iterator[Any]:
        waiting: list = []
        for element in _data.DatasetIterator(dataset):
            waiting.append(_nest.flatten(element))
            if len(waiting) == size:
                yield together(waiting)
                waiting = []
        if waiting and not drop_remainder:
            yield together(waiting)

    def together(rows: list) -> Any:
        return _nest.pack(dataset.structure, [_padded(list(column), *how) for column, how in zip(zip(*rows), padding)])

    return of_rows(batches, _nest.pack(dataset.structure, made))


# --- groups -----------------------------------------------------------------------------------------------------------


def group_by_window(dataset: Any, of_rows: Callable, key_func: Callable, reduce_func: Callable, size_of: Callable,
                    spec: Any = None) -> Any:
    """reduce_func(key, dataset of the elements with that key) once there are size_of(key), and at the end."""
    def window(rows: list) -> Any:
        return of_rows(lambda: iter(rows), dataset.element_spec)

    def reduced(key: int, rows: list) -> Any:
        made = reduce_func(wrap(np.int64(key)), window(rows))
        if not isinstance(made, _data.Dataset):
            raise TypeError(f"Invalid `reduce_func`. `reduce_func` must return a `Dataset` object, but its return type is "
                            f"{type(made).__name__}.")
        return made

    def key_of(element: Any) -> int:
        key = np.asarray(as_array(unwrap(dataset._call_with(key_func, element))))
        if key.shape != () or key.dtype.kind not in "iu":
            raise ValueError(f"Invalid `key_func`. `key_func` must return a single `tf.int64` scalar, not {key!r}")
        return int(key)

    def elements() -> Iterator[Any]:
        waiting: dict[int, list] = {}
        sizes: dict[int, int] = {}
        for element in _data.DatasetIterator(dataset):
            key = key_of(element)
            if key not in waiting:
                waiting[key], sizes[key] = [], int(unwrap(size_of(key)))
                if sizes[key] <= 0:
                    raise ValueError(f"window_size of {sizes[key]}; it must be greater than 0")
            waiting[key].append(element)
            if len(waiting[key]) == sizes[key]:
                yield from _data.DatasetIterator(reduced(key, waiting.pop(key)))
        for key in sorted(waiting):
            yield from _data.DatasetIterator(reduced(key, waiting[key]))

    first = next(_data.DatasetIterator(dataset), None)
    if first is None:
        raise ValueError("the dataset is empty, so that nothing says what reduce_func returns")
    def opened(spec: Any) -> Any:
        """Batches of other keys may have other sizes."""
        if not isinstance(spec, TensorSpec) or spec.ragged or spec.shape is None or len(spec.shape) == 0:
            return spec
        return TensorSpec((None, *spec.shape[1:]), spec.dtype)

    return of_rows(elements, _nest.map_structure(opened, reduced(key_of(first), [first]).element_spec) if spec is None else spec)


def bucket_by_sequence_length(dataset: Any, of_rows: Callable, length_of: Callable, boundaries: Any, batch_sizes: Any, shapes: Any, values: Any,
                              to_boundary: bool, no_padding: bool, drop_remainder: bool) -> Any:
    """Batches of elements whose lengths are in the same range of boundaries."""
    boundaries, sizes = [int(item) for item in boundaries], [int(item) for item in batch_sizes]
    if len(sizes) != len(boundaries) + 1:
        raise ValueError(f"`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but `len(bucket_batch_sizes)="
                         f"{len(sizes)}` and `len(bucket_boundaries)={len(boundaries)}`.")

    def bucket(*element: Any) -> Any:
        length = int(unwrap(length_of(*element)))
        return np.int64(np.searchsorted(boundaries, length, side="right"))

    def batch(key: Any, group: Any) -> Any:
        number = int(unwrap(key))
        if no_padding:
            return group.batch(sizes[number], drop_remainder)
        wanted = shapes
        if to_boundary:
            if number == len(boundaries):
                raise InvalidArgumentError("When pad_to_bucket_boundary=True, elements must have length < "
                                           "max(bucket_boundaries).")
            wanted = filled(_nest.flatten(_data.Dataset.element_spec.fget(group)), boundaries[number] - 1)
        return group.padded_batch(sizes[number], wanted, values, drop_remainder)

    def filled(specs: list, size: int) -> Any:
        given = [spec.shape for spec in specs] if shapes is None else _for_leaves(dataset.structure, shapes, "padded_shapes")
        return _nest.pack(dataset.structure, [[size if part in (None, -1) else part for part in shape] for shape in given])

    given = [spec.shape for spec in _nest.flatten(_data.Dataset.element_spec.fget(dataset))] if shapes is None else [
        Shape(unwrap(item)) for item in _for_leaves(dataset.structure, shapes, "padded_shapes")]
    specs = _nest.flatten(_data.Dataset.element_spec.fget(dataset))
    spec = _nest.pack(dataset.structure, [TensorSpec((None, *shape), part.dtype) for shape, part in zip(given, specs)])
    return group_by_window(dataset, of_rows, bucket, batch, lambda key: sizes[int(unwrap(key))], spec)


# --- files ------------------------------------------------------------------------------------------------------------


def _described(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {"dict": {key: _described(item) for key, item in spec.items()}}
    if isinstance(spec, tuple):
        return {"tuple": [_described(item) for item in spec]}
    return {"dtype": spec.dtype.name, "shape": None if spec.shape is None else list(spec.shape), "ragged": spec.ragged}


def _spec_of(described: Any) -> Any:
    if "dict" in described:
        return {key: _spec_of(item) for key, item in described["dict"].items()}
    if "tuple" in described:
        return tuple(_spec_of(item) for item in described["tuple"])
    return TensorSpec(described["shape"], described["dtype"], ragged=described["ragged"])


def save(dataset: Any, path: Any) -> None:
    """Writes the elements below a directory, and what they look like."""
    folder = os.fspath(path)
    new = dict(zip(dataset._names, _nest.names(dataset.structure)))
    plain = type(dataset)(lambda stage: _data._renamed(dataset._chain(stage), new, dataset._specs()), dataset.structure,
                          (dataset,))  # load knows the structure, not the names that a range has for its components
    os.makedirs(folder, exist_ok=True)
    file = os.path.join(folder, "elements")
    if os.path.exists(file):
        os.remove(file)
    for _ in _data.DatasetIterator(plain.cache(file)):
        pass
    with open(os.path.join(folder, "spec.json"), "w", encoding="utf-8") as out:
        json.dump({"spec": _described(_data.Dataset.element_spec.fget(dataset)), "raggeds": sorted(new[name] for name in dataset._raggeds),
                   "rows": sorted(new[name] for name in dataset._rows)}, out)


def load(path: Any, of_rows: Callable) -> Any:
    """The elements that save has written."""
    folder = os.fspath(path)
    try:
        with open(os.path.join(folder, "spec.json"), encoding="utf-8") as file:
            saved = json.load(file)
    except FileNotFoundError:
        raise NotFoundError(f"{folder}: no dataset that Dataset.save of this package wrote; those of TensorFlow are not "
                            "read") from None

    def lost() -> Iterator[Any]:
        raise DataLossError(f"{folder}: the elements of the dataset are not there, or not all of them")

    source = of_rows(lost, _spec_of(saved["spec"]))
    source._own_raggeds, source._own_rows = frozenset(saved["raggeds"]), frozenset(saved["rows"])
    return source.cache(os.path.join(folder, "elements"))
