# SPDX-License-Identifier: Apache-2.0
"""Objects of Keras as dicts of plain values, and back (tf.keras.saving.serialize_keras_object): the module and the name of
the class, and what get_config gives."""
from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import Any

import numpy as np

from ..._tensor import DType
from ...graph import Shape
from . import _config
from ._config import registered, registered_name, registered_object
from ._recorded import Recorded

_OURS = "estoc.tf.keras"


def snake(name: str) -> str:
    """ "mean_squared_error" of "MeanSquaredError"."""
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)).lower()


_SAID_BY_SHAPE = ("input_shape", "input_dim", "batch_size", "autocast")  # batch_input_shape has them
_WITHOUT_FORM = (bool, int, float, str, type(None))


def _public_module(kind: type) -> str:
    """Where Keras has a class: "keras.layers"."""
    parts = kind.__module__[len("estoc.tf."):].split(".")
    public = ".".join(part for part in parts if not part.startswith("_"))
    own = {"estoc.tf.keras._layer": "keras.layers", "estoc.tf.keras._array_metrics": "keras.metrics"}
    return own.get(kind.__module__) or {"keras.models": "keras"}.get(public, public)


def serialize(obj: Any) -> Any:
    """A dict of plain values for an object; plain values stay."""
    if isinstance(obj, _WITHOUT_FORM):
        return obj
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, DType):
        return obj.name
    if isinstance(obj, Shape):
        return list(obj)
    if isinstance(obj, bytes):
        return {"class_name": "__bytes__", "config": {"value": obj.decode()}}
    if isinstance(obj, (list, tuple)):
        made = [serialize(item) for item in obj]
        return tuple(made) if isinstance(obj, tuple) else made
    if isinstance(obj, dict):
        return {key: serialize(item) for key, item in obj.items()}
    if isinstance(obj, np.ndarray):
        return {"class_name": "__numpy__", "config": {"value": obj.tolist(), "dtype": obj.dtype.name}}
    if type(obj).__name__ == "Tensor" and hasattr(obj, "_value"):
        return {"class_name": "__tensor__", "config": {"value": obj.numpy().tolist(), "dtype": obj.dtype.name}}
    if isinstance(obj, type):
        raise TypeError(f"Cannot serialize {obj}: give an object of the class")
    if not hasattr(obj, "get_config"):
        return _of_function(obj)
    return _of_object(obj)


def _of_function(function: Any) -> dict:
    name = getattr(function, "_keras_name", None) or getattr(function, "__name__", None)
    if name is None or not callable(function):
        raise TypeError(f"Cannot serialize object {function!r} of type {type(function)}. To be serializable, a class must "
                        "implement the `get_config()` method.")
    if name == "<lambda>":
        raise TypeError("a lambda has no name to find it by: define a function, and register it with "
                        "tf.keras.saving.register_keras_serializable")
    return {"module": "builtins", "class_name": "function", "config": name, "registered_name": "function"}


def _of_object(obj: Any) -> dict:
    kind = type(obj)
    made = {"module": kind.__module__, "class_name": kind.__name__, "config": serialize(obj.get_config()),
            "registered_name": None}
    if kind.__module__.startswith("estoc."):
        made["module"] = _public_module(kind)
    else:
        own = registered_name(kind)
        made["registered_name"] = own if own in registered else kind.__name__
    built = getattr(obj, "get_build_config", None)
    if built is not None and built() is not None:
        made["build_config"] = built()
    return made


def deserialize(config: Any, custom_objects: Any = None, safe_mode: bool = True, **given: Any) -> Any:
    """The object of a dict that serialize has made."""
    custom_objects = {**(custom_objects or {}), **(given.pop("module_objects", None) or {})}
    if given:
        raise TypeError(f"deserialize_keras_object got an unexpected keyword argument {next(iter(given))!r}")
    with _config.CustomObjectScope(custom_objects):
        return _made(config, safe_mode)


def _made(config: Any, safe_mode: bool) -> Any:
    if isinstance(config, (list, tuple)):
        return type(config)(_made(item, safe_mode) for item in config)
    if not isinstance(config, dict):
        return config
    if "class_name" not in config or "config" not in config:
        return {key: _made(item, safe_mode) for key, item in config.items()}
    name, inner = config["class_name"], config["config"]
    if name == "__numpy__":
        return np.array(inner["value"], dtype=inner["dtype"])
    if name == "__tensor__":
        from .._eager import Tensor
        return Tensor(np.array(inner["value"], dtype=inner["dtype"]))
    if name == "__bytes__":
        return inner["value"].encode()
    if name == "__lambda__" and safe_mode:
        raise ValueError("a lambda is code of another program, which is not run; define a function and register it")
    if name == "function":
        return _function(inner)
    kind = _class(name, config.get("module"), config.get("registered_name"))
    if not hasattr(kind, "from_config"):
        raise TypeError(f"Unable to reconstruct an instance of '{name}' because the class is missing a `from_config()` "
                        f"method: {config}")
    made = kind.from_config(dict(inner) if isinstance(inner, dict) else inner)
    if config.get("build_config") and hasattr(made, "build_from_config"):
        made.build_from_config(config["build_config"])
    return made


