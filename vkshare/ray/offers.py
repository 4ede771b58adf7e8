"""Offers: what a process of the same node needs to open a surface of this one. For any thread."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass

from vkshare.core.surface import Surface
from vkshare.ipc import fd_broker


@dataclass(frozen=True, slots=True)
class Offer:
    """A surface of a process. Its file descriptors wait there until the offer is withdrawn."""

    pid: int
    descriptor: bytes
    path: str  # of the process's socket
    token: bytes

    def withdraw(self) -> None:
        """Close the file descriptors. Processes that have opened the surface keep it. Idempotent."""
        fd_broker.withdraw((self.path, self.token))


def make(surface: Surface) -> Offer:
    """Offer a surface; the errors are those of ``surface.export()``."""
    with surface.export() as descriptor:
        path, token = fd_broker.offer(descriptor._unused_fds(), keep=True)
        return Offer(os.getpid(), descriptor.to_bytes(), path, token)


_of_frames: weakref.WeakKeyDictionary[Surface, Offer] = weakref.WeakKeyDictionary()


def note(frame: Surface, offer: Offer) -> None:
    """Note the offer of the surface that a frame is a handle of."""
    _of_frames[frame] = offer


def of_frame(frame: Surface) -> Offer | None:
    """Return the offer that note() had."""
    return _of_frames.get(frame)
