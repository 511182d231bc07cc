# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's side of preprocessing.c."""
import random
import sys

import interop
import numpy as np
import tensorflow as tf

OPTIONS = {"plain": {}, "mask": {"mask_token": ""}, "several": {"mask_token": "", "num_oov_indices": 5},
           "unmasked": {"num_oov_indices": 3}, "few": {"mask_token": "", "num_oov_indices": 2, "max_tokens": 20}}


def words():
    """Many words of the same count, prefixes of each other among them, with letters beyond ASCII."""
    rng = random.Random(1)
    some = ["".join(rng.choices("abZ \u00e9\u4e2d", k=rng.randrange(4))) for _ in range(400)]
    return [word.encode() for word in some + ["[UNK]"] * 3]


def asked():
    rng = random.Random(2)
    return words() + [b"", b"[UNK]"] + [b"other" + str(rng.random()).encode() for _ in range(300)]


def write_words(folder):
    interop.write_blobs(folder + "/words", words())
    interop.write_blobs(folder + "/asked", asked())


def check_words(folder):
    for name, options in OPTIONS.items():
        layer = tf.keras.layers.StringLookup(**options)
        layer.adapt(tf.data.Dataset.from_tensor_slices(words()).batch(7))
        ours = interop.read_tensors(f"{folder}/{name}")
        theirs = [word.encode() for word in layer.get_vocabulary()]
        assert ours["words"].tolist() == theirs, (name, ours["words"].tolist(), theirs)
        assert np.array_equal(ours["ids"], layer(tf.constant(asked())).numpy()), name


interop.serve(sys.modules[__name__])
