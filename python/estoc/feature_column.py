# SPDX-License-Identifier: Apache-2.0
"""Feature columns: how the features of a row become the inputs of a model. Names and meaning are TensorFlow's."""
from __future__ import annotations

import os
from typing import Any, Callable, Sequence

import numpy as np

from . import io
from ._lib import NULL, Handle, Keep, check, ffi, lib, made, node_callback, owned, text
from ._tensor import as_array, as_dtype, c_shape, float32, int64, py_shape, string, to_tensor
from .graph import Graph, Node, Shape
from .initializers import c_initializer

_COMBINERS = {None: 0, "mean": 1, "sum": 2, "sqrtn": 3}


def c_combiner(name: str | None) -> int:
    if name not in _COMBINERS:
        raise ValueError(f"a combiner is \"mean\", \"sum\" or \"sqrtn\", not {name!r}")
    return _COMBINERS[name]


class Column:
    """A description without a graph, of which estimators and parse specs are made."""

    def __init__(self, build: Callable[[Any, Keep], Any], kind: str, **about: Any):
        self._build = build  # into a set of C; a column made of others builds these there too
        self._keep = Keep()
        self._set = made(lib.est_columns_create(), "est_columns_free")
        self._c = build(self._set, self._keep)
        check(lib.est_columns_status(self._set))
        self.kind = kind
        for name, value in about.items():
            setattr(self, name, value)

    @property
    def name(self) -> str:
        return text(lib.est_column_name(self._c))

    def __repr__(self) -> str:
        return f"<estoc.{self.kind} {self.name!r}>"


def c_columns(keep: Keep, columns: Any) -> Any:
    """An est_column_list."""
    if isinstance(columns, Column):
        columns = [columns]
    columns = list(columns or [])
    for column in columns:
        if not isinstance(column, Column):
            raise ValueError(f"feature columns are made by the functions of feature_column; got {column!r}")
    keep.extend(columns)
    return keep.span("est_column_list", "est_column *", [column._c for column in columns])


def _need(*columns: Any) -> None:
    for column in columns:
        if not isinstance(column, Column):
            raise ValueError(f"a feature column is needed, not {column!r}")


@node_callback("py_on_normalize", lambda values, user: values.graph)
def _normalize(values: Any, user: Any) -> Any:
    graph = Graph(_borrowed=values.graph)
    result = Handle.get(user)(Node(graph, values))
    if not isinstance(result, Node):
        raise TypeError(f"a normalizer returns a node made of its argument, not {type(result).__name__}")
    node = ffi.new("est_node *", result._c)[0]
    graph._close()
    return node


# --- numbers ----------------------------------------------------------------------------------------------------------


def numeric_column(key: str, shape: int | Sequence[int] = (1,), default_value: Any = None, dtype: Any = float32,
                   normalizer_fn: Callable | None = None) -> Column:
    """Numbers as float32. normalizer_fn is a function of a node that keeps its shape. Examples are parsed with float32
    or int64, whichever is of the same kind."""
    return _numeric("numeric_column", key, shape, default_value, dtype, normalizer_fn)


def _numeric(kind: str, key: str, shape: int | Sequence[int], default_value: Any, dtype: Any,
             normalizer_fn: Callable | None) -> Column:
    """A column of numbers; C has the functions of the same names."""
    dtype = as_dtype(dtype)
    if not dtype.is_floating and not dtype.is_integer:
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype.name}, key: {key}")
    dtype = float32 if dtype.is_floating else int64
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")

    def build(columns: Any, keep: Keep) -> Any:
        members: dict[str, Any] = {"shape": c_shape(shape), "dtype": dtype.number}
        if default_value is not None:
            members["default_value"] = keep.f32s(np.asarray(default_value, np.float32).reshape(-1))
        if normalizer_fn is not None:
            handle = Handle(normalizer_fn)
            keep.append(handle)
            members.update(normalizer=lib.py_on_normalize, user=handle.pointer)
        return getattr(lib, f"est_{kind}")(columns, keep.string(key), keep.options("est_numeric_options", **members))

    return Column(build, kind, key=key, shape=shape, dtype=dtype)


def bucketized_column(source_column: Column, boundaries: Sequence[float]) -> Column:
    """The range between ascending boundaries that a number lies in."""
    _need(source_column)
    return Column(lambda columns, keep: lib.est_bucketized_column(source_column._build(columns, keep),
                                                                  keep.f32s(boundaries)),
                  "bucketized_column", source_column=source_column, boundaries=tuple(boundaries))


# --- categories -------------------------------------------------------------------------------------------------------


def categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None,
                                     _sequence: bool = False) -> Column:
    """Integers in [0, num_buckets) as they are."""
    return Column(lambda columns, keep: lib.est_identity_column(
        columns, keep.string(key), num_buckets, keep.options("est_categorical_options", sequence=_sequence,
                                                             **_default(default_value))),
        _kind("categorical_column_with_identity", _sequence), key=key)


