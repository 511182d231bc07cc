# SPDX-License-Identifier: Apache-2.0
"""Graphs in files: .meta files that TensorFlow 2.15 wrote, those that are written here, and GraphDefs."""
import json
import logging
import os
import shutil

import numpy as np
import pytest

import estoc
import estoc.tf as tf
import meta_graphs
from estoc.tf.compat.v1._meta_graph import _fields

v1 = tf.compat.v1
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden_meta_graphs")


def _golden():
    with open(os.path.join(GOLDEN, "values.json"), encoding="utf-8") as file:
        return json.load(file)


def _same(mine, theirs):
    for key, want in theirs.items():
        if key in ("names", "collections", "global_step"):
            assert mine[key] == want, key
        else:
            np.testing.assert_allclose(mine[key], want, rtol=2e-6, atol=2e-7, err_msg=key)


@pytest.mark.parametrize("kind", meta_graphs.KINDS)
def test_files_of_tensorflow_are_restored_and_trained_on(kind, tmp_path):
    for name in os.listdir(GOLDEN):
        shutil.copy(os.path.join(GOLDEN, name), tmp_path)
    _same(meta_graphs.read(tf, str(tmp_path), kind), _golden()[kind])


@pytest.mark.parametrize("kind", meta_graphs.KINDS)
def test_files_that_are_written_here_are_read_back(kind, tmp_path):
    written = meta_graphs.write(tf, str(tmp_path), kind)
    read = meta_graphs.read(tf, str(tmp_path), kind)
    assert {key: read[key] for key in written} == written


def _line(slope):
    """y = slope x, with a variable."""
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None], name="x")
        y = tf.multiply(x, v1.get_variable("slope", initializer=np.float32(slope)), name="y")
        v1.add_to_collection("outputs", y)
    return graph


def test_two_scopes_have_variables_of_their_own(tmp_path):
    path = str(tmp_path / "line.meta")
    with _line(3.0).as_default(), v1.Session() as session:
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        saver.save(session, str(tmp_path / "line"))
        saver.export_meta_graph(path)
    with tf.Graph().as_default(), v1.Session() as session:
        savers = [v1.train.import_meta_graph(path, import_scope=scope) for scope in ("a", "b")]
        savers[0].restore(session, str(tmp_path / "line"))
        session.run(v1.assign(v1.global_variables("b")[0], 5.0))
        assert session.run(["a/y:0", "b/y:0"], {"a/x:0": [2.0], "b/x:0": [2.0]})[0].tolist() == [6.0]
        assert session.run("b/y:0", {"b/x:0": [2.0]}).tolist() == [10.0]
        assert [tensor.name for tensor in v1.get_collection("outputs")] == ["a/y:0", "b/y:0"]


def test_a_saver_may_be_told_to_write_no_graph(tmp_path):
    with _line(1.0).as_default(), v1.Session() as session:
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(max_to_keep=1)
        saver.save(session, str(tmp_path / "a"), write_meta_graph=False)
        assert not (tmp_path / "a.meta").exists()
        saver.save(session, str(tmp_path / "b"))
        saver.save(session, str(tmp_path / "c"))
        assert not (tmp_path / "b.meta").exists() and (tmp_path / "c.meta").exists()


def test_messages(tmp_path):
    graph = _line(2.0)
    message = v1.train.export_meta_graph(graph=graph)
    again = v1.MetaGraphDef.FromString(message.SerializeToString())
    assert {"x", "y", "slope"} <= {node.name for node in again.graph_def.node}
    with tf.Graph().as_default() as other, v1.Session() as session:
        saver = v1.train.import_meta_graph(again)
        assert isinstance(saver, v1.train.Saver)  # of all variables: the message has none
        session.run(v1.global_variables_initializer())
        assert session.run("y:0", {"x:0": [3.0]}).tolist() == [6.0]
        assert other.get_tensor_by_name("slope:0").dtype == tf.float32  # its value, as in TensorFlow 1
    with tf.Graph().as_default():
        v1.placeholder(tf.float32, [], name="z")
        assert v1.train.import_meta_graph(v1.train.export_meta_graph(), import_scope="s") is None


def test_graph_defs():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2], name="x")
        tf.add(x, tf.constant([1.0, 2.0]), name="y")
    written = v1.GraphDef()
    written.ParseFromString(graph.as_graph_def().SerializeToString())
    assert all(isinstance(node, v1.NodeDef) for node in written.node)
    assert [node.op for node in written.node if node.name == "y"] == ["AddV2"]
    with tf.Graph().as_default(), v1.Session() as session:
        y, = tf.import_graph_def(written, return_elements=["y:0"])
        assert y.name == "import/y:0"
        assert session.run(y, {"import/x:0": [1.0, 1.0]}).tolist() == [2.0, 3.0]
        tf.import_graph_def(written)
        assert session.run("import_1/y:0", {"import_1/x:0": [0.0, 0.0]}).tolist() == [1.0, 2.0]
        tf.import_graph_def(written, name="")
        assert session.run("y:0", {"x:0": [0.0, 0.0]}).tolist() == [1.0, 2.0]
        with pytest.raises(ValueError, match="already has a node called 'x'"):
            tf.import_graph_def(written, name="")
        assert session.run("y:0", {"x:0": [0.0, 0.0]}).tolist() == [1.0, 2.0]  # the graph goes on


def _node(name, op, *inputs):
    """A NodeDef as bytes."""
    fields = [(1, name), (2, op), *[(3, text) for text in inputs]]
    body = b"".join(bytes([number << 3 | 2, len(text)]) + text.encode() for number, text in fields)
    return bytes([10, len(body)]) + body


