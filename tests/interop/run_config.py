# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of run_config.c.

A case is a dict: TF_CONFIG, beside (the model_dir of the Estimator), and fields of RunConfig; None is "off". Where the
two are meant to differ, the case stands in a table with the reason.
"""
import inspect
import json
import os
import sys

import interop
import tensorflow as tf
from tensorflow_estimator.python.estimator import training

HOSTS = {"chief": ["host0:2222"], "worker": ["host1:2222", "host2:2222", "host3:2222"],
         "ps": ["host4:2222", "host5:2222"]}
OLD_HOSTS = {"master": ["m:1"], "worker": ["a:1", "b:1"], "ps": ["c:1"]}
EXTRA_HOSTS = dict(HOSTS, evaluator=["e:1"], zoo=["z:1"], aux=["x:1"])
SPARSE_HOSTS = {"chief": ["a:1"], "worker": {"0": "b:1", "3": "c:1"}, "ps": {"1": "d:1"}}
TWO_WORKERS = {"worker": ["localhost:12345", "localhost:23456"]}

TASK_FIELDS = ("task_type", "task_id", "is_chief", "num_ps_replicas", "num_worker_replicas", "master",
               "evaluation_master", "global_id_in_cluster", "service")

NAMES = {"seed": "tf_random_seed", "max_worker_delay_secs": "experimental_max_worker_delay_secs"}


def config(cluster=None, kind=None, index=None, **more):
    out = dict(more)
    if cluster is not None:
        out["cluster"] = cluster
    if kind is not None or index is not None:
        out["task"] = {k: v for k, v in (("type", kind), ("index", index)) if v is not None}
    return json.dumps(out)


def same_tasks():
    """Descriptions that both take the same way, or both refuse."""
    yield None
    yield from ("{}", "[]", "null", "5", "{", "{'a': 1}", '{"task"')
    yield from ('{"cluster": null}', '{"cluster": 5}', '{"cluster": []}', '{"cluster": {}}', '{"task": null}',
                '{"task": []}', '{"task": {}}', '{"task": {"type": null}}', '{"task": {"index": null}}',
                '{"service": 5}', '{"service": []}', '{"service": {"a": 1}}', '{"service": null}', '{"odd": 1}',
                '{"model_dir": ""}', '{"model_dir": null}', '{"environment": "cloud"}')
    for kind in (None, "worker", "chief", "ps", "master", "evaluator", ""):
        for index in (None, 0, "0", 1, -1, "x"):
            yield config(None, kind, index)
            yield config({}, kind, index, session_master="grpc://s", eval_session_master="e")
    for cluster in (HOSTS, OLD_HOSTS, EXTRA_HOSTS, TWO_WORKERS, {"chief": ["a:1"]}, {"master": ["a:1"]},
                    {"chief": ["a:1"], "ps": []}, {"chief": ["a:1", "b:1"]}, {"master": ["a:1", "b:1"]},
                    {"chief": ["a:1"], "master": ["b:1"]}, {"evaluator": ["e:1"]}, {"ps": ["p:1"]},
                    {"chief": ["[::1]:1"], "worker": ["10.0.0.1:1"]}, {"chief": "a:1"}, {"chief": [1]},
                    {"chief": [None]}, {"chief": None}, {"chief": {"x": "a:1"}}):
        for kind in (None, "chief", "worker", "ps", "master", "evaluator", "zoo", "aux", "wroker", "", 5):
            for index in (None, 0, 1, 2, 3, "2", -1, "-1", "x", "", [0]):
                yield config(cluster, kind, index)
            yield config(cluster, kind, 0, session_master="s", eval_session_master="e")
            yield config(cluster, kind, 0, session_master="", eval_session_master="")
    for kind, index in (("chief", 0), ("worker", 0), ("worker", 3), ("worker", 4), ("ps", 1), ("ps", 2),
                        ("evaluator", 0), ("worker", 1)):
        yield config(SPARSE_HOSTS, kind, index)
    yield config({"chief": [], "worker": ["a:1"]}, "worker", 0)


# What TensorFlow takes and we refuse.
REFUSED = {
    "an address that no one can listen at or call": [
        config({"chief": [address], "worker": ["a:1"]}, "chief", 0) for address in
        ("host", "host:port", "host:0", "host:65536", ":1", "", "a b:1", "grpc://a:1", "::1:1", "[::1]", "a:1:2")],
    "two tasks with one address: TensorFlow waits for ever for the second": [
        config({"chief": ["a:1"], "worker": ["a:1"]}, "chief", 0),
        config({"chief": ["a:1"], "worker": ["b:1", "B:1"]}, "chief", 0)],
    "the name of a job that a device name cannot hold: TensorFlow refuses it when the server starts": [
        config({"chief": ["a:1"], "my job": ["b:1"]}, "chief", 0),
        config({"chief": ["a:1"], "": ["b:1"]}, "chief", 0),
        config({"chief": ["a:1"], "1": ["b:1"]}, "chief", 0)],
    "an index that is not a whole number: Python cuts it, and two tasks are one": [
        config(HOSTS, "worker", 1.5), config(HOSTS, "worker", True), config(HOSTS, "worker", " 1 "),
        config(HOSTS, "worker", "+1")],
    "a key of a sparse job that is not an index, or far beyond any cluster": [
        config({"chief": ["a:1"], "worker": {"01": "b:1"}}, "chief", 0),
        config({"chief": ["a:1"], "worker": {"100000": "b:1"}}, "chief", 0)],
    "a gap is no task, whatever its session_master": [config(SPARSE_HOSTS, "worker", 1, session_master="s")],
    "a field that is not a string": [
        config(session_master=5), config(eval_session_master=5), config(environment=5), config(rpc_layer=5)],
}

# What we take and TensorFlow does not, or takes otherwise, and what we make of it.
OTHER = {
    "an empty variable is one that is not set; TensorFlow's executor has it so, too, but not RunConfig": [
        ("", {"task_type": "worker"}), (" ", {"task_type": "worker"})],
    "null is the same as not there": [(config(session_master=None), {"master": ""}),
                                      (config(eval_session_master=None), {"evaluation_master": ""})],
    "an empty job before one's own: TensorFlow looks for the largest of no indices": [
        (config({"chief": ["a:1"], "worker": [], "ps": ["p:1"]}, "ps", 0), {"global_id_in_cluster": 1})],
}


def field_cases():
    """Fields of RunConfig. The C side's 0 is the default, so 0 itself is not a case."""
    yield {}
    for secs in ("missing", None, 30, 0.5, -1):
        for steps in ("missing", None, 50, -1):
            if (steps, secs) == (None, "missing"):
                continue  # see OTHER_FIELDS
            case = {"save_checkpoints_steps": steps, "save_checkpoints_secs": secs}
            yield {k: v for k, v in case.items() if v != "missing"}
    for name in ("save_summary_steps", "log_step_count_steps", "keep_checkpoint_max"):
        for value in (None, 1, 7, -1):
            yield {name: value}
    for name in ("keep_checkpoint_every_n_hours", "session_creation_timeout_secs"):
        for value in (1, 0.5, -1):
            yield {name: value}
    for value in ("grpc", "grpc+verbs", "http", ""):
        yield {"protocol": value}
    yield {"max_worker_delay_secs": 5}
    yield {"seed": 42}


