# SPDX-License-Identifier: Apache-2.0
"""tf.types"""
import abc as _abc
from typing import Any as _Any

from ._absent import module_getattr as _module_getattr


class _TraceType(_abc.ABC):
    """What an object that a tf.function is given counts as: those with equal ones share a trace. An object has one with a
    method __tf_tracing_type__(context)."""

    @_abc.abstractmethod
    def is_subtype_of(self, other: _Any) -> bool:
        """Whether a trace for the other fits this, too."""

    @_abc.abstractmethod
    def most_specific_common_supertype(self, others: _Any) -> _Any:
        """One that fits all of them."""

    @_abc.abstractmethod
    def placeholder_value(self, placeholder_context: _Any) -> _Any:
        """What the function is traced with."""

    @_abc.abstractmethod
    def __hash__(self) -> int:
        """Equal ones have one."""

    @_abc.abstractmethod
    def __eq__(self, other: _Any) -> bool:
        """Whether a trace for the other is one for this."""


class experimental:  # noqa: N801 - a module in TensorFlow
    """tf.types.experimental"""

    TraceType = _TraceType


__getattr__ = _module_getattr(__name__)
