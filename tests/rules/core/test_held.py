"""Work that is kept back: mode="gpu", its bound, waits that are never met, and how little all that holds up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import access_patterns
from support.handle_pairs import Pair
from support.peer_processes import Peer, later
from support.shared_handles import followed, opened, wait_until, where
from support.time_limits import Measured, no_hang

import vkshare as vks
from vkshare.errors import AbandonedError, ClosedError, InvalidCallError, NotOwnerError

pytest_plugins = ["support.peer_processes", "support.handle_pairs"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]


# ---- mode="gpu" ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("K25")
def test_gpu_mode_returns_at_once_and_the_work_behind_it_runs_when_the_release_comes(pair: Pair) -> None:
    pair.b.acquire(0, 0)
    with no_hang(10):
        pair.a.acquire(1, mode="gpu")
        first = access_patterns.fill_column(pair.a, 3, 10)
        second = access_patterns.fill_column(pair.a, 3, 20)
    assert first.is_held
    assert second.is_held
    assert not pair.a.is_owned
    where(pair.b)(access_patterns.clear_and_forget, pair.b, 99)
    pair.b.release(1)
    second.wait(10)
    wait_until(lambda: pair.a.is_owned)
    pixels = pair.a.read()
    assert (pixels[:, 3, 0] == 20).all()
    assert (pixels[:, 4, 0] == 99).all()
    pair.a.release(0)
    pair.b.acquire(0, 5)


@pytest.mark.rule("K25")
def test_gpu_mode_on_a_surface_that_is_free_owns_it(pair: Pair) -> None:
    pair.a.acquire(0, mode="gpu")
    access_patterns.clear(pair.a, 5)
    wait_until(lambda: pair.a.is_owned)
    assert access_patterns.is_clear(pair.a.read(), 5)
    with pytest.raises(InvalidCallError):
        pair.a.acquire(0, mode="gpu")
    pair.a.release(0)
    with pytest.raises(InvalidCallError):
        pair.a.release(0)


@pytest.mark.rule("K25", "K3")
def test_while_a_gpu_acquire_is_pending_the_handle_can_neither_acquire_again_nor_be_read(pair: Pair) -> None:
    pair.b.acquire(0, 0)
    pair.a.acquire(1, mode="gpu")
    for mode in ("gpu", "cpu+gpu"):
        with pytest.raises(InvalidCallError):
            pair.a.acquire(1, 0, mode=mode)
    with pytest.raises(NotOwnerError):
        pair.a.read()
    pair.b.release(1)
    wait_until(lambda: pair.a.is_owned)
    pair.a.read()
    with pytest.raises(ValueError, match="mode"):
        pair.a.acquire(1, 0, mode="cpu")


@pytest.mark.rule("K25")
def test_a_release_may_be_queued_behind_held_work_and_grants_follow_each_other(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    a = one.create_surface(16, 16)
    b = opened(a, two)
    a.acquire(0, 0)
    for turn in range(10):  # b asks for ten ownerships in advance, each with work of its own
        b.acquire(2 * turn + 1, mode="gpu")
        access_patterns.fill_column(b, turn, turn + 1)
        b.release(2 * turn + 2)
        assert not b.is_owned
    held = two.statistics().held
    assert held >= 30
    for turn in range(10):
        access_patterns.fill_column(a, 15, 100 + turn)
        a.release(2 * turn + 1)
        a.acquire(2 * turn + 2, 10)
        pixels = a.read()
        assert pixels[0, : turn + 1, 0].tolist() == list(range(1, turn + 2))
        assert not pixels[0, turn + 1 : 15].any()
    two.wait_idle(5)
    assert two.statistics().held == 0


@pytest.mark.rule("K25")
def test_two_devices_that_pipeline_in_gpu_mode_keep_their_order_without_a_cpu_wait(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    a = one.create_surface(16, 16)
    b = opened(a, two)
    for turn in range(60):
        for handle, key in ((a, 2 * turn), (b, 2 * turn + 1)):
            handle.acquire(key, mode="gpu")
            access_patterns.fill_column(handle, key % 16, key % 251 + 1)
            handle.release(key + 1)
    one.wait_idle(20)
    two.wait_idle(20)
    a.acquire(120, 5)
    expected = np.zeros(16, int)
    for key in range(120):
        expected[key % 16] = key % 251 + 1
    assert a.read()[0, :, 0].tolist() == expected.tolist()
    assert a.mutex.statistics().value == 120


@pytest.mark.rule("K25")
def test_what_waits_for_one_surface_holds_up_no_other(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    blocked = [one.create_surface(16, 16) for _ in range(3)]
    free = one.create_surface(16, 16)
    theirs = [opened(surface, two) for surface in blocked]
    for surface, other in zip(blocked, theirs, strict=True):
        other.acquire(0, 0)
        surface.acquire(7, mode="gpu")
    held = [access_patterns.clear(surface, 40 + i) for i, surface in enumerate(blocked)]
    for turn in range(20):
        with free.access():
            access_patterns.clear(free, turn).wait(5)
            assert access_patterns.is_clear(free.read(), turn)
    order = [1, 2, 0]
    for index in order:
        assert held[index].is_held
        theirs[index].release(7)
        held[index].wait(5)
        assert access_patterns.is_clear(blocked[index].read(), 40 + index)
    assert [submission.is_done() for submission in held] == [True] * 3


@pytest.mark.rule("K25")
def test_work_on_two_pending_surfaces_waits_for_both(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    mine = [one.create_surface(16, 16) for _ in range(2)]
    theirs = [opened(surface, two) for surface in mine]
    for surface, other in zip(mine, theirs, strict=True):
        other.acquire(0, 0)
        surface.acquire(1, mode="gpu")
    theirs_first = access_patterns.clear(theirs[0], 9)
    both = access_patterns.copy(mine[0], mine[1])
    theirs[0].release(1)
    theirs_first.wait(5)
    time.sleep(0.02)
    assert both.is_held
    theirs[1].release(1)
    both.wait(5)
    assert access_patterns.is_clear(mine[1].read(), 9)


@pytest.mark.rule("K25")
def test_past_its_bound_of_held_submissions_submit_waits_and_says_so(vks_open: Open) -> None:
    one, two = vks_open(held_limit=8), vks_open()
    a = one.create_surface(16, 16)
    b = opened(a, two)
    b.acquire(0, 0)
    a.acquire(1, mode="gpu")
    fence = one.create_fence()
    done = threading.Event()

    def fill() -> None:
        for n in range(20):
            access_patterns.fill_column(a, n % 16, n + 1, signals=fence)
        done.set()

    thread = threading.Thread(target=fill)
    thread.start()
    wait_until(lambda: one.statistics().backpressure_waits)
    assert not done.wait(0.05)
    reported = one.statistics()
    assert reported.held == reported.held_limit == 8
    assert fence.value == 0
    b.release(1)
    assert done.wait(10)
    thread.join()
    fence.wait(20, 5)
    assert a.read()[0, :4, 0].tolist() == [17, 18, 19, 20]


# ---- waits that are never met ------------------------------------------------------------------------------------


@pytest.mark.rule("X4")
def test_work_may_wait_for_what_another_process_signals_later_while_other_work_runs(
    vks_open: Open, peers: Callable[..., Peer]
) -> None:
    device, peer = vks_open(), peers()
    theirs = peer.device.create_fence()
    gate = followed(theirs, device)
    done = device.create_fence()
    held = [device.submit(waits=(gate, value), signals=done) for value in (1, 2, 3)]
    unrelated = device.create_surface(16, 16)
    with unrelated.access():
        access_patterns.clear(unrelated, 8).wait(5)
        assert access_patterns.is_clear(unrelated.read(), 8)
    assert all(submission.is_held for submission in held)
    for value in (1, 2, 3):
        theirs.signal(value)
        held[value - 1].wait(5)
        assert done.value == value
    assert not any(submission.is_held for submission in held)


@pytest.mark.rule("X4", "X6")
def test_closing_a_fence_fails_no_work_whose_wait_was_met(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    for _ in range(100):
        gate = one.create_fence()
        copy = followed(gate, two)
        done = two.create_fence()
        held = [two.submit(waits=(copy, 1), signals=done) for _ in range(3)]
        gate.signal(1)
        copy.wait(1, 5)
        copy.close()
        for submission in held:
            submission.wait(5)
        done.wait(3, 0)
        gate.close()


@pytest.mark.rule("X5")
@pytest.mark.parametrize("place", ["devices", "processes"])
def test_two_parties_that_wait_for_each_other_time_out_and_stay_usable(
    vks_open: Open, request: pytest.FixtureRequest, place: str
) -> None:
    one = vks_open()
    two: Any = vks_open() if place == "devices" else request.getfixturevalue("peers")().device
    mine, theirs = one.create_fence(), two.create_fence()
    their_copy = followed(theirs, one)
    my_copy = followed(mine, two)
    surface = one.create_surface(16, 16)
    other = opened(surface, two)
    first = one.submit(waits=(their_copy, 1), signals=mine)
    second = two.submit(waits=(my_copy, 1), signals=theirs)
    waits = (later(first.wait, 0.2), later(second.wait, 0.2))
    for wait in waits:
        with pytest.raises(TimeoutError):
            wait.result(5)
    for call in (lambda: mine.wait(1, 0.05), lambda: theirs.wait(1, 0.05), lambda: one.wait_idle(0.05)):
        with pytest.raises(TimeoutError):
            call()
    for turn, handle in enumerate((surface, other, surface)):
        handle.acquire(0, 5)
        where(handle)(access_patterns.clear_and_forget, handle, turn)
        assert access_patterns.is_clear(handle.read(), turn)
        handle.release(0)
    for device in (two, one):
        with no_hang(10):
            device.close()


@pytest.mark.serial
@pytest.mark.rule("X6")
@pytest.mark.parametrize("what", ["fence", "follower", "surface"])
def test_a_device_with_a_thousand_held_submissions_and_waits_closes_within_a_second(
    vks_open: Open, what: str, measured: Measured
) -> None:
    measured(lambda: _close_with_a_thousand(vks_open, what), 1)


def _close_with_a_thousand(vks_open: Open, what: str) -> float:
    """Seconds until the device is closed."""
    one, two = vks_open(held_limit=4000), vks_open()
    theirs = two.create_fence()
    gate = one.create_fence() if what == "fence" else followed(theirs, one)
    surface = one.create_surface(16, 16)
    other = opened(surface, two)
    promised = one.create_fence()
    watched = followed(promised, two)
    if what == "surface":
        other.acquire(0, 0)
        surface.acquire(1, mode="gpu")
        held = [access_patterns.clear(surface, n, signals=promised) for n in range(1000)]
    else:
        held = [one.submit(waits=(gate, 1 + n % 7), signals=promised) for n in range(1000)]
    assert one.statistics().held >= 1000

    async def wait_for_all() -> list[BaseException | None]:
        waits = [asyncio.ensure_future(gate.wait_async(10 + n)) for n in range(1000)]
        await asyncio.sleep(0.01)
        assert not any(wait.done() for wait in waits)
        start = time.monotonic()
        await asyncio.to_thread(one.close)
        took.append(time.monotonic() - start)
        return await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 10)

    took: list[float] = []
    outcomes = asyncio.run(wait_for_all())
    assert {type(outcome) for outcome in outcomes} == {ClosedError}
    for submission in held:
        with pytest.raises(ClosedError):
            submission.wait(0)
    with pytest.raises(AbandonedError):
        watched.wait(1, 5)
    if what == "surface":
        other.release(1)
        other.acquire(1, 5)  # no ownership was granted to the closed device
    return took[0]


@pytest.mark.rule("X6")
def test_closing_a_device_ends_the_waits_of_other_threads(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    theirs = two.create_fence()
    mine = followed(theirs, one)
    surface = one.create_surface(16, 16)
    other = opened(surface, two)
    other.acquire(0, 0)
    held = one.submit(waits=(mine, 1))
    calls = [
        later(mine.wait, 1),
        later(mine.wait, 5, 60),
        later(held.wait),
        later(one.wait_idle),
        later(surface.acquire, 0),
        later(surface.acquire, 9, 60),
    ]
    assert not any(call.done(0.02) for call in calls)
    with no_hang(10):
        one.close()
    for call in calls:
        with pytest.raises(ClosedError):
            call.result(2)


@pytest.mark.rule("K25")
def test_past_the_bound_a_held_submission_that_brings_what_others_wait_for_is_taken(vks_open: Open) -> None:
    device = vks_open(held_limit=4)
    start, gate = device.create_fence(), device.create_fence()
    held = [device.submit(waits=(gate, 1)) for _ in range(4)]
    brings = later(device.submit, waits=(start, 1), signals=(gate, 1))
    assert brings.result(5).is_held  # or nothing would ever run again
    start.signal(1)
    for submission in held:
        submission.wait(5)
    assert gate.value == 1


@pytest.mark.rule("K27", "K18")
def test_recover_waits_until_no_living_party_has_pending_work(vks_open: Open) -> None:
    devices = [vks_open() for _ in range(3)]
    a = devices[0].create_surface(16, 16)
    b, c = (opened(a, device) for device in devices[1:])
    gate = devices[0].create_fence()
    a.acquire(0, 0)
    drawn = access_patterns.fill_column(a, 3, 50, waits=(gate, 1))
    a.release(1)  # its work is held, and it lives
    b.acquire(1, 5)
    b.close()
    with pytest.raises(AbandonedError):
        c.acquire(1, 0)
    with pytest.raises(TimeoutError):
        c.recover(0.05)
    assert not c.is_owned
    with pytest.raises(AbandonedError):
        c.acquire(1, 0)
    recovers = later(c.recover, 10)
    assert not recovers.done(0.05)
    gate.signal(1)
    recovers.result(10)
    assert drawn.is_done()
    assert (c.read()[:, 3, 0] == 50).all()
    access_patterns.clear(c, 7).wait(5)
    assert access_patterns.is_clear(c.read(), 7)


@pytest.mark.rule("X4", "K18")
def test_what_is_only_queued_on_another_device_keeps_back_what_waits_for_it(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(2048, 2048)
    surface.acquire()
    long_work = one.record()
    for n in range(100):
        long_work.clear(surface, (n / 100, 0, 0, 1))
    fence = one.create_fence()
    follower = followed(fence, two)
    one.submit(long_work, signals=(fence, 1))
    waits = two.submit(waits=(follower, 1))
    waits.wait(60)
    assert fence.is_done(1)
