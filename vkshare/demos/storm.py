"""A storm of resizes: what becomes of old swapchains, semaphores and memory."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING

from vkshare.demos import triangle
from vkshare.demos.stage import Stage

if TYPE_CHECKING:
    from vkshare.present.statistics import SwapchainStatistics

MOST_GROWTH = 1.02
SLACK = 4 << 20  # bytes: pages that allocators take or give back without anything having been kept
WARM_UP = 300  # resizes, until which drivers and allocators fill their caches
_STEPS = 24  # sizes, from small to large and back
_SETTLING = 0.25  # seconds that a window manager may take to grant a size
_PATTERN = (1, 1, 1, 0, 1, 1, 3, 1, 1, 0, 0, 2)  # frames presented after a resize; drawn from at random
_FRACTION = 10  # of the time: how long memory is looked at, after the first such part and at the end


@dataclass(frozen=True, slots=True)
class Sample:
    """The state at one moment."""

    seconds: float  # since the start
    resizes: int
    resident: int  # bytes
    swapchain: SwapchainStatistics


@dataclass(slots=True)
class Report:
    """The report of a whole storm."""

    samples: list[Sample] = field(default_factory=list)  # one every few resizes

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    @property
    def early(self) -> int:
        """Bytes resident, the median over the second tenth of the time, and not before WARM_UP resizes.

        After fewer resizes memory growth cannot be measured: the window is then the last one.
        """
        warm = [s for s in self.samples if s.resizes >= WARM_UP and s.seconds >= self.last.seconds / _FRACTION]
        chosen = [s for s in warm if s.seconds <= 2 * self.last.seconds / _FRACTION] or warm[:1] or [self.last]
        return round(statistics.median(sample.resident for sample in chosen))

    @property
    def late(self) -> int:
        """The same over the last tenth."""
        begin = self.last.seconds * (1 - 1 / _FRACTION)
        return round(statistics.median(sample.resident for sample in self.samples if sample.seconds >= begin))

    def faults(self) -> list[str]:
        """The list of faults; empty if there are none."""
        found = []
        if not self.last.resizes:
            found.append("the window system granted no other size (does it tile windows?): nothing was tried")
        most = self.last.swapchain.most_alive
        bound = self.last.swapchain.retired_limit + 1  # the current one, and those that are retired
        if most > bound:
            found.append(f"{most} swapchains were alive at once, allowed are {bound}")
        if self.late > self.early * MOST_GROWTH and self.late - self.early > SLACK:
            found.append(f"memory grew by {self.late / self.early - 1:.1%}, allowed are {MOST_GROWTH - 1:.0%}")
        return found


def run(stage: Stage, seconds: float, frames: int | None, tell: Callable[[Sample], None]) -> Report:
    """Resizes until the time is over, that many frames were presented, or the user ends it. `tell`: once a second."""
    report = Report()
    chance = random.Random(1)
    start = reported = time.monotonic()
    resizes = presented = count = 0
    for size in _sizes(*stage.swapchain.extent):
        now = time.monotonic()
        stage.poll()
        if now - start >= seconds or stage.has_ended or (frames is not None and presented >= frames):
            break
        resizes += _resize(stage, size)
        count = chance.choice(_PATTERN)
        if count == 0:
            stage.swapchain.acquire().close()  # the new swapchain is made, and never shows anything
        for _ in range(count if frames is None else min(count, frames - presented)):
            _present(stage, now - start)
            presented += 1
        if resizes % _STEPS == 0:
            report.samples.append(_sample(stage, now - start, resizes))
        if now - reported >= 1:
            reported = now
            tell(_sample(stage, now - start, resizes))
    if count == 0:
        _present(stage, seconds)  # for a screenshot of the last picture
    report.samples.append(_sample(stage, time.monotonic() - start, resizes))
    return report


def _present(stage: Stage, seconds: float) -> None:
    with stage.swapchain.frame() as frame:
        triangle.draw(stage.device, frame, seconds)


def _sizes(width: int, height: int) -> Iterator[tuple[int, int]]:
    """Up to that size and down to half of it, for ever."""
    up = [(width * (_STEPS + i) // (2 * _STEPS), height * (_STEPS + i) // (2 * _STEPS)) for i in range(0, _STEPS, 2)]
    return cycle([(max(1, w), max(1, h)) for w, h in (*up, (width, height), *up[:0:-1])])


def _resize(stage: Stage, size: tuple[int, int]) -> int:
    """1 when it has that size now, else 0."""
    if stage.window is None:
        stage.swapchain.resize(*size)
        return 1
    stage.window.resize(*size)
    deadline = time.monotonic() + _SETTLING
    while stage.window.size != size and (left := deadline - time.monotonic()) > 0:
        stage.poll(left)
    return int(stage.window.size == size)


def _sample(stage: Stage, seconds: float, resizes: int) -> Sample:
    return Sample(seconds, resizes, resident_bytes(), stage.swapchain.statistics())


def resident_bytes() -> int:
    """The process's memory that is in RAM, as the kernel counts it."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
