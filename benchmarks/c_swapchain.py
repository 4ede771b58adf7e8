"""C's side of the swapchain benchmarks (c/swapchain.c): a device and its swapchains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from benchmarks import compiler
from benchmarks.compiler import CFailed, ffi, seconds
from vkshare.util.closing import Scoped

Size = tuple[int, int]

WINDOW, HEADLESS, RING = range(3)  # chain_kind of c/interface.h
_TRIALS, _TRIAL = 5, 20  # of so many frames


class CDevice:
    """A VkDevice with one queue, as gpu_over() of c/interface.h takes it; its owner closes it. NoCompiler, CFailed."""

    def __init__(self, get_device_proc_addr: int, device: int, queue: int, *more: int) -> None:
        self.lib = compiler.library("gpu.c", "swapchain.c")
        pointer = self.lib.gpu_over(get_device_proc_addr, device, queue, *more)
        if not pointer:
            raise CFailed("a device in C: the driver lacks functions")
        self.device, self.queue, self.pointer = device, queue, ffi.gc(pointer, self.lib.gpu_close)

    @classmethod
    def of(cls, device: Any) -> Self:
        """A device of vkshare's: only one of both may use the queue at a time."""
        from vkshare.backends.vulkan.api import address

        context, handles = device._backend.context, device._backend.native_handles()
        queue = address(context.device), address(context.queue), context.queue_family
        capabilities = context.physical.vk.pointer("vkGetPhysicalDeviceSurfaceCapabilitiesKHR")
        return cls(handles["get_device_proc_addr"], *queue, address(context.physical.handle), address(capabilities))


class CSwapchain(Scoped):
    """A swapchain, made and driven by C. CFailed."""

    def __init__(self, gpu: CDevice, size: Size, **how: int) -> None:
        """`how` has fields of `chain` in c/interface.h: format, wanted_images, ..."""
        self.gpu, self._lib = gpu, gpu.lib
        # With the handles, for a caller in another language.
        self.chain = ffi.new("chain *", {"gpu": gpu.pointer, "extent": size, "n_flights": 2, "kind": HEADLESS, **how})
        result = self._lib.chain_open(self.chain)
        if result < 0:
            self.close()
            raise CFailed(f"a swapchain in C: VkResult {result}")

    def frames(self, n: int) -> float:
        """C acquires, clears and presents n times."""
        return seconds(self._lib.time_frames(self.chain, n))

    def clear_by_rendering(self, wanted: bool) -> None:
        """Clears with a load operation, or with vkCmdClearColorImage (which is how it starts)."""
        seconds(self._lib.chain_clear_by_rendering(self.chain, wanted))

    def clear_the_faster_way(self) -> None:
        """Tries both for some milliseconds: which is faster, and by how much, depends on the driver."""

        def took(by_rendering: bool) -> float:
            self.clear_by_rendering(by_rendering)
            return self.frames(_TRIAL)

        rounds = [(took(False), took(True)) for _ in range(_TRIALS)]
        by_command, by_rendering = map(min, zip(*rounds, strict=True))
        self.clear_by_rendering(by_rendering < by_command)

    def resizes(self, sizes: Sequence[Size], kept: int = 0) -> Callable[[int], float]:
        """C waits for the device, makes the swapchain anew and draws the first frame, n times.

        `kept`: the old ones are destroyed when there are so many, not before; not on a ring.
        """
        flat = ffi.new("VkExtent2D[]", list(sizes))
        return lambda n: seconds(self._lib.time_resizes(self.chain, flat, len(sizes), n, kept))

    def wait(self) -> None:
        """Until nothing runs."""
        seconds(self._lib.chain_wait(self.chain))

    def close(self) -> None:
        """Idempotent."""
        chain, self.chain = self.chain, None
        if chain:
            self._lib.chain_close(chain)
