"""Fences between many processes: no counter falls, no waiter is lost, and each wakes when its value is reached."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns
from support.peer_processes import Peer, later
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import followed

import vkshare as vks
from vkshare.errors import AbandonedError, InvalidCallError

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [
    pytest.mark.driver_dependent,
    pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"),
    unhurried,
]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


# ---- X2 ------------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X2", "X3", "X1")
def test_random_signals_of_four_processes_never_fall_and_lose_no_waiter(vks_open: Open, peers: Peers) -> None:
    dice = seeded()
    parties = [peers() for _ in range(4)]
    fences = [peer.device.create_fence() for peer in parties]
    each = rounds(1_000_000, 8_000 if parties[0].device.backend == "cpu" else 4_000) // len(parties)
    here = vks_open()
    mine = [followed(fence, here) for fence in fences]
    others = [[followed(fence, peer.device) for fence in fences if fence._peer is not peer] for peer in parties]
    calls = [
        peer.later(access_patterns.signal_and_follow, fence, followers, dice.getrandbits(32), each)
        for peer, fence, followers in zip(parties, fences, others, strict=True)
    ]
    for fence in mine:
        fence.wait(access_patterns.last_value(each), 1200)
    waited = [call.result(1200) for call in calls]
    assert min(waited) > 0
    assert [fence.value for fence in mine] == [access_patterns.last_value(each)] * len(parties)


@pytest.mark.rule("X2", "X3")
def test_a_waiter_for_every_single_value_is_woken_for_each(vks_open: Open, peers: Peers) -> None:
    signaller = peers()
    fence = signaller.device.create_fence()
    last = rounds(200_000, 3_000)
    devices = [vks_open(), vks_open()]
    waiters = [
        later(access_patterns.wait_for_each, followed(fence, device), last) for device in devices for _ in range(2)
    ]
    other = peers()
    waiters.append(other.later(access_patterns.wait_for_each, followed(fence, other.device), last))
    signals = signaller.later(access_patterns.signal_each, fence, last)
    for waiter in waiters:
        waiter.result(1200)
    signals.result(60)


# ---- X24, X23 ------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X24", "X23")
@pytest.mark.parametrize("where", ["own fence", "follower here", "follower of a process"])
def test_waits_of_all_kinds_wake_exactly_when_their_value_is_reached(vks_open: Open, peers: Peers, where: str) -> None:
    signaller: Any = peers().device if where == "follower of a process" else vks_open()
    fence = signaller.create_fence()
    waited = fence if where == "own fence" else followed(fence, vks_open())
    dice = seeded()
    values = list(range(1, 31))
    dice.shuffle(values)
    woken: dict[int, int] = {}
    threads = [threading.Thread(target=_wait, args=(waited, value, woken)) for value in values[:10]]
    for thread in threads:
        thread.start()
    fds = {value: waited.event_fd(value) for value in values[10:20]}
    tasks: dict[int, Any] = {}

    async def signal_all() -> None:
        for value in values[20:]:
            tasks[value] = asyncio.ensure_future(waited.wait_async(value))
        await asyncio.sleep(0.02)
        reached = 0
        for value in sorted(dice.sample(range(1, 30), 6)) + [30]:
            _signal(signaller, fence, value, by_queue=value % 2 == 0)
            reached = value
            await _until(lambda: _woken(values, woken, fds, tasks) == set(range(1, reached + 1)))  # noqa: B023
            await asyncio.sleep(0.003)
            assert _woken(values, woken, fds, tasks) == set(range(1, reached + 1))

    asyncio.run(signal_all())
    for thread in threads:
        thread.join(20)
    for fd in fds.values():
        os.close(fd)


def _signal(device: Any, fence: Any, value: int, *, by_queue: bool) -> None:
    if by_queue:
        device.submit(signals=(fence, value))
    else:
        fence.signal(value)


def _wait(fence: vks.Fence, value: int, woken: dict[int, int]) -> None:
    fence.wait(value, 30)
    woken[value] = fence.value


def _woken(values: list[int], woken: dict[int, int], fds: dict[int, int], tasks: dict[int, Any]) -> set[int]:
    """The values whose wait has ended."""
    assert all(seen >= value for value, seen in woken.items())
    ready = set(select.select(list(fds.values()), [], [], 0)[0])
    found = {value for value, fd in fds.items() if fd in ready} | set(woken)
    return found | {value for value, task in tasks.items() if task.done() and task.exception() is None}


async def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "not all woke"
        await asyncio.sleep(0.001)


@pytest.mark.rule("X23", "X6")
def test_ten_thousand_async_waits_on_another_process_cost_no_fd_and_no_thread_each(
    vks_open: Open, peers: Peers
) -> None:
    device, peer = vks_open(), peers()
    theirs = peer.device.create_fence()
    fence = followed(theirs, device)
    count = 10_000

    async def wait_for_all() -> None:
        gc.collect()  # what earlier tests left would be collected between the two counts
        first = asyncio.ensure_future(fence.wait_async(1))
        await asyncio.sleep(0.01)
        before = access_patterns.open_fds(), access_patterns.threads()
        waits = [asyncio.ensure_future(fence.wait_async(2 + n)) for n in range(count)]
        await asyncio.sleep(0.01)
        assert (access_patterns.open_fds(), access_patterns.threads()) == before
        theirs.signal(count // 2)
        await asyncio.wait_for(asyncio.gather(first, *waits[: count // 2 - 1]), 20)
        await asyncio.sleep(0.01)
        assert not any(wait.done() for wait in waits[count // 2 - 1 :])
        peer.kill()
        outcomes = await asyncio.wait_for(asyncio.gather(*waits[count // 2 - 1 :], return_exceptions=True), 20)
        assert {type(outcome) for outcome in outcomes} == {AbandonedError}

    asyncio.run(wait_for_all())


@pytest.mark.rule("X6", "X4")
def test_fences_closed_the_moment_that_their_work_is_done_crash_no_driver(peers: Peers) -> None:
    peer = peers(validation=False)  # in a process of its own: a driver that touches a freed semaphore ends it
    assert peer.run(access_patterns.churn_fences, peer.device, rounds(120, 2)) > 100


# ---- X10 -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("X10", "X1")
def test_an_opened_fence_follows_and_cannot_signal_wherever_it_is_opened(vks_open: Open, peers: Peers) -> None:
    device, peer = vks_open(), peers()
    fence = device.create_fence(3)
    theirs = followed(fence, peer.device)
    assert theirs.is_follower
    assert theirs.value == 3
    for attempt in (
        lambda: theirs.signal(4),
        lambda: peer.device.submit(signals=theirs),
        lambda: peer.device.submit(signals=(theirs, 9)),
    ):
        with pytest.raises(InvalidCallError):
            attempt()
    assert (fence.value, fence.queued_value) == (3, 3)
    fence.signal(7)
    theirs.wait(7, 5)
    device.submit(signals=(fence, 9))
    theirs.wait(9, 5)
    assert theirs.value == 9


@pytest.mark.rule("X10", "K20")
def test_a_follower_of_a_follower_can_be_opened_by_a_third_process(vks_open: Open, peers: Peers) -> None:
    device, second, third = vks_open(), peers(), peers()
    fence = device.create_fence()
    theirs = followed(fence, second.device)
    further = followed(theirs, third.device)
    fence.signal(5)
    further.wait(5, 5)
    second.kill()
    assert not second.is_running(5)
    fence.signal(6)
    further.wait(6, 5)
    fence.close()
    with pytest.raises(AbandonedError):
        further.wait(7, 5)


@pytest.mark.rule("X2", "X10")
def test_no_counter_falls_however_and_from_where_it_is_read(vks_open: Open, peers: Peers) -> None:
    one, two, peer = vks_open(), vks_open(), peers()
    fence = one.create_fence()
    with fence.export() as descriptor:
        readers: list[Any] = [two.open_fence(descriptor), fence]
        theirs = peer.device.open_fence(descriptor)
    signals = 400
    watched = later(theirs.wait, signals, 60)
    fallen: list[str] = []

    def watch(what: Any) -> None:
        last = 0
        while last < signals and not fallen:
            now = what.value
            if now < last:
                fallen.append(f"{what!r} fell from {last} to {now}")
            last = now

    threads = [threading.Thread(target=watch, args=(what,)) for what in readers]
    for thread in threads:
        thread.start()
    for value in range(1, signals + 1):
        if value % 3:
            one.submit(signals=(fence, value))
        else:
            fence.signal(value)
    for thread in threads:
        thread.join(60)
    assert fallen == []
    watched.result(10)


@pytest.mark.rule("X2", "X24")
def test_one_signal_wakes_every_waiter_of_its_value(vks_open: Open, peers: Peers) -> None:
    one, two = vks_open(), vks_open()
    fence = one.create_fence()
    with fence.export() as descriptor:
        follower = two.open_fence(descriptor)
        far = [peers().device.open_fence(descriptor) for _ in range(2)]
    # Longer than result() waits: at its end a wait that was not woken finds the value, too.
    calls = [later(waited_for.wait, 1, 600) for waited_for in [fence] * 6 + [follower] * 6 + far]
    time.sleep(0.05)
    assert not any(call.done() for call in calls)
    fence.signal(1)
    for call in calls:
        call.result(10)
