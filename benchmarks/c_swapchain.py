"""C's side of the swapchain benchmarks (c/swapchain.c, c/resize.c): a device and swapchains of its own."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from benchmarks import compiler
from vkshare.util.closing import Scoped

if TYPE_CHECKING:
    from vkshare import Device

Size = tuple[int, int]

WINDOW, HEADLESS, RING = range(3)  # chain_kind of c/swapchain.h
_IMAGES, _FLIGHTS = 16, 4
_TIMED_OUT = -2147483647
_TRIALS, _TRIAL = 5, 20  # of so many frames


class VulkanFailed(Exception):
    """A Vulkan call of the C program failed."""


class ChainHandles(ctypes.Structure):
    """chain_handles of c/swapchain.c."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("device", "queue", "swapchain")),
        *((name, ctypes.c_uint32) for name in ("n_images", "n_flights", "width", "height")),
        *((name, ctypes.c_uint64 * _IMAGES) for name in ("commands", "rendered", "presented")),
        *((name, ctypes.c_uint64 * _FLIGHTS) for name in ("acquired", "done")),
    )


class CDevice(Scoped):
    """A VkDevice with one queue, driven by C. Close what was made on it first. NoCompiler, VulkanFailed."""

    def __init__(self, pointer: int, instance: int = 0, owner: Device | None = None) -> None:
        self._pointer, self.instance, self._owner = pointer, instance, owner

    @classmethod
    def open(cls, device: Device) -> Self:
        """On the same adapter, a device and a queue of its own, without layers: vkshare makes them, and leaves them."""
        import vulkan

        import vkshare
        from vkshare.backends.vulkan.api import address

        owner = vkshare.open(device.adapter, validation=False, name="C")
        backend: Any = owner._backend
        context = backend.context
        instance, physical = address(context.instance), address(context.physical.handle)
        of_instance, of_device = vulkan.lib.vkGetInstanceProcAddr, backend.native_handles()["get_device_proc_addr"]
        made = of_device, address(context.device), address(context.queue), context.queue_family
        try:
            return cls(_over(address(of_instance), instance, physical, *made), instance, owner)
        except BaseException:
            owner.close()
            raise

    @classmethod
    def over(cls, get_device_proc_addr: int, device: int, queue: int) -> Self:
        """Wrap a device of the no-op driver, which the caller owns."""
        return cls(_over(0, 0, 0, get_device_proc_addr, device, queue, 0))

    def swapchain(
        self,
        size: Size,
        *,
        kind: int = HEADLESS,
        surface: int = 0,
        vk_format: int,
        images: int,
        flights: int = 2,
        present_fences: bool = False,
    ) -> CSwapchain:
        """`surface` for a WINDOW; it goes with the swapchain."""
        pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
        parameters = (pointer, u32, ctypes.c_uint64, u32, u32, u32, u32, u32, ctypes.c_int, pointer)
        result = ctypes.c_int32()
        how = kind, surface, *size, vk_format, images, flights, present_fences
        made = _function("chain_open", *parameters, returns=pointer)(self._pointer, *how, ctypes.addressof(result))
        if not made:
            raise VulkanFailed(f"a swapchain in C: VkResult {result.value}")
        return CSwapchain(made)

    def close(self) -> None:
        """Idempotent."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            _function("gpu_close", ctypes.c_void_p, returns=None)(pointer)
        if self._owner is not None:
            self._owner.close()


def _over(*handles: int) -> int:
    pointer = ctypes.c_void_p
    made: int | None = _function("gpu_over", *(pointer,) * 6, ctypes.c_uint32, returns=pointer)(*handles)
    if not made:
        raise VulkanFailed("a device in C: the driver lacks functions")
    return made


class CSwapchain(Scoped):
    """A swapchain, made and driven by C."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer
        self._time_frames = _function("time_frames", ctypes.c_void_p, ctypes.c_long)
        self._wait = _function("chain_wait", ctypes.c_void_p, returns=ctypes.c_int32)

    def frames(self, n: int) -> float:
        """C acquires, clears and presents n times."""
        return _checked(self._time_frames(self._pointer, n))

    def clear_by_rendering(self, wanted: bool) -> None:
        """Clears with a load operation, or with vkCmdClearColorImage (which is how it starts)."""
        change = _function("chain_clear_by_rendering", ctypes.c_void_p, ctypes.c_int, returns=ctypes.c_int32)
        _checked(float(change(self._pointer, wanted)))

    def clear_the_faster_way(self) -> bool:
        """Tries both for some milliseconds: which is faster, and by how much, depends on the driver. By rendering?"""
        least = {False: math.inf, True: math.inf}
        for _ in range(_TRIALS):
            for way in least:
                self.clear_by_rendering(way)
                least[way] = min(least[way], self.frames(_TRIAL))
        self.clear_by_rendering(least[True] < least[False])
        return least[True] < least[False]

    def resizes(self, sizes: Sequence[Size], kept: int = 0) -> Callable[[int], float]:
        """C waits for the device, makes the swapchain anew and draws the first frame, n times.

        `kept`: the old ones are destroyed when there are so many, not before; not on a ring.
        """
        flat = (ctypes.c_uint32 * (2 * len(sizes)))(*(edge for size in sizes for edge in size))
        parameters = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_long, ctypes.c_uint32)
        resize = _function("time_resizes", *parameters)
        return lambda n: _checked(resize(self._pointer, flat, len(sizes), n, kept))

    def wait(self) -> None:
        """Until nothing runs."""
        _checked(float(self._wait(self._pointer)))

    def handles(self) -> ChainHandles:
        """Return the handles for a caller in another language; valid until the next resize."""
        out = ChainHandles()
        tell = _function("chain_tell", ctypes.c_void_p, ctypes.c_void_p, returns=None)
        tell(self._pointer, ctypes.addressof(out))
        return out

    def close(self) -> None:
        """Idempotent."""
        pointer, self._pointer = self._pointer, 0
        if pointer:
            _function("chain_close", ctypes.c_void_p, returns=None)(pointer)


def extensions(device: Device) -> frozenset[str]:
    """Return the properties of the device's driver, and the loader."""
    from vkshare.backends.vulkan.api import NULL, global_functions, text

    context: Any = device._backend.context  # type: ignore[attr-defined]
    found = global_functions().list("vkEnumerateInstanceExtensionProperties", NULL)
    return frozenset(context.physical.extensions) | {text(each.extensionName) for each in found}


def _function(name: str, *parameters: type, returns: type | None = ctypes.c_double) -> Callable[..., Any]:
    library = compiler.library("gpu.c", "chain.c", "swapchain.c", "resize.c")
    return compiler.function(library, name, *parameters, returns=returns)


def _checked(seconds: float) -> float:
    """The result of a timed loop."""
    if seconds < 0:
        what = "timed out" if seconds == _TIMED_OUT else f"VkResult {seconds:.0f}"
        raise VulkanFailed(f"the loop in C: {what}")
    return seconds
