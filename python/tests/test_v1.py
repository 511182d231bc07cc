# SPDX-License-Identifier: Apache-2.0
"""tf.compat.v1: graphs, sessions, variables, iterators, hooks and savers, beside the values of TensorFlow."""
import json
import os
import threading

import numpy as np
import pytest

import estoc
import estoc.tf as tf
import programs

v1 = tf.compat.v1
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.json"), encoding="utf-8") as _file:
    GOLDEN = json.load(_file)["v1"]


def same(mine, theirs, where):
    if isinstance(theirs, dict):
        assert sorted(mine) == sorted(theirs), where
        for key in theirs:
            same(mine[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(mine) == len(theirs), (where, mine, theirs)
        for i, item in enumerate(theirs):
            same(mine[i], item, f"{where}[{i}]")
    elif isinstance(theirs, float):
        assert mine == pytest.approx(theirs, rel=2e-5, abs=1e-6), where
    else:
        assert mine == theirs, where


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_tensorflow(program):
    same(programs.as_json(program(tf)), GOLDEN[program.__name__], program.__name__)


# --- graphs and sessions ----------------------------------------------------------------------------------------------


def test_names_of_tensorflow_1_without_anything_else():
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, [None])
    w = tf.get_variable("w", initializer=2.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(x * w, {x: [1, 2]}).tolist() == [2, 4]
        assert tf.get_default_session() is session and tf.get_default_graph() is session.graph
        assert session.run(tf.constant(3) + 4) == 7
    assert session.run is not None
    with pytest.raises(RuntimeError, match="closed"):
        session.run(w)
    assert tf.get_default_session() is None
    tf.reset_default_graph()
    assert tf.global_variables() == []


def test_graphs_without_eager_execution():
    assert tf.executing_eagerly()
    v1.disable_eager_execution()
    try:
        assert not tf.executing_eagerly()
        total = tf.reduce_sum(tf.constant([1.0, 2.0]) * tf.ones([2]), name="total")
        assert isinstance(total, v1.Graph()._made(total._c).__class__) and total.name == "total:0"
        with v1.Session(config=v1.ConfigProto(intra_op_parallelism_threads=1)) as session:
            assert session.run(total) == 3
    finally:
        v1.enable_eager_execution()
        v1.reset_default_graph()
    assert tf.constant(1).numpy() == 1


def test_interactive_sessions_and_eval():
    with v1.Graph().as_default():
        session = v1.InteractiveSession()
        v = v1.get_variable("v", [2], initializer=v1.ones_initializer())
        v.initializer.run()
        assert v.eval().tolist() == [1, 1] and v1.add(v, 1.0).eval().tolist() == [2, 2]
        session.close()
        with pytest.raises(ValueError, match="No default session"):
            v.eval()


@pytest.mark.parametrize("fetch, error", [(None, TypeError), (3, TypeError), ("nothing:0", ValueError),
                                          ("nothing", ValueError), ([object()], TypeError)])
def test_fetches_that_cannot_be(fetch, error):
    with v1.Graph().as_default(), v1.Session() as session:
        v1.constant(1)
        with pytest.raises(error):
            session.run(fetch)


def test_runs_that_cannot_be():
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(v1.float32, [2], name="x")
        v = v1.get_variable("v", [2])
        with v1.Graph().as_default():
            other = v1.constant(1.0)
        with pytest.raises(ValueError, match="not an element of this graph"):
            session.run(other)
        with pytest.raises(ValueError, match="x"):
            session.run(x + 1)
        with pytest.raises(ValueError, match="x"):
            session.run(x + 1, {x: [1, 2, 3]})
        with pytest.raises(TypeError, match="tf.Tensor"):
            session.run(x + 1, {x: v1.constant([1.0, 2.0])})
        with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
            session.run(v)
        with pytest.raises(NotImplementedError):
            session.run(x, {x: [1, 2]}, options=v1.RunOptions())
    with pytest.raises(ValueError, match="no \"allow_softly\" field"):
        v1.ConfigProto(allow_softly=True)


def test_optimizers_that_have_nothing_to_do():
    with v1.Graph().as_default():
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        with pytest.raises(ValueError, match="No variables to optimize"):
            optimizer.minimize(v1.constant(1.0))
        v = v1.get_variable("v", [2])
        with pytest.raises(ValueError, match="No gradients provided for any variable"):
            optimizer.minimize(v1.constant(1.0))
        with pytest.raises(ValueError, match="No gradients provided"):
            optimizer.apply_gradients([(None, v)])


def test_sparse_gradients_pass_through():
    with v1.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", initializer=np.zeros([3, 2], np.float32))
        rows = estoc.graph.Node(table.graph, estoc._lib.lib.est_resource_gather(
            table._c, v1.constant(np.array([2, 0, 2]))._c))
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        (gradient, variable), = optimizer.compute_gradients(v1.reduce_sum(rows))
        assert type(gradient).__name__ == "IndexedSlices" and variable is table
        train = optimizer.apply_gradients([(gradient, variable)])
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run(table).tolist() == [[-1, -1], [0, 0], [-2, -2]]


# --- devices and clusters ---------------------------------------------------------------------------------------------


def test_devices_of_a_cluster():
    seen = []

    def pick(operation):
        seen.append((operation.type, operation.name))
        return "/job:ps/task:0" if operation.type == "VarHandleOp" else "/job:worker/task:1"

    with estoc.LocalCluster(ps=1, workers=2) as cluster, v1.Graph().as_default() as graph:
        with v1.device(pick):
            v = v1.get_variable("v", initializer=[1.0, 2.0])
        with v1.device("/job:worker/task:0"), v1.device("/cpu:0"):
            x = v1.placeholder(v1.float32, [2])
            y = x * v
        with v1.Session(cluster.target("worker", 0).replace("tls:", "grpc:"), graph=graph) as session:
            session.run(v1.global_variables_initializer())
            session.run(v1.assign_add(v, [1.0, 1.0]))
            assert session.run(y, {x: [2, 3]}).tolist() == [4, 9]
        with v1.Session(cluster.target("worker", 1)) as session:  # variables live at the tasks
            assert session.run(v).tolist() == [2, 3]
    assert ("VarHandleOp", "v") in seen


def test_devices_that_cannot_be():
    with v1.Graph().as_default():
        with pytest.raises(ValueError, match="no device"):
            with v1.device("/jobs:ps"):
                pass

        def fails(operation):
            raise KeyError("no device for it")

        with pytest.raises(KeyError, match="no device for it"):
            with v1.device(fails):
                v1.constant(1.0)


def test_replica_device_setter():
    assert v1.train.replica_device_setter() is None
    spec = tf.train.ClusterSpec({"ps": ["a:1", "b:1"], "worker": ["c:1"]})
    with v1.Graph().as_default() as graph:
        with v1.device(v1.train.replica_device_setter(cluster=spec, worker_device="/job:worker/task:0")):
            variables = [v1.get_variable(f"v{i}", [1]) for i in range(3)]
            v1.matmul([[1.0]], [[2.0]])
        assert len(graph.trainable_variables) == len(variables) == 3


def test_between_graph_replication(tmp_path):
    """Two workers, each with a graph and a monitored session of its own, and a ps task that has the variables."""
    import threading

    spec = tf.train.ClusterSpec({job: [f"localhost:{estoc.cluster.free_port()}" for _ in range(n)]
                                 for job, n in (("ps", 1), ("worker", 2))})
    servers = {name: tf.train.Server(spec, *name) for name in (("ps", 0), ("worker", 0), ("worker", 1))}
    last, failures = {}, []

    def work(index):
        try:
            with v1.Graph().as_default():
                with v1.device(v1.train.replica_device_setter(cluster=spec, worker_device=f"/job:worker/task:{index}")):
                    x, y, loss, w, b = programs.regression(v1)
                    step = v1.train.get_or_create_global_step()
                    train = v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
                with v1.train.MonitoredTrainingSession(
                        servers["worker", index].target, is_chief=index == 0, checkpoint_dir=str(tmp_path),
                        hooks=[v1.train.StopAtStepHook(last_step=20)], log_step_count_steps=None,
                        max_wait_secs=60) as session:
                    while not session.should_stop():
                        last[index] = session.run([train, step, loss], {x: programs.X, y: programs.Y})[1]
        except BaseException as failure:  # noqa: B036
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers.values():
        server.close()
    assert not failures and max(last.values()) >= 19
    assert tf.train.load_variable(str(tmp_path), "global_step") >= 20


# --- hooks ------------------------------------------------------------------------------------------------------------


class Failing(v1.train.SessionRunHook):
    def __init__(self, where):
        self.where = where

    def _fail(self, where):
        if where == self.where:
            raise LookupError(where)

    def begin(self):
        self._fail("begin")

    def after_create_session(self, session, coord):
        self._fail("after_create_session")

    def before_run(self, run_context):
        self._fail("before_run")

    def after_run(self, run_context, run_values):
        self._fail("after_run")

    def end(self, session):
        self._fail("end")


@pytest.mark.parametrize("where", ["begin", "after_create_session", "before_run", "after_run", "end"])
def test_what_a_hook_raises_comes_out(where, tmp_path, dataset, model_fn):
    with v1.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        with pytest.raises(LookupError, match=where):
            with v1.train.MonitoredSession(hooks=[Failing(where)]) as session:
                session.run(step)
    with pytest.raises(LookupError, match=where):
        estoc.Estimator(model_fn, tmp_path).train(lambda: dataset.batch(20), hooks=[Failing(where)], steps=2)


def test_a_session_run_hook_of_an_estimator(tmp_path, dataset, model_fn):
    seen = []

    class Watch(tf.estimator.SessionRunHook):
        def begin(self):
            self.step = v1.train.get_global_step()
            self.kernel = v1.trainable_variables()[0]

        def before_run(self, run_context):
            return tf.estimator.SessionRunArgs([self.step, self.kernel])

        def after_run(self, run_context, run_values):
            seen.append((int(run_values.results[0]), run_values.results[1].shape))
            if len(seen) == 3:
                run_context.request_stop()

    estoc.Estimator(model_fn, tmp_path).train(lambda: dataset.repeat().batch(20), hooks=[Watch()], steps=100)
    assert [shape for _, shape in seen] == [(3, 1)] * 3


def test_hooks_of_the_library_in_a_spec(tmp_path, caplog, dataset, model_fn):
    """What TensorFlow's guides put into training_hooks; a hook that outlives model_fn is good for every training."""
    lasting = v1.train.StopAtStepHook(num_steps=2)

    def with_hooks(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        spec.training_hooks = [
            lasting, v1.train.LoggingTensorHook({"seen": spec.loss}, every_n_iter=1), v1.train.StepCounterHook(1),
            v1.train.CheckpointSaverHook(str(tmp_path / "saved"), save_steps=1)]
        spec.evaluation_hooks = [v1.train.LoggingTensorHook({"checked": spec.loss}, every_n_iter=1)]
        return spec

    estimator = estoc.Estimator(with_hooks, tmp_path / "model")
    with caplog.at_level("INFO", logger="tensorflow"):
        estimator.train(lambda: dataset.repeat().batch(20))
        assert caplog.text.count("seen = ") == 2
        assert estoc.latest_checkpoint(tmp_path / "saved").endswith("-2")
        estimator.train(lambda: dataset.repeat().batch(20))  # two more, from the start: its checkpoints are elsewhere
        assert caplog.text.count("seen = ") == 4
        estimator.evaluate(lambda: dataset.batch(100), steps=2,
                           checkpoint_path=estoc.latest_checkpoint(tmp_path / "saved"))
        assert caplog.text.count("checked = ") == 2
    assert estoc.latest_checkpoint(tmp_path / "model") is None  # the hook saves in place of the training


def test_a_final_ops_hook_is_refused_in_a_spec(tmp_path, dataset, model_fn):
    def with_hook(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        spec.training_hooks = [v1.train.FinalOpsHook(spec.loss)]
        return spec

    with pytest.raises(NotImplementedError, match="give it to train or evaluate"):
        estoc.Estimator(with_hook, tmp_path).train(lambda: dataset.batch(20), steps=1)


def test_a_hook_feeds():
    with v1.Graph().as_default():
        x = v1.placeholder(v1.float32, [2])
        total = v1.reduce_sum(x)
        v1.train.get_or_create_global_step()
        values = iter([[1, 2], [3, 4]])
        with v1.train.MonitoredSession(hooks=[v1.train.FeedFnHook(lambda: {x: next(values)})]) as session:
            assert [session.run(total), session.run(total)] == [3, 7]


def test_monitored_sessions_end_with_their_input():
    with v1.Graph().as_default():
        element = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
        final = v1.train.FinalOpsHook(v1.constant(5))
        v1.train.get_or_create_global_step()
        seen = []
        with v1.train.SingularMonitoredSession(hooks=[final]) as session:
            assert session.run_step_fn(lambda context: context.session.run(element)) == 0
            while not session.should_stop():
                seen.append(int(session.run(element)))
        assert seen == [1, 2] and final.final_ops_values == 5
        with pytest.raises(RuntimeError):
            session.run(element)


def test_nan_and_saving_hooks(tmp_path, caplog):
    saved = []

    class Listener(v1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            saved.append(global_step_value)

    with v1.Graph().as_default():
        x = v1.placeholder(v1.float32, [])
        loss = v1.get_variable("v", initializer=1.0) * x
        step = v1.train.get_or_create_global_step()
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        hooks = [v1.train.CheckpointSaverHook(str(tmp_path), save_steps=2, listeners=[Listener()]),
                 v1.train.NanTensorHook(loss, fail_on_nan_loss=False), v1.train.LoggingTensorHook({"x": x}, 1)]
        with caplog.at_level("INFO", logger="tensorflow"):
            with v1.train.MonitoredSession(hooks=hooks) as session:
                for value in (1, 2, float("nan")):
                    session.run(train, {x: value})
                assert session.should_stop()
    assert saved[0] == 0 and 2 in saved and "x = 1" in caplog.text
    assert estoc.latest_checkpoint(tmp_path)


# --- summaries --------------------------------------------------------------------------------------------------------


def test_summaries_of_sessions(tmp_path):
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(v1.float32, [None])
        with v1.name_scope("layer"):
            v1.summary.scalar("mean", v1.reduce_mean(x))
        v1.summary.histogram("x", x)
        v1.summary.text("word", v1.constant("hello"))
        merged = v1.summary.merge_all()
        with v1.summary.FileWriter(tmp_path) as writer:
            for step in range(2):
                writer.add_summary(session.run(merged, {x: [step, step + 1]}), step)
            writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="own", simple_value=2.5)]), 7)
    entries = [(e["step"], e["tag"], e["kind"]) for e in estoc.EventReader(tmp_path)]
    assert (1, "layer/mean", "scalar") in entries and (0, "x", "histogram") in entries
    assert (0, "word", "text") in entries and (7, "own", "scalar") in entries
    assert [e["value"] for e in estoc.EventReader(tmp_path) if e["tag"] == "layer/mean"] == [0.5, 1.5]


def test_summaries_of_monitored_sessions(tmp_path):
    with v1.Graph().as_default():
        x = v1.placeholder(v1.float32, [])
        v1.summary.scalar("x", x)
        step = v1.train.get_or_create_global_step()
        count = v1.assign_add(step, 1)
        with v1.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), save_summaries_steps=1,
                                               log_step_count_steps=None) as session:
            for value in (1, 2):
                session.run(count, {x: value})
    assert [e["value"] for e in estoc.EventReader(tmp_path) if e["tag"] == "x"] == [1, 2]


