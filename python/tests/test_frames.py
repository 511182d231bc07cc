# SPDX-License-Identifier: Apache-2.0
"""Tables as datasets: real pandas, pyarrow, Polars and DuckDB, value by value."""
import datetime
import gc

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import estoc
import estoc.tf as tf
from estoc.data import from_arrow, from_pandas


def plain(value):
    """Python values of an element or of a batch."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, estoc.RaggedArray):
        values, splits = plain(value.values), value.splits
        return [values[splits[i]:splits[i + 1]] for i in range(len(splits) - 1)]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def rows(dataset):
    return [plain(element) for element in dataset]


NUMBERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
           "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64, "b": np.bool_}
WANT = {"i8": "int32", "i16": "int32", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "int32", "u32": "int64",
        "u64": "int64", "f16": "float32", "f32": "float32", "f64": "float64", "b": "bool"}


def numbers():
    return {name: np.array([0, 1, 100], kind) if kind is not np.bool_ else np.array([False, True, True])
            for name, kind in NUMBERS.items()}


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame])
def test_numbers_of_every_type(make):
    given = numbers()
    if make is pl.DataFrame:
        del given["f16"]
    dataset = from_arrow(make(given))
    assert {name: spec.dtype.name for name, spec in dataset.element_spec.items()} == {name: WANT[name] for name in given}
    assert rows(dataset) == [{name: plain(values)[i] for name, values in given.items()} for i in range(3)]


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame])
def test_strings_and_batches(make):
    words = ["", "ä", "a string that is longer than a view holds in place", "x"] * 3
    dataset = from_arrow(make({"n": list(range(12)), "word": words}), batch_size=5)
    found = rows(dataset)
    assert [len(batch["n"]) for batch in found] == [5, 5, 2]
    assert [n for batch in found for n in batch["n"]] == list(range(12))
    assert [w.decode() for batch in found for w in batch["word"]] == words
    assert rows(dataset) == found  # another pass opens the table again
    fixed = from_arrow(make({"n": list(range(12))}), batch_size=5, drop_remainder=True)
    assert fixed.element_spec["n"].shape == (5,) and len(rows(fixed)) == 2


def test_large_and_binary_strings():
    table = pa.table({"large": pa.array(["a", "bc"], pa.large_string()), "bytes": pa.array([b"\0\xff", b""]),
                      "fixed": pa.array([b"ab", b"cd"], pa.binary(2)), "view": pa.array(["v" * 20, "w"], pa.string_view())})
    assert rows(from_arrow(table)) == [{"large": b"a", "bytes": b"\0\xff", "fixed": b"ab", "view": b"v" * 20},
                                       {"large": b"bc", "bytes": b"", "fixed": b"cd", "view": b"w"}]


def test_categories():
    values = ["u", "v", "u", "w"]
    for table in (pa.table({"c": pa.array(values).dictionary_encode()}),
                  pd.DataFrame({"c": pd.Categorical(values, categories=["w", "v", "u", "unused"])}),
                  pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}),
                  pl.DataFrame({"c": pl.Series(values, dtype=pl.Enum(["u", "v", "w"]))})):
        assert [row["c"].decode() for row in rows(from_arrow(table))] == values
    con = duckdb.connect()
    con.sql("create type kind as enum ('u', 'v', 'w')")
    con.sql("create table t (c kind)")
    con.sql("insert into t values ('u'), ('v'), ('u'), ('w')")
    assert [row["c"].decode() for row in rows(from_arrow(lambda: con.sql("select * from t")))] == values


def test_lists():
    given = [[1, 2], [], [3, 4, 5]]
    for table in (pa.table({"l": given}), pa.table({"l": pa.array(given, pa.large_list(pa.int64()))}),
                  pl.DataFrame({"l": given})):
        assert [row["l"] for row in rows(from_arrow(table))] == given
        assert rows(from_arrow(table, batch_size=3)) == [{"l": given}]
        assert from_arrow(table, batch_size=3).element_spec["l"].ragged
    words = [["a", "bc"], ["d"]]
    assert rows(from_arrow(pl.DataFrame({"l": words}), batch_size=2)) == [{"l": [[b"a", b"bc"], [b"d"]]}]
    pairs = pa.table({"p": pa.array([[1., 2.], [3., 4.]], pa.list_(pa.float32(), 2))})
    assert from_arrow(pairs).element_spec["p"].shape == (2,)
    assert rows(from_arrow(pairs, batch_size=2)) == [{"p": [[1, 2], [3, 4]]}]
    array = pl.DataFrame({"p": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int32, 2))})
    assert [row["p"] for row in rows(from_arrow(array))] == [[1, 2], [3, 4]]


def test_lists_pad_after_rows():
    dataset = from_arrow(pa.table({"l": [[1], [2, 3]]})).padded_batch(2)
    assert rows(dataset) == [{"l": [[1, 0], [2, 3]]}]


def test_nulls():
    table = pa.table({"f": [1.5, None], "i": [None, 7], "s": ["a", None], "l": [[1], None]})
    with pytest.raises(estoc.errors.InvalidArgumentError, match='column "f", row 1: null'):
        rows(from_arrow(table))
    found = rows(from_arrow(table, nulls="missing"))
    assert found[0] == {"f": 1.5, "i": -1, "s": b"a", "l": [1]}
    assert np.isnan(found[1].pop("f")) and found[1] == {"i": 7, "s": b"", "l": []}
    found = rows(from_arrow(table, nulls="missing", defaults={"f": -2, "s": "none"}))
    assert found[1] == {"f": -2, "i": 7, "s": b"none", "l": []}
    flags = pa.table({"b": [True, None]})
    with pytest.raises(estoc.errors.InvalidArgumentError, match="no value for missing ones"):
        rows(from_arrow(flags, nulls="missing"))
    assert [row["b"] for row in rows(from_arrow(flags, defaults={"b": False}))] == [True, False]


def test_dates_are_integers():
    day = datetime.date(2020, 1, 2)
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
    table = pa.table({"day": [day], "at": pa.array([moment], pa.timestamp("us", "UTC"))})
    micros = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    assert rows(from_arrow(table)) == [{"day": (day - datetime.date(1970, 1, 1)).days, "at": micros}]
    for unit, scale in (("us", 1), ("ns", 1000)):  # the default is another one in pandas 3
        frame = pd.DataFrame({"at": pd.to_datetime([moment]).astype(f"datetime64[{unit}]")})
        assert rows(from_pandas(frame)) == [{"at": micros * scale}]


def test_chunks_and_slices_keep_the_order():
    schema = pa.schema({"n": pa.int64(), "s": pa.string()})
    chunks = [pa.record_batch({"n": list(range(a, b)), "s": [f"s{i}" for i in range(a, b)]}, schema=schema)
              for a, b in ((0, 7), (7, 7), (7, 20), (20, 21))]
    table = pa.Table.from_batches(chunks).slice(3, 15)
    for batch_size in (1, 4, 15, 100):
        found = rows(from_arrow(table, batch_size=batch_size))
        assert [n for batch in found for n in batch["n"]] == list(range(3, 18))
        assert [s for batch in found for s in batch["s"]] == [f"s{i}".encode() for i in range(3, 18)]
    assert [row["n"] for row in rows(from_arrow(table))] == list(range(3, 18))


def test_numbers_are_not_copied():
    values = np.arange(1000, dtype=np.float32)
    table = pa.table({"x": values})
    batch = next(iter(from_arrow(table, batch_size=100, columns=["x"])))["x"]
    assert batch.ctypes.data == table["x"].chunk(0).buffers()[1].address
    del table, values
    gc.collect()
    assert batch.sum() == sum(range(100))  # the batch keeps the table's memory


def test_columns_and_label():
    table = pa.table({"a": [1], "b": [2.5], "c": ["x"]})
    assert rows(from_arrow(table, columns=["c", "a"], label="a")) == [({"c": b"x"}, 1)]
    with pytest.raises(ValueError, match="label 'd' is no column; there are a, b, c"):
        from_arrow(table, label="d")
    with pytest.raises(estoc.errors.NotFoundError, match='no column "d"'):
        from_arrow(table, columns=["d"])
    with pytest.raises(estoc.errors.UnimplementedError, match='column "m": its type is decimal'):
        from_arrow(pa.table({"m": pa.array([1], pa.decimal128(5, 2))}))
    with pytest.raises(TypeError, match="LazyFrame has no __arrow_c_stream__.*collect"):
        from_arrow(pl.LazyFrame({"a": [1]}))


def test_readers_are_good_for_one_pass():
    table = pa.table({"n": [1, 2, 3]})
    dataset = from_arrow(table.to_reader())
    assert [row["n"] for row in rows(dataset)] == [1, 2, 3]
    with pytest.raises(RuntimeError, match="a RecordBatchReader can be read once"):
        rows(dataset)
    again = from_arrow(table.to_reader)
    assert rows(again) == rows(again) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [row["n"] for row in rows(again.repeat(2))] == [1, 2, 3, 1, 2, 3]


def test_positions():
    dataset = from_arrow(pa.table({"n": list(range(10))}), batch_size=3).prefetch(2)
    iterator = iter(dataset)
    next(iterator)
    position = iterator.save()
    rest = [plain(batch) for batch in iterator]
    other = iter(dataset)
    other.restore(position)
    assert [plain(batch) for batch in other] == rest == [{"n": [3, 4, 5]}, {"n": [6, 7, 8]}, {"n": [9]}]


def test_an_exception_of_the_table_comes_out():
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise LookupError("no such table")

    with pytest.raises(LookupError, match="no such table"):
        from_arrow(Broken())
    with pytest.raises(TypeError, match="returned int, which has no __arrow_c_stream__"):
        from_arrow(lambda: 7)

    def batches():
        yield pa.record_batch({"n": [1]})
        raise OSError("the file is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"n": pa.int64()}), batches())
    with pytest.raises(estoc.errors.OpError, match="the file is gone"):
        rows(from_arrow(reader))


def test_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.table({"n": list(range(100)), "s": [f"word {i % 7}" for i in range(100)]})
    pq.write_table(table, path, row_group_size=30, use_dictionary=["s"])
    want = [{"n": i, "s": f"word {i % 7}".encode()} for i in range(100)]

    def reader():  # a few rows at a time
        file = pq.ParquetFile(path, read_dictionary=["s"])
        return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches(13))

    for source in (pq.read_table(path), pl.read_parquet(path), lambda: duckdb.sql(f"select * from '{path}'"), reader):
        dataset = from_arrow(source)
        assert rows(dataset) == want and rows(dataset) == want


# --- pandas -----------------------------------------------------------------------------------------------------------


def frame():
    return pd.DataFrame({
        "f": [0.5, np.nan, 2.5], "i": [1, 2, 3], "small": np.array([1, 2, 3], np.int16),
        "s": ["a", "b", "c"], "text": pd.array(["x", "y", "z"], dtype="string"),
        "c": pd.Categorical(["k", "l", "k"]), "codes": pd.Categorical([30, 10, 30]),
        "whole": pd.array([1, 2, 3], dtype="Int8"), "flag": pd.array([True, False, True], dtype="boolean"),
        "arrow": pd.array([1.5, 2.5, 3.5], dtype="float[pyarrow]"), "words": pd.array(["p", "q", "r"], "string[pyarrow]"),
    }, index=[7, 5, 9])


WANT_ROW = {"i": 2, "small": 2, "s": b"b", "text": b"y", "c": b"l", "codes": 10, "whole": 2, "flag": False,
            "arrow": 2.5, "words": b"q"}


@pytest.mark.parametrize("make", [from_pandas, lambda given: estoc.Dataset.from_tensor_slices(dict(given)),
                                  lambda given: tf.data.Dataset.from_tensor_slices(dict(given)).as_numpy_iterator(),
                                  from_arrow])
def test_pandas_columns(make):
    found = rows(make(frame()) if make is not from_arrow else from_arrow(frame(), nulls="missing"))
    assert len(found) == 3
    assert np.isnan(found[1].pop("f"))
    found[1].pop("__index_level_0__", None)
    assert found[1] == WANT_ROW
    assert [row["f"] for row in (found[0], found[2])] == [0.5, 2.5]


def test_pandas_label_and_order():
    given = frame()
    assert [label for _, label in rows(from_pandas(given, label="i"))] == [1, 2, 3]
    assert "i" not in rows(from_pandas(given, label="i"))[0][0]
    assert [label for _, label in rows(from_pandas(given, label=given["s"].str.upper()))] == [b"A", b"B", b"C"]
    assert [row["i"] for row in rows(from_pandas(given.sort_index()))] == [2, 1, 3]
    with pytest.raises(ValueError, match="label 'nothing' is no column"):
        from_pandas(given, label="nothing")


def test_pandas_nulls():
    given = pd.DataFrame({"s": ["a", None], "c": pd.Categorical(["k", None]), "n": pd.array([None, 5], dtype="Int64"),
                          "b": pd.array([None, True], dtype="boolean")})
    for name, row in (("s", 1), ("c", 1), ("n", 0), ("b", 0)):
        with pytest.raises(ValueError, match=f"column '{name}', row {row}: null"):
            from_pandas(given[[name]])
    found = rows(from_pandas(given, nulls="missing", defaults={"b": False, "c": "none"}))
    assert found == [{"s": b"a", "c": b"k", "n": -1, "b": False}, {"s": b"", "c": b"none", "n": 5, "b": True}]
    with pytest.raises(ValueError, match="bool has no value for missing"):
        from_pandas(given, nulls="missing")
    with pytest.raises(ValueError, match="row 1: null"):
        estoc.Dataset.from_tensor_slices(dict(given[["s"]]))


def test_columns_of_other_packages():
    slices = estoc.Dataset.from_tensor_slices({
        "p": pl.Series([1, 2]), "q": pl.Series(["a", "b"]), "r": pa.array([0.5, 1.5]),
        "s": pa.chunked_array([["x"], ["y"]]), "d": pa.array(["u", "v"]).dictionary_encode()})
    assert rows(slices) == [{"p": 1, "q": b"a", "r": 0.5, "s": b"x", "d": b"u"},
                            {"p": 2, "q": b"b", "r": 1.5, "s": b"y", "d": b"v"}]
    with pytest.raises(ValueError, match="row 1: null"):
        estoc.Dataset.from_tensor_slices(pl.Series([1, None]))


def test_training_from_tables(tmp_path):
    random = np.random.RandomState(3)
    given = pd.DataFrame({"x": random.randn(400), "kind": random.choice(["good", "bad"], 400)})
    given["y"] = ((given["x"] + (given["kind"] == "good") * 2 - 1) > 0).astype(int)
    columns = [estoc.feature_column.numeric_column("x"), estoc.feature_column.indicator_column(
        estoc.feature_column.categorical_column_with_vocabulary_list("kind", ["good", "bad"]))]
    sources = {"pandas": lambda: from_pandas(given, label="y").batch(40),
               "arrow": lambda: from_arrow(given, label="y", batch_size=40),
               "polars": lambda: from_arrow(pl.from_pandas(given), label="y", batch_size=40)}
    losses = {}
    for name, rows_of in sources.items():
        model = estoc.LinearClassifier(columns, model_dir=tmp_path / name, optimizer=estoc.optimizers.Ftrl(0.5),
                                       config=estoc.RunConfig(seed=1))
        model.train(lambda: rows_of().repeat(20))
        losses[name] = model.evaluate(rows_of)
        assert losses[name]["accuracy"] > 0.95
    assert losses["pandas"] == losses["arrow"] == losses["polars"]
