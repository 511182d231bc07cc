# SPDX-License-Identifier: Apache-2.0
"""tf.keras.mixed_precision: layers of the library multiply numbers rounded to bfloat16; all else stays float32."""
from __future__ import annotations

from typing import Any

from .._absent import module_getattr as _module_getattr

__all__ = ["Policy", "global_policy", "set_global_policy"]

_REFUSED = {
    "mixed_float16": "there are no float16 products; \"mixed_bfloat16\" needs no loss scaling",
    "float16": "variables are float32 or float64; \"mixed_bfloat16\" multiplies in bfloat16",
    "bfloat16": "variables are float32 or float64; \"mixed_bfloat16\" multiplies in bfloat16",
}


class Policy:
    """What a layer computes with: "float32", "float64" or "mixed_bfloat16"."""

    def __init__(self, name: str):
        if name in _REFUSED:
            raise ValueError(f"the policy {name!r} does not exist: {_REFUSED[name]}")
        if name not in ("float32", "float64", "mixed_bfloat16"):
            raise ValueError(f"Cannot convert value {name!r} to a mixed precision Policy: it is \"float32\", "
                             "\"float64\" or \"mixed_bfloat16\"")
        self.name = name

    is_mixed = property(lambda self: self.name == "mixed_bfloat16")
    compute_dtype = property(lambda self: "bfloat16" if self.is_mixed else self.name)
    variable_dtype = property(lambda self: "float32" if self.is_mixed else self.name)

    def __repr__(self) -> str:
        return f'<Policy "{self.name}">'

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Policy) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def get_config(self) -> dict:
        return {"name": self.name}

    @classmethod
    def from_config(cls, config: dict) -> Policy:
        return cls(**config)


_policy = Policy("float32")


def global_policy() -> Policy:
    """The policy of layers that are made without a dtype."""
    return _policy


def set_global_policy(policy: Policy | str | None) -> None:
    """Sets the policy of layers that are made from now on; None: float32."""
    global _policy
    _policy = policy if isinstance(policy, Policy) else Policy(policy or "float32")


__getattr__ = _module_getattr(__name__, {
    "LossScaleOptimizer": "the policy \"mixed_bfloat16\", whose gradients have the range of float32 and need no scaling"})
