"""The other process of tests/test_bench.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from vkshare.bench import compiler
from vkshare.bench.shared_block import SharedBlock


def ring_side(block: SharedBlock) -> dict[str, Callable[[int], float]]:
    """Takes three mutexes by key 1 and gives them on by key 0."""
    u64, long = ctypes.c_uint64, ctypes.c_long
    ring = compiler.function(compiler.library("keyed_mutex.c"), "time_ring", ctypes.c_void_p, long, u64, u64, long)
    return {"ring": lambda n: float(ring(block.address, 3, 1, 0, n))}


def failing_side() -> dict[str, Callable[[int], float]]:
    """Raises when it is played."""

    def fail(n: int) -> float:
        raise RuntimeError("on purpose")

    return {"fail": fail}
