"""What does device.submit() cost on a real driver, against C that gives the same command buffer to the same queue?"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any

from benchmarks import compiler, devices, loops
from benchmarks.measure import Timed, take_turns
from benchmarks.nothing import submits
from benchmarks.placement import alone
from benchmarks.plan import Plan
from benchmarks.report import Must, Row, row

if TYPE_CHECKING:
    from vkshare import Device

_IN_FLIGHT = 256  # submits between two waits: no queue is ever full


def run(plan: Plan) -> list[Row]:
    """For every Vulkan adapter. The target stands for GPUs only: a software driver runs beside its caller."""
    import vkshare

    rows = []
    for device in devices.opened(vkshare.adapters("vulkan")):
        for place in alone(plan):
            plan.progress(f"submit on {device.adapter.name}, {place.name}")
            with contextlib.closing(_Queue(device)) as queue:
                ours = loops.submit(device, queue.commands)
                samples = take_turns({"ours": queue.drained(ours), "c": queue.drained(queue.c)}, plan.seconds, 2e-3)
            must = Must(1.1) if device.adapter.kind == "gpu" else None
            rows.append(row(f"submit(c) on {device.adapter.name}", place.name, samples, must))
    if not rows:
        plan.note("submit on a real driver: there is no Vulkan driver here")
    return rows


def timeline(objects: Any) -> int:
    """The handle of a new timeline semaphore."""
    from vkshare.backends.vulkan.api import VK, address, new

    kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE)
    return address(objects.make("vkCreateSemaphore", new("VkSemaphoreCreateInfo", pNext=kind)))


def queue_submit(device: Device) -> int:
    """The address of the driver's vkQueueSubmit2."""
    from vkshare.backends.vulkan.api import address

    backend: Any = device._backend
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p)
    get = prototype(backend.native_handles()["get_device_proc_addr"])
    found: int = get(address(backend.context.device), b"vkQueueSubmit2")
    return found


def drained(context: Any, timed: Timed, most: int) -> Timed:
    """The same with what was submitted waited for every so often, outside of the time."""
    return loops.drained(timed, most, lambda: context.vk.vkQueueWaitIdle(context.queue))


def seconds_of(result: float) -> float:
    """The result of a loop in C. RuntimeError: it is a VkResult."""
    if result < 0:
        raise RuntimeError(f"a Vulkan call of C's failed with {result:.0f}")
    return result


class _Queue:
    """One command buffer on a device's queue, for vkshare and for C. Only one of the two uses the queue at a time."""

    def __init__(self, device: Device) -> None:
        from vkshare.backends.vulkan import barriers
        from vkshare.backends.vulkan.api import address
        from vkshare.backends.vulkan.objects import Objects

        self._device = device
        self._context: Any = device._backend.context  # type: ignore[attr-defined]
        context = self._context
        self._objects = Objects(context)
        buffer = self._objects.record(lambda commands: barriers.everything(context.vk, commands), name="bench")
        self._semaphores = (ctypes.c_uint64 * 1)(timeline(self._objects))
        self._last = 0
        self._time_submits = submits(compiler.library("calls.c"))
        self._submit, self._queue, self._raw = queue_submit(device), address(context.queue), address(buffer)
        self.commands = device.record()
        self.commands._set_vulkan(self._raw, (), lambda: None)

    def c(self, n: int) -> float:
        """The calls that calls.c times."""
        first, self._last = self._last + 1, self._last + n
        submit = self._submit, self._queue, self._raw
        return seconds_of(self._time_submits(*submit, self._semaphores, 1, first, n))

    def drained(self, timed: Timed) -> Timed:
        """With waits."""
        return drained(self._context, timed, _IN_FLIGHT)

    def close(self) -> None:
        """Frees what was made; nothing runs any more."""
        self._device.wait_idle()
        self._context.vk.vkQueueWaitIdle(self._context.queue)
        self.commands._reset()
        self._device._reap()
        self._objects.destroy()
