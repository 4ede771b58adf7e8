"""The other process of tests/processes/benchmarks/test_benchmarks.py."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import keyed_ring
from benchmarks.shared_block import SharedBlock


def ring_side(block: SharedBlock) -> dict[str, Callable[[int], float]]:
    """Takes three mutexes by key 1 and gives them on by key 0."""
    ring = keyed_ring.in_c(3, 1, 0)
    return {"ring": lambda n: ring(block.address, None, 0, n)}


def failing_side() -> dict[str, Callable[[int], float]]:
    """Raises when it is played."""

    def fail(n: int) -> float:
        raise RuntimeError("on purpose")

    return {"fail": fail}
