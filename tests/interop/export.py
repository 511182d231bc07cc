# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of export.c."""
import ctypes
import os
import subprocess
import sys

import interop
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2

v1 = tf.compat.v1
tf.get_logger().setLevel("ERROR")
SPEC = {"x": tf.io.FixedLenFeature([3], tf.float32), "kind": tf.io.FixedLenFeature([], tf.int64),
        "ids": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        "steps": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)}


def load(folder, name):
    """The directory of an export, the examples, and what the model says, batches put together."""
    tensors = interop.read_tensors(f"{folder}/{name}.expected")
    path = interop.read_blobs(f"{folder}/{name}.path")[0].decode()
    keys = {key.split()[0] for key in tensors if key != "examples"}
    return path, tensors["examples"], {key: np.concatenate([tensors[key + " 0"], tensors[key + " 1"]]) for key in keys}


def same(got, want):
    got = np.asarray(got)
    assert got.shape == want.shape, (got.shape, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)


def run_v1(path, signature, feeds):
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.loader.load(session, ["serve"], path)
        definition = meta.signature_def[signature]
        outputs = {key: info.name for key, info in definition.outputs.items()}
        return session.run(outputs, {definition.inputs[key].name: value for key, value in feeds.items()})


def run_v2(path, signature, feeds):
    loaded = tf.saved_model.load(path, tags=["serve"])
    answer = loaded.signatures[signature](**{key: tf.constant(value) for key, value in feeds.items()})
    return {key: value.numpy() for key, value in answer.items()}


def run_cpp(path, signature, feeds):
    return Loaded(path, "serve").run(signature, feeds)


RUNS = run_v1, run_v2, run_cpp


# --- the loader of TensorFlow Serving ---------------------------------------------------------------------------------

class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("free", ctypes.c_void_p)]


class Loaded:
    """An export as the C++ function LoadSavedModel has it, which is what TensorFlow Serving calls, by way of the C API."""
    STRING_SIZE = 24  # of a TF_TString

    def __init__(self, path, tag):
        self.lib = ctypes.CDLL(os.path.join(os.path.dirname(tf.__file__), "libtensorflow_cc.so.2"))
        self.status = self.call("NewStatus")
        self.graph = self.call("NewGraph")
        buffer = self.call("NewBuffer")
        tags = (ctypes.c_char_p * 1)(tag.encode())
        self.session = self.call("LoadSessionFromSavedModel", self.call("NewSessionOptions"), None, path.encode(), tags,
                                 1, self.graph, buffer, self.status)
        self.check()
        held = Buffer.from_address(buffer)
        self.meta = meta_graph_pb2.MetaGraphDef.FromString(ctypes.string_at(held.data, held.length))

    def call(self, name, *arguments, returns=ctypes.c_void_p):
        function = getattr(self.lib, "TF_" + name)
        function.restype = returns
        return function(*[ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 16 else a for a in arguments])

    def check(self):
        message = self.call("Message", self.status, returns=ctypes.c_char_p)
        assert self.call("GetCode", self.status, returns=ctypes.c_int) == 0, message

    def output(self, name):
        operation, index = name.split(":")
        found = self.call("GraphOperationByName", self.graph, operation.encode())
        assert found, name
        return Output(found, int(index))

    def tensor(self, value, info):
        value = np.asarray(value, tf.as_dtype(info.dtype).as_numpy_dtype)
        strings = value.dtype == object
        size = value.size * self.STRING_SIZE if strings else value.nbytes
        dims = (ctypes.c_int64 * value.ndim)(*value.shape)
        tensor = self.call("AllocateTensor", info.dtype, dims, value.ndim, ctypes.c_size_t(size))
        data = self.call("TensorData", tensor)
        if not strings:
            ctypes.memmove(data, np.ascontiguousarray(value).ctypes.data, size)
        for i, text in enumerate(value.ravel() if strings else []):
            at = data + i * self.STRING_SIZE
            self.call("StringInit", at, returns=None)
            self.call("StringCopy", at, text, ctypes.c_size_t(len(text)), returns=None)
        return tensor

    def array(self, tensor, info):
        shape = [self.call("Dim", tensor, i, returns=ctypes.c_int64)
                 for i in range(self.call("NumDims", tensor, returns=ctypes.c_int))]
        data = self.call("TensorData", tensor)
        if info.dtype != tf.string.as_datatype_enum:
            size = self.call("TensorByteSize", tensor, returns=ctypes.c_size_t)
            return np.frombuffer(ctypes.string_at(data, size), tf.as_dtype(info.dtype).as_numpy_dtype).reshape(shape)
        texts = []
        for i in range(int(np.prod(shape))):
            at = data + i * self.STRING_SIZE
            texts.append(ctypes.string_at(self.call("StringGetDataPointer", at),
                                          self.call("StringGetSize", at, returns=ctypes.c_size_t)))
        return np.array(texts, object).reshape(shape)

    def run(self, signature, feeds, keys=None):
        definition = self.meta.signature_def[signature]
        assert set(definition.inputs) == set(feeds), definition
        keys = sorted(keys if keys is not None else definition.outputs)
        inputs = (Output * len(feeds))(*[self.output(definition.inputs[key].name) for key in feeds])
        values = (ctypes.c_void_p * len(feeds))(
            *[self.tensor(value, definition.inputs[key]) for key, value in feeds.items()])
        outputs = (Output * len(keys))(*[self.output(definition.outputs[key].name) for key in keys])
        answers = (ctypes.c_void_p * len(keys))()
        self.call("SessionRun", self.session, None, inputs, values, len(feeds), outputs, answers, len(keys), None, 0,
                  None, self.status)
        self.check()
        return {key: self.array(answers[i], definition.outputs[key]) for i, key in enumerate(keys)}


