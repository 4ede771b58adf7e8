"""The memory of the CPU backend's surfaces and buffers: a sealed memfd each, which a Vulkan device may open as well."""

from __future__ import annotations

import mmap
import sys
import uuid
from typing import Any

from vkshare.backends.base import BufferSpec, ImageSpec, MemoryHandle, PlaneLayout, Spec
from vkshare.util import shared_memory
from vkshare.util.library_calls import check, ffi, lib

# The CPU backend's on every machine: memory is shared by fd, never by UUID.
UUID = uuid.UUID("76b5a1e0-0c70-5c9e-8f0e-637075000001").bytes
ROW_ALIGNMENT: int = lib.VKS_ROW_ALIGNMENT  # bytes: a cache line, and what the widest vector load wants
PLANE_ALIGNMENT = 4  # bytes, of luma's rows: chroma's begin at whole pixels
# Python 3.13 and later can map without keeping a duplicate of the fd for mmap.resize().
_NO_DUPLICATE: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def layout(spec: Spec, row_alignment: int = ROW_ALIGNMENT) -> tuple[int, int]:
    """(stride, size) in bytes of a linear image, or a buffer, of the CPU backend: padded rows, whole pages."""
    if isinstance(spec, BufferSpec):
        return 0, -(-spec.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    row = spec.width * spec.format.bytes_per_pixel
    alignment = max(row_alignment, PLANE_ALIGNMENT) if spec.format.is_planar else row_alignment
    stride = -(-row // alignment) * alignment
    last, height = planes(spec, stride)[-1], spec.format.plane_size(-1, spec.width, spec.height)[1]
    return stride, -(-(last.offset + last.stride * height) // mmap.PAGESIZE) * mmap.PAGESIZE


def planes(spec: ImageSpec, stride: int) -> tuple[PlaneLayout, ...]:
    """The planes of an image of the CPU backend: one after the other, without a gap (native/raster/planar.h)."""
    found, offset = [], 0
    for index in range(len(spec.format.planes)):
        is_narrow = index and len(spec.format.planes) == 3
        own = stride // spec.format.chroma[0] if is_narrow else stride
        found.append(PlaneLayout(offset, own))
        offset += own * spec.format.plane_size(index, spec.width, spec.height)[1]
    return tuple(found)


def check_layout(spec: Spec, memory: MemoryHandle) -> None:
    """Rule X16 for memory of the CPU backend: its size is what its rows need, in whole pages.

    Raises
    ------
    DescriptorError
        The size, the stride or the offset is another one. Rows may be tight.
    """
    fields = {
        **spec.body,
        "memory_size": memory.size,
        "memory_offset": memory.offset,
        "stride": memory.stride,
    }
    check(lib.vks_surface_check_memfd(ffi.new("vks_surface_body *", fields)), "descriptor")


def map_pages(fd: int, size: int, *, writable: bool = True) -> mmap.mmap:
    """The first `size` bytes of a memfd. No page is taken for it: the memory of another party may have holes."""
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=protection, **_NO_DUPLICATE)


def open_pages(spec: Spec, memory: MemoryHandle) -> mmap.mmap:
    """Another party's memory, mapped after every check. The fd stays the caller's. DescriptorError."""
    check_layout(spec, memory)
    shared_memory.memory_check(memory.fd, is_memfd=memory.kind == "memfd", size=memory.size)
    return map_pages(memory.fd, memory.size)
