# SPDX-License-Identifier: Apache-2.0
"""How a model was made, as JSON beside its SavedModel: what load_model makes it again from.

Layers, initializers, losses, optimizers and the like remember the arguments that they were made with (Recorded). A model
is its layers and calls. Classes and functions of the program are written by name: who loads them gives them as
custom_objects, or has registered them.
"""
from __future__ import annotations

import contextlib
import importlib
import inspect
from typing import Any, Callable, Iterator

import numpy as np

from ..._tensor import DType, as_dtype
from .. import _structure
from ._recorded import Recorded


class Unknown(Exception):
    """Something that JSON does not know, and what it is."""


registered: dict[str, Any] = {}  # classes and functions of programs, by "package>name"
_scopes: list[dict[str, Any]] = []  # custom_objects, the innermost last
_met: list[dict[str, Any]] = []  # what is noted of programs' classes and functions while objects are written


def register(package: str = "Custom", name: str | None = None) -> Callable:
    """tf.keras.saving.register_keras_serializable: a decorator."""
    def of(value: Any) -> Any:
        registered[f"{package}>{name or value.__name__}"] = value
        return value

    return of


def custom_objects() -> dict[str, Any]:
    """tf.keras.saving.get_custom_objects: classes and functions by the names that files have for them."""
    return registered


def registered_name(value: Any) -> str:
    """The name that a class or function was registered by."""
    return next((key for key, one in registered.items() if one is value), value.__name__)


def registered_object(name: str, custom_objects: Any = None, module_objects: Any = None) -> Any:
    """The class or function of a name, or None."""
    for table in (custom_objects or {}, *reversed(_scopes), registered, module_objects or {}):
        if name in table:
            return table[name]
    return None


@contextlib.contextmanager
def noting_objects() -> Iterator[dict[str, Any]]:
    """The classes and functions of programs in what is written, as custom_objects to make it again with."""
    found: dict[str, Any] = {}
    _met.append(found)
    try:
        yield found
    finally:
        _met.remove(found)


class CustomObjectScope:
    """tf.keras.utils.custom_object_scope: what names mean while a model is loaded."""

    def __init__(self, *args: dict):
        self.given = {key: value for one in args for key, value in (one or {}).items()}

    def __enter__(self) -> "CustomObjectScope":
        _scopes.append(self.given)
        return self

    def __exit__(self, *exception: Any) -> None:
        _scopes.remove(self.given)


def _name_of(value: Any) -> str:
    own = getattr(value, "__module__", "") or ""
    if "_maker" in getattr(value, "__dict__", ()):  # a class of no name, of which another makes objects
        return value._maker
    if own.startswith("estoc."):
        for module in (own, "estoc.ops", "estoc.tf", "estoc.tf.nn", "estoc.tf.math"):
            for end in ("", ".over_nodes"):
                name = f"{module}:{value.__qualname__}{end}"
                if _find(name) is value:
                    return name
    if value.__name__ == "<lambda>":
        raise Unknown("a lambda has no name to find it by")
    for table in _met:
        table[registered_name(value)] = value
    return _CUSTOM + registered_name(value)


_CUSTOM = "custom:"


def _find(name: str) -> Any:
    if name.startswith(_CUSTOM):
        found = registered_object(name[len(_CUSTOM):])
        if found is None:
            found = registered_object(name[len(_CUSTOM):].rsplit(">", 1)[-1])
        if found is None:
            raise ValueError(f"Unknown object: {name[len(_CUSTOM):]!r}. Please ensure you are using a "
                             "`keras.utils.custom_object_scope` and that this object is included in the scope, or give "
                             "it in custom_objects.")
        return found
    module, path = name.split(":")
    if not module.startswith("estoc."):
        raise ValueError(f"{name} is none of this package")
    found = importlib.import_module(module)
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
    if isinstance(value, np.ndarray):
        return {"array": [item.decode() if isinstance(item, bytes) else item for item in value.tolist()],
                "dtype": value.dtype.str if value.dtype.kind != "S" else "O"}
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
        value = value.__dict__.get("_made_of", value)  # the legacy optimizer that one of a loop was made of
        if not isinstance(value, Recorded):
            raise Unknown(f"{value!r} is no object of Keras")
        if _describes_itself(value):
            return {"custom": _name_of(type(value)), "config": encode(value.get_config(), reference), **_build_of(value)}
        args, named = value._made_as() if hasattr(value, "_made_as") else value._made_with
        if "_layers" in value.__dict__ and _takes_name(type(value)):
            named = {**named, "name": value.name}
        made = {"object": _name_of(type(value)), "args": encode(list(args)), "named": encode(named), **_build_of(value)}
        state = value._adapted() if hasattr(value, "_adapted") else None
        return made if state is None else {**made, "adapted": encode(state)}
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
    if "custom" in value:
        return _built(_find(value["custom"]).from_config(decode(value["config"], reference)), value)
    if "array" in value:
        return np.array(value["array"], dtype=value["dtype"])
    if "object" in value:
        made = _find(value["object"])(*decode(value["args"]), **decode(value["named"]))
        if "adapted" in value:
            made.adapt(decode(value["adapted"]))
        return _built(made, value)
    return _find(value.get("class") or value["function"])


