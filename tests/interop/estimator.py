# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of estimator.c: the same model for tf.estimator.Estimator."""
import glob
import inspect
import os
import re
import shutil
import sys

import interop
import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorboard.backend.event_processing import event_accumulator

v1 = tf.compat.v1
estimator = tf.estimator
tf.get_logger().setLevel("ERROR")
v1.logging.set_verbosity(v1.logging.ERROR)

BATCH, COLUMNS, PIECE = 4, 3, 20
OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.3),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.2),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
}

# How far 60 losses may be from those of the run that stayed, relative to the loss. A step differs by a few units in the
# last place of float32 (6e-8 each), and training carries the difference on: SGD and Adagrad shrink it, Adam divides
# small moments by their roots and does not.
TOLERANCE = {"sgd": 2e-6, "adagrad": 2e-6, "adam": 1e-5}


# --- the model -------------------------------------------------------------------------------------------------------

def rows(first, n):
    i, j = np.arange(first, first + n), np.arange(COLUMNS)
    x = ((i[:, None] * 37 + j * 11) % 64) / 32 - 1
    return {"x": x.astype(np.float32)}, ((i[:, None] * 29) % 7 > 3).astype(np.float32)


def train_input():
    return tf.data.Dataset.from_tensor_slices(rows(0, 20)).repeat().batch(BATCH)


def eval_input():
    return tf.data.Dataset.from_tensor_slices(rows(100, 37)).batch(BATCH)


def model_fn(features, labels, mode, params):
    hidden = v1.layers.dense(features["x"], 8, tf.tanh)
    logits = v1.layers.dense(hidden, 1)
    probability = tf.sigmoid(logits)
    loss = v1.losses.sigmoid_cross_entropy(labels, logits)
    v1.summary.scalar("largest", tf.reduce_max(probability))
    v1.summary.histogram("hidden", hidden)
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": v1.metrics.accuracy(labels, tf.round(probability)),
                   "auc": v1.metrics.auc(labels, probability), "mean": v1.metrics.mean(probability),
                   "rmse": v1.metrics.root_mean_squared_error(labels, probability)}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = OPTIMIZERS[params["optimizer"]]().minimize(loss, v1.train.get_global_step())
    keep = params.get("keep")
    hooks = [Losses(loss, keep)] if keep is not None else []
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


class Losses(v1.train.SessionRunHook):
    """Keeps the losses of all runs."""

    def __init__(self, loss, keep):
        self.loss, self.keep = loss, keep

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self.loss)

    def after_run(self, run_context, run_values):
        self.keep.append(run_values.results)


def make(path, optimizer, keep=None):
    config = estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=7, save_summary_steps=5,
                                 log_step_count_steps=10)
    return estimator.Estimator(Model(keep), path, config, {"optimizer": optimizer})


class Model:
    """model_fn with a list for the losses, which params, copied deeply, could not bring back."""

    def __init__(self, keep):
        self.keep = keep

    def __call__(self, features, labels, mode, params):
        return model_fn(features, labels, mode, dict(params, keep=self.keep))


def train(path, optimizer, max_steps):
    keep = []
    make(path, optimizer, keep).train(train_input, max_steps=max_steps)
    return keep


def copy_checkpoint(source, target, step):
    os.makedirs(target)
    for file in glob.glob(f"{source}/model.ckpt-{step}.*"):
        shutil.copy(file, target)
    with open(f"{target}/checkpoint", "w") as file:
        file.write(f'model_checkpoint_path: "model.ckpt-{step}"\nall_model_checkpoint_paths: "model.ckpt-{step}"\n')


# --- runs that move --------------------------------------------------------------------------------------------------

LOSSES = {}  # run, step it went to: the losses of TensorFlow's pieces


def train_first_piece(folder):
    for name in OPTIMIZERS:
        LOSSES["theirs", name, 1] = train(f"{folder}/theirs_{name}", name, PIECE)
        copy_checkpoint(f"{folder}/theirs_{name}", f"{folder}/stayed_theirs_{name}", 0)


def train_next_piece(folder):
    for name in OPTIMIZERS:
        LOSSES["theirs", name, 3] = train(f"{folder}/theirs_{name}", name, 3 * PIECE)
        copy_checkpoint(f"{folder}/ours_{name}", f"{folder}/stayed_ours_{name}", 0)
        LOSSES["ours", name, 2] = train(f"{folder}/ours_{name}", name, 2 * PIECE)


