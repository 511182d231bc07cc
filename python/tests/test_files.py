# SPDX-License-Identifier: Apache-2.0
"""SavedModels with their signatures, and local files by tf.io.gfile."""
import numpy as np
import pytest

import estoc
import estoc.tf as tf


@pytest.fixture
def exported(dataset, model_fn, tmp_path):
    estimator = estoc.Estimator(model_fn, tmp_path / "model")
    estimator.train(lambda: dataset.batch(20), steps=5)
    receiver = estoc.ServingInput(raw={"x": estoc.TensorSpec([None, 3], estoc.float32)})
    return estimator, estimator.export_saved_model(tmp_path / "export", receiver)


def test_a_saved_model_predicts(exported, rows):
    estimator, path = exported
    x = rows[0][:4]
    predict = estoc.Predictor(path)
    assert list(predict.inputs) == ["x"] and predict.inputs["x"].dtype == estoc.float32
    expected = [row["p"] for row in estimator.predict(lambda: estoc.Dataset.from_tensor_slices({"x": x}).batch(4))]
    assert np.array_equal(predict({"x": x})["p"], expected) and np.array_equal(predict(x=x)["p"], expected)
    only = estoc.Predictor(predict.model, outputs=["p"])
    assert list(only.outputs) == ["p"] and list(only(x=x)) == ["p"]
    with pytest.raises(ValueError, match="y"):
        predict({"y": x})
    with pytest.raises(estoc.errors.NotFoundError):
        estoc.Predictor(path, signature="nothing")
    with pytest.raises(estoc.errors.NotFoundError):
        estoc.Predictor("nowhere")


def test_tf_saved_model(exported, rows):
    _, path = exported
    assert tf.saved_model.contains_saved_model(path) and not tf.saved_model.contains_saved_model("/nowhere")
    loaded = tf.saved_model.load(path)
    assert "serving_default" in loaded.signatures
    serve = loaded.signatures["serving_default"]
    x = tf.constant(rows[0][:2])
    values = serve(x=x)
    assert sorted(values) == sorted(serve.structured_outputs) and values["p"].shape == (2, 1)
    assert np.array_equal(serve(x)["p"].numpy(), values["p"].numpy())
    assert list(serve.structured_input_signature[1]) == ["x"]
    with pytest.raises(TypeError, match="unknown: y"):
        serve(y=x)


def test_gfile(tmp_path):
    gfile, folder = tf.io.gfile, tmp_path / "a" / "b"
    gfile.makedirs(folder)
    gfile.makedirs(folder)
    with gfile.GFile(folder / "x.txt", "w") as file:
        file.write("one\ntwo\n")
    with gfile.GFile(str(folder / "x.txt")) as file:
        assert list(file) == ["one\n", "two\n"] and file.size() == 8
    with gfile.GFile(folder / "x.txt", "rb") as file:
        assert file.read(3) == b"one"
    assert gfile.exists(folder / "x.txt") and gfile.isdir(folder) and gfile.listdir(folder) == ["x.txt"]
    assert gfile.glob(str(folder / "*.txt")) == [str(folder / "x.txt")] and gfile.stat(folder / "x.txt").length == 8
    gfile.copy(folder / "x.txt", folder / "y.txt")
    with pytest.raises(tf.errors.AlreadyExistsError):
        gfile.copy(folder / "x.txt", folder / "y.txt")
    gfile.rename(folder / "x.txt", folder / "y.txt", overwrite=True)
    gfile.remove(folder / "y.txt")
    for fails in (lambda: gfile.GFile(folder / "y.txt"), lambda: gfile.remove(folder / "y.txt"),
                  lambda: gfile.listdir(folder / "z")):
        with pytest.raises(tf.errors.NotFoundError):
            fails()
    with pytest.raises(NotImplementedError, match="local"):
        gfile.exists("gs://bucket/x")
    gfile.rmtree(tmp_path / "a")
    assert not gfile.exists(folder)
    tf.io.write_file(str(tmp_path / "c" / "d"), b"bytes")
    assert tf.io.read_file(str(tmp_path / "c" / "d")).numpy() == b"bytes"
