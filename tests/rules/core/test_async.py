"""asyncio: fences, surfaces and submissions awaited, thousands at a time, cancelled at any moment."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.shared_handles import followed, opened, wait_until

import vkshare as vks
from vkshare.core import event_loop
from vkshare.errors import AbandonedError, AcquireTimeout, ClosedError

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]


def fd_count() -> int:
    return len(os.listdir("/proc/self/fd"))


def two_handles(vks_open: Open) -> tuple[vks.Surface, vks.Surface]:
    """Of one surface, on two devices."""
    surface = vks_open().create_surface(8, 8)
    return surface, opened(surface, vks_open())


def test_wait_async_returns_when_the_value_is_reached(device: vks.Device) -> None:
    async def main() -> None:
        fence = device.create_fence()
        await fence.wait_async(0)
        asyncio.get_running_loop().call_later(0.02, fence.signal, 3)
        await asyncio.wait_for(fence.wait_async(2), 5)
        assert fence.value == 3

    asyncio.run(main())


@pytest.mark.rule("X23")
def test_who_asks_late_for_early_work_does_not_wait_for_what_was_submitted_after_it(vks_open: Open) -> None:
    # The work that comes after may be done in time where this thread gets no core, but not each time.
    assert any(early_work_comes_first(vks_open) for _ in range(10))


def early_work_comes_first(vks_open: Open) -> bool:
    """Whether the later work still ran when each of the waits for the early work was over."""
    device, other = vks_open(), vks_open()
    surface = device.create_surface(1024, 1024)
    surface.acquire()
    heavy, fence = device.record(), device.create_fence()
    for n in range(150):
        heavy.fill_rect(surface, (0, 0, 1024, 1024), (n / 150, 0, 0, 0.5))
    early = device.submit(heavy, signals=(fence, 1))  # not done yet when it is asked for
    device.submit(signals=(fence, 2))
    late = [device.submit(heavy) for _ in range(4)][-1]
    follower = followed(fence, other)

    async def main() -> None:
        await asyncio.wait_for(early, 20)
        await asyncio.wait_for(asyncio.gather(fence.wait_async(1), fence.wait_async(2), follower.wait_async(2)), 20)

    asyncio.run(main())
    follower.wait(2, 5)
    return not late.is_done()


def test_work_that_the_gpu_signals_wakes_the_loop(device: vks.Device) -> None:
    async def main() -> None:
        fence = device.create_fence()
        for _ in range(50):
            device.submit(signals=fence)
            await asyncio.wait_for(fence.wait_async(fence.queued_value), 5)

    asyncio.run(main())


@pytest.mark.rule("X23")
def test_ten_thousand_waits_cost_one_fd_and_no_thread(device: vks.Device) -> None:
    async def main() -> None:
        fence = device.create_fence()
        await asyncio.wait_for(asyncio.gather(fence.wait_async(0)), 5)
        fds, threads = fd_count(), threading.active_count()
        waits = [asyncio.create_task(fence.wait_async(value)) for value in range(1, 10_001)]
        await asyncio.sleep(0)
        assert fd_count() - fds <= 1
        assert threading.active_count() == threads
        fence.signal(5_000)
        await asyncio.wait_for(asyncio.gather(*waits[:5_000]), 20)
        assert not any(wait.done() for wait in waits[5_000:])
        fence.signal(10_000)
        await asyncio.wait_for(asyncio.gather(*waits), 20)

    asyncio.run(main())


@pytest.mark.rule("X23")
def test_cancelled_waits_cost_nothing_more_and_later_ones_still_wake(device: vks.Device) -> None:
    async def main() -> None:
        fence = device.create_fence()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fence.wait_async(1), 0.001)
        fds = fd_count()
        for _ in range(200):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(fence.wait_async(1), 0)
            task = asyncio.create_task(fence.wait_async(1))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert fd_count() == fds
        asyncio.get_running_loop().call_later(0.01, fence.signal, 1)
        await asyncio.wait_for(fence.wait_async(1), 5)

    asyncio.run(main())


def test_several_tasks_may_wait_for_one_value(device: vks.Device) -> None:
    async def main() -> None:
        fence = device.create_fence()
        tasks = [asyncio.create_task(fence.wait_async(1)) for _ in range(10)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        fence.signal(1)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        assert [type(r) for r in results] == [type(None)] * 3 + [asyncio.CancelledError] + [type(None)] * 6

    asyncio.run(main())


def test_a_wait_fails_when_the_value_can_never_come(vks_open: Open) -> None:
    async def main() -> None:
        one, two = vks_open(), vks_open()
        fence = one.create_fence()
        follower = followed(fence, two)
        waits = [asyncio.create_task(f.wait_async(5)) for f in (fence, follower)]
        await asyncio.sleep(0)
        fence.close()
        results = await asyncio.wait_for(asyncio.gather(*waits, return_exceptions=True), 5)
        assert [type(r) for r in results] == [ClosedError, AbandonedError]

    asyncio.run(main())


def test_a_submission_can_be_awaited_done_or_held(vks_open: Open) -> None:
    async def main() -> None:
        device, other = vks_open(), vks_open()
        await asyncio.wait_for(device.submit(), 5)
        gate = other.create_fence()
        submission = device.submit(waits=(followed(gate, device), 1))
        asyncio.get_running_loop().call_later(0.02, gate.signal, 1)
        await asyncio.wait_for(submission, 5)
        assert submission.is_done()

    asyncio.run(main())


def test_acquire_async_waits_for_the_key(vks_open: Open) -> None:
    async def main() -> None:
        surface, theirs = two_handles(vks_open)
        surface.acquire()
        asyncio.get_running_loop().call_later(0.02, surface.release, 2)
        await theirs.acquire_async(2, 5)
        assert theirs.is_owned
        theirs.release(0)
        await surface.acquire_async()
        assert surface.is_owned

    asyncio.run(main())


@pytest.mark.rule("K15")
def test_an_acquire_async_that_times_out_or_is_cancelled_leaves_the_surface_as_it_was(vks_open: Open) -> None:
    async def main() -> None:
        surface, theirs = two_handles(vks_open)
        surface.acquire()
        for timeout in (0, 0.02):
            with pytest.raises(AcquireTimeout):
                await theirs.acquire_async(1, timeout)
        task = asyncio.create_task(theirs.acquire_async(1))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        surface.release(1)
        assert not theirs.is_owned
        surface.acquire(1, 0)
        surface.release(1)
        await theirs.acquire_async(1, 0)
        assert theirs.is_owned

    asyncio.run(main())


@pytest.mark.rule("K15")
def test_cancelling_at_the_moment_of_the_grant_never_loses_the_surface(vks_open: Open) -> None:
    async def main() -> None:
        surface, theirs = two_handles(vks_open)
        for turn in range(200):
            surface.acquire(0, 5)
            task = asyncio.create_task(theirs.acquire_async(1))
            await asyncio.sleep(0)
            surface.release(1)
            if turn % 2:
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
                theirs.release(0)
            except asyncio.CancelledError:
                assert not theirs.is_owned
                surface.acquire(1, 5)
                surface.release(0)

    asyncio.run(main())


class FailingEventQueue:
    """In place of the event loop's event queue: something happens, and the wait fails."""

    def __init__(self, error: BaseException, happens: Callable[[], object] = lambda: None) -> None:
        self._error, self._happens = error, happens

    async def wait(self, pending: Any, what: object, notify: object) -> None:
        self._happens()
        raise self._error


