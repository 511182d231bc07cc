# SPDX-License-Identifier: Apache-2.0
"""Datasets, TFRecord files and Examples."""
import gzip

import numpy as np
import pytest

import estoc
import estoc.tf as tf
from estoc import Dataset, TensorSpec, io


def numbers(dataset):
    return [int(value) for value in dataset]


def test_slices_keep_structure_order_and_dtypes():
    source = ({"b": np.arange(3, dtype=np.uint8), "a": ["x", "y", "z"]}, (np.ones([3, 2], np.float64),
                                                                        np.array([True, False, True])))
    dataset = Dataset.from_tensor_slices(source)
    spec = dataset.element_spec
    assert list(spec[0]) == ["b", "a"]
    assert spec[0]["b"] == TensorSpec([], estoc.uint8) and spec[0]["a"] == TensorSpec([], estoc.string)
    assert spec[1] == (TensorSpec([2], estoc.float64), TensorSpec([], estoc.bool_))
    rows = list(dataset)
    assert [row[0]["a"] for row in rows] == [b"x", b"y", b"z"]
    assert [int(row[0]["b"]) for row in rows] == [0, 1, 2]
    assert rows[1][1][0].tolist() == [1, 1] and not rows[1][1][1]


def test_python_numbers_have_tensorflows_dtypes():
    assert Dataset.from_tensor_slices([1, 2]).element_spec.dtype == estoc.int32
    assert Dataset.from_tensor_slices([1.0, 2.0]).element_spec.dtype == estoc.float32
    assert Dataset.from_tensor_slices([2**40]).element_spec.dtype == estoc.int64
    assert Dataset.from_tensor_slices(np.array([1, 2])).element_spec.dtype == np.int64
    with pytest.raises(TypeError, match="float16"):
        Dataset.from_tensor_slices(np.zeros(2, np.float16))


def test_wrong_sizes_are_an_error_at_once():
    with pytest.raises(ValueError):
        Dataset.from_tensor_slices((np.zeros(3), np.zeros(4)))
    with pytest.raises(ValueError):
        Dataset.range(3).batch(0)
    with pytest.raises(ValueError):
        Dataset.range(3).shard(2, 2)
    with pytest.raises(ValueError, match="label"):
        Dataset.from_tensor_slices(({"label": np.zeros(2)}, np.zeros(2)))


def test_arrays_are_shared_in_and_out():
    array = np.arange(6, dtype=np.float32)
    shared, copied = Dataset.from_tensor_slices(array), Dataset.from_tensor_slices(array, copy=True)
    array[0] = 40
    assert next(iter(shared)) == 40 and next(iter(copied)) == 0
    value = next(iter(shared.batch(3)))
    assert not value.flags.writeable and not value.flags.owndata
    array_of_views = [next(iter(shared.batch(2))) for _ in range(50)]  # the memory outlives its iterator
    assert all(view.tolist() == [40, 1] for view in array_of_views)
    strided = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert np.array_equal(np.stack(list(Dataset.from_tensor_slices(strided))), strided)


def test_generator():
    def rows():
        for i in range(3):
            yield {"v": [i, i + 1]}, f"r{i}"

    dataset = Dataset.from_generator(rows, ({"v": TensorSpec([2], np.float32)}, TensorSpec([], str)))
    for _ in range(2):  # a new generator for each pass
        values, names = next(iter(dataset.batch(3)))
        assert values["v"].tolist() == [[0, 1], [1, 2], [2, 3]] and values["v"].dtype == np.float32
        assert names.tolist() == [b"r0", b"r1", b"r2"]
    assert numbers(Dataset.from_generator(lambda: range(4), TensorSpec([], np.int64)).repeat(2)) == [0, 1, 2, 3] * 2


@pytest.mark.parametrize("row, error", [([1, 2, 3], "shape"), ({"v": 1}, "declared"), ("text", "strings")])
def test_generator_with_other_elements_than_declared(row, error):
    with pytest.raises((ValueError, TypeError), match=error):
        list(Dataset.from_generator(lambda: iter([row]), TensorSpec([2], np.int64)))


def test_generators_are_closed():
    closed = []

    def rows():
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    iterator = iter(Dataset.from_generator(rows, TensorSpec([], np.int64)))
    next(iterator)
    iterator.close()
    assert closed == [True] and next(iterator, None) is None


