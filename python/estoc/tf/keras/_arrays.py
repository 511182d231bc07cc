# SPDX-License-Identifier: Apache-2.0
"""Datasets of files in folders and of windows over time, and rows of unequal length as arrays."""
from __future__ import annotations

import os
from typing import Any, Callable, Sequence

import numpy as np

from ..._tensor import as_array
from .._eager import unwrap


def pad_sequences(sequences: Any, maxlen: int | None = None, dtype: Any = "int32", padding: str = "pre",
                  truncating: str = "pre", value: Any = 0.0) -> np.ndarray:
    """Rows as an array of maxlen columns (None: of the longest row): cut, and filled up with the value, in front or at
    the end."""
    for name, where in (("padding", padding), ("truncating", truncating)):
        if where not in ("pre", "post"):
            raise ValueError(f"{name} is \"pre\" or \"post\", not {where!r}")
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for row in sequences:
        if not hasattr(row, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {row}")
    wide = max((len(row) for row in sequences), default=0) if maxlen is None else maxlen
    inner = next((np.asarray(row).shape[1:] for row in sequences if len(row)), ())
    if isinstance(value, str) and not np.issubdtype(dtype, np.str_) and dtype is not object:
        raise ValueError(f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}\nYou should set "
                         "`dtype=object` for variable length strings.")
    found = np.full((len(sequences), wide) + inner, value, dtype=dtype)
    for i, row in enumerate(sequences):
        kept = np.asarray(row[-wide:] if truncating == "pre" else row[:wide], dtype=dtype) if wide else ()
        if len(kept):
            found[(i, slice(-len(kept), None)) if padding == "pre" else (i, slice(len(kept)))] = kept
    return found


def timeseries_dataset_from_array(data: Any, targets: Any, sequence_length: int, sequence_stride: int = 1,
                                  sampling_rate: int = 1, batch_size: int | None = 128, shuffle: bool = False,
                                  seed: int | None = None, start_index: int | None = None,
                                  end_index: int | None = None) -> Any:
    """Windows of sequence_length rows, every sampling_rate-th, that begin sequence_stride apart, with the target of
    their number."""
    from .. import cast, gather
    from ..data import Dataset
    data = np.asarray(as_array(unwrap(data)))
    first, end = start_index or 0, len(data) if end_index is None else end_index
    for name, given in (("start_index", first), ("end_index", end - 1)):
        if not 0 <= given < len(data):
            raise ValueError(f"`{name}` must be within the data, which has the length {len(data)}")
    for name, given in (("sampling_rate", sampling_rate), ("sequence_stride", sequence_stride)):
        if not 0 < given < len(data):
            raise ValueError(f"`{name}` must be higher than 0 and lower than the length of the data, {len(data)}. "
                             f"Received: {name}={given}")
    windows = end - first - (sequence_length - 1) * sampling_rate
    if targets is not None:
        targets = np.asarray(as_array(unwrap(targets)))[first:end]
        windows = min(windows, len(targets))
    data = data[first:end]
    starts = np.arange(0, max(windows, 0), sequence_stride)
    if shuffle:
        seed = int(np.random.randint(1e6)) if seed is None else seed
        np.random.RandomState(seed).shuffle(starts)
    rows = np.arange(sequence_length) * sampling_rate

    def window(start: Any) -> Any:
        found = gather(data, cast(start, "int64") + rows)
        return found if targets is None else (found, gather(targets, start))

    return _batched(Dataset.from_tensor_slices(starts).map(window), batch_size, seed if shuffle else None)


def _batched(dataset: Any, batch_size: int | None, seed: int | None) -> Any:
    """Shuffled nearby unless the seed is None, and in batches."""
    if seed is not None:
        dataset = dataset.shuffle(1024 if batch_size is None else batch_size * 8, seed=seed)
    return dataset if batch_size is None else dataset.batch(batch_size)


