# SPDX-License-Identifier: Apache-2.0
"""A small dense network of TensorFlow 1 as a checkpoint with its .meta file, written and read by either library.

meta_graphs.py write|read MODULE FOLDER      writes both kinds of variables there, or reads them and trains on, and prints
                                             what was computed as JSON
"""
import importlib
import json
import os
import sys

import numpy as np

STEPS = 3
X = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
Y = X.sum(1, keepdims=True)
KINDS = {"references": "MomentumOptimizer", "handles": "AdamOptimizer"}


def _build(v1, optimizer):
    x = v1.placeholder("float32", [None, 4], name="x")
    y = v1.placeholder("float32", [None, 1], name="y")
    scale = v1.placeholder_with_default(1.0, [], name="scale")
    with v1.variable_scope("dense"):
        kernel = v1.get_variable("kernel", initializer=np.linspace(-0.5, 0.6, 12, dtype=np.float32).reshape(4, 3))
        bias = v1.get_variable("bias", [3], initializer=v1.constant_initializer(0.1))
    hidden = v1.nn.relu(v1.matmul(x, kernel) + bias, name="hidden")
    out = v1.get_variable("out/kernel", initializer=np.array([[0.3], [-0.2], [0.5]], np.float32))
    answer = v1.multiply(v1.matmul(hidden, out), scale, name="answer")
    loss = v1.reduce_mean(v1.square(answer - y), name="loss")
    step = v1.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=step, name="train")
    for key, value in (("answers", answer), ("sizes", 3), ("label", "cat"), ("rate", 0.5), ("train_op_kept", train)):
        v1.add_to_collection(key, value)
    return step


def trained(session):
    """The answer, the answer times two, and losses of steps of training."""
    answer = session.graph.get_tensor_by_name("answer:0")
    found = [session.run(answer, {"x:0": X}), session.run(answer, {"x:0": X, "scale:0": 2.0})]
    losses = [session.run(["loss:0", "train"], {"x:0": X, "y:0": Y})[0] for _ in range(STEPS)]
    return {"answers": np.ravel(found).tolist(), "losses": [float(loss) for loss in losses]}


def write(tf, folder, kind):
    """A checkpoint after some steps; what the network computes then."""
    v1 = tf.compat.v1
    if hasattr(v1, "disable_resource_variables"):
        (v1.disable_resource_variables if kind == "references" else v1.enable_resource_variables)()
    arguments = {"MomentumOptimizer": (0.1, 0.9), "AdamOptimizer": (0.1,)}[KINDS[kind]]
    with tf.Graph().as_default(), v1.Session() as session:
        step = _build(v1, getattr(v1.train, KINDS[kind])(*arguments))
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run("train", {"x:0": X, "y:0": Y})
        v1.train.Saver(max_to_keep=2).save(session, os.path.join(folder, kind), global_step=step)
        return trained(session)


def read(tf, folder, kind):
    """The network of a checkpoint, from its .meta file alone."""
    v1, prefix = tf.compat.v1, os.path.join(folder, f"{kind}-{STEPS}")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        saver = v1.train.import_meta_graph(prefix + ".meta")
        saver.restore(session, prefix)
        found = trained(session)
        found["names"] = sorted(variable.name for variable in v1.trainable_variables())
        found["global_step"] = int(session.run(v1.train.get_global_step()))
        found["collections"] = [v1.get_collection("answers")[0].name, v1.get_collection("train_op_kept")[0].name,
                                v1.get_collection("sizes"), v1.get_collection("label")[0].decode(),
                                v1.get_collection("rate")]
        again = saver.save(session, os.path.join(folder, "again"), global_step=9, write_state=False)
        session.run(v1.global_variables_initializer())
        found["initial"] = float(session.run("loss:0", {"x:0": X, "y:0": Y}))
        saver.restore(session, again)
        found["again"] = float(session.run("loss:0", {"x:0": X, "y:0": Y}))
        found["gradient"] = np.ravel(session.run(v1.gradients(graph.get_tensor_by_name("loss:0"), [
            graph.get_tensor_by_name("hidden:0")])[0], {"x:0": X, "y:0": Y})).tolist()
        return found


def main():
    tf = importlib.import_module(sys.argv[2])
    step = {"write": write, "read": read}[sys.argv[1]]
    print(json.dumps({kind: step(tf, sys.argv[3], kind) for kind in KINDS}))


if __name__ == "__main__":
    main()