def test_tf_summary(tmp_path):
    assert tf.summary.scalar("nobody", 1.0, step=0) is False
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        tf.summary.scalar("loss", tf.constant(0.5), step=3)
        tf.summary.experimental.set_step(4)
        tf.summary.histogram("h", np.arange(5.0))
        tf.summary.text("t", "words")
        tf.summary.image("i", np.zeros([1, 2, 2, 3], np.uint8))
        with pytest.raises(ValueError, match="shape"):
            tf.summary.scalar("s", [1.0, 2.0])
    with tf.summary.create_noop_writer().as_default():
        assert tf.summary.scalar("nobody", 1.0, step=0) is False
    entries = {e["tag"]: (e["step"], e["kind"]) for e in estoc.EventReader(tmp_path)}
    assert entries["loss"] == (3, "scalar") and entries["h"] == (4, "histogram") and entries["t"] == (4, "text")
    assert any(kind == "image" for _, kind in entries.values())
    tf.summary.experimental.set_step(None)


def test_a_coordinator_waits_no_longer_than_its_grace():
    coordinator, end = tf.train.Coordinator(), threading.Event()
    stuck = threading.Thread(target=end.wait, name="stuck", daemon=True)
    asks = threading.Thread(target=coordinator.request_stop)
    stuck.start()
    asks.start()
    with pytest.raises(RuntimeError, match="threads still running: stuck"):
        coordinator.join([stuck, asks], stop_grace_period_secs=0)
    coordinator.join([stuck], stop_grace_period_secs=0, ignore_live_threads=True)
    end.set()
    coordinator.join([stuck])


