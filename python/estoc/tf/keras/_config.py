# SPDX-License-Identifier: Apache-2.0
"""How a model was made, as JSON beside its SavedModel: what load_model makes it again from.

Layers, initializers, losses, optimizers and the like remember the arguments that they were made with (Recorded). A model
is its layers and calls; one with a class or a function that only the program has cannot be written down.
"""
from __future__ import annotations

import importlib
from typing import Any, Callable

import numpy as np

from ..._tensor import DType
from .. import _structure
from ._recorded import Recorded


class Unknown(Exception):
    """Something that JSON does not know, and what it is."""


def _name_of(value: Any) -> str:
    own = getattr(value, "__module__", "") or ""
    if own.startswith("estoc."):
        for module in (own, "estoc.ops", "estoc.tf", "estoc.tf.nn", "estoc.tf.math"):
            for end in ("", ".over_nodes"):
                name = f"{module}:{value.__qualname__}{end}"
                if _find(name) is value:
                    return name
    raise Unknown(f"{getattr(value, '__qualname__', value)} is a class or a function of the program")


def _find(name: str) -> Any:
    module, path = name.split(":")
    if not module.startswith("estoc."):
        raise ValueError(f"{name} is none of this package")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def encode(value: Any, reference: Callable[[Any], Any] = lambda value: None) -> Any:
    """A value as JSON; `reference` knows tensors of a model."""
    known = reference(value)
    if known is not None:
        return known
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, DType):
        return value.name
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise Unknown("a dict whose keys are not strings")
        return {"dict": {key: encode(item, reference) for key, item in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [encode(item, reference) for item in value]}
    if isinstance(value, list):
        return [encode(item, reference) for item in value]
    if hasattr(value, "_keras_name"):
        return value._keras_name
    if isinstance(value, Recorded):
        value = value.__dict__.get("_given", value)  # the legacy optimizer that one of a loop was made of
        if not isinstance(value, Recorded):
            raise Unknown(f"{value!r} is no object of Keras")
        args, named = value._made_with
        named = {**named, "name": value.name} if "_layers" in value.__dict__ else named
        return {"object": _name_of(type(value)), "args": encode(list(args)), "named": encode(named)}
    if isinstance(value, type) and issubclass(value, Recorded):
        return {"class": _name_of(value)}
    if callable(value) and hasattr(value, "__qualname__"):
        return {"function": _name_of(value)}
    raise Unknown(f"{value!r}")


def decode(value: Any, reference: Callable[[dict], Any] = lambda value: None) -> Any:
    """The value of encode."""
    if isinstance(value, list):
        return [decode(item, reference) for item in value]
    if not isinstance(value, dict):
        return value
    known = reference(value)
    if known is not None:
        return known
    if "dict" in value:
        return {key: decode(item, reference) for key, item in value["dict"].items()}
    if "tuple" in value:
        return tuple(decode(item, reference) for item in value["tuple"])
    if "object" in value:
        return _find(value["object"])(*decode(value["args"]), **decode(value["named"]))
    return _find(value.get("class") or value["function"])


# --- models -----------------------------------------------------------------------------------------------------------


def of_model(model: Any) -> dict:
    """A model as JSON; raises Unknown."""
    from . import models
    if type(model) is models.Sequential:
        first = None if model._input is None else _of_input(model._input)
        if first is None and model._specs:
            dtype, shape = model._specs[0]
            first = {"name": f"{model._layers[0].name}_input", "shape": [None, *tuple(shape)[1:]], "dtype": dtype.name}
        return {"kind": "sequential", "name": model.name, "layers": [of_layer(layer) for layer in model._layers],
                "input": first}
    if type(model) is not models.Functional:
        raise Unknown(f"{type(model).__name__} is a class of the program")
    layers: list = []
    numbers = {id(item): i for i, item in enumerate(model._flat)}
    calls = {id(call): i for i, call in enumerate(model._calls)}

    def reference(value: Any) -> Any:
        if not isinstance(value, models._KerasTensor):
            return None
        if value._call is None:
            return {"input": numbers[id(value)]}
        return {"call": calls[id(value._call)], "result": value._index}

    made = []
    for call in model._calls:
        if call.layer is None:
            target: Any = {"function": _name_of(call.function)}
        else:
            if not any(call.layer is layer for layer in layers):
                layers.append(call.layer)
            target = next(i for i, layer in enumerate(layers) if layer is call.layer)
        made.append({"of": target, "args": encode(list(call.positional), reference),
                     "named": encode(call.named, reference)})
    return {"kind": "functional", "name": model.name, "inputs": [_of_input(item) for item in model._flat],
            "input_form": encode(model._inputs, reference), "layers": [of_layer(layer) for layer in layers],
            "calls": made, "outputs": encode(model._outputs, reference)}


def _of_input(tensor: Any) -> dict:
    return {"name": tensor.name, "shape": list(tensor.shape), "dtype": tensor.dtype.name}


def of_layer(layer: Any) -> dict:
    from .models import Model
    return {"model": of_model(layer)} if isinstance(layer, Model) else encode(layer)


def _made_layer(value: dict) -> Any:
    return made_model(value["model"]) if "model" in value else decode(value)


def made_model(config: dict) -> Any:
    """The model of of_model, with new variables."""
    from . import models

    def made_input(value: dict) -> Any:
        return models._Input(batch_shape=tuple(value["shape"]), name=value["name"], dtype=value["dtype"])

    layers = [_made_layer(layer) for layer in config["layers"]]
    if config["kind"] == "sequential":
        first = [] if config["input"] is None else [made_input(config["input"])]
        return models.Sequential(first + layers, name=config["name"])
    inputs = [made_input(value) for value in config["inputs"]]
    results: list = []

    def reference(value: dict) -> Any:
        if "input" in value:
            return inputs[value["input"]]
        return _structure.flatten(results[value["call"]])[value["result"]] if "call" in value else None

    for call in config["calls"]:
        args, named = decode(call["args"], reference), decode(call["named"], reference)
        if isinstance(call["of"], dict):
            results.append(models._KerasTensor._keras_call(_find(call["of"]["function"]), tuple(args), named))
        else:
            results.append(layers[call["of"]](*args, **named))
    return models.Functional(decode(config["input_form"], reference), decode(config["outputs"], reference),
                             name=config["name"])