def our_losses(folder, run, step):
    return np.frombuffer(interop.read_blobs(f"{folder}/{run}.{step}")[0], np.float32)


def check_losses(folder):
    """Pieces of both make the losses of a run that stayed with TensorFlow, from the same first values."""
    for name in OPTIMIZERS:
        for run, mine in ("theirs", (1, 3)), ("ours", (2,)):
            pieces = [LOSSES[run, name, i] if i in mine else our_losses(folder, f"{run}_{name}", i * PIECE)
                      for i in (1, 2, 3)]
            assert [len(p) for p in pieces] == [PIECE] * 3, [len(p) for p in pieces]
            stayed = train(f"{folder}/stayed_{run}_{name}", name, 3 * PIECE)
            assert len(stayed) == 3 * PIECE and stayed[-1] < 0.97 * stayed[0], stayed
            np.testing.assert_allclose(np.concatenate(pieces), stayed, rtol=TOLERANCE[name], err_msg=f"{run} {name}")
            check_same_variables(f"{folder}/{run}_{name}", f"{folder}/stayed_{run}_{name}", TOLERANCE[name])


def check_same_variables(path, stayed, tolerance):
    a, b = (tf.train.load_checkpoint(p) for p in (path, stayed))
    names = [n for n in a.get_variable_to_shape_map() if not n.startswith("estoc/")]
    assert sorted(names) == sorted(b.get_variable_to_shape_map()), names
    for name in names:
        np.testing.assert_allclose(a.get_tensor(name), b.get_tensor(name), rtol=100 * tolerance, atol=10 * tolerance,
                                   err_msg=name)


# --- what a run leaves -----------------------------------------------------------------------------------------------

def train_beside(folder):
    train(folder + "/beside_start", "adam", 1)
    copy_checkpoint(folder + "/beside_start", folder + "/beside", 0)
    copy_checkpoint(folder + "/beside_start", folder + "/beside_theirs", 0)
    theirs = make(folder + "/beside_theirs", "adam")
    theirs.train(train_input, max_steps=3 * PIECE)
    theirs.evaluate(eval_input)
    theirs.evaluate(eval_input, steps=3, name="few")


def accumulate(path):
    accumulator = event_accumulator.EventAccumulator(
        path, {k: 0 for k in event_accumulator.DEFAULT_SIZE_GUIDANCE}, purge_orphaned_data=False)
    return accumulator.Reload()


def check_summaries(folder):
    """TensorBoard sees the tags it sees in a run of TensorFlow's, and ours at their steps and with their values."""
    for part in "", "/eval", "/eval_few":
        ours, theirs = (accumulate(folder + path + part) for path in ("/beside", "/beside_theirs"))
        tags = [{k: sorted(v) for k, v in a.Tags().items() if isinstance(v, list)} for a in (ours, theirs)]
        assert tags[0] == tags[1], tags
        assert ours.Tags()["graph"] == (part == "")  # their MetaGraphDef event we leave to the .meta files
        check_run(folder, ours, theirs) if part == "" else check_evaluation(folder, ours, theirs)


def check_run(folder, ours, theirs):
    """The first run and then every 5th. TensorFlow's hook reads the step while it is increased, so from the second
    summary on its steps differ by one from run to run; only the first can be compared."""
    losses = our_losses(folder, "beside", 60)
    assert sorted(ours.Tags()["scalars"]) == ["global_step/sec", "largest", "loss"], ours.Tags()
    assert ours.Tags()["histograms"] == ["hidden"], ours.Tags()
    assert [e.step for e in ours.Scalars("global_step/sec")] == [11, 21, 31, 41, 51]
    for events in ours.Scalars("loss"), ours.Scalars("largest"), ours.Histograms("hidden"):
        assert [e.step for e in events] == list(range(1, 60, 5)), [e.step for e in events]
    assert [np.float32(e.value) for e in ours.Scalars("loss")] == list(losses[::5])
    for tag in "loss", "largest":
        a, b = ours.Scalars(tag)[0], theirs.Scalars(tag)[0]
        assert a.step == b.step
        np.testing.assert_allclose(a.value, b.value, rtol=1e-6, err_msg=tag)
    for event in ours.Histograms("hidden"):
        assert event.histogram_value.num == sum(event.histogram_value.bucket) == BATCH * 8
    a, b = (side.Histograms("hidden")[0].histogram_value for side in (ours, theirs))
    np.testing.assert_allclose([a.min, a.max, a.sum, a.sum_squares], [b.min, b.max, b.sum, b.sum_squares], rtol=1e-5)
    assert list(a.bucket_limit) == list(b.bucket_limit) and list(a.bucket) == list(b.bucket), (a, b)