def _kind(name: str, sequence: bool) -> str:
    return f"sequence_{name}" if sequence else name


def categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = string,
                                        _sequence: bool = False) -> Column:
    """Strings (or integers, by their decimal text) hashed into buckets."""
    return Column(lambda columns, keep: lib.est_hash_bucket_column(
        columns, keep.string(key), hash_bucket_size, keep.options("est_categorical_options", sequence=_sequence,
                                                                  dtype=as_dtype(dtype).number)),
        _kind("categorical_column_with_hash_bucket", _sequence), key=key)


def categorical_column_with_vocabulary_list(key: str, vocabulary_list: Sequence, dtype: Any = None,
                                            default_value: int = -1, num_oov_buckets: int = 0,
                                            _sequence: bool = False) -> Column:
    """The index of a value in a list."""
    if not isinstance(vocabulary_list, np.ndarray):
        words = len(vocabulary_list) > 0 and isinstance(vocabulary_list[0], (str, bytes))
        vocabulary_list = np.asarray(list(vocabulary_list), dtype=object if words else None)
    entries = as_array(vocabulary_list)
    if entries.dtype != object:
        entries = as_array(entries.astype(np.int64))
    if dtype is not None and (as_dtype(dtype) is string) != (entries.dtype == object):
        raise ValueError(f"dtype {as_dtype(dtype).name} does not fit the vocabulary of {key}")

    def build(columns: Any, keep: Keep) -> Any:
        tensor = to_tensor(entries)
        return lib.est_vocabulary_list_column(columns, keep.string(key), tensor, keep.options(
            "est_categorical_options", num_oov_buckets=num_oov_buckets, sequence=_sequence,
            **_default(None if default_value == -1 else default_value)))

    return Column(build, _kind("categorical_column_with_vocabulary_list", _sequence), key=key)


def categorical_column_with_vocabulary_file(key: str, vocabulary_file: str | os.PathLike,
                                            vocabulary_size: int | None = None, dtype: Any = string,
                                            default_value: int | None = None, num_oov_buckets: int = 0,
                                            _sequence: bool = False) -> Column:
    """The line number of a value in a text file."""
    default = None if default_value == -1 else default_value
    return Column(lambda columns, keep: lib.est_vocabulary_file_column(
        columns, keep.string(key), keep.string(vocabulary_file), keep.options(
            "est_categorical_options", dtype=as_dtype(dtype).number, num_oov_buckets=num_oov_buckets,
            vocabulary_size=vocabulary_size or 0, sequence=_sequence, **_default(default))),
        _kind("categorical_column_with_vocabulary_file", _sequence), key=key)


def _default(value: int | None) -> dict[str, Any]:
    return {} if value is None else {"has_default": True, "default_value": value}


def crossed_column(keys: Sequence[str | Column], hash_bucket_size: int, hash_key: int | None = None) -> Column:
    """Combinations of the values of columns or of features by their keys, hashed into buckets."""
    if len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    _need(*(key for key in keys if not isinstance(key, str)))

    def build(columns: Any, keep: Keep) -> Any:
        sources = [lib.est_key_column(columns, keep.string(key)) if isinstance(key, str) else key._build(columns, keep)
                   for key in keys]
        return lib.est_crossed_column(keep.span("est_column_list", "est_column *", sources), hash_bucket_size,
                                      hash_key or 0)

    return Column(build, "crossed_column", keys=tuple(keys))


def weighted_categorical_column(categorical_column: Column, weight_feature_key: str) -> Column:
    """A categorical column whose values are weighted by the numbers of another feature."""
    _need(categorical_column)
    return Column(lambda columns, keep: lib.est_weighted_column(categorical_column._build(columns, keep),
                                                                keep.string(weight_feature_key)),
                  "weighted_categorical_column", categorical_column=categorical_column)


# --- categories as dense vectors --------------------------------------------------------------------------------------


def indicator_column(categorical_column: Column) -> Column:
    """How often each id occurs in the row."""
    _need(categorical_column)
    return Column(lambda columns, keep: lib.est_indicator_column(categorical_column._build(columns, keep)),
                  "indicator_column", categorical_column=categorical_column)


def _embedding_options(keep: Keep, combiner: str | None, initializer: Any, ckpt_to_load_from: str | None,
                       tensor_name_in_ckpt: str | None, max_norm: float | None, trainable: bool,
                       collection_name: str | None = None) -> Any:
    if max_norm == 0:
        raise ValueError("max_norm is 0, which makes all embeddings 0; leave it out, or write a number above 0")
    return keep.options("est_embedding_column_options", combiner=c_combiner(combiner),
                        initializer=c_initializer(keep, initializer), checkpoint=keep.string(ckpt_to_load_from),
                        tensor_name=keep.string(tensor_name_in_ckpt), max_norm=max_norm or 0, frozen=not trainable,
                        collection_name=keep.string(collection_name))


