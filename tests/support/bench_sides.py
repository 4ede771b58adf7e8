"""The other process of tests/processes/benchmarks/test_benchmarks.py."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.shared_block import SharedBlock, keyed_ring


def ring_side(block: SharedBlock) -> dict[str, Callable[[int], float]]:
    """Takes three mutexes by key 1 and gives them on by key 0."""
    return {"ring": keyed_ring(block, 3, 1, 0)}


def failing_side() -> dict[str, Callable[[int], float]]:
    """Raises when it is played."""

    def fail(n: int) -> float:
        raise RuntimeError("on purpose")

    return {"fail": fail}
