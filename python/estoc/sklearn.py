# SPDX-License-Identifier: Apache-2.0
"""Canned estimators with the manners of scikit-learn: fit, predict, score, pickling, GridSearchCV, Pipeline.

    from estoc.sklearn import WideDeepClassifier
    model = WideDeepClassifier(random_state=7).fit(frame, labels)
    model.predict_proba(other_frame)

Columns are made from the data that `fit` gets. Numbers (and booleans) are scaled to mean 0 and variance 1. Anything else
in a data frame or an array of objects is a category: a vocabulary of the values seen, with one more bucket for others
and an own entry for missing ones; more than `max_vocabulary` different values are hashed into `hash_buckets`. The linear
part has a weight for each category; the deep part an indicator for up to 8 values, else a trained embedding of
1.6 n^0.56 dimensions, at most 50. Targets of regressors are scaled too.

A fitted model holds the files of its last checkpoint as bytes, so that copies and pickles are complete.
"""
from __future__ import annotations

import os
import tempfile
import weakref
from typing import Any, NamedTuple, Sequence

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from . import config, estimator as _estimator, feature_column, optimizers
from ._frames import column_array, is_column
from .data import Dataset

__all__ = ["DNNClassifier", "DNNRegressor", "LinearClassifier", "LinearRegressor", "WideDeepClassifier",
           "WideDeepRegressor"]

_PREDICT_ROWS = 256
_INDICATOR_MAX = 8


class _Category(NamedTuple):
    """A column of categories: its position in X, and its vocabulary; None: hashed."""

    at: int
    vocabulary: tuple | None


class _Running:
    """A model that can predict: the directory that its files were unpacked into."""

    def __init__(self, model: Any, directory: Any):
        self.model = model
        self.directory = directory


_running: "weakref.WeakKeyDictionary[Any, _Running]" = weakref.WeakKeyDictionary()


