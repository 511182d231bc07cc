# SPDX-License-Identifier: Apache-2.0
"""The notebooks of docs/notebooks run to their ends, and their models learn. `make notebooks` runs the same in a kernel."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import estoc
import estoc.tf as tf

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "notebooks")
LEARNED = {"estimator": {"accuracy": 0.95, "score": 0.9}, "keras": {"fitted": 0.85, "looped": 0.85}}


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_notebook(name, tmp_path):
    python = os.environ.get("ESTOC_NOTEBOOK_PYTHON", sys.executable)
    done = subprocess.run([python, os.path.join(HERE, "run_notebook.py"), os.path.join(FOLDER, name + ".ipynb"), *LEARNED[name]],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=400, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert all(found[key] > least for key, least in LEARNED[name].items()), found


def test_notebooks_are_stored_without_outputs():
    assert sorted(os.listdir(FOLDER)) == sorted(f"{name}.ipynb" for name in LEARNED)
    for name in LEARNED:
        with open(os.path.join(FOLDER, name + ".ipynb"), encoding="utf-8") as file:
            for cell in json.load(file)["cells"]:
                assert not cell.get("outputs") and cell.get("execution_count") is None


def test_html():
    rows = estoc.Dataset.from_tensor_slices(({"x<y": np.ones((4, 3), np.float32)}, np.ones(4, np.int64)))
    shown = rows._repr_html_()
    assert "x&lt;y" in shown and "float32" in shown and "(3,)" in shown
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    assert "Total params: 8" in model._repr_html_()
    assert "not built" in tf.keras.Sequential([tf.keras.layers.Dense(2)])._repr_html_()


def test_progress(capsys):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    x, y = np.ones((70, 3), np.float32), np.ones((70, 1), np.float32)
    model.fit(x, y, epochs=2, validation_split=0.5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Epoch 1/2" and lines[2] == "Epoch 2/2" and len(lines) == 4
    assert lines[1].startswith("2/2 [" + "=" * 30 + "] - 0s ") and " - loss: " in lines[1] and " - val_loss: " in lines[1]
    model.fit(x, y, verbose=2)
    assert capsys.readouterr().out.startswith("3/3 - 0s - loss: ")
    model.fit(x, y, verbose=0)
    model.evaluate(x, y, verbose=0)
    model.predict(x, verbose=0)
    assert capsys.readouterr().out == ""
    model.evaluate(x, y)
    model.predict(x)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("3/3 [") and "loss: " in first and second.startswith("3/3 [")
