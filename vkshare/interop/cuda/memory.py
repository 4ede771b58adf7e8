"""CUDA imports of a surface or a buffer: its memory, and its timeline semaphore.

Follows the CUDA driver API, 6.19, "External Resource Interoperability". An fd belongs to CUDA once
it is imported.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import numpy as np

from vkshare.backends.base import BufferSpec, MemoryHandle, Spec
from vkshare.core.buffer import Buffer
from vkshare.core.surface import Surface
from vkshare.errors import UnsupportedError
from vkshare.interop.cuda.driver import CAPTURE_ERRORS, GPU, CUDAError, bindings, call
from vkshare.interop.cuda.timeline import CudaTimeline
from vkshare.util import fd_ops
from vkshare.util.closing import destructor, on_error

_DEDICATED = 1  # CUDA_EXTERNAL_MEMORY_DEDICATED
_SURFACE_LDST, _DEPTH_TEXTURE, _COLOR_ATTACHMENT = 0x02, 0x10, 0x20  # CUDA_ARRAY3D_...

# CUarray_format by the type of a channel. bgra8unorm is four bytes like any other; the channels of
# rgb10a2unorm are none of these.
_CHANNELS = {
    "uint8": "CU_AD_FORMAT_UNSIGNED_INT8",
    "uint16": "CU_AD_FORMAT_UNSIGNED_INT16",
    "uint32": "CU_AD_FORMAT_UNSIGNED_INT32",
    "float16": "CU_AD_FORMAT_HALF",
    "float32": "CU_AD_FORMAT_FLOAT",
}
_buffers: weakref.WeakValueDictionary[int, ImportedMemory] = weakref.WeakValueDictionary()  # by address
_to_free: list[tuple[GPU, list[tuple[str, Any]]]] = []  # see free()


class ImportedMemory:
    """Memory in CUDA: a buffer (a Buffer's, or linear tiling), or an array (optimal tiling).

    Each view, tensor and capsule refers to the memory, which is freed with the last of them.
    Thread-safe.
    """

    def __init__(self, gpu: GPU, spec: Spec, memory: MemoryHandle, surface: Surface | Buffer) -> None:
        """Takes over memory.fd, whatever comes of it."""
        self.gpu = gpu
        self.spec = spec
        self.stride = memory.stride
        self.shape, self.strides, self.dtype = _layout(spec, memory.stride)  # strides: None of an array
        self.size = memory.size
        self.surface = weakref.ref(surface)
        self.pointer = self.array = 0
        self._pid = os.getpid()
        self._levels: Any = None  # CUmipmappedArray
        self._objects: dict[str, int] = {}  # texture and surface objects, by kind
        self._making = threading.Lock()  # of these
        self._memory: Any = None  # CUexternalMemory
        what = str(spec)
        with on_error(lambda: fd_ops.close_all([memory.fd])):
            self._check_format()
            with gpu.current():
                self._memory = self._import(memory, what)
        with on_error(self._free), gpu.current():
            if self.strides is None:
                self._map_array(memory, what)
            else:
                self._map_buffer(memory, what)
        if self.pointer:
            _buffers[self.pointer] = self

    def _check_format(self) -> None:
        spec = self.spec
        if not isinstance(spec, BufferSpec) and self.strides is None and spec.format.name == "rgb10a2unorm":
            raise UnsupportedError(
                f"a cudaArray of an optimal {spec.format.name} surface",
                "CUDA has no arrays of that format",
                'use create_surface(..., tiling="linear")',
            )

    def _import(self, memory: MemoryHandle, what: str) -> Any:
        driver = bindings()
        described = driver.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
        described.type = driver.CUexternalMemoryHandleType.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
        described.handle.fd = memory.fd
        described.size = memory.size
        described.flags = _DEDICATED if memory.dedicated else 0
        return call("cuImportExternalMemory", described, what=f"{memory.size} bytes, {what}")

    def _map_buffer(self, memory: MemoryHandle, what: str) -> None:
        described = bindings().CUDA_EXTERNAL_MEMORY_BUFFER_DESC()
        described.offset = memory.offset
        described.size = self.spec.nbytes if isinstance(self.spec, BufferSpec) else memory.stride * self.spec.height
        self.pointer = int(call("cuExternalMemoryGetMappedBuffer", self._memory, described, what=what))

    def _map_array(self, memory: MemoryHandle, what: str) -> None:
        spec = self.spec
        assert not isinstance(spec, BufferSpec)
        driver = bindings()
        described = driver.CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC()
        described.offset = memory.offset
        described.numLevels = 1
        shape = driver.CUDA_ARRAY3D_DESCRIPTOR()
        shape.Width, shape.Height, shape.Depth = spec.width, spec.height, 0
        shape.Format = getattr(driver.CUarray_format, _CHANNELS[spec.format.dtype])
        shape.NumChannels = spec.format.channels
        shape.Flags = _SURFACE_LDST | (_COLOR_ATTACHMENT if "render" in spec.usage else 0)
        if spec.format.is_depth:
            shape.Flags = _DEPTH_TEXTURE  # a kernel samples it; surface objects are for colours
        described.arrayDesc = shape
        try:
            self._levels = call("cuExternalMemoryGetMappedMipmappedArray", self._memory, described, what=what)
        except CUDAError as error:
            if not spec.format.is_depth:
                raise
            why, hint = f"the driver answers {error}", "read() it, or draw the depth into an r32float surface"
            raise UnsupportedError(f"a cudaArray of {what}", why, hint) from error
        self.array = int(call("cuMipmappedArrayGetLevel", self._levels, 0, what=what))

    def object(self, kind: str) -> int:
        """The CUtexObject ("texture") or CUsurfObject ("surface") of the array; made once."""
        with self._making:
            if kind not in self._objects:
                self._objects[kind] = self._make(kind)
            return self._objects[kind]

    def _make(self, kind: str) -> int:
        spec = self.spec
        assert not isinstance(spec, BufferSpec)
        if kind == "surface" and spec.format.is_depth:
            what = f"a surface object of format {spec.format}"
            raise UnsupportedError(what, "CUDA has none of depth", "sample it: view.texture_object")
        driver = bindings()
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        resource.res.array.hArray = driver.CUarray(self.array)
        with self.gpu.current():
            if kind == "surface":
                return int(call("cuSurfObjectCreate", resource))
            return int(call("cuTexObjectCreate", resource, self._texture(), None))

    def _texture(self) -> Any:
        """Texels as they are stored, unnormalised coordinates, clamped: what a kernel that computes wants."""
        driver = bindings()
        texture = driver.CUDA_TEXTURE_DESC()
        clamp = driver.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP
        texture.addressMode = [clamp, clamp, clamp]
        texture.filterMode = driver.CUfilter_mode.CU_TR_FILTER_MODE_POINT
        texture.flags = driver.CU_TRSF_READ_AS_INTEGER if self.dtype.kind == "u" else 0
        return texture

    @destructor
    def __del__(self) -> None:
        if getattr(self, "_memory", None) is not None and self._pid == os.getpid():
            self._free()  # in a forked child all of it is the parent's

    def _free(self) -> None:
        """Free the mappings of the memory, and then the memory, once no kernel uses it."""
        memory, self._memory = self._memory, None
        ends = {"surface": "cuSurfObjectDestroy", "texture": "cuTexObjectDestroy"}
        made = [(ends[kind], each) for kind, each in self._objects.items()]
        if self._levels is not None:
            made.append(("cuMipmappedArrayDestroy", self._levels))
        if self.pointer:
            made.append(("cuMemFree", self.pointer))
        free(self.gpu, [*made, ("cuDestroyExternalMemory", memory)])


def _layout(spec: Spec, stride: int) -> tuple[tuple[int, ...], tuple[int, ...] | None, np.dtype[Any]]:
    """Shape, strides and type of the array over the memory."""
    if isinstance(spec, BufferSpec):
        return (spec.nbytes,), (1,), np.dtype(np.uint8)
    pixel = spec.format
    strides = stride, pixel.bytes_per_pixel, pixel.bytes_per_pixel // pixel.channels
    return (spec.height, spec.width, pixel.channels), strides if spec.tiling == "linear" else None, pixel.numpy_dtype


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
