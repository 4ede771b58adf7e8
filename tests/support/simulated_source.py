"""A vsync source for tests: an exact clock of its own that can fall silent and be lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

from support.display_fixtures import SOON
from vkshare.vsync.sources.base import Blank, Run, VsyncSource


class SimulatedSource(VsyncSource):
    """Ticks at each point of its grid, shortly after it; `ticks` has them all."""

    def __init__(self, kind: str, interval: Fraction) -> None:
        super().__init__(interval)
        self.kind = kind
        self.ticks: list[int] = []
        self.is_silent = False
        self.fails: Exception | None = None
        self.on_heard: Callable[[], object] | None = None
        self._step = int(interval * 10**9)

    def wait_until(self, *, running: bool) -> None:
        deadline = time.monotonic() + SOON
        while self.is_running != running:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def _begin(self) -> None:
        pass

    def _next(self, run: Run) -> Blank | None:
        step, now = self._step, time.monotonic_ns()
        time.sleep((step - now % step) * 1e-9)
        if self.fails is not None:
            raise self.fails
        if self.is_silent or run.is_over:
            return None
        now = time.monotonic_ns()
        self.ticks.append(now - now % step)
        if self.on_heard is not None:
            self.on_heard()
        return Blank(self.ticks[-1], len(self.ticks))

    def _release(self) -> None:
        pass

    def _where(self) -> str:
        return "nowhere"
