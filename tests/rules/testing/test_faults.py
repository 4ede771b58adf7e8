"""Faults as fixtures: processes killed in a state, releases that come late, devices that are lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support import access_patterns
from support.peer_processes import Peer

import vkshare as vks
from vkshare.testing import faults

pytest_plugins = ["support.peer_processes"]
pytestmark = [pytest.mark.rule("E20"), pytest.mark.driver_dependent]

Open = Callable[..., vks.Device]
Peers = Callable[..., Peer]


def opened(surface: vks.Surface, device: Any) -> Any:
    with surface.export() as descriptor:
        return device.open_surface(descriptor)


# ---- vks_kill ----------------------------------------------------------------------------------------------------


def test_an_owner_is_killed_while_it_owns(vks_open: Open, peers: Peers, vks_kill: Any) -> None:
    surface, peer = vks_open().create_surface(16, 16), peers()
    theirs = opened(surface, peer.device)
    peer.later(take_turns, theirs)
    killed = vks_kill(peer, at="owned", surface=surface)
    assert (killed.pid, killed.at) == (peer.pid, "owned")
    assert not peer.is_running()
    with pytest.raises(vks.AbandonedError):
        surface.acquire(0, 5)
    surface.recover()


def take_turns(surface: Any) -> None:
    """Owns the surface for moments, again and again."""
    while True:
        surface.acquire(0)
        surface.release(0)


def test_a_waiter_is_killed_while_it_waits(vks_open: Open, peers: Peers, vks_kill: Any) -> None:
    surface, peer = vks_open().create_surface(16, 16), peers()
    theirs = opened(surface, peer.device)
    surface.acquire(0)
    theirs.acquire.later(7)
    killed = vks_kill(peer, at="waiting")
    assert killed.key == 7
    assert not peer.is_running()
    assert surface.is_owned, "the death of a waiter changes nothing"
    surface.release(0)


def test_a_party_is_killed_with_announced_work(vks_open: Open, peers: Peers, vks_kill: Any) -> None:
    surface, peer = vks_open().create_surface(16, 16), peers()
    theirs = opened(surface, peer.device)
    fence = peer.device.create_fence()
    peer.run(release_with_held_work, theirs, fence)
    killed = vks_kill(peer, at="submitted", surface=surface)
    assert killed.surface_id
    with pytest.raises(vks.AbandonedError):
        take_over(surface)
    surface.recover()


def take_over(surface: vks.Surface) -> None:
    """Owns the surface and reads it; where the death is not known yet at the acquire, the read finds it."""
    surface.acquire(1, 5)
    surface.read(5)


def release_with_held_work(surface: Any, fence: Any) -> None:
    """Draws work that waits for a value without a signaller, and passes the surface on."""
    surface.acquire(0)
    surface.device.submit(surface.device.record().clear(surface, (1, 0, 0, 1)), waits=(fence, 1))
    surface.release(1)


def test_a_process_that_ended_and_a_state_that_does_not_come_are_errors(
    vks_open: Open, peers: Peers, vks_kill: Any
) -> None:
    surface, peer = vks_open().create_surface(16, 16), peers()
    theirs = opened(surface, peer.device)
    with pytest.raises(TimeoutError, match=r"was not owned in time; it shares 1 surfaces: 16x16 free, key 0"):
        vks_kill(peer, at="owned", timeout=0.05)
    other = vks_open().create_surface(8, 8)
    theirs.acquire(0)
    with pytest.raises(TimeoutError, match="it shares 1 surfaces: 16x16 owned, key 0"):
        vks_kill(peer, at="owned", surface=other, timeout=0.05)
    assert peer.run(access_patterns.open_fds) > 0, "it still runs"
    with pytest.raises(ValueError, match="at is 'released'; allowed are now, waiting, owned, submitted"):
        vks_kill(peer, at="released")
    assert vks_kill(peer).at == "now"
    assert not peer.is_running()
    with pytest.raises((vks.InvalidCallError, ProcessLookupError)):
        vks_kill(peer, at="owned")


def test_a_process_that_left_the_state_goes_on(vks_open: Open, peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = peers()
    looks: list[str] = []

    def look(pid: int, at: str, surface_id: int) -> faults.Killed | None:
        looks.append(at)
        return faults.Killed(pid, at, 1, 0) if len(looks) % 2 else None  # seen, and gone once the process has stopped

    monkeypatch.setattr(faults, "_look", look)
    with pytest.raises(TimeoutError):
        faults.kill(peer, "owned", timeout=0.2)
    assert len(looks) > 1
    assert peer.run(access_patterns.open_fds) > 0, "it was stopped for ever"


# ---- vks_delay ---------------------------------------------------------------------------------------------------


@pytest.mark.no_driver
def test_a_release_comes_late_also_that_of_a_with_block(vks_open: Open, vks_delay: Any) -> None:
    surface = vks_open().create_surface(8, 8)
    other = opened(surface, vks_open())
    late = vks_delay(surface.release, 60)
    begun = threading.Event()

    def own() -> None:
        with surface.access(acquire=0, release=1):
            begun.set()

    owner = threading.Thread(target=own)
    owner.start()
    assert begun.wait(10)
    with pytest.raises(vks.AcquireTimeout):
        other.acquire(1, 0.05)
    late.end()
    other.acquire(1, 10)
    owner.join(10)
    assert late.calls == 1
    other.release(0)


@pytest.mark.no_driver
def test_a_delay_ends_with_its_block(vks_open: Open) -> None:
    surface = vks_open().create_surface(8, 8)
    with faults.delay(surface.release, 0) as outer:
        with faults.delay(surface.release, 0) as inner:
            surface.acquire(0)
            surface.release(0)
        surface.acquire(0)
        surface.release(0)
    surface.acquire(0)
    surface.release(0)
    assert (outer.calls, inner.calls) == (2, 1)
    assert "release" not in vars(surface)


@pytest.mark.no_driver
def test_a_delay_waits_for_its_seconds(monkeypatch: pytest.MonkeyPatch, vks_open: Open) -> None:
    surface = vks_open().create_surface(8, 8)
    slept: list[float | None] = []
    monkeypatch.setattr(threading.Event, "wait", lambda self, timeout=None: slept.append(timeout))
    with faults.delay(surface.release, 0.25):
        surface.acquire(0)
        surface.release(0)
    assert 0.25 in slept


@pytest.mark.no_driver
def test_what_cannot_be_delayed_is_refused(vks_open: Open) -> None:
    refused: list[Any] = [time.sleep, 3, [].append]
    for wrong in refused:
        with pytest.raises(TypeError, match="must be a bound method"), faults.delay(wrong, 1):
            pass
    surface = vks_open().create_surface(8, 8)
    with pytest.raises(ValueError, match="seconds is -1"), faults.delay(surface.release, -1):
        pass


# ---- vks_device_lost ---------------------------------------------------------------------------------------------


def test_a_lost_device_fails_and_its_surfaces_are_abandoned(
    vks_open: Open, vks_device: vks.Device, vks_device_lost: Any
) -> None:
    surface = vks_device.create_surface(8, 8)
    other = opened(surface, vks_open())
    surface.acquire(0)
    vks_device_lost(vks_device)
    assert vks_device.is_lost
    with pytest.raises(vks.DeviceLostError):
        vks_device.submit(vks_device.record())
    with pytest.raises(vks.AbandonedError):
        other.acquire(0, 5)
    other.recover()


@pytest.mark.no_driver
def test_a_stopped_process_is_seen_as_stopped(peers: Peers) -> None:
    peer = peers()
    assert not faults._wait_until_stopped(peer.pid, time.monotonic() + 0.02)
    peer.signal(signal.SIGSTOP)
    assert faults._wait_until_stopped(peer.pid, time.monotonic() + 10)
    peer.signal(signal.SIGCONT)