@pytest.mark.rule("K15")
@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, MemoryError])
def test_an_acquire_async_that_fails_leaves_the_surface_as_it_was(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    surface, theirs = two_handles(vks_open)
    surface.acquire()
    monkeypatch.setattr(
        event_loop, "event_queue_of", lambda device: FailingEventQueue(kind(errno.EMFILE, "no fd is left"))
    )
    with pytest.raises(kind):
        asyncio.run(theirs.acquire_async(1))
    surface.release(1)
    time.sleep(0.02)
    assert not theirs.is_owned
    surface.acquire(1, 0)


@pytest.mark.rule("K15")
def test_an_acquire_async_that_fails_at_the_moment_of_the_grant_gives_the_surface_back(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface, theirs = two_handles(vks_open)
    surface.acquire()

    def granted() -> None:
        surface.release(1)
        wait_until(lambda: theirs.is_owned)

    event_queue = FailingEventQueue(OSError(errno.EMFILE, "no fd is left"), granted)
    monkeypatch.setattr(event_loop, "event_queue_of", lambda device: event_queue)
    with pytest.raises(OSError, match="no fd is left"):
        asyncio.run(theirs.acquire_async(1))
    assert not theirs.is_owned
    surface.acquire(1, 5)


@pytest.mark.rule("K7", "K15")
def test_an_acquire_async_whose_owner_died_as_its_time_ran_out_tells_that_and_no_timeout(
    vks_open: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    surface, theirs = two_handles(vks_open)
    surface.acquire()
    start = theirs._acquire_start
    pending: list[Any] = []
    monkeypatch.setattr(theirs, "_acquire_start", lambda key: pending.append(start(key)) or pending[0])

    def failed() -> bool:
        try:
            return bool(pending[0].is_done())
        except AbandonedError:
            return True

    def dies() -> None:
        surface.close()
        wait_until(failed)

    monkeypatch.setattr(event_loop, "event_queue_of", lambda device: FailingEventQueue(TimeoutError(), dies))
    with pytest.raises(AbandonedError):
        asyncio.run(theirs.acquire_async(1, 60))


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_acquire_async_refuses_wrong_timeouts(device: vks.Device, timeout: float) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="timeout"):
            await device.create_surface(8, 8).acquire_async(0, timeout)

    asyncio.run(main())


def test_hubs_go_with_their_loops_and_devices(vks_open: Open) -> None:
    device = vks_open()
    fence = device.create_fence()

    async def wait(value: int) -> None:
        asyncio.get_running_loop().call_later(0.001, fence.signal, value)
        await asyncio.wait_for(fence.wait_async(value), 5)

    asyncio.run(wait(1))
    gc.collect()
    fds = fd_count()
    for value in range(2, 12):
        asyncio.run(wait(value))
    gc.collect()
    assert fd_count() <= fds

    async def many_devices() -> None:
        first = 0
        for _ in range(6):
            with vks_open() as other:
                fence = other.create_fence()
                asyncio.get_running_loop().call_later(0.001, fence.signal, 1)
                await asyncio.wait_for(fence.wait_async(1), 5)
            del other, fence
            await asyncio.sleep(0)
            gc.collect()
            first = first or fd_count()
        assert fd_count() == first

    asyncio.run(many_devices())
