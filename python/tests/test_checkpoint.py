# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint and CheckpointManager; make interop exchanges them with TensorFlow."""
import os
import subprocess

import numpy as np
import pytest

import estoc.tf as tf
import objects

TENSORFLOW = os.environ.get("ESTOC_TENSORFLOW", "")  # a Python that has it: make interop
with_tensorflow = pytest.mark.skipif(not TENSORFLOW, reason="ESTOC_TENSORFLOW is not set; make interop sets it")


def ask(what, folder):
    done = subprocess.run([TENSORFLOW, objects.__file__, what, str(folder)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ""}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_round_trip(tmp_path):
    objects.write(tf, str(tmp_path))
    assert objects.read(tf, str(tmp_path)) == []


@with_tensorflow
def test_tensorflow_restores_what_is_written(tmp_path):
    objects.write(tf, str(tmp_path))
    ask("read", tmp_path)


@with_tensorflow
def test_what_tensorflow_wrote_is_restored(tmp_path):
    ask("write", tmp_path)
    assert objects.read(tf, str(tmp_path)) == []


def test_loop_and_fit_have_one_state(tmp_path):
    """Slots of apply_gradients go on in fit, and those of fit in a checkpoint and in loops."""
    x, y = objects.data()

    def loop(model, optimizer, steps):
        for _ in range(steps):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    results = []
    for order in ("loop", "fit", "mixed"):
        model, optimizer = objects.sequential(tf), tf.keras.optimizers.Adam(0.05)
        objects.set_weights(model)
        model.compile(optimizer, "mse")
        if order == "loop":
            loop(model, optimizer, 4)
        elif order == "fit":
            model.fit(x, y, batch_size=16, epochs=4, verbose=0)
        else:
            loop(model, optimizer, 1)
            model.fit(x, y, batch_size=16, epochs=1, verbose=0)
            loop(model, optimizer, 1)
            model.train_on_batch(x, y)
        assert int(optimizer.iterations) == 4
        results.append(model.get_weights())
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_values_wait_for_variables(tmp_path):
    """Layers that are built, and attributes that are set, after restore."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    model(np.ones((1, 3), np.float32))
    path = tf.train.Checkpoint(model=model).write(tmp_path / "c")
    late = tf.keras.Sequential([tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    status = tf.train.Checkpoint(model=late).restore(path)
    with pytest.raises(AssertionError, match="Unresolved object"):
        status.assert_consumed()
    late(np.ones((1, 3), np.float32))
    status.assert_existing_objects_matched()
    for a, b in zip(model.get_weights(), late.get_weights()):
        np.testing.assert_array_equal(a, b)
    late.layers[0].kernel.assign(np.zeros((3, 2)))  # restored once, not again
    late(np.ones((1, 3), np.float32))
    assert not late.layers[0].kernel.numpy().any()


def waiting():
    from estoc.tf import _world
    return len(_world.restorations)


class Own(tf.keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight("w", (2,))

    def call(self, x):
        return x * self.w


def test_a_checkpoint_that_is_restored_again_waits_once(tmp_path):
    """What it has for variables that never come must not be looked for by one more of them after each load."""
    path = str(tmp_path / "w")
    model = tf.keras.Sequential([Own(), Own()])
    model(np.ones((1, 2), np.float32))
    model.save_weights(path)
    other, before = tf.keras.Sequential([Own()]), waiting()
    other(np.ones((1, 2), np.float32))
    for _ in range(3):
        other.load_weights(path)
    assert waiting() == before + 1
    other.add(Own())
    other(np.ones((1, 2), np.float32))
    assert waiting() == before
    assert [list(w) for w in other.get_weights()] == [list(w) for w in model.get_weights()]


def test_an_earlier_checkpoint_gives_what_a_later_one_lacks(tmp_path):
    tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).write(str(tmp_path / "both"))
    tf.train.Checkpoint(a=tf.Variable(3.0)).write(str(tmp_path / "one"))
    checkpoint = tf.train.Checkpoint()
    checkpoint.restore(str(tmp_path / "both"))
    checkpoint.restore(str(tmp_path / "one"))
    checkpoint.a, checkpoint.b = tf.Variable(0.0), tf.Variable(0.0)
    assert (checkpoint.a.numpy(), checkpoint.b.numpy()) == (3, 2)


def test_a_checkpoint_of_other_objects_does_not_wait(tmp_path):
    path, before = str(tmp_path / "w"), waiting()
    tf.train.Checkpoint(other=tf.Variable(1.0)).write(path)
    model = tf.keras.Sequential([Own(input_shape=(2,))])
    model(np.ones((1, 2), np.float32))
    with pytest.raises(tf.errors.OpError):
        model.load_weights(path)
    assert waiting() == before


def test_only_what_waits_for_a_checkpoint_is_given_what_joins_it(tmp_path, monkeypatch):
    from estoc.tf import _checkpoint
    path = str(tmp_path / "c")
    tf.train.Checkpoint(inner=tf.train.Checkpoint(v=tf.Variable(4.0))).write(path)
    inner, matched = tf.train.Checkpoint(), []
    outer, other = tf.train.Checkpoint(inner=inner), tf.train.Checkpoint()
    outer.restore(path), other.restore(path)
    match = _checkpoint.Restoration.match
    monkeypatch.setattr(_checkpoint.Restoration, "match", lambda self: matched.append(self._checkpoint()) or match(self))
    v = tf.Variable(0.0)
    v.numpy()  # variables that join the world are given theirs
    matched.clear()
    inner.v = v
    assert set(matched) == {outer} and v.numpy() == 4
    del other


def test_statuses(tmp_path):
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable([2.0])).write(tmp_path / "c")
    a, c = tf.Variable(0.0), tf.Variable(0.0)
    status = tf.train.Checkpoint(a=a, c=c).read(path)
    assert float(a) == 1 and status.expect_partial() is status and status.assert_nontrivial_match() is status
    with pytest.raises(AssertionError, match="b/.ATTRIBUTES"):
        status.assert_consumed()
    with pytest.raises(AssertionError, match="not bound"):
        status.assert_existing_objects_matched()
    with pytest.raises(ValueError, match="not compatible"):
        tf.train.Checkpoint(a=tf.Variable([1.0, 2.0])).read(path)
    with pytest.raises(AssertionError, match="No checkpoint specified"):
        tf.train.Checkpoint(a=a).restore(None).assert_consumed()
    with pytest.raises(tf.errors.NotFoundError):
        tf.train.Checkpoint(a=a).restore(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="trackable"):
        tf.train.Checkpoint(a=3)
    nested = tf.train.Checkpoint(inner=tf.train.Checkpoint(a=tf.Variable(5.0)), d={"k": [tf.Variable(6.0)]})
    keys = [name for name, _ in tf.train.list_variables(nested.write(tmp_path / "n"))]
    assert keys == ["d/k/0/.ATTRIBUTES/VARIABLE_VALUE", "inner/a/.ATTRIBUTES/VARIABLE_VALUE"]
    assert tf.train.load_checkpoint(str(tmp_path / "n")).get_tensor(keys[1]) == 5


def test_module(tmp_path):
    """Attributes, lists and layers of a tf.Module, as the root and below one."""

    class Module(tf.Module):
        def __init__(self, start):
            super().__init__()
            self.v, self.many = tf.Variable(start), [tf.Variable(start + 1), {"k": tf.Variable(start + 2)}]
            self.dense = tf.keras.layers.Dense(1)
            self.dense(np.ones((1, 2), np.float32))

    first, second = Module(1.0), Module(10.0)
    path = tf.train.Checkpoint(first, extra=tf.Variable(5)).save(tmp_path / "c")
    extra = tf.Variable(0)
    tf.train.Checkpoint(second, extra=extra).restore(path).assert_consumed()
    assert [float(v) for v in (second.v, second.many[0], second.many[1]["k"])] == [1, 2, 3] and int(extra) == 5
    np.testing.assert_array_equal(first.dense.kernel.numpy(), second.dense.kernel.numpy())
    keys = [name for name, _ in tf.train.list_variables(path)]
    assert "many/1/k/.ATTRIBUTES/VARIABLE_VALUE" in keys and "dense/kernel/.ATTRIBUTES/VARIABLE_VALUE" in keys


def test_by_names(tmp_path):
    """A checkpoint without objects, as tf.compat.v1.train.Saver writes it."""
    import estoc
    estoc.save_checkpoint(tmp_path / "v1", {"w": np.float32([3]), "other": np.float32(1)})
    w = tf.Variable([0.0], name="w")
    status = tf.train.Checkpoint(w=w).restore(str(tmp_path / "v1"))
    assert w.numpy().tolist() == [3]
    status.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="other"):
        status.assert_consumed()


def test_manager(tmp_path):
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(step=step)
    called = []
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2, init_fn=lambda: called.append(1))
    assert manager.restore_or_initialize() is None and called == [1] and manager.latest_checkpoint is None
    paths = []
    for _ in range(3):
        step.assign_add(10)
        paths.append(manager.save())
    assert paths == [str(tmp_path / f"ckpt-{i}") for i in (1, 2, 3)]
    assert manager.checkpoints == paths[1:] and manager.latest_checkpoint == paths[2]
    assert tf.train.latest_checkpoint(tmp_path) == paths[2]
    assert not (tmp_path / "ckpt-1.index").exists() and (tmp_path / "ckpt-2.index").exists()
    state = tf.train.get_checkpoint_state(tmp_path)
    assert state.all_model_checkpoint_paths == paths[1:] and state.model_checkpoint_path == paths[2]

    again = tf.Variable(0, dtype=tf.int64)
    second = tf.train.CheckpointManager(tf.train.Checkpoint(step=again), tmp_path, max_to_keep=2, step_counter=again,
                                        checkpoint_interval=5)
    assert second.checkpoints == paths[1:] and second.restore_or_initialize() == paths[2] and int(again) == 30
    assert second.save() is None
    again.assign_add(5)
    assert second.save() == str(tmp_path / "ckpt-4") and second.checkpoints == [paths[2], str(tmp_path / "ckpt-4")]
    assert second.save(checkpoint_number=40, check_interval=False) == str(tmp_path / "ckpt-40")
    with pytest.raises(ValueError, match="max_to_keep"):
        tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=0)
    kept = tf.train.CheckpointManager(checkpoint, tmp_path / "kept", max_to_keep=1, keep_checkpoint_every_n_hours=0)
    first = kept.save()
    kept.save()
    assert os.path.exists(first + ".index") and kept.checkpoints == [kept.latest_checkpoint]