def test_shuffle():
    dataset = Dataset.range(50)
    once, again = dataset.shuffle(50, seed=5), dataset.shuffle(50, seed=5)
    first, second = numbers(once), numbers(once)
    assert sorted(first) == list(range(50)) and first != list(range(50))
    assert first != second  # every pass has another order,
    assert [numbers(again), numbers(again)] == [first, second]  # the same in every run
    derived = dataset.shuffle(50, seed=5)  # so have passes over what is made of it, as in TensorFlow
    assert [numbers(derived.take(50)), numbers(derived.skip(0))] == [first, second]
    fixed = dataset.shuffle(50, reshuffle_each_iteration=False)
    assert numbers(fixed) == numbers(fixed)
    assert numbers(dataset.shuffle(50)) != numbers(dataset.shuffle(50))


def test_repeat_take_skip_prefetch_enumerate_unbatch():
    dataset = Dataset.range(3)
    assert numbers(dataset.repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert numbers(dataset.repeat().take(7)) == [0, 1, 2, 0, 1, 2, 0]
    assert numbers(dataset.skip(1).prefetch(2)) == [1, 2]
    assert [(int(i), int(v)) for i, v in dataset.skip(1).enumerate(5)] == [(5, 1), (6, 2)]
    assert numbers(dataset.batch(2).unbatch()) == [0, 1, 2]
    assert numbers(Dataset.range(6, 0, -2)) == [6, 4, 2]


def test_padded_batch():
    rows = Dataset.from_generator(lambda: iter([[1], [2, 3]]), TensorSpec([None], np.int64))
    assert next(iter(rows.padded_batch(2, padding_value=-1))).tolist() == [[1, -1], [2, 3]]
    with pytest.raises(estoc.errors.OpError):
        list(rows.batch(2))


def test_cache_is_filled_once():
    calls = []

    def rows():
        calls.append(1)
        yield from range(3)

    cached = Dataset.from_generator(rows, TensorSpec([], np.int64)).cache()
    shuffled = cached.shuffle(3)
    assert [sorted(numbers(shuffled)) for _ in range(3)] == [[0, 1, 2]] * 3
    assert numbers(cached) == [0, 1, 2] and calls == [1]


def test_cache_file(tmp_path):
    path = tmp_path / "cache"
    assert numbers(Dataset.range(3).cache(path)) == [0, 1, 2]
    assert any(tmp_path.iterdir())
    assert numbers(Dataset.range(3).cache(path)) == [0, 1, 2]


def test_map_in_python_and_in_a_graph():
    rows = Dataset.from_tensor_slices(({"x": np.arange(4, dtype=np.float32)}, np.arange(4)))
    mapped = rows.map(lambda features, label: {"y": features["x"] * np.float32(2), "l": label})
    assert mapped.element_spec == {"y": TensorSpec([], np.float32), "l": TensorSpec([], np.int64)}
    traced = rows.map_graph(lambda features, label: {"y": features["x"] * 2, "l": label}, workers=2)
    assert [float(row["y"]) for row in mapped] == [float(row["y"]) for row in traced] == [0, 2, 4, 6]
    assert [float(row["y"]) for row in rows.map(lambda f, y: {"y": f["x"] + 1}, workers=3)] == [1, 2, 3, 4]
    batches = rows.batch(3).map(lambda f, y: f["x"])
    assert [value.shape for value in batches] == [(3,), (1,)]
    with pytest.raises(ValueError, match="element_spec"):
        list(Dataset.range(3).map(lambda n: np.zeros(int(n))))
    assert numbers(Dataset.range(6).filter(lambda n: n % 2)) == [1, 3, 5]
    with pytest.raises(ValueError, match="empty"):
        Dataset.range(0).map(lambda n: n)


def test_python_cannot_branch_on_nodes():
    with pytest.raises(TypeError, match="where"):
        Dataset.range(3).map_graph(lambda n: n if n > 1 else -n)
    with pytest.raises(NotImplementedError, match="numpy"):
        Dataset.range(3).map_graph(lambda n: np.sin(n))


def test_positions():
    dataset = Dataset.range(100).shuffle(10, seed=3).batch(4)
    first = iter(dataset)
    for _ in range(5):
        next(first)
    position = first.save()
    rest = [value.tolist() for value in first]
    second = iter(Dataset.range(100).shuffle(10, seed=3).batch(4))
    second.restore(position)
    assert [value.tolist() for value in second] == rest


def test_text_and_csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('age,city,income\n39,"Bern, CH",1\n,Oslo,0\n')
    lines = list(Dataset.from_text(path, skip=1))
    assert lines == [b'39,"Bern, CH",1', b",Oslo,0"]
    features, label = next(iter(Dataset.from_csv(path, {"age": np.float32, "city": str, "income": np.int64}, 8,
                                                 header=True, label="income", defaults={"age": 7})))
    assert features["age"].tolist() == [39, 7] and features["city"].tolist() == [b"Bern, CH", b"Oslo"]
    assert label.tolist() == [1, 0]
    with gzip.open(tmp_path / "lines.gz", "wt") as file:
        file.write("a\nb\n")
    assert list(Dataset.from_text([path, tmp_path / "lines.gz"]))[-2:] == [b"a", b"b"]
    with pytest.raises(estoc.errors.NotFoundError):
        list(Dataset.from_text(tmp_path / "none*"))


def test_tfrecords_and_examples(tmp_path):
    paths = [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]
    for k, path in enumerate(paths):
        with io.TFRecordWriter(path, compression="GZIP" if k else None) as writer:
            for i in range(3):
                writer.write(io.serialize_example({"x": [i + k, 0.5], "words": np.array(["w"] * i, dtype=object),
                                                   "label": 10 * k + i}))
    assert len(list(io.read_tfrecords(paths[1]))) == 3
    features = {"x": io.FixedLenFeature([2], np.float32), "words": io.VarLenFeature(str),
                "label": io.FixedLenFeature([], np.int64), "more": io.FixedLenFeature([], np.int64, 4)}
    dataset = Dataset.from_tfrecords(paths).parse_examples(features, 4, label="label")
    batch, label = next(iter(dataset))
    assert label.tolist() == [0, 1, 2, 10] and batch["x"].shape == (4, 2) and batch["more"].tolist() == [4] * 4
    assert [len(row) for row in batch["words"].rows()] == [0, 1, 2, 0]
    parsed = io.parse_examples(io.read_tfrecords(paths[0]), {"words": io.PaddedFeature([], str, b"-")})
    assert parsed["words"].tolist() == [[b"-", b"-"], [b"w", b"-"], [b"w", b"w"]]
    assert parsed["words/lengths"].tolist() == [0, 1, 2]
    with pytest.raises(estoc.errors.InvalidArgumentError, match="label"):
        io.parse_examples([io.serialize_example({})], {"label": io.FixedLenFeature([], np.int64)})


def test_a_damaged_file(tmp_path):
    path = tmp_path / "x.tfrecord"
    with io.TFRecordWriter(path) as writer:
        writer.write(b"0123456789")
    data = bytearray(path.read_bytes())
    data[15] ^= 1
    path.write_bytes(data)
    with pytest.raises(estoc.errors.DataLossError, match="x.tfrecord"):
        list(Dataset.from_tfrecords(path))
    with pytest.raises(estoc.errors.DataLossError):
        list(io.read_tfrecords(path))


def test_a_writer_left_by_an_exception_does_not_complete_the_file(tmp_path):
    with pytest.raises(KeyError):
        with io.TFRecordWriter(tmp_path / "x") as writer:
            writer.write(b"a")
            raise KeyError
    with pytest.raises(RuntimeError, match="closed"):
        writer.write(b"b")


def test_zip_of_dicts():
    count = tf.data.Dataset.range
    zipped = tf.data.Dataset.zip({"a": count(3), "b": (count(3, 6), count(6, 8))})
    assert list(zipped.as_numpy_iterator()) == [{"a": 0, "b": (3, 6)}, {"a": 1, "b": (4, 7)}] and len(zipped) == 2
    assert zipped.element_spec["a"] == tf.TensorSpec([], tf.int64)
    assert list(tf.data.Dataset.zip(({"a": {"q": count(2)}}, count(2))).as_numpy_iterator()) == [
        ({"a": {"q": 0}}, 0), ({"a": {"q": 1}}, 1)]