def check_evaluation(folder, ours, theirs):
    for tag in theirs.Tags()["scalars"]:
        [a], [b] = ours.Scalars(tag), theirs.Scalars(tag)
        assert a.step == b.step == 60, (tag, a, b)
        np.testing.assert_allclose(a.value, b.value, rtol=1e-5, err_msg=tag)
    [a], [b] = ours.Tensors("checkpoint_path"), theirs.Tensors("checkpoint_path")
    assert a.step == b.step and a.tensor_proto.dtype == b.tensor_proto.dtype, (a, b)
    text = tf.make_ndarray(a.tensor_proto).item().decode()
    assert text == folder + "/beside/model.ckpt-60", text


def check_graph(folder):
    """graph.pbtxt, the event and the .meta have a graph that TensorFlow takes, and the .meta one that restores."""
    with open(folder + "/beside/graph.pbtxt") as file:
        text = text_format.Parse(file.read(), v1.GraphDef())
    event = accumulate(folder + "/beside").Graph()  # of a class of TensorBoard's own
    assert event.SerializeToString(deterministic=True) == text.SerializeToString(deterministic=True)
    with tf.Graph().as_default():
        tf.import_graph_def(text, name="")
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.train.import_meta_graph(folder + "/beside/model.ckpt-60.meta", clear_devices=True)
        assert {n.name for n in graph.as_graph_def().node} >= {n.name for n in text.node}
        variables = v1.global_variables()
        v1.train.Saver(variables).restore(session, folder + "/beside/model.ckpt-60")
        reader = tf.train.load_checkpoint(folder + "/beside")
        names = {n for n in reader.get_variable_to_shape_map() if not n.startswith("estoc/")}
        assert {v.op.name for v in variables} == names, {v.op.name for v in variables} ^ names
        for variable in variables:
            assert interop.same(session.run(variable), reader.get_tensor(variable.op.name)), variable
        assert {v.op.name for v in v1.trainable_variables()} == {
            "dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"}, v1.trainable_variables()


def check_metrics(folder):
    theirs = make(folder + "/beside", "adam")
    for file, steps in ("metrics", None), ("metrics_few", 3):
        blobs = interop.read_blobs(f"{folder}/{file}")
        ours = {k.decode(): float(v) for k, v in zip(blobs[0::2], blobs[1::2])}
        want = theirs.evaluate(eval_input, steps=steps, name="theirs_" + file)
        assert sorted(ours) == sorted(want), (ours, want)
        for name, value in want.items():
            np.testing.assert_allclose(ours[name], value, rtol=1e-6, err_msg=name)


def check_variables(folder):
    theirs = make(folder + "/values", "adam")
    assert theirs.latest_checkpoint() == folder + "/values/model.ckpt-5", theirs.latest_checkpoint()
    said = interop.read_tensors(folder + "/values.said")
    assert sorted(said) == sorted(theirs.get_variable_names()), theirs.get_variable_names()
    for name, value in said.items():
        assert interop.same(theirs.get_variable_value(name), value), name
    assert theirs.get_variable_value("global_step") == 5


# --- warm start ------------------------------------------------------------------------------------------------------

OLD = {"table": [[10, 11], [20, 21], [30, 31], [40, 41]], "kernel": [[1, 2, 3], [4, 5, 6]], "fixed": [8, 9],
       "table/Adagrad": np.ones((4, 2)), "kernel/Adagrad": 2 * np.ones((2, 3)),
       "ancient/kernel": [[-1, -2, -3], [-4, -5, -6]]}


