#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of the SavedModel of bench/predictor.c by TensorFlow: tf.saved_model.load(...).signatures["predict"], one thread. A turn
prints a line of JSON as bench/predictor.c does."""
import argparse
import json
import os
import pathlib
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="build/predictor")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    run = parser.parse_args()
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    start = time.perf_counter()
    export = max((p for p in pathlib.Path(run.folder, "model").iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    model = tf.saved_model.load(str(export))
    predict = model.signatures["predict"]
    print(json.dumps({"load_secs": round(time.perf_counter() - start, 4)}), flush=True)
    records = tf.data.TFRecordDataset([f"{run.folder}/examples.tfrecord"]).take(run.batch)
    examples = tf.constant([r.numpy() for r in records])
    for _ in range(20):
        predict(examples=examples)
    for _ in range(run.turns):
        times, begin = [], time.perf_counter()
        now = begin
        while now - begin < run.seconds:
            before = now
            predict(examples=examples)["probabilities"].numpy()
            now = time.perf_counter()
            times.append(now - before)
        times.sort()
        print(json.dumps({"name": "tensorflow", "batch": run.batch, "calls_per_sec": round(len(times) / (now - begin), 1),
                          "p50_us": round(1e6 * times[len(times) // 2], 2), "p99_us": round(1e6 * times[len(times) * 99 // 100], 2)}),
              flush=True)


if __name__ == "__main__":
    main()
