#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tf.data and the v1 Saver of TensorFlow on the questions of bench/compare-input.

A mode is one or more of these, joined by +:
  loop       a Python loop takes the batches (default: Dataset.reduce, which never leaves TensorFlow)
  rows       reduce takes record by record (default: batches of 1024)
  reads      num_parallel_reads = AUTOTUNE (make: 2)
  buffer     records and lines are read 8 MiB at a time (default: 256 KiB)
  calls      num_parallel_calls = the number of threads
  auto       num_parallel_calls = AUTOTUNE
  unordered  deterministic = False
  prefetch   prefetch(AUTOTUNE) at the end
  private    a thread pool of the dataset's own, of as many threads
  after, before, fused   parse_example on batches; parse_single_example, then batch; parse_example_dataset on batches
  lines, dataset, make   TextLineDataset and decode_csv on batches; CsvDataset; make_csv_dataset
  slices, index          rows of a tensor shuffled; indices shuffled, and the rows gathered by a map
  saver      the v1 Saver over resource variables
"""
import atexit
import os
import shutil
import time

import input_peer

RECORDS = ["buffer", "buffer+prefetch", "buffer+loop", "prefetch", "reads", "buffer+reads", "reads+unordered+prefetch", "rows"]
EXAMPLES = ["fused", "fused+calls+prefetch", "after", "after+calls+prefetch", "after+auto+prefetch", "after+loop",
            "after+auto+private+prefetch", "after+calls+reads+unordered+prefetch", "fused+auto+reads+unordered+prefetch",
            "after+auto+buffer+unordered+prefetch", "before+auto"]
CSV = ["lines", "lines+buffer", "lines+calls+prefetch", "lines+auto+prefetch", "lines+calls+unordered+prefetch",
       "lines+calls+reads+unordered+prefetch", "lines+loop", "dataset", "dataset+prefetch", "dataset+loop", "make", "make+reads+unordered"]
SHUFFLE = ["slices+prefetch", "slices", "slices+loop", "slices+auto+prefetch", "slices+calls+unordered+prefetch",
           "index+calls+prefetch", "index"]
MODES = {"records": RECORDS, "records_gz": RECORDS, "examples": EXAMPLES, "csv": CSV, "census": CSV, "shuffle": SHUFFLE,
         "save": ["saver"], "restore": ["saver"], "restore_cold": ["saver"]}


def make(run):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf
    tf.get_logger().setLevel("ERROR")
    if run.question in ("save", "restore", "restore_cold"):
        return checkpoint(run, tf)
    if not tf.config.threading.get_intra_op_parallelism_threads():
        tf.config.threading.set_intra_op_parallelism_threads(run.threads)
        tf.config.threading.set_inter_op_parallelism_threads(run.threads)
    dataset = {"records": records, "records_gz": records, "examples": examples, "csv": csv, "census": csv,
               "shuffle": shuffle}[run.question](run, tf)
    options = tf.data.Options()
    options.deterministic = "unordered" not in run.flags
    if "private" in run.flags:
        options.threading.private_threadpool_size = run.threads
    if "prefetch" in run.flags:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    dataset = dataset.with_options(options)
    count = counter(run, tf)

    @tf.function
    def whole():
        return dataset.reduce(tf.constant(0, tf.int64), lambda n, *batch: n + count(batch))

    def loop():
        return sum(int(count((batch,))) for batch in dataset)

    return lambda: input_peer.timed(loop if "loop" in run.flags else lambda: int(whole()))


def counter(run, tf):
    """What a batch counts: bytes of records, else rows."""
    def size(batch):
        first = tf.nest.flatten(batch)[0]
        if run.question.startswith("records"):
            return tf.reduce_sum(tf.cast(tf.strings.length(first), tf.int64))
        return tf.shape(first, out_type=tf.int64)[0]
    return size


def calls(run, tf):
    return tf.data.AUTOTUNE if "auto" in run.flags else run.threads if "calls" in run.flags else None


def reads(run, tf):
    return tf.data.AUTOTUNE if "reads" in run.flags else None


def buffer(run):
    return 8 << 20 if "buffer" in run.flags else None


def records(run, tf, pattern=None):
    zipped = run.question == "records_gz"
    paths = run.files(pattern or ("records-*.tfrecord.gz" if zipped else "records-*.tfrecord"))
    dataset = tf.data.TFRecordDataset(paths, "GZIP" if zipped else None, buffer(run), reads(run, tf))
    return dataset if pattern or "rows" in run.flags else dataset.batch(1024)


def examples(run, tf):
    features = {n: tf.io.FixedLenFeature([], tf.float32, 0.0) if k <= input_peer.NUMERIC else
                tf.io.FixedLenFeature([], tf.string, "") for k, n in enumerate(input_peer.NAMES)}
    rows = records(run, tf, "clicks-*.tfrecord")
    if "before" in run.flags:
        return rows.map(lambda r: tf.io.parse_single_example(r, features), calls(run, tf)).batch(input_peer.BATCH)
    rows = rows.batch(input_peer.BATCH)
    if "fused" in run.flags:
        return rows.apply(tf.data.experimental.parse_example_dataset(
            features, calls(run, tf) or 1, deterministic="unordered" not in run.flags))
    return rows.map(lambda r: tf.io.parse_example(r, features), calls(run, tf))


def csv(run, tf):
    census = run.question == "census"
    n = input_peer.CENSUS_FIELDS if census else len(input_peer.NAMES)
    names = [f"f{k}" for k in range(n)] if census else input_peer.NAMES
    defaults = [[0.0] if input_peer.is_number(run.question, k) else [""] for k in range(n)]
    paths = run.files("census.csv" if census else "clicks-*.csv")
    if "make" in run.flags:
        return tf.data.experimental.make_csv_dataset(
            paths, input_peer.BATCH, names, defaults, header=False, num_epochs=1, shuffle=False,
            num_parallel_reads=2 if "reads" in run.flags else 1, sloppy="unordered" in run.flags,
            prefetch_buffer_size=tf.data.AUTOTUNE)
    if "dataset" in run.flags:
        return tf.data.experimental.CsvDataset(paths, defaults).batch(input_peer.BATCH)
    lines = tf.data.TextLineDataset(paths, None, buffer(run), reads(run, tf)).batch(input_peer.BATCH)
    return lines.map(lambda rows: tf.io.decode_csv(rows, defaults), calls(run, tf))


def shuffle(run, tf):
    images = tf.random.uniform([input_peer.IMAGES, input_peer.PIXELS])
    if "index" in run.flags:
        rows = tf.data.Dataset.range(input_peer.IMAGES).shuffle(input_peer.IMAGE_BUFFER).batch(input_peer.IMAGE_BATCH)
        return rows.map(lambda i: tf.gather(images, i), calls(run, tf))
    rows = tf.data.Dataset.from_tensor_slices(images).shuffle(input_peer.IMAGE_BUFFER)
    return rows.batch(input_peer.IMAGE_BATCH, num_parallel_calls=calls(run, tf))


def checkpoint(run, tf):
    """Saver.save does not sync its files: a turn's secs include that, as ours do; unsynced_secs is what Saver took."""
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    folder = f"{run.folder}/tensorflow_{run.question}"
    amount = run.variables * input_peer.VARIABLE_BYTES
    shape = [input_peer.VARIABLE_BYTES // 4 // 1024, 1024]
    for i in range(run.variables):
        v1.get_variable(f"table_{i:02d}", shape, tf.float32, v1.constant_initializer(0.5 + i), use_resource=True)
    config = v1.ConfigProto(intra_op_parallelism_threads=run.threads, inter_op_parallelism_threads=run.threads)
    saver = v1.train.Saver(max_to_keep=1)
    step = 0
    session = v1.Session(config=config)
    session.run(v1.global_variables_initializer())
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    atexit.register(shutil.rmtree, folder, True)

    def for_files(action):
        for name in os.listdir(folder):
            fd = os.open(f"{folder}/{name}", os.O_RDONLY)
            action(fd)
            os.close(fd)

    def save():
        nonlocal step
        step += 1
        start = time.perf_counter()
        saver.save(session, f"{folder}/model.ckpt", step, write_meta_graph=False)
        unsynced = time.perf_counter() - start
        for_files(os.fsync)
        return {"amount": amount, "secs": time.perf_counter() - start, "unsynced_secs": unsynced}

    def forget(fd):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def restore():
        nonlocal session
        if run.question == "restore_cold":
            for_files(forget)
        session.close()
        session = v1.Session(config=config)
        return input_peer.timed(lambda: saver.restore(session, f"{folder}/model.ckpt-{step}") or amount)

    if run.question == "save":
        return save
    save()
    return restore


if __name__ == "__main__":
    input_peer.main(__doc__, MODES, make)