# RunConfig(save_checkpoints_steps=None) alone turns all checkpoints off in TensorFlow. Here "not by steps" leaves those by
# time; turning them off takes save_checkpoints_secs = EST_OFF.
OTHER_FIELDS = [({"save_checkpoints_steps": None}, {"save_checkpoints_secs": 600})]


def model_dir_cases():
    for beside in (None, "", "a", "b"):
        for own in (None, "", "a"):
            for described in (None, "", "a", "b"):
                if beside is own is described is None:
                    continue  # a temporary directory
                case = {"TF_CONFIG": json.dumps({"model_dir": described})}
                case.update({k: v for k, v in (("beside", beside), ("model_dir", own)) if v is not None})
                yield case


# --- asking both -----------------------------------------------------------------------------------------------------

def write(folder, cases):
    blobs = []
    for case in cases:
        parts = []
        for name, value in case.items():
            parts += [name, "off" if value is None else str(value)]
        blobs.append(b"".join(interop.blob(part.encode()) for part in parts))
    interop.write_blobs(folder + "/cases", blobs)


def ours(folder):
    """What the C side made of each case: a dict, or the text of its error."""
    for said in interop.read_blobs(folder + "/said"):
        text = said.decode()
        yield text if text.startswith("error: ") else json.loads(text)


