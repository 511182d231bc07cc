# SPDX-License-Identifier: Apache-2.0
"""SavedModels, of this library or of TensorFlow, and predictions with their signatures.

    predict = estoc.Predictor("exports/digits")
    predict({"image": images})["probabilities"]
"""
from __future__ import annotations

import os
from typing import Any, Mapping, Sequence

import numpy as np

from ._lib import Keep, check, ffi, lib, owned, text
from ._tensor import as_dtype, py_shape, take_tensor, to_array, to_tensor
from .data import TensorSpec


class Signature:
    """What a signature of a SavedModel takes and gives: a TensorSpec for each name, None for a tensor of a dtype that
    is not here, as of float16. `error` says why it cannot be run; None: it can."""

    def __init__(self, pointer: Any):
        self.name = text(pointer.name)
        self.method = text(pointer.method)
        self.error = text(pointer.error)
        self.inputs = _specs(pointer.inputs, pointer.n_inputs)
        self.outputs = _specs(pointer.outputs, pointer.n_outputs)
        self.tensors = {text(tensors[i].name): text(tensors[i].tensor) for tensors, n in (
            (pointer.inputs, pointer.n_inputs), (pointer.outputs, pointer.n_outputs)) for i in range(n)}

    def __repr__(self) -> str:
        return f"<estoc.Signature {self.name!r} inputs={self.inputs} outputs={self.outputs}>"


def _specs(tensors: Any, n: int) -> dict[str, TensorSpec | None]:
    return {text(tensors[i].name): TensorSpec(py_shape(tensors[i].shape), as_dtype(int(tensors[i].dtype)),
                                              text(tensors[i].name)) if tensors[i].dtype != 0 else None
            for i in range(n)}


class SavedModel:
    """A loaded SavedModel: its directory, or the newest version below one."""

    def __init__(self, path: str | os.PathLike, tags: Sequence[str] = (), threads: int = 0):
        keep, out = Keep(), ffi.new("est_saved_model **")
        check(lib.est_saved_model_load(keep.string(path), keep.options(
            "est_saved_model_options", tags=keep.strings(tags), threads=threads), out))
        self._c = owned(out[0], "est_saved_model_free")
        signatures = [lib.est_saved_model_signature(self._c, i) for i in range(lib.est_saved_model_signatures(self._c))]
        self.signatures = {text(pointer.name): Signature(pointer) for pointer in signatures}

    @property
    def path(self) -> str:
        return text(lib.est_saved_model_dir(self._c))


class Predictor:
    """Runs a signature of a SavedModel on arrays. Threads may call it beside each other."""

    def __init__(self, model: "SavedModel | str | os.PathLike", signature: str = "serving_default",
                 outputs: Sequence[str] = (), threads: int = 0):
        self.model = model if isinstance(model, SavedModel) else SavedModel(model)
        keep, out = Keep(), ffi.new("est_predictor **")
        check(lib.est_predictor_create(self.model._c, keep.string(signature), keep.options(
            "est_predictor_options", threads=threads, outputs=keep.strings(outputs)), out))
        self._c = owned(out[0], "est_predictor_free", parents=(self.model._c,))
        self.inputs = _components(lib.est_predictor_inputs(self._c))
        self.outputs = _components(lib.est_predictor_outputs(self._c))

    def __call__(self, inputs: Mapping[str, Any] | None = None, **named: Any) -> dict[str, np.ndarray]:
        """The outputs by their names; inputs by theirs, as a dict or as arguments."""
        keep, tensors = Keep(), []
        for name, value in {**(inputs or {}), **named}.items():
            spec = self.inputs.get(name)
            tensor = to_tensor(value, None if spec is None else spec.dtype, copy=False)
            keep.append(tensor)
            tensors.append({"name": keep.string(name), "tensor": tensor})
        out = ffi.new("est_tensor *[]", max(len(self.outputs), 1))
        check(lib.est_predictor_run(self._c, keep.span("est_named_tensors", "est_named_tensor", tensors), out))
        return {name: to_array(take_tensor(out[i])) for i, name in enumerate(self.outputs)}


def _components(span: Any) -> dict[str, TensorSpec]:
    found = {}
    for i in range(span.n):
        component = span.data[i]
        found[text(component.name)] = TensorSpec(py_shape(component.shape), as_dtype(int(component.dtype)),
                                                 text(component.name))
    return found


__all__ = ["Predictor", "SavedModel", "Signature"]
