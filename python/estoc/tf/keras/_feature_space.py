# SPDX-License-Identifier: Apache-2.0
"""tf.keras.utils.FeatureSpace: features by name, each with the layer that prepares it, as one vector or a dict."""
from __future__ import annotations

import itertools
from typing import Any, Sequence

from ... import ops
from ...graph import Node
from ..data import Dataset
from .._eager import Tensor, eager, unwrap
from .._variable import Variable
from . import layers
from ._symbolic import KerasTensor

_reshape, _expand, _squeeze = eager(ops.reshape), eager(ops.expand_dims), eager(ops.squeeze)
_numbers: dict = {}


def _named(kind: str, name: str | None) -> str:
    """The name of a layer that prepares a feature."""
    if name is None:
        count = next(_numbers.setdefault(kind, itertools.count()))
        name = f"{kind}_{count}" if count else kind
    return f"{name}_preprocessor"


class Feature:
    """A feature: its dtype, the layer that prepares it, and whether its number becomes a vector."""

    def __init__(self, dtype: str, preprocessor: Any, output_mode: str):
        if output_mode not in ("int", "one_hot", "float"):
            raise ValueError("Invalid value for argument `output_mode`. Expected one of {'int', 'one_hot', 'float'}. "
                             f"Received: output_mode={output_mode}")
        self.dtype, self.preprocessor, self.output_mode = dtype, preprocessor, output_mode


class Cross:
    """Several features whose values together are a number, by a hash."""

    def __init__(self, feature_names: Sequence[str], crossing_dim: int, output_mode: str = "one_hot"):
        if output_mode not in ("int", "one_hot"):
            raise ValueError("Invalid value for argument `output_mode`. Expected one of {'int', 'one_hot'}. "
                             f"Received: output_mode={output_mode}")
        self.feature_names, self.crossing_dim, self.output_mode = tuple(feature_names), crossing_dim, output_mode

    @property
    def name(self) -> str:
        return "_X_".join(self.feature_names)


