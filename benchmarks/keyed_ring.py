"""C's side of a hand-over: a keyed mutex written by hand (c/keyed_mutex.c)."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from itertools import cycle

from benchmarks import compiler
from benchmarks.measure import Timed
from benchmarks.shared_block import SharedBlock

Ring = Callable[[int, "ctypes.Array[ctypes.c_void_p] | None", int, int], float]


def in_c(count: int, take: int, give: int) -> Ring:
    """(address, blocks, size, n): takes `count` mutexes at `address` in turn, fills `size` bytes of each one's block
    (blocks may be None), gives them on; n times in all. The seconds that it took. Raises compiler.NoCompiler.
    """
    pointer, u64, long = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_long
    parameters = (pointer, long, u64, u64, ctypes.POINTER(pointer), ctypes.c_size_t, long)
    ring = compiler.function(compiler.library("keyed_mutex.c"), "time_ring", *parameters)
    return lambda address, blocks, size, n: float(ring(address, count, take, give, blocks, size, n))


def on_pages(
    block: SharedBlock,
    count: int,
    take: int,
    give: int,
    blocks: ctypes.Array[ctypes.c_void_p] | None = None,
    size: int = 0,
) -> Timed:
    """The same with a ring on each page of the block; each turn takes the next one, as in the other process."""
    ring = in_c(count, take, give)
    pages = cycle(range(block.address, block.address + block.size, mmap.PAGESIZE))
    return lambda n: ring(next(pages), blocks, size, n)
