# SPDX-License-Identifier: Apache-2.0
"""tf.config: this machine's CPUs, as one device, and the GPUs that the plug-in has found."""
from __future__ import annotations

import re as _re
from typing import Any as _Any
from typing import NamedTuple as _NamedTuple

from . import _devices
from . import _function
from ._absent import Named as _Named
from ._absent import module_getattr as _module_getattr
from ._devices import placement as _placement
from ._world import has_session as _has_session


class PhysicalDevice(_NamedTuple):
    """A device."""

    name: str
    device_type: str


class LogicalDevice(_NamedTuple):
    """A part of a device: what replicas of a strategy run on."""

    name: str
    device_type: str


class LogicalDeviceConfiguration:
    """One logical device; of a GPU the memory that this process takes, in MB."""

    def __init__(self, memory_limit: float | None = None, experimental_priority: int | None = None,
                 experimental_device_ordinal: int | None = None):
        self.memory_limit = memory_limit
        self.experimental_priority = experimental_priority
        self.experimental_device_ordinal = experimental_device_ordinal


_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")
_parts = [LogicalDeviceConfiguration()]


def _gpu(gpu: _devices.GPU) -> PhysicalDevice:
    return PhysicalDevice(f"/physical_device:GPU:{gpu.number}", "GPU")


def _number(device: _Any) -> int:
    """Of a GPU."""
    for gpu in _devices.gpus():
        if _gpu(gpu) == device:
            return gpu.number
    raise ValueError(f"Unrecognized device: {device!r}")


def _of_type(devices: list, device_type: str | None) -> list:
    return [device for device in devices if device_type in (None, device.device_type)]


def _settle(name: str, value: _Any, text: str) -> None:
    """A setting of sessions, which those that exist keep."""
    if _placement[name] != value and _has_session():
        raise RuntimeError(text)
    _placement[name] = value


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type; without one all: one CPU, and the GPUs that CUDA_VISIBLE_DEVICES leaves. The first call opens
    the plug-in for GPUs."""
    return _of_type([_CPU] if device_type == "CPU" else [_CPU] + [_gpu(gpu) for gpu in _devices.gpus()], device_type)


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Visible GPUs, which keep their numbers, and the parts of the CPU, one unless set_logical_device_configuration has
    made more. A strategy takes any number of "/cpu:N"; their names are these."""
    found = [LogicalDevice(f"/device:CPU:{i}", "CPU") for i in range(len(_parts))]
    if device_type != "CPU":
        found += [LogicalDevice(f"/device:GPU:{gpu.number}", "GPU") for gpu in _devices.visible()]
    return _of_type(found, device_type)


def set_logical_device_configuration(device: PhysicalDevice, logical_devices: _Any) -> None:
    """How many logical devices the CPU is; how much memory of a GPU this process takes."""
    made = list(logical_devices)
    if device == _CPU:
        if any(one.memory_limit is not None for one in made):
            raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
        if not made:
            raise ValueError("a device has at least one logical device")
        _parts[:] = made
        return
    number = _number(device)
    if len(made) != 1:
        raise NotImplementedError(f"{len(made)} logical devices of a GPU do not exist: a GPU is one; replicas of one "
                                  "process on it would only share it")
    limit = made[0].memory_limit
    limits = {key: value for key, value in _placement["limits"].items() if key != number}
    _settle("limits", {**limits, number: int(limit * 2**20)} if limit else limits,
            "Virtual devices cannot be modified after being initialized")


def get_logical_device_configuration(device: PhysicalDevice) -> list[LogicalDeviceConfiguration] | None:
    """The logical devices of a device; None: nothing was set for it."""
    if device == _CPU:
        return list(_parts)
    limit = _placement["limits"].get(_number(device))
    return None if limit is None else [LogicalDeviceConfiguration(limit / 2**20)]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that the program may use."""
    return _of_type([_CPU] if device_type == "CPU" else [_CPU] + [_gpu(gpu) for gpu in _devices.visible()], device_type)


def set_visible_devices(devices: _Any, device_type: str | None = None) -> None:
    """Which GPUs functions, networks and sessions use; the CPU stays. Call it before the first function."""
    devices = [devices] if isinstance(devices, PhysicalDevice) else list(devices or ())
    numbers = sorted(_number(device) for device in devices if device != _CPU)
    if device_type is not None and any(device.device_type != device_type for device in devices):
        raise ValueError(f"Unrecognized device: {next(d for d in devices if d.device_type != device_type)!r}")
    if _CPU not in devices and device_type in (None, "CPU"):
        raise ValueError("the CPU computes what no GPU can, and cannot be hidden: it belongs to the visible devices")
    if device_type in (None, "GPU"):
        every = numbers == [gpu.number for gpu in _devices.gpus()]
        _settle("gpus", None if every else numbers, "Visible devices cannot be modified after being initialized")


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Whether functions of tf.function are run as Python, operation by operation, to find mistakes in them."""
    _function.run_eagerly[0] = bool(run_eagerly)


def set_soft_device_placement(enabled: bool) -> None:
    """Whether an operation that a device has not runs on the CPU, and is no error; call it first, since what has run goes
    on as it was."""
    _placement["soft"] = bool(enabled)


def get_soft_device_placement() -> bool:
    """What set_soft_device_placement said."""
    return _placement["soft"]


def functions_run_eagerly() -> bool:
    """Whether functions run as Python."""
    return _function.run_eagerly[0]


def _details(device: PhysicalDevice) -> dict:
    if device == _CPU:
        return {}
    number = _number(device)
    description = next(gpu.description for gpu in _devices.gpus() if gpu.number == number)
    found = _re.search(r"^(.*), compute capability (\d+)\.(\d+)", description)
    if found is None:
        return {"device_name": description}
    return {"device_name": found[1], "compute_capability": (int(found[2]), int(found[3]))}


class _Experimental(_Named):
    """tf.config.experimental"""

    _where = "tf.config.experimental"
    VirtualDeviceConfiguration = LogicalDeviceConfiguration
    list_physical_devices = staticmethod(list_physical_devices)
    list_logical_devices = staticmethod(list_logical_devices)
    get_visible_devices = staticmethod(get_visible_devices)
    set_visible_devices = staticmethod(set_visible_devices)
    set_virtual_device_configuration = staticmethod(set_logical_device_configuration)
    get_virtual_device_configuration = staticmethod(get_logical_device_configuration)
    get_device_details = staticmethod(_details)

    @staticmethod
    def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
        """Memory of GPUs is always taken as it is needed."""
        if device == _CPU:
            raise ValueError("Cannot set memory growth on non-GPU and non-Pluggable devices")
        if not (_number(device) >= 0 and enable):
            raise NotImplementedError("memory of a GPU is always taken as it is needed; set_logical_device_configuration "
                                      "limits it")

    @staticmethod
    def get_memory_growth(device: PhysicalDevice) -> bool:
        """Always, of a GPU."""
        return _number(device) >= 0

    @staticmethod
    def enable_tensor_float_32_execution(enabled: bool) -> None:
        """Whether products of float32 on a GPU are rounded to TF32; call it before the first function."""
        if list_physical_devices("GPU"):
            _settle("tf32", bool(enabled), "TensorFloat-32 cannot be modified after the first function has run")
        _placement["tf32"] = bool(enabled)

    @staticmethod
    def tensor_float_32_execution_enabled() -> bool:
        """What enable_tensor_float_32_execution said."""
        return _placement["tf32"]


experimental = _Experimental()

__getattr__ = _module_getattr(__name__)