def _takes_name(kind: type) -> bool:
    """Whether objects of a class may be given a name."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return any(p.name == "name" or p.kind is p.VAR_KEYWORD for p in parameters)


def _build_of(value: Any) -> dict:
    """What a layer with a get_build_config of its own was built with."""
    own = getattr(type(value), "get_build_config", None)
    if own is None or own.__module__.startswith("estoc.") or not value.built:
        return {}
    return {"build": encode(value.get_build_config())}


def _built(made: Any, value: dict) -> Any:
    if "build" in value:
        made.build_from_config(decode(value["build"]))
    return made


def _describes_itself(value: Any) -> bool:
    """Whether the program has said how its class is written."""
    own = getattr(type(value), "get_config", None)
    return own is not None and not own.__module__.startswith("estoc.")


# --- models -----------------------------------------------------------------------------------------------------------


def of_model(model: Any) -> dict:
    """A model as JSON; raises Unknown."""
    from . import models
    from ._symbolic import KerasTensor
    if type(model) is models.Sequential:
        first = None if model._input is None else _of_input(model._input)
        if first is None and model._specs:
            dtype, shape = model._specs[0]
            first = {"name": f"{model._layers[0].name}_input", "shape": [None, *tuple(shape)[1:]], "dtype": dtype.name}
        called = None if first is not None or model._known_inputs() is None else [
            [name, dtype.name, list(shape)] for name, dtype, shape in model._known_inputs()]
        return {"kind": "sequential", "name": model.name, "layers": [of_layer(layer) for layer in model._layers],
                "input": first, "called": called, "form": None if called is None else encode(model._input_form)}
    if not isinstance(model, models.Functional):
        called = [[name, dtype.name, list(shape)] for name, dtype, shape in model._known_inputs() or ()]
        if not called:
            raise Unknown(f"{type(model).__name__} was never called, so the shapes of its inputs are not known")
        return {"kind": "subclass", "of": encode(model), "called": called, "form": encode(model._input_form)}
    if type(model) is not models.Functional and _describes_itself(model):
        return {"kind": "subclass", "of": encode(model), "called": None, "form": None}
    layers: list = []
    numbers = {id(item): i for i, item in enumerate(model._flat)}
    calls = {id(call): i for i, call in enumerate(model._calls)}

    def reference(value: Any) -> Any:
        if not isinstance(value, KerasTensor):
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
            "calls": made, "outputs": encode(model._outputs, reference), "class": _name_of(type(model))}


def _of_input(tensor: Any) -> dict:
    return {"name": tensor.name, "shape": list(tensor.shape), "dtype": tensor.dtype.name}


def of_layer(layer: Any) -> dict:
    from .models import Model
    return {"model": of_model(layer)} if isinstance(layer, Model) else encode(layer)


def _made_layer(value: dict) -> Any:
    return made_model(value["model"]) if "model" in value else decode(value)


def copied(model: Any) -> Any:
    """A model that is made as another one, with new variables; its classes need no names."""
    classes: dict[str, Any] = {}
    for layer in [model] + model._flat_layers():
        classes[registered_name(type(layer))] = type(layer)
    with CustomObjectScope(classes):
        return made_model(of_model(model))


def _know_inputs(model: Any, config: dict) -> None:
    """What the first call of a model has told."""
    model.__dict__["_called"] = [(name, as_dtype(dtype), tuple(shape)) for name, dtype, shape in config["called"]]
    model.__dict__["_input_form"] = decode(config["form"])


def made_model(config: dict) -> Any:
    """The model of of_model, with new variables."""
    from . import models
    from ._symbolic import Input, KerasTensor

    if config["kind"] == "subclass":
        model = decode(config["of"])
        if config["called"] is not None:
            _know_inputs(model, config)
        return model

    def made_input(value: dict) -> Any:
        return Input(batch_shape=tuple(value["shape"]), name=value["name"], dtype=value["dtype"])

    layers = [_made_layer(layer) for layer in config["layers"]]
    if config["kind"] == "sequential":
        first = [] if config["input"] is None else [made_input(config["input"])]
        made = models.Sequential(first + layers, name=config["name"])
        if config.get("called") is not None:
            _know_inputs(made, config)
        return made
    inputs = [made_input(value) for value in config["inputs"]]
    results: list = []

    def reference(value: dict) -> Any:
        if "input" in value:
            return inputs[value["input"]]
        return _structure.flatten(results[value["call"]])[value["result"]] if "call" in value else None

    for call in config["calls"]:
        args, named = decode(call["args"], reference), decode(call["named"], reference)
        if isinstance(call["of"], dict):
            results.append(KerasTensor._keras_call(_find(call["of"]["function"]), tuple(args), named))
        else:
            results.append(layers[call["of"]](*args, **named))
    return _find(config["class"])(decode(config["input_form"], reference), decode(config["outputs"], reference),
                                  name=config["name"])
