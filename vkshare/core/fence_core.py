"""The calls of a fence that no frame makes, through cffi. vkshare._native.Fence has the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from vkshare import _native
from vkshare.util.event_queue import EventQueue, pointer_of
from vkshare.util.library_calls import (
    NotInitialised,
    cell_capsule,
    check,
    ffi,
    lib,
    make,
    own_fds,
    pointer,
    take_fd,
    take_fds,
    u64,
    wait,
)

_HIGHEST = 2**64 - 2  # VKS_MAX_FENCE_VALUE


class FenceCore(_native.Fence):
    """A timeline: the base of Fence."""

    _pointer: Any = NotInitialised()

    def __init__(self, device: _native.Device, initial: int = 0) -> None:
        self._begin(device, "Device.create_fence", lib.vks_fence_create, u64("initial", initial, 0, _HIGHEST))

    @classmethod
    def _open(cls, device: _native.Device, page_fd: int, semaphore_fd: int) -> Self:
        """A follower; takes over the fds."""
        u64("page_fd", page_fd)
        fence = cls.__new__(cls)
        fence._begin(device, "Device.open_fence", lib.open_fence, own_fds(page_fd, semaphore_fd))
        return fence

    @classmethod
    def _adopt(cls, device: _native.Device, semaphore: int) -> Self:
        """An engine's own timeline semaphore."""
        if semaphore == 0:
            raise ValueError("semaphore is VK_NULL_HANDLE, allowed is a timeline semaphore of the device")
        fence = cls.__new__(cls)
        fence._begin(device, "Device.adopt_fence", lib.vks_fence_adopt, u64("semaphore", semaphore))
        return fence

    def _begin(self, device: _native.Device, what: str, create: Callable[..., int], argument: Any) -> None:
        cell = make("vks_fence", what, create, pointer("vks_device *", device), argument)
        _native.Fence.__init__(self, device, cell_capsule("vks_fence", cell))
        self._pointer = pointer("vks_fence *", self)

    @property
    def handle(self) -> int:
        """The VkSemaphore; 0 on the CPU backend."""
        return int(lib.vks_fence_semaphore(self._pointer))

    @property
    def is_follower(self) -> bool:
        """Whether another party signals it."""
        return bool(lib.vks_fence_is_follower(self._pointer))

    @property
    def is_native(self) -> bool:
        """Whether it is a follower whose semaphore the GPU itself can wait for."""
        return bool(lib.vks_fence_is_native(self._pointer))

    def event_fd(self, value: int) -> int:
        """Returns an eventfd, the caller's to close, readable once the value is reached or never can be."""
        value = u64("value", value, 0, _HIGHEST)
        return take_fd(partial(lib.vks_fence_event_fd, self._pointer, value), "Fence.event_fd")

    def close(self) -> None:
        """Closes the fence. Idempotent."""
        lib.vks_fence_close(self._pointer)

    def _notify(self, value: int, event_queue: EventQueue, token: int) -> None:
        """Put the token into the event queue at that value."""
        fence, events = self._pointer, pointer_of(event_queue)
        value, token = u64("value", value, 0, _HIGHEST), u64("token", token)
        check(lib.vks_fence_notify(fence, value, events, token), "Fence._notify")

    def _export(self) -> tuple[int, int]:
        """The fds of the page and of the semaphore, or -1; the caller's to close."""
        return take_fds(partial(lib.vks_fence_export, self._pointer), "Fence.export")

    # ---- another API's queue: vks_fence_external_wait() in native/vkshare.h -----------------------------------------

    def _external_wait(self, value: int, timeout: float | None = None) -> int:
        """Return the value for which the queue must wait (0: none), once that value is certain to come."""
        fence, value, out = self._pointer, u64("value", value, 0, _HIGHEST), ffi.new("uint64_t *")
        status = wait(lambda until: lib.vks_fence_external_wait(fence, value, until, out), timeout)
        check(status, "CUDAFence.wait", timeout)
        return int(out[0])

    def _external_begin(self, value: int) -> int:
        """Return the value for which the queue must wait (0: none) before it signals `value`."""
        fence, value, out = self._pointer, u64("value", value, 1, _HIGHEST), ffi.new("uint64_t *")
        check(lib.vks_fence_external_begin(fence, value, out), "CUDAFence.signal")
        return int(out[0])

    def _external_end(self, value: int) -> None:
        """The queue has the signal of the value (0: it has not, and will not)."""
        check(lib.vks_fence_external_end(self._pointer, value), "CUDAFence.signal")

    def _external_lost(self) -> None:
        """The other API died: what it was to signal never comes."""
        check(lib.vks_fence_external_lost(self._pointer), "CUDAFence")
