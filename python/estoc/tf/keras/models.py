# SPDX-License-Identifier: Apache-2.0
"""tf.keras.models: Sequential, functional and subclassed models over networks of the library, and those of files."""
from __future__ import annotations

import json as _json
import os as _os
from typing import Any as _Any

import numpy as _np

from ...checkpoint import load_checkpoint as _load_checkpoint
from .._absent import module_getattr as _module_getattr
from . import _config, _files
from ._calling import build_in as _build_in
from ._functional import Functional  # noqa: F401
from ._layer import Layer as _Layer
from ._model import Model
from ._saving import EXTRA as _EXTRA
from ._saving import WEIGHTS as _WEIGHTS
from ._sequential import Sequential

_INSTEAD = ("tf.saved_model.load runs it, and model.load_weights(folder) takes its variables into a model of the same "
            "layers")


def load_model(filepath: _Any, custom_objects: _Any = None, compile: bool = True, safe_mode: bool = True,  # noqa: A002
               options: _Any = None) -> Model:
    """The model that Model.save has written: its layers, weights, and what compile was told with the state of the
    optimizer."""
    path = _os.fspath(filepath)
    if _os.path.isfile(path) or _files.is_file(path):
        with _files.unpacked(path) as folder:
            return load_model(folder, custom_objects, compile)
    file = _os.path.join(path, _EXTRA, "model.json")
    if not _os.path.exists(path):
        raise OSError(f"No file or directory found at {path}")
    if not _os.path.exists(file):
        raise NotImplementedError(f"{path} was not written by Model.save of this package, and has no layers to go on "
                                  f"training with; {_INSTEAD}")
    with open(file, encoding="utf-8") as opened:
        config = _json.load(opened)
    if config["model"] is None:
        raise NotImplementedError(f"{path} has no layers to go on training with: {config['why']}; {_INSTEAD}")
    with _config.CustomObjectScope(custom_objects):
        model = _config.made_model(config["model"])
        told = _config.decode(config["compile"]) if compile and config["compile"] is not None else None
    if isinstance(model, Sequential) and model._input is None and model._known_inputs() is not None:
        _build_in(model, model._world_now(), [(dtype, shape) for _, dtype, shape in model._known_inputs()])
    for i, layer in enumerate([model] + model._flat_layers()):
        if hasattr(type(layer), "load_assets"):
            layer.load_assets(_os.path.join(path, _EXTRA, "assets", str(i)))
    weights = _os.path.join(path, _WEIGHTS)
    if _os.path.exists(weights + ".index"):
        model.load_weights(weights)
        if model._known_inputs() is not None:
            model._saved_network()  # takes what waits, since the files may not stay
    elif model._known_inputs() is not None:
        _take_variables(model, path, config.get("variables") or [])
    for i, layer in enumerate([model] + model._flat_layers()):
        if type(layer).load_own_variables is not _Layer.load_own_variables:
            with _np.load(_os.path.join(path, _EXTRA, f"variables-{i}.npz")) as store:
                layer.load_own_variables(dict(store))
    if compile and config.get("compile_config") is not None:
        with _config.CustomObjectScope(custom_objects):
            model.compile_from_config(config["compile_config"])
    if told is not None:
        model.compile(**told)
        state, world = _os.path.join(path, _EXTRA, "optimizer"), model._world_now()
        if _os.path.exists(state + ".index"):
            model._state_of_optimizer().read(state)
        if not world.is_remote:  # now, since the files may not stay
            model._trainer._make_slots(world, model.trainable_variables)
            world.session()
    return model


def _take_variables(model: Model, path: str, names: list) -> None:
    """The variables of a SavedModel, by their order."""
    model._saved_network()
    variables = model._ordered_weights()
    if len(names) != len(variables) or None in names or model._world_now().is_remote:
        model.load_weights(path)
        return
    reader = _load_checkpoint(_os.path.join(path, "variables", "variables"))
    for variable, name in zip(variables, names):
        variable.assign(reader.get_tensor(name))


def clone_model(model: Model, input_tensors: _Any = None, clone_function: _Any = None) -> Model:
    """A model of the same layers with new variables."""
    if input_tensors is not None or clone_function is not None:
        raise NotImplementedError("clone_model: input_tensors and clone_function do not exist yet")
    return _config.copied(model)


def model_from_json(json_string: str, custom_objects: _Any = None) -> Model:
    """The model of Model.to_json of this package, with new variables."""
    with _config.CustomObjectScope(custom_objects):
        return _config.made_model(_json.loads(json_string))


def save_model(model: Model, filepath: _Any, overwrite: bool = True, save_format: _Any = None, **named: _Any) -> None:
    """Model.save"""
    model.save(filepath, overwrite, save_format, **named)


__getattr__ = _module_getattr(__name__)
