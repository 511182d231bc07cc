#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tf.estimator.DNNLinearCombinedClassifier of TensorFlow with tf.data, on the files and the model of bench/canned.c.

Turns are taken inside the training, by a hook: --turns of them, or with 0 one for every line of standard input. Each prints a line
of JSON (amount: examples, secs, cpu_secs); at the end comes the highest resident memory, with the seconds until the first step was done.

A mode is one or more of these, joined by +:
  after, fused  parse_example on batches by a map; parse_example_dataset on batches
  auto          num_parallel_calls and num_parallel_reads AUTOTUNE (default: as many as threads)
  private       a thread pool of the dataset's own, of as many threads
  inter1        one inter-op thread (default: as many as threads)
  onednn        oneDNN kernels on
"""
import argparse
import glob
import json
import os
import shutil
import sys
import tempfile
import time

NUMBERS = [f"I{k + 1}" for k in range(13)]
WORDS = [f"C{k + 1}" for k in range(26)]
PAIRS = [(0, 1), (2, 4), (5, 9)]
BUFFER, WARM_UP_SECS = 10000, 0.3


def columns(tf, run):
    """As make_columns in bench/canned.c."""
    fc = tf.feature_column
    numbers = [fc.numeric_column(n, default_value=0.0, normalizer_fn=lambda x: tf.math.log1p(tf.maximum(x, 0.0))) for n in NUMBERS]
    ids = [fc.categorical_column_with_hash_bucket(n, run.rows if k == 3 and run.rows else 1000000 if k % 5 == 3 else 100000)
           for k, n in enumerate(WORDS)]
    crosses = [fc.crossed_column([WORDS[a], WORDS[b]], 1000000) for a, b in PAIRS]
    embedded = [fc.embedding_column(c, 8 if k % 2 else 16) for k, c in enumerate(ids)]
    return numbers + ids + crosses, numbers + embedded


def dataset(tf, run, spec):
    files = sorted(glob.glob(f"{run.folder}/clicks-*.tfrecord"))
    if not files:
        sys.exit(f"no {run.folder}/clicks-*.tfrecord: bench/compare-canned has them written")
    calls = tf.data.AUTOTUNE if "auto" in run.flags else run.threads
    rows = tf.data.TFRecordDataset(files, num_parallel_reads=calls).shuffle(BUFFER).repeat().batch(run.batch)
    if "fused" in run.flags:
        rows = rows.apply(tf.data.experimental.parse_example_dataset(spec, calls))
    else:
        rows = rows.map(lambda r: tf.io.parse_example(r, spec), calls)
    rows = rows.map(lambda features: (features, features.pop("label"))).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    if "private" in run.flags:
        options.threading.private_threadpool_size = run.threads
    return rows.with_options(options)


def make_watch(tf, run, started):
    class Watch(tf.compat.v1.train.SessionRunHook):
        """Warms up and measures a turn, then waits for the next."""

        def __init__(self):
            self.taken, self.phase, self.start, self.used, self.examples, self.first = 0, "first", 0.0, 0.0, 0, 0.0

        def before_run(self, run_context):
            if self.phase == "waiting":
                wanted = self.taken < run.turns if run.turns else sys.stdin.readline() != ""
                self.phase, self.start = ("warming up" if wanted else "done"), time.perf_counter()

        def after_run(self, run_context, run_values):
            now = time.perf_counter()
            if self.phase == "first":
                self.first, self.phase = time.time() - started, "waiting"
            elif self.phase == "done":
                run_context.request_stop()
            elif self.phase == "measuring":
                self.examples += run.batch
                if now - self.start >= run.seconds:
                    print(json.dumps({"amount": self.examples, "secs": now - self.start,
                                      "cpu_secs": time.process_time() - self.used}), flush=True)
                    self.taken, self.phase = self.taken + 1, "waiting"
            elif now - self.start >= WARM_UP_SECS:
                self.phase, self.examples, self.used, self.start = "measuring", 0, time.process_time(), time.perf_counter()
    return Watch()


def main():
    started = time.time()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", default="build/canned")
    parser.add_argument("--hidden", default="64,32")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rows", type=int, default=0, help="of the tables of C4")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--mode", default="fused+onednn")
    run = parser.parse_args()
    run.flags = set(run.mode.split("+"))
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="1" if "onednn" in run.flags else "0")
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.ERROR)
    wide, deep = columns(tf, run)
    spec = tf.estimator.classifier_parse_example_spec(wide + deep, "label", tf.int64)
    session = v1.ConfigProto(intra_op_parallelism_threads=run.threads,
                             inter_op_parallelism_threads=1 if "inter1" in run.flags else run.threads)
    model_dir = tempfile.mkdtemp(prefix="canned_tensorflow.")
    watch = make_watch(tf, run, started)
    try:
        config = tf.estimator.RunConfig(
            model_dir=model_dir, tf_random_seed=1, session_config=session, save_checkpoints_steps=None,
            save_checkpoints_secs=None, save_summary_steps=None, log_step_count_steps=None)
        estimator = tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide, dnn_feature_columns=deep,
            dnn_hidden_units=[int(n) for n in run.hidden.split(",")], config=config)
        estimator.train(lambda: dataset(tf, run, spec), hooks=[watch])
    finally:
        shutil.rmtree(model_dir, ignore_errors=True)
    with open("/proc/self/status", encoding="ascii") as status:
        rss = int(next(line for line in status if line.startswith("VmHWM:")).split()[1]) / 1024
    print(json.dumps({"max_rss_mb": round(rss, 1), "first_step_secs": round(watch.first, 3)}), flush=True)


if __name__ == "__main__":
    main()
