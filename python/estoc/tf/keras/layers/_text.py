# SPDX-License-Identifier: Apache-2.0
"""TextVectorization: texts to numbers of words. In a graph it is one of operations; with a function of the program that
standardizes or splits it works on values: before a model, or as the first layer of a Sequential one, which calls it with
what it is given."""
from __future__ import annotations

import string
from collections import Counter
from typing import Any, Iterable

import numpy as np

from .... import ops
from ...._lib import ffi, lib
from ...._tensor import as_array
from ....graph import NeedsValue, Node
from ..._eager import Tensor, unwrap
from .._layer import Layer, refuse

_PUNCTUATION = string.punctuation.encode()
_MODES = ("int", "multi_hot", "count", "tf_idf")
_OOV = "[UNK]"


class TextVectorization(Layer):
    """Texts to ids of their words, or to a count of each word, in the order of the vocabulary."""

    _scoped = False

    def __init__(self, max_tokens: int | None = None, standardize: Any = "lower_and_strip_punctuation",
                 split: Any = "whitespace", ngrams: Any = None, output_mode: str = "int",
                 output_sequence_length: int | None = None, pad_to_max_tokens: bool = False, vocabulary: Any = None,
                 idf_weights: Any = None, sparse: bool = False, ragged: bool = False, encoding: str = "utf-8",
                 **named: Any):
        refuse(sparse=sparse, ragged=ragged, encoding=None if encoding.lower() in ("utf-8", "utf8") else encoding)
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(f"If set, `max_tokens` must be greater than 1. Received: max_tokens={max_tokens}")
        if standardize not in (None, "lower_and_strip_punctuation", "lower", "strip_punctuation") and \
                not callable(standardize):
            raise ValueError(f"Unknown argument for standardize: {standardize!r}")
        if split not in (None, "whitespace", "character") and not callable(split):
            raise ValueError(f"Unknown argument for split: {split!r}")
        output_mode = {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(output_mode, output_mode)  # older names
        if output_mode not in _MODES:
            raise ValueError(f"output_mode is one of {', '.join(_MODES)}, not {output_mode!r}")
        if output_mode != "int" and output_sequence_length is not None:
            raise ValueError("`output_sequence_length` must not be set if `output_mode` is not 'int'. Received: "
                             f"output_sequence_length={output_sequence_length}.")
        if split is None and (ngrams is not None or output_sequence_length is not None):
            raise NotImplementedError("TextVectorization: split=None with ngrams or output_sequence_length")
        super().__init__(**named)
        own = self.__dict__
        own.update(max_tokens=max_tokens, standardize=standardize, split=split, output_mode=output_mode,
                   output_sequence_length=output_sequence_length, pad_to_max_tokens=pad_to_max_tokens, built=True)
        own["ngrams"] = tuple(range(1, ngrams + 1)) if isinstance(ngrams, int) else ngrams
        own["_words"], own["_ids"], own["_idf"] = [], {}, None
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    # --- the vocabulary ---

    @property
    def _special(self) -> list[str]:
        return ["", _OOV] if self.output_mode == "int" else [_OOV]

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Words, with or without the special ones, or the path of a file of them."""
        if isinstance(vocabulary, str):
            with open(vocabulary, encoding="utf-8") as file:
                vocabulary = file.read().splitlines()
        words = [word.decode() if isinstance(word, bytes) else str(word) for word in np.asarray(as_array(unwrap(
            vocabulary))).tolist()]
        if words[:len(self._special)] == self._special:
            words = words[len(self._special):]
        if len(set(words)) < len(words):
            raise ValueError("The passed vocabulary has at least one repeated term.")
        if self.max_tokens is not None and len(words) + len(self._special) > self.max_tokens:
            raise ValueError(f"Attempted to set a vocabulary larger than the maximum vocab size. Passed vocab size is "
                             f"{len(words) + len(self._special)}, max vocab size is {self.max_tokens}.")
        if (self.output_mode == "tf_idf") != (idf_weights is not None):
            raise ValueError("`idf_weights` must be set exactly if output_mode is \"tf_idf\"")
        self._set(words, None if idf_weights is None else np.asarray(unwrap(idf_weights), np.float32))

    def _set(self, words: list[str], idf: Any) -> None:
        first = len(self._special)
        if idf is not None and len(idf) == len(words):
            idf = np.concatenate([[idf.mean() if len(idf) else 0], idf])
        self.__dict__.update(_words=words, _idf=idf,
                             _ids={word.encode(): i for i, word in enumerate(words, first)})

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Takes the words of a dataset or an array, the most frequent ones first, and of equal ones the last of the
        alphabet first."""
        from ...data import Dataset
        counts: Counter = Counter()
        documents: Counter = Counter()
        n = 0
        for i, batch in enumerate(data if isinstance(data, Dataset) else [data]):
            if steps is not None and i >= steps:
                break
            for words in self._split(batch)[0]:
                counts.update(words)
                documents.update(set(words))
                n += 1
        for special in self._special:
            counts.pop(special.encode(), None)
        found = sorted(counts, key=lambda word: (counts[word], word), reverse=True)
        if self.max_tokens is not None:
            found = found[:max(self.max_tokens - len(self._special), 0)]
        idf = None
        if self.output_mode == "tf_idf":
            idf = np.float32([np.log(1 + n / (1 + documents[word])) for word in found])
        self._set([word.decode() for word in found], idf)

    def reset_state(self) -> None:
        self._set([], None)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        return (self._special if include_special_tokens else []) + self._words

    def vocabulary_size(self) -> int:
        if self.pad_to_max_tokens and self.max_tokens is not None and self.output_mode != "int":
            return self.max_tokens
        return len(self._special) + len(self._words)

    def _made_as(self) -> tuple:
        """The arguments that make this layer again, with the words that adapt has found."""
        args, named = self._made_with
        if not self._words:
            return args, named
        named = {**named, "vocabulary": list(self._words)}
        return args, named if self._idf is None else {**named, "idf_weights": self._idf[1:]}

    # --- calls ---

    @property
    def needs_values(self) -> bool:
        """Whether functions of the program standardize or split, which may be any."""
        return callable(self.standardize) or callable(self.split)

    @property
    def has_any_length(self) -> bool:
        """Whether rows are as long as the longest of their batch."""
        return self.output_mode == "int" and self.split is not None and self.output_sequence_length is None

    def __call__(self, inputs: Any, *args: Any, **named: Any) -> Any:
        if isinstance(inputs, Node):
            if self.needs_values:
                raise NeedsValue(f"{self.name} calls a function of the program with texts: it can be the first layer of a "
                                 "Sequential model, or be called in Dataset.map or with arrays")
            return super().__call__(inputs)
        words, shape = self._split(inputs)
        self._check_words()
        if self.output_mode == "int" and self.split is None:
            return Tensor(self._padded(words).reshape(np.shape(as_array(unwrap(inputs)))))
        made = self._padded(words) if self.output_mode == "int" else self._counted(words)
        return Tensor(made.reshape(shape + made.shape[1:]))

    def _check_words(self) -> None:
        if not self._words:
            raise RuntimeError(f"{self.name} has no vocabulary: call adapt or set_vocabulary")

    def call(self, inputs: Node) -> Node:
        """In a graph."""
        self._check_words()
        shape = inputs.shape
        if shape is None or len(shape) > 2 or len(shape) == 2 and shape[1] != 1:
            raise ValueError("When using `TextVectorization` to tokenize strings, the input rank must be 1 or the last "
                             f"shape dimension must be 1. Received: inputs.shape={shape}")
        how = self.standardize or ""
        words, splits = ops.words(
            ops.reshape(inputs, [-1]), "lower" in how, "strip_punctuation" in how, self.split,
            ngrams=tuple(self.ngrams or ()))
        first = len(self._special)
        known = np.array([word.encode() for word in self._words], dtype=object)
        found = ops.lookup(words, known)
        ids = ops.where(ops.less(found, 0), np.int64(first - 1), found + first)
        if self.output_mode == "int":  # an empty word is padding
            ids = ops.where(ops.equal(ops.string_length(words), 0), np.int64(0), ids)
            if self.split is None:
                return ops.reshape(ids, [-1 if size is None else size for size in shape])
        graph = inputs.graph
        if self.output_mode != "int":
            depth = self.vocabulary_size()
            made = graph.node(lib.est_multi_hot((ids._c, splits._c), ffi.new("est_node *")[0], depth))
            if self.output_mode == "multi_hot":
                made = ops.minimum(made, 1.0)
            elif self.output_mode == "tf_idf":
                made = made * graph.constant(np.pad(np.float32(self._idf), (0, depth - len(self._idf))))
            sizes = [depth]
        else:
            made = graph.node(lib.est_ragged_to_dense((ids._c, splits._c), 0.0))
            wide = self.output_sequence_length
            if wide is not None:
                made = ops.slice(ops.pad(made, [[0, 0], [0, wide]]), [0, 0], [-1, wide])
            sizes = [-1] if wide is None else [wide]
        return ops.reshape(made, sizes) if len(shape) == 0 else made

    def _split(self, inputs: Any) -> tuple[list[list[bytes]], tuple]:
        """The words of each text, and the shape of the texts without a last axis of 1."""
        texts = np.asarray(as_array(unwrap(inputs)))
        if texts.ndim > 1:
            if texts.shape[-1] != 1:
                raise ValueError("When using `TextVectorization` to tokenize strings, the input rank must be 1 or the "
                                 f"last shape dimension must be 1. Received: inputs.shape={texts.shape} "
                                 f"with rank={texts.ndim}")
            texts = texts[..., 0]
        if callable(self.standardize):
            texts = np.asarray(as_array(unwrap(self.standardize(Tensor(texts)))))
        flat = [text if isinstance(text, bytes) else str(text).encode() for text in texts.reshape(-1).tolist()]
        return [self._with_ngrams(self._words_of(text)) for text in flat], texts.shape

    def _words_of(self, text: bytes) -> list[bytes]:
        if self.standardize in ("lower", "lower_and_strip_punctuation"):
            text = text.lower()  # as tf.strings.lower: of ASCII
        if self.standardize in ("strip_punctuation", "lower_and_strip_punctuation"):
            text = text.translate(None, _PUNCTUATION)
        if self.split is None:
            return [text]
        if self.split == "whitespace":
            return text.split()
        if self.split == "character":
            return [character.encode() for character in text.decode()]
        found = self.split(Tensor(np.array([text], dtype=object)))
        return [bytes(word) for word in np.ravel(as_array(unwrap(getattr(found, "values", found)))).tolist()]

    def _with_ngrams(self, words: list[bytes]) -> list[bytes]:
        if self.ngrams is None:
            return words
        return [b" ".join(words[i:i + n]) for n in self.ngrams for i in range(len(words) - n + 1)]

    def _numbers(self, words: Iterable[bytes]) -> list[int]:
        unknown = len(self._special) - 1
        return [0 if word == b"" and unknown else self._ids.get(word, unknown) for word in words]

    def _padded(self, texts: list) -> np.ndarray:
        wide = self.output_sequence_length
        if wide is None:
            wide = max(map(len, texts), default=0)
        found = np.zeros((len(texts), wide), np.int64)
        for i, words in enumerate(texts):
            ids = self._numbers(words[:wide])
            found[i, :len(ids)] = ids
        return found

    def _counted(self, texts: list) -> np.ndarray:
        found = np.zeros((len(texts), self.vocabulary_size()), np.float32)
        for i, words in enumerate(texts):
            np.add.at(found[i], self._numbers(words), 1)
        if self.output_mode == "multi_hot":
            return np.minimum(found, 1)
        if self.output_mode == "tf_idf":
            found[:, :len(self._idf)] *= np.float32(self._idf)
        return found
