# SPDX-License-Identifier: Apache-2.0
"""tf.keras.datasets.imdb"""
from __future__ import annotations

import numpy as _np

from ..._absent import module_getattr as _module_getattr
from . import _kept


def load_data(path: str = "imdb.npz", num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
              seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2, index_from: int = 3):
    """(train texts, train labels), (test texts, test labels): texts are lists of the ids of words."""
    random = _np.random.RandomState(seed)
    with _kept.arrays(path) as file:
        (train, train_labels), (test, test_labels) = (_kept.shuffled(file[f"x_{part}"], file[f"y_{part}"], random)
                                                      for part in ("train", "test"))
    return _kept.texts([*train, *test], _np.concatenate([train_labels, test_labels]),
                       lambda kept: int((kept < len(train)).sum()), num_words, skip_top, maxlen, start_char, oov_char,
                       index_from)


def get_word_index(path: str = "imdb_word_index.json") -> dict[str, int]:
    """The rank of every word, from 1."""
    return _kept.word_index(path)


__getattr__ = _module_getattr(__name__)
