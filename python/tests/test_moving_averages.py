# SPDX-License-Identifier: Apache-2.0
"""Moving averages of compat.v1: optimizers leave them to tf.GraphKeys.UPDATE_OPS, with the values of TensorFlow 2.15.1."""
import pytest

import estoc.tf as tf

v1 = tf.compat.v1
ROWS = [[1.0, 2.0], [3.0, 7.0]]
#: Mean and variance after two steps.
WANTED = {False: [[0.0, 0.0], [1.0, 1.0]],
          True: [[0.039799999445676804, 0.08954999595880508], [1.0, 1.1044750213623047]]}


def step(loss, apart=False):
    optimizer, count = v1.train.GradientDescentOptimizer(0.1), v1.train.get_or_create_global_step()
    return optimizer.apply_gradients(optimizer.compute_gradients(loss), count) if apart else optimizer.minimize(loss, count)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_in_a_session(follows, apart):
    with tf.Graph().as_default():
        y = v1.layers.batch_normalization(tf.constant(ROWS), training=True)
        loss = tf.reduce_mean(y ** 2 + y)
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS) if follows else []):
            train = step(loss, apart)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(train)
            session.run(train)
            moving = [session.run(v).tolist() for v in v1.global_variables() if "moving" in v.name]
    assert moving == [pytest.approx(want, rel=1e-6) for want in WANTED[follows]]


@pytest.mark.parametrize("strategy", [None, tf.distribute.MirroredStrategy(["cpu:0"])], ids=["one", "mirrored"])
@pytest.mark.parametrize("keras", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_in_a_model_fn(follows, keras, strategy):
    def model_fn(features, labels, mode):
        if keras:
            layer = tf.keras.Sequential([tf.keras.layers.BatchNormalization(name="batch_normalization")])
            y = layer(features["x"], training=True)
            updates = layer.get_updates_for(features["x"])
            assert updates == layer.updates
        else:
            y = v1.layers.batch_normalization(features["x"], training=True)
            updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        loss = tf.reduce_mean(y ** 2 + y)
        with tf.control_dependencies(updates if follows else []):
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step(loss))

    estimator = tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(train_distribute=strategy))
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": ROWS}, [1.0, 1.0])).repeat(2))
    names = sorted(name for name in estimator.get_variable_names() if "moving" in name)
    assert [estimator.get_variable_value(name).tolist() for name in names] == [
        pytest.approx(want, rel=1e-6) for want in WANTED[follows]]