# --- what is compared -------------------------------------------------------------------------------------------------

def check_variables(path, n):
    loaded = tf.saved_model.load(path, tags=["serve"])
    assert len(loaded.variables) == n, [v.name for v in loaded.variables]
    reader = tf.train.load_checkpoint(path + "/variables/variables")
    for variable in loaded.variables:
        same(variable.numpy(), reader.get_tensor(variable.name.split(":")[0]))


def check_parsing(folder):
    path, examples, want = load(folder, "parsing")
    classes = np.tile(np.array([b"a", b"b", b"c"], object), (8, 1))
    for run in RUNS:
        answer = run(path, "serving_default", {"inputs": examples})
        same(answer["scores"], want["probabilities"])
        same(answer["classes"], classes)
        same(run(path, "regression", {"inputs": examples})["outputs"], want["logits"][:, :1])
        answer = run(path, "predict", {"examples": examples})
        same(answer["logits"], want["logits"])
        same(answer["probabilities"], want["probabilities"])
        same(run(path, "predict", {"examples": examples[:1]})["logits"], want["logits"][:1])
        answer = run(path, "parsed:predict", raw_features(examples, True))
        same(answer["logits"], want["logits"])
    check_variables(path, 11)
    cli(path, "serving_default", "tensorflow/serving/classify")


def check_text(folder):
    path, examples, want = load(folder, "text")
    assert os.path.exists(path + "/saved_model.pbtxt") and not os.path.exists(path + "/saved_model.pb")
    for run in RUNS:
        answer = run(path, "serving_default", {"examples": examples})
        assert set(answer) == {"logits", "probabilities", "class_id", "name"}, answer
        for key, value in answer.items():
            same(value, want[key])


def raw_features(examples, steps=False):
    """What a receiver of raw features takes for serialized Examples."""
    features = tf.io.parse_example(examples, SPEC)
    feeds = {"x": features["x"].numpy(), "kind": features["kind"].numpy(), "ids": features["ids"].values.numpy(),
             "ids/splits": features["ids"].row_splits.numpy()}
    if steps:
        lengths = [len(tf.train.Example.FromString(e).features.feature["steps"].float_list.value) for e in examples]
        feeds.update({"steps": features["steps"].numpy(), "steps/lengths": np.array(lengths, np.int64)})
    return feeds


def check_raw(folder):
    path, examples, want = load(folder, "raw")
    feeds = raw_features(examples)
    for run in RUNS:
        answer = run(path, "serving_default", feeds)
        for key, value in answer.items():
            same(value, want[key])
    cli(path, "serving_default", "tensorflow/serving/predict")
    cli_run(folder, path, feeds, want["logits"])


def check_images(folder):
    want = interop.read_tensors(folder + "/images.expected")
    path = interop.read_blobs(folder + "/images.path")[0].decode()
    for run in RUNS:
        answer = run(path, "serving_default", {"image": want["image"]})
        same(answer["logits"], want["logits"])
        same(answer["digit"], want["digit"])


# --- graphs to train and to evaluate ----------------------------------------------------------------------------------