def embedding_column(categorical_column: Column, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
                     max_norm: float | None = None, trainable: bool = True) -> Column:
    """A trained vector for every id, combined over the ids of a row."""
    _need(categorical_column)
    return Column(lambda columns, keep: lib.est_embedding_column(
        categorical_column._build(columns, keep), dimension,
        _embedding_options(keep, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable)),
        "embedding_column", categorical_column=categorical_column, dimension=dimension)


def shared_embeddings(categorical_columns: Sequence[Column], dimension: int, combiner: str = "mean",
                      initializer: Any = None, shared_embedding_collection_name: str | None = None,
                      ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
                      max_norm: float | None = None, trainable: bool = True) -> list[Column]:
    """One table for several columns; a new column for each."""
    sources = list(categorical_columns)
    _need(*sources)

    def build(columns: Any, keep: Keep, i: int) -> Any:
        out = keep.new(f"est_column *[{max(len(sources), 1)}]")
        lib.est_shared_embedding_columns(
            keep.span("est_column_list", "est_column *", [source._build(columns, keep) for source in sources]),
            dimension, _embedding_options(keep, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm,
                                          trainable, shared_embedding_collection_name), out)
        return out[i]

    return [Column(lambda columns, keep, i=i: build(columns, keep, i), "shared_embeddings", dimension=dimension)
            for i in range(len(sources))]


# --- sequences --------------------------------------------------------------------------------------------------------


def sequence_numeric_column(key: str, shape: int | Sequence[int] = (1,), default_value: float = 0.0,
                            dtype: Any = float32, normalizer_fn: Callable | None = None) -> Column:
    """Any number of steps of numbers for each row. default_value is the padding of shorter rows."""
    return _numeric("sequence_numeric_column", key, shape, default_value, dtype, normalizer_fn)


def sequence_categorical_column_with_identity(key: str, num_buckets: int, default_value: int | None = None) -> Column:
    """Integers in [0, num_buckets) of each step; embedding_column and indicator_column take it."""
    return categorical_column_with_identity(key, num_buckets, default_value, _sequence=True)


def sequence_categorical_column_with_hash_bucket(key: str, hash_bucket_size: int, dtype: Any = string) -> Column:
    """Strings (or integers) of each step hashed into buckets."""
    return categorical_column_with_hash_bucket(key, hash_bucket_size, dtype, _sequence=True)


def sequence_categorical_column_with_vocabulary_list(key: str, vocabulary_list: Sequence, dtype: Any = None,
                                                     default_value: int = -1, num_oov_buckets: int = 0) -> Column:
    """The index of the value of each step in a list."""
    return categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets,
                                                   _sequence=True)


def sequence_categorical_column_with_vocabulary_file(key: str, vocabulary_file: str | os.PathLike,
                                                     vocabulary_size: int | None = None, num_oov_buckets: int = 0,
                                                     default_value: int | None = None, dtype: Any = string) -> Column:
    """The line number of the value of each step in a text file."""
    return categorical_column_with_vocabulary_file(key, vocabulary_file, vocabulary_size, dtype, default_value,
                                                   num_oov_buckets, _sequence=True)


# --- the features that columns read -----------------------------------------------------------------------------------


def keys_of(columns: Sequence[Column]) -> list[str]:
    """The keys of the features that columns read, in the order of their names."""
    return sorted({key for column in columns for key in make_parse_example_spec([column])})


# --- parsing ----------------------------------------------------------------------------------------------------------


def make_parse_example_spec(feature_columns: Sequence[Column]) -> dict[str, Any]:
    """The features that columns read from tf.train.Examples: FixedLenFeature and VarLenFeature by key."""
    keep, out = Keep(), ffi.new("est_parse_spec **")
    check(lib.est_parse_spec_create(c_columns(keep, feature_columns), out))
    return spec_features(owned(out[0], "est_parse_spec_free"))


def spec_features(spec: Any) -> dict[str, Any]:
    """An est_parse_spec as a dict."""
    from ._tensor import borrowed_array

    features = lib.est_parse_spec_features(spec)
    result: dict[str, Any] = {}
    for i in range(features.n):
        feature = features.data[i]
        dtype = as_dtype(int(feature.dtype))
        if feature.rows == lib.EST_ROWS_RAGGED:
            result[text(feature.name)] = io.VarLenFeature(dtype)
            continue
        default = None
        if feature.default_value != NULL:
            default = borrowed_array(ffi.cast("est_tensor *", feature.default_value)).copy()
        kind = io.FixedLenFeature if feature.rows == lib.EST_ROWS_FIXED else io.PaddedFeature
        result[text(feature.name)] = kind(Shape(py_shape(feature.shape)), dtype, default)
    return result


