"""Fences: counting, waiting, following, and what they refuse."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

import pytest
from support.shared_handles import followed
from support.time_limits import at_least, no_hang

import vkshare as vks
from vkshare.errors import AbandonedError, ClosedError, DeviceMismatchError, InvalidCallError

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.driver_dependent, pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")]


Open = Callable[..., vks.Device]


def test_a_new_fence_has_its_initial_value(device: vks.Device) -> None:
    for initial in (0, 1, 1 << 40):
        fence = device.create_fence(initial)
        assert (fence.value, fence.queued_value) == (initial, initial)
        assert not fence.is_follower
        assert fence.device is device
        assert f"value {initial}" in repr(fence)


def test_signal_moves_the_value_and_wakes_a_waiter(device: vks.Device) -> None:
    fence = device.create_fence()
    timer = threading.Timer(0.05, fence.signal, (3,))
    timer.start()
    fence.wait(2, 5)
    assert fence.value == 3
    timer.join()


def test_submitted_work_signals_in_order(device: vks.Device) -> None:
    fence = device.create_fence()
    for value in range(1, 20):
        device.submit(signals=(fence, value) if value % 2 else fence)
    assert fence.queued_value == 19
    fence.wait(19, 5)
    assert fence.value == 19
    assert fence.is_done(19)
    assert not fence.is_done(20)


@pytest.mark.rule("X1")
@pytest.mark.parametrize("value", [0, 5, 4, -1, 2**64 - 1, 2**64, 2**80])
def test_a_signal_that_does_not_grow_or_does_not_fit_is_a_value_error(device: vks.Device, value: int) -> None:
    fence = device.create_fence(5)
    with pytest.raises(ValueError, match=str(value)):
        fence.signal(value)
    with pytest.raises(ValueError, match=str(value)):
        device.submit(signals=(fence, value))
    assert fence.value == 5
    device.submit(signals=(fence, 6)).wait(5)
    assert fence.value == 6


@pytest.mark.rule("X1")
@pytest.mark.parametrize("waited", [6, 7, 2**64 - 2])
def test_a_submission_that_would_wait_for_its_own_signal_is_a_value_error(device: vks.Device, waited: int) -> None:
    fence = device.create_fence(5)
    for signals in (fence, (fence, 6), (fence, 8)):
        with pytest.raises(ValueError, match=f"up to 5, and it waits for {waited}: it would wait for itself"):
            device.submit(waits=(fence, waited), signals=signals)
    device.submit(waits=(fence, 5), signals=(fence, 6)).wait(5)
    assert fence.value == 6


@pytest.mark.rule("X1")
def test_a_signal_too_far_ahead_is_a_value_error(device: vks.Device) -> None:
    limit = device.capabilities.max_timeline_difference or 2**31 - 1
    fence = device.create_fence()
    if limit >= 2**64 - 2:
        pytest.skip("this driver has no limit below 2**64 - 2")
    with pytest.raises(ValueError, match=str(limit + 1)):
        fence.signal(limit + 1)
    fence.signal(limit)
    assert fence.value == limit


@pytest.mark.parametrize("value", [1.0, "1", None])
def test_a_value_that_is_no_integer_is_a_type_error(device: vks.Device, value: object) -> None:
    fence = device.create_fence()
    with pytest.raises(TypeError):
        fence.signal(value)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        fence.wait(value, 0)  # type: ignore[arg-type]


@pytest.mark.rule("X7")
def test_timeouts_poll_expire_and_never_expire(device: vks.Device) -> None:
    fence = device.create_fence()
    with pytest.raises(TimeoutError):
        fence.wait(1, 0)
    with at_least(0.1), pytest.raises(TimeoutError):
        fence.wait(1, 0.1)
    timer = threading.Timer(0.05, fence.signal, (1,))
    timer.start()
    fence.wait(1)
    timer.join()


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan")])
def test_negative_and_nan_timeouts_are_value_errors(device: vks.Device, timeout: float) -> None:
    fence = device.create_fence()
    with pytest.raises(ValueError, match="timeout"):
        fence.wait(1, timeout)


@pytest.mark.rule("X10")
def test_a_follower_sees_values_and_cannot_signal(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence(7)
    follower = followed(fence, two)
    assert follower.is_follower
    assert follower.value == 7
    fence.signal(9)
    follower.wait(9, 5)
    assert follower.value == 9
    with pytest.raises(InvalidCallError):
        follower.signal(10)
    with pytest.raises(InvalidCallError):
        two.submit(signals=(follower, 10))
    assert (fence.value, fence.queued_value) == (9, 9)


@pytest.mark.rule("X4")
def test_work_can_wait_for_a_value_that_is_signalled_later_while_other_work_runs(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    gate = one.create_fence()
    done, unrelated = two.create_fence(), two.create_fence()
    submission = two.submit(waits=(followed(gate, two), 1), signals=done)
    assert submission.is_held
    two.submit(signals=unrelated)
    unrelated.wait(1, 5)
    assert done.value == 0
    gate.signal(1)
    submission.wait(5)
    assert done.value == 1


@pytest.mark.rule("X6")
def test_closing_a_device_fails_its_unmet_waits_at_once(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    gate = followed(fence, two)
    held = [two.submit(waits=(gate, 1)) for _ in range(1000)]
    with no_hang(10):
        two.close()
    for submission in held:
        with pytest.raises(ClosedError):
            submission.wait(0)


def test_a_follower_fails_once_its_signaller_is_closed_below_the_value(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    follower = followed(fence, two)
    fence.signal(3)
    fence.close()
    follower.wait(3, 5)
    with pytest.raises(AbandonedError):
        follower.wait(4, 5)


@pytest.mark.rule("X23")
def test_an_event_fd_becomes_readable_at_the_value(device: vks.Device) -> None:
    fence = device.create_fence()
    early, late = fence.event_fd(1), fence.event_fd(2)
    try:
        assert not os.get_inheritable(early)
        assert select.select([early, late], [], [], 0)[0] == []
        fence.signal(1)
        assert select.select([early], [], [], 5)[0] == [early]
        assert select.select([late], [], [], 0.02)[0] == []
        fence.signal(2)
        assert select.select([late], [], [], 5)[0] == [late]
        reached = fence.event_fd(1)
        assert select.select([reached], [], [], 5)[0] == [reached]
        os.close(reached)
    finally:
        os.close(early)
        os.close(late)


@pytest.mark.rule("X24")
def test_waiters_on_different_values_wake_exactly_when_theirs_is_reached(device: vks.Device) -> None:
    fence = device.create_fence()
    woken: list[int] = []
    threads = []
    for value in (5, 2, 8, 1, 7, 3, 6, 4):
        thread = threading.Thread(target=lambda v=value: (fence.wait(v, 10), woken.append(v)))
        thread.start()
        threads.append(thread)
    time.sleep(0.05)
    for value in (3, 4, 8):
        fence.signal(value)
        deadline = time.monotonic() + 20
        while len(woken) < value and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert sorted(woken) == list(range(1, value + 1))
    for thread in threads:
        thread.join()


def test_close_is_idempotent_and_ends_waits(device: vks.Device) -> None:
    fence = device.create_fence()
    timer = threading.Timer(0.05, fence.close)
    timer.start()
    with pytest.raises(ClosedError):
        fence.wait(1, 5)
    timer.join()
    fence.close()
    assert fence.is_closed
    with pytest.raises(ClosedError):
        fence.signal(1)
    with device.create_fence() as other:
        pass
    assert other.is_closed


def test_a_fence_of_another_device_must_be_exported_first(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    for arguments in ({"signals": fence}, {"waits": (fence, 1)}):
        with pytest.raises(DeviceMismatchError, match="export"):
            two.submit(**arguments)


def test_the_handle_is_a_semaphore_on_vulkan_only(device: vks.Device) -> None:
    assert (device.create_fence().handle != 0) == (device.backend == "vulkan")


def test_statistics_are_a_snapshot(device: vks.Device) -> None:
    fence = device.create_fence(2)
    reported = fence.statistics()
    fence.signal(3)
    assert (reported.value, reported.queued_value, reported.is_follower) == (2, 2, False)


def test_a_submission_can_be_waited_for_and_named_in_waits(device: vks.Device) -> None:
    fence = device.create_fence()
    first = device.submit(signals=fence)
    second = device.submit(waits=first, signals=fence)
    second.wait(5)
    assert first.is_done()
    assert second.is_done()
    assert fence.value == 2
    assert not second.is_held


@pytest.mark.rule("X2")
def test_the_counter_never_falls_between_the_drivers_news_and_our_own_looks(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    follower = followed(fence, two)
    own = theirs = 0
    for _ in range(50):
        for _ in range(20):
            one.submit(signals=fence)
        while theirs < fence.queued_value:
            before, own, theirs = (own, theirs), fence.value, follower.value
            assert own >= before[0]
            assert theirs >= before[1]


@pytest.mark.rule("X2")
def test_a_host_signal_keeps_its_place_behind_what_was_promised_before_it(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    gate, fence = one.create_fence(), one.create_fence()
    follower = followed(fence, two)
    work = one.submit(waits=(gate, 1), signals=(fence, 4))
    fence.signal(5)
    assert (fence.queued_value, fence.value, follower.value) == (5, 0, 0)
    for waited_for in (fence, follower):
        with pytest.raises(TimeoutError):
            waited_for.wait(4, 0.02)
    gate.signal(1)
    for waited_for in (fence, follower):
        waited_for.wait(5, 5)
    assert work.is_done()
    assert (fence.value, follower.value) == (5, 5)


@pytest.mark.rule("X24", "X23")
@pytest.mark.parametrize("place", ["signaller", "follower"])
def test_a_signal_wakes_those_it_reaches_in_whatever_order_they_came(vks_open: Open, place: str) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    with fence.export() as descriptor:
        waited_for = fence if place == "signaller" else two.open_fence(descriptor)
    values = [9, 2, 14, 5, 5, 1, 30, 8, 3, 21, 6, 4]
    os.close(waited_for.event_fd(0))  # starts what has fds of its own
    before = len(os.listdir("/proc/self/fd"))
    events = {waited_for.event_fd(value): value for value in values}
    try:
        left = set(events)
        for reached in (1, 4, 5, 8, 20, 30):
            fence.signal(reached)
            expected = {fd for fd in left if events[fd] <= reached}
            deadline = time.monotonic() + 20
            while set(select.select(left, [], [], 0)[0]) != expected and time.monotonic() < deadline:
                time.sleep(0.001)
            assert set(select.select(left, [], [], 0.01)[0]) == expected
            left -= expected
    finally:
        for fd in events:
            os.close(fd)
    assert len(os.listdir("/proc/self/fd")) == before
