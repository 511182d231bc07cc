# SPDX-License-Identifier: Apache-2.0
"""tf.keras.utils"""
from __future__ import annotations

import hashlib as _hashlib
import logging as _logging
import os as _os
import random as _random
import shutil as _shutil
import subprocess as _subprocess
import sys as _sys
import time as _time
from typing import Any as _Any
from urllib.parse import unquote as _unquote
from urllib.parse import urlparse as _urlparse

import numpy as _np

from .. import _structure
from .._absent import module_getattr as _module_getattr
from ._arrays import pad_sequences, text_dataset_from_directory, timeseries_dataset_from_array  # noqa: F401
from ._config import CustomObjectScope as custom_object_scope  # noqa: F401,N813
from ._config import custom_objects as get_custom_objects  # noqa: F401
from ._config import register as register_keras_serializable  # noqa: F401
from ._config import registered_name as get_registered_name  # noqa: F401
from ._config import registered_object as get_registered_object  # noqa: F401
from ._feature_space import FeatureSpace  # noqa: F401
from ._network import DatasetCreator as _DatasetCreator
from ._serial import deserialize as deserialize_keras_object  # noqa: F401
from ._serial import serialize as serialize_keras_object  # noqa: F401

CustomObjectScope = custom_object_scope


class Sequence:
    """Batches by their number, for fit, evaluate and predict: subclasses have __len__ and __getitem__, and on_epoch_end
    if they like. Their order is drawn again for each epoch with shuffle=True."""

    def __getitem__(self, index: int) -> _Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def on_epoch_end(self) -> None: ...

    def __iter__(self) -> _Any:
        return (self[i] for i in range(len(self)))


def to_categorical(y: _Any, num_classes: int | None = None, dtype: str = "float32") -> _np.ndarray:
    """Class numbers as rows with a 1 at the class."""
    y = _np.array(y, dtype="int64")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    y = y.ravel()
    num_classes = num_classes or int(y.max()) + 1
    rows = _np.zeros((y.size, num_classes), dtype=dtype)
    rows[_np.arange(y.size), y] = 1
    return rows.reshape(shape + (num_classes,))


def set_random_seed(seed: int) -> None:
    """Of Python, numpy and this package."""
    from .. import random
    _random.seed(seed)
    _np.random.seed(seed)
    random.set_seed(seed)


def normalize(x: _Any, axis: int = -1, order: int = 2) -> _np.ndarray:
    """x divided by its norm along the axis."""
    norm = _np.atleast_1d(_np.linalg.norm(x, order, axis))
    norm[norm == 0] = 1
    return x / _np.expand_dims(norm, axis)


def get_file(fname: str | None = None, origin: str | None = None, untar: bool = False, md5_hash: str | None = None,
             file_hash: str | None = None, cache_subdir: str = "datasets", hash_algorithm: str = "auto",
             extract: bool = False, archive_format: _Any = "auto", cache_dir: str | None = None) -> str:
    """The path of a file that is in Keras' cache, or that a file:// address names, which is copied there; extracted
    beside it if wished. Nothing is downloaded: other addresses raise, and say where to put the file."""
    if origin is None:
        raise ValueError("Please specify the `origin` argument (URL of the file to download).")
    folder = _os.path.join(cache_dir or _os.path.join(_os.path.expanduser("~"), ".keras"), cache_subdir)
    name = _os.fspath(fname) if fname is not None else _os.path.basename(_urlparse(origin).path)
    path = _os.path.join(folder, name + (".tar.gz" if untar else ""))
    if not _os.path.exists(path):
        address = _urlparse(origin)
        if address.scheme not in ("", "file"):
            raise NotImplementedError(f"estoc.tf downloads nothing: fetch {origin} and put it at {path}")
        _os.makedirs(_os.path.dirname(path), exist_ok=True)
        _shutil.copyfile(_unquote(address.path), path)
    _check_hash(path, file_hash or md5_hash, hash_algorithm if file_hash else "md5")
    if untar and not _os.path.exists(_os.path.join(folder, name)) or extract:
        _shutil.unpack_archive(path, folder, "gztar" if untar else None)
    return _os.path.join(folder, name)


def _check_hash(path: str, wanted: str | None, algorithm: str) -> None:
    if wanted is None:
        return
    if algorithm == "auto":
        algorithm = "sha256" if len(wanted) == 64 else "md5"
    with open(path, "rb") as file:
        found = _hashlib.file_digest(file, algorithm).hexdigest() if hasattr(_hashlib, "file_digest") else \
            _hashlib.new(algorithm, file.read()).hexdigest()
    if found != wanted:
        raise ValueError(f"{path} has the {algorithm} hash {found}, not {wanted}: remove it and fetch it again")