class FeatureSpace:
    """Prepares features: kinds by the names of features, such as "float_normalized", or what the functions of that name
    give. Called with a dict it gives one vector for each row, or with output_mode="dict" a dict."""

    def __init__(self, features: dict, output_mode: str = "concat", crosses: Any = None, crossing_dim: int = 32,
                 hashing_dim: int = 32, num_discretization_bins: int = 32):
        if not features:
            raise ValueError("The `features` argument cannot be None or empty.")
        if output_mode not in ("dict", "concat"):
            raise ValueError("Invalid value for argument `output_mode`. Expected one of {'dict', 'concat'}. "
                             f"Received: output_mode={output_mode}")
        self.crossing_dim, self.hashing_dim, self.num_discretization_bins = crossing_dim, hashing_dim, num_discretization_bins
        self.output_mode = output_mode
        self.features = {name: self._feature(name, given) for name, given in features.items()}
        self.crosses = [self._cross(given) for given in crosses or ()]
        self.preprocessors = {name: feature.preprocessor for name, feature in self.features.items()}
        self.crossers = {cross.name: layers.HashedCrossing(cross.crossing_dim, name=cross.name) for cross in self.crosses}
        self.inputs = {name: layers.Input(shape=(1,), dtype=feature.dtype, name=name)
                       for name, feature in self.features.items()}
        self.one_hot_encoders: dict[str, Any] = {}
        self.concat = layers.Concatenate(axis=-1)
        self.encoded_features: Any = None
        self._is_adapted = False

    # --- kinds of features ---

    @classmethod
    def cross(cls, feature_names: Sequence[str], crossing_dim: int, output_mode: str = "one_hot") -> Cross:
        """Features that are crossed."""
        return Cross(feature_names, crossing_dim, output_mode)

    @classmethod
    def feature(cls, dtype: str, preprocessor: Any, output_mode: str) -> Feature:
        """A feature that a layer of the program prepares."""
        return Feature(dtype, preprocessor, output_mode)

    @classmethod
    def float(cls, name: str | None = None) -> Feature:
        """Floats as they are."""
        return Feature("float32", layers.Identity(dtype="float32", name=_named("float", name)), "float")

    @classmethod
    def float_rescaled(cls, scale: Any = 1.0, offset: Any = 0.0, name: str | None = None) -> Feature:
        """Floats times a scale, and an offset."""
        return Feature("float32", layers.Rescaling(scale=scale, offset=offset, name=_named("float_rescaled", name)), "float")

    @classmethod
    def float_normalized(cls, name: str | None = None) -> Feature:
        """Floats of mean 0 and variance 1, by adapt."""
        return Feature("float32", layers.Normalization(axis=-1, name=_named("float_normalized", name)), "float")

    @classmethod
    def float_discretized(cls, num_bins: int, bin_boundaries: Any = None, output_mode: str = "one_hot",
                          name: str | None = None) -> Feature:
        """The number of the bin of a float, by adapt or by boundaries."""
        if num_bins is not None and bin_boundaries is not None:
            raise ValueError(f"Both `num_bins` and `bin_boundaries` should not be set. You passed `num_bins={num_bins}` and "
                             f"`bin_boundaries={bin_boundaries}`")
        made = layers.Discretization(bin_boundaries, num_bins, name=_named("float_discretized", name))
        return Feature("float32", made, output_mode)

    @classmethod
    def integer_categorical(cls, max_tokens: int | None = None, num_oov_indices: int = 1, output_mode: str = "one_hot",
                            name: str | None = None) -> Feature:
        """The places of integers in a vocabulary, by adapt."""
        made = layers.IntegerLookup(max_tokens=max_tokens, num_oov_indices=num_oov_indices,
                                    name=_named("integer_categorical", name))
        return Feature("int64", made, output_mode)

    @classmethod
    def string_categorical(cls, max_tokens: int | None = None, num_oov_indices: int = 1, output_mode: str = "one_hot",
                           name: str | None = None) -> Feature:
        """The places of texts in a vocabulary, by adapt."""
        made = layers.StringLookup(max_tokens=max_tokens, num_oov_indices=num_oov_indices,
                                   name=_named("string_categorical", name))
        return Feature("string", made, output_mode)

    @classmethod
    def string_hashed(cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None) -> Feature:
        """Hashes of texts."""
        return Feature("string", layers.Hashing(num_bins=num_bins, name=_named("string_hashed", name)), output_mode)

    @classmethod
    def integer_hashed(cls, num_bins: int, output_mode: str = "one_hot", name: str | None = None) -> Feature:
        """Hashes of integers."""
        return Feature("int64", layers.Hashing(num_bins=num_bins, name=_named("integer_hashed", name)), output_mode)

    def _feature(self, name: str, given: Any) -> Feature:
        if isinstance(given, Feature):
            return given
        more = {"float_discretized": {"num_bins": self.num_discretization_bins},
                "string_hashed": {"num_bins": self.hashing_dim}, "integer_hashed": {"num_bins": self.hashing_dim}}
        if given not in ("float", "float_normalized", "float_rescaled", "integer_categorical", "string_categorical", *more):
            raise ValueError(f"Invalid feature type: {given}")
        return getattr(self, given)(**more.get(given, {}), name=name)

    def _cross(self, given: Any) -> Cross:
        names = given.feature_names if isinstance(given, Cross) else tuple(given)
        if any(name not in self.features for name in names):
            raise ValueError("All features referenced in the `crosses` argument should be present in the `features` dict. "
                             f"Received unknown features: {names}")
        return given if isinstance(given, Cross) else Cross(names, self.crossing_dim)

    # --- adapting ---

    def _to_adapt(self) -> list[str]:
        return [name for name, layer in self.preprocessors.items() if hasattr(layer, "adapt") and not (
            isinstance(layer, layers.Normalization) and layer.get_config().get("mean") is not None) and not (
            isinstance(layer, layers.Discretization) and layer.get_config().get("bin_boundaries") is not None)]

    def adapt(self, dataset: Any) -> None:
        """Learns vocabularies, bins, means and variances from a dataset of dicts."""
        if not isinstance(dataset, Dataset):
            raise ValueError(f"`adapt()` can only be called on a tf.data.Dataset. Received instead: {dataset} (of type "
                             f"{type(dataset)})")
        for name in self._to_adapt():
            values = dataset.map(lambda row, name=name: row[name])
            rank = len(values.element_spec.shape)
            values = values.batch(32) if rank == 0 else values
            self.preprocessors[name].adapt(values.map(lambda x: ops.expand_dims(x, -1)) if rank < 2 else values)
        self._is_adapted = True
        self.get_encoded_features()

    def _check_adapted(self) -> None:
        if not self._is_adapted and self._to_adapt():
            raise ValueError("You need to call `.adapt(dataset)` on the FeatureSpace before you can start using it.")

    # --- encoding ---

    def get_inputs(self) -> dict:
        """An Input for each feature."""
        self._check_adapted()
        return self.inputs

    def get_encoded_features(self) -> Any:
        """What the inputs become."""
        self._check_adapted()
        if self.encoded_features is None:
            self.encoded_features = self._encoded(self.inputs)
        return self.encoded_features

    def _encoded(self, data: dict) -> Any:
        made = {name: self.preprocessors[name](data[name]) for name in data}
        crossed = {cross.name: self.crossers[cross.name]([made[name] for name in cross.feature_names])
                   for cross in self.crosses}
        modes = {**{name: feature.output_mode for name, feature in self.features.items()},
                 **{cross.name: cross.output_mode for cross in self.crosses}}
        found = {}
        for name, value in [*sorted(made.items()), *sorted(crossed.items())]:
            found[name] = self._vector(name, value) if modes[name] == "one_hot" else value
            if self.output_mode == "concat" and not found[name].dtype.is_floating:
                raise ValueError(f"Cannot concatenate features because feature '{name}' has not been encoded (it has dtype "
                                 f"{found[name].dtype.name}). Consider using `output_mode='dict'`.")
        return found if self.output_mode == "dict" else self.concat(list(found.values()))

    def _vector(self, name: str, value: Any) -> Any:
        """A number as a vector with a 1."""
        if name not in self.one_hot_encoders:
            layer = self.preprocessors.get(name) or self.crossers[name]
            if not value.dtype.is_integer:
                raise ValueError(f"Feature '{name}' has `output_mode='one_hot'`. Thus its preprocessor should return an int64 "
                                 f"dtype. Instead it returns a {value.dtype.name} dtype.")
            if hasattr(layer, "vocabulary_size"):
                size = layer.vocabulary_size()
            elif isinstance(layer, layers.Discretization):
                size = len(layer.bin_boundaries) + 1
            elif hasattr(layer, "num_bins"):
                size = layer.num_bins
            else:
                raise ValueError(f"Feature '{name}' has `output_mode='one_hot'`. However it isn't a standard feature and the "
                                 "dimensionality of its output space is not known, thus it cannot be one-hot encoded. Try "
                                 "using `output_mode='int'`.")
            self.one_hot_encoders[name] = layers.CategoryEncoding(num_tokens=size, output_mode="multi_hot")
        return self.one_hot_encoders[name](value)

    def __call__(self, data: Any) -> Any:
        self._check_adapted()
        if not isinstance(data, dict):
            raise ValueError(f"A FeatureSpace can only be called with a dict. Received: data={data} (of type {type(data)}")
        given = {name: value if isinstance(value, (Tensor, Node, KerasTensor)) else Tensor(
            value._array() if isinstance(value, Variable) else unwrap(value)) for name, value in data.items()}
        single = any(len(value.shape) == 0 for value in given.values())
        columns = {name: _reshape(value, [1, 1]) if len(value.shape) == 0 else _expand(value, -1) if len(
            value.shape) == 1 else value for name, value in given.items()}
        found = self._encoded(columns)
        if not single:
            return found
        if self.output_mode == "concat":
            return _squeeze(found, 0)
        return {name: _squeeze(value, 0) if len(value.shape) == 2 else value for name, value in found.items()}

    def save(self, filepath: Any) -> None:
        """Keras writes a file of the layers."""
        raise NotImplementedError("FeatureSpace.save does not exist: a Model of get_inputs() and get_encoded_features() can be "
                                  "saved, and has what was adapted")
