"""Zeroed memory that two processes map, and C's side of a hand-over in it: a keyed mutex written by hand."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from itertools import cycle
from multiprocessing import reduction
from typing import Any

from benchmarks import compiler
from benchmarks.compiler import ffi
from benchmarks.measure import Timed
from vkshare.util.closing import Scoped


class SharedBlock(Scoped):
    """A memfd and its map. Pickles through multiprocessing: the other process maps the same pages."""

    def __init__(self, size: int, fd: int | None = None) -> None:
        self._fd = os.memfd_create("vkshare:bench", os.MFD_CLOEXEC) if fd is None else fd
        os.truncate(self._fd, size)
        self.map = mmap.mmap(self._fd, size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (len(self.map), reduction.DupFd(self._fd))

    def parts(self, size: int) -> list[Any]:
        """The addresses of parts of that size, one after another."""
        start = ffi.cast("char *", ffi.from_buffer(self.map))
        return [start + at for at in range(0, len(self.map), size)]

    def close(self) -> None:
        """Closes the fd; the map goes with the object."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _opened(size: int, fd: Any) -> SharedBlock:
    return SharedBlock(size, fd.detach())


def keyed_ring(
    block: SharedBlock, count: int, take: int, give: int, blocks: Sequence[Any] | None = None, size: int = 0
) -> Timed:
    """C's loop over `count` mutexes on a page: takes each in turn, fills `size` bytes of its block
    if there are blocks, gives it on. Each turn takes the next page, as in the other process. Raises
    compiler.NoCompiler.
    """
    ring = compiler.library("keyed_mutex.c").time_ring
    pages = cycle(block.parts(mmap.PAGESIZE))
    filled = ffi.NULL if blocks is None else ffi.new("void *[]", list(blocks))
    return lambda n: float(ring(next(pages), count, take, give, filled, size, n))