def train(path, feeds):
    """Runs the training operation once for every one of `feeds`; says the steps that were read and all variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.loader.load(session, ["train"], path)
        definition = meta.signature_def["train"]
        operation = v1.get_collection("saved_model_train_op")[0]
        outputs = {key: info.name for key, info in definition.outputs.items()}
        answers = [session.run((outputs, operation), {definition.inputs[key].name: value for key, value in feed.items()})
                   for feed in feeds]
        names = [variable.op.name for variable in v1.global_variables()]
        assert v1.train.get_global_step() is not None and v1.trainable_variables()
        return [answer[0] for answer in answers], dict(zip(names, session.run(v1.global_variables())))


def same_variables(got, checkpoint):
    reader = tf.train.load_checkpoint(checkpoint)
    assert "global_step" in got and len(got) > 10, got
    for name, value in got.items():
        np.testing.assert_allclose(value, reader.get_tensor(name), rtol=1e-5, atol=1e-5, err_msg=name)


def loss_of(path, tag, feeds):
    return Loaded(path, tag).run(tag, feeds, ["loss"])["loss"]


def check_modes(folder):
    path, checkpoint = [blob.decode() for blob in interop.read_blobs(folder + "/modes.path")]
    want = interop.read_tensors(folder + "/modes.expected")
    examples = want["examples"]
    batches = [{"examples": examples[:4]}, {"examples": examples[4:]}]
    answers, variables = train(path, [batches[1], batches[0], batches[1], batches[0]])
    assert [int(answer["predictions/step"]) for answer in answers] == [3, 4, 5, 6], answers
    same_variables(variables, checkpoint)
    evaluated = Loaded(path, "eval")
    updates = ["metrics/accuracy/update_op", "metrics/own/update_op"]
    losses = [evaluated.run("eval", batch, ["loss", *updates])["loss"] for batch in batches]
    same(np.mean(losses, dtype=np.float32), want["loss"])
    for metric in "accuracy", "own":
        value = f"metrics/{metric}/value"
        same(evaluated.run("eval", batches[0], [value])[value].astype(np.float32), want[metric])
    with tf.Graph().as_default(), v1.Session() as session:
        definition = v1.saved_model.loader.load(session, ["eval"], path).signature_def["eval"]
        assert definition.method_name == "tensorflow/supervised/eval"
        assert session.run(definition.outputs["metrics/accuracy/value"].name) == 0  # the start that main_op made

    for tag in "train", "eval":
        answer = tf.saved_model.load(path, tags=[tag]).signatures[tag](examples=tf.constant(batches[0]["examples"]))
        same(answer["loss"], loss_of(path, tag, batches[0]))
    for run in RUNS:
        same(run(path, "predict", {"examples": examples})["logits"], want["logits"])
    shown = tool("show", "--dir", path, "--all")
    for tag in "train", "eval", "serve":
        assert f"MetaGraphDef with tag-set: '{tag}'" in shown, shown


def check_image_training(folder):
    path, checkpoint = [blob.decode() for blob in interop.read_blobs(folder + "/image-training.path")]
    feeds = interop.read_tensors(folder + "/image-training.feeds")
    _, variables = train(path, [feeds] * 3)
    same_variables(variables, checkpoint)


# --- the command line tool --------------------------------------------------------------------------------------------

def tool(*arguments):
    command = [os.path.join(os.path.dirname(sys.executable), "saved_model_cli"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cli(path, signature, method):
    shown = tool("show", "--dir", path, "--tag_set", "serve", "--signature_def", signature)
    assert method in shown, shown
    shown = tool("show", "--dir", path, "--all")
    assert f"signature_def['{signature}']" in shown and method in shown, shown


def cli_run(folder, path, feeds, logits):
    inputs = []
    for key, value in feeds.items():
        file = f"{folder}/cli-{key.replace('/', '-')}.npy"
        np.save(file, value)
        inputs.append(f"{key}={file}")
    tool("run", "--dir", path, "--tag_set", "serve", "--signature_def", "serving_default", "--inputs",
         ";".join(inputs), "--outdir", folder, "--overwrite")
    same(np.load(folder + "/logits.npy"), logits)


# --- the op -----------------------------------------------------------------------------------------------------------

def check_parse(folder):
    tensors = interop.read_tensors(folder + "/parse.values")
    examples = tensors.pop("examples")
    with open(folder + "/parse.pb", "rb") as file:
        graph = graph_pb2.GraphDef.FromString(file.read())
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(graph, name="")
        for name, value in tensors.items():
            same(session.run(name, {"examples:0": examples}), value)
    features = tf.io.parse_example(examples, SPEC)
    want = [features["x"], features["kind"], features["ids"].values, features["ids"].row_splits, features["steps"]]
    for value, expected in zip(tensors.values(), want):
        same(value, expected.numpy())


interop.serve(sys.modules[__name__])
