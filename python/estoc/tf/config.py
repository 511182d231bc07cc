# SPDX-License-Identifier: Apache-2.0
"""tf.config: the devices are this machine's CPUs, as one."""
from typing import NamedTuple as _NamedTuple

from ._absent import module_getattr as _module_getattr


class PhysicalDevice(_NamedTuple):
    """A device."""

    name: str
    device_type: str


def list_physical_devices(device_type: "str | None" = None) -> "list[PhysicalDevice]":
    """The devices of a type; without one all: there is one CPU."""
    devices = [PhysicalDevice("/physical_device:CPU:0", "CPU")]
    return [device for device in devices if device_type in (None, device.device_type)]


__getattr__ = _module_getattr(__name__)