def test_shapes_that_are_not_those_of_values_are_refused():
    with tf.Graph().as_default():
        assert v1.placeholder_with_default(np.zeros((1, 2)), [1, 2]).shape == (1, 2)
        with pytest.raises(NotImplementedError, match="placeholder_with_default"):
            v1.placeholder_with_default(np.zeros((1, 2)), [None, 2])
        assert v1.Variable([1.0, 2.0], shape=[2]).shape == (2,)
        with pytest.raises(NotImplementedError, match="a variable has the shape of its value"):
            v1.Variable([1.0, 2.0], shape=[5])


def test_operations_of_a_scaffold_run_after_the_initializers():
    with tf.Graph().as_default():
        w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
        plain = v1.train.Scaffold(v1.global_variables_initializer(), local_init_op=tf.group(
            v1.local_variables_initializer(), v1.tables_initializer()))
        assert plain._hooks(True) == []
        with v1.train.MonitoredTrainingSession(scaffold=plain) as session:
            assert session.run(w).tolist() == [0, 0]
        more = tf.group(v1.global_variables_initializer(), w.assign([1.0, 2.0]))
        for scaffold in (v1.train.Scaffold(more), v1.train.Scaffold(local_init_op=more)):
            with v1.train.MonitoredTrainingSession(scaffold=scaffold) as session:
                assert session.run(w).tolist() == [1, 2]
        with pytest.raises(NotImplementedError, match="summary_op"):
            v1.train.MonitoredTrainingSession(scaffold=v1.train.Scaffold(summary_op=w))


