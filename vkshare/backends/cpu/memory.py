"""Images and buffers in shared memory: a sealed memfd each, mapped whole."""

from __future__ import annotations

import mmap
import os
import uuid
from dataclasses import replace
from typing import Generic, TypeVar

from vkshare.backends import host_memory
from vkshare.backends.base import (
    ARRAY_NOT_EXPORTED,
    BufferSpec,
    ImageSpec,
    MemoryHandle,
    PlaneLayout,
    Spec,
    has_tight_rows,
    tight_rows_refused,
)
from vkshare.backends.drawing import Drawable
from vkshare.errors import DescriptorError, DeviceMismatchError, UnsupportedError
from vkshare.util import fd_ops, shared_memory
from vkshare.util.closing import on_error
from vkshare.util.library_calls import ffi

SpecOf = TypeVar("SpecOf", ImageSpec, BufferSpec)


class CpuMemory(Generic[SpecOf]):
    """An image whose rows lie in a shared mapping, padded; or the bytes of a buffer there."""

    image = image_view = buffer = 0  # handles of Vulkan
    ownership_commands: tuple[int, ...] = (0, 0)
    initial_commands = 0

    def __init__(self, spec: SpecOf, fd: int, stride: int, mapping: mmap.mmap | memoryview, offset: int = 0) -> None:
        """Takes over `fd`; -1: the memory is no file's. Row 0 begins `offset` bytes into the mapping."""
        self.spec: SpecOf = spec
        self.stride = stride
        self.not_exported = ("", "")  # why export() is refused, and what to do; "": it is not
        self._size = len(mapping)
        self._fd = fd
        # Views and the C core hold the memoryview, which holds the mapping: it goes with the last
        # of them.
        self._pixels: memoryview | None = memoryview(mapping)[offset : _used(spec, mapping)]
        self.drawable = Drawable(**spec.drawable)

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """Where the rows of each plane are."""
        return host_memory.planes(self.spec, self.stride) if isinstance(self.spec, ImageSpec) else ()

    def pixels(self) -> memoryview | None:
        return self._pixels

    def check_export(self) -> None:
        if self.not_exported[0]:
            raise UnsupportedError("export of a surface in foreign memory", *self.not_exported)

    def export(self, device_uuid: bytes = bytes(16), driver_uuid: bytes = bytes(16)) -> MemoryHandle:
        fd = fd_ops.duplicate(self._fd)
        return MemoryHandle("memfd", fd, self._size, 0, self.stride, False, device_uuid, driver_uuid)

    def destroy(self) -> None:
        if self._pixels is not None:
            self._pixels = None
            if self._fd >= 0:
                os.close(self._fd)


def _used(spec: Spec, mapping: mmap.mmap | memoryview) -> int:
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
    if is_tight and isinstance(spec, ImageSpec) and not has_tight_rows(spec, host_memory.planes(spec, stride)):
        raise tight_rows_refused(spec, stride, host_memory.PLANE_ALIGNMENT, "the CPU backend")
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
                "open it on a device of the same adapter, or have an image of it here: device.mirror()",
            )
        mapping = host_memory.open_pages(spec, memory)
    return CpuMemory(spec, memory.fd, memory.stride, mapping)


def open_file(spec: BufferSpec, fd: int) -> CpuMemory[BufferSpec]:
    """A buffer over the first bytes of a sealed memfd, which stays the caller's. DescriptorError."""
    shared_memory.memfd_check(fd, "memory", writable=True, size=spec.nbytes)
    buffer = CpuMemory(spec, -1, 0, host_memory.map_pages(fd, spec.nbytes))
    buffer.not_exported = ("its memory is another surface's", "export that surface")
    return buffer


def import_memory(spec: ImageSpec, memory: MemoryHandle) -> CpuMemory[ImageSpec]:
    """An image at ``memory.offset`` of another party's memfd, whose fd stays the caller's. A stride of 0 is ours.

    Raises
    ------
    DeviceMismatchError
        A UUID is not the CPU backend's.
    DescriptorError
        The fd is no sealed memfd that can be written to, or offset, stride and size have no room for the rows.
    """
    _check_uuids(memory)
    pixel, (stride, _) = spec.format.bytes_per_pixel, host_memory.layout(spec)
    stride = memory.stride or stride
    for name, value, least in (("stride", stride, spec.width * pixel), ("offset", memory.offset, 0)):
        if value < least or value % pixel:
            raise DescriptorError(
                f"{name} is {value}; allowed are multiples of {pixel} from {least} on, for {spec.width} pixels of "
                f"{spec.format.name} a row"
            )
    needed = stride * (spec.height - 1) + spec.width * pixel
    if memory.size < memory.offset + needed:
        raise DescriptorError(
            f"size is {memory.size}; {spec.height} rows of {stride} bytes from offset {memory.offset} on need at least "
            f"{memory.offset + needed}"
        )
    shared_memory.memfd_check(memory.fd, "imported memory", writable=True, size=memory.size)
    mapping = host_memory.map_pages(memory.fd, memory.size)
    image = CpuMemory(spec, fd_ops.duplicate(memory.fd), stride, mapping, memory.offset)
    exact = replace(memory, kind="memfd", stride=stride)
    try:
        host_memory.check_layout(spec, exact)
        shared_memory.memory_check(memory.fd, is_memfd=True, size=memory.size)
    except DescriptorError as error:
        image.not_exported = (str(error), "copy() it to a surface of create_surface()")
    return image


def share_array(spec: ImageSpec, stride: int, memory: memoryview) -> CpuMemory[ImageSpec]:
    """An image over an array's memory, which it keeps alive. ValueError: it has no whole pixels at whole places."""
    pixel = spec.format.bytes_per_pixel
    address = int(ffi.cast("uintptr_t", ffi.from_buffer(memory)))
    if address % pixel or stride % pixel:
        raise ValueError(
            f"array begins at 0x{address:x} and has rows {stride} bytes apart; the CPU backend wants multiples of "
            f"{pixel}, the bytes of a pixel of {spec.format.name}: allocate it so, or pass copy=True"
        )
    image = CpuMemory(spec, -1, stride, memory)
    image.not_exported = ARRAY_NOT_EXPORTED
    return image


def _check_uuids(memory: MemoryHandle) -> None:
    if (memory.device_uuid, memory.driver_uuid) != (host_memory.UUID, host_memory.UUID):
        raise DeviceMismatchError(
            f"the memory is of device {uuid.UUID(bytes=memory.device_uuid)} with driver "
            f"{uuid.UUID(bytes=memory.driver_uuid)}, and the CPU backend has {uuid.UUID(bytes=host_memory.UUID)} for "
            "both; leave device_uuid and driver_uuid out for a memfd that no driver made"
        )
