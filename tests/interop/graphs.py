# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of graphs.c."""
import difflib
import glob
import random
import sys

import interop
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2, tensor_pb2, types_pb2, variable_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
KINDS = {b"graph": graph_pb2.GraphDef, b"meta": meta_graph_pb2.MetaGraphDef, b"model": saved_model_pb2.SavedModel,
         b"variable": variable_pb2.VariableDef, b"tensor": tensor_pb2.TensorProto}


# --- graphs that TensorFlow makes --------------------------------------------------------------------------------------

def canned(folder):
    """The training graph of a canned Estimator with partitioned variables, its .meta file and its export."""
    column = tf.feature_column
    city = column.categorical_column_with_vocabulary_list("city", ["a", "b", "c"])
    columns = [column.numeric_column("x", shape=(2,)), column.embedding_column(city, 4)]
    estimator = v1.estimator.DNNLinearCombinedClassifier(
        model_dir=folder + "/canned", linear_feature_columns=[city], dnn_feature_columns=columns,
        dnn_hidden_units=[4], input_layer_partitioner=v1.fixed_size_partitioner(2))
    data = {"x": np.zeros((8, 2), np.float32), "city": np.array([b"a", b"b"] * 4)}
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices((data, np.arange(8) % 2)).batch(4), steps=2)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        column.make_parse_example_spec(columns + [city]))
    export = estimator.export_saved_model(folder + "/export", receiver).decode()
    with open(glob.glob(folder + "/canned/model.ckpt-2.meta")[0], "rb") as meta, \
            open(export + "/saved_model.pb", "rb") as model, open(folder + "/canned/graph.pbtxt", "rb") as text:
        graph = text_format.Parse(text.read(), graph_pb2.GraphDef())
        return [(b"meta", meta.read()), (b"model", model.read()), (b"graph", graph.SerializeToString())]


def objects(folder):
    """A Keras model with functions, as tf.saved_model.save writes it."""
    model = tf.keras.Sequential([tf.keras.layers.Conv2D(2, 3, input_shape=(8, 8, 1)), tf.keras.layers.Flatten(),
                                 tf.keras.layers.Dense(2)])
    tf.saved_model.save(model, folder + "/keras")
    with open(folder + "/keras/saved_model.pb", "rb") as file:
        data = file.read()
    graph = saved_model_pb2.SavedModel.FromString(data).meta_graphs[0].graph_def
    return [(b"model", data), (b"graph", graph.SerializeToString())]


def loops():
    """A graph of TensorFlow 1 with its own control flow, and one of functions."""
    with tf.Graph().as_default() as graph:
        v1.disable_control_flow_v2()
        v1.while_loop(lambda i: i < 10, lambda i: i + 1, [tf.constant(0)])
        v1.enable_control_flow_v2()
        v1.while_loop(lambda i: i < 10, lambda i: tf.cond(i > 3, lambda: i + 2, lambda: i + 1), [tf.constant(0)])
    return [(b"graph", graph.as_graph_def().SerializeToString())]


def parts(messages):
    """The variables and the constants of all those graphs, each a message of its own."""
    for kind, data in list(messages):
        message = KINDS[kind].FromString(data)
        metas = message.meta_graphs if kind == b"model" else [message] if kind == b"meta" else []
        for meta in metas:
            for name in "variables", "trainable_variables":
                for variable in meta.collection_def[name].bytes_list.value:
                    yield b"variable", variable
        for graph in [m.graph_def for m in metas] or [message]:
            for node in graph.node:
                if node.op == "Const" and tensor_known(node.attr["value"].tensor):
                    yield b"tensor", node.attr["value"].tensor.SerializeToString()


def tensor_known(tensor):
    return tensor.dtype in (types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_INT32, types_pb2.DT_UINT8,
                            types_pb2.DT_STRING, types_pb2.DT_INT64, types_pb2.DT_BOOL)


def write_theirs(folder):
    messages = canned(folder) + objects(folder) + loops()
    messages += parts(messages)
    interop.write_blobs(folder + "/theirs", [part for pair in messages for part in pair])


# --- random ones -----------------------------------------------------------------------------------------------------------

def random_text(rng):
    return "".join(rng.choice("abz_/09\u00fc\u20ac\"'\\\n\t") for _ in range(rng.randrange(8)))


def random_shape(rng, shape):
    if rng.random() < 0.2:
        shape.unknown_rank = True
    else:
        for _ in range(rng.randrange(5)):
            shape.dim.add().size = rng.choice([-1, 0, 1, 7, 2 ** 40])


def random_tensor(rng, tensor):
    dtype = rng.choice([np.float32, np.float64, np.int32, np.uint8, np.int64, np.bool_, np.float16, np.str_])
    shape = [rng.randrange(4) for _ in range(rng.randrange(3))]
    value = np.array([rng.randrange(-3, 300) for _ in range(int(np.prod(shape)))]).astype(dtype).reshape(shape)
    tensor.CopyFrom(tf.make_tensor_proto(value, tf.string if dtype is np.str_ else None))