def scaffolded(scaffold_of):
    def model_fn(features, labels, mode):
        w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
        loss = tf.reduce_sum(w * features["x"][0])
        train_op = v1.assign_add(v1.train.get_global_step(), 1)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold_of(w))

    return model_fn


def test_a_scaffold_initializes_before_the_first_checkpoint(tmp_path):
    """And not a session that was restored, also of step 0."""
    calls = []

    def scaffold(w):
        def init(scaffold, session):
            calls.append(session.run(w).tolist())
            session.run(w.assign([3.0, 4.0]))

        return v1.train.Scaffold(init_fn=init)

    def rows():
        return tf.data.Dataset.from_tensors({"x": [1.0, 2.0]}).batch(1).repeat()

    estimator = tf.estimator.Estimator(scaffolded(scaffold), str(tmp_path))
    estimator.train(rows, steps=2)
    assert tf.train.load_variable(str(tmp_path / "model.ckpt-0"), "w").tolist() == [3.0, 4.0]
    assert calls == [[0.0, 0.0]]
    for path in tmp_path.glob("model.ckpt-2*"):
        path.unlink()
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')
    estimator.train(rows, max_steps=1)
    assert len(calls) == 1 and estimator.get_variable_value("global_step") == 1
    with tf.Graph().as_default():
        w, seen = v1.get_variable("w", [2], initializer=v1.zeros_initializer()), tmp_path / "monitored"
        v1.train.get_or_create_global_step()
        with v1.train.MonitoredTrainingSession(checkpoint_dir=str(seen), scaffold=scaffold(w)) as session:
            assert session.run(w).tolist() == [3.0, 4.0]
        assert tf.train.load_variable(str(seen / "model.ckpt-0"), "w").tolist() == [3.0, 4.0]


