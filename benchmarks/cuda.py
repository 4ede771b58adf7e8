"""What does it cost that Vulkan and CUDA work on one surface in turn, against C that does no more than that?"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Mapping
from time import thread_time
from typing import Any

import vkshare
from benchmarks import compiler
from benchmarks.compiler import ffi
from benchmarks.measure import Samples, Spread, Timed, repeated, spreads, timed
from benchmarks.plan import Plan
from vkshare import Device
from vkshare.errors import DeviceMismatchError, UnsupportedError
from vkshare.interop import cuda as interop

_TURN = 30e-3  # seconds
_IN_FLIGHT = 64  # frames between two waits: no queue is ever full
_LINEAR: dict[str, Any] = {"tiling": "linear", "memory": "device"}


def run(plan: Plan) -> None:
    """On the best Vulkan device that is a GPU of CUDA's; one thread, unpinned."""
    with contextlib.ExitStack() as stack, plan.noting("cuda", UnsupportedError, DeviceMismatchError):
        device = stack.enter_context(vkshare.open(backend="vulkan", validation=False, name="bench"))
        interop.open(stack.enter_context(device.create_surface(32, 32, **_LINEAR))).close()
        for what, size, name in (
            ("4 KiB, cleared by graphics, filled by CUDA", (32, 32), "rgba8unorm"),
            ("3840x2160 RGBA32F, cleared by graphics, filled by CUDA", (3840, 2160), "rgba32float"),
        ):
            with contextlib.closing(_Frames(device, size, name, "clear")) as frames:
                ways = {"ours": timed(frames.ours), "c": timed(frames.c)}
                plan.race(f"Vulkan -> CUDA -> Vulkan, {what}", ways, most=1.05, turn=_TURN)
                cpu = f"CPU time of such a frame, {what}"
                _time(plan, cpu, plan.turns(cpu, {"ours": frames.ours, "c": frames.c}, _TURN))
        # A copy needs no graphics: both use the queue family that only copies, where the GPU has one.
        with contextlib.closing(_Frames(device, (32, 32), "rgba8unorm", "copy")) as frames:
            what = "Vulkan -> CUDA -> Vulkan, where Vulkan copies 4 KiB"
            _time(plan, what, plan.turns(what, {"ours": timed(frames.ours), "c": timed(frames.c)}, _TURN))
        _from_dlpack(plan, device)
        plan.note(
            "cuda: a frame is Vulkan's work, then CUDA's, and the next frame's comes after both. The GPU changes its "
            "context twice a frame where Vulkan's part needs the graphics queue: what a small frame takes is that"
        )


def _time(plan: Plan, what: str, samples: Mapping[str, Samples]) -> None:
    found = spreads(samples)
    plan.own(what, found["ours"], theirs=found["c"], most=15e-6)


def _from_dlpack(plan: Plan, device: Device) -> None:
    what = "torch.from_dlpack(view), a surface in CUDA"
    with (
        plan.noting("cuda: PyTorch is not installed", ImportError),
        device.create_surface(64, 64, **_LINEAR) as surface,
        interop.open(surface) as shared,
        shared.access() as view,
    ):
        import torch  # type: ignore[import-not-found, unused-ignore]

        samples = plan.turns(what, {"ours": repeated(lambda: torch.from_dlpack(view))})
        plan.own(what, Spread.of(samples["ours"]), most=20e-6)


