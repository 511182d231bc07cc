#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow side of tensorflow_files.c.

tensorflow_files.py write <folder>   TensorFlow writes checkpoints and says what is in them
tensorflow_files.py check <folder>   TensorFlow reads ours and compares with what we say is in them

What is in a checkpoint is said by <prefix>.list: a line a tensor, "name dtype dim dim ...", and beside it
<prefix>.list.<line>, its bytes; a string is its size (uint32) and its bytes.
"""
import os
import struct
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def encode(value):
    if value.dtype.kind in "OS":
        return b"".join(struct.pack("<I", len(s)) + s for s in value.reshape(-1).tolist())
    return value.tobytes()


def dtype_name(value):
    return "string" if value.dtype.kind in "OS" else value.dtype.name


def say(prefix):
    with open(prefix + ".list", "w", encoding="utf-8") as out:
        for i, (name, _) in enumerate(tf.train.list_variables(prefix)):
            value = np.asarray(tf.train.load_variable(prefix, name))
            out.write(" ".join([name, dtype_name(value), *map(str, value.shape)]) + "\n")
            with open(f"{prefix}.list.{i}", "wb") as raw:
                raw.write(encode(value))


def part(value):
    return lambda shape, dtype, partition_info: tf.constant(
        value[tuple(slice(o, o + n) for o, n in zip(partition_info.var_offset, shape))])


def save(prefix, seed, n_parts, axis):
    """A checkpoint of the v1 Saver."""
    random = np.random.default_rng(seed)
    with tf.Graph().as_default(), v1.Session() as session:
        for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8):
            for i, shape in enumerate([(), (3,), (0, 2), (17, 5), (2, 3, 1, 4)]):
                value = np.asarray(random.integers(0, 200, shape)).astype(dtype)
                v1.get_variable(f"scope/{np.dtype(dtype).name}_{i}", initializer=tf.constant(value))
        v1.get_variable("flags", initializer=tf.constant(random.integers(0, 2, (9,)).astype(bool)))
        v1.get_variable("large", initializer=tf.constant(random.standard_normal((1000, 300)).astype(np.float32)))
        sizes = (0, 1, 127, 128, 20000, 3)
        words = np.array([bytes(random.integers(0, 256, n).astype(np.uint8)) for n in sizes], object)
        v1.get_variable("words", initializer=tf.constant(words.reshape(2, 3)), use_resource=False)
        emb = random.standard_normal((50, 12)).astype(np.float32)
        v1.get_variable("emb", shape=emb.shape, initializer=part(emb),
                        partitioner=v1.fixed_size_partitioner(n_parts, axis=axis))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, prefix, write_meta_graph=False, write_state=False)
    say(prefix)


def merge(prefix):
    """Two saves merged into a checkpoint of two data files, with the halves of one tensor in each."""
    parts = [f"{prefix}_part{i}" for i in range(2)]
    for i, name in enumerate(parts):
        half = tf.constant(np.arange(12).reshape(3, 4).astype(np.float32) + 100 * i)
        tf.raw_ops.SaveV2(prefix=name, tensor_names=["split", f"own{i}"],
                          shape_and_slices=[f"6 4 {3 * i},3:0,4", ""], tensors=[half, tf.constant([i, i, i])])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)
    say(prefix)


def write(folder):
    save(folder + "/rows", 1, 7, 0)
    save(folder + "/columns", 2, 5, 1)
    merge(folder + "/merged")
    objects = tf.train.Checkpoint(v=tf.Variable([1.5, 2.5]))
    tf.train.CheckpointManager(objects, folder, max_to_keep=3, checkpoint_name="object").save()


def check_checkpoint(prefix):
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    with open(prefix + ".list", encoding="utf-8") as lines:
        wanted = [line.split() for line in lines]
    assert sorted(shapes) == sorted(w[0] for w in wanted), (shapes, wanted)
    for i, (name, dtype, *dims) in enumerate(wanted):
        value = np.asarray(reader.get_tensor(name))
        assert dtype_name(value) == dtype, (name, value.dtype, dtype)
        assert [str(d) for d in value.shape] == dims, (name, value.shape, dims)
        with open(f"{prefix}.list.{i}", "rb") as raw:
            assert encode(value) == raw.read(), name


def check_restore(prefix):
    """The v1 Saver restores our partitioned tensor into a variable that is cut in another way."""
    want = tf.train.load_variable(prefix, "emb")
    with tf.Graph().as_default(), v1.Session() as session:
        emb = v1.get_variable("emb", shape=want.shape, partitioner=v1.fixed_size_partitioner(4, axis=0))
        v1.train.Saver().restore(session, prefix)
        assert (session.run(tf.convert_to_tensor(emb)) == want).all()


def check_events(folder):
    [path] = [os.path.join(folder, f) for f in os.listdir(folder) if "tfevents" in f]
    events = list(v1.train.summary_iterator(path))
    assert events[0].file_version == "brain.Event:2"
    assert events[1].session_log.status == v1.SessionLog.START
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.util import tensor_util
    runs = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.TENSORS: 0})
    runs.Reload()
    assert [(s.step, s.value) for s in runs.Scalars("loss")] == [(10, 0.5), (20, 0.25)]
    assert runs.Histograms("weights")[0].histogram_value.num == 1000
    assert runs.Images("picture")[0].width == 1
    assert runs.Graph().node[0].name == "n"
    assert tensor_util.make_ndarray(runs.Tensors("v2/loss")[0].tensor_proto) == 0.5
    assert tensor_util.make_ndarray(runs.Tensors("v2/weights")[0].tensor_proto).shape == (30, 3)
    assert tensor_util.make_ndarray(runs.Tensors("note")[0].tensor_proto).item() == b"hello"
    assert runs.SummaryMetadata("note").plugin_data.plugin_name == "text"

    want = [e for e in events if e.summary.value and e.summary.value[0].tag == "weights"][0].summary.value[0].histo
    with tf.Graph().as_default(), v1.Session() as session:
        values = np.arange(1000, dtype=np.float64) * 0.37 - 100
        theirs = v1.Summary.FromString(session.run(v1.summary.histogram("weights", values))).value[0].histo
    assert list(theirs.bucket_limit) == list(want.bucket_limit) and list(theirs.bucket) == list(want.bucket)


def check(folder):
    for name in ("single", "merged"):
        check_checkpoint(folder + "/" + name)
        check_restore(folder + "/" + name)
    state = tf.train.get_checkpoint_state(folder)
    assert list(state.all_model_checkpoint_paths) == [folder + "/single", folder + "/merged"], state
    assert tf.train.latest_checkpoint(folder) == folder + "/merged"
    check_events(folder + "/events")


{"write": write, "check": check}[sys.argv[1]](sys.argv[2])
