# SPDX-License-Identifier: Apache-2.0
"""tf.config: the devices are this machine's CPUs, as one."""
from __future__ import annotations

from typing import Any as _Any
from typing import NamedTuple as _NamedTuple

from . import _function
from ._absent import Named as _Named
from ._absent import module_getattr as _module_getattr
from ._world import placement as _placement


class PhysicalDevice(_NamedTuple):
    """A device."""

    name: str
    device_type: str


class LogicalDevice(_NamedTuple):
    """A part of a device: what replicas of a strategy run on."""

    name: str
    device_type: str


class LogicalDeviceConfiguration:
    """One logical device. Memory is not divided: there are no GPUs."""

    def __init__(self, memory_limit: int | None = None, experimental_priority: int | None = None,
                 experimental_device_ordinal: int | None = None):
        if memory_limit is not None:
            raise ValueError("Setting memory limit on CPUs is currently not supported")
        self.memory_limit = memory_limit
        self.experimental_priority = experimental_priority
        self.experimental_device_ordinal = experimental_device_ordinal


_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")
_parts = [LogicalDeviceConfiguration()]
_visible = [_CPU]


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type; without one all: there is one CPU."""
    return [_CPU] if device_type in (None, "CPU") else []


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The parts of the CPU, one unless set_logical_device_configuration has made more. A strategy takes any number of
    "/cpu:N"; their names are these."""
    if device_type not in (None, "CPU"):
        return []
    return [LogicalDevice(f"/device:CPU:{i}", "CPU") for i in range(len(_parts))]


def set_logical_device_configuration(device: PhysicalDevice, logical_devices: _Any) -> None:
    """How many logical devices the CPU is."""
    if device != _CPU:
        raise ValueError(f"Unrecognized device: {device!r}")
    if not logical_devices:
        raise ValueError("a device has at least one logical device")
    _parts[:] = list(logical_devices)


def get_logical_device_configuration(device: PhysicalDevice) -> list[LogicalDeviceConfiguration]:
    """The logical devices of a device."""
    if device != _CPU:
        raise ValueError(f"Unrecognized device: {device!r}")
    return list(_parts)


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that the program may use."""
    return [device for device in _visible if device_type in (None, device.device_type)]


def set_visible_devices(devices: _Any, device_type: str | None = None) -> None:
    """No device of a kind that is not there may be left, and the CPU stays."""
    devices = [devices] if isinstance(devices, PhysicalDevice) else list(devices or ())
    for device in devices:
        if device != _CPU:
            raise ValueError(f"Unrecognized device: {device!r}")
    if not devices and device_type in (None, "CPU"):
        raise ValueError("the CPU is the only device here, and computes everything: it cannot be hidden")


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

    @staticmethod
    def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
        """Of GPUs, and there are none."""
        raise ValueError(f"Cannot set memory growth on non-GPU and non-Pluggable devices: {device!r}")


experimental = _Experimental()

__getattr__ = _module_getattr(__name__)