def theirs(case):
    """tf.estimator's configuration for the case, or the exception."""
    fields = {NAMES.get(k, k): v for k, v in case.items() if k not in ("TF_CONFIG", "beside")}
    os.environ.pop("TF_CONFIG", None)
    if "TF_CONFIG" in case:
        os.environ["TF_CONFIG"] = case["TF_CONFIG"]
    try:
        out = tf.estimator.RunConfig(**fields)
        if "beside" in case:
            out = tf.estimator.Estimator(lambda features: None, model_dir=case["beside"], config=out).config
        return out
    except Exception as error:
        return error


def agree(case, our, their):
    if isinstance(our, str) or isinstance(their, Exception):
        assert isinstance(our, str) and isinstance(their, Exception), (case, our, their)
        return
    for name in TASK_FIELDS:
        assert our[name] == getattr(their, name), (case, name, our[name], getattr(their, name))
    cluster = tf.train.ClusterSpec(our["cluster_spec"])
    assert cluster.as_cluster_def() == their.cluster_spec.as_cluster_def(), (case, our["cluster_spec"])


def is_lone_evaluator(case, our):
    """Estoc accepts an evaluator without a chief or a cluster, which only watches a directory; RunConfig refuses it."""
    if isinstance(our, str) or our["task_type"] != "evaluator":
        return False
    return not {"chief", "master"} & set(json.loads(case["TF_CONFIG"]).get("cluster") or {})


def task_cases():
    same = [{} if text is None else {"TF_CONFIG": text} for text in same_tasks()]
    refused = [{"TF_CONFIG": text} for texts in REFUSED.values() for text in texts]
    other = [{"TF_CONFIG": text} for pairs in OTHER.values() for text, _ in pairs]
    for case in same + refused + other:
        case["model_dir"] = "d"
    return same, refused, other


def write_tasks(folder):
    same, refused, other = task_cases()
    write(folder, same + refused + other)


def check_tasks(folder):
    said = list(ours(folder))
    same, refused, other = task_cases()
    assert len(said) == len(same) + len(refused) + len(other)
    taken = 0
    for case, our in zip(same, said):
        their = theirs(case)
        taken += not isinstance(our, str)
        if is_lone_evaluator(case, our):
            assert isinstance(their, Exception), (case, their)
        else:
            agree(case, our, their)
    assert taken > 100 and taken < len(same) - 100, (taken, len(same))
    for case, our in zip(refused, said[len(same):]):
        assert isinstance(our, str), (case, our)
        assert not isinstance(theirs(case), Exception), (case, theirs(case))
    values = [want for pairs in OTHER.values() for _, want in pairs]
    for case, our, want in zip(other, said[-len(other):], values):
        their = theirs(case)
        for name, value in want.items():
            assert our[name] == value and getattr(their, name, "none") != value, (case, our[name], their)