def random_number(rng):
    return rng.choice([0.0, -0.0, 0.1, 1e-5, 123456.0, 1234567.0, 1e16, 3.4028235e38, 1e-45, float("inf"),
                       rng.gauss(0, 1)])


def random_value(rng, value, depth=0):
    """One member of the oneof; what a name that came before has put there goes."""
    value.Clear()
    kind = rng.randrange(10 if depth < 3 else 8)
    if kind == 0:
        value.s = rng.randbytes(rng.randrange(9))
    elif kind == 1:
        value.i = rng.choice([0, 1, -1, rng.getrandbits(63), -rng.getrandbits(62)])
    elif kind == 2:
        value.f = random_number(rng)
    elif kind == 3:
        value.b = rng.random() < 0.5
    elif kind == 4:
        value.type = rng.choice(types_pb2.DataType.values())
    elif kind == 5:
        value.shape.SetInParent()
        random_shape(rng, value.shape)
    elif kind == 6:
        random_tensor(rng, value.tensor)
    elif kind == 7:
        value.placeholder = random_text(rng)
    elif kind == 8:
        value.func.name = random_text(rng)
        for _ in range(rng.randrange(3)):
            random_value(rng, value.func.attr[random_text(rng)], depth + 1)
    else:
        random_list(rng, value.list, depth)


def random_list(rng, values, depth):
    values.SetInParent()
    n = rng.randrange(4)
    kind = rng.randrange(8)
    if kind == 0:
        values.s.extend(rng.randbytes(rng.randrange(5)) for _ in range(n))
    elif kind == 1:
        values.i.extend(rng.getrandbits(64) - 2 ** 63 for _ in range(n))
    elif kind == 2:
        values.f.extend(random_number(rng) for _ in range(n))
    elif kind == 3:
        values.b.extend(rng.random() < 0.5 for _ in range(n))
    elif kind == 4:
        values.type.extend(rng.choice(types_pb2.DataType.values()) for _ in range(n))
    for _ in range(n):
        if kind == 5:
            random_shape(rng, values.shape.add())
        elif kind == 6:
            random_tensor(rng, values.tensor.add())
        elif kind == 7:
            func = values.func.add(name=random_text(rng))
            random_value(rng, func.attr[random_text(rng)], depth + 1)


def random_graph(rng):
    graph = graph_pb2.GraphDef()
    graph.versions.producer = rng.randrange(2000)
    graph.versions.bad_consumers.extend(rng.sample(range(100), rng.randrange(3)))
    for i in range(rng.randrange(6)):
        node = graph.node.add(name=f"n{i}{random_text(rng)}", op=random_text(rng), device=random_text(rng))
        node.input.extend(random_text(rng) for _ in range(rng.randrange(3)))
        for _ in range(rng.randrange(5)):
            random_value(rng, node.attr[random_text(rng)])
        if rng.random() < 0.2:
            node.experimental_debug_info.original_node_names.append(random_text(rng))
        if rng.random() < 0.2:
            node.experimental_type.type_id = 1000
    return graph


def random_info(rng, info):
    info.Clear()
    kind = rng.randrange(3)
    if kind == 0:
        info.name = "x:0"
    elif kind == 1:
        info.coo_sparse.values_tensor_name = "v:0"
        info.coo_sparse.indices_tensor_name = "i:0"
        info.coo_sparse.dense_shape_tensor_name = "s:0"
    else:
        info.composite_tensor.components.add(name="c:0", dtype=1)
    info.dtype = rng.choice([0, 1, 7, 9])
    if rng.random() < 0.7:
        random_shape(rng, info.tensor_shape)


def random_meta(rng):
    meta = meta_graph_pb2.MetaGraphDef(graph_def=random_graph(rng))
    info = meta.meta_info_def
    info.tags.extend(random_text(rng) for _ in range(rng.randrange(3)))
    info.tensorflow_version = random_text(rng)
    info.stripped_default_attrs = rng.random() < 0.5
    info.function_aliases["f"] = random_text(rng)
    info.stripped_op_list.op.add(name="Op")
    if rng.random() < 0.5:
        meta.saver_def.restore_op_name = "save/restore_all"
        meta.saver_def.keep_checkpoint_every_n_hours = rng.choice([0, 10000, 0.1])
        meta.saver_def.version = rng.randrange(3)
    meta.collection_def["names"].node_list.value.extend(random_text(rng) for _ in range(rng.randrange(3)))
    meta.collection_def["bytes"].bytes_list.value.extend(rng.randbytes(5) for _ in range(rng.randrange(3)))
    meta.collection_def["ints"].int64_list.value.extend([0, -1, 2 ** 62][:rng.randrange(4)])
    meta.collection_def["floats"].float_list.value.extend(random_number(rng) for _ in range(rng.randrange(3)))
    meta.collection_def["any"].any_list.value.add().Pack(types_pb2.SerializedDType())
    for key in "a", "serving_default":
        signature = meta.signature_def[key]
        signature.method_name = random_text(rng)
        for _ in range(rng.randrange(3)):
            random_info(rng, signature.inputs[random_text(rng)])
            random_info(rng, signature.outputs[random_text(rng)])
        random_tensor(rng, signature.defaults["d"])
    meta.asset_file_def.add(filename=random_text(rng)).tensor_info.name = "asset:0"
    return meta


