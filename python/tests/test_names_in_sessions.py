# SPDX-License-Identifier: Apache-2.0
"""What names of tensors, operations and variables mean to sessions of tf.compat.v1, as in TensorFlow 2.15.1."""
import pytest

import estoc.tf as tf

v1 = tf.compat.v1


def test_the_first_placeholder_without_a_name():
    with tf.Graph().as_default() as graph:
        made = [v1.placeholder(tf.float32), v1.placeholder(tf.float32)]
        with tf.name_scope("s"):
            made.append(v1.placeholder(tf.float32))
        made += [v1.placeholder(tf.float32, name="Placeholder"), v1.placeholder(tf.float32, name="x")]
        assert [node.name for node in made] == ["Placeholder:0", "Placeholder_1:0", "s/Placeholder:0", "Placeholder_2:0",
                                                "x:0"]
        assert graph.get_tensor_by_name("Placeholder:0") is made[0]


@pytest.mark.parametrize("name", ["nothere:0", "nothere"])
def test_a_fetch_of_no_such_name(name):
    with tf.Graph().as_default(), v1.Session() as session:
        tf.constant(1)
        with pytest.raises(ValueError, match=f"Argument `fetch` = {name} cannot be interpreted as a Tensor. .*nothere"):
            session.run(name)


@pytest.mark.parametrize("name", ["nothere:0", "Const"])
def test_a_feed_of_no_such_name(name):
    with tf.Graph().as_default(), v1.Session() as session:
        node = tf.constant(1) + 1
        with pytest.raises(TypeError, match=f"Cannot interpret feed_dict key as Tensor: The name '{name}'"):
            session.run(node, {name: 1})


def test_a_variable_by_name():
    """TensorFlow gives the bytes of the handle for v:0, unless variables are not resources: then its value, as here."""
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v = v1.get_variable("v", initializer=[1.0, 2.0])
        session.run(v1.global_variables_initializer())
        assert session.run("v:0").tolist() == [1, 2] and session.run({"s": "v:0"})["s"].tolist() == [1, 2]
        assert session.run("v") is None and session.run(graph.get_operation_by_name("v")) is None
        assert graph.get_tensor_by_name("v:0").dtype == tf.float32
        session.run(v.assign([3.0, 4.0]))
        assert session.run(graph.get_tensor_by_name("v:0") * 2).tolist() == [6, 8]


class Asks(tf.estimator.SessionRunHook):
    def __init__(self, name):
        self.name, self.results = name, []

    def before_run(self, run_context):
        return v1.train.SessionRunArgs({"s": self.name})

    def after_run(self, run_context, run_values):
        self.results.append(run_values.results["s"])


def train(hook):
    def model_fn(features, labels, mode):
        w = v1.get_variable("linear/bias_weights", initializer=1.0)
        loss = tf.reduce_sum((w - labels) ** 2)
        step = v1.train.GradientDescentOptimizer(0.25).minimize(loss, v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    estimator = tf.estimator.Estimator(model_fn)
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, 3.0)).repeat(2), hooks=[hook])


@pytest.mark.parametrize("name, want", [("linear/bias_weights:0", {1.0, 2.0, 2.5}), ("global_step:0", {0, 1, 2}),
                                        ("linear/bias_weights", {None}), ("global_step", {None})])
def test_a_variable_by_name_in_the_arguments_of_a_hook(name, want):
    """The value is from before or from after the step that it is read in."""
    hook = Asks(name)
    train(hook)
    assert len(hook.results) == 2 and set(hook.results) <= want


@pytest.mark.parametrize("name, want", [("linear/bias_weights", [1.0, 2.0, 2.5]), ("linear/bias_weights:0", [1.0, 2.0, 2.5]),
                                        ("global_step", [0, 1, 2])])
def test_a_variable_by_name_is_logged(name, want):
    rows = []
    train(tf.estimator.LoggingTensorHook({"it": name}, every_n_iter=1, formatter=lambda row: rows.append(row["it"]) or ""))
    assert len(rows) == 2 and set(rows) <= set(want)


def test_logging_of_names_at_the_end_and_of_none():
    rows = []
    train(tf.estimator.LoggingTensorHook(["global_step"], at_end=True,
                                         formatter=lambda row: rows.append(row["global_step"]) or ""))
    assert len(rows) == 1 and rows[0] in (1, 2)
    with pytest.raises(tf.errors.NotFoundError, match="logs node 'nothere'"):
        train(tf.estimator.LoggingTensorHook(["nothere"], every_n_iter=1))
