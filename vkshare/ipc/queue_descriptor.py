"""The descriptor with which another process opens a surface queue or a pipe: the queues' pages and all surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from vkshare.backends.base import BufferSpec, Spec
from vkshare.ipc.descriptors import (
    HEADER_SIZE,
    BufferDescriptor,
    Descriptor,
    MemoryDescriptor,
    SurfaceDescriptor,
    all_or_none,
    spec_of,
)
from vkshare.util import fd_ops
from vkshare.util.library_calls import ffi, lib


class QueueDescriptor(Descriptor):
    """A queue on its way to another device or process: ``SurfaceQueue.open(device, descriptor)`` opens it there.

    One of a pipe, which ``vks.open_receiver()`` takes, has two: the way there and the way back.
    Carries a page (one fd) for each queue, and for each surface what a SurfaceDescriptor carries, or
    for each buffer what a BufferDescriptor carries.
    """

    _form = lib.vks_queue_form()

    @classmethod
    def _made(cls, pages: Sequence[int], surfaces: Sequence[MemoryDescriptor]) -> Self:
        """Called by an exporter. Takes ownership of `pages` and of the fds of `surfaces`."""
        fds, items = list(pages), b""
        for surface in surfaces:
            data, surface_fds = surface._give_away()
            items += data[HEADER_SIZE:]
            fds += surface_fds
        per_surface = (len(fds) - len(pages)) // max(1, len(surfaces))
        return cls._packed(ffi.new("vks_queue_body *", (len(pages), len(surfaces), per_surface)), fds, items)

    @property
    def queue_count(self) -> int:
        """Number of queues: 1; 2 for a pipe."""
        return int(self._body.n_queues)

    @property
    def surface_count(self) -> int:
        """Number of surfaces, or buffers, in the network."""
        return int(self._body.n_surfaces)

    @property
    def spec(self) -> Spec:
        """The size, format, tiling, usage and colour of all surfaces; of buffers, bytes and usage."""
        return spec_of(self._surface(0))

    def _open_pages(self) -> tuple[int, ...]:
        """Return duplicates of the queues' page fds; the caller owns them."""
        self._used = True
        return fd_ops.duplicate_all(self._unused_fds()[: self.queue_count])

    def _open_surfaces(self) -> list[MemoryDescriptor]:
        """Return descriptors of the surfaces, in the network's order; the caller closes them."""
        made = all_or_none(map(self._open_surface, range(self.surface_count)))
        self._used = True
        return made

    def _open_surface(self, number: int) -> MemoryDescriptor:
        count = self._body.fds_per_surface
        start = self.queue_count + number * count
        fds = fd_ops.duplicate_all(self._unused_fds()[start : start + count])
        return (BufferDescriptor if self._has_buffers else SurfaceDescriptor)._packed(self._surface(number), fds)

    @property
    def _has_buffers(self) -> bool:
        return isinstance(self.spec, BufferSpec)

    @property
    def _body(self) -> Any:
        return self._part("vks_queue_body")

    def _surface(self, number: int) -> Any:
        """The vks_surface_body of that surface."""
        return self._part("vks_surface_body", ffi.sizeof("vks_queue_body") + number * ffi.sizeof("vks_surface_body"))

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        what = "buffers" if self._has_buffers else "surfaces"
        return f"<vkshare.QueueDescriptor {self.surface_count} {what}{state}>"