def words(folder, name, n_oov=0, n_new=None, n_old=-1, initial=False, axis=0, size=3, backup=None):
    backup = 7. if initial else backup
    if backup is not None:
        backup = v1.random_uniform_initializer(backup, backup)  # a constant cannot have a shape not yet known
    path = f"{folder}/{name}"
    return estimator.VocabInfo(path + ".new", n_new or size, n_oov, path + ".old", n_old, backup, axis)


def warm_cases(folder):
    """Name, rows of the table, columns of the kernel, settings."""
    rename = {"kernel": "ancient/kernel"}
    yield "trainable", 4, 3, {}
    yield "saved_model", 4, 3, {}
    yield "checkpoint", 4, 3, {}
    yield "all", 4, 3, {"vars_to_warm_start": [".*"]}
    yield "pattern", 4, 3, {"vars_to_warm_start": "k"}
    yield "all_pattern", 4, 3, {"vars_to_warm_start": ["kernel|fix"]}
    yield "renamed", 4, 3, {"var_name_to_prev_var_name": rename}
    yield "rows", 5, 3, {"var_name_to_vocab_info": {"table": words(folder, "words", 2)}}
    yield "rows_initial", 5, 3, {"var_name_to_vocab_info": {"table": words(folder, "words", 2, initial=True)}}
    yield "rows_backup", 5, 3, {"var_name_to_vocab_info": {"table": words(folder, "words", 2, backup=.25)}}
    yield "columns_backup", 4, 4, {"var_name_to_vocab_info": {
        "kernel": words(folder, "colours", axis=1, size=4, backup=-3.)}}
    yield "rows_sizes", 4, 3, {"var_name_to_vocab_info": {"table": words(folder, "words", 2, 2, 3)}}
    yield "rows_only", 3, 3, {"vars_to_warm_start": None,
                              "var_name_to_vocab_info": {"table": words(folder, "words")}}
    yield "columns", 4, 4, {"var_name_to_vocab_info": {"kernel": words(folder, "colours", axis=1, size=4)}}
    yield "columns_renamed", 4, 5, {"var_name_to_vocab_info": {
        "kernel": words(folder, "colours", 1, axis=1, size=4, initial=True)}, "var_name_to_prev_var_name": rename}


def warm_model_fn(features, labels, mode, params):
    def weight(name, shape, trainable=True):
        return tf.reduce_mean(v1.get_variable(name, shape, initializer=v1.constant_initializer(7.),
                                              trainable=trainable))
    loss = weight("table", [params["rows"], 2]) + weight("kernel", [2, params["columns"]])
    loss += weight("fixed", [2], False) + tf.reduce_mean(features["x"])
    train_op = v1.train.AdagradOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def warm_start_theirs(folder):
    for name, lines in (("words.old", "a b c d"), ("words.new", "c x a"), ("colours.old", "red green blue"),
                        ("colours.new", "blue pink green red")):
        with open(f"{folder}/{name}", "w") as file:
            file.write(lines.replace(" ", "\n") + "\n")
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in OLD.items():
            v1.get_variable(name, initializer=np.array(value, np.float32))
        v1.get_variable("global_step", initializer=np.int64(50))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, folder + "/old/model.ckpt", 50)
        builder = v1.saved_model.Builder(folder + "/old_saved")
        builder.add_meta_graph_and_variables(session, ["serve"])
        builder.save()
    for name, n_rows, n_columns, settings in warm_cases(folder):
        settings = estimator.WarmStartSettings(folder + "/old", **settings)
        if name == "saved_model":
            settings = folder + "/old_saved"
        if name == "checkpoint":
            settings = folder + "/old/model.ckpt-50"
        estimator.Estimator(warm_model_fn, f"{folder}/warm_theirs_{name}", None, {"rows": n_rows, "columns": n_columns},
                            settings).train(lambda: train_input().take(0))


def check_warm_start(folder):
    for name, *_ in warm_cases(folder):
        step = 50 if name == "all" else 0  # their first checkpoint; one of step 1 has half of a step without a batch
        ours = tf.train.load_checkpoint(f"{folder}/warm_{name}")
        theirs = tf.train.load_checkpoint(f"{folder}/warm_theirs_{name}/model.ckpt-{step}")
        names = sorted(theirs.get_variable_to_shape_map())
        assert names == sorted(n for n in ours.get_variable_to_shape_map() if not n.startswith("estoc/")), names
        for variable in names:
            a, b = ours.get_tensor(variable), theirs.get_tensor(variable)
            if variable == "global_step":  # taken over by TensorFlow among "all"; a run of ours counts its own steps
                assert a == 0 and b == step, (name, a, b)
            else:
                assert interop.same(a, b), (name, variable, a, b)


