# SPDX-License-Identifier: Apache-2.0
"""Programs of cases_migration.py under estoc.tf, compared with what TensorFlow 2.15 gave (golden_migration.json)."""
import json

import pytest

import estoc.tf as tf

from cases import check, differences, golden, plain
from cases_migration import CASES, optimizers_of, stored, trained_by

GOLDEN = golden("migration")


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name):
    check(tf, CASES[name], GOLDEN[name], name)


@pytest.mark.parametrize("name", sorted(GOLDEN["optimizers_of_keras_by_hand"]))
def test_an_optimizer_of_keras_in_an_estimator(name):
    model, found = trained_by(tf, optimizers_of(tf)[name]), []
    values = [model.get_variable_value(key) for key in ("net/dense/kernel", "net/dense/bias", "iteration")]
    differences(plain(values), GOLDEN["optimizers_of_keras_by_hand"][name], name, found)
    assert not found, found
    assert model.get_variable_value("global_step") == 5


def test_a_checkpoint_of_objects_is_trained_on():
    """What the objects do not name is in the checkpoint, too: a training that is stopped goes on as if it was not."""
    model = trained_by(tf, optimizers_of(tf)["adam"], with_objects=True)
    other = {key: value for key, value in stored(tf, model.model_dir).items() if "/.ATTRIBUTES/" not in key}
    assert {"optimizer/Adam/beta_1", "estoc/run_count"} <= set(other)


def test_a_cluster_refuses_checkpoints_of_objects(monkeypatch):
    v1 = tf.compat.v1
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]},
                                                "task": {"type": "chief", "index": 0}}))
    step = v1.train.Scaffold(saver=tf.train.Checkpoint())
    spec = object.__new__(tf.estimator.EstimatorSpec)
    spec.scaffold, spec.mode = step, "train"
    with pytest.raises(NotImplementedError, match="in a cluster"):
        spec.check(tf.estimator.RunConfig())
    with pytest.raises(TypeError, match="not str"):
        v1.train.Scaffold(saver="x")
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="monitored session"):
        v1.train.get_or_create_global_step()
        v1.train.MonitoredTrainingSession(scaffold=step)
