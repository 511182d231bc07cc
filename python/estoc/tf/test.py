# SPDX-License-Identifier: Apache-2.0
"""tf.test: what programs ask about the devices."""
from __future__ import annotations

from ._absent import module_getattr as _module_getattr


def is_built_with_cuda() -> bool:
    """Whether models of Python programs can run on GPUs."""
    return False


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: object = None) -> bool:
    """Whether there is a GPU."""
    return False


def gpu_device_name() -> str:
    """Of the first GPU; empty: there is none."""
    return ""


__getattr__ = _module_getattr(__name__)
