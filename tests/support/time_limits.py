"""Waiting in tests: a limit ends a hang, and says nothing about speed.

A machine that has other work stops a test for as long as it likes, so no test asserts how long something took. What is
due at a certain time is tested with a clock that the test moves; what must not wait is tested by what is still pending
when it returns; how fast things are is measured by benchmarks/. The few rules that name a time are measured in the
serial part, by `measured`. tests/tools/test_clocks.py finds assertions about clocks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

HANG = 30.0  # seconds; what takes longer will never end
TRIES = 5


def until(condition: Callable[[], object], what: str = "", seconds: float = HANG) -> None:
    """Waits for the condition; fails where it does not come true at all."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what or 'what the test waits for'}")
        time.sleep(0.001)


def until_rest(count: Callable[[], object], seconds: float = 0.5) -> None:
    """Waits until the count stays the same for that long; fails if it changes for ever.

    On a loaded machine the last change may come late, so one look after a pause judges the machine.
    """

    def rests() -> bool:
        before = count()
        time.sleep(seconds)
        return count() == before

    until(rests, "a count that no longer changes")


@contextlib.contextmanager
def no_hang(seconds: float = HANG) -> Iterator[None]:
    """Fails where what is done in it takes as long as only a wait does that nothing ends. No less than 10 s."""
    assert seconds >= 10, "a shorter limit judges the machine"
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    if took > seconds:
        raise AssertionError(f"it took {took:.1f} s: it waited for something that it must not wait for")


@contextlib.contextmanager
def at_least(seconds: float) -> Iterator[None]:
    """Fails where what is done in it ends earlier. Other work only makes it later, so this holds on any machine."""
    start = time.monotonic()
    yield
    took = time.monotonic() - start
    if took < seconds:
        raise AssertionError(f"it ended after {took:.4f} s, before its {seconds} s were over")


class Measured:
    """In the serial part: measures what a rule names a time for, again where it took too long, and reports that."""

    def __init__(self) -> None:
        self.retries: list[str] = []

    def __call__(self, attempt: Callable[[], float], limit: float) -> float:
        """The first figure within the limit. A busy machine spoils some; a rule that is broken spoils them all."""
        took: list[float] = []
        while len(took) < TRIES:
            took.append(attempt())
            if took[-1] <= limit:
                break
            self.retries.append(f"{took[-1]:.4g} of {limit:.4g}")
        assert took[-1] <= limit, f"{limit:.4g} are allowed; each of {TRIES} tries took longer: {took}"
        return took[-1]
