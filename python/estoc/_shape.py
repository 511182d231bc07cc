# SPDX-License-Identifier: Apache-2.0
"""Static shapes of tensors."""
from __future__ import annotations

from typing import Any

import numpy as np


class Shape(tuple):
    """A static shape: a tuple whose unknown dimensions are None. Shape(None) has not even a known rank, and is the only
    one that is false."""

    _known = True

    def __new__(cls, dims: Any = ()) -> "Shape":
        if isinstance(dims, (int, np.integer)):
            dims = (dims,)
        known = dims is not None and getattr(dims, "_known", True)
        made = super().__new__(cls, (_size(dim) for dim in dims) if known else ())
        if not known:
            made._known = False
        return made

    @property
    def rank(self) -> int | None:
        return tuple.__len__(self) if self._known else None

    ndims = rank

    @property
    def dims(self) -> "list[Dimension] | None":
        return [Dimension(dim) for dim in self] if self._known else None

    def as_list(self) -> list[int | None]:
        if not self._known:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self)

    def is_fully_defined(self) -> bool:
        return self._known and not any(dim is None for dim in self)

    def num_elements(self) -> int | None:
        return int(np.prod(self, dtype=np.int64)) if self.is_fully_defined() else None

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor may have both shapes."""
        other = Shape(other)
        return not (self._known and other._known) or len(self) == len(other) and all(
            None in (a, b) or a == b for a, b in zip(self, other))

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {Shape(other)} are incompatible")

    def assert_has_rank(self, rank: int) -> None:
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def with_rank(self, rank: int) -> "Shape":
        """The shape, which must have this rank, or may get it."""
        return self.merge_with([None] * rank)

    def merge_with(self, other: Any) -> "Shape":
        """What is known of either."""
        other = Shape(other)
        self.assert_is_compatible_with(other)
        if not self._known or not other._known:
            return self if self._known else other
        return Shape(b if a is None else a for a, b in zip(self, other))

    def concatenate(self, other: Any) -> "Shape":
        """The dimensions of both, one after the other."""
        other = Shape(other)
        return Shape(tuple(self) + tuple(other)) if self._known and other._known else Shape(None)

    __add__ = concatenate

    def __radd__(self, other: Any) -> "Shape":
        return Shape(other).concatenate(self)

    def __getitem__(self, index: Any) -> Any:
        if not self._known:
            return Shape(None) if isinstance(index, slice) else None
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else found

    def __iter__(self) -> Any:
        if not self._known:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return tuple.__iter__(self)

    def __len__(self) -> int:
        if not self._known:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return tuple.__len__(self)

    def __bool__(self) -> bool:
        return self._known

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, (tuple, list)):
            return False
        known = getattr(other, "_known", True)
        return self._known == known and (not known or tuple(self) == tuple(other))

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __str__(self) -> str:
        return str(tuple(self)) if self._known else "<unknown>"

    def __repr__(self) -> str:
        return f"TensorShape({list(self) if self._known else None})"

    def __reduce__(self) -> Any:
        return Shape, (tuple(self) if self._known else None,)


class Dimension:
    """A dimension of a shape as an object, as TensorFlow 1 has it; value is None if it is not known."""

    def __init__(self, value: Any):
        self.value = _size(value)

    def is_compatible_with(self, other: Any) -> bool:
        return None in (self.value, Dimension(other).value) or self.value == Dimension(other).value

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {Dimension(other)} are not compatible")

    def merge_with(self, other: Any) -> "Dimension":
        """What is known of either."""
        self.assert_is_compatible_with(other)
        return Dimension(Dimension(other).value if self.value is None else self.value)

    def __eq__(self, other: Any) -> Any:
        other = Dimension(other).value
        return None if None in (self.value, other) else self.value == other

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return None if equal is None else not equal

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)

    def __repr__(self) -> str:
        return f"Dimension({self.value})"


def _size(dim: Any) -> int | None:
    """A dimension as a number; None: unknown."""
    if isinstance(dim, Dimension):
        dim = dim.value
    return None if dim is None or isinstance(dim, (int, np.integer)) and dim < 0 else int(dim)