def test_what_does_not_exist_is_left_out_and_named(caplog):
    data = _node("a", "NoOp") + _node("odd", "Bessel") + _node("next", "NoOp", "^odd")
    with tf.Graph().as_default() as graph, caplog.at_level(logging.WARNING, "tensorflow"):
        tf.import_graph_def(v1.GraphDef.FromString(data), name="")
        assert "left out: Bessel, NoOp" in caplog.text
        assert graph.get_operation_by_name("a").type == "NoOp"
        with pytest.raises(NotImplementedError, match="'next'.*left out.*needs node 'odd'.*op 'Bessel' is not supported"):
            graph.get_operation_by_name("next")
        with pytest.raises(NotImplementedError, match="'odd'.*Bessel"):
            graph.get_tensor_by_name("odd:0")


def test_what_is_refused(tmp_path):
    with tf.Graph().as_default():
        with pytest.raises(OSError, match="File .*none.meta does not exist"):
            v1.train.import_meta_graph(str(tmp_path / "none.meta"))
        with pytest.raises(NotImplementedError, match="input_map"):
            tf.import_graph_def(v1.GraphDef(), input_map={"x": 1})
        with pytest.raises(NotImplementedError, match="as_text"):
            v1.train.export_meta_graph(as_text=True)
        v1.get_variable("w", [])
        with pytest.raises(NotImplementedError, match="collection_list"):
            v1.train.Saver().export_meta_graph(collection_list=["a"])


def _graphs(folder):
    """The names of operations of each graph of an event file, but those of constants."""
    path, = folder.iterdir()
    events = [dict(_fields(event)) for event in estoc.io.read_tfrecords(path)]
    graphs = [v1.GraphDef.FromString(event[4]) for event in events if 4 in event]  # Event.graph_def
    return [sorted(node.name for node in found.node if node.op != "Const") for found in graphs]


def test_writers_write_graphs(tmp_path):
    with tf.Graph().as_default() as graph, v1.Session() as session:
        tf.add(v1.placeholder(tf.float32, [], name="x"), 1.0, name="y")
        with v1.summary.FileWriter(tmp_path / "a", graph) as writer:
            writer.add_graph(graph)
            writer.add_graph(graph.as_graph_def())
        v1.summary.FileWriter(tmp_path / "b", session=session).close()
    with tf.summary.create_file_writer(str(tmp_path / "c")).as_default():
        assert tf.summary.graph(graph) and tf.summary.graph(graph.as_graph_def())
    assert not tf.summary.graph(graph)
    assert [_graphs(tmp_path / folder) for folder in "abc"] == [[["x", "y"]] * count for count in (3, 1, 2)]


def test_functions_that_run_are_written(tmp_path):
    w = tf.Variable(2.0, name="slope")

    @tf.function
    def scaled(x):
        return tf.nn.relu(x * w)

    @tf.function
    def other(x):
        return tf.exp(x)

    other(1.0)
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        with pytest.raises(ValueError, match="Must enable trace before export"):
            tf.summary.trace_export("scaled", step=0)
        tf.summary.trace_on()
        scaled(tf.constant(1.0)), scaled(tf.constant(2.0))
        tf.summary.trace_export("scaled", step=0)
        tf.summary.trace_on()
        other(2.0)
        tf.summary.trace_off()
        with pytest.raises(NotImplementedError, match="ProfilerHook"):
            tf.summary.trace_on(profiler=True)
    names, = _graphs(tmp_path)
    kinds = [name.rstrip("_0123456789") for name in names]
    assert len(names) == 5 and {"Placeholder", "Mul", "Relu", "ReadVariableOp"} <= set(kinds)


def test_a_wrapped_graph_is_a_function():
    def build(x, y):
        w = v1.get_variable("w", initializer=3.0)
        return {"sum": x * w + y, "square": tf.square(x, name="square")}

    spec = tf.TensorSpec([], tf.float32)
    wrapped = v1.wrap_function(build, [spec, spec])
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = wrapped(x, tf.constant(1.0))
        y = found["sum"] * 2 + found["square"]
    assert (float(found["sum"]), float(found["square"]), float(tape.gradient(y, x))) == (7, 4, 10)
    assert [(variable.name, float(variable.numpy())) for variable in wrapped.variables] == [("w:0", 3.0)]
    square = wrapped.prune(wrapped.inputs[0], "square:0")
    assert float(square(tf.constant(4.0))) == 16
    with pytest.raises(NotImplementedError, match="no part of a tf.function"):
        tf.function(lambda a: square(a))(x)
    with pytest.raises(TypeError, match="got 2 arguments"):
        square(x, x)


def test_a_wrapped_import_is_restored_without_a_session(tmp_path):
    path = str(tmp_path / "line")
    with _line(7.0).as_default(), v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(v1.assign_add(v1.global_variables()[0], 1.0))
        v1.train.Saver().save(session, path)

    def build():
        v1.train.import_meta_graph(path + ".meta")

    wrapped = v1.wrap_function(build, [])
    line = wrapped.prune(wrapped.graph.get_tensor_by_name("x:0"), wrapped.graph.get_tensor_by_name("y:0"))
    assert wrapped() is None and line(tf.constant([2.0])).numpy().tolist() == [14.0]
    v1.train.Saver(wrapped.variables).restore(sess=None, save_path=path)
    assert line(tf.constant([2.0])).numpy().tolist() == [16.0]
    with _line(1.0).as_default(), pytest.raises(NotImplementedError, match="has its value in a session"):
        v1.global_variables()[0].numpy()
