# SPDX-License-Identifier: Apache-2.0
"""The programs of the documentation run."""
import os
import re

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def programs(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return re.findall(r"```python\n(.*?)```", file.read(), re.S)


def test_programs_of_the_guide(tmp_path, monkeypatch, capsys):
    blocks = programs("docs/python.md")
    assert len(blocks) == 6
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert 0.4 < float(capsys.readouterr().out.split()[0]) <= 1
    assert names["estimator"].evaluate(lambda: names["rows"].batch(100))["accuracy"] > 0.9
    assert names["classifier"].score(names["X"], names["bought"]) > 0.9
    assert len(list(names["batches"])) == len(list(names["people"])) == 2


def test_sixty_seconds(tmp_path, monkeypatch, capsys):
    (block,) = programs("README.md")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == "accuracy 1.0\n"


def test_programs_of_the_migration_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in programs("docs/migrate.md"):
        exec(compile(block, "docs/migrate.md", "exec"), names)
    assert names["result"]["accuracy"] > 0.9
    old, net = names["old"], names["net"]
    assert int(old.get_variable_value("step/.ATTRIBUTES/VARIABLE_VALUE")) == 400
    kernel = old.get_variable_value("net/hidden/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert np.array_equal(net.hidden.kernel, kernel) and names["older"][1] > names["older"][0]
