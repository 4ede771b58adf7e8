"""Submissions that are held: the bound, and what they keep alive."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from support.native_objects import (
    Device,
    Fence,
    List,
    Surface,
)

from vkshare import errors

pytestmark = [pytest.mark.no_driver, pytest.mark.wheel]


@pytest.mark.rule("K25")
def test_submit_waits_without_the_gil_when_as_many_are_held_as_may_be() -> None:
    device = Device(held_limit=4)
    gate = Fence(device)
    for _ in range(4):
        device.submit(waits=(gate, 1))
    timer = threading.Timer(0.1, gate.signal, (1,))
    timer.start()
    submission = device.submit(waits=(gate, 1))
    assert gate.value == 1  # it waited for that
    submission.wait(20)
    assert device._counters()["backpressure_waits"] == 1
    timer.join()
    device._shutdown()


def test_what_a_held_submission_needs_outlives_pythons_references(device: Device, surface: Surface) -> None:
    gate, done = Fence(device), Fence(device)
    surface.acquire()
    submission = device.submit(List(surface), waits=((gate, 1), (Fence(device, 3), 2)), signals=(done, Fence(device)))
    opened = Fence._open(device, *gate._export())
    behind_follower = device.submit(waits=(opened, 1))
    del opened
    gc.collect()
    gate.signal(1)
    submission.wait(5)
    behind_follower.wait(5)
    assert done.value == 1
    device._reap()


def test_what_held_submissions_kept_is_let_go(device: Device) -> None:
    gate = Fence(device)
    kept = []
    for _ in range(50):
        extra = Fence(device, 1)
        kept.append(weakref.ref(extra))
        device.submit(waits=((gate, 1), (extra, 1)))
        del extra
    assert sum(reference() is not None for reference in kept) == 50
    gate.signal(1)
    device.wait_idle(5)
    device._reap()
    assert sum(reference() is not None for reference in kept) == 0


def test_a_dropped_device_with_held_work_is_collected() -> None:
    device = Device()
    fence = Fence(device)
    device.submit(waits=(fence, 1), signals=Fence(device))
    gone = weakref.ref(device)
    del device, fence
    gc.collect()
    assert gone() is None


@pytest.mark.rule("X6")
def test_shutdown_fails_what_is_held_with_closed_error(device: Device, fence: Fence) -> None:
    submissions = [device.submit(waits=(fence, 1)) for _ in range(3)]
    device._shutdown()
    for submission in submissions:
        with pytest.raises(errors.ClosedError):
            submission.wait(5)
        with pytest.raises(errors.ClosedError):
            submission.is_done()
        assert "failed" in repr(submission)
