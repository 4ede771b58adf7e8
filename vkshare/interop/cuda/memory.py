"""CUDA imports of a surface or a buffer: its memory, and its timeline semaphore.

Follows the CUDA driver API, 6.19, "External Resource Interoperability". An fd belongs to CUDA once
it is imported.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

from vkshare.backends.base import BufferSpec, MemoryHandle, Spec
from vkshare.core.buffer import Buffer
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.interop.cuda.driver import CAPTURE_ERRORS, GPU, CUDAError, bindings, call
from vkshare.interop.cuda.plane import MappedPlane
from vkshare.interop.cuda.timeline import CudaTimeline
from vkshare.util import fd_ops
from vkshare.util.closing import destructor, on_error

_DEDICATED = 1  # CUDA_EXTERNAL_MEMORY_DEDICATED
_buffers: weakref.WeakValueDictionary[int, ImportedMemory] = weakref.WeakValueDictionary()  # by address
_to_free: list[tuple[GPU, list[tuple[str, Any]]]] = []  # see free()


class ImportedMemory:
    """Memory in CUDA: a buffer (a Buffer's, or linear tiling), or an array (optimal tiling), for each plane.

    Each view, tensor and capsule refers to the memory, which is freed with the last of them.
    Thread-safe.
    """

    def __init__(self, gpu: GPU, spec: Spec, memory: MemoryHandle, surface: Surface | Buffer) -> None:
        """Takes over memory.fd, whatever comes of it."""
        self.gpu = gpu
        self.spec = spec
        self.stride = memory.stride
        self.size = memory.size
        self.surface = weakref.ref(surface)
        self._pid = os.getpid()
        self._memory: Any = None  # CUexternalMemory
        self.planes: tuple[MappedPlane, ...] = ()
        what = str(spec)
        with on_error(lambda: fd_ops.close_all([memory.fd])):
            self.planes = _planes(gpu, spec, memory, surface)
            with gpu.current():
                self._memory = self._import(memory, what)
        with on_error(self._free), gpu.current():
            for plane in self.planes:
                plane.map(self._memory, what)
        first = self.planes[0]
        if first.pointer and len(self.planes) == 1:
            _buffers[first.pointer] = self

    def _import(self, memory: MemoryHandle, what: str) -> Any:
        driver = bindings()
        described = driver.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
        described.type = driver.CUexternalMemoryHandleType.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
        described.handle.fd = memory.fd
        described.size = memory.size
        described.flags = _DEDICATED if memory.dedicated else 0
        return call("cuImportExternalMemory", described, what=f"{memory.size} bytes, {what}")

    @destructor
    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None and self._pid == os.getpid():
            self._free()  # in a forked child all of it is the parent's

    def _free(self) -> None:
        """Free the mappings of the memory, and then the memory, once no kernel uses it."""
        memory, self._memory = self._memory, None
        made = [end for plane in self.planes for end in plane.ends()]
        free(self.gpu, [*made, ("cuDestroyExternalMemory", memory)])


def _planes(gpu: GPU, spec: Spec, memory: MemoryHandle, surface: Surface | Buffer) -> tuple[MappedPlane, ...]:
    if isinstance(spec, BufferSpec) or not spec.format.is_planar:
        return (MappedPlane(gpu, spec, memory.offset, memory.stride),)
    image: Any = surface._open_image()  # only surfaces have planes
    bound = image.bound_at
    return tuple(
        MappedPlane(gpu, each, memory.offset + (layout.offset if layout.stride else start), layout.stride)
        for each, layout, start in zip(spec.planes(), image.planes, bound, strict=True)
    )


def free(gpu: GPU, things: list[tuple[str, Any]]) -> bool:
    """Calls these functions of the driver with these handles, once CUDA's work so far has run. False: it never will.

    CUDA refuses to wait while a stream is captured into a graph; then the next call that comes here
    sees to it.
    """
    _to_free.append((gpu, things))
    return gpu not in free_what_is_left()


def free_what_is_left() -> set[GPU]:
    """Free the memory that free() had to defer. Returns the GPUs whose context has failed."""
    dead = set()
    for _ in range(len(_to_free)):
        try:
            gpu, things = _to_free.pop(0)
        except IndexError:  # another thread was faster
            break
        try:
            with gpu.current():
                call("cuCtxSynchronize")
                while things:
                    call(*things[0])
                    del things[0]
        except CUDAError as error:
            if error.result in CAPTURE_ERRORS:
                _to_free.append((gpu, things))
            else:  # the context died by an error of a kernel: nothing runs any more, and the process ends it
                dead.add(gpu)
    return dead


def found_at(address: int) -> ImportedMemory | None:
    """The surface's memory that begins there."""
    return _buffers.get(address)


def import_memory(gpu: GPU, surface: Surface | Buffer) -> tuple[ImportedMemory, CudaTimeline]:
    """The memory of the surface or buffer and its timeline semaphore, in CUDA.

    Raises
    ------
    UnsupportedError
        The surface is not ordered by a semaphore that can be shared, or CUDA has no arrays of its format.
    CUDAError
        The driver refused.
    """
    free_what_is_left()
    with surface._exported() as descriptor:
        fd, page, semaphore = descriptor._open_fds()
        os.close(page)
        if semaphore < 0:
            os.close(fd)
            raise UnsupportedError(
                f"{surface!r} in CUDA", f"{surface.device.adapter.name} shares no timeline semaphores"
            )
        with on_error(lambda: fd_ops.close_all([semaphore])):
            memory = ImportedMemory(gpu, descriptor.spec, descriptor._memory(fd), surface)
        return memory, import_timeline(gpu, semaphore)


def import_timeline(gpu: GPU, fd: int) -> CudaTimeline:
    """Takes over the fd, whatever comes of it."""
    driver = bindings()
    described = driver.CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC()
    described.type = driver.CUexternalSemaphoreHandleType.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
    described.handle.fd = fd
    with on_error(lambda: fd_ops.close_all([fd])), gpu.current():
        semaphore = call("cuImportExternalSemaphore", described)
    with on_error(lambda: free(gpu, [("cuDestroyExternalSemaphore", semaphore)])):
        return CudaTimeline(int(semaphore), gpu.context)


def destroy_timeline(gpu: GPU, timeline: CudaTimeline) -> bool:
    """Once what streams wait for or signal has come. Idempotent. False: it never will, for CUDA died."""
    semaphore = timeline.detach()  # first: no other thread gives a stream more of it
    return not semaphore or free(gpu, [("cuDestroyExternalSemaphore", bindings().CUexternalSemaphore(semaphore))])
