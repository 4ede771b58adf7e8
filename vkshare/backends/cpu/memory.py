"""Images in shared memory: a sealed memfd each, mapped whole."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from typing import Any

from vkshare import _fds
from vkshare.backends.base import ImageSpec, MemoryHandle
from vkshare.errors import DescriptorError, UnsupportedError

ROW_ALIGNMENT = 64  # bytes: a cache line, and what the widest vector load wants
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
# Python 3.13 and later can map without keeping a duplicate of the fd for mmap.resize().
_NO_DUPLICATE: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
_CHUNK = 1 << 20  # bytes reserved in one call: short enough to end between two signals
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14; Python's mmap does not name it


class CpuImage:
    """An image whose rows lie in a shared mapping, padded to ROW_ALIGNMENT."""

    image = 0
    image_view = 0
    ownership_commands: tuple[int, ...] = (0, 0)

    def __init__(self, spec: ImageSpec, fd: int, stride: int, mapping: mmap.mmap) -> None:
        """Takes over `fd`."""
        self.spec = spec
        self.stride = stride
        self._size = len(mapping)
        self._fd = fd
        # Views and the C core hold the memoryview, which holds the mapping: it goes with the last of them.
        self._pixels: memoryview | None = memoryview(mapping)

    def pixels(self) -> memoryview | None:
        return self._pixels

    def export(self, device_uuid: bytes = bytes(16), driver_uuid: bytes = bytes(16)) -> MemoryHandle:
        fd = _fds.duplicate(self._fd)
        return MemoryHandle("memfd", fd, self._size, 0, self.stride, False, device_uuid, driver_uuid)

    def destroy(self) -> None:
        if self._pixels is not None:
            self._pixels = None
            os.close(self._fd)


def create(spec: ImageSpec) -> CpuImage:
    """A new image, all zeros. OSError (ENOMEM, ENOSPC) when there is no memory for it."""
    row = spec.width * spec.format.bytes_per_pixel
    stride = -(-row // ROW_ALIGNMENT) * ROW_ALIGNMENT
    size = -(-stride * spec.height // mmap.PAGESIZE) * mmap.PAGESIZE
    fd = os.memfd_create("vkshare:surface", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        mapping = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, **_NO_DUPLICATE)
        _reserve(mapping, fd)
    except BaseException:
        os.close(fd)
        raise
    return CpuImage(spec, fd, stride, mapping)


def _reserve(mapping: mmap.mmap, fd: int) -> None:
    """Takes all pages from the system now: a later write to one that it cannot provide would be a SIGBUS."""
    try:
        mapping.madvise(_POPULATE_WRITE)
    except OSError:  # an older kernel; or no memory, which the calls below will say
        for start in range(0, len(mapping), _CHUNK):
            os.posix_fallocate(fd, start, min(_CHUNK, len(mapping) - start))


def open_memory(spec: ImageSpec, memory: MemoryHandle) -> CpuImage:
    """An image over another party's memory, whose seals and size the descriptor's check has seen."""
    try:
        if memory.kind != "memfd":
            raise UnsupportedError(
                f"opening a surface of kind {memory.kind!r} on the CPU backend",
                "its memory belongs to a Vulkan driver",
                "open it on a device of the same adapter, or create the surface on the CPU backend",
            )
        if memory.offset or spec.tiling != "linear":
            raise DescriptorError(f"a memfd surface is linear at offset 0, not {spec.tiling} at {memory.offset}")
        _fds.check_memory(memory.fd, memory.kind, memory.size)
        if memory.stride * spec.height > memory.size:
            raise DescriptorError(f"{spec.height} rows of {memory.stride} bytes do not fit {memory.size} bytes")
        # Populated: each first touch of a page would be a fault in the middle of a frame.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        mapping = mmap.mmap(memory.fd, memory.size, flags=flags, **_NO_DUPLICATE)
    except BaseException:
        os.close(memory.fd)
        raise
    return CpuImage(spec, memory.fd, memory.stride, mapping)