class _Frames:
    """One surface of two handles here, and one of the C side's with a semaphore of its own; the work is the same."""

    def __init__(self, device: Device, size: tuple[int, int], name: str, work: str) -> None:
        from vkshare.backends.vulkan.api import address
        from vkshare.backends.vulkan.objects import Objects
        from vkshare.interop.cuda.memory import import_timeline

        self._stack = contextlib.ExitStack()
        enter = self._stack.enter_context
        self._device = device
        self._context: Any = device._backend.context  # type: ignore[attr-defined]
        self._mine, self._theirs = (enter(device.create_surface(*size, name, **_LINEAR)) for _ in range(2))
        self._from, self._from_c = (enter(device.create_surface(*size, name, **_LINEAR)) for _ in range(2))
        self._from.acquire()
        self._shared = enter(interop.open(enter(device.open_surface(self._mine))))
        self._c_shared = enter(interop.open(self._theirs))
        self._lib = compiler.library("cuda.c")
        fence = enter(device.create_fence())  # its semaphore is C's alone
        with fence.export() as descriptor:
            page, semaphore = descriptor._open_fds()
            os.close(page)
            self._timeline = import_timeline(self._shared.gpu, semaphore)
        self._handle = fence.handle
        self._imported = self._timeline.detach()
        self._after = 0
        self._sides = [self._side(shared, size) for shared in (self._shared, self._c_shared)]
        with self._mine.access() as view:
            self._commands = device.record()
            self._commands.clear(view, (0, 0, 0, 1)) if work == "clear" else self._commands.copy(self._from, view)
            device.submit(self._commands)
        self._family = self._context.transfer_family if work == "copy" else None
        self._objects = Objects(self._context)
        self._raw = address(self._record(work))
        self._queue = address(self._context.queue if self._family is None else self._context.transfer_queue)
        self._submit = address(self._context.vk.pointer("vkQueueSubmit2"))

    def _record(self, work: str) -> Any:
        from vkshare.backends.vulkan import barriers
        from vkshare.backends.vulkan.api import VK, new

        vk, general = self._context.vk, VK.IMAGE_LAYOUT_GENERAL
        target: Any = self._theirs._image
        source: Any = self._from_c._image

        def write(commands: Any) -> None:
            barriers.everything(vk, commands)
            if work == "clear":
                black, whole = new("VkClearColorValue"), barriers.whole_image()
                vk.vkCmdClearColorImage(commands, target.handle, general, black, 1, whole)
            else:
                size = {"width": self._theirs.width, "height": self._theirs.height, "depth": 1}
                layer = {"srcSubresource": barriers.ONE_LAYER, "dstSubresource": barriers.ONE_LAYER, "extent": size}
                vk.vkCmdCopyImage(
                    commands, source.handle, general, target.handle, general, 1, new("VkImageCopy", **layer)
                )

        return self._objects.record(write, name="bench", family=self._family)

    def _side(self, shared: Any, size: tuple[int, int]) -> Any:
        """The cuda_side of c/interface.h."""
        driver, side = ctypes.CDLL("libcuda.so.1"), ffi.new("cuda_side *")

        def function(kind: str, name: str) -> Any:
            return ffi.cast(kind, ctypes.cast(driver[name], ctypes.c_void_p).value)

        with shared.access() as view:
            side.wait = function("on_semaphores", "cuWaitExternalSemaphoresAsync")
            side.signal = function("on_semaphores", "cuSignalExternalSemaphoresAsync")
            side.fill = function("fill_rows", "cuMemsetD2D32Async")
            side.semaphore, side.stream = (ffi.cast("void *", each) for each in (self._imported, view.stream))
            self._stream, side.address, side.pitch = view.stream, view.pointer, view.strides[0]
            side.width, side.height = size[0] * shared.surface.spec.format.bytes_per_pixel // 4, size[1]
        return side

    # ---- n frames ---------------------------------------------------------------------------------------------------

    def ours(self, n: int) -> float:
        """Until the last has run. The calling thread's time, without the waits between chunks."""
        return self._chunks(n, self._our_calls)

    def c(self, n: int) -> float:
        """The same of C."""
        return self._chunks(n, self._c_calls)

    def _chunks(self, n: int, calls: Timed) -> float:
        spent = 0.0
        stream = interop.driver.bindings().CUstream(self._stream)
        with self._shared.gpu.current():
            for done in range(0, n, _IN_FLIGHT):
                before = thread_time()
                calls(min(_IN_FLIGHT, n - done))
                spent += thread_time() - before
                interop.driver.call("cuStreamSynchronize", stream)
        return spent

    def _our_calls(self, n: int) -> float:
        mine, shared, device, commands = self._mine, self._shared, self._device, self._commands
        work, side, failed = self._lib.cuda_work, self._sides[0], 0
        for i in range(n):
            mine.acquire(0)
            device.submit(commands)
            mine.release(1)
            with shared.access(1, 0):
                failed = work(side, i) or failed
        if failed:
            raise RuntimeError(f"our side failed with CUresult {failed}")
        return 0.0

    def _c_calls(self, n: int) -> float:
        submit = self._submit, self._queue, self._raw, self._handle
        took = float(self._lib.time_cuda_frames(*submit, self._sides[1], self._after, n))
        if took < 0:
            raise RuntimeError(f"the C side failed with {took:.0f}")
        self._after += 2 * n
        return took

    def close(self) -> None:
        """Frees what was made; nothing runs any more."""
        with self._shared.gpu.current():
            interop.driver.call("cuCtxSynchronize")
            semaphore = interop.driver.bindings().CUexternalSemaphore(self._imported)
            interop.driver.call("cuDestroyExternalSemaphore", semaphore)
        self._context.vk.vkQueueWaitIdle(self._context.queue)
        self._objects.destroy()
        self._commands._reset()
        self._from.release()
        self._stack.close()
