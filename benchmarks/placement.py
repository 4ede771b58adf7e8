"""On which cores the threads of a process run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

_ALL = frozenset(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a process, and its peer if there is one, run. None: wherever the system puts them."""

    name: str
    here: int | None = None
    peer: int | None = None


def alone(pinned_only: bool) -> list[Placement]:
    """For one process: on one core, and unpinned."""
    first = min(_ALL)
    return [Placement("one core", first)] + ([] if pinned_only else [Placement("unpinned")])


def pairs(pinned_only: bool) -> list[Placement]:
    """For two processes: both on one core, each on its own, and unpinned."""
    cores = sorted(_ALL)
    found = [Placement("one core", cores[0], cores[0])]
    if len(cores) > 1:
        found.append(Placement("two cores", cores[0], cores[1]))
    return found + ([] if pinned_only else [Placement("unpinned")])


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