# --- defaults --------------------------------------------------------------------------------------------------------

def header(name):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(f"{root}/include/estoc/{name}.h") as file:
        return file.read()


def promised(name, struct, field):
    """What the comment behind a field, or the one above it, says that 0 means."""
    body = re.search(r"typedef struct %s \{(.*?)\n\} %s;" % (struct, struct), header(name), re.S).group(1)
    comment = (re.search(r"\b%s;[ ]*/\*(.*?)\*/" % field, body, re.S) or
               re.search(r"/\*((?:(?!\*/).)*)\*/\s*[\w *]*\b%s;" % field, body, re.S))
    assert comment, (struct, field)
    value = re.search(r"(?:0|NULL)(?: or EST_FOREVER)?: ([^;,.]*)", comment.group(1))
    return value.group(1).strip() if value else None


def default(function, argument):
    return inspect.signature(function).parameters[argument].default


def check_defaults(folder):
    train, evaluation = estimator.TrainSpec(train_input), estimator.EvalSpec(train_input)
    stop = estimator.experimental.stop_if_higher_hook
    memory = estimator.experimental.InMemoryEvaluatorHook
    numbers = [
        ("estimator", "est_eval_spec", "start_delay_secs", evaluation.start_delay_secs),
        ("estimator", "est_eval_spec", "throttle_secs", evaluation.throttle_secs),
        ("estimator", "est_in_memory_options", "every_n_iter", default(memory, "every_n_iter")),
        ("early_stopping", "est_early_stopping_options", "run_every_secs", default(stop, "run_every_secs")),
        ("saver", "est_saver_options", "keep_max", default(v1.train.Saver, "max_to_keep")),
        ("saver", "est_saver_options", "keep_every_n_hours", default(v1.train.Saver, "keep_checkpoint_every_n_hours")),
    ]
    for name, struct, field, value in numbers:
        assert float(promised(name, struct, field)) == value, (struct, field, promised(name, struct, field), value)
    texts = [
        ("estimator", "est_train_spec", "max_steps", "until the input ends", train.max_steps),
        ("estimator", "est_in_memory_options", "steps", "until the input ends", default(memory, "steps")),
        ("estimator", "est_evaluate_options", "steps", "until the input ends",
         default(estimator.Estimator.evaluate, "steps")),
        ("estimator", "est_evaluate_options", "checkpoint_path", "the latest",
         default(estimator.Estimator.evaluate, "checkpoint_path")),
        ("estimator", "est_train_options", "steps", "no limit",
         default(estimator.Estimator.train, "steps")),
        ("early_stopping", "est_early_stopping_options", "run_every_steps", "by time",
         default(stop, "run_every_steps")),
        ("early_stopping", "est_early_stopping_options", "eval_dir", '"eval" in the model directory',
         default(stop, "eval_dir")),
    ]
    for name, struct, field, text, value in texts:
        assert promised(name, struct, field) == text and value is None, (struct, field, promised(name, struct, field))
    # Meant to differ: 0 is all of the input here, in every evaluation.
    assert promised("estimator", "est_eval_spec", "steps") == "until the input ends" and evaluation.steps == 100
    assert promised("saver", "est_saver_options", "name") == '"model' and default(
        v1.train.CheckpointSaverHook, "checkpoint_basename") == "model.ckpt"
    assert not train.hooks and not train.saving_listeners and not evaluation.hooks and not evaluation.exporters
    assert evaluation.name is None and default(stop, "min_steps") == 0
    assert default(v1.train.LoggingTensorHook, "at_end") is False
    hooks = header("hooks")
    steps = default(v1.train.StepCounterHook, "every_n_steps")
    assert f"options NULL: every {steps} steps" in hooks and default(v1.train.StepCounterHook, "every_n_secs") is None
    wait = default(estimator.experimental.make_stop_at_checkpoint_step_hook, "wait_after_file_check_secs")
    assert re.search(r"every wait_secs; 0: %d\b" % wait, header("estimator"))


interop.serve(sys.modules[__name__])
