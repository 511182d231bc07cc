# SPDX-License-Identifier: Apache-2.0
"""tf.random.Generator in functions and in replicas, beside the numbers of TensorFlow 2.15."""
import logging

import numpy as np
import pytest

import estoc.tf as tf

# of Generator.from_seed(1): normal([]), then uniform([2]), twice
DRAWN = [0.43842274, [0.26585424, 0.24595356], -0.8393225, [0.6805072, 0.82057965]]
# of one that was made in the scope of a MirroredStrategy of two replicas, normal([]) in three runs
REPLICAS = [[-0.87930447, 0.020661574], [-1.5822568, 0.77539235], [-0.5039703, 0.1251838]]


def _near(mine, theirs):
    np.testing.assert_allclose(mine, theirs, rtol=2e-6)


def test_functions_go_on_with_the_state():
    generator = tf.random.Generator.from_seed(1)

    @tf.function
    def draw():
        return generator.normal([]), generator.uniform([2])

    for first, second in (DRAWN[:2], DRAWN[2:]):
        normal, uniform = draw()
        _near(normal, first)
        _near(uniform, second)
    assert draw.experimental_get_tracing_count() == 1
    assert generator.state.numpy().tolist() == [1 + 6 * 256, 0, 0]
    at_once = tf.random.Generator.from_seed(1)
    for want in DRAWN:
        _near(at_once.normal([]) if np.ndim(want) == 0 else at_once.uniform([2]), want)
    assert generator.state.numpy().tolist() == at_once.state.numpy().tolist()


def test_numbers_that_are_drawn_have_bounds_and_dtypes():
    generator, same = tf.random.Generator.from_seed(3), tf.random.Generator.from_seed(3)

    @tf.function
    def draw():
        return (generator.uniform([4], 2, 9, tf.int64), generator.truncated_normal([3], 1.0, 0.5, tf.float64),
                generator.uniform_full_int([2], tf.int32))

    want = (same.uniform([4], 2, 9, tf.int64), same.truncated_normal([3], 1.0, 0.5, tf.float64),
            same.uniform_full_int([2], tf.int32))
    for mine, theirs in zip(draw(), want):
        assert mine.dtype == theirs.dtype and mine.numpy().tolist() == theirs.numpy().tolist()


def test_a_gradient_is_that_of_the_numbers_drawn():
    generator, w = tf.random.Generator.from_seed(1), tf.Variable(2.0)

    @tf.function
    def scaled():
        return w * generator.normal([])

    with tf.GradientTape() as tape:
        value = scaled()
    _near(value, 2 * DRAWN[0])
    _near(tape.gradient(value, w), DRAWN[0])
    _near(scaled(), 2 * float(tf.random.Generator.from_state(generator.state.numpy() - [256, 0, 0], 1).normal([])))


def _replicas():
    return tf.distribute.MirroredStrategy(devices=["cpu:0", "cpu:1"])


def test_replicas_have_numbers_of_their_own(tmp_path):
    strategy = _replicas()
    with strategy.scope():
        generator = tf.random.Generator.from_seed(1)
        checkpoint = tf.train.Checkpoint(generator=generator)
        _near(strategy.run(lambda: generator.normal([])).values, REPLICAS[0])
        path = checkpoint.write(str(tmp_path / "c"))
        for _ in range(2):
            for want in REPLICAS[1:]:
                _near(strategy.run(lambda: generator.normal([])).values, want)
            checkpoint.restore(path)


def test_replicas_share_a_generator_from_outside():
    generator, strategy = tf.random.Generator.from_seed(1), _replicas()
    with strategy.scope():
        _near(strategy.run(lambda: generator.normal([])).values, [0.43842274, 1.6272374])  # one after the other


def test_one_that_is_made_in_what_is_traced_is_refused():
    strategy = _replicas()
    with strategy.scope(), pytest.raises(TypeError, match="is made outside of the function"):
        strategy.run(lambda: tf.random.Generator.from_seed(1).normal([]))


def test_seeds_of_stateless_calls():
    generator, same = tf.random.Generator.from_seed(5), tf.random.Generator.from_seed(5)
    assert tf.function(lambda: generator.make_seeds(2))().numpy().tolist() == same.make_seeds(2).numpy().tolist()


@pytest.mark.parametrize("order", ["state first", "state last"])
def test_what_also_reads_the_state_is_run_as_python(order, caplog):
    generator = tf.random.Generator.from_seed(1)

    @tf.function
    def draw():
        before = generator.state.read_value() if order == "state first" else None
        drawn = generator.normal([])
        return drawn, generator.state.read_value() if before is None else before

    with caplog.at_level(logging.WARNING, "tensorflow"):
        drawn, state = draw()
    assert "is run as Python" in caplog.text
    _near(drawn, DRAWN[0])
    assert state.numpy().tolist() == [1 if order == "state first" else 257, 0, 0]


def test_datasets_draw_for_each_element():
    generator = tf.random.Generator.from_seed(1)
    rows = tf.data.Dataset.range(2).map(lambda x: generator.normal([]))
    drawn = [float(row) for _ in range(2) for row in rows]
    assert len(set(drawn)) == 4 and generator.state.numpy()[0] >= 1 + 4 * 256
