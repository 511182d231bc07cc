# SPDX-License-Identifier: Apache-2.0
"""Columns of data frames (pandas, Polars, pyarrow) as numpy arrays. None of these packages is imported here."""
from __future__ import annotations

from typing import Any

import numpy as np

_PACKAGES = ("pandas", "polars", "pyarrow")

#: What stands for a null with nulls="missing", by the kind of the numpy dtype; as est_arrow_nulls has it.
_MISSING = {"f": np.nan, "i": -1, "O": b""}
#: Dtypes that tensors do not have, and the smallest one that holds all their values.
_WIDER = {"int8": np.int32, "int16": np.int32, "uint16": np.int32, "uint32": np.int64, "uint64": np.int64,
          "float16": np.float32}


def _package(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


def is_column(value: Any) -> bool:
    """Whether it is a Series, an Index, a Categorical or an Array of such a package, and no table of them."""
    return _package(value) in _PACKAGES and hasattr(value, "to_numpy") and not is_table(value)


def is_table(value: Any) -> bool:
    """Whether it is a DataFrame, or another table with columns."""
    return _package(value) in _PACKAGES and hasattr(value, "columns")


def table_array(table: Any) -> np.ndarray:
    """The columns side by side, as one array of their common type."""
    columns = [column_array(table[name]) for name in (table.columns if hasattr(table, "columns") else ())]
    if not columns:
        raise ValueError("the table has no columns")
    return np.stack(columns, axis=1)


def check_nulls(nulls: str) -> None:
    if nulls not in ("error", "missing"):
        raise ValueError(f"nulls is {nulls!r}; it is \"error\" or \"missing\"")


def column_array(column: Any, name: str | None = None, nulls: str = "error", default: Any = None) -> np.ndarray:
    """The values, with the default or a missing value for nulls. Shares the memory of the column where it can."""
    name = name if name is not None else getattr(column, "name", None)
    null = _nulls(column)
    if null is None:
        return _plain(_values(column), name)
    values = _fill(column, null, name, nulls, default)
    return _plain(values, name)


def _nulls(column: Any) -> np.ndarray | None:
    """Which values are null; None: none of them. NaN in a column of plain floats is a value."""
    package = _package(column)
    if package == "pandas":
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            return None
        null = np.asarray(column.isna())
    elif column.null_count == 0:
        return None
    else:
        null = column.is_null().to_numpy() if package == "polars" else _arrow_numpy(column.is_null())
    return null if null.any() else None


def _arrow_numpy(column: Any) -> np.ndarray:
    return column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)


def _values(column: Any) -> np.ndarray:
    """Values without nulls."""
    package = _package(column)
    if package == "pyarrow":
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        elif "dictionary" in str(column.type):
            column = column.cast(column.type.value_type)
        return _arrow_numpy(column)
    if package == "pandas":
        kind = getattr(column.dtype, "numpy_dtype", None)  # of nullable and Arrow dtypes
        if isinstance(kind, np.dtype) and kind.kind in "fiubmM":
            return column.to_numpy(dtype=kind)
    return np.asarray(column.to_numpy())


def _fill(column: Any, null: np.ndarray, name: str | None, nulls: str, default: Any) -> np.ndarray:
    row = int(null.argmax())
    where = f"column {name!r}, row {row}" if name is not None else f"row {row}"
    known = {"pandas": lambda: column[~null], "polars": lambda: column.drop_nulls(),
             "pyarrow": lambda: column.drop_null()}[_package(column)]()
    values = _plain(_values(known), name)
    if default is None:
        if nulls == "error":
            raise ValueError(f"{where}: null; give the column a default, or take nulls as missing values "
                             "(nulls=\"missing\")")
        if values.dtype.kind not in _MISSING:
            raise ValueError(f"{where}: null, and {values.dtype} has no value for missing ones; give the column a "
                             "default")
        default = _MISSING[values.dtype.kind]
    out = np.empty(len(null), dtype=values.dtype)
    out[~null] = values
    out[null] = default
    return out


def _plain(values: np.ndarray, name: str | None) -> np.ndarray:
    """Numbers of a dtype that tensors have, or objects."""
    values = np.asarray(values)
    if values.dtype.kind in "mM":
        return values.view(np.int64)
    wider = _WIDER.get(values.dtype.name)
    if wider is None:
        return values
    if values.dtype == np.uint64 and values.size > 0 and values.max() >= 2**63:
        row = int((values >= 2**63).argmax())
        raise ValueError(f"column {name!r}, row {row}: {values[row]} is above 2^63 - 1, the largest int64")
    return values.astype(wider)


def capsule_pointer(capsule: Any, name: bytes) -> int:
    """The address in a PyCapsule of that name."""
    import ctypes

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, name)
