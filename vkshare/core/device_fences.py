"""Fences of a device: a part of Device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from vkshare.core import surface_factory
from vkshare.core.device_lifetime import DeviceLifetime
from vkshare.core.fence import Fence
from vkshare.errors import UnsupportedError
from vkshare.ipc.descriptors import FenceDescriptor
from vkshare.util import arguments, handles

if TYPE_CHECKING:
    from vkshare.core.device import Device


class DeviceFences(DeviceLifetime):
    """The part of Device that makes, opens and adopts fences."""

    def create_fence(self, initial: int = 0) -> Fence:
        """Makes a fence whose value is `initial`; this device and the host signal it.

        Parameters
        ----------
        initial
            The value that is completed at first, 0 to 2**64 - 1.

        Returns
        -------
        Fence
            Close it, or use it in a ``with`` block.

        Examples
        --------
        >>> with device.create_fence() as fence:
        ...     submission = device.submit(device.record(), signals=(fence, 1))
        ...     fence.wait(1, timeout=10)
        ...     fence.value
        1
        """
        return Fence(cast("Device", self), initial)

    def open_fence(self, descriptor: FenceDescriptor) -> Fence:
        """Opens a read-only follower of another device's or process's fence.

        Parameters
        ----------
        descriptor
            As ``fence.export()`` returned it there; it stays usable.

        Returns
        -------
        Fence
            The follower; its value can be waited for, and not signalled.

        Raises
        ------
        DescriptorError
            The descriptor, or the page behind it, was refused.
        """
        self._check()
        arguments.instance("descriptor", descriptor, FenceDescriptor)
        page, semaphore = descriptor._open_fds()
        device = cast("Device", self)
        return Fence._open(device, page, surface_factory.usable_semaphore(device, semaphore, *descriptor.uuids))

    def adopt_fence(self, vk_semaphore: Any) -> Fence:
        """Wraps an engine's own timeline semaphore (VkSemaphore), which is never destroyed by vkshare.

        Parameters
        ----------
        vk_semaphore
            The handle: an int, a cffi or a ctypes pointer.

        Returns
        -------
        Fence
            A fence with the semaphore's value.

        Raises
        ------
        UnsupportedError
            The device is on the CPU backend.
        """
        self._check()
        if self._backend.adapter.backend != "vulkan":
            raise UnsupportedError("adopt_fence()", "the CPU backend has no VkSemaphores", "use create_fence()")
        return Fence._adopt(cast("Device", self), handles.not_null(vk_semaphore, "vk_semaphore"))
