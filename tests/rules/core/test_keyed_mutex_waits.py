"""Waiting to own a surface: the threads that a release wakes, and the state after a wait in vain."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import access_patterns
from support.handle_pairs import Pair
from support.peer_processes import Peer, later
from support.run_volumes import rounds, seeded, unhurried
from support.shared_handles import later_where, opened, wait_until
from support.time_limits import HANG, at_least

import vkshare as vks
from vkshare.errors import AbandonedError, AcquireTimeout

pytest_plugins = ["support.peer_processes", "support.handle_pairs"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = [pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning"), unhurried]

Open = Callable[..., vks.Device]
WAITERS = 8


def handles(surface: vks.Surface, device: Any, count: int) -> list[Any]:
    """More handles of the surface, on that device."""
    with surface.export() as descriptor:
        return [device.open_surface(descriptor) for _ in range(count)]


def waiting(surface: vks.Surface) -> int:
    """How many handles wait to own it."""
    return len(surface.mutex.statistics().waiters)


@pytest.fixture(params=["threads", "processes"])
def eight(request: pytest.FixtureRequest, vks_open: Open) -> tuple[vks.Surface, list[Any]]:
    """A surface and eight more handles of it, each for a thread of its own or in a process of its own."""
    surface = vks_open(name="maker").create_surface(8, 8)
    if request.param == "threads":
        device = vks_open(name="waiters")
        return surface, handles(surface, device, WAITERS)
    peers: Callable[..., Peer] = request.getfixturevalue("peers")
    return surface, [handles(surface, peers().device, 1)[0] for _ in range(WAITERS)]


# ---- who is admitted -------------------------------------------------------------------------------------------------


@pytest.mark.rule("K10")
def test_one_release_admits_exactly_one_of_many_waiters_and_all_are_served_in_the_end(
    eight: tuple[vks.Surface, list[Any]],
) -> None:
    surface, others = eight
    surface.acquire(0, 0)
    pending = {other: later(other.acquire, 7, 60) for other in others}
    wait_until(lambda: waiting(surface) == WAITERS)
    surface.release(7)
    while pending:
        wait_until(lambda: any(call.done() for call in pending.values()))
        time.sleep(0.01)
        served = [other for other, call in pending.items() if call.done()]
        assert len(served) == 1
        pending.pop(served[0]).result()
        assert served[0].is_owned
        assert waiting(surface) == len(pending)
        served[0].release(7)
    surface.acquire(7, 0)


@pytest.mark.rule("K10", "K15", "K29", "K16")
def test_there_are_never_two_owners_and_never_a_success_that_does_not_own(
    eight: tuple[vks.Surface, list[Any]], tmp_path: Path
) -> None:
    surface, others = eight
    flag = tmp_path / "owned"
    flag.write_bytes(b"\0")
    turns = rounds(10_000, 150)
    dice = seeded()
    before = surface.mutex.statistics().value
    surface.acquire(0, 0)
    surface.release(7)
    calls = []
    for other in others:
        calls.append(later_where(other)(access_patterns.contend, other, str(flag), dice.getrandbits(32), turns))
    for call in calls:
        call.result(600)
    reported = surface.mutex.statistics()
    assert (reported.state, reported.key, reported.waiters) == ("free", 7, ())
    assert reported.value == before + 1 + WAITERS * turns


@pytest.mark.rule("K11")
def test_a_release_admits_no_waiter_of_another_key(pair: Pair) -> None:
    # The core sorts waiters into 31 buckets by a hash of the key: among 40 keys some must share one.
    keys = [1 << bit for bit in range(0, 64, 4)] + list(range(40, 64))
    dice = random.Random(11)
    dice.shuffle(keys)
    pair.a.acquire(0, 0)
    if pair.way == "two processes":
        keys = keys[:1]  # a peer does one thing at a time; its own waiter is on the last key
    waiters = {key: pair.b if pair.way == "two processes" else pair.another() for key in keys}
    pending = {key: later(handle.acquire, key, 60) for key, handle in waiters.items()}
    wait_until(lambda: waiting(pair.a) == len(keys))
    near = {key + 1 for key in keys} | {key ^ 1 << 32 for key in keys}
    for wrong in ({0, 3, 1 << 63 | 1, 2**64 - 1} | near) - set(keys):
        pair.a.release(wrong)
        pair.a.acquire(wrong, 0)
    time.sleep(0.02)
    assert not any(call.done() for call in pending.values())
    owner, last = pair.a, 0
    for key in keys:
        owner.release(key)
        pending.pop(key).result(10)
        assert not any(call.done() for call in pending.values())
        owner, last = waiters[key], key
    owner.release(last)


@pytest.mark.rule("K8")
def test_abandonment_wakes_the_waiters_of_every_key_and_those_that_wait_for_ever(pair: Pair) -> None:
    owner = pair.another()
    owner.acquire(0, 0)
    mine = handles(pair.a, pair.device_a, 6)
    waits = [(mine[0], 0, None), (mine[1], 1, None), (mine[2], 2, 60), (mine[3], 1 << 63, None), (mine[4], 77, 60)]
    if pair.way != "two processes":  # where the owner lives, in this process, no thread may wait busily
        waits.append((pair.b, 5, None))
    calls = [later(handle.acquire, key, timeout) for handle, key, timeout in waits]
    wait_until(lambda: waiting(pair.a) == len(waits))
    owner.close()
    for call in calls:
        with pytest.raises(AbandonedError):
            call.result(5)
    assert waiting(pair.a) == 0


@pytest.mark.rule("K8")
def test_abandonment_by_a_party_here_wakes_waiters_in_other_processes(
    vks_open: Open, peers: Callable[..., Peer]
) -> None:
    device = vks_open()
    surface = device.create_surface(8, 8)
    others = [handles(surface, peers().device, 1)[0] for _ in range(3)]
    owner = handles(surface, device, 1)[0]
    owner.acquire(0, 0)
    waits = zip(others, (0, 9, 1 << 40), (None, 60, None), strict=True)
    calls = [later(other.acquire, key, timeout) for other, key, timeout in waits]
    wait_until(lambda: waiting(surface) == 3)
    owner.close()
    for call in calls:
        with pytest.raises(AbandonedError):
            call.result(5)


# ---- timeouts ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("K12")
def test_releases_of_other_keys_do_not_restart_a_deadline(pair: Pair) -> None:
    pair.a.acquire(0, 0)
    start = time.monotonic()
    call = later(pair.b.acquire, 5, 0.25)
    key = 1
    while not call.done() and time.monotonic() - start < HANG:
        pair.a.release(key)
        pair.a.acquire(key, 0)
        key = key % 4 + 1
        time.sleep(0.001)
    assert call.done(), "each release restarted it"
    with pytest.raises(AcquireTimeout):
        call.result()


@pytest.mark.rule("K13")
def test_no_timeout_never_expires(pair: Pair) -> None:
    pair.a.acquire(0, 0)
    call = later(pair.b.acquire, 1)
    assert not call.done(0.3)
    pair.a.release(1)
    call.result(5)
    assert pair.b.is_owned


@pytest.mark.rule("K12", "K15")
def test_an_acquire_that_times_out_leaves_everything_as_it_was(pair: Pair) -> None:
    pair.a.acquire(0, 0)
    pair.a.release(3)
    before = pair.a.mutex.statistics()
    for key, timeout in ((0, 0), (2, 0.002), (1 << 40, 0.02)):
        with at_least(timeout), pytest.raises(AcquireTimeout, match=str(key)):
            pair.b.acquire(key, timeout)
    assert pair.a.mutex.statistics() == before
    pair.b.acquire(3, 0)


@pytest.mark.rule("K15", "K29")
def test_a_timeout_at_the_moment_of_a_release_swallows_nothing(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    giver = one.create_surface(8, 8)
    hasty, patient = handles(giver, two, 2)
    dice = seeded()
    turns = rounds(10_000, 300)
    outcomes = {"hasty": 0, "patient": 0}
    giver.acquire(0, 0)
    for _ in range(turns):
        pause = dice.uniform(0, 4e-4)
        starts = [lambda: later(patient.acquire, 1, 30), lambda: later(_try, hasty, 1, dice.uniform(1e-5, 8e-4))]
        first = dice.randrange(2)  # who comes first is mostly served first
        calls = {first: starts[first](), 1 - first: starts[1 - first]()}
        end = time.perf_counter() + pause
        while time.perf_counter() < end:
            time.sleep(0)
        giver.release(1)
        owner = hasty if calls[1].result(30) else patient
        outcomes["hasty" if owner is hasty else "patient"] += 1
        assert hasty.is_owned == (owner is hasty)
        if owner is hasty:
            hasty.release(1)
        calls[0].result(30)  # the wake-up may not have been lost with the one that timed out
        patient.release(0)
        giver.acquire(0, 30)
    assert min(outcomes.values()) >= turns // 100, f"the race was not run: {outcomes}"


def _try(surface: vks.Surface, key: int, timeout: float) -> bool:
    try:
        surface.acquire(key, timeout)
    except AcquireTimeout:
        return False
    return True


@pytest.mark.rule("K19")
def test_threads_of_one_handle_that_wait_together_share_one_ownership(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    other = handles(surface, two, 1)[0]
    surface.acquire(0, 0)
    outcomes: list[str] = []

    def wait() -> None:
        try:
            other.acquire(1, 10)
            outcomes.append("owned")
        except vks.InvalidCallError:
            outcomes.append("is owned already")

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: waiting(surface) == 1)
    time.sleep(0.02)
    surface.release(1)
    wait_until(lambda: "owned" in outcomes)
    assert outcomes.count("owned") == 1
    # The others wait on, for the key, or get the error that their handle owns: never are there two owners at once.
    while any(thread.is_alive() for thread in threads):
        if other.is_owned:
            other.release(1)
        time.sleep(0.01)
    assert set(outcomes) <= {"owned", "is owned already"}
    assert len(outcomes) == 4


@pytest.mark.rule("K12")
def test_wake_ups_by_newcomers_do_not_restart_a_deadline(vks_open: Open) -> None:
    one, two = vks_open(), vks_open()
    surface = one.create_surface(8, 8)
    other = opened(surface, two)
    surface.acquire(0, 0)
    start = time.monotonic()
    call = later(other.acquire, 5, 0.3)
    with surface.export() as descriptor:
        while not call.done(0.01) and time.monotonic() - start < HANG:
            one.open_surface(descriptor).close()  # wakes every sleeper: there is one more to watch, and one less
    assert call.done(), "each newcomer restarted it"
    with pytest.raises(AcquireTimeout):
        call.result()