def test_evaluation_of_variables_in_memory(tmp_path):
    """Before the first step, every few and at the end, without a checkpoint."""
    rates = []

    def model_fn(features, labels, mode):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(features["x"]) * w
        train_op = tf.group(w.assign_add(1.0), v1.assign_add(v1.train.get_global_step(), 1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    class Seen(v1.train.SessionRunHook):
        def before_run(self, run_context):
            return v1.train.SessionRunArgs(v1.global_variables("w")[0])

        def after_run(self, run_context, run_values):
            rates.append(float(run_values.results))

    def rows():
        return tf.data.Dataset.from_tensor_slices({"x": [2.0, 4.0]}).batch(2)

    config = tf.estimator.RunConfig(save_checkpoints_steps=1000)
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), config=config)
    hook = tf.estimator.experimental.InMemoryEvaluatorHook(estimator, rows, name="memory", hooks=[Seen()], every_n_iter=2)
    estimator.train(lambda: rows().repeat(), hooks=[hook], steps=5)
    assert rates == [0.0, 2.0, 4.0, 5.0]
    events = [event for path in (tmp_path / "eval_memory").glob("*tfevents*")
              for event in v1.train.summary_iterator(str(path))]
    losses = {event.step: value.simple_value for event in events for value in event.summary.value if value.tag == "loss"}
    assert losses == {0: 0.0, 2: 6.0, 4: 12.0, 5: 15.0}
    assert estimator.evaluate(rows)["loss"] == 15.0
    for wrong in (0, None):
        with pytest.raises(ValueError, match="every_n_iter"):
            tf.estimator.experimental.InMemoryEvaluatorHook(estimator, rows, every_n_iter=wrong)
    stop = tf.estimator.experimental.make_stop_at_checkpoint_step_hook(estimator, 8)
    estimator.train(lambda: rows().repeat(), hooks=[stop])
    assert estimator.get_variable_value("global_step") == 8


