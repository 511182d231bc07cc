# SPDX-License-Identifier: Apache-2.0
"""tf.test: what programs ask about the devices."""
from __future__ import annotations

from . import config as _config
from ._absent import module_getattr as _module_getattr


def is_built_with_cuda() -> bool:
    """Whether the plug-in for GPUs is there and has found one; libestoc itself has nothing of CUDA."""
    return bool(_config.list_physical_devices("GPU"))


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple | None = None) -> bool:
    """Whether there is a visible GPU, of this compute capability or a higher one."""
    lowest = tuple(min_cuda_compute_capability or (0, 0))
    return any(_config._details(device).get("compute_capability", (0, 0)) >= lowest
               for device in _config.get_visible_devices("GPU"))


def gpu_device_name() -> str:
    """Of the first GPU; empty: there is none."""
    return next((device.name for device in _config.list_logical_devices("GPU")), "")


__getattr__ = _module_getattr(__name__)
