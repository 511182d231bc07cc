# SPDX-License-Identifier: Apache-2.0
"""What models are given to train with: batches of generators and sequences as datasets, and arrays in parts."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ... import data as _data
from .. import _structure
from .._eager import unwrap


def is_generator(x: Any) -> bool:
    return hasattr(x, "__next__") and not hasattr(x, "element_spec")


def _spec_of(model: Any, batch: Any) -> Any:
    """What batches of a generator look like. They may be padded to other lengths than the first: axes are known where
    those of the inputs are, and of a model without inputs, which is made for the first batch. A column of labels stays
    one: metrics look at that."""
    parts = batch if isinstance(batch, tuple) and not model._takes_tuple(batch) else (batch,)
    known, axes = {name: shape for name, _, shape in model._known_inputs() or ()}, {}
    leaves = _structure.flatten(parts[0])
    for leaf, name in zip(*(model._flat_inputs(parts[0]) if known else (leaves, [None] * len(leaves)))):
        shape = known.get(name, leaf.shape)
        axes[id(leaf)] = [None if axis is None else size for axis, size in zip(shape, leaf.shape)] \
            if len(shape) == leaf.ndim else leaf.shape

    def spec(leaf: Any) -> _data.TensorSpec:
        shape = axes.get(id(leaf)) or [1 if size == 1 else None for size in leaf.shape]
        return _data.TensorSpec((None, *shape[1:]), np.float32 if leaf.dtype == np.float64 else leaf.dtype)

    return _structure.map_structure(spec, batch)


def batches_of(model: Any, x: Any, shuffle: bool = False, steps: int | None = None) -> Any:
    """A dataset of the batches of a keras.utils.Sequence, up to so many a pass, or of a generator; others stay."""
    from ..data import Dataset
    from .utils import Sequence
    is_sequence = isinstance(x, Sequence)
    if not is_sequence and not is_generator(x):
        return x

    def plain(batch: Any) -> Any:
        parts = batch if isinstance(batch, tuple) else (batch,)
        parts = tuple(itertools.takewhile(lambda part: part is not None, parts))  # no labels: no weights of them
        parts = tuple(tuple(part) if isinstance(part, list) else part for part in parts)  # several inputs or outputs
        return _structure.map_structure(lambda leaf: np.asarray(unwrap(leaf)), parts if len(parts) > 1 else parts[0])

    try:
        first = plain(x[0] if is_sequence else next(x))
    except StopIteration:
        raise ValueError("the generator has no batch, or was gone over before: give one that has") from None
    pending = [first]  # of a generator, which every pass goes on with

    def batches() -> Any:
        if not is_sequence:
            if pending:
                yield pending.pop()
            yield from map(plain, x)
            return
        for index in (np.random.permutation(len(x)) if shuffle else range(len(x)))[:steps]:
            yield plain(x[int(index)])
        x.on_epoch_end()

    spec = _spec_of(model, first)
    dataset = Dataset.from_generator(batches, output_signature=spec)
    if is_sequence:
        dataset._count = len(range(len(x))[:steps])
    return dataset


def known_steps(batches: Any) -> int | None:
    """Of a pass; None: only its end says it."""
    known = int(batches.cardinality())
    return known if known >= 0 else None


def split_rows(parts: tuple, held: float) -> tuple:
    """The first rows of arrays, and the last ones, which are held out."""
    arrays = _structure.map_structure(lambda part: part if part is None else np.asarray(part), parts)
    count = int(len(next(part for part in _structure.flatten(arrays) if part is not None)) * (1 - held))
    return tuple(_structure.map_structure(lambda part: part if part is None else part[rows], arrays)
                 for rows in (slice(None, count), slice(count, None)))


def weights_of_classes(class_weight: dict, y: Any, sample_weight: Any) -> np.ndarray:
    """Sample weights by the classes of labels, for loops of Python."""
    if y is None or _structure.is_nested(y):
        raise NotImplementedError("class_weight where train_step is overridden, or a metric is written in Python, takes "
                                  "labels of one output as an array; give a dataset weights as its third part")
    labels = np.asarray(unwrap(y))
    classes = labels.argmax(1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1).astype(np.int64)
    missing = sorted(set(classes.tolist()) - class_weight.keys())
    if missing:
        raise ValueError(f"class_weight has no weight for the class {missing[0]}; it has {sorted(class_weight)}")
    weights = np.array([class_weight[one] for one in classes.tolist()], np.float32)
    return weights if sample_weight is None else weights * np.asarray(unwrap(sample_weight), np.float32)


def unpack(data: Any) -> tuple:
    if not isinstance(data, tuple):
        return data, None, None
    return data + (None,) * (3 - len(data))
