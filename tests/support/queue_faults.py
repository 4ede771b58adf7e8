"""A device whose queue refuses work when a test says so: a hook between the core and the driver's vkQueueSubmit2."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any

import vkshare as vks

OUT_OF_HOST_MEMORY, DEVICE_LOST = -1, -4

_Submit = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)
_Lookup = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def has_queue(adapter: vks.Adapter) -> bool:
    """Whether devices of this adapter have a VkQueue that can be hooked."""
    return adapter.backend == "vulkan"


class FaultyQueue:
    """``with FaultyQueue(adapter) as (device, queue): queue.fail_next()``. The device is closed at the end."""

    def __init__(self, adapter: vks.Adapter) -> None:
        from vkshare.backends import vulkan

        self._results: list[int] = []
        self.submits = 0  # that reached the driver
        self._backend: Any = vulkan.open(adapter, False, "faulty")
        handles = self._backend.native_handles()
        self._lookup = _Lookup(handles["get_device_proc_addr"])
        self._hooks = (_Lookup(self._find), _Submit(self._submit))  # kept: the core calls them until the device is gone
        handles["get_device_proc_addr"] = ctypes.cast(self._hooks[0], ctypes.c_void_p).value
        # With locks that are Python's, the core is called without the GIL: so the hooks can always have it.
        handles |= {"lock_queue": lambda: None, "unlock_queue": lambda: None}
        self._real = _Submit(self._lookup(handles["device"], b"vkQueueSubmit2"))
        self._backend.native_handles = lambda: handles  # type: ignore[method-assign]
        self.device = vks.Device._start(self._backend, "faulty")

    def fail_next(self, result: int = OUT_OF_HOST_MEMORY) -> None:
        """The next submit does not reach the driver, and the core is told `result`."""
        self._results.append(result)

    def _find(self, device: int, name: bytes) -> int:
        if name == b"vkQueueSubmit2":
            return ctypes.cast(self._hooks[1], ctypes.c_void_p).value or 0
        return self._lookup(device, name) or 0

    def _submit(self, queue: int, count: int, submits: int, fence: int) -> int:
        if self._results:
            return self._results.pop(0)
        self.submits += 1
        return int(self._real(queue, count, submits, fence))

    def __enter__(self) -> tuple[vks.Device, FaultyQueue]:
        return self.device, self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(vks.VkshareError):
            self.device.close()
