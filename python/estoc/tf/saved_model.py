# SPDX-License-Identifier: Apache-2.0
"""tf.saved_model: SavedModels by their signatures."""
from __future__ import annotations

import os as _os
from typing import Any as _Any

from .. import predictor as _predictor
from ._absent import module_getattr as _module_getattr
from ._eager import Tensor as _Tensor
from ._eager import unwrap as _unwrap

SERVING = "serve"
TRAINING = "train"
DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"


class _Function:
    """A signature as a function of tensors by their names."""

    def __init__(self, model: _predictor.SavedModel, signature: _predictor.Signature):
        self._predictor = _predictor.Predictor(model, signature.name)
        self.name = signature.name
        self.structured_input_signature = ((), dict(self._predictor.inputs))
        self.structured_outputs = dict(self._predictor.outputs)

    def __call__(self, *arguments: _Any, **named: _Any) -> dict[str, _Tensor]:
        if arguments:
            if len(arguments) != 1 or len(self._predictor.inputs) != 1 or named:
                raise TypeError(f"{self.name}() takes its inputs by name: {', '.join(self._predictor.inputs)}")
            named = {next(iter(self._predictor.inputs)): arguments[0]}
        missing = sorted(set(self._predictor.inputs) - set(named))
        unknown = sorted(set(named) - set(self._predictor.inputs))
        if missing or unknown:
            raise TypeError(f"{self.name}() takes {', '.join(self._predictor.inputs)}; missing: "
                            f"{', '.join(missing) or 'none'}, unknown: {', '.join(unknown) or 'none'}")
        values = self._predictor({name: _unwrap(value) for name, value in named.items()})
        return {name: _Tensor(value) for name, value in values.items()}

    def __repr__(self) -> str:
        return f"<signature {self.name}({', '.join(self._predictor.inputs)})>"


class _Signatures(dict):
    """Signatures by name; one that needs an operation that does not exist says so when it is asked for."""

    def __init__(self, model: _predictor.SavedModel):
        self._model = model
        super().__init__({name: None for name in model.signatures})

    def __getitem__(self, name: str) -> _Function:
        if name not in self:
            raise KeyError(name)
        found = super().__getitem__(name)
        if found is None:
            found = _Function(self._model, self._model.signatures[name])
            super().__setitem__(name, found)
        return found

    def get(self, name: str, default: _Any = None) -> _Any:
        return self[name] if name in self else default

    def items(self) -> _Any:
        return [(name, self[name]) for name in self]

    def values(self) -> _Any:
        return [self[name] for name in self]


class Loaded:
    """What tf.saved_model.load gives: signatures. Functions and variables of the object are not there."""

    def __init__(self, model: _predictor.SavedModel):
        self._model = model
        self.signatures = _Signatures(model)


def load(export_dir: _Any, tags: _Any = None, options: _Any = None) -> Loaded:
    """Loads a SavedModel."""
    if options is not None:
        raise NotImplementedError("options does not exist yet")
    tags = [tags] if isinstance(tags, str) else list(tags or [])
    return Loaded(_predictor.SavedModel(export_dir, tags))


def contains_saved_model(export_dir: _Any) -> bool:
    """Whether the directory is a SavedModel."""
    return any(_os.path.exists(_os.path.join(_os.fspath(export_dir), name))
               for name in ("saved_model.pb", "saved_model.pbtxt"))


__all__ = ["DEFAULT_SERVING_SIGNATURE_DEF_KEY", "SERVING", "TRAINING", "contains_saved_model", "load"]
__getattr__ = _module_getattr(__name__, {
    "save": "tf.estimator.Estimator.export_saved_model writes the SavedModel of an estimator"})
