# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow has and this package does not: an AttributeError that says so and names the nearest thing."""
from __future__ import annotations

import difflib
import re
import sys
from typing import Any, Callable, Mapping

_DTYPES = "tensors are float32, float64, int32, int64, uint8, bool or string; tf.keras.mixed_precision computes in bfloat16"
HINTS: dict[str, str] = {
    **dict.fromkeys(("float16", "half", "bfloat16", "int8", "int16", "uint16", "uint32", "uint64", "complex64", "complex128",
                     "qint8"), _DTYPES),
    **dict.fromkeys(("decode_jpeg", "decode_png", "decode_image", "decode_gif", "decode_bmp", "encode_jpeg", "encode_png"),
                    "there are no codecs of images: PIL.Image, called by tf.py_function in Dataset.map, decodes files"),
    **dict.fromkeys(("complex", "real", "imag", "angle", "conj"), "there are no complex numbers; compute with numpy before "
                                                                  "the dataset, or with two tensors"),
    "lite": "tf.saved_model.save; TensorFlow, where it is installed, converts a SavedModel",
    "signal": "numpy.fft, before the dataset; there are no complex numbers",
    "py_function": "estoc.Dataset.map calls a Python function for each element",
    "experimental_export_all_saved_models": "export_saved_model, which exports for prediction",
    "profiler": "tf.estimator.ProfilerHook, which writes timelines of steps",
    "RunMetadata": "tf.estimator.ProfilerHook, which writes timelines of steps",
    "dtensor": "tf.distribute.MirroredStrategy, MultiWorkerMirroredStrategy and ParameterServerStrategy, which place whole "
               "copies or whole tables",
    "numpy_function": "estoc.Dataset.map calls a Python function for each element",
}


# What will not come, by patterns of dotted names: the reason, and what to use.
REFUSED = {
    r"TPU|\.tpu": "there are no TPUs; tf.distribute.MirroredStrategy and MultiWorkerMirroredStrategy train "
                           "with replicas",
    r"BoostedTrees": "there are no boosted trees; tf.estimator.DNNLinearCombinedClassifier and "
                     "DNNLinearCombinedRegressor take the same columns, and gradient boosting libraries (XGBoost, "
                     "LightGBM, scikit-learn's HistGradientBoostingClassifier) train trees",
    r"load_op_library|load_library|raw_ops|RegisterGradient|custom_op": "there are no custom operations; compose those "
                                                                        "of tf, or compute in numpy before the dataset",
    r"autograph|to_code|to_graph$": "functions are traced as they are written, without AutoGraph; tf.where selects "
                                    "element by element, and loops over Python's range are unrolled",
}


def public_names(module: Any) -> list[str]:
    """The names that a module of this package has for its users."""
    keys = getattr(module, "__all__", None) or [key for key in vars(module) if not key.startswith("_")]
    return sorted(key for key in keys if key != "annotations")


def symbols() -> dict[str, Any]:
    """The modules of estoc.tf that have been imported, by their names in TensorFlow."""
    return {"tf" + name[len("estoc.tf"):]: module for name, module in sorted(sys.modules.items())
            if (name == "estoc.tf" or name.startswith("estoc.tf.")) and "._" not in name}


def _public() -> list[str]:
    """The dotted names of all that exists; those of tf itself before those of compat."""
    names = [f"{where}.{key}" for where, module in symbols().items() for key in public_names(module)]
    return sorted(names, key=lambda name: ("compat" in name, name.count(".")))


class Absent(AttributeError):
    """A symbol `where`.name that does not exist. The nearest one is looked for when the text is asked for: hasattr costs
    nothing."""

    def __init__(self, where: str, name: str, hints: Mapping[str, str]):
        super().__init__(name)
        self._where, self._name, self._hint = where, name, hints.get(name) or HINTS.get(name)
        self._text: str | None = None

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._found()
        return self._text

    def _found(self) -> str:
        where, name = self._where, self._name
        for pattern, reason in REFUSED.items():
            if re.search(pattern, f"{where}.{name}"):
                return f"{where} has no {name!r}: {reason}"
        text = f"{where} has no {name!r}: it does not exist yet in estoc.tf."
        if self._hint:
            return f"{text} Instead: {self._hint}"
        public = _public()
        same = [key for key in public if key.rsplit(".", 1)[1] == name]
        near = same or difflib.get_close_matches(f"{where}.{name}", public, 1, 0.6)
        return f"{text} The nearest is {near[0]}" if near else text


def error(where: str, name: str, hints: Mapping[str, str] = {}) -> AttributeError:
    """The AttributeError for a symbol `where`.name."""
    return Absent(where, name, hints)


def module_getattr(module: str, hints: Mapping[str, str] = {}) -> Callable[[str], Any]:
    """A __getattr__ for a module of this package."""
    where = "tf" + module[len("estoc.tf"):]
    first = "estoc.tf.compat.v1" + module[len("estoc.tf"):]

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # TensorFlow 1.x has such a module too: its names mean nothing else in TensorFlow 2
        one = vars(sys.modules[first]) if first in sys.modules and not name.startswith("_") else {}
        if name in one and name not in hints:
            return one[name]
        raise error(where, name, hints)

    return __getattr__


class Named:
    """A base class whose missing attributes raise with the nearest one."""

    _where = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        mine = difflib.get_close_matches(name, [key for key in dir(type(self)) if not key.startswith("_")], 1, 0.5)
        hint = {name: f"{self._where}.{mine[0]}"} if mine and name not in HINTS else {}
        raise error(self._where or type(self).__name__, name, hint)
