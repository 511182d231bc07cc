# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of fingerprint.c."""
import random
import struct
import sys

import interop
import tensorflow as tf

# TensorFlow gives hashes only modulo a number of buckets; two numbers without a common divisor pin all 64 bits.
BUCKETS = (2 ** 63 - 1, 2 ** 63 - 25)


def strings():
    rng = random.Random(1)
    return [rng.randbytes(n) for n in range(1000) for _ in range(9)] + [rng.randbytes(rng.randrange(5000))
                                                                      for _ in range(1000)]


def crosses():
    """Columns of one value a row, [(kind, [values])], of the same length."""
    rng = random.Random(2)
    for kinds in ("ss", "is", "ii", "sis", "ssss", "iii"):
        columns = []
        for kind in kinds:
            if kind == "i":
                columns.append((kind, [rng.getrandbits(64) - 2 ** 63 for _ in range(200)]))
            else:
                columns.append((kind, [rng.randbytes(rng.randrange(40)) for _ in range(200)]))
        yield columns


def said(folder, name):
    return [struct.unpack("<Q", blob)[0] for blob in interop.read_blobs(f"{folder}/{name}.said")]


def write_strings(folder):
    interop.write_blobs(folder + "/strings", strings())


def check_strings(folder):
    ours = said(folder, "strings")
    for buckets in BUCKETS + (1000,):
        theirs = tf.strings.to_hash_bucket_fast(strings(), buckets).numpy().tolist()
        assert theirs == [h % buckets for h in ours], buckets


def write_crosses(folder):
    rows = []
    for columns in crosses():
        for row in zip(*[values for _, values in columns]):
            parts = [part for (kind, _), value in zip(columns, row)
                     for part in (kind.encode(), struct.pack("<q", value) if kind == "i" else value)]
            rows.append(b"".join(map(interop.blob, parts)))
    interop.write_blobs(folder + "/crosses", rows)


def check_crosses(folder):
    ours = said(folder, "crosses")
    for columns in crosses():
        inputs = [tf.constant(values, tf.int64 if kind == "i" else tf.string)[:, None] for kind, values in columns]
        for buckets in BUCKETS + (1000,):
            theirs = tf.sparse.cross_hashed(inputs, buckets).values.numpy().tolist()
            assert theirs == [h % buckets for h in ours[:len(theirs)]], (buckets, [kind for kind, _ in columns])
        ours = ours[len(theirs):]
    assert not ours


interop.serve(sys.modules[__name__])