def test_hooks_of_several_evaluations_in_one_training(tmp_path):
    """Each has a graph of its own, in which a hook finds its tensors."""
    seen = []

    def model_fn(features, labels, mode):
        w = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        train_op = tf.group(w.assign_add(1.0), v1.assign_add(v1.train.get_global_step(), 1))
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features["x"]) * w, train_op=train_op)

    class Seen(v1.train.SessionRunHook):
        def begin(self):
            self.w = v1.global_variables("w")[0]

        def before_run(self, run_context):
            return v1.train.SessionRunArgs({"w": self.w})

        def after_run(self, run_context, run_values):
            seen.append(float(run_values.results["w"]))

    def rows():
        return tf.data.Dataset.from_tensor_slices({"x": [2.0, 4.0]}).batch(2)

    config = tf.estimator.RunConfig(save_checkpoints_steps=2)
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, str(tmp_path), config=config), tf.estimator.TrainSpec(lambda: rows().repeat(), 4),
        tf.estimator.EvalSpec(rows, hooks=[Seen()], throttle_secs=0))
    assert seen == [2.0, 4.0]


def test_a_timer_of_steps():
    timer = tf.estimator.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(7) and timer.update_last_triggered_step(7) == (None, None)
    assert [timer.should_trigger_for_step(step) for step in (7, 9, 10)] == [False, False, True]
    seconds, steps = timer.update_last_triggered_step(11)
    assert steps == 4 and seconds >= 0 and timer.last_triggered_step() == 11
    timer.reset()
    assert timer.should_trigger_for_step(11) and timer.last_triggered_step() is None
    for wrong in ({}, {"every_secs": 1, "every_steps": 1}):
        with pytest.raises(ValueError):
            v1.train.SecondOrStepTimer(**wrong)


def test_a_nan_loss_has_an_error_of_its_own():
    with tf.Graph().as_default():
        loss, step = tf.constant(float("nan")), v1.train.get_or_create_global_step()
        with pytest.raises(tf.estimator.NanLossDuringTrainingError, match="NaN loss during training.*at step 1"):
            with v1.train.MonitoredSession(hooks=[v1.train.NanTensorHook(loss)]) as session:
                session.run([loss, v1.assign_add(step, 1)])
    assert issubclass(tf.estimator.NanLossDuringTrainingError, RuntimeError)
    assert "NanLossDuringTrainingError" not in dir(tf.errors)


def test_the_behavior_of_both_versions():
    """Whether operations compute at once; the program of another test goes on as it was."""
    eager = tf.executing_eagerly()
    try:
        v1.disable_v2_behavior()
        x = tf.constant(2.0) * 3.0
        assert not tf.executing_eagerly() and not hasattr(x, "numpy")
        with v1.Session() as session:
            assert session.run(x) == 6.0
        v1.enable_v2_behavior()
        assert tf.executing_eagerly() and float(tf.constant(2.0) * 3.0) == 6.0
    finally:
        (v1.enable_v2_behavior if eager else v1.disable_v2_behavior)()
        v1.reset_default_graph()


