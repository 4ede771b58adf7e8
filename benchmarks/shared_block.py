"""Zeroed memory that two processes map: what the C references and the copies of today go through."""

from __future__ import annotations

import ctypes
import mmap
import os
from multiprocessing import reduction
from typing import Any

from vkshare.util.closing import Scoped


class SharedBlock(Scoped):
    """A memfd and its map. Pickles through multiprocessing: the other process maps the same pages."""

    def __init__(self, size: int, fd: int | None = None) -> None:
        self.size = size
        self._fd = os.memfd_create("vkshare:bench", os.MFD_CLOEXEC) if fd is None else fd
        if fd is None:
            os.truncate(self._fd, size)
        self.map = mmap.mmap(self._fd, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.size, reduction.DupFd(self._fd))

    def close(self) -> None:
        """Closes the fd; the map goes with the object."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _opened(size: int, fd: Any) -> SharedBlock:
    return SharedBlock(size, fd.detach())
