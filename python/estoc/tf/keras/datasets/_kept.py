# SPDX-License-Identifier: Apache-2.0
"""Data sets that Keras keeps in ~/.keras/datasets: nothing is downloaded."""
from __future__ import annotations

import json
import os
import pickle
from typing import Any, Callable

import numpy as np

_FOLDER = os.path.join(os.path.expanduser("~"), ".keras", "datasets")


def path_of(name: str) -> str:
    """Where a file is, which must be there."""
    path = os.path.join(_FOLDER, name)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there, and nothing is downloaded: put the file that Keras fetches "
                                "there")
    return path


def arrays(name: str) -> Any:
    return np.load(path_of(name), allow_pickle=True)


def word_index(name: str) -> dict[str, int]:
    with open(path_of(name), encoding="utf-8") as file:
        return json.load(file)


def texts(xs: Any, labels: np.ndarray, cut: Callable[[np.ndarray], int], num_words: int | None, skip_top: int,
          maxlen: int | None, start_char: int | None, oov_char: int | None, index_from: int) -> tuple:
    """Ranks of words as ids, numbered as Keras does it; `cut` says how many of the rows that are kept are for
    training."""
    more = index_from if start_char is not None or index_from else 0
    head = [] if start_char is None else [start_char]
    rows = [head + [word + more for word in row] for row in xs]
    kept = np.array([i for i, row in enumerate(rows) if not maxlen or len(row) < maxlen], dtype=np.int64)
    if not len(kept):
        raise ValueError(f"no text is shorter than maxlen={maxlen}")
    top = num_words or max(max(rows[i]) for i in kept)
    found = np.empty(len(kept), dtype=object)
    for at, i in enumerate(kept):
        found[at] = [word if skip_top <= word < top else oov_char for word in rows[i]
                     if oov_char is not None or skip_top <= word < top]
    n = cut(kept)
    return (found[:n], labels[kept][:n]), (found[n:], labels[kept][n:])


def shuffled(xs: Any, labels: Any, random: np.random.RandomState) -> tuple:
    order = np.arange(len(xs))
    random.shuffle(order)
    return xs[order], labels[order]


def batch_of_images(path: str, label: str) -> tuple[np.ndarray, list]:
    """A file of the CIFAR data sets."""
    with open(path, "rb") as file:
        found = {key.decode(): value for key, value in pickle.load(file, encoding="bytes").items()}
    return found["data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), found[label]
