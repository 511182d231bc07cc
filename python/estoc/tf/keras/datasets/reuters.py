# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.reuters"""
from __future__ import annotations

import numpy as _np

from ..._absent import module_getattr as _module_getattr
from . import _kept


def load_data(path: str = "reuters.npz", num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
              test_split: float = 0.2, seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2,
              index_from: int = 3):
    """(train texts, train labels), (test texts, test labels): texts are lists of the ids of words."""
    with _kept.arrays(path) as file:
        xs, labels = _kept.shuffled(file["x"], file["y"], _np.random.RandomState(seed))
    return _kept.texts(xs, labels, lambda kept: int(len(kept) * (1 - test_split)), num_words, skip_top, maxlen,
                       start_char, oov_char, index_from)


def get_word_index(path: str = "reuters_word_index.json") -> dict[str, int]:
    """The rank of every word, from 1."""
    return _kept.word_index(path)


__getattr__ = _module_getattr(__name__)