def check_one_field_set(case, our):
    their = theirs(dict(case, TF_CONFIG="{}"))
    if isinstance(our, str) or isinstance(their, Exception):
        assert isinstance(our, str) and isinstance(their, Exception), (case, our, their)
        return
    for name in ("save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs", "keep_checkpoint_max",
                 "keep_checkpoint_every_n_hours", "log_step_count_steps", "session_creation_timeout_secs", "seed",
                 "protocol"):
        assert our[name] == getattr(their, NAMES.get(name, name)), (case, name, our[name])
    delay = their.experimental_max_worker_delay_secs
    assert our["max_worker_delay_secs"] == (training._MAX_DELAY_SECS if delay is None else delay), case
    assert our["no_graph_def"] == (not their.checkpoint_save_graph_def), case
    assert (our["train_distribute"] is not None) == (their.train_distribute is not None), case
    assert our["eval_distribute"] == (their.eval_distribute is not None), case


def write_fields(folder):
    write(folder, [dict(case, beside="d") for case in list(field_cases()) + [case for case, _ in OTHER_FIELDS]])


def check_fields(folder):
    said = list(ours(folder))
    cases = list(field_cases())
    assert len(said) == len(cases) + len(OTHER_FIELDS)
    for case, our in zip(cases, said):
        check_one_field_set(case, our)
    for (case, want), our in zip(OTHER_FIELDS, said[len(cases):]):
        for name, value in want.items():
            assert our[name] == value and getattr(theirs(case), name) != value, case


def write_model_dirs(folder):
    write(folder, model_dir_cases())


def check_model_dirs(folder):
    cases = list(model_dir_cases())
    for case, our in zip(cases, ours(folder), strict=True):
        if case.get("beside") == "":  # TensorFlow refuses it too, except where nothing else names a directory
            assert isinstance(our, str), (case, our)
            continue
        their = theirs(case)
        if isinstance(our, str) or isinstance(their, Exception):
            assert isinstance(our, str) and isinstance(their, Exception), (case, our, their)
        else:
            assert our["model_dir"] == their.model_dir, (case, our["model_dir"], their.model_dir)


# --- hooks -----------------------------------------------------------------------------------------------------------

# How each hook is made when it is to run every so many steps or seconds.
OFTEN = {
    "CheckpointSaverHook": lambda folder, steps, secs: tf.estimator.CheckpointSaverHook(
        folder, save_steps=steps, save_secs=secs, saver="s"),
    "SummarySaverHook": lambda folder, steps, secs: tf.estimator.SummarySaverHook(
        save_steps=steps, save_secs=secs, output_dir=folder, summary_op="s"),
    "ProfilerHook": lambda folder, steps, secs: tf.estimator.ProfilerHook(
        save_steps=steps, save_secs=secs, output_dir=folder),
    "LoggingTensorHook": lambda folder, steps, secs: tf.estimator.LoggingTensorHook(
        ["loss"], every_n_iter=steps, every_n_secs=secs),
}


def usual(hook, argument):
    return inspect.signature(getattr(tf.estimator, hook).__init__).parameters[argument].default


def check_hooks(folder):
    saved = os.listdir(folder + "/saved")
    prefix = usual("CheckpointSaverHook", "checkpoint_basename") + "-3"
    graph = usual("CheckpointSaverHook", "save_graph_def")
    assert prefix + ".index" in saved, saved
    assert (prefix + ".meta" in saved) == graph and ("graph.pbtxt" in saved) == graph, saved
    with open(folder + "/profile/timeline-3.json", encoding="utf-8") as file:
        phases = {event["ph"] for event in json.load(file)["traceEvents"]}
    assert ({"s", "f"} <= phases) == usual("ProfilerHook", "show_dataflow"), phases
    assert ("C" in phases) == usual("ProfilerHook", "show_memory"), phases
    cases = [said.decode().split() for said in interop.read_blobs(folder + "/said")]
    assert len(cases) == 4 * len(OFTEN), cases
    for hook, steps, secs, taken in cases:
        try:
            with tf.Graph().as_default():
                OFTEN[hook](folder + "/theirs", int(steps) or None, int(secs) or None)
            assert taken == "1", (hook, steps, secs)
        except ValueError:
            assert taken == "0", (hook, steps, secs)


interop.serve(sys.modules[__name__])