class _Base(BaseEstimator):
    """What all have in common."""

    # --- data ---

    def _check_names(self, X: Any, reset: bool) -> None:
        """Sets or compares n_features_in_ and feature_names_in_."""
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:  # before scikit-learn 1.6
            self._check_feature_names(X, reset=reset)
            self._check_n_features(X, reset=reset)
        else:
            validate_data(self, X, reset=reset, skip_check_array=True)

    def _columns(self, X: Any, reset: bool) -> list:
        """The columns of X: float64 arrays of numbers, or arrays of bytes."""
        mixed = hasattr(X, "columns") and hasattr(X, "__getitem__") or \
            isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2 and any(map(_is_text, X.flat))
        if not mixed:
            checked = check_array(X, dtype="numeric", estimator=self)
            self._check_names(X if hasattr(X, "columns") else checked, reset)
            return list(np.asarray(checked, np.float64).T)
        self._check_names(X, reset)
        if len(X) == 0:
            raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
        if X.shape[1] == 0:
            raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        names = list(X.columns) if hasattr(X, "columns") else range(X.shape[1])
        columns = [_column(X[name] if hasattr(X, "columns") else X[:, name], name) for name in names]
        numbers = [column for column in columns if column.dtype != object]
        if numbers:
            check_array(np.stack(numbers, 1), estimator=self)
        return columns

    def _learn_columns(self, columns: list) -> None:
        numbers = [i for i, column in enumerate(columns) if column.dtype != object]
        self._numeric = numbers
        values = np.stack([columns[i] for i in numbers], 1) if numbers else np.zeros((len(columns[0]), 0))
        with np.errstate(over="ignore", invalid="ignore"):
            self._mean, scale = values.mean(0), values.std(0)
        self._scale = np.where(np.isfinite(scale) & (scale > 1e-12 * np.maximum(1, np.abs(self._mean))), scale, 1)
        self._categories = []
        for i, column in enumerate(columns):
            if column.dtype == object:
                found = sorted(set(column))
                self._categories.append(_Category(i, tuple(found) if len(found) <= self.max_vocabulary else None))

    def _features(self, columns: list) -> dict[str, np.ndarray]:
        features: dict[str, np.ndarray] = {}
        if self._numeric:
            values = np.stack([columns[i] for i in self._numeric], 1)
            features["numeric"] = ((values - self._mean) / self._scale).astype(np.float32)
        for category in self._categories:
            column = columns[category.at]
            if column.dtype != object:
                raise ValueError(f"column {category.at} of X has numbers, and had categories in fit")
            features[f"c{category.at}"] = column
        return features

    def _feature_columns(self) -> tuple[list, list]:
        """The columns of the linear and of the deep part."""
        linear: list = []
        deep: list = []
        if self._numeric:
            numeric = feature_column.numeric_column("numeric", shape=len(self._numeric))
            linear.append(numeric)
            deep.append(numeric)
        for category in self._categories:
            key = f"c{category.at}"
            if category.vocabulary is None:
                size = self.hash_buckets
                column = feature_column.categorical_column_with_hash_bucket(key, size)
            else:
                size = len(category.vocabulary) + 1
                column = feature_column.categorical_column_with_vocabulary_list(
                    key, np.array(category.vocabulary, dtype=object), num_oov_buckets=1)
            linear.append(column)
            deep.append(feature_column.indicator_column(column) if size <= _INDICATOR_MAX else
                        feature_column.embedding_column(column, int(min(50, round(1.6 * size ** 0.56)))))
        return linear, deep

    # --- models ---

    def _optimizer(self, name: Any, learning_rate: float) -> Any:
        if not isinstance(name, str):
            return name
        kinds = {"Adagrad": optimizers.Adagrad, "Adam": optimizers.Adam, "Ftrl": optimizers.Ftrl,
                 "RMSProp": optimizers.RMSProp, "SGD": optimizers.SGD}
        if name not in kinds:
            raise ValueError(f"optimizer is {name!r}; it is one of {', '.join(kinds)}, or an optimizer")
        return kinds[name](learning_rate)

    def _make(self, directory: str, weighted: bool) -> Any:
        run = config.RunConfig(model_dir=directory, seed=self._seed, save_summary_steps=None,
                               save_checkpoints_steps=10**9, keep_checkpoint_max=1,
                               log_step_count_steps=None, no_input_position=True, no_graph_def=True)
        common: dict[str, Any] = {"config": run, "weight_column": "weight" if weighted else None,
                                  **self._head()}
        return self._model(common, *self._feature_columns())

    def _train(self, X: Any, target: np.ndarray, columns: list, sample_weight: Any, again: bool) -> None:
        for name, lowest in (("epochs", 1), ("batch_size", 1)):
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {lowest}")
        if not again:
            self._seed = int(check_random_state(self.random_state).randint(1, 2**31 - 1))
        features = self._features(columns)
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, columns[0], dtype=np.float64)
            features["weight"] = weight.astype(np.float32)
        rows = Dataset.from_tensor_slices((features, target))
        rows = rows.shuffle(len(target), seed=self._seed).repeat(self.epochs).batch(self.batch_size)
        with tempfile.TemporaryDirectory(prefix="estoc-sklearn-") as directory:
            if again:
                _unpack(self._files, directory)
            model = self._make(directory, sample_weight is not None)
            model.train(lambda: rows)
            self._files = _pack(directory)
        _running.pop(self, None)

    def _predict(self, X: Any, key: str) -> np.ndarray:
        check_is_fitted(self)
        features = self._features(self._columns(X, reset=False))
        running = _running.get(self)
        if running is None:
            directory = tempfile.TemporaryDirectory(prefix="estoc-sklearn-")
            _unpack(self._files, directory.name)
            running = _running[self] = _Running(self._make(directory.name, False), directory)
        found = [batch[key] for batch in running.model.predict(lambda: _full_batches(features), predict_keys=key,
                                                               yield_single_examples=False)]
        return np.concatenate(found)[:len(next(iter(features.values())))].astype(np.float64)

    def _start(self, X: Any) -> tuple[list, bool]:
        """The columns of X, and whether to train on from the last fit."""
        again = bool(self.warm_start) and hasattr(self, "_files")
        columns = self._columns(X, reset=not again)
        if not again:
            self._learn_columns(columns)
        return columns, again


class _Classifier(ClassifierMixin, _Base):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Trains from the beginning, or with warm_start from where the last fit ended."""
        _need_target(y)
        columns, again = self._start(X)
        labels = column_or_1d(y.to_numpy() if is_column(y) else y, warn=True)
        _check_length(columns, labels)
        check_classification_targets(labels)
        classes, target = np.unique(labels, return_inverse=True)
        if again:
            if not set(classes) <= set(self.classes_):
                raise ValueError("warm_start: y has classes that the last fit did not have")
            target = np.searchsorted(self.classes_, labels)
        elif len(classes) < 2:
            raise ValueError(f"y has 1 class, {classes[0]!r}; a classifier needs at least 2")
        else:
            self.classes_ = classes
        self._train(X, target.astype(np.int64), columns, sample_weight, again)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of classes_."""
        return self._predict(X, "probabilities")

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def _head(self) -> dict[str, Any]:
        return {"n_classes": len(self.classes_)}


