"""The memory of the CPU backend's surfaces: a sealed memfd each, which a Vulkan device may open as well."""

from __future__ import annotations

import mmap
import sys
from typing import Any

from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.errors import DescriptorError
from vkshare.util import fd_ops

ROW_ALIGNMENT = 64  # bytes: a cache line, and what the widest vector load wants; VKS_ROW_ALIGNMENT of vkshare.h
# Python 3.13 and later can map without keeping a duplicate of the fd for mmap.resize().
_NO_DUPLICATE: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def layout(spec: ImageSpec) -> tuple[int, int]:
    """(stride, size) in bytes of a linear image in memory of the CPU backend: padded rows, whole pages."""
    row = spec.width * spec.format.bytes_per_pixel
    stride = -(-row // ROW_ALIGNMENT) * ROW_ALIGNMENT
    return stride, _whole_pages(stride * spec.height)


def check(spec: ImageSpec, memory: MemoryHandle) -> None:
    """Rule X16 for memory of the CPU backend: its size is what its rows need, in whole pages.

    Raises
    ------
    DescriptorError
        The size, the stride or the offset is another one. Rows may be tight.
    """
    widest, _ = layout(spec)
    if spec.tiling != "linear" or spec.in_device_memory or memory.offset:
        raise DescriptorError("descriptor: memory of the CPU backend is linear host memory at offset 0")
    row = spec.width * spec.format.bytes_per_pixel
    if not row <= memory.stride <= widest:
        raise DescriptorError(
            f"descriptor: a row is {row} bytes and has a stride of {memory.stride}; allowed is {row} to {widest}"
        )
    needed = _whole_pages(memory.stride * spec.height)
    if memory.size != needed:
        raise DescriptorError(
            f"descriptor: the memory has {memory.size} bytes; {spec.height} rows of {memory.stride} need exactly "
            f"{needed}"
        )


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def map_pages(fd: int, size: int, *, writable: bool = True) -> mmap.mmap:
    """The first `size` bytes of a memfd. No page is taken for it: the memory of another party may have holes."""
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=protection, **_NO_DUPLICATE)


def open_pages(spec: ImageSpec, memory: MemoryHandle) -> mmap.mmap:
    """Another party's memory, mapped after every check. The fd stays the caller's. DescriptorError."""
    check(spec, memory)
    fd_ops.check_memory(memory.fd, memory.kind, memory.size)
    return map_pages(memory.fd, memory.size)
