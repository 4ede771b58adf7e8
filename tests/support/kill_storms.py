"""Kill storms: what is measured of the survivor."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from support import access_patterns
from support.peer_processes import Peer, PeerDied
from support.run_volumes import SOAK
from support.shared_handles import wait_until
from vkshare.cli import ps

LIMIT = 0.2  # seconds from a kill to the survivor's notice of it (rules K9, Q18)
#: Of a life whose notice came late: the machine may have been busy with something else, but not each time.
_TRIES = 5
_WARM = 5  # lives before the process is measured
_KIB = 12 * 1024  # that may come meanwhile: pools and arenas fill for a while yet


def lives(backend: str) -> int:
    """How many to kill: VKSHARE_KILLS, else the rule's volume in a soak, else few."""
    if text := os.environ.get("VKSHARE_KILLS"):
        return int(text)
    if SOAK:
        return 1500 if backend == "cpu" else 300
    return 12 if backend == "cpu" else 6


# ---- the survivor ------------------------------------------------------------------------------------------------


class Killer:
    """Kills a victim at a random moment, in a thread of its own; `sent` is when. At a kill point it may die before."""

    def __init__(self, victim: Peer, dice: Random) -> None:
        self.sent = 0.0
        self._victim = victim
        self._thread = threading.Thread(target=self._kill, args=(dice.uniform(0.002, 0.04),))
        self._thread.start()

    def _kill(self, after: float) -> None:
        if self._victim.is_running(after):
            with contextlib.suppress(ProcessLookupError):
                self.sent = self._victim.kill()
                return
        self.sent = time.monotonic()

    def is_over(self) -> bool:
        """The victim is dead."""
        return self.sent > 0 and not self._victim.is_running()

    def late(self) -> float:
        """Seconds from the kill until now, which is the moment of the notice."""
        now = time.monotonic()
        self._thread.join()
        assert not self._victim.is_running(10)
        return max(0.0, now - self.sent)


def check_victim(call: Any) -> None:
    """It died at work, and of nothing but the kill."""
    try:
        ended = call.result(10)
    except PeerDied:
        return
    raise AssertionError(f"the victim ended by itself: {ended!r}")


@dataclass
class Storm:
    """The lives of one test. `life(number)` is one, and returns how late the notice of the death came; None: there was
    nothing to tell.
    """

    name: str
    life: Callable[[int], float | None]
    took: list[float] = field(default_factory=list)

    def rage(self, kills: int) -> None:
        number, tries, before = 0, 0, (0, 0, 0)
        while number < kills + _WARM or tries:
            late = self.life(number)
            number += 1
            if late is not None:
                self.took.append(late)
                tries = tries + 1 if late >= LIMIT else 0
            assert tries < _TRIES, f"{tries} deaths in a row were told late: {self.took[-tries:]}"
            if number == _WARM:
                before = _now()
        self._check_flat(before)
        late = sum(each >= LIMIT for each in self.took)
        reported = f"{len(self.took)} of them told, after {1e3 * _median(self.took):.1f} ms"
        worst = f"at worst {1e3 * max(self.took, default=0):.1f} ms; {late} later than {1e3 * LIMIT:.0f} ms"
        print(f"\n{self.name}: {number} kills, {reported}, {worst}; {self.grown}")
        assert len(self.took) > number / 20, "the kills must hit what is told"

    def _check_flat(self, before: tuple[int, int, int]) -> None:
        with contextlib.suppress(AssertionError):  # the watcher closes its fd of the last victim when it has looked
            wait_until(lambda: access_patterns.open_fds() <= before[0], 10)
        fds, threads, kib = (now - then for now, then in zip(_now(), before, strict=True))
        self.grown = f"{fds:+} fds, {threads:+} threads, {kib:+} KiB"
        assert fds <= 0, self.grown
        assert threads <= 1, self.grown
        if os.environ.get("VKSHARE_VALIDATION") != "1":  # the layer keeps what it knows of imported semaphores
            assert kib < _KIB, self.grown


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else 0.0


def _now() -> tuple[int, int, int]:
    return access_patterns.open_fds(), access_patterns.threads(), access_patterns.resident_kib()


def check_listing(is_over: bool) -> None:
    """What `vkshare ps` says of this process, soon: no dead owner, waiter or end; in the end, nothing."""
    end = time.monotonic() + 10
    while True:
        try:
            return _check_listing_now(is_over)
        except AssertionError:
            if time.monotonic() > end:
                raise
        time.sleep(0.02)


def _check_listing_now(is_over: bool) -> None:
    me = os.getpid()
    gc.collect()  # a closed surface keeps its page until its memory goes
    reported = ps.collect()
    assert not reported["unreadable"]
    ours = {
        kind: [each for each in reported[kind] if me in each["processes"]] for kind in ("surfaces", "queues", "fences")
    }
    if is_over:
        assert not any(ours.values()), ours
    for surface in ours["surfaces"]:
        assert surface["owner"] is None or surface["owner"]["pid"] == me, surface
        assert not surface["waiters"], surface
        assert {handle["pid"] for handle in surface["handles"]} <= {me}, surface
    for queue in ours["queues"]:
        assert "dead" not in (queue["producer"]["state"], queue["consumer"]["state"]), queue
