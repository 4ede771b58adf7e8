"""Images and buffers in shared memory: a sealed memfd each, mapped whole."""

from __future__ import annotations

import mmap
import os
from typing import Generic, TypeVar

from vkshare.backends import host_memory
from vkshare.backends.base import BufferSpec, ImageSpec, MemoryHandle, Spec
from vkshare.backends.drawing import Drawable
from vkshare.errors import UnsupportedError
from vkshare.util import fd_ops, shared_memory
from vkshare.util.closing import on_error

SpecOf = TypeVar("SpecOf", ImageSpec, BufferSpec)


class CpuMemory(Generic[SpecOf]):
    """An image whose rows lie in a shared mapping, padded; or the bytes of a buffer there."""

    image = image_view = buffer = 0  # handles of Vulkan
    ownership_commands: tuple[int, ...] = (0, 0)

    def __init__(self, spec: SpecOf, fd: int, stride: int, mapping: mmap.mmap) -> None:
        """Takes over `fd`."""
        self.spec: SpecOf = spec
        self.stride = stride
        self._size = len(mapping)
        self._fd = fd
        # Views and the C core hold the memoryview, which holds the mapping: it goes with the last
        # of them.
        self._pixels: memoryview | None = memoryview(mapping)[: _used(spec, mapping)]
        self.drawable = Drawable(**spec.drawable)

    def pixels(self) -> memoryview | None:
        return self._pixels

    def export(self, device_uuid: bytes = bytes(16), driver_uuid: bytes = bytes(16)) -> MemoryHandle:
        fd = fd_ops.duplicate(self._fd)
        return MemoryHandle("memfd", fd, self._size, 0, self.stride, False, device_uuid, driver_uuid)

    def destroy(self) -> None:
        if self._pixels is not None:
            self._pixels = None
            os.close(self._fd)


def _used(spec: Spec, mapping: mmap.mmap) -> int:
    return spec.nbytes if isinstance(spec, BufferSpec) else len(mapping)


def create(spec: SpecOf, *, is_tight: bool = False) -> CpuMemory[SpecOf]:
    """A new image or buffer, all zeros; `is_tight`: rows without padding.

    Raises
    ------
    OSError
        There is no memory for it (ENOMEM, ENOSPC), or no fd is left.
    UnsupportedError
        This process may not call memfd_create().
    """
    stride, size = host_memory.layout(spec, 1 if is_tight else host_memory.ROW_ALIGNMENT)
    fd = shared_memory.memfd_create("vkshare:surface", size)
    with on_error(lambda: os.close(fd)):
        mapping = host_memory.map_pages(fd, size)
        shared_memory.memory_reserve(mapping, fd)
    return CpuMemory(spec, fd, stride, mapping)


def open_memory(spec: SpecOf, memory: MemoryHandle) -> CpuMemory[SpecOf]:
    """An image or a buffer over another party's memory, of which it takes no page: there may be holes.

    Takes over the fd.
    """
    with on_error(lambda: os.close(memory.fd)):
        if memory.kind != "memfd":
            raise UnsupportedError(
                f"opening memory of kind {memory.kind!r} on the CPU backend",
                "its memory belongs to a Vulkan driver",
                "open it on a device of the same adapter, or create it on the CPU backend",
            )
        mapping = host_memory.open_pages(spec, memory)
    return CpuMemory(spec, memory.fd, memory.stride, mapping)