class _Regressor(RegressorMixin, _Base):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Trains from the beginning, or with warm_start from where the last fit ended."""
        _need_target(y)
        columns, again = self._start(X)
        target = column_or_1d(y.to_numpy() if is_column(y) else y, warn=True)
        target = check_array(target, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        _check_length(columns, target)
        if not again:
            self._target_mean = float(target.mean())
            scale = float(target.std())
            self._target_scale = scale if scale > 0 else 1.0
        scaled = ((target - self._target_mean) / self._target_scale).astype(np.float32)
        self._train(X, scaled, columns, sample_weight, again)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The predicted value of each row."""
        scaled = self._predict(X, "predictions")[:, 0]
        return scaled * self._target_scale + self._target_mean

    def _head(self) -> dict[str, Any]:
        return {}


# --- parts ------------------------------------------------------------------------------------------------------------


def _full_batches(features: dict[str, np.ndarray]) -> Dataset:
    """Batches of one size, the last one filled up with other rows: sums have another order in batches of other sizes, and
    what is predicted for a row shall not depend on those beside it."""
    n = len(next(iter(features.values())))
    full = n - n % _PREDICT_ROWS
    parts = [{name: array[:full] for name, array in features.items()}] if full else []
    if n > full:
        filled = np.arange(full, full + _PREDICT_ROWS) % n
        parts.append({name: array[filled] for name, array in features.items()})
    rows = [Dataset.from_tensor_slices(part).batch(_PREDICT_ROWS) for part in parts]
    return rows[0] if len(rows) == 1 else rows[0].concatenate(rows[1])


def _need_target(y: Any) -> None:
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")


def _check_length(columns: list, target: np.ndarray) -> None:
    if len(columns[0]) != len(target):
        raise ValueError(f"Found input variables with inconsistent numbers of samples: "
                         f"{[len(columns[0]), len(target)]}")


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _column(column: Any, name: Any) -> np.ndarray:
    """float64 for numbers and booleans, else bytes; a missing category is b""."""
    if is_column(column):
        values = column_array(column, str(name), nulls="missing") if str(column.dtype) != "boolean" else \
            column_array(column, str(name))
    else:
        values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if values.dtype == object and not any(map(_is_text, values)):
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as exception:
            raise TypeError(f"column {name!r}: {exception}") from None
    return np.array([value if isinstance(value, bytes) else b"" if value is None or value != value else
                     str(value).encode() for value in values], dtype=object)


def _pack(directory: str) -> dict[str, bytes]:
    """The files of the last checkpoint."""
    files = {}
    for name in sorted(os.listdir(directory)):
        if name == "checkpoint" or name.startswith("model.ckpt"):
            with open(os.path.join(directory, name), "rb") as file:
                files[name] = file.read()
    return files


def _unpack(files: dict[str, bytes], directory: str) -> None:
    for name, contents in files.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(contents)


# --- the estimators ---------------------------------------------------------------------------------------------------

_PARAMETERS = """
    Parameters
    ----------
{own}    epochs : int
        Passes over the data.
    batch_size : int
        Rows of a step.
    max_vocabulary : int
        A column with more different categories is hashed.
    hash_buckets : int
        Into so many buckets.
    warm_start : bool
        Train on from the last fit, with its columns and classes.
    random_state : int, RandomState or None
        Initial values, shuffling and dropout; the same number gives the same model.

    Attributes
    ----------
    {classes}n_features_in_ : int
        Columns of X in fit.
    feature_names_in_ : ndarray of str
        Their names, where X had names.
    """

_DEEP = """    hidden_units : tuple of int
        Units of the hidden layers.
    optimizer : str or optimizer
        "Adam", "Adagrad", "Ftrl", "RMSProp", "SGD", or one of estoc.optimizers.
    learning_rate : float
        Of an optimizer that is given by its name.
    activation : str
        Of the hidden layers.
    dropout : float
        Share of the units that is left out in a training step.
    batch_norm : bool
        Batch normalization after each hidden layer.
"""
_WIDE = """    linear_optimizer : str or optimizer
        Of the linear part.
    linear_learning_rate : float
        Its rate.
"""
_LINEAR = """    optimizer : str or optimizer
        "Ftrl", "Adam", "Adagrad", "RMSProp", "SGD", or one of estoc.optimizers.
    learning_rate : float
        Of an optimizer that is given by its name.
"""
_CLASSES = """classes_ : ndarray
        The classes, sorted.
    """


