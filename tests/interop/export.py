# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of export.c."""
import os
import subprocess
import sys

import interop
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

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
    loaded = tf.saved_model.load(path)
    answer = loaded.signatures[signature](**{key: tf.constant(value) for key, value in feeds.items()})
    return {key: value.numpy() for key, value in answer.items()}


def check_variables(path, n):
    loaded = tf.saved_model.load(path)
    assert len(loaded.variables) == n, [v.name for v in loaded.variables]
    reader = tf.train.load_checkpoint(path + "/variables/variables")
    for variable in loaded.variables:
        same(variable.numpy(), reader.get_tensor(variable.name.split(":")[0]))


def check_parsing(folder):
    path, examples, want = load(folder, "parsing")
    classes = np.tile(np.array([b"a", b"b", b"c"], object), (8, 1))
    for run in run_v1, run_v2:
        answer = run(path, "serving_default", {"inputs": examples})
        same(answer["scores"], want["probabilities"])
        same(answer["classes"], classes)
        same(run(path, "regression", {"inputs": examples})["outputs"], want["logits"][:, :1])
        answer = run(path, "predict", {"examples": examples})
        same(answer["logits"], want["logits"])
        same(answer["probabilities"], want["probabilities"])
        same(run(path, "predict", {"examples": examples[:1]})["logits"], want["logits"][:1])
    check_variables(path, 11)
    cli(path, "serving_default", "tensorflow/serving/classify")


def check_text(folder):
    path, examples, want = load(folder, "text")
    assert os.path.exists(path + "/saved_model.pbtxt") and not os.path.exists(path + "/saved_model.pb")
    for run in run_v1, run_v2:
        answer = run(path, "serving_default", {"examples": examples})
        assert set(answer) == {"logits", "probabilities", "class_id", "name"}, answer
        for key, value in answer.items():
            same(value, want[key])


def check_raw(folder):
    path, examples, want = load(folder, "raw")
    features = tf.io.parse_example(examples, SPEC)
    feeds = {"x": features["x"].numpy(), "kind": features["kind"].numpy(), "ids": features["ids"].values.numpy(),
             "ids/splits": features["ids"].row_splits.numpy()}
    for run in run_v1, run_v2:
        answer = run(path, "serving_default", feeds)
        for key, value in answer.items():
            same(value, want[key])
    cli(path, "serving_default", "tensorflow/serving/predict")
    cli_run(folder, path, feeds, want["logits"])


def check_images(folder):
    want = interop.read_tensors(folder + "/images.expected")
    path = interop.read_blobs(folder + "/images.path")[0].decode()
    for run in run_v1, run_v2:
        answer = run(path, "serving_default", {"image": want["image"]})
        same(answer["logits"], want["logits"])
        same(answer["digit"], want["digit"])


# --- the command line tool --------------------------------------------------------------------------------------------

def tool(*arguments):
    command = [os.path.join(os.path.dirname(sys.executable), "saved_model_cli"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cli(path, signature, method):
    shown = tool("show", "--dir", path, "--tag_set", "serve", "--signature_def", signature)
    assert method in shown, shown


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
