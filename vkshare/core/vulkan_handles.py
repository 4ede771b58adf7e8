"""The Vulkan handles of a device, for an engine that runs on it, and the lock of its queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vkshare.util.library_calls import check, ffi, lib, wait

if TYPE_CHECKING:
    from vkshare.core.device import Device


class QueueLock:
    """Exclusive use of a device's VkQueue, for Vulkan's own calls: vkQueueSubmit2, vkQueuePresentKHR.

    Work that vkshare submits to the device meanwhile is held, and runs after the lock is released.
    So until then the holder neither waits for such work nor calls ``surface.sync()``. The lock is not
    recursive, any thread may release it, and every method is thread-safe. On an engine's own device
    the lock_queue of ``Device.from_handles`` is called too.

    Attributes
    ----------
    lock_function, unlock_function
        Addresses of C functions ``void (*)(void *)`` that do the same, for an engine in C, which must
        not hold the GIL when it calls them.
    user
        Their argument.

    Examples
    --------
    >>> with vks.open(backend="vulkan") as gpu, gpu.handles.lock:
    ...     pass  # vkQueueSubmit2 on gpu.handles.queue
    """

    __slots__ = ("_device", "lock_function", "unlock_function", "user")

    def __init__(self, device: Device) -> None:
        self._device = device
        self.lock_function = _address(ffi.addressof(lib, "vks_device_lock_queue"))
        self.unlock_function = _address(ffi.addressof(lib, "vks_device_unlock_queue"))
        self.user = _address(device._core)

    def acquire(self, timeout: float | None = None) -> None:
        """Waits until neither a present nor an engine has the queue, and takes it.

        Parameters
        ----------
        timeout
            Seconds; None waits for ever, 0 tests.

        Raises
        ------
        TimeoutError
            The queue is not free after `timeout` seconds, or a present has it for 10 seconds.
        ClosedError, DeviceLostError
            The device has ended.
        """
        core = self._device._core
        status = wait(lambda deadline: lib.vks_device_try_lock_queue(core, deadline), timeout)
        check(status, "QueueLock.acquire", timeout)

    def release(self) -> None:
        """Gives the queue back; work that was submitted meanwhile runs. Without an acquire it does nothing."""
        lib.vks_device_unlock_queue(self._device._core)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass(frozen=True, slots=True)
class Handles:
    """The Vulkan handles below a device, as ints. They are valid until the device is closed.

    An engine that is made from these shares the device's VkDevice and queue. It destroys its own
    objects before the device is closed, and takes `lock` around every use of the queue.
    """

    instance: int  # VkInstance
    physical_device: int  # VkPhysicalDevice
    device: int  # VkDevice
    queue: int  # VkQueue, of a family that draws; vkshare may have further queues of its own
    queue_family: int
    api_version: int  # VkApplicationInfo.apiVersion
    extensions: tuple[str, ...]  # that are enabled, on the instance and on the device
    features: tuple[str, ...]  # that are enabled: fields of VkPhysicalDeviceVulkan12Features, ...13Features and others
    get_instance_proc_addr: int  # PFN_vkGetInstanceProcAddr
    lock: QueueLock


def _address(pointer: object) -> int:
    return int(ffi.cast("uintptr_t", pointer))
