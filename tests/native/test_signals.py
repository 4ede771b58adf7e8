"""Signals that come at the worst moment: after the last look at them, just before the sleep (X8, K28)."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from support.native import Device, Fence, Surface

from vkshare import _native


class Interrupted(Exception):
    pass


@pytest.fixture
def alarm() -> Iterator[None]:
    def raise_it(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, raise_it)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def slowest_answer(call: Callable[[], object], rounds: int) -> float:
    """Seconds from the alarm, which comes while the call falls asleep, to its handler's exception: the worst."""
    worst = 0.0
    source = random.Random(8)
    for _ in range(rounds):
        delay = source.uniform(20e-6, 150e-6)
        started = time.monotonic()
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            call()
        except Interrupted:
            pass
        worst = max(worst, time.monotonic() - started - delay)
    return worst


@pytest.mark.rule("X8", "K28")
def test_a_signal_just_before_an_acquire_sleeps_is_answered(alarm: None, device: Device, surface: Surface) -> None:
    surface.acquire()
    surface.release(7)
    assert (
        slowest_answer(lambda: surface.acquire(1, timeout=2), 100) < 0.2
    )  # the machine may be busy: half is the rule's
    assert not surface.is_owned
    surface.acquire(7, timeout=0)


@pytest.mark.rule("X8")
def test_a_signal_just_before_a_fence_wait_sleeps_is_answered(alarm: None, fence: Fence) -> None:
    assert slowest_answer(lambda: fence.wait(1, timeout=2), 100) < 0.2


@pytest.mark.rule("K33", "K12")
def test_a_wait_that_looks_up_for_signals_is_one_wait(device: Device, surface: Surface) -> None:
    surface.acquire()
    surface.release(7)
    page_fd, _ = surface._export()
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            seen.update(slot["waiting_since"] for slot in _native.page_look(page_fd)["slots"] if slot["waiting"])

    looker = threading.Thread(target=look)
    looker.start()
    started = time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            surface.acquire(1, timeout=0.5)
    finally:
        took = time.monotonic() - started
        over.set()
        looker.join()
        os.close(page_fd)
    assert 0.5 <= took < 0.8
    assert len(seen) == 1, "vkshare ps is to say since when it really waits"
