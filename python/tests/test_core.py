# SPDX-License-Identifier: Apache-2.0
"""The calls and programs of core.py, as TensorFlow 2.15 gave them (golden_core.json)."""
import json
import os

import pytest

import estoc.tf as tf

import calls
import core
from cases import differences, plain

with open(os.path.join(os.path.dirname(__file__), "golden_core.json"), encoding="utf-8") as _file:
    WANTED = json.load(_file)


def test_devices_by_short_names():
    for device in ("cpu", "CPU:0", "/CPU:0", "/device:CPU:0"):
        @tf.function
        def next_to(x):
            with tf.device(device):
                return x + 1

        assert next_to(tf.constant(1)).numpy() == 2


def test_placement():
    tf.debugging.set_log_device_placement(True)
    tf.config.set_soft_device_placement(False)
    try:
        assert tf.debugging.get_log_device_placement() and not tf.config.get_soft_device_placement()
        tf.keras.backend.clear_session()

        @tf.function
        def on_a_gpu(x):
            with tf.device("GPU:7"):
                return x + 1

        with pytest.raises(tf.errors.InvalidArgumentError):
            on_a_gpu(tf.constant(1))
    finally:
        tf.debugging.set_log_device_placement(False)
        tf.config.set_soft_device_placement(True)
        tf.keras.backend.clear_session()


def test_calls():
    found, got = [], calls.results(tf, core.CALLS)
    assert set(got) | set(core.PROGRAMS) == set(WANTED)
    for call in core.CALLS:
        want = WANTED[call]
        if isinstance(want, dict) and "raises" in want:
            if not isinstance(got[call], dict) or "raises" not in got[call]:
                found.append(f"{call}: {got[call]!r} in place of {want['raises']}")
        else:
            differences(got[call], want, call, found)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", core.PROGRAMS)
def test_program(name):
    found = []
    differences(plain(core.PROGRAMS[name](tf)), WANTED[name], name, found)
    assert not found, "\n".join(found[:20])