def test_a_constant_may_have_to_have_its_shape():
    with tf.Graph().as_default(), v1.Session() as session:
        assert session.run(v1.constant([1, 2], shape=[2, 1])).shape == (2, 1)
        assert session.run(v1.constant([1, 2], shape=[2], verify_shape=True)).tolist() == [1, 2]
        for value, shape in (([1, 2], [2, 1]), (1, (2,))):
            with pytest.raises(TypeError, match="verify_shape"):
                v1.constant(value, shape=shape, verify_shape=True)


# --- names of TensorFlow 1 in programs that compute at once -----------------------------------------------------------


def test_variables_and_losses_of_programs_that_compute_at_once():
    """As in TensorFlow 2, with its numbers."""
    v1.reset_default_graph()
    losses, logits = v1.losses, np.array([[0.2, 0.7, 0.1], [0.3, 0.3, 0.4]], np.float32)
    v, labels = v1.Variable(logits, name="v"), np.array([1, 2])
    assert isinstance(v, tf.Variable) and np.array_equal(v.numpy(), logits)
    onehot = np.eye(3)[labels]
    with tf.GradientTape() as tape:
        loss = losses.sparse_softmax_cross_entropy(labels, v)
    assert np.allclose(loss.numpy(), 0.9005092)
    expected = (np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - onehot) / 2
    assert np.allclose(tape.gradient(loss, v).numpy(), expected, atol=1e-7)
    with tf.GradientTape() as tape:
        y = tf.matmul(tf.constant(logits), v, transpose_b=True)
        loss = losses.mean_squared_error([[0.0, 0.0], [0.0, 0.0]], y)
    assert np.allclose(tape.gradient(loss, v).numpy(), (y.numpy() / 2).T @ logits)
    weights = np.array([1.0, 0.0], np.float32)
    values = [losses.softmax_cross_entropy(onehot, logits, weights, label_smoothing=0.1),
              losses.sparse_softmax_cross_entropy(labels, logits, weights, reduction=losses.Reduction.SUM),
              losses.hinge_loss(onehot, logits), losses.cosine_distance(onehot, logits, axis=1),
              losses.huber_loss(onehot, logits), losses.log_loss(onehot, logits),
              losses.sigmoid_cross_entropy(onehot, logits), losses.absolute_difference(onehot, logits),
              losses.compute_weighted_loss(logits, 2.0)]
    values = [float(value) for value in values]
    assert np.allclose(values, [0.8046163, 0.7679496, 0.96666664, 0.45, 0.056666672, 0.38580313, 0.6945746, 0.3, 0.6666666])
    assert losses.mean_squared_error(onehot, logits, reduction=losses.Reduction.NONE).shape == (2, 3)
    with tf.Graph().as_default(), v1.Session() as session:  # class numbers of a graph keep their type
        assert np.allclose(session.run(losses.sparse_softmax_cross_entropy(labels, tf.constant(logits))), 0.9005092)


def test_more_names_of_tensorflow_1():
    assert v1.encode_base64("hello world").numpy() == b"aGVsbG8gd29ybGQ"
    assert tf.io.encode_base64(["a", "bc?>"], pad=True).numpy().tolist() == [b"YQ==", b"YmM_Pg=="]
    assert tf.io.decode_base64(["YQ", "YmM_Pg=="]).numpy().tolist() == [b"a", b"bc?>"]

    class Own(tf.keras.layers.Layer):
        def build(self, shape):
            self.kernel = self.add_variable("kernel", shape=[shape[-1], 2], initializer="ones")

        def call(self, x):
            return tf.matmul(x, self.kernel)

    layer = Own()
    assert layer(np.ones((1, 3), np.float32)).numpy().tolist() == [[3.0, 3.0]] and len(layer.trainable_variables) == 1


