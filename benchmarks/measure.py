"""Timed loops, contenders that take turns, and what is made of their times."""

from __future__ import annotations

import gc
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self

Timed = Callable[[int], float]  # does n operations, returns the seconds that they took
Samples = list[float]  # seconds an operation, one a round
Contenders = Mapping[str, Timed]

# ---- loops -----------------------------------------------------------------------------------------------------------

FIRST = 2**33  # values that are no small ints and do not fit 32 bits
_SOURCE = """
def make(now, {names}):
    def loop(n):
        start = now()
        first = {first}
        for value in range(first, first + n):
            {statement}
        return now() - start
    return loop
"""


def counted(statement: str, first: str = str(FIRST), **names: object) -> Timed:
    """A loop of the statement in which `value` grows from `first` on, compiled as timeit does: no call comes between.

    `names`: those of the statement, and others that must live as long as the loop.
    """
    scope: dict[str, Any] = {}
    exec(_SOURCE.format(names=", ".join(names), first=first, statement=statement), scope)
    loop: Any = scope["make"](perf_counter, **names)
    loop.kept = names
    return loop  # type: ignore[no-any-return]


empty = counted("pass")  # the loop itself, with growing values: what is taken off every other


def timed(side: Callable[[int], object], clock: Callable[[], float] = perf_counter) -> Timed:
    """Measure a function that does n operations."""

    def play(n: int) -> float:
        start = clock()
        side(n)
        return clock() - start

    return play


def repeated(call: Callable[[], object]) -> Timed:
    """Measure n calls, of a microsecond or more each: another function call is in each."""

    def side(n: int) -> None:
        for _ in range(n):
            call()

    return timed(side)


def warmed_up(side: Callable[[int], object], turns: int) -> Timed:
    """Measure after that many warm-up turns, so that all contenders run when the clock starts."""
    measured = timed(side)

    def play(n: int) -> float:
        side(turns)
        return measured(n)

    return play


def drained(each: Timed, wait: Callable[[], object], most: int | None = None) -> Timed:
    """A loop of submissions after which wait() is called, and before more than `most` are in flight: outside the time.

    The next turn must not pay for what one leaves.
    """

    def loop(n: int) -> float:
        seconds = 0.0
        for done in range(0, n, most or n):
            seconds += each(min(most or n, n - done))
            wait()
        return seconds

    return loop


def lasting(seconds: float, least: int = 0) -> Iterator[int]:
    """Rounds for that long, and at least so many."""
    end = perf_counter() + seconds
    yield from itertools.takewhile(lambda done: done < least or perf_counter() < end, itertools.count())


def take_turns(contenders: Contenders, seconds: float, batch: float = 1e-3) -> dict[str, Samples]:
    """Lets each do a batch, again and again in the same order, for about that long; at least five rounds.

    A turn lasts about `batch` seconds: short turns are seldom interrupted. Python's cyclic garbage
    collector is off meanwhile, as with timeit.
    """
    counts = {name: _count(timed, batch) for name, timed in contenders.items()}
    samples: dict[str, Samples] = {name: [] for name in contenders}
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in lasting(seconds, least=5):
            for name, timed in contenders.items():
                samples[name].append(timed(counts[name]) / counts[name])
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


# ---- times -----------------------------------------------------------------------------------------------------------


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


def spreads(samples: Mapping[str, Sequence[float]]) -> dict[str, Spread]:
    """Summarise each contender's."""
    return {name: Spread.of(each) for name, each in samples.items()}


def percentile(samples: Samples, percent: int) -> Spread:
    """Replace the median by that sample, and keep the minimum and the maximum."""
    ordered = sorted(samples)
    return Spread(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], ordered[0], ordered[-1])


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
