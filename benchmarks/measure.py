"""Contenders that take turns, and what is made of their times."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

Timed = Callable[[int], float]  # does n operations, returns the seconds that they took
Samples = list[float]  # seconds an operation, one a round
Contenders = Mapping[str, Timed]

_LEAST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """The result of all rounds: the median and the spread."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Self:
        """Summarise at least one sample."""
        return cls(statistics.median(samples), min(samples), max(samples))


def percentile(samples: Samples, percent: int) -> Spread:
    """Replace the median by that sample, and keep the minimum and the maximum."""
    ordered = sorted(samples)
    return Spread(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], ordered[0], ordered[-1])


def sleeps(pid: int, *, but: int = 0) -> int:
    """How often the threads of a process went to sleep by themselves, and so were woken; one thread's left out."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        if status.parent.name != str(but):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
            found += int(fields["voluntary_ctxt_switches"])
    return found


def warmed_up(side: Callable[[int], object], turns: int) -> Timed:
    """Measure after that many warm-up turns, so that all contenders run when the clock starts."""

    def play(n: int) -> float:
        side(turns)
        return measured(n)

    measured = timed(side)
    return play


def timed(side: Callable[[int], object]) -> Timed:
    """Measure a function that does n operations."""

    def play(n: int) -> float:
        start = time.perf_counter()
        side(n)
        return time.perf_counter() - start

    return play


def repeated(call: Callable[[], object]) -> Timed:
    """Measure n calls, of a microsecond or more each: another function call is in each."""

    def side(n: int) -> None:
        for _ in range(n):
            call()

    return timed(side)


def take_turns(contenders: Contenders, seconds: float, batch: float = 1e-3) -> dict[str, Samples]:
    """Lets each do a batch, again and again in the same order, for about that long; at least five rounds.

    A turn lasts about `batch` seconds: short turns are seldom interrupted. Python's cyclic garbage collector is off
    meanwhile, as with timeit.
    """
    counts = {name: _count(timed, batch) for name, timed in contenders.items()}
    samples: dict[str, Samples] = {name: [] for name in contenders}
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        rounds = 0
        while rounds < _LEAST_ROUNDS or time.perf_counter() < end:
            for name, timed in contenders.items():
                samples[name].append(timed(counts[name]) / counts[name])
            rounds += 1
    finally:
        if was_enabled:
            gc.enable()
    return samples


def _count(timed: Timed, batch: float) -> int:
    """How many operations fill a batch. Warms up, too."""
    count = 1
    while (took := timed(count)) < batch / 4:
        count *= 4
    return max(1, round(count * batch / took))


def rates(samples: Samples) -> Samples:
    """Operations a second in place of seconds an operation."""
    return [1 / sample for sample in samples]


def ratios(ours: Samples, theirs: Samples) -> Spread:
    """Round by round."""
    return Spread.of([a / b for a, b in zip(ours, theirs, strict=True)])


def differences(ours: Samples, *theirs: Samples) -> Spread:
    """Ours less all of theirs: of the medians; least and most round by round.

    A round's difference of tens of nanoseconds says little on a machine that has other work; the medians do.
    """
    rounds = [round_[0] - sum(round_[1:]) for round_ in zip(ours, *theirs, strict=True)]
    median = statistics.median(ours) - sum(statistics.median(each) for each in theirs)
    return Spread(median, min(rounds), max(rounds))
