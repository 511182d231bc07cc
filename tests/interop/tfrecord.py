# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of tfrecord.c."""
import random
import sys

import interop
import tensorflow as tf

KINDS = {"none": "", "zlib": "ZLIB", "gzip": "GZIP"}


def records():
    rng = random.Random(1)
    sizes = [0, 1, 12, 16, 0, 100000, 1 << 20] + [rng.randrange(3000) for _ in range(200)]
    return [rng.randbytes(n) if n % 3 else bytes([n % 251]) * n for n in sizes]


def write(folder):
    interop.write_blobs(folder + "/records", records())
    for name, compression in KINDS.items():
        with tf.io.TFRecordWriter(f"{folder}/theirs.{name}", compression) as writer:
            for record in records():
                writer.write(record)


def check_read(folder):
    for name in KINDS:
        for way in "read", "guessed":
            assert interop.read_blobs(f"{folder}/{way}.{name}") == records(), (way, name)


def check_written(folder):
    for name, compression in KINDS.items():
        found = [r.numpy() for r in tf.data.TFRecordDataset(f"{folder}/ours.{name}", compression)]
        assert found == records(), name
    with open(folder + "/ours.none", "rb") as ours, open(folder + "/theirs.none", "rb") as theirs:
        assert ours.read() == theirs.read()


# A file that ends within the 12 bytes before a record has lost something: we say so, TensorFlow takes it for the end.
STRICTER = [b"cut.%d" % (start + i) for start in (0, 19, 35) for i in range(1, 12)]


def damage(folder):
    with tf.io.TFRecordWriter(folder + "/small") as writer:
        for record in (b"one", b"", b"three three"):
            writer.write(record)
    with open(folder + "/small", "rb") as file:
        good = file.read()
    names = []
    for i in range(len(good)):
        for name, data in ((f"cut.{i}", good[:i]),
                           (f"flip.{i}", good[:i] + bytes([good[i] ^ 1 << i % 8]) + good[i + 1:])):
            with open(f"{folder}/{name}", "wb") as file:
                file.write(data)
            names.append(name)
    interop.write_blobs(folder + "/damaged", [n.encode() for n in names])


def theirs(path):
    """How many records TensorFlow reads, and how it ends."""
    n = 0
    try:
        for _ in tf.data.TFRecordDataset(path):
            n += 1
    except tf.errors.DataLossError:
        return f"{n} DATA_LOSS"
    return f"{n} end"


def check_damaged(folder):
    names = interop.read_blobs(folder + "/damaged")
    found = interop.read_blobs(folder + "/found")
    for name, ours in zip(names, found, strict=True):
        want = theirs(f"{folder}/{name.decode()}")
        if name in STRICTER:
            assert want.endswith("end"), name
            want = want.replace("end", "DATA_LOSS")
        assert ours.decode() == want, f"{name}: we find {ours}, TensorFlow {want}"


interop.serve(sys.modules[__name__])
