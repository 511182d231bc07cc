# SPDX-License-Identifier: Apache-2.0
"""What layers of several inputs make of their masks."""
from __future__ import annotations

import functools
from typing import Any

from .... import ops


class OfAll:
    """Layers that join their inputs element by element: a step counts where all inputs with a mask have it."""

    _supports_masking = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        known = [one for one in mask or () if one is not None]
        return functools.reduce(ops.logical_and, known) if known else None


class OneAfterTheOther:
    """Concatenate: steps of all inputs in turn, or those that count in all."""

    _supports_masking = True
    axis: int

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None or all(one is None for one in mask):
            return None
        of_values = [self._of_values(node, one) for node, one in zip(inputs, mask)]
        return ops.reduce_all(ops.concat(of_values, self.axis), -1)

    @staticmethod
    def _of_values(node: Any, mask: Any) -> Any:
        """One truth value for each step, or each value, of an input."""
        if mask is None:
            return ops.ones_like(node[..., :1], "bool")
        return mask if len(mask.shape) == len(node.shape) else ops.expand_dims(mask, -1)
