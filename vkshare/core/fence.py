"""Fences: 64-bit counters that only grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.core import event_loop
from vkshare.core.closable import Closable
from vkshare.core.fence_core import FenceCore
from vkshare.ipc.descriptors import FenceDescriptor


@dataclass(frozen=True, slots=True)
class FenceStatistics:
    """A snapshot of a fence. Values past `value` and up to `queued_value` will be signalled by submitted work."""

    value: int
    queued_value: int
    is_follower: bool
    is_native: bool  # a follower whose semaphore the GPU itself can wait for


class Fence(Closable, FenceCore):
    """A counter that only grows: a Vulkan timeline semaphore, or a shared page on the CPU backend.

    Made by ``device.create_fence()``, ``open_fence()`` (a read-only follower of another device's
    fence) and ``adopt_fence()``. Thread-safe. `value` has completed, `queued_value` will have
    completed once all submitted work has run. ``signal``, ``wait`` and ``is_done`` come from the C
    core. Rules X1 to X24 (docs/spec/fence.md).
    """

    _unpicklable = "send fence.export(), and device.open_fence() it on the other side"

    async def wait_async(self, value: int) -> None:
        """Waits for the value in asyncio; any number of waits share one file descriptor for each device and loop.

        Raises
        ------
        AbandonedError, ClosedError, DeviceLostError
            The value can never be reached.
        """
        await event_loop.wait_fence(self, value)

    def export(self) -> FenceDescriptor:
        """Return a descriptor for another device's or process's ``open_fence()``. Close it, or send it, or open it.

        Examples
        --------
        >>> with device.create_fence() as fence, fence.export() as descriptor:
        ...     follower = device.open_fence(descriptor)
        >>> follower.close()
        """
        self.device._check()
        capabilities = self.device.capabilities
        page, semaphore = self._export()
        return FenceDescriptor._made(
            page, semaphore, capabilities.device_uuid, capabilities.driver_uuid, name=self.device.name
        )

    def statistics(self) -> FenceStatistics:
        """Returns a snapshot of the counters."""
        return FenceStatistics(self.value, self.queued_value, self.is_follower, self.is_native)

    def __repr__(self) -> str:
        if self.is_closed or self.device._is_unusable:
            return "<vkshare.Fence closed>"
        kind = "follower, " if self.is_follower else ""
        return f"<vkshare.Fence {kind}value {self.value}, queued {self.queued_value}>"

    # From the C core.
    if TYPE_CHECKING:

        def signal(self, value: int) -> None:
            """Signals the value from the host, immediately. It must be above every announced value."""

        def wait(self, value: int, timeout: float | None = None) -> None:
            """Waits until the value is reached.

            Parameters
            ----------
            value
                0 to 2**64 - 1.
            timeout
                Seconds; None: without limit.

            Raises
            ------
            TimeoutError
                The value was not reached in time.
            AbandonedError, ClosedError, DeviceLostError
                The value can never be reached.
            """

        def is_done(self, value: int) -> bool:
            """Returns whether the value is reached; raises if it never can be."""

        def close(self) -> None:
            """Closes the fence: waits for values that can no longer be reached fail. Idempotent."""
