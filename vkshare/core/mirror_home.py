"""The home image of a mirror: another adapter's memory, as bytes that the mirror's device copies from and to."""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vkshare.backends.base import BufferSpec
from vkshare.core import surface_factory
from vkshare.core.mirror_state import Box

if TYPE_CHECKING:
    from vkshare.backends.base import ImageSpec
    from vkshare.core.commands import CommandList
    from vkshare.core.device import Device
    from vkshare.core.surface import Surface
    from vkshare.ipc.descriptors import SurfaceDescriptor


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a linear image in a memfd."""

    fd: int
    first: int  # bytes before row 0
    stride: int


class Home:
    """The memory of the home image, mapped here as a buffer of the mirror's device; that handle always owns it."""

    def __init__(self, device: Device, rows: Rows, spec: ImageSpec) -> None:
        """The fd of the rows stays the caller's."""
        self._rows = rows
        self._pixel = spec.format.bytes_per_pixel
        nbytes = os.fstat(rows.fd).st_size
        self.buffer = surface_factory.open_file(device, BufferSpec(nbytes, frozenset({"copy"})), rows.fd)
        self.buffer.acquire(0)

    def pull(self, commands: CommandList, mirror: Surface, box: Box) -> None:
        """Record a copy of the box from the home image to the mirror's."""
        rect = (box.x, box.y, box.width, box.height)
        commands.copy(self.buffer, mirror, target_rect=rect, source_offset=self._offset(box), stride=self._rows.stride)

    def push(self, commands: CommandList, mirror: Surface, box: Box) -> None:
        """Record a copy of the box from the mirror's image to the home image."""
        rect = (box.x, box.y, box.width, box.height)
        commands.copy(mirror, self.buffer, rect, target_offset=self._offset(box), stride=self._rows.stride)

    def _offset(self, box: Box) -> int:
        return self._rows.first + box.y * self._rows.stride + box.x * self._pixel

    def close(self) -> None:
        """Give the memory up, once the work on it has run."""
        self.buffer.close()


def rows_of(descriptor: SurfaceDescriptor, fd: int) -> Rows | None:
    """Return where the rows are in the memory's file, which stays the caller's; None: not in order, or in no file.

    The descriptor may be another process's. A wrong place shows wrong pixels there, and nothing else.
    """
    spec, memory = descriptor.spec, descriptor._memory(fd)
    if spec.format.is_planar or spec.format.is_depth or not memory.stride or not _is_memfd(fd):
        return None
    pixel, unit = spec.format.bytes_per_pixel, mmap.PAGESIZE
    # A driver's own header is before its memory, in whole pages, and what is behind the memory is less than one.
    first = 0 if memory.kind == "memfd" else (os.fstat(fd).st_size - memory.size) // unit * unit
    if first < 0 or memory.stride < spec.width * pixel or memory.stride % pixel:
        return None
    return Rows(fd, first, memory.stride)


def _is_memfd(fd: int) -> bool:
    try:
        return bool(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
    except OSError:
        return False
