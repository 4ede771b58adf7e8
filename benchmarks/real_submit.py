"""What does device.submit() cost on a real driver, against C that gives the same command buffer to the same queue?"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from benchmarks import compiler, loops
from benchmarks.measure import Contender, Timed, take_turns
from benchmarks.nothing import submits
from benchmarks.placement import alone, placed
from benchmarks.plan import Plan
from benchmarks.report import Must, Row, ratio_row

if TYPE_CHECKING:
    from vkshare import Adapter, Device

_IN_FLIGHT = 256  # submits between two waits: no queue is ever full


def run(plan: Plan) -> list[Row]:
    """For every Vulkan adapter. The target stands for GPUs only: a software driver runs beside its caller."""
    import vkshare

    rows = []
    for adapter in vkshare.adapters("vulkan"):
        with vkshare.open(adapter, validation=False, name="bench") as device:
            for place in alone(plan.pinned_only):
                with placed(place):
                    plan.progress(f"submit on {adapter.name}, {place.name}")
                    rows.append(_row(adapter, device, place.name, plan))
    if not rows:
        plan.note("submit on a real driver: there is no Vulkan driver here")
    return rows


def _row(adapter: Adapter, device: Device, place: str, plan: Plan) -> Row:
    queue = _Queue(device)
    try:
        ours = Contender("ours", queue.drained(loops.submit(device, queue.commands)), batch=2e-3)
        theirs = Contender("c", queue.drained(queue.c), batch=2e-3)
        samples = take_turns([ours, theirs], plan.seconds)
    finally:
        queue.close()
    must = Must(1.1) if adapter.kind == "gpu" else None
    return ratio_row(f"submit(c) on {adapter.name}", place, samples["ours"], samples["c"], must)


class _Queue:
    """One command buffer on a device's queue, for vkshare and for C. Only one of the two uses the queue at a time."""

    def __init__(self, device: Device) -> None:
        from vkshare.backends.vulkan import barriers
        from vkshare.backends.vulkan.api import VK, address, new
        from vkshare.backends.vulkan.objects import Objects

        self._device = device
        self._context: Any = device._backend.context  # type: ignore[attr-defined]
        context = self._context
        self._objects = Objects(context)
        buffer = self._objects.record(lambda commands: barriers.everything(context.vk, commands), name="bench")
        kind = new("VkSemaphoreTypeCreateInfo", semaphoreType=VK.SEMAPHORE_TYPE_TIMELINE)
        semaphore = self._objects.make("vkCreateSemaphore", new("VkSemaphoreCreateInfo", pNext=kind))
        self._semaphores = (ctypes.c_uint64 * 1)(address(semaphore))
        self._last = 0
        self._time_submits = submits(compiler.library("calls.c"))
        get = device._backend.native_handles()["get_device_proc_addr"]  # type: ignore[index]
        prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p)
        self._submit = prototype(get)(address(context.device), b"vkQueueSubmit2")
        self._queue = address(context.queue)
        self._raw = address(buffer)
        self.commands = device.record()
        self.commands._set_vulkan(self._raw, (), lambda: None)

    def c(self, n: int) -> float:
        """The calls that calls.c times."""
        first, self._last = self._last + 1, self._last + n
        seconds: float = self._time_submits(self._submit, self._queue, self._raw, self._semaphores, 1, first, n)
        if seconds < 0:
            raise RuntimeError(f"vkQueueSubmit2 failed with {seconds:.0f}")
        return seconds

    def drained(self, timed: Timed) -> Timed:
        """The same with what was submitted waited for every so often, outside of the time."""
        return loops.drained(timed, _IN_FLIGHT, lambda: self._context.vk.vkQueueWaitIdle(self._context.queue))

    def close(self) -> None:
        """Frees what was made; nothing runs any more."""
        self._device.wait_idle()
        self._context.vk.vkQueueWaitIdle(self._context.queue)
        self.commands._reset()
        self._device._reap()
        self._objects.destroy()
