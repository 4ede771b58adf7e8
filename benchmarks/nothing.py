"""A device on a driver that does nothing (c/driver.c): what is left is the time of the call itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchmarks import compiler
from vkshare.backends.base import Adapter, Capabilities
from vkshare.core.device import Device

if TYPE_CHECKING:
    from vkshare._native import Recording

COMMAND_BUFFER = 0x1000  # never looked at
QUEUE = 1
VK_DEVICE = 1


class NothingDriver:
    """The driver's library, and C's own loops over it. ``open()`` gives a Device like any other that draws nothing."""

    def __init__(self) -> None:
        library = compiler.library("driver.c", "calls.c")
        u64, long, pointer = ctypes.c_uint64, ctypes.c_long, ctypes.c_void_p
        self._get = compiler.function(library, "driver_get_proc_addr", u64, ctypes.c_char_p, returns=pointer)
        self._semaphore = compiler.function(library, "driver_semaphore", returns=u64)
        self.lag = compiler.function(library, "driver_lag", ctypes.c_int, returns=None)
        self.time_values = compiler.function(library, "time_values", pointer, u64, u64, long)
        self.time_signals = compiler.function(library, "time_signals", pointer, u64, u64, u64, long)
        self.time_waits = compiler.function(library, "time_waits", pointer, u64, u64, u64, long)
        self._time_submits = submits(library)
        self.get_proc_addr: int = ctypes.cast(library["driver_get_proc_addr"], pointer).value or 0

    def open(self) -> Device:
        """A device of its own."""
        backend: Any = _Backend(self.get_proc_addr)
        return Device._start(backend, "bench")

    def function(self, name: str) -> int:
        """The address of a function of the driver."""
        address: int = self._get(VK_DEVICE, name.encode())
        return address

    def semaphore(self) -> int:
        """A new VkSemaphore."""
        handle: int = self._semaphore()
        return handle

    def time_submits(self, semaphores: Sequence[int], first: int, n: int) -> float:
        """C submits n times and signals each of the semaphores with first, first + 1, ..."""
        array = (ctypes.c_uint64 * len(semaphores))(*semaphores)
        submit = self.function("vkQueueSubmit2")
        seconds: float = self._time_submits(submit, QUEUE, COMMAND_BUFFER, array, len(semaphores), first, n)
        return seconds


def submits(library: ctypes.CDLL) -> Any:
    """calls.c's time_submits."""
    u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
    return compiler.function(library, "time_submits", pointer, u64, u64, pointer, u32, u64, ctypes.c_long)


class _Backend:
    """The part of backends/base.py that is called here: there are no images."""

    adapter = Adapter(
        name="nothing",
        kind="software",
        backend="vulkan",
        uuid=bytes(16),
        driver="nothing",
        capabilities=Capabilities(
            tilings=frozenset(),
            surface_memory=frozenset(),
            export_timelines=False,
            host_visible=False,
            max_dimension=0,
            max_timeline_difference=2**63,
            subpixel_bits=8,
            device_uuid=bytes(16),
            driver_uuid=bytes(16),
            formats=frozenset(),
        ),
    )

    def __init__(self, get_proc_addr: int) -> None:
        self._get_proc_addr = get_proc_addr

    def native_handles(self) -> dict[str, Any]:
        return {
            "get_device_proc_addr": self._get_proc_addr,
            "device": VK_DEVICE,
            "queue": QUEUE,
            "export_timelines": False,
            "max_timeline_difference": 2**63,
        }

    def compile(self, commands: Recording, missing: object) -> None:
        commands._set_vulkan(COMMAND_BUFFER, (), lambda: None)

    def close(self) -> None:
        pass
