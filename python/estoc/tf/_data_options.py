# SPDX-License-Identifier: Apache-2.0
"""tf.data.Options."""
from __future__ import annotations

import enum
from typing import Any

AUTOTUNE = -1
INFINITE, UNKNOWN = -1, -2  # cardinalities


class AutoShardPolicy(enum.IntEnum):
    """How workers share a dataset (tf.data.experimental.AutoShardPolicy)."""

    OFF, AUTO, FILE, DATA, HINT = -1, 0, 1, 2, 3


class _Distribute:
    """Options.experimental_distribute"""

    __slots__ = ("_policy",)

    def __init__(self) -> None:
        self._policy = AutoShardPolicy.AUTO

    @property
    def auto_shard_policy(self) -> AutoShardPolicy:
        return self._policy

    @auto_shard_policy.setter
    def auto_shard_policy(self, value: Any) -> None:
        if AutoShardPolicy(value) == AutoShardPolicy.HINT:
            raise NotImplementedError("AutoShardPolicy.HINT does not exist; OFF, AUTO, FILE and DATA do")
        self._policy = AutoShardPolicy(value)


class _Hints:
    """Options that change how fast TensorFlow's pipelines are, and nothing of their elements: any may be set."""


class Options:
    """tf.data.Options. Order and elements never depend on threads here, so `deterministic` is always True."""

    __slots__ = ("experimental_distribute", "deterministic", "autotune", "experimental_optimization",
                 "experimental_threading", "threading", "experimental_slack", "experimental_deterministic",
                 "experimental_warm_start")

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, None)
        self.experimental_distribute = _Distribute()
        self.autotune, self.experimental_optimization = _Hints(), _Hints()
        self.experimental_threading = self.threading = _Hints()