def text_dataset_from_directory(directory: Any, labels: Any = "inferred", label_mode: str | None = "int",
                                class_names: Sequence[str] | None = None, batch_size: int | None = 32,
                                max_length: int | None = None, shuffle: bool = True, seed: int | None = None,
                                validation_split: float | None = None, subset: str | None = None,
                                follow_links: bool = False) -> Any:
    """Texts of the .txt files below a folder, with the number of the folder in it that a file is in."""

    def text(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()[:max_length]

    return _of_directory(text, (".txt",), (), "string", directory, labels, label_mode, class_names, batch_size, shuffle,
                         seed, validation_split, subset, follow_links)


def _of_directory(read: Callable, endings: tuple, shape: Sequence, dtype: Any, directory: Any, labels: Any,
                  label_mode: str | None, class_names: Any, batch_size: int | None, shuffle: bool, seed: int | None,
                  validation_split: float | None, subset: str | None, follow_links: bool) -> Any:
    """The dataset of a folder, or two for subset "both". The order is Keras': sorted, then shuffled by the seed."""
    if label_mode not in ("int", "binary", "categorical", None):
        raise ValueError('`label_mode` argument must be one of "int", "categorical", "binary", or None. Received: '
                         f"label_mode={label_mode}")
    if validation_split and not 0 < validation_split < 1:
        raise ValueError(f"`validation_split` must be between 0 and 1, received: {validation_split}")
    if bool(validation_split) != bool(subset):
        raise ValueError("If `subset` is set, `validation_split` must be set, and inversely.")
    if subset not in ("training", "validation", "both", None):
        raise ValueError(f'`subset` must be either "training", "validation" or "both", received: {subset}')
    if validation_split and shuffle and seed is None:
        raise ValueError("If using `validation_split` and shuffling the data, you must provide a `seed` argument, to "
                         "make sure that there is no overlap between the training and validation subset.")
    seed = int(np.random.randint(1e6)) if seed is None else seed
    paths, numbers, names = _files(os.fspath(directory), endings, labels, class_names, follow_links)
    print(f"Found {len(paths)} files" + (f" belonging to {len(names)} classes." if names else "."))
    if label_mode == "binary" and len(names) != 2:
        raise ValueError(f'When passing `label_mode="binary"`, there must be exactly 2 class_names. Received: {names}')
    if shuffle:
        for one in (paths, numbers):
            np.random.RandomState(seed).shuffle(one)
    kept = len(paths) - int((validation_split or 0) * len(paths))
    parts = {"training": slice(0, kept), "validation": slice(kept, None), None: slice(0, None)}

    def made(which: str | None) -> Any:
        chosen = paths[parts[which]]
        if which is not None:
            print(f"Using {len(chosen)} files for {which}.")
        if not chosen:
            raise ValueError(f"No files found in directory {directory}. Allowed formats: {endings}")
        dataset = _labelled(read, chosen, None if labels is None or label_mode is None else numbers[parts[which]],
                            label_mode, len(names), shape, dtype)
        dataset = _batched(dataset, batch_size, seed if shuffle and not (subset == "both" and which == "validation")
                           else None)
        dataset.class_names = names
        return dataset

    return [made("training"), made("validation")] if subset == "both" else made(subset)


def _files(directory: str, endings: tuple, labels: Any, class_names: Any, follow_links: bool) -> tuple:
    """Paths, the numbers of their classes, and the names of these."""
    found = []
    for root, folders, files in os.walk(directory, followlinks=follow_links):
        folders.sort()
        found += [os.path.join(root, name) for name in sorted(files) if name.lower().endswith(endings)]
    if isinstance(labels, str) and labels == "inferred":
        names = sorted(name for name in os.listdir(directory) if os.path.isdir(os.path.join(directory, name)))
        if class_names is not None and set(class_names) != set(names):
            raise ValueError("The `class_names` passed did not match the names of the subdirectories of the target "
                             f"directory. Expected: {names}, but received: {class_names}")
        names = list(class_names) if class_names is not None else names
        number = {name: i for i, name in enumerate(names)}
        of = [(path, number.get(os.path.relpath(path, directory).split(os.sep)[0])) for path in found]
        of = [(path, i) for path, i in of if i is not None and os.path.dirname(path) != directory]
        of.sort(key=lambda one: one[1])
        return [path for path, _ in of], [i for _, i in of], names
    if labels is None:
        return found, [0] * len(found), []
    if len(labels) != len(found):
        raise ValueError(f"Expected the lengths of `labels` to match the number of files in the target directory. "
                         f"len(labels) is {len(labels)} while we found {len(found)} files in {directory}.")
    return found, list(labels), [str(label) for label in sorted(set(labels))]


def _labelled(read: Callable, paths: list, numbers: list | None, label_mode: str | None, classes: int, shape: Sequence,
              dtype: Any) -> Any:
    """A dataset that reads the files when they are needed."""
    from ...data import TensorSpec
    from ..data import Dataset
    spec: Any = TensorSpec(shape, dtype)
    if numbers is None:
        return Dataset.from_generator(lambda: map(read, paths), output_signature=spec)
    values = np.int32(numbers)
    if label_mode == "binary":
        values = np.float32(numbers)[:, None]
    elif label_mode == "categorical":
        values = np.eye(classes, dtype=np.float32)[values]
    spec = (spec, TensorSpec(values.shape[1:], values.dtype))
    return Dataset.from_generator(lambda: zip(map(read, paths), values), output_signature=spec)