def _documented(own: str) -> Any:
    def add(kind: type) -> type:
        kind.__doc__ = (kind.__doc__ or "") + "\n" + _PARAMETERS.format(
            own=own, classes=_CLASSES if issubclass(kind, _Classifier) else "")
        return kind

    return add


class _Deep:
    _canned: Any = None

    def __init__(self, hidden_units: Sequence[int] = (64, 32), *, optimizer: Any = "Adam", learning_rate: float = 0.005,
                 activation: str = "relu", dropout: float = 0.0, batch_norm: bool = False, epochs: int = 40,
                 batch_size: int = 32, max_vocabulary: int = 1000, hash_buckets: int = 10000, warm_start: bool = False,
                 random_state: Any = None):
        self.hidden_units = hidden_units
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.activation = activation
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.epochs = epochs
        self.batch_size = batch_size
        self.max_vocabulary = max_vocabulary
        self.hash_buckets = hash_buckets
        self.warm_start = warm_start
        self.random_state = random_state

    def _model(self, common: dict, linear: list, deep: list) -> Any:
        return self._canned(list(self.hidden_units), deep, optimizer=self._optimizer(self.optimizer,
                                                                                     self.learning_rate),
                            activation_fn=self.activation, dropout=self.dropout, batch_norm=self.batch_norm, **common)


class _Linear:
    _canned: Any = None

    def __init__(self, *, optimizer: Any = "Ftrl", learning_rate: float = 0.2, epochs: int = 40, batch_size: int = 32,
                 max_vocabulary: int = 1000, hash_buckets: int = 10000, warm_start: bool = False,
                 random_state: Any = None):
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.max_vocabulary = max_vocabulary
        self.hash_buckets = hash_buckets
        self.warm_start = warm_start
        self.random_state = random_state

    def _model(self, common: dict, linear: list, deep: list) -> Any:
        return self._canned(linear, optimizer=self._optimizer(self.optimizer, self.learning_rate), **common)


class _WideDeep:
    _canned: Any = None

    def __init__(self, hidden_units: Sequence[int] = (64, 32), *, optimizer: Any = "Adam", learning_rate: float = 0.005,
                 linear_optimizer: Any = "Ftrl", linear_learning_rate: float = 0.05, activation: str = "relu",
                 dropout: float = 0.0, batch_norm: bool = False, epochs: int = 40, batch_size: int = 32,
                 max_vocabulary: int = 1000, hash_buckets: int = 10000, warm_start: bool = False,
                 random_state: Any = None):
        self.hidden_units = hidden_units
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.linear_optimizer = linear_optimizer
        self.linear_learning_rate = linear_learning_rate
        self.activation = activation
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.epochs = epochs
        self.batch_size = batch_size
        self.max_vocabulary = max_vocabulary
        self.hash_buckets = hash_buckets
        self.warm_start = warm_start
        self.random_state = random_state

    def _model(self, common: dict, linear: list, deep: list) -> Any:
        return self._canned(linear_feature_columns=linear, dnn_feature_columns=deep,
                            linear_optimizer=self._optimizer(self.linear_optimizer, self.linear_learning_rate),
                            dnn_optimizer=self._optimizer(self.optimizer, self.learning_rate),
                            dnn_hidden_units=list(self.hidden_units), dnn_activation_fn=self.activation,
                            dnn_dropout=self.dropout, batch_norm=self.batch_norm, **common)


@_documented(_LINEAR)
class LinearClassifier(_Linear, _Classifier):
    """Logistic regression over numbers and categories."""

    _canned = _estimator.LinearClassifier


@_documented(_LINEAR)
class LinearRegressor(_Linear, _Regressor):
    """Linear regression over numbers and categories."""

    _canned = _estimator.LinearRegressor


@_documented(_DEEP)
class DNNClassifier(_Deep, _Classifier):
    """A deep classifier over numbers and categories."""

    _canned = _estimator.DNNClassifier


@_documented(_DEEP)
class DNNRegressor(_Deep, _Regressor):
    """A deep regressor over numbers and categories."""

    _canned = _estimator.DNNRegressor


@_documented(_DEEP + _WIDE)
class WideDeepClassifier(_WideDeep, _Classifier):
    """A linear model and a deep one whose logits are added."""

    _canned = _estimator.DNNLinearCombinedClassifier


@_documented(_DEEP + _WIDE)
class WideDeepRegressor(_WideDeep, _Regressor):
    """A linear model and a deep one whose predictions are added."""

    _canned = _estimator.DNNLinearCombinedRegressor