def _function(name: str) -> Any:
    found = registered_object(name)
    if found is None:  # registered in a package
        found = next((value for key, value in registered.items() if key.endswith(f">{name}")), None)
    if found is not None:
        return found
    from . import activations, losses, metrics
    for module in (activations, losses, metrics):
        found = vars(module).get(name)
        if callable(found):
            return found
    try:
        return activations.get(name)
    except Exception:  # noqa: B902 - whatever an unknown name raises
        raise TypeError(f"Could not locate function '{name}'. Make sure custom classes are decorated with "
                        "`@keras.saving.register_keras_serializable()`.") from None


def _class(name: str, module: str | None, own: str | None) -> Any:
    for key in (own, name):
        found = registered_object(key) if key is not None else None
        if found is not None:
            return found
    found = None
    if module is None or module == "keras" or module.startswith(("keras.", "tensorflow.keras")):
        rest = (module or "keras").replace("tensorflow.", "", 1).replace("keras.src.", "keras.", 1)
        for where in (f"estoc.tf.{rest}", "estoc.tf.keras.models", "estoc.tf.keras.layers", "estoc.tf.keras.optimizers"):
            try:
                found = vars(importlib.import_module(where)).get(name)
            except ImportError:
                continue
            if found is not None:
                return found
    elif module in sys.modules:
        found = getattr(sys.modules[module], name, None)
    if found is None:
        raise TypeError(f"Could not locate class '{name}'. Make sure custom classes are decorated with "
                        f"`@keras.saving.register_keras_serializable()`. (module {module!r})")
    return found


# --- configurations of layers -----------------------------------------------------------------------------------------


_OF_AXES = ("kernel_size", "strides", "pool_size", "dilation_rate")


def argument(key: str, value: Any, axes: int = 0) -> Any:
    """An argument of a layer as get_config has it: names of initializers and their like as objects, and for each axis of
    a convolution a number."""
    if key == "data_format":
        return value or "channels_last"
    if axes and key in _OF_AXES and value is not None:
        return (int(value),) * axes if isinstance(value, (int, np.integer)) else tuple(int(part) for part in value)
    from . import activations, constraints, initializers, regularizers
    if key == "activation" or key.endswith("_activation"):
        found = activations.get(value)
        return found if isinstance(found, Recorded) else activations.serialize(found)
    if value is None:
        return None
    for end, module in (("_initializer", initializers), ("_regularizer", regularizers), ("_constraint", constraints)):
        if key.endswith(end):
            return serialize(module.get(value))
    return serialize(value) if isinstance(value, Recorded) else value


def recorded(obj: Any, kind: type) -> dict:
    """The arguments that an object of `kind` was made with, defaults included."""
    parameters = inspect.signature(kind.__init__)
    args, named = obj._made_with
    bound = parameters.bind(obj, *args, **named)
    bound.apply_defaults()
    found: dict = {}
    for key, value in list(bound.arguments.items())[1:]:
        of = parameters.parameters[key].kind
        if of is inspect.Parameter.VAR_KEYWORD:
            found.update((name, item) for name, item in value.items() if name not in _SAID_BY_SHAPE)
        elif of is not inspect.Parameter.VAR_POSITIONAL:
            found[key] = value
    return found


def plain_arguments(obj: Any) -> dict:
    """Those of a class of a program that has no get_config of its own."""
    found = {}
    for key, value in recorded(obj, type(obj)).items():
        try:
            found[key] = serialize(value)
        except TypeError:
            raise NotImplementedError(
                f"Layer {type(obj).__name__} was created by passing non-serializable argument values in `__init__()`, and "
                "therefore the layer must override `get_config()` in order to be serialized. Please implement "
                f"`get_config()`. ({key}={value!r})") from None
    return found


def by_module(module: str) -> tuple:
    """serialize and deserialize of tf.keras.<module>."""
    def serialize_(obj: Any, use_legacy_format: bool = False) -> Any:
        if use_legacy_format:
            raise NotImplementedError(f"tf.keras.{module}.serialize: use_legacy_format does not exist; the form of Keras 2.13 "
                                      "and later does")
        return serialize(obj)

    def deserialize_(config: Any, custom_objects: Any = None, use_legacy_format: bool = False) -> Any:
        if use_legacy_format:
            raise NotImplementedError(f"tf.keras.{module}.deserialize: use_legacy_format does not exist; the form of Keras "
                                      "2.13 and later does")
        if isinstance(config, str):
            return importlib.import_module(f"{_OURS}.{module}").get(config)
        return deserialize(config, custom_objects)

    serialize_.__name__, deserialize_.__name__ = "serialize", "deserialize"
    serialize_.__doc__ = "An object as a dict of plain values."
    deserialize_.__doc__ = "The object of a dict that serialize has made, or of a name."
    return serialize_, deserialize_


def made_of(identifier: Any) -> Any:
    """What `get` of a module is given, with the object for a dict, and for a name that the program has registered."""
    if isinstance(identifier, str):
        found = registered_object(identifier)
        return identifier if found is None else found
    return deserialize(identifier) if isinstance(identifier, dict) and "class_name" in identifier else identifier


