#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes these files of this folder with TensorFlow (2.15.1 was used): python3 make_checkpoint.py <folder>.

tensorflow.ckpt.*   a checkpoint of the v1 Saver: every dtype, strings, a scalar, an empty tensor, partitioned variables
half.ckpt.*         a checkpoint with a dtype that Estoc does not know, float16
checkpoint          the state file the Saver leaves
tensorflow.events   an event file of both summary APIs
"""
import glob
import os
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def checkpoint(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        def var(name, value):
            return v1.get_variable(name, initializer=tf.constant(value), use_resource=True)

        var("b", np.array([1, 2, 3], np.float32))
        var("d", np.array([[0.1, -1e300]], np.float64))
        var("empty", np.zeros([0, 4], np.float32))
        var("flags", np.array([True, False, True]))
        var("global_step", np.int64(7))
        var("i", np.array([[-1], [2**31 - 1]], np.int32))
        var("u", np.array([0, 127, 255], np.uint8))
        var("w", np.arange(6, dtype=np.float32).reshape(2, 3))
        v1.get_variable("names", initializer=tf.constant(["ab", "", "xyz", "\u00e9" * 100]), use_resource=False)
        rows = np.arange(40, dtype=np.float32).reshape(10, 4)
        v1.get_variable("emb", shape=[10, 4], partitioner=v1.fixed_size_partitioner(3),
                        initializer=lambda shape, dtype, partition_info: tf.constant(
                            rows[partition_info.var_offset[0]:partition_info.var_offset[0] + shape[0]]))
        columns = np.arange(70, dtype=np.float64).reshape(7, 10)
        v1.get_variable("wide", shape=[7, 10], dtype=tf.float64,
                        partitioner=v1.fixed_size_partitioner(4, axis=1),
                        initializer=lambda shape, dtype, partition_info: tf.constant(
                            columns[:, partition_info.var_offset[1]:partition_info.var_offset[1] + shape[1]]))
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(save_relative_paths=True)
        saver.save(session, folder + "/tensorflow.ckpt", write_meta_graph=False)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("half", initializer=tf.constant([1, 2], tf.float16))
        v1.get_variable("plain", initializer=tf.constant([1, 2], tf.float32))
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        saver.save(session, folder + "/half.ckpt", write_meta_graph=False, write_state=False)


def events(folder):
    temp = folder + "/temp"
    with tf.Graph().as_default(), v1.Session() as session:
        writer = v1.summary.FileWriter(temp)
        values = np.array([-3.5, -1e-13, 0, 0, 1e-12, 0.25, 0.25, 1, 2, 1e30], np.float64)
        writer.add_summary(session.run(v1.summary.scalar("loss", tf.constant(0.5))), 10)
        writer.add_summary(session.run(v1.summary.histogram("weights", values)), 10)
        writer.add_summary(session.run(v1.summary.text("note", tf.constant("hello"))), 11)
        image = np.zeros([1, 2, 3, 1], np.uint8)
        writer.add_summary(session.run(v1.summary.image("picture", image)), 12)
        writer.add_session_log(v1.SessionLog(status=v1.SessionLog.CHECKPOINT, checkpoint_path="model.ckpt-12"), 12)
        writer.close()
    [path] = glob.glob(temp + "/*")
    records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    shutil.rmtree(temp)
    writer = tf.summary.create_file_writer(temp)
    with writer.as_default(step=20):
        tf.summary.scalar("v2/loss", 0.25)
        tf.summary.text("v2/note", "hello again")
    writer.close()
    [path] = glob.glob(temp + "/*")
    records += list(tf.data.TFRecordDataset(path).as_numpy_iterator())[1:]
    shutil.rmtree(temp)
    with tf.io.TFRecordWriter(folder + "/tensorflow.events") as out:
        for record in records:
            event = v1.Event.FromString(record)
            event.wall_time = 1700000000.25  # so that the file is the same each time
            event.ClearField("source_metadata")
            out.write(event.SerializeToString(deterministic=True))


checkpoint(sys.argv[1])
events(sys.argv[1])
