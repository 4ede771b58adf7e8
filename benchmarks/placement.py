"""On which cores the threads of a process run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.plan import Plan

_ALL = frozenset(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a process, and its peer if there is one, run. None: wherever the system puts them."""

    name: str
    here: int | None = None
    peer: int | None = None


_UNPINNED = (Placement("unpinned"),)


def alone(plan: Plan, *servers: int) -> Iterator[Placement]:
    """For one process: on one core, and unpinned. It is there until the next, and with it those that serve it."""
    for place in (Placement("one core", min(_ALL)), *_UNPINNED[plan.pinned_only :]):
        with placed(place, *servers):
            yield place


def pairs(pinned_only: bool) -> list[Placement]:
    """For two processes: both on one core, each on its own, and unpinned."""
    first, *others = sorted(_ALL)
    apart = [Placement("two cores", first, others[0])] if others else []
    return [Placement("one core", first, first), *apart, *_UNPINNED[pinned_only:]]


def pin(core: int | None, process: int | None = None) -> None:
    """Moves every thread of this process, or of that one, to that core; None sets them free.

    Threads made later follow their maker.
    """
    cores = _ALL if core is None else {core}
    for thread in os.listdir(f"/proc/{process or 'self'}/task"):
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), cores)


@contextlib.contextmanager
def placed(placement: Placement, *servers: int) -> Iterator[None]:
    """Pins this process inside the block, and with it the processes that serve it."""
    for process in (None, *servers):
        pin(placement.here, process)
    try:
        yield
    finally:
        for process in (None, *servers):
            pin(None, process)