def plot_model(model: _Any, to_file: _Any = "model.png", show_shapes: bool = False, show_dtype: bool = False,
               show_layer_names: bool = True, rankdir: str = "TB", expand_nested: bool = False, dpi: int = 96,
               layer_range: _Any = None, show_layer_activations: bool = False, show_trainable: bool = False) -> None:
    """Draws the layers of a model with Graphviz' program dot; a name that ends with ".dot" is written without it."""
    if expand_nested or layer_range is not None or show_layer_activations or show_trainable:
        raise NotImplementedError("plot_model: layers, their names, shapes and dtypes are drawn, and nothing else yet")
    path = _os.fspath(to_file)
    text = _dot(model, show_shapes, show_dtype, show_layer_names, rankdir, dpi)
    if path.endswith(".dot"):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    if _shutil.which("dot") is None:
        message = "You must install graphviz (see instructions at https://graphviz.gitlab.io/download/) for plot_model to work."
        if "IPython.core.magics.namespace" in _sys.modules:
            print(message)
            return
        raise ImportError(message)
    _subprocess.run(["dot", f"-T{_os.path.splitext(path)[1][1:] or 'png'}", "-o", path], input=text, text=True, check=True)


def _dot(model: _Any, shapes: bool, dtypes: bool, names: bool, rankdir: str, dpi: int) -> str:
    """A model as text of Graphviz: a box for each call of a layer or operation, an arrow for each tensor."""
    lines = [f"digraph model {{ rankdir={rankdir}; dpi={dpi}; node [shape=record];"]
    numbers: dict = {}

    def label(kind: str, name: str, tensors: list) -> str:
        parts = [f"{name}: {kind}" if names else kind]
        parts += [str(tuple(item.shape)) for item in tensors if shapes] + [item.dtype.name for item in tensors if dtypes]
        return "|".join(part.replace("<", "\\<").replace(">", "\\>") for part in parts)

    def box(key: _Any, kind: str, name: str, tensors: list) -> int:
        numbers[key] = len(numbers)
        lines.append(f'  n{numbers[key]} [label="{label(kind, name, tensors)}"];')
        return numbers[key]

    def visit(tensor: _Any) -> int:
        call = tensor._call
        key = id(tensor) if call is None else id(call)
        if key in numbers:
            return numbers[key]
        if call is None:
            return box(key, "InputLayer", tensor.name, [tensor])
        sources = [visit(leaf) for leaf in _structure.flatten((call.positional, call.named)) if hasattr(leaf, "_call")]
        layer = call.layer
        name = layer.name if layer is not None else getattr(call.function, "__name__", "operation")
        number = box(key, type(layer).__name__ if layer is not None else "TFOpLambda", name, [tensor])
        lines.extend(f"  n{source} -> n{number};" for source in sources)
        return number

    for tensor in _structure.flatten(getattr(model, "outputs", None) or []):
        visit(tensor)
    if not numbers:
        raise ValueError("This model has not yet been built. Build the model first by calling `build()` or by calling the "
                         "model on a batch of data.")
    return "\n".join(lines + ["}", ""])


class SidecarEvaluator:
    """Evaluates every new checkpoint of a directory, as ModelCheckpoint(save_weights_only=True) writes them, until
    max_evaluations are made; beside a program that trains."""

    def __init__(self, model: _Any, data: _Any, checkpoint_dir: _Any, steps: int | None = None,
                 max_evaluations: int | None = None, callbacks: _Any = None):
        self.model, self.data, self.checkpoint_dir = model, data, _os.fspath(checkpoint_dir)
        self.steps, self.max_evaluations, self.callbacks = steps, max_evaluations, list(callbacks or ())

    def start(self) -> None:
        """Waits for checkpoints and evaluates them. A checkpoint that is there already counts."""
        from ...checkpoint import latest_checkpoint
        seen, done = None, 0
        while self.max_evaluations is None or done < self.max_evaluations:
            path = latest_checkpoint(self.checkpoint_dir)
            if path is None or path == seen:
                _time.sleep(1)
                continue
            seen = path
            self.model.load_weights(path)
            found = self.model.evaluate(self.data, steps=self.steps, callbacks=self.callbacks, verbose=0,
                                        return_dict=True)
            _logging.getLogger("tensorflow").info("evaluation %d, %s: %s", done, path, found)
            print("End of evaluation. Metrics: " + " ".join(f"{name}={value}" for name, value in found.items()))
            done += 1


class experimental:  # noqa: N801
    """tf.keras.utils.experimental"""

    DatasetCreator = _DatasetCreator
    SidecarEvaluator = SidecarEvaluator


__getattr__ = _module_getattr(__name__)
