# SPDX-License-Identifier: Apache-2.0
"""The devices of this process, and what tf.config says of them for sessions that are made from then on."""
from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator, NamedTuple

from .._lib import Keep, ffi, lib, text
from ..errors import InvalidArgumentError
from ..graph import device_parts

#: tf.config: `gpus` are the numbers of the visible ones, None: all; `limits` bytes by number.
placement: dict[str, Any] = {"log": False, "soft": True, "tf32": True, "gpus": None, "limits": {}}
scopes: dict[int, str] = {}  # by thread: the GPU of the innermost `with tf.device` outside of graphs


class GPU(NamedTuple):
    """One that the plug-in has found."""

    number: int
    description: str
    memory_bytes: int


def gpus() -> list[GPU]:
    """Those of this process, visible or not. The first call opens the plug-in."""
    n = lib.est_device_list(ffi.NULL, 0)
    infos = ffi.new("est_device_info[]", n)
    lib.est_device_list(infos, n)
    return [GPU(int(text(info.name).rsplit(":", 1)[1]), text(info.description), int(info.memory_bytes))
            for info in list(infos)[1:]]


def visible() -> list[GPU]:
    found = gpus()
    return found if placement["gpus"] is None else [gpu for gpu in found if gpu.number in placement["gpus"]]


def _options(chosen: list[GPU], soft: bool, log: bool, limit: int) -> dict[str, Any]:
    """Arguments of a Session or a RunConfig. Nothing is named where the default is the same."""
    plain = placement["gpus"] is None and len(chosen) == min(len(gpus()), 1)
    return {"devices": [] if plain else [f"/gpu:{gpu.number}" for gpu in chosen] or ["/cpu:0"],
            "no_soft_placement": not soft, "log_device_placement": log, "no_tf32": not placement["tf32"],
            "device_memory_limit": limit}


def options() -> dict[str, Any]:
    """What tf.config says, as arguments of a Session or a RunConfig."""
    chosen = visible()
    limits = {placement["limits"].get(gpu.number, 0) for gpu in chosen}
    if len(limits) > 1:
        raise NotImplementedError("memory_limit is one number for all visible GPUs; set the same for each")
    return _options(chosen, placement["soft"], placement["log"], next(iter(limits), 0))


def options_at_once(device: str | None) -> dict[str, Any]:
    """For a single operation, on the CPU unless a GPU is named."""
    if device is None:
        return {"devices": ["/cpu:0"]}
    return {**options(), "devices": [device if _is_there(device) else "/cpu:0"]}


def _is_there(device: str) -> bool:
    """Whether a GPU is visible."""
    return device.rsplit(":", 1)[-1] in {str(gpu.number) for gpu in visible()}


def options_of(config: Any) -> dict[str, Any]:
    """What a ConfigProto says; without one what tf.config says."""
    if config is None:
        return options()
    chosen, given = visible(), config.gpu_options
    if given.visible_device_list and chosen:
        wanted = [int(number) for number in given.visible_device_list.split(",")]
        if any(not 0 <= number < len(chosen) for number in wanted):
            raise ValueError(f"'visible_device_list' listed an invalid GPU id: {given.visible_device_list!r}; there are "
                             f"{len(chosen)} visible GPUs")
        chosen = [chosen[number] for number in wanted]
    chosen = chosen[:config.device_count.get("GPU", len(chosen))]
    fraction = given.per_process_gpu_memory_fraction
    limit = int(fraction * min(gpu.memory_bytes for gpu in chosen)) if fraction and chosen else 0
    return _options(chosen, config.allow_soft_placement, config.log_device_placement, limit)


def members(keep: Keep, given: dict[str, Any]) -> dict[str, Any]:
    """The same as members of options of C."""
    return {**given, "devices": keep.strings(given["devices"])}


def check_visible(device: str) -> None:
    """GPUs keep their numbers when others are hidden, which is not so in TensorFlow."""
    kind, _, number = device_parts(device).get("device", "").rpartition(":")
    if kind.upper().endswith("GPU") and number.isdigit() and placement["gpus"] is not None:
        if int(number) in {gpu.number for gpu in gpus()} - set(placement["gpus"]):
            raise ValueError(f"{device!r} is hidden by tf.config.set_visible_devices. GPUs keep their numbers: those of "
                             "tf.config.list_logical_devices are visible")


@contextlib.contextmanager
def scope(device: str | None) -> Iterator[None]:
    """Operations of this thread that compute at once do so on this device, if it is a GPU."""
    thread = threading.get_ident()
    before = scopes.pop(thread, None)
    part = device_parts(device or "").get("device", "")
    if "GPU" in part.upper():
        if not placement["soft"] and not _is_there(part):
            raise InvalidArgumentError(f"Could not satisfy device specification '{device}': it is not among "
                                       f"{['/cpu:0'] + [f'/gpu:{gpu.number}' for gpu in visible()]}, and "
                                       "tf.config.set_soft_device_placement(False) says that nothing else will do")
        scopes[thread] = part
    try:
        yield
    finally:
        scopes.pop(thread, None)
        if before is not None:
            scopes[thread] = before
