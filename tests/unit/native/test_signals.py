"""Signals that come at the worst moment: after the last look at them, just before the sleep (X8, K28)."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from support.native_objects import Device, Fence, Surface
from support.time_limits import HANG, at_least

from vkshare.util import pages

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


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


def interrupt_as_it_falls_asleep(call: Callable[[float], object], rounds: int) -> None:
    """The alarm comes at about the moment when the call goes to sleep. TimeoutError: the call has not heard of it."""
    source = random.Random(8)
    for _ in range(rounds):
        delay = source.uniform(20e-6, 150e-6)
        with pytest.raises(Interrupted):  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, delay)
            call(HANG)


@pytest.mark.rule("X8", "K28")
def test_a_signal_just_before_an_acquire_sleeps_is_answered(alarm: None, device: Device, surface: Surface) -> None:
    surface.acquire()
    surface.release(7)
    interrupt_as_it_falls_asleep(lambda timeout: surface.acquire(1, timeout), 100)
    assert not surface.is_owned
    surface.acquire(7, timeout=0)


@pytest.mark.rule("X8")
def test_a_signal_just_before_a_fence_wait_sleeps_is_answered(alarm: None, fence: Fence) -> None:
    interrupt_as_it_falls_asleep(lambda timeout: fence.wait(1, timeout), 100)


@pytest.mark.rule("K33", "K12")
def test_a_wait_that_looks_up_for_signals_is_one_wait(device: Device, surface: Surface) -> None:
    surface.acquire()
    surface.release(7)
    page_fd, _ = surface._export()
    seen: set[int] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            seen.update(slot["waiting_since"] for slot in pages.page_inspect(page_fd)["slots"] if slot["waiting"])

    looker = threading.Thread(target=look)
    looker.start()
    try:
        with at_least(0.5), pytest.raises(TimeoutError):
            surface.acquire(1, timeout=0.5)
    finally:
        over.set()
        looker.join()
        os.close(page_fd)
    assert len(seen) == 1, "vkshare ps is to say since when it really waits"
