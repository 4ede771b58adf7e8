"""The descriptor with which another process opens a surface queue or a pipe: the queues' pages and all surfaces."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from typing import Self

from vkshare.backends.base import ImageSpec
from vkshare.errors import DescriptorError
from vkshare.ipc.descriptors import HEADER, SURFACE_BODY, Descriptor, SurfaceDescriptor, spec_of
from vkshare.util import fd_ops
from vkshare.util.library_calls import lib

_QUEUE = struct.Struct("<III")  # queues, surfaces, fds of each surface (2 or 3)
_MOST_QUEUES = 2


class QueueDescriptor(Descriptor):
    """A queue on its way to another device or process: ``SurfaceQueue.open(device, descriptor)`` opens it there.

    One of a pipe, which ``vks.open_receiver()`` takes, has two: the way there and the way back. Carries a page (one fd)
    for each queue, and for each surface what a SurfaceDescriptor carries.
    """

    _kind = 3
    _body = _QUEUE
    _most_fds = _MOST_QUEUES + 3 * lib.VKS_MAX_QUEUE_SURFACES

    @classmethod
    def _made(cls, pages: Sequence[int], surfaces: Sequence[SurfaceDescriptor]) -> Self:
        """Called by an exporter. Takes ownership of `pages` and of the fds of `surfaces`."""
        fds, fields = list(pages), b""
        for surface in surfaces:
            surface_fields, surface_fds = surface._give_away()
            fields += surface_fields
            fds += surface_fds
        per_surface = (len(fds) - len(pages)) // max(1, len(surfaces))
        return cls(_QUEUE.pack(len(pages), len(surfaces), per_surface) + fields, fds)

    @property
    def queue_count(self) -> int:
        """Number of queues: 1; 2 for a pipe."""
        return self._counts[0]

    @property
    def surface_count(self) -> int:
        """The id of the queue network."""
        return self._counts[1]

    @property
    def spec(self) -> ImageSpec:
        """The size, format, tiling and usage of all surfaces."""
        return spec_of(self._fields_of(0))

    def _open_pages(self) -> tuple[int, ...]:
        """Return duplicates of the queues' page fds; the caller owns them."""
        self._used = True
        return fd_ops.duplicate_all(self._unused_fds()[: self.queue_count])

    def _open_surfaces(self) -> list[SurfaceDescriptor]:
        """Return descriptors of the surfaces, in the network's order; the caller closes them."""
        _, count, per_surface = self._counts
        found: list[SurfaceDescriptor] = []
        try:
            for number in range(count):
                start = self.queue_count + number * per_surface
                fds = fd_ops.duplicate_all(self._unused_fds()[start : start + per_surface])
                found.append(SurfaceDescriptor(self._fields_of(number), fds))
        except BaseException:
            for descriptor in found:
                descriptor.close()
            raise
        self._used = True
        return found

    @property
    def _counts(self) -> tuple[int, int, int]:
        return _QUEUE.unpack_from(self._fields)

    def _fields_of(self, number: int) -> bytes:
        start = _QUEUE.size + number * SURFACE_BODY.size
        return self._fields[start : start + SURFACE_BODY.size]

    @classmethod
    def _sizes(cls) -> range:
        """Return the size of the whole struct in bytes."""
        least = HEADER.size + _QUEUE.size + SURFACE_BODY.size
        return range(least, least + lib.VKS_MAX_QUEUE_SURFACES * SURFACE_BODY.size, SURFACE_BODY.size)

    def _check(self) -> None:
        queues, count, per_surface = self._counts
        if not 1 <= queues <= _MOST_QUEUES or not 1 <= count <= lib.VKS_MAX_QUEUE_SURFACES:
            raise DescriptorError(
                f"descriptor: {queues} queues over {count} surfaces; allowed are 1 to {_MOST_QUEUES} over 1 to "
                f"{lib.VKS_MAX_QUEUE_SURFACES}"
            )
        if per_surface not in (2, 3) or len(self._fds) != queues + count * per_surface:
            raise DescriptorError(
                f"descriptor: {queues} queues, {count} surfaces with {per_surface} fds each, and {len(self._fds)} came"
            )
        if len(self._fields) != _QUEUE.size + count * SURFACE_BODY.size:
            raise DescriptorError(f"descriptor: {count} surfaces, and the fields are of another number")
        for page in self._fds[:queues]:
            fd_ops.check_page(page, writable=True)
        with contextlib.ExitStack() as opened:
            surfaces = [opened.enter_context(surface) for surface in self._open_surfaces()]
            for surface in surfaces:
                surface._check()
            specs = {surface.spec for surface in surfaces}
        if len(specs) != 1:
            raise DescriptorError("descriptor: the surfaces of a queue have one size, format and tiling; these differ")

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<vkshare.QueueDescriptor {self._counts[1]} surfaces{state}>"
