"""Ctrl-C and other signals: every call that can wait ends at once and changes nothing; deadlines stay exact."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support import access_patterns
from support.peer_processes import Peer, PeerDied, later
from support.shared_handles import opened
from support.time_limits import HANG, Measured, at_least

import vkshare as vks

pytest_plugins = ["support.peer_processes"]

# Things that a test leaves open, its device's fixture closes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <vkshare:ResourceWarning")

Open = Callable[..., vks.Device]
LIMIT = 0.1  # seconds from Ctrl-C to KeyboardInterrupt (rules X8, K28)


class Scene:
    """Two parties, a surface that the other one owns, and work that waits for a fence of the other."""

    def __init__(self, vks_open: Open) -> None:
        self.device, self.other = vks_open(held_limit=4), vks_open()
        self.gate = self.other.create_fence()
        with self.gate.export() as descriptor:
            self.follower = self.device.open_fence(descriptor)
        self.fence = self.device.create_fence()
        self.theirs = self.other.create_surface(16, 16)
        self.blocked, self.busy = self._mine(self.theirs), self.device.create_surface(16, 16)
        self.theirs.acquire(0, 0)
        self.busy.acquire(0, 0)
        self.held = access_patterns.clear(self.busy, 3, waits=(self.follower, 1))
        self.broken = self._in_debt()

    def _mine(self, surface: vks.Surface) -> vks.Surface:
        with surface.export() as descriptor:
            return self.device.open_surface(descriptor)

    def _in_debt(self) -> vks.Surface:
        """Abandoned, while a living party still has pending work on it: recover() waits for that."""
        surface = self.other.create_surface(16, 16)
        mine = self._mine(surface)
        surface.acquire(0, 0)
        self.promise = access_patterns.clear(surface, 4, waits=(self.gate, 1))
        surface.release(1)
        mine.acquire(1, 5)
        mine.close()
        self.indebted = surface
        return self._mine(surface)

    def end(self) -> None:
        """Whatever was interrupted, all goes on."""
        self.gate.signal(1)
        self.held.wait(5)
        pixels = self.busy.read()
        assert (
            access_patterns.is_clear(pixels, 3) or (pixels == access_patterns.picture(pixels.shape, 1)).all()
        )  # Surface.write came through
        assert not self.blocked.is_owned
        self.theirs.release(5)
        self.blocked.acquire(5, 5)
        self.device.wait_idle(5)


CALLS: dict[str, Callable[[Scene], Any]] = {
    "Fence.wait": lambda scene: scene.fence.wait(1),
    "Fence.wait of a follower": lambda scene: scene.follower.wait(1, 60),
    "Surface.acquire": lambda scene: scene.blocked.acquire(5),
    "Surface.acquire with a timeout": lambda scene: scene.blocked.acquire(5, 60),
    "Surface.access": lambda scene: scene.blocked.access(acquire=5).__enter__(),
    "Surface.read": lambda scene: scene.busy.read(),
    "Surface.write": lambda scene: scene.busy.write(access_patterns.picture(scene.busy.shape, 1)) or scene.busy.read(),
    "Surface.recover": lambda scene: scene.broken.recover(),
    "Submission.wait": lambda scene: scene.held.wait(),
    "Device.wait_idle": lambda scene: scene.device.wait_idle(),
    "Device.submit past its bound": lambda scene: [
        scene.device.submit(waits=(scene.follower, 1)) for _ in range(scene.device.statistics().held_limit + 1)
    ],
    "Fence.wait_async": lambda scene: asyncio.run(scene.fence.wait_async(1)),
    "Surface.acquire_async": lambda scene: asyncio.run(scene.blocked.acquire_async(5)),
}


@contextmanager
def ctrl_c(after: float, sent: list[float]) -> Iterator[None]:
    """Sends SIGINT to this process `after` seconds after the block has begun, and appends the time to `sent`."""
    begun = threading.Event()

    def send() -> None:
        begun.wait()
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()  # on a busy machine this may take longer than `after`
    try:
        begun.set()
        yield
    finally:
        thread.join()


@pytest.mark.rule("X8", "K28", "K15")
@pytest.mark.serial
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_ends_a_wait_within_100_ms_and_leaves_everything_as_it_was(
    vks_open: Open, name: str, measured: Measured
) -> None:
    scene = Scene(vks_open)
    before = scene.theirs.mutex.statistics()

    def interrupted() -> float:
        sent: list[float] = []
        with pytest.raises(KeyboardInterrupt), ctrl_c(0.03, sent):
            CALLS[name](scene)
        return time.monotonic() - sent[0]

    measured(interrupted, LIMIT)
    assert scene.theirs.mutex.statistics() == before
    scene.end()


@pytest.mark.rule("X8")
def test_waits_let_other_threads_of_python_run(vks_open: Open) -> None:
    scene = Scene(vks_open)
    for name, call in (
        ("fence", lambda: scene.follower.wait(1, 0.2)),
        ("surface", lambda: scene.blocked.acquire(5, 0.2)),
        ("submission", lambda: scene.held.wait(0.2)),
        ("idle", lambda: scene.device.wait_idle(0.2)),
        ("recover", lambda: scene.broken.recover(0.2)),
    ):
        waits = later(call)
        ticks = 0
        while not waits.done():
            ticks += 1
            time.sleep(0.001)
        with pytest.raises(TimeoutError):
            waits.result()
        assert ticks > 2, name  # with the GIL held there is one, before the wait or after it
    scene.end()


@pytest.mark.rule("K28", "K9")
def test_ctrl_c_ends_a_waiting_process_and_its_peers_go_on(vks_open: Open, peers: Callable[..., Peer]) -> None:
    surface = vks_open().create_surface(8, 8)
    peer = peers()
    with surface.export() as descriptor:
        theirs = peer.device.open_surface(descriptor)
    surface.acquire(0, 0)
    waits = later(theirs.acquire, 1)
    deadline = time.monotonic() + 10
    while not surface.mutex.statistics().waiters and time.monotonic() < deadline:
        time.sleep(0.001)
    peer.signal(signal.SIGINT)
    with pytest.raises((KeyboardInterrupt, PeerDied)):
        waits.result(5)
    assert not surface.mutex.statistics().waiters
    surface.release(1)
    theirs.acquire(1, 5)


@pytest.mark.rule("X19", "K9")
def test_a_signal_at_the_moment_of_a_look_does_not_make_a_living_owner_dead(
    vks_open: Open, peers: Callable[..., Peer]
) -> None:
    surface = vks_open().create_surface(8, 8)
    peer = peers()
    with surface.export() as descriptor:
        theirs = peer.device.open_surface(descriptor)
    surface.acquire(0, 0)
    assert peer.run(access_patterns.poll_under_signals, theirs, 0.5) > 1000
    surface.release(1)


# ---- deadlines -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("X7", "K12")
def test_a_storm_of_signals_neither_ends_nor_stretches_a_wait(vks_open: Open) -> None:
    scene = Scene(vks_open)
    count = 0

    def count_them(*_: object) -> None:
        nonlocal count
        count += 1

    previous = signal.signal(signal.SIGALRM, count_them)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for call in (
            lambda: scene.fence.wait(1, 0.2),
            lambda: scene.follower.wait(1, 0.2),
            lambda: scene.blocked.acquire(5, 0.2),
            lambda: scene.held.wait(0.2),
            lambda: scene.device.wait_idle(0.2),
        ):
            with at_least(0.2), pytest.raises(TimeoutError):  # started anew by each signal, it would never end
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert count > 20
    scene.end()


@pytest.mark.rule("X7")
@pytest.mark.serial
def test_deadlines_are_kept_within_5_ms_on_an_idle_machine(vks_open: Open, measured: Measured) -> None:
    scene = Scene(vks_open)
    calls: dict[str, Callable[[float], Any]] = {
        "fence": lambda timeout: scene.fence.wait(1, timeout),
        "follower": lambda timeout: scene.follower.wait(1, timeout),
        "surface": lambda timeout: scene.blocked.acquire(5, timeout),
        "submission": lambda timeout: scene.held.wait(timeout),
    }
    for call in calls.values():
        measured(lambda call=call: _lateness(call), 0.005)  # type: ignore[misc]
    scene.end()


def _lateness(call: Callable[[float], Any]) -> float:
    """The median of what comes on top of several timeouts."""
    late = []
    for timeout in (0.001, 0.003, 0.01, 0.02, 0.05) * 3:
        start = time.monotonic()
        with at_least(timeout), pytest.raises(TimeoutError):
            call(timeout)
        late.append(time.monotonic() - start - timeout)
    return statistics.median(late)


@pytest.mark.rule("X7", "K12")
def test_a_timeout_of_0_tests_and_returns(vks_open: Open) -> None:
    scene = Scene(vks_open)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: scene.fence.wait(1, 0),
        lambda: scene.follower.wait(1, 0),
        lambda: scene.blocked.acquire(5, 0),
        lambda: scene.held.wait(0),
        lambda: scene.device.wait_idle(0),
    )
    for call in calls:
        for _ in range(100):
            with pytest.raises(TimeoutError):
                call()
    scene.fence.signal(1)
    scene.fence.wait(1, 0)
    scene.end()


@pytest.mark.rule("X7")
def test_huge_and_infinite_timeouts_never_expire(vks_open: Open) -> None:
    device = vks_open()
    fence = device.create_fence()
    for turn, timeout in enumerate((1e9, 1e30, float("inf"), None), start=1):
        waits = later(fence.wait, turn, timeout)
        assert not waits.done(0.03)
        fence.signal(turn)
        waits.result(5)


@pytest.mark.rule("K28", "X8")
@pytest.mark.parametrize("what", ["surface", "fence"])
def test_a_signal_that_comes_before_the_wait_has_gone_to_sleep_is_heard_too(vks_open: Open, what: str) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    one, two = vks_open(), vks_open()
    surface, fence = one.create_surface(8, 8), one.create_fence()
    other = opened(surface, two)
    surface.acquire(0, 0)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for turn in range(16):  # a waiter spins for some 50 us, where no system call could be interrupted
            with pytest.raises(Interrupted):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, (20 + 8 * turn) * 1e-6)
                other.acquire(1, HANG) if what == "surface" else fence.wait(1, HANG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert not other.is_owned
    surface.release(1)
    other.acquire(1, 5)
