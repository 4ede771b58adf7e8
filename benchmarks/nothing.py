"""A device on a driver that does nothing (c/driver.c): what is left is the time of the call itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import vkshare
from benchmarks import compiler
from benchmarks.compiler import ffi, seconds
from vkshare.core.device import Device

if TYPE_CHECKING:
    from vkshare._native import Recording

COMMAND_BUFFER = 0x1000  # never looked at
QUEUE = 1
VK_DEVICE = 1


class NothingDriver:
    """The driver's library, and C's own loops over it. ``open()`` gives a Device like any other that draws nothing."""

    def __init__(self) -> None:
        self.lib = compiler.library("driver.c", "calls.c")
        self.lag, self.semaphore = self.lib.driver_lag, self.lib.driver_semaphore
        self.get_proc_addr = int(ffi.cast("uintptr_t", ffi.addressof(self.lib, "driver_get_proc_addr")))

    def open(self) -> Device:
        """A device of its own."""
        backend: Any = _Backend(self.get_proc_addr)
        return Device._start(backend, "bench")

    def function(self, name: str) -> int:
        """The address of a function of the driver."""
        return int(self.lib.driver_get_proc_addr(VK_DEVICE, name.encode()))

    def time_submits(self, semaphores: Sequence[int], first: int, n: int) -> float:
        """C submits n times and signals each of the semaphores with first, first + 1, ..."""
        submit = self.function("vkQueueSubmit2"), QUEUE, COMMAND_BUFFER
        return seconds(self.lib.time_submits(*submit, semaphores, len(semaphores), first, n))


class _Backend:
    """The part of backends/base.py that is called here: there are no images."""

    adapter = replace(vkshare.adapters("cpu")[0], name="nothing", kind="software", backend="vulkan", driver="nothing")

    def __init__(self, get_proc_addr: int) -> None:
        self._get_proc_addr = get_proc_addr

    def native_handles(self) -> dict[str, Any]:
        device = {"get_device_proc_addr": self._get_proc_addr, "device": VK_DEVICE, "queue": QUEUE}
        return device | {"export_timelines": False, "max_timeline_difference": 2**63}

    def compile(self, commands: Recording, missing: object) -> None:
        commands._set_vulkan(COMMAND_BUFFER, (), lambda: None)

    def close(self) -> None:
        pass
