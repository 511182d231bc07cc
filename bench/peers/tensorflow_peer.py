#!/usr/bin/env python3
"""Training speed of TensorFlow's Estimator on the CPU, on the three reference models of peer.py.

Each run is a tf.estimator.Estimator with a custom model_fn (wide_deep also as the canned DNNLinearCombinedClassifier), fed from
memory by a cached tf.data pipeline, with checkpoints, summaries and step logging off. A hook takes the time after every step.
Prints one JSON line for each (model, threads, mode). Needs scripts/bench-env; any python3 may start it.
"""
import os
import shutil
import sys
import tempfile

import peer

FLAGS = {
    "onednn": "oneDNN kernels on, the default (TF_ENABLE_ONEDNN_OPTS=1)",
    "eigen": "oneDNN kernels off: Eigen only",
    "inter1": "one inter-op thread (default: as many as threads)",
    "inter2": "two inter-op threads, at any thread count",
    "caller": "ops run in the thread that calls Session.run",
    "single": "the single-threaded executor",
    "xla": "XLA auto-clustering on the CPU",
    "ref": "reference variables (default: resource variables)",
    "bare": "no prefetch in the input pipeline",
    "malloc": "glibc keeps freed memory instead of giving it back to the kernel",
    "canned": "wide_deep: DNNLinearCombinedClassifier instead of the custom model_fn",
    "cannedv1": "wide_deep: the same from tf.compat.v1, with v1 optimizers",
    "stacked": "wide_deep: custom, the 26 tables as one of 2.6 M rows (the same numbers, other variables)",
}
MODES = {
    "cnn": ["onednn", "onednn+caller+bare", "onednn+malloc", "eigen", "onednn+xla"],
    "mlp": ["onednn", "onednn+malloc", "eigen", "onednn+xla"],
    "wide_deep": ["onednn", "onednn+malloc", "onednn+single+malloc", "eigen", "onednn+canned", "onednn+cannedv1", "onednn+stacked"],
}
CANNED = {"canned", "cannedv1"}


def best(model, threads):
    return "onednn+caller+bare" if (model, threads) == ("cnn", 1) else "onednn"


def environment(threads, flags):
    variables = {
        "TF_ENABLE_ONEDNN_OPTS": "0" if "eigen" in flags else "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": str(threads),
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CONFIG": "{}",
    }
    if "xla" in flags:
        variables["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    if "malloc" in flags:
        variables.update(peer.KEEP_MEMORY)
    return variables


def model_fns(tf, run):
    """The reference models as functions for an Estimator, by name."""
    v1 = tf.compat.v1

    def variable(name, shape, initializer):
        return v1.get_variable(name, shape, tf.float32, initializer, use_resource="ref" not in run.flags)

    def dense(name, x, n, initializer=v1.glorot_uniform_initializer):
        kernel = variable(name + "/kernel", [x.shape[-1], n], initializer())
        return tf.nn.bias_add(tf.matmul(x, kernel), variable(name + "/bias", [n], v1.zeros_initializer()))

    def tower(x, hidden, outputs):
        for i, n in enumerate(hidden):
            x = tf.nn.relu(dense(f"hidden{i}", x, n))
        return dense("logits", x, outputs)

    def softmax_loss(labels, logits):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    def spec(mode, loss, optimizer):
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=optimizer.minimize(loss, global_step=v1.train.get_global_step()))

    def cnn(features, labels, mode):
        filters, *hidden = peer.widths(run, [peer.CNN_FILTERS] + peer.CNN_HIDDEN)
        kernel = variable("conv/kernel", [3, 3, 1, filters], v1.glorot_uniform_initializer())
        x = tf.nn.conv2d(features["x"], kernel, strides=1, padding="VALID")
        x = tf.nn.relu(tf.nn.bias_add(x, variable("conv/bias", [filters], v1.zeros_initializer())))
        x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        logits = tower(tf.reshape(x, [-1, 13 * 13 * filters]), hidden, peer.CLASSES)
        return spec(mode, softmax_loss(labels, logits), v1.train.GradientDescentOptimizer(peer.LEARNING_RATE))

    def mlp(features, labels, mode):
        logits = tower(features["x"], peer.widths(run, peer.MLP_HIDDEN), peer.CLASSES)
        return spec(mode, softmax_loss(labels, logits), adagrad(v1))

    def lookups(name, features, dimension, initializer):
        """One [batch, dimension] a feature, or with stacked tables one [26, batch, dimension] for all."""
        if "stacked" in run.flags:
            table = variable(name, [peer.CATEGORICAL * peer.BUCKETS, dimension], initializer)
            return tf.nn.embedding_lookup(table, features["ids"])
        return [tf.nn.embedding_lookup(variable(f"{name}{i}", [peer.BUCKETS, dimension], initializer), features[column(i)])
                for i in range(peer.CATEGORICAL)]

    def wide_deep(features, labels, mode):
        with v1.variable_scope("deep"):
            found = lookups("embedding", features, peer.DIMENSION,
                            v1.truncated_normal_initializer(stddev=peer.DIMENSION ** -0.5))
            if "stacked" in run.flags:
                found = [tf.reshape(tf.transpose(found, [1, 0, 2]), [-1, peer.CATEGORICAL * peer.DIMENSION])]
            logits = tower(tf.concat([*found, features["numbers"]], 1), peer.widths(run, peer.WIDE_DEEP_HIDDEN), 1)
        with v1.variable_scope("linear"):
            found = lookups("weights", features, 1, v1.zeros_initializer())
            found = [tf.reduce_sum(found, 0)] if "stacked" in run.flags else found
            logits = tf.add_n([logits, dense("numbers", features["numbers"], 1, v1.zeros_initializer), *found])
        loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=tf.reshape(logits, [-1])))
        deep, linear = v1.trainable_variables("deep"), v1.trainable_variables("linear")
        gradients = tf.gradients(loss, deep + linear)
        train_op = tf.group(
            adagrad(v1).apply_gradients(zip(gradients[:len(deep)], deep), global_step=v1.train.get_global_step()),
            v1.train.FtrlOptimizer(peer.LEARNING_RATE).apply_gradients(zip(gradients[len(deep):], linear)))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return {"cnn": cnn, "mlp": mlp, "wide_deep": wide_deep}