def test_a_loss_that_a_model_is_given():
    class Own(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.compiled_loss = tf.keras.losses.MeanSquaredError()

    assert float(Own().compiled_loss(np.zeros((1, 2)), np.ones((1, 2)))) == 1.0


@pytest.mark.parametrize("make, expected", [
    (lambda: v1.train.GradientDescentOptimizer(0.1), [0.64, 1.28]),
    (lambda: v1.train.MomentumOptimizer(v1.train.exponential_decay(0.1, 0, 1, 0.5), 0.5), [0.54, 1.08]),
    (lambda: v1.train.AdamOptimizer(0.1), [0.8004126, 1.8001668]), (lambda: v1.train.AdagradOptimizer(0.1), [0.8347374, 1.8315430]),
    (lambda: v1.train.RMSPropOptimizer(0.1, momentum=0.3), [0.6346278, 1.4835759]),
    (lambda: v1.train.FtrlOptimizer(0.1), [0.6857820, 1.6771111])])
def test_optimizers_of_programs_that_compute_at_once(make, expected):
    v1.reset_default_graph()
    v, step, optimizer = v1.Variable([1.0, 2.0]), v1.Variable(0), make()
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)], step)
    assert np.allclose(v.numpy(), expected, atol=1e-6) and step.numpy() == 2
    v.assign([1.0, 2.0])
    optimizer.minimize(lambda: tf.reduce_sum(v * v), step)
    assert step.numpy() == 3 and (v.numpy() < [1.0, 2.0]).all()
    table = v1.Variable([[1.0], [2.0], [3.0]])
    v1.train.GradientDescentOptimizer(1.0).minimize(lambda: tf.reduce_sum(tf.gather(table, [0, 2])), var_list=[table])
    assert table.numpy().ravel().tolist() == [0.0, 2.0, 2.0]
    if optimizer.get_name() == "Adam":
        with pytest.raises(NotImplementedError, match="updated together with other variables"):
            optimizer.apply_gradients([(v, v), (table, table)])
    with pytest.raises(RuntimeError, match="should be a function"):
        optimizer.compute_gradients(tf.constant(1.0))


def test_partitioners_change_no_value(monkeypatch, tmp_path):
    by_size, by_bytes = v1.fixed_size_partitioner(3, axis=1), v1.variable_axis_size_partitioner(64, max_shards=5)
    shape = tf.TensorShape((10, 3))
    assert [by_size(shape=shape, dtype=tf.float32), by_bytes(shape=shape, dtype=tf.float32),
            v1.variable_axis_size_partitioner(64)(shape=shape, dtype=tf.int64),
            v1.min_max_variable_partitioner(4, min_slice_size=50)(shape=shape, dtype=tf.float32),
            v1.min_max_variable_partitioner()(shape=shape, dtype=tf.float32)] == [[1, 3], [2, 1], [5, 1], [3, 1], [1, 1]]
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("parts", partitioner=by_bytes):
            w = v1.get_variable("w", [10, 3], initializer=v1.ones_initializer(), partitioner=by_size)
        session.run(w.initializer)
        assert session.run(w).sum() == 30
        with pytest.raises(ValueError, match="must be callable"):
            v1.get_variable("v", [2], partitioner=3)
        monkeypatch.setenv("TF_CONFIG", '{"cluster": {"ps": ["localhost:1"], "chief": ["localhost:2"]}}')
        with pytest.raises(NotImplementedError, match="ParameterServerStrategy"):
            v1.get_variable("v", [2], partitioner=by_size)
        monkeypatch.delenv("TF_CONFIG")
    column = tf.feature_column.numeric_column("x")
    model = v1.estimator.DNNClassifier([2], [column], str(tmp_path), input_layer_partitioner=by_size)
    model.train(lambda: tf.data.Dataset.from_tensors(({"x": [[1.0]]}, [1])), steps=1)
    assert model.get_variable_value("dnn/hiddenlayer_0/kernel").shape == (1, 2)


def test_what_estimators_lack_has_a_way_round(tmp_path):
    model = tf.estimator.BaselineRegressor(str(tmp_path))
    with pytest.raises(AttributeError, match="experimental_export_all_saved_models.*Instead: export_saved_model"):
        model.experimental_export_all_saved_models("x", {})


def test_averages_after_a_training_step_begin_without_its_inputs():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2])
        w = v1.get_variable("w", [2, 1], initializer=v1.ones_initializer())
        train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.matmul(x, w) ** 2))
        average = v1.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([train]):
            step = average.apply(v1.trainable_variables())
        session.run(v1.global_variables_initializer())  # x is not fed
        session.run(step, {x: [[1, 2]]})
        assert session.run(average.average(w)).ravel() == pytest.approx([0.94, 0.88])
        assert session.run(w).ravel() == pytest.approx([0.4, -0.2])