def write_random(folder):
    rng = random.Random(1)
    messages = [(b"graph", random_graph(rng)) for _ in range(300)] + [(b"meta", random_meta(rng)) for _ in range(200)]
    for _ in range(100):
        messages.append((b"model", saved_model_pb2.SavedModel(
            saved_model_schema_version=rng.randrange(3), meta_graphs=[random_meta(rng) for _ in range(rng.randrange(3))])))
    for _ in range(300):
        tensor = tensor_pb2.TensorProto()
        random_tensor(rng, tensor)
        if tensor_known(tensor):
            messages.append((b"tensor", tensor))
    interop.write_blobs(folder + "/random", [p for k, m in messages for p in (k, m.SerializeToString())])


# --- comparing -------------------------------------------------------------------------------------------------------------

def check_same(what, ours, theirs):
    if ours != theirs:
        diff = difflib.unified_diff(str(theirs).splitlines(), str(ours).splitlines(), "TensorFlow", "Estoc", lineterm="")
        raise AssertionError(f"{what}:\n" + "\n".join(list(diff)[:50]))


def check(folder, name):
    sent, said = interop.read_blobs(f"{folder}/{name}"), interop.read_blobs(f"{folder}/{name}.said")
    count = {kind: 0 for kind in KINDS}
    for kind, data, written, text, more in zip(sent[0::2], sent[1::2], said[0::3], said[1::3], said[2::3], strict=True):
        theirs, ours = KINDS[kind].FromString(data), KINDS[kind].FromString(written)
        if kind == b"tensor":
            check_tensor(theirs, ours, more)
        else:
            check_same(kind, ours, theirs)
        if kind in (b"graph", b"meta", b"model"):
            check_text(theirs, text.decode())
        if kind == b"graph":
            lines = [f"{f.signature.name} {len(f.node_def)}" for f in theirs.library.function]
            assert more.decode().splitlines() == lines, (more, lines)
        count[kind] += 1
    return count


def check_tensor(theirs, ours, said):
    want = tf.make_ndarray(theirs)
    assert interop.same(tf.make_ndarray(ours), want) and ours.dtype == theirs.dtype, (ours, theirs)
    interop.check_tensors(interop.tensors_of(said), {"tensor": want})


def check_text(message, text):
    """The text is that of the message, but for what is left out of it on purpose."""
    want = type(message)()
    want.CopyFrom(message)
    for meta in getattr(want, "meta_graphs", [want]):
        if hasattr(meta, "object_graph_def"):
            meta.ClearField("object_graph_def")
    check_same("text", text_format.Parse(text, type(message)()), want)


def check_theirs(folder):
    count = check(folder, "theirs")
    assert count[b"variable"] > 10 and count[b"tensor"] > 100, count


def check_random(folder):
    check(folder, "random")


# --- ours ------------------------------------------------------------------------------------------------------------------

X = np.array([[1, 2], [-1, 0.5], [0, 0]], np.float32)


def wanted():
    z = np.maximum(X @ np.array([[1, 2, 3], [4, 5, 6]], np.float32) + np.array([0.5, -20, 0], np.float32), 0)
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def check_numbers(y):
    np.testing.assert_allclose(y, wanted(), rtol=1e-6, atol=1e-7)


def check_ours(folder):
    with open(folder + "/graph.pb", "rb") as file:
        graph = graph_pb2.GraphDef.FromString(file.read())
    with open(folder + "/graph.pbtxt", encoding="utf-8") as file:
        assert text_format.Parse(file.read(), graph_pb2.GraphDef()) == graph
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(graph, name="")
        check_numbers(session.run("y:0", {"x:0": X}))
    for name in "model", "model_text":
        loaded = tf.saved_model.load(f"{folder}/{name}")
        check_numbers(loaded.signatures["serving_default"](x=tf.constant(X))["probabilities"].numpy())
        with tf.Graph().as_default(), v1.Session() as session:
            v1.saved_model.load(session, ["serve"], f"{folder}/{name}")
            check_numbers(session.run("y:0", {"x:0": X}))


interop.serve(sys.modules[__name__])