def adagrad(v1):
    return v1.train.AdagradOptimizer(peer.LEARNING_RATE, initial_accumulator_value=peer.INITIAL_ACCUMULATOR)


def train(run):
    import logging

    import tensorflow as tf
    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.ERROR)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)

    def canned(config):
        fc = tf.feature_column
        ids = [fc.categorical_column_with_identity(column(i), peer.BUCKETS) for i in range(peer.CATEGORICAL)]
        numbers = fc.numeric_column("numbers", [peer.NUMERIC])
        columns = {
            "linear_feature_columns": ids + [numbers],
            "dnn_feature_columns": [fc.embedding_column(c, peer.DIMENSION) for c in ids] + [numbers],
            "dnn_hidden_units": peer.widths(run, peer.WIDE_DEEP_HIDDEN), "config": config}
        if "cannedv1" in run.flags:
            return v1.estimator.DNNLinearCombinedClassifier(
                linear_optimizer=v1.train.FtrlOptimizer(peer.LEARNING_RATE), dnn_optimizer=adagrad(v1),
                loss_reduction=v1.losses.Reduction.SUM_OVER_BATCH_SIZE, **columns)
        legacy = tf.keras.optimizers.legacy
        return tf.estimator.DNNLinearCombinedClassifier(
            linear_optimizer=legacy.Ftrl(peer.LEARNING_RATE),
            dnn_optimizer=legacy.Adagrad(peer.LEARNING_RATE, peer.INITIAL_ACCUMULATOR), **columns)

    class Watch(v1.train.SessionRunHook):
        def __init__(self):
            self.meter = peer.Meter(run)

        def begin(self):
            self.loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]  # the Estimator fetches it in every step anyway

        def before_run(self, run_context):
            return v1.train.SessionRunArgs(self.loss)

        def after_run(self, run_context, run_values):
            if self.meter.step(run_values.results):
                run_context.request_stop()

    inter = 1 if "inter1" in run.flags else 2 if "inter2" in run.flags else -1 if "caller" in run.flags else run.threads
    session = v1.ConfigProto(intra_op_parallelism_threads=run.threads, inter_op_parallelism_threads=inter)
    if "single" in run.flags:
        session.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    model_dir = tempfile.mkdtemp(prefix="tensorflow_peer.")
    try:
        config = tf.estimator.RunConfig(
            model_dir=model_dir, tf_random_seed=1, session_config=session, save_checkpoints_steps=None,
            save_checkpoints_secs=None, save_summary_steps=None, log_step_count_steps=None)
        if run.flags & CANNED:
            estimator = canned(config)
        else:
            estimator = tf.estimator.Estimator(model_fns(tf, run)[run.model], config=config)
        watch = Watch()
        estimator.train(lambda: dataset(tf, run), hooks=[watch])
    finally:
        shutil.rmtree(model_dir, ignore_errors=True)
    watch.meter.report("tensorflow", tf.__version__)


def column(i):
    return f"c{i:02d}"


def named(run, part):
    """One set of peer.inputs as the features and labels that an input_fn gives."""
    import numpy as np
    *features, labels = part
    if run.flags & CANNED:
        labels = labels[:, np.newaxis]
    if run.model == "cnn":
        return {"x": features[0].reshape(-1, 28, 28, 1)}, labels
    if run.model == "mlp":
        return {"x": features[0]}, labels
    ids, numbers = features
    if "stacked" in run.flags:
        return {"numbers": numbers, "ids": ids + np.arange(peer.CATEGORICAL)[:, np.newaxis] * peer.BUCKETS}, labels
    return {"numbers": numbers, **{column(i): ids[i] for i in range(peer.CATEGORICAL)}}, labels


def dataset(tf, run):
    """The pre-made batches, through the generator once and from then on from the cache, whose tensors a step takes uncopied."""
    sets = [named(run, part) for part in peer.inputs(run)]
    shapes = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), sets[0])
    made = tf.data.Dataset.from_generator(lambda: iter(sets), output_signature=shapes).cache().repeat()
    made = made if "bare" in run.flags else made.prefetch(2)
    choices = tf.data.Options()
    choices.autotune.enabled = False
    choices.threading.private_threadpool_size = 1
    return made.with_options(choices)


if __name__ == "__main__":
    sys.exit(peer.main(__doc__, FLAGS, MODES, best, os.path.join(peer.ROOT, "build", "bench-venv", "bin", "python"),
                       environment, train))
